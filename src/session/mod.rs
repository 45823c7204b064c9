//! The service for backends: one [`Session`] a device, which answers, builds, and keeps what it built.
//!
//! [`Session::check`] says whether a graph is taken, [`Session::plan`] gives an execution plan: from memory, else with a
//! binary from memory or disk, else compiled now. [`Session::plan_async`] builds in the background while the caller does
//! something else, [`Session::warm`] builds the graphs of a folder beforehand, [`Session::stats`] counts.
//! [`Session::plan_quick`] gives one that is built sooner until the best is there, [`Session::plan_in_shapes`] that of a plan's graph in other shapes.
//!
//! A [`Binary`] is a graph compiled for a device, which needs no GPU to be made; a [`Plan`] is one that is loaded. Both are
//! written as texts and read back without compiling; a [`KernelCache`] keeps many binaries in one text. A
//! [`Bundle`](crate::compile::Bundle) is a file of binaries made ahead of time, for machines without NVRTC: a session takes what it has first.
//!
//! # When
//!
//! You need this in a backend: it is the whole pipeline, with everything kept that was built. Without a GPU it answers and compiles.
//!
//! ```
//! # use std::sync::Arc;
//! # use fusewright::graph::{DataType, Graph, PointwiseMode, Tensor};
//! # let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
//! # let a = graph.tensor(Tensor::new("a").row_major([1, 64, 128]));
//! # let b = graph.tensor(Tensor::new("b").row_major([1, 128, 32]));
//! # let c = graph.matmul("matmul", a, b);
//! # graph.set_output(c);
//! # let graph = Arc::new(graph.finalize()?);
//! use fusewright::device::{ComputeCapability, Device};
//! use fusewright::session::{Session, SessionOptions};
//!
//! let session = Session::without_gpu(Device::typical(ComputeCapability::SM_90), SessionOptions::default());
//! let selection = session.check(&graph)?;
//! println!("{} takes it: {}", selection.engine().name(), session.config(&selection)?);
//! session.check(&graph)?;
//! assert_eq!(session.stats().check_hits, 1);
//!
//! // With a GPU: the plan, compiled now, found on disk, or still in memory.
//! if let Ok(session) = Session::open(0, SessionOptions::default()) {
//!     println!("{} bytes of workspace", session.plan(&graph)?.workspace_bytes());
//! }
//! # Ok::<(), fusewright::error::Error>(())
//! ```

mod binary;
mod identity;
mod kernel_cache;
mod quick;
mod shapes;
mod stats;
#[cfg(test)]
mod tests;
mod text;
mod warm;

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, TryRecvError};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

pub use binary::{Binary, Plan};
use binary::{Reading, require_offered};
pub use kernel_cache::KernelCache;
pub use quick::QuickPlan;
pub use shapes::{TensorShape, with_shapes};
pub use stats::Stats;
pub use warm::{WarmStep, Warmed};

use self::identity::{config_digest, graph_digest};
use self::stats::Counters;
use crate::compile::{Cache, Compiler, OnceMap, Options};
use crate::device::Device;
use crate::engine::{self, EngineConfig, Selection};
use crate::error::{Error, NotSupported};
use crate::graph::FinalizedGraph;
use crate::plan::{DeviceContext, Driver};
use crate::tuning::TuningStore;

/// The compiler of sessions that bring none of their own, from the first of them on.
static COMPILER: RwLock<Option<Arc<Compiler>>> = RwLock::new(None);

fn shared_compiler() -> Arc<Compiler> {
    let known = COMPILER.read().unwrap_or_else(PoisonError::into_inner).clone();
    known.unwrap_or_else(|| {
        // without the lock: what is wrong with the environment is logged
        let made = Arc::new(Compiler::new(Cache::from_environment(), Options::default()));
        Arc::clone(COMPILER.write().unwrap_or_else(PoisonError::into_inner).get_or_insert(made))
    })
}

/// Leaves the shared compiler to a thread that is no more, which was using it when the process forked; the next session makes
/// another.
pub(crate) fn replace_compiler() {
    std::mem::forget(COMPILER.write().unwrap_or_else(PoisonError::into_inner).take());
}

