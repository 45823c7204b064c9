//! A graph as a drawing: operations in the colour of their stage with their results below, inputs above who reads them, broken rules
//! and changes at the places they concern.

use std::collections::{BTreeMap, BTreeSet};

use fusewright::graph::{Attributes, FinalizedGraph, OperationId, TensorId};
use fusewright::support::Violation;
use serde::Serialize;

use super::super::explanation::Explanation;
use super::super::units;
use super::layout::{self, Layout, Point, Size};

/// Operations up to which a graph is drawn; more are a list.
const MOST: usize = 400;

/// Layers that a line passes at most; a reader further away has a reference to the tensor above it.
const REACH: usize = 8;

/// Width of a character of the drawing's typeface, which is of fixed width, and height of a line.
const CHARACTER: f64 = 7.3;
const LINE: f64 = 17.0;

/// Between a box's border and its text, and between an operation and its results.
const PADDING: f64 = 10.0;
const BELOW: f64 = 6.0;

/// Characters of a line at most.
const LONGEST: usize = 34;

/// Broken rules that are told at one place; the others are counted.
const RULES: usize = 3;

/// Around the whole.
const MARGIN: f64 = 14.0;

/// A drawing in pixels.
#[derive(Debug, Serialize)]
pub(super) struct Drawing {
    width: i64,
    height: i64,
    boxes: Vec<Box>,
    lines: Vec<Line>,
}

/// A rectangle with lines of text.
#[derive(Clone, Debug, Serialize)]
struct Box {
    /// `g1`, `core`, `g2`, `unknown`, `input`, `virtual`, `output` or `reference`, with `broken` and `change`.
    class: String,
    x: i64,
    y: i64,
    width: i64,
    height: i64,
    /// What is not told by the texts, for whoever points at it.
    title: String,
    texts: Vec<Text>,
}

/// A line of text, by its left end and its base line.
#[derive(Clone, Debug, Serialize)]
struct Text {
    class: &'static str,
    x: i64,
    y: i64,
    text: String,
}

/// A tensor on its way to who reads it.
#[derive(Debug, Serialize)]
struct Line {
    path: String,
}

/// What stands in one place of the layout: boxes below each other, with places relative to the whole's top left corner.
struct Group {
    size: Size,
    boxes: Vec<Box>,
}

