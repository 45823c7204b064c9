//! Kernel caches: binaries that an application keeps.

use cudarc::cudnn::sys::cudnnBackendAttributeName_t as Name;

use super::descriptor::Given;
use super::failure::{Failure, Result};
use super::values::Values;
use crate::session::KernelCache;

/// An empty cache, or that of a text. Any plan may use it: kernels are told apart by their source.
pub(super) fn kernels(given: &Given<'_>) -> Result<KernelCache> {
    if let Some(graph) = given.descriptor(Name::CUDNN_ATTR_KERNEL_CACHE_OPERATION_GRAPH) {
        graph.graph()?;
    }
    let name = Name::CUDNN_ATTR_KERNEL_CACHE_JSON_REPRESENTATION;
    let Some(text) = given.text(name)? else { return Ok(KernelCache::new()) };
    // SAFETY: the program that set the text answers for where it comes from (`cudnnBackendSetAttribute`).
    unsafe { KernelCache::from_json(text) }.map_err(|error| Failure::of_build(&error))
}

pub(super) fn attribute(kernels: &KernelCache, name: Name) -> Option<Values> {
    let is_text = name == Name::CUDNN_ATTR_KERNEL_CACHE_JSON_REPRESENTATION;
    is_text.then(|| Values::Char(kernels.to_json().into_bytes()))
}
