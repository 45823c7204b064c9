//! Times of the service that backends call: plans from memory, threads, executions through the C ABI, and what a million
//! of them leave behind.
//!
//! ```sh
//! cargo bench --bench runtime
//! ```
//!
//! It needs a GPU and NVRTC; without them it says what is missing.
#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::ffi::c_void;
use std::ptr;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use cudarc::cudnn::sys::cudnnBackendAttributeName_t as Name;
use cudarc::cudnn::sys::cudnnBackendAttributeType_t as Type;
use cudarc::cudnn::sys::cudnnBackendDescriptorType_t as Kind;
use cudarc::cudnn::sys::cudnnStatus_t as Status;
use fusewright::capi::*;
use fusewright::graph::{DataType, FinalizedGraph, Graph, PointwiseMode, Tensor};
use fusewright::plan::{DeviceBuffer, Stream, VariantPack, WORKSPACE_ALIGNMENT, Workspace};
use fusewright::session::{Session, SessionOptions};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const PLANS: i64 = 1000;
const THREADS: [usize; 5] = [1, 2, 4, 8, 16];
const EXECUTIONS: usize = 1_000_000;

/// Executions between two waits: fewer than a stream takes before it blocks its caller.
const BURST: usize = 200;

fn main() -> Result<()> {
    let session = match Session::open(0, SessionOptions::default()) {
        Ok(session) => Arc::new(session),
        Err(error) => {
            println!("runtime: {error}");
            return Ok(());
        }
    };
    make_current()?;
    println!("{}, {} cores", session.device().name, std::thread::available_parallelism()?);
    plans(&session)?;
    executions(&session)
}

/// Makes the device's primary context current on this thread, as it is in every program of the CUDA runtime.
fn make_current() -> Result<()> {
    use cudarc::driver::result::{ctx, device, primary_ctx};
    // SAFETY: the driver is there, as a session was opened; the context is retained until the end.
    unsafe { ctx::set_current(primary_ctx::retain(device::get(0)?)?) }?;
    Ok(())
}

/// relu(A·B) of [1, 128, 64] and [1, 64, 128], HALF in FLOAT; its uids begin with the one given.
fn matmul(uid: i64) -> Result<Arc<FinalizedGraph>> {
    let mut graph = Graph::new().io_data_type(DataType::Half).intermediate_data_type(DataType::Float);
    graph = graph.compute_data_type(DataType::Float);
    let a = graph.tensor(Tensor::new("A").uid(uid).row_major([1, 128, 64]));
    let b = graph.tensor(Tensor::new("B").uid(uid + 1).row_major([1, 64, 128]));
    let c = graph.matmul("mm", a, b);
    let y = graph.pointwise("relu", PointwiseMode::ReluFwd, &[c]);
    graph.set_output(y).uid = Some(uid + 2);
    Ok(Arc::new(graph.finalize()?))
}

/// Plans that are there already, asked for by more and more threads at once.
fn plans(session: &Arc<Session>) -> Result<()> {
    let graphs = (0..PLANS).map(|number| matmul(number * 3 + 1)).collect::<Result<Vec<_>>>()?;
    let start = Instant::now();
    for graph in &graphs {
        session.plan(graph)?;
    }
    println!("{PLANS} plans built, of one kernel: {:.1} ms, {:?}", ms(start.elapsed()), session.stats());
    for threads in THREADS {
        let barrier = Barrier::new(threads + 1);
        let rounds = 20;
        let elapsed = std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    barrier.wait();
                    let mut graphs = graphs.iter().cycle().take(graphs.len() * rounds);
                    let are_there = graphs.all(|graph| session.check(graph).is_ok() && session.plan(graph).is_ok());
                    barrier.wait();
                    assert!(are_there, "every plan was there");
                });
            }
            let start = Instant::now();
            barrier.wait();
            barrier.wait();
            start.elapsed()
        });
        let each = elapsed.as_secs_f64() / (graphs.len() * rounds) as f64;
        let rate = threads as f64 / each / 1e6;
        println!("check + plan from memory, {threads} threads: {:.2} µs each, {rate:.2} million a second", each * 1e6);
    }
    Ok(())
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Panics where a call of the ABI fails.
fn succeed(status: Status) {
    assert_eq!(status, Status::CUDNN_STATUS_SUCCESS);
}

/// A descriptor, with attributes that are set by their types.
struct Descriptor(*mut c_void);

impl Descriptor {
    fn new(kind: Kind) -> Self {
        let mut made = ptr::null_mut();
        // SAFETY: there is room for one pointer.
        succeed(unsafe { cudnnBackendCreateDescriptor(kind as u32, &raw mut made) });
        Self(made)
    }

    fn set<T>(self, name: Name, of_type: Type, elements: &[T]) -> Self {
        let (count, elements) = (elements.len() as i64, elements.as_ptr().cast());
        // SAFETY: the callers give elements of the type that they name.
        succeed(unsafe { cudnnBackendSetAttribute(self.0, name as u32, of_type as u32, count, elements) });
        self
    }

