//! Visiting the elements of several strided tensors together.

use std::ops::Range;

/// Elements in one unit of parallel work.
const BLOCK: usize = 1 << 16;

/// An iteration space seen by several operands: extents from the slowest axis to the fastest, and each operand's stride
/// along each axis (0 where it is broadcast). A *position* counts the elements of the space in that order.
#[derive(Clone, Debug)]
pub(crate) struct Traversal {
    extents: Vec<usize>,
    strides: Vec<Vec<usize>>,
}

impl Traversal {
    /// The space of `dim` with axes ordered by falling strides of the operand `leader`, so that positions follow its
    /// storage. `strides` are per operand, in the axis order of `dim`.
    pub(crate) fn following(dim: &[usize], leader: usize, strides: &[Vec<usize>]) -> Self {
        let mut axes: Vec<usize> = (0..dim.len()).collect();
        axes.sort_by_key(|&axis| std::cmp::Reverse(strides[leader][axis]));
        Self::ordered(dim, &axes, strides)
    }

    /// The space of `dim` with these axes, slowest first.
    pub(crate) fn ordered(dim: &[usize], axes: &[usize], strides: &[Vec<usize>]) -> Self {
        let mut space = Self { extents: Vec::new(), strides: vec![Vec::new(); strides.len()] };
        for &axis in axes.iter().filter(|&&axis| dim[axis] != 1) {
            space.push_axis(dim[axis], strides.iter().map(|operand| operand[axis]));
        }
        if space.extents.is_empty() {
            space.push_axis(1, std::iter::repeat_n(0, strides.len()));
        }
        space
    }

    /// Adds the next faster axis, merged with the one before where every operand steps evenly across both.
    fn push_axis(&mut self, extent: usize, strides: impl Iterator<Item = usize> + Clone) {
        let pairs = self.strides.iter().zip(strides.clone());
        let merges = pairs.into_iter().all(|(operand, inner)| operand.last() == Some(&(inner * extent)));
        let slower = if merges { self.extents.pop().unwrap_or(1) } else { 1 };
        self.extents.push(slower * extent);
        for (operand, stride) in self.strides.iter_mut().zip(strides) {
            operand.truncate(self.extents.len() - 1);
            operand.push(stride);
        }
    }

    /// Number of positions.
    pub(crate) fn len(&self) -> usize {
        self.extents.iter().product()
    }

    /// Distance of an operand's elements along the fastest axis.
    pub(crate) fn inner_stride(&self, operand: usize) -> usize {
        self.strides[operand].last().copied().unwrap_or(0)
    }

    /// Linear offset of an operand's element at a position.
    pub(crate) fn offset(&self, operand: usize, position: usize) -> usize {
        let index = self.index(position);
        index.iter().zip(&self.strides[operand]).map(|(i, stride)| i * stride).sum()
    }

    fn index(&self, mut position: usize) -> Vec<usize> {
        let mut index = vec![0; self.extents.len()];
        for (i, &extent) in index.iter_mut().zip(&self.extents).rev() {
            *i = position % extent;
            position /= extent;
        }
        index
    }

    /// Calls `visit(offset, len)` for each stretch along the fastest axis that a range of positions consists of, with
    /// the operand's linear offset of its first element.
    pub(crate) fn for_each_run(&self, operand: usize, range: Range<usize>, mut visit: impl FnMut(usize, usize)) {
        let mut index = self.index(range.start);
        let mut left = range.len();
        let inner = self.extents.len() - 1;
        while left > 0 {
            let offset = index.iter().zip(&self.strides[operand]).map(|(i, stride)| i * stride).sum();
            let len = left.min(self.extents[inner] - index[inner]);
            visit(offset, len);
            left -= len;
            index[inner] += len;
            self.carry(&mut index);
        }
    }

    /// Moves overflowing components of an index to the next slower axis.
    fn carry(&self, index: &mut [usize]) {
        for axis in (1..index.len()).rev() {
            if index[axis] < self.extents[axis] {
                return;
            }
            index[axis] = 0;
            index[axis - 1] += 1;
        }
    }

