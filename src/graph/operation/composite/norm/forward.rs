//! Norms forward (N-01 … N-06, N-30 … N-33).
//!
//! `mean = Σx / R`, `var = Σ(x − mean)² / R`, `inv = 1/√(var + ε)`, `Y = (x − mean)·inv·scale + bias`, over the R elements of a
//! set; RMS norms have no mean. Batch norm for inference takes mean and `inv` as they are given.

use super::{
    Bytes, DataType, Definition, Expansion, KeptAttributes, Layout, Malformed, Node, NormMode, PointwiseMode, Port,
    Ports, RUNNING_IN, RUNNING_OUT, SHAPE, TensorId, average, complete_scalars, elements_of_set, grouped,
    inverse_deviation, keep_running, normalised, peers, require_dims, require_running_together, require_scalars,
    scaled,
};

/// Whether statistics are computed and kept, or Y alone is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NormPhase {
    /// Y alone. Batch norm reads statistics.
    Inference,
    /// Statistics are computed, and may be stored.
    Training,
}

impl NormPhase {
    /// Spelling in graph files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Inference => "INFERENCE",
            Self::Training => "TRAINING",
        }
    }
}

/// A norm, `X [, SCALE, BIAS], EPSILON → Y [, MEAN, INV_VARIANCE]`; batch norm keeps running statistics, too, or reads
/// statistics for inference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NormForward {
    /// Which elements are normalised together.
    pub mode: NormMode,
    /// `None` is malformed (N-150): there is no default.
    pub phase: Option<NormPhase>,
}

const PHASE: &str = "forward_phase";

impl NormForward {
    /// A norm of a mode in a phase.
    pub fn new(mode: NormMode, phase: NormPhase) -> Self {
        Self { mode, phase: Some(phase) }
    }

    pub(in crate::graph::operation::composite) fn read(tag: &str, attributes: &KeptAttributes) -> Option<Self> {
        let named = attributes.get(PHASE).and_then(|phase| phase.as_str());
        let phase = [NormPhase::Inference, NormPhase::Training].into_iter().find(|phase| named == Some(phase.name()));
        let (mode, phase) = match tag {
            "LAYER_NORM" => (NormMode::Layer, phase),
            "RMS_NORM" => (NormMode::Rms, phase),
            "ADA_LAYER_NORM" => (NormMode::AdaLayer, phase),
            "INSTANCE_NORM" => (NormMode::Instance, phase),
            "GROUP_NORM" => (grouped(attributes), phase),
            "BATCHNORM" => (NormMode::Batch, Some(NormPhase::Training)),
            "BATCHNORM_INFERENCE" => (NormMode::Batch, Some(NormPhase::Inference)),
            _ => return None,
        };
        Some(Self { mode, phase })
    }

    fn reads_statistics(&self) -> bool {
        (self.mode, self.phase) == (NormMode::Batch, Some(NormPhase::Inference))
    }

    /// Statistics that the mode has, in port order.
    fn statistics(&self) -> &'static [Port] {
        if self.mode.has_mean() { &[Port::MEAN, Port::INV_VARIANCE] } else { &[Port::INV_VARIANCE] }
    }

    /// The first statistics that have extents.
    fn given_statistics(&self, node: &Node) -> Option<Port> {
        self.statistics().iter().copied().find(|&port| given(node, port).is_some())
    }

    /// Extents of the statistics of complete or half-complete tensors.
    fn statistic_dim(&self, node: &Node) -> Result<Vec<i64>, Malformed> {
        let statistics = self.given_statistics(node).and_then(|port| given(node, port));
        Ok(self.mode.statistic_dim(node.dim(Port::X)?, statistics, given(node, Port::SCALE)))
    }
}

/// Extents of the tensor at a port, where it has any.
fn given<'a>(node: &'a Node, port: Port) -> Option<&'a [i64]> {
    node.tensor(port).map(|tensor| &tensor.dim[..]).filter(|dim| !dim.is_empty())
}

