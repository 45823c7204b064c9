//! The proof that a graph is supported.

use std::sync::Arc;

use super::rule::{Rule, SurfaceId};
use crate::device::ComputeCapability;
use crate::fusion::Fusion;
use crate::graph::FinalizedGraph;

/// A graph that satisfies every rule of a surface on a chip, up to rules that its engine relaxes.
///
/// Only the checker makes one; lowering takes nothing else.
#[derive(Clone, Debug)]
pub struct Supported {
    pub(super) fusion: Fusion,
    pub(super) surface: SurfaceId,
    pub(super) capability: ComputeCapability,
    pub(super) relaxed: Vec<&'static Rule>,
}

impl Supported {
    /// The graph cut into stages.
    pub fn fusion(&self) -> &Fusion {
        &self.fusion
    }

    /// The graph.
    pub fn graph(&self) -> &Arc<FinalizedGraph> {
        self.fusion.graph()
    }

    /// The surface that holds.
    pub fn surface(&self) -> SurfaceId {
        self.surface
    }

    /// The same for a part of the graph, which an engine plans by itself.
    pub(crate) fn of_part(&self, fusion: Fusion) -> Self {
        Self { fusion, ..self.clone() }
    }

    /// The chip asked about.
    pub fn capability(&self) -> ComputeCapability {
        self.capability
    }

    /// Rules of the surface that the graph breaks and the caller relaxed, each once; empty for [`super::check`].
    pub fn relaxed(&self) -> &[&'static Rule] {
        &self.relaxed
    }
}
