//! Matmul (operations.md section 2).

use super::layout::Layout;
use super::node::Node;
use crate::error::Malformed;
use crate::graph::Port;

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
        let message = format!("K is {} in dims {b:?}, but A has K = {k} in dims {a:?}", b[rank - 2]);
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
    Ok(())
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
