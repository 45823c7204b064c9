//! Floats and scalar values (`docs/spec/frontend-json.md` section 5).

use serde_json::{Value, json};

use super::error::Failure;
use crate::graph::{DataType, Scalar};

/// A float that is a string of 8 hexadecimal digits, its IEEE-754 bits, or a plain number (FEJ-09).
pub(super) fn read_f32(key: &str, value: &Value) -> Result<f32, Failure> {
    match value {
        Value::String(text) => from_hex(text).ok_or_else(|| wrong_float(key, value)),
        _ => value.as_f64().map(|number| number as f32).ok_or_else(|| wrong_float(key, value)),
    }
}

/// A double: a plain number, or the hexadecimal string of a float (FEJ-09).
pub(super) fn read_f64(key: &str, value: &Value) -> Result<f64, Failure> {
    match value {
        Value::String(text) => from_hex(text).map(f64::from).ok_or_else(|| wrong_float(key, value)),
        _ => value.as_f64().ok_or_else(|| wrong_float(key, value)),
    }
}

fn wrong_float(key: &str, value: &Value) -> Failure {
    Failure::new("FEJ-09", format!("`{key}`: a number or 8 hexadecimal digits are required, found {value}"))
}

fn from_hex(text: &str) -> Option<f32> {
    let is_hex = text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex.then(|| u32::from_str_radix(text, 16).ok()).flatten().map(f32::from_bits)
}

/// A float as the library writes it: 8 upper-case hexadecimal digits.
pub(super) fn hex(value: f32) -> Value {
    Value::String(format!("{:08X}", value.to_bits()))
}

/// A double as the library writes it, a plain number; what JSON has no number for is written as the bits of a float.
pub(super) fn double(value: f64) -> Value {
    if value.is_finite() { json!(value) } else { hex(value as f32) }
}

/// Types in the order of `pass_by_value.index`, by frontend version.
fn index_table(version: i64) -> &'static [DataType] {
    use DataType::{BFloat16, Double, Float, Half, Int32, Int64};
    match version {
        ..10800 => &[Int32, Half, Float, BFloat16],
        10800..12300 => &[Int64, Int32, Half, Float, BFloat16],
        _ => &[Int64, Int32, Half, Float, Double, BFloat16],
    }
}

/// A scalar read from `pass_by_value`, and a complaint where its index disagrees with the tensor's type.
#[derive(Debug, PartialEq)]
pub(super) struct PassByValue {
    pub(super) value: Scalar,
    pub(super) warning: Option<String>,
}

/// Reads `pass_by_value`: a bare value, or `{"index", "value"}`. The tensor's type decides how to decode, not the
/// index (FEJ-08); where the tensor has none, the index, else the form of the value.
pub(super) fn read_scalar(given: &Value, tensor: Option<DataType>, version: i64) -> Result<PassByValue, Failure> {
    let (index, value) = match given {
        Value::Object(map) => (map.get("index").and_then(Value::as_u64), map.get("value").unwrap_or(&Value::Null)),
        bare => (None, bare),
    };
    let indexed = index.and_then(|index| index_table(version).get(usize::try_from(index).ok()?).copied());
    let data_type = tensor.or(indexed);
    let is_integer = match data_type {
        Some(data_type) => is_integer(data_type),
        None => value.is_i64() || value.is_u64(),
    };
    let value = if is_integer { read_integer(value)? } else { Scalar::Float(read_f64("pass_by_value", value)?) };
    let warning = match (tensor, indexed) {
        (Some(tensor), Some(indexed)) if tensor != indexed && index_table(version).contains(&tensor) => {
            Some(format!("`pass_by_value` says {indexed}, the tensor's type is {tensor}; read as {tensor} [FEJ-08]"))
        }
        _ => None,
    };
    Ok(PassByValue { value, warning })
}

fn read_integer(value: &Value) -> Result<Scalar, Failure> {
    let integer = value.as_i64().or_else(|| value.as_bool().map(i64::from));
    let required = || format!("`pass_by_value`: a 64-bit integer is required, found {value}");
    integer.map(Scalar::Integer).ok_or_else(|| Failure::new("FEJ-08", required()))
}

fn is_integer(data_type: DataType) -> bool {
    use DataType as T;
    matches!(
        data_type,
        T::Int8 | T::UInt8 | T::Int32 | T::Int64 | T::Int4 | T::Int8x4 | T::UInt8x4 | T::Int8x32 | T::Boolean
    ) || data_type == T::ByteBoolean
}

