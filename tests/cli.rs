//! The command line: the built program, as a user runs it.
//!
//! Every case of bad input has a row here: its exit code is 2, its message names file, graph, node and tensor, and
//! nothing is written.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use fusewright::compile::Cache;
use fusewright::device::{ComputeCapability, Device};
use fusewright::frontend;
use fusewright::graph::{DataType, Graph, NormForward, NormMode, NormPhase, PointwiseMode, Port, Scalar, Tensor};
use fusewright::tuning::{Sampled, Tuned, TuningStore};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde_json::{Value, json};

/// A folder for one test, and the program with that folder's cache.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        fs::write(self.path(name), content).expect("the folder can be written");
        self.text(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fusewright"));
        command.args(arguments).env("FUSEWRIGHT_CACHE_DIR", self.path("cache"));
        for variable in ["FUSEWRIGHT_LOG", "FUSEWRIGHT_CACHE"] {
            command.env_remove(variable);
        }
        command
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        Ran::from(self.command(arguments).output().expect("the program starts"))
    }

    /// Names of the files in the folder.
    fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).expect("the folder is there");
        let mut names: Vec<String> =
            entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

/// What a run of the program gave.
#[derive(Debug)]
struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the program writes UTF-8");
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

impl Ran {
    #[track_caller]
    fn expect(self, code: i32, parts: &[&str]) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        for part in parts {
            assert!(self.out.contains(part) || self.err.contains(part), "no \"{part}\" in {self:#?}");
        }
        self
    }
}

fn tensor(uid: i64, name: &str, dim: &[i64], stride: &[i64]) -> Value {
    json!({"uid": uid, "name": name, "data_type": "FLOAT", "dim": dim, "stride": stride, "is_virtual": false,
           "is_pass_by_value": false, "pass_by_value": null, "reordering_type": "NONE"})
}

fn pointwise(name: &str, mode: &str, inputs: &[i64], output: i64) -> Value {
    let inputs: serde_json::Map<String, Value> =
        inputs.iter().enumerate().map(|(slot, &uid)| (format!("IN_{slot}"), json!(uid))).collect();
    json!({"tag": "POINTWISE", "name": name, "mode": mode, "compute_data_type": "FLOAT", "axis": null,
           "inputs": inputs, "outputs": {"OUT_0": output}})
}

/// `y = relu(a + b)`, 2 × 3 × 4, with a virtual sum.
fn sum_relu() -> Value {
    let (dim, stride) = ([2, 3, 4], [12, 4, 1]);
    let mut sum = tensor(3, "sum", &dim, &stride);
    sum["is_virtual"] = json!(true);
    json!({
        "context": {"name": "", "io_data_type": "FLOAT", "intermediate_data_type": "FLOAT",
                    "compute_data_type": "FLOAT"},
        "cudnn_frontend_version": 13200, "json_version": "2.0",
        "nodes": [pointwise("add", "ADD", &[1, 2], 3), pointwise("relu", "RELU_FWD", &[3], 4)],
        "tensors": [tensor(1, "a", &dim, &stride), tensor(2, "b", &dim, &stride), sum, tensor(4, "y", &dim, &stride)],
    })
}

/// `sum_relu` with one thing changed.
fn with(pointer: &str, value: Value) -> Value {
    let mut graph = sum_relu();
    *graph.pointer_mut(pointer).expect("the place is in the graph") = value;
    graph
}

fn named(name: &str, dim: i64) -> Value {
    let mut graph = sum_relu();
    graph["context"]["name"] = json!(name);
    for number in 0..4 {
        graph["tensors"][number]["dim"][0] = json!(dim);
    }
    graph
}

/// Both commands that read a graph refuse it in the same words; the good graph before it is still answered.
#[track_caller]
fn is_malformed(graph: &Value, parts: &[&str]) {
    let place = Place::new();
    let file = place.write("graphs.jsonl", format!("{}\n{graph}\n", sum_relu()));
    let prefix = format!("{file}: graph 2");
    let parts: Vec<&str> = parts.iter().copied().chain([prefix.as_str()]).collect();
    let checked = place.run(&["check", &file, "--format", "json"]).expect(2, &[]);
    let records: Vec<Value> = checked.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!([&records[0]["status"], &records[1]["status"]], ["supported", "malformed"], "{graph}");
    let error = records[1]["error"].as_str().unwrap();
    parts.iter().for_each(|part| assert!(error.contains(part), "no \"{part}\" in {error}"));
    let output = place.text("y.safetensors");
    place.run(&["run", &file, "--graph", "2", "--outputs", &output]).expect(2, &parts);
    assert_eq!(place.files(), ["graphs.jsonl"]);
}

#[test]
fn unknown_words_are_named_with_node_and_tensor() {
    is_malformed(&with("/nodes/1/tag", json!("POINTLESS")), &["'relu'", "node 1", "POINTLESS"]);
    is_malformed(&with("/nodes/1/mode", json!("RELUU")), &["'relu'", "node 1", "RELUU"]);
    is_malformed(&with("/tensors/1/data_type", json!("FLOAT17")), &["'b'", "FLOAT17"]);
}

#[test]
fn missing_keys_are_named() {
    let mut graph = sum_relu();
    graph["nodes"][1].as_object_mut().unwrap().remove("tag");
    is_malformed(&graph, &["'relu'", "node 1", "tag"]);
    let mut graph = sum_relu();
    graph["nodes"][0]["inputs"].as_object_mut().unwrap().remove("IN_1");
    is_malformed(&graph, &["'add'", "node 0", "IN_1"]);
    let mut graph = sum_relu();
    graph["tensors"][0].as_object_mut().unwrap().remove("dim");
    is_malformed(&graph, &["'a'", "dim"]);
}

#[test]
fn dangling_and_duplicate_uids_are_named() {
    is_malformed(&with("/nodes/1/inputs/IN_0", json!(77)), &["'relu'", "node 1", "77"]);
    is_malformed(&with("/tensors/1/uid", json!(1)), &["uid 1"]);
}

#[test]
fn cycles_and_in_place_operations_are_named() {
    let mut graph = with("/nodes/0/inputs/IN_1", json!(4));
    graph["tensors"].as_array_mut().unwrap().remove(1);
    is_malformed(&graph, &["'relu'", "node 1", "GR-ACYCLIC"]);
    is_malformed(&with("/nodes/1/outputs/OUT_0", json!(3)), &["'relu'", "node 1", "'sum' (uid 3)"]);
}

#[test]
fn impossible_extents_are_named() {
    for extent in [json!(0), json!(-3)] {
        is_malformed(&with("/tensors/0/dim/1", extent), &["'a' (uid 1)", "dim"]);
    }
    for stride in [json!(0), json!(-4)] {
        is_malformed(&with("/tensors/0/stride/1", stride), &["'a' (uid 1)", "stride"]);
    }
    is_malformed(&with("/tensors/0/dim", json!([1_i64 << 40, 1_i64 << 40, 4])), &["'a' (uid 1)"]);
    is_malformed(&with("/tensors/0/stride", json!([i64::MAX, 4, 1])), &["'a' (uid 1)"]);
    is_malformed(&with("/tensors/0/dim/0", json!(1e30)), &["'a'"]);
}

