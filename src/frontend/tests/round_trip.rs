//! What is written reads back as it was (FEJ-14, FEJ-15).

use std::io::BufReader;
use std::path::{Path, PathBuf};

use super::*;
use crate::frontend::{DocumentReader, write_v1c, write_v2};
use crate::graph::{
    Attributes, Concat, DataType, NormBackward, NormForward, NormMode, NormPhase, Other, PointwiseMode, Port, Scalar,
    Signal, SignalMode, Softmax,
};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

#[track_caller]
fn reads_back(graph: &Graph) {
    for text in [write_v2(graph), write_v1c(graph)] {
        let again = read_graph("again", text.as_bytes()).unwrap();
        assert_eq!(without_uids(again), without_uids(graph.clone()), "{text}");
    }
}

#[test]
fn the_examples_read_back_in_both_dialects() {
    EXAMPLES.iter().for_each(|example| reads_back(&read(&parsed(example)).unwrap()));
}

#[test]
fn the_suite_reads_back_with_its_uids() {
    let files = std::fs::read_dir(data("suite")).unwrap();
    let graphs: Vec<_> = files
        .map(|file| {
            let path = file.unwrap().path();
            let document = read_documents(path.to_str().unwrap(), &std::fs::read(&path).unwrap()).documents.remove(0);
            assert_eq!(Some(document.name.as_str()), path.file_stem().and_then(|stem| stem.to_str()));
            document.result.unwrap()
        })
        .collect();
    assert_eq!(graphs.len(), 55);
    for graph in graphs {
        assert_eq!(read_graph("v2", write_v2(&graph).as_bytes()).unwrap(), graph);
        assert_eq!(read_graph("v1c", write_v1c(&graph).as_bytes()).unwrap(), graph);
    }
}

#[test]
fn the_recorded_graphs_read_back_with_their_uids() {
    let file = std::fs::File::open(data("verdicts.jsonl.gz")).unwrap();
    let (mut count, mut names) = (0, std::collections::HashSet::new());
    for document in DocumentReader::new("verdicts.jsonl", BufReader::new(flate2::read::GzDecoder::new(file))) {
        assert!(document.name.parse::<u32>().is_ok() && names.insert(document.name), "names are record ids");
        assert!(document.warnings.is_empty(), "{:?}", document.warnings);
        let graph = document.result.unwrap();
        assert_eq!(read_graph("v2", write_v2(&graph).as_bytes()).unwrap(), graph);
        assert_eq!(read_graph("v1c", write_v1c(&graph).as_bytes()).unwrap(), graph);
        count += 1;
    }
    assert_eq!(count, 3979);
}

/// One node of every class that has typed attributes of ours, or kept ones, with every kind of tensor.
fn rich() -> Graph {
    let mut graph = Graph::new().name("rich").io_data_type(DataType::Half).compute_data_type(DataType::Float);
    let x = graph.tensor(Tensor::new("x").row_major([2, 4, 8, 8]).alignment(4));
    let y = graph.tensor(Tensor::new("y").row_major([2, 4, 8, 8]));
    let joined = graph.concatenate("join", 1, &[x, y]);
    graph.last_operation().attributes = Attributes::Concat(Concat { axis: 1, in_place_index: Some(0) });
    let scale = graph.tensor(Tensor::scalar("scale", DataType::Double, Scalar::Float(0.1)));
    let scaled = graph.pointwise("scale", PointwiseMode::Mul, &[joined, scale]);
    let flag = graph.tensor(Tensor::new("flag").data_type(DataType::Int32).row_major([1, 1, 1, 1]));
    let signal = Attributes::Signal(Signal { mode: SignalMode::Set, value: 1 });
    graph.operation(crate::graph::Operation {
        name: "done".to_owned(),
        attributes: signal,
        compute_data_type: None,
        inputs: vec![(Port::X, scaled), (Port::FLAG, flag)],
        outputs: vec![],
    });
    let sink = graph.tensor(Tensor::new("sink").data_type(DataType::Float).row_major([1, 8, 1, 1]));
    let (y, statistics) = graph.softmax_with("soft", scaled, Some(sink), Softmax::STATISTICS);
    for id in [y].into_iter().chain(statistics) {
        graph.set_output(id);
    }
    let moved = graph.tensor(Tensor::new("moved").data_type(DataType::Half));
    let attributes = [("permutation".to_owned(), json!([0, 2, 3, 1]))].into_iter().collect();
    graph.operation(crate::graph::Operation {
        name: "move".to_owned(),
        attributes: Attributes::Other(Other { tag: "TRANSPOSE", attributes }),
        compute_data_type: Some(DataType::Float),
        inputs: vec![(Port::X, scaled)],
        outputs: vec![(Port::Y, moved)],
    });
    let offset = graph.tensor(Tensor::new("offset").data_type(DataType::Int32).row_major([3, 1, 1, 1]));
    graph.tensor_mut(moved).ragged_offset = Some(offset);
    graph.tensor_mut(moved).ragged_offset_multiplier = 8;
    graph
}

