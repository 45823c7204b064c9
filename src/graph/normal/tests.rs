//! One configuration in every form in which programs send it (attention.md 2.2, 2.3): one key, one fusion.

mod backward;
mod fp8_backward;
mod mha;
pub(crate) mod samples;
mod values;

use std::sync::Arc;

use samples::{Attention, BATCHES, Form, table};

use super::super::samples::shuffled;
use super::super::{
    Attributes, Composite, DataType, FinalizedGraph, Graph, OperationId, PointwiseMode, Port, ReductionMode, Scalar,
    ScoreMask, Tensor,
};
use crate::fusion::fuse;

fn finalized(graph: &Graph, what: &str) -> FinalizedGraph {
    graph.finalize().unwrap_or_else(|malformed| panic!("{what}: {malformed}"))
}

fn assert_is_attention(graph: &FinalizedGraph, what: &str) {
    let fusion = fuse(Arc::new(graph.clone()));
    let fusion = fusion.unwrap_or_else(|error| panic!("{what}: {error}\n{}", graph.text()));
    assert!(fusion.attention().is_some(), "{what}: {}", graph.text());
}

#[test]
fn every_form_of_a_configuration_has_one_key() {
    for (name, attention) in table() {
        let node = finalized(&attention.graph(Form::Nodes), name);
        assert_is_attention(&node, name);
        for form in [Form::Operations, Form::Old] {
            let what = format!("{name}, {form:?}");
            let graph = attention.graph(form);
            let found = finalized(&graph, &what);
            assert_eq!(found.text(), node.text(), "{what}");
            assert_eq!(found.key(), node.key(), "{what}");
            for seed in 0..4 {
                let other = finalized(&shuffled(&graph, seed), &what);
                assert_eq!(other.key(), node.key(), "{what}, order {seed}");
            }
            assert_eq!(finalized(&commuted(&graph), &what).key(), node.key(), "{what}, commuted");
        }
    }
}

/// A graph whose heads in memory all lie where offsets say.
fn ragged(mut graph: Graph) -> Graph {
    let is_of_heads = |tensor: &Tensor| tensor.data_type == Some(DataType::Half) && tensor.dim.len() == 4;
    for number in 0..graph.tensors().len() {
        let tensor = &graph.tensors()[number];
        if tensor.is_virtual || tensor.is_pass_by_value || !is_of_heads(tensor) || tensor.dim[0] != BATCHES {
            continue;
        }
        let offsets = Tensor::new("").row_major([BATCHES + 1, 1, 1, 1]).data_type(DataType::Int64);
        let offsets = Tensor { uid: tensor.uid.map(|uid| uid + 1000), ..offsets };
        let offsets = graph.tensor(offsets);
        graph.tensors[number].ragged_offset = Some(offsets);
    }
    graph
}

/// The graph with the operands of every operation that does not mind swapped, and comparisons turned round.
fn commuted(graph: &Graph) -> Graph {
    let mut graph = graph.clone();
    for operation in &mut graph.operations {
        let Attributes::Pointwise(pointwise) = &mut operation.attributes else { continue };
        let turned = match pointwise.mode {
            PointwiseMode::CmpLt => PointwiseMode::CmpGt,
            PointwiseMode::CmpGt => PointwiseMode::CmpLt,
            PointwiseMode::CmpGe => PointwiseMode::CmpLe,
            mode if mode.is_commutative() => mode,
            _ => continue,
        };
        pointwise.mode = turned;
        let [(_, first), (_, second)] = &mut operation.inputs[..] else { continue };
        std::mem::swap(first, second);
    }
    graph
}

/// What becomes of an attention is a graph that files hold, and stays what it is.
#[test]
fn the_normal_form_is_written_and_read() {
    for (name, attention) in table() {
        for is_known in [true, false] {
            let graph = finalized(&Attention { is_known, ..attention }.graph(Form::Old), name);
            let again = finalized(&graph.to_graph(), name);
            assert_eq!((again.text(), again.key()), (graph.text(), graph.key()), "{name}");
            assert!(again.notes().is_empty(), "{name}: {:?}", again.notes());
            let file = crate::frontend::write_v2(&graph.to_graph());
            let read = crate::frontend::read_graph("graph.json", file.as_bytes());
            let read = finalized(&read.unwrap_or_else(|error| panic!("{name}: {error}")), name);
            assert_eq!(read.key(), graph.key(), "{name}: {file}");
        }
    }
}

fn mask_of(graph: &FinalizedGraph) -> (ScoreMask, Vec<Port>) {
    let mut masks = graph.operations().filter_map(|operation| match &operation.attributes {
        Attributes::Composite(Composite::ScoreMask(mask)) => Some((*mask, operation)),
        _ => None,
    });
    let (mask, operation) = masks.next_back().expect("a mask");
    (mask, operation.inputs.iter().map(|slot| slot.0).collect())
}

