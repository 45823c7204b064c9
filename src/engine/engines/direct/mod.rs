//! The engine of depthwise convolutions, forward and data gradients: memory-bound, so no matrix product, but windows
//! that slide over vectors of channels, with any pointwise epilogue.

mod lowering;

use crate::device::{ComputeCapability, Device};
use crate::engine::builder::KernelBuilder;
use crate::engine::config::{Field, ranked};
use crate::engine::lowering::{RELAXED_WITH_CORE, lowered_product};
use crate::engine::{Bound, Engine, EngineConfig, Estimate, Floor, Knob, Offer, RankedConfig, Term};
use crate::error::Reason;
use crate::kernel::Kernel;
use crate::support::{Rule, Supported};
use lowering::Windows;

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
        "depthwise convolutions at memory speed: windows over vectors of channels, any pointwise epilogue"
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
        let windows = Windows::new(fusion, lowered_product(fusion)?).map_err(Reason::Graph)?;
        Ok(Box::new(windows))
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

impl Offer for Windows {
    fn candidates(&self, device: &Device) -> Vec<RankedConfig> {
        let memory = Floor::of(self.graph()).seconds(device, None) * CLOCK / OF_THE_COPY;
        let priced = |outputs: u32| {
            let operations = self.operations(outputs.into()) / (RATE * f64::from(device.sm_count));
            let at_once =
                vec![Term { bound: Bound::Memory, time: memory }, Term { bound: Bound::Operands, time: operations }];
            let estimate = Estimate { at_once, on_top: Vec::new(), waves: None };
            (estimate, EngineConfig::of_fields(NAME, FIELDS, &Config { outputs }), None)
        };
        ranked(self.offered_outputs().map(priced).collect(), 1e6 / CLOCK)
    }

    fn lower(&self, config: &EngineConfig, device: &Device) -> Kernel {
        let mut builder = KernelBuilder::new(self.graph(), config);
        self.push(config.fields(FIELDS).outputs, device, &mut builder);
        builder.finish()
    }
}
