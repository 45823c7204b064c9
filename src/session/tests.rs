//! Sessions without a GPU: answers, binaries, texts; plans on the fake driver.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::identity::graph_digest;
use super::text::PlanText;
use super::*;
use crate::build::Build;
use crate::compile::sealed;
use crate::compile::testing::nvrtc_or_skip;
use crate::compile::{Bundle, Nvrtc, Origin};
use crate::device::ComputeCapability;
use crate::engine::Knob;
use crate::frontend::{read_graph, write_v2};
use crate::graph::{DataType, Graph, PointwiseMode, Scalar, Tensor};
use crate::plan::tests::{launches_of_any, loaded_modules, on_driver_without_kernels};
use crate::plan::{DevicePointer, Stream, VariantPack, WORKSPACE_ALIGNMENT, Workspace};

/// relu(A·B) of [1, 64, 64] tensors, whose first uid is given.
fn matmul(uid: i64) -> Arc<FinalizedGraph> {
    let mut graph = Graph::new().io_data_type(DataType::Half).intermediate_data_type(DataType::Float);
    graph = graph.compute_data_type(DataType::Float);
    let a = graph.tensor(Tensor::new("A").uid(uid).row_major([1, 64, 64]));
    let b = graph.tensor(Tensor::new("B").uid(uid + 1).row_major([1, 64, 64]));
    let c = graph.matmul("mm", a, b);
    let y = graph.pointwise("relu", PointwiseMode::ReluFwd, &[c]);
    graph.set_output(y).uid = Some(uid + 2);
    Arc::new(graph.finalize().unwrap())
}

fn refused() -> Arc<FinalizedGraph> {
    let mut graph = Graph::new().io_data_type(DataType::Double).compute_data_type(DataType::Double);
    let x = graph.tensor(Tensor::new("x").row_major([1, 8, 8]));
    let y = graph.pointwise("relu", PointwiseMode::ReluFwd, &[x]);
    graph.set_output(y);
    Arc::new(graph.finalize().unwrap())
}

fn hopper() -> Device {
    Device::typical(ComputeCapability::SM_90)
}

fn options(cache: Cache) -> SessionOptions {
    SessionOptions { compiler: Arc::new(Compiler::new(cache, Options::default())), ..SessionOptions::default() }
}

fn without_gpu() -> Session {
    Session::without_gpu(hopper(), options(Cache::memory_only()))
}

fn has_nvrtc() -> bool {
    nvrtc_or_skip(|| Nvrtc::load_for(ComputeCapability::SM_90)).is_some()
}

fn compiled(session: &Session, graph: &Arc<FinalizedGraph>) -> Binary {
    let selection = session.check(graph).unwrap();
    session.compile(&selection, &session.config(&selection).unwrap(), None).unwrap()
}

#[test]
fn whatever_a_plan_is_bound_by_tells_graphs_apart() {
    let scaled = |value, name: &str| {
        let mut graph = Graph::new().io_data_type(DataType::Float).compute_data_type(DataType::Float);
        let x = graph.tensor(Tensor::new(name).uid(1).row_major([1, 8, 8]));
        let scale = graph.tensor(Tensor::scalar("scale", DataType::Float, value).uid(2));
        let y = graph.pointwise("mul", PointwiseMode::Mul, &[x, scale]);
        graph.set_output(y).uid = Some(3);
        graph_digest(&graph.finalize().unwrap())
    };
    let base = scaled(Scalar::Float(2.0), "x");
    assert_eq!(scaled(Scalar::Float(2.0), "x"), base);
    assert_ne!(scaled(Scalar::Float(3.0), "x"), base);
    assert_ne!(scaled(Scalar::Float(2.0), "z"), base);
    assert_eq!(matmul(1).key(), matmul(5).key());
    assert_ne!(graph_digest(&matmul(1)), graph_digest(&matmul(5)));
}

#[test]
fn verdicts_are_kept_refusals_too() {
    let session = without_gpu();
    for _ in 0..2 {
        assert_eq!(session.check(&matmul(1)).unwrap().engine().name(), "warpgroup_mma");
        let error = session.check(&refused()).unwrap_err();
        assert!(matches!(&error, Error::NotSupported(cause) if cause.to_string().contains("DOUBLE")), "{error}");
    }
    let stats = session.stats();
    assert_eq!((stats.checks, stats.check_hits), (4, 2));
    let error = session.plan(&matmul(1)).unwrap_err();
    assert!(matches!(&error, Error::Environment { message, .. } if message.contains("has no GPU")), "{error}");
    assert_eq!(session.stats().failed, 1);
    let small = Device { shared_bytes_per_block: 1, ..hopper() };
    let small = Session::without_gpu(small, options(Cache::memory_only()));
    let error = small.config(&session.check(&matmul(1)).unwrap()).unwrap_err();
    assert!(
        matches!(&error, Error::NotSupported(cause) if cause.to_string().contains("1 bytes of shared memory")),
        "{error}"
    );
}

