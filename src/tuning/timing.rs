//! Measuring, the way `triton.testing.do_bench` does, so that figures compare.

use std::time::{Duration, Instant};

use crate::error::Error;
use crate::harness::DeviceTensors;
use crate::plan::{DeviceBuffer, DeviceContext, ExecutionPlan, LIMIT, Step, Stream, event_pairs};

/// Overwritten before each timed run, so that it finds none of its operands in L2.
pub(super) const FLUSH_BYTES: usize = 256 << 20;
const WARM_UP: Duration = Duration::from_millis(20);
/// Time that the timed runs shall take together.
const MEASURED: Duration = Duration::from_millis(100);
const MOST_RUNS: usize = 10_000;
/// Executions put on the stream at once for the host's time; below the driver's queue length, where it would wait.
const BURST: u32 = 64;
const BURSTS: usize = 25;
const COPY_BYTES: usize = 1 << 30;

/// What an execution costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    /// Median time of one execution on the device with cold L2, in milliseconds.
    pub median_ms: f64,
    /// Number of timed executions.
    pub runs: usize,
    /// Median time that one call of [`ExecutionPlan::execute`] keeps the host, in microseconds.
    pub host_us_per_execute: f64,
    /// The same of [`DeviceTensors::launch`]: an update that changes nothing, and a launch.
    pub host_us_per_graph_launch: f64,
}

/// Measures a plan on tensors that are on the device: 20 ms of warm-up, then for about 100 ms a pair of events around
/// each run, each after a 256 MiB buffer was overwritten.
///
/// # Errors
/// As [`ExecutionPlan::execute`]; [`Error::Environment`] where memory or the driver's age does not allow it.
pub fn time(plan: &ExecutionPlan, tensors: &DeviceTensors) -> Result<Timing, Error> {
    let context = plan.context();
    let stream = tensors.stream();
    let mut flush = DeviceBuffer::new(context, FLUSH_BYTES, 256)?;
    warm_up(stream, || tensors.execute(plan))?;
    let start = Instant::now();
    let estimated = 5;
    for _ in 0..estimated {
        flush.fill(0, stream)?;
        tensors.execute(plan)?;
    }
    stream.wait(LIMIT)?;
    let each = start.elapsed() / estimated;
    let runs = MEASURED.div_duration_f64(each.max(Duration::from_micros(1))) as usize;
    let samples = event_pairs(context, stream, runs.clamp(5, MOST_RUNS), |step| match step {
        Step::Before => flush.fill(0, stream),
        Step::Timed => tensors.execute(plan),
    })?;
    let host_us_per_execute = host_microseconds(stream, || tensors.execute(plan))?;
    let mut cuda_graph = tensors.instantiate(plan)?;
    let host_us_per_graph_launch = host_microseconds(stream, || tensors.launch(&mut cuda_graph))?;
    Ok(Timing { runs: samples.len(), median_ms: median(samples), host_us_per_execute, host_us_per_graph_launch })
}

/// Bandwidth of a copy of 1 GiB from device memory to device memory, in GB/s, bytes read and bytes written together;
/// median of 20. The measured ceiling of memory-bound kernels.
///
/// # Errors
/// [`Error::Environment`] where there are not 2 GiB of device memory.
pub fn copy_bandwidth(context: &DeviceContext) -> Result<f64, Error> {
    let stream = &Stream::new(context)?;
    let mut source = DeviceBuffer::new(context, COPY_BYTES, 256)?;
    let mut destination = DeviceBuffer::new(context, COPY_BYTES, 256)?;
    source.fill(0x5a, stream)?;
    warm_up(stream, || destination.copy_from(&source, stream))?;
    let samples = event_pairs(context, stream, 20, |step| match step {
        Step::Before => Ok(()),
        Step::Timed => destination.copy_from(&source, stream),
    })?;
    Ok(2.0 * COPY_BYTES as f64 / 1e6 / median(samples))
}

pub(super) fn warm_up(stream: &Stream, mut run: impl FnMut() -> Result<(), Error>) -> Result<(), Error> {
    let start = Instant::now();
    loop {
        run()?;
        stream.wait(LIMIT)?;
        if start.elapsed() >= WARM_UP {
            return Ok(());
        }
    }
}

/// Median over bursts of the host's time per call, the device being idle when a burst begins.
fn host_microseconds(stream: &Stream, mut run: impl FnMut() -> Result<(), Error>) -> Result<f64, Error> {
    let mut samples = Vec::with_capacity(BURSTS);
    for _ in 0..BURSTS {
        let start = Instant::now();
        for _ in 0..BURST {
            run()?;
        }
        samples.push(start.elapsed().as_secs_f64() * 1e6 / f64::from(BURST));
        stream.wait(LIMIT)?;
    }
    Ok(median(samples))
}

/// Middle value, or the mean of the two in the middle; NaN of nothing.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        length if length % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(Vec::new()).is_nan());
    }
}
