//! Patterns around a convolution, which the runtime surfaces judge first.

use super::graphs::{FILTER, IMAGE, RESPONSE, named};
use super::*;
use crate::graph::{Convolution, ConvolutionDirection, DataType as T, PointwiseMode as M};
use crate::support::family::convolution::{BIAS_ACT, BN_FPROP, BN_WGRAD, DBARCS};

const F: &[At] = &[(BN_FPROP, 9, 0)];
const F80: &[At] = &[(BN_FPROP, 8, 0)];
const D: &[At] = &[(DBARCS, 9, 0)];
const W: &[At] = &[(BN_WGRAD, 9, 0)];
const W80: &[At] = &[(BN_WGRAD, 8, 0)];
const B: &[At] = &[(BIAS_ACT, 9, 0)];

pub(super) static SUITES: &[Suite] = &[
    suite("ConvBNfprop", fprop, &[(BN_FPROP, 9, 0), (BN_FPROP, 8, 0)], FPROP_PAIRS),
    suite("DBARCS", dual, D, DUAL_PAIRS),
    suite("ConvBNwgrad", wgrad, &[(BN_WGRAD, 9, 0), (BN_WGRAD, 8, 0)], WGRAD_PAIRS),
    suite("ConvBiasAct", biased, &[(BIAS_ACT, 9, 0), (BIAS_ACT, 7, 0)], BIASED_PAIRS),
];

const fn suite(name: &'static str, base: fn() -> Graph, legal: &'static [At], pairs: &'static [Pair]) -> Suite {
    Suite { name, base, legal, pairs, rows: &[] }
}

/// HALF in device memory and between operations.
fn half() -> Graph {
    Graph::new().io_data_type(T::Half).intermediate_data_type(T::Half).compute_data_type(T::Float)
}

const CHANNEL: [i64; 4] = [1, 16, 1, 1];

fn input(g: &mut Graph, name: &str, dim: [i64; 4]) -> TensorHandle {
    g.tensor(named(name, nhwc(dim)))
}

/// `image·scale + bias`, of operations and vectors with a prefix.
fn scaled(g: &mut Graph, prefix: &str) -> TensorHandle {
    let name = |part: &str| format!("{prefix}{part}");
    let image = input(g, &name("X"), IMAGE);
    let [scale, bias] = ["scale", "bias"].map(|part| input(g, &name(part), CHANNEL));
    let product = g.pointwise(&name("mul"), M::Mul, &[image, scale]);
    g.pointwise(&name("add"), M::Add, &[product, bias])
}

/// A convolution with a filter, and statistics of its result.
fn with_statistics(g: &mut Graph, x: TensorHandle, filter: [i64; 4], padding: i64) {
    let w = input(g, "W", filter);
    let convolution = Convolution::new(ConvolutionDirection::Forward, 2).padding([padding; 2]);
    let y = g.convolution("conv", convolution, [x, w]);
    *g.tensor_mut(y) = named("Y", nhwc(RESPONSE));
    let (sum, squares) = g.genstats("stats", y);
    for (id, name) in [(sum, "SUM"), (squares, "SQ_SUM")] {
        *g.tensor_mut(id) = named(name, nhwc([1, 32, 1, 1])).data_type(T::Float);
    }
}

fn fprop() -> Graph {
    let mut g = half();
    let sum = scaled(&mut g, "");
    let z = g.pointwise("relu", M::ReluFwd, &[sum]);
    with_statistics(&mut g, z, FILTER, 1);
    g
}

/// `conv(relu((X·s + b) + (dX·ds + db)), W)` with a filter of one tap.
fn dual() -> Graph {
    let mut g = half();
    let [first, second] = ["", "d"].map(|prefix| scaled(&mut g, prefix));
    let sum = g.pointwise("sum", M::Add, &[first, second]);
    let z = g.pointwise("relu", M::ReluFwd, &[sum]);
    *g.tensor_mut(z) = named("Relu_Y", nhwc(IMAGE));
    with_statistics(&mut g, z, [32, 16, 1, 1], 0);
    g
}

