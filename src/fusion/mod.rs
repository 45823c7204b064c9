//! Pattern match: every operation of a graph gets its stage, g1A, g1B, core or g2.
//!
//! The stage follows from data flow alone: an operation that the core's fusable operand depends on belongs to
//! the mainloop, every other operation besides the core to the epilogue. Which operations a stage may hold is not
//! decided here but by the rules of a support surface. What a graph is fused around is a [`Core`]: a kind of core is a
//! file beside `core.rs`, a variant of [`Core`] and the [`Pattern`] that the documentation names it by.

mod attention;
mod attention_backward;
mod core;
mod mha;
mod pattern;
mod stage;
mod stored;

use std::fmt;
use std::sync::Arc;

use crate::graph::{Attributes, FinalizedGraph, Operation, OperationId, TensorId};

pub(crate) use self::attention::is_attention;
pub use self::attention::{Attention, Scaled, Scaling};
pub(crate) use self::attention_backward::attention_backward;
pub use self::core::{Core, CoreOperand, Product, ProductKind};
pub(crate) use self::core::{groups, operands};
pub(crate) use self::mha::is_mha;
pub use self::mha::{Mha, MhaBackward, MhaForward};
pub use pattern::Pattern;
pub use stage::{Side, Stage};

/// A graph cut into stages.
#[derive(Clone, Debug)]
pub struct Fusion {
    graph: Arc<FinalizedGraph>,
    core: Core,
    stages: Vec<Stage>,
}

/// Why a graph fits none of the five forms (`PAT-*`, A-60).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoPattern {
    /// Rule broken: `PAT-ONE-CORE`, or the row of the pattern whose form does not fit.
    pub rule: &'static str,
    /// Operation at fault.
    pub operation: OperationId,
    /// The operation as messages name it.
    pub place: String,
    /// What the form asks for.
    pub required: String,
    /// What the graph has instead.
    pub found: String,
}

impl fmt::Display for NoPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "operation {}: {}, required {} [{}]", self.place, self.found, self.required, self.rule)
    }
}

impl std::error::Error for NoPattern {}

/// Cuts a graph into stages.
///
/// # Errors
/// [`NoPattern`] where the graph has several cores, where the operations before the two operands or before and after
/// the core are not apart, or where an operand that its form keeps bare is computed by the graph.
pub fn fuse(graph: Arc<FinalizedGraph>) -> Result<Fusion, NoPattern> {
    let core = single_core(&graph)?;
    let mut stages = vec![Stage::After; graph.operations().len()];
    if let Core::Product(product) = &core {
        stages[product.operation.index()] = Stage::Core;
        assign_mainloop(&graph, product, &mut stages)?;
        check_mainloop_is_private(&graph, product.kind.into(), &stages)?;
    }
    match &core {
        Core::Attention(attention) => attention.operations().for_each(|id| stages[id.index()] = Stage::Core),
        Core::AttentionBackward(id) => stages[id.index()] = Stage::Core,
        Core::Mha(mha) => mha.operations().into_iter().for_each(|id| stages[id.index()] = Stage::Core),
        Core::None | Core::Product(_) => {}
    }
    Ok(Fusion { graph, core, stages })
}

impl Fusion {
    /// The graph.
    pub fn graph(&self) -> &Arc<FinalizedGraph> {
        &self.graph
    }

    /// The pattern matched.
    pub fn pattern(&self) -> Pattern {
        Pattern::of(&self.core)
    }

    /// What the graph is fused around.
    pub fn core(&self) -> &Core {
        &self.core
    }

    /// The core, if it is a product.
    pub fn product(&self) -> Option<&Product> {
        match &self.core {
            Core::Product(product) => Some(product),
            _ => None,
        }
    }

    /// The core, if it is an attention.
    pub fn attention(&self) -> Option<&Attention> {
        match &self.core {
            Core::Attention(attention) => Some(attention),
            _ => None,
        }
    }

    /// The core, if it is the backward pass of an attention.
    pub fn attention_backward(&self) -> Option<OperationId> {
        match self.core {
            Core::AttentionBackward(id) => Some(id),
            _ => None,
        }
    }

