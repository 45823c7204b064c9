//! Convolutions whose steps multiply all taps of a filter's row: images are walked row by row with the padding between two rows, so that
//! the pixels under each tap are those under the first, moved by as many rows of A as pixels lie between the taps. A tile of A is read
//! once for all of them.

use super::problem::{ChannelSteps, MAX_SPATIAL, Problem};
use crate::kernel::{Coordinate, Digit, Quantity, TapRow};

/// Taps along the axis in which pixels follow each other.
const TAP: Quantity = Quantity::Tap(MAX_SPATIAL as u8 - 1);

impl Problem {
    /// The same where a step multiplies the taps of a filter's row together; `None` where there are no such taps, or the pixels under
    /// neighbouring taps are not neighbours: filter gradients, pixels that step by more than one, weights that lie outside of the filter.
    pub(in crate::engine) fn in_tap_rows(self) -> Option<Self> {
        let row = Row::of(&self)?;
        let tap_row = row.tap_row()?;
        let Row { pixels, taps, image_axis, filter_axis, .. } = row;
        let positions = row.positions(&self)?;
        let mut problem = Self { tap_row: Some(tap_row), ..self };
        problem.space.k.retain(|digit| digit.quantity != TAP);
        *problem.space.m.last_mut()? = Digit::new(pixels.quantity, positions);
        let [image, filter] = &mut problem.operands;
        image[image_axis] = without_taps(&image[image_axis], row.first_position);
        filter[filter_axis] = without_taps(&filter[filter_axis], 0);
        let is_own = |coordinate: &&mut Coordinate| coordinate.terms == [(pixels.quantity, 1)];
        let result = problem.result.iter_mut().find(is_own)?;
        result.bound = (positions > pixels.extent).then_some(pixels.extent);
        debug_assert!(taps.extent > 1, "a digit of one value is none");
        Some(problem)
    }

    /// This arrangement of another problem with k's digits followed by the taps of a row, and operands as they are under each.
    pub(in crate::engine) fn with_taps_of(&self, other: &Self) -> Option<Self> {
        let row = Row::of(other)?;
        let mut problem = Self { operands: other.operands.clone(), tap_row: None, ..self.clone() };
        problem.space.k.push(row.taps);
        // beyond C's pixels there need be none of the image
        let beyond = row.first_position + row.pixels.extent + row.reach();
        problem.operands[0][row.image_axis].bound.get_or_insert(beyond);
        Some(problem)
    }

    /// The same with steps of half as many channels, where these are all that a tap has, or fill no whole steps of a group.
    pub(in crate::engine) fn in_short_steps_of(self, step_k: i64) -> Option<Self> {
        let short = step_k / 2;
        let channels = self.space.k.last()?.extent;
        let is_short = channels <= short || !self.space.b.is_empty() && channels % step_k != 0 && channels % short == 0;
        is_short.then(|| Self { channels: ChannelSteps::Short(short), ..self.in_steps_of(short) })
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
        let first_position = image.constant + ((taps.extent - 1) * scale).min(0);
        let (taps, is_rotated) = (*taps, sign == -1);
        is_plain.then_some(Self { pixels, taps, image_axis, filter_axis, scale, first_position, is_rotated })
    }

    /// Pixels of the image from the first tap to the last.
    fn reach(&self) -> i64 {
        (self.taps.extent - 1) * self.scale.abs()
    }

    fn tap_row(&self) -> Option<TapRow> {
        let [taps, dilation] = [self.taps.extent, self.scale.abs()].map(|number| u32::try_from(number).ok());
        Some(TapRow { taps: taps?, dilation: dilation?, is_reversed: (self.scale < 0) != self.is_rotated })
    }

    /// Pixels from one row to the next, with the padding between them: what a tap reads beyond the end of a row is the padding before the
    /// next, of which there are enough. With `x` pixels of the image, `p` of them before it, `q` of C and taps that reach `e` further:
    ///
    /// - all pixels that some tap reads: `min(p + x, q + e)`;
    /// - what the last pixel's last tap reads lies before the next row's first: `q + e − p`;
    /// - each pixel of C is there: `q`.
    fn positions(&self, problem: &Problem) -> Option<i64> {
        let image = &problem.operands[0][self.image_axis];
        let (pixels, reach) = (self.pixels.extent, self.reach());
        let padding = (-self.first_position).max(0);
        // without a bound every pixel that is read is inside
        let extent = image.bound.unwrap_or(pixels + reach);
        let all = (padding + extent).min(pixels + reach);
        Some(all.max(pixels + reach - padding).max(pixels)).filter(|_| extent > 0)
    }
}

/// The axis of an operand along which the taps of a row lie.
fn axis_of_taps(operand: &[Coordinate]) -> Option<usize> {
    operand.iter().position(|coordinate| coordinate.terms.iter().any(|term| term.0 == TAP))
}
