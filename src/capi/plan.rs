//! Execution plans, variant packs, executions.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cudarc::cudnn::sys::cudnnBackendAttributeName_t as Name;
use cudarc::cudnn::sys::cudnnStatus_t as Status;
use float8::{F8E4M3, F8E5M2};
use half::{bf16, f16};
use serde::{Deserialize, Serialize};

use super::descriptor::{self, Descriptor, Given, Object, Referred, Values};
use super::engine::{self, Config, Engine, reserved};
use super::failure::{Failure, Result};
use super::graph::OperationGraph;
use super::handle::{self, Handle};
use super::quick;
use crate::device::Device;
use crate::engine::{EngineConfig, Selection};
use crate::error::Error;
use crate::graph::{DataType, Expectation, Expected, Scalar};
use crate::plan::{DevicePointer, ExecutionPlan, Stream, Unfit, VariantPack, WORKSPACE_ALIGNMENT, Workspace};
use crate::session::{self, Binary, KernelCache, QuickPlan, Session, SessionOptions, TensorShape};

/// A graph compiled for a device, and loaded where there is one.
pub(super) struct Plan {
    made: Made,
    /// Plans in other shapes, one for each binary that is another: executions that were captured run it as long as the plan lives.
    of_shapes: Mutex<Vec<Arc<session::Plan>>>,
    /// Held by the execution that loads it.
    loading: Mutex<()>,
    /// Host scalars whose values come with the variant pack, by pointers to host memory; with their types.
    scalars: BTreeMap<i64, DataType>,
    /// What host scalars have to be that the plan does not have.
    expectations: Vec<Expectation>,
    /// What a config that is got from the plan belongs to; set for plans of texts.
    handle: Option<Arc<Handle>>,
}

/// What was built.
enum Made {
    /// A binary, which the first execution loads, where the plan was made without a handle.
    Binary { binary: Arc<Binary>, loaded: OnceLock<Arc<session::Plan>> },
    /// A plan that is there soon, until that of the config is.
    Quick(QuickPlan),
}

/// Which of two plans, where a quick one executes until the best is there.
#[derive(Clone, Copy)]
enum Wanted {
    /// What is there.
    Soon,
    /// The best one, which is waited for: it stays what it is.
    Settled,
}

/// Pointers by uids, and a workspace, as they were given.
pub(super) struct Pack {
    /// All as device pointers.
    pointers: VariantPack,
    workspace: usize,
    /// Shapes that tensors have in this execution.
    shapes: Vec<TensorShape>,
}

/// The plan of a text, or of an engine config ([002 9.2.5], X-04).
pub(super) fn plan(given: &Given<'_>) -> Result<Plan> {
    let own = given.handle(Name::CUDNN_ATTR_EXECUTION_PLAN_HANDLE).cloned();
    match given.text(Name::CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION)? {
        Some(text) => read(given, own, text),
        None => build(given, own),
    }
}

/// Compiles the kernel of a config, or takes it from a cache, and loads it where there is a handle: the plan's own or, as
/// the frontend leaves that out, the graph's.
fn build(given: &Given<'_>, own: Option<Arc<Handle>>) -> Result<Plan> {
    let config = given.required(Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)?.object::<Config>()?;
    let Config { engine, config, .. } = &*config;
    // of this graph: a plan that is found may have been built for one that had other scalars
    let expectations = engine.graph.graph()?.expectations();
    let kernels = given.descriptor(Name::CUDNN_ATTR_EXECUTION_PLAN_KERNEL_CACHE);
    let kernels = kernels.map(|kernels| kernels.object::<KernelCache>()).transpose()?;
    let handle = own.or_else(|| engine.graph.handle.clone());
    handle.as_ref().map_or(Ok(()), |handle| handle.require_process())?;
    let Some(handle) = handle else {
        let session = Session::without_gpu(Device::clone(&engine.device), SessionOptions::default());
        let binary = session.compile(&engine.selection, config, kernels.as_deref());
        let binary = binary.map_err(|error| Failure::of_build(&error))?;
        return Ok(Plan::new(Arc::new(binary), None, None).expecting(expectations));
    };
    if engine.device != *handle.session.device() {
        // properties of another device than the handle's: its configs may not fit
        require_offered(&handle, config, &engine.selection)?;
    }
    if quick::is_asked_for() {
        let plan = quick::plan(&handle.session, &engine.selection, config, kernels);
        let made = Made::Quick(plan.map_err(|error| Failure::of_build(&error))?);
        return Ok(Plan::of(made, None).expecting(expectations));
    }
    let plan = handle.session.plan_from(&engine.selection, config, kernels.as_deref());
    let plan = plan.map_err(|error| Failure::of_build(&error))?;
    Ok(Plan::new(Arc::clone(plan.binary()), Some(plan), None).expecting(expectations))
}

