//! Kernel → template record → CUDA text.
//!
//! Three jobs, three places: `names` and `index` spell identifiers, types and integers, the record modules decide what is written,
//! the templates in `templates/` lay it out. Fixed device code comes in sections (`sections`); a kernel carries those it
//! uses. Rendering is deterministic to the byte and depends only on the graph's structure, the engine config and the
//! device: never on the caller's names or uids.
//!
//! # When
//!
//! You need this to read what is generated; [`Build`](crate::build::Build) renders and keeps the text.
//!
//! ```
//! # use std::sync::Arc;
//! # use fusewright::graph::{DataType, Graph, PointwiseMode, Tensor};
//! # let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
//! # let a = graph.tensor(Tensor::new("a").row_major([1, 64, 128]));
//! # let b = graph.tensor(Tensor::new("b").row_major([1, 128, 32]));
//! # let c = graph.matmul("matmul", a, b);
//! # graph.set_output(c);
//! # let graph = Arc::new(graph.finalize()?);
//! use fusewright::build::Build;
//! use fusewright::codegen;
//! use fusewright::device::{ComputeCapability, Device};
//! use fusewright::engine::select;
//!
//! let device = Device::typical(ComputeCapability::SM_80);
//! let build = Build::first(&select(&graph, device.capability)?, &device)?;
//! let source = codegen::render(&build.kernel)?;
//! assert_eq!(source.text, build.source.text);
//! assert!(source.text.contains(&source.launches[0].function));
//! # Ok::<(), fusewright::error::Error>(())
//! ```

mod all_gather;
mod attention;
mod channels;
mod columns;
mod copy;
mod depthwise;
mod expression;
mod index;
mod layout;
mod moments;
mod movement;
mod names;
mod packed;
mod parameters;
mod phases;
mod product;
mod reduction;
mod rows;
mod rows_staying;
mod sections;
mod sweep;
mod template;
mod tile;
mod told;
mod transposed;
mod unfold;

use std::collections::BTreeMap;

use crate::error::Error;
use crate::graph::FinalizedGraph;
use crate::kernel::{Body, Function, Kernel, Launch, MmaType};
use sections::Used;
use template::{Signature, template};

/// The line with which each program of a text begins, behind what all of them need, where a kernel has several functions: they are compiled at once.
pub(crate) const PROGRAM: &str = "//@ program";

/// Rendered CUDA text with what is needed to launch it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// One complete CUDA file; compiles with NVRTC without headers and, [without its primitives](without_primitives), with g++ against
    /// the emulator's header. Where a kernel has several functions, lines `//@ program` say where each of them begins that may be compiled without the others.
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

