//! The whole stage: find an NVRTC, ask the cache, compile.

use std::sync::{Arc, Mutex, PoisonError};

use super::{Cache, CacheKey, Cubin, Nvrtc, Options, Origin};
use crate::device::ComputeCapability;
use crate::error::Error;
use crate::graph::GraphKey;

/// What shall be compiled, and for what.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Graph the source was generated from.
    pub graph: GraphKey,
    /// Engine that generated it.
    pub engine: &'a str,
    /// Engine config, as it prints.
    pub config: &'a str,
    /// CUDA text, complete.
    pub source: &'a str,
    /// Exact chip.
    pub capability: ComputeCapability,
}

/// A cubin and where it came from.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The binary.
    pub cubin: Arc<Cubin>,
    /// Cache or compiler.
    pub origin: Origin,
}

/// Compiles through a cache, with whichever NVRTC knows the chip. Share one among threads.
#[derive(Debug)]
pub struct Compiler {
    cache: Cache,
    options: Options,
    /// Those loaded so far: one, or two where sm_70 is wanted beside newer chips.
    loaded: Mutex<Vec<Nvrtc>>,
}

impl Compiler {
    /// A compiler over a cache. Loads nothing yet.
    pub fn new(cache: Cache, options: Options) -> Self {
        Self { cache, options, loaded: Mutex::default() }
    }

    /// The cache in use.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// The NVRTC for a chip, loaded at the first call.
    ///
    /// # Errors
    /// [`Error::Environment`], as [`Nvrtc::load_for`].
    pub fn nvrtc(&self, capability: ComputeCapability) -> Result<Nvrtc, Error> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(nvrtc) = loaded.iter().find(|nvrtc| nvrtc.supports(capability)) {
            return Ok(nvrtc.clone());
        }
        let nvrtc = Nvrtc::load_for(capability)?;
        loaded.push(nvrtc.clone());
        Ok(nvrtc)
    }

    /// The binary of a source: from memory, from disk, or compiled now. At most one thread and one process compile the
    /// same request at a time; the others wait for it.
    ///
    /// # Errors
    /// Those of [`Nvrtc::load_for`] and [`Nvrtc::compile`]. Trouble with the cache is a warning in the log, no error.
    pub fn compile(&self, request: &Request<'_>) -> Result<Compiled, Error> {
        let Request { graph, engine, config, source, capability } = *request;
        let span = tracing::debug_span!("compile", graph_key = %graph, engine, config, %capability);
        let _entered = span.enter();
        let nvrtc = self.nvrtc(capability)?;
        let key = CacheKey::new(graph, engine, config, source, &nvrtc, capability);
        let name = format!("{engine}.cu");
        let compile = || nvrtc.compile(source, capability, &name, &self.options);
        let (cubin, origin) = self.cache.get_or_compile(&key, compile)?;
        tracing::debug!(?origin, milliseconds = cubin.milliseconds, "binary ready");
        Ok(Compiled { cubin, origin })
    }
}
