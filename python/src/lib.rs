//! `fusewright._core`: what the Python package is made of. `python/fusewright/_core.pyi` documents it for its users.

mod array;
mod config;
mod cuda_array;
mod dlpack;
mod errors;
mod exchange;
mod graph;
mod operator;
mod plan;
mod session;
mod tensor;
mod verdict;

use std::ffi::OsString;

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
mod _core {
    use super::*;

    #[pymodule_export]
    use super::array::Array;
    #[pymodule_export]
    use super::config::Config;
    #[pymodule_export]
    use super::graph::{Graph, TensorInfo, load, loads, rules};
    #[pymodule_export]
    use super::operator::{DirectKernel, register_torch_kernel};
    #[pymodule_export]
    use super::plan::Plan;
    #[pymodule_export]
    use super::session::Session;
    #[pymodule_export]
    use super::verdict::{Verdict, Violation};

    /// The command line with these arguments, the program's name before them; its exit code.
    #[pyfunction]
    fn run_command_line(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
        py.detach(|| fusewright::cli::run(arguments))
    }

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
