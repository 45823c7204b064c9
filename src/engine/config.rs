//! Engine configs and their knobs: typed, enumerable, printed and read back as text.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::estimate::Estimate;

/// What a knob's value means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnobDomain {
    /// A number of something, at least 1.
    Count,
    /// Off (0) or on (1).
    Switch,
    /// One of these, numbered from 0.
    Choice(&'static [&'static str]),
}

/// One row a knob: its name, the domain of its values, what a config means that does not set it, and what it is.
macro_rules! knobs {
    ($($(#[$meta:meta])* $variant:ident = $name:literal, $domain:expr, $unset:expr, $summary:literal;)*) => {
        /// A tunable of an engine.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Knob { $($(#[$meta])* $variant),* }

        impl Knob {
            /// Every knob, in ascending order.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Name as printed and stored.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }

            /// What its value means.
            pub fn domain(self) -> KnobDomain {
                match self { $(Self::$variant => $domain),* }
            }

            /// What a config means that does not set it, where that is stated.
            pub fn unset(self) -> Option<u32> {
                match self { $(Self::$variant => $unset),* }
            }

            /// What it is, as a short sentence for people.
            pub fn summary(self) -> &'static str {
                match self { $(Self::$variant => $summary),* }
            }
        }
    };
}

knobs! {
    /// Threads of a block.
    Threads = "threads", KnobDomain::Count, None,
        "threads of a block";
    /// Rows of C of a block.
    TileM = "tile_m", KnobDomain::Count, None,
        "rows of the result that a block computes at a time";
    /// Columns of C of a block.
    TileN = "tile_n", KnobDomain::Count, None,
        "columns of the result that a block computes at a time";
    /// Outputs of a thread along the last axis.
    Outputs = "outputs", KnobDomain::Count, None,
        "neighbouring pixels of a row that a thread computes";
    /// Outputs of a thread along the axis before the last.
    Rows = "rows", KnobDomain::Count, None,
        "rows of pixels that a thread walks down";
    /// Channels of a thread.
    Channels = "channels", KnobDomain::Count, None,
        "neighbouring channels that a thread computes";
    /// Depth of a mainloop step, in elements.
    TileK = "tile_k", KnobDomain::Count, None,
        "depth of one step along k, in elements";
    /// Rows of C of a warp.
    WarpM = "warp_m", KnobDomain::Count, None,
        "rows of a block's tile that one warp computes";
    /// Columns of C of a warp.
    WarpN = "warp_n", KnobDomain::Count, None,
        "columns of a block's tile that one warp computes";
    /// Tiles of the operands in shared memory.
    Stages = "stages", KnobDomain::Count, None,
        "steps along k held in shared memory, loaded ahead";
    /// Sets of operand fragments in registers.
    Fragments = "fragments", KnobDomain::Count, None,
        "sets of operands held in registers, loaded ahead";
    /// Parts into which k is cut; 1 where a config does not set it.
    SplitK = "split_k", KnobDomain::Count, Some(1),
        "parts into which k is cut; their sums meet in the workspace";
    /// Blocks of a cluster that share k; 1 where a config does not set it.
    ClusterK = "cluster_k", KnobDomain::Count, Some(1),
        "blocks of a cluster that share the steps along k of a tile; their sums meet in shared memory";
    /// Tiles below each other whose blocks are a cluster; 1 where a config does not set it.
    ClusterM = "cluster_m", KnobDomain::Count, Some(1),
        "blocks of a cluster along m, each of which asks for a part of the columns of B that all multiply";
    /// Tiles side by side whose blocks are a cluster; 1 where a config does not set it.
    ClusterN = "cluster_n", KnobDomain::Count, Some(1),
        "blocks of a cluster along n, each of which asks for a part of the rows of A that all multiply";
    /// How the multiplying warpgroups of a block share its tiles: 0 cooperative, 1 in turns ("ping-pong").
    Schedule = "schedule", KnobDomain::Choice(&["cooperative", "ping_pong"]), None,
        "two warpgroups share a tile (cooperative), or take tiles in turns (ping_pong)";
    /// Whether the transposed product is computed, with A and B exchanged; off where a config does not set it.
    SwapAb = "swap_ab", KnobDomain::Switch, Some(0),
        "1 computes the transposed product, which suits few rows";
    /// Whether a step of a convolution multiplies the taps of a filter's row together; off where a config does not set it.
    TapRows = "tap_rows", KnobDomain::Switch, Some(0),
        "1 multiplies the taps of a filter's row in one step, by the same tile of pixels";
    /// Whether tensors of the epilogue come and leave by TMA, evaluated where the accumulators are; off where a config does
    /// not set it.
    TmaEpilogue = "tma_epilogue", KnobDomain::Switch, Some(0),
        "1 moves the epilogue's tensors by TMA (tensor memory accelerator), in boxes";
    /// Whether B is read once into shared memory and stays there; off where a config does not set it.
    StationaryB = "stationary_b", KnobDomain::Switch, Some(0),
        "1 reads B once into shared memory, where it stays while tiles of A pass by";
    /// Blocks that share a multiprocessor; one where a config does not set it.
    Occupancy = "occupancy", KnobDomain::Count, Some(1),
        "blocks of a kernel that stay on a multiprocessor at once, with a part of its registers and shared memory each";
    /// Whether the heads of Q that share a head of K and V are rows of one tile; off where a config does not set it.
    PackHeads = "pack_heads", KnobDomain::Switch, Some(0),
        "1 puts the heads that share keys and values side by side in a tile of queries";
    /// How the blocks of a launch come by their tiles; static where a config does not set it.
    TileScheduler = "tile_scheduler", KnobDomain::Choice(&["static", "dynamic"]), Some(0),
        "blocks have tiles in turns (static), or claim the next one when they are done (dynamic)";
    /// Whether gradients of scores are left in the workspace; off where a config does not set it.
    StoredGradients = "stored_gradients", KnobDomain::Switch, Some(0),
        "1 leaves gradients of scores in the workspace, and multiplies those of queries by them";
    /// Whether operands that a mainloop stage computes are evaluated before the product, once, to the workspace; off where a config does
    /// not set it.
    EvaluateFirst = "evaluate_first", KnobDomain::Switch, Some(0),
        "1 evaluates mainloop stages once, to the workspace, not with each tile that reads them";
}

impl Knob {
    /// A value as printed and stored.
    pub fn value_text(self, value: u32) -> String {
        let name = match self.domain() {
            KnobDomain::Choice(names) => names.get(value as usize),
            KnobDomain::Count | KnobDomain::Switch => None,
        };
        name.map_or_else(|| value.to_string(), |name| (*name).to_owned())
    }

    /// Reads a value as [`Self::value_text`] writes it; `None` where the domain has no such value.
    pub fn parse_value(self, text: &str) -> Option<u32> {
        match self.domain() {
            KnobDomain::Count => text.parse().ok().filter(|value| *value > 0),
            KnobDomain::Switch => text.parse().ok().filter(|value| *value < 2),
            KnobDomain::Choice(names) => names.iter().position(|name| *name == text).map(|position| position as u32),
        }
    }
}

impl KnobDomain {
    /// Name as printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Switch => "switch",
            Self::Choice(_) => "choice",
        }
    }
}

