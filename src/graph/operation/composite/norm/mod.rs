//! Normalisations (`docs/spec/norms.md`): forward, backward, and batch norm's statistics between convolutions.
//!
//! A set of elements has a mean and a variance; which axes a set spans is the mode's ([`NormMode`]). What is read of a
//! tensor is its stored value (N-50), and statistics are used as they were computed, before they are rounded to the type that
//! they are stored in (N-52).

mod backward;
mod finalize;
mod forward;
mod peers;
mod weights;

use super::{ChannelGroups, Definition, Expansion, KeptAttributes, Port};
use crate::graph::infer::{Layout, Node, Ports, channel_vector};
use crate::graph::key::Bytes;
use crate::graph::{DataType, Malformed, PointwiseMode, ReductionMode, TensorId};

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
    /// Consecutive channels and the spatial axes of each image: an operation of this project, since cuDNN's has no number of groups.
    Group {
        /// Number of groups, `num_groups` in graph files; `None` where the extents of statistics tell it (NA-05).
        count: Option<i64>,
    },
}

impl NormMode {
    /// Every mode; statistics tell how many groups there are.
    pub const ALL: [Self; 6] =
        [Self::Layer, Self::Rms, Self::AdaLayer, Self::Instance, Self::Batch, Self::Group { count: None }];

    /// Norms of so many groups of channels.
    ///
    /// ```
    /// use fusewright::graph::{DataType, Graph, NormForward, NormMode, NormPhase, Port, Scalar, Tensor};
    ///
    /// let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
    /// let x = graph.tensor(Tensor::new("x").channels_last([2, 64, 14, 14]));
    /// let epsilon = graph.tensor(Tensor::scalar("epsilon", DataType::Float, Scalar::Float(1e-5)));
    /// let norm = NormForward::new(NormMode::groups(32), NormPhase::Training);
    /// let results = graph.composite("norm", norm, &[(Port::X, x), (Port::EPSILON, epsilon)], &[Port::Y, Port::MEAN]);
    /// results.iter().for_each(|&id| drop(graph.set_output(id)));
    /// let finalized = graph.finalize()?;
    /// let mean = finalized.id_of(results[1]).expect("the mean is stored");
    /// assert_eq!(finalized.tensor(mean).dim, [2, 32, 1, 1]);
    /// # Ok::<(), fusewright::error::Malformed>(())
    /// ```
    pub fn groups(count: i64) -> Self {
        Self::Group { count: Some(count) }
    }

    /// Whether a mean is subtracted.
    pub fn has_mean(self) -> bool {
        self != Self::Rms
    }

    /// Whether there is always a scale.
    pub fn requires_scale(self) -> bool {
        !matches!(self, Self::Layer | Self::Rms | Self::Group { .. })
    }

    /// Whether there is always a bias.
    pub fn requires_bias(self) -> bool {
        matches!(self, Self::Instance | Self::Batch)
    }

    /// Whether scale and bias have one element a channel.
    fn is_of_channels(self) -> bool {
        matches!(self, Self::Instance | Self::Batch | Self::Group { .. })
    }

    /// How channels are grouped, where the mode groups them and the number of groups is known, by itself or by the statistics.
    fn channel_groups(self, x: &[i64], statistics: Option<&[i64]>) -> Option<ChannelGroups> {
        let Self::Group { count } = self else { return None };
        let told = || statistics.and_then(|dim| dim.get(1)).copied();
        Some(ChannelGroups { channels: x.get(1).copied()?, groups: count.or_else(told)? })
    }

    /// Extents of the statistics of X: X's, and 1 on the axes that are normalised (N-12, N-14). Those of layer and RMS norms
    /// follow from the statistics that are given, or else from the scale, or else are all after the first. Of groups there is one of each
    /// image's, an axis of its own where X is seen so.
    fn statistic_dim(self, x: &[i64], statistics: Option<&[i64]>, scale: Option<&[i64]>) -> Vec<i64> {
        let is_kept = |axis: usize| match (self, statistics, scale) {
            (Self::AdaLayer, ..) => axis + 1 < x.len(),
            (Self::Instance | Self::Group { .. }, ..) => axis < 2,
            (Self::Batch, ..) => axis == 1,
            (_, Some(statistics), _) => statistics.get(axis).is_some_and(|&extent| extent != 1),
            (_, None, Some(scale)) => scale.get(axis) == Some(&1),
            (_, None, None) => axis == 0,
        };
        let mut dim: Vec<i64> =
            x.iter().enumerate().map(|(axis, &extent)| if is_kept(axis) { extent } else { 1 }).collect();
        if let (Some(groups), Some(extent)) = (self.channel_groups(x, statistics), dim.get_mut(1)) {
            *extent = groups.groups;
        }
        dim
    }

