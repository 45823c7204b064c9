//! Other shapes of a graph of dynamic shapes: one binary computes them all.

use std::sync::Arc;

use super::choices::Choices;
use super::finding::{Finding, finding};
use crate::build::Build;
use crate::device::Device;
use crate::engine;
use crate::graph::{FinalizedGraph, TensorId};
use crate::reference::with_extent;

/// Extents beside which vectors, boxes and tiles begin and end.
const EDGES: [i64; 25] =
    [2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 96, 127, 128, 129, 192, 255, 257];

/// Part of the draws that take an edge, not a neighbour of the extent that an axis has, in percent; and that change a second axis.
const EDGE: usize = 60;
const SECOND: usize = 50;

/// Kernels of a build's graph in drawn shapes, in the same config: those that have the same text, at most so many.
///
/// # Errors
/// A shape that is accepted and does not render.
pub(super) fn of_one_text(
    build: &Build,
    device: &Device,
    count: usize,
    choices: &mut Choices<'_>,
) -> Result<Vec<Build>, Finding> {
    let mut builds = Vec::new();
    for _ in 0..count {
        let Some(graph) = drawn(&build.graph, choices) else { continue };
        let Ok(selection) = engine::select(&graph, device.capability) else { continue };
        if !selection.offers(&build.config, device) {
            continue;
        }
        let other = Build::new(&selection, build.config.clone(), device);
        let other = other.map_err(|error| finding("what is accepted renders in other shapes", error))?;
        if other.source.text == build.source.text {
            builds.push(other);
        }
    }
    Ok(builds)
}

/// The graph with another extent of one or two axes; `None` where there is no such graph.
fn drawn(graph: &FinalizedGraph, choices: &mut Choices<'_>) -> Option<Arc<FinalizedGraph>> {
    let mut resized = with_drawn_extent(graph, choices)?;
    if choices.chance(SECOND) {
        resized = with_drawn_extent(&resized, choices).unwrap_or(resized);
    }
    Some(Arc::new(resized))
}

fn with_drawn_extent(graph: &FinalizedGraph, choices: &mut Choices<'_>) -> Option<FinalizedGraph> {
    let axes = |id: TensorId| graph.tensor(id).dim.iter().enumerate().map(move |(axis, &extent)| (id, axis, extent));
    let places: Vec<_> = graph.tensor_ids().flat_map(axes).filter(|&(_, _, extent)| extent > 1).collect();
    let (id, axis, extent) = places[choices.index_of(&places)?];
    let extent = match choices.chance(EDGE) {
        true => choices.of(&EDGES),
        false => choices.of(&[extent - 1, extent + 1, 2 * extent, extent / 2 + 1]),
    };
    with_extent(graph, (id, axis), extent).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::ComputeCapability;
    use crate::fuzz::{Family, generate, graph_bytes};

    #[test]
    fn graphs_of_dynamic_shapes_have_others_of_one_text() {
        let device = Device::typical(ComputeCapability::SM_90);
        let [mut asked, mut shared] = [0, 0];
        for number in 0..60 {
            let bytes = graph_bytes(7, number);
            let mut graph = generate(Family::Matmul, &bytes).graph;
            graph.is_dynamic = true;
            let Ok(graph) = graph.finalize() else { continue };
            let graph = Arc::new(graph);
            let Ok(selection) = engine::select(&graph, device.capability) else { continue };
            let build = Build::first(&selection, &device).expect("rendered");
            for other in of_one_text(&build, &device, 4, &mut Choices::new(&bytes)).expect("rendered") {
                assert_eq!((&other.source.text, &other.config), (&build.source.text, &build.config));
                shared += usize::from(other.graph.key() != build.graph.key());
            }
            asked += 1;
        }
        assert!(asked > 20 && shared > asked, "{shared} shapes share the texts of {asked} graphs");
    }
}
