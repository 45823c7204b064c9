//! The epilogue of a matrix product: evaluated where the tile of C is, or in passes of its own.

use std::collections::BTreeSet;

use super::pass::{accumulations, stored_results};
use super::problem::{Problem, step_of};
use super::sweep::{Width, over};
use crate::fusion::{Fusion, Stage};
use crate::graph::{DataType, FinalizedGraph, OperationId, TensorId};
use crate::kernel::{
    Accumulation, Accumulators, Axis, Boxes, Digit, Epilogue, GemmTile, IterationSpace, PartialReduction, StageProgram,
};

/// Packed booleans are stored a byte at a time.
const BITS: i64 = 8;

/// Operations evaluated with the core's tiles, and those that stand apart.
pub(super) struct EpilogueSplit {
    pub(super) fused: Vec<OperationId>,
    pub(super) apart: Vec<OperationId>,
}

impl EpilogueSplit {
    /// An operation stands apart if it neither depends on the core nor feeds an operation that does. A value that both
    /// need is evaluated in both.
    pub(super) fn new(fusion: &Fusion) -> Self {
        let graph = fusion.graph();
        let derived = derived_from(fusion, core_result(fusion));
        let depends = |&id: &OperationId| graph.operation(id).input_tensors().any(|input| derived.contains(&input));
        let epilogue: Vec<OperationId> = fusion.operations(Stage::Epilogue).collect();
        let without_core: Vec<OperationId> = epilogue.iter().copied().filter(|id| !depends(id)).collect();
        let exposed = without_core
            .iter()
            .any(|&id| stored_results(graph, id).next().is_some() || !accumulations(graph, id).is_empty());
        let mut wanted = BTreeSet::new();
        let mut fused = Vec::new();
        for &id in epilogue.iter().rev() {
            let operation = graph.operation(id);
            if depends(&id) || operation.output_tensors().any(|tensor| wanted.contains(&tensor)) {
                wanted.extend(operation.input_tensors());
                fused.push(id);
            }
        }
        fused.reverse();
        Self { fused, apart: if exposed { without_core } else { Vec::new() } }
    }
}

pub(super) fn core_result(fusion: &Fusion) -> TensorId {
    fusion.core_result().expect("a product has a result")
}

/// Tensors computed from `source`, itself included.
fn derived_from(fusion: &Fusion, source: TensorId) -> BTreeSet<TensorId> {
    let graph = fusion.graph();
    let mut derived = BTreeSet::from([source]);
    for id in graph.operation_ids() {
        let operation = graph.operation(id);
        if operation.input_tensors().any(|input| derived.contains(&input)) {
            derived.extend(operation.output_tensors());
        }
    }
    derived
}

/// Whether vectors of the epilogue step along n: where N is contiguous in the first packed boolean, else in the first
/// stored tensor, else in C.
pub(super) fn along_n(graph: &FinalizedGraph, problem: &Problem, stores: &[TensorId], c: TensorId) -> bool {
    let is_packed = |id: TensorId| {
        let tensor = graph.tensor(id);
        tensor.data_type == DataType::Boolean && super::sweep::elements(tensor) > 1
    };
    let packed = stores.iter().copied().find(|&id| is_packed(id));
    let tensor = packed.or(stores.first().copied()).unwrap_or(c);
    let stride = |digits: &[Digit]| {
        digits.last().map_or(i64::MAX, |digit| problem.stride_of(digit.name, |axis| graph.tensor(tensor).stride[axis]))
    };
    stride(&problem.space.n) <= stride(&problem.space.m)
}

/// What the epilogue stores and reduces of the values that depend on the core.
pub(super) struct EpilogueOutputs {
    pub(super) stores: Vec<TensorId>,
    pub(super) accumulations: Vec<Accumulation>,
}

