//! What lowering takes, whatever the engine: operations, types, layouts of results.

use std::sync::LazyLock;

use super::movement::{concats_are_taken, resample_is_taken};
use super::packed::stands_apart;
use super::problem::MAX_SPATIAL;
use super::signal::signals_are_taken;
use crate::error::Reason;
use crate::fusion::{Fusion, Product, Stage};
use crate::graph::{
    Attributes, Convolution, DataType, FinalizedGraph, Operation, OperationId, Pointwise, PointwiseMode, Port,
    ReductionMode, Reordering, TensorId,
};
use crate::kernel::{has_double_form, has_integer_form};
use crate::support::norm_records::*;
use crate::support::records::{
    alignment::*, capability::*, composite::*, compute_type::*, data_type::*, epilogue::*, genstats::*, layout::*,
    mainloop::*, pointwise::*, reduction::*, unfused::*,
};
use crate::support::{Rule, is_disjoint};

/// Largest stride, dilation and padding of convolutions that are lowered, as of resamplings.
const LARGEST_PARAMETER: i64 = 1 << 31;

/// Integers up to this are floats.
const EXACT_IN_FLOAT: i64 = 1 << 24;

/// Bits of types all of whose values are floats.
const HELD_BY_FLOAT: u64 = 16;

/// What lowering point by point does not need beside a core: vector alignment and packing, one layout for all tensors,
/// full-size first operands, listed dims and reductions, one group, and the pairing of types with chips. Each is broken
/// by a case of the tiers' tests, which see to that.
pub(in crate::engine) static RELAXED_WITH_CORE: &[&Rule] = &[
    &S70_CC,
    &S70_NO_MIXED,
    &S70_DTYPE_INPUT,
    &S70_DTYPE_CORE_IN,
    &S70_DTYPE_FP8_PW_ONLY,
    &S70_DTYPE_BOOL_NOT_INPUT,
    &S70_DTYPE_RED_OUT,
    &S70_CT_PW,
    &S70_CT_RED,
    &S70_COMB_BF16,
    &S70_G1_CC,
    &S70_G1_VIRTUAL,
    &S70_G1_ALIGN_32,
    &S70_G1_BCAST_FIRST,
    &S70_MM_G1_A,
    &S70_MM_G1_A_HALF,
    &S70_MM_G1A_DIMS,
    &S70_MM_G1A_FULL_HALF,
    &S70_MM_G1_B,
    &S70_MM_G1B_NONE,
    &S70_MM_G1_LAYOUT,
    &S70_MM_G1A_SAME,
    &S70_MM_INT8_LAYOUT,
    &S70_NO_GROUP,
    &S70_COMB_INT8,
    &S70_CF_G1_X,
    &S70_CF_G1_W,
    &S70_CF_G1_LAYOUT,
    &S70_CONV_G1_CHAIN,
    &S70_CONV_G1_HALF,
    &S70_CONV_G1_OPERAND,
    &S70_CBF_G1_DY,
    &S70_CBF_G1_X,
    &S70_CBF_G1_LAYOUT,
    &S70_CBD_G1_DY,
    &S70_CBD_G1_W,
    &S70_CBD_G1_NONE,
    &S70_CBD_G1_LAYOUT,
    &S70_CF_G2_Y,
    &S70_CF_G2_DIMS,
    &S70_CF_G2_OUT,
    &S70_CF_G2_RED,
    &S70_CF_G2_LAYOUT,
    &S70_CBF_G2_DW,
    &S70_CBF_G2_DIMS,
    &S70_CBF_G2_OUT,
    &S70_CBF_G2_RED,
    &S70_CBF_G2_LAYOUT,
    &S70_CBD_G2_DX,
    &S70_CBD_G2_DIMS,
    &S70_CBD_G2_OUT,
    &S70_CBD_G2_RED,
    &S70_CBD_G2_LAYOUT,
    &S70_G2_ALIGN_32,
    &S70_G2_ALIGN_PWOUT_8,
    &S70_G2_BCAST_FIRST,
    &S70_MM_G2_C,
    &S70_MM_G2_DIMS,
    &S70_MM_G2_OUT,
    &S70_MM_G2_RED,
    &S70_MM_G2_LAYOUT,
    &S70_MM_G2_RED_ROW,
    &OP_PW98_ALPHA1,
    &OP_PW98_ALPHA2,
    &OP_PW7_ALPHA1,
    &OP_PW7_ALPHA2,
    &OP_PW7_DTYPE_LOGIC,
    &OP_PW7_PREC_LOGIC,
    &OP_PW7_PREC_OTHER,
    &OP_GS_XTYPE_PRE,
    &OP_GS_XTYPE,
    &OP_GS_LAYOUT,
    &OP_RED_LAYOUT,
    &OP_RED_OP,
    &DDB_CONVTYPE,
    &DDB_BNTYPE,
    &DDB_OUTTYPE,
    &DDB_ALIGN,
    &DDB_CC,
    &DDB_INPUTS,
    &DDB_DYBN_OUT,
];

