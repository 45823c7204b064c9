//! Templates against their records: what a template reads is what its record gives.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use serde::Serialize;
use serde_json::Value;

use super::body;
use crate::codegen::Source;
use crate::device::{ComputeCapability, Device};
use crate::engine;
use crate::frontend::DocumentReader;
use crate::graph::{
    Attributes, Convolution, ConvolutionDirection, DataType, FinalizedGraph, Graph, NormBackward, NormForward,
    NormMode, NormPhase, Operation, PointwiseMode, Port, ReductionMode, Scalar, Signal, SignalMode, Tensor,
};

thread_local! {
    /// The fields of the records that templates have been rendered with, while somebody asks.
    static NOTED: RefCell<Option<BTreeMap<&'static str, BTreeSet<String>>>> = const { RefCell::new(None) };
}

/// Takes note of a record.
pub(super) fn note<T: Serialize>(name: &'static str, record: &T) {
    NOTED.with_borrow_mut(|noted| {
        if let Some(noted) = noted {
            let value = serde_json::to_value(record).expect("records are plain");
            fields(&value, "", noted.entry(name).or_default());
        }
    });
}

/// `a.b` for a field of a field, `a[]` for an element of a list.
fn fields(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                found.insert(path.clone());
                fields(value, &path, found);
            }
        }
        Value::Array(list) => list.iter().for_each(|value| fields(value, &format!("{path}[]"), found)),
        _ => {}
    }
}

/// The fields that a template reads.
fn reads(text: &str) -> BTreeSet<String> {
    let mut read = BTreeSet::new();
    let mut loops: Vec<(String, String)> = Vec::new();
    let mut rest = body(text);
    while let Some(start) = rest.find(['$', '<']) {
        rest = &rest[start..];
        let (tag, end) = match () {
            () if rest.starts_with("${") => ("${", "}$"),
            () if rest.starts_with("<%") => ("<%", "%>"),
            () => {
                rest = &rest[1..];
                continue;
            }
        };
        let (inside, after) = rest[tag.len()..].split_once(end).expect("tags end");
        rest = after;
        let words = words(inside.trim_matches('-'));
        match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["for", name, "in", list] => {
                let list = resolved(list, &loops);
                read.insert(list.clone());
                loops.push((name.to_owned(), format!("{list}[]")));
            }
            ["endfor"] => drop(loops.pop()),
            _ => read.extend(words.iter().filter(|word| is_path(word)).map(|word| resolved(word, &loops))),
        }
    }
    read
}

/// Words, numbers and paths of a tag; a path may have indices.
fn words(tag: &str) -> Vec<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '[' | ']');
    tag.split(|c| !is_part(c)).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

fn is_path(word: &str) -> bool {
    const KEYWORDS: [&str; 8] = ["if", "elif", "else", "endif", "not", "and", "or", "in"];
    !KEYWORDS.contains(&word) && !word.starts_with("loop.") && !word.starts_with(|c: char| c.is_ascii_digit())
}

/// A path from the record on, with `[]` for every index.
fn resolved(word: &str, loops: &[(String, String)]) -> String {
    let mut path = String::new();
    for (number, part) in word.split('.').enumerate() {
        let (name, index) = part.split_once('[').map_or((part, ""), |(name, _)| (name, "[]"));
        let variable = loops.iter().rev().find(|(variable, _)| number == 0 && variable == name);
        match variable {
            Some((_, list)) => path += list,
            None if number == 0 => path += name,
            None => path = format!("{path}.{name}"),
        }
        path += index;
    }
    path
}

