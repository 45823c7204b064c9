//! Backward passes in every form in which programs send them (attention.md 2.4): one operation, one key.

use std::sync::Arc;

use super::samples::{Attention, BATCHES, Backward, BiasGradient, CAP, Form, QUERIES, backward_table};
use super::values::{assert_near, element, left, lengths, number, sink, slope};
use super::{Attributes, Composite, DataType, FinalizedGraph, Graph, PointwiseMode, Port, commuted, finalized, ragged};
use crate::graph::samples::{refusal, shuffled};
use crate::graph::{Operation, Reduction, ReductionMode, Scalar, Tensor, TensorHandle};
use crate::host_tensor::{HostTensor, HostTensors};
use crate::reference;

fn is_backward(operation: &Operation) -> bool {
    matches!(operation.attributes, Attributes::Composite(Composite::AttentionBackward(_)))
}

fn assert_is_one(graph: &FinalizedGraph, what: &str) {
    assert!(graph.operations().len() == 1 && graph.operations().all(is_backward), "{what}: {}", graph.text());
}

#[test]
fn every_form_of_a_backward_pass_has_one_key() {
    for (name, backward) in backward_table() {
        let node = finalized(&backward.graph(Form::Nodes), name);
        assert_is_one(&node, name);
        for form in [Form::Operations, Form::Old] {
            let what = format!("{name}, {form:?}");
            let graph = backward.graph(form);
            let found = finalized(&graph, &what);
            assert_eq!(found.text(), node.text(), "{what}");
            assert_eq!(found.key(), node.key(), "{what}");
            assert!(found.notes().is_empty() && found.expectations().is_empty(), "{what}: {:?}", found.notes());
            for seed in 0..4 {
                let other = finalized(&shuffled(&graph, seed), &what);
                assert_eq!(other.key(), node.key(), "{what}, order {seed}");
            }
            assert_eq!(finalized(&commuted(&graph), &what).key(), node.key(), "{what}, commuted");
        }
    }
}

#[test]
fn ragged_tensors_have_one_key_in_every_form() {
    for (name, backward) in backward_table().into_iter().filter(|row| row.1.attention.lengths) {
        let node = finalized(&ragged(backward.graph(Form::Nodes)), name);
        assert_is_one(&node, name);
        let count = node.tensor_ids().filter(|&id| node.tensor(id).ragged_offset.is_some()).count();
        assert_eq!(count, 8, "{name}: Q, K, V, O and the gradients");
        for form in [Form::Operations, Form::Old] {
            assert_eq!(finalized(&ragged(backward.graph(form)), name).key(), node.key(), "{name}, {form:?}");
        }
    }
}

/// What becomes of a backward pass is a graph that files hold, and stays what it is.
#[test]
fn the_operation_is_written_and_read() {
    for (name, backward) in backward_table() {
        for is_known in [true, false] {
            let attention = Attention { is_known, ..backward.attention };
            let graph = finalized(&Backward { attention, ..backward }.graph(Form::Old), name);
            let again = finalized(&graph.to_graph(), name);
            assert_eq!((again.text(), again.key()), (graph.text(), graph.key()), "{name}");
            let file = crate::frontend::write_v2(&graph.to_graph());
            let read = crate::frontend::read_graph("graph.json", file.as_bytes());
            let read = finalized(&read.unwrap_or_else(|error| panic!("{name}: {error}")), name);
            assert_eq!(read.key(), graph.key(), "{name}: {file}");
        }
    }
}

