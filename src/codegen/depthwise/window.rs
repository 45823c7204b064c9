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

/// The last axis among them, and the one that threads walk along.
pub(super) const LAST: usize = 2;
pub(super) const WALKED: usize = 1;

/// Windows, as `sweep/depthwise.cu` and `sweep/depthwise_filter.cu` read them.
#[derive(Serialize)]
pub(super) struct WindowText {
    threads: u32,
    index: &'static str,
    /// Channels of a vector and of a block; blocks and threads along them.
    vector: i64,
    block_channels: i64,
    channel_blocks: i64,
    columns: u32,
    taps: i64,
    /// Strips of a block; outputs of one side by side, rows of them in flight, the condition under which row `row` exists, and the first
    /// output.
    strips_of_a_block: u32,
    outputs: i64,
    rows_in_flight: i64,
    row_guard: String,
    first_output: Vec<String>,
    /// The first pixel along the last two axes of the strip's windows, which may lie outside.
    first_row: String,
    first_pixel: String,
    /// Rows of the image that the loop walks, and those of one turn of it; the point of row `u` of a turn.
    steps: i64,
    steps_of_a_turn: i64,
    point: String,
    /// The row of outputs that a turn starts with.
    turn_row: String,
    /// Loops over the taps along outer axes.
    outer: Vec<AxisText>,
    /// How pixels lie in memory, how they come to registers, how taps find their rows of outputs, how a row enters the sums.
    storage: &'static str,
    reach: i64,
    rows_ahead: i64,
    fetch: String,
    place: String,
    row: String,
}

#[derive(Serialize)]
pub(super) struct AxisText {
    tap: &'static str,
    taps: i64,
    /// Lines that say which pixel lies under the tap, and leave out what is none.
    pixel: Vec<String>,
}

/// An output of a strip by itself with what lies inside of the image, as `sweep/depthwise_inside.cuh` and
/// `sweep/depthwise_filter_inside.cuh` read it.
#[derive(Serialize)]
pub(super) struct InsideText {
    vector: i64,
    block_channels: i64,
    /// Outputs of a strip; output `j` of row `at / outputs` along the last two axes, and the condition under which it exists.
    rows: i64,
    outputs: i64,
    output: Vec<String>,
    guard: Option<String>,
    /// The image's first pixel, and elements from there to the vector under the taps.
    image: String,
    offset: String,
}

/// What `sweep/window_fetch.cuh` reads.
#[derive(Serialize)]
struct FetchText<'a> {
    storage: &'static str,
    vector: i64,
    /// The image's first pixel, elements from there to the strip's first pixel in row 0, from a row to the next, and from a pixel.
    image: String,
    offset: String,
    row_stride: String,
    pixel_stride: i64,
    /// Rows of the image, rows under a strip, and conditions of a strip, of a row and of a pixel, where some are none or lie outside.
    height: i64,
    steps: i64,
    strip_guard: Option<&'a str>,
    row_guard: &'static str,
    pixel_guard: Option<String>,
}

/// What `sweep/window_place.cuh` reads.
#[derive(Serialize)]
struct PlaceText {
    stride: i64,
    dilation: i64,
    rows: i64,
    rows_in_flight: i64,
    /// Whether steps are a straight line, so that a tap's row is a number.
    is_straight: bool,
}

/// What `sweep/window_pixel.cuh` reads.
#[derive(Serialize)]
struct PixelText {
    vector: i64,
    outputs: i64,
    /// Pixels of a row that the strip reads.
    reach: i64,
    /// Whether a pixel of a row ahead takes the place of one that is converted, and of which.
    fetches_ahead: bool,
    rows_ahead: i64,
    /// Taps along the axis that is walked; those along the last one, and their points.
    walked_taps: i64,
    taps: i64,
    stride: i64,
    dilation: i64,
    /// The point of pixel `at`, counted from the window's first.
    point: String,
    /// What a pixel is multiplied by for output `j` under taps `r` and `s`, and the sum that it enters: of channel `e`.
    factor: String,
    sum: String,
}

/// What `sweep/window_taps.cuh` reads.
#[derive(Serialize)]
struct TapsText {
    vector: i64,
    outputs: i64,
    reach: i64,
    fetches_ahead: bool,
    rows_ahead: i64,
    walked_taps: i64,
    taps: i64,
    stride: i64,
    dilation: i64,
    /// Points from a pixel to the next, and before the first window's.
    gap: i64,
    ahead: i64,
    /// Where the weights of taps `r` and `s` lie.
    weight: String,
}

