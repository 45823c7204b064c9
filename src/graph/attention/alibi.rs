//! ALiBi of a node: a slope of each head times the distance of key and query is added to its scores (AT-O7).
//!
//! Programs send slopes as a tensor, and a node has a flag alone. Of `h` heads, `n` the largest power of two among them, head `i < n` has the slope
//! `2^(−8 (i + 1) / n)`, and head `n + j` has `2^(−4 (2 j + 1) / n)`: powers of two of `−8 i / n` and a number that is one of two.

use super::Lowering;
use crate::graph::{Attributes, DataType, Pointwise, PointwiseMode, Port, Scalar, Tensor, TensorId};

/// The flag of a node.
pub(super) const FLAG: &str = "alibi_mask";

/// Axes of scores.
const HEADS: i64 = 1;
const QUERIES: i64 = 2;
const KEYS: i64 = 3;

/// Exponents of the slopes of so many heads: what the number of a head is multiplied by, and what is added for heads below a number, and for others.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Exponents {
    step: f64,
    first: f64,
    beyond: i64,
    others: f64,
}

impl Exponents {
    fn of(heads: i64) -> Self {
        let beyond = 1 << (i64::BITS - 1 - heads.max(1).leading_zeros());
        let step = -8.0 / beyond as f64;
        Self { step, first: step, beyond, others: 8.0 + step / 2.0 }
    }
}

/// Adds the operations, and gives the scores with what they add.
pub(super) fn added(lowering: &mut Lowering, scores: TensorId) -> TensorId {
    use PointwiseMode as M;
    let heads = lowering.scores[1];
    let exponents = Exponents::of(heads);
    let mut steps = Steps { lowering, scores };
    let [row, column] = [QUERIES, KEYS].map(|axis| steps.index(axis, DataType::Int32));
    let distance = steps.pointwise("distance", M::Sub, &[column, row], DataType::Int32);
    let head = steps.index(HEADS, DataType::Float);
    let step = steps.number(exponents.step);
    let multiple = steps.pointwise("multiple", M::Mul, &[head, step], DataType::Float);
    let mut shift = steps.number(exponents.first);
    if heads > exponents.beyond {
        let [beyond, others] = [exponents.beyond as f64, exponents.others].map(|value| steps.number(value));
        let is_first = steps.pointwise("is_first", M::CmpLt, &[head, beyond], DataType::Boolean);
        shift = steps.pointwise("shift", M::BinarySelect, &[shift, others, is_first], DataType::Float);
    }
    let exponent = steps.pointwise("exponent", M::Add, &[multiple, shift], DataType::Float);
    let two = steps.number(2.0);
    let slope = steps.pointwise("slope", M::Pow, &[two, exponent], DataType::Float);
    let leaning = steps.pointwise("leaning", M::Mul, &[distance, slope], DataType::Float);
    steps.pointwise("alibi", M::Add, &[scores, leaning], DataType::Float)
}

/// Operations that are added one by one.
struct Steps<'a, 'b> {
    lowering: &'a mut Lowering<'b>,
    scores: TensorId,
}

impl Steps<'_, '_> {
    /// The place of each score along an axis.
    fn index(&mut self, axis: i64, data_type: DataType) -> TensorId {
        let attributes = Pointwise { axis: Some(axis), ..Pointwise::new(PointwiseMode::GenIndex) };
        let scores = self.scores;
        self.push(&format!("index_{axis}"), attributes, &[scores], data_type)
    }

    fn pointwise(&mut self, name: &str, mode: PointwiseMode, operands: &[TensorId], data_type: DataType) -> TensorId {
        self.push(name, Pointwise::new(mode), operands, data_type)
    }

    fn push(&mut self, name: &str, attributes: Pointwise, operands: &[TensorId], data_type: DataType) -> TensorId {
        let dim = self.lowering.scores.clone();
        let y = self.lowering.value(name, &dim, data_type);
        let inputs = [Port::IN_0, Port::IN_1, Port::IN_2].into_iter().zip(operands.iter().copied()).collect();
        self.lowering.push(name, Attributes::Pointwise(attributes), inputs, vec![(Port::OUT_0, y)]);
        if let (DataType::Int32, Some(operation)) = (data_type, self.lowering.operations.last_mut()) {
            operation.compute_data_type = Some(DataType::Int32);
        }
        y
    }

    fn number(&mut self, value: f64) -> TensorId {
        let name = format!("{}::{value}", self.lowering.node.name);
        let scalar = Tensor::scalar(name, DataType::Float, Scalar::Float(value));
        super::add(self.lowering.draft, Tensor { dim: vec![1; 4], stride: vec![1; 4], ..scalar })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_are_those_of_the_frontend() {
        let slope = |heads: i64, head: i64| {
            let Exponents { step, first, beyond, others } = Exponents::of(heads);
            (step * head as f64 + if head < beyond { first } else { others }).exp2()
        };
        for heads in [1, 2, 3, 8, 12, 20] {
            let beyond = [1, 2, 4, 8, 16].into_iter().filter(|&power| power <= heads).max().unwrap();
            for head in 0..heads {
                let expected = match head < beyond {
                    true => -8.0 * (head + 1) as f64 / beyond as f64,
                    false => -4.0 * (2 * (head - beyond) + 1) as f64 / beyond as f64,
                };
                assert!((slope(heads, head) / expected.exp2() - 1.0).abs() < 1e-12, "{heads} heads, head {head}");
            }
        }
    }
}