    fn finalize(self) -> Self {
        succeed(cudnnBackendFinalize(self.0));
        self
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        succeed(cudnnBackendDestroyDescriptor(self.0));
    }
}

fn pack(uids: &[i64], pointers: &[u64], workspace: u64) -> Descriptor {
    Descriptor::new(Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
        .set(Name::CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, Type::CUDNN_TYPE_INT64, uids)
        .set(Name::CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, Type::CUDNN_TYPE_VOID_PTR, pointers)
        .set(Name::CUDNN_ATTR_VARIANT_PACK_WORKSPACE, Type::CUDNN_TYPE_VOID_PTR, &[workspace])
        .finalize()
}

/// Host time of executions through the ABI, and what many of them leave.
fn executions(session: &Session) -> Result<()> {
    let direct = session.plan(&matmul(1)?)?;
    let text = direct.binary().to_json();
    let context = session.context().ok_or("a GPU is open")?;
    let stream = Stream::new(context)?;
    let buffers = (0..4)
        .map(|_| DeviceBuffer::new(context, 1 << 20, WORKSPACE_ALIGNMENT))
        .collect::<std::result::Result<Vec<_>, _>>()?;
    let pointers: Vec<u64> = buffers.iter().map(|buffer| buffer.pointer().address()).collect();
    let mut handle = ptr::null_mut();
    // SAFETY: there is room for one pointer.
    succeed(unsafe { cudnnCreate(&raw mut handle) });
    // SAFETY: the stream is of the device, and lives longer than the handle.
    succeed(unsafe { cudnnSetStream(handle, stream.as_raw()) });
    let plan = Descriptor::new(Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
        .set(Name::CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, Type::CUDNN_TYPE_CHAR, text.as_bytes())
        .set(Name::CUDNN_ATTR_EXECUTION_PLAN_HANDLE, Type::CUDNN_TYPE_HANDLE, &[handle])
        .finalize();
    let new_pack = || pack(&[1, 2, 3], &pointers[..3], pointers[3]);
    let one = new_pack();
    // SAFETY: the buffers are larger than the tensors, and outlive the executions.
    let execute = |pack: &Descriptor| succeed(unsafe { cudnnBackendExecute(handle, plan.0, pack.0) });
    let wait = || stream.wait(Duration::from_secs(10));
    let burst = |run: &dyn Fn()| -> Result<f64> {
        let mut times = Vec::new();
        for _ in 0..100 {
            let start = Instant::now();
            (0..BURST).for_each(|_| run());
            times.push(start.elapsed().as_secs_f64() * 1e6 / BURST as f64);
            wait()?;
        }
        times.sort_unstable_by(f64::total_cmp);
        Ok(times[times.len() / 2])
    };
    let mut variants = VariantPack::new();
    for (uid, buffer) in (1..).zip(&buffers[..3]) {
        variants.set_pointer(uid, buffer.pointer());
    }
    let workspace = Workspace { pointer: buffers[3].pointer(), bytes: 1 << 20 };
    let mut cuda_graph = direct.instantiate(&variants, workspace)?;
    let mut launches = Vec::new();
    for _ in 0..100 {
        let start = Instant::now();
        for _ in 0..BURST {
            // SAFETY: it is bound to the buffers, which are as long as its tensors, and live on.
            unsafe { cuda_graph.launch(&stream) }?;
        }
        launches.push(start.elapsed().as_secs_f64() * 1e6 / BURST as f64);
        wait()?;
    }
    launches.sort_unstable_by(f64::total_cmp);
    println!("CudaGraph::launch: {:.2} µs of host time", launches[launches.len() / 2]);
    // SAFETY: the buffers are as long as the plan's tensors, and live on.
    let in_rust = burst(&|| assert!(unsafe { direct.execute(&variants, workspace, &stream) }.is_ok()))?;
    println!("Plan::execute: {in_rust:.2} µs");
    println!("cudnnBackendExecute: {:.2} µs", burst(&|| execute(&one))?);
    println!("with a new variant pack each: {:.2} µs", burst(&|| execute(&new_pack()))?);
    let before = Memory::now()?;
    let start = Instant::now();
    for _ in 0..EXECUTIONS / BURST {
        (0..BURST).for_each(|_| execute(&new_pack()));
        wait()?;
    }
    let after = Memory::now()?;
    println!("{EXECUTIONS} executions in {:.1} s: before {before:?}, after {after:?}", start.elapsed().as_secs_f64());
    drop((one, plan));
    succeed(cudnnDestroy(handle));
    Ok(())
}

/// What the process and the device have in use.
#[derive(Debug)]
#[expect(dead_code, reason = "it is printed")]
struct Memory {
    resident_kib: u64,
    device_free_bytes: usize,
}

impl Memory {
    fn now() -> Result<Self> {
        let status = std::fs::read_to_string("/proc/self/status")?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("VmRSS is there")?;
        let resident_kib = line.trim().trim_end_matches(" kB").trim().parse()?;
        let (device_free_bytes, _) = cudarc::driver::result::mem_get_info()?;
        Ok(Self { resident_kib, device_free_bytes })
    }
}