/// What lowering does not need anywhere: the same, and the rules of graphs without a core.
pub(in crate::engine) static RELAXED: LazyLock<Vec<&'static Rule>> = LazyLock::new(|| {
    let without_core: &[&Rule] = &[
        &S70_G2_RES_CC,
        &S70_PW_3D_DIMS,
        &S70_PW_45D_DIMS,
        &S70_PW_3D_NO_RED,
        &S70_PW_3D_LAYOUT,
        &S70_PW_45D_LAYOUT,
        &OP_COMPOSITE,
    ];
    [RELAXED_WITH_CORE, without_core, OF_NORMS].concat()
});

/// Norms are computed by their definitions, in passes that take any chip, operations beside them, types, dims and strides. Modes that a pattern
/// does not have hold another surface, or its rules.
static OF_NORMS: &[&Rule] = &[
    &NA_10,
    &N_70,
    &N_165,
    &N_17,
    &NF_X,
    &NF_MEAN,
    &NF_INV,
    &NF_SCALE,
    &NF_EPS,
    &NF_LAYOUT,
    &NF_SAME_LAYOUT,
    &NF_IO,
    &NF_W,
    &NF_ALIGN,
    &NF_ENGINE_SIZE,
    &NB_X,
    &NB_MEAN,
    &NB_INV,
    &NB_SCALE,
    &NB_LAYOUT,
    &NB_SAME_LAYOUT,
    &NB_IO,
    &NB_NO_MIX,
    &NB_W,
    &NB_ALIGN,
    &BAR_LAYOUT,
    &BAR_RANK,
    &BAR_ACT,
    &BAR_PHASE,
    &BAR_INTYPE,
    &BAR_OUTTYPE,
    &BAR_XTYPE,
    &BAR_C,
    &BAR_CC,
    &BAR_ORDER,
    &N_65,
    &DRF_LAYOUT,
    &DRF_RANK,
    &DRF_ACT,
    &DRF_MASK,
    &DRF_FLOAT,
    &DRF_XTYPE,
    &DRF_C,
    &DRF_CC,
    &N_66,
    &N_67,
    &EC_1,
    &N_63,
    &N_10H,
    &LF_COUNT,
    &LF_FACTOR,
];

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
        let refuse = |reason| format!("no kernels for {}: {reason}", graph.describe_operation(id));
        operation_is_taken(graph, operation).map_err(refuse)?;
        if let Attributes::ResampleForward(resample) | Attributes::ResampleBackward(resample) = &operation.attributes {
            resample_is_taken(graph, operation, resample).map_err(refuse)?;
        }
    }
    Ok(())
}

pub(in crate::engine) fn operation_is_taken(graph: &FinalizedGraph, operation: &Operation) -> Result<(), String> {
    match &operation.attributes {
        Attributes::Pointwise(pointwise) => {
            let unscaled = pointwise.unscaled().unwrap_or_else(|| pointwise.clone());
            scales_are_taken(operation, &unscaled)?;
            let is_taken = compute_is_taken(graph, operation, unscaled.mode);
            taken_where(is_taken, || format!("it is computed in {}", compute_type(operation)))
        }
        Attributes::Reduction(reduction) => reduction_is_taken(graph, operation, reduction.mode),
        Attributes::Matmul(_) => matmul_is_taken(graph, operation),
        Attributes::Convolution(convolution) => convolution_is_taken(graph, operation, convolution),
        Attributes::GenStats | Attributes::ResampleForward(_) | Attributes::ResampleBackward(_) => Ok(()),
        Attributes::Concat(_) | Attributes::Signal(_) => Ok(()),
        Attributes::AllGather(_) => all_gather_is_taken(graph, operation),
        Attributes::View | Attributes::Transpose | Attributes::Composite(_) => Err("it is not taken apart".to_owned()),
        Attributes::Bernoulli(_) => Err("no kernels draw random numbers outside of an attention".to_owned()),
        Attributes::PageGather => Err("no kernels load from pages outside of an attention [AT-O17]".to_owned()),
        Attributes::BlockBits => Err("no kernels read masks of blocks outside of an attention [AT-O11]".to_owned()),
        Attributes::Other(_) => Err("no engine executes it yet".to_owned()),
    }
}

