//! Sessions: plans of graphs on the CPU engine, in the emulator, on a GPU.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use fusewright::build::Build;
use fusewright::device::{ComputeCapability, Device};
use fusewright::emulator::{self, EmulatedKernel};
use fusewright::engine::{self, HeuristicMode, Heuristics, RankedConfig};
use fusewright::error::Error;
use fusewright::reference;
use fusewright::session::{self as core, SessionOptions};
use pyo3::prelude::*;
use tempfile::TempDir;

use crate::config::{Config, Offered};
use crate::errors::{detached, input_error};
use crate::graph::Graph;
use crate::plan::{Executable, Plan};

/// What computes graphs.
enum Backend {
    Cpu,
    /// With the folder of kernels that were compiled for the CPU.
    Emulator(TempDir),
    Gpu(Arc<core::Session>),
}

/// What computes graphs, with the plans that were made of them.
pub(crate) struct Opened {
    backend: Backend,
    /// Those of the CPU engine and the emulator, by the graph's key and its outer tensors; a GPU's session keeps its own.
    plans: Mutex<HashMap<String, Arc<Executable>>>,
}

/// What was opened last on each device, by its name, for who takes any; not what takes all graphs for ones of dynamic shapes.
static LATEST: Mutex<BTreeMap<String, Weak<Opened>>> = Mutex::new(BTreeMap::new());

/// A device, and the plans that were made for it.
#[pyclass(frozen, module = "fusewright")]
pub(crate) struct Session {
    #[pyo3(get)]
    device: String,
    opened: Arc<Opened>,
    has_dynamic_shapes: bool,
}

#[pymethods]
impl Session {
    #[new]
    #[pyo3(signature = (device = "cuda:0", *, dynamic_shapes = false))]
    fn new(py: Python<'_>, device: &str, dynamic_shapes: bool) -> PyResult<Self> {
        let opened = detached(py, || Opened::new(device, dynamic_shapes))?;
        let absent = || input_error(py, format!("device: '{device}' is none; required: cpu, emulator or cuda:N"));
        Ok(Self { device: device.to_owned(), opened: opened.ok_or_else(absent)?, has_dynamic_shapes: dynamic_shapes })
    }

    /// The plan of a graph; of equal graphs it is made once.
    fn plan(&self, py: Python<'_>, graph: &Graph) -> PyResult<Plan> {
        let executable = detached(py, || self.opened.executable(graph))?;
        Ok(Plan::new(Arc::clone(&graph.graph), graph.clone(), executable))
    }

    /// Ways to compute a graph in the order of a heuristic mode; the first of mode A is the plan's.
    #[pyo3(signature = (graph, mode = "A"))]
    fn configs(&self, py: Python<'_>, graph: &Graph, mode: &str) -> PyResult<Vec<Config>> {
        let wrong = |required| input_error(py, format!("mode: found '{mode}'; required: {required}"));
        let mode = mode.parse().map_err(wrong)?;
        detached(py, || self.opened.configs(graph, mode))
    }

    /// The plan of a config that this device's session, or another's of such a device, offers.
    fn plan_with(&self, py: Python<'_>, config: &Config) -> PyResult<Plan> {
        let executable = detached(py, || self.opened.executable_with(config))?;
        Ok(Plan::new(Arc::clone(&config.graph.graph), config.graph.clone(), executable))
    }

    /// What was asked and done so far, by name; of a GPU alone.
    fn stats(&self) -> HashMap<&'static str, u64> {
        let Backend::Gpu(session) = &self.opened.backend else { return HashMap::new() };
        let stats = session.stats();
        HashMap::from([("misses", stats.misses()), ("plans", stats.plans as u64)])
    }

    fn __repr__(&self) -> String {
        let shapes = if self.has_dynamic_shapes { ", dynamic_shapes=True" } else { "" };
        format!("Session({:?}{shapes})", self.device)
    }
}

impl Opened {
    /// Opens a device; nothing where no device has this name.
    fn new(device: &str, has_dynamic_shapes: bool) -> Result<Option<Arc<Self>>, Error> {
        let Some((kind, number)) = kind_and_number(device) else { return Ok(None) };
        let backend = match kind {
            "cpu" => Backend::Cpu,
            "emulator" => Backend::Emulator(emulator_folder()?),
            _ => {
                let options = SessionOptions { has_dynamic_shapes, ..SessionOptions::default() };
                Backend::Gpu(Arc::new(core::Session::open(number, options)?))
            }
        };
        let opened = Arc::new(Self { backend, plans: Mutex::default() });
        if !has_dynamic_shapes {
            let mut latest = LATEST.lock().unwrap_or_else(PoisonError::into_inner);
            latest.insert(format!("{kind}:{number}"), Arc::downgrade(&opened));
        }
        Ok(Some(opened))
    }

