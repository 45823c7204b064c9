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

    /// Points from a window's first to its last.
    pub fn span(&self) -> i64 {
        (self.taps - 1) * self.dilation
    }

    /// Outputs that one point may belong to at most: where windows follow each other, an output's window ends before that of the output
    /// so many further on begins.
    pub fn in_flight(&self) -> i64 {
        self.span() / self.stride + 1
    }

    /// Pixels after which taps meet the same outputs again, of those that are numbered modulo [`Self::in_flight`].
    pub fn period(&self) -> i64 {
        let outputs = self.stride * self.in_flight();
        outputs / greatest_common_divisor(outputs, self.gap)
    }

    /// Whether some window reaches beyond the image.
    pub fn is_padded(&self) -> bool {
        let last = (self.outputs - 1) * self.stride + (self.taps - 1) * self.dilation - self.padding;
        self.padding > 0 || last > (self.pixels - 1) * self.gap
    }
}

/// An axis that there is none of: one output of one pixel.
const NO_AXIS: TapAxis =
    TapAxis { pixels: 1, outputs: 1, taps: 1, stride: 1, gap: 1, dilation: 1, padding: 0, is_turned: false };

fn greatest_common_divisor(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// What a thread takes: for a vector of channels, a strip of outputs. It walks the strip from row to row of the image, so that each row is
/// read, and converted, once for all outputs that it reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strip {
    /// Channels.
    pub channels: i64,
    /// Outputs along the last axis.
    pub outputs: i64,
    /// Outputs along the axis before it, which is walked.
    pub rows: i64,
}

/// Who computes what of a depthwise convolution: threads have strips, a block has threads along channels and along strips.
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
    /// What a thread takes.
    pub strip: Strip,
    /// Threads along channels.
    pub columns: u32,
    /// Strips of a block.
    pub strips_of_a_block: u32,
    /// Whether offsets need 64 bits.
    pub wide_index: bool,
}

impl ChannelWindows {
    /// The innermost spatial axis.
    pub fn last(&self) -> TapAxis {
        self.axes[self.axes.len() - 1]
    }

    /// The axis that threads walk along: the last but one.
    pub fn walked(&self) -> TapAxis {
        let before = self.axes.len().checked_sub(2);
        before.map_or(NO_AXIS, |axis| self.axes[axis])
    }

    /// Spatial axes before the one that is walked.
    pub fn outer(&self) -> &[TapAxis] {
        &self.axes[..self.axes.len().saturating_sub(2)]
    }

    /// Whether pixels of some strip are zeros in the padding: outer axes leave out taps.
    pub fn is_padded(&self) -> bool {
        self.walked().is_padded() || self.last().is_padded()
    }

    /// Strips side by side.
    pub fn strips_of_a_row(&self) -> i64 {
        (self.last().outputs + self.strip.outputs - 1) / self.strip.outputs
    }

    /// Strips one below the other.
    pub fn strips_of_a_column(&self) -> i64 {
        (self.walked().outputs + self.strip.rows - 1) / self.strip.rows
    }

    /// Strips of all images.
    pub fn strips(&self) -> i64 {
        let planes: i64 = self.outer().iter().map(|axis| axis.outputs).product();
        self.images * planes * self.strips_of_a_column() * self.strips_of_a_row()
    }

    /// Pixels of a row that a strip reads.
    pub fn reach(&self) -> i64 {
        self.last().reach(self.strip.outputs)
    }

    /// Rows of the image that a strip reads.
    pub fn steps(&self) -> i64 {
        self.walked().reach(self.strip.rows)
    }

    /// Whether a strip has so few rows that its steps are a straight line, in which no tap but those of its outputs is computed.
    pub fn is_straight(&self) -> bool {
        self.strip.rows <= self.walked().in_flight() || self.steps() <= self.walked().period()
    }

    /// Steps of one turn of the loop, in which each has its own place for each output.
    pub fn steps_of_a_turn(&self) -> i64 {
        if self.is_straight() { self.steps() } else { self.walked().period() }
    }

    /// Steps of all turns: the last turn may go beyond the strip, where all pixels are zeros.
    pub fn steps_of_all_turns(&self) -> i64 {
        let of_a_turn = self.steps_of_a_turn();
        (self.steps() + of_a_turn - 1) / of_a_turn * of_a_turn
    }

