//! A backend of a framework: it hands over raw device pointers and a stream of its own, and asks why a layer is refused.
//!
//! The framework is played by cudarc, which makes stream and memory through the driver, as any other library would. Where there
//! is no GPU, everything is done but the execution: the answer, the refusal, the source, and the check of what an execution
//! would be given.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtr, DevicePtrMut, DriverError};
use fusewright::build::Build;
use fusewright::device::{ComputeCapability, Device};
use fusewright::error::{Error, Misuse, NotSupported};
use fusewright::graph::{DataType, FinalizedGraph, Graph, PointwiseMode, Tensor};
use fusewright::plan::{DevicePointer, Stream, VariantPack, Workspace, check_execution};
use fusewright::session::{Session, SessionOptions};
use half::f16;

/// Rows and columns of Y, and what is between them: so long that k is split, which takes a workspace.
const ROWS: usize = 16;
const COLUMNS: usize = 256;
const BETWEEN: usize = 8192;

fn main() -> Result<(), Error> {
    // 1. One session a device, for the life of the process: it answers, compiles and keeps.
    let session = match Session::open(0, SessionOptions::default()) {
        Ok(session) => session,
        Err(error) => {
            println!("no GPU, so nothing is executed: {}", error.to_string().lines().next().unwrap_or_default());
            Session::without_gpu(Device::typical(ComputeCapability::SM_90), SessionOptions::default())
        }
    };

    // 2. A layer that no engine takes. The refusal is a value: what to log, and what to do instead.
    let refused = Layer::new(DataType::Double)?;
    let Err(Error::NotSupported(why)) = session.check(&refused.graph) else { panic!("nothing adds in DOUBLE") };
    println!("a {} that adds in DOUBLE is refused: {}", refused.graph.name(), why.status().name());
    let layer = or_nearest(refused, &why)?;

    // 3. A layer that is taken. What is asked twice is answered from memory.
    let selection = session.check(&layer.graph)?;
    println!("{} takes {} on {}", selection.engine().name(), layer.graph.name(), session.device().name);

    // 4. Execute it, as often as the framework likes; or do all but that.
    match session.context() {
        Some(_) => layer.run(&session),
        None => layer.rehearse(&session),
    }
}

/// What is done about a refusal: each broken rule and each engine's reason is logged, and the nearest legal change made, where
/// there is one; else the layer is computed as if its sums were FLOAT.
fn or_nearest(refused: Layer, why: &NotSupported) -> Result<Layer, Error> {
    for violation in why.report().into_iter().flat_map(|report| report.violations()) {
        let (surface, rule, place) = (violation.surface, violation.rule.id, &violation.place);
        println!("  surface {surface}: {rule} at {place}: {} instead of {}", violation.found, violation.required);
    }
    for refusal in why.engines() {
        println!("  engine {}: {}", refusal.engine, refusal.reason);
    }
    if let Some(answer) = why.remedy().run {
        println!("  to run here: {} ({})", answer.change.sentence(), answer.engines.join(", "));
        for edit in &answer.change.edits {
            println!("    {}: {:?}, {} becomes {}", edit.kind, edit.operation, edit.from, edit.to);
        }
        if let [graph] = answer.change.graphs.as_slice() {
            // The change keeps the uids, so that the same pack fits.
            return Ok(Layer { graph: Arc::clone(graph), ..refused });
        }
    }
    Layer::new(DataType::Float)
}

/// `Y = relu(X · W + bias)`, and the uids under which its tensors are handed over.
struct Layer {
    graph: Arc<FinalizedGraph>,
    x: i64,
    w: i64,
    bias: i64,
    y: i64,
}

impl Layer {
    /// The layer, with the bias added in a type.
    fn new(added_in: DataType) -> Result<Self, Error> {
        let mut graph = Graph::new()
            .name("layer")
            .io_data_type(DataType::Half)
            .intermediate_data_type(DataType::Float)
            .compute_data_type(DataType::Float);
        let [rows, columns, between] = [ROWS, COLUMNS, BETWEEN].map(|extent| extent as i64);
        let x = graph.tensor(Tensor::new("x").row_major([1, rows, between]));
        let w = graph.tensor(Tensor::new("w").row_major([1, between, columns]));
        let bias = graph.tensor(Tensor::new("bias").row_major([1, 1, columns]));
        let product = graph.matmul("matmul", x, w);
        let sum = graph.pointwise("add", PointwiseMode::Add, &[product, bias]);
        graph.last_operation().compute_data_type = Some(added_in);
        let y = graph.pointwise("relu", PointwiseMode::ReluFwd, &[sum]);
        graph.set_output(y).name = "y".to_owned();
        // Uids that are not given are assigned; handles find them, whatever the order in the finalized graph.
        let graph = Arc::new(graph.finalize()?);
        let uid = |handle| graph.uid_of(handle).expect("every tensor is used");
        let [x, w, bias, y] = [x, w, bias, y].map(uid);
        Ok(Self { graph, x, w, bias, y })
    }

    /// A pack is built once and changed in place: an execution allocates nothing.
    fn pack(&self, x: u64, w: u64, bias: u64, y: u64) -> VariantPack {
        let mut pack = VariantPack::new();
        for (uid, address) in [(self.x, x), (self.w, w), (self.bias, bias), (self.y, y)] {
            pack.set_pointer(uid, DevicePointer::from_raw(address));
        }
        pack
    }