/// A node has a flag alone, by which heads have the slopes of the frontend.
#[test]
fn a_flag_of_a_node_leans_scores() {
    let mut graph = Backward::new(Attention::default()).graph(Form::Nodes);
    let plain = finalized(&graph, "plain").key();
    let Attributes::Other(other) = &mut graph.operations[0].attributes else { panic!("a node") };
    other.attributes.insert("alibi_mask".to_owned(), true.into());
    let found = finalized(&graph, "a flag");
    assert_is_one(&found, "a flag");
    assert!(found.text().contains("alibi_mask=true"), "{}", found.text());
    assert_ne!(found.key(), plain);
    let file = crate::frontend::write_v2(&found.to_graph());
    let read = crate::frontend::read_graph("graph.json", file.as_bytes()).expect("a graph");
    assert_eq!(finalized(&read, "read").key(), found.key(), "{file}");
    let mut both = found.to_graph();
    let slopes = Tensor::new("slopes").row_major([1, 2, 1, 1]).data_type(DataType::Float);
    let slopes = both.tensor(slopes);
    both.operations[0].inputs.push((Port::ALIBI_SLOPES, slopes));
    let message = refusal(&both);
    assert!(
        message.contains("port Alibi_slopes") && message.contains("already") && message.contains("[AT-O7]"),
        "{message}"
    );
}

#[test]
fn slopes_and_masks_are_held_to_their_rules() {
    let slopes =
        finalized(&Backward::new(Attention { slopes: true, ..Attention::default() }).graph(Form::Old), "slopes");
    let masked =
        finalized(&Backward::new(Attention { masked: true, ..Attention::default() }).graph(Form::Old), "masked");
    let refused = |graph: &FinalizedGraph, port: Port, dim: &[i64]| {
        let mut graph = graph.to_graph();
        let id = graph.operations[0].inputs.iter().find(|slot| slot.0 == port).expect("a tensor").1;
        let tensor = graph.tensor_mut(id);
        *tensor = Tensor { value: tensor.value, is_pass_by_value: tensor.is_pass_by_value, ..Tensor::new("other") }
            .row_major(dim.to_vec())
            .data_type(DataType::Float);
        refusal(&graph)
    };
    let message = refused(&slopes, Port::ALIBI_SLOPES, &[1, 1, 1, 1]);
    assert!(message.contains("a slope of each head of Q") && message.contains("[AT-O7]"), "{message}");
    let message = refused(&masked, Port::DROPOUT_MASK, &[1, 2, QUERIES, 3]);
    assert!(message.contains("or 1 on some axes [AT-O14]"), "{message}");
    for port in [Port::DROPOUT_SCALE, Port::DROPOUT_SCALE_INV] {
        let mut number = masked.to_graph();
        let id = number.operations[0].inputs.iter().find(|slot| slot.0 == port).expect("a number").1;
        *number.tensor_mut(id) = Tensor::new("numbers").row_major([2, 1, 1, 1]).data_type(DataType::Float);
        let message = refusal(&number);
        assert!(message.contains("required is one number [AT-E8]"), "{message}");
    }
    let without = |ports: &[Port]| {
        let mut graph = masked.to_graph();
        graph.operations[0].inputs.retain(|slot| !ports.contains(&slot.0));
        graph
    };
    finalized(&without(&[Port::DROPOUT_SCALE, Port::DROPOUT_SCALE_INV]), "a mask alone");
    let message = refusal(&without(&[Port::DROPOUT_MASK]));
    assert!(message.contains("no probability is dropped [AT-O13]"), "{message}");
}

/// Host scalars of which an execution knows more than the graph.
#[test]
fn factors_of_executions_are_expected_to_be_1() {
    for (name, backward) in backward_table() {
        let attention = Attention { is_known: false, ..backward.attention };
        let backward = Backward { attention, ..backward };
        let [new, old] = [Form::Operations, Form::Old].map(|form| finalized(&backward.graph(form), name));
        assert_is_one(&new, name);
        assert_eq!((old.text(), old.key()), (new.text(), new.key()), "{name}");
        let of_ones = new.expectations().iter().filter(|one| one.text().contains("it is 1 [AT-P41]")).count();
        let is_whole = usize::from(attention.dropped.is_none());
        // what a mask's factor is divided by is a tensor of the operation
        let is_compared = usize::from(attention.dropped.is_none() && !attention.masked);
        assert_eq!(of_ones, is_compared + usize::from(backward.drops_nothing), "{name}");
        let of_kept = new.expectations().iter().filter(|one| one.text().contains("the probability to keep")).count();
        assert_eq!(of_kept, 1 - is_whole, "{name}");
        let is_a_node = attention.left.is_none() && attention.right.is_none_or(|right| right == 0);
        if is_a_node && !attention.is_bottom_right {
            assert_eq!(new.key(), finalized(&backward.graph(Form::Nodes), name).key(), "{name}");
        }
    }
    let window = Attention { left: Some(4), right: Some(0), is_known: false, ..Attention::default() };
    let window = finalized(&Backward::new(window).graph(Form::Operations), "window");
    let bound = window.operations().find_map(|one| one.input(Port::LEFT_BOUND)).expect("a bound");
    assert!(window.tensor(bound).is_pass_by_value);
    let one = super::super::Expected::One;
    let one = super::super::Expectation { uid: 1, data_type: DataType::Float, expected: one };
    assert!(one.holds(Scalar::Float(1.0)) && !one.holds(Scalar::Float(1.25)));
}

