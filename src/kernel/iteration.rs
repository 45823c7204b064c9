//! The iteration space of a graph without a core: axes dropped, ordered and merged until only what matters is left.

use std::collections::{BTreeMap, BTreeSet};

use super::{Number, Told};
use crate::graph::{FinalTensor, FinalizedGraph, TensorId};

/// One axis of an iteration space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Number of coordinates.
    pub extent: Number,
    /// Whether the graph's reductions run over it.
    pub reduced: bool,
    /// The graph axes merged into it, outermost first; exactly one if some step reads its coordinate.
    pub graph_axes: Vec<usize>,
    /// Stride in elements of every tensor in memory; 0 where the tensor broadcasts.
    pub strides: BTreeMap<TensorId, Number>,
    /// Stride in elements of the core's accumulators in the workspace, if the pass reads them.
    pub accumulators: Number,
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
    /// Strides of the core's accumulators by graph axis; empty if there are none.
    pub accumulators: &'a [Number],
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
                outer.extent = outer.extent * inner.extent;
                outer.graph_axes.extend(inner.graph_axes);
                outer.strides = inner.strides;
                outer.accumulators = inner.accumulators;
            }
            _ => self.axes.push(inner),
        }
    }

    /// Number of points.
    pub fn points(&self) -> i64 {
        self.axes.iter().map(|axis| axis.extent.value()).product()
    }

    /// Number of points over the reduced, or the kept, axes.
    pub fn points_where(&self, reduced: bool) -> i64 {
        self.axes.iter().filter(|axis| axis.reduced == reduced).map(|axis| axis.extent.value()).product()
    }
}

impl IterationRequest<'_> {
    fn axis(&self, axis: usize) -> Axis {
        Axis {
            extent: self.extent(axis),
            reduced: self.reduced.contains(&axis),
            graph_axes: vec![axis],
            strides: self.tensors.iter().map(|&id| (id, self.stride(id, axis))).collect(),
            accumulators: self.accumulators.get(axis).copied().unwrap_or(Number::known(0)),
        }
    }

    fn extent(&self, axis: usize) -> Number {
        extent(self.graph, axis, self.extents[axis])
    }

    /// The step of a tensor along a graph axis: where axes lie one behind the other, it follows from their extents.
    fn stride(&self, id: TensorId, axis: usize) -> Number {
        let tensor = self.graph.tensor(id);
        let value = step(tensor, axis);
        if !self.graph.is_dynamic() {
            return value.into();
        }
        let is_inside = |&inner: &usize| {
            let [stride, extent] = [step(tensor, inner), tensor.dim[inner]];
            stride > 0 && extent > 1 && extent == self.extents[inner] && stride * extent == value
        };
        let inside = (0..tensor.dim.len()).find(is_inside);
        inside.map_or_else(
            || Number::told(value, Told::Stride(id.index(), axis)),
            |inner| self.stride(id, inner) * self.extent(inner),
        )
    }

    fn may_merge(&self, outer: &Axis, inner: &Axis) -> bool {
        let pinned = |axis: &Axis| axis.graph_axes.iter().any(|graph_axis| self.pinned.contains(graph_axis));
        outer.reduced == inner.reduced
            && !pinned(outer)
            && !pinned(inner)
            && outer.accumulators == inner.accumulators * inner.extent
            && self.tensors.iter().all(|id| outer.strides[id] == inner.strides[id] * inner.extent)
    }
}

/// The extent of an axis of a graph, which launches tell where shapes are dynamic.
pub fn extent(graph: &FinalizedGraph, axis: usize, value: i64) -> Number {
    if graph.is_dynamic() { Number::told(value, Told::Extent(axis)) } else { value.into() }
}

/// Elements to the next coordinate of a graph axis; 0 where the tensor has extent 1 and so broadcasts.
pub fn step(tensor: &FinalTensor, axis: usize) -> i64 {
    if tensor.dim[axis] == 1 { 0 } else { tensor.stride[axis] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Graph, PointwiseMode, Tensor};

    /// `x + b` on the given tensors; extents and merged graph axes of its space.
    fn space(x: Tensor, b: Tensor, reduced: &[usize], pinned: &[usize]) -> Vec<(i64, Vec<usize>)> {
        let mut graph =
            Graph::new().io_data_type(crate::graph::DataType::Half).compute_data_type(crate::graph::DataType::Float);
        let extents = x.dim.clone();
        let (x, b) = (graph.tensor(x), graph.tensor(b));
        let y = graph.pointwise("add", PointwiseMode::Add, &[x, b]);
        graph.set_output(y);
        let graph = graph.finalize().expect("well formed");
        let tensors: Vec<TensorId> = graph.tensor_ids().collect();
        let request = IterationRequest {
            graph: &graph,
            extents: &extents,
            tensors: &tensors,
            reference: graph.outputs().next().expect("one output"),
            reduced: &reduced.iter().copied().collect(),
            pinned: &pinned.iter().copied().collect(),
            accumulators: &[],
        };
        IterationSpace::new(&request).axes.into_iter().map(|axis| (axis.extent.value(), axis.graph_axes)).collect()
    }

    fn row_major(dim: [i64; 4]) -> Tensor {
        Tensor::new("t").row_major(dim)
    }

    #[test]
    fn axes_of_extent_one_are_dropped_and_all_others_merge() {
        assert_eq!(space(row_major([2, 1, 3, 5]), row_major([2, 1, 3, 5]), &[], &[]), [(30, vec![0, 2, 3])]);
        assert_eq!(space(row_major([1; 4]), row_major([1; 4]), &[], &[]), []);
    }

    #[test]
    fn memory_order_decides() {
        let image = || Tensor::new("t").channels_last([2, 3, 4, 5]);
        assert_eq!(space(image(), image(), &[], &[]), [(120, vec![0, 2, 3, 1])]);
    }

    #[test]
    fn broadcasts_reduced_and_pinned_axes_and_gaps_stay_apart() {
        let dim = [2, 3, 4, 5];
        let rows = [(2, vec![0]), (60, vec![1, 2, 3])];
        assert_eq!(space(row_major(dim), row_major([1, 3, 4, 5]), &[], &[]), rows);
        assert_eq!(space(row_major(dim), row_major(dim), &[0], &[]), rows);
        assert_eq!(space(row_major(dim), row_major(dim), &[], &[0]), rows);
        let padded = Tensor::new("t").dim(dim).stride([64, 20, 5, 1]);
        assert_eq!(space(row_major(dim), padded, &[], &[]), rows);
    }
}
