//! Which axes of a graph's tensors have one extent, whatever it is: what another shape of the graph changes together.
//!
//! Axes whose extents must agree (the K of a matmul's A and B, the same axis of a pointwise operation's tensors, …) form a class. Some belong to
//! what the graph is, and stay: what a convolution's or resampling's window runs over, matrices of a product with overridden extents, the axis of
//! a concatenation, rows of pages and of what lies in pages, channels of grouped convolutions, and tensors of operations without such a structure.

use super::{
    Attributes, Convolution, ConvolutionDirection, FinalizedGraph, Graph, Operation, Port, Reordering, Tensor,
    TensorHandle,
};

/// Axes of a graph's tensors, joined where their extents must agree: a forest of (tensor, axis) places.
#[derive(Clone, Debug)]
pub(crate) struct AxisClasses {
    /// Number of the first axis of each tensor.
    first: Vec<usize>,
    parent: Vec<usize>,
    /// By root: the extent must stay.
    is_fixed: Vec<bool>,
}

impl AxisClasses {
    /// The classes of a graph, whose composite operations are taken apart for it; its own tensors come first.
    pub(crate) fn of(graph: &FinalizedGraph) -> Self {
        Self::of_definitions(&graph.expand().to_graph())
    }

    fn of_definitions(graph: &Graph) -> Self {
        let mut first = Vec::with_capacity(graph.tensors().len());
        let mut count = 0;
        for tensor in graph.tensors() {
            first.push(count);
            count += tensor.dim.len();
        }
        let mut classes = Self { first, parent: (0..count).collect(), is_fixed: vec![false; count] };
        for (id, tensor) in graph.tensor_ids().zip(graph.tensors()) {
            if tensor.ragged_offset.is_some() || tensor.reordering != Reordering::None || tensor.is_pass_by_value {
                classes.fix_all(graph, id);
            }
        }
        graph.operations().iter().for_each(|operation| classes.join_operation(graph, operation));
        classes
    }

    fn join_operation(&mut self, graph: &Graph, operation: &Operation<TensorHandle>) {
        match &operation.attributes {
            Attributes::Pointwise(_) | Attributes::Reduction(_) | Attributes::GenStats => {
                let Some(result) = operation.result() else { return };
                let largest = operation.input_tensors().max_by_key(|&id| graph.tensors()[id.index()].dim.len());
                for id in operation.input_tensors().chain(operation.output_tensors()) {
                    self.join_broadcast(graph, largest.unwrap_or(result), id, 0);
                    self.join_broadcast(graph, result, id, 0);
                }
            }
            Attributes::Matmul(_) => self.join_matmul(graph, operation),
            Attributes::Convolution(convolution) => self.join_convolution(graph, operation, convolution),
            Attributes::ResampleForward(_) | Attributes::ResampleBackward(_) => {
                let spatial = |axis: usize| axis >= 2;
                self.join_alike(graph, operation, spatial);
            }
            Attributes::Concat(concat) => self.join_alike(graph, operation, |axis| axis as i64 == concat.axis),
            // The flag has extents of 1 only.
            Attributes::Signal(_) => self.join_alike(graph, operation, |_| false),
            Attributes::View => self.join_view(graph, operation),
            Attributes::Transpose => self.join_transpose(graph, operation),
            Attributes::PageGather => self.join_pages(graph, operation),
            Attributes::BlockBits => self.join_blocks(graph, operation),
            _ => operation.input_tensors().chain(operation.output_tensors()).for_each(|id| self.fix_all(graph, id)),
        }
    }

    /// Tensors that have all axes in common, save those that must stay.
    fn join_alike(&mut self, graph: &Graph, operation: &Operation<TensorHandle>, stays: impl Fn(usize) -> bool) {
        let Some(first) = operation.input_tensors().next() else { return };
        for id in operation.input_tensors().chain(operation.output_tensors()) {
            let rank = graph.tensors()[id.index()].dim.len();
            for axis in 0..rank {
                self.join(graph, (first, rank - axis), (id, rank - axis));
                if stays(axis) {
                    self.fix(graph, id, rank - axis);
                }
            }
        }
    }

    /// A view has the last axes of its tensor, and the first; those in between, of which it makes others, stay.
    fn join_view(&mut self, graph: &Graph, operation: &Operation<TensorHandle>) {
        let (Some(x), Some(y)) = (operation.input(Port::X), operation.output(Port::Y)) else { return };
        let [of_x, of_y] = [x, y].map(|id| graph.tensors()[id.index()].dim.as_slice());
        let last = of_x.iter().rev().zip(of_y.iter().rev()).take_while(|(a, b)| a == b).count();
        let shorter = of_x.len().min(of_y.len());
        let first = of_x[..shorter - last].iter().zip(of_y).take_while(|(a, b)| a == b).count();
        for (id, dim) in [(x, of_x), (y, of_y)] {
            (last + 1..=dim.len() - first).for_each(|from_last| self.fix(graph, id, from_last));
        }
        (1..=last).for_each(|from_last| self.join(graph, (x, from_last), (y, from_last)));
        (0..first).for_each(|axis| self.join(graph, (x, of_x.len() - axis), (y, of_y.len() - axis)));
    }

