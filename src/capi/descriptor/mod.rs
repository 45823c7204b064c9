//! Descriptors: created, given attributes, finalized, asked, destroyed (docs/spec/backend-api.md, section 1).
//!
//! A descriptor knows its attributes and that finalizing makes an [`Object`] of them, but not which kinds there are. Its
//! `values` may be descriptors again.

mod given;
mod values;
mod vectors;

use std::any::Any;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, PoisonError, RwLock};

use cudarc::cudnn::sys::cudnnBackendAttributeName_t as Name;
use cudarc::cudnn::sys::cudnnBackendDescriptorType_t as Kind;
use cudarc::cudnn::sys::cudnnStatus_t as Status;

use super::attribute::{Access, Attribute, MAX_ELEMENTS};
use super::attributes;
use super::failure::{Failure, Result};
use super::registry::{NUMBERS, Registry};
pub(super) use given::Given;
pub(super) use values::Values;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) use vectors::Vector;

static DESCRIPTORS: Registry<Descriptor> = Registry::new(&NUMBERS);

/// Bytes that finalizing makes for each descriptor that is referred to, at most about.
const REFERRING: usize = 256;

/// One descriptor.
pub(super) struct Descriptor {
    kind: Kind,
    attributes: &'static [Attribute],
    state: RwLock<State>,
}

/// What a descriptor was given, and what was made of it; `None` until it is finalized.
#[derive(Clone, Default)]
struct State {
    /// Shared with whoever builds it or becomes like it.
    values: Arc<BTreeMap<u32, Values>>,
    built: Option<Arc<dyn Object>>,
}

/// What finalizing makes of a descriptor.
pub(super) trait Object: Any + Send + Sync {
    /// An attribute that the caller does not set; `None` where there is none of this name.
    fn attribute(&self, _name: Name) -> Result<Option<Values>> {
        Ok(None)
    }
}

/// An object that is asked for through its descriptor.
pub(super) trait Referred: Object {
    /// What is wanted where another kind of descriptor is found.
    const WANTED: &'static str;
}

/// A new descriptor of a kind.
pub(super) fn create(number: u32) -> Result<*mut c_void> {
    let (kind, attributes) = attributes::of_kind(number)
        .ok_or_else(|| Failure::unsupported(format!("there are no descriptors of type {number}")))?;
    Ok(DESCRIPTORS.insert(Descriptor { kind, attributes, state: RwLock::default() }))
}

/// The descriptor that a pointer stands for.
pub(super) fn find(pointer: *mut c_void) -> Result<Arc<Descriptor>> {
    if pointer.is_null() {
        return Err(Failure::null("a descriptor"));
    }
    DESCRIPTORS.get(pointer).ok_or_else(|| Failure::bad("a pointer is to no descriptor, or to one that was destroyed"))
}

/// Ends a descriptor; those that refer to it keep what they need of it.
pub(super) fn destroy(pointer: *mut c_void) -> Result<()> {
    match DESCRIPTORS.remove(pointer) {
        Some(descriptor) => descriptor.forget(),
        None => drop(find(pointer)?),
    }
    Ok(())
}

impl Descriptor {
    /// A finalized descriptor that no caller made.
    pub(super) fn finished(kind: Kind, values: Vec<(Name, Values)>, built: Arc<dyn Object>) -> Arc<Self> {
        let attributes = attributes::of_kind(kind as u32).map_or(&[][..], |row| row.1);
        let values = Arc::new(values.into_iter().map(|(name, values)| (name as u32, values)).collect());
        Arc::new(Self { kind, attributes, state: RwLock::new(State { values, built: Some(built) }) })
    }