/// Gradients of scores that are not those that are masked, or that are set to something else than 0, are no gradients of an attention.
#[test]
fn choices_are_of_masked_scores_and_of_0() {
    let causal = Attention { right: Some(0), ..Attention::default() };
    let chosen = |attention: Attention| Backward { chooses: true, ..Backward::new(attention) }.graph(Form::Old);
    let is_one = |graph: &Graph| finalized(graph, "a choice").operations().all(is_backward);
    assert!(is_one(&chosen(causal)));
    assert!(!is_one(&chosen(Attention { right: Some(1), ..causal })));
    assert!(!is_one(&chosen(Attention { right: None, ..causal })));
    let mut one = chosen(causal);
    one.tensors
        .iter_mut()
        .filter(|tensor| tensor.name == "zero")
        .for_each(|zero| zero.value = Some(Scalar::Float(1.0)));
    assert!(!is_one(&one));
    let open = finalized(&chosen(Attention { is_known: false, ..causal }), "open");
    let zeros: Vec<_> = open.expectations().iter().filter(|one| one.text().contains("AT-O12")).collect();
    assert!(zeros.len() == 1 && zeros[0].holds(Scalar::Float(0.0)) && !zeros[0].holds(Scalar::Float(1.0)));
}

/// Operations of a plain backward pass, in the order in which they are sent.
const OF_ROWS: usize = 0;
const SUM: usize = 1;
const ONCE: usize = 2;
const SCORES: usize = 3;
const SCALED: usize = 4;
const LESS: usize = 5;
const EXP: usize = 6;
const TURNED: usize = 7;
const OF_V: usize = 8;
const OF_P: usize = 9;
const DIFFERENCE: usize = 10;
const UNSCALED: usize = 11;
const SCALED_BACK: usize = 12;
const TURNED_BACK: usize = 13;
const OF_K: usize = 14;
const TURNED_K: usize = 15;
const OF_Q: usize = 16;

type Change = fn(&mut Graph);

fn result(graph: &Graph, at: usize) -> TensorHandle {
    graph.operations[at].result().expect("a result")
}

fn tensor_of(graph: &mut Graph, at: usize) -> &mut Tensor {
    let id = result(graph, at);
    graph.tensor_mut(id)
}

fn set_mode(graph: &mut Graph, at: usize, mode: PointwiseMode) {
    let Attributes::Pointwise(pointwise) = &mut graph.operations[at].attributes else {
        panic!("no pointwise operation")
    };
    pointwise.mode = mode;
}

/// Another tensor like the one that an operation reads, in its place.
fn replace(graph: &mut Graph, at: usize, place: usize) {
    let like = graph.tensors()[graph.operations[at].inputs[place].1.index()].clone();
    let other = graph.tensor(Tensor { uid: Some(700), ..like });
    graph.operations[at].inputs[place].1 = other;
}

/// One more operation on a value, whose result is kept.
fn read(graph: &mut Graph, id: TensorHandle) {
    let y = graph.pointwise("other", PointwiseMode::ReluFwd, &[id]);
    graph.last_operation().compute_data_type = Some(DataType::Float);
    let tensor = graph.set_output(y);
    (tensor.uid, tensor.data_type) = (Some(701), Some(DataType::Float));
}

