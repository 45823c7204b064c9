//! Edits of an operation: what it is computed in, its attributes, the order of its operands.

use super::{Row, Subject, is_pointwise, pick};
use crate::fuzz::choices::Choices;
use crate::graph::{
    Attributes, DataType, Fraction, Graph, Operation, OperationId, PaddingMode, Pointwise, PointwiseMode, Port,
    Resample, ResampleMode,
};

pub(super) const ROWS: &[Row] = &[
    ("S*-COMB-HALF", |s, g, _| core_of(s, g, DataType::Half, DataType::Int32)),
    ("S*-COMB-BF16", |s, g, _| core_of(s, g, DataType::BFloat16, DataType::Half)),
    ("S*-COMB-FLOAT", |s, g, _| core_of(s, g, DataType::Float, DataType::Half)),
    ("S*-COMB-INT8", |s, g, _| core_of(s, g, DataType::Int8, DataType::Float)),
    ("S*-COMB-FP8", |s, g, _| core_of(s, g, DataType::Fp8E4M3, DataType::Half)),
    ("S*-COMB-FP8", |s, g, _| core_of(s, g, DataType::Fp8E5M2, DataType::Int32)),
    ("S*-CT-RED", |s, g, _| compute(s.reduction(), g, DataType::Half)),
    ("OP-GS-PREC", |s, g, c| {
        compute(s.any(c, |operation| matches!(operation.attributes, Attributes::GenStats)), g, DataType::Half)
    }),
    ("OP-PW98-PREC-LOGIC", |s, g, c| compute(of_mode(s, c, PointwiseMode::is_logical), g, DataType::Float)),
    ("OP-PW98-PREC-OTHER", |s, g, c| compute(of_mode(s, c, is_transcendental), g, DataType::Int32)),
    ("OP-PW98-PREC-INTOK", |s, g, c| compute(of_mode(s, c, PointwiseMode::is_comparison), g, DataType::Half)),
    ("OP-PW98-PREC-IDENT", |s, g, c| {
        compute(of_mode(s, c, |mode| mode == PointwiseMode::Identity), g, DataType::Boolean)
    }),
    ("OP-PW7-PREC-LOGIC", |s, g, c| compute(of_mode(s, c, PointwiseMode::is_logical), g, DataType::Float)),
    ("OP-PW7-PREC-OTHER", |s, g, c| compute(of_mode(s, c, |mode| !mode.is_logical()), g, DataType::Int32)),
    ("OP-PW98-ALPHA1", |s, g, c| scale(of_mode(s, c, |_| true), g, |pointwise| &mut pointwise.alpha1)),
    ("OP-PW98-ALPHA2", |s, g, c| scale(of_mode(s, c, |mode| mode.inputs() > 1), g, |pointwise| &mut pointwise.alpha2)),
    ("OP-PW7-ALPHA1", |s, g, c| scale(of_mode(s, c, |_| true), g, |pointwise| &mut pointwise.alpha1)),
    ("OP-PW7-ALPHA2", |s, g, c| scale(of_mode(s, c, |mode| mode.inputs() > 1), g, |pointwise| &mut pointwise.alpha2)),
    ("S*-G2-BCAST-FIRST", broadcast_first),
    ("OP-RF-NO-NEAREST", |s, g, _| forward(s, g, pools, |resample| resample.mode = ResampleMode::Nearest)),
    ("OP-RF-AVG-PAD", |s, g, _| forward(s, g, averages, |resample| resample.padding_mode = PaddingMode::NegInfPad)),
    ("OP-RF-MAX-PAD", |s, g, _| forward(s, g, takes_maxima, |resample| resample.padding_mode = PaddingMode::ZeroPad)),
    ("OP-RF-DOWN-ALPHA", |s, g, _| forward(s, g, pools, |resample| resample.alpha = 1f64.next_up())),
    ("OP-RF-DOWN-BETA", |s, g, _| forward(s, g, pools, |resample| resample.beta = f64::from_bits(1))),
    ("OP-RF-DOWN-COMP", |s, g, _| resample_in(s, g, Kind::Forward, pools)),
    ("OP-RF-BIL-ALPHA", |s, g, _| forward(s, g, is_bilinear, |resample| resample.alpha = 1f64.next_up())),
    ("OP-RF-BIL-BETA", |s, g, _| forward(s, g, is_bilinear, |resample| resample.beta = f64::from_bits(1))),
    ("OP-RF-BIL-COMP", |s, g, _| resample_in(s, g, Kind::Forward, is_bilinear)),
    ("OP-RF-BIL-PADMODE", |s, g, _| {
        forward(s, g, is_bilinear, |resample| resample.padding_mode = PaddingMode::ZeroPad)
    }),
    ("OP-RF-BIL-WIN", |s, g, _| forward(s, g, is_bilinear, |resample| resample.window[0] = Fraction::whole(3))),
    ("OP-RB-MODES", |s, g, _| backward(s, g, pools, |resample| resample.mode = ResampleMode::Nearest)),
    ("OP-RB-AVG-PAD", |s, g, _| backward(s, g, averages, |resample| resample.padding_mode = PaddingMode::EdgeValPad)),
    ("OP-RB-MAX-PAD", |s, g, _| backward(s, g, takes_maxima, |resample| resample.padding_mode = PaddingMode::ZeroPad)),
    ("OP-RB-ALPHA", |s, g, _| backward(s, g, pools, |resample| resample.alpha = 1f64.next_down())),
    ("OP-RB-BETA", |s, g, _| backward(s, g, pools, |resample| resample.beta = f64::from_bits(1))),
    ("OP-RB-COMP", |s, g, _| resample_in(s, g, Kind::Backward, pools)),
];

