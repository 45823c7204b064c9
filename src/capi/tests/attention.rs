//! Attention in each form that programs send (attention.md 2.2, 2.3), by descriptors.

use super::*;
use crate::graph::attention_samples::{Attention, Backward, Form, backward_table, table};
use crate::graph::{Attributes, BAND_MASK, Composite, FILL, GraphKey, Operation, TensorHandle};

use Name as N;

const U_LIST: [(Port, Name); 5] = [
    (Port::SEQ_LEN_Q, N::CUDNN_ATTR_OPERATION_SDPA_FWD_SEQ_LEN_QDESC),
    (Port::SEQ_LEN_KV, N::CUDNN_ATTR_OPERATION_SDPA_FWD_SEQ_LEN_KVDESC),
    (Port::PAGE_TABLE_K, N::CUDNN_ATTR_OPERATION_SDPA_FWD_PAGE_TABLE_KDESC),
    (Port::PAGE_TABLE_V, N::CUDNN_ATTR_OPERATION_SDPA_FWD_PAGE_TABLE_VDESC),
    (Port::BLOCK_MASK, N::CUDNN_ATTR_OPERATION_SDPA_FWD_BLOCK_MASK_DESC),
];

/// An operation's kind, its bundle of attributes with the attribute that refers to it, and its slots.
type Described = (Kind, Option<(Name, Owned)>, &'static [(Port, Name)]);

const POINTWISE: &[(Port, N)] = &[
    (Port::IN_0, N::CUDNN_ATTR_OPERATION_POINTWISE_XDESC),
    (Port::IN_1, N::CUDNN_ATTR_OPERATION_POINTWISE_BDESC),
    (Port::IN_2, N::CUDNN_ATTR_OPERATION_POINTWISE_TDESC),
    (Port::OUT_0, N::CUDNN_ATTR_OPERATION_POINTWISE_YDESC),
];

/// Those of a pointwise function's gradient.
const GRADIENT: &[(Port, N)] = &[
    (Port::IN_0, N::CUDNN_ATTR_OPERATION_POINTWISE_DYDESC),
    (Port::IN_1, N::CUDNN_ATTR_OPERATION_POINTWISE_XDESC),
    (Port::OUT_0, N::CUDNN_ATTR_OPERATION_POINTWISE_DXDESC),
];

/// Descriptors of a graph's tensors and operations.
struct Program<'a> {
    graph: &'a Graph,
}

fn raw_type(data_type: Option<DataType>) -> RawType {
    match data_type {
        Some(DataType::Half) => HALF,
        Some(DataType::Int32) => RawType::CUDNN_DATA_INT32,
        Some(DataType::Int64) => RawType::CUDNN_DATA_INT64,
        Some(DataType::UInt8) => RawType::CUDNN_DATA_UINT8,
        Some(DataType::Boolean) => RawType::CUDNN_DATA_BOOLEAN,
        _ => FLOAT,
    }
}

