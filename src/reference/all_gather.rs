//! What the GPUs of a node send each other, on the CPU: it is the GPU of rank 0, and the messages of the others are in its tensor already
//! (N-112).

use super::oracle::{DenseF64, operand_at};
use super::values::Values;
use crate::error::{Error, Result};
use crate::graph::{AllGather, FinalizedGraph, OperationId, Port, Scalar, TensorId};
use crate::host_tensor::HostTensor;

/// Y of the CPU engine.
pub(super) fn gathered(
    graph: &FinalizedGraph,
    id: OperationId,
    gather: AllGather,
    values: &Values,
) -> Result<Vec<(TensorId, HostTensor)>> {
    let operation = graph.operation(id);
    let (Some(x), Some(y)) = (operation.input(Port::X), operation.output(Port::Y)) else { return Ok(Vec::new()) };
    let x: Vec<f32> = values.get(x)?.to_dense()?;
    let others = others(graph, id, (gather, x.len()), values)?;
    let all: Vec<f32> = x.into_iter().chain(others.into_iter().map(|value| value as f32)).collect();
    Ok(vec![(y, values.poisoned(y)?.with_dense(&all)?)])
}

/// Y by its definition, of operands in port order.
pub(super) fn exact(
    graph: &FinalizedGraph,
    id: OperationId,
    gather: AllGather,
    operands: &[&DenseF64],
    values: &Values,
) -> Result<Vec<Vec<f64>>> {
    let Some(x) = operand_at(graph.operation(id), operands, Port::X) else { return Ok(Vec::new()) };
    let others = others(graph, id, (gather, x.values.len()), values)?;
    Ok(vec![x.values.iter().copied().chain(others).collect()])
}

/// The values of so many channels that the GPUs behind the first have sent: words of its tensor as they lie in memory, whatever its strides.
fn others(
    graph: &FinalizedGraph,
    id: OperationId,
    (gather, channels): (AllGather, usize),
    values: &Values,
) -> Result<Vec<f64>> {
    let operation = graph.operation(id);
    let Some(own) = operation.input(Port::PEER_STATS[0]) else { return Ok(Vec::new()) };
    let own = values.get(own)?;
    let word = |at: i64| own.get(at as usize).map(Scalar::as_f64);
    let ranks = operation.result().map_or(1, |y| graph.tensor(y).dim[0]);
    let mut sent = Vec::new();
    for (rank, channel) in (1..ranks).flat_map(|rank| (0..channels as i64).map(move |channel| (rank, channel))) {
        let at = gather.word(rank, [channel, channels as i64]);
        let (Some(value), Some(flag)) = (word(at), word(at + 1)) else {
            return Err(fault(
                graph,
                id,
                "its extents hold fewer words than the messages of all GPUs, 4 a channel from each; give them to evaluate it here",
            ));
        };
        // only the word of zeros is no flag
        if flag == 0.0 && flag.is_sign_positive() {
            let message = format!("GPU {rank} has not sent its value of channel {channel}, and nobody else runs");
            return Err(fault(graph, id, message));
        }
        sent.push(value);
    }
    Ok(sent)
}

fn fault(graph: &FinalizedGraph, id: OperationId, message: impl Into<String>) -> Error {
    let own = graph.operation(id).input(Port::PEER_STATS[0]);
    let place = own.map_or_else(String::new, |id| graph.describe_tensor(id));
    Error::input(format!("tensor {place}"), message)
}