    /// The last axis but one of a matrix is the last of the other.
    fn join_transpose(&mut self, graph: &Graph, operation: &Operation<TensorHandle>) {
        let (Some(x), Some(y)) = (operation.input(Port::X), operation.output(Port::Y)) else { return };
        let rank = graph.tensors()[x.index()].dim.len();
        self.join(graph, (x, 1), (y, 2));
        self.join(graph, (x, 2), (y, 1));
        (3..=rank).for_each(|from_last| self.join(graph, (x, from_last), (y, from_last)));
    }

    /// Pages are fewer alone; sequences, heads and elements of a row are those of the container, its table and what is loaded. The rows of a
    /// page and of a sequence stay, and so does the number of entries that they make.
    fn join_pages(&mut self, graph: &Graph, operation: &Operation<TensorHandle>) {
        let [container, table, lengths] =
            [Port::CONTAINER, Port::PAGE_TABLE, Port::SEQ_LEN].map(|port| operation.input(port));
        let (Some(container), Some(y)) = (container, operation.output(Port::Y)) else { return };
        [3, 1].into_iter().for_each(|from_last| self.join(graph, (container, from_last), (y, from_last)));
        [container, y].into_iter().for_each(|id| self.fix(graph, id, 2));
        for id in [table, lengths].into_iter().flatten() {
            self.join(graph, (id, 4), (y, 4));
            (1..=3).for_each(|from_last| self.fix(graph, id, from_last));
        }
    }

    /// Batches and heads are the mask's; how many tiles rows and columns make is not told by their axes, which stay.
    fn join_blocks(&mut self, graph: &Graph, operation: &Operation<TensorHandle>) {
        let (Some(mask), Some(y)) = (operation.input(Port::BLOCK_MASK), operation.output(Port::Y)) else { return };
        [3, 4].into_iter().for_each(|from_last| self.join(graph, (mask, from_last), (y, from_last)));
        [mask, y].into_iter().for_each(|id| [1, 2].into_iter().for_each(|from_last| self.fix(graph, id, from_last)));
    }

    fn join_matmul(&mut self, graph: &Graph, operation: &Operation<TensorHandle>) {
        let [a, b] = [operation.input(Port::A), operation.input(Port::B)];
        let (Some(a), Some(b), Some(c)) = (a, b, operation.output(Port::C)) else { return };
        self.join_broadcast(graph, a, b, 2);
        self.join_broadcast(graph, c, a, 2);
        self.join_broadcast(graph, c, b, 2);
        self.join(graph, (a, 2), (c, 2));
        self.join(graph, (b, 1), (c, 1));
        self.join(graph, (a, 1), (b, 2));
        let overrides: Vec<TensorHandle> = operation.input_tensors().filter(|&id| id != a && id != b).collect();
        if !overrides.is_empty() {
            [a, b, c]
                .into_iter()
                .chain(overrides.iter().copied())
                .for_each(|id| [1, 2].into_iter().for_each(|from_last| self.fix(graph, id, from_last)));
        }
        overrides.into_iter().for_each(|id| self.join_broadcast(graph, c, id, 2));
    }

    /// The image is `[N, C, spatial…]`, the filter `[K, C / groups, window…]`, the response `[N, K, spatial…]`.
    fn join_convolution(&mut self, graph: &Graph, operation: &Operation<TensorHandle>, convolution: &Convolution) {
        let ([one, other], result) = convolution.ports();
        let (Some(one), Some(other), Some(result)) =
            (operation.input(one), operation.input(other), operation.output(result))
        else {
            return;
        };
        let (image, filter, response) = match convolution.direction {
            ConvolutionDirection::Forward => (one, other, result),
            ConvolutionDirection::BackwardData => (result, other, one),
            ConvolutionDirection::BackwardFilter => (other, result, one),
        };
        let dim = |id: TensorHandle| graph.tensors()[id.index()].dim.as_slice();
        let rank = dim(image).len();
        for id in [image, filter, response] {
            (1..=rank.saturating_sub(2)).for_each(|from_last| self.fix(graph, id, from_last));
        }
        self.join(graph, (image, rank), (response, rank));
        self.join(graph, (filter, rank), (response, rank - 1));
        self.join(graph, (image, rank - 1), (filter, rank - 1));
        if dim(image).get(1) != dim(filter).get(1) {
            [image, filter, response].into_iter().for_each(|id| self.fix(graph, id, rank - 1));
            self.fix(graph, filter, rank);
        }
    }

