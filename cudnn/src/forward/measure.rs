//! Whether our best plan of a graph is faster than the real library's: measured once, and kept beside tuned configs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use fusewright::capi;
use fusewright::error::Error;
use fusewright::graph::{FinalizedGraph, GraphKey};
use fusewright::plan::{DeviceContext, Driver, Stream};
use fusewright::tuning::{Arguments, Rival, Rivals, TuningStore, time_rivals};

use super::handles::{self, Handle};
use super::numbers::{kind, name, type_of};
use super::pairs::Pair;
use super::sides::{Half, Pointer, Refusal, Side, real_version};
use super::trace;

/// Graphs of devices that were asked about in this process, and whether we win. One thread measures at a time.
static KNOWN: Mutex<Option<HashMap<(GraphKey, u32), bool>>> = Mutex::new(None);

/// How many of the real library's configs are tried until one has a plan, as programs do.
const TRIED: usize = 8;

/// Whether our first config is faster than the real library's first that has a plan. It never fails: what cannot be measured is
/// the real library's.
pub(crate) fn ours_wins(pair: &Pair, ours: &Half, theirs: &[Arc<Half>]) -> bool {
    let Some(subject) = pair.subject() else { return false };
    let (Some(graph), Some(handle)) = (&subject.graph, handles::find_at(subject.handle)) else { return false };
    let Some((ordinal, device)) = &handle.device else { return false };
    let key = (graph.key(), *ordinal);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(&wins) = known.get_or_insert_default().get(&key) {
        return wins;
    }
    let library = format!("cudnn {}", real_version());
    let store = TuningStore::from_environment();
    let stored = store.rivals(graph.key(), &library, device);
    let times = match stored {
        Some(times) => Ok(times),
        None => measure(graph, &handle, *ordinal, ours, theirs).inspect(|&times| {
            if let Err(error) = store.put_rivals(graph.key(), &library, device, times) {
                tracing::warn!("{error}");
            }
        }),
    };
    trace::times(graph, &times, stored.is_some());
    if let Err(Unmeasured::ForNow(_)) = times {
        return false; // asked again next time
    }
    let wins = times.is_ok_and(|times| times.ours_wins());
    known.get_or_insert_default().insert(key, wins);
    wins
}

/// Why a graph was not measured.
#[derive(Debug)]
pub(crate) enum Unmeasured {
    /// It may be another time.
    ForNow(String),
    /// It cannot be.
    Ever(String),
}

impl From<Refusal> for Unmeasured {
    fn from(refusal: Refusal) -> Self {
        Self::Ever(refusal.to_string())
    }
}

impl From<Error> for Unmeasured {
    fn from(error: Error) -> Self {
        Self::Ever(error.to_string())
    }
}

/// A plan of one side, with what its executions need.
struct Entrant {
    handle: Pointer,
    plan: Half,
    workspace: u64,
    pack: Option<Half>,
}

fn measure(
    graph: &FinalizedGraph,
    handle: &Handle,
    ordinal: u32,
    ours: &Half,
    theirs: &[Arc<Half>],
) -> Result<Rivals, Unmeasured> {
    let context = Driver::load()?.open(ordinal)?;
    let stream = stream(handle, &context)?;
    if stream.is_captured() {
        return Err(Unmeasured::ForNow("the stream is captured".to_owned()));
    }
    let mut last = None;
    let plan = |config: &Arc<Half>| Entrant::new(handle, config).map_err(|refusal| last = Some(refusal)).ok();
    let theirs = theirs.iter().take(TRIED).find_map(plan);
    let Some(mut theirs) = theirs else {
        return Err(last.map_or_else(|| Unmeasured::Ever("there is nothing to measure".to_owned()), Unmeasured::from));
    };
    let mut ours = Entrant::new(handle, ours)?;
    let workspace = ours.workspace.max(theirs.workspace);
    let times = time_rivals(&context, &stream, graph, workspace, |rival, arguments| match rival {
        Rival::Ours => ours.execute(arguments),
        Rival::Theirs => theirs.execute(arguments),
    });
    times.map_err(|error| match error {
        Error::Environment { .. } => Unmeasured::ForNow(error.to_string()),
        _ => Unmeasured::from(error),
    })
}

/// The stream of a handle.
fn stream(handle: &Handle, context: &DeviceContext) -> Result<Stream, Unmeasured> {
    let raw = handle.stream()?;
    // SAFETY: the stream that the program has set, which lives while the handle has it, and so as long as this call of the program.
    Ok(unsafe { Stream::from_raw(context, raw) })
}

impl Entrant {
    fn new(handle: &Handle, config: &Half) -> Result<Self, Refusal> {
        let side = config.side();
        let (own, plan) = (handle.to_execute(side)?, Half::new(side, kind::PLAN)?);
        let config = config.pointer();
        // SAFETY: a handle and a descriptor of this side.
        unsafe {
            plan.set(name::PLAN_HANDLE, type_of::HANDLE, 1, (&raw const own).cast())?;
            plan.set(name::PLAN_CONFIG, type_of::DESCRIPTOR, 1, (&raw const config).cast())?;
        }
        plan.finalize()?;
        if side == Side::Ours {
            capi::settle(plan.pointer());
        }
        let workspace = u64::try_from(plan.number(name::PLAN_WORKSPACE)?).unwrap_or(0);
        Ok(Self { handle: own, plan, workspace, pack: None })
    }

    /// Puts one execution on the stream, on the same memory each time.
    fn execute(&mut self, arguments: &Arguments) -> Result<(), Error> {
        let side = self.plan.side();
        let failed = |refusal: Refusal| Error::Wrong(refusal.to_string());
        let pack = match self.pack.take() {
            Some(pack) => pack,
            None => pack(side, arguments).map_err(failed)?,
        };
        // SAFETY: all three are of one side; the pack has memory for every tensor of the graph, and a workspace of the plan's size.
        let status = unsafe { (side.functions().execute)(self.handle, self.plan.pointer(), pack.pointer()) };
        self.pack = Some(pack);
        side.check(status).map_err(failed)
    }
}

/// A variant pack of one side.
fn pack(side: Side, arguments: &Arguments) -> Result<Half, Refusal> {
    let pack = Half::new(side, kind::PACK)?;
    let count = arguments.uids.len() as i64;
    // SAFETY: there are so many uids and pointers, and one workspace.
    unsafe {
        pack.set(name::PACK_UIDS, type_of::INT64, count, arguments.uids.as_ptr().cast())?;
        pack.set(name::PACK_POINTERS, type_of::POINTER, count, arguments.pointers.as_ptr().cast())?;
        pack.set(name::PACK_WORKSPACE, type_of::POINTER, 1, (&raw const arguments.workspace).cast())?;
    }
    pack.finalize()?;
    Ok(pack)
}
