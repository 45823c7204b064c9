//! Records of the skeletons for moments.

use std::collections::BTreeSet;

use serde::Serialize;

use super::index::{as_index, definition_lines, index_type, spell, within};
use super::names;
use super::reduction::{Following, KeptText, dense_offset, fits, offset, points, reduction_tree, resident};
use super::sections::Used;
use super::sweep::{SweepSpeller, accumulated_in_float, cut};
use crate::error::Error;
use crate::graph::FinalizedGraph;
use crate::kernel::{CombineMomentsKernel, Index, MomentsKernel, Parts, ReductionKernel, Variable, needed};

/// Points of a block of which the value closest to their mean is the shift, by how many it has at most: squares of differences from an
/// outlier cancel by as many bits as a block's number of points has, so few points do for small blocks; but one of them alone is the outlier, of
/// 16 values by which an inverse deviation was 27 roundings off.
const FIRST_POINTS: [(i64, i64); 2] = [(1024, 4), (i64::MAX, 8)];

/// Parts that a thread of a combination reads at once, of each four numbers.
const PARTS_AT_ONCE: u32 = 4;

/// What `sweep/moments.cu` reads beside the function's name and parameters.
#[derive(Serialize)]
pub(super) struct MomentsText {
    threads: u32,
    /// Blocks of a multiprocessor that the registers shall leave room for.
    resident: u32,
    index: &'static str,
    kept: KeptText,
    /// Reduced points, coordinates of one of them, and a thread's steps over them.
    reduced_count: String,
    coordinates: Vec<String>,
    steps: String,
    /// Sums of a thread: one, or one for each point of a vector of kept points.
    width: i64,
    first: FirstText,
    /// All sums of a thread: of differences, of their squares, of values; so many are added up with those of others at once.
    sums: i64,
    at_once: i64,
    /// Which sum `sum` of each of these is.
    parts: Vec<String>,
    /// Threads that are added up, as arguments of `fw_tree`, and threads of the block.
    tree: String,
    /// Condition of threads that write, of kept point `e` of a thread, and where it lies in the partials.
    writes: String,
    guard: Option<String>,
    place: String,
}

/// A block's first points, of which the shift is chosen.
#[derive(Serialize)]
struct FirstText {
    /// The first of them, and how many are looked at.
    of_block: String,
    points: i64,
    /// How each enters their mean, and then the choice of the value closest to it.
    looks: Vec<String>,
}

pub(super) fn moments(graph: &FinalizedGraph, used: &mut Used, kernel: &MomentsKernel) -> Result<MomentsText, Error> {
    ["FW_SHARED", "fw_let_next_launch_start", "fw_sum", "fw_tree"].into_iter().for_each(|section| used.add(section));
    let reduction = &kernel.reduction;
    let (sweep, width) = (&reduction.sweep, reduction.accumulators());
    let point = point(reduction);
    let place = dense_offset(&sweep.space.axes) + Index::local("e") * if width == 1 { 0 } else { 1 };
    let mut uses = place.variables();
    let first = FirstText::new(graph, used, kernel, &mut uses)?;
    let sum = kernel.sum();
    let text = SweepSpeller::new(graph, used, sweep, &[sum]).text_with(|speller| {
        let value = accumulated_in_float(speller, sum.source);
        let at = if width == 1 { Index::ZERO } else { Index::local(point) };
        let [differences, squares, values] =
            [0, 1, 2].map(|sum| format!("sums[{}]", spell(&(at.clone() + Index::from(sum * width)))));
        vec![
            format!("const float difference = {value} - shift[{point}];"),
            format!("{differences} = fw_sum({differences}, difference);"),
            format!("{squares} = fmaf(difference, difference, {squares});"),
            format!("{values} = fw_sum({values}, {value});"),
        ]
    });
    uses.extend(text.uses.iter().copied());
    let (kept, reduced) = points(reduction, &mut uses);
    let tree = reduction_tree(reduction);
    let place = format!("(unsigned long long)(blockIdx.y) * {} + {}", sweep.space.points_where(false), within(&place));
    let (sums, at_once) = (MomentsKernel::SUMS * width, kernel.sums_at_once());
    Ok(MomentsText {
        threads: reduction.columns * reduction.rows,
        resident: resident(reduction),
        index: index_type(sweep.wide_index),
        kept,
        reduced_count: reduced.count.to_string(),
        coordinates: reduced.coordinates.clone(),
        steps: reduced.steps(text.evaluate()?)?,
        width,
        first,
        sums,
        at_once,
        parts: (0..sums / at_once).map(|part| spell(&(Index::local("sum") + Index::from(part * at_once)))).collect(),
        tree: tree.arguments(),
        writes: tree.writes().to_owned(),
        guard: tree.guard().map(str::to_owned),
        place,
    })
}

