//! What the author of a graph that does not fit most likely meant: sentences that end a defect's message.
//!
//! Advice never changes what is well formed, and is given only where the dims that it names would fit.

use crate::graph::{channels_last_order, packed_strides, row_major_order};

/// Two dims of a matmul whose K differ: the transposed operand, where there is one with which `fits` an M and an N; else that K alone is
/// wrong, where they fit as they are.
///
/// `a` and `b` have the same rank, at least 2; `stride` is that of B.
pub(super) fn inner_extents(a: &[i64], b: &[i64], stride: &[i64], fits: impl Fn(i64, i64) -> Option<bool>) -> String {
    let last = a.len() - 1;
    const MEANING: &str = "dims are always A [.., M, K] and B [.., K, N]";
    if fits(a[last - 1], b[last]) == Some(true) {
        return format!("; {MEANING}: M and N fit what is made of them, so one K is mistyped");
    }
    if b[last] == a[last] && fits(a[last - 1], b[last - 1]) != Some(false) {
        let told = swapped_strides(stride, b.len());
        return format!("; {MEANING}: a transposed B has the dims {:?}{told}", swapped(b));
    }
    if a[last - 1] == b[last - 1] && fits(a[last], b[last]) != Some(false) {
        return format!("; {MEANING}: a transposed A has the dims {:?} and the strides to match", swapped(a));
    }
    format!("; {MEANING}")
}

/// The last two entries, exchanged.
fn swapped(values: &[i64]) -> Vec<i64> {
    let mut swapped = values.to_vec();
    let last = swapped.len() - 1;
    swapped.swap(last - 1, last);
    swapped
}

fn swapped_strides(stride: &[i64], rank: usize) -> String {
    if stride.len() == rank { format!(" and the strides {:?}", swapped(stride)) } else { String::new() }
}

/// Dims of one rank that `dim` could mean among tensors of dims `other`, whose rank is higher: a vector is one value a
/// channel where there are channels, else what is missing are leading extents of 1.
pub(super) fn widened(dim: &[i64], other: &[i64]) -> Option<Vec<i64>> {
    let rank = other.len();
    if dim.len() >= rank {
        return None;
    }
    if let (true, [extent]) = (rank >= 4, dim)
        && *extent == other[1]
    {
        return Some(channels(*extent, rank));
    }
    with_leading_ones(dim, rank).filter(|dim| broadcasts(dim, other))
}

/// Dims of a higher rank: the same matrix in a batch of one.
pub(super) fn with_leading_ones(dim: &[i64], rank: usize) -> Option<Vec<i64>> {
    let missing = rank.checked_sub(dim.len()).filter(|missing| *missing > 0)?;
    Some([vec![1; missing].as_slice(), dim].concat())
}

/// Strides of dims that were [`widened`]: the tensor's own behind leading axes of 1, else packed with channels last.
pub(super) fn widened_strides(widened: &[i64], dim: &[i64], stride: &[i64]) -> Vec<i64> {
    if !widened.ends_with(dim) {
        return packed_strides(widened, &channels_last_order(widened.len()));
    }
    if stride.len() != dim.len() {
        return packed_strides(widened, &row_major_order(widened.len()));
    }
    let outermost = dim.iter().zip(stride).map(|(extent, stride)| extent.saturating_mul(*stride)).max().unwrap_or(1);
    [vec![outermost; widened.len() - dim.len()].as_slice(), stride].concat()
}

/// Dims that a vector along the wrong axis could mean: one value a channel.
pub(super) fn moved_to_channels(dim: &[i64], other: &[i64]) -> Option<Vec<i64>> {
    let mut long = dim.iter().filter(|&&extent| extent != 1);
    match (long.next(), long.next()) {
        (Some(&extent), None) if dim.len() >= 4 && dim.len() == other.len() && extent == other[1] => {
            Some(channels(extent, dim.len()))
        }
        _ => None,
    }
}

fn channels(extent: i64, rank: usize) -> Vec<i64> {
    (0..rank).map(|axis| if axis == 1 { extent } else { 1 }).collect()
}

fn broadcasts(dim: &[i64], other: &[i64]) -> bool {
    dim.iter().zip(other).all(|(&one, &other)| one == other || one == 1 || other == 1)
}