/// Bounds, lengths by value and what masks are known only to an execution.
#[test]
fn values_of_executions_stay_ports_or_are_expected() {
    for (name, attention) in table() {
        let attention = Attention { is_known: false, ..attention };
        let node = finalized(&attention.graph(Form::Operations), name);
        assert_is_attention(&node, name);
        let old = finalized(&attention.graph(Form::Old), name);
        assert_eq!(old.text(), node.text(), "{name}");
        assert_eq!(old.key(), node.key(), "{name}");
    }
    let open = |attention: Attention| finalized(&Attention { is_known: false, ..attention }.graph(Form::Old), "open");
    let plain = Attention::default();
    let window = open(Attention { left: Some(4), right: Some(0), ..plain });
    let (mask, ports) = mask_of(&window);
    assert_eq!((mask.left_bound, mask.right_bound, mask.is_bottom_right), (None, Some(0), false));
    assert_eq!(ports, [Port::X, Port::LEFT_BOUND]);
    let corner = open(Attention { right: Some(3), is_bottom_right: true, keys: 9, ..plain });
    let (mask, ports) = mask_of(&corner);
    assert_eq!((mask.right_bound, ports), (Some(4), vec![Port::X, Port::RIGHT_BOUND]));
    let texts: Vec<String> = corner.expectations().iter().map(super::Expectation::text).collect();
    let text = texts.join("\n");
    assert!(text.contains("AT-P36") && text.contains("sequences, 9 [AT-P37]"), "{text}");
    assert!(text.contains("sequences, 5 [AT-P37]"), "{text}");
    let lengths = open(Attention { lengths: true, is_bottom_right: true, right: Some(0), keys: 9, ..plain });
    let (mask, ports) = mask_of(&lengths);
    assert_eq!((mask.right_bound, mask.is_bottom_right), (Some(0), true));
    assert_eq!(ports, [Port::X, Port::SEQ_LEN_Q, Port::SEQ_LEN_KV]);
}

/// What dropout keeps is a result where the mask lies in memory.
#[test]
fn a_random_mask_that_is_stored_is_a_result() {
    let attention = Attention { dropped: Some(0.5), ..Attention::default() };
    let backward = samples::Backward::new(attention);
    for mut graph in [attention.graph(Form::Operations), backward.graph(Form::Operations)] {
        let is_random = |operation: &&super::Operation<_>| operation.tag() == "RNG";
        let mask = graph.operations().iter().find(is_random).and_then(super::Operation::result).expect("a mask");
        let tensor = graph.tensor_mut(mask);
        let dim = tensor.dim.clone();
        *tensor = Tensor { uid: tensor.uid, ..Tensor::new("mask").row_major(dim).data_type(DataType::Float) };
        let found = finalized(&graph, "a stored mask");
        let dump = found.operations().find_map(|operation| operation.output(Port::RNG_DUMP)).expect("the mask");
        assert!(found.tensor(dump).name == "mask" && !found.operations().any(|one| one.tag() == "RNG"));
    }
}

#[test]
fn what_is_expected_holds_or_not() {
    let expected = |expected| super::Expectation { uid: 1, data_type: DataType::Float, expected };
    let masked = expected(super::Expected::Masked);
    assert!(masked.holds(Scalar::Float(f64::NEG_INFINITY)) && masked.holds(Scalar::Float(f64::from(f32::MIN))));
    assert!(!masked.holds(Scalar::Float(-65504.0)) && !masked.holds(Scalar::Float(f64::NAN)));
    let kept = expected(super::Expected::Kept(0.9));
    assert!(kept.holds(Scalar::Float(f64::from(1.0_f32 - 0.1))) && !kept.holds(Scalar::Float(1.0)));
    let length = expected(super::Expected::Length(9));
    assert!(length.holds(Scalar::Integer(9)) && !length.holds(Scalar::Integer(8)));
}

/// The text of a graph whose operations are all as their author wrote them.
fn assert_is_kept(graph: &Graph, operations: usize, what: &str) {
    let found = finalized(graph, what);
    assert_eq!(found.operations().len(), operations, "{what}: {}", found.text());
    let is_composite = |operation: &super::Operation| matches!(operation.attributes, Attributes::Composite(_));
    assert!(!found.operations().any(is_composite), "{what}: {}", found.text());
}

