//! The normal form of attention graphs (`docs/spec/attention.md` AT-P50, AT-P51): however a program spells the masks and the softmax
//! between two products, it becomes one mask of scores and one [`Softmax`], so that one configuration is one graph and has one key.
//!
//! ```text
//! Q · Kᵀ ──▶ any pointwise operations ──▶ masks, by operations or nodes ──▶ softmax, by operations or a node [──▶ dropout] ──▶ P · V
//! ```
//!
//! The backward pass becomes one [`AttentionBackward`] in the same way ([`backward`]).
//!
//! What is found is found by data flow: names, uids, the order of operations and of commuted operands are nothing. A graph in which no
//! two products are joined through a softmax stays as it is.

mod backward;
mod bound;
mod dropout;
mod flow;
mod mask;
mod mha;
mod rows;
mod scaling;

#[cfg(test)]
pub(crate) mod tests;

use std::collections::{BTreeMap, BTreeSet};

use super::draft::Draft;
use super::{
    AttentionBackward, Attributes, Composite, DEFAULT_ALIGNMENT, DataType, Dropout, Matmul, Operation, OperationId,
    PagedCacheLoad, Pointwise, PointwiseMode, Port, ReductionMode, Scalar, Softmax, Tensor, TensorId, packed_strides,
    row_major_order,
};
pub(crate) use backward::is_of_attention as is_sum_of_attention;

use backward::Backward;
use dropout::Drops;
use flow::Flow;
use mask::Masks;
use mha::MhaBackward;
use rows::Rows;
use scaling::Scaling;

/// Tag of a descriptor that masks scores on one side of a diagonal (AT-P26): what it does not become part of keeps it.
pub(crate) const BAND_MASK: &str = "DIAGONAL_BAND_MASK";

/// Ports of such a mask that others have not: its bounds, and what stands where scores are masked.
pub(crate) const FILL: Port = Port("FILL");

/// A host scalar that is no part of a graph, but has to have a value for the graph to be what it was taken for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Expectation {
    /// The caller's name of the scalar.
    pub(crate) uid: i64,
    /// Its type.
    pub(crate) data_type: DataType,
    /// What it has to be.
    pub(crate) expected: Expected,
}

/// What a host scalar has to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Expected {
    /// −∞, or the lowest finite number of its type (AT-P36).
    Masked,
    /// As [`Self::Masked`], or a number far below any score, of rows that keep a key each.
    FarBelow,
    /// 0: what gradients of masked scores are set to, which they are.
    Zero,
    /// The length of all sequences: an extent of the graph (AT-P37).
    Length(i64),
    /// 1: a factor that stands for nothing, where nothing is dropped (AT-P41).
    One,
    /// The probability to keep, which Δ is multiplied by before all that is divided by it (AT-P41).
    Kept(f32),
}

impl Expectation {
    /// What is expected of a tensor; `None` where nobody could tell which it is.
    fn of(draft: &Draft, id: TensorId, expected: Expected) -> Option<Self> {
        let tensor = draft.tensor(id);
        let (uid, data_type) = tensor.uid.zip(tensor.data_type)?;
        Some(Self { uid, data_type, expected })
    }

    /// Whether a value is as expected.
    pub(crate) fn holds(&self, value: Scalar) -> bool {
        self.expected.is(value)
    }

    /// What is expected, and by which rule.
    pub(crate) fn text(&self) -> String {
        match self.expected {
            Expected::Masked => {
                "what masked scores are set to is -inf, or the lowest finite number [AT-P36]".to_owned()
            }
            Expected::FarBelow => "what masked scores are set to is -inf, or at most -1e9 [AT-P36]".to_owned(),
            Expected::Zero => "what gradients of masked scores are set to is 0 [AT-O12]".to_owned(),
            Expected::Length(length) => format!("it is the length of the sequences, {length} [AT-P37]"),
            Expected::Kept(keep) => {
                format!("sums of rows are multiplied by the probability to keep, {keep} [AT-P41]")
            }
            Expected::One => "nothing is dropped, and nothing scaled for it: it is 1 [AT-P41]".to_owned(),
        }
    }
}

