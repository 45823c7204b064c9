//! Op-by-op evaluation in double precision: the oracle of the CPU engine.
//!
//! Plain loops over dense row-major values, with formulas of its own; nothing of the engine's arithmetic is used, only
//! its checks of what was given and the rounding to storage types.

use std::borrow::Cow;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;

use super::all_gather;
use super::overrides::{Overrides, SIDES};
use super::pages;
use super::ragged;
use super::run::arithmetic;
use super::supported::check_supported;
use super::values::{Values, scales, written};
use super::{bernoulli, block_mask};
use crate::error::Result;
use crate::graph::{
    Attributes, DataType, FinalTensor, FinalizedGraph, Operation, OperationId, Port, ReductionMode, TensorId,
};
use crate::host_tensor::{HostTensor, HostTensors, reserve, round_f64, to_usize};

mod convolution;
mod linear;
mod movement;
mod number;
mod pointwise;
mod reduction;
mod resample;
mod special;

pub(super) use convolution::convolve;
pub(super) use linear::matrix_of;
pub(super) use movement::{join, transposed};
pub(super) use pointwise::{evaluate as pointwise_value, map as pointwise_map, scaled as pointwise_scaled};
pub(super) use reduction::fold;
pub(super) use resample::{Contact, Windows, forward as resample_forward};

/// A tensor's values in double precision, row-major over `dim`; 64-bit integers beyond 2^53 are rounded.
#[derive(Clone, Debug, PartialEq)]
pub struct DenseF64 {
    /// Extents.
    pub dim: Vec<i64>,
    /// One value an element.
    pub values: Vec<f64>,
}

impl DenseF64 {
    /// The tensor's elements.
    ///
    /// # Errors
    /// As [`HostTensor::to_dense`].
    pub fn from_host(tensor: &HostTensor) -> Result<Self> {
        Ok(Self { dim: tensor.dim.clone(), values: tensor.to_dense()? })
    }

    /// The values in a tensor's storage type and layout; gaps are poisoned.
    ///
    /// # Errors
    /// As [`HostTensor::from_dense`].
    pub fn to_host(&self, tensor: &FinalTensor) -> Result<HostTensor> {
        HostTensor::from_dense(tensor.data_type, &self.dim, &tensor.stride, &self.values)
    }
}

/// Evaluates a graph op by op in double precision and gives its results ([`FinalizedGraph::results`]). Every result, virtual ones included, is
/// rounded to its compute type and then to its storage type (O-14, A-29), save virtual `DOUBLE` ones, of which composite
/// operations are made: those hold what is defined, whatever the compute type. Sums of floats are not rounded in between,
/// sums of `INT32` wrap (PW-R7).
///
/// # Errors
/// As [`super::execute`].
pub fn evaluate_f64(graph: &FinalizedGraph, inputs: &HostTensors) -> Result<BTreeMap<TensorId, DenseF64>> {
    let (whole, graph) = (graph, &*graph.expand());
    check_supported(graph)?;
    let values = Values::new(graph, inputs)?;
    let results = walk(
        graph,
        |id| DenseF64::from_host(values.get(id)?),
        |id, operands| {
            let slots = &graph.operation(id).inputs;
            let operands: Vec<Cow<DenseF64>> =
                operands.iter().zip(slots).map(|(operand, slot)| converted(graph, id, *slot, operand)).collect();
            let results = exact(graph, id, &operands.iter().map(Cow::as_ref).collect::<Vec<_>>(), &values)?;
            let written = written(graph.operation(id));
            Ok(results.into_iter().zip(written).map(|(result, tensor)| rounded(graph, id, tensor, result)).collect())
        },
    )?;
    let stored = |(id, DenseF64 { dim, values })| {
        Ok((id, DenseF64 { dim, values: ragged::placed(whole, inputs, id, values, f64::NAN)? }))
    };
    results.into_iter().map(stored).collect()
}

