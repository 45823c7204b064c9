//! A graph compiled for a device, and the same loaded on a GPU.

use std::sync::{Arc, OnceLock};

use super::KernelCache;
use super::identity::config_digest;
use super::text::{PlanOrigin, PlanText};
use crate::build::Build;
use crate::codegen::Source;
use crate::compile::sealed::{self, Unread};
use crate::compile::{Compiled, Compiler, Cubin, Origin};
use crate::device::Device;
use crate::engine::{self, EngineConfig, Selection};
use crate::error::Error;
use crate::frontend::{read_graph, write_v2};
use crate::graph::{AxisClasses, FinalizedGraph};
use crate::plan::{CudaGraph, DeviceContext, ExecutionPlan, Stream, VariantPack, Workspace};

/// What messages call a text that is read.
const PLACE: &str = "plan text";

/// A graph with the compiled kernel of one of its configs, for one kind of device. No GPU is needed to make one.
#[derive(Debug)]
pub struct Binary {
    selection: Arc<Selection>,
    config: EngineConfig,
    device: Device,
    source: Source,
    cubin: Arc<Cubin>,
}

impl Binary {
    /// Of a config that the engine offers.
    pub(super) fn build(
        selection: &Selection,
        config: &EngineConfig,
        device: &Device,
        compiler: &Compiler,
        kernels: Option<&KernelCache>,
    ) -> Result<(Self, Origin), Error> {
        let build = Build::new(selection, config.clone(), device)?;
        let found = kernels.and_then(|kernels| kernels.get(&build.source.text, device.capability));
        let Compiled { cubin, origin } = match found {
            Some(cubin) => Compiled { cubin, origin: Origin::Memory },
            None => build.compile(compiler)?,
        };
        let binary = Self::of(build, selection.clone(), device, cubin);
        if let Some(kernels) = kernels {
            kernels.put(&binary);
        }
        Ok((binary, origin))
    }

    fn of(build: Build, selection: Selection, device: &Device, cubin: Arc<Cubin>) -> Self {
        let Build { config, source, .. } = build;
        Self { selection: Arc::new(selection), config, device: device.clone(), source, cubin }
    }

    /// The graph.
    pub fn graph(&self) -> &Arc<FinalizedGraph> {
        self.selection.supported().graph()
    }

    /// The graph with its engine.
    pub fn selection(&self) -> &Arc<Selection> {
        &self.selection
    }

    /// The engine config.
    pub fn config(&self) -> &EngineConfig {
        &self.config
    }

    /// The device it was made for.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The CUDA text and its launches.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The machine code.
    pub fn cubin(&self) -> &Arc<Cubin> {
        &self.cubin
    }

    /// Whether it runs on a device.
    pub(super) fn require_device(&self, device: &Device) -> Result<(), Error> {
        require_same(&self.device, device).map_err(|message| Error::input("binary", message))
    }

    /// Everything that [`Self::from_json`] needs to make it again without compiling, with a checksum: the graph as a frontend
    /// file, engine config, device, and the machine code in base64.
    pub fn to_json(&self) -> String {
        sealed::seal(&PlanText {
            device: self.device.clone(),
            config: self.config.to_string(),
            graph: write_v2(&self.graph().to_graph()),
            source: sealed::hash(&self.source.text),
            cubin: Cubin::clone(&self.cubin),
        })
    }

    /// Reads what [`Self::to_json`] wrote, for a device. The graph is checked and lowered again, so that what is launched is
    /// what this version would launch; the machine code is taken as it is.
    ///
    /// # Errors
    /// [`Error::Input`] with the reason: damaged or no plan, written by another version, or made for another device.
    ///
    /// # Safety
    /// The text comes from [`Self::to_json`]: whoever wrote it may run code as the caller. Its checksum finds damage, not
    /// forgery.
    pub unsafe fn from_json(text: &str, device: &Device) -> Result<Self, Error> {
        // SAFETY: as promised by the caller.
        match unsafe { Reading::of(text, device) }? {
            Reading::Binary(binary) => Ok(*binary),
            Reading::Stale { why, .. } => Err(Error::input(PLACE, why)),
        }
    }
}

/// What a text is good for.
pub(super) enum Reading {
    /// The binary.
    Binary(Box<Binary>),
    /// Another version wrote it: the graph, to be built anew, and why.
    Stale { graph: Arc<FinalizedGraph>, why: String },
}

impl Reading {
    /// Reads a text for a device.
    ///
    /// # Errors
    /// As [`Binary::from_json`], but where another version wrote the text.
    ///
    /// # Safety
    /// As [`Binary::from_json`].
    pub(super) unsafe fn of(text: &str, device: &Device) -> Result<Self, Error> {
        let refused = |message: String| Error::input(PLACE, message);
        match sealed::open::<PlanText>(text) {
            Ok(content) => Self::of_content(content, device),
            Err(Unread::OtherVersion { why, content }) => {
                let origin: Option<PlanOrigin> = serde_json::from_str(&content).ok();
                let PlanOrigin { device: made_for, graph } = origin.ok_or_else(|| refused(why.clone()))?;
                require_same(&made_for, device).map_err(refused)?;
                Ok(Self::Stale { graph: finalized(&graph)?, why })
            }
            Err(Unread::Refused(why)) => Err(refused(why)),
        }
    }

