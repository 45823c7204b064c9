//! Products whose blocks keep B in shared memory while tiles of A pass by: of few multiprocessors, so that each has several tiles of small
//! problems. These configs are asked for, whatever the model would choose.

use std::collections::BTreeSet;

use fusewright::build::Build;
use fusewright::device::Device;
use fusewright::engine::{EngineConfig, Knob};
use fusewright::graph::{ConvolutionDirection as Direction, DataType, Graph, PointwiseMode, ReductionMode, Tensor};
use libtest_mimic::{Failed, Trial};

use crate::cases::output;
use crate::convolution_cases::Layer;
use crate::pipeline;

/// Multiprocessors of the devices for which kernels are made: some that columns of tiles divide, and some that they do not.
const MULTIPROCESSORS: [u32; 2] = [6, 7];

/// What two configs of a graph differ in, for both to run.
const KNOBS: [Knob; 4] = [Knob::Schedule, Knob::TmaEpilogue, Knob::TapRows, Knob::Occupancy];

/// A trial for each graph: `most` configs of each device, other ones of each graph.
pub(crate) fn trials(
    tier: &str,
    most: usize,
    device: fn() -> Result<Device, Failed>,
    run: fn(&Build) -> Result<(), Failed>,
) -> Vec<Trial> {
    let trial = |(number, (name, graph)): (usize, (&str, Graph))| {
        Trial::test(format!("{tier}::stationary::{name}"), move || {
            for sm_count in MULTIPROCESSORS {
                let device = Device { sm_count, ..device()? };
                let mut configs = chosen(&graph, &device)?;
                let first = number % configs.len();
                configs.rotate_left(first);
                for config in configs.into_iter().take(most) {
                    run(&pipeline::lower_config(&graph, config, &device)?)?;
                }
            }
            Ok(())
        })
    };
    graphs().into_iter().enumerate().map(trial).collect()
}

/// A config for each set of values of the knobs, of those that keep B.
fn chosen(graph: &Graph, device: &Device) -> Result<Vec<EngineConfig>, Failed> {
    let mut seen = BTreeSet::new();
    let mut configs = pipeline::configs(graph, device)?;
    configs
        .retain(|config| config.knob(Knob::StationaryB, 0) == 1 && seen.insert(KNOBS.map(|knob| config.knob(knob, 0))));
    if configs.is_empty() { Err("no config keeps B in shared memory".into()) } else { Ok(configs) }
}

fn graphs() -> Vec<(&'static str, Graph)> {
    use DataType as T;
    let base = Layer { images: 13, channels: [64, 40], input: vec![11, 9], ..Layer::small() };
    let pointwise = Layer { filter: vec![1, 1], pre: vec![0, 0], post: vec![0, 0], ..base.clone() };
    let types = |types: [T; 4], layer: &Layer| Layer { types, ..layer.clone() };
    let plain = |layer: Layer, direction| layer.plain(direction);
    let fp8 = [T::Fp8E4M3, T::Fp8E5M2, T::Float, T::Half];
    let mut graphs = vec![
        ("fprop_3x3", plain(base.clone(), Direction::Forward)),
        ("dgrad_3x3", plain(base.clone(), Direction::BackwardData)),
        (
            "fprop_1x1_of_8_channels",
            plain(Layer { channels: [8, 16], images: 40, ..pointwise.clone() }, Direction::Forward),
        ),
        ("dgrad_1x1_of_24_channels", plain(Layer { channels: [24, 32], ..pointwise.clone() }, Direction::BackwardData)),
        ("fprop_72_channels_to_24", plain(Layer { channels: [72, 24], ..base.clone() }, Direction::Forward)),
        ("dgrad_72_channels_from_136", plain(Layer { channels: [72, 136], ..base.clone() }, Direction::BackwardData)),
        ("fprop_at_stride_2", plain(Layer { images: 40, stride: vec![2, 2], ..base.clone() }, Direction::Forward)),
        ("fprop_of_float", plain(types([T::Float; 4], &base), Direction::Forward)),
        ("fprop_of_fp8", plain(types(fp8, &base), Direction::Forward)),
        ("fprop_of_half_sums", plain(types([T::Half; 4], &base), Direction::Forward)),
        ("fprop_in_groups", plain(Layer { channels: [128, 128], groups: 2, ..base.clone() }, Direction::Forward)),
        ("dgrad_in_groups", plain(Layer { channels: [96, 96], groups: 2, ..base.clone() }, Direction::BackwardData)),
        (
            "fprop_in_groups_of_16",
            plain(Layer { channels: [48, 48], groups: 3, images: 120, ..base.clone() }, Direction::Forward),
        ),
        (
            "fprop_in_two_columns",
            plain(Layer { channels: [32, 264], images: 29, ..pointwise.clone() }, Direction::Forward),
        ),
    ];
    let (mut statistics, core) = base.core(Direction::Forward, |_, _, id| id);
    let relu = statistics.pointwise("relu", PointwiseMode::ReluFwd, &[core]);
    output(&mut statistics, relu, T::Half);
    let (sum, squares) = statistics.genstats("statistics", relu);
    output(&mut statistics, sum, T::Float);
    output(&mut statistics, squares, T::Float);
    graphs.push(("fprop_relu_genstats", statistics));
    let (mut residual, core) = pointwise.core(Direction::Forward, |_, _, id| id);
    let dim = residual.tensor_mut(core).dim.clone();
    let other = residual.tensor(Tensor::new("residual").channels_last(dim));
    let added = residual.pointwise("added", PointwiseMode::Add, &[core, other]);
    output(&mut residual, added, T::Half);
    let total = residual.reduction("total", ReductionMode::Max, added, [1, 1, 1, 1]);
    output(&mut residual, total, T::Float);
    graphs.push(("fprop_add_max", residual));
    let mut matmul = Graph::new().io_data_type(T::BFloat16).compute_data_type(T::Float);
    let a = matmul.tensor(Tensor::new("A").row_major([1, 1000, 72]));
    let b = matmul.tensor(Tensor::new("B").row_major([1, 72, 48]));
    let c = matmul.matmul("mm", a, b);
    matmul.set_output(c);
    graphs.push(("matmul", matmul));
    let mut batch = Graph::new().io_data_type(T::Half).compute_data_type(T::Float);
    let a = batch.tensor(Tensor::new("A").row_major([3, 520, 40]));
    let b = batch.tensor(Tensor::new("B").dim([3, 40, 24]).stride([40 * 24, 1, 40]));
    let c = batch.matmul("mm", a, b);
    batch.set_output(c);
    graphs.push(("matmuls", batch));
    graphs
}