impl Program<'_> {
    /// A descriptor of its own for each use: uids tell which are one tensor (AT-P20).
    fn tensor(&self, id: TensorHandle) -> Owned {
        self.tensor_with(id, |_| {})
    }

    fn tensor_with(&self, id: TensorHandle, change: impl FnOnce(&mut Tensor)) -> Owned {
        let mut tensor = self.graph.tensors()[id.index()].clone();
        change(&mut tensor);
        let uid = tensor.uid.expect("a uid");
        let made = unfinished_tensor(uid, raw_type(tensor.data_type), &tensor.dim, &tensor.stride, tensor.is_virtual);
        made.set(N::CUDNN_ATTR_TENSOR_IS_BY_VALUE, Type::CUDNN_TYPE_BOOLEAN, &[tensor.is_pass_by_value]);
        made.finalize()
    }

    /// A bundle of attributes: an enumerator, and the type to compute in.
    fn bundle(&self, kind: Kind, compute: Name, mode: Option<(Name, Type, u32)>, axis: Option<i64>) -> Owned {
        let bundle = Owned::new(kind);
        bundle.set(compute, Type::CUDNN_TYPE_DATA_TYPE, &[FLOAT as u32]);
        if let Some((name, of_type, number)) = mode {
            bundle.set(name, of_type, &[number]);
        }
        if let Some(axis) = axis {
            bundle.set(N::CUDNN_ATTR_POINTWISE_AXIS, Type::CUDNN_TYPE_INT64, &[axis]);
        }
        bundle.finalize()
    }

    fn operation(&self, operation: &Operation<TensorHandle>) -> Owned {
        use Type::{CUDNN_TYPE_POINTWISE_MODE as MODE, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE as OPERATOR};
        let (kind, bundle, slots): Described = match &operation.attributes {
            Attributes::Matmul(_) => {
                let kind = Kind::CUDNN_BACKEND_MATMUL_DESCRIPTOR;
                let bundle = self.bundle(kind, N::CUDNN_ATTR_MATMUL_COMP_TYPE, None, None);
                let slots = &[
                    (Port::A, N::CUDNN_ATTR_OPERATION_MATMUL_ADESC),
                    (Port::B, N::CUDNN_ATTR_OPERATION_MATMUL_BDESC),
                    (Port::C, N::CUDNN_ATTR_OPERATION_MATMUL_CDESC),
                    (Port::M_OVERRIDE, N::CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC),
                    (Port::N_OVERRIDE, N::CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC),
                    (Port::K_OVERRIDE, N::CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC),
                ];
                let bundle = Some((N::CUDNN_ATTR_OPERATION_MATMUL_DESC, bundle));
                (Kind::CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, bundle, slots)
            }
            Attributes::Pointwise(pointwise) => {
                let mode = translate::raw_pointwise(pointwise.mode) as u32;
                let mode = Some((N::CUDNN_ATTR_POINTWISE_MODE, MODE, mode));
                let kind = Kind::CUDNN_BACKEND_POINTWISE_DESCRIPTOR;
                let bundle = self.bundle(kind, N::CUDNN_ATTR_POINTWISE_MATH_PREC, mode, pointwise.axis);
                let slots = match pointwise.mode {
                    mode if mode.is_backward() => GRADIENT,
                    _ => POINTWISE,
                };
                let bundle = Some((N::CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, bundle));
                (Kind::CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, bundle, slots)
            }
            Attributes::Reduction(reduction) => {
                let number = (0..10).find(|&number| translate::reduction(number).ok() == Some(reduction.mode));
                let mode = Some((N::CUDNN_ATTR_REDUCTION_OPERATOR, OPERATOR, number.expect("an operator")));
                let kind = Kind::CUDNN_BACKEND_REDUCTION_DESCRIPTOR;
                let bundle = self.bundle(kind, N::CUDNN_ATTR_REDUCTION_COMP_TYPE, mode, None);
                let slots = &[
                    (Port::X, N::CUDNN_ATTR_OPERATION_REDUCTION_XDESC),
                    (Port::Y, N::CUDNN_ATTR_OPERATION_REDUCTION_YDESC),
                ];
                let bundle = Some((N::CUDNN_ATTR_OPERATION_REDUCTION_DESC, bundle));
                (Kind::CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, bundle, slots)
            }
            Attributes::Composite(Composite::PagedCacheLoad(_)) => {
                (Kind::CUDNN_BACKEND_OPERATION_PAGED_CACHE_LOAD_DESCRIPTOR, None, LOAD)
            }
            Attributes::Composite(Composite::Softmax(_)) => {
                (Kind::CUDNN_BACKEND_OPERATION_SOFTMAX_DESCRIPTOR, None, SOFTMAX)
            }
            Attributes::Other(other) if other.tag == BAND_MASK => {
                (Kind::CUDNN_BACKEND_OPERATION_DIAGONAL_BAND_MASK_DESCRIPTOR, None, BAND)
            }
            Attributes::Other(other) if other.tag == "RESHAPE" => {
                (Kind::CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, None, RESHAPE)
            }
            Attributes::Other(other) if other.tag == "RNG" => {
                let bundle = random(0, other.attributes["bernoulli_probability"].as_f64().expect("a number"));
                let bundle = Some((N::CUDNN_ATTR_OPERATION_RNG_DESC, bundle.finalize()));
                (Kind::CUDNN_BACKEND_OPERATION_RNG_DESCRIPTOR, bundle, RANDOM)
            }
            other => panic!("{} is no operation of these programs", other.tag()),
        };
        let made = Owned::new(kind);
        if let Some((name, bundle)) = &bundle {
            made.refer(*name, bundle);
        }
        if let Attributes::Other(other) = &operation.attributes
            && other.tag == BAND_MASK
        {
            let mode = match other.attributes["mode"].as_str() {
                Some("CMP_GE") => RawMode::CUDNN_POINTWISE_CMP_GE,
                _ => RawMode::CUDNN_POINTWISE_CMP_GT,
            };
            made.set(N::CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_COMPARISON_MODE, MODE, &[mode as u32]);
        }
        for (port, id) in operation.inputs.iter().chain(&operation.outputs) {
            let name = slots.iter().find(|slot| slot.0 == *port).expect("a slot").1;
            made.refer(name, &self.tensor(*id));
        }
        made.finalize()
    }

    /// The graph, operation by operation.
    fn operations(&self) -> Owned {
        let operations = self.graph.operations().iter().map(|operation| self.operation(operation));
        graph_of(&operations.collect::<Vec<_>>(), None)
    }

    /// The graph as one node (U), or without what older frontends do not nest (u).
    fn unified(&self) -> Owned {
        graph_of(&[self.node(true).finalize()], None)
    }

    /// The node before it is finalized.
    fn node(&self, nests: bool) -> Owned {
        let operations = self.graph.operations();
        let (first, last, softmax) =
            (&operations[0], &operations[operations.len() - 1], &operations[operations.len() - 2]);
        let node = Owned::new(Kind::CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR);
        let at = |operation: &Operation<TensorHandle>, port| operation.input(port).expect("an operand");
        let named = |name: &str| self.graph.tensor_ids().find(|id| self.graph.tensors()[id.index()].name == name);
        let is_paged = named("Page_table_K").is_some();
        let k = self.tensor_with(at(first, Port::B), |k| {
            if !is_paged {
                k.dim.swap(2, 3);
                k.stride.swap(2, 3);
            }
        });
        node.refer(N::CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC, &self.tensor(at(first, Port::A)))
            .refer(N::CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC, &k)
            .refer(N::CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC, &self.tensor(at(last, Port::B)))
            .refer(N::CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC, &self.tensor(last.result().expect("O")));
        let mut middle = &operations[1..operations.len() - 2];
        if let Some(scale) = named("scale") {
            node.refer(N::CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC, &self.tensor(scale));
            middle = &middle[1..];
        }
        for (port, name) in U_LIST {
            if let Some(tensor) = named(port.0) {
                node.refer(name, &self.tensor(tensor));
            }
        }
        if let Some(operation) = middle.first() {
            let operations: Vec<Owned> = middle.iter().map(|operation| self.operation(operation)).collect();
            let input = operation.inputs[0].1;
            let output = softmax.input(Port::X).expect("X");
            let uid = |id: TensorHandle| self.graph.tensors()[id.index()].uid.expect("a uid");
            node.refer(N::CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH, &graph_of(&operations, None))
                .set(N::CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH_INPUT_UID, Type::CUDNN_TYPE_INT64, &[uid(input)])
                .set(N::CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH_OUTPUT_UID, Type::CUDNN_TYPE_INT64, &[uid(output)]);
        }
        let stored = |id: &TensorHandle| !self.graph.tensors()[id.index()].is_virtual;
        let statistics: Vec<_> = softmax.outputs.iter().skip(1).filter(|slot| stored(&slot.1)).collect();
        let sink = softmax.input(Port::SINK);
        match (&statistics[..], sink, nests) {
            ([], None, _) => {}
            (&[&(Port::STATS, stats)], None, false) => {
                node.refer(N::CUDNN_ATTR_OPERATION_SDPA_FWD_STATSDESC, &self.tensor(stats));
            }
            _ => {
                let nested = Owned::new(Kind::CUDNN_BACKEND_OPERATION_SOFTMAX_DESCRIPTOR);
                // they connect to nothing, and are of no shape
                for (uid, name) in [(901, SOFTMAX[0].1), (902, SOFTMAX[2].1)] {
                    nested.refer(name, &unfinished_tensor(uid, FLOAT, &[1; 4], &[1; 4], true).finalize());
                }
                for (port, id) in statistics.into_iter().copied().chain(sink.map(|sink| (Port::SINK, sink))) {
                    let name = SOFTMAX.iter().find(|slot| slot.0 == port).expect("a slot").1;
                    nested.refer(name, &self.tensor(id));
                }
                node.refer(N::CUDNN_ATTR_OPERATION_SDPA_FWD_SOFTMAX_DESC, &nested.finalize());
            }
        }
        node
    }
}

