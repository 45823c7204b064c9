//! Convolutions whose steps multiply all taps of a filter's row: images are walked row by row with the padding between two rows, so that
//! the pixels under each tap are those under the first, moved by as many rows of A as pixels lie between the taps. A tile of A is read
//! once for all of them.

use super::problem::{ChannelSteps, MAX_SPATIAL, Problem};
use crate::kernel::{Coordinate, Digit, Number, Quantity, TapRow};

/// Pixels from the first tap to the last at most: a box of the tensor memory accelerator walks 1,024 (`cuTensorMapEncodeIm2col`), those of a
/// tile's rows among them.
const MOST_ROWS_BEYOND: u32 = 768;

/// Taps along the axis in which pixels follow each other.
const TAP: Quantity = Quantity::Tap(MAX_SPATIAL as u8 - 1);

impl Problem {
    /// The same where a step multiplies the taps of a filter's row together; `None` where there are no such taps, or the pixels under
    /// neighbouring taps are not neighbours: filter gradients, pixels that step by more than one, weights that lie outside of the filter.
    pub(in crate::engine) fn in_tap_rows(self) -> Option<Self> {
        let row = Row::of(&self)?;
        let tap_row = row.tap_row()?;
        let Row { pixels, image_axis, filter_axis, .. } = row;
        let positions = row.positions(&self);
        let mut problem = Self { tap_row: Some(tap_row), ..self };
        problem.space.k.retain(|digit| digit.quantity != TAP);
        *problem.space.m.last_mut()? = Digit::new(pixels.quantity, positions);
        let [image, filter] = &mut problem.operands;
        image[image_axis] = without_taps(&image[image_axis], row.first_position);
        filter[filter_axis] = without_taps(&filter[filter_axis], 0);
        let is_own = |coordinate: &&mut Coordinate| coordinate.terms == [(pixels.quantity, 1)];
        let result = problem.result.iter_mut().find(is_own)?;
        result.bound = (positions > pixels.extent.value()).then_some(pixels.extent);
        Some(problem)
    }

    /// This arrangement of another problem with k's digits followed by the taps of a row, and operands as they are under each.
    pub(in crate::engine) fn with_taps_of(&self, other: &Self) -> Option<Self> {
        let row = Row::of(other)?;
        let mut problem = Self { operands: other.operands.clone(), tap_row: None, ..self.clone() };
        problem.space.k.push(row.taps);
        // beyond C's pixels there need be none of the image
        let beyond = row.first_position + row.pixels.extent.value() + row.reach();
        problem.operands[0][row.image_axis].bound.get_or_insert(beyond.into());
        Some(problem)
    }

    /// The same with steps of a quarter or half as many channels, where these are all that a tap has, or fill no whole steps of a group.
    pub(in crate::engine) fn in_short_steps_of(self, step_k: i64) -> Option<Self> {
        let channels = self.space.k.last()?.extent.value();
        let is_all = |short: &i64| channels <= *short;
        let fills_group = |short: &i64| !self.space.b.is_empty() && channels % step_k != 0 && channels % short == 0;
        let [quarter, half] = [step_k / 4, step_k / 2];
        let short = Some(quarter).filter(is_all).or(Some(half).filter(|short| is_all(short) || fills_group(short)))?;
        Some(Self { channels: ChannelSteps::Short(short), ..self.in_steps_of(short) })
    }
}

/// A coordinate at the first pixel, or the first tap in memory.
fn without_taps(coordinate: &Coordinate, constant: i64) -> Coordinate {
    let terms = coordinate.terms.iter().copied().filter(|term| term.0 != TAP);
    Coordinate { constant, terms: terms.collect(), ..coordinate.clone() }
}

/// A row of pixels and the taps over it.
#[derive(Clone, Copy)]
struct Row {
    /// The pixels of C's row, which A's follow.
    pixels: Digit,
    taps: Digit,
    /// Axes of the image and of the filter along which they lie.
    image_axis: usize,
    filter_axis: usize,
    /// Pixels of the image from a tap to the next; negative where they count down.
    scale: i64,
    /// Where the first pixel under any tap lies: before the image, where there is padding.
    first_position: i64,
    /// Whether taps lie in memory from the last to the first.
    is_rotated: bool,
}

