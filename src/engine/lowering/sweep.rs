//! Choosing how a pass over an iteration space moves its tensors.

use std::collections::{BTreeMap, BTreeSet};

use super::packed::{BITS, shares_bytes};
use crate::graph::{DataType, FinalTensor, FinalizedGraph, TensorId};
use crate::kernel::{
    Access, Accumulators, Axis, IterationRequest, IterationSpace, Number, Parameter, Part, Register, StageProgram,
    Sweep, Value, Window, step,
};

/// Widest access of a thread, in bytes.
pub(super) const ACCESS_BYTES: i64 = 16;

/// Most channels of which a thread walks the windows at once.
const WINDOW_CHANNELS: i64 = 8;

/// The core's result as the passes find it: accumulators in the workspace, not rounded yet.
#[derive(Clone, Debug)]
pub(super) struct CoreAccumulators {
    /// The core's result.
    pub(super) tensor: TensorId,
    /// Elements to the next coordinate of each graph axis.
    pub(super) strides: Vec<Number>,
    /// Class of the accumulators.
    pub(super) register: Register,
    /// Number of partial sums.
    pub(super) splits: u32,
    /// Elements of one partial sum.
    pub(super) elements: Number,
    /// Where they lie in the workspace.
    pub(super) parameter: Parameter,
}

/// What a sweep has to do.
pub(super) struct SweepRequest<'a> {
    pub(super) graph: &'a FinalizedGraph,
    /// Full extents by graph axis.
    pub(super) extents: &'a [i64],
    pub(super) program: StageProgram,
    /// Tensors stored at each point.
    pub(super) stores: Vec<TensorId>,
    /// Results of reductions: in memory, but not stored at each point.
    pub(super) targets: Vec<TensorId>,
    pub(super) reduced: BTreeSet<usize>,
    /// Where the core's result lies, if the program starts from it.
    pub(super) core: Option<&'a CoreAccumulators>,
}

/// Orders the axes, picks the vector width and the access of every tensor.
pub(super) fn plan(request: SweepRequest<'_>) -> Sweep {
    let graph = request.graph;
    let memory = request.memory_tensors();
    let reference = request.reference(&memory);
    let mut space = IterationSpace::new(&IterationRequest {
        graph,
        extents: request.extents,
        tensors: &memory,
        reference,
        reduced: &request.reduced,
        pinned: &request.program.indexed_axes(),
        accumulators: request.core.map_or(&[], |core| &core.strides),
    });
    if space.axes.is_empty() {
        space.axes.push(single_point(&memory));
    }
    let moved: Vec<TensorId> = memory.iter().copied().filter(|id| !request.targets.contains(id)).collect();
    let width = if shares_bytes(graph, &space, &request.stores) {
        Width { vector: 1, ragged: false }
    } else {
        Width::choose(graph, &space, &request.program, &moved, &request.stores)
    };
    let partial_sums = request.core.map_or(0, |core| core.elements.value().saturating_mul(core.splits.into()));
    let gathered = request.program.windows().flat_map(Window::tensors);
    let wide_index =
        needs_wide_index(graph, &space, memory.iter().copied().chain(gathered)) || partial_sums > i64::from(i32::MAX);
    let accumulators = request.core.filter(|core| request.program.reads_accumulator(core.tensor)).map(|core| {
        let vector = space.axes.iter().rev().skip(1).all(|axis| axis.accumulators % width.vector == 0)
            && innermost(&space).accumulators == 1
            && core.elements % width.vector == 0;
        let (register, splits, elements) = (core.register, core.splits, core.elements);
        Accumulators::Workspace { register, splits, elements, vector: vector && !width.ragged }
    });
    let sweep = with_bytes_of_booleans(graph, over(graph, space, request.program, request.stores, width));
    Sweep { wide_index, accumulators, ..sweep }
}

