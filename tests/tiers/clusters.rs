//! Products whose blocks share the steps along k of a tile, or operands, in clusters; transposed ones of more than few rows of C; tiles that only matmuls have;
//! tiles at the edge of C, and sums whose k ends inside a step: these configs are asked for, whatever the model would choose.

use std::collections::BTreeSet;

use fusewright::build::Build;
use fusewright::device::Device;
use fusewright::engine::{EngineConfig, Knob};
use fusewright::graph::{
    Convolution, ConvolutionDirection, DataType, Graph, PointwiseMode, ReductionMode, Tensor, TensorHandle,
};
use libtest_mimic::{Failed, Trial};

use crate::pipeline;

/// What two configs of a graph differ in, for both to run.
const KNOBS: [Knob; 4] = [Knob::ClusterK, Knob::TileM, Knob::SwapAb, Knob::TmaEpilogue];

/// The same of clusters whose blocks share operands.
const SHARING: [Knob; 5] = [Knob::ClusterM, Knob::ClusterN, Knob::TileM, Knob::Schedule, Knob::TmaEpilogue];

/// A trial for each graph: `most` configs, other ones of each graph.
pub(crate) fn trials(
    tier: &str,
    most: usize,
    device: fn() -> Result<Device, Failed>,
    run: fn(&Build) -> Result<(), Failed>,
) -> Vec<Trial> {
    let kinds = [
        ("clusters::", graphs(), parts as Knobs),
        ("multicast::", shared(), shares),
        ("multicast::walked_", walked(), walks),
        ("transposed::", all_rows(), is_of_one_tile),
        ("transposed::more_", more_rows(), has_more_rows),
        ("tiles::", odd_tiles(), is_odd),
        ("edges::", ending_inside(), is_alone),
        ("tails::", ending_inside_steps(), cuts_k),
    ];
    let named = kinds.into_iter().flat_map(|(kind, graphs, knobs)| {
        graphs.into_iter().map(move |(name, graph)| (format!("{tier}::{kind}{name}"), graph, knobs))
    });
    let trial = |(number, (name, graph, knobs)): (usize, (String, Graph, Knobs))| {
        Trial::test(name, move || {
            let device = device()?;
            let mut configs = chosen(&graph, knobs, &device)?;
            let first = 5 * number % configs.len();
            configs.rotate_left(first);
            let chosen = configs.into_iter().take(most);
            chosen.map(|config| pipeline::lower_config(&graph, config, &device)).try_for_each(|build| {
                let build = build?;
                let of_config = |failed: Failed| format!("{}: {}", build.config, failed.message().unwrap_or_default());
                run(&build).map_err(|failed| of_config(failed).into())
            })
        })
    };
    named.enumerate().map(trial).collect()
}

/// What the configs to run differ in, of one; none of one that is not to run.
type Knobs = fn(&EngineConfig) -> Option<Vec<u32>>;

fn parts(config: &EngineConfig) -> Option<Vec<u32>> {
    (config.knob(Knob::ClusterK, 1) > 1).then(|| KNOBS.map(|knob| config.knob(knob, 0)).to_vec())
}

fn shares(config: &EngineConfig) -> Option<Vec<u32>> {
    let is_shared = config.knob(Knob::ClusterM, 1) * config.knob(Knob::ClusterN, 1) > 1;
    is_shared.then(|| SHARING.map(|knob| config.knob(knob, 0)).to_vec())
}

/// The smallest tiles, of which blocks walk several.
fn walks(config: &EngineConfig) -> Option<Vec<u32>> {
    let [tile_m, tile_n] = [Knob::TileM, Knob::TileN].map(|knob| config.knob(knob, 0));
    shares(config).filter(|_| tile_m * tile_n <= 64 * 32)
}

/// Tiles that have all of 129 to 144 rows of C, which others of the transposed product do not.
fn is_of_one_tile(config: &EngineConfig) -> Option<Vec<u32>> {
    let is_it = config.knob(Knob::SwapAb, 0) == 1 && config.knob(Knob::TileN, 0) == 144;
    is_it.then(|| [Knob::TileM, Knob::TmaEpilogue].map(|knob| config.knob(knob, 0)).to_vec())
}

/// Tiles of transposed products that share out more rows of C than a tile as it stands has.
fn has_more_rows(config: &EngineConfig) -> Option<Vec<u32>> {
    let is_it = config.knob(Knob::SwapAb, 0) == 1 && config.knob(Knob::TileN, 0) >= 80;
    is_it.then(|| [Knob::TileN, Knob::TmaEpilogue].map(|knob| config.knob(knob, 0)).to_vec())
}

