//! Heuristic modes, in the words of the backend API: which engine configs a caller gets for a graph, and in which order.

use std::fmt;
use std::iter::successors;
use std::str::FromStr;
use std::sync::Arc;

use super::{Knob, RankedConfig, Selection, select};
use crate::device::Device;
use crate::error::Error;
use crate::graph::{DataType, FinalizedGraph};

/// Families of configs that mode B lists, at most: as many as are timed in about a second.
const FAMILIES: usize = 8;

/// What of a config makes its family: tiles, and who computes them.
const OF_FAMILY: [Knob; 7] =
    [Knob::Threads, Knob::TileM, Knob::TileN, Knob::TileK, Knob::WarpM, Knob::WarpN, Knob::Schedule];

/// A way to choose engine configs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HeuristicMode {
    /// Every config of the chosen engine in the order of its model: the first is what to run unmeasured.
    #[default]
    A,
    /// What is worth measuring: in the order of mode A, the first config of each family (tiles and schedule), of at most
    /// eight families. No model is finer than that of mode A, so the first config is the same; the others differ from it
    /// more than those that mode A puts next.
    B,
    /// Every config of the next engine that takes the graph, in the order of its model: slower, by simpler instructions.
    /// Where no other engine takes the graph, the configs of mode A.
    Fallback,
}

impl HeuristicMode {
    /// Every mode.
    pub const ALL: [Self; 3] = [Self::A, Self::B, Self::Fallback];

    /// Name as printed and in the frontend's files.
    pub fn name(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
            Self::Fallback => "FALLBACK",
        }
    }
}

impl fmt::Display for HeuristicMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for HeuristicMode {
    type Err = String;

    /// Reads a name in any case; INSTANT is an older name of A.
    fn from_str(text: &str) -> Result<Self, String> {
        let named = |mode: &Self| mode.name().eq_ignore_ascii_case(text);
        match Self::ALL.into_iter().find(named) {
            None if text.eq_ignore_ascii_case("INSTANT") => Ok(Self::A),
            mode => mode.ok_or_else(|| "a heuristic mode is A, B or FALLBACK".to_owned()),
        }
    }
}

/// What a heuristic mode answers.
#[derive(Clone, Debug)]
pub struct Heuristics {
    /// The graph with the engine of the configs.
    pub selection: Selection,
    /// Configs in the mode's order; of [`heuristics`] at least one.
    pub configs: Vec<RankedConfig>,
}

impl Heuristics {
    /// Asks a mode about a selected graph.
    pub fn of(selection: Selection, device: &Device, mode: HeuristicMode) -> Self {
        let selection = match mode {
            HeuristicMode::Fallback => selection.fallback().unwrap_or(selection),
            HeuristicMode::A | HeuristicMode::B => selection,
        };
        let configs = selection.candidates(device);
        let configs = if mode == HeuristicMode::B { families(configs) } else { configs };
        Self { selection, configs }
    }

    /// The first config.
    pub fn first(&self) -> &RankedConfig {
        &self.configs[0]
    }
}

/// Engine configs for a graph on a device in a heuristic mode.
///
/// # Errors
/// As [`select`], and as [`Selection::config`] where there is none.
pub fn heuristics(graph: &Arc<FinalizedGraph>, device: &Device, mode: HeuristicMode) -> Result<Heuristics, Error> {
    let answer = Heuristics::of(select(graph, device.capability)?, device, mode);
    if answer.configs.is_empty() { Err(answer.selection.no_config_fits(device).into()) } else { Ok(answer) }
}

impl Selection {
    /// The graph with the first engine after this one that computes without tensor cores, where this one's do and round FLOAT
    /// operands to TF32: for callers who forbid that.
    pub fn in_full_float(&self, device: &Device) -> Option<Self> {
        let uses_tensor_cores = |selection: &Self| {
            let best = selection.candidates(device).into_iter().next()?;
            Some(selection.lower(&best.config, device).uses_tensor_cores())
        };
        let fusion = self.supported().fusion();
        let is_float = |id| fusion.graph().tensor(id).data_type == DataType::Float;
        if !fusion.product()?.tensors().into_iter().any(is_float) || !uses_tensor_cores(self)? {
            return None;
        }
        successors(self.fallback(), Self::fallback).find(|selection| uses_tensor_cores(selection) == Some(false))
    }
}

/// The first config of each family.
fn families(ranking: Vec<RankedConfig>) -> Vec<RankedConfig> {
    let mut first: Vec<RankedConfig> = Vec::new();
    for ranked in ranking {
        if first.len() < FAMILIES && first.iter().all(|kept| !are_related(kept, &ranked)) {
            first.push(ranked);
        }
    }
    first
}