/// The same sweep, whose packed booleans are read by the byte where a vector's lie in one.
pub(super) fn with_bytes_of_booleans(graph: &FinalizedGraph, mut sweep: Sweep) -> Sweep {
    let (inner, outer) = sweep.space.axes.split_last().expect("a sweep has at least one axis");
    let vector = sweep.vector;
    if vector == 1 || vector > BITS || sweep.ragged {
        return sweep;
    }
    let lies_in_a_byte = |id: &TensorId| {
        let is_apart = |axis: &Axis| axis.strides[id] % vector == 0;
        graph.tensor(*id).data_type == DataType::Boolean && inner.strides[id] == 1 && outer.iter().all(is_apart)
    };
    let found: Vec<TensorId> =
        sweep.access.iter().filter(|entry| *entry.1 == Access::Strided).map(|entry| *entry.0).collect();
    let packed: Vec<TensorId> = found.into_iter().filter(lies_in_a_byte).collect();
    sweep.access.extend(packed.into_iter().map(|id| (id, Access::BitsOfByte)));
    sweep
}

/// A sweep over a given space in vectors of a given width.
pub(in crate::engine) fn over(
    graph: &FinalizedGraph,
    space: IterationSpace,
    program: StageProgram,
    stores: Vec<TensorId>,
    width: Width,
) -> Sweep {
    let read = program.moved().filter(|&id| !graph.tensor(id).is_pass_by_value);
    let moved: BTreeSet<TensorId> = read.chain(stores.iter().copied()).collect();
    let mut access: BTreeMap<TensorId, Access> =
        moved.iter().map(|&id| (id, width.access(graph, &space, id, stores.contains(&id)))).collect();
    let scalars = program.loads().filter(|&id| graph.tensor(id).is_pass_by_value);
    access.extend(scalars.map(|id| (id, Access::Parameter)));
    let gathered = program.windows().flat_map(Window::tensors);
    let gathers = gathered.map(|id| (id, width.gather(graph, &space, id))).collect();
    let Width { vector, ragged } = width;
    let concatenated = concatenated(graph, &space, &program, &access, vector);
    Sweep {
        space,
        program,
        access,
        gathers,
        concatenated,
        stores,
        vector,
        ragged,
        wide_index: false,
        accumulators: None,
    }
}

/// The concatenations of which every vector lies in one part and starts there at a multiple of the access size.
fn concatenated(
    graph: &FinalizedGraph,
    space: &IterationSpace,
    program: &StageProgram,
    access: &BTreeMap<TensorId, Access>,
    vector: i64,
) -> BTreeSet<TensorId> {
    let inner = space.axes.last().and_then(|axis| axis.graph_axes.first().copied());
    let is_aligned = |part: &Part| {
        let start = inner.map_or(0, |axis| part.start[axis]);
        start % vector == 0 && part.shift(graph) % vector == 0
    };
    let is_whole = |parts: &[Part]| parts.iter().all(|part| access[&part.tensor] == Access::Vector && is_aligned(part));
    let concatenations = program.steps.iter().filter_map(|step| match &step.value {
        Value::Concat(parts) if vector > 1 && is_whole(parts) => Some(step.tensor),
        _ => None,
    });
    concatenations.collect()
}

impl SweepRequest<'_> {
    /// Device tensors touched: operands, stores and targets, each once.
    pub(super) fn memory_tensors(&self) -> Vec<TensorId> {
        let read = self.program.moved().filter(|&id| !self.graph.tensor(id).is_pass_by_value);
        let all: BTreeSet<TensorId> =
            read.chain(self.stores.iter().copied()).chain(self.targets.iter().copied()).collect();
        all.into_iter().collect()
    }

    /// Packed booleans decide the order of the axes, else the largest tensor, results before operands; where nothing
    /// is moved point by point, what windows read.
    pub(super) fn reference(&self, memory: &[TensorId]) -> TensorId {
        let weight = |&id: &TensorId| {
            let tensor = self.graph.tensor(id);
            let stored = self.stores.contains(&id);
            (stored && tensor.data_type == DataType::Boolean, elements(tensor), stored, std::cmp::Reverse(id))
        };
        let is_target = |id: &TensorId| self.targets.contains(id);
        let gathered = self.program.windows().flat_map(Window::tensors).filter(|_| memory.iter().all(is_target));
        memory.iter().copied().chain(gathered).max_by_key(weight).expect("a pass stores or reduces something")
    }
}

