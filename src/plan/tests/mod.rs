//! Plans on a driver without a GPU: `fake_cuda.cpp`, built by g++ when the tests run.
//!
//! Each test runs in a process of its own, since a driver is loaded once per process and a kernel that fails spoils it.

mod cuda_graphs;
mod current_context;
mod interleaved;
mod populated;
mod tensor_maps;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use super::*;
use crate::codegen::Source;
use crate::compile::Cubin;
use crate::error::Error;
use crate::graph::{DataType, FinalTensor, FinalizedGraph, Graph, PointwiseMode, Scalar, Tensor, TensorId};
use crate::harness::{DeviceTensors, run_on_device};
use crate::host_tensor::{HostTensor, HostTensors};
use crate::kernel::{Launch, Parameter};
use crate::tuning::{copy_bandwidth, time, time_interleaved};

/// Set in the process that shall use the fake driver.
const CHILD: &str = "FUSEWRIGHT_TEST_FAKE_CUDA";

/// A version of the fake driver, by the CUDA version that it serves.
#[derive(Clone, Copy, Debug)]
enum Version {
    /// Without tensor maps, and with CUDA graphs of another shape.
    Cuda11,
    /// CUDA graphs have no edges over which kernels start early.
    Cuda12,
    Cuda13,
}

/// Runs `test` in a child process whose driver is the fake one; `name` is the test's.
fn on_fake_driver(name: &str, test: impl FnOnce()) {
    on_version(Version::Cuda13, name, test);
}

/// The same on some version of the driver.
fn on_version(version: Version, name: &str, test: impl FnOnce()) {
    in_child(version, &format!("plan::tests::{name}"), &[], test);
}

/// Runs `test`, of this full name, on a fake driver that takes every module: kernels that it does not know do nothing.
pub(crate) fn on_driver_without_kernels(name: &str, test: impl FnOnce()) {
    on_driver_in(&[], name, test);
}

/// The same in an environment with these variables.
pub(crate) fn on_driver_in(variables: &[(&str, &str)], name: &str, test: impl FnOnce()) {
    let variables = [&[("FAKE_CUDA_ANY", "1"), ("FUSEWRIGHT_CACHE", "off")], variables].concat();
    in_child(Version::Cuda13, name, &variables, test);
}

/// Runs `test`, of this full name, on a fake driver of two devices that takes every module.
pub(crate) fn on_two_devices(name: &str, test: impl FnOnce()) {
    let variables = [("FAKE_CUDA_DEVICES", "2"), ("FAKE_CUDA_ANY", "1"), ("FUSEWRIGHT_CACHE", "off")];
    in_child(Version::Cuda13, name, &variables, test);
}

/// The fake driver, which is loaded already.
fn driver() -> libloading::Library {
    // SAFETY: its initialisers do nothing.
    unsafe { libloading::Library::new("libcuda.so.1") }.unwrap()
}

/// Sets a variable of the fake driver.
pub(crate) fn set_in_driver(variable: &str, value: i32) {
    // SAFETY: the variable has this type, and only this thread uses it.
    unsafe {
        let driver = driver();
        let place: libloading::Symbol<'_, *mut i32> = driver.get(variable.as_bytes()).unwrap();
        **place = value;
    }
}

/// Launches of kernels that the fake driver does not know, so far.
pub(crate) fn launches_of_any() -> i64 {
    // SAFETY: the fake driver's initialisers do nothing, and the function has this type.
    unsafe {
        let driver = driver();
        let count: libloading::Symbol<'_, unsafe extern "C" fn() -> i64> = driver.get(b"fake_any_launches").unwrap();
        count()
    }
}

/// Modules that are loaded on the fake driver.
pub(crate) fn loaded_modules() -> i64 {
    // SAFETY: the fake driver's initialisers do nothing, and the function has this type.
    unsafe {
        let driver = driver();
        let count: libloading::Symbol<'_, unsafe extern "C" fn() -> i64> = driver.get(b"fake_modules").unwrap();
        count()
    }
}

#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn in_child(version: Version, name: &str, variables: &[(&str, &str)], test: impl FnOnce()) {
    if std::env::var_os(CHILD).is_some() {
        return test();
    }
    let Some(folder) = fake_driver(version) else {
        eprintln!("skipped: no g++ to build the fake driver with");
        return;
    };
    let mut path = folder.as_os_str().to_owned();
    if let Some(rest) = std::env::var_os("LD_LIBRARY_PATH") {
        path.push(":");
        path.push(rest);
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", name]).env(CHILD, "1").env("LD_LIBRARY_PATH", path);
    child.envs(variables.iter().copied());
    let output = child.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}{}", String::from_utf8_lossy(&output.stderr));
}

