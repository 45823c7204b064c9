//! Variant packs: recorded, and made for the side whose plan is executed, as programs make one for each execution.

use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::errors;
use super::numbers::{kind, name, status, type_of};
use super::sides::{Half, Refusal, Side};

/// A variant pack of a program.
pub(crate) struct Pack(Mutex<Recorded>);

/// What a pack was given, and what was made of it.
#[derive(Default)]
struct Recorded {
    rows: Vec<Row>,
    /// The elements of all rows.
    elements: Vec<u64>,
    is_finalized: bool,
    sides: [Made; 2],
}

/// One attribute: so many elements from a place on.
#[derive(Clone, Copy)]
struct Row {
    name: u32,
    of_type: u32,
    start: usize,
    count: usize,
}

/// The pack of a side.
#[derive(Default)]
enum Made {
    #[default]
    Nothing,
    /// Given what cannot be recorded, and nothing else yet.
    Begun(Half),
    Ready(Arc<Half>),
    Refused(Refusal),
}

/// More elements than any graph has tensors.
const MOST_ELEMENTS: i64 = 1 << 20;

/// Whether an attribute can be told later: its elements are words that mean the same then. Those that are addresses of
/// vectors do not.
fn is_recorded(number: u32, of_type: u32, count: i64, elements: *const c_void) -> bool {
    let is_known = matches!(
        (number, of_type),
        (name::PACK_UIDS, type_of::INT64) | (name::PACK_POINTERS | name::PACK_WORKSPACE, type_of::POINTER)
    );
    is_known && (0..=MOST_ELEMENTS).contains(&count) && (count == 0 || !elements.is_null())
}

impl Pack {
    pub(crate) fn new() -> Self {
        Self(Mutex::default())
    }

    fn lock(&self) -> MutexGuard<'_, Recorded> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn clear(&self) {
        let made = std::mem::take(&mut *self.lock());
        drop(made);
    }

    /// Sets an attribute.
    ///
    /// # Safety
    /// `elements` points to so many elements of the type, or is null.
    pub(crate) unsafe fn set(
        &self,
        function: &str,
        number: u32,
        of_type: u32,
        count: i64,
        elements: *const c_void,
    ) -> u32 {
        let mut recorded = self.lock();
        if recorded.is_finalized {
            return errors::fail(function, status::NOT_INITIALIZED, "the variant pack is finalized");
        }
        if !is_recorded(number, of_type, count, elements) {
            // SAFETY: as promised by the caller.
            return unsafe { recorded.tell(function, number, of_type, count, elements) };
        }
        let (start, count) = (recorded.elements.len(), count as usize);
        // SAFETY: as promised by the caller; elements of these types are words, read unaligned.
        let word = |index: usize| unsafe { elements.cast::<u64>().add(index).read_unaligned() };
        recorded.elements.extend((0..count).map(word));
        recorded.rows.push(Row { name: number, of_type, start, count });
        status::SUCCESS
    }

    /// Finalizes it: uids and pointers are there, as many of one as of the other. What else may be wrong shows when it is made.
    pub(crate) fn finalize(&self, function: &str) -> u32 {
        let mut recorded = self.lock();
        let count = |number: u32| recorded.rows.iter().rev().find(|row| row.name == number).map(|row| row.count);
        let is_whole = count(name::PACK_UIDS).is_some() && count(name::PACK_UIDS) == count(name::PACK_POINTERS);
        if recorded.is_finalized || !is_whole {
            let text = "a variant pack that is not finalized yet, with a pointer for every uid, is wanted";
            return errors::fail(function, status::BAD_PARAM, text);
        }
        recorded.is_finalized = true;
        status::SUCCESS
    }

    /// The pack of a side.
    pub(crate) fn of(&self, side: Side) -> Result<Arc<Half>, Refusal> {
        let mut recorded = self.lock();
        if !recorded.is_finalized {
            return Err(Refusal::new(side, status::BAD_PARAM, "the variant pack is not finalized"));
        }
        recorded.of(side)
    }
}

impl Recorded {
    fn of(&mut self, side: Side) -> Result<Arc<Half>, Refusal> {
        let begun = match std::mem::take(&mut self.sides[side as usize]) {
            Made::Ready(half) => Ok(half),
            Made::Refused(refusal) => Err(refusal),
            Made::Begun(half) => self.finish(half),
            Made::Nothing => Half::new(side, kind::PACK).and_then(|half| self.finish(half)),
        };
        self.sides[side as usize] = match &begun {
            Ok(half) => Made::Ready(Arc::clone(half)),
            Err(refusal) => Made::Refused(refusal.clone()),
        };
        begun
    }

    /// Gives a side's pack what was recorded.
    fn finish(&self, half: Half) -> Result<Arc<Half>, Refusal> {
        for &Row { name, of_type, start, count } in &self.rows {
            let elements = &self.elements[start..start + count];
            // SAFETY: there are so many elements, which are words.
            unsafe { half.set(name, of_type, count as i64, elements.as_ptr().cast()) }?;
        }
        half.finalize()?;
        Ok(Arc::new(half))
    }

    /// Gives both sides what cannot be recorded; gives the status of the side that takes it.
    ///
    /// # Safety
    /// As [`Pack::set`].
    unsafe fn tell(&mut self, function: &str, number: u32, of_type: u32, count: i64, elements: *const c_void) -> u32 {
        let mut refusals = Vec::new();
        for side in Side::BOTH {
            let half = match std::mem::take(&mut self.sides[side as usize]) {
                Made::Begun(half) => Ok(half),
                Made::Refused(refusal) => Err(refusal),
                Made::Nothing | Made::Ready(_) => Half::new(side, kind::PACK),
            };
            let told = half.and_then(|half| {
                // SAFETY: as promised by the caller; the elements are no descriptors of either side.
                unsafe { half.set(number, of_type, count, elements) }.map(|()| half)
            });
            self.sides[side as usize] = match told {
                Ok(half) => Made::Begun(half),
                Err(refusal) => {
                    refusals.push(refusal.clone());
                    Made::Refused(refusal)
                }
            };
        }
        match refusals.len() {
            2 => {
                // as if it had not been asked for
                self.sides = Default::default();
                errors::refuse(function, &refusals.iter().collect::<Vec<_>>())
            }
            _ => status::SUCCESS,
        }
    }
}