    /// Extents of the scale where it has none: a channel's of instance and batch norms, else all but the first axis (the first
    /// and the last for ADA).
    fn parameter_dim(self, x: &[i64]) -> Vec<i64> {
        match self {
            Self::Instance | Self::Batch | Self::Group { .. } => channel_vector(x),
            Self::Layer | Self::Rms | Self::AdaLayer => {
                x.iter().enumerate().map(|(axis, &extent)| if axis == 0 { 1 } else { extent }).collect()
            }
        }
    }
}

/// Key of the number of groups in graph files.
const GROUPS: &str = "num_groups";

/// Norms of groups with the number of these that attributes give.
fn grouped(attributes: &KeptAttributes) -> NormMode {
    NormMode::Group { count: attributes.get(GROUPS).and_then(|count| count.as_i64()) }
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
            Self::Instance | Self::Batch | Self::Group { .. } => {
                (x.len() >= 3, "3 or more: images, channels, and spatial axes")
            }
            Self::Layer | Self::Rms => (x.len() >= 2, "2 or more"),
        };
        if fits { Ok(()) } else { Err(node.fault_at(SHAPE, Port::X, format!("rank {}; required {required}", x.len()))) }
    }

    /// The number of groups is known, and divides that of the channels.
    fn check_groups(self, node: &Node, statistics: Option<Port>) -> Result<(), Malformed> {
        let Self::Group { count } = self else { return Ok(()) };
        let told = statistics.map(|port| node.dim(port)).transpose()?;
        match self.channel_groups(node.dim(Port::X)?, told) {
            Some(groups) if groups.are_equal() => Ok(()),
            Some(ChannelGroups { channels, groups }) => {
                let message = format!("{groups} groups of {channels} channels; required a number that divides these");
                Err(node.fault_at("N-169", statistics.filter(|_| count.is_none()).unwrap_or(Port::X), message))
            }
            None => {
                let message = format!("{GROUPS} is not set, and no dims of statistics tell how many groups there are");
                Err(node.fault("N-160", message))
            }
        }
    }

    /// The attributes of the mode itself.
    fn attributes(self) -> KeptAttributes {
        match self {
            Self::Group { count: Some(count) } => [(GROUPS.to_owned(), count.into())].into(),
            _ => KeptAttributes::new(),
        }
    }

    /// What generated code depends on beside the tensors.
    fn key_bytes(self, bytes: &mut Bytes) {
        if let Self::Group { count } = self {
            bytes.integer(count.unwrap_or(0));
        }
    }

    /// Lets a definition see channels in groups, where the mode groups them.
    fn see_groups(self, expansion: &mut Expansion) {
        let [x, statistics] = [Port::X, Port::INV_VARIANCE].map(|port| expansion.dim_at(port));
        let told = statistics.or_else(|| expansion.dim_at(Port::MEAN));
        if let Some(groups) = x.and_then(|x| self.channel_groups(x, told)) {
            expansion.see_groups(groups);
        }
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
            Self::Instance | Self::Batch | Self::Group { .. } => scale[axis] == if axis == 1 { x[axis] } else { 1 },
        };
        if let Some(axis) = (0..x.len()).find(|&axis| !fits(axis)) {
            let required = match self {
                Self::Layer | Self::Rms => "1, or X's on an axis that is normalised",
                Self::AdaLayer => "1 or X's",
                Self::Instance | Self::Batch | Self::Group { .. } => "X's channels on axis 1, and 1 elsewhere",
            };
            let message = format!("extent {} on axis {axis}; required {required}", scale[axis]);
            return Err(node.fault_at(SHAPE, Port::SCALE, message));
        }
        require_dims(node, others, scale, "those of SCALE")
    }
}

#[cfg(test)]
mod tests;