#[test]
fn shapes_that_do_not_fit_are_named() {
    is_malformed(&with("/tensors/0/stride", json!([4, 1])), &["'a' (uid 1)"]);
    is_malformed(&with("/tensors/1/dim/1", json!(2)), &["'add'", "node 0", "'b' (uid 2)", "extent 2 on axis 1"]);
}

#[test]
fn what_is_no_graph_file_is_said() {
    let place = Place::new();
    let file = place.write("notes.txt", "this is no graph\n");
    place.run(&["check", &file]).expect(2, &[&file, "no graph found"]);
    let empty = place.write("empty.json", "");
    place.run(&["check", &empty]).expect(2, &["no graph found: the input is empty"]);
    let commented = place.write("commented.json", "{\n\"nodes\": [], // none\n}\n");
    place
        .run(&["check", &commented])
        .expect(2, &["JSON has no comments [FEJ-03]\n", "\n    2 | \"nodes\": [], // none\n"]);
    let missing = place.text("missing.json");
    place.run(&["explain", &missing]).expect(2, &[&missing, "cannot be opened", "fusewright: error: "]);
    let text = sum_relu().to_string();
    let log = place.write("app.log", format!("banner\n{text}\n[cudnn_frontend] INFO\n{}", &text[..text.len() / 2]));
    let ran = place.run(&["check", &log]).expect(2, &["1 supported", "1 malformed", "unterminated object at byte"]);
    assert!(ran.out.contains(&format!("{log}: graph 2 (line 4)")), "{ran:#?}");
}

/// The backward pass of an attention whose keys are its values, too, which nothing executes yet.
fn unexecuted() -> String {
    let backward = include_str!("data/suite/sdpa_bwd_bf16_s4096_d128.json");
    let shared = backward.replace(r#""V": 3"#, r#""V": 2"#);
    assert_ne!(shared, backward);
    shared
}

#[test]
fn what_the_cpu_engine_does_not_compute_is_refused_before_inputs_are_made() {
    let place = Place::new();
    let file = &place.write("shared.json", unexecuted());
    let ran =
        place.run(&["run", file, "--device", "cpu"]).expect(1, &["the CPU engine does not execute this operation"]);
    assert_eq!(ran.out, "", "refused first");
}

#[test]
fn the_worst_of_several_files_counts_and_all_are_read() {
    let place = Place::new();
    let good = place.write("good.json", sum_relu().to_string());
    let bad = place.write("bad.json", "{");
    let ran = place.run(&["check", &place.text("none.json"), &bad, &good]).expect(2, &["1 supported, 0 not supported"]);
    assert!(ran.err.contains("none.json"), "{ran:#?}");
}

#[test]
fn graphs_of_one_name_are_told_apart_by_number() {
    let place = Place::new();
    let file = place.write("two.jsonl", format!("{}\n{}\n", named("net", 2), named("net", 4)));
    let message = "graph 'net' is the name of graphs #1, #2: pick one by number";
    place.run(&["run", &file, "--graph", "net"]).expect(2, &[&file, message]);
    place.run(&["run", &file]).expect(2, &[&file, "holds 2 graphs: pick one with --graph"]);
    place.run(&["run", &file, "--graph", "3"]).expect(2, &[&file, "has no graph 3; it holds 2 graphs: 'net', 'net'"]);
    place
        .run(&["run", &file, "--graph", "fc"])
        .expect(2, &[&file, "has no graph 'fc'; it holds 2 graphs: 'net', 'net'"]);
    place.run(&["run", &file, "--graph", "#2", "--device", "cpu"]).expect(0, &["[4, 3, 4]"]);
    place.run(&["run", &file, "--graph", "2", "--device", "cpu"]).expect(0, &["[4, 3, 4]"]);
    let ran = place.run(&["check", &file, "--format", "json"]).expect(0, &[]);
    let names: Vec<Value> =
        ran.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["graph"].clone()).collect();
    assert_eq!(names, [json!("net"), json!(2)]);
    assert_eq!(place.files(), ["two.jsonl"]);
}

/// A safetensors file with one FLOAT tensor an entry.
fn tensors(entries: &[(&str, Dtype, &[usize])]) -> Vec<u8> {
    let bytes = [0u8; 1024];
    let views = entries.iter().map(|(key, data_type, shape)| {
        let length = shape.iter().product::<usize>() * data_type.bitsize() / 8;
        (*key, TensorView::new(*data_type, shape.to_vec(), &bytes[..length]).unwrap())
    });
    safetensors::serialize(views, None).unwrap()
}

#[test]
fn inputs_that_do_not_fit_are_named_with_file_and_tensor() {
    let place = Place::new();
    let graph = place.write("graph.json", sum_relu().to_string());
    let output = place.text("y.safetensors");
    let good: (&str, Dtype, &[usize]) = ("a", Dtype::F32, &[2, 3, 4]);
    for (content, complaint) in [
        (tensors(&[good]), "input tensor 'b' (uid 2) is missing"),
        (
            tensors(&[good, ("b", Dtype::F32, &[2, 4, 3])]),
            "tensor 'b' (uid 2): shape [2, 3, 4] is required, found [2, 4, 3]",
        ),
        (
            tensors(&[good, ("b", Dtype::F16, &[2, 3, 4])]),
            "tensor 'b' (uid 2): type F32 is required for FLOAT, found F16",
        ),
        (b"{}".to_vec(), "is not a safetensors file"),
    ] {
        let inputs = place.write("inputs.safetensors", content);
        let arguments = ["run", &graph, "--device", "cpu", "--inputs", &inputs, "--outputs", &output];
        place.run(&arguments).expect(2, &[&inputs, complaint]);
        assert_eq!(place.files(), ["graph.json", "inputs.safetensors"]);
    }
}

#[test]
fn tensors_go_in_and_out_by_name() {
    let place = Place::new();
    let graph = place.write("graph.json", sum_relu().to_string());
    let values = |sign: f32| (0..24).flat_map(|i| (sign * i as f32).to_le_bytes()).collect::<Vec<u8>>();
    let (a, b) = (values(1.0), values(-2.0));
    let view = |bytes| TensorView::new(Dtype::F32, vec![2, 3, 4], bytes).unwrap();
    let inputs =
        place.write("x.safetensors", safetensors::serialize([("a", view(&a)), ("b", view(&b))], None).unwrap());
    let output = place.text("y.safetensors");
    place
        .run(&["run", &graph, "--device", "cpu", "--inputs", &inputs, "--outputs", &output])
        .expect(0, &["the CPU engine"]);
    let content = fs::read(&output).unwrap();
    let written = SafeTensors::deserialize(&content).unwrap();
    assert_eq!(written.names(), ["y"]);
    assert_eq!(written.tensor("y").unwrap().data(), values(0.0), "relu(i - 2i) is 0");
}

#[test]
fn outputs_that_cannot_be_written_are_said_before_anything_is_computed() {
    let place = Place::new();
    let graph = place.write("graph.json", sum_relu().to_string());
    for output in [place.text("no/such/folder/y.safetensors"), place.folder.path().display().to_string()] {
        let ran = place
            .run(&["run", &graph, "--device", "cpu", "--outputs", &output])
            .expect(2, &[&output, "cannot be written"]);
        assert_eq!(ran.out, "");
    }
    assert_eq!(place.files(), ["graph.json"]);
}

