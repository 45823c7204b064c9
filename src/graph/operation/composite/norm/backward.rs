//! Norms backward (N-36, N-37, N-39).
//!
//! `x̂ = (x − mean)·inv`, `DBIAS = Σdy`, `DSCALE = Σdy·x̂` over all that a parameter stands for; with `g = dy·scale` and the averages of a
//! set `c₁ = Σg / R`, `c₂ = Σg·x̂ / R`: `DX = inv·(g − c₁ − x̂·c₂)`, without `c₁` where there is no mean. Mean and `inv` are as given.

use super::{
    Bytes, DataType, Definition, Expansion, KeptAttributes, Layout, Malformed, Node, NormMode, PointwiseMode, Port,
    Ports, TensorId, average, complete_scalars, elements_of_set, grouped, normalised, peers, require_dims,
    require_scalars, scaled, total,
};

/// A norm's gradients, `DY, X [, SCALE] [, MEAN], INV_VARIANCE → DX [, DSCALE, DBIAS]`. An epsilon is taken and not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NormBackward {
    /// Which elements were normalised together.
    pub mode: NormMode,
}

const GRADIENTS: &[Port] = &[Port::DSCALE, Port::DBIAS];

impl NormBackward {
    pub(in crate::graph::operation::composite) fn read(tag: &str, attributes: &KeptAttributes) -> Option<Self> {
        let mode = match tag {
            "LAYER_NORM_BPROP" => NormMode::Layer,
            "RMS_NORM_BPROP" => NormMode::Rms,
            "ADA_LAYER_NORM_BPROP" => NormMode::AdaLayer,
            "INSTANCE_NORM_BPROP" => NormMode::Instance,
            "GROUP_NORM_BPROP" => grouped(attributes),
            "DBN" => NormMode::Batch,
            _ => return None,
        };
        Some(Self { mode })
    }
}

impl Definition for NormBackward {
    fn tag(&self) -> &'static str {
        match self.mode {
            NormMode::Layer => "LAYER_NORM_BPROP",
            NormMode::Rms => "RMS_NORM_BPROP",
            NormMode::AdaLayer => "ADA_LAYER_NORM_BPROP",
            NormMode::Instance => "INSTANCE_NORM_BPROP",
            NormMode::Group { .. } => "GROUP_NORM_BPROP",
            NormMode::Batch => "DBN",
        }
    }

    fn ports(&self) -> Ports {
        const CENTRED: &[Port] = &[Port::DY, Port::X, Port::MEAN, Port::INV_VARIANCE];
        const SCALED: &[Port] = &[Port::DY, Port::X, Port::SCALE, Port::MEAN, Port::INV_VARIANCE];
        const WITH_PEERS: &[Port] = &{
            let mut ports = [Port::EPSILON; 1 + Port::PEER_STATS.len()];
            ports.split_at_mut(1).1.copy_from_slice(&Port::PEER_STATS);
            ports
        };
        let inputs: [&[Port]; 2] = match self.mode {
            NormMode::Layer | NormMode::Group { .. } => [CENTRED, &[Port::SCALE, Port::EPSILON]],
            NormMode::Rms => [&[Port::DY, Port::X, Port::INV_VARIANCE], &[Port::SCALE, Port::EPSILON]],
            NormMode::AdaLayer | NormMode::Instance => [SCALED, &[Port::EPSILON]],
            NormMode::Batch => [SCALED, WITH_PEERS],
        };
        (inputs, [&[Port::DX], GRADIENTS])
    }

    fn attributes(&self) -> KeptAttributes {
        self.mode.attributes()
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
        peers::PORTS.contains(&port)
    }

    /// DX lies as X for norms of rows and of groups, channels last for norms of channels (N-15).
    fn infer(&self, node: &mut Node) -> Result<(), Malformed> {
        let (dim, stride) = (node.dim(Port::X)?.to_vec(), node.stride(Port::X)?.to_vec());
        let rank = dim.len();
        node.widen(Port::SCALE, rank);
        let (parameter, of_parameters) = match node.tensor(Port::SCALE) {
            Some(scale) if !scale.dim.is_empty() => (scale.dim.clone(), Layout::Given(scale.stride.clone())),
            _ => (self.mode.parameter_dim(&dim), Layout::OrderOf(stride.clone())),
        };
        let (of_dx, of_parameters) = match self.mode {
            NormMode::Layer | NormMode::Rms | NormMode::Group { .. } => (Layout::Given(stride), of_parameters),
            NormMode::AdaLayer => (Layout::RowMajor, Layout::RowMajor),
            NormMode::Instance | NormMode::Batch => (Layout::ChannelsLast, Layout::ChannelsLast),
        };
        node.complete(Port::DX, dim, &of_dx);
        GRADIENTS.iter().for_each(|&port| {
            node.complete(port, parameter.clone(), &of_parameters);
            node.widen(port, rank);
        });
        complete_scalars(node, rank, &[Port::EPSILON]);
        peers::complete(node)
    }

    fn check(&self, node: &Node) -> Result<(), Malformed> {
        let x = node.dim(Port::X)?;
        self.mode.check_rank(node)?;
        require_dims(node, &[Port::DY, Port::DX], x, "those of X")?;
        require_scalars(node, &[Port::EPSILON])?;
        self.mode.check_groups(node, Some(Port::INV_VARIANCE))?;
        let statistics = self.mode.statistic_dim(x, Some(node.dim(Port::INV_VARIANCE)?), None);
        let reason = "those of X, 1 on the axes that are normalised";
        require_dims(node, &[Port::MEAN, Port::INV_VARIANCE], &statistics, reason)?;
        peers::check(node)?;
        self.mode.check_parameters(node, &statistics, GRADIENTS)
    }

    fn define(&self, expansion: &mut Expansion) {
        use PointwiseMode as M;
        self.mode.see_groups(expansion);
        let [dy, x] = expansion.required();
        let Some(inverse) = expansion.input(Port::INV_VARIANCE) else { return };
        let mean = expansion.input(Port::MEAN).filter(|_| self.mode.has_mean());
        let normalised = normalised(expansion, x, mean, inverse);
        let product = expansion.pointwise(M::Mul, &[dy, normalised]);
        let summands = self.define_channel_sums(expansion, [dy, product]);
        let gradients = self.define_gradients(expansion, summands);
        if !expansion.is_asked_for(Port::DX) {
            return;
        }
        let count = elements_of_set(expansion.dim(x), expansion.dim(inverse)) * peers::ranks(expansion);
        let [c1, c2] = self.define_averages(expansion, summands, gradients, (inverse, count));
        let gradient = scaled(expansion, dy);
        let centred = if self.mode.has_mean() { expansion.pointwise(M::Sub, &[gradient, c1]) } else { gradient };
        let along = expansion.pointwise(M::Mul, &[normalised, c2]);
        let difference = expansion.pointwise(M::Sub, &[centred, along]);
        expansion.result(Port::DX, M::Mul, &[difference, inverse]);
    }
}

