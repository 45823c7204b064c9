//! Values at which the functions of a graph jump, turn or tie, carried back to the inputs.
//!
//! Random operands hardly ever equal a clip, each other, or the middle between two integers. Here each operation says where
//! its operands are at such a place; what comes before it is asked which of its own operands gives that value, while the
//! other ones are neutral. Matmuls and convolutions let values through where a vector of one operand [selects](selectors)
//! one element of the other.

use std::collections::BTreeMap;

use crate::graph::{
    Attributes, Convolution, ConvolutionDirection, DataType, FinalizedGraph, Operation, Pointwise, PointwiseMode as M,
    TensorId,
};
use crate::host_tensor::round_f64;

/// Most values that are kept of a tensor; those of the nearest operations come first.
const MOST: usize = 16;

/// Largest value that goes through a core.
const LARGEST: f64 = 512.0;

/// Values that a tensor's elements should have, for tensors that have any.
pub(super) fn landmarks(graph: &FinalizedGraph) -> BTreeMap<TensorId, Vec<f64>> {
    let mut all: BTreeMap<TensorId, Vec<f64>> = BTreeMap::new();
    for id in graph.operation_ids().rev() {
        let operation = graph.operation(id);
        let mut results: Vec<f64> = Vec::new();
        for result in operation.output_tensors() {
            results.extend(all.get(&result).into_iter().flatten());
            results.extend(rounding_edges(graph.tensor(result).data_type));
        }
        for (slot, operand) in operation.input_tensors().enumerate() {
            let other = other_scalar(graph, operation, slot);
            let before = results.iter().filter_map(|&value| preimage(operation, slot, value, other));
            let data_type = graph.tensor(operand).data_type;
            let edges = if operation.is_core() { conversion_edges(data_type, graph.compute_type(id)) } else { &[] };
            let values: Vec<f64> = edges.iter().copied().chain(own(operation, slot, other)).chain(before).collect();
            keep(all.entry(operand).or_default(), values, |value| round_f64(data_type, value).is_finite());
        }
    }
    all
}

fn keep(kept: &mut Vec<f64>, values: Vec<f64>, is_held: impl Fn(f64) -> bool) {
    for value in values.into_iter().filter(|&value| value.is_finite() && is_held(value)) {
        if kept.len() < MOST && !kept.contains(&value) {
            kept.push(value);
        }
    }
}

/// The host scalar beside an operand of a binary operation.
fn other_scalar(graph: &FinalizedGraph, operation: &Operation, slot: usize) -> Option<f64> {
    let [_, _] = &operation.inputs[..] else { return None };
    graph.tensor(operation.inputs[1 - slot].1).value.map(|value| value.as_f64())
}

/// Where functions jump, or turn at a corner, and neither rise nor fall throughout.
#[warn(clippy::wildcard_enum_match_arm)]
pub(super) fn jumps(p: &Pointwise, operand: usize) -> Vec<f64> {
    let clips = || vec![f64::from(p.lower_clip()), f64::from(p.upper_clip())];
    let (jumping, places) = match p.mode {
        M::ReluFwd => (0, clips()),
        M::ReluBwd => (1, clips()),
        M::EluFwd => (0, vec![0.0]),
        M::EluBwd => (1, vec![0.0]),
        // π on one side of the negative axis, −π on the other
        M::Atan2 => (0, vec![0.0, -0.0]),
        // Those of the others are at integers, poles and other operands, or turn nowhere at a corner.
        M::Add | M::AddSquare | M::Sub | M::Mul | M::Div | M::Mod | M::Pow | M::Max | M::Min | M::Abs => return vec![],
        M::Neg | M::Sqrt | M::Rsqrt | M::Reciprocal | M::Exp | M::Log | M::Erf | M::Ceil | M::Floor => return vec![],
        M::Sin | M::Cos | M::Tan | M::Identity | M::GenIndex | M::BinarySelect => return vec![],
        M::TanhFwd | M::SigmoidFwd | M::GeluFwd | M::GeluApproxTanhFwd | M::SoftplusFwd | M::SwishFwd => return vec![],
        M::TanhBwd | M::SigmoidBwd | M::GeluBwd | M::GeluApproxTanhBwd | M::SoftplusBwd | M::SwishBwd => return vec![],
        M::CmpEq | M::CmpNeq | M::CmpGt | M::CmpGe | M::CmpLt | M::CmpLe => return vec![],
        M::LogicalAnd | M::LogicalOr | M::LogicalNot => return vec![],
    };
    if operand == jumping { places } else { Vec::new() }
}

