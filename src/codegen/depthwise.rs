//! Record of the skeleton of depthwise convolutions.

use serde::Serialize;

use super::index::{index_type, spell};
use super::names;
use super::sections::Used;
use super::sweep::SweepSpeller;
use crate::error::Error;
use crate::graph::{DataType, FinalizedGraph, TensorId};
use crate::kernel::{Definition, DepthwiseKernel, Index, TapAxis, Variable, needed, step};

/// Variables of an output along the spatial axes, and of the pixels under a tap, the last axis as the last of three.
const OUTPUTS: [&str; 3] = ["o", "p", "q"];
const PIXELS: [&str; 3] = ["d", "h", "w"];
const TAPS: [&str; 3] = ["t", "r", "s"];

/// What `sweep/depthwise.cu` reads beside the function's name and parameters.
#[derive(Serialize)]
pub(super) struct DepthwiseText {
    threads: u32,
    /// Blocks that share a multiprocessor at least.
    blocks: u32,
    index: &'static str,
    /// Channels of a vector, of a block and of all; threads along them, and groups of outputs of a block.
    vector: i64,
    block_channels: i64,
    channels: i64,
    has_rest: bool,
    columns: u32,
    rows: u32,
    taps: i64,
    /// Where weight `i` of the block lies in the filter: its taps, and the offset.
    weight_taps: Vec<String>,
    weight: String,
    /// Number of groups of outputs, and the first output of one.
    groups: i64,
    outputs: i64,
    first_output: Vec<String>,
    /// Loops over the taps along outer axes.
    outer: Vec<OuterText>,
    /// Along the last axis: its first pixel, their number, taps and steps, and conditions.
    last: LastText,
    /// The first weight under the outer taps, in a block's weights.
    row_of_taps: String,
    /// The first pixel in the image.
    image: String,
    offset: String,
    pixel_stride: i64,
    point: PointText,
    evaluate: String,
}

#[derive(Serialize)]
struct OuterText {
    tap: &'static str,
    taps: i64,
    /// The point under the tap, where pixels have gaps; the pixel.
    point: Option<PixelText>,
    pixel: PixelText,
}

#[derive(Serialize)]
struct PixelText {
    name: String,
    value: String,
    /// Condition under which there is none.
    outside: Option<String>,
}

#[derive(Serialize)]
struct LastText {
    /// The group's first pixel, which may lie outside.
    first: String,
    reach: i64,
    taps: i64,
    stride: i64,
    /// The point of pixel `at`, counted from the window's first.
    point: String,
    dilation: i64,
    pixels: i64,
    is_padded: bool,
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
    used.add("FW_SHARED");
    used.add("fw_vector");
    used.add(names::storage_section(DataType::Float));
    for id in [kernel.image, kernel.filter] {
        used.add(names::storage_section(graph.tensor(id).data_type));
    }
    let window = Window { graph, kernel };
    let text = SweepSpeller::new(graph, used, &kernel.sweep, &[]).text(&[], "");
    let mut uses = text.uses.clone();
    let coordinates = needed(window.coordinates(), &mut uses);
    let index = index_type(kernel.sweep.wide_index);
    let last = window.last();
    Ok(DepthwiseText {
        threads: kernel.columns * kernel.rows,
        blocks: kernel.blocks(),
        index,
        vector: kernel.sweep.vector,
        block_channels: kernel.block_channels(),
        channels: kernel.channels,
        has_rest: kernel.channels % kernel.block_channels() != 0,
        columns: kernel.columns,
        rows: kernel.rows,
        taps: kernel.taps(),
        weight_taps: window.weight_taps(),
        weight: format!("fw_value({}[{}])", names::pointer(graph, kernel.filter), spell(&window.weight())),
        groups: window.groups(),
        outputs: kernel.outputs,
        first_output: window.first_output(index),
        outer: window.outer(),
        last: LastText {
            first: first_pixel(last),
            reach: last.reach(kernel.outputs),
            taps: last.taps,
            stride: last.stride,
            point: spell(&(Index::local("at") * last.gap + Index::from(-last.ahead()))),
            dilation: last.dilation,
            pixels: last.pixels,
            is_padded: last.is_padded() || last.outputs % kernel.outputs != 0,
        },
        row_of_taps: spell(&window.row_of_taps()),
        image: names::pointer(graph, kernel.image),
        offset: window.offset(),
        pixel_stride: step(graph.tensor(kernel.image), kernel.axes.len() + 1),
        point: PointText {
            guard: (last.outputs % kernel.outputs != 0).then(|| format!("q0 + j < {}", last.outputs)),
            coordinates: super::index::definition_lines(index, &coordinates),
        },
        evaluate: text.evaluate()?,
    })
}

/// The first pixel of the window of output `q0`, a multiple of the gap.
fn first_pixel(axis: TapAxis) -> String {
    match axis.gap {
        1 => format!("int(q0) * {} - {}", axis.stride, axis.padding),
        gap => format!("int(q0) / {gap} - {}", -axis.first()),
    }
}

/// Spells where windows lie.
struct Window<'a> {
    graph: &'a FinalizedGraph,
    kernel: &'a DepthwiseKernel,
}