#[test]
fn a_full_disk_is_the_environments_fault() {
    let place = Place::new();
    let graph = place.write("graph.json", sum_relu().to_string());
    place
        .run(&["run", &graph, "--device", "cpu", "--outputs", "/dev/full"])
        .expect(3, &["/dev/full: cannot be written"]);
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let ran = Ran::from(place.command(&["check", &graph]).stdout(full).output().unwrap());
    ran.expect(3, &["cannot write the results"]);
}

#[test]
fn an_unusable_cache_costs_a_warning_only() {
    let place = Place::new();
    let graph = place.write("graph.json", sum_relu().to_string());
    let no_folder = place.write("cache", "a file where the folder should be");
    let ran = place.run(&["run", &graph, "--device", "emulator"]);
    if has_emulator(&ran) {
        let ran = ran.expect(0, &["the generated kernel in the emulator"]);
        assert!(ran.err.contains("without the cache") && ran.err.contains(&no_folder), "{ran:#?}");
    }
    assert_eq!(fs::read_to_string(&no_folder).unwrap(), "a file where the folder should be");
}

#[test]
fn a_cache_that_others_may_write_is_neither_read_nor_written() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new();
    fs::create_dir(place.path("cache")).unwrap();
    fs::set_permissions(place.path("cache"), fs::Permissions::from_mode(0o777)).unwrap();
    let words = ["has mode 0777", "chmod go-w", "FUSEWRIGHT_CACHE_DIR"];
    for action in ["list", "verify", "clear"] {
        place.run(&["cache", action]).expect(3, &words);
    }
    let path = place.run(&["cache", "path"]).expect(0, &words);
    assert_eq!(path.out.trim_end(), place.text("cache"));
    let doctor = place.run(&["doctor"]);
    assert!(words.iter().all(|word| doctor.out.contains(word)), "{doctor:#?}");
    assert_eq!(fs::read_dir(place.path("cache")).unwrap().count(), 0);
}

#[test]
fn a_limit_that_is_no_size_is_warned_of() {
    let place = Place::new();
    for (limit, is_warned_of) in [("much", true), ("2G", false), ("off", false)] {
        let list = place.command(&["cache", "list"]).env("FUSEWRIGHT_CACHE_LIMIT", limit).output().unwrap();
        let list = Ran::from(list).expect(0, &[]);
        assert_eq!(list.err.contains("FUSEWRIGHT_CACHE_LIMIT is \"much\""), is_warned_of, "{list:#?}");
    }
}

/// Libraries and programs under the names that are looked for, in a folder where the program is then run.
#[test]
fn nothing_is_loaded_from_the_working_directory() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new();
    let graph = place.write("graph.json", sum_relu().to_string());
    let trace = place.path("it-ran");
    let constructor = format!(
        "#include <cstdio>\n__attribute__((constructor)) static void run() {{ std::fopen(\"{}\", \"w\"); }}\n",
        trace.display()
    );
    let source = place.write("planted.cpp", constructor);
    let library = place.text("planted.so");
    match Command::new("g++").args(["-shared", "-fPIC", "-o", &library, &source]).output() {
        Ok(built) => assert!(built.status.success(), "{}", Ran::from(built).err),
        Err(error) => return assert!(!is_required("FUSEWRIGHT_REQUIRE_EMULATOR"), "no g++: {error}"),
    }
    let packages = "packages/nvidia/cu13/lib/libnvrtc.so.";
    let of_python = "lib/python3.1/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.";
    let wheel = ["nvidia/cu13/lib/libnvrtc.so.", packages, of_python, "toolkit/lib64/libnvrtc.so."];
    let fetched = [".nv/13/nvidia/cu13/lib/libnvrtc.so.", ".nv/12/nvidia/cuda_nvrtc/lib/libnvrtc.so.", "libnvrtc.so."];
    for stem in wheel.iter().chain(&fetched) {
        for major in ["12", "13"] {
            let planted = place.path(&format!("{stem}{major}"));
            fs::create_dir_all(planted.parent().expect("a folder")).unwrap();
            fs::copy(&library, planted).unwrap();
        }
    }
    fs::create_dir(place.path("bin")).unwrap();
    for program in ["g++", "c++", "clang++", "bin/g++", "bin/c++", "bin/python3"] {
        let text = format!("#!/bin/sh\n: >{}\necho g++ 1.0\n", trace.display());
        place.write(program, text);
        fs::set_permissions(place.path(program), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let command = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        command.current_dir(place.folder.path()).env_remove("FUSEWRIGHT_NVRTC").env_remove("CXX");
        command.envs([("PATH", ":bin:.:/usr/bin:/bin"), ("PYTHONPATH", "packages:"), ("CUDA_HOME", "toolkit")]);
        command.envs([("CUDA_PATH", "toolkit"), ("VIRTUAL_ENV", "."), ("CONDA_PREFIX", "."), ("HOME", ".")]);
        command
    };
    for arguments in [&["doctor"][..], &["compile", &graph, "--arch", "sm_90", "--arch", "sm_70"]] {
        // What the machine has decides how it ends.
        let ran = Ran::from(command(arguments).output().expect("the program starts"));
        assert!(!trace.exists(), "{arguments:?} ran what was planted: {ran:#?}");
    }
    // Named on purpose, the same is loaded, and a relative path is the working directory's.
    for named in [".nv", "planted.so"] {
        let named = command(&["doctor"]).env("FUSEWRIGHT_NVRTC", named).output().expect("the program starts");
        assert!(Ran::from(named).out.contains("has no function nvrtcGetErrorString"));
        fs::remove_file(&trace).expect("the planted library does what the test believes");
    }
}

/// Whether there is a C++ compiler; where one is required, its absence is a failure.
fn has_emulator(ran: &Ran) -> bool {
    let is_absent = ran.code == Some(3) && ran.err.contains("no C++ compiler");
    assert!(!(is_absent && is_required("FUSEWRIGHT_REQUIRE_EMULATOR")), "{ran:#?}");
    !is_absent
}

fn is_required(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| value == "1")
}

#[test]
fn a_gpu_that_is_not_there_is_exit_code_3_with_what_was_looked_for() {
    let place = Place::new();
    let graph = place.write("graph.json", sum_relu().to_string());
    for command in ["run", "bench"] {
        let ran = place.run(&[command, &graph, "--device", "cuda:99"]).expect(3, &[]);
        assert!(ran.err.contains("libcuda.so") || ran.err.contains("cuda:99"), "{ran:#?}");
        assert_eq!(ran.out, "");
    }
}

#[test]
fn usage_errors_are_exit_code_2_and_help_is_not() {
    let place = Place::new();
    for arguments in
        [&["check"][..], &["frobnicate"], &["check", "x", "--arch", "hopper"], &["run", "x", "--device", "tpu"]]
    {
        let ran = place.run(arguments).expect(2, &["fusewright: error: "]);
        assert_eq!(ran.out, "");
    }
    place.run(&["check", "x", "--arch", "sm80"]).expect(2, &["write it as sm_80"]);
    place.run(&["--help"]).expect(0, &["check", "doctor"]);
    place.run(&["--version"]).expect(0, &[env!("CARGO_PKG_VERSION")]);
}

