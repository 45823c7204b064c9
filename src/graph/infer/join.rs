//! Concatenation and signals (operations.md section 8).

use super::layout::Layout;
use super::node::Node;
use crate::graph::Malformed;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::samples::{half_graph, input, other, refusal, shape_of};
    use crate::graph::{Attributes, DataType, Graph, Signal, SignalMode};

    fn joined(axis: i64, dims: &[&[i64]]) -> Graph {
        let mut graph = half_graph();
        let inputs: Vec<_> =
            dims.iter().enumerate().map(|(at, dim)| input(&mut graph, &format!("x{at}"), dim)).collect();
        let y = graph.concatenate("cat", axis, &inputs);
        graph.set_output(y);
        graph
    }

    #[test]
    fn extents_add_along_the_axis() {
        let finalized = joined(1, &[&[2, 3, 4], &[2, 5, 4], &[2, 1, 4]]).finalize().unwrap();
        assert_eq!(shape_of(&finalized, "cat::Y"), (&[2, 9, 4][..], &[36, 4, 1][..]));
    }

    #[test]
    fn inputs_fit_each_other() {
        for (axis, dims, expected) in [
            (
                1,
                &[&[2, 3][..], &[3, 3]][..],
                "input 'x1' has dims [3, 3], the first has [2, 3]; only axis 1 may differ",
            ),
            (1, &[&[2, 3], &[2, 3, 1]], "input 'x1' has dims [2, 3, 1]"),
            (2, &[&[2, 3]], "axis 2 of dims [2, 3]; required 0 to rank - 1"),
            (-1, &[&[2, 3]], "axis -1 of dims [2, 3]"),
            (0, &[], "has no input"),
            (0, &[&[i64::MAX / 16], &[i64::MAX / 16]], "63 bits"),
        ] {
            let message = refusal(&joined(axis, dims));
            assert!(message.contains(expected), "{message}");
        }
    }

    #[test]
    fn types_and_places_fit() {
        let mut graph = joined(0, &[&[2, 3], &[2, 3]]);
        graph.tensors[1].data_type = Some(DataType::Int8);
        assert!(refusal(&graph).contains("data type is HALF, but input 'x1' is INT8; all must be equal"));
        for (index, fits) in [(-1, false), (1, true), (2, false)] {
            let mut graph = joined(0, &[&[2, 3], &[2, 3]]);
            graph.last_operation().attributes = Attributes::Concat(Concat { axis: 0, in_place_index: Some(index) });
            assert_eq!(graph.finalize().is_ok(), fits, "{index}");
        }
    }

    #[test]
    fn a_signal_passes_its_input_through() {
        let graph = |flag: &[i64]| {
            let mut graph = half_graph();
            let inputs = [("X", input(&mut graph, "x", &[2, 3])), ("FLAG", input(&mut graph, "flag", flag))];
            other(&mut graph, Attributes::Signal(Signal { mode: SignalMode::Wait, value: 1 }), &inputs, &["Y"]);
            graph
        };
        let finalized = graph(&[1]).finalize().unwrap();
        assert_eq!(shape_of(&finalized, "Y"), (&[2, 3][..], &[3, 1][..]));
        assert!(refusal(&graph(&[2])).contains("dims are [2]; the flag is one value"));
    }
}
