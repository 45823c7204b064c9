//! Reshapes, slices, random numbers, block scales, rotary embeddings, experts (frontend-json.md section 8; carried,
//! not executed).

use serde_json::Value;

use super::layout::Layout;
use super::node::Node;
use crate::error::Malformed;
use crate::graph::{Other, Port};

pub(super) fn infer(node: &mut Node, other: &Other) -> Result<(), Malformed> {
    match other.tag {
        "RESHAPE" => infer_reshape(node, other),
        "TRANSPOSE" => {
            let (dim, stride) = transposed(node, other)?;
            node.complete(Port::Y, dim, &Layout::Given(stride));
            Ok(())
        }
        "SLICE" => {
            let (dim, stride) = sliced(node, other)?;
            node.complete(Port::Y, dim, &Layout::Given(stride));
            Ok(())
        }
        "RNG" => infer_random(node, other),
        "BLOCK_SCALE_QUANTIZE" => infer_quantize(node, other),
        "ROPE" => complete_like(node, Port("INPUT"), Port("OUTPUT")),
        "ROPE_BWD" => complete_like(node, Port::DY, Port::DX),
        "MOE_GROUPED_MATMUL" => infer_experts(node, other),
        _ => complete_like(node, Port::X, Port::Y),
    }
}

/// Dims of moved tensors follow from the attributes, and moving changes no type.
pub(super) fn check(node: &Node, other: &Other) -> Result<(), Malformed> {
    match other.tag {
        "RESHAPE" => check_reshape(node)?,
        "TRANSPOSE" => node.require_dim("TRANSPOSE-SHAPE", Port::Y, &transposed(node, other)?.0, "X's, permuted")?,
        "SLICE" => {
            let reason = "ceil((limit - start) / step) on every axis";
            node.require_dim("SLICE-SHAPE", Port::Y, &sliced(node, other)?.0, reason)?;
        }
        _ => return Ok(()),
    }
    check_moved_type(node, other)
}

fn complete_like(node: &mut Node, source: Port, result: Port) -> Result<(), Malformed> {
    let (dim, stride) = (node.dim(source)?.to_vec(), node.stride(source)?.to_vec());
    node.complete(result, dim, &Layout::Given(stride));
    Ok(())
}

/// Attribute as a list of integers; empty where it is absent or null.
fn integers(node: &Node, other: &Other, key: &str) -> Result<Vec<i64>, Malformed> {
    let values = match other.attributes.get(key) {
        None | Some(Value::Null) => Some(Vec::new()),
        Some(Value::Array(values)) => values.iter().map(Value::as_i64).collect(),
        Some(_) => None,
    };
    values.ok_or_else(|| node.fault("ATTRIBUTE_NOT_SET", format!("attribute {key} is not a list of integers")))
}

fn infer_reshape(node: &mut Node, other: &Other) -> Result<(), Malformed> {
    let (dim, stride) = (integers(node, other, "dim")?, integers(node, other, "stride")?);
    if dim.is_empty() && node.lacks_dim(Port::Y) {
        let message = "dims must be given, on the node or on its result";
        return Err(node.fault_at("SHAPE_DEDUCTION_FAILED", Port::Y, message));
    }
    let layout = if stride.is_empty() { Layout::ChannelsLast } else { Layout::Given(stride) };
    node.complete(Port::Y, dim, &layout);
    Ok(())
}

fn check_reshape(node: &Node) -> Result<(), Malformed> {
    let (x, y) = (node.dim(Port::X)?, node.dim(Port::Y)?);
    let [before, after] = [x, y].map(|dim| dim.iter().product::<i64>());
    if before == after {
        return Ok(());
    }
    let message = format!("dims {y:?} hold {after} elements, but X {x:?} holds {before}");
    Err(node.fault_at("RESHAPE-SHAPE", Port::Y, message))
}

/// Dims and strides of X in the order of `permutation`.
fn transposed(node: &Node, other: &Other) -> Result<(Vec<i64>, Vec<i64>), Malformed> {
    let (dim, stride) = (node.dim(Port::X)?, node.stride(Port::X)?);
    let permutation = integers(node, other, "permutation")?;
    let mut sorted = permutation.clone();
    sorted.sort_unstable();
    if !sorted.iter().copied().eq(0..dim.len() as i64) {
        let message = format!("permutation {permutation:?} of {} axes; each axis must occur once", dim.len());
        return Err(node.fault("TRANSPOSE-SHAPE", message));
    }
    Ok(permutation.iter().map(|&axis| (dim[axis as usize], stride[axis as usize])).unzip())
}

