//! Writing a graph as frontend JSON that the library's own reader takes (FEJ-14).
//!
//! Every key of a class is written, floats as their bits. What no frontend version can say is added under keys of ours,
//! where it is not the default.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use super::fields::Object;
use super::schema::{Keys, PEER_STATS, schema};
use super::{attributes, float, kept};
use crate::graph::{Attributes, DEFAULT_ALIGNMENT, DataType, Graph, Operation, Port, Tensor, TensorHandle};

/// Writes dialect 2.0 as frontend 1.32 does, on one line. Tensors without a uid get the smallest free ones, from 1;
/// a name that an earlier tensor has gets a suffix.
///
/// ```
/// use fusewright::frontend;
/// use fusewright::graph::{Graph, PointwiseMode, Tensor};
///
/// let mut graph = Graph::new();
/// let x = graph.tensor(Tensor::new("x").uid(1).row_major([2, 3]));
/// let y = graph.pointwise("r", PointwiseMode::ReluFwd, &[x]);
/// graph.set_output(y).uid = Some(2);
/// let text = frontend::write_v2(&graph);
/// assert_eq!(frontend::read_graph("mine.json", text.as_bytes())?, graph);
/// # Ok::<(), frontend::ReadError>(())
/// ```
pub fn write_v2(graph: &Graph) -> String {
    let references = References::new(graph, true);
    let tensors: Vec<Value> = graph.tensors().iter().enumerate().map(|tensor| references.object_v2(tensor)).collect();
    let mut root = envelope(graph, 13200, "9.23.0", "2.0");
    root.insert("gid".to_owned(), json!(1));
    let nodes = graph.operations().iter().map(|operation| write_node(operation, 13200, &references, &tensors));
    root.insert("nodes".to_owned(), nodes.collect());
    root.insert("tensors".to_owned(), Value::Array(tensors));
    Value::Object(root).to_string()
}

/// Writes dialect 1.0 as frontend 1.26 does, on one line: the last that writes it, as those before 1.24 could not tell a
/// block mask from Q (FEJ-34). Tensors with a uid are referred to by it, the others by name; names are made unique, and
/// given to tensors that have neither.
pub fn write_v1c(graph: &Graph) -> String {
    let references = References::new(graph, false);
    let tensors: Vec<Value> = graph.tensors().iter().enumerate().map(|tensor| references.object_v1c(tensor)).collect();
    let mut root = envelope(graph, 12600, "9.23.0", "1.0");
    let nodes = graph.operations().iter().map(|operation| write_node(operation, 12600, &references, &tensors));
    root.insert("nodes".to_owned(), null_if_empty(nodes.collect()));
    let tensors: Object =
        tensors.into_iter().enumerate().map(|(index, tensor)| (references.key(index), tensor)).collect();
    root.insert("tensors".to_owned(), if tensors.is_empty() { Value::Null } else { Value::Object(tensors) });
    Value::Object(root).to_string()
}

fn null_if_empty(array: Value) -> Value {
    if array.as_array().is_some_and(Vec::is_empty) { Value::Null } else { array }
}

fn type_name(data_type: Option<DataType>) -> Value {
    json!(data_type.map(DataType::name))
}

fn envelope(graph: &Graph, version: i64, backend: &str, json_version: &str) -> Object {
    let mut context = Object::new();
    let mut put = |key: &str, value: Value| context.insert(key.to_owned(), value);
    put("io_data_type", type_name(graph.io_data_type));
    put("intermediate_data_type", type_name(graph.intermediate_data_type));
    put("compute_data_type", type_name(graph.compute_data_type));
    put("sm_count", json!(-1));
    put("is_dynamic_shape_enabled", json!(graph.is_dynamic));
    put("is_override_shape_enabled", json!(false));
    if json_version == "1.0" || !graph.name.is_empty() {
        put("name", json!(graph.name));
    }
    let mut root = Object::new();
    root.insert("context".to_owned(), Value::Object(context));
    root.insert("cudnn_backend_version".to_owned(), json!(backend));
    root.insert("cudnn_frontend_version".to_owned(), json!(version));
    root.insert("json_version".to_owned(), json!(json_version));
    root
}

/// Whether a port's tensor is written on its node, not among the inputs.
fn is_peer(port: Port) -> bool {
    Port::PEER_STATS.contains(&port)
}

/// A node; `tensors` are the objects of the graph's.
fn write_node(operation: &Operation<TensorHandle>, version: i64, references: &References, tensors: &[Value]) -> Value {
    let mut node = Object::new();
    node.insert("tag".to_owned(), json!(operation.tag()));
    node.insert("name".to_owned(), json!(operation.name));
    node.insert("inputs".to_owned(), write_ports(&operation.inputs, version, references));
    node.insert("outputs".to_owned(), write_ports(&operation.outputs, version, references));
    attributes::write(&operation.attributes, &mut node);
    let schema = schema(operation.tag());
    if let Some(Keys::Kept(keys)) = schema.map(|schema| &schema.keys) {
        kept::write(keys, &operation.attributes.kept(), version, &mut node);
    }
    if node.contains_key(PEER_STATS) {
        let peers = operation.inputs.iter().filter(|slot| is_peer(slot.0));
        node.insert(PEER_STATS.to_owned(), peers.filter_map(|slot| tensors.get(slot.1.index()).cloned()).collect());
    }
    let is_resampling =
        matches!(operation.attributes, Attributes::ResampleForward(_) | Attributes::ResampleBackward(_));
    let default = is_resampling.then_some(DataType::Float);
    let has_key = schema.is_some_and(|schema| schema.compute_since <= version);
    if has_key || operation.compute_data_type != default {
        node.insert("compute_data_type".to_owned(), type_name(operation.compute_data_type));
    }
    Value::Object(node)
}

