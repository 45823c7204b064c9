//! Dropout of probabilities.

use super::super::super::choices::Choices;
use super::Shape;
use crate::graph::{Bernoulli, DataType, Dropout, Graph, MaskedDropout, Port, Scalar, Tensor, TensorHandle};

/// Part of the graphs that drop probabilities, of those the ones that store what is kept, and part of the others that have a mask; percent.
const DROPPED: usize = 25;
const STORED: usize = 30;
const MASKED: usize = 15;

/// What a graph drops, what says so, and whether the mask is a result.
pub(super) struct Dropping {
    pub(super) dropout: Dropout,
    pub(super) inputs: Vec<(Port, TensorHandle)>,
    pub(super) is_stored: bool,
}

/// What a graph drops, if it does.
pub(super) fn dropping(graph: &mut Graph, choices: &mut Choices<'_>) -> Option<Dropping> {
    if !choices.chance(DROPPED) {
        return None;
    }
    let keep = choices.of(&[0.9, 0.5, 1.0, 0.1, 0.999]);
    let data_type = choices.of(&[DataType::Int64, DataType::Int32]);
    let is_by_value = choices.chance(50);
    let state = Dropout::STATE.map(|port| {
        let number = match is_by_value {
            true => Tensor::scalar(port.0, data_type, Scalar::Integer(choices.of(&[7, 0, -1, 1 << 30]))),
            false => Tensor::new(port.0).row_major([1; 4]).data_type(data_type),
        };
        (port, graph.tensor(number))
    });
    let factor = Tensor::scalar("factor", DataType::Float, Scalar::Float(f64::from(1.0 / keep)));
    let inputs = state.into_iter().chain([(Port::DROPOUT_SCALE, graph.tensor(factor))]).collect();
    let dropout = Dropout { kept: Bernoulli { keep } };
    Some(Dropping { dropout, inputs, is_stored: choices.chance(STORED) })
}

/// What dropout leaves of probabilities, of a type: by numbers that are drawn, or by a mask.
pub(super) fn dropped(
    graph: &mut Graph,
    choices: &mut Choices<'_>,
    p: TensorHandle,
    (data_type, shape): (DataType, Shape),
) -> TensorHandle {
    let Some(dropping) = dropping(graph, choices) else {
        return if choices.chance(MASKED) { masked(graph, choices, p, (data_type, shape)) } else { p };
    };
    graph.tensor_mut(p).data_type = Some(DataType::Float);
    let inputs: Vec<_> = [(Port::X, p)].into_iter().chain(dropping.inputs).collect();
    let ports = if dropping.is_stored { &[Port::Y, Port::RNG_DUMP][..] } else { &[Port::Y] };
    let results = graph.composite("dropout", dropping.dropout, &inputs, ports);
    for &mask in &results[1..] {
        graph.set_output(mask).data_type = Some(DataType::Float);
    }
    graph.tensor_mut(results[0]).data_type = Some(data_type);
    results[0]
}

/// A mask of probabilities, and a factor of what it leaves.
fn mask_of(graph: &mut Graph, choices: &mut Choices<'_>, (data_type, shape): (DataType, Shape)) -> (TensorHandle, f64) {
    let mask = Tensor::new("drop mask").row_major(shape.shared_scores(choices));
    let mask = graph.tensor(mask.data_type(choices.of(&[data_type, data_type, DataType::Float])));
    (mask, choices.of(&[1.25, 1.0, 10.0]))
}

/// What a backward pass is told of a mask, if it has one: factors by value, in memory, or none.
pub(super) fn masking(
    graph: &mut Graph,
    choices: &mut Choices<'_>,
    of: (DataType, Shape),
) -> Vec<(Port, TensorHandle)> {
    if !choices.chance(MASKED) {
        return Vec::new();
    }
    let (mask, factor) = mask_of(graph, choices, of);
    let is_by_value = choices.chance(50);
    let mut number = |port: Port, value| match is_by_value {
        true => (port, graph.tensor(Tensor::scalar(port.0, DataType::Float, Scalar::Float(value)))),
        false => (port, graph.tensor(Tensor::new(port.0).row_major([1; 4]).data_type(DataType::Float))),
    };
    let factors = [number(Port::DROPOUT_SCALE, factor), number(Port::DROPOUT_SCALE_INV, 1.0 / factor)];
    let count = choices.of(&[2, 2, 1, 0]);
    [(Port::DROPOUT_MASK, mask)].into_iter().chain(factors.into_iter().take(count)).collect()
}

/// Probabilities times a mask and a factor.
fn masked(
    graph: &mut Graph,
    choices: &mut Choices<'_>,
    p: TensorHandle,
    (data_type, shape): (DataType, Shape),
) -> TensorHandle {
    let (mask, factor) = mask_of(graph, choices, (data_type, shape));
    let factor = graph.tensor(Tensor::scalar("factor", DataType::Float, Scalar::Float(factor)));
    graph.tensor_mut(p).data_type = Some(DataType::Float);
    let inputs = [(Port::X, p), (Port::DROPOUT_MASK, mask), (Port::DROPOUT_SCALE, factor)];
    let result = graph.composite("dropout", MaskedDropout, &inputs, &[Port::Y])[0];
    graph.tensor_mut(result).data_type = Some(data_type);
    result
}
