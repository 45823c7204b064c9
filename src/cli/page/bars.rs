//! The page of a benchmark: for each case how near it comes to its floor, and how near others come.

use std::collections::HashMap;

use fusewright::error::Error;
use serde::{Deserialize, Serialize};

use super::super::units;
use super::render::render;

/// A measured case.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::cli) struct Case {
    pub(in crate::cli) name: String,
    pub(in crate::cli) median_ms: f64,
    /// The floor's time over the median.
    pub(in crate::cli) fraction_of_floor: f64,
    pub(in crate::cli) config: String,
}

/// What others take for the cases, as a file of peers holds it: cases with what they were measured on, or the cases alone.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "PeersFile")]
pub(in crate::cli) struct Peers {
    meta: Meta,
    cases: Vec<PeerCase>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum PeersFile {
    Described {
        #[serde(default)]
        meta: Meta,
        cases: Vec<PeerCase>,
    },
    Cases(Vec<PeerCase>),
}

impl From<PeersFile> for Peers {
    fn from(file: PeersFile) -> Self {
        match file {
            PeersFile::Described { meta, cases } => Self { meta, cases },
            PeersFile::Cases(cases) => Self { meta: Meta::default(), cases },
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Meta {
    #[serde(default)]
    machine: String,
    #[serde(default)]
    date: String,
}

/// Medians in milliseconds; what was not measured is absent or null.
#[derive(Clone, Debug, Default, Deserialize)]
struct PeerCase {
    case: String,
    /// cuDNN's first plan, and the fastest of those tried.
    median_ms: Option<f64>,
    best_ms: Option<f64>,
    /// Eager PyTorch.
    torch_ms: Option<f64>,
    /// PyTorch's compiler.
    inductor_ms: Option<f64>,
}

#[derive(Serialize)]
struct Page<'a> {
    title: &'a str,
    subtitle: String,
    summary: Vec<String>,
    has_peers: bool,
    /// Right end of the axis, in per cent of the floor.
    ticks: Vec<Tick>,
    cases: Vec<Row>,
}

#[derive(Serialize)]
struct Tick {
    percent: i64,
    at: i64,
}

#[derive(Serialize)]
struct Row {
    name: String,
    config: String,
    /// Ours over the fastest peer: above 1 is slower.
    ratio: String,
    floor: String,
    bars: Vec<Bar>,
}

#[derive(Serialize)]
struct Bar {
    /// `ours`, `cudnn`, `torch` or `inductor`.
    class: &'static str,
    label: &'static str,
    time: String,
    percent: i64,
    /// Width of the bar, in thousandths of the axis.
    width: i64,
}

/// The page of these cases.
///
/// # Errors
/// [`Error::Generated`] if a template fails: a defect of ours.
pub(in crate::cli) fn bench_page(title: &str, cases: &[Case], peers: Option<&Peers>) -> Result<String, Error> {
    let by_name: HashMap<&str, &PeerCase> =
        peers.into_iter().flat_map(|peers| &peers.cases).map(|case| (case.case.as_str(), case)).collect();
    let times = |case: &Case| times(case, by_name.get(case.name.as_str()).copied());
    let floor = |case: &Case| case.median_ms * case.fraction_of_floor;
    let shares = cases.iter().flat_map(|case| times(case).into_iter().map(move |(.., ms)| floor(case) / ms));
    // to the next quarter beyond the best, the floor at least
    let end = (shares.fold(1.0, f64::max) * 4.0 - 1e-9).ceil() / 4.0;
    let rows: Vec<Row> = cases.iter().map(|case| row(case, &times(case), end)).collect();
    let ratios: Vec<f64> = cases.iter().filter_map(|case| ratio(&times(case))).collect();
    let subtitle = peers.map(|peers| format!("Peers: {} {}", peers.meta.machine, peers.meta.date)).unwrap_or_default();
    let tick = |quarter: i64| Tick { percent: quarter * 25, at: (quarter as f64 * 250.0 / end).round() as i64 };
    let ticks = (0..=(end * 4.0).round() as i64).map(tick).collect();
    let has_peers = !ratios.is_empty();
    render("bench.html", &Page { title, subtitle, summary: summary(cases, &ratios), has_peers, ticks, cases: rows })
}

/// Who takes how many milliseconds for a case, ours first.
fn times(case: &Case, peer: Option<&PeerCase>) -> Vec<(&'static str, &'static str, f64)> {
    let mut times = vec![("ours", "fusewright", case.median_ms)];
    if let Some(peer) = peer {
        let others = [
            ("cudnn", "cuDNN", peer.best_ms.or(peer.median_ms)),
            ("torch", "PyTorch", peer.torch_ms),
            ("inductor", "Inductor", peer.inductor_ms),
        ];
        let measured = |(class, label, ms): (_, _, Option<f64>)| Some((class, label, ms.filter(|ms| *ms > 0.0)?));
        times.extend(others.into_iter().filter_map(measured));
    }
    times
}

/// Our time over the fastest peer's.
fn ratio(times: &[(&str, &str, f64)]) -> Option<f64> {
    let (ours, peers) = times.split_first()?;
    let fastest = peers.iter().map(|(.., ms)| *ms).min_by(f64::total_cmp)?;
    Some(ours.2 / fastest)
}

fn row(case: &Case, times: &[(&'static str, &'static str, f64)], end: f64) -> Row {
    let floor_ms = case.median_ms * case.fraction_of_floor;
    let bar = |&(class, label, ms): &(&'static str, &'static str, f64)| Bar {
        class,
        label,
        time: units::seconds(ms * 1e-3),
        percent: (floor_ms / ms * 100.0).round() as i64,
        width: (floor_ms / ms / end * 1000.0).round() as i64,
    };
    Row {
        name: case.name.escape_debug().to_string(),
        config: case.config.clone(),
        ratio: ratio(times).map(|ratio| format!("{ratio:.2}")).unwrap_or_default(),
        floor: units::seconds(floor_ms * 1e-3),
        bars: times.iter().map(bar).collect(),
    }
}

/// Medians and counts, a sentence each.
fn summary(cases: &[Case], ratios: &[f64]) -> Vec<String> {
    let mut sentences = vec![units::plural(cases.len(), "case")];
    let shares: Vec<f64> = cases.iter().map(|case| case.fraction_of_floor).collect();
    sentences.extend(median(&shares).map(|share| format!("median {:.0} % of the floor", share * 100.0)));
    if let Some(middle) = median(ratios) {
        let faster = ratios.iter().filter(|ratio| **ratio <= 1.0).count();
        sentences.push(format!("median {middle:.2} × the fastest peer's time"));
        sentences.push(format!("at least as fast as every peer in {faster} of {}", ratios.len()));
    }
    sentences
}

fn median(values: &[f64]) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        length if length % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}
