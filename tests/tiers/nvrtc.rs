//! Every rendered source compiles for every chip it may run on, without spills and without assembler complaints.

use std::sync::{Arc, LazyLock};

use fusewright::codegen::Source;
use fusewright::compile::{Cache, Compiler, Nvrtc, Options, Request};
use fusewright::device::{ComputeCapability, Device};
use fusewright::engine::select;
use fusewright::graph::Graph;
use libtest_mimic::{Failed, Trial};

use crate::tap_rows::{self, Configs};
use crate::{
    attention_claims, attention_parts, cases, clusters, data, evaluated, hopper, machine_code, modes, pipeline, sample,
    stationary, stored_gradients, tier, warp_attention,
};

/// Chips with a newer NVRTC; sm_70 needs a 12.x one.
const CHIPS: [(u32, u32); 6] = [(7, 0), (7, 5), (8, 0), (8, 6), (8, 9), (9, 0)];

/// The chip whose engine's registers a bias and its gradient take most of.
const HOPPER: (u32, u32) = (9, 0);

/// One chip in this many compiles a case; the cases together reach every chip with every skeleton.
const STRIDE: usize = 6;

/// Cases and suite graphs compiled with every config for sm_90: every operand type of `wgmma`, along k and turned, computed
/// operands, the epilogues that need most registers; padded convolutions. The one of FP8 also for sm_89.
const EVERY_CONFIG: &[&str] = &[
    "conv_walk_fprop_of_one_step_beside_padding",
    "conv_walk_dgrad_of_72_columns_beside_a_stage",
    "attention_blocks",
    "attention_blocks_lengths_window",
    "attention_fp8_blocks_lengths_sinks",
    "attention_bwd_bias_dropout_groups_of_keys",
    "attention_bwd_bias_gradient_groups_lengths_causal",
    "attention_bwd_cap_ragged_groups_sinks",
    "attention_bwd_cap_heads_of_192_128",
    "mm_bf16_4096",
    "mm_dgelu_bf16_mlp",
    "mm_bias_residual_bf16_mlp",
    "mm_relu_amax_bf16_4096",
    "mm_fp8_8192",
    "mm_i8_8192",
    "mm_f32_tf32_4096",
    "mm_g1_rowscale_relu_f16",
    "mm_mixed_bf16_i8_m16",
    "mm_half_wide",
    "mm_boxes_half",
    "mm_half_sums_boxes",
    "mm_half_sums_columns",
    "mm_half_sums_stage",
    "mm_half_sums_column",
    "mm_int8_wide",
    "mm_tf32_wide",
    "mm_fp8_layout_0",
    "conv_3x3_c128_28_bias_relu",
    "conv_genstats_c64_56",
    "conv_3x3_s2_c128_56",
    "dgrad_3x3_c128_28",
    "dgrad_3x3_s2_c128_56",
    "wgrad_3x3_c128_28",
];

/// Cases compiled with every config for a chip on which `mma.sync` takes FP8 as it is.
const FP8_CASES: &[(&str, (u32, u32))] = &[
    ("conv_fprop_fp8_e4m3_float_half", (9, 0)),
    ("mm_along_k_fp8_e5m2_fp8_e4m3_fast_float_for_fp8_70x33x100", (8, 9)),
];

static COMPILER: LazyLock<Compiler> = LazyLock::new(|| Compiler::new(Cache::memory_only(), Options::default()));

