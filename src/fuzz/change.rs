//! What must be true of the changes that a refusal names.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::finding::{Finding, finding, judge};
use crate::engine;
use crate::graph::FinalizedGraph;
use crate::host_tensor::{HostTensor, HostTensors};
use crate::reference::{compare_exact, execute};
use crate::support::{self, Change, Remedy, Report, SurfaceId};

/// The nearest legal changes are legal: none of their graphs is refused, and where a surface is said to hold, it does.
pub(super) fn helps(graph: &Arc<FinalizedGraph>, report: &Report) -> Result<(), Finding> {
    const ORACLE: &str = "the change that a refusal names makes the graph legal";
    let Remedy { run, hold } = engine::remedy(graph, report);
    if let Some(answer) = &run {
        for graph in answer.change.descriptions() {
            let again = Arc::new(graph.finalize().map_err(|error| finding(ORACLE, error))?);
            if engine::decide(&again, report.capability, &SurfaceId::ALL).engine().is_none() {
                return Err(finding(ORACLE, &answer.change.text));
            }
        }
    }
    let Some(answer) = hold else { return Ok(()) };
    for (graph, surface) in answer.change.graphs.iter().zip(&answer.surfaces) {
        let surface = surface.ok_or_else(|| finding(ORACLE, "a graph holds no surface"))?;
        if support::check(graph, report.capability, &[surface]).surface().is_none() {
            return Err(finding(ORACLE, format!("surface {surface} does not hold")));
        }
    }
    Ok(())
}

/// The graphs of a cut, one after the other, give what the whole graph gives, bit by bit.
pub(super) fn keeps_results(graph: &Arc<FinalizedGraph>, report: &Report, inputs: HostTensors) -> Result<(), Finding> {
    const ORACLE: &str = "the parts of a cut compute what the graph does";
    let Some(answer) = engine::remedy(graph, report).run.filter(|answer| is_a_cut(&answer.change)) else {
        return Ok(());
    };
    // what the CPU engine does not compute has no results to keep
    let Ok(expected) = execute(graph, &inputs) else { return Ok(()) };
    let mut values: BTreeMap<i64, HostTensor> =
        inputs.into_iter().map(|(id, tensor)| (graph.tensor(id).uid, tensor)).collect();
    for part in &answer.change.graphs {
        let given = |id| Some((id, values.get(&part.tensor(id).uid)?.clone()));
        let inputs: HostTensors = part.inputs().filter_map(given).collect();
        let results = execute(part, &inputs).map_err(|error| finding(ORACLE, error))?;
        values.extend(results.into_iter().map(|(id, tensor)| (part.tensor(id).uid, tensor)));
    }
    let result = |id: &_| Some((*id, values.get(&graph.tensor(*id).uid)?.clone()));
    let found: HostTensors = expected.keys().filter_map(result).collect();
    judge(ORACLE, compare_exact(graph, &expected, &found))
}

fn is_a_cut(change: &Change) -> bool {
    change.edits.iter().all(|edit| edit.kind == "cut")
}
