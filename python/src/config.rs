//! Configs of engines, as heuristic modes rank them for a graph and a device.

use std::collections::BTreeMap;
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

    /// Values of knobs by their names.
    #[getter]
    fn knobs(&self) -> BTreeMap<&'static str, u32> {
        match &self.offered {
            Offered::Cpu => BTreeMap::new(),
            Offered::Kernel { config, .. } => config.knobs.iter().map(|&(knob, value)| (knob.name(), value)).collect(),
        }
    }

    /// cuDNN's notes on how kernels behave: those of all engines of a GPU.
    #[getter]
    fn behavior_notes(&self) -> Vec<&'static str> {
        match &self.offered {
            Offered::Cpu => Vec::new(),
            Offered::Kernel { .. } => vec!["RUNTIME_COMPILATION", "SUPPORTS_CUDA_GRAPH_NATIVE_API"],
        }
    }

    /// cuDNN's notes on how kernels compute.
    #[getter]
    fn numeric_notes(&self, py: Python<'_>) -> Vec<&'static str> {
        let uses_tensor_cores = match &self.offered {
            Offered::Cpu => false,
            Offered::Kernel { selection, config, device } => {
                py.detach(|| selection.lower(config, device).uses_tensor_cores())
            }
        };
        uses_tensor_cores.then_some("TENSOR_CORE").into_iter().collect()
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
