//! Record of the skeleton of their filter gradients.

use serde::Serialize;

use super::window::{OUTPUTS, Window, WindowText};
use crate::codegen::names;
use crate::codegen::sections::Used;
use crate::graph::{DataType, FinalizedGraph};
use crate::kernel::{DepthwiseFilterKernel, step};

/// What `sweep/depthwise_filter.cu` reads beside the function's name and parameters.
#[derive(Serialize)]
pub(in crate::codegen) struct DepthwiseFilterText {
    /// Blocks that share a multiprocessor at least.
    blocks: u32,
    #[serde(flatten)]
    window: WindowText,
    /// The gradient's first element, and elements from there to the vector of output `q0`, and from an output to the next.
    gradient: String,
    gradient_offset: String,
    gradient_stride: i64,
    /// Condition under which output `j` of a group exists, where some do not.
    output_guard: Option<String>,
    /// Whether sums are those of the taps counted from the last.
    is_turned: bool,
}

pub(in crate::codegen) fn filter(
    graph: &FinalizedGraph,
    used: &mut Used,
    kernel: &DepthwiseFilterKernel,
) -> DepthwiseFilterText {
    used.add("FW_SHARED");
    used.add("fw_vector");
    used.add("fw_sum");
    used.add("fw_tree");
    used.add(names::storage_section(DataType::Float));
    for id in [kernel.windows.image, kernel.gradient] {
        used.add(names::storage_section(graph.tensor(id).data_type));
    }
    let window = Window { graph, windows: &kernel.windows };
    let cast = if kernel.windows.wide_index { "(long long)" } else { "int" };
    let outer = window
        .axes()
        .take(kernel.windows.outer().len())
        .map(|(name, _)| (OUTPUTS[name], window.stride(kernel.gradient, name)));
    let images = ("img", step(graph.tensor(kernel.gradient), 0));
    let terms = [images].into_iter().chain(outer).map(|(name, stride)| format!("{cast}({name}) * {stride}"));
    let offset: Vec<String> = terms.chain(["int(channel)".to_owned()]).collect();
    DepthwiseFilterText {
        blocks: kernel.blocks(),
        window: window.text(),
        gradient: names::pointer(graph, kernel.gradient),
        gradient_offset: offset.join(" + "),
        gradient_stride: step(graph.tensor(kernel.gradient), kernel.windows.axes.len() + 1),
        output_guard: window.output_guard(),
        is_turned: kernel.windows.last().is_turned,
    }
}
