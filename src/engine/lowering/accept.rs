//! What lowering takes, whatever the engine: operations, types, layouts of results.

use std::sync::LazyLock;

use super::movement::{concats_are_taken, resample_is_taken};
use super::packed::stands_apart;
use super::problem::MAX_SPATIAL;
use super::signal::signals_are_taken;
use crate::error::Reason;
use crate::fusion::{Fusion, Product};
use crate::graph::{
    Attributes, Convolution, DataType, FinalizedGraph, Operation, PointwiseMode, Port, Reordering, TensorId,
};
use crate::kernel::has_integer_form;
use crate::support::is_disjoint;

/// Largest stride, dilation and padding of convolutions that are lowered, as of resamplings.
const LARGEST_PARAMETER: i64 = 1 << 31;

/// What lowering point by point does not need beside a core: vector alignment and packing, one layout for all tensors,
/// full-size first operands, listed dims and reductions, one group, and the pairing of types with chips. Each is broken
/// by a case of the tiers' tests, which see to that.
pub(in crate::engine) const RELAXED_WITH_CORE: &[&str] = &[
    "S70-CC",
    "S70-NO-MIXED",
    "S70-DTYPE-INPUT",
    "S70-DTYPE-CORE-IN",
    "S70-DTYPE-FP8-PW-ONLY",
    "S70-DTYPE-BOOL-NOT-INPUT",
    "S70-CT-PW",
    "S70-COMB-BF16",
    "S70-G1-CC",
    "S70-G1-ALIGN-32",
    "S70-G1-BCAST-FIRST",
    "S70-MM-G1-A",
    "S70-MM-G1-A-HALF",
    "S70-MM-G1A-DIMS",
    "S70-MM-G1A-FULL-HALF",
    "S70-MM-G1-B",
    "S70-MM-G1B-NONE",
    "S70-MM-G1-LAYOUT",
    "S70-MM-G1A-SAME",
    "S70-MM-INT8-LAYOUT",
    "S70-NO-GROUP",
    "S70-COMB-INT8",
    "S70-CF-G1-X",
    "S70-CF-G1-W",
    "S70-CF-G1-LAYOUT",
    "S70-CONV-G1-CHAIN",
    "S70-CONV-G1-HALF",
    "S70-CONV-G1-OPERAND",
    "S70-CBF-G1-DY",
    "S70-CBF-G1-X",
    "S70-CBF-G1-LAYOUT",
    "S70-CBD-G1-DY",
    "S70-CBD-G1-W",
    "S70-CBD-G1-NONE",
    "S70-CBD-G1-LAYOUT",
    "S70-CF-G2-Y",
    "S70-CF-G2-DIMS",
    "S70-CF-G2-OUT",
    "S70-CF-G2-RED",
    "S70-CF-G2-LAYOUT",
    "S70-CBF-G2-DW",
    "S70-CBF-G2-DIMS",
    "S70-CBF-G2-OUT",
    "S70-CBF-G2-RED",
    "S70-CBF-G2-LAYOUT",
    "S70-CBD-G2-DX",
    "S70-CBD-G2-DIMS",
    "S70-CBD-G2-OUT",
    "S70-CBD-G2-RED",
    "S70-CBD-G2-LAYOUT",
    "S70-G2-ALIGN-32",
    "S70-G2-ALIGN-PWOUT-8",
    "S70-G2-BCAST-FIRST",
    "S70-MM-G2-C",
    "S70-MM-G2-DIMS",
    "S70-MM-G2-OUT",
    "S70-MM-G2-RED",
    "S70-MM-G2-LAYOUT",
    "S70-MM-G2-RED-ROW",
    "OP-PW7-DTYPE-LOGIC",
    "OP-PW7-PREC-LOGIC",
    "OP-PW7-PREC-OTHER",
    "OP-GS-XTYPE-PRE",
    "OP-GS-XTYPE",
    "OP-GS-LAYOUT",
    "OP-RED-LAYOUT",
    "OP-RED-OP",
];

/// What lowering does not need anywhere: the same, and the rules of graphs without a core.
pub(in crate::engine) static RELAXED: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let without_core = [
        "S70-G2-RES-CC",
        "S70-PW-3D-DIMS",
        "S70-PW-45D-DIMS",
        "S70-PW-3D-NO-RED",
        "S70-PW-3D-LAYOUT",
        "S70-PW-45D-LAYOUT",
        "OP-COMPOSITE",
    ];
    [RELAXED_WITH_CORE, &without_core].concat()
});

/// The core of a fusion that can be lowered around a product.
///
/// # Errors
/// That there is no such core, or why the fusion cannot be lowered.
pub(in crate::engine) fn lowered_product(fusion: &Fusion) -> Result<&Product, Reason> {
    is_lowered(fusion).map_err(Reason::Graph)?;
    fusion.product().ok_or_else(|| Reason::Graph("a graph without matmul or convolution".to_owned()))
}

