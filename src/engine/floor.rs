//! The floor of a graph: the least work any implementation does, and the time a device needs for it.

use std::fmt;

use crate::device::Device;
use crate::graph::{
    Attributes, ConvolutionDirection, DataType, FinalTensor, FinalizedGraph, Operation, Port, TensorId,
};

/// Least work of a graph: each input read once, each output written once, the core's multiply-adds. Counts that exceed 64
/// bits are the greatest of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Floor {
    /// Bytes moved through device memory.
    pub bytes: u64,
    /// Floating-point (or integer) operations of matmuls and convolutions; a multiply-add counts two.
    pub flops: u64,
}

impl Floor {
    /// The floor of a graph.
    pub fn of(graph: &FinalizedGraph) -> Self {
        let bytes = bytes_of(graph);
        let graph = &*graph.expand();
        let flops = graph.operations().map(|operation| operation_flops(graph, operation)).fold(0, u64::saturating_add);
        Self { bytes, flops }
    }

    /// The memory time of a graph, in seconds, as [`Self::seconds`] gives it; its arithmetic is not looked at.
    pub fn memory_seconds(graph: &FinalizedGraph, device: &Device) -> f64 {
        seconds_to_move(bytes_of(graph), device)
    }

    /// The larger of memory time and arithmetic time, in seconds; launch overhead comes on top.
    pub fn seconds(&self, device: &Device, core_type: Option<DataType>) -> f64 {
        let memory = seconds_to_move(self.bytes, device);
        let arithmetic = core_type.map_or(0.0, |data_type| self.flops as f64 / device.flops_per_second(data_type));
        memory.max(arithmetic)
    }
}

/// Seconds that so many bytes take to or from memory.
fn seconds_to_move(bytes: u64, device: &Device) -> f64 {
    bytes as f64 / device.bytes_per_second
}

impl fmt::Display for Floor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes, {} FLOP", self.bytes, self.flops)
    }
}

/// Type of the core's first operand: it decides the arithmetic rate. `None` where the graph has no core.
pub fn core_type(graph: &FinalizedGraph) -> Option<DataType> {
    let core = graph.operations().find(|operation| operation.is_core())?;
    core.input_tensors().next().map(|id| graph.tensor(id).data_type)
}

/// Bytes of all inputs and outputs that are moved.
fn bytes_of(graph: &FinalizedGraph) -> u64 {
    let moved = graph.inputs().chain(graph.outputs()).filter(|&id| !graph.tensor(id).is_pass_by_value);
    moved.map(|id| moved_bytes(graph, id)).fold(0, u64::saturating_add)
}

/// Bytes of a tensor that are moved: of pages at most what is loaded out of them.
fn moved_bytes(graph: &FinalizedGraph, id: TensorId) -> u64 {
    let mut loads = graph.consumers(id).iter().map(|&id| graph.operation(id)).map(|operation| {
        let is_container = operation.input(Port::CONTAINER) == Some(id);
        operation.output(Port::Y_OUT).filter(|_| is_container).map(|y| tensor_bytes(graph.tensor(y)))
    });
    let loaded = loads.try_fold(0_u64, |sum, bytes| Some(sum.saturating_add(bytes?)));
    let all = tensor_bytes(graph.tensor(id));
    loaded.filter(|_| !graph.consumers(id).is_empty()).map_or(all, |loaded| loaded.min(all))
}

fn tensor_bytes(tensor: &FinalTensor) -> u64 {
    let elements: i64 = tensor.dim.iter().product();
    (elements as u64 * tensor.data_type.bits()).div_ceil(8)
}

