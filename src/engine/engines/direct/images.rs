//! Depthwise convolutions whose result is an image, forward and data gradients, as windows that slide over vectors of channels.

use std::sync::Arc;

use super::Depthwise;
use super::windows::{axes, channel_windows, is_wide, vector};
use crate::device::Device;
use crate::engine::builder::{KernelBuilder, Shape};
use crate::engine::lowering::{Width, over, program_parameters};
use crate::fusion::{Fusion, Product, Stage};
use crate::graph::{Attributes, DataType, FinalizedGraph, TensorId};
use crate::kernel::{
    Accumulators, Axis, Body, ChannelWindows, DepthwiseKernel, IterationSpace, Parameter, Register, StageProgram,
    Sweep, TapAxis, Value, step,
};

/// Bytes of shared memory for the weights of a block at most, and pixels along a row that a thread holds.
const MOST_WEIGHT_BYTES: i64 = 48 << 10;
const MOST_REACH: i64 = 24;

/// Outputs of a thread at most: their sums are in registers. Not tuned.
const MOST_OUTPUTS: i64 = 12;

/// Blocks that share a multiprocessor.
const BLOCKS_OF_A_MULTIPROCESSOR: u32 = 8;

/// What is planned of a depthwise convolution, whatever the config.
#[derive(Debug)]
pub(super) struct Images {
    fusion: Fusion,
    image: TensorId,
    filter: TensorId,
    result: TensorId,
    axes: Vec<TapAxis>,
    sweep: Sweep,
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
        let vector = vector(graph.tensor(image))?;
        let sweep = over(graph, space, program, stores, Width { vector, ragged: false });
        let sweep =
            Sweep { wide_index: is_wide(graph), accumulators: Some(Accumulators::Registers(Register::Float)), ..sweep };
        let windows = Self { fusion: fusion.clone(), image, filter, result, axes, sweep };
        let weight_bytes = windows.kernel(1).windows.block_channels() * windows.taps() * 4;
        match !windows.offered_outputs().is_empty() && weight_bytes <= MOST_WEIGHT_BYTES {
            true => Ok(windows),
            false => Err(format!("a filter of {} taps, or its stride, is too large", windows.taps())),
        }
    }

    /// Whether a thread can hold what so many outputs read, there are so many, and all groups of them see pixels at the same points.
    fn suits(&self, outputs: u32) -> bool {
        let outputs = i64::from(outputs);
        let suits = |axis: &TapAxis| {
            let is_held = axis.reach(outputs) <= MOST_REACH && outputs <= MOST_OUTPUTS;
            is_held && (outputs == axis.gap || axis.outputs >= outputs) && outputs % axis.gap == 0
        };
        self.axes.last().is_some_and(suits)
    }

    fn taps(&self) -> i64 {
        self.axes.iter().map(|axis| axis.taps).product()
    }

    fn kernel(&self, outputs: i64) -> DepthwiseKernel {
        let Sweep { vector, wide_index, .. } = self.sweep;
        let windows = channel_windows(self.graph(), self.image, &self.axes, vector, outputs, wide_index);
        DepthwiseKernel { windows, sweep: self.sweep.clone(), filter: self.filter }
    }
}

impl Depthwise for Images {
    fn graph(&self) -> &Arc<FinalizedGraph> {
        self.fusion.graph()
    }

    /// Outputs of a thread that are offered: where pixels have gaps, multiples of these.
    fn offered_outputs(&self) -> Vec<u32> {
        let gap = self.axes.last().map_or(1, |axis| axis.gap as u32);
        [4, 2, 8, 1].into_iter().map(move |outputs| outputs * gap).filter(|&outputs| self.suits(outputs)).collect()
    }

    /// Multiply-adds, and conversions of what is read, for all outputs.
    fn operations(&self, outputs: i64) -> f64 {
        let elements: i64 = self.graph().tensor(self.result).dim.iter().product();
        let reach = self.axes.last().map_or(1, |axis| axis.reach(outputs));
        let gaps: i64 = self.axes.iter().map(|axis| axis.gap).product();
        let rows: i64 = self.axes[..self.axes.len() - 1].iter().map(|axis| axis.taps).product();
        elements as f64 * (self.taps() as f64 / gaps as f64 + 2.0 * (rows * reach) as f64 / outputs as f64 + 4.0)
    }

    fn seconds_after(&self, _: &Device) -> f64 {
        0.0
    }

    fn push(&self, outputs: u32, device: &Device, builder: &mut KernelBuilder) {
        let kernel = self.kernel(outputs.into());
        let ChannelWindows { rows, .. } = kernel.windows;
        let along_channels = kernel.windows.blocks_along_channels();
        let needed = (kernel.windows.groups() + i64::from(rows) - 1) / i64::from(rows);
        let resident = i64::from(device.sm_count * BLOCKS_OF_A_MULTIPROCESSOR) / along_channels;
        let blocks = needed.min(resident.max(1));
        let shape = Shape {
            grid: [blocks as u32, u32::try_from(along_channels).unwrap_or(u32::MAX)],
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
        extent: dim[axis],
        reduced: false,
        graph_axes: vec![axis],
        strides: tensors.iter().map(|&id| (id, step(graph.tensor(id), axis))).collect(),
        accumulators: 0,
    };
    let order = [0].into_iter().chain(2..dim.len()).chain([1]);
    IterationSpace { axes: order.map(axis).collect() }
}
