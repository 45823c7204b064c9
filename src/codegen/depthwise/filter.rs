//! Record of the skeleton of depthwise convolutions' filter gradients.

use serde::Serialize;

use super::window::{OUTPUTS, Window, WindowText};
use crate::codegen::index::spell;
use crate::codegen::names;
use crate::codegen::sections::Used;
use crate::error::Error;
use crate::graph::FinalizedGraph;
use crate::kernel::{DepthwiseFilterKernel, Index};

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

/// The record of a kernel.
///
/// # Errors
/// [`Error::Generated`] if a template fails: a defect of ours.
pub(in crate::codegen) fn filter(
    graph: &FinalizedGraph,
    used: &mut Used,
    kernel: &DepthwiseFilterKernel,
) -> Result<DepthwiseFilterText, Error> {
    used.add("fw_sum");
    used.add("fw_tree");
    let windows = &kernel.windows;
    let window = Window { graph, windows };
    let sum = format!("sums[{}][e]", spell(&(window.row_of_taps() + Index::local("s"))));
    let factor = format!("gradient[j / {}][e]", windows.last().stride);
    let output = window.axes().take(windows.outer().len()).map(|(name, _)| (OUTPUTS[name], name));
    Ok(DepthwiseFilterText {
        blocks: kernel.blocks(),
        gradient: names::pointer(graph, kernel.gradient),
        gradient_offset: window.offset(kernel.gradient, output),
        gradient_stride: window.stride(kernel.gradient, OUTPUTS.len() - 1),
        output_guard: window.output_guard(),
        is_turned: windows.last().is_turned,
        window: window.text(used, kernel.gradient, &factor, &sum)?,
    })
}
