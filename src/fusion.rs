//! Pattern match: every operation of a graph gets its stage, g1A, g1B, core or g2.
//!
//! The stage follows from data flow alone: an operation that the core's fusable operand depends on belongs to
//! the mainloop, every other operation besides the core to the epilogue. Which operations a stage may hold is not
//! decided here but by the rules of a support surface.

use std::fmt;
use std::sync::Arc;

use crate::graph::{Attributes, ConvolutionDirection, FinalizedGraph, Operation, OperationId, Port, TensorId};

/// The five generic patterns (`spec/support-surfaces.md` section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Pattern {
    /// `g2( Matmul( g1A, g1B ) )`.
    Matmul,
    /// `g2( ConvolutionFwd( g1(X), W ) )`.
    ConvolutionForward,
    /// `g2( ConvolutionBwdFilter( dy, g1(X) ) )`.
    ConvolutionBackwardFilter,
    /// `g2( ConvolutionBwdData( g1(dy), W ) )`.
    ConvolutionBackwardData,
    /// `g2( inputs )`.
    Pointwise,
}

impl Pattern {
    /// The pattern's row in the catalogue of rules: `PAT-MM`, `PAT-CF`, `PAT-CBF`, `PAT-CBD` or `PAT-PW`.
    pub fn rule(self) -> &'static str {
        match self {
            Self::Matmul => "PAT-MM",
            Self::ConvolutionForward => "PAT-CF",
            Self::ConvolutionBackwardFilter => "PAT-CBF",
            Self::ConvolutionBackwardData => "PAT-CBD",
            Self::Pointwise => "PAT-PW",
        }
    }

    /// The pattern's form, as messages quote it.
    pub fn form(self) -> &'static str {
        match self {
            Self::Matmul => "g2(Matmul(g1A(inputs), g1B(inputs)), inputs)",
            Self::ConvolutionForward => "g2(ConvolutionFwd(g1(X), W), inputs)",
            Self::ConvolutionBackwardFilter => "g2(ConvolutionBwdFilter(dy, g1(X)), inputs)",
            Self::ConvolutionBackwardData => "g2(ConvolutionBwdData(g1(dy), W), inputs)",
            Self::Pointwise => "g2(inputs)",
        }
    }

    /// Stage of the operations before each core operand, in the order of [`Fusion::core_operands`]; the operand that
    /// the form keeps bare has [`Stage::MainloopB`], which only a matmul may fill.
    fn operand_stages(self) -> [Stage; 2] {
        match self {
            Self::ConvolutionBackwardFilter => [Stage::MainloopB, Stage::MainloopA],
            _ => [Stage::MainloopA, Stage::MainloopB],
        }
    }

    /// The pattern built around an operation; [`Pattern::Pointwise`] unless it is a core.
    pub(crate) fn of(operation: &Operation) -> Self {
        match &operation.attributes {
            Attributes::Matmul(_) => Self::Matmul,
            Attributes::Convolution(convolution) => match convolution.direction {
                ConvolutionDirection::Forward => Self::ConvolutionForward,
                ConvolutionDirection::BackwardFilter => Self::ConvolutionBackwardFilter,
                ConvolutionDirection::BackwardData => Self::ConvolutionBackwardData,
            },
            _ => Self::Pointwise,
        }
    }
}

/// Where in a fused kernel an operation is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stage {
    /// Mainloop fusion on the core's first operand (matmul A; the fusable operand of a convolution).
    MainloopA,
    /// Mainloop fusion on matmul's B.
    MainloopB,
    /// The matmul or convolution.
    Core,
    /// Epilogue fusion.
    Epilogue,
}

impl Stage {
    /// Name of the stage in messages: `g1A`, `g1B`, `core`, `g2`.
    pub fn name(self) -> &'static str {
        match self {
            Self::MainloopA => "g1A",
            Self::MainloopB => "g1B",
            Self::Core => "core",
            Self::Epilogue => "g2",
        }
    }
}

/// A graph cut into stages.
#[derive(Clone, Debug)]
pub struct Fusion {
    graph: Arc<FinalizedGraph>,
    pattern: Pattern,
    core: Option<OperationId>,
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
    let pattern = core.map_or(Pattern::Pointwise, |core| Pattern::of(graph.operation(core)));
    let mut stages = vec![Stage::Epilogue; graph.operations().len()];
    if let Some(core) = core {
        stages[core.index()] = Stage::Core;
        assign_mainloop(&graph, pattern, core, &mut stages)?;
        check_mainloop_is_private(&graph, pattern, &stages)?;
    }
    Ok(Fusion { graph, pattern, core, stages })
}

impl Fusion {
    /// The graph.
    pub fn graph(&self) -> &Arc<FinalizedGraph> {
        &self.graph
    }

