//! Norms as the frontend describes them: each mode makes the graph that the Rust API makes.

use super::*;
use crate::graph::{
    BnBackwardWeights, BnFinalize, Composite, NormBackward, NormForward, NormMode, NormPhase, TensorHandle,
};

const X: [i64; 4] = [4, 8, 5, 7];
const CHANNEL: [i64; 4] = [1, 8, 1, 1];
const ROW: [i64; 4] = [4, 1, 1, 1];
const COLUMN: [i64; 4] = [1, 8, 5, 7];
const IMAGE: [i64; 4] = [4, 8, 1, 1];
const GROUPS: [i64; 4] = [4, 2, 1, 1];
const ONE: [i64; 4] = [1; 4];

/// A descriptor of a kind with enumerators set and FLOAT tensors at its slots, finalized, and the graph of the same tensors.
struct Described {
    descriptor: Owned,
    tensors: Vec<Owned>,
    graph: Graph,
    slots: Vec<(Port, TensorHandle)>,
}

impl Described {
    fn of(kind: Kind, enumerators: &[(Name, Type, u32)]) -> Self {
        let descriptor = Owned::new(kind);
        for &(name, attribute_type, value) in enumerators {
            descriptor.set(name, attribute_type, &[value]);
        }
        let graph = Graph::new().io_data_type(DataType::Float).compute_data_type(DataType::Float);
        Self { descriptor, tensors: Vec::new(), graph, slots: Vec::new() }
    }

    /// A tensor at a slot.
    fn with(mut self, (port, name): (Port, Name), dim: [i64; 4]) -> Self {
        let stride = [dim[1] * dim[2] * dim[3], 1, dim[3] * dim[1], dim[1]];
        let uid = self.tensors.len() as i64 + 1;
        let tensor = unfinished_tensor(uid, FLOAT, &dim, &stride, false).finalize();
        self.descriptor.refer(name, &tensor);
        self.tensors.push(tensor);
        self.slots.push((port, self.graph.tensor(Tensor::new(port.0).uid(uid).dim(dim).stride(stride))));
        self
    }

    /// So many tensors of peers at an attribute that lists them.
    fn with_peers(mut self, name: Name, gpus: usize, dim: [i64; 4]) -> Self {
        let stride = [dim[1], 1, 1, 1];
        let first = self.tensors.len() as i64 + 1;
        let peer = |uid| unfinished_tensor(uid, FLOAT, &dim, &stride, false).finalize();
        let peers: Vec<Owned> = (first..first + gpus as i64).map(peer).collect();
        let handles: Vec<_> = peers.iter().map(|peer| peer.0).collect();
        self.descriptor.set(name, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR, &handles);
        for (port, uid) in Port::PEER_STATS.into_iter().zip(first..).take(gpus) {
            self.slots.push((port, self.graph.tensor(Tensor::new(port.0).uid(uid).dim(dim).stride(stride))));
        }
        self.tensors.extend(peers);
        self
    }

    /// The descriptor makes the graph of this operation.
    fn makes(mut self, composite: impl Into<Composite>) {
        let composite = composite.into();
        let (inputs, outputs): (Vec<_>, Vec<_>) = self.slots.iter().partition(|slot| composite.has_port(slot.0).0);
        self.graph.operation(crate::graph::Operation {
            name: "norm".to_owned(),
            attributes: crate::graph::Attributes::Composite(composite),
            compute_data_type: None,
            inputs,
            outputs,
        });
        let made = graph_of(&[self.descriptor.finalize()], None);
        let built = descriptor::find(made.0).and_then(|graph| graph.object::<super::super::graph::OperationGraph>());
        assert_eq!(
            built.expect("a graph").graph().expect("a whole graph").key(),
            self.graph.finalize().expect("well formed").key()
        );
    }

    fn fails(self, status: Status, text: &str) {
        let found = cudnnBackendFinalize(self.descriptor.0);
        let error = last_error();
        assert_eq!(found, status, "{error}");
        assert!(error.contains(text), "{error}");
    }
}

fn forward(mode: u32, phase: u32) -> Described {
    Described::of(
        Kind::CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR,
        &[
            (Name::CUDNN_ATTR_OPERATION_NORM_FWD_MODE, Type::CUDNN_TYPE_NORM_MODE, mode),
            (Name::CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, Type::CUDNN_TYPE_NORM_FWD_PHASE, phase),
        ],
    )
    .with((Port::X, Name::CUDNN_ATTR_OPERATION_NORM_FWD_XDESC), X)
    .with((Port::Y, Name::CUDNN_ATTR_OPERATION_NORM_FWD_YDESC), X)
}

