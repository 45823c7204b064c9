//! Pages for browsers, in a real one: what a person looks at, measured where it is drawn.
//!
//! Without Chromium the test is skipped and says so; `FUSEWRIGHT_REQUIRE_BROWSER=1` makes that a failure.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

/// Put at the end of a copy of a page: opens all that is folded, measures, and leaves what it found in the document.
const MEASURE: &str = include_str!("data/measure.js");

/// Bytes of a page for a graph of 200 operations at most.
const LARGEST: u64 = 300 * 1024;

const HOSTILE: &str =
    "</title></script><script>window.evil=1</script><img src=x onerror='window.evil=1'>\" &amp; {{ evil }}";

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).expect("the folder can be written");
        path
    }

    /// The page that the program writes with these arguments, and its exit code.
    fn page(&self, name: &str, arguments: &[&str]) -> (PathBuf, Option<i32>) {
        let page = self.path(name);
        let mut command = Command::new(env!("CARGO_BIN_EXE_fusewright"));
        command.args(arguments).arg("--html").arg(&page).env("FUSEWRIGHT_CACHE_DIR", self.path("cache"));
        let output = command.output().expect("the program starts");
        assert!(page.exists(), "{output:?}");
        (page, output.status.code())
    }

    fn explained(&self, name: &str, text: &str) -> (PathBuf, Option<i32>) {
        let file = self.write(name, text);
        self.page(&format!("{name}.html"), &["explain", file.to_str().expect("UTF-8")])
    }
}

fn suite(name: &str) -> Value {
    let path = Path::new("tests/data/suite").join(name);
    serde_json::from_slice(&fs::read(path).expect("a graph of the suite")).expect("JSON")
}

/// A product computed in a type that its operands do not allow: refused, with a change.
fn refused() -> Value {
    let mut graph = suite("mm_fp8_8192.json");
    graph["nodes"][0]["compute_data_type"] = json!("HALF");
    graph
}

/// Names of every kind that would be markup.
fn hostile(mut graph: Value) -> Value {
    graph["context"]["name"] = json!(HOSTILE);
    for list in ["tensors", "nodes"] {
        for (number, item) in graph[list].as_array_mut().expect("a list").iter_mut().enumerate() {
            item["name"] = json!(format!("{HOSTILE}{number}"));
        }
    }
    graph
}

/// A product and a chain behind it, with side inputs and values that are read again near and far below: so many operations.
fn chain(operations: usize) -> Value {
    let mut tensors: Vec<Value> = Vec::new();
    let mut tensor = |name: String, dim: [i64; 3], data_type: &str, is_virtual: bool| {
        let uid = tensors.len() as i64 + 1;
        tensors.push(json!({"uid": uid, "name": name, "data_type": data_type, "dim": dim,
            "stride": [dim[1] * dim[2], dim[2], 1], "is_virtual": is_virtual, "is_pass_by_value": false,
            "pass_by_value": null, "reordering_type": "NONE"}));
        uid
    };
    let a = tensor("A".into(), [1, 512, 256], "HALF", false);
    let b = tensor("B".into(), [1, 256, 512], "HALF", false);
    let mut values = vec![tensor("mm::C".into(), [1, 512, 512], "FLOAT", true)];
    let mut nodes = vec![json!({"tag": "MATMUL", "name": "mm", "compute_data_type": "FLOAT", "padding_value": 0.0,
        "inputs": {"A": a, "B": b}, "outputs": {"C": values[0]}})];
    for number in 1..operations {
        let last = *values.last().expect("the product");
        let (mode, other) = match number {
            _ if number % 3 == 0 => ("ADD", Some(tensor(format!("layer.{number}.bias"), [1, 1, 512], "HALF", false))),
            _ if number % 7 == 0 => ("MUL", Some(values[values.len() - 4])),
            _ if number % 11 == 0 => ("MAX", Some(values[values.len().saturating_sub(15)])),
            _ => ("RELU_FWD", None),
        };
        let is_last = number + 1 == operations;
        let data_type = if is_last { "HALF" } else { "FLOAT" };
        let output = tensor(format!("op{number}::OUT_0"), [1, 512, 512], data_type, !is_last);
        let mut inputs = json!({"IN_0": last});
        other.iter().for_each(|other| inputs["IN_1"] = json!(other));
        nodes.push(json!({"tag": "POINTWISE", "name": format!("op{number}"), "mode": mode, "axis": null,
            "compute_data_type": "FLOAT", "inputs": inputs, "outputs": {"OUT_0": output}}));
        values.push(output);
    }
    let context = json!({"name": "chain", "io_data_type": "HALF", "intermediate_data_type": "FLOAT",
        "compute_data_type": "FLOAT"});
    json!({"context": context, "nodes": nodes, "tensors": tensors, "json_version": "2.0"})
}

