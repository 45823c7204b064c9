//! Measuring configs of an engine.

use rayon::prelude::*;

use super::interleaved::{Sampled, time_interleaved};
use crate::build::Build;
use crate::compile::{Compiled, Compiler};
use crate::device::Device;
use crate::engine::{RankedConfig, Selection};
use crate::error::Error;
use crate::harness::DeviceTensors;
use crate::plan::{DeviceContext, ExecutionPlan};

/// How many of a ranking's first configs are worth measuring where nothing else is asked for.
pub const DEFAULT_CANDIDATES: usize = 8;

/// A config that was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Tuned {
    /// The config, with what the model expected.
    pub ranked: RankedConfig,
    /// What its executions took.
    pub sampled: Sampled,
}

/// Measures candidates of a selection ([`Selection::candidates`]) on tensors of its graph: compiles them on all cores in
/// parallel, adds workspace for each to the tensors, and times them by [`time_interleaved`]. Gives them with the fastest
/// first; of equally fast ones, that which the model prefers.
///
/// # Errors
/// Those of [`Build::new`], [`Build::compile`], [`ExecutionPlan::build`] and [`time_interleaved`]; of several
/// candidates that fail, that of the first.
pub fn autotune(
    context: &DeviceContext,
    compiler: &Compiler,
    selection: &Selection,
    candidates: &[RankedConfig],
    tensors: &mut DeviceTensors,
) -> Result<Vec<Tuned>, Error> {
    let graph = selection.supported().graph();
    let mut plans = Vec::with_capacity(candidates.len());
    for (build, compiled) in compile_all(compiler, selection, candidates, context.device())? {
        // SAFETY: the source was rendered from a config of the graph, and the cubin compiled from it.
        let plan = unsafe { ExecutionPlan::build(context, graph, &build.source, &compiled.cubin) }?;
        tensors.reserve(&plan)?;
        plans.push(plan);
    }
    let ranking = rank(candidates, time_interleaved(&plans, tensors)?);
    for Tuned { ranked: RankedConfig { config, estimated_us, .. }, sampled } in &ranking {
        let measured_us = sampled.median_ms * 1e3;
        tracing::info!(graph_key = %graph.key(), %config, measured_us, estimated_us, "measured");
    }
    Ok(ranking)
}

/// Kernels and binaries of configs, in their order.
fn compile_all(
    compiler: &Compiler,
    selection: &Selection,
    candidates: &[RankedConfig],
    device: &Device,
) -> Result<Vec<(Build, Compiled)>, Error> {
    let compile = |ranked: &RankedConfig| {
        let build = Build::new(selection, ranked.config.clone(), device)?;
        let compiled = build.compile(compiler)?;
        Ok((build, compiled))
    };
    // All are awaited, so that which error is given does not depend on the threads.
    let all: Vec<Result<(Build, Compiled), Error>> = candidates.par_iter().map(compile).collect();
    all.into_iter().collect()
}

/// The fastest first; equally fast ones stay in the model's order.
fn rank(candidates: &[RankedConfig], sampled: Vec<Sampled>) -> Vec<Tuned> {
    let tuned = |(ranked, sampled): (&RankedConfig, _)| Tuned { ranked: ranked.clone(), sampled };
    let mut ranking: Vec<Tuned> = candidates.iter().zip(sampled).map(tuned).collect();
    ranking.sort_by(|a, b| a.sampled.median_ms.total_cmp(&b.sampled.median_ms));
    ranking
}

#[cfg(test)]
mod tests {
    use super::super::store::tests::{hopper, selection};
    use super::*;
    use crate::compile::testing::nvrtc_or_skip;
    use crate::compile::{Cache, Options};

    #[test]
    fn the_fastest_wins_and_the_model_decides_between_equals() {
        let candidates = selection(64).candidates(&hopper());
        let sampled = |median_ms| Sampled { median_ms, runs: 5 };
        let order = |medians: [f64; 3]| -> Vec<usize> {
            let ranking = rank(&candidates, medians.map(sampled).to_vec());
            let position = |tuned: &Tuned| candidates.iter().position(|candidate| *candidate == tuned.ranked);
            ranking.iter().filter_map(position).collect()
        };
        assert_eq!(order([0.3, 0.1, 0.2]), [1, 2, 0]);
        assert_eq!(order([0.2, 0.1, 0.1]), [1, 2, 0]);
        assert_eq!(order([0.1, 0.1, 0.1]), [0, 1, 2]);
    }

    #[test]
    fn every_config_is_compiled_in_order() {
        let compiler = Compiler::new(Cache::memory_only(), Options::default());
        let (selection, device) = (selection(64), hopper());
        if nvrtc_or_skip(|| compiler.nvrtc(device.capability)).is_none() {
            return;
        }
        let candidates = selection.candidates(&device);
        let compiled = compile_all(&compiler, &selection, &candidates, &device).unwrap();
        assert_eq!(compiled.len(), candidates.len());
        for (ranked, (build, _)) in candidates.iter().zip(&compiled) {
            assert!(build.source.text.contains(&ranked.config.to_string()), "{}", ranked.config);
        }
    }
}
