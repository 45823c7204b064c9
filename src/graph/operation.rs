//! Operations: what they compute, and the named ports that tie them to tensors.

pub(super) mod composite;

use std::borrow::Cow;
use std::fmt;

use super::{DataType, PaddingMode, PointwiseMode, Reads, ReductionMode, ResampleMode, TensorId};

pub(crate) use composite::backward_scaling;
pub use composite::{
    AlibiSlopes, AttentionBackward, Bernoulli, BnBackwardWeights, BnFinalize, BnFinalizeMode, Composite, Dropout,
    KeptAttributes, MaskedDropout, NormBackward, NormForward, NormMode, NormPhase, PagedCacheLoad, ScoreMask,
    ScoreTranspose, Softmax,
};

/// Index of an operation inside one graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OperationId(pub(super) u32);

impl OperationId {
    /// Position in the graph's list of operations.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Name of an operation's input or output slot, spelled as in graph files (`A`, `IN_0`, `DY`, …).
///
/// Two ports are equal when their spelling is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Port(pub &'static str);

#[allow(missing_docs, reason = "each constant is the port of that spelling")]
impl Port {
    pub const A: Self = Self("A");
    pub const B: Self = Self("B");
    pub const C: Self = Self("C");
    pub const X: Self = Self("X");
    pub const W: Self = Self("W");
    pub const Y: Self = Self("Y");
    pub const DX: Self = Self("DX");
    pub const DW: Self = Self("DW");
    pub const DY: Self = Self("DY");
    pub const IN_0: Self = Self("IN_0");
    pub const IN_1: Self = Self("IN_1");
    pub const IN_2: Self = Self("IN_2");
    pub const OUT_0: Self = Self("OUT_0");
    pub const SUM: Self = Self("SUM");
    pub const SQ_SUM: Self = Self("SQ_SUM");
    pub const INDEX: Self = Self("Index");
    pub const FLAG: Self = Self("FLAG");
    pub const SCALE: Self = Self("SCALE");
    pub const BIAS: Self = Self("BIAS");
    pub const EPSILON: Self = Self("EPSILON");
    pub const MEAN: Self = Self("MEAN");
    pub const INV_VARIANCE: Self = Self("INV_VARIANCE");
    pub const MOMENTUM: Self = Self("MOMENTUM");
    pub const ACCUM_COUNT: Self = Self("ACCUM_COUNT");
    pub const PREV_RUNNING_MEAN: Self = Self("PREV_RUNNING_MEAN");
    pub const PREV_RUNNING_VAR: Self = Self("PREV_RUNNING_VAR");
    pub const NEXT_RUNNING_MEAN: Self = Self("NEXT_RUNNING_MEAN");
    pub const NEXT_RUNNING_VAR: Self = Self("NEXT_RUNNING_VAR");
    pub const DSCALE: Self = Self("DSCALE");
    pub const DBIAS: Self = Self("DBIAS");
    pub const EQ_SCALE: Self = Self("EQ_SCALE");
    pub const EQ_BIAS: Self = Self("EQ_BIAS");
    pub const EQ_SCALE_DY: Self = Self("EQ_SCALE_DY");
    pub const EQ_SCALE_X: Self = Self("EQ_SCALE_X");
    pub const Q: Self = Self("Q");
    pub const K: Self = Self("K");
    pub const V: Self = Self("V");
    pub const O: Self = Self("O");
    pub const DO: Self = Self("dO");
    pub const DQ: Self = Self("dQ");
    pub const DK: Self = Self("dK");
    pub const DV: Self = Self("dV");
    pub const ATTN_SCALE: Self = Self("Attn_scale");
    pub const ATTENTION_BIAS: Self = Self("Bias");
    pub const ATTENTION_DBIAS: Self = Self("dBias");
    /// A slope of each head of queries (AT-O7): ours, for nodes have a flag alone.
    pub const ALIBI_SLOPES: Self = Self("Alibi_slopes");
    /// What scores are capped by (AT-O12): ours, for programs send operations.
    pub const SOFT_CAP: Self = Self("Soft_cap");
    pub const SINK_TOKEN: Self = Self("SINK_TOKEN");
    pub const DSINK_TOKEN: Self = Self("DSINK_TOKEN");
    pub const SINK: Self = Self("SINK");
    pub const PAGE_TABLE_K: Self = Self("Page_table_K");
    pub const PAGE_TABLE_V: Self = Self("Page_table_V");
    pub const CONTAINER: Self = Self("container");
    pub const SEQ_LEN: Self = Self("seqLen");
    pub const PAGE_TABLE: Self = Self("pageTable");
    pub const Y_OUT: Self = Self("yOut");
    pub const STATS: Self = Self("Stats");
    pub const SEQ_LEN_Q: Self = Self("SEQ_LEN_Q");
    pub const SEQ_LEN_KV: Self = Self("SEQ_LEN_KV");
    pub const BLOCK_MASK: Self = Self("Block_mask");
    pub const LEFT_BOUND: Self = Self("LEFT_BOUND");
    pub const RIGHT_BOUND: Self = Self("RIGHT_BOUND");
    pub const SEED: Self = Self("Seed");
    pub const OFFSET: Self = Self("Offset");
    pub const DROPOUT_MASK: Self = Self("Dropout_mask");
    pub const DROPOUT_SCALE: Self = Self("Dropout_scale");
    pub const DROPOUT_SCALE_INV: Self = Self("Dropout_scale_inv");
    pub const RNG_DUMP: Self = Self("RNG_DUMP");
    /// Probabilities in memory, negative where they are dropped (MHAF-S-STORE): ours, for programs send operations.
    pub const S: Self = Self("S");
    pub const DESCALE_Q: Self = Self("Descale_Q");
    pub const DESCALE_K: Self = Self("Descale_K");
    pub const DESCALE_V: Self = Self("Descale_V");
    pub const DESCALE_S: Self = Self("Descale_S");
    pub const SCALE_S: Self = Self("Scale_S");
    pub const SCALE_O: Self = Self("Scale_O");
    pub const AMAX_S: Self = Self("Amax_S");
    pub const AMAX_O: Self = Self("Amax_O");
    pub const DESCALE_O: Self = Self("Descale_O");
    pub const DESCALE_DO: Self = Self("Descale_dO");
    pub const DESCALE_DP: Self = Self("Descale_dP");
    pub const SCALE_DP: Self = Self("Scale_dP");
    pub const SCALE_DQ: Self = Self("Scale_dQ");
    pub const SCALE_DK: Self = Self("Scale_dK");
    pub const SCALE_DV: Self = Self("Scale_dV");
    pub const AMAX_DP: Self = Self("Amax_dP");
    pub const AMAX_DQ: Self = Self("Amax_dQ");
    pub const AMAX_DK: Self = Self("Amax_dK");
    pub const AMAX_DV: Self = Self("Amax_dV");
    pub const MAX: Self = Self("Max");
    pub const SUM_EXP: Self = Self("Sum_exp");
    pub const M_OVERRIDE: Self = Self("M_override");
    pub const N_OVERRIDE: Self = Self("N_override");
    pub const K_OVERRIDE: Self = Self("K_override");
    /// Statistics that the GPUs of a node send each other, one tensor for each GPU (N-10g); a graph file has them in `peer_stats`.
    pub const PEER_STATS: [Self; 32] = [
        Self("PEER_STATS_0"),
        Self("PEER_STATS_1"),
        Self("PEER_STATS_2"),
        Self("PEER_STATS_3"),
        Self("PEER_STATS_4"),
        Self("PEER_STATS_5"),
        Self("PEER_STATS_6"),
        Self("PEER_STATS_7"),
        Self("PEER_STATS_8"),
        Self("PEER_STATS_9"),
        Self("PEER_STATS_10"),
        Self("PEER_STATS_11"),
        Self("PEER_STATS_12"),
        Self("PEER_STATS_13"),
        Self("PEER_STATS_14"),
        Self("PEER_STATS_15"),
        Self("PEER_STATS_16"),
        Self("PEER_STATS_17"),
        Self("PEER_STATS_18"),
        Self("PEER_STATS_19"),
        Self("PEER_STATS_20"),
        Self("PEER_STATS_21"),
        Self("PEER_STATS_22"),
        Self("PEER_STATS_23"),
        Self("PEER_STATS_24"),
        Self("PEER_STATS_25"),
        Self("PEER_STATS_26"),
        Self("PEER_STATS_27"),
        Self("PEER_STATS_28"),
        Self("PEER_STATS_29"),
        Self("PEER_STATS_30"),
        Self("PEER_STATS_31"),
    ];
    /// Inputs of a concatenation, in order; a graph file keys them `"0"`, `"1"`, ….
    pub const CONCAT_INPUT: Self = Self("INPUT");
}

impl fmt::Debug for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// One node of an operation graph, whose tensors are those of a [`FinalizedGraph`](super::FinalizedGraph), or
/// [handles](super::TensorHandle) of a [`Graph`](super::Graph).
#[derive(Clone, Debug, PartialEq)]
pub struct Operation<T = TensorId> {
    /// Free text for messages.
    pub name: String,
    /// What is computed.
    pub attributes: Attributes,
    /// Type the computation is done in; taken from the graph's context where absent.
    pub compute_data_type: Option<DataType>,
    /// Read tensors, in the order of the operation's definition (`IN_0`, `IN_1`, …; `A`, `B`; backward: `DY` first).
    pub inputs: Vec<(Port, T)>,
    /// Written tensors.
    pub outputs: Vec<(Port, T)>,
}

impl<T: Copy> Operation<T> {
    /// The same operation of other tensors, port by port: inputs first.
    pub(crate) fn of_tensors<U>(&self, mut other: impl FnMut(T) -> U) -> Operation<U> {
        let mut slots = |slots: &[(Port, T)]| slots.iter().map(|&(port, tensor)| (port, other(tensor))).collect();
        Operation {
            name: self.name.clone(),
            attributes: self.attributes.clone(),
            compute_data_type: self.compute_data_type,
            inputs: slots(&self.inputs),
            outputs: slots(&self.outputs),
        }
    }
}

impl<T: Copy> Operation<T> {
    /// What a pointwise operation is; `None` for others.
    pub(crate) fn pointwise(&self) -> Option<&Pointwise> {
        match &self.attributes {
            Attributes::Pointwise(pointwise) => Some(pointwise),
            _ => None,
        }
    }

