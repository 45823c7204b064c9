//! Kernel → template record → CUDA text.
//!
//! Three jobs, three places: `names` spells identifiers and types, the record modules decide what is written, the
//! templates in `templates/` lay it out. Fixed device code comes in sections (`sections`); a kernel carries those it
//! uses. Rendering is deterministic to the byte and depends only on the graph's structure, the engine config and the
//! device: never on the caller's names or uids.

mod expression;
mod fragment_epilogue;
mod gemm;
mod gemm_epilogue;
mod gemm_operand;
mod gemm_wgmma;
mod movement;
mod names;
mod packed;
mod pairs;
mod parameters;
mod reduction;
mod sections;
mod sweep;
mod warp_epilogue;
mod warp_total;

use std::sync::LazyLock;

use serde::Serialize;
use tera::{Context, Delimiters, Tera};

use crate::error::Error;
use crate::graph::FinalizedGraph;
use crate::kernel::{Body, Function, Kernel, Launch, MmaType, Multiply};
use sections::Used;

/// Rendered CUDA text with what is needed to launch it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// One complete CUDA file; compiles with NVRTC without headers, and with g++ against the emulator's header.
    pub text: String,
    /// Launches, in order.
    pub launches: Vec<Launch>,
    /// Workspace the launches share, in bytes.
    pub workspace_bytes: u64,
    /// Whether FLOAT operands of the core are rounded to TF32 (D-14).
    pub uses_tf32: bool,
    /// Whether FP8 operands of the core are multiplied as they are.
    pub uses_fp8: bool,
}

/// Every template, parsed once. The delimiters cannot clash with CUDA's braces and percent signs.
static TEMPLATES: LazyLock<Result<Tera, String>> = LazyLock::new(|| {
    let mut tera = Tera::default();
    let delimiters = Delimiters {
        block_start: "<%".into(),
        block_end: "%>".into(),
        variable_start: "${".into(),
        variable_end: "}$".into(),
        comment_start: "<#".into(),
        comment_end: "#>".into(),
    };
    tera.set_delimiters(delimiters).map_err(|error| error.to_string())?;
    tera.autoescape_on(Vec::<&str>::new());
    tera.add_raw_templates(TEMPLATE_FILES.iter().map(|(name, text)| (*name, template_text(name, text))))
        .map_err(|error| error.to_string())?;
    Ok(tera)
});

/// The device code of these sections of `templates/include` and of those that they need: for kernels written by hand.
///
/// # Panics
/// If there is no section of such a name.
pub fn device_code(sections: &[&'static str]) -> String {
    let mut used = Used::default();
    sections.iter().for_each(|section| used.add(section));
    used.text()
}

/// Skeletons and the fragments they include.
const TEMPLATE_FILES: &[(&str, &str)] = &[
    ("evaluate.cuh", include_str!("../../templates/epilogue/evaluate.cuh")),
    ("tile.cuh", include_str!("../../templates/epilogue/tile.cuh")),
    ("block.cuh", include_str!("../../templates/mainloop/block.cuh")),
    ("fill.cuh", include_str!("../../templates/mainloop/fill.cuh")),
    ("mma_one.cuh", include_str!("../../templates/mainloop/mma_one.cuh")),
    ("mma_two.cuh", include_str!("../../templates/mainloop/mma_two.cuh")),
    ("operand.cuh", include_str!("../../templates/mainloop/operand.cuh")),
    ("fragments_of_a.cuh", include_str!("../../templates/mainloop/fragments_of_a.cuh")),
    ("filling.cuh", include_str!("../../templates/mainloop/filling.cuh")),
    ("unit.cuh", include_str!("../../templates/mainloop/unit.cuh")),
    ("fill_stage.cuh", include_str!("../../templates/mainloop/fill_stage.cuh")),
    ("turn_stage.cuh", include_str!("../../templates/mainloop/turn_stage.cuh")),
    ("place.cuh", include_str!("../../templates/mainloop/place.cuh")),
    ("fragments_ask.cuh", include_str!("../../templates/epilogue/fragments_ask.cuh")),
    ("fragments.cuh", include_str!("../../templates/epilogue/fragments.cuh")),
    ("warp.cuh", include_str!("../../templates/epilogue/warp.cuh")),
    ("tree.cuh", include_str!("../../templates/epilogue/tree.cuh")),
    ("pointwise.cu", include_str!("../../templates/kernel/pointwise.cu")),
    ("packed.cu", include_str!("../../templates/kernel/packed.cu")),
    ("reduction.cu", include_str!("../../templates/kernel/reduction.cu")),
    ("combine.cu", include_str!("../../templates/kernel/combine.cu")),
    ("signal.cu", include_str!("../../templates/kernel/signal.cu")),
    ("gemm_fma.cu", include_str!("../../templates/kernel/gemm_fma.cu")),
    ("gemm_mma.cu", include_str!("../../templates/kernel/gemm_mma.cu")),
    ("gemm_wgmma.cu", include_str!("../../templates/kernel/gemm_wgmma.cu")),
];

/// A template without the comment at its head, which says what it reads; a fragment (`.cuh`) without its last line's end.
fn template_text<'a>(name: &str, text: &'a str) -> &'a str {
    let body = text.strip_prefix("<#").and_then(|text| text.split_once("#>\n")).map_or(text, |(_, body)| body);
    if name.ends_with(".cuh") { body.trim_end() } else { body }
}

