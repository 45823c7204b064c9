//! Lowering that engines share: passes over iteration spaces, and cores as matrix products.

mod accept;
mod boxes;
mod epilogue;
mod gemm;
mod movement;
mod multiplied;
mod operand;
mod packed;
mod pass;
mod problem;
mod signal;
mod sweep;
mod tensor_map;

pub(super) use accept::{RELAXED, RELAXED_WITH_CORE, is_lowered};
pub(super) use boxes::epilogue_boxes;
pub(super) use gemm::{GemmChoice, combination_cost, lower as lower_gemm};
pub(super) use multiplied::{fp8_registers, multiplied_type, promotes, tf32_is_allowed, unpacks_fp8};
pub(super) use operand::{fetches, operands_in_registers, raw_bytes, why_not_boxed};
pub(super) use pass::{candidates as pass_candidates, lower as lower_passes};
pub(super) use problem::Problem;
