//! Graphs of hostile size: every one gets a verdict or a clear refusal within a second (five here, for slow machines),
//! without recursion over the graph.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fusewright::build::Build;
use fusewright::device::{ComputeCapability, Device};
use fusewright::engine::{self, Floor};
use fusewright::frontend::read_documents;
use fusewright::graph::{DataType, Graph, PointwiseMode, Tensor, TensorHandle};
use fusewright::support::SurfaceId;

const LIMIT: Duration = Duration::from_secs(5);

fn half() -> Graph {
    Graph::new().io_data_type(DataType::Half).intermediate_data_type(DataType::Float).compute_data_type(DataType::Float)
}

fn matrix(graph: &mut Graph, name: &str) -> TensorHandle {
    graph.tensor(Tensor::new(name).row_major([2, 32, 64]))
}

/// The surface that holds, the rules broken, or the error; on a thread with a small stack.
fn verdict(graph: Graph) -> Result<Option<SurfaceId>, String> {
    let check = move || {
        let graph = Arc::new(graph.finalize().map_err(|error| error.to_string())?);
        let decision = engine::decide(&graph, ComputeCapability::SM_90, &SurfaceId::ALL);
        match decision.report.surface() {
            Some(surface) => Ok(Some(surface)),
            None => {
                let help = engine::remedy(&graph, &decision.report).lines();
                Err(format!("{}\n{}", decision.report, help.join("\n")))
            }
        }
    };
    let start = Instant::now();
    let thread = std::thread::Builder::new().stack_size(512 << 10).spawn(check).expect("a thread starts");
    let verdict = thread.join().expect("no panic and no overflow of the stack");
    assert!(start.elapsed() < LIMIT, "{:?}", start.elapsed());
    verdict
}

/// A chain of unary operations on one matrix.
fn chain(count: usize, mode: PointwiseMode, first: impl FnOnce(&mut Graph) -> TensorHandle) -> Graph {
    let mut graph = half();
    let mut value = first(&mut graph);
    for number in 0..count {
        value = graph.pointwise(&format!("{mode} {number}"), mode, &[value]);
    }
    graph.set_output(value);
    graph
}

#[test]
fn ten_thousand_operations() {
    let graph = chain(10_000, PointwiseMode::ReluFwd, |graph| matrix(graph, "x"));
    assert_eq!(verdict(graph), Ok(Some(SurfaceId::S70)));
    let graph = chain(10_000, PointwiseMode::ReluFwd, |graph| {
        let a = graph.tensor(Tensor::new("a").row_major([2, 32, 16]));
        let b = graph.tensor(Tensor::new("b").row_major([2, 16, 64]));
        graph.matmul("mm", a, b)
    });
    assert_eq!(verdict(graph), Ok(Some(SurfaceId::S90)));
}

#[test]
fn ten_thousand_operations_that_all_break_a_rule() {
    let mut graph = half();
    let mut value = graph.tensor(Tensor::new("x").channels_last([2, 8, 4, 4]));
    let filter = graph.tensor(Tensor::new("w").channels_last([8, 8, 1, 1]));
    for number in 0..10_000 {
        let convolution = fusewright::graph::Convolution::new(fusewright::graph::ConvolutionDirection::Forward, 2);
        value = graph.convolution(&format!("conv {number}"), convolution, [value, filter]);
    }
    graph.set_output(value);
    let refusal = verdict(graph).expect_err("many cores");
    assert!(refusal.contains("PAT-ONE-CORE"), "{refusal:.300}");
}

#[test]
fn a_tensor_of_rank_nine() {
    let mut graph = half();
    let x = graph.tensor(Tensor::new("x").row_major([2; 9]));
    let y = graph.pointwise("relu", PointwiseMode::ReluFwd, &[x]);
    graph.set_output(y);
    let error = verdict(graph).expect_err("too many axes");
    assert!(error.contains("'x'") && error.contains("rank") && error.contains('9'), "{error}");
}

#[test]
fn one_tensor_read_five_thousand_times() {
    let mut graph = half();
    let x = matrix(&mut graph, "x");
    let mut sum = graph.pointwise("first", PointwiseMode::Add, &[x, x]);
    for number in 0..5_000 {
        sum = graph.pointwise(&format!("add {number}"), PointwiseMode::Add, &[sum, x]);
    }
    graph.set_output(sum);
    assert_eq!(verdict(graph), Ok(Some(SurfaceId::S70)));
    let mut graph = half();
    let x = matrix(&mut graph, "x");
    for number in 0..5_000 {
        let y = graph.pointwise(&format!("relu {number}"), PointwiseMode::ReluFwd, &[x]);
        graph.set_output(y);
    }
    assert_eq!(verdict(graph), Ok(Some(SurfaceId::S70)));
}

#[test]
fn extents_and_strides_near_the_largest_integer() {
    for extent in [i64::MAX, i64::MAX - 1, i64::MAX / 2, i64::MIN, -1, 0] {
        let mut graph = half();
        let x = graph.tensor(Tensor::new("x").dim([1, extent, 2]).stride([2, 2, 1]));
        let y = graph.pointwise("relu", PointwiseMode::ReluFwd, &[x]);
        graph.set_output(y);
        let error = verdict(graph).expect_err("no memory holds it");
        assert!(error.contains("'x'"), "{error}");
    }
    for stride in [i64::MAX, i64::MAX - 7, 1 << 62] {
        let mut graph = half();
        let a = graph.tensor(Tensor::new("a").dim([2, 32, 16]).stride([stride, 17, 1]));
        let b = graph.tensor(Tensor::new("b").row_major([2, 16, 64]));
        let c = graph.matmul("mm", a, b);
        graph.set_output(c);
        // A verdict or an error: the strides are looked at without overflow.
        let _ = verdict(graph);
    }
}