/// The only point of a space without axes.
pub(super) fn single_point(memory: &[TensorId]) -> Axis {
    let strides = memory.iter().map(|&id| (id, 0.into())).collect();
    Axis { extent: 1.into(), reduced: false, graph_axes: Vec::new(), strides, accumulators: 0.into() }
}

/// Vector width of a sweep.
#[derive(Clone, Copy)]
pub(in crate::engine) struct Width {
    pub(in crate::engine) vector: i64,
    /// Whether the last vector of a row has fewer points.
    pub(in crate::engine) ragged: bool,
}

impl Width {
    /// The two columns of a row of a fragment that a thread holds.
    pub(super) const PAIR: Self = Self { vector: 2, ragged: false };

    /// The widest vector that all the largest tensors can be moved in, and windows be read in; packed booleans are
    /// stored by the byte.
    pub(super) fn choose(
        graph: &FinalizedGraph,
        space: &IterationSpace,
        program: &StageProgram,
        moved: &[TensorId],
        stores: &[TensorId],
    ) -> Self {
        let inner = innermost(space);
        if stores.iter().any(|&id| graph.tensor(id).data_type == DataType::Boolean) {
            return Self { vector: BITS, ragged: inner.extent % BITS != 0 };
        }
        let largest = moved.iter().map(|&id| elements(graph.tensor(id))).max().unwrap_or(1);
        let streams: Vec<TensorId> = moved
            .iter()
            .copied()
            .filter(|&id| graph.tensor(id).data_type != DataType::Boolean)
            .filter(|&id| elements(graph.tensor(id)) == largest && inner.strides[&id] == 1)
            .collect();
        let gathered: Vec<TensorId> = program.windows().flat_map(Window::tensors).collect();
        let deciding = if streams.is_empty() { &gathered } else { &streams };
        let smallest =
            deciding.iter().map(|&id| graph.tensor(id).data_type.bytes() as i64).min().unwrap_or(ACCESS_BYTES);
        let widest = if gathered.is_empty() { ACCESS_BYTES } else { WINDOW_CHANNELS };
        let mut vector = (ACCESS_BYTES / smallest).min(widest);
        while vector > 1
            && (inner.extent % vector != 0
                || !streams.iter().all(|&id| is_vectorizable(graph, space, id, vector))
                || !gathered.iter().all(|&id| holds_channel_vectors(graph, space, id, vector)))
        {
            vector /= 2;
        }
        Self { vector, ragged: false }
    }

    /// How windows read a tensor.
    fn gather(&self, graph: &FinalizedGraph, space: &IterationSpace, id: TensorId) -> Access {
        let in_vectors = self.vector > 1 && !self.ragged && holds_channel_vectors(graph, space, id, self.vector);
        if in_vectors { Access::Vector } else { Access::Strided }
    }

    fn access(&self, graph: &FinalizedGraph, space: &IterationSpace, id: TensorId, stored: bool) -> Access {
        let boolean = graph.tensor(id).data_type == DataType::Boolean;
        match innermost(space).strides[&id].value() {
            _ if boolean && stored && self.vector == 1 => Access::Bit,
            _ if boolean && stored => Access::Bits,
            0 if !stored => Access::Broadcast,
            1 if self.vector > 1 && !boolean && !self.ragged && is_vectorizable(graph, space, id, self.vector) => {
                Access::Vector
            }
            _ => Access::Strided,
        }
    }
}

fn innermost(space: &IterationSpace) -> &Axis {
    space.axes.last().expect("a sweep has at least one axis")
}

/// Whether every vector of the tensor starts at a multiple of its access size.
pub(super) fn is_vectorizable(graph: &FinalizedGraph, space: &IterationSpace, id: TensorId, vector: i64) -> bool {
    is_vectorizable_along(graph, space, (id, space.axes.len() - 1), vector)
}

/// The same of vectors along an axis of the space.
pub(super) fn is_vectorizable_along(
    graph: &FinalizedGraph,
    space: &IterationSpace,
    (id, along): (TensorId, usize),
    vector: i64,
) -> bool {
    let tensor = graph.tensor(id);
    let access = (tensor.data_type.bytes() as i64 * vector).min(ACCESS_BYTES);
    let is_apart = |(axis, of): (usize, &Axis)| axis == along || of.strides[&id] % vector == 0;
    tensor.data_type != DataType::Boolean
        && space.axes[along].strides[&id] == 1
        && space.axes.iter().enumerate().all(is_apart)
        && tensor.alignment % access == 0
}

