//! The epilogue of a matrix product: evaluated where the tile of C is, or in passes of its own.

use std::collections::BTreeSet;

use super::boxes::EpilogueBoxes;
use super::packed::BITS;
use super::passes::{accumulations, stored_results};
use super::problem::Problem;
use super::sweep::{Width, over};
use crate::fusion::{Fusion, Product, Stage};
use crate::graph::{DataType, FinalizedGraph, OperationId, TensorId};
use crate::kernel::{
    Access, Accumulation, Accumulators, Axis, Boxes, Digit, Epilogue, FusedEpilogue, GemmTile, IterationSpace, Number,
    PartialReduction, Quantity, Role, StageProgram, Sweep, Value, reduced_values,
};

/// The epilogue of a product, as far as tiles do not change it.
#[derive(Clone, Debug)]
pub(super) struct EpiloguePlan {
    /// Operations evaluated with the core's tiles.
    pub(super) fused: Vec<OperationId>,
    /// Operations of passes of their own: what reads reductions of the core's result, and what neither depends on the core nor feeds an
    /// operation that does.
    pub(super) apart: Vec<OperationId>,
    /// Results stored at each point of C: the core's own if it is stored, then those derived from it.
    stores: Vec<TensorId>,
    accumulations: Vec<Accumulation>,
    /// The values stored and reduced, from the core's result on.
    program: StageProgram,
    /// Whether vectors step along n.
    pub(super) along_n: bool,
    digits: Vec<Digit>,
    space: IterationSpace,
    /// Which of b, m and n each accumulation reduces, or why tiles cannot do it.
    reduced: Result<Vec<[bool; 3]>, String>,
    /// Why values do not lie over C's points.
    misfit: Option<String>,
    boxes: Option<EpilogueBoxes>,
}

/// Where an epilogue is evaluated with the tiles.
pub(super) struct EpilogueTiles {
    /// The tile of which each gives one partial result of a reduction.
    pub(super) tile: GemmTile,
    /// How it finds the accumulators.
    pub(super) accumulators: Accumulators,
    /// The boxes by which tensors come and leave, if they do.
    pub(super) boxes: Option<Boxes>,
    /// Whether offsets need 64 bits.
    pub(super) wide_index: bool,
    /// Warps that multiply, where blocks stay and walk the tiles.
    pub(super) walking_warps: Option<i64>,
}

impl EpiloguePlan {
    /// Plans the epilogue of a product.
    pub(super) fn new(fusion: &Fusion, product: &Product, problem: &Problem) -> Self {
        let (graph, c) = (fusion.graph(), product.result);
        let Split { fused, apart } = Split::new(fusion, c);
        let (stores, accumulations) = outputs(fusion, c, &fused);
        let program = program(graph, c, &fused, &stores, &accumulations);
        let along_n = along_n(graph, problem, &stores, c);
        let digits = ordered_digits(problem, along_n);
        let space = space(graph, problem, &program, &stores, &digits);
        let reduced = accumulations.iter().map(|accumulation| reduced_indices(graph, problem, accumulation)).collect();
        let misfit = misfit(graph, c, &stores, &accumulations)
            .or_else(|| misread(problem, &program).map(str::to_owned))
            .or_else(|| reduced_first(graph, &program))
            .or_else(|| read_behind(graph, c, &apart));
        let mut plan =
            Self { fused, apart, stores, accumulations, program, along_n, digits, space, reduced, misfit, boxes: None };
        // what lies beyond lines of pixels alone is left out of boxes
        let may_be_boxed = plan.may_be_boxed() && (problem.tap_row.is_some() || !problem.reaches_beyond());
        plan.boxes = may_be_boxed.then(|| EpilogueBoxes::new(graph, problem, &plan.program, &plan.stores)).flatten();
        plan
    }

    /// Whether boxes could hold all that is read and stored: values at C's points, stepping along n, which are reduced along whole
    /// indices.
    fn may_be_boxed(&self) -> bool {
        self.along_n && !self.stores.is_empty() && self.misfit.is_none() && self.reduced.is_ok() && self.is_pointwise()
    }

    /// Whether each point of what is stored follows from points of what is read.
    fn is_pointwise(&self) -> bool {
        let is_pointwise = |value: &Value| matches!(value, Value::Load | Value::Accumulator | Value::Pointwise { .. });
        self.program.steps.iter().all(|step| is_pointwise(&step.value))
    }