/// A line of a box before it is placed.
type Row = (&'static str, String);

impl Drawing {
    /// The drawing of an explained graph; `None` where it has too many operations.
    pub(super) fn of(explanation: &Explanation) -> Option<Self> {
        let graph = &*explanation.graph;
        if graph.operations().len() > MOST {
            return None;
        }
        let marks = Marks::of(explanation);
        let layers = layers(graph);
        let mut groups: Vec<Group> =
            graph.operation_ids().map(|id| operation(explanation, &marks, id, layers[id.index()])).collect();
        let mut lines: Vec<(usize, usize)> = Vec::new();
        let mut copies: BTreeMap<(TensorId, usize), usize> = BTreeMap::new();
        for reader in graph.operation_ids() {
            let layer = layers[reader.index()];
            for tensor in graph.operation(reader).input_tensors().collect::<BTreeSet<_>>() {
                let near = |producer: &OperationId| layers[producer.index()] + REACH >= layer;
                let from = match graph.producer(tensor).filter(near) {
                    Some(producer) => producer.index(),
                    None => *copies.entry((tensor, layer - 1)).or_insert_with(|| {
                        groups.push(copy(explanation, &marks, tensor, layer - 1));
                        groups.len() - 1
                    }),
                };
                lines.push((from, reader.index()));
            }
        }
        Some(Self::placed(&groups, &lines))
    }

    fn placed(groups: &[Group], lines: &[(usize, usize)]) -> Self {
        let sizes: Vec<Size> = groups.iter().map(|group| group.size).collect();
        let layout = layout::layout(&sizes, lines);
        let corner = |at: usize| {
            let Point { x, y } = layout.boxes[at];
            (x - sizes[at].width / 2.0 + MARGIN, y + MARGIN)
        };
        let boxes = groups.iter().enumerate().flat_map(|(at, group)| {
            let (left, top) = corner(at);
            group.boxes.iter().map(move |part| part.moved(left.round() as i64, top.round() as i64))
        });
        let ends = ends(&layout, &sizes, lines);
        let path = |(number, &(from, _)): (usize, &(usize, usize))| {
            let bottom = layout.boxes[from].y + sizes[from].height;
            let start = Point { x: layout.boxes[from].x, y: bottom };
            let points = [start].into_iter().chain(layout.lines[number].iter().copied()).chain([ends[number]]);
            Line { path: curve(points) }
        };
        Self {
            width: (layout.width + 2.0 * MARGIN).ceil() as i64,
            height: (layout.height + 2.0 * MARGIN).ceil() as i64,
            boxes: boxes.collect(),
            lines: lines.iter().enumerate().map(path).collect(),
        }
    }
}

/// Where lines arrive: spread over the middle of the top of the box, in the order in which they come.
fn ends(layout: &Layout, sizes: &[Size], lines: &[(usize, usize)]) -> Vec<Point> {
    let mut arriving: BTreeMap<usize, Vec<(f64, usize)>> = BTreeMap::new();
    for (number, &(from, to)) in lines.iter().enumerate() {
        let last = layout.lines[number].last().map_or(layout.boxes[from].x, |point| point.x);
        arriving.entry(to).or_default().push((last, number));
    }
    let mut ends = vec![Point::default(); lines.len()];
    for (to, mut numbers) in arriving {
        numbers.sort_by(|a, b| a.0.total_cmp(&b.0));
        let count = numbers.len();
        let step = (sizes[to].width * 0.6 / count as f64).min(40.0);
        for (place, (_, number)) in numbers.into_iter().enumerate() {
            let x = layout.boxes[to].x + (place as f64 - (count - 1) as f64 / 2.0) * step;
            ends[number] = Point { x, y: layout.boxes[to].y };
        }
    }
    ends
}

/// A path through points that leaves and enters each of them upright.
fn curve(points: impl Iterator<Item = Point>) -> String {
    let mut path = String::new();
    let mut last: Option<(i64, i64)> = None;
    for point in points {
        let (x, y) = ((point.x + MARGIN).round() as i64, (point.y + MARGIN).round() as i64);
        path += &match last {
            None => format!("M{x} {y}"),
            Some((before, _)) if before == x => format!("V{y}"),
            Some((before, above)) => {
                let middle = (above + y) / 2;
                format!("C{before} {middle} {x} {middle} {x} {y}")
            }
        };
        last = Some((x, y));
    }
    path
}

/// Layers of operations, from 1: below all that they read, and directly above the first reader where they read inputs alone.
fn layers(graph: &FinalizedGraph) -> Vec<usize> {
    let mut layers = vec![1; graph.operations().len()];
    let producers = |id: OperationId| graph.operation(id).input_tensors().filter_map(|tensor| graph.producer(tensor));
    for id in graph.operation_ids() {
        layers[id.index()] = producers(id).map(|producer| layers[producer.index()] + 1).max().unwrap_or(1);
    }
    for id in graph.operation_ids().rev().filter(|&id| producers(id).next().is_none()) {
        let readers = graph.operation(id).output_tensors().flat_map(|tensor| graph.consumers(tensor));
        if let Some(first) = readers.map(|reader| layers[reader.index()]).min() {
            layers[id.index()] = first - 1;
        }
    }
    layers
}

/// What is wrong where, and what a change would be made to.
struct Marks<'a> {
    operations: BTreeMap<OperationId, Vec<&'a Violation>>,
    tensors: BTreeMap<TensorId, Vec<&'a Violation>>,
    changes: &'a [String],
}

impl<'a> Marks<'a> {
    fn of(explanation: &'a Explanation) -> Self {
        let mut marks =
            Self { operations: BTreeMap::new(), tensors: BTreeMap::new(), changes: explanation.nearest.as_slice() };
        // of a graph that runs, what it breaks is relaxed
        let is_told = explanation.kernel.is_none() && explanation.missing.is_empty();
        for violation in explanation.report.violations().filter(|_| is_told) {
            match (violation.tensor(), violation.operation()) {
                (Some(tensor), _) => marks.tensors.entry(tensor).or_default().push(violation),
                (None, Some(operation)) => marks.operations.entry(operation).or_default().push(violation),
                (None, None) => {}
            }
        }
        marks
    }

