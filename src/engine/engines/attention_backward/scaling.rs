//! A backward pass in FP8: heads as FP16 in the workspace, and what scales what is computed of them.

use super::super::attention::boxes::has_vectors;
use super::super::attention::scaling::{is_kept, is_number};
use super::plan::Plan;
use crate::engine::builder::{KernelBuilder, Shape};
use crate::engine::lowering::program_parameters;
use crate::graph::backward_scaling::{DK, DQ, DV, FACTORS, GradientScaling, LARGEST};
use crate::graph::{DataType, FinalizedGraph, Operation, Port, TensorId};
use crate::kernel::{
    BackwardOutput, BackwardScaling, Body, GradientFactors, HalfRows, HalfRowsKernel, MapElement, MmaType, Parameter,
    Swizzle, TensorMap,
};

/// What heads are multiples of.
const HEAD_UNIT: i64 = 16;

/// Elements of a box's line.
const LINE: u32 = 64;

/// What scales the passes, and Δ.
#[derive(Clone, Debug)]
pub(in crate::engine::engines) struct Scaling {
    pub(in crate::engine::engines) passes: BackwardScaling,
    pub(in crate::engine::engines) deltas: Vec<TensorId>,
}

/// The scaling of a backward pass whose heads have a type.
///
/// # Errors
/// What of it no kernel computes, as a sentence.
pub(super) fn of(graph: &FinalizedGraph, operation: &Operation, operand: MmaType) -> Result<Option<Scaling>, String> {
    let numbers = FACTORS.into_iter().filter_map(|port| operation.input(port));
    let largest = LARGEST.into_iter().filter_map(|port| stored(graph, operation, port));
    if operand != MmaType::Fp8 {
        return match numbers.chain(largest).next() {
            Some(id) => Err(format!("tensor {}: heads in FP8 alone are scaled", graph.describe_tensor(id))),
            None => Ok(None),
        };
    }
    for id in numbers {
        is_number(graph, id)?;
    }
    for id in largest {
        is_kept(graph, id)?;
    }
    let inputs = |ports: &[Port]| ports.iter().filter_map(|&port| operation.input(port)).collect();
    let types = [Port::Q, Port::DO]
        .map(|port| operation.input(port).map_or(DataType::Fp8E4M3, |id| graph.tensor(id).data_type));
    let passes = BackwardScaling {
        scores: inputs(&[Port::DESCALE_Q, Port::DESCALE_K]),
        differences: inputs(&[Port::DESCALE_DO, Port::DESCALE_V]),
        operands: [Port::SCALE_S, Port::SCALE_DP].map(|port| operation.input(port)),
        types,
        largest: stored(graph, operation, Port::AMAX_DP),
    };
    Ok(Some(Scaling { passes, deltas: inputs(&[Port::DESCALE_DO, Port::DESCALE_O]) }))
}

fn stored(graph: &FinalizedGraph, operation: &Operation, port: Port) -> Option<TensorId> {
    operation.output(port).filter(|&id| !graph.tensor(id).is_virtual)
}

/// What a gradient's sums are multiplied by.
///
/// # Errors
/// A largest magnitude of what is not stored, as a sentence.
pub(super) fn factors(graph: &FinalizedGraph, operation: &Operation, port: Port) -> Result<GradientFactors, String> {
    let GradientScaling { descales, largest, scale, .. } = match port {
        Port::DQ => DQ,
        Port::DK => DK,
        _ => DV,
    };
    let largest = stored(graph, operation, largest);
    match largest.filter(|_| stored(graph, operation, port).is_none()) {
        Some(id) => {
            Err(format!("tensor {}: the largest magnitude of a gradient that is not stored", graph.describe_tensor(id)))
        }
        None => Ok(GradientFactors {
            factors: descales.map(|port| operation.input(port)),
            largest,
            last: operation.input(scale),
        }),
    }
}

impl Plan {
    /// Type of what is multiplied.
    pub(in crate::engine::engines) fn multiplied(&self) -> MmaType {
        if self.operand == MmaType::Fp8 { MmaType::F16 } else { self.operand }
    }

    /// Whether kernels take heads in FP8.
    ///
    /// # Errors
    /// Why not, as a sentence.
    pub(super) fn is_taken_in_fp8(&self) -> Result<(), String> {
        if let Some(size) = self.extents.head.into_iter().find(|&size| size % HEAD_UNIT != 0) {
            return Err(format!("heads of {size} elements; required a multiple of {HEAD_UNIT}"));
        }
        if self.dropout.is_some() {
            return Err("probabilities in FP8 are not dropped".to_owned());
        }
        if let Some(bias) = self.bias {
            let tensor = self.graph.describe_tensor(bias.tensor);
            return Err(format!("tensor {tensor}: no kernel for a bias of scores in FP8"));
        }
        if let Some(cap) = self.cap {
            let tensor = self.graph.describe_tensor(cap);
            return Err(format!("tensor {tensor}: no kernel for a soft cap of scores in FP8"));
        }
        if self.slopes.is_some() {
            return Err("scores in FP8 do not lean by slopes of heads".to_owned());
        }
        let largest = self.scaling.as_ref().and_then(|scaling| scaling.passes.largest);
        if let Some(id) = largest.filter(|_| !self.has_score_gradients()) {
            let tensor = self.graph.describe_tensor(id);
            return Err(format!(
                "tensor {tensor}: neither dQ nor dK, of which it is the largest magnitude on the way, is stored"
            ));
        }
        let [q, k, v, _, gradient] = self.operands;
        match [q, k, v, gradient].into_iter().find(|&id| self.graph.tensor(id).is_virtual) {
            Some(id) => Err(format!("tensor {}: it is not in memory", self.graph.describe_tensor(id))),
            None => Ok(()),
        }
    }