/// Visits operations in order; `step` gives what each writes ([`written`]). Inputs are loaded when first read;
/// everything is dropped after its last reader, save results, which are given back.
pub(super) fn walk<V>(
    graph: &FinalizedGraph,
    load: impl Fn(TensorId) -> Result<V>,
    mut step: impl FnMut(OperationId, &[&V]) -> Result<Vec<V>>,
) -> Result<BTreeMap<TensorId, V>> {
    let mut live: BTreeMap<TensorId, V> = BTreeMap::new();
    let kept: BTreeSet<TensorId> = graph.results().into_iter().collect();
    for id in graph.operation_ids() {
        let operation = graph.operation(id);
        for tensor in operation.input_tensors() {
            if let Entry::Vacant(place) = live.entry(tensor) {
                place.insert(load(tensor)?);
            }
        }
        for output in operation.output_tensors() {
            // An error now instead of an abort later.
            drop(reserve::<f64>(to_usize(&graph.tensor(output).dim).iter().product())?);
        }
        let operands: Vec<&V> = operation.input_tensors().filter_map(|tensor| live.get(&tensor)).collect();
        let results = step(id, &operands)?;
        for tensor in operation.input_tensors() {
            if graph.consumers(tensor).last() == Some(&id) && !kept.contains(&tensor) {
                live.remove(&tensor);
            }
        }
        live.extend(written(operation).zip(results));
    }
    Ok(kept.iter().filter_map(|id| live.remove_entry(id)).collect())
}

/// An operand in the type that its operation reads it in.
fn converted<'a>(
    graph: &FinalizedGraph,
    id: OperationId,
    (port, tensor): (Port, TensorId),
    operand: &'a DenseF64,
) -> Cow<'a, DenseF64> {
    let read = value_type(graph, id, (port, tensor));
    if holds_all(read, graph.tensor(tensor).data_type) {
        return Cow::Borrowed(operand);
    }
    let values = operand.values.par_iter().map(|&x| round_f64(read, x)).collect();
    Cow::Owned(DenseF64 { dim: operand.dim.clone(), values })
}

/// The type that an operation reads or computes the values at a port in: its compute type, save for what it only moves
/// and for indices, which keep their storage type, and for virtual `DOUBLE` tensors of floating arithmetic, which hold
/// what the definition says: that an implementation computes it in less is an error of the implementation.
pub(super) fn value_type(graph: &FinalizedGraph, id: OperationId, (port, tensor): (Port, TensorId)) -> DataType {
    let attributes = &graph.operation(id).attributes;
    let moves = matches!(
        attributes,
        Attributes::Concat(_)
            | Attributes::Signal(_)
            | Attributes::View
            | Attributes::Transpose
            | Attributes::AllGather(_)
            | Attributes::Bernoulli(_)
            | Attributes::PageGather
            | Attributes::BlockBits
    );
    let (compute, tensor) = (operand_type(graph, id), graph.tensor(tensor));
    let is_ideal = tensor.is_virtual && tensor.data_type == DataType::Double && compute.is_floating();
    if moves || port == Port::INDEX || is_ideal { tensor.data_type } else { compute }
}

/// The port at which an operation writes a tensor.
pub(super) fn port_of(operation: &Operation, tensor: TensorId) -> Port {
    operation.outputs.iter().find(|slot| slot.1 == tensor).map_or(Port::FLAG, |slot| slot.0)
}

/// Whether a type holds every value of another one, so that converting to it changes nothing.
pub(super) fn holds_all(data_type: DataType, other: DataType) -> bool {
    use DataType as D;
    let is_narrow = matches!(other, D::Int8 | D::UInt8 | D::Boolean);
    match data_type {
        _ if data_type == other => true,
        D::Float => is_narrow || other.is_fp8() || matches!(other, D::Half | D::BFloat16),
        D::Double => other != D::Int64,
        D::Int32 => is_narrow,
        _ => false,
    }
}

/// The type operands are converted to.
pub(super) fn operand_type(graph: &FinalizedGraph, id: OperationId) -> DataType {
    arithmetic(graph.compute_type(id))
}

/// A result rounded to its compute type, then to its storage type.
fn rounded(graph: &FinalizedGraph, id: OperationId, output: TensorId, result: Vec<f64>) -> DenseF64 {
    let tensor = graph.tensor(output);
    let compute = value_type(graph, id, (port_of(graph.operation(id), output), output));
    let values = result.into_par_iter().map(|x| round_f64(tensor.data_type, round_f64(compute, x))).collect();
    DenseF64 { dim: tensor.dim.clone(), values }
}

