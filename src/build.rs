//! Kernel, source and machine code of a graph in one engine config: lowering, rendering and compiling, in one place.
//!
//! What runs, prints or stores kernels makes a [`Build`] first; which config it is of, the caller chooses.
//!
//! # When
//!
//! You need this to have source or machine code of a certain config, without executing it.
//!
//! ```
//! # use std::sync::Arc;
//! # use fusewright::graph::{DataType, Graph, PointwiseMode, Tensor};
//! # let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
//! # let a = graph.tensor(Tensor::new("a").row_major([1, 64, 128]));
//! # let b = graph.tensor(Tensor::new("b").row_major([1, 128, 32]));
//! # let c = graph.matmul("matmul", a, b);
//! # graph.set_output(c);
//! # let graph = Arc::new(graph.finalize()?);
//! use fusewright::build::Build;
//! use fusewright::device::{ComputeCapability, Device};
//! use fusewright::engine::select;
//!
//! let device = Device::typical(ComputeCapability::SM_90);
//! let selection = select(&graph, device.capability)?;
//! let second = selection.candidates(&device).swap_remove(1).config;
//! let build = Build::new(&selection, second.clone(), &device)?;
//! assert_eq!((build.config, build.capability), (second, device.capability));
//! assert!(!build.source.text.contains("#include"));
//! # Ok::<(), fusewright::error::Error>(())
//! ```

use std::sync::Arc;

use crate::codegen::{self, Source};
use crate::compile::{Compiled, Compiler, Request};
use crate::device::{ComputeCapability, Device};
use crate::engine::{EngineConfig, HeuristicMode, Heuristics, Selection, heuristics};
use crate::error::Error;
use crate::graph::FinalizedGraph;
use crate::kernel::Kernel;

/// The kernel of a graph in a config of its engine, ready to be compiled.
#[derive(Clone, Debug)]
pub struct Build {
    /// The graph as it was given; in the kernel's own, composite operations are taken apart.
    pub graph: Arc<FinalizedGraph>,
    /// The engine config.
    pub config: EngineConfig,
    /// The chip that the source is written for.
    pub capability: ComputeCapability,
    /// What the engine decided.
    pub kernel: Kernel,
    /// The CUDA text and its launches.
    pub source: Source,
}

impl Build {
    /// Lowers and renders one of the [candidates](Selection::candidates) for a device.
    ///
    /// # Errors
    /// As [`codegen::render`].
    pub fn new(selection: &Selection, config: EngineConfig, device: &Device) -> Result<Self, Error> {
        let kernel = selection.lower(&config, device);
        let source = codegen::render(&kernel)?;
        let graph = Arc::clone(selection.supported().graph());
        Ok(Self { graph, config, capability: device.capability, kernel, source })
    }

    /// The first of the candidates for a device: what to run unmeasured.
    ///
    /// # Errors
    /// As [`Selection::config`] and [`Self::new`].
    pub fn first(selection: &Selection, device: &Device) -> Result<Self, Error> {
        Self::new(selection, selection.config(device)?, device)
    }

    /// The first config of a graph in a heuristic mode.
    ///
    /// # Errors
    /// As [`heuristics`] and [`Self::new`].
    pub fn in_mode(graph: &Arc<FinalizedGraph>, device: &Device, mode: HeuristicMode) -> Result<Self, Error> {
        let Heuristics { selection, mut configs } = heuristics(graph, device, mode)?;
        Self::new(&selection, configs.swap_remove(0).config, device)
    }

    /// What a compiler is asked for.
    pub fn request(&self) -> Request<'_> {
        Request {
            graph: self.graph.class(),
            engine: self.config.engine,
            config: &self.kernel.config,
            source: &self.source.text,
            capability: self.capability,
        }
    }

    /// The machine code: from the compiler's caches, or compiled now.
    ///
    /// # Errors
    /// As [`Compiler::compile`].
    pub fn compile(&self, compiler: &Compiler) -> Result<Compiled, Error> {
        compiler.compile(&self.request())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::select;
    use crate::graph::{DataType, Graph, Tensor};

    fn softmax() -> Arc<FinalizedGraph> {
        let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
        let x = graph.tensor(Tensor::new("x").row_major([2, 4, 64]));
        let y = graph.softmax("softmax", x);
        graph.set_output(y);
        Arc::new(graph.finalize().expect("well formed"))
    }

    #[test]
    fn a_request_names_graph_engine_config_and_chip() {
        let (graph, device) = (softmax(), Device::typical(ComputeCapability::SM_90));
        let selection = select(&graph, device.capability).expect("supported");
        let build = Build::first(&selection, &device).expect("rendered");
        assert!(Arc::ptr_eq(&build.graph, &graph));
        assert!(build.kernel.graph.operations().len() > graph.operations().len(), "the softmax is taken apart");
        let Request { graph: key, engine, config, source, capability } = build.request();
        assert_eq!((key, capability), (graph.key(), device.capability));
        assert_eq!((engine, config), (build.kernel.engine, build.config.to_string().as_str()));
        assert_eq!(source, build.source.text);
    }

    #[test]
    fn a_mode_begins_with_what_its_heuristic_puts_first() {
        let (graph, device) = (softmax(), Device::typical(ComputeCapability::SM_90));
        for mode in HeuristicMode::ALL {
            let first = heuristics(&graph, &device, mode).expect("supported").first().config.clone();
            assert_eq!(Build::in_mode(&graph, &device, mode).expect("rendered").config, first, "{mode}");
        }
    }
}
