//! The softmax of an attention: a node, or the operations that older programs send (AT-P33, AT-P34, AT-P35).
//!
//! ```text
//! m = max over keys of x [, and the sink]   e = exp(x − m)   l = Σ e [+ exp(sink − m)]   P = e / l   [Stats = m + ln l]
//! ```

use super::super::draft::Draft;
use super::super::{Attributes, Composite, DataType, OperationId, PointwiseMode, Port, ReductionMode, TensorId};
use super::flow::Flow;
use super::{Softmax, row_dim, unscaled};

/// A softmax of rows of scores.
pub(super) struct Rows {
    /// What it is of.
    pub(super) x: TensorId,
    /// The probabilities.
    pub(super) y: TensorId,
    sink: Option<TensorId>,
    /// Its statistics that somebody wants, in the order of their ports.
    statistics: Vec<(Port, TensorId)>,
    /// Of the node, or of the division.
    name: String,
}

impl Rows {
    /// The softmax whose probabilities these are.
    pub(super) fn of(draft: &Draft, flow: &Flow, y: TensorId) -> Option<Self> {
        let last = flow.writer(y)?;
        match &draft.operations[last.index()].attributes {
            Attributes::Composite(Composite::Softmax(_)) => Self::of_node(draft, flow, last, y),
            Attributes::Pointwise(_) => Self::of_operations(draft, flow, last, y),
            _ => None,
        }
    }

    fn of_node(draft: &Draft, flow: &Flow, last: OperationId, y: TensorId) -> Option<Self> {
        let node = &draft.operations[last.index()];
        let is_wanted = |id: TensorId| !draft.tensor(id).is_virtual || !flow.readers(draft, id).is_empty();
        let statistics = Softmax::STATISTICS.iter().filter_map(|&port| Some((port, node.output(port)?)));
        let statistics = statistics.filter(|&(_, id)| is_wanted(id)).collect();
        let x = node.input(Port::X).filter(|&x| flow.is_private(draft, x))?;
        Some(Self { x, y, sink: node.input(Port::SINK), statistics, name: node.name.clone() })
    }

    fn of_operations(draft: &Draft, flow: &Flow, last: OperationId, y: TensorId) -> Option<Self> {
        let parts = Parts { draft, flow };
        let [e, l] = parts.operands(y, PointwiseMode::Div)?;
        let [below] = parts.operands(e, PointwiseMode::Exp)?;
        let [x, m] = parts.operands(below, PointwiseMode::Sub)?;
        let dim = &draft.tensor(x).dim;
        let row = row_dim(dim);
        let sum = parts.row(l, ReductionMode::Add, PointwiseMode::Add, e)?;
        let largest = parts.row(m, ReductionMode::Max, PointwiseMode::Max, x)?;
        let (sink, of_sink) = match (largest.other, sum.other) {
            (None, None) => (None, None),
            (Some(sink), Some(exponential)) => {
                let [below] = parts.operands(exponential, PointwiseMode::Exp)?;
                if parts.operands(below, PointwiseMode::Sub)? != [sink, m] {
                    return None;
                }
                (Some(sink), Some((below, exponential)))
            }
            _ => return None,
        };
        let stats = parts.stats(m, l);
        let logarithm = stats.and_then(|stats| parts.other_operand(stats, m));
        // whatever else reads a value of them is not attention's
        let readers = |id: TensorId, count: usize| flow.readers(draft, id).len() == count;
        let with = |is_there: bool| usize::from(is_there);
        let is_alone = readers(e, 2)
            && readers(below, 1)
            && readers(x, 2)
            && readers(m, 1 + with(sink.is_some()) + with(stats.is_some()))
            && readers(l, 1 + with(stats.is_some()))
            && largest.parts.iter().chain(&sum.parts).all(|&id| readers(id, 1))
            && of_sink.is_none_or(|(below, exponential)| readers(below, 1) && readers(exponential, 1));
        let mut inner = [e, below].into_iter().chain(largest.parts).chain(sum.parts).chain(logarithm);
        let inner_of_sink = of_sink.into_iter().flat_map(|(below, exponential)| [below, exponential]);
        let is_inner =
            |id: TensorId| draft.tensor(id).is_virtual && draft.tensor(id).data_type == Some(DataType::Float);
        let is_float = |id: TensorId| draft.tensor(id).data_type == Some(DataType::Float);
        let fits = inner.all(is_inner)
            && inner_of_sink.clone().all(is_inner)
            && [x, m, l].into_iter().chain(stats).chain(sink).all(is_float)
            && [m, l].into_iter().all(|id| draft.tensor(id).dim == row)
            && draft.tensor(y).dim == *dim
            && draft.tensor(e).dim == *dim;
        if !is_alone || !fits || !draft.tensor(x).is_virtual {
            return None;
        }
        let all = [(Port::STATS, stats), (Port::MAX, Some(m)), (Port::SUM_EXP, Some(l))];
        let wanted = all.into_iter().filter_map(|(port, id)| Some((port, id?)));
        let statistics = wanted.filter(|&(_, id)| !draft.tensor(id).is_virtual).collect();
        let name = draft.operations[last.index()].name.clone();
        Some(Self { x, y, sink, statistics, name })
    }

