//! Record of the skeleton of copies.

use serde::Serialize;

use super::index::{as_index, definition_lines, index_type, spell};
use super::names;
use super::sections::Used;
use super::sweep::cut;
use crate::graph::FinalizedGraph;
use crate::kernel::{CopyAxis, CopyKernel, Index, Variable};

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
        from: offset(kernel, |axis| axis.from),
        to: offset(kernel, |axis| axis.to),
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
fn offset(kernel: &CopyKernel, stride: impl Fn(&CopyAxis) -> i64) -> String {
    let axes = kernel.axes.iter().enumerate();
    spell(&Index::sum(axes.map(|(axis, strides)| Index::Variable(Variable::Axis(axis)) * stride(strides))))
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
