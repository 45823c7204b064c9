//! The three surfaces of the runtime fusion engine as tables of limits: data only. Every limit names the rule it belongs
//! to; the checks in `rules` are written once and read these tables.

mod s70;
mod s80;
mod s90;

use super::forms::Forms;
use super::layout::Layout;
use super::rule::{Rule, SurfaceId};
use crate::device::ComputeCapability;
use crate::fusion::Pattern;
use crate::graph::{Attributes, DataType};

/// The surfaces in the order they are tried (V-02).
pub(super) static SURFACES: [&Surface; 3] = [&s90::SURFACE, &s80::SURFACE, &s70::SURFACE];

/// Everything that one surface of the runtime fusion engine allows.
pub(super) struct Surface {
    pub(super) id: SurfaceId,
    pub(super) capabilities: Listed<ComputeCapability>,
    pub(super) data_types: DataTypes,
    pub(super) combinations: &'static [Combination],
    pub(super) reduction_compute: &'static Rule,
    pub(super) pointwise: PointwiseLimits,
    pub(super) mainloop: MainloopStage,
    pub(super) epilogue: EpilogueStage,
    pub(super) matmul: PatternLimits,
    pub(super) forward: PatternLimits,
    pub(super) backward_filter: Result<PatternLimits, &'static Rule>,
    pub(super) backward_data: Result<PatternLimits, &'static Rule>,
    pub(super) unfused: Result<UnfusedLimits, &'static Rule>,
    /// Backward data has unit filter strides.
    pub(super) unit_backward_stride: Option<&'static Rule>,
    /// Convolutions have one group.
    pub(super) single_group: Option<&'static Rule>,
}

impl Surface {
    /// Limits of a pattern with a core; `None` where the surface excludes the pattern, and for pure pointwise graphs.
    pub(super) fn pattern(&self, pattern: Pattern) -> Option<&PatternLimits> {
        match pattern {
            Pattern::Matmul => Some(&self.matmul),
            Pattern::ConvolutionForward => Some(&self.forward),
            Pattern::ConvolutionBackwardFilter => self.backward_filter.as_ref().ok(),
            Pattern::ConvolutionBackwardData => self.backward_data.as_ref().ok(),
            Pattern::Pointwise => None,
        }
    }

    /// The rule that excludes a pattern from this surface.
    pub(super) fn excludes(&self, pattern: Pattern) -> Option<&'static Rule> {
        match pattern {
            Pattern::Matmul | Pattern::ConvolutionForward => None,
            Pattern::ConvolutionBackwardFilter => self.backward_filter.as_ref().err().copied(),
            Pattern::ConvolutionBackwardData => self.backward_data.as_ref().err().copied(),
            Pattern::Pointwise => self.unfused.as_ref().err().copied(),
        }
    }
}

/// A closed list, and the rule that closes it.
pub(super) struct Listed<T: 'static> {
    pub(super) rule: &'static Rule,
    pub(super) allowed: &'static [T],
}

impl<T: PartialEq> Listed<T> {
    pub(super) fn admits(&self, value: &T) -> bool {
        self.allowed.contains(value)
    }
}

/// I/O and intermediate data types.
pub(super) struct DataTypes {
    pub(super) input: Listed<DataType>,
    pub(super) core: Listed<DataType>,
    pub(super) output: Listed<DataType>,
    pub(super) virtual_: Listed<DataType>,
    pub(super) reduction: Listed<DataType>,
    pub(super) boolean: BooleanLimit,
    pub(super) fp8: Fp8Limit,
}

