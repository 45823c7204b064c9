//! Pointwise operations: broadcasting (operations.md 4.1). BINARY_SELECT broadcasts as the others do: cuDNN 9.19 takes such
//! graphs, though the documents speak of modes with two inputs alone (PW-R6).

use super::advice;
use super::layout::Layout;
use super::node::Node;
use crate::graph::Malformed;
use crate::graph::{Pointwise, Port, Reads, channels_last_order, packed_strides};

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
    broadcast_of(node, &ports(node))
}

/// What holds of the ports that are `certain`, whatever the others are; of those the ranks count where they are known.
pub(super) fn check_apart(node: &Node, certain: &[Port]) -> Result<(), Malformed> {
    let slots = node.operation.inputs.iter().chain(&node.operation.outputs).map(|slot| slot.0);
    let known = |port: &Port| !node.lacks_dim(*port);
    node.common_rank("PW-BROADCAST", &slots.filter(known).collect::<Vec<_>>())?;
    broadcast_of(node, &certain.iter().copied().filter(known).collect::<Vec<_>>()).map(|_| ())
}

fn broadcast_of(node: &Node, ports: &[Port]) -> Result<Vec<i64>, Malformed> {
    let rank = node.common_rank("PW-BROADCAST", ports)?;
    // Each axis with the input that its extent is from.
    let mut common: Vec<(i64, Port)> = ports.first().map_or(Vec::new(), |&first| vec![(1, first); rank]);
    for &port in ports {
        for (axis, &extent) in node.dim(port)?.iter().enumerate() {
            let (found, from) = common[axis];
            if extent != 1 && found != 1 && found != extent {
                return Err(does_not_broadcast(node, axis, port, from)?);
            }
            if extent > found {
                common[axis] = (extent, port);
            }
        }
    }
    Ok(common.into_iter().map(|(extent, _)| extent).collect())
}

/// Two inputs whose extents on an axis differ, and neither is 1. Blamed is the one that is a vector along a wrong axis, else
/// the later.
fn does_not_broadcast(node: &Node, axis: usize, port: Port, other: Port) -> Result<Malformed, Malformed> {
    let advised =
        |one: Port, other: Port| Ok::<_, Malformed>(advice::moved_to_channels(node.dim(one)?, node.dim(other)?));
    let (port, other, meant) = match (advised(port, other)?, advised(other, port)?) {
        (None, Some(meant)) => (other, port, Some(meant)),
        (meant, _) => (port, other, meant),
    };
    let meant = meant.map_or(String::new(), |dim| {
        let strides = packed_strides(&dim, &channels_last_order(dim.len()));
        format!("; one value a channel has the dims {dim:?} and the strides {strides:?}")
    });
    let (dim, beside) = (node.dim(port)?, node.dim(other)?);
    let message = format!(
        "extent {} on axis {axis} does not broadcast with {} of {other}, {}: dims {dim:?} and {beside:?}{meant}",
        dim[axis],
        beside[axis],
        node.describe(other)
    );
    Ok(node.fault_at("PW-BROADCAST", port, message))
}

