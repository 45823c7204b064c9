//! Strides for dims that have none.

use crate::graph::{channels_last_order, packed_strides, row_major_order};

/// A packed order of axes ("helper strides" of frontend-json.md section 8).
#[derive(Clone, Debug)]
pub(in crate::graph) enum Layout {
    /// Last axis fastest.
    RowMajor,
    /// Axis 1 fastest, then the last axis inwards, axis 0 slowest: "NHWC-packed".
    ChannelsLast,
    /// Axes `[N, G, C, …]` of explicit groups in the memory order of packed groups: C, G, last axis inwards, N.
    GroupedChannelsLast,
    /// The order of these strides; of equal ones the later axis is the faster.
    OrderOf(Vec<i64>),
    /// These very strides.
    Given(Vec<i64>),
}

impl Layout {
    /// Strides of `dim`, in elements.
    pub(in crate::graph) fn strides(&self, dim: &[i64]) -> Vec<i64> {
        let rank = dim.len();
        match self {
            Self::RowMajor => packed_strides(dim, &row_major_order(rank)),
            Self::ChannelsLast => packed_strides(dim, &channels_last_order(rank)),
            Self::GroupedChannelsLast => {
                let order: Vec<usize> = [2, 1].into_iter().chain((3..rank).rev()).chain([0]).collect();
                packed_strides(dim, &order)
            }
            Self::OrderOf(stride) if stride.len() == rank => {
                let mut order = row_major_order(rank);
                order.sort_by_key(|&axis| stride[axis]);
                packed_strides(dim, &order)
            }
            Self::OrderOf(_) => packed_strides(dim, &row_major_order(rank)),
            Self::Given(stride) => stride.clone(),
        }
    }

    /// How notes call it.
    pub(in crate::graph) fn name(&self) -> &'static str {
        match self {
            Self::RowMajor => "row-major",
            Self::ChannelsLast | Self::GroupedChannelsLast => "NHWC-packed",
            Self::OrderOf(_) => "in the order of the input's axes",
            Self::Given(_) => "from the operation's inputs or attributes",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_strides_make_the_later_axis_the_faster() {
        assert_eq!(Layout::OrderOf(vec![1, 1, 1]).strides(&[2, 3, 4]), [12, 4, 1]);
        assert_eq!(Layout::OrderOf(vec![12, 1, 3]).strides(&[2, 5, 7]), [35, 1, 5]);
    }

    #[test]
    fn explicit_groups_lie_in_memory_as_packed_ones_do() {
        let packed = Layout::ChannelsLast.strides(&[2, 12, 5, 7]);
        let explicit = Layout::GroupedChannelsLast.strides(&[2, 3, 4, 5, 7]);
        assert_eq!(packed, [420, 1, 84, 12]);
        assert_eq!(explicit, [420, 4, 1, 84, 12]);
    }
}
