//! Attention whose probabilities lie in memory (`docs/spec/attention.md` AT-G1, AT-G2), in what [`super::Found`] does not see.
//!
//! ```text
//! forward:   Q · (Kᵀ · scale) is (Q · Kᵀ) · scale        a dropout without a softmax is a node
//! backward:  dV = g5(S)ᵀ · dO    dS = dO · Vᵀ    dP = g6(dS, S)    dQ = dP · K    dK = dPᵀ · Q
//! ```
//!
//! Programs transpose S and dP by a reshape whose result lies transposed; it becomes a [`ScoreTranspose`], behind what g5 does with each element.
//! g5's `ABS` becomes `max(·, 0)`: entries that were dropped are negative, and have no part in dV (A-M19).

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::draft::Draft;
use super::super::{
    Attributes, DEFAULT_ALIGNMENT, DataType, Operation, OperationId, Pointwise, PointwiseMode, Port, ScoreTranspose,
    Tensor, TensorId, is_turned, packed_strides, row_major_order,
};
use super::dropout::Drops;
use super::flow::Flow;
use super::unscaled;

/// How many products a backward pass has whose probabilities are given.
pub(super) const PRODUCTS: usize = 4;

/// The products of a draft.
fn products(draft: &Draft) -> Vec<OperationId> {
    let is_product = |id: &OperationId| matches!(draft.operations[id.index()].attributes, Attributes::Matmul(_));
    draft.operation_ids().filter(is_product).collect()
}

fn operands(draft: &Draft, product: OperationId) -> Option<[TensorId; 2]> {
    let operation = &draft.operations[product.index()];
    Some([operation.input(Port::A)?, operation.input(Port::B)?])
}

fn dim(draft: &Draft, id: TensorId) -> &[i64] {
    &draft.tensor(id).dim
}

fn is_number(draft: &Draft, flow: &Flow, id: TensorId) -> bool {
    flow.writer(id).is_none() && dim(draft, id).iter().all(|&extent| extent == 1)
}

/// Whether a value depends on a tensor.
fn depends_on(draft: &Draft, flow: &Flow, value: TensorId, wanted: TensorId) -> bool {
    let (mut open, mut seen) = (vec![value], BTreeSet::new());
    while let Some(id) = open.pop() {
        if id == wanted {
            return true;
        }
        if seen.insert(id) {
            open.extend(flow.made_by(draft, id).into_iter().flat_map(Operation::input_tensors));
        }
    }
    false
}

/// Keys that are multiplied by a number before they are by the queries (MHAF-G3).
struct ScaledKeys {
    product: OperationId,
    keys: TensorId,
    factor: TensorId,
    scores: TensorId,
}

impl ScaledKeys {
    fn of(draft: &Draft, flow: &Flow, product: OperationId) -> Option<Self> {
        let [_, scaled] = operands(draft, product)?;
        let scores = draft.operations[product.index()].result()?;
        let writer = flow.made_by(draft, scaled).filter(|_| flow.is_private(draft, scaled))?;
        let is_factor = unscaled(writer)?.mode == PointwiseMode::Mul;
        let inputs: Vec<TensorId> = writer.input_tensors().collect();
        let &[a, b] = &inputs[..] else { return None };
        let ways = [[a, b], [b, a]];
        let [keys, factor] = ways.into_iter().find(|way| is_number(draft, flow, way[1]))?;
        let is_whole = flow.writer(keys).is_none() && dim(draft, keys).len() == 4;
        let is_float = writer.compute_data_type == Some(DataType::Float);
        let lie_alike = dim(draft, keys) == dim(draft, scaled);
        let leads_on = products(draft)
            .into_iter()
            .filter(|&other| other != product)
            .any(|other| operands(draft, other).is_some_and(|[p, _]| depends_on(draft, flow, p, scores)));
        let fits = is_factor && is_whole && is_float && lie_alike && leads_on;
        fits.then_some(Self { product, keys, factor, scores })
    }

    fn put(self, draft: &mut Draft) {
        let dim = draft.tensor(self.scores).dim.clone();
        let unscaled = added(draft, &dim, Some(DataType::Float));
        let product = &mut draft.operations[self.product.index()];
        let name = product.name.clone();
        replace(&mut product.inputs, Port::B, self.keys);
        replace(&mut product.outputs, Port::C, unscaled);
        draft.operations.push(Operation {
            name,
            attributes: Attributes::Pointwise(Pointwise::new(PointwiseMode::Mul)),
            compute_data_type: Some(DataType::Float),
            inputs: vec![(Port::IN_0, unscaled), (Port::IN_1, self.factor)],
            outputs: vec![(Port::OUT_0, self.scores)],
        });
    }
}

fn replace(slots: &mut [(Port, TensorId)], port: Port, id: TensorId) {
    slots.iter_mut().filter(|slot| slot.0 == port).for_each(|slot| slot.1 = id);
}