/// What every skeleton reads, and its own record.
#[derive(Serialize)]
struct FunctionText<T> {
    function: String,
    parameters: String,
    #[serde(flatten)]
    body: T,
}

/// Renders a kernel.
///
/// # Errors
/// [`Error::Generated`] if a template fails: a defect of ours.
pub fn render(kernel: &Kernel) -> Result<Source, Error> {
    let _span = tracing::debug_span!("render", graph_key = %kernel.graph.key(), engine = kernel.engine).entered();
    let mut used = Used::default();
    let mut functions = Vec::new();
    for function in &kernel.functions {
        functions.push(render_function(&kernel.graph, function, &mut used)?);
    }
    let text = format!("{}\n{}\n\n{}", header(kernel), used.text(), functions.join("\n"));
    tracing::trace!(source = text, "rendered");
    let launches = kernel.functions.iter().map(|function| function.launch.clone()).collect();
    let [uses_tf32, uses_fp8] = [MmaType::Tf32, MmaType::Fp8].map(|operand| kernel.multiplies(operand));
    Ok(Source { text, launches, workspace_bytes: kernel.workspace_bytes, uses_tf32, uses_fp8 })
}

fn render_function(graph: &FinalizedGraph, function: &Function, used: &mut Used) -> Result<String, Error> {
    let name = function.launch.function.clone();
    let parameters = parameters::spell(graph, function, used);
    used.add("fw_wait_for_previous_launch");
    match &function.body {
        Body::Pointwise(body) => fill("pointwise.cu", name, parameters, reduction::pointwise(graph, used, body)),
        Body::Packed(body) => fill("packed.cu", name, parameters, packed::packed(graph, used, body)),
        Body::Reduction(body) => fill("reduction.cu", name, parameters, reduction::reduction(graph, used, body)),
        Body::Combine(body) => fill("combine.cu", name, parameters, reduction::combine(graph, used, body)),
        Body::Signal(body) => fill("signal.cu", name, parameters, movement::signal(graph, used, body)),
        Body::Gemm(body) => match body.multiply {
            Multiply::Fma { .. } => fill("gemm_fma.cu", name, parameters, gemm::gemm(graph, used, body)),
            Multiply::Mma { .. } => fill("gemm_mma.cu", name, parameters, gemm::gemm(graph, used, body)),
            Multiply::Wgmma { .. } => fill("gemm_wgmma.cu", name, parameters, gemm_wgmma::gemm(graph, used, body)),
        },
    }
}

fn fill<T: Serialize>(template: &str, function: String, parameters: String, body: T) -> Result<String, Error> {
    let tera = TEMPLATES.as_ref().map_err(|error| template_error(template, error))?;
    let context = Context::from_serialize(&FunctionText { function, parameters, body })
        .map_err(|error| template_error(template, &error))?;
    let text = tera.render(template, &context).map_err(|error| template_error(template, &error))?;
    // an included fragment begins with the end of a line, of which only its indentation is left
    let is_left_over = |line: &&str| !line.is_empty() && line.trim().is_empty();
    Ok(text.lines().filter(|line| !is_left_over(line)).map(|line| format!("{line}\n")).collect())
}

fn template_error(template: &str, error: &dyn std::fmt::Display) -> Error {
    Error::Generated {
        message: format!("template {template} failed; this is a defect of fusewright"),
        log: error.to_string(),
        source_path: None,
    }
}

/// The graph and the config, as a comment.
fn header(kernel: &Kernel) -> String {
    let mut lines = vec![format!("fusewright {}, engine config: {}", env!("CARGO_PKG_VERSION"), kernel.config)];
    lines.extend(kernel.graph.text().lines().map(str::to_owned));
    lines.iter().map(|line| format!("// {line}\n")).collect()
}