/// `y = −x`, and a flag that is set then, which neither the suite nor the recorded graphs have.
fn with_a_signal() -> FinalizedGraph {
    let mut graph = Graph::new()
        .io_data_type(DataType::Float)
        .intermediate_data_type(DataType::Float)
        .compute_data_type(DataType::Float);
    let x = graph.tensor(Tensor::new("x").row_major([2, 8, 16]));
    let flag = graph.tensor(Tensor::new("flag").row_major([1, 1, 1]).data_type(DataType::Int32));
    let negated = graph.pointwise("neg", PointwiseMode::Neg, &[x]);
    let y = graph.tensor(Tensor::new("y").data_type(DataType::Float));
    graph.operation(Operation {
        name: "set".to_owned(),
        attributes: Attributes::Signal(Signal { mode: SignalMode::Set, value: 1 }),
        inputs: vec![(Port::X, negated), (Port::FLAG, flag)],
        outputs: vec![(Port::Y, y)],
        compute_data_type: None,
    });
    graph.set_output(y);
    graph.finalize().expect("well formed")
}

/// The gradient of a norm of rows, and what follows an average of its own rows.
fn with_averages_beside_a_gradient() -> FinalizedGraph {
    let mut graph = Graph::new()
        .io_data_type(DataType::Half)
        .intermediate_data_type(DataType::Float)
        .compute_data_type(DataType::Float);
    let [x, dy] = ["x", "dy"].map(|name| graph.tensor(Tensor::new(name).row_major([64, 512])));
    let scale = graph.tensor(Tensor::new("scale").row_major([1, 512]));
    let inverse = graph.tensor(Tensor::new("inverse").row_major([64, 1]).data_type(DataType::Float));
    let inputs = [(Port::DY, dy), (Port::X, x), (Port::SCALE, scale), (Port::INV_VARIANCE, inverse)];
    let gradient = NormBackward { mode: NormMode::Rms };
    let gradients = graph.composite("gradient", gradient, &inputs, &[Port::DX, Port::DSCALE]);
    let average = graph.reduction("average", ReductionMode::Avg, gradients[0], [64, 1]);
    let scaled = graph.pointwise("scaled", PointwiseMode::Mul, &[average, inverse]);
    for id in gradients.into_iter().chain([scaled]) {
        graph.set_output(id);
    }
    graph.finalize().expect("well formed")
}

/// A norm whose blocks have channels, of images that clusters of them share: each channel is a set, or groups are.
fn with_channels(mode: NormMode, dim: [i64; 4]) -> FinalizedGraph {
    let mut graph = Graph::new()
        .io_data_type(DataType::Half)
        .intermediate_data_type(DataType::Float)
        .compute_data_type(DataType::Float);
    let mut inputs = vec![(Port::X, graph.tensor(Tensor::new("x").channels_last(dim)))];
    for port in [Port::SCALE, Port::BIAS] {
        inputs.push((port, graph.tensor(Tensor::new(port.0).channels_last([1, dim[1], 1, 1]))));
    }
    let epsilon = Tensor::scalar("epsilon", DataType::Float, Scalar::Float(1e-5));
    inputs.push((Port::EPSILON, graph.tensor(Tensor { dim: vec![1; 4], stride: vec![1; 4], ..epsilon })));
    let norm = NormForward::new(mode, NormPhase::Training);
    let results = graph.composite("norm", norm, &inputs, &[Port::Y, Port::MEAN, Port::INV_VARIANCE]);
    for (id, data_type) in results.into_iter().zip([DataType::Half, DataType::Float, DataType::Float]) {
        graph.set_output(id).data_type = Some(data_type);
    }
    graph.finalize().expect("well formed")
}

/// A batch norm over the images of two GPUs, which the suite has not.
fn with_peers() -> FinalizedGraph {
    let mut graph = Graph::new().io_data_type(DataType::Float).compute_data_type(DataType::Float);
    let [x, dy] = ["x", "dy"].map(|name| graph.tensor(Tensor::new(name).channels_last([2, 8, 4, 4])));
    let mut inputs = vec![(Port::DY, dy), (Port::X, x)];
    for port in [Port::SCALE, Port::MEAN, Port::INV_VARIANCE] {
        inputs.push((port, graph.tensor(Tensor::new(port.0).channels_last([1, 8, 1, 1]))));
    }
    let peers = Port::PEER_STATS.into_iter().take(2);
    inputs.extend(peers.map(|port| (port, graph.tensor(Tensor::new(port.0).row_major([2, 32, 1, 1])))));
    let gradients = [Port::DX, Port::DSCALE, Port::DBIAS];
    let results = graph.composite("gradient", NormBackward { mode: NormMode::Batch }, &inputs, &gradients);
    for id in results {
        graph.set_output(id);
    }
    graph.finalize().expect("well formed")
}

