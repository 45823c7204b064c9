//! Smaller twins of graphs that are too large for a slow computation.
//!
//! The rule: axes whose extents must agree (the K of a matmul's A and B, the same axis of a pointwise operation's
//! tensors, …) form a class. The class of the largest extent is halved, and so on, until the graph is small enough. A
//! halved extent is rounded up to a multiple of the largest power of two, up to 16, that divides it, so that alignments
//! stay as they are; where that is not enough, up to 8, 4, 2 and 1. Left alone are extents of 1 and 2, what a
//! convolution's or resampling's window runs over, matrices of a product with overridden extents, the axis of a concatenation, rows of
//! pages and of what lies in pages, channels of grouped convolutions, and tensors of operations without such a structure. Packed tensors
//! stay packed in the same order of axes; others keep their strides.

use crate::graph::{AxisClasses, FinalizedGraph, Graph, TensorHandle, TensorId};

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
    let mut classes = AxisClasses::of(graph);
    let mut shrunk: Option<FinalizedGraph> = None;
    for unit in [16, 8, 4, 2, 1] {
        let mut refused = vec![false; classes.count()];
        while !is_small(shrunk.as_ref().unwrap_or(graph)) {
            let Some((class, extent)) = largest(&mut classes, &draft, unit, &refused) else { break };
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

/// The free class of the largest extent that halving makes smaller, the first one of several.
fn largest(classes: &mut AxisClasses, graph: &Graph, unit: i64, refused: &[bool]) -> Option<(usize, i64)> {
    let mut best: Option<(usize, i64)> = None;
    for (id, tensor) in graph.tensor_ids().zip(graph.tensors()) {
        for (axis, &extent) in tensor.dim.iter().enumerate() {
            let class = classes.free(id, axis).filter(|&class| !refused[class]);
            let is_larger = extent > best.map_or(2, |best| best.1) && halved(extent, unit) < extent;
            if let Some(class) = class.filter(|_| is_larger) {
                best = Some((class, extent));
            }
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Convolution, ConvolutionDirection, DataType, PointwiseMode, ReductionMode, Tensor};

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
