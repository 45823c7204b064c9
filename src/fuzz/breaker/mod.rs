//! Edits that break one chosen rule of a legal graph: one row an edit, with the rule that the refusal must name.

mod operations;
mod structure;
mod tensors;

use std::sync::Arc;

use super::choices::Choices;
use super::oracle::Finding;
use crate::device::ComputeCapability;
use crate::fusion::{Fusion, Pattern, Side, Stage, fuse};
use crate::graph::{Attributes, FinalTensor, FinalizedGraph, Graph, Operation, OperationId, TensorId};
use crate::support::{self, Kind, Rule, SurfaceId, catalogue};

/// An edit of a legal graph; gives false where the graph has nothing to edit.
type Edit = fn(&Subject, &mut Graph, &mut Choices<'_>) -> bool;

/// An edit and the rule that it breaks: in ids, `S*` stands for the surface, `@` for the pattern.
type Row = (&'static str, Edit);

/// Every row, by what it edits.
const ROWS: &[&[Row]] = &[tensors::ROWS, operations::ROWS, structure::ROWS];

/// How many rows are drawn until one fits the graph.
const DRAWS: usize = 8;

/// Makes a graph break one rule of one of the surfaces that it is legal on, and gives the rule's id; `None` where no row
/// drawn fits.
///
/// # Errors
/// A finding if the surface still holds, or refuses without naming the rule.
pub(super) fn broken(
    graph: &Arc<FinalizedGraph>,
    legal: &[SurfaceId],
    capability: ComputeCapability,
    bytes: &[u8],
) -> Result<Option<&'static str>, Finding> {
    let choices = &mut Choices::new(bytes);
    let Some(surface) = choices.index_of(legal).map(|index| legal[index]) else { return Ok(None) };
    let Ok(fusion) = fuse(Arc::clone(graph)) else { return Ok(None) };
    let subject = Subject { fusion, surface };
    for _ in 0..DRAWS {
        let (id, edit) = draw(choices);
        let Some(rule) = subject.rule(id) else { continue };
        let mut edited = graph.to_graph();
        if !edit(&subject, &mut edited, choices) {
            continue;
        }
        if let Ok(edited) = edited.finalize() {
            return is_named(&Arc::new(edited), surface, capability, rule).map(|()| Some(rule.id));
        }
    }
    Ok(None)
}

fn draw(choices: &mut Choices<'_>) -> Row {
    let count = ROWS.iter().map(|rows| rows.len()).sum();
    let number = choices.below(count);
    *ROWS.iter().copied().flatten().nth(number).expect("below the count")
}

fn is_named(
    edited: &Arc<FinalizedGraph>,
    surface: SurfaceId,
    capability: ComputeCapability,
    rule: &Rule,
) -> Result<(), Finding> {
    let report = support::check(edited, capability, &[surface]);
    if report.violations().any(|violation| violation.rule.id == rule.id) {
        return Ok(());
    }
    let message = format!("surface {surface} does not name {}; it says: {report}\n{}", rule.id, edited.text());
    Err(Finding { oracle: "a graph that breaks a rule is refused by its name", message })
}

/// A legal graph that is to be edited; ids are those of its [`Graph`], too.
struct Subject {
    fusion: Fusion,
    surface: SurfaceId,
}

impl Subject {
    /// The rule that a row's id means here; `None` where the surface has none of that id, or it is another pattern's.
    fn rule(&self, id: &str) -> Option<&'static Rule> {
        const PATTERNS: [&str; 5] = ["MM", "CF", "CBF", "CBD", "PW"];
        let pattern = match self.fusion.pattern() {
            Pattern::Matmul => "MM",
            Pattern::ConvolutionForward => "CF",
            Pattern::ConvolutionBackwardFilter => "CBF",
            Pattern::ConvolutionBackwardData => "CBD",
            Pattern::Pointwise => "PW",
        };
        let id = id.replace("S*", &format!("S{}", self.surface)).replace('@', pattern);
        let of_another = |part: &str| PATTERNS.contains(&part) && part != pattern;
        if id.starts_with('S') && id.split('-').nth(1).is_some_and(of_another) {
            return None;
        }
        let rule = catalogue().find(|rule| rule.id == id && rule.surfaces.contains(&self.surface))?;
        match rule.kind {
            Kind::Restated(by) => catalogue().find(|rule| rule.id == by),
            _ => Some(rule),
        }
    }

    fn graph(&self) -> &FinalizedGraph {
        self.fusion.graph()
    }

    fn tensor(&self, id: TensorId) -> &FinalTensor {
        self.graph().tensor(id)
    }

    fn operation(&self, id: OperationId) -> &Operation {
        self.graph().operation(id)
    }

    fn core(&self) -> Option<&Operation> {
        self.fusion.product().map(|product| self.operation(product.operation))
    }

    /// The full extents of values behind the core, or of all values without a core.
    fn full(&self) -> Vec<i64> {
        let result = self.fusion.product().map(|product| product.result);
        let tensors = self.graph().tensors().filter(|tensor| !tensor.is_pass_by_value);
        let dim = result.map(|id| &self.tensor(id).dim);
        let dim = dim.or_else(|| tensors.map(|tensor| &tensor.dim).max_by_key(|dim| dim.iter().product::<i64>()));
        dim.cloned().unwrap_or_default()
    }

    /// Operations of a kind.
    fn any(&self, choices: &mut Choices<'_>, is_kind: impl Fn(&Operation) -> bool) -> Option<OperationId> {
        let ids: Vec<OperationId> = self.graph().operation_ids().filter(|&id| is_kind(self.operation(id))).collect();
        choices.index_of(&ids).map(|index| ids[index])
    }

    fn reduction(&self) -> Option<OperationId> {
        let mut ids = self.graph().operation_ids();
        ids.find(|&id| matches!(self.operation(id).attributes, Attributes::Reduction(_)))
    }

    /// Inputs in memory of the stages before the core.
    fn mainloop_inputs(&self) -> Vec<TensorId> {
        let core = self.core().into_iter().flat_map(|core| core.input_tensors());
        let mut inputs: Vec<TensorId> = core.filter(|&id| self.is_input(id)).collect();
        for stage in Side::BOTH.map(Stage::Before) {
            inputs.extend(self.fusion.stage_inputs(stage).into_iter().filter(|&id| self.is_input(id)));
        }
        inputs
    }

    /// Inputs in memory behind the core.
    fn side_inputs(&self) -> Vec<TensorId> {
        self.fusion.stage_inputs(Stage::After).into_iter().filter(|&id| self.is_input(id)).collect()
    }

    fn is_input(&self, id: TensorId) -> bool {
        self.graph().producer(id).is_none() && !self.tensor(id).is_pass_by_value
    }

    fn has(&self, is_kind: impl Fn(&Operation) -> bool) -> bool {
        self.graph().operations().any(is_kind)
    }
}

/// One of some ids.
fn pick<T: Copy>(choices: &mut Choices<'_>, ids: impl IntoIterator<Item = T>) -> Option<T> {
    let ids: Vec<T> = ids.into_iter().collect();
    choices.index_of(&ids).map(|index| ids[index])
}

fn is_pointwise(operation: &Operation) -> bool {
    matches!(operation.attributes, Attributes::Pointwise(_))
}

fn is_resample(operation: &Operation) -> bool {
    matches!(operation.attributes, Attributes::ResampleForward(_) | Attributes::ResampleBackward(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every id of a row is that of a rule, for some surface and pattern.
    #[test]
    fn rows_name_rules_that_exist() {
        for (id, _) in ROWS.iter().copied().flatten() {
            let patterns = ["MM", "CF", "CBF", "CBD", "PW"].map(|pattern| id.replace('@', pattern));
            let ids = patterns.iter().flat_map(|id| SurfaceId::ALL.map(|s| id.replace("S*", &format!("S{s}"))));
            let ids: Vec<String> = ids.collect();
            assert!(catalogue().any(|rule| ids.iter().any(|id| id == rule.id)), "{id}");
        }
    }
}
