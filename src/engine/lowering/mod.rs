//! Lowering that engines share: passes over iteration spaces, and cores as matrix products.

mod accept;
mod all_gather;
mod box_rows;
mod boxed_operand;
mod boxes;
mod channels;
mod columns;
mod combination;
mod composite;
mod converted;
mod copied;
mod epilogue;
mod im2col;
mod inside;
mod movement;
mod multiplied;
mod operand;
mod packed;
mod pass;
mod passes;
mod phases;
mod problem;
mod product;
mod row_threads;
mod rows;
mod signal;
mod sweep;
mod tap_rows;
mod tensor_map;
mod together;
mod totals;
mod transposed;
mod tuning;

pub(super) use accept::{
    RELAXED, RELAXED_WITH_CORE, is_lowered, lowered_product, operation_is_taken as pointwise_is_taken,
    outputs_are_taken,
};
pub(super) use box_rows::BoxRows;
pub(super) use composite::taken_apart;
pub(super) use converted::with_converted_operands;
pub(super) use copied::CopiedOperands;
pub(super) use multiplied::{
    fp8_registers, may_round_to_tf32, multiplied_type, promotes, rounds_to_tf32, tf32_is_allowed, unpacks_fp8,
};
pub(super) use operand::{Instruction, OperandPlan, Straddling, are_boxed};
pub(super) use pass::{
    CoreSums, LAUNCH_SECONDS, candidates as pass_candidates, lower as lower_passes, lower_after_sums,
};
pub(super) use product::{
    COMBINATION, GemmChoice, Meeting, ProductPlan, blocks_in_clusters, combination_seconds, splits_that_fill,
};
pub(super) use sweep::{Width, over, program_parameters, span};
