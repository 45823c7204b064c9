//! Attention by `mma.sync`: backward passes on Ampere, some configs of some cases on a chip with little shared memory, and kernels for every chip
//! that has the instruction.

use std::sync::Arc;

use fusewright::build::Build;
use fusewright::device::{ComputeCapability, Device};
use fusewright::engine::{self, Selection};
use fusewright::graph::Graph;
use libtest_mimic::{Failed, Trial};

use crate::attention_backward_cases::BIAS_GRADIENT;
use crate::cases::{self, Case};

/// Engines of this file.
const ENGINES: [&str; 2] = ["warp_attention", "warp_attention_backward"];

/// Chips that have the instruction.
const CHIPS: [(u32, u32); 7] = [(7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0)];

/// Cases that are compiled for every chip: the largest heads, what needs most registers beside them, each type.
const COMPILED: &[&str] = &[
    "attention_heads_of_256",
    "attention_heads_of_128",
    "attention_dropout_groups_lengths_sinks",
    "attention_bias",
    "attention_soft_cap",
    "attention_ragged_all",
    "attention_blocks",
    "attention_float_heads_of_256",
    "attention_operands_turned_lengths",
    "attention_heads_of_250_254",
    "attention_bwd_heads_of_256",
    "attention_bwd_heads_of_128",
    "attention_bwd_dropout_heads_of_256",
    "attention_bwd_dropout_groups_lengths_sinks",
    "attention_bwd_float_heads_of_256",
    "attention_bwd_bias_dropout_groups_of_keys",
    "attention_bwd_bias_heads_of_256",
    "attention_bwd_groups_apart_dropout_lengths_sinks",
    "attention_bwd_operands_spread_lengths",
    "attention_bwd_cap_heads_of_256",
    "attention_bwd_cap_bias_alibi",
];

/// Cases of which some configs run on a chip whose blocks have little shared memory.
const RUN: &[&str] = &[
    "attention_groups",
    "attention_blocks",
    "attention_lengths_bottom_right_window",
    "attention_dropout_groups_lengths_sinks",
    "attention_float_groups_lengths_sinks",
    "attention_bwd_groups_window",
    "attention_bwd_heads_of_192_128",
    "attention_bwd_dropout_groups_lengths_sinks",
    "attention_bwd_float_groups_lengths_sinks",
    "attention_bwd_bias_groups_lengths_causal",
    "attention_bwd_groups_of_keys_alone",
    "attention_bwd_groups_of_values_alone",
    "attention_bwd_cap_groups_lengths",
];

/// The first chip with BF16 and `cp.async`.
const AMPERE: (u32, u32) = (8, 0);

/// Configs that run.
const SOME: usize = 3;

/// A chip whose blocks have less shared memory.
const SMALL: (u32, u32) = (8, 6);

/// A chip whose blocks have more.
const LARGE: (u32, u32) = (9, 0);

/// Trials that run kernels.
pub(crate) fn run(tier: &str, run: Run) -> Vec<Trial> {
    let has_none = |name: &str| name.contains(BIAS_GRADIENT) || name.contains("_fp8");
    let backward = named(|name| name.starts_with("attention_bwd_") && !has_none(name));
    let on_ampere = backward.map(|case| first(&format!("{tier}::{}", name_of(AMPERE)), case, AMPERE, run));
    let all = named(|name| RUN.contains(&name))
        .map(|case| configs(&format!("{tier}::some_configs"), case, SMALL, (SOME, run)));
    on_ampere.chain(all).collect()
}

/// Trials that compile kernels: the first config for every chip, every config for one of them and for the one with the most tiles.
pub(crate) fn compile(tier: &str, compile: fn(&Build) -> Result<(), Failed>) -> Vec<Trial> {
    let cases = named(|name| COMPILED.contains(&name)).enumerate();
    let on_chips = cases.flat_map(|(number, case)| {
        CHIPS
            .into_iter()
            .enumerate()
            .map(move |(position, chip)| (case.clone(), chip, chip == LARGE || position == number % CHIPS.len()))
    });
    let taken = on_chips.filter(|(case, chip, _)| selection(&case.1, *chip).is_ok());
    let trial = |(case, chip, all): ((String, Graph), _, bool)| match all {
        true => configs(&format!("{tier}::every_config"), case, chip, (usize::MAX, compile)),
        false => first(&format!("{tier}::{}", name_of(chip)), case, chip, compile),
    };
    taken.map(trial).collect()
}

/// The gradient of a bias has no kernel by `mma.sync`: the refusal says so, and a bias without it is no reason for one.
pub(crate) fn refuses_bias_gradients() -> Result<(), Failed> {
    for (name, graph) in named(|name| name.starts_with("attention_bwd_bias")) {
        let stores_gradient = name.contains(BIAS_GRADIENT);
        match selection(&graph, AMPERE) {
            Err(refusal) if stores_gradient && refusal.contains("no kernel for the gradient of a bias") => {}
            Ok(_) if !stores_gradient => {}
            Ok(_) => return Err(format!("{name} is taken").into()),
            Err(refusal) => return Err(format!("{name}: {refusal}").into()),
        }
    }
    Ok(())
}

fn name_of((major, minor): (u32, u32)) -> String {
    ComputeCapability::new(major, minor).to_string()
}

fn named(is_chosen: impl Fn(&str) -> bool) -> impl Iterator<Item = (String, Graph)> {
    let cases = cases::all().into_iter().filter(move |case| is_chosen(&case.name));
    cases.map(|Case { name, graph, .. }| (name, graph))
}

/// What a trial does with a kernel.
type Run = fn(&Build) -> Result<(), Failed>;

/// The first config of a case on a chip.
fn first(tier: &str, (name, graph): (String, Graph), chip: (u32, u32), run: Run) -> Trial {
    Trial::test(format!("{tier}::{name}"), move || {
        let (selection, device) = selection(&graph, chip)?;
        run(&Build::first(&selection, &device).map_err(|error| error.to_string())?)
    })
}

/// So many configs of a case on a chip, the best first.
fn configs(tier: &str, (name, graph): (String, Graph), chip: (u32, u32), (most, run): (usize, Run)) -> Trial {
    Trial::test(format!("{tier}::{}::{name}", name_of(chip)), move || {
        let (selection, device) = selection(&graph, chip)?;
        for ranked in selection.candidates(&device).into_iter().take(most) {
            let build = Build::new(&selection, ranked.config, &device).map_err(|error| error.to_string())?;
            run(&build).map_err(|failed| format!("{}: {}", build.config, failed.message().unwrap_or_default()))?;
        }
        Ok(())
    })
}

/// A graph with its engine of this file, whether or not another one is preferred.
fn selection(graph: &Graph, (major, minor): (u32, u32)) -> Result<(Selection, Device), String> {
    let graph = Arc::new(graph.finalize().map_err(|error| error.to_string())?);
    let capability = ComputeCapability::new(major, minor);
    let selection = engine::select(&graph, capability).map_err(|refusal| refusal.to_string())?;
    let selection = ENGINES.iter().find_map(|name| selection.clone().with_engine(name));
    Ok((selection.ok_or("no engine of warps takes it")?, Device::typical(capability)))
}
