//! A kernel in the making: functions in the order of their launches, their names, and the workspace that they share.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::EngineConfig;
use crate::graph::{FinalTensor, FinalizedGraph, TensorId};
use crate::kernel::{Body, Function, Kernel, Launch, Parameter, TileCounterKernel, WORKSPACE_ALIGNMENT};

/// What lowering adds functions to; the only maker of a [`Kernel`].
#[derive(Debug)]
pub(super) struct KernelBuilder {
    kernel: Kernel,
    /// Virtual tensors that lie in the workspace, with the byte offset of each.
    intermediates: BTreeMap<TensorId, u64>,
}

/// How a function is launched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Blocks, x and y.
    pub(super) grid: [u32; 2],
    /// Threads of a block.
    pub(super) block: [u32; 3],
    /// Dynamic shared memory of a block, in bytes.
    pub(super) shared_bytes: u32,
}

impl Shape {
    /// A thread for each of so many items.
    pub(super) fn line_of_blocks(items: i64, threads: u32) -> Self {
        let blocks = (items + i64::from(threads) - 1) / i64::from(threads);
        Self { grid: [u32::try_from(blocks).unwrap_or(u32::MAX), 1], block: [threads, 1, 1], shared_bytes: 0 }
    }
}

impl KernelBuilder {
    /// A file without functions yet, of a graph in an engine's config.
    pub(super) fn new(graph: &Arc<FinalizedGraph>, config: &EngineConfig) -> Self {
        Self {
            kernel: Kernel {
                graph: Arc::clone(graph),
                engine: config.engine,
                config: config.to_string(),
                functions: Vec::new(),
                repeats: Vec::new(),
                workspace_bytes: 0,
            },
            intermediates: BTreeMap::new(),
        }
    }

    /// Reserves a region of the workspace for so many words of four bytes.
    pub(super) fn region(&mut self, words: i64) -> u64 {
        let offset = self.kernel.workspace_bytes;
        self.kernel.workspace_bytes += (words as u64 * 4).next_multiple_of(WORKSPACE_ALIGNMENT);
        offset
    }

    /// Reserves regions of so many floats each.
    pub(super) fn regions(&mut self, count: usize, floats: i64) -> Vec<Parameter> {
        (0..count).map(|_| Parameter::Workspace { offset: self.region(floats) }).collect()
    }

    /// Gives a virtual tensor of so many words of four bytes a place in the workspace, where functions added from now on find it.
    pub(super) fn place(&mut self, tensor: TensorId, words: i64) {
        let offset = self.region(words);
        self.intermediates.insert(tensor, offset);
    }

    /// The parameter that stands for what a function names: of a tensor in the workspace, its place there; of a number that a
    /// definition has, its value.
    fn placed(&self, parameter: Parameter) -> Parameter {
        let place = |id| self.intermediates.get(&id).copied();
        match parameter {
            Parameter::Tensor(tensor) => {
                place(tensor).map_or(parameter, |offset| Parameter::Intermediate { tensor, offset })
            }
            Parameter::TensorMap(map) => {
                place(map.tensor).map_or(parameter, |offset| Parameter::IntermediateMap { map, offset })
            }
            Parameter::Scalar(tensor) => match self.kernel.graph.tensor(tensor) {
                FinalTensor { is_virtual: true, value: Some(value), .. } => {
                    Parameter::Constant { tensor, bits: (value.as_f64() as f32).to_bits() }
                }
                _ => parameter,
            },
            _ => parameter,
        }
    }

    /// Adds a function, `fw_<skeleton>`, numbered from the second one of the file on. Every function may be started before the
    /// launch before it has finished, and waits for that itself.
    pub(super) fn push(&mut self, skeleton: &str, shape: Shape, mut parameters: Vec<Parameter>, body: Body) {
        parameters.iter_mut().for_each(|parameter| *parameter = self.placed(*parameter));
        let function = match self.kernel.functions.len() {
            0 => format!("fw_{skeleton}"),
            number => format!("fw_{skeleton}_{number}"),
        };
        let Shape { grid, block, shared_bytes } = shape;
        let launch =
            Launch { function, grid, cluster: body.cluster(), block, shared_bytes, starts_early: true, parameters };
        self.kernel.functions.push(Function { launch, body, graph: None });
    }

    /// Adds the function that sets a counter of tiles to 0; gives the parameter of those that claim from it, one after the other.
    pub(super) fn push_tile_counter(&mut self) -> Parameter {
        let counter = Parameter::TileCounter { offset: self.region(TileCounterKernel::WORDS) };
        let shape = Shape::line_of_blocks(1, TileCounterKernel::THREADS);
        self.push("tile_counter", shape, vec![counter], Body::TileCounter(TileCounterKernel));
        counter
    }

    /// Launches the last functions once more, each from another head on, behind all that is launched until then.
    pub(super) fn repeat<const FUNCTIONS: usize>(&mut self, heads: [i64; FUNCTIONS]) {
        let before = self.kernel.functions.len().saturating_sub(FUNCTIONS);
        for (function, head) in self.kernel.functions[before..].iter().zip(heads) {
            let mut launch = function.launch.clone();
            for parameter in &mut launch.parameters {
                if let Parameter::FirstHead(first) = parameter {
                    *first = i32::try_from(head).unwrap_or(i32::MAX);
                }
            }
            self.kernel.repeats.push(launch);
        }
    }

    /// The kernel.
    pub(super) fn finish(self) -> Kernel {
        self.kernel
    }
}