fn require_offered(handle: &Handle, config: &EngineConfig, selection: &Selection) -> Result<()> {
    let device = handle.session.device();
    let is_same_chip = selection.supported().capability() == device.capability;
    if is_same_chip && selection.offers(config, device) {
        return Ok(());
    }
    let message = format!("the config {config} was made for another device than the handle's ({})", device.name);
    Err(Failure::new(Status::CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH, message))
}

/// What a plan's text holds beside its binary.
#[derive(Deserialize)]
struct Beside {
    #[serde(default)]
    expected: Vec<ExpectationText>,
}

/// The uid of a host scalar, its type, and what it has to be.
#[derive(Serialize, Deserialize)]
struct ExpectationText(i64, String, ExpectedText);

/// A length, or something else by its name; nothing where it masks.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum ExpectedText {
    Length(i64),
    Named(Option<Named>),
}

#[derive(Serialize, Deserialize)]
enum Named {
    One,
    Kept(f32),
    FarBelow,
    Zero,
}

impl ExpectationText {
    fn of(expectation: &Expectation) -> Self {
        let expected = match expectation.expected {
            Expected::Masked => ExpectedText::Named(None),
            Expected::FarBelow => ExpectedText::Named(Some(Named::FarBelow)),
            Expected::Zero => ExpectedText::Named(Some(Named::Zero)),
            Expected::Length(length) => ExpectedText::Length(length),
            Expected::One => ExpectedText::Named(Some(Named::One)),
            Expected::Kept(keep) => ExpectedText::Named(Some(Named::Kept(keep))),
        };
        Self(expectation.uid, expectation.data_type.name().to_owned(), expected)
    }

    fn read(&self) -> Option<Expectation> {
        let data_type = DataType::from_name(&self.1)?;
        let expected = match self.2 {
            ExpectedText::Named(None) => Expected::Masked,
            ExpectedText::Named(Some(Named::FarBelow)) => Expected::FarBelow,
            ExpectedText::Named(Some(Named::Zero)) => Expected::Zero,
            ExpectedText::Length(length) => Expected::Length(length),
            ExpectedText::Named(Some(Named::One)) => Expected::One,
            ExpectedText::Named(Some(Named::Kept(keep))) => Expected::Kept(keep),
        };
        Some(Expectation { uid: self.0, data_type, expected })
    }
}

/// The expectations of a plan's text.
fn expected(text: &str) -> Result<Vec<Expectation>> {
    let beside: Beside = serde_json::from_str(text).map_err(|error| Failure::bad(format!("no plan: {error}")))?;
    let all: Option<Vec<Expectation>> = beside.expected.iter().map(ExpectationText::read).collect();
    all.ok_or_else(|| Failure::bad("a plan with a host scalar of a type that is none"))
}

