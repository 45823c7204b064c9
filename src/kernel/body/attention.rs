//! Attention whose scores stay in registers: a producer brings Q, K and V, warpgroups of 64 queries multiply, make probabilities and
//! multiply again.

use super::dropout::ForwardDropout;
use super::score_program::ScoreProgram;
use super::value_scaling::ValueScaling;
use crate::graph::{DataType, FinalizedGraph, TensorId};
use crate::kernel::{MmaType, REGISTERS, TensorMap, WARPGROUP, WGMMA_ROWS};

/// Forward attention by `wgmma` (`docs/spec/attention.md` AT-K1 …).
#[derive(Clone, Debug)]
pub struct AttentionKernel {
    /// Q, K, V in boxes.
    pub maps: [TensorMap; 3],
    /// What is computed.
    pub problem: AttentionProblem,
    /// Tile of a block.
    pub tile: AttentionTile,
    /// Registers of a thread that brings tiles, and of one that multiplies.
    pub registers: [u32; 2],
}

/// What an attention computes of Q, K and V, whatever its tiles and however these are brought.
#[derive(Clone, Debug)]
pub struct AttentionProblem {
    /// O.
    pub output: TensorId,
    /// How rows of O are stored.
    pub stores: RowStores,
    /// Values of each row that are stored.
    pub statistics: RowStatistics,
    /// One more score of each row of a head, of value 0.
    pub sink: Option<TensorId>,
    /// Type of what is multiplied.
    pub operand: MmaType,
    /// That of probabilities.
    pub probabilities: DataType,
    /// What scales values in FP8.
    pub scaling: ValueScaling,
    /// What is multiplied with what.
    pub extents: AttentionExtents,
    /// How scores come about from the first product.
    pub scores: Scores,
    /// Tensors that operations on scores read two columns at a time, before the scores are there.
    pub paired: Vec<TensorId>,
    /// Which of them count.
    pub band: Band,
    /// Where K, and V, are in pages.
    pub pages: [Option<Pages>; 2],
    /// Offsets of the sequences of ragged tensors.
    pub offsets: Vec<TensorId>,
    /// What becomes of their probabilities.
    pub dropout: Option<ForwardDropout>,
    /// Heads whose K and V should stay in L2 together.
    pub section: i64,
    /// Whether a block that is done claims its next tile from a counter in the workspace; else each has one a turn.
    pub claims: bool,
    /// Blocks that share the keys of a tile's rows; of more than one, what they make of them goes to the workspace.
    pub parts: i64,
}

/// How rows of heads are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowStores {
    /// Elements of 16 bits, 16 bytes at a time.
    Vectors,
    /// Eight elements of 16 bits side by side, one by one.
    Halves,
    /// Elements of 8 bits, 16 bytes at a time.
    Bytes,
    /// Elements of any type, at any stride.
    Elements,
}

/// Tensors for what softmax knows of each row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowStatistics {
    /// `max + ln Σ exp(score − max)`.
    pub stats: Option<TensorId>,
    /// The largest score.
    pub max: Option<TensorId>,
    /// `Σ exp(score − max)`.
    pub sum_exp: Option<TensorId>,
}

impl RowStatistics {
    /// Those that are stored.
    pub fn tensors(&self) -> impl Iterator<Item = TensorId> + use<> {
        [self.stats, self.max, self.sum_exp].into_iter().flatten()
    }
}

/// Extents of an attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionExtents {
    /// Batches.
    pub batches: i64,
    /// Heads of Q.
    pub heads: i64,
    /// Heads of K and of V, divisors of Q's.
    pub key_heads: [i64; 2],
    /// Queries of a head.
    pub queries: i64,
    /// Keys of a head.
    pub keys: i64,
    /// Elements of a query, and of a value.
    pub head: [i64; 2],
    /// Heads of Q whose rows are side by side in a tile, query by query: 1, or all that share a head of K and V.
    pub packed: i64,
}

impl AttentionExtents {
    /// Heads of Q that share one of K, and those that share one of V.
    pub fn groups(&self) -> [i64; 2] {
        self.key_heads.map(|heads| self.heads / heads)
    }

    /// Rows of Q, of all heads that are packed.
    pub fn rows(&self) -> i64 {
        self.queries * self.packed
    }

    /// Heads, or groups of packed heads, of all batches.
    pub fn row_heads(&self) -> i64 {
        self.batches * self.heads / self.packed
    }
}

/// What becomes of a product of Q and K before the softmax.
#[derive(Clone, Debug)]
pub enum Scores {
    /// It is multiplied by numbers, or nothing.
    Scaled(Vec<TensorId>),
    /// Operations on each score.
    Program(ScoreProgram),
}

impl Scores {
    /// Whether they may be beyond 2³⁰, where no exponential can be taken against a rounded reference: where operations make them, such as a mask that
    /// is added.
    pub fn may_be_vast(&self) -> bool {
        matches!(self, Self::Program(_))
    }
}