#[test]
fn a_session_may_take_all_shapes_for_dynamic() {
    let rows = |rows: i64| {
        let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
        let a = graph.tensor(Tensor::new("a").row_major([1, rows, 256]));
        let b = graph.tensor(Tensor::new("b").dim([1, 256, 512]).stride([131_072, 1, 256]));
        let c = graph.matmul("matmul", a, b);
        graph.set_output(c);
        Arc::new(graph.finalize().unwrap())
    };
    let texts = |has_dynamic_shapes: bool| {
        let options = SessionOptions { has_dynamic_shapes, ..options(Cache::memory_only()) };
        let session = Session::without_gpu(hopper(), options);
        let text = |graph: Arc<FinalizedGraph>| {
            let selection = session.check(&graph).unwrap();
            assert_eq!(selection.supported().graph().is_dynamic(), has_dynamic_shapes);
            let config = session.config(&selection).unwrap();
            Build::new(&selection, config, session.device()).unwrap().source.text
        };
        [300, 301, 320].map(|count| text(rows(count))).into_iter().collect::<BTreeSet<_>>().len()
    };
    assert_eq!((texts(true), texts(false)), (1, 3));
}

/// What is written of a graph gives the same plan: of every graph of the suite.
#[test]
fn graphs_of_plan_texts_are_the_graphs() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/suite");
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let name = path.display().to_string();
        let graph = Arc::new(read_graph(&name, &fs::read(&path).unwrap()).unwrap().finalize().unwrap());
        let again = read_graph(&name, write_v2(&graph.to_graph()).as_bytes()).unwrap().finalize().unwrap();
        assert_eq!(graph_digest(&again), graph_digest(&graph), "{name}");
        count += 1;
    }
    assert_eq!(count, 55);
}

/// Reads a text; those that are changed are refused, or none of their machine code runs.
fn read(text: &str, device: &Device) -> Result<Binary, Error> {
    // SAFETY: nothing is executed.
    unsafe { Binary::from_json(text, device) }
}

#[test]
fn a_binary_is_read_back_as_it_was() {
    if !has_nvrtc() {
        return;
    }
    let binary = compiled(&without_gpu(), &matmul(1));
    let text = binary.to_json();
    assert!(text.is_ascii());
    let again = read(&text, &hopper()).unwrap();
    assert_eq!(again.cubin(), binary.cubin());
    assert_eq!(again.source().text, binary.source().text);
    assert_eq!(again.config(), binary.config());
    assert_eq!(graph_digest(again.graph()), graph_digest(binary.graph()));
    assert_eq!(again.to_json(), text);
}

#[test]
fn texts_that_do_not_fit_are_refused_with_a_reason() {
    if !has_nvrtc() {
        return;
    }
    let text = compiled(&without_gpu(), &matmul(1)).to_json();
    let refused = |text: &str, device: Device, expected: &str| {
        let error = read(text, &device).unwrap_err();
        assert!(error.exit_code() == 2 && error.to_string().contains(expected), "{error}");
    };
    refused(&text, Device::typical(ComputeCapability::new(8, 0)), "found: made for H200 (sm_90, 132 multiprocessors");
    refused(&text, Device { sm_count: 114, ..hopper() }, "required: made for H200 (sm_90, 114 multiprocessors");
    refused("", hopper(), "is no fusewright plan");
    refused(&text[..text.len() / 2], hopper(), "is no fusewright plan");
    refused(&text.replace("\"version\":2", "\"version\":3"), hopper(), "found: form 3 of fusewright");
    refused(&text.replace("fusewright\":\"0", "fusewright\":\"7"), hopper(), "of fusewright 7.1.0");
    refused(&KernelCache::new().to_json(), hopper(), "found: 'fusewright kernel cache'");
    // every byte of the content counts
    for position in (text.find("content").unwrap() + 12..text.len() - 1).step_by(text.len() / 300) {
        let mut bytes = text.clone().into_bytes();
        bytes[position] = if bytes[position] == b'A' { b'B' } else { b'A' };
        let Ok(changed) = String::from_utf8(bytes) else { continue };
        let error = read(&changed, &hopper()).unwrap_err().to_string();
        assert!(error.contains("damaged") || error.contains("is no fusewright plan"), "{position}: {error}");
    }
}

