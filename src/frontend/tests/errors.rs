//! What is refused, in which words.

use super::*;

#[track_caller]
fn refuses(graph: &Value, message: &str) {
    assert_eq!(read(graph).unwrap_err().to_string(), format!("test.json: graph 1 (line 1): {message}"));
}

/// The matmul example with one value changed.
fn changed(pointer: &str, value: Value) -> Value {
    let mut graph = parsed(MATMUL);
    *graph.pointer_mut(pointer).unwrap() = value;
    graph
}

#[test]
fn errors_of_nodes_name_the_node() {
    let node = "node 'mm' (MATMUL, node 0)";
    refuses(&changed("/nodes/0/inputs/B", json!(7)), &format!("{node}: port B: no tensor has the uid 7 [FEJ-05]"));
    refuses(
        &changed("/nodes/1/inputs/IN_0", json!("mm::D")),
        "node 'add' (POINTWISE, node 1): port IN_0: no tensor has the name 'mm::D', did you mean \"mm::C\"? [FEJ-05]",
    );
    refuses(
        &changed("/nodes/2/mode", json!("GELU_FDW")),
        "node 'act' (POINTWISE, node 2): `mode`: unknown value \"GELU_FDW\", did you mean \"GELU_FWD\"? (one of 51, \
         which `fusewright rules --values` lists) [FEJ-12]",
    );
    refuses(
        &changed("/nodes/2/tag", json!("POINTWIS")),
        "node 'act' (POINTWIS, node 2): unknown tag \"POINTWIS\", did you mean \"POINTWISE\"? (one of 50, \
         which `fusewright rules --values` lists) [FEJ-11]",
    );
    refuses(
        &changed("/nodes/0/inputs", json!({"A": 1, "b": 2})),
        &format!(
            "{node}: `inputs`: unknown port \"b\", did you mean \"B\"? \
         (one of A, B, M_override, N_override, K_override, Block_mask) [FEJ-11]"
        ),
    );
    refuses(
        &changed("/nodes/2/relu_upper_clip", json!("3E0")),
        "node 'act' (POINTWISE, node 2): `relu_upper_clip`: a number or 8 hexadecimal digits are required, \
         found \"3E0\" [FEJ-09]",
    );
    refuses(
        &changed("/nodes/2/mode", Value::Null),
        "node 'act' (POINTWISE, node 2): `mode` is null: the mode is newer than the frontend that wrote \
         the file [FEJ-41]",
    );
}

#[test]
fn errors_of_tensors_name_the_tensor() {
    refuses(
        &changed("/tensors/1/data_type", json!("HALV")),
        "tensor 'A' (uid 1): `data_type`: unknown value \"HALV\", did you mean \"HALF\"? (one of FLOAT, DOUBLE, HALF, \
         BFLOAT16, INT8, UINT8, INT32, INT64, BOOLEAN, FP8_E4M3, FP8_E5M2, FAST_FLOAT_FOR_FP8, INT8x4, UINT8x4, INT8x32, \
         FP8_E8M0, FP4_E2M1, INT4, COMPLEX_FP32, COMPLEX_FP64, BYTE_BOOLEAN, FP8_E5M3) [FEJ-12]",
    );
    refuses(
        &changed("/tensors/mm::C/dim", json!([1, "x"])),
        "tensor 'mm::C': `dim`: an array of 64-bit integers is required, found [1,\"x\"] [FEJ-13]",
    );
    refuses(&changed("/tensors/2", json!(3)), "tensor '2': an object is required, found 3 [FEJ-04]");
}

#[test]
fn wrong_shapes_of_the_envelope_are_refused() {
    refuses(&json!({"nodes": 3}), "`nodes`: an array is required, found 3 [FEJ-13]");
    refuses(&json!({"nodes": [], "tensors": 3}), "`tensors`: an object or an array is required, found 3 [FEJ-04]");
    refuses(&json!({"nodes": [], "context": []}), "`context`: an object is required, found [] [FEJ-13]");
    refuses(&json!({"nodes": [], "tensors": [{}]}), "tensor 0 of the list has neither uid nor name [FEJ-13]");
}