    /// The mode of a pointwise operation; `None` for others.
    pub(crate) fn pointwise_mode(&self) -> Option<PointwiseMode> {
        self.pointwise().map(|pointwise| pointwise.mode)
    }

    /// The tensor at an input port.
    pub fn input(&self, port: Port) -> Option<T> {
        find(&self.inputs, port)
    }

    /// Tensors by which the GPUs of a node send each other statistics, in order of their ranks (N-10g).
    pub(crate) fn peers(&self) -> impl Iterator<Item = T> + '_
    where
        T: Copy,
    {
        self.inputs.iter().filter(|slot| Port::PEER_STATS.contains(&slot.0)).map(|slot| slot.1)
    }

    /// The tensor at an output port.
    pub fn output(&self, port: Port) -> Option<T> {
        find(&self.outputs, port)
    }

    /// The first output: `C`, `Y`, `DX`, `DW`, `OUT_0`, `SUM` ….
    pub fn result(&self) -> Option<T> {
        self.outputs.first().map(|slot| slot.1)
    }

    /// The flag that the operation sets, where it is a signal that does.
    pub fn set_flag(&self) -> Option<T> {
        match &self.attributes {
            Attributes::Signal(signal) if signal.mode == SignalMode::Set => self.input(Port::FLAG),
            _ => None,
        }
    }

