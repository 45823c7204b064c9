//! Memory layouts of tensors, as the tables of the surfaces name them.

use super::forms::dims_text;
use crate::graph::{FinalTensor, MAX_RANK, Reordering};

/// Order of the axes in memory. Axes of extent 1 never count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// `[B,M,N]` with N contiguous.
    RowMajor,
    /// `[B,M,N]` with M contiguous.
    ColumnMajor,
    /// N, (D,) H, W, C from slow to fast; of a filter K, (T,) R, S, C.
    Nhwc,
    /// C, (D,) H, W, N from slow to fast; of a filter C, (T,) R, S, K.
    Chwn,
    /// N, C, (D,) H, W from slow to fast.
    Nchw,
}

impl Layout {
    /// Name in messages.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::RowMajor => "row-major",
            Self::ColumnMajor => "column-major",
            Self::Nhwc => "NHWC",
            Self::Chwn => "CHWN",
            Self::Nchw => "NCHW",
        }
    }

    /// Axes of extent above 1, fastest first.
    fn axes(self, dim: &[i64]) -> impl Iterator<Item = usize> + '_ {
        let rank = dim.len().min(MAX_RANK);
        (0..rank).map(move |place| self.axis(place, rank)).filter(|&axis| dim[axis] > 1)
    }

    /// The axis at a place of the order, fastest first.
    fn axis(self, place: usize, rank: usize) -> usize {
        let last = rank - 1;
        match self {
            Self::RowMajor | Self::Nchw => last - place,
            Self::ColumnMajor => match (place, rank) {
                (0, 2..) => last - 1,
                (1, 2..) => last,
                _ => last - place,
            },
            Self::Nhwc if place == 0 => last.min(1),
            Self::Chwn if place == last => last.min(1),
            Self::Nhwc if place == last => 0,
            Self::Chwn if place == 0 => 0,
            Self::Nhwc | Self::Chwn => rank - place,
        }
    }

    /// Whether the tensor lies in this order, padding allowed: the first axis that counts has stride 1, and in the
    /// layouts of convolution tensors strides grow in order. Matmul layouts leave the other strides free.
    pub(super) fn holds(self, tensor: &FinalTensor) -> bool {
        if is_reordered(tensor) {
            return false;
        }
        let strides = || self.axes(&tensor.dim).map(|axis| tensor.stride[axis]);
        let is_ordered = matches!(self, Self::RowMajor | Self::ColumnMajor) || strides().is_sorted();
        is_ordered && strides().next().is_none_or(|stride| stride == 1)
    }

    /// Whether the tensor lies in this order without any padding.
    pub(super) fn holds_packed(self, tensor: &FinalTensor) -> bool {
        let mut step = 1i64;
        let is_plain = !is_reordered(tensor);
        is_plain
            && self.axes(&tensor.dim).all(|axis| {
                let is_packed = tensor.stride[axis] == step;
                step = step.saturating_mul(tensor.dim[axis]);
                is_packed
            })
    }
}

/// Whether elements lie elsewhere than dims and strides say: no table of a surface names such tensors.
fn is_reordered(tensor: &FinalTensor) -> bool {
    tensor.reordering != Reordering::None || tensor.ragged_offset.is_some()
}

/// How messages describe where the elements of a tensor lie.
pub(super) fn describe(tensor: &FinalTensor) -> String {
    let order = match (tensor.ragged_offset, tensor.reordering) {
        (Some(_), _) => ", ragged".to_owned(),
        (None, Reordering::None) => String::new(),
        (None, reordering) => format!(", reordered as {}", reordering.name()),
    };
    let name = name_of(tensor).map(|name| format!("{name}, ")).unwrap_or_default();
    format!("{name}strides {} of dims {}{order}", dims_text(&tensor.stride), dims_text(&tensor.dim))
}

/// The first layout that a tensor of this rank lies in.
fn name_of(tensor: &FinalTensor) -> Option<&'static str> {
    let layouts: &[Layout] = match tensor.dim.len() {
        3 => &[Layout::RowMajor, Layout::ColumnMajor],
        4 | 5 => &[Layout::Nhwc, Layout::Chwn, Layout::Nchw],
        _ => &[],
    };
    layouts.iter().find(|layout| layout.holds(tensor)).map(|layout| layout.name())
}

/// Whether each axis steps over everything that the faster axes span, so that no two elements share an address.
pub(crate) fn is_disjoint(tensor: &FinalTensor) -> bool {
    let mut axes = [(0i64, 0i64); MAX_RANK];
    let counted = tensor.dim.iter().zip(&tensor.stride).filter(|axis| *axis.0 > 1);
    let mut rank = 0;
    for (slot, (&extent, &stride)) in axes.iter_mut().zip(counted) {
        *slot = (stride, extent);
        rank += 1;
    }
    axes[..rank].sort_unstable();
    let mut span = 0i64;
    axes[..rank].iter().all(|&(stride, extent)| {
        let is_clear = stride > span;
        span = span.saturating_add(stride.saturating_mul(extent - 1));
        is_clear
    })
}

