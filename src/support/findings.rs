//! Where rules report what they find.

use super::rule::{DetailedStatus, Rule, SurfaceId};
use crate::graph::{FinalizedGraph, OperationId, TensorId};

/// One broken rule at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Surface whose rule it is.
    pub surface: SurfaceId,
    /// The rule.
    pub rule: &'static Rule,
    /// Operation and tensor as messages name them: `operation 'add' (POINTWISE ADD), tensor 'bias' (uid 4)`.
    pub place: String,
    /// What the rule asks for, with the graph's own extents put in.
    pub required: String,
    /// What the graph has.
    pub found: String,
    /// The place as ids of the graph.
    pub(super) at: Place,
}

/// Where a rule is broken; neither for the whole graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) operation: Option<OperationId>,
    pub(super) tensor: Option<TensorId>,
}

impl Violation {
    /// The operation at which the rule is broken; `None` for a tensor alone and for the whole graph.
    pub fn operation(&self) -> Option<OperationId> {
        self.at.operation
    }

    /// The tensor at which the rule is broken.
    pub fn tensor(&self) -> Option<TensorId> {
        self.at.tensor
    }

    /// Sub-status of the backend API.
    pub fn status(&self) -> DetailedStatus {
        self.rule.status().unwrap_or(DetailedStatus::Unspecified)
    }
}

/// How far a tensor is out of the question for further rules (reporting conventions, rule 4).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    /// Nothing is known against it.
    Good,
    /// It breaks a layout row: packing and alignment are not asked.
    Unlaid,
    /// Its rank is wrong: layout is not asked either.
    Unranked,
}

/// Collects the violations of one surface.
pub(super) struct Findings<'a> {
    graph: &'a FinalizedGraph,
    surface: SurfaceId,
    violations: Vec<Violation>,
    standing: Vec<Standing>,
}

impl<'a> Findings<'a> {
    pub(super) fn new(graph: &'a FinalizedGraph, surface: SurfaceId) -> Self {
        Self { graph, surface, violations: Vec::new(), standing: Vec::new() }
    }

    /// All violations, the most decisive first.
    pub(super) fn into_violations(mut self) -> Vec<Violation> {
        self.violations.sort_by_key(Violation::status);
        self.violations
    }

    /// A violation of the whole graph.
    pub(super) fn graph(&mut self, rule: &'static Rule, required: impl Into<String>, found: impl Into<String>) {
        self.report(rule, (Place::default(), "graph".to_owned()), required.into(), found.into());
    }

    /// A violation of an operation.
    pub(super) fn operation(
        &mut self,
        rule: &'static Rule,
        id: OperationId,
        required: impl Into<String>,
        found: impl Into<String>,
    ) {
        let place = format!("operation {}", self.graph.describe_operation(id));
        self.report(rule, (Place { operation: Some(id), tensor: None }, place), required.into(), found.into());
    }

    /// A violation of a tensor.
    pub(super) fn tensor(
        &mut self,
        rule: &'static Rule,
        id: TensorId,
        required: impl Into<String>,
        found: impl Into<String>,
    ) {
        let place = format!("tensor {}", self.graph.describe_tensor(id));
        self.report(rule, (Place { operation: None, tensor: Some(id) }, place), required.into(), found.into());
    }

    /// A violation of a tensor in its use by an operation.
    pub(super) fn slot(
        &mut self,
        rule: &'static Rule,
        (operation, tensor): (OperationId, TensorId),
        required: impl Into<String>,
        found: impl Into<String>,
    ) {
        let at = Place { operation: Some(operation), tensor: Some(tensor) };
        let operation = self.graph.describe_operation(operation);
        let place = format!("operation {operation}, tensor {}", self.graph.describe_tensor(tensor));
        self.report(rule, (at, place), required.into(), found.into());
    }

    fn report(&mut self, rule: &'static Rule, (at, place): (Place, String), required: String, found: String) {
        debug_assert!(rule.status().is_some(), "{} is no restriction", rule.id);
        self.violations.push(Violation { surface: self.surface, rule, place, required, found, at });
    }

    /// A tensor of wrong rank: nothing more is said of its dims, layout and alignment.
    pub(super) fn set_unranked(&mut self, id: TensorId) {
        self.set(id, Standing::Unranked);
    }

    /// A tensor that breaks a layout row: nothing more is said of its packing and alignment.
    pub(super) fn set_unlaid(&mut self, id: TensorId) {
        self.set(id, Standing::Unlaid);
    }

    /// Whether the layout of a tensor is still in question.
    pub(super) fn asks_layout(&self, id: TensorId) -> bool {
        self.get(id) < Standing::Unranked
    }

    /// Whether the packing and alignment of a tensor are still in question.
    pub(super) fn asks_alignment(&self, id: TensorId) -> bool {
        self.get(id) < Standing::Unlaid
    }

    fn get(&self, id: TensorId) -> Standing {
        self.standing.get(id.index()).copied().unwrap_or(Standing::Good)
    }

    fn set(&mut self, id: TensorId, standing: Standing) {
        self.standing.resize(self.graph.tensors().len(), Standing::Good);
        let current = &mut self.standing[id.index()];
        *current = standing.max(*current);
    }
}
