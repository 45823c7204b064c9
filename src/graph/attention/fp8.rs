//! Scaling of an attention in FP8 (AT-O19, AT-P33): scores are multiplied by what Q and K were divided by, probabilities and O by factors of
//! the caller's, and the largest magnitudes of these are kept.

use super::Lowering;
use crate::graph::{
    Attributes, DataType, Operation, Pointwise, PointwiseMode, Port, Reduction, ReductionMode, TensorId,
};

/// Ports of the numbers.
pub(super) const FACTORS: [Port; 6] =
    [Port::DESCALE_Q, Port::DESCALE_K, Port::DESCALE_V, Port::DESCALE_S, Port::SCALE_S, Port::SCALE_O];

/// Ports of the largest magnitudes.
pub(super) const LARGEST: [Port; 2] = [Port::AMAX_S, Port::AMAX_O];

/// Whether a node stores the largest magnitude of what it computes, or multiplies it by a number, behind a product.
pub(super) fn scales(node: &Operation, factors: &[Port], largest: Port) -> bool {
    node.output(largest).is_some() || factors.iter().any(|&port| node.input(port).is_some())
}

/// Adds the operations that multiply a value by the numbers of ports, as far as there are some; gives what they make of it.
pub(super) fn multiplied(lowering: &mut Lowering, mut x: TensorId, ports: &[Port]) -> TensorId {
    for &port in ports {
        let Some(number) = lowering.input(port) else { continue };
        let dim = lowering.draft.tensor(x).dim.clone();
        let y = lowering.value(port.0, &dim, DataType::Float);
        multiply(lowering, port.0, [x, number], y);
        x = y;
    }
    x
}

/// Adds the operations that multiply a value by the number of a port, if there is one, into a result.
pub(super) fn result(lowering: &mut Lowering, x: TensorId, port: Port, y: TensorId) {
    match lowering.input(port) {
        Some(number) => multiply(lowering, port.0, [x, number], y),
        None => {
            let attributes = Attributes::Pointwise(Pointwise::new(PointwiseMode::Identity));
            lowering.push(port.0, attributes, vec![(Port::IN_0, x)], vec![(Port::OUT_0, y)]);
        }
    }
}

/// Adds the operation that keeps the largest magnitude of a value, where the node's port wants it.
pub(super) fn keep_largest(lowering: &mut Lowering, x: TensorId, port: Port) {
    if let Some(largest) = lowering.node.output(port) {
        let attributes = Attributes::Reduction(Reduction::new(ReductionMode::Amax));
        lowering.push(port.0, attributes, vec![(Port::X, x)], vec![(Port::Y, largest)]);
    }
}

fn multiply(lowering: &mut Lowering, name: &str, [x, number]: [TensorId; 2], y: TensorId) {
    let attributes = Attributes::Pointwise(Pointwise::new(PointwiseMode::Mul));
    lowering.push(name, attributes, vec![(Port::IN_0, x), (Port::IN_1, number)], vec![(Port::OUT_0, y)]);
}
