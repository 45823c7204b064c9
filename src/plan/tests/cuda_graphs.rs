//! Executions as CUDA graphs.

use libloading::Symbol;

use super::*;

/// `y = a·x + b`, then the same of y in place.
fn twice(case: &Case, function: &str, starts_early: bool) -> ExecutionPlan {
    let mut second = Launch { starts_early, ..case.launch(function) };
    second.parameters[0] = Parameter::Tensor(case.id(-1));
    case.build(vec![case.launch("scale_add"), second]).unwrap()
}

/// Inputs as [`Case::inputs`] has them, but a factor of its own.
fn scaled(case: &Case, a: f64) -> HostTensors {
    let mut inputs = case.inputs();
    inputs.insert(case.id(3), HostTensor::scalar(DataType::Float, 3, Scalar::Float(a)).unwrap());
    inputs
}

/// Binds a graph to tensors, without launching it.
fn bind(cuda_graph: &mut CudaGraph, tensors: &DeviceTensors) -> Result<(), Error> {
    cuda_graph.update(tensors.pack(), tensors.workspace())
}

/// Launches a graph on the stream of the tensors that it is bound to, as it is.
fn launch(cuda_graph: &mut CudaGraph, tensors: &DeviceTensors) -> Result<(), Error> {
    // SAFETY: the tensors are of the plan's graph, and live on.
    unsafe { cuda_graph.launch(tensors.stream()) }
}

fn y_of(case: &Case, tensors: &DeviceTensors) -> Vec<f32> {
    tensors.download(&case.graph).unwrap()[&case.id(-1)].to_dense().unwrap()
}

/// What a function of the fake driver counts.
fn counted(name: &str) -> i32 {
    let driver = driver();
    // SAFETY: the function has this type.
    unsafe {
        let count: Symbol<'_, unsafe extern "C" fn() -> i32> = driver.get(name.as_bytes()).unwrap();
        count()
    }
}

/// Lets the fake driver refuse the next changes of nodes.
fn refuse_changes(count: i32) {
    set_in_driver("fake_failures", count);
}

#[test]
fn a_graph_computes_what_an_execution_does() {
    on_fake_driver("cuda_graphs::a_graph_computes_what_an_execution_does", || {
        let case = Case::new();
        let plan = twice(&case, "scale_add", false);
        let executed = DeviceTensors::upload(&plan, &case.graph, &case.inputs()).unwrap();
        executed.execute(&plan).unwrap();
        let launched = DeviceTensors::upload(&plan, &case.graph, &case.inputs()).unwrap();
        let mut cuda_graph = launched.instantiate(&plan).unwrap();
        launch(&mut cuda_graph, &launched).unwrap();
        assert_eq!(y_of(&case, &launched), y_of(&case, &executed));

        let others = DeviceTensors::upload(&plan, &case.graph, &scaled(&case, 3.0)).unwrap();
        bind(&mut cuda_graph, &others).unwrap();
        launch(&mut cuda_graph, &others).unwrap();
        assert_eq!(y_of(&case, &others), [2.0, 11.0, 20.0, 29.0, 38.0, 47.0]);
    });
}

#[test]
fn threads_share_a_plan_with_a_graph_each() {
    on_fake_driver("cuda_graphs::threads_share_a_plan_with_a_graph_each", || {
        let case = Case::new();
        let plan = twice(&case, "scale_add", false);
        let run = |a: f64| {
            let tensors = DeviceTensors::upload(&plan, &case.graph, &scaled(&case, a)).unwrap();
            launch(&mut tensors.instantiate(&plan).unwrap(), &tensors).unwrap();
            y_of(&case, &tensors)[2]
        };
        std::thread::scope(|scope| {
            let threads = [1.0, 2.0, 3.0, 4.0].map(|a| scope.spawn(move || (a, run(a))));
            for thread in threads {
                let (a, y) = thread.join().unwrap();
                assert_eq!(f64::from(y), a * (a * 2.0 + 0.5) + 0.5);
            }
        });
    });
}

