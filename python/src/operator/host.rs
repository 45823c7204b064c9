//! Executions on the CPU, for verification: operands are copied into host tensors and results out of them.

use fusewright::error::Error;
use fusewright::host_tensor::{HostTensor, HostTensors};

use super::execution::Operand;
use super::layout;
use super::shim::Shim;
use super::values::{Device, Form, Tensor};
use super::{Outcome, told};
use crate::graph::Graph;
use crate::plan::Executable;

/// Executes on tensors of the CPU that were checked against their operands.
pub(super) fn run<'a>(
    shim: &'static Shim,
    executable: &Executable,
    graph: &Graph,
    given: impl Iterator<Item = (&'a Operand, &'a Tensor)>,
    outputs: &[Operand],
) -> Outcome<Vec<Tensor>> {
    let mut inputs = HostTensors::new();
    for (operand, tensor) in given {
        inputs.insert(operand.id, read(operand, tensor)?);
    }
    let mut results = executable.run_on_host(&graph.graph, &inputs).map_err(told)?;
    let missing = || told(Error::Wrong("an execution gave no value of an output".to_owned()));
    let written = |operand: &Operand| write(shim, operand, &results.remove(&operand.id).ok_or_else(missing)?);
    outputs.iter().map(written).collect()
}

fn read(operand: &Operand, tensor: &Tensor) -> Outcome<HostTensor> {
    let Form { dim, stride, .. } = operand.form();
    let order = layout::row_major(dim);
    let copied = || tensor.copied(Form { stride: &order, ..operand.form() });
    let (address, packed) = match operand.address(tensor, &order)? {
        Some(address) => (address, None),
        None => copied().and_then(|copy| Ok((copy.address()?, Some(copy))))?,
    };
    let size: usize = dim.iter().map(|&extent| extent as usize).product::<usize>() * operand.data_type.bytes() as usize;
    // SAFETY: elements of this type and these extents without gaps, of a tensor that is there until they are read.
    let bytes = unsafe { std::slice::from_raw_parts(address.cast::<u8>(), size) };
    let read = HostTensor::from_row_major_bytes(operand.data_type, dim, stride, bytes).map_err(told);
    drop(packed);
    read
}

fn write(shim: &'static Shim, operand: &Operand, result: &HostTensor) -> Outcome<Tensor> {
    let bytes = result.to_row_major_bytes().map_err(told)?;
    let order = layout::row_major(&operand.dim);
    let packed = Tensor::empty(shim, Form { stride: &order, ..operand.form() }, Device { kind: shim.cpu, index: 0 })?;
    // SAFETY: a new packed tensor of this type and these extents, as many bytes as the result has.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), packed.address()?.cast::<u8>(), bytes.len()) };
    if operand.form().stride == order { Ok(packed) } else { packed.copied(operand.form()) }
}
