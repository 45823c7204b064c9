//! Typed description of a kernel: stages, tiles, launch geometry. No CUDA text yet.
//!
//! A [`Kernel`] is what an engine decided and all that code generation reads. It is plain data: nothing in it is
//! decided again later.

mod accumulate;
mod body;
mod boxes;
mod expr;
mod index;
mod iteration;
mod launch;
mod limits;
mod lowered;
mod multiply;
mod number;
mod operand;
mod shared;
mod space;
mod step_tail;
mod sweep;
mod taps;
mod window;

pub use accumulate::{Accumulation, Combine, Finish, Map, reduced_values};
pub use body::*;
pub use boxes::Boxes;
pub use expr::{Part, Register, StageProgram, Step, Value, has_double_form, has_integer_form};
pub use index::{Definition, Index, Quantity, Role, Variable, needed};
pub use iteration::{Axis, IterationRequest, IterationSpace, extent, step};
pub use launch::{Launch, MapElement, Parameter, PixelWalk, Swizzle, TensorMap};
pub use limits::{MOST_BLOCKS, MOST_BLOCKS_OF_A_CLUSTER, MOST_BLOCKS_OF_A_LARGE_CLUSTER, WORKSPACE_ALIGNMENT};
pub use lowered::{Function, Kernel};
pub use multiply::{
    CONSUMER_WARPS, CONSUMERS, ClusterShape, Fma, GemmTile, Mma, MmaType, Multiply, REGISTERS, Schedule, Sums,
    WARPGROUP, WGMMA_ROWS, Wgmma, row_along_outer,
};
pub use number::{Number, Told};
pub use operand::{BoxStart, Fetch, Operand};
pub use shared::{SharedLayout, SharedRequest, StageLayout};
pub use space::{Coordinate, Counted, Derived, Digit, GemmSpace, digits_at};
pub use step_tail::StepTail;
pub use sweep::{Access, Accumulators, Sweep};
pub use taps::TapRow;
pub use window::{Interpolation, MAX_WINDOW_AXES, Maxima, Pool, PoolAxis, PoolFunction, SampleAxis, Window};
