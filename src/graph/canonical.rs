//! A numbering of operations that depends on a graph's structure alone.
//!
//! Colour refinement (Weisfeiler and Lehman) on operations and tensors together, run as Hopcroft's partition
//! refinement, so that a chain of n equal operations costs n·log n and not n²: cells start as classes of equal
//! attributes and are split by how often, and at which ports, their members touch another cell. What refinement leaves
//! together is nearly always interchangeable (twin branches), so one member is singled out and refinement goes on.
//! As long as that is cheap, every member is tried, and the one taken whose refinement looks least: so parts that are
//! locally alike but differ as a whole, such as rings of different lengths, keep their order. Two isomorphic graphs
//! could still be numbered differently (large or strongly regular structures): the cost is a second cache entry, never
//! a wrong kernel.

use std::collections::VecDeque;
use std::ops::Range;

use super::draft::Draft;
use super::key::{operation_bytes, tensor_bytes};

/// How many vertices may be copied, over all trials of one graph (some 50 ms of work).
const TRIAL_BUDGET: usize = 1 << 19;

/// For every operation, its place in the canonical numbering; all different. Needs complete tensors.
pub(super) fn ranks(draft: &Draft) -> Vec<u32> {
    let edges = adjacency(draft);
    let mut partition = Partition::new(&initial_colors(draft));
    partition.refine(&edges);
    let mut budget = TRIAL_BUDGET;
    while let Some(members) = partition.open_cell() {
        let cost = members.len() * partition.elements.len();
        if cost <= budget {
            budget -= cost;
            partition = least_of_trials(&partition, members, &edges);
        } else {
            partition.single_out(members.end - 1, &edges);
        }
    }
    partition.place.truncate(draft.operations.len());
    partition.place
}

/// Singles out each member of a cell in a copy; gives the copy of least trace.
fn least_of_trials(partition: &Partition, members: Range<usize>, edges: &[Vec<(u32, u64)>]) -> Partition {
    let trials = members.map(|at| {
        let mut trial = partition.clone();
        trial.single_out(at, edges);
        trial
    });
    trials.min_by_key(|trial| trial.trace).expect("an open cell has members")
}

/// Neighbours of every vertex with the weight of the port that joins them. Vertices: operations, then tensors.
fn adjacency(draft: &Draft) -> Vec<Vec<(u32, u64)>> {
    let operations = draft.operations.len();
    let mut edges = vec![Vec::new(); operations + draft.tensors.len()];
    let mut join = |a: usize, b: usize, label: u64| {
        edges[a].push((b as u32, mix(2 * label)));
        edges[b].push((a as u32, mix(2 * label + 1)));
    };
    for (vertex, operation) in draft.operations.iter().enumerate() {
        for (port, id) in operation.input_tensors().enumerate() {
            join(vertex, operations + id.index(), 2 * port as u64 + 2);
        }
        for (port, id) in operation.output_tensors().enumerate() {
            join(vertex, operations + id.index(), 2 * port as u64 + 3);
        }
    }
    for id in draft.used_tensors(draft.operation_ids()) {
        if let Some(offset) = draft.ragged_offset(id) {
            join(operations + id.index(), operations + offset.index(), 0);
        }
    }
    edges
}

/// What can be said of each vertex on its own. Tensors that no operation names all look alike and have no edges.
fn initial_colors(draft: &Draft) -> Vec<Vec<u8>> {
    let mut colors: Vec<Vec<u8>> =
        draft.operations.iter().map(|operation| tagged(1, operation_bytes(operation))).collect();
    let tensors = colors.len();
    colors.resize(tensors + draft.tensors.len(), Vec::new());
    for id in draft.used_tensors(draft.operation_ids()) {
        colors[tensors + id.index()] = tagged(2, tensor_bytes(draft.tensor(id)));
    }
    colors
}

fn tagged(tag: u8, bytes: Vec<u8>) -> Vec<u8> {
    let mut all = vec![tag];
    all.extend(bytes);
    all
}

