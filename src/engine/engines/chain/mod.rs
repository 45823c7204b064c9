//! Attention whose probabilities lie in memory as a chain of launches: products by the engines of products, what is between them in passes, and
//! values between launches in the workspace.
//!
//! Each part is a graph that an engine of ours takes on every chip, so that a chain runs wherever its parts do, in tiles of `wgmma` where there
//! are some, and gives the same bits each time. No part knows of the others: a value between two parts lies in memory for both.

mod parts;
mod values;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::scalar::Scalar;
use super::warp_mma::WarpMma;
use super::warpgroup_mma::WarpgroupMma;
use crate::device::{ComputeCapability, Device};
use crate::engine::builder::KernelBuilder;
use crate::engine::lowering::LAUNCH_SECONDS;
use crate::engine::{Bound, Engine, EngineConfig, Estimate, Offer, RankedConfig, Term};
use crate::error::Reason;
use crate::fusion::{fuse, is_mha};
use crate::graph::{FinalizedGraph, TensorId};
use crate::kernel::{DropoutMaskKernel, Kernel};
use crate::support::mha_records::*;
use crate::support::{Rule, Supported};
use parts::{Divided, Part, Work};

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chain;

const NAME: &str = "chain";

/// Products and passes take other types, any extents and strides, and any operations on scores (`docs/spec/attention.md` AT-L14).
static RELAXED: &[&Rule] = &[
    &MHAF_S_REORDER,
    &MHAF_MM_IN,
    &MHAF_RED,
    &MHAF_USERMASK,
    &MHAF_G4,
    &MHAF_K64,
    &MHAF_MN512,
    &MHAF_SEQ_TRAIN,
    &MHAF_STRIDE_QVO,
    &MHAF_STRIDE_K,
    &MHAF_CC,
    &MHAB_FIXED,
    &MHAB_MM_IN,
    &MHAB_K2,
    &MHAB_K512,
    &MHAB_STRIDE,
    &MHAB_REORDER,
];

impl Engine for Chain {
    fn id(&self) -> i64 {
        8
    }

    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "attention whose probabilities lie in memory, forward and backward: products and passes, one launch behind the other"
    }

    fn relaxes(&self) -> &'static [&'static Rule] {
        RELAXED
    }

    fn concerns(&self, graph: &FinalizedGraph) -> bool {
        is_mha(graph)
    }

    fn take(&self, supported: &Supported) -> Result<Box<dyn Offer>, Reason> {
        if supported.fusion().mha().is_none() {
            return Err(Reason::Graph("a graph that is no attention with its probabilities in memory".to_owned()));
        }
        if supported.capability() < ComputeCapability::new(7, 0) {
            return Err(Reason::Chip(format!("{} is older than sm_70", supported.capability())));
        }
        let whole = values::of_primitives(supported.graph()).map_err(Reason::Graph)?;
        let Divided { kept, parts } = parts::cut(&whole).map_err(Reason::Graph)?;
        let parts = parts.into_iter().map(|part| Offered::of(supported, part)).collect::<Result<_, _>>()?;
        Ok(Box::new(Parts { whole: Arc::new(whole), kept, parts }))
    }
}

/// What is offered for a chain.
#[derive(Debug)]
struct Parts {
    /// All that the parts compute.
    whole: Arc<FinalizedGraph>,
    /// Values between parts, with the words of four bytes that each has.
    kept: Vec<(TensorId, i64)>,
    /// In the order of their launches.
    parts: Vec<Offered>,
}

/// What is offered for a part.
#[derive(Debug)]
enum Offered {
    /// By engines that take it, the preferred first.
    Engines(Vec<Box<dyn Offer>>),
    /// What is kept, drawn at random.
    Mask(Arc<FinalizedGraph>, DropoutMaskKernel),
}

