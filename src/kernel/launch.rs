//! What a plan needs to start a kernel.

use crate::graph::TensorId;

/// One kernel launch; a plan runs its launches in order on one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Name of the `extern "C" __global__` function in the source.
    pub function: String,
    /// Blocks of the grid, x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block, x, y, z.
    pub block: [u32; 3],
    /// Dynamic shared memory, in bytes.
    pub shared_bytes: u32,
    /// Whether it may be started before the launch before it has finished: the kernel waits for that itself before it
    /// touches memory (`fw_wait_for_previous_launch`).
    pub starts_early: bool,
    /// Arguments in order.
    pub parameters: Vec<Parameter>,
}

/// One argument of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Parameter {
    /// Device pointer of a non-virtual tensor.
    Tensor(TensorId),
    /// Host scalar by value: `float` for floating types, `int` for 8- to 32-bit integers and booleans,
    /// `long long` for `INT64`; already rounded to the tensor's type.
    Scalar(TensorId),
    /// Pointer to the core's accumulators in the plan's workspace: `float`, or `int` for integer accumulators.
    Accumulators {
        /// Byte offset, a multiple of 256.
        offset: u64,
        /// Whether they are integers.
        is_integer: bool,
    },
    /// Pointer into the plan's workspace.
    Workspace {
        /// Byte offset, a multiple of 256.
        offset: u64,
    },
}