/// Whether some axis besides the contiguous one has a stride that is no multiple of the required bits (A-21 b).
pub(super) fn has_unaligned_stride(tensor: &FinalTensor, bits: u64) -> bool {
    let size = i128::from(tensor.data_type.bits());
    let mut counted = tensor.dim.iter().zip(&tensor.stride).filter(|axis| *axis.0 > 1).map(|axis| *axis.1);
    let mut contiguous = 1;
    counted.any(|stride| {
        let is_contiguous = stride == contiguous;
        if is_contiguous {
            contiguous = 0; // there is one contiguous axis only
        }
        !is_contiguous && (i128::from(stride) * size) % i128::from(bits) != 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::DataType;

    fn tensor(dim: &[i64], stride: &[i64]) -> FinalTensor {
        FinalTensor {
            name: String::new(),
            uid: 0,
            data_type: DataType::Half,
            dim: dim.to_vec(),
            stride: stride.to_vec(),
            is_virtual: false,
            is_pass_by_value: false,
            value: None,
            alignment: 16,
            reordering: Reordering::None,
            ragged_offset: None,
            ragged_offset_multiplier: 1,
        }
    }

    #[test]
    fn orders_name_every_axis_once() {
        for layout in [Layout::RowMajor, Layout::ColumnMajor, Layout::Nhwc, Layout::Chwn, Layout::Nchw] {
            for rank in 1..=MAX_RANK {
                let mut axes: Vec<usize> = layout.axes(&vec![2; rank]).collect();
                axes.sort_unstable();
                assert_eq!(axes, (0..rank).collect::<Vec<_>>(), "{layout:?} of rank {rank}");
            }
        }
        assert_eq!(Layout::Nhwc.axes(&[2; 5]).collect::<Vec<_>>(), [1, 4, 3, 2, 0]);
        assert_eq!(Layout::Chwn.axes(&[2; 5]).collect::<Vec<_>>(), [0, 4, 3, 2, 1]);
        assert_eq!(Layout::ColumnMajor.axes(&[2; 3]).collect::<Vec<_>>(), [1, 2, 0]);
    }

    #[test]
    fn padding_is_allowed_unless_packed() {
        let padded = tensor(&[2, 8, 4, 4], &[256, 1, 64, 16]);
        assert!(Layout::Nhwc.holds(&padded) && !Layout::Nhwc.holds_packed(&padded));
        let packed = tensor(&[2, 8, 4, 4], &[128, 1, 32, 8]);
        assert!(Layout::Nhwc.holds_packed(&packed) && !Layout::Nchw.holds(&packed) && !Layout::Chwn.holds(&packed));
    }

    #[test]
    fn the_batch_axis_of_a_matrix_may_lie_inside_the_rows() {
        let interleaved = tensor(&[4, 16, 8], &[8, 32, 1]);
        assert!(Layout::RowMajor.holds(&interleaved) && !Layout::ColumnMajor.holds(&interleaved));
        assert!(is_disjoint(&interleaved));
    }

    #[test]
    fn vectors_with_stride_one_and_scalars_fit_every_layout() {
        for layout in [Layout::RowMajor, Layout::ColumnMajor] {
            assert!(layout.holds_packed(&tensor(&[1, 1, 8], &[99, 99, 1])));
            assert!(layout.holds_packed(&tensor(&[1, 1, 1], &[7, 5, 3])));
            assert!(!layout.holds(&tensor(&[1, 1, 8], &[16, 16, 2])));
        }
    }

    #[test]
    fn overlap_is_found_at_the_boundary() {
        assert!(is_disjoint(&tensor(&[1, 4, 8], &[32, 8, 1])));
        assert!(!is_disjoint(&tensor(&[1, 4, 8], &[32, 7, 1])));
    }

    #[test]
    fn strides_are_aligned_except_the_contiguous_one() {
        assert!(!has_unaligned_stride(&tensor(&[1, 4, 8], &[32, 8, 1]), 128));
        assert!(has_unaligned_stride(&tensor(&[1, 4, 7], &[28, 7, 1]), 128));
        assert!(!has_unaligned_stride(&tensor(&[1, 1, 7], &[7, 7, 1]), 128), "a vector has no other axis");
        let bits = FinalTensor { data_type: DataType::Boolean, ..tensor(&[1, 4, 12], &[48, 12, 1]) };
        assert!(has_unaligned_stride(&bits, 8));
    }
}
