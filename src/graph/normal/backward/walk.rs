//! The way from a gradient to what it is made of, against the flow of data.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::super::attention;
use super::super::super::draft::Draft;
use super::super::bound::Sum;
use super::super::dropout::Drawn;
use super::super::flow::Flow;
use super::super::mask::Masks;
use super::super::rows::Parts;
use super::super::{
    Attributes, DataType, Expectation, Expected, Operation, OperationId, PointwiseMode, Port, ReductionMode, Tensor,
    TensorId, packed_strides, row_dim, row_major_order, unscaled,
};
use super::{HEAD_SUM, are_heads_of, is_sum};

/// Inputs that arrive transposed.
const TURNED: [Port; 2] = [Port::K, Port::V];

/// Which length an override extent of a product has to be (AT-P48).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Length {
    OfQueries,
    OfKeys,
}

pub(super) type Overrides = [(Port, Length); 2];

const OF_SCORES: Overrides = [(Port::M_OVERRIDE, Length::OfQueries), (Port::N_OVERRIDE, Length::OfKeys)];
const OVER_QUERIES: Overrides = [(Port::M_OVERRIDE, Length::OfKeys), (Port::K_OVERRIDE, Length::OfQueries)];
pub(super) const OVER_KEYS: Overrides = [(Port::M_OVERRIDE, Length::OfQueries), (Port::K_OVERRIDE, Length::OfKeys)];

/// The gradient of scores: `P ∘ (dP − Δ)`, times factors.
pub(super) struct ScoreGradient {
    pub(super) p: TensorId,
    pub(super) difference: TensorId,
    /// From the last one to the first.
    pub(super) factors: Vec<TensorId>,
    /// How many of them are behind what a cap makes of it, where there is one.
    behind_cap: usize,
    /// Without the last of them.
    unscaled: TensorId,
    /// What a cap makes of it.
    capped: Option<CapGradient>,
    /// Choices of 0 for gradients of scores that are masked.
    pub(super) choices: Vec<Choice>,
}

/// A cap of scores, and these divided by it.
#[derive(Clone, Copy)]
pub(super) struct Cap {
    pub(super) cap: TensorId,
    divided: TensorId,
}

/// The gradient of capped scores that is multiplied by the slope of tanh, at scores divided by their cap. Programs multiply it by the cap before, and
/// divide it by the cap behind that (AT-P47).
#[derive(Clone, Copy)]
struct CapGradient {
    of_capped: TensorId,
    divided: TensorId,
    cap: Option<TensorId>,
}

impl ScoreGradient {
    /// The gradient of scores behind their cap, before they are scaled: what a bias has.
    pub(super) fn of_biased(&self, ds: TensorId, scores: &Scores) -> TensorId {
        match self.capped {
            Some(capped) => capped.of_capped,
            None if scores.factors.is_empty() => ds,
            None => self.unscaled,
        }
    }
}

/// A choice between a value, where it is kept, and a number.
pub(super) struct Choice {
    number: TensorId,
    kept: TensorId,
}

/// What scores are made of on their way to probabilities.
pub(super) struct Scores {
    pub(super) q: TensorId,
    pub(super) k: TensorId,
    pub(super) stats: TensorId,
    /// The numbers that they are multiplied by, the last one first.
    pub(super) factors: Vec<TensorId>,
    pub(super) cap: Option<Cap>,
    pub(super) bias: Option<TensorId>,
    /// Slopes of heads, of ALiBi.
    pub(super) slopes: Option<TensorId>,
    pub(super) masks: Masks,
}

/// What is dropped.
#[derive(Clone, Copy)]
pub(super) struct Dropping {
    pub(super) mask: TensorId,
    /// The factor of what is kept: but for a mask that is given there always is one.
    pub(super) factor: Option<TensorId>,
    pub(super) source: DroppingSource,
}

/// What says what is dropped.
#[derive(Clone, Copy)]
pub(super) enum DroppingSource {
    /// A mask of ones, with a factor of 1: nothing is.
    Ones,
    /// A mask that is drawn.
    Drawn(Drawn),
    /// A mask of the caller's (AT-O14).
    Given,
}

