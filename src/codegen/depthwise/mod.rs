//! Records of the skeletons of depthwise convolutions.

mod filter;
mod window;

use std::collections::BTreeSet;

use serde::Serialize;

use super::index::{definition_lines, index_type, spell};
use super::names;
use super::sections::Used;
use super::sweep::SweepSpeller;
use super::template::{self, template};
use crate::error::Error;
use crate::graph::{FinalizedGraph, TensorId};
use crate::kernel::{ChannelWindows, Definition, DepthwiseKernel, Index, TapAxis, Variable, needed, step};
pub(super) use filter::filter;
use window::{AxisText, InsideText, LAST, OUTPUTS, TAPS, WALKED, Window, WindowText};

/// What `sweep/depthwise.cu` reads beside the function's name and parameters.
#[derive(Serialize)]
pub(super) struct DepthwiseText {
    /// Blocks that share a multiprocessor at least.
    blocks: u32,
    #[serde(flatten)]
    window: WindowText,
    /// Where weight `i` of the block lies in the filter: its taps, the element, and the condition under which there is one.
    weight_taps: Vec<String>,
    weight: String,
    weight_guard: Option<String>,
    /// Whether a thread's weights are in registers.
    holds_weights: bool,
    /// Condition under which a thread has a strip, where some have none.
    strip_guard: Option<String>,
    /// When a row of outputs has ended: points between pixels, taps, points under a window, points between outputs.
    gap: i64,
    walked_taps: i64,
    span: i64,
    walked_stride: i64,
    point_of_output: PointText,
    evaluate: String,
    /// The strip, where weights are not finite and windows reach into the padding.
    inside: Option<String>,
}

/// What `sweep/depthwise_inside.cuh` reads.
#[derive(Serialize)]
struct StripInsideText<'a> {
    #[serde(flatten)]
    inside: InsideText,
    /// Loops over taps, a tap's number, and what follows the sums.
    axes: Vec<AxisText>,
    tap: String,
    coordinates: &'a [String],
    evaluate: &'a str,
}

/// A point of the epilogue.
#[derive(Serialize)]
struct PointText {
    /// The condition of an output, and the axes of the space that are read: in row `row`, and of output `j` there.
    guard: Option<String>,
    row: Vec<String>,
    coordinates: Vec<String>,
}

pub(super) fn depthwise(
    graph: &FinalizedGraph,
    used: &mut Used,
    kernel: &DepthwiseKernel,
) -> Result<DepthwiseText, Error> {
    let windows = &kernel.windows;
    let window = Window { graph, windows, rows_ahead: kernel.rows_ahead() };
    let text = SweepSpeller::new(graph, used, &kernel.sweep, &[]).text(&[], "");
    let mut uses = text.uses.clone();
    let coordinates = needed(coordinates(&window), &mut uses);
    let walked = windows.walked();
    let evaluate = text.evaluate()?;
    let row = row_of_pixels(&window, used, kernel)?;
    let strip_guard = window.strip_guard();
    let coordinates = definition_lines(index_type(windows.wide_index), &coordinates);
    let inside = StripInsideText {
        inside: window.inside(),
        axes: window.loops(),
        tap: spell(&(window.first_tap(1) + Index::local(TAPS[LAST]))),
        coordinates: &coordinates,
        evaluate: &evaluate,
    };
    let can_be_infinite = graph.tensor(kernel.filter).data_type.is_floating();
    let has_inside = can_be_infinite && windows.is_padded();
    let inside = has_inside.then(|| template::render(template!("sweep/depthwise_inside.cuh"), &inside)).transpose()?;
    Ok(DepthwiseText {
        blocks: kernel.blocks(),
        weight_taps: window.tap_of_axes(),
        weight: format!(
            "fw_value({}[{}])",
            names::pointer(graph, kernel.filter),
            spell(&weight(&window, kernel.filter))
        ),
        weight_guard: window.channel_guard(),
        holds_weights: kernel.holds_weights(),
        gap: walked.gap,
        walked_taps: walked.taps,
        span: walked.span(),
        walked_stride: walked.stride,
        point_of_output: PointText { guard: window.output_guard(), row: row_of_outputs(windows, &uses), coordinates },
        evaluate,
        inside,
        window: window.text(used, kernel.filter, row, strip_guard.as_deref())?,
        strip_guard,
    })
}

/// How a row of pixels enters the sums.
fn row_of_pixels(window: &Window<'_>, used: &mut Used, kernel: &DepthwiseKernel) -> Result<String, Error> {
    let (taps, stride) = (window.windows.last().taps, window.windows.last().stride);
    let tap = spell(&(window.first_tap(2) + Index::local("r") * taps + Index::local("s")));
    match kernel.holds_weights() {
        true => window.pixel_by_pixel(&format!("weight[{tap}][e]"), &format!("totals[row_at][j / {stride}][e]")),
        false => window.tap_by_tap(used, format!("weights + ({tap}) * {} + column", window.windows.block_channels())),
    }
}

/// The row of the result, where it is read.
fn row_of_outputs(windows: &ChannelWindows, uses: &BTreeSet<Variable>) -> Vec<String> {
    let index = index_type(windows.wide_index);
    let is_read = uses.contains(&Variable::Local(OUTPUTS[WALKED]));
    is_read.then(|| format!("const {index} {} = p0 + row;", OUTPUTS[WALKED])).into_iter().collect()
}

/// Where the weight of `channel` under the taps lies.
fn weight(window: &Window<'_>, filter: TensorId) -> Index {
    let along = |(name, axis): (usize, TapAxis)| {
        let stride = window.stride(filter, name);
        let tap = Index::local(TAPS[name]);
        match (axis.taps, axis.is_turned) {
            (1, _) => Index::ZERO,
            (taps, true) => tap * -stride + Index::from((taps - 1) * stride),
            (_, false) => tap * stride,
        }
    };
    let channel = Index::local("channel") * step(window.graph.tensor(filter), 0);
    Index::sum([channel].into_iter().chain(window.axes().map(along)))
}

/// Axes of the epilogue's space.
fn coordinates(window: &Window<'_>) -> Vec<Definition> {
    let spatial = window.windows.axes.len();
    let outer = window.axes().take(spatial - 1).map(|(name, _)| Index::local(OUTPUTS[name]));
    let values = [Index::local("img")]
        .into_iter()
        .chain(outer)
        .chain([Index::local("q0") + Index::local("j"), Index::local("channel")]);
    values.enumerate().map(|(axis, value)| Definition::new(Variable::Axis(axis), value)).collect()
}