/// What a session works with.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// Compiles, with the caches of binaries. Without one of their own, the sessions of a process share one, with the
    /// caches that the environment names.
    pub compiler: Arc<Compiler>,
    /// Plans kept in memory, at most; those that were not asked for lately are forgotten, and dropped once nobody holds them.
    pub plans: usize,
    /// Whether winners of tuning are preferred to the engine's model.
    pub uses_tuning: bool,
    /// Whether all graphs are taken for ones of dynamic shapes ([`Graph::with_dynamic_shapes`](crate::graph::Graph::with_dynamic_shapes)): a graph
    /// that differs in extents and strides alone then takes the binary that is there, where its kernel allows it.
    pub has_dynamic_shapes: bool,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self { compiler: shared_compiler(), plans: 4096, uses_tuning: true, has_dynamic_shapes: false }
    }
}

/// A device, the compiler for it, and the plans that were built. Shared by threads: what several ask for at once is built
/// once, and what is there is found without waiting for anyone.
#[derive(Debug)]
pub struct Session {
    device: Arc<Device>,
    context: Option<DeviceContext>,
    compiler: Arc<Compiler>,
    tuning: TuningStore,
    verdicts: OnceMap<Arc<Verdict>>,
    plans: OnceMap<Arc<Plan>>,
    has_dynamic_shapes: bool,
    counters: Counters,
}

/// What became of a graph: the engine that takes it, or the whole refusal.
type Verdict = Result<Arc<Selection>, Arc<NotSupported>>;

impl Session {
    /// On a GPU, by its number among the visible ones.
    ///
    /// # Errors
    /// [`Error::Environment`]: no driver, or no such GPU.
    pub fn open(ordinal: u32, options: SessionOptions) -> Result<Self, Error> {
        Ok(Self::on(Driver::load()?.open(ordinal)?, options))
    }

    /// On a GPU that was opened.
    pub fn on(context: DeviceContext, options: SessionOptions) -> Self {
        let device = Arc::new(context.device().clone());
        Self::new(device, Some(context), options)
    }

    /// For a device that need not be there: it answers and compiles, but makes no plans.
    pub fn without_gpu(device: Device, options: SessionOptions) -> Self {
        Self::new(Arc::new(device), None, options)
    }

    fn new(device: Arc<Device>, context: Option<DeviceContext>, options: SessionOptions) -> Self {
        let SessionOptions { compiler, plans, uses_tuning, has_dynamic_shapes } = options;
        let cache = compiler.cache();
        let tuning = if uses_tuning { TuningStore::beside(cache) } else { TuningStore::of_bundles(cache.bundles()) };
        let (verdicts, plans) = (OnceMap::new(plans), OnceMap::new(plans));
        Self { device, context, compiler, tuning, verdicts, plans, has_dynamic_shapes, counters: Counters::default() }
    }

    /// The device that is answered and compiled for.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// The opened GPU, where there is one.
    pub fn context(&self) -> Option<&DeviceContext> {
        self.context.as_ref()
    }

    /// Whether a graph is taken, and by which engine. Where [`SessionOptions::has_dynamic_shapes`] says so, what is taken is the graph with
    /// dynamic shapes.
    ///
    /// # Errors
    /// [`Error::NotSupported`] with every broken rule, or the reason of each engine.
    pub fn check(&self, graph: &Arc<FinalizedGraph>) -> Result<Arc<Selection>, Error> {
        self.checked(graph_digest(graph), graph)
    }

    fn checked(&self, digest: [u8; 32], graph: &Arc<FinalizedGraph>) -> Result<Arc<Selection>, Error> {
        let decide = || {
            let graph = match self.has_dynamic_shapes && !graph.is_dynamic() {
                true => &Arc::new(graph.with_dynamic_shapes()?),
                false => graph,
            };
            let selected = engine::select(graph, self.device.capability);
            Ok::<_, Error>((Arc::new(selected.map(Arc::new)), ()))
        };
        let (verdict, made) = self.verdicts.get_or_make(digest, decide)?;
        self.counters.checked(made.is_none());
        verdict.as_ref().clone().map_err(Error::NotSupported)
    }