/// Whether a fusion can be lowered.
///
/// # Errors
/// Why not, as a sentence.
pub(in crate::engine) fn is_lowered(fusion: &Fusion) -> Result<(), String> {
    operations_are_taken(fusion)?;
    types_are_taken(fusion)?;
    layouts_are_taken(fusion)?;
    outputs_are_taken(fusion)?;
    booleans_are_taken(fusion)?;
    concats_are_taken(fusion.graph())?;
    signals_are_taken(fusion)
}

fn operations_are_taken(fusion: &Fusion) -> Result<(), String> {
    let graph = fusion.graph();
    for id in graph.operation_ids() {
        let operation = graph.operation(id);
        if !operation_is_taken(graph, operation) {
            return Err(format!("no kernels for {} as it stands", graph.describe_operation(id)));
        }
        if let Attributes::ResampleForward(resample) | Attributes::ResampleBackward(resample) = &operation.attributes {
            let refuse = |reason| format!("no kernels for {}: {reason}", graph.describe_operation(id));
            resample_is_taken(graph, operation, resample).map_err(refuse)?;
        }
    }
    Ok(())
}

fn operation_is_taken(graph: &FinalizedGraph, operation: &Operation) -> bool {
    match &operation.attributes {
        Attributes::Pointwise(pointwise) => {
            pointwise.alpha1 == 1.0 && pointwise.alpha2 == 1.0 && compute_is_taken(graph, operation, pointwise.mode)
        }
        Attributes::Reduction(_) | Attributes::GenStats => true,
        Attributes::Matmul(_) => matmul_is_taken(graph, operation),
        Attributes::Convolution(convolution) => convolution_is_taken(graph, operation, convolution),
        Attributes::ResampleForward(_) | Attributes::ResampleBackward(_) => true,
        Attributes::Concat(_) | Attributes::Signal(_) => true,
        Attributes::Composite(_) | Attributes::Other(_) => false,
    }
}

/// `FLOAT`; `INT32` where the mode has an integer form; `BOOLEAN` for logical modes; for `IDENTITY` also the one type of
/// input and output (`OP-PW98-PREC-*`, `OP-PW7-PREC-*`).
fn compute_is_taken(graph: &FinalizedGraph, operation: &Operation, mode: PointwiseMode) -> bool {
    let compute = operation.compute_data_type.unwrap_or(DataType::Float);
    let mut tensors = operation.input_tensors().chain(operation.output_tensors());
    match compute {
        DataType::Float | DataType::FastFloatForFp8 => true,
        DataType::Int32 => has_integer_form(mode),
        DataType::Boolean if mode.is_logical() => true,
        _ => mode == PointwiseMode::Identity && tensors.all(|id| graph.tensor(id).data_type == compute),
    }
}

/// Every element of an output has an address of its own: threads store in no order.
fn outputs_are_taken(fusion: &Fusion) -> Result<(), String> {
    let graph = fusion.graph();
    match graph.outputs().find(|&id| !is_disjoint(graph.tensor(id))) {
        Some(id) => Err(format!("tensor {}: elements share addresses", graph.describe_tensor(id))),
        None => Ok(()),
    }
}

/// Rank 3, no overrides, not in place, and a compute type that fits the operands (`S*-COMB-*`).
fn matmul_is_taken(graph: &FinalizedGraph, operation: &Operation) -> bool {
    let overrides = [Port::M_OVERRIDE, Port::N_OVERRIDE, Port::K_OVERRIDE];
    let in_place = operation.input_tensors().any(|input| Some(input) == operation.result());
    let rank = operation.result().map_or(0, |c| graph.tensor(c).dim.len());
    rank == 3
        && !in_place
        && operands_are_taken(graph, operation)
        && overrides.iter().all(|&port| operation.input(port).is_none())
}

/// Convolutions that do not add to their result, of as many spatial axes as kernels have names for, and of which sums of a few
/// parameters do not overflow.
fn convolution_is_taken(graph: &FinalizedGraph, operation: &Operation, convolution: &Convolution) -> bool {
    let spatial = convolution.stride.len();
    let in_place = operation.input_tensors().any(|input| Some(input) == operation.result());
    let Convolution { stride, dilation, pre_padding, post_padding, .. } = convolution;
    let parameters = [stride, dilation, pre_padding, post_padding];
    let are_counted =
        parameters.into_iter().flatten().all(|parameter| (-LARGEST_PARAMETER..=LARGEST_PARAMETER).contains(parameter));
    let adds = convolution.alpha != 1.0 || convolution.beta != 0.0;
    spatial <= MAX_SPATIAL && are_counted && !adds && !in_place && operands_are_taken(graph, operation)
}