/// The first pixel of the window of output `q0`, a multiple of the gap.
fn first_pixel(axis: TapAxis, output: &str) -> String {
    match (axis.gap, axis.stride, axis.padding) {
        (1, 1, 0) => format!("int({output})"),
        (1, 1, padding) => format!("int({output}) - {padding}"),
        (1, stride, padding) => format!("int({output}) * {stride} - {padding}"),
        (gap, ..) => format!("int({output}) / {gap} - {}", -axis.first()),
    }
}

/// A loop over the taps along an axis.
fn axis_text(name: usize, axis: TapAxis) -> AxisText {
    let (tap, pixel) = (TAPS[name], PIXELS[name]);
    let under = if axis.taps > 1 { format!(" + {tap} * {}", axis.dilation) } else { String::new() };
    let value = format!("int({}) * {}{under} - {}", OUTPUTS[name], axis.stride, axis.padding);
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
    AxisText { tap, taps: axis.taps, pixel: lines }
}

/// Spells where windows lie.
pub(super) struct Window<'a> {
    pub(super) graph: &'a FinalizedGraph,
    pub(super) windows: &'a ChannelWindows,
    /// Rows of pixels that are asked for before the one that is computed.
    pub(super) rows_ahead: i64,
}

impl Window<'_> {
    /// What templates read of the windows, of which a `row` enters the sums as that says, for strips under a condition, and
    /// the device code that they use.
    ///
    /// # Errors
    /// [`Error::Generated`] if a template fails: a defect of ours.
    pub(super) fn text(
        &self,
        used: &mut Used,
        other: TensorId,
        row: String,
        strip_guard: Option<&str>,
    ) -> Result<WindowText, Error> {
        used.add("FW_SHARED");
        used.add("fw_raw");
        used.add("fw_vector");
        used.add(names::storage_section(DataType::Float));
        for id in [self.windows.image, other] {
            used.add(names::storage_section(self.graph.tensor(id).data_type));
        }
        let (windows, walked) = (self.windows, self.windows.walked());
        Ok(WindowText {
            threads: windows.threads(),
            index: index_type(windows.wide_index),
            vector: windows.strip.channels,
            block_channels: windows.block_channels(),
            channel_blocks: windows.blocks_along_channels(),
            columns: windows.columns,
            taps: windows.taps(),
            strips_of_a_block: windows.strips_of_a_block,
            outputs: windows.strip.outputs,
            rows_in_flight: windows.rows_in_flight(),
            row_guard: self.row_guard(),
            first_output: self.first_output(),
            first_row: if windows.axes.len() > 1 { first_pixel(windows.walked(), "p0") } else { "0".to_owned() },
            first_pixel: first_pixel(windows.last(), "q0"),
            steps: windows.steps_of_all_turns(),
            steps_of_a_turn: windows.steps_of_a_turn(),
            point: spell(&(Index::local("u") * walked.gap + Index::from(-walked.ahead()))),
            turn_row: spell(&(Index::local("step") * walked.gap / walked.stride)),
            outer: self.outer(),
            storage: names::storage_type(self.graph.tensor(windows.image).data_type),
            reach: windows.reach(),
            rows_ahead: self.rows_ahead,
            fetch: self.fetch(strip_guard)?,
            place: self.place()?,
            row,
        })
    }

    /// How pixels come to registers.
    fn fetch(&self, strip_guard: Option<&str>) -> Result<String, Error> {
        let (windows, last, walked) = (self.windows, self.windows.last(), self.windows.walked());
        let image = self.graph.tensor(windows.image);
        let has_edges = |axis: TapAxis, outputs: i64| axis.is_padded() || axis.outputs % outputs != 0;
        let cast = if windows.wide_index { "(long long)" } else { "int" };
        let stride = self.stride(windows.image, LAST);
        let record = FetchText {
            storage: names::storage_type(image.data_type),
            vector: windows.strip.channels,
            image: names::pointer(self.graph, windows.image),
            offset: self.offset(windows.image, [("w0".to_owned(), stride)]),
            row_stride: format!("{cast}(h) * {}", self.stride(windows.image, WALKED)),
            pixel_stride: stride,
            height: walked.pixels,
            steps: windows.steps(),
            strip_guard,
            row_guard: if has_edges(walked, windows.strip.rows) { "h >= 0 && h < end" } else { "h < end" },
            pixel_guard: has_edges(last, windows.strip.outputs)
                .then(|| format!("w0 + at >= 0 && w0 + at < {}", last.pixels)),
        };
        template::render(template!("sweep/window_fetch.cuh"), &record)
    }

    /// How taps along the axis that is walked find their rows of outputs.
    fn place(&self) -> Result<String, Error> {
        let (windows, walked) = (self.windows, self.windows.walked());
        let record = PlaceText {
            stride: walked.stride,
            dilation: walked.dilation,
            rows: windows.strip.rows,
            rows_in_flight: windows.rows_in_flight(),
            is_straight: windows.is_straight(),
        };
        template::render(template!("sweep/window_place.cuh"), &record)
    }

    /// How a row enters the sums pixel by pixel, each times `factor` into `sum`.
    ///
    /// # Errors
    /// [`Error::Generated`] if the template fails: a defect of ours.
    pub(super) fn pixel_by_pixel(&self, factor: &str, sum: &str) -> Result<String, Error> {
        let (windows, last) = (self.windows, self.windows.last());
        let record = PixelText {
            vector: windows.strip.channels,
            outputs: windows.strip.outputs,
            reach: windows.reach(),
            fetches_ahead: windows.outer().is_empty(),
            rows_ahead: self.rows_ahead,
            walked_taps: windows.walked().taps,
            taps: last.taps,
            stride: last.stride,
            dilation: last.dilation,
            point: spell(&(Index::local("at") * last.gap + Index::from(-last.ahead()))),
            factor: factor.to_owned(),
            sum: sum.to_owned(),
        };
        template::render(template!("sweep/window_pixel.cuh"), &record)
    }

    /// How a row enters the sums tap by tap, whose weights are read for it.
    ///
    /// # Errors
    /// [`Error::Generated`] if the template fails: a defect of ours.
    pub(super) fn tap_by_tap(&self, used: &mut Used, weight: String) -> Result<String, Error> {
        used.add("fw_load_anew");
        let (windows, last) = (self.windows, self.windows.last());
        let record = TapsText {
            vector: windows.strip.channels,
            outputs: windows.strip.outputs,
            reach: windows.reach(),
            fetches_ahead: windows.outer().is_empty(),
            rows_ahead: self.rows_ahead,
            walked_taps: windows.walked().taps,
            taps: last.taps,
            stride: last.stride,
            dilation: last.dilation,
            gap: last.gap,
            ahead: last.ahead(),
            weight,
        };
        template::render(template!("sweep/window_taps.cuh"), &record)
    }

    /// Condition under which output `j` of a row exists, where some do not.
    pub(super) fn output_guard(&self) -> Option<String> {
        let outputs = self.windows.last().outputs;
        (outputs % self.windows.strip.outputs != 0).then(|| format!("q0 + j < {outputs}"))
    }

    /// Condition under which a channel exists, where a block has more.
    pub(super) fn channel_guard(&self) -> Option<String> {
        let channels = self.windows.channels;
        (channels % self.windows.block_channels() != 0).then(|| format!("channel < {channels}"))
    }

    /// Condition under which a thread has a strip, where some have none.
    pub(super) fn strip_guard(&self) -> Option<String> {
        let (strips, of_a_block) = (self.windows.strips(), i64::from(self.windows.strips_of_a_block));
        let strip = (strips % of_a_block != 0).then(|| format!("strip < {strips}"));
        let conditions: Vec<String> = strip.into_iter().chain(self.channel_guard()).collect();
        (!conditions.is_empty()).then(|| conditions.join(" && "))
    }

    /// Condition under which row `row` of a strip exists.
    fn row_guard(&self) -> String {
        let (rows, outputs) = (self.windows.strip.rows, self.windows.walked().outputs);
        let within = format!("row >= 0 && row < {rows}");
        if outputs % rows == 0 { within } else { format!("{within} && int(p0) + row < {outputs}") }
    }

    /// The spatial axes with the names of their variables and their graph axes.
    pub(super) fn axes(&self) -> impl DoubleEndedIterator<Item = (usize, TapAxis)> + '_ {
        let first = OUTPUTS.len() - self.windows.axes.len();
        self.windows.axes.iter().enumerate().map(move |(number, axis)| (first + number, *axis))
    }

    /// Elements to the next point along an axis; 0 where there is no such axis.
    pub(super) fn stride(&self, id: TensorId, name: usize) -> i64 {
        let before = (name + self.windows.axes.len()).checked_sub(OUTPUTS.len());
        before.map_or(0, |axis| step(self.graph.tensor(id), 2 + axis))
    }

    /// `const unsigned q0 = strip % 14 * 4, p0 = strip / 14 % 8 * 7, img = strip / 112;`
    pub(super) fn first_output(&self) -> Vec<String> {
        let windows = self.windows;
        let mut parts = vec![("q0", windows.strips_of_a_row(), windows.strip.outputs)];
        if windows.axes.len() > 1 {
            parts.push(("p0", windows.strips_of_a_column(), windows.strip.rows));
        }
        let outer = self.axes().rev().skip(2).map(|(name, axis)| (OUTPUTS[name], axis.outputs, 1));
        parts.extend(outer);
        let index = index_type(windows.wide_index);
        let mut below = 1;
        let mut lines = Vec::new();
        for (name, count, each) in parts {
            let value = spell(&(Index::local("strip") / below % count * each));
            lines.push(format!("const {index} {name} = {value};"));
            below *= count;
        }
        lines.push(format!("const {index} img = {};", spell(&(Index::local("strip") / below))));
        lines
    }

    fn outer(&self) -> Vec<AxisText> {
        self.axes().take(self.windows.outer().len()).map(|(name, axis)| axis_text(name, axis)).collect()
    }

    /// Loops over the taps along all axes.
    pub(super) fn loops(&self) -> Vec<AxisText> {
        self.axes().map(|(name, axis)| axis_text(name, axis)).collect()
    }

    /// Lines that say which pixel lies under a tap, and leave out what is none.
    pub(super) fn pixel(&self) -> Vec<String> {
        self.loops().into_iter().flat_map(|axis| axis.pixel).collect()
    }

    /// One output after the other, where a zero in the padding may meet what is not finite.
    pub(super) fn inside(&self) -> InsideText {
        let (windows, walked) = (self.windows, self.windows.walked());
        let index = index_type(windows.wide_index);
        let has_rows = windows.axes.len() > 1;
        let row = has_rows.then(|| format!("const {index} p = p0 + at / {};", windows.strip.outputs));
        let row_guard = (walked.outputs % windows.strip.rows != 0).then(|| format!("p < {}", walked.outputs));
        let guards: Vec<String> = row_guard.into_iter().chain(self.output_guard()).collect();
        let pixels = self.axes().skip(windows.outer().len()).map(|(name, _)| name);
        let pixels = pixels.map(|name| (PIXELS[name].to_owned(), self.stride(windows.image, name)));
        InsideText {
            vector: windows.strip.channels,
            block_channels: windows.block_channels(),
            rows: windows.strip.rows,
            outputs: windows.strip.outputs,
            output: row.into_iter().chain([format!("const {index} q = q0 + j;")]).collect(),
            guard: (!guards.is_empty()).then(|| guards.join(" && ")),
            image: names::pointer(self.graph, windows.image),
            offset: self.offset(windows.image, pixels),
        }
    }

    /// `const unsigned s = tap % 3;` of tap number `tap`.
    pub(super) fn tap_of_axes(&self) -> Vec<String> {
        let mut below = 1;
        let mut lines = Vec::new();
        for (name, axis) in self.axes().rev().filter(|(_, axis)| axis.taps > 1) {
            let value = spell(&(Index::local("tap") / below % axis.taps));
            lines.push(format!("const unsigned {} = {value};", TAPS[name]));
            below *= axis.taps;
        }
        lines
    }

    /// Elements from the first of a tensor of outputs to the vector of output `q` in row `p`.
    pub(super) fn output_offset(&self, id: TensorId) -> String {
        let inner = self.axes().skip(self.windows.outer().len()).map(|(name, _)| name);
        self.offset(id, inner.map(|name| (OUTPUTS[name].to_owned(), self.stride(id, name))))
    }

    /// Number of the first tap under those along the axes before the last so many.
    pub(super) fn first_tap(&self, last: usize) -> Index {
        let mut below = 1;
        let mut terms = Vec::new();
        for (number, (name, axis)) in self.axes().rev().enumerate() {
            terms.extend((number >= last).then(|| Index::local(TAPS[name]) * below));
            below *= axis.taps;
        }
        Index::sum(terms.into_iter().rev())
    }

    /// Elements from a tensor's first to the vector of channels at the outer coordinates and these others, with their strides.
    pub(super) fn offset(&self, id: TensorId, others: impl IntoIterator<Item = (String, i64)>) -> String {
        let cast = if self.windows.wide_index { "(long long)" } else { "int" };
        let coordinates = if id == self.windows.image { PIXELS } else { OUTPUTS };
        let images = ("img".to_owned(), step(self.graph.tensor(id), 0));
        let outer = self.axes().take(self.windows.outer().len());
        let outer = outer.map(|(name, _)| (coordinates[name].to_owned(), self.stride(id, name)));
        let terms = [images].into_iter().chain(outer).chain(others);
        let terms = terms.map(|(name, stride)| format!("{cast}({name}) * {stride}"));
        terms.chain(["int(channel)".to_owned()]).collect::<Vec<_>>().join(" + ")
    }
}
