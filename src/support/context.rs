//! What the rules look at: facts of a graph that do not depend on a surface, collected once.

use super::surface::{OperationKind, PatternLimits, Surface};
use crate::device::ComputeCapability;
use crate::fusion::{self, CoreOperand, Fusion, NoPattern, Product, ProductKind, Stage};
use crate::graph::{Attributes, FinalTensor, FinalizedGraph, Operation, OperationId, Port, TensorId};

/// One graph on one chip against one surface of the runtime fusion engine.
pub(super) struct Context<'a> {
    pub(super) graph: &'a FinalizedGraph,
    pub(super) capability: ComputeCapability,
    pub(super) surface: &'a Surface,
    pub(super) facts: &'a Facts,
}

/// Facts of a graph that hold on every surface.
pub(super) struct Facts {
    /// Stages of the operations, or why there are none.
    pub(super) fusion: Result<Fusion, NoPattern>,
    /// The core of a graph cut into stages.
    pub(super) core: Option<Core>,
    /// Dims of the core result; in a pure pointwise graph per axis the largest extent of all tensors, those left out
    /// that have dims of their own. Empty where the graph has no stages.
    pub(super) full: Vec<i64>,
    /// Tensors of g2 in device memory; empty where the graph has no stages.
    pub(super) epilogue: EpilogueTensors,
}

/// The matmul or convolution, and the tensors around it.
pub(super) struct Core {
    pub(super) id: OperationId,
    pub(super) result: TensorId,
    pub(super) groups: i64,
    /// Whether the core's tensors have the rank that the tables of dims are written for (A-23; packed groups).
    pub(super) is_ranked: bool,
    is_matmul: bool,
    pub(super) operands: [Operand; 2],
    /// For every tensor, whether the core result flows into it.
    is_derived: Vec<bool>,
}

/// A core operand and the mainloop fusion before it.
pub(super) struct Operand {
    pub(super) tensor: TensorId,
    pub(super) stage: Stage,
    /// Where the operand comes from; itself where g1 is empty.
    pub(super) anchor: TensorId,
    /// Whether operations stand before it.
    pub(super) is_fused: bool,
    /// Mainloop inputs in device memory: the graph inputs of its stage, or the operand itself.
    pub(super) inputs: Vec<TensorId>,
}

/// Tensors of g2 in device memory, host scalars left out.
#[derive(Default)]
pub(super) struct EpilogueTensors {
    /// Graph inputs read by g2.
    pub(super) inputs: Vec<TensorId>,
    /// Non-virtual results of the core and of g2.
    pub(super) outputs: Vec<TensorId>,
}

impl Facts {
    /// Collects the facts of a graph.
    pub(super) fn new(graph: &FinalizedGraph, fusion: Result<Fusion, NoPattern>) -> Self {
        let core = fusion.as_ref().ok().and_then(|fusion| Core::new(graph, fusion));
        let epilogue = fusion.as_ref().map(|fusion| epilogue_tensors(graph, fusion)).unwrap_or_default();
        let full = match &core {
            Some(core) => graph.tensor(core.result).dim.clone(),
            None if fusion.is_ok() => largest_extents(graph),
            None => Vec::new(),
        };
        Self { fusion, core, full, epilogue }
    }
}

fn largest_extents(graph: &FinalizedGraph) -> Vec<i64> {
    let mut full: Vec<i64> = Vec::new();
    for operation in graph.operations() {
        let inputs = operation.inputs.iter().filter(|slot| !has_own_dims(operation, slot.0));
        for &(_, id) in inputs.chain(&operation.outputs) {
            let dim = &graph.tensor(id).dim;
            full.resize(full.len().max(dim.len()), 1);
            full.iter_mut().zip(dim).for_each(|(full, &extent)| *full = extent.max(*full));
        }
    }
    full
}

impl Core {
    fn new(graph: &FinalizedGraph, fusion: &Fusion) -> Option<Self> {
        let &Product { kind, operation: id, result, groups, .. } = fusion.product()?;
        let operands = fusion.product()?.operands.map(|operand| Operand::new(graph, fusion, &operand));
        let mut is_derived = vec![false; graph.tensors().len()];
        is_derived[result.index()] = true;
        spread(graph, fusion.operations(Stage::After), &mut is_derived);
        let is_ranked = is_ranked(graph, id);
        let is_matmul = kind == ProductKind::Matmul;
        Some(Self { id, result, groups, is_ranked, is_matmul, operands, is_derived })
    }

    /// Ranks that its tensors may have, for messages.
    pub(super) fn ranks(&self) -> &'static str {
        if self.is_matmul { "rank 3" } else { "rank 4 or 5" }
    }

    /// Whether the core result flows into this tensor.
    pub(super) fn reaches(&self, tensor: TensorId) -> bool {
        self.is_derived[tensor.index()]
    }
}

/// Marks what is computed from marked tensors.
pub(super) fn spread(graph: &FinalizedGraph, operations: impl Iterator<Item = OperationId>, marks: &mut [bool]) {
    for operation in operations.map(|id| graph.operation(id)) {
        if operation.input_tensors().any(|input| marks[input.index()]) {
            operation.output_tensors().for_each(|output| marks[output.index()] = true);
        }
    }
}

