//! Operands that a mainloop stage computes, evaluated once, before the core.

use std::collections::BTreeSet;

use super::super::sweep::elements;
use crate::fusion::{CoreOperand, Fusion};
use crate::graph::{
    Attributes, DataType, FinalTensor, FinalizedGraph, OperationId, Pointwise, PointwiseMode, TensorId,
};
use crate::kernel::{MmaType, StageProgram, Step, Value};

/// The operations that compute an operand; `None` where there are none, where one gives what memory keeps, or where one is a signal,
/// which has its place among the launches.
pub(super) fn private_stage(fusion: &Fusion, operand: &CoreOperand) -> Option<BTreeSet<OperationId>> {
    let graph = fusion.graph();
    let stage: BTreeSet<OperationId> = fusion.operations(operand.stage()).collect();
    let is_private = |&id: &OperationId| {
        let operation = graph.operation(id);
        let is_signal = matches!(operation.attributes, Attributes::Signal(_));
        !is_signal && operation.output_tensors().all(|tensor| graph.tensor(tensor).is_virtual)
    };
    (!stage.is_empty() && stage.iter().all(is_private)).then_some(stage)
}

/// The type in which a value is stored to be multiplied by an instruction; `None` where that takes none of its type.
pub(super) fn stored_type(operand: MmaType, value: DataType) -> Option<DataType> {
    match operand {
        MmaType::F16 => Some(DataType::Half),
        MmaType::Bf16 => Some(DataType::BFloat16),
        MmaType::Tf32 => Some(DataType::Float),
        MmaType::S8 => Some(DataType::Int8),
        MmaType::Fp8 => value.is_fp8().then_some(value),
    }
}

/// The axis along which the largest tensor that a stage reads is contiguous, if the stage's result has all of it; else that of the result.
pub(super) fn contiguous_axis(graph: &FinalizedGraph, program: &StageProgram, result: &FinalTensor) -> usize {
    let largest = program.moved().map(|id| graph.tensor(id)).max_by_key(|tensor| elements(tensor));
    let decides = largest.filter(|tensor| tensor.dim == result.dim).unwrap_or(result);
    let axes = (0..decides.dim.len()).filter(|&axis| decides.dim[axis] > 1);
    axes.min_by_key(|&axis| decides.stride[axis]).unwrap_or_default()
}

/// The program that ends with a value in the type in which it is stored.
pub(super) fn stored(
    program: StageProgram,
    value: TensorId,
    copy: TensorId,
    [from, to]: [DataType; 2],
) -> StageProgram {
    let compute = if from == to { from } else { DataType::Float };
    let attributes = Pointwise::new(PointwiseMode::Identity);
    let converted = Step { tensor: copy, value: Value::Pointwise { attributes, operands: vec![value], compute } };
    StageProgram { steps: program.steps.into_iter().chain([converted]).collect() }
}