/// Tiles of columns that only matmuls of static shapes have, as they stand.
fn is_odd(config: &EngineConfig) -> Option<Vec<u32>> {
    let [tile_m, tile_n] = [Knob::TileM, Knob::TileN].map(|knob| config.knob(knob, 0));
    let is_it =
        matches!((tile_m, tile_n), (128, 112 | 176 | 208) | (64, 80 | 224)) && config.knob(Knob::SwapAb, 0) == 0;
    is_it.then(|| vec![tile_m, tile_n, config.knob(Knob::TmaEpilogue, 0)])
}

/// Tiles that nobody shares, of other rows, schedules and epilogues.
fn is_alone(config: &EngineConfig) -> Option<Vec<u32>> {
    let blocks = [Knob::ClusterM, Knob::ClusterN].map(|knob| config.knob(knob, 1));
    let parts = config.knob(Knob::SplitK, 1) * config.knob(Knob::ClusterK, 1);
    let knobs = [Knob::TileM, Knob::Schedule, Knob::SwapAb, Knob::TmaEpilogue].map(|knob| config.knob(knob, 0));
    (blocks == [1, 1]).then(|| knobs.into_iter().chain([parts.min(2)]).collect())
}

/// Whether k is cut, where its parts meet, and whether B stays.
fn cuts_k(config: &EngineConfig) -> Option<Vec<u32>> {
    let parts = [Knob::SplitK, Knob::ClusterK].map(|knob| config.knob(knob, 1).min(2));
    let knobs = [Knob::Schedule, Knob::StationaryB, Knob::TmaEpilogue].map(|knob| config.knob(knob, 0));
    shares(config).is_none().then(|| parts.into_iter().chain(knobs).collect())
}

/// A config for each set of values of the knobs, of those that are to run.
fn chosen(graph: &Graph, knobs: Knobs, device: &Device) -> Result<Vec<EngineConfig>, Failed> {
    let mut seen = BTreeSet::new();
    let mut configs = pipeline::configs(graph, device)?;
    configs.retain(|config| knobs(config).is_some_and(|knobs| seen.insert(knobs)));
    if configs.is_empty() { Err("no config is of this kind".into()) } else { Ok(configs) }
}

/// `A · B` with what follows, of extents, types of the operands and of the result; rows of A lie along k.
fn matmul(
    extents: [i64; 4],
    types: [DataType; 2],
    b_along_k: bool,
    after: impl Fn(&mut Graph, TensorHandle) -> TensorHandle,
) -> Graph {
    laid_out(extents, types, [true, b_along_k], after)
}

/// The same, where rows of A, and of B, lie along k, or else along m and n.
fn laid_out(
    [batch, m, n, k]: [i64; 4],
    [operand, result]: [DataType; 2],
    [a_along_k, b_along_k]: [bool; 2],
    after: impl Fn(&mut Graph, TensorHandle) -> TensorHandle,
) -> Graph {
    let mut graph =
        Graph::new().io_data_type(operand).intermediate_data_type(DataType::Float).compute_data_type(DataType::Float);
    let stride = if a_along_k { [m * k, k, 1] } else { [m * k, 1, m] };
    let a = graph.tensor(Tensor::new("A").dim([batch, m, k]).stride(stride));
    let stride = if b_along_k { [k * n, 1, k] } else { [k * n, n, 1] };
    let b = graph.tensor(Tensor::new("B").dim([batch, k, n]).stride(stride));
    let c = graph.matmul("mm", a, b);
    let last = after(&mut graph, c);
    crate::cases::output(&mut graph, last, result);
    graph
}

/// A bias of columns, a residual, and ReLU.
fn bias_and_residual(graph: &mut Graph, c: TensorHandle, [m, n]: [i64; 2]) -> TensorHandle {
    let bias = graph.tensor(Tensor::new("bias").row_major([1, 1, n]));
    let residual = graph.tensor(Tensor::new("residual").row_major([1, m, n]));
    let biased = graph.pointwise("biased", PointwiseMode::Add, &[c, bias]);
    let added = graph.pointwise("added", PointwiseMode::Add, &[biased, residual]);
    graph.pointwise("relu", PointwiseMode::ReluFwd, &[added])
}

