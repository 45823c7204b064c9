//! Configs of engines, as heuristic modes rank them for a graph and a device.

use std::sync::Arc;

use fusewright::device::Device;
use fusewright::engine::{EngineConfig, Selection};
use pyo3::prelude::*;

use crate::graph::Graph;

/// A way to compute a graph on a device: an engine with its knobs.
#[pyclass(frozen, module = "fusewright")]
pub(crate) struct Config {
    pub(crate) graph: Graph,
    pub(crate) offered: Offered,
    /// Time of an execution by the engine's model, in seconds; none of what is no GPU's.
    #[pyo3(get)]
    expected_seconds: Option<f64>,
}

/// What computes it.
pub(crate) enum Offered {
    /// The CPU engine.
    Cpu,
    /// A kernel for a device.
    Kernel { selection: Arc<Selection>, config: EngineConfig, device: Arc<Device> },
}

impl Config {
    pub(crate) fn new(graph: &Graph, offered: Offered, expected_microseconds: Option<f64>) -> Self {
        Self { graph: graph.clone(), offered, expected_seconds: expected_microseconds.map(|each| each * 1e-6) }
    }
}

#[pymethods]
impl Config {
    #[getter]
    fn graph(&self) -> Graph {
        self.graph.clone()
    }

    #[getter]
    fn engine(&self) -> &str {
        match &self.offered {
            Offered::Cpu => "cpu",
            Offered::Kernel { config, .. } => config.engine,
        }
    }

    /// Engine and knobs, as the command line prints them.
    #[getter]
    fn name(&self) -> String {
        match &self.offered {
            Offered::Cpu => "cpu".to_owned(),
            Offered::Kernel { config, .. } => config.to_string(),
        }
    }

    /// Bytes of memory of the GPU that an execution needs beside the graph's tensors.
    #[getter]
    fn workspace_bytes(&self, py: Python<'_>) -> u64 {
        match &self.offered {
            Offered::Cpu => 0,
            Offered::Kernel { selection, config, device } => {
                py.detach(|| selection.lower(config, device).workspace_bytes)
            }
        }
    }

    fn __repr__(&self) -> String {
        format!("Config({:?})", self.name())
    }
}