    /// Read tensors in port order.
    pub fn input_tensors(&self) -> impl DoubleEndedIterator<Item = T> + ExactSizeIterator + '_ {
        self.inputs.iter().map(|slot| slot.1)
    }

    /// Written tensors in port order.
    pub fn output_tensors(&self) -> impl DoubleEndedIterator<Item = T> + ExactSizeIterator + '_ {
        self.outputs.iter().map(|slot| slot.1)
    }

    /// Tag of the operation in graph files.
    pub fn tag(&self) -> &'static str {
        self.attributes.tag()
    }

    /// Matmul or convolution: the node a fusion is built around.
    pub fn is_core(&self) -> bool {
        matches!(self.attributes, Attributes::Matmul(_) | Attributes::Convolution(_))
    }
}

fn find<T: Copy>(slots: &[(Port, T)], port: Port) -> Option<T> {
    slots.iter().find(|slot| slot.0 == port).map(|slot| slot.1)
}

/// What an operation computes, with the attributes of its kind.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Attributes {
    /// `A, B [, M_override, N_override, K_override] → C`.
    Matmul(Matmul),
    /// `X, W → Y`; `DY, W → DX`; `DY, X → DW`.
    Convolution(Convolution),
    /// `IN_0 [, IN_1 [, IN_2]] → OUT_0`.
    Pointwise(Pointwise),
    /// `X → Y`.
    Reduction(Reduction),
    /// `X → SUM, SQ_SUM`.
    GenStats,
    /// `X → Y [, Index]`.
    ResampleForward(Resample),
    /// `DY [, X] [, Y] [, Index] → DX`.
    ResampleBackward(Resample),
    /// `INPUT … → Y`.
    Concat(Concat),
    /// `X, FLAG [→ Y]`.
    Signal(Signal),
    /// `X → Y`: the elements of X in row-major order, under other extents. Definitions of operations are made of it.
    View,
    /// `X → Y`: the last two axes of X swapped. Definitions of operations are made of it.
    Transpose,
    /// `X, PEER_STATS_0, … → Y`: the values of X of every GPU, in order of their ranks. Definitions of operations are made of it.
    AllGather(AllGather),
    /// `Seed, Offset → Y`: a random number of each coordinate. Definitions of operations are made of it.
    Bernoulli(Bernoulli),
    /// `container, seqLen, pageTable → Y`: rows of sequences out of pages that a table names, NaN beyond a sequence. Definitions of operations
    /// are made of it.
    PageGather,
    /// `Block_mask → Y`: the bit of each coordinate's tile ([`ScoreMask::TILE`]). Definitions of operations are made of it.
    BlockBits,
    /// An operation that is defined by primitive ones ([`super::FinalizedGraph::expand`]).
    Composite(Composite),
    /// An operation that is read, kept and written back, but that no engine executes yet (attention, reshapes, …).
    Other(Other),
}

