//! Depthwise convolutions as windows that slide over vectors of channels.

use std::sync::Arc;

use crate::device::Device;
use crate::engine::builder::{KernelBuilder, Shape};
use crate::engine::lowering::{Width, over, program_parameters, span};
use crate::fusion::{Fusion, Product, ProductKind, Stage};
use crate::graph::{
    Attributes, Convolution, ConvolutionDirection, ConvolutionMode, DataType, FinalTensor, FinalizedGraph, TensorId,
};
use crate::kernel::{
    Accumulators, Axis, Body, DepthwiseKernel, IterationSpace, Parameter, Register, StageProgram, Sweep, TapAxis,
    Value, step,
};

/// Threads of a block.
const THREADS: u32 = 256;

/// Threads along channels at most: with vectors of 16 bytes a row of them reads whole lines.
const MOST_COLUMNS: u32 = 16;

/// Largest vectors, in elements and bytes.
const CHANNELS: i64 = 8;
const ACCESS_BYTES: i64 = 16;

/// Bytes of shared memory for the weights of a block at most, and pixels along a row that a thread holds.
const MOST_WEIGHT_BYTES: i64 = 48 << 10;
const MOST_REACH: i64 = 24;

/// Outputs of a thread at most: their sums are in registers.
const MOST_OUTPUTS: i64 = 12;

/// Blocks that share a multiprocessor.
const BLOCKS_OF_A_MULTIPROCESSOR: u32 = 8;

/// What is planned of a depthwise convolution, whatever the config.
#[derive(Debug)]
pub(super) struct Windows {
    fusion: Fusion,
    image: TensorId,
    filter: TensorId,
    result: TensorId,
    axes: Vec<TapAxis>,
    sweep: Sweep,
}

impl Windows {
    /// Plans a convolution.
    ///
    /// # Errors
    /// Why it is none of one channel a group, forward or a data gradient, of channels that are contiguous, bare operands and a pointwise
    /// epilogue, as a sentence.
    pub(super) fn new(fusion: &Fusion, product: &Product) -> Result<Self, String> {
        let graph = fusion.graph();
        let [image, filter] = product.tensors();
        let axes = tap_axes(graph, product)?;
        let program = program(fusion, product)?;
        let channels = graph.tensor(image).dim[1];
        if graph.producer(image).is_some() || graph.producer(filter).is_some() {
            return Err("operands are computed in mainloop stages".to_owned());
        }
        let stores: Vec<TensorId> = stores(fusion, product).collect();
        let result = product.result;
        let dim = &graph.tensor(result).dim;
        if let Some(&other) = stores.iter().find(|&&id| graph.tensor(id).dim != *dim) {
            let (name, found) = (graph.describe_tensor(other), &graph.tensor(other).dim);
            return Err(format!("tensor {name} has extents {found:?}, the core's result {dim:?}"));
        }
        let space = space(graph, &program, &stores, dim);
        let vector = vector(graph.tensor(image), channels)?;
        let sweep = over(graph, space, program, stores, Width { vector, ragged: false });
        let wide_index = graph.tensors().any(|tensor| !tensor.is_virtual && span(tensor) > i64::from(i32::MAX));
        let sweep = Sweep { wide_index, accumulators: Some(Accumulators::Registers(Register::Float)), ..sweep };
        let windows = Self { fusion: fusion.clone(), image, filter, result, axes, sweep };
        let weight_bytes = windows.kernel(1).block_channels() * windows.kernel(1).taps() * 4;
        match windows.offered_outputs().next().is_some() && weight_bytes <= MOST_WEIGHT_BYTES {
            true => Ok(windows),
            false => Err(format!("a filter of {} taps, or its stride, is too large", windows.kernel(1).taps())),
        }
    }

    pub(super) fn graph(&self) -> &Arc<FinalizedGraph> {
        self.fusion.graph()
    }

    /// Whether a thread can hold what so many outputs read, there are so many, and all groups of them see pixels at the same points.
    pub(super) fn suits(&self, outputs: u32) -> bool {
        let outputs = i64::from(outputs);
        let suits = |axis: &TapAxis| {
            let is_held = axis.reach(outputs) <= MOST_REACH && outputs <= MOST_OUTPUTS;
            is_held && (outputs == axis.gap || axis.outputs >= outputs) && outputs % axis.gap == 0
        };
        self.axes.last().is_some_and(suits)
    }

