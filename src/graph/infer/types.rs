//! Data types from the context (FEJ-20).

use crate::graph::defects::Defects;
use crate::graph::draft::Draft;
use crate::graph::{Attributes, DataType, OperationId, Port, TensorId};

/// Fills in the data types of an operation's tensors and its compute type. Defects are `ATTRIBUTE_NOT_SET`, naming the tensor
/// or operation and the key of the context that could have told, once for each key.
pub(super) fn complete(draft: &mut Draft, id: OperationId, defects: &mut Defects) {
    complete_compute_type(draft, id, defects);
    let operation = &draft.operations[id.index()];
    let source = copies_type(&operation.attributes).then(|| operation.input(Port::X)).flatten();
    let slots = operation.inputs.iter().chain(&operation.outputs);
    let tensors: Vec<(TensorId, Option<DataType>)> =
        slots.map(|&(port, tensor)| (tensor, own_type(&operation.attributes, port))).collect();
    for (tensor, own) in tensors {
        draft.tensors[tensor.index()].data_type = draft.tensor(tensor).data_type.or(own);
        complete_tensor(draft, id, tensor, source, defects);
        if let Some(offset) = draft.ragged_offset(tensor) {
            complete_tensor(draft, id, offset, None, defects);
        }
    }
}

/// The type that an operation's definition gives the tensor at a port, whatever the context says.
fn own_type(attributes: &Attributes, port: Port) -> Option<DataType> {
    match attributes {
        Attributes::Composite(composite) => composite.definition().default_type(port),
        // AT-J8
        Attributes::Other(other) if other.tag.starts_with("SDPA") => {
            let is_statistic = [Port::STATS, Port::MAX, Port::SUM_EXP].contains(&port);
            let of_mask = || (port == Port::BLOCK_MASK).then_some(DataType::UInt8);
            is_statistic.then_some(DataType::Float).or_else(of_mask)
        }
        _ => None,
    }
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
    defects: &mut Defects,
) {
    let found = draft.tensor(tensor);
    if found.data_type.is_some() {
        return;
    }
    let (key, default) = match found.is_virtual {
        true => ("intermediate_data_type", draft.default_types.intermediate),
        false => ("io_data_type", draft.default_types.io),
    };
    let data_type = default.or_else(|| source.and_then(|source| draft.tensor(source).data_type));
    if data_type.is_none() {
        let message = format!("has no data type, and the graph has no {key}");
        defects.add_lacking(key, draft.fault("ATTRIBUTE_NOT_SET", id, Some(tensor), message));
        if matches!(draft.operations[id.index()].attributes, Attributes::Other(_) | Attributes::Composite(_)) {
            // Their rules compare types.
            defects.suspect(tensor);
        }
    }
    draft.tensors[tensor.index()].data_type = data_type;
}

fn complete_compute_type(draft: &mut Draft, id: OperationId, defects: &mut Defects) {
    let default = draft.default_types.compute;
    let operation = &mut draft.operations[id.index()];
    let default = match &operation.attributes {
        // Resampling computes in FLOAT unless told otherwise, whatever the context says (support-surfaces.md 12).
        Attributes::ResampleForward(_) | Attributes::ResampleBackward(_) => Some(DataType::Float),
        Attributes::Concat(_)
        | Attributes::Signal(_)
        | Attributes::View
        | Attributes::Transpose
        | Attributes::AllGather(_)
        | Attributes::Bernoulli(_)
        | Attributes::PageGather
        | Attributes::BlockBits => return,
        _ => default,
    };
    operation.compute_data_type = operation.compute_data_type.or(default);
    if operation.compute_data_type.is_none() && needs_compute_type(&operation.attributes) {
        let message = "has no compute data type, and the graph has no compute_data_type";
        defects.add_lacking("compute_data_type", draft.fault("ATTRIBUTE_NOT_SET", id, None, message));
    }
}