impl NormBackward {
    /// What gradients and averages are sums of: `dy` and `dy·x̂` themselves, or of kernels where groups do not lie side by side, and both are
    /// wanted, their sums over a channel of an image, for which images are read once.
    fn define_channel_sums(&self, expansion: &mut Expansion, values: [TensorId; 2]) -> [TensorId; 2] {
        let is_grouped = matches!(self.mode, NormMode::Group { .. }) && expansion.reads_channels_side_by_side(Port::X);
        let are_both_wanted =
            expansion.is_asked_for(Port::DX) && GRADIENTS.iter().any(|&port| expansion.is_asked_for(port));
        if !is_grouped || !are_both_wanted {
            return values;
        }
        let of_image = |(axis, &extent): (usize, &i64)| if axis < 3 { extent } else { 1 };
        let dim: Vec<i64> = expansion.dim(values[0]).iter().enumerate().map(of_image).collect();
        values.map(|values| total(expansion, values, &dim))
    }

    /// `Σdy` and `Σdy·x̂` over all that an element of the scale stands for, where they are stored or of use for DX.
    fn define_gradients(&self, expansion: &mut Expansion, [dy, product]: [TensorId; 2]) -> Option<[TensorId; 2]> {
        let scale = expansion.input(Port::SCALE)?;
        let dim = expansion.dim(scale).to_vec();
        let is_used = |expansion: &Expansion, port| {
            expansion.is_asked_for(port) || (self.mode == NormMode::Batch && expansion.is_asked_for(Port::DX))
        };
        let mut sums = [(Port::DBIAS, dy), (Port::DSCALE, product)]
            .map(|(port, values)| is_used(expansion, port).then(|| total(expansion, values, &dim)));
        peers::join_sums(expansion, &mut sums);
        for (port, sum) in [Port::DBIAS, Port::DSCALE].into_iter().zip(sums) {
            if let Some(sum) = sum {
                peers::share(expansion, port, sum);
            }
        }
        let [dbias, dscale] = sums;
        Some([dbias?, dscale?])
    }

    /// `c₁` and `c₂`, of sets of so many elements. The scale of a channel is the same for all of a batch norm's set: the sums are those of
    /// its gradients (N-36b).
    fn define_averages(
        &self,
        expansion: &mut Expansion,
        summands: [TensorId; 2],
        gradients: Option<[TensorId; 2]>,
        (inverse, count): (TensorId, f64),
    ) -> [TensorId; 2] {
        let dim = expansion.dim(inverse).to_vec();
        let gradients = gradients.filter(|_| self.mode == NormMode::Batch);
        if gradients.is_none() && elements_of_set(expansion.dim(summands[0]), &dim) == count {
            return summands.map(|values| {
                let gradient = scaled(expansion, values);
                average(expansion, gradient, &dim)
            });
        }
        let count = expansion.constant(count, dim.len());
        gradients.unwrap_or(summands).map(|sum| {
            let sum = scaled(expansion, sum);
            let of_set = if gradients.is_some() { sum } else { total(expansion, sum, &dim) };
            expansion.pointwise(PointwiseMode::Div, &[of_set, count])
        })
    }
}