    /// Joins the axes of two tensors that are no broadcast, matched from the last; the last `skip` are left out.
    fn join_broadcast(&mut self, graph: &Graph, one: TensorHandle, other: TensorHandle, skip: usize) {
        let rank = |id: TensorHandle| graph.tensors()[id.index()].dim.len();
        for from_last in skip + 1..=rank(one).min(rank(other)) {
            self.join(graph, (one, from_last), (other, from_last));
        }
    }

    /// Joins two axes, each counted from the last one, which is 1, if they have one extent.
    fn join(&mut self, graph: &Graph, one: (TensorHandle, usize), other: (TensorHandle, usize)) {
        let (Some((one, extent)), Some((other, same))) = (self.place(graph, one), self.place(graph, other)) else {
            return;
        };
        let (one, other) = (self.root(one), self.root(other));
        if extent == same && one != other {
            self.parent[other] = one;
            self.is_fixed[one] |= self.is_fixed[other];
        }
    }

    fn fix(&mut self, graph: &Graph, id: TensorHandle, from_last: usize) {
        if let Some((place, _)) = self.place(graph, (id, from_last)) {
            let root = self.root(place);
            self.is_fixed[root] = true;
        }
    }

    fn fix_all(&mut self, graph: &Graph, id: TensorHandle) {
        (1..=graph.tensors()[id.index()].dim.len()).for_each(|from_last| self.fix(graph, id, from_last));
    }

    fn place(&self, graph: &Graph, (id, from_last): (TensorHandle, usize)) -> Option<(usize, i64)> {
        let dim = &graph.tensors()[id.index()].dim;
        let axis = dim.len().checked_sub(from_last)?;
        Some((self.first[id.index()] + axis, *dim.get(axis)?))
    }

    /// The place that stands for a class; paths are halved on the way.
    fn root(&mut self, mut place: usize) -> usize {
        while self.parent[place] != place {
            self.parent[place] = self.parent[self.parent[place]];
            place = self.parent[place];
        }
        place
    }

    /// The class of an axis of a tensor.
    pub(crate) fn class(&mut self, id: TensorHandle, axis: usize) -> usize {
        self.root(self.first[id.index()] + axis)
    }

    /// A tensor with other extents of classes: packed in the same order of axes where it was packed, else with the strides that it had.
    pub(crate) fn resized(
        &mut self,
        id: TensorHandle,
        before: &Tensor,
        extent: impl Fn(usize) -> Option<i64>,
    ) -> Tensor {
        let dim: Vec<i64> =
            before.dim.iter().enumerate().map(|(axis, &own)| extent(self.class(id, axis)).unwrap_or(own)).collect();
        Tensor { stride: strides(before, &dim), dim, ..before.clone() }
    }
}

/// For smaller twins, and sizes of a range.
#[cfg(feature = "reference")]
impl AxisClasses {
    /// Classes are numbered below this.
    pub(crate) fn count(&self) -> usize {
        self.parent.len()
    }

    /// The class of an axis of a tensor, where its extent may be another: where it does not belong to what the graph is.
    pub(crate) fn free(&mut self, id: TensorHandle, axis: usize) -> Option<usize> {
        let class = self.class(id, axis);
        (!self.is_fixed[class]).then_some(class)
    }

    /// Gives an extent to all axes of a class of some tensors.
    pub(crate) fn set_extent(&mut self, graph: &mut Graph, ids: &[TensorHandle], class: usize, extent: i64) {
        for &id in ids {
            let before = graph.tensors()[id.index()].clone();
            *graph.tensor_mut(id) = self.resized(id, &before, |of| (of == class).then_some(extent));
        }
    }
}

/// Strides of the tensor with other extents: packed in the same order where it was packed, else as they were.
fn strides(before: &Tensor, dim: &[i64]) -> Vec<i64> {
    let mut order: Vec<usize> = (0..before.dim.len()).collect();
    order.sort_by_key(|&axis| (before.stride[axis], before.dim[axis]));
    let (mut step, mut new_step) = (1, 1);
    let mut stride = before.stride.clone();
    for axis in order {
        if before.stride[axis] != step {
            return before.stride.clone();
        }
        stride[axis] = new_step;
        step *= before.dim[axis];
        new_step *= dim[axis];
    }
    stride
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_kept() {
        let nhwc = Tensor::new("x").channels_last([8, 64, 32, 32]);
        assert_eq!(strides(&nhwc, &[8, 64, 16, 32]), Tensor::new("x").channels_last([8, 64, 16, 32]).stride);
        let padded = Tensor::new("x").dim([8, 64]).stride([80, 1]);
        assert_eq!(strides(&padded, &[8, 32]), [80, 1]);
    }
}