    /// Whether a change names this operation or tensor.
    fn is_changed(&self, name: &str) -> bool {
        self.changes.iter().any(|change| change.contains(name))
    }
}

/// The rules broken at a place, each once with the surfaces that have it.
fn rules(violations: Option<&Vec<&Violation>>) -> Vec<Row> {
    let mut surfaces: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for violation in violations.into_iter().flatten() {
        let id = violation.rule.id;
        let own = format!("S{}-", violation.surface);
        let name = id.strip_prefix(&own).unwrap_or(id);
        surfaces.entry(name).or_default().push(violation.surface.to_string());
    }
    let count = surfaces.len();
    let row = |(name, surfaces): (&str, Vec<String>)| ("bad", format!("✕ {name} ({})", surfaces.join(", ")));
    let mut rows: Vec<Row> = surfaces.into_iter().take(RULES).map(row).collect();
    if count > RULES {
        rows.push(("bad", format!("✕ and {} more", units::plural(count - RULES, "rule"))));
    }
    rows
}

/// Of violations, required and found.
fn details(violations: Option<&Vec<&Violation>>) -> String {
    let detail = |violation: &&Violation| {
        let Violation { rule, required, found, .. } = violation;
        format!("{}: required {required}; found {found}\n", rule.id)
    };
    violations.into_iter().flatten().map(detail).collect()
}

/// An operation with its results.
fn operation(explanation: &Explanation, marks: &Marks<'_>, id: OperationId, layer: usize) -> Group {
    let graph = &*explanation.graph;
    let operation = graph.operation(id);
    let broken = marks.operations.get(&id);
    let is_changed = marks.is_changed(&graph.describe_operation(id));
    let stage = explanation.stage(id);
    let mut rows: Vec<Row> = vec![("name", format!("{}\u{a0}\u{a0}{stage}", function(graph, id)))];
    if !operation.name.is_empty() {
        rows.push(("", operation.name.escape_debug().to_string()));
    }
    rows.extend(rules(broken));
    rows.extend(is_changed.then(|| ("good", "✓ change here".to_owned())));
    let class = match stage {
        "g1A" | "g1B" => "g1",
        "core" => "core",
        "g2" => "g2",
        _ => "unknown",
    };
    let mut boxes = vec![boxed(class, &rows, details(broken), broken.is_some(), is_changed)];
    boxes.extend(operation.output_tensors().map(|id| tensor(explanation, marks, id, graph.role(id))));
    stacked(boxes, layer, true)
}

/// An input, or a reference to a tensor that is made far above.
fn copy(explanation: &Explanation, marks: &Marks<'_>, id: TensorId, layer: usize) -> Group {
    let graph = &*explanation.graph;
    let class = if graph.producer(id).is_some() { "reference" } else { "input" };
    stacked(vec![tensor(explanation, marks, id, class)], layer, false)
}

fn tensor(explanation: &Explanation, marks: &Marks<'_>, id: TensorId, class: &str) -> Box {
    let graph = &*explanation.graph;
    let described = graph.tensor(id);
    let broken = marks.tensors.get(&id);
    let is_changed = marks.is_changed(&graph.describe_tensor(id));
    let arrow = if class == "reference" { "↑ " } else { "" };
    let name = match described.name.as_str() {
        "" => format!("uid {}", described.uid),
        name => name.escape_debug().to_string(),
    };
    let mut rows: Vec<Row> = vec![("name", format!("{arrow}{name}"))];
    rows.push(("", format!("{} {}", described.data_type, units::by(&described.dim))));
    rows.extend(rules(broken));
    rows.extend(is_changed.then(|| ("good", "✓ change here".to_owned())));
    boxed(class, &rows, details(broken), broken.is_some(), is_changed)
}

