//! Running error analysis: how far apart two honest computations of a graph may be, element by element.
//!
//! Every tensor carries values (of the op-by-op evaluation in double precision) and, per element, a bound on how far
//! the value of any honest implementation may lie from them. An operation carries its operands' bounds through its
//! function, adds its own error (the stated accuracy of a mode, the accumulation error of a sum), and the rounding to
//! compute and storage types maps the result's interval. No tolerance is tuned by hand.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::iter::successors;

use super::oracle::{
    DenseF64, exact, join, last_two, operand_at, operand_type, overrides_of, pointwise_map, port_of, transposed,
    value_type, walk,
};
use super::overrides::SIDES;
use super::pages;
use super::ragged;
use super::run::arithmetic;
use super::supported::check_supported;
use super::values::{Values, scales, written};
use crate::error::Result;
use crate::graph::{
    Attributes, Composite, Convolution, DataType, FinalizedGraph, Operation, OperationId, Pointwise, PointwiseMode,
    Port, ReductionMode, TensorId,
};
use crate::host_tensor::HostTensors;

mod accuracy;
mod interval;
mod linear;
mod modes;
mod pointwise;
mod reduction;
mod resample;
mod tensor_core;

use accuracy::Accumulator;

use interval::{Bounded, upward};
pub use modes::{Accuracy, ModeAccuracy, Unit, accuracy_table, allowed_error};

/// What an implementation may do beyond rounding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BoundOptions {
    /// FLOAT operands of matmuls and convolutions may be cut to the 10 fraction bits of TF32 (A-41, D-14).
    pub tf32: bool,
    /// FP8 products of matmuls and convolutions may be added up by FP8 tensor cores, 128 at a time, also where the graph
    /// computes in FLOAT.
    pub fp8: bool,
}

/// Bounds of a graph's outputs, from the exact value to any honest result.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bounds {
    outputs: BTreeMap<TensorId, Option<Vec<f32>>>,
}

impl Bounds {
    /// The bound of the element at a row-major position of an output: 0 where results must be exact, infinite where
    /// they cannot be compared (and outside of the output).
    pub fn at(&self, output: TensorId, position: usize) -> f64 {
        match self.outputs.get(&output) {
            Some(None) => 0.0,
            Some(Some(errors)) => errors.get(position).map_or(f64::INFINITY, |&error| f64::from(error)),
            None => f64::INFINITY,
        }
    }
}

/// Bounds for full-precision operands.
///
/// # Errors
/// As [`super::execute`].
pub fn bounds(graph: &FinalizedGraph, inputs: &HostTensors) -> Result<Bounds> {
    bounds_with(graph, inputs, BoundOptions::default())
}

/// Bounds for implementations with these liberties.
///
/// # Errors
/// As [`super::execute`].
pub fn bounds_with(graph: &FinalizedGraph, inputs: &HostTensors, options: BoundOptions) -> Result<Bounds> {
    let (softmaxes, own) = (probabilities(graph), graph.tensors().len());
    let (whole, graph) = (graph, &*graph.expand());
    let probabilities = softmaxes.into_iter().chain(rounded_in_definitions(graph, own)).collect();
    let multiplied = before_factors(graph, &probabilities);
    let exponentials = exponentials_of_definitions(graph, own);
    check_supported(graph)?;
    let values = Values::new(graph, inputs)?;
    let analysis = Analysis { graph, values: &values, options, probabilities, multiplied, exponentials };
    let load = |id| Ok(Bounded::exact(DenseF64::from_host(values.get(id)?)?));
    let outputs = walk(graph, load, |id, operands| analysis.step(id, operands))?;
    let stored = |(id, output): (TensorId, Bounded)| {
        let error = output.error.map(|errors| ragged::placed(whole, inputs, id, errors, 0.0)).transpose()?;
        Ok((id, error))
    };
    Ok(Bounds { outputs: outputs.into_iter().map(stored).collect::<Result<_>>()? })
}