/// Whether a number is a probability to keep, as `1 − p` may be rounded.
fn is_kept(keep: f32, value: Scalar) -> bool {
    (value.as_f64() - f64::from(keep)).abs() <= 2.0 * f64::from(f32::EPSILON)
}

impl Expected {
    /// Whether a value is it.
    fn is(self, value: Scalar) -> bool {
        match self {
            Self::Masked => is_masked(value),
            Self::FarBelow => is_far_below(value),
            Self::Zero => value.as_f64() == 0.0,
            Self::Length(length) => value.as_f64() == length as f64,
            Self::One => value.as_f64() == 1.0,
            Self::Kept(keep) => is_kept(keep, value),
        }
    }
}

/// Whether what scores are set to leaves nothing of them behind a softmax.
fn is_masked(value: Scalar) -> bool {
    // The lowest finite FLOAT; HALF's is −65504, beside which scores might count.
    value.as_f64() <= f64::from(f32::MIN) * 0.99
}

/// Whether what scores are set to leaves nothing of them beside others: in FLOAT the exponential of how far it is below them is 0, but for scores of
/// this size.
fn is_far_below(value: Scalar) -> bool {
    value.as_f64() <= -1e9
}

/// What means something in an attention alone is put as any graph may have it.
pub(super) fn repair(draft: &mut Draft) {
    repair_maxima(draft);
    backward::repair(draft);
}

/// A row's maximum with a sink, of frontends that declare it as wide as the row (AT-P34), gets the extents that it has.
fn repair_maxima(draft: &mut Draft) {
    let wide = draft.operations.iter().filter(|operation| is_maximum(operation)).filter_map(|reduction| {
        let (x, id) = (reduction.input(Port::X)?, reduction.output(Port::Y)?);
        let (x, y) = (&draft.tensors[x.index()], &draft.tensors[id.index()]);
        (x.dim.len() == 4 && y.dim == x.dim && y.is_virtual).then_some(id)
    });
    // each with the extents that its only reader's result has, where that is a maximum, too
    let mut found: BTreeMap<TensorId, Option<Vec<i64>>> = wide.map(|id| (id, None)).collect();
    if found.is_empty() {
        return;
    }
    let mut is_read = BTreeSet::new();
    for reader in &draft.operations {
        for id in reader.input_tensors() {
            let Some(row) = found.get_mut(&id) else { continue };
            let result = reader.result().filter(|_| reader.pointwise_mode() == Some(PointwiseMode::Max));
            let result = result.map(|result| draft.tensors[result.index()].dim.clone());
            *row = result.filter(|dim| is_read.insert(id) && *dim == row_dim(&draft.tensors[id.index()].dim));
        }
    }
    for (id, dim) in found.into_iter().filter_map(|(id, dim)| Some((id, dim?))) {
        let tensor = &mut draft.tensors[id.index()];
        tensor.stride = packed_strides(&dim, &row_major_order(dim.len()));
        tensor.dim = dim;
    }
}

fn is_maximum(operation: &Operation) -> bool {
    matches!(&operation.attributes, Attributes::Reduction(reduction) if reduction.mode == ReductionMode::Max)
}

/// Extents of one value a row.
fn row_dim(x: &[i64]) -> Vec<i64> {
    x[..x.len() - 1].iter().copied().chain([1]).collect()
}