fn set_dim(graph: &mut Graph, at: &[usize], dim: [i64; 4]) {
    for &at in at {
        let tensor = tensor_of(graph, at);
        *tensor = Tensor { is_virtual: tensor.is_virtual, uid: tensor.uid, ..Tensor::new("").row_major(dim) };
        tensor.data_type = Some(DataType::Float);
    }
}

/// Changes of a plain backward pass, of 8 keys, after which it is none.
const MISSES: &[(&str, Change)] = &[
    ("sums of columns", |graph| set_dim(graph, &[SUM, ONCE], [BATCHES, 2, 1, 8])),
    ("sums of heads", |graph| set_dim(graph, &[SUM, ONCE], [BATCHES, 2, 1, 1])),
    ("the largest of a row", |graph| {
        graph.operations[SUM].attributes = Attributes::Reduction(Reduction::new(ReductionMode::Max));
    }),
    ("another scale", |graph| {
        let scale = Tensor::scalar("other", DataType::Float, Scalar::Float(0.25)).dim([1; 4]).stride([1; 4]);
        graph.operations[SCALED_BACK].inputs[1].1 = graph.tensor(scale.uid(702));
    }),
    ("scaled once", |graph| {
        let unscaled = result(graph, UNSCALED);
        graph.operations[TURNED_BACK].inputs[0].1 = unscaled;
        graph.operations[OF_Q].inputs[0].1 = unscaled;
        graph.operations.remove(SCALED_BACK);
    }),
    ("keys without the scale", |graph| {
        graph.operations[TURNED_BACK].inputs[0].1 = result(graph, UNSCALED);
    }),
    ("another factor of rows", |graph| {
        let one = graph.operations[ONCE].inputs[1].1;
        graph.tensor_mut(one).value = Some(Scalar::Float(0.5));
    }),
    ("statistics added", |graph| set_mode(graph, LESS, PointwiseMode::Add)),
    ("sums added", |graph| set_mode(graph, DIFFERENCE, PointwiseMode::Add)),
    ("sums turned round", |graph| {
        let [(_, first), (_, second)] = &mut graph.operations[DIFFERENCE].inputs[..] else { panic!("two operands") };
        std::mem::swap(first, second);
    }),
    ("rounded probabilities", |graph| tensor_of(graph, EXP).data_type = Some(DataType::Half)),
    ("rounded scores", |graph| tensor_of(graph, SCALED).data_type = Some(DataType::Half)),
    ("rounded otherwise", |graph| tensor_of(graph, TURNED).data_type = Some(DataType::BFloat16)),
    ("rounded keys", |graph| tensor_of(graph, TURNED_K).data_type = Some(DataType::BFloat16)),
    ("another dO of rows", |graph| replace(graph, OF_ROWS, 0)),
    ("another dO of V", |graph| replace(graph, OF_V, 1)),
    ("another dO of P", |graph| replace(graph, OF_P, 0)),
    ("another Q", |graph| replace(graph, OF_K, 1)),
    ("another K", |graph| replace(graph, TURNED_K, 0)),
    ("kept probabilities", |graph| tensor_of(graph, EXP).is_virtual = false),
    ("kept scores", |graph| tensor_of(graph, SCORES).is_virtual = false),
    ("sums of rows that are read", |graph| read(graph, result(graph, ONCE))),
    ("a gradient of Q that is read", |graph| read(graph, result(graph, OF_Q))),
    ("K that is read", |graph| read(graph, graph.operations[SCORES].inputs[1].1)),
    ("probabilities as they lie", |graph| {
        let tensor = tensor_of(graph, TURNED);
        *tensor = tensor.clone().row_major([BATCHES, 2, 8, QUERIES]);
    }),
    ("a reshape by elements", |graph| {
        let Attributes::Other(other) = &mut graph.operations[TURNED].attributes else { panic!("no reshape") };
        other.attributes.insert("reshape_mode".to_owned(), "LOGICAL".into());
        tensor_of(graph, TURNED).data_type = Some(DataType::Float);
    }),
    ("K that lies as it is multiplied", |graph| {
        let k = graph.operations[SCORES].inputs[1].1;
        graph.tensor_mut(k).stride = vec![128, 64, 8, 1];
        tensor_of(graph, TURNED_K).stride = vec![128, 64, 1, 8];
    }),
];

