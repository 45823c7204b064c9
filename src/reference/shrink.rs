//! Smaller twins of graphs that are too large for a slow computation.
//!
//! The rule: axes whose extents must agree (the K of a matmul's A and B, the same axis of a pointwise operation's
//! tensors, …) form a class. The class of the largest extent is halved, and so on, until the graph is small enough. A
//! halved extent is rounded up to a multiple of the largest power of two, up to 16, that divides it, so that alignments
//! stay as they are; where that is not enough, up to 8, 4, 2 and 1. Left alone are extents of 1 and 2, what a
//! convolution's or resampling's window runs over, matrices of a product with overridden extents, the axis of a concatenation, rows of
//! pages and of what lies in pages, channels of grouped convolutions, and tensors of operations without such a structure. Packed tensors
//! stay packed in the same order of axes; others keep their strides.

use crate::graph::{
    Attributes, Convolution, ConvolutionDirection, FinalizedGraph, Graph, Operation, Port, Reordering, Tensor,
    TensorHandle, TensorId,
};

/// A graph made smaller.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The smaller graph; its names and uids are those of the large one.
    pub graph: FinalizedGraph,
    /// What became of the tensors in memory: `'A' (uid 1) [1, 4096, 4096] as [1, 512, 512]`.
    pub changes: Vec<String>,
}

/// Shrinks a graph until it is small enough, or as far as the rule of this module goes. Every step must finalize and be
/// accepted; `None` where nothing can be shrunk.
pub fn shrink(
    graph: &FinalizedGraph,
    is_small: impl Fn(&FinalizedGraph) -> bool,
    accepts: impl Fn(&FinalizedGraph) -> bool,
) -> Option<Shrunk> {
    let ids: Vec<TensorHandle> = graph.tensor_ids().map(TensorId::handle).collect();
    let mut draft = graph.to_graph();
    let mut classes = AxisClasses::of(&graph.expand().to_graph());
    let mut shrunk: Option<FinalizedGraph> = None;
    for unit in [16, 8, 4, 2, 1] {
        let mut refused = vec![false; classes.parent.len()];
        while !is_small(shrunk.as_ref().unwrap_or(graph)) {
            let Some((class, extent)) = classes.largest(&draft, unit, &refused) else { break };
            let mut smaller = draft.clone();
            classes.set_extent(&mut smaller, &ids, class, halved(extent, unit));
            match smaller.finalize() {
                Ok(finalized) if accepts(&finalized) => {
                    shrunk = Some(finalized);
                    draft = smaller;
                }
                _ => refused[class] = true,
            }
        }
    }
    shrunk.map(|small| Shrunk { changes: changes(graph, &small), graph: small })
}

/// Half of an extent, rounded up to a multiple of the largest power of two up to `unit` that divides the extent.
fn halved(extent: i64, unit: i64) -> i64 {
    let unit = unit.min(1 << extent.trailing_zeros().min(4));
    (extent + 1) / 2 + (unit - (extent + 1) / 2 % unit) % unit
}

fn changes(large: &FinalizedGraph, small: &FinalizedGraph) -> Vec<String> {
    let in_memory = large.inputs().chain(large.outputs());
    in_memory
        .filter_map(|id| {
            let (from, to) = (large.tensor(id), small.tensor(small.tensor_by_uid(large.tensor(id).uid)?));
            (from.dim != to.dim).then(|| format!("{} {:?} as {:?}", large.describe_tensor(id), from.dim, to.dim))
        })
        .collect()
}

/// Axes of a graph's tensors, joined where their extents must agree: a forest of (tensor, axis) places.
pub(super) struct AxisClasses {
    /// Number of the first axis of each tensor.
    first: Vec<usize>,
    parent: Vec<usize>,
    /// By root: the extent must stay.
    is_fixed: Vec<bool>,
}