fn records() -> (Value, Value) {
    let names = ["mm_bf16_8192", "conv_3x3_c64_56_bias_relu", HOSTILE];
    let record = |(number, name): (usize, &&str)| {
        json!({"case": name, "median_ms": 0.5 + number as f64, "build_ms": 50.0, "host_us_per_execute": 2.0,
            "host_us_per_graph_launch": 1.5, "engine": "warp_mma", "config": "warp_mma tile_m=128 tile_n=128",
            "fraction_of_floor": 0.99 - 0.3 * number as f64})
    };
    let records: Vec<Value> = names.iter().enumerate().map(record).collect();
    let peers = json!({"meta": {"machine": "one GPU", "date": "2026-11-23"}, "cases": [
        {"case": "ceilings", "copy_gb_s": 4275.1},
        {"case": "mm_bf16_8192", "median_ms": 0.6, "best_ms": 0.4, "torch_ms": 0.7, "inductor_ms": null},
        {"case": HOSTILE, "median_ms": 20.0, "torch_ms": 2.0, "inductor_ms": 2.4}]});
    (json!(records), peers)
}

fn bench(place: &Place) -> PathBuf {
    let (records, peers) = records();
    let records = place.write("records.json", records.to_string());
    let peers = place.write("peers.json", peers.to_string());
    let text = |path: &PathBuf| path.to_str().expect("UTF-8").to_owned();
    let (page, code) = place.page("bench.html", &["bench", "--from", &text(&records), "--peers", &text(&peers)]);
    assert_eq!(code, Some(0));
    page
}

/// Chromium, where it is installed.
fn browser() -> Option<PathBuf> {
    let folders: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("PATH")?).collect();
    let found = ["chromium", "chromium-browser", "google-chrome"].iter().flat_map(|name| {
        let candidates: Vec<PathBuf> = folders.iter().map(|folder| folder.join(name)).collect();
        candidates
    });
    found.into_iter().find(|path| path.is_file())
}

/// What [`MEASURE`] found on a page.
fn measured(browser: &Path, page: &Path, is_dark: bool) -> Value {
    let text = fs::read_to_string(page).expect("a page");
    let copy = page.with_extension(if is_dark { "dark.html" } else { "light.html" });
    fs::write(&copy, text.replace("</body>", &format!("<script>{MEASURE}</script></body>"))).expect("a copy");
    let profile = page.with_extension("profile");
    let scheme = if is_dark { 0 } else { 1 };
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--enable-logging=stderr"])
        .args(["--window-size=1280,900", "--dump-dom", "--host-resolver-rules=MAP * ~NOTFOUND"])
        .arg(format!("--blink-settings=preferredColorScheme={scheme}"))
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("file://{}", copy.display()))
        .output()
        .expect("the browser starts");
    let said = String::from_utf8_lossy(&output.stderr);
    let console: Vec<&str> = said.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(console.is_empty(), "{}: {console:?}", page.display());
    let dom = String::from_utf8_lossy(&output.stdout);
    let found = dom.split_once("<output id=\"measured\">").and_then(|(_, rest)| rest.split_once("</output>"));
    let (found, _) = found.unwrap_or_else(|| panic!("{} measured nothing: {said}", page.display()));
    serde_json::from_str(&found.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")).expect("JSON")
}

/// Nothing is wrong with a page in light and dark; gives what was counted.
#[track_caller]
fn looks_right(browser: &Path, page: &Path) -> Value {
    let [light, dark] = [false, true].map(|is_dark| {
        let found = measured(browser, page, is_dark);
        assert_eq!(found["wrong"], json!([]), "{} dark: {is_dark}", page.display());
        assert_eq!(found["dark"], json!(is_dark));
        found
    });
    assert_ne!(light["background"], dark["background"]);
    light
}

#[expect(clippy::print_stderr, reason = "what is not tested is said")]
fn skipped(why: &str) {
    eprintln!("SKIPPED: {why}");
}

