//! Convolutions of one channel a group, computed point by point.

use crate::graph::TensorId;
use crate::kernel::Sweep;

/// One spatial axis of a window that weights slide over: output `o` reads the points `o · stride + tap · dilation − padding` that hold a
/// pixel, as every `gap`th does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TapAxis {
    /// Pixels of the image.
    pub pixels: i64,
    /// Number of outputs.
    pub outputs: i64,
    /// Taps of the filter.
    pub taps: i64,
    /// Points from an output to the next.
    pub stride: i64,
    /// Points from a pixel to the next: the stride of the convolution whose data gradient it is, else 1.
    pub gap: i64,
    /// Points from a tap to the next.
    pub dilation: i64,
    /// Points of the first window before the image.
    pub padding: i64,
    /// Whether the first tap takes the filter's last weight.
    pub is_turned: bool,
}

impl TapAxis {
    /// Pixels that so many neighbouring outputs read, the first of which is a multiple of `gap`.
    pub fn reach(&self, outputs: i64) -> i64 {
        let points = (outputs - 1) * self.stride + (self.taps - 1) * self.dilation + 1;
        (self.ahead() + points - 1) / self.gap + 1
    }

    /// Points from the last pixel at or before the first window's first point to that point.
    pub fn ahead(&self) -> i64 {
        (-self.padding).rem_euclid(self.gap)
    }

    /// Pixels from the image's first to the first that the first window may read.
    pub fn first(&self) -> i64 {
        (-self.padding).div_euclid(self.gap)
    }

    /// Whether some window reaches beyond the image.
    pub fn is_padded(&self) -> bool {
        let last = (self.outputs - 1) * self.stride + (self.taps - 1) * self.dilation - self.padding;
        self.padding > 0 || last > (self.pixels - 1) * self.gap
    }
}

/// A depthwise convolution with its epilogue. A thread computes a few neighbouring outputs along the last axis for a vector of
/// channels, so that each pixel is read once for all of them; a block keeps the weights of its channels in shared memory.
#[derive(Clone, Debug)]
pub struct DepthwiseKernel {
    /// g2 at vectors of channels; the space has images, spatial axes, channels.
    pub sweep: Sweep,
    /// The image that windows slide over, and the filter.
    pub image: TensorId,
    /// The filter: an element a channel and tap.
    pub filter: TensorId,
    /// Spatial axes, outermost first.
    pub axes: Vec<TapAxis>,
    /// Channels.
    pub channels: i64,
    /// Outputs of a thread.
    pub outputs: i64,
    /// Threads along channels, and along groups of outputs.
    pub columns: u32,
    /// Groups of outputs that a block computes at a time.
    pub rows: u32,
}

impl DepthwiseKernel {
    /// Groups of outputs of an image row.
    pub fn groups_of_a_row(&self) -> i64 {
        let last = self.axes.last().map_or(1, |axis| axis.outputs);
        (last + self.outputs - 1) / self.outputs
    }

    /// Channels of a block.
    pub fn block_channels(&self) -> i64 {
        i64::from(self.columns) * self.sweep.vector
    }

    /// Blocks that share a multiprocessor: two where 128 registers suffice a thread for sums, weights and a pixel, and some 32 for
    /// addresses (seen in compiled kernels; left to itself the assembler spills at 80).
    pub fn blocks(&self) -> u32 {
        let last = self.axes.last().map_or(1, |axis| axis.taps);
        if (self.outputs + last + 1) * self.sweep.vector + 32 <= 128 { 2 } else { 1 }
    }

    /// Taps of the filter.
    pub fn taps(&self) -> i64 {
        self.axes.iter().map(|axis| axis.taps).product()
    }
}
