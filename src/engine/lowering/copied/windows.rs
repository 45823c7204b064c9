//! Images of few channels, whose rows of taps are multiplied as channels.
//!
//! Under a row of a filter lie neighbouring pixels, and their channels one behind the other. So a layer of C channels and R×S taps is one of
//! R×1 taps whose channels are those of a window of S pixels: in a copy whose pixels are padded as far as windows begin at multiples of 16
//! bytes, windows are a dim that overlaps, and nothing is stored twice. Where lines are strided, as many may be folded into one, whose pixels
//! have the channels of all of them: fewer and wider rows of boxes bring the same. Rows are padded with zeros in the copy; lines above and
//! below an image are left to boxes, as ever. The filter is copied to the same order, with zeros under no tap.

use super::super::boxed_operand::UNIT;
use super::super::im2col::LARGEST_STEP;
use super::super::problem::Problem;
use super::layout::Layout;
use super::unfolded::Unfolded;
use crate::fusion::{Product, ProductKind};
use crate::graph::{Attributes, Convolution, ConvolutionDirection, ConvolutionMode, FinalTensor, FinalizedGraph};
use crate::kernel::{Coordinate, Digit, Quantity};

/// Bytes of a pixel's channels from which on taps fill boxes by themselves.
const MANY_BYTES: i64 = 64;

/// Bytes of a window at least, which are a row of a box: narrower ones take as long.
const LEAST_WINDOW: i64 = 64;

/// Bytes of a row of a box at most: those of a step, of which wider windows are multiples.
const STEP: i64 = 128;

/// Lines that may be folded into one: powers of two, so that steps have whole pixels.
const FOLDS: [i64; 4] = [1, 2, 4, 8];

const IMAGE: Quantity = Quantity::Image;
const CHANNEL: Quantity = Quantity::InputChannel;
/// The axis next to the innermost, whose lines are folded: a line of the copy, and which of the image's lines in it.
const LINE: Quantity = Quantity::InputPixel(1);
const FOLDED_LINE: Quantity = Quantity::PixelBlock(1);
const WITHIN_FOLD: Quantity = Quantity::Phase(1);
const LINE_TAP: Quantity = Quantity::Tap(1);
/// The innermost spatial axis, which windows lie along.
const COLUMN: Quantity = Quantity::InputPixel(2);
const PIXEL: Quantity = Quantity::OutputPixel(2);
const TAP: Quantity = Quantity::Tap(2);

/// A layer as one of windows.
pub(super) struct Windows<'a> {
    convolution: &'a Convolution,
    image: &'a FinalTensor,
    filter: &'a FinalTensor,
    problem: &'a Problem,
    /// Pixels along the innermost axis of the result, and lines along the next.
    outputs: [i64; 2],
    /// Lines of the image in a line of the copy, and channels of a pixel in each.
    fold: i64,
    channels: i64,
}

impl<'a> Windows<'a> {
    /// Those of a forward layer of few channels in one group, of several taps along rows that lie side by side; `None` for others. `problem` is
    /// the layer's.
    pub(super) fn of(graph: &'a FinalizedGraph, product: &Product, problem: &'a Problem) -> Option<Self> {
        let Attributes::Convolution(convolution) = &graph.operation(product.operation).attributes else { return None };
        let [image, filter] = product.tensors().map(|id| graph.tensor(id));
        let is_forward = product.kind == ProductKind::Convolution(ConvolutionDirection::Forward);
        let rank = convolution.stride.len() + 2;
        let is_plain = [image, filter].into_iter().all(|tensor| tensor.dim.len() == rank);
        if !is_forward || !is_plain || product.groups != 1 || graph.is_dynamic() {
            return None;
        }
        let has_few_channels = image.dim[1] * (image.data_type.bytes() as i64) < MANY_BYTES;
        if !has_few_channels || filter.dim[rank - 1] < 2 || convolution.dilation[rank - 3] != 1 {
            return None;
        }
        let result = &graph.tensor(product.result).dim;
        let outputs = [result[rank - 1], result[rank - 2]];
        let folded = |fold| Self { convolution, image, filter, problem, outputs, fold, channels: 1 }.with_channels();
        let ways = FOLDS.into_iter().map(folded).filter(Self::is_possible);
        ways.min_by_key(Self::rows_of_boxes)
    }

    /// The same with the least channels with which windows begin at units.
    fn with_channels(self) -> Self {
        let least =
            |channels: &i64| *channels >= self.image.dim[1] && self.step() * channels * self.bytes() % UNIT == 0;
        let channels = (0..32).map(|power| 1 << power).find(least).unwrap_or(UNIT);
        Self { channels, ..self }
    }

    /// Whether lines fold so, and boxes step as they do then.
    fn is_possible(&self) -> bool {
        let Some([_, stride, dilation]) = self.along_lines() else { return self.fold == 1 };
        let folds = self.fold == 1 || (stride % self.fold == 0 && dilation == 1);
        folds && stride / self.fold <= LARGEST_STEP
    }