/// One way to run a graph: an engine and the values of its knobs. Its text, `scalar tile_m=64 tile_n=64`, reads back
/// to the same config.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EngineConfig {
    /// Name of the engine.
    pub engine: &'static str,
    /// Knob values, each knob at most once.
    pub knobs: Vec<(Knob, u32)>,
}

impl EngineConfig {
    /// The value of a knob, or `default` where the config does not set it.
    pub fn knob(&self, knob: Knob, default: u32) -> u32 {
        self.knobs.iter().find(|setting| setting.0 == knob).map_or(default, |setting| setting.1)
    }
}

impl fmt::Display for EngineConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.engine)?;
        self.knobs.iter().try_for_each(|(knob, value)| write!(f, " {}={}", knob.name(), knob.value_text(*value)))
    }
}

/// Knobs and their values from words, each set once.
///
/// # Errors
/// Which word sets no knob, or one that is set.
pub(super) fn settings<'a>(words: impl Iterator<Item = &'a str>) -> Result<Vec<(Knob, u32)>, String> {
    let mut knobs: Vec<(Knob, u32)> = Vec::new();
    for word in words {
        let setting = setting(word).ok_or_else(|| format!("'{word}' sets no knob"))?;
        if knobs.iter().any(|(knob, _)| *knob == setting.0) {
            return Err(format!("'{word}' sets a knob again"));
        }
        knobs.push(setting);
    }
    Ok(knobs)
}

