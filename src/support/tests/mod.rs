//! Rules against graphs. A pair holds one rule at its limit: a graph that breaks it alone and a twin, one edit away,
//! that passes. A row edits a legal graph and names every rule that the edit breaks, for defects that break several.

#[path = "../../../tests/common/snapshot.rs"]
mod snapshot;

mod attention;
mod catalogue;
mod convolution;
mod examples;
mod families;
mod graphs;
mod malformed;
mod matmul;
mod mha;
mod nearest;
mod norms;
mod operations;
mod patterns;
mod reports;
mod stages;
mod types;
mod unfused;

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{SurfaceId, check};
use crate::device::ComputeCapability;
use crate::graph::{Attributes, DataType, Graph, Operation, Pointwise, Tensor, TensorHandle};

/// A surface on a chip.
type At = (SurfaceId, u32, u32);

const H90: At = (SurfaceId::S90, 9, 0);
const A80: At = (SurfaceId::S80, 8, 0);
const L80: At = (SurfaceId::S80, 8, 9);
const H80: At = (SurfaceId::S80, 9, 0);
const V70: At = (SurfaceId::S70, 7, 0);
const T70: At = (SurfaceId::S70, 7, 5);
const A70: At = (SurfaceId::S70, 8, 0);

/// Where an edit is tried, the edit, and the rules it breaks there; `S*` stands for the surface's own prefix.
struct Row {
    at: &'static [At],
    edit: fn(&mut Graph),
    broken: &'static [&'static str],
}

const fn row(at: &'static [At], edit: fn(&mut Graph), broken: &'static [&'static str]) -> Row {
    Row { at, edit, broken }
}

/// A rule at its limit; `S*` stands for the surface's own prefix.
struct Pair {
    rule: &'static str,
    /// Where the first edit breaks the rule, and no other.
    refused: &'static [At],
    breaks: fn(&mut Graph),
    /// Where the second edit, as little away from the first as can be, breaks none.
    taken: &'static [At],
    passes: fn(&mut Graph),
}

/// Two graphs on the same surfaces and chips.
const fn pair(rule: &'static str, at: &'static [At], breaks: fn(&mut Graph), passes: fn(&mut Graph)) -> Pair {
    Pair { rule, refused: at, breaks, taken: at, passes }
}

/// One graph on chips that refuse it and chips that take it.
const fn chips(rule: &'static str, refused: &'static [At], taken: &'static [At], edit: fn(&mut Graph)) -> Pair {
    Pair { rule, refused, breaks: edit, taken, passes: edit }
}

/// No edit.
const AS_IS: fn(&mut Graph) = |_| {};

/// A legal graph, and edits of it.
struct Suite {
    name: &'static str,
    base: fn() -> Graph,
    /// Where the graph is legal as it stands.
    legal: &'static [At],
    pairs: &'static [Pair],
    rows: &'static [Row],
}

impl Suite {
    fn edited(&self, edit: fn(&mut Graph)) -> Graph {
        let mut graph = (self.base)();
        edit(&mut graph);
        graph
    }
}

/// Every suite; the catalogue's tests count what they cover.
static SUITES: &[&[Suite]] = &[
    matmul::SUITES,
    convolution::SUITES,
    stages::SUITES,
    types::SUITES,
    unfused::SUITES,
    operations::SUITES,
    norms::SUITES,
    patterns::SUITES,
    attention::SUITES,
    mha::SUITES,
];

fn suites() -> impl Iterator<Item = &'static Suite> {
    SUITES.iter().copied().flatten()
}

/// Rules that the graph breaks there; the message alone where it is malformed.
fn broken(graph: &Graph, (surface, major, minor): At) -> BTreeSet<String> {
    let finalized = match graph.finalize() {
        Ok(finalized) => finalized,
        Err(malformed) => return BTreeSet::from([malformed.to_string()]),
    };
    let report = check(&Arc::new(finalized), ComputeCapability::new(major, minor), &[surface]);
    report.violations().map(|violation| violation.rule.id.to_owned()).collect()
}

fn expected(rules: &[&str], (surface, ..): At) -> BTreeSet<String> {
    rules.iter().map(|rule| rule.replace("S*", &format!("S{surface}"))).collect()
}

#[test]
fn every_base_is_legal() {
    for suite in suites() {
        for &at in suite.legal {
            assert_eq!(broken(&(suite.base)(), at), BTreeSet::new(), "{} on {at:?}", suite.name);
        }
    }
}