fn are_related(a: &RankedConfig, b: &RankedConfig) -> bool {
    let value = |ranked: &RankedConfig, knob| ranked.config.knobs.iter().find(|setting| setting.0 == knob).copied();
    OF_FAMILY.iter().all(|&knob| value(a, knob) == value(b, knob))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::ComputeCapability;
    use crate::engine::EngineConfig;
    use crate::engine::Estimate;
    use crate::graph::{Graph, PointwiseMode, Tensor};

    fn matmul(extent: i64) -> Arc<FinalizedGraph> {
        matmul_of(DataType::Half, extent)
    }

    fn matmul_of(data_type: DataType, extent: i64) -> Arc<FinalizedGraph> {
        let mut graph = Graph::new().io_data_type(data_type).compute_data_type(DataType::Float);
        let a = graph.tensor(Tensor::new("A").row_major([1, extent, extent]));
        let b = graph.tensor(Tensor::new("B").row_major([1, extent, extent]));
        let c = graph.matmul("mm", a, b);
        graph.set_output(c);
        Arc::new(graph.finalize().expect("well formed"))
    }

    fn asked(graph: &Arc<FinalizedGraph>, (major, minor): (u32, u32), mode: HeuristicMode) -> Heuristics {
        let device = Device::typical(ComputeCapability::new(major, minor));
        heuristics(graph, &device, mode).expect("supported")
    }

    #[test]
    fn mode_a_is_the_whole_ranking_of_the_model() {
        let graph = matmul(1024);
        let device = Device::typical(ComputeCapability::SM_90);
        let selection = select(&graph, device.capability).expect("supported");
        let a = Heuristics::of(selection.clone(), &device, HeuristicMode::default());
        assert_eq!(a.configs, selection.candidates(&device));
        assert!(a.configs.is_sorted_by(|x, y| x.estimated_us <= y.estimated_us));
        assert_eq!(a.first(), &a.configs[0]);
    }

    #[test]
    fn mode_b_takes_the_first_of_each_family_in_order() {
        let (a, b) = (asked(&matmul(1024), (9, 0), HeuristicMode::A), asked(&matmul(1024), (9, 0), HeuristicMode::B));
        assert_eq!(b.first(), a.first());
        assert_eq!(b.configs.len(), FAMILIES);
        let mut rest = a.configs.iter();
        for (number, ranked) in b.configs.iter().enumerate() {
            let passed_over = rest.by_ref().take_while(|of_a| *of_a != ranked);
            let kept = &b.configs[..number];
            passed_over.for_each(|of_a| assert!(kept.iter().any(|kept| are_related(kept, of_a)), "{}", of_a.config));
            assert!(kept.iter().all(|kept| !are_related(kept, ranked)));
        }
    }

    #[test]
    fn configs_that_differ_in_stages_and_splits_are_related() {
        let ranked = |knobs: &[(Knob, u32)]| RankedConfig {
            config: EngineConfig { engine: "warpgroup_mma", knobs: knobs.to_vec() },
            through_workspace: None,
            estimated_us: 1.0,
            estimate: Estimate::of_memory(1.0),
        };
        let first = ranked(&[(Knob::TileM, 128), (Knob::Stages, 4)]);
        assert!(are_related(&first, &ranked(&[(Knob::TileM, 128), (Knob::Stages, 3), (Knob::SplitK, 2)])));
        assert!(!are_related(&first, &ranked(&[(Knob::TileM, 64), (Knob::Stages, 4)])));
        assert!(!are_related(&first, &ranked(&[(Knob::TileM, 128), (Knob::Schedule, 1), (Knob::Stages, 4)])));
    }

    #[test]
    fn fallback_is_the_next_engine_that_takes_the_graph() {
        let engine = |capability| asked(&matmul(64), capability, HeuristicMode::Fallback).selection.engine().name();
        assert_eq!([(9, 0), (8, 0), (7, 0)].map(engine), ["warp_mma", "scalar", "scalar"]);
        let answer = asked(&matmul(64), (9, 0), HeuristicMode::Fallback);
        assert!(answer.configs.iter().all(|ranked| ranked.config.engine == "warp_mma"));
        let last = answer.selection.fallback().expect("scalar code takes every matmul");
        assert_eq!(last.engine().name(), "scalar");
        assert!(last.fallback().is_none());
    }

    #[test]
    fn only_products_that_round_floats_have_another_engine_for_full_float() {
        let full = |data_type, (major, minor)| {
            let device = Device::typical(ComputeCapability::new(major, minor));
            let selection = select(&matmul_of(data_type, 64), device.capability).expect("supported");
            selection.in_full_float(&device)
        };
        for capability in [(9, 0), (8, 0)] {
            let engine = full(DataType::Float, capability).expect("an engine").engine().name();
            assert_eq!(engine, "scalar");
            assert!(full(DataType::Half, capability).is_none());
        }
        assert!(full(DataType::Float, (7, 0)).is_none(), "it has no tensor cores for FLOAT");
    }

    #[test]
    fn a_relaxed_graph_falls_back_with_a_proof_of_its_own() {
        let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
        let x = graph.tensor(Tensor::new("x").dim([1, 40, 24]).stride([40 * 25, 25, 1]));
        let b = graph.tensor(Tensor::new("b").row_major([1, 24, 64]));
        let relu = graph.pointwise("relu", PointwiseMode::ReluFwd, &[x]);
        graph.tensor_mut(relu).data_type = Some(DataType::Half);
        let c = graph.matmul("mm", relu, b);
        graph.set_output(c);
        let graph = Arc::new(graph.finalize().expect("well formed"));
        let chosen = select(&graph, ComputeCapability::SM_90).expect("an engine takes it");
        let fallback = chosen.fallback().expect("scalar code takes every matmul");
        let relaxes = fallback.engine().relaxes();
        assert!(fallback.supported().relaxed().iter().all(|rule| relaxes.contains(rule)));
    }

    #[test]
    fn a_device_that_no_config_fits_is_an_error() {
        let tiny = Device { shared_bytes_per_block: 1, ..Device::typical(ComputeCapability::SM_90) };
        for mode in HeuristicMode::ALL {
            let error = heuristics(&matmul(64), &tiny, mode).unwrap_err();
            assert!(
                matches!(&error, Error::NotSupported(cause) if cause.to_string().contains("1 bytes of shared")),
                "{error}"
            );
        }
    }

    #[test]
    fn names_read_back() {
        for mode in HeuristicMode::ALL {
            assert_eq!(mode.to_string().parse(), Ok(mode));
            assert_eq!(mode.name().to_lowercase().parse(), Ok(mode));
        }
        assert_eq!("INSTANT".parse(), Ok(HeuristicMode::A));
        assert!("C".parse::<HeuristicMode>().is_err());
    }
}
