//! Lowering that engines share: passes over iteration spaces, and cores as matrix products.

mod epilogue;
mod gemm;
mod operand;
mod pass;
mod problem;
mod sweep;

pub(super) use gemm::{GemmChoice, lower as lower_gemm};
pub(super) use pass::lower as lower_passes;
pub(super) use problem::{MAX_SPATIAL, Problem};
