//! A lowered graph: functions with their launches.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Body, Launch, Mma, MmaType, Multiply, Wgmma};
use crate::graph::{FinalizedGraph, TensorId};

/// A lowered graph: one source file with one or more launches.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The graph computed, its composite operations taken apart, without what is evaluated before its core.
    pub graph: Arc<FinalizedGraph>,
    /// Name of the engine that lowered it.
    pub engine: &'static str,
    /// The engine config, as printed into the source.
    pub config: String,
    /// The functions of the file, in order; each is launched once, in this order.
    pub functions: Vec<Function>,
    /// Further launches of functions of the file, with other arguments, behind these.
    pub repeats: Vec<Launch>,
    /// Workspace shared by the launches, in bytes.
    pub workspace_bytes: u64,
}

impl Kernel {
    /// The kernel with the launches of another before its own, which find nothing in the workspace that they share; `before` is part of
    /// the names of the first.
    #[must_use]
    pub(crate) fn after(self, first: Self) -> Self {
        debug_assert!(first.repeats.is_empty(), "repeats come behind the functions of one kernel");
        let functions = first.functions.into_iter().map(Function::before).chain(self.functions).collect();
        Self { functions, workspace_bytes: self.workspace_bytes.max(first.workspace_bytes), ..self }
    }

    /// The kernel with the launches of another behind its own, as part `number` of a chain. Some tensors of the other lie in the workspace at
    /// these places; what else it has there begins at `behind`.
    #[must_use]
    pub(crate) fn then(mut self, next: Self, number: usize, kept: &BTreeMap<TensorId, u64>, behind: u64) -> Self {
        debug_assert!(next.repeats.is_empty(), "repeats come behind the functions of one kernel");
        for Function { mut launch, body, graph } in next.functions {
            let name = launch.function.strip_prefix("fw_").unwrap_or(&launch.function);
            launch.function = format!("fw_part{number}_{name}");
            launch.parameters.iter_mut().for_each(|parameter| *parameter = parameter.placed(kept, behind));
            let graph = graph.or_else(|| Some(Arc::clone(&next.graph)));
            self.functions.push(Function { launch, body, graph });
        }
        self.workspace_bytes = self.workspace_bytes.max(behind + next.workspace_bytes);
        self
    }

    /// Whether some matrix instruction takes operands of this type.
    pub fn multiplies(&self, wanted: MmaType) -> bool {
        self.operands().any(|operand| operand == wanted)
    }

    /// Whether there are matrix instructions at all.
    pub fn uses_tensor_cores(&self) -> bool {
        self.operands().next().is_some()
    }

    /// What the matrix instructions take.
    fn operands(&self) -> impl Iterator<Item = MmaType> + '_ {
        self.functions.iter().filter_map(|function| match &function.body {
            Body::Gemm(gemm) => match gemm.multiply {
                Multiply::Mma(Mma { operand, .. }) | Multiply::Wgmma(Wgmma { operand, .. }) => Some(operand),
                Multiply::Fma(_) => None,
            },
            Body::Attention(attention) => Some(attention.problem.operand),
            Body::WarpAttention(attention) => Some(attention.problem.operand),
            Body::AttentionBackward(attention) => Some(attention.problem.operand),
            Body::WarpAttentionBackward(attention) => Some(attention.problem.operand),
            Body::AttentionQueries(queries) => Some(queries.problem.operand),
            Body::AttentionBias(bias) => Some(bias.pass.problem.operand),
            _ => None,
        })
    }
}

/// One `__global__` function with its launch.
#[derive(Clone, Debug)]
pub struct Function {
    /// How it is launched; the parameters are those of the function.
    pub launch: Launch,
    /// What it does.
    pub body: Body,
    /// The graph whose tensors it is about, where it is not the kernel's: a part of that one, in which some tensors are seen otherwise.
    pub graph: Option<Arc<FinalizedGraph>>,
}

impl Function {
    /// The function under the name that it has before another kernel's.
    fn before(mut self) -> Self {
        let name = &self.launch.function;
        self.launch.function = format!("fw_before_{}", name.strip_prefix("fw_").unwrap_or(name));
        self
    }
}