/// Puts the normal form in the place of each attention. Tensors are complete, and every operation leads to an output.
pub(super) fn normalise(draft: &mut Draft) -> bool {
    let products = draft.operations.iter().filter(|operation| matches!(operation.attributes, Attributes::Matmul(_)));
    let products: Vec<TensorId> = products.filter_map(Operation::result).collect();
    let mut is_changed = settle_loads(draft);
    is_changed |= products.len() == 2 && mha::fold_scaled_keys(draft);
    if products.len() == mha::PRODUCTS {
        is_changed |= MhaBackward::of(draft, &Flow::of(draft)).is_some_and(|found| found.put(draft));
    }
    for &output in &products {
        let flow = Flow::of(draft);
        let Some(output) = flow.writer(output) else { continue };
        is_changed |= match products.len() {
            2 => match Found::of(draft, &flow, output) {
                Some(found) => found.put(draft),
                None => mha::settle_dropout(draft, &flow, output),
            },
            backward::PRODUCTS => Backward::of(draft, &flow, output).is_some_and(|found| found.put(draft)),
            // it is no attention to any engine
            _ => false,
        };
    }
    if is_changed {
        flow::remove_unread(draft);
    }
    is_changed
}

/// What comes out of pages lies, as a virtual tensor, in an order that its operation tells: packed, keys as they are multiplied (AT-P39).
/// Gives whether anything changed.
fn settle_loads(draft: &mut Draft) -> bool {
    let loads = draft.operations.iter().filter(|operation| is_load(operation));
    let loads = loads.filter_map(|load| Some([load.input(Port::CONTAINER)?, load.output(Port::Y_OUT)?]));
    let loads: Vec<_> = loads.filter(|load| draft.tensors[load[1].index()].is_virtual).collect();
    let mut is_changed = false;
    for [container, y] in loads {
        let (pages, loaded) = (&draft.tensors[container.index()], &draft.tensors[y.index()]);
        let is_turned = PagedCacheLoad::turns(&pages.dim, (&loaded.dim, &loaded.stride));
        let stride = PagedCacheLoad::strides(&loaded.dim, is_turned);
        let tensor = &mut draft.tensors[y.index()];
        is_changed |= tensor.stride != stride;
        (tensor.stride, tensor.alignment) = (stride, DEFAULT_ALIGNMENT);
    }
    is_changed
}

fn is_load(operation: &Operation) -> bool {
    matches!(&operation.attributes, Attributes::Composite(Composite::PagedCacheLoad(_)))
}

/// An attention in the operations of a graph.
struct Found {
    scores: OperationId,
    output: OperationId,
    /// Pointwise operations between the scores and the masks.
    modifiers: BTreeSet<OperationId>,
    masks: Masks,
    rows: Rows,
    drops: Option<Drops>,
    scaling: Scaling,
    /// What depends on the scores before they are masked.
    dependent: BTreeSet<TensorId>,
}

impl Found {
    /// The attention that ends with a product.
    fn of(draft: &Draft, flow: &Flow, output: OperationId) -> Option<Self> {
        let p = draft.operations[output.index()].input(Port::A)?;
        // probabilities may lie in memory (MHAF-S-STORE)
        if flow.readers(draft, p).len() != 1 || draft.tensor(p).dim.len() != 4 {
            return None;
        }
        let scaling = Scaling::of(draft, flow, p, draft.operations[output.index()].result());
        let drops = Drops::of(draft, flow, p).or_else(|| Drops::of(draft, flow, scaling.p));
        let p = drops.as_ref().map_or(scaling.p, |drops| drops.p);
        let rows = Rows::of(draft, flow, p)?;
        let masks = Masks::of(draft, flow, rows.x);
        let (scores, modifiers) = flow.path_to_product(draft, masks.x)?;
        if scores == output {
            return None;
        }
        let dependent = flow.dependents(draft, scores, &modifiers);
        Some(Self { scores, output, modifiers, masks, rows, drops, scaling, dependent })
    }