/// `pass_by_value` as frontend 1.23 and later write it.
pub(super) fn write_scalar(value: Scalar, data_type: Option<DataType>) -> Value {
    let table = index_table(i64::MAX);
    let fallback = if matches!(value, Scalar::Integer(_)) { DataType::Int64 } else { DataType::Float };
    let position = |data_type| table.iter().position(|&indexed| indexed == data_type);
    let index = data_type.and_then(position).or_else(|| position(fallback));
    let value = match (data_type.map_or(value, |data_type| value.of_type(data_type)), data_type) {
        (Scalar::Integer(value), _) => json!(value),
        // of types that have no elements of their own
        (Scalar::Float(value), Some(data_type)) if is_integer(data_type) => json!(value.round_ties_even() as i64),
        (Scalar::Float(value), Some(DataType::Double)) => double(value),
        (Scalar::Float(value), _) => hex(value as f32),
    };
    json!({ "index": index, "value": value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f32(value: Value) -> Option<f32> {
        read_f32("swish_beta", &value).ok()
    }

    #[test]
    fn hexadecimal_floats_are_their_bits() {
        assert_eq!(f32(json!("3E000000")), Some(0.125));
        assert_eq!(f32(json!("BF800000")), Some(-1.0));
        assert_eq!(f32(json!("7F800000")), Some(f32::INFINITY));
        assert_eq!(f32(json!("3e000000")), Some(0.125));
        assert_eq!(f32(json!(0.5)), Some(0.5));
    }

    #[test]
    fn anything_but_eight_digits_is_refused_by_name() {
        for wrong in [json!("3E0"), json!("3E0000000"), json!("+3E00000"), json!(true), json!([])] {
            assert_eq!(f32(wrong), None);
        }
        let message = read_f32("swish_beta", &json!("3E0")).unwrap_err().message;
        assert_eq!(message, "`swish_beta`: a number or 8 hexadecimal digits are required, found \"3E0\"");
    }

    #[test]
    fn writing_reads_back() {
        assert_eq!(hex(0.125), json!("3E000000"));
        assert_eq!(read_f64("x", &double(f64::INFINITY)), Ok(f64::INFINITY));
        assert_eq!(read_f64("x", &double(0.1)), Ok(0.1));
    }

    #[test]
    fn floats_are_written_as_integers_where_the_type_is_one() {
        let written = write_scalar(Scalar::Float(-2.5), Some(DataType::Int32));
        assert_eq!(read_scalar(&written, Some(DataType::Int32), 13200).unwrap().value, Scalar::Integer(-2));
    }

    fn scalar(given: Value, data_type: Option<DataType>, version: i64) -> Scalar {
        read_scalar(&given, data_type, version).unwrap().value
    }

    #[test]
    fn pass_by_value_has_three_forms() {
        assert_eq!(scalar(json!(3), Some(DataType::Int32), 10200), Scalar::Integer(3));
        assert_eq!(scalar(json!(0.5), Some(DataType::Float), 10200), Scalar::Float(0.5));
        let hex = json!({"index": 3, "value": "3F000000"});
        assert_eq!(scalar(hex.clone(), Some(DataType::Float), 13200), Scalar::Float(0.5));
        assert_eq!(scalar(hex, Some(DataType::Half), 13200), Scalar::Float(0.5), "half scalars are widened floats");
        assert_eq!(scalar(json!({"index": 4, "value": 0.1}), Some(DataType::Double), 13200), Scalar::Float(0.1));
    }

    #[test]
    fn the_index_table_depends_on_the_version() {
        let given = json!({"index": 0, "value": 7});
        let says = |version| read_scalar(&given, Some(DataType::Int32), version).unwrap().warning;
        assert_eq!(says(10700), None);
        assert!(says(10800).unwrap().contains("says INT64, the tensor's type is INT32"));
        let given = json!({"index": 4, "value": "3F800000"});
        let says = |version| read_scalar(&given, Some(DataType::BFloat16), version).unwrap().warning;
        assert_eq!(says(12200), None);
        assert!(says(12300).unwrap().contains("says DOUBLE"));
    }

    #[test]
    fn without_a_type_the_index_decides() {
        assert_eq!(scalar(json!({"index": 3, "value": 2}), None, 13200), Scalar::Float(2.0));
        assert_eq!(scalar(json!(2), None, 10200), Scalar::Integer(2));
    }

    #[test]
    fn a_value_of_the_wrong_kind_is_refused() {
        let error = read_scalar(&json!({"index": 1, "value": 0.5}), Some(DataType::Int32), 13200).unwrap_err();
        assert_eq!(error.message, "`pass_by_value`: a 64-bit integer is required, found 0.5");
    }

    #[test]
    fn scalars_write_and_read_back() {
        use DataType as T;
        for (value, data_type) in [
            (Scalar::Float(0.125), Some(T::BFloat16)),
            (Scalar::Float(0.1), Some(T::Double)),
            (Scalar::Integer(-4), Some(T::Int32)),
            (Scalar::Integer(1), Some(T::Boolean)),
            (Scalar::Integer(9), None),
            (Scalar::Float(0.5), None),
        ] {
            let written = write_scalar(value, data_type);
            assert_eq!(read_scalar(&written, data_type, 13200), Ok(PassByValue { value, warning: None }));
        }
    }
}