/// Folder of a `libcuda.so.1`, built once per process.
fn fake_driver(version: Version) -> Option<&'static Path> {
    static FOLDERS: [OnceLock<Option<PathBuf>>; 3] = [const { OnceLock::new() }; 3];
    let build = || {
        Command::new("g++").arg("--version").output().ok()?;
        let folder = std::env::current_exe().unwrap().with_file_name(format!("fake-{version:?}"));
        std::fs::create_dir_all(&folder).unwrap();
        let number = ["11080", "12000", "13000"][version as usize];
        let options = ["-std=c++17", &format!("-DVERSION={number}")];
        compile_library("src/plan/tests/fake_cuda.cpp", &options, &folder.join("libcuda.so.1"));
        // what the toolkit brings: under a name that is not the driver's, and of no use
        compile_library("src/plan/tests/stub_cuda.cpp", &[], &folder.join("libcuda.so"));
        Some(folder)
    };
    FOLDERS[version as usize].get_or_init(build).as_deref()
}

/// Compiles a library. Other test processes may do the same at the same time.
fn compile_library(source: &str, options: &[&str], library: &Path) {
    let unfinished = tempfile::NamedTempFile::new_in(library.parent().unwrap()).unwrap().into_temp_path();
    let mut compiler = Command::new("g++");
    compiler.args(["-O1", "-shared", "-fPIC"]).args(options).arg("-o").arg(&*unfinished);
    compiler.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(source));
    assert!(compiler.status().unwrap().success());
    unfinished.persist(library).unwrap();
}

/// `y = a·x + b` over six floats, where `a` is a host scalar and `b` is stated by the graph.
struct Case {
    graph: FinalizedGraph,
    context: DeviceContext,
}

impl Case {
    fn new() -> Self {
        Self::aligned(16)
    }

    /// With an input whose pointer is a multiple of so many bytes.
    fn aligned(bytes: i64) -> Self {
        Self::shaped(bytes, [1, 2, 3], -1)
    }

    /// Also with other extents, and another uid of y.
    fn shaped(bytes: i64, shape: [i64; 3], y_uid: i64) -> Self {
        let mut graph = Graph::new().io_data_type(DataType::Float).intermediate_data_type(DataType::Float);
        graph = graph.compute_data_type(DataType::Float);
        let x = graph.tensor(Tensor::new("x").uid(10).row_major(shape).alignment(bytes));
        let a = Tensor { value: None, ..Tensor::scalar("a", DataType::Float, Scalar::Float(0.0)) };
        let a = graph.tensor(a.uid(3));
        let b = graph.tensor(Tensor::scalar("b", DataType::Float, Scalar::Float(0.5)).uid(4));
        let scaled = graph.pointwise("scale", PointwiseMode::Mul, &[x, a]);
        let y = graph.pointwise("shift", PointwiseMode::Add, &[scaled, b]);
        graph.set_output(y).uid = Some(y_uid);
        let context = Driver::load().unwrap().open(0).unwrap();
        Self { graph: graph.finalize().unwrap(), context }
    }

    fn id(&self, uid: i64) -> TensorId {
        self.graph.tensor_by_uid(uid).unwrap()
    }

    fn launch(&self, function: &str) -> Launch {
        let scalar = |uid| Parameter::Scalar(self.id(uid));
        let tensor = |uid| Parameter::Tensor(self.id(uid));
        Launch {
            function: function.to_owned(),
            grid: [1; 2],
            cluster: 1,
            block: [32, 1, 1],
            shared_bytes: 100 << 10,
            starts_early: false,
            parameters: vec![tensor(10), scalar(3), scalar(4), tensor(-1), Parameter::Workspace { offset: 256 }],
        }
    }

    fn build(&self, launches: Vec<Launch>) -> Result<ExecutionPlan, Error> {
        self.build_of(vec![image(true)], launches)
    }

    fn build_of(&self, images: Vec<Vec<u8>>, launches: Vec<Launch>) -> Result<ExecutionPlan, Error> {
        let source = Source { text: String::new(), launches, workspace_bytes: 512, uses_tf32: false, uses_fp8: false };
        let (log, resources, warnings) = (String::new(), Vec::new(), Vec::new());
        let cubin = Cubin { images, log, resources, warnings, milliseconds: 0.0 };
        // SAFETY: the fake driver reads no image, and its kernels take what these launches give.
        unsafe { ExecutionPlan::build(&self.context, &self.graph, &source, &cubin) }
    }

    fn plan(&self, function: &str) -> ExecutionPlan {
        self.build(vec![self.launch(function)]).unwrap()
    }