#[test]
fn verdicts_name_the_surface_the_engine_and_every_broken_rule() {
    let place = Place::new();
    let mut refused = sum_relu();
    refused["tensors"][1]["data_type"] = json!("DOUBLE");
    let file = place.write("graphs.jsonl", format!("{}\n{refused}\n", sum_relu()));
    let ran = place.run(&["check", &file, "--arch", "sm_90", "--arch", "sm_75", "--format", "json"]).expect(1, &[]);
    let records: Vec<Value> = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(records.len(), 4);
    assert_eq!((&records[0]["status"], &records[0]["arch"]), (&json!("supported"), &json!("sm_90")));
    assert_eq!((&records[1]["surface"], &records[1]["engine"]), (&json!(70), &json!("scalar")));
    let violation = &records[2]["violations"][0];
    assert_eq!((&records[2]["status"], &records[2]["engine"]), (&json!("not_supported"), &Value::Null));
    for key in ["surface", "rule", "where", "required", "found"] {
        assert!(!violation[key].is_null(), "{key} in {violation}");
    }
    place
        .run(&["check", &file, "--surface", "80"])
        .expect(1, &["without --surface it runs on sm_90", "S80-DTYPE-INPUT", "DOUBLE", "2 verdicts"]);
}

#[test]
fn a_softmax_is_on_no_surface_and_an_engine_takes_it_beyond_them() {
    let place = Place::new();
    let mut graph = Graph::new().name("softmax").io_data_type(DataType::Half).compute_data_type(DataType::Float);
    let x = graph.tensor(Tensor::new("x").row_major([2, 3, 8, 40]));
    let y = graph.softmax("softmax", x);
    graph.set_output(y);
    let file = place.write("softmax.json", frontend::write_v2(&graph));
    let ran = place.run(&["check", &file, "--arch", "sm_90", "--format", "json"]).expect(0, &[]);
    let record: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&record["status"], &record["surface"]), (&json!("supported"), &Value::Null));
    assert_eq!((&record["engine"], &record["relaxed"]), (&json!("scalar"), &json!(["OP-COMPOSITE"])));
    place.run(&["check", &file, "--surface", "90"]).expect(1, &["OP-COMPOSITE", "primitive operations only"]);
    place.run(&["run", &file, "--device", "cpu"]).expect(0, &[]);
}

/// A batch norm of so many channels for training, alone.
fn batch_norm(channels: i64) -> Graph {
    let mut graph = Graph::new().name("bn").io_data_type(DataType::Half).compute_data_type(DataType::Float);
    let x = graph.tensor(Tensor::new("x").channels_last([2, channels, 4, 4]));
    let epsilon = graph.tensor(Tensor::scalar("epsilon", DataType::Float, Scalar::Float(1e-5)));
    let mut inputs = vec![(Port::X, x), (Port::EPSILON, epsilon)];
    for port in [Port::SCALE, Port::BIAS] {
        let vector = Tensor::new(port.0).channels_last([1, channels, 1, 1]).data_type(DataType::Float);
        inputs.push((port, graph.tensor(vector)));
    }
    let norm = NormForward::new(NormMode::Batch, NormPhase::Training);
    let results = graph.composite("norm", norm, &inputs, &[Port::Y, Port::MEAN, Port::INV_VARIANCE]);
    for (place, id) in results.into_iter().enumerate() {
        graph.set_output(id).data_type = (place > 0).then_some(DataType::Float);
    }
    graph
}

#[test]
fn a_norm_is_told_by_the_name_of_its_surface() {
    let place = Place::new();
    let legal = place.write("bn.json", frontend::write_v2(&batch_norm(16)));
    place.run(&["check", &legal]).expect(0, &["runs on sm_90 by scalar, as documented on surface NormAddRelu"]);
    let json = |file: &str| -> Value {
        serde_json::from_str(&place.run(&["check", file, "--format", "json"]).expect(0, &[]).out).unwrap()
    };
    let record = json(&legal);
    assert_eq!((&record["surface"], &record["surface_name"]), (&Value::Null, &json!("NormAddRelu")));
    assert_eq!((record.get("relaxed"), &record["violations"]), (None, &json!([])));
    let ragged = place.write("ragged.json", frontend::write_v2(&batch_norm(35)));
    let record = json(&ragged);
    assert_eq!((record.get("surface_name"), &record["relaxed"]), (None, &json!(["BAR-C"])));
    assert_eq!(record["violations"][0]["surface_name"], "NormAddRelu");
    let asked = ["check", "-v", &ragged, "--surface", "normaddrelu"];
    place.run(&asked).expect(0, &["BAR-C", "to hold surface NormAddRelu: give every tensor of 35 channels 40"]);
    place.run(&["check", &ragged, "--surface", "91"]).expect(2, &["90, 80 or 70, or one of NormForward, NormBackward"]);
    place
        .run(&["rules", "n-161", "BAR-C"])
        .expect(0, &["N-161", "no statistics of a norm for INFERENCE", "NormAddRelu"]);
}

