//! Texts of devices, plans and kernel caches.

use std::sync::Arc;

use serde_json::json;

use crate::build::Build;
use crate::compile::Cubin;
use crate::compile::sealed::VERSION;
use crate::device::{ComputeCapability, Device};
use crate::engine::{EngineConfig, Selection, select};
use crate::frontend::write_v2;
use crate::fuzz::choices::Choices;
use crate::fuzz::family::Family;
use crate::fuzz::generator::generate;

const CAPABILITIES: [ComputeCapability; 5] = [
    ComputeCapability::SM_90,
    ComputeCapability::new(8, 0),
    ComputeCapability::new(8, 9),
    ComputeCapability::new(7, 0),
    ComputeCapability::new(12, 0),
];

/// A typical device, mostly; else one that there is nowhere.
pub(super) fn device(choices: &mut Choices<'_>) -> String {
    let mut device = json!(Device::typical(choices.of(&CAPABILITIES)));
    if choices.chance(25) {
        let numbers = [0, 1, 1024, 49152, u64::from(u32::MAX), 7];
        for key in ["sm_count", "shared_bytes_per_block", "l2_bytes"] {
            if choices.chance(50) {
                device[key] = choices.of(&numbers).into();
            }
        }
        if choices.chance(50) {
            device["bytes_per_second"] = choices.of(&[0.0, -1.0, 1.0, 1e308, 1e-300]).into();
        }
    }
    device.to_string()
}

/// A text with a checksum that is right.
fn sealed(kind: &str, content: &str) -> String {
    let (checksum, version) = (blake3::hash(content.as_bytes()).to_hex(), env!("CARGO_PKG_VERSION"));
    format!(
        r#"{{"kind":"{kind}","version":{VERSION},"fusewright":"{version}","checksum":"{checksum}","content":{content}}}"#
    )
}

fn cubin() -> Cubin {
    Cubin {
        images: vec![vec![1, 2, 3], vec![4]],
        log: String::new(),
        resources: Vec::new(),
        warnings: Vec::new(),
        milliseconds: 1.0,
    }
}

/// A kernel cache with a few binaries; its checksum is right.
pub(super) fn kernels(choices: &mut Choices<'_>) -> String {
    let kernel = |number| json!({"target": "sm_90a", "source": format!("{number:064x}"), "cubin": cubin()});
    let kernels: Vec<serde_json::Value> = (0..choices.below(3)).map(kernel).collect();
    sealed("fusewright kernel cache", &json!({ "kernels": kernels }).to_string())
}

/// The plan of a config on a device, with machine code that no device runs.
pub(super) fn plan(selection: &Selection, config: &EngineConfig, device: &Device) -> Option<String> {
    let source = Build::new(selection, config.clone(), device).ok()?.source;
    let content = json!({
        "device": device,
        "config": config.to_string(),
        "graph": write_v2(&selection.supported().graph().to_graph()),
        "source": blake3::hash(source.text.as_bytes()).to_hex().to_string(),
        "cubin": cubin(),
    });
    Some(sealed("fusewright plan", &content.to_string()))
}

/// The plan of some graph for a Hopper, perhaps with a content that was changed before it was sealed.
pub(super) fn some_plan(choices: &mut Choices<'_>) -> String {
    let draws: Vec<u8> = (0..32).map(|_| choices.below(256) as u8).collect();
    let device = Device::typical(ComputeCapability::SM_90);
    let graph = generate(choices.of(&Family::ALL), &draws).graph.finalize().ok();
    let selection = graph.and_then(|graph| select(&Arc::new(graph), device.capability).ok());
    let text = selection.and_then(|selection| {
        let configs = selection.candidates(&device);
        plan(&selection, &choices.of(&configs).config, &device)
    });
    let text = text.unwrap_or_else(|| sealed("fusewright plan", "{}"));
    if !choices.chance(40) {
        return text;
    }
    let Some((_, content)) = text.split_once(r#""content":"#) else { return text };
    let content = damaged(content.strip_suffix('}').unwrap_or(content).to_owned(), choices);
    sealed("fusewright plan", &String::from_utf8_lossy(&content))
}

/// A text after up to three changes.
pub(super) fn damaged(text: String, choices: &mut Choices<'_>) -> Vec<u8> {
    const CHARACTERS: &[u8] = b"0123456789-.,:\"[]{}ntaE \n\0\xff";
    let mut bytes = text.into_bytes();
    for _ in 0..1 + choices.below(3) {
        let at = choices.below(bytes.len() + 1);
        match choices.below(4) {
            0 => bytes.truncate(at.max(1)),
            1 => bytes.insert(at, choices.of(CHARACTERS)),
            _ => {
                let character = choices.of(CHARACTERS);
                bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte = character);
            }
        }
    }
    bytes
}