    fn inputs(&self) -> HostTensors {
        let value = |position: usize| position as f64;
        let FinalTensor { dim, stride, .. } = self.graph.tensor(self.id(10));
        let x = HostTensor::from_fn(DataType::Float, dim, stride, value).unwrap();
        let a = self.graph.tensor(self.id(3));
        let a = HostTensor::scalar(DataType::Float, a.dim.len(), Scalar::Float(2.0)).unwrap();
        HostTensors::from([(self.id(10), x), (self.id(3), a)])
    }
}

/// What the fake driver takes for one, with functions or without.
fn image(has_functions: bool) -> Vec<u8> {
    let mut image = b"\x7fELF    ".to_vec();
    image.push(if has_functions { 0 } else { b'n' });
    image.resize(64, 0);
    image
}

#[test]
fn functions_lie_in_any_image() {
    on_fake_driver("functions_lie_in_any_image", || {
        let case = Case::new();
        let build = |images: &[bool]| {
            case.build_of(images.iter().map(|&has| image(has)).collect(), vec![case.launch("scale_add")])
        };
        for images in [&[false, true][..], &[true, false], &[false, false, true]] {
            let outputs = run_on_device(&build(images).unwrap(), &case.graph, &case.inputs()).unwrap();
            let y: Vec<f32> = outputs[&case.id(-1)].to_dense().unwrap();
            assert_eq!(y, [0.5, 2.5, 4.5, 6.5, 8.5, 10.5]);
        }
        for images in [&[false, false][..], &[]] {
            let refused = build(images).unwrap_err().to_string();
            assert!(refused.contains("the compiled image has no function 'scale_add'"), "{refused}");
        }
    });
}

#[test]
fn a_plan_runs_with_every_kind_of_argument() {
    on_fake_driver("a_plan_runs_with_every_kind_of_argument", || {
        let case = Case::new();
        let device = case.context.device();
        assert_eq!((device.name.as_str(), device.sm_count, device.l2_bytes), ("Fake H200", 132, 60 << 20));
        assert_eq!((device.capability.target().as_str(), device.shared_bytes_per_block), ("sm_90a", 232_448));
        let plan = case.plan("scale_add");
        assert_eq!(plan.workspace_bytes(), 512);
        let outputs = run_on_device(&plan, &case.graph, &case.inputs()).unwrap();
        assert_eq!(outputs.len(), 1);
        let y: Vec<f32> = outputs[&case.id(-1)].to_dense().unwrap();
        assert_eq!(y, [0.5, 2.5, 4.5, 6.5, 8.5, 10.5]);
    });
}

#[test]
fn a_stub_of_the_toolkit_is_named() {
    const NAME: &str = "plan::tests::a_stub_of_the_toolkit_is_named";
    in_child(Version::Cuda13, NAME, &[("FAKE_CUDA_STUB", "1")], || {
        let error = Driver::load().unwrap_err();
        let message = error.to_string();
        assert!(message.contains("libcuda.so.1 is the CUDA toolkit's stub"), "{message}");
        assert!(message.contains("CUDA_ERROR_STUB_LIBRARY") && error.exit_code() == 3, "{message}");
    });
}

#[test]
fn several_launches_run_in_order_and_threads_share_a_plan() {
    on_fake_driver("several_launches_run_in_order_and_threads_share_a_plan", || {
        let case = Case::new();
        let mut second = case.launch("scale_add");
        second.parameters[0] = Parameter::Tensor(case.id(-1));
        second.shared_bytes = 0;
        let plan = case.build(vec![case.launch("scale_add"), second]).unwrap();
        let run = || run_on_device(&plan, &case.graph, &case.inputs()).unwrap()[&case.id(-1)].to_dense::<f32>();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(run)).collect();
            for thread in threads {
                assert_eq!(thread.join().unwrap().unwrap(), [1.5, 5.5, 9.5, 13.5, 17.5, 21.5]);
            }
        });
    });
}

#[test]
fn a_launch_that_waits_by_itself_is_marked() {
    on_fake_driver("a_launch_that_waits_by_itself_is_marked", || {
        let case = Case::new();
        let early = |starts_early| Launch { starts_early, ..case.launch("scale_add_early") };
        let run = |launch| run_on_device(&case.build(vec![launch]).unwrap(), &case.graph, &case.inputs());
        assert!(run(early(true)).is_ok());
        assert!(run(early(false)).is_err());
    });
}