/// The keys of a row: those of a band around a diagonal, within the sequences' lengths, in blocks that are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Band {
    /// Keys up to a row's diagonal, its own included, at most so many.
    pub left: Option<BandEdge>,
    /// Keys behind the diagonal, at most so many.
    pub right: Option<BandEdge>,
    /// Lengths of the sequences of queries and of keys, where tensors tell them.
    pub lengths: Option<[TensorId; 2]>,
    /// Whether the diagonal ends where the sequences do.
    pub is_bottom_right: bool,
    /// A bit for each block of scores that is kept, where not all are (`docs/spec/attention.md` AT-O11). A step of a tile lies in one of them.
    pub blocks: Option<TensorId>,
}

/// Keys to the left of a row that it is expected to keep where only an execution says how many: a guess. On an H200 1024 keys of heads of 64
/// elements took 708 µs by tiles for one key, and 599 by tiles for 1024 (`docs/performance-notes.md`).
const EXPECTED_WINDOW: i64 = 1024;

impl Band {
    /// How far it is expected to reach, left and right.
    pub fn expected(&self, graph: &FinalizedGraph) -> [Option<i64>; 2] {
        let edge = |edge: BandEdge, unknown: i64| {
            let value = |id: TensorId| graph.tensor(id).value.map(|value| value.as_f64().ceil() as i64);
            edge.keys.saturating_add(edge.more.map_or(0, |id| value(id).unwrap_or(unknown)))
        };
        [self.left.map(|left| edge(left, EXPECTED_WINDOW)), self.right.map(|right| edge(right, 0))]
    }

    /// Whether tiles of queries have more steps of keys from the first to the last.
    pub fn slopes(&self) -> bool {
        self.right.is_some() && self.left.is_none()
    }
}

/// How far a band reaches: a number, and one more that is known when the kernel is launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BandEdge {
    /// What is known.
    pub keys: i64,
    /// A host scalar that is added.
    pub more: Option<TensorId>,
}

/// Rows of sequences in pages of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pages {
    /// The pages of each sequence, in order, `[batches, 1, entries, 1]`.
    pub table: TensorId,
    /// Rows of a page.
    pub rows: i64,
}

impl Pages {
    /// Rows of the largest boxes that make up a step of so many keys, none of which has rows of two pages.
    pub fn box_rows(&self, keys: u32) -> u32 {
        let (mut a, mut b) = (u64::from(keys), self.rows.unsigned_abs());
        while b > 0 {
            (a, b) = (b, a % b);
        }
        u32::try_from(a).unwrap_or(keys)
    }
}

/// Tile of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AttentionTile {
    /// Multiplying warpgroups, each of 64 queries.
    pub consumers: u32,
    /// Keys of a step, a multiple of 16.
    pub keys: u32,
    /// Steps whose K, and whose V, lie in shared memory.
    pub stages: u32,
}

/// Where a block's shared memory holds what, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionLayout {
    /// Tiles of Q at 0; the first of K and of V.
    pub keys: u32,
    /// The first tile of V.
    pub values: u32,
    /// Bytes of a tile of K, and of V.
    pub tile_bytes: [u32; 2],
    /// Sums of O in FP32, in FP8.
    pub sums: u32,
    /// Barriers.
    pub barriers: u32,
    /// Number of the tile that was claimed.
    pub claimed: u32,
    /// All.
    pub bytes: u32,
}

/// Bytes of a row of a box: one swizzled line.
const LINE: u32 = 128;

/// Barriers beside two for each stage of K and of V.
const SINGLE_BARRIERS: u32 = 2;

impl AttentionTile {
    /// Queries of a block.
    pub fn queries(&self) -> u32 {
        self.consumers * WGMMA_ROWS
    }

    /// Threads of a block.
    pub fn threads(&self) -> u32 {
        (self.consumers + 1) * WARPGROUP
    }

    /// Registers of a thread at launch, a multiple of eight.
    pub fn registers_at_launch(&self) -> u32 {
        (REGISTERS / self.threads() / 8 * 8).min(248)
    }

    /// Registers of a multiplying thread for scores, their probabilities in words and a row's part of O.
    pub fn held_registers(&self, head: [i64; 2], operand: MmaType) -> u32 {
        self.keys / 2 + self.keys * operand.bytes() / 8 + columns(head[1]) / 2
    }

    /// Steps that tensor cores sum before the sum is added up in FP32: of FP8 they keep 14 bits.
    pub fn steps_of_sum(&self) -> u32 {
        (FP8_KEYS_OF_SUM / self.keys).max(1)
    }

    /// Keys of a line of values that have keys side by side: as many as a swizzle takes, of which a step has whole ones.
    pub fn line_of_keys(&self) -> u32 {
        [LINE, LINE / 2].into_iter().find(|&line| self.keys.is_multiple_of(line)).unwrap_or(LINE / 4)
    }

