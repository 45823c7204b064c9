//! The order of modules: each uses only those above it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Top-level modules in pipeline order. `error` is used by all.
const ORDER: &[&str] = &[
    "logging",
    "graph",
    "frontend",
    "device",
    "fusion",
    "support",
    "kernel",
    "error",
    "engine",
    "codegen",
    "compile",
    "build",
    "host_tensor",
    "reference",
    "emulator",
    "plan",
    "harness",
    "tuning",
    "session",
    "capi",
    "fuzz",
    "cli",
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a readable source folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The text without its tests: unit tests may use any module. A module of tests that lies in another file is only named.
fn without_tests(text: &str) -> &str {
    const TESTS: &str = "#[cfg(test)]\nmod ";
    let is_body = |start: &usize| text[start + TESTS.len()..].lines().next().is_some_and(|line| line.ends_with('{'));
    let start = text.match_indices(TESTS).map(|(start, _)| start).find(is_body);
    &text[..start.unwrap_or(text.len())]
}

/// Top-level modules that a text names through `crate::`.
fn used_modules(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.flat_map(|line| line.split("crate::").skip(1)).map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_lowercase() && c != '_' && !c.is_ascii_digit());
        &rest[..end.unwrap_or(rest.len())]
    })
}

#[test]
fn lib_lists_the_modules_in_order() {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs")).expect("src/lib.rs");
    let listed: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';')).collect();
    assert_eq!(listed, ORDER);
}