/// A convolution of so many channels: of 72 the second step under a tap multiplies 16, of 40 each 48, of which boxes bring 40.
fn with_narrow_steps(channels: i64) -> FinalizedGraph {
    let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
    let x = graph.tensor(Tensor::new("x").channels_last([2, channels, 9, 7]));
    let w = graph.tensor(Tensor::new("w").channels_last([64, channels, 3, 3]));
    let attributes = Convolution::new(ConvolutionDirection::Forward, 2).padding([1, 1]);
    let y = graph.convolution("conv", attributes, [x, w]);
    graph.set_output(y);
    graph.finalize().expect("well formed")
}

/// `y = x + r`, of which x is row-major and the others have channels innermost, in tiles that end early.
fn with_two_layouts() -> FinalizedGraph {
    let dim = [2, 40, 8, 10];
    let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
    let x = graph.tensor(Tensor::new("x").row_major(dim));
    let r = graph.tensor(Tensor::new("r").channels_last(dim));
    let y = graph.pointwise("y", PointwiseMode::Add, &[x, r]);
    *graph.set_output(y) = Tensor::new("y").channels_last(dim);
    graph.finalize().expect("well formed")
}

/// A mask whose lines start inside bytes, which few graphs have.
fn with_lines_inside_bytes() -> FinalizedGraph {
    let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
    let x = graph.tensor(Tensor::new("x").row_major([2, 16, 24]));
    let mask = graph.pointwise("mask", PointwiseMode::CmpGt, &[x, x]);
    graph.set_output(mask).data_type = Some(DataType::Boolean);
    graph.tensor_mut(mask).stride = vec![500, 25, 1];
    graph.finalize().expect("well formed")
}

/// A convolution of one channel a group along so many axes, whose rows of outputs threads do not share evenly.
fn depthwise(direction: ConvolutionDirection, axes: usize) -> FinalizedGraph {
    let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
    let dim = |first: [i64; 2], spatial: [i64; 3]| [&first[..], &spatial[3 - axes..]].concat();
    let (x, w, y) = (dim([2, 24], [6, 9, 22]), dim([24, 1], [3; 3]), dim([2, 24], [3, 5, 11]));
    let (first, second, result) = match direction {
        ConvolutionDirection::Forward => (x, w, y),
        ConvolutionDirection::BackwardData => (y, w, x),
        ConvolutionDirection::BackwardFilter => (y, x, w),
    };
    let inputs = [first, second].map(|dim| graph.tensor(Tensor::new("t").channels_last(dim)));
    let mut convolution = Convolution::new(direction, axes);
    (convolution.pre_padding, convolution.post_padding) = (vec![1; axes], vec![1; axes]);
    convolution.stride = vec![2; axes];
    let id = graph.convolution("conv", convolution, inputs);
    *graph.tensor_mut(id) = Tensor::new("result").channels_last(result);
    graph.set_output(id);
    graph.finalize().expect("well formed")
}

/// A data gradient whose phases have different numbers of taps, through the workspace: its result broadcasts.
fn in_phases() -> FinalizedGraph {
    let mut graph = Graph::new()
        .io_data_type(DataType::Half)
        .intermediate_data_type(DataType::Float)
        .compute_data_type(DataType::Float);
    let dy = graph.tensor(Tensor::new("dy").channels_last([2, 64, 4, 4]));
    let w = graph.tensor(Tensor::new("w").channels_last([64, 64, 3, 3]));
    let mut convolution = Convolution::new(ConvolutionDirection::BackwardData, 2);
    (convolution.stride, convolution.pre_padding, convolution.post_padding) = (vec![2, 2], vec![1, 1], vec![1, 1]);
    let dx = graph.convolution("conv", convolution, [dy, w]);
    *graph.tensor_mut(dx) = Tensor::new("dx").channels_last([2, 64, 8, 8]).data_type(DataType::Float);
    let rows = graph.reduction("rows", ReductionMode::Add, dx, [2, 64, 8, 1]);
    graph.set_output(rows).data_type = Some(DataType::Float);
    graph.finalize().expect("well formed")
}

