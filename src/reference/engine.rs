//! The CPU engine: a graph's operations in topological order, on tensors in host memory.

use super::all_gather;
use super::convolution::{Geometry, convolve};
use super::element::{Element, Half};
use super::matmul::{load, matmul};
use super::movement;
use super::overrides::Overrides;
use super::pages;
use super::ragged;
use super::reduction::{Fold, reduce};
use super::resample;
use super::run::{Run, arithmetic};
use super::supported::check_supported;
use super::values::{Values, scales, storage_strides};
use super::{bernoulli, block_mask};
use crate::error::{Error, NotSupported, Result};
use crate::graph::{
    Attributes, Convolution, ConvolutionDirection, DataType, FinalizedGraph, Operation, OperationId, Port,
    ReductionMode, Resample, ResampleMode, TensorId,
};
use crate::host_tensor::{HostTensor, HostTensors, to_usize};

/// Operations evaluated together at most; each holds a row of values a chunk.
const LONGEST_RUN: usize = 32;

/// Executes a graph on the CPU and gives its results ([`FinalizedGraph::results`]: outputs, and flags that it sets), each in the
/// layout of its tensor with poisoned gaps.
///
/// Operands are converted to the operation's compute type, sums accumulate in it (FLOAT in `f32` without TF32, A-41;
/// HALF rounded to half after every step, A-40; INT32 wrapping, PW-R7), and every result, virtual ones included, is
/// rounded to its tensor's storage type (S*-VIRTUAL-OBEYED, O-14, A-29, A-48). The result does not depend on the
/// number of threads. Host scalars whose value the graph holds need not be given, and are not read if they are.
/// Concatenations and signals move values without rounding to a compute type; an input of a concatenation that lies in
/// the output already is a tensor like the others here, and is copied. Composite operations are computed by their
/// definition ([`FinalizedGraph::expand`]).
///
/// # Errors
/// [`Error::NotSupported`] for operations that are not computed here, for compute types without arithmetic, and for
/// resampling whose parameters have no meaning (NEAREST, padding modes that are not the mode's own, pooling windows that
/// are no whole numbers); [`Error::Input`] for tensors that are missing or do not fit, indices outside of their window,
/// and flags that do not have the value that is waited for; [`Error::Environment`] where there is not enough memory.
pub fn execute(graph: &FinalizedGraph, inputs: &HostTensors) -> Result<HostTensors> {
    let (whole, graph) = (graph, &*graph.expand());
    check_supported(graph)?;
    let mut values = Values::new(graph, inputs)?;
    let steps = Steps::of(graph);
    for (number, step) in steps.steps.iter().enumerate() {
        let results = match step {
            Step::Run(operations) => {
                Run::new(graph, operations, |id| steps.outlives(graph, id, number)).execute(&values)?
            }
            Step::Single(id) => execute_single(graph, *id, &values)?,
        };
        for (id, tensor) in results {
            values.insert(id, tensor);
        }
        for id in steps.read_last(graph, number) {
            values.remove(id);
        }
    }
    values.into_results().into_iter().map(|result| ragged::stored(whole, inputs, result)).collect()
}

enum Step {
    Run(Vec<OperationId>),
    Single(OperationId),
}

/// The order of execution, and when each tensor is read last.
struct Steps {
    steps: Vec<Step>,
    /// Last step that reads each tensor.
    last_read: Vec<usize>,
}

impl Steps {
    fn of(graph: &FinalizedGraph) -> Self {
        let mut steps: Vec<Step> = Vec::new();
        for id in graph.operation_ids() {
            let is_pointwise = matches!(graph.operation(id).attributes, Attributes::Pointwise(_));
            match steps.last_mut() {
                Some(Step::Run(run)) if is_pointwise && joins(graph, run, id) => run.push(id),
                _ if is_pointwise => steps.push(Step::Run(vec![id])),
                _ => steps.push(Step::Single(id)),
            }
        }
        let mut last_read = vec![0; graph.tensors().len()];
        for (number, step) in steps.iter().enumerate() {
            let inputs = step.operations().iter().flat_map(|&id| graph.operation(id).input_tensors());
            inputs.for_each(|tensor| last_read[tensor.index()] = number);
        }
        Self { steps, last_read }
    }

