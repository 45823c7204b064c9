//! Binaries made ahead of time, for machines that shall not compile.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use super::folder::read_private_file;
use super::kernels::{KernelText, Kernels};
use super::sealed::{self, Sealed};
use super::{Cubin, Request};
use crate::device::{ComputeCapability, Device};
use crate::error::Error;
use crate::graph::GraphKey;

/// Larger files are not read: 4 GiB, some hundred thousand binaries of 30 KiB.
const LARGEST: u64 = 4 << 30;

/// Binaries of many graphs, for several chips, in one file: they are found before every other cache, without NVRTC, and with each the engine
/// config that it is of, which runs on devices of its kind whatever their models or tuning say; of several configs, which a graph of dynamic shapes
/// has, the first by the model. `fusewright compile --bundle` writes one.
///
/// A bundle holds for the version that wrote it, whose texts it has the binaries of.
///
/// ```no_run
/// use std::path::Path;
/// use std::sync::Arc;
/// use fusewright::compile::{Bundle, Cache, Compiler, Options};
/// use fusewright::session::{Session, SessionOptions};
///
/// // SAFETY: the file was written by `fusewright compile --bundle`, on a machine that is trusted.
/// let bundle = unsafe { Bundle::read(Path::new("/opt/model/kernels.bundle")) }?;
/// let cache = Cache::memory_only().with_bundles(vec![Arc::new(bundle)]);
/// let compiler = Arc::new(Compiler::new(cache, Options::default()));
/// let session = Session::open(0, SessionOptions { compiler, ..SessionOptions::default() })?;
/// # Ok::<(), fusewright::error::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Bundle {
    kernels: Kernels,
    configs: BTreeMap<Asked, Vec<String>>,
}

/// What configs were chosen for: a graph, or the class of a dynamic one, and a kind of device ([`Device::kind`]).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Asked {
    graph: String,
    target: String,
    sm_count: u32,
    shared_bytes_per_block: u32,
}

impl Asked {
    fn of(graph: GraphKey, device: &Device) -> Self {
        let (capability, sm_count, shared_bytes_per_block) = device.kind();
        Self { graph: graph.to_string(), target: capability.target(), sm_count, shared_bytes_per_block }
    }
}

#[derive(Serialize, Deserialize)]
struct BundleText {
    configs: Vec<(Asked, Vec<String>)>,
    kernels: Vec<KernelText>,
}

impl Sealed for BundleText {
    const KIND: &'static str = "fusewright bundle";
}

impl Bundle {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the binary of a request, which was made for a device.
    pub fn put(&mut self, request: &Request<'_>, device: &Device, cubin: Arc<Cubin>) {
        let configs = self.configs.entry(Asked::of(request.graph, device)).or_default();
        if !configs.iter().any(|config| config == request.config) {
            configs.push(request.config.to_owned());
        }
        self.kernels.keep(request.source, request.capability, cubin);
    }

