//! Dropout between a softmax and a product: a node, or random numbers and the operations that programs multiply by them with (AT-P33).
//!
//! ```text
//! Y = (P · RNG) · factor, or (P · factor) · mask
//! ```

use serde_json::Value;

use super::super::draft::Draft;
use super::super::{
    Attributes, Bernoulli, Composite, DataType, Dropout, MaskedDropout, Operation, PointwiseMode, Port, Scalar, Tensor,
    TensorId, packed_strides, row_major_order,
};
use super::flow::Flow;
use super::rows::Parts;

/// The port of a value between the operations of a dropout, where it lies in memory; `None` where others read it, or it is rounded between.
fn stored(draft: &Draft, flow: &Flow, value: TensorId) -> Option<Option<(Port, TensorId)>> {
    let tensor = draft.tensor(value);
    let is_read_once = flow.readers(draft, value).len() == 1;
    let fits = is_read_once && (!tensor.is_virtual || tensor.data_type == Some(DataType::Float));
    fits.then(|| (!tensor.is_virtual).then_some((Port::S, value)))
}

/// Dropout of probabilities.
pub(super) struct Drops {
    /// The probabilities, of the softmax.
    pub(super) p: TensorId,
    /// What is left of them.
    y: TensorId,
    /// The operation that stands for several; a node stands for itself.
    operation: Option<Operation>,
    /// Whether what a product multiplies is what lies in memory: nothing makes up for what is dropped.
    is_bare: bool,
}

/// Random numbers, in a graph.
#[derive(Clone, Copy)]
pub(super) struct Drawn {
    pub(super) kept: Bernoulli,
    /// Seed and offset.
    pub(super) state: [TensorId; 2],
}

impl Drawn {
    /// What says which of the elements of a random mask are 1; `None` where it is another kind of tensor.
    pub(super) fn of(draft: &Draft, flow: &Flow, mask: TensorId) -> Option<Self> {
        let operation = flow.made_by(draft, mask)?;
        let Attributes::Other(other) = &operation.attributes else { return None };
        let is_bernoulli = other.attributes.get("distribution").and_then(Value::as_str) == Some("BERNOULLI");
        // rounded before anything is made of it: frontends round in different places (AT-O13)
        let keep = other.attributes.get("bernoulli_probability").and_then(Value::as_f64)? as f32;
        let is_state = |id: TensorId| flow.writer(id).is_none() && Dropout::is_state(draft.tensor(id));
        let [seed, offset] = Dropout::STATE.map(|port| operation.input(port).filter(|&id| is_state(id)));
        let fits = other.tag == "RNG" && is_bernoulli && keep > 0.0 && keep <= 1.0;
        let is_float = draft.tensor(mask).data_type == Some(DataType::Float);
        Some(Self { kept: Bernoulli { keep }, state: [seed?, offset?] }).filter(|_| fits && is_float)
    }

    /// Slots of an operation for it.
    pub(super) fn slots(self) -> impl Iterator<Item = (Port, TensorId)> {
        Dropout::STATE.into_iter().zip(self.state)
    }
}

impl Drops {
    /// The dropout that gives a value, if one does.
    pub(super) fn of(draft: &Draft, flow: &Flow, y: TensorId) -> Option<Self> {
        let writer = flow.made_by(draft, y)?;
        let found = match &writer.attributes {
            Attributes::Composite(Composite::Dropout(_) | Composite::MaskedDropout(_)) => {
                Self { p: writer.input(Port::X)?, y, operation: None, is_bare: false }
            }
            _ => Self::of_operations(draft, flow, y)
                .or_else(|| Self::of_mask(draft, flow, y))
                .or_else(|| Self::of_bare(draft, flow, y))?,
        };
        flow.is_private(draft, found.p).then_some(found)
    }

    /// Whether it is one operation already.
    pub(super) fn is_node(&self) -> bool {
        self.operation.is_none()
    }

    /// Whether what was dropped stays in memory, by signs (MHAF-S-STORE).
    pub(super) fn stores(&self) -> bool {
        self.operation.as_ref().is_some_and(|operation| operation.output(Port::S).is_some())
    }

    fn of_operations(draft: &Draft, flow: &Flow, y: TensorId) -> Option<Self> {
        let parts = Parts { draft, flow };
        let ways = |[a, b]: [TensorId; 2]| [[a, b], [b, a]].into_iter();
        let is_number =
            |id: TensorId| flow.writer(id).is_none() && draft.tensor(id).dim.iter().all(|&extent| extent == 1);
        let [masked, scale] = ways(parts.operands(y, PointwiseMode::Mul)?).find(|way| is_number(way[1]))?;
        let drawn_by = |mask| Drawn::of(draft, flow, mask);
        let [p, mask] = ways(parts.operands(masked, PointwiseMode::Mul)?).find(|way| drawn_by(way[1]).is_some())?;
        let drawn = drawn_by(mask)?;
        let dims = [y, masked, mask].map(|id| &draft.tensor(id).dim);
        let is_shared = flow.readers(draft, mask).len() > 1;
        let stored = stored(draft, flow, masked)?;
        if is_shared || dims != [&draft.tensor(p).dim; 3] {
            return None;
        }
        let inputs = [(Port::X, p)].into_iter().chain(drawn.slots()).chain([(Port::DROPOUT_SCALE, scale)]).collect();
        let dump = (!draft.tensor(mask).is_virtual).then_some((Port::RNG_DUMP, mask));
        let outputs = [(Port::Y, y)].into_iter().chain(dump).chain(stored).collect();
        let name = &flow.made_by(draft, y)?.name;
        let operation = super::operation(name, Dropout { kept: drawn.kept }, inputs, outputs);
        Some(Self { p, y, operation: Some(operation), is_bare: false })
    }

