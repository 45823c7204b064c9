//! Typed access to the members of a JSON object; absent and `null` both mean "not set" (FEJ-13).

use serde_json::{Map, Value};

use super::error::Failure;
use super::float;
use super::spelling::{mode_hint, value_hint};
use crate::graph::DataType;

/// A JSON object of a graph file.
pub(super) type Object = Map<String, Value>;

/// The members of an object, read by key; errors name the key, what is required and what was found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a>(pub(super) &'a Object);

impl<'a> Fields<'a> {
    /// The value of a key, unless it is absent or `null`.
    pub(super) fn get(self, key: &str) -> Option<&'a Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    fn typed<T>(
        self,
        key: &str,
        required: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, Failure> {
        let wrong =
            |value| Failure::new("FEJ-13", format!("`{key}`: {required} is required, found {}", shortened(value)));
        self.get(key).map(|value| read(value).ok_or_else(|| wrong(value))).transpose()
    }

    pub(super) fn boolean(self, key: &str) -> Result<Option<bool>, Failure> {
        self.typed(key, "true or false", Value::as_bool)
    }

    pub(super) fn integer(self, key: &str) -> Result<Option<i64>, Failure> {
        self.typed(key, "a 64-bit integer", Value::as_i64)
    }

    pub(super) fn text(self, key: &str) -> Result<Option<&'a str>, Failure> {
        self.typed(key, "a string", Value::as_str)
    }

    pub(super) fn object(self, key: &str) -> Result<Option<&'a Object>, Failure> {
        self.typed(key, "an object", Value::as_object)
    }

    pub(super) fn array(self, key: &str) -> Result<&'a [Value], Failure> {
        Ok(self.typed(key, "an array", Value::as_array)?.map_or(&[], Vec::as_slice))
    }

    /// An array of integers; empty where not set.
    pub(super) fn integers(self, key: &str) -> Result<Vec<i64>, Failure> {
        let read = |value: &Value| value.as_array()?.iter().map(Value::as_i64).collect::<Option<Vec<i64>>>();
        Ok(self.typed(key, "an array of 64-bit integers", read)?.unwrap_or_default())
    }

    pub(super) fn float(self, key: &str) -> Result<Option<f32>, Failure> {
        self.get(key).map(|value| float::read_f32(key, value)).transpose()
    }

    pub(super) fn double(self, key: &str) -> Result<Option<f64>, Failure> {
        self.get(key).map(|value| float::read_f64(key, value)).transpose()
    }

    /// A value spelled exactly as one of `names` (FEJ-12).
    pub(super) fn spelled<T>(
        self,
        key: &str,
        from_name: impl FnOnce(&str) -> Option<T>,
        names: impl IntoIterator<Item = &'static str>,
    ) -> Result<Option<T>, Failure> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        from_name(text).map(Some).ok_or_else(|| {
            let hint = if key.ends_with("mode") { mode_hint } else { value_hint };
            let hint = hint(text, &names.into_iter().collect::<Vec<_>>());
            Failure::new("FEJ-12", format!("`{key}`: unknown value \"{}\"{hint}", text.escape_debug()))
        })
    }

    pub(super) fn data_type(self, key: &str) -> Result<Option<DataType>, Failure> {
        self.spelled(key, DataType::from_name, DataType::all().map(DataType::name))
    }
}

/// The JSON text of a value, cut where it is long; fit for a terminal.
pub(super) fn shortened(value: &Value) -> String {
    let text = value.to_string();
    let harmless = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    let mut short: String = text.chars().take(60).map(harmless).collect();
    if text.chars().nth(60).is_some() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message<T: std::fmt::Debug>(result: Result<T, Failure>) -> String {
        result.unwrap_err().message
    }

    #[test]
    fn null_is_absent() {
        let object = json!({"a": null});
        let fields = Fields(object.as_object().unwrap());
        assert_eq!(fields.integer("a"), Ok(None));
        assert_eq!(fields.integers("b"), Ok(vec![]));
    }

    #[test]
    fn a_wrong_value_is_named_with_what_is_required() {
        let object = json!({"a": "x".repeat(100), "d": [1, 2.5], "t": "HAFL", "u": "X\n"});
        let fields = Fields(object.as_object().unwrap());
        assert!(message(fields.integer("a")).ends_with("x…"));
        let text = "`d`: an array of 64-bit integers is required, found [1,2.5]";
        assert_eq!(message(fields.integers("d")), text);
        let text = "`t`: unknown value \"HAFL\", did you mean \"HALF\"? (one of FLOAT, DOUBLE, ";
        assert!(message(fields.data_type("t")).starts_with(text));
        assert!(message(fields.data_type("u")).starts_with("`u`: unknown value \"X\\n\" (one of FLOAT, "));
    }
}