#[test]
fn standard_input_is_a_file_and_a_reader_that_leaves_is_no_failure() {
    let place = Place::new();
    let mut child = place
        .command(&["check", "-", "--format", "json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut input = child.stdin.take().unwrap();
    // More verdicts than fit into any buffer.
    for extent in 1..2000 {
        if writeln!(input, "{}", named("", extent)).is_err() {
            break;
        }
    }
    drop(input);
    let ran = Ran::from(child.wait_with_output().unwrap()).expect(0, &[]);
    assert_eq!(ran.err, "");
}

#[test]
fn explain_shows_stages_launches_and_source() {
    let place = Place::new();
    let file = "examples/graphs/mm_bias_gelu_bf16_m16.json";
    let parts = [
        "core  'matmul' MATMUL(A='A', B='B') compute FLOAT -> 'matmul::C' virtual FLOAT",
        "g2    'bias' POINTWISE(IN_0='matmul::C', IN_1='bias') ADD",
        "        'B' = input BFLOAT16",
        "chosen warpgroup_mma",
        "not asked, because the first engine that takes a graph runs it: direct, warp_mma, scalar",
        "grid",
        "1879048192 FLOP",
    ];
    place.run(&["explain", file]).expect(0, &parts);
    let source = place.run(&["explain", file, "--source", "--arch", "sm_80"]).expect(0, &["__global__"]).out;
    assert!(source.starts_with("//") && !source.contains("#include"));
}

#[test]
fn kernels_of_dynamic_shapes_share_a_text_and_say_what_they_are_told() {
    let place = Place::new();
    let source = |rows: i64, is_dynamic: bool| {
        let mut graph: Value =
            serde_json::from_slice(&fs::read("examples/graphs/mm_bias_gelu_bf16_m16.json").unwrap()).unwrap();
        graph["context"]["is_dynamic_shape_enabled"] = json!(is_dynamic);
        for tensor in graph["tensors"].as_array_mut().unwrap() {
            if tensor["dim"][1] == json!(16) {
                tensor["dim"][1] = json!(rows);
                tensor["stride"][0] = json!(rows * tensor["stride"][1].as_i64().unwrap());
            }
        }
        let file = place.write("layer.json", graph.to_string());
        let explained = place.run(&["explain", &file]).expect(0, &["grid"]).out;
        assert_eq!(explained.contains("numbers of the shape as parameters"), is_dynamic, "{explained}");
        place.run(&["explain", &file, "--source"]).expect(0, &["__global__"]).out
    };
    assert!(source(6000, true) == source(8192, true));
    assert!(source(6000, false) != source(8192, false));
}

#[test]
fn explain_says_what_no_kernel_does_and_no_more_than_there_is() {
    let place = Place::new();
    let mut graph: Value = serde_json::from_slice(&fs::read("tests/data/suite/mm_i8_8192.json").unwrap()).unwrap();
    graph["nodes"][0]["compute_data_type"] = json!("HALF");
    let file = place.write("i8.json", graph.to_string());
    let reason = "operands of INT8 are multiplied in INT32 or FLOAT, not in HALF";
    let change = "to run here and to hold surface 90: compute operation 'matmul' (MATMUL) in INT32 instead of HALF";
    place.run(&["explain", &file]).expect(1, &[reason, change, "none takes the graph"]);
    let sum = place.write("sum.json", sum_relu().to_string());
    let out = place.run(&["explain", &sum]).expect(0, &["no matmul or convolution", "bound by memory"]).out;
    assert!(!out.contains("FLOP") && !out.contains("it comes later"), "{out}");
}

#[test]
fn explain_ranks_configs_and_lists_knobs() {
    let place = Place::new();
    let file = "tests/data/suite/mm_bf16_4096.json";
    let out = place
        .run(&["explain", file, "--arch", "sm_80", "-v"])
        .expect(0, &["µs  warp_mma tile_m=", "launches with"])
        .out;
    let times = |line: &str| Some(line.split_once(" µs  warp_mma")?.0.trim().parse::<f64>().unwrap());
    let times: Vec<f64> = out.lines().filter_map(times).collect();
    assert!(times.len() > 8 && times.is_sorted() && times[0] > 100.0, "{times:?}");
    let few = place.run(&["explain", file, "--arch", "sm_80"]).expect(0, &["more, listed with --verbose"]).out;
    assert_eq!(few.lines().filter_map(|line| line.split_once(" µs  warp_mma")).count(), 5);
    assert!(few.contains("bound by matrix rate: ") && few.contains(" % above the floor of "), "{few}");
    let knob = |name: &str| out.lines().find(|line| line.trim_start().starts_with(name)).unwrap_or_default().to_owned();
    assert!(knob("tile_m  ").starts_with("  tile_m     16, 32, 64, 128, 256  rows of the result"), "{out}");
    let hopper = place.run(&["explain", file]).expect(0, &["schedule=ping_pong"]).out;
    assert!(hopper.contains("  cooperative, ping_pong ") && hopper.contains("two warpgroups share"), "{hopper}");
}

#[test]
fn heuristic_modes_choose_what_is_explained() {
    let place = Place::new();
    let file = "tests/data/suite/mm_bf16_4096.json";
    let configs = |mode: &str, heading: &str| {
        let out = place.run(&["explain", file, "--mode", mode, "-v"]).expect(0, &[heading, "launches with"]).out;
        out.lines().filter_map(|line| line.split_once("µs  ")).map(|(_, config)| config.to_owned()).collect::<Vec<_>>()
    };
    let (a, b) = (configs("A", "configs of mode A"), configs("b", "configs of mode B"));
    assert!(b.len() < a.len() && a[0] == b[0] && b.iter().all(|config| a.contains(config)), "{b:?}");
    let fallback = configs("FALLBACK", "fallback warp_mma");
    assert!(fallback.iter().all(|config| config.starts_with("warp_mma ")), "{fallback:?}");
    let source = place.run(&["explain", file, "--mode", "FALLBACK", "--source"]).expect(0, &["fw_cp_async"]).out;
    assert!(!source.contains("wgmma"));
    place.run(&["explain", file, "--mode", "C"]).expect(2, &["a heuristic mode is A, B or FALLBACK"]);
}

#[test]
fn a_tuned_config_is_explained_listed_and_cleared() {
    let place = Place::new();
    let json = sum_relu().to_string();
    let file = place.write("graph.json", &json);
    let graph = frontend::read_documents("graph", json.as_bytes()).documents.remove(0).result.unwrap();
    let device = Device { name: "Tested GPU".to_owned(), ..Device::typical(ComputeCapability::SM_90) };
    let selection = fusewright::engine::select(&graph.finalize().unwrap().into(), device.capability).unwrap();
    let ranked = selection.candidates(&device).pop().unwrap();
    let text = format!("tuned on Tested GPU: {}", ranked.config);
    let winner = Tuned { ranked, sampled: Sampled { median_ms: 0.125, runs: 9 } };
    TuningStore::beside(&Cache::at(place.path("cache"))).put(&selection, &device, &winner).unwrap();

    place.run(&["explain", &file]).expect(0, &[&format!("{text}, 125 µs")]);
    let other = place.run(&["explain", &file, "--arch", "sm_80"]).expect(0, &["launches with"]);
    assert!(!other.out.contains("tuned on"), "{other:#?}");
    place.run(&["cache", "list"]).expect(0, &[&text, "1 tuned config"]);
    place.run(&["cache", "verify"]).expect(0, &["1 entries", "0 damaged"]);
    let stored = fs::read_dir(place.path("cache/tuning")).unwrap().next().unwrap().unwrap().path();
    fs::write(stored, "damaged").unwrap();
    place.run(&["explain", &file]).expect(0, &["launches with"]);
    place.run(&["cache", "verify"]).expect(1, &["1 damaged"]);
    place.run(&["cache", "clear"]).expect(0, &["removed 1 entries"]);
    place.run(&["cache", "list"]).expect(0, &["0 tuned configs"]);
}

#[test]
fn two_computations_are_compared_and_named() {
    let place = Place::new();
    let graph = place.write("graph.json", sum_relu().to_string());
    let ran = place
        .run(&["run", &graph, "--device", "cpu", "--verify", "--seed", "7"])
        .expect(0, &["random, seed 7", "passed"]);
    let pairs = ["the generated kernel", "the CPU engine against the op-by-op f64 evaluation"];
    assert!(pairs.iter().any(|pair| ran.out.contains(pair)), "{ran:#?}");
    let again = place.run(&["run", &graph, "--device", "cpu", "--verify", "--seed", "7"]);
    let untimed =
        |text: &str| text.lines().filter(|line| !line.starts_with("time")).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(untimed(&ran.out), untimed(&again.out));
}

#[test]
fn what_no_engine_takes_is_refused_where_kernels_are_asked_for() {
    let place = Place::new();
    let graph = &place.write("shared.json", unexecuted());
    let ran = place.run(&["run", graph, "--device", "emulator"]);
    if has_emulator(&ran) {
        ran.expect(1, &[graph, "no engine executes SDPA_BWD ('dsdpa') yet"]);
    }
    place.run(&["explain", graph]).expect(1, &["no engine executes SDPA_BWD ('dsdpa') yet", "none takes"]);
}

#[test]
fn the_cache_is_listed_verified_and_emptied() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new();
    let folder = place.text("cache");
    place.run(&["cache", "path"]).expect(0, &[&folder]);
    let graph = place.write("graph.json", sum_relu().to_string());
    // The mask is the whole process's, so it is another's that lets the group write.
    let program = place.command(&["run", &graph, "--device", "emulator"]);
    let mut shell = Command::new("sh");
    shell.args(["-c", "umask 002; exec \"$0\" \"$@\""]).arg(program.get_program()).args(program.get_args());
    shell.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ran = Ran::from(shell.output().expect("the program starts"));
    if has_emulator(&ran) {
        assert!(fs::read_dir(place.path("cache/emulator")).unwrap().count() > 0);
        for made in ["cache", "cache/emulator"] {
            let mode = fs::metadata(place.path(made)).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o700, "{made} is its user's alone");
        }
    }
    place.run(&["cache", "list"]).expect(0, &[&folder]);
    place.run(&["cache", "verify"]).expect(0, &["0 damaged"]);
    fs::create_dir_all(place.path("cache")).unwrap();
    place.run(&["cache", "clear"]).expect(0, &["removed"]);
    assert!(!place.path("cache/emulator").exists());
    let off = place.command(&["cache", "path"]).env("FUSEWRIGHT_CACHE", "off").output().unwrap();
    Ran::from(off).expect(3, &["no disk cache"]);
    let mut here = place.command(&["cache", "path"]);
    here.current_dir(place.folder.path()).env("FUSEWRIGHT_CACHE_DIR", "cache");
    Ran::from(here.output().unwrap()).expect(0, &[&folder]);
    // A home that depends on the working directory is none.
    here.env_remove("FUSEWRIGHT_CACHE_DIR").env_remove("XDG_CACHE_HOME").env("HOME", ".");
    Ran::from(here.output().unwrap()).expect(3, &["no disk cache"]);
}

