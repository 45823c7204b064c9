//! What a backward pass is given of the forward pass: O and statistics that belong to its Q, K and V.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::graph::{
    AttentionBackward, Attributes, Composite, DataType, FinalizedGraph, Graph, KeptAttributes, Operation, Other, Port,
    Scalar, Tensor, TensorHandle, TensorId,
};
use crate::host_tensor::{HostTensor, HostTensors};

use super::execute;
use super::supported::supports;

/// Multiply-adds of a forward pass that is computed for what it gives; beyond them inputs stay as they are.
const MOST_WORK: i64 = 1 << 32;

/// Puts what the forward pass gives for the inputs of each backward pass in the place of its O and statistics, where these are inputs whose elements have
/// addresses of their own.
///
/// # Errors
/// As [`execute`].
pub(super) fn complete(graph: &FinalizedGraph, inputs: &mut HostTensors) -> Result<()> {
    for operation in graph.operations() {
        if let Attributes::Composite(Composite::AttentionBackward(_)) = &operation.attributes
            && work(graph, operation) <= MOST_WORK
            && let Ok(forward) = forward(graph, operation, inputs).finalize()
            && supports(&forward).is_ok()
        {
            let k = |uid| operation.input(Port::K).filter(|_| uid == uid_of_keys(graph, operation));
            let id_of = |id: TensorId| {
                let uid = forward.tensor(id).uid;
                k(uid).or_else(|| graph.tensor_by_uid(uid))
            };
            let given = forward.inputs().filter_map(|id| Some((id, seen_as(&forward, id, inputs.get(&id_of(id)?)?))));
            let given: HostTensors = given.collect();
            let results = execute(&forward, &given)?;
            let known = results.into_iter().filter_map(|(id, tensor)| Some((id_of(id)?, tensor)));
            let known: BTreeMap<TensorId, HostTensor> = known.filter(|(id, _)| inputs.contains_key(id)).collect();
            inputs.extend(known);
        }
    }
    Ok(())
}

fn work(graph: &FinalizedGraph, operation: &Operation) -> i64 {
    let dim = |port| operation.input(port).map_or(&[][..], |id| &graph.tensor(id).dim);
    let keys = dim(Port::K).get(2).copied().unwrap_or(0);
    dim(Port::Q).iter().product::<i64>().saturating_mul(keys)
}

/// A tensor with the extents that a graph has it with: K stands in it as it is multiplied.
fn seen_as(graph: &FinalizedGraph, id: TensorId, tensor: &HostTensor) -> HostTensor {
    let (mut seen, wanted) = (tensor.clone(), graph.tensor(id));
    if seen.dim != wanted.dim || seen.stride != wanted.stride {
        (seen.dim, seen.stride) = (wanted.dim.clone(), wanted.stride.clone());
    }
    seen
}

/// The forward pass of a backward pass, whose bounds are what the execution makes them.
fn forward(graph: &FinalizedGraph, operation: &Operation, inputs: &HostTensors) -> Graph {
    const INPUTS: [Port; 19] = [
        Port::Q,
        Port::K,
        Port::V,
        Port::ATTN_SCALE,
        Port::SOFT_CAP,
        Port::ATTENTION_BIAS,
        Port::ALIBI_SLOPES,
        Port::SEQ_LEN_Q,
        Port::SEQ_LEN_KV,
        Port::SINK_TOKEN,
        Port::SEED,
        Port::OFFSET,
        Port::DROPOUT_MASK,
        Port::DROPOUT_SCALE,
        Port::DESCALE_Q,
        Port::DESCALE_K,
        Port::DESCALE_V,
        Port::DESCALE_S,
        Port::SCALE_S,
    ];
    let mut forward = Graph::new().compute_data_type(DataType::Float);
    let mut offsets: BTreeMap<TensorId, TensorHandle> = BTreeMap::new();
    let mut tensor = |port: Port| {
        let given = graph.tensor(operation.input(port)?);
        let of = given
            .ragged_offset
            .map(|id| *offsets.entry(id).or_insert_with(|| forward.tensor(graph.tensor(id).to_tensor())));
        let uid = if port == Port::K { uid_of_keys(graph, operation) } else { given.uid };
        Some((port, forward.tensor(Tensor { ragged_offset: of, uid: Some(uid), ..given.to_tensor() })))
    };
    let mut taken: Vec<_> = INPUTS.into_iter().filter_map(&mut tensor).collect();
    let outputs = [Port::O, Port::STATS].into_iter().filter_map(&mut tensor).collect();
    let attributes = match &operation.attributes {
        Attributes::Composite(Composite::AttentionBackward(backward)) => {
            let number = |port| number(graph, inputs, operation.input(port)?);
            let mask = backward.mask.moved(number(Port::LEFT_BOUND), number(Port::RIGHT_BOUND));
            let dropped = backward
                .dropout
                .map(|dropout| ("dropout_probability".to_owned(), (1.0 - f64::from(dropout.kept.keep)).into()));
            let others = Composite::from(AttentionBackward { mask, dropout: None, ..*backward }).attributes();
            others.into_iter().chain(dropped).collect()
        }
        _ => KeptAttributes::new(),
    };
    // O was divided by what it is multiplied by
    if let Some(descale) = operation.input(Port::DESCALE_O).and_then(|id| number(graph, inputs, id)) {
        let scale = Tensor::scalar("scale", DataType::Float, Scalar::Float(1.0 / descale));
        taken.push((Port::SCALE_O, forward.tensor(Tensor { dim: vec![1; 4], stride: vec![1; 4], ..scale })));
    }
    let is_fp8 = operation.input(Port::Q).is_some_and(|id| graph.tensor(id).data_type.is_fp8());
    let tag = if is_fp8 { "SDPA_FP8_FWD" } else { "SDPA" };
    let attributes = Attributes::Other(Other { tag, attributes });
    let name = operation.name.clone();
    forward.operation(Operation { name, attributes, compute_data_type: None, inputs: taken, outputs });
    forward
}

/// The uid of K in the forward pass, where it stands as it is multiplied: one of its own, if the backward pass has it at other ports, too.
fn uid_of_keys(graph: &FinalizedGraph, operation: &Operation) -> i64 {
    let Some(k) = operation.input(Port::K) else { return 0 };
    let uses = operation.inputs.iter().chain(&operation.outputs).filter(|slot| slot.1 == k).count();
    let largest = graph.tensors().map(|tensor| tensor.uid).max().unwrap_or(0);
    if uses > 1 { largest.saturating_add(1) } else { graph.tensor(k).uid }
}

/// A host scalar of an execution.
fn number(graph: &FinalizedGraph, inputs: &HostTensors, id: TensorId) -> Option<f64> {
    let given = graph.tensor(id).value.or_else(|| inputs.get(&id)?.get(0));
    given.map(Scalar::as_f64)
}
