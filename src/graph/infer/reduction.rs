//! Reductions and per-channel statistics (operations.md sections 5 and 6).

use super::layout::Layout;
use super::node::Node;
use crate::graph::Malformed;
use crate::graph::Port;

/// Without dims the result has those of X: whoever wants a reduction must say over what.
pub(super) fn infer(node: &mut Node) -> Result<(), Malformed> {
    let dim = node.dim(Port::X)?.to_vec();
    if node.lacks_dim(Port::Y) {
        node.note(Port::Y, "warning: a reduction without dims on its result reduces nothing");
    }
    node.complete(Port::Y, dim, &Layout::ChannelsLast);
    Ok(())
}

/// Every extent of Y is X's or 1, and something is reduced.
pub(super) fn check(node: &Node) -> Result<(), Malformed> {
    node.common_rank("RD-SHAPE", &[Port::X, Port::Y])?;
    let (x, y) = (node.dim(Port::X)?, node.dim(Port::Y)?);
    if let Some(axis) = (0..x.len()).find(|&axis| y[axis] != x[axis] && y[axis] != 1) {
        let message = format!("extent {} on axis {axis}; required {} (kept) or 1 (reduced)", y[axis], x[axis]);
        return Err(node.fault_at("RD-SHAPE", Port::Y, message));
    }
    if x == y {
        let message =
            format!("dims {y:?} equal those of X, so nothing is reduced; set an extent to 1 on a reduced axis");
        return Err(node.fault_at("A-26", Port::Y, message));
    }
    Ok(())
}

/// Both results are `[1, C, 1, …]`.
pub(super) fn infer_genstats(node: &mut Node) -> Result<(), Malformed> {
    let dim = channel_vector(node.dim(Port::X)?);
    for port in [Port::SUM, Port::SQ_SUM] {
        node.complete(port, dim.clone(), &Layout::ChannelsLast);
    }
    Ok(())
}

pub(super) fn check_genstats(node: &Node) -> Result<(), Malformed> {
    let x = node.dim(Port::X)?;
    if x.len() < 2 {
        return Err(node.fault_at(
            "GS-SHAPE",
            Port::X,
            format!("dims {x:?} have no channel axis; rank 2 is the least"),
        ));
    }
    let required = channel_vector(x);
    for port in [Port::SUM, Port::SQ_SUM] {
        node.require_dim("GS-SHAPE", port, &required, "1 everywhere but C, which is X's")?;
    }
    Ok(())
}

/// `[1, C, 1, …]` for the C of these dims.
pub(in crate::graph) fn channel_vector(dim: &[i64]) -> Vec<i64> {
    dim.iter().enumerate().map(|(axis, &extent)| if axis == 1 { extent } else { 1 }).collect()
}

#[cfg(test)]
mod tests {
    use crate::graph::samples::{half_graph, image, input, refusal, shape_of};
    use crate::graph::{Graph, ReductionMode, Tensor};

    fn reduced(x: &[i64], y: &[i64]) -> Graph {
        let mut graph = half_graph();
        let x = input(&mut graph, "x", x);
        let y = graph.reduction("sum", ReductionMode::Add, x, y);
        graph.set_output(y);
        graph
    }

    #[test]
    fn extents_of_one_mark_the_reduced_axes() {
        let finalized = reduced(&[2, 3, 4, 5], &[1, 3, 1, 1]).finalize().unwrap();
        assert_eq!(shape_of(&finalized, "sum::Y").1, [3, 1, 3, 3]);
        reduced(&[2, 1, 4], &[1, 1, 4]).finalize().unwrap();
    }

    #[test]
    fn something_must_be_reduced() {
        for (x, y) in [(&[2, 3][..], &[2, 3][..]), (&[1, 1], &[1, 1]), (&[2, 3], &[])] {
            let message = refusal(&reduced(x, y));
            assert!(message.contains("nothing is reduced") && message.ends_with("[A-26]"), "{message}");
        }
        let message = refusal(&reduced(&[2, 3], &[2, 2]));
        assert!(message.contains("extent 2 on axis 1; required 3 (kept) or 1 (reduced)"), "{message}");
        assert!(refusal(&reduced(&[2, 3], &[1])).contains("rank 1 with dims [1], but X has rank 2"));
    }

    #[test]
    fn statistics_are_per_channel() {
        let graph = |dim: &[i64], sum_dim: &[i64]| {
            let mut graph = half_graph();
            let x = image(&mut graph, "x", dim);
            let (sum, sq_sum) = graph.genstats("stats", x);
            *graph.tensor_mut(sum) = Tensor::new("sum").channels_last(sum_dim);
            graph.set_output(sq_sum);
            graph
        };
        graph(&[2, 3, 4, 5], &[1, 3, 1, 1]).finalize().unwrap();
        let message = refusal(&graph(&[2, 3, 4, 5], &[1, 4, 1, 1]));
        assert!(message.contains("port SUM: dims are [1, 4, 1, 1], required [1, 3, 1, 1]"), "{message}");
        assert!(refusal(&graph(&[2, 3, 4, 5], &[1, 3])).contains("required [1, 3, 1, 1]"));
        assert!(refusal(&graph(&[2], &[1])).contains("no channel axis"));
    }
}