#[test]
fn a_borrowed_stream_and_raw_pointers_serve_as_well() {
    on_fake_driver("a_borrowed_stream_and_raw_pointers_serve_as_well", || {
        let case = Case::new();
        let plan = case.plan("scale_add");
        let own = Stream::new(&case.context).unwrap();
        let mut x = DeviceBuffer::new(&case.context, 24, 1024).unwrap();
        assert!(x.pointer().address().is_multiple_of(1024) && x.bytes() == 24);
        x.upload(&[0; 24], &own).unwrap();
        assert!(x.upload(&[0; 25], &own).is_err());
        let y = DeviceBuffer::new(&case.context, 24, 16).unwrap();
        let scratch = DeviceBuffer::new(&case.context, 512, WORKSPACE_ALIGNMENT).unwrap();
        // SAFETY: null is the default stream.
        let stream = unsafe { Stream::from_raw(&case.context, std::ptr::null_mut()) };
        let y_pointer = DevicePointer::from_raw(y.pointer().address());
        let mut pack = VariantPack::new();
        pack.set_pointer(10, x.pointer()).set_pointer(-1, y_pointer).set_scalar(3, Scalar::Integer(7));
        let workspace = Workspace { pointer: scratch.pointer(), bytes: 512 };
        // SAFETY: the buffers are as long as the tensors, and outlive the executions.
        let execute = |pack: &VariantPack, workspace| unsafe { plan.execute(pack, workspace, &stream) };
        execute(&pack, workspace).unwrap();
        assert_eq!(y.download(&stream).unwrap(), [0.5f32.to_le_bytes(); 6].concat());

        let refused = |workspace, expected: &str| {
            let error = execute(&pack, workspace).unwrap_err();
            assert!(error.to_string().contains(expected) && error.exit_code() == 2, "{error}");
        };
        refused(Workspace::NONE, "required: 512 bytes aligned to 256; the pointer is null");
        refused(Workspace { bytes: 511, ..workspace }, "found: 511 bytes");
        let misaligned = DevicePointer::from_raw(scratch.pointer().address() + 128);
        refused(Workspace { pointer: misaligned, bytes: 512 }, "found: address 0x");
        let error = execute(pack.clone().set_pointer(99, x.pointer()), workspace).unwrap_err();
        assert!(error.to_string().contains("uid 99 is not expected"), "{error}");
    });
}

/// The safe way to execute has memory for the tensors of one graph: others would be written behind their ends.
#[test]
fn tensors_of_another_graph_are_refused() {
    on_fake_driver("tensors_of_another_graph_are_refused", || {
        let case = Case::new();
        let plan = case.plan("scale_add");
        // the same uids and kinds, and more or less to hold
        for other in [Case::shaped(16, [1, 2, 4], -1), Case::shaped(16, [1, 1, 1], -1), Case::shaped(16, [1, 2, 3], -2)]
        {
            let tensors = DeviceTensors::allocate(&case.context, &other.graph, &other.inputs()).unwrap();
            let mut cuda_graph = {
                let mut own = DeviceTensors::allocate(&case.context, &case.graph, &case.inputs()).unwrap();
                own.reserve(&plan).unwrap();
                own.instantiate(&plan).unwrap()
            };
            for error in [
                tensors.execute(&plan).unwrap_err(),
                tensors.instantiate(&plan).unwrap_err(),
                tensors.launch(&mut cuda_graph).unwrap_err(),
            ] {
                assert!(error.to_string().contains("of another graph than the plan"), "{error}");
                assert_eq!(error.exit_code(), 2);
            }
        }
    });
}

/// What a CUDA graph was bound to may be gone when tensors launch it: they bind it to what is there.
#[test]
fn tensors_launch_a_graph_on_the_workspace_that_they_have_now() {
    on_fake_driver("tensors_launch_a_graph_on_the_workspace_that_they_have_now", || {
        let case = Case::new();
        let plan = case.plan("scale_add");
        let mut cuda_graph = {
            let gone = DeviceTensors::upload(&plan, &case.graph, &case.inputs()).unwrap();
            gone.instantiate(&plan).unwrap()
        };
        let tensors = DeviceTensors::upload(&plan, &case.graph, &case.inputs()).unwrap();
        tensors.launch(&mut cuda_graph).unwrap();
        let y: Vec<f32> = tensors.download(&case.graph).unwrap()[&case.id(-1)].to_dense().unwrap();
        assert_eq!(y, [0.5, 2.5, 4.5, 6.5, 8.5, 10.5]);
    });
}