fn assert_is_kept(graph: &Graph, what: &str) {
    let found = finalized(graph, what);
    assert!(!found.operations().any(is_backward), "{what}: {}", found.text());
    assert_eq!(found.operations().len(), graph.operations().len(), "{what}: {}", found.text());
    assert_eq!(finalized(&found.to_graph(), what).text(), found.text(), "{what}");
    assert!(!crate::frontend::write_v2(&found.to_graph()).is_empty(), "{what}");
}

#[test]
fn what_is_no_backward_pass_stays_as_it_is() {
    let plain = Attention { keys: 8, ..Attention::default() };
    for &(what, change) in MISSES {
        let mut graph = Backward::new(plain).graph(Form::Operations);
        assert_is_one(&finalized(&graph, what), what);
        change(&mut graph);
        assert_is_kept(&graph, what);
    }
}

#[test]
fn options_that_the_operation_has_not_stay_as_they_are() {
    let plain = Attention::default();
    let dropped = Backward { drops_nothing: true, ..Backward::new(plain) }.graph(Form::Operations);
    let mut some = dropped.clone();
    for operation in &mut some.operations {
        if let Attributes::Other(other) = &mut operation.attributes
            && other.tag == "RNG"
        {
            other.attributes.insert("bernoulli_probability".to_owned(), 0.9.into());
        }
    }
    assert_is_kept(&some, "dropout");
    let mut scaled = dropped;
    scaled.tensors.iter_mut().filter(|tensor| tensor.name == "factor").for_each(|factor| {
        factor.value = Some(Scalar::Float(1.25));
    });
    assert_is_kept(&scaled, "a factor of dropout");
    let mut masked = Backward::new(Attention { masked: true, ..plain }).graph(Form::Operations);
    let mask = masked.tensors().iter().position(|tensor| tensor.name == "mask").expect("a mask");
    let reads = |one: &Operation<TensorHandle>| one.inputs.iter().any(|slot| slot.1.index() == mask);
    let last = masked.operations.iter().rposition(reads).expect("a reader");
    replace(&mut masked, last, 1);
    assert_is_kept(&masked, "another mask of gradients");
    let sloped = Backward::new(Attention { slopes: true, ..plain }).graph(Form::Operations);
    let mut distance = sloped.clone();
    let difference = |one: &Operation<TensorHandle>| one.pointwise_mode() == Some(PointwiseMode::Sub);
    let at = distance.operations.iter().position(difference).expect("a difference");
    let [(_, first), (_, second)] = &mut distance.operations[at].inputs[..] else { panic!("two operands") };
    std::mem::swap(first, second);
    assert_is_kept(&distance, "distances turned round");
    let mut shared = sloped;
    let slopes = shared.tensors.iter_mut().find(|tensor| tensor.name == "slopes").expect("slopes");
    *slopes = slopes.clone().row_major([1; 4]);
    assert_is_kept(&shared, "a slope of all heads");
    let lengths = Backward::new(Attention { lengths: true, ..plain }).graph(Form::Operations);
    let mut turned = lengths.clone();
    let [.., (_, first), (_, second)] = &mut turned.operations[SCORES].inputs[..] else { panic!("overrides") };
    std::mem::swap(first, second);
    assert_is_kept(&turned, "lengths turned round");
    let mut sink = Backward::new(Attention { sink: true, ..plain }).graph(Form::Operations);
    let position = sink.operations.iter().position(|one| one.pointwise_mode() == Some(PointwiseMode::Sub));
    replace(&mut sink, position.expect("a difference"), 1);
    assert_is_kept(&sink, "other statistics of a sink");
}

/// Operations of a backward pass whose scores are capped, in the order in which they are sent.
const DIVIDED: usize = 5;
const TANH: usize = 6;
const CAPPED: usize = 7;
const CAPPED_LESS: usize = 8;
const TIMES_CAP: usize = 15;
const SLOPED: usize = 16;
const OVER_CAP: usize = 17;
const CAPPED_SCALED: usize = 18;

