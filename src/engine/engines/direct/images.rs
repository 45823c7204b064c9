//! Depthwise convolutions whose result is an image, forward and data gradients, as windows that slide over vectors of channels.

use std::sync::Arc;

use super::Depthwise;
use super::model::Work;
use super::windows::{Block, axes, channel_windows, is_wide, strips, suiting, vector};
use crate::device::Device;
use crate::engine::builder::{KernelBuilder, Shape};
use crate::engine::lowering::{Width, over, program_parameters};
use crate::fusion::{Fusion, Product, Stage};
use crate::graph::{Attributes, DataType, FinalizedGraph, TensorId};
use crate::kernel::{
    Accumulators, Axis, Body, ChannelWindows, DepthwiseKernel, IterationSpace, Parameter, Register, StageProgram,
    Strip, Sweep, TapAxis, Value, step,
};

/// Bytes of shared memory for the weights of a block at most.
const MOST_WEIGHT_BYTES: i64 = 48 << 10;

/// Registers of a thread that leave room for 12 warps.
const FEW_REGISTERS: i64 = 168;

/// Each block has its own strips, and is small, so that the next starts where one ends; a warp reads channels side by side. Not tuned.
const BLOCK: Block = Block { threads: 128, columns: 32 };

/// What is planned of a depthwise convolution, whatever the config.
#[derive(Debug)]
pub(super) struct Images {
    fusion: Fusion,
    image: TensorId,
    filter: TensorId,
    result: TensorId,
    axes: Vec<TapAxis>,
    /// The strips that suit.
    strips: Vec<Strip>,
    program: StageProgram,
    space: IterationSpace,
    stores: Vec<TensorId>,
}

impl Images {
    /// Plans a convolution.
    ///
    /// # Errors
    /// Why it is none of one channel a group, forward or a data gradient, of channels that are contiguous, bare operands and a pointwise
    /// epilogue, as a sentence.
    pub(super) fn new(fusion: &Fusion, product: &Product) -> Result<Self, String> {
        let graph = fusion.graph();
        let [image, filter] = product.tensors();
        let axes = axes(graph, product)?;
        let program = program(fusion, product)?;
        let stores: Vec<TensorId> = stores(fusion, product).collect();
        let result = product.result;
        let dim = &graph.tensor(result).dim;
        if let Some(&other) = stores.iter().find(|&&id| graph.tensor(id).dim != *dim) {
            let (name, found) = (graph.describe_tensor(other), &graph.tensor(other).dim);
            return Err(format!("tensor {name} has extents {found:?}, the core's result {dim:?}"));
        }
        let space = space(graph, &program, &stores, dim);
        let strips = strips(&axes, vector(graph.tensor(image))?);
        let windows =
            Self { fusion: fusion.clone(), image, filter, result, axes, strips: Vec::new(), program, space, stores };
        let strips = windows.suiting(&strips);
        match strips.is_empty() {
            false => Ok(Self { strips, ..windows }),
            true => {
                let taps: i64 = windows.axes.iter().map(|axis| axis.taps).product();
                Err(format!("a filter of {taps} taps, or its stride, is too large"))
            }
        }
    }

    /// The strips that suit: none, where a block's weights do not fit into shared memory.
    fn suiting(&self, strips: &[Strip]) -> Vec<Strip> {
        let fits = |&strip: &Strip| {
            let windows = self.windows(strip);
            windows.block_channels() * windows.taps() * 4 <= MOST_WEIGHT_BYTES
        };
        let strips: Vec<Strip> = strips.iter().copied().filter(fits).collect();
        // registers depend on the windows, and on what of the epilogue is the same for all strips
        let Some(mut kernel) = strips.first().map(|&strip| self.kernel(strip)) else { return strips };
        suiting(&strips, FEW_REGISTERS, |strip| {
            kernel.windows = self.windows(strip);
            (kernel.windows.clone(), kernel.registers())
        })
    }

    fn windows(&self, strip: Strip) -> ChannelWindows {
        channel_windows(self.graph(), self.image, &self.axes, strip, BLOCK)
    }

    fn kernel(&self, strip: Strip) -> DepthwiseKernel {
        let (graph, stores) = (self.graph(), self.stores.clone());
        let width = Width { vector: strip.channels, ragged: false };
        let sweep = Sweep {
            wide_index: is_wide(graph),
            accumulators: Some(Accumulators::Registers(Register::Float)),
            ..over(graph, self.space.clone(), self.program.clone(), stores, width)
        };
        let windows = self.windows(strip);
        let pixel_bytes = graph.tensor(self.image).data_type.bytes() as i64;
        DepthwiseKernel { windows, sweep, filter: self.filter, pixel_bytes }
    }
}