impl Definition for NormForward {
    fn tag(&self) -> &'static str {
        match (self.mode, self.phase) {
            (NormMode::Layer, _) => "LAYER_NORM",
            (NormMode::Rms, _) => "RMS_NORM",
            (NormMode::AdaLayer, _) => "ADA_LAYER_NORM",
            (NormMode::Instance, _) => "INSTANCE_NORM",
            (NormMode::Group { .. }, _) => "GROUP_NORM",
            (NormMode::Batch, Some(NormPhase::Inference)) => "BATCHNORM_INFERENCE",
            (NormMode::Batch, _) => "BATCHNORM",
        }
    }

    fn ports(&self) -> Ports {
        const BESIDE: &[Port] = &{
            let mut ports = [RUNNING_IN[0]; RUNNING_IN.len() + Port::PEER_STATS.len()];
            let (running, peers) = ports.split_at_mut(RUNNING_IN.len());
            running.copy_from_slice(&RUNNING_IN);
            peers.copy_from_slice(&Port::PEER_STATS);
            ports
        };
        const STATISTICS: &[Port] = &[Port::MEAN, Port::INV_VARIANCE];
        const PARAMETERS: &[Port] = &[Port::SCALE, Port::BIAS];
        const ALL: &[Port] = &[Port::MEAN, Port::INV_VARIANCE, RUNNING_OUT[0], RUNNING_OUT[1]];
        const GIVEN: &[Port] = &[Port::X, Port::MEAN, Port::INV_VARIANCE, Port::SCALE, Port::BIAS];
        match self.mode {
            NormMode::Layer | NormMode::Group { .. } => {
                ([&[Port::X, Port::EPSILON], PARAMETERS], [&[Port::Y], STATISTICS])
            }
            NormMode::Rms => ([&[Port::X, Port::EPSILON], PARAMETERS], [&[Port::Y], &[Port::INV_VARIANCE]]),
            NormMode::AdaLayer => ([&[Port::X, Port::SCALE, Port::EPSILON], &[Port::BIAS]], [&[Port::Y], STATISTICS]),
            NormMode::Instance => ([&[Port::X, Port::SCALE, Port::BIAS, Port::EPSILON], &[]], [&[Port::Y], STATISTICS]),
            NormMode::Batch if self.reads_statistics() => ([GIVEN, &[]], [&[Port::Y], &[]]),
            NormMode::Batch => ([&[Port::X, Port::SCALE, Port::BIAS, Port::EPSILON], BESIDE], [&[Port::Y], ALL]),
        }
    }

    fn attributes(&self) -> KeptAttributes {
        let written = self.phase.filter(|_| self.mode != NormMode::Batch);
        let phase = written.map(|phase| (PHASE.to_owned(), phase.name().into()));
        phase.into_iter().chain(self.mode.attributes()).collect()
    }

    fn key_bytes(&self, bytes: &mut Bytes) {
        self.mode.key_bytes(bytes);
    }

    fn texts(&self) -> Vec<String> {
        self.attributes().into_iter().map(|(key, value)| format!("{key}={value}")).collect()
    }

    fn default_type(&self, port: Port) -> Option<DataType> {
        peers::PORTS.contains(&port).then_some(DataType::Float)
    }

    fn infers(&self, port: Port) -> bool {
        let is_parameter = [Port::SCALE, Port::BIAS].contains(&port);
        (is_parameter && !self.mode.is_of_channels()) || peers::PORTS.contains(&port)
    }

    fn infer(&self, node: &mut Node) -> Result<(), Malformed> {
        let (dim, order) = (node.dim(Port::X)?.to_vec(), Layout::OrderOf(node.stride(Port::X)?.to_vec()));
        let rank = dim.len();
        self.mode.check_groups(node, self.given_statistics(node))?;
        node.complete(Port::Y, dim.clone(), &Layout::Given(node.stride(Port::X)?.to_vec()));
        for port in [Port::SCALE, Port::BIAS] {
            if self.infers(port) {
                node.complete(port, self.mode.parameter_dim(&dim), &order);
            }
            node.widen(port, rank);
        }
        let statistics = self.statistic_dim(node)?;
        let order = if self.mode.is_of_channels() { Layout::ChannelsLast } else { order };
        for &port in self.statistics().iter().chain(&RUNNING_OUT) {
            node.complete(port, statistics.clone(), &order);
        }
        complete_scalars(node, rank, &[Port::EPSILON, Port::MOMENTUM]);
        peers::complete(node)
    }

    fn check(&self, node: &Node) -> Result<(), Malformed> {
        if self.phase.is_none() {
            return Err(node.fault("N-150", "forward_phase is not set; required TRAINING or INFERENCE"));
        }
        let x = node.dim(Port::X)?;
        node.require_dim(SHAPE, Port::Y, x, "those of X")?;
        self.mode.check_rank(node)?;
        require_scalars(node, &[Port::EPSILON, Port::MOMENTUM])?;
        require_running_together(node)?;
        let statistics = self.statistic_dim(node)?;
        require_dims(node, self.statistics(), &statistics, "those of X, 1 on the axes that are normalised")?;
        require_dims(node, &RUNNING_IN[..2], &statistics, "one element a channel")?;
        require_dims(node, &RUNNING_OUT, &statistics, "one element a channel")?;
        self.mode.check_parameters(node, &statistics, &[Port::BIAS])?;
        peers::check(node)?;
        self.check_axes(node)
    }

    fn define(&self, expansion: &mut Expansion) {
        use PointwiseMode as M;
        self.mode.see_groups(expansion);
        let [x] = expansion.required();
        let (mean, inverse) = match self.reads_statistics() {
            true => (expansion.input(Port::MEAN), expansion.input(Port::INV_VARIANCE)),
            false => self.define_statistics(expansion, x),
        };
        let Some(inverse) = inverse else { return };
        let normalised = normalised(expansion, x, mean, inverse);
        let product = scaled(expansion, normalised);
        match expansion.input(Port::BIAS) {
            Some(bias) => expansion.result(Port::Y, M::Add, &[product, bias]),
            None => expansion.result(Port::Y, M::Identity, &[product]),
        }
    }
}

