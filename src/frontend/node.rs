//! One node of a file: its tag, its ports, its attributes (section 6).

use std::borrow::Cow;

use serde_json::Value;

use super::envelope::Dialect;
use super::error::Failure;
use super::fields::{Fields, Object, shortened};
use super::schema::{Keys, PEER_STATS, Schema, canonical_port, nearest_tag, schema};
use super::spelling::value_hint;
use super::tensors::{Entry, TensorTable};
use super::{attention, attributes, kept};
use crate::graph::{Attributes, Composite, DataType, Other, Port};

/// A node whose ports still refer to tensor objects of the file.
#[derive(Debug)]
pub(super) struct NodeReading {
    pub(super) name: String,
    pub(super) attributes: Attributes,
    pub(super) compute_data_type: Option<DataType>,
    pub(super) inputs: Vec<(Port, Entry)>,
    pub(super) outputs: Vec<(Port, Entry)>,
    /// Keys that are not attributes of the class (FEJ-11).
    pub(super) ignored_keys: Vec<String>,
}

/// How messages name a node: `'act' (POINTWISE, node 3)`.
pub(super) fn describe(node: &Value, index: usize) -> String {
    let text = |key| node.get(key).and_then(Value::as_str).unwrap_or_default().escape_debug();
    match node.get("tag").or(node.get("type")) {
        Some(_) => format!("'{}' ({}{}, node {index})", text("name"), text("tag"), text("type")),
        None => format!("'{}' (node {index})", text("name")),
    }
}

/// Reads one node.
pub(super) fn read<'a>(node: &'a Value, table: &mut TensorTable<'a>, dialect: Dialect) -> Result<NodeReading, Failure> {
    let object = node.as_object();
    let object =
        object.ok_or_else(|| Failure::new("FEJ-11", format!("an object is required, found {}", shortened(node))))?;
    let tag = Fields(object).text("tag")?.ok_or_else(|| Failure::new("FEJ-11", "the node has no `tag`"))?;
    let (tag, members) = match attention::modernize(tag, object)? {
        Some((tag, modern)) => (tag, Cow::Owned(modern)),
        None => (tag, Cow::Borrowed(object)),
    };
    let schema = schema(tag).ok_or_else(|| unknown_tag(tag))?;
    let fields = Fields(&members);
    let mut inputs = match tag {
        "CONCATENATE" => read_concat_inputs(object, table, dialect)?,
        _ => read_ports("inputs", schema.inputs, object, table, dialect)?,
    };
    inputs.extend(read_peers(schema, object, table, dialect)?);
    let outputs = read_ports("outputs", schema.outputs, object, table, dialect)?;
    let is_other = |key: &str| !schema.knows(key) && !COMMON_KEYS.contains(&key);
    Ok(NodeReading {
        name: fields.text("name")?.unwrap_or_default().to_owned(),
        attributes: read_attributes(schema, fields)?,
        compute_data_type: read_compute(schema, fields)?,
        inputs,
        outputs,
        ignored_keys: members.keys().filter(|key| is_other(key)).cloned().collect(),
    })
}

/// The tensors that a node refers to, as far as they are to be found; for nodes that cannot be read whole.
pub(super) fn references<'a>(node: &'a Value, table: &mut TensorTable<'a>, dialect: Dialect) -> Vec<Entry> {
    let Some(object) = node.as_object() else { return Vec::new() };
    let sides = ["inputs", "outputs"].into_iter().flat_map(|side| given_ports(side, object).unwrap_or_default());
    sides.filter_map(|(_, reference)| table.find(reference, dialect)).collect()
}

const COMMON_KEYS: [&str; 5] = ["tag", "name", "inputs", "outputs", "compute_data_type"];

fn unknown_tag(tag: &str) -> Failure {
    Failure::new("FEJ-11", format!("unknown tag \"{}\"{}", tag.escape_debug(), nearest_tag(tag)))
}

fn read_attributes(schema: &'static Schema, fields: Fields<'_>) -> Result<Attributes, Failure> {
    match (&schema.keys, attributes::read(schema.tag, fields)) {
        (_, Some(typed)) => typed,
        (Keys::Kept(keys), None) => {
            let attributes = kept::read(keys, fields)?;
            Ok(match Composite::read(schema.tag, &attributes) {
                Some(composite) => Attributes::Composite(composite),
                None => Attributes::Other(Other { tag: schema.tag, attributes }),
            })
        }
        (Keys::Typed(_), None) => Err(unknown_tag(schema.tag)),
    }
}

