//! Edits that break one chosen rule of a legal graph: one row an edit, with the rule that the refusal must name. Rules with a
//! number in them are held on both sides of it.

mod attention;
mod limits;
mod mha;
mod norms;
mod operations;
mod structure;
mod tensors;

use std::sync::Arc;

use self::limits::Place;
use super::choices::Choices;
use super::finding::Finding;
use crate::device::ComputeCapability;
use crate::fusion::{Fusion, Pattern, Side, Stage, fuse};
use crate::graph::{Attributes, FinalTensor, FinalizedGraph, Graph, Operation, OperationId, TensorId};
use crate::support::{self, Kind, Rule, SurfaceId, catalogue};

/// An edit of a legal graph; gives false where the graph has nothing to edit.
type Edit = fn(&Subject, &mut Graph, &mut Choices<'_>) -> bool;

/// An edit and the rule that it breaks: in ids, `S*` stands for the surface, `@` for the pattern.
type Row = (&'static str, Edit);

/// Every row, by what it edits.
const ROWS: &[&[Row]] = &[tensors::ROWS, operations::ROWS, structure::ROWS, norms::ROWS, attention::ROWS, mha::ROWS];

/// How many rows are drawn until one fits the graph.
const DRAWS: usize = 8;

/// Part of the graphs that are put at a limit and beyond it, where some limit drawn fits, in percent.
const LIMITED: usize = 40;

/// Makes a graph break one rule of one of the surfaces that it is legal on, and gives the rule's id; `None` where no row
/// drawn fits.
///
/// # Errors
/// A finding if the surface still holds, or refuses without naming the rule; or if it refuses a graph at a rule's limit.
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
    if choices.chance(LIMITED)
        && let Some(rule) = limited(graph, &subject, capability, choices)?
    {
        return Ok(Some(rule.id));
    }
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

/// Puts a graph on both sides of a limit, and gives the rule; `None` where no limit drawn fits.
fn limited(
    graph: &Arc<FinalizedGraph>,
    subject: &Subject,
    capability: ComputeCapability,
    choices: &mut Choices<'_>,
) -> Result<Option<&'static Rule>, Finding> {
    for _ in 0..DRAWS {
        let number = choices.below(limits::ROWS.len() + limits::CHIPS.len());
        let held = match limits::ROWS.get(number) {
            Some(row) => held(graph, subject, capability, (row, choices.below(8)))?,
            None => held_by_chip(graph, subject, &limits::CHIPS[number - limits::ROWS.len()])?,
        };
        if held.is_some() {
            return Ok(held.map(|(rule, _)| rule));
        }
    }
    Ok(None)
}

/// The rule of a row and the sides of it that the graph was put on; `None` where the row does not fit.
fn held(
    graph: &Arc<FinalizedGraph>,
    subject: &Subject,
    capability: ComputeCapability,
    (&(id, step), number): (&limits::Row, usize),
) -> Result<Option<(&'static Rule, Vec<Place>)>, Finding> {
    let Some(rule) = subject.rule(id) else { return Ok(None) };
    let mut sides = Vec::new();
    for side in [Place::At, Place::Beyond] {
        let mut edited = graph.to_graph();
        if !step(subject, &mut edited, number, side) {
            continue;
        }
        let Ok(edited) = edited.finalize() else { continue };
        let edited = Arc::new(edited);
        match side {
            Place::At => is_accepted(&edited, subject.surface, capability, rule)?,
            Place::Beyond => is_named(&edited, subject.surface, capability, rule)?,
        }
        sides.push(side);
    }
    Ok((!sides.is_empty()).then_some((rule, sides)))
}

/// The rule of a row of chips: the last chip does not break it, the next does.
fn held_by_chip(
    graph: &Arc<FinalizedGraph>,
    subject: &Subject,
    &(id, applies, last, next): &limits::Since,
) -> Result<Option<(&'static Rule, Vec<Place>)>, Finding> {
    let Some(rule) = subject.rule(id).filter(|_| applies(subject)) else { return Ok(None) };
    let report = support::check(graph, last, &[subject.surface]);
    if report.violations().any(|violation| violation.rule.id == rule.id) {
        return Err(refused_at(rule, subject.surface, &report, graph));
    }
    is_named(graph, subject.surface, next, rule)?;
    Ok(Some((rule, vec![Place::At, Place::Beyond])))
}

fn is_accepted(
    edited: &Arc<FinalizedGraph>,
    surface: SurfaceId,
    capability: ComputeCapability,
    rule: &Rule,
) -> Result<(), Finding> {
    let report = support::check(edited, capability, &[surface]);
    if report.supported.is_some() { Ok(()) } else { Err(refused_at(rule, surface, &report, edited)) }
}

fn refused_at(rule: &Rule, surface: SurfaceId, report: &support::Report, graph: &FinalizedGraph) -> Finding {
    let message = format!("surface {surface}, at the limit of {}: {report}\n{}", rule.id, graph.text());
    Finding { oracle: "a graph at the limit of a rule is accepted", message }
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
    use crate::fuzz::{Family, generate, graph_bytes};

    /// Every row of limits fits some random graph, on either side that it has.
    #[test]
    fn limits_are_met_on_both_sides() {
        const ONE_SIDED: [&str; 3] = ["S*-G2-ALIGN-8", "S70-G2-ALIGN-PWOUT-8", "S80-CF-ALIGN-8"];
        let mut met = vec![Vec::new(); limits::ROWS.len()];
        let mut chips = vec![false; limits::CHIPS.len()];
        for number in 0..4500 {
            let family = Family::ALL[number as usize % Family::ALL.len()];
            let generated = generate(family, &graph_bytes(20_261_123, number / Family::ALL.len() as u64));
            let Ok(graph) = generated.graph.finalize().map(Arc::new) else { continue };
            let surfaces = SurfaceId::ALL.into_iter();
            let holds =
                |surface: &SurfaceId| support::check(&graph, ComputeCapability::SM_90, &[*surface]).supported.is_some();
            for surface in surfaces.filter(holds) {
                let subject = Subject { fusion: fuse(Arc::clone(&graph)).expect("it is legal"), surface };
                for (row, met) in limits::ROWS.iter().zip(&mut met) {
                    let held = held(&graph, &subject, ComputeCapability::SM_90, (row, number as usize));
                    met.extend(held.unwrap_or_else(|finding| panic!("{finding}")).into_iter().flat_map(|held| held.1));
                }
                for (row, met) in limits::CHIPS.iter().zip(&mut chips) {
                    let held = held_by_chip(&graph, &subject, row).unwrap_or_else(|finding| panic!("{finding}"));
                    *met |= held.is_some();
                }
            }
        }
        for ((id, _), met) in limits::ROWS.iter().zip(met) {
            assert!(met.contains(&Place::At), "{id} at its limit");
            assert!(met.contains(&Place::Beyond) || ONE_SIDED.contains(id), "{id} beyond its limit");
        }
        for (row, met) in limits::CHIPS.iter().zip(chips) {
            assert!(met, "{} between {} and {}", row.0, row.2, row.3);
        }
    }

    /// Every row of norms fits some random norm, and is named by the surface that takes it.
    #[test]
    fn norms_are_broken_by_every_row() {
        let mut met = vec![false; norms::ROWS.len()];
        for number in 0..4500 {
            let generated = generate(Family::Norm, &graph_bytes(20_261_126, number));
            let Ok(graph) = generated.graph.finalize().map(Arc::new) else { continue };
            let report = support::check(&graph, ComputeCapability::SM_90, &SurfaceId::ALL);
            let Some(surface) = report.surface().filter(|surface| surface.number().is_none()) else { continue };
            let subject = Subject { fusion: fuse(Arc::clone(&graph)).expect("it is legal"), surface };
            for ((id, edit), met) in norms::ROWS.iter().zip(&mut met) {
                let Some(rule) = subject.rule(id) else { continue };
                let mut edited = graph.to_graph();
                if edit(&subject, &mut edited, &mut Choices::new(&graph_bytes(7, number)))
                    && let Ok(edited) = edited.finalize()
                {
                    is_named(&Arc::new(edited), surface, ComputeCapability::SM_90, rule)
                        .unwrap_or_else(|finding| panic!("{finding}"));
                    *met = true;
                }
            }
        }
        for ((id, _), met) in norms::ROWS.iter().zip(met) {
            assert!(met, "{id}");
        }
    }

    /// Every id of a row is that of a rule, for some surface and pattern.
    #[test]
    fn rows_name_rules_that_exist() {
        let limits = limits::ROWS.iter().map(|row| &row.0).chain(limits::CHIPS.iter().map(|row| &row.0));
        for id in ROWS.iter().copied().flatten().map(|row| &row.0).chain(limits) {
            let patterns = ["MM", "CF", "CBF", "CBD", "PW"].map(|pattern| id.replace('@', pattern));
            let ids = patterns.iter().flat_map(|id| SurfaceId::ALL.map(|s| id.replace("S*", &format!("S{s}"))));
            let ids: Vec<String> = ids.collect();
            assert!(catalogue().any(|rule| ids.iter().any(|id| id == rule.id)), "{id}");
        }
    }
}