    /// Executes the plan on a stream and on memory of the framework, and checks what it gives.
    fn run(&self, session: &Session) -> Result<(), Error> {
        // The plan: compiled now, or found on disk; the second time it is found in memory.
        let plan = session.plan(&self.graph)?;
        assert!(Arc::ptr_eq(&plan, &session.plan(&self.graph)?));
        println!("{} needs {} bytes of workspace", plan.binary().config(), plan.workspace_bytes());

        // The framework's stream and memory, in the device's primary context.
        let framework = Framework::new(plan.workspace_bytes() as usize).map_err(driver)?;
        let (x, w, bias) = (values(ROWS * BETWEEN, x), values(BETWEEN * COLUMNS, w), values(COLUMNS, bias));
        let [device_x, device_w, device_bias] = [&x, &w, &bias].map(|values| framework.upload(values));
        let (device_x, device_w, device_bias) =
            (device_x.map_err(driver)?, device_w.map_err(driver)?, device_bias.map_err(driver)?);
        let mut device_y = framework.stream.alloc_zeros::<u16>(ROWS * COLUMNS).map_err(driver)?;
        let mut scratch = framework.scratch;

        {
            let stream = &framework.stream;
            let [x, w, bias] = [&device_x, &device_w, &device_bias].map(|slice| slice.device_ptr(stream));
            let (y, _y) = device_y.device_ptr_mut(stream);
            let (scratch, _scratch) = scratch.device_ptr_mut(stream);
            let pack = self.pack(x.0, w.0, bias.0, y);
            let workspace = Workspace { pointer: DevicePointer::from_raw(scratch), bytes: plan.workspace_bytes() };
            // SAFETY: a stream of this device's primary context, which outlives the block.
            let ours = unsafe { Stream::from_raw(plan.execution().context(), stream.cu_stream().cast()) };

            // What does not fit is refused before anything is launched.
            // SAFETY: an empty pack is refused; nothing is executed.
            let unfit = unsafe { plan.execute(&VariantPack::new(), workspace, &ours) };
            assert!(matches!(unfit, Err(Error::Execution { misuse: Misuse::Pack, .. })));

            // SAFETY: the memory is as large as the graph's tensors and the workspace say, is used on this stream alone, and
            // outlives the work on it, which is waited for below.
            unsafe { plan.execute(&pack, workspace, &ours) }?;
        }
        let found = framework.stream.clone_dtoh(&device_y).map_err(driver)?;
        check(&found);
        println!("{} elements are right; {:?}", found.len(), session.stats());
        Ok(())
    }

    /// All that needs no GPU: the source that would be compiled, and whether a pack and a workspace would do.
    fn rehearse(&self, session: &Session) -> Result<(), Error> {
        let selection = session.check(&self.graph)?;
        let Build { source, config, .. } = Build::first(&selection, session.device())?;
        println!(
            "{config}: {} lines of CUDA, {} bytes of workspace",
            source.text.lines().count(),
            source.workspace_bytes
        );

        // Addresses that are looked at and not used.
        let pack = self.pack(0x1000, 0x2000, 0x3000, 0x4000);
        let workspace = Workspace { pointer: DevicePointer::from_raw(0x10000), bytes: source.workspace_bytes };
        check_execution(&self.graph, &source, &pack, workspace)?;
        let unaligned = self.pack(0x1000, 0x2001, 0x3000, 0x4000);
        let Err(Error::Execution { misuse, message }) = check_execution(&self.graph, &source, &unaligned, workspace)
        else {
            panic!("a pointer to HALF at an odd address is taken");
        };
        assert_eq!(misuse, Misuse::Alignment);
        println!("an unfit pack is refused: {message}");
        Ok(())
    }
}

/// What a framework has: a stream and memory, of which this library knows nothing.
struct Framework {
    stream: Arc<CudaStream>,
    scratch: CudaSlice<u8>,
}

impl Framework {
    fn new(scratch: usize) -> Result<Self, DriverError> {
        let stream = CudaContext::new(0)?.new_stream()?;
        let scratch = stream.alloc_zeros(scratch.max(1))?;
        Ok(Self { stream, scratch })
    }

    fn upload(&self, values: &[f16]) -> Result<CudaSlice<u16>, DriverError> {
        let bits: Vec<u16> = values.iter().map(|value| value.to_bits()).collect();
        self.stream.clone_htod(&bits)
    }
}

fn driver(error: DriverError) -> Error {
    Error::environment(format!("the framework's driver call failed: {error}"))
}

fn values(count: usize, value: fn(usize) -> f32) -> Vec<f16> {
    (0..count).map(|position| f16::from_f32(value(position))).collect()
}

/// Small integers by their place, most of them 0, so that every sum is exact in HALF.
fn x(position: usize) -> f32 {
    if position.is_multiple_of(61) { (position / 61 % 3) as f32 - 1.0 } else { 0.0 }
}

fn w(position: usize) -> f32 {
    (position % 5) as f32 - 2.0
}

fn bias(column: usize) -> f32 {
    (column % 9) as f32 - 4.0
}

fn check(found: &[u16]) {
    for (position, &bits) in found.iter().enumerate() {
        let (row, column) = (position / COLUMNS, position % COLUMNS);
        let sum: f32 = (0..BETWEEN).map(|k| x(row * BETWEEN + k) * w(k * COLUMNS + column)).sum();
        assert_eq!(f16::from_bits(bits).to_f32(), (sum + bias(column)).max(0.0), "row {row}, column {column}");
    }
}
