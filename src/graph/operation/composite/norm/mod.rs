//! Normalisations (`docs/spec/norms.md`): forward, backward, and batch norm's statistics between convolutions.
//!
//! A set of elements has a mean and a variance; which axes a set spans is the mode's ([`NormMode`]). What is read of a
//! tensor is its stored value (N-50), and statistics are used as they were computed, before they are rounded to the type that
//! they are stored in (N-52).

mod backward;
mod finalize;
mod forward;
mod weights;

use super::{Definition, Expansion, KeptAttributes, Port};
use crate::graph::infer::{Layout, Node, Ports, channel_vector};
use crate::graph::{Malformed, PointwiseMode, ReductionMode, TensorId};

pub use backward::NormBackward;
pub use finalize::{BnFinalize, BnFinalizeMode};
pub use forward::{NormForward, NormPhase};
pub use weights::BnBackwardWeights;

/// Which elements are normalised together (N-01 … N-06).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NormMode {
    /// The axes on which the statistics have one element, by their mean and variance.
    Layer,
    /// The axes of [`Self::Layer`], by their root mean square.
    Rms,
    /// The last of three axes, with a scale for each element of the batch.
    AdaLayer,
    /// The spatial axes of each channel of each image.
    Instance,
    /// The images and the spatial axes of each channel.
    Batch,
}

impl NormMode {
    /// Every mode.
    pub const ALL: [Self; 5] = [Self::Layer, Self::Rms, Self::AdaLayer, Self::Instance, Self::Batch];

    /// Whether a mean is subtracted.
    pub fn has_mean(self) -> bool {
        self != Self::Rms
    }

    /// Whether there is always a scale.
    pub fn requires_scale(self) -> bool {
        !matches!(self, Self::Layer | Self::Rms)
    }

    /// Whether there is always a bias.
    pub fn requires_bias(self) -> bool {
        matches!(self, Self::Instance | Self::Batch)
    }

    /// Extents of the statistics of X: X's, and 1 on the axes that are normalised (N-12, N-14). Those of layer and RMS norms
    /// follow from the statistics that are given, or else from the scale, or else are all after the first.
    fn statistic_dim(self, x: &[i64], statistics: Option<&[i64]>, scale: Option<&[i64]>) -> Vec<i64> {
        let is_kept = |axis: usize| match (self, statistics, scale) {
            (Self::AdaLayer, ..) => axis + 1 < x.len(),
            (Self::Instance, ..) => axis < 2,
            (Self::Batch, ..) => axis == 1,
            (_, Some(statistics), _) => statistics.get(axis).is_some_and(|&extent| extent != 1),
            (_, None, Some(scale)) => scale.get(axis) == Some(&1),
            (_, None, None) => axis == 0,
        };
        x.iter().enumerate().map(|(axis, &extent)| if is_kept(axis) { extent } else { 1 }).collect()
    }

    /// Extents of the scale where it has none: a channel's of instance and batch norms, else all but the first axis (the first
    /// and the last for ADA).
    fn parameter_dim(self, x: &[i64]) -> Vec<i64> {
        match self {
            Self::Instance | Self::Batch => channel_vector(x),
            Self::Layer | Self::Rms | Self::AdaLayer => {
                x.iter().enumerate().map(|(axis, &extent)| if axis == 0 { 1 } else { extent }).collect()
            }
        }
    }
}

/// Whether statistics are those of several GPUs (N-10g), which no definition of one tensor has.
fn has_peers(attributes: &KeptAttributes) -> bool {
    attributes.get("peer_stats").and_then(|peers| peers.as_array()).is_some_and(|peers| !peers.is_empty())
}

/// Elements of X that one element of a tensor of these extents stands for.
fn elements_of_set(x: &[i64], dim: &[i64]) -> f64 {
    x.iter().product::<i64>() as f64 / dim.iter().product::<i64>().max(1) as f64
}

/// Ports that are shared by the operations of this folder.
const RUNNING_IN: [Port; 3] = [Port::PREV_RUNNING_MEAN, Port::PREV_RUNNING_VAR, Port::MOMENTUM];
const RUNNING_OUT: [Port; 2] = [Port::NEXT_RUNNING_MEAN, Port::NEXT_RUNNING_VAR];

/// Scalars that a caller may describe with fewer axes, or as 16-bit floats though their value is `FLOAT` (N-17, NA-11).
fn complete_scalars(node: &mut Node, rank: usize, ports: &[Port]) {
    for &port in ports {
        node.widen(port, rank);
        if port != Port::ACCUM_COUNT {
            node.read_as_float(port);
        }
    }
}

/// The tensors at some ports have these extents.
fn require_dims(node: &Node, ports: &[Port], dim: &[i64], reason: &str) -> Result<(), Malformed> {
    ports
        .iter()
        .filter(|&&port| node.tensor(port).is_some())
        .try_for_each(|&port| node.require_dim(SHAPE, port, dim, reason))
}

/// Rule of extents that do not fit.
const SHAPE: &str = "NORM-SHAPE";

/// One element each.
fn require_scalars(node: &Node, ports: &[Port]) -> Result<(), Malformed> {
    for &port in ports.iter().filter(|&&port| node.tensor(port).is_some()) {
        let dim = node.dim(port)?;
        if dim.iter().product::<i64>() != 1 {
            return Err(node.fault_at("N-154", port, format!("dims are {dim:?}; required one element")));
        }
    }
    Ok(())
}

