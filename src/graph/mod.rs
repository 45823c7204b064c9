//! The operation graph: tensors, operations, their completion and their identity.
//!
//! A [`Graph`] is what an author or a file describes; parts may be missing. [`Graph::finalize`] completes it
//! (types, dims, strides), checks that it is well formed and gives an immutable [`FinalizedGraph`], the only thing
//! later stages see. Invariant: a finalized graph is a DAG whose every tensor has a type, extents and strides.
//!
//! # When
//!
//! You need this first: whoever asks for a kernel describes a graph, or has one [read](crate::frontend).
//!
//! ```
//! use fusewright::graph::{DataType, Graph, PointwiseMode, Tensor};
//!
//! // What is not said is inferred: y's extents, strides and type.
//! let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
//! let x = graph.tensor(Tensor::new("x").channels_last([8, 64, 28, 28]));
//! let scale = graph.tensor(Tensor::new("scale").channels_last([1, 64, 1, 1]).uid(7));
//! let y = graph.pointwise("mul", PointwiseMode::Mul, &[x, scale]);
//! graph.set_output(y);
//!
//! let graph = graph.finalize()?;
//! let id = graph.id_of(y).expect("y is an output");
//! assert_eq!(graph.tensor(id).dim, [8, 64, 28, 28]);
//! assert_eq!((graph.uid_of(scale), graph.uid_of(x)), (Some(7), Some(1)));
//! # Ok::<(), fusewright::error::Malformed>(())
//! ```

mod attention;
mod axes;
mod builder;
mod canonical;
mod data_type;
mod defects;
mod divisor;
mod draft;
mod finalize;
mod finalized;
mod infer;
mod key;
mod malformed;
mod mode;
mod normal;
mod operation;
#[cfg(test)]
mod random;
#[cfg(test)]
mod samples;
mod tensor;
mod text;
mod topology;
mod views;

pub(crate) use attention::is_turned;
pub(crate) use axes::AxisClasses;
pub use builder::Graph;
pub use data_type::DataType;
pub(crate) use divisor::greatest_common_divisor;
pub use finalize::{MAX_OPERATIONS, MAX_RANK};
pub use finalized::{FinalTensor, FinalizedGraph};
pub use key::GraphKey;
pub use malformed::Malformed;
pub use mode::{PaddingMode, PointwiseMode, Reads, ReductionMode, ResampleMode};
#[cfg(test)]
pub(crate) use normal::tests::samples as attention_samples;
pub(crate) use normal::{BAND_MASK, Expectation, Expected, FILL, is_sum_of_attention};
pub(crate) use operation::backward_scaling;
pub use operation::{
    AlibiSlopes, AllGather, AttentionBackward, Attributes, Bernoulli, BnBackwardWeights, BnFinalize, BnFinalizeMode,
    Composite, Concat, Convolution, ConvolutionDirection, ConvolutionMode, Dropout, Fraction, KeptAttributes,
    MaskedDropout, Matmul, NanPropagation, NormBackward, NormForward, NormMode, NormPhase, Operation, OperationId,
    Other, PagedCacheLoad, Pointwise, Port, Reduction, Resample, ScoreMask, ScoreTranspose, Signal, SignalMode,
    Softmax,
};
pub use tensor::{DEFAULT_ALIGNMENT, Reordering, Scalar, Tensor, TensorHandle, TensorId};
pub(crate) use tensor::{channels_last_order, packed_strides, row_major_order};