impl Offered {
    fn of(supported: &Supported, part: Part) -> Result<Self, Reason> {
        let fused = || fuse(Arc::clone(&part.graph)).map_err(|misfit| Reason::Graph(misfit.to_string()));
        match part.work {
            Work::Mask(mask) => Ok(Self::Mask(part.graph, mask)),
            Work::Passes => Ok(Self::Engines(vec![Scalar.take(&supported.of_part(fused()?))?])),
            Work::Product => product(&supported.of_part(fused()?)).map(Self::Engines),
        }
    }

    /// The best config of the first engine that has one for a device.
    fn best(&self, device: &Device) -> Option<(&dyn Offer, RankedConfig)> {
        let Self::Engines(offers) = self else { return None };
        offers.iter().find_map(|offer| Some((&**offer, offer.candidates(device).into_iter().next()?)))
    }

    /// What it is expected to take, in microseconds; `None` where the device has too little shared memory.
    fn time(&self, device: &Device) -> Option<f64> {
        match self {
            Self::Engines(_) => self.best(device).map(|(_, ranked)| ranked.estimated_us),
            Self::Mask(..) => Some(0.0),
        }
    }

    fn lower(&self, device: &Device) -> Option<Kernel> {
        match self {
            Self::Engines(_) => self.best(device).map(|(offer, ranked)| offer.lower(&ranked.config, device)),
            Self::Mask(graph, mask) => {
                let mut builder = KernelBuilder::new(graph, &config());
                super::attention::plan::push_mask(&mut builder, graph, mask);
                Some(builder.finish())
            }
        }
    }
}

/// What engines of products offer for a graph around one, the preferred first.
///
/// # Errors
/// Why none takes it: what the last one says.
fn product(supported: &Supported) -> Result<Vec<Box<dyn Offer>>, Reason> {
    let engines: [&dyn Engine; 3] = [&WarpgroupMma, &WarpMma, &Scalar];
    let mut offers = Vec::new();
    let mut refused = None;
    for engine in engines {
        match engine.take(supported) {
            Ok(offer) => offers.push(offer),
            Err(reason) => refused = Some(reason),
        }
    }
    match refused {
        Some(reason) if offers.is_empty() => Err(reason),
        _ => Ok(offers),
    }
}

/// A chain has one config: each part has the best of its own.
fn config() -> EngineConfig {
    EngineConfig::of_fields::<()>(NAME, &[], &())
}

impl Offer for Parts {
    fn candidates(&self, device: &Device) -> Vec<RankedConfig> {
        let times: Option<Vec<f64>> = self.parts.iter().map(|part| part.time(device)).collect();
        let Some((first, others)) = times.as_ref().and_then(|times| times.split_first()) else { return Vec::new() };
        let behind = |estimate: Estimate, time: &f64| {
            estimate.and(Term { bound: Bound::Stored, time: time + LAUNCH_SECONDS * 1e6 })
        };
        let estimate = others.iter().fold(Estimate::of_memory(*first), behind);
        vec![RankedConfig { config: config(), through_workspace: None, estimated_us: estimate.total(), estimate }]
    }

    fn remarks(&self) -> Vec<String> {
        let bytes: i64 = self.kept.iter().map(|kept| kept.1 * 4).sum();
        vec![format!(
            "{} launches or more, one behind the other, with {} values between them in {bytes} bytes of the workspace",
            self.parts.len(),
            self.kept.len()
        )]
    }

    fn lower(&self, config: &EngineConfig, device: &Device) -> Kernel {
        let mut builder = KernelBuilder::new(&self.whole, config);
        let kept: BTreeMap<TensorId, u64> = self.kept.iter().map(|&(id, words)| (id, builder.region(words))).collect();
        let chain = builder.finish();
        let behind = chain.workspace_bytes;
        let parts = self.parts.iter().filter_map(|part| part.lower(device)).enumerate();
        parts.fold(chain, |chain, (number, part)| chain.then(part, number, &kept, behind))
    }
}
