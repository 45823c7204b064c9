//! Op-by-op evaluation in double precision: the oracle of the CPU engine.
//!
//! Plain loops over dense row-major values, with formulas of its own; nothing of the engine's arithmetic is used, only
//! its checks of what was given and the rounding to storage types.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use rayon::prelude::*;

use super::engine::check_supported;
use super::run::arithmetic;
use super::values::Values;
use crate::error::Result;
use crate::graph::{Attributes, DataType, FinalTensor, FinalizedGraph, OperationId, Port, ReductionMode, TensorId};
use crate::host_tensor::{HostTensor, HostTensors, reserve, round_f64, to_usize};

mod convolution;
mod linear;
mod number;
mod pointwise;
mod reduction;
mod special;

pub(super) use convolution::convolve;
pub(super) use linear::matrix_of;
pub(super) use pointwise::{evaluate as pointwise_value, map as pointwise_map};
pub(super) use reduction::fold;

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

/// Evaluates a graph op by op in double precision and gives its outputs. Every result, virtual ones included, is
/// rounded to its compute type and then to its storage type (O-14, A-29); sums of floats are not rounded in between,
/// sums of `INT32` wrap (PW-R7).
///
/// # Errors
/// As [`super::execute`].
pub fn evaluate_f64(graph: &FinalizedGraph, inputs: &HostTensors) -> Result<BTreeMap<TensorId, DenseF64>> {
    check_supported(graph)?;
    let values = Values::new(graph, inputs)?;
    walk(
        graph,
        |id| DenseF64::from_host(values.get(id)?),
        |id, operands| {
            let tensors = graph.operation(id).input_tensors();
            let operands: Vec<Cow<DenseF64>> =
                operands.iter().zip(tensors).map(|(operand, tensor)| converted(graph, id, tensor, operand)).collect();
            let results = exact(graph, id, &operands.iter().map(Cow::as_ref).collect::<Vec<_>>(), &values)?;
            let outputs = graph.operation(id).output_tensors();
            Ok(results.into_iter().zip(outputs).map(|(result, output)| rounded(graph, id, output, result)).collect())
        },
    )
}

/// Visits operations in order. Inputs are loaded when first read; everything is dropped after its last reader, save
/// outputs, which are given back.
pub(super) fn walk<V>(
    graph: &FinalizedGraph,
    load: impl Fn(TensorId) -> Result<V>,
    mut step: impl FnMut(OperationId, &[&V]) -> Result<Vec<V>>,
) -> Result<BTreeMap<TensorId, V>> {
    let mut live: BTreeMap<TensorId, V> = BTreeMap::new();
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
        let is_output = |tensor: TensorId| graph.producer(tensor).is_some() && !graph.tensor(tensor).is_virtual;
        for tensor in operation.input_tensors() {
            if graph.consumers(tensor).last() == Some(&id) && !is_output(tensor) {
                live.remove(&tensor);
            }
        }
        live.extend(operation.output_tensors().zip(results));
    }
    Ok(graph.outputs().filter_map(|id| live.remove_entry(&id)).collect())
}

/// An operand converted to its operation's compute type.
fn converted<'a>(
    graph: &FinalizedGraph,
    id: OperationId,
    tensor: TensorId,
    operand: &'a DenseF64,
) -> Cow<'a, DenseF64> {
    let compute = operand_type(graph, id);
    if holds_all(compute, graph.tensor(tensor).data_type) {
        return Cow::Borrowed(operand);
    }
    let values = operand.values.par_iter().map(|&x| round_f64(compute, x)).collect();
    Cow::Owned(DenseF64 { dim: operand.dim.clone(), values })
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
    let (compute, tensor) = (operand_type(graph, id), graph.tensor(output));
    let values = result.into_par_iter().map(|x| round_f64(tensor.data_type, round_f64(compute, x))).collect();
    DenseF64 { dim: tensor.dim.clone(), values }
}

/// The results of an operation, row-major, before any rounding. `operands` are converted to the compute type.
pub(super) fn exact(
    graph: &FinalizedGraph,
    id: OperationId,
    operands: &[&DenseF64],
    values: &Values,
) -> Result<Vec<Vec<f64>>> {
    let operation = graph.operation(id);
    let is_integer = operand_type(graph, id) == DataType::Int32;
    let result = |(port, output): &(Port, TensorId)| {
        let dim = &graph.tensor(*output).dim;
        Ok(match &operation.attributes {
            Attributes::Matmul(_) => linear::matmul(operands, dim, is_integer),
            Attributes::Convolution(convolution) => {
                let prior = if convolution.beta == 0.0 { None } else { Some(values.get(*output)?.to_dense::<f64>()?) };
                let sums = convolve(convolution, operands, dim, is_integer);
                blend(sums, convolution.alpha, prior.as_deref(), convolution.beta)
            }
            Attributes::Pointwise(pointwise) => {
                let compute = operand_type(graph, id);
                let rows = std::array::from_fn(|i| operands.get(i).copied());
                pointwise::map(pointwise, rows, dim, |x| pointwise::evaluate(pointwise, compute, x))
            }
            Attributes::Reduction(reduction) => reduction::reduce(reduction.mode, operands, dim, is_integer),
            _ if *port == Port::SUM => reduction::reduce(ReductionMode::Add, operands, dim, is_integer),
            _ => reduction::sum_of_squares(operands, dim, is_integer),
        })
    };
    operation.outputs.iter().map(result).collect()
}

fn blend(sums: Vec<f64>, alpha: f64, prior: Option<&[f64]>, beta: f64) -> Vec<f64> {
    match prior {
        Some(prior) => sums.iter().zip(prior).map(|(sum, prior)| alpha * sum + beta * prior).collect(),
        None => sums.into_iter().map(|sum| alpha * sum).collect(),
    }
}