    /// Rows of boxes that a pixel of the result takes.
    fn rows_of_boxes(&self) -> i64 {
        self.line_taps() * ((self.window() * self.bytes() + STEP - 1) / STEP)
    }

    fn bytes(&self) -> i64 {
        self.image.data_type.bytes() as i64
    }

    /// The last axis of every tensor.
    fn last(&self) -> usize {
        self.image.dim.len() - 1
    }

    /// Padding before, stride and dilation of lines; `None` where there are none.
    fn along_lines(&self) -> Option<[i64; 3]> {
        let axis = self.last().checked_sub(3)?;
        let Convolution { pre_padding, stride, dilation, .. } = self.convolution;
        Some([pre_padding[axis], stride[axis], dilation[axis]])
    }

    /// Lines of padding above the first that folded ones begin with.
    fn lines_before(&self) -> i64 {
        self.along_lines().map_or(0, |[padding, ..]| (self.fold - padding % self.fold) % self.fold)
    }

    /// Taps along lines of the copy.
    fn line_taps(&self) -> i64 {
        let taps = if self.along_lines().is_some() { self.filter.dim[self.last() - 1] } else { 1 };
        (self.lines_before() + taps + self.fold - 1) / self.fold
    }

    /// Elements of a pixel.
    fn pixel(&self) -> i64 {
        self.fold * self.channels
    }

    /// Elements of a window: of the taps of a row, and of pixels that fill its row of a box.
    fn window(&self) -> i64 {
        let taps = self.filter.dim[self.last()] * self.pixel() * self.bytes();
        let bytes = if taps <= LEAST_WINDOW { LEAST_WINDOW } else { (taps + STEP - 1) / STEP * STEP };
        bytes / self.bytes()
    }

    /// Elements from one window to the next.
    fn step(&self) -> i64 {
        self.convolution.stride[self.last() - 2] * self.fold
    }

    /// Pixels of a row of the copy: as far as the last window reaches.
    fn row(&self) -> i64 {
        let stride = self.convolution.stride[self.last() - 2];
        let reached = (self.outputs[0] - 1) * stride + self.window() / self.pixel();
        let unit = (UNIT / (self.pixel() * self.bytes())).max(1);
        (reached + unit - 1) / unit * unit
    }

    /// The convolution over windows: no tap but one, no stride and no padding along rows.
    pub(super) fn convolution(&self) -> Convolution {
        let mut convolution = Convolution { mode: ConvolutionMode::CrossCorrelation, ..self.convolution.clone() };
        let last = self.last() - 2;
        (convolution.pre_padding[last], convolution.post_padding[last], convolution.stride[last]) = (0, 0, 1);
        if let Some([padding, stride, _]) = self.along_lines().filter(|_| self.fold > 1) {
            let (padding, stride) = ((padding + self.lines_before()) / self.fold, stride / self.fold);
            let reached = (self.outputs[1] - 1) * stride + self.line_taps() - padding;
            (convolution.pre_padding[last - 1], convolution.stride[last - 1]) = (padding, stride);
            convolution.post_padding[last - 1] = (reached - self.lines()).max(0);
        }
        convolution
    }

    /// Lines of an image in the copy.
    fn lines(&self) -> i64 {
        (self.image.dim[self.last() - 1] + self.fold - 1) / self.fold
    }

    /// The image, `[img, window, lines …, q]`, and how it comes about.
    pub(super) fn image(&self) -> (Layout, Unfolded) {
        let last = self.last();
        let pitch = self.row() * self.pixel();
        let mut dim = self.image.dim.clone();
        (dim[1], dim[last]) = (self.window(), self.outputs[0]);
        let mut rows = vec![Digit::new(IMAGE, self.image.dim[0])];
        let mut coordinates = vec![Coordinate::digit(IMAGE), Coordinate::digit(CHANNEL)];
        for (axis, lines) in dim.iter_mut().enumerate().take(last).skip(2) {
            let (row, coordinate) = self.lines_along(axis);
            *lines = row.extent.value();
            rows.push(row);
            coordinates.push(coordinate);
        }
        coordinates.push(Coordinate {
            constant: -self.convolution.pre_padding[last - 2],
            bound: Some(self.image.dim[last].into()),
            ..Coordinate::affine(COLUMN, [(PIXEL, 1)])
        });
        let k = [&[Digit::new(PIXEL, self.row())], &self.within_pixel()[..]].concat();
        (self.layout(dim, pitch, self.step() * self.channels), Unfolded { rows, k, coordinates, pitch })
    }