/// A value that GPUs send each other is one of channels.
fn all_gather_is_taken(graph: &FinalizedGraph, operation: &Operation) -> Result<(), String> {
    let dim = operation.input(Port::X).map_or(&[][..], |x| &graph.tensor(x).dim);
    match dim.iter().enumerate().find(|(axis, extent)| *axis != 1 && **extent != 1) {
        Some((axis, extent)) => Err(format!("its value has extent {extent} on axis {axis}; required 1")),
        None => Ok(()),
    }
}

fn taken_where(is_taken: bool, why_not: impl FnOnce() -> String) -> Result<(), String> {
    if is_taken { Ok(()) } else { Err(why_not()) }
}

/// The type an operation is computed in.
fn compute_type(operation: &Operation) -> DataType {
    operation.compute_data_type.unwrap_or(DataType::Float)
}

/// A value in double precision that is kept nowhere, as definitions have some.
fn is_double_value(graph: &FinalizedGraph, id: TensorId) -> bool {
    let is_pointwise =
        |operation: &OperationId| matches!(graph.operation(*operation).attributes, Attributes::Pointwise(_));
    let tensor = graph.tensor(id);
    let (producer, consumers) = (graph.producer(id), graph.consumers(id));
    tensor.is_virtual
        && tensor.data_type == DataType::Double
        && producer.is_some_and(|producer| is_pointwise(&producer) && graph.compute_type(producer) == DataType::Double)
        && consumers.iter().all(is_pointwise)
}

/// Factors of operands are `FLOAT`s.
fn scales_are_taken(operation: &Operation, pointwise: &Pointwise) -> Result<(), String> {
    let is_of_floats = matches!(compute_type(operation), DataType::Float | DataType::FastFloatForFp8)
        && !pointwise.mode.is_logical()
        && pointwise.mode != PointwiseMode::GenIndex;
    taken_where(is_of_floats || !pointwise.is_scaled(), || {
        let Pointwise { alpha1, alpha2, .. } = pointwise;
        format!("its inputs are scaled by {alpha1} and {alpha2}; required 1 where it is not computed in FLOAT")
    })
}

/// `FLOAT`; `INT32` where the mode has an integer form; `DOUBLE` where it has one, of values that are kept nowhere; `BOOLEAN` for logical modes; for `IDENTITY` also the one type of
/// input and output (`OP-PW98-PREC-*`, `OP-PW7-PREC-*`). Comparisons and logical modes tell in `FLOAT` what they tell in the one
/// type of their operands, which `FLOAT` holds.
fn compute_is_taken(graph: &FinalizedGraph, operation: &Operation, mode: PointwiseMode) -> bool {
    let compute = compute_type(operation);
    let mut tensors = operation.input_tensors().chain(operation.output_tensors());
    match compute {
        DataType::Float | DataType::FastFloatForFp8 => true,
        DataType::Int32 => has_integer_form(mode),
        DataType::Double => has_double_form(mode) && operation.result().is_some_and(|id| is_double_value(graph, id)),
        DataType::Boolean if mode.is_logical() => true,
        _ if mode.is_comparison() || mode.is_logical() => {
            compute.bits() <= HELD_BY_FLOAT && operation.input_tensors().all(|id| graph.tensor(id).data_type == compute)
        }
        _ => mode == PointwiseMode::Identity && tensors.all(|id| graph.tensor(id).data_type == compute),
    }
}

