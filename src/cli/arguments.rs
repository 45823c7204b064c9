//! The command line's arguments.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand, ValueEnum};

use fusewright::device::ComputeCapability;
use fusewright::engine::HeuristicMode;
use fusewright::fuzz::Family;
use fusewright::support::SurfaceId;

use super::extent::ExtentRange;

/// A runtime fusion compiler for operation graphs in the cuDNN Graph API model.
///
/// FILE is a graph in the cuDNN frontend's JSON, a log or JSONL file that holds graphs, or - for standard input.
#[derive(Debug, Parser)]
#[command(name = "fusewright", version, arg_required_else_help = true)]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) command: Command,
    /// Say nothing on standard error but errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(super) quiet: bool,
    /// Say more on standard error; twice: why each decision was taken
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(super) verbose: u8,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Tell for every graph which support surface and engine takes it, or every rule it breaks
    Check(CheckOptions),
    /// Show stages, engine choice, ranked configs, launches, floor and source of a graph
    Explain(ExplainOptions),
    /// Compile kernels with NVRTC, and tell what they need of the chip
    ///
    /// Always anew, past the disk cache, which it neither reads nor fills: the time told is the compiler's.
    Compile(CompileOptions),
    /// Compute a graph's outputs, on a GPU, in the emulator or on the CPU engine
    Run(RunOptions),
    /// Measure graphs on a GPU
    Bench(BenchOptions),
    /// List the rules of the support surfaces, or tell what an id of a message stands for
    Rules(RulesOptions),
    /// Show, check or empty the disk cache
    ///
    /// What lies in the cache runs as code. Checksums find damage, not forgery: a folder that belongs to another user, or
    /// that others may write, is not used, and entries are shared among users who may run code as each other only.
    Cache(CacheOptions),
    /// Generate random graphs, and hold each against what must be true of every graph
    Fuzz(FuzzOptions),
    /// Tell what was found on this machine, and how to get what is missing
    Doctor,
}

#[derive(Debug, Args)]
pub(super) struct CheckOptions {
    /// Graph files, logs, JSONL; folders of *.json, *.jsonl and *.log; - is standard input
    #[arg(required = true, value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
    /// Compute capabilities to check for, such as sm_80,sm_90; may be repeated [default: sm_90]
    #[arg(long = "arch", value_name = "SM", value_delimiter = ',')]
    pub(super) capabilities: Vec<ComputeCapability>,
    /// Ask these support surfaces only (90, 80, 70, or another by name), such as 90,80; may be repeated
    #[arg(long = "surface", value_name = "N", value_parser = surface, value_delimiter = ',')]
    pub(super) surfaces: Vec<SurfaceId>,
    /// Only this graph of each file, by name or number (#2)
    #[arg(long)]
    pub(super) graph: Option<Selector>,
    /// Text for people, or one JSON object a line
    #[arg(long, default_value = "text")]
    pub(super) format: Format,
    /// Write the graphs with the nearest legal change made, or cut: to run here or, with --surface, to hold that surface
    #[arg(long, value_name = "OUT.json")]
    pub(super) fix: Option<PathBuf>,
}

