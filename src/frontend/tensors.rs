//! The tensors of a file: what a port's reference means, and how one tensor object is read (section 4).

use std::collections::HashMap;

use serde_json::Value;

use super::envelope::Dialect;
use super::error::Failure;
use super::fields::{Fields, Object, shortened};
use super::float;
use super::spelling::suggestion;
use crate::graph::{DEFAULT_ALIGNMENT, DataType, Reordering, Tensor};

/// Position of a tensor object in its file.
pub(super) type Entry = usize;

/// What a lookup by name or uid gives: one entry, or several.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Match {
    One(Entry),
    Many,
}

/// All tensor objects of a file, and how nodes refer to them.
#[derive(Debug, Default)]
pub(super) struct TensorTable<'a> {
    objects: Vec<&'a Object>,
    by_uid: HashMap<i64, Match>,
    by_key: HashMap<&'a str, Entry>,
    by_name: HashMap<&'a str, Match>,
    /// Dialect V1A writes every tensor in full at each use: equal text is the same tensor.
    by_text: HashMap<String, Entry>,
}

impl<'a> TensorTable<'a> {
    /// The table of the top-level key `tensors`: an object keyed by name or uid, an array, or nothing.
    pub(super) fn new(tensors: Option<&'a Value>, dialect: Dialect) -> Result<Self, Failure> {
        let mut table = Self::default();
        match tensors {
            None | Some(Value::Null) => {}
            Some(Value::Object(map)) => {
                for (key, value) in map {
                    let entry = table.add(tensor_object(value, key)?, dialect)?;
                    table.by_key.insert(key, entry);
                }
            }
            Some(Value::Array(array)) => {
                for (index, value) in array.iter().enumerate() {
                    table.add(tensor_object(value, &index.to_string())?, dialect)?;
                }
            }
            Some(other) => {
                let message = format!("`tensors`: an object or an array is required, found {}", shortened(other));
                return Err(Failure::new("FEJ-04", message));
            }
        }
        Ok(table)
    }

    fn add(&mut self, object: &'a Object, dialect: Dialect) -> Result<Entry, Failure> {
        let (entry, fields) = (self.objects.len(), Fields(object));
        self.objects.push(object);
        let uid = uid(fields, dialect)?;
        let name = fields.text("name")?;
        if let Some(uid) = uid {
            self.by_uid.entry(uid).and_modify(|found| *found = Match::Many).or_insert(Match::One(entry));
        }
        if let Some(name) = name {
            self.by_name.entry(name).and_modify(|found| *found = Match::Many).or_insert(Match::One(entry));
        }
        if dialect == Dialect::V2 && uid.is_none() && name.is_none() {
            return Err(Failure::new("FEJ-13", format!("tensor {entry} of the list has neither uid nor name")));
        }
        Ok(entry)
    }

    pub(super) fn object(&self, entry: Entry) -> Fields<'a> {
        Fields(self.objects[entry])
    }

    /// The number of tensor objects met so far.
    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }

    /// The tensor a port refers to: integers by uid, strings by key, then by name (FEJ-05); objects by themselves.
    pub(super) fn resolve(&mut self, reference: &'a Value, dialect: Dialect) -> Result<Entry, Failure> {
        match reference {
            Value::Object(object) => self.inline(object, dialect),
            Value::String(name) => self.by_name(name),
            _ => match reference.as_i64() {
                Some(uid) => self.by_uid(uid),
                None => {
                    let required = "a uid, a name or a tensor object is required";
                    Err(Failure::new("FEJ-05", format!("{required}, found {}", shortened(reference))))
                }
            },
        }
    }

    /// The tensor that [`TensorTable::resolve`] gives, where there is one: no search for what could be meant.
    pub(super) fn find(&mut self, reference: &'a Value, dialect: Dialect) -> Option<Entry> {
        match reference {
            Value::Object(object) => self.inline(object, dialect).ok(),
            Value::String(name) => {
                self.by_key.get(name.as_str()).copied().or_else(|| match self.by_name.get(name.as_str()) {
                    Some(Match::One(entry)) => Some(*entry),
                    _ => None,
                })
            }
            _ => self.by_uid(reference.as_i64()?).ok(),
        }
    }

    /// The tensor of the file's list, or met before, that has the uid of an object or, where this has none, its name.
    pub(super) fn listed(&self, object: &Value, dialect: Dialect) -> Option<Entry> {
        let fields = Fields(object.as_object()?);
        let found = match uid(fields, dialect).ok()? {
            Some(uid) => self.by_uid.get(&uid),
            None => self.by_name.get(fields.text("name").ok()??),
        };
        match found {
            Some(Match::One(entry)) => Some(*entry),
            _ => None,
        }
    }

    fn inline(&mut self, object: &'a Object, dialect: Dialect) -> Result<Entry, Failure> {
        let text = serde_json::to_string(object).unwrap_or_default();
        if let Some(&entry) = self.by_text.get(&text) {
            return Ok(entry);
        }
        let entry = self.add(object, dialect)?;
        self.by_text.insert(text, entry);
        Ok(entry)
    }

    pub(super) fn by_name(&self, name: &str) -> Result<Entry, Failure> {
        if let Some(&entry) = self.by_key.get(name) {
            return Ok(entry);
        }
        match self.by_name.get(name) {
            Some(Match::One(entry)) => Ok(*entry),
            Some(Match::Many) => Err(several(format!("name '{}'", name.escape_debug()))),
            None => {
                let names = self.objects.iter().filter_map(|object| Fields(object).text("name").ok()?);
                let hint = suggestion(name, names);
                Err(Failure::new("FEJ-05", format!("no tensor has the name '{}'{hint}", name.escape_debug())))
            }
        }
    }

    pub(super) fn by_uid(&self, uid: i64) -> Result<Entry, Failure> {
        match self.by_uid.get(&uid) {
            Some(Match::One(entry)) => Ok(*entry),
            Some(Match::Many) => Err(several(format!("uid {uid}"))),
            None => {
                let by_key = self.by_key.get(uid.to_string().as_str()).copied();
                by_key.ok_or_else(|| Failure::new("FEJ-05", format!("no tensor has the uid {uid}")))
            }
        }
    }

    /// The uid, where one is assigned.
    pub(super) fn uid(&self, entry: Entry, dialect: Dialect) -> Option<i64> {
        uid(self.object(entry), dialect).ok().flatten()
    }

    pub(super) fn is_virtual(&self, entry: Entry) -> bool {
        self.object(entry).boolean("is_virtual") == Ok(Some(true))
    }

    /// A host scalar whose value is in the file.
    pub(super) fn is_constant(&self, entry: Entry) -> bool {
        self.object(entry).get("pass_by_value").is_some()
    }

    /// How messages name a tensor: `'bias'`, `'bias' (uid 4)`.
    pub(super) fn describe(&self, entry: Entry, dialect: Dialect) -> String {
        let fields = self.object(entry);
        let name = fields.text("name").ok().flatten().unwrap_or_default().escape_debug();
        match self.uid(entry, dialect) {
            Some(uid) => format!("'{name}' (uid {uid})"),
            _ => format!("'{name}'"),
        }
    }
}