impl Depthwise for Images {
    fn graph(&self) -> &Arc<FinalizedGraph> {
        self.fusion.graph()
    }

    fn strips(&self) -> &[Strip] {
        &self.strips
    }

    fn work(&self, strip: Strip, device: &Device) -> Work {
        let kernel = self.kernel(strip);
        let tensors = kernel.sweep.program.reads().chain(kernel.sweep.stores.iter().copied());
        let others = tensors
            .map(|id| self.graph().tensor(id))
            .filter(|tensor| tensor.dim == self.graph().tensor(self.result).dim);
        let bytes: u64 = others.map(|tensor| tensor.data_type.bytes()).sum();
        Work::of_images(&kernel, bytes as f64, device)
    }

    fn seconds_after(&self, _: Strip, _: &Device) -> f64 {
        0.0
    }

    fn push(&self, strip: Strip, _: &Device, builder: &mut KernelBuilder) {
        let kernel = self.kernel(strip);
        let blocks = kernel.windows.blocks_along_channels() * kernel.windows.blocks_along_strips();
        let shape = Shape {
            grid: [u32::try_from(blocks).unwrap_or(u32::MAX), 1],
            block: [kernel.windows.threads(), 1, 1],
            shared_bytes: (kernel.windows.block_channels() * kernel.windows.taps() * 4) as u32,
        };
        let graph = self.graph();
        let reads = kernel.sweep.program.reads().chain([self.image, self.filter]);
        let parameters: Vec<Parameter> =
            program_parameters(reads, &kernel.sweep.stores, |id| graph.tensor(id).is_pass_by_value);
        builder.push("depthwise", shape, parameters, Body::Depthwise(Box::new(kernel)));
    }
}

/// The values stored, from the core's result on.
fn program(fusion: &Fusion, product: &Product) -> Result<StageProgram, String> {
    let graph = fusion.graph();
    let after: Vec<_> = fusion.operations(Stage::After).collect();
    let is_pointwise = |&id: &_| matches!(graph.operation(id).attributes, Attributes::Pointwise(_));
    if let Some(&other) = after.iter().find(|id| !is_pointwise(id)) {
        return Err(format!("{} is no pointwise operation", graph.describe_operation(other)));
    }
    let program = StageProgram::of(graph, after.into_iter(), Some(product.result));
    let program = program.needed_for(stores(fusion, product).chain([product.result]));
    let boolean = program.results().chain(program.loads()).find(|&id| graph.tensor(id).data_type == DataType::Boolean);
    match boolean.filter(|&id| !graph.tensor(id).is_virtual) {
        Some(id) => Err(format!("tensor {} holds packed booleans", graph.describe_tensor(id))),
        None if program.steps.iter().any(|step| matches!(step.value, Value::Concat(_) | Value::Window(_))) => {
            Err("its epilogue reads elsewhere than at the point".to_owned())
        }
        None => Ok(program),
    }
}

/// The core's result, if it is stored, and those of the operations after it.
fn stores(fusion: &Fusion, product: &Product) -> impl Iterator<Item = TensorId> {
    let graph = fusion.graph();
    let after = fusion.operations(Stage::After).flat_map(|id| graph.operation(id).output_tensors());
    let all: Vec<TensorId> = [product.result].into_iter().chain(after).collect();
    all.into_iter().filter(|&id| !graph.tensor(id).is_virtual)
}

/// Images, spatial axes, channels.
fn space(graph: &FinalizedGraph, program: &StageProgram, stores: &[TensorId], dim: &[i64]) -> IterationSpace {
    let read = program.moved().filter(|&id| !graph.tensor(id).is_pass_by_value);
    let tensors: Vec<TensorId> = read.chain(stores.iter().copied()).collect();
    let axis = |axis: usize| Axis {
        extent: dim[axis].into(),
        reduced: false,
        graph_axes: vec![axis],
        strides: tensors.iter().map(|&id| (id, step(graph.tensor(id), axis).into())).collect(),
        accumulators: 0.into(),
    };
    let order = [0].into_iter().chain(2..dim.len()).chain([1]);
    IterationSpace { axes: order.map(axis).collect() }
}
