//! Cases with mainloop stages, with configs that evaluate these first, whatever the model prefers.

use fusewright::build::Build;
use fusewright::device::Device;
use fusewright::engine::Knob;
use fusewright::graph::Graph;
use libtest_mimic::{Failed, Trial};

use crate::cases::{self, Case};
use crate::pipeline;

/// Cases of other suites: a stage on either operand and on both, other types than those that are multiplied, side inputs of all shapes.
const CASES: &[&str] = &[
    "mm_both_mainloops_two_outputs",
    "mm_boxes_int8_weights",
    "mm_half_sums_stage",
    "conv_walk_fprop_by_pixel_and_image_in_pairs",
    "conv_walk_dgrad_by_pixel_and_image_in_floats",
    "conv_fprop_bias_add_genstats_of_stage",
];

/// A trial for each case: the first config that evaluates a stage first.
pub(crate) fn trials(
    tier: &str,
    device: impl Fn() -> Result<Device, Failed> + Copy + Send + 'static,
    run: impl Fn(&Build) -> Result<(), Failed> + Copy + Send + 'static,
) -> Vec<Trial> {
    let is_chosen = |case: &Case| case.name.starts_with("conv_evaluated_") || CASES.contains(&case.name.as_str());
    let trial = |case: Case| {
        Trial::test(format!("{tier}::evaluated::{}", case.name), move || run(&lowered(&case.graph, &device()?)?))
    };
    cases::all().into_iter().filter(is_chosen).map(trial).collect()
}

fn lowered(graph: &Graph, device: &Device) -> Result<Build, String> {
    let builds = pipeline::lower_every_config(graph, device)?;
    let first = builds.into_iter().find(|build| build.config.knob(Knob::EvaluateFirst, 0) == 1);
    first.ok_or_else(|| "no config evaluates first".to_owned())
}
