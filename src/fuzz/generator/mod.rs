//! Operation graphs from bytes.
//!
//! Each family follows the documented rules of the surface it aims at where a choice is cheap to get right (extents,
//! layouts, alignments, the types that go together), so that about half of its graphs are accepted there; two fifths of
//! all graphs get a [`twist`](super::twist) on top, an edit that may break any rule.

mod attention;
mod convolution;
mod layout;
mod matmul;
mod movement;
mod norm;
mod pointwise;
mod resample;
mod softmax;
mod stage;

use self::layout::{Order, packed};
use super::choices::Choices;
use super::family::Family;
use super::twist::twist;
use crate::graph::{Attributes, ConvolutionDirection, DataType, Graph, Operation, TensorHandle};
use crate::support::SurfaceId;

use DataType::{BFloat16, Boolean, FastFloatForFp8, Float, Fp8E4M3, Fp8E5M2, Half, Int8, Int32, Int64, UInt8};

/// Part of the graphs that get a twist, in percent.
const TWISTED: usize = 40;

/// Part of the operations that compute in a type, or give a type, that no surface documents, in percent of those that could.
const RETYPED: usize = 15;

/// Where the bytes lie that decide it: what else the bytes stand for does not depend on it.
const TYPES_BYTE: usize = 80;

/// Part of the twists that lay out tensors in an order that may be no surface's, in percent; and where the bytes lie that decide it.
const RELAID: usize = 25;
const LAYOUT_BYTE: usize = 88;

/// Part of the values before a core that are stored, which no surface but DBARCS takes, in percent; and where the bytes lie that decide it.
const STORED: usize = 6;
const STORED_BYTE: usize = 96;

/// A graph, and the surface whose rules it was made to keep.
#[derive(Clone, Debug)]
pub struct Generated {
    /// The graph.
    pub graph: Graph,
    /// The surface aimed at.
    pub aim: SurfaceId,
}

/// One graph in so many has dynamic shapes.
const DYNAMIC: u8 = 3;

/// The graph of a family that some bytes stand for: the same for the same bytes, and one for every string.
pub fn generate(family: Family, bytes: &[u8]) -> Generated {
    let choices = &mut Choices::new(bytes);
    let aim = choices.of(aims(family));
    let mut graph = match family {
        Family::Matmul => matmul::graph(choices, aim),
        Family::Forward => convolution::graph(choices, aim, ConvolutionDirection::Forward),
        Family::BackwardData => convolution::graph(choices, aim, ConvolutionDirection::BackwardData),
        Family::BackwardFilter => convolution::graph(choices, aim, ConvolutionDirection::BackwardFilter),
        Family::Pointwise => pointwise::graph(choices),
        Family::Softmax => softmax::graph(choices),
        Family::Norm => norm::graph(choices),
        Family::Attention => attention::graph(choices, aim == FLASH),
        Family::AttentionBackward => attention::backward::graph(choices),
        Family::Mha => attention::mha::forward(choices),
        Family::MhaBackward => attention::mha::backward(choices),
    };
    let choices_from = |first: usize| Choices::new(bytes.get(first..).unwrap_or_default());
    retyped(&mut graph, &mut choices_from(TYPES_BYTE));
    store_before_core(&mut graph, &mut choices_from(STORED_BYTE));
    if choices.chance(TWISTED) {
        let mut layouts = choices_from(LAYOUT_BYTE);
        match layouts.chance(RELAID) {
            true => lay_out(&mut graph, &mut layouts),
            false => twist(choices, &mut graph),
        }
    }
    // the last byte, which no choice comes to
    graph.is_dynamic = bytes.last().is_some_and(|byte| byte % DYNAMIC == 0);
    Generated { graph, aim }
}

/// Lets some operations compute in types, and give types, that no surface documents and that are defined all the same.
fn retyped(graph: &mut Graph, choices: &mut Choices<'_>) {
    for place in 0..graph.operations.len() {
        let operation = &graph.operations[place];
        let operands: Vec<Option<DataType>> = operation.inputs.iter().map(|slot| type_of(graph, slot.1)).collect();
        let (compute, results): (_, &[DataType]) = match (&operation.attributes, operation.compute_data_type) {
            (Attributes::Matmul(_) | Attributes::Convolution(_), compute) => match (operands[0], compute) {
                (Some(Int8), Some(Int32)) => (Some(Float), &[Float]),
                (Some(BFloat16), Some(Float)) => (Some(Half), &[Float]),
                _ => continue,
            },
            (Attributes::Reduction(_), _) => {
                let is_small = matches!(operands[0], Some(Int8 | UInt8));
                (is_small.then_some(Int32), &[Half, BFloat16, Int8, Int32, Int64, Fp8E4M3])
            }
            (Attributes::Pointwise(pointwise), _) if pointwise.mode.is_comparison() => match operands[..] {
                [one @ Some(Int8 | UInt8 | Half | BFloat16 | Boolean), other] if one == other => (one, &[]),
                _ => continue,
            },
            _ => continue,
        };
        if choices.chance(RETYPED) {
            let result = (!results.is_empty() && choices.chance(50)).then(|| choices.of(results));
            retype(graph, place, compute, result);
        }
    }
}

/// Makes outputs of some values that a core's operands are computed from: families add operations in the order of their stages.
fn store_before_core(graph: &mut Graph, choices: &mut Choices<'_>) {
    let Some(core) = graph.operations.iter().position(Operation::is_core) else { return };
    let before = graph.operations[..core].iter().flat_map(Operation::output_tensors);
    for value in before.collect::<Vec<_>>() {
        if graph.tensors[value.index()].is_virtual && choices.chance(STORED) {
            graph.set_output(value);
        }
    }
}