    /// The epilogue's tensors in boxes, for tiles of this size.
    pub(super) fn boxes(&self, tile: GemmTile) -> Option<Boxes> {
        self.boxes.as_ref().and_then(|boxes| boxes.at(tile))
    }

    /// Whether nothing is reduced, no bytes are shared, and nothing is read that lies at C's points.
    pub(super) fn reads_no_points(&self, graph: &FinalizedGraph) -> bool {
        let elements = |id: &TensorId| graph.tensor(*id).dim.iter().product::<i64>();
        let is_whole = |id: &TensorId| graph.tensor(*id).data_type != DataType::Boolean;
        let is_at_points = |id: &TensorId| self.stores.iter().any(|stored| elements(stored) == elements(id));
        self.is_pointwise()
            && self.accumulations.is_empty()
            && self.stores.iter().all(is_whole)
            && !self.program.reads().any(|id| is_at_points(&id))
    }

    /// Number of values that reductions start from.
    pub(super) fn reduced_values(&self) -> usize {
        reduced_values(self.accumulations.iter()).len()
    }

    /// Number of reductions that keep the columns of C.
    pub(super) fn totals_of_columns(&self) -> usize {
        let reduced = self.reduced.iter().flatten();
        reduced.filter(|reduced| matches!(reduced, [_, true, false])).count()
    }

    /// The epilogue where the tiles are, each of which gives one partial result of a reduction.
    ///
    /// # Errors
    /// Why tiles cannot do it, as a sentence: a value has other extents than C (the core's result broadcasts), a reduction keeps
    /// one digit of an index and reduces another, or bytes of packed booleans would be shared between rows.
    pub(super) fn in_tiles(
        &self,
        graph: &FinalizedGraph,
        problem: &Problem,
        tiles: EpilogueTiles,
    ) -> Result<Epilogue, String> {
        let EpilogueTiles { tile, accumulators, boxes, wide_index, walking_warps } = tiles;
        let (width, reduced) = self.width_in_tiles(graph, problem, tile, boxes.is_some())?;
        let [.., columns, _] = problem.space.extents();
        // a lane carries whole vectors of columns
        let carriers = walking_warps.filter(|_| columns % width.vector == 0);
        let partials = self.accumulations.iter().zip(reduced);
        let reductions =
            partials.map(|(&accumulation, &reduced)| partial(problem, accumulation, reduced, tile, carriers)).collect();
        let sweep = over(graph, self.space.clone(), self.program.clone(), self.stores.clone(), width);
        let mut sweep = Sweep { accumulators: Some(accumulators), wide_index, ..sweep };
        // a lane's pair begins at an even column of a box, whichever digits make up the columns
        let boxed = boxes.iter().flat_map(|boxes| boxes.read.iter().chain(&boxes.stored));
        sweep.access.extend(boxed.map(|map| (map.tensor, Access::Vector)));
        let digits = self.digits.iter().map(|digit| digit.quantity).collect();
        Ok(Epilogue::Fused(Box::new(FusedEpilogue { sweep, digits, reductions, boxes })))
    }

    /// How wide the epilogue's vectors are where the tiles are, and which of b, m and n its reductions reduce.
    ///
    /// # Errors
    /// As [`Self::in_tiles`].
    pub(super) fn width_in_tiles(
        &self,
        graph: &FinalizedGraph,
        problem: &Problem,
        tile: GemmTile,
        in_boxes: bool,
    ) -> Result<(Width, &[[bool; 3]]), String> {
        if let Some(misfit) = &self.misfit {
            return Err(misfit.clone());
        }
        let reduced = self.reduced.as_ref().map_err(String::clone)?;
        let width = match in_boxes {
            true => Width::PAIR,
            false => self.width(graph, problem, tile).ok_or("rows of packed booleans would share bytes")?,
        };
        Ok((width, reduced))
    }

    /// Vectors as wide as all tensors allow, within one row of the tile; `None` where bytes of packed booleans would be
    /// shared between rows.
    fn width(&self, graph: &FinalizedGraph, problem: &Problem, tile: GemmTile) -> Option<Width> {
        let (row, inner_digits) = match self.along_n {
            true => (tile.n, problem.space.n.len()),
            false => (tile.m, problem.space.m.len()),
        };
        let width = width(graph, &self.space, &self.program, &self.stores, row.into(), inner_digits.max(1))?;
        match self.digits.last().and_then(|inner| problem.bound_of(inner.quantity)) {
            None => Some(width),
            Some(line) => self.width_within(graph, line, width),
        }
    }

