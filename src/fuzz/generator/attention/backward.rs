//! Attention, backward: groups of heads, masks and lengths, ragged tensors, layouts, a soft cap, a bias and its gradient, dropout.

use super::super::super::choices::Choices;
use super::dropout::{dropping, masking};
use super::fp8_backward::Scaling;
use super::{INTERLEAVED, LENGTHS, SCALE, SINKS, Shape, TYPES, mask, ragged};
use crate::graph::{AttentionBackward, DataType, Graph, Port, Scalar, Tensor, TensorHandle};

/// Part of the graphs whose gradients lie otherwise than what they belong to, and of those with gradients of another type, in percent.
const RELAID: usize = 20;
const RETYPED: usize = 15;

/// Part of the graphs whose scores have a bias, and of those the ones that store its gradient, in percent.
const BIASED: usize = 30;
const BIAS_GRADIENT: usize = 70;

/// Part of the graphs whose scores lean by the slopes of the frontend, and of the others those that are given slopes, in percent.
const SLOPED: usize = 15;

/// Part of the graphs whose scores are capped, in percent.
const CAPPED: usize = 20;

/// Multiply-adds of one of its products at most, in most of the graphs: of five products more are not computed on a processor.
const MOST_WORK: i64 = 400_000;

pub(in super::super) fn graph(choices: &mut Choices<'_>) -> Graph {
    let scaling = Scaling::of(choices);
    let io = scaling.map_or_else(|| choices.of(TYPES), |scaling| scaling.io);
    let mut graph =
        Graph::new().io_data_type(io).compute_data_type(DataType::Float).intermediate_data_type(DataType::Float);
    let shape = shortened(Shape::of(choices));
    let shape = if scaling.is_some() { shape.in_fp8() } else { shape };
    let [key_heads, value_heads] = shape.key_heads;
    let is_interleaved = choices.chance(INTERLEAVED);
    let [query_size, value_size] = shape.head;
    let queries = [shape.heads, shape.queries, query_size];
    let keys = [key_heads, shape.keys, query_size];
    let values = [value_heads, shape.keys, value_size];
    let results = [shape.heads, shape.queries, value_size];
    let mut inputs: Vec<(Port, TensorHandle)> = Vec::new();
    for (port, extents) in
        [(Port::Q, queries), (Port::K, keys), (Port::V, values), (Port::O, results), (Port::DO, results)]
    {
        let tensor = shape.matrices(port.0, extents, is_interleaved);
        let data_type = scaling.filter(|_| port != Port::Q).map(|scaling| scaling.operand(choices));
        inputs.push((port, graph.tensor(Tensor { data_type, ..tensor })));
    }
    let rows = Tensor::new("Stats").row_major([shape.batches, shape.heads, shape.queries, 1]);
    inputs.push((Port::STATS, graph.tensor(rows.data_type(DataType::Float))));
    if choices.chance(SCALE) {
        let scale = choices.of(&[0.125, 1.0, 0.3, -0.25, 0.0]);
        inputs.push((Port::ATTN_SCALE, graph.tensor(Tensor::scalar("scale", DataType::Float, Scalar::Float(scale)))));
    }
    let lengths = if choices.chance(LENGTHS) { shape.lengths(&mut graph) } else { Vec::new() };
    let mask = mask(choices, !lengths.is_empty());
    inputs.extend(lengths);
    let outputs = [(Port::DQ, queries), (Port::DK, keys), (Port::DV, values)];
    let mut ports = outputs.map(|output| output.0).to_vec();
    let sinks = |name: &str| Tensor::new(name).row_major([1, shape.heads, 1, 1]).data_type(DataType::Float);
    let has_sinks = choices.chance(SINKS);
    if has_sinks {
        inputs.push((Port::SINK_TOKEN, graph.tensor(sinks("sink"))));
        ports.push(Port::DSINK_TOKEN);
    }
    let biased = (scaling.is_none() && choices.chance(BIASED)).then(|| bias(&mut graph, choices, shape, io));
    inputs.extend(biased.map(|bias| (Port::ATTENTION_BIAS, bias)));
    let bias_gradient = biased.filter(|_| choices.chance(BIAS_GRADIENT));
    ports.extend(bias_gradient.map(|_| Port::ATTENTION_DBIAS));
    let dropping = if scaling.is_none() { dropping(&mut graph, choices) } else { None };
    let dumps = dropping.as_ref().is_some_and(|dropping| dropping.is_stored);
    ports.extend(dumps.then_some(Port::RNG_DUMP));
    let dropout = dropping.map(|dropping| {
        inputs.extend(dropping.inputs);
        dropping.dropout
    });
    if dropout.is_none() {
        inputs.extend(masking(&mut graph, choices, (io, shape)));
    }
    if scaling.is_none() && choices.chance(CAPPED) {
        inputs.push((Port::SOFT_CAP, cap(&mut graph, choices)));
    }
    let alibi = choices.chance(SLOPED);
    if !alibi && choices.chance(SLOPED) {
        let slopes = Tensor::new("slopes").row_major([1, shape.heads, 1, 1]).data_type(DataType::Float);
        inputs.push((Port::ALIBI_SLOPES, graph.tensor(slopes)));
    }
    inputs.extend(scaling.iter().flat_map(|scaling| scaling.inputs(&mut graph, choices)));
    ports.extend(scaling.iter().flat_map(|scaling| scaling.ports()));
    let backward = AttentionBackward { mask, dropout, alibi };
    let mut gradients = graph.composite("backward", backward, &inputs, &ports);
    if let Some(scaling) = scaling {
        scaling.keep(&mut graph, &mut gradients);
    }
    if let Some(id) = gradients.pop_if(|_| dumps) {
        let scores = [shape.batches, shape.heads, shape.queries, shape.keys];
        *graph.set_output(id) = Tensor::new("mask").row_major(scores).data_type(DataType::Float);
    }
    if let Some((bias, id)) = bias_gradient.and_then(|bias| Some((bias, gradients.pop()?))) {
        let bias = &graph.tensors[bias.index()];
        let (dim, data_type) = (bias.dim.clone(), choices.of(&[bias.data_type, bias.data_type, Some(DataType::Float)]));
        *graph.set_output(id) = Tensor { data_type, ..Tensor::new("dBias").row_major(dim) };
    }
    let has_lengths = inputs.iter().any(|slot| slot.0 == Port::SEQ_LEN_Q);
    for (&id, (port, extents)) in gradients.iter().zip(outputs) {
        let tensor = shape.matrices(port.0, extents, is_interleaved != choices.chance(RELAID));
        let data_type = match scaling {
            Some(scaling) => scaling.gradient(choices),
            None if choices.chance(RETYPED) => choices.of(TYPES),
            None => io,
        };
        *graph.set_output(id) = tensor.data_type(data_type);
    }
    if let [.., id] = gradients[..]
        && has_sinks
    {
        *graph.set_output(id) = sinks("dSink");
    }
    if let ([dq, dk, dv, ..], true) = (&gradients[..], has_lengths) {
        let given =
            |wanted: &[Port]| inputs.iter().filter(|slot| wanted.contains(&slot.0)).map(|slot| slot.1).collect();
        let of_queries: Vec<TensorHandle> = given(&[Port::Q, Port::O, Port::DO, Port::STATS]);
        let of_keys: Vec<TensorHandle> = given(&[Port::K, Port::V]);
        ragged::lay(&mut graph, choices, [&[&of_queries[..], &[*dq]].concat(), &[&of_keys[..], &[*dk, *dv]].concat()]);
    }
    graph
}