#[derive(Clone, Debug, Args)]
pub(super) struct ExplainOptions {
    /// Graph file; - is standard input
    pub(super) file: PathBuf,
    /// Compute capabilities to explain for, one after the other, such as sm_80,sm_90; may be repeated
    #[arg(long = "arch", value_name = "SM", default_value = "sm_90", value_delimiter = ',')]
    pub(super) capabilities: Vec<ComputeCapability>,
    /// The one that is explained now.
    #[arg(skip = ComputeCapability::SM_90)]
    pub(super) capability: ComputeCapability,
    /// Only this graph of the file, by name or number (#2)
    #[arg(long)]
    pub(super) graph: Option<Selector>,
    /// Heuristic mode that lists the configs: A (all by the model), B (one of each family) or FALLBACK (the next engine)
    #[arg(long, default_value_t)]
    pub(super) mode: HeuristicMode,
    /// Print the CUDA source alone
    #[arg(long, conflicts_with = "html")]
    pub(super) source: bool,
    /// Write a page for browsers instead, which needs no network: graph, verdict, configs, kernel
    #[arg(long, value_name = "OUT")]
    pub(super) html: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct CompileOptions {
    /// Graph files, or folders of them; - is standard input
    #[arg(required = true, value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
    /// Compute capabilities to compile for, such as sm_80,sm_90; may be repeated [default: sm_90]
    #[arg(long = "arch", value_name = "SM", value_delimiter = ',')]
    pub(super) capabilities: Vec<ComputeCapability>,
    /// Only this graph of each file, by name or number (#2)
    #[arg(long)]
    pub(super) graph: Option<Selector>,
    /// Heuristic mode whose first config is compiled: A, B or FALLBACK
    #[arg(long, default_value_t)]
    pub(super) mode: HeuristicMode,
    /// Folder for the .cu and .cubin files, made where absent
    #[arg(long)]
    pub(super) out: Option<PathBuf>,
    /// Write all binaries into one file, built on all cores, which FUSEWRIGHT_BUNDLE names where nothing shall be compiled
    #[arg(long, value_name = "FILE", conflicts_with = "out")]
    pub(super) bundle: Option<PathBuf>,
    /// Take shapes for dynamic, so that other shapes share the binaries
    #[arg(long)]
    pub(super) dynamic: bool,
    /// All sizes of each graph, of dynamic shapes, into the bundle: TENSOR.AXIS=FIRST..LAST, such as A.1=1..8192
    ///
    /// Axes whose extents have to be the same follow; those that have not, but shall, are joined by +, as in Q.2+V.2=1..4096. Axes are those that
    /// `explain` shows.
    #[arg(long, value_name = "RANGE", requires = "bundle")]
    pub(super) extent: Option<ExtentRange>,
}

#[derive(Debug, Args)]
pub(super) struct RunOptions {
    /// Graph file; - is standard input
    pub(super) file: PathBuf,
    /// This graph of the file, by name or number (#2); needed where it holds several
    #[arg(long)]
    pub(super) graph: Option<Selector>,
    /// auto (the first GPU, else the CPU engine), cpu, emulator or cuda:N
    #[arg(long, default_value = "auto")]
    pub(super) device: DeviceChoice,
    /// Inputs by tensor name (or uid), dense row-major; without it they are random
    #[arg(long)]
    pub(super) inputs: Option<PathBuf>,
    /// Where the outputs go, in the form of the inputs
    #[arg(long)]
    pub(super) outputs: Option<PathBuf>,
    /// Seed of random inputs
    #[arg(long, default_value_t = 0)]
    pub(super) seed: u64,
    /// Compare two independent computations; exit with 1 if they disagree
    #[arg(long)]
    pub(super) verify: bool,
    /// Never compute a shrunk graph, however long the full one takes
    #[arg(long)]
    pub(super) full: bool,
}

#[derive(Debug, Args)]
pub(super) struct FuzzOptions {
    /// matmul, fprop, dgrad, wgrad, pointwise, softmax, norm, attention, attention_bwd, mha or mha_bwd; may be repeated [default: all, in turns]
    #[arg(long = "family", value_name = "FAMILY")]
    pub(super) families: Vec<Family>,
    /// Compute results, too: cpu (the CPU engine against double precision), emulator or cuda:N (kernels as well), auto
    #[arg(long)]
    pub(super) device: Option<DeviceChoice>,
    /// Compile each kernel with NVRTC
    #[arg(long, conflicts_with = "device")]
    pub(super) nvrtc: bool,
    /// Seed of the graphs
    #[arg(long, default_value_t = 0)]
    pub(super) seed: u64,
    /// Number of the first graph; with --replay, of the graph whose draws are made again
    #[arg(long, default_value_t = 0)]
    pub(super) first: u64,
    /// How many graphs
    #[arg(long, default_value_t = 1000)]
    pub(super) count: u64,
    /// End after so many minutes
    #[arg(long)]
    pub(super) minutes: Option<f64>,
    /// Folder for the graphs that fail, made where absent
    #[arg(long, default_value = "fuzz-findings")]
    pub(super) out: PathBuf,
    /// Examine the graphs of this file instead
    #[arg(long, value_name = "FILE", conflicts_with_all = ["families", "count", "minutes"])]
    pub(super) replay: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct BenchOptions {
    /// Graph files, or folders of them; - is standard input
    #[arg(required_unless_present = "from", value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
    /// Only this graph of each file, by name or number (#2)
    #[arg(long)]
    pub(super) graph: Option<Selector>,
    /// The GPU to measure on
    #[arg(long, default_value = "cuda:0", value_parser = cuda_device)]
    pub(super) device: u32,
    /// Also write the figures to this JSON file
    #[arg(long)]
    pub(super) json: Option<PathBuf>,
    /// Heuristic mode that lists the configs: A (all by the model), B (one of each family) or FALLBACK (the next engine)
    #[arg(long, default_value_t)]
    pub(super) mode: HeuristicMode,
    /// Time the first N engine configs of the mode, or all, against each other, measure the fastest, and store it
    ///
    /// What is stored, beside the cached binaries, is what run uses from then on for this graph on this GPU, unless it is of
    /// the mode FALLBACK. Without --autotune the first config of the mode is measured.
    #[arg(long, value_name = "N|all", num_args = 0..=1, require_equals = true, default_missing_value = "8")]
    pub(super) autotune: Option<CandidateCount>,
    /// Also write the figures as a page for browsers: bars beside the floor
    #[arg(long, value_name = "OUT")]
    pub(super) html: Option<PathBuf>,
    /// What others take for the cases, shown on the page: JSON with "cases" of "case", "best_ms", "torch_ms", "inductor_ms"
    #[arg(long, value_name = "FILE", requires = "html")]
    pub(super) peers: Option<PathBuf>,
    /// Measure nothing: make the page of figures that --json wrote, without a GPU
    #[arg(long, value_name = "RECORDS", requires = "html", conflicts_with_all = ["files", "json", "graph", "autotune"])]
    pub(super) from: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct RulesOptions {
    /// Ids, as messages print them in brackets: tell these alone, with their source and an example [default: list all]
    #[arg(value_name = "ID", conflicts_with = "values")]
    pub(super) ids: Vec<String>,
    /// Instead, list what graph files may hold as tag, type and mode
    #[arg(long)]
    pub(super) values: bool,
    /// Text for people, or one JSON list
    #[arg(long, default_value = "text")]
    pub(super) format: Format,
}

#[derive(Debug, Args)]
pub(super) struct CacheOptions {
    /// What to do with it
    #[arg(value_enum)]
    pub(super) action: CacheAction,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum CacheAction {
    /// Print its folder
    Path,
    /// List its entries
    List,
    /// Remove its entries
    Clear,
    /// Read every entry and name the damaged ones; a forged one is not told from others
    Verify,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For people
    Text,
    /// For programs
    Json,
}

/// A graph of a file: by its name, which may be a number; else by its number in order of appearance, as `#3` or `3`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Selector {
    /// What a graph may be called.
    pub(super) name: String,
    /// Which one it is where none is called so.
    pub(super) number: Option<usize>,
}

impl FromStr for Selector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix('#').unwrap_or(text).parse() {
            Ok(0) => Err("graphs are counted from 1".to_owned()),
            number => Ok(Self { name: text.to_owned(), number: number.ok() }),
        }
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number {
            Some(number) => write!(f, "graph {number}"),
            None => write!(f, "graph '{}'", self.name.escape_debug()),
        }
    }
}

/// How many engine configs are timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CandidateCount(pub(super) usize);

impl FromStr for CandidateCount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let count = if text == "all" { Some(usize::MAX) } else { text.parse().ok() };
        count.filter(|count| *count > 0).map(Self).ok_or_else(|| "a number of configs from 1 on, or all".to_owned())
    }
}

