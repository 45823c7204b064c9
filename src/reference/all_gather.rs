//! What the GPUs of a node send each other, on the CPU: it is the GPU of rank 0, and the messages of the others are in its tensor already
//! (N-112).

use super::oracle::{DenseF64, operand_at};
use super::values::Values;
use crate::error::{Error, Result};
use crate::graph::{AllGather, FinalizedGraph, OperationId, Port, TensorId};
use crate::host_tensor::HostTensor;

/// Y of the CPU engine.
pub(super) fn gathered(
    graph: &FinalizedGraph,
    id: OperationId,
    gather: AllGather,
    values: &Values,
) -> Result<Vec<(TensorId, HostTensor)>> {
    let operation = graph.operation(id);
    let [x, own] = [Port::X, Port::PEER_STATS[0]].map(|port| operation.input(port));
    let (Some(x), Some(own), Some(y)) = (x, own, operation.output(Port::Y)) else { return Ok(Vec::new()) };
    let [x, own] = [values.get(x)?.to_dense::<f32>()?, values.get(own)?.to_dense::<f32>()?];
    let messages = |word: usize| own.get(word).copied().map(f64::from);
    let others = others(graph, id, gather, x.len(), messages)?;
    let all: Vec<f32> = x.into_iter().chain(others.into_iter().map(|value| value as f32)).collect();
    Ok(vec![(y, values.poisoned(y)?.with_dense(&all)?)])
}

/// Y by its definition, of operands in port order.
pub(super) fn exact(
    graph: &FinalizedGraph,
    id: OperationId,
    gather: AllGather,
    operands: &[&DenseF64],
) -> Result<Vec<Vec<f64>>> {
    let operation = graph.operation(id);
    let [x, own] = [Port::X, Port::PEER_STATS[0]].map(|port| operand_at(operation, operands, port));
    let (Some(x), Some(own)) = (x, own) else { return Ok(Vec::new()) };
    let others = others(graph, id, gather, x.values.len(), |word| own.values.get(word).copied())?;
    Ok(vec![x.values.iter().copied().chain(others).collect()])
}

/// The values that the GPUs behind the first have sent, by the words of its tensor.
fn others(
    graph: &FinalizedGraph,
    id: OperationId,
    gather: AllGather,
    channels: usize,
    words: impl Fn(usize) -> Option<f64>,
) -> Result<Vec<f64>> {
    let operation = graph.operation(id);
    let ranks = operation.result().map_or(1, |y| graph.tensor(y).dim[0]);
    let mut values = Vec::new();
    for (rank, channel) in (1..ranks).flat_map(|rank| (0..channels as i64).map(move |channel| (rank, channel))) {
        let word = gather.word(rank, [channel, channels as i64]) as usize;
        let (Some(value), Some(flag)) = (words(word), words(word + 1)) else {
            return Err(fault(graph, id, "it has no room for the messages of all GPUs"));
        };
        // only the word of zeros is no flag
        if flag == 0.0 && flag.is_sign_positive() {
            let message = format!("GPU {rank} has not sent its value of channel {channel}, and nobody else runs");
            return Err(fault(graph, id, message));
        }
        values.push(value);
    }
    Ok(values)
}

fn fault(graph: &FinalizedGraph, id: OperationId, message: impl Into<String>) -> Error {
    let own = graph.operation(id).input(Port::PEER_STATS[0]);
    let place = own.map_or_else(String::new, |id| graph.describe_tensor(id));
    Error::input(format!("tensor {place}"), message)
}