    /// Whether a result of a step is needed after it.
    fn outlives(&self, graph: &FinalizedGraph, id: TensorId, step: usize) -> bool {
        !graph.tensor(id).is_virtual || self.last_read[id.index()] > step
    }

    /// Virtual tensors that no later step reads.
    fn read_last(&self, graph: &FinalizedGraph, step: usize) -> Vec<TensorId> {
        let inputs = self.steps[step].operations().iter().flat_map(|&id| graph.operation(id).input_tensors());
        inputs.filter(|id| self.last_read[id.index()] == step && graph.tensor(*id).is_virtual).collect()
    }
}

impl Step {
    fn operations(&self) -> &[OperationId] {
        match self {
            Self::Run(operations) => operations,
            Self::Single(id) => std::slice::from_ref(id),
        }
    }
}

/// Whether an operation's result has the extents and layout of a run's results.
fn joins(graph: &FinalizedGraph, run: &[OperationId], id: OperationId) -> bool {
    let shape = |id: OperationId| {
        let result = graph.operation(id).result()?;
        Some((&graph.tensor(result).dim, storage_strides(graph, result)))
    };
    run.len() < LONGEST_RUN && run.first().is_some_and(|&first| shape(first) == shape(id))
}

fn execute_single(graph: &FinalizedGraph, id: OperationId, values: &Values) -> Result<Vec<(TensorId, HostTensor)>> {
    match &graph.operation(id).attributes {
        Attributes::Concat(concat) => return movement::concat(graph, id, concat, values),
        Attributes::Signal(signal) => return movement::signal(graph, id, signal, values),
        Attributes::View => return movement::view(graph, id, values),
        Attributes::Transpose => return movement::transpose(graph, id, values),
        Attributes::AllGather(gather) => return all_gather::gathered(graph, id, *gather, values),
        Attributes::Bernoulli(attributes) => return bernoulli::drawn(graph, id, *attributes, values),
        Attributes::PageGather => return pages::gathered(graph, id, values),
        Attributes::BlockBits => return block_mask::bits(graph, id, values),
        _ => {}
    }
    match arithmetic(graph.compute_type(id)) {
        DataType::Half => compute::<Half>(graph, id, values),
        DataType::Int32 => compute::<i32>(graph, id, values),
        DataType::Double => compute::<f64>(graph, id, values),
        _ => compute::<f32>(graph, id, values),
    }
}

fn compute<T: Element>(
    graph: &FinalizedGraph,
    id: OperationId,
    values: &Values,
) -> Result<Vec<(TensorId, HostTensor)>> {
    let operation = graph.operation(id);
    let result = |&(port, output): &(Port, TensorId)| {
        let storage = values.poisoned(output)?;
        let dim = &graph.tensor(output).dim;
        let tensor = match &operation.attributes {
            Attributes::ResampleForward(resample) if port == Port::INDEX => {
                storage.with_dense(&resample::indices::<T>(resample, operand(graph, id, Port::X, values)?, dim)?)?
            }
            Attributes::ResampleForward(resample) => {
                let y = resample::forward::<T>(resample, operand(graph, id, Port::X, values)?, dim)?;
                stored(blend(operation, y, output, values)?, storage)?
            }
            Attributes::ResampleBackward(resample) => {
                let dx = resample_gradient::<T>(graph, id, resample, values)?;
                stored(blend(operation, dx, output, values)?, storage)?
            }
            _ => stored(accumulated::<T>(graph, id, (port, output), values)?, storage)?,
        };
        Ok((output, tensor))
    };
    operation.outputs.iter().map(result).collect()
}

/// The tensor at an input port that the operation's definition requires.
fn operand<'v>(graph: &FinalizedGraph, id: OperationId, port: Port, values: &'v Values) -> Result<&'v HostTensor> {
    let missing =
        || NotSupported::CpuEngine(format!("operation {}: port {port} is empty", graph.describe_operation(id)));
    values.get(graph.operation(id).input(port).ok_or_else(missing)?)
}

