//! The backward pass of attention: what is known of each query, and gradients that are sums over queries, or over keys.

use super::attention::{AttentionExtents, Band, RowStores, columns as value_columns, lines as head_lines};
use super::attention_bias::{HeadSlopes, ScoreTensor};
use super::dropout::BackwardDropout;
use super::gradient_scaling::{BackwardScaling, GradientFactors};
use super::score_gradients::ScoreGradients;
use crate::graph::TensorId;
use crate::kernel::{MmaType, REGISTERS, TensorMap, WARPGROUP, WGMMA_ROWS};

/// What the backward pass knows of each query, in regions of the workspace with `padded` floats a head: its statistic in powers of two, and
/// `Δ = Σ dO ∘ O` times the factor of scores (`docs/spec/attention.md` AT-K30).
#[derive(Clone, Debug)]
pub struct AttentionRowsKernel {
    /// O.
    pub output: TensorId,
    /// dO.
    pub gradient: TensorId,
    /// Statistics of the softmax.
    pub stats: TensorId,
    /// Batches, heads, queries.
    pub extents: [i64; 3],
    /// Elements of a row of O.
    pub head: i64,
    /// Floats from one head to the next.
    pub padded: i64,
    /// Whether rows are loaded 16 bytes at a time.
    pub loads_vectors: bool,
    /// Factor of scores.
    pub scale: Option<TensorId>,
    /// What Δ is multiplied by beside it, for gradients of probabilities that a mask leaves.
    pub factors_of_left: Vec<TensorId>,
    /// Numbers that Δ is multiplied by.
    pub factors: Vec<TensorId>,
    /// Whether a region has Δ alone, for the gradient of a bias.
    pub keeps_delta: bool,
    /// Sinks, of whose share of each row, times Δ, a region is: statistics are exact here alone.
    pub sink: Option<TensorId>,
    /// Whether scores that a mask keeps may all be −∞, as a bias makes them: the row's probabilities are 0 then.
    pub may_be_empty: bool,
    /// Queries of each sequence, where others are not in memory.
    pub lengths: Option<TensorId>,
    /// Offsets of the sequences of ragged tensors.
    pub offsets: Vec<TensorId>,
}

impl AttentionRowsKernel {
    /// Threads of a block.
    pub const THREADS: u32 = 256;

    /// Tensors that are read.
    pub fn reads(&self) -> impl Iterator<Item = TensorId> + use<'_> {
        let tensors = [self.output, self.gradient, self.stats].into_iter().chain(self.scale);
        let tensors = tensors.chain(self.sink).chain(self.factors_of_left.iter().copied());
        tensors.chain(self.lengths).chain(self.offsets.iter().copied()).chain(self.factors.iter().copied())
    }

    /// Regions of the workspace beyond that of statistics and that of what passes subtract: the number of the one that has Δ alone, and of
    /// the one that has the sink's part.
    pub fn further_regions(&self) -> [Option<usize>; 2] {
        let delta = self.keeps_delta.then_some(2);
        [delta, self.sink.map(|_| 2 + usize::from(self.keeps_delta))]
    }

    /// Lanes of a row: each has eight elements.
    pub fn lanes(&self) -> u32 {
        const EACH: u32 = 8;
        u32::try_from(self.head).unwrap_or(0).div_ceil(EACH).next_power_of_two()
    }
}

/// The gradient of the sink of each head, from what is known of its queries (`docs/spec/attention.md` AT-O16).
#[derive(Clone, Debug)]
pub struct AttentionSinksKernel {
    /// The gradient of the sinks.
    pub result: TensorId,
    /// Batches, heads, queries.
    pub extents: [i64; 3],
    /// Queries of each sequence.
    pub lengths: Option<TensorId>,
    /// Floats of a head in the workspace.
    pub padded: i64,
}

impl AttentionSinksKernel {
    /// Threads of a block, which has a head.
    pub const THREADS: u32 = 1024;

    /// Bytes of shared memory: a float of each warp.
    pub const SHARED_BYTES: u32 = 128;
}

/// Gradients of own rows by `wgmma` (AT-K31).
#[derive(Clone, Debug)]
pub struct AttentionBackwardKernel {
    /// Own rows in boxes, K and V or Q and dO, then the others.
    pub maps: [TensorMap; 4],
    /// What is computed.
    pub problem: BackwardProblem,
    /// Tile of a block.
    pub tile: BackwardTile,
    /// Registers of a thread that brings tiles, and of one that multiplies.
    pub registers: [u32; 2],
}

