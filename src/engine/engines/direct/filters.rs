//! Filter gradients of depthwise convolutions: sums over all pixels, of which each block takes a part.

use std::sync::Arc;

use super::Depthwise;
use super::model::Work;
use super::windows::{Block, MOST_REGISTERS, axes, channel_windows, strips, suiting, vector};
use crate::device::Device;
use crate::engine::builder::{KernelBuilder, Shape};
use crate::engine::lowering::{CoreSums, combination_seconds, lower_after_sums, program_parameters};
use crate::fusion::{Fusion, Product};
use crate::graph::{FinalizedGraph, TensorId};
use crate::kernel::{Body, ChannelWindows, DepthwiseFilterKernel, Parameter, Strip, TapAxis};

/// A multiprocessor has one block, of as many threads as have registers in fours of warps, so that there are few partial sums; few threads
/// lie along channels for the same reason. Not tuned.
const MOST_THREADS: i64 = 1024;
const FOUR_WARPS: i64 = 128;
const COLUMNS: u32 = 16;
const REGISTERS: i64 = 1 << 16;

/// Registers beyond those that are counted, where threads are as many as have them: a 7×7 filter of HALF spilled 8 bytes on sm_80 without.
const SPARE: i64 = 8;

/// What is planned of a filter gradient, whatever the config.
#[derive(Debug)]
pub(super) struct Filters {
    fusion: Fusion,
    gradient: TensorId,
    image: TensorId,
    result: TensorId,
    axes: Vec<TapAxis>,
    /// The strips that suit.
    strips: Vec<Strip>,
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
        let strips = strips(&axes, widest);
        let filters =
            Self { fusion: fusion.clone(), gradient, image, result: product.result, axes, strips: Vec::new() };
        let strips = suiting(&strips, MOST_REGISTERS, |strip| {
            let kernel = filters.kernel_of(filters.windows(strip, FOUR_WARPS), 1);
            let registers = kernel.registers();
            (kernel.windows, registers)
        });
        match strips.is_empty() {
            false => Ok(Self { strips, ..filters }),
            true => {
                let taps: i64 = filters.axes.iter().map(|axis| axis.taps).product();
                Err(format!("a filter of {taps} taps is too large"))
            }
        }
    }

    fn windows(&self, strip: Strip, threads: i64) -> ChannelWindows {
        let block = Block { threads: threads as u32, columns: COLUMNS };
        channel_windows(self.graph(), self.image, &self.axes, strip, block)
    }

    fn kernel_of(&self, windows: ChannelWindows, splits: i64) -> DepthwiseFilterKernel {
        let bytes = [self.image, self.gradient].map(|id| self.graph().tensor(id).data_type.bytes() as i64);
        DepthwiseFilterKernel { windows, gradient: self.gradient, bytes, splits }
    }

    fn kernel(&self, strip: Strip, device: &Device) -> DepthwiseFilterKernel {
        let registers = self.kernel_of(self.windows(strip, FOUR_WARPS), 1).registers();
        let threads = REGISTERS / ((registers + SPARE + 7) / 8 * 8) / FOUR_WARPS * FOUR_WARPS;
        let windows = self.windows(strip, threads.clamp(FOUR_WARPS, MOST_THREADS));
        let resident = i64::from(device.sm_count) / windows.blocks_along_channels();
        let splits = windows.blocks_along_strips().min(resident.max(1));
        self.kernel_of(windows, splits)
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

    fn strips(&self) -> &[Strip] {
        &self.strips
    }

    fn work(&self, strip: Strip, device: &Device) -> Work {
        Work::of_filters(&self.kernel(strip, device), device)
    }

    fn seconds_after(&self, strip: Strip, device: &Device) -> f64 {
        let DepthwiseFilterKernel { windows, splits, .. } = self.kernel(strip, device);
        combination_seconds([1, windows.taps(), windows.channels, 1], splits as u32, device)
    }

    fn push(&self, strip: Strip, device: &Device, builder: &mut KernelBuilder) {
        let (graph, kernel) = (self.graph(), self.kernel(strip, device));
        let windows = &kernel.windows;
        let elements = windows.taps() * windows.channels;
        let blocks = windows.blocks_along_channels() * kernel.splits;
        let sums = CoreSums { tensor: self.result, strides: self.strides(), splits: kernel.splits as u32, elements };
        let shape = Shape {
            grid: [u32::try_from(blocks).unwrap_or(u32::MAX), 1],
            block: [windows.threads(), 1, 1],
            shared_bytes: kernel.shared_bytes() as u32,
        };
        lower_after_sums(&self.fusion, sums, device, builder, |accumulators, builder| {
            let operands = [self.gradient, self.image].into_iter();
            let mut parameters: Vec<Parameter> =
                program_parameters(operands, &[], |id| graph.tensor(id).is_pass_by_value);
            parameters.push(accumulators);
            builder.push("depthwise_filter", shape, parameters, Body::DepthwiseFilter(kernel.clone()));
        });
    }
}
