//! The engine of depthwise convolutions, memory-bound, so no matrix product, but windows that slide over vectors of channels:
//! forward and data gradients with any pointwise epilogue, filter gradients with any at all.

mod filters;
mod images;
mod windows;

use std::sync::Arc;

use crate::device::{ComputeCapability, Device};
use crate::engine::builder::KernelBuilder;
use crate::engine::config::{Field, ranked};
use crate::engine::lowering::{RELAXED_WITH_CORE, lowered_product};
use crate::engine::{Bound, Engine, EngineConfig, Estimate, Floor, Knob, Offer, RankedConfig, Term};
use crate::error::Reason;
use crate::fusion::ProductKind;
use crate::graph::{ConvolutionDirection, FinalizedGraph};
use crate::kernel::Kernel;
use crate::support::{Rule, Supported};
use filters::Filters;
use images::Images;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Direct;

const NAME: &str = "direct";

/// Part of the copy's rate that is reached where nothing but memory bounds: an estimate.
const OF_THE_COPY: f64 = 0.8;

/// Multiply-adds, with the conversions that they take, of a multiprocessor in a clock: half of its lanes (an estimate).
const RATE: f64 = 64.0;
const CLOCK: f64 = 1.6e9;

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
        let fusion = supported.fusion();
        let product = lowered_product(fusion)?;
        match product.kind {
            ProductKind::Convolution(ConvolutionDirection::BackwardFilter) => {
                Ok(Box::new(Offered(Filters::new(fusion, product).map_err(Reason::Graph)?)))
            }
            _ => Ok(Box::new(Offered(Images::new(fusion, product).map_err(Reason::Graph)?))),
        }
    }
}

/// How a thread's outputs are chosen.
#[derive(Debug)]
struct Config {
    outputs: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { outputs: 1 }
    }
}

const FIELDS: &[Field<Config>] =
    &[Field { knob: Knob::Outputs, get: |config| config.outputs, set: |config, value| config.outputs = value }];

/// A depthwise convolution, as it is offered: by outputs of a thread.
trait Depthwise: std::fmt::Debug + Send + Sync {
    fn graph(&self) -> &Arc<FinalizedGraph>;

    /// The outputs among which one chooses.
    fn offered_outputs(&self) -> Vec<u32>;

    /// Multiply-adds, and conversions of what is read, in all.
    fn operations(&self, outputs: i64) -> f64;

    /// Seconds for what follows in launches of its own.
    fn seconds_after(&self, device: &Device) -> f64;

    fn push(&self, outputs: u32, device: &Device, builder: &mut KernelBuilder);
}

/// The offer of one.
#[derive(Debug)]
struct Offered<T>(T);

impl<T: Depthwise> Offer for Offered<T> {
    fn candidates(&self, device: &Device) -> Vec<RankedConfig> {
        let memory = Floor::of(self.0.graph()).seconds(device, None) * CLOCK / OF_THE_COPY;
        let after = self.0.seconds_after(device) * CLOCK;
        let priced = |outputs: u32| {
            let operations = self.0.operations(outputs.into()) / (RATE * f64::from(device.sm_count));
            let at_once =
                vec![Term { bound: Bound::Memory, time: memory }, Term { bound: Bound::Operands, time: operations }];
            let on_top = if after > 0.0 { vec![Term { bound: Bound::Workspace, time: after }] } else { Vec::new() };
            let estimate = Estimate { at_once, on_top, waves: None };
            (estimate, EngineConfig::of_fields(NAME, FIELDS, &Config { outputs }), None)
        };
        ranked(self.0.offered_outputs().into_iter().map(priced).collect(), 1e6 / CLOCK)
    }

    fn lower(&self, config: &EngineConfig, device: &Device) -> Kernel {
        let mut builder = KernelBuilder::new(self.0.graph(), config);
        self.0.push(config.fields(FIELDS).outputs, device, &mut builder);
        builder.finish()
    }
}