    fn has_score_gradients(&self) -> bool {
        self.of_queries.is_some() || self.of_keys.iter().any(|output| !output.is_of_values)
    }

    /// What scales a pass. The largest gradient of scores is kept by one of those that have them.
    pub(super) fn pass_scaling(&self, of_keys: bool, outputs: &[BackwardOutput]) -> Option<BackwardScaling> {
        let passes = &self.scaling.as_ref()?.passes;
        let has_them = outputs.iter().any(|output| !output.is_of_values);
        let keeps = has_them && of_keys == self.of_queries.is_none();
        Some(BackwardScaling { largest: passes.largest.filter(|_| keeps), ..passes.clone() })
    }

    /// Q, K, V and dO as FP16.
    fn half_rows(&self) -> HalfRowsKernel {
        let [q, k, v, _, gradient] = self.operands;
        let graph = &self.graph;
        let [queries, keys] = self.band.lengths.map_or([None; 2], |lengths| lengths.map(Some));
        let sides = [(q, queries), (k, keys), (v, keys), (gradient, queries)];
        let heads = sides.into_iter().zip(HalfRows::dims(self.extents)).map(|((tensor, lengths), dim)| HalfRows {
            tensor,
            lengths,
            has_vectors: has_vectors(graph.tensor(tensor)),
            dim,
        });
        let mut offsets: Vec<TensorId> =
            [q, k, v, gradient].into_iter().filter_map(|id| graph.tensor(id).ragged_offset).collect();
        offsets.sort_unstable();
        offsets.dedup();
        let largest = |output: &BackwardOutput| output.factors.largest;
        let of_gradients = self.of_queries.iter().chain(&self.of_keys).filter_map(largest);
        let of_scores = self.scaling.as_ref().and_then(|scaling| scaling.passes.largest);
        HalfRowsKernel { heads: heads.collect(), offsets, cleared: of_gradients.chain(of_scores).collect() }
    }

    /// Adds the launch that gives heads as FP16; gives where those of Q, K, V and dO lie. Nothing is added, and nothing given, of other types.
    pub(super) fn push_half_rows(&self, builder: &mut KernelBuilder) -> Option<[u64; 4]> {
        if self.operand != MmaType::Fp8 {
            return None;
        }
        let kernel = self.half_rows();
        let halves = |heads: &HalfRows| (heads.elements() + 1) / 2;
        let regions: Vec<u64> = kernel.heads.iter().map(|heads| builder.region(halves(heads))).collect();
        let threads = HalfRowsKernel::THREADS;
        let shape = Shape::line_of_blocks(kernel.blocks().sum::<i64>() * i64::from(threads), threads);
        let (reads, stores) = kernel.touched();
        let tensors = program_parameters(reads.into_iter(), &stores, |id| self.is_scalar(id));
        let places = regions.iter().map(|&offset| Parameter::Workspace { offset });
        let parameters = tensors.into_iter().chain(places).collect();
        builder.push("attention_halves", shape, parameters, Body::HalfRows(kernel));
        regions.try_into().ok()
    }

    /// Bytes that the launch moves which gives heads as FP16; 0 where there is none.
    pub(super) fn half_bytes(&self) -> i64 {
        const MOVED: i64 = 3;
        let elements: i64 = HalfRows::dims(self.extents).iter().map(|dim| dim.iter().product::<i64>()).sum();
        if self.operand == MmaType::Fp8 { MOVED * elements } else { 0 }
    }

    /// Boxes of so many rows of Q, K, V or dO as FP16, by their place among these.
    pub(super) fn half_map(&self, place: usize, rows: u32) -> TensorMap {
        const BYTES: u64 = 2;
        let [q, k, v, _, gradient] = self.operands;
        let [batches, heads, sequence, size] = HalfRows::dims(self.extents)[place].map(|extent| extent as u64);
        let row = size * BYTES;
        TensorMap {
            tensor: [q, k, v, gradient][place],
            element: MapElement::Half,
            rank: 4,
            dims: [size, sequence, heads, batches, 0],
            strides: [row, row * sequence, row * sequence * heads, 0],
            box_dims: [LINE, rows, 1, 1, 0],
            swizzle: Swizzle::Bytes128,
            pixels: None,
            lead: 0,
            next_line_later: false,
        }
    }
}