/// Spreads small labels over 64 bits (the finalizer of splitmix64), so that sums of labels tell multisets apart.
fn mix(label: u64) -> u64 {
    let z = label.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// An ordered partition of the vertices. A cell is a run of `elements`, named by where it starts.
#[derive(Clone)]
struct Partition {
    /// Vertices, cell after cell.
    elements: Vec<u32>,
    /// Where each vertex stands in `elements`.
    place: Vec<u32>,
    /// Cell of each vertex.
    cell: Vec<u32>,
    /// Size of the cell that starts here, else 0.
    size: Vec<u32>,
    /// Cells by which others may still have to be split, first in, first out.
    queue: VecDeque<u32>,
    queued: Vec<bool>,
    /// No cell before this one has two members.
    first_open: usize,
    /// Sum of each vertex's edges into the current splitter; zero between calls of `split_by`.
    weight: Vec<u64>,
    is_reached: Vec<bool>,
    /// Hash of all splits so far, in terms of cells and weights only.
    trace: u64,
}

/// A vertex with edges into the current splitter.
struct Reached {
    cell: u32,
    weight: u64,
    vertex: u32,
}

impl Partition {
    /// Cells of equal colour, in the order of colours. Vertices of empty colour (unused tensors) are left out of every
    /// cell's way: they come first, and nothing touches them.
    fn new(colors: &[Vec<u8>]) -> Self {
        let count = colors.len();
        let mut elements: Vec<u32> = (0..count as u32).collect();
        elements.sort_by(|&a, &b| colors[a as usize].cmp(&colors[b as usize]));
        let mut this = Self {
            place: vec![0; count],
            cell: vec![0; count],
            size: vec![0; count],
            queue: VecDeque::new(),
            queued: vec![false; count],
            first_open: 0,
            weight: vec![0; count],
            is_reached: vec![false; count],
            trace: 0,
            elements,
        };
        let mut start = 0;
        for at in 0..count {
            let vertex = this.elements[at] as usize;
            let is_new = at == 0 || colors[vertex] != colors[this.elements[at - 1] as usize];
            if is_new {
                start = at;
                this.pending(at as u32);
            }
            this.place[vertex] = at as u32;
            this.cell[vertex] = start as u32;
            this.size[start] += 1;
        }
        this.first_open = colors.iter().filter(|color| color.is_empty()).count();
        this
    }

    /// Puts a cell in the queue.
    fn pending(&mut self, cell: u32) {
        if !std::mem::replace(&mut self.queued[cell as usize], true) {
            self.queue.push_back(cell);
        }
    }

    /// Splits cells until all members of each have as many neighbours of every kind in every cell.
    fn refine(&mut self, edges: &[Vec<(u32, u64)>]) {
        while let Some(cell) = self.queue.pop_front() {
            self.queued[cell as usize] = false;
            self.split_by(cell, edges);
        }
    }

    /// Splits every cell by its members' edges into `splitter`.
    fn split_by(&mut self, splitter: u32, edges: &[Vec<(u32, u64)>]) {
        let range = splitter as usize..(splitter + self.size[splitter as usize]) as usize;
        let mut vertices = Vec::new();
        for &member in &self.elements[range] {
            for &(vertex, weight) in &edges[member as usize] {
                let at = vertex as usize;
                if self.size[self.cell[at] as usize] == 1 {
                    continue;
                }
                if !std::mem::replace(&mut self.is_reached[at], true) {
                    vertices.push(vertex);
                }
                self.weight[at] = self.weight[at].wrapping_add(weight);
            }
        }
        let mut reached: Vec<Reached> = vertices.into_iter().map(|vertex| self.take_reached(vertex)).collect();
        reached.sort_unstable_by_key(|reached| (reached.cell, reached.weight));
        reached.chunk_by(|a, b| a.cell == b.cell).for_each(|group| self.split_cell(group));
    }

    fn take_reached(&mut self, vertex: u32) -> Reached {
        let at = vertex as usize;
        self.is_reached[at] = false;
        Reached { cell: self.cell[at], weight: std::mem::take(&mut self.weight[at]), vertex }
    }

    /// Splits one cell: members not reached keep the front, the others follow by weight, one part a weight.
    fn split_cell(&mut self, reached: &[Reached]) {
        let cell = reached[0].cell;
        let front = self.size[cell as usize] - reached.len() as u32;
        let mut parts = Vec::new();
        if front > 0 {
            parts.push((cell, front));
        }
        let mut start = cell + front;
        for part in reached.chunk_by(|a, b| a.weight == b.weight) {
            parts.push((start, part.len() as u32));
            self.trace = mix(mix(self.trace ^ part[0].weight) ^ (u64::from(start) << 32 | part.len() as u64));
            for (reached, at) in part.iter().zip(start..) {
                self.move_to(reached.vertex, at);
                self.cell[reached.vertex as usize] = start;
            }
            start += part.len() as u32;
        }
        if parts.len() > 1 {
            self.enqueue_parts(cell, &parts);
        }
    }

    /// All parts of a cell that waits; else all but the largest, whose edges follow from the whole's and the others'.
    fn enqueue_parts(&mut self, cell: u32, parts: &[(u32, u32)]) {
        parts.iter().for_each(|&(start, size)| self.size[start as usize] = size);
        let largest = parts.iter().rev().max_by_key(|part| part.1).map_or(cell, |part| part.0);
        let all = self.queued[cell as usize];
        for &(start, _) in parts {
            if all || start != largest {
                self.pending(start);
            }
        }
    }

    fn move_to(&mut self, vertex: u32, at: u32) {
        let from = self.place[vertex as usize];
        let other = self.elements[at as usize];
        self.elements.swap(from as usize, at as usize);
        self.place[vertex as usize] = at;
        self.place[other as usize] = from;
    }

    /// Places of the first cell with several members; `None` when there is none.
    fn open_cell(&mut self) -> Option<Range<usize>> {
        while self.first_open < self.elements.len() && self.size[self.first_open] == 1 {
            self.first_open += 1;
        }
        let size = *self.size.get(self.first_open)?;
        Some(self.first_open..self.first_open + size as usize)
    }

    /// Makes the vertex at this place of the first open cell a cell of its own, behind the others, and refines.
    fn single_out(&mut self, at: usize, edges: &[Vec<(u32, u64)>]) {
        let vertex = self.elements[at];
        let last = self.first_open as u32 + self.size[self.first_open] - 1;
        self.move_to(vertex, last);
        self.size[self.first_open] -= 1;
        self.size[last as usize] = 1;
        self.cell[vertex as usize] = last;
        self.pending(last);
        self.refine(edges);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::samples::{half_graph, image, input, matmul_bias_relu, shuffled};
    use crate::graph::{
        Attributes, Concat, Convolution, ConvolutionDirection, Graph, Operation, PointwiseMode, Port, Tensor,
    };

    fn assert_order_is_nothing(graph: &Graph) {
        let finalized = graph.finalize().unwrap();
        for seed in 0..20 {
            let other = shuffled(graph, seed).finalize().unwrap();
            assert_eq!(other.text(), finalized.text(), "seed {seed}");
            assert_eq!(other.key(), finalized.key(), "seed {seed}");
        }
    }

    #[test]
    fn chains_and_diamonds() {
        assert_order_is_nothing(&matmul_bias_relu());
        let mut graph = half_graph();
        let x = input(&mut graph, "x", &[4, 5]);
        let left = graph.pointwise("left", PointwiseMode::Exp, &[x]);
        let right = graph.pointwise("right", PointwiseMode::Exp, &[x]);
        let joined = graph.pointwise("join", PointwiseMode::Sub, &[left, right]);
        let again = graph.pointwise("again", PointwiseMode::Mul, &[joined, x]);
        let twice = graph.pointwise("twice", PointwiseMode::Add, &[again, again]);
        graph.set_output(twice);
        assert_order_is_nothing(&graph);
    }

    #[test]
    fn statistics_after_a_convolution() {
        let mut graph = half_graph();
        let x = image(&mut graph, "x", &[4, 64, 16, 16]);
        let w = image(&mut graph, "w", &[32, 64, 3, 3]);
        let y = graph.convolution("conv", Convolution::new(ConvolutionDirection::Forward, 2), [x, w]);
        let (sum, sq_sum) = graph.genstats("stats", y);
        for id in [y, sum, sq_sum] {
            graph.set_output(id);
        }
        assert_order_is_nothing(&graph);
    }

    /// Equal branches from equal inputs that cross: `a_i = x_i + exp x_{i+1}`, round a ring. Nothing tells any of
    /// them apart until one is singled out.
    #[test]
    fn rings_of_twins() {
        for twins in [2, 3, 8] {
            let mut graph = half_graph();
            let inputs: Vec<_> = (0..twins).map(|at| input(&mut graph, &format!("x{at}"), &[4])).collect();
            for at in 0..twins {
                let exp = graph.pointwise("exp", PointwiseMode::Exp, &[inputs[(at + 1) % twins]]);
                let sum = graph.pointwise("sum", PointwiseMode::Add, &[inputs[at], exp]);
                graph.set_output(sum);
            }
            assert_order_is_nothing(&graph);
        }
    }

    #[test]
    fn twins_that_share_all_inputs_stay_with_their_own_consumers() {
        let mut graph = half_graph();
        let x = input(&mut graph, "x", &[4]);
        for _ in 0..6 {
            let relu = graph.pointwise("relu", PointwiseMode::ReluFwd, &[x]);
            let exp = graph.pointwise("exp", PointwiseMode::Exp, &[x]);
            let sum = graph.pointwise("sum", PointwiseMode::Sub, &[relu, exp]);
            graph.set_output(sum);
        }
        assert_order_is_nothing(&graph);
    }

    #[test]
    fn ragged_offsets_tell_tensors_apart() {
        let build = |swapped: bool| {
            let mut graph = half_graph();
            let offsets = [input(&mut graph, "o1", &[5]), input(&mut graph, "o2", &[5])];
            let x = graph.tensor(Tensor { ragged_offset: Some(offsets[0]), ..Tensor::new("x").row_major([4, 2]) });
            let y = graph.tensor(Tensor { ragged_offset: Some(offsets[1]), ..Tensor::new("y").row_major([4, 2]) });
            let used = offsets[usize::from(swapped)];
            let sum = graph.pointwise("sum", PointwiseMode::Sub, &[x, y]);
            let length = graph.pointwise("length", PointwiseMode::Exp, &[used]);
            for id in [sum, length] {
                graph.set_output(id);
            }
            graph
        };
        assert_order_is_nothing(&build(false));
        assert_ne!(build(false).finalize().unwrap().key(), build(true).finalize().unwrap().key());
    }

    #[test]
    fn operand_order_is_kept() {
        let build = |order: [usize; 2]| {
            let mut graph = half_graph();
            let x = [input(&mut graph, "x", &[2, 4]), input(&mut graph, "y", &[1, 4])];
            let sum = graph.pointwise("sum", PointwiseMode::Add, &order.map(|at| x[at]));
            graph.set_output(sum).stride = vec![4, 1];
            graph.finalize().unwrap().key()
        };
        assert_ne!(build([0, 1]), build([1, 0]));
    }

    #[test]
    fn rings_of_different_lengths() {
        let mut graph = half_graph();
        let source = input(&mut graph, "source", &[4]);
        for ring in [1, 3, 2, 3] {
            let inputs: Vec<_> = (0..ring).map(|_| graph.pointwise("exp", PointwiseMode::Exp, &[source])).collect();
            for at in 0..ring {
                let difference = graph.pointwise("sub", PointwiseMode::Sub, &[inputs[at], inputs[(at + 1) % ring]]);
                graph.set_output(difference);
            }
        }
        assert_order_is_nothing(&graph);
    }

    fn chain(length: usize) -> Graph {
        let mut graph = half_graph();
        let mut x = input(&mut graph, "x", &[4]);
        for _ in 0..length {
            x = graph.pointwise("relu", PointwiseMode::ReluFwd, &[x]);
        }
        graph.set_output(x);
        graph
    }

    #[test]
    fn a_long_chain() {
        let graph = chain(10_000);
        assert_eq!(graph.finalize().unwrap().key(), shuffled(&graph, 1).finalize().unwrap().key());
    }

    #[test]
    fn one_tensor_used_five_thousand_times() {
        let mut graph = half_graph();
        let x = input(&mut graph, "x", &[4]);
        let terms: Vec<_> = (0..5000).map(|_| graph.pointwise("relu", PointwiseMode::ReluFwd, &[x])).collect();
        let inputs = terms.iter().map(|&id| (Port::CONCAT_INPUT, id)).collect();
        let y = graph.tensor(Tensor::new("y").data_type(crate::graph::DataType::Float));
        graph.operation(Operation {
            name: "all".to_owned(),
            attributes: Attributes::Concat(Concat { axis: 0, in_place_index: None }),
            compute_data_type: None,
            inputs,
            outputs: vec![(Port::Y, y)],
        });
        assert_eq!(graph.finalize().unwrap().key(), shuffled(&graph, 3).finalize().unwrap().key());
    }

    #[test]
    fn twenty_thousand_twins() {
        let mut graph = half_graph();
        for _ in 0..20_000 {
            let x = input(&mut graph, "x", &[4]);
            let y = graph.pointwise("relu", PointwiseMode::ReluFwd, &[x]);
            graph.set_output(y);
        }
        assert_eq!(graph.finalize().unwrap().key(), shuffled(&graph, 5).finalize().unwrap().key());
    }

    /// Random graphs of few kinds of operations, so that many look alike.
    fn random_graph(inputs: usize, steps: &[(bool, u16, u16)]) -> Graph {
        let mut graph = half_graph();
        let mut values: Vec<_> = (0..inputs).map(|at| input(&mut graph, &format!("x{at}"), &[4])).collect();
        for &(binary, one, other) in steps {
            let operands = [one, other].map(|at| values[usize::from(at) % values.len()]);
            let result = match binary {
                true => graph.pointwise("sub", PointwiseMode::Sub, &operands),
                false => graph.pointwise("exp", PointwiseMode::Exp, &operands[..1]),
            };
            values.push(result);
        }
        for &id in &values[inputs..] {
            graph.set_output(id);
        }
        graph
    }

    proptest! {
        #[test]
        fn random_graphs(
            inputs in 1usize..5,
            steps in prop::collection::vec((any::<bool>(), any::<u16>(), any::<u16>()), 1..24),
            seed in any::<u64>(),
        ) {
            let graph = random_graph(inputs, &steps);
            prop_assert_eq!(shuffled(&graph, seed).finalize().unwrap().text(), graph.finalize().unwrap().text());
        }
    }
}