#[test]
fn what_is_no_attention_stays_as_it_is() {
    let graph = Attention::default().graph(Form::Old);
    let operations = graph.operations().len();
    // a value between the two products that is kept, or of another type
    let stored = |mode: PointwiseMode| {
        let mut graph = graph.clone();
        let at = graph.operations.iter().position(|operation| operation.pointwise_mode() == Some(mode)).unwrap();
        let id = graph.operations[at].result().unwrap();
        graph.set_output(id).uid = Some(1000);
        graph
    };
    assert_is_kept(&stored(PointwiseMode::Exp), operations, "exponentials are stored");
    // without a second product
    let mut alone = graph.clone();
    alone.operations.pop();
    let p = alone.operations.last().unwrap().result().unwrap();
    let division = alone.operations.iter().find(|one| one.pointwise_mode() == Some(PointwiseMode::Div)).unwrap();
    let id = division.result().unwrap_or(p);
    alone.set_output(id).uid = Some(1000);
    assert_is_kept(&alone, operations - 1, "a product and a softmax");
    // another reduction
    let mut least = graph.clone();
    for operation in &mut least.operations {
        if let Attributes::Reduction(reduction) = &mut operation.attributes
            && reduction.mode == ReductionMode::Max
        {
            reduction.mode = ReductionMode::Min;
        }
    }
    assert_is_kept(&least, operations, "the least of a row");
}

#[test]
fn masks_that_are_none_stay_modifiers() {
    let attention = Attention { right: Some(0), ..Attention::default() };
    let graph = attention.graph(Form::Old);
    let changed = |change: &dyn Fn(&mut Tensor)| {
        let mut graph = graph.clone();
        graph.tensors.iter_mut().filter(|tensor| tensor.name == "fill").for_each(change);
        finalized(&graph, "another fill")
    };
    let selects = |graph: &FinalizedGraph| {
        graph.operations().filter(|one| one.pointwise_mode() == Some(PointwiseMode::BinarySelect)).count()
    };
    assert_eq!(selects(&changed(&|fill| fill.value = Some(Scalar::Float(f64::from(f32::MIN))))), 0);
    assert_eq!(selects(&changed(&|fill| fill.value = Some(Scalar::Float(-1e9)))), 0);
    assert_eq!(selects(&changed(&|fill| fill.value = Some(Scalar::Float(-65504.0)))), 1);
    let zero = changed(&|fill| fill.value = Some(Scalar::Float(0.0)));
    assert_eq!(selects(&zero), 1);
    assert_is_attention(&zero, "a modifier that chooses");
    let ids: Vec<OperationId> = zero.operation_ids().collect();
    assert!(ids.len() > 5);
}

/// A finite number far below any score masks where each row keeps a key: else it is what rows without one have the mean of all for.
#[test]
fn a_finite_fill_masks_where_rows_keep_keys() {
    let fills = |attention: Attention, value: Option<f64>| {
        let mut graph = attention.graph(Form::Old);
        let fills = graph.tensors.iter_mut().filter(|tensor| tensor.name == "fill");
        fills.for_each(|fill| fill.value = value.map(Scalar::Float));
        finalized(&graph, "a fill")
    };
    let plain = Attention::default();
    // of 5 queries and 7 keys
    for (right, left, lengths, keeps_keys) in [
        (Some(0), None, false, true),
        (Some(-1), None, false, false),
        (None, Some(1), false, true),
        (None, Some(-1), false, true),
        (None, Some(-2), false, false),
        (Some(2), Some(-1), false, true),
        (Some(1), Some(-1), false, false),
        (Some(0), None, true, false),
    ] {
        let what = format!("{right:?}, {left:?}, lengths {lengths}");
        let attention = Attention { right, left, lengths, ..plain };
        let known = fills(attention, Some(-1e9));
        let chooses = known.operations().any(|one| one.pointwise_mode() == Some(PointwiseMode::BinarySelect));
        assert_eq!(chooses, !keeps_keys, "{what}");
        assert_is_attention(&known, &what);
        let open = fills(attention, None);
        let infinite = fills(attention, Some(f64::NEG_INFINITY));
        assert_eq!(open.key(), infinite.key(), "{what}");
        let is_masked = |one: &super::Expectation| one.holds(Scalar::Float(-1e9));
        assert!(!open.expectations().is_empty() && open.expectations().iter().all(is_masked) == keeps_keys, "{what}");
    }
}

/// What a fill is follows from its type, as what is stored of it: no UINT8 is far below scores.
#[test]
fn a_fill_of_an_integer_type_masks_by_what_its_type_has() {
    let filled = |data_type: DataType, value: Scalar| {
        let mut graph = Attention { right: Some(0), ..Attention::default() }.graph(Form::Old);
        let fills = graph.tensors.iter_mut().filter(|tensor| tensor.name == "fill");
        fills.for_each(|fill| (fill.data_type, fill.value) = (Some(data_type), Some(value)));
        finalized(&graph, "a fill")
    };
    let lowest = Scalar::Float(f64::NEG_INFINITY);
    for (data_type, masks) in
        [(DataType::UInt8, false), (DataType::Int8, false), (DataType::Int32, true), (DataType::Half, true)]
    {
        let graph = filled(data_type, lowest);
        let chooses = graph.operations().any(|one| one.pointwise_mode() == Some(PointwiseMode::BinarySelect));
        assert_eq!(chooses, !masks, "{data_type}: {}", graph.text());
        assert_eq!(graph.key(), filled(data_type, lowest.of_type(data_type)).key(), "{data_type}");
    }
}
