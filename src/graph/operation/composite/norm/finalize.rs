//! Batch norm's statistics made from sums, as the scale and bias of an operation that follows (N-07, N-34, N-35).
//!
//! Training: `mean = SUM / count`, `var = max(SQ_SUM / count − mean², 0)`, `inv = 1/√(var + ε)`, `EQ_SCALE = scale·inv`, `EQ_BIAS = bias −
//! mean·EQ_SCALE`; running statistics as of batch norm; all in double precision. Inference: the same of the running mean and variance that are given.

use super::{
    Definition, Expansion, KeptAttributes, Layout, Malformed, Node, PointwiseMode, Port, Ports, RUNNING_IN,
    RUNNING_OUT, TensorId, complete_scalars, inverse_deviation, keep_running, require_dims, require_running_together,
    require_scalars,
};

/// Where the statistics come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BnFinalizeMode {
    /// From sums over a batch.
    #[default]
    Training,
    /// From the running mean and variance.
    Inference,
}

/// `SUM, SQ_SUM, EPSILON, ACCUM_COUNT [, SCALE, BIAS] [, PREV_RUNNING_MEAN, PREV_RUNNING_VAR, MOMENTUM] → [EQ_SCALE, EQ_BIAS, MEAN,
/// INV_VARIANCE, NEXT_RUNNING_MEAN, NEXT_RUNNING_VAR]`; for inference `SCALE, BIAS, PREV_RUNNING_MEAN, PREV_RUNNING_VAR, EPSILON →
/// [EQ_SCALE, EQ_BIAS]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BnFinalize {
    /// Where the statistics come from.
    pub mode: BnFinalizeMode,
}

/// Key in graph files of this project: those of the frontend have training alone.
const MODE: &str = "stats_mode";

impl BnFinalize {
    pub(in crate::graph::operation::composite) fn read(tag: &str, attributes: &KeptAttributes) -> Option<Self> {
        let is_inference = attributes.get(MODE).and_then(|mode| mode.as_str()) == Some("INFERENCE");
        let mode = if is_inference { BnFinalizeMode::Inference } else { BnFinalizeMode::Training };
        (tag == "BN_FINALIZE").then_some(Self { mode })
    }

    /// What is shaped like the sums; one of them is always there.
    fn vectors(&self) -> Vec<Port> {
        let ([required, optional], [_, outputs]) = self.ports();
        let is_scalar = |port: &Port| [Port::EPSILON, Port::MOMENTUM, Port::ACCUM_COUNT].contains(port);
        required.iter().chain(optional).chain(outputs).copied().filter(|port| !is_scalar(port)).collect()
    }
}