/// Whether the points of a vector are neighbouring channels of an image, of which every pixel starts at a multiple of the
/// access size.
fn holds_channel_vectors(graph: &FinalizedGraph, space: &IterationSpace, id: TensorId, vector: i64) -> bool {
    const CHANNEL: usize = 1;
    let tensor = graph.tensor(id);
    let (inner, outer) = space.axes.split_last().expect("a sweep has at least one axis");
    let parts = outer.iter().filter(|axis| axis.graph_axes == [CHANNEL]).count();
    let access = (tensor.data_type.bytes() as i64 * vector).min(ACCESS_BYTES);
    let is_apart = |axis: usize| axis == CHANNEL || step(tensor, axis) % vector == 0;
    inner.graph_axes == [CHANNEL]
        && (parts == 0 || inner.extent % vector == 0)
        && step(tensor, CHANNEL) == 1
        && (0..tensor.dim.len()).all(is_apart)
        && tensor.alignment % access == 0
}

pub(super) fn elements(tensor: &FinalTensor) -> i64 {
    tensor.dim.iter().product()
}

/// Whether an offset into some tensor, or the number of points, may exceed 31 bits.
pub(super) fn needs_wide_index(
    graph: &FinalizedGraph,
    space: &IterationSpace,
    mut memory: impl Iterator<Item = TensorId>,
) -> bool {
    memory.any(|id| span(graph.tensor(id)) > i64::from(i32::MAX)) || space.points() > i64::from(i32::MAX)
}

/// Elements from the first to one past the last.
pub(in crate::engine) fn span(tensor: &FinalTensor) -> i64 {
    1 + tensor.dim.iter().zip(&tensor.stride).map(|(extent, stride)| (extent - 1) * stride).sum::<i64>()
}

/// Operands, then stores, each tensor once; host scalars by value.
pub(in crate::engine) fn program_parameters(
    reads: impl Iterator<Item = TensorId>,
    stores: &[TensorId],
    is_scalar: impl Fn(TensorId) -> bool,
) -> Vec<Parameter> {
    let mut parameters: Vec<Parameter> = Vec::new();
    for id in reads {
        let parameter = if is_scalar(id) { Parameter::Scalar(id) } else { Parameter::Tensor(id) };
        if !parameters.contains(&parameter) {
            parameters.push(parameter);
        }
    }
    for &id in stores {
        if !parameters.contains(&Parameter::Tensor(id)) {
            parameters.push(Parameter::Tensor(id));
        }
    }
    parameters
}