impl Attributes {
    /// What is kept by key, and not read and written attribute by attribute.
    pub(crate) fn kept(&self) -> Cow<'_, KeptAttributes> {
        match self {
            Self::Other(other) => Cow::Borrowed(&other.attributes),
            Self::Composite(composite) => Cow::Owned(composite.attributes()),
            _ => Cow::Owned(KeptAttributes::new()),
        }
    }

    /// Tag in graph files.
    pub fn tag(&self) -> &'static str {
        match self {
            Self::Matmul(_) => "MATMUL",
            Self::Convolution(convolution) => convolution.direction.tag(),
            Self::Pointwise(_) => "POINTWISE",
            Self::Reduction(_) => "REDUCTION",
            Self::GenStats => "GENSTATS",
            Self::ResampleForward(_) => "RESAMPLE",
            Self::ResampleBackward(_) => "RESAMPLE_BWD",
            Self::Concat(_) => "CONCATENATE",
            Self::Signal(_) => "SIGNAL",
            Self::View => "VIEW",
            Self::Transpose => "TRANSPOSE",
            Self::AllGather(_) => "ALL_GATHER",
            Self::Bernoulli(_) => "BERNOULLI",
            Self::PageGather => "PAGE_GATHER",
            Self::BlockBits => "BLOCK_BITS",
            Self::Composite(composite) => composite.tag(),
            Self::Other(other) => other.tag,
        }
    }
}