    fn of_content(content: PlanText, device: &Device) -> Result<Self, Error> {
        let PlanText { device: made_for, config, graph, source, cubin } = content;
        require_same(&made_for, device).map_err(|why| Error::input(PLACE, why))?;
        let graph = finalized(&graph)?;
        match offered(&graph, &config, device)? {
            Some((selection, build)) if sealed::hash(&build.source.text) == source => {
                Ok(Self::Binary(Box::new(Binary::of(build, selection, device, Arc::new(cubin)))))
            }
            _ => Ok(Self::Stale { graph, why: "this version has no such kernel for the graph".to_owned() }),
        }
    }
}

fn finalized(graph: &str) -> Result<Arc<FinalizedGraph>, Error> {
    Ok(Arc::new(read_graph(PLACE, graph.as_bytes())?.finalize()?))
}

/// The kernel of a config that the text names; `None` where this version does not offer it.
fn offered(graph: &Arc<FinalizedGraph>, config: &str, device: &Device) -> Result<Option<(Selection, Build)>, Error> {
    let Ok(config) = config.parse::<EngineConfig>() else { return Ok(None) };
    let selection = engine::select(graph, device.capability).ok();
    let Some(selection) = selection.and_then(|selection| selection.with_engine(config.engine)) else { return Ok(None) };
    if require_offered(&selection, &config, device).is_err() {
        return Ok(None);
    }
    let build = Build::new(&selection, config, device)?;
    Ok(Some((selection, build)))
}

/// Asked of a config that a caller or a text names.
pub(super) fn require_offered(selection: &Selection, config: &EngineConfig, device: &Device) -> Result<(), Error> {
    if selection.offers(config, device) {
        return Ok(());
    }
    let engine = selection.engine().name();
    Err(Error::input("engine config", format!("{engine} does not offer {config} for this graph on {}", device.name)))
}

fn require_same(made_for: &Device, device: &Device) -> Result<(), String> {
    if made_for.kind() == device.kind() {
        return Ok(());
    }
    let describe = |device: &Device| {
        let Device { name, capability, sm_count, shared_bytes_per_block, .. } = device;
        format!(
            "{name} ({capability}, {sm_count} multiprocessors, {shared_bytes_per_block} bytes of shared memory a block)"
        )
    };
    Err(format!("required: made for {}; found: made for {}", describe(device), describe(made_for)))
}

/// A binary that is loaded on a GPU, ready to execute from any thread.
#[derive(Debug)]
pub struct Plan {
    binary: Arc<Binary>,
    execution: ExecutionPlan,
    /// Digest of the graph and the config, once it was asked for.
    digest: OnceLock<[u8; 32]>,
    /// Which axes of the graph have one extent, once it was executed in other shapes.
    axes: OnceLock<AxisClasses>,
}

impl Plan {
    /// Loads a binary.
    ///
    /// # Errors
    /// As [`ExecutionPlan::build`].
    pub fn load(context: &DeviceContext, binary: Arc<Binary>) -> Result<Self, Error> {
        // SAFETY: the source was rendered from an offered config of the graph, and the cubin compiled from it here, or taken
        // from a cache or a text that whoever named it trusts.
        let execution = unsafe { ExecutionPlan::build_shared(context, binary.graph(), &binary.source, &binary.cubin) }?;
        Ok(Self { binary, execution, digest: OnceLock::new(), axes: OnceLock::new() })
    }

    /// What was loaded.
    pub fn binary(&self) -> &Arc<Binary> {
        &self.binary
    }

    /// The plan as the driver has it.
    pub fn execution(&self) -> &ExecutionPlan {
        &self.execution
    }

    /// What the plan is known by, among those with a config that was asked for.
    pub(super) fn digest(&self) -> &[u8; 32] {
        self.digest.get_or_init(|| config_digest(self.binary.graph(), self.binary.config()))
    }

    /// Which axes of the graph have one extent.
    pub(super) fn axes(&self) -> &AxisClasses {
        self.axes.get_or_init(|| AxisClasses::of(self.binary.graph()))
    }

    /// Bytes of workspace an execution needs; may be zero.
    pub fn workspace_bytes(&self) -> u64 {
        self.execution.workspace_bytes()
    }

    /// Puts one execution on the stream and returns.
    ///
    /// # Errors
    /// As [`ExecutionPlan::execute`].
    ///
    /// # Safety
    /// As [`ExecutionPlan::execute`].
    pub unsafe fn execute(&self, pack: &VariantPack, workspace: Workspace, stream: &Stream) -> Result<(), Error> {
        // SAFETY: as promised by the caller.
        unsafe { self.execution.execute(pack, workspace, stream) }
    }

    /// An execution as a CUDA graph.
    ///
    /// # Errors
    /// As [`ExecutionPlan::instantiate`].
    pub fn instantiate(&self, pack: &VariantPack, workspace: Workspace) -> Result<CudaGraph, Error> {
        self.execution.instantiate(pack, workspace)
    }
}