    /// Lets go of what it was given, where it is not finalized and now never will be: it might be itself.
    fn forget(&self) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if state.built.is_none() {
            state.values = Arc::default();
        }
    }

    fn state(&self) -> std::sync::RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn attribute(&self, number: u32) -> Result<&'static Attribute> {
        let row = self.attributes.iter().find(|attribute| attribute.name as u32 == number);
        row.ok_or_else(|| Failure::bad(format!("{:?} has no attribute {number}", self.kind)))
    }

    /// Sets an attribute.
    ///
    /// # Safety
    /// As [`Values::read`].
    pub(super) unsafe fn set(&self, number: u32, of_type: u32, count: i64, elements: *const c_void) -> Result<()> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if state.built.is_some() {
            let message = format!("{:?} is finalized; its attributes stay as they are", self.kind);
            return Err(Failure::new(Status::CUDNN_STATUS_NOT_INITIALIZED, message));
        }
        if self.attributes.is_empty() {
            return Ok(()); // refused when it is finalized
        }
        if attributes::is_passed_over(self.kind, number) {
            return Ok(());
        }
        let attribute = self.attribute(number)?;
        match attribute.access {
            Access::Computed => return Err(Failure::bad(format!("{:?} can only be got", attribute.name))),
            Access::Unsupported => return Err(no_engine_has(attribute)),
            Access::Required | Access::Optional => {}
        }
        let kind = required_type(attribute, of_type)?;
        let fits = |count: &usize| attribute.count.contains(count) && *count <= MAX_ELEMENTS;
        let count = usize::try_from(count).ok().filter(fits).ok_or_else(|| {
            let (least, most) = (attribute.count.start(), attribute.count.end().min(&MAX_ELEMENTS));
            Failure::bad(format!("{:?} has {least} to {most} elements; found: {count}", attribute.name))
        })?;
        // SAFETY: as promised by the caller, of an attribute that has vectors.
        let rows = || unsafe { Values::read_rows(elements) };
        // SAFETY: as promised by the caller.
        let values = || unsafe { Values::read(kind, count, elements) };
        let values = if attribute.has_rows() { rows() } else { values() }?;
        Arc::make_mut(&mut state.values).insert(number, values);
        Ok(())
    }

    /// Gets an attribute: at most `room` of its elements, and how many that are; with no room, how many it has.
    ///
    /// # Safety
    /// As [`Values::write`].
    pub(super) unsafe fn get(&self, number: u32, of_type: u32, room: i64, elements: *mut c_void) -> Result<i64> {
        let attribute = self.attribute(number)?;
        let room = usize::try_from(room).map_err(|_| Failure::bad(format!("{room} elements are asked for")))?;
        let kind = required_type(attribute, of_type)?;
        if attribute.access == Access::Unsupported {
            return Err(no_engine_has(attribute));
        }
        let state = self.state();
        let Some(built) = &state.built else {
            return Err(self.not_finalized(Status::CUDNN_STATUS_NOT_INITIALIZED));
        };
        let (values, built) = (Arc::clone(&state.values), built.clone());
        // without the lock from here on: computing takes its time, and it may be in the array itself
        drop(state);
        let values = match values.get(&number).filter(|_| !attribute.is_living()) {
            Some(given) => Cow::Borrowed(given),
            None => Cow::Owned(computed(&*built, attribute.name)?),
        };
        let values = Values::of_type(values, kind)?;
        if elements.is_null() || room == 0 {
            return Ok(values.len() as i64);
        }
        // SAFETY: as promised by the caller.
        unsafe { values.write(room, elements) }?;
        Ok(values.len().min(room) as i64)
    }

    /// Finalizes it, where everything required is there and goes together; `build` makes the object of its kind.
    pub(super) fn finalize(&self, build: impl FnOnce(Kind, &Given<'_>) -> Result<Arc<dyn Object>>) -> Result<()> {
        // without the lock from here on: it may refer to itself
        let State { values, built } = self.state().clone();
        if built.is_some() {
            return Err(Failure::bad(format!("{:?} is finalized already", self.kind)));
        }
        if self.attributes.is_empty() {
            let purpose = attributes::purpose(self.kind);
            return Err(Failure::unsupported(format!("no engine computes what {:?} describes{purpose}", self.kind)));
        }
        for attribute in self.attributes.iter().filter(|attribute| attribute.access == Access::Required) {
            if !values.contains_key(&(attribute.name as u32)) {
                return Err(Failure::bad(format!("{:?} is not set", attribute.name)));
            }
        }
        self.require_referred(&values)?;
        let built = build(self.kind, &Given::new(&values))?;
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = State { values, built: Some(built) };
        Ok(())
    }

    /// What it refers to is finalized (L-08) and of the kinds that its attributes have, whether it is asked for or not. So
    /// descriptors lie in tiers, the plan's above all, and neither chains nor rings of them can be made.
    fn require_referred(&self, values: &BTreeMap<u32, Values>) -> Result<()> {
        let count: usize = values.values().map(|values| values.descriptors().len()).sum();
        values::require_memory(count.saturating_mul(REFERRING))?;
        for other in values.values().flat_map(Values::descriptors) {
            other.built()?;
        }
        for attribute in self.attributes {
            let referred = values.get(&(attribute.name as u32)).map_or(&[][..], Values::descriptors);
            if let Some(other) = referred.iter().find(|other| !attribute.kinds.contains(&other.kind)) {
                let message = format!("{:?} refers to {:?}; found: {:?}", attribute.name, attribute.kinds, other.kind);
                return Err(Failure::new(Status::CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, message));
            }
        }
        Ok(())
    }

    /// Makes it as it was when it was created.
    pub(super) fn clear(&self) {
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = State::default();
    }

    /// Takes over what a finalized descriptor of the same kind is: how computed descriptors reach the caller.
    pub(super) fn become_like(&self, other: &Self) -> Result<()> {
        if self.kind != other.kind {
            let message = format!("{:?} cannot hold what {:?} is", self.kind, other.kind);
            return Err(Failure::new(Status::CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, message));
        }
        let taken = other.state().clone();
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = taken;
        Ok(())
    }

    /// What was made of it.
    fn built(&self) -> Result<Arc<dyn Object>> {
        let used_too_early = || self.not_finalized(Status::CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
        self.state().built.clone().ok_or_else(used_too_early)
    }

    /// What was made of it, where that is of a type.
    pub(super) fn object<T: Referred>(&self) -> Result<Arc<T>> {
        let built: Arc<dyn Any + Send + Sync> = self.built()?;
        built.downcast().map_err(|_| self.mismatch(T::WANTED))
    }

    fn not_finalized(&self, status: Status) -> Failure {
        Failure::new(status, format!("{:?} is not finalized", self.kind))
    }

    /// A failure that says what another kind of descriptor was expected.
    fn mismatch(&self, wanted: &str) -> Failure {
        let message = format!("{wanted} is wanted; found: {:?}", self.kind);
        Failure::new(Status::CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, message)
    }

    /// Its values, where it is finalized and of a kind.
    pub(super) fn given<T>(&self, kind: Kind, read: impl FnOnce(&Given<'_>) -> Result<T>) -> Result<T> {
        if self.kind != kind {
            return Err(self.mismatch(&format!("{kind:?}")));
        }
        self.built()?;
        read(&Given::new(&self.state().values))
    }
}

fn no_engine_has(attribute: &Attribute) -> Failure {
    Failure::unsupported(format!("no engine supports {:?}; leave it out", attribute.name))
}

fn required_type(attribute: &Attribute, number: u32) -> Result<cudarc::cudnn::sys::cudnnBackendAttributeType_t> {
    let kind = attributes::type_of(number).filter(|kind| attribute.types.contains(kind));
    kind.ok_or_else(|| {
        let message = format!("{:?} is of type {:?}; found: type {number}", attribute.name, attribute.types);
        Failure::new(Status::CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, message)
    })
}

/// An attribute that the caller does not set.
fn computed(built: &dyn Object, name: Name) -> Result<Values> {
    built.attribute(name)?.ok_or_else(|| Failure::unsupported(format!("{name:?} was not set")))
}