/// Kernels are right for what engines offer: anything else could write where it should not.
#[test]
fn configs_that_are_not_offered_are_refused() {
    on_driver_without_kernels("session::tests::configs_that_are_not_offered_are_refused", || {
        let session = Session::open(0, options(Cache::memory_only())).unwrap();
        refuses_configs_that_are_not_offered(&session);
    });
}

fn refuses_configs_that_are_not_offered(session: &Session) {
    let selection = session.check(&matmul(1)).unwrap();
    let offered = session.config(&selection).unwrap();
    let mut others = vec![EngineConfig { engine: "scalar", ..offered.clone() }];
    for position in 0..offered.knobs.len() {
        let mut other = offered.clone();
        other.knobs[position].1 += 1000;
        others.push(other);
    }
    for other in others {
        let compiled = session.compile(&selection, &other, None).map(drop);
        for error in [compiled.unwrap_err(), session.plan_with(&selection, &other).map(drop).unwrap_err()] {
            assert!(error.to_string().contains("does not offer") && error.exit_code() == 2, "{other}: {error}");
        }
    }
}

#[test]
fn a_kernel_cache_serves_without_a_compiler() {
    if !has_nvrtc() {
        return;
    }
    let kernels = KernelCache::new();
    let session = without_gpu();
    let selection = session.check(&matmul(1)).unwrap();
    let config = session.config(&selection).unwrap();
    let device = hopper();
    let build = |kernels: &KernelCache, compiler: &Compiler| {
        Binary::build(&selection, &config, &device, compiler, Some(kernels)).unwrap().1
    };
    let compiler = || Compiler::new(Cache::memory_only(), Options::default());
    assert_eq!(build(&kernels, &compiler()), Origin::Compiled);
    assert_eq!(build(&kernels, &compiler()), Origin::Memory);
    // SAFETY: the text was written just now.
    let again = unsafe { KernelCache::from_json(&kernels.to_json()) }.unwrap();
    assert_eq!((again.len(), kernels.is_empty()), (1, false));
    assert_eq!(build(&again, &compiler()), Origin::Memory);
    assert_eq!(again.to_json(), kernels.to_json());
    // SAFETY: nothing is in the text.
    let error = unsafe { KernelCache::from_json("{}") }.unwrap_err();
    assert!(error.to_string().starts_with("kernel cache: is no fusewright kernel cache"), "{error}");
}

#[test]
fn a_bundle_serves_without_a_compiler_and_says_of_which_config() {
    on_driver_without_kernels("session::tests::a_bundle_serves_without_a_compiler_and_says_of_which_config", || {
        if !has_nvrtc() {
            return;
        }
        let graph = matmul(1);
        let first = Session::open(0, options(Cache::memory_only())).unwrap();
        let (selection, device) = (first.check(&graph).unwrap(), first.device());
        let second = selection.candidates(device).swap_remove(1).config;
        assert_ne!(first.config(&selection).unwrap(), second);
        let build = Build::new(&selection, second.clone(), device).unwrap();
        let compiler = Compiler::new(Cache::memory_only(), Options::default());
        let mut bundle = Bundle::new();
        bundle.put(&build.request(), device, build.compile(&compiler).unwrap().cubin);
        // SAFETY: the text was written just now.
        let bundle = Arc::new(unsafe { Bundle::from_json(&bundle.to_json()) }.unwrap());
        for uses_tuning in [true, false] {
            let cache = Cache::memory_only().with_bundles(vec![Arc::clone(&bundle)]);
            let session = Session::open(0, SessionOptions { uses_tuning, ..options(cache) }).unwrap();
            assert_eq!(session.plan(&graph).unwrap().binary().config(), &second);
            let stats = session.stats();
            assert_eq!((stats.from_bundle, stats.misses(), stats.compiled), (1, 1, 0));
        }
    });
}