/// What scores are capped by: a number, or one in memory.
fn cap(graph: &mut Graph, choices: &mut Choices<'_>) -> TensorHandle {
    let cap = choices.of(&[1.0, 50.0, 0.3, 5.0, -2.0, 1e6, 1e-3]);
    let known = Tensor::scalar("cap", DataType::Float, Scalar::Float(cap));
    let stored = Tensor::new("cap").row_major([1; 4]).data_type(choices.of(TYPES));
    graph.tensor(if choices.chance(70) { known } else { stored })
}

/// A tensor that is added to scores.
fn bias(graph: &mut Graph, choices: &mut Choices<'_>, shape: Shape, io: DataType) -> TensorHandle {
    let bias = Tensor::new("bias").row_major(shape.shared_scores(choices));
    graph.tensor(bias.data_type(choices.of(&[io, io, DataType::Float])))
}

/// With sequences that are cut in half until a product is no more work than [`MOST_WORK`].
fn shortened(mut shape: Shape) -> Shape {
    let work =
        |shape: Shape| shape.batches * shape.heads * shape.queries * shape.keys * shape.head[0].max(shape.head[1]);
    while work(shape) > MOST_WORK {
        let longer = if shape.queries > shape.keys { &mut shape.queries } else { &mut shape.keys };
        *longer = (*longer + 1) / 2;
    }
    shape
}
