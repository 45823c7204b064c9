//! Spells where the windows of depthwise convolutions lie.

use serde::Serialize;

use crate::codegen::index::{index_type, spell};
use crate::codegen::names;
use crate::codegen::sections::Used;
use crate::codegen::template::{self, template};
use crate::error::Error;
use crate::graph::{DataType, FinalizedGraph, TensorId};
use crate::kernel::{ChannelWindows, Index, TapAxis, step};

/// Variables of an output along the spatial axes, of the pixels under a tap, and of taps, the last axis as the last of three.
pub(super) const OUTPUTS: [&str; 3] = ["o", "p", "q"];
const PIXELS: [&str; 3] = ["d", "h", "w"];
pub(super) const TAPS: [&str; 3] = ["t", "r", "s"];

/// Windows, as `sweep/depthwise.cu` and `sweep/depthwise_filter.cu` read them.
#[derive(Serialize)]
pub(super) struct WindowText {
    threads: u32,
    index: &'static str,
    /// Channels of a vector, of a block and of all; threads along them, and groups of outputs of a block.
    vector: i64,
    block_channels: i64,
    channels: i64,
    has_rest: bool,
    columns: u32,
    rows: u32,
    taps: i64,
    /// Number of groups of outputs, outputs of one, and its first.
    groups: i64,
    outputs: i64,
    first_output: Vec<String>,
    /// Loops over the taps along outer axes.
    outer: Vec<OuterText>,
    /// The first pixel along the last axis of the group's windows, which may lie outside.
    first_pixel: String,
    /// How the pixels of a row enter the sums.
    row: String,
}

#[derive(Serialize)]
struct OuterText {
    tap: &'static str,
    taps: i64,
    /// Lines that say which pixel lies under the tap, and leave out what is none.
    pixel: Vec<String>,
}

/// What `sweep/window_row.cuh` reads.
#[derive(Serialize)]
struct RowText {
    /// The image's first pixel, elements from there to the row, and from a pixel to the next.
    image: String,
    offset: String,
    pixel_stride: i64,
    vector: i64,
    outputs: i64,
    /// Pixels that the outputs read, and of the image.
    reach: i64,
    pixels: i64,
    is_padded: bool,
    taps: i64,
    stride: i64,
    dilation: i64,
    /// The point of pixel `at`, counted from the window's first.
    point: String,
    /// What a pixel is multiplied by for output `j` under tap `s`, and the sum that it enters: of channel `e`.
    factor: String,
    sum: String,
}

/// The first pixel of the window of output `q0`, a multiple of the gap.
fn first_pixel(axis: TapAxis) -> String {
    match axis.gap {
        1 => format!("int(q0) * {} - {}", axis.stride, axis.padding),
        gap => format!("int(q0) / {gap} - {}", -axis.first()),
    }
}

/// Spells where windows lie.
pub(super) struct Window<'a> {
    pub(super) graph: &'a FinalizedGraph,
    pub(super) windows: &'a ChannelWindows,
}

