//! The copy of one operand: its launch, and what it costs.

use super::super::boxed_operand::{StoredLine, UNIT};
use super::super::pass::{LAUNCH_SECONDS, push_evaluation};
use super::super::sweep::{elements, span};
use super::super::transposed;
use super::layout::padded;
use super::unfolded::Unfolded;
use crate::device::Device;
use crate::engine::builder::{KernelBuilder, Shape};
use crate::graph::{FinalTensor, FinalizedGraph, TensorId};
use crate::kernel::{
    Body, Coordinate, CopyAxis, CopyKernel, Parameter, Quantity, StageProgram, TransposedCopyKernel, UnfoldKernel,
    UnfoldedAxis, step,
};

/// Bytes of a word of the workspace.
const WORD: i64 = 4;

/// Threads of a block that copies: as many as of a pointwise pass.
const THREADS: u32 = 256;

/// Largest unit of a copy, in bytes.
const LARGEST_UNIT: i64 = 8;

/// How many times as long the writes of a copy take whose source is contiguous along another axis, so that a warp writes to many rows (an
/// estimate, from before such copies went by tiles).
const TURNED_WRITES: f64 = 1.25;

/// Most neighbouring threads that write to a row of a copy whose source is contiguous along another axis, where elements have so many
/// bytes: those of a warp read whole sectors, or with 8 bits halves of them.
const fn most_neighbours(element: i64) -> i64 {
    if element < 2 { 2 } else { element }
}

/// The same where the source is contiguous along the copy's rows: a sector of L2, so that boxes end with whole sectors of zeros.
const NEIGHBOURS_IN_A_SECTOR: i64 = 2;

/// One operand's copy.
#[derive(Clone, Debug)]
pub(in crate::engine::lowering) struct OperandCopy {
    pub(super) source: TensorId,
    pub(super) copy: TensorId,
    /// The axis that is contiguous in the copy.
    pub(super) inner: usize,
    pub(super) way: Way,
    /// Why the operand is not taken as it lies.
    pub(super) why: String,
}

/// How a copy comes about.
#[derive(Clone, Debug)]
pub(super) enum Way {
    /// Element by element.
    Copied,
    /// As a matrix of these digits.
    Unfolded(Unfolded),
    /// As values of a mainloop stage.
    Evaluated(StageProgram),
}

impl OperandCopy {
    /// Whether it holds what a mainloop stage computes.
    pub(in crate::engine::lowering) fn is_evaluated(&self) -> bool {
        matches!(self.way, Way::Evaluated(_))
    }

    /// The copy's tensor.
    pub(in crate::engine::lowering) fn copy(&self) -> TensorId {
        self.copy
    }

    /// What is copied and why, as a sentence for people.
    pub(in crate::engine::lowering) fn remark(&self, graph: &FinalizedGraph) -> String {
        let (_, bytes) = self.rows(graph);
        let becomes = match self.way {
            Way::Copied => "copied first, to rows",
            Way::Unfolded(_) => "unfolded first, to a matrix of rows",
            Way::Evaluated(_) => "evaluated first, to rows",
        };
        format!("{}; so it is {becomes} of {bytes} bytes in the workspace", self.why)
    }

    /// Seconds of the copy: a launch, then each element of the source read once, and each of the copy written once.
    pub(in crate::engine::lowering) fn seconds(&self, graph: &FinalizedGraph, device: &Device) -> f64 {
        let source = graph.tensor(self.source);
        let bytes = |tensor: &FinalTensor| elements(tensor) * tensor.data_type.bytes() as i64;
        let read = match &self.way {
            Way::Evaluated(program) => program.moved().map(|id| bytes(graph.tensor(id))).sum(),
            Way::Copied | Way::Unfolded(_) => bytes(source),
        };
        let (rows, row_bytes) = self.rows(graph);
        let writes = if self.step_along_inner(source) == 1 { 1.0 } else { TURNED_WRITES };
        LAUNCH_SECONDS + (read as f64 + (rows * row_bytes) as f64 * writes) / device.bytes_per_second
    }

    /// Rows of the copy, and bytes from one to the next.
    fn rows(&self, graph: &FinalizedGraph) -> (i64, i64) {
        let copy = graph.tensor(self.copy);
        let bytes = copy.data_type.bytes() as i64;
        match &self.way {
            Way::Unfolded(unfolded) => {
                (unfolded.rows.iter().map(|digit| digit.extent.value()).product(), unfolded.pitch * bytes)
            }
            Way::Copied | Way::Evaluated(_) => {
                (elements(copy) / copy.dim[self.inner], padded(copy.dim[self.inner] * bytes))
            }
        }
    }