    /// Outputs of a thread that are offered: where pixels have gaps, multiples of these.
    pub(super) fn offered_outputs(&self) -> impl Iterator<Item = u32> + '_ {
        let gap = self.axes.last().map_or(1, |axis| axis.gap as u32);
        [4, 2, 8, 1].into_iter().map(move |outputs| outputs * gap).filter(|&outputs| self.suits(outputs))
    }

    /// Multiply-adds, and conversions of what is read, for all outputs.
    pub(super) fn operations(&self, outputs: i64) -> f64 {
        let kernel = self.kernel(outputs);
        let elements: i64 = self.graph().tensor(self.result).dim.iter().product();
        let reach = self.axes.last().map_or(1, |axis| axis.reach(outputs));
        let gaps: i64 = self.axes.iter().map(|axis| axis.gap).product();
        let rows: i64 = self.axes[..self.axes.len() - 1].iter().map(|axis| axis.taps).product();
        elements as f64 * (kernel.taps() as f64 / gaps as f64 + 2.0 * (rows * reach) as f64 / outputs as f64 + 4.0)
    }

    fn kernel(&self, outputs: i64) -> DepthwiseKernel {
        let channels = self.graph().tensor(self.image).dim[1];
        let vectors = channels / self.sweep.vector;
        let columns =
            (0..=MOST_COLUMNS.ilog2()).rev().map(|bits| 1 << bits).find(|columns| vectors % i64::from(*columns) == 0);
        let columns = columns
            .filter(|&columns| columns > 2)
            .unwrap_or(MOST_COLUMNS.min(vectors.max(1) as u32).next_power_of_two());
        DepthwiseKernel {
            sweep: self.sweep.clone(),
            image: self.image,
            filter: self.filter,
            axes: self.axes.clone(),
            channels,
            outputs,
            columns,
            rows: THREADS / columns,
        }
    }

    pub(super) fn push(&self, outputs: u32, device: &Device, builder: &mut KernelBuilder) {
        let kernel = self.kernel(outputs.into());
        let images = self.graph().tensor(self.result).dim[0];
        let rows: i64 = self.axes[..self.axes.len() - 1].iter().map(|axis| axis.outputs).product();
        let groups = images * rows * kernel.groups_of_a_row();
        let along_channels = (kernel.channels + kernel.block_channels() - 1) / kernel.block_channels();
        let needed = (groups + i64::from(kernel.rows) - 1) / i64::from(kernel.rows);
        let resident = i64::from(device.sm_count * BLOCKS_OF_A_MULTIPROCESSOR) / along_channels;
        let blocks = needed.min(resident.max(1));
        let shape = Shape {
            grid: [blocks as u32, u32::try_from(along_channels).unwrap_or(u32::MAX)],
            block: [THREADS, 1, 1],
            shared_bytes: (kernel.block_channels() * kernel.taps() * 4) as u32,
        };
        let graph = self.graph();
        let reads = kernel.sweep.program.reads().chain([self.image, self.filter]);
        let parameters: Vec<Parameter> =
            program_parameters(reads, &kernel.sweep.stores, |id| graph.tensor(id).is_pass_by_value);
        builder.push("depthwise", shape, parameters, Body::Depthwise(Box::new(kernel)));
    }
}

/// The spatial axes of the windows.
fn tap_axes(graph: &FinalizedGraph, product: &Product) -> Result<Vec<TapAxis>, String> {
    let Attributes::Convolution(convolution) = &graph.operation(product.operation).attributes else {
        return Err("it is no convolution".to_owned());
    };
    let [image, filter] = product.tensors().map(|id| graph.tensor(id));
    let result = graph.tensor(product.result);
    let spatial = convolution.stride.len();
    let is_depthwise = image.dim.len() == spatial + 2
        && filter.dim[1] == 1
        && product.groups == image.dim[1]
        && result.dim[1] == image.dim[1];
    if !is_depthwise {
        return Err("groups have more than one channel".to_owned());
    }
    if graph.compute_type(product.operation) != DataType::Float {
        return Err(format!("it is computed in {}", graph.compute_type(product.operation)));
    }
    let is_forward = match product.kind {
        ProductKind::Convolution(ConvolutionDirection::Forward) => true,
        ProductKind::Convolution(ConvolutionDirection::BackwardData) => false,
        _ => return Err("it is a gradient of filters".to_owned()),
    };
    Ok((0..spatial).map(|axis| tap_axis(convolution, [image, filter, result], axis, is_forward)).collect())
}

/// An axis; the data gradient slides over dy, whose pixels lie a stride apart, with the filter turned.
fn tap_axis(convolution: &Convolution, tensors: [&FinalTensor; 3], axis: usize, is_forward: bool) -> TapAxis {
    let [image, filter, result] = tensors.map(|tensor| tensor.dim[2 + axis]);
    let dilation = convolution.dilation[axis];
    let padding = convolution.pre_padding[axis];
    let is_rotated = convolution.mode == ConvolutionMode::Convolution;
    TapAxis {
        pixels: image,
        outputs: result,
        taps: filter,
        stride: if is_forward { convolution.stride[axis] } else { 1 },
        gap: if is_forward { 1 } else { convolution.stride[axis] },
        dilation,
        padding: if is_forward { padding } else { (filter - 1) * dilation - padding },
        is_turned: is_rotated == is_forward,
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

/// Channels that are read at once.
fn vector(image: &FinalTensor, channels: i64) -> Result<i64, String> {
    let bytes = image.data_type.bytes() as i64;
    if image.stride[1] != 1 {
        return Err(format!("channels step by {} elements; required: 1", image.stride[1]));
    }
    let is_apart = |vector: i64| {
        let access = (vector * bytes).min(ACCESS_BYTES);
        let others = (0..image.dim.len()).filter(|&axis| axis != 1 && image.dim[axis] > 1);
        channels % vector == 0
            && image.alignment % access == 0
            && others.into_iter().all(|axis| image.stride[axis] % vector == 0)
    };
    [CHANNELS, 4, 2]
        .into_iter()
        .find(|&vector| is_apart(vector))
        .ok_or_else(|| "channels cannot be read in vectors".to_owned())
}
