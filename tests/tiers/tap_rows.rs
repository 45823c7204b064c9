//! Convolutions whose steps multiply the taps of a filter's row together, under every relation of rows to their padding, of lines of
//! pixels to boxes, and every kind of epilogue. These configs are asked for, whatever the model would choose.

use fusewright::build::Build;
use fusewright::device::Device;
use fusewright::engine::{EngineConfig, Knob};
use fusewright::graph::{
    ConvolutionDirection as Direction, ConvolutionMode, DataType, Graph, Pointwise, PointwiseMode, ReductionMode,
    Tensor, TensorHandle,
};
use libtest_mimic::{Failed, Trial};

use crate::cases::output;
use crate::convolution_cases::Layer;
use crate::{infinities, pipeline};

/// How many configs of a graph run.
#[derive(Clone, Copy)]
pub(crate) enum Configs {
    /// So many, other ones of each graph.
    AtMost(usize),
    /// One of each schedule, way of the epilogue and of k.
    OneOfEach,
}

/// Epilogues that do not tell apart what is not finite.
const ROUNDED: &str = "index";

/// A trial for each graph.
pub(crate) fn trials(
    tier: &str,
    configs: Configs,
    device: fn() -> Result<Device, Failed>,
    run: fn(&Build) -> Result<(), Failed>,
) -> Vec<Trial> {
    let trial =
        |(number, (name, graph))| trial(format!("{tier}::tap_rows::{name}"), graph, number, configs, device, run);
    graphs().into_iter().enumerate().map(trial).collect()
}

/// A trial for each graph with operands that are not finite, some of them beside padding.
pub(crate) fn infinities(
    tier: &str,
    configs: Configs,
    device: fn() -> Result<Device, Failed>,
    run: infinities::Run,
) -> Vec<Trial> {
    let agrees = move |lowered: &Build| infinities::agrees(lowered, run);
    let trial = |(number, (name, graph))| {
        trial(format!("{tier}::infinities::tap_rows::{name}"), graph, number, configs, device, agrees)
    };
    graphs().into_iter().filter(|(name, _)| !name.contains(ROUNDED)).enumerate().map(trial).collect()
}

fn trial(
    name: String,
    graph: Graph,
    number: usize,
    configs: Configs,
    device: fn() -> Result<Device, Failed>,
    run: impl Fn(&Build) -> Result<(), Failed> + Send + 'static,
) -> Trial {
    Trial::test(name, move || {
        let device = device()?;
        for config in chosen(&graph, number, configs, &device)? {
            run(&pipeline::lower_config(&graph, config, &device)?)?;
        }
        Ok(())
    })
}

fn chosen(graph: &Graph, number: usize, configs: Configs, device: &Device) -> Result<Vec<EngineConfig>, Failed> {
    let mut firsts: Vec<EngineConfig> = Vec::new();
    let kind = |config: &EngineConfig| {
        [Knob::Schedule, Knob::TmaEpilogue]
            .map(|knob| config.knob(knob, 0) == 1)
            .into_iter()
            .chain([config.knob(Knob::SplitK, 1) > 1])
    };
    for config in pipeline::configs(graph, device)?.into_iter().filter(|config| config.knob(Knob::TapRows, 0) == 1) {
        if !firsts.iter().any(|first| kind(first).eq(kind(&config))) {
            firsts.push(config);
        }
    }
    if firsts.is_empty() {
        return Err("no config multiplies the taps of a row together".into());
    }
    Ok(match configs {
        Configs::OneOfEach => firsts,
        Configs::AtMost(count) => {
            let start = number % firsts.len();
            firsts.rotate_left(start);
            firsts.into_iter().take(count).collect()
        }
    })
}

