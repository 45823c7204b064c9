//! Several passes over the same points in one launch.

use std::collections::BTreeSet;

use super::channels::Channels;
use super::passes::Pass;
use super::phases::Gathered;
use super::rows::Rows;
use crate::device::Device;
use crate::engine::builder::KernelBuilder;
use crate::graph::{FinalizedGraph, TensorId};
use crate::kernel::StageProgram;

/// A launch of passes, and what is left.
pub(super) struct Together {
    launch: OneLaunch,
    /// Totals that stay with its threads.
    pub(super) totals: BTreeSet<TensorId>,
    /// Passes that it does not take.
    pub(super) rest: Vec<Pass>,
}

enum OneLaunch {
    Rows(Box<Rows>),
    Channels(Channels),
}

impl Together {
    /// The launch, where passes read what those over the same points were reduced to; `launched` are threads of a block, and the chip.
    pub(super) fn new(
        graph: &FinalizedGraph,
        program: &StageProgram,
        passes: &[Pass],
        launched: (u32, &Device),
    ) -> Option<Self> {
        let gathered = Gathered::new(graph, program, passes)?;
        let rows = Rows::new(&gathered, launched).map(|(rows, rest)| (OneLaunch::Rows(Box::new(rows)), rest));
        let launch = rows.or_else(|| {
            let channels = Channels::new(&gathered, launched)?;
            Some((OneLaunch::Channels(channels), gathered.rest.clone()))
        });
        launch.map(|(launch, rest)| Self { launch, totals: gathered.totals.clone(), rest })
    }

    /// Adds the launch.
    pub(super) fn push(self, builder: &mut KernelBuilder) {
        match self.launch {
            OneLaunch::Rows(rows) => rows.push(builder),
            OneLaunch::Channels(channels) => channels.push(builder),
        }
    }
}