/// Combinations of operand and compute type that are computed as documented (`S*-COMB-*`).
fn operands_are_taken(graph: &FinalizedGraph, operation: &Operation) -> bool {
    let compute = operation.compute_data_type.unwrap_or(DataType::Float);
    operation.input_tensors().all(|input| match graph.tensor(input).data_type {
        DataType::Int8 => compute == DataType::Int32,
        DataType::Half => matches!(compute, DataType::Float | DataType::Half),
        DataType::Fp8E4M3 | DataType::Fp8E5M2 => matches!(compute, DataType::Float | DataType::FastFloatForFp8),
        DataType::Float | DataType::BFloat16 => compute == DataType::Float,
        _ => false,
    })
}

/// Packed booleans that need a pass of their own are computed beside the others, which therefore must not read them.
fn booleans_are_taken(fusion: &Fusion) -> Result<(), String> {
    let graph = fusion.graph();
    let is_in_place = |id: TensorId| {
        graph.operations().any(|operation| {
            operation.input_tensors().any(|input| input == id) && operation.output_tensors().any(|output| output == id)
        })
    };
    match graph.outputs().find(|&id| stands_apart(graph, id) && is_in_place(id)) {
        Some(id) => Err(format!(
            "tensor {}: packed booleans in place, of which some line starts inside a byte or which lie unlike others",
            graph.describe_tensor(id)
        )),
        None => Ok(()),
    }
}

fn types_are_taken(fusion: &Fusion) -> Result<(), String> {
    let graph = fusion.graph();
    for id in graph.tensor_ids() {
        let data_type = graph.tensor(id).data_type;
        let known = data_type.is_floating() || data_type.is_integer() || data_type == DataType::Boolean;
        if !known || data_type == DataType::Double {
            return Err(format!("tensor {}: no kernels for {data_type}", graph.describe_tensor(id)));
        }
    }
    Ok(())
}

/// Elements lie where dims and strides say: neither reordered nor ragged.
fn layouts_are_taken(fusion: &Fusion) -> Result<(), String> {
    let graph = fusion.graph();
    for id in graph.tensor_ids() {
        let tensor = graph.tensor(id);
        if tensor.reordering != Reordering::None {
            return Err(format!("tensor {}: no kernels for reordered elements", graph.describe_tensor(id)));
        }
        if tensor.ragged_offset.is_some() {
            return Err(format!("tensor {}: no kernels for ragged tensors", graph.describe_tensor(id)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::device::ComputeCapability;
    use crate::engine::select;
    use crate::graph::{Graph, Pointwise, Tensor};

    /// Whether an engine takes `A · B + bias`, the bias changed.
    fn is_taken(change: impl Fn(&mut Tensor)) -> bool {
        let mut graph = Graph::new()
            .io_data_type(DataType::Half)
            .intermediate_data_type(DataType::Float)
            .compute_data_type(DataType::Float);
        let a = graph.tensor(Tensor::new("A").row_major([1, 16, 8]));
        let b = graph.tensor(Tensor::new("B").row_major([1, 8, 32]));
        let mut bias = Tensor::new("bias").row_major([1, 16, 32]);
        change(&mut bias);
        let bias = graph.tensor(bias);
        let c = graph.matmul("mm", a, b);
        let sum = graph.pointwise("sum", PointwiseMode::Add, &[c, bias]);
        graph.set_output(sum);
        select(&Arc::new(graph.finalize().expect("well formed")), ComputeCapability::SM_90).is_ok()
    }

    #[test]
    fn packed_booleans_in_place_have_lines_of_whole_bytes() {
        let is_taken = |columns: i64| {
            let mut graph = Graph::new().io_data_type(DataType::Boolean).compute_data_type(DataType::Boolean);
            let mask = graph.tensor(Tensor::new("mask").row_major([1, 4, columns]));
            let row = graph.tensor(Tensor::new("row").row_major([1, 1, columns]));
            graph.operation(Operation {
                name: "and".to_owned(),
                attributes: Attributes::Pointwise(Pointwise::new(PointwiseMode::LogicalAnd)),
                compute_data_type: None,
                inputs: vec![(Port::IN_0, mask), (Port::IN_1, row)],
                outputs: vec![(Port::OUT_0, mask)],
            });
            select(&Arc::new(graph.finalize().expect("well formed")), ComputeCapability::SM_90).is_ok()
        };
        assert!(is_taken(16) && !is_taken(21));
    }

    #[test]
    fn reordered_tensors_are_refused_although_layouts_are_free() {
        assert!(is_taken(|_| {}));
        assert!(is_taken(|bias| bias.stride = vec![512, 1, 16]));
        assert!(!is_taken(|bias| bias.reordering = Reordering::F16x16));
    }
}