/// Results of a softmax, what dropout leaves of them, or what they are scaled to, that a matmul reads and that are kept nowhere, of a type that
/// rounds them: they may be rounded before they are divided by their sum and multiplied, instead of after (AT-N2, AT-O19).
fn probabilities(graph: &FinalizedGraph) -> BTreeSet<TensorId> {
    let is_rounded = |id: TensorId| {
        let tensor = graph.tensor(id);
        tensor.is_virtual && !matches!(tensor.data_type, DataType::Float | DataType::Double)
    };
    let is_multiplied = |id: TensorId| graph.consumers(id).iter().any(|&id| graph.operation(id).is_core());
    let softmaxes = graph.operations().filter(|operation| {
        matches!(
            &operation.attributes,
            Attributes::Composite(Composite::Softmax(_) | Composite::Dropout(_) | Composite::MaskedDropout(_))
        )
    });
    let results: Vec<TensorId> = softmaxes.filter_map(|operation| operation.output(Port::Y)).collect();
    let scaled = results.iter().flat_map(|&id| scaled(graph, id)).collect::<Vec<_>>();
    results.into_iter().chain(scaled).filter(|&id| is_rounded(id) && is_multiplied(id)).collect()
}

/// What a value times a number is, or the value in another type.
fn scaled(graph: &FinalizedGraph, id: TensorId) -> impl Iterator<Item = TensorId> + '_ {
    let readers = graph.consumers(id).iter().map(|&reader| graph.operation(reader));
    let is_number = |id: TensorId| graph.tensor(id).dim.iter().all(|&extent| extent == 1);
    let is_scaled = move |operation: &&Operation| match operation.pointwise_mode() {
        Some(PointwiseMode::Identity) => true,
        Some(PointwiseMode::Mul) => operation.input_tensors().any(is_number),
        _ => false,
    };
    readers.filter(is_scaled).filter_map(Operation::result)
}

/// Values that definitions round before they are multiplied, as they are or transposed: implementations may round them where they differ by a
/// factor, or to more bits.
fn rounded_in_definitions(expanded: &FinalizedGraph, own: usize) -> impl Iterator<Item = TensorId> + '_ {
    let producer = |id: TensorId| expanded.producer(id).map(|id| expanded.operation(id));
    let rounds =
        move |id: TensorId| producer(id).is_some_and(|it| it.pointwise_mode() == Some(PointwiseMode::Identity));
    let is_narrow =
        |data_type: DataType| matches!(data_type, DataType::Half | DataType::BFloat16) || data_type.is_fp8();
    let is_rounded = move |&id: &TensorId| {
        let transposed = producer(id).filter(|it| matches!(it.attributes, Attributes::Transpose));
        is_narrow(expanded.tensor(id).data_type)
            && (rounds(id) || transposed.and_then(|it| it.input(Port::X)).is_some_and(rounds))
    };
    expanded.tensor_ids().skip(own).filter(is_rounded)
}

/// What becomes one of these values of 16 bits by factors, such as those of a dropout, and the type of the value: implementations may round
/// before they multiply, and half of a value, as kernels of attention have of probabilities.
fn before_factors(expanded: &FinalizedGraph, rounded: &BTreeSet<TensorId>) -> BTreeMap<TensorId, DataType> {
    let producer = |id: TensorId| expanded.producer(id).map(|id| expanded.operation(id));
    let operand = |id: TensorId, mode: PointwiseMode| {
        let operation = producer(id).filter(|operation| operation.pointwise_mode() == Some(mode))?;
        let mut values = operation.input_tensors().filter(|&id| expanded.tensor(id).is_virtual);
        values.next().filter(|_| values.next().is_none())
    };
    let before_factors = |&id: &TensorId| {
        let data_type = expanded.tensor(id).data_type;
        let transposed = producer(id).filter(|it| matches!(it.attributes, Attributes::Transpose));
        let stored = transposed.and_then(|it| it.input(Port::X)).unwrap_or(id);
        let product = operand(stored, PointwiseMode::Identity).unwrap_or(stored);
        let before = |&value: &TensorId| operand(value, PointwiseMode::Mul);
        let is_narrow = matches!(data_type, DataType::Half | DataType::BFloat16);
        let values = successors(before(&product).filter(|_| is_narrow), before);
        values.take_while(|&value| expanded.consumers(value).len() == 1).map(move |value| (value, data_type))
    };
    rounded.iter().flat_map(before_factors).collect()
}