    /// The core, if it is an attention whose probabilities lie in memory.
    pub fn mha(&self) -> Option<&Mha> {
        match &self.core {
            Core::Mha(mha) => Some(mha),
            _ => None,
        }
    }

    /// Stage of an operation.
    pub fn stage(&self, id: OperationId) -> Stage {
        self.stages[id.index()]
    }

    /// Operations of a stage, in topological order.
    pub fn operations(&self, stage: Stage) -> impl Iterator<Item = OperationId> + '_ {
        self.graph.operation_ids().filter(move |&id| self.stage(id) == stage)
    }

    /// Tensors that the operations of a stage read but do not produce, each once, in canonical order. A tensor that
    /// its own writer reads (a single operation in place) counts as read.
    pub fn stage_inputs(&self, stage: Stage) -> Vec<TensorId> {
        let graph = &self.graph;
        let mut inputs: Vec<TensorId> = Vec::new();
        for id in self.operations(stage) {
            let outside = |&tensor: &TensorId| match graph.producer(tensor) {
                Some(producer) => producer == id || self.stage(producer) != stage,
                None => true,
            };
            inputs.extend(graph.operation(id).input_tensors().filter(outside));
        }
        inputs.sort_unstable();
        inputs.dedup();
        inputs
    }

    /// Tensors that the operations of a stage produce and that leave it, being non-virtual or read by another stage,
    /// each once, in topological order of their producers.
    pub fn stage_outputs(&self, stage: Stage) -> Vec<TensorId> {
        let graph = &self.graph;
        let leaves = |tensor: &TensorId| {
            !graph.tensor(*tensor).is_virtual || graph.consumers(*tensor).iter().any(|&id| self.stage(id) != stage)
        };
        self.operations(stage).flat_map(|id| graph.operation(id).output_tensors()).filter(leaves).collect()
    }

    /// Where an operand of the core comes from: the graph input, or the result of a concat or signal, reached from the operand
    /// by following full-size operands upward, the first one where there are several. The operand itself where no
    /// operation stands before it.
    pub fn anchor(&self, operand: &CoreOperand) -> TensorId {
        let mut tensor = operand.tensor;
        while let Some(producer) = self.graph.producer(tensor).filter(|&id| self.stage(id) == operand.stage()) {
            let operation = self.graph.operation(producer);
            match (&operation.attributes, full_size_input(&self.graph, operation)) {
                (Attributes::Pointwise(_), Some(input)) => tensor = input,
                _ => break,
            }
        }
        tensor
    }
}

/// The first input with the dims of the result; the very first where no input has them.
fn full_size_input(graph: &FinalizedGraph, operation: &Operation) -> Option<TensorId> {
    let dim = |tensor: TensorId| -> &[i64] { &graph.tensor(tensor).dim };
    let result = operation.result()?;
    operation.input_tensors().find(|&input| dim(input) == dim(result)).or_else(|| operation.input_tensors().next())
}

fn single_core(graph: &FinalizedGraph) -> Result<Core, NoPattern> {
    let mut products = graph.operation_ids().filter_map(|id| Product::of(graph, id));
    let Some(first) = products.next() else {
        return Ok(attention_backward(graph).map_or(Core::None, Core::AttentionBackward));
    };
    let Some(second) = products.next() else { return Ok(Core::Product(first)) };
    if let Some(attention) = Attention::of(graph) {
        return Ok(Core::Attention(Box::new(attention)));
    }
    if let Some(mha) = Mha::of(graph) {
        return Ok(Core::Mha(Box::new(mha)));
    }
    Err(NoPattern {
        rule: "PAT-ONE-CORE",
        operation: second.operation,
        place: graph.describe_operation(second.operation),
        required: "at most one matmul or convolution in a graph".to_owned(),
        found: format!("a second one, beside {}", graph.describe_operation(first.operation)),
    })
}

