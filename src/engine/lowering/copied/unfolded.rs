//! Operands of a filter gradient as matrices whose rows are pixels, one row for each channel, and for each tap and channel.

use super::super::problem::Problem;
use super::super::tensor_map::step_k;
use super::layout::{Layout, padded};
use crate::fusion::{Fusion, Product, ProductKind};
use crate::graph::{ConvolutionDirection, FinalizedGraph};
use crate::kernel::{Coordinate, Derived, Digit, Index, MmaType, Quantity, Role};

/// Channels under a tap that boxes along k have at least: those of a step of 16 columns of a tile.
const LEAST_ROWS_OF_A_BOX: i64 = 16;

/// An operand as a matrix: digits of its rows and of k, and the coordinates of its source.
#[derive(Clone, Debug)]
pub(super) struct Unfolded {
    pub(super) rows: Vec<Digit>,
    pub(super) k: Vec<Digit>,
    pub(super) coordinates: Vec<Coordinate>,
    /// Elements from one row to the next.
    pub(super) pitch: i64,
}

/// The product of a filter gradient of two tensors; `None` for other cores, and where a group has one channel: its matrix would have a column
/// for each tap (64×384×20×20 FLOAT by 3×3 on an H100: 483 µs; 49.5 what the closed library takes).
pub(super) fn filter_gradient(fusion: &Fusion, product: &Product) -> Option<Problem> {
    let is_filter_gradient = product.kind == ProductKind::Convolution(ConvolutionDirection::BackwardFilter);
    let [dy, x] = product.tensors();
    let problem = (is_filter_gradient && dy != x).then(|| Problem::of(fusion.graph(), product))?;
    let extent = |quantity| problem.space.extent_of(quantity).value();
    let is_depthwise = extent(GROUP) > 1 && extent(Quantity::InputChannel) == 1;
    (!is_depthwise).then_some(problem)
}

/// Operands of a filter gradient over images, of which a tap of the filter moves rows by whole rows.
pub(super) struct ImagesOfRows<'a> {
    problem: &'a Problem,
    /// Pixels of a row of the copies.
    row: i64,
    /// Rows of DY and of a copy of X, from the first that a tap reaches.
    rows: [i64; 2],
    /// Rows of X, and how many of these a tap lies below the one before.
    image_rows: i64,
    dilation: i64,
}

const ROW: Quantity = Quantity::OutputPixel(1);
const PIXEL: Quantity = Quantity::OutputPixel(2);
const TAPS: [Quantity; 2] = [Quantity::Tap(1), Quantity::Tap(2)];
const GROUP: Quantity = Quantity::Group;

impl<'a> ImagesOfRows<'a> {
    /// `None` unless there are several taps, rows and pixels, and channels on both sides, and where groups have an axis of their own.
    pub(super) fn of(graph: &FinalizedGraph, product: &Product, problem: &'a Problem) -> Option<Self> {
        let x = graph.tensor(product.tensors()[1]);
        let [_, _, down, _] = &problem.operands[1][..] else { return None };
        let dilation = match down.terms[..] {
            [(ROW, 1), (tap, dilation)] if tap == TAPS[0] && dilation > 0 => dilation,
            _ => return None,
        };
        let has_all = [Quantity::Image, ROW, PIXEL, Quantity::InputChannel, Quantity::OutputChannel];
        if has_all.into_iter().any(|quantity| problem.space.extent_of(quantity) == 1) {
            return None;
        }
        let extent = |quantity| problem.space.extent_of(quantity).value();
        let bytes = x.data_type.bytes() as i64;
        let of_gradient = extent(ROW);
        Some(Self {
            problem,
            row: padded(extent(PIXEL) * bytes) / bytes,
            rows: [of_gradient, of_gradient + (extent(TAPS[0]) - 1) * dilation],
            image_rows: x.dim[2],
            dilation,
        })
    }

    fn extent(&self, quantity: Quantity) -> i64 {
        self.problem.space.extent_of(quantity).value()
    }

    /// Channels of all groups.
    fn channels(&self, quantity: Quantity) -> i64 {
        self.extent(GROUP) * self.extent(quantity)
    }

    /// Pixels of an image of DY, those that pad its rows included.
    fn pixels(&self) -> i64 {
        self.rows[0] * self.row
    }

    /// The digits of k of a copy whose images have so many rows.
    fn k(&self, rows: i64) -> Vec<Digit> {
        let pixels = Digit { radix: self.row.into(), ..Digit::new(PIXEL, self.extent(PIXEL)) };
        vec![Digit::new(Quantity::Image, self.extent(Quantity::Image)), Digit::new(ROW, rows), pixels]
    }

    fn digits(&self, quantities: &[Quantity]) -> Vec<Digit> {
        let digits = quantities.iter().map(|&quantity| Digit::new(quantity, self.extent(quantity)));
        digits.filter(|digit| digit.extent > 1).collect()
    }