/// The device code of these sections of `templates/include` and of those that they need: for kernels written by hand.
///
/// # Panics
/// If there is no section of such a name.
pub fn device_code(sections: &[&'static str]) -> String {
    let mut used = Used::default();
    sections.iter().for_each(|section| used.add(section));
    used.text()
}

/// A kernel's text without the sections that are PTX, on the same lines: an emulator has others.
pub fn without_primitives(text: &str) -> String {
    sections::without_primitives(text)
}

/// A kernel's text in which each section of device code is only named.
pub fn abridged(text: &str) -> String {
    sections::abridged(text)
}

/// Renders a kernel.
///
/// # Errors
/// [`Error::Generated`] if a template fails: a defect of ours.
pub fn render(kernel: &Kernel) -> Result<Source, Error> {
    let _span = tracing::debug_span!("render", graph_key = %kernel.graph.key(), engine = kernel.engine).entered();
    let mut used = Used::default();
    let mut functions = Vec::new();
    let mut told_by_function = BTreeMap::new();
    for function in &kernel.functions {
        let graph = function.graph.as_ref().unwrap_or(&kernel.graph);
        let text = render_function(graph, function, &mut used)?;
        let (text, told) = if graph.is_dynamic() { told::told(&text, &mut used)? } else { (text, Vec::new()) };
        functions.push(text);
        told_by_function.insert(&function.launch.function, told);
    }
    if functions.len() > 1 {
        functions.iter_mut().for_each(|text| text.insert_str(0, &format!("{PROGRAM}\n")));
    }
    let text = format!("{}\n{}\n\n{}", header(kernel), used.text(), functions.join("\n"));
    tracing::trace!(source = text, "rendered");
    let mut launches: Vec<Launch> =
        kernel.functions.iter().map(|function| &function.launch).chain(&kernel.repeats).cloned().collect();
    for launch in &mut launches {
        launch.parameters.extend(told_by_function.get(&launch.function).into_iter().flatten());
    }
    let [uses_tf32, uses_fp8] = [MmaType::Tf32, MmaType::Fp8].map(|operand| kernel.multiplies(operand));
    Ok(Source { text, launches, workspace_bytes: kernel.workspace_bytes, uses_tf32, uses_fp8 })
}

fn render_function(graph: &FinalizedGraph, function: &Function, used: &mut Used) -> Result<String, Error> {
    let signature = Signature { name: &function.launch.function, parameters: parameters::spell(graph, function, used) };
    used.add("fw_wait_for_previous_launch");
    let text = match &function.body {
        Body::Pointwise(body) => {
            signature.fill(template!("sweep/pointwise.cu"), reduction::pointwise(graph, used, body)?)
        }
        Body::Columns(body) => signature.fill(template!("sweep/columns.cu"), columns::columns(graph, used, body)?),
        Body::Transposed(body) => {
            signature.fill(template!("sweep/transposed.cu"), transposed::transposed(graph, used, body)?)
        }
        Body::Packed(body) => signature.fill(template!("sweep/packed.cu"), packed::packed(graph, used, body)?),
        Body::Reduction(body) => {
            signature.fill(template!("sweep/reduction.cu"), reduction::reduction(graph, used, body)?)
        }
        Body::Moments(body) => signature.fill(template!("sweep/moments.cu"), moments::moments(graph, used, body)?),
        Body::CombineMoments(body) => {
            signature.fill(template!("sweep/combine_moments.cu"), moments::combine_moments(graph, used, body)?)
        }
        Body::Rows(body) => match &body.column_totals {
            None => signature.fill(template!("sweep/rows.cu"), rows::rows(graph, used, body)?),
            Some(totals) => {
                let record = rows_staying::rows_staying(graph, used, (body, totals))?;
                signature.fill(template!("sweep/rows_staying.cu"), record)
            }
        },
        Body::Channels(body) => signature.fill(template!("sweep/channels.cu"), channels::channels(graph, used, body)?),
        Body::Depthwise(body) => {
            signature.fill(template!("sweep/depthwise.cu"), depthwise::depthwise(graph, used, body)?)
        }
        Body::DepthwiseFilter(body) => {
            signature.fill(template!("sweep/depthwise_filter.cu"), depthwise::filter(graph, used, body)?)
        }
        Body::Combine(body) => signature.fill(template!("sweep/combine.cu"), reduction::combine(graph, used, body)?),
        Body::Copy(body) => signature.fill(template!("sweep/copy.cu"), copy::copy(graph, used, body)),
        Body::TransposedCopy(body) => {
            signature.fill(template!("sweep/transposed_copy.cu"), copy::transposed_copy(graph, used, body))
        }
        Body::Unfold(body) => signature.fill(template!("sweep/unfold.cu"), unfold::unfold(graph, used, body)),
        Body::Signal(body) => signature.fill(template!("sweep/signal.cu"), movement::signal(graph, used, body)),
        Body::AllGather(body) => {
            signature.fill(template!("sweep/all_gather.cu"), all_gather::all_gather(graph, used, body)?)
        }
        Body::Attention(body) => {
            signature.fill(template!("attention/forward.cu"), attention::forward(graph, used, body)?)
        }
        Body::WarpAttention(body) => {
            signature.fill(template!("attention/warp_forward.cu"), attention::warp_forward(graph, used, body)?)
        }
        Body::TileCounter(_) => signature.fill(template!("attention/tile_counter.cu"), attention::tile_counter()),
        Body::AttentionCombination(body) => {
            signature.fill(template!("attention/combination.cu"), attention::combination(graph, used, body))
        }
        Body::TurnedValues(body) => {
            signature.fill(template!("attention/turned_values.cu"), attention::turned_values(graph, used, body))
        }
        Body::HalfRows(body) => {
            signature.fill(template!("attention/half_rows.cu"), attention::half_rows(graph, used, body))
        }
        Body::AttentionRows(body) => {
            signature.fill(template!("attention/backward_rows.cu"), attention::backward_rows(graph, used, body))
        }
        Body::DropoutMask(body) => {
            signature.fill(template!("attention/dropout_mask.cu"), attention::dropout_mask(graph, used, body)?)
        }
        Body::AttentionSinks(body) => {
            signature.fill(template!("attention/backward_sinks.cu"), attention::backward_sinks(graph, used, body))
        }
        Body::AttentionBackward(body) => {
            signature.fill(template!("attention/backward.cu"), attention::backward(graph, used, body)?)
        }
        Body::WarpAttentionBackward(body) => {
            signature.fill(template!("attention/warp_backward.cu"), attention::warp_backward(graph, used, body)?)
        }
        Body::AttentionQueries(body) => {
            signature.fill(template!("attention/backward_queries.cu"), attention::backward_queries(graph, used, body)?)
        }
        Body::AttentionBias(body) => {
            signature.fill(template!("attention/backward_bias.cu"), attention::backward_bias(graph, used, body)?)
        }
        Body::Gemm(body) => product::product(graph, used, body, signature),
    };
    Ok(layout::laid_out(&text?))
}

/// The graph and the config, as a comment.
fn header(kernel: &Kernel) -> String {
    let mut lines = vec![format!("fusewright {}, engine config: {}", env!("CARGO_PKG_VERSION"), kernel.config)];
    match kernel.graph.is_dynamic() {
        true => lines.push("extents and strides are told by launches".to_owned()),
        false => lines.extend(kernel.graph.text().lines().map(str::to_owned)),
    }
    lines.iter().map(|line| format!("// {line}\n")).collect()
}