    /// Puts a node in the place of the operation that gives the probabilities; the others then lead nowhere. Rows beyond their sequences
    /// have no sink (AT-O32).
    pub(super) fn put(self, draft: &mut Draft, queries: Option<TensorId>) {
        let inside = queries.map(|queries| (Port::SEQ_LEN_Q, queries));
        let sink = self.sink.map(|sink| [(Port::SINK, sink)].into_iter().chain(inside));
        let inputs = [(Port::X, self.x)].into_iter().chain(sink.into_iter().flatten()).collect();
        let outputs: Vec<(Port, TensorId)> = [(Port::Y, self.y)].into_iter().chain(self.statistics).collect();
        // a statistic has one writer
        let given: Vec<TensorId> = outputs.iter().map(|slot| slot.1).collect();
        draft.operations.retain(|operation| !operation.output_tensors().any(|id| given.contains(&id)));
        draft.operations.push(super::operation(&self.name, Composite::Softmax(Softmax), inputs, outputs));
    }
}

/// A reduction of rows, alone or joined with another value.
struct Reduced {
    other: Option<TensorId>,
    /// The reduction's own result, where it is joined.
    parts: Vec<TensorId>,
}

/// A draft, and who writes and reads its tensors.
#[derive(Clone, Copy)]
pub(super) struct Parts<'a> {
    pub(super) draft: &'a Draft,
    pub(super) flow: &'a Flow,
}

impl Parts<'_> {
    /// What a pointwise operation of a mode reads, that is computed in `FLOAT` and gives a tensor.
    pub(super) fn operands<const N: usize>(&self, id: TensorId, mode: PointwiseMode) -> Option<[TensorId; N]> {
        let operation = self.flow.made_by(self.draft, id)?;
        let fits = unscaled(operation)?.mode == mode && operation.compute_data_type == Some(DataType::Float);
        let inputs: Vec<TensorId> = operation.input_tensors().collect();
        inputs.try_into().ok().filter(|_| fits)
    }

    /// The other operand of the operation of two that gives a tensor.
    pub(super) fn other_operand(&self, id: TensorId, one: TensorId) -> Option<TensorId> {
        let operands: Vec<TensorId> = self.flow.made_by(self.draft, id)?.input_tensors().collect();
        match operands[..] {
            [a, b] if a == one => Some(b),
            [a, b] if b == one => Some(a),
            _ => None,
        }
    }

    /// Whether a tensor has one value for each row of another: the reduction of it by an operator.
    pub(super) fn is_reduced(&self, id: TensorId, mode: ReductionMode, of: TensorId) -> bool {
        let Some(operation) = self.flow.made_by(self.draft, id) else { return false };
        let Attributes::Reduction(reduction) = &operation.attributes else { return false };
        reduction.mode == mode
            && operation.compute_data_type == Some(DataType::Float)
            && operation.input(Port::X) == Some(of)
            && self.draft.tensor(id).dim == row_dim(&self.draft.tensor(of).dim)
    }

    /// The reduction of rows of a tensor, or that and another value under a pointwise operation.
    fn row(&self, id: TensorId, mode: ReductionMode, joined: PointwiseMode, of: TensorId) -> Option<Reduced> {
        if self.is_reduced(id, mode, of) {
            return Some(Reduced { other: None, parts: Vec::new() });
        }
        let [a, b] = self.operands(id, joined)?;
        let ways = [(a, b), (b, a)];
        let (reduced, other) = ways.into_iter().find(|&(reduced, _)| self.is_reduced(reduced, mode, of))?;
        Some(Reduced { other: Some(other), parts: vec![reduced] })
    }

    /// `m + ln l`, where an operation computes it.
    fn stats(&self, m: TensorId, l: TensorId) -> Option<TensorId> {
        let readers = self.flow.readers(self.draft, m).into_iter();
        let mut results = readers.filter_map(|id| self.draft.operations[id.index()].result());
        results.find(|&result| {
            let sum = self.operands::<2>(result, PointwiseMode::Add).and(self.other_operand(result, m));
            let of = sum.and_then(|sum| self.operands::<1>(sum, PointwiseMode::Log));
            of == Some([l]) && sum.is_some_and(|sum| self.flow.readers(self.draft, sum).len() == 1)
        })
    }
}