/// Exponentials of definitions, such as probabilities of a backward pass: kernels of attention have the chip's `ex2`, which gives no subnormal numbers.
fn exponentials_of_definitions(expanded: &FinalizedGraph, own: usize) -> BTreeSet<TensorId> {
    let exponentials = expanded.operations().filter(|it| it.pointwise_mode() == Some(PointwiseMode::Exp));
    exponentials.filter_map(Operation::result).filter(|id| id.index() >= own).collect()
}

struct Analysis<'a> {
    graph: &'a FinalizedGraph,
    values: &'a Values<'a>,
    options: BoundOptions,
    /// What may be rounded elsewhere.
    probabilities: BTreeSet<TensorId>,
    /// What may be rounded to a type before a factor, too.
    multiplied: BTreeMap<TensorId, DataType>,
    /// What may be 0 where it is subnormal.
    exponentials: BTreeSet<TensorId>,
}

impl Analysis<'_> {
    fn step(&self, id: OperationId, operands: &[&Bounded]) -> Result<Vec<Bounded>> {
        let operation = self.graph.operation(id);
        let operands: Vec<Cow<Bounded>> = operands
            .iter()
            .zip(&operation.inputs)
            .map(|(operand, &(port, tensor))| {
                let storage = self.graph.tensor(tensor).data_type;
                let read = value_type(self.graph, id, (port, tensor));
                self.loosened(id, tensor, operand.converted(storage, read))
            })
            .collect();
        let operands: Vec<&Bounded> = operands.iter().map(Cow::as_ref).collect();
        let pairs = match &operation.attributes {
            Attributes::Pointwise(pointwise) => vec![self.pointwise(id, pointwise, &operands)],
            Attributes::Concat(_) | Attributes::Signal(_) => self.moved(id, &operands)?,
            Attributes::View | Attributes::Transpose => self.moved(id, &operands)?,
            Attributes::AllGather(_) | Attributes::Bernoulli(_) => self.moved(id, &operands)?,
            Attributes::PageGather | Attributes::BlockBits => self.moved(id, &operands)?,
            _ => self.accumulated(id, &operands)?,
        };
        let result = |(mut pairs, output): (Vec<(f64, f64)>, TensorId)| {
            let tensor = self.graph.tensor(output);
            if let Some(&data_type) = self.multiplied.get(&output) {
                pairs.iter_mut().for_each(|(x, error)| *error += 2.0 * rounding(data_type, *x));
            }
            let computed = value_type(self.graph, id, (port_of(operation, output), output));
            Bounded::rounded(&tensor.dim, pairs, &[computed, tensor.data_type])
        };
        Ok(pairs.into_iter().zip(written(operation)).map(result).collect())
    }

    /// Values and bounds of a concatenation, signal or view: bounds are moved as values are, and a flag is exact.
    fn moved(&self, id: OperationId, operands: &[&Bounded]) -> Result<Vec<Vec<(f64, f64)>>> {
        let operation = self.graph.operation(id);
        let values: Vec<&DenseF64> = operands.iter().map(|operand| &operand.dense).collect();
        let results = exact(self.graph, id, &values, self.values)?;
        let errors = match &operation.attributes {
            Attributes::Concat(concat) => {
                let errors: Vec<DenseF64> = operands.iter().map(|operand| operand.errors()).collect();
                join(concat.axis as usize, &errors.iter().collect::<Vec<_>>())
            }
            Attributes::PageGather => {
                let container = operand_at(operation, operands, Port::CONTAINER).map(|container| container.errors());
                let operands: Vec<&DenseF64> = container.iter().chain(values.iter().copied().skip(1)).collect();
                pages::exact(self.graph, id, &operands, 0.0)?.concat()
            }
            Attributes::Transpose => operand_at(operation, operands, Port::X)
                .map_or_else(Vec::new, |x| transposed(&x.dense.dim, &x.errors().values)),
            _ => operand_at(operation, operands, Port::X).map_or_else(Vec::new, |x| x.errors().values),
        };
        let bounded = |(values, tensor): (Vec<f64>, TensorId)| {
            let is_flag = port_of(operation, tensor) == Port::FLAG;
            // what other GPUs have sent is exact, and so is what is drawn, or a bit of a mask
            let error = |(i, value): (usize, f64)| (value, errors.get(i).copied().filter(|_| !is_flag).unwrap_or(0.0));
            values.into_iter().enumerate().map(error).collect()
        };
        Ok(results.into_iter().zip(written(operation)).map(bounded).collect())
    }

    /// An operand as a tensor core may see it.
    fn loosened<'a>(&self, id: OperationId, tensor: TensorId, mut operand: Cow<'a, Bounded>) -> Cow<'a, Bounded> {
        let is_float =
            self.graph.tensor(tensor).data_type == DataType::Float && operand_type(self.graph, id) == DataType::Float;
        if self.options.tf32 && is_float && self.graph.operation(id).is_core() {
            let cut = |(i, &x): (usize, &f64)| upward(operand.error_at(i) + tf32_error(x));
            let error = operand.dense.values.iter().enumerate().map(cut).collect();
            operand.to_mut().error = Some(error);
        }
        if self.probabilities.contains(&tensor) && self.graph.operation(id).is_core() {
            let data_type = self.graph.tensor(tensor).data_type;
            let rounded = |(i, &x): (usize, &f64)| upward(operand.error_at(i) + 2.0 * rounding(data_type, x));
            let error = operand.dense.values.iter().enumerate().map(rounded).collect();
            operand.to_mut().error = Some(error);
        }
        operand
    }

    fn pointwise(&self, id: OperationId, pointwise: &Pointwise, operands: &[&Bounded]) -> Vec<(f64, f64)> {
        let operation = self.graph.operation(id);
        let dim = operation.result().map_or(&[][..], |result| &self.graph.tensor(result).dim);
        let compute = operand_type(self.graph, id);
        let has_error = operands.iter().any(|operand| operand.error.is_some());
        // The index does not depend on the value of the operand.
        let carries = has_error && pointwise.mode != PointwiseMode::GenIndex;
        let errors: Vec<DenseF64> =
            if carries { operands.iter().map(|operand| operand.errors()).collect() } else { Vec::new() };
        let value_row = |i: usize| operands.get(i).map(|operand| &operand.dense);
        let rows = std::array::from_fn(|i| if i < 3 { value_row(i) } else { errors.get(i - 3) });
        // Which zero MIN and MAX give is open, and that of a sum depends on its order.
        let is_computed = |i: usize| operation.inputs.get(i).is_some_and(|slot| self.graph.producer(slot.1).is_some());
        let is_open = std::array::from_fn(is_computed);
        let may_be_flushed = operation.result().is_some_and(|result| self.exponentials.contains(&result));
        let lost = if may_be_flushed { f64::from(f32::MIN_POSITIVE) } else { 0.0 };
        pointwise_map(pointwise, rows, dim, |[x, b, t, ex, eb, et]| {
            let (value, error) = pointwise::value_and_error(pointwise, compute, ([x, b, t], [ex, eb, et]), is_open);
            (value, error + lost)
        })
    }

    /// Values and bounds of the results of operations that add up many terms.
    fn accumulated(&self, id: OperationId, operands: &[&Bounded]) -> Result<Vec<Vec<(f64, f64)>>> {
        let operation = self.graph.operation(id);
        let values: Vec<&DenseF64> = operands.iter().map(|operand| &operand.dense).collect();
        let results = exact(self.graph, id, &values, self.values)?;
        let accumulator = self.accumulator(id);
        let mut all = Vec::new();
        for (result, &(port, output)) in results.into_iter().zip(&operation.outputs) {
            let errors = self.unscaled(id, operands, (port, output), &result, accumulator);
            let errors = if port == Port::INDEX {
                errors
            } else {
                self.blended(scales(operation), errors, output, &result, accumulator)?
            };
            all.push(result.into_iter().zip(errors).collect());
        }
        Ok(all)
    }

    /// Bounds of one output before α and β; `result` is its exact value.
    fn unscaled(
        &self,
        id: OperationId,
        operands: &[&Bounded],
        (port, output): (Port, TensorId),
        result: &[f64],
        accumulator: Option<Accumulator>,
    ) -> Vec<f64> {
        let operation = self.graph.operation(id);
        let dim = &self.graph.tensor(output).dim;
        match (&operation.attributes, operands) {
            (Attributes::Matmul(_), [a, b]) if self.sums_fp8(id) => self.fp8_matmul(id, [a, b], dim),
            (Attributes::Matmul(_), [a, b]) => linear::matmul(a, b, dim, accumulator),
            (Attributes::Matmul(_), [a, b, ..]) => {
                let dense: Vec<&DenseF64> = operands.iter().map(|operand| &operand.dense).collect();
                let Some(overrides) = overrides_of(operation, &dense) else { return vec![f64::INFINITY; result.len()] };
                let [a, b] = [(a, SIDES[0]), (b, SIDES[1])].map(|(operand, side)| operand.padded(&overrides, side));
                match overrides.blocks(last_two(&a.dense.dim)) {
                    Some(blocks) => linear::matmul_of_blocks(&a, &b, dim, accumulator, &blocks),
                    None => linear::matmul(&a, &b, dim, accumulator),
                }
            }
            (Attributes::Convolution(convolution), [first, second]) if self.sums_fp8(id) => {
                self.fp8_convolution(id, convolution, [first, second], (dim, result))
            }
            (Attributes::Convolution(convolution), [first, second]) => {
                linear::convolution(convolution, [first, second], dim, accumulator)
            }
            (Attributes::Reduction(reduction), [x]) => reduction::reduce(reduction.mode, x, dim, result, accumulator),
            (Attributes::ResampleForward(resample), [x]) => resample::forward(resample, x, dim, port, accumulator),
            (Attributes::ResampleBackward(resample), _) => {
                let operand = |port| operand_at(operation, operands, port);
                resample::backward(resample, [Port::DY, Port::INDEX, Port::X].map(operand), dim, accumulator)
            }
            (Attributes::GenStats, [x]) if port == Port::SUM => {
                reduction::reduce(ReductionMode::Add, x, dim, result, accumulator)
            }
            (Attributes::GenStats, [x]) => reduction::squares(x, dim, accumulator),
            // Nothing is known of a result whose operands are others than the operation has.
            (Attributes::Matmul(_) | Attributes::Convolution(_) | Attributes::Reduction(_), _)
            | (Attributes::GenStats | Attributes::ResampleForward(_), _) => vec![f64::INFINITY; result.len()],
            // Bounded, moved, expanded or refused before.
            (Attributes::Pointwise(_) | Attributes::Concat(_) | Attributes::Signal(_), _)
            | (Attributes::View | Attributes::Transpose, _)
            | (Attributes::AllGather(_) | Attributes::Bernoulli(_) | Attributes::PageGather, _)
            | (Attributes::BlockBits, _)
            | (Attributes::Composite(_) | Attributes::Other(_), _) => {
                vec![f64::INFINITY; result.len()]
            }
        }
    }

    /// Fast accumulation, and what FP8 tensor cores keep, are properties of matmuls and convolutions.
    fn accumulator(&self, id: OperationId) -> Option<Accumulator> {
        let (compute, operation) = (self.graph.compute_type(id), self.graph.operation(id));
        match compute {
            _ if !operation.is_core() => Accumulator::of(arithmetic(compute)),
            _ => Accumulator::of(compute),
        }
    }

    /// Whether an operation's products are those of FP8 tensor cores.
    fn sums_fp8(&self, id: OperationId) -> bool {
        let is_fp8 = |tensor| self.graph.tensor(tensor).data_type.is_fp8();
        self.options.fp8 && self.graph.operation(id).input_tensors().all(is_fp8)
    }

    /// Bounds of a matmul of FP8 products: what tensor cores lose, and the sums of that in FP32.
    fn fp8_matmul(&self, id: OperationId, [a, b]: [&Bounded; 2], dim: &[i64]) -> Vec<f64> {
        let lost = tensor_core::lost(&a.dense, &b.dense, dim, self.chain(id));
        sum(linear::matmul(a, b, dim, Accumulator::of(DataType::Float)), lost)
    }

    /// Bounds of a convolution of FP8 products, as of a matmul.
    fn fp8_convolution(
        &self,
        id: OperationId,
        convolution: &Convolution,
        operands: [&Bounded; 2],
        (dim, result): (&[i64], &[f64]),
    ) -> Vec<f64> {
        let lengths = (linear::terms(convolution, operands, dim), self.chain(id));
        let dense = operands.map(|operand| &operand.dense);
        let lost = tensor_core::lost_of_convolution(convolution, dense, dim, lengths, result);
        sum(linear::convolution(convolution, operands, dim, Accumulator::of(DataType::Float)), lost)
    }

    /// Products that tensor cores sum before the sum is added up in FP32; those of an attention are fewer along a head.
    fn chain(&self, id: OperationId) -> usize {
        match self.graph.compute_type(id) {
            DataType::FastFloatForFp8 => usize::MAX,
            _ if self.probabilities.is_empty() => tensor_core::PROMOTED_TERMS,
            _ => tensor_core::PROMOTED_KEYS,
        }
    }

    /// Bounds of α·sum + β·prior: both products and their sum round.
    fn blended(
        &self,
        (alpha, beta): (f64, f64),
        errors: Vec<f64>,
        output: TensorId,
        results: &[f64],
        accumulator: Option<Accumulator>,
    ) -> Result<Vec<f64>> {
        if alpha == 1.0 && beta == 0.0 {
            return Ok(errors);
        }
        let prior = if beta == 0.0 { Vec::new() } else { self.values.get(output)?.to_dense::<f64>()? };
        let relative = accumulator.map_or(0.0, |accumulator| accumulator.relative_error(3));
        let bound = |(i, error): (usize, f64)| {
            let prior = prior.get(i).map_or(0.0, |prior| (beta * prior).abs());
            alpha.abs() * error + relative * (results[i].abs() + 2.0 * prior)
        };
        Ok(errors.into_iter().enumerate().map(bound).collect())
    }
}