/// What a pass over own rows computes, whatever its tiles and however rows are brought: own rows are keys, whose gradients dK and dV are sums over
/// queries, or queries, whose gradient dQ is a sum over keys. Nothing is added up by several blocks, so that results are the same from run to run.
#[derive(Clone, Debug)]
pub struct BackwardProblem {
    /// Whether own rows are keys.
    pub of_keys: bool,
    /// What is stored.
    pub outputs: Vec<BackwardOutput>,
    /// Factor of scores.
    pub scale: Option<TensorId>,
    /// Type of what is multiplied.
    pub operand: MmaType,
    /// What is multiplied with what.
    pub extents: AttentionExtents,
    /// Which scores count.
    pub band: Band,
    /// Offsets of the sequences of ragged tensors.
    pub offsets: Vec<TensorId>,
    /// Which of their probabilities were dropped.
    pub dropout: Option<BackwardDropout>,
    /// What they are capped by before anything is added (`docs/spec/attention.md` AT-O12).
    pub cap: Option<TensorId>,
    /// What is added to them.
    pub bias: Option<ScoreTensor>,
    /// By what they lean.
    pub slopes: Option<HeadSlopes>,
    /// What scales them, of heads in FP8.
    pub scaling: Option<BackwardScaling>,
    /// Where gradients of scores are left in the workspace.
    pub gradients: Option<ScoreGradients>,
    /// Whether a block has two tiles of a head in turn: the first and the last, the second and the last but one.
    pub pairs: bool,
    /// Whether a block that is done claims its next tile from a counter in the workspace; else each has one a turn.
    pub claims: bool,
    /// Heads with own rows that a launch computes, where these are not all.
    pub of_launch: Option<i64>,
    /// Floats of a head in the workspace.
    pub padded: i64,
    /// Heads whose others should stay in L2 together.
    pub section: i64,
}

/// A gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackwardOutput {
    /// dQ, dK or dV.
    pub tensor: TensorId,
    /// Elements of a row.
    pub head: i64,
    /// Whether it is dV.
    pub is_of_values: bool,
    /// How rows are stored.
    pub stores: RowStores,
    /// What scales them.
    pub factors: GradientFactors,
}

impl BackwardOutput {
    /// Accumulators of a thread.
    pub fn registers(&self) -> u32 {
        value_columns(self.head) / 2
    }
}

/// Tile of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BackwardTile {
    /// Multiplying warpgroups, each of 64 own rows.
    pub consumers: u32,
    /// Other rows of a step, a multiple of 16.
    pub others: u32,
    /// Steps whose other rows lie in shared memory.
    pub stages: u32,
}

/// Where a block's shared memory holds what, in bytes; own rows at 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackwardLayout {
    /// The first stage of others.
    pub others: u32,
    /// Bytes of a stage.
    pub stage_bytes: u32,
    /// What is known of the queries of each stage.
    pub rows: u32,
    /// Barriers.
    pub barriers: u32,
    /// Number of the tile that was claimed.
    pub claimed: u32,
    /// All.
    pub bytes: u32,
}

/// Bytes of a row of a box: one swizzled line.
const LINE: u32 = 128;

impl BackwardTile {
    /// Own rows of a block.
    pub fn rows(&self) -> u32 {
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

    /// Registers of a multiplying thread for scores, gradients of probabilities, what is multiplied of them, and sums.
    pub fn held_registers(&self, outputs: &[BackwardOutput]) -> u32 {
        let sums: u32 = outputs.iter().map(BackwardOutput::registers).sum();
        let has = |is_of_values: bool| u32::from(outputs.iter().any(|output| output.is_of_values == is_of_values));
        self.others / 2 * (1 + has(false)) + self.others / 4 * (has(false) + has(true)) + sums
    }

    /// Where everything lies, of heads of so many elements.
    pub fn layout(&self, head: [i64; 2]) -> BackwardLayout {
        let lines: u32 = head.into_iter().map(head_lines).sum();
        let others = self.rows() * lines * LINE;
        let stage_bytes = self.others * lines * LINE;
        let rows = others + self.stages * stage_bytes;
        let barriers = rows + self.stages * self.others * 8;
        let claimed = barriers + 16 * self.stages + 16;
        BackwardLayout { others, stage_bytes, rows, barriers, claimed, bytes: claimed + 8 }
    }
}

impl AttentionBackwardKernel {
    /// Where everything lies.
    pub fn layout(&self) -> BackwardLayout {
        self.tile.layout(self.problem.extents.head)
    }