/// What several GPUs send each other of a value: its place in the messages. Y is X with as many elements as there are GPUs along axis 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllGather {
    /// Which of the values of a message it is.
    pub place: i64,
}

impl AllGather {
    /// Values of a message, for each channel: mean and variance, or the two sums of a gradient (N-112).
    pub const PLACES: i64 = 2;

    /// Words of a value in a message: itself, and a flag that tells that it has come.
    pub const WORDS: i64 = 2;

    /// Where a GPU's value of a channel lies in the tensor that it was sent to, in words.
    pub fn word(self, rank: i64, [channel, channels]: [i64; 2]) -> i64 {
        Self::WORDS * ((rank * Self::PLACES + self.place) * channels + channel)
    }

    /// Words of a message with all values of so many channels.
    pub fn message_words(channels: i64) -> i64 {
        Self::WORDS * Self::PLACES * channels
    }
}

/// Attributes of a matmul, `C[b,m,n] = Σ_k A[b,m,k]·B[b,k,n]`; a batch extent of 1 broadcasts.
#[derive(Clone, Debug, PartialEq)]
pub struct Matmul {
    /// Value of elements beyond the override extents.
    pub padding_value: f64,
}

impl Default for Matmul {
    fn default() -> Self {
        Self { padding_value: 0.0 }
    }
}

/// Which of the three convolution operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ConvolutionDirection {
    /// `Y = X ∗ W`.
    Forward,
    /// `DX` from `DY` and `W`.
    BackwardData,
    /// `DW` from `DY` and `X`.
    BackwardFilter,
}

impl ConvolutionDirection {
    /// Tag in graph files.
    pub fn tag(self) -> &'static str {
        match self {
            Self::Forward => "CONV_FPROP",
            Self::BackwardData => "CONV_DGRAD",
            Self::BackwardFilter => "CONV_WGRAD",
        }
    }
}

/// Whether the filter is applied as it lies or rotated by 180°.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ConvolutionMode {
    /// As it lies.
    #[default]
    CrossCorrelation,
    /// Rotated.
    Convolution,
}

impl ConvolutionMode {
    /// Spelling in graph files.
    pub fn name(self) -> &'static str {
        match self {
            Self::CrossCorrelation => "CROSS_CORRELATION",
            Self::Convolution => "CONVOLUTION",
        }
    }

    /// The mode with this exact spelling.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::CrossCorrelation, Self::Convolution].into_iter().find(|mode| mode.name() == name)
    }
}

/// Attributes of a convolution; every array has one entry per spatial axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Convolution {
    /// Which tensor is computed.
    pub direction: ConvolutionDirection,
    /// Filter orientation.
    pub mode: ConvolutionMode,
    /// Padding before each spatial axis, in elements, ≥ 0.
    pub pre_padding: Vec<i64>,
    /// Padding after each spatial axis, in elements, ≥ 0.
    pub post_padding: Vec<i64>,
    /// Filter strides, ≥ 1.
    pub stride: Vec<i64>,
    /// Dilations, ≥ 1.
    pub dilation: Vec<i64>,
    /// Scale of the result.
    pub alpha: f64,
    /// Scale of the prior content of the result tensor.
    pub beta: f64,
}

impl Convolution {
    /// Unit stride and dilation, no padding, cross-correlation.
    pub fn new(direction: ConvolutionDirection, spatial_axes: usize) -> Self {
        Self {
            direction,
            mode: ConvolutionMode::default(),
            pre_padding: vec![0; spatial_axes],
            post_padding: vec![0; spatial_axes],
            stride: vec![1; spatial_axes],
            dilation: vec![1; spatial_axes],
            alpha: 1.0,
            beta: 0.0,
        }
    }

    /// The same padding before and after each spatial axis.
    pub fn padding(mut self, padding: impl Into<Vec<i64>>) -> Self {
        self.pre_padding = padding.into();
        self.post_padding = self.pre_padding.clone();
        self
    }

    /// Filter strides.
    pub fn stride(mut self, stride: impl Into<Vec<i64>>) -> Self {
        self.stride = stride.into();
        self
    }

