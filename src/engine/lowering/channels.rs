//! Passes over the same points in one launch where the innermost axis is kept, or the one before it: norms of batches and instances of images whose
//! channels lie side by side, of groups of these, and whatever else reads what points with such axes were reduced to.

use super::phases::{Gathered, Planned, phase_parameters};
use super::row_threads::{most_blocks_of_a_cluster, power_of_two_up_to};
use super::sweep::to_u32;
use crate::device::{ComputeCapability, Device};
use crate::engine::builder::{KernelBuilder, Shape};
use crate::graph::{DataType, TensorId};
use crate::kernel::{Access, Body, ChannelsKernel, MOST_BLOCKS_OF_A_LARGE_CLUSTER, Phase, Sweep};

/// Bytes of a pixel that a block reads: whole lines of L2, or half of one; and sectors, at which a multiprocessor moved 12 bytes a clock.
const WIDE_BYTES: [u32; 2] = [128, 64];
const SECTOR_BYTES: [u32; 1] = [32];

/// Vectors of a thread at least, and threads of a block: other numbers were not tried.
const VECTORS_OF_A_THREAD: i64 = 4;
const FEWEST_THREADS: u32 = 128;

/// Columns of whole groups, and bytes of a group, at most: two lines. Longer ones (planes of an image whose channels are outermost) were not measured.
const MOST_COLUMNS_OF_GROUPS: u32 = 128;
const MOST_BYTES_OF_A_GROUP: i64 = 256;

/// Blocks that a multiprocessor has room for, at least: one waits for totals, or for memory, while the other does not. With one that had 128 to 208 KiB
/// 10 of 12 graphs took 1.00 to 1.34 times as long as in a launch a pass (H200; `docs/performance-notes.md`, "Channels in one launch").
const BLOCKS_OF_A_MULTIPROCESSOR: u32 = 2;

/// Parts of a chip that blocks fill at least: three of four multiprocessors have one (72 norms took 0.80 of a launch a pass so, 0.82 where each had one and
/// a half); and at most, where they read sectors: three quarters of its shared memory, so that all run at once (33 MB and more took 1.07 to 1.21 times as long, 20 MB 0.92).
const FILLED: [i64; 2] = [3, 4];

/// Multiprocessors from which on clusters may be large: an H200 has 132, in groups of up to 18. Smaller chips, and parts of one (MIG), were not tried.
const MANY_MULTIPROCESSORS: u32 = 100;

/// Blocks that share groups of channels at most: norms of groups took 0.68 to 0.86 of the time of a launch a pass so, and 0.99 to 1.16 in clusters of four
/// to sixteen.
const MOST_BLOCKS_OF_GROUPS: u32 = 2;

/// The launch of passes over channels.
pub(super) struct Channels(ChannelsKernel);

impl Channels {
    /// `None` where the innermost axis is reduced or points are not moved in vectors, where shared memory does not hold the points of channels that lie
    /// side by side, or shapes are dynamic.
    pub(super) fn new(gathered: &Gathered<'_>, (threads, device): (u32, &Device)) -> Option<Self> {
        let mut planned = Planned::new(gathered, None)?;
        let of_group = planned.keep_innermost()?;
        if device.capability < ComputeCapability::SM_80 || !is_in_vectors_along_steps(&planned) {
            return None;
        }
        let phases = planned.phases();
        let (ahead, vector_bytes) = planned.read_ahead(&phases, true);
        let bytes_of_a_group = of_group * i64::from(vector_bytes) / planned.width.vector;
        let is_wide = of_group > 1 && bytes_of_a_group > MOST_BYTES_OF_A_GROUP;
        if is_wide || phases.iter().any(|phase| steps_element_by_element(&planned, phase)) {
            return None;
        }
        let again: Vec<TensorId> = ahead.iter().copied().filter(|id| is_read_again(&phases, *id)).collect();
        let blocks = Blocks { planned: &planned, of_group, phases, vector_bytes, threads, device };
        let copied = [ahead, again].into_iter().filter(|ahead| !ahead.is_empty());
        copied.into_iter().find_map(|ahead| blocks.kernel(&ahead)).map(Self)
    }

    /// Adds the launch.
    pub(super) fn push(self, builder: &mut KernelBuilder) {
        let Self(kernel) = self;
        let parameters = phase_parameters(&kernel.phases);
        let shape = Shape {
            grid: [to_u32(kernel.blocks()), 1],
            block: [kernel.columns, kernel.rows, 1],
            shared_bytes: to_u32(kernel.shared_bytes()),
        };
        builder.push("channels", shape, parameters, Body::Channels(kernel));
    }
}

