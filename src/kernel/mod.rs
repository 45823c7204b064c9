//! Typed description of a kernel: stages, tiles, launch geometry. No CUDA text yet.

mod launch;

pub use launch::{Launch, Parameter};