    /// Dilations.
    pub fn dilation(mut self, dilation: impl Into<Vec<i64>>) -> Self {
        self.dilation = dilation.into();
        self
    }

    /// Ports of this direction: two inputs, then the output.
    pub fn ports(&self) -> ([Port; 2], Port) {
        match self.direction {
            ConvolutionDirection::Forward => ([Port::X, Port::W], Port::Y),
            ConvolutionDirection::BackwardData => ([Port::DY, Port::W], Port::DX),
            ConvolutionDirection::BackwardFilter => ([Port::DY, Port::X], Port::DW),
        }
    }
}

/// What comparison-based modes do with a NaN operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NanPropagation {
    /// RELU gives the lower clip, MIN and MAX the other operand.
    NotPropagate,
    /// A NaN operand gives NaN (also where the option is not set: O-15).
    Propagate,
}

/// Attributes of a pointwise operation; `None` means "not set", the accessors give the documented default.
#[derive(Clone, Debug, PartialEq)]
pub struct Pointwise {
    /// The function.
    pub mode: PointwiseMode,
    /// Axis of `GEN_INDEX`.
    pub axis: Option<i64>,
    /// RELU lower clip, default 0.
    pub relu_lower_clip: Option<f32>,
    /// RELU upper clip, default +∞.
    pub relu_upper_clip: Option<f32>,
    /// Slope below the lower clip, default 0.
    pub relu_lower_clip_slope: Option<f32>,
    /// β of SWISH, default 1.
    pub swish_beta: Option<f32>,
    /// α of ELU, default 1.
    pub elu_alpha: Option<f32>,
    /// β of SOFTPLUS, default 1.
    pub softplus_beta: Option<f32>,
    /// NaN rule of RELU, MIN, MAX.
    pub nan_propagation: Option<NanPropagation>,
    /// Scale of X; every surface requires 1. By 0 it counts as 0.
    pub alpha1: f32,
    /// Scale of B; every surface requires 1. By 0 it counts as 0.
    pub alpha2: f32,
}

impl Pointwise {
    /// This mode with nothing else set.
    pub fn new(mode: PointwiseMode) -> Self {
        Self {
            mode,
            axis: None,
            relu_lower_clip: None,
            relu_upper_clip: None,
            relu_lower_clip_slope: None,
            swish_beta: None,
            elu_alpha: None,
            softplus_beta: None,
            nan_propagation: None,
            alpha1: 1.0,
            alpha2: 1.0,
        }
    }

    /// The same operation without scales, where there is one: an ADD whose second input counts −1 times is a SUB.
    pub fn unscaled(&self) -> Option<Self> {
        match (self.mode, self.alpha1, self.alpha2) {
            (_, 1.0, 1.0) => Some(self.clone()),
            (PointwiseMode::Add, 1.0, -1.0) => Some(Self { mode: PointwiseMode::Sub, alpha2: 1.0, ..self.clone() }),
            _ => None,
        }
    }

    /// Factors of the operands, in port order: α₁ and α₂; the DY of a gradient and what selects have none (PW-R9). What a factor of 0 stands before
    /// counts as 0 whatever it is.
    pub fn scales(&self) -> [f32; 3] {
        if self.mode.is_backward() { [1.0, self.alpha1, 1.0] } else { [self.alpha1, self.alpha2, 1.0] }
    }

    /// Whether some operand has a factor.
    pub fn is_scaled(&self) -> bool {
        self.scales() != [1.0; 3]
    }

    /// The same operation of its first operand alone, where the other counts as 0: programs give ConvBiasAct without Z so, and leave what Z holds
    /// open.
    pub fn of_first_alone(&self) -> Option<Self> {
        let is_sum = matches!(self.mode, PointwiseMode::Add | PointwiseMode::Sub);
        (is_sum && self.alpha2 == 0.0).then(|| Self { mode: PointwiseMode::Identity, alpha2: 1.0, ..self.clone() })
    }

    /// Lower clip with its default.
    pub fn lower_clip(&self) -> f32 {
        self.relu_lower_clip.unwrap_or(0.0)
    }

