//! The CPU engine and the judges of results: slow, obvious, right.
//!
//! - [`execute`] runs a graph on the CPU in its compute types: the oracle of generated kernels, and the default device
//!   where there is no GPU.
//! - [`evaluate_f64`] evaluates it op by op in double precision with loops and formulas of its own: the oracle of the
//!   CPU engine.
//! - [`bounds`] tells how far honest results may lie from the exact ones, and [`compare`] holds two results against
//!   that.
//! - [`shrink`] makes a smaller twin of a graph that is too large for them, [`with_extent`] one of another extent.
//! - [`random_inputs`] gives inputs that are the same everywhere.
//!
//! All take any [`crate::graph::FinalizedGraph`] of matmuls, convolutions, pointwise operations, reductions,
//! statistics, resamplings, concatenations, signals and composite operations, which they take apart, whether or not a support surface accepts it. Where the
//! specification leaves a value open:
//! - `RELU_BWD` multiplies DY by its derivative (∞·0 is NaN) and treats a NaN forward input as `RELU_FWD` does;
//!   `GELU` modes have their limits at ±∞; `AMAX` propagates NaN.
//! - In max pooling, padded positions take part with −∞: the index of a window without anything above −∞ is 0, and if
//!   that position is padded its gradient goes nowhere. The index of a window with a NaN is that of the first one.
//!   Backward, the index decides where there is one, else X; Y is not read.
//! - `BILINEAR` does not read neighbours of weight 0: their NaN and infinities go nowhere.
//! - On the CPU nobody else sets a flag: a `WAIT` whose flag has another value is an error at once.
//!
//! # When
//!
//! You need this to know what a graph computes, without a GPU, and whether another result is as good.
//!
//! ```
//! # use std::sync::Arc;
//! # use fusewright::graph::{DataType, Graph, PointwiseMode, Tensor};
//! # let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
//! # let a = graph.tensor(Tensor::new("a").row_major([1, 64, 128]));
//! # let b = graph.tensor(Tensor::new("b").row_major([1, 128, 32]));
//! # let c = graph.matmul("matmul", a, b);
//! # graph.set_output(c);
//! # let graph = Arc::new(graph.finalize()?);
//! use fusewright::reference::{Distribution, bounds, compare, evaluate_f64, execute, random_inputs};
//!
//! let inputs = random_inputs(&graph, 0, Distribution::Normal)?;
//! let found = execute(&graph, &inputs)?;
//! let exact = evaluate_f64(&graph, &inputs)?;
//! let exact = exact.into_iter().map(|(id, dense)| Ok((id, dense.to_host(graph.tensor(id))?))).collect::<Result<_, fusewright::error::Error>>()?;
//! let comparison = compare(&graph, &exact, &found, Some(&bounds(&graph, &inputs)?))?;
//! assert!(comparison.is_match(), "{comparison}");
//! # Ok::<(), fusewright::error::Error>(())
//! ```

mod all_gather;
pub(crate) mod bernoulli;
mod block_mask;
mod bounds;
mod compare;
mod convolution;
mod element;
mod engine;
mod inputs;
mod landmarks;
mod linear;
mod math;
mod matmul;
mod movement;
mod oracle;
mod overrides;
mod pages;
mod pointwise;
mod ragged;
mod reduction;
mod resample;
mod resize;
mod run;
mod shrink;
mod statistics;
mod supported;
mod values;

#[cfg(test)]
mod tests;

pub use bounds::{
    Accuracy, BoundOptions, Bounds, ModeAccuracy, Unit, accuracy_table, allowed_error, bounds, bounds_with,
};
pub use compare::{Comparison, Difference, OutputComparison, compare, compare_exact};
pub use engine::execute;
pub use inputs::{Distribution, random_inputs};
pub use oracle::{DenseF64, evaluate_f64};
pub use resize::with_extent;
pub use shrink::{Shrunk, shrink};
pub use supported::supports;
pub use values::required_inputs;