/// Running statistics come together or not at all (N-11d).
fn require_running_together(node: &Node) -> Result<(), Malformed> {
    let all = || RUNNING_IN.iter().chain(&RUNNING_OUT);
    let Some(&given) = all().find(|&&port| node.tensor(port).is_some()) else { return Ok(()) };
    match all().find(|&&port| node.tensor(port).is_none()) {
        Some(missing) => {
            Err(node.fault_at("N-157", given, format!("{missing} is missing; running statistics come together")))
        }
        None => Ok(()),
    }
}

/// `(1 − f)·previous + f·current` into the next of both running statistics (N-32); the variance is that of a sample, so by
/// the count of its set less one: `correction` is the count over that, where it is not 1.
fn keep_running(expansion: &mut Expansion, [mean, variance]: [TensorId; 2], correction: Option<TensorId>) {
    use PointwiseMode as M;
    let inputs = RUNNING_IN.map(|port| expansion.input(port));
    let [Some(previous_mean), Some(previous_variance), Some(factor)] = inputs else { return };
    let variance = correction.map_or(variance, |correction| expansion.pointwise(M::Mul, &[variance, correction]));
    for ((previous, current), next) in
        [(previous_mean, mean), (previous_variance, variance)].into_iter().zip(RUNNING_OUT)
    {
        let change = expansion.pointwise(M::Sub, &[current, previous]);
        let step = expansion.pointwise(M::Mul, &[change, factor]);
        expansion.result(next, M::Add, &[previous, step]);
    }
}

/// `1 / √(variance + ε)` (N-30).
fn inverse_deviation(expansion: &mut Expansion, variance: TensorId, epsilon: TensorId) -> TensorId {
    use PointwiseMode as M;
    let shifted = expansion.pointwise(M::Add, &[variance, epsilon]);
    let deviation = expansion.pointwise(M::Sqrt, &[shifted]);
    expansion.pointwise(M::Reciprocal, &[deviation])
}

/// `(x − mean)·inv`, without the mean where there is none.
fn normalised(expansion: &mut Expansion, x: TensorId, mean: Option<TensorId>, inverse: TensorId) -> TensorId {
    let centred = mean.map_or(x, |mean| expansion.pointwise(PointwiseMode::Sub, &[x, mean]));
    expansion.pointwise(PointwiseMode::Mul, &[centred, inverse])
}

/// A product with the scale, where there is one.
fn scaled(expansion: &mut Expansion, x: TensorId) -> TensorId {
    match expansion.input(Port::SCALE) {
        Some(scale) => expansion.pointwise(PointwiseMode::Mul, &[x, scale]),
        None => x,
    }
}

/// Sums over all that an element of a tensor of these extents stands for.
fn total(expansion: &mut Expansion, x: TensorId, dim: &[i64]) -> TensorId {
    expansion.reduction(ReductionMode::Add, x, dim.to_vec())
}

fn average(expansion: &mut Expansion, x: TensorId, dim: &[i64]) -> TensorId {
    expansion.reduction(ReductionMode::Avg, x, dim.to_vec())
}

impl NormMode {
    pub(super) fn check_rank(self, node: &Node) -> Result<(), Malformed> {
        let x = node.dim(Port::X)?;
        let (fits, required) = match self {
            Self::AdaLayer => (x.len() == 3, "3"),
            Self::Instance | Self::Batch => (x.len() >= 3, "3 or more: images, channels, and spatial axes"),
            Self::Layer | Self::Rms => (x.len() >= 2, "2 or more"),
        };
        if fits { Ok(()) } else { Err(node.fault_at(SHAPE, Port::X, format!("rank {}; required {required}", x.len()))) }
    }

    /// The scale spans axes that are normalised, or a channel, or the elements of a batch; the others are shaped like it.
    pub(super) fn check_parameters(self, node: &Node, statistics: &[i64], others: &[Port]) -> Result<(), Malformed> {
        if node.tensor(Port::SCALE).is_none() {
            return match others.iter().find(|&&port| node.tensor(port).is_some()) {
                Some(&port) => {
                    Err(node.fault_at("N-155", port, "there is no SCALE, without which there is none of it"))
                }
                None => Ok(()),
            };
        }
        let x = node.dim(Port::X)?;
        node.common_rank(SHAPE, &[Port::X, Port::SCALE])?;
        let scale = node.dim(Port::SCALE)?;
        let fits = |axis: usize| match self {
            Self::Layer | Self::Rms => scale[axis] == 1 || (scale[axis] == x[axis] && statistics[axis] == 1),
            Self::AdaLayer => scale[axis] == 1 || scale[axis] == x[axis],
            Self::Instance | Self::Batch => scale[axis] == if axis == 1 { x[axis] } else { 1 },
        };
        if let Some(axis) = (0..x.len()).find(|&axis| !fits(axis)) {
            let required = match self {
                Self::Layer | Self::Rms => "1, or X's on an axis that is normalised",
                Self::AdaLayer => "1 or X's",
                Self::Instance | Self::Batch => "X's channels on axis 1, and 1 elsewhere",
            };
            let message = format!("extent {} on axis {axis}; required {required}", scale[axis]);
            return Err(node.fault_at(SHAPE, Port::SCALE, message));
        }
        require_dims(node, others, scale, "those of SCALE")
    }
}

#[cfg(test)]
mod tests;