    /// Lines of the copy along an axis, and where they lie in the image.
    fn lines_along(&self, axis: usize) -> (Digit, Coordinate) {
        let from_last = self.last() - axis;
        if from_last == 1 && self.fold > 1 {
            let lines = Coordinate::affine(LINE, [(FOLDED_LINE, self.fold), (WITHIN_FOLD, 1)]);
            let bound = Some(self.image.dim[axis].into());
            return (Digit::new(FOLDED_LINE, self.lines()), Coordinate { bound, ..lines });
        }
        let quantity = Quantity::InputPixel((2 - from_last) as u8);
        (Digit::new(quantity, self.image.dim[axis]), Coordinate::digit(quantity))
    }

    /// The filter, `[ko, window, taps …, 1]`, and how it comes about.
    pub(super) fn filter(&self) -> (Layout, Unfolded) {
        let (last, window) = (self.last(), self.window());
        let mut dim = self.filter.dim.clone();
        (dim[1], dim[last]) = (window, 1);
        let taps = self.line_digits();
        for (axis, digit) in (2..last).zip(&taps) {
            dim[axis] = digit.extent.value();
        }
        let pitch = dim[2..last].iter().product::<i64>() * window;
        let k = [&taps[..], &[self.taps(window)], &self.within_pixel()].concat();
        let rows = vec![Digit::new(Quantity::OutputChannel, self.filter.dim[0])];
        (self.layout(dim, window, window), Unfolded { rows, k, coordinates: self.filter_coordinates(window), pitch })
    }

    /// A tensor whose windows step by `step` elements along rows, and rows by `pitch`.
    fn layout(&self, dim: Vec<i64>, pitch: i64, step: i64) -> Layout {
        let mut stride = vec![1; dim.len()];
        stride[self.last()] = step;
        let mut above = pitch;
        for axis in (2..self.last()).rev().chain([0]) {
            stride[axis] = above;
            above *= dim[axis];
        }
        Layout { dim, stride, inner: 1 }
    }

    /// The digits of k within a pixel of the copy.
    fn within_pixel(&self) -> Vec<Digit> {
        let lines = Digit::new(WITHIN_FOLD, self.fold);
        let channels = Digit { radix: self.channels.into(), ..Digit::new(CHANNEL, self.image.dim[1]) };
        if self.fold > 1 { vec![lines, channels] } else { vec![channels] }
    }

    /// The taps of a row, of which a window of so many elements has pixels.
    fn taps(&self, window: i64) -> Digit {
        Digit { radix: (window / self.pixel()).into(), ..Digit::new(TAP, self.filter.dim[self.last()]) }
    }

    /// Taps along all axes but the last.
    fn line_digits(&self) -> Vec<Digit> {
        let last = self.last();
        let digit = |axis: usize| match axis + 1 == last {
            true => Digit::new(LINE_TAP, self.line_taps()),
            false => Digit::new(Quantity::Tap((2 + axis - last) as u8), self.filter.dim[axis]),
        };
        (2..last).map(digit).collect()
    }

    /// Where taps lie in the filter; none under other pixels of a window, and under lines that folding adds.
    fn filter_coordinates(&self, window: i64) -> Vec<Coordinate> {
        let last = self.last();
        let mut coordinates = self.problem.operands[1].clone();
        // a digit of one value is among k's again
        coordinates[1] = Coordinate::digit(CHANNEL);
        if self.fold > 1 {
            let (taps, before) = (self.filter.dim[last - 1], self.lines_before());
            let (sign, constant) = match self.convolution.mode {
                ConvolutionMode::CrossCorrelation => (1, -before),
                ConvolutionMode::Convolution => (-1, taps - 1 + before),
            };
            let terms = [(LINE_TAP, sign * self.fold), (WITHIN_FOLD, sign)];
            let along = Coordinate::affine(Quantity::RotatedTap(1), terms);
            coordinates[last - 1] = Coordinate { constant, bound: Some(taps.into()), ..along };
        }
        let taps = self.taps(window);
        if taps.is_padded() {
            let along = &mut coordinates[last];
            (along.quantity, along.bound) = (Quantity::RotatedTap(2), Some(taps.extent));
        }
        coordinates
    }

    /// The product as it was, with k in the order of the copies, whose windows take `radix` elements of it.
    pub(super) fn before(&self, radix: i64) -> Problem {
        let k = [&self.line_digits()[..], &[self.taps(radix)], &self.within_pixel()].concat();
        let mut image = self.problem.operands[0].clone();
        image[1] = Coordinate::digit(CHANNEL);
        if let Some([padding, ..]) = self.along_lines().filter(|_| self.fold > 1) {
            let axis = self.last() - 1;
            let pixels = image[axis].terms.iter().filter(|term| term.0 != LINE_TAP).copied();
            let terms: Vec<_> = pixels.chain([(LINE_TAP, self.fold), (WITHIN_FOLD, 1)]).collect();
            let (constant, bound) = (-padding - self.lines_before(), Some(self.image.dim[axis].into()));
            image[axis] = Coordinate { constant, bound, ..Coordinate::affine(LINE, terms) };
        }
        self.problem.clone().of_operands([image, self.filter_coordinates(radix)], k)
    }
}
