//! The masks of an attention, whatever they are made of, as one [`ScoreMask`].

use serde_json::Value;

use super::super::draft::Draft;
use super::super::{Attributes, Composite, Operation, PointwiseMode, Port, ScoreMask, TensorId};
use super::bound::{Sum, conjunction};
use super::flow::Flow;
use super::{BAND_MASK, Expectation, Expected, FILL, is_far_below, is_masked, unscaled};

/// Most masks in a row: one has two lengths, two bounds and blocks.
const MOST: usize = 5;

/// What the scores of a row have to meet, as sums that are at least 0.
#[derive(Clone, Debug, Default)]
struct Constraints {
    lengths: [Option<TensorId>; 2],
    /// Which blocks of scores are kept.
    blocks: Option<TensorId>,
    /// R: what a column may be greater than its row by; without row and column.
    right: Option<Sum>,
    /// L.
    left: Option<Sum>,
}

/// One operation that masks scores.
struct Layer {
    x: TensorId,
    constraints: Constraints,
    fill: Option<TensorId>,
}

/// Masks between modified scores and a softmax.
pub(super) struct Masks {
    /// What is masked.
    pub(super) x: TensorId,
    /// Lengths of the sequences of queries and keys, where there are any.
    pub(super) lengths: [Option<TensorId>; 2],
    /// Which blocks of scores are kept, where some may be left out.
    pub(super) blocks: Option<TensorId>,
    /// What host scalars have to be that the masks had, and the one mask has not.
    pub(super) expectations: Vec<Expectation>,
    pub(super) mask: ScoreMask,
    /// Host scalars that are added to the bounds of the mask, in no order.
    pub(super) bounds: Vec<(Port, TensorId)>,
    name: Option<String>,
}

impl Masks {
    /// The masks that end with a tensor: as many operations as one mask may stand for.
    pub(super) fn of(draft: &Draft, flow: &Flow, end: TensorId) -> Self {
        let (mut layers, mut x) = (Vec::new(), end);
        let is_inner = |x, layers: &[Layer]| {
            layers.len() < MOST && draft.tensor(x).is_virtual && (layers.is_empty() || flow.is_private(draft, x))
        };
        while let Some(layer) = Layer::of(draft, flow, x).filter(|_| is_inner(x, &layers)) {
            x = layer.x;
            layers.push(layer);
        }
        let name = flow.made_by(draft, end).map(|operation| operation.name.clone());
        while !layers.is_empty() {
            if let Some(masks) = Self::together(draft, &layers) {
                return Self { name, ..masks };
            }
            layers.pop();
        }
        Self::nothing(end)
    }

    /// As [`Self::of`], for scores of which something else is taken between masks, or before them: `between` gives what a tensor is made
    /// of that way. `None` where a part of them is no mask.
    pub(super) fn around(
        draft: &Draft,
        flow: &Flow,
        end: TensorId,
        mut between: impl FnMut(TensorId) -> Option<TensorId>,
    ) -> Option<Self> {
        let (mut layers, mut x) = (Vec::new(), end);
        loop {
            if let Some(layer) = Layer::of(draft, flow, x).filter(|_| layers.len() < MOST) {
                x = layer.x;
                layers.push(layer);
            } else if let Some(below) = between(x) {
                x = below;
            } else {
                break;
            }
        }
        let masks = if layers.is_empty() { Self::nothing(x) } else { Self::together(draft, &layers)? };
        Some(Self { x, ..masks })
    }

    fn nothing(x: TensorId) -> Self {
        let mask = ScoreMask::default();
        Self { x, lengths: [None; 2], blocks: None, expectations: Vec::new(), mask, bounds: Vec::new(), name: None }
    }

