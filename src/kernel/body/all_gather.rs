//! What the GPUs of a node send each other.

use crate::graph::{AllGather, TensorId};
use crate::kernel::Sweep;

/// One thread a channel evaluates what its GPU found, writes it into the tensor of every GPU, and reads what the others wrote into its own (N-112).
#[derive(Clone, Debug)]
pub struct AllGatherKernel {
    /// What is evaluated at each channel; it stores nothing.
    pub sweep: Sweep,
    /// The values that are sent.
    pub gathered: Vec<Gathered>,
    /// Tensors that GPUs write to, by their ranks.
    pub peers: Vec<TensorId>,
    /// Channels.
    pub channels: i64,
    /// Threads of a block.
    pub threads: u32,
}

/// A value that all GPUs learn of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gathered {
    /// The own value.
    pub source: TensorId,
    /// Those of all GPUs, in order of their ranks.
    pub target: TensorId,
    /// The first tensor that GPUs write to.
    pub peer: TensorId,
    /// Its place in a message.
    pub gather: AllGather,
}

impl AllGatherKernel {
    /// Tensors read through pointers, and those written.
    pub fn touched(&self) -> (Vec<TensorId>, Vec<TensorId>) {
        let targets = self.gathered.iter().map(|gathered| gathered.target);
        let reads = self.sweep.program.reads().chain(self.peers.iter().copied());
        (reads.collect(), targets.chain(self.peers.iter().copied()).collect())
    }
}