impl Window<'_> {
    /// What templates read of the windows, of which each pixel times `factor` enters `sum`, and the device code that they use.
    ///
    /// # Errors
    /// [`Error::Generated`] if a template fails: a defect of ours.
    pub(super) fn text(&self, used: &mut Used, other: TensorId, factor: &str, sum: &str) -> Result<WindowText, Error> {
        used.add("FW_SHARED");
        used.add("fw_vector");
        used.add(names::storage_section(DataType::Float));
        for id in [self.windows.image, other] {
            used.add(names::storage_section(self.graph.tensor(id).data_type));
        }
        let windows = self.windows;
        Ok(WindowText {
            threads: windows.threads(),
            index: index_type(windows.wide_index),
            vector: windows.vector,
            block_channels: windows.block_channels(),
            channels: windows.channels,
            has_rest: windows.channels % windows.block_channels() != 0,
            columns: windows.columns,
            rows: windows.rows,
            taps: windows.taps(),
            groups: windows.groups(),
            outputs: windows.outputs,
            first_output: self.first_output(),
            outer: self.outer(),
            first_pixel: first_pixel(windows.last()),
            row: self.row(factor, sum)?,
        })
    }

    fn row(&self, factor: &str, sum: &str) -> Result<String, Error> {
        let (windows, last) = (self.windows, self.windows.last());
        let pixel = self.axes().take(windows.outer().len()).map(|(name, _)| (PIXELS[name], name));
        let record = RowText {
            image: names::pointer(self.graph, windows.image),
            offset: self.offset(windows.image, pixel),
            pixel_stride: self.stride(windows.image, OUTPUTS.len() - 1),
            vector: windows.vector,
            outputs: windows.outputs,
            reach: last.reach(windows.outputs),
            pixels: last.pixels,
            is_padded: last.is_padded() || last.outputs % windows.outputs != 0,
            taps: last.taps,
            stride: last.stride,
            dilation: last.dilation,
            point: spell(&(Index::local("at") * last.gap + Index::from(-last.ahead()))),
            factor: factor.to_owned(),
            sum: sum.to_owned(),
        };
        template::render(template!("sweep/window_row.cuh"), &record)
    }

    /// Condition under which output `j` of a group exists, where some do not.
    pub(super) fn output_guard(&self) -> Option<String> {
        let outputs = self.windows.last().outputs;
        (outputs % self.windows.outputs != 0).then(|| format!("q0 + j < {outputs}"))
    }

    /// The spatial axes with the names of their variables and their graph axes.
    pub(super) fn axes(&self) -> impl DoubleEndedIterator<Item = (usize, TapAxis)> + '_ {
        let first = OUTPUTS.len() - self.windows.axes.len();
        self.windows.axes.iter().enumerate().map(move |(number, axis)| (first + number, *axis))
    }

    fn graph_axis(&self, name: usize) -> usize {
        name + 2 + self.windows.axes.len() - OUTPUTS.len()
    }

    pub(super) fn stride(&self, id: TensorId, name: usize) -> i64 {
        step(self.graph.tensor(id), self.graph_axis(name))
    }

    /// `const unsigned q0 = group % 14 * 4, p = group / 14 % 56, img = group / 784;`
    fn first_output(&self) -> Vec<String> {
        let index = index_type(self.windows.wide_index);
        let group = || Index::local("group");
        let mut below = self.windows.groups_of_a_row();
        let mut lines = vec![format!("const {index} q0 = {};", spell(&(group() % below * self.windows.outputs)))];
        for (name, axis) in self.axes().rev().skip(1) {
            lines.push(format!("const {index} {} = {};", OUTPUTS[name], spell(&(group() / below % axis.outputs))));
            below *= axis.outputs;
        }
        lines.push(format!("const {index} img = {};", spell(&(group() / below))));
        lines
    }

    fn outer(&self) -> Vec<OuterText> {
        let count = self.windows.axes.len() - 1;
        let text = |(name, axis): (usize, TapAxis)| {
            let (tap, pixel) = (TAPS[name], PIXELS[name]);
            let value =
                format!("int({}) * {} + {tap} * {} - {}", OUTPUTS[name], axis.stride, axis.dilation, axis.padding);
            let mut lines = Vec::new();
            let value = match axis.gap {
                1 => value,
                gap => {
                    lines.push(format!("const int over_{pixel} = {value};"));
                    lines.push(format!("if (over_{pixel} < 0 || over_{pixel} % {gap} != 0) continue;"));
                    format!("over_{pixel} / {gap}")
                }
            };
            lines.push(format!("const int {pixel} = {value};"));
            if axis.is_padded() {
                lines.push(format!("if ({pixel} < 0 || {pixel} >= {}) continue;", axis.pixels));
            }
            OuterText { tap, taps: axis.taps, pixel: lines }
        };
        self.axes().take(count).map(text).collect()
    }

    /// Number of the first tap under the outer ones.
    pub(super) fn row_of_taps(&self) -> Index {
        let mut below = self.windows.last().taps;
        let mut terms = Vec::new();
        for (name, axis) in self.axes().rev().skip(1) {
            terms.push(Index::local(TAPS[name]) * below);
            below *= axis.taps;
        }
        Index::sum(terms.into_iter().rev())
    }

    /// Elements from a tensor's first to the vector of channels in the row of these coordinates along the outer axes.
    pub(super) fn offset(&self, id: TensorId, outer: impl Iterator<Item = (&'static str, usize)>) -> String {
        let cast = if self.windows.wide_index { "(long long)" } else { "int" };
        let images = ("img", step(self.graph.tensor(id), 0));
        let outer = outer.map(|(coordinate, name)| (coordinate, self.stride(id, name)));
        let terms = [images].into_iter().chain(outer).map(|(name, stride)| format!("{cast}({name}) * {stride}"));
        terms.chain(["int(channel)".to_owned()]).collect::<Vec<_>>().join(" + ")
    }
}