impl Window<'_> {
    /// The spatial axes with the names of their variables and their graph axes.
    fn axes(&self) -> impl DoubleEndedIterator<Item = (usize, TapAxis)> + '_ {
        let first = OUTPUTS.len() - self.kernel.axes.len();
        self.kernel.axes.iter().enumerate().map(move |(number, axis)| (first + number, *axis))
    }

    fn graph_axis(&self, name: usize) -> usize {
        name + 2 + self.kernel.axes.len() - OUTPUTS.len()
    }

    fn last(&self) -> TapAxis {
        self.kernel.axes[self.kernel.axes.len() - 1]
    }

    fn stride(&self, id: TensorId, name: usize) -> i64 {
        step(self.graph.tensor(id), self.graph_axis(name))
    }

    /// `const unsigned s = tap % 3;` of weight number `tap`.
    fn weight_taps(&self) -> Vec<String> {
        let mut below = 1;
        let mut lines = Vec::new();
        for (name, axis) in self.axes().rev().filter(|(_, axis)| axis.taps > 1) {
            let value = spell(&(Index::local("tap") / below % axis.taps));
            lines.push(format!("const unsigned {} = {value};", TAPS[name]));
            below *= axis.taps;
        }
        lines
    }

    /// Where the weight of `channel` under the taps lies.
    fn weight(&self) -> Index {
        let filter = self.kernel.filter;
        let along = |(name, axis): (usize, TapAxis)| {
            let stride = self.stride(filter, name);
            let tap = Index::local(TAPS[name]);
            match (axis.taps, axis.is_turned) {
                (1, _) => Index::ZERO,
                (taps, true) => tap * -stride + Index::from((taps - 1) * stride),
                (_, false) => tap * stride,
            }
        };
        let channel = Index::local("channel") * step(self.graph.tensor(filter), 0);
        Index::sum([channel].into_iter().chain(self.axes().map(along)))
    }

    fn groups(&self) -> i64 {
        let outer: i64 = self.kernel.axes[..self.kernel.axes.len() - 1].iter().map(|axis| axis.outputs).product();
        let images = self.kernel.sweep.space.axes[0].extent;
        images * outer * self.kernel.groups_of_a_row()
    }

    /// `const unsigned q0 = group % 14 * 4, p = group / 14 % 56, img = group / 784;`
    fn first_output(&self, index: &str) -> Vec<String> {
        let group = || Index::local("group");
        let mut below = self.kernel.groups_of_a_row();
        let mut lines = vec![format!("const {index} q0 = {};", spell(&(group() % below * self.kernel.outputs)))];
        for (name, axis) in self.axes().rev().skip(1) {
            lines.push(format!("const {index} {} = {};", OUTPUTS[name], spell(&(group() / below % axis.outputs))));
            below *= axis.outputs;
        }
        lines.push(format!("const {index} img = {};", spell(&(group() / below))));
        lines
    }

    fn outer(&self) -> Vec<OuterText> {
        let count = self.kernel.axes.len() - 1;
        let text = |(name, axis): (usize, TapAxis)| {
            let (tap, pixel) = (TAPS[name], PIXELS[name]);
            let value =
                format!("int({}) * {} + {tap} * {} - {}", OUTPUTS[name], axis.stride, axis.dilation, axis.padding);
            let outside = axis.is_padded().then(|| format!("{pixel} < 0 || {pixel} >= {}", axis.pixels));
            let point = (axis.gap > 1).then(|| PixelText {
                name: format!("over_{pixel}"),
                value: value.clone(),
                outside: Some(format!("over_{pixel} < 0 || over_{pixel} % {} != 0", axis.gap)),
            });
            let value = if axis.gap > 1 { format!("over_{pixel} / {}", axis.gap) } else { value };
            OuterText { tap, taps: axis.taps, point, pixel: PixelText { name: pixel.to_owned(), value, outside } }
        };
        self.axes().take(count).map(text).collect()
    }

    /// Number of the first tap under the outer ones.
    fn row_of_taps(&self) -> Index {
        let mut below = self.last().taps;
        let mut terms = Vec::new();
        for (name, axis) in self.axes().rev().skip(1) {
            terms.push(Index::local(TAPS[name]) * below);
            below *= axis.taps;
        }
        Index::sum(terms.into_iter().rev())
    }

    /// Elements from the image's first to the vector's pixel `at` of a row, without that pixel.
    fn offset(&self) -> String {
        let image = self.kernel.image;
        let cast = if self.kernel.sweep.wide_index { "(long long)" } else { "int" };
        let term = |name: &str, stride: i64| format!("{cast}({name}) * {stride}");
        let count = self.kernel.axes.len() - 1;
        let outer = self.axes().take(count).map(|(name, _)| term(PIXELS[name], self.stride(image, name)));
        let images = term("img", step(self.graph.tensor(image), 0));
        [images].into_iter().chain(outer).chain(["int(channel)".to_owned()]).collect::<Vec<_>>().join(" + ")
    }

    /// Axes of the epilogue's space.
    fn coordinates(&self) -> Vec<Definition> {
        let spatial = self.kernel.axes.len();
        let outer = self.axes().take(spatial - 1).map(|(name, _)| Index::local(OUTPUTS[name]));
        let values = [Index::local("img")]
            .into_iter()
            .chain(outer)
            .chain([Index::local("q0") + Index::local("j"), Index::local("channel")]);
        values.enumerate().map(|(axis, value)| Definition::new(Variable::Axis(axis), value)).collect()
    }
}
