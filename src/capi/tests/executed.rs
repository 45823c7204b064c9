//! Plans of the ABI on a driver without a GPU, which takes every module and runs kernels that do nothing.

use std::ffi::{c_char, c_uint};
use std::sync::Mutex;

use cudarc::cudnn::sys::{cudnnDebugStruct, cudnnSeverity_t as RawSeverity};

use super::*;
use crate::compile::Nvrtc;
use crate::compile::testing::nvrtc_or_skip;
use crate::plan::cuda;
use crate::plan::tests::{launches_of_any, on_driver_in, set_in_driver};

/// Runs a test on that driver, where there is a compiler.
pub(super) fn executed(name: &str, test: impl FnOnce(Session)) {
    executed_in("executed", name, test);
}

/// The same of a module of tests.
pub(super) fn executed_in(module: &str, name: &str, test: impl FnOnce(Session)) {
    executed_with(&[], module, name, test);
}

/// The same in an environment with these variables.
pub(super) fn executed_with(variables: &[(&str, &str)], module: &str, name: &str, test: impl FnOnce(Session)) {
    on_driver_in(variables, &format!("capi::tests::{module}::{name}"), || {
        if nvrtc_or_skip(|| Nvrtc::load_for(ComputeCapability::SM_90)).is_some() {
            test(Session::new());
        }
    });
}

/// A library handle.
pub(super) struct Session(pub(super) *mut c_void);

impl Session {
    fn new() -> Self {
        let mut handle = ptr::null_mut();
        // SAFETY: the pointer is to room for one.
        assert_eq!(unsafe { cudnnCreate(&raw mut handle) }, Status::CUDNN_STATUS_SUCCESS, "{}", last_error());
        Self(handle)
    }

    fn matmul(&self) -> Owned {
        graph_of(&matmul_relu_nodes(HALF, HALF, 6.0), Some(self.0))
    }

