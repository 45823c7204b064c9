//! What a strip of a depthwise convolution costs: bytes, instructions, and rows that wait for the one before.

use crate::device::Device;
use crate::engine::{Bound, Term};
use crate::kernel::{ChannelWindows, DepthwiseFilterKernel, DepthwiseKernel};

/// Part of the copy's rate that is reached where nothing but memory bounds: an estimate.
const OF_THE_COPY: f64 = 0.9;

/// By how much all takes longer in vectors of more than 4 bytes, of which fewer warps ask: 1.03 to 1.13 among 160 configs of ten
/// convolutions on an H200 (2026-11-26, `bench --autotune=all`).
const WIDE: f64 = 1.12;
const NARROW_BYTES: i64 = 4;

/// Instructions of a multiprocessor in a clock, for each of its 128 lanes: an estimate, as 0.7 of what it could issue.
const RATE: f64 = 0.7 * 128.0;
const CLOCK: f64 = 1.7e9;

/// Bytes from the L2 cache to a multiprocessor in a clock: 64 at most; an estimate.
const L2_BYTES: f64 = 32.0;

/// From the load of a row's pixels to their use, where memory is busy, and bytes that a multiprocessor must have asked for in that time for
/// its part of the copy's rate: estimates.
const ROW_SECONDS: f64 = 0.8e-6;
const BYTES_IN_FLIGHT: f64 = 16e3;

/// Rows' time before a strip's first row is there, with the weights; part of a strip's time for which the last blocks have
/// multiprocessors for themselves. Estimates.
const ROWS_BEFORE: f64 = 2.0;
const OF_THE_LAST: f64 = 0.5;

/// Instructions for a pixel that is read: a load, its condition, its zeros. For an element of the result: a conversion, half a
/// store, zeros for the next. For a step: the loop, addresses. Counted in compiled kernels.
const OF_A_PIXEL: f64 = 3.0;
const OF_AN_ELEMENT: f64 = 2.0;
const OF_A_STEP: f64 = 16.0;

/// What the multiprocessors do for a graph.
#[derive(Debug)]
pub(super) struct Work {
    /// Instructions of all threads, with those that multiprocessors wait for which have fewer blocks.
    instructions: f64,
    /// Bytes through the L2 cache.
    l2_bytes: f64,
    /// Strips that a multiprocessor's threads take one after the other, and rows of each, of which so many are asked for before one is computed.
    rounds: f64,
    rows: f64,
    rows_ahead: f64,
    /// Bytes of a row that a multiprocessor's threads ask for together, and by how much all takes longer for the width of their vectors.
    bytes_in_flight: f64,
    longer: f64,
}

impl Work {
    /// A convolution whose epilogue moves so many bytes for an element of the result.
    pub(super) fn of_images(kernel: &DepthwiseKernel, bytes: f64, device: &Device) -> Self {
        let windows = &kernel.windows;
        let weights = if kernel.holds_weights() { 0 } else { windows.taps() * windows.strip.channels / 4 };
        let blocks = windows.blocks_along_channels() * windows.blocks_along_strips();
        let of_a_multiprocessor = blocks as f64 / f64::from(device.sm_count);
        let resident = of_a_multiprocessor.min(kernel.blocks().into());
        let row = windows.reach() * windows.strip.channels * kernel.pixel_bytes;
        Self {
            instructions: instructions(windows, weights as f64) * imbalance(blocks, device),
            l2_bytes: pixels(windows) * kernel.pixel_bytes as f64 + elements(windows) * bytes,
            rounds: of_a_multiprocessor / resident,
            rows: steps(windows),
            rows_ahead: kernel.rows_ahead() as f64,
            longer: if windows.strip.channels * kernel.pixel_bytes > NARROW_BYTES { WIDE } else { 1.0 },
            bytes_in_flight: resident * f64::from(windows.threads()) * (kernel.rows_ahead() * row) as f64,
        }
    }

