//! Batch norm backward up to what is left to apply (N-08, N-38).
//!
//! `DBIAS = Σdy`, `DSCALE = Σdy·x̂`; with `A = scale·inv`, `B = −A·inv·DSCALE / m`, `C = −A·DBIAS / m − B·mean`, m elements a channel, the
//! gradient of X is `A·dy + B·x + C`. A is EQ_SCALE_DY, B EQ_SCALE_X, C EQ_BIAS.

use super::{
    Definition, Expansion, KeptAttributes, Layout, Malformed, Node, NormMode, PointwiseMode, Port, Ports,
    channel_vector, elements_of_set, normalised, require_dims, total,
};

/// `DY, X, SCALE, MEAN, INV_VARIANCE → [DSCALE, DBIAS, EQ_BIAS, EQ_SCALE_DY, EQ_SCALE_X]`. It has no attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BnBackwardWeights;

const RESULTS: &[Port] = &[Port::DSCALE, Port::DBIAS, Port::EQ_BIAS, Port::EQ_SCALE_DY, Port::EQ_SCALE_X];

impl BnBackwardWeights {
    pub(in crate::graph::operation::composite) fn read(tag: &str, _attributes: &KeptAttributes) -> Option<Self> {
        (tag == "DBN_WEIGHT").then_some(Self)
    }
}

impl Definition for BnBackwardWeights {
    fn tag(&self) -> &'static str {
        "DBN_WEIGHT"
    }

    fn ports(&self) -> Ports {
        ([&[Port::DY, Port::X, Port::SCALE, Port::MEAN, Port::INV_VARIANCE], &[]], [&[], RESULTS])
    }

    fn infer(&self, node: &mut Node) -> Result<(), Malformed> {
        let channel = channel_vector(node.dim(Port::X)?);
        RESULTS.iter().for_each(|&port| node.complete(port, channel.clone(), &Layout::ChannelsLast));
        Ok(())
    }

    fn check(&self, node: &Node) -> Result<(), Malformed> {
        let x = node.dim(Port::X)?;
        let channel = channel_vector(x);
        NormMode::Batch.check_rank(node)?;
        require_dims(node, &[Port::DY], x, "those of X")?;
        require_dims(node, &[Port::SCALE, Port::MEAN, Port::INV_VARIANCE], &channel, "one element a channel")?;
        require_dims(node, RESULTS, &channel, "one element a channel")
    }

    fn define(&self, expansion: &mut Expansion) {
        use PointwiseMode as M;
        let [dy, x, scale, mean, inverse] = expansion.required();
        let (x_dim, channel) = (expansion.dim(x).to_vec(), expansion.dim(scale).to_vec());
        let normalised = normalised(expansion, x, Some(mean), inverse);
        let product = expansion.pointwise(M::Mul, &[dy, normalised]);
        let [dbias, dscale] = [dy, product].map(|values| total(expansion, values, &channel));
        expansion.result(Port::DBIAS, M::Identity, &[dbias]);
        expansion.result(Port::DSCALE, M::Identity, &[dscale]);
        let of_dy = expansion.pointwise(M::Mul, &[scale, inverse]);
        expansion.result(Port::EQ_SCALE_DY, M::Identity, &[of_dy]);
        let count = expansion.constant(-elements_of_set(&x_dim, &channel), x_dim.len());
        let [shift, slope] = [dbias, dscale].map(|sum| {
            let average = expansion.pointwise(M::Div, &[sum, count]);
            expansion.pointwise(M::Mul, &[average, of_dy])
        });
        let of_x = expansion.pointwise(M::Mul, &[slope, inverse]);
        expansion.result(Port::EQ_SCALE_X, M::Identity, &[of_x]);
        let of_mean = expansion.pointwise(M::Mul, &[of_x, mean]);
        expansion.result(Port::EQ_BIAS, M::Sub, &[shift, of_mean]);
    }
}