/// Gives the operations before each operand their stage.
fn assign_mainloop(graph: &FinalizedGraph, product: &Product, stages: &mut [Stage]) -> Result<(), NoPattern> {
    let misfit = |operation, found| Err(no_pattern(graph, product.kind.into(), operation, found));
    let core = product.operation;
    let operands = product.tensors();
    if let Some((port, _)) = graph.operation(core).inputs.iter().find(|slot| !operands.contains(&slot.1)) {
        return misfit(core, format!("a further input at port {port}"));
    }
    for operand in &product.operands {
        let mut pending = vec![operand.tensor];
        while let Some(tensor) = pending.pop() {
            let Some(producer) = graph.producer(tensor).filter(|&id| id != core) else { continue };
            match stages[producer.index()] {
                found if found == operand.stage() => continue,
                Stage::After => stages[producer.index()] = operand.stage(),
                _ => return misfit(producer, "both operands depend on it".to_owned()),
            }
            if operand.is_bare {
                let tensor = graph.describe_tensor(operand.tensor);
                return misfit(producer, format!("it computes {tensor}, which the form leaves as it is"));
            }
            pending.extend(graph.operation(producer).input_tensors());
        }
    }
    Ok(())
}

/// A value of g1 is read by its own stage and the core only.
fn check_mainloop_is_private(graph: &FinalizedGraph, pattern: Pattern, stages: &[Stage]) -> Result<(), NoPattern> {
    for id in graph.operation_ids().filter(|id| stages[id.index()] == Stage::After) {
        for tensor in graph.operation(id).input_tensors() {
            let stage = graph.producer(tensor).map(|producer| stages[producer.index()]);
            if matches!(stage, Some(Stage::Before(_))) {
                let found = format!("it reads {}, a value of g1", graph.describe_tensor(tensor));
                return Err(no_pattern(graph, pattern, id, found));
            }
        }
    }
    Ok(())
}

