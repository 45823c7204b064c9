//! Attributes as they were set, read by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use cudarc::cudnn::sys::cudnnBackendAttributeName_t as Name;

use super::super::failure::{Failure, Result};
use super::super::handle::Handle;
use super::Descriptor;
use super::values::{self, Values};

/// What reading a text makes of it is at most about so many times as large.
const READING: usize = 4;

/// The values that a descriptor was given.
pub(in crate::capi) struct Given<'a>(&'a BTreeMap<u32, Values>);

impl<'a> Given<'a> {
    pub(super) fn new(values: &'a BTreeMap<u32, Values>) -> Self {
        Self(values)
    }

    pub(in crate::capi) fn of(&self, name: Name) -> Option<&Values> {
        self.0.get(&(name as u32))
    }

    pub(in crate::capi) fn int64s(&self, name: Name) -> Vec<i64> {
        match self.of(name) {
            Some(Values::Int64(values)) => values.clone(),
            Some(Values::Int32(values)) => values.iter().map(|&value| value.into()).collect(),
            _ => Vec::new(),
        }
    }

    pub(in crate::capi) fn int64(&self, name: Name) -> Option<i64> {
        self.int64s(name).first().copied()
    }

    pub(in crate::capi) fn number(&self, name: Name) -> Option<f64> {
        match self.of(name)? {
            Values::Double(values) => values.first().copied(),
            Values::Float(values) => values.first().map(|&value| value.into()),
            _ => None,
        }
    }

    pub(in crate::capi) fn is_set(&self, name: Name) -> bool {
        matches!(self.of(name), Some(Values::Boolean(values)) if values.first() == Some(&true))
    }

    /// A text, without the zero byte that may end it.
    pub(in crate::capi) fn text(&self, name: Name) -> Result<Option<&str>> {
        let Some(Values::Char(bytes)) = self.of(name) else { return Ok(None) };
        let bytes = bytes.strip_suffix(&[0]).unwrap_or(bytes);
        values::require_memory(bytes.len().saturating_mul(READING))?;
        let wrong = |error| Failure::bad(format!("{name:?} is no UTF-8: {error}"));
        std::str::from_utf8(bytes).map(Some).map_err(wrong)
    }

    /// An enumerator's number; that of a required attribute is there.
    pub(in crate::capi) fn enumerator(&self, name: Name) -> Option<u32> {
        match self.of(name)? {
            Values::Enum(values) => values.first().copied(),
            _ => None,
        }
    }

    pub(in crate::capi) fn handle(&self, name: Name) -> Option<&Arc<Handle>> {
        match self.of(name)? {
            Values::Handle(given) => Some(&given.handle),
            _ => None,
        }
    }

    pub(in crate::capi) fn descriptors(&self, name: Name) -> &[Arc<Descriptor>] {
        self.of(name).map_or(&[], Values::descriptors)
    }

    pub(in crate::capi) fn descriptor(&self, name: Name) -> Option<&Arc<Descriptor>> {
        self.descriptors(name).first()
    }

    /// A required descriptor.
    pub(in crate::capi) fn required(&self, name: Name) -> Result<&Arc<Descriptor>> {
        self.descriptor(name).ok_or_else(|| Failure::bad(format!("{name:?} is not set")))
    }
}
