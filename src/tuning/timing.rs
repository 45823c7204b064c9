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
/// Executions put on the stream at once for the host's time, at most: with launches of their own below the driver's queue length, where it would wait.
const BURST: u32 = 64;
const LAUNCHES_OF_BURST: u32 = 512;
/// Bursts: as many as the device executes in this time, within limits.
const BURSTS: [usize; 2] = [5, 25];
const OF_BURSTS: Duration = Duration::from_millis(500);
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
    let bursts = Bursts::of(each, plan.launches());
    let host_us_per_execute = bursts.host_microseconds(stream, || tensors.execute(plan))?;
    let mut cuda_graph = tensors.instantiate(plan)?;
    let host_us_per_graph_launch = bursts.host_microseconds(stream, || tensors.launch(&mut cuda_graph))?;
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

/// How the host's time is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bursts {
    count: usize,
    /// Executions of each.
    executions: u32,
}

impl Bursts {
    /// Bursts of executions that take so long each on the device, and are so many launches.
    fn of(each: Duration, launches: usize) -> Self {
        let launches = u32::try_from(launches.max(1)).unwrap_or(u32::MAX);
        let [fewest, most] = BURSTS;
        let in_time = OF_BURSTS.div_duration_f64(each.max(Duration::from_micros(1)));
        let executions = (LAUNCHES_OF_BURST / launches).min((in_time / fewest as f64) as u32).clamp(1, BURST);
        Self { count: ((in_time / f64::from(executions)) as usize).clamp(fewest, most), executions }
    }

    /// Median of the host's time per call, the device being idle when a burst begins.
    fn host_microseconds(self, stream: &Stream, mut run: impl FnMut() -> Result<(), Error>) -> Result<f64, Error> {
        let mut samples = Vec::with_capacity(self.count);
        for _ in 0..self.count {
            let start = Instant::now();
            for _ in 0..self.executions {
                run()?;
            }
            samples.push(start.elapsed().as_secs_f64() * 1e6 / f64::from(self.executions));
            stream.wait(LIMIT)?;
        }
        Ok(median(samples))
    }
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
    fn bursts_end_in_half_a_second_and_below_the_drivers_queue() {
        let of = |micros, launches| Bursts::of(Duration::from_micros(micros), launches);
        assert_eq!(of(10, 1), Bursts { count: 25, executions: 64 });
        assert_eq!(of(5000, 1), Bursts { count: 5, executions: 20 });
        assert_eq!(of(10, 40), Bursts { count: 25, executions: 12 });
        assert_eq!(of(10_000_000, 5000), Bursts { count: 5, executions: 1 });
    }

    #[test]
    fn medians() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(Vec::new()).is_nan());
    }
}