    /// Whether offsets of the operand grow strictly with positions: then distinct ranges lie in distinct, ordered parts
    /// of its storage.
    fn is_increasing(&self, operand: usize) -> bool {
        let mut span = 0;
        self.extents.iter().zip(&self.strides[operand]).rev().all(|(&extent, &stride)| {
            let grows = extent == 1 || stride > span;
            span += stride * (extent - 1);
            grows
        })
    }

    /// Positions at which the operand's storage can be cut into independent blocks, each at an offset that is a
    /// multiple of `alignment` elements: 0, …, [`Self::len`]. One block where the layout does not allow more.
    pub(crate) fn cuts(&self, operand: usize, alignment: usize) -> Vec<usize> {
        let len = self.len();
        let mut cuts: Vec<usize> = (0..len).step_by(BLOCK).collect();
        let aligned = |&cut: &usize| self.offset(operand, cut).is_multiple_of(alignment);
        if !self.is_increasing(operand) || (alignment > 1 && !cuts.iter().all(aligned)) {
            cuts.truncate(1);
        }
        cuts.push(len);
        cuts
    }
}

/// Splits storage at ascending byte positions; the parts before the first and after the last belong to the outer parts.
pub(crate) fn split_at_all<'a>(mut bytes: &'a mut [u8], cuts: &[usize]) -> Vec<&'a mut [u8]> {
    let mut parts = Vec::with_capacity(cuts.len() + 1);
    let mut done = 0;
    for &cut in cuts {
        let (part, rest) = bytes.split_at_mut(cut - done);
        parts.push(part);
        bytes = rest;
        done = cut;
    }
    parts.push(bytes);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offsets(space: &Traversal, operand: usize, range: Range<usize>) -> Vec<usize> {
        let mut all = Vec::new();
        let step = space.inner_stride(operand);
        space.for_each_run(operand, range, |start, len| all.extend((0..len).map(|i| start + i * step)));
        all
    }

    #[test]
    fn packed_axes_merge_into_one() {
        let space = Traversal::following(&[2, 3, 4], 0, &[vec![12, 4, 1]]);
        assert_eq!(space.extents, [24]);
        assert_eq!(offsets(&space, 0, 5..9), [5, 6, 7, 8]);
    }

    #[test]
    fn positions_follow_the_leader_and_others_follow_positions() {
        // [2, 3] column-major beside row-major, and a row broadcast over axis 0.
        let space = Traversal::following(&[2, 3], 0, &[vec![1, 2], vec![3, 1], vec![0, 1]]);
        assert_eq!(offsets(&space, 0, 0..6), [0, 1, 2, 3, 4, 5]);
        assert_eq!(offsets(&space, 1, 0..6), [0, 3, 1, 4, 2, 5]);
        assert_eq!(offsets(&space, 2, 1..5), [0, 1, 1, 2]);
    }

    #[test]
    fn a_space_of_one_element_has_one_position() {
        let space = Traversal::following(&[1, 1], 0, &[vec![5, 7]]);
        assert_eq!((space.len(), offsets(&space, 0, 0..1)), (1, vec![0]));
    }

    #[test]
    fn interleaved_storage_is_not_cut() {
        let wide = 3 * BLOCK;
        let nested = Traversal::following(&[2, wide], 0, &[vec![wide + 4, 1]]);
        assert_eq!(nested.cuts(0, 1).len(), 7);
        let interleaved = Traversal::following(&[2, wide], 0, &[vec![3, 2]]);
        assert_eq!(interleaved.cuts(0, 1), [0, 2 * wide]);
    }

    #[test]
    fn cuts_respect_whole_bytes_of_bits() {
        let lines = Traversal::following(&[1 << 13, 100], 0, &[vec![104, 1]]);
        assert!(lines.cuts(0, 1).len() > 2);
        assert_eq!(lines.cuts(0, 8).len(), 2);
    }

    #[test]
    fn storage_splits_at_every_cut() {
        let mut bytes = [0, 1, 2, 3, 4];
        let parts = split_at_all(&mut bytes, &[1, 3]);
        assert_eq!(parts, [&[0][..], &[1, 2], &[3, 4]]);
    }
}
