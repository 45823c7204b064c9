//! Graphs: read, asked about, rendered.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use fusewright::build::Build;
use fusewright::device::{ComputeCapability, Device};
use fusewright::error::Error;
use fusewright::frontend::{read_documents, read_graph, write_v2};
use fusewright::graph::{FinalizedGraph, TensorId};
use fusewright::{cli, engine, support};
use pyo3::prelude::*;

use crate::errors::{detached, input_error};
use crate::verdict::Verdict;

/// A tensor that a caller gives or gets.
#[pyclass(frozen, get_all, module = "fusewright")]
#[derive(Clone)]
pub(crate) struct TensorInfo {
    pub(crate) uid: i64,
    pub(crate) name: String,
    pub(crate) dim: Vec<i64>,
    pub(crate) stride: Vec<i64>,
    pub(crate) data_type: String,
    pub(crate) is_pass_by_value: bool,
}

#[pymethods]
impl TensorInfo {
    fn __repr__(&self) -> String {
        let Self { uid, name, dim, stride, data_type, .. } = self;
        format!("TensorInfo(uid={uid}, name={name:?}, dim={dim:?}, stride={stride:?}, data_type={data_type:?})")
    }
}

/// A well-formed graph whose tensors all have type, extents and strides.
#[pyclass(frozen, module = "fusewright")]
#[derive(Clone)]
pub(crate) struct Graph {
    pub(crate) graph: Arc<FinalizedGraph>,
    #[pyo3(get)]
    name: String,
}

/// Tensors of a graph that a caller gives (`is_output` false) or gets, in ascending order of uids. Scalars whose values the graph states are
/// not among them.
pub(crate) fn outer_tensors(graph: &FinalizedGraph, is_output: bool) -> Vec<TensorId> {
    let found: BTreeSet<(i64, TensorId)> = match is_output {
        true => graph.outputs().map(|id| (graph.tensor(id).uid, id)).collect(),
        false => graph.inputs().map(|id| (graph.tensor(id).uid, id)).collect(),
    };
    found.into_iter().map(|(_, id)| id).filter(|&id| graph.tensor(id).value.is_none()).collect()
}

/// What a caller is told of tensors.
pub(crate) fn infos(graph: &FinalizedGraph, tensors: &[TensorId]) -> Vec<TensorInfo> {
    let info = |&id: &TensorId| {
        let tensor = graph.tensor(id);
        TensorInfo {
            uid: tensor.uid,
            name: tensor.name.clone(),
            dim: tensor.dim.clone(),
            stride: tensor.stride.clone(),
            data_type: tensor.data_type.to_string(),
            is_pass_by_value: tensor.is_pass_by_value,
        }
    };
    tensors.iter().map(info).collect()
}

/// The chip of a name such as `sm_90`.
fn chip(py: Python<'_>, arch: &str) -> PyResult<ComputeCapability> {
    arch.parse().map_err(|error| input_error(py, format!("arch: {error}")))
}

#[pymethods]
impl Graph {
    /// The one graph of a text.
    #[staticmethod]
    #[pyo3(signature = (text, place = "graph"))]
    fn from_json(py: Python<'_>, text: &str, place: &str) -> PyResult<Self> {
        detached(py, || Self::read(text, place))
    }

    #[getter]
    fn key(&self) -> String {
        self.graph.key().to_string()
    }

    #[getter]
    fn inputs(&self) -> Vec<TensorInfo> {
        infos(&self.graph, &outer_tensors(&self.graph, false))
    }

    #[getter]
    fn outputs(&self) -> Vec<TensorInfo> {
        infos(&self.graph, &outer_tensors(&self.graph, true))
    }

    fn to_json(&self) -> String {
        write_v2(&self.graph.to_graph())
    }

    #[pyo3(signature = (arch = "sm_90"))]
    fn check(&self, py: Python<'_>, arch: &str) -> PyResult<Verdict> {
        let capability = chip(py, arch)?;
        detached(py, || Ok(Verdict::of(&self.graph, capability)))
    }

    #[pyo3(signature = (arch = "sm_90"))]
    fn explain(&self, py: Python<'_>, arch: &str) -> PyResult<String> {
        let device = Device::typical(chip(py, arch)?);
        let place = if self.name.is_empty() { "graph" } else { &self.name };
        detached(py, || cli::explanation(place, &self.graph, &device))
    }

    #[pyo3(signature = (arch = "sm_90"))]
    fn source(&self, py: Python<'_>, arch: &str) -> PyResult<String> {
        let device = Device::typical(chip(py, arch)?);
        detached(py, || {
            let selection = engine::select(&self.graph, device.capability)?;
            Ok(Build::first(&selection, &device)?.source.text)
        })
    }

    #[pyo3(signature = (arch = "sm_90"))]
    fn expected_seconds(&self, py: Python<'_>, arch: &str) -> PyResult<f64> {
        let device = Device::typical(chip(py, arch)?);
        detached(py, || {
            let selection = engine::select(&self.graph, device.capability)?;
            let configs = selection.candidates(&device);
            configs.first().map(|first| first.estimated_us * 1e-6).ok_or_else(|| Error::input("graph", "has no config"))
        })
    }

    fn __repr__(&self) -> String {
        let operations = self.graph.operation_ids().count();
        format!("<Graph {:?}: {operations} operations, key {}>", self.name, self.graph.key())
    }
}

impl Graph {
    /// The one graph of a text.
    pub(crate) fn read(text: &str, place: &str) -> Result<Self, Error> {
        let graph = read_graph(place, text.as_bytes())?;
        let name = graph.name.clone();
        Ok(Self { name, graph: Arc::new(graph.finalize()?) })
    }

    /// What plans of two graphs must have in common: the graph, and which of its tensors has which uid.
    pub(crate) fn identity(&self) -> String {
        let uids: Vec<i64> = self.graph.tensors().map(|tensor| tensor.uid).collect();
        format!("{} {uids:?}", self.graph.key())
    }
}

/// The graphs of a file: JSON, JSON lines or a log.
#[pyfunction]
pub(crate) fn load(py: Python<'_>, path: PathBuf) -> PyResult<Vec<Graph>> {
    detached(py, || {
        let place = path.display().to_string();
        let bytes = std::fs::read(&path).map_err(|error| Error::input(&*place, error.to_string()))?;
        graphs(&place, &bytes)
    })
}

/// The graphs of a text.
#[pyfunction]
#[pyo3(signature = (text, place = "text"))]
pub(crate) fn loads(py: Python<'_>, text: &str, place: &str) -> PyResult<Vec<Graph>> {
    detached(py, || graphs(place, text.as_bytes()))
}

fn graphs(place: &str, bytes: &[u8]) -> Result<Vec<Graph>, Error> {
    let found = read_documents(place, bytes);
    if found.documents.is_empty() {
        return Err(Error::input(place, "no graph in it"));
    }
    let graph = |document: fusewright::frontend::GraphDocument| {
        let name = document.name.clone();
        let described = document.result.map_err(Error::from)?;
        let finalized = described
            .finalize()
            .map_err(|error| Error::input(format!("{place}: graph '{name}'"), error.to_string()))?;
        Ok(Graph { name, graph: Arc::new(finalized) })
    };
    found.documents.into_iter().map(graph).collect()
}

/// Ids of all documented rules that graphs can break, with what they require.
#[pyfunction]
pub(crate) fn rules() -> Vec<(&'static str, String)> {
    support::catalogue().map(|rule| (rule.id, rule.summary.to_string())).collect()
}