fn wgrad() -> Graph {
    let mut g = half();
    let sum = scaled(&mut g, "");
    let z = g.pointwise("relu", M::ReluFwd, &[sum]);
    let dy = input(&mut g, "dy", RESPONSE);
    let convolution = Convolution::new(ConvolutionDirection::BackwardFilter, 2).padding([1, 1]);
    let dw = g.convolution("conv", convolution, [dy, z]);
    *g.tensor_mut(dw) = named("dw", nhwc(FILTER));
    g
}

/// `relu(α₁·conv(X, W) + α₂·Z + bias)`.
fn biased() -> Graph {
    let mut g = half().intermediate_data_type(T::Float);
    let [x, w, z, bias] =
        [("X", IMAGE), ("W", FILTER), ("Z", RESPONSE), ("bias", [1, 32, 1, 1])].map(|row| input(&mut g, row.0, row.1));
    let [alpha1, alpha2] = ["alpha1", "alpha2"].map(|name| g.tensor(named(name, nhwc([1; 4])).data_type(T::Float)));
    let convolution = Convolution::new(ConvolutionDirection::Forward, 2).padding([1, 1]);
    let y = g.convolution("conv", convolution, [x, w]);
    let scaled = g.pointwise("scale", M::Mul, &[y, alpha1]);
    let z = g.pointwise("scale_z", M::Mul, &[z, alpha2]);
    let sum = g.pointwise("sum", M::Add, &[scaled, z]);
    let sum = g.pointwise("bias", M::Add, &[sum, bias]);
    let y = g.pointwise("act", M::ReluFwd, &[sum]);
    *g.tensor_mut(y) = named("Y", nhwc(RESPONSE));
    g
}

/// Leaves an operation out: what reads its result reads its first input.
fn without(g: &mut Graph, name: &str) {
    let place = g.operations.iter().position(|operation| operation.name == name).expect("it is there");
    let operation = g.operations.remove(place);
    let (read, written) = (operation.inputs[0].1, operation.outputs[0].1);
    for slot in g.operations.iter_mut().flat_map(|operation| &mut operation.inputs).filter(|slot| slot.1 == written) {
        slot.1 = read;
    }
}

/// With another result of the convolution's.
fn negated(g: &mut Graph) {
    let read = g.id("scale");
    let negated = g.pointwise("neg", M::Neg, &[read]);
    *g.tensor_mut(negated) = named("N", nhwc(CHANNEL));
}

fn padded(g: &mut Graph) {
    let Attributes::Convolution(convolution) = &mut g.op("conv").attributes else { panic!("no convolution") };
    (convolution.pre_padding, convolution.post_padding) = (vec![1, 1], vec![1, 1]);
    g.reshape("W", nhwc(FILTER));
}

const FPROP_PAIRS: &[Pair] = &[
    pair("CBN-TYPE", F, |g| g.types(&["scale"], T::Float), AS_IS),
    pair("CBN-TYPE", F, |g| g.types(&["relu::OUT_0"], T::Float), |g| g.types(&["mul::OUT_0"], T::Float)),
    pair("CBN-Z", F, |g| g.reshape("X", rows(IMAGE)), AS_IS),
    pair("CBN-W", F, |g| g.reshape("W", rows(FILTER)), AS_IS),
    pair("CBN-SB", F, |g| g.reshape("bias", nhwc([1, 1, 8, 8])), AS_IS),
    pair("CBN-ACT", F, |g| g.pointwise_of("relu").mode = M::TanhFwd, AS_IS),
    pair("CBN-VIRT", F, |g| g.store("add::OUT_0", nhwc(IMAGE)), AS_IS),
    pair("CBN-VIRT", F, |g| g.t("Y").is_virtual = true, AS_IS),
    pair("CBN-ALIGN", F, |g| g.t("X").alignment = 8, AS_IS),
    chips("CBN-CC", &[(BN_FPROP, 7, 5), (BN_FPROP, 8, 9)], &[(BN_FPROP, 8, 0), (BN_FPROP, 9, 0)], AS_IS),
    chips("CBN-CC90", F, F80, |g| without(g, "relu")),
    pair("CBN-GENSTATS", F, |g| g.types(&["SUM"], T::Half), AS_IS),
    pair("N-75", F, negated, AS_IS),
];