    /// One mask in place of several; `None` where they say what one cannot.
    fn together(draft: &Draft, layers: &[Layer]) -> Option<Self> {
        let x = layers.last()?.x;
        let mut all = Constraints::default();
        for layer in layers {
            all = all.and(&layer.constraints)?;
        }
        let mut masks = Self::nothing(x);
        (masks.lengths, masks.blocks) = (all.lengths, all.blocks);
        let dim = &draft.tensor(x).dim;
        let &[batches, _, queries, keys] = &dim[..] else { return None };
        let is_length = |id: &TensorId| {
            let tensor = draft.tensor(*id);
            tensor.dim == [batches, 1, 1, 1] && !tensor.is_pass_by_value && !tensor.is_virtual
        };
        match all.lengths {
            [None, None] => {}
            [Some(a), Some(b)] if [a, b].iter().all(is_length) => {}
            _ => return None,
        }
        let mut follows = Vec::new();
        for (sum, sign, port) in [(&all.right, 1, Port::RIGHT_BOUND), (&all.left, -1, Port::LEFT_BOUND)] {
            let Some(sum) = sum else { continue };
            let bound = masks.resolve(draft, sum, sign, [queries, keys])?;
            let is_static = bound.port.is_none() || bound.constant != 0;
            let constant = is_static.then_some(bound.constant);
            if sign == 1 {
                masks.mask.right_bound = constant
            } else {
                masks.mask.left_bound = constant
            }
            masks.bounds.extend(bound.port.map(|id| (port, id)));
            follows.push(bound.follows);
        }
        masks.mask.is_bottom_right = follows.contains(&true);
        if follows.iter().any(|&one| one != follows[0]) {
            return None;
        }
        let keeps_keys = masks.keeps_keys([queries, keys]);
        for fill in layers.iter().filter_map(|layer| layer.fill) {
            masks.fill(draft, fill, keeps_keys)?;
        }
        Some(masks)
    }

    /// Whether each row is known to keep a key.
    fn keeps_keys(&self, [queries, keys]: [i64; 2]) -> bool {
        let Self { lengths, blocks, bounds, mask, .. } = self;
        let is_known = *lengths == [None; 2] && blocks.is_none() && bounds.is_empty();
        // of a row r: r − L < c ≤ r + R, and 0 ≤ c < keys
        let (left, right) = (mask.left_bound, mask.right_bound);
        let first = right.is_none_or(|right| right >= 0);
        let last = left.is_none_or(|left| left.saturating_sub(queries) >= 1 - keys);
        let is_wide = left.zip(right).is_none_or(|(left, right)| left.saturating_add(right) >= 1);
        is_known && first && last && is_wide
    }

    /// What masked scores are set to masks them, now or in every execution.
    fn fill(&mut self, draft: &Draft, fill: TensorId, keeps_keys: bool) -> Option<()> {
        let masks = if keeps_keys { is_far_below } else { is_masked };
        match draft.tensor(fill).value {
            Some(value) => masks(value).then_some(()),
            None => self.expect(draft, fill, if keeps_keys { Expected::FarBelow } else { Expected::Masked }),
        }
    }

    /// What has to be so for a predicate to keep the scores that these masks keep; `None` where it keeps others.
    pub(super) fn expected_of(&self, draft: &Draft, flow: &Flow, kept: TensorId) -> Option<Vec<Expectation>> {
        let constraints = Constraints::of(conjunction(draft, flow, kept)?)?;
        let other = Self::together(draft, &[Layer { x: self.x, constraints, fill: None }])?;
        let is_same = (other.mask, other.lengths, &other.bounds) == (self.mask, self.lengths, &self.bounds);
        (is_same && self.blocks.is_none()).then_some(other.expectations)
    }

    /// A bound: a number, a host scalar that is added to it, and the lengths' difference, where the diagonal follows them. `sign` says how
    /// often the keys count that are more than the queries.
    fn resolve(&mut self, draft: &Draft, sum: &Sum, sign: i64, [queries, keys]: [i64; 2]) -> Option<Bound> {
        let (scalars, tensors): (Vec<_>, Vec<_>) =
            sum.terms.iter().copied().partition(|term| draft.tensor(term.0).is_pass_by_value);
        let [of_queries, of_keys] = self.lengths;
        let follows = match &tensors[..] {
            [] => false,
            [_, _] => {
                let counts = |id: Option<TensorId>, count| id.is_some_and(|id| tensors.contains(&(id, count)));
                (counts(of_keys, sign) && counts(of_queries, -sign)).then_some(true)?
            }
            _ => return None,
        };
        if scalars.iter().any(|&(id, count)| count.abs() != 1 || !is_number(draft, id)) {
            return None;
        }
        let of_sign = |sign| scalars.iter().filter(|term| term.1 == sign).map(|term| term.0).collect::<Vec<_>>();
        // as they are sent: row + s_kv − s_q + R, and column + L − s_kv + s_q (AT-P37)
        let (port, lengths) = match (&of_sign(1)[..], &of_sign(-1)[..], sign) {
            ([], [], _) => (None, None),
            (&[bound], [], _) => (Some(bound), None),
            (&[keys], &[queries], 1) => (None, Some([queries, keys])),
            (&[queries], &[keys], _) => (None, Some([queries, keys])),
            (&[keys, bound], &[queries], 1) => (Some(bound), Some([queries, keys])),
            (&[bound, queries], &[keys], _) => (Some(bound), Some([queries, keys])),
            _ => return None,
        };
        let mut constant = sum.constant;
        if let Some(lengths) = lengths {
            for (id, length) in lengths.into_iter().zip([queries, keys]) {
                self.expect(draft, id, Expected::Length(length))?;
            }
            constant = constant.checked_add(sign * (keys - queries))?;
        }
        Some(Bound { constant, port, follows })
    }