    /// Upper clip with its default.
    pub fn upper_clip(&self) -> f32 {
        self.relu_upper_clip.unwrap_or(f32::INFINITY)
    }

    /// Lower-clip slope with its default.
    pub fn lower_slope(&self) -> f32 {
        self.relu_lower_clip_slope.unwrap_or(0.0)
    }

    /// β of SWISH or SOFTPLUS, whichever the mode reads, with its default.
    pub fn beta(&self) -> f32 {
        if self.mode.reads() == Reads::SoftplusBeta { self.softplus_beta } else { self.swish_beta }.unwrap_or(1.0)
    }

    /// α of ELU with its default.
    pub fn alpha(&self) -> f32 {
        self.elu_alpha.unwrap_or(1.0)
    }

    /// Whether a NaN operand of RELU, MIN or MAX gives NaN.
    pub fn propagates_nan(&self) -> bool {
        self.nan_propagation != Some(NanPropagation::NotPropagate)
    }
}

/// Attributes of a reduction: output extents of 1 mark the reduced axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Reduction {
    /// The operator.
    pub mode: ReductionMode,
    /// Asked for explicitly; every engine of ours is deterministic by default.
    pub is_deterministic: bool,
}

impl Reduction {
    /// This operator.
    pub fn new(mode: ReductionMode) -> Self {
        Self { mode, is_deterministic: false }
    }
}

/// A fraction `numerator / denominator`, denominator positive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fraction {
    /// Above the line.
    pub numerator: i64,
    /// Below the line, ≥ 1.
    pub denominator: i64,
}

impl Fraction {
    /// A whole number.
    pub const fn whole(value: i64) -> Self {
        Self { numerator: value, denominator: 1 }
    }
}

impl fmt::Display for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.denominator {
            1 => write!(f, "{}", self.numerator),
            denominator => write!(f, "{}/{denominator}", self.numerator),
        }
    }
}

/// Attributes of a resampling; arrays have one entry per spatial axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Resample {
    /// The mode.
    pub mode: ResampleMode,
    /// What lies outside the image.
    pub padding_mode: PaddingMode,
    /// Window extents.
    pub window: Vec<Fraction>,
    /// Strides.
    pub stride: Vec<Fraction>,
    /// Padding before each spatial axis.
    pub pre_padding: Vec<Fraction>,
    /// Padding after each spatial axis.
    pub post_padding: Vec<Fraction>,
    /// Whether the index tensor is asked for (graph files since frontend 1.9).
    pub generate_index: Option<bool>,
    /// Scale of the result.
    pub alpha: f64,
    /// Scale of the prior content of the result tensor.
    pub beta: f64,
}

/// Attributes of a concatenation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Concat {
    /// Axis along which the inputs are joined.
    pub axis: i64,
    /// Input that already lies in the output buffer.
    pub in_place_index: Option<i64>,
}

/// Whether a signal waits for a flag or sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SignalMode {
    /// Write the value when all of X is produced.
    Set,
    /// Wait until the flag has the value.
    Wait,
}

/// Attributes of a signal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signal {
    /// Set or wait.
    pub mode: SignalMode,
    /// The value compared with or written to the flag.
    pub value: i64,
}

/// An operation that is carried but not executed: tag and attributes as in graph files.
#[derive(Clone, Debug, PartialEq)]
pub struct Other {
    /// Tag, one of the known ones.
    pub tag: &'static str,
    /// Attributes by key, as the file gave them (floats decoded).
    pub attributes: KeptAttributes,
}

impl Other {
    /// Attributes that say something: `null`, `false` and an empty list are what an absent key means (FEJ-13).
    pub fn set_attributes(&self) -> impl Iterator<Item = (&str, &serde_json::Value)> {
        use serde_json::Value;
        let says = |value: &Value| match value {
            Value::Null | Value::Bool(false) => false,
            Value::Array(values) => !values.is_empty(),
            _ => true,
        };
        self.attributes.iter().filter(move |row| says(row.1)).map(|(key, value)| (key.as_str(), value))
    }
}