    /// The width of vectors that have no points beyond the end of a line of C, where tiles walk further; `None` where bytes of packed
    /// booleans would have.
    fn width_within(&self, graph: &FinalizedGraph, line: i64, width: Width) -> Option<Width> {
        let is_packed = self.stores.iter().any(|&id| graph.tensor(id).data_type == DataType::Boolean);
        let vector =
            [width.vector, 4, 2, 1].into_iter().find(|vector| *vector <= width.vector && line % vector == 0)?;
        (vector == width.vector || !is_packed).then_some(Width { vector, ..width })
    }
}

/// Operations of g2 by where they are evaluated.
struct Split {
    fused: Vec<OperationId>,
    apart: Vec<OperationId>,
}

impl Split {
    /// An operation stands apart if it reads what the core's result is reduced to, or neither depends on the core nor feeds an
    /// operation that does. A value that both need is evaluated in both.
    fn new(fusion: &Fusion, c: TensorId) -> Self {
        let graph = fusion.graph();
        let derived = derived_from(graph, [c]);
        let reduced = fusion.operations(Stage::After).flat_map(|id| accumulations(graph, id));
        let reduced = reduced.filter(|accumulation| derived.contains(&accumulation.source));
        let totals = derived_from(graph, reduced.map(|accumulation| accumulation.target));
        let reads = |id: OperationId, tensors: &BTreeSet<TensorId>| {
            graph.operation(id).input_tensors().any(|input| tensors.contains(&input))
        };
        let depends = |&id: &OperationId| reads(id, &derived);
        let (behind, epilogue): (Vec<OperationId>, Vec<OperationId>) =
            fusion.operations(Stage::After).partition(|&id| reads(id, &totals));
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
        let mut apart = if exposed || !behind.is_empty() { [without_core, behind].concat() } else { Vec::new() };
        apart.sort_unstable();
        Self { fused, apart }
    }
}

/// Tensors computed from `sources`, these included.
fn derived_from(graph: &FinalizedGraph, sources: impl IntoIterator<Item = TensorId>) -> BTreeSet<TensorId> {
    let mut derived: BTreeSet<TensorId> = sources.into_iter().collect();
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
fn along_n(graph: &FinalizedGraph, problem: &Problem, stores: &[TensorId], c: TensorId) -> bool {
    let is_packed = |id: TensorId| {
        let tensor = graph.tensor(id);
        tensor.data_type == DataType::Boolean && super::sweep::elements(tensor) > 1
    };
    let packed = stores.iter().copied().find(|&id| is_packed(id));
    let tensor = packed.or(stores.first().copied()).unwrap_or(c);
    let stride = |digits: &[Digit]| {
        digits
            .last()
            .map_or(i64::MAX, |digit| problem.stride_of(digit.quantity, |axis| graph.tensor(tensor).stride[axis]))
    };
    stride(&problem.space.n) <= stride(&problem.space.m)
}

/// What operations store and reduce of the values that depend on the core: its own result first, if it is stored.
fn outputs(fusion: &Fusion, c: TensorId, operations: &[OperationId]) -> (Vec<TensorId>, Vec<Accumulation>) {
    let graph = fusion.graph();
    let derived = derived_from(graph, [c]);
    let core = (!graph.tensor(c).is_virtual).then_some(c);
    let results = operations.iter().flat_map(|&id| stored_results(graph, id)).filter(|id| derived.contains(id));
    let reduced = operations.iter().flat_map(|&id| accumulations(graph, id));
    let reduced = reduced.filter(|accumulation| derived.contains(&accumulation.source));
    (core.into_iter().chain(results).collect(), reduced.collect())
}

/// The values that an epilogue stores and reduces, from the core's result on.
fn program(
    graph: &FinalizedGraph,
    c: TensorId,
    operations: &[OperationId],
    stores: &[TensorId],
    accumulations: &[Accumulation],
) -> StageProgram {
    let sources = accumulations.iter().map(|accumulation| accumulation.source);
    let targets = stores.iter().copied().chain(sources).chain([c]);
    StageProgram::of(graph, operations.iter().copied(), Some(c)).needed_for(targets)
}

/// Why some value that is stored or reduced does not lie over C's points; `None` where all do.
fn misfit(graph: &FinalizedGraph, c: TensorId, stores: &[TensorId], accumulations: &[Accumulation]) -> Option<String> {
    let dim = &graph.tensor(c).dim;
    let sources = accumulations.iter().map(|accumulation| accumulation.source);
    let other = stores.iter().copied().chain(sources).find(|&id| graph.tensor(id).dim != *dim)?;
    let (name, found) = (graph.describe_tensor(other), &graph.tensor(other).dim);
    Some(format!("tensor {name} has extents {found:?}, the core's result {dim:?}"))
}

/// Why values that follow from coordinates are not what they are along the digits of C's points; `None` where they are.
fn misread(problem: &Problem, program: &StageProgram) -> Option<&'static str> {
    let is_in_phases = |axis: usize| problem.result[axis].terms.iter().any(|term| matches!(term.0, Quantity::Phase(_)));
    let is_misread = program.indexed_axes().into_iter().any(is_in_phases);
    is_misread.then_some("coordinates are read of pixels that lie a stride apart")
}