impl EpilogueOutputs {
    /// The core's own result if it is stored, then every stored result derived from it.
    pub(super) fn new(fusion: &Fusion, operations: &[OperationId]) -> Self {
        let graph = fusion.graph();
        let c = core_result(fusion);
        let derived = derived_from(fusion, c);
        let core = (!graph.tensor(c).is_virtual).then_some(c);
        let results = operations.iter().flat_map(|&id| stored_results(graph, id)).filter(|id| derived.contains(id));
        let reduced = operations.iter().flat_map(|&id| accumulations(graph, id));
        Self {
            stores: core.into_iter().chain(results).collect(),
            accumulations: reduced.filter(|accumulation| derived.contains(&accumulation.source)).collect(),
        }
    }
}

/// The values that an epilogue stores and reduces, from the core's result on.
pub(super) fn epilogue_program(fusion: &Fusion, operations: &[OperationId], outputs: &EpilogueOutputs) -> StageProgram {
    let c = core_result(fusion);
    let sources = outputs.accumulations.iter().map(|accumulation| accumulation.source);
    let targets = outputs.stores.iter().copied().chain(sources).chain([c]);
    StageProgram::of(fusion.graph(), operations.iter().copied(), Some(c)).needed_for(targets)
}

/// Plans a fused epilogue; `None` where a value has other extents than C (the core's result broadcasts), or a
/// reduction keeps one digit of an index and reduces another.
pub(super) fn fused(
    fusion: &Fusion,
    problem: &Problem,
    operations: &[OperationId],
    tile: GemmTile,
    accumulators: Accumulators,
    along_n: bool,
    boxes: Option<Boxes>,
) -> Option<Epilogue> {
    let graph = fusion.graph();
    let c = core_result(fusion);
    let outputs = EpilogueOutputs::new(fusion, operations);
    let dim = &graph.tensor(c).dim;
    let sources = || outputs.accumulations.iter().map(|accumulation| accumulation.source);
    if !outputs.stores.iter().copied().chain(sources()).all(|id| graph.tensor(id).dim == *dim) {
        return None;
    }
    let reductions: Option<Vec<PartialReduction>> =
        outputs.accumulations.iter().map(|&accumulation| partial(graph, problem, accumulation, tile)).collect();
    let program = epilogue_program(fusion, operations, &outputs);
    let digits = ordered_digits(problem, along_n);
    let space = space(graph, problem, &program, &outputs.stores, &digits);
    let (row, inner) = if along_n { (tile.n, &problem.space.n) } else { (tile.m, &problem.space.m) };
    let width = match &boxes {
        Some(_) => Width::PAIR,
        None => width(graph, &space, &program, &outputs.stores, row.into(), inner.len().max(1))?,
    };
    let mut sweep = over(graph, space, program, outputs.stores, width);
    sweep.accumulators = Some(accumulators);
    let digits = digits.into_iter().map(|digit| digit.name).collect();
    Some(Epilogue::Fused { sweep, digits, reductions: reductions?, boxes: boxes.map(Box::new) })
}

/// Digits of C's points, outermost first: those of the index along which vectors step come last.
fn ordered_digits(problem: &Problem, along_n: bool) -> Vec<Digit> {
    let space = &problem.space;
    let (outer, inner) = if along_n { (&space.m, &space.n) } else { (&space.n, &space.m) };
    let mut digits: Vec<Digit> = space.b.iter().chain(outer).chain(inner).copied().collect();
    if inner.is_empty() {
        digits.push(Digit { name: if along_n { "n" } else { "m" }, extent: 1 });
    }
    digits
}

fn space(
    graph: &FinalizedGraph,
    problem: &Problem,
    program: &StageProgram,
    stores: &[TensorId],
    digits: &[Digit],
) -> IterationSpace {
    let read = program.moved().filter(|&id| !graph.tensor(id).is_pass_by_value);
    let tensors: BTreeSet<TensorId> = read.chain(stores.iter().copied()).collect();
    let axis = |digit: &Digit| Axis {
        extent: digit.extent,
        reduced: false,
        graph_axes: problem.axis_of(digit.name).into_iter().collect(),
        strides: tensors.iter().map(|&id| (id, problem.stride_of(digit.name, step_of(graph, id)))).collect(),
        accumulators: 0,
    };
    IterationSpace { axes: digits.iter().map(axis).collect() }
}