/// Reductions in `FLOAT` to elements that have addresses of their own, which packed booleans have not; in `INT32` where `FLOAT`
/// gives the same: minima and maxima of integers that it holds, and sums that stay below 2²⁴ (`S*-CT-RED`, `S*-DTYPE-RED-OUT`).
fn reduction_is_taken(graph: &FinalizedGraph, operation: &Operation, mode: ReductionMode) -> Result<(), String> {
    let (Some(x), Some(y)) = (operation.input(Port::X), operation.output(Port::Y)) else {
        return Err("a port is empty".to_owned());
    };
    let [x, y] = [x, y].map(|id| graph.tensor(id));
    let largest = match x.data_type {
        DataType::Int8 => 128,
        DataType::UInt8 => 255,
        _ => i64::MAX,
    };
    let terms = x.dim.iter().product::<i64>() / y.dim.iter().product::<i64>();
    let is_exact = match mode {
        ReductionMode::Add | ReductionMode::Norm1 => terms.saturating_mul(largest) <= EXACT_IN_FLOAT,
        ReductionMode::Min | ReductionMode::Max | ReductionMode::Amax => largest <= EXACT_IN_FLOAT,
        ReductionMode::Mul | ReductionMode::MulNoZeros | ReductionMode::Avg | ReductionMode::Norm2 => false,
    };
    if y.data_type == DataType::Boolean {
        return Err("packed booleans have no addresses of their own to reduce to".to_owned());
    }
    match compute_type(operation) {
        DataType::Float => Ok(()),
        DataType::Int32 if is_exact => Ok(()),
        DataType::Int32 => Err(format!("{terms} values of {} in INT32 are more than FLOAT holds exactly", x.data_type)),
        other => Err(format!("it is computed in {other}; kernels reduce in FLOAT")),
    }
}

/// Outputs are computed by the core or behind it, and every element has an address of its own: threads store in no order.
pub(in crate::engine) fn outputs_are_taken(fusion: &Fusion) -> Result<(), String> {
    let graph = fusion.graph();
    let is_before = |&id: &TensorId| {
        let stage = graph.producer(id).map(|producer| fusion.stage(producer));
        matches!(stage, Some(Stage::Before(_)))
    };
    if let Some(id) = graph.outputs().find(is_before) {
        return Err(format!("tensor {}: no kernels store what is computed before a core", graph.describe_tensor(id)));
    }
    match graph.outputs().find(|&id| !is_disjoint(graph.tensor(id))) {
        Some(id) => Err(format!("tensor {}: elements share addresses", graph.describe_tensor(id))),
        None => Ok(()),
    }
}

/// Rank 3, no overrides, not in place, and a compute type that fits the operands (`S*-COMB-*`).
fn matmul_is_taken(graph: &FinalizedGraph, operation: &Operation) -> Result<(), String> {
    let overrides = [Port::M_OVERRIDE, Port::N_OVERRIDE, Port::K_OVERRIDE, Port::BLOCK_MASK];
    let rank = operation.result().map_or(0, |c| graph.tensor(c).dim.len());
    taken_where(rank == 3, || format!("its tensors have rank {rank}; required 3"))?;
    is_not_in_place(operation)?;
    taken_where(overrides.iter().all(|&port| operation.input(port).is_none()), || {
        "its extents are overridden by tensors".to_owned()
    })?;
    operands_are_taken(graph, operation)
}

fn is_not_in_place(operation: &Operation) -> Result<(), String> {
    let in_place = operation.input_tensors().any(|input| Some(input) == operation.result());
    taken_where(!in_place, || "it writes what it reads".to_owned())
}

/// Convolutions that do not add to their result, of as many spatial axes as kernels have names for, and of which sums of a few
/// parameters do not overflow.
fn convolution_is_taken(
    graph: &FinalizedGraph,
    operation: &Operation,
    convolution: &Convolution,
) -> Result<(), String> {
    let spatial = convolution.stride.len();
    taken_where(spatial <= MAX_SPATIAL, || format!("it has {spatial} spatial axes; required {MAX_SPATIAL} at most"))?;
    let Convolution { stride, dilation, pre_padding, post_padding, alpha, beta, .. } = convolution;
    let mut parameters = [stride, dilation, pre_padding, post_padding].into_iter().flatten();
    if let Some(parameter) = parameters.find(|parameter| !(-LARGEST_PARAMETER..=LARGEST_PARAMETER).contains(*parameter))
    {
        return Err(format!("its parameter {parameter} is beyond {LARGEST_PARAMETER}"));
    }
    taken_where(*alpha == 1.0 && *beta == 0.0, || format!("alpha is {alpha} and beta {beta}; required 1 and 0"))?;
    is_not_in_place(operation)?;
    operands_are_taken(graph, operation)
}