impl Row {
    fn of(problem: &Problem) -> Option<Self> {
        let space = &problem.space;
        let is_whole = space.derived.is_empty() && space.counted.is_empty() && !problem.transposed;
        let [.., taps, _channels] = &space.k[..] else { return None };
        let pixels = *space.m.last().filter(|_| is_whole && taps.quantity == TAP)?;
        let [image_axis, filter_axis] = problem.operands.each_ref().map(|operand| axis_of_taps(operand));
        let (image_axis, filter_axis) = (image_axis?, filter_axis?);
        let (image, filter) = (&problem.operands[0][image_axis], &problem.operands[1][filter_axis]);
        let [(of_image, 1), (TAP, scale)] = image.terms[..] else { return None };
        let [(TAP, sign @ (1 | -1))] = filter.terms[..] else { return None };
        let is_plain =
            of_image == pixels.quantity && image.divisor == 1 && filter.divisor == 1 && filter.bound.is_none();
        let first_position = image.constant + ((taps.extent.value() - 1) * scale).min(0);
        let (taps, is_rotated) = (*taps, sign == -1);
        is_plain.then_some(Self { pixels, taps, image_axis, filter_axis, scale, first_position, is_rotated })
    }

    /// Pixels of the image from the first tap to the last.
    fn reach(&self) -> i64 {
        (self.taps.extent.value() - 1) * self.scale.abs()
    }

    fn tap_row(&self) -> Option<TapRow> {
        let [taps, dilation] = [self.taps.extent.value(), self.scale.abs()].map(|number| u32::try_from(number).ok());
        let row = TapRow { taps: taps?, dilation: dilation?, is_reversed: (self.scale < 0) != self.is_rotated };
        (self.reach() <= i64::from(MOST_ROWS_BEYOND)).then_some(row)
    }

    /// Pixels from one row to the next, with the padding between them: what a tap reads beyond the end of a row is the padding before the
    /// next, of which there are enough. With `x` pixels of the image, `p` of them before it, `q` of C and taps that reach `e` further:
    ///
    /// - all pixels that some tap reads: `min(p + x, q + e)`;
    /// - what the last pixel's last tap reads lies before the next row's first: `q + e − p`;
    /// - each pixel of C is there: `q`.
    fn positions(&self, problem: &Problem) -> i64 {
        let image = &problem.operands[0][self.image_axis];
        let (pixels, reach) = (self.pixels.extent.value(), self.reach());
        let padding = (-self.first_position).max(0);
        // without a bound every pixel that is read is inside
        let extent = image.bound.map_or(pixels + reach, Number::value);
        let all = (padding + extent).min(pixels + reach);
        all.max(pixels + reach - padding).max(pixels)
    }
}