    /// The plan of a graph: from memory, else with the config that [`Self::config`] gives.
    ///
    /// # Errors
    /// Those of [`Self::check`] and [`Self::compile`]; [`Error::Environment`] where the session has no GPU, or the driver
    /// does not take the binary. No failure is kept: the next call tries again.
    pub fn plan(&self, graph: &Arc<FinalizedGraph>) -> Result<Arc<Plan>, Error> {
        let digest = graph_digest(graph);
        if let Some(plan) = self.plans.get(&digest) {
            self.counters.hit();
            return Ok(plan);
        }
        let selection = self.checked(digest, graph)?;
        self.planned(digest, || Ok((self.config(&selection)?, selection)), None)
    }

    /// The plan of a graph with a config of its engine.
    ///
    /// # Errors
    /// As [`Self::plan`], and [`Error::Input`] for a config that the engine does not offer.
    pub fn plan_with(&self, selection: &Arc<Selection>, config: &EngineConfig) -> Result<Arc<Plan>, Error> {
        self.plan_from(selection, config, None)
    }

    /// As [`Self::plan_with`], with the binary from a kernel cache; where that has none, it is put there.
    ///
    /// # Errors
    /// As [`Self::plan_with`].
    pub fn plan_from(
        &self,
        selection: &Arc<Selection>,
        config: &EngineConfig,
        kernels: Option<&KernelCache>,
    ) -> Result<Arc<Plan>, Error> {
        let capability = selection.supported().capability();
        if capability != self.device.capability {
            let message = format!("it was made for {capability}; required: {}", self.device.capability);
            return Err(Error::input("selection", message));
        }
        let digest = config_digest(selection.supported().graph(), config);
        let chosen = || {
            require_offered(selection, config, &self.device)?;
            Ok((config.clone(), Arc::clone(selection)))
        };
        let plan = self.planned(digest, chosen, kernels)?;
        // a plan that was in memory already is to be found there, too
        if let Some(kernels) = kernels {
            kernels.put(plan.binary());
        }
        Ok(plan)
    }

    fn planned(
        &self,
        digest: [u8; 32],
        chosen: impl FnOnce() -> Result<(EngineConfig, Arc<Selection>), Error>,
        kernels: Option<&KernelCache>,
    ) -> Result<Arc<Plan>, Error> {
        let make = || {
            let start = Instant::now();
            let context = self.context.as_ref().ok_or_else(no_gpu)?;
            let (config, selection) = chosen()?;
            let (binary, origin) = Binary::build(&selection, &config, &self.device, &self.compiler, kernels)?;
            let plan = Plan::load(context, Arc::new(binary))?;
            Ok::<_, Error>((Arc::new(plan), (origin, start.elapsed())))
        };
        let made = self.plans.get_or_make(digest, make);
        match &made {
            Ok((_, Some((origin, time)))) => self.counters.built(*origin, *time),
            Ok((_, None)) => self.counters.hit(),
            Err(_) => self.counters.failed(),
        }
        Ok(made?.0)
    }

    /// What a bundle has a binary of, or else the winner of tuning, or else the first config by the engine's model.
    ///
    /// # Errors
    /// As [`Selection::config`].
    pub fn config(&self, selection: &Selection) -> Result<EngineConfig, Error> {
        self.tuning.config(selection, &self.device)
    }

    /// A graph's binary, which a GPU of the same kind loads later: from the caches, or compiled now. It is not kept.
    ///
    /// # Errors
    /// As [`Compiler::compile`], and [`Error::Input`] for a config that the engine does not offer.
    pub fn compile(
        &self,
        selection: &Selection,
        config: &EngineConfig,
        kernels: Option<&KernelCache>,
    ) -> Result<Binary, Error> {
        require_offered(selection, config, &self.device)?;
        Ok(Binary::build(selection, config, &self.device, &self.compiler, kernels)?.0)
    }

