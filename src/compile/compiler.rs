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

    /// That binaries for a chip may be had: there is an NVRTC, or a bundle, which may do without.
    ///
    /// # Errors
    /// As [`Self::nvrtc`].
    pub fn require(&self, capability: ComputeCapability) -> Result<(), Error> {
        if self.cache.bundles().is_empty() { self.nvrtc(capability).map(drop) } else { Ok(()) }
    }

    /// The binary of a source: from a bundle, from memory, from disk, or compiled now. At most one thread and one process compile the
    /// same request at a time; the others wait for it.
    ///
    /// # Errors
    /// Those of [`Nvrtc::load_for`] and [`Nvrtc::compile`]. Trouble with the cache is a warning in the log, no error.
    pub fn compile(&self, request: &Request<'_>) -> Result<Compiled, Error> {
        let Request { graph, engine, config, source, capability } = *request;
        let span = tracing::debug_span!("compile", graph_key = %graph, engine, config, %capability);
        let _entered = span.enter();
        if let Some(cubin) = self.cache.bundled(source, capability) {
            tracing::debug!("binary of a bundle");
            return Ok(Compiled { cubin, origin: Origin::Bundle });
        }
        let nvrtc = self.nvrtc(capability)?;
        let key = CacheKey::new(graph, engine, config, source, &nvrtc, capability);
        let name = format!("{engine}.cu");
        let compile = || nvrtc.compile(source, capability, &name, &self.options);
        let (cubin, origin) = self.cache.get_or_compile(&key, compile)?;
        tracing::debug!(?origin, milliseconds = cubin.milliseconds, "binary ready");
        Ok(Compiled { cubin, origin })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::nvrtc_or_skip;
    use super::*;
    use crate::graph::{DataType, Graph, PointwiseMode, Tensor};

    fn graph_key() -> GraphKey {
        let mut graph = Graph::new().io_data_type(DataType::Float).compute_data_type(DataType::Float);
        let x = graph.tensor(Tensor::new("x").row_major([1, 8, 8]));
        let y = graph.pointwise("relu", PointwiseMode::ReluFwd, &[x]);
        graph.set_output(y);
        graph.finalize().unwrap().key()
    }

    fn request(source: &str, capability: ComputeCapability) -> Request<'_> {
        Request { graph: graph_key(), engine: "simple", config: "block 32", source, capability }
    }

    #[test]
    fn a_source_is_compiled_once_per_chip_and_then_found() {
        let Some(nvrtc) = nvrtc_or_skip(|| Nvrtc::load_for(ComputeCapability::SM_90)) else { return };
        let folder = tempfile::tempdir().unwrap();
        let compiler = || Compiler::new(Cache::at(folder.path()), Options::default());
        let first = compiler();
        let source = "extern \"C\" __global__ void k(float* y) { *y = 1.0f; }";
        let origin = |compiler: &Compiler, capability| compiler.compile(&request(source, capability)).unwrap().origin;
        assert_eq!(origin(&first, ComputeCapability::SM_90), Origin::Compiled);
        assert_eq!(origin(&first, ComputeCapability::SM_90), Origin::Memory);
        assert_eq!(origin(&first, ComputeCapability::new(8, 0)), Origin::Compiled);
        assert_eq!(origin(&compiler(), ComputeCapability::SM_90), Origin::Disk);

        let entries = first.cache().entries().unwrap();
        let keys: Vec<&CacheKey> = entries.iter().map(|entry| entry.content.as_ref().unwrap()).collect();
        assert_eq!(keys.len(), 2);
        let hopper = keys.iter().find(|key| key.target() == "sm_90a").unwrap();
        assert_eq!((hopper.engine(), hopper.config()), ("simple", "block 32"));
        assert_eq!(hopper.graph(), graph_key().to_string());
        assert!(hopper.nvrtc().starts_with(&nvrtc.version().to_string()), "{}", hopper.nvrtc());
    }

    #[test]
    fn a_chip_that_no_nvrtc_knows_is_an_error_of_the_environment() {
        let compiler = Compiler::new(Cache::memory_only(), Options::default());
        let error = compiler.compile(&request("", ComputeCapability::new(3, 5))).unwrap_err();
        assert_eq!(error.exit_code(), 3);
        assert!(error.to_string().contains("NVRTC for sm_35 (version none) was not found"), "{error}");
    }

    #[test]
    fn compilers_are_shared_by_threads() {
        fn shared<T: Send + Sync>() {}
        shared::<Compiler>();
        shared::<Nvrtc>();
    }
}