/// A knob and its value from `name=value`.
fn setting(word: &str) -> Option<(Knob, u32)> {
    let (name, value) = word.split_once('=')?;
    let knob = Knob::ALL.iter().copied().find(|knob| knob.name() == name)?;
    Some((knob, knob.parse_value(value)?))
}

/// A knob of an engine's own type of configs: where the type keeps its value.
pub(super) struct Field<C> {
    pub(super) knob: Knob,
    pub(super) get: fn(&C) -> u32,
    pub(super) set: fn(&mut C, u32),
}

impl EngineConfig {
    /// The config of an engine whose knobs are these fields; values that a config means where it does not set them are left out.
    pub(super) fn of_fields<C>(engine: &'static str, fields: &[Field<C>], config: &C) -> Self {
        let settings = fields.iter().map(|field| (field.knob, (field.get)(config)));
        let knobs = settings.filter(|(knob, value)| knob.unset() != Some(*value)).collect();
        Self { engine, knobs }
    }

    /// The engine's own config with these fields; what the text does not set has the default's value.
    pub(super) fn fields<C: Default>(&self, fields: &[Field<C>]) -> C {
        let mut config = C::default();
        for field in fields {
            let default = (field.get)(&config);
            (field.set)(&mut config, self.knob(field.knob, default));
        }
        config
    }
}

/// A config with the time that its engine's model expects.
#[derive(Clone, Debug, PartialEq)]
pub struct RankedConfig {
    /// The config.
    pub config: EngineConfig,
    /// Why the epilogue of a core is evaluated in launches of its own, from accumulators in the workspace; `None` where it is
    /// evaluated with the core's tiles, and for graphs without a core.
    pub through_workspace: Option<String>,
    /// Time of one execution by the engine's model, in microseconds. It orders the configs of one engine for one graph; as
    /// a time it is an orientation, as models are coarse and their constants were measured on an H200.
    pub estimated_us: f64,
    /// The terms of that time, in microseconds.
    pub estimate: Estimate,
}

impl RankedConfig {
    /// The same with the other [`Knob::TileScheduler`], the last knob of an engine that has it.
    pub(super) fn with_other_scheduler(&self) -> Self {
        let mut other = self.clone();
        let knobs = &mut other.config.knobs;
        match knobs.iter().position(|(knob, _)| *knob == Knob::TileScheduler) {
            Some(place) => drop(knobs.remove(place)),
            None => knobs.push((Knob::TileScheduler, 1)),
        }
        other
    }
}

/// Configs with what they cost in a unit of the engine's model, which is so many microseconds, and why an epilogue goes through the
/// workspace: sorted by cost; equal costs keep their order.
pub(super) fn ranked(
    configs: Vec<(Estimate, EngineConfig, Option<String>)>,
    microseconds_per_unit: f64,
) -> Vec<RankedConfig> {
    let ranked = |(estimate, config, through_workspace): (Estimate, _, _)| RankedConfig {
        config,
        through_workspace,
        estimated_us: estimate.total() * microseconds_per_unit,
        estimate: estimate.scaled(microseconds_per_unit),
    };
    let mut ranking: Vec<RankedConfig> = configs.into_iter().map(ranked).collect();
    ranking.sort_by(|a, b| a.estimated_us.total_cmp(&b.estimated_us));
    ranking
}

