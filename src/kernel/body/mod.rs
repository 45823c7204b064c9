//! What functions do. A skeleton is a file here with a `mod` line and a variant of [`Body`].

mod all_gather;
mod attention;
mod attention_backward;
mod attention_bias;
mod attention_bias_gradient;
mod attention_combination;
mod attention_queries;
mod channels;
mod columns;
mod copy;
mod depthwise;
mod dropout;
mod gemm;
mod gradient_scaling;
mod inside;
mod moments;
mod phase;
mod pointwise;
mod rows;
mod score_gradients;
mod score_program;
mod tile;
mod tile_counter;
mod transposed;
mod turned_values;
mod value_scaling;
mod warp_attention;

pub use all_gather::{AllGatherKernel, Gathered};
pub use attention::{
    AttentionExtents, AttentionKernel, AttentionLayout, AttentionProblem, AttentionTile, Band, BandEdge,
    FP8_KEYS_OF_SUM, Pages, RowStatistics, RowStores, Scores, columns as value_columns, lines as head_lines,
    operand_lines,
};
pub use attention_backward::{
    AttentionBackwardKernel, AttentionRowsKernel, AttentionSinksKernel, BackwardLayout, BackwardOutput,
    BackwardProblem, BackwardTile,
};
pub use attention_bias::{HeadSlopes, ScoreTensor};
pub use attention_bias_gradient::{AttentionBiasKernel, BiasLayout};
pub use attention_combination::AttentionCombinationKernel;
pub use attention_queries::{AttentionQueriesKernel, QueriesLayout, QueriesTile};
pub use channels::ChannelsKernel;
pub use columns::ColumnsKernel;
pub use copy::{CopyAxis, CopyKernel, TransposedCopyKernel, UnfoldKernel, UnfoldedAxis};
pub use depthwise::{ChannelWindows, DepthwiseFilterKernel, DepthwiseKernel, Strip, TapAxis};
pub use dropout::{BackwardDropout, DropoutMaskKernel, Dropping, ForwardDropout, MaskedDropping};
pub use gemm::{Epilogue, FusedEpilogue, GemmKernel, PartialReduction, Tuning};
pub use gradient_scaling::{BackwardScaling, GradientFactors, HalfRows, HalfRowsKernel};
pub use inside::{Inside, OperandsBefore, Telling};
pub use moments::{CombineMomentsKernel, MomentsKernel, Parts};
pub use phase::{Held, Phase};
pub use pointwise::{CombineKernel, FlagAction, PackedKernel, PointwiseKernel, ReductionKernel, SignalKernel};
pub use rows::{ColumnTotals, RowsKernel};
pub use score_gradients::ScoreGradients;
pub use score_program::{ScoreCap, ScoreProgram};
pub use tile::Tile;
pub use tile_counter::TileCounterKernel;
pub use transposed::{TileOperand, TransposedKernel};
pub use turned_values::TurnedValuesKernel;
pub use value_scaling::ValueScaling;
pub use warp_attention::{
    HeadRows, WARP_ROWS, WarpAttentionKernel, WarpAttentionLayout, WarpAttentionTile, WarpBackwardKernel,
    WarpBackwardLayout, WarpBackwardTile, row_bytes as head_row_bytes, row_pitch as head_row_pitch,
};

use super::Sweep;
use crate::graph::{SignalMode, TensorId};

/// The skeletons.
#[derive(Clone, Debug)]
pub enum Body {
    /// One pass over the iteration space.
    Pointwise(PointwiseKernel),
    /// One pass over the iteration space, of which threads keep what is the same along some axes.
    Columns(ColumnsKernel),
    /// One pass over the iteration space, with operands that are contiguous along another axis than what is stored.
    Transposed(TransposedKernel),
    /// One pass over the bytes of packed booleans.
    Packed(PackedKernel),
    /// One pass over the iteration space, reducing some of its axes.
    Reduction(ReductionKernel),
    /// One pass over the iteration space, for partial moments of a value.
    Moments(Box<MomentsKernel>),
    /// Mean and variance from partial moments.
    CombineMoments(CombineMomentsKernel),
    /// Several passes over the same rows.
    Rows(RowsKernel),
    /// Several passes over the same points of channels.
    Channels(ChannelsKernel),
    /// Tiled matrix product with mainloop and epilogue fusion.
    Gemm(Box<GemmKernel>),
    /// A convolution of one channel a group, as windows that slide over vectors of channels.
    Depthwise(Box<DepthwiseKernel>),
    /// The filter gradient of such a convolution, as partial sums.
    DepthwiseFilter(DepthwiseFilterKernel),
    /// Combination of partial results in a fixed order.
    Combine(CombineKernel),
    /// A tensor in another layout.
    Copy(CopyKernel),
    /// The same of one that is contiguous along another axis.
    TransposedCopy(TransposedCopyKernel),
    /// An operand of a convolution as the matrix that it is multiplied as.
    Unfold(Box<UnfoldKernel>),
    /// Flags waited for and set.
    Signal(SignalKernel),
    /// Values that the GPUs of a node send each other.
    AllGather(AllGatherKernel),
    /// Attention whose scores stay in registers.
    Attention(Box<AttentionKernel>),
    /// The same by warps that bring their tiles themselves.
    WarpAttention(Box<WarpAttentionKernel>),
    /// The counter that blocks draw tiles from.
    TileCounter(TileCounterKernel),
    /// Rows of an attention from those of all parts of their keys.
    AttentionCombination(Box<AttentionCombinationKernel>),
    /// Values of an attention with keys side by side.
    TurnedValues(TurnedValuesKernel),
    /// Heads in FP8 as FP16.
    HalfRows(HalfRowsKernel),
    /// What the backward pass of an attention knows of each query.
    AttentionRows(AttentionRowsKernel),
    /// Gradients of sinks.
    AttentionSinks(AttentionSinksKernel),
    /// What dropout of an attention keeps.
    DropoutMask(DropoutMaskKernel),
    /// Gradients of queries, or of keys and values.
    AttentionBackward(Box<AttentionBackwardKernel>),
    /// Gradients of queries from those of scores.
    AttentionQueries(Box<AttentionQueriesKernel>),
    /// The same by warps that bring their tiles themselves.
    WarpAttentionBackward(Box<WarpBackwardKernel>),
    /// The gradient of a bias.
    AttentionBias(Box<AttentionBiasKernel>),
}