    /// Dropout by a mask of the caller's, before or behind a factor (AT-O14).
    fn of_mask(draft: &Draft, flow: &Flow, y: TensorId) -> Option<Self> {
        let parts = Parts { draft, flow };
        let product = |id| {
            let [a, b] = parts.operands(id, PointwiseMode::Mul)?;
            [[a, b], [b, a]].into_iter().find(|way| flow.writer(way[1]).is_none() && flow.writer(way[0]).is_some())
        };
        let is_number = |id: TensorId| draft.tensor(id).dim.iter().all(|&extent| extent == 1);
        let [inner, last] = product(y)?;
        let [p, first] = product(inner)?;
        let (mask, scale) = if is_number(first) { (last, first) } else { (first, last) };
        let stored = stored(draft, flow, inner)?;
        let dims = [y, inner].map(|id| &draft.tensor(id).dim);
        // what lies in memory tells what the mask dropped
        let is_masked = stored.is_none() || mask == first;
        if !is_masked || !is_number(scale) || is_number(mask) {
            return None;
        }
        let inputs = vec![(Port::X, p), (Port::DROPOUT_MASK, mask), (Port::DROPOUT_SCALE, scale)];
        let name = &flow.made_by(draft, y)?.name;
        let outputs = [(Port::Y, y)].into_iter().chain(stored).collect();
        let operation = super::operation(name, MaskedDropout, inputs, outputs);
        (dims == [&draft.tensor(p).dim; 2]).then_some(Self { p, y, operation: Some(operation), is_bare: false })
    }

    /// Dropout whose result lies in memory, and is multiplied as it is (MHAF-USERMASK).
    fn of_bare(draft: &Draft, flow: &Flow, y: TensorId) -> Option<Self> {
        let [a, b] = Parts { draft, flow }.operands(y, PointwiseMode::Mul).filter(|_| !draft.tensor(y).is_virtual)?;
        let drawn_by = |mask| Drawn::of(draft, flow, mask).filter(|_| flow.readers(draft, mask).len() == 1);
        let is_mask = |id: TensorId| {
            let is_number = draft.tensor(id).dim.iter().all(|&extent| extent == 1);
            drawn_by(id).is_some() || flow.writer(id).is_none() && !is_number
        };
        let [p, mask] = [[a, b], [b, a]].into_iter().find(|way| is_mask(way[1]) && flow.writer(way[0]).is_some())?;
        let name = &flow.made_by(draft, y)?.name;
        let outputs = vec![(Port::S, y)];
        let operation = match drawn_by(mask) {
            Some(drawn) => {
                let inputs = [(Port::X, p)].into_iter().chain(drawn.slots()).collect();
                super::operation(name, Dropout { kept: drawn.kept }, inputs, outputs)
            }
            None => super::operation(name, MaskedDropout, vec![(Port::X, p), (Port::DROPOUT_MASK, mask)], outputs),
        };
        let fits = draft.tensor(p).dim == draft.tensor(y).dim;
        fits.then_some(Self { p, y, operation: Some(operation), is_bare: true })
    }

    /// Puts a node in the place of the operations, which then lead nowhere; what is rounded is what is multiplied, and nothing before it.
    pub(super) fn put(mut self, draft: &mut Draft) -> [TensorId; 2] {
        if self.is_bare {
            self.part(draft);
        }
        if let Some(dropout) = self.operation {
            let given: Vec<TensorId> = dropout.output_tensors().collect();
            draft.operations.retain(|operation| !operation.output_tensors().any(|id| given.contains(&id)));
            draft.tensors[self.p.index()].data_type = Some(DataType::Float);
            draft.operations.push(dropout);
        }
        [self.p, self.y]
    }

    /// Lets what is multiplied be a value of its own, and the factor of what is kept 1.
    fn part(&mut self, draft: &mut Draft) {
        let Some(operation) = &mut self.operation else { return };
        let stored = draft.tensor(self.y).clone();
        let stride = packed_strides(&stored.dim, &row_major_order(stored.dim.len()));
        let one = Tensor::scalar("factor", DataType::Float, Scalar::Float(1.0));
        let [one, y] = [
            Tensor { dim: vec![1; 4], stride: vec![1; 4], ..one },
            Tensor { dim: stored.dim, stride, data_type: stored.data_type, is_virtual: true, ..Tensor::default() },
        ]
        .map(|tensor| {
            draft.tensors.push(tensor);
            TensorId(draft.tensors.len() as u32 - 1)
        });
        let readers = draft.operations.iter_mut().flat_map(|reader| &mut reader.inputs);
        readers.filter(|slot| slot.1 == self.y).for_each(|slot| slot.1 = y);
        operation.inputs.push((Port::DROPOUT_SCALE, one));
        operation.outputs.insert(0, (Port::Y, y));
        self.y = y;
    }
}