/// What computes a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeviceChoice {
    /// The first GPU, else the CPU engine.
    Auto,
    /// The CPU engine.
    Cpu,
    /// The generated kernel, on the CPU.
    Emulator,
    /// The generated kernel, on this GPU.
    Cuda(u32),
}

impl FromStr for DeviceChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "emulator" => Ok(Self::Emulator),
            _ => cuda_device(text)
                .map(Self::Cuda)
                .map_err(|_| "a device is one of auto, cpu, emulator, cuda:0, cuda:1, …".to_owned()),
        }
    }
}

/// `cuda` or `cuda:N`.
fn cuda_device(text: &str) -> Result<u32, String> {
    let ordinal = if text == "cuda" { Some("0") } else { text.strip_prefix("cuda:") };
    ordinal.and_then(|digits| digits.parse().ok()).ok_or_else(|| "a GPU is written cuda:0, cuda:1, …".to_owned())
}

fn surface(text: &str) -> Result<SurfaceId, String> {
    let named = SurfaceId::named().find(|surface| surface.to_string().eq_ignore_ascii_case(text));
    named.ok_or_else(|| {
        let names: Vec<&str> = SurfaceId::named().filter_map(SurfaceId::name).collect();
        format!("a support surface is 90, 80 or 70, or one of {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        use clap::CommandFactory as _;
        Arguments::command().debug_assert();
    }

    #[test]
    fn graphs_are_picked_by_number_or_name() {
        for (text, number) in [("12", Some(12)), ("#12", Some(12)), ("12b", None), ("net#2", None), ("#", None)] {
            assert_eq!(text.parse(), Ok(Selector { name: text.to_owned(), number }));
        }
        assert!("0".parse::<Selector>().is_err() && "#0".parse::<Selector>().is_err());
    }

    #[test]
    fn autotune_takes_a_count() {
        let autotune = |extra: &[&str]| {
            let arguments = ["fusewright", "bench", "x.json"].iter().chain(extra);
            match Arguments::try_parse_from(arguments).map(|arguments| arguments.command) {
                Ok(Command::Bench(options)) => Ok(options.autotune.map(|count| count.0)),
                _ => Err(()),
            }
        };
        assert_eq!(autotune(&[]), Ok(None));
        assert_eq!(autotune(&["--autotune"]), Ok(Some(fusewright::tuning::DEFAULT_CANDIDATES)));
        assert_eq!(autotune(&["--autotune", "y.json"]), Ok(Some(fusewright::tuning::DEFAULT_CANDIDATES)));
        assert_eq!(autotune(&["--autotune=3"]), Ok(Some(3)));
        assert_eq!(autotune(&["--autotune=all"]), Ok(Some(usize::MAX)));
        for wrong in ["--autotune=0", "--autotune=-1", "--autotune=some", "--autotune="] {
            assert_eq!(autotune(&[wrong]), Err(()), "{wrong}");
        }
    }

    #[test]
    fn devices_are_read_in_every_form() {
        assert_eq!("cuda:3".parse(), Ok(DeviceChoice::Cuda(3)));
        assert_eq!("cuda".parse(), Ok(DeviceChoice::Cuda(0)));
        for wrong in ["gpu", "cuda:", "cuda:-1", "cuda:x", ""] {
            assert!(wrong.parse::<DeviceChoice>().is_err(), "{wrong}");
        }
    }
}
