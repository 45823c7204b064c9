//! Every dialect, and different forms of one graph.

use super::*;
use crate::frontend::{Dialect, DocumentReader};
use crate::graph::{Attributes, DataType, PointwiseMode, Port, Reordering, Scalar};

fn dialect(text: &str) -> Option<Dialect> {
    documents(text).documents[0].dialect
}

#[test]
fn the_examples_read() {
    let dialects = EXAMPLES.map(|example| dialect(example).unwrap());
    assert_eq!(dialects, [Dialect::V1C, Dialect::V2, Dialect::V1C, Dialect::V1A]);
    let graphs = EXAMPLES.map(|example| read(&parsed(example)).unwrap());
    let sizes = graphs.each_ref().map(|graph| (graph.operations().len(), graph.tensors().len()));
    assert_eq!(sizes, [(3, 6), (5, 10), (1, 5), (1, 2)]);
}

#[test]
fn mixed_references_resolve_by_uid_and_by_name() {
    let graph = read(&parsed(MATMUL)).unwrap();
    let names: Vec<_> = graph.tensors().iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(names, ["A", "B", "mm::C", "bias", "add::OUT_0", "act::OUT_0"], "in the order of first use");
    let uids: Vec<_> = graph.tensors().iter().map(|tensor| tensor.uid).collect();
    assert_eq!(uids, [Some(1), Some(2), None, Some(3), None, Some(4)]);
    assert_eq!((graph.io_data_type, graph.compute_data_type), (Some(DataType::BFloat16), Some(DataType::Float)));
    let c = tensor(&graph, "mm::C");
    assert!(c.is_virtual && c.dim.is_empty() && c.data_type.is_none(), "nothing is inferred");
}

/// The matmul example as frontends before 1.19 wrote it: names everywhere.
fn by_name() -> Value {
    let mut graph = parsed(MATMUL);
    let text = graph["nodes"].to_string();
    let names = [("1", "A"), ("2", "B"), ("3", "bias"), ("4", "act::OUT_0")];
    let text = names.iter().fold(text, |text, (uid, name)| text.replace(&format!(":{uid}"), &format!(":\"{name}\"")));
    graph["nodes"] = parsed(&text);
    let tensors = graph["tensors"].as_object_mut().unwrap();
    for (uid, name) in names {
        let mut tensor = tensors.remove(uid).unwrap();
        tensor["uid"] = json!(0);
        tensor["uid_assigned"] = json!(false);
        tensors.insert(name.to_owned(), tensor);
    }
    graph
}

#[test]
fn names_in_place_of_uids_give_an_equal_graph() {
    let graph = read(&by_name()).unwrap();
    assert!(graph.tensors().iter().all(|tensor| tensor.uid.is_none()));
    assert_eq!(graph, without_uids(read(&parsed(MATMUL)).unwrap()));
}

#[test]
fn dialect_1_5_has_no_version_keys() {
    let mut graph = by_name();
    for key in ["json_version", "cudnn_frontend_version", "cudnn_backend_version"] {
        graph.as_object_mut().unwrap().remove(key);
    }
    assert_eq!(dialect(&graph.to_string()), Some(Dialect::V1B));
    assert_eq!(read(&graph), read(&by_name()));
}

#[test]
fn tensors_written_in_full_are_linked_by_their_text() {
    let full = |name: &str, is_virtual| named(name, &[2, 3], is_virtual);
    let relu = |name: &str, input: Value, output: Value| {
        json!({"tag": "POINTWISE", "name": name, "mode": "RELU_FWD",
               "inputs": [["IN_0", input]], "outputs": [["OUT_0", output]]})
    };
    let chain =
        json!({"nodes": [relu("a", full("x", false), full("t", true)), relu("b", full("t", true), full("y", false))]});
    let graph = read(&chain).unwrap();
    assert_eq!(graph.tensors().len(), 3);
    assert_eq!(graph.operations()[0].output(Port::OUT_0), graph.operations()[1].input(Port::IN_0));
}

#[test]
fn key_order_and_formatting_do_not_matter() {
    for example in EXAMPLES {
        let value = parsed(example);
        let indented = serde_json::to_string_pretty(&value).unwrap();
        assert_eq!(read_graph("a", indented.as_bytes()).unwrap(), read_graph("b", example.as_bytes()).unwrap());
    }
}

#[test]
fn null_is_empty() {
    for empty in
        ["{\"nodes\":null}", "{\"context\":{},\"nodes\":null,\"tensors\":null}", "{\"nodes\":[],\"tensors\":[]}"]
    {
        assert_eq!(read_graph("a", empty.as_bytes()).unwrap(), Graph::new(), "{empty}");
    }
    let rng = keyed(
        json!([{"tag": "RNG", "name": "r", "inputs": null, "outputs": {"Y": "y"}, "seed": 7}]),
        json!({"y": named("y", &[4], false)}),
    );
    assert!(read(&rng).unwrap().operations()[0].inputs.is_empty());
}

#[test]
fn unknown_keys_are_ignored_and_listed() {
    let mut graph = parsed(CONVOLUTION);
    graph["gid"] = json!(99);
    graph["graph_uid"] = json!(5);
    graph["mood"] = json!({});
    graph["nodes"][0]["colour"] = json!("blue");
    let document = documents(&graph.to_string()).documents.remove(0);
    assert_eq!(document.ignored_keys, ["colour", "mood"]);
    assert_eq!(document.gid, Some(99));
    assert_eq!(document.result, read(&parsed(CONVOLUTION)));
}