/// Changes of a backward pass with a cap, of 8 keys, after which it is none.
const CAP_MISSES: &[(&str, Change)] = &[
    ("another cap of scores", |graph| other_cap(graph, CAPPED)),
    ("scores divided by another cap", |graph| other_cap(graph, DIVIDED)),
    ("another cap of gradients", |graph| other_cap(graph, TIMES_CAP)),
    ("gradients divided by another cap", |graph| other_cap(graph, OVER_CAP)),
    ("a cap that is divided", |graph| {
        let [(_, first), (_, second)] = &mut graph.operations[DIVIDED].inputs[..] else { panic!("two operands") };
        std::mem::swap(first, second);
    }),
    ("scores without their cap", |graph| {
        graph.operations[CAPPED_LESS].inputs[0].1 = result(graph, SCALED);
        graph.operations.drain(TANH..=CAPPED);
    }),
    ("gradients without the slope", |graph| {
        graph.operations[OVER_CAP].inputs[0].1 = result(graph, TIMES_CAP);
        graph.operations.remove(SLOPED);
    }),
    ("gradients without the cap", |graph| {
        graph.operations[SLOPED].inputs[0].1 = graph.operations[TIMES_CAP].inputs[0].1;
        graph.operations.remove(TIMES_CAP);
    }),
    ("the slope of scores that are not divided", |graph| {
        graph.operations[SLOPED].inputs[1].1 = result(graph, SCALED);
    }),
    ("the slope of another function", |graph| set_mode(graph, SLOPED, PointwiseMode::SigmoidBwd)),
    ("another function of scores", |graph| set_mode(graph, TANH, PointwiseMode::SigmoidFwd)),
    ("scaled behind the cap", |graph| {
        let scale = graph.operations[CAPPED_SCALED].inputs[1].1;
        let cap = graph.operations[OVER_CAP].inputs[1].1;
        let (inner, x) = (graph.operations[TIMES_CAP].inputs[0].1, result(graph, CAPPED_SCALED));
        // the scale first, then the cap
        let scaled = graph.operations.remove(CAPPED_SCALED);
        graph.operations.insert(TIMES_CAP, scaled);
        let y = graph.operations[OVER_CAP + 1].outputs[0].1;
        graph.operations[TIMES_CAP].inputs = vec![(Port::IN_0, inner), (Port::IN_1, scale)];
        graph.operations[TIMES_CAP].outputs = vec![(Port::OUT_0, y)];
        graph.operations[TIMES_CAP + 1].inputs = vec![(Port::IN_0, y), (Port::IN_1, cap)];
        graph.operations[OVER_CAP + 1].outputs = vec![(Port::OUT_0, x)];
    }),
    ("rounded capped scores", |graph| tensor_of(graph, CAPPED).data_type = Some(DataType::Half)),
    ("rounded tanh", |graph| tensor_of(graph, TANH).data_type = Some(DataType::Half)),
    ("rounded gradients", |graph| tensor_of(graph, SLOPED).data_type = Some(DataType::Half)),
    ("kept tanh", |graph| tensor_of(graph, TANH).is_virtual = false),
    ("divided scores that are read", |graph| read(graph, result(graph, DIVIDED))),
    ("a cap of each head", |graph| {
        let cap = graph.operations[DIVIDED].inputs[1].1;
        *graph.tensor_mut(cap) = Tensor::new("caps").row_major([1, 2, 1, 1]).data_type(DataType::Float).uid(703);
    }),
];

fn other_cap(graph: &mut Graph, at: usize) {
    let cap = Tensor::scalar("other", DataType::Float, Scalar::Float(2.0 * CAP)).dim([1; 4]).stride([1; 4]);
    graph.operations[at].inputs[1].1 = graph.tensor(cap.uid(704));
}

#[test]
fn what_has_no_gradients_of_a_cap_stays_as_it_is() {
    let capped = Backward::new(Attention { keys: 8, cap: true, ..Attention::default() });
    for &(what, change) in CAP_MISSES {
        let mut graph = capped.graph(Form::Operations);
        assert_is_one(&finalized(&graph, what), what);
        change(&mut graph);
        assert_is_kept(&graph, what);
    }
}