#[test]
fn only_nodes_of_which_an_argument_changed_are_patched() {
    on_fake_driver("cuda_graphs::only_nodes_of_which_an_argument_changed_are_patched", || {
        let case = Case::new();
        let plan = twice(&case, "scale_add", false);
        let buffer = |bytes| DeviceBuffer::new(&case.context, bytes, 256).unwrap();
        let (x, other_x, y, scratch, other_scratch) = (buffer(24), buffer(24), buffer(24), buffer(512), buffer(512));
        let workspace = |buffer: &DeviceBuffer| Workspace { pointer: buffer.pointer(), bytes: 512 };
        let mut pack = VariantPack::new();
        pack.set_pointer(10, x.pointer()).set_pointer(-1, y.pointer()).set_scalar(3, Scalar::Integer(1));
        let mut cuda_graph = plan.instantiate(&pack, workspace(&scratch)).unwrap();
        let mut patched = |pack: &VariantPack, scratch: &DeviceBuffer| {
            cuda_graph.update(pack, workspace(scratch)).unwrap();
            counted("fake_patched_nodes")
        };
        assert_eq!(patched(&pack, &scratch), 0);
        pack.set_pointer(10, other_x.pointer());
        assert_eq!(patched(&pack, &scratch), 1);
        pack.set_scalar(3, Scalar::Integer(2));
        assert_eq!(patched(&pack, &scratch), 2);
        assert_eq!(patched(&pack, &other_scratch), 2);
        assert_eq!(patched(&pack, &other_scratch), 0);
    });
}

#[test]
fn maps_follow_their_tensors() {
    on_fake_driver("cuda_graphs::maps_follow_their_tensors", || {
        let case = Case::new();
        let plan = tensor_maps::plan(&case);
        let tensors = || DeviceTensors::upload(&plan, &case.graph, &case.inputs()).unwrap();
        let (first, second) = (tensors(), tensors());
        let mut cuda_graph = first.instantiate(&plan).unwrap();
        for tensors in [&first, &second] {
            bind(&mut cuda_graph, tensors).unwrap();
            // The kernel faults where a map has another address than the pointer beside it.
            launch(&mut cuda_graph, tensors).unwrap();
            assert_eq!(y_of(&case, tensors), [720.0, 3002.0, 16.0, 4002.0, 720.0, 5.0]);
        }
    });
}

/// The fake driver refuses graphs whose second node has not the edge that its version offers.
fn starts_early() {
    let case = Case::new();
    let plan = twice(&case, "scale_add_early", true);
    let tensors = DeviceTensors::upload(&plan, &case.graph, &case.inputs()).unwrap();
    launch(&mut tensors.instantiate(&plan).unwrap(), &tensors).unwrap();
    assert_eq!(y_of(&case, &tensors)[1], 5.5);
}

#[test]
fn a_node_that_waits_by_itself_starts_early() {
    on_fake_driver("cuda_graphs::a_node_that_waits_by_itself_starts_early", starts_early);
}

#[test]
fn drivers_without_early_edges_get_whole_ones() {
    on_version(Version::Cuda12, "cuda_graphs::drivers_without_early_edges_get_whole_ones", starts_early);
}

#[test]
fn an_old_driver_makes_no_graphs() {
    on_version(Version::Cuda11, "cuda_graphs::an_old_driver_makes_no_graphs", || {
        let case = Case::new();
        let plan = case.plan("scale_add");
        let tensors = DeviceTensors::upload(&plan, &case.graph, &case.inputs()).unwrap();
        let error = tensors.instantiate(&plan).unwrap_err();
        let expected = "a CUDA graph needs a newer driver: libcuda has no function cuGraphAddKernelNode_v2";
        assert!(matches!(error, Error::Environment { .. }) && error.to_string().starts_with(expected), "{error:?}");
        tensors.execute(&plan).unwrap();
    });
}

