//! The epilogue's tensors as boxes of a warp's rows, brought and taken by the tensor memory accelerator.

use super::boxed_operand::{UNIT, box_swizzle, byte_stride};
use super::problem::Problem;
use crate::graph::{DataType, FinalTensor, FinalizedGraph, TensorId};
use crate::kernel::{Boxes, Digit, GemmTile, MapElement, PixelWalk, Role, StageProgram, Swizzle, TensorMap, step};

/// Bytes of a box's rows: one swizzled row.
const ROW_BYTES: [u32; 3] = [128, 64, 32];

/// The tensors of an epilogue that is evaluated where accumulators are, as arrays of boxes of a size that the tile decides.
#[derive(Clone, Debug)]
pub(super) struct EpilogueBoxes {
    /// Bytes of the widest elements.
    widest: u32,
    read: Vec<BoxedTensor>,
    stored: Vec<BoxedTensor>,
    /// Positions of a line of pixels, where some lie beyond its pixels.
    line: Option<i64>,
}

/// A tensor over C's points: its map without its boxes, `[n, m, batch]`, or `[n, pixel, line, batch]`.
#[derive(Clone, Copy, Debug)]
struct BoxedTensor {
    map: TensorMap,
}

impl BoxedTensor {
    /// Whether the tensor memory accelerator takes its walk, if it walks: of several matrices, lines are a second axis, along which
    /// corners lie closer (`cuTensorMapEncodeIm2col`).
    fn is_walked(&self) -> bool {
        let highest = if self.map.rank == 3 { 32767 } else { 127 };
        self.map.pixels.is_none_or(|walk| walk.upper.iter().all(|&upper| upper <= highest))
    }

    /// The map with boxes of so many columns; `None` where a row of them is too short.
    fn at(&self, columns: u32) -> Option<TensorMap> {
        let row_bytes = columns * self.map.element.bytes();
        let box_dims = [columns, Boxes::ROWS, u32::from(self.map.rank == 3 && self.map.pixels.is_none()), 0, 0];
        (row_bytes >= UNIT as u32).then_some(TensorMap { box_dims, swizzle: box_swizzle(row_bytes), ..self.map })
    }
}

impl EpilogueBoxes {
    /// The boxes of the tensors that a program reads and stores; `None` where some result cannot be stored in boxes.
    pub(super) fn new(
        graph: &FinalizedGraph,
        problem: &Problem,
        program: &StageProgram,
        stores: &[TensorId],
    ) -> Option<Self> {
        let line = problem.tap_row.and_then(|_| problem.space.m.last()).map(|pixels| pixels.radix.value());
        let line = line.filter(|_| problem.reaches_beyond());
        let planner = Planner { graph, problem, line };
        let stored: Option<Vec<BoxedTensor>> =
            stores.iter().map(|&id| planner.tensor(id).filter(|_| planner.ends_whole(id))).collect();
        let read: Vec<BoxedTensor> = program.loads().filter_map(|id| planner.streamed(id)).collect();
        let stored = stored?;
        let boxed = || read.iter().chain(&stored);
        let mut others = program.moved().filter(|&id| boxed().all(|tensor| tensor.map.tensor != id));
        if !planner.pairs_share_a_digit() && !others.all(|id| planner.is_alike_along_columns(id)) {
            return None;
        }
        let widest = boxed().map(|tensor| tensor.map.element.bytes()).max()?;
        Some(Self { widest, read, stored, line })
    }

    /// Boxes of as many columns as the widest elements let fit into a swizzled row.
    pub(super) fn at(&self, tile: GemmTile) -> Option<Boxes> {
        let fits = |columns: &u32| tile.n.is_multiple_of(*columns);
        let columns = ROW_BYTES.map(|row| row / self.widest).into_iter().filter(|columns| *columns >= 16).find(fits)?;
        let maps = |tensors: &[BoxedTensor]| -> Option<Vec<TensorMap>> {
            tensors.iter().map(|tensor| tensor.at(columns)).collect()
        };
        Some(Boxes { columns, read: maps(&self.read)?, stored: maps(&self.stored)?, line: self.line })
    }
}

struct Planner<'a> {
    graph: &'a FinalizedGraph,
    problem: &'a Problem,
    line: Option<i64>,
}

/// What a tensor has along an index of C: its elements, and the step from one to the next.
#[derive(Clone, Copy)]
struct Extent {
    elements: i64,
    stride: i64,
}