/// The knobs of a ranking, each with every value that it takes there, both in ascending order. A value that some configs
/// leave unset is among them where it is stated ([`Knob::unset`]).
pub fn knob_values(ranking: &[RankedConfig]) -> BTreeMap<Knob, BTreeSet<u32>> {
    let mut values: BTreeMap<Knob, BTreeSet<u32>> = BTreeMap::new();
    for (knob, value) in ranking.iter().flat_map(|ranked| &ranked.config.knobs) {
        values.entry(*knob).or_default().insert(*value);
    }
    for (knob, values) in &mut values {
        let is_unset = |ranked: &RankedConfig| ranked.config.knobs.iter().all(|setting| setting.0 != *knob);
        values.extend(knob.unset().filter(|_| ranking.iter().any(is_unset)));
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::ENGINES;

    /// Every value of an enumeration, some counts.
    fn values(knob: Knob) -> Vec<u32> {
        match knob.domain() {
            KnobDomain::Count => vec![1, 64, u32::MAX],
            KnobDomain::Switch => vec![0, 1],
            KnobDomain::Choice(names) => (0..names.len() as u32).collect(),
        }
    }

    fn config(knobs: &[(Knob, u32)]) -> EngineConfig {
        EngineConfig { engine: "scalar", knobs: knobs.to_vec() }
    }

    #[test]
    fn every_knob_and_value_reads_back() {
        for engine in ENGINES {
            for &knob in Knob::ALL {
                for value in values(knob) {
                    let config = EngineConfig { engine: engine.name(), knobs: vec![(knob, value), (Knob::ALL[0], 32)] };
                    let config = if knob == Knob::ALL[0] { self::config(&[(knob, value)]) } else { config };
                    assert_eq!(config.to_string().parse(), Ok(config));
                }
            }
        }
        let all: Vec<(Knob, u32)> = Knob::ALL.iter().map(|knob| (*knob, values(*knob)[0])).collect();
        assert_eq!(config(&all).to_string().parse(), Ok(config(&all)));
        assert_eq!("warp_mma".parse(), Ok(EngineConfig { engine: "warp_mma", knobs: Vec::new() }));
    }

    #[test]
    fn enumerations_are_spelt_out() {
        let config = config(&[(Knob::Schedule, 1), (Knob::SwapAb, 1), (Knob::Stages, 4)]);
        assert_eq!(config.to_string(), "scalar schedule=ping_pong swap_ab=1 stages=4");
    }

    #[test]
    fn fields_are_written_and_read_by_one_table() {
        #[derive(Debug, Default, PartialEq)]
        struct Own {
            stages: u32,
            splits: u32,
        }
        const FIELDS: &[Field<Own>] = &[
            Field { knob: Knob::Stages, get: |own| own.stages, set: |own, value| own.stages = value },
            Field { knob: Knob::SplitK, get: |own| own.splits, set: |own, value| own.splits = value },
        ];
        let own = Own { stages: 4, splits: 8 };
        let written = EngineConfig::of_fields("scalar", FIELDS, &own);
        assert_eq!((written.to_string().as_str(), written.fields(FIELDS)), ("scalar stages=4 split_k=8", own));
        let whole = EngineConfig::of_fields("scalar", FIELDS, &Own { stages: 4, splits: 1 });
        assert_eq!(whole.to_string(), "scalar stages=4");
    }

    #[test]
    fn names_are_unique() {
        let names: BTreeSet<&str> = Knob::ALL.iter().map(|knob| knob.name()).collect();
        assert_eq!(names.len(), Knob::ALL.len());
    }

    #[test]
    fn other_text_is_no_config() {
        for text in [
            "",
            "surface60",
            "scalar tile_m",
            "scalar tile_m=",
            "scalar tile_m=0",
            "scalar tile_m=-1",
            "scalar tile_m=4294967296",
            "scalar tile_m=64 tile_m=64",
            "scalar schedule=2",
            "scalar schedule=1",
            "scalar swap_ab=2",
            "scalar colour=1",
            "scalar  tile_m=64",
            "scalar tile_m=64 ",
        ] {
            assert!(text.parse::<EngineConfig>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_cheapest_comes_first_and_equal_costs_keep_their_order() {
        let costs = [2.0, 1.0, 2.0].map(Estimate::of_memory).into_iter().zip(1..);
        let costs = costs.map(|(estimate, stages)| (estimate, config(&[(Knob::Stages, stages)]), None));
        let ranked = ranked(costs.collect(), 0.5);
        let order: Vec<(u32, f64)> =
            ranked.iter().map(|ranked| (ranked.config.knob(Knob::Stages, 0), ranked.estimated_us)).collect();
        assert_eq!(order, [(2, 0.5), (1, 1.0), (3, 1.0)]);
    }

    #[test]
    fn the_values_of_a_ranking_hold_what_is_left_unset() {
        let configs = [config(&[(Knob::Stages, 4)]), config(&[(Knob::Stages, 3), (Knob::SplitK, 8)])];
        let ranking = ranked(configs.map(|config| (Estimate::of_memory(1.0), config, None)).to_vec(), 1.0);
        let expected = [(Knob::Stages, BTreeSet::from([3, 4])), (Knob::SplitK, BTreeSet::from([1, 8]))];
        assert_eq!(knob_values(&ranking), BTreeMap::from(expected));
    }
}