/// One result of an operation that adds up many terms.
fn accumulated<T: Element>(
    graph: &FinalizedGraph,
    id: OperationId,
    (port, output): (Port, TensorId),
    values: &Values,
) -> Result<Vec<T>> {
    let operation = graph.operation(id);
    let inputs: Vec<&HostTensor> = operation.input_tensors().map(|id| values.get(id)).collect::<Result<_>>()?;
    let dim = &graph.tensor(output).dim;
    match (&operation.attributes, &inputs[..]) {
        (Attributes::Matmul(_), [a, b, ..]) => {
            let extents = |port| operand(graph, id, port, values)?.to_dense::<f64>();
            matmul::<T>([*a, *b], &to_usize(dim), Overrides::of(operation, extents)?.as_ref())
        }
        (Attributes::Convolution(convolution), [first, second]) => {
            let result = convolution_result::<T>(convolution, [first, second], dim)?;
            blend(operation, result, output, values)
        }
        (Attributes::Reduction(reduction), [x]) => reduce::<T>(x, &to_usize(dim), Fold::Mode(reduction.mode)),
        (Attributes::GenStats, [x]) => {
            let fold = if port == Port::SUM { Fold::Mode(ReductionMode::Add) } else { Fold::SumOfSquares };
            reduce::<T>(x, &to_usize(dim), fold)
        }
        _ => Err(NotSupported::CpuEngine(format!("operation {}", graph.describe_operation(id))).into()),
    }
}

/// DX of a pooling, before α and β.
fn resample_gradient<T: Element>(
    graph: &FinalizedGraph,
    id: OperationId,
    resample: &Resample,
    values: &Values,
) -> Result<Vec<T>> {
    let operation = graph.operation(id);
    let dim = operation.result().map_or(&[][..], |result| &graph.tensor(result).dim);
    let dy = operand(graph, id, Port::DY, values)?;
    if resample.mode != ResampleMode::Maxpool {
        return resample::spread::<T>(resample, dy, dim);
    }
    let indices = match operation.input(Port::INDEX) {
        None => resample::indices::<T>(resample, operand(graph, id, Port::X, values)?, &dy.dim)?,
        Some(index) => {
            let indices = values.get(index)?.to_dense::<i64>()?;
            let fault = |message| Error::input(format!("tensor {}", graph.describe_tensor(index)), message);
            resample::check_indices(resample, &indices).map_err(fault)?;
            indices
        }
    };
    resample::route::<T>(resample, dy, &indices, dim)
}

fn convolution_result<T: Element>(
    convolution: &Convolution,
    inputs: [&HostTensor; 2],
    result: &[i64],
) -> Result<Vec<T>> {
    let [first, second] = inputs.map(|tensor| &tensor.dim[..]);
    let (x, w, y) = match convolution.direction {
        ConvolutionDirection::Forward => (first, second, result),
        ConvolutionDirection::BackwardData => (result, second, first),
        ConvolutionDirection::BackwardFilter => (second, result, first),
    };
    let geometry = Geometry::new(convolution, x, w, y)
        .ok_or_else(|| NotSupported::CpuEngine(format!("convolution of {x:?} with {w:?} to {y:?}")))?;
    convolve(convolution.direction, &geometry, inputs)
}

/// α·result + β·prior content (operations.md 3.2, section 7).
fn blend<T: Element>(operation: &Operation, result: Vec<T>, id: TensorId, values: &Values) -> Result<Vec<T>> {
    let (alpha, beta) = scales(operation);
    if beta != 0.0 {
        let prior = load::<T>(values.get(id)?)?;
        return Ok(result.iter().zip(prior).map(|(value, prior)| value.blend(alpha, prior, beta)).collect());
    }
    if alpha != 1.0 {
        return Ok(result.iter().map(|value| value.blend(alpha, T::default(), 0.0)).collect());
    }
    Ok(result)
}

/// Dense values rounded into storage.
fn stored<T: Element>(dense: Vec<T>, storage: HostTensor) -> Result<HostTensor> {
    let lanes: Vec<T::Lane> = dense.into_iter().map(T::to_lane).collect();
    storage.with_dense(&lanes)
}
