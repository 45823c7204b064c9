//! Data types from the context (FEJ-20).

use crate::error::Malformed;
use crate::graph::draft::Draft;
use crate::graph::{Attributes, DataType, OperationId, Port, TensorId};

/// Fills in the data types of an operation's tensors and its compute type.
///
/// # Errors
/// `ATTRIBUTE_NOT_SET`, naming the tensor or operation and the key of the context that could have told.
pub(super) fn complete(draft: &mut Draft, id: OperationId) -> Result<(), Malformed> {
    complete_compute_type(draft, id)?;
    let operation = &draft.operations[id.index()];
    let source = copies_type(&operation.attributes).then(|| operation.input(Port::X)).flatten();
    let tensors: Vec<TensorId> = operation.input_tensors().chain(operation.output_tensors()).collect();
    for tensor in tensors {
        complete_tensor(draft, id, tensor, source)?;
        if let Some(offset) = draft.tensor(tensor).ragged_offset {
            complete_tensor(draft, id, offset, None)?;
        }
    }
    Ok(())
}

/// Data movement, whose result falls back to the type of what is moved.
fn copies_type(attributes: &Attributes) -> bool {
    matches!(attributes, Attributes::Other(other) if matches!(other.tag, "SLICE" | "RESHAPE" | "TRANSPOSE"))
}

fn complete_tensor(
    draft: &mut Draft,
    id: OperationId,
    tensor: TensorId,
    source: Option<TensorId>,
) -> Result<(), Malformed> {
    let found = draft.tensor(tensor);
    if found.data_type.is_some() {
        return Ok(());
    }
    let (key, default) = match found.is_virtual {
        true => ("intermediate_data_type", draft.default_types.intermediate),
        false => ("io_data_type", draft.default_types.io),
    };
    let data_type = default.or_else(|| source.and_then(|source| draft.tensor(source).data_type));
    if data_type.is_none() {
        let message = format!("has no data type, and the graph has no {key}");
        return Err(draft.fault("ATTRIBUTE_NOT_SET", id, Some(tensor), message));
    }
    draft.tensors[tensor.index()].data_type = data_type;
    Ok(())
}

fn complete_compute_type(draft: &mut Draft, id: OperationId) -> Result<(), Malformed> {
    let default = draft.default_types.compute;
    let operation = &mut draft.operations[id.index()];
    let default = match &operation.attributes {
        // Resampling computes in FLOAT unless told otherwise, whatever the context says (support-surfaces.md 12).
        Attributes::ResampleForward(_) | Attributes::ResampleBackward(_) => Some(DataType::Float),
        Attributes::Concat(_) | Attributes::Signal(_) => return Ok(()),
        _ => default,
    };
    operation.compute_data_type = operation.compute_data_type.or(default);
    if operation.compute_data_type.is_none() && needs_compute_type(&operation.attributes) {
        let message = "has no compute data type, and the graph has no compute_data_type";
        return Err(draft.fault("ATTRIBUTE_NOT_SET", id, None, message));
    }
    Ok(())
}

/// Operations that calculate; files give no compute type for data movement, random numbers and attention.
fn needs_compute_type(attributes: &Attributes) -> bool {
    match attributes {
        Attributes::Other(other) => ["NORM", "BN", "MATMUL_FP8"].iter().any(|part| other.tag.contains(part)),
        _ => true,
    }
}
