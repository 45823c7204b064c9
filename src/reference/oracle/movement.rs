//! Concatenations and signals by their definition (operations.md section 8).

use super::{DenseF64, operand_at};
use crate::error::Result;
use crate::graph::{FinalizedGraph, OperationId, Port, Signal, SignalMode};
use crate::reference::movement::{is_met, unmet};

/// The inputs joined along an axis: every element of every input put where it belongs.
pub(in crate::reference) fn join(axis: usize, inputs: &[&DenseF64]) -> Vec<f64> {
    let along: usize = inputs.iter().map(|input| input.dim[axis] as usize).sum();
    let mut values = vec![0.0; inputs.iter().map(|input| input.values.len()).sum()];
    let mut before = 0;
    for input in inputs {
        let extent = input.dim[axis] as usize;
        let inner = input.dim[axis + 1..].iter().product::<i64>() as usize;
        for (position, &value) in input.values.iter().enumerate() {
            let (outer, at, rest) = (position / inner / extent, position / inner % extent, position % inner);
            values[(outer * along + before + at) * inner + rest] = value;
        }
        before += extent;
    }
    values
}

/// The last two axes swapped.
pub(in crate::reference) fn transposed(dim: &[i64], values: &[f64]) -> Vec<f64> {
    let &[.., rows, columns] = dim else { return values.to_vec() };
    let (rows, columns) = (rows as usize, columns as usize);
    let of_matrix = |matrix: &[f64]| -> Vec<f64> {
        (0..rows * columns).map(|at| matrix[at % rows * columns + at / rows]).collect()
    };
    values.chunks((rows * columns).max(1)).flat_map(of_matrix).collect()
}

/// Y, where the signal has one, and the flag that it sets.
pub(super) fn signal(
    graph: &FinalizedGraph,
    id: OperationId,
    signal: &Signal,
    operands: &[&DenseF64],
) -> Result<Vec<Vec<f64>>> {
    let operation = graph.operation(id);
    let flag = operand_at(operation, operands, Port::FLAG).and_then(|flag| flag.values.first().copied());
    if let (SignalMode::Wait, Some(flag)) = (signal.mode, flag)
        && !is_met(signal, flag as i64)
    {
        return Err(unmet(graph, id, signal, flag as i64));
    }
    let passed = operation.output(Port::Y).and(operand_at(operation, operands, Port::X)).map(|x| x.values.clone());
    let raised = (signal.mode == SignalMode::Set).then(|| vec![signal.value as f64]);
    Ok(passed.into_iter().chain(raised).collect())
}