/// Reads a plan back; without a handle, for the device of properties.
fn read(given: &Given<'_>, handle: Option<Arc<Handle>>, text: &str) -> Result<Plan> {
    let refused = |error| Failure::of_build(&error);
    if let Some(handle) = handle {
        handle.require_process()?;
        // SAFETY: the program that set the text answers for where it comes from (`cudnnBackendSetAttribute`).
        let plan = unsafe { handle.session.load(text) }.map_err(refused)?;
        return Ok(Plan::new(Arc::clone(plan.binary()), Some(plan), Some(handle)).expecting(&expected(text)?));
    }
    let device = given.descriptor(Name::CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
    let device =
        device.ok_or_else(|| Failure::bad("a text needs a handle, or device properties"))?.object::<Device>()?;
    // SAFETY: as above.
    let binary = unsafe { Binary::from_json(text, &device) }.map_err(refused)?;
    Ok(Plan::new(Arc::new(binary), None, None).expecting(&expected(text)?))
}

impl Plan {
    fn new(binary: Arc<Binary>, loaded: Option<Arc<session::Plan>>, handle: Option<Arc<Handle>>) -> Self {
        Self::of(Made::Binary { binary, loaded: loaded.map_or_else(OnceLock::new, OnceLock::from) }, handle)
    }

    fn of(made: Made, handle: Option<Arc<Handle>>) -> Self {
        let tensors = made.binary().graph().tensors();
        let scalars = tensors.filter(|tensor| tensor.is_pass_by_value && tensor.value.is_none());
        let scalars = scalars.map(|tensor| (tensor.uid, tensor.data_type)).collect();
        let of_shapes = Mutex::default();
        Self { made, of_shapes, loading: Mutex::new(()), scalars, expectations: Vec::new(), handle }
    }

    /// The same, whose executions are held to what a graph was taken for.
    fn expecting(self, expectations: &[Expectation]) -> Self {
        Self { expectations: expectations.to_vec(), ..self }
    }

    /// The engine config of a plan that was read from a text.
    fn config(&self) -> Result<Arc<Descriptor>> {
        let binary = self.made.kept();
        let graph = OperationGraph::of(Arc::clone(binary.graph()), self.handle.clone());
        let device = Arc::new(binary.device().clone());
        let engine = Engine::new(Arc::new(graph), device, Selection::clone(binary.selection()))?;
        let engine = Arc::new(engine);
        Ok(engine::result(&engine, &engine::described(&engine), binary.config().clone()))
    }

    /// What the plan is read back from: its binary, and the expectations, which no graph of a binary has.
    fn text(&self) -> String {
        let mut text = self.made.kept().to_json();
        if !self.expectations.is_empty() && text.pop() == Some('}') {
            let rows: Vec<ExpectationText> = self.expectations.iter().map(ExpectationText::of).collect();
            text += &format!(",\"expected\":{}}}", serde_json::json!(rows));
        }
        text
    }

    /// The plan on a GPU: that of the handle, where it was made without one.
    fn loaded(&self, handle: &Handle, wanted: Wanted) -> Result<&Arc<session::Plan>> {
        let (binary, loaded) = match (&self.made, wanted) {
            (Made::Binary { binary, loaded }, _) => (binary, loaded),
            (Made::Quick(plan), Wanted::Soon) => return Ok(plan.current()),
            (Made::Quick(plan), Wanted::Settled) => return Ok(plan.settled()),
        };
        let _loading = match loaded.get() {
            Some(plan) => return Ok(plan),
            None => self.loading.lock().unwrap_or_else(PoisonError::into_inner),
        };
        if loaded.get().is_none() {
            let plan = handle.session.load_binary(Arc::clone(binary)).map_err(|error| Failure::of_build(&error))?;
            loaded.get_or_init(|| Arc::new(plan));
        }
        let missing = || Failure::bad("the plan is not loaded");
        loaded.get().ok_or_else(missing)
    }

    /// The plan in the shapes of a pack, where that has some.
    fn in_shapes(&self, loaded: &session::Plan, pack: &Pack, handle: &Handle) -> Result<Option<Arc<session::Plan>>> {
        if pack.shapes.is_empty() {
            return Ok(None);
        }
        let graph = loaded.binary().graph();
        if !graph.is_dynamic() {
            let flag = Name::CUDNN_ATTR_OPERATIONGRAPH_IS_OVERRIDE_SHAPE_ENABLED;
            let message = format!("the pack has other shapes; required: a graph of which {flag:?} is set");
            return Err(Failure::new(Status::CUDNN_STATUS_NOT_SUPPORTED_INVALID_DYNAMIC_SHAPE, message));
        }
        let is_known =
            |shape: &&TensorShape| graph.tensor_by_uid(shape.uid).is_some_and(|id| !graph.tensor(id).is_virtual);
        // the rest is passed over, as in packs
        let shapes: Cow<'_, [TensorShape]> = match pack.shapes.iter().all(|shape| is_known(&shape)) {
            true => Cow::Borrowed(&pack.shapes),
            false => Cow::Owned(pack.shapes.iter().filter(is_known).cloned().collect()),
        };
        let plan = handle.session.plan_in_shapes(loaded, &shapes).map_err(|error| Failure::of_shapes(&error))?;
        self.keep(&plan);
        Ok(Some(plan))
    }

    /// Keeps the binary of a plan in other shapes, where it is none that is kept.
    fn keep(&self, plan: &Arc<session::Plan>) {
        let is_of = |binary: &Binary| Arc::ptr_eq(binary.cubin(), plan.binary().cubin());
        if is_of(self.made.binary()) {
            return;
        }
        let mut kept = self.of_shapes.lock().unwrap_or_else(PoisonError::into_inner);
        if !kept.iter().any(|kept| is_of(kept.binary())) {
            kept.push(Arc::clone(plan));
        }
    }

    /// What a pack has for the plan, which was loaded; the rest is passed over, as cuDNN does: the frontend's programs give
    /// tensors that no operation reads.
    ///
    /// # Safety
    /// Pointers of host scalars point to values of their types.
    unsafe fn variants<'a>(&self, loaded: &ExecutionPlan, pack: &'a Pack) -> Result<Cow<'a, VariantPack>> {
        let mut variants = loaded.known(&pack.pointers);
        let value = |uid: i64, data_type: DataType| {
            let Some(pointer) = pack.pointers.pointer(uid) else { return Ok(None) };
            if pointer == DevicePointer::NULL {
                return Err(Failure::null(&format!("the pointer of the scalar of uid {uid}")));
            }
            // SAFETY: as promised by the caller.
            unsafe { scalar(data_type, pointer.address() as usize) }.map(Some)
        };
        for (&uid, &data_type) in &self.scalars {
            if let Some(value) = value(uid, data_type)? {
                variants.to_mut().set_scalar(uid, value);
            }
        }
        for expectation in &self.expectations {
            let uid = expectation.uid;
            let value = value(uid, expectation.data_type)?;
            let value = value.ok_or_else(|| Failure::bad(format!("the scalar of uid {uid} has no entry")))?;
            if !expectation.holds(value) {
                let message = format!("the scalar of uid {uid} is {}; {}", value.as_f64(), expectation.text());
                return Err(Failure::unsupported(message));
            }
        }
        Ok(variants)
    }

    fn workspace(&self, pack: &Pack) -> Workspace {
        let bytes = self.made.workspace_bytes();
        let address = match (bytes, pack.workspace as u64) {
            (0, _) => return Workspace::NONE,
            (_, 0) => 0,
            (_, address) => address.saturating_add(WORKSPACE_ALIGNMENT - 1) / WORKSPACE_ALIGNMENT * WORKSPACE_ALIGNMENT,
        };
        // the caller gives as many bytes as `reserved` asks for, which leaves room for the alignment; null is refused when
        // it is used
        Workspace { pointer: DevicePointer::from_raw(address), bytes }
    }
}

