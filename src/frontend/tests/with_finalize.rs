//! What a file gives once [`Graph::finalize`] completed it.

use super::*;
use crate::frontend::{write_v1c, write_v2};
use crate::graph::DataType::{self, BFloat16, Float, Half};
use crate::graph::FinalizedGraph;

fn finalized(text: &str) -> FinalizedGraph {
    read(&parsed(text)).unwrap().finalize().unwrap()
}

#[track_caller]
fn has(graph: &FinalizedGraph, name: &str, data_type: DataType, dim: &[i64], stride: &[i64]) {
    let tensor = graph.tensors().find(|tensor| tensor.name == name).unwrap();
    assert_eq!((tensor.data_type, &*tensor.dim, &*tensor.stride), (data_type, dim, stride), "{name}");
}

#[test]
fn the_matmul_example_is_completed() {
    let graph = finalized(MATMUL);
    for (name, data_type) in [("mm::C", Float), ("add::OUT_0", Float), ("act::OUT_0", BFloat16)] {
        has(&graph, name, data_type, &[8, 48, 160], &[7680, 160, 1]);
    }
    assert!(graph.operation_ids().all(|id| graph.compute_type(id) == Float));
}

#[test]
fn the_convolution_example_is_completed() {
    let graph = finalized(CONVOLUTION);
    for name in ["scale::OUT_0", "shift::OUT_0", "relu::OUT_0"] {
        has(&graph, name, Half, &[4, 64, 16, 16], &[16384, 1, 1024, 64]);
    }
    has(&graph, "conv::Y", Half, &[4, 32, 16, 16], &[8192, 1, 512, 32]);
    has(&graph, "stats::SUM", Float, &[1, 32, 1, 1], &[32, 1, 32, 32]);
    has(&graph, "stats::SQ_SUM", Float, &[1, 32, 1, 1], &[32, 1, 32, 32]);
}

#[test]
fn the_attention_example_is_completed() {
    has(&finalized(ATTENTION), "attn::Stats", Float, &[3, 4, 1024, 1], &[4096, 1024, 1, 1]);
}

#[test]
fn the_oldest_example_is_completed_once_it_has_a_context() {
    let mut graph = read(&parsed(RELU)).unwrap();
    assert!(graph.finalize().is_err(), "nothing gives the result a type");
    graph.io_data_type = Some(Half);
    graph.compute_data_type = Some(Float);
    has(&graph.finalize().unwrap(), "r::OUT_0", Half, &[2, 3, 4], &[12, 4, 1]);
}

#[test]
fn the_key_does_not_depend_on_the_dialect() {
    for example in [MATMUL, CONVOLUTION, ATTENTION] {
        let (graph, key) = (read(&parsed(example)).unwrap(), finalized(example).key());
        assert_eq!(finalized(&write_v2(&graph)).key(), key);
        assert_eq!(finalized(&write_v1c(&graph)).key(), key);
        assert_eq!(finalized(&write_v1c(&without_uids(graph))).key(), key);
    }
}

#[test]
fn process_local_numbers_do_not_change_the_key() {
    let mut graph = parsed(CONVOLUTION);
    graph["gid"] = json!(77);
    graph["graph_uid"] = json!(9);
    assert_eq!(finalized(&graph.to_string()).key(), finalized(CONVOLUTION).key());
}

#[test]
fn dims_that_cannot_be_inferred_are_an_error_that_says_so() {
    let tensor = |name: &str, dim: &[i64]| named(name, dim, false);
    let dgrad = json!({"tag": "CONV_DGRAD", "name": "dgrad", "pre_padding": [1, 1], "post_padding": [1, 1],
                       "stride": [1, 1], "dilation": [1, 1], "compute_data_type": "FLOAT",
                       "inputs": {"DY": "dy", "W": "w"}, "outputs": {"DX": "dx"}});
    let mut dy = tensor("dy", &[2, 16, 8, 8]);
    dy["stride"] = json!([1024, 1, 128, 16]);
    let mut w = tensor("w", &[16, 8, 3, 3]);
    w["stride"] = json!([72, 1, 24, 8]);
    let graph = keyed(json!([dgrad]), json!({"dy": dy, "w": w, "dx": tensor("dx", &[])}));
    let error = read(&graph).unwrap().finalize().unwrap_err().to_string();
    assert!(error.contains("dgrad") && error.contains("dx") && error.contains("dim"), "{error}");
}

#[test]
fn a_reduction_without_dims_keeps_those_of_its_input_with_a_note() {
    let reduction = json!({"tag": "REDUCTION", "name": "sum", "mode": "ADD", "compute_data_type": "FLOAT",
                           "inputs": {"X": "x"}, "outputs": {"Y": "y"}});
    let mut x = named("x", &[2, 16, 8, 8], false);
    x["stride"] = json!([1024, 1, 128, 16]);
    let graph = keyed(json!([reduction]), json!({"x": x, "y": named("y", &[], false)}));
    match read(&graph).unwrap().finalize() {
        Ok(graph) => {
            has(&graph, "y", Half, &[2, 16, 8, 8], &[1024, 1, 128, 16]);
            assert!(!graph.notes().is_empty());
        }
        // A reduction that reduces nothing may be refused as malformed; then the message is about it.
        Err(error) => assert!(error.to_string().contains("sum"), "{error}"),
    }
}

#[test]
fn a_type_that_nothing_gives_is_an_error_that_names_the_context_key() {
    let mut graph = parsed(MATMUL);
    graph["context"]["io_data_type"] = Value::Null;
    let error = read(&graph).unwrap().finalize().unwrap_err().to_string();
    assert!(error.contains("'A'") && error.contains("io_data_type"), "{error}");
}
