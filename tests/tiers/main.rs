//! All tests that run kernels, in tiers by what they need.
//!
//! | tier | needs | switch that turns a skip into a failure |
//! | --- | --- | --- |
//! | `host` | nothing | |
//! | `emulator` | a C++ compiler | `FUSEWRIGHT_REQUIRE_EMULATOR=1` |
//! | `nvrtc` | an NVRTC library | `FUSEWRIGHT_REQUIRE_NVRTC=1` |
//! | `device` | a GPU and NVRTC | `FUSEWRIGHT_REQUIRE_DEVICE=1` |
//!
//! Of the trials of the emulator and of NVRTC a sample runs; all run with `FUSEWRIGHT_EXHAUSTIVE=1`, and those that a filter names.
//!
//! `FUSEWRIGHT_HUGE=1` adds a product that fills 64 GiB of a GPU to the device tier.
//!
//! `FUSEWRIGHT_DATA` names the folder with the graph files where the binary runs away from its sources.

mod attention_backward_cases;
mod attention_cases;
mod attention_claims;
mod attention_parts;
mod cases;
mod clusters;
#[path = "../common/mod.rs"]
mod common;
mod convolution_cases;
mod data;
mod device;
mod device_chains;
mod device_executions;
mod device_huge;
mod device_peers;
mod dynamic;
mod emulator;
mod evaluated;
mod goldens;
mod gradient_weight_cases;
mod hopper;
mod host;
mod infinities;
mod machine_code;
mod mha_cases;
mod modes;
mod movement_cases;
mod norm_cases;
mod nvrtc;
mod pipeline;
mod relaxed;
mod resample_cases;
mod rings;
mod sample;
mod shape_sweep;
mod softmax_cases;
mod special_values;
mod stationary;
mod stored_gradients;
mod stored_stage_cases;
mod tap_rows;
mod transposed_cases;
mod type_cases;
mod walks;
mod warp_attention;

use libtest_mimic::{Arguments, Trial};

fn main() {
    let arguments = Arguments::from_args();
    let tiers = [
        host::trials(),
        goldens::trials(),
        emulator::trials(),
        special_values::trials(),
        type_cases::trials(),
        nvrtc::trials(),
        device::trials(),
    ];
    let trials = sample::chosen(tiers.into_iter().flatten().collect(), &arguments);
    libtest_mimic::run(&arguments, trials).exit();
}

/// A tier's tests, or one ignored test that says why there are none.
fn tier(name: &str, requirement: Result<(), String>, switch: &str, trials: impl FnOnce() -> Vec<Trial>) -> Vec<Trial> {
    match requirement {
        Ok(()) => trials(),
        Err(reason) => {
            let required = std::env::var_os(switch).is_some_and(|value| value == "1");
            let label = format!("{name}::skipped: {}", reason.lines().next().unwrap_or_default());
            vec![Trial::test(label, move || Err(reason.into())).with_ignored_flag(!required)]
        }
    }
}