    /// Puts the normal form in its place; gives whether anything changed.
    fn put(self, draft: &mut Draft) -> bool {
        let before = draft.operations.clone();
        let strides: Vec<Vec<i64>> = draft.tensors.iter().map(|tensor| tensor.stride.clone()).collect();
        self.arrange_products(draft);
        self.arrange_modifiers(draft);
        self.scaling.arrange(draft);
        let mut values: Vec<TensorId> = self.dependent.iter().copied().collect();
        if let Some(mask) = self.masks.operation(draft, self.rows.x) {
            draft.operations.push(mask);
        }
        values.extend([self.rows.x, self.rows.y].into_iter().chain(self.scaling.values()));
        self.rows.put(draft, self.masks.lengths[0]);
        values.extend(self.drops.into_iter().flat_map(|drops| drops.put(draft)));
        draft.expectations.extend(self.masks.expectations.iter().copied());
        // what a virtual tensor's strides are means nothing (AT-P39)
        values.retain(|id| draft.tensors[id.index()].is_virtual);
        for id in values {
            let tensor = &mut draft.tensors[id.index()];
            tensor.stride = packed_strides(&tensor.dim, &row_major_order(tensor.dim.len()));
            tensor.alignment = DEFAULT_ALIGNMENT;
        }
        let are_moved = draft.tensors.iter().zip(&strides).any(|(tensor, stride)| tensor.stride != *stride);
        draft.operations != before || are_moved
    }

    /// Where an operation does not mind, the operand is first that depends on the scores, else that which is computed. Indices are of
    /// the scores: of what they are given the extents alone count.
    fn arrange_modifiers(&self, draft: &mut Draft) {
        let results = self.modifiers.iter().flat_map(|id| draft.operations[id.index()].output_tensors());
        let computed: BTreeSet<TensorId> = results.collect();
        let Some(scores) = draft.operations[self.scores.index()].result() else { return };
        let rank = |id: &TensorId| (!self.dependent.contains(id), !computed.contains(id));
        for id in &self.modifiers {
            let Operation { attributes: Attributes::Pointwise(pointwise), inputs, .. } =
                &mut draft.operations[id.index()]
            else {
                continue;
            };
            match &mut inputs[..] {
                [(_, x)]
                    if pointwise.mode == PointwiseMode::GenIndex
                        && draft.tensors[x.index()].dim == draft.tensors[scores.index()].dim =>
                {
                    *x = scores;
                }
                [(_, first), (_, second)] if pointwise.mode.is_commutative() && rank(second) < rank(first) => {
                    std::mem::swap(first, second);
                    std::mem::swap(&mut pointwise.alpha1, &mut pointwise.alpha2);
                }
                _ => {}
            }
        }
    }

    /// Lengths that the mask has go from the first product; of the second one's they are the values that count, and so are blocks.
    fn arrange_products(&self, draft: &mut Draft) {
        let [queries, keys] = self.masks.lengths;
        let wanted = |port: Port, id: TensorId| match port {
            Port::M_OVERRIDE => Some(id) != queries,
            Port::N_OVERRIDE | Port::K_OVERRIDE => Some(id) != keys,
            Port::BLOCK_MASK => Some(id) != self.masks.blocks,
            _ => true,
        };
        for id in [self.scores, self.output] {
            let operation = &mut draft.operations[id.index()];
            operation.inputs.retain(|&(port, id)| wanted(port, id));
            if operation.inputs.len() == 2 {
                operation.attributes = Attributes::Matmul(Matmul::default());
            }
        }
        let output = &mut draft.operations[self.output.index()];
        for (port, id) in [(Port::K_OVERRIDE, keys), (Port::BLOCK_MASK, self.masks.blocks)] {
            let id = id.filter(|_| output.input(port).is_none());
            output.inputs.extend(id.map(|id| (port, id)));
        }
    }
}

/// A pointwise operation without scales of its operands.
fn unscaled(operation: &Operation) -> Option<Pointwise> {
    operation.pointwise()?.unscaled()
}

/// An operation of the normal form: computed in `FLOAT`.
fn operation(
    name: &str,
    composite: impl Into<Composite>,
    inputs: Vec<(Port, TensorId)>,
    outputs: Vec<(Port, TensorId)>,
) -> Operation {
    Operation {
        name: name.to_owned(),
        attributes: Attributes::Composite(composite.into()),
        compute_data_type: Some(DataType::Float),
        inputs,
        outputs,
    }
}