/// Vectors as wide as all tensors allow, within one row of the tile; `None` where bytes of packed booleans would be
/// shared between rows.
fn width(
    graph: &FinalizedGraph,
    space: &IterationSpace,
    program: &StageProgram,
    stores: &[TensorId],
    row: i64,
    inner_digits: usize,
) -> Option<Width> {
    let read = program.moved().filter(|&id| !graph.tensor(id).is_pass_by_value);
    let moved: Vec<TensorId> = read.chain(stores.iter().copied()).collect();
    let mut width = Width::choose(graph, space, program, &moved, stores);
    let inner = space.axes.last().map_or(1, |axis| axis.extent);
    if stores.is_empty() {
        width.vector = [4, 2, 1].into_iter().find(|vector| inner % vector == 0).unwrap_or(1);
    }
    while width.vector > row {
        width.vector /= 2;
    }
    let packed = stores.iter().copied().filter(|&id| graph.tensor(id).data_type == DataType::Boolean);
    let whole = packed.into_iter().all(|id| writes_whole_bytes(space, id));
    // a short last vector is cut where its digit ends: where that is not where the index ends, rows would mix
    let cut = !width.ragged || inner_digits == 1;
    (whole && cut).then_some(width)
}

/// Whether every row of a packed boolean tensor starts at a byte.
fn writes_whole_bytes(space: &IterationSpace, id: TensorId) -> bool {
    let Some((inner, outer)) = space.axes.split_last() else { return true };
    let steps = || outer.iter().filter(|axis| axis.extent > 1);
    (inner.strides[&id] == 1 || inner.extent == 1) && steps().all(|axis| axis.strides[&id] % BITS == 0)
}

/// The layout of a reduction's partial results. Reduced tiles give one partial each; a reduced batch gives one for
/// each matrix.
pub(super) fn partial(
    graph: &FinalizedGraph,
    problem: &Problem,
    accumulation: Accumulation,
    tile: GemmTile,
) -> Option<PartialReduction> {
    let target = &graph.tensor(accumulation.target).dim;
    let space = &problem.space;
    let [b, m, n] = [&space.b, &space.m, &space.n].map(|digits| is_reduced(problem, digits, target));
    let reduced = [b?, m?, n?];
    let [batch, rows, columns, _] = space.extents();
    let [tiles_m, tiles_n] = tile.counts(space.extents());
    let product = |extents: [i64; 3], wanted: bool| -> i64 {
        extents.iter().zip(reduced).filter(|(_, reduced)| *reduced == wanted).map(|(extent, _)| extent).product()
    };
    Some(PartialReduction {
        accumulation,
        reduced,
        splits: product([batch, tiles_m, tiles_n], true),
        kept: product([batch, rows, columns], false),
    })
}

/// Whether an index is reduced to a target's dims: all of its digits or none.
fn is_reduced(problem: &Problem, digits: &[Digit], target: &[i64]) -> Option<bool> {
    let reduced = |digit: &Digit| problem.axis_of(digit.name).is_some_and(|axis| target[axis] == 1);
    let first = digits.first().is_some_and(reduced);
    digits.iter().all(|digit| reduced(digit) == first).then_some(first)
}

/// The kept points of a reduction, innermost last, as its combination walks them.
pub(super) fn kept_space(graph: &FinalizedGraph, problem: &Problem, reduction: &PartialReduction) -> IterationSpace {
    let target = reduction.accumulation.target;
    let space = &problem.space;
    let kept = [&space.b, &space.m, &space.n].into_iter().zip(reduction.reduced).filter(|(_, reduced)| !reduced);
    let axis = |digit: &Digit| Axis {
        extent: digit.extent,
        reduced: false,
        graph_axes: problem.axis_of(digit.name).into_iter().collect(),
        strides: [(target, problem.stride_of(digit.name, step_of(graph, target)))].into(),
        accumulators: 0,
    };
    IterationSpace { axes: kept.flat_map(|(digits, _)| digits).map(axis).collect() }
}

