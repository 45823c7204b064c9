//! g2(inputs) without a core: pointwise graphs, reductions, statistics, resamplings.

use super::super::choices::Choices;
use super::layout::{Order, aligned_extent};
use super::matmul::finish;
use super::resample::resampled;
use super::stage::{Frame, Stage};
use super::{VIRTUAL_TYPES_WITH_BOOLEAN, epilogue_types};
use crate::graph::{DataType, Graph, TensorHandle};
use crate::support::SurfaceId;

/// Parts of the graphs that begin with a resampling, end with a reduction, with statistics, or with a signal, and that
/// have a rank without any rule; percent.
const RESAMPLED: usize = 20;
const REDUCTION: usize = 25;
const STATISTICS: usize = 10;
const SIGNALLED: usize = 4;
const OTHER_RANK: usize = 3;

/// Part of the resamplings that nothing follows, in percent.
const ALONE: usize = 40;

/// Types of inputs: those of other surfaces' side inputs, and FP8 (`S70-DTYPE-FP8-PW-ONLY`).
const INPUT_TYPES: &[DataType] =
    &[DataType::Float, DataType::Half, DataType::BFloat16, DataType::Int8, DataType::Int32, DataType::Fp8E4M3];

/// Shapes of side inputs by rank 3 (`S70-PW-3D-DIMS`), 4 and 5 (`S70-PW-45D-DIMS`).
const MATRIX_SIDES: &[&[bool]] = &[&[true, true, true], &[true, false, true], &[true, true, false], &[false; 3]];
const IMAGE_SIDES: &[&[bool]] =
    &[&[true, true, true, true], &[false, true, false, false], &[true, false, true, true], &[false; 4]];
const VOLUME_SIDES: &[&[bool]] =
    &[&[true; 5], &[false, true, false, false, false], &[true, false, true, true, true], &[false; 5]];
/// Shapes of any rank.
const VECTOR_SIDES: &[&[bool]] = &[&[true; 6], &[false; 6]];

pub(super) fn graph(choices: &mut Choices<'_>) -> Graph {
    let mut graph = Graph::new()
        .io_data_type(DataType::Half)
        .compute_data_type(DataType::Float)
        .intermediate_data_type(DataType::Float);
    let rank = if choices.chance(OTHER_RANK) { choices.of(&[2, 1, 6]) } else { choices.of(&[4, 3, 5, 4]) };
    let resamples = rank > 3 && rank < 6 && choices.chance(RESAMPLED);
    let is_alone = resamples && choices.chance(ALONE);
    let (sides, order) = match rank {
        3 if choices.chance(25) => (MATRIX_SIDES, Order::ColumnMajor),
        3 => (MATRIX_SIDES, Order::RowMajor),
        4 | 5 if is_alone && choices.chance(50) => (VECTOR_SIDES, Order::RowMajor),
        4 => (IMAGE_SIDES, Order::ChannelsLast),
        5 => (VOLUME_SIDES, Order::ChannelsLast),
        _ => (VECTOR_SIDES, Order::RowMajor),
    };
    let mut full = dims(choices, rank);
    let resampled = resamples.then(|| resampled(&mut graph, choices, &mut full, order));
    let [_, _, compute_types, output_types] = epilogue_types(SurfaceId::S70);
    let operations = if is_alone { 0 } else { usize::from(resampled.is_none()) + choices.below(5) };
    let reduces = rank > 3 && !is_alone && choices.chance(REDUCTION);
    let has_statistics = rank > 3 && !reduces && !is_alone && choices.chance(STATISTICS);
    let virtual_types = VIRTUAL_TYPES_WITH_BOOLEAN;
    let sides: Vec<&[bool]> = sides.iter().map(|kept| &kept[..rank.min(kept.len())]).collect();
    let frame = Frame { name: "pw", full, sides: &sides, order, side_types: INPUT_TYPES, virtual_types, compute_types };
    let mut stage = Stage::new(&mut graph, choices, frame, resampled);
    stage.grow(operations);
    if reduces {
        stage.reduce(&sides);
    }
    finish(&mut stage, reduces, output_types);
    if !reduces && !is_alone && stage.choices.chance(SIGNALLED) {
        stage.signal();
    }
    if has_statistics && operations > 0 {
        let last = stage.last();
        statistics(&mut graph, last);
    }
    graph
}

/// Extents; that of the axis which is contiguous keeps vectors of bytes aligned (`S70-G2-ALIGN-32`).
fn dims(choices: &mut Choices<'_>, rank: usize) -> Vec<i64> {
    match rank {
        1..=3 => {
            let inner = (1..rank).map(|_| aligned_extent(choices, 4)).collect::<Vec<i64>>();
            [vec![choices.of(&[1, 2, 3])], inner].concat()
        }
        _ => {
            let mut dim = vec![choices.of(&[1, 2, 4]), aligned_extent(choices, 4)];
            dim.extend((2..rank).map(|_| choices.of(&[4, 3, 1, 7, 8])));
            dim
        }
    }
}

/// Sums and sums of squares of a value's channels.
pub(super) fn statistics(graph: &mut Graph, x: TensorHandle) {
    let (sum, squares) = graph.genstats("statistics", x);
    for id in [sum, squares] {
        graph.set_output(id).data_type = Some(DataType::Float);
    }
}
