//! Record of the skeleton for passes whose operands have another layout.

use std::collections::BTreeSet;

use serde::Serialize;

use super::index::{as_index, index_type, spell};
use super::names;
use super::reduction::offset;
use super::sections::Used;
use super::sweep::SweepSpeller;
use super::tile::{PlaceText, block_coordinates};
use crate::error::Error;
use crate::graph::{FinalizedGraph, TensorId};
use crate::kernel::{Number, TileOperand, TransposedKernel, Variable};

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
        (operand.tensor, format!("tile_{name}[{point} * {} + across]", kernel.tile.pitch(operand.bytes)))
    };
    let ahead = kernel.read_ahead(graph);
    let kept = |&id: &TensorId| {
        let storage = names::storage_type(graph.tensor(id).data_type);
        (id, format!("reinterpret_cast<const {storage}*>(&ahead_{}[step])", graph.canonical_name(id)))
    };
    let text = SweepSpeller::new(graph, used, sweep, &[])
        .with_reads_from(kernel.operands.iter().map(element).chain(ahead.iter().map(kept)))
        .text(&[], "");
    let operands = kernel.operands.iter().map(|operand| OperandText::of(graph, kernel, operand));
    let read = kernel.operands.iter().map(|operand| operand.tensor).chain(ahead.iter().copied());
    let read = read.flat_map(|id| offset(&kernel.sweep.space.axes, id).variables());
    let of_points: BTreeSet<Variable> = text.uses.iter().copied().chain(read).collect();
    let extents: Vec<Number> = sweep.space.axes.iter().map(|axis| axis.extent).collect();
    Ok(TransposedText {
        threads: kernel.tile.threads,
        index: index_type(sweep.wide_index),
        block: as_index(sweep.wide_index, "blockIdx.x"),
        coordinates: block_coordinates(&kernel.tile, &extents, of_points.clone(), sweep.wide_index),
        operands: operands.collect(),
        ahead: ahead.iter().map(|&id| AheadText::of(graph, kernel, id)).collect(),
        points: vectors(kernel, (0, sweep.vector), of_points),
        evaluate: text.evaluate()?,
    })
}

impl OperandText {
    fn of(graph: &FinalizedGraph, kernel: &TransposedKernel, operand: &TileOperand) -> Self {
        let offset = offset(&kernel.sweep.space.axes, operand.tensor);
        Self {
            name: graph.canonical_name(operand.tensor).to_string(),
            storage: names::storage_type(graph.tensor(operand.tensor).data_type),
            vector: operand.vector,
            place: vectors(kernel, (1, operand.vector), offset.variables()),
            from: format!("{} + ({})", names::pointer(graph, operand.tensor), spell(&offset)),
            first_byte: operand.first_byte,
            pitch: kernel.tile.pitch(operand.bytes),
        }
    }
}

impl AheadText {
    fn of(graph: &FinalizedGraph, kernel: &TransposedKernel, id: TensorId) -> Self {
        Self {
            name: graph.canonical_name(id).to_string(),
            storage: names::storage_type(graph.tensor(id).data_type),
            vector: kernel.sweep.vector,
            from: format!("{} + ({})", names::pointer(graph, id), spell(&offset(&kernel.sweep.space.axes, id))),
        }
    }
}

/// Vectors of so many elements along the tile's axis `place`.
fn vectors(kernel: &TransposedKernel, (place, vector): (usize, i64), uses: BTreeSet<Variable>) -> PlaceText {
    let extents = kernel.tile.axes.map(|axis| kernel.extent(axis));
    PlaceText::of((&kernel.tile, extents), (place, vector), uses, kernel.sweep.wide_index)
}