/// A product of rows that boxes do not take as they lie, long enough for a copy of them.
fn with_odd_rows() -> FinalizedGraph {
    let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
    let a = graph.tensor(Tensor::new("a").row_major([1, 1024, 1023]));
    let b = graph.tensor(Tensor::new("b").row_major([1, 1023, 1024]));
    let c = graph.matmul("matmul", a, b);
    graph.set_output(c);
    graph.finalize().expect("well formed")
}

/// A filter gradient of FLOAT, whose operands are unfolded.
fn with_unfolded_operands() -> FinalizedGraph {
    let mut graph = Graph::new().io_data_type(DataType::Float).compute_data_type(DataType::Float);
    let dy = graph.tensor(Tensor::new("dy").channels_last([32, 512, 7, 7]));
    let x = graph.tensor(Tensor::new("x").channels_last([32, 512, 7, 7]));
    let attributes = Convolution::new(ConvolutionDirection::BackwardFilter, 2).padding([1, 1]);
    let dw = graph.convolution("conv", attributes, [dy, x]);
    *graph.tensor_mut(dw) = Tensor::new("dw").channels_last([512, 512, 3, 3]);
    graph.set_output(dw);
    graph.finalize().expect("well formed")
}

/// Totals over more rows of tiles than one function combines.
fn with_many_tiles() -> FinalizedGraph {
    let mut graph = Graph::new()
        .io_data_type(DataType::Half)
        .intermediate_data_type(DataType::Float)
        .compute_data_type(DataType::Float);
    let a = graph.tensor(Tensor::new("a").row_major([1, 400_000, 64]));
    let b = graph.tensor(Tensor::new("b").row_major([1, 64, 64]));
    let c = graph.matmul("matmul", a, b);
    let sum = graph.reduction("sum", ReductionMode::Add, c, [1, 1, 64]);
    graph.set_output(sum).data_type = Some(DataType::Float);
    graph.finalize().expect("well formed")
}

/// Renders the suite's graphs and some of the recorded ones, in their first configs and some later ones, on three chips.
fn render_many(mut take: impl FnMut(&Source)) {
    render_on_chips(&Arc::new(with_a_signal()), &mut take);
    render_on_chips(&Arc::new(with_averages_beside_a_gradient()), &mut take);
    render_on_chips(&Arc::new(with_peers()), &mut take);
    render_on_chips(&Arc::new(with_channels(NormMode::Instance, [2, 64, 12, 12])), &mut take);
    render_on_chips(&Arc::new(with_channels(NormMode::groups(32), [2, 1280, 8, 8])), &mut take);
    render_on_chips(&Arc::new(with_lines_inside_bytes()), &mut take);
    render_on_chips(&Arc::new(with_two_layouts()), &mut take);
    use ConvolutionDirection::{BackwardData, BackwardFilter, Forward};
    for direction in [Forward, BackwardData, BackwardFilter] {
        for axes in [2, 3] {
            render_on_chips(&Arc::new(depthwise(direction, axes)), &mut take);
        }
    }
    render_on_chips(&Arc::new(in_phases()), &mut take);
    for channels in [40, 72] {
        render_on_chips(&Arc::new(with_narrow_steps(channels)), &mut take);
    }
    render_on_chips(&Arc::new(with_odd_rows()), &mut take);
    render_on_chips(&Arc::new(with_unfolded_operands()), &mut take);
    render_on_chips(&Arc::new(with_many_tiles()), &mut take);
    let data = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let mut recorded = String::new();
    let file = std::fs::File::open(data.join("verdicts.jsonl.gz")).expect("recorded graphs");
    flate2::read::GzDecoder::new(file).read_to_string(&mut recorded).expect("readable");
    let mut texts: Vec<String> = recorded.lines().step_by(16).map(str::to_owned).collect();
    for entry in std::fs::read_dir(data.join("suite")).expect("the suite").flatten() {
        texts.push(std::fs::read_to_string(entry.path()).expect("readable"));
    }
    for text in texts {
        for document in DocumentReader::new("graphs", text.as_bytes()) {
            let Some(graph) = document.result.ok().and_then(|graph| graph.finalize().ok()) else { continue };
            render_on_chips(&Arc::new(graph), &mut take);
        }
    }
}