impl Definition for BnFinalize {
    fn tag(&self) -> &'static str {
        "BN_FINALIZE"
    }

    fn ports(&self) -> Ports {
        const SUMS: &[Port] = &[Port::SUM, Port::SQ_SUM, Port::EPSILON, Port::ACCUM_COUNT];
        const OPTIONAL: &[Port] = &[Port::SCALE, Port::BIAS, RUNNING_IN[0], RUNNING_IN[1], RUNNING_IN[2]];
        const GIVEN: &[Port] =
            &[Port::PREV_RUNNING_MEAN, Port::PREV_RUNNING_VAR, Port::SCALE, Port::BIAS, Port::EPSILON];
        const EQUIVALENT: &[Port] = &[Port::EQ_SCALE, Port::EQ_BIAS];
        const RESULTS: &[Port] =
            &[Port::EQ_SCALE, Port::EQ_BIAS, Port::MEAN, Port::INV_VARIANCE, RUNNING_OUT[0], RUNNING_OUT[1]];
        match self.mode {
            BnFinalizeMode::Training => ([SUMS, OPTIONAL], [&[], RESULTS]),
            BnFinalizeMode::Inference => ([GIVEN, &[]], [&[], EQUIVALENT]),
        }
    }

    fn attributes(&self) -> KeptAttributes {
        let written = (self.mode == BnFinalizeMode::Inference).then(|| (MODE.to_owned(), "INFERENCE".into()));
        written.into_iter().collect()
    }

    fn texts(&self) -> Vec<String> {
        self.attributes().into_iter().map(|(key, value)| format!("{key}={value}")).collect()
    }

    fn infer(&self, node: &mut Node) -> Result<(), Malformed> {
        let ([required, _], [_, results]) = self.ports();
        let dim = node.dim(required[0])?.to_vec();
        results.iter().for_each(|&port| node.complete(port, dim.clone(), &Layout::ChannelsLast));
        complete_scalars(node, dim.len(), &[Port::EPSILON, Port::MOMENTUM, Port::ACCUM_COUNT]);
        Ok(())
    }

    fn check(&self, node: &Node) -> Result<(), Malformed> {
        let vectors = self.vectors();
        let dim = node.dim(vectors[0])?.to_vec();
        require_dims(node, &vectors, &dim, "one element a channel in each")?;
        require_scalars(node, &[Port::EPSILON, Port::MOMENTUM, Port::ACCUM_COUNT])?;
        let needs = |result: Port, parameter: Port| {
            let lacks = node.tensor(result).is_some() && node.tensor(parameter).is_none();
            if lacks {
                Err(node.fault_at("N-150", result, format!("there is no {parameter} to make it of")))
            } else {
                Ok(())
            }
        };
        needs(Port::EQ_SCALE, Port::SCALE)?;
        needs(Port::EQ_BIAS, Port::SCALE)?;
        needs(Port::EQ_BIAS, Port::BIAS)?;
        if self.mode == BnFinalizeMode::Training { require_running_together(node) } else { Ok(()) }
    }

    fn define(&self, expansion: &mut Expansion) {
        let Some(epsilon) = expansion.input(Port::EPSILON) else { return };
        if self.mode == BnFinalizeMode::Training {
            // The difference of squares cancels where the mean is many deviations from 0.
            expansion.compute_in_double();
        }
        let (mean, variance) = match self.mode {
            BnFinalizeMode::Training => define_moments(expansion),
            BnFinalizeMode::Inference => {
                let [mean, variance] = expansion.required();
                (mean, variance)
            }
        };
        let inverse = inverse_deviation(expansion, variance, epsilon);
        if self.mode == BnFinalizeMode::Training {
            expansion.result(Port::MEAN, PointwiseMode::Identity, &[mean]);
            expansion.result(Port::INV_VARIANCE, PointwiseMode::Identity, &[inverse]);
        }
        define_equivalents(expansion, mean, inverse);
    }
}

/// Mean and variance of the sums; running statistics are kept beside.
fn define_moments(expansion: &mut Expansion) -> (TensorId, TensorId) {
    use PointwiseMode as M;
    let [sum, squares, _, count] = expansion.required();
    let rank = expansion.dim(sum).len();
    let mean = expansion.pointwise(M::Div, &[sum, count]);
    let of_squares = expansion.pointwise(M::Div, &[squares, count]);
    let square = expansion.pointwise(M::Mul, &[mean, mean]);
    let difference = expansion.pointwise(M::Sub, &[of_squares, square]);
    let zero = expansion.constant(0.0, rank);
    let variance = expansion.pointwise(M::Max, &[difference, zero]);
    if expansion.output(RUNNING_OUT[0]).is_some() {
        // count / max(count − 1, 1), which is 1 for one element.
        let one = expansion.constant(1.0, rank);
        let less = expansion.pointwise(M::Sub, &[count, one]);
        let least = expansion.pointwise(M::Max, &[less, one]);
        let correction = expansion.pointwise(M::Div, &[count, least]);
        keep_running(expansion, [mean, variance], Some(correction));
    }
    (mean, variance)
}

fn define_equivalents(expansion: &mut Expansion, mean: TensorId, inverse: TensorId) {
    use PointwiseMode as M;
    let Some(scale) = expansion.input(Port::SCALE) else { return };
    let equivalent = expansion.pointwise(M::Mul, &[scale, inverse]);
    expansion.result(Port::EQ_SCALE, M::Identity, &[equivalent]);
    if let Some(bias) = expansion.input(Port::BIAS) {
        let shift = expansion.pointwise(M::Mul, &[mean, equivalent]);
        expansion.result(Port::EQ_BIAS, M::Sub, &[bias, shift]);
    }
}