#[test]
fn rules_are_listed_for_people_and_programs() {
    let place = Place::new();
    place.run(&["rules"]).expect(0, &["S90-MM-G2-DIMS"]);
    let list = place.run(&["rules", "--format", "json"]).expect(0, &[]).out;
    let rules: Vec<Value> = serde_json::from_str(&list).unwrap();
    for key in ["id", "surface", "scope", "summary", "source"] {
        assert!(rules.iter().all(|rule| !rule[key].is_null()), "{key}");
    }
    let relaxed = |id: &str| rules.iter().find(|rule| rule["id"] == id).map(|rule| rule["relaxed_by"].clone());
    assert_eq!(relaxed("S70-MM-G2-DIMS"), Some(json!(["warpgroup_mma", "direct", "warp_mma", "scalar"])));
    assert_eq!(relaxed("S90-MM-G2-DIMS"), Some(json!([])));
    place
        .run(&["rules"])
        .expect(0, &["[not needed by scalar]", "[not needed by warpgroup_mma, direct, warp_mma, scalar]"]);
}

#[test]
fn an_id_of_a_message_is_told_with_its_source_and_an_example() {
    let place = Place::new();
    let text = [
        "S90-G1-ALIGN-128  every input",
        "https://docs.nvidia.com/deeplearning/cudnn/",
        "refused by surface 90 on sm_90",
        "required strides that are multiples of 8 elements (128 bits)",
        "legal with\n    A = input HALF [2, 32, 16] stride [1024, 24, 1]",
    ];
    place.run(&["rules", "s90-g1-align-128"]).expect(0, &text);
    place.run(&["rules", "SUM-CC", "FEJ-12"]).expect(0, &["definition; nothing can break it", "frontend-json.md"]);
    let file = ["  malformed\n    {\"context\":", "did you mean \"RELU_FWD\"?", "  legal\n    {\"context\":"];
    place.run(&["rules", "FEJ-12"]).expect(0, &file);
    place.run(&["rules", "MATMUL-SHAPE"]).expect(0, &["malformed graph: operation 'mm'", "a transposed B has"]);
    place.run(&["rules", "NOPE"]).expect(2, &["'NOPE': no rule and no other id"]);
    let told = place.run(&["rules", "S90-CC", "A-61", "--format", "json"]).expect(0, &[]).out;
    let told: Vec<Value> = serde_json::from_str(&told).unwrap();
    assert_eq!((&told[0]["id"], &told[0]["example"]["arch"]), (&json!("S90-CC"), &json!("sm_89")));
    assert_eq!((&told[1]["kind"], told[1]["sources"].as_array().map(Vec::len)), (&json!("reading"), Some(1)));
}

#[test]
fn spellings_of_graph_files_are_listed() {
    let place = Place::new();
    place
        .run(&["rules", "--values"])
        .expect(0, &["data_type, compute_data_type\n  FLOAT\n", "  GELU_APPROX_TANH_FWD\n"]);
    let values = place.run(&["rules", "--values", "--format", "json"]).expect(0, &[]).out;
    let values: Vec<Value> = serde_json::from_str(&values).unwrap();
    let of = |place: &str| values.iter().find(|row| row["place"] == place).map(|row| row["spellings"].clone());
    assert_eq!(of("padding_mode"), Some(json!(["EDGE_VAL_PAD", "NEG_INF_PAD", "ZERO_PAD"])));
    place.run(&["rules", "S90-CC", "--values"]).expect(2, &["cannot be used with"]);
}

#[test]
fn a_malformed_graph_tells_all_that_is_wrong_each_on_a_line_of_its_own() {
    let place = Place::new();
    let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
    graph.intermediate_data_type = Some(DataType::Float);
    let a = graph.tensor(Tensor::new("A").row_major([1, 64, 32]));
    let b = graph.tensor(Tensor::new("B").row_major([1, 128, 32]));
    let bias = graph.tensor(Tensor::new("bias").row_major([128]));
    let c = graph.matmul("mm", a, b);
    let y = graph.pointwise("add", PointwiseMode::Add, &[c, bias]);
    graph.set_output(y);
    let file = place.write("bad.json", frontend::write_v2(&graph));
    let told =
        ["bad.json: graph 1 'bad': malformed graph: operation 'mm'", "graph 1 'bad': malformed graph: operation 'add'"];
    place.run(&["check", &file]).expect(2, &told);
    place.run(&["explain", &file]).expect(2, &told);
    let json = place.run(&["check", "--format", "json", &file]).expect(2, &[]).out;
    let verdict: Value = serde_json::from_str(&json).unwrap();
    let lines: Vec<&str> = verdict["error"].as_str().unwrap().lines().collect();
    assert_eq!(lines.len(), 2, "{lines:#?}");
    assert!(lines.iter().all(|line| line.contains("bad.json: graph 1 'bad': malformed graph: ")), "{lines:#?}");
}

#[test]
fn a_refused_graph_comes_with_the_nearest_legal_one() {
    let place = Place::new();
    let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Half);
    graph.intermediate_data_type = Some(DataType::Float);
    let [a, b] = [[1, 32, 16], [1, 16, 64]].map(|dim| graph.tensor(Tensor::new("operand").row_major(dim)));
    let c = graph.matmul("mm", a, b);
    let y = graph.pointwise("relu", PointwiseMode::ReluFwd, &[c]);
    graph.set_output(y);
    let file = place.write("graph.json", frontend::write_v2(&graph.finalize().unwrap().to_graph()));
    let change = "compute operation 'relu' (POINTWISE RELU_FWD) in FLOAT instead of HALF";
    let arguments = ["check", file.as_str(), "--surface", "90"];
    place.run(&arguments).expect(1, &["to run here and to hold surface 90: ", change]);
    let ran = place.run(&[&arguments[..], &["--format", "json"]].concat()).expect(1, &[]);
    let record: Value = serde_json::from_str(&ran.out).unwrap();
    let nearest = &record["nearest"];
    assert_eq!((&nearest["text"], &nearest["surface"]), (&json!(change), &json!(90)));
    let edit = json!({"kind": "compute_data_type", "operation": "relu", "from": "HALF", "to": "FLOAT"});
    assert_eq!((&nearest["edits"], &nearest["engines"]), (&json!([edit]), &json!(["warpgroup_mma"])));
    assert!(record["nearest_documented"].is_null(), "it would be the same");
    place.run(&["compile", &file]).expect(1, &[change]);
}