impl Planner<'_> {
    /// A tensor that is read, if it has elements for the rows and columns of C, and boxes of them. A single row is read where it is
    /// needed: it is in L1, and no box is waited for (five convolutions of the suite with a bias on an H200: 5 to 14 % faster).
    fn streamed(&self, id: TensorId) -> Option<BoxedTensor> {
        const COLUMNS: u32 = 32;
        let tensor = self.graph.tensor(id);
        let whole = !tensor.is_pass_by_value && tensor.dim.len() == self.problem.result.len();
        if !whole || self.along(tensor, Role::Column)?.elements <= 1 {
            return None;
        }
        if self.rows(tensor)?.iter().all(|rows| rows.elements <= 1) {
            return None;
        }
        self.tensor(id).filter(|boxes| boxes.at(COLUMNS).is_some() && boxes.is_walked())
    }

    /// The TMA ends rows that it stores at a multiple of 16 bytes, not where the tensor ends.
    fn ends_whole(&self, id: TensorId) -> bool {
        let tensor = self.graph.tensor(id);
        let columns = self.along(tensor, Role::Column);
        columns.is_some_and(|columns| columns.elements * tensor.data_type.bytes() as i64 % UNIT == 0)
    }

    /// Whether two neighbouring columns, of which a lane has both, differ in the innermost digit alone.
    fn pairs_share_a_digit(&self) -> bool {
        let columns = &self.problem.space.n;
        columns.len() < 2 || columns.last().is_some_and(|inner| inner.extent % 2 == 0)
    }

    /// Whether a tensor has the same element for all columns of a row.
    fn is_alike_along_columns(&self, id: TensorId) -> bool {
        let tensor = self.graph.tensor(id);
        tensor.is_pass_by_value || self.along(tensor, Role::Column).is_some_and(|columns| columns.elements <= 1)
    }

    /// The boxes of a tensor over C's points.
    fn tensor(&self, id: TensorId) -> Option<BoxedTensor> {
        let tensor = self.graph.tensor(id);
        let element = element(tensor.data_type)?;
        let [batch, n] = [Role::Batch, Role::Column].map(|role| self.along(tensor, role));
        let (batch, n) = (batch?, n?);
        if tensor.alignment % UNIT != 0 || n.stride != 1 {
            return None;
        }
        let rows = self.rows(tensor)?;
        let extents: Vec<Extent> = [n].into_iter().chain(rows).chain((batch.elements > 1).then_some(batch)).collect();
        let rank = extents.len();
        let mut map = TensorMap {
            tensor: id,
            element,
            rank,
            dims: [0; 5],
            strides: [0; 4],
            box_dims: [0; 5],
            swizzle: Swizzle::None,
            pixels: self.walk(extents[1].elements),
            lead: 0,
            next_line_later: true,
        };
        for (at, Extent { elements, stride }) in extents.into_iter().enumerate() {
            map.dims[at] = elements as u64;
            if at > 0 {
                map.strides[at - 1] = byte_stride(elements, stride, element.bytes().into()).ok()?;
            }
        }
        Some(BoxedTensor { map })
    }

    /// What a tensor has along C's rows: of lines of pixels the pixels of one, and lines, of which it must have all.
    fn rows(&self, tensor: &FinalTensor) -> Option<Vec<Extent>> {
        if self.line.is_none() {
            return Some(vec![self.along(tensor, Role::Row)?]);
        }
        let (pixels, lines) = self.problem.space.m.split_last()?;
        let axis = self.problem.axis_of(pixels.quantity)?;
        let of_pixels = self.along_digits(tensor, std::slice::from_ref(pixels))?;
        let of_lines = self.along_digits(tensor, lines)?;
        let has_all = of_pixels.elements > 1
            && of_lines.elements == lines.iter().map(|digit| digit.extent.value()).product::<i64>();
        has_all.then(|| vec![Extent { elements: tensor.dim[axis], ..of_pixels }, of_lines])
    }

    /// How boxes walk, from the last position of a line on to the next line's first, and behind the last line of a matrix on to lines
    /// that are none, not to the next matrix.
    fn walk(&self, pixels: i64) -> Option<PixelWalk> {
        let upper = |positions: i64| [(positions - pixels) as i32, Boxes::ROWS as i32, 0];
        self.line.map(|positions| PixelWalk { lower: [0; 3], upper: upper(positions), steps: [1; 3] })
    }

    /// What a tensor has along an index: one element where it broadcasts; `None` where more than memory lies between the
    /// neighbours of some digit.
    fn along(&self, tensor: &FinalTensor, role: Role) -> Option<Extent> {
        self.along_digits(tensor, self.problem.space.digits(role))
    }

    fn along_digits(&self, tensor: &FinalTensor, digits: &[Digit]) -> Option<Extent> {
        let stride = |digit: &Digit| self.problem.stride_of(digit.quantity, |axis| step(tensor, axis));
        if digits.iter().all(|digit| stride(digit) == 0) {
            return Some(Extent { elements: 1, stride: i64::from(digits.is_empty()) });
        }
        let mut whole: Option<Extent> = None;
        for digit in digits.iter().rev() {
            let Extent { elements, stride: below } = whole.unwrap_or(Extent { elements: 1, stride: stride(digit) });
            if digit.is_padded() || stride(digit) != elements * below {
                return None;
            }
            whole = Some(Extent { elements: elements * digit.extent.value(), stride: below });
        }
        whole
    }
}

/// Elements as they are moved: bit by bit.
fn element(data_type: DataType) -> Option<MapElement> {
    match data_type.bytes() {
        _ if data_type == DataType::Boolean => None,
        1 => Some(MapElement::Byte),
        2 if data_type == DataType::Half => Some(MapElement::Half),
        2 => Some(MapElement::BFloat16),
        4 => Some(MapElement::Float),
        _ => None,
    }
}
