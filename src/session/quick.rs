//! A plan that is there soon, until the best one is.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::Duration;

use super::binary::require_offered;
use super::{PendingPlan, Plan, Session};
use crate::device::Device;
use crate::engine::{EngineConfig, Knob, RankedConfig, Selection};
use crate::error::Error;
use crate::graph::FinalizedGraph;
use crate::plan::{Stream, VariantPack, Workspace};

/// How many times the time of the best config a quick one may take, by the engine's model.
const SLOWEST: f64 = 4.0;

/// How long the best plan is waited for before a quick one is built: a binary from a cache is there by then.
const FOUND_WITHIN: Duration = Duration::from_millis(5);

impl Session {
    /// A plan of a graph whose first execution waits less: with a config that is compiled in a third to a half of the time, while the best one is built in
    /// the background, which executions have once it is there. Where the best plan is in memory or its binary in a cache there is no other.
    ///
    /// Results of the two may differ in their last bits, as those of any two configs: sums have another order. Whoever wants the same bits from each
    /// execution asks for [`Self::plan`].
    ///
    /// # Errors
    /// Those of [`Self::plan`], of the quick config. Where the best one cannot be built, which is a warning in the log, executions stay with the quick one.
    pub fn plan_quick(self: &Arc<Self>, graph: &Arc<FinalizedGraph>) -> Result<QuickPlan, Error> {
        let selection = self.check(graph)?;
        let best = self.config(&selection)?;
        self.until_built(&selection, &best, self.plan_async(graph))
    }

    /// The same with a config of the engine as the best one: what builds it, in the background, is given.
    ///
    /// # Errors
    /// As [`Self::plan_quick`], and [`Error::Input`] for a config that the engine does not offer.
    pub(crate) fn plan_quick_with(
        self: &Arc<Self>,
        selection: &Arc<Selection>,
        config: &EngineConfig,
        build: impl FnOnce(&Self) -> Result<Arc<Plan>, Error> + Send + 'static,
    ) -> Result<QuickPlan, Error> {
        require_offered(selection, config, self.device())?;
        self.until_built(selection, config, self.in_background(build))
    }

    /// A quick plan until a pending one is there.
    fn until_built(
        &self,
        selection: &Arc<Selection>,
        best: &EngineConfig,
        mut pending: PendingPlan,
    ) -> Result<QuickPlan, Error> {
        if pending.is_ready_within(FOUND_WITHIN) {
            return Ok(QuickPlan::of(pending.wait()?));
        }
        let Some(quick) = quick_config(selection, best, self.device()) else {
            return Ok(QuickPlan::of(pending.wait()?));
        };
        let plan = self.plan_with(selection, &quick)?;
        let of_best = selection.lower(best, self.device()).workspace_bytes;
        Ok(QuickPlan {
            workspace_bytes: plan.workspace_bytes().max(of_best),
            quick: plan,
            best: OnceLock::new(),
            pending: Mutex::new(Some(pending)),
        })
    }
}

/// The config with the smallest tiles, which take least to compile: registers of accumulators are what compilers spend their time on. `None` where
/// configs have no tiles, or the best is the smallest.
fn quick_config(selection: &Selection, best: &EngineConfig, device: &Device) -> Option<EngineConfig> {
    let ranking = selection.candidates(device);
    let most = ranking.first()?.estimated_us * SLOWEST;
    let is_quick = |ranked: &&RankedConfig| {
        let tile = tile(&ranked.config);
        0 < tile && 2 * tile <= self::tile(best) && ranked.estimated_us <= most
    };
    // of equal tiles the fastest, which comes first
    ranking.iter().filter(is_quick).min_by_key(|ranked| tile(&ranked.config)).map(|ranked| ranked.config.clone())
}

/// Elements of a tile of C; 0 where there are no tiles.
fn tile(config: &EngineConfig) -> u32 {
    config.knob(Knob::TileM, 0) * config.knob(Knob::TileN, 0)
}

/// A plan that is there soon, and the best one once it is. Shared by threads.
#[derive(Debug)]
pub struct QuickPlan {
    quick: Arc<Plan>,
    best: OnceLock<Arc<Plan>>,
    /// The best plan while it is built.
    pending: Mutex<Option<PendingPlan>>,
    workspace_bytes: u64,
}

impl QuickPlan {
    /// The best plan, which was there.
    fn of(best: Arc<Plan>) -> Self {
        let workspace_bytes = best.workspace_bytes();
        Self { quick: Arc::clone(&best), best: OnceLock::from(best), pending: Mutex::default(), workspace_bytes }
    }

    /// The plan that an execution has now: never waits.
    pub fn current(&self) -> &Arc<Plan> {
        self.best.get().or_else(|| self.taken_over()).unwrap_or(&self.quick)
    }

    /// The best plan, which is waited for; the quick one where the best cannot be built.
    pub fn settled(&self) -> &Arc<Plan> {
        if let Some(best) = self.best.get() {
            return best;
        }
        // held while it waits: executions of other threads have the quick one meanwhile
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let best = pending.take().and_then(|pending| self.take_over(pending.wait()));
        best.or_else(|| self.best.get()).unwrap_or(&self.quick)
    }

    /// Whether the best plan has taken over, or will not.
    pub fn is_settled(&self) -> bool {
        self.current();
        self.best.get().is_some() || self.looked_at().is_some_and(|pending| pending.is_none())
    }

    /// Bytes of workspace an execution needs, with either plan; may be zero.
    pub fn workspace_bytes(&self) -> u64 {
        self.workspace_bytes
    }

    /// Puts one execution of the current plan on the stream and returns.
    ///
    /// # Errors
    /// As [`Plan::execute`].
    ///
    /// # Safety
    /// As [`Plan::execute`].
    pub unsafe fn execute(&self, pack: &VariantPack, workspace: Workspace, stream: &Stream) -> Result<(), Error> {
        // SAFETY: as promised by the caller.
        unsafe { self.current().execute(pack, workspace, stream) }
    }

    /// The best plan, where it was built by now.
    fn taken_over(&self) -> Option<&Arc<Plan>> {
        let mut pending = self.looked_at()?;
        if !pending.as_mut()?.is_ready() {
            return None;
        }
        self.take_over(pending.take()?.wait())
    }

    /// The pending plan; `None` while another thread looks, or waits for it.
    fn looked_at(&self) -> Option<MutexGuard<'_, Option<PendingPlan>>> {
        match self.pending.try_lock() {
            Ok(pending) => Some(pending),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The best plan, where that was built.
    fn take_over(&self, outcome: Result<Arc<Plan>, Error>) -> Option<&Arc<Plan>> {
        match outcome {
            Ok(best) => Some(self.best.get_or_init(|| best)),
            Err(error) => {
                tracing::warn!(%error, config = %self.quick.binary().config(), "the best config was not built: the quick one stays");
                None
            }
        }
    }
}