/// A batch norm over two GPUs, whose messages have uids or names.
#[test]
fn tensors_of_peers_read_back_from_the_node() {
    for uids in [[Some(7), Some(8)], [None, None]] {
        let mut graph = Graph::new().name("peers").io_data_type(DataType::Half).compute_data_type(DataType::Float);
        let x = graph.tensor(Tensor::new("x").channels_last([2, 8, 5, 5]));
        let mut inputs = vec![(Port::X, x)];
        for port in [Port::SCALE, Port::BIAS] {
            inputs.push((port, graph.tensor(Tensor::new(port.0).channels_last([1, 8, 1, 1]))));
        }
        inputs.push((Port::EPSILON, graph.tensor(Tensor::scalar("epsilon", DataType::Float, Scalar::Float(0.25)))));
        for (port, uid) in Port::PEER_STATS.into_iter().zip(uids) {
            let peer = Tensor::new(port.0).row_major([2, 32, 1, 1]).data_type(DataType::Float);
            inputs.push((port, graph.tensor(Tensor { uid, ..peer })));
        }
        let norm = NormForward::new(NormMode::Batch, NormPhase::Training);
        let y = graph.composite("norm", norm, &inputs, &[Port::Y])[0];
        graph.set_output(y);
        reads_back(&graph);
        let node = parsed(&write_v2(&graph))["nodes"][0].clone();
        assert_eq!(node["peer_stats"].as_array().map(Vec::len), Some(2), "{node}");
        assert!(node["inputs"].as_object().unwrap().keys().all(|port| !port.starts_with("PEER")), "{node}");
        // as frontends write them: the list of tensors has those of ports alone
        let mut alone = parsed(&write_v2(&graph));
        let is_listed = |tensor: &Value| !tensor["name"].as_str().unwrap().starts_with("PEER");
        alone["tensors"].as_array_mut().unwrap().retain(is_listed);
        let read = read(&alone).unwrap();
        assert_eq!(read.operations()[0].inputs.len(), 6);
        assert_eq!(read.tensors().iter().filter(|tensor| tensor.name.starts_with("PEER")).count(), 2);
    }
}

/// Norms of groups, of which a number is given or told by the statistics.
#[test]
fn numbers_of_groups_read_back_where_they_are_given() {
    for mode in [NormMode::groups(4), NormMode::Group { count: None }] {
        let mut graph = Graph::new().name("groups").io_data_type(DataType::Half).compute_data_type(DataType::Float);
        let x = graph.tensor(Tensor::new("x").row_major([2, 8, 5, 5]));
        let epsilon = graph.tensor(Tensor::scalar("epsilon", DataType::Float, Scalar::Float(0.25)));
        let inputs = [(Port::X, x), (Port::EPSILON, epsilon)];
        let norm = NormForward::new(mode, NormPhase::Training);
        let results = graph.composite("norm", norm, &inputs, &[Port::Y, Port::MEAN, Port::INV_VARIANCE]);
        graph.set_output(results[0]);
        for &id in &results[1..] {
            *graph.set_output(id) = Tensor::new(format!("statistic {}", id.index())).row_major([2, 4, 1, 1]);
        }
        let gradients = [(Port::DY, x), (Port::X, x), (Port::MEAN, results[1]), (Port::INV_VARIANCE, results[2])];
        let dx = graph.composite("gradient", NormBackward { mode }, &gradients, &[Port::DX])[0];
        graph.set_output(dx);
        reads_back(&graph);
        let nodes = parsed(&write_v2(&graph))["nodes"].clone();
        let expected = if mode == NormMode::groups(4) { json!(4) } else { Value::Null };
        assert!(nodes.as_array().unwrap().iter().all(|node| node["num_groups"] == expected), "{nodes}");
    }
}

#[test]
fn everything_a_graph_can_say_reads_back() {
    reads_back(&rich());
}

#[test]
fn names_are_made_unique_and_uids_start_at_one() {
    let mut graph = Graph::new();
    let names = ["x", "x", "", "", "2"];
    let ids = names.map(|name| graph.tensor(Tensor::new(name).row_major([4])));
    graph.concatenate("c", 0, &ids);
    graph.tensor_mut(ids[4]).uid = Some(2);
    graph.tensor_mut(ids[0]).uid = Some(2);
    let v2 = parsed(&write_v2(&graph));
    let column = |key: &str| v2["tensors"].as_array().unwrap().iter().map(|t| t[key].clone()).collect::<Vec<_>>();
    assert_eq!(column("uid"), [json!(2), json!(1), json!(3), json!(4), json!(5), json!(6)]);
    assert_eq!(column("name"), [json!("x"), json!("x#2"), Value::Null, Value::Null, json!("2#2"), json!("c::Y")]);
    let v1c = parsed(&write_v1c(&graph));
    let keys: Vec<_> = v1c["tensors"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["1", "2", "c::Y", "tensor", "tensor#2", "x#2"]);
    for text in [v1c, v2] {
        assert_eq!(read(&text).unwrap().tensors().len(), 6);
    }
}

#[test]
fn every_key_of_the_class_and_the_envelope_is_written() {
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    for (example, write) in [(CONVOLUTION, write_v2 as fn(&Graph) -> String), (MATMUL, write_v1c)] {
        let (original, written) = (parsed(example), parsed(&write(&read(&parsed(example)).unwrap())));
        assert_eq!(keys(&written), keys(&original));
        assert_eq!(keys(&written["context"]), keys(&original["context"]));
        for (node, original) in written["nodes"].as_array().unwrap().iter().zip(original["nodes"].as_array().unwrap()) {
            let added = keys(node).into_iter().filter(|key| original.get(key).is_none()).collect::<Vec<_>>();
            assert_eq!((added, keys(node).len()), (vec![], keys(original).len()));
        }
        let tensors = |value: &Value| match &value["tensors"] {
            Value::Array(array) => keys(&array[0]),
            other => keys(&other["1"]),
        };
        assert_eq!(tensors(&written), tensors(&original));
    }
}

#[test]
fn an_empty_graph_is_written_as_each_dialect_does() {
    let (v2, v1c) = (parsed(&write_v2(&Graph::new())), parsed(&write_v1c(&Graph::new())));
    assert_eq!((&v2["nodes"], &v2["tensors"]), (&json!([]), &json!([])));
    assert_eq!((&v1c["nodes"], &v1c["tensors"]), (&Value::Null, &Value::Null));
}