    /// Rows of outputs that a thread has in registers at a time.
    pub fn rows_in_flight(&self) -> i64 {
        self.walked().in_flight().min(self.strip.rows)
    }

    /// Channels of a block.
    pub fn block_channels(&self) -> i64 {
        i64::from(self.columns) * self.strip.channels
    }

    /// Blocks along channels.
    pub fn blocks_along_channels(&self) -> i64 {
        (self.channels + self.block_channels() - 1) / self.block_channels()
    }

    /// Blocks along strips, where each has its own.
    pub fn blocks_along_strips(&self) -> i64 {
        let of_a_block = i64::from(self.strips_of_a_block);
        (self.strips() + of_a_block - 1) / of_a_block
    }

    /// Threads of a block.
    pub fn threads(&self) -> u32 {
        self.columns * self.strips_of_a_block
    }

    /// Taps of the filter.
    pub fn taps(&self) -> i64 {
        self.axes.iter().map(|axis| axis.taps).product()
    }

    /// Multiply-adds of a thread for a turn of the loop.
    pub fn multiply_adds_of_a_turn(&self) -> i64 {
        let (walked, last) = (self.walked(), self.last());
        let rows_under_taps = match self.is_straight() {
            true => self.strip.rows * walked.taps / walked.gap,
            false => self.steps_of_a_turn() * walked.taps / walked.stride,
        };
        rows_under_taps * last.taps / last.gap * self.strip.outputs * self.strip.channels
    }

    /// Registers of a thread that hold pixels as they lie in memory, of an element of so many bytes.
    pub fn pixel_registers(&self, bytes: i64) -> i64 {
        (self.reach() * self.strip.channels * bytes + 3) / 4
    }
}

/// Registers of a thread for addresses, loops and conditions, of a convolution that holds its weights, of one whose steps are a straight
/// line, of one that reads its weights, and of a filter gradient: with fewer, kernels of 15 layers spilled (NVRTC 13.0.88, sm_90), with 30
/// one more for sm_86, and with 32 in a straight line one of stride 3 and dilation 2 for sm_70.
const OTHER_REGISTERS: i64 = 32;
const OTHER_STRAIGHT_REGISTERS: i64 = 40;
const OTHER_READING_REGISTERS: i64 = 76;
const OTHER_FILTER_REGISTERS: i64 = 44;

/// Registers of a thread at most, and of a multiprocessor.
const MOST_REGISTERS: i64 = 255;
const REGISTERS: i64 = 1 << 16;

/// Blocks of so many threads that share a multiprocessor where a thread has so many registers, which come in eights, for whole warps.
fn resident(registers: i64, threads: u32) -> u32 {
    let registers = (registers.min(MOST_REGISTERS) + 7) / 8 * 8;
    (REGISTERS / (registers * i64::from(threads.next_multiple_of(32)))).clamp(1, 8) as u32
}

/// A depthwise convolution with its epilogue; a block keeps the weights of its channels in shared memory, a thread those of its own in
/// registers, where there are few.
#[derive(Clone, Debug)]
pub struct DepthwiseKernel {
    /// The windows.
    pub windows: ChannelWindows,
    /// g2 at vectors of channels; the space has images, spatial axes, channels.
    pub sweep: Sweep,
    /// The filter: an element a channel and tap.
    pub filter: TensorId,
    /// Bytes of an element of the image.
    pub pixel_bytes: i64,
}

impl DepthwiseKernel {
    /// Most registers for weights: a 3×3 filter's of four channels, a 5×5 filter's of two.
    const WEIGHT_REGISTERS: i64 = 50;

    /// Most rows ahead, and registers of a thread that leave room for 12 warps beside them (`conv_depthwise_3x3_c384_56` on an H200, strips
    /// of 8 by 28 outputs: 59 µs with one row ahead, 51 with three).
    const MOST_ROWS_AHEAD: i64 = 3;
    const REGISTERS_WITH_ROWS_AHEAD: i64 = 168;

    /// Whether a thread holds all its weights in registers, so that each pixel is done with where it is converted.
    pub fn holds_weights(&self) -> bool {
        self.windows.outer().is_empty() && self.windows.taps() * self.windows.strip.channels <= Self::WEIGHT_REGISTERS
    }

