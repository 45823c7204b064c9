//! What plans are found again by.

use crate::engine::EngineConfig;
use crate::graph::{FinalizedGraph, Scalar};

/// Digest of everything that a plan is made of, as far as the graph says it: its key, and what callers and messages know its
/// tensors and operations by (uids, names), with the values that it states.
pub(super) fn graph_digest(graph: &FinalizedGraph) -> [u8; 32] {
    *hashed(graph).finalize().as_bytes()
}

/// The same with a config of an engine.
pub(super) fn config_digest(graph: &FinalizedGraph, config: &EngineConfig) -> [u8; 32] {
    let mut hasher = hashed(graph);
    text(&mut hasher, config.engine);
    for (knob, value) in &config.knobs {
        text(&mut hasher, knob.name());
        hasher.update(&value.to_le_bytes());
    }
    *hasher.finalize().as_bytes()
}

fn hashed(graph: &FinalizedGraph) -> blake3::Hasher {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&graph.key().to_bytes()).update(&[u8::from(graph.is_dynamic())]);
    text(&mut hasher, graph.name());
    for tensor in graph.tensors() {
        hasher.update(&tensor.uid.to_le_bytes());
        text(&mut hasher, &tensor.name);
        let (kind, bits) = match tensor.value {
            None => (0, 0),
            Some(Scalar::Integer(value)) => (1, value as u64),
            Some(Scalar::Float(value)) => (2, value.to_bits()),
        };
        hasher.update(&[kind]).update(&bits.to_le_bytes());
    }
    graph.operations().for_each(|operation| text(&mut hasher, &operation.name));
    hasher
}

/// A text and its length, so that two in a row are told apart.
fn text(hasher: &mut blake3::Hasher, text: &str) {
    hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
}