    /// A filter gradient.
    pub(super) fn of_filters(kernel: &DepthwiseFilterKernel, device: &Device) -> Self {
        let windows = &kernel.windows;
        let [image, gradient] = kernel.bytes;
        let rounds = (windows.blocks_along_strips() + kernel.splits - 1) / kernel.splits;
        let blocks = windows.blocks_along_channels() * kernel.splits;
        let waiting = (rounds * kernel.splits) as f64 / windows.blocks_along_strips() as f64;
        let row = (windows.reach() * image + windows.strip.outputs * gradient) * windows.strip.channels;
        let busy = (blocks as f64 / f64::from(device.sm_count)).min(1.0);
        Self {
            instructions: instructions(windows, 0.0) * imbalance(blocks, device) * waiting,
            l2_bytes: pixels(windows) * image as f64 + elements(windows) * gradient as f64,
            rounds: rounds as f64,
            rows: steps(windows),
            rows_ahead: 1.0,
            longer: 1.0,
            bytes_in_flight: busy * f64::from(windows.threads()) * row as f64,
        }
    }

    /// The terms of a graph whose tensors move once in so many seconds: of what goes on at once.
    pub(super) fn at_once(&self, floor: f64, device: &Device) -> Vec<Term> {
        let clocks = CLOCK * f64::from(device.sm_count);
        let asking = (1.0 + ROWS_BEFORE / self.rows) * (BYTES_IN_FLIGHT / self.bytes_in_flight).max(1.0);
        let terms = [
            Term { bound: Bound::Memory, time: floor / OF_THE_COPY * asking },
            Term { bound: Bound::MatrixRate, time: self.instructions / (RATE * clocks) },
            Term { bound: Bound::L2, time: self.l2_bytes / (L2_BYTES * clocks) },
            Term { bound: Bound::Fill, time: self.rounds * (self.rows / self.rows_ahead + ROWS_BEFORE) * ROW_SECONDS },
        ];
        terms.map(|term| Term { time: term.time * self.longer, ..term }).to_vec()
    }

    /// The time on top, in which few blocks are left.
    pub(super) fn last_strips(&self) -> Term {
        Term { bound: Bound::Fill, time: OF_THE_LAST * self.rows * ROW_SECONDS }
    }
}

/// Rows of pixels of a strip, under all taps along outer axes.
fn steps(windows: &ChannelWindows) -> f64 {
    let outer: i64 = windows.outer().iter().map(|axis| axis.taps).product();
    (outer * windows.steps_of_all_turns()) as f64
}

/// Instructions of all threads, so many of a step to read weights.
fn instructions(windows: &ChannelWindows, weights: f64) -> f64 {
    let strip = windows.strip;
    let vector = strip.channels as f64;
    let multiply_adds = windows.multiply_adds_of_a_turn() as f64 / windows.steps_of_a_turn() as f64;
    let of_a_step = multiply_adds + windows.reach() as f64 * (OF_A_PIXEL + vector) + weights + OF_A_STEP;
    let of_a_strip = of_a_step * steps(windows) + (strip.rows * strip.outputs) as f64 * vector * OF_AN_ELEMENT;
    let threads = windows.blocks_along_channels() * windows.blocks_along_strips() * i64::from(windows.threads());
    threads as f64 * of_a_strip
}

/// How much more the multiprocessors with most blocks have than the mean.
fn imbalance(blocks: i64, device: &Device) -> f64 {
    let mean = blocks as f64 / f64::from(device.sm_count);
    mean.ceil() / mean
}

/// Pixels that strips read from the L2 cache: strips side by side share theirs in the multiprocessor's own.
fn pixels(windows: &ChannelWindows) -> f64 {
    let threads = (windows.strips() * windows.channels / windows.strip.channels) as f64;
    let last = windows.last();
    let pixels = (windows.strip.outputs * last.stride / last.gap).min(windows.reach()) as f64;
    threads * steps(windows) * pixels * windows.strip.channels as f64
}

/// Elements of the result, or of its gradient.
fn elements(windows: &ChannelWindows) -> f64 {
    let outputs: i64 = windows.axes.iter().map(|axis| axis.outputs).product();
    (windows.images * windows.channels * outputs) as f64
}