    /// Where everything lies.
    pub fn layout(&self, head: [i64; 2], operand: MmaType) -> AttentionLayout {
        let [lines, value_lines] = head.map(|size| operand_lines(size, operand));
        let queries = self.queries() * lines * LINE;
        let values = if operand == MmaType::Fp8 { columns(head[1]) } else { value_lines * LINE };
        let tile_bytes = [self.keys * lines * LINE, self.keys * values];
        let values = queries + self.stages * tile_bytes[0];
        let sums = values + self.stages * tile_bytes[1];
        let barriers = sums + if operand == MmaType::Fp8 { self.queries() * columns(head[1]) * 4 } else { 0 };
        let claimed = barriers + 8 * (4 * self.stages + SINGLE_BARRIERS);
        AttentionLayout { keys: queries, values, tile_bytes, sums, barriers, claimed, bytes: claimed + 8 }
    }
}

/// Lines of 64 elements that hold a row.
pub fn lines(head: i64) -> u32 {
    operand_lines(head, MmaType::F16)
}

/// Lines that hold a row of what is multiplied.
pub fn operand_lines(head: i64, operand: MmaType) -> u32 {
    (u32::try_from(head).unwrap_or(0) * operand.bytes()).div_ceil(LINE)
}

/// Keys of a row whose products with values tensor cores sum in FP8, before the sum is added up in FP32. They cut addends at 2⁻¹³ of the largest, the
/// sum among them (`reference/bounds/tensor_core.rs`): of so many equal products about 384 / 4 · 2⁻¹³ = 1.2 % is lost, where FP8 rounds O by up to 6 %.
pub const FP8_KEYS_OF_SUM: u32 = 384;

/// Columns of an instruction that computes a row.
pub fn columns(head: i64) -> u32 {
    u32::try_from(head).unwrap_or(0).next_multiple_of(8)
}

impl AttentionProblem {
    /// Tiles of so many rows of a head.
    pub fn row_tiles(&self, rows: u32) -> i64 {
        (self.extents.rows() + i64::from(rows) - 1) / i64::from(rows)
    }

    /// Tiles of so many rows of all heads, each as often as blocks share its keys.
    pub fn units(&self, rows: u32) -> i64 {
        self.row_tiles(rows) * self.extents.row_heads() * self.parts
    }

    /// Tensors that are read and written through pointers, beside Q, K and V.
    pub fn touched(&self) -> (Vec<TensorId>, Vec<TensorId>) {
        let mut reads: Vec<TensorId> = self.sink.into_iter().chain(self.band.lengths.into_iter().flatten()).collect();
        reads.extend([self.band.left, self.band.right].into_iter().flatten().filter_map(|edge| edge.more));
        reads.extend(self.band.blocks);
        reads.extend(self.pages.iter().flatten().map(|pages| pages.table));
        reads.extend(&self.offsets);
        reads.extend(self.dropout.iter().flat_map(ForwardDropout::reads));
        reads.extend(self.scaling.reads());
        match &self.scores {
            Scores::Scaled(factors) => reads.extend(factors),
            Scores::Program(scores) => reads.extend(scores.program.reads()),
        }
        let stores = if self.parts == 1 { self.stored().chain(self.scaling.kept()).collect() } else { Vec::new() };
        (reads, stores)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Graph, Scalar, Tensor};

    #[test]
    fn a_band_reaches_as_far_as_is_known() {
        let mut graph = Graph::new()
            .io_data_type(DataType::Float)
            .intermediate_data_type(DataType::Float)
            .compute_data_type(DataType::Float);
        let known = Tensor::scalar("known", DataType::Int32, Scalar::Integer(300)).uid(1);
        let unknown = Tensor { value: None, ..known.clone() }.uid(2);
        let x = graph.tensor(Tensor::new("x").row_major([1; 4]));
        let sum = [known, unknown].into_iter().fold(x, |sum, bound| {
            let bound = graph.tensor(Tensor { dim: vec![1; 4], stride: vec![1; 4], ..bound });
            graph.pointwise("sum", crate::graph::PointwiseMode::Add, &[sum, bound])
        });
        graph.set_output(sum);
        let graph = graph.finalize().expect("well formed");
        let [known, unknown] = [1, 2].map(|uid| graph.tensor_by_uid(uid));
        let edge = |keys, more| Some(BandEdge { keys, more });
        let reaches = |left, right| Band { left, right, ..Band::default() }.expected(&graph);
        assert_eq!(reaches(None, edge(5, None)), [None, Some(5)]);
        assert_eq!(reaches(edge(4, known), edge(0, known)), [Some(304), Some(300)]);
        assert_eq!(reaches(edge(4, unknown), edge(0, unknown)), [Some(4 + EXPECTED_WINDOW), Some(0)]);
    }
}