/// What an operation writes ([`written`]), row-major, before any rounding. `operands` are converted to the types they
/// are read in.
pub(super) fn exact(
    graph: &FinalizedGraph,
    id: OperationId,
    operands: &[&DenseF64],
    values: &Values,
) -> Result<Vec<Vec<f64>>> {
    let operation = graph.operation(id);
    match &operation.attributes {
        Attributes::Concat(concat) => return Ok(vec![join(concat.axis as usize, operands)]),
        Attributes::Signal(signal) => return movement::signal(graph, id, signal, operands),
        Attributes::View => return Ok(operands.iter().map(|x| x.values.clone()).collect()),
        Attributes::Transpose => return Ok(operands.iter().map(|x| movement::transposed(&x.dim, &x.values)).collect()),
        Attributes::AllGather(gather) => return all_gather::exact(graph, id, *gather, operands, values),
        Attributes::Bernoulli(attributes) => return bernoulli::exact(graph, id, *attributes, values),
        Attributes::PageGather => return pages::exact(graph, id, operands, f64::NAN),
        Attributes::BlockBits => return block_mask::exact(graph, id, values),
        _ => {}
    }
    let result = |&(port, output): &(Port, TensorId)| {
        let before = unscaled(graph, id, operands, (port, output));
        let (alpha, beta) = scales(operation);
        if port == Port::INDEX || (alpha, beta) == (1.0, 0.0) {
            return Ok(before);
        }
        let prior = if beta == 0.0 { None } else { Some(values.get(output)?.to_dense::<f64>()?) };
        Ok(blend(before, alpha, prior.as_deref(), beta))
    };
    operation.outputs.iter().map(result).collect()
}

/// One output before α and β.
fn unscaled(
    graph: &FinalizedGraph,
    id: OperationId,
    operands: &[&DenseF64],
    (port, output): (Port, TensorId),
) -> Vec<f64> {
    let operation = graph.operation(id);
    let is_integer = operand_type(graph, id) == DataType::Int32;
    let dim = &graph.tensor(output).dim;
    match &operation.attributes {
        Attributes::Matmul(_) => match overrides_of(operation, operands) {
            Some(overrides) => {
                let padded = [0, 1].map(|side| overrides.padded(operands[side], SIDES[side]));
                match overrides.blocks(last_two(&padded[0].dim)) {
                    Some(blocks) => linear::matmul_of_blocks(&padded.each_ref(), dim, is_integer, &blocks),
                    None => linear::matmul(&padded.each_ref(), dim, is_integer),
                }
            }
            None => linear::matmul(operands, dim, is_integer),
        },
        Attributes::Convolution(convolution) => convolve(convolution, operands, dim, is_integer),
        Attributes::Pointwise(pointwise) => {
            let compute = operand_type(graph, id);
            let rows = std::array::from_fn(|i| operands.get(i).copied());
            pointwise::map(pointwise, rows, dim, |x| pointwise::evaluate(pointwise, compute, x))
        }
        Attributes::ResampleForward(resample) => resample::forward(resample, operands, dim, port),
        Attributes::ResampleBackward(resample) => {
            let operand = |port| operand_at(operation, operands, port);
            resample::backward(resample, [Port::DY, Port::INDEX, Port::X].map(operand), dim)
        }
        Attributes::Reduction(reduction) => reduction::reduce(reduction.mode, operands, dim, is_integer),
        Attributes::GenStats if port == Port::SUM => reduction::reduce(ReductionMode::Add, operands, dim, is_integer),
        Attributes::GenStats => reduction::sum_of_squares(operands, dim, is_integer),
        // Moved, expanded or refused before; no value of theirs agrees with anything.
        Attributes::Concat(_)
        | Attributes::Signal(_)
        | Attributes::View
        | Attributes::Transpose
        | Attributes::AllGather(_)
        | Attributes::Bernoulli(_)
        | Attributes::PageGather
        | Attributes::BlockBits
        | Attributes::Composite(_)
        | Attributes::Other(_) => {
            vec![f64::NAN; dim.iter().product::<i64>() as usize]
        }
    }
}

/// Rows and columns of a tensor's matrices.
pub(super) fn last_two(dim: &[i64]) -> [usize; 2] {
    let extent = |from_last: usize| dim.len().checked_sub(from_last).map_or(1, |axis| dim[axis] as usize);
    [extent(2), extent(1)]
}

/// Override extents of a matmul, whose tensors are operands.
pub(super) fn overrides_of(operation: &Operation, operands: &[&DenseF64]) -> Option<Overrides> {
    let values = |port| operand_at(operation, operands, port).map(|extents| extents.values.clone()).ok_or(());
    Overrides::of(operation, values).ok().flatten()
}

/// The operand at an input port, of operands in port order.
pub(super) fn operand_at<'a, V>(operation: &Operation, operands: &[&'a V], port: Port) -> Option<&'a V> {
    operands.get(operation.inputs.iter().position(|slot| slot.0 == port)?).copied()
}

fn blend(sums: Vec<f64>, alpha: f64, prior: Option<&[f64]>, beta: f64) -> Vec<f64> {
    match prior {
        Some(prior) => sums.iter().zip(prior).map(|(sum, prior)| alpha * sum + beta * prior).collect(),
        None => sums.into_iter().map(|sum| alpha * sum).collect(),
    }
}