fn render_on_chips(graph: &Arc<FinalizedGraph>, take: &mut dyn FnMut(&Source)) {
    for (major, minor) in [(9, 0), (8, 0), (7, 0)] {
        let capability = ComputeCapability::new(major, minor);
        let device = Device::typical(capability);
        let Ok(selection) = engine::select(graph, capability) else { continue };
        let candidates = selection.candidates(&device);
        for candidate in candidates.iter().take(2).chain(candidates.iter().skip(2).step_by(7)) {
            let kernel = selection.lower(&candidate.config, &device);
            take(&crate::codegen::render(&kernel).expect("templates render"));
        }
    }
}

/// The templates by their names below `templates/`.
fn files() -> Vec<(String, String)> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("templates");
    let mut found = Vec::new();
    let mut open = ["sweep", "product", "pipeline"].map(|folder| root.join(folder)).to_vec();
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder of templates").flatten() {
            match entry.path() {
                path if path.is_dir() => open.push(path),
                path if path.extension().is_some_and(|extension| extension == "md") => {}
                path => {
                    let name = path.strip_prefix(&root).expect("below").to_string_lossy().into_owned();
                    found.push((name, std::fs::read_to_string(&path).expect("a template")));
                }
            }
        }
    }
    found.sort();
    found
}

/// What rendering many graphs showed: the fields of records by template, and sections that some kernel does not use.
struct Rendered {
    noted: BTreeMap<&'static str, BTreeSet<String>>,
    unused: BTreeSet<&'static str>,
}

static RENDERED: LazyLock<Rendered> = LazyLock::new(|| {
    NOTED.set(Some(BTreeMap::new()));
    let mut unused = BTreeSet::new();
    render_many(|source| unused.extend(crate::codegen::sections::unused(&source.text)));
    Rendered { noted: NOTED.take().expect("records were noted"), unused }
});

#[test]
fn templates_read_what_records_give() {
    let noted = &RENDERED.noted;
    let mut wrong = Vec::new();
    for (name, text) in &files() {
        let Some(given) = noted.get(&**name) else {
            wrong.push(format!("{name}: no graph renders it"));
            continue;
        };
        let read = reads(text);
        let is_read = |field: &String| {
            let below = |read: &String| read.starts_with(field) && read[field.len()..].starts_with(['.', '[']);
            read.contains(field) || read.iter().any(below)
        };
        wrong.extend(given.iter().filter(|field| !is_read(field)).map(|field| format!("{name} does not read {field}")));
        let is_unknown = |path: &&String| !given.contains(path.trim_end_matches("[]"));
        wrong.extend(read.iter().filter(is_unknown).map(|path| format!("{name} reads {path}, which no record gives")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn kernels_carry_no_section_that_they_do_not_use() {
    assert!(RENDERED.unused.is_empty(), "{:?}", RENDERED.unused);
}

#[test]
fn every_template_says_at_its_head_what_it_is() {
    assert!(files().iter().all(|(_, text)| text.starts_with("<# ")));
}

#[test]
fn paths_follow_loops_and_indices() {
    let text = "<# a head with ${ nothing }$ -#>\n<%- for side in sides %>${ side.loads[0] }$<%- endfor %>${ a.b + 2 }$<% if not x %>";
    let expected = ["a.b", "sides", "sides[].loads[]", "x"].map(str::to_owned);
    assert_eq!(reads(text), expected.into());
}