/// The accumulator of a point.
fn point(reduction: &ReductionKernel) -> &'static str {
    if reduction.accumulators() == 1 { "0" } else { "e" }
}

impl FirstText {
    /// The coordinates that it reads join `uses`.
    fn new(
        graph: &FinalizedGraph,
        used: &mut Used,
        kernel: &MomentsKernel,
        uses: &mut BTreeSet<Variable>,
    ) -> Result<Self, Error> {
        let (reduction, parts, point, sum) =
            (&kernel.reduction, kernel.parts(), point(&kernel.reduction), kernel.sum());
        let sweep = &reduction.sweep;
        let vector = if reduction.reduce_vector { sweep.vector } else { 1 };
        let of_a_part = (parts.points + parts.count - 1) / parts.count;
        let enough = FIRST_POINTS.iter().find(|(most, _)| of_a_part <= *most).map_or(1, |(_, points)| *points);
        let points = (enough / vector).max(1).min(parts.points / vector);
        let count = names::float_literal((points * vector) as f32);
        let mut look = |enter: &dyn Fn(String) -> String| {
            let speller = SweepSpeller::new(graph, used, &kernel.shift, &[sum]);
            let text = speller.text_with(|speller| vec![enter(accumulated_in_float(speller, sum.source))]);
            uses.extend(text.uses.iter().copied());
            text.evaluate()
        };
        let mean = look(&|value| format!("mean[{point}] += {value} / {count};"))?;
        let choice = look(&|value| {
            let distance = |from: &str| format!("fabsf({from} - mean[{point}])");
            format!("if ({} < {}) shift[{point}] = {value};", distance(&value), distance(&format!("shift[{point}]")))
        })?;
        let block = as_index(sweep.wide_index, "blockIdx.y");
        Ok(Self { of_block: format!("{block} * {}", parts.each / vector), points, looks: vec![mean, choice] })
    }
}

/// What `sweep/combine_moments.cu` reads beside the function's name and parameters.
#[derive(Serialize)]
pub(super) struct CombineMomentsText {
    threads: u32,
    index: &'static str,
    /// The kept element of a column of threads; threads of a column.
    k: String,
    columns: u32,
    rows: u32,
    /// Parts that a thread reads at once.
    group: u32,
    kept: i64,
    /// Parts, one over the points of a set, points of every part, those that are left for the first parts, and so many of these each at most.
    parts: i64,
    reciprocal: String,
    whole: i64,
    rest: i64,
    each: i64,
    /// Place of a part's partial moments.
    partial: String,
    coordinates: Vec<String>,
    /// Where mean and variance go.
    writes: Vec<String>,
    following: Option<Following>,
}

pub(super) fn combine_moments(
    graph: &FinalizedGraph,
    used: &mut Used,
    kernel: &CombineMomentsKernel,
) -> Result<CombineMomentsText, Error> {
    used.add("FW_SHARED");
    used.add("fw_let_next_launch_start");
    used.add("fw_tree");
    let CombineMomentsKernel { space, targets, parts, columns, rows, following } = kernel;
    let kept = space.points();
    let is_wide = !fits(space, targets, kept * parts.count) || following.as_ref().is_some_and(|sweep| sweep.wide_index);
    let counts: Vec<_> = space.axes.iter().enumerate().map(|(number, axis)| (number, axis.extent, 1)).collect();
    let places = targets.map(|target| offset(&space.axes, target));
    let mut uses = places.iter().flat_map(Index::variables).collect();
    let values = ["mean", "variance"];
    let totals = targets.iter().copied().zip(values.map(str::to_owned));
    let following =
        following.as_ref().map(|sweep| Following::new(graph, used, sweep, totals, &mut uses)).transpose()?;
    let writes = targets.iter().zip(&places).zip(values).map(|((&target, place), value)| {
        let data_type = graph.tensor(target).data_type;
        used.add(names::storage_section(data_type));
        format!("{}[{}] = {};", names::pointer(graph, target), spell(place), names::to_storage(data_type, value))
    });
    let writes = writes.collect();
    let (whole, rest) = parts.whole_and_rest();
    let Parts { count, points, each } = *parts;
    Ok(CombineMomentsText {
        threads: columns * rows,
        index: index_type(is_wide),
        k: match columns {
            1 => as_index(is_wide, "blockIdx.x"),
            columns => format!("{} * {columns} + threadIdx.x", as_index(is_wide, "blockIdx.x")),
        },
        columns: *columns,
        rows: *rows,
        group: PARTS_AT_ONCE,
        kept,
        parts: count,
        reciprocal: format!("(1.0 / {points}.0)"),
        whole,
        rest,
        each,
        partial: spell(&(Index::local("part") * kept + Index::local("k"))),
        coordinates: definition_lines(index_type(is_wide), &needed(cut(&Index::local("k"), &counts), &mut uses)),
        writes,
        following,
    })
}
