//! The CPU engine: a graph's operations in topological order, on tensors in host memory.

use super::convolution::{Geometry, convolve};
use super::element::{Element, Half};
use super::matmul::{load, matmul};
use super::reduction::{Fold, reduce};
use super::run::{Run, arithmetic};
use super::values::{Values, storage_strides};
use crate::error::{Error, Result};
use crate::graph::{
    Attributes, Convolution, ConvolutionDirection, DataType, FinalizedGraph, Operation, OperationId, Port,
    ReductionMode, TensorId,
};
use crate::host_tensor::{HOST_TYPES, HostTensor, HostTensors, to_usize};

/// Operations evaluated together at most; each holds a row of values a chunk.
const LONGEST_RUN: usize = 32;

/// Largest padding, stride or dilation: sums of a few of them do not overflow.
const LARGEST_PARAMETER: i64 = 1 << 31;

/// Executes a graph on the CPU and gives its outputs, each in the layout of its tensor with poisoned gaps.
///
/// Operands are converted to the operation's compute type, sums accumulate in it (FLOAT in `f32` without TF32, A-41;
/// HALF rounded to half after every step, A-40; INT32 wrapping, PW-R7), and every result, virtual ones included, is
/// rounded to its tensor's storage type (S*-VIRTUAL-OBEYED, O-14, A-29, A-48). The result does not depend on the
/// number of threads. Host scalars whose value the graph holds need not be given, and are not read if they are.
///
/// # Errors
/// [`Error::NotSupported`] for operations other than matmul, convolution, pointwise, reduction and statistics, and for
/// compute types without arithmetic; [`Error::Input`] for tensors that are missing or do not fit;
/// [`Error::Environment`] where there is not enough memory.
pub fn execute(graph: &FinalizedGraph, inputs: &HostTensors) -> Result<HostTensors> {
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
    Ok(values.into_outputs())
}

/// Fails for the first operation that no reference computes.
///
/// # Errors
/// [`Error::NotSupported`], naming the operation and the tensor or type.
pub(super) fn check_supported(graph: &FinalizedGraph) -> Result<()> {
    for id in graph.operation_ids() {
        let operation = graph.operation(id);
        let refuse = |reason: String| {
            let operation = graph.describe_operation(id);
            Err(Error::NotSupported(format!("operation {operation}: the CPU engine {reason}")))
        };
        if let Err(reason) = check_operation(operation, graph.compute_type(id)) {
            return refuse(reason);
        }
        let tensors = operation.input_tensors().chain(operation.output_tensors());
        for tensor in tensors {
            let data_type = graph.tensor(tensor).data_type;
            if !HOST_TYPES.contains(&data_type) {
                return refuse(format!("has no {data_type}, the type of tensor {}", graph.describe_tensor(tensor)));
            }
        }
    }
    Ok(())
}

fn check_operation(operation: &Operation, compute: DataType) -> std::result::Result<(), String> {
    let accumulates = [DataType::Float, DataType::Half, DataType::Int32, DataType::Double];
    let is_pointwise = match &operation.attributes {
        Attributes::Matmul(_) if operation.inputs.len() > 2 => return Err("takes no override extents".into()),
        Attributes::Convolution(convolution) if convolution.stride.len() > 3 => {
            return Err(format!("takes at most 3 spatial axes, found {}", convolution.stride.len()));
        }
        Attributes::Convolution(convolution) if largest_parameter(convolution) > LARGEST_PARAMETER => {
            return Err(format!("takes paddings, strides and dilations up to {LARGEST_PARAMETER}"));
        }
        Attributes::Matmul(_) | Attributes::Convolution(_) | Attributes::Reduction(_) | Attributes::GenStats => false,
        Attributes::Pointwise(_) => true,
        _ => return Err("does not execute this operation".into()),
    };
    let compute = arithmetic(compute);
    if if is_pointwise { HOST_TYPES.contains(&compute) } else { accumulates.contains(&compute) } {
        Ok(())
    } else {
        Err(format!("has no arithmetic in {compute} for it"))
    }
}

fn largest_parameter(c: &Convolution) -> i64 {
    let all = [&c.pre_padding, &c.post_padding, &c.stride, &c.dilation];
    all.into_iter().flatten().copied().max().unwrap_or(0)
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
    let inputs: Vec<&HostTensor> = operation.input_tensors().map(|id| values.get(id)).collect::<Result<_>>()?;
    let mut results = Vec::new();
    for (port, output) in &operation.outputs {
        let dim = &graph.tensor(*output).dim;
        let dense = match (&operation.attributes, &inputs[..]) {
            (Attributes::Matmul(_), [a, b]) => matmul::<T>(a, b, &to_usize(dim))?,
            (Attributes::Convolution(convolution), [first, second]) => {
                let result = convolution_result::<T>(convolution, [first, second], dim)?;
                blend(convolution, result, *output, values)?
            }
            (Attributes::Reduction(reduction), [x]) => reduce::<T>(x, &to_usize(dim), Fold::Mode(reduction.mode))?,
            (Attributes::GenStats, [x]) => {
                let fold = if *port == Port::SUM { Fold::Mode(ReductionMode::Add) } else { Fold::SumOfSquares };
                reduce::<T>(x, &to_usize(dim), fold)?
            }
            _ => return Err(Error::NotSupported(format!("operation {}", graph.describe_operation(id)))),
        };
        results.push((*output, stored(dense, values.poisoned(*output)?)?));
    }
    Ok(results)
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
        .ok_or_else(|| Error::NotSupported(format!("convolution of {x:?} with {w:?} to {y:?}")))?;
    convolve(convolution.direction, &geometry, inputs)
}

/// α·result + β·prior content (operations.md 3.2).
fn blend<T: Element>(convolution: &Convolution, result: Vec<T>, id: TensorId, values: &Values) -> Result<Vec<T>> {
    let (alpha, beta) = (convolution.alpha, convolution.beta);
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