    /// The pattern matched.
    pub fn pattern(&self) -> Pattern {
        self.pattern
    }

    /// The matmul or convolution; `None` in a pure pointwise graph.
    pub fn core(&self) -> Option<OperationId> {
        self.core
    }

    /// Stage of an operation.
    pub fn stage(&self, id: OperationId) -> Stage {
        self.stages[id.index()]
    }

    /// Operations of a stage, in topological order.
    pub fn operations(&self, stage: Stage) -> impl Iterator<Item = OperationId> + '_ {
        self.graph.operation_ids().filter(move |&id| self.stage(id) == stage)
    }

    /// The tensors the core reads, after g1: A, B; X, W; DY, W; DY, X. `None` in a pure pointwise graph.
    pub fn core_operands(&self) -> Option<[TensorId; 2]> {
        self.core.and_then(|core| operands(self.graph.operation(core)))
    }

    /// The tensor the core writes: C, Y, DX or DW. `None` in a pure pointwise graph.
    pub fn core_result(&self) -> Option<TensorId> {
        self.core.and_then(|core| self.graph.operation(core).result())
    }

    /// Stage of the operations before each core operand, in the order of [`Fusion::core_operands`].
    pub fn operand_stages(&self) -> [Stage; 2] {
        self.pattern.operand_stages()
    }

    /// Groups of a convolution, read off the channel extents (CV-R1); 1 for everything else.
    pub fn groups(&self) -> i64 {
        self.core.map_or(1, |core| groups(&self.graph, core))
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

    /// Where the operand of a mainloop stage comes from: the graph input, or the result of a concat or signal, reached
    /// from the core's operand by following full-size operands upward, the first one where there are several.
    /// The operand itself where the stage is empty; `None` in a pure pointwise graph and for other stages.
    pub fn anchor(&self, stage: Stage) -> Option<TensorId> {
        let side = self.operand_stages().into_iter().position(|of| of == stage)?;
        let mut tensor = self.core_operands()?[side];
        while let Some(producer) = self.graph.producer(tensor).filter(|&id| self.stage(id) == stage) {
            let operation = self.graph.operation(producer);
            match (&operation.attributes, full_size_input(&self.graph, operation)) {
                (Attributes::Pointwise(_), Some(input)) => tensor = input,
                _ => break,
            }
        }
        Some(tensor)
    }
}

/// The first input with the dims of the result; the very first where no input has them.
fn full_size_input(graph: &FinalizedGraph, operation: &Operation) -> Option<TensorId> {
    let dim = |tensor: TensorId| -> &[i64] { &graph.tensor(tensor).dim };
    let result = operation.result()?;
    operation.input_tensors().find(|&input| dim(input) == dim(result)).or_else(|| operation.input_tensors().next())
}

/// The two tensors a core reads, in port order; `None` for other operations.
pub(crate) fn operands(operation: &Operation) -> Option<[TensorId; 2]> {
    let [first, second] = match &operation.attributes {
        Attributes::Matmul(_) => [Port::A, Port::B],
        Attributes::Convolution(convolution) => convolution.ports().0,
        _ => return None,
    };
    Some([operation.input(first)?, operation.input(second)?])
}

/// Groups of a convolution (CV-R1): channels of the image over channels of one filter in the packed form, the extent
/// of the group axis in the explicit one.
pub(crate) fn groups(graph: &FinalizedGraph, core: OperationId) -> i64 {
    let operation = graph.operation(core);
    let Attributes::Convolution(convolution) = &operation.attributes else { return 1 };
    let (image, filter) = match convolution.direction {
        ConvolutionDirection::Forward => (operation.input(Port::X), operation.input(Port::W)),
        ConvolutionDirection::BackwardData => (operation.output(Port::DX), operation.input(Port::W)),
        ConvolutionDirection::BackwardFilter => (operation.input(Port::X), operation.output(Port::DW)),
    };
    let dim = |tensor: Option<TensorId>| tensor.map_or(&[][..], |id| graph.tensor(id).dim.as_slice());
    let has_group_axis = dim(image).len() > convolution.stride.len() + 2;
    match (dim(image).get(1), dim(filter).get(1)) {
        (Some(&groups), _) if has_group_axis => groups,
        (Some(image), Some(filter)) => (image / filter).max(1),
        _ => 1,
    }
}

fn single_core(graph: &FinalizedGraph) -> Result<Option<OperationId>, NoPattern> {
    let mut cores = graph.operation_ids().filter(|&id| graph.operation(id).is_core());
    let first = cores.next();
    let (Some(first), Some(second)) = (first, cores.next()) else { return Ok(first) };
    Err(NoPattern {
        rule: "PAT-ONE-CORE",
        operation: second,
        place: graph.describe_operation(second),
        required: "at most one matmul or convolution in a graph".to_owned(),
        found: format!("a second one, beside {}", graph.describe_operation(first)),
    })
}

