//! Rendered kernels, run on the CPU by the emulator, against the CPU engine.

use std::path::PathBuf;

use fusewright::device::{ComputeCapability, Device};
use fusewright::emulator::EmulatedKernel;
use fusewright::graph::{FinalizedGraph, Graph};
use fusewright::host_tensor::HostTensors;
use fusewright::reference::{BoundOptions, Distribution, bounds_with, compare, execute, random_inputs};
use libtest_mimic::{Failed, Trial};

use crate::modes::{self, ModeCase};
use crate::pipeline::{self, Lowered};
use crate::{cases, data, tier};

/// Verdict graphs run in this tier: small ones, so that each takes well under a second.
const VERDICT_GRAPHS: usize = 60;

pub(crate) fn trials() -> Vec<Trial> {
    let requirement = fusewright::emulator::compiler_version().map(drop).map_err(|error| error.to_string());
    tier("emulator", requirement, "FUSEWRIGHT_REQUIRE_EMULATOR", || {
        let suite = cases::all().into_iter().map(|case| trial(case.name, case.graph, case.capability));
        let typical = pipeline::typical_device().capability;
        let verdicts = data::small_verdicts(VERDICT_GRAPHS);
        let graphs = suite.chain(verdicts.into_iter().map(|(name, graph)| trial(name, graph, typical)));
        graphs.chain(modes::trials("emulator", run_mode)).collect()
    })
}

fn trial(name: String, graph: Graph, capability: ComputeCapability) -> Trial {
    Trial::test(format!("emulator::{name}"), move || {
        let lowered = pipeline::lower(&graph, &Device::typical(capability))?;
        let kernel = EmulatedKernel::compile(&lowered.source, &cache_dir())?;
        for distribution in [Distribution::Normal, Distribution::SmallIntegers] {
            agrees(&lowered, &kernel, distribution)?;
        }
        Ok(())
    })
}

fn agrees(lowered: &Lowered, kernel: &EmulatedKernel, distribution: Distribution) -> Result<(), Failed> {
    let graph = &lowered.graph;
    let inputs = random_inputs(graph, 7, distribution)?;
    let bounds = bounds_with(graph, &inputs, BoundOptions { tf32: lowered.source.uses_tf32 })?;
    let comparison = compare(graph, &execute(graph, &inputs)?, &kernel.run(graph, &inputs)?, Some(&bounds))?;
    if comparison.is_match() {
        Ok(())
    } else {
        Err(format!("{distribution:?} inputs, {}\n{comparison}", lowered.config).into())
    }
}

fn run_mode(case: &ModeCase, graph: &FinalizedGraph, inputs: &HostTensors) -> Result<HostTensors, Failed> {
    let lowered = pipeline::lower(&case.graph, &pipeline::typical_device())?;
    Ok(EmulatedKernel::compile(&lowered.source, &cache_dir())?.run(graph, inputs)?)
}

/// Compiled kernels are kept beside the test binary, so that a second run is quick.
fn cache_dir() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("emulator")
}
