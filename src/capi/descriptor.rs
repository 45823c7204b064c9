//! Descriptors: created, given attributes, finalized, asked, destroyed (spec/backend-api.md, section 1).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, PoisonError, RwLock};

use cudarc::cudnn::sys::cudnnBackendAttributeName_t as Name;
use cudarc::cudnn::sys::cudnnBackendDescriptorType_t as Kind;
use cudarc::cudnn::sys::cudnnStatus_t as Status;

use super::attributes::{self, Access, Attribute};
use super::device;
use super::engine::{self, Config, Engine, Heuristics, KnobChoice, KnobInfo};
use super::failure::{Failure, Result};
use super::graph::{self, OperationGraph};
use super::handle::Handle;
use super::kernels;
use super::operation::{self, Node};
use super::plan::{self, Pack, Plan};
use super::registry::Registry;
use super::values::{self, Values};
use crate::device::Device;
use crate::graph::Tensor;
use crate::session::KernelCache;

static DESCRIPTORS: Registry<Descriptor> = Registry::new();

/// What reading a text makes of it is at most about so many times as large.
const READING: usize = 4;

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
    built: Option<Built>,
}

/// What finalizing makes.
#[derive(Clone)]
pub(super) enum Built {
    /// Attributes that others read, and no more.
    Bundle,
    Tensor(Arc<Tensor>),
    Node(Arc<Node>),
    Graph(Arc<OperationGraph>),
    Engine(Arc<Engine>),
    KnobChoice(KnobChoice),
    KnobInfo(KnobInfo),
    Config(Arc<Config>),
    Heuristics(Arc<Heuristics>),
    Plan(Arc<Plan>),
    Pack(Arc<Pack>),
    Device(Arc<Device>),
    Kernels(Arc<KernelCache>),
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
    pub(super) fn finished(kind: Kind, values: Vec<(Name, Values)>, built: Built) -> Arc<Self> {
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
        let attribute = self.attribute(number)?;
        match attribute.access {
            Access::Computed => return Err(Failure::bad(format!("{:?} can only be got", attribute.name))),
            Access::Unsupported => return Err(no_engine_has(attribute)),
            Access::Required | Access::Optional => {}
        }
        let kind = required_type(attribute, of_type)?;
        let fits = |count: &usize| attribute.count.contains(count) && *count <= attributes::MAX_ELEMENTS;
        let count = usize::try_from(count).ok().filter(fits).ok_or_else(|| {
            let (least, most) = (attribute.count.start(), attribute.count.end().min(&attributes::MAX_ELEMENTS));
            Failure::bad(format!("{:?} has {least} to {most} elements; found: {count}", attribute.name))
        })?;
        // SAFETY: as promised by the caller.
        let values = unsafe { Values::read(kind, count, elements) }?;
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
            None => Cow::Owned(computed(&built, attribute.name)?),
        };
        let values = Values::of_type(values, kind)?;
        if elements.is_null() || room == 0 {
            return Ok(values.len() as i64);
        }
        // SAFETY: as promised by the caller.
        unsafe { values.write(room, elements) }?;
        Ok(values.len().min(room) as i64)
    }

    /// Finalizes it, where everything required is there and goes together.
    pub(super) fn finalize(&self) -> Result<()> {
        // without the lock from here on: it may refer to itself
        let State { values, built } = self.state().clone();
        if built.is_some() {
            return Err(Failure::bad(format!("{:?} is finalized already", self.kind)));
        }
        if self.attributes.is_empty() {
            return Err(Failure::unsupported(format!("no engine computes what {:?} describes", self.kind)));
        }
        for attribute in self.attributes.iter().filter(|attribute| attribute.access == Access::Required) {
            if !values.contains_key(&(attribute.name as u32)) {
                return Err(Failure::bad(format!("{:?} is not set", attribute.name)));
            }
        }
        self.require_referred(&values)?;
        let built = self::built(self.kind, &Given(&values))?;
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
    pub(super) fn built(&self) -> Result<Built> {
        self.state().built.clone().ok_or_else(|| self.used_too_early())
    }

    /// Something refers to it that needs it finalized.
    fn used_too_early(&self) -> Failure {
        self.not_finalized(Status::CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED)
    }

    fn not_finalized(&self, status: Status) -> Failure {
        Failure::new(status, format!("{:?} is not finalized", self.kind))
    }

    /// A failure that says what another kind of descriptor was expected.
    pub(super) fn mismatch(&self, wanted: &str) -> Failure {
        let message = format!("{wanted} is wanted; found: {:?}", self.kind);
        Failure::new(Status::CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, message)
    }

    /// Its values, where it is finalized and of a kind.
    pub(super) fn given<T>(&self, kind: Kind, read: impl FnOnce(&Given<'_>) -> Result<T>) -> Result<T> {
        if self.kind != kind {
            return Err(self.mismatch(&format!("{kind:?}")));
        }
        self.built()?;
        read(&Given(&self.state().values))
    }
}

/// What a finalized descriptor of a kind is, by the variant of [`Built`].
macro_rules! as_built {
    ($($function:ident: $variant:ident, $type:ty, $what:literal;)*) => {
        impl Descriptor {
            $(pub(super) fn $function(&self) -> Result<$type> {
                match &self.state().built {
                    Some(Built::$variant(built)) => Ok(built.clone()),
                    Some(_) => Err(self.mismatch($what)),
                    None => Err(self.used_too_early()),
                }
            })*
        }
    };
}

as_built! {
    tensor: Tensor, Arc<Tensor>, "a tensor descriptor";
    node: Node, Arc<Node>, "a descriptor of an operation";
    graph: Graph, Arc<OperationGraph>, "an operation graph descriptor";
    engine: Engine, Arc<Engine>, "an engine descriptor";
    config: Config, Arc<Config>, "an engine config descriptor";
    knob_choice: KnobChoice, KnobChoice, "a knob choice descriptor";
    plan: Plan, Arc<Plan>, "an execution plan descriptor";
    pack: Pack, Arc<Pack>, "a variant pack descriptor";
    device: Device, Arc<Device>, "a device properties descriptor";
    kernels: Kernels, Arc<KernelCache>, "a kernel cache descriptor";
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

fn built(kind: Kind, given: &Given<'_>) -> Result<Built> {
    Ok(match kind {
        Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR => Built::Tensor(Arc::new(operation::tensor(given)?)),
        Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR => Built::Graph(Arc::new(graph::build(given)?)),
        Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR => Built::Engine(Arc::new(engine::engine(given)?)),
        Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR => Built::Config(Arc::new(engine::config(given)?)),
        Kind::CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR => Built::KnobChoice(engine::knob_choice(given)?),
        Kind::CUDNN_BACKEND_KNOB_INFO_DESCRIPTOR
        | Kind::CUDNN_BACKEND_LAYOUT_INFO_DESCRIPTOR
        | Kind::CUDNN_BACKEND_INTERMEDIATE_INFO_DESCRIPTOR => {
            return Err(Failure::unsupported(format!("{kind:?} is got from an engine, and never finalized")));
        }
        Kind::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR => Built::Heuristics(Arc::new(engine::heuristics(given)?)),
        Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR => Built::Plan(Arc::new(plan::plan(given)?)),
        Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR => Built::Pack(Arc::new(plan::pack(given)?)),
        Kind::CUDNN_BACKEND_KERNEL_CACHE_DESCRIPTOR => Built::Kernels(Arc::new(kernels::kernels(given)?)),
        Kind::CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR => Built::Device(Arc::new(device::properties(given)?)),
        _ => match operation::node(kind, given)? {
            Some(node) => {
                graph::require_well_formed(&node)?;
                Built::Node(Arc::new(node))
            }
            None => {
                operation::check_bundle(kind, given)?;
                Built::Bundle
            }
        },
    })
}

/// An attribute that the caller does not set.
fn computed(built: &Built, name: Name) -> Result<Values> {
    let values = match built {
        Built::Tensor(_) => operation::tensor_default(name),
        Built::Graph(graph) => graph.attribute(name),
        Built::Engine(engine) => engine.attribute(name),
        Built::KnobInfo(info) => info.attribute(name),
        Built::Config(config) => config.attribute(name)?,
        Built::Heuristics(heuristics) => heuristics.attribute(name),
        Built::Plan(plan) => plan.attribute(name)?,
        Built::Device(device) => device::attribute(device, name),
        Built::Kernels(kernels) => kernels::attribute(kernels, name),
        _ => None,
    };
    values.ok_or_else(|| Failure::unsupported(format!("{name:?} was not set")))
}

/// The values that a descriptor was given.
pub(super) struct Given<'a>(&'a BTreeMap<u32, Values>);

impl Given<'_> {
    pub(super) fn of(&self, name: Name) -> Option<&Values> {
        self.0.get(&(name as u32))
    }

    pub(super) fn int64s(&self, name: Name) -> Vec<i64> {
        match self.of(name) {
            Some(Values::Int64(values)) => values.clone(),
            Some(Values::Int32(values)) => values.iter().map(|&value| value.into()).collect(),
            _ => Vec::new(),
        }
    }

    pub(super) fn int64(&self, name: Name) -> Option<i64> {
        self.int64s(name).first().copied()
    }

    pub(super) fn number(&self, name: Name) -> Option<f64> {
        match self.of(name)? {
            Values::Double(values) => values.first().copied(),
            Values::Float(values) => values.first().map(|&value| value.into()),
            _ => None,
        }
    }

    pub(super) fn is_set(&self, name: Name) -> bool {
        matches!(self.of(name), Some(Values::Boolean(values)) if values.first() == Some(&true))
    }

    /// A text, without the zero byte that may end it.
    pub(super) fn text(&self, name: Name) -> Result<Option<&str>> {
        let Some(Values::Char(bytes)) = self.of(name) else { return Ok(None) };
        let bytes = bytes.strip_suffix(&[0]).unwrap_or(bytes);
        values::require_memory(bytes.len().saturating_mul(READING))?;
        let wrong = |error| Failure::bad(format!("{name:?} is no UTF-8: {error}"));
        std::str::from_utf8(bytes).map(Some).map_err(wrong)
    }

    /// An enumerator's number; that of a required attribute is there.
    pub(super) fn enumerator(&self, name: Name) -> Option<u32> {
        match self.of(name)? {
            Values::Enum(values) => values.first().copied(),
            _ => None,
        }
    }

    pub(super) fn handle(&self, name: Name) -> Option<&Arc<Handle>> {
        match self.of(name)? {
            Values::Handle(given) => Some(&given.handle),
            _ => None,
        }
    }

    pub(super) fn descriptors(&self, name: Name) -> &[Arc<Descriptor>] {
        self.of(name).map_or(&[], Values::descriptors)
    }

    pub(super) fn descriptor(&self, name: Name) -> Option<&Arc<Descriptor>> {
        self.descriptors(name).first()
    }

    /// A required descriptor.
    pub(super) fn required(&self, name: Name) -> Result<&Arc<Descriptor>> {
        self.descriptor(name).ok_or_else(|| Failure::bad(format!("{name:?} is not set")))
    }
}
