//! Pairs of descriptors: what a program's number stands for.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use fusewright::capi::registry::Registry;
use fusewright::graph::FinalizedGraph;

use super::NUMBERS;
use super::errors;
use super::numbers::{kind, status};
use super::packs::Pack;
use super::sides::{Half, Pointer, Refusal, Side};

static PAIRS: Registry<Pair> = Registry::new(&NUMBERS);

/// A descriptor of each side, or why a side has none.
type Halves = [Result<Arc<Half>, Refusal>; 2];

/// One descriptor of a program.
pub(crate) struct Pair {
    kind: u32,
    halves: RwLock<Halves>,
    /// Of variant packs, which have no halves until they are executed.
    pub(crate) pack: Option<Pack>,
    /// What it is about: of a graph, and of engines, configs, heuristics and plans of it.
    subject: RwLock<Option<Arc<Subject>>>,
    /// The handle that a graph was given.
    handle: AtomicUsize,
    /// The engine configs that heuristics list.
    configs: RwLock<Option<Arc<[Arc<Half>]>>>,
    /// Whether a plan was executed.
    was_executed: AtomicBool,
}

/// The graph that descriptors are about.
pub(crate) struct Subject {
    /// As our side understands it, which has dropped out where there is none.
    pub(crate) graph: Option<Arc<FinalizedGraph>>,
    /// The program's handle, by its address; 0 where it has none.
    pub(crate) handle: usize,
}

/// The pair that a program's descriptor stands for.
pub(crate) fn find(descriptor: Pointer) -> Option<Arc<Pair>> {
    PAIRS.get(descriptor)
}

/// The same, or the status of what stands for none.
pub(crate) fn require(function: &str, descriptor: Pointer) -> Result<Arc<Pair>, u32> {
    find(descriptor).ok_or_else(|| match descriptor.is_null() {
        true => errors::fail(function, status::NULL_POINTER, "a descriptor is null"),
        false => {
            errors::fail(function, status::BAD_PARAM, "a pointer is to no descriptor, or to one that was destroyed")
        }
    })
}

/// Creates a descriptor of a kind that either side has.
pub(crate) fn create(function: &str, kind: u32) -> Result<Pointer, u32> {
    let (halves, pack) = match kind {
        kind::PACK => (absent("it is made for one side, when it is executed"), Some(Pack::new())),
        _ => (Side::BOTH.map(|side| Half::new(side, kind).map(Arc::new)), None),
    };
    if let ([Err(real), Err(ours)], None) = (&halves, &pack) {
        return Err(errors::refuse(function, &[real, ours]));
    }
    Ok(PAIRS.insert(Pair {
        kind,
        halves: RwLock::new(halves),
        pack,
        subject: RwLock::default(),
        handle: AtomicUsize::new(0),
        configs: RwLock::default(),
        was_executed: AtomicBool::new(false),
    }))
}

fn absent(text: &str) -> Halves {
    Side::BOTH.map(|side| Err(Refusal::new(side, status::NOT_SUPPORTED, text)))
}

/// Ends a descriptor, and those of both sides once no call uses them.
pub(crate) fn destroy(function: &str, descriptor: Pointer) -> u32 {
    match PAIRS.remove(descriptor) {
        Some(_) => status::SUCCESS,
        None => require(function, descriptor).err().unwrap_or(status::SUCCESS),
    }
}

impl Pair {
    pub(crate) fn kind(&self) -> u32 {
        self.kind
    }

    fn halves(&self) -> RwLockReadGuard<'_, Halves> {
        self.halves.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The descriptor of a side, or why it has none.
    pub(crate) fn half(&self, side: Side) -> Result<Arc<Half>, Refusal> {
        self.halves()[side as usize].clone()
    }

    /// The descriptor whose word counts: the real library's, where both are there.
    pub(crate) fn counting(&self) -> Result<Arc<Half>, [Refusal; 2]> {
        match &*self.halves() {
            [Ok(half), _] | [_, Ok(half)] => Ok(Arc::clone(half)),
            [Err(real), Err(ours)] => Err([real.clone(), ours.clone()]),
        }
    }