#[test]
fn a_cap_is_one_number() {
    let capped = finalized(&Backward::new(Attention { cap: true, ..Attention::default() }).graph(Form::Old), "capped");
    let cap = capped.operations().find_map(|one| one.input(Port::SOFT_CAP)).expect("a cap");
    assert!(capped.tensor(cap).is_pass_by_value);
    let mut caps = capped.to_graph();
    let id = caps.operations[0].inputs.iter().find(|slot| slot.0 == Port::SOFT_CAP).expect("a cap").1;
    *caps.tensor_mut(id) = Tensor::new("caps").row_major([1, 2, 1, 1]).data_type(DataType::Float);
    let message = refusal(&caps);
    assert!(message.contains("a soft cap is one number") && message.contains("[AT-O12]"), "{message}");
    let mut stored = capped.to_graph();
    *stored.tensor_mut(id) = Tensor::new("cap").row_major([1; 4]).data_type(DataType::Float);
    assert_ne!(finalized(&stored, "a cap in memory").key(), capped.key());
}

/// What an execution is given, and gives, by its definition (attention.md 4).
#[derive(Default)]
struct Values {
    o: Vec<f64>,
    stats: Vec<f64>,
    gradients: [Vec<f64>; 3],
    d_bias: Vec<f64>,
    d_sink: Vec<f64>,
}

/// Where an element of a row of a head lies.
fn at([heads, rows, size]: [i64; 3], [batch, head, row, x]: [i64; 4]) -> usize {
    (((batch * heads + head) * rows + row) * size + x) as usize
}

impl Values {
    fn of(backward: Backward) -> Self {
        let Attention { keys, heads: [of_q, of_k, of_v], head_sizes: [d, d_v], .. } = backward.attention;
        let room = |count: i64| vec![0.0; count as usize];
        let mut values = Self {
            gradients: [
                room(BATCHES * of_q * QUERIES * d),
                room(BATCHES * of_k * keys * d),
                room(BATCHES * of_v * keys * d_v),
            ],
            d_bias: room(BATCHES * of_q * QUERIES * keys),
            d_sink: room(of_q),
            ..Self::default()
        };
        for batch in 0..BATCHES {
            for head in 0..of_q {
                (0..QUERIES).for_each(|row| values.add_row(backward, [batch, head, row]));
            }
        }
        values
    }

