//! What programs learn from numerical notes.

use cudarc::cudnn::sys::cudnnBackendNumericalNote_t as Note;

use super::*;
use crate::emulator::{EmulatedKernel, compiler_version};
use crate::reference::{BoundOptions, Distribution, bounds_with, compare, execute, random_inputs};

const TENSOR_CORE: u32 = Note::CUDNN_NUMERICAL_NOTE_TENSOR_CORE as u32;

/// The configs that a mode lists, each with the numerical notes of its engine.
fn noted(graph: &Owned, mode: Mode) -> Vec<(Owned, Vec<u32>)> {
    let heuristics = heuristics(graph, mode).finalize();
    let results = got(&heuristics, Name::CUDNN_ATTR_ENGINEHEUR_RESULTS, Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    let with_notes = |config: Owned| {
        let engine = &got(&config, Name::CUDNN_ATTR_ENGINECFG_ENGINE, Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR)[0];
        let mut notes = [u32::MAX; 8];
        let count =
            engine.get(Name::CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, Type::CUDNN_TYPE_NUMERICAL_NOTE, &mut notes) as usize;
        (config, notes[..count].to_vec())
    };
    results.into_iter().map(with_notes).collect()
}

fn matmul_of(operands: RawType) -> Owned {
    graph_of(&matmul_relu_nodes(operands, operands, 6.0), None)
}

#[test]
fn float_products_on_tensor_cores_have_no_note_but_that() {
    for (operands, in_full) in [(FLOAT, 1), (HALF, 0)] {
        for mode in [Mode::CUDNN_HEUR_MODE_A, Mode::CUDNN_HEUR_MODE_B, Mode::CUDNN_HEUR_MODE_FALLBACK] {
            let configs = noted(&matmul_of(operands), mode);
            let (rounded, full) = configs.split_at(configs.len() - in_full);
            assert!(
                !rounded.is_empty() && rounded.iter().all(|(_, notes)| notes == &[TENSOR_CORE]),
                "{operands:?} {mode:?}"
            );
            assert!(full.iter().all(|(_, notes)| notes.is_empty()), "{operands:?} {mode:?}");
        }
    }
}

/// As PyTorch does where TF32 is forbidden: by the only config without the note, within FLOAT's own error bounds.
#[test]
fn a_caller_without_tensor_cores_computes_in_full_float() {
    let mut listed = noted(&matmul_of(FLOAT), Mode::CUDNN_HEUR_MODE_INSTANT);
    listed.retain(|(_, notes)| !notes.contains(&TENSOR_CORE));
    let [(config, _)] = &listed[..] else { panic!("{} configs", listed.len()) };
    // engine and knobs make the config again
    let again = Owned::new(Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    for (name, kind) in [
        (Name::CUDNN_ATTR_ENGINECFG_ENGINE, Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR),
        (Name::CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, Kind::CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR),
    ] {
        let parts = got(config, name, kind);
        let pointers: Vec<*mut c_void> = parts.iter().map(|part| part.0).collect();
        again.set(name, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR, &pointers);
    }
    let again = again.finalize();
    let config =
        descriptor::find(again.0).and_then(|config| config.object::<super::super::engine::Config>()).expect("a config");
    let (graph, source) = (config.engine.graph.graph().expect("a graph"), config.source().expect("a source"));
    if compiler_version().is_err() {
        return; // the tier of the emulator says so
    }
    let folder = tempfile::tempdir().expect("a folder");
    // SAFETY: the source was rendered for the graph.
    let kernel = unsafe { EmulatedKernel::compile(source, folder.path()) }.expect("it compiles");
    let inputs = random_inputs(graph, 7, Distribution::Normal).expect("inputs");
    let bounds = bounds_with(graph, &inputs, BoundOptions { tf32: false, fp8: false }).expect("bounds");
    let (expected, found) = (execute(graph, &inputs).expect("expected"), kernel.run(graph, &inputs).expect("found"));
    let comparison = compare(graph, &expected, &found, Some(&bounds)).expect("of one graph");
    assert!(comparison.is_match(), "{comparison}");
}
