//! What functions do. A skeleton is a file here with a `mod` line and a variant of [`Body`].

mod copy;
mod depthwise;
mod gemm;
mod inside;
mod pointwise;
mod rows;

pub use copy::{CopyAxis, CopyKernel, UnfoldKernel, UnfoldedAxis};
pub use depthwise::{ChannelWindows, DepthwiseFilterKernel, DepthwiseKernel, Strip, TapAxis};
pub use gemm::{Epilogue, FusedEpilogue, GemmKernel, PartialReduction, Tuning};
pub use inside::{Inside, OperandsBefore, Telling};
pub use pointwise::{CombineKernel, FlagAction, PackedKernel, PointwiseKernel, ReductionKernel, SignalKernel};
pub use rows::{RowPhase, RowsKernel};

use crate::graph::{SignalMode, TensorId};

/// The skeletons.
#[derive(Clone, Debug)]
pub enum Body {
    /// One pass over the iteration space.
    Pointwise(PointwiseKernel),
    /// One pass over the bytes of packed booleans.
    Packed(PackedKernel),
    /// One pass over the iteration space, reducing some of its axes.
    Reduction(ReductionKernel),
    /// Several passes over the same rows.
    Rows(RowsKernel),
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
    /// An operand of a convolution as the matrix that it is multiplied as.
    Unfold(Box<UnfoldKernel>),
    /// Flags waited for and set.
    Signal(SignalKernel),
}

impl Body {
    /// Tensors that a function reads through pointers, and those that it writes.
    pub fn touched(&self) -> (Vec<TensorId>, Vec<TensorId>) {
        match self {
            Self::Pointwise(kernel) => (kernel.sweep.program.reads().collect(), kernel.sweep.stores.clone()),
            Self::Packed(kernel) => (kernel.sweep.program.reads().collect(), kernel.sweep.stores.clone()),
            Self::Reduction(kernel) => {
                let targets = kernel.accumulations.iter().map(|accumulation| accumulation.target);
                let stores = kernel.sweep.stores.iter().copied().chain(targets);
                (kernel.sweep.program.reads().collect(), stores.collect())
            }
            Self::Rows(kernel) => kernel.touched(),
            Self::Depthwise(kernel) => {
                let reads = kernel.sweep.program.reads().chain([kernel.windows.image, kernel.filter]);
                (reads.collect(), kernel.sweep.stores.clone())
            }
            Self::DepthwiseFilter(kernel) => (vec![kernel.gradient, kernel.windows.image], Vec::new()),
            Self::Gemm(kernel) => (kernel.loads().collect(), kernel.stores()),
            Self::Combine(kernel) if kernel.parts > 1 => (Vec::new(), Vec::new()),
            Self::Combine(kernel) => {
                (Vec::new(), kernel.accumulations.iter().map(|accumulation| accumulation.target).collect())
            }
            Self::Copy(kernel) => (vec![kernel.source], vec![kernel.copy]),
            Self::Unfold(kernel) => (vec![kernel.source], vec![kernel.copy]),
            Self::Signal(kernel) => {
                let flags =
                    |mode| kernel.actions.iter().filter(move |action| action.mode == mode).map(|action| action.flag);
                (flags(SignalMode::Wait).collect(), flags(SignalMode::Set).collect())
            }
        }
    }
}