const MEAN: (Port, Name) = (Port::MEAN, Name::CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC);
const INVERSE: (Port, Name) = (Port::INV_VARIANCE, Name::CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC);
const SCALE: (Port, Name) = (Port::SCALE, Name::CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC);
const BIAS: (Port, Name) = (Port::BIAS, Name::CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC);
const EPSILON: (Port, Name) = (Port::EPSILON, Name::CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC);

#[test]
fn forward_norms_are_those_of_their_mode_and_phase() {
    let training = |mode| NormForward::new(mode, NormPhase::Training);
    let of_rows = |mode| forward(mode, 1).with(EPSILON, ONE).with(SCALE, COLUMN).with(INVERSE, ROW);
    of_rows(0).with(BIAS, COLUMN).with(MEAN, ROW).makes(training(NormMode::Layer));
    of_rows(4).makes(training(NormMode::Rms));
    forward(0, 0).with(EPSILON, ONE).with(SCALE, COLUMN).makes(NormForward::new(NormMode::Layer, NormPhase::Inference));
    let of_channels = |mode, statistics| {
        let norm = forward(mode, 1).with(EPSILON, ONE).with(SCALE, CHANNEL).with(BIAS, CHANNEL);
        norm.with(MEAN, statistics).with(INVERSE, statistics)
    };
    of_channels(1, IMAGE).makes(training(NormMode::Instance));
    of_channels(3, GROUPS).makes(training(NormMode::Group { count: None }));
    of_channels(2, CHANNEL)
        .with((Port::MOMENTUM, Name::CUDNN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC), ONE)
        .with((Port::PREV_RUNNING_MEAN, Name::CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC), CHANNEL)
        .with((Port::PREV_RUNNING_VAR, Name::CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC), CHANNEL)
        .with((Port::NEXT_RUNNING_MEAN, Name::CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC), CHANNEL)
        .with((Port::NEXT_RUNNING_VAR, Name::CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC), CHANNEL)
        .makes(training(NormMode::Batch));
}

#[test]
fn a_batch_norm_for_inference_reads_its_statistics() {
    forward(2, 0)
        .with(SCALE, CHANNEL)
        .with(BIAS, CHANNEL)
        .with(MEAN, CHANNEL)
        .with(INVERSE, CHANNEL)
        .makes(NormForward::new(NormMode::Batch, NormPhase::Inference));
}

/// A gradient of a mode, with the scale's.
fn backward(mode: u32, parameter: [i64; 4], statistics: [i64; 4]) -> Described {
    let mode = (Name::CUDNN_ATTR_OPERATION_NORM_BWD_MODE, Type::CUDNN_TYPE_NORM_MODE, mode);
    Described::of(Kind::CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR, &[mode])
        .with((Port::X, Name::CUDNN_ATTR_OPERATION_NORM_BWD_XDESC), X)
        .with((Port::DY, Name::CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC), X)
        .with((Port::DX, Name::CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC), X)
        .with((Port::SCALE, Name::CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC), parameter)
        .with((Port::INV_VARIANCE, Name::CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC), statistics)
        .with((Port::DSCALE, Name::CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC), parameter)
}

#[test]
fn gradients_of_norms_are_those_of_their_mode() {
    let centred = |described: Described, parameter, statistics| {
        described
            .with((Port::MEAN, Name::CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC), statistics)
            .with((Port::DBIAS, Name::CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC), parameter)
    };
    centred(backward(0, COLUMN, ROW), COLUMN, ROW).makes(NormBackward { mode: NormMode::Layer });
    centred(backward(1, CHANNEL, IMAGE), CHANNEL, IMAGE).makes(NormBackward { mode: NormMode::Instance });
    let told = NormMode::Group { count: None };
    centred(backward(3, CHANNEL, GROUPS), CHANNEL, GROUPS).makes(NormBackward { mode: told });
    centred(backward(2, CHANNEL, CHANNEL), CHANNEL, CHANNEL).makes(NormBackward { mode: NormMode::Batch });
    backward(4, COLUMN, ROW).makes(NormBackward { mode: NormMode::Rms });
}