const LOAD: &[(Port, Name)] = &[
    (Port::CONTAINER, N::CUDNN_ATTR_OPERATION_PAGED_CACHE_LOAD_CONTAINER_DESC),
    (Port::SEQ_LEN, N::CUDNN_ATTR_OPERATION_PAGED_CACHE_LOAD_SEQUENCE_DESC),
    (Port::PAGE_TABLE, N::CUDNN_ATTR_OPERATION_PAGED_CACHE_LOAD_PAGE_TABLE_DESC),
    (Port::Y_OUT, N::CUDNN_ATTR_OPERATION_PAGED_CACHE_LOAD_YDESC),
];

const SOFTMAX: &[(Port, Name)] = &[
    (Port::X, N::CUDNN_ATTR_OPERATION_SOFTMAX_XDESC),
    (Port::SINK, N::CUDNN_ATTR_OPERATION_SOFTMAX_SINK_DESC),
    (Port::Y, N::CUDNN_ATTR_OPERATION_SOFTMAX_YDESC),
    (Port::STATS, N::CUDNN_ATTR_OPERATION_SOFTMAX_STATS_DESC),
    (Port::MAX, N::CUDNN_ATTR_OPERATION_SOFTMAX_MAX_DESC),
    (Port::SUM_EXP, N::CUDNN_ATTR_OPERATION_SOFTMAX_SUM_EXP_DESC),
];