impl Body {
    /// Blocks of a cluster; 1 where blocks do not share their memory.
    pub fn cluster(&self) -> u32 {
        match self {
            Self::Rows(kernel) => kernel.cluster,
            Self::Channels(kernel) => kernel.cluster,
            Self::Gemm(kernel) => kernel.cluster.blocks(),
            _ => 1,
        }
    }

    /// Tensors that a function reads through pointers, and those that it writes.
    pub fn touched(&self) -> (Vec<TensorId>, Vec<TensorId>) {
        match self {
            Self::Pointwise(kernel) => (kernel.sweep.program.reads().collect(), kernel.sweep.stores.clone()),
            Self::Columns(kernel) => (kernel.sweep.program.reads().collect(), kernel.sweep.stores.clone()),
            Self::Transposed(kernel) => (kernel.sweep.program.reads().collect(), kernel.sweep.stores.clone()),
            Self::Packed(kernel) => (kernel.sweep.program.reads().collect(), kernel.sweep.stores.clone()),
            Self::Reduction(kernel) => {
                let targets = kernel.accumulations.iter().map(|accumulation| accumulation.target);
                let stores = kernel.sweep.stores.iter().copied().chain(targets);
                (kernel.sweep.program.reads().collect(), stores.collect())
            }
            Self::Rows(RowsKernel { phases, .. }) | Self::Channels(ChannelsKernel { phases, .. }) => {
                Phase::touched(phases)
            }
            Self::AllGather(kernel) => kernel.touched(),
            Self::Attention(kernel) => kernel.problem.touched(),
            Self::AttentionCombination(kernel) => kernel.touched(),
            Self::WarpAttention(kernel) => kernel.touched(),
            Self::TurnedValues(kernel) => kernel.touched(),
            Self::HalfRows(kernel) => kernel.touched(),
            Self::AttentionRows(kernel) => (kernel.reads().collect(), Vec::new()),
            Self::AttentionSinks(kernel) => (kernel.lengths.into_iter().collect(), vec![kernel.result]),
            Self::DropoutMask(kernel) => (kernel.dropout.reads().collect(), vec![kernel.output]),
            Self::AttentionBackward(kernel) => kernel.problem.touched(),
            Self::AttentionQueries(kernel) => kernel.problem.touched(),
            Self::WarpAttentionBackward(kernel) => kernel.touched(),
            Self::AttentionBias(kernel) => kernel.touched(),
            Self::Depthwise(kernel) => {
                let reads = kernel.sweep.program.reads().chain([kernel.windows.image, kernel.filter]);
                (reads.collect(), kernel.sweep.stores.clone())
            }
            Self::DepthwiseFilter(kernel) => (vec![kernel.gradient, kernel.windows.image], Vec::new()),
            Self::Gemm(kernel) => (kernel.loads().collect(), kernel.stores()),
            Self::TileCounter(TileCounterKernel) => (Vec::new(), Vec::new()),
            Self::Combine(kernel) if kernel.parts > 1 => (Vec::new(), Vec::new()),
            Self::Combine(kernel) => {
                let totals = kernel.accumulations.iter().map(|accumulation| accumulation.target).collect();
                with_following(totals, kernel.following.as_ref())
            }
            Self::Moments(kernel) => {
                let sweep = &kernel.reduction.sweep;
                (sweep.program.reads().collect(), sweep.stores.clone())
            }
            Self::CombineMoments(kernel) => with_following(kernel.targets.to_vec(), kernel.following.as_ref()),
            Self::Copy(kernel) => (vec![kernel.source], vec![kernel.copy]),
            Self::TransposedCopy(kernel) => (vec![kernel.source], vec![kernel.copy]),
            Self::Unfold(kernel) => (vec![kernel.source], vec![kernel.copy]),
            Self::Signal(kernel) => {
                let flags =
                    |mode| kernel.actions.iter().filter(move |action| action.mode == mode).map(|action| action.flag);
                (flags(SignalMode::Wait).collect(), flags(SignalMode::Set).collect())
            }
        }
    }
}

/// What a combination of totals touches, and what follows it: this has the totals from registers.
fn with_following(totals: Vec<TensorId>, following: Option<&Sweep>) -> (Vec<TensorId>, Vec<TensorId>) {
    let reads = following.iter().flat_map(|sweep| sweep.program.reads()).filter(|id| !totals.contains(id)).collect();
    let stores = following.iter().flat_map(|sweep| sweep.stores.iter().copied());
    (reads, totals.iter().copied().chain(stores).collect())
}