    /// Elements of the source between neighbours of a row of the copy.
    fn step_along_inner(&self, source: &FinalTensor) -> i64 {
        let Unfolded { k, coordinates, .. } = match &self.way {
            Way::Unfolded(unfolded) => unfolded,
            Way::Copied => return step(source, self.inner),
            Way::Evaluated(_) => return 1,
        };
        let Some(last) = k.last() else { return 0 };
        let is_last = |term: &(Quantity, i64)| term.0 == last.quantity;
        let axes = coordinates.iter().enumerate();
        let terms = axes.flat_map(|(axis, coordinate)| coordinate.terms.iter().map(move |term| (axis, term)));
        terms.filter(|(_, term)| is_last(term)).map(|(axis, term)| term.1 * step(source, axis)).sum()
    }

    /// Adds the copy, with its place in the workspace: the last vectors of neighbouring threads are stored as a whole.
    pub(in crate::engine::lowering) fn push(&self, graph: &FinalizedGraph, builder: &mut KernelBuilder) {
        let copy = graph.tensor(self.copy);
        let bytes = match &self.way {
            Way::Unfolded(unfolded) => self.rows(graph).0 * unfolded.pitch,
            Way::Copied | Way::Evaluated(_) => span(copy),
        } * copy.data_type.bytes() as i64;
        builder.place(self.copy, (bytes + self.neighbours(graph) * UNIT) / WORD);
        let parameters = [self.source, self.copy].map(Parameter::Tensor).into();
        let (skeleton, vectors, body) = match &self.way {
            Way::Evaluated(program) => return push_evaluation(graph, program.clone(), self.copy, builder),
            Way::Unfolded(unfolded) => {
                let kernel = self.unfold_kernel(graph, unfolded);
                ("unfold", kernel.vectors(), Body::Unfold(Box::new(kernel)))
            }
            Way::Copied => {
                if let Some(kernel) = self.transposed_kernel(graph) {
                    let shape = transposed::shape(&kernel.tile, kernel.blocks(), kernel.shared_bytes());
                    return builder.push("transposed_copy", shape, parameters, Body::TransposedCopy(kernel));
                }
                let kernel = self.kernel(graph);
                ("copy", kernel.vectors(), Body::Copy(kernel))
            }
        };
        builder.push(skeleton, Shape::line_of_blocks(vectors, THREADS), parameters, body);
    }

    pub(super) fn unfold_kernel(&self, graph: &FinalizedGraph, unfolded: &Unfolded) -> UnfoldKernel {
        let [source, copy] = [self.source, self.copy].map(|id| graph.tensor(id));
        let bytes = source.data_type.bytes() as i64;
        let axis = |(axis, coordinate): (usize, &Coordinate)| UnfoldedAxis {
            coordinate: coordinate.clone(),
            stride: step(source, axis),
        };
        UnfoldKernel {
            source: self.source,
            copy: self.copy,
            element_bytes: bytes as u32,
            rows: unfolded.rows.clone(),
            k: unfolded.k.clone(),
            axes: unfolded.coordinates.iter().enumerate().map(axis).collect(),
            pitch: unfolded.pitch,
            neighbours: self.neighbours(graph),
            threads: THREADS,
            wide_index: [source, copy].into_iter().any(|tensor| span(tensor) > i64::from(i32::MAX)),
        }
    }

    pub(super) fn kernel(&self, graph: &FinalizedGraph) -> CopyKernel {
        let [source, copy] = [self.source, self.copy].map(|id| graph.tensor(id));
        let element = source.data_type.bytes() as i64;
        let unit = self.unit_bytes(source);
        let (axes, gathered) = self.axes(source, copy, unit / element);
        let wide_index = [source, copy].into_iter().any(|tensor| span(tensor) > i64::from(i32::MAX));
        let neighbours = self.neighbours(graph);
        let (source, copy) = (self.source, self.copy);
        CopyKernel { source, copy, unit_bytes: unit as u32, axes, gathered, neighbours, threads: THREADS, wide_index }
    }