    /// What is open on a device already, or else opened now.
    pub(crate) fn shared(device: &str) -> Result<Option<Arc<Self>>, Error> {
        let Some((kind, number)) = kind_and_number(device) else { return Ok(None) };
        let known = |latest: &BTreeMap<String, Weak<Self>>| latest.get(&format!("{kind}:{number}"))?.upgrade();
        let known = known(&LATEST.lock().unwrap_or_else(PoisonError::into_inner));
        known.map_or_else(|| Self::new(device, false), |opened| Ok(Some(opened)))
    }

    pub(crate) fn executable(&self, graph: &Graph) -> Result<Arc<Executable>, Error> {
        if let Backend::Gpu(session) = &self.backend {
            return Ok(Arc::new(Executable::Gpu(session.plan(&graph.graph)?)));
        }
        self.kept(graph.identity(), || match &self.backend {
            Backend::Emulator(folder) => {
                let device = emulated_device();
                let build = Build::first(&engine::select(&graph.graph, device.capability)?, &device)?;
                emulated(&build, folder.path())
            }
            _ => Ok(reference::supports(&graph.graph).map(|()| Executable::Cpu)?),
        })
    }

    fn executable_with(&self, config: &Config) -> Result<Arc<Executable>, Error> {
        let Config { graph, offered, .. } = config;
        match (&self.backend, offered) {
            (Backend::Cpu, Offered::Cpu) => self.executable(graph),
            (Backend::Gpu(session), Offered::Kernel { selection, config, .. }) => {
                Ok(Arc::new(Executable::Gpu(session.plan_with(selection, config)?)))
            }
            (Backend::Emulator(folder), Offered::Kernel { selection, config, .. }) => self
                .kept(format!("{} {config}", graph.identity()), || {
                    emulated(&Build::new(selection, config.clone(), &emulated_device())?, folder.path())
                }),
            _ => Err(Error::input("config", "it is another device's; required: one of this session's configs")),
        }
    }

    /// A plan of the CPU engine or the emulator, made if it is not there.
    fn kept(&self, key: String, make: impl FnOnce() -> Result<Executable, Error>) -> Result<Arc<Executable>, Error> {
        let known = |plans: &HashMap<String, Arc<Executable>>| plans.get(&key).cloned();
        if let Some(executable) = known(&self.plans.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(executable);
        }
        let made = Arc::new(make()?);
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Arc::clone(plans.entry(key).or_insert(made)))
    }

    /// Configs in a mode's order. What was measured, where it was, comes before the model's first.
    fn configs(&self, graph: &Graph, mode: HeuristicMode) -> Result<Vec<Config>, Error> {
        let (selection, device, measured) = match &self.backend {
            Backend::Cpu => {
                reference::supports(&graph.graph)?;
                return Ok(vec![Config::new(graph, Offered::Cpu, None)]);
            }
            Backend::Emulator(_) => {
                let device = emulated_device();
                (engine::select(&graph.graph, device.capability)?, Arc::new(device), None)
            }
            Backend::Gpu(session) => {
                let selection = session.check(&graph.graph)?;
                let measured = session.config(&selection)?;
                ((*selection).clone(), Arc::clone(session.device()), Some(measured))
            }
        };
        let Heuristics { selection, mut configs } = Heuristics::of(selection, &device, mode);
        if let Some(first) = configs.iter().position(|ranked| Some(&ranked.config) == measured.as_ref()) {
            configs[..=first].rotate_right(1);
        }
        let selection = Arc::new(selection);
        let offered = |ranked: RankedConfig| {
            let RankedConfig { config, estimated_us, .. } = ranked;
            let (selection, device) = (Arc::clone(&selection), Arc::clone(&device));
            Config::new(graph, Offered::Kernel { selection, config, device }, Some(estimated_us))
        };
        Ok(configs.into_iter().map(offered).collect())
    }
}

/// The parts of a device's name.
fn kind_and_number(device: &str) -> Option<(&str, u32)> {
    let (kind, number) = device.split_once(':').unwrap_or((device, "0"));
    match (kind, number.parse().ok()?) {
        ("cpu" | "emulator", 0) => Some((kind, 0)),
        ("cuda", number) => Some((kind, number)),
        _ => None,
    }
}

fn emulator_folder() -> Result<TempDir, Error> {
    emulator::compiler_version()?;
    let cannot = |error: std::io::Error| Error::environment(format!("no folder can be made for the emulator: {error}"));
    tempfile::tempdir().map_err(cannot)
}

/// The GPU whose kernels the emulator runs.
fn emulated_device() -> Device {
    Device::typical(ComputeCapability::SM_90)
}

/// A kernel, compiled for the CPU.
fn emulated(build: &Build, folder: &Path) -> Result<Executable, Error> {
    // SAFETY: the source was rendered from the graph that the kernel is run for.
    let kernel = unsafe { EmulatedKernel::compile(&build.source, folder) }?;
    let (engine, config) = (build.config.engine.to_owned(), build.config.to_string());
    Ok(Executable::Emulator { kernel, engine, config })
}
