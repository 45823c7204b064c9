//! Pointwise operations: broadcasting (operations.md 4.1, PW-R6).

use super::layout::Layout;
use super::node::Node;
use crate::error::Malformed;
use crate::graph::{Pointwise, PointwiseMode, Port};

/// Dims: broadcast of all inputs. Strides: those of the first input of these dims; else, for a virtual result, the
/// order of `IN_0`'s axes.
pub(super) fn infer(node: &mut Node) -> Result<(), Malformed> {
    let dim = broadcast(node)?;
    if !node.lacks_dim(Port::OUT_0) && !node.lacks_stride(Port::OUT_0) {
        return Ok(());
    }
    let target = if node.lacks_dim(Port::OUT_0) { dim.clone() } else { node.dim(Port::OUT_0)?.to_vec() };
    let same = node.inputs().find(|tensor| tensor.dim == target && !tensor.stride.is_empty());
    let is_virtual = node.tensor(Port::OUT_0).is_some_and(|tensor| tensor.is_virtual);
    let layout = match same {
        Some(tensor) => Layout::Given(tensor.stride.clone()),
        None if is_virtual || !node.lacks_stride(Port::OUT_0) => Layout::OrderOf(node.stride(Port::IN_0)?.to_vec()),
        None => {
            let message = format!("no input has the dims {target:?}, so the strides of this output must be given");
            return Err(node.fault_at("SHAPE_DEDUCTION_FAILED", Port::OUT_0, message));
        }
    };
    node.complete(Port::OUT_0, dim, &layout);
    Ok(())
}

fn ports(node: &Node) -> Vec<Port> {
    node.operation.inputs.iter().map(|slot| slot.0).collect()
}

/// The common dims of all inputs: on each axis the one extent that is not 1.
fn broadcast(node: &Node) -> Result<Vec<i64>, Malformed> {
    let ports = ports(node);
    let rank = node.common_rank("PW-BROADCAST", &ports)?;
    let mut dim = vec![1; rank];
    for &port in &ports {
        for (axis, &extent) in node.dim(port)?.iter().enumerate() {
            if extent != 1 && dim[axis] != 1 && dim[axis] != extent {
                let message =
                    format!("extent {extent} on axis {axis} does not broadcast with {} of another input", dim[axis]);
                return Err(node.fault_at("PW-BROADCAST", port, message));
            }
            dim[axis] = dim[axis].max(extent);
        }
    }
    Ok(dim)
}

pub(super) fn check(node: &Node, pointwise: &Pointwise) -> Result<(), Malformed> {
    let ports = ports(node);
    node.common_rank("PW-BROADCAST", &[&ports[..], &[Port::OUT_0]].concat())?;
    let required = broadcast(node)?;
    node.require_dim("PW-BROADCAST", Port::OUT_0, &required, "the broadcast of the inputs")?;
    match pointwise.mode {
        PointwiseMode::BinarySelect => check_select(node, &required),
        PointwiseMode::GenIndex => check_axis(node, pointwise.axis, required.len()),
        _ => Ok(()),
    }
}

/// PW-R6: no broadcasting, save for a scalar as the second choice (attention masks).
fn check_select(node: &Node, required: &[i64]) -> Result<(), Malformed> {
    for port in ports(node) {
        let is_scalar = node.dim(port)?.iter().all(|&extent| extent == 1);
        if port != Port::IN_1 || !is_scalar {
            node.require_dim("PW-R6", port, required, "BINARY_SELECT does not broadcast")?;
        }
    }
    Ok(())
}

fn check_axis(node: &Node, axis: Option<i64>, rank: usize) -> Result<(), Malformed> {
    match axis {
        Some(axis) if usize::try_from(axis).is_ok_and(|axis| axis < rank) => Ok(()),
        Some(axis) => {
            let message = format!("axis is {axis}; GEN_INDEX on tensors of rank {rank} takes 0 to {}", rank - 1);
            Err(node.fault("PW-IDX", message))
        }
        None => Err(node.fault("PW-IDX", "axis is not set; GEN_INDEX requires it")),
    }
}