fn write_ports(ports: &[(Port, TensorHandle)], version: i64, references: &References) -> Value {
    let concat = |position: usize, port: Port| match port {
        Port::CONCAT_INPUT => position.to_string(),
        port => port.0.to_owned(),
    };
    let slot =
        |(position, &(port, id)): (usize, &(Port, TensorHandle))| (concat(position, port), references.reference(id));
    let ports: Object = ports.iter().enumerate().filter(|(_, slot)| !is_peer(slot.0)).map(slot).collect();
    if ports.is_empty() && version < 12700 { Value::Null } else { Value::Object(ports) }
}

/// All of a tensor but its name and uid.
fn write_tensor(tensor: &Tensor, references: &References) -> Object {
    let mut object = Object::new();
    let mut put = |key: &str, value: Value| object.insert(key.to_owned(), value);
    put("data_type", type_name(tensor.data_type));
    put("dim", json!(tensor.dim));
    put("stride", json!(tensor.stride));
    put("is_virtual", json!(tensor.is_virtual));
    put("is_pass_by_value", json!(tensor.is_pass_by_value));
    let scalar = |value| float::write_scalar(value, tensor.data_type);
    put("pass_by_value", tensor.value.map_or(Value::Null, scalar));
    put("reordering_type", json!(tensor.reordering.name()));
    if tensor.alignment != DEFAULT_ALIGNMENT {
        put("alignment", json!(tensor.alignment));
    }
    if let Some(offset) = tensor.ragged_offset.filter(|offset| offset.index() < references.uids.len()) {
        put("ragged_offset_uid", json!(references.uids[offset.index()].unwrap_or(0)));
        put("ragged_offset_name", json!(references.names[offset.index()]));
    }
    if tensor.ragged_offset_multiplier != 1 {
        put("ragged_offset_multiplier", json!(tensor.ragged_offset_multiplier));
    }
    object
}

/// How the tensors of a graph are called in its file; one entry a tensor.
struct References {
    uids: Vec<Option<i64>>,
    names: Vec<String>,
}

impl References {
    /// With `everywhere`, every tensor gets a uid; else those without a uid get a name.
    fn new(graph: &Graph, everywhere: bool) -> Self {
        let uids = assign_uids(graph.tensors(), everywhere);
        let names = assign_names(graph.tensors(), &uids);
        Self { uids, names }
    }

    /// A tensor in dialect 2.0.
    fn object_v2(&self, (index, tensor): (usize, &Tensor)) -> Value {
        let mut object = write_tensor(tensor, self);
        object.insert("uid".to_owned(), json!(self.uids[index]));
        if !self.names[index].is_empty() {
            object.insert("name".to_owned(), json!(self.names[index]));
        }
        Value::Object(object)
    }

    /// A tensor in dialect 1.0.
    fn object_v1c(&self, (index, tensor): (usize, &Tensor)) -> Value {
        let mut object = write_tensor(tensor, self);
        object.insert("uid".to_owned(), json!(self.uids[index].unwrap_or(0)));
        object.insert("uid_assigned".to_owned(), json!(self.uids[index].is_some()));
        object.insert("name".to_owned(), json!(self.names[index]));
        Value::Object(object)
    }

    fn key(&self, index: usize) -> String {
        self.uids[index].map_or_else(|| self.names[index].clone(), |uid| uid.to_string())
    }

    fn reference(&self, id: TensorHandle) -> Value {
        match (self.uids.get(id.index()), self.names.get(id.index())) {
            (Some(Some(uid)), _) => json!(uid),
            (_, name) => json!(name),
        }
    }
}

/// The given uids, each once; with `everywhere`, the smallest free ones from 1 for the other tensors.
fn assign_uids(tensors: &[Tensor], everywhere: bool) -> Vec<Option<i64>> {
    let mut taken = HashSet::new();
    let mut uids: Vec<Option<i64>> = tensors.iter().map(|tensor| tensor.uid.filter(|&uid| taken.insert(uid))).collect();
    let mut free = (1..).filter(|uid| !taken.contains(uid));
    for (uid, tensor) in uids.iter_mut().zip(tensors) {
        // A uid that an earlier tensor has cannot be kept.
        if uid.is_none() && (everywhere || tensor.uid.is_some()) {
            *uid = free.next();
        }
    }
    uids
}

/// Names, each once. A name must not read as the key of another tensor's uid.
fn assign_names(tensors: &[Tensor], uids: &[Option<i64>]) -> Vec<String> {
    let mut taken: HashSet<String> = uids.iter().flatten().map(i64::to_string).collect();
    let mut suffixes: HashMap<String, usize> = HashMap::new();
    let unique = |(tensor, uid): (&Tensor, &Option<i64>)| {
        if tensor.name.is_empty() && uid.is_some() {
            return String::new();
        }
        let base = if tensor.name.is_empty() { "tensor" } else { tensor.name.as_str() };
        let mut name = base.to_owned();
        while !taken.insert(name.clone()) {
            let suffix = suffixes.entry(base.to_owned()).or_insert(1);
            *suffix += 1;
            name = format!("{base}#{suffix}");
        }
        name
    };
    tensors.iter().zip(uids).map(unique).collect()
}
