//! Binaries of this process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use super::Origin;
use crate::compile::Cubin;
use crate::error::Error;

/// Entries kept at most. A process that meets more kernels than this forgets all and starts again from disk: simpler
/// than an order of use, and rare.
const CAPACITY: usize = 8192;

/// A binary, or the place where it will be.
#[derive(Debug, Default)]
struct Slot {
    ready: OnceLock<Arc<Cubin>>,
    /// Held by the thread that makes it.
    making: Mutex<()>,
}

/// Binaries by digest of their key.
#[derive(Debug, Default)]
pub(super) struct Memory {
    slots: RwLock<HashMap<[u8; 32], Arc<Slot>>>,
}

impl Memory {
    /// The binary, made by the first caller; others with the same digest wait for it. A failure is not kept: the next
    /// caller tries again.
    pub(super) fn get_or_make(
        &self,
        digest: [u8; 32],
        make: impl FnOnce() -> Result<(Cubin, Origin), Error>,
    ) -> Result<(Arc<Cubin>, Origin), Error> {
        let slot = self.slot(digest);
        if let Some(cubin) = slot.ready.get() {
            return Ok((Arc::clone(cubin), Origin::Memory));
        }
        let _making = slot.making.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cubin) = slot.ready.get() {
            return Ok((Arc::clone(cubin), Origin::Memory));
        }
        let (cubin, origin) = make()?;
        let cubin = slot.ready.get_or_init(|| Arc::new(cubin));
        Ok((Arc::clone(cubin), origin))
    }

    pub(super) fn clear(&self) {
        self.slots.write().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn slot(&self, digest: [u8; 32]) -> Arc<Slot> {
        if let Some(slot) = self.slots.read().unwrap_or_else(PoisonError::into_inner).get(&digest) {
            return Arc::clone(slot);
        }
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        if slots.len() >= CAPACITY {
            slots.clear();
        }
        Arc::clone(slots.entry(digest).or_default())
    }
}