    /// The first config of a graph.
    pub(super) fn config(&self, graph: &Owned) -> Owned {
        let heuristics = Owned::new(Kind::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
        heuristics.refer(Name::CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph).set(
            Name::CUDNN_ATTR_ENGINEHEUR_MODE,
            Type::CUDNN_TYPE_HEUR_MODE,
            &[Mode::CUDNN_HEUR_MODE_A as u32],
        );
        let heuristics = heuristics.finalize();
        let configs = got(&heuristics, Name::CUDNN_ATTR_ENGINEHEUR_RESULTS, Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
        configs.into_iter().next().expect("a config")
    }

    /// A finalized plan of the first config, changed before it is finalized.
    pub(super) fn plan(&self, graph: &Owned, change: impl FnOnce(&Owned)) -> Owned {
        let plan = Owned::new(Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        plan.refer(Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, &self.config(graph));
        change(&plan);
        plan.finalize()
    }

    pub(super) fn execute(&self, plan: &Owned, pack: &Owned) -> Status {
        // SAFETY: the kernels do nothing.
        unsafe { cudnnBackendExecute(self.0, plan.0, pack.0) }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        assert_eq!(cudnnDestroy(self.0), Status::CUDNN_STATUS_SUCCESS);
    }
}

/// A pack of uids with the addresses that stand for them.
pub(super) fn pack(entries: &[(i64, usize)], workspace: usize) -> Owned {
    let (uids, addresses): (Vec<i64>, Vec<usize>) = entries.iter().copied().unzip();
    let pack = Owned::new(Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.set(Name::CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, Type::CUDNN_TYPE_INT64, &uids)
        .set(Name::CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, Type::CUDNN_TYPE_VOID_PTR, &addresses)
        .set(Name::CUDNN_ATTR_VARIANT_PACK_WORKSPACE, Type::CUDNN_TYPE_VOID_PTR, &[workspace]);
    pack.finalize()
}

pub(super) const COMPLETE: [(i64, usize); 3] = [(1, 0x1000), (2, 0x2000), (4, 0x3000)];

pub(super) fn text_of(from: &Owned, name: Name) -> Vec<u8> {
    let count = from.get(name, Type::CUDNN_TYPE_CHAR, &mut [] as &mut [u8]);
    let mut room = vec![0_u8; count as usize];
    assert_eq!(from.get(name, Type::CUDNN_TYPE_CHAR, &mut room), count);
    room
}

#[test]
fn a_plan_executes_and_wrong_packs_have_their_status() {
    executed("a_plan_executes_and_wrong_packs_have_their_status", |session| {
        use Status as S;
        let plan = session.plan(&session.matmul(), |_| {});
        let mut workspace = [-1_i64];
        plan.get(Name::CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, Type::CUDNN_TYPE_INT64, &mut workspace);
        assert!(workspace[0] >= 0);
        let mut handle = [0_usize];
        let plan_of_handle = session.plan(&session.matmul(), |plan| {
            plan.set(Name::CUDNN_ATTR_EXECUTION_PLAN_HANDLE, Type::CUDNN_TYPE_HANDLE, &[session.0]);
        });
        plan_of_handle.get(Name::CUDNN_ATTR_EXECUTION_PLAN_HANDLE, Type::CUDNN_TYPE_HANDLE, &mut handle);
        assert_eq!(handle, [session.0.addr()]);
        assert_eq!(session.execute(&plan, &pack(&COMPLETE, 0x10000)), S::CUDNN_STATUS_SUCCESS, "{}", last_error());
        let launches = launches_of_any();
        assert!(launches >= 1);
        let refused = |entries: &[(i64, usize)], status: Status, text: &str| {
            assert_eq!(session.execute(&plan, &pack(entries, 0x10000)), status, "{entries:?}");
            let error = last_error();
            assert!(error.starts_with("cudnnBackendExecute: ") && error.contains(text), "{error}");
        };
        refused(&COMPLETE[..2], S::CUDNN_STATUS_BAD_PARAM, "(uid 4) has no entry");
        let with_first = |address| [(1, address), COMPLETE[1], COMPLETE[2]];
        refused(&with_first(0), S::CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "(uid 1): the device pointer is null");
        refused(&with_first(0x1008), S::CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "found: address 0x1008");
        assert_eq!(launches_of_any(), launches, "nothing is launched then");
        let unfinished = Owned::new(Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
        assert_eq!(session.execute(&plan, &unfinished), S::CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
        assert_eq!(session.execute(&unfinished, &plan), S::CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
        assert_eq!(session.execute(&plan, &plan), S::CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE);
    });
}

/// The virtual tensor's, null and misaligned ones, before, between and behind those of the plan.
#[test]
fn uids_that_a_plan_does_not_know_are_passed_over() {
    executed("uids_that_a_plan_does_not_know_are_passed_over", |session| {
        use Status as S;
        let plan = session.plan(&session.matmul(), |_| {});
        let [a, b, y] = COMPLETE;
        let larger = pack(&[(9, 17), y, (3, 0x4000), a, (-1, 0), b], 0x10000);
        assert_eq!(session.execute(&plan, &larger), S::CUDNN_STATUS_SUCCESS, "{}", last_error());
        in_cuda_graph(|graph| {
            // SAFETY: the kernels do nothing; the graph is used here alone.
            unsafe {
                let status = cudnnBackendPopulateCudaGraph(session.0, plan.0, larger.0, graph);
                assert_eq!(status, S::CUDNN_STATUS_SUCCESS, "{}", last_error());
                let status = cudnnBackendUpdateCudaGraph(session.0, plan.0, larger.0, graph);
                assert_eq!(status, S::CUDNN_STATUS_SUCCESS, "{}", last_error());
            }
        });
        assert_eq!(session.execute(&plan, &pack(&[a, b, (9, 16)], 0x10000)), S::CUDNN_STATUS_BAD_PARAM);
        assert!(last_error().contains("(uid 4) has no entry"), "{}", last_error());
    });
}

#[test]
fn a_text_is_a_plan_again() {
    executed("a_text_is_a_plan_again", |session| {
        let graph = session.matmul();
        let text = text_of(&session.plan(&graph, |_| {}), Name::CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION);
        let from = |text: &[u8]| {
            let plan = Owned::new(Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
            plan.set(Name::CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, Type::CUDNN_TYPE_CHAR, text).set(
                Name::CUDNN_ATTR_EXECUTION_PLAN_HANDLE,
                Type::CUDNN_TYPE_HANDLE,
                &[session.0],
            );
            plan
        };
        let plan = from(&text).finalize();
        assert_eq!(session.execute(&plan, &pack(&COMPLETE, 0x10000)), Status::CUDNN_STATUS_SUCCESS, "{}", last_error());
        // its config answers as that of the first plan
        let name = Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG;
        let config = &got(&plan, name, Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)[0];
        let engine = &got(config, Name::CUDNN_ATTR_ENGINECFG_ENGINE, Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR)[0];
        let mut number = [-1_i64];
        engine.get(Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX, Type::CUDNN_TYPE_INT64, &mut number);
        assert_eq!(number, [0]);
        let choices = Name::CUDNN_ATTR_ENGINECFG_KNOB_CHOICES;
        assert!(got(config, choices, Kind::CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR).len() > 3);
        let mut damaged = text.clone();
        let middle = damaged.len() / 2;
        damaged[middle] ^= 1;
        let damaged = from(&damaged);
        assert_eq!(cudnnBackendFinalize(damaged.0), Status::CUDNN_STATUS_BAD_PARAM);
        assert!(last_error().contains("damaged"));
    });
}

#[test]
fn a_plan_without_a_handle_is_loaded_by_its_first_execution() {
    executed("a_plan_without_a_handle_is_loaded_by_its_first_execution", |session| {
        let properties = Owned::new(Kind::CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
        properties.set(Name::CUDNN_ATTR_DEVICEPROP_DEVICE_ID, Type::CUDNN_TYPE_INT32, &[0_i32]);
        let properties = properties.finalize();
        let graph = matmul_relu(HALF);
        let heuristics = Owned::new(Kind::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
        heuristics
            .refer(Name::CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, &graph)
            .refer(Name::CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, &properties)
            .set(Name::CUDNN_ATTR_ENGINEHEUR_MODE, Type::CUDNN_TYPE_HEUR_MODE, &[Mode::CUDNN_HEUR_MODE_A as u32]);
        let heuristics = heuristics.finalize();
        let configs = got(&heuristics, Name::CUDNN_ATTR_ENGINEHEUR_RESULTS, Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
        let plan = Owned::new(Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        plan.refer(Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, &configs[0]);
        let plan = plan.finalize();
        let pack = pack(&COMPLETE, 0x10000);
        assert_eq!(session.execute(&plan, &pack), Status::CUDNN_STATUS_SUCCESS, "{}", last_error());
        assert_eq!(session.execute(&plan, &pack), Status::CUDNN_STATUS_SUCCESS, "{}", last_error());
    });
}

#[test]
fn kernel_caches_fill_and_are_texts() {
    executed("kernel_caches_fill_and_are_texts", |session| {
        let name = Name::CUDNN_ATTR_KERNEL_CACHE_JSON_REPRESENTATION;
        let graph = session.matmul();
        let cache = |text: Option<&[u8]>| {
            let cache = Owned::new(Kind::CUDNN_BACKEND_KERNEL_CACHE_DESCRIPTOR);
            text.map(|text| cache.set(name, Type::CUDNN_TYPE_CHAR, text).0);
            cache.refer(Name::CUDNN_ATTR_KERNEL_CACHE_OPERATION_GRAPH, &graph);
            cache.finalize()
        };
        let first = cache(None);
        let empty = text_of(&first, name);
        let attribute = Name::CUDNN_ATTR_EXECUTION_PLAN_KERNEL_CACHE;
        session.plan(&graph, |plan| {
            plan.refer(attribute, &first);
        });
        let full = text_of(&first, name);
        assert!(full.len() > empty.len() + 1000);
        let second = cache(Some(&full));
        assert_eq!(text_of(&second, name), full);
        session.plan(&graph, |plan| {
            plan.refer(attribute, &second);
        });
        assert_eq!(text_of(&second, name), full);
        let broken = Owned::new(Kind::CUDNN_BACKEND_KERNEL_CACHE_DESCRIPTOR);
        broken.set(name, Type::CUDNN_TYPE_CHAR, b"{}");
        assert_eq!(cudnnBackendFinalize(broken.0), Status::CUDNN_STATUS_BAD_PARAM);
    });
}

/// Errors of the driver: memory that is not there, a launch that it refuses, and what it has done before.
#[test]
fn failures_of_the_driver_have_their_status() {
    executed("failures_of_the_driver_have_their_status", |session| {
        use Status as S;
        const OUT_OF_MEMORY: i32 = 2;
        const INVALID_VALUE: i32 = 1;
        let unfinished = |graph: &Owned| {
            let plan = Owned::new(Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
            plan.refer(Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, &session.config(graph));
            plan
        };
        let plan = unfinished(&session.matmul());
        set_in_driver("fake_module_error", OUT_OF_MEMORY);
        assert_eq!(cudnnBackendFinalize(plan.0), S::CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED);
        assert!(last_error().contains("CUDA_ERROR_OUT_OF_MEMORY"));
        set_in_driver("fake_module_error", INVALID_VALUE);
        assert_eq!(cudnnBackendFinalize(plan.0), S::CUDNN_STATUS_INTERNAL_ERROR);
        set_in_driver("fake_module_error", 0);
        assert_eq!(cudnnBackendFinalize(plan.0), S::CUDNN_STATUS_SUCCESS, "{}", last_error());

        let pack = pack(&COMPLETE, 0x10000);
        set_in_driver("fake_launch_error", INVALID_VALUE);
        assert_eq!(session.execute(&plan, &pack), S::CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER);
        // a number that no enumeration has is told by it
        set_in_driver("fake_launch_error", 12_345);
        assert_eq!(session.execute(&plan, &pack), S::CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER);
        assert!(last_error().contains("CUDA error 12345"));
        set_in_driver("fake_launch_error", 0);
        assert_eq!(session.execute(&plan, &pack), S::CUDNN_STATUS_SUCCESS, "{}", last_error());
    });
}

#[test]
fn cuda_graphs_are_filled_and_bound_anew() {
    executed("cuda_graphs_are_filled_and_bound_anew", |session| {
        use Status as S;
        let plan = session.plan(&session.matmul(), |_| {});
        let (first, second) = (pack(&COMPLETE, 0x10000), pack(&COMPLETE.map(|(uid, at)| (uid, at * 2)), 0x10000));
        // SAFETY: the kernels do nothing; the graph is used here alone.
        in_cuda_graph(|raw| unsafe {
            let mismatch = S::CUDNN_STATUS_BAD_PARAM_CUDA_GRAPH_MISMATCH;
            assert_eq!(cudnnBackendUpdateCudaGraph(session.0, plan.0, first.0, raw), mismatch);
            let status = cudnnBackendPopulateCudaGraph(session.0, plan.0, first.0, raw);
            assert_eq!(status, S::CUDNN_STATUS_SUCCESS, "{}", last_error());
            let status = cudnnBackendUpdateCudaGraph(session.0, plan.0, second.0, raw);
            assert_eq!(status, S::CUDNN_STATUS_SUCCESS, "{}", last_error());
            assert_eq!(cudnnBackendPopulateCudaGraph(session.0, plan.0, first.0, raw), mismatch);
            let null = ptr::null_mut();
            let status = cudnnBackendPopulateCudaGraph(session.0, plan.0, first.0, null);
            assert_eq!(status, S::CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
        });
    });
}

/// Does something with an empty CUDA graph.
pub(super) fn in_cuda_graph(act: impl FnOnce(*mut c_void)) {
    let mut graph: cudarc::driver::sys::CUgraph = ptr::null_mut();
    let mut context = ptr::null_mut();
    // SAFETY: a primary context of the fake driver, and a graph in it, which is destroyed once.
    unsafe {
        cuda::cuDevicePrimaryCtxRetain(&raw mut context, 0).unwrap();
        cuda::cuCtxPushCurrent_v2(context).unwrap();
        cuda::cuGraphCreate(&raw mut graph, 0).unwrap();
        act(graph.cast());
        cuda::cuGraphDestroy(graph).unwrap();
    }
}

/// What a callback was told: severity, status and text.
static TOLD: Mutex<Vec<(u32, u32, String)>> = Mutex::new(Vec::new());

/// # Safety
/// As the library calls it.
unsafe extern "C" fn tell(
    severity: RawSeverity,
    data: *mut c_void,
    debug: *const cudnnDebugStruct,
    message: *const c_char,
) {
    assert_eq!(data.addr(), 77);
    let mut lines = Vec::new();
    let mut at = message;
    // SAFETY: each line ends with a zero byte, the last one with two; the facts are valid for the call.
    let facts = unsafe {
        while *at != 0 {
            let line = CStr::from_ptr(at);
            lines.push(line.to_string_lossy().into_owned());
            at = at.add(line.count_bytes() + 1);
        }
        *debug
    };
    assert_eq!((facts.cudnn_version, facts.pid), (92_100, u64::from(std::process::id())));
    TOLD.lock().unwrap().push((severity as u32, facts.cudnnStatus as u32, lines.join("\n")));
}

#[test]
fn calls_and_tracebacks_go_to_the_callback() {
    executed("calls_and_tracebacks_go_to_the_callback", |session| {
        let data = ptr::without_provenance_mut(77);
        // SAFETY: the function takes calls from any thread.
        assert_eq!(unsafe { cudnnSetCallback(0b1110, data, Some(tell)) }, Status::CUDNN_STATUS_SUCCESS);
        let (mut mask, mut given, mut function): (c_uint, _, _) = (0, ptr::null_mut(), None);
        // SAFETY: there is room for each.
        let status = unsafe { cudnnGetCallback(&raw mut mask, &raw mut given, &raw mut function) };
        assert_eq!((status, mask, given.addr()), (Status::CUDNN_STATUS_SUCCESS, 0b1110, 77));
        assert!(function.is_some());
        let mut stream = ptr::null_mut();
        // SAFETY: there is room for one.
        assert_eq!(unsafe { cudnnGetStream(session.0, &raw mut stream) }, Status::CUDNN_STATUS_SUCCESS);
        let heuristics = heuristics(&matmul_relu(RawType::CUDNN_DATA_DOUBLE), Mode::CUDNN_HEUR_MODE_A);
        assert_ne!(cudnnBackendFinalize(heuristics.0), Status::CUDNN_STATUS_SUCCESS);
        assert_ne!(cudnnBackendFinalize(ptr::null_mut()), Status::CUDNN_STATUS_SUCCESS);
        // SAFETY: null is the default.
        assert_eq!(unsafe { cudnnSetCallback(0, ptr::null_mut(), None) }, Status::CUDNN_STATUS_SUCCESS);
        let told = std::mem::take(&mut *TOLD.lock().unwrap());
        let call = told.iter().find(|told| told.2.contains("function cudnnGetStream() called:")).expect("the call");
        assert!(call.0 == 3 && call.2.contains("handle: type=cudnnHandle_t; val=0x7fd"), "{call:?}");
        let refusal = told.iter().find(|told| told.0 == 2).expect("a warning");
        let lines: Vec<&str> = refusal.2.lines().collect();
        let first = "        Warning: CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE; Reason: surface 90: S90-DTYPE-OUTPUT at ";
        assert!(lines[1].starts_with(first), "{lines:?}");
        assert!(lines[1].contains("required: ") && lines[1].contains("; found: "), "{lines:?}");
        assert!(lines[lines.len() - 3].ends_with("Reason: cudnnBackendFinalize"), "{lines:?}");
        assert_eq!(refusal.1, Status::CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE as u32);
        let error = told.iter().find(|told| told.0 == 1).expect("an error");
        assert!(
            error.2.contains("Error: CUDNN_STATUS_BAD_PARAM_NULL_POINTER; Reason: a descriptor is null"),
            "{error:?}"
        );
        let count = TOLD.lock().unwrap().len();
        cudnnBackendFinalize(ptr::null_mut());
        assert_eq!(TOLD.lock().unwrap().len(), count, "the default says nothing here");
    });
}

#[test]
fn threads_share_plans_and_build_one() {
    executed("threads_share_plans_and_build_one", |session| {
        let address = session.0.addr();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(move || {
                    let session = std::mem::ManuallyDrop::new(Session(ptr::without_provenance_mut(address)));
                    let plan = session.plan(&session.matmul(), |_| {});
                    let pack = pack(&COMPLETE, 0x10000);
                    for _ in 0..100 {
                        assert_eq!(session.execute(&plan, &pack), Status::CUDNN_STATUS_SUCCESS, "{}", last_error());
                    }
                });
            }
        });
        let stats = handle::find(session.0).map(|handle| handle.session.stats()).ok().unwrap();
        assert_eq!((stats.compiled, stats.hits), (1, 7), "{stats:?}");
        assert!(launches_of_any() >= 800);
    });
}
