//! Dropout of probabilities by a documented generator (`docs/spec/attention.md` AT-O13).
//!
//! ```text
//! Y = X ∘ m · Dropout_scale        m = 1 where a Bernoulli variable keeps the element, else 0        RNG_DUMP = m
//! S = X where m = 1, −X elsewhere
//! ```
//!
//! Where S is asked for it is what Y is made of: X as S's type rounds it. Its sign bit tells a backward pass what was dropped
//! (MHAF-S-STORE), which so needs no random numbers.
//!
//! Whether an element is kept depends on seed, offset and its coordinates alone: the backward pass draws the mask of the forward pass
//! again, whatever the tiles of either.

use serde_json::{Value, json};

use super::{Definition, Expansion, KeptAttributes, Port};
use crate::graph::infer::{Layout, Node, Ports};
use crate::graph::key::Bytes;
use crate::graph::{DataType, Malformed, PointwiseMode, Tensor, TensorId};

/// A variable of each element that is 1 with a probability, and 0 otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bernoulli {
    /// The probability of 1, in (0, 1].
    pub keep: f32,
}

impl Bernoulli {
    /// How many of the 2¹⁶ numbers that are drawn for an element keep it: those below this one.
    pub fn threshold(self) -> u32 {
        // at most 2^16
        (65536.0 * self.keep).round() as u32
    }
}

/// Attributes of a dropout.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dropout {
    /// Which elements are kept.
    pub kept: Bernoulli,
}

const KEEP: &str = "keep_probability";

impl Dropout {
    /// Tag in graph files: ours, as the library writes none.
    const TAG: &str = "DROPOUT";

    /// What says which numbers are drawn.
    pub const STATE: [Port; 2] = [Port::SEED, Port::OFFSET];

    pub(super) fn read(tag: &str, attributes: &KeptAttributes) -> Option<Self> {
        // nothing keeps no element: what is not given is refused by the check
        let none = Self { kept: Bernoulli { keep: 0.0 } };
        (tag == Self::TAG).then(|| Self::of(attributes).unwrap_or(none))
    }

    /// The dropout that attributes of any operation say, if they say any.
    pub(super) fn of(attributes: &KeptAttributes) -> Option<Self> {
        let keep = attributes.get(KEEP).and_then(Value::as_f64)? as f32;
        Some(Self { kept: Bernoulli { keep } })
    }

    /// What is kept of a value of scores, times the factor; the ports are there.
    pub(super) fn applied(expansion: &mut Expansion, x: TensorId, mask: TensorId) -> TensorId {
        let kept = expansion.pointwise(PointwiseMode::Mul, &[x, mask]);
        let scale = expansion.input(Port::DROPOUT_SCALE);
        scale.map_or(kept, |scale| expansion.pointwise(PointwiseMode::Mul, &[kept, scale]))
    }

    /// 1 where a score is kept, and 0 elsewhere, for scores of these extents.
    pub(super) fn mask(self, expansion: &mut Expansion, dim: Vec<i64>) -> Option<TensorId> {
        let [seed, offset] = Self::STATE.map(|port| expansion.input(port));
        Some(expansion.bernoulli(self.kept, [seed?, offset?], dim))
    }

    /// Stores S of a value, where somebody asks for it; gives the value as it is kept then, in the type of S.
    pub(super) fn stored(expansion: &mut Expansion, x: TensorId, mask: TensorId) -> TensorId {
        use PointwiseMode as M;
        let Some(s) = expansion.output(Port::S).filter(|_| expansion.is_asked_for(Port::S)) else { return x };
        let zero = expansion.constant(0.0, expansion.dim(x).len());
        let is_kept = expansion.pointwise(M::CmpGt, &[mask, zero]);
        let negative = expansion.pointwise(M::Neg, &[x]);
        expansion.result(Port::S, M::BinarySelect, &[x, negative, is_kept]);
        expansion.rounded(x, s)
    }

    /// Whether a tensor may tell what is drawn: a whole number (AT-E16).
    pub(in crate::graph) fn is_state(tensor: &Tensor) -> bool {
        let is_whole = matches!(tensor.data_type, Some(DataType::Int32 | DataType::Int64));
        is_whole && tensor.dim.iter().all(|&extent| extent == 1)
    }

    /// A probability that leaves something, numbers that tell what is drawn, and a factor.
    pub(super) fn check_state(self, node: &Node) -> Result<(), Malformed> {
        const RULE: &str = "AT-E16";
        let keep = self.kept.keep;
        if !(keep > 0.0 && keep <= 1.0) {
            return Err(node.fault(RULE, format!("{KEEP} is {keep}; required above 0, at most 1")));
        }
        for port in Self::STATE {
            if !node.tensor(port).is_some_and(Self::is_state) {
                return Err(node.fault_at(RULE, port, "required is one number, INT32 or INT64"));
            }
        }
        if node.dim(Port::DROPOUT_SCALE)?.iter().any(|&extent| extent != 1) {
            return Err(node.fault_at("AT-E8", Port::DROPOUT_SCALE, "required is one number"));
        }
        Ok(())
    }
}

