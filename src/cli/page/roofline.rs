//! A kernel under its roof: the rate that memory and arithmetic allow for how much is computed with each byte, and the rate that is
//! expected and was measured.

use fusewright::engine::RankedConfig;
use serde::Serialize;

use super::super::explanation::{Explanation, KernelExplanation};
use super::super::units;

/// The plot's area.
const LEFT: f64 = 84.0;
const TOP: f64 = 16.0;
const WIDTH: f64 = 470.0;
const HEIGHT: f64 = 220.0;

/// A roofline on logarithmic axes, in pixels.
#[derive(Debug, Serialize)]
pub(super) struct Roofline {
    left: i64,
    top: i64,
    right: i64,
    bottom: i64,
    /// The roof's path.
    roof: String,
    /// What the slope and the flat part are.
    memory: Label,
    rate: Label,
    across: Vec<Tick>,
    upward: Vec<Tick>,
    points: Vec<Mark>,
    /// Where the graph's line stands: its operations a byte.
    graph: i64,
}

#[derive(Debug, Serialize)]
struct Label {
    x: i64,
    y: i64,
    text: String,
}

#[derive(Debug, Serialize)]
struct Tick {
    at: i64,
    text: String,
}

/// A point of the plot.
#[derive(Debug, Serialize)]
struct Mark {
    /// `floor`, `expected` or `measured`.
    class: &'static str,
    x: i64,
    y: i64,
    text: String,
}

/// Decades of the axes, from and to.
struct Scale {
    across: [f64; 2],
    upward: [f64; 2],
}

impl Scale {
    fn x(&self, intensity: f64) -> f64 {
        LEFT + WIDTH * (intensity.log10() - self.across[0]) / (self.across[1] - self.across[0])
    }

    fn y(&self, rate: f64) -> f64 {
        TOP + HEIGHT * (self.upward[1] - rate.log10()) / (self.upward[1] - self.upward[0])
    }
}

impl Roofline {
    /// The roofline of a graph with a core; `None` without one, which has nothing but bytes.
    pub(super) fn of(explanation: &Explanation, kernel: &KernelExplanation) -> Option<Self> {
        let (device, floor) = (&explanation.device, explanation.floor);
        let peak = device.flops_per_second(explanation.core_type?);
        let (flops, bandwidth) = (floor.flops as f64, device.bytes_per_second);
        let intensity = flops / floor.bytes as f64;
        let ridge = peak / bandwidth;
        let first: &RankedConfig = kernel.first();
        let attained = flops / (first.estimated_us * 1e-6);
        let across = [intensity.min(ridge).log10().floor() - 1.0, intensity.max(ridge).log10().ceil() + 1.0];
        let upward = [attained.min(10f64.powf(across[0]) * bandwidth).log10().floor(), peak.log10().ceil()];
        let scale = Scale { across, upward };
        let (first_roof, last) = (10f64.powf(across[0]), 10f64.powf(across[1]));
        let (x, y) = (|at: f64| scale.x(at).round() as i64, |at: f64| scale.y(at).round() as i64);
        let roof = format!("M{} {}L{} {}H{}", x(first_roof), y(first_roof * bandwidth), x(ridge), y(peak), x(last));
        let mark = |class, rate: f64, text| Mark { class, x: x(intensity), y: y(rate), text };
        let mut points = vec![mark(
            "floor",
            flops / explanation.floor_seconds(),
            format!("floor {}", units::seconds(explanation.floor_seconds())),
        )];
        let expected = units::seconds(first.estimated_us * 1e-6);
        points.push(mark("expected", attained, format!("expected {expected}")));
        points.extend(kernel.measured(&first.config).map(|entry| {
            let seconds = entry.median_ms * 1e-3;
            mark("measured", flops / seconds, format!("measured {}", units::seconds(seconds)))
        }));
        let decades = |[from, to]: [f64; 2]| (from as i32..=to as i32).map(|decade| 10f64.powi(decade));
        let middle = (first_roof * ridge).sqrt();
        Some(Self {
            left: LEFT as i64,
            top: TOP as i64,
            right: (LEFT + WIDTH) as i64,
            bottom: (TOP + HEIGHT) as i64,
            roof,
            memory: Label {
                x: x(middle) - 8,
                y: y(middle * bandwidth) - 8,
                text: format!("memory {}", units::count(bandwidth, "B/s")),
            },
            rate: Label {
                x: x(last) - 4,
                y: y(peak) - 6,
                text: format!("matrix rate {}", units::count(peak, "FLOP/s")),
            },
            across: decades(across).map(|at| Tick { at: x(at), text: format!("{at}") }).collect(),
            upward: decades(upward)
                .map(|at| Tick { at: y(at), text: units::count(at, "FLOP/s").replace(".00", "").replace(".0", "") })
                .collect(),
            points,
            graph: x(intensity),
        })
    }
}