/// Operations that calculate; files give no compute type for data movement, random numbers and attention.
fn needs_compute_type(attributes: &Attributes) -> bool {
    match attributes {
        Attributes::Other(other) => ["NORM", "BN", "MATMUL_FP8"].iter().any(|part| other.tag.contains(part)),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use crate::graph::samples::{half_graph, input, matmul_bias_relu, other, refusal};
    use crate::graph::{
        Attributes, DataType, Fraction, Graph, Other, PaddingMode, PointwiseMode, Resample, ResampleMode, Tensor,
    };

    #[test]
    fn missing_types_name_the_key_of_the_context() {
        let mut graph = matmul_bias_relu();
        graph.io_data_type = None;
        let message = refusal(&graph);
        assert!(message.contains("tensor 'A': has no data type, and the graph has no io_data_type"), "{message}");
        let mut graph = matmul_bias_relu();
        graph.intermediate_data_type = None;
        let message = refusal(&graph);
        assert!(
            message.contains("tensor 'mm::C': has no data type, and the graph has no intermediate_data_type"),
            "{message}"
        );
        let mut graph = matmul_bias_relu();
        graph.compute_data_type = None;
        let message = refusal(&graph);
        assert!(message.contains("'mm' (MATMUL, node 0): has no compute data type"), "{message}");
        assert!(message.ends_with("[ATTRIBUTE_NOT_SET]"), "{message}");
    }

    #[test]
    fn resampling_computes_in_float_whatever_the_context_says() {
        let mut graph = half_graph().compute_data_type(DataType::Half);
        let x = input(&mut graph, "x", &[1, 2, 4, 4]);
        let attributes = Resample {
            mode: ResampleMode::Maxpool,
            padding_mode: PaddingMode::NegInfPad,
            window: vec![Fraction::whole(2); 2],
            stride: vec![Fraction::whole(2); 2],
            pre_padding: vec![Fraction::whole(0); 2],
            post_padding: vec![Fraction::whole(0); 2],
            generate_index: None,
            alpha: 1.0,
            beta: 0.0,
        };
        let y = graph.resample("pool", attributes, x);
        graph.set_output(y);
        let finalized = graph.finalize().unwrap();
        assert_eq!(finalized.compute_type(finalized.operation_ids().next().unwrap()), DataType::Float);
    }

    #[test]
    fn moved_data_keeps_its_type_without_a_context() {
        let mut graph = Graph::new();
        let x = graph.tensor(Tensor::new("x").data_type(DataType::Int8).row_major([2, 3]));
        let attributes = [("permutation".to_owned(), serde_json::json!([1, 0]))].into();
        other(&mut graph, Attributes::Other(Other { tag: "TRANSPOSE", attributes }), &[("X", x)], &["Y"]);
        let finalized = graph.finalize().unwrap();
        assert!(finalized.tensors().all(|tensor| tensor.data_type == DataType::Int8));
        let y = graph.operations()[0].result().unwrap();
        graph.tensor_mut(y).data_type = Some(DataType::Half);
        assert!(refusal(&graph).contains("data type is HALF, but X is INT8; TRANSPOSE keeps it"));
    }

    #[test]
    fn stated_types_win() {
        let mut graph = half_graph();
        let x = graph.tensor(Tensor::new("x").data_type(DataType::Int8).row_major([2, 3]));
        let y = graph.pointwise("cast", PointwiseMode::Identity, &[x]);
        graph.set_output(y).data_type = Some(DataType::Int32);
        graph.last_operation().compute_data_type = Some(DataType::Int32);
        let finalized = graph.finalize().unwrap();
        let types: Vec<DataType> = finalized.tensors().map(|tensor| tensor.data_type).collect();
        assert_eq!(types, [DataType::Int8, DataType::Int32]);
        assert_eq!(finalized.compute_type(finalized.operation_ids().next().unwrap()), DataType::Int32);
    }
}
