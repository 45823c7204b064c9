//! Measuring plans of one graph against each other, so that the clock's drift and heat meet all of them alike.

use std::time::{Duration, Instant};

use super::timing::{FLUSH_BYTES, median, warm_up};
use crate::error::Error;
use crate::harness::DeviceTensors;
use crate::plan::{DeviceBuffer, ExecutionPlan, LIMIT, Step, event_pairs};

/// Times that each plan is measured, in alternating order.
const ROUNDS: usize = 6;
/// Time that the runs of a plan in a round shall take together.
const BURST: Duration = Duration::from_millis(15);
const MOST_RUNS_OF_A_BURST: f64 = 50.0;
/// Flushed runs by which the length of a plan's bursts is found.
const ESTIMATED: u32 = 2;
/// Over the fastest median of the first round: a plan beyond it will not win, and is not measured again.
const LOSES: f64 = 1.25;

/// What the runs of one plan took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampled {
    /// Median time of one execution on the device with cold L2, in milliseconds.
    pub median_ms: f64,
    /// Number of timed executions.
    pub runs: usize,
}

/// Measures plans of one graph on the same tensors, which have workspace for each ([`DeviceTensors::reserve`]). There are
/// six rounds of short bursts, in which the order of the plans alternates; each run is timed by a pair of events after a
/// 256 MiB buffer was overwritten. What is over 25 % slower than the fastest in the first round is left out of the others.
/// The results are in the order of the plans.
///
/// # Errors
/// As [`super::time`].
pub fn time_interleaved(plans: &[ExecutionPlan], tensors: &DeviceTensors) -> Result<Vec<Sampled>, Error> {
    let Some(first) = plans.first() else { return Ok(Vec::new()) };
    let mut flush = DeviceBuffer::new(first.context(), FLUSH_BYTES, 256)?;
    warm_up(tensors.stream(), || tensors.execute(first))?;
    let entrant = |plan| Entrant::new(plan, tensors, &mut flush);
    let mut entrants = plans.iter().map(entrant).collect::<Result<Vec<_>, Error>>()?;
    let mut order: Vec<usize> = (0..plans.len()).collect();
    for round in 0..ROUNDS {
        for &position in &order {
            entrants[position].run_burst(tensors, &mut flush)?;
        }
        if round == 0 {
            let fastest = entrants.iter().map(Entrant::median_ms).fold(f64::INFINITY, f64::min);
            order.retain(|&position| entrants[position].median_ms() <= fastest * LOSES);
        }
        order.reverse();
    }
    let sampled = |entrant: Entrant<'_>| Sampled { median_ms: entrant.median_ms(), runs: entrant.samples.len() };
    Ok(entrants.into_iter().map(sampled).collect())
}

/// A plan under measurement.
struct Entrant<'a> {
    plan: &'a ExecutionPlan,
    runs_of_a_burst: usize,
    /// Milliseconds of each run so far.
    samples: Vec<f64>,
}

impl<'a> Entrant<'a> {
    /// Runs the plan once, so that its code is on the device, and then to find the length of its bursts.
    fn new(plan: &'a ExecutionPlan, tensors: &DeviceTensors, flush: &mut DeviceBuffer) -> Result<Self, Error> {
        let stream = tensors.stream();
        tensors.execute(plan)?;
        stream.wait(LIMIT)?;
        let start = Instant::now();
        for _ in 0..ESTIMATED {
            flush.fill(0, stream)?;
            tensors.execute(plan)?;
        }
        stream.wait(LIMIT)?;
        let each = (start.elapsed() / ESTIMATED).max(Duration::from_micros(1));
        let runs_of_a_burst = BURST.div_duration_f64(each).clamp(1.0, MOST_RUNS_OF_A_BURST) as usize;
        Ok(Self { plan, runs_of_a_burst, samples: Vec::new() })
    }

    fn run_burst(&mut self, tensors: &DeviceTensors, flush: &mut DeviceBuffer) -> Result<(), Error> {
        let stream = tensors.stream();
        let samples = event_pairs(self.plan.context(), stream, self.runs_of_a_burst, |step| match step {
            Step::Before => flush.fill(0, stream),
            Step::Timed => tensors.execute(self.plan),
        })?;
        self.samples.extend(samples);
        Ok(())
    }

    fn median_ms(&self) -> f64 {
        median(self.samples.clone())
    }
}