/// The core computes in a type that its operands, all of one type, do not go with.
fn core_of(s: &Subject, edited: &mut Graph, operands: DataType, computed: DataType) -> bool {
    let Some(id) = s.fusion.product().map(|product| product.operation) else { return false };
    s.operation(id).input_tensors().all(|id| s.tensor(id).data_type == operands) && compute(Some(id), edited, computed)
}

fn compute(id: Option<OperationId>, edited: &mut Graph, data_type: DataType) -> bool {
    let Some(operation) = id.map(|id| edited.operation_mut(id)) else { return false };
    operation.compute_data_type.replace(data_type) != Some(data_type)
}

fn of_mode(s: &Subject, choices: &mut Choices<'_>, is_kind: fn(PointwiseMode) -> bool) -> Option<OperationId> {
    s.any(
        choices,
        |operation| matches!(&operation.attributes, Attributes::Pointwise(pointwise) if is_kind(pointwise.mode)),
    )
}

/// Modes that no surface computes in integers.
fn is_transcendental(mode: PointwiseMode) -> bool {
    use PointwiseMode as M;
    mode.is_backward()
        || matches!(
            mode,
            M::Exp | M::Log | M::Sqrt | M::Rsqrt | M::TanhFwd | M::SigmoidFwd | M::ReluFwd | M::Pow | M::Erf
        )
}

fn scale(id: Option<OperationId>, edited: &mut Graph, of: fn(&mut Pointwise) -> &mut f32) -> bool {
    let Some(operation) = id.map(|id| edited.operation_mut(id)) else { return false };
    let Attributes::Pointwise(pointwise) = &mut operation.attributes else { return false };
    *of(pointwise) = 1f32.next_up();
    true
}

/// A full operand and one that is broadcast change places.
fn broadcast_first(s: &Subject, edited: &mut Graph, choices: &mut Choices<'_>) -> bool {
    let candidates = s.graph().operation_ids().filter(|&id| {
        let inputs = &s.operation(id).inputs;
        let dim = |slot: usize| inputs.get(slot).map(|slot| &s.tensor(slot.1).dim);
        let is_epilogue = s.fusion.stage(id) == crate::fusion::Stage::After;
        let stays = |slot: usize| inputs.get(slot).is_some_and(|slot| !s.tensor(slot.1).is_pass_by_value);
        let covers = dim(0) == s.operation(id).result().map(|result| &s.tensor(result).dim);
        is_epilogue && is_pointwise(s.operation(id)) && inputs.len() == 2 && covers && dim(0) != dim(1) && stays(1)
    });
    let Some(id) = pick(choices, candidates) else { return false };
    let inputs = &mut edited.operation_mut(id).inputs;
    (inputs[0].1, inputs[1].1) = (inputs[1].1, inputs[0].1);
    debug_assert!(inputs[0].0 == Port::IN_0, "ports stay in order");
    true
}

/// A kind of resampling.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Forward,
    Backward,
}

fn pools(resample: &Resample) -> bool {
    averages(resample) || takes_maxima(resample)
}

fn averages(resample: &Resample) -> bool {
    matches!(resample.mode, ResampleMode::AvgpoolIncludePadding | ResampleMode::AvgpoolExcludePadding)
}

fn takes_maxima(resample: &Resample) -> bool {
    resample.mode == ResampleMode::Maxpool
}

fn is_bilinear(resample: &Resample) -> bool {
    resample.mode == ResampleMode::Bilinear
}

/// The attributes of an operation, where it is a resampling of the kind.
fn attributes<T>(operation: &mut Operation<T>, kind: Kind) -> Option<&mut Resample> {
    match (&mut operation.attributes, kind) {
        (Attributes::ResampleForward(resample), Kind::Forward)
        | (Attributes::ResampleBackward(resample), Kind::Backward) => Some(resample),
        _ => None,
    }
}

fn forward(s: &Subject, edited: &mut Graph, fits: fn(&Resample) -> bool, edit: fn(&mut Resample)) -> bool {
    resample(s, edited, (Kind::Forward, fits), edit)
}

fn backward(s: &Subject, edited: &mut Graph, fits: fn(&Resample) -> bool, edit: fn(&mut Resample)) -> bool {
    resample(s, edited, (Kind::Backward, fits), edit)
}

fn resample(
    s: &Subject,
    edited: &mut Graph,
    (kind, fits): (Kind, fn(&Resample) -> bool),
    edit: fn(&mut Resample),
) -> bool {
    for id in s.graph().operation_ids() {
        if let Some(resample) = attributes(edited.operation_mut(id), kind).filter(|resample| fits(resample)) {
            edit(resample);
            return true;
        }
    }
    false
}

/// A resampling computed in HALF.
fn resample_in(s: &Subject, edited: &mut Graph, kind: Kind, fits: fn(&Resample) -> bool) -> bool {
    let is_kind = |&id: &OperationId| attributes(&mut s.operation(id).clone(), kind).is_some_and(|one| fits(one));
    compute(s.graph().operation_ids().find(is_kind), edited, DataType::Half)
}