fn graphs() -> Vec<(&'static str, Graph)> {
    use DataType::{BFloat16, Float, Fp8E4M3, Half};
    let bare = |_: &mut Graph, c| c;
    let bias_and_residual = |graph: &mut Graph, c| bias_and_residual(graph, c, [50, 152]);
    let mut graphs = vec![
        ("matmul", matmul([1, 50, 152, 1100], [BFloat16; 2], true, bare)),
        ("matmul_bias_residual_relu", matmul([1, 50, 152, 1100], [Half; 2], true, bias_and_residual)),
        ("matmul_in_rows", matmul([1, 264, 33, 832], [Half; 2], false, bare)),
        ("matmuls", matmul([3, 40, 48, 576], [BFloat16; 2], false, bare)),
        ("matmul_few_rows", matmul([1, 3, 200, 1536], [BFloat16; 2], true, bare)),
        ("matmul_odd_columns", matmul([1, 33, 41, 800], [BFloat16; 2], true, bare)),
        ("matmul_of_float", matmul([1, 130, 40, 600], [Float; 2], true, bare)),
        ("matmul_of_fp8", matmul([1, 130, 48, 1568], [Fp8E4M3, BFloat16], true, bare)),
    ];
    let told = matmul([1, 50, 152, 1100], [BFloat16; 2], true, bare).with_dynamic_shapes();
    graphs.push(("matmul_of_told_extents", told));
    graphs
}

/// Graphs with a long k whose rows straddle lines of L2, in A, in B, or in both; some whose clusters reach beyond C.
fn shared() -> Vec<(&'static str, Graph)> {
    use DataType::{BFloat16, Float, Fp8E4M3, Half, Int8, Int32};
    let bare = |_: &mut Graph, c| c;
    let in_half = |graph: &mut Graph, c| {
        graph.last_operation().compute_data_type = Some(Half);
        c
    };
    let bias_and_residual = |graph: &mut Graph, c| bias_and_residual(graph, c, [200, 248]);
    vec![
        ("matmul", matmul([1, 256, 256, 1032], [BFloat16; 2], true, bare)),
        ("matmul_bias_residual_relu", matmul([1, 200, 248, 1096], [Half; 2], true, bias_and_residual)),
        ("matmul_in_rows", matmul([1, 136, 456, 1088], [Half; 2], false, bare)),
        ("matmuls", matmul([2, 130, 200, 1096], [BFloat16; 2], false, bare)),
        ("matmul_few_rows", matmul([1, 48, 416, 1544], [BFloat16; 2], true, bare)),
        ("matmul_odd_columns", matmul([1, 129, 257, 1032], [BFloat16; 2], true, bare)),
        ("matmul_of_float", matmul([1, 256, 136, 604], [Float; 2], true, bare)),
        ("matmul_of_fp8", matmul([1, 190, 288, 2096], [Fp8E4M3, BFloat16], true, bare)),
        ("matmul_of_int8", matmul([1, 256, 144, 2064], [Int8, Int32], true, bare)),
        ("matmul_of_half_sums", matmul([1, 136, 264, 1160], [Half; 2], true, in_half)),
        ("matmul_of_told_extents", matmul([1, 136, 416, 1032], [BFloat16; 2], true, bare).with_dynamic_shapes()),
    ]
}

/// One of more tiles than run at once.
fn walked() -> Vec<(&'static str, Graph)> {
    vec![("matmul", matmul([1, 1160, 248, 1032], [DataType::BFloat16; 2], true, |_, c| c))]
}

