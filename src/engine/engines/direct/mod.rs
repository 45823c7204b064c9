//! The engine of depthwise convolutions, memory-bound, so no matrix product, but windows that slide over vectors of channels:
//! forward and data gradients with any pointwise epilogue, filter gradients with any at all.

mod filters;
mod images;
mod model;
mod windows;

use std::sync::Arc;

use crate::device::{ComputeCapability, Device};
use crate::engine::builder::KernelBuilder;
use crate::engine::config::{Field, ranked};
use crate::engine::lowering::{RELAXED_WITH_CORE, lowered_product, taken_apart};
use crate::engine::{Bound, Engine, EngineConfig, Estimate, Floor, Knob, Offer, RankedConfig, Term};
use crate::error::Reason;
use crate::fusion::ProductKind;
use crate::graph::{ConvolutionDirection, FinalizedGraph};
use crate::kernel::{Kernel, Strip};
use crate::support::{Rule, Supported};
use filters::Filters;
use images::Images;
use model::Work;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Direct;

const NAME: &str = "direct";

impl Engine for Direct {
    fn id(&self) -> i64 {
        3
    }

    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "depthwise convolutions without matrix products: windows over vectors of channels, any pointwise epilogue, any at all of filter gradients"
    }

    fn relaxes(&self) -> &'static [&'static Rule] {
        RELAXED_WITH_CORE
    }

    fn take(&self, supported: &Supported) -> Result<Box<dyn Offer>, Reason> {
        let capability = supported.capability();
        if capability < ComputeCapability::new(7, 0) {
            return Err(Reason::Chip(format!("{capability} is older than sm_70")));
        }
        let fusion = &*taken_apart(supported).map_err(Reason::Graph)?;
        let product = lowered_product(fusion)?;
        match product.kind {
            ProductKind::Convolution(ConvolutionDirection::BackwardFilter) => {
                Ok(Box::new(Offered(Filters::new(fusion, product).map_err(Reason::Graph)?)))
            }
            _ => Ok(Box::new(Offered(Images::new(fusion, product).map_err(Reason::Graph)?))),
        }
    }
}

/// The strip of a thread.
#[derive(Debug)]
struct Config {
    channels: u32,
    outputs: u32,
    rows: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { channels: 2, outputs: 1, rows: 1 }
    }
}

impl Config {
    fn of(strip: Strip) -> Self {
        Self { channels: strip.channels as u32, outputs: strip.outputs as u32, rows: strip.rows as u32 }
    }

    fn strip(&self) -> Strip {
        Strip { channels: self.channels.into(), outputs: self.outputs.into(), rows: self.rows.into() }
    }
}

const FIELDS: &[Field<Config>] = &[
    Field { knob: Knob::Channels, get: |config| config.channels, set: |config, value| config.channels = value },
    Field { knob: Knob::Outputs, get: |config| config.outputs, set: |config, value| config.outputs = value },
    Field { knob: Knob::Rows, get: |config| config.rows, set: |config, value| config.rows = value },
];

/// Configs of an offer, and those among them that differ in rows alone: the model ranks what is left out behind.
const MOST_CONFIGS: usize = 16;
const MOST_ROWS: usize = 3;

/// A depthwise convolution, as it is offered: by strips of a thread.
trait Depthwise: std::fmt::Debug + Send + Sync {
    fn graph(&self) -> &Arc<FinalizedGraph>;

    /// The strips among which one chooses, those that differ in rows alone side by side.
    fn strips(&self) -> &[Strip];

    /// What the multiprocessors do.
    fn work(&self, strip: Strip, device: &Device) -> Work;

    /// Seconds for what follows in launches of its own.
    fn seconds_after(&self, strip: Strip, device: &Device) -> f64;

    fn push(&self, strip: Strip, device: &Device, builder: &mut KernelBuilder);
}

/// The offer of one.
#[derive(Debug)]
struct Offered<T>(T);

impl<T: Depthwise> Offered<T> {
    fn estimate(&self, strip: Strip, device: &Device) -> Estimate {
        let floor = Floor::memory_seconds(self.0.graph(), device);
        let work = self.0.work(strip, device);
        let after = Term { bound: Bound::Workspace, time: self.0.seconds_after(strip, device) };
        let on_top = [work.last_strips(), after].into_iter().filter(|term| term.time > 0.0).collect();
        Estimate { at_once: work.at_once(floor, device), on_top, waves: None }
    }
}

impl<T: Depthwise> Offer for Offered<T> {
    fn candidates(&self, device: &Device) -> Vec<RankedConfig> {
        let is_alike = |a: &Strip, b: &Strip| (a.channels, a.outputs) == (b.channels, b.outputs);
        let mut priced = Vec::new();
        for strips in self.0.strips().chunk_by(is_alike) {
            let mut alike: Vec<_> = strips.iter().map(|&strip| (self.estimate(strip, device), strip)).collect();
            alike.sort_by(|a, b| a.0.total().total_cmp(&b.0.total()));
            priced.extend(alike.into_iter().take(MOST_ROWS));
        }
        let config = |strip| EngineConfig::of_fields(NAME, FIELDS, &Config::of(strip));
        let mut ranking = ranked(priced.into_iter().map(|(cost, strip)| (cost, config(strip), None)).collect(), 1e6);
        ranking.truncate(MOST_CONFIGS);
        ranking
    }

    fn lower(&self, config: &EngineConfig, device: &Device) -> Kernel {
        let mut builder = KernelBuilder::new(self.0.graph(), config);
        self.0.push(config.fields(FIELDS).strip(), device, &mut builder);
        builder.finish()
    }
}