impl Dropping {
    /// How the mask is drawn, where it is.
    pub(super) fn drawn(self) -> Option<Drawn> {
        match self.source {
            DroppingSource::Drawn(drawn) => Some(drawn),
            DroppingSource::Ones | DroppingSource::Given => None,
        }
    }

    /// Whether the mask is the caller's.
    pub(super) fn is_given(self) -> bool {
        matches!(self.source, DroppingSource::Given)
    }
}

/// What rows of probabilities are compared with.
pub(super) struct Rows {
    pub(super) d_o: TensorId,
    pub(super) o: TensorId,
    pub(super) v: TensorId,
    pub(super) delta: TensorId,
    /// Δ times 1, or times what the factor of a mask is divided by.
    pub(super) sum: TensorId,
    /// What Δ is multiplied by, beside a mask that is given.
    pub(super) inverse: Option<TensorId>,
}

/// A walk from a gradient to what it is made of.
pub(super) struct Walk<'a> {
    pub(super) parts: Parts<'a>,
    pub(super) operations: BTreeSet<OperationId>,
    pub(super) expectations: Vec<Expectation>,
    overrides: Vec<(TensorId, Length)>,
    /// Gradients of K and V of each head of Q, which are summed over groups.
    of_heads: Vec<TensorId>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(draft: &'a Draft, flow: &'a Flow) -> Self {
        let parts = Parts { draft, flow };
        Self {
            parts,
            operations: BTreeSet::new(),
            expectations: Vec::new(),
            overrides: Vec::new(),
            of_heads: Vec::new(),
        }
    }

    pub(super) fn tensor(&self, id: TensorId) -> &'a Tensor {
        self.parts.draft.tensor(id)
    }

    fn made_by(&self, id: TensorId) -> Option<&'a Operation> {
        self.parts.flow.made_by(self.parts.draft, id)
    }

    pub(super) fn is_float(&self, id: TensorId) -> bool {
        self.tensor(id).data_type == Some(DataType::Float)
    }

    pub(super) fn is_fp8(&self, id: TensorId) -> bool {
        self.tensor(id).data_type.is_some_and(DataType::is_fp8)
    }

    /// Whether a tensor is the caller's.
    fn is_given(&self, id: TensorId) -> bool {
        self.parts.flow.writer(id).is_none()
    }

    /// Whether a tensor is the caller's, and one number.
    pub(super) fn is_number(&self, id: TensorId) -> bool {
        self.is_given(id) && self.tensor(id).dim.iter().all(|&extent| extent == 1)
    }

    pub(super) fn readers(&self, id: TensorId) -> Vec<OperationId> {
        self.parts.flow.readers(self.parts.draft, id)
    }

    pub(super) fn operation(&self, id: OperationId) -> &'a Operation {
        &self.parts.draft.operations[id.index()]
    }

    /// Takes the operation that gives a tensor for a part of the pass.
    pub(super) fn take(&mut self, id: TensorId) {
        self.operations.extend(self.parts.flow.writer(id));
    }

    /// What a pointwise operation of a mode reads that gives a tensor of type `FLOAT`; it is taken.
    pub(super) fn operands<const N: usize>(&mut self, id: TensorId, mode: PointwiseMode) -> Option<[TensorId; N]> {
        let operands = self.parts.operands(id, mode).filter(|_| self.is_float(id))?;
        self.take(id);
        Some(operands)
    }

    /// A value and the number that it is multiplied by.
    pub(super) fn scaled(&self, id: TensorId) -> Option<[TensorId; 2]> {
        let [a, b] = self.parts.operands(id, PointwiseMode::Mul).filter(|_| self.is_float(id))?;
        [[a, b], [b, a]].into_iter().find(|&[value, factor]| self.is_number(factor) && !self.is_given(value))
    }

    /// The operands of a product, which is taken with the lengths that it is held to.
    pub(super) fn product(&mut self, id: TensorId, overrides: Overrides) -> Option<[TensorId; 2]> {
        let product = self.made_by(id).filter(|product| product.compute_data_type == Some(DataType::Float))?;
        let Attributes::Matmul(matmul) = &product.attributes else { return None };
        for &(port, length) in product.inputs.iter().filter(|slot| ![Port::A, Port::B].contains(&slot.0)) {
            let known = overrides.iter().find(|known| known.0 == port)?;
            self.overrides.push((length, known.1));
        }
        if matmul.padding_value != 0.0 {
            return None;
        }
        self.take(id);
        Some([product.input(Port::A)?, product.input(Port::B)?])
    }

    /// What a tensor is the transpose of: a reshape that keeps elements where they lie, under swapped strides (AT-P29). It is taken.
    fn transposed(&mut self, id: TensorId) -> Option<TensorId> {
        let x = transposed_by(self.made_by(id)?)?;
        let (of, found) = (self.tensor(x), self.tensor(id));
        if of.dim.len() != 4 {
            return None;
        }
        let (mut dim, mut stride) = (of.dim.clone(), of.stride.clone());
        if of.is_virtual {
            // what it says of them means nothing (AT-P39)
            stride = packed_strides(&dim, &row_major_order(4));
        }
        dim.swap(2, 3);
        stride.swap(2, 3);
        if found.dim != dim || found.stride != stride {
            return None;
        }
        self.take(id);
        Some(x)
    }

    /// K from its transpose, which may be declared wider than it is.
    pub(super) fn keys(&mut self, of_keys: TensorId) -> Option<TensorId> {
        let k = self.transposed(of_keys)?;
        let is_same = self.tensor(k).data_type == self.tensor(of_keys).data_type;
        (is_same || self.is_float(of_keys)).then_some(k)
    }

    /// dS from P and the difference of dP and Δ.
    pub(super) fn score_gradient(&mut self, ds: TensorId) -> Option<ScoreGradient> {
        let (mut inner, mut unscaled, mut factors) = (ds, ds, Vec::new());
        let (mut capped, mut behind_cap) = (None, 0);
        let mut choices = Vec::new();
        loop {
            if let Some([value, factor]) = self.scaled(inner) {
                self.take(inner);
                if factors.is_empty() {
                    unscaled = value;
                }
                factors.push(factor);
                inner = value;
            } else if let Some((value, choice)) = self.chosen(inner) {
                self.take_between(inner, value)?;
                choices.push(choice);
                inner = value;
            } else if let Some(gradient) = self.cap_gradient(inner).filter(|_| capped.is_none()) {
                (capped, behind_cap) = (Some(gradient), factors.len());
                inner = gradient.of_capped;
            } else {
                break;
            }
        }
        let [a, b] = self.operands(inner, PointwiseMode::Mul)?;
        let is_of = |id: TensorId, mode| self.made_by(id).and_then(Operation::pointwise_mode) == Some(mode);
        let ways = [[a, b], [b, a]].into_iter();
        let [difference, p] =
            ways.filter(|way| is_of(way[0], PointwiseMode::Sub)).find(|way| is_of(way[1], PointwiseMode::Exp))?;
        Some(ScoreGradient { p, difference, factors, behind_cap, unscaled, capped, choices })
    }

    /// What a cap makes of a gradient of scores that this is; its operations are taken.
    fn cap_gradient(&mut self, id: TensorId) -> Option<CapGradient> {
        let quotient: Option<[TensorId; 2]> = self.parts.operands(id, PointwiseMode::Div);
        let (sloped, divisor) = quotient.map_or((id, None), |[sloped, divisor]| (sloped, Some(divisor)));
        let [gradient, divided] = self.parts.operands(sloped, PointwiseMode::TanhBwd)?;
        let multiplied = match divisor {
            Some(_) => Some(self.scaled(gradient)?),
            None => None,
        };
        let cap = multiplied.map(|[_, factor]| factor);
        let is_undone = cap.is_none() || self.are_equal(divisor.as_slice(), cap.as_slice());
        if !is_undone || !self.is_float(id) || !self.is_float(sloped) {
            return None;
        }
        [id, sloped].into_iter().chain(cap.map(|_| gradient)).for_each(|id| self.take(id));
        Some(CapGradient { of_capped: multiplied.map_or(gradient, |[value, _]| value), divided, cap })
    }

    /// Scores that are capped, and their cap: the cap times tanh of what is divided by it. The operations are taken.
    fn capped(&mut self, id: TensorId) -> Option<(TensorId, Cap)> {
        let [tanh, cap] = self.scaled(id)?;
        let [divided] = self.parts.operands(tanh, PointwiseMode::TanhFwd)?;
        let [scores, divisor] = self.parts.operands(divided, PointwiseMode::Div)?;
        if !self.are_equal(&[divisor], &[cap]) || !self.is_float(tanh) || !self.is_float(divided) {
            return None;
        }
        [id, tanh, divided].into_iter().for_each(|id| self.take(id));
        Some((scores, Cap { cap, divided }))
    }

    /// Whether a gradient is that of scores, and of what is left of their probabilities: times the same factors, and behind the same cap.
    pub(super) fn is_of_scores(&self, gradient: &ScoreGradient, scores: &Scores, of_left: Option<TensorId>) -> bool {
        let factors: Vec<TensorId> = scores.factors.iter().copied().chain(of_left).collect();
        let is_behind = match (gradient.capped, scores.cap) {
            (None, None) => true,
            (Some(capped), Some(Cap { cap, divided })) => {
                gradient.behind_cap == scores.factors.len()
                    && capped.divided == divided
                    && capped.cap.is_none_or(|of_gradient| self.are_equal(&[of_gradient], &[cap]))
            }
            _ => false,
        };
        is_behind && self.are_equal(&gradient.factors, &factors)
    }

    /// The value of a choice between one and a number.
    fn chosen(&self, id: TensorId) -> Option<(TensorId, Choice)> {
        let [value, number, kept] = self.parts.operands(id, PointwiseMode::BinarySelect)?;
        let is_choice = self.is_float(id) && self.is_number(number) && !self.is_given(value) && !self.is_given(kept);
        is_choice.then_some((value, Choice { number, kept }))
    }

    /// Takes it that a choice is of 0 where scores are masked, whose gradients are 0; `None` where it is another.
    pub(super) fn is_of_masked(&mut self, choice: &Choice, masks: &Masks) -> Option<()> {
        let expected = masks.expected_of(self.parts.draft, self.parts.flow, choice.kept)?;
        self.expectations.extend(expected);
        self.expect(choice.number, Expected::Zero)
    }

    /// The scores of probabilities.
    pub(super) fn scores(&mut self, p: TensorId) -> Option<Scores> {
        let [end] = self.operands(p, PointwiseMode::Exp)?;
        let mut stats = None;
        let less_stats = |x: TensorId| {
            let [below, taken] = self.parts.operands(x, PointwiseMode::Sub)?;
            let is_row = self.is_given(taken) && self.is_float(taken);
            let is_row = is_row && self.tensor(taken).dim == row_dim(&self.tensor(below).dim);
            (is_row && stats.replace(taken).is_none()).then_some(below)
        };
        let masks = Masks::around(self.parts.draft, self.parts.flow, end, less_stats)?;
        self.take_between(end, masks.x)?;
        let mut x = masks.x;
        let leaning = self.leaning(x);
        if let Some([value, leaning, slopes]) = leaning {
            self.take(x);
            self.take_between(leaning, slopes)?;
            x = value;
        }
        let biased = self.parts.operands(x, PointwiseMode::Add).filter(|_| self.is_float(x));
        let ways = biased.into_iter().flat_map(|[a, b]: [TensorId; 2]| [[a, b], [b, a]]);
        let biased = ways.into_iter().find(|&[value, bias]| self.is_given(bias) && !self.is_given(value));
        if let Some([value, _]) = biased {
            self.take(x);
            x = value;
        }
        let capped = self.capped(x);
        if let Some((scores, _)) = capped {
            x = scores;
        }
        let (x, factors) = self.unscaled(x);
        let [q, k] = self.product_of_scores(x)?;
        let cap = capped.map(|capped| capped.1);
        let slopes = leaning.map(|[_, _, slopes]| slopes);
        Some(Scores { q, k, stats: stats?, factors, cap, bias: biased.map(|way| way[1]), slopes, masks })
    }

    /// A value, what ALiBi adds to it, and the slopes of that: column − row times the slope of a head (AT-O7).
    fn leaning(&self, id: TensorId) -> Option<[TensorId; 3]> {
        let ways = |pair: Option<[TensorId; 2]>| pair.into_iter().flat_map(|[a, b]| [[a, b], [b, a]]);
        let heads = *self.tensor(id).dim.get(1)?;
        let are_slopes = |id: TensorId| {
            let tensor = self.tensor(id);
            self.is_given(id) && self.is_float(id) && tensor.dim == [1, heads, 1, 1] && !tensor.is_pass_by_value
        };
        let distance = Sum::of_column().plus(Sum::of_row(), -1);
        let is_distance = |id: TensorId| Sum::of(self.parts.draft, self.parts.flow, id).as_ref() == Some(&distance);
        let slopes_of = |leaning: TensorId| {
            let pair = self.parts.operands(leaning, PointwiseMode::Mul).filter(|_| self.is_float(leaning));
            ways(pair).find(|&[slopes, other]| are_slopes(slopes) && is_distance(other)).map(|[slopes, _]| slopes)
        };
        let pair = self.parts.operands(id, PointwiseMode::Add).filter(|_| self.is_float(id));
        ways(pair).find_map(|[value, leaning]| Some([value, leaning, slopes_of(leaning)?]))
    }

    /// Takes the operations that make a tensor of another; `None` where one rounds to fewer bits.
    fn take_between(&mut self, end: TensorId, start: TensorId) -> Option<()> {
        let mut open = vec![end];
        while let Some(id) = open.pop() {
            let Some(writer) = self.parts.flow.writer(id).filter(|_| id != start) else { continue };
            let is_whole = [DataType::Float, DataType::Int32, DataType::Int64, DataType::Boolean];
            if !self.tensor(id).data_type.is_some_and(|data_type| is_whole.contains(&data_type)) {
                return None;
            }
            let operation = self.operation(writer);
            if self.operations.insert(writer) && operation.pointwise_mode() != Some(PointwiseMode::GenIndex) {
                open.extend(operation.input_tensors());
            }
        }
        Some(())
    }

    /// The probabilities that are multiplied: themselves, or what is left of them.
    pub(super) fn kept(&mut self, p: TensorId) -> Option<(TensorId, Option<Dropping>)> {
        let masked = self.readers(p).into_iter().find_map(|reader| {
            let result = self.operation(reader).result()?;
            self.parts.operands::<2>(result, PointwiseMode::Mul)?;
            let mask = self.parts.other_operand(result, p)?;
            Some((result, mask, self.source(mask, p)?))
        });
        let Some((masked, mask, source)) = masked else { return Some((p, None)) };
        let scaled = self.result_of_only_reader(masked);
        let scaled = scaled.and_then(|kept| Some([kept, self.scaled(kept).filter(|way| way[0] == masked)?[1]]));
        let factor = match (source, scaled) {
            (DroppingSource::Ones, Some([_, factor])) => {
                self.expect(factor, Expected::One)?;
                Some(factor)
            }
            (DroppingSource::Ones | DroppingSource::Drawn(_), None) => return None,
            (_, scaled) => scaled.map(|[_, factor]| factor),
        };
        let kept = scaled.map_or(masked, |[kept, _]| kept);
        [masked, kept, mask].into_iter().for_each(|id| self.take(id));
        let is_float = self.is_float(masked) && (self.is_float(mask) || self.is_given(mask));
        is_float.then_some((kept, Some(Dropping { mask, factor, source })))
    }

    /// What a mask of probabilities is, if it is one.
    fn source(&self, mask: TensorId, p: TensorId) -> Option<DroppingSource> {
        if self.is_of_ones(mask) {
            return Some(DroppingSource::Ones);
        }
        if self.is_given(mask) {
            let broadcasts = self.tensor(mask).dim.iter().zip(&self.tensor(p).dim).all(|(&a, &b)| a == 1 || a == b);
            return (broadcasts && !self.tensor(mask).is_virtual).then_some(DroppingSource::Given);
        }
        Drawn::of(self.parts.draft, self.parts.flow, mask).map(DroppingSource::Drawn)
    }

    /// The mask that a dropping draws, where it is stored.
    pub(super) fn dump(&self, dropping: Dropping) -> Option<TensorId> {
        dropping.drawn().map(|_| dropping.mask).filter(|&mask| !self.tensor(mask).is_virtual)
    }

    /// Whether a tensor is a random mask that keeps everything.
    fn is_of_ones(&self, id: TensorId) -> bool {
        let Some(Attributes::Other(other)) = self.made_by(id).map(|operation| &operation.attributes) else {
            return false;
        };
        let is_bernoulli = other.attributes.get("distribution").and_then(Value::as_str) == Some("BERNOULLI");
        let keep = other.attributes.get("bernoulli_probability").and_then(Value::as_f64);
        other.tag == "RNG" && is_bernoulli && keep == Some(1.0)
    }

    /// Whether a number is known to be 1.
    fn is_one(&self, id: TensorId) -> bool {
        let tensor = self.tensor(id);
        tensor.is_pass_by_value && tensor.value.is_some_and(|value| value.as_f64() == 1.0)
    }

    /// A number by value that has to be something, now or in every execution.
    pub(super) fn expect(&mut self, factor: TensorId, expected: Expected) -> Option<()> {
        let tensor = self.tensor(factor);
        match tensor.value {
            _ if !tensor.is_pass_by_value => None,
            Some(value) => expected.is(value).then_some(()),
            None => {
                let expectation = Expectation::of(self.parts.draft, factor, expected)?;
                if !self.expectations.contains(&expectation) {
                    self.expectations.push(expectation);
                }
                Some(())
            }
        }
    }

    /// dO, O and V from the difference of `dO · Vᵀ` and Δ.
    pub(super) fn rows(&mut self, difference: TensorId, dropout: Option<Dropping>) -> Option<Rows> {
        let [mut dp, sum] = self.operands(difference, PointwiseMode::Sub)?;
        if let Some(dropout) = dropout {
            let [a, b] = self.operands(dp, PointwiseMode::Mul)?;
            dp = [[a, b], [b, a]].into_iter().find(|way| way[1] == dropout.mask)?[0];
        }
        let [d_o, v] = self.product_of_scores(dp)?;
        let (mut delta, mut inverse) = (sum, None);
        match self.scaled(sum) {
            Some([value, factor]) => {
                self.take(sum);
                match dropout.map(|dropout| dropout.source) {
                    Some(DroppingSource::Given) => inverse = Some(factor).filter(|&factor| !self.is_one(factor)),
                    Some(DroppingSource::Drawn(drawn)) => self.expect(factor, Expected::Kept(drawn.kept.keep))?,
                    Some(DroppingSource::Ones) | None => self.expect(factor, Expected::One)?,
                }
                delta = value;
            }
            // what it is divided by has to be a factor of it
            None if dropout.is_some_and(|dropout| dropout.drawn().is_some()) => return None,
            None => {}
        }
        let o = self.reduced_with(delta, d_o)?;
        Some(Rows { d_o, o, v, delta, sum, inverse })
    }

    /// What is multiplied by another tensor in a sum over each row.
    pub(super) fn reduced_with(&mut self, sum: TensorId, other: TensorId) -> Option<TensorId> {
        let product = self.made_by(sum)?.input(Port::X)?;
        if !self.parts.is_reduced(sum, ReductionMode::Add, product) || !self.is_float(sum) {
            return None;
        }
        self.take(sum);
        self.operands::<2>(product, PointwiseMode::Mul)?;
        self.parts.other_operand(product, other)
    }

    /// The operands of a product that has the extents of scores.
    pub(super) fn product_of_scores(&mut self, id: TensorId) -> Option<[TensorId; 2]> {
        self.product(id, OF_SCORES).filter(|_| self.is_float(id))
    }

    /// The gradient of K or V: the transpose of a value of the scores, rounded to Q's type, times a matrix of the queries.
    pub(super) fn gradient_of_keys(
        &mut self,
        of_scores: TensorId,
        of_queries: TensorId,
        data_type: Option<DataType>,
    ) -> Option<TensorId> {
        let readers = self.readers(of_scores).into_iter();
        let mut transposes = readers.filter(|&id| transposed_by(self.operation(id)).is_some());
        let transpose = transposes.next().and_then(|id| self.operation(id).result())?;
        self.transposed(transpose)?;
        if self.tensor(transpose).data_type != data_type {
            return None;
        }
        let product = self.result_of_only_reader(transpose)?;
        if self.product(product, OVER_QUERIES)? != [transpose, of_queries] {
            return None;
        }
        let of_heads = [Some(DataType::Float), data_type];
        let summed = self.result_of_only_reader(product).filter(|&summed| self.sums_heads(summed, product));
        match summed {
            Some(_) if !of_heads.contains(&self.tensor(product).data_type) => None,
            Some(summed) => {
                self.take(summed);
                self.of_heads.push(product);
                Some(summed)
            }
            None => Some(product),
        }
    }

    /// Whether a tensor is the sum of another over heads: groups of them, or all.
    fn sums_heads(&self, id: TensorId, of: TensorId) -> bool {
        let Some(operation) = self.made_by(id) else { return false };
        let (all, sum) = (&self.tensor(of).dim, &self.tensor(id).dim);
        let mut total = all.clone();
        total.iter_mut().skip(1).take(1).for_each(|heads| *heads = 1);
        let sums = match &operation.attributes {
            Attributes::Other(other) => other.tag == HEAD_SUM && are_heads_of(all, sum),
            _ => is_sum(operation) && *sum == total,
        };
        sums && operation.compute_data_type == Some(DataType::Float)
    }

    fn result_of_only_reader(&self, id: TensorId) -> Option<TensorId> {
        match self.readers(id)[..] {
            [reader] => self.operation(reader).result(),
            _ => None,
        }
    }

    /// The gradient of Q that a product is, or becomes by a conversion; `None` where something else reads the product.
    pub(super) fn converted(&mut self, product: TensorId) -> Option<TensorId> {
        if self.readers(product).is_empty() {
            return Some(product);
        }
        let converted = self.result_of_only_reader(product).filter(|_| self.is_float(product))?;
        if self.parts.operands(converted, PointwiseMode::Identity) != Some([product]) {
            return None;
        }
        self.take(converted);
        Some(converted)
    }

    /// The sink, and its gradient, where Δ leads to one.
    pub(super) fn sink(&mut self, delta: TensorId, stats: TensorId) -> Option<(TensorId, TensorId)> {
        for reader in self.readers(delta) {
            let Some(share) = self.operation(reader).result() else { continue };
            let Some((sink, inner)) = self.share_of_sink(share, delta, stats) else { continue };
            let total = self.result_of_only_reader(share)?;
            let sums = self.made_by(total).is_some_and(is_float_sum);
            if sums && self.tensor(total).dim == self.tensor(sink).dim {
                inner.into_iter().chain([share, total]).for_each(|id| self.take(id));
                return Some((sink, total));
            }
        }
        None
    }

    /// The sink in `exp(SINK − STATS) ∘ Δ`, and the values between.
    fn share_of_sink(&self, share: TensorId, delta: TensorId, stats: TensorId) -> Option<(TensorId, [TensorId; 2])> {
        self.parts.operands::<2>(share, PointwiseMode::Mul)?;
        let p = self.parts.other_operand(share, delta)?;
        let [below] = self.parts.operands(p, PointwiseMode::Exp)?;
        let [sink, taken] = self.parts.operands(below, PointwiseMode::Sub)?;
        let fits = taken == stats && self.is_given(sink) && [share, p, below].into_iter().all(|id| self.is_float(id));
        fits.then_some((sink, [p, below]))
    }

    /// The gradient of a bias: the sum of dS over axes along which the bias is repeated, or dS itself.
    pub(super) fn bias_gradient(&mut self, ds: TensorId) -> Option<TensorId> {
        let gradient = self.readers(ds).into_iter().find(|&reader| {
            let operation = self.operation(reader);
            let is_conversion = unscaled(operation).is_some_and(|one| one.mode == PointwiseMode::Identity);
            is_float_sum(operation) || is_conversion && operation.compute_data_type == Some(DataType::Float)
        })?;
        let result = self.operation(gradient).result()?;
        self.take(result);
        Some(result)
    }

    /// Whether factors are the same, one by one: the same tensors, or known numbers.
    pub(super) fn are_equal(&self, found: &[TensorId], expected: &[TensorId]) -> bool {
        let known = |id: TensorId| {
            let tensor = self.tensor(id);
            tensor.value.filter(|_| tensor.is_pass_by_value).zip(tensor.data_type)
        };
        let is_same = |(&a, &b): (&TensorId, &TensorId)| a == b || known(a).is_some() && known(a) == known(b);
        found.len() == expected.len() && found.iter().zip(expected).all(is_same)
    }

    /// Whether override extents are the lengths that scores are masked by.
    pub(super) fn overrides_are(&self, [queries, keys]: [Option<TensorId>; 2]) -> bool {
        let is_length =
            |&(id, length): &(TensorId, Length)| Some(id) == if length == Length::OfQueries { queries } else { keys };
        self.overrides.iter().all(is_length)
    }

    /// Whether inputs are the caller's, in memory or by value.
    pub(super) fn are_given(&self, inputs: &[(Port, TensorId)]) -> bool {
        inputs.iter().all(|&(_, id)| self.is_given(id) && !self.tensor(id).is_virtual)
    }

    /// Whether K and V lie transposed, and are nothing else, so that they may be seen as they are stored.
    pub(super) fn lie_transposed(&self, inputs: &[(Port, TensorId)]) -> bool {
        let is_alone = |id: TensorId| inputs.iter().filter(|slot| slot.1 == id).count() == 1;
        let mut turned = inputs.iter().filter(|slot| TURNED.contains(&slot.0));
        turned.all(|slot| is_alone(slot.1) && attention::is_turned(&self.tensor(slot.1).stride))
    }

    /// Whether what was taken may go: nobody else reads, or keeps, a value between inputs and outputs, or reads K or V. What is the
    /// frontend's own may lie in memory: sums of type `FLOAT`, and gradients of heads before they are summed (AT-P43).
    pub(super) fn is_whole(
        &self,
        inputs: &[(Port, TensorId)],
        outputs: &[(Port, TensorId)],
        scratch: [TensorId; 2],
    ) -> bool {
        let is_output = |id: &TensorId| outputs.iter().any(|slot| slot.1 == *id);
        let results = self.operations.iter().flat_map(|&id| self.operation(id).output_tensors());
        let mut inner: BTreeSet<TensorId> = results.filter(|id| !is_output(id)).collect();
        let is_scratch = |id: &TensorId| scratch.contains(id) && self.is_float(*id) || self.of_heads.contains(id);
        let is_gone = |id: &TensorId| self.tensor(*id).is_virtual || is_scratch(id);
        let are_gone = inner.iter().all(is_gone);
        inner.extend(inputs.iter().filter(|slot| TURNED.contains(&slot.0)).map(|slot| slot.1));
        let others = self.parts.draft.operation_ids().filter(|id| !self.operations.contains(id));
        let mut read = others.flat_map(|id| self.operation(id).input_tensors());
        are_gone && !read.any(|id| inner.contains(&id))
    }
}

fn is_float_sum(operation: &Operation) -> bool {
    is_sum(operation) && operation.compute_data_type == Some(DataType::Float)
}

/// What an operation may transpose.
fn transposed_by(operation: &Operation) -> Option<TensorId> {
    let Attributes::Other(other) = &operation.attributes else { return None };
    let is_logical = other.attributes.get("reshape_mode").and_then(Value::as_str) == Some("LOGICAL");
    operation.input(Port::X).filter(|_| other.tag == "RESHAPE" && !is_logical)
}