/// The axis of an operand along which the taps of a row lie.
fn axis_of_taps(operand: &[Coordinate]) -> Option<usize> {
    operand.iter().position(|coordinate| coordinate.terms.iter().any(|term| term.0 == TAP))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::graph::{Convolution, ConvolutionDirection, DataType, Graph, Tensor};

    /// A layer of one row of pixels, or its data gradient, under a row of taps.
    fn problem(direction: ConvolutionDirection, [pixels, taps, padding, dilation]: [i64; 4]) -> Problem {
        let result = pixels + 2 * padding - (taps - 1) * dilation;
        let (image, filter, output) = ([2, 64, 5, pixels], [32, 64, 1, taps], [2, 32, 5, result]);
        let (first, written) = match direction {
            ConvolutionDirection::Forward => (image, output),
            _ => (output, image),
        };
        let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
        let inputs = [first, filter].map(|dim| graph.tensor(Tensor::new("t").channels_last(dim)));
        let attributes =
            Convolution { dilation: vec![1, dilation], ..Convolution::new(direction, 2).padding([0, padding]) };
        let id = graph.convolution("conv", attributes, inputs);
        *graph.tensor_mut(id) = Tensor::new("result").channels_last(written);
        graph.set_output(id);
        let graph = Arc::new(graph.finalize().expect("well formed"));
        let fusion = crate::fusion::fuse(Arc::clone(&graph)).expect("a convolution");
        Problem::of(&graph, fusion.product().expect("a core"))
    }

    /// Positions of a row of a forward layer.
    fn positions(layer: [i64; 4]) -> Option<i64> {
        problem(ConvolutionDirection::Forward, layer).in_tap_rows().map(|problem| problem.space.m[2].radix.value())
    }

    /// Under each tap, a position that is walked to is the pixel that the tap reads, or lies in the padding as that does.
    #[test]
    fn taps_read_their_pixels_at_the_positions_that_they_walk_to() {
        for direction in [ConvolutionDirection::Forward, ConvolutionDirection::BackwardData] {
            for (pixels, taps, padding, dilation) in
                (5..9).flat_map(|x| (2..5).flat_map(move |s| (0..6).flat_map(move |p| [(x, s, p, 1), (x, s, p, 2)])))
            {
                if pixels + 2 * padding <= (taps - 1) * dilation + 1 {
                    continue;
                }
                let before = problem(direction, [pixels, taps, padding, dilation]);
                let Some(row) = Row::of(&before) else { panic!("a row of taps") };
                let positions = row.positions(&before);
                let read = before.operands[0][row.image_axis]
                    .bound
                    .map_or(row.pixels.extent.value() + row.reach(), Number::value);
                let exists = |pixel: i64| (0..read).contains(&pixel).then_some(pixel);
                for pixel in 0..row.pixels.extent.value() {
                    for tap in 0..taps {
                        let moved = tap * row.scale - ((taps - 1) * row.scale).min(0);
                        let walked = exists((pixel + moved) % positions + row.first_position);
                        let is_on_this_line = pixel + moved < positions;
                        let expected = exists(pixel + moved + row.first_position);
                        assert_eq!(
                            walked.filter(|_| is_on_this_line),
                            expected,
                            "{pixels} {taps} {padding} {dilation}"
                        );
                        assert!(is_on_this_line || walked.is_none(), "{pixels} {taps} {padding} {dilation}");
                    }
                }
            }
        }
    }

    #[test]
    fn padding_between_two_rows_is_walked_once() {
        assert_eq!(positions([56, 3, 1, 1]), Some(57));
        assert_eq!(positions([56, 3, 0, 1]), Some(56));
        assert_eq!(positions([56, 5, 2, 1]), Some(58));
        // more padding than taps reach: every pixel that is walked to is one of C's rows
        assert_eq!(positions([6, 3, 4, 1]), Some(12));
    }

    #[test]
    fn many_whole_blocks_of_channels_are_outermost() {
        for (direction, channel) in [
            (ConvolutionDirection::Forward, Quantity::InputChannel),
            (ConvolutionDirection::BackwardData, Quantity::OutputChannel),
        ] {
            let channels = if direction == ConvolutionDirection::Forward { 64 } else { 32 };
            let of = |step_k| problem(direction, [9, 3, 1, 1]).in_blocks_of_channels(step_k);
            let in_blocks = of(2).expect("many whole blocks");
            let digits: Vec<_> = in_blocks.space.k.iter().map(|digit| (digit.quantity, digit.radix.value())).collect();
            assert_eq!(digits, [(Quantity::ChannelBlock, channels / 2), (TAP, 3), (channel, 2)]);
            let counted = in_blocks
                .operands
                .iter()
                .flatten()
                .filter(|coordinate| coordinate.terms.ends_with(&[(Quantity::ChannelBlock, 2), (channel, 1)]));
            assert_eq!(counted.count(), 2, "an axis of each operand");
            assert!(of(channels / 4).is_none() && of(5).is_none(), "few blocks, or some that are not whole");
        }
    }

    #[test]
    fn boxes_walk_no_further_than_they_can() {
        assert_eq!(positions([2000, 2, 0, 768]), Some(2000));
        assert_eq!(positions([2000, 2, 0, 769]), None);
    }
}