/// A virtual tensor of a draft, row-major.
fn added(draft: &mut Draft, dim: &[i64], data_type: Option<DataType>) -> TensorId {
    let id = TensorId(draft.tensors.len() as u32);
    let stride = packed_strides(dim, &row_major_order(dim.len()));
    draft.tensors.push(Tensor { dim: dim.to_vec(), stride, data_type, is_virtual: true, ..Tensor::default() });
    id
}

/// Puts the factor of keys behind the product of queries and keys; gives whether there was one.
pub(super) fn fold_scaled_keys(draft: &mut Draft) -> bool {
    let flow = Flow::of(draft);
    let found = products(draft).into_iter().find_map(|id| ScaledKeys::of(draft, &flow, id));
    let is_found = found.is_some();
    if let Some(found) = found {
        found.put(draft);
    }
    is_found
}

/// Puts a node in the place of the operations of a dropout that gives what a product multiplies, where no softmax is before it; gives
/// whether anything changed.
pub(super) fn settle_dropout(draft: &mut Draft, flow: &Flow, output: OperationId) -> bool {
    let Some([p, _]) = operands(draft, output) else { return false };
    let drops = Drops::of(draft, flow, p).filter(|drops| !drops.is_node() && !drops.stores());
    let leads_on = |drops: &Drops| flow.path_to_product(draft, drops.p).is_some_and(|path| path.0 != output);
    match drops.filter(leads_on) {
        Some(drops) => {
            drops.put(draft);
            true
        }
        None => false,
    }
}

/// A backward pass whose probabilities are given.
pub(super) struct MhaBackward {
    /// What transposes the probabilities, and the gradients of scores.
    transposes: [OperationId; 2],
    /// The probabilities.
    s: TensorId,
    /// The gradients of scores.
    d_p: TensorId,
    /// What g5 does with each element, in order, with what it is done with.
    steps: Vec<(OperationId, TensorId)>,
    /// What the products multiply that are transposed.
    turned: [TensorId; 2],
}

impl MhaBackward {
    /// The backward pass that a graph of four products is.
    pub(super) fn of(draft: &Draft, flow: &Flow) -> Option<Self> {
        let all = products(draft);
        let sides: Vec<[TensorId; 2]> = all.iter().filter_map(|&id| operands(draft, id)).collect();
        let is_given = |id: TensorId| flow.writer(id).is_none();
        let &[d_o, _] = sides.iter().find(|sides| sides.iter().all(|&id| is_given(id)))?;
        let computed: Vec<[TensorId; 2]> =
            sides.iter().copied().filter(|sides| !is_given(sides[0]) && is_given(sides[1])).collect();
        if computed.len() != PRODUCTS - 1 || all.len() != PRODUCTS {
            return None;
        }
        let walk = Turned { draft, flow };
        let found = computed
            .iter()
            .enumerate()
            .find_map(|(at, sides)| Some((at, walk.of_given(sides[0]).filter(|_| sides[1] == d_o)?)));
        let (of_values, OfGiven { tensor: s, transpose: first, steps }) = found?;
        let others = [[1, 2], [0, 2], [0, 1]][of_values].map(|at| computed[at][0]);
        let of_keys = others.iter().position(|&id| walk.transposed(id).is_some())?;
        let (d_p, second) = walk.transposed(others[of_keys])?;
        let is_whole = others[1 - of_keys] == d_p;
        is_whole.then_some(Self {
            transposes: [first, second],
            s,
            d_p,
            steps,
            turned: [computed[of_values][0], others[of_keys]],
        })
    }

    /// Puts transposes behind all that g5 does, as operations of their own; gives whether anything changed.
    pub(super) fn put(self, draft: &mut Draft) -> bool {
        let is_done = self.transposes.iter().all(|&id| is_transpose(&draft.operations[id.index()]));
        let is_last = draft.operations[self.transposes[0].index()].output(Port::Y) == Some(self.turned[0]);
        let strips = |step: &(OperationId, TensorId)| {
            draft.operations[step.0.index()].pointwise_mode() == Some(PointwiseMode::Abs)
        };
        if is_done && is_last && !self.steps.iter().any(strips) {
            return false;
        }
        let x = self.arrange_steps(draft);
        for ((id, x), y) in self.transposes.into_iter().zip([x, self.d_p]).zip(self.turned) {
            let operation = &mut draft.operations[id.index()];
            operation.attributes = Attributes::Composite(ScoreTranspose.into());
            operation.compute_data_type = Some(DataType::Float);
            (operation.inputs, operation.outputs) = (vec![(Port::X, x)], vec![(Port::Y, y)]);
            let (dim, data_type) = (draft.tensor(y).dim.clone(), draft.tensor(x).data_type);
            let tensor = &mut draft.tensors[y.index()];
            // what a virtual tensor's strides are means nothing (AT-P39)
            tensor.stride = packed_strides(&dim, &row_major_order(dim.len()));
            (tensor.alignment, tensor.data_type) = (DEFAULT_ALIGNMENT, data_type);
        }
        true
    }

