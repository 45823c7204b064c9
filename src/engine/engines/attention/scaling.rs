//! What scales values in FP8, and values with keys side by side.

use super::boxes::{has_vectors, is_boxed};
use super::plan::{LARGEST_HEAD, Plan};
use crate::fusion::{Attention, Scaled};
use crate::graph::{DataType, FinalizedGraph, OperationId, TensorId};
use crate::kernel::{
    AttentionTile, MapElement, MmaType, Swizzle, TensorMap, TurnedValuesKernel, ValueScaling, value_columns,
};

/// The scaling of an attention that multiplies in a type.
///
/// # Errors
/// What of it no kernel computes, as a sentence.
pub(super) fn of(graph: &FinalizedGraph, attention: &Attention, operand: MmaType) -> Result<ValueScaling, String> {
    let scaling = &attention.scaling;
    if operand != MmaType::Fp8 {
        return match scaling.operations().next() {
            Some(id) => Err(format!("operation {} stands beside the attention", graph.describe_operation(id))),
            None => Ok(ValueScaling::default()),
        };
    }
    let last = attention.result(graph);
    let inner = scaling.output.iter().flatten().map(|step| step.result).filter(|&id| id != last);
    let product = graph.operation(attention.output).result().filter(|&id| id != last);
    let before = graph.operation(attention.softmax).result().filter(|_| scaling.probabilities.is_some());
    for id in inner.chain(product).chain(before) {
        if graph.tensor(id).data_type != DataType::Float {
            return Err(format!("tensor {}: what is scaled is FLOAT", graph.describe_tensor(id)));
        }
    }
    let [first, second] = &scaling.output;
    let factors = scaling.probabilities.iter().chain(first).filter_map(|step: &Scaled| step.factor).collect();
    let last_factors = second.iter().filter_map(|step| step.factor).collect();
    let largest = scaling.amax.map(|amax| amax.map(|id| kept(graph, id)).transpose());
    let [of_probabilities, of_output] = largest;
    let scaling = ValueScaling { factors, last_factors, largest: [of_probabilities?, of_output?] };
    scaling.reads().try_for_each(|id| is_number(graph, id))?;
    Ok(scaling)
}

/// Where an operation keeps a largest magnitude.
fn kept(graph: &FinalizedGraph, id: OperationId) -> Result<TensorId, String> {
    let result = graph.operation(id).result().ok_or("a reduction has no result")?;
    is_kept(graph, result)?;
    Ok(result)
}

/// Whether a largest magnitude is kept in a tensor.
///
/// # Errors
/// Why it is not, as a sentence.
pub(in crate::engine::engines) fn is_kept(graph: &FinalizedGraph, id: TensorId) -> Result<(), String> {
    let tensor = graph.tensor(id);
    match tensor.data_type == DataType::Float && !tensor.is_virtual {
        true => Ok(()),
        false => Err(format!("tensor {}: largest magnitudes are kept in FLOAT, in memory", graph.describe_tensor(id))),
    }
}

/// Whether kernels multiply by a number.
///
/// # Errors
/// Why they do not, as a sentence.
pub(in crate::engine::engines) fn is_number(graph: &FinalizedGraph, id: TensorId) -> Result<(), String> {
    match graph.tensor(id).data_type {
        DataType::Float | DataType::Half | DataType::BFloat16 => Ok(()),
        _ => Err(format!("tensor {}: factors are FLOAT, HALF or BFLOAT16", graph.describe_tensor(id))),
    }
}

impl Plan {
    /// Whether kernels take heads in FP8.
    ///
    /// # Errors
    /// Why not, as a sentence.
    pub(super) fn is_taken_in_fp8(&self) -> Result<(), String> {
        let (graph, [q, k, (values, _)]) = (&self.graph, self.sources);
        if let Some(size) = self.extents().head.into_iter().find(|&size| size % 16 != 0 || size > LARGEST_HEAD) {
            return Err(format!("heads of {size} elements; required a multiple of 16, at most {LARGEST_HEAD}"));
        }
        if self.problem.dropout.is_some() {
            return Err("probabilities in FP8 are not dropped [F8F-NODROP]".to_owned());
        }
        if graph.tensor(values).is_virtual {
            return Err(format!("tensor {}: it is not in memory", graph.describe_tensor(values)));
        }
        [q, k].into_iter().try_for_each(|(id, size)| is_boxed(graph, id, size))
    }

    /// What puts keys side by side, and clears what the launch behind it adds to.
    pub(super) fn turned_values(&self) -> TurnedValuesKernel {
        let (id, elements) = self.sources[2];
        let tensor = self.graph.tensor(id);
        let pages = self.problem.pages[1];
        let told = [id].into_iter().chain(pages.map(|pages| pages.table));
        let mut offsets: Vec<TensorId> = told.filter_map(|id| self.graph.tensor(id).ragged_offset).collect();
        offsets.dedup();
        TurnedValuesKernel {
            values: id,
            axes: [5 - elements, elements],
            pages,
            extents: self.extents(),
            lengths: self.problem.band.lengths.map(|[_, keys]| keys),
            offsets,
            has_vectors: elements == 3 && has_vectors(tensor),
            cleared: self.problem.scaling.kept().collect(),
        }
    }

    /// Boxes of values with keys side by side.
    pub(super) fn turned_map(&self, tile: AttentionTile) -> TensorMap {
        let (extents, line) = (self.extents(), tile.line_of_keys());
        let row = TurnedValuesKernel::row(extents.keys) as u64;
        let [elements, heads, batches] =
            [extents.head[1], extents.key_heads[1], extents.batches].map(|extent| extent as u64);
        TensorMap {
            tensor: self.sources[2].0,
            element: MapElement::Byte,
            rank: 4,
            dims: [row, elements, heads, batches, 0],
            strides: [row, row * elements, row * elements * heads, 0],
            box_dims: [line, value_columns(extents.head[1]), 1, 1, 0],
            swizzle: match line {
                128 => Swizzle::Bytes128,
                64 => Swizzle::Bytes64,
                _ => Swizzle::Bytes32,
            },
            pixels: None,
            lead: 0,
            next_line_later: false,
        }
    }
}