/// Two matmuls in a chain: two graphs of one.
fn chain() -> Graph {
    let mut graph = Graph::new().name("chain").io_data_type(DataType::Half).compute_data_type(DataType::Float);
    graph.intermediate_data_type = Some(DataType::Half);
    let [a, b, d] = ["A", "B", "D"].map(|name| graph.tensor(Tensor::new(name).row_major([1, 64, 64])));
    let c = graph.matmul("first", a, b);
    let e = graph.matmul("second", c, d);
    graph.set_output(e);
    graph
}

#[test]
fn keys_that_are_not_read_are_told() {
    let place = Place::new();
    let mut graph: Value = sum_relu();
    graph["tensors"][0]["datatype"] = json!("DOUBLE");
    graph["nodes"][0]["negative_slope"] = json!(0.1);
    let file = place.write("graph.json", graph.to_string());
    place.run(&["check", &file]).expect(0, &["2 keys are not read: `datatype`, `negative_slope` [FEJ-11]"]);
}

#[test]
fn fixed_graphs_are_written_and_legal() {
    let place = Place::new();
    let [legal, cut] = [sum_relu().to_string(), one_line(&frontend::write_v2(&chain()))];
    let mut hopeless: Value = sum_relu();
    hopeless["nodes"][0]["mode"] = json!("FROBNICATE");
    let file = place.write("graphs.jsonl", format!("{legal}\n{cut}\n{hopeless}\n"));
    let fixed = place.text("fixed.json");
    let ran = place.run(&["check", &file, "--fix", &fixed]).expect(2, &["1 supported, 1 not supported, 1 malformed"]);
    assert!(ran.err.contains("without 1 graph for which no change is known"), "{ran:#?}");
    let again = place.run(&["check", &fixed, "--format", "json"]).expect(0, &[]);
    let names: Vec<Value> =
        again.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["graph"].clone()).collect();
    assert_eq!(names, [json!("graphs#1"), json!("chain.1"), json!("chain.2")]);
    assert!(ran.err.contains("3 graphs written, all of them legal"), "{ran:#?}");
    place.run(&["check", &file, "--fix", "/dev/full"]).expect(3, &[]);
    place.run(&["check", &file, "--fix", &file]).expect(2, &[]);
    place.run(&["check", &file, "--fix", &fixed, "--arch", "sm_80,sm_90"]).expect(2, &[]);
    let hopeless = place.write("hopeless.json", hopeless.to_string());
    place.run(&["check", &hopeless, "--fix", &fixed]).expect(2, &[]);
    place.run(&["check", &fixed]).expect(0, &["3 supported"]);
    place.run(&["check", &file, "--fix", &place.text("no/folder.json")]).expect(2, &[]);
}

/// JSON on one line.
fn one_line(json: &str) -> String {
    serde_json::from_str::<Value>(json).unwrap().to_string()
}

#[test]
fn the_name_that_is_printed_finds_the_same_graph() {
    let place = Place::new();
    // The second graph is called 1, as recorded graphs are.
    let file = place.write("numbers.jsonl", format!("{}\n{}\n", named("7", 2), named("1", 4)));
    let ran = place.run(&["check", &file, "--format", "json"]).expect(0, &[]);
    let names: Vec<Value> =
        ran.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["graph"].clone()).collect();
    assert_eq!(names, [json!("7"), json!("1")]);
    for (selector, dims) in [("1", "[4, 3, 4]"), ("#1", "[2, 3, 4]"), ("7", "[2, 3, 4]"), ("2", "[4, 3, 4]")] {
        place.run(&["run", &file, "--graph", selector, "--device", "cpu"]).expect(0, &[dims]);
    }
}

#[test]
fn a_repeated_graph_counts_once_and_is_told() {
    let place = Place::new();
    let file = place.write("twice.jsonl", format!("{0}\n{0}\n", named("net", 2)));
    let told = "graph 1 appears 2 times, the same each time; it counts once, and no graph is lost";
    place.run(&["check", &file]).expect(0, &["1 supported, 0 not supported", told]);
}

#[test]
fn a_folder_is_its_graph_files_in_order() {
    let place = Place::new();
    fs::create_dir(place.path("graphs")).unwrap();
    for (name, content) in [
        ("graphs/b.log", format!("start\n{}\n", named("second", 2))),
        ("graphs/a.json", named("first", 2).to_string()),
        ("graphs/c.jsonl", named("third", 2).to_string()),
        ("graphs/notes.txt", named("none", 2).to_string()),
    ] {
        place.write(name, content);
    }
    let ran = place.run(&["check", &place.text("graphs"), "--format", "json"]).expect(0, &[]);
    let names: Vec<Value> =
        ran.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["graph"].clone()).collect();
    assert_eq!(names, [json!("first"), json!("second"), json!("third")]);
    fs::create_dir(place.path("empty")).unwrap();
    place
        .run(&["check", &place.text("empty")])
        .expect(2, &["empty: is a folder without a file *.json, *.jsonl or *.log"]);
}

#[test]
fn several_chips_and_surfaces_may_stand_in_one_list() {
    let place = Place::new();
    let file = place.write("graph.json", sum_relu().to_string());
    let arches = |arguments: &[&str]| -> Vec<Value> {
        let ran = place.run(&[&["check", file.as_str(), "--format", "json"], arguments].concat()).expect(0, &[]);
        ran.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["arch"].clone()).collect()
    };
    let both = [json!("sm_80"), json!("sm_90")];
    assert_eq!(arches(&["--arch", "sm_80,sm_90"]), both);
    assert_eq!(arches(&["--arch", "sm_80", "--arch", "sm_90"]), both);
    place.run(&["check", &file, "--surface", "90,70"]).expect(0, &["surface 70"]);
    place.run(&["explain", &file, "--arch", "sm_80,sm_90"]).expect(0, &["sm_80", "sm_90"]);
}

#[test]
fn a_graph_that_no_kernel_computes_is_computed_with_a_warning() {
    let place = Place::new();
    let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
    graph.intermediate_data_type = Some(DataType::Float);
    let [a, b, d] = ["A", "B", "D"].map(|name| graph.tensor(Tensor::new(name).row_major([1, 16, 16])));
    let c = graph.matmul("one", a, b);
    let e = graph.matmul("other", c, d);
    graph.set_output(e);
    let file = place.write("two.json", frontend::write_v2(&graph));
    let warning = "no kernel exists for this graph on sm_90";
    let ran = place.run(&["run", &file, "--device", "cpu"]).expect(0, &["output"]);
    assert!(ran.err.contains(warning), "{ran:#?}");
    let legal = place.write("legal.json", sum_relu().to_string());
    let ran = place.run(&["run", &legal, "--device", "cpu"]).expect(0, &["output"]);
    assert!(!ran.err.contains(warning), "{ran:#?}");
}