impl AxisClasses {
    /// The classes of a graph whose composite operations are taken apart; the tensors of the whole come first.
    pub(super) fn of(graph: &Graph) -> Self {
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

    /// The class of an axis of a tensor, where its extent may be another.
    pub(super) fn free(&mut self, id: TensorHandle, axis: usize) -> Option<usize> {
        let root = self.root(self.first[id.index()] + axis);
        (!self.is_fixed[root]).then_some(root)
    }

    /// The free class of the largest extent that halving makes smaller, the first one of several.
    fn largest(&mut self, graph: &Graph, unit: i64, refused: &[bool]) -> Option<(usize, i64)> {
        let extents: Vec<i64> = graph.tensors().iter().flat_map(|tensor| tensor.dim.iter().copied()).collect();
        let roots: Vec<usize> = (0..extents.len()).map(|place| self.root(place)).collect();
        let free = |&(root, extent): &(usize, i64)| {
            !self.is_fixed[root] && !refused[root] && extent > 2 && halved(extent, unit) < extent
        };
        roots.into_iter().zip(extents).filter(free).reduce(|best, next| if next.1 > best.1 { next } else { best })
    }

    pub(super) fn set_extent(&mut self, graph: &mut Graph, ids: &[TensorHandle], class: usize, extent: i64) {
        for &id in ids {
            let before = graph.tensors()[id.index()].clone();
            let first = self.first[id.index()];
            let mut dim = before.dim.clone();
            for (axis, own) in dim.iter_mut().enumerate() {
                if self.root(first + axis) == class {
                    *own = extent;
                }
            }
            let tensor = graph.tensor_mut(id);
            tensor.stride = strides(&before, &dim);
            tensor.dim = dim;
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
    use crate::graph::{DataType, PointwiseMode, ReductionMode};

    fn floats() -> Graph {
        let float = DataType::Float;
        Graph::new().io_data_type(float).intermediate_data_type(float).compute_data_type(float)
    }

    /// Elements of all tensors, and the core's multiply-adds.
    fn work(graph: &FinalizedGraph) -> u64 {
        let elements = graph.tensors().map(|tensor| tensor.dim.iter().product::<i64>()).fold(0, i64::saturating_add);
        elements as u64 + crate::engine::Floor::of(graph).flops / 2
    }

    fn at_most(limit: u64) -> impl Fn(&FinalizedGraph) -> bool {
        move |graph| work(graph) <= limit
    }

    fn dims(graph: &FinalizedGraph, name: &str) -> Vec<i64> {
        graph.tensors().find(|tensor| tensor.name == name).unwrap().dim.clone()
    }

    fn matmul_bias(m: i64, n: i64, k: i64) -> FinalizedGraph {
        let mut graph = floats();
        let a = graph.tensor(Tensor::new("A").row_major([2, m, k]));
        let b = graph.tensor(Tensor::new("B").row_major([1, k, n]));
        let bias = graph.tensor(Tensor::new("bias").row_major([1, 1, n]));
        let c = graph.matmul("mm", a, b);
        let y = graph.pointwise("add", PointwiseMode::Add, &[c, bias]);
        graph.set_output(y).name = "Y".to_owned();
        graph.finalize().unwrap()
    }

    #[test]
    fn a_composite_operation_shrinks_as_what_defines_it() {
        let mut graph = floats();
        let x = graph.tensor(Tensor::new("x").row_major([64, 3, 4000]));
        let sink = graph.tensor(Tensor::new("sink").row_major([1, 3, 1]));
        let (y, statistics) = graph.softmax_with("s", x, Some(sink), &[crate::graph::Port::STATS]);
        for id in [y, statistics[0]] {
            graph.set_output(id);
        }
        let small = shrink(&graph.finalize().unwrap(), at_most(20_000), |_| true).unwrap().graph;
        let [x, y, stats, sink] = ["x", "s::Y", "s::Stats", "sink"].map(|name| dims(&small, name));
        assert_eq!((x.clone(), [x[0], x[1], 1].to_vec()), (y, stats));
        assert!(x[0] < 64 || x[2] < 4000, "{x:?}");
        assert_eq!(sink, [1, x[1], 1]);
    }

    /// Images and their axes shrink under groups; a number of groups does not follow channels, which stay.
    #[test]
    fn images_of_a_group_norm_shrink_and_its_channels_stay() {
        use crate::graph::{NormBackward, NormMode, Port};
        let mut graph = floats();
        let [dy, x] = ["dy", "x"].map(|name| graph.tensor(Tensor::new(name).row_major([64, 12, 500])));
        let [mean, inverse] = ["mean", "inverse"].map(|name| graph.tensor(Tensor::new(name).row_major([64, 3, 1])));
        let inputs = [(Port::DY, dy), (Port::X, x), (Port::MEAN, mean), (Port::INV_VARIANCE, inverse)];
        let norm = NormBackward { mode: NormMode::groups(3) };
        let dx = graph.composite("norm", norm, &inputs, &[Port::DX])[0];
        graph.set_output(dx);
        let small = shrink(&graph.finalize().unwrap(), at_most(10_000), |_| true).unwrap().graph;
        let [x, mean] = ["x", "mean"].map(|name| dims(&small, name));
        assert_eq!((x[1], &mean[..]), (12, &[x[0], 3, 1][..]));
        assert!(x[0] < 64 && x[2] < 500, "{x:?}");
    }

    #[test]
    fn extents_that_belong_together_shrink_together() {
        let large = matmul_bias(4096, 1000, 512);
        let small = shrink(&large, at_most(10_000_000), |_| true).unwrap().graph;
        let [a, b, y] = ["A", "B", "Y"].map(|name| dims(&small, name));
        assert_eq!((a[0], a[1], a[2], b[2]), (2, y[1], b[1], y[2]));
        assert_eq!(dims(&small, "bias"), [1, 1, b[2]]);
        assert!(work(&small) <= 10_000_000);
        assert!(a[1] % 16 == 0 && a[2] % 16 == 0 && b[2] % 8 == 0, "{a:?} {b:?}");
    }

    #[test]
    fn a_small_graph_is_left_alone() {
        assert!(shrink(&matmul_bias(16, 16, 16), at_most(1 << 20), |_| true).is_none());
    }

    #[test]
    fn what_is_not_accepted_does_not_happen() {
        let large = matmul_bias(4096, 4096, 512);
        let small = shrink(&large, at_most(1 << 20), |graph| dims(graph, "A")[1] >= 1024).unwrap().graph;
        assert_eq!(dims(&small, "A")[1], 1024);
        assert!(shrink(&large, at_most(1 << 20), |_| false).is_none());
    }

    #[test]
    fn halves_keep_the_alignment_and_never_grow() {
        for (extent, unit, half) in
            [(4096, 16, 2048), (1000, 16, 504), (33, 16, 17), (16, 16, 16), (16, 8, 8), (3, 1, 2)]
        {
            assert_eq!(halved(extent, unit), half, "{extent} by {unit}");
        }
        assert!((1..5000).all(|extent| [16, 8, 4, 2, 1].iter().all(|&unit| halved(extent, unit) <= extent)));
    }

    #[test]
    fn layouts_are_kept() {
        let nhwc = Tensor::new("x").channels_last([8, 64, 32, 32]);
        assert_eq!(strides(&nhwc, &[8, 64, 16, 32]), Tensor::new("x").channels_last([8, 64, 16, 32]).stride);
        let padded = Tensor::new("x").dim([8, 64]).stride([80, 1]);
        assert_eq!(strides(&padded, &[8, 32]), [80, 1]);
    }

    /// Pages and sequences are fewer, with what describes them; their rows stay.
    #[test]
    fn sequences_in_pages_shrink() {
        use crate::graph::{PagedCacheLoad, Port};
        let mut graph = floats();
        let container = graph.tensor(Tensor::new("container").row_major([512, 4, 16, 64]));
        let table = graph.tensor(Tensor::new("table").row_major([32, 1, 8, 1]).data_type(DataType::Int32));
        let lengths = graph.tensor(Tensor::new("lengths").row_major([32, 1, 1, 1]).data_type(DataType::Int32));
        let inputs = [(Port::CONTAINER, container), (Port::PAGE_TABLE, table), (Port::SEQ_LEN, lengths)];
        let out = graph.composite("load", PagedCacheLoad, &inputs, &[Port::Y_OUT])[0];
        *graph.set_output(out) = Tensor::new("Y").row_major([32, 4, 128, 64]);
        let small = shrink(&graph.finalize().unwrap(), at_most(40_000), |_| true).unwrap().graph;
        let [container, table, lengths, y] = ["container", "table", "lengths", "Y"].map(|name| dims(&small, name));
        assert_eq!((container[1], container[2], container[3]), (y[1], 16, y[3]));
        assert_eq!((table, lengths), (vec![y[0], 1, 8, 1], vec![y[0], 1, 1, 1]));
        assert!(container[0] < 512 && y[0] < 32 && y[2] == 128, "{container:?} {y:?}");
        assert!(work(&small) <= 40_000);
    }

    #[test]
    fn a_reduced_axis_shrinks_alone() {
        let mut graph = floats();
        let x = graph.tensor(Tensor::new("X").channels_last([32, 256, 64, 64]));
        let y = graph.reduction("sum", ReductionMode::Add, x, [1, 256, 1, 1]);
        *graph.set_output(y) = Tensor::new("Y").channels_last([1, 256, 1, 1]);
        let small = shrink(&graph.finalize().unwrap(), at_most(100_000), |_| true).unwrap().graph;
        assert_eq!(dims(&small, "Y")[1], dims(&small, "X")[1]);
        assert!(work(&small) <= 100_000);
    }

    #[test]
    fn windows_stay_and_batch_and_channels_shrink() {
        let mut graph = floats();
        let x = graph.tensor(Tensor::new("X").channels_last([32, 128, 28, 28]));
        let w = graph.tensor(Tensor::new("W").channels_last([256, 128, 3, 3]));
        let convolution = Convolution::new(ConvolutionDirection::Forward, 2).padding([1, 1]);
        let y = graph.convolution("conv", convolution, [x, w]);
        graph.set_output(y).name = "Y".to_owned();
        let small = shrink(&graph.finalize().unwrap(), at_most(50_000_000), |_| true).unwrap().graph;
        let [x, w, y] = ["X", "W", "Y"].map(|name| dims(&small, name));
        assert_eq!((&x[2..], &w[2..]), ([28, 28].as_slice(), [3, 3].as_slice()));
        assert_eq!((x[0], x[1], y[1]), (y[0], w[1], w[0]));
        assert!(work(&small) <= 50_000_000);
    }
}
