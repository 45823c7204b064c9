//! What kernels read for scores, a soft cap, a bias, a mask of dropout and slopes of heads, and the gradient of a bias with its tile.

use super::super::attention::plan::{held_by_l2, is_paired};
use super::plan::Plan;
use super::{HELD, MOST_STAGES, STEPS, model, registers};
use crate::device::Device;
use crate::graph::{DataType, FinalizedGraph, Operation, Port, TensorId};
use crate::kernel::{
    AttentionBackwardKernel, AttentionBiasKernel, AttentionExtents, BackwardTile, HeadSlopes, MaskedDropping,
    ScoreTensor,
};

/// The bias of scores, if they have one.
///
/// # Errors
/// One that kernels do not read.
pub(super) fn bias(
    graph: &FinalizedGraph,
    operation: &Operation,
    extents: AttentionExtents,
) -> Result<Option<ScoreTensor>, String> {
    let bias = operation.input(Port::ATTENTION_BIAS);
    bias.map(|id| read(graph, id, extents, "a bias")).transpose()
}

fn read(graph: &FinalizedGraph, id: TensorId, extents: AttentionExtents, what: &str) -> Result<ScoreTensor, String> {
    is_taken(graph, id, what)?;
    let bits = graph.tensor(id).data_type.bits() as u32;
    Ok(ScoreTensor { tensor: id, bits, is_paired: is_paired(graph, id, extents.keys) })
}

/// The mask of dropout, if one is given.
///
/// # Errors
/// One that kernels do not read.
pub(super) fn masked(
    graph: &FinalizedGraph,
    operation: &Operation,
    extents: AttentionExtents,
) -> Result<Option<MaskedDropping>, String> {
    let Some(id) = operation.input(Port::DROPOUT_MASK) else { return Ok(None) };
    let mask = read(graph, id, extents, "a mask of dropout")?;
    let [scale, inverse] = [Port::DROPOUT_SCALE, Port::DROPOUT_SCALE_INV].map(|port| operation.input(port));
    for id in [scale, inverse].into_iter().flatten() {
        is_taken(graph, id, "a factor of dropout")?;
    }
    Ok(Some(MaskedDropping { mask, scale, inverse }))
}

/// What scores are capped by, if they are.
///
/// # Errors
/// A cap that kernels do not read.
pub(super) fn cap(graph: &FinalizedGraph, operation: &Operation) -> Result<Option<TensorId>, String> {
    let cap = operation.input(Port::SOFT_CAP);
    cap.map(|id| is_taken(graph, id, "a soft cap").map(|()| id)).transpose()
}

/// By what scores lean, if they do.
///
/// # Errors
/// Slopes that kernels do not read.
pub(super) fn slopes(
    graph: &FinalizedGraph,
    operation: &Operation,
    are_of_frontend: bool,
) -> Result<Option<HeadSlopes>, String> {
    match operation.input(Port::ALIBI_SLOPES) {
        Some(id) => is_taken(graph, id, "a tensor of slopes").map(|()| Some(HeadSlopes::Given(id))),
        None => Ok(are_of_frontend.then_some(HeadSlopes::OfFrontend)),
    }
}

/// The gradient of the bias, if it is stored.
///
/// # Errors
/// One that kernels do not store.
pub(super) fn gradient(graph: &FinalizedGraph, operation: &Operation) -> Result<Option<TensorId>, String> {
    let stored = operation.output(Port::ATTENTION_DBIAS).filter(|&id| !graph.tensor(id).is_virtual);
    stored.map(|id| is_taken(graph, id, "the gradient of a bias").map(|()| id)).transpose()
}

fn is_taken(graph: &FinalizedGraph, id: TensorId, what: &str) -> Result<(), String> {
    let tensor = graph.tensor(id);
    let refuse = |required: &str| Err(format!("tensor {}: {what} {required}", graph.describe_tensor(id)));
    if !matches!(tensor.data_type, DataType::Half | DataType::BFloat16 | DataType::Float) {
        return refuse("is HALF, BFLOAT16 or FLOAT");
    }
    if tensor.is_virtual {
        return refuse("is in memory");
    }
    if tensor.ragged_offset.is_some() {
        return refuse("has no rows of a sequence: it cannot be ragged");
    }
    Ok(())
}

/// The kernel of a bias's gradient, if it is stored: of all tiles that registers and shared memory hold the one that is expected to be fastest.
pub(super) fn kernel(plan: &Plan, device: &Device) -> Option<AttentionBiasKernel> {
    let result = plan.bias_gradient?;
    let tiles = (1..=3).flat_map(|consumers| STEPS.iter().map(move |&others| (consumers, others)));
    let kernels = tiles.filter_map(|(consumers, others)| {
        let kernel = |stages| of_tile(plan, result, BackwardTile { consumers, others, stages }, device);
        let fits = |kernel: &AttentionBiasKernel| {
            held_registers(plan, others) <= HELD[consumers as usize]
                && kernel.layout().bytes <= device.shared_bytes_per_block
        };
        (2..=MOST_STAGES).rev().map(kernel).find(fits)
    });
    kernels.min_by(|a, b| model::bias_clocks(plan, a, device).total_cmp(&model::bias_clocks(plan, b, device)))
}

/// Registers of a multiplying thread for scores, gradients of their probabilities, sums, and what is read and drawn.
fn held_registers(plan: &Plan, others: u32) -> u32 {
    const ARRAYS: u32 = 3;
    others / 2 * ARRAYS + plan.further_registers(others, true)
}

fn of_tile(plan: &Plan, result: TensorId, tile: BackwardTile, device: &Device) -> AttentionBiasKernel {
    let pass = AttentionBackwardKernel {
        maps: plan.maps(false, tile),
        problem: plan.problem(false, Vec::new(), held_by_l2(device)),
        tile,
        registers: registers(plan, tile),
    };
    let dim = &plan.graph.tensor(result).dim;
    AttentionBiasKernel {
        pass,
        result,
        extents: std::array::from_fn(|axis| dim[axis]),
        stores_pairs: is_paired(&plan.graph, result, plan.extents.keys),
    }
}
