//! What tensor cores lose of sums of FP8 products.
//!
//! Hopper's add 32 products at a time to the sum so far. Each addend is cut at 2⁻¹³ of the power of two below the largest of
//! them: 14 bits of a sum are kept (the DeepSeek-V3 report, section 3.3.2, and what this project's device tier sees).

use super::accuracy::{INDEPENDENT, quantum};
use crate::graph::Convolution;
use crate::kernel::FP8_KEYS_OF_SUM;
use crate::reference::oracle::{DenseF64, convolve, matrix_of};

/// Products that are summed by tensor cores before the sum is added up in FP32.
pub(super) const PROMOTED_TERMS: usize = 128;

/// The same of an attention's probabilities and values.
pub(super) const PROMOTED_KEYS: usize = FP8_KEYS_OF_SUM as usize;

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

/// What may be lost of each element of a convolution, of extents `dim` and these exact results, where chains of so many
/// products are summed.
///
/// The order of the products is open: taps and channels may be walked in either order and in parts, with zeros between
/// them. So a chain's sums are bounded by the magnitudes of its products, and those of all chains by the magnitudes of all. A
/// sum over all products in an order that does not depend on them is, on its way, no further from 0 than where it ends and
/// what independent products make.
pub(super) fn lost_of_convolution(
    convolution: &Convolution,
    operands: [&DenseF64; 2],
    dim: &[i64],
    (terms, chain): (usize, usize),
    results: &[f64],
) -> Vec<f64> {
    let sums_of = |function: fn(f64) -> f64| {
        let [first, second] = operands.map(|operand| DenseF64 {
            dim: operand.dim.clone(),
            values: operand.values.iter().map(|&x| function(x)).collect(),
        });
        convolve(convolution, &[&first, &second], dim, false)
    };
    let (magnitudes, squares) = (sums_of(f64::abs), sums_of(|x| x * x));
    let largest = |operand: &DenseF64| operand.values.iter().fold(0.0f64, |largest, x| largest.max(x.abs()));
    let [quantum, widest] = [operands.map(|operand| quantum(&operand.values)), operands.map(largest)].map(product);
    let length = chain.min(terms);
    let addends = length.div_ceil(STEP) as f64 * ADDENDS;
    let lost = |((magnitude, squares), result): ((&f64, &f64), &f64)| {
        let walked = if chain < terms { *magnitude } else { result.abs() + INDEPENDENT * squares.sqrt() };
        let is_exact = CUT * magnitude.min(length as f64 * widest) <= quantum;
        if is_exact { 0.0 } else { addends * CUT * walked.min(*magnitude) }
    };
    magnitudes.iter().zip(&squares).zip(results).map(lost).collect()
}

fn product([a, b]: [f64; 2]) -> f64 {
    a * b
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
    use crate::graph::ConvolutionDirection;

    /// What is lost of the one result of a convolution of these values with ones.
    fn lost_of_patch(values: &[f64], chain: usize) -> f64 {
        let dense = |values: Vec<f64>| DenseF64 { dim: vec![1, 1, values.len() as i64], values };
        let (patch, ones) = (dense(values.to_vec()), dense(vec![1.0; values.len()]));
        let convolution = Convolution::new(ConvolutionDirection::Forward, 1);
        let result = [values.iter().sum()];
        lost_of_convolution(&convolution, [&patch, &ones], &[1, 1, 1], (values.len(), chain), &result)[0]
    }

    #[test]
    fn sums_of_a_convolution_that_fourteen_bits_hold_are_exact() {
        assert_eq!(lost_of_patch(&[8191.0, 1.0], PROMOTED_TERMS), 0.0);
        assert_eq!(lost_of_patch(&[8192.0, -1.0], PROMOTED_TERMS), ADDENDS * 8193.0 * CUT);
        let of_chains = [vec![60.0; 256], vec![1.0; 128]].concat();
        assert_eq!(lost_of_patch(&of_chains, PROMOTED_TERMS), 0.0, "no chain of 128 exceeds 13 bits");
    }

    #[test]
    fn whatever_its_order_a_convolution_loses_no_less_than_a_matmul_of_the_same_products() {
        let signs = |i: usize| if i.is_multiple_of(3) { -1.0 } else { 1.0 };
        let values: Vec<f64> = (0..384).map(|i| signs(i) * (1.0 + (i * 7919 % 448) as f64)).collect();
        for chain in [PROMOTED_TERMS, usize::MAX] {
            let (matmul, convolution) = (lost_of_all(&values, chain), lost_of_patch(&values, chain));
            assert!(0.0 < matmul && matmul <= convolution, "{matmul} {convolution}");
        }
    }

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