/// Number of elements behind one result.
pub(super) fn reduced_count(problem: &Problem, reduction: &PartialReduction) -> i64 {
    let [b, m, n, _] = problem.space.extents();
    [b, m, n].into_iter().zip(reduction.reduced).filter(|(_, reduced)| *reduced).map(|(extent, _)| extent).product()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::graph::{Convolution, ConvolutionDirection, Graph, PointwiseMode, ReductionMode, Tensor};
    use crate::kernel::Register;

    const TILE: GemmTile = GemmTile { m: 64, n: 64, k: 32 };

    fn matmul() -> (Graph, TensorId) {
        let mut graph = Graph::new()
            .io_data_type(DataType::Half)
            .intermediate_data_type(DataType::Float)
            .compute_data_type(DataType::Float);
        let a = graph.tensor(Tensor::new("A").row_major([1, 8, 4]));
        let b = graph.tensor(Tensor::new("B").row_major([1, 4, 16]));
        let c = graph.matmul("mm", a, b);
        (graph, c)
    }

    fn fusion(graph: &Graph) -> Fusion {
        crate::fusion::fuse(Arc::new(graph.finalize().expect("well formed"))).expect("a core")
    }

    #[test]
    fn operations_beside_the_core_stand_apart_only_if_they_are_stored() {
        for stored in [false, true] {
            let (mut graph, c) = matmul();
            let x = graph.tensor(Tensor::new("x").row_major([1, 1, 16]));
            let side = graph.pointwise("side", PointwiseMode::Exp, &[x]);
            let sum = graph.pointwise("sum", PointwiseMode::Add, &[c, side]);
            graph.set_output(sum);
            if stored {
                graph.set_output(side);
            }
            let split = EpilogueSplit::new(&fusion(&graph));
            assert_eq!((split.fused.len(), split.apart.len()), (2, usize::from(stored)));
        }
    }

    #[test]
    fn packed_booleans_decide_how_threads_step() {
        let (mut graph, c) = matmul();
        let mask = graph.pointwise("mask", PointwiseMode::CmpGt, &[c, c]);
        graph.set_output(mask).data_type = Some(DataType::Boolean);
        graph.tensor_mut(mask).stride = vec![128, 1, 8];
        let fusion = fusion(&graph);
        let stores: Vec<TensorId> = fusion.graph().outputs().collect();
        assert!(!along_n(fusion.graph(), &Problem::of(&fusion).expect("a core"), &stores, stores[0]));
    }

    /// Whether a reduction of a convolution's result to these dims is done where the tiles are.
    fn is_fused(target: [i64; 4]) -> bool {
        let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
        let x = graph.tensor(Tensor::new("x").channels_last([2, 8, 5, 5]));
        let w = graph.tensor(Tensor::new("w").channels_last([16, 8, 1, 1]));
        let y = graph.convolution("conv", Convolution::new(ConvolutionDirection::Forward, 2), [x, w]);
        graph.set_output(y);
        let sum = graph.reduction("sum", ReductionMode::Add, y, target);
        graph.set_output(sum).data_type = Some(DataType::Float);
        let fusion = fusion(&graph);
        let operations = EpilogueSplit::new(&fusion).fused;
        let problem = Problem::of(&fusion).expect("a core");
        fused(&fusion, &problem, &operations, TILE, Accumulators::Tile(Register::Float), true, None).is_some()
    }

    #[test]
    fn reductions_that_keep_a_part_of_the_pixels_index_follow_in_a_pass() {
        assert!(is_fused([1, 16, 1, 1]) && is_fused([1, 1, 1, 1]) && is_fused([2, 1, 5, 5]));
        assert!(!is_fused([2, 1, 1, 1]) && !is_fused([2, 16, 1, 1]) && !is_fused([1, 16, 5, 1]));
    }
}
