//! Record of the skeleton of depthwise convolutions' filter gradients.

use serde::Serialize;

use super::window::{InsideText, LAST, WALKED, Window, WindowText};
use crate::codegen::index::{index_type, spell};
use crate::codegen::names;
use crate::codegen::sections::Used;
use crate::codegen::template::{self, template};
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
    /// Channels, and the condition under which there is one, where some blocks have more.
    channels: i64,
    channel_guard: Option<String>,
    /// Number of strips, parts into which they are cut, and taps whose sums meet in shared memory at a time.
    strips: i64,
    splits: i64,
    taps_at_a_time: i64,
    /// The gradient's first element, how elements lie in memory, elements from the first to the vector of output `q0` in row `p0`, from
    /// there to that in row `row`, and from an output to the next.
    gradient: String,
    gradient_storage: &'static str,
    gradient_offset: String,
    gradient_row: String,
    gradient_stride: i64,
    /// Points from a row of outputs to the next.
    walked_stride: i64,
    /// Condition under which output `j` of a row exists, where some do not.
    output_guard: Option<String>,
    /// Whether sums are those of the taps counted from the last.
    is_turned: bool,
    /// The sums of a thread that are NaN once more, where values can be infinite.
    inside: Option<String>,
}

/// What `sweep/depthwise_filter_inside.cuh` reads.
#[derive(Serialize)]
struct SumsInsideText<'a> {
    #[serde(flatten)]
    inside: InsideText,
    index: &'static str,
    taps: i64,
    taps_at_a_time: i64,
    /// The tap along each axis, and the pixel under it.
    tap_of_axes: Vec<String>,
    pixel: Vec<String>,
    strips_of_a_block: u32,
    splits: i64,
    first_output: Vec<String>,
    gradient: &'a str,
    gradient_offset: String,
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
    let windows = &kernel.windows;
    let window = Window { graph, windows, rows_ahead: 1 };
    let taps = window.first_tap(1) + Index::local("s");
    let row = window.pixel_by_pixel(
        &format!("gradient[row_at][j / {}][e]", windows.last().stride),
        &format!("sums[{}][e]", spell(&taps)),
    )?;
    let gradient = kernel.gradient;
    let walked = (windows.axes.len() > 1).then(|| ("p0".to_owned(), window.stride(gradient, WALKED)));
    let first = [("q0".to_owned(), window.stride(gradient, LAST))].into_iter().chain(walked);
    let cast = if windows.wide_index { "(long long)" } else { "int" };
    let gradient_pointer = names::pointer(graph, gradient);
    let inside = SumsInsideText {
        inside: window.inside(),
        index: index_type(windows.wide_index),
        taps: windows.taps(),
        taps_at_a_time: kernel.taps_at_a_time(),
        tap_of_axes: window.tap_of_axes(),
        pixel: window.pixel(),
        strips_of_a_block: windows.strips_of_a_block,
        splits: kernel.splits,
        first_output: window.first_output(),
        gradient: &gradient_pointer,
        gradient_offset: window.output_offset(gradient),
    };
    let can_be_infinite = [gradient, windows.image].into_iter().any(|id| graph.tensor(id).data_type.is_floating());
    let inside = can_be_infinite.then(|| {
        used.add("fw_f32");
        template::render(template!("sweep/depthwise_filter_inside.cuh"), &inside)
    });
    let inside = inside.transpose()?;
    Ok(DepthwiseFilterText {
        blocks: kernel.blocks(),
        channels: windows.channels,
        channel_guard: window.channel_guard(),
        strips: windows.strips(),
        splits: kernel.splits,
        taps_at_a_time: kernel.taps_at_a_time(),
        inside,
        gradient: gradient_pointer,
        gradient_storage: names::storage_type(graph.tensor(gradient).data_type),
        gradient_offset: window.offset(gradient, first),
        gradient_row: format!("{cast}(row) * {}", window.stride(gradient, WALKED)),
        gradient_stride: window.stride(gradient, LAST),
        walked_stride: windows.walked().stride,
        output_guard: window.output_guard(),
        is_turned: windows.last().is_turned,
        window: window.text(used, gradient, row, None)?,
    })
}