#[test]
fn parts_of_batch_norms_are_what_they_are() {
    let float = FLOAT as u32;
    Described::of(
        Kind::CUDNN_BACKEND_OPERATION_BN_FINALIZE_STATISTICS_DESCRIPTOR,
        &[
            (Name::CUDNN_ATTR_OPERATION_BN_FINALIZE_STATS_MODE, Type::CUDNN_TYPE_BN_FINALIZE_STATS_MODE, 0),
            (Name::CUDNN_ATTR_OPERATION_BN_FINALIZE_MATH_PREC, Type::CUDNN_TYPE_DATA_TYPE, float),
        ],
    )
    .with((Port::SUM, Name::CUDNN_ATTR_OPERATION_BN_FINALIZE_Y_SUM_DESC), CHANNEL)
    .with((Port::SQ_SUM, Name::CUDNN_ATTR_OPERATION_BN_FINALIZE_Y_SQ_SUM_DESC), CHANNEL)
    .with((Port::ACCUM_COUNT, Name::CUDNN_ATTR_OPERATION_BN_FINALIZE_ACCUM_COUNT_DESC), ONE)
    .with((Port::EPSILON, Name::CUDNN_ATTR_OPERATION_BN_FINALIZE_EPSILON_DESC), ONE)
    .with((Port::SCALE, Name::CUDNN_ATTR_OPERATION_BN_FINALIZE_SCALE_DESC), CHANNEL)
    .with((Port::EQ_SCALE, Name::CUDNN_ATTR_OPERATION_BN_FINALIZE_EQ_SCALE_DESC), CHANNEL)
    .makes(BnFinalize::default());
    let precision = (Name::CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MATH_PREC, Type::CUDNN_TYPE_DATA_TYPE, float);
    Described::of(Kind::CUDNN_BACKEND_OPERATION_BN_BWD_WEIGHTS_DESCRIPTOR, &[precision])
        .with((Port::X, Name::CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_X_DESC), X)
        .with((Port::DY, Name::CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DY_DESC), X)
        .with((Port::SCALE, Name::CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_BN_SCALE_DESC), CHANNEL)
        .with((Port::MEAN, Name::CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MEAN_DESC), CHANNEL)
        .with((Port::INV_VARIANCE, Name::CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_INVSTD_DESC), CHANNEL)
        .with((Port::EQ_BIAS, Name::CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_BIAS), CHANNEL)
        .makes(BnBackwardWeights);
}

#[test]
fn wrong_descriptors_of_norms_are_told_by_their_status() {
    let bad = Status::CUDNN_STATUS_BAD_PARAM;
    let unset = Owned::new(Kind::CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR);
    assert_eq!(cudnnBackendFinalize(unset.0), bad);
    forward(0, 1).fails(bad, "CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC is not set; LAYER_NORM needs it");
    forward(2, 0).with(SCALE, CHANNEL).fails(bad, "CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC is not set");
    forward(9, 1).with(EPSILON, ONE).fails(bad, "NORM_FWD_MODE is 9");
    forward(0, 7).with(EPSILON, ONE).fails(bad, "NORM_FWD_PHASE is 7");
    let of_groups = Status::CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN;
    forward(3, 1).with(EPSILON, ONE).fails(of_groups, "num_groups is not set");
    forward(3, 1).with(EPSILON, ONE).with(MEAN, [4, 3, 1, 1]).fails(bad, "port MEAN: 3 groups of 8 channels");
    forward(0, 1).with(EPSILON, ONE).with_peers(FORWARD_PEERS, 1, PEER).fails(bad, "LAYER_NORM takes at most 0");
}

const FORWARD_PEERS: Name = Name::CUDNN_ATTR_OPERATION_NORM_FWD_PEER_STAT_DESCS;
const PEER: [i64; 4] = [2, 32, 1, 1];

#[test]
fn batch_norms_have_the_statistics_of_peers() {
    let batch = || forward(2, 1).with(EPSILON, ONE).with(SCALE, CHANNEL).with(BIAS, CHANNEL);
    batch().with_peers(FORWARD_PEERS, 2, PEER).makes(NormForward::new(NormMode::Batch, NormPhase::Training));
    let bad = Status::CUDNN_STATUS_BAD_PARAM;
    batch().with_peers(FORWARD_PEERS, 33, PEER).fails(bad, "33 tensors; BATCHNORM takes at most 32");
    backward(2, CHANNEL, CHANNEL)
        .with((Port::MEAN, Name::CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC), CHANNEL)
        .with_peers(Name::CUDNN_ATTR_OPERATION_NORM_BWD_PEER_STAT_DESCS, 2, PEER)
        .makes(NormBackward { mode: NormMode::Batch });
}
