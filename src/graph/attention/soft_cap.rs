//! A soft cap of scores: `cap · tanh(scores / cap)` (AT-O12). Programs send its operations, and graph files have no node with one; the forward pass
//! that belongs to a backward pass may have the port.

use super::Lowering;
use crate::graph::{Attributes, DataType, Pointwise, PointwiseMode, Port, TensorId};

/// Adds the operations where there is a cap, and gives the scores as they are capped.
pub(super) fn added(lowering: &mut Lowering, scores: TensorId) -> TensorId {
    use PointwiseMode as M;
    let Some(cap) = lowering.input(Port::SOFT_CAP) else { return scores };
    let steps = [("divided", M::Div, Some(cap)), ("tanh", M::TanhFwd, None), ("capped", M::Mul, Some(cap))];
    steps.into_iter().fold(scores, |x, (name, mode, side)| {
        let dim = lowering.scores.clone();
        let y = lowering.value(name, &dim, DataType::Float);
        let side = side.map(|side| (Port::IN_1, side));
        let inputs = [(Port::IN_0, x)].into_iter().chain(side).collect();
        lowering.push(name, Attributes::Pointwise(Pointwise::new(mode)), inputs, vec![(Port::OUT_0, y)]);
        y
    })
}