/// Whether a tensor is what others are reduced to.
fn is_total(graph: &FinalizedGraph, id: TensorId) -> bool {
    graph.producer(id).is_some_and(|producer| !accumulations(graph, producer).is_empty())
}

/// That what is evaluated with the tiles reads a reduction, which would have to be there before them; `None` where nothing does.
fn reduced_first(graph: &FinalizedGraph, program: &StageProgram) -> Option<String> {
    let total = program.reads().find(|&id| is_total(graph, id))?;
    Some(format!("tensor {} is reduced before it is read beside the core's result", graph.describe_tensor(total)))
}

/// That what follows the tiles in passes reads values of C's points that are in no memory; `None` where nothing does.
fn read_behind(graph: &FinalizedGraph, c: TensorId, apart: &[OperationId]) -> Option<String> {
    let derived = derived_from(graph, [c]);
    let program = StageProgram::of(graph, apart.iter().copied(), None);
    let stored = apart.iter().flat_map(|&id| stored_results(graph, id));
    let reduced = apart.iter().flat_map(|&id| accumulations(graph, id)).map(|accumulation| accumulation.source);
    let needed = program.needed_for(stored.chain(reduced));
    let is_lost = |id: &TensorId| derived.contains(id) && graph.tensor(*id).is_virtual && !is_total(graph, *id);
    let lost = needed.reads().find(is_lost)?;
    Some(format!("tensor {} is read again behind a reduction", graph.describe_tensor(lost)))
}

/// Digits of C's points, outermost first: those of the index along which vectors step come last.
fn ordered_digits(problem: &Problem, along_n: bool) -> Vec<Digit> {
    let space = &problem.space;
    let (outer, inner) = if along_n { (&space.m, &space.n) } else { (&space.n, &space.m) };
    let mut digits: Vec<Digit> = space.b.iter().chain(outer).chain(inner).copied().collect();
    if inner.is_empty() {
        let role = if along_n { Role::Column } else { Role::Row };
        digits.push(Digit::new(Quantity::Index(role), 1));
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
        graph_axes: problem.axis_of(digit.quantity).into_iter().collect(),
        strides: tensors.iter().map(|&id| (id, problem.number_of_stride(graph, id, digit.quantity))).collect(),
        accumulators: 0.into(),
    };
    IterationSpace { axes: digits.iter().map(axis).collect() }
}

/// As [`EpiloguePlan::width`], for rows of `row` points.
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
    let inner = space.axes.last().map_or(1, |axis| axis.extent.value());
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

/// Which of b, m and n an accumulation reduces.
///
/// # Errors
/// That it keeps one digit of an index and reduces another, or points that lie beyond C.
fn reduced_indices(
    graph: &FinalizedGraph,
    problem: &Problem,
    accumulation: &Accumulation,
) -> Result<[bool; 3], String> {
    let target = &graph.tensor(accumulation.target).dim;
    let space = &problem.space;
    if problem.result.iter().zip(target).any(|(coordinate, &extent)| coordinate.bound.is_some() && extent > 1) {
        let name = graph.describe_tensor(accumulation.target);
        return Err(format!("reduction to {name} keeps blocks of pixels that reach beyond the image"));
    }
    let reduced = |digits: &[Digit]| {
        let why = || {
            let name = graph.describe_tensor(accumulation.target);
            format!(
                "reduction to {name} keeps a part of the core's {} index",
                if digits == space.n { "n" } else { "m" }
            )
        };
        is_reduced(problem, digits, target).ok_or_else(why)
    };
    Ok([reduced(&space.b)?, reduced(&space.m)?, reduced(&space.n)?])
}

