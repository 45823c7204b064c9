//! The nearest legal change: the fewest edits that keep the mathematics of a refused graph and with which it is taken, or its cut into
//! the fewest graphs that are.
//!
//! What is wanted is a [`Goal`]: it says of a graph what keeps it from being taken ([`Defect`]). Each defect suggests edits
//! ([`suggestion`]), which are made on a copy of the graph, and the goal is asked about the copy. So what an edit does is never
//! guessed, and what is found has been checked. An edit that can be left out is, at every place that it names.

mod cut;
mod edit;
mod hidden;
mod mirror;
mod number;
mod shape;
mod suggestion;

use std::sync::Arc;

use crate::graph::{FinalizedGraph, Graph};
use crate::support::rule::SurfaceId;
use cut::Cut;
use edit::Edit;
pub use edit::EditRecord;
pub use hidden::hidden;
pub use suggestion::Defect;
use suggestion::suggestions;

/// Copies checked for one goal at most.
const TRIES: usize = 160;

/// Operations of all copies checked for one goal at most: large graphs have fewer tries.
const CHECKED_OPERATIONS: usize = 8192;

/// Operations of a graph beyond which no change is looked for.
const OPERATIONS: usize = 512;

/// Broken rules beyond which no change is looked for: more is no small change.
const DEFECTS: usize = 128;

/// Edits of a change at most.
pub const MOST_EDITS: usize = 3;

/// Changes that one more edit is looked for, those first that leave the fewest defects.
const BREADTH: usize = 4;

/// Parts of a cut at most.
const PARTS: usize = 16;

/// What is wanted of a graph.
pub trait Goal {
    /// What keeps a graph from being taken; empty where it is.
    fn defects(&self, graph: &Arc<FinalizedGraph>) -> Vec<Defect>;

    /// Whether a graph is taken, maybe in another way than is looked for: as a part of a cut, and with fewer edits than were found.
    fn takes(&self, graph: &Arc<FinalizedGraph>) -> bool {
        self.defects(graph).is_empty()
    }
}

/// Edits that make a graph legal, or its cut into graphs that are.
#[derive(Clone, Debug)]
pub struct Change {
    /// The edits as instructions to people, with semicolons between: `swap the first two inputs of operation 'add'
    /// (POINTWISE ADD)`. What the graphs of a cut hold is in `parts`.
    pub text: String,
    /// Of a cut what each graph holds, in the order in which they are to run: `'mm' (MATMUL), storing 'C' (uid 3)`.
    pub parts: Vec<String>,
    /// What the change costs, with semicolons between; empty where nothing.
    pub price: String,
    /// The edits as data, place by place.
    pub edits: Vec<EditRecord>,
    /// How many edits there are: an edit may be of several places; a cut counts as one for each part but the first.
    pub count: usize,
    /// The edited graph, or the graphs into which it is cut, in the order in which they are to run.
    pub graphs: Vec<Arc<FinalizedGraph>>,
}

impl Change {
    /// The edits and the graphs of a cut in one line.
    pub fn sentence(&self) -> String {
        let parts = self.parts.iter().enumerate().map(|(number, part)| format!("graph {}: {part}", number + 1));
        [self.text.clone()].into_iter().chain(parts).collect::<Vec<_>>().join("; ")
    }

    /// The graphs as an author would describe them.
    pub fn descriptions(&self) -> Vec<Graph> {
        self.graphs.iter().map(|graph| graph.to_graph()).collect()
    }
}

/// A change with what it leads to.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The change.
    pub change: Change,
    /// The surface that holds as documented, graph by graph; `None` where an engine takes one beyond the surfaces.
    pub surfaces: Vec<Option<SurfaceId>>,
    /// The engine that takes each graph; fewer where some graph holds a surface, but no engine takes it yet.
    pub engines: Vec<&'static str>,
}

/// What would help a graph.
#[derive(Clone, Debug, Default)]
pub struct Remedy {
    /// With the fewest edits the graph runs, maybe beyond the surfaces.
    pub run: Option<Answer>,
    /// With the fewest edits a surface holds as documented; the same as `run` where that does.
    pub hold: Option<Answer>,
}

