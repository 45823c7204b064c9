//! Every pointwise mode over its whole range, by every tier: all 65,536 values of `HALF` and `BFLOAT16` and as many of
//! `FLOAT` for modes of one operand, and for gradients by the forward input; all pairs of special values for modes of
//! two. Results must lie within the stated accuracy (`ModeAccuracy`) of values computed by independent formulas.

mod exact;
mod graphs;
mod inputs;
mod judge;
mod known;

use fusewright::graph::{FinalizedGraph, PointwiseMode};
use fusewright::host_tensor::HostTensors;
use libtest_mimic::{Failed, Trial};

pub(crate) use graphs::ModeCase;
use judge::judge;

/// Every case, in a fixed order.
pub(crate) fn cases() -> Vec<ModeCase> {
    graphs::cases()
}

/// A trial for each case; `run` computes its outputs.
pub(crate) fn trials(
    tier: &str,
    run: impl Fn(&ModeCase, &FinalizedGraph, &HostTensors) -> Result<HostTensors, Failed> + Copy + Send + 'static,
) -> Vec<Trial> {
    let trial = |case: ModeCase| {
        Trial::test(format!("{tier}::modes::{}", case.name), move || {
            let graph = case.graph.finalize()?;
            let inputs = case.inputs(&graph)?;
            judge(&case, &graph, &inputs, &run(&case, &graph, &inputs)?)
        })
    };
    cases().into_iter().map(trial).collect()
}

/// The judge itself against a multiple-precision library.
pub(crate) fn known_values() -> Trial {
    Trial::test("host::modes::known_values", known::formulas_agree)
}

/// The lists of modes above leave none out: what the compiler cannot say of a new mode.
pub(crate) fn every_mode_has_a_case() -> Trial {
    Trial::test("host::modes::every_mode_has_a_case", || {
        let tried: Vec<PointwiseMode> =
            cases().iter().flat_map(|case| case.operations.iter().map(|pointwise| pointwise.mode)).collect();
        match PointwiseMode::ALL.iter().find(|mode| !tried.contains(mode)) {
            Some(mode) => Err(format!("no case of tests/tiers/modes/graphs.rs has {mode}").into()),
            None => Ok(()),
        }
    })
}