    /// How many binaries it holds.
    pub fn len(&self) -> usize {
        self.kernels.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The binary of a CUDA text for a chip.
    pub fn get(&self, source: &str, capability: ComputeCapability) -> Option<&Arc<Cubin>> {
        self.kernels.get(source, capability)
    }

    /// The engine configs, as they print, of the binaries for a graph, or the class of a dynamic one, on devices of a kind; in the order in
    /// which they were added.
    pub fn configs(&self, graph: GraphKey, device: &Device) -> &[String] {
        self.configs.get(&Asked::of(graph, device)).map_or(&[], Vec::as_slice)
    }

    /// All of it as a text with a checksum.
    pub fn to_json(&self) -> String {
        sealed::seal(&BundleText {
            configs: self.configs.iter().map(|(asked, config)| (asked.clone(), config.clone())).collect(),
            kernels: self.kernels.to_texts(),
        })
    }

    /// Reads what [`Self::to_json`] wrote.
    ///
    /// # Errors
    /// [`Error::Input`] with the reason: damaged, no bundle, or written by another version.
    ///
    /// # Safety
    /// The text comes from [`Self::to_json`]: whoever wrote it may run code as the caller. Its checksum finds damage, not forgery.
    pub unsafe fn from_json(text: &str) -> Result<Self, Error> {
        Self::opened(text).map_err(|why| Error::input("bundle", why))
    }

    fn opened(text: &str) -> Result<Self, String> {
        let content: BundleText = sealed::open(text).map_err(sealed::Unread::why)?;
        Ok(Self { kernels: Kernels::of_texts(content.kernels), configs: content.configs.into_iter().collect() })
    }

    /// Reads a file that belongs to its user or root, and that nobody else may write.
    ///
    /// # Errors
    /// [`Error::Input`] with the reason: as [`Self::from_json`], unreadable, or others may write it.
    ///
    /// # Safety
    /// As [`Self::from_json`].
    pub unsafe fn read(path: &Path) -> Result<Self, Error> {
        Self::read_trusted(path).map_err(|why| Error::input(path.display().to_string(), why))
    }

    fn read_trusted(path: &Path) -> Result<Self, String> {
        let bytes = read_private_file(path, LARGEST)?;
        let text = String::from_utf8(bytes).map_err(|_| format!("is no {}", BundleText::KIND))?;
        Self::opened(&text)
    }

    /// Those that `FUSEWRIGHT_BUNDLE` names, read once a process; what cannot be read is told in the log, and done without.
    pub fn of_environment() -> &'static [Arc<Self>] {
        static BUNDLES: OnceLock<Vec<Arc<Bundle>>> = OnceLock::new();
        BUNDLES.get_or_init(|| {
            let read = |path: PathBuf| match Self::read_trusted(&path) {
                Ok(bundle) => Some(Arc::new(bundle)),
                Err(why) => {
                    tracing::warn!(file = %path.display(), why, "going on without the bundle");
                    None
                }
            };
            let paths = std::env::var_os("FUSEWRIGHT_BUNDLE").unwrap_or_default();
            std::env::split_paths(&paths).filter(|path| !path.as_os_str().is_empty()).filter_map(read).collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::super::{Cache, Compiler, Options, Origin};
    use super::*;
    use crate::graph::{DataType, Graph, PointwiseMode, Tensor};

    /// No NVRTC knows it.
    const UNKNOWN: ComputeCapability = ComputeCapability::new(3, 5);

    fn graph_key(extent: i64) -> GraphKey {
        let mut graph = Graph::new().io_data_type(DataType::Float).compute_data_type(DataType::Float);
        let x = graph.tensor(Tensor::new("x").row_major([1, 8, extent]));
        let y = graph.pointwise("relu", PointwiseMode::ReluFwd, &[x]);
        graph.set_output(y);
        graph.finalize().unwrap().key()
    }

    fn device() -> Device {
        Device { capability: UNKNOWN, ..Device::typical(ComputeCapability::SM_90) }
    }

    fn request(source: &str) -> Request<'_> {
        Request { graph: graph_key(8), engine: "simple", config: "simple tile_m=32", source, capability: UNKNOWN }
    }

    fn cubin(image: &[u8]) -> Arc<Cubin> {
        let (log, resources, warnings) = (String::new(), Vec::new(), Vec::new());
        Arc::new(Cubin { images: vec![image.to_vec()], log, resources, warnings, milliseconds: 1.0 })
    }

    fn bundle() -> Bundle {
        let mut bundle = Bundle::new();
        bundle.put(&request("one"), &device(), cubin(&[1, 2, 3]));
        bundle
    }

    fn read(text: &str) -> Result<Bundle, Error> {
        // SAFETY: nothing is executed.
        unsafe { Bundle::from_json(text) }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let again = read(&bundle().to_json()).unwrap();
        assert_eq!(again.len(), 1);
        assert_eq!(again.get("one", UNKNOWN).map(|cubin| cubin.images.clone()), Some(vec![vec![1, 2, 3]]));
        assert!(again.get("two", UNKNOWN).is_none() && again.get("one", ComputeCapability::SM_90).is_none());
        assert_eq!(again.configs(graph_key(8), &device()), ["simple tile_m=32"]);
        assert!(again.configs(graph_key(16), &device()).is_empty());
        assert!(again.configs(graph_key(8), &Device { sm_count: 7, ..device() }).is_empty());
    }

    #[test]
    fn a_graph_may_have_several_configs() {
        let mut bundle = bundle();
        for (config, source) in [("simple tile_m=64", "two"), ("simple tile_m=32", "three")] {
            bundle.put(&Request { config, ..request(source) }, &device(), cubin(&[4]));
        }
        let again = read(&bundle.to_json()).unwrap();
        assert_eq!(again.len(), 3);
        assert_eq!(again.configs(graph_key(8), &device()), ["simple tile_m=32", "simple tile_m=64"]);
    }

    #[test]
    fn a_compiler_takes_what_a_bundle_has_and_needs_no_nvrtc_for_it() {
        let compiler = Compiler::new(Cache::memory_only().with_bundles(vec![Arc::new(bundle())]), Options::default());
        let compiled = compiler.compile(&request("one")).unwrap();
        assert_eq!((compiled.origin, &compiled.cubin.images[..]), (Origin::Bundle, &[vec![1, 2, 3]][..]));
        let error = compiler.compile(&request("two")).unwrap_err().to_string();
        assert!(error.contains("NVRTC for sm_35"), "{error}");
    }

    #[test]
    fn what_is_damaged_or_no_bundle_is_refused_with_a_reason() {
        let text = bundle().to_json();
        let why = |text: &str| read(text).unwrap_err().to_string();
        assert!(why(&text.replace("tile_m=32", "tile_m=64")).contains("is damaged"), "{}", why(&text));
        assert!(why(&text.replace("fusewright bundle", "fusewright plan")).contains("required: a fusewright bundle"));
        assert!(why("{}").contains("is no fusewright bundle"));
        let version = format!("\"fusewright\":\"{}\"", env!("CARGO_PKG_VERSION"));
        assert!(why(&text.replace(&version, "\"fusewright\":\"0.0.0\"")).contains("found: form 2 of fusewright 0.0.0"));
    }

    #[test]
    fn a_file_that_others_may_write_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kernels.bundle");
        fs::write(&path, bundle().to_json()).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        // SAFETY: nothing is executed.
        let read = || unsafe { Bundle::read(&path) };
        assert_eq!(read().unwrap().len(), 1);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        let error = read().unwrap_err().to_string();
        assert!(error.contains("kernels.bundle") && error.contains("has mode 0666"), "{error}");
        fs::remove_file(&path).unwrap();
        let error = read().unwrap_err().to_string();
        assert!(error.contains("cannot be read"), "{error}");
    }
}
