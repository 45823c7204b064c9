//! Dropout of probabilities by a mask that is given (`docs/spec/attention.md` AT-O14).
//!
//! ```text
//! Y = X ∘ Dropout_mask · Dropout_scale        S = X where the mask is above 0, −X elsewhere
//! ```
//!
//! S is as that of a [`Dropout`](super::Dropout) (MHAF-USERMASK).

use super::{Definition, Dropout, Expansion, KeptAttributes, Port};
use crate::graph::infer::{Layout, Node, Ports};
use crate::graph::{DataType, Malformed, PointwiseMode};

const RULE: &str = "AT-O14";

/// Dropout by a mask has no attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MaskedDropout;

impl MaskedDropout {
    /// Tag in graph files: ours, as the library writes none.
    const TAG: &str = "MASKED_DROPOUT";

    pub(super) fn read(tag: &str, _attributes: &KeptAttributes) -> Option<Self> {
        (tag == Self::TAG).then_some(Self)
    }

    /// A mask that scores of these extents are multiplied by, and factors that are numbers, of any operation.
    pub(super) fn check_masked(node: &Node, scores: &[i64]) -> Result<(), Malformed> {
        let mask = node.dim(Port::DROPOUT_MASK)?;
        let broadcasts = mask.iter().zip(scores).all(|(&extent, &whole)| extent == 1 || extent == whole);
        if mask.len() != scores.len() || !broadcasts {
            let message = format!("dims {mask:?}, required {scores:?}, or 1 on some axes");
            return Err(node.fault_at(RULE, Port::DROPOUT_MASK, message));
        }
        for port in [Port::DROPOUT_SCALE, Port::DROPOUT_SCALE_INV] {
            if node.tensor(port).is_some_and(|tensor| tensor.dim.iter().any(|&extent| extent != 1)) {
                return Err(node.fault_at("AT-E8", port, "required is one number"));
            }
        }
        Ok(())
    }
}

impl Definition for MaskedDropout {
    fn tag(&self) -> &'static str {
        Self::TAG
    }

    fn ports(&self) -> Ports {
        ([&[Port::X, Port::DROPOUT_MASK, Port::DROPOUT_SCALE], &[]], [&[Port::Y], &[Port::S]])
    }

    fn default_type(&self, port: Port) -> Option<DataType> {
        (port == Port::DROPOUT_SCALE).then_some(DataType::Float)
    }

    /// Y and S lie as X does.
    fn infer(&self, node: &mut Node) -> Result<(), Malformed> {
        let (dim, order) = (node.dim(Port::X)?.to_vec(), Layout::OrderOf(node.stride(Port::X)?.to_vec()));
        node.complete(Port::Y, dim.clone(), &order);
        node.complete(Port::S, dim, &order);
        Ok(())
    }

    fn check(&self, node: &Node) -> Result<(), Malformed> {
        let x = node.dim(Port::X)?;
        if x.len() != 4 {
            let message = format!("dims {x:?}; required batch, heads, queries and keys");
            return Err(node.fault_at(RULE, Port::X, message));
        }
        node.require_dim(RULE, Port::Y, x, "those of X")?;
        if node.tensor(Port::S).is_some() {
            node.require_dim(RULE, Port::S, x, "those of X")?;
        }
        Self::check_masked(node, x)
    }

    fn define(&self, expansion: &mut Expansion) {
        let [x, mask, scale] = expansion.required();
        let x = Dropout::stored(expansion, x, mask);
        let kept = expansion.pointwise(PointwiseMode::Mul, &[x, mask]);
        expansion.result(Port::Y, PointwiseMode::Mul, &[kept, scale]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::samples::{half_graph, input, refusal, shape_of};
    use crate::graph::{Graph, Scalar, Tensor};

    fn masked(x: &[i64], mask: &[i64]) -> Graph {
        let mut graph = half_graph();
        let (x, mask) = (input(&mut graph, "x", x), input(&mut graph, "mask", mask));
        let scale = graph.tensor(Tensor::scalar("scale", DataType::Float, Scalar::Float(2.0)));
        let slots = [(Port::X, x), (Port::DROPOUT_MASK, mask), (Port::DROPOUT_SCALE, scale)];
        let y = graph.composite("d", MaskedDropout, &slots, &[Port::Y])[0];
        graph.set_output(y);
        graph
    }

    #[test]
    fn a_mask_has_the_extents_of_scores_or_1() {
        for mask in [[2, 3, 4, 8], [1, 1, 4, 8], [2, 1, 1, 1]] {
            let graph = masked(&[2, 3, 4, 8], &mask).finalize().unwrap();
            assert_eq!(shape_of(&graph, "d::Y").0, [2, 3, 4, 8]);
        }
        assert!(refusal(&masked(&[2, 3, 4, 8], &[2, 3, 8, 4])).contains("or 1 on some axes [AT-O14]"));
        assert!(refusal(&masked(&[4, 8], &[4, 8])).contains("required batch, heads"));
    }
}
