//! What masks compare: sums of a score's row, its column and numbers (AT-O3, AT-O5).

use super::super::draft::Draft;
use super::super::{PointwiseMode, Scalar, TensorId};
use super::flow::Flow;
use super::unscaled;

/// Axes of rows and columns of scores.
const ROWS: i64 = 2;
const COLUMNS: i64 = 3;

/// Most operations between a mask and what it compares: programs send four.
const DEPTH: usize = 8;

/// `row · r + column · c + constant + Σ sign · tensor`, in integers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) row: i64,
    pub(super) column: i64,
    pub(super) constant: i64,
    /// Tensors with one number, or one for each batch, in the order in which they are added.
    pub(super) terms: Vec<(TensorId, i64)>,
}

impl Sum {
    pub(super) fn of_row() -> Self {
        Self { row: 1, ..Self::default() }
    }

    pub(super) fn of_column() -> Self {
        Self { column: 1, ..Self::default() }
    }

    pub(super) fn of_number(constant: i64) -> Self {
        Self { constant, ..Self::default() }
    }

    pub(super) fn plus(mut self, other: Self, sign: i64) -> Self {
        self.row += sign * other.row;
        self.column += sign * other.column;
        self.constant = self.constant.saturating_add(other.constant.saturating_mul(sign));
        for (id, count) in other.terms {
            match self.terms.iter_mut().find(|term| term.0 == id) {
                Some(term) => term.1 += sign * count,
                None => self.terms.push((id, sign * count)),
            }
        }
        self.terms.retain(|term| term.1 != 0);
        self
    }

    /// What a tensor is; `None` where it is something else.
    pub(super) fn of(draft: &Draft, flow: &Flow, id: TensorId) -> Option<Self> {
        Self::within(draft, flow, id, DEPTH)
    }

    fn within(draft: &Draft, flow: &Flow, id: TensorId, depth: usize) -> Option<Self> {
        let Some(operation) = flow.made_by(draft, id) else { return Self::leaf(draft, id) };
        let pointwise = unscaled(operation)?;
        let depth = depth.checked_sub(1)?;
        let inputs: Vec<TensorId> = operation.input_tensors().collect();
        let operand = |place: usize| Self::within(draft, flow, *inputs.get(place)?, depth);
        match pointwise.mode {
            PointwiseMode::GenIndex if draft.tensor(id).dim.len() == 4 => match pointwise.axis {
                Some(ROWS) => Some(Self::of_row()),
                Some(COLUMNS) => Some(Self::of_column()),
                _ => None,
            },
            PointwiseMode::Identity => operand(0),
            PointwiseMode::Add => Some(operand(0)?.plus(operand(1)?, 1)),
            PointwiseMode::Sub => Some(operand(0)?.plus(operand(1)?, -1)),
            _ => None,
        }
    }

    fn leaf(draft: &Draft, id: TensorId) -> Option<Self> {
        let tensor = draft.tensor(id);
        if tensor.dim.iter().skip(1).any(|&extent| extent != 1) {
            return None;
        }
        match tensor.value.filter(|_| tensor.is_pass_by_value) {
            Some(value) => Self::whole(value).map(Self::of_number),
            None => Some(Self { terms: vec![(id, 1)], ..Self::default() }),
        }
    }

    /// The integer that a number is (AT-E12).
    fn whole(value: Scalar) -> Option<i64> {
        match value {
            Scalar::Integer(value) => Some(value),
            Scalar::Float(value) => (value.fract() == 0.0 && value.abs() < 1e15).then_some(value as i64),
        }
    }
}

/// What has to be at least 0, all of it, for a predicate to hold; `None` where it says something else.
pub(super) fn conjunction(draft: &Draft, flow: &Flow, predicate: TensorId) -> Option<Vec<Sum>> {
    let mut open = vec![predicate];
    let mut found = Vec::new();
    while let Some(id) = open.pop() {
        if found.len() + open.len() > DEPTH {
            return None;
        }
        let operation = flow.made_by(draft, id).filter(|_| draft.tensor(id).is_virtual)?;
        let mode = unscaled(operation)?.mode;
        let inputs: Vec<TensorId> = operation.input_tensors().collect();
        let &[a, b] = &inputs[..] else { return None };
        if mode == PointwiseMode::LogicalAnd {
            open.extend([a, b]);
            continue;
        }
        let (least, most, least_difference) = match mode {
            PointwiseMode::CmpLe => (a, b, 0),
            PointwiseMode::CmpLt => (a, b, 1),
            PointwiseMode::CmpGe => (b, a, 0),
            PointwiseMode::CmpGt => (b, a, 1),
            _ => return None,
        };
        let difference = Sum::of(draft, flow, most)?.plus(Sum::of(draft, flow, least)?, -1);
        found.push(difference.plus(Sum::of_number(least_difference), -1));
    }
    Some(found)
}