#[test]
fn no_module_uses_one_below_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let position = |module: &str| ORDER.iter().position(|known| *known == module);
    let mut files = Vec::new();
    sources(&root, &mut files);
    let mut wrong = Vec::new();
    for path in files {
        let relative = path.strip_prefix(&root).expect("below src");
        let top = relative.components().next().expect("a file name").as_os_str().to_string_lossy().replace(".rs", "");
        let is_test = relative.components().any(|part| part.as_os_str() == "tests") || relative.ends_with("tests.rs");
        let Some(own) = position(&top).filter(|_| !is_test) else { continue };
        let text = fs::read_to_string(&path).expect("a readable source file");
        for used in used_modules(without_tests(&text)) {
            if position(used).is_some_and(|used| used > own) {
                wrong.push(format!("{} uses {used}", relative.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Production code of a module: each file's path below `src`, and its text without tests.
fn production_code(module: &str) -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root.join(module), &mut files);
    files.sort();
    let text = |path: &Path| without_tests(&fs::read_to_string(path).expect("a readable source file")).to_owned();
    let below = |path: &Path| path.strip_prefix(&root).expect("below src").to_owned();
    files.iter().filter(|path| !is_test(path)).map(|path| (below(path), text(path))).collect()
}

/// Sessions, the C ABI and plans (which come before it) run on memory that their callers own: none is poisoned or guarded.
#[test]
fn the_runtime_needs_no_harness() {
    for (path, text) in ["session", "capi"].into_iter().flat_map(production_code) {
        assert!(used_modules(&text).all(|used| used != "harness"), "{} uses the harness", path.display());
    }
}

/// What follows each of these prefixes of paths in a text: its first identifier, and where a list in braces follows, those of all
/// its entries.
fn identifiers_behind<'a>(text: &'a str, prefix: &str) -> Vec<&'a str> {
    let identifier = |path: &'a str| {
        let end = path.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        &path[..end.unwrap_or(path.len())]
    };
    let is_start = |at: usize| !text[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':');
    let mut found = Vec::new();
    for (at, _) in text.match_indices(prefix).filter(|&(at, _)| is_start(at)) {
        let rest = &text[at + prefix.len()..];
        let Some(list) = rest.strip_prefix('{') else {
            found.push(identifier(rest));
            continue;
        };
        let (mut depth, mut is_first) = (1, true);
        for (at, character) in list.char_indices() {
            match character {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 1 => is_first = true,
                _ if is_first && !character.is_whitespace() => {
                    found.push(identifier(&list[at..]));
                    is_first = false;
                }
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
    }
    found
}

/// What a front, `mod.rs`, declares for all and re-exports, by name.
fn exported(front: &str) -> Vec<&str> {
    const KINDS: &[&str] = &["const", "enum", "fn", "static", "struct", "trait", "type"];
    let items = KINDS.iter().map(|kind| format!("\npub {kind} "));
    let modules = identifiers_behind(front, "pub use ").into_iter().map(|module| format!("pub use {module}::"));
    items.chain(modules).flat_map(|prefix| identifiers_behind(front, &prefix)).collect()
}

/// The modules that the front of one re-exports names from, by those names.
fn reexports(module: &str, front: &str, modules: &[&str]) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for source in modules {
        let all = if front.contains(&format!("pub use {source}::*;")) {
            read_front(&format!("{module}/{source}"))
        } else {
            String::new()
        };
        let names = identifiers_behind(front, &format!("use {source}::")).into_iter().chain(exported(&all));
        found.extend(names.map(|name| (name.to_owned(), (*source).to_owned())));
    }
    found
}

/// The front of a module: `mod.rs` of its folder, or its file.
fn read_front(module: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(module);
    fs::read_to_string(path.join("mod.rs")).or_else(|_| fs::read_to_string(path.with_extension("rs"))).expect("a front")
}

/// Asserts that the modules directly in one (`fuzz/targets/abi`) use only those before them, whether by their own names or by what
/// the module's front re-exports; the front itself, `mod.rs`, may use all. All of its modules are listed.
fn assert_order_within(module: &str, order: &[&str]) {
    let front = read_front(module);
    let declared = front.lines().filter_map(|line| line.strip_suffix(';')?.split_once("mod ").map(|(_, name)| name));
    let unlisted: Vec<&str> = declared.filter(|name| !order.contains(name) && *name != "tests").collect();
    assert!(unlisted.is_empty(), "{module}: {unlisted:?} have no place in the order");
    let reexports = reexports(module, &front, order);
    let mut wrong = Vec::new();
    for (path, text) in production_code(module) {
        let below = path.strip_prefix(module).expect("below the module");
        let parts: Vec<String> =
            below.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
        if parts == ["mod"] {
            continue;
        }
        let own = order.iter().position(|known| *known == parts[0]).unwrap_or_else(|| panic!("{}", path.display()));
        let code: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        let code = code.join("\n");
        let depth = parts.iter().filter(|part| *part != "mod").count();
        let by_root = format!("crate::{}::", module.replace('/', "::"));
        for used in [by_root, "super::".repeat(depth)].iter().flat_map(|prefix| identifiers_behind(&code, prefix)) {
            let source = reexports.get(used).map_or(used, String::as_str);
            let is_above = order.iter().position(|known| *known == source).is_some_and(|used| used <= own);
            if !is_above && used != "super" {
                wrong.push(format!("{} uses {used}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn identifiers_behind_a_prefix() {
    let text = "use super::a::{B, c};\nuse super::{self, d,\n    e::{F, G}, h as i};\nsuper::super::k(); x::super::l";
    assert_eq!(identifiers_behind(text, "super::"), ["a", "self", "d", "e", "h", "super"]);
    assert_eq!(identifiers_behind(text, "super::super::"), ["k"]);
}

#[test]
fn what_a_front_exports() {
    let front = "mod a;\npub use a::{B, C};\nuse d::E;\n\npub enum F {}\npub(crate) struct G;\n";
    assert_eq!(exported(front), ["F", "B", "C"]);
}

#[test]
fn the_checker_is_in_order() {
    assert_order_within(
        "support",
        &[
            "source",
            "rule",
            "records",
            "forms",
            "layout",
            "surface",
            "context",
            "findings",
            "order",
            "rules",
            "family",
            "supported",
            "report",
            "checker",
            "nearest",
            "verdict",
            "table",
            "index",
        ],
    );
}

/// What is computed at a point, how points are visited, products, the lowered graph.
const KERNEL: &[&str] = &[
    "accumulate",
    "number",
    "index",
    "iteration",
    "launch",
    "window",
    "boxes",
    "expr",
    "space",
    "multiply",
    "step_tail",
    "sweep",
    "operand",
    "taps",
    "shared",
    "body",
    "lowered",
    "limits",
];

/// What an engine is, what lowering shares, the engines, the choice among them.
const ENGINE: &[&str] = &[
    "estimate",
    "config",
    "favourites",
    "floor",
    "builder",
    "offer",
    "limits",
    "lowering",
    "engines",
    "stored",
    "decision",
    "heuristics",
];

/// What is accepted, sweeps, operands, passes, products.
const LOWERING: &[&str] = &[
    "composite",
    "converted",
    "movement",
    "packed",
    "problem",
    "tap_rows",
    "signal",
    "tuning",
    "accept",
    "multiplied",
    "sweep",
    "boxed_operand",
    "box_rows",
    "im2col",
    "tensor_map",
    "boxes",
    "operand",
    "columns",
    "combination",
    "transposed",
    "all_gather",
    "passes",
    "totals",
    "phases",
    "row_threads",
    "rows",
    "channels",
    "together",
    "pass",
    "copied",
    "inside",
    "epilogue",
    "product",
];

/// Text, identifiers, values at a point, skeletons.
const CODEGEN: &[&str] = &[
    "layout",
    "names",
    "sections",
    "template",
    "expression",
    "told",
    "index",
    "parameters",
    "sweep",
    "movement",
    "tile",
    "copy",
    "unfold",
    "depthwise",
    "packed",
    "product",
    "reduction",
    "all_gather",
    "attention",
    "columns",
    "transposed",
    "moments",
    "phases",
    "rows",
    "rows_staying",
    "channels",
];

#[test]
fn kernels_engines_and_code_generation_are_in_order() {
    assert_order_within("kernel", KERNEL);
    assert_order_within(
        "kernel/body",
        &[
            "all_gather",
            "attention_bias",
            "dropout",
            "value_scaling",
            "score_program",
            "attention",
            "gradient_scaling",
            "tile_counter",
            "turned_values",
            "attention_combination",
            "score_gradients",
            "attention_backward",
            "warp_attention",
            "attention_bias_gradient",
            "attention_queries",
            "columns",
            "tile",
            "transposed",
            "copy",
            "depthwise",
            "pointwise",
            "moments",
            "phase",
            "rows",
            "channels",
            "inside",
            "gemm",
        ],
    );
    assert_order_within("engine", ENGINE);
    assert_order_within(
        "engine/engines",
        &[
            "attention",
            "attention_backward",
            "warp_attention",
            "warp_attention_backward",
            "direct",
            "scalar",
            "warp_mma",
            "warpgroup_mma",
            "chain",
        ],
    );
    assert_order_within("engine/lowering", LOWERING);
    assert_order_within("engine/lowering/copied", &["layout", "unfolded", "windows", "evaluated", "copy"]);
    assert_order_within("codegen", CODEGEN);
    assert_order_within("codegen/product", &["unit", "operand", "epilogue", "loads", "fma", "mma", "wgmma"]);
}

#[test]
fn the_abi_is_in_order() {
    assert_order_within(
        "capi",
        &[
            "attribute",
            "composite",
            "attributes",
            "failure",
            "gate",
            "registry",
            "translate",
            "handle",
            "descriptor",
            "device",
            "tensor",
            "operation",
            "graph",
            "attention",
            "kernels",
            "engine",
            "quick",
            "plan",
            "objects",
            "callback",
            "calls",
            "exports",
            "legacy",
        ],
    );
}

#[test]
fn the_fuzzer_is_in_order() {
    assert_order_within(
        "fuzz",
        &[
            "family",
            "choices",
            "finding",
            "twist",
            "rewrite",
            "metamorphic",
            "generator",
            "breaker",
            "runner",
            "shapes",
            "change",
            "oracle",
            "minimize",
            "campaign",
            "targets",
        ],
    );
    assert_order_within(
        "fuzz/targets/abi",
        &["elements", "caller", "texts", "draws", "links", "handles", "forks", "graph", "engines"],
    );
}

#[test]
fn the_command_line_is_in_order() {
    assert_order_within(
        "cli",
        &[
            "plain",
            "units",
            "outcome",
            "console",
            "cost",
            "extent",
            "arguments",
            "files",
            "tensor_file",
            "cache",
            "executor",
            "verify",
            "run",
            "check",
            "explanation",
            "page",
            "explain",
            "compile",
            "bundle",
            "bench",
            "rules",
            "fuzz",
            "doctor",
        ],
    );
}

#[test]
fn pages_are_in_order() {
    assert_order_within("cli/page", &["render", "layout", "drawing", "highlight", "roofline", "explained", "bars"]);
}

/// What a file has of unsafe code: blocks, functions that ask something of their callers, and promises to the compiler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct UnsafeCode {
    blocks: usize,
    functions: usize,
    implementations: usize,
}

fn unsafe_code(text: &str) -> UnsafeCode {
    let mut found = UnsafeCode::default();
    for line in without_tests(text).lines().map(str::trim_start).filter(|line| !line.starts_with("//")) {
        for rest in line.split("unsafe ").skip(1) {
            match rest.split([' ', '<', '(']).next() {
                Some("impl") => found.implementations += 1,
                // a declaration of foreign functions is no function of ours; a type of function has no name
                Some("fn") if rest.starts_with("fn ") => found.functions += 1,
                Some("extern") if rest.contains(" fn ") => found.functions += 1,
                Some(block) if block.starts_with('{') => found.blocks += 1,
                _ => {}
            }
        }
    }
    found
}

/// `docs/unsafe.md` has a row for each file with unsafe code: how much, and why it is sound.
#[test]
fn unsafe_code_has_its_argument() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let document = fs::read_to_string(root.join("docs/unsafe.md")).expect("docs/unsafe.md");
    let rows: Vec<Vec<&str>> = document
        .lines()
        .filter_map(|line| line.strip_prefix("| `").filter(|row| row.contains(".rs` |")))
        .map(|row| row.split('|').map(|cell| cell.trim().trim_end_matches('`')).collect())
        .collect();
    let mut files = Vec::new();
    for folder in ["cudnn/src", "python/src", "src"] {
        sources(&root.join(folder), &mut files);
    }
    files.sort();
    let mut wrong = Vec::new();
    let mut named = 0;
    for path in files.iter().filter(|path| !is_test(path)) {
        let code = unsafe_code(&fs::read_to_string(path).expect("a readable source file"));
        let name = path.strip_prefix(root).expect("in the repository").display().to_string();
        let row = rows.iter().find(|row| row[0] == name);
        named += usize::from(row.is_some());
        if row.is_none() && code == UnsafeCode::default() {
            continue;
        }
        let UnsafeCode { blocks, functions, implementations } = code;
        let required = [blocks, functions, implementations].map(|count| count.to_string());
        let argument = row.and_then(|row| row.get(4)).copied().unwrap_or_default();
        let is_right = row.is_some_and(|row| row.len() > 4 && row[1..4] == required);
        if !is_right || argument.split_whitespace().count() < 4 {
            wrong.push(format!("| `{name}` | {} | {argument} |", required.join(" | ")));
        }
    }
    assert!(wrong.is_empty(), "rows of docs/unsafe.md that are missing, or say something else:\n{}", wrong.join("\n"));
    assert_eq!(named, rows.len(), "rows of docs/unsafe.md for files that have no unsafe code, or are gone");
}

fn is_test(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "tests") || path.ends_with("tests.rs")
}

#[test]
fn unsafe_code_is_counted() {
    let text = "#[cfg(test)]\nmod elsewhere;\nunsafe impl Send for A {}\n// unsafe { no }\npub unsafe fn f(g: unsafe extern \"C\" fn(i32)) {\n    \
                let x = unsafe { g(1) };\n}\nunsafe extern \"C\" {\n    fn h();\n}\n#[unsafe(no_mangle)]\n\
                pub unsafe extern \"C\" fn i() {}\n#[cfg(test)]\nmod tests {\n    unsafe { j() }\n}\n";
    assert_eq!(unsafe_code(text), UnsafeCode { blocks: 1, functions: 2, implementations: 1 });
}

/// `docs/security.md` says which test holds what: each is there.
#[test]
fn security_names_tests_that_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let document = fs::read_to_string(root.join("docs/security.md")).expect("docs/security.md");
    let mut files = Vec::new();
    for folder in ["src", "tests"] {
        sources(&root.join(folder), &mut files);
    }
    let texts: Vec<String> =
        files.iter().map(|path| fs::read_to_string(path).expect("a readable source file")).collect();
    let is_there = |name: &str| {
        let (function, trial) = (format!("fn {name}("), format!("::{name}\""));
        root.join(name).is_file()
            || root.join("fuzz/fuzz_targets").join(name).with_extension("rs").is_file()
            || texts.iter().any(|text| text.contains(&function) || text.contains(&trial))
    };
    let rows =
        document.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| Who") && !line.contains("---"));
    let mut count = 0;
    for row in rows {
        let held_by = row.trim_end_matches(" |").rsplit(" | ").next().expect("a last cell");
        let names: Vec<&str> = held_by.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "nothing holds this: {row}");
        for name in names {
            assert!(is_there(name), "docs/security.md: there is no test {name}");
        }
        count += 1;
    }
    assert!(count > 10, "{count} rows were read");
}