#[test]
fn threads_that_want_one_plan_compile_once() {
    on_driver_without_kernels("session::tests::threads_that_want_one_plan_compile_once", || {
        if !has_nvrtc() {
            return;
        }
        let session = Session::open(0, options(Cache::memory_only())).unwrap();
        let graph = matmul(1);
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..16).map(|_| scope.spawn(|| session.plan(&graph).unwrap())).collect();
            let plans: Vec<Arc<Plan>> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
            assert!(plans.iter().all(|plan| Arc::ptr_eq(plan, &plans[0])));
        });
        let stats = session.stats();
        assert_eq!((stats.compiled, stats.hits, stats.misses(), stats.plans), (1, 15, 1, 1));
        assert!(stats.build_ms > 0.0 && stats.longest_build_ms == stats.build_ms, "{stats:?}");
        // other uids: another plan of the same kernel
        session.plan(&matmul(10)).unwrap();
        let stats = session.stats();
        assert_eq!((stats.compiled, stats.from_memory, stats.plans), (1, 1, 2), "{stats:?}");
        session.clear();
        session.plan(&graph).unwrap();
        let stats = session.stats();
        assert_eq!((stats.compiled, stats.from_memory, stats.plans), (1, 2, 1), "{stats:?}");
    });
}

/// One binary, loaded once, whose plans are found again by their shapes.
#[test]
fn plans_in_other_shapes_share_a_module() {
    on_driver_without_kernels("session::tests::plans_in_other_shapes_share_a_module", || {
        if !has_nvrtc() {
            return;
        }
        let session = Session::open(0, options(Cache::memory_only())).unwrap();
        let mut graph =
            Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float).with_dynamic_shapes();
        let a = graph.tensor(Tensor::new("a").row_major([1, 320, 256]).uid(1));
        let b = graph.tensor(Tensor::new("b").dim([1, 256, 512]).stride([131_072, 1, 256]).uid(2));
        let c = graph.matmul("matmul", a, b);
        graph.tensor_mut(c).uid = Some(3);
        graph.set_output(c);
        let plan = session.plan(&Arc::new(graph.finalize().unwrap())).unwrap();
        let rows = |uid, rows: i64, width: i64| TensorShape {
            uid,
            dim: vec![1, rows, width],
            stride: vec![rows * width, width, 1],
        };
        let shapes = |count: i64| [rows(1, count, 256), rows(3, count, 512)];
        for count in [300, 301, 512] {
            let other = session.plan_in_shapes(&plan, &shapes(count)).unwrap();
            assert_eq!(other.binary().config(), plan.binary().config(), "{count} rows");
            assert_eq!(other.binary().graph().tensors().map(|tensor| tensor.dim[1]).max(), Some(count.max(256)));
            assert!(Arc::ptr_eq(&other, &session.plan_in_shapes(&plan, &shapes(count)).unwrap()), "{count} rows");
        }
        let stats = session.stats();
        assert_eq!((stats.compiled, stats.from_memory, stats.hits, stats.plans), (1, 3, 3, 4), "{stats:?}");
        // threads that race for shapes, of which some are the same
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (session, plan, shapes) = (&session, &plan, &shapes);
                scope.spawn(move || {
                    for count in 0..16 {
                        session.plan_in_shapes(plan, &shapes(330 + (count * (1 + thread % 3)) % 16)).unwrap();
                    }
                });
            }
        });
        let stats = session.stats();
        assert_eq!((stats.compiled, stats.failed, stats.plans), (1, 0, 20), "{stats:?}");
        assert_eq!(loaded_modules(), 1);
        session.clear();
        drop(plan);
        assert_eq!(loaded_modules(), 0, "the last plan's end is the module's");
    });
}

/// The first execution has small tiles, later ones the best; where that is in memory, all have it.
#[test]
fn a_quick_plan_is_taken_over_by_the_best() {
    on_driver_without_kernels("session::tests::a_quick_plan_is_taken_over_by_the_best", || {
        if !has_nvrtc() {
            return;
        }
        let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
        let a = graph.tensor(Tensor::new("a").row_major([1, 4096, 4096]).uid(1));
        let b = graph.tensor(Tensor::new("b").row_major([1, 4096, 4096]).uid(2));
        let c = graph.matmul("matmul", a, b);
        graph.tensor_mut(c).uid = Some(3);
        graph.set_output(c);
        let graph = Arc::new(graph.finalize().unwrap());
        let session = Arc::new(Session::open(0, options(Cache::memory_only())).unwrap());
        let best = session.config(&session.check(&graph).unwrap()).unwrap();
        let plan = session.plan_quick(&graph).unwrap();
        let quick = Arc::clone(plan.current());
        let tile = |config: &EngineConfig| config.knob(Knob::TileM, 0) * config.knob(Knob::TileN, 0);
        // the best may have been there sooner than this thread looked
        assert!(*quick.binary().config() == best || 2 * tile(quick.binary().config()) <= tile(&best));
        while !plan.is_settled() {
            std::thread::yield_now();
        }
        assert_eq!(*plan.current().binary().config(), best);
        assert!(plan.workspace_bytes() >= quick.workspace_bytes().max(plan.current().workspace_bytes()));
        let again = session.plan_quick(&graph).unwrap();
        assert!(again.is_settled() && Arc::ptr_eq(again.current(), plan.current()), "it is in memory");
        assert_eq!(session.stats().compiled, 2, "{:?}", session.stats());
    });
}

