//! Matmul (operations.md section 2).

use super::advice;
use super::layout::Layout;
use super::node::Node;
use crate::graph::{Malformed, Port, ScoreMask};

/// C = batch extents of A and B, then A's M and B's N; row-major.
pub(super) fn infer(node: &mut Node) -> Result<(), Malformed> {
    let dim = product_dim(node)?;
    node.complete(Port::C, dim, &Layout::RowMajor);
    Ok(())
}

/// As [`infer`], with a scalar maximum beside C.
pub(super) fn infer_fp8(node: &mut Node) -> Result<(), Malformed> {
    infer(node)?;
    let rank = node.dim(Port::C)?.len();
    node.complete(Port("Amax_C"), vec![1; rank], &Layout::RowMajor);
    Ok(())
}

/// Dims that A and B require of C.
fn product_dim(node: &Node) -> Result<Vec<i64>, Malformed> {
    let rank = node.common_rank("MATMUL-SHAPE", &[Port::A, Port::B])?;
    let (a, b) = (node.dim(Port::A)?, node.dim(Port::B)?);
    if rank < 2 {
        return Err(node.fault_at(
            "MATMUL-SHAPE",
            Port::A,
            format!("dims {a:?} have rank {rank}; at least 2 is required"),
        ));
    }
    let (m, k) = (a[rank - 2], a[rank - 1]);
    if b[rank - 2] != k {
        let result = node.given_result(Port::C).filter(|result| result.len() == rank);
        let fits = |m, n| result.map(|result| result[rank - 2..] == [m, n]);
        let advice = advice::inner_extents(a, b, node.stride(Port::B).unwrap_or_default(), fits);
        let message = format!("K is {} in dims {b:?}, but A has K = {k} in dims {a:?}{advice}", b[rank - 2]);
        return Err(node.fault_at("MATMUL-SHAPE", Port::B, message));
    }
    let mut dim = Vec::with_capacity(rank);
    for axis in 0..rank - 2 {
        if !batches_fit(a[axis], b[axis], rank) {
            let message = format!("batch extents {a:?} and {b:?} differ on axis {axis}, and neither is 1");
            return Err(node.fault_at("MATMUL-SHAPE", Port::B, message));
        }
        dim.push(a[axis].max(b[axis]));
    }
    dim.extend([m, b[rank - 1]]);
    Ok(dim)
}

/// Equal or 1; with two batch axes, as attention has, also a divisor: an entry serves a group of heads.
fn batches_fit(a: i64, b: i64, rank: usize) -> bool {
    a == b || a == 1 || b == 1 || (rank >= 4 && a.max(b) % a.min(b) == 0)
}

pub(super) fn check(node: &Node) -> Result<(), Malformed> {
    let required = product_dim(node)?;
    node.require_dim("MATMUL-SHAPE", Port::C, &required, "batch, M of A, N of B")?;
    for port in [Port::M_OVERRIDE, Port::N_OVERRIDE, Port::K_OVERRIDE] {
        if node.tensor(port).is_some() {
            check_override(node, port, &required)?;
        }
    }
    check_block_mask(node, &required)
}

/// Which tiles of A are multiplied, of matrices for batches and heads.
fn check_block_mask(node: &Node, product: &[i64]) -> Result<(), Malformed> {
    let a = node.dim(Port::A)?;
    match (product, a.last()) {
        (&[batches, heads, rows, _], Some(&terms)) => ScoreMask::check_block_mask(node, &[batches, heads, rows, terms]),
        _ if node.tensor(Port::BLOCK_MASK).is_some() => {
            Err(node.fault_at("AT-E19", Port::BLOCK_MASK, "required are operands of batch, heads, rows and columns"))
        }
        _ => Ok(()),
    }
}

/// Overrides give one extent a batch: `[B, 1, 1]` or `[B, 1, 1, 1]`.
fn check_override(node: &Node, port: Port, product: &[i64]) -> Result<(), Malformed> {
    let dim = node.dim(port)?;
    let fits = dim.len() == product.len()
        && (dim[0] == product[0] || dim[0] == 1)
        && dim[1..].iter().all(|&extent| extent == 1);
    if fits {
        return Ok(());
    }
    let mut required = vec![1; product.len()];
    required[0] = product[0];
    Err(node.fault_at("MATMUL-SHAPE", port, format!("dims are {dim:?}, required {required:?}: one extent a batch")))
}

#[cfg(test)]
mod tests {
    use crate::graph::samples::{half_graph, input, refusal, shape_of};
    use crate::graph::{Graph, Port};