fn graphs() -> Vec<(String, Graph)> {
    let mut graphs = Vec::new();
    for (name, layer) in layers() {
        for (direction, of_direction) in [(Direction::Forward, "fprop"), (Direction::BackwardData, "dgrad")] {
            let is_in_phases = direction == Direction::BackwardData && layer.stride.iter().any(|&stride| stride > 1);
            if !is_in_phases {
                graphs.push((format!("{of_direction}_{name}"), layer.plain(direction)));
            }
        }
    }
    for (name, epilogue) in EPILOGUES {
        for (direction, of_direction) in [(Direction::Forward, "fprop"), (Direction::BackwardData, "dgrad")] {
            let (mut graph, core) = base().core(direction, |_, _, id| id);
            epilogue(&mut graph, core);
            graphs.push((format!("{of_direction}_{name}"), graph));
        }
    }
    let narrow = Layer { channels: [64, 16], ..base() };
    let (mut graph, core) = narrow.core(Direction::Forward, |_, _, id| id);
    let relu = graph.pointwise("relu", PointwiseMode::ReluFwd, &[core]);
    output(&mut graph, core, DataType::Float);
    output(&mut graph, relu, DataType::Int8);
    graphs.push(("fprop_floats_and_bytes_in_short_rows".to_owned(), graph));
    let far = Layer { dilation: vec![70], ..axes(&[160], &[3], &[0]) };
    for (name, layer) in [("", far.clone()), ("_of_groups", Layer { groups: 2, channels: [128, 128], ..far })] {
        let (mut graph, core) = layer.core(Direction::Forward, |_, _, id| id);
        bias_add_relu(&mut graph, core);
        graphs.push((format!("fprop_taps_far_apart{name}"), graph));
    }
    // vectors along pixels, of which lines have some number that is not that of positions
    for (name, pixels, channels) in [("six", 8, 1), ("seven", 9, 1), ("eight", 10, 1), ("twelve", 14, 40)] {
        let layer = Layer { channels: [64, channels], ..axes(&[7, pixels], &[3, 3], &[0, 0]) };
        for (kind, data_type) in [("", DataType::Half), ("_in_bits", DataType::Boolean)] {
            let (mut graph, core) = layer.core(Direction::Forward, |_, _, id| id);
            let dim = graph.tensor_mut(core).dim.clone();
            let zero = graph.tensor(Tensor::new("threshold").channels_last([1, channels, 1, 1]));
            let mode = if data_type == DataType::Boolean { PointwiseMode::CmpGt } else { PointwiseMode::Sub };
            let result = graph.pointwise("compared", mode, &[core, zero]);
            graph.tensor_mut(result).stride = Tensor::new("rows").row_major(dim).stride;
            output(&mut graph, result, data_type);
            graphs.push((format!("fprop_lines_of_{name}_pixels{kind}"), graph));
        }
    }
    // of 8 and 4 bytes the gradient's filters do not run along k
    let short = |types: [DataType; 4], channels| Layer { groups: 4, channels, types, ..base() };
    let floats = short([DataType::Float; 4], [32, 64]);
    let fp8 = short([DataType::Fp8E4M3, DataType::Fp8E5M2, DataType::Float, DataType::Half], [128, 64]);
    for (name, layer) in [("groups_of_8_floats", floats), ("groups_of_32_bytes", fp8)] {
        graphs.push((format!("fprop_{name}"), layer.plain(Direction::Forward)));
    }
    let grouped = Layer { groups: 2, channels: [128, 128], ..base() };
    for (name, epilogue) in [("bias_add_relu", bias_add_relu as Epilogue), ("genstats", genstats)] {
        let (mut graph, core) = grouped.core(Direction::Forward, |_, _, id| id);
        epilogue(&mut graph, core);
        graphs.push((format!("fprop_grouped_{name}"), graph));
    }
    graphs
}

/// A padded 3×3 layer of as many channels as a step has.
fn base() -> Layer {
    Layer { channels: [64, 64], ..Layer::small() }
}

/// The same of other pixels and taps, with as much padding on both sides.
fn axes(input: &[i64], filter: &[i64], padding: &[i64]) -> Layer {
    Layer {
        input: input.to_vec(),
        filter: filter.to_vec(),
        stride: vec![1; input.len()],
        dilation: vec![1; input.len()],
        pre: padding.to_vec(),
        post: padding.to_vec(),
        ..base()
    }
}

