//! Pictures and tables of the documentation, made from data: none can be stale.

mod common;

use std::fmt::Write as _;

use common::snapshot;
use serde::Deserialize;

/// Runs of parts of the suite beside its peers, as `scripts/performance.py` writes them.
#[derive(Deserialize)]
struct Figures {
    runs: Vec<Run>,
}

/// Cases that were measured beside their peers on one machine, one after another.
#[derive(Deserialize)]
struct Run {
    /// Which cases these are.
    what: String,
    machine: String,
    date: String,
    commit: String,
    command: String,
    /// Cases that the peers ran and no engine takes yet.
    not_run: Vec<String>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    case: String,
    class: String,
    ms: f64,
    engine: String,
    fraction_of_floor: f64,
    build_ms: f64,
    peers: std::collections::BTreeMap<String, f64>,
}

impl Figures {
    fn cases(&self) -> impl Iterator<Item = &Case> {
        self.runs.iter().flat_map(|run| &run.cases)
    }
}

impl Case {
    /// The fastest peer with its time.
    fn best(&self) -> Option<(&str, f64)> {
        let best = self.peers.iter().min_by(|one, other| one.1.total_cmp(other.1));
        best.map(|(name, &time)| (name.as_str(), time))
    }

    /// The fastest peer's time over ours: above 1 where ours is faster.
    fn ratio(&self) -> Option<f64> {
        self.best().map(|(_, time)| time / self.ms)
    }
}

/// Ratios of one class, in ascending order.
struct Class<'a> {
    title: &'a str,
    ratios: Vec<f64>,
}

impl Class<'_> {
    fn median(&self) -> f64 {
        let middle = self.ratios.len() / 2;
        match self.ratios.len() % 2 {
            0 => (self.ratios[middle - 1] + self.ratios[middle]) / 2.0,
            _ => self.ratios[middle],
        }
    }
}

fn figures() -> Figures {
    serde_json::from_str(include_str!("../docs/performance.json")).expect("runs")
}

fn classes(figures: &Figures) -> Vec<Class<'_>> {
    let mut classes: Vec<Class> = Vec::new();
    for case in figures.cases() {
        let Some(ratio) = case.ratio() else { continue };
        match classes.iter_mut().find(|class| class.title == case.class) {
            Some(class) => class.ratios.push(ratio),
            None => classes.push(Class { title: &case.class, ratios: vec![ratio] }),
        }
    }
    classes.iter_mut().for_each(|class| class.ratios.sort_by(f64::total_cmp));
    classes
}