/// A resampling without a compute type computes in FLOAT, whatever the context says
/// (`docs/spec/support-surfaces.md` section 12.8).
fn read_compute(schema: &Schema, fields: Fields<'_>) -> Result<Option<DataType>, Failure> {
    let default = matches!(schema.tag, "RESAMPLE" | "RESAMPLE_BWD").then_some(DataType::Float);
    Ok(fields.data_type("compute_data_type")?.or(default))
}

/// The ports of one side as the file gives them: an object, or pairs (V1A). A `null` reference is an absent port.
fn given_ports<'a>(side: &str, node: &'a Object) -> Result<Vec<(&'a str, &'a Value)>, Failure> {
    let pair = |pair: &'a Value| match pair.as_array().map(Vec::as_slice) {
        Some([Value::String(port), reference]) => Some((port.as_str(), reference)),
        _ => None,
    };
    let ports: Option<Vec<_>> = match node.get(side) {
        None | Some(Value::Null) => Some(Vec::new()),
        Some(Value::Object(map)) => Some(map.iter().map(|(port, reference)| (port.as_str(), reference)).collect()),
        Some(Value::Array(pairs)) => pairs.iter().map(pair).collect(),
        Some(_) => None,
    };
    let required = || format!("`{side}`: an object or an array of pairs [port, tensor] is required");
    let mut ports = ports.ok_or_else(|| Failure::new("FEJ-11", required()))?;
    ports.retain(|(_, reference)| !reference.is_null());
    Ok(ports)
}

fn read_ports<'a>(
    side: &str,
    known: [&'static [&'static str]; 2],
    node: &'a Object,
    table: &mut TensorTable<'a>,
    dialect: Dialect,
) -> Result<Vec<(Port, Entry)>, Failure> {
    let mut given: Vec<Option<&Value>> = vec![None; known[0].len() + known[1].len()];
    let names = || known.into_iter().flatten().copied();
    for (port, reference) in given_ports(side, node)? {
        let position = names().position(|name| name == canonical_port(port));
        let slot = position.and_then(|position| given.get_mut(position)).ok_or_else(|| {
            let hint = value_hint(port, &names().collect::<Vec<_>>());
            Failure::new("FEJ-11", format!("`{side}`: unknown port \"{}\"{hint}", port.escape_debug()))
        })?;
        if slot.replace(reference).is_some() {
            return Err(Failure::new("FEJ-11", format!("`{side}`: port {port} is given twice")));
        }
    }
    let mut ports = Vec::new();
    for (position, (name, reference)) in names().zip(given).enumerate() {
        match reference {
            Some(reference) => ports.push((Port(name), resolve(name, reference, table, dialect)?)),
            None if position < known[0].len() => {
                return Err(Failure::new("FEJ-11", format!("`{side}`: port {name} is required, and absent")));
            }
            None => {}
        }
    }
    Ok(ports)
}

fn resolve<'a>(
    port: &str,
    reference: &'a Value,
    table: &mut TensorTable<'a>,
    dialect: Dialect,
) -> Result<Entry, Failure> {
    table
        .resolve(reference, dialect)
        .map_err(|failure| Failure { message: format!("port {}: {}", port.escape_debug(), failure.message), ..failure })
}

/// The inputs of a concatenation are keyed "0", "1", …, without a gap.
fn read_concat_inputs<'a>(
    node: &'a Object,
    table: &mut TensorTable<'a>,
    dialect: Dialect,
) -> Result<Vec<(Port, Entry)>, Failure> {
    let mut numbered = Vec::new();
    for (port, reference) in given_ports("inputs", node)? {
        let number: usize = port.parse().map_err(|_| {
            Failure::new("FEJ-11", format!("`inputs`: unknown port \"{}\", a number is required", port.escape_debug()))
        })?;
        numbered.push((number, port, reference));
    }
    numbered.sort_by_key(|input| input.0);
    let mut inputs = Vec::new();
    for (position, (number, port, reference)) in numbered.into_iter().enumerate() {
        if number != position {
            return Err(Failure::new("FEJ-11", format!("`inputs`: port {position} is required, found {number}")));
        }
        inputs.push((Port::CONCAT_INPUT, resolve(port, reference, table, dialect)?));
    }
    Ok(inputs)
}