impl Answer {
    /// The surfaces that hold as documented, each once; `None` where a graph is beyond them.
    pub fn held(&self) -> Option<Vec<SurfaceId>> {
        let mut held: Vec<SurfaceId> = Vec::new();
        for &surface in &self.surfaces {
            let surface = surface?;
            if !held.contains(&surface) {
                held.push(surface);
            }
        }
        Some(held)
    }

    /// `surface 90`, `surfaces 90 and 70`; `None` where a graph is beyond them.
    fn held_text(&self) -> Option<String> {
        let held: Vec<String> = self.held()?.iter().map(ToString::to_string).collect();
        let noun = if held.len() == 1 { "surface" } else { "surfaces" };
        Some(format!("{noun} {}", held.join(" and ")))
    }
}

impl Answer {
    /// Each graph of a cut with who takes it, a line each.
    fn part_lines(&self) -> Vec<String> {
        let line = |(number, part): (usize, &String)| {
            let surface = self.surfaces.get(number).copied().flatten().map(|surface| format!("surface {surface}"));
            let engine = self.engines.get(number).filter(|_| self.engines.len() == self.change.graphs.len());
            let by: Vec<String> = engine.map(|engine| (*engine).to_owned()).into_iter().chain(surface).collect();
            format!("  graph {}: {part}  [{}]", number + 1, by.join(", "))
        };
        self.change.parts.iter().enumerate().map(line).collect()
    }
}

impl Remedy {
    /// The changes for people, a line each; the graphs of a cut and what a change costs are lines of their own behind it.
    pub fn lines(&self) -> Vec<String> {
        let Self { run, hold } = self;
        let told = |what: String, answer: &Answer| {
            let Change { text, price, .. } = &answer.change;
            let price = Some(format!("  price: {price}")).filter(|_| !price.is_empty());
            [format!("{what}: {text}")].into_iter().chain(answer.part_lines()).chain(price).collect::<Vec<_>>()
        };
        let mut lines = Vec::new();
        if let Some(answer) = run {
            let also = answer.held_text().map(|held| format!(" and to hold {held}")).unwrap_or_default();
            lines.extend(told(format!("to run here{also}"), answer));
        }
        let is_told = |hold: &&Answer| {
            run.as_ref().is_some_and(|run| run.held().is_some() && run.change.sentence() == hold.change.sentence())
        };
        if let Some(answer) = hold.as_ref().filter(|hold| !is_told(hold)) {
            let runs = answer.engines.len() == answer.change.graphs.len();
            let yet = if runs { "" } else { ", although no engine here takes it yet" };
            let held = answer.held_text().map(|held| told(format!("to hold {held}{yet}"), answer));
            lines.extend(held.into_iter().flatten());
        }
        lines
    }
}

/// Looks for the fewest edits, `most` at most, with which a goal is reached; of as many, those that ask least of the caller. A cut into
/// two counts as one edit, and is looked for where no edit helps.
///
/// `None` where the goal is reached as it is, and where no such change is found among the first 160 (fewer for graphs of more than 51
/// operations, none for those of more than 512, or with more than 128 defects).
pub fn nearest(graph: &Arc<FinalizedGraph>, goal: &dyn Goal, most: usize) -> Option<Change> {
    if graph.operations().len() > OPERATIONS {
        return None;
    }
    let defects = goal.defects(graph);
    if defects.is_empty() || defects.len() > DEFECTS {
        return None;
    }
    let mut search = Search { base: graph, goal, tries: TRIES, operations: CHECKED_OPERATIONS };
    let found = search.find(defects, most.min(MOST_EDITS))?;
    Some(found.described(graph))
}

/// An edited graph on the way to the goal.
#[derive(Clone)]
struct State {
    edits: Vec<Edit>,
    graph: Arc<FinalizedGraph>,
    defects: Vec<Defect>,
}

/// Edits with which the goal is reached, and the parts where the edited graph is cut.
struct Found {
    edits: Vec<Edit>,
    graph: Arc<FinalizedGraph>,
    cut: Option<Cut>,
}