    /// Accumulators before those of the first result: scores, and gradients of probabilities.
    pub fn first_sum(&self) -> u32 {
        self.problem.first_sum(self.tile.others)
    }

    /// Tiles of own rows of a head.
    pub fn row_tiles(&self) -> i64 {
        self.problem.row_tiles(self.tile.rows())
    }
}

impl BackwardProblem {
    /// Whether dV is a result.
    pub fn has_values(&self) -> bool {
        self.outputs.iter().any(|output| output.is_of_values)
    }

    /// Whether dQ or dK is a result, for which gradients of probabilities are needed.
    pub fn has_sums(&self) -> bool {
        self.outputs.iter().any(|output| !output.is_of_values)
    }

    /// Accumulators before those of the first result, of steps of so many others: scores, and gradients of probabilities.
    pub fn first_sum(&self, others: u32) -> u32 {
        others / 2 * (1 + u32::from(self.has_sums()))
    }

    /// Own rows of a head.
    pub fn rows(&self) -> i64 {
        if self.of_keys { self.extents.keys } else { self.extents.queries }
    }

    /// Tiles of so many own rows of a head.
    pub fn row_tiles(&self, rows: u32) -> i64 {
        (self.rows() + i64::from(rows) - 1) / i64::from(rows)
    }

    /// Whose heads tiles of keys have: V's where dV is the only result, else K's. Where both are results K and V have as many.
    fn side(&self) -> usize {
        usize::from(!self.has_sums())
    }

    /// Heads with own rows, of all batches.
    pub fn row_heads(&self) -> i64 {
        self.extents.batches * if self.of_keys { self.extents.key_heads[self.side()] } else { self.extents.heads }
    }

    /// Heads with own rows that a launch computes.
    pub fn launched(&self) -> i64 {
        self.of_launch.unwrap_or(self.row_heads())
    }

    /// What blocks have one of at a time, of tiles of so many own rows: tiles, or pairs of them.
    pub fn units(&self, rows: u32) -> i64 {
        let tiles = self.row_tiles(rows);
        self.launched() * if self.pairs { (tiles + 1) / 2 } else { tiles }
    }

    /// Heads of others that a tile walks: those of Q that share a head of K, or of V.
    pub fn members(&self) -> i64 {
        if self.of_keys { self.extents.groups()[self.side()] } else { 1 }
    }

    /// Which of the two tiles of own keys changes from member to member: the one of K, or of V, which has another number of heads.
    pub fn changing(&self) -> Option<usize> {
        let other = 1 - self.side();
        (self.of_keys && self.extents.groups()[other] % self.members() != 0).then_some(other)
    }

    /// Where largest magnitudes are kept.
    fn kept(&self) -> impl Iterator<Item = TensorId> {
        let of_outputs = self.outputs.iter().filter_map(|it| it.factors.largest);
        of_outputs.chain(self.scaling.iter().filter_map(|scaling| scaling.largest))
    }

    /// Tensors that are read and written through pointers, beside Q, K, V and dO.
    pub fn touched(&self) -> (Vec<TensorId>, Vec<TensorId>) {
        let edges = [self.band.left, self.band.right].into_iter().flatten().filter_map(|edge| edge.more);
        let lengths = self.band.lengths.into_iter().flatten();
        let dropped = self.dropout.iter().flat_map(BackwardDropout::reads);
        (
            self.scale
                .into_iter()
                .chain(self.cap)
                .chain(lengths)
                .chain(edges)
                .chain(self.offsets.iter().copied())
                .chain(dropped)
                .chain(self.bias.map(|bias| bias.tensor))
                .chain(self.slopes.and_then(HeadSlopes::given))
                .chain(self.scaling.iter().flat_map(BackwardScaling::reads))
                .chain(self.outputs.iter().flat_map(|it| it.factors.reads()))
                .collect(),
            self.outputs.iter().map(|it| it.tensor).chain(self.kept()).collect(),
        )
    }
}