/// Where an operation's operand is at a jump, a corner, a tie with another operand, or lets the other one through.
fn own(operation: &Operation, slot: usize, other: Option<f64>) -> Vec<f64> {
    match &operation.attributes {
        Attributes::Pointwise(pointwise) => {
            [jumps(pointwise, slot), pointwise_own(pointwise.mode, slot, other)].concat()
        }
        Attributes::Matmul(_) | Attributes::Convolution(_) => vec![0.0, 1.0],
        Attributes::Concat(_) | Attributes::Signal(_) | Attributes::View | Attributes::Transpose => Vec::new(),
        Attributes::AllGather(_) | Attributes::Bernoulli(_) => Vec::new(),
        Attributes::PageGather | Attributes::BlockBits => Vec::new(),
        _ => vec![1.0, 0.0, -1.0],
    }
}

fn pointwise_own(mode: M, slot: usize, other: Option<f64>) -> Vec<f64> {
    match (mode, slot) {
        _ if mode.is_comparison() || matches!(mode, M::Max | M::Min) => {
            other.map_or(vec![1.0, 0.0, -1.0], |other| vec![other])
        }
        (M::Ceil | M::Floor, _) => vec![0.0, 1.0, -1.0, 0.5, -0.5],
        (M::Mul, _) => vec![1.0, 0.0],
        (M::Div, 1) => vec![1.0],
        (M::Mod, 0) => vec![2.0, -2.0, 0.0],
        (M::Mod, _) => vec![1.0, 2.0],
        (M::Pow, _) => vec![1.0, 0.0, 2.0],
        (M::Log | M::Sqrt | M::Rsqrt | M::Reciprocal | M::LogicalAnd | M::LogicalOr | M::LogicalNot, _) => {
            vec![0.0, 1.0]
        }
        (M::BinarySelect, 2) => vec![0.0, 1.0],
        (M::BinarySelect | M::GenIndex | M::Identity | M::Neg, _) => Vec::new(),
        _ if mode.is_backward() && slot == 0 => vec![1.0],
        _ => vec![0.0],
    }
}

/// The operand for which an operation gives a value, where its other operand is this scalar, or neutral.
fn preimage(operation: &Operation, slot: usize, value: f64, other: Option<f64>) -> Option<f64> {
    let pointwise = match &operation.attributes {
        Attributes::Pointwise(pointwise) => pointwise,
        // What is huge would make all sums huge that it is part of.
        Attributes::Matmul(_) | Attributes::Convolution(_) => {
            return Some(value).filter(|value| value.abs() <= LARGEST);
        }
        _ => return Some(value),
    };
    match (pointwise.mode, slot) {
        (M::Identity | M::Ceil | M::Floor | M::Max | M::Min | M::Abs | M::ReluFwd, _) => Some(value),
        (M::BinarySelect, 0 | 1) => Some(value),
        (M::Neg, _) => Some(-value),
        (M::Reciprocal, _) => Some(value.recip()),
        (M::Sqrt, _) => Some(value * value),
        (M::Add | M::AddSquare, 0) | (M::Add, _) => Some(value - other.unwrap_or(0.0)),
        (M::Sub, 0) => Some(value + other.unwrap_or(0.0)),
        (M::Sub, _) => Some(other.unwrap_or(0.0) - value),
        (M::Mul, _) => Some(value / other.unwrap_or(1.0)),
        (M::Div, 0) => Some(value * other.unwrap_or(1.0)),
        (mode, 0) if mode.is_backward() => Some(value),
        _ => None,
    }
}

