//! Concatenations and signals of the CPU engine (operations.md section 8): values are moved as they are.

use super::values::Values;
use crate::error::{Error, Result};
use crate::graph::{Concat, DataType, FinalizedGraph, OperationId, Port, Scalar, Signal, SignalMode, TensorId};
use crate::host_tensor::{HostTensor, Lane, reserve};

/// Results of an operation with their ids.
type Moved = Vec<(TensorId, HostTensor)>;

/// Whether a flag has the value that a signal waits for (O-11: equal).
pub(super) fn is_met(signal: &Signal, flag: i64) -> bool {
    flag == signal.value
}

/// Why a signal would wait forever: on the CPU, nobody else sets the flag.
pub(super) fn unmet(graph: &FinalizedGraph, id: OperationId, signal: &Signal, flag: i64) -> Error {
    let operation = graph.operation(id);
    let place = operation.input(Port::FLAG).map_or_else(String::new, |id| graph.describe_tensor(id));
    let waiting = graph.describe_operation(id);
    let message = format!("the flag is {flag}, but operation {waiting} waits for {}; nobody sets it", signal.value);
    Error::input(format!("tensor {place}"), message)
}

/// The inputs joined along the axis.
pub(super) fn concat(graph: &FinalizedGraph, id: OperationId, concat: &Concat, values: &Values) -> Result<Moved> {
    let operation = graph.operation(id);
    let inputs: Vec<&HostTensor> = operation.input_tensors().map(|id| values.get(id)).collect::<Result<_>>()?;
    let Some(result) = operation.result() else { return Ok(Vec::new()) };
    Ok(vec![(result, moved(concat.axis as usize, &inputs, values.poisoned(result)?)?)])
}

/// The elements of X in row-major order, under the extents of Y.
pub(super) fn view(graph: &FinalizedGraph, id: OperationId, values: &Values) -> Result<Moved> {
    let operation = graph.operation(id);
    let (Some(x), Some(y)) = (operation.input(Port::X), operation.output(Port::Y)) else { return Ok(Vec::new()) };
    Ok(vec![(y, moved(0, &[values.get(x)?], values.poisoned(y)?)?)])
}

/// The last two axes of X swapped.
pub(super) fn transpose(graph: &FinalizedGraph, id: OperationId, values: &Values) -> Result<Moved> {
    let operation = graph.operation(id);
    let (Some(x), Some(y)) = (operation.input(Port::X), operation.output(Port::Y)) else { return Ok(Vec::new()) };
    // seen with its strides swapped, X is in the order of Y
    let mut turned = values.get(x)?.clone();
    let rank = turned.dim.len();
    turned.dim.swap(rank - 2, rank - 1);
    turned.stride.swap(rank - 2, rank - 1);
    Ok(vec![(y, moved(0, &[&turned], values.poisoned(y)?)?)])
}

/// Y is X; a flag that is set gets its value.
pub(super) fn signal(graph: &FinalizedGraph, id: OperationId, signal: &Signal, values: &Values) -> Result<Moved> {
    let operation = graph.operation(id);
    if let (SignalMode::Wait, Some(flag)) = (signal.mode, operation.input(Port::FLAG)) {
        let flag = values.get(flag)?.to_dense::<i64>()?.first().copied().unwrap_or_default();
        if !is_met(signal, flag) {
            return Err(unmet(graph, id, signal, flag));
        }
    }
    let mut results = Vec::new();
    if let (Some(x), Some(y)) = (operation.input(Port::X), operation.output(Port::Y)) {
        results.push((y, moved(0, &[values.get(x)?], values.poisoned(y)?)?));
    }
    if let Some(flag) = operation.set_flag() {
        let mut raised = values.get(flag)?.clone();
        raised.set(0, Scalar::Integer(signal.value));
        results.push((flag, raised));
    }
    Ok(results)
}

/// Inputs of one type joined along an axis, in numbers that hold every value of the type.
fn moved(axis: usize, inputs: &[&HostTensor], storage: HostTensor) -> Result<HostTensor> {
    match inputs.first().map(|input| input.data_type) {
        Some(DataType::Double) => joined::<f64>(axis, inputs, storage),
        Some(DataType::Int64) => joined::<i64>(axis, inputs, storage),
        Some(DataType::Int32 | DataType::Int8 | DataType::UInt8 | DataType::Boolean) => {
            joined::<i32>(axis, inputs, storage)
        }
        _ => joined::<f32>(axis, inputs, storage),
    }
}

/// Row-major, each index of the axes before `axis` has one stretch of every input.
fn joined<T: Lane>(axis: usize, inputs: &[&HostTensor], storage: HostTensor) -> Result<HostTensor> {
    let dense: Vec<Vec<T>> = inputs.iter().map(|input| input.to_dense()).collect::<Result<_>>()?;
    let mut values = reserve(storage.elements())?;
    let outer: usize = storage.extents()[..axis].iter().product();
    for at in 0..outer {
        for input in &dense {
            let stretch = input.len() / outer;
            values.extend_from_slice(&input[at * stretch..][..stretch]);
        }
    }
    storage.with_dense(&values)
}
