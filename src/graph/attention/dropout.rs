//! Dropout of a node: a probability, what says which numbers are drawn, and a factor that makes up for what is dropped (AT-O13).

use super::super::draft::Draft;
use super::super::{
    Attributes, Bernoulli, Composite, DataType, Dropout, Malformed, MaskedDropout, Operation, OperationId, Port,
    Scalar, Tensor, TensorId,
};

/// The probability to drop: a number, beside ports that have nothing to say where it is 0 (AT-P41).
pub(super) const PROBABILITY: &str = "dropout_probability";

/// Ports that a probability brings.
pub(super) const INPUTS: [Port; 4] = [Port::SEED, Port::OFFSET, Port::DROPOUT_SCALE, Port::DROPOUT_SCALE_INV];

/// The probability to drop that a node gives.
pub(super) fn dropped(node: &Operation) -> Option<f64> {
    node.attributes.kept().get(PROBABILITY).and_then(serde_json::Value::as_f64)
}

/// What a node drops.
pub(super) struct Dropping {
    pub(super) kept: Bernoulli,
    /// Seed, offset and factor, as far as there are some.
    pub(super) inputs: Vec<(Port, TensorId)>,
}

impl Dropping {
    /// What a node drops, if anything; the factor is a tensor's, or becomes one (AT-J3).
    pub(super) fn of(draft: &mut Draft, id: OperationId, node: &Operation) -> Result<Option<Self>, Malformed> {
        let Some(dropped) = dropped(node).filter(|&dropped| dropped != 0.0) else { return Ok(None) };
        // rounded before anything is made of it: frontends round in different places (AT-O13)
        let keep = 1.0 - dropped as f32;
        let expected = 1.0 / keep;
        let scale = match node.input(Port::DROPOUT_SCALE) {
            Some(tensor) => {
                let value = draft.tensor(tensor).value.map(Scalar::as_f64);
                if let Some(value) = value.filter(|&value| !is_inverse(value, keep)) {
                    let message = format!("port {} is {value}, but {PROBABILITY} is {dropped}", Port::DROPOUT_SCALE);
                    return Err(draft.fault("AT-E18", id, Some(tensor), message));
                }
                tensor
            }
            None => factor(draft, node, expected),
        };
        let state = Dropout::STATE.into_iter().filter_map(|port| Some((port, node.input(port)?)));
        let inputs = state.chain([(Port::DROPOUT_SCALE, scale)]).collect();
        Ok(Some(Self { kept: Bernoulli { keep }, inputs }))
    }
}

/// Whether a factor makes up for what is dropped, however it was rounded. `keep` is 1 − p in `float`: rounding p moves it by up to 2⁻²⁵, 2⁻²⁵ / keep of
/// itself, and the factor may be rounded too, by 2⁻²⁴ of itself.
fn is_inverse(factor: f64, keep: f32) -> bool {
    let keep = f64::from(keep);
    (factor * keep - 1.0).abs() <= f64::from(f32::EPSILON) / 2.0 * (1.0 + 1.0 / keep)
}

/// Ports of dropout by a mask.
pub(super) const MASK: [Port; 3] = [Port::DROPOUT_MASK, Port::DROPOUT_SCALE, Port::DROPOUT_SCALE_INV];

/// What a backward node says of dropout by a mask, if it has one; a divisor of 1 says nothing.
pub(super) fn masked(draft: &Draft, node: &Operation) -> Vec<(Port, TensorId)> {
    let is_one = |id: TensorId| {
        let tensor = draft.tensor(id);
        tensor.is_pass_by_value && tensor.value.is_some_and(|value| value.as_f64() == 1.0)
    };
    let says = |slot: &(Port, TensorId)| slot.0 != Port::DROPOUT_SCALE_INV || !is_one(slot.1);
    let given = MASK.into_iter().filter_map(|port| Some((port, node.input(port)?)));
    given.filter(says).filter(|_| node.input(Port::DROPOUT_MASK).is_some()).collect()
}

/// What drops the probabilities of a forward pass: its attributes, and its inputs beside them.
pub(super) struct Step {
    composite: Composite,
    inputs: Vec<(Port, TensorId)>,
}

/// What a forward node drops, if anything, by a probability or by a mask.
pub(super) fn of(draft: &mut Draft, id: OperationId, node: &Operation) -> Result<Option<Step>, Malformed> {
    let drawn = Dropping::of(draft, id, node)?;
    let of_mask = node.input(Port::DROPOUT_MASK).map(|mask| {
        let scale = node.input(Port::DROPOUT_SCALE).unwrap_or_else(|| factor(draft, node, 1.0));
        let inputs = vec![(Port::DROPOUT_MASK, mask), (Port::DROPOUT_SCALE, scale)];
        Step { composite: MaskedDropout.into(), inputs }
    });
    let of_probability =
        drawn.map(|drawn| Step { composite: Dropout { kept: drawn.kept }.into(), inputs: drawn.inputs });
    Ok(of_probability.or(of_mask))
}

impl Step {
    /// The operation on a value: its attributes and inputs.
    pub(super) fn of_value(self, x: TensorId) -> (Attributes, Vec<(Port, TensorId)>) {
        (Attributes::Composite(self.composite), [(Port::X, x)].into_iter().chain(self.inputs).collect())
    }
}

/// A factor of what is kept, as a host scalar of a node.
fn factor(draft: &mut Draft, node: &Operation, value: f32) -> TensorId {
    let name = format!("{}::{}", node.name, Port::DROPOUT_SCALE);
    let scalar = Tensor::scalar(name, DataType::Float, Scalar::Float(f64::from(value)));
    super::add(draft, Tensor { dim: vec![1; 4], stride: vec![1; 4], ..scalar })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_may_be_rounded_in_different_places() {
        for dropped in [0.1, 0.5, 0.9, 0.999] {
            let keep = 1.0 - dropped as f32;
            for factor in [1.0 / (1.0 - dropped), f64::from(1.0 / keep), f64::from(1.0 / (1.0 - dropped) as f32)] {
                assert!(is_inverse(factor, keep), "{factor} of {dropped}");
                assert!(
                    !is_inverse(factor * 1.001, keep) && !is_inverse(factor / 1.001, keep),
                    "{factor} of {dropped}"
                );
            }
        }
    }
}