fn layers() -> Vec<(&'static str, Layer)> {
    use DataType as T;
    let types = |types: [T; 4], channels: [i64; 2]| Layer { types, channels, ..base() };
    vec![
        ("3x3", base()),
        ("of_many_images", Layer { images: 9, input: vec![9, 11], ..base() }),
        (
            "5x5_with_other_padding_behind",
            Layer { pre: vec![2, 1], post: vec![1, 3], ..axes(&[7, 6], &[5, 5], &[0, 0]) },
        ),
        ("without_padding", axes(&[7, 9], &[3, 3], &[0, 0])),
        ("padding_behind_alone", Layer { post: vec![2, 2], ..axes(&[7, 9], &[3, 3], &[0, 0]) }),
        ("padding_before_alone", Layer { pre: vec![2, 2], ..axes(&[7, 9], &[3, 3], &[0, 0]) }),
        ("padding_beyond_the_taps", axes(&[5, 6], &[3, 3], &[3, 4])),
        ("even_filter", Layer { pre: vec![0, 1], post: vec![1, 2], ..axes(&[7, 6], &[2, 4], &[0, 0]) }),
        ("dilated", Layer { dilation: vec![2, 3], ..axes(&[9, 11], &[3, 3], &[2, 3]) }),
        ("rotated", Layer { mode: ConvolutionMode::Convolution, ..axes(&[7, 6], &[3, 4], &[1, 2]) }),
        ("rows_at_stride_2", Layer { stride: vec![2, 1], ..base() }),
        ("one_row_of_taps", axes(&[7, 6], &[1, 3], &[0, 1])),
        ("seven_taps", axes(&[3, 12], &[1, 7], &[0, 3])),
        ("1d", axes(&[33], &[3], &[1])),
        ("3d", axes(&[3, 4, 5], &[3, 3, 3], &[1, 1, 1])),
        ("long_lines", axes(&[3, 70], &[3, 3], &[1, 1])),
        ("lines_of_three", axes(&[19, 3], &[3, 3], &[1, 1])),
        ("lines_of_two", axes(&[29, 2], &[3, 3], &[1, 1])),
        ("lines_of_sixteen_positions", axes(&[7, 15], &[3, 3], &[1, 1])),
        ("taps_longer_than_lines", axes(&[7, 3], &[3, 7], &[1, 3])),
        ("72_channels_to_40", Layer { channels: [72, 40], ..base() }),
        ("200_channels_to_8", Layer { channels: [200, 8], ..base() }),
        ("136_channels_to_136", Layer { channels: [136, 136], images: 1, ..base() }),
        ("grouped", Layer { groups: 2, channels: [128, 128], ..base() }),
        ("32_channels", Layer { channels: [32, 32], ..base() }),
        ("32_channels_to_40", Layer { channels: [32, 40], ..base() }),
        ("groups_of_32", Layer { groups: 4, channels: [128, 128], ..base() }),
        ("groups_of_72", Layer { groups: 2, channels: [144, 144], images: 1, ..base() }),
        ("groups_of_24", Layer { groups: 4, channels: [96, 64], ..base() }),
        ("groups_of_16", Layer { groups: 4, channels: [64, 64], ..base() }),
        (
            "groups_of_16_bfloat16",
            Layer {
                groups: 3,
                input: vec![9, 13],
                ..types([T::BFloat16, T::BFloat16, T::Float, T::BFloat16], [48, 48])
            },
        ),
        ("groups_of_16_in_5x5", Layer { groups: 2, channels: [32, 32], ..axes(&[7, 9], &[5, 5], &[2, 2]) }),
        ("24_channels_to_96", Layer { channels: [24, 96], ..base() }),
        ("groups_of_96", Layer { groups: 2, channels: [192, 192], images: 1, ..base() }),
        ("of_bfloat16", types([T::BFloat16, T::BFloat16, T::Float, T::BFloat16], [64, 48])),
        ("to_float", types([T::Half, T::Half, T::Float, T::Float], [64, 40])),
        ("of_half_sums", types([T::Half; 4], [64, 64])),
    ]
}

type Epilogue = fn(&mut Graph, TensorHandle);

