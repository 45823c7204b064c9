//! Which resamplings and concatenations are lowered.

use crate::graph::{
    Attributes, DataType, FinalTensor, FinalizedGraph, Operation, OperationId, PaddingMode, Port, Resample,
    ResampleMode, TensorId,
};
use crate::kernel::Window;

/// Most tensors that one graph joins: each is a parameter of a kernel.
const MAX_PARTS: usize = 128;

/// Whether a resampling is computed: parameters that have a meaning, an image in memory, FLOAT arithmetic.
///
/// # Errors
/// Why not.
pub(super) fn resample_is_taken(
    graph: &FinalizedGraph,
    operation: &Operation,
    resample: &Resample,
) -> Result<(), String> {
    let mode = resample.mode;
    if resample.padding_mode != padding_of(mode) {
        return Err(format!("{} with padding mode {}", mode.name(), resample.padding_mode));
    }
    if resample.alpha != 1.0 || resample.beta != 0.0 {
        return Err(format!("alpha = {}, beta = {}", resample.alpha, resample.beta));
    }
    let compute = operation.compute_data_type.unwrap_or(DataType::Float);
    if compute != DataType::Float {
        return Err(format!("compute type {compute}"));
    }
    tensors_are_taken(graph, operation)?;
    let has_window = |port| Window::of(graph, operation, port).is_some();
    match operation.outputs.iter().find(|slot| !has_window(slot.0)) {
        Some((port, _)) => Err(format!("port {port} of {} with these parameters and inputs", mode.name())),
        None => Ok(()),
    }
}

/// The padding mode that a mode means.
fn padding_of(mode: ResampleMode) -> PaddingMode {
    match mode {
        ResampleMode::Bilinear => PaddingMode::EdgeValPad,
        ResampleMode::Maxpool => PaddingMode::NegInfPad,
        _ => PaddingMode::ZeroPad,
    }
}

/// Inputs in memory that are not written, and no packed booleans.
fn tensors_are_taken(graph: &FinalizedGraph, operation: &Operation) -> Result<(), String> {
    let in_memory = |id: &TensorId| graph.producer(*id).is_none() && !graph.tensor(*id).is_pass_by_value;
    let is_boolean = |id: &TensorId| graph.tensor(*id).data_type == DataType::Boolean;
    let mut tensors = operation.input_tensors().chain(operation.output_tensors());
    if let Some(id) = tensors.find(is_boolean) {
        return Err(format!("tensor {} is BOOLEAN", graph.describe_tensor(id)));
    }
    match operation.input_tensors().find(|id| !in_memory(id)) {
        Some(id) => Err(format!("tensor {} is no input in device memory", graph.describe_tensor(id))),
        None => Ok(()),
    }
}

/// Whether concatenations are computed: of tensors in memory, reached through signals and other concatenations.
///
/// # Errors
/// Why not, naming the operation.
pub(super) fn concats_are_taken(graph: &FinalizedGraph) -> Result<(), String> {
    let in_memory = |tensor: &FinalTensor| (!tensor.is_pass_by_value).then_some(1);
    let mut parts: Vec<Option<usize>> = graph.tensors().map(in_memory).collect();
    for id in graph.operation_ids() {
        let operation = graph.operation(id);
        let joined = match (&operation.attributes, operation.input(Port::X), operation.result()) {
            (Attributes::Concat(_), ..) => Some(joined_parts(graph, id, &parts)?),
            (Attributes::Signal(_), Some(x), Some(y)) => {
                let is_copy = graph.tensor(x).data_type == graph.tensor(y).data_type;
                parts[x.index()].filter(|_| is_copy)
            }
            _ => None,
        };
        for output in operation.output_tensors() {
            parts[output.index()] = joined;
        }
    }
    Ok(())
}

