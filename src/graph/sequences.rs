//! Sequences of an attention, each of a length that a tensor tells.

use super::{Attributes, Composite, FinalizedGraph, Operation, Port, TensorId};

/// Ports of keys and values, and of their gradients.
const OF_KEYS: [Port; 4] = [Port::K, Port::V, Port::DK, Port::DV];

impl FinalizedGraph {
    /// The lengths of the sequences that a tensor of an attention has rows of: those of queries, or of keys. `None` where every
    /// sequence is as long as the tensor.
    pub(crate) fn sequence_lengths(&self, id: TensorId) -> Option<TensorId> {
        let masked = self.operations().find(|operation| has_lengths(operation))?;
        let is_of_keys = self.operations().any(|operation| is_of_keys(operation, id));
        masked.input(if is_of_keys { Port::SEQ_LEN_KV } else { Port::SEQ_LEN_Q })
    }

    /// Whether a tensor tells where the sequences of a ragged one begin.
    pub(crate) fn are_offsets(&self, id: TensorId) -> bool {
        self.tensors().any(|tensor| tensor.ragged_offset == Some(id))
    }
}

fn has_lengths(operation: &Operation) -> bool {
    match &operation.attributes {
        Attributes::Composite(Composite::ScoreMask(_) | Composite::AttentionBackward(_)) => {
            operation.input(Port::SEQ_LEN_Q).is_some()
        }
        _ => false,
    }
}

/// Whether an operation has a tensor as keys or values, or as a gradient of theirs: of a forward pass the second operand of a product.
fn is_of_keys(operation: &Operation, id: TensorId) -> bool {
    match &operation.attributes {
        Attributes::Matmul(_) => operation.input(Port::B) == Some(id),
        Attributes::Composite(Composite::AttentionBackward(_)) => {
            OF_KEYS.iter().any(|&port| [operation.input(port), operation.output(port)].contains(&Some(id)))
        }
        _ => false,
    }
}