const DUAL_PAIRS: &[Pair] = &[
    pair(
        "DBA-DUAL",
        D,
        |g| without(g, "dadd"),
        |g| {
            without(g, "dadd");
            without(g, "dmul");
        },
    ),
    pair("DBA-REQ", D, |g| without(g, "relu"), AS_IS),
    pair(
        "DBA-REQ",
        D,
        |g| ["add", "mul", "dadd", "dmul"].iter().for_each(|name| without(g, name)),
        |g| ["add", "mul"].iter().for_each(|name| without(g, name)),
    ),
    chips("DBA-CC", &[(DBARCS, 8, 0)], D, AS_IS),
    pair("DBA-DTYPE", D, |g| g.types(&["dX"], T::BFloat16), AS_IS),
    pair("DBA-DSHAPE", D, |g| g.reshape("dscale", nhwc([1, 1, 8, 8])), AS_IS),
    pair("DBA-VIRT", D, |g| g.t("Relu_Y").is_virtual = true, AS_IS),
    pair("DBA-W", D, padded, AS_IS),
];

const WGRAD_PAIRS: &[Pair] = &[
    pair("CBW-ACT", W, |g| g.pointwise_of("relu").mode = M::TanhFwd, AS_IS),
    pair("CBW-TYPE", W, |g| g.types(&["scale"], T::Float), AS_IS),
    pair("CBW-ALIGN", W, |g| g.t("dy").alignment = 8, AS_IS),
    pair("CBW-LAYOUT", W, |g| g.reshape("dy", rows(RESPONSE)), AS_IS),
    pair("CBW-VIRT", W, |g| g.store("add::OUT_0", nhwc(IMAGE)), AS_IS),
    chips("CBW-CC", &[(BN_WGRAD, 7, 5), (BN_WGRAD, 8, 9)], &[(BN_WGRAD, 8, 0), (BN_WGRAD, 9, 0)], AS_IS),
    chips("CBW-CC90", W, W80, |g| without(g, "relu")),
    pair("N-77", W, negated, AS_IS),
];

const BIASED_PAIRS: &[Pair] = &[
    pair("CBA-ALPHA", B, |g| g.reshape("alpha1", nhwc([1, 32, 1, 1])), AS_IS),
    pair("CBA-BIAS", B, |g| g.reshape("bias", nhwc([2, 32, 1, 1])), AS_IS),
    pair("CBA-BIAS-STRIDE", B, |g| g.reshape("bias", strided([1, 32, 1, 1], [64, 2, 64, 64])), AS_IS),
    pair("CBA-NOCONV", B, |g| g.types(&["sum::OUT_0"], T::Half), AS_IS),
    pair("CBA-TYPES", B, |g| g.types(&["bias"], T::Float), AS_IS),
    pair("CBA-ACT-MODE", B, |g| g.pointwise_of("act").mode = M::TanhFwd, |g| g.pointwise_of("act").mode = M::Identity),
    pair("CBA-Z", B, |g| g.reshape("Z", rows(RESPONSE)), AS_IS),
    pair("N-78", B, |g| g.store("sum::OUT_0", nhwc(RESPONSE)), AS_IS),
];

#[test]
fn a_pattern_holds_where_it_is_named_and_changes_no_other_verdict() {
    for suite in SUITES {
        let graph = Arc::new((suite.base)().finalize().expect("well formed"));
        let own = suite.legal[0].0;
        assert_eq!(check(&graph, ComputeCapability::SM_90, &[own]).surface(), Some(own), "{}", suite.name);
        let [every, runtime] = [&SurfaceId::ALL[..], &SurfaceId::RUNTIME]
            .map(|surfaces| check(&graph, ComputeCapability::SM_90, surfaces).outcomes);
        assert_eq!(every, runtime, "{}", suite.name);
    }
}

#[test]
fn convolutions_without_the_whole_pattern_get_no_outcome() {
    for base in [super::graphs::forward, super::graphs::backward_data, super::graphs::genstats] {
        let graph = Arc::new(base().finalize().expect("well formed"));
        for surface in [DBARCS, BN_WGRAD, BIAS_ACT] {
            assert!(check(&graph, ComputeCapability::SM_90, &[surface]).outcomes.is_empty(), "{surface}");
        }
    }
}