const RESHAPE: &[(Port, Name)] =
    &[(Port::X, N::CUDNN_ATTR_OPERATION_RESHAPE_XDESC), (Port::Y, N::CUDNN_ATTR_OPERATION_RESHAPE_YDESC)];

const RANDOM: &[(Port, Name)] = &[
    (Port("Seed"), N::CUDNN_ATTR_OPERATION_RNG_SEED),
    (Port("Offset"), N::CUDNN_ATTR_OPERATION_RNG_OFFSET_DESC),
    (Port::Y, N::CUDNN_ATTR_OPERATION_RNG_YDESC),
];

/// Attributes of random numbers, before they are finalized.
fn random(distribution: u32, probability: f64) -> Owned {
    let random = Owned::new(Kind::CUDNN_BACKEND_RNG_DESCRIPTOR);
    random.set(N::CUDNN_ATTR_RNG_DISTRIBUTION, Type::CUDNN_TYPE_RNG_DISTRIBUTION, &[distribution]).set(
        N::CUDNN_ATTR_RNG_BERNOULLI_DIST_PROBABILITY,
        Type::CUDNN_TYPE_DOUBLE,
        &[probability],
    );
    random
}

const BAND: &[(Port, Name)] = &[
    (Port::X, N::CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_XDESC),
    (Port::SEQ_LEN_KV, N::CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_SEQ_LEN_KVDESC),
    (Port::SEQ_LEN_Q, N::CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_SEQ_LEN_QDESC),
    (Port::LEFT_BOUND, N::CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_LEFT_BOUND_DESC),
    (Port::RIGHT_BOUND, N::CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_SHIFT_RIGHT_BOUND_DESC),
    (FILL, N::CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_BDESC),
    (Port::Y, N::CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_YDESC),
];

fn key(graph: &Owned) -> GraphKey {
    let built = descriptor::find(graph.0).and_then(|graph| graph.object::<super::super::graph::OperationGraph>());
    built.and_then(|graph| graph.graph().map(|graph| graph.key())).unwrap_or_else(|failure| panic!("{failure:?}"))
}

/// As programs send it: host scalars without values.
fn sent(attention: Attention, form: Form) -> Graph {
    Attention { is_known: false, ..attention }.graph(form)
}

#[test]
fn every_form_by_descriptors_has_one_key() {
    for (name, attention) in table() {
        let node = Attention { is_known: false, ..attention }.graph(Form::Nodes).finalize().expect("well formed");
        let expected = sent(attention, Form::Operations).finalize().expect("well formed").key();
        if attention.left.is_none() && attention.right.is_none_or(|right| right == 0) && !attention.is_bottom_right {
            assert_eq!(node.key(), expected, "{name}: the node of a graph file");
        }
        // no operations mask by blocks (AT-P16)
        for form in [Form::Operations, Form::Old].into_iter().filter(|_| !attention.blocks) {
            let graph = sent(attention, form);
            assert_eq!(key(&Program { graph: &graph }.operations()), expected, "{name}, {form:?}");
        }
        // one node of dropout is sent by later versions alone (AT-P15)
        if attention.dropped.is_some() || attention.masked {
            continue;
        }
        let graph = sent(attention, Form::Unified);
        let program = Program { graph: &graph };
        assert_eq!(key(&program.unified()), expected, "{name}, one node");
        let older = graph_of(&[program.node(false).finalize()], None);
        assert_eq!(key(&older), expected, "{name}, one node with its statistics");
    }
}

#[test]
fn attention_of_pages_by_descriptors_has_engines() {
    let attention =
        Attention { head_sizes: [64, 128], heads: [8, 2, 2], lengths: true, keys: 128, ..Attention::default() };
    for pages in [[Some(64), Some(16)], [Some(1), None], [None, Some(128)]] {
        let graph = |form| sent(Attention { pages, right: Some(0), ..attention }, form);
        for form in [Form::Operations, Form::Old] {
            heuristics(&Program { graph: &graph(form) }.operations(), Mode::CUDNN_HEUR_MODE_A).finalize();
        }
        heuristics(&Program { graph: &graph(Form::Unified) }.unified(), Mode::CUDNN_HEUR_MODE_A).finalize();
    }
}