fn no_pattern(graph: &FinalizedGraph, pattern: Pattern, operation: OperationId, found: String) -> NoPattern {
    NoPattern {
        rule: pattern.rule(),
        operation,
        place: graph.describe_operation(operation),
        required: format!("the form {}, in which g1 and g2 are operations that share nothing", pattern.form()),
        found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Convolution, ConvolutionDirection, DataType, Graph, PointwiseMode, Tensor, TensorHandle};

    fn half() -> Graph {
        Graph::new()
            .io_data_type(DataType::Half)
            .intermediate_data_type(DataType::Float)
            .compute_data_type(DataType::Float)
    }

    fn fused(graph: &Graph) -> Result<Fusion, NoPattern> {
        fuse(Arc::new(graph.finalize().expect("well formed")))
    }

    fn names(fusion: &Fusion, tensors: &[TensorId]) -> Vec<String> {
        tensors.iter().map(|&id| fusion.graph().tensor(id).name.clone()).collect()
    }

    /// `abs(A)·exp(B)`, then `D = C + bias`; gives the operands and C as well.
    fn matmul() -> (Graph, [TensorHandle; 3]) {
        let mut graph = half();
        let a = graph.tensor(Tensor::new("A").row_major([1, 8, 16]));
        let b = graph.tensor(Tensor::new("B").row_major([1, 16, 32]));
        let bias = graph.tensor(Tensor::new("bias").row_major([1, 1, 32]));
        let before = graph.pointwise("abs", PointwiseMode::Abs, &[a]);
        let right = graph.pointwise("exp", PointwiseMode::Exp, &[b]);
        let c = graph.matmul("mm", before, right);
        let d = graph.pointwise("add", PointwiseMode::Add, &[c, bias]);
        *graph.tensor_mut(d) = Tensor::new("D").row_major([1, 8, 32]);
        (graph, [before, right, c])
    }

    #[test]
    fn a_matmul_has_a_mainloop_stage_for_each_operand() {
        let fusion = fused(&matmul().0).expect("it fits");
        let product = fusion.product().expect("a matmul");
        assert_eq!((fusion.pattern(), product.groups), (Pattern::Matmul, 1));
        assert_eq!(names(&fusion, &fusion.stage_inputs(Stage::Before(Side::A))), ["A"]);
        assert_eq!(names(&fusion, &fusion.stage_inputs(Stage::Before(Side::B))), ["B"]);
        assert_eq!(names(&fusion, &fusion.stage_inputs(Stage::Core)), ["abs::OUT_0", "exp::OUT_0"]);
        assert_eq!(names(&fusion, &fusion.stage_inputs(Stage::After)), ["mm::C", "bias"]);
        assert_eq!(names(&fusion, &fusion.stage_outputs(Stage::After)), ["D"]);
        assert_eq!(names(&fusion, &[fusion.anchor(product.operand(Side::B))]), ["B"]);
    }

    #[test]
    fn without_a_core_everything_is_epilogue() {
        let mut graph = half();
        let x = graph.tensor(Tensor::new("X").row_major([1, 8, 8]));
        let y = graph.pointwise("abs", PointwiseMode::Abs, &[x]);
        *graph.tensor_mut(y) = Tensor::new("Y").row_major([1, 8, 8]);
        let fusion = fused(&graph).expect("it fits");
        assert_eq!((fusion.pattern(), fusion.core()), (Pattern::Pointwise, &Core::None));
        assert_eq!(names(&fusion, &fusion.stage_inputs(Stage::After)), ["X"]);
    }

    #[test]
    fn a_tensor_changed_in_place_is_read_from_memory() {
        let mut graph = half();
        let x = graph.tensor(Tensor::new("X").row_major([1, 8, 8]));
        graph.pointwise("relu", PointwiseMode::ReluFwd, &[x]);
        graph.last_operation().outputs[0].1 = x;
        let fusion = fused(&graph).expect("a single operation may work in place");
        assert_eq!(names(&fusion, &fusion.stage_inputs(Stage::After)), ["X"]);
    }

    #[test]
    fn a_mainloop_value_is_private() {
        let (mut graph, [before, ..]) = matmul();
        let other = graph.pointwise("neg", PointwiseMode::Neg, &[before]);
        *graph.tensor_mut(other) = Tensor::new("E").row_major([1, 8, 16]);
        let misfit = fused(&graph).expect_err("g2 reads a value of g1");
        assert_eq!((misfit.rule, misfit.place.as_str()), ("PAT-MM", "'neg' (POINTWISE NEG)"));
        assert!(misfit.to_string().contains("'abs::OUT_0'"), "{misfit}");
    }

    #[test]
    fn a_second_core_is_named_beside_the_first() {
        let (mut graph, [_, _, c]) = matmul();
        let square = graph.tensor(Tensor::new("S").row_major([1, 32, 16]));
        let second = graph.matmul("mm2", c, square);
        *graph.tensor_mut(second) = Tensor::new("F").row_major([1, 8, 16]);
        let misfit = fused(&graph).expect_err("two cores");
        assert_eq!((misfit.rule, misfit.place.as_str()), ("PAT-ONE-CORE", "'mm2' (MATMUL)"));
    }

    #[test]
    fn groups_are_read_off_either_form() {
        let lone = |x: &[i64], w: &[i64], y: &[i64]| {
            let mut graph = half();
            let x = graph.tensor(Tensor::new("X").row_major(x));
            let w = graph.tensor(Tensor::new("W").row_major(w));
            let result = graph.convolution("conv", Convolution::new(ConvolutionDirection::Forward, 2), [x, w]);
            *graph.tensor_mut(result) = Tensor::new("Y").row_major(y);
            fused(&graph).expect("it fits").product().expect("a convolution").groups
        };
        assert_eq!(lone(&[2, 16, 8, 8], &[32, 16, 1, 1], &[2, 32, 8, 8]), 1);
        assert_eq!(lone(&[2, 16, 8, 8], &[32, 4, 1, 1], &[2, 32, 8, 8]), 4);
        assert_eq!(lone(&[2, 4, 4, 8, 8], &[4, 8, 4, 1, 1], &[2, 4, 8, 8, 8]), 4);
    }
}