/// Where BOOLEAN tensors are out.
pub(super) enum BooleanLimit {
    /// Everywhere.
    Nowhere(&'static Rule),
    /// As graph inputs.
    NotInput(&'static Rule),
}

/// Where FP8 tensors are out.
pub(super) enum Fp8Limit {
    /// Nowhere beyond the lists.
    AsListed,
    /// On capabilities not listed, core operands apart from all other tensors.
    Capability { core: Listed<ComputeCapability>, other: Listed<ComputeCapability> },
    /// In graphs with a core.
    PointwiseOnly(&'static Rule),
}

/// Core operand types and the compute types they go with.
pub(super) struct Combination {
    pub(super) rule: &'static Rule,
    pub(super) operands: &'static [DataType],
    pub(super) compute: &'static [DataType],
    /// Least compute capability.
    pub(super) since: Option<ComputeCapability>,
    /// Not for backward convolutions.
    pub(super) forward_only: bool,
}

impl Combination {
    /// On every capability and for every core.
    pub(super) const fn new(rule: &'static Rule, operands: &'static [DataType], compute: &'static [DataType]) -> Self {
        Self { rule, operands, compute, since: None, forward_only: false }
    }
}

/// Math precision and scales of pointwise operations.
pub(super) struct PointwiseLimits {
    pub(super) logical: Listed<DataType>,
    /// Arithmetic, comparisons, GEN_INDEX and BINARY_SELECT, where they have a row of their own.
    pub(super) arithmetic: Option<Listed<DataType>>,
    /// IDENTITY, where it has a row of its own: besides these the common type of input and output.
    pub(super) identity: Option<Listed<DataType>>,
    pub(super) other: Listed<DataType>,
    pub(super) logical_tensors: Option<Listed<DataType>>,
    pub(super) alpha: [&'static Rule; 2],
}

/// Kinds of operation that a stage may list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OperationKind {
    Pointwise,
    Reduction,
    GenStats,
    Resample,
    Concat,
    Signal,
}

impl OperationKind {
    /// Kind of an operation; `None` for cores and for what no surface names.
    pub(super) fn of(attributes: &Attributes) -> Option<Self> {
        match attributes {
            Attributes::Pointwise(_) => Some(Self::Pointwise),
            Attributes::Reduction(_) => Some(Self::Reduction),
            Attributes::GenStats => Some(Self::GenStats),
            Attributes::ResampleForward(_) | Attributes::ResampleBackward(_) => Some(Self::Resample),
            Attributes::Concat(_) => Some(Self::Concat),
            Attributes::Signal(_) => Some(Self::Signal),
            Attributes::Matmul(_) | Attributes::Convolution(_) => None,
            Attributes::View | Attributes::Transpose | Attributes::AllGather(_) | Attributes::Bernoulli(_) => None,
            Attributes::PageGather | Attributes::BlockBits => None,
            Attributes::Composite(_) | Attributes::Other(_) => None,
        }
    }

    /// Name in messages.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Pointwise => "Pointwise",
            Self::Reduction => "Reduction",
            Self::GenStats => "GenStats",
            Self::Resample => "ResampleFwd/ResampleBwd",
            Self::Concat => "Concat",
            Self::Signal => "Signal",
        }
    }
}

/// Limits of g1 that hold for every pattern.
pub(super) struct MainloopStage {
    pub(super) operations: Listed<OperationKind>,
    pub(super) virtual_: &'static Rule,
    /// Concat and Signal come first.
    pub(super) order: Option<&'static Rule>,
    /// g1 is empty below this capability.
    pub(super) since: Option<(&'static Rule, ComputeCapability)>,
    /// No broadcast first input.
    pub(super) broadcast_first: Option<&'static Rule>,
    pub(super) alignment: Alignment,
    /// The same alignment for each group.
    pub(super) group_alignment: Option<&'static Rule>,
    /// g1 converts no operand.
    pub(super) no_conversion: Option<&'static Rule>,
}

/// Alignment of tensors in device memory.
pub(super) struct Alignment {
    pub(super) rule: &'static Rule,
    pub(super) bits: u64,
}

/// Limits of g2 that hold for every pattern.
pub(super) struct EpilogueStage {
    pub(super) operations: Listed<OperationKind>,
    pub(super) reduction_exit: &'static Rule,
    pub(super) broadcast_first: &'static Rule,
    /// Alignment of the tensors of g2 and of Pointwise outputs; `None` where a byte is enough.
    pub(super) alignment: Option<[Alignment; 2]>,
    pub(super) signal: Option<SignalLimits>,
    pub(super) resample: Option<ResamplePlacement>,
}

/// Where a Signal may stand in g2.
pub(super) struct SignalLimits {
    pub(super) last: &'static Rule,
    pub(super) without_reduction: &'static Rule,
}

/// Where and on which chips a resample may stand in g2.
pub(super) struct ResamplePlacement {
    pub(super) input: &'static Rule,
    pub(super) pattern: &'static Rule,
    pub(super) capability: &'static Rule,
    pub(super) since: ComputeCapability,
}

/// Limits of one pattern with a core.
pub(super) struct PatternLimits {
    /// Rules on the two core operands, in the order of `Fusion::core_operands`.
    pub(super) operands: [&'static Rule; 2],
    /// The operands have the batch extent of the result.
    pub(super) full_batch: bool,
    /// Limits of the operations before each operand; `None` where the pattern keeps it bare.
    pub(super) mainloop: [Option<Mainloop>; 2],
    pub(super) mainloop_layout: LayoutLimit,
    /// Inputs of g1A share one layout, and with INT8 operands are row-major, B being column-major.
    pub(super) mainloop_common: Option<MainloopCommon>,
    /// Alignment that is enough where g1 is empty.
    pub(super) bare_alignment_bits: Option<u64>,
    /// A rule on core operand layouts that are slow for 8-bit types.
    pub(super) slow: Option<SlowLayouts>,
    pub(super) epilogue: Epilogue,
}

/// Limits of the operations before one core operand.
pub(super) enum Mainloop {
    /// There are none, and no conversion either.
    Forbidden { empty: &'static Rule, no_conversion: Option<&'static Rule> },
    /// Graph inputs have listed dims.
    Broadcast { inputs: DimLimit, grouped_channel: Option<&'static Rule> },
    /// A HALF anchor comes first; other inputs have listed dims (surface 70, matmul).
    HalfFirst { inputs: DimLimit, anchor: &'static Rule, full: &'static Rule },
    /// MUL, ADD, RELU_FWD on HALF tensors (surface 70, convolutions).
    Chain { chain: &'static Rule, data_type: &'static Rule, operand: DimLimit },
}

/// Dims in which each axis is 1 or full, as listed.
pub(super) struct DimLimit {
    pub(super) rule: &'static Rule,
    pub(super) forms: Forms,
}

/// How tensors lie in memory.
pub(super) struct LayoutLimit {
    pub(super) rule: &'static Rule,
    pub(super) layouts: &'static [Layout],
    pub(super) packing: Packing,
}

/// How much padding strides may hold.
pub(super) enum Packing {
    /// None.
    Full,
    /// Any as long as tensors do not overlap themselves: all tensors.
    Disjoint(&'static Rule),
    /// Any as long as outputs do not overlap themselves; inputs may.
    DisjointOutputs(&'static Rule),
    /// Any.
    Free,
}

/// Layouts that the inputs of a matmul's g1 have in common.
pub(super) struct MainloopCommon {
    pub(super) same: &'static Rule,
    pub(super) int8: &'static Rule,
}

/// Layouts of the two core operands that may be slow for 8-bit types (notes).
pub(super) struct SlowLayouts {
    pub(super) rule: &'static Rule,
    pub(super) operands: [Layout; 2],
}

/// Limits of g2 in one pattern.
pub(super) struct Epilogue {
    /// The core result: its dims, and where `result_first` its place in operations.
    pub(super) result: &'static Rule,
    pub(super) result_first: bool,
    pub(super) inputs: DimLimit,
    pub(super) outputs: &'static Rule,
    pub(super) reduction: DimLimit,
    pub(super) layout: LayoutLimit,
    /// All tensors are row-major beside a Reduction.
    pub(super) row_major_reduction: Option<&'static Rule>,
    /// No Reduction in a grouped convolution.
    pub(super) grouped_reduction: Option<&'static Rule>,
    /// No g2 at all in a grouped convolution.
    pub(super) grouped: Option<&'static Rule>,
}

/// Limits of pure pointwise graphs.
pub(super) struct UnfusedLimits {
    pub(super) rank: &'static Rule,
    pub(super) no_matrix_reduction: &'static Rule,
    pub(super) matrix: UnfusedDims,
    pub(super) image: UnfusedDims,
}

/// Dims and layout of a pure pointwise graph of one kind of rank.
pub(super) struct UnfusedDims {
    pub(super) rule: &'static Rule,
    pub(super) inputs: Forms,
    pub(super) reduction: Forms,
    pub(super) layout: LayoutLimit,
}