#[test]
fn a_refused_update_leaves_the_graph_bound_as_it_was() {
    on_fake_driver("cuda_graphs::a_refused_update_leaves_the_graph_bound_as_it_was", || {
        let case = Case::new();
        let plan = twice(&case, "scale_add", false);
        let tensors = DeviceTensors::upload(&plan, &case.graph, &case.inputs()).unwrap();
        let mut cuda_graph = tensors.instantiate(&plan).unwrap();
        let error = cuda_graph.update(&VariantPack::new(), Workspace::NONE).unwrap_err();
        assert!(error.to_string().contains("has no entry") && error.exit_code() == 2, "{error}");
        let error = plan.instantiate(&VariantPack::new(), Workspace::NONE).unwrap_err();
        assert!(error.to_string().contains("has no entry") && error.exit_code() == 2, "{error}");
        launch(&mut cuda_graph, &tensors).unwrap();
        assert_eq!(y_of(&case, &tensors)[1], 5.5);
    });
}

#[test]
fn a_graph_is_not_launched_after_half_an_update() {
    on_fake_driver("cuda_graphs::a_graph_is_not_launched_after_half_an_update", || {
        let case = Case::new();
        let plan = twice(&case, "scale_add", false);
        let tensors = |a| DeviceTensors::upload(&plan, &case.graph, &scaled(&case, a)).unwrap();
        let (first, second) = (tensors(2.0), tensors(3.0));
        let mut cuda_graph = first.instantiate(&plan).unwrap();
        refuse_changes(1);
        let error = bind(&mut cuda_graph, &second).unwrap_err();
        assert!(error.to_string().starts_with("kernel scale_add, grid [1, 1]"), "{error}");
        assert!(matches!(error, Error::Environment { .. }), "{error:?}");
        let error = launch(&mut cuda_graph, &second).unwrap_err();
        assert!(error.to_string().contains("its last update failed half-way") && error.exit_code() == 2, "{error}");
        // Back to where it was, or on: either is whole again.
        bind(&mut cuda_graph, &first).unwrap();
        launch(&mut cuda_graph, &first).unwrap();
        bind(&mut cuda_graph, &second).unwrap();
        launch(&mut cuda_graph, &second).unwrap();
        assert_eq!((y_of(&case, &first)[1], y_of(&case, &second)[1]), (5.5, 11.0));
    });
}

#[test]
fn a_graph_outlives_its_plan_and_leaves_nothing() {
    on_fake_driver("cuda_graphs::a_graph_outlives_its_plan_and_leaves_nothing", || {
        let case = Case::new();
        let plan = case.plan("scale_add");
        let tensors = DeviceTensors::upload(&plan, &case.graph, &case.inputs()).unwrap();
        let mut cuda_graph = tensors.instantiate(&plan).unwrap();
        drop(plan);
        launch(&mut cuda_graph, &tensors).unwrap();
        assert_eq!(y_of(&case, &tensors), [0.5, 2.5, 4.5, 6.5, 8.5, 10.5]);
        assert_eq!(counted("fake_graphs"), 2);
        drop(cuda_graph);
        assert_eq!(counted("fake_graphs"), 0);
    });
}

#[test]
fn a_kernel_of_a_graph_that_fails_is_wrong() {
    on_fake_driver("cuda_graphs::a_kernel_of_a_graph_that_fails_is_wrong", || {
        let case = Case::new();
        let plan = case.plan("fault");
        let tensors = DeviceTensors::upload(&plan, &case.graph, &case.inputs()).unwrap();
        let mut cuda_graph = tensors.instantiate(&plan).unwrap();
        launch(&mut cuda_graph, &tensors).unwrap();
        let error = launch(&mut cuda_graph, &tensors).unwrap_err();
        assert!(matches!(&error, Error::Wrong(text) if text.contains("CUDA_ERROR_ILLEGAL_ADDRESS")), "{error}");
    });
}
