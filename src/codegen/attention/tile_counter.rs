//! Record of the counter that blocks claim tiles from.

use serde::Serialize;

use crate::kernel::TileCounterKernel;

/// What `attention/tile_counter.cu` reads beside the function's name and parameters.
#[derive(Serialize)]
pub(in crate::codegen) struct TileCounterText {
    threads: u32,
}

pub(in crate::codegen) fn tile_counter() -> TileCounterText {
    TileCounterText { threads: TileCounterKernel::THREADS }
}