#[test]
fn attention_of_old_and_new_frontends_is_one_graph() {
    let mut old = parsed(ATTENTION);
    old["cudnn_frontend_version"] = json!(10700);
    let node = old["nodes"][0].as_object_mut().unwrap();
    let new_keys = ["left_bound", "right_bound", "diagonal_alignment", "max_seq_len_kv", "generate_stats"];
    for key in new_keys.into_iter().chain(["mma_core_mode", "implementation", "is_mxfp8", "unfuse_fma"]) {
        node.remove(key);
    }
    node.insert("tag".to_owned(), json!("SDPA_FWD"));
    node.insert("causal_mask".to_owned(), json!(true));
    node.insert("is_inference".to_owned(), json!(false));
    assert_eq!(read(&old), read(&parsed(ATTENTION)));
}

#[test]
fn attention_keeps_its_attributes_decoded() {
    let graph = read(&parsed(ATTENTION)).unwrap();
    let Attributes::Other(attention) = &graph.operations()[0].attributes else { panic!() };
    assert_eq!(attention.tag, "SDPA");
    assert_eq!(attention.attributes["right_bound"], json!(0));
    assert!((attention.attributes["attn_scale_value"].as_f64().unwrap() - 128f64.powf(-0.5)).abs() < 1e-8);
    assert!(!attention.attributes.contains_key("dropout_probability"), "null is not kept");
}

#[test]
fn every_member_of_a_tensor_is_read() {
    let mut graph = parsed(CONVOLUTION);
    let scale = &mut graph["tensors"][1];
    scale["is_pass_by_value"] = json!(true);
    scale["pass_by_value"] = json!({"index": 2, "value": "3E000000"});
    scale["reordering_type"] = json!("F8_128x4");
    scale["alignment"] = json!(4);
    scale["ragged_offset_uid"] = json!(3);
    scale["ragged_offset_multiplier"] = json!(64);
    let graph = read(&graph).unwrap();
    let scale = tensor(&graph, "S");
    assert_eq!((scale.value, scale.reordering), (Some(Scalar::Float(0.125)), Reordering::F8_128x4));
    assert_eq!((scale.alignment, scale.ragged_offset_multiplier), (4, 64));
    assert_eq!(graph.tensors()[scale.ragged_offset.unwrap().index()].name, "T");
}

#[test]
fn a_ragged_offset_that_is_not_listed_is_added_by_name() {
    let mut graph = parsed(ATTENTION);
    graph["tensors"]["q"]["ragged_offset_uid"] = json!(0);
    graph["tensors"]["q"]["ragged_offset_name"] = json!("q_offset");
    let graph = read(&graph).unwrap();
    let offset = tensor(&graph, "q").ragged_offset.unwrap();
    assert_eq!(graph.tensors()[offset.index()], Tensor::new("q_offset"));
}

#[test]
fn a_missing_virtual_flag_is_guessed_from_the_uses() {
    let mut graph = parsed(CONVOLUTION);
    for tensor in graph["tensors"].as_array_mut().unwrap() {
        tensor.as_object_mut().unwrap().remove("is_virtual");
    }
    let with_uids = read(&graph).unwrap();
    assert!(with_uids.tensors().iter().all(|tensor| !tensor.is_virtual), "a tensor with a uid is the user's");
    let mut graph = by_name();
    graph["tensors"]["mm::C"].as_object_mut().unwrap().remove("is_virtual");
    let document = documents(&graph.to_string()).documents.remove(0);
    assert!(tensor(document.result.as_ref().unwrap(), "mm::C").is_virtual);
    assert!(document.warnings.iter().any(|warning| warning.contains("'mm::C': guessed to be virtual")));
}

#[test]
fn unused_tensors_are_left_out_with_a_warning() {
    let mut graph = by_name();
    graph["tensors"]["spare"] = named("spare", &[1], false);
    let document = documents(&graph.to_string()).documents.remove(0);
    assert_eq!(document.result, read(&by_name()));
    assert!(document.warnings[0].starts_with("1 listed tensor is used"), "{:?}", document.warnings);
}

#[test]
fn a_scalar_without_a_value_is_noted_once() {
    let mut graph = parsed(CONVOLUTION);
    for index in [1, 2] {
        graph["tensors"][index]["is_pass_by_value"] = json!(true);
    }
    let warnings = documents(&graph.to_string()).documents.remove(0).warnings;
    let expected = "host scalar 'S' (uid 2) and 1 more without a value: given at run time [FEJ-10]";
    assert_eq!(warnings, [expected]);
}

#[test]
fn what_a_dump_cannot_say_is_listed() {
    let document = documents(ATTENTION).documents.remove(0);
    assert_eq!(document.not_in_dump, ["pointer alignments (taken as 16 bytes)", "score modifiers of attention"]);
    assert!(documents(CONVOLUTION).documents[0].not_in_dump.is_empty());
}

#[test]
fn a_large_graph_is_read_in_linear_time() {
    let mut graph = Graph::new();
    let mut x = graph.tensor(Tensor::new("x").row_major([4, 4]));
    for index in 0..20_000 {
        x = graph.pointwise(&index.to_string(), PointwiseMode::ReluFwd, &[x]);
    }
    for text in [crate::frontend::write_v2(&graph), crate::frontend::write_v1c(&graph)] {
        let document = DocumentReader::new("large", text.as_bytes()).next().unwrap();
        assert_eq!(without_uids(document.result.unwrap()), graph);
    }
}