/// Combinations of operand and compute type that are computed as documented (`S*-COMB-*`), and two whose conversion keeps the
/// operands' values: of `INT8` in `FLOAT` all, of `BFLOAT16` in `HALF` those from 2⁻¹⁷ to 65504.
fn operands_are_taken(graph: &FinalizedGraph, operation: &Operation) -> Result<(), String> {
    let compute = compute_type(operation);
    operation.input_tensors().map(|input| graph.tensor(input).data_type).try_for_each(|operand| {
        let taken: &[DataType] = match operand {
            DataType::Int8 => &[DataType::Int32, DataType::Float],
            DataType::Half | DataType::BFloat16 => &[DataType::Float, DataType::Half],
            DataType::Fp8E4M3 | DataType::Fp8E5M2 => &[DataType::Float, DataType::FastFloatForFp8],
            DataType::Float => &[DataType::Float],
            _ => &[],
        };
        let names: Vec<&str> = taken.iter().map(|data_type| data_type.name()).collect();
        match names.as_slice() {
            [] => Err(format!("operands of {operand} are not multiplied")),
            _ if taken.contains(&compute) => Ok(()),
            names => Err(format!("operands of {operand} are multiplied in {}, not in {compute}", names.join(" or "))),
        }
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
        if !known || (data_type == DataType::Double && !is_double_value(graph, id)) {
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

    /// Whether an engine takes a reduction of `terms` values of a type in INT32, one mode, to a result of a type.
    fn reduction_is_taken(x: DataType, terms: i64, mode: ReductionMode, y: DataType, compute: DataType) -> bool {
        let mut graph = Graph::new().io_data_type(x).compute_data_type(compute);
        let x = graph.tensor(Tensor::new("x").channels_last([1, 16, terms, 1]));
        let sum = graph.reduction("reduce", mode, x, [1, 16, 1, 1]);
        graph.set_output(sum).data_type = Some(y);
        select(&Arc::new(graph.finalize().expect("well formed")), ComputeCapability::SM_90).is_ok()
    }

    #[test]
    fn integers_are_reduced_in_float_as_far_as_it_is_exact() {
        use DataType::{Float, Half, Int8, Int32, UInt8};
        use ReductionMode::{Add, Amax, Avg, Max, Min, Mul, Norm1, Norm2};
        let in_int32 = |x, terms, mode| reduction_is_taken(x, terms, mode, Int32, Int32);
        assert!(in_int32(Int8, 1 << 17, Add) && !in_int32(Int8, (1 << 17) + 1, Add));
        assert!(in_int32(UInt8, 65_793, Norm1) && !in_int32(UInt8, 65_794, Norm1));
        assert!([Min, Max, Amax].into_iter().all(|mode| in_int32(Int8, 1 << 20, mode) && !in_int32(Int32, 4, mode)));
        assert!([Avg, Mul, Norm2].into_iter().all(|mode| !in_int32(Int8, 4, mode)));
        assert!(!in_int32(Half, 4, Add) && !reduction_is_taken(Half, 4, Add, Float, Half));
    }

    #[test]
    fn double_precision_is_taken_of_values_that_are_kept_nowhere() {
        let is_taken = |mode: PointwiseMode, change: &dyn Fn(&mut Tensor)| {
            let mut graph = Graph::new().io_data_type(DataType::Float).compute_data_type(DataType::Float);
            let [x, b] = ["x", "b"].map(|name| graph.tensor(Tensor::new(name).row_major([4, 8])));
            let value = graph.pointwise("value", mode, &[x, b]);
            graph.last_operation().compute_data_type = Some(DataType::Double);
            graph.tensor_mut(value).data_type = Some(DataType::Double);
            change(graph.tensor_mut(value));
            let y = graph.pointwise("y", PointwiseMode::Abs, &[value]);
            graph.set_output(y);
            let graph = graph.finalize().expect("well formed");
            is_lowered(&crate::fusion::fuse(Arc::new(graph)).expect("no core")).is_ok()
        };
        assert!(is_taken(PointwiseMode::Sub, &|_| {}));
        assert!(!is_taken(PointwiseMode::Pow, &|_| {}), "there is no such function");
        assert!(!is_taken(PointwiseMode::Sub, &|tensor| tensor.is_virtual = false), "it is kept in memory");
        assert!(!is_taken(PointwiseMode::Sub, &|tensor| tensor.data_type = Some(DataType::Half)), "it is rounded");
    }

    #[test]
    fn what_a_mainloop_stage_computes_is_stored_by_no_kernel() {
        let is_lowered = |is_stored: bool| {
            let mut graph = Graph::new()
                .io_data_type(DataType::Half)
                .intermediate_data_type(DataType::Half)
                .compute_data_type(DataType::Float);
            let [a, b] = ["A", "B"].map(|name| graph.tensor(Tensor::new(name).row_major([1, 16, 16])));
            let relu = graph.pointwise("relu", PointwiseMode::ReluFwd, &[a]);
            let c = graph.matmul("mm", relu, b);
            graph.set_output(c);
            if is_stored {
                graph.set_output(relu);
            }
            let graph = graph.finalize().expect("well formed");
            is_lowered(&crate::fusion::fuse(Arc::new(graph)).expect("a core")).is_ok()
        };
        assert!(is_lowered(false) && !is_lowered(true));
    }

    #[test]
    fn reductions_give_any_type_whose_elements_have_addresses() {
        use DataType::{BFloat16, Boolean, Float, Fp8E4M3, Half, Int8, Int32, Int64};
        let to = |y| reduction_is_taken(Half, 8, ReductionMode::Add, y, Float);
        assert!([BFloat16, Half, Int8, Int32, Int64, Fp8E4M3].into_iter().all(to) && !to(Boolean));
    }

    #[test]
    fn comparisons_are_taken_in_the_type_of_their_operands() {
        use DataType::{BFloat16, Boolean, Half, Int8};
        let is_taken = |[x, b]: [DataType; 2], mode, compute| {
            let mut graph = Graph::new().io_data_type(Int8).compute_data_type(compute);
            let [x, b] =
                [x, b].map(|data_type| graph.tensor(Tensor::new("x").row_major([1, 4, 8]).data_type(data_type)));
            let y = graph.pointwise("y", mode, &[x, b]);
            graph.set_output(y);
            select(&Arc::new(graph.finalize().expect("well formed")), ComputeCapability::SM_90).is_ok()
        };
        for data_type in [Int8, Half, BFloat16, Boolean] {
            assert!(is_taken([data_type; 2], PointwiseMode::CmpGe, data_type), "{data_type}");
        }
        assert!(!is_taken([Int8, Half], PointwiseMode::CmpGe, Half));
        assert!(!is_taken([Int8; 2], PointwiseMode::Add, Int8));
    }

    /// Whether an engine takes a product of operands of some types, computed in one.
    fn product_is_taken(types: [DataType; 2], compute: DataType) -> bool {
        let mut graph = Graph::new().io_data_type(DataType::Float).compute_data_type(compute);
        let a = graph.tensor(Tensor::new("A").row_major([1, 16, 8]).data_type(types[0]));
        let b = graph.tensor(Tensor::new("B").row_major([1, 8, 32]).data_type(types[1]));
        let c = graph.matmul("mm", a, b);
        graph.set_output(c);
        select(&Arc::new(graph.finalize().expect("well formed")), ComputeCapability::SM_90).is_ok()
    }

    #[test]
    fn cores_compute_in_types_that_keep_their_operands() {
        use DataType::{BFloat16, FastFloatForFp8, Float, Half, Int8, Int32};
        for (operands, compute) in [(Int8, Float), (BFloat16, Half), (Int8, Int32), (Half, Half), (BFloat16, Float)] {
            assert!(product_is_taken([operands; 2], compute), "{operands} in {compute}");
        }
        assert!(product_is_taken([Int8, BFloat16], Float) && !product_is_taken([Half, BFloat16], Half));
        for (operands, compute) in [
            (Int8, Half),
            (Int8, FastFloatForFp8),
            (BFloat16, Int32),
            (BFloat16, FastFloatForFp8),
            (Float, Half),
            (Float, Int32),
            (Half, Int32),
        ] {
            assert!(!product_is_taken([operands; 2], compute), "{operands} in {compute}");
        }
    }

    #[test]
    fn reordered_tensors_are_refused_although_layouts_are_free() {
        assert!(is_taken(|_| {}));
        assert!(is_taken(|bias| bias.stride = vec![512, 1, 16]));
        assert!(!is_taken(|bias| bias.reordering = Reordering::F16x16));
    }
}
