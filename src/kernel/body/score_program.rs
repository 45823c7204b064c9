//! What a graph does with scores beyond scaling them, as kernels see it.

use std::collections::BTreeSet;

use crate::graph::{DataType, FinalizedGraph, Pointwise, PointwiseMode, TensorId};
use crate::kernel::{StageProgram, Step, Value};

/// Operations on each score.
#[derive(Clone, Debug)]
pub struct ScoreProgram {
    /// The operations; the product is their accumulator.
    pub program: StageProgram,
    /// What they make of it.
    pub result: TensorId,
    /// The cap that they begin with.
    pub cap: Option<ScoreCap>,
}

impl ScoreProgram {
    /// Operations that make a result of scores.
    pub fn new(graph: &FinalizedGraph, program: StageProgram, result: TensorId) -> Self {
        let cap = ScoreCap::of(graph, &program, result);
        Self { program, result, cap }
    }

    /// Whether a value is on the way to the capped score.
    pub fn is_inside_cap(&self, id: TensorId) -> bool {
        self.cap.as_ref().is_some_and(|cap| cap.inside.contains(&id))
    }

    /// Whether a value is the capped score.
    pub fn is_capped(&self, id: TensorId) -> bool {
        self.cap.as_ref().is_some_and(|cap| cap.result == id)
    }
}

/// Scores that are capped: `b · tanh(a · x)`, where `a` is made of numbers by which scores are multiplied, and divided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScoreCap {
    /// With each number of `a` whether it divides.
    pub inner: Vec<(TensorId, bool)>,
    /// `b`.
    pub outer: TensorId,
    /// The capped score.
    pub result: TensorId,
    /// Values on the way to it.
    pub inside: BTreeSet<TensorId>,
}

impl ScoreCap {
    /// The cap that a program begins with. All on the way is `FLOAT`, and read by what follows alone.
    fn of(graph: &FinalizedGraph, program: &StageProgram, result: TensorId) -> Option<Self> {
        let accumulator = program.steps.iter().find(|step| step.value == Value::Accumulator)?.tensor;
        let mut cap = Self { inner: Vec::new(), outer: accumulator, result: accumulator, inside: BTreeSet::new() };
        let mut is_bent = false;
        loop {
            let x = cap.result;
            let is_float = graph.tensor(x).data_type == DataType::Float;
            let mut readers = program.steps.iter().filter(|step| reads(step, x));
            let step = readers.next().filter(|_| readers.next().is_none() && is_float && x != result)?;
            let (attributes, operands, compute) = step.pointwise()?;
            let plain = attributes.unscaled().filter(|_| compute == DataType::Float)?;
            cap.inside.insert(x);
            cap.result = step.tensor;
            match (plain.mode, operands) {
                (PointwiseMode::TanhFwd, _) if !is_bent => is_bent = true,
                (PointwiseMode::Mul, &[a, b]) if is_number(graph, a) || is_number(graph, b) => {
                    let factor = if a == x { b } else { a };
                    if is_bent {
                        cap.outer = factor;
                        return (graph.tensor(cap.result).data_type == DataType::Float).then_some(cap);
                    }
                    cap.inner.push((factor, false));
                }
                (PointwiseMode::Div, &[a, b]) if !is_bent && a == x && is_number(graph, b) => cap.inner.push((b, true)),
                _ => return None,
            }
        }
    }
}

impl Step {
    /// Attributes, operands and compute type of a pointwise step.
    pub fn pointwise(&self) -> Option<(&Pointwise, &[TensorId], DataType)> {
        match &self.value {
            Value::Pointwise { attributes, operands, compute } => Some((attributes, operands, *compute)),
            _ => None,
        }
    }
}

impl StageProgram {
    /// Values that are the same for all scores of a head, or where a tile has rows of several heads, of a batch.
    pub fn same_for_heads(&self, graph: &FinalizedGraph, are_packed: bool) -> BTreeSet<TensorId> {
        let first_that_differs = if are_packed { 1 } else { 2 };
        let mut found: BTreeSet<TensorId> = BTreeSet::new();
        for step in &self.steps {
            let tensor = graph.tensor(step.tensor);
            let is_same = match &step.value {
                Value::Load => {
                    tensor.is_pass_by_value || tensor.dim.iter().skip(first_that_differs).all(|&extent| extent == 1)
                }
                Value::Pointwise { operands, .. } => match step.generated_axis() {
                    Some(axis) => axis < first_that_differs,
                    None => operands.iter().all(|operand| found.contains(operand)),
                },
                _ => false,
            };
            if is_same {
                found.insert(step.tensor);
            }
        }
        found
    }
}

fn reads(step: &Step, id: TensorId) -> bool {
    step.pointwise().is_some_and(|(_, operands, _)| operands.contains(&id))
}

/// A number that the host gives, in `FLOAT`.
fn is_number(graph: &FinalizedGraph, id: TensorId) -> bool {
    let tensor = graph.tensor(id);
    tensor.is_pass_by_value && tensor.data_type == DataType::Float && tensor.dim.iter().all(|&extent| extent == 1)
}
