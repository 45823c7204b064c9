//! Which operations the references compute.

use super::overrides;
use super::resample::{Pooling, whole};
use super::run::arithmetic;
use super::values::scales;
use crate::error::{NotSupported, Result};
use crate::graph::{
    Attributes, Convolution, DataType, FinalTensor, FinalizedGraph, Fraction, Operation, OperationId, PaddingMode,
    Port, Resample, ResampleMode, Signal,
};
use crate::host_tensor::HOST_TYPES;
use crate::support::is_disjoint;

/// Largest padding, stride, dilation and window: sums of a few of them do not overflow.
const LARGEST_PARAMETER: i64 = 1 << 31;

/// Whether the CPU engine computes a graph, asked without inputs.
///
/// # Errors
/// [`NotSupported::CpuEngine`] as of [`super::execute`], for the first operation or type that is not computed here.
pub fn supports(graph: &FinalizedGraph) -> Result<()> {
    check_supported(&graph.expand())
}

/// Fails for the first operation that no reference computes; composite operations are taken apart before.
///
/// # Errors
/// [`Error::NotSupported`], naming the operation and the tensor or type.
pub(super) fn check_supported(graph: &FinalizedGraph) -> Result<()> {
    for id in graph.operation_ids() {
        let operation = graph.operation(id);
        let refuse = |reason: String| {
            let operation = graph.describe_operation(id);
            Err(NotSupported::CpuEngine(format!("operation {operation}: the CPU engine {reason}")).into())
        };
        if let Err(reason) = check_operation(graph, id) {
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
    check_outputs(graph)
}

/// That elements of outputs have addresses of their own, as engines ask of them, but where offsets say how they lie: which of several remained would depend on
/// their order.
fn check_outputs(graph: &FinalizedGraph) -> Result<()> {
    let is_shared = |tensor: &FinalTensor| tensor.ragged_offset.is_none() && !is_disjoint(tensor);
    let shared = graph.outputs().find(|&id| is_shared(graph.tensor(id)));
    shared.map_or(Ok(()), |id| {
        let (name, FinalTensor { dim, stride, .. }) = (graph.describe_tensor(id), graph.tensor(id));
        let found = format!("strides {stride:?} of dims {dim:?}");
        let reason = format!("tensor {name}: elements share addresses; found: {found}; required: an address for each");
        Err(NotSupported::CpuEngine(reason).into())
    })
}

fn check_operation(graph: &FinalizedGraph, id: OperationId) -> std::result::Result<(), String> {
    use DataType as D;
    let operation = graph.operation(id);
    let types: &[DataType] = match &operation.attributes {
        Attributes::Matmul(_) => overrides::check(graph, id).map(|()| ACCUMULATING)?,
        Attributes::Convolution(convolution) => check_convolution(convolution).map(|()| ACCUMULATING)?,
        Attributes::Reduction(_) | Attributes::GenStats => ACCUMULATING,
        Attributes::ResampleForward(resample) | Attributes::ResampleBackward(resample) => {
            check_resample(operation, resample)?;
            &[D::Float, D::Half, D::Double]
        }
        Attributes::Pointwise(_) => &HOST_TYPES,
        Attributes::Concat(_) | Attributes::View | Attributes::Transpose => return Ok(()),
        Attributes::AllGather(_) | Attributes::Bernoulli(_) => return Ok(()),
        Attributes::PageGather | Attributes::BlockBits => return Ok(()),
        Attributes::Signal(signal) => return check_signal(graph, operation, signal),
        Attributes::Composite(_) | Attributes::Other(_) => return Err("does not execute this operation".into()),
    };
    let blends_virtual = operation.result().is_some_and(|result| graph.tensor(result).is_virtual);
    if blends_virtual && scales(operation).1 != 0.0 {
        return Err("takes beta only where the result is in memory: a virtual tensor has no prior content".into());
    }
    let compute = arithmetic(graph.compute_type(id));
    if types.contains(&compute) { Ok(()) } else { Err(format!("has no arithmetic in {compute} for it")) }
}

/// Compute types of sums.
const ACCUMULATING: &[DataType] = &[DataType::Float, DataType::Half, DataType::Int32, DataType::Double];

fn check_convolution(convolution: &Convolution) -> std::result::Result<(), String> {
    let c = convolution;
    if c.stride.len() > 3 {
        return Err(format!("takes at most 3 spatial axes, found {}", c.stride.len()));
    }
    let largest = [&c.pre_padding, &c.post_padding, &c.stride, &c.dilation].into_iter().flatten().max();
    if largest.is_some_and(|&largest| largest > LARGEST_PARAMETER) {
        return Err(format!("takes paddings, strides and dilations up to {LARGEST_PARAMETER}"));
    }
    Ok(())
}

/// Whether the parameters have a meaning, and are small enough to calculate with.
pub(super) fn check_resample(operation: &Operation, resample: &Resample) -> std::result::Result<(), String> {
    let (r, mode) = (resample, resample.mode.name());
    if r.window.len() > 3 {
        return Err(format!("takes at most 3 spatial axes, found {}", r.window.len()));
    }
    let is_large = |f: &Fraction| f.numerator.unsigned_abs().max(f.denominator as u64) > LARGEST_PARAMETER as u64;
    if [&r.window, &r.stride, &r.pre_padding, &r.post_padding].into_iter().flatten().any(is_large) {
        return Err(format!("takes windows, strides and paddings up to {LARGEST_PARAMETER}"));
    }
    let padding = match r.mode {
        ResampleMode::Nearest => return Err("does not resample in mode NEAREST (OP-RF-NO-NEAREST)".into()),
        ResampleMode::Bilinear => PaddingMode::EdgeValPad,
        ResampleMode::Maxpool => PaddingMode::NegInfPad,
        ResampleMode::AvgpoolExcludePadding | ResampleMode::AvgpoolIncludePadding => PaddingMode::ZeroPad,
    };
    if r.padding_mode != padding {
        return Err(format!("takes {mode} with padding mode {padding}, found {}", r.padding_mode));
    }
    match r.mode {
        ResampleMode::Bilinear => check_bilinear(operation, r),
        _ => check_pooling(operation, r),
    }
}

fn check_bilinear(operation: &Operation, resample: &Resample) -> std::result::Result<(), String> {
    if matches!(operation.attributes, Attributes::ResampleBackward(_)) {
        return Err("does not resample backward in mode BILINEAR (OP-RB-NO-UP)".into());
    }
    if resample.window.iter().any(|&window| whole(window) != Some(2)) {
        return Err("takes BILINEAR with window 2 (OP-RF-BIL-WIN)".into());
    }
    check_index(operation, resample)
}

fn check_pooling(operation: &Operation, resample: &Resample) -> std::result::Result<(), String> {
    let mode = resample.mode.name();
    let volume = Pooling::volume_of(resample)
        .ok_or_else(|| format!("takes {mode} with whole windows, strides and paddings (OP-RF-FREE)"))?;
    if volume > i128::from(LARGEST_PARAMETER) {
        return Err(format!("takes windows of up to {LARGEST_PARAMETER} positions, found {volume}"));
    }
    let is_backward = matches!(operation.attributes, Attributes::ResampleBackward(_));
    let knows_maxima = operation.input(Port::INDEX).or(operation.input(Port::X)).is_some();
    if is_backward && resample.mode == ResampleMode::Maxpool && !knows_maxima {
        return Err("needs the index or X to know where the maxima are".into());
    }
    check_index(operation, resample)
}

/// OP-IDX-MODE.
fn check_index(operation: &Operation, resample: &Resample) -> std::result::Result<(), String> {
    let has_index = operation.input(Port::INDEX).or(operation.output(Port::INDEX)).is_some();
    match resample.mode {
        ResampleMode::Maxpool => Ok(()),
        mode if has_index => Err(format!("takes no index in mode {mode} (OP-IDX-MODE)")),
        _ => Ok(()),
    }
}

/// The flag is an integer in memory that can have the value.
fn check_signal(graph: &FinalizedGraph, operation: &Operation, signal: &Signal) -> std::result::Result<(), String> {
    let Some(id) = operation.input(Port::FLAG) else { return Err("needs a flag".into()) };
    let flag = graph.tensor(id);
    let holds_value = match flag.data_type {
        DataType::Int8 => i8::try_from(signal.value).is_ok(),
        DataType::UInt8 => u8::try_from(signal.value).is_ok(),
        DataType::Int32 => i32::try_from(signal.value).is_ok(),
        data_type => data_type == DataType::Int64,
    };
    if !holds_value {
        let (name, data_type) = (graph.describe_tensor(id), flag.data_type);
        return Err(format!("cannot have {} in the flag {name} of type {data_type}", signal.value));
    }
    if operation.set_flag().is_some() && (flag.is_pass_by_value || graph.producer(id).is_some()) {
        let name = graph.describe_tensor(id);
        return Err(format!("sets flags that are inputs in device memory; {name} is a host scalar or a result"));
    }
    Ok(())
}
