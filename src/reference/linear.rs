//! Matrix products of the CPU engine.

use rayon::prelude::*;

use super::element::Element;

/// Terms of a sum taken at a time, so that their rows of the second factor stay in cache.
const DEPTH: usize = 256;

/// Columns of the result taken at a time.
const WIDTH: usize = 512;

/// A row-major matrix whose rows lie `stride` elements apart.
#[derive(Clone, Copy)]
pub(super) struct Matrix<'a, T> {
    pub(super) data: &'a [T],
    pub(super) stride: usize,
}

/// `C[m,n] += A[m,k]·B[k,n]`, rows of C in parallel; every sum runs over k in order.
///
/// C has rows of `columns` elements, `stride` apart.
pub(super) fn add_product<T: Element>(
    c: &mut [T],
    stride: usize,
    columns: usize,
    a: Matrix<T>,
    b: Matrix<T>,
    depth: usize,
) {
    let rows = c.len().div_ceil(stride);
    let block = rows.div_ceil(2 * rayon::current_num_threads()).clamp(1, 32);
    c.par_chunks_mut(block * stride).zip(a.data.par_chunks(block * a.stride)).for_each(|(c, a_rows)| {
        for k in (0..depth).step_by(DEPTH) {
            let terms = DEPTH.min(depth - k);
            for n in (0..columns).step_by(WIDTH) {
                let width = WIDTH.min(columns - n);
                let panel = Matrix { data: &b.data[k * b.stride + n..], stride: b.stride };
                for (c, a) in c.chunks_mut(stride).zip(a_rows.chunks(a.stride)) {
                    add_row(&mut c[n..n + width], &a[k..k + terms], panel);
                }
            }
        }
    });
}

/// `c += a·B` for one row. Four terms at a time, so that c is loaded and stored a fourth as often.
fn add_row<T: Element>(c: &mut [T], a: &[T], b: Matrix<T>) {
    let width = c.len();
    let row = |k: usize| &b.data[k * b.stride..][..width];
    let (quads, rest) = a.as_chunks::<4>();
    for (q, quad) in quads.iter().enumerate() {
        add_quad(c, quad, std::array::from_fn(|i| row(4 * q + i)));
    }
    for (k, &a) in (4 * quads.len()..).zip(rest) {
        c.iter_mut().zip(row(k)).for_each(|(c, &b)| *c = c.add_product(a, b));
    }
}

#[inline]
fn add_quad<T: Element>(c: &mut [T], a: &[T; 4], [b0, b1, b2, b3]: [&[T]; 4]) {
    for ((((c, &b0), &b1), &b2), &b3) in c.iter_mut().zip(b0).zip(b1).zip(b2).zip(b3) {
        *c = c.add_product(a[0], b0).add_product(a[1], b1).add_product(a[2], b2).add_product(a[3], b3);
    }
}

/// The transpose of a packed matrix of this many columns.
pub(super) fn transpose<T: Element>(matrix: &[T], columns: usize) -> Vec<T> {
    let rows = matrix.len() / columns;
    let mut transposed = vec![T::default(); matrix.len()];
    transposed.par_chunks_mut(rows).enumerate().for_each(|(column, out)| {
        for (row, value) in out.iter_mut().enumerate() {
            *value = matrix[row * columns + column];
        }
    });
    transposed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_of_odd_sizes_with_padded_rows() {
        let (m, n, k) = (37, 523, 259);
        let a: Vec<i32> = (0..m * (k + 1)).map(|i| (i % 7) as i32 - 3).collect();
        let b: Vec<i32> = (0..k * (n + 2)).map(|i| (i % 5) as i32 - 2).collect();
        let mut c = vec![1; (m - 1) * (n + 3) + n];
        let (a, b) = (Matrix { data: &a, stride: k + 1 }, Matrix { data: &b, stride: n + 2 });
        add_product(&mut c, n + 3, n, a, b, k);
        for (i, j) in [(0, 0), (36, 522), (17, 511), (35, 512)] {
            let sum: i32 = (0..k).map(|t| a.data[i * a.stride + t] * b.data[t * b.stride + j]).sum();
            assert_eq!(c[i * (n + 3) + j], 1 + sum, "{i} {j}");
        }
        assert_eq!(c[n], 1, "gaps are left alone");
    }

    #[test]
    fn transposing_twice_is_the_identity() {
        let matrix: Vec<i32> = (0..6).collect();
        assert_eq!(transpose(&matrix, 3), [0, 3, 1, 4, 2, 5]);
        assert_eq!(transpose(&transpose(&matrix, 3), 2), matrix);
    }
}
