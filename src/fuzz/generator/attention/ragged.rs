//! Ragged sequences: which tensors of an attention have them. Where they lie, and the gaps between them, random inputs say
//! (`reference/ragged.rs`).

use super::super::super::choices::Choices;
use crate::graph::{DataType, Graph, Tensor, TensorHandle};

/// Part of the graphs with lengths that have ragged tensors, of those the ones whose tensors have offsets of their own, and part of the tensors
/// that are ragged where not all are; percent.
const RAGGED: usize = 60;
const OWN: usize = 50;
const SOME: usize = 50;

/// Offsets for some of the tensors whose rows are those of sequences, of queries and of keys. Those that lie alike may share them.
pub(super) fn lay(graph: &mut Graph, choices: &mut Choices<'_>, [of_queries, of_keys]: [&[TensorHandle]; 2]) {
    if !choices.chance(RAGGED) {
        return;
    }
    let data_type = choices.of(&[DataType::Int64, DataType::Int32]);
    let (are_all, are_own) = (choices.chance(50), choices.chance(OWN));
    for (side, ids) in [("queries", of_queries), ("keys", of_keys)] {
        let mut known: Vec<(Tensor, TensorHandle)> = Vec::new();
        for &id in ids {
            if !are_all && !choices.chance(SOME) {
                continue;
            }
            let tensor = graph.tensors[id.index()].clone();
            let lies_alike =
                |other: &&(Tensor, TensorHandle)| (&other.0.dim, &other.0.stride) == (&tensor.dim, &tensor.stride);
            let shared = known.iter().find(lies_alike).map(|known| known.1).filter(|_| !are_own);
            let batches = tensor.dim.first().copied().unwrap_or(1);
            let offsets = Tensor::new(format!("offsets of {side}")).row_major([batches + 1, 1, 1, 1]);
            let offsets = shared.unwrap_or_else(|| graph.tensor(offsets.data_type(data_type)));
            known.push((tensor, offsets));
            graph.tensor_mut(id).ragged_offset = Some(offsets);
        }
    }
}
