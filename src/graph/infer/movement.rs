//! Reshapes, slices, random numbers, block scales, rotary embeddings, experts (frontend-json.md section 8; carried,
//! not executed).

use serde_json::Value;

use super::layout::Layout;
use super::node::Node;
use crate::graph::Malformed;
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

/// The result has as many elements as X.
pub(super) fn check_reshape(node: &Node) -> Result<(), Malformed> {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::graph::samples::{half_graph, input, other, refusal, shape_of};
    use crate::graph::{Attributes, Graph, Tensor};

    fn graph_of(
        tag: &'static str,
        attributes: Value,
        inputs: &[(&'static str, &[i64])],
        outputs: &[&'static str],
    ) -> Graph {
        let mut graph = half_graph();
        let inputs: Vec<_> = inputs.iter().map(|&(port, dim)| (port, input(&mut graph, port, dim))).collect();
        let attributes = attributes.as_object().cloned().unwrap_or_default().into_iter().collect();
        other(&mut graph, Attributes::Other(Other { tag, attributes }), &inputs, outputs);
        graph
    }

    fn shape(graph: &Graph, name: &str) -> (Vec<i64>, Vec<i64>) {
        let finalized = graph.finalize().unwrap();
        let (dim, stride) = shape_of(&finalized, name);
        (dim.to_vec(), stride.to_vec())
    }

    const X: &[(&str, &[i64])] = &[("X", &[2, 3, 8])];

    #[test]
    fn reshapes() {
        let given = graph_of("RESHAPE", json!({"dim": [6, 8], "stride": [1, 6]}), X, &["Y"]);
        assert_eq!(shape(&given, "Y"), (vec![6, 8], vec![1, 6]));
        let packed = graph_of("RESHAPE", json!({"dim": [2, 4, 6], "stride": null}), X, &["Y"]);
        assert_eq!(shape(&packed, "Y"), (vec![2, 4, 6], vec![24, 1, 4]));
        let mut on_result = graph_of("RESHAPE", json!({"dim": []}), X, &["Y"]);
        assert!(
            refusal(&on_result).contains("dims must be given, on the node or on its result [SHAPE_DEDUCTION_FAILED]")
        );
        on_result.tensors[1] = Tensor::new("Y").row_major([48]);
        assert_eq!(shape(&on_result, "Y").0, [48]);
        let message = refusal(&graph_of("RESHAPE", json!({"dim": [7, 7]}), X, &["Y"]));
        assert!(message.contains("dims [7, 7] hold 49 elements, but X [2, 3, 8] holds 48"), "{message}");
        assert!(refusal(&graph_of("RESHAPE", json!({"dim": "x"}), X, &["Y"])).contains("attribute dim is not a list"));
    }

    #[test]
    fn transposes() {
        let graph = graph_of("TRANSPOSE", json!({"permutation": [2, 0, 1]}), X, &["Y"]);
        assert_eq!(shape(&graph, "Y"), (vec![8, 2, 3], vec![1, 24, 8]));
        for bad in [json!([0, 1]), json!([0, 1, 1]), json!([0, 1, 3]), json!([0, 1, -1]), json!(null)] {
            let message = refusal(&graph_of("TRANSPOSE", json!({"permutation": bad}), X, &["Y"]));
            assert!(message.contains("of 3 axes; each axis must occur once"), "{message}");
        }
    }

    #[test]
    fn slices() {
        let attributes = json!({"slices": [[0, 2], [1, 3], [1, 8]], "slice_strides": [1, 1, 3]});
        assert_eq!(shape(&graph_of("SLICE", attributes, X, &["Y"]), "Y"), (vec![2, 2, 3], vec![24, 8, 3]));
        let plain = json!({"slices": [[0, 2], [1, 3], [1, 8]]});
        assert_eq!(shape(&graph_of("SLICE", plain, X, &["Y"]), "Y"), (vec![2, 2, 7], vec![24, 8, 1]));
        for (bad, expected) in [
            (json!({"slices": [[0, 2], [1, 3]]}), "one entry for each of the 3 axes"),
            (json!({"slices": [[0, 2], [1, 3], [1, 9]]}), "slice 1 to 9 by 1 on axis 2 of extent 8"),
            (json!({"slices": [[0, 2], [3, 3], [1, 8]]}), "slice 3 to 3 by 1 on axis 1"),
            (json!({"slices": [[-1, 2], [1, 3], [1, 8]]}), "slice -1 to 2"),
            (json!({"slices": [[0, 2], [1, 3], [1, 8]], "slice_strides": [1, 1, 0]}), "by 0 on axis 2"),
        ] {
            let message = refusal(&graph_of("SLICE", bad, X, &["Y"]));
            assert!(message.contains(expected), "{message}");
        }
    }

    #[test]
    fn random_numbers() {
        let graph = graph_of("RNG", json!({"dim": [2, 3], "stride": [3, 1]}), &[("Seed", &[1, 1])], &["Y"]);
        assert_eq!(shape(&graph, "Y"), (vec![2, 3], vec![3, 1]));
        let graph = graph_of("RNG", json!({}), &[("Seed", &[1, 1])], &["Y"]);
        assert!(refusal(&graph).contains("'Y': dims must be given"));
    }

    #[test]
    fn block_scales() {
        let last = graph_of("BLOCK_SCALE_QUANTIZE", json!({"block_size": 4, "axis": null}), X, &["Y", "scale"]);
        assert_eq!(shape(&last, "Y"), (vec![2, 3, 8], vec![24, 8, 1]));
        assert_eq!(shape(&last, "scale"), (vec![2, 3, 2], vec![6, 2, 1]));
        let first = graph_of("BLOCK_SCALE_QUANTIZE", json!({"block_size": 2, "axis": 0}), X, &["Y", "scale"]);
        assert_eq!(shape(&first, "scale").0, [1, 3, 8]);
        for bad in [
            json!({"block_size": 0}),
            json!({}),
            json!({"block_size": 4, "axis": 3}),
            json!({"block_size": 4, "axis": -1}),
        ] {
            assert!(
                refusal(&graph_of("BLOCK_SCALE_QUANTIZE", bad, X, &["Y", "scale"])).contains("[BLOCK-SCALE-SHAPE]")
            );
        }
        let back = graph_of(
            "BLOCK_SCALE_DEQUANTIZE",
            json!({"block_size": [4]}),
            &[("X", &[2, 8]), ("scale", &[2, 2])],
            &["Y"],
        );
        assert_eq!(shape(&back, "Y").0, [2, 8]);
    }

    #[test]
    fn rotary_embeddings() {
        let graph = graph_of("ROPE", json!({}), &[("INPUT", &[2, 8]), ("FREQS", &[1, 8])], &["OUTPUT"]);
        assert_eq!(shape(&graph, "OUTPUT").0, [2, 8]);
        let graph = graph_of("ROPE_BWD", json!({}), &[("DY", &[2, 8]), ("FREQS", &[1, 8])], &["DX"]);
        assert_eq!(shape(&graph, "DX").0, [2, 8]);
    }

    #[test]
    fn experts() {
        let inputs: &[(&str, &[i64])] = &[
            ("Token", &[1, 10, 4]),
            ("Weight", &[3, 4, 6]),
            ("FirstTokenOffset", &[3, 1, 1]),
            ("TokenIndex", &[1, 20, 1]),
        ];
        let plain = graph_of("MOE_GROUPED_MATMUL", json!({"mode": "NONE"}), inputs, &["Output"]);
        assert_eq!(shape(&plain, "Output"), (vec![1, 10, 6], vec![60, 6, 1]));
        let gathered = graph_of("MOE_GROUPED_MATMUL", json!({"mode": "GATHER"}), inputs, &["Output"]);
        assert_eq!(shape(&gathered, "Output").0, [1, 20, 6]);
        let flat = graph_of("MOE_GROUPED_MATMUL", json!({}), &[("Token", &[1]), ("Weight", &[3])], &["Output"]);
        assert!(refusal(&flat).contains("need rank 3"));
    }
}