/// Ties of rounding to a type, its largest value, and what lies just beyond.
fn rounding_edges(data_type: DataType) -> &'static [f64] {
    match data_type {
        DataType::Int8 => &[0.5, 1.5, -0.5, 127.0, 127.5, -128.5],
        DataType::UInt8 => &[0.5, 1.5, -0.5, 255.0, 255.5],
        DataType::Int32 => &[0.5, 1.5, -2.5],
        DataType::Half => &[1.0 + 1.0 / 2048.0, 65504.0, 65520.0],
        DataType::BFloat16 => &[1.0 + 1.0 / 256.0, 1.0 + 3.0 / 256.0],
        DataType::Fp8E4M3 => &[1.0 + 1.0 / 16.0, 448.0, 464.0],
        DataType::Fp8E5M2 => &[1.0 + 1.0 / 8.0, 57344.0, 61440.0],
        DataType::Boolean => &[0.0],
        _ => &[],
    }
}

/// Where operands of a core change on the way to the type that it is computed in, or make the largest sums: ties of HALF among
/// BFLOAT16 (what overflows would make all sums infinite), and the ends of INT8.
fn conversion_edges(data_type: DataType, compute: DataType) -> &'static [f64] {
    const UNIT: f64 = 1.0 / 16_777_216.0;
    match (data_type, compute) {
        (DataType::BFloat16, DataType::Half) => &[0.5 * UNIT, 1.5 * UNIT, 2.5 * UNIT],
        (DataType::Int8, DataType::Float) => &[127.0, -128.0],
        _ => &[],
    }
}

/// Operands whose vectors may have one 1 among zeros, so that the products select elements of the other operand: one input
/// of a core, with the axes that tell its vectors apart.
pub(super) fn selectors(graph: &FinalizedGraph) -> BTreeMap<TensorId, Vec<bool>> {
    let is_input = |id: TensorId| graph.producer(id).is_none() && !graph.tensor(id).is_pass_by_value;
    let selector = |operation: &Operation| {
        let mut places = vectors(&operation.attributes);
        places.retain(|&(slot, _)| operation.inputs.get(slot).is_some_and(|slot| is_input(slot.1)));
        let &(slot, axis) = places.first()?;
        let id = operation.inputs[slot].1;
        let rank = graph.tensor(id).dim.len();
        Some((id, (0..rank).map(|at| axis.tells_apart(at, rank)).collect()))
    };
    graph.operations().filter_map(selector).collect()
}

/// Which axes tell the vectors of an operand apart.
#[derive(Clone, Copy)]
enum Axes {
    /// All but the one so far from the end.
    AllButFromLast(usize),
    /// This one alone.
    Only(usize),
}

impl Axes {
    fn tells_apart(self, axis: usize, rank: usize) -> bool {
        match self {
            Self::AllButFromLast(place) => axis + 1 + place != rank,
            Self::Only(place) => axis == place,
        }
    }
}

/// Operands of a core that could select, by their places: rows of A, columns of B, and of a convolution each vector of which
/// one channel of the result is made.
fn vectors(attributes: &Attributes) -> Vec<(usize, Axes)> {
    match attributes {
        Attributes::Matmul(_) => vec![(0, Axes::AllButFromLast(0)), (1, Axes::AllButFromLast(1))],
        Attributes::Convolution(Convolution { direction, .. }) => match direction {
            ConvolutionDirection::Forward => vec![(1, Axes::Only(0))],
            ConvolutionDirection::BackwardData => vec![(1, Axes::Only(1))],
            ConvolutionDirection::BackwardFilter => vec![(0, Axes::Only(1))],
        },
        _ => Vec::new(),
    }
}