    /// Registers of a thread: sums of the rows in flight; pixels of the rows ahead as they were read; weights with a pixel, or the pixels of a row;
    /// the epilogue's operands; and the others.
    pub fn registers(&self) -> i64 {
        self.registers_beside_pixels() + self.rows_ahead() * self.windows.pixel_registers(self.pixel_bytes)
    }

    /// Rows of pixels that are asked for before the one that is computed: as many as there are registers for, so that memory is busy
    /// whatever the number of warps; one, where a strip is a few steps.
    pub fn rows_ahead(&self) -> i64 {
        let free = Self::REGISTERS_WITH_ROWS_AHEAD - self.registers_beside_pixels();
        let fits = |&rows: &i64| rows * self.windows.pixel_registers(self.pixel_bytes) <= free;
        let places = self.windows.steps_of_a_turn();
        let is_walked = self.windows.outer().is_empty() && !self.windows.is_straight();
        let is_whole = |&rows: &i64| is_walked && places % rows == 0;
        (1..=Self::MOST_ROWS_AHEAD).filter(is_whole).filter(fits).max().unwrap_or(1)
    }

    fn registers_beside_pixels(&self) -> i64 {
        let ChannelWindows { strip, .. } = self.windows;
        let sums = self.windows.rows_in_flight() * strip.outputs * strip.channels;
        let factors = match self.holds_weights() {
            true => (self.windows.taps() + 1) * strip.channels + self.other_registers(),
            false => (self.windows.reach() + 2) * strip.channels + OTHER_READING_REGISTERS,
        };
        let operands = self.sweep.program.loads().count() as i64 * strip.channels;
        sums + factors + operands
    }

    fn other_registers(&self) -> i64 {
        if self.windows.is_straight() { OTHER_STRAIGHT_REGISTERS } else { OTHER_REGISTERS }
    }

    /// Blocks that share a multiprocessor.
    pub fn blocks(&self) -> u32 {
        resident(self.registers(), self.windows.threads())
    }
}

/// The filter gradient of a depthwise convolution: a thread keeps the sums of all taps for its channels, and the gradients of the rows in
/// flight; a block's sums are added up in shared memory, and each row of blocks leaves a partial sum of all in the workspace, taps
/// outermost.
#[derive(Clone, Debug)]
pub struct DepthwiseFilterKernel {
    /// The windows; an output is a pixel of the gradient.
    pub windows: ChannelWindows,
    /// The gradient of the convolution's result.
    pub gradient: TensorId,
    /// Bytes of an element of the image, and of the gradient.
    pub bytes: [i64; 2],
    /// Parts into which the strips are cut.
    pub splits: i64,
}

impl DepthwiseFilterKernel {
    /// Bytes of shared memory for a block's sums at most: what every chip gives without being asked.
    const TOTAL_BYTES: i64 = 48 << 10;

    /// Registers of a thread: sums, gradients of the rows in flight, those of the next row and pixels as they were read, a pixel, the others.
    pub fn registers(&self) -> i64 {
        let ChannelWindows { strip, .. } = self.windows;
        let [image, gradient] = self.bytes;
        let held = (self.windows.taps() + self.windows.rows_in_flight() * strip.outputs + 1) * strip.channels;
        let next = (strip.outputs * strip.channels * gradient + 3) / 4;
        held + next + self.windows.pixel_registers(image) + OTHER_FILTER_REGISTERS
    }

    /// Blocks that share a multiprocessor.
    pub fn blocks(&self) -> u32 {
        resident(self.registers(), self.windows.threads())
    }

    /// Taps whose sums meet in shared memory at a time.
    pub fn taps_at_a_time(&self) -> i64 {
        (Self::TOTAL_BYTES / self.bytes_of_a_tap()).clamp(1, self.windows.taps())
    }

    /// Bytes of shared memory.
    pub fn shared_bytes(&self) -> i64 {
        self.taps_at_a_time() * self.bytes_of_a_tap()
    }

    fn bytes_of_a_tap(&self) -> i64 {
        i64::from(self.windows.threads()) * self.windows.strip.channels * 4
    }
}
