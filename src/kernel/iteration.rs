//! The iteration space of a graph without a core: axes dropped, ordered and merged until only what matters is left.

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::{FinalTensor, FinalizedGraph, TensorId};

/// One axis of an iteration space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Number of coordinates.
    pub extent: i64,
    /// Whether the graph's reductions run over it.
    pub reduced: bool,
    /// The graph axes merged into it, outermost first; exactly one if a `GEN_INDEX` or a store condition reads it.
    pub graph_axes: Vec<usize>,
    /// Stride in elements of every tensor in memory; 0 where the tensor broadcasts.
    pub strides: BTreeMap<TensorId, i64>,
}

/// Axes from outermost to innermost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IterationSpace {
    /// The axes; empty for a single element.
    pub axes: Vec<Axis>,
}

/// What an iteration space is made from.
pub struct IterationRequest<'a> {
    /// The graph.
    pub graph: &'a FinalizedGraph,
    /// Full extents by graph axis.
    pub extents: &'a [i64],
    /// Tensors in memory that are read or written at each point.
    pub tensors: &'a [TensorId],
    /// The tensor whose memory order decides the order of axes.
    pub reference: TensorId,
    /// Reduced graph axes.
    pub reduced: &'a BTreeSet<usize>,
    /// Graph axes that must stay separate.
    pub pinned: &'a BTreeSet<usize>,
}

impl IterationSpace {
    /// Axes of extent 1 dropped, the rest ordered as the reference tensor lies in memory, neighbours merged where
    /// every tensor steps through them as through one.
    pub fn new(request: &IterationRequest<'_>) -> Self {
        let reference = request.graph.tensor(request.reference);
        let mut order: Vec<usize> = (0..request.extents.len()).filter(|&axis| request.extents[axis] > 1).collect();
        order.sort_by_key(|&axis| (std::cmp::Reverse(step(reference, axis).max(1)), axis));
        let mut space = Self::default();
        for axis in order {
            space.push(request.axis(axis), request);
        }
        space
    }

    /// Merges the new innermost axis into the last one, or adds it.
    fn push(&mut self, inner: Axis, request: &IterationRequest<'_>) {
        match self.axes.last_mut() {
            Some(outer) if request.may_merge(outer, &inner) => {
                outer.extent *= inner.extent;
                outer.graph_axes.extend(inner.graph_axes);
                outer.strides = inner.strides;
            }
            _ => self.axes.push(inner),
        }
    }

    /// Number of points.
    pub fn points(&self) -> i64 {
        self.axes.iter().map(|axis| axis.extent).product()
    }

    /// Number of points over the reduced, or the kept, axes.
    pub fn points_where(&self, reduced: bool) -> i64 {
        self.axes.iter().filter(|axis| axis.reduced == reduced).map(|axis| axis.extent).product()
    }
}

impl IterationRequest<'_> {
    fn axis(&self, axis: usize) -> Axis {
        Axis {
            extent: self.extents[axis],
            reduced: self.reduced.contains(&axis),
            graph_axes: vec![axis],
            strides: self.tensors.iter().map(|&id| (id, step(self.graph.tensor(id), axis))).collect(),
        }
    }

    fn may_merge(&self, outer: &Axis, inner: &Axis) -> bool {
        let pinned = |axis: &Axis| axis.graph_axes.iter().any(|graph_axis| self.pinned.contains(graph_axis));
        outer.reduced == inner.reduced
            && !pinned(outer)
            && !pinned(inner)
            && self.tensors.iter().all(|id| outer.strides[id] == inner.strides[id] * inner.extent)
    }
}

/// Elements to the next coordinate of a graph axis; 0 where the tensor has extent 1 and so broadcasts.
pub fn step(tensor: &FinalTensor, axis: usize) -> i64 {
    if tensor.dim[axis] == 1 { 0 } else { tensor.stride[axis] }
}