/// Whether threads step along some axis whose extent is known, from vector to vector.
fn is_in_vectors_along_steps(planned: &Planned<'_>) -> bool {
    let is_stepped = planned.space.axes.iter().any(|axis| axis.reduced);
    is_stepped && planned.width.vector > 1 && !planned.width.ragged && !planned.graph.is_dynamic()
}

/// Whether a phase moves elements of a tensor that lies in another layout one by one.
fn steps_element_by_element(planned: &Planned<'_>, phase: &Phase) -> bool {
    let is_stepped = |sweep: &Sweep| {
        let elements = sweep.access.iter().filter(|(_, access)| **access == Access::Strided).map(|(&id, _)| id);
        let is_float = |id: &TensorId| planned.graph.tensor(*id).data_type != DataType::Boolean;
        elements.filter(is_float).any(|id| planned.changes(id, true))
    };
    phase.points.as_ref().is_some_and(is_stepped)
}

/// Whether more than one phase reads a tensor at its points.
fn is_read_again(phases: &[Phase], id: TensorId) -> bool {
    let points = phases.iter().filter_map(|phase| phase.points.as_ref());
    points.filter(|sweep| sweep.program.loads().any(|read| read == id)).count() > 1
}

/// How points are dealt out among blocks.
struct Blocks<'a> {
    planned: &'a Planned<'a>,
    /// Channels of a group.
    of_group: i64,
    phases: Vec<Phase>,
    vector_bytes: u32,
    /// Threads of a block at most; half as many where a phase has several totals.
    threads: u32,
    device: &'a Device,
}

impl Blocks<'_> {
    /// The kernel that has these tensors in shared memory: in clusters as small as leave every multiprocessor something, of as many columns; where that
    /// leaves some nothing, of few columns in as many blocks as there may be, if all run at once.
    fn kernel(&self, ahead: &[TensorId]) -> Option<ChannelsKernel> {
        let of = |bytes| self.shapes(bytes).into_iter().filter_map(|shape| self.block(ahead, shape));
        let wide = of(&WIDE_BYTES).find(|kernel| self.fills_chip(kernel));
        if self.of_group > 1 {
            return wide;
        }
        wide.or_else(|| {
            let narrow = of(&SECTOR_BYTES).filter(|kernel| self.is_within_chip(kernel));
            narrow.reduce(|first, larger| if self.fills_chip(&first) { first } else { larger })
        })
    }

    /// Columns of a block, and blocks of a cluster: columns divide the vectors of channels, and threads have something.
    fn shapes(&self, bytes: &[u32]) -> Vec<(u32, u32)> {
        let space = &self.planned.space;
        let columns: Vec<u32> = bytes.iter().filter_map(|&bytes| self.columns(bytes)).collect();
        let clusters = std::iter::successors(Some(1), |blocks| Some(2 * blocks));
        let of_chip = most_blocks(self.device);
        let most = if self.of_group > 1 { of_chip.min(MOST_BLOCKS_OF_GROUPS) } else { of_chip };
        let clusters = clusters.take_while(|&blocks| blocks <= most);
        let has_work = |&(columns, blocks): &(u32, u32)| {
            blocks == 1 || space.points_where(true) * i64::from(columns) >= i64::from(blocks * FEWEST_THREADS)
        };
        let shapes = clusters.flat_map(|blocks| columns.iter().map(move |&columns| (columns, blocks)));
        shapes.filter(has_work).collect()
    }

    /// Columns of so many bytes, or of the fewest whole groups that have as many.
    fn columns(&self, bytes: u32) -> Option<u32> {
        let vector = self.planned.width.vector;
        let kept = self.planned.space.axes.iter().rev().take_while(|axis| !axis.reduced);
        let vectors = kept.map(|axis| axis.extent.value()).product::<i64>() / vector;
        let wanted = i64::from(bytes / self.vector_bytes);
        if self.of_group == 1 {
            return (vectors % wanted == 0).then_some(to_u32(wanted));
        }
        let of_group = self.of_group / vector;
        let groups = vectors / of_group;
        let enough = (1..=groups).find(|&some| groups % some == 0 && some * of_group >= wanted)?;
        Some(to_u32(enough * of_group)).filter(|&columns| columns <= MOST_COLUMNS_OF_GROUPS)
    }

    /// Whether three of four multiprocessors have a block.
    fn fills_chip(&self, kernel: &ChannelsKernel) -> bool {
        kernel.blocks() * FILLED[1] >= i64::from(self.device.sm_count) * FILLED[0]
    }

    /// Whether all blocks have room at once in three quarters of the chip's shared memory.
    fn is_within_chip(&self, kernel: &ChannelsKernel) -> bool {
        let of_chip = i64::from(self.device.sm_count) * i64::from(self.device.shared_bytes_per_block);
        kernel.blocks() * kernel.shared_bytes() * FILLED[1] <= of_chip * FILLED[0]
    }

    /// Blocks of one shape; `None` where two have no room for their points, or channels are more than threads.
    fn block(&self, ahead: &[TensorId], (columns, cluster): (u32, u32)) -> Option<ChannelsKernel> {
        let space = &self.planned.space;
        let vector = self.planned.width.vector;
        let count = space.points_where(true);
        let vectors = (count + i64::from(cluster) - 1) / i64::from(cluster) * i64::from(columns);
        let most = if Phase::have_several_totals(&self.phases) { self.threads / 2 } else { self.threads };
        let fewest = to_u32(i64::from(columns) * vector).max(FEWEST_THREADS).next_power_of_two().min(most);
        let threads = power_of_two_up_to(vectors / VECTORS_OF_A_THREAD).min(most).max(fewest);
        let kernel = ChannelsKernel {
            phases: self.phases.clone(),
            columns,
            rows: threads / columns,
            cluster,
            groups: space.points_where(false) / (i64::from(columns) * vector),
            count,
            of_group: self.of_group,
            vector,
            ahead: ahead.to_vec(),
            vector_bytes: self.vector_bytes,
        };
        let room = self.device.shared_bytes_of_blocks(BLOCKS_OF_A_MULTIPROCESSOR);
        let is_each_evaluated = kernel.threads() >= kernel.channels();
        (kernel.shared_bytes() <= room.into() && is_each_evaluated).then_some(kernel)
    }
}