    /// DY, `[ko, img, pixels]`.
    pub(super) fn gradient(&self) -> (Layout, Unfolded) {
        let (images, channels) = (self.extent(Quantity::Image), self.channels(Quantity::OutputChannel));
        let (pixels, pitch) = (self.pixels(), images * self.pixels());
        let layout = Layout { dim: vec![channels, images, pixels], stride: vec![pitch, pixels, 1], inner: 2 };
        let coordinates = self.problem.operands[0].clone();
        let rows = self.digits(&[GROUP, Quantity::OutputChannel]);
        (layout, Unfolded { rows, k: self.k(self.rows[0]), coordinates, pitch })
    }

    /// X, `[s, r, img, ci, pixels]`.
    pub(super) fn input(&self) -> (Layout, Unfolded) {
        let (images, channels) = (self.extent(Quantity::Image), self.channels(Quantity::InputChannel));
        let of_image = self.rows[1] * self.row;
        let pitch = images * of_image;
        let [down, across] = TAPS.map(|tap| self.extent(tap));
        let layout = Layout {
            dim: vec![across, down, images, channels, self.pixels()],
            stride: vec![channels * pitch, self.dilation * self.row, of_image, pitch, 1],
            inner: 4,
        };
        let mut coordinates = self.problem.operands[1].clone();
        let first = coordinates[2].constant;
        coordinates[2] = Coordinate {
            constant: first,
            bound: Some(self.image_rows.into()),
            ..Coordinate::affine(Quantity::InputPixel(1), [(ROW, 1)])
        };
        let rows = self.digits(&[TAPS[1], GROUP, Quantity::InputChannel]);
        (layout, Unfolded { rows, k: self.k(self.rows[1]), coordinates, pitch })
    }

    /// The product of the operands as they lie, k counted as in the copies: an image, and a pixel of it in rows that are padded.
    pub(super) fn before(&self, operand: MmaType) -> Problem {
        const PIXEL_OF_IMAGE: Quantity = Quantity::OutputPixel(0);
        let mut problem = self.problem.clone();
        let pixel = Index::variable(PIXEL_OF_IMAGE);
        let derive = |quantity, value| Derived { role: Role::Sum, quantity, value, extent: self.extent(quantity) };
        problem.space.derived = vec![derive(ROW, pixel.clone() / self.row), derive(PIXEL, pixel % self.row)];
        let mut operands = problem.operands.clone();
        for (coordinate, (digit, seen)) in operands[0][2..].iter_mut().zip([(ROW, 1), (PIXEL, 2)]) {
            let within = Coordinate::affine(Quantity::InputPixel(seen), [(digit, 1)]);
            *coordinate = Coordinate { bound: Some(self.extent(digit).into()), ..within };
        }
        let [image, pixels] = self.digits_of_k(operand);
        problem.of_operands(operands, vec![image, Digit { quantity: PIXEL_OF_IMAGE, ..pixels }])
    }

    /// k of the copies: an image and, in steps, a pixel of it.
    fn digits_of_k(&self, operand: MmaType) -> [Digit; 2] {
        let images = Digit::new(Quantity::Image, self.extent(Quantity::Image));
        [images, Digit::new(PIXEL, self.pixels()).in_blocks_of(step_k(operand))]
    }

    /// The product of the copies: k is an image and, in steps, a pixel of it.
    pub(super) fn problem(&self, operand: MmaType) -> Problem {
        let coordinate = |quantity: Quantity| {
            let is_channel = matches!(quantity, Quantity::InputChannel | Quantity::OutputChannel);
            let group = (GROUP, self.extent(quantity));
            let terms = [group, (quantity, 1)].into_iter().filter(|term| is_channel || term.0 == quantity);
            Coordinate::affine(quantity, terms.filter(|term| self.extent(term.0) > 1).collect::<Vec<_>>())
        };
        let gradient = [Quantity::OutputChannel, Quantity::Image, PIXEL].map(coordinate).to_vec();
        let input = [TAPS[1], TAPS[0], Quantity::Image, Quantity::InputChannel, PIXEL].map(coordinate).to_vec();
        let problem = self.problem.clone().of_operands([gradient, input], self.digits_of_k(operand).to_vec());
        problem.in_columns_of(LEAST_ROWS_OF_A_BOX)
    }
}

/// An operand of a filter gradient as a matrix for each group, `[groups, m, k]` or `[groups, k, n]`, rows along k.
pub(super) fn matrix_of(problem: &Problem, slot: usize, bytes: i64) -> (Layout, Unfolded) {
    let [groups, m, n, k] = problem.space.extents();
    let (dim, inner) = if slot == 0 { (vec![groups, m, k], 2) } else { (vec![groups, k, n], 1) };
    let unfolded = Unfolded {
        rows: [&problem.space.b[..], problem.space.digits(Role::outer(slot))].concat(),
        k: problem.space.k.clone(),
        coordinates: problem.operands[slot].clone(),
        pitch: padded(k * bytes) / bytes,
    };
    (Layout::of_rows(dim, bytes, inner), unfolded)
}