    fn expect(&mut self, draft: &Draft, id: TensorId, expected: Expected) -> Option<()> {
        self.expectations.push(Expectation::of(draft, id, expected)?);
        Some(())
    }

    /// The mask, from what is masked to `y`, which takes the place of whatever gives `y`; nothing where nothing is masked.
    pub(super) fn operation(&self, draft: &mut Draft, y: TensorId) -> Option<Operation> {
        if self.x == y {
            return None;
        }
        draft.operations.retain(|operation| !operation.output_tensors().any(|id| id == y));
        let lengths = ScoreMask::LENGTHS.iter().zip(self.lengths).filter_map(|(&port, id)| Some((port, id?)));
        let mut inputs: Vec<(Port, TensorId)> = [(Port::X, self.x)].into_iter().chain(lengths).collect();
        let order = |port: Port| ScoreMask::BOUNDS.iter().position(|&known| known == port);
        let mut bounds = self.bounds.clone();
        bounds.sort_by_key(|slot| order(slot.0));
        inputs.extend(bounds);
        inputs.extend(self.blocks.map(|blocks| (Port::BLOCK_MASK, blocks)));
        let name = self.name.as_deref().unwrap_or("mask");
        Some(super::operation(name, self.mask, inputs, vec![(Port::Y, y)]))
    }
}

/// A bound of a mask.
struct Bound {
    constant: i64,
    port: Option<TensorId>,
    follows: bool,
}

/// Whether a tensor is one number.
fn is_number(draft: &Draft, id: TensorId) -> bool {
    draft.tensor(id).dim.iter().all(|&extent| extent == 1)
}

impl Constraints {
    /// Both; `None` where one mask cannot have both.
    fn and(mut self, other: &Self) -> Option<Self> {
        for (one, other) in self.lengths.iter_mut().zip(other.lengths) {
            if one.is_some() && other.is_some() && *one != other {
                return None;
            }
            *one = one.or(other);
        }
        if self.blocks.is_some() && other.blocks.is_some() {
            return None;
        }
        self.blocks = self.blocks.or(other.blocks);
        for (one, other) in [(&mut self.right, &other.right), (&mut self.left, &other.left)] {
            if one.is_some() && other.is_some() {
                return None;
            }
            *one = one.take().or_else(|| other.clone());
        }
        Some(self)
    }

    /// What it means that sums are at least 0.
    fn of(sums: Vec<Sum>) -> Option<Self> {
        let mut all = Self::default();
        for sum in sums {
            let one = match (sum.row, sum.column) {
                (-1, 0) => Self { lengths: [Some(length(&sum)?), None], ..Self::default() },
                (0, -1) => Self { lengths: [None, Some(length(&sum)?)], ..Self::default() },
                (1, -1) => Self { right: Some(Sum { row: 0, column: 0, ..sum }), ..Self::default() },
                // c > r − L is c − r + L − 1 ≥ 0
                (-1, 1) => {
                    let constant = sum.constant.checked_add(1)?;
                    Self { left: Some(Sum { row: 0, column: 0, constant, ..sum }), ..Self::default() }
                }
                _ => return None,
            };
            all = all.and(&one)?;
        }
        Some(all)
    }
}

/// The length that an index is less than.
fn length(sum: &Sum) -> Option<TensorId> {
    match sum.terms[..] {
        [(id, 1)] if sum.constant == -1 => Some(id),
        _ => None,
    }
}