impl Made {
    /// A binary of the graph: one that executions may have.
    fn binary(&self) -> &Arc<Binary> {
        match self {
            Self::Binary { binary, .. } => binary,
            Self::Quick(plan) => plan.current().binary(),
        }
    }

    /// The binary of the plan's own config, which is waited for.
    fn kept(&self) -> &Arc<Binary> {
        match self {
            Self::Binary { binary, .. } => binary,
            Self::Quick(plan) => plan.settled().binary(),
        }
    }

    /// Bytes of workspace that executions need.
    fn workspace_bytes(&self) -> u64 {
        match self {
            Self::Binary { binary, .. } => binary.source().workspace_bytes,
            Self::Quick(plan) => plan.workspace_bytes(),
        }
    }
}

impl Object for Plan {
    fn attribute(&self, name: Name) -> Result<Option<Values>> {
        Ok(Some(match name {
            Name::CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE => {
                Values::Int64(vec![reserved(self.made.workspace_bytes()) as i64])
            }
            Name::CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION => Values::Char(self.text().into_bytes()),
            Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG => Values::Descriptors(vec![self.config()?]),
            _ => return Ok(None),
        }))
    }
}

impl Referred for Plan {
    const WANTED: &'static str = "an execution plan descriptor";
}

impl Object for Pack {}

impl Referred for Pack {
    const WANTED: &'static str = "a variant pack descriptor";
}

