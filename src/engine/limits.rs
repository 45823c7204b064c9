//! Whether the launches of a graph stay within limits.

use super::Offer;
use crate::device::Device;
use crate::error::Reason;
use crate::graph::FinalTensor;
use crate::support::Supported;

/// Elements, and elements spanned, of every tensor up to which all launches are within limits, whatever the engine: none has
/// more blocks, or counts to more, than some tensor has elements, rounded up to a tile.
const SMALL: i64 = 1 << 30;

/// Whether every config of an offer gives launches within limits, which the kernels themselves are asked. What is asked for does
/// not depend on the device: k is split, and launches shaped by its multiprocessors, only where there are few blocks.
///
/// # Errors
/// What is beyond which limit, as a sentence.
pub(super) fn launches_fit(offer: &dyn Offer, supported: &Supported) -> Result<(), Reason> {
    if supported.graph().tensors().all(is_small) {
        return Ok(());
    }
    let device = Device::typical(supported.capability());
    let mut ranking = offer.candidates(&device).into_iter();
    ranking.try_for_each(|ranked| offer.lower(&ranked.config, &device).fits()).map_err(Reason::Limit)
}

fn is_small(tensor: &FinalTensor) -> bool {
    let last: i64 = tensor.dim.iter().zip(&tensor.stride).map(|(extent, stride)| (extent - 1) * stride).sum();
    tensor.dim.iter().product::<i64>() <= SMALL && last < SMALL
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::device::ComputeCapability;
    use crate::engine::{Decision, decide};
    use crate::graph::{
        Convolution, ConvolutionDirection, DataType, FinalizedGraph, Graph, PointwiseMode, ReductionMode, Tensor,
        TensorHandle,
    };
    use crate::kernel::Body;
    use crate::support::SurfaceId;

    const SM_80: ComputeCapability = ComputeCapability::new(8, 0);
    const SM_90: ComputeCapability = ComputeCapability::SM_90;

    fn finalized(graph: &Graph) -> Arc<FinalizedGraph> {
        Arc::new(graph.finalize().expect("well formed"))
    }

    /// `A · B` of one type; rows of A and C, and lines of B along k or n, begin at multiples of 128 elements.
    fn matmul([batch, m, n, k]: [i64; 4], data_type: DataType) -> (Graph, [TensorHandle; 2]) {
        let compute = if data_type == DataType::Int8 { DataType::Int32 } else { DataType::Float };
        let mut graph = Graph::new().io_data_type(data_type).compute_data_type(compute);
        let line = |elements: i64| (elements + 127) / 128 * 128;
        let bytes = data_type != DataType::Half;
        let b_stride = if bytes { [n * line(k), 1, line(k)] } else { [k * line(n), line(n), 1] };
        let a = graph.tensor(Tensor::new("A").dim([batch, m, k]).stride([m * line(k), line(k), 1]));
        let b = graph.tensor(Tensor::new("B").dim([batch, k, n]).stride(b_stride));
        let c = graph.matmul("mm", a, b);
        let result = graph.set_output(c);
        (result.dim, result.stride) = (vec![batch, m, n], vec![m * line(n), line(n), 1]);
        if bytes {
            result.data_type = Some(compute);
        }
        (graph, [a, c])
    }

    fn decided(graph: &Graph, capability: ComputeCapability) -> Decision {
        decide(&finalized(graph), capability, &SurfaceId::ALL)
    }

    /// The engine of a graph, with what others say; each config of it gives a kernel within limits.
    fn engine(graph: &Graph, capability: ComputeCapability) -> (&'static str, String) {
        let decision = decided(graph, capability);
        let reasons = decision.passed_over.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        let Ok(selection) = decision.into_selection() else { return ("none", reasons) };
        let device = Device::typical(capability);
        for ranked in selection.candidates(&device) {
            assert_eq!(selection.lower(&ranked.config, &device).fits(), Ok(()), "{}", ranked.config);
        }
        (selection.engine().name(), reasons)
    }

    #[test]
    fn boxes_end_where_coordinates_do() {
        use DataType::{Fp8E4M3, Half, Int8};
        const END: i64 = 1 << 31;
        // A tile's rows, columns and depth: of 8 columns and of 8 rows, where the transposed product is as good.
        for (axis, tile, data_type) in
            [(1, 128, Half), (2, 256, Half), (3, 64, Half), (3, 128, Fp8E4M3), (3, 128, Int8)]
        {
            let of = |extent: i64| {
                let mut extents = [1, 8, 8, 8];
                if data_type != Half {
                    (extents[1], extents[2]) = (16, 16);
                }
                extents[axis] = extent;
                engine(&matmul(extents, data_type).0, SM_90)
            };
            assert_eq!(of(END - tile), ("warpgroup_mma", String::new()), "axis {axis} of {data_type}");
            for extent in [END - tile + 1, END - 1, END, END + 1, (1 << 32) + 1] {
                let (name, reasons) = of(extent);
                let said = format!("warpgroup_mma: {} padded to tiles of ", ["b", "m", "n", "k"][axis]);
                let said_of_transposed = "warpgroup_mma: m padded to tiles of ";
                assert_eq!(name, "warp_mma", "{extent} on axis {axis} of {data_type}: {reasons}");
                assert!(
                    reasons.starts_with(&said) || axis == 2 && reasons.starts_with(said_of_transposed),
                    "{reasons}"
                );
                assert!(
                    reasons.contains("coordinates of the tensor memory accelerator are at most 2147483647; direct: "),
                    "{reasons}"
                );
            }
        }
    }

    /// Bytes from one index to the next of every tensor map that some config of `warpgroup_mma` uses, where A's matrices lie so
    /// many elements apart.
    fn mapped_strides(apart: i64) -> Vec<u64> {
        let (mut graph, [a, _]) = matmul([2, 128, 256, 64], DataType::Half);
        graph.tensor_mut(a).stride[0] = apart;
        let selection = decided(&graph, SM_90).into_selection().expect("supported");
        assert_eq!(selection.engine().name(), "warpgroup_mma");
        let device = Device::typical(SM_90);
        let kernels = selection.candidates(&device).into_iter().map(|ranked| selection.lower(&ranked.config, &device));
        let functions = kernels.flat_map(|kernel| kernel.functions);
        let maps = functions.flat_map(|function| match function.body {
            Body::Gemm(gemm) => gemm.maps().collect::<Vec<_>>(),
            _ => Vec::new(),
        });
        maps.flat_map(|map| map.strides).collect()
    }

    #[test]
    fn strides_of_a_tensor_map_are_below_2_to_the_40_bytes() {
        assert_eq!(mapped_strides((1 << 39) - 8).into_iter().max(), Some((1 << 40) - 16));
        assert!(mapped_strides(1 << 39).into_iter().max().expect("B is mapped all the same") < 1 << 40);
    }

    #[test]
    fn tiles_are_counted_in_31_bits() {
        let batch = |batch| engine(&matmul([batch, 8, 8, 8], DataType::Half).0, SM_90).0;
        assert_eq!([batch((1 << 31) - 1), batch(1 << 31)], ["warpgroup_mma", "none"]);
        // Tiles of 16 by 64 at the smallest.
        let square = |capability, m: i64, n: i64| engine(&matmul([1, 1i64 << m, n, 8], DataType::Half).0, capability);
        assert_eq!(square(SM_80, 20, (1 << 21) - 64).0, "warp_mma");
        let (name, reasons) = square(SM_80, 20, 1 << 21);
        assert_eq!(name, "none");
        assert!(reasons.contains("warp_mma: C has 2147483648 tiles; at most 2147483647 are counted"), "{reasons}");
        assert!(reasons.contains("scalar: C has 2147483648 tiles"), "{reasons}");
        // What is stored may be small.
        let (mut graph, [_, c]) = matmul([1, 1 << 28, 1 << 28, 8], DataType::Half);
        let virtual_c = graph.tensor_mut(c);
        (virtual_c.is_virtual, virtual_c.data_type) = (true, Some(DataType::Float));
        let sum = graph.reduction("sum", ReductionMode::Add, c, [1, 1, 1]);
        graph.set_output(sum).data_type = Some(DataType::Float);
        let (name, reasons) = engine(&graph, SM_90);
        assert_eq!(name, "none");
        assert!(reasons.contains("warpgroup_mma: C has 1466016202752 tiles"), "{reasons}");
    }

    #[test]
    fn steps_along_k_are_counted_in_31_bits() {
        let of = |k: i64| engine(&matmul([1, 16, 16, k], DataType::Int8).0, SM_80);
        assert_eq!(of(1 << 36).0, "warp_mma");
        let (name, reasons) = of(1 << 37);
        assert_eq!(name, "scalar", "{reasons}");
        assert!(reasons.ends_with("warp_mma: k takes 2147483648 steps; at most 2147483643 are counted"), "{reasons}");
    }

    /// `y = relu(x)`, of one type.
    fn relu(elements: i64) -> Graph {
        let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
        let x = graph.tensor(Tensor::new("x").row_major([1, 1, elements]));
        let y = graph.pointwise("relu", PointwiseMode::ReluFwd, &[x]);
        graph.set_output(y);
        graph
    }

    #[test]
    fn grids_of_passes_have_fewer_than_2_to_the_31_blocks() {
        // Eight elements a thread, at least 128 threads a block.
        let most = ((1 << 31) - 1) * 8 * 128;
        assert_eq!(engine(&relu(most), SM_90).0, "scalar");
        let (name, reasons) = engine(&relu(most + 8), SM_90);
        assert_eq!(name, "none");
        assert!(reasons.ends_with("scalar: fw_pointwise would need more than 2147483647 blocks"), "{reasons}");
        let error = decided(&relu(1 << 44), SM_90).into_selection().expect_err("a grid of 2^33 blocks");
        let refused: Vec<_> = error.engines().iter().map(|refusal| &refusal.reason).collect();
        assert!(matches!(refused.last(), Some(Reason::Limit(_))), "{error:?}");
        // Of a reduction, along the kept axis.
        let reduced = |kept: i64| {
            let mut graph = Graph::new().io_data_type(DataType::Float).compute_data_type(DataType::Float);
            let x = graph.tensor(Tensor::new("x").channels_last([4, kept, 1, 1]));
            let y = graph.reduction("sum", ReductionMode::Add, x, [1, kept, 1, 1]);
            graph.set_output(y);
            engine(&graph, SM_90)
        };
        let (name, reasons) = reduced(1 << 40);
        assert_eq!(name, "scalar", "{reasons}");
        let (name, reasons) = reduced(1 << 43);
        assert_eq!(name, "none");
        assert!(reasons.ends_with("scalar: fw_reduction would need more than 2147483647 blocks"), "{reasons}");
    }

    /// Whether a convolution's coordinates need 64 bits, `None` where it is refused.
    fn is_wide(padding: i64, stride: i64) -> Option<bool> {
        let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
        let x = graph.tensor(Tensor::new("x").channels_last([1, 8, 8, 8]));
        let w = graph.tensor(Tensor::new("w").channels_last([8, 8, 1, 1]));
        let convolution = Convolution {
            pre_padding: vec![padding, 0],
            post_padding: vec![padding, 0],
            stride: vec![stride, 1],
            ..Convolution::new(ConvolutionDirection::Forward, 2)
        };
        let y = graph.convolution("conv", convolution, [x, w]);
        graph.set_output(y);
        let selection = decided(&graph, SM_90).into_selection().ok()?;
        let device = Device::typical(SM_90);
        let kernel = selection.lower(&selection.candidates(&device)[0].config, &device);
        let gemm = kernel.functions.iter().find_map(|function| match &function.body {
            Body::Gemm(gemm) => Some(gemm.wide_index),
            _ => None,
        });
        Some(gemm.expect("a product"))
    }

    #[test]
    fn coordinates_in_the_padding_decide_the_type_of_indices() {
        assert_eq!(is_wide(1 << 20, 1 << 20), Some(false));
        assert_eq!([is_wide(1 << 30, 1 << 20), is_wide(1 << 31, 1 << 31)], [Some(true); 2]);
        assert_eq!([is_wide((1 << 31) + 1, 1 << 31), is_wide(1 << 62, 1 << 62)], [None; 2]);
    }
}