struct Search<'a> {
    base: &'a Arc<FinalizedGraph>,
    goal: &'a dyn Goal,
    tries: usize,
    operations: usize,
}

impl Search<'_> {
    fn find(&mut self, defects: Vec<Defect>, most: usize) -> Option<Found> {
        let base = State { edits: Vec::new(), graph: Arc::clone(self.base), defects };
        let mut states = vec![base];
        for count in 1..=most {
            let mut next = Vec::new();
            for state in &states {
                next.extend(self.extended(state));
            }
            let reached = next.iter().filter(|state| state.defects.is_empty());
            if let Some(best) = reached.min_by_key(|state| self.weight(&state.edits)) {
                let best = best.edits.clone();
                // what is left out is looked for with tries of its own, so that nothing stays for want of them
                (self.tries, self.operations) = (TRIES, CHECKED_OPERATIONS);
                return self.reduced(best);
            }
            if let Some(found) = states.iter().find_map(|state| self.cut(state, 2)) {
                return Some(found);
            }
            next.sort_by_key(|state| (state.defects.len(), self.weight(&state.edits)));
            next.truncate(BREADTH);
            if count == most {
                break;
            }
            states = next;
        }
        let base = State { edits: Vec::new(), graph: Arc::clone(self.base), defects: Vec::new() };
        if most < MOST_EDITS { None } else { self.cut(&base, PARTS) }
    }

    /// A state with one more edit, for each edit that its defects suggest.
    fn extended(&mut self, state: &State) -> Vec<State> {
        let mut extended = Vec::new();
        for edit in suggestions(&state.graph, &state.defects) {
            if state.edits.iter().any(|made| made.collides_with(&edit)) {
                continue;
            }
            let edits: Vec<Edit> = state.edits.iter().cloned().chain([edit]).collect();
            extended.extend(self.tried(edits));
        }
        extended
    }

    fn weight(&self, edits: &[Edit]) -> u32 {
        edits.iter().map(|edit| edit.weight(self.base)).sum()
    }

    /// The graph with these edits and what it lacks; `None` where they cannot be made, and where all tries are used up.
    fn tried(&mut self, edits: Vec<Edit>) -> Option<State> {
        let graph = self.made(&edits)?;
        let defects = self.goal.defects(&graph);
        Some(State { edits, graph, defects })
    }

    fn made(&mut self, edits: &[Edit]) -> Option<Arc<FinalizedGraph>> {
        self.counted(self.base)?;
        let mut edited = self.base.to_graph();
        edits.iter().try_for_each(|edit| edit.apply(&mut edited))?;
        edited.finalize().ok().map(Arc::new)
    }

    /// Counts a try; `None` where all are used up.
    fn counted(&mut self, graph: &FinalizedGraph) -> Option<()> {
        self.tries = self.tries.checked_sub(1)?;
        self.operations = self.operations.checked_sub(graph.operations().len())?;
        Some(())
    }

    /// Edits that reach the goal, without those, and without those places of them, that can be left out.
    fn reduced(&mut self, edits: Vec<Edit>) -> Option<Found> {
        for place in 0..edits.len() {
            let mut fewer = vec![None];
            fewer.extend(edits[place].thinned().into_iter().map(Some));
            for other in fewer.into_iter().filter(|other| edits.len() > 1 || other.is_some()) {
                let mut edits = edits.clone();
                edits.splice(place..=place, other);
                if self.made(&edits).is_some_and(|graph| self.goal.takes(&graph)) {
                    return self.reduced(edits);
                }
            }
        }
        let mut edited = self.base.to_graph();
        edits.iter().try_for_each(|edit| edit.apply(&mut edited))?;
        Some(Found { edits, graph: Arc::new(edited.finalize().ok()?), cut: None })
    }

    /// The cut of an edited graph into so many parts at most.
    fn cut(&mut self, state: &State, most: usize) -> Option<Found> {
        let mut is_taken = |part: &Arc<FinalizedGraph>| self.counted(part).is_some() && self.goal.takes(part);
        let cut = cut::fewest(&state.graph, most, &mut is_taken)?;
        Some(Found { edits: state.edits.clone(), graph: Arc::clone(&state.graph), cut: Some(cut) })
    }
}