fn operation_flops(graph: &FinalizedGraph, operation: &Operation) -> u64 {
    let elements = |id: Option<TensorId>| id.map_or(0, |id| graph.tensor(id).dim.iter().product::<i64>() as u64);
    match &operation.attributes {
        Attributes::Matmul(_) => {
            let k = operation.input(Port::A).and_then(|a| graph.tensor(a).dim.last().copied()).unwrap_or(0);
            elements(operation.output(Port::C)).saturating_mul(k as u64).saturating_mul(2)
        }
        Attributes::Convolution(convolution) => {
            let (filter, image) = match convolution.direction {
                ConvolutionDirection::Forward => (operation.input(Port::W), operation.output(Port::Y)),
                ConvolutionDirection::BackwardData => (operation.input(Port::W), operation.input(Port::DY)),
                ConvolutionDirection::BackwardFilter => (operation.output(Port::DW), operation.input(Port::DY)),
            };
            let output_channels = filter.map_or(1, |id| graph.tensor(id).dim[0].max(1) as u64);
            elements(image).saturating_mul(elements(filter) / output_channels).saturating_mul(2)
        }
        Attributes::Pointwise(_) | Attributes::Reduction(_) | Attributes::GenStats => 0,
        Attributes::ResampleForward(_) | Attributes::ResampleBackward(_) => 0,
        Attributes::Concat(_)
        | Attributes::Signal(_)
        | Attributes::View
        | Attributes::Transpose
        | Attributes::AllGather(_)
        | Attributes::Bernoulli(_)
        | Attributes::PageGather
        | Attributes::BlockBits => 0,
        Attributes::Composite(_) | Attributes::Other(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::ComputeCapability;
    use crate::graph::{Convolution, Graph, Scalar, Tensor};

    fn half() -> Graph {
        Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float)
    }

    #[test]
    fn a_matmul_reads_and_writes_each_tensor_once() {
        let mut graph = half();
        let a = graph.tensor(Tensor::new("A").row_major([2, 3, 5]));
        let b = graph.tensor(Tensor::new("B").row_major([2, 5, 7]));
        let c = graph.matmul("mm", a, b);
        let scale = graph.tensor(Tensor::scalar("s", DataType::Float, Scalar::Float(2.0)));
        let y = graph.pointwise("scaled", crate::graph::PointwiseMode::Mul, &[c, scale]);
        graph.tensor_mut(c).data_type = Some(DataType::Float);
        graph.set_output(y);
        let graph = graph.finalize().expect("well formed");
        assert_eq!(Floor::of(&graph), Floor { bytes: 2 * (30 + 70 + 42), flops: 2 * 2 * 3 * 5 * 7 });
        let device = Device::typical(ComputeCapability::SM_90);
        assert_eq!(Floor::memory_seconds(&graph, &device), Floor::of(&graph).seconds(&device, None));
        assert_eq!(core_type(&graph), Some(DataType::Half));
    }

    #[test]
    fn counts_beyond_64_bits_are_the_greatest() {
        let mut graph = half();
        let a = graph.tensor(Tensor::new("A").row_major([1, 1 << 31, 1 << 26]));
        let b = graph.tensor(Tensor::new("B").row_major([1, 1 << 26, 1 << 26]));
        let c = graph.matmul("mm", a, b);
        graph.set_output(c);
        let floor = Floor::of(&graph.finalize().expect("well formed"));
        assert_eq!(floor, Floor { bytes: 2 * ((1 << 57) + (1 << 52) + (1 << 57)), flops: u64::MAX });
    }

    #[test]
    fn the_three_convolutions_of_a_layer_cost_the_same() {
        let (x, w, y) = ([4, 64, 16, 16], [32, 64, 3, 3], [4, 32, 16, 16]);
        for (direction, one, other, result) in [
            (ConvolutionDirection::Forward, x, w, y),
            (ConvolutionDirection::BackwardData, y, w, x),
            (ConvolutionDirection::BackwardFilter, y, x, w),
        ] {
            let mut graph = half();
            let inputs = [one, other].map(|dim| graph.tensor(Tensor::new("t").channels_last(dim)));
            let attributes = Convolution::new(direction, 2).padding([1, 1]);
            let id = graph.convolution("conv", attributes, inputs);
            graph.set_output(id).dim = result.to_vec();
            let floor = Floor::of(&graph.finalize().expect("well formed"));
            let elements = [x, w, y].map(|dim| dim.iter().product::<i64>() as u64);
            assert_eq!(floor.flops, 2 * (4 * 32 * 16 * 16) * (64 * 3 * 3), "{direction:?}");
            assert_eq!(floor.bytes, 2 * elements.iter().sum::<u64>(), "{direction:?}");
        }
    }
}