#[test]
fn inputs_must_be_there_and_fit() {
    on_fake_driver("inputs_must_be_there_and_fit", || {
        let case = Case::new();
        let plan = case.plan("scale_add");
        let refused = |inputs: &HostTensors, expected: &str| {
            let error = run_on_device(&plan, &case.graph, inputs).unwrap_err();
            assert!(error.to_string().contains(expected) && error.exit_code() == 2, "{error}");
        };
        for (uid, expected) in [(10, "tensor 'x' (uid 10) is missing"), (3, "tensor 'a' (uid 3) is missing")] {
            let mut inputs = case.inputs();
            inputs.remove(&case.id(uid));
            refused(&inputs, expected);
        }
        let mut inputs = case.inputs();
        inputs.get_mut(&case.id(10)).unwrap().bytes.pop();
        refused(&inputs, "input 'x' (uid 10): tensor: 23 bytes of storage, required 24");
        inputs.get_mut(&case.id(10)).unwrap().stride[0] = 8;
        refused(&inputs, "required: FLOAT [1, 2, 3] with strides [6, 3, 1]");
    });
}

#[test]
fn writes_behind_a_tensor_are_wrong() {
    on_fake_driver("writes_behind_a_tensor_are_wrong", || {
        let case = Case::new();
        let error = run_on_device(&case.plan("overrun"), &case.graph, &case.inputs()).unwrap_err();
        assert!(matches!(error, Error::Wrong(_)));
        assert!(error.to_string().contains("wrote 0 bytes behind the end of 'shift::OUT_0' (uid -1)"), "{error}");
    });
}

#[test]
fn a_kernel_that_fails_is_wrong() {
    on_fake_driver("a_kernel_that_fails_is_wrong", || {
        let case = Case::new();
        let error = run_on_device(&case.plan("fault"), &case.graph, &case.inputs()).unwrap_err();
        assert!(matches!(&error, Error::Wrong(text) if text.contains("CUDA_ERROR_ILLEGAL_ADDRESS")), "{error}");
    });
}

#[test]
fn a_kernel_that_hangs_is_given_up_without_waiting() {
    on_fake_driver("a_kernel_that_hangs_is_given_up_without_waiting", || {
        let case = Case::new();
        let plan = case.plan("hang");
        let tensors = DeviceTensors::upload(&plan, &case.graph, &case.inputs()).unwrap();
        tensors.execute(&plan).unwrap();
        let error = tensors.stream().wait(Duration::from_millis(10)).unwrap_err();
        assert!(matches!(&error, Error::Wrong(text) if text.contains("it hangs")), "{error}");
        // Dropping plan, tensors and context would abort the process if it waited for the device.
    });
}

#[test]
fn what_does_not_belong_together_is_our_fault() {
    on_fake_driver("what_does_not_belong_together_is_our_fault", || {
        let case = Case::new();
        let refused = |change: fn(&Case, &mut Launch), expected: &str| {
            let mut launch = case.launch("scale_add");
            change(&case, &mut launch);
            let error = case.build(vec![launch]).unwrap_err();
            assert_eq!(error.exit_code(), 3);
            assert!(error.to_string().contains(expected), "{error}");
        };
        refused(|_, launch| launch.function = "nobody\n".into(), "no function 'nobody\\n'");
        refused(|_, launch| launch.function = "nul\0".into(), "no function 'nul\\0'");
        refused(|_, launch| launch.shared_bytes = 232_449, "asks for 232449 bytes of shared memory");
        refused(|case, launch| launch.parameters[0] = Parameter::Tensor(case.id(3)), "'a' (uid 3) is no tensor");
        refused(|case, launch| launch.parameters[1] = Parameter::Scalar(case.id(10)), "'x' (uid 10) is no host scalar");
        refused(|_, launch| launch.parameters.resize(513, Parameter::Workspace { offset: 0 }), "at most 4096");
    });
}

#[test]
fn measuring_gives_figures() {
    on_fake_driver("measuring_gives_figures", || {
        let case = Case::new();
        let plan = case.plan("scale_add");
        let tensors = DeviceTensors::upload(&plan, &case.graph, &case.inputs()).unwrap();
        let timing = time(&plan, &tensors).unwrap();
        assert!(timing.runs >= 5 && timing.median_ms >= 0.0, "{timing:?}");
        assert!(timing.host_us_per_execute > 0.0 && timing.host_us_per_graph_launch > 0.0, "{timing:?}");
        assert!(copy_bandwidth(&case.context).unwrap() > 0.0);
    });
}

#[test]
fn an_unknown_device_is_named() {
    on_fake_driver("an_unknown_device_is_named", || {
        let error = Driver::load().unwrap().open(1).unwrap_err();
        assert_eq!(error.to_string(), "there is no device cuda:1; visible are cuda:0 to cuda:0");
        assert_eq!(error.exit_code(), 3);
    });
}