impl Found {
    fn described(self, base: &Arc<FinalizedGraph>) -> Change {
        let (mut texts, mut parts, mut prices, mut records) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut graph = Arc::clone(base);
        for edit in &self.edits {
            texts.push(edit.describe(&graph));
            prices.extend(edit.price(&graph));
            records.extend(edit.records(&graph));
            graph = edited(&graph, edit).unwrap_or(graph);
        }
        let count = self.edits.len() + self.cut.as_ref().map_or(0, |cut| cut.parts.len() - 1);
        let graphs = match self.cut {
            Some(cut) => {
                texts.push(format!("cut it into {} graphs", cut.parts.len()));
                parts = cut_parts(&self.graph, &cut);
                prices.push(cut_price(&self.graph, &cut));
                records.extend(cut_records(&self.graph, &cut));
                named_parts(cut)
            }
            None => vec![self.graph],
        };
        Change { text: texts.join("; "), parts, price: prices.join("; "), edits: merged(records), count, graphs }
    }
}

/// The records, those that set one thing twice as one.
fn merged(records: Vec<EditRecord>) -> Vec<EditRecord> {
    let mut merged: Vec<EditRecord> = Vec::new();
    for record in records {
        let is_same = |known: &&mut EditRecord| {
            known.kind == record.kind && known.uid == record.uid && known.operation == record.operation
        };
        match merged.iter_mut().find(is_same) {
            Some(known) => known.to = record.to,
            None => merged.push(record),
        }
    }
    merged
}

/// A graph with one edit.
fn edited(graph: &FinalizedGraph, edit: &Edit) -> Option<Arc<FinalizedGraph>> {
    let mut edited = graph.to_graph();
    edit.apply(&mut edited)?;
    edited.finalize().ok().map(Arc::new)
}

/// Of each part its operations, and what it stores for those after it.
fn cut_parts(graph: &FinalizedGraph, cut: &Cut) -> Vec<String> {
    let text = |part: &cut::Part| {
        let operations: Vec<String> = part.operations.iter().map(|&id| graph.describe_operation(id)).collect();
        let is_own = |id| graph.producer(id).is_some_and(|producer| part.operations.contains(&producer));
        let stored = cut.stored(graph).filter(|&(id, _)| is_own(id)).map(|(id, _)| graph.describe_tensor(id));
        let stored: Vec<String> = stored.collect();
        let stored = if stored.is_empty() { String::new() } else { format!("; it stores {}", stored.join(", ")) };
        format!("{}{stored}", operations.join(", "))
    };
    cut.parts.iter().map(text).collect()
}

fn cut_price(graph: &FinalizedGraph, cut: &Cut) -> String {
    let bytes = cut.stored(graph).fold(0i64, |sum, (_, bytes)| sum.saturating_add(bytes));
    format!("{} launches at least; {bytes} bytes written and read again", cut.parts.len())
}

fn cut_records(graph: &FinalizedGraph, cut: &Cut) -> Vec<EditRecord> {
    let operation =
        cut.parts.get(1).and_then(|part| part.operations.first()).map(|&id| graph.operation(id).name.clone());
    let record = |(id, _)| {
        let tensor = graph.tensor(id);
        EditRecord {
            kind: "cut",
            tensor: Some(tensor.name.clone()),
            uid: Some(tensor.uid),
            operation: operation.clone(),
            from: serde_json::Value::Null,
            to: serde_json::Value::Null,
        }
    };
    cut.stored(graph).map(record).collect()
}

/// The parts under names of their own: the graph's with their numbers.
fn named_parts(cut: Cut) -> Vec<Arc<FinalizedGraph>> {
    let named = |(number, part): (usize, cut::Part)| {
        let mut graph = part.graph.to_graph();
        graph.name = format!("{}.{}", graph.name, number + 1);
        graph.finalize().map_or(part.graph, Arc::new)
    };
    cut.parts.into_iter().enumerate().map(named).collect()
}