fn geometric_mean(ratios: &[f64]) -> f64 {
    (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp()
}

/// Colours that tell apart for all eyes, on light and dark ground.
const STYLE: &str = "<style>
text { font: 13px system-ui, sans-serif; fill: #24292f }
.quiet { fill: #57606a } .line { stroke: #8c959f } .rule { stroke: #d0d7de }
.ahead { fill: #0969da } .behind { fill: #bc4c00 } .mark { fill: #ffffff } .box { fill: #f6f8fa; stroke: #8c959f }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .quiet { fill: #9198a1 } .rule { stroke: #3d444d } .ahead { fill: #58a6ff } .behind { fill: #f0883e }
.mark { fill: #0d1117 } .box { fill: #161b22 } }
</style>";

fn svg(width: u32, height: u32, title: &str, body: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" role=\"img\">\n\
         <title>{title}</title>\n{STYLE}\n{body}</svg>\n"
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Where the bars begin, in pixels.
const LEFT: f64 = 220.0;
/// How wide they may be.
const BARS: f64 = 420.0;
/// Ratios at the ends of the axis, which is logarithmic.
const ENDS: [f64; 2] = [0.0625, 4.0];

fn place(ratio: f64) -> f64 {
    let [first, last] = ENDS.map(f64::log2);
    LEFT + BARS * (ratio.clamp(ENDS[0], ENDS[1]).log2() - first) / (last - first)
}

/// A bar for each class, from its slowest case to its fastest, with its median.
fn performance_picture(figures: &Figures) -> String {
    let classes = classes(figures);
    let (row, top) = (26.0, 40.0);
    let bottom = top + row * classes.len() as f64;
    let mut body = String::new();
    for ratio in [0.0625, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0] {
        let (x, class) = (place(ratio), if ratio == 1.0 { "line" } else { "rule" });
        writeln!(
            body,
            "<line class=\"{class}\" x1=\"{x:.1}\" y1=\"{:.0}\" x2=\"{x:.1}\" y2=\"{bottom:.0}\"/>",
            top - 8.0
        )
        .expect("text grows");
        writeln!(
            body,
            "<text class=\"quiet\" x=\"{x:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{ratio}×</text>",
            top - 14.0
        )
        .expect("text grows");
    }
    for (number, class) in classes.iter().enumerate() {
        let y = top + row * number as f64;
        let (least, most, median) = (class.ratios[0], class.ratios[class.ratios.len() - 1], class.median());
        let [x, end, middle] = [least, most, median].map(place);
        let colour = if median >= 1.0 { "ahead" } else { "behind" };
        writeln!(
            body,
            "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">{}</text>",
            LEFT - 14.0,
            y + 17.0,
            escaped(class.title)
        )
        .expect("text grows");
        writeln!(
            body,
            "<rect class=\"{colour}\" x=\"{:.1}\" y=\"{:.0}\" width=\"{:.1}\" height=\"14\" rx=\"3\"/>",
            x - 3.0,
            y + 5.0,
            end - x + 6.0
        )
        .expect("text grows");
        writeln!(
            body,
            "<rect class=\"mark\" x=\"{:.1}\" y=\"{:.0}\" width=\"2\" height=\"14\"/>",
            middle - 1.0,
            y + 5.0
        )
        .expect("text grows");
        let cases = if class.ratios.len() == 1 { "1 case".to_owned() } else { format!("{} cases", class.ratios.len()) };
        writeln!(
            body,
            "<text x=\"{:.0}\" y=\"{:.0}\">{median:.2}× <tspan class=\"quiet\">{cases}</tspan></text>",
            LEFT + BARS + 16.0,
            y + 17.0
        )
        .expect("text grows");
    }
    let width = (LEFT + BARS + 130.0) as u32;
    svg(width, bottom as u32 + 12, "Speed of each class of graphs: the fastest peer's time over ours", &body)
}

/// The stages, what stands between them, and what each needs.
fn pipeline_picture() -> String {
    const STAGES: [(&str, &str, &str); 8] = [
        ("log, JSON, builder, C ABI", "frontend, graph", "nothing"),
        ("FinalizedGraph", "fusion", "nothing"),
        ("Fusion: g1, core, g2", "support", "nothing"),
        ("Supported", "engine", "nothing"),
        ("Kernel", "codegen", "nothing"),
        ("CUDA text", "compile", "NVRTC"),
        ("machine code", "plan", "a GPU"),
        ("ExecutionPlan", "", ""),
    ];
    const BESIDE: [(usize, &str); 4] = [
        (2, "CPU engine: the same graph on the CPU"),
        (3, "or every broken rule, and the nearest legal change"),
        (5, "emulator: the same text on the CPU"),
        (6, "memory, disk cache, tuned configs"),
    ];
    let (row, left, width) = (52.0, 20.0, 210.0);
    let mut body = String::new();
    for (number, (value, module, needs)) in STAGES.into_iter().enumerate() {
        let y = 16.0 + row * number as f64;
        writeln!(body, "<rect class=\"box\" x=\"{left}\" y=\"{y}\" width=\"{width}\" height=\"28\" rx=\"5\"/>")
            .expect("text grows");
        writeln!(
            body,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            left + width / 2.0,
            y + 19.0,
            escaped(value)
        )
        .expect("text grows");
        if !module.is_empty() {
            let (x, from, to) = (left + width / 2.0, y + 28.0, y + row);
            writeln!(body, "<line class=\"line\" x1=\"{x}\" y1=\"{from}\" x2=\"{x}\" y2=\"{to}\"/>")
                .expect("text grows");
            let needs = if needs == "nothing" { String::new() } else { format!(", needs {needs}") };
            writeln!(body, "<text class=\"quiet\" x=\"{}\" y=\"{}\">{module}{needs}</text>", x + 10.0, from + 17.0)
                .expect("text grows");
        }
    }
    for (number, text) in BESIDE {
        let y = 16.0 + row * number as f64 + 14.0;
        let x = left + width;
        writeln!(body, "<line class=\"rule\" x1=\"{x}\" y1=\"{y}\" x2=\"{}\" y2=\"{y}\"/>", x + 34.0)
            .expect("text grows");
        writeln!(body, "<text class=\"quiet\" x=\"{}\" y=\"{}\">{}</text>", x + 42.0, y + 4.0, escaped(text))
            .expect("text grows");
    }
    svg(660, 16 + 52 * 8, "From a graph to an execution plan", &body)
}

fn milliseconds(time: Option<&f64>) -> String {
    time.map_or("–".to_owned(), |time| format!("{time:.4}"))
}

/// Where and how the cases of a run were measured.
fn origin(run: &Run) -> String {
    let Run { what, machine, date, commit, command, .. } = run;
    format!("- **{what}**: {machine}; {date}, commit `{commit}`; command: `{command}`.\n")
}

/// Figures of all runs, class by class.
fn performance_text(figures: &Figures) -> String {
    let origins: String = figures.runs.iter().map(origin).collect();
    let mut text = format!(
        "# Performance\n\n\
         Made from `docs/performance.json` by `tests/pictures.rs`; `scripts/performance.py` writes a run into that file.\n\n{origins}\
         - Times are medians in milliseconds with a cold L2, ours by the model's first choice. A peer's time of the same minutes on the \
           same machine stands beside each; `×` is the fastest peer's time over ours. Above 1 ours is faster.\n\
         - \"Floor\" is the time that the bytes take at the copy's bandwidth, or the FLOP at the chip's rate, over ours. \"Build\" is \
           from the graph to a loaded plan, without any cache.\n\n\
         ![Speed of each class of graphs]( pictures/performance.svg)\n\n\
         | Class | Cases | Slowest | Median | Fastest |\n| --- | --- | --- | --- | --- |\n"
    )
    .replace("( pictures", "(pictures");
    for class in classes(figures) {
        let (least, most) = (class.ratios[0], class.ratios[class.ratios.len() - 1]);
        let (title, count, median) = (class.title, class.ratios.len(), class.median());
        writeln!(text, "| {title} | {count} | {least:.2}× | {median:.2}× | {most:.2}× |").expect("text grows");
    }
    let all: Vec<f64> = figures.cases().filter_map(Case::ratio).collect();
    writeln!(text, "| geometric mean of all cases | {} | | {:.2}× | |", all.len(), geometric_mean(&all))
        .expect("text grows");
    let mut last = "";
    for case in figures.cases() {
        if case.class != last {
            last = &case.class;
            writeln!(
                text,
                "\n## {}{}\n\n| Case | Ours | cuDNN | its best | PyTorch | Inductor | × | Floor | Build | Engine |\n\
                 | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
                last[..1].to_uppercase(),
                &last[1..]
            )
            .expect("text grows");
        }
        let [cudnn, best, torch, inductor] =
            ["cuDNN", "cuDNN, best plan", "PyTorch", "Inductor"].map(|peer| milliseconds(case.peers.get(peer)));
        let ratio = case.ratio().map_or("–".to_owned(), |ratio| format!("{ratio:.2}"));
        writeln!(
            text,
            "| `{}` | {:.4} | {cudnn} | {best} | {torch} | {inductor} | {ratio} | {:.0} % | {:.0} | {} |",
            case.case,
            case.ms,
            100.0 * case.fraction_of_floor,
            case.build_ms,
            case.engine
        )
        .expect("text grows");
    }
    let not_run: Vec<&String> = figures.runs.iter().flat_map(|run| &run.not_run).collect();
    if !not_run.is_empty() {
        let names: Vec<String> = not_run.iter().map(|name| format!("`{name}`")).collect();
        writeln!(text, "\n## Not run\n\nNo engine took them when the others were run: {}.", names.join(", "))
            .expect("text grows");
    }
    text
}

#[test]
fn the_table_and_its_picture_are_those_of_the_figures() {
    let figures = figures();
    snapshot::assert_file("docs/pictures/performance.svg", &performance_picture(&figures));
    snapshot::assert_file("docs/performance.md", &performance_text(&figures));
}

#[test]
fn the_pipeline_is_drawn() {
    snapshot::assert_file("docs/pictures/pipeline.svg", &pipeline_picture());
}

/// The drawing of a graph on its page, as a file of its own: with the page's colours and arrow heads.
fn drawing(arguments: &[&str]) -> String {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let page = folder.path().join("page.html");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_fusewright"));
    command.arg("explain").args(arguments).arg("--html").arg(&page).current_dir(env!("CARGO_MANIFEST_DIR"));
    let output = command.output().expect("the program starts");
    assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
    let page = std::fs::read_to_string(page).expect("a page");
    let between = |from: &str, to: &str| {
        let start = page.find(from).unwrap_or_else(|| panic!("the page has no {from}"));
        let end = page[start..].find(to).expect("it ends") + to.len();
        &page[start..start + end]
    };
    let (arrows, drawn) = (between("<defs>", "</defs>"), between("<svg class=\"drawing\"", "</svg>"));
    let style = include_str!("../templates/page/style.css");
    let drawn = drawn.replacen("<svg ", "<svg xmlns=\"http://www.w3.org/2000/svg\" ", 1);
    let (opening, rest) = drawn.split_once('>').expect("an element");
    format!("{opening}>\n<style>\n{style}</style>\n{arrows}{rest}\n")
}

#[test]
fn a_graph_and_a_refusal_are_drawn_as_their_pages_do() {
    let graph = drawing(&["examples/graphs/mm_bias_gelu_bf16_m16.json"]);
    snapshot::assert_file("docs/pictures/graph.svg", &graph);
    let refusal = drawing(&["examples/graphs/training.log", "--graph", "scale"]);
    snapshot::assert_file("docs/pictures/refusal.svg", &refusal);
}

/// Patterns by surface: how tensors may lie, where g1 is, what inputs are aligned to; and what engines here need of that.
fn surfaces_picture() -> String {
    let table = fusewright::support::surface_table();
    let cells = |title: &str| -> Vec<String> {
        let row =
            table.lines().find(|line| line.starts_with(&format!("| {title} |"))).unwrap_or_else(|| panic!("{title}"));
        row.trim_matches('|').split('|').skip(1).map(|cell| cell.trim().to_owned()).collect()
    };
    let alignment = cells("Alignment of inputs before the core");
    let rows = [
        "Matmul",
        "Convolution forward",
        "Convolution backward data",
        "Convolution backward filter",
        "Graphs without a core",
    ];
    let columns = ["Surface 90", "Surface 80", "Surface 70", "Engines here"];
    let (left, width, top, height) = (200.0, 150.0, 34.0, 74.0);
    let mut body = String::new();
    for (number, column) in columns.iter().enumerate() {
        let x = left + width * (number as f64 + 0.5) - 5.0;
        writeln!(body, "<text x=\"{x}\" y=\"20\" text-anchor=\"middle\">{column}</text>").expect("text grows");
    }
    for (number, title) in rows.iter().enumerate() {
        let y = top + height * number as f64;
        writeln!(body, "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{title}</text>", left - 14.0, y + 38.0)
            .expect("text grows");
        let mut marks: Vec<Option<[String; 3]>> =
            cells(title).iter().zip(&alignment).map(|(cell, bits)| marks_of(cell, bits)).collect();
        marks.push(Some(["any layout".to_owned(), "any g1".to_owned(), "any alignment".to_owned()]));
        for (column, marks) in marks.into_iter().enumerate() {
            let x = left + width * column as f64;
            let Some(marks) = marks else {
                writeln!(
                    body,
                    "<text class=\"quiet\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">–</text>",
                    x + width / 2.0 - 5.0,
                    y + 38.0
                )
                .expect("text grows");
                continue;
            };
            writeln!(
                body,
                "<rect class=\"box\" x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\" rx=\"5\"/>",
                width - 10.0,
                height - 10.0
            )
            .expect("text grows");
            for (line, mark) in marks.iter().enumerate() {
                let (x, y) = (x + width / 2.0 - 5.0, y + 20.0 + 18.0 * line as f64);
                writeln!(
                    body,
                    "<text class=\"quiet\" x=\"{x}\" y=\"{y}\" text-anchor=\"middle\">{}</text>",
                    escaped(mark)
                )
                .expect("text grows");
            }
        }
    }
    let height = top + height * rows.len() as f64;
    svg(
        (left + width * 4.0) as u32,
        height as u32,
        "What each surface asks of a pattern, and what engines here do",
        &body,
    )
}

/// Layout, g1 and alignment of a cell of the table; `None` where the surface has no such pattern.
fn marks_of(cell: &str, alignment: &str) -> Option<[String; 3]> {
    if cell == "–" {
        return None;
    }
    let layout = if cell.contains("fully packed") { "fully packed" } else { "strides may pad" };
    let g1 = match cell.rsplit("; ").next() {
        Some("g1 on both operands") => "g1 on both",
        Some("g1 on the first operand") => "g1 on the first",
        Some("g1 on the second operand") => "g1 on the second",
        Some("g1 empty") => "no g1",
        _ => "no core",
    };
    let bits = alignment.split(';').next().unwrap_or(alignment);
    Some([layout.to_owned(), g1.to_owned(), format!("{bits} at least")])
}

#[test]
fn the_surfaces_are_drawn() {
    snapshot::assert_file("docs/pictures/surfaces.svg", &surfaces_picture());
}
