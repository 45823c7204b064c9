//! Records of the skeletons of copies.

use serde::Serialize;

use super::index::{as_index, definition_lines, index_type, spell};
use super::names;
use super::sections::Used;
use super::sweep::cut;
use super::tile::{PlaceText, block_coordinates};
use crate::graph::FinalizedGraph;
use crate::kernel::{CopyAxis, CopyKernel, Index, Number, TransposedCopyKernel, Variable};

/// What `sweep/copy.cu` reads beside the function's name and parameters.
#[derive(Serialize)]
pub(super) struct CopyText {
    threads: u32,
    index: &'static str,
    /// The block's number.
    block: String,
    vectors: i64,
    coordinates: Vec<String>,
    /// Type of a unit, and units of a vector.
    unit: &'static str,
    count: i64,
    /// Pointers, and where the vector begins after them.
    source: String,
    copy: String,
    from: String,
    to: String,
    /// Place of unit `e` of the vector in the source.
    at: String,
    /// Condition under which there is one, where the last vector of the axis is short.
    guard: Option<String>,
}

pub(super) fn copy(graph: &FinalizedGraph, used: &mut Used, kernel: &CopyKernel) -> CopyText {
    used.add("fw_vector");
    let gathered = kernel.axes[kernel.gathered];
    let unit = Index::local("e");
    CopyText {
        threads: kernel.threads,
        index: index_type(kernel.wide_index),
        block: as_index(kernel.wide_index, "blockIdx.x"),
        vectors: kernel.vectors(),
        coordinates: coordinates(kernel),
        unit: unit_type(kernel.unit_bytes),
        count: kernel.vector(),
        source: names::pointer(graph, kernel.source),
        copy: names::pointer(graph, kernel.copy),
        from: spell(&offset(&kernel.axes, |axis| axis.from)),
        to: spell(&offset(&kernel.axes, |axis| axis.to)),
        at: spell(&(unit.clone() * gathered.from)),
        guard: guard(kernel, unit),
    }
}

/// Whether a unit of a thread's vector lies on the axis; `None` where all do.
fn guard(kernel: &CopyKernel, unit: Index) -> Option<String> {
    let extent = kernel.axes[kernel.gathered].extent;
    let at = Index::Variable(Variable::Axis(kernel.gathered)) + unit;
    (extent % (kernel.vector() * kernel.neighbours) != 0).then(|| format!("{} < {extent}", spell(&at)))
}

/// The coordinates of a thread's vector: neighbouring threads have neighbouring vectors of a group.
fn coordinates(kernel: &CopyKernel) -> Vec<String> {
    let group = kernel.vector() * kernel.neighbours;
    let scale = |axis| if axis == kernel.gathered { group } else { 1 };
    let counts: Vec<_> = (0..kernel.axes.len()).map(|axis| (axis, kernel.count(axis).into(), scale(axis))).collect();
    let mut definitions = cut(&(Index::local("vector") / kernel.neighbours), &counts);
    let gathered = Variable::Axis(kernel.gathered);
    for definition in definitions.iter_mut().filter(|definition| definition.variable == gathered) {
        definition.value = definition.value.clone() + neighbour(kernel.neighbours, kernel.vector());
    }
    definition_lines(index_type(kernel.wide_index), &definitions)
}

/// How far a thread's vector lies behind the first of so many neighbours.
pub(super) fn neighbour(neighbours: i64, vector: i64) -> Index {
    Index::local("vector") % neighbours * vector
}

/// Units before a thread's vector, in the source or in the copy.
fn offset(axes: &[CopyAxis], stride: impl Fn(&CopyAxis) -> i64) -> Index {
    Index::sum(axes.iter().enumerate().map(|(axis, strides)| Index::variable(Variable::Axis(axis)) * stride(strides)))
}

/// What `sweep/transposed_copy.cu` reads beside the function's name and parameters.
#[derive(Serialize)]
pub(super) struct TransposedCopyText {
    threads: u32,
    index: &'static str,
    block: String,
    /// The coordinates of a block: of its tile's first element.
    coordinates: Vec<String>,
    /// Type of an element, and those that are read and stored at once.
    unit: &'static str,
    read: i64,
    stored: i64,
    source: String,
    copy: String,
    /// Where a vector begins after these.
    from: String,
    to: String,
    /// Vectors that are read, and those that are stored.
    reads: PlaceText,
    stores: PlaceText,
    /// Elements from one row of the tile to the next.
    pitch: i64,
}

pub(super) fn transposed_copy(
    graph: &FinalizedGraph,
    used: &mut Used,
    kernel: &TransposedCopyKernel,
) -> TransposedCopyText {
    ["FW_SHARED", "fw_store_words"].into_iter().for_each(|section| used.add(section));
    let (from, to) = (offset(&kernel.axes, |axis| axis.from), offset(&kernel.axes, |axis| axis.to));
    let (tile, wide) = (&kernel.tile, kernel.wide_index);
    let extents = |of: &dyn Fn(usize) -> i64| tile.axes.map(|axis| Number::known(of(axis)));
    let read = extents(&|axis| kernel.axes[axis].extent);
    let stored = extents(&|axis| kernel.stored_along(axis));
    let all: Vec<Number> = (0..kernel.axes.len()).map(|axis| Number::known(kernel.stored_along(axis))).collect();
    let uses = from.variables().into_iter().chain(to.variables()).collect();
    TransposedCopyText {
        threads: tile.threads,
        index: index_type(wide),
        block: as_index(wide, "blockIdx.x"),
        coordinates: block_coordinates(tile, &all, uses, wide),
        unit: unit_type(kernel.element_bytes),
        read: kernel.read,
        stored: kernel.vector(),
        source: names::pointer(graph, kernel.source),
        copy: names::pointer(graph, kernel.copy),
        from: spell(&from),
        to: spell(&to),
        reads: PlaceText::of((tile, read), (1, kernel.read), from.variables(), wide),
        stores: PlaceText::of((tile, stored), (0, kernel.vector()), to.variables(), wide),
        pitch: tile.pitch(kernel.element_bytes.into()),
    }
}

/// C++ type of so many bytes, whatever they mean.
pub(super) fn unit_type(bytes: u32) -> &'static str {
    match bytes {
        1 => "unsigned char",
        2 => "unsigned short",
        4 => "unsigned",
        _ => "unsigned long long",
    }
}