    /// The kernel of a copy whose source is contiguous along another axis, and long enough both ways for tiles.
    pub(super) fn transposed_kernel(&self, graph: &FinalizedGraph) -> Option<TransposedCopyKernel> {
        let plain = self.kernel(graph);
        let (source, StoredLine { stored, .. }) = (graph.tensor(self.source), self.stored_line(graph)?);
        let bytes = source.data_type.bytes() as i64;
        let across = plain.axes.iter().position(|axis| axis.from == 1)?;
        let is_long = |axis: usize| plain.axes[axis].extent >= transposed::FEWEST;
        if plain.gathered == across || !is_long(plain.gathered) || !is_long(across) {
            return None;
        }
        let fits = |width: &i64| {
            let is_apart = |(axis, of): (usize, &CopyAxis)| axis == across || of.from % width == 0;
            plain.axes[across].extent % width == 0
                && source.alignment % (width * bytes) == 0
                && plain.axes.iter().enumerate().all(is_apart)
        };
        let read = transposed::widths(bytes).find(fits).unwrap_or(1);
        let axes = [plain.gathered, across];
        let tile = transposed::tile_of(axes, axes.map(|axis| plain.axes[axis].extent), bytes == 1);
        Some(TransposedCopyKernel {
            source: self.source,
            copy: self.copy,
            element_bytes: bytes as u32,
            tile: transposed::with_threads(tile, plain.vector()),
            axes: plain.axes,
            stored,
            read,
            wide_index: plain.wide_index,
        })
    }

    /// What is stored of a row; `None` where zeros do not end it.
    pub(in crate::engine::lowering) fn stored_line(&self, graph: &FinalizedGraph) -> Option<StoredLine> {
        let Way::Copied = self.way else { return None };
        let copy = graph.tensor(self.copy);
        let elements = copy.dim[self.inner];
        let group = self.neighbours(graph) * UNIT / copy.data_type.bytes() as i64;
        Some(StoredLine { elements, stored: (elements + group - 1) / group * group })
    }

    /// Vectors of a row of the copy that neighbouring threads store.
    fn neighbours(&self, graph: &FinalizedGraph) -> i64 {
        let source = graph.tensor(self.source);
        let most = match self.step_along_inner(source) {
            1 => NEIGHBOURS_IN_A_SECTOR,
            _ => most_neighbours(source.data_type.bytes() as i64),
        };
        let (_, bytes) = self.rows(graph);
        [4, 2].into_iter().find(|&all| all <= most && bytes % (all * UNIT) == 0).unwrap_or(1)
    }

    /// Bytes of the largest unit of which rows of the source are whole numbers, and at whose multiples they begin; an element where
    /// the source is not contiguous along the rows.
    fn unit_bytes(&self, source: &FinalTensor) -> i64 {
        let element = source.data_type.bytes() as i64;
        let is_whole = |unit: &i64| {
            let steps = |axis: &usize| source.dim[*axis] > 1 && *axis != self.inner;
            let mut others = (0..source.dim.len()).filter(steps);
            source.stride[self.inner] == 1
                && source.dim[self.inner] * element % unit == 0
                && source.alignment % unit == 0
                && others.all(|axis| source.stride[axis] * element % unit == 0)
        };
        let halves = std::iter::successors(Some(LARGEST_UNIT), |unit| Some(unit / 2));
        halves.take_while(|unit| *unit > element).find(is_whole).unwrap_or(element)
    }

    /// The axes in units of so many elements, in the order in which they lie in the source, and which is gathered; axes that follow
    /// each other in both layouts are one.
    fn axes(&self, source: &FinalTensor, copy: &FinalTensor, unit: i64) -> (Vec<CopyAxis>, usize) {
        let mut order: Vec<usize> = (0..source.dim.len()).collect();
        order.retain(|&axis| source.dim[axis] > 1 && axis != self.inner);
        order.push(self.inner);
        order.sort_by_key(|&axis| std::cmp::Reverse(source.stride[axis]));
        let position = order.iter().position(|&axis| axis == self.inner).unwrap_or_default();
        let axis = |&axis: &usize| CopyAxis {
            extent: source.dim[axis],
            from: source.stride[axis] / unit,
            to: copy.stride[axis] / unit,
        };
        let inner = CopyAxis { extent: source.dim[self.inner] / unit, from: source.stride[self.inner], to: 1 };
        let outer = merged(order[..position].iter().map(axis));
        let gathered = outer.len();
        let below = merged(order[position + 1..].iter().map(axis));
        (outer.into_iter().chain([inner]).chain(below).collect(), gathered)
    }
}

/// Axes of which those that follow each other in both layouts are one.
fn merged(axes: impl Iterator<Item = CopyAxis>) -> Vec<CopyAxis> {
    let mut merged: Vec<CopyAxis> = Vec::new();
    for axis in axes {
        let steps_over =
            |outer: &&mut CopyAxis| [outer.from, outer.to] == [axis.from, axis.to].map(|s| s * axis.extent);
        match merged.last_mut().filter(steps_over) {
            Some(outer) => *outer = CopyAxis { extent: outer.extent * axis.extent, ..axis },
            None => merged.push(axis),
        }
    }
    merged
}
