//! Kernels of accepted graphs.

use std::sync::Arc;

use super::graph_of;
use crate::build::Build;
use crate::engine;
use crate::fuzz::choices::Choices;
use crate::fuzz::finding::{Finding, finding};
use crate::fuzz::oracle::{Examination, Standing, examine};
use crate::fuzz::runner::{CompiledOnly, Runner};

/// The graph that the bytes stand for, held against all that needs no computation. Gives whether an engine takes it.
///
/// # Errors
/// As [`examine`].
pub fn lower_and_render(bytes: &[u8]) -> Result<bool, Finding> {
    let Some(made) = graph_of(bytes) else { return Ok(false) };
    let standing = examine(&made.graph, made.aim, bytes, &Examination { computes: false, runner: None })?;
    Ok(matches!(standing, Standing::Accepted { .. }))
}

/// The kernel of the graph that the bytes stand for, if an engine takes it: it compiles, with one of the
/// configs that the first four bytes draw; the others are the graph. Gives whether there was one to compile.
///
/// # Errors
/// What fails to render or to compile, or is warned of by the assembler.
pub fn nvrtc_compile(bytes: &[u8], compiler: &CompiledOnly) -> Result<bool, Finding> {
    let Some((draw, rest)) = bytes.split_at_checked(4) else { return Ok(false) };
    let Some(finalized) = graph_of(rest).and_then(|made| made.graph.finalize().ok()) else { return Ok(false) };
    let (graph, device) = (Arc::new(finalized), compiler.device());
    let Ok(selection) = engine::select(&graph, device.capability) else { return Ok(false) };

    let config = Choices::new(draw).of(&selection.candidates(device)).config;
    let failed = |message: &dyn std::fmt::Display| finding("what is accepted compiles", format!("{config}: {message}"));
    let build = Build::new(&selection, config.clone(), device).map_err(|error| failed(&error))?;
    let compiled = compiler.run(&build, &[]);
    compiled.map(|_| true).map_err(|error| failed(&error))
}
