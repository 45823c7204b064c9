//! g2(inputs) without a core: pointwise graphs, reductions, statistics, resamplings.

use super::super::choices::Choices;
use super::layout::{Order, aligned_extent, tensor};
use super::matmul::finish;
use super::stage::{Frame, Stage};
use super::{VIRTUAL_TYPES_WITH_BOOLEAN, epilogue_types};
use crate::graph::{DataType, Fraction, Graph, PaddingMode, Resample, ResampleMode, TensorId};
use crate::support::SurfaceId;

/// Parts of the graphs that begin with a resampling, end with a reduction, or with statistics; percent.
const RESAMPLED: usize = 15;
const REDUCTION: usize = 25;
const STATISTICS: usize = 10;

/// Types of inputs: those of other surfaces' side inputs, and FP8 (`S70-DTYPE-FP8-PW-ONLY`).
const INPUT_TYPES: &[DataType] =
    &[DataType::Float, DataType::Half, DataType::BFloat16, DataType::Int8, DataType::Int32, DataType::Fp8E4M3];

/// Shapes of side inputs by rank 3 (`S70-PW-3D-DIMS`), 4 and 5 (`S70-PW-45D-DIMS`).
const MATRIX_SIDES: &[&[bool]] = &[&[true, true, true], &[true, false, true], &[true, true, false], &[false; 3]];
const IMAGE_SIDES: &[&[bool]] =
    &[&[true, true, true, true], &[false, true, false, false], &[true, false, true, true], &[false; 4]];
const VOLUME_SIDES: &[&[bool]] =
    &[&[true; 5], &[false, true, false, false, false], &[true, false, true, true, true], &[false; 5]];

pub(super) fn graph(choices: &mut Choices<'_>) -> Graph {
    let mut graph = Graph::new()
        .io_data_type(DataType::Half)
        .compute_data_type(DataType::Float)
        .intermediate_data_type(DataType::Float);
    let rank = choices.of(&[4, 3, 5, 4]);
    let (sides, order) = match rank {
        3 if choices.chance(25) => (MATRIX_SIDES, Order::ColumnMajor),
        3 => (MATRIX_SIDES, Order::RowMajor),
        4 => (IMAGE_SIDES, Order::ChannelsLast),
        _ => (VOLUME_SIDES, Order::ChannelsLast),
    };
    let mut full = dims(choices, rank);
    let resampled = (rank == 4 && choices.chance(RESAMPLED)).then(|| resampled(&mut graph, choices, &mut full));
    let [_, _, compute_types, output_types] = epilogue_types(SurfaceId::S70);
    let operations = usize::from(resampled.is_none()) + choices.below(5);
    let reduces = rank > 3 && choices.chance(REDUCTION);
    let has_statistics = rank > 3 && !reduces && choices.chance(STATISTICS);
    let virtual_types = VIRTUAL_TYPES_WITH_BOOLEAN;
    let frame = Frame { name: "pw", full, sides, order, side_types: INPUT_TYPES, virtual_types, compute_types };
    let mut stage = Stage::new(&mut graph, choices, frame, resampled);
    stage.grow(operations);
    if reduces {
        stage.reduce(sides);
    }
    finish(&mut stage, reduces, output_types);
    if has_statistics && operations > 0 {
        let last = stage.last();
        statistics(&mut graph, last);
    }
    graph
}

/// Extents; that of the axis which is contiguous keeps vectors of bytes aligned (`S70-G2-ALIGN-32`).
fn dims(choices: &mut Choices<'_>, rank: usize) -> Vec<i64> {
    match rank {
        3 => vec![choices.of(&[1, 2, 3]), aligned_extent(choices, 4), aligned_extent(choices, 4)],
        _ => {
            let mut dim = vec![choices.of(&[1, 2, 4]), aligned_extent(choices, 4)];
            dim.extend((2..rank).map(|_| choices.of(&[4, 3, 1, 7, 8])));
            dim
        }
    }
}

/// A resampling of an image of its own; `full` becomes its result's extents.
fn resampled(graph: &mut Graph, choices: &mut Choices<'_>, full: &mut [i64]) -> TensorId {
    let data_type = choices.of(&[DataType::Half, DataType::Float, DataType::BFloat16]);
    let image = graph.tensor(tensor(choices, "image", data_type, full, Order::ChannelsLast));
    let (mode, padding_mode) = choices.of(&[
        (ResampleMode::AvgpoolIncludePadding, PaddingMode::ZeroPad),
        (ResampleMode::AvgpoolExcludePadding, PaddingMode::ZeroPad),
        (ResampleMode::Maxpool, PaddingMode::NegInfPad),
    ]);
    let mut attributes = Resample {
        mode,
        padding_mode,
        window: Vec::new(),
        stride: Vec::new(),
        pre_padding: Vec::new(),
        post_padding: Vec::new(),
        generate_index: None,
        alpha: 1.0,
        beta: 0.0,
    };
    for extent in &mut full[2..] {
        let (window, stride) = (choices.of(&[2, 3]), choices.of(&[1, 2]));
        let padding = choices.of(&[0, 1]).max((window - *extent + 1) / 2).min(window - 1);
        attributes.window.push(Fraction::whole(window));
        attributes.stride.push(Fraction::whole(stride));
        attributes.pre_padding.push(Fraction::whole(padding));
        attributes.post_padding.push(Fraction::whole(padding));
        *extent = (*extent + 2 * padding - window) / stride + 1;
    }
    let result = graph.resample("resample", attributes, image);
    graph.tensor_mut(result).dim = full.to_vec();
    graph.tensor_mut(result).data_type = Some(data_type);
    result
}

/// Sums and sums of squares of a value's channels.
fn statistics(graph: &mut Graph, x: TensorId) {
    let (sum, squares) = graph.genstats("statistics", x);
    for id in [sum, squares] {
        graph.set_output(id).data_type = Some(DataType::Float);
    }
}
