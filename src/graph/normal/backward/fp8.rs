//! The backward pass in FP8 (`docs/spec/attention.md` section 2.5): products are multiplied by numbers, and what is multiplied is rounded times one.
//!
//! ```text
//! Q · Kᵀ [· scale] · Descale_Q · Descale_K        dO · Vᵀ · Descale_dO · Descale_V        Δ · Descale_dO · Descale_O [· 1]
//! P · Scale_S = S8, rounded to the type of Q      dS · Scale_dP = dS8, rounded to the type of dO
//! dV = S8ᵀ · dO · Descale_S · Descale_dO          dQ = dS8 · K · Descale_dP · Descale_K   dK = dS8ᵀ · Q · Descale_dP · Descale_Q
//! ```
//!
//! Each gradient is stored times a number, and its largest magnitude before that, and that of dS, may be kept.

use super::super::super::backward_scaling::{DK, DQ, DV, FACTORS, GradientScaling, LARGEST};
use super::super::{Attributes, Expected, Operation, OperationId, PointwiseMode, Port, ReductionMode, TensorId};
use super::Pass;
use super::walk::{Rows, Walk};

/// The numbers of a pass, by their ports, and where largest magnitudes are kept.
#[derive(Default)]
pub(super) struct Scaling {
    numbers: Vec<(Port, TensorId)>,
    largest: Vec<(Port, TensorId)>,
}

impl Scaling {
    /// The inputs, in the order of their ports.
    pub(super) fn inputs(&self) -> impl Iterator<Item = (Port, TensorId)> + '_ {
        in_order(&FACTORS, &self.numbers)
    }

    /// The outputs.
    pub(super) fn outputs(&self) -> impl Iterator<Item = (Port, TensorId)> + '_ {
        in_order(&LARGEST, &self.largest)
    }

    /// Takes numbers for those of ports; `None` where a port has another one.
    fn add(&mut self, walk: &Walk, ports: &[Port], numbers: &[TensorId]) -> Option<()> {
        for (&port, &number) in ports.iter().zip(numbers) {
            match self.numbers.iter().find(|slot| slot.0 == port) {
                Some(&(_, known)) if walk.are_equal(&[known], &[number]) => {}
                Some(_) => return None,
                None => self.numbers.push((port, number)),
            }
        }
        (ports.len() == numbers.len()).then_some(())
    }
}

fn in_order<'a>(ports: &'a [Port], slots: &'a [(Port, TensorId)]) -> impl Iterator<Item = (Port, TensorId)> + 'a {
    ports.iter().filter_map(|port| slots.iter().find(|slot| slot.0 == *port).copied())
}

/// The pass whose gradient of Q a product of these gradients of scores, and K, leads to.
pub(super) fn pass(walk: &mut Walk, product: TensorId, [rounded, k]: [TensorId; 2]) -> Option<Pass> {
    let mut scaling = Scaling::default();
    let [ds, number] = walk.rounded(rounded)?;
    scaling.add(walk, &[Port::SCALE_DP], &[number])?;
    scaling.largest.extend(walk.largest(ds).map(|id| (Port::AMAX_DP, id)));
    let gradient = walk.score_gradient(ds)?;
    let mut scores = walk.scores(gradient.p)?;
    gradient.choices.iter().try_for_each(|choice| walk.is_of_masked(choice, &scores.masks))?;
    // from the last one to the first
    let &[descale_k, descale_q, ref scale @ ..] = &scores.factors[..] else { return None };
    scaling.add(walk, &[Port::DESCALE_K, Port::DESCALE_Q], &[descale_k, descale_q])?;
    scores.factors = scale.to_vec();
    if scores.k != k || scores.factors.len() > 1 || !walk.is_of_scores(&gradient, &scores, None) {
        return None;
    }
    let rows = walk.scaled_rows(&mut scaling, gradient.difference)?;
    let [operand, number] = walk.rounding(gradient.p)?;
    scaling.add(walk, &[Port::SCALE_S], &[number])?;
    let [of_q, of_gradient] = [scores.q, rows.d_o].map(|id| walk.tensor(id).data_type);
    if walk.tensor(operand).data_type != of_q || walk.tensor(rounded).data_type != of_gradient {
        return None;
    }
    let dk = walk.gradient_of_keys(rounded, scores.q, of_gradient)?;
    let dv = walk.gradient_of_keys(operand, rows.d_o, of_q)?;
    let gradients = [
        walk.scaled_gradient(&mut scaling, product, &DQ)?,
        walk.scaled_gradient(&mut scaling, dk, &DK)?,
        walk.scaled_gradient(&mut scaling, dv, &DV)?,
    ];
    let sink = walk.sink(rows.delta, scores.stats);
    Some(Pass {
        k,
        scores,
        rows,
        dropout: None,
        dump: None,
        product,
        gradients,
        bias_gradient: None,
        sink,
        scaling: Some(scaling),
    })
}