/// A number of blocks or threads; what is too large becomes the largest, which [`Kernel::fits`] refuses.
pub(super) fn to_u32(value: i64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{
        Attributes, Fraction, Graph, Operation, PaddingMode, PointwiseMode, Port, Resample, ResampleMode, Tensor,
    };

    /// The sweep of `y = x + b`, and the ids of x, b and y.
    fn sweep(x: Tensor, b: Tensor, y: DataType) -> (Sweep, [TensorId; 3]) {
        let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
        let operands = [x, b].map(|tensor| graph.tensor(tensor));
        let result = graph.pointwise("y", PointwiseMode::CmpGt, &operands);
        graph.set_output(result).data_type = Some(y);
        let graph = graph.finalize().expect("well formed");
        let result = graph.outputs().next().expect("one output");
        let operation = graph.producer(result).expect("y is computed");
        let mut ids = graph.operation(operation).input_tensors();
        let ids = [ids.next().expect("x"), ids.next().expect("b"), result];
        let request = SweepRequest {
            graph: &graph,
            extents: &graph.tensor(result).dim,
            program: StageProgram::of(&graph, graph.operation_ids(), None),
            stores: vec![result],
            targets: Vec::new(),
            core: None,
            reduced: BTreeSet::new(),
        };
        (plan(request), ids)
    }

    fn row_major(dim: [i64; 3]) -> Tensor {
        Tensor::new("t").row_major(dim)
    }

    #[test]
    fn vectors_are_as_wide_as_extents_and_alignment_let_them() {
        let width = |extent, alignment| {
            let x = || row_major([2, 3, extent]).alignment(alignment);
            sweep(x(), x(), DataType::Half).0.vector
        };
        assert_eq!([width(32, 16), width(2, 16), width(33, 16), width(32, 4)], [8, 4, 2, 2]);
    }

    #[test]
    fn each_tensor_is_accessed_as_it_lies() {
        let dim = [2, 4, 16];
        let column = row_major([2, 4, 1]);
        let (plan, ids) = sweep(row_major(dim), column, DataType::Half);
        assert_eq!(ids.map(|id| plan.access[&id]), [Access::Vector, Access::Broadcast, Access::Vector]);
        let transposed = Tensor::new("t").dim(dim).stride([64, 1, 4]);
        let (plan, ids) = sweep(row_major(dim), transposed, DataType::Half);
        assert_eq!(plan.access[&ids[1]], Access::Strided);
    }

    #[test]
    fn booleans_are_stored_by_the_byte_and_their_last_one_is_ragged() {
        for (extent, ragged) in [(24, false), (21, true)] {
            let (plan, ids) = sweep(row_major([1, 1, extent]), row_major([1, 1, extent]), DataType::Boolean);
            assert_eq!((plan.vector, plan.ragged, plan.access[&ids[2]]), (8, ragged, Access::Bits));
            assert_eq!(plan.access[&ids[0]], if ragged { Access::Strided } else { Access::Vector });
        }
    }

    #[test]
    fn offsets_beyond_31_bits_are_wide() {
        let wide = |rows| sweep(row_major([1, rows, 1 << 16]), row_major([1, 1, 1 << 16]), DataType::Half).0.wide_index;
        assert!(!wide((1 << 15) - 1) && wide((1 << 15) + 1));
    }
    /// The sweep of the mean over 2×2 windows of an image.
    fn pooled(image: Tensor) -> Sweep {
        let mut graph = Graph::new().io_data_type(DataType::Half);
        let whole = |value| vec![Fraction::whole(value); 2];
        let resample = Resample {
            mode: ResampleMode::AvgpoolIncludePadding,
            padding_mode: PaddingMode::ZeroPad,
            window: whole(2),
            stride: whole(2),
            pre_padding: whole(0),
            post_padding: whole(0),
            generate_index: None,
            alpha: 1.0,
            beta: 0.0,
        };
        let is_channels_last = image.stride.get(1) == Some(&1);
        let dim = [image.dim[0], image.dim[1], image.dim[2] / 2, image.dim[3] / 2];
        let y = Tensor::new("y");
        let y = graph.tensor(if is_channels_last { y.channels_last(dim) } else { y.row_major(dim) });
        let x = graph.tensor(image);
        graph.operation(Operation {
            name: "pool".to_owned(),
            attributes: Attributes::ResampleForward(resample),
            compute_data_type: None,
            inputs: vec![(Port::X, x)],
            outputs: vec![(Port::Y, y)],
        });
        let graph = graph.finalize().expect("well formed");
        let result = graph.outputs().next().expect("one output");
        plan(SweepRequest {
            graph: &graph,
            extents: &graph.tensor(result).dim,
            program: StageProgram::of(&graph, graph.operation_ids(), None),
            stores: vec![result],
            targets: Vec::new(),
            core: None,
            reduced: BTreeSet::new(),
        })
    }

    #[test]
    fn windows_are_read_in_vectors_of_channels_or_one_by_one() {
        let channels_last = |channels, alignment| {
            pooled(Tensor::new("x").channels_last([2, channels, 6, 8]).alignment(alignment)).vector
        };
        assert_eq!([channels_last(16, 16), channels_last(12, 16), channels_last(5, 16)], [8, 4, 1]);
        assert_eq!(channels_last(16, 4), 2);
        let bytes = Tensor::new("x").channels_last([2, 32, 6, 8]).data_type(DataType::Int8);
        assert_eq!(pooled(bytes).vector, 8, "registers hold no more");
        let rows = pooled(Tensor::new("x").row_major([2, 16, 6, 8]));
        assert_eq!(rows.vector, 1);
        assert!(rows.gathers.values().all(|access| *access == Access::Strided));
    }
}