/// AT-E9, AT-E11, AT-O17: tables and lengths, in one node and as an operation.
#[test]
fn pages_are_held_to_their_rules() {
    let plain = Attention { keys: 8, ..Attention::default() };
    let paged = Attention { pages: [Some(4), Some(2)], lengths: true, ..plain };
    let table = N::CUDNN_ATTR_OPERATION_SDPA_FWD_PAGE_TABLE_KDESC;
    let int32 = RawType::CUDNN_DATA_INT32;
    let without = changed(plain, |node| node.refer(table, &tensor(800, int32, [2, 1, 1, 1])));
    refused(&without, Status::CUDNN_STATUS_NOT_SUPPORTED, "lengths of both sequences [AT-E11]");
    let with = |other: Owned| changed(paged, |node| node.refer(table, &other));
    with(tensor(800, int32, [2, 1, 2, 1])).finalize();
    refused(&with(tensor(800, int32, [3, 1, 2, 1])), SHAPE, "AT-E11");
    refused(&with(tensor(800, int32, [2, 2, 1, 1])), SHAPE, "AT-E11");
    refused(&with(tensor(800, HALF, [2, 1, 2, 1])), SHAPE, "AT-E11");
    let load = |entries: i64, lengths: [i64; 4], y: [i64; 4]| {
        let load = Owned::new(Kind::CUDNN_BACKEND_OPERATION_PAGED_CACHE_LOAD_DESCRIPTOR);
        load.refer(LOAD[0].1, &tensor(1, HALF, [9, 2, 4, 16]))
            .refer(LOAD[1].1, &tensor(2, int32, lengths))
            .refer(LOAD[2].1, &tensor(3, int32, [2, 1, entries, 1]))
            .refer(LOAD[3].1, &tensor(4, HALF, y));
        load
    };
    let (lengths, y) = ([2, 1, 1, 1], [2, 2, 7, 16]);
    load(2, lengths, y).finalize();
    load(2, lengths, [2, 2, 16, 7]).finalize();
    refused(&load(1, lengths, y), SHAPE, "required [2, 1, 2, 1]");
    refused(&load(2, [1, 1, 1, 1], y), BAD, "AT-E9");
    refused(&load(2, lengths, [2, 1, 7, 16]), SHAPE, "AT-O17");
    let unfinished = Owned::new(Kind::CUDNN_BACKEND_OPERATION_PAGED_CACHE_LOAD_DESCRIPTOR);
    refused(&unfinished, BAD, "CONTAINER_DESC");
}

#[test]
fn every_backward_pass_by_descriptors_has_one_key() {
    for (name, backward) in backward_table() {
        let attention = Attention { is_known: false, ..backward.attention };
        let backward = Backward { attention, ..backward };
        let expected = backward.graph(Form::Operations).finalize().expect("well formed").key();
        for form in [Form::Operations, Form::Old] {
            let graph = backward.graph(form);
            assert_eq!(key(&Program { graph: &graph }.operations()), expected, "{name}, {form:?}");
        }
    }
}

#[test]
fn a_backward_pass_by_descriptors_has_engines() {
    let attention = Attention { head_sizes: [64, 64], keys: 128, is_known: false, ..Attention::default() };
    let causal = Attention { heads: [4, 2, 2], right: Some(0), ..attention };
    let dropped = Attention { dropped: Some(0.1), ..causal };
    let capped = Attention { cap: true, ..dropped };
    for attention in [attention, causal, dropped, capped] {
        let graph = Backward::new(attention).graph(Form::Operations);
        heuristics(&Program { graph: &graph }.operations(), Mode::CUDNN_HEUR_MODE_A).finalize();
    }
}

/// What is left of a graph that is no backward pass is refused by engines, and not by the graph.
#[test]
fn a_backward_pass_with_what_no_engine_computes_is_refused_by_engines() {
    let groups = Attention { heads: [6, 2, 3], ..Attention::default() };
    let mut scores = Backward::new(Attention { cap: true, ..groups }).graph(Form::Operations);
    for operation in &mut scores.operations {
        if let Attributes::Pointwise(pointwise) = &mut operation.attributes
            && pointwise.mode == PointwiseMode::TanhFwd
        {
            pointwise.mode = PointwiseMode::SigmoidFwd; // whose gradient is not tanh's
        }
    }
    let asked = heuristics(&Program { graph: &scores }.operations(), Mode::CUDNN_HEUR_MODE_A);
    let status = cudnnBackendFinalize(asked.0);
    assert_eq!(status, Status::CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, "{}", last_error());
}

