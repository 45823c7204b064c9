//! What scales probabilities and O of an attention in FP8, and keeps their largest magnitudes (`docs/spec/attention.md` AT-O19).
//!
//! ```text
//! P ──▶ MUL number ──▶ P · V ──▶ MUL numbers ──▶ MUL numbers ──▶ O
//! └──▶ AMAX                             └──▶ AMAX
//! ```

use crate::graph::{Attributes, DataType, FinalizedGraph, OperationId, PointwiseMode, ReductionMode, TensorId};

/// See the module. All of it may be missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scaling {
    /// What is multiplied of probabilities.
    pub probabilities: Option<Scaled>,
    /// What becomes of O, in order: up to the value whose largest magnitude is kept, and behind it.
    pub output: [Vec<Scaled>; 2],
    /// What keeps the largest magnitude of probabilities, and of O.
    pub amax: [Option<OperationId>; 2],
}

/// A value times a number, or the value as it is, maybe of another type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scaled {
    /// The operation.
    pub operation: OperationId,
    /// The number.
    pub factor: Option<TensorId>,
    /// Its result.
    pub result: TensorId,
}

impl Scaling {
    /// The scaling of what a product gives; none where other operations read it.
    pub(super) fn behind(graph: &FinalizedGraph, product: TensorId) -> Self {
        let (mut scaling, mut x) = (Self::default(), product);
        loop {
            let [_, amax] = &mut scaling.amax;
            *amax = amax.or_else(|| amax_of(graph, x));
            let mut others = graph.consumers(x).iter().copied().filter(|id| Some(*id) != *amax);
            let [first, second] = [others.next(), others.next()];
            let Some(operation) = first else { return scaling };
            let step = Scaled::of(graph, x, operation).filter(|_| second.is_none() && graph.tensor(x).is_virtual);
            let Some(step) = step else { return Self::default() };
            scaling.output[usize::from(scaling.amax[1].is_some())].push(step);
            x = step.result;
        }
    }

    /// Adds the scaling of probabilities; gives what is multiplied of them.
    pub(super) fn add_probabilities(&mut self, graph: &FinalizedGraph, p: TensorId) -> Option<TensorId> {
        let amax = amax_of(graph, p);
        let mut others = graph.consumers(p).iter().filter(|&&id| Some(id) != amax);
        let (&operation, None) = (others.next()?, others.next()) else { return None };
        let step = Scaled::of(graph, p, operation).filter(|_| graph.tensor(p).is_virtual)?;
        (self.probabilities, self.amax[0]) = (Some(step), amax);
        Some(step.result)
    }

    /// The operations, in no order.
    pub fn operations(&self) -> impl Iterator<Item = OperationId> + '_ {
        let steps = self.output.iter().flatten().chain(&self.probabilities);
        steps.map(|step| step.operation).chain(self.amax.into_iter().flatten())
    }

    /// O, where something becomes of it.
    pub fn result(&self) -> Option<TensorId> {
        self.output.iter().flatten().last().map(|step| step.result)
    }

    /// Tensors with the largest magnitudes of probabilities, and of O.
    pub fn largest(&self, graph: &FinalizedGraph) -> [Option<TensorId>; 2] {
        self.amax.map(|amax| graph.operation(amax?).result())
    }
}

/// What keeps the largest magnitude of all of a value.
fn amax_of(graph: &FinalizedGraph, x: TensorId) -> Option<OperationId> {
    let is_amax = |id: &OperationId| {
        let operation = graph.operation(*id);
        let mode = match &operation.attributes {
            Attributes::Reduction(reduction) => Some(reduction.mode),
            _ => None,
        };
        mode == Some(ReductionMode::Amax) && operation.result().is_some_and(|id| is_number(graph, id))
    };
    graph.consumers(x).iter().copied().find(is_amax)
}

impl Scaled {
    /// What an operation makes of a value; `None` where that is something else.
    fn of(graph: &FinalizedGraph, x: TensorId, id: OperationId) -> Option<Self> {
        let operation = graph.operation(id);
        let mode = operation.pointwise()?.unscaled()?.mode;
        let inputs: Vec<TensorId> = operation.input_tensors().collect();
        let factor = match (mode, &inputs[..]) {
            (PointwiseMode::Identity, [_]) => None,
            (PointwiseMode::Mul, &[first, second]) => Some(if first == x { second } else { first }),
            _ => return None,
        };
        let is_factor = |id: TensorId| id != x && is_number(graph, id) && graph.producer(id).is_none();
        let fits = factor.is_none_or(is_factor) && graph.compute_type(id) == DataType::Float;
        operation.result().filter(|_| fits).map(|result| Self { operation: id, factor, result })
    }
}

fn is_number(graph: &FinalizedGraph, id: TensorId) -> bool {
    graph.tensor(id).dim.iter().all(|&extent| extent == 1)
}