/// A host scalar.
///
/// # Safety
/// The address is that of a value of the type.
unsafe fn scalar(data_type: DataType, address: usize) -> Result<Scalar> {
    let pointer: *const c_void = std::ptr::with_exposed_provenance(address);
    // SAFETY: as promised by the caller; it need not be aligned.
    unsafe {
        Ok(match data_type {
            DataType::Float => Scalar::Float(pointer.cast::<f32>().read_unaligned().into()),
            DataType::Double => Scalar::Float(pointer.cast::<f64>().read_unaligned()),
            DataType::Half => Scalar::Float(f16::from_bits(pointer.cast::<u16>().read_unaligned()).into()),
            DataType::BFloat16 => Scalar::Float(bf16::from_bits(pointer.cast::<u16>().read_unaligned()).into()),
            DataType::Int32 => Scalar::Integer(pointer.cast::<i32>().read_unaligned().into()),
            DataType::Int64 => Scalar::Integer(pointer.cast::<i64>().read_unaligned()),
            DataType::Int8 => Scalar::Integer(pointer.cast::<i8>().read_unaligned().into()),
            DataType::Boolean => Scalar::Integer((pointer.cast::<u8>().read() != 0).into()),
            DataType::Fp8E4M3 => Scalar::Float(F8E4M3::from_bits(pointer.cast::<u8>().read()).to_f64()),
            DataType::Fp8E5M2 => Scalar::Float(F8E5M2::from_bits(pointer.cast::<u8>().read()).to_f64()),
            DataType::UInt8 => Scalar::Integer(pointer.cast::<u8>().read_unaligned().into()),
            _ => return Err(Failure::unsupported(format!("host scalars of type {data_type}"))),
        })
    }
}