    /// Lets a side go, which others of this pair's kind will not be asked for any more.
    fn drop_side(&self, refusal: Refusal) {
        let side = refusal.side;
        let dropped = std::mem::replace(
            &mut self.halves.write().unwrap_or_else(PoisonError::into_inner)[side as usize],
            Err(refusal),
        );
        drop(dropped); // without the lock: destroying is a call of the side
    }

    /// The descriptor of a side for results to be put into, made anew where it was dropped.
    pub(crate) fn to_fill(&self, side: Side) -> Result<Arc<Half>, Refusal> {
        if let Ok(half) = self.half(side) {
            return Ok(half);
        }
        let half = Arc::new(Half::new(side, self.kind)?);
        self.halves.write().unwrap_or_else(PoisonError::into_inner)[side as usize] = Ok(Arc::clone(&half));
        Ok(half)
    }

    /// From now on it is this descriptor of one side, which others may share, as it is finalized.
    pub(crate) fn become_of(&self, half: Arc<Half>) {
        let side = half.side();
        let previous = std::mem::replace(
            &mut self.halves.write().unwrap_or_else(PoisonError::into_inner)[side as usize],
            Ok(half),
        );
        drop(previous); // without the lock: destroying is a call of the side
        self.keep_only(side);
    }

    /// From now on it is of one side alone, as its content came from there.
    pub(crate) fn keep_only(&self, side: Side) {
        let text = format!("it is of {}", side.name());
        self.drop_side(Refusal::new(side.other(), status::NOT_SUPPORTED, text));
    }

    /// Asks each side that is left. A side that refuses what the other takes is dropped; where none takes it, all stays, and the
    /// status is the real library's.
    pub(crate) fn ask(&self, function: &str, mut ask: impl FnMut(&Half) -> Result<(), Refusal>) -> u32 {
        let mut refusals = Vec::new();
        let (mut is_taken, mut was_asked) = (false, false);
        for side in Side::BOTH {
            let half = match self.half(side) {
                Ok(half) => half,
                Err(_) => continue,
            };
            was_asked = true;
            match ask(&half) {
                Ok(()) => is_taken = true,
                Err(refusal) => refusals.push(refusal),
            }
        }
        if is_taken {
            refusals.into_iter().for_each(|refusal| self.drop_side(refusal));
            return status::SUCCESS;
        }
        if !was_asked {
            refusals = Side::BOTH.into_iter().filter_map(|side| self.half(side).err()).collect();
        }
        errors::refuse(function, &refusals.iter().collect::<Vec<_>>())
    }

    /// Makes it as it was when it was created.
    pub(crate) fn initialize(&self, function: &str) -> u32 {
        if let Some(pack) = &self.pack {
            pack.clear();
            return status::SUCCESS;
        }
        *self.configs.write().unwrap_or_else(PoisonError::into_inner) = None;
        for side in Side::BOTH {
            // a side that was dropped comes back; where it has no such descriptors, it stays away
            let _ = self.to_fill(side);
        }
        self.ask(function, Half::initialize)
    }

    /// What it is about.
    pub(crate) fn subject(&self) -> Option<Arc<Subject>> {
        self.subject.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_subject(&self, subject: &Arc<Subject>) {
        *self.subject.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(subject));
    }

    /// What heuristics list, once they are finalized.
    pub(crate) fn configs(&self) -> Option<Arc<[Arc<Half>]>> {
        self.configs.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_configs(&self, configs: Arc<[Arc<Half>]>) {
        *self.configs.write().unwrap_or_else(PoisonError::into_inner) = Some(configs);
    }

    pub(crate) fn handle(&self) -> usize {
        self.handle.load(Ordering::Relaxed)
    }

    pub(crate) fn set_handle(&self, handle: usize) {
        self.handle.store(handle, Ordering::Relaxed);
    }

    /// Whether this is the first execution.
    pub(crate) fn is_first_execution(&self) -> bool {
        !self.was_executed.load(Ordering::Relaxed) && !self.was_executed.swap(true, Ordering::Relaxed)
    }
}