    /// The plan of a text that [`Binary::to_json`] wrote. Nothing is compiled, unless another version wrote the text: as with any
    /// cache that is a miss, and the plan is that of [`Self::plan`] for the text's graph.
    ///
    /// # Errors
    /// [`Error::Input`] with the reason: the text is damaged, or for another device. [`Error::Environment`] where the session has
    /// no GPU, or the driver does not take the binary. Where another version wrote it, those of [`Self::plan`].
    ///
    /// # Safety
    /// As [`Binary::from_json`].
    pub unsafe fn load(&self, text: &str) -> Result<Arc<Plan>, Error> {
        // SAFETY: as promised by the caller.
        match unsafe { Reading::of(text, &self.device) }? {
            Reading::Binary(binary) => Ok(Arc::new(self.load_binary(Arc::new(*binary))?)),
            Reading::Stale { graph, why } => {
                tracing::info!(graph_key = %graph.key(), why, "plan text is a miss: built anew");
                self.plan(&graph)
            }
        }
    }

    /// The plan of a binary.
    ///
    /// # Errors
    /// [`Error::Input`] where it was made for another device; [`Error::Environment`] where the session has no GPU, or the driver
    /// does not take the binary.
    pub fn load_binary(&self, binary: Arc<Binary>) -> Result<Plan, Error> {
        binary.require_device(&self.device)?;
        Plan::load(self.context.as_ref().ok_or_else(no_gpu)?, binary)
    }

    /// Builds a plan in the background; it is found in memory afterwards.
    pub fn plan_async(self: &Arc<Self>, graph: &Arc<FinalizedGraph>) -> PendingPlan {
        let graph = Arc::clone(graph);
        self.in_background(move |session| session.plan(&graph))
    }

    /// Builds in the background what a function builds.
    fn in_background(
        self: &Arc<Self>,
        build: impl FnOnce(&Self) -> Result<Arc<Plan>, Error> + Send + 'static,
    ) -> PendingPlan {
        let (sender, receiver) = mpsc::sync_channel(1);
        let session = Arc::clone(self);
        let run = move || {
            let build = std::panic::AssertUnwindSafe(|| build(&session));
            let outcome = std::panic::catch_unwind(build);
            // where nobody waits any more, the plan stays in memory all the same
            let _ = sender.send(outcome.unwrap_or_else(|_| Err(panicked())));
        };
        // a worker that waits for another could wait for ever
        if rayon::current_thread_index().is_some() {
            run()
        } else {
            rayon::spawn(run)
        }
        PendingPlan { receiver, outcome: None }
    }

    /// What was asked and done so far.
    pub fn stats(&self) -> Stats {
        self.counters.stats(self.plans.len())
    }

    /// Forgets every plan and verdict; plans that are held elsewhere go on.
    pub fn clear(&self) {
        self.plans.clear();
        self.verdicts.clear();
    }
}

fn no_gpu() -> Error {
    Error::environment("this session has no GPU to load plans on: it was made for a device that need not be there")
}

fn panicked() -> Error {
    Error::Wrong("a defect of this library: the build panicked".to_owned())
}

/// A plan that is being built.
#[derive(Debug)]
pub struct PendingPlan {
    receiver: Receiver<Result<Arc<Plan>, Error>>,
    /// What was received and not yet asked for.
    outcome: Option<Result<Arc<Plan>, Error>>,
}

impl PendingPlan {
    /// Whether the build has ended, so that [`Self::wait`] returns at once.
    pub fn is_ready(&mut self) -> bool {
        if self.outcome.is_none() {
            self.outcome = match self.receiver.try_recv() {
                Ok(outcome) => Some(outcome),
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Disconnected) => Some(Err(panicked())),
            };
        }
        self.outcome.is_some()
    }

    /// The same where the build ends within some time.
    fn is_ready_within(&mut self, time: Duration) -> bool {
        if self.outcome.is_none() {
            self.outcome = match self.receiver.recv_timeout(time) {
                Ok(outcome) => Some(outcome),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => Some(Err(panicked())),
            };
        }
        self.outcome.is_some()
    }

    /// Waits for the outcome.
    ///
    /// # Errors
    /// As [`Session::plan`].
    pub fn wait(self) -> Result<Arc<Plan>, Error> {
        self.outcome.unwrap_or_else(|| self.receiver.recv().unwrap_or_else(|_| Err(panicked())))
    }
}
