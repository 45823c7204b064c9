//! Attention: statistics of the softmax (frontend-json.md section 8; carried, not executed).

use super::layout::Layout;
use super::node::Node;
use crate::error::Malformed;
use crate::graph::Port;

/// `Stats`, `Max` and `Sum_exp` are `[b, h, s, 1]` of Q, row-major; maxima for scaling are one value. The gradients, and
/// O, must be given.
pub(super) fn infer(node: &mut Node) -> Result<(), Malformed> {
    let query = node.dim(Port("Q"))?;
    if query.len() != 4 {
        let message =
            format!("dims {query:?} have rank {}; required 4: batch, heads, sequence, head size", query.len());
        return Err(node.fault_at("SDPA-SHAPE", Port("Q"), message));
    }
    let statistics = vec![query[0], query[1], query[2], 1];
    for &(port, _) in &node.operation.outputs {
        match port.0 {
            "Stats" | "Max" | "Sum_exp" => node.complete(port, statistics.clone(), &Layout::RowMajor),
            name if name.starts_with("Amax_") => node.complete(port, vec![1; 4], &Layout::RowMajor),
            _ => {}
        }
    }
    Ok(())
}
