//! Binaries by chip and CUDA text: what bundles and kernel caches hold.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Cubin, sealed};
use crate::device::ComputeCapability;

/// Binaries, found by chip and hash of the CUDA text.
#[derive(Debug, Default)]
pub(crate) struct Kernels(BTreeMap<(String, String), Arc<Cubin>>);

/// One of them in a text.
#[derive(Serialize, Deserialize)]
pub(crate) struct KernelText {
    target: String,
    source: String,
    cubin: Cubin,
}

impl Kernels {
    pub(crate) fn of_texts(texts: Vec<KernelText>) -> Self {
        let kernel = |KernelText { target, source, cubin }| ((target, source), Arc::new(cubin));
        Self(texts.into_iter().map(kernel).collect())
    }

    pub(crate) fn to_texts(&self) -> Vec<KernelText> {
        let text = |((target, source), cubin): (&(String, String), &Arc<Cubin>)| KernelText {
            target: target.clone(),
            source: source.clone(),
            cubin: Cubin::clone(cubin),
        };
        self.0.iter().map(text).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn get(&self, source: &str, capability: ComputeCapability) -> Option<&Arc<Cubin>> {
        self.0.get(&key(source, capability))
    }

    /// Keeps a binary, unless there is one.
    pub(crate) fn keep(&mut self, source: &str, capability: ComputeCapability, cubin: Arc<Cubin>) {
        self.0.entry(key(source, capability)).or_insert(cubin);
    }
}

fn key(source: &str, capability: ComputeCapability) -> (String, String) {
    (capability.target(), sealed::hash(source))
}
