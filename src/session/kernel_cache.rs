//! Binaries that an application keeps itself.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use super::Binary;
use crate::compile::Cubin;
use crate::compile::kernels::{KernelText, Kernels};
use crate::compile::sealed::{self, Sealed};
use crate::device::ComputeCapability;
use crate::error::Error;

/// Binaries of an application's choice, by chip and CUDA text: they are found there before any other cache and without
/// NVRTC, and written as one text. Shared by threads.
#[derive(Debug, Default)]
pub struct KernelCache {
    kernels: Mutex<Kernels>,
}

#[derive(Serialize, Deserialize)]
struct CacheText {
    kernels: Vec<KernelText>,
}

impl Sealed for CacheText {
    const KIND: &'static str = "fusewright kernel cache";
}

impl KernelCache {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    fn kernels(&self) -> MutexGuard<'_, Kernels> {
        self.kernels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many binaries it holds.
    pub fn len(&self) -> usize {
        self.kernels().len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The binary of a CUDA text.
    pub fn get(&self, source: &str, capability: ComputeCapability) -> Option<Arc<Cubin>> {
        self.kernels().get(source, capability).cloned()
    }

    /// Keeps a binary.
    pub fn put(&self, binary: &Binary) {
        self.kernels().keep(&binary.source().text, binary.device().capability, Arc::clone(binary.cubin()));
    }

    /// All binaries, with a checksum.
    pub fn to_json(&self) -> String {
        sealed::seal(&CacheText { kernels: self.kernels().to_texts() })
    }

    /// Reads what [`Self::to_json`] wrote.
    ///
    /// # Errors
    /// [`Error::Input`] with the reason: damaged, or written by another version.
    ///
    /// # Safety
    /// The text comes from [`Self::to_json`]: whoever wrote it may run code as the caller. Its checksum finds damage, not
    /// forgery.
    pub unsafe fn from_json(text: &str) -> Result<Self, Error> {
        let content: CacheText = sealed::open(text).map_err(|unread| Error::input("kernel cache", unread.why()))?;
        Ok(Self { kernels: Mutex::new(Kernels::of_texts(content.kernels)) })
    }
}