#[test]
fn names_that_two_nodes_produce_are_ambiguous() {
    let tensors = json!({"x": named("x", &[4], false), "::Y": named("::Y", &[], true), "y": named("y", &[], false)});
    let mut nodes = vec![reshape("", "x", "::Y"), reshape("", "x", "::Y"), reshape("", "::Y", "y")];
    refuses(&keyed(json!(nodes), tensors.clone()), "ambiguous tensor name '::Y' (nodes 0, 1) [FEJ-31]");
    nodes[1] = reshape("", "::Y", "::Y");
    nodes.remove(0);
    let own = "ambiguous tensor name '::Y': node 0 reads its own output [FEJ-31]";
    refuses(&keyed(json!(nodes), tensors), own);
}

#[test]
fn constants_without_a_name_are_ambiguous_when_used_twice() {
    let add = |name: &str, input: &str, output: &str| {
        json!({"tag": "POINTWISE", "name": name, "mode": "ADD",
               "inputs": {"IN_0": input, "IN_1": ""}, "outputs": {"OUT_0": output}})
    };
    let tensors = json!({"x": named("x", &[4], false), "": named("", &[1], false),
                         "t": named("t", &[], true), "y": named("y", &[], false)});
    let graph = keyed(json!([add("a", "x", "t"), add("b", "t", "y")]), tensors.clone());
    refuses(&graph, "ambiguous tensor name '' (nodes 0, 1) [FEJ-31]");
    assert!(read(&keyed(json!([add("a", "x", "t")]), tensors)).is_ok());
}

#[test]
fn unnamed_tensors_in_full_are_linked_only_where_unique() {
    let relu = |input: Value, output: Value| {
        json!({"tag": "POINTWISE", "name": "", "mode": "RELU_FWD",
               "inputs": [["IN_0", input]], "outputs": [["OUT_0", output]]})
    };
    let chain = |is_virtual| {
        let between = named("", &[2, 3], is_virtual);
        json!({"nodes": [relu(named("x", &[2, 3], false), between.clone()), relu(between, named("y", &[2, 3], false))]})
    };
    assert_eq!(read(&chain(true)).unwrap().tensors().len(), 3);
    refuses(&chain(false), "ambiguous tensor name '' (nodes 0, 1) [FEJ-39]");
}

#[test]
fn uids_given_twice_are_ambiguous_where_used() {
    let mut graph = parsed(CONVOLUTION);
    graph["tensors"][1]["uid"] = json!(1);
    let message = "port IN_0: several tensors have the uid 1: the reference is ambiguous";
    refuses(&graph, &format!("node 'scale' (POINTWISE, node 0): {message} [FEJ-31]"));
}

#[test]
fn a_block_mask_in_place_of_q_is_detected() {
    let message = "node 'attn' (SDPA, node 0): port Q holds a block mask, which hid Q; \
                   log with frontend 1.24 or later [FEJ-34]";
    let mut graph = parsed(ATTENTION);
    graph["tensors"]["q"]["data_type"] = json!("UINT8");
    refuses(&graph, message);
    let mut graph = parsed(ATTENTION);
    graph["tensors"]["q"]["dim"] = json!([3, 4, 8, 1]);
    refuses(&graph, message);
    graph["cudnn_frontend_version"] = json!(12400);
    assert!(read(&graph).is_ok(), "newer frontends have a port for the mask");
}

#[test]
fn an_epsilon_in_place_of_dy_is_detected() {
    let tensor = |dim: &[i64]| named("", dim, false);
    let ports = json!({"DY": "e", "X": "x", "SCALE": "s", "MEAN": "m", "INV_VARIANCE": "v"});
    let outputs = json!({"DX": "dx", "DSCALE": "ds", "DBIAS": "db"});
    let node = json!({"tag": "LAYER_NORM_BPROP", "name": "ln", "inputs": ports, "outputs": outputs});
    let mut tensors = json!({"e": tensor(&[1, 1, 1])});
    for name in ["x", "s", "m", "v", "dx", "ds", "db"] {
        tensors[name] = tensor(&[2, 8, 16]);
    }
    let message = "node 'ln' (LAYER_NORM_BPROP, node 0): port DY holds one element: epsilon hid DY; \
                   log with frontend 1.24 or later [FEJ-35]";
    let mut graph = keyed(json!([node]), tensors);
    graph["cudnn_frontend_version"] = json!(12300);
    refuses(&graph, message);
}

