//! Scores, or their gradients, with queries and keys exchanged (`docs/spec/engines.md` 3.4, MHAB-G7): programs send a reshape whose result lies
//! transposed.
//!
//! ```text
//! Y[b, h, c, r] = X[b, h, r, c]
//! ```

use super::{Definition, Expansion, KeptAttributes, Port};
use crate::graph::Malformed;
use crate::graph::infer::{Layout, Node, Ports};

const RULE: &str = "MHAB-G7";

/// It has no attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScoreTranspose;

impl ScoreTranspose {
    /// Tag in graph files: ours, as the library writes none.
    const TAG: &str = "SCORE_TRANSPOSE";

    pub(super) fn read(tag: &str, _attributes: &KeptAttributes) -> Option<Self> {
        (tag == Self::TAG).then_some(Self)
    }

    /// Extents of the result.
    fn transposed(node: &Node) -> Result<Vec<i64>, Malformed> {
        match *node.dim(Port::X)? {
            [batches, heads, queries, keys] => Ok(vec![batches, heads, keys, queries]),
            ref x => {
                let message = format!("dims {x:?}; required batch, heads, queries and keys");
                Err(node.fault_at(RULE, Port::X, message))
            }
        }
    }
}

impl Definition for ScoreTranspose {
    fn tag(&self) -> &'static str {
        Self::TAG
    }

    fn ports(&self) -> Ports {
        ([&[Port::X], &[]], [&[Port::Y], &[]])
    }

    /// Y is row-major.
    fn infer(&self, node: &mut Node) -> Result<(), Malformed> {
        let dim = Self::transposed(node)?;
        node.complete(Port::Y, dim, &Layout::RowMajor);
        Ok(())
    }

    fn check(&self, node: &Node) -> Result<(), Malformed> {
        node.require_dim(RULE, Port::Y, &Self::transposed(node)?, "those of X, queries and keys exchanged")?;
        let [of_x, of_y] = [Port::X, Port::Y].map(|port| node.tensor(port).and_then(|tensor| tensor.data_type));
        match of_x.zip(of_y).filter(|(x, y)| x != y) {
            Some((x, y)) => Err(node.fault_at(RULE, Port::Y, format!("data type is {y}; required is X's, {x}"))),
            None => Ok(()),
        }
    }

    fn define(&self, expansion: &mut Expansion) {
        let [x] = expansion.required();
        if let Some(y) = expansion.output(Port::Y).filter(|_| expansion.is_asked_for(Port::Y)) {
            expansion.transpose_to(x, y);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ScoreTranspose;
    use crate::graph::samples::{half_graph, input, refusal, shape_of};
    use crate::graph::{DataType, Graph, Port};

    fn transposed(x: &[i64]) -> Graph {
        let mut graph = half_graph();
        let x = input(&mut graph, "x", x);
        let y = graph.composite("t", ScoreTranspose, &[(Port::X, x)], &[Port::Y])[0];
        graph.set_output(y).data_type = Some(DataType::Half);
        graph
    }

    #[test]
    fn the_last_two_axes_are_exchanged() {
        let graph = transposed(&[2, 3, 4, 8]).finalize().unwrap();
        assert_eq!(shape_of(&graph, "t::Y"), (&[2, 3, 8, 4][..], &[96, 32, 4, 1][..]));
    }

    #[test]
    fn what_is_transposed_are_scores_in_one_type() {
        assert!(refusal(&transposed(&[4, 8])).contains("required batch, heads, queries and keys [MHAB-G7]"));
        let mut graph = transposed(&[1, 1, 4, 8]);
        let y = graph.operations()[0].result().unwrap();
        graph.tensor_mut(y).data_type = Some(DataType::Float);
        assert!(refusal(&graph).contains("data type is FLOAT; required is X's, HALF"));
    }
}
