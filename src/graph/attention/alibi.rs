//! ALiBi of a node: a slope of each head times the distance of key and query is added to its scores (AT-O7).
//!
//! Programs send slopes as a tensor, and a node has a flag alone: slopes are those of [`AlibiSlopes`] then. The forward pass that belongs to a
//! backward pass may have a tensor of them, too.

use super::Lowering;
use crate::graph::{
    AlibiSlopes, Attributes, DataType, Operation, Pointwise, PointwiseMode, Port, Scalar, Tensor, TensorId,
};

/// The flag of a node.
pub(super) const FLAG: &str = "alibi_mask";

/// Axes of scores.
const HEADS: i64 = 1;
const QUERIES: i64 = 2;
const KEYS: i64 = 3;

/// Whether a node has the flag.
pub(super) fn is_set(node: &Operation) -> bool {
    node.attributes.kept().get(FLAG).and_then(serde_json::Value::as_bool) == Some(true)
}

/// Adds the operations where the node has the flag, or slopes, and gives the scores with what they add.
pub(super) fn added(lowering: &mut Lowering, scores: TensorId) -> TensorId {
    use PointwiseMode as M;
    let given = lowering.input(Port::ALIBI_SLOPES);
    if given.is_none() && !is_set(lowering.node) {
        return scores;
    }
    let mut steps = Steps { lowering, scores };
    let [row, column] = [QUERIES, KEYS].map(|axis| steps.index(axis, DataType::Int32));
    let distance = steps.pointwise("distance", M::Sub, &[column, row], DataType::Int32);
    let slope = given.unwrap_or_else(|| steps.slopes());
    let leaning = steps.pointwise("leaning", M::Mul, &[distance, slope], DataType::Float);
    steps.pointwise("alibi", M::Add, &[scores, leaning], DataType::Float)
}

/// Operations that are added one by one.
struct Steps<'a, 'b> {
    lowering: &'a mut Lowering<'b>,
    scores: TensorId,
}

impl Steps<'_, '_> {
    /// The slope of the head of each score.
    fn slopes(&mut self) -> TensorId {
        use PointwiseMode as M;
        let heads = self.lowering.scores[1];
        let slopes = AlibiSlopes::of(heads);
        let head = self.index(HEADS, DataType::Float);
        let step = self.number(slopes.step);
        let multiple = self.pointwise("multiple", M::Mul, &[head, step], DataType::Float);
        let mut shift = self.number(slopes.first);
        if heads > slopes.beyond {
            let [beyond, others] = [slopes.beyond as f64, slopes.others].map(|value| self.number(value));
            let is_first = self.pointwise("is_first", M::CmpLt, &[head, beyond], DataType::Boolean);
            shift = self.pointwise("shift", M::BinarySelect, &[shift, others, is_first], DataType::Float);
        }
        let exponent = self.pointwise("exponent", M::Add, &[multiple, shift], DataType::Float);
        let two = self.number(2.0);
        self.pointwise("slope", M::Pow, &[two, exponent], DataType::Float)
    }

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