/// What rounding to a type may change of a value of this size: half a unit in its last place, or of the smallest number.
fn rounding(data_type: DataType, x: f64) -> f64 {
    let (unit, smallest) = match data_type {
        DataType::Half => (2f64.powi(-11), 2f64.powi(-25)),
        DataType::BFloat16 => (2f64.powi(-8), 2f64.powi(-134)),
        DataType::Fp8E4M3 => (2f64.powi(-4), 2f64.powi(-10)),
        DataType::Fp8E5M2 => (2f64.powi(-3), 2f64.powi(-17)),
        _ => (0.0, 0.0),
    };
    unit * x.abs() + smallest
}

fn sum(bounds: Vec<f64>, lost: Vec<f64>) -> Vec<f64> {
    bounds.into_iter().zip(lost).map(|(bound, lost)| bound + lost).collect()
}

/// What cutting a value to TF32 may change: nothing if it has at most 10 fraction bits, else a unit in the tenth, of subnormal numbers as of the
/// smallest normal ones.
fn tf32_error(x: f64) -> f64 {
    let low_bits = (x as f32).to_bits() & 0x1fff;
    if low_bits == 0 { 0.0 } else { x.abs().max(f64::from(f32::MIN_POSITIVE)) * 2f64.powi(-10) }
}
