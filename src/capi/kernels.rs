//! Kernel caches: binaries that an application keeps.

use cudarc::cudnn::sys::cudnnBackendAttributeName_t as Name;

use super::descriptor::{Given, Object, Referred, Values};
use super::failure::{Failure, Result};
use super::graph::OperationGraph;
use crate::session::KernelCache;

/// An empty cache, or that of a text. Any plan may use it: kernels are told apart by their source.
pub(super) fn kernels(given: &Given<'_>) -> Result<KernelCache> {
    if let Some(graph) = given.descriptor(Name::CUDNN_ATTR_KERNEL_CACHE_OPERATION_GRAPH) {
        graph.object::<OperationGraph>()?;
    }
    let name = Name::CUDNN_ATTR_KERNEL_CACHE_JSON_REPRESENTATION;
    let Some(text) = given.text(name)? else { return Ok(KernelCache::new()) };
    // SAFETY: the program that set the text answers for where it comes from (`cudnnBackendSetAttribute`).
    unsafe { KernelCache::from_json(text) }.map_err(|error| Failure::of_build(&error))
}

impl Object for KernelCache {
    fn attribute(&self, name: Name) -> Result<Option<Values>> {
        let is_text = name == Name::CUDNN_ATTR_KERNEL_CACHE_JSON_REPRESENTATION;
        Ok(is_text.then(|| Values::Char(self.to_json().into_bytes())))
    }
}

impl Referred for KernelCache {
    const WANTED: &'static str = "a kernel cache descriptor";
}