impl Walk<'_> {
    /// A value that is rounded to FP8, times a number.
    fn rounded(&mut self, id: TensorId) -> Option<[TensorId; 2]> {
        let [a, b] = self.parts.operands(id, PointwiseMode::Mul).filter(|_| self.is_fp8(id))?;
        let way =
            [[a, b], [b, a]].into_iter().find(|&[value, number]| self.is_number(number) && self.is_float(value))?;
        self.take(id);
        Some(way)
    }

    /// What a value becomes that is rounded to FP8, and the number.
    fn rounding(&mut self, value: TensorId) -> Option<[TensorId; 2]> {
        let results = self.readers(value).into_iter().filter_map(|id| self.operation(id).result());
        let rounded = results.filter(|&id| self.is_fp8(id)).collect::<Vec<_>>();
        rounded.into_iter().find_map(|id| Some([id, self.rounded(id).filter(|way| way[0] == value)?[1]]))
    }

    /// A value, and the numbers that it is multiplied by, the last one first.
    pub(super) fn unscaled(&mut self, mut id: TensorId) -> (TensorId, Vec<TensorId>) {
        let mut numbers = Vec::new();
        while let Some([value, number]) = self.scaled(id) {
            self.take(id);
            numbers.push(number);
            id = value;
        }
        (id, numbers)
    }

    /// Where the largest magnitude of a value is kept.
    fn largest(&mut self, value: TensorId) -> Option<TensorId> {
        let reader = self.readers(value).into_iter().find(|&id| is_amax(self.operation(id)))?;
        let result = self.operation(reader).result()?;
        self.take(result);
        Some(result)
    }

    /// What reads a value, but for what keeps its largest magnitude.
    fn only_other_reader(&self, value: TensorId) -> Option<OperationId> {
        let mut others = self.readers(value).into_iter().filter(|&id| !is_amax(self.operation(id)));
        others.next().filter(|_| others.next().is_none())
    }

    /// The gradient that a product becomes: times two numbers, and a third one that it is stored with.
    fn scaled_gradient(
        &mut self,
        scaling: &mut Scaling,
        product: TensorId,
        &GradientScaling { descales, largest, scale, .. }: &GradientScaling,
    ) -> Option<TensorId> {
        let mut value = product;
        for port in descales.into_iter().chain([scale]) {
            if port == scale {
                scaling.largest.extend(self.largest(value).map(|id| (largest, id)));
            }
            let result = self.operation(self.only_other_reader(value)?).result()?;
            let [a, b] = self.parts.operands(result, PointwiseMode::Mul)?;
            let number = [[a, b], [b, a]].into_iter().find(|way| way[0] == value && self.is_number(way[1]))?[1];
            self.take(result);
            scaling.add(self, &[port], &[number])?;
            if port != scale && !self.is_float(result) {
                return None;
            }
            value = result;
        }
        Some(value)
    }

    /// dO, O and V from the difference of `dO · Vᵀ` and Δ.
    fn scaled_rows(&mut self, scaling: &mut Scaling, difference: TensorId) -> Option<Rows> {
        let [dp, sum] = self.operands(difference, PointwiseMode::Sub)?;
        let (dp, numbers) = self.unscaled(dp);
        scaling.add(self, &[Port::DESCALE_V, Port::DESCALE_DO], &numbers)?;
        let [d_o, v] = self.product_of_scores(dp)?;
        // a sink reads Δ before it is multiplied by 1
        let of_deltas = [Port::DESCALE_O, Port::DESCALE_DO];
        let (mut delta, mut rest) = (sum, self.unscaled(sum).1);
        if rest.len() > of_deltas.len() {
            delta = self.scaled(sum)?[0];
            self.expect(rest.remove(0), Expected::One)?;
        }
        scaling.add(self, &of_deltas, &rest)?;
        let (total, _) = self.unscaled(delta);
        let o = self.reduced_with(total, d_o)?;
        Some(Rows { d_o, o, v, delta, sum, inverse: None })
    }
}

fn is_amax(operation: &Operation) -> bool {
    matches!(&operation.attributes, Attributes::Reduction(reduction) if reduction.mode == ReductionMode::Amax)
}