fn several(what: String) -> Failure {
    Failure::new("FEJ-31", format!("several tensors have the {what}: the reference is ambiguous"))
}

fn tensor_object<'a>(value: &'a Value, key: &str) -> Result<&'a Object, Failure> {
    let required = || format!("an object is required, found {}", shortened(value));
    let failure = || Failure::new("FEJ-04", required()).at_tensor(|| format!("'{}'", key.escape_debug()));
    value.as_object().ok_or_else(failure)
}

/// The uid, unless it is the 0 of an unassigned one (FEJ-42).
fn uid(fields: Fields<'_>, dialect: Dialect) -> Result<Option<i64>, Failure> {
    let uid = fields.integer("uid")?;
    let is_assigned = match (dialect, fields.boolean("uid_assigned")?) {
        (Dialect::V2, _) => true,
        (_, Some(is_assigned)) => is_assigned,
        (_, None) => uid != Some(0),
    };
    Ok(uid.filter(|_| is_assigned))
}

/// A tensor as its object says it, and what there is to note.
pub(super) struct TensorReading {
    pub(super) tensor: Tensor,
    pub(super) warnings: Vec<String>,
    /// The key was absent.
    pub(super) lacks_is_virtual: bool,
    /// A host scalar without a value (FEJ-10).
    pub(super) lacks_value: bool,
}

/// Keys of tensors that are read, here or where tensors are referred to, and those that the frontend writes beside them.
const KEYS: &[&str] = &[
    "alignment",
    "data_type",
    "dim",
    "is_pass_by_value",
    "is_virtual",
    "name",
    "pass_by_value",
    "ragged_offset",
    "ragged_offset_multiplier",
    "ragged_offset_name",
    "ragged_offset_uid",
    "reordering_type",
    "stride",
    "uid",
    "uid_assigned",
];

/// Keys of a tensor that mean nothing here.
pub(super) fn ignored(fields: Fields<'_>) -> impl Iterator<Item = String> + '_ {
    fields.0.keys().filter(|key| !KEYS.contains(&key.as_str())).cloned()
}

/// Reads one tensor object; its ragged offset is resolved elsewhere.
pub(super) fn read(
    fields: Fields<'_>,
    dialect: Dialect,
    version: i64,
    context: Option<DataType>,
) -> Result<TensorReading, Failure> {
    let data_type = fields.data_type("data_type")?;
    let is_pass_by_value = fields.boolean("is_pass_by_value")?.unwrap_or(false);
    let reorderings =
        [Reordering::None, Reordering::Int8x32, Reordering::F16x16, Reordering::F8_128x4].map(Reordering::name);
    let scalar = match fields.get("pass_by_value").filter(|_| is_pass_by_value) {
        Some(value) => Some(float::read_scalar(value, data_type.or(context), version)?),
        None => None,
    };
    let is_virtual = fields.boolean("is_virtual")?;
    let tensor = Tensor {
        name: fields.text("name")?.unwrap_or_default().to_owned(),
        uid: uid(fields, dialect)?,
        data_type,
        dim: fields.integers("dim")?,
        stride: fields.integers("stride")?,
        is_virtual: is_virtual.unwrap_or(false),
        is_pass_by_value,
        value: scalar.as_ref().map(|scalar| scalar.value),
        reordering: fields.spelled("reordering_type", Reordering::from_name, reorderings)?.unwrap_or_default(),
        alignment: fields.integer("alignment")?.unwrap_or(DEFAULT_ALIGNMENT),
        ragged_offset: None,
        ragged_offset_multiplier: fields.integer("ragged_offset_multiplier")?.unwrap_or(1),
    };
    Ok(TensorReading {
        lacks_is_virtual: is_virtual.is_none(),
        lacks_value: is_pass_by_value && tensor.value.is_none(),
        warnings: scalar.and_then(|scalar| scalar.warning).into_iter().collect(),
        tensor,
    })
}