#[test]
fn older_frontends_are_warned_about() {
    let mut graph = parsed(ATTENTION);
    graph["cudnn_frontend_version"] = json!(11800);
    graph["nodes"][0]["padding_mask"] = json!(true);
    let warnings = documents(&graph.to_string()).documents.remove(0).warnings;
    assert!(warnings.iter().any(|warning| warning.contains("FEJ-36")), "{warnings:?}");
    let add = json!({"tag": "POINTWISE", "name": "a", "mode": "ADD",
                     "inputs": {"IN_0": "b", "IN_1": "x"}, "outputs": {"OUT_0": "y"}});
    let tensors =
        json!({"b": named("b", &[1, 4], false), "x": named("x", &[2, 4], false), "y": named("y", &[], false)});
    let mut graph = keyed(json!([add]), tensors);
    graph.as_object_mut().unwrap().remove("json_version");
    let warnings = documents(&graph.to_string()).documents.remove(0).warnings;
    assert!(warnings[0].ends_with("[FEJ-23]"), "{warnings:?}");
}

#[test]
fn no_tampered_byte_makes_the_reader_panic() {
    for example in EXAMPLES {
        let bytes = example.as_bytes();
        for position in (0..bytes.len()).step_by(3) {
            for byte in [b'"', b'{', b']', b'9', 0xff, b'\n'] {
                let mut tampered = bytes.to_vec();
                tampered[position] = byte;
                assert!(!read_documents("t", &tampered).documents.is_empty());
            }
            assert!(!read_documents("t", &bytes[..position]).documents.is_empty());
        }
    }
}

#[test]
fn tensors_of_peers_are_a_list_of_at_most_32() {
    let peer = |uid: usize| json!({"uid": uid, "dim": [33, 4], "stride": [4, 1], "data_type": "FLOAT"});
    let node = |peers: Value| {
        let inputs = json!({"X": 1, "SCALE": 2, "BIAS": 3, "EPSILON": 4});
        json!({"json_version": "2.0", "context": {}, "tensors": (1..6).map(peer).collect::<Vec<_>>(),
               "nodes": [{"tag": "BATCHNORM", "name": "n", "inputs": inputs, "outputs": {"Y": 5}, "peer_stats": peers}]})
    };
    let error = |peers| read(&node(peers)).unwrap_err().to_string();
    let text = error(json!(7));
    assert!(text.contains("`peer_stats`: an array of tensors is required, found 7 [FEJ-13]"), "{text}");
    let text = error((10..43).map(peer).collect());
    assert!(text.contains("`peer_stats` has 33 tensors; required at most 32 [BAR-MG-MAX]"), "{text}");
    let text = error(json!([true]));
    assert!(text.contains("port PEER_STATS_0: a uid, a name or a tensor object is required, found true"), "{text}");
}

#[test]
fn twenty_failures_are_told_and_no_more_are_looked_for() {
    let node = |at: usize| {
        json!({"tag": "POINTWISE", "name": format!("n{at}"), "mode": "RELU_FWD",
                                  "inputs": {"IN_0": format!("x{at}")}, "outputs": {"OUT_0": "y"}})
    };
    let nodes: Vec<Value> = (0..2_000).map(node).collect();
    let tensors: serde_json::Map<String, Value> =
        (0..2_000).map(|at| (format!("t{at}"), json!({"name": format!("t{at}")}))).collect();
    let graph = json!({"json_version": "1.0", "context": {}, "nodes": nodes, "tensors": tensors});
    assert_eq!(read(&graph).unwrap_err().all().count(), 20);
}

#[test]
fn every_node_and_tensor_that_cannot_be_read_is_told() {
    let mut graph = parsed(MATMUL);
    graph["nodes"][0]["tag"] = json!("GEMM");
    graph["nodes"][2]["mode"] = json!("TANH");
    graph["tensors"]["1"]["data_type"] = json!("FLOAT16");
    graph["tensors"]["mm::C"]["dim"] = json!("x");
    let error = read(&graph).unwrap_err();
    let texts: Vec<String> = error.all().map(ToString::to_string).collect();
    let expected = [
        "node 'mm' (GEMM, node 0): unknown tag \"GEMM\", did you mean \"MATMUL\"?",
        "node 'act' (POINTWISE, node 2): `mode`: unknown value \"TANH\", did you mean \"TANH_FWD\"?",
        "tensor 'A' (uid 1): `data_type`: unknown value \"FLOAT16\", did you mean \"HALF\"?",
        "tensor 'mm::C': `dim`: an array of 64-bit integers is required",
    ];
    assert_eq!(texts.len(), expected.len(), "{texts:#?}");
    for (text, expected) in texts.iter().zip(expected) {
        assert!(text.starts_with(&format!("test.json: graph 1 (line 1): {expected}")), "{text}");
    }
    assert_eq!(crate::error::Error::from(error).to_string(), texts.join("\n"));
}