/// How dims of a convolution were meant.
pub(super) struct Reordered {
    /// Which of X, W and Y are meant in another order, by their place in this list.
    pub(super) changed: Vec<usize>,
    /// X, W and Y as they must be described; Y where it was given.
    pub(super) dims: [Vec<i64>; 3],
    /// What the author wrote.
    pub(super) written: Order,
}

/// An order of axes that convolutions are written in elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// W as `[C, K, R, S]`.
    InputChannelsFirst,
    /// `[N, H, W, C]`, and W as `[K, R, S, C]`.
    ChannelsLast,
    /// W as `[R, S, C, K]`.
    FilterLast,
}

impl Order {
    /// What was written, and what is meant.
    pub(super) fn sentence(self) -> &'static str {
        match self {
            Self::InputChannelsFirst => "a filter is [K, C, R, S], and this one fits as [C, K, R, S]",
            Self::ChannelsLast => "dims are always N, C, H, W, whatever the layout; NHWC is told by strides",
            Self::FilterLast => "a filter is [K, C, R, S], and this one fits as [R, S, C, K]",
        }
    }

    fn restored(self, dim: &[i64]) -> Vec<i64> {
        let mut dim = dim.to_vec();
        match self {
            Self::InputChannelsFirst => dim.swap(0, 1),
            Self::ChannelsLast => dim[1..].rotate_right(1),
            Self::FilterLast => dim.rotate_right(2),
        }
        if self == Self::FilterLast {
            dim.swap(0, 1);
        }
        dim
    }
}

/// The least reordering of a convolution's dims, X, W and Y (Y may be empty), with which they fit.
pub(super) fn reordered(dims: [&[i64]; 3], fits: impl Fn(&[Vec<i64>; 3]) -> bool) -> Option<Reordered> {
    const X: usize = 0;
    const W: usize = 1;
    const Y: usize = 2;
    let attempts: [(Order, &[usize]); 9] = [
        (Order::InputChannelsFirst, &[W]),
        (Order::ChannelsLast, &[X]),
        (Order::ChannelsLast, &[W]),
        (Order::ChannelsLast, &[Y]),
        (Order::ChannelsLast, &[X, Y]),
        (Order::ChannelsLast, &[X, W]),
        (Order::ChannelsLast, &[W, Y]),
        (Order::ChannelsLast, &[X, W, Y]),
        (Order::FilterLast, &[W]),
    ];
    attempts.into_iter().find_map(|(written, changed)| {
        let mut dims = dims.map(<[i64]>::to_vec);
        for &at in changed {
            if dims[at].len() < 3 {
                return None;
            }
            dims[at] = written.restored(&dims[at]);
        }
        fits(&dims).then(|| Reordered { changed: changed.to_vec(), dims, written })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_of_axes_are_undone() {
        for (order, written, meant) in [
            (Order::InputChannelsFirst, [16, 32, 3, 5], [32, 16, 3, 5]),
            (Order::ChannelsLast, [2, 7, 9, 16], [2, 16, 7, 9]),
            (Order::FilterLast, [3, 5, 16, 32], [32, 16, 3, 5]),
        ] {
            assert_eq!(order.restored(&written), meant, "{order:?}");
        }
    }

    #[test]
    fn a_vector_is_one_value_a_channel_where_there_are_channels() {
        assert_eq!(widened(&[64], &[32, 64, 56, 56]), Some(vec![1, 64, 1, 1]));
        assert_eq!(widened(&[64], &[1, 16, 64]), Some(vec![1, 1, 64]));
        assert_eq!(widened(&[16, 64], &[1, 16, 64]), Some(vec![1, 16, 64]));
        assert_eq!(widened(&[48], &[32, 64, 56, 56]), None);
        assert_eq!(widened_strides(&[1, 64, 1, 1], &[64], &[1]), [64, 1, 64, 64]);
        assert_eq!(widened_strides(&[1, 1, 64], &[64], &[1]), [64, 64, 1]);
        assert_eq!(widened_strides(&[1, 16, 64], &[16, 64], &[1, 16]), [1024, 1, 16]);
        assert_eq!(widened_strides(&[1, 16, 64], &[16, 64], &[]), [1024, 64, 1]);
        assert_eq!(moved_to_channels(&[1, 1, 1, 64], &[32, 64, 56, 56]), Some(vec![1, 64, 1, 1]));
        assert_eq!(moved_to_channels(&[1, 1, 1, 48], &[32, 64, 56, 56]), None);
        assert_eq!(moved_to_channels(&[2, 1, 1, 64], &[32, 64, 56, 56]), None);
    }
}
