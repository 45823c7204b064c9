//! Many graphs, numbered, in parallel.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::time::{Duration, Instant};

use rayon::prelude::*;

use super::family::Family;
use super::finding::Finding;
use super::generator::{Generated, generate};
use super::minimize::minimize;
use super::oracle::{Computed, Examination, Standing, examine};
use crate::graph::Graph;

/// Bytes that a graph is made from.
const BYTES: usize = 512;

/// Graphs that are examined before progress is told, and the clock looked at.
const BATCH: u64 = 64;

/// A run over numbered graphs; graph `i` of a seed is the same on every machine.
pub struct Campaign<'a> {
    /// Families, taken in turns.
    pub families: Vec<Family>,
    /// Seed of all graphs.
    pub seed: u64,
    /// Number of the first graph.
    pub first: u64,
    /// How many graphs; a campaign may end before by time.
    pub count: u64,
    /// When it ends at the latest.
    pub limit: Option<Duration>,
    /// What is asked of each graph.
    pub examination: Examination<'a>,
}

/// Counts of one family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Graphs made.
    pub generated: u64,
    /// Not well formed.
    pub malformed: u64,
    /// Taken by no engine.
    pub refused: u64,
    /// Taken by some engine, lowered and rendered.
    pub accepted: u64,
    /// Legal as documented on the surface aimed at.
    pub on_aim: u64,
    /// Kernels compiled.
    pub compiled: u64,
    /// Kernels run, each compared with the CPU engine.
    pub run: u64,
    /// Graphs whose results were compared with another computation.
    pub matched: u64,
    /// Graphs that were made to break a chosen rule, and refused by its name.
    pub broken: u64,
    /// Not as they must be.
    pub failed: u64,
}

impl AddAssign for Totals {
    fn add_assign(&mut self, other: Self) {
        self.generated += other.generated;
        self.malformed += other.malformed;
        self.refused += other.refused;
        self.accepted += other.accepted;
        self.on_aim += other.on_aim;
        self.compiled += other.compiled;
        self.run += other.run;
        self.matched += other.matched;
        self.broken += other.broken;
        self.failed += other.failed;
    }
}

/// A graph that does not meet an expectation.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Its family.
    pub family: Family,
    /// Its number.
    pub number: u64,
    /// What is wrong.
    pub finding: Finding,
    /// A smaller graph with the same finding.
    pub graph: Graph,
}

/// The bytes that graph `number` of a seed is made from.
pub fn graph_bytes(seed: u64, number: u64) -> Vec<u8> {
    let mut hasher = blake3::Hasher::new_derive_key("fusewright random operation graph");
    hasher.update(&seed.to_le_bytes()).update(&number.to_le_bytes());
    let mut bytes = vec![0; BYTES];
    hasher.finalize_xof().fill(&mut bytes);
    bytes
}

impl Campaign<'_> {
    /// Examines the graphs; tells of each batch how many are done in all, and of each failure as it is found.
    pub fn run(&self, mut progress: impl FnMut(u64), mut failed: impl FnMut(Failure)) -> BTreeMap<Family, Totals> {
        let start = Instant::now();
        let mut totals: BTreeMap<Family, Totals> = BTreeMap::new();
        let end = self.first.saturating_add(self.count);
        let mut next = self.first;
        while next < end && self.limit.is_none_or(|limit| start.elapsed() < limit) {
            let batch = next..end.min(next + BATCH);
            next = batch.end;
            let results: Vec<_> = batch.into_par_iter().map(|number| self.one(number)).collect();
            for (family, counts, failure) in results {
                *totals.entry(family).or_default() += counts;
                failure.into_iter().for_each(&mut failed);
            }
            progress(next - self.first);
        }
        totals
    }

    fn one(&self, number: u64) -> (Family, Totals, Option<Failure>) {
        let family = self.families[(number % self.families.len() as u64) as usize];
        let bytes = graph_bytes(self.seed, number);
        let Generated { graph, aim } = generate(family, &bytes);
        let mut totals = Totals { generated: 1, ..Totals::default() };
        let finding = match examine(&graph, aim, &bytes, &self.examination) {
            Ok(standing) => {
                totals.count(standing);
                return (family, totals, None);
            }
            Err(finding) => finding,
        };
        totals.failed = 1;
        let shows = |smaller: &Graph| {
            let again = examine(smaller, aim, &bytes, &self.examination);
            again.is_err_and(|again| again.oracle == finding.oracle)
        };
        let graph = minimize(&graph, shows);
        (family, totals, Some(Failure { family, number, finding, graph }))
    }
}

impl Totals {
    fn count(&mut self, standing: Standing) {
        match standing {
            Standing::Malformed => self.malformed += 1,
            Standing::Refused => self.refused += 1,
            Standing::Accepted { on_aim, computed: Computed { compiled, run, matched }, broken } => {
                self.accepted += 1;
                self.on_aim += u64::from(on_aim);
                self.compiled += compiled;
                self.run += run;
                self.matched += u64::from(matched);
                self.broken += u64::from(broken.is_some());
            }
        }
    }
}