impl NormForward {
    /// Without statistics and a scale nothing says which of several axes are normalised (N-12).
    fn check_axes(&self, node: &Node) -> Result<(), Malformed> {
        let x = node.dim(Port::X)?;
        let is_told = !matches!(self.mode, NormMode::Layer | NormMode::Rms)
            || self.statistics().iter().chain(&[Port::SCALE]).any(|&port| node.tensor(port).is_some());
        match x.iter().skip(1).filter(|&&extent| extent > 1).count() {
            2.. if !is_told => {
                let message = format!(
                    "dims are {x:?}, and neither a SCALE nor statistics tell which axes are normalised; give one of them, or one axis \
                     after the first"
                );
                Err(node.fault_at("N-156", Port::X, message))
            }
            _ => Ok(()),
        }
    }

    /// Mean and inverse deviation, which are stored where they are asked for.
    fn define_statistics(&self, expansion: &mut Expansion, x: TensorId) -> (Option<TensorId>, Option<TensorId>) {
        use PointwiseMode as M;
        let x_dim = expansion.dim(x).to_vec();
        let statistics = self.statistics().iter().find_map(|&port| expansion.output(port));
        let dim = {
            let scale = expansion.input(Port::SCALE);
            let of = |id| expansion.dim(id);
            self.mode.statistic_dim(&x_dim, statistics.map(of), scale.map(of))
        };
        let mean = self.mode.has_mean().then(|| average(expansion, x, &dim));
        let centred = mean.map_or(x, |mean| expansion.pointwise(M::Sub, &[x, mean]));
        let square = expansion.pointwise(M::Mul, &[centred, centred]);
        let variance = average(expansion, square, &dim);
        let (mean, variance) = peers::join_moments(expansion, mean, variance);
        let inverse = expansion.input(Port::EPSILON).map(|epsilon| inverse_deviation(expansion, variance, epsilon));
        if let Some(mean) = mean {
            expansion.result(Port::MEAN, M::Identity, &[mean]);
            let count = elements_of_set(&x_dim, &dim) * peers::ranks(expansion);
            let correction = (count > 1.0 && expansion.output(RUNNING_OUT[0]).is_some())
                .then(|| expansion.constant(count / (count - 1.0), x_dim.len()));
            keep_running(expansion, [mean, variance], correction);
        }
        if let Some(inverse) = inverse {
            expansion.result(Port::INV_VARIANCE, M::Identity, &[inverse]);
        }
        (mean, inverse)
    }
}