/// Blocks that may be a cluster on a chip.
fn most_blocks(device: &Device) -> u32 {
    let has_large = [ComputeCapability::SM_90, ComputeCapability::SM_100].contains(&device.capability);
    match device.sm_count >= MANY_MULTIPROCESSORS && has_large {
        true => MOST_BLOCKS_OF_A_LARGE_CLUSTER,
        false => most_blocks_of_a_cluster(device),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::lowering::passes::passes;
    use crate::graph::{
        FinalizedGraph, Graph, NormForward, NormMode, NormPhase, PointwiseMode, Port, ReductionMode, Scalar, Tensor,
    };
    use crate::kernel::StageProgram;

    /// The launch of `y = (x − mean) · exp(scale)`, with means of these extents.
    fn centred(dim: [i64; 4], of_means: [i64; 4], device: &Device) -> Option<ChannelsKernel> {
        let mut graph = Graph::new()
            .io_data_type(DataType::Half)
            .intermediate_data_type(DataType::Float)
            .compute_data_type(DataType::Float);
        let x = graph.tensor(Tensor::new("x").channels_last(dim));
        let scale = graph.tensor(Tensor::new("scale").channels_last([1, dim[1], 1, 1]));
        let mean = graph.reduction("mean", ReductionMode::Avg, x, of_means);
        let centred = graph.pointwise("centred", PointwiseMode::Sub, &[x, mean]);
        let factor = graph.pointwise("factor", PointwiseMode::Exp, &[scale]);
        let y = graph.pointwise("y", PointwiseMode::Mul, &[centred, factor]);
        graph.set_output(y);
        channels_of(&graph.finalize().expect("well formed"), device)
    }

    fn channels_of(graph: &FinalizedGraph, device: &Device) -> Option<ChannelsKernel> {
        let program = StageProgram::of(graph, graph.operation_ids(), None);
        let operations: Vec<_> = graph.operation_ids().collect();
        let passes = passes(graph, &operations, None);
        Channels::new(&Gathered::new(graph, &program, &passes)?, (512, device)).map(|channels| channels.0)
    }

    fn h200() -> Device {
        Device::typical(ComputeCapability::SM_90)
    }

    /// Columns, blocks of a cluster, and all blocks, of means of batches.
    fn shape(dim: [i64; 4]) -> Option<(u32, u32, i64)> {
        let kernel = centred(dim, [1, dim[1], 1, 1], &h200())?;
        Some((kernel.columns, kernel.cluster, kernel.blocks()))
    }

    #[test]
    fn phases_have_points_in_shared_memory_and_hold_what_is_of_channels_alone() {
        let kernel = centred([16, 64, 16, 16], [16, 64, 1, 1], &h200()).expect("channels");
        assert_eq!((kernel.ahead.len(), kernel.vector_bytes, kernel.vector), (1, 16, 8));
        assert_eq!((kernel.count, kernel.groups), (256, 16 * 8 / i64::from(kernel.columns)));
        let held = |phase: &Phase| phase.held.as_ref().map_or(0, |held| held.values.len());
        let of = |phase: &Phase| (phase.accumulations.len(), held(phase), phase.points.is_some());
        assert_eq!(kernel.phases.iter().map(of).collect::<Vec<_>>(), [(1, 0, true), (0, 1, true)]);
        let evaluated = kernel.phases[1].held.as_ref().expect("a factor").sweep.program.steps.len();
        assert_eq!(evaluated, 2, "the scale, and its exponential");
        assert_eq!(Phase::touched(&kernel.phases).0.len(), 2, "x and scale; neither means nor factors are in memory");
    }

    #[test]
    fn clusters_are_as_small_as_give_each_multiprocessor_something() {
        assert_eq!(shape([8, 2048, 7, 7]), Some((4, 2, 128)));
        assert_eq!(shape([2, 256, 112, 112]), Some((4, 16, 128)), "half lines where all lines leave no room for two");
        assert_eq!(shape([64, 32, 28, 28]), Some((2, 16, 32)), "sectors where channels are few");
        assert_eq!(shape([1, 32, 5, 5]), Some((2, 1, 2)), "threads have something");
    }

    #[test]
    fn groups_of_channels_are_whole_in_a_block() {
        let kernel = |dim: [i64; 4], groups: i64| {
            let mut graph = Graph::new()
                .io_data_type(DataType::Half)
                .intermediate_data_type(DataType::Float)
                .compute_data_type(DataType::Float);
            let x = graph.tensor(Tensor::new("x").channels_last(dim));
            let epsilon = Tensor::scalar("epsilon", DataType::Float, Scalar::Float(1e-5));
            let epsilon = graph.tensor(Tensor { dim: vec![1; 4], stride: vec![1; 4], ..epsilon });
            let norm = NormForward::new(NormMode::groups(groups), NormPhase::Inference);
            let y = graph.composite("norm", norm, &[(Port::X, x), (Port::EPSILON, epsilon)], &[Port::Y])[0];
            graph.set_output(y);
            let graph = graph.finalize().expect("well formed");
            let expanded = graph.expand_in(DataType::Float);
            channels_of(&expanded.without_views().expect("one way to split channels"), &h200())
        };
        let shape = |kernel: ChannelsKernel| (kernel.of_group, kernel.vector, kernel.columns, kernel.cluster);
        assert_eq!(kernel([8, 640, 32, 32], 32).map(shape), Some((20, 4, 10, 1)));
        assert_eq!(kernel([16, 320, 16, 16], 32).map(shape), Some((10, 2, 20, 1)), "four groups of five vectors");
        assert!(kernel([128, 1280, 5, 5], 8).is_none(), "groups of 320 bytes");
        let of_many = kernel([128, 1280, 5, 5], 16).expect("channels");
        assert!(of_many.of_group == 80 && of_many.threads() >= of_many.channels(), "each channel has a thread");
        assert!(kernel([8, 320, 64, 64], 32).is_none(), "more than two blocks would share them");
        assert!(kernel([8, 96, 16, 16], 32).is_none(), "no vectors of three");
    }

    #[test]
    fn what_shared_memory_does_not_hold_has_a_launch_a_pass() {
        assert!(shape([64, 64, 112, 112]).is_none());
        assert!(shape([8, 512, 64, 64]).is_none(), "blocks of sectors take turns");
        assert!(shape([2, 24, 28, 28]).is_none(), "three vectors of channels");
        assert!(shape([2, 31, 28, 28]).is_none(), "no vectors");
        let small = Device { sm_count: 60, ..h200() };
        let cluster = |device| centred([1, 64, 100, 100], [1, 64, 1, 1], device).map(|kernel| kernel.cluster);
        assert_eq!([&small, &h200()].map(cluster), [Some(8), Some(16)], "large clusters need many multiprocessors");
        let old = Device::typical(ComputeCapability::SM_80);
        assert_eq!(centred([64, 512, 7, 7], [64, 512, 1, 1], &old).map(|kernel| kernel.cluster), Some(1));
        assert!(centred([64, 512, 7, 7], [64, 512, 1, 1], &Device::typical(ComputeCapability::SM_75)).is_none());
    }
}