const EPILOGUES: &[(&str, Epilogue)] = &[
    ("bias_add_relu", bias_add_relu),
    ("add_of_pixels", |g, core| added(g, core, 0b1101)),
    ("add_of_rows", |g, core| added(g, core, 0b0101)),
    ("add_of_columns_and_channels", |g, core| added(g, core, 0b1010)),
    ("add_of_images", |g, core| added(g, core, 0b0001)),
    ("add_of_images_and_channels", |g, core| added(g, core, 0b0011)),
    ("genstats", genstats),
    ("bias_add_relu_genstats", |g, core| {
        let relu = bias_add_relu_of(g, core);
        statistics(g, relu);
    }),
    ("max_of_channels", |g, core| reduced(g, core, ReductionMode::Max, 0b0010)),
    ("min_of_all", |g, core| reduced(g, core, ReductionMode::Min, 0b0000)),
    ("sum_of_all", |g, core| reduced(g, core, ReductionMode::Add, 0b0000)),
    ("sum_of_pixels", |g, core| reduced(g, core, ReductionMode::Add, 0b1101)),
    ("sum_of_images_and_channels", |g, core| reduced(g, core, ReductionMode::Add, 0b0011)),
    ("index_of_columns", |g, core| {
        let attributes = Pointwise { axis: Some(3), ..Pointwise::new(PointwiseMode::GenIndex) };
        let column = g.pointwise_with("column", attributes, &[core]);
        g.tensor_mut(column).data_type = Some(DataType::Int32);
        let sum = g.pointwise("sum", PointwiseMode::Add, &[core, column]);
        output(g, sum, DataType::Half);
    }),
    ("floats_and_bytes", |g, core| {
        let relu = g.pointwise("relu", PointwiseMode::ReluFwd, &[core]);
        output(g, core, DataType::Float);
        output(g, relu, DataType::Fp8E4M3);
    }),
    ("mask", |g, core| {
        let zero = g.tensor(Tensor::new("threshold").channels_last([1, 64, 1, 1]));
        let mask = g.pointwise("mask", PointwiseMode::CmpGt, &[core, zero]);
        output(g, mask, DataType::Boolean);
    }),
];

/// Dims of C with the axes of `kept`; 1 along others.
fn kept(graph: &mut Graph, core: TensorHandle, kept: u32) -> Vec<i64> {
    let dim = graph.tensor_mut(core).dim.clone();
    dim.iter().enumerate().map(|(axis, &extent)| if kept >> axis & 1 == 1 { extent } else { 1 }).collect()
}

/// A tensor with the axes of `axes` added.
fn added(graph: &mut Graph, core: TensorHandle, axes: u32) {
    let dim = kept(graph, core, axes);
    let other = graph.tensor(Tensor::new("other").channels_last(dim));
    let sum = graph.pointwise("sum", PointwiseMode::Add, &[core, other]);
    output(graph, sum, DataType::Half);
}

fn bias_add_relu_of(graph: &mut Graph, core: TensorHandle) -> TensorHandle {
    let [bias, residual] = [0b0010, 0b1111].map(|axes| kept(graph, core, axes));
    let bias = graph.tensor(Tensor::new("bias").channels_last(bias));
    let residual = graph.tensor(Tensor::new("residual").channels_last(residual));
    let biased = graph.pointwise("biased", PointwiseMode::Add, &[core, bias]);
    let sum = graph.pointwise("sum", PointwiseMode::Add, &[biased, residual]);
    let relu = graph.pointwise("relu", PointwiseMode::ReluFwd, &[sum]);
    output(graph, biased, DataType::BFloat16);
    output(graph, relu, DataType::Half);
    relu
}

fn bias_add_relu(graph: &mut Graph, core: TensorHandle) {
    bias_add_relu_of(graph, core);
}

fn statistics(graph: &mut Graph, of: TensorHandle) {
    let (sum, squares) = graph.genstats("statistics", of);
    output(graph, sum, DataType::Float);
    output(graph, squares, DataType::Float);
}

fn genstats(graph: &mut Graph, core: TensorHandle) {
    output(graph, core, DataType::Half);
    statistics(graph, core);
}

fn reduced(graph: &mut Graph, core: TensorHandle, mode: ReductionMode, axes: u32) {
    let target = kept(graph, core, axes);
    let stored = graph.pointwise("relu", PointwiseMode::ReluFwd, &[core]);
    output(graph, stored, DataType::Half);
    let reduced = graph.reduction("reduced", mode, core, target);
    output(graph, reduced, DataType::Float);
}
