//! Extents and strides: how the memory of a tensor reads under other extents in the same element order. The rules are those of
//! `python/fusewright/torch/_layout.py`.

/// Whether memory of (`shape`, `stride`) is that of (`dim`, `wanted`), element for element. Strides of axes of one element do not count.
pub(super) fn is_in_layout(shape: &[i64], stride: &[i64], dim: &[i64], wanted: &[i64]) -> bool {
    dim.len() == wanted.len() && visit(shape, stride, dim, |axis, step| wanted[axis] == step)
}

/// Strides under which `dim` reads the elements of (`shape`, `stride`) in the same order, where there are any.
pub(super) fn restride(shape: &[i64], stride: &[i64], dim: &[i64]) -> Option<Vec<i64>> {
    let mut found = vec![1; dim.len()];
    let mut keep = |axis: usize, step| {
        found[axis] = step;
        true
    };
    visit(shape, stride, dim, &mut keep).then_some(found)
}

/// Packed strides with the last axis innermost.
pub(super) fn row_major(dim: &[i64]) -> Vec<i64> {
    let mut stride = vec![1; dim.len()];
    for axis in (1..dim.len()).rev() {
        stride[axis - 1] = stride[axis] * dim[axis];
    }
    stride
}

/// Tells the stride of each axis of `dim` of more than one element, the last axis first, until one is not accepted. False where one was
/// not, or where no strides read the elements in their order. It runs at every execution, and allocates nothing.
fn visit(shape: &[i64], stride: &[i64], dim: &[i64], mut accept: impl FnMut(usize, i64) -> bool) -> bool {
    if shape.iter().product::<i64>() != dim.iter().product::<i64>() {
        return false;
    }
    let mut runs = Runs { shape, stride };
    let (mut size, mut step) = (1, 1);
    for (axis, &extent) in dim.iter().enumerate().rev().filter(|&(_, &extent)| extent != 1) {
        if size == 1 {
            let Some(run) = runs.next() else { return false };
            (size, step) = run;
        }
        if extent < 1 || size % extent != 0 || !accept(axis, step) {
            return false;
        }
        size /= extent;
        step = step.wrapping_mul(extent);
    }
    true
}

/// The axes of more than one element as (elements, stride), the last first, neighbours merged where they are one range of memory.
struct Runs<'a> {
    shape: &'a [i64],
    stride: &'a [i64],
}

impl Runs<'_> {
    /// The last axis of more than one element that is left.
    fn last(&mut self) -> Option<(i64, i64)> {
        while let [rest @ .., 1] = self.shape {
            self.shape = rest;
        }
        let extent = *self.shape.last()?;
        Some((extent, *self.stride.get(self.shape.len() - 1)?))
    }

    fn drop_last(&mut self) {
        self.shape = self.shape.split_last().map_or(&[], |(_, rest)| rest);
    }
}

impl Iterator for Runs<'_> {
    type Item = (i64, i64);

    fn next(&mut self) -> Option<(i64, i64)> {
        let (mut size, step) = self.last()?;
        self.drop_last();
        while let Some((extent, _)) = self.last().filter(|&(_, outer)| outer == step.wrapping_mul(size)) {
            size = size.wrapping_mul(extent);
            self.drop_last();
        }
        Some((size, step))
    }
}