    fn add_row(&mut self, backward: Backward, [batch, head, row]: [i64; 3]) {
        let attention @ Attention { keys, heads: [of_q, of_k, of_v], head_sizes: [d, d_v], .. } = backward.attention;
        let (of_key, of_value) = (head * of_k / of_q, head * of_v / of_q);
        let scale = attention.scale.unwrap_or(1.0);
        let q = |x| at([of_q, QUERIES, d], [batch, head, row, x]);
        let k = |c, x| at([of_k, keys, d], [batch, of_key, c, x]);
        let v = |c, x| at([of_v, keys, d_v], [batch, of_value, c, x]);
        let d_o = |x| number("dO", at([of_q, QUERIES, d_v], [batch, head, row, x]));
        let place = |c| ((head * QUERIES + row) * keys + c) as usize;
        let [queries, of_batch] = lengths(attention)[batch as usize];
        let shift = if attention.is_bottom_right { of_batch - queries } else { 0 };
        let is_kept = |c: i64| {
            row < queries
                && c < of_batch
                && attention.right.is_none_or(|right| c <= row + shift + right)
                && attention.left.is_none_or(|left| c > row + shift - left)
        };
        let score = |c: i64| {
            let product = (0..d).map(|x| number("Q", q(x)) * number("K", k(c, x))).sum::<f64>();
            let bias = if attention.bias { number("bias", place(c)) } else { 0.0 };
            let leaning = if attention.slopes { slope(head as usize) * (c - row) as f64 } else { 0.0 };
            let capped = if attention.cap { CAP * (product * scale / CAP).tanh() } else { product * scale };
            if is_kept(c) { capped + bias + leaning } else { f64::NEG_INFINITY }
        };
        let slope_of_cap = |c: i64| {
            let product = (0..d).map(|x| number("Q", q(x)) * number("K", k(c, x))).sum::<f64>();
            if attention.cap { (product * scale / CAP).cosh().powi(-2) } else { 1.0 }
        };
        let scores: Vec<f64> = (0..keys).map(score).collect();
        let sink = (attention.sink).then(|| sink(head as usize)).filter(|_| row < queries);
        let sum: f64 = scores.iter().copied().chain(sink).map(f64::exp).sum();
        let p: Vec<f64> = scores.iter().map(|score| if sum > 0.0 { score.exp() / sum } else { 0.0 }).collect();
        let left: Vec<f64> = (0..keys).map(|c| left(attention, [batch * of_q + head, row, c])).collect();
        let kept = |c: i64| p[c as usize] * left[c as usize];
        let o: Vec<f64> = (0..d_v).map(|x| (0..keys).map(|c| kept(c) * number("V", v(c, x))).sum()).collect();
        let delta: f64 = (0..d_v).map(|x| d_o(x) * o[x as usize]).sum();
        self.o.extend(&o);
        self.stats.push(sum.ln());
        for c in (0..keys).filter(|&c| is_kept(c)) {
            let (kept, p) = (kept(c), p[c as usize]);
            let dp: f64 = (0..d_v).map(|x| d_o(x) * number("V", v(c, x))).sum();
            let ds = p * (dp * left[c as usize] - delta);
            let [dq, dk, dv] = &mut self.gradients;
            (0..d_v).for_each(|x| dv[v(c, x)] += kept * d_o(x));
            let of_product = scale * slope_of_cap(c) * ds;
            (0..d).for_each(|x| dq[q(x)] += of_product * number("K", k(c, x)));
            (0..d).for_each(|x| dk[k(c, x)] += of_product * number("Q", q(x)));
            let batch = if backward.d_bias == BiasGradient::Whole { batch } else { 0 };
            self.d_bias[place(c) + (batch * of_q * QUERIES * keys) as usize] += ds;
        }
        if let Some(sink) = sink {
            self.d_sink[head as usize] -= sink.exp() / sum * delta;
        }
    }

    fn inputs(&self, attention: Attention, graph: &FinalizedGraph) -> HostTensors {
        let given = graph.inputs().filter(|&id| graph.tensor(id).value.is_none());
        let host = |id| {
            let tensor = graph.tensor(id);
            let value = |position: usize| match tensor.name.as_str() {
                "O" => self.o[position],
                "Stats" => self.stats[position],
                _ => element(attention, tensor, position),
            };
            HostTensor::from_fn(tensor.data_type, &tensor.dim, &tensor.stride, value).expect("an input")
        };
        given.map(|id| (id, host(id))).collect()
    }
}

#[test]
fn backward_passes_by_operations_are_computed_by_their_definition() {
    for (name, backward) in backward_table() {
        let values = Values::of(backward);
        for (form, is_known) in [(Form::Old, false), (Form::Operations, false), (Form::Operations, true)] {
            let attention = Attention { is_known, ..backward.attention };
            let graph = Arc::new(finalized(&Backward { attention, ..backward }.graph(form), name));
            let found = reference::execute(&graph, &values.inputs(attention, &graph)).expect("computed");
            let operation = graph.operations().next().expect("the operation");
            let [dq, dk, dv] = &values.gradients;
            let expected = [
                (Port::DQ, dq),
                (Port::DK, dk),
                (Port::DV, dv),
                (Port::ATTENTION_DBIAS, &values.d_bias),
                (Port::DSINK_TOKEN, &values.d_sink),
            ];
            for (port, expected) in expected {
                let Some(id) = operation.output(port) else { continue };
                let found: Vec<f64> = found[&id].to_dense().expect("numbers");
                for (at, (&found, &expected)) in found.iter().zip(expected).enumerate() {
                    assert_near(found, expected, &format!("{name}, {form:?}, {port}, element {at}"));
                }
            }
        }
    }
}