/// AT-P29, AT-P41.
#[test]
fn operations_of_backward_passes_are_held_to_their_rules() {
    refused(&random(1, 0.9), Status::CUDNN_STATUS_NOT_SUPPORTED, "than BERNOULLI [AT-E16]");
    for probability in [0.0, -0.5, 1.5, f64::NAN] {
        refused(&random(0, probability), BAD, "required above 0, at most 1 [AT-E16]");
    }
    random(0, 1.0).finalize();
    random(0, 0.9).finalize();
    let reshape = |y: [i64; 4]| {
        let reshape = Owned::new(Kind::CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
        reshape.refer(RESHAPE[0].1, &tensor(1, FLOAT, [2, 2, 5, 7])).refer(RESHAPE[1].1, &tensor(2, HALF, y));
        // 2202 came with later versions
        let mode = [0_u32];
        // SAFETY: there is one element.
        let status = unsafe { cudnnBackendSetAttribute(reshape.0, 2202, 31, 1, mode.as_ptr().cast()) };
        assert_eq!(status, Status::CUDNN_STATUS_SUCCESS);
        reshape
    };
    reshape([2, 2, 7, 5]).finalize();
    refused(&reshape([2, 2, 7, 6]), BAD, "RESHAPE-SHAPE");
}

fn refused(unfinished: &Owned, status: Status, text: &str) {
    let found = cudnnBackendFinalize(unfinished.0);
    let message = last_error();
    assert_eq!(found, status, "{message}");
    assert!(message.contains(text), "{message}");
}

const BAD: Status = Status::CUDNN_STATUS_BAD_PARAM;
const SHAPE: Status = Status::CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH;

/// A plain node with something set, or set otherwise.
fn changed(attention: Attention, change: impl FnOnce(&Owned) -> &Owned) -> Owned {
    let graph = sent(attention, Form::Unified);
    let node = Program { graph: &graph }.node(true);
    change(&node);
    node
}

fn tensor(uid: i64, data_type: RawType, dim: [i64; 4]) -> Owned {
    let stride = [dim[1] * dim[2] * dim[3], dim[2] * dim[3], dim[3], 1];
    unfinished_tensor(uid, data_type, &dim, &stride, false).finalize()
}

#[test]
fn what_no_engine_computes_is_named() {
    let plain = Attention::default();
    let unsupported = Status::CUDNN_STATUS_NOT_SUPPORTED;
    for (name, text) in [
        (N::CUDNN_ATTR_OPERATION_SDPA_FWD_DROPOUT_SEED_DESC, "dropout [AT-O13]"),
        (N::CUDNN_ATTR_OPERATION_SDPA_FWD_DROPOUT_OFFSET_DESC, "dropout [AT-O13]"),
        (N::CUDNN_ATTR_OPERATION_SDPA_FWD_DROPOUT_RNG_DUMP_DESC, "dropout [AT-O13]"),
    ] {
        let other = tensor(800, RawType::CUDNN_DATA_INT32, [2, 1, 1, 1]);
        refused(&changed(plain, |node| node.refer(name, &other)), unsupported, text);
    }
    let dropout = N::CUDNN_ATTR_OPERATION_SDPA_FWD_DROPOUT_PROBABILITY;
    let chance = changed(plain, |node| node.set(dropout, Type::CUDNN_TYPE_FLOAT, &[0.1_f32]));
    refused(&chance, unsupported, "dropout [AT-O13]");
    let hint = N::CUDNN_ATTR_OPERATION_SDPA_FWD_UNFUSE_FMA;
    let hinted = changed(plain, |node| node.set(hint, Type::CUDNN_TYPE_BOOLEAN, &[true]));
    hinted.finalize();
    let descriptor = Owned::new(Kind::CUDNN_BACKEND_OPERATION_SDPA_BWD_DESCRIPTOR);
    // attributes that nobody knows are taken: 2202 came with later versions (AT-P29)
    let number = [0_u32];
    // SAFETY: there is one element.
    let status = unsafe { cudnnBackendSetAttribute(descriptor.0, 2202, 31, 1, number.as_ptr().cast()) };
    assert_eq!(status, Status::CUDNN_STATUS_SUCCESS);
    refused(&descriptor, unsupported, "gradient as one node [AT-P27]");
}

#[test]
fn bad_nodes_have_their_status() {
    let plain = Attention::default();
    let with = |name: Name, other: Owned| changed(plain, |node| node.refer(name, &other));
    let q = N::CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC;
    let of_rank_3 = unfinished_tensor(1, HALF, &[4, 5, 8], &[40, 8, 1], false).finalize();
    refused(&with(q, of_rank_3), SHAPE, "AT-E1");
    refused(&with(q, tensor(1, HALF, [2, 2, 5, 16])), SHAPE, "AT-E2");
    refused(&with(q, tensor(1, HALF, [2, 3, 5, 8])), SHAPE, "AT-E3");
    refused(&with(N::CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC, tensor(4, HALF, [2, 2, 5, 16])), SHAPE, "AT-E2");
    let scale = N::CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC;
    refused(&with(scale, tensor(800, FLOAT, [1, 2, 1, 1])), SHAPE, "AT-E8");
    let stats = N::CUDNN_ATTR_OPERATION_SDPA_FWD_STATSDESC;
    let without = Attention { statistics: [false; 3], ..plain };
    let stats_of = |other: Owned| changed(without, |node| node.refer(stats, &other));
    refused(&stats_of(tensor(800, HALF, [2, 2, 5, 1])), BAD, "AT-E7");
    refused(&stats_of(tensor(800, FLOAT, [2, 2, 5, 2])), SHAPE, "AT-E8");
    let [queries, keys, ..] = U_LIST.map(|row| row.1);
    refused(&with(keys, tensor(800, RawType::CUDNN_DATA_INT32, [2, 1, 1, 1])), BAD, "AT-E9");
    let both = |data_type: RawType, dim: [i64; 4]| {
        changed(plain, |node| {
            node.refer(queries, &tensor(800, data_type, dim)).refer(keys, &tensor(801, data_type, dim))
        })
    };
    refused(&both(RawType::CUDNN_DATA_INT64, [2, 1, 1, 1]), BAD, "AT-E9");
    refused(&both(RawType::CUDNN_DATA_INT32, [1, 1, 1, 1]), BAD, "AT-E9");
}

/// AT-O11, AT-E19: a mask of blocks, of 300 queries by 1100 keys.
#[test]
fn a_block_mask_is_bytes_of_the_extents_of_scores() {
    let attention = Attention { keys: 1100, head_sizes: [64, 64], ..Attention::default() };
    let mask = N::CUDNN_ATTR_OPERATION_SDPA_FWD_BLOCK_MASK_DESC;
    let with =
        |data_type: RawType, dim: [i64; 4]| changed(attention, |node| node.refer(mask, &tensor(800, data_type, dim)));
    let bytes = RawType::CUDNN_DATA_UINT8;
    let node = with(bytes, [2, 2, 1, 2]).finalize();
    heuristics(&graph_of(&[node], None), Mode::CUDNN_HEUR_MODE_A).finalize();
    for dim in [[2, 2, 1, 1], [2, 2, 1, 9], [2, 1, 1, 2], [1, 2, 1, 2], [2, 2, 2, 2]] {
        refused(&with(bytes, dim), SHAPE, "required [2, 2, 1, 2]: a bit for each tile of 128 by 128");
    }
    refused(&with(RawType::CUDNN_DATA_INT32, [2, 2, 1, 2]), SHAPE, "required UINT8 [AT-E19]");
}

/// AT-E20: what the graph of a score's operations may be.
#[test]
fn graphs_of_modified_scores_are_checked() {
    let causal = Attention { right: Some(0), ..Attention::default() };
    let output = N::CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH_OUTPUT_UID;
    let input = N::CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH_INPUT_UID;
    let subgraph = N::CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH;
    let set = |name: Name| changed(causal, |node| node.set(name, Type::CUDNN_TYPE_INT64, &[77_i64]));
    refused(&set(output), BAD, "AT-E20");
    refused(&set(input), BAD, "AT-E20");
    let unfinished = Owned::new(Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    let early = changed(causal, |node| node.refer(subgraph, &unfinished));
    refused(&early, Status::CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "not finalized");
    let alone = changed(Attention::default(), |node| node.set(input, Type::CUDNN_TYPE_INT64, &[1_i64]));
    refused(&alone, BAD, "AT-E20");
}

#[test]
fn an_attention_has_none_inside() {
    let graph = sent(Attention::default(), Form::Unified);
    let program = Program { graph: &graph };
    let inside = program.unified();
    let node = program.node(true);
    node.refer(N::CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH, &inside)
        .set(N::CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH_INPUT_UID, Type::CUDNN_TYPE_INT64, &[1_i64])
        .set(N::CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH_OUTPUT_UID, Type::CUDNN_TYPE_INT64, &[4_i64]);
    refused(&node, Status::CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, "AT-E20");
}

/// A mask's descriptor on scores, before it is finalized.
fn band(slots: &[(Name, &Owned)], mode: RawMode) -> Owned {
    let mask = Owned::new(Kind::CUDNN_BACKEND_OPERATION_DIAGONAL_BAND_MASK_DESCRIPTOR);
    mask.refer(BAND[0].1, &tensor(1, FLOAT, [2, 2, 5, 7])).refer(BAND[6].1, &tensor(2, FLOAT, [2, 2, 5, 7]));
    mask.set(
        N::CUDNN_ATTR_OPERATION_DIAGONAL_BAND_MASK_COMPARISON_MODE,
        Type::CUDNN_TYPE_POINTWISE_MODE,
        &[mode as u32],
    );
    for (name, other) in slots {
        mask.refer(*name, other);
    }
    mask
}

#[test]
fn masks_have_one_whole_bound() {
    let ge = RawMode::CUDNN_POINTWISE_CMP_GE;
    let whole = tensor(3, RawType::CUDNN_DATA_INT32, [1; 4]);
    let half = tensor(4, HALF, [1; 4]);
    let many = tensor(5, FLOAT, [2, 1, 1, 1]);
    let (left, right) = (BAND[3].1, BAND[4].1);
    refused(&band(&[(left, &whole), (right, &half)], ge), BAD, "AT-E12");
    refused(&band(&[(right, &half)], ge), BAD, "AT-E12");
    refused(&band(&[(right, &many)], ge), BAD, "AT-E12");
    refused(&band(&[(BAND[1].1, &whole)], ge), BAD, "AT-E9");
    let wide = tensor(2, FLOAT, [2, 2, 5, 8]);
    refused(&band(&[(BAND[6].1, &wide)], ge), SHAPE, "dims");
}

/// AT-E13, AT-E21, and what has two products without an attention (AT-P52).
#[test]
fn what_is_no_attention_is_refused_by_engines() {
    let pattern = Status::CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN;
    let alone = graph_of(&[band(&[], RawMode::CUDNN_POINTWISE_CMP_GE).finalize()], None);
    let asked = heuristics(&alone, Mode::CUDNN_HEUR_MODE_A);
    refused(&asked, pattern, "DIAGONAL_BAND_MASK");
    let causal = sent(Attention { right: Some(0), ..Attention::default() }, Form::Operations);
    let mut otherwise = causal.clone();
    for operation in &mut otherwise.operations {
        if let Attributes::Other(other) = &mut operation.attributes {
            other.attributes.insert("mode".to_owned(), "CMP_GT".into());
        }
    }
    let asked = heuristics(&Program { graph: &otherwise }.operations(), Mode::CUDNN_HEUR_MODE_A);
    assert_eq!(cudnnBackendFinalize(asked.0), pattern, "{}", last_error());
}

/// AT-O14: whatever stands between a softmax and the second product.
#[test]
fn a_mask_of_dropout_is_refused_by_engines() {
    let mut graph = sent(Attention::default(), Form::Operations);
    let dim = [2, 2, 5, 7];
    let mask = graph.tensor(Tensor::new("mask").row_major(dim).data_type(DataType::Half).uid(950));
    let kept = Tensor::new("kept").row_major(dim).data_type(DataType::Half).uid(951);
    let kept = graph.tensor(Tensor { is_virtual: true, ..kept });
    let mut last = graph.operations.pop().expect("the second product");
    let p = std::mem::replace(&mut last.inputs[0].1, kept);
    graph.operation(Operation {
        name: "dropout".to_owned(),
        attributes: Attributes::Pointwise(crate::graph::Pointwise::new(PointwiseMode::Mul)),
        compute_data_type: Some(DataType::Float),
        inputs: vec![(Port::IN_0, p), (Port::IN_1, mask)],
        outputs: vec![(Port::OUT_0, kept)],
    });
    graph.operation(last);
    let asked = heuristics(&Program { graph: &graph }.operations(), Mode::CUDNN_HEUR_MODE_A);
    refused(&asked, Status::CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, "PAT-ONE-CORE");
}

/// A graph of virtual ends is a part of a node, and none of its own.
#[test]
fn a_part_has_no_engines() {
    let graph = sent(Attention { right: Some(0), ..Attention::default() }, Form::Unified);
    let operations = graph.operations();
    let program = Program { graph: &graph };
    let part = graph_of(&[program.operation(&operations[2])], None);
    refused(&heuristics(&part, Mode::CUDNN_HEUR_MODE_A), BAD, "GR-VIRTUAL-PRODUCER");
}