/// The layout of a reduction's partial results. Reduced tiles give one partial each; a reduced batch gives one for
/// each matrix.
fn partial(
    problem: &Problem,
    accumulation: Accumulation,
    reduced: [bool; 3],
    tile: GemmTile,
    carriers: Option<i64>,
) -> PartialReduction {
    let [batch, rows, columns, _] = problem.space.extents();
    let [tiles_m, tiles_n] = tile.counts(problem.space.extents()).map(Number::value);
    let product = |extents: [i64; 3], wanted: bool| -> i64 {
        extents.iter().zip(reduced).filter(|(_, reduced)| *reduced == wanted).map(|(extent, _)| extent).product()
    };
    let (splits, kept) = (product([batch, tiles_m, tiles_n], true), product([batch, rows, columns], false));
    let keeps_columns = matches!(reduced, [_, true, false]) && kept == columns;
    // a warp carries its columns' results from tile to tile, if that leaves half as many or fewer
    match carriers.filter(|warps| keeps_columns && 2 * warps <= splits) {
        Some(splits) => PartialReduction { accumulation, reduced, splits, kept, carried: true },
        None => PartialReduction { accumulation, reduced, splits, kept, carried: false },
    }
}

/// Whether an index is reduced to a target's dims: all of its digits or none.
fn is_reduced(problem: &Problem, digits: &[Digit], target: &[i64]) -> Option<bool> {
    let reduced = |digit: &Digit| problem.axis_of(digit.quantity).is_some_and(|axis| target[axis] == 1);
    let first = digits.first().is_some_and(reduced);
    digits.iter().all(|digit| reduced(digit) == first).then_some(first)
}

/// The kept points of a reduction, innermost last, as its combination walks them.
pub(super) fn kept_space(
    graph: &FinalizedGraph,
    problem: &Problem,
    reduced: [bool; 3],
    targets: &[TensorId],
) -> IterationSpace {
    let space = &problem.space;
    let kept = [&space.b, &space.m, &space.n].into_iter().zip(reduced).filter(|(_, reduced)| !reduced);
    let axis = |digit: &Digit| Axis {
        extent: digit.extent,
        reduced: false,
        graph_axes: problem.axis_of(digit.quantity).into_iter().collect(),
        strides: targets
            .iter()
            .map(|&target| (target, problem.number_of_stride(graph, target, digit.quantity)))
            .collect(),
        accumulators: 0.into(),
    };
    IterationSpace { axes: kept.flat_map(|(digits, _)| digits).map(axis).collect() }
}

