//! The examples of `fusewright rules ID`, made of the graphs of these tests: one file, which the command line holds.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::graphs::*;
use super::*;
use crate::graph::{Attributes, FinalizedGraph, Port};
use crate::support::{Report, Violation, entry};

/// Where the command line reads them.
const FILE: &str = "src/cli/rule_examples.jsonl";

/// The text of a graph, a line for each input and operation, in the names of its author.
fn lines(graph: &FinalizedGraph) -> Vec<String> {
    let names: BTreeMap<String, &str> =
        graph.tensor_ids().map(|id| (graph.canonical_name(id), graph.tensor(id).name.as_str())).collect();
    let named = |line: &str| -> String {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let mut text = String::new();
        for piece in line.split_inclusive(|c| !is_word(c)) {
            let word = piece.trim_end_matches(|c| !is_word(c));
            text += names.get(word).copied().unwrap_or(word);
            text += &piece[word.len()..];
        }
        text
    };
    graph.text().lines().map(named).collect()
}

fn report(graph: &Graph, (surface, major, minor): At) -> Option<(FinalizedGraph, Report)> {
    let finalized = Arc::new(graph.finalize().ok()?);
    let report = check(&finalized, ComputeCapability::new(major, minor), &[surface]);
    Some(((*finalized).clone(), report))
}

/// A graph that breaks the rule there, and one that breaks none.
fn example(rule: &str, refused: (&Graph, At), legal: (&Graph, At)) -> Option<Value> {
    let at = refused.1;
    let (graph, broken) = report(refused.0, at)?;
    let Violation { surface, place, required, found, .. } =
        broken.violations().find(|violation| violation.rule.id == rule)?;
    let (legal_graph, holds) = report(legal.0, legal.1)?;
    let arch = |at: At| ComputeCapability::new(at.1, at.2).to_string();
    (holds.violations().count() == 0).then(|| {
        json!({
            "id": rule, "surface": surface.to_string(), "arch": arch(at), "refused": lines(&graph), "place": place,
            "required": required, "found": found, "legal_surface": legal.1.0.to_string(), "legal_arch": arch(legal.1), "legal": lines(&legal_graph),
        })
    })
}

/// Examples of the restrictions: of a pair where there is one, else of a row beside the graph that it edits.
fn of_restrictions(examples: &mut BTreeMap<String, Value>) {
    for suite in suites() {
        for Pair { rule, refused, breaks, taken, passes } in suite.pairs {
            let (breaking, passing) = (suite.edited(*breaks), suite.edited(*passes));
            for &at in *refused {
                let Some(&there) = taken.iter().find(|taken| taken.0 == at.0) else { continue };
                for rule in expected(&[rule], at) {
                    if let Some(example) = example(&rule, (&breaking, at), (&passing, there)) {
                        examples.entry(rule).or_insert(example);
                    }
                }
            }
        }
    }
    for suite in suites() {
        for row in suite.rows {
            let (breaking, base) = (suite.edited(row.edit), (suite.base)());
            for &at in row.at {
                let same = suite.legal.iter().find(|legal| legal.0 == at.0);
                let Some(&there) = same.or(suite.legal.first()) else { continue };
                for rule in expected(row.broken, at) {
                    if !examples.contains_key(&rule)
                        && let Some(example) = example(&rule, (&breaking, at), (&base, there))
                    {
                        examples.insert(rule, example);
                    }
                }
            }
        }
    }
}

