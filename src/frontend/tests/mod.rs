//! Tests of the whole reader and writer (`docs/spec/frontend-json.md` section 14).

mod dialects;
mod errors;
mod files;
mod round_trip;
mod with_finalize;

use serde_json::{Value, json};

use super::{Documents, ReadError, read_documents, read_graph};
use crate::graph::{Graph, Tensor};

pub(super) const MATMUL: &str = include_str!("../../../tests/data/json/matmul_bias_gelu_v1c.json");
pub(super) const CONVOLUTION: &str = include_str!("../../../tests/data/json/conv_genstats_v2.json");
pub(super) const ATTENTION: &str = include_str!("../../../tests/data/json/causal_attention_v1c.json");
pub(super) const RELU: &str = include_str!("../../../tests/data/json/relu_v1a.json");
pub(super) const EXAMPLES: [&str; 4] = [MATMUL, CONVOLUTION, ATTENTION, RELU];

/// A graph text as a value to change.
fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn read(graph: &Value) -> Result<Graph, ReadError> {
    read_graph("test.json", graph.to_string().as_bytes())
}

fn documents(text: &str) -> Documents {
    read_documents("dir/test.log", text.as_bytes())
}

/// The graph without what a process or a dialect gives it.
fn without_uids(mut graph: Graph) -> Graph {
    graph.tensors.iter_mut().for_each(|tensor| tensor.uid = None);
    graph
}

fn tensor<'a>(graph: &'a Graph, name: &str) -> &'a Tensor {
    graph.tensors().iter().find(|tensor| tensor.name == name).unwrap()
}

/// A graph of dialect 1.0 with these nodes and tensors, and all types HALF.
fn keyed(nodes: Value, tensors: Value) -> Value {
    json!({"context": {"io_data_type": "HALF"}, "json_version": "1.0", "nodes": nodes, "tensors": tensors})
}

/// A tensor of dialect 1.0.
fn named(name: &str, dim: &[i64], is_virtual: bool) -> Value {
    json!({"name": name, "dim": dim, "stride": [], "is_virtual": is_virtual, "uid": 0, "uid_assigned": false})
}

fn reshape(name: &str, input: &str, output: &str) -> Value {
    json!({"tag": "RESHAPE", "name": name, "inputs": {"X": input}, "outputs": {"Y": output}})
}
