//! The functions that programs call in place of the real library's: each asks of its caller what that one does, and passes it on.

use std::ffi::{CStr, c_char, c_uint, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use fusewright::capi;

use super::attributes::{self, Asked};
use super::numbers::{kind, name, status};
use super::pairs::{self, Pair, Subject};
use super::sides::{Callback, Half, OfCudaGraph, Pointer, Refusal, Side};
use super::{errors, handles, heuristics, trace};

/// The function in place of the real library's of a name.
pub(crate) fn of(name: &CStr) -> Option<*const c_void> {
    let function = match name.to_bytes() {
        b"cudnnCreate" => create as *const (),
        b"cudnnDestroy" => destroy as *const (),
        b"cudnnSetStream" => set_stream as *const (),
        b"cudnnBackendCreateDescriptor" => create_descriptor as *const (),
        b"cudnnBackendDestroyDescriptor" => destroy_descriptor as *const (),
        b"cudnnBackendInitialize" => initialize as *const (),
        b"cudnnBackendSetAttribute" => set as *const (),
        b"cudnnBackendGetAttribute" => get as *const (),
        b"cudnnBackendFinalize" => finalize as *const (),
        b"cudnnBackendExecute" => execute as *const (),
        b"cudnnBackendPopulateCudaGraph" => populate as *const (),
        b"cudnnBackendUpdateCudaGraph" => update as *const (),
        b"cudnnGetExecutionPlanWorkspaceSize" => workspace_of as *const (),
        b"cudnnSetCallback" => set_callback as *const (),
        b"cudnnGetLastErrorString" => last_error as *const (),
        _ => return None,
    };
    Some(function.cast())
}

/// The status of what a function does; no panic leaves the library.
fn call(body: impl FnOnce() -> u32) -> u32 {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(status::UNEXPECTED_VALUE)
}

unsafe extern "C" fn create(handle: *mut Pointer) -> u32 {
    // SAFETY: as promised by the caller.
    call(|| unsafe { handles::create(handle) })
}

unsafe extern "C" fn destroy(handle: Pointer) -> u32 {
    // SAFETY: as promised by the caller.
    call(|| unsafe { handles::destroy(handle) })
}

unsafe extern "C" fn set_stream(handle: Pointer, stream: Pointer) -> u32 {
    // SAFETY: as promised by the caller.
    call(|| unsafe { handles::set_stream(handle, stream) })
}

unsafe extern "C" fn create_descriptor(of_kind: u32, made: *mut Pointer) -> u32 {
    const FUNCTION: &str = "cudnnBackendCreateDescriptor";
    call(|| {
        if made.is_null() {
            return errors::fail(FUNCTION, status::NULL_POINTER, "the pointer to a descriptor is null");
        }
        match pairs::create(FUNCTION, of_kind) {
            Ok(descriptor) => {
                // SAFETY: as promised by the caller.
                unsafe { made.write(descriptor) };
                status::SUCCESS
            }
            Err(status) => status,
        }
    })
}

unsafe extern "C" fn destroy_descriptor(descriptor: Pointer) -> u32 {
    call(|| pairs::destroy("cudnnBackendDestroyDescriptor", descriptor))
}

/// Does something with a pair.
fn with(function: &str, descriptor: Pointer, act: impl FnOnce(&str, &Pair) -> u32) -> u32 {
    call(|| pairs::require(function, descriptor).map_or_else(|status| status, |pair| act(function, &pair)))
}

unsafe extern "C" fn initialize(descriptor: Pointer) -> u32 {
    with("cudnnBackendInitialize", descriptor, |function, pair| pair.initialize(function))
}

unsafe extern "C" fn set(descriptor: Pointer, name: u32, of_type: u32, count: i64, elements: *const c_void) -> u32 {
    with("cudnnBackendSetAttribute", descriptor, |function, pair| {
        // SAFETY: as promised by the caller.
        unsafe { attributes::set(function, pair, name, of_type, count, elements) }
    })
}

unsafe extern "C" fn get(
    descriptor: Pointer,
    name: u32,
    of_type: u32,
    room: i64,
    count: *mut i64,
    elements: Pointer,
) -> u32 {
    with("cudnnBackendGetAttribute", descriptor, |function, pair| {
        // SAFETY: as promised by the caller.
        unsafe { attributes::get(function, pair, Asked { name, of_type, room, count, elements }) }
    })
}

unsafe extern "C" fn finalize(descriptor: Pointer) -> u32 {
    with("cudnnBackendFinalize", descriptor, |function, pair| {
        if let Some(pack) = &pair.pack {
            return pack.finalize(function);
        }
        let mut refused = Vec::new();
        let status = pair.ask(function, |half| half.finalize().inspect_err(|refusal| refused.push(refusal.clone())));
        finalized(pair, status, &refused);
        status
    })
}

/// What follows the finalizing of some kinds.
fn finalized(pair: &Pair, status: u32, refused: &[Refusal]) {
    let is_done = status == status::SUCCESS;
    match pair.kind() {
        kind::GRAPH => {
            if is_done {
                let graph = pair.half(Side::Ours).ok().and_then(|half| capi::finalized_graph(half.pointer()));
                pair.set_subject(&Arc::new(Subject { graph, handle: pair.handle() }));
            }
            trace::graph(pair, status, refused);
        }
        kind::HEURISTICS if is_done => heuristics::finalized(pair),
        kind::HEURISTICS => trace::heuristics_refused(pair, refused),
        kind::PLAN => trace::plan(pair, status, refused),
        _ => {}
    }
}

/// What an execution needs of one side.
struct Execution {
    side: Side,
    handle: Pointer,
    plan: Arc<Half>,
    pack: Arc<Half>,
}

impl Execution {
    /// The plan's side, with that side's handle and pack.
    fn of(function: &str, handle: Pointer, plan: Pointer, pack: Pointer) -> Result<Self, u32> {
        let plan = pairs::require(function, plan)?;
        let pack = pairs::require(function, pack)?;
        let half = plan.counting().map_err(|[real, ours]| errors::refuse(function, &[&real, &ours]))?;
        let side = half.side();
        let refused = |refusal: Refusal| errors::refuse(function, &[&refusal]);
        let wrong = || errors::fail(function, status::BAD_PARAM, "a variant pack is wanted");
        let pack = pack.pack.as_ref().ok_or_else(wrong)?.of(side).map_err(refused)?;
        let handle = handles::of_side(handle, side).map_err(refused)?;
        if trace::is_on() && plan.is_first_execution() {
            trace::execution(&plan, side);
        }
        Ok(Self { side, handle, plan: half, pack })
    }

    fn end(&self, function: &str, status: u32) -> u32 {
        match self.side.check(status) {
            Ok(()) => status,
            Err(refusal) => errors::refuse(function, &[&refusal]),
        }
    }
}

unsafe extern "C" fn execute(handle: Pointer, plan: Pointer, pack: Pointer) -> u32 {
    const FUNCTION: &str = "cudnnBackendExecute";
    call(|| match Execution::of(FUNCTION, handle, plan, pack) {
        Ok(of) => {
            let execute = of.side.functions().execute;
            // SAFETY: as promised by the caller; all three are of one side.
            of.end(FUNCTION, unsafe { execute(of.handle, of.plan.pointer(), of.pack.pointer()) })
        }
        Err(status) => status,
    })
}

/// # Safety
/// As [`capi::cudnnBackendPopulateCudaGraph`].
unsafe fn with_cuda_graph(
    function: &str,
    [handle, plan, pack, graph]: [Pointer; 4],
    choose: impl FnOnce(Side) -> Option<OfCudaGraph>,
) -> u32 {
    call(|| match Execution::of(function, handle, plan, pack) {
        Ok(of) => match choose(of.side) {
            // SAFETY: as promised by the caller; handle and descriptors are of one side.
            Some(act) => of.end(function, unsafe { act(of.handle, of.plan.pointer(), of.pack.pointer(), graph) }),
            None => errors::fail(function, status::NOT_SUPPORTED, "the real cuDNN has no such function"),
        },
        Err(status) => status,
    })
}

unsafe extern "C" fn populate(handle: Pointer, plan: Pointer, pack: Pointer, graph: Pointer) -> u32 {
    let choose = |side: Side| side.functions().populate;
    // SAFETY: as promised by the caller.
    unsafe { with_cuda_graph("cudnnBackendPopulateCudaGraph", [handle, plan, pack, graph], choose) }
}

unsafe extern "C" fn update(handle: Pointer, plan: Pointer, pack: Pointer, graph: Pointer) -> u32 {
    let choose = |side: Side| side.functions().update;
    // SAFETY: as promised by the caller.
    unsafe { with_cuda_graph("cudnnBackendUpdateCudaGraph", [handle, plan, pack, graph], choose) }
}

/// The workspace of an execution, which has other shapes than its plan, maybe. Ours is that of the plan.
unsafe extern "C" fn workspace_of(handle: Pointer, plan: Pointer, pack: Pointer, bytes: *mut usize) -> u32 {
    const FUNCTION: &str = "cudnnGetExecutionPlanWorkspaceSize";
    call(|| {
        let of = match Execution::of(FUNCTION, handle, plan, pack) {
            Ok(of) => of,
            Err(status) => return status,
        };
        match of.side.functions().workspace_of {
            // SAFETY: as promised by the caller; handle and descriptors are of one side.
            Some(ask) => of.end(FUNCTION, unsafe { ask(of.handle, of.plan.pointer(), of.pack.pointer(), bytes) }),
            None if of.side == Side::Ours && !bytes.is_null() => match of.plan.number(name::PLAN_WORKSPACE) {
                Ok(found) => {
                    // SAFETY: as promised by the caller.
                    unsafe { bytes.write(usize::try_from(found).unwrap_or(0)) };
                    status::SUCCESS
                }
                Err(refusal) => errors::refuse(FUNCTION, &[&refusal]),
            },
            None => errors::fail(FUNCTION, status::NOT_SUPPORTED, "the real cuDNN has no such function"),
        }
    })
}

/// Has both libraries send what they log to a function of the program.
unsafe extern "C" fn set_callback(mask: c_uint, data: Pointer, function: Callback) -> u32 {
    call(|| {
        #[expect(
            clippy::missing_transmute_annotations,
            reason = "the other type is of cudarc, which is no dependency here"
        )]
        // SAFETY: as promised by the caller; both types are of the same C function.
        unsafe {
            capi::cudnnSetCallback(mask, data, std::mem::transmute(function))
        };
        // SAFETY: as promised by the caller.
        Side::Real.functions().set_callback.map_or(status::NOT_SUPPORTED, |set| unsafe { set(mask, data, function) })
    })
}

unsafe extern "C" fn last_error(message: *mut c_char, room: usize) {
    if message.is_null() || room == 0 {
        return;
    }
    let text = catch_unwind(errors::take_last).unwrap_or_default();
    let bytes = text.bytes().filter(|&byte| byte != 0).take(room - 1).chain([0]);
    for (index, byte) in bytes.enumerate() {
        // SAFETY: as promised by the caller: the index is below `room`.
        unsafe { message.add(index).write(byte as c_char) };
    }
}