/// Tensors of peers, in order of their ranks.
fn read_peers<'a>(
    schema: &Schema,
    node: &'a Object,
    table: &mut TensorTable<'a>,
    dialect: Dialect,
) -> Result<Vec<(Port, Entry)>, Failure> {
    let given = match node.get(PEER_STATS).filter(|_| schema.knows(PEER_STATS)) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(given)) => given,
        Some(other) => {
            let message = format!("`{PEER_STATS}`: an array of tensors is required, found {}", shortened(other));
            return Err(Failure::new("FEJ-13", message));
        }
    };
    if given.len() > Port::PEER_STATS.len() {
        let message = format!("`{PEER_STATS}` has {} tensors; required at most 32", given.len());
        return Err(Failure::new("BAR-MG-MAX", message));
    }
    let read = |(port, reference): (Port, &'a Value)| {
        let entry = match table.listed(reference, dialect) {
            Some(entry) => entry,
            None => resolve(port.0, reference, table, dialect)?,
        };
        Ok((port, entry))
    };
    Port::PEER_STATS.into_iter().zip(given).map(read).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read_one(node: &Value) -> Result<NodeReading, Failure> {
        let tensors = json!([{"uid": 1, "name": "x"}, {"uid": 2, "name": "y"}, {"uid": 3, "name": "z"}]);
        let mut table = TensorTable::default();
        let (tensors, node) = (Box::leak(Box::new(tensors)), Box::leak(Box::new(node.clone())));
        if let Ok(read) = TensorTable::new(Some(tensors), Dialect::V2) {
            table = read;
        }
        read(node, &mut table, Dialect::V2)
    }

    #[track_caller]
    fn refuses(node: &Value, message: &str) {
        assert_eq!(read_one(node).unwrap_err().message, message);
    }

    fn matmul(inputs: Value) -> Value {
        json!({"tag": "MATMUL", "name": "mm", "inputs": inputs, "outputs": {"C": 3}})
    }

    #[test]
    fn ports_come_in_the_order_of_the_definition() {
        let read = read_one(&matmul(json!({"B": "y", "A": 1, "M_override": null}))).unwrap();
        assert_eq!(read.inputs, [(Port::A, 0), (Port::B, 1)]);
        assert_eq!(read.outputs, [(Port::C, 2)]);
    }

    #[test]
    fn unknown_and_missing_ports_are_refused() {
        refuses(
            &matmul(json!({"A": 1, "B": 2, "K_overide": 3})),
            "`inputs`: unknown port \"K_overide\", did you mean \"K_override\"? (one of A, B, M_override, N_override, \
             K_override, Block_mask)",
        );
        refuses(&matmul(json!({"A": 1})), "`inputs`: port B is required, and absent");
        refuses(&matmul(json!([["A", 1], ["A", 2]])), "`inputs`: port A is given twice");
        refuses(&matmul(json!("A")), "`inputs`: an object or an array of pairs [port, tensor] is required");
    }

    #[test]
    fn dangling_references_are_refused_with_port_and_reference() {
        refuses(&matmul(json!({"A": 1, "B": 9})), "port B: no tensor has the uid 9");
        refuses(&matmul(json!({"A": 1, "B": "yy"})), "port B: no tensor has the name 'yy', did you mean \"y\"?");
        refuses(&matmul(json!({"A": 1, "B": 1.5})), "port B: a uid, a name or a tensor object is required, found 1.5");
    }

    #[test]
    fn a_tag_is_required_and_must_be_known() {
        refuses(&json!({"name": "n"}), "the node has no `tag`");
        refuses(
            &json!({"tag": "CONV_PROP"}),
            "unknown tag \"CONV_PROP\", did you mean \"CONV_FPROP\"? (one of 50, which `fusewright rules --values` lists)",
        );
        refuses(&json!(7), "an object is required, found 7");
    }

    #[test]
    fn inputs_of_a_concatenation_are_counted() {
        let concat = |inputs: Value| json!({"tag": "CONCATENATE", "axis": 1, "inputs": inputs, "outputs": {"Y": 3}});
        let inputs = read_one(&concat(json!({"1": 1, "0": 2}))).unwrap().inputs;
        assert_eq!(inputs, [(Port::CONCAT_INPUT, 1), (Port::CONCAT_INPUT, 0)]);
        refuses(&concat(json!({"0": 1, "2": 2})), "`inputs`: port 1 is required, found 2");
        refuses(&concat(json!({"x": 1})), "`inputs`: unknown port \"x\", a number is required");
    }

    #[test]
    fn unknown_keys_are_ignored_and_listed() {
        let mut node = matmul(json!({"A": 1, "B": 2}));
        node["colour"] = json!("blue");
        assert_eq!(read_one(&node).unwrap().ignored_keys, ["colour"]);
    }

    #[test]
    fn a_resampling_computes_in_float() {
        let node = json!({"tag": "RESAMPLE", "resample_mode": "MAXPOOL", "inputs": {"X": 1}, "outputs": {"Y": 2}});
        assert_eq!(read_one(&node).unwrap().compute_data_type, Some(DataType::Float));
    }
}
