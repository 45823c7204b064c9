//! Convolutions of operands with infinities and NaN, some of them beside padding: kernels against the CPU engine, to the bit.
//! Inputs are small integers otherwise, so that a sum is the same in any order.

use fusewright::build::Build;
use fusewright::device::Device;
use fusewright::graph::{DataType, FinalizedGraph, Scalar, TensorId};
use fusewright::host_tensor::{HostTensor, HostTensors};
use fusewright::reference::{Distribution, compare_exact, execute, random_inputs};
use libtest_mimic::{Failed, Trial};

use crate::{cases, pipeline};

/// Parts of the names of convolutions whose epilogue rounds beyond comparison, or whose operands are integers.
const OTHERS: &[&str] = &["int8", "swish", "exp"];

/// Those that run with every config: strips of many rows, walked in turns and in a straight line; products of all directions.
const EVERY_CONFIG: &[&str] = &[
    "conv_depthwise_fprop_ragged_strips",
    "conv_depthwise_dgrad_rows_at_stride_3",
    "conv_depthwise_wgrad_ragged_strips",
    "conv_depthwise_wgrad_rows_at_stride_3",
    "conv_depthwise_wgrad_3d",
    "conv_walk_fprop_3x3",
    "conv_walk_dgrad_phases_bias_add_relu",
    "conv_walk_wgrad_scale_bias_relu",
];

/// Those that run on chips without Hopper's instructions, too.
const ON_OTHER_CHIPS: &[&str] = &[
    "conv_walk_fprop_3x3",
    "conv_walk_dgrad_3x3",
    "conv_walk_wgrad_3x3",
    "conv_walk_fprop_scale_bias_relu",
    "conv_walk_wgrad_scale_bias_relu",
    "conv_walk_dgrad_stride_2",
    "conv_walk_fprop_float",
    "conv_copied_fprop_odd_inputs",
    "conv_copied_wgrad_channels_first",
];

/// Which operands have special values.
const OPERANDS: [&[usize]; 3] = [&[0], &[1], &[0, 1]];

/// Runs a kernel for inputs.
pub(crate) type Run = fn(&Build, &HostTensors) -> Result<HostTensors, Failed>;

/// A trial of each case.
pub(crate) fn trials(tier: &str, device: fn() -> Result<Device, Failed>, run: Run) -> Vec<Trial> {
    let is_chosen = |name: &str| name.starts_with("conv_") && !OTHERS.iter().any(|other| name.contains(other));
    trials_of(tier, is_chosen, device, run)
}

/// A trial of each case that other chips run.
pub(crate) fn trials_on_other_chips(tier: &str, device: fn() -> Result<Device, Failed>, run: Run) -> Vec<Trial> {
    trials_of(tier, |name| ON_OTHER_CHIPS.contains(&name), device, run)
}

fn trials_of(
    tier: &str,
    is_chosen: impl Fn(&str) -> bool,
    device: fn() -> Result<Device, Failed>,
    run: Run,
) -> Vec<Trial> {
    let chosen = cases::all().into_iter().filter(|case| is_chosen(&case.name));
    let trial = |case: cases::Case| {
        Trial::test(format!("{tier}::infinities::{}", case.name), move || {
            let lowered = match EVERY_CONFIG.contains(&case.name.as_str()) {
                true => pipeline::lower_every_config(&case.graph, &device()?)?,
                false => vec![pipeline::lower(&case.graph, &device()?)?],
            };
            lowered.iter().try_for_each(|lowered| agrees(lowered, run))
        })
    };
    chosen.map(trial).collect()
}

/// Whether a kernel gives what the CPU engine does.
pub(crate) fn agrees(lowered: &Build, run: Run) -> Result<(), Failed> {
    for operands in OPERANDS {
        let inputs = inputs(&lowered.graph, operands)?;
        let expected = execute(&lowered.graph, &inputs)?;
        let comparison = compare_exact(&lowered.graph, &expected, &run(lowered, &inputs)?)?;
        if !comparison.is_match() {
            return Err(format!("in operands {operands:?}, {}\n{comparison}", lowered.config).into());
        }
    }
    Ok(())
}

/// Small integers, and what is not finite in some of the core's operands.
fn inputs(graph: &FinalizedGraph, operands: &[usize]) -> Result<HostTensors, Failed> {
    let core = graph.operations().find(|operation| operation.is_core()).ok_or("no core")?;
    let ids: Vec<_> = core.input_tensors().map(|id| source(graph, id)).collect();
    let mut inputs = random_inputs(graph, 5, Distribution::SmallIntegers)?;
    for &operand in operands {
        inputs.get_mut(&ids[operand]).into_iter().for_each(add_special_values);
    }
    Ok(inputs)
}

/// The tensor that an operand is computed from: along first inputs of a stage.
fn source(graph: &FinalizedGraph, operand: TensorId) -> TensorId {
    let first = |id| graph.operation(graph.producer(id)?).input_tensors().next();
    std::iter::successors(Some(operand), |&id| first(id)).last().unwrap_or(operand)
}

/// A few elements that are not finite, at the ends and between; infinities more often than NaN. With seven and not thirteen of them none lay in
/// the channels that the boxes of a neighbouring group read.
fn add_special_values(tensor: &mut HostTensor) {
    let elements = tensor.elements();
    let spacing = elements / 13 + 1;
    for (number, position) in (0..elements).step_by(spacing).chain([elements - 1]).enumerate() {
        let value = [f64::INFINITY, f64::NEG_INFINITY, f64::INFINITY, f64::NAN][number % 4];
        // a conversion to FP8 saturates
        match tensor.data_type {
            DataType::Fp8E5M2 => tensor.bytes[position] = [0x7c, 0xfc, 0x7c, 0x7e][number % 4],
            DataType::Fp8E4M3 => tensor.bytes[position] = 0x7f,
            _ => drop(tensor.set(position, Scalar::Float(value))),
        }
    }
}