/// Dims `⌈(limit − start) / step⌉` and strides of X times the step.
fn sliced(node: &Node, other: &Other) -> Result<(Vec<i64>, Vec<i64>), Malformed> {
    let (dim, stride) = (node.dim(Port::X)?, node.stride(Port::X)?);
    let steps = integers(node, other, "slice_strides")?;
    let ranges = slice_ranges(other).unwrap_or_default();
    if ranges.len() != dim.len() || !(steps.is_empty() || steps.len() == dim.len()) {
        let message = format!("slices and slice_strides need one entry for each of the {} axes of X", dim.len());
        return Err(node.fault("SLICE-SHAPE", message));
    }
    let mut result = (Vec::new(), Vec::new());
    for (axis, &(start, limit)) in ranges.iter().enumerate() {
        let step = steps.get(axis).copied().unwrap_or(1);
        if start < 0 || limit <= start || limit > dim[axis] || step < 1 {
            let message = format!(
                "slice {start} to {limit} by {step} on axis {axis} of extent {}; required 0 <= start < limit <= extent, step >= 1",
                dim[axis]
            );
            return Err(node.fault("SLICE-SHAPE", message));
        }
        result.0.push(1 + (limit - start - 1) / step);
        result.1.push(stride[axis].saturating_mul(step));
    }
    Ok(result)
}

/// `slices` as pairs of start and limit.
fn slice_ranges(other: &Other) -> Option<Vec<(i64, i64)>> {
    let pair = |value: &Value| match value.as_array()?.as_slice() {
        [start, limit] => Some((start.as_i64()?, limit.as_i64()?)),
        _ => None,
    };
    other.attributes.get("slices")?.as_array()?.iter().map(pair).collect()
}

/// SLICE, TRANSPOSE and logical RESHAPE keep the data type.
fn check_moved_type(node: &Node, other: &Other) -> Result<(), Malformed> {
    let is_view =
        other.tag == "RESHAPE" && other.attributes.get("reshape_mode").and_then(Value::as_str) != Some("LOGICAL");
    let [x, y] = [Port::X, Port::Y].map(|port| node.tensor(port).and_then(|tensor| tensor.data_type));
    match (x, y) {
        (Some(x), Some(y)) if x != y && !is_view => {
            Err(node.fault_at("DATA-TYPE", Port::Y, format!("data type is {y}, but X is {x}; {} keeps it", other.tag)))
        }
        _ => Ok(()),
    }
}

fn infer_random(node: &mut Node, other: &Other) -> Result<(), Malformed> {
    let (dim, stride) = (integers(node, other, "dim")?, integers(node, other, "stride")?);
    if !dim.is_empty() && !stride.is_empty() {
        node.complete(Port::Y, dim, &Layout::Given(stride));
    }
    Ok(())
}

/// Y is shaped like X; one scale for each block of `block_size` along `axis`, the last by default.
fn infer_quantize(node: &mut Node, other: &Other) -> Result<(), Malformed> {
    complete_like(node, Port::X, Port::Y)?;
    let mut dim = node.dim(Port::X)?.to_vec();
    let axis = other.attributes.get("axis").and_then(Value::as_i64).unwrap_or(dim.len() as i64 - 1);
    let block = other.attributes.get("block_size").and_then(Value::as_i64).unwrap_or(0);
    let extent = usize::try_from(axis).ok().and_then(|axis| dim.get_mut(axis)).filter(|_| block > 0);
    match extent {
        Some(extent) => *extent = (*extent / block).max(1),
        None => {
            return Err(node.fault("BLOCK-SCALE-SHAPE", format!("block_size {block} on axis {axis} of dims {dim:?}")));
        }
    }
    let order = Layout::OrderOf(node.stride(Port::X)?.to_vec());
    node.complete(Port("scale"), dim, &order);
    Ok(())
}

/// `[1, tokens, N]`; the tokens are those gathered, where they are.
fn infer_experts(node: &mut Node, other: &Other) -> Result<(), Malformed> {
    let gathers = other.attributes.get("mode").and_then(Value::as_str) == Some("GATHER");
    let tokens = node.dim(Port(if gathers { "TokenIndex" } else { "Token" }))?.get(1).copied();
    let columns = node.dim(Port("Weight"))?.get(2).copied();
    let (Some(tokens), Some(columns)) = (tokens, columns) else {
        return Err(node.fault("MOE-SHAPE", "Token and Weight need rank 3"));
    };
    node.complete(Port("Output"), vec![1, tokens, columns], &Layout::RowMajor);
    Ok(())
}