/// Whose rows and columns end inside tiles, several of which lie below each other and side by side; with totals of rows, of columns and of all, which must have
/// nothing of what a stage held before the last rows came.
fn ending_inside() -> Vec<(&'static str, Graph)> {
    use DataType::{BFloat16, Float, Fp8E4M3, Half, Int8, Int32};
    let bare = |_: &mut Graph, c| c;
    let bias_and_residual = |graph: &mut Graph, c| bias_and_residual(graph, c, [341, 328]);
    let total = |mode, dim| {
        matmul([1, 277, 328, 200], [BFloat16; 2], true, |graph: &mut Graph, c| with_total(graph, c, mode, dim))
    };
    let told = |extents, b_along_k| matmul(extents, [BFloat16; 2], b_along_k, bare).with_dynamic_shapes();
    vec![
        ("matmul", matmul([1, 277, 328, 264], [BFloat16; 2], true, bare)),
        ("matmul_bias_residual_relu", matmul([1, 341, 328, 200], [Half; 2], true, bias_and_residual)),
        ("matmul_in_rows", matmul([1, 300, 344, 264], [Half; 2], false, bare)),
        ("matmul_in_columns", laid_out([1, 328, 280, 200], [Half; 2], [false, false], bare)),
        ("matmul_of_columns_and_rows", laid_out([1, 280, 344, 136], [Half; 2], [false, true], bare)),
        ("matmuls", matmul([3, 150, 296, 96], [BFloat16; 2], true, bare)),
        ("matmul_few_channels", matmul([1, 277, 300, 40], [Half; 2], true, bare)),
        ("matmul_odd_columns", matmul([1, 265, 297, 136], [BFloat16; 2], true, bare)),
        ("matmul_of_float", matmul([1, 259, 300, 68], [Float; 2], true, bare)),
        ("matmul_of_fp8", matmul([1, 325, 272, 464], [Fp8E4M3, BFloat16], true, bare)),
        ("matmul_of_int8", matmul([1, 270, 272, 272], [Int8, Int32], true, bare)),
        ("matmul_sums_of_columns", total(ReductionMode::Add, [1, 1, 328])),
        ("matmul_sums_of_rows", total(ReductionMode::Add, [1, 277, 1])),
        ("matmul_largest", total(ReductionMode::Max, [1, 1, 1])),
        ("convolution", convolution()),
        ("matmul_of_told_extents", told([1, 277, 328, 264], true)),
        ("matmul_in_rows_of_told_extents", told([1, 150, 280, 200], false)),
        ("matmul_of_few_told_rows", told([1, 13, 328, 264], true)),
    ]
}

/// Of a k that ends inside the only step, or inside the last of several, with whole tiles of C and with such at its edge.
fn ending_inside_steps() -> Vec<(&'static str, Graph)> {
    use DataType::{BFloat16, Float, Fp8E4M3, Half, Int8, Int32};
    let bare = |_: &mut Graph, c| c;
    let bias_and_residual = |graph: &mut Graph, c| bias_and_residual(graph, c, [128, 192]);
    vec![
        ("one_unit", matmul([1, 128, 192, 8], [BFloat16; 2], true, bare)),
        ("one_step", matmul([1, 128, 192, 40], [Half; 2], true, bias_and_residual)),
        ("one_step_in_rows", matmul([3, 136, 104, 24], [BFloat16; 2], false, bare)),
        ("one_step_in_columns", laid_out([1, 264, 128, 56], [Half; 2], [false, true], bare)),
        ("one_step_of_fp8", matmul([1, 128, 256, 48], [Fp8E4M3, BFloat16], true, bare)),
        ("one_step_of_float", matmul([2, 64, 136, 20], [Float; 2], true, bare)),
        ("one_step_of_int8", matmul([1, 200, 128, 80], [Int8, Int32], true, bare)),
        ("steps", matmul([1, 128, 192, 104], [BFloat16; 2], true, bias_and_residual)),
        ("steps_in_rows", matmul([1, 264, 104, 328], [Half; 2], false, bare)),
        ("steps_of_few_rows", matmul([1, 5, 256, 1544], [BFloat16; 2], true, bare)),
        ("steps_of_fp8", matmul([1, 24, 144, 1232], [Fp8E4M3, BFloat16], true, bare)),
        ("steps_of_float", laid_out([1, 72, 64, 340], [Float; 2], [true, true], bare)),
        ("one_step_of_told_extents", matmul([1, 136, 200, 24], [Half; 2], false, bare).with_dynamic_shapes()),
        ("steps_of_told_extents", matmul([1, 136, 200, 104], [Half; 2], true, bare).with_dynamic_shapes()),
        ("one_element", laid_out([1, 128, 192, 1], [Half; 2], [false, false], bare)),
        ("many_tiles_at_the_edge", matmul([2, 1000, 1024, 72], [Half; 2], true, bare)),
        ("many_tiles", matmul([2, 1024, 1024, 72], [Half; 2], true, bare)),
    ]
}

/// C and one total of it.
fn with_total(graph: &mut Graph, c: TensorHandle, mode: ReductionMode, dim: [i64; 3]) -> TensorHandle {
    let total = graph.reduction("total", mode, c, dim);
    crate::cases::output(graph, total, DataType::Float);
    c
}