/// What an operation does: its mode, or its tag.
pub(super) fn function(graph: &FinalizedGraph, id: OperationId) -> String {
    let operation = graph.operation(id);
    match &operation.attributes {
        Attributes::Pointwise(pointwise) => pointwise.mode.to_string(),
        Attributes::Reduction(reduction) => format!("{} {}", operation.tag(), reduction.mode),
        _ => operation.tag().to_owned(),
    }
}

/// A box around rows, at the origin; its title is what rows are too short for, and these details.
fn boxed(class: &str, rows: &[Row], details: String, is_broken: bool, is_changed: bool) -> Box {
    let text = |(at, (class, text)): (usize, &Row)| Text {
        class,
        x: PADDING as i64,
        y: (PADDING + LINE * at as f64 + 11.0) as i64,
        text: shortened(text),
    };
    let texts: Vec<Text> = rows.iter().enumerate().map(text).collect();
    let whole = rows.iter().filter(|(_, text)| columns(text) > LONGEST).map(|(_, text)| text.as_str());
    let title: Vec<&str> = whole.chain(details.lines()).collect();
    let longest = texts.iter().map(|text| columns(&text.text)).max().unwrap_or(0);
    let broken = if is_broken { " broken" } else { "" };
    let change = if is_changed { " change" } else { "" };
    Box {
        class: format!("{class}{broken}{change}"),
        x: 0,
        y: 0,
        width: (longest as f64 * CHARACTER + 2.0 * PADDING).ceil() as i64,
        height: (rows.len() as f64 * LINE + 2.0 * PADDING - 4.0) as i64,
        title: title.join("\n"),
        texts,
    }
}

/// Boxes below each other, centred; results of one operation in a row would be wider than what they come from.
fn stacked(mut boxes: Vec<Box>, layer: usize, is_spine: bool) -> Group {
    let width = boxes.iter().map(|part| part.width).max().unwrap_or(0);
    let mut height = 0;
    for part in &mut boxes {
        *part = part.moved((width - part.width) / 2, height);
        height += part.height + BELOW as i64;
    }
    let height = height - BELOW as i64;
    Group { size: Size { width: width as f64, height: height as f64, layer, is_spine }, boxes }
}

impl Box {
    fn moved(&self, right: i64, down: i64) -> Self {
        let text = |text: &Text| Text { x: text.x + right, y: text.y + down, ..text.clone() };
        Self { x: self.x + right, y: self.y + down, texts: self.texts.iter().map(text).collect(), ..self.clone() }
    }
}

/// The text, or its beginning and its end where it is too long.
fn shortened(text: &str) -> String {
    const BEGINNING: usize = LONGEST * 2 / 3;
    const END: usize = LONGEST - BEGINNING - 1;
    if columns(text) <= LONGEST {
        return text.to_owned();
    }
    let up_to = |most: usize| {
        let mut taken = 0;
        move |character: &char| {
            taken += width(*character);
            taken <= most
        }
    };
    let beginning: String = text.chars().take_while(up_to(BEGINNING)).collect();
    let end: Vec<char> = text.chars().rev().take_while(up_to(END)).collect();
    format!("{beginning}…{}", end.iter().rev().collect::<String>())
}

/// Columns of a fixed-width typeface, of which letters beyond Latin ones may take two.
fn columns(text: &str) -> usize {
    text.chars().map(width).sum()
}

fn width(character: char) -> usize {
    match character {
        '\0'..='\u{24f}' | '…' | '✓' | '✕' | '↑' => 1,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_keep_both_ends() {
        let long = shortened("transformer.encoder.layers.11.attention.output.dense.weight");
        assert!(long.starts_with("transformer.encoder.la") && long.ends_with("ense.weight"), "{long}");
        assert_eq!(columns(&long), LONGEST);
        assert_eq!(shortened("bias"), "bias");
        assert!(columns(&shortened(&"漢".repeat(50))) <= LONGEST);
    }

    #[test]
    fn lines_leave_and_arrive_upright() {
        let points = [(10.0, 0.0), (10.0, 20.0), (40.0, 60.0)].map(|(x, y)| Point { x, y });
        assert_eq!(curve(points.into_iter()), "M24 14V34C24 54 54 54 54 74");
    }
}