    fn product(a: &[i64], b: &[i64]) -> Graph {
        let mut graph = half_graph();
        let [a, b] = [input(&mut graph, "A", a), input(&mut graph, "B", b)];
        let c = graph.matmul("mm", a, b);
        graph.set_output(c);
        graph
    }

    #[test]
    fn batches_broadcast() {
        for (a, b, c) in [
            (&[2, 3][..], &[3, 5][..], &[2, 5][..]),
            (&[1, 2, 3], &[4, 3, 5], &[4, 2, 5]),
            (&[4, 2, 3], &[1, 3, 5], &[4, 2, 5]),
            (&[2, 6, 2, 3], &[2, 2, 3, 5], &[2, 6, 2, 5]),
        ] {
            assert_eq!(shape_of(&product(a, b).finalize().unwrap(), "mm::C").0, c);
        }
    }

    #[test]
    fn shapes_must_fit() {
        for (a, b, expected) in [
            (&[3][..], &[3][..], "dims [3] have rank 1; at least 2 is required"),
            (&[2, 3], &[1, 3, 5], "rank 3 with dims [1, 3, 5], but A has rank 2"),
            (
                &[2, 3],
                &[4, 5],
                "K is 4 in dims [4, 5], but A has K = 3 in dims [2, 3]; dims are always A [.., M, K] and B [.., K, N] [",
            ),
            (&[5, 2, 3], &[5, 7, 3], "a transposed B has the dims [5, 3, 7] and the strides [21, 1, 3] ["),
            (&[5, 3, 2], &[5, 3, 7], "a transposed A has the dims [5, 2, 3] and the strides to match ["),
            (&[1, 2, 3], &[3, 5], "; write it as [1, 3, 5] with the strides [15, 5, 1] ["),
            (&[4, 2, 3], &[2, 3, 5], "batch extents [4, 2, 3] and [2, 3, 5] differ on axis 0"),
            (&[1, 6, 2, 3], &[1, 4, 3, 5], "differ on axis 1, and neither is 1"),
        ] {
            let message = refusal(&product(a, b));
            assert!(message.contains(expected) && message.ends_with("[MATMUL-SHAPE]"), "{message}");
        }
    }

    #[test]
    fn a_mistyped_k_is_no_transposed_operand() {
        let advised = |a: &[i64], b: &[i64], y: &[i64]| {
            let mut graph = product(a, b);
            let c = graph.operations()[0].result().unwrap();
            graph.tensor_mut(c).is_virtual = true;
            let relu = graph.pointwise("relu", crate::graph::PointwiseMode::ReluFwd, &[c]);
            *graph.set_output(relu) = crate::graph::Tensor::new("y").row_major(y.to_vec());
            refusal(&graph)
        };
        for (a, b, y, expected) in [
            (
                &[1, 512, 512],
                &[1, 500, 512],
                &[1, 512, 512],
                "M and N fit what is made of them, so one K is mistyped [",
            ),
            (
                &[1, 512, 512],
                &[1, 500, 512],
                &[1, 512, 500],
                "a transposed B has the dims [1, 512, 500] and the strides",
            ),
            (&[1, 64, 512], &[1, 64, 512], &[1, 512, 512], "a transposed A has the dims [1, 512, 64]"),
            (&[1, 64, 512], &[1, 128, 512], &[1, 64, 96], "B [.., K, N] ["),
        ] {
            let message = advised(a, b, y);
            assert!(message.contains(expected), "{message}");
        }
    }

    #[test]
    fn the_result_must_be_the_product_s() {
        let mut graph = product(&[1, 2, 3], &[4, 3, 5]);
        let c = graph.operations()[0].result().unwrap();
        graph.tensor_mut(c).dim = vec![1, 2, 5];
        let message = refusal(&graph);
        assert!(message.contains("port C: dims are [1, 2, 5], required [4, 2, 5]: batch, M of A, N of B"), "{message}");
    }

    #[test]
    fn overrides_are_one_extent_a_batch() {
        let with = |dim: &[i64]| {
            let mut graph = product(&[4, 2, 3], &[4, 3, 5]);
            let extents = input(&mut graph, "m", dim);
            graph.last_operation().inputs.push((Port::M_OVERRIDE, extents));
            graph
        };
        with(&[4, 1, 1]).finalize().unwrap();
        for dim in [&[4][..], &[4, 2, 1], &[3, 1, 1]] {
            assert!(refusal(&with(dim)).contains("required [4, 1, 1]: one extent a batch"));
        }
    }
}