#[test]
fn a_plan_that_is_loaded_from_a_text_executes() {
    on_driver_without_kernels("session::tests::a_plan_that_is_loaded_from_a_text_executes", || {
        if !has_nvrtc() {
            return;
        }
        let device = Session::open(0, options(Cache::memory_only())).unwrap().device().clone();
        let apart = Session::without_gpu(Device::clone(&device), options(Cache::memory_only()));
        let text = compiled(&apart, &matmul(1)).to_json();
        // a compiler that finds nothing: nothing is compiled
        let session = Session::open(0, options(Cache::memory_only())).unwrap();
        // SAFETY: the text was written just now.
        let plan = unsafe { session.load(&text) }.unwrap();
        let context = session.context().unwrap();
        let buffer = crate::plan::DeviceBuffer::new(context, 1 << 20, WORKSPACE_ALIGNMENT).unwrap();
        let mut pack = VariantPack::new();
        for uid in 1..=3 {
            pack.set_pointer(uid, buffer.pointer());
        }
        let stream = Stream::new(context).unwrap();
        let workspace = Workspace { pointer: buffer.pointer(), bytes: 1 << 20 };
        // SAFETY: the fake driver's kernels touch no memory.
        let execute = |pack: &VariantPack| unsafe { plan.execute(pack, workspace, &stream) };
        execute(&pack).unwrap();
        assert!(launches_of_any() >= 1);
        pack.set_pointer(2, DevicePointer::NULL);
        assert!(execute(&pack).unwrap_err().to_string().contains("'B' (uid 2)"));
        assert_eq!(session.stats().compiled, 0);
        // of another version: the form, or an engine that had another name
        let older = text.replacen("\"version\":2", "\"version\":0", 1);
        let renamed = sealed::seal(&PlanText {
            device: Device::clone(&device),
            config: "surface90 tile_m=128 stages=4".to_owned(),
            graph: write_v2(&matmul(1).to_graph()),
            source: sealed::hash("another"),
            cubin: plan.binary().cubin().as_ref().clone(),
        });
        for text in [older, renamed] {
            // SAFETY: as above.
            let anew = unsafe { session.load(&text) }.unwrap();
            assert_eq!((anew.binary().config(), session.stats().compiled), (plan.binary().config(), 1));
        }
    });
}

#[test]
fn plans_are_built_in_the_background_and_from_folders() {
    on_driver_without_kernels("session::tests::plans_are_built_in_the_background_and_from_folders", || {
        if !has_nvrtc() {
            return;
        }
        let session = Arc::new(Session::open(0, options(Cache::memory_only())).unwrap());
        let mut pending = session.plan_async(&matmul(1));
        while !pending.is_ready() {
            std::thread::yield_now();
        }
        assert!(pending.is_ready(), "what was asked for once is still there");
        let plan = pending.wait().unwrap();
        assert!(Arc::ptr_eq(&plan, &session.plan(&matmul(1)).unwrap()));
        assert!(session.plan_async(&refused()).wait().is_err());

        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("a.json", &write_v2(&matmul(1).to_graph()));
        write("b.json", &write_v2(&matmul(7).to_graph()));
        write("c.json", &write_v2(&refused().to_graph()));
        write("d.json", "{ no graph");
        let seen = std::sync::atomic::AtomicUsize::new(0);
        let warmed = session.warm(folder.path(), |_| {
            seen.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        });
        let warmed = warmed.unwrap();
        assert_eq!((warmed.plans, warmed.failures.len(), seen.into_inner()), (2, 2, 4));
        let places: Vec<&str> = warmed.failures.iter().map(|step| step.place.as_str()).collect();
        assert!(places[0].contains("c.json: graph 1") && places[1].contains("d.json"), "{places:?}");
        assert!(warmed.failures.iter().all(|step| step.error.is_some()));
        let error = session.warm(&folder.path().join("none"), |_| {}).unwrap_err();
        assert!(error.to_string().contains("none: cannot be read"), "{error}");
    });
}