/// Everything up to the source, which may refuse the graph or not, but does not overflow.
fn goes_all_the_way(graph: Graph) -> bool {
    let build = move || {
        let graph = Arc::new(graph.finalize().ok()?);
        let selection = engine::select(&graph, ComputeCapability::SM_90).ok()?;
        let device = Device::typical(ComputeCapability::SM_90);
        let _ = Floor::of(&graph).seconds(&device, engine::core_type(&graph));
        Build::first(&selection, &device).ok()
    };
    let thread = std::thread::Builder::new().stack_size(8 << 20).spawn(build).expect("a thread starts");
    thread.join().expect("no panic and no overflow of the stack").is_some()
}

#[test]
fn extents_whose_products_overflow() {
    let mut accepted = 0;
    // Powers of two: batch, rows, columns and depth of a product; the last ones are beyond what 63 bits hold.
    for [batch, m, n, k] in [
        [0, 31, 26, 26],
        [0, 30, 3, 28],
        [29, 14, 14, 14],
        [15, 3, 20, 40],
        [15, 20, 20, 20],
        [56, 1, 1, 1],
        [3, 29, 26, 29],
        [31, 31, 31, 31],
        [62, 62, 62, 62],
        [20, 20, 21, 3],
        [57, 3, 3, 3],
    ] {
        let mut graph = half();
        let a = graph.tensor(Tensor::new("a").row_major([1i64 << batch, 1 << m, 1 << k]));
        let b = graph.tensor(Tensor::new("b").row_major([1i64 << batch, 1 << k, 1 << n]));
        let c = graph.matmul("mm", a, b);
        let y = graph.pointwise("relu", PointwiseMode::ReluFwd, &[c]);
        graph.set_output(y);
        accepted += usize::from(goes_all_the_way(graph));
    }
    assert!((1..11).contains(&accepted), "{accepted} of 11");
    for extents in [[1 << 31, 1 << 26, 1], [1 << 21, 1 << 21, 1 << 21], [1 << 56, 1, 1], [3, (1 << 56) - 1, 1]] {
        let mut graph = half();
        let x = graph.tensor(Tensor::new("x").row_major(extents));
        let y = graph.pointwise("relu", PointwiseMode::ReluFwd, &[x]);
        graph.set_output(y);
        goes_all_the_way(graph);
    }
}

#[test]
fn windows_strides_and_paddings_that_overflow() {
    use fusewright::graph::{Convolution, ConvolutionDirection::Forward};
    for value in [i64::MAX, i64::MAX / 2, 1 << 62, 1 << 32, i64::MIN, -1] {
        let change: [fn(&mut Convolution, i64); 4] = [
            |convolution, value| convolution.pre_padding = vec![value; 2],
            |convolution, value| convolution.post_padding = vec![value; 2],
            |convolution, value| convolution.stride = vec![value; 2],
            |convolution, value| convolution.dilation = vec![value; 2],
        ];
        for change in change {
            let mut graph = half();
            let x = graph.tensor(Tensor::new("x").channels_last([1, 8, 4, 4]));
            let w = graph.tensor(Tensor::new("w").channels_last([8, 8, 3, 3]));
            let mut convolution = Convolution::new(Forward, 2);
            change(&mut convolution, value);
            let y = graph.convolution("conv", convolution, [x, w]);
            graph.set_output(y);
            goes_all_the_way(graph);
        }
    }
}

#[test]
fn a_million_operations_are_refused_at_once() {
    let graph = chain(1_000_000, PointwiseMode::ReluFwd, |graph| matrix(graph, "x"));
    let error = verdict(graph).expect_err("too many operations");
    assert!(error.contains("1000000 operations; at most 65536 are read [GR-NODES]"), "{error}");
}

#[test]
fn sixty_nested_logarithms() {
    let graph = chain(60, PointwiseMode::Log, |graph| matrix(graph, "x"));
    assert_eq!(verdict(graph), Ok(Some(SurfaceId::S70)));
}

#[test]
fn sixty_nested_log_files() {
    let inner = r#"{"context":{"io_data_type":"HALF"},"nodes":[],"tensors":[]}"#.to_owned();
    let nested = (0..60).fold(inner, |inner, depth| {
        let text = serde_json::to_string(&inner).expect("a string");
        // Every escape doubles: what would not fit in memory is left out.
        if text.len() > 1 << 20 { inner } else { format!("[cudnn_frontend] log {depth} {{\"message\": {text}}}") }
    });
    let objects = (0..60).fold(String::from("1"), |inner, depth| format!("{{\"log {depth}\": [{inner}]}}"));
    let mut lines = String::new();
    for depth in 0..60 {
        writeln!(lines, "{}{{\"nodes\": [", "[cudnn_frontend] {\"graph\": ".repeat(depth)).expect("a string");
    }
    for text in [nested, objects, lines, "[".repeat(1 << 20), "{\"nodes\":".repeat(1 << 17)] {
        let start = Instant::now();
        let documents = read_documents("hostile.log", text.as_bytes()).documents;
        assert!(
            !documents.is_empty() && documents.iter().all(|document| document.result.is_err() || document.number > 0)
        );
        assert!(start.elapsed() < LIMIT, "{:?} for {:.60}", start.elapsed(), text);
    }
}
