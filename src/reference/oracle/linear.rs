//! Matmul by its definition (operations.md section 2).

use std::num::Wrapping;

use rayon::prelude::*;

use super::DenseF64;
use super::number::{Number, numbers};
use crate::reference::block_mask::Blocks;

/// `Σ_k A[b,m,k]·B[b,k,n]` for every element of C, of extents `dim`.
pub(super) fn matmul(operands: &[&DenseF64], dim: &[i64], is_integer: bool) -> Vec<f64> {
    if is_integer { product::<Wrapping<i64>>(operands, dim, None) } else { product::<f64>(operands, dim, None) }
}

/// As [`matmul`], of the terms that a mask of tiles of A keeps.
pub(super) fn matmul_of_blocks(operands: &[&DenseF64], dim: &[i64], is_integer: bool, blocks: &Blocks) -> Vec<f64> {
    match is_integer {
        true => product::<Wrapping<i64>>(operands, dim, Some(blocks)),
        false => product::<f64>(operands, dim, Some(blocks)),
    }
}

fn product<T: Number>(operands: &[&DenseF64], dim: &[i64], blocks: Option<&Blocks>) -> Vec<f64> {
    let &[a, b] = operands else { return Vec::new() };
    let rank = dim.len();
    let (m, n) = (dim[rank - 2] as usize, dim[rank - 1] as usize);
    let k = a.dim[a.dim.len() - 1] as usize;
    let (a_values, b_values) = (numbers::<T>(&a.values), numbers::<T>(&b.values));
    let rows = dim[..rank - 1].iter().product::<i64>() as usize;
    let row = |row: usize| {
        let (batch, i) = (row / m, row % m);
        let a = &a_values[(matrix_of(a, dim, batch) * m + i) * k..][..k];
        let b = &b_values[matrix_of(b, dim, batch) * k * n..][..k * n];
        let mut sums = vec![T::default(); n];
        let is_kept = |k: &usize| blocks.is_none_or(|blocks| blocks.is_kept(batch, [i, *k]));
        for (a, b) in (0..k).filter(is_kept).map(|k| (&a[k], &b[k * n..][..n])) {
            sums.iter_mut().zip(b).for_each(|(sum, &b)| *sum = *sum + *a * b);
        }
        sums.into_iter().map(T::to_f64).collect::<Vec<f64>>()
    };
    (0..rows).into_par_iter().flat_map_iter(row).collect()
}

/// Which of an operand's matrices a batch of C reads: extents of 1 broadcast, those that divide C's serve groups (AT-O2).
pub(in crate::reference) fn matrix_of(operand: &DenseF64, dim: &[i64], batch: usize) -> usize {
    let skipped = dim.len() - operand.dim.len();
    let (mut batch, mut matrix, mut step) = (batch as i64, 0, 1);
    for axis in (0..dim.len() - 2).rev() {
        let index = batch % dim[axis];
        batch /= dim[axis];
        if axis >= skipped {
            let own = operand.dim[axis - skipped];
            matrix += index * own / dim[axis] * step;
            step *= own;
        }
    }
    matrix as usize
}