    /// What g5 does with the elements of S as it lies; gives the last value.
    fn arrange_steps(&self, draft: &mut Draft) -> TensorId {
        let of_scores = draft.tensor(self.s).dim.clone();
        let mut x = self.s;
        for &(id, before) in &self.steps {
            let operation = &draft.operations[id.index()];
            let attributes = match operation.pointwise_mode() {
                Some(PointwiseMode::Abs) => Attributes::Pointwise(Pointwise::new(PointwiseMode::ReluFwd)),
                _ => operation.attributes.clone(),
            };
            let data_type = operation.result().and_then(|y| draft.tensor(y).data_type);
            let y = added(draft, &of_scores, data_type);
            let operation = &mut draft.operations[id.index()];
            operation.attributes = attributes;
            operation.inputs.iter_mut().filter(|slot| slot.1 == before).for_each(|slot| slot.1 = x);
            replace(&mut operation.outputs, Port::OUT_0, y);
            x = y;
        }
        x
    }
}

fn is_transpose(operation: &Operation) -> bool {
    let Attributes::Composite(composite) = &operation.attributes else { return false };
    matches!(composite, super::Composite::ScoreTranspose(_))
}

/// A value that is made of each element of a tensor in memory, and transposed on the way.
struct OfGiven {
    tensor: TensorId,
    transpose: OperationId,
    /// The other operations, in order, with what each is done with.
    steps: Vec<(OperationId, TensorId)>,
}

/// Values that are transposed.
struct Turned<'a> {
    draft: &'a Draft,
    flow: &'a Flow,
}

impl Turned<'_> {
    /// What an operation transposes to a virtual tensor, with the operation.
    fn transposed(&self, y: TensorId) -> Option<(TensorId, OperationId)> {
        let id = self.flow.writer(y).filter(|_| self.draft.tensor(y).is_virtual)?;
        let operation = &self.draft.operations[id.index()];
        let x = operation.input(Port::X)?;
        let (of_x, of_y) = (self.draft.tensor(x), self.draft.tensor(y));
        let exchanged = match of_x.dim[..] {
            [batches, heads, queries, keys] => of_y.dim == [batches, heads, keys, queries],
            _ => false,
        };
        let fits = is_transpose(operation) || is_moved(operation) && lies_turned(of_x, of_y);
        let is_alike = of_x.data_type == of_y.data_type;
        (exchanged && fits && is_alike).then_some((x, id))
    }

    /// The tensor in memory that a value is made of by operations on each element and one that transposes, with this one and the others.
    fn of_given(&self, value: TensorId) -> Option<OfGiven> {
        let (mut value, mut transpose, mut steps) = (value, None, Vec::new());
        while let Some(writer) = self.flow.writer(value) {
            if !self.flow.is_private(self.draft, value) {
                return None;
            }
            if let Some((x, id)) = self.transposed(value) {
                if transpose.replace(id).is_some() {
                    return None;
                }
                value = x;
                continue;
            }
            value = self.stepped(writer)?;
            steps.push((writer, value));
        }
        steps.reverse();
        Some(OfGiven { tensor: value, transpose: transpose?, steps })
    }

    /// What an operation multiplies by a number, or takes the magnitude of.
    fn stepped(&self, id: OperationId) -> Option<TensorId> {
        let operation = &self.draft.operations[id.index()];
        let mode = unscaled(operation)?.mode;
        let inputs: Vec<TensorId> = operation.input_tensors().collect();
        let is_number = |id: TensorId| is_number(self.draft, self.flow, id);
        match (mode, &inputs[..]) {
            (PointwiseMode::Abs | PointwiseMode::ReluFwd | PointwiseMode::Identity, &[x]) => Some(x),
            (PointwiseMode::Mul, &[x, number] | &[number, x]) if is_number(number) && !is_number(x) => Some(x),
            _ => None,
        }
    }
}

/// Whether an operation moves elements as strides, or a permutation of axes, say.
fn is_moved(operation: &Operation) -> bool {
    let Attributes::Other(other) = &operation.attributes else { return false };
    let is_logical = other.attributes.get("reshape_mode").and_then(Value::as_str) == Some("LOGICAL");
    let exchanges = other.attributes.get("permutation") == Some(&json!([0, 1, 3, 2]));
    other.tag == "RESHAPE" && !is_logical || other.tag == "TRANSPOSE" && exchanges
}

/// Whether what a reshape gives lies transposed, and what it takes does not.
fn lies_turned(x: &Tensor, y: &Tensor) -> bool {
    let is_line = x.dim.iter().skip(2).any(|&extent| extent == 1);
    is_line || is_turned(&y.stride) && !is_turned(&x.stride)
}