/// Lays out every tensor in memory, or one of them, in one of the orders: frameworks hold images with their pixels innermost, which no
/// surface takes and engines run all the same.
fn lay_out(graph: &mut Graph, choices: &mut Choices<'_>) {
    let order = choices.of(&[Order::RowMajor, Order::RowMajor, Order::ChannelsLast, Order::BatchInnermost]);
    let alone = choices.chance(40).then(|| choices.index_of(&graph.tensors)).flatten();
    for (place, tensor) in graph.tensors.iter_mut().enumerate() {
        if !tensor.is_virtual && alone.is_none_or(|alone| alone == place) {
            tensor.stride = packed(&tensor.dim, order);
        }
    }
}

fn retype(graph: &mut Graph, place: usize, compute: Option<DataType>, result: Option<DataType>) {
    let operation = &mut graph.operations[place];
    operation.compute_data_type = compute.or(operation.compute_data_type);
    if let (Some(result), Some(&(_, id))) = (result, operation.outputs.first()) {
        graph.tensors[id.index()].data_type = Some(result);
    }
}

/// The type of a tensor, its own or the graph's.
fn type_of(graph: &Graph, id: TensorHandle) -> Option<DataType> {
    let tensor = &graph.tensors[id.index()];
    tensor.data_type.or(if tensor.is_virtual { graph.intermediate_data_type } else { graph.io_data_type })
}

/// Attention of 16 bits, forward.
const FLASH: SurfaceId = SurfaceId::Named("FlashFprop");

/// The same, backward.
const FLASH_BACKWARD: SurfaceId = SurfaceId::Named("FlashBprop");

/// Surfaces that have a family; none has softmax and norms, which are aimed at the one whose other rules are the least.
fn aims(family: Family) -> &'static [SurfaceId] {
    match family {
        Family::Matmul | Family::Forward => &[SurfaceId::S90, SurfaceId::S80, SurfaceId::S70],
        Family::BackwardData | Family::BackwardFilter => &[SurfaceId::S90, SurfaceId::S70],
        Family::Pointwise | Family::Softmax | Family::Norm => &[SurfaceId::S70],
        Family::Attention => &[FLASH, FLASH, FLASH, SurfaceId::Named("Fp8FlashFprop")],
        Family::AttentionBackward => {
            &[FLASH_BACKWARD, FLASH_BACKWARD, FLASH_BACKWARD, SurfaceId::Named("Fp8FlashBprop")]
        }
        Family::Mha => &[SurfaceId::Named("MhaFprop")],
        Family::MhaBackward => &[SurfaceId::Named("MhaBprop")],
    }
}

/// Types of a core's operands, and of its computation and result (`S??-COMB-*`).
fn core_types(aim: SurfaceId) -> &'static [(DataType, DataType, DataType)] {
    const COMMON: &[(DataType, DataType, DataType)] = &[
        (Half, Float, Float),
        (BFloat16, Float, Float),
        (Float, Float, Float),
        (Half, Half, Half),
        (Int8, Int32, Int32),
        (Half, Float, Half),
        (BFloat16, Float, BFloat16),
    ];
    const WITH_FP8: &[(DataType, DataType, DataType)] = &[
        (Half, Float, Float),
        (BFloat16, Float, Float),
        (Float, Float, Float),
        (Fp8E4M3, Float, Float),
        (Fp8E5M2, FastFloatForFp8, Float),
        (Half, Half, Half),
        (Int8, Int32, Int32),
        (BFloat16, Float, BFloat16),
    ];
    if aim == SurfaceId::S90 { WITH_FP8 } else { COMMON }
}

/// Bytes to which the mainloop's inputs are aligned (`S90-G1-ALIGN-128`, `S80-G1-ALIGN-32`, `S70-G1-ALIGN-32`).
fn alignment(aim: SurfaceId) -> i64 {
    if aim == SurfaceId::S90 { 16 } else { 4 }
}

/// Types of side inputs.
const SIDE_TYPES: &[DataType] = &[Float, Half, BFloat16, Float, Int8, Int32];

/// Types of outputs.
const OUTPUT_TYPES: &[DataType] = &[Half, Float, BFloat16, Half, Int8, Int32, UInt8, Int64];
const FP8_OUTPUT_TYPES: &[DataType] = &[Half, Float, BFloat16, Fp8E4M3, Fp8E5M2, Int8, Int32];

/// Types of values that stay in the kernel.
const VIRTUAL_TYPES: &[DataType] = &[Float, Float, Float, Half, BFloat16, Int32];
const VIRTUAL_TYPES_WITH_BOOLEAN: &[DataType] = &[Float, Float, Float, Half, BFloat16, Boolean];

/// Types of side inputs, values and computations, and of outputs, in the epilogue of a surface.
fn epilogue_types(aim: SurfaceId) -> [&'static [DataType]; 4] {
    match aim {
        SurfaceId::S90 => [SIDE_TYPES, VIRTUAL_TYPES, &[Float, Int32], FP8_OUTPUT_TYPES],
        SurfaceId::S80 => [SIDE_TYPES, VIRTUAL_TYPES, &[Float, Int32], OUTPUT_TYPES],
        _ => [SIDE_TYPES, VIRTUAL_TYPES_WITH_BOOLEAN, &[Float, Boolean], OUTPUT_TYPES],
    }
}
