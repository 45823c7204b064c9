//! Filter gradients of depthwise convolutions: sums over all pixels, of which each block takes a part.

use std::sync::Arc;

use super::Depthwise;
use super::windows::{axes, channel_windows, is_wide, vector};
use crate::device::Device;
use crate::engine::builder::{KernelBuilder, Shape};
use crate::engine::lowering::{CoreSums, combination_seconds, lower_after_sums, program_parameters};
use crate::fusion::{Fusion, Product};
use crate::graph::{FinalizedGraph, TensorId};
use crate::kernel::{Body, ChannelWindows, DepthwiseFilterKernel, Parameter, TapAxis};

/// Registers of a thread for the sums of all taps, the gradient and a pixel at most: more than half of what it may have is left for
/// addresses and conversions. Not tuned.
const MOST_REGISTERS: i64 = 136;

/// Blocks of a multiprocessor, and most partial sums: a thread adds up all of an element, one after the other. Not tuned.
const BLOCKS_OF_A_MULTIPROCESSOR: u32 = 2;
const MOST_SPLITS: i64 = 96;

/// What is planned of a filter gradient, whatever the config.
#[derive(Debug)]
pub(super) struct Filters {
    fusion: Fusion,
    gradient: TensorId,
    image: TensorId,
    result: TensorId,
    axes: Vec<TapAxis>,
    vector: i64,
}

impl Filters {
    /// Plans a filter gradient.
    ///
    /// # Errors
    /// Why it is none of one channel a group, of channels that are contiguous and bare operands, as a sentence.
    pub(super) fn new(fusion: &Fusion, product: &Product) -> Result<Self, String> {
        let graph = fusion.graph();
        let axes = axes(graph, product)?;
        let [gradient, image] = product.tensors();
        let mut widest = i64::MAX;
        for id in [gradient, image] {
            widest = widest.min(vector(graph.tensor(id))?);
        }
        let taps: i64 = axes.iter().map(|axis| axis.taps).product();
        let vector =
            [8, 4, 2].into_iter().find(|&vector| vector <= widest && registers(taps, 1, vector) <= MOST_REGISTERS);
        let vector = vector.ok_or_else(|| format!("a filter of {taps} taps is too large"))?;
        Ok(Self { fusion: fusion.clone(), gradient, image, result: product.result, axes, vector })
    }

    fn suits(&self, outputs: i64) -> bool {
        let windows = self.windows(outputs);
        let is_held = registers(windows.taps(), outputs, self.vector) <= MOST_REGISTERS;
        is_held && (outputs == 1 || windows.last().outputs >= outputs)
    }

    fn windows(&self, outputs: i64) -> ChannelWindows {
        channel_windows(self.graph(), self.image, &self.axes, self.vector, outputs, is_wide(self.graph()))
    }

    /// Partial sums: of blocks along pixels.
    fn splits(&self, windows: &ChannelWindows, device: &Device) -> i64 {
        let rows = i64::from(windows.rows);
        let needed = (windows.groups() + rows - 1) / rows;
        let resident = i64::from(device.sm_count * BLOCKS_OF_A_MULTIPROCESSOR) / windows.blocks_along_channels();
        needed.min(resident).clamp(1, MOST_SPLITS)
    }

    /// Elements of the sums to the next channel, and to the next tap along each axis.
    fn strides(&self) -> Vec<i64> {
        let channels = self.graph().tensor(self.result).dim[0];
        let mut below = channels;
        let mut taps: Vec<i64> = Vec::new();
        for axis in self.axes.iter().rev() {
            taps.insert(0, below);
            below *= axis.taps;
        }
        [vec![1, 0], taps].concat()
    }
}

impl Depthwise for Filters {
    fn graph(&self) -> &Arc<FinalizedGraph> {
        self.fusion.graph()
    }

    /// Pixels of the gradient that a thread takes at a time, as they are offered.
    fn offered_outputs(&self) -> Vec<u32> {
        [4, 2, 8, 1].into_iter().filter(|&outputs| self.suits(outputs.into())).collect()
    }

    /// Multiply-adds, and conversions of what is read.
    fn operations(&self, outputs: i64) -> f64 {
        let windows = self.windows(outputs);
        let elements: i64 = self.graph().tensor(self.gradient).dim.iter().product();
        let rows: i64 = windows.outer().iter().map(|axis| axis.taps).product();
        let read = (rows * windows.last().reach(outputs)) as f64 / outputs as f64;
        elements as f64 * (windows.taps() as f64 + 2.0 * read + 2.0)
    }

    fn seconds_after(&self, device: &Device) -> f64 {
        let windows = self.windows(1);
        let splits = self.splits(&windows, device) as u32;
        combination_seconds([1, windows.taps(), windows.channels, 1], splits, device)
    }

    fn push(&self, outputs: u32, device: &Device, builder: &mut KernelBuilder) {
        let (graph, windows) = (self.graph(), self.windows(outputs.into()));
        let (splits, taps, channels) = (self.splits(&windows, device), windows.taps(), windows.channels);
        let sums =
            CoreSums { tensor: self.result, strides: self.strides(), splits: splits as u32, elements: taps * channels };
        let shape = Shape {
            grid: [splits as u32, u32::try_from(windows.blocks_along_channels()).unwrap_or(u32::MAX)],
            block: [windows.threads(), 1, 1],
            shared_bytes: windows.threads() * windows.vector as u32 * 4,
        };
        lower_after_sums(&self.fusion, sums, device, builder, |accumulators, builder| {
            let operands = [self.gradient, self.image].into_iter();
            let mut parameters: Vec<Parameter> =
                program_parameters(operands, &[], |id| graph.tensor(id).is_pass_by_value);
            parameters.push(accumulators);
            let kernel = DepthwiseFilterKernel { windows, gradient: self.gradient };
            builder.push("depthwise_filter", shape, parameters, Body::DepthwiseFilter(kernel));
        });
    }
}

/// Registers of a thread for sums of all taps, outputs and a pixel.
fn registers(taps: i64, outputs: i64, vector: i64) -> i64 {
    (taps + outputs + 1) * vector
}
