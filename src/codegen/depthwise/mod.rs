//! Records of the skeletons of depthwise convolutions.

mod filter;
mod window;

use serde::Serialize;

use super::index::{definition_lines, index_type, spell};
use super::names;
use super::sections::Used;
use super::sweep::SweepSpeller;
use crate::error::Error;
use crate::graph::{FinalizedGraph, TensorId};
use crate::kernel::{Definition, DepthwiseKernel, Index, TapAxis, Variable, needed, step};
pub(super) use filter::filter;
use window::{OUTPUTS, TAPS, Window, WindowText};

/// What `sweep/depthwise.cu` reads beside the function's name and parameters.
#[derive(Serialize)]
pub(super) struct DepthwiseText {
    /// Blocks that share a multiprocessor at least.
    blocks: u32,
    #[serde(flatten)]
    window: WindowText,
    /// Where weight `i` of the block lies in the filter: its taps, and the offset.
    weight_taps: Vec<String>,
    weight: String,
    /// Taps along the last axis, and the first tap under the outer ones.
    last_taps: i64,
    row_of_taps: String,
    point: PointText,
    evaluate: String,
}

/// A point of the epilogue.
#[derive(Serialize)]
struct PointText {
    /// The output's coordinate, its condition, and the axes of the space that are read.
    guard: Option<String>,
    coordinates: Vec<String>,
}

pub(super) fn depthwise(
    graph: &FinalizedGraph,
    used: &mut Used,
    kernel: &DepthwiseKernel,
) -> Result<DepthwiseText, Error> {
    let window = Window { graph, windows: &kernel.windows };
    let text = SweepSpeller::new(graph, used, &kernel.sweep, &[]).text(&[], "");
    let sum = format!("sums[j / {}][e]", kernel.windows.last().stride);
    let mut uses = text.uses.clone();
    let coordinates = needed(coordinates(&window), &mut uses);
    Ok(DepthwiseText {
        blocks: kernel.blocks(),
        last_taps: kernel.windows.last().taps,
        row_of_taps: spell(&window.row_of_taps()),
        weight_taps: weight_taps(&window),
        weight: format!(
            "fw_value({}[{}])",
            names::pointer(graph, kernel.filter),
            spell(&weight(&window, kernel.filter))
        ),
        point: PointText {
            guard: window.output_guard(),
            coordinates: definition_lines(index_type(kernel.windows.wide_index), &coordinates),
        },
        evaluate: text.evaluate()?,
        window: window.text(used, kernel.filter, "weight[s][e]", &sum)?,
    })
}

/// `const unsigned s = tap % 3;` of weight number `tap`.
fn weight_taps(window: &Window<'_>) -> Vec<String> {
    let mut below = 1;
    let mut lines = Vec::new();
    for (name, axis) in window.axes().rev().filter(|(_, axis)| axis.taps > 1) {
        let value = spell(&(Index::local("tap") / below % axis.taps));
        lines.push(format!("const unsigned {} = {value};", TAPS[name]));
        below *= axis.taps;
    }
    lines
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
