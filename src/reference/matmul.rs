//! Matmul of the CPU engine.

use rayon::prelude::*;

use super::block_mask::Blocks;
use super::element::Element;
use super::linear::{Matrix, add_product};
use super::overrides::{Overrides, SIDES};
use crate::error::{Error, Result};
use crate::host_tensor::{HostTensor, reserve, row_major_strides};

/// `C[b,m,n] = Σ_k A[b,m,k]·B[b,k,n]`, row-major over the extents `dim` of C. A batch extent of 1 broadcasts, one of heads that
/// divides C's serves groups of them (AT-O2).
pub(super) fn matmul<T: Element>(
    [a, b]: [&HostTensor; 2],
    dim: &[usize],
    overrides: Option<&Overrides>,
) -> Result<Vec<T>> {
    let (batch, [m, n]) = split_last_two(dim);
    let k = a.extents().last().copied().unwrap_or(1);
    let (a_batches, b_batches) = (batch_starts(a, batch), batch_starts(b, batch));
    let [a, b] = [(a, SIDES[0]), (b, SIDES[1])].map(|(operand, side)| {
        let mut values = load::<T>(operand)?;
        if let Some(overrides) = overrides {
            let padding = T::ONE.blend(overrides.padding, T::default(), 0.0);
            overrides.pad(&mut values, &operand.extents(), side, padding);
        }
        Ok::<_, Error>(values)
    });
    let (a, b) = (a?, b?);
    let mut c = reserve(dim.iter().product())?;
    c.resize(dim.iter().product(), T::default());
    let blocks = overrides.and_then(|overrides| overrides.blocks([m, k]));
    let matrices = c.par_chunks_mut(m * n).zip(a_batches.par_iter().zip(&b_batches)).enumerate();
    matrices.for_each(|(matrix, (c, (&a_start, &b_start)))| {
        let (a, b) = (&a[a_start * m * k..][..m * k], &b[b_start * k * n..][..k * n]);
        match &blocks {
            Some(blocks) => add_blocks(c, [a, b], blocks, matrix),
            None => add_product(c, n, n, Matrix { data: a, stride: k }, Matrix { data: b, stride: n }, k),
        }
    });
    Ok(c)
}

/// `C += A·B` without the tiles of A that are left out: rows of B that these are multiplied with may be anything.
fn add_blocks<T: Element>(c: &mut [T], [a, b]: [&[T]; 2], blocks: &Blocks, matrix: usize) {
    let rows = blocks.rows().last().map_or(1, |rows| rows.end);
    let (n, k) = (c.len() / rows, a.len() / rows);
    for rows in blocks.rows() {
        let mut b = b.to_vec();
        for terms in blocks.left_out(matrix, rows.start) {
            b[terms.start * n..terms.end * n].fill(T::default());
        }
        let a = Matrix { data: &a[rows.start * k..rows.end * k], stride: k };
        add_product(&mut c[rows.start * n..rows.end * n], n, n, a, Matrix { data: &b, stride: n }, k);
    }
}

/// A tensor's elements in a compute type's arithmetic, row-major.
pub(super) fn load<T: Element>(tensor: &HostTensor) -> Result<Vec<T>> {
    Ok(tensor.to_dense::<T::Lane>()?.into_iter().map(T::from_lane).collect())
}

/// For every batch of an iteration space, which of the tensor's own matrices it reads.
fn batch_starts(tensor: &HostTensor, batch: &[usize]) -> Vec<usize> {
    let own = tensor.extents();
    let (own_batch, _) = split_last_two(&own);
    let packed = row_major_strides(own_batch);
    let skipped = batch.len() - own_batch.len().min(batch.len());
    let strides = row_major_strides(batch);
    let matrix = |linear: usize| {
        let index = |axis: usize| linear / strides[axis] % batch[axis];
        let own_index = |axis: usize| index(axis + skipped) * own_batch[axis] / batch[axis + skipped];
        (0..own_batch.len()).map(|axis| own_index(axis) * packed[axis]).sum()
    };
    (0..batch.iter().product()).map(matrix).collect()
}

/// Batch extents, and rows and columns.
fn split_last_two(dim: &[usize]) -> (&[usize], [usize; 2]) {
    match dim {
        [batch @ .., rows, columns] => (batch, [*rows, *columns]),
        _ => (&[], [1, 1]),
    }
}
