//! Convolutions of one channel a group, computed point by point, and the gradients of their filters.

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

/// Who computes what of a depthwise convolution: a thread takes a few neighbouring outputs along the last axis for a vector of
/// channels, so that each pixel is read once for all of them; a block has threads along channels and along groups of outputs.
#[derive(Clone, Debug)]
pub struct ChannelWindows {
    /// The image that windows slide over.
    pub image: TensorId,
    /// Number of images.
    pub images: i64,
    /// Spatial axes, outermost first.
    pub axes: Vec<TapAxis>,
    /// Channels.
    pub channels: i64,
    /// Channels of a thread.
    pub vector: i64,
    /// Outputs of a thread.
    pub outputs: i64,
    /// Threads along channels.
    pub columns: u32,
    /// Groups of outputs that a block computes at a time.
    pub rows: u32,
    /// Whether offsets need 64 bits.
    pub wide_index: bool,
}

impl ChannelWindows {
    /// The innermost spatial axis.
    pub fn last(&self) -> TapAxis {
        self.axes[self.axes.len() - 1]
    }

    /// Spatial axes but the innermost.
    pub fn outer(&self) -> &[TapAxis] {
        &self.axes[..self.axes.len() - 1]
    }

    /// Groups of outputs of an image row.
    pub fn groups_of_a_row(&self) -> i64 {
        (self.last().outputs + self.outputs - 1) / self.outputs
    }

    /// Groups of outputs of all images.
    pub fn groups(&self) -> i64 {
        let rows: i64 = self.outer().iter().map(|axis| axis.outputs).product();
        self.images * rows * self.groups_of_a_row()
    }

    /// Channels of a block.
    pub fn block_channels(&self) -> i64 {
        i64::from(self.columns) * self.vector
    }

    /// Blocks along channels.
    pub fn blocks_along_channels(&self) -> i64 {
        (self.channels + self.block_channels() - 1) / self.block_channels()
    }

    /// Threads of a block.
    pub fn threads(&self) -> u32 {
        self.columns * self.rows
    }

    /// Taps of the filter.
    pub fn taps(&self) -> i64 {
        self.axes.iter().map(|axis| axis.taps).product()
    }
}

/// A depthwise convolution with its epilogue; a block keeps the weights of its channels in shared memory.
#[derive(Clone, Debug)]
pub struct DepthwiseKernel {
    /// The windows.
    pub windows: ChannelWindows,
    /// g2 at vectors of channels; the space has images, spatial axes, channels.
    pub sweep: Sweep,
    /// The filter: an element a channel and tap.
    pub filter: TensorId,
}

impl DepthwiseKernel {
    /// Blocks that share a multiprocessor, of threads that hold sums, the weights of a row of taps and a pixel.
    pub fn blocks(&self) -> u32 {
        let ChannelWindows { outputs, vector, .. } = self.windows;
        blocks((outputs + self.windows.last().taps + 1) * vector)
    }
}

/// Two blocks where 128 registers suffice a thread that holds so many floats, and some 32 for addresses (seen in compiled kernels; left
/// to itself the assembler spills at 80).
fn blocks(floats: i64) -> u32 {
    if floats + 32 <= 128 { 2 } else { 1 }
}

/// The filter gradient of a depthwise convolution: a thread keeps the sums of all taps for its channels, a block's are added up in
/// shared memory, and each row of blocks leaves a partial sum of all in the workspace, taps outermost.
#[derive(Clone, Debug)]
pub struct DepthwiseFilterKernel {
    /// The windows; an output is a pixel of the gradient.
    pub windows: ChannelWindows,
    /// The gradient of the convolution's result.
    pub gradient: TensorId,
}

impl DepthwiseFilterKernel {
    /// Blocks that share a multiprocessor, of threads that hold sums, outputs and a pixel.
    pub fn blocks(&self) -> u32 {
        let ChannelWindows { outputs, vector, .. } = self.windows;
        blocks((self.windows.taps() + outputs + 1) * vector)
    }
}
