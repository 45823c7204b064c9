//! What `check` offers for the refused ones of 3,979 recorded graphs.

mod common;

use std::sync::Arc;

use common::verdicts;
use fusewright::device::ComputeCapability;
use fusewright::engine::{self, Decision, decide};
use fusewright::graph::{DataType, FinalizedGraph, Graph};
use fusewright::support::{Answer, EditRecord, Remedy, SurfaceId, check};
use rayon::prelude::*;

fn decided(graph: &Arc<FinalizedGraph>) -> Decision {
    decide(graph, ComputeCapability::SM_90, &SurfaceId::ALL)
}

/// Makes edits as a tool would, from their data alone; `None` where the graph is malformed then.
fn edited(graph: &FinalizedGraph, edits: &[&EditRecord]) -> Option<Arc<FinalizedGraph>> {
    let mut edited = graph.to_graph();
    for edit in edits {
        make(&mut edited, edit);
    }
    edited.finalize().ok().map(Arc::new)
}

fn make(graph: &mut Graph, edit: &EditRecord) {
    let type_of =
        |value: &serde_json::Value| DataType::from_name(value.as_str().expect("a type")).expect("a known type");
    let integers = |value: &serde_json::Value| -> Vec<i64> {
        value.as_array().expect("integers").iter().map(|value| value.as_i64().expect("an integer")).collect()
    };
    if let Some(uid) = edit.uid {
        let id =
            graph.tensor_ids().find(|id| graph.tensors()[id.index()].uid == Some(uid)).expect("a tensor of the graph");
        let tensor = graph.tensor_mut(id);
        match edit.kind {
            "data_type" => tensor.data_type = Some(type_of(&edit.to)),
            "strides" => tensor.stride = integers(&edit.to),
            "alignment" => tensor.alignment = edit.to.as_i64().expect("bytes"),
            kind => panic!("{kind} is no edit of a tensor alone"),
        }
        return;
    }
    let finalized = graph.finalize().expect("well formed so far");
    let is_own = |id: &_| Some(&finalized.operation(*id).name) == edit.operation.as_ref();
    let id = finalized.operation_ids().find(is_own).expect("an operation of the graph");
    let mut again = finalized.to_graph();
    match edit.kind {
        "compute_data_type" => again.operation_mut(id).compute_data_type = Some(type_of(&edit.to)),
        "swap_inputs" => {
            let inputs = &mut again.operation_mut(id).inputs;
            (inputs[0].1, inputs[1].1) = (inputs[1].1, inputs[0].1);
        }
        kind => panic!("{kind} is no edit of an operation alone"),
    }
    *graph = again;
}

/// Whether edits of this answer can be made from their data alone.
fn is_plain(answer: &Answer) -> bool {
    let is_plain = |edit: &EditRecord| !["cut", "convert", "mirror", "rank"].contains(&edit.kind);
    answer.change.edits.iter().all(is_plain)
}

/// What is wrong with an answer; `reached` says whether a graph is what the answer is about.
fn faults(graph: &FinalizedGraph, answer: &Answer, reached: &dyn Fn(&Arc<FinalizedGraph>) -> bool) -> Vec<String> {
    let mut faults = Vec::new();
    let text = &answer.change.text;
    if !answer.change.graphs.iter().all(reached) {
        faults.push(format!("{text}: a graph of the change is refused"));
    }
    if answer.change.graphs.len() > 1 || !is_plain(answer) {
        return faults;
    }
    let all: Vec<&EditRecord> = answer.change.edits.iter().collect();
    if !edited(graph, &all).is_some_and(|edited| reached(&edited)) {
        faults.push(format!("{text}: made from its data, it does not help"));
    }
    for left_out in 0..all.len() {
        let fewer: Vec<&EditRecord> =
            all.iter().enumerate().filter(|(place, _)| *place != left_out).map(|(_, edit)| *edit).collect();
        if edited(graph, &fewer).is_some_and(|edited| reached(&edited)) {
            faults.push(format!("{text}: {:?} can be left out", all[left_out]));
        }
    }
    faults
}

#[test]
fn every_refused_graph_gets_a_small_change_none_of_which_can_be_left_out() {
    let records = verdicts::read().expect("recorded graphs");
    let faults: Vec<Vec<String>> = records
        .par_iter()
        .filter_map(|record| {
            let graph = Arc::new(record.graph.finalize().ok()?);
            let decision = decided(&graph);
            if decision.engine().is_some() {
                return None;
            }
            let Remedy { run, hold } = engine::remedy(&graph, &decision.report);
            let mut found = match &run {
                Some(answer) => faults(&graph, answer, &|graph| decided(graph).engine().is_some()),
                None => vec!["there is no change".to_owned()],
            };
            let is_small = |answer: &Answer| answer.change.graphs.len() > 1 || answer.change.count <= 2;
            found.extend(
                run.iter().filter(|answer| !is_small(answer)).map(|answer| format!("long: {}", answer.change.text)),
            );
            let held = |graph: &Arc<FinalizedGraph>| {
                check(graph, ComputeCapability::SM_90, &SurfaceId::ALL).surface().is_some()
            };
            found.extend(hold.iter().flat_map(|answer| faults(&graph, answer, &held)));
            Some(found.into_iter().map(|fault| format!("{}: {fault}", record.id)).collect())
        })
        .collect();
    assert!(faults.len() > 300, "{} graphs are refused", faults.len());
    let faults = faults.concat();
    assert!(faults.is_empty(), "{}\n{}", faults.len(), faults.join("\n"));
}
