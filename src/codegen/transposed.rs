//! Record of the skeleton for passes whose operands have another layout.

use std::collections::BTreeSet;

use serde::Serialize;

use super::index::{Bound, all, as_index, definition_lines, index_type, spell};
use super::names;
use super::sections::Used;
use super::sweep::{SweepSpeller, cut};
use crate::error::Error;
use crate::graph::{FinalizedGraph, TensorId};
use crate::kernel::{Definition, Index, TileOperand, TransposedKernel, Variable, needed};

/// What `sweep/transposed.cu` reads beside the function's name and parameters.
#[derive(Serialize)]
pub(super) struct TransposedText {
    threads: u32,
    index: &'static str,
    block: String,
    /// The coordinates of a block: of its tile's first point.
    coordinates: Vec<String>,
    operands: Vec<OperandText>,
    /// What each vector of points reads as a whole, before the block meets.
    ahead: Vec<AheadText>,
    points: PlaceText,
    evaluate: String,
}

/// An operand's way to shared memory.
#[derive(Serialize)]
struct OperandText {
    name: String,
    storage: &'static str,
    /// Elements that are read at once.
    vector: i64,
    place: PlaceText,
    /// Pointer to a vector.
    from: String,
    /// Bytes before the tile in shared memory, and elements from one of its rows to the next.
    first_byte: i64,
    pitch: i64,
}

/// Vectors of an operand that lie as those of the points do.
#[derive(Serialize)]
struct AheadText {
    name: String,
    storage: &'static str,
    vector: i64,
    from: String,
}

/// Vectors of a tile, along one of its axes.
#[derive(Serialize)]
struct PlaceText {
    /// How many a thread has.
    each: i64,
    /// Where one lies in the tile.
    along: String,
    across: String,
    /// Its coordinates, and the condition under which there is one.
    coordinates: Vec<String>,
    guard: Option<String>,
}

/// Variables of the skeleton: a vector's number in the tile, the tile's first point, and a vector's place behind that.
const NUMBER: &str = "number";
const FIRST: [&str; 2] = ["first_along", "first_across"];
const WITHIN: [&str; 2] = ["along", "across"];

pub(super) fn transposed(
    graph: &FinalizedGraph,
    used: &mut Used,
    kernel: &TransposedKernel,
) -> Result<TransposedText, Error> {
    ["FW_SHARED", "fw_store_words"].into_iter().for_each(|section| used.add(section));
    let sweep = &kernel.sweep;
    let element = |operand: &TileOperand| {
        let point = if sweep.vector > 1 { "(along + e)" } else { "along" };
        let name = graph.canonical_name(operand.tensor);
        (operand.tensor, format!("tile_{name}[{point} * {} + across]", operand.pitch(kernel.tile)))
    };
    let ahead = kernel.read_ahead(graph);
    let kept = |&id: &TensorId| {
        let storage = names::storage_type(graph.tensor(id).data_type);
        (id, format!("reinterpret_cast<const {storage}*>(&ahead_{}[step])", graph.canonical_name(id)))
    };
    let text = SweepSpeller::new(graph, used, sweep, &[])
        .with_elements_from(kernel.operands.iter().map(element))
        .with_vectors_from(ahead.iter().map(kept))
        .text(&[], "");
    let operands = kernel.operands.iter().map(|operand| OperandText::of(graph, kernel, operand));
    let read = kernel.operands.iter().map(|operand| operand.tensor).chain(ahead.iter().copied());
    let read = read.flat_map(|id| offset(kernel, id).variables());
    let of_points: BTreeSet<Variable> = text.uses.iter().copied().chain(read).collect();
    let mut uses: BTreeSet<Variable> = of_points.iter().copied().chain(FIRST.map(Variable::Local)).collect();
    Ok(TransposedText {
        threads: kernel.threads,
        index: index_type(sweep.wide_index),
        block: as_index(sweep.wide_index, "blockIdx.x"),
        coordinates: definition_lines(index_type(sweep.wide_index), &needed(blocks(kernel), &mut uses)),
        operands: operands.collect(),
        ahead: ahead.iter().map(|&id| AheadText::of(graph, kernel, id)).collect(),
        points: PlaceText::of(kernel, (0, sweep.vector), of_points),
        evaluate: text.evaluate()?,
    })
}

