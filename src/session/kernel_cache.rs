//! Binaries that an application keeps itself.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::Binary;
use crate::compile::Cubin;
use crate::compile::sealed::{self, Sealed};
use crate::device::ComputeCapability;
use crate::error::Error;

/// What a binary is found by: chip, and hash of the CUDA text.
type Kernel = (String, String);

/// Binaries of an application's choice, by chip and CUDA text: they are found there before any other cache and without
/// NVRTC, and written as one text. Shared by threads.
#[derive(Debug, Default)]
pub struct KernelCache {
    kernels: Mutex<BTreeMap<Kernel, Arc<Cubin>>>,
}

#[derive(Serialize, Deserialize)]
struct CacheText {
    kernels: Vec<KernelText>,
}

#[derive(Serialize, Deserialize)]
struct KernelText {
    target: String,
    source: String,
    cubin: Cubin,
}

impl Sealed for CacheText {
    const KIND: &'static str = "fusewright kernel cache";
}

impl KernelCache {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    fn kernels(&self) -> std::sync::MutexGuard<'_, BTreeMap<Kernel, Arc<Cubin>>> {
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
        self.kernels().get(&(capability.target(), sealed::hash(source))).cloned()
    }

    /// Keeps a binary.
    pub fn put(&self, binary: &Binary) {
        let kernel = (binary.device().capability.target(), sealed::hash(&binary.source().text));
        self.kernels().entry(kernel).or_insert_with(|| Arc::clone(binary.cubin()));
    }

    /// All binaries, with a checksum.
    pub fn to_json(&self) -> String {
        let kernel = |((target, source), cubin): (&Kernel, &Arc<Cubin>)| KernelText {
            target: target.clone(),
            source: source.clone(),
            cubin: Cubin::clone(cubin),
        };
        sealed::seal(&CacheText { kernels: self.kernels().iter().map(kernel).collect() })
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
        let kernel = |text: KernelText| ((text.target, text.source), Arc::new(text.cubin));
        Ok(Self { kernels: Mutex::new(content.kernels.into_iter().map(kernel).collect()) })
    }
}
