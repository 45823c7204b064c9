//! Attributes of operations that are carried, not executed: decoded by the tables of `schema`, kept by key.
//!
//! What is not set is not kept, so that the same operation written by two frontend versions gives the same attributes.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::error::Failure;
use super::fields::{Fields, Object};
use super::float;
use super::schema::{Key, Kind};

/// Reads the attributes that `keys` names.
pub(super) fn read(keys: &[Key], fields: Fields<'_>) -> Result<BTreeMap<String, Value>, Failure> {
    let mut attributes = BTreeMap::new();
    for key in keys {
        if let Some(value) = decode(key, fields)? {
            attributes.insert(key.name.to_owned(), value);
        }
    }
    Ok(attributes)
}

fn decode(key: &Key, fields: Fields<'_>) -> Result<Option<Value>, Failure> {
    let name = key.name;
    Ok(match key.kind {
        Kind::Flag => Some(json!(fields.boolean(name)?.unwrap_or(false))),
        Kind::OptionalFlag => fields.boolean(name)?.map(Value::from),
        Kind::Integer => fields.integer(name)?.map(Value::from),
        Kind::Integers => some_unless_empty(json!(fields.integers(name)?)),
        // A float that JSON has no number for stays a string of its bits.
        Kind::Float => fields.float(name)?.map(|value| float::double(value.into())),
        Kind::Double => fields.double(name)?.map(float::double),
        Kind::Choice(spellings) => choice(name, spellings, fields)?.map(Value::from),
        Kind::Default(spellings) => choice(name, spellings, fields)?.or(spellings.first().copied()).map(Value::from),
        Kind::DataType => fields.data_type(name)?.map(|data_type| json!(data_type.name())),
        Kind::List => some_unless_empty(Value::from(fields.array(name)?)),
        // they are ports
        Kind::Tensors => None,
    })
}

fn some_unless_empty(array: Value) -> Option<Value> {
    array.as_array().is_some_and(|array| !array.is_empty()).then_some(array)
}

fn choice(key: &str, spellings: &'static [&'static str], fields: Fields<'_>) -> Result<Option<&'static str>, Failure> {
    let from_name = |name: &str| spellings.iter().copied().find(|&spelling| spelling == name);
    fields.spelled(key, from_name, spellings.iter().copied())
}

/// Writes every key that frontend `version` has, and those set of the others.
pub(super) fn write(keys: &[Key], attributes: &BTreeMap<String, Value>, version: i64, node: &mut Object) {
    for key in keys {
        let value = attributes.get(key.name);
        if key.since <= version || value.is_some_and(|value| *value != json!(false)) {
            node.insert(key.name.to_owned(), encode(key.kind, value));
        }
    }
}

fn encode(kind: Kind, value: Option<&Value>) -> Value {
    match (kind, value) {
        (Kind::Float, Some(Value::Number(number))) => {
            number.as_f64().map_or(Value::Null, |number| float::hex(number as f32))
        }
        (_, Some(value)) => value.clone(),
        (Kind::Flag, None) => json!(false),
        (Kind::Integers | Kind::List | Kind::Tensors, None) => json!([]),
        (Kind::Default(spellings), None) => json!(spellings.first()),
        (_, None) => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frontend::schema::{Keys, Schema, schema};

    fn keys(tag: &str) -> &'static [Key] {
        match schema(tag) {
            Some(Schema { keys: Keys::Kept(keys), .. }) => keys,
            _ => panic!("{tag} has typed attributes"),
        }
    }

    fn read_object(tag: &str, object: &Value) -> Result<BTreeMap<String, Value>, Failure> {
        read(keys(tag), Fields(object.as_object().unwrap()))
    }

    #[test]
    fn floats_are_decoded_and_written_as_bits() {
        let attributes = read_object("ROPE", &json!({"output_scale": "3E000000", "rope_dim": 0})).unwrap();
        assert_eq!(attributes["output_scale"], json!(0.125));
        let mut node = Object::new();
        write(keys("ROPE"), &attributes, 13200, &mut node);
        assert_eq!(Value::Object(node), json!({"output_scale": "3E000000", "rope_dim": 0}));
    }

    #[test]
    fn unset_and_absent_are_the_same() {
        let unset = json!({"dim": [], "stride": null, "reshape_mode": null});
        assert_eq!(read_object("RESHAPE", &unset), read_object("RESHAPE", &json!({})));
        let mut node = Object::new();
        write(keys("RESHAPE"), &BTreeMap::new(), 13200, &mut node);
        assert_eq!(Value::Object(node), json!({"dim": [], "stride": [], "reshape_mode": null}));
    }

    #[test]
    fn a_newer_key_is_written_into_an_older_layout_only_where_set() {
        let mut attributes = read_object("SDPA", &json!({})).unwrap();
        let mut node = Object::new();
        write(keys("SDPA"), &attributes, 12300, &mut node);
        assert!(!node.contains_key("stats_use_log2") && node.contains_key("max_seq_len_kv"));
        attributes.insert("stats_use_log2".to_owned(), json!(true));
        write(keys("SDPA"), &attributes, 12300, &mut node);
        assert_eq!(node["stats_use_log2"], json!(true));
    }

    #[test]
    fn an_unknown_spelling_is_refused() {
        let message = read_object("LAYER_NORM", &json!({"forward_phase": "TRAININGS"})).unwrap_err().message;
        let text =
            "`forward_phase`: unknown value \"TRAININGS\", did you mean \"TRAINING\"? (one of INFERENCE, TRAINING)";
        assert_eq!(message, text);
    }
}