impl Layer {
    /// The mask that gives a tensor.
    fn of(draft: &Draft, flow: &Flow, y: TensorId) -> Option<Self> {
        let operation = flow.made_by(draft, y)?;
        match &operation.attributes {
            Attributes::Composite(Composite::ScoreMask(mask)) => Self::of_mask(draft, flow, operation, *mask),
            Attributes::Other(other) if other.tag == BAND_MASK => {
                Self::of_band(draft, flow, operation, other.attributes.get("mode").and_then(Value::as_str)?)
            }
            Attributes::Pointwise(_) => Self::of_select(draft, flow, operation),
            _ => None,
        }
    }

    fn of_mask(draft: &Draft, flow: &Flow, operation: &Operation, mask: ScoreMask) -> Option<Self> {
        let number = |port: Port| operation.input(port).map_or(Some(Sum::default()), |id| Sum::of(draft, flow, id));
        let lengths = [Port::SEQ_LEN_Q, Port::SEQ_LEN_KV].map(|port| operation.input(port));
        let shift = |sign: i64| {
            let terms = lengths.iter().zip([-sign, sign]).filter_map(|(id, count)| Some(((*id)?, count)));
            Sum { terms: terms.filter(|_| mask.is_bottom_right).collect(), ..Sum::default() }
        };
        let bound = |fixed: Option<i64>, port: Port, sign: i64| {
            let is_there = fixed.is_some() || operation.input(port).is_some();
            is_there.then(|| Some(Sum::of_number(fixed.unwrap_or(0)).plus(shift(sign), 1).plus(number(port)?, 1)))
        };
        let right = bound(mask.right_bound, Port::RIGHT_BOUND, 1);
        let left = bound(mask.left_bound, Port::LEFT_BOUND, -1);
        let [right, left] = [right, left].map(|bound| bound.map_or(Some(None), |sum| sum.map(Some)));
        let blocks = operation.input(Port::BLOCK_MASK);
        let constraints = Constraints { lengths, blocks, right: right?, left: left? };
        Some(Self { x: operation.input(Port::X)?, constraints, fill: None })
    }

    /// One side of a diagonal: `row + s_kv − s_q + R ≥ column`, or `column + L − s_kv + s_q > row`; without bounds R = 0.
    fn of_band(draft: &Draft, flow: &Flow, operation: &Operation, mode: &str) -> Option<Self> {
        let number = |port: Port| operation.input(port).map_or(Some(Sum::default()), |id| Sum::of(draft, flow, id));
        let [right, left] = [number(Port::RIGHT_BOUND)?, number(Port::LEFT_BOUND)?];
        let [queries, keys] = [number(Port::SEQ_LEN_Q)?, number(Port::SEQ_LEN_KV)?];
        let is_left = operation.input(Port::LEFT_BOUND).is_some();
        let sum = match (mode, is_left) {
            ("CMP_GE", false) => {
                Sum::of_row().plus(keys, 1).plus(queries, -1).plus(right, 1).plus(Sum::of_column(), -1)
            }
            ("CMP_GT", true) => {
                let moved = Sum::of_column().plus(left, 1).plus(keys, -1).plus(queries, 1);
                moved.plus(Sum::of_row(), -1).plus(Sum::of_number(1), -1)
            }
            _ => return None,
        };
        let fill = operation.input(FILL);
        if fill.is_some_and(|id| !fills(draft, id)) {
            return None;
        }
        Some(Self { x: operation.input(Port::X)?, constraints: Constraints::of(vec![sum])?, fill })
    }

    /// A choice between scores and a number that masks them.
    fn of_select(draft: &Draft, flow: &Flow, operation: &Operation) -> Option<Self> {
        if unscaled(operation)?.mode != PointwiseMode::BinarySelect {
            return None;
        }
        let [x, fill, kept] = [Port::IN_0, Port::IN_1, Port::IN_2].map(|port| operation.input(port));
        let (x, fill, y) = (x?, fill?, operation.result()?);
        let is_whole = draft.tensor(x).dim == draft.tensor(y).dim && draft.tensor(x).dim.len() == 4;
        if !fills(draft, fill) || !is_whole {
            return None;
        }
        let constraints = Constraints::of(conjunction(draft, flow, kept?)?)?;
        Some(Self { x, constraints, fill: Some(fill) })
    }
}

/// Whether a host scalar masks scores, or may, of some rows: its value comes with each execution (AT-P36).
fn fills(draft: &Draft, id: TensorId) -> bool {
    let tensor = draft.tensor(id);
    is_number(draft, id) && tensor.is_pass_by_value && tensor.value.is_none_or(is_far_below)
}