pub(crate) fn trials() -> Vec<Trial> {
    let requirement = CHIPS
        .iter()
        .try_for_each(|&(major, minor)| Nvrtc::load_for(ComputeCapability::new(major, minor)).map(drop))
        .map_err(|error| error.to_string());
    tier("nvrtc", requirement, "FUSEWRIGHT_REQUIRE_NVRTC", || {
        let mut trials = Vec::new();
        for case in cases::all() {
            // by the name, so that other cases change nothing about a case's chips
            let number = sample::hash(&case.name) as usize % STRIDE;
            for (position, chip) in CHIPS.into_iter().enumerate() {
                let is_chosen = (number + position).is_multiple_of(STRIDE)
                    || is_representative(&case.name)
                    || chip == HOPPER && case.name.starts_with("attention_");
                if is_chosen && runs_on(&case.graph, chip) {
                    trials.push(trial(
                        format!("nvrtc::{}::sm_{}{}", case.name, chip.0, chip.1),
                        case.graph.clone(),
                        chip,
                    ));
                }
            }
        }
        for case in cases::wide() {
            trials.push(trial(format!("nvrtc::{}::sm_90", case.name), case.graph.clone(), (9, 0)));
            trials.push(trial(format!("nvrtc::{}::sm_70", case.name), case.graph, (7, 0)));
        }
        for case in modes::cases() {
            trials.push(trial(format!("nvrtc::modes::{}::sm_90", case.name), case.graph, (9, 0)));
        }
        for (name, graph) in data::suite_of_engines() {
            trials.push(trial(format!("nvrtc::{name}::sm_90"), graph, (9, 0)));
        }
        let cases = cases::all().into_iter().map(|case| (case.name, case.graph));
        let named = cases.chain(data::suite_of_engines());
        for (name, graph) in named.filter(|(name, _)| EVERY_CONFIG.contains(&name.as_str())) {
            trials.push(every_config(&name, graph, (9, 0)));
        }
        for (name, graph) in data::suite_of_engines().into_iter().filter(|(name, _)| name == "mm_fp8_8192") {
            trials.push(every_config(&format!("{name}::sm_89"), graph, (8, 9)));
        }
        for case in cases::all() {
            if let Some(&(_, chip)) = FP8_CASES.iter().find(|(name, _)| *name == case.name) {
                trials.push(every_config(&case.name, case.graph, chip));
            }
        }
        trials.extend(evaluated::trials(
            "nvrtc",
            || Ok(pipeline::typical_device()),
            |build| compile(&build.request(), &build.source),
        ));
        trials.extend(attention_parts::trials(
            "nvrtc",
            || Ok(pipeline::typical_device()),
            |build| compile(&build.request(), &build.source),
        ));
        trials.extend(attention_claims::trials(
            "nvrtc",
            || Ok(pipeline::typical_device()),
            |build| compile(&build.request(), &build.source),
        ));
        trials.extend(stored_gradients::trials(
            "nvrtc",
            || Ok(pipeline::typical_device()),
            |build| compile(&build.request(), &build.source),
        ));
        trials.extend(tap_rows::trials(
            "nvrtc",
            Configs::AtMost(1),
            || Ok(pipeline::typical_device()),
            |build| compile(&build.request(), &build.source),
        ));
        trials.extend(clusters::trials(
            "nvrtc",
            2,
            || Ok(pipeline::typical_device()),
            |build| compile(&build.request(), &build.source),
        ));
        trials.extend(stationary::trials(
            "nvrtc",
            1,
            || Ok(pipeline::typical_device()),
            |build| compile(&build.request(), &build.source),
        ));
        trials.extend(warp_attention::compile("nvrtc", |build| compile(&build.request(), &build.source)));
        trials.extend(hopper::trials("nvrtc", |test| {
            compile(&test.request(ComputeCapability::SM_90), &test.source)?;
            Ok(None)
        }));
        trials
    })
}

/// Cases compiled for every chip: one of each skeleton.
fn is_representative(name: &str) -> bool {
    name.starts_with("types_mm_stage_on_")
        || ["pw_broadcast_odd", "red_split_channel", "mm_both_mainloops_two_outputs", "mm_reduce_add_row"]
            .contains(&name)
}

/// Whether some engine takes a case on a chip: BF16 that is computed in HALF, for one, needs `mma.sync` of sm_80.
fn runs_on(graph: &Graph, (major, minor): (u32, u32)) -> bool {
    graph.finalize().is_ok_and(|graph| select(&Arc::new(graph), ComputeCapability::new(major, minor)).is_ok())
}

fn trial(name: String, graph: Graph, (major, minor): (u32, u32)) -> Trial {
    Trial::test(name, move || compiles(&graph, ComputeCapability::new(major, minor)))
}

fn compiles(graph: &Graph, capability: ComputeCapability) -> Result<(), Failed> {
    let build = pipeline::lower(graph, &Device::typical(capability))?;
    compile(&build.request(), &build.source)
}

fn every_config(name: &str, graph: Graph, (major, minor): (u32, u32)) -> Trial {
    let capability = ComputeCapability::new(major, minor);
    Trial::test(format!("nvrtc::every_config::{name}"), move || every_config_compiles(&graph, capability))
}

fn every_config_compiles(graph: &Graph, capability: ComputeCapability) -> Result<(), Failed> {
    for build in pipeline::lower_every_config(graph, &Device::typical(capability))? {
        compile(&build.request(), &build.source)
            .map_err(|failed| format!("{}: {}", build.config, failed.message().unwrap_or_default()))?;
    }
    Ok(())
}

fn compile(request: &Request<'_>, source: &Source) -> Result<(), Failed> {
    let cubin = COMPILER.compile(request)?.cubin;
    if !cubin.warnings.is_empty() {
        return Err(cubin.warnings.join("\n").into());
    }
    for function in &cubin.resources {
        if function.spill_stores + function.spill_loads > 0 {
            return Err(format!("{} spills: {function:?}", function.function).into());
        }
    }
    for launch in &source.launches {
        if !cubin.resources.iter().any(|function| function.function == launch.function) {
            return Err(format!("the cubin has no function {}", launch.function).into());
        }
    }
    if request.capability < ComputeCapability::SM_90 {
        return Ok(());
    }
    machine_code::waits_before_memory(source, &cubin.images)
}
