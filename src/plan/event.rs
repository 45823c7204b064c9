//! Points in a stream, and the times between them.

use std::time::Duration;

use cudarc::driver::sys::{CUevent, CUevent_flags};

use super::cuda::{self, CudaError};
use super::driver::failed;
use super::{DeviceContext, Stream};
use crate::error::Error;

/// More than any run that is worth measuring.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// What [`event_pairs`] asks for.
pub(crate) enum Step {
    Before,
    Timed,
}

/// Milliseconds between two events around each timed step.
pub(crate) fn event_pairs(
    context: &DeviceContext,
    stream: &Stream,
    runs: usize,
    mut step: impl FnMut(Step) -> Result<(), Error>,
) -> Result<Vec<f64>, Error> {
    if !cuda::has("cuEventElapsedTime_v2") {
        return Err(Error::environment("measuring needs a driver for CUDA 12.8 or newer"));
    }
    let failed = |error| failed("timing events", error);
    let _entered = context.enter()?;
    // Made beforehand, so that making them is not timed.
    let event = || Event::new(context).map_err(failed);
    let events = (0..runs).map(|_| Ok((event()?, event()?))).collect::<Result<Vec<(Event, Event)>, Error>>()?;
    for (start, end) in &events {
        step(Step::Before)?;
        start.record(stream).map_err(failed)?;
        step(Step::Timed)?;
        end.record(stream).map_err(failed)?;
    }
    stream.wait(LIMIT)?;
    events.iter().map(|(start, end)| start.milliseconds_until(end).map_err(failed)).collect()
}

/// A point in a stream, with the time when it is reached.
struct Event {
    context: DeviceContext,
    handle: CUevent,
}

impl Event {
    /// In the context that is current.
    fn new(context: &DeviceContext) -> Result<Self, CudaError> {
        let mut handle: CUevent = std::ptr::null_mut();
        // SAFETY: a context is current, and the pointer is valid for one handle.
        unsafe { cuda::cuEventCreate(&raw mut handle, CUevent_flags::CU_EVENT_DEFAULT as u32) }?;
        Ok(Self { context: context.clone(), handle })
    }

    fn record(&self, stream: &Stream) -> Result<(), CudaError> {
        // SAFETY: event and stream are alive.
        unsafe { cuda::cuEventRecord(self.handle, stream.raw()) }
    }

    /// The time between two events that were reached.
    fn milliseconds_until(&self, end: &Self) -> Result<f64, CudaError> {
        let mut milliseconds = 0.0f32;
        // SAFETY: both events are alive; the pointer is valid for one number.
        unsafe { cuda::cuEventElapsedTime_v2(&raw mut milliseconds, self.handle, end.handle) }?;
        Ok(f64::from(milliseconds))
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if let Some(_entered) = self.context.enter_to_release() {
            // SAFETY: made by `new` in this context, and destroyed once.
            let _ = unsafe { cuda::cuEventDestroy_v2(self.handle) };
        }
    }
}
