//! Concatenation and signals (operations.md section 8).

use super::layout::Layout;
use super::node::Node;
use crate::error::Malformed;
use crate::graph::{Concat, Port, Tensor};

/// Y: the first input's dims, with the sum of extents along the axis, in the order of the first input's axes.
pub(super) fn infer_concat(node: &mut Node, concat: &Concat) -> Result<(), Malformed> {
    let dim = joined_dim(node, concat)?;
    let stride = node.inputs().next().map(|tensor| tensor.stride.clone()).unwrap_or_default();
    node.complete(Port::Y, dim, &Layout::OrderOf(stride));
    Ok(())
}

pub(super) fn check_concat(node: &Node, concat: &Concat) -> Result<(), Malformed> {
    let required = joined_dim(node, concat)?;
    node.require_dim("CONCAT-SHAPE", Port::Y, &required, "the inputs joined along the axis")?;
    let output = node.tensor(Port::Y).and_then(|tensor| tensor.data_type);
    if let Some(input) = node.inputs().find(|tensor| tensor.data_type != output) {
        let name = |data_type: Option<_>| data_type.map_or("none".to_owned(), |data_type| format!("{data_type}"));
        let message = format!(
            "data type is {}, but input '{}' is {}; all must be equal",
            name(output),
            input.name.escape_debug(),
            name(input.data_type)
        );
        return Err(node.fault_at("CONCAT-SHAPE", Port::Y, message));
    }
    match concat.in_place_index {
        Some(index) if usize::try_from(index).map_or(true, |index| index >= node.inputs().len()) => {
            let message = format!("in-place index {index}; there are {} inputs", node.inputs().len());
            Err(node.fault("CONCAT-SHAPE", message))
        }
        _ => Ok(()),
    }
}

fn joined_dim(node: &Node, concat: &Concat) -> Result<Vec<i64>, Malformed> {
    let fault = |message: String| node.fault("CONCAT-SHAPE", message);
    let first: &Tensor =
        node.inputs().next().ok_or_else(|| fault("has no input; at least one is required".to_owned()))?;
    let rank = first.dim.len();
    let axis = usize::try_from(concat.axis).ok().filter(|&axis| axis < rank);
    let axis =
        axis.ok_or_else(|| fault(format!("axis {} of dims {:?}; required 0 to rank - 1", concat.axis, first.dim)))?;
    let mut dim = first.dim.clone();
    for input in node.inputs().skip(1) {
        let fits = input.dim.len() == rank && (0..rank).all(|at| at == axis || input.dim[at] == first.dim[at]);
        if !fits {
            let name = input.name.escape_debug();
            let message = format!(
                "input '{name}' has dims {:?}, the first has {:?}; only axis {axis} may differ",
                input.dim, first.dim
            );
            return Err(fault(message));
        }
        dim[axis] = dim[axis].saturating_add(input.dim[axis]);
    }
    Ok(dim)
}

/// Y passes X through.
pub(super) fn infer_signal(node: &mut Node) -> Result<(), Malformed> {
    let (dim, stride) = (node.dim(Port::X)?.to_vec(), node.stride(Port::X)?.to_vec());
    node.complete(Port::Y, dim, &Layout::Given(stride));
    Ok(())
}

pub(super) fn check_signal(node: &Node) -> Result<(), Malformed> {
    let flag = node.dim(Port::FLAG)?;
    if flag.iter().any(|&extent| extent != 1) {
        return Err(node.fault_at("SIGNAL-SHAPE", Port::FLAG, format!("dims are {flag:?}; the flag is one value")));
    }
    match node.tensor(Port::Y) {
        Some(_) => node.require_dim("SIGNAL-SHAPE", Port::Y, node.dim(Port::X)?, "Y passes X through"),
        None => Ok(()),
    }
}