/// The pointers of a pack ([002 9.2.17]).
pub(super) fn pack(given: &Given<'_>) -> Result<Pack> {
    let uids = match given.of(Name::CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS) {
        Some(Values::Int64(uids)) => uids.as_slice(),
        _ => &[],
    };
    let addresses = |name: Name| match given.of(name) {
        Some(Values::Pointer(values)) => values.as_slice(),
        _ => &[],
    };
    let given_pointers = addresses(Name::CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    if uids.len() != given_pointers.len() {
        return Err(Failure::bad(format!("{} uids and {} pointers", uids.len(), given_pointers.len())));
    }
    let workspace = addresses(Name::CUDNN_ATTR_VARIANT_PACK_WORKSPACE).first().copied().unwrap_or(0);
    let entries = uids.iter().zip(given_pointers);
    let entries = entries.map(|(&uid, &address)| (uid, DevicePointer::from_raw(address as u64)));
    let pointers = VariantPack::from_pointers(entries).map_err(|unfit| match unfit {
        Unfit::Twice(uid) => {
            let message = format!("the uid {uid} has two pointers");
            Failure::new(Status::CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES, message)
        }
        Unfit::Large(bytes) => Failure::memory(bytes),
    })?;
    Ok(Pack { pointers, workspace, shapes: shapes(given)? })
}

/// The shapes that a pack gives tensors in place of their graph's.
fn shapes(given: &Given<'_>) -> Result<Vec<TensorShape>> {
    let uids = match given.of(Name::CUDNN_ATTR_VARIANT_PACK_OVERRIDE_UNIQUE_IDS) {
        Some(Values::Int64(uids)) => uids.as_slice(),
        _ => &[],
    };
    let rows = |name: Name| match given.of(name) {
        Some(Values::Rows(rows)) => rows.as_slice(),
        _ => &[],
    };
    let [dims, strides] =
        [Name::CUDNN_ATTR_VARIANT_PACK_OVERRIDE_SHAPES, Name::CUDNN_ATTR_VARIANT_PACK_OVERRIDE_STRIDES].map(rows);
    if uids.len() != dims.len() || uids.len() != strides.len() {
        let counts = format!("{} uids, {} shapes and {} strides", uids.len(), dims.len(), strides.len());
        return Err(Failure::bad(format!("shapes of an execution: {counts}; required: one of each for a tensor")));
    }
    let shape = |((&uid, dim), stride): ((&i64, &Vec<i64>), &Vec<i64>)| TensorShape {
        uid,
        dim: dim.clone(),
        stride: stride.clone(),
    };
    Ok(uids.iter().zip(dims).zip(strides).map(shape).collect())
}

/// Puts one execution of a plan on the stream of a handle.
///
/// # Safety
/// The pointers of the pack are what its uids ask for.
pub(super) unsafe fn execute(handle: *mut c_void, plan: *mut c_void, pack: *mut c_void) -> Result<()> {
    let handle = handle::find(handle)?;
    let execute = |plan: &ExecutionPlan, pack: &VariantPack, workspace| {
        // SAFETY: the pack's pointers and its workspace are as the caller promises.
        handle.on_stream(|stream| unsafe { plan.execute(pack, workspace, stream) })
    };
    // what a CUDA graph has it keeps
    let wanted =
        if quick::is_asked_for() && handle.on_stream(Stream::is_captured) { Wanted::Settled } else { Wanted::Soon };
    // SAFETY: as promised by the caller.
    unsafe { with(&handle, (plan, wanted), pack, execute) }
}

/// Fills an empty CUDA graph with one execution of a plan (G-02).
///
/// # Safety
/// As [`execute`], and the graph is null or one that nothing else uses meanwhile.
pub(super) unsafe fn populate(
    handle: *mut c_void,
    plan: *mut c_void,
    pack: *mut c_void,
    graph: *mut c_void,
) -> Result<()> {
    let handle = handle::find(handle)?;
    require_graph(graph)?;
    // SAFETY: as promised by the caller.
    unsafe {
        with(&handle, (plan, Wanted::Settled), pack, |plan, pack, workspace| plan.populate(graph, pack, workspace))
    }
}

/// Binds a CUDA graph that was filled by the plan to the pointers of a pack (G-05).
///
/// # Safety
/// As [`populate`].
pub(super) unsafe fn update(
    handle: *mut c_void,
    plan: *mut c_void,
    pack: *mut c_void,
    graph: *mut c_void,
) -> Result<()> {
    let handle = handle::find(handle)?;
    require_graph(graph)?;
    // SAFETY: as promised by the caller.
    unsafe { with(&handle, (plan, Wanted::Settled), pack, |plan, pack, workspace| plan.update(graph, pack, workspace)) }
}

fn require_graph(graph: *mut c_void) -> Result<()> {
    if graph.is_null() { Err(Failure::null("the CUDA graph")) } else { Ok(()) }
}

/// Does something with a loaded plan and what a pack has for it.
///
/// # Safety
/// The pointers of the pack are what its uids ask for.
unsafe fn with(
    handle: &Handle,
    (plan, wanted): (*mut c_void, Wanted),
    pack: *mut c_void,
    act: impl FnOnce(&ExecutionPlan, &VariantPack, Workspace) -> std::result::Result<(), Error>,
) -> Result<()> {
    let plan = descriptor::find(plan)?.object::<Plan>()?;
    let pack = descriptor::find(pack)?.object::<Pack>()?;
    let own = plan.loaded(handle, wanted)?;
    handle.require_context(own.execution().context())?;
    let other = plan.in_shapes(own, &pack, handle)?;
    let loaded = other.as_deref().unwrap_or(own).execution();
    // SAFETY: as promised by the caller.
    let variants = unsafe { plan.variants(loaded, &pack) }?;
    act(loaded, &variants, plan.workspace(&pack)).map_err(|error| Failure::of_execution(&error))
}

/// Waits for the plan of a descriptor's own config, where a quick one executes until it is there: for who measures it. Other descriptors are passed over.
pub fn settle(descriptor: *mut c_void) {
    let plan = descriptor::find(descriptor).and_then(|found| found.object::<Plan>());
    if let Ok(Plan { made: Made::Quick(plan), .. }) = plan.as_deref() {
        plan.settled();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_text_holds_beside_its_binary_is_read_back() {
        let of = |uid, data_type, expected| Expectation { uid, data_type, expected };
        let one = of(4, DataType::Float, Expected::One);
        let far = of(8, DataType::Float, Expected::FarBelow);
        let zero = of(9, DataType::Float, Expected::Zero);
        let all =
            [of(7, DataType::Float, Expected::Masked), of(-3, DataType::Int32, Expected::Length(9)), one, far, zero];
        let rows: Vec<ExpectationText> = all.iter().map(ExpectationText::of).collect();
        let text = format!("{{\"kind\":\"any\",\"expected\":{}}}", serde_json::json!(rows));
        assert_eq!(expected(&text).expect("read"), all);
        assert_eq!(expected("{\"kind\":\"any\"}").expect("read"), []);
        assert!(expected("{\"expected\":[[1,\"NOTHING\",null]]}").is_err());
        assert!(expected("{\"expected\":7}").is_err());
    }
}
