//! The counter from which the blocks of a launch claim tiles.

/// Sets the counter in the workspace to 0, before blocks of further launches claim from it (`docs/spec/attention.md` AT-K9).
#[derive(Clone, Copy, Debug)]
pub struct TileCounterKernel;

impl TileCounterKernel {
    /// Threads of the block.
    pub const THREADS: u32 = 32;

    /// Words of the counter.
    pub const WORDS: i64 = 1;
}