pub(super) fn check(node: &Node, pointwise: &Pointwise) -> Result<(), Malformed> {
    let ports = ports(node);
    node.common_rank("PW-BROADCAST", &[&ports[..], &[Port::OUT_0]].concat())?;
    let required = broadcast(node)?;
    node.require_dim("PW-BROADCAST", Port::OUT_0, &required, "the broadcast of the inputs")?;
    if pointwise.mode.reads() == Reads::Axis { check_axis(node, pointwise.axis, required.len()) } else { Ok(()) }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::samples::{half_graph, image, input, refusal, shape_of};
    use crate::graph::{Attributes, Graph, PointwiseMode, Tensor};

    fn graph_of(mode: PointwiseMode, dims: &[&[i64]]) -> Graph {
        let mut graph = half_graph();
        let inputs: Vec<_> =
            dims.iter().enumerate().map(|(at, dim)| input(&mut graph, &format!("x{at}"), dim)).collect();
        let y = graph.pointwise("op", mode, &inputs);
        graph.set_output(y);
        graph
    }

    #[test]
    fn dims_are_the_broadcast_and_strides_those_of_an_input_like_it() {
        let mut graph = half_graph();
        let bias = input(&mut graph, "bias", &[1, 3, 1, 1]);
        let x = image(&mut graph, "x", &[2, 3, 4, 5]);
        let y = graph.pointwise("op", PointwiseMode::Add, &[bias, x]);
        graph.set_output(y);
        assert_eq!(shape_of(&graph.finalize().unwrap(), "op::OUT_0"), (&[2, 3, 4, 5][..], &[60, 1, 15, 3][..]));
    }

    #[test]
    fn mutual_broadcast_gives_strides_to_virtual_results_only() {
        let mut graph = graph_of(PointwiseMode::Add, &[&[2, 3, 1], &[2, 1, 4]]);
        let message = refusal(&graph);
        assert!(
            message.contains("no input has the dims [2, 3, 4]") && message.ends_with("[SHAPE_DEDUCTION_FAILED]"),
            "{message}"
        );
        let sum = graph.operations()[0].result().unwrap();
        graph.tensor_mut(sum).is_virtual = true;
        let y = graph.pointwise("exp", PointwiseMode::Exp, &[sum]);
        graph.set_output(y);
        assert_eq!(shape_of(&graph.finalize().unwrap(), "op::OUT_0"), (&[2, 3, 4][..], &[12, 4, 1][..]));
    }

    #[test]
    fn inputs_must_broadcast_to_the_output() {
        let message = refusal(&graph_of(PointwiseMode::Add, &[&[2, 3], &[2, 4]]));
        let text = "tensor 'x1': port IN_1: extent 4 on axis 1 does not broadcast with 3 of IN_0, 'x0': dims [2, 4] and [2, 3] [";
        assert!(message.contains(text), "{message}");
        let message = refusal(&graph_of(PointwiseMode::Add, &[&[2, 64, 5, 6], &[1, 1, 1, 64]]));
        let text = "64 on axis 3 does not broadcast with 6 of IN_0, 'x0': dims [1, 1, 1, 64] and [2, 64, 5, 6]; \
                    one value a channel has the dims [1, 64, 1, 1] and the strides [64, 1, 64, 64] [";
        assert!(message.contains("'x1': port IN_1") && message.contains(text), "{message}");
        let message = refusal(&graph_of(PointwiseMode::Add, &[&[1, 1, 1, 64], &[2, 64, 5, 6]]));
        assert!(message.contains("'x0': port IN_0") && message.contains("of IN_1, 'x1'"), "{message}");
        let message = refusal(&graph_of(PointwiseMode::Add, &[&[2, 64, 5, 6], &[64]]));
        assert!(
            message
                .contains("all must have the same rank; write it as [1, 64, 1, 1] with the strides [64, 1, 64, 64] ["),
            "{message}"
        );
        let message = refusal(&graph_of(PointwiseMode::Add, &[&[64], &[2, 5, 64]]));
        assert!(
            message.contains("all must have the same rank; write IN_0 as [1, 1, 64] with the strides [64, 64, 1] ["),
            "{message}"
        );
        let message = refusal(&graph_of(PointwiseMode::Add, &[&[2, 3], &[3]]));
        assert!(message.contains("port IN_1: rank 1 with dims [3], but IN_0 has rank 2"), "{message}");
        let mut graph = graph_of(PointwiseMode::Abs, &[&[1, 3]]);
        let y = graph.operations()[0].result().unwrap();
        *graph.tensor_mut(y) = Tensor::new("y").row_major([2, 3]);
        let message = refusal(&graph);
        assert!(
            message.contains("port OUT_0: dims are [2, 3], required [1, 3]: the broadcast of the inputs"),
            "{message}"
        );
    }

    #[test]
    fn every_mode_takes_its_number_of_inputs() {
        for &mode in PointwiseMode::ALL {
            let dims = vec![&[2, 3][..]; mode.inputs() + 1];
            let fits = |count: usize| {
                let mut graph = graph_of(mode, &dims[..count]);
                if let Attributes::Pointwise(pointwise) = &mut graph.last_operation().attributes {
                    pointwise.axis = Some(0);
                }
                graph.finalize().is_ok()
            };
            assert!(fits(mode.inputs()), "{mode}");
            assert!(!fits(mode.inputs() - 1), "{mode}");
            assert!(!fits(mode.inputs() + 1), "{mode}");
        }
    }

    #[test]
    fn inputs_that_no_mode_has_are_refused_and_not_dropped() {
        let full: &[i64] = &[2, 3];
        let message = refusal(&graph_of(PointwiseMode::Add, &[full; 4]));
        assert!(message.contains("has ports IN_0, IN_1, IN_2, IN_3; it takes IN_0, IN_1 once each"), "{message}");
        let message = refusal(&graph_of(PointwiseMode::BinarySelect, &[full; 5]));
        assert!(message.contains("has ports IN_0, IN_1, IN_2, IN_3, IN_3; it takes IN_0, IN_1, IN_2"), "{message}");
    }

    #[test]
    fn a_selection_broadcasts() {
        let full: &[i64] = &[2, 3];
        let select = |dims: [&[i64]; 3]| graph_of(PointwiseMode::BinarySelect, &dims);
        for dims in [[full, full, full], [full, &[1, 3], full], [&[1, 1], full, full], [full, full, &[2, 1]]] {
            assert_eq!(shape_of(&select(dims).finalize().unwrap(), "op::OUT_0").0, full);
        }
        let message = refusal(&select([full, full, &[3, 3]]));
        assert!(message.contains("does not broadcast"), "{message}");
    }

    #[test]
    fn an_index_has_an_axis_of_the_tensor() {
        for (axis, fits) in [(None, false), (Some(-1), false), (Some(0), true), (Some(1), true), (Some(2), false)] {
            let mut graph = graph_of(PointwiseMode::GenIndex, &[&[2, 3]]);
            graph.last_operation().attributes =
                Attributes::Pointwise(Pointwise { axis, ..Pointwise::new(PointwiseMode::GenIndex) });
            assert_eq!(graph.finalize().is_ok(), fits, "{axis:?}");
        }
    }
}