/// An id of well-formedness, a graph, and what makes it malformed.
type Malformation = (&'static str, fn() -> Graph, fn(&mut Graph));

const MALFORMED: &[Malformation] = &[
    ("GR-NODES", matmul, |g| g.operations.clear()),
    ("GR-VIRTUAL-PRODUCER", matmul, |g| g.t("bias").is_virtual = true),
    ("GR-ONE-WRITER", matmul, |g| {
        let written = g.id("mm::C");
        g.op("relu").outputs[0].1 = written;
    }),
    ("GR-INPLACE-MULTI", matmul, |g| {
        let written = g.id("Y");
        g.op("relu").inputs[0].1 = written;
    }),
    ("GR-ACYCLIC", matmul, |g| {
        let result = g.id("Y");
        g.op("add").inputs[1].1 = result;
    }),
    ("GR-UID-UNIQUE", matmul, |g| {
        g.t("A").uid = Some(7);
        g.t("B").uid = Some(7);
    }),
    ("GR-TENSOR-POS", forward, |g| g.t("bias").stride = vec![0, 1, 0, 0]),
    ("GR-PORTS", matmul, |g| g.op("add").inputs.truncate(1)),
    ("ATTRIBUTE_NOT_SET", matmul, |g| g.t("A").dim.clear()),
    ("D-R6", matmul, |g| g.reshape("bias", rows([1; 9]))),
    ("MATMUL-SHAPE", matmul, |g| g.reshape("B", rows([2, 64, 16]))),
    ("CV-R2", forward, |g| g.reshape("W", nhwc([16, 32, 3, 3]))),
    ("CV-R3", forward, |g| g.reshape("W", rows([32, 16, 3]))),
    ("CV-R4", forward, |g| {
        g.reshape("W", nhwc([33, 8, 3, 3]));
        g.t("conv::Y").dim.clear();
        g.t("conv::Y").stride.clear();
    }),
    ("CV-R5", || lone(crate::graph::ConvolutionDirection::Forward, 1), |g| g.reshape("Y", nhwc([2, 32, 8, 9]))),
    ("CV-R6", forward, |g| g.reshape("W", nhwc([32, 16, 99, 3]))),
    ("PW-BROADCAST", forward, |g| g.reshape("bias", rows([32]))),
    ("RD-SHAPE", image_reduction, |g| g.reshape("R", nhwc([1, 15, 1, 1]))),
    ("A-26", image_reduction, |g| g.reshape("R", nhwc(IMAGE))),
    ("A-59", matmul, |g| g.t("Y").is_pass_by_value = true),
    ("A-61", matmul, |g| g.t("Y").is_virtual = true),
    ("GS-SHAPE", genstats, |g| g.reshape("SUM", nhwc([1, 31, 1, 1]))),
    ("PW-IDX", image, |g| {
        g.op("relu").attributes = Attributes::Pointwise(Pointwise::new(crate::graph::PointwiseMode::GenIndex));
    }),
    ("SM-SHAPE", softmax, |g| g.reshape("Y", rows([2, 3, 5]))),
];

/// A softmax over the last axis.
fn softmax() -> Graph {
    let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
    let x = graph.tensor(Tensor { name: "X".to_owned(), ..rows([2, 3, 4]) });
    let y = graph.tensor(Tensor { name: "Y".to_owned(), ..rows([2, 3, 4]) });
    let attributes = crate::graph::Composite::read("SOFTMAX", &Default::default()).expect("the tag is known");
    graph.operation(Operation {
        name: "softmax".to_owned(),
        attributes: Attributes::Composite(attributes),
        compute_data_type: None,
        inputs: vec![(Port::X, x)],
        outputs: vec![(Port::Y, y)],
    });
    graph
}

fn of_malformed(examples: &mut BTreeMap<String, Value>) {
    for &(id, base, edit) in MALFORMED {
        let mut graph = base();
        let legal = graph.finalize().unwrap_or_else(|malformed| panic!("the base for {id}: {malformed}"));
        edit(&mut graph);
        let malformed = graph.finalize().expect_err(id);
        assert_eq!(malformed.rule, id, "{malformed}");
        let record = json!({"id": id, "malformed": malformed.to_string(), "legal": lines(&legal)});
        examples.insert(id.to_owned(), record);
    }
}

/// A graph file of one line.
const GRAPH_FILE: &str = concat!(
    r#"{"context":{"io_data_type":"HALF","compute_data_type":"FLOAT"},"nodes":[{"tag":"POINTWISE","name":"act","mode":"RELU_FWD","#,
    r#""inputs":{"IN_0":1},"outputs":{"OUT_0":2}}],"tensors":[{"uid":1,"name":"x","dim":[2,3,4],"stride":[12,4,1]},"#,
    r#"{"uid":2,"name":"y","dim":[2,3,4],"stride":[12,4,1]}]}"#
);

/// An id of graph files, a part of [`GRAPH_FILE`], and what in its place breaks the rule.
const UNREADABLE: &[(&str, &str, &str)] = &[
    ("FEJ-01", r#""nodes""#, r#""operations""#),
    ("FEJ-03", r#","dim":[2,3,4],"stride":[12,4,1]}]}"#, ""),
    ("FEJ-04", r#""tensors":["#, r#""tensors":2,"listed":["#),
    ("FEJ-05", r#""IN_0":1"#, r#""IN_0":3"#),
    ("FEJ-09", r#""name":"act""#, r#""name":"act","relu_upper_clip":"6""#),
    ("FEJ-11", "POINTWISE", "POINTWISER"),
    ("FEJ-12", "RELU_FWD", "RELU"),
    ("FEJ-13", r#""dim":[2,3,4]"#, r#""dim":"2,3,4""#),
    ("FEJ-31", r#""uid":2"#, r#""uid":1"#),
    ("FEJ-41", r#""RELU_FWD""#, "null"),
    ("FEJ-51", r#""uid":1,"#, r#""uid":01,"#),
];

fn of_files(examples: &mut BTreeMap<String, Value>) {
    let read = |text: &str| crate::frontend::read_graph("graph.json", text.as_bytes());
    read(GRAPH_FILE).expect("readable").finalize().expect("well formed");
    for &(id, part, broken) in UNREADABLE {
        let file = GRAPH_FILE.replacen(part, broken, 1);
        let error = read(&file).expect_err(id);
        assert_eq!(error.rule, id, "{error}");
        let told = error.to_string();
        let record = json!({"id": id, "file": file, "malformed": told.lines().next(), "legal": [GRAPH_FILE]});
        examples.insert(id.to_owned(), record);
    }
}

#[test]
fn the_examples_of_the_command_line_are_those_of_these_tests() {
    let mut examples = BTreeMap::new();
    of_restrictions(&mut examples);
    of_malformed(&mut examples);
    of_files(&mut examples);
    for id in examples.keys() {
        assert!(entry(id).is_some(), "{id}");
    }
    let text: String = examples.values().map(|example| format!("{example}\n")).collect();
    snapshot::assert_file(FILE, &text);
}

#[test]
fn every_restriction_that_a_graph_can_break_has_an_example() {
    let mut examples = BTreeMap::new();
    of_restrictions(&mut examples);
    let missing: Vec<&str> = catalogue::breakable().into_iter().filter(|id| !examples.contains_key(*id)).collect();
    assert_eq!(missing, Vec::<&str>::new());
}