impl Definition for Dropout {
    fn tag(&self) -> &'static str {
        Self::TAG
    }

    fn ports(&self) -> Ports {
        ([&[Port::X, Port::SEED, Port::OFFSET, Port::DROPOUT_SCALE], &[]], [&[Port::Y], &[Port::RNG_DUMP, Port::S]])
    }

    fn attributes(&self) -> KeptAttributes {
        [(KEEP.to_owned(), json!(f64::from(self.kept.keep)))].into()
    }

    fn key_bytes(&self, bytes: &mut Bytes) {
        bytes.single(self.kept.keep);
    }

    fn texts(&self) -> Vec<String> {
        vec![format!("{KEEP}={}", self.kept.keep)]
    }

    fn default_type(&self, port: Port) -> Option<DataType> {
        match port {
            Port::SEED | Port::OFFSET => Some(DataType::Int64),
            Port::DROPOUT_SCALE | Port::RNG_DUMP => Some(DataType::Float),
            _ => None,
        }
    }

    /// Y and S lie as X does, and the mask row-major.
    fn infer(&self, node: &mut Node) -> Result<(), Malformed> {
        let (dim, order) = (node.dim(Port::X)?.to_vec(), Layout::OrderOf(node.stride(Port::X)?.to_vec()));
        node.complete(Port::Y, dim.clone(), &order);
        node.complete(Port::S, dim.clone(), &order);
        node.complete(Port::RNG_DUMP, dim, &Layout::RowMajor);
        Ok(())
    }

    fn check(&self, node: &Node) -> Result<(), Malformed> {
        const RULE: &str = "AT-O13";
        let x = node.dim(Port::X)?;
        if x.len() != 4 {
            let message = format!("dims {x:?}; required batch, heads, queries and keys");
            return Err(node.fault_at(RULE, Port::X, message));
        }
        node.require_dim(RULE, Port::Y, x, "those of X")?;
        for port in [Port::RNG_DUMP, Port::S].into_iter().filter(|&port| node.tensor(port).is_some()) {
            node.require_dim(RULE, port, x, "those of X")?;
        }
        self.check_state(node)
    }

    fn define(&self, expansion: &mut Expansion) {
        use PointwiseMode as M;
        let [x, seed, offset, scale] = expansion.required();
        let mask = expansion.bernoulli(self.kept, [seed, offset], expansion.dim(x).to_vec());
        let x = Self::stored(expansion, x, mask);
        let kept = expansion.pointwise(M::Mul, &[x, mask]);
        expansion.result(Port::Y, M::Mul, &[kept, scale]);
        expansion.result(Port::RNG_DUMP, M::Identity, &[mask]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::samples::{half_graph, input, refusal, shape_of};
    use crate::graph::{Attributes, Composite, Graph, Operation, Scalar, Tensor};

    /// A dropout of a stored tensor, of a seed of a type.
    fn dropped(keep: f32, dim: &[i64], seed: &[i64], data_type: DataType) -> Graph {
        let mut graph = half_graph();
        let x = input(&mut graph, "x", dim);
        let seed = graph.tensor(Tensor::new("seed").row_major(seed).data_type(data_type));
        let offset = graph.tensor(Tensor::new("offset").row_major([1; 4]).data_type(DataType::Int64));
        let scale = graph.tensor(Tensor::scalar("scale", DataType::Float, Scalar::Float(2.0)));
        let [y, dump] = ["y", "dump"].map(|name| graph.tensor(Tensor { is_virtual: false, ..Tensor::new(name) }));
        graph.operation(Operation {
            name: "dropout".to_owned(),
            attributes: Attributes::Composite(Composite::Dropout(Dropout { kept: Bernoulli { keep } })),
            compute_data_type: None,
            inputs: vec![(Port::X, x), (Port::SEED, seed), (Port::OFFSET, offset), (Port::DROPOUT_SCALE, scale)],
            outputs: vec![(Port::Y, y), (Port::RNG_DUMP, dump)],
        });
        graph
    }

    #[test]
    fn the_mask_is_float_and_what_is_dropped_lies_as_it_did() {
        let graph = dropped(0.5, &[2, 3, 4, 8], &[1; 4], DataType::Int32).finalize().unwrap();
        assert_eq!(shape_of(&graph, "y"), (&[2, 3, 4, 8][..], &[96, 32, 8, 1][..]));
        assert_eq!(shape_of(&graph, "dump"), shape_of(&graph, "y"));
        let dump = graph.tensors().find(|tensor| tensor.name == "dump").map(|tensor| tensor.data_type);
        assert_eq!(dump, Some(DataType::Float));
        assert!(graph.text().contains("DROPOUT(X=t0, Seed=t1, Offset=t2, Dropout_scale="), "{}", graph.text());
        assert!(graph.text().contains("keep_probability=0.5"), "{}", graph.text());
    }

    #[test]
    fn probabilities_and_numbers_are_held_to_their_rules() {
        let dims = [2, 3, 4, 8];
        for keep in [0.0, -0.5, 1.5, f32::NAN] {
            let message = refusal(&dropped(keep, &dims, &[1; 4], DataType::Int64));
            assert!(message.contains("required above 0, at most 1") && message.contains("AT-E16"), "{message}");
        }
        assert!(
            refusal(&dropped(0.5, &dims, &[1; 4], DataType::Float)).contains("one number, INT32 or INT64 [AT-E16]")
        );
        assert!(refusal(&dropped(0.5, &dims, &[2, 1, 1, 1], DataType::Int64)).contains("[AT-E16]"));
        assert!(refusal(&dropped(0.5, &[4, 8], &[1; 4], DataType::Int64)).contains("required batch, heads"));
        assert!(dropped(1.0, &dims, &[1; 4], DataType::Int64).finalize().is_ok());
    }

    #[test]
    fn the_probability_is_part_of_the_key() {
        let key = |keep| dropped(keep, &[1, 1, 4, 8], &[1; 4], DataType::Int64).finalize().unwrap().key();
        assert_eq!(key(0.5), key(0.5));
        assert_ne!(key(0.5), key(0.25));
        assert_eq!([1.0, 0.5, 0.9].map(|keep| Bernoulli { keep }.threshold()), [65536, 32768, 58982]);
    }
}