#[test]
fn every_pair_breaks_its_rule_alone_and_passes_at_its_limit() {
    let mut failures = Vec::new();
    for suite in suites() {
        for Pair { rule, refused, breaks, taken, passes } in suite.pairs {
            let (breaking, passing) = (suite.edited(*breaks), suite.edited(*passes));
            for &at in *refused {
                let found = broken(&breaking, at);
                if found != expected(&[rule], at) {
                    failures.push(format!("{}, {rule} on {at:?}: breaks {found:?}", suite.name));
                }
            }
            for &at in *taken {
                let found = broken(&passing, at);
                if !found.is_empty() {
                    failures.push(format!("{}, twin of {rule} on {at:?}: breaks {found:?}", suite.name));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_edit_breaks_exactly_its_rules() {
    let mut failures = Vec::new();
    for suite in suites() {
        for (number, row) in suite.rows.iter().enumerate() {
            let graph = suite.edited(row.edit);
            for &at in row.at {
                let (found, expected) = (broken(&graph, at), expected(row.broken, at));
                if found != expected {
                    failures.push(format!("{}, row {number} on {at:?}: {found:?}, expected {expected:?}", suite.name));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Changes a graph by the names of its parts.
trait Edit {
    fn t(&mut self, name: &str) -> &mut Tensor;
    fn op(&mut self, name: &str) -> &mut Operation<TensorHandle>;
    fn id(&self, name: &str) -> TensorHandle;

    fn pointwise_of(&mut self, name: &str) -> &mut Pointwise {
        match &mut self.op(name).attributes {
            Attributes::Pointwise(pointwise) => pointwise,
            _ => panic!("'{name}' is no pointwise operation"),
        }
    }

    fn swap(&mut self, name: &str) {
        let inputs = &mut self.op(name).inputs;
        let first = inputs[0].1;
        inputs[0].1 = inputs[1].1;
        inputs[1].1 = first;
    }

    fn types(&mut self, names: &[&str], data_type: DataType) {
        names.iter().for_each(|name| self.t(name).data_type = Some(data_type));
    }

    fn compute(&mut self, name: &str, data_type: DataType) {
        self.op(name).compute_data_type = Some(data_type);
    }

    /// Stores a virtual tensor, in an order of its own.
    fn store(&mut self, name: &str, tensor: Tensor) {
        let Tensor { dim, stride, .. } = tensor;
        let stored = self.t(name);
        (stored.dim, stored.stride, stored.is_virtual) = (dim, stride, false);
    }

    fn reshape(&mut self, name: &str, tensor: Tensor) {
        let edited = self.t(name);
        (edited.dim, edited.stride) = (tensor.dim, tensor.stride);
    }
}

impl Edit for Graph {
    fn t(&mut self, name: &str) -> &mut Tensor {
        let id = self.id(name);
        self.tensor_mut(id)
    }

    fn op(&mut self, name: &str) -> &mut Operation<TensorHandle> {
        self.operations.iter_mut().find(|op| op.name == name).unwrap_or_else(|| panic!("no operation '{name}'"))
    }

    fn id(&self, name: &str) -> TensorHandle {
        let slots = self.operations.iter().flat_map(|op| op.inputs.iter().chain(&op.outputs));
        let mut ids = slots.map(|slot| slot.1);
        ids.find(|id| self.tensors[id.index()].name == name).unwrap_or_else(|| panic!("no tensor '{name}'"))
    }
}

fn rows(dim: impl Into<Vec<i64>>) -> Tensor {
    Tensor::new("").row_major(dim)
}

fn columns(dim: [i64; 3]) -> Tensor {
    Tensor::new("").dim(dim).stride([dim[1] * dim[2], 1, dim[1]])
}

fn nhwc(dim: impl Into<Vec<i64>>) -> Tensor {
    Tensor::new("").channels_last(dim)
}

/// C, H, W, N from slow to fast.
fn chwn(dim: [i64; 4]) -> Tensor {
    let [n, _, h, w] = dim;
    Tensor::new("").dim(dim).stride([1, n * h * w, n * w, n])
}

fn strided(dim: impl Into<Vec<i64>>, stride: impl Into<Vec<i64>>) -> Tensor {
    Tensor::new("").dim(dim).stride(stride)
}