/// A 3×3 convolution of 9×7 pixels by NHWC.
fn convolution() -> Graph {
    let mut graph = Graph::new().io_data_type(DataType::Half).intermediate_data_type(DataType::Float);
    graph = graph.compute_data_type(DataType::Float);
    let x = graph.tensor(Tensor::new("X").channels_last([5, 64, 9, 7]));
    let w = graph.tensor(Tensor::new("W").channels_last([296, 64, 3, 3]));
    let y = graph.convolution("conv", Convolution::new(ConvolutionDirection::Forward, 2).padding([1, 1]), [x, w]);
    crate::cases::output(&mut graph, y, DataType::Half);
    graph
}

/// Of a long k, whose rows leave a part of a warpgroup's over; without what is read at C's points.
fn more_rows() -> Vec<(&'static str, Graph)> {
    use DataType::{BFloat16, Fp8E4M3, Half, Int8, Int32};
    let bare = |_: &mut Graph, c| c;
    let bias = |graph: &mut Graph, c| {
        let bias = graph.tensor(Tensor::new("bias").row_major([1, 1, 136]));
        let biased = graph.pointwise("biased", PointwiseMode::Add, &[c, bias]);
        graph.pointwise("relu", PointwiseMode::ReluFwd, &[biased])
    };
    vec![
        ("matmul", matmul([1, 209, 136, 1544], [BFloat16; 2], true, bare)),
        ("matmul_bias_relu", matmul([1, 341, 136, 1600], [Half; 2], true, bias)),
        ("matmul_in_rows", matmul([1, 150, 264, 1600], [Half; 2], false, bare)),
        ("matmul_odd_columns", matmul([1, 177, 131, 1544], [BFloat16; 2], true, bare)),
        ("matmul_of_fp8", matmul([1, 190, 144, 3088], [Fp8E4M3, BFloat16], true, bare)),
        ("matmul_of_int8", matmul([1, 250, 144, 3088], [Int8, Int32], true, bare)),
        ("matmul_of_told_extents", matmul([1, 161, 136, 1544], [BFloat16; 2], true, bare).with_dynamic_shapes()),
    ]
}

/// Of more columns than any tile has, and rows of A and B that lie both ways.
fn odd_tiles() -> Vec<(&'static str, Graph)> {
    use DataType::{BFloat16, Float, Fp8E4M3, Half, Int8, Int32};
    let bare = |_: &mut Graph, c| c;
    let bias_and_residual = |graph: &mut Graph, c| bias_and_residual(graph, c, [200, 456]);
    vec![
        ("matmul", matmul([1, 136, 456, 328], [BFloat16; 2], true, bare)),
        ("matmul_bias_residual_relu", matmul([1, 200, 456, 392], [Half; 2], true, bias_and_residual)),
        ("matmul_in_rows", matmul([1, 130, 488, 264], [Half; 2], false, bare)),
        ("matmuls", matmul([2, 72, 240, 200], [BFloat16; 2], false, bare)),
        ("matmul_odd_columns", matmul([1, 136, 239, 200], [BFloat16; 2], true, bare)),
        ("matmul_of_float", matmul([1, 136, 240, 132], [Float; 2], true, bare)),
        ("matmul_of_fp8", matmul([1, 136, 464, 656], [Fp8E4M3, BFloat16], true, bare)),
        ("matmul_of_int8", matmul([1, 136, 464, 656], [Int8, Int32], true, bare)),
    ]
}

/// Of 129 to 144 rows of C.
fn all_rows() -> Vec<(&'static str, Graph)> {
    use DataType::{BFloat16, Float, Fp8E4M3, Half, Int8, Int32};
    let bare = |_: &mut Graph, c| c;
    let bias_and_residual = |graph: &mut Graph, c| bias_and_residual(graph, c, [144, 392]);
    vec![
        ("matmul", matmul([1, 136, 200, 1160], [BFloat16; 2], true, bare)),
        ("matmul_bias_residual_relu", matmul([1, 144, 392, 200], [Half; 2], true, bias_and_residual)),
        ("matmul_in_rows", matmul([1, 129, 136, 72], [Half; 2], false, bare)),
        ("matmuls", matmul([2, 140, 264, 96], [BFloat16; 2], true, bare)),
        ("matmul_of_float", matmul([1, 132, 152, 100], [Float; 2], true, bare)),
        ("matmul_of_fp8", matmul([1, 130, 272, 1120], [Fp8E4M3, BFloat16], true, bare)),
        ("matmul_of_int8", matmul([1, 143, 144, 272], [Int8, Int32], true, bare)),
        ("matmul_of_told_extents", matmul([1, 137, 200, 200], [BFloat16; 2], true, bare).with_dynamic_shapes()),
    ]
}
