//! One thing wrong with a legal graph is one defect, whatever follows from it.

use super::*;
use crate::graph::{Composite, NormMode, Port, Reordering};

/// Edits every suite's graph in every place that `places` gives, and expects one defect each time.
fn one_defect_each(what: &str, places: fn(&Graph) -> usize, edit: fn(&mut Graph, usize)) {
    let (mut tried, mut failures) = (0, Vec::new());
    for suite in suites() {
        for place in 0..places(&(suite.base)()) {
            let mut graph = (suite.base)();
            edit(&mut graph, place);
            tried += 1;
            match graph.finalize() {
                Ok(_) => failures.push(format!("{}, place {place}: taken", suite.name)),
                Err(malformed) if malformed.others.is_empty() => {}
                Err(malformed) => {
                    let told: Vec<String> = malformed.all().map(ToString::to_string).collect();
                    failures.push(format!("{}, place {place}:\n  {}", suite.name, told.join("\n  ")));
                }
            }
        }
    }
    assert!(tried > suites().count() && failures.is_empty(), "{what}:\n{}", failures.join("\n"));
}

/// Inputs of the graph that are tensors in memory, by position.
fn inputs(graph: &Graph) -> Vec<usize> {
    let written: Vec<TensorHandle> = graph.operations.iter().flat_map(Operation::output_tensors).collect();
    let is_input = |at: &usize| !graph.tensors[*at].is_pass_by_value && written.iter().all(|id| id.index() != *at);
    (0..graph.tensors.len()).filter(is_input).collect()
}

/// Those whose dims follow from nothing: norms of rows have parameters along what is normalised.
fn described_inputs(graph: &Graph) -> Vec<usize> {
    let of_rows = [NormMode::Layer, NormMode::Rms, NormMode::AdaLayer];
    let is_of_rows = |operation: &&Operation<TensorHandle>| matches!(&operation.attributes, Attributes::Composite(Composite::NormForward(norm)) if of_rows.contains(&norm.mode));
    let norms = graph.operations.iter().filter(is_of_rows);
    let parameters: Vec<TensorHandle> =
        norms.flat_map(|norm| [Port::SCALE, Port::BIAS].map(|port| norm.input(port))).flatten().collect();
    inputs(graph).into_iter().filter(|&at| parameters.iter().all(|id| id.index() != at)).collect()
}

/// Those that have more than one element.
fn long_inputs(graph: &Graph) -> Vec<usize> {
    inputs(graph).into_iter().filter(|&at| graph.tensors[at].dim.iter().any(|&extent| extent > 1)).collect()
}

#[test]
fn a_tensor_that_is_wrong_by_itself() {
    one_defect_each(
        "an extent of 0",
        |graph| inputs(graph).len(),
        |graph, place| {
            let at = inputs(graph)[place];
            graph.tensors[at].dim[0] = 0;
        },
    );
    one_defect_each(
        "a stride of 0",
        |graph| inputs(graph).len(),
        |graph, place| {
            let at = inputs(graph)[place];
            graph.tensors[at].stride[0] = 0;
        },
    );
    one_defect_each(
        "no dims",
        |graph| described_inputs(graph).len(),
        |graph, place| {
            let at = described_inputs(graph)[place];
            graph.tensors[at].dim.clear();
        },
    );
}

#[test]
fn an_operation_that_lacks_an_input() {
    one_defect_each(
        "a port without a tensor",
        |graph| graph.operations.len(),
        |graph, place| {
            graph.operations[place].inputs.remove(0);
        },
    );
}

/// Those that meet others in one place: probabilities meet dO in one product and dP behind another, and both are told.
fn inputs_of_one_place(graph: &Graph) -> Vec<usize> {
    let are_probabilities = |at: &usize| graph.tensors[*at].reordering == Reordering::F16x16;
    long_inputs(graph).into_iter().filter(|at| !are_probabilities(at)).collect()
}

#[test]
fn extents_that_fit_no_other_tensor() {
    one_defect_each(
        "extents that no other tensor has",
        |graph| inputs_of_one_place(graph).len(),
        |graph, place| {
            let at = inputs_of_one_place(graph)[place];
            graph.tensors[at].dim.iter_mut().filter(|extent| **extent > 1).for_each(|extent| *extent += 97);
        },
    );
}
