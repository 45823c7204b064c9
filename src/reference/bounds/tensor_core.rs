//! What tensor cores lose of sums of FP8 products.
//!
//! Hopper's add 32 products at a time to the sum so far. Each addend is cut at 2⁻¹³ of the power of two below the largest of
//! them: 14 bits of a sum are kept (the DeepSeek-V3 report, section 3.3.2, and what this project's device tier sees).

use super::accuracy::quantum;
use crate::reference::oracle::{DenseF64, matrix_of};

/// Products that are summed by tensor cores before the sum is added up in FP32.
pub(super) const PROMOTED_TERMS: usize = 128;

/// Products that one instruction adds.
const STEP: usize = 32;

/// Addends of a step: its products, and the sum so far, which is cut twice where a step is done in halves.
const ADDENDS: f64 = STEP as f64 + 2.0;

/// Where an addend is cut, over the largest of them.
const CUT: f64 = 1.0 / (1 << 13) as f64;

/// What may be lost of each element of `A·B`, of extents `dim`, where chains of so many products are summed.
pub(super) fn lost(a: &DenseF64, b: &DenseF64, dim: &[i64], chain: usize) -> Vec<f64> {
    let rank = dim.len();
    let (m, n) = (dim[rank - 2] as usize, dim[rank - 1] as usize);
    let k = a.dim[a.dim.len() - 1] as usize;
    let transposed = b.values.chunks(k * n).flat_map(|matrix| transposed(matrix, n)).collect();
    let (left, right) = (Vectors::new(a.values.clone(), k), Vectors::new(transposed, k));
    let row = |row: usize| {
        let (left_at, right_at) = (matrix_of(a, dim, row / m) * m + row % m, matrix_of(b, dim, row / m) * n);
        let element = |column| lost_of(left.at(left_at), right.at(right_at + column), chain);
        (0..n).map(element).collect::<Vec<f64>>()
    };
    let rows = dim[..rank - 1].iter().product::<i64>() as usize;
    (0..rows).flat_map(row).collect()
}

fn transposed(matrix: &[f64], columns: usize) -> Vec<f64> {
    (0..columns).flat_map(|column| matrix.iter().skip(column).step_by(columns).copied()).collect()
}

/// The vectors whose inner products are taken, one after the other.
struct Vectors {
    values: Vec<f64>,
    length: usize,
    /// Of each, the power of two of which every value is a multiple.
    quanta: Vec<f64>,
}

impl Vectors {
    fn new(values: Vec<f64>, length: usize) -> Self {
        let quanta = values.chunks(length).map(quantum).collect();
        Self { values, length, quanta }
    }

    fn at(&self, number: usize) -> (&[f64], f64) {
        (&self.values[number * self.length..][..self.length], self.quanta[number])
    }
}

/// What may be lost of one inner product.
fn lost_of((left, left_quantum): (&[f64], f64), (right, right_quantum): (&[f64], f64), chain: usize) -> f64 {
    let length = chain.min(left.len());
    let quantum = left_quantum * right_quantum;
    left.chunks(length).zip(right.chunks(length)).map(|(left, right)| lost_of_chain(left, right, quantum)).sum()
}

/// No partial sum is larger than the span of the prefix sums, wherever a tile of k may have begun. What is a multiple of
/// the largest cut is not lost.
fn lost_of_chain(left: &[f64], right: &[f64], quantum: f64) -> f64 {
    let (mut sum, mut least, mut most, mut largest) = (0.0f64, 0.0f64, 0.0f64, 0.0f64);
    for (a, b) in left.iter().zip(right) {
        let product = a * b;
        sum += product;
        (least, most, largest) = (least.min(sum), most.max(sum), largest.max(product.abs()));
    }
    let cut = CUT * largest.max(most - least);
    let steps = left.len().div_ceil(STEP) as f64;
    if cut <= quantum { 0.0 } else { steps * ADDENDS * cut }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost_of_all(values: &[f64], chain: usize) -> f64 {
        let ones = vec![1.0; values.len()];
        lost_of((values, quantum(values)), (&ones, 1.0), chain)
    }

    #[test]
    fn sums_that_fourteen_bits_hold_are_exact() {
        assert_eq!(lost_of_all(&[8191.0, 1.0], usize::MAX), 0.0);
        assert_eq!(lost_of_all(&[8192.0, 1.0], usize::MAX), ADDENDS * 8193.0 * CUT);
    }

    #[test]
    fn a_chain_is_cut_by_its_own_largest_sum() {
        let values = [vec![1e4; 128], vec![-1e4; 128], vec![1.0; 128]].concat();
        let each = 4.0 * ADDENDS * CUT;
        assert_eq!(lost_of_all(&values, 128), 2.0 * each * 128e4);
        assert_eq!(lost_of_all(&values, usize::MAX), 3.0 * each * 128e4);
    }

    #[test]
    fn every_element_has_its_row_and_column() {
        let dense = |dim: &[i64], values: &[f64]| DenseF64 { dim: dim.to_vec(), values: values.to_vec() };
        let a = dense(&[1, 2, 2], &[1.0, 0.5, 9000.0, 1.0]);
        let b = dense(&[2, 2, 1], &[1.0, 1.0, 2.0, 0.25]);
        let of = |largest: f64| ADDENDS * CUT * largest;
        assert_eq!(lost(&a, &b, &[2, 2, 1], 128), [0.0, of(9001.0), 0.0, of(18000.25)]);
    }
}