#[test]
fn doctor_is_short_and_tells_the_places_on_request() {
    let place = Place::new();
    let mut command = place.command(&["doctor"]);
    let short = Ran::from(command.env_remove("FUSEWRIGHT_NVRTC").output().unwrap());
    assert!(short.out.lines().all(|line| line.len() < 260) && short.out.lines().count() < 12, "{short:#?}");
    let mut command = place.command(&["doctor", "-v"]);
    let verbose = Ran::from(command.env_remove("FUSEWRIGHT_NVRTC").output().unwrap());
    assert_eq!(short.out.contains("(-v: "), verbose.err.contains("looked "), "{verbose:#?}");
}

#[test]
fn doctor_names_everything_it_looked_for() {
    let ran = Place::new().run(&["doctor"]);
    assert!(matches!(ran.code, Some(0 | 3)), "{ran:#?}");
    for part in ["NVRTC", "CUDA driver", "C++ compiler", "disk cache", "graphs run on"] {
        assert!(ran.out.contains(part), "no {part} in {ran:#?}");
    }
}

/// One file has the kernels of several graphs for several chips; what is no such file is told, and done without.
#[test]
fn kernels_of_several_chips_come_into_one_file() {
    let place = Place::new();
    let graph = place.write("two.jsonl", format!("{}\n{}\n", named("one", 2), named("other", 4)));
    let file = place.text("kernels.bundle");
    let ran = place.run(&["compile", &graph, "--arch", "sm_80,sm_90", "--bundle", &file]);
    if ran.code == Some(3) && ran.err.contains("was not found") && !is_required("FUSEWRIGHT_REQUIRE_NVRTC") {
        return;
    }
    ran.expect(0, &["graph 1 'one' sm_80", "graph 2 'other' sm_90", "kernels.bundle: 4 binaries"]);
    let doctor = |file: &str| {
        Ran::from(place.command(&["doctor"]).env("FUSEWRIGHT_BUNDLE", file).output().expect("the program starts"))
    };
    assert!(doctor(&file).out.contains("bundle       4 binaries"));
    let whole = fs::read_to_string(&file).expect("a text");
    let damaged = place.write("damaged.bundle", whole.replace("sm_80", "sm_86"));
    for (file, why) in
        [(&damaged, "is damaged"), (&graph, "is no fusewright bundle"), (&place.text("none"), "cannot be read")]
    {
        let ran = doctor(file);
        assert!(!ran.out.contains("bundle") && ran.err.contains(why), "{}{}", ran.out, ran.err);
    }
    place.run(&["compile", &graph, "--bundle", &file, "--out", "x"]).expect(2, &["--bundle", "--out"]);
    place
        .run(&["compile", &graph, "--bundle", &place.text("no/folder")])
        .expect(2, &["no/folder", "cannot be written"]);
    let mut refused = named("refused", 2);
    refused["tensors"][1]["data_type"] = json!("DOUBLE");
    let refused = place.write("refused.json", refused.to_string());
    place.run(&["compile", &refused, "--bundle", &place.text("refused.bundle")]).expect(1, &["there is no binary"]);
    assert!(!place.path("refused.bundle").exists());
}

/// Where a config that serves many shapes is first, it is said what that costs.
#[test]
fn a_config_of_many_shapes_says_so() {
    let place = Place::new();
    let suite = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/suite/mm_bias_gelu_bf16_mlp.json");
    let mut graph: Value = serde_json::from_slice(&fs::read(suite).expect("a graph")).expect("JSON");
    for tensor in graph["tensors"].as_array_mut().expect("tensors") {
        let dim = tensor["dim"].as_array_mut().expect("extents");
        dim.iter_mut().filter(|extent| **extent == 8192).for_each(|extent| *extent = json!(100));
    }
    let explained = |is_dynamic: bool| {
        let mut graph = graph.clone();
        graph["context"]["is_dynamic_shape_enabled"] = json!(is_dynamic);
        place.run(&["explain", &place.write("rows.json", graph.to_string())]).expect(0, &["why the first config"]).out
    };
    let (dynamic, fixed) = (explained(true), explained(false));
    assert!(dynamic.contains("it serves many shapes; the next config is expected to take "), "{dynamic}");
    assert!(!fixed.contains("it serves many shapes"), "{fixed}");
}

/// All sizes of a graph share few binaries, which are named by the first size of each; what cannot have another size is told.
#[test]
fn all_sizes_of_a_graph_come_into_one_file() {
    let place = Place::new();
    let graph = place.write("one.json", named("one", 8).to_string());
    let file = place.text("sizes.bundle");
    let tensor = named("one", 8)["tensors"][0]["name"].as_str().expect("a name").to_owned();
    let sizes = |range: &str| {
        place.run(&["compile", &graph, "-v", "--extent", &format!("{tensor}.{range}"), "--bundle", &file])
    };
    for (range, why) in
        [("9=1..3", "have no axis 9"), ("1=3..1", "in ascending order"), ("1=x..3", "TENSOR.AXIS=FIRST..LAST")]
    {
        sizes(range).expect(2, &[why]);
    }
    place
        .run(&["compile", &graph, "--extent", "none.1=1..3", "--bundle", &file])
        .expect(2, &["tensor 'none'", "of that name"]);
    place.run(&["compile", &graph, "--extent", "x.1=1..3"]).expect(2, &["--bundle"]);
    let ran = sizes("1=2..60");
    if ran.code == Some(3) && ran.err.contains("was not found") && !is_required("FUSEWRIGHT_REQUIRE_NVRTC") {
        return;
    }
    let binaries = ran.out.lines().filter(|line| line.contains(" ms, cubin of ")).count();
    assert!((1..=4).contains(&binaries), "{}", ran.out);
    ran.expect(0, &[&format!("with {tensor}.1=2 sm_90"), "59 sizes"]);
}

#[test]
fn kernels_compile_and_are_written() {
    let place = Place::new();
    let graph = place.write("two.jsonl", format!("{}\n{}\n", named("one", 2), named("other", 4)));
    let out = place.text("out");
    let ran = place.run(&["compile", &graph, "--out", &out]);
    if ran.code == Some(3) && ran.err.contains("was not found") && !is_required("FUSEWRIGHT_REQUIRE_NVRTC") {
        return;
    }
    ran.expect(0, &["registers", "0 bytes spilled", "ms, cubin of"]);
    for file in ["one.sm_90a.cu", "one.sm_90a.cubin", "other.sm_90a.cu", "other.sm_90a.cubin"] {
        assert!(Path::new(&out).join(file).metadata().unwrap().len() > 0, "{file}");
    }
    let clash = place.write("clash.jsonl", format!("{}\n{}\n", named("net", 2), named("net", 4)));
    let other = place.text("other");
    place.run(&["compile", &clash, "--out", &other]).expect(2, &["graph 1 'net'", "graph 2 'net'", "net.sm_90a.cu"]);
    assert!(!Path::new(&other).exists());
}