/// Rank 3 for a matmul; spatial axes plus two, 4 or 5, for a convolution.
fn is_ranked(graph: &FinalizedGraph, core: OperationId) -> bool {
    let operation = graph.operation(core);
    let required = match &operation.attributes {
        Attributes::Convolution(convolution) => Some(convolution.stride.len() + 2).filter(|rank| matches!(rank, 4 | 5)),
        _ => Some(3),
    };
    operation.result().is_some_and(|result| Some(graph.tensor(result).dim.len()) == required)
}

impl Operand {
    fn new(graph: &FinalizedGraph, fusion: &Fusion, operand: &CoreOperand) -> Self {
        let (tensor, stage) = (operand.tensor, operand.stage());
        let is_fused = fusion.operations(stage).next().is_some();
        let mut inputs = if is_fused { fusion.stage_inputs(stage) } else { vec![tensor] };
        inputs.retain(|&id| !graph.tensor(id).is_pass_by_value);
        Self { tensor, stage, anchor: fusion.anchor(operand), is_fused, inputs }
    }
}

/// What no surface names is reported as such; its tensors are left out of everything else.
fn epilogue_tensors(graph: &FinalizedGraph, fusion: &Fusion) -> EpilogueTensors {
    let is_stored = |id: &TensorId| !graph.tensor(*id).is_virtual && !graph.tensor(*id).is_pass_by_value;
    let is_named = |id: &OperationId| OperationKind::of(&graph.operation(*id).attributes).is_some();
    let named = || fusion.operations(Stage::After).filter(is_named);
    let read = named().flat_map(|id| graph.operation(id).input_tensors());
    let mut inputs: Vec<TensorId> = read.filter(|&id| is_stored(&id) && is_input(graph, id)).collect();
    inputs.sort_unstable();
    inputs.dedup();
    let writers = fusion.product().map(|product| product.operation).into_iter().chain(named());
    let outputs = writers.flat_map(|id| graph.operation(id).output_tensors()).filter(is_stored).collect();
    EpilogueTensors { inputs, outputs }
}

/// Whether a tensor is read from device or host memory: no operation writes it, or the writer reads it as well.
fn is_input(graph: &FinalizedGraph, id: TensorId) -> bool {
    graph.producer(id).is_none_or(|producer| reads(graph, producer, id))
}

fn reads(graph: &FinalizedGraph, operation: OperationId, tensor: TensorId) -> bool {
    graph.operation(operation).input_tensors().any(|input| input == tensor)
}

impl<'a> Context<'a> {
    /// One tensor.
    pub(super) fn tensor(&self, id: TensorId) -> &'a FinalTensor {
        self.graph.tensor(id)
    }

    /// Operations with their attributes, in topological order.
    pub(super) fn operations(&self) -> impl Iterator<Item = (OperationId, &'a Operation)> + use<'a> {
        self.graph.operation_ids().zip(self.graph.operations())
    }

    /// Operations of a stage; none where the graph has no stages.
    pub(super) fn staged(&self, stage: Stage) -> impl Iterator<Item = (OperationId, &'a Operation)> + use<'a> {
        let graph = self.graph;
        let ids = self.facts.fusion.iter().flat_map(move |fusion| fusion.operations(stage));
        ids.map(move |id| (id, graph.operation(id)))
    }

    /// Whether the graph has a matmul or convolution, stages or not.
    pub(super) fn has_core(&self) -> bool {
        self.facts.core.is_some() || self.facts.fusion.is_err()
    }

    /// Limits of the graph's pattern; `None` where it is pure pointwise, excluded or has no stages.
    pub(super) fn limits(&self) -> Option<&'a PatternLimits> {
        let fusion = self.facts.fusion.as_ref().ok()?;
        self.surface.pattern(fusion.pattern())
    }

    /// Tensors of g2 in device memory, inputs first, each once.
    pub(super) fn epilogue_tensors(&self) -> impl Iterator<Item = TensorId> + use<'a> {
        let (graph, tensors) = (self.graph, &self.facts.epilogue);
        let is_in_place = move |id: &TensorId| graph.producer(*id).is_some_and(|producer| reads(graph, producer, *id));
        tensors.inputs.iter().copied().chain(tensors.outputs.iter().copied().filter(move |id| !is_in_place(id)))
    }

    /// Whether the graph has a single operation.
    pub(super) fn is_alone(&self) -> bool {
        self.graph.operations().len() == 1
    }

    /// Whether a tensor is read from device or host memory.
    pub(super) fn is_input(&self, id: TensorId) -> bool {
        is_input(self.graph, id)
    }

    /// An operation that no surface names.
    pub(super) fn unnamed_operation(&self) -> Option<&'a Operation> {
        self.graph.operations().find(|op| !op.is_core() && OperationKind::of(&op.attributes).is_none())
    }
}

/// Whether the epilogue tables leave the dims of this slot open: what a resample reads, and a signal's flag.
pub(super) fn has_own_dims(operation: &Operation, port: Port) -> bool {
    match OperationKind::of(&operation.attributes) {
        Some(OperationKind::Resample) => true,
        Some(OperationKind::Signal) => port == Port::FLAG,
        _ => false,
    }
}

/// The operands of any core, stages or not.
pub(super) fn core_operands(operation: &Operation) -> Option<[TensorId; 2]> {
    fusion::operands(operation)
}