#[test]
fn pages_look_right_in_a_browser() {
    let Some(browser) = browser() else {
        let is_required = std::env::var_os("FUSEWRIGHT_REQUIRE_BROWSER").is_some_and(|value| value == "1");
        assert!(!is_required, "no chromium in PATH: apt-get install chromium");
        return skipped("no chromium in PATH (apt-get install chromium)");
    };
    let place = Place::new();
    let (page, code) = place.explained("supported.json", &suite("mm_bias_gelu_bf16_m16.json").to_string());
    let found = looks_right(&browser, &page);
    assert_eq!((code, &found["operations"], &found["broken"]), (Some(0), &json!(3), &json!(0)));
    assert_eq!((&found["inputs"], &found["lines"], &found["rooflines"]), (&json!(3), &json!(5), &json!(1)));

    let (page, code) = place.explained("refused.json", &refused().to_string());
    let found = looks_right(&browser, &page);
    assert_eq!(code, Some(1));
    assert!(found["broken"].as_u64() > Some(0) && found["changed"].as_u64() > Some(0), "{found}");

    let mut malformed = suite("mm_bf16_2048.json");
    malformed["tensors"][0]["dim"][1] = json!(0);
    let graphs = [hostile(suite("conv_g1_genstats_c256_14.json")), hostile(refused()), malformed];
    let lines: String = graphs.iter().map(|graph| format!("{graph}\n")).collect();
    let (page, code) = place.explained("several.jsonl", &lines);
    let found = looks_right(&browser, &page);
    assert_eq!((code, &found["graphs"], &found["rows"]), (Some(2), &json!(3), &json!(3)), "{found}");
    // its row and its section
    assert_eq!(found["searched"], json!(2), "{found}");

    let (page, _) = place.explained("chain.json", &chain(200).to_string());
    assert_eq!(looks_right(&browser, &page)["operations"], json!(200));
    assert_eq!(looks_right(&browser, &bench(&place))["bars"], json!(8));
}

#[test]
fn a_page_of_200_operations_is_small_and_soon_made() {
    let place = Place::new();
    let text = chain(200).to_string();
    place.explained("warm.json", &text);
    let start = std::time::Instant::now();
    let (page, code) = place.explained("chain.json", &text);
    let took = start.elapsed();
    let bytes = fs::metadata(&page).expect("a page").len();
    assert_eq!(code, Some(0));
    assert!(bytes <= LARGEST, "{bytes} bytes");
    // 0.1 s is what an optimized program takes on an idle machine, with its start
    assert!(took.as_secs_f64() < 2.0, "{took:?}");
}

#[test]
fn pages_fetch_nothing_and_hold_no_name_as_markup() {
    let place = Place::new();
    let (page, _) = place.explained("hostile.json", &hostile(suite("conv_g1_genstats_c256_14.json")).to_string());
    for page in [page, bench(&place)] {
        let text = fs::read_to_string(&page).expect("a page");
        assert!(text.contains("&lt;script&gt;window.evil=1"), "the names are there");
        assert_eq!(text.matches("<script").count(), 1, "{}", page.display());
        for fetched in ["<img", "http://", "https://", "<link rel=\"stylesheet", "@import", "url(\"", "src="] {
            let markup = text.replace("src=x", "");
            assert!(!markup.contains(fetched), "{}: {fetched}", page.display());
        }
        assert!(text.contains("default-src 'none'"));
    }
}

#[test]
fn too_many_operations_are_listed_instead_of_drawn() {
    let place = Place::new();
    let (page, _) = place.explained("chain.json", &chain(450).to_string());
    let text = fs::read_to_string(&page).expect("a page");
    assert!(
        text.contains("The graph has 450 operations: too many to be drawn.") && !text.contains("class=\"drawing\"")
    );
}

#[test]
fn records_and_peers_that_cannot_be_read_are_bad_input() {
    let place = Place::new();
    let (records, page) = (place.write("records.json", "[]"), place.path("page.html"));
    let bad = place.write("bad.json", "{\"cases\": 1}");
    let run = |arguments: &[&std::ffi::OsStr]| {
        let output = Command::new(env!("CARGO_BIN_EXE_fusewright")).arg("bench").args(arguments).output();
        output.expect("the program starts").status.code()
    };
    let [from, html, peers] = ["--from", "--html", "--peers"].map(std::ffi::OsStr::new);
    let none = place.path("none.json");
    assert_eq!(run(&[from, none.as_os_str(), html, page.as_os_str()]), Some(2));
    assert_eq!(run(&[from, records.as_os_str(), html, page.as_os_str(), peers, bad.as_os_str()]), Some(2));
    assert_eq!(run(&[from, records.as_os_str()]), Some(2));
    assert!(!page.exists());
    assert_eq!(run(&[from, records.as_os_str(), html, page.as_os_str()]), Some(0));
}