/// Gives the operations before each operand their stage.
fn assign_mainloop(
    graph: &FinalizedGraph,
    pattern: Pattern,
    core: OperationId,
    stages: &mut [Stage],
) -> Result<(), NoPattern> {
    let misfit = |operation, found| Err(no_pattern(graph, pattern, operation, found));
    let operation = graph.operation(core);
    let Some(operands) = operands(operation) else { return Ok(()) };
    if let Some((port, _)) = operation.inputs.iter().find(|slot| !operands.contains(&slot.1)) {
        return misfit(core, format!("a further input at port {port}"));
    }
    for (operand, stage) in operands.into_iter().zip(pattern.operand_stages()) {
        let mut pending = vec![operand];
        while let Some(tensor) = pending.pop() {
            let Some(producer) = graph.producer(tensor).filter(|&id| id != core) else { continue };
            match stages[producer.index()] {
                found if found == stage => continue,
                Stage::Epilogue => stages[producer.index()] = stage,
                _ => return misfit(producer, "both operands depend on it".to_owned()),
            }
            if stage == Stage::MainloopB && pattern != Pattern::Matmul {
                return misfit(
                    producer,
                    format!("it computes {}, which the form leaves as it is", graph.describe_tensor(operand)),
                );
            }
            pending.extend(graph.operation(producer).input_tensors());
        }
    }
    Ok(())
}

/// A value of g1 is read by its own stage and the core only.
fn check_mainloop_is_private(graph: &FinalizedGraph, pattern: Pattern, stages: &[Stage]) -> Result<(), NoPattern> {
    for id in graph.operation_ids().filter(|id| stages[id.index()] == Stage::Epilogue) {
        for tensor in graph.operation(id).input_tensors() {
            let stage = graph.producer(tensor).map(|producer| stages[producer.index()]);
            if matches!(stage, Some(Stage::MainloopA | Stage::MainloopB)) {
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
    use crate::graph::{Convolution, DataType, Graph, PointwiseMode, Tensor};

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
    fn matmul() -> (Graph, [TensorId; 3]) {
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
        assert_eq!((fusion.pattern(), fusion.groups()), (Pattern::Matmul, 1));
        assert_eq!(names(&fusion, &fusion.stage_inputs(Stage::MainloopA)), ["A"]);
        assert_eq!(names(&fusion, &fusion.stage_inputs(Stage::MainloopB)), ["B"]);
        assert_eq!(names(&fusion, &fusion.stage_inputs(Stage::Core)), ["abs::OUT_0", "exp::OUT_0"]);
        assert_eq!(names(&fusion, &fusion.stage_inputs(Stage::Epilogue)), ["mm::C", "bias"]);
        assert_eq!(names(&fusion, &fusion.stage_outputs(Stage::Epilogue)), ["D"]);
        assert_eq!(fusion.anchor(Stage::MainloopB).map(|id| names(&fusion, &[id])), Some(vec!["B".to_owned()]));
        assert_eq!(fusion.anchor(Stage::Epilogue), None);
    }

    #[test]
    fn without_a_core_everything_is_epilogue() {
        let mut graph = half();
        let x = graph.tensor(Tensor::new("X").row_major([1, 8, 8]));
        let y = graph.pointwise("abs", PointwiseMode::Abs, &[x]);
        *graph.tensor_mut(y) = Tensor::new("Y").row_major([1, 8, 8]);
        let fusion = fused(&graph).expect("it fits");
        assert_eq!((fusion.pattern(), fusion.core(), fusion.core_operands()), (Pattern::Pointwise, None, None));
        assert_eq!(names(&fusion, &fusion.stage_inputs(Stage::Epilogue)), ["X"]);
    }

    #[test]
    fn a_tensor_changed_in_place_is_read_from_memory() {
        let mut graph = half();
        let x = graph.tensor(Tensor::new("X").row_major([1, 8, 8]));
        graph.pointwise("relu", PointwiseMode::ReluFwd, &[x]);
        graph.last_operation().outputs[0].1 = x;
        let fusion = fused(&graph).expect("a single operation may work in place");
        assert_eq!(names(&fusion, &fusion.stage_inputs(Stage::Epilogue)), ["X"]);
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
            fused(&graph).expect("it fits").groups()
        };
        assert_eq!(lone(&[2, 16, 8, 8], &[32, 16, 1, 1], &[2, 32, 8, 8]), 1);
        assert_eq!(lone(&[2, 16, 8, 8], &[32, 4, 1, 1], &[2, 32, 8, 8]), 4);
        assert_eq!(lone(&[2, 4, 4, 8, 8], &[4, 8, 4, 1, 1], &[2, 4, 8, 8, 8]), 4);
    }
}
