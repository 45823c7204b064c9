//! Executions as nodes of a caller's CUDA graph.

use std::ffi::c_void;

use cudarc::driver::sys::{CUgraph, CUgraphExec};

use super::*;
use crate::error::Misuse;

/// A caller's graph.
struct Owned {
    context: DeviceContext,
    graph: CUgraph,
}

impl Owned {
    fn new(context: &DeviceContext) -> Self {
        let mut graph: CUgraph = std::ptr::null_mut();
        let _entered = context.enter().unwrap();
        // SAFETY: the pointer is valid for one handle.
        unsafe { cuda::cuGraphCreate(&raw mut graph, 0) }.unwrap();
        Self { context: context.clone(), graph }
    }

    fn raw(&self) -> *mut c_void {
        self.graph.cast()
    }

    fn nodes(&self) -> usize {
        let _entered = self.context.enter().unwrap();
        let mut count = 0;
        // SAFETY: the graph is alive; without an array only the count is written.
        unsafe { cuda::cuGraphGetNodes(self.graph, std::ptr::null_mut(), &raw mut count) }.unwrap();
        count
    }

    /// Runs it once.
    fn run(&self, tensors: &DeviceTensors) {
        let _entered = self.context.enter().unwrap();
        let mut executable: CUgraphExec = std::ptr::null_mut();
        // SAFETY: the graph is alive, and so are the tensors that it is bound to.
        unsafe {
            cuda::cuGraphInstantiateWithFlags(&raw mut executable, self.graph, 0).unwrap();
            cuda::cuGraphLaunch(executable, tensors.stream().raw()).unwrap();
            cuda::cuGraphExecDestroy(executable).unwrap();
        }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        let _entered = self.context.enter().unwrap();
        // SAFETY: made by `new`, destroyed once.
        unsafe { cuda::cuGraphDestroy(self.graph) }.unwrap();
    }
}

/// `y = a·x + b`, then the same of y in place.
fn twice(case: &Case, function: &str) -> ExecutionPlan {
    let mut second = case.launch(function);
    second.parameters[0] = Parameter::Tensor(case.id(-1));
    case.build(vec![case.launch(function), second]).unwrap()
}

fn y_of(case: &Case, tensors: &DeviceTensors) -> Vec<f32> {
    tensors.download(&case.graph).unwrap()[&case.id(-1)].to_dense().unwrap()
}

fn tensors(case: &Case, plan: &ExecutionPlan) -> DeviceTensors {
    DeviceTensors::upload(plan, &case.graph, &case.inputs()).unwrap()
}

#[test]
fn a_callers_graph_computes_what_an_execution_does_and_is_bound_anew() {
    on_fake_driver("populated::a_callers_graph_computes_what_an_execution_does_and_is_bound_anew", || {
        let case = Case::new();
        let plan = twice(&case, "scale_add");
        let (first, second) = (tensors(&case, &plan), tensors(&case, &plan));
        let graph = Owned::new(&case.context);
        // SAFETY: the graph is alive, and used here alone.
        unsafe { plan.populate(graph.raw(), first.pack(), first.workspace()) }.unwrap();
        assert_eq!(graph.nodes(), 2);
        graph.run(&first);
        assert_eq!(y_of(&case, &first), [1.5, 5.5, 9.5, 13.5, 17.5, 21.5]);
        // SAFETY: as above.
        unsafe { plan.update(graph.raw(), second.pack(), second.workspace()) }.unwrap();
        graph.run(&second);
        assert_eq!(y_of(&case, &second), [1.5, 5.5, 9.5, 13.5, 17.5, 21.5]);
    });
}

#[test]
fn graphs_that_are_not_of_the_plan_are_refused_and_left_alone() {
    on_fake_driver("populated::graphs_that_are_not_of_the_plan_are_refused_and_left_alone", || {
        let case = Case::new();
        let (plan, other) = (twice(&case, "scale_add"), case.plan("scale_add"));
        let tensors = tensors(&case, &plan);
        let graph = Owned::new(&case.context);
        let (pack, workspace) = (tensors.pack(), tensors.workspace());
        let mismatch = |result: Result<(), Error>, expected: &str| {
            let error = result.unwrap_err();
            assert!(
                matches!(&error, Error::Execution { misuse: Misuse::CudaGraph, message } if message.contains(expected)),
                "{error}"
            );
        };
        // SAFETY: the graph is alive, and used here alone; so in all that follows.
        unsafe {
            mismatch(plan.update(graph.raw(), pack, workspace), "found: 0 nodes");
            plan.populate(graph.raw(), pack, workspace).unwrap();
            mismatch(plan.populate(graph.raw(), pack, workspace), "required: an empty graph; found: 2 nodes");
            mismatch(other.update(graph.raw(), pack, workspace), "required: the kernels of this plan (scale_add)");
            let error = plan.update(graph.raw(), &VariantPack::new(), workspace).unwrap_err();
            assert!(error.to_string().contains("has no entry"), "{error}");
        }
        graph.run(&tensors);
        assert_eq!(y_of(&case, &tensors)[1], 5.5);
    });
}

#[test]
fn a_graph_that_cannot_be_filled_stays_empty() {
    on_fake_driver("populated::a_graph_that_cannot_be_filled_stays_empty", || {
        let case = Case::new();
        let plan = twice(&case, "scale_add");
        let tensors = tensors(&case, &plan);
        let graph = Owned::new(&case.context);
        set_in_driver("fake_failing_node", 2);
        // SAFETY: the graph is alive, and used here alone.
        let error = unsafe { plan.populate(graph.raw(), tensors.pack(), tensors.workspace()) }.unwrap_err();
        assert!(matches!(error, Error::Environment { .. }), "{error:?}");
        assert_eq!(graph.nodes(), 0);
    });
}