impl OperandText {
    fn of(graph: &FinalizedGraph, kernel: &TransposedKernel, operand: &TileOperand) -> Self {
        let offset = offset(kernel, operand.tensor);
        Self {
            name: graph.canonical_name(operand.tensor).to_string(),
            storage: names::storage_type(graph.tensor(operand.tensor).data_type),
            vector: operand.vector,
            place: PlaceText::of(kernel, (1, operand.vector), offset.variables()),
            from: format!("{} + ({})", names::pointer(graph, operand.tensor), spell(&offset)),
            first_byte: operand.first_byte,
            pitch: operand.pitch(kernel.tile),
        }
    }
}

impl AheadText {
    fn of(graph: &FinalizedGraph, kernel: &TransposedKernel, id: TensorId) -> Self {
        Self {
            name: graph.canonical_name(id).to_string(),
            storage: names::storage_type(graph.tensor(id).data_type),
            vector: kernel.sweep.vector,
            from: format!("{} + ({})", names::pointer(graph, id), spell(&offset(kernel, id))),
        }
    }
}

impl PlaceText {
    /// Vectors of so many elements along the tile's axis `axis`, of which these variables are used.
    fn of(kernel: &TransposedKernel, (axis, vector): (usize, i64), mut uses: BTreeSet<Variable>) -> Self {
        let lanes = kernel.tile[axis] / vector;
        let mut within = [Index::local(NUMBER) / lanes, Index::local(NUMBER) / lanes];
        within[axis] = Index::local(NUMBER) % lanes * vector;
        let [along, across] = within.map(|place| spell(&place));
        let bounds: Vec<Bound> = tile_axes(kernel)
            .map(|axis| (axis, kernel.sweep.space.axes[axis].extent))
            .into_iter()
            // of dynamic shapes one text does for all
            .filter(|&(axis, extent)| extent.is_told() || extent % kernel.points(axis) != 0)
            .map(|(axis, extent)| Bound { variable: Variable::Axis(axis), extent })
            .collect();
        uses.extend(bounds.iter().map(|bound| bound.variable));
        let coordinates = tile_axes(kernel).into_iter().zip(FIRST).zip(WITHIN).map(|((axis, first), within)| {
            Definition::new(Variable::Axis(axis), Index::local(first) + Index::local(within))
        });
        let coordinates = needed(coordinates.collect(), &mut uses);
        Self {
            each: kernel.tile[0] * kernel.tile[1] / (vector * i64::from(kernel.threads)),
            along,
            across,
            coordinates: definition_lines(index_type(kernel.sweep.wide_index), &coordinates),
            guard: all(&bounds),
        }
    }
}

/// The coordinates of a block: those of the tile's axes are its first point's.
fn blocks(kernel: &TransposedKernel) -> Vec<Definition> {
    let axes = kernel.sweep.space.axes.len();
    let counts: Vec<_> = (0..axes).map(|axis| (axis, kernel.count(axis), kernel.points(axis))).collect();
    let mut definitions = cut(&Index::local("block"), &counts);
    for definition in &mut definitions {
        let place = tile_axes(kernel).iter().position(|axis| definition.variable == Variable::Axis(*axis));
        definition.variable = place.map_or(definition.variable, |place| Variable::Local(FIRST[place]));
    }
    definitions
}

fn tile_axes(kernel: &TransposedKernel) -> [usize; 2] {
    [kernel.along(), kernel.across]
}

/// Where a point's element lies behind a tensor's first.
fn offset(kernel: &TransposedKernel, id: TensorId) -> Index {
    let axes = kernel.sweep.space.axes.iter().enumerate();
    Index::sum(axes.map(|(number, axis)| Index::variable(Variable::Axis(number)) * axis.strides[&id]))
}