/// Number of elements behind one result.
pub(super) fn reduced_count(graph: &FinalizedGraph, accumulation: &Accumulation) -> i64 {
    let elements = |id| super::sweep::elements(graph.tensor(id));
    elements(accumulation.source) / elements(accumulation.target)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::graph::{
        Convolution, ConvolutionDirection, Graph, Pointwise, PointwiseMode, ReductionMode, Tensor, TensorHandle,
    };
    use crate::kernel::Register;

    const TILE: GemmTile = GemmTile { m: 64, n: 64, k: 32 };

    fn matmul() -> (Graph, TensorHandle) {
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

    fn plan(fusion: &Fusion) -> EpiloguePlan {
        let product = fusion.product().expect("a core");
        EpiloguePlan::new(fusion, product, &Problem::of(fusion.graph(), product))
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
            let plan = plan(&fusion(&graph));
            assert_eq!((plan.fused.len(), plan.apart.len()), (2, usize::from(stored)));
        }
    }

    #[test]
    fn what_reads_sums_of_the_result_stands_apart_unless_it_needs_the_result_again() {
        for is_stored in [true, false] {
            let (mut graph, c) = matmul();
            let relu = graph.pointwise("relu", PointwiseMode::ReluFwd, &[c]);
            if is_stored {
                graph.set_output(relu);
            }
            let sum = graph.reduction("sum", ReductionMode::Add, relu, [1, 8, 1]);
            let root = graph.pointwise("root", PointwiseMode::Sqrt, &[sum]);
            let part = graph.pointwise("part", PointwiseMode::Div, &[relu, root]);
            graph.set_output(part);
            let plan = plan(&fusion(&graph));
            assert_eq!((plan.fused.len(), plan.apart.len()), (2, 2));
            let is_read_again = plan.misfit.is_some_and(|why| why.contains("read again behind a reduction"));
            assert_eq!(is_read_again, !is_stored);
        }
    }

    #[test]
    fn sums_of_side_inputs_come_before_what_adds_them_to_the_result() {
        let (mut graph, c) = matmul();
        let x = graph.tensor(Tensor::new("x").row_major([1, 8, 16]));
        let sum = graph.reduction("sum", ReductionMode::Add, x, [1, 8, 1]);
        let y = graph.pointwise("y", PointwiseMode::Add, &[c, sum]);
        graph.set_output(y);
        let plan = plan(&fusion(&graph));
        assert!(plan.misfit.is_some_and(|why| why.contains("is reduced before it is read")));
    }

    #[test]
    fn packed_booleans_decide_how_threads_step() {
        let (mut graph, c) = matmul();
        let mask = graph.pointwise("mask", PointwiseMode::CmpGt, &[c, c]);
        graph.set_output(mask).data_type = Some(DataType::Boolean);
        graph.tensor_mut(mask).stride = vec![128, 1, 8];
        assert!(!plan(&fusion(&graph)).along_n);
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
        let problem = Problem::of(fusion.graph(), fusion.product().expect("a core"));
        let accumulators = Accumulators::Tile(Register::Float);
        let tiles = EpilogueTiles { tile: TILE, accumulators, boxes: None, wide_index: false, walking_warps: None };
        plan(&fusion).in_tiles(fusion.graph(), &problem, tiles).is_ok()
    }

    /// The plan of an epilogue of a data gradient of stride 2, of an image of so many rows.
    fn gradient_plan(rows: i64, epilogue: impl Fn(&mut Graph, TensorHandle)) -> EpiloguePlan {
        let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
        let y = graph.tensor(Tensor::new("dy").channels_last([2, 16, 4, 4]));
        let w = graph.tensor(Tensor::new("w").channels_last([16, 8, 2, 2]));
        let convolution = Convolution { stride: vec![2, 2], ..Convolution::new(ConvolutionDirection::BackwardData, 2) };
        let x = graph.convolution("conv", convolution, [y, w]);
        *graph.tensor_mut(x) = Tensor::new("dx").channels_last([2, 8, rows, 8]);
        epilogue(&mut graph, x);
        plan(&fusion(&graph))
    }

    #[test]
    fn points_beyond_an_image_are_neither_kept_by_reductions_nor_stored_in_boxes() {
        let reducing = |rows, target: [i64; 4]| {
            let plan = gradient_plan(rows, |graph, x| {
                let sum = graph.reduction("sum", ReductionMode::Add, x, target);
                graph.set_output(sum).data_type = Some(DataType::Float);
            });
            plan.reduced.is_ok()
        };
        assert!(reducing(8, [1, 8, 1, 1]) && reducing(9, [1, 8, 1, 1]) && reducing(9, [1, 1, 1, 1]));
        assert!(reducing(8, [2, 1, 8, 8]) && !reducing(9, [2, 1, 9, 8]));
    }

    #[test]
    fn coordinates_of_pixels_that_lie_a_stride_apart_are_not_told_by_digits() {
        let misfit = |axis| {
            let plan = gradient_plan(8, |graph, x| {
                let mut attributes = Pointwise::new(PointwiseMode::GenIndex);
                attributes.axis = Some(axis);
                let index = graph.pointwise_with("index", attributes, &[x]);
                graph.tensor_mut(index).data_type = Some(DataType::Int32);
                let sum = graph.pointwise("sum", PointwiseMode::Add, &[x, index]);
                graph.set_output(sum);
            });
            plan.misfit
        };
        assert!(misfit(1).is_none() && misfit(2).is_some_and(|why| why.contains("stride apart")));
    }

    #[test]
    fn reductions_that_keep_a_part_of_the_pixels_index_follow_in_a_pass() {
        assert!(is_fused([1, 16, 1, 1]) && is_fused([1, 1, 1, 1]) && is_fused([2, 1, 5, 5]));
        assert!(!is_fused([2, 1, 1, 1]) && !is_fused([2, 16, 1, 1]) && !is_fused([1, 16, 5, 1]));
    }
}