/// Number of tensors in memory that a concatenation joins; `parts` has that of each tensor, none for computed values.
fn joined_parts(graph: &FinalizedGraph, id: OperationId, parts: &[Option<usize>]) -> Result<usize, String> {
    let operation = graph.operation(id);
    let refuse = |reason: String| Err(format!("{}: {reason}", graph.describe_operation(id)));
    let mut count = 0;
    for input in operation.input_tensors() {
        let name = || graph.describe_tensor(input);
        match parts[input.index()] {
            None => return refuse(format!("tensor {} is no tensor in device memory", name())),
            Some(more) => count += more,
        }
        if operation.result().is_some_and(|y| graph.tensor(y).data_type != graph.tensor(input).data_type) {
            return refuse(format!("tensor {} has another type than the result", name()));
        }
    }
    if count > MAX_PARTS {
        return refuse(format!("it joins {count} tensors, at most {MAX_PARTS} are"));
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Fraction, Graph, PointwiseMode, Tensor};

    fn pooling() -> Resample {
        let whole = |value| vec![Fraction::whole(value); 2];
        Resample {
            mode: ResampleMode::Maxpool,
            padding_mode: PaddingMode::NegInfPad,
            window: whole(2),
            stride: whole(2),
            pre_padding: whole(0),
            post_padding: whole(0),
            generate_index: None,
            alpha: 1.0,
            beta: 0.0,
        }
    }

    /// Why a pooling of an image, or of its negative, is refused.
    fn refusal(resample: Resample, computed: bool) -> Option<String> {
        let mut graph = Graph::new()
            .io_data_type(DataType::Float)
            .intermediate_data_type(DataType::Float)
            .compute_data_type(DataType::Float);
        let mut x = graph.tensor(Tensor::new("x").channels_last([2, 8, 6, 6]));
        if computed {
            x = graph.pointwise("neg", PointwiseMode::Neg, &[x]);
        }
        let y = graph.tensor(Tensor { is_virtual: false, ..Tensor::new("y") });
        graph.operation(Operation {
            name: "pool".to_owned(),
            attributes: Attributes::ResampleForward(resample.clone()),
            compute_data_type: None,
            inputs: vec![(Port::X, x)],
            outputs: vec![(Port::Y, y)],
        });
        let graph = graph.finalize().expect("well formed");
        let operation = graph.operations().last().expect("a pooling");
        resample_is_taken(&graph, operation, &resample).err()
    }

    #[test]
    fn resamplings_are_refused_with_a_reason() {
        assert_eq!(refusal(pooling(), false), None);
        for (resample, computed, expected) in [
            (Resample { padding_mode: PaddingMode::ZeroPad, ..pooling() }, false, "MAXPOOL with padding mode ZERO_PAD"),
            (Resample { alpha: 0.5, ..pooling() }, false, "alpha = 0.5, beta = 0"),
            (Resample { window: vec![Fraction { numerator: 3, denominator: 2 }; 2], ..pooling() }, false, "port Y of"),
            (pooling(), true, "is no input in device memory"),
        ] {
            let found = refusal(resample, computed).unwrap_or_default();
            assert!(found.contains(expected), "{found}");
        }
    }

    /// Why a concatenation of tensors of one row each is refused.
    fn joined(count: usize, computed: bool) -> Option<String> {
        let mut graph = Graph::new()
            .io_data_type(DataType::Half)
            .intermediate_data_type(DataType::Half)
            .compute_data_type(DataType::Float);
        let row = graph.tensor(Tensor::new("row").row_major([1, 1, 8]));
        let row = if computed { graph.pointwise("neg", PointwiseMode::Neg, &[row]) } else { row };
        let half = graph.concatenate("half", 1, &vec![row; count / 2]);
        let rest = vec![row; count - count / 2 - 1];
        let all = graph.concatenate("all", 1, &[vec![half, row], rest].concat());
        graph.set_output(all);
        concats_are_taken(&graph.finalize().expect("well formed")).err()
    }

    #[test]
    fn concatenations_have_a_bounded_number_of_parts_in_memory() {
        assert_eq!(joined(MAX_PARTS, false), None);
        let refused = joined(MAX_PARTS + 1, false).unwrap_or_default();
        assert_eq!(refused, "'all' (CONCATENATE): it joins 129 tensors, at most 128 are");
        let refused = joined(4, true).unwrap_or_default();
        assert!(refused.contains("'neg::OUT_0'") && refused.contains("is no tensor in device memory"), "{refused}");
    }
}
