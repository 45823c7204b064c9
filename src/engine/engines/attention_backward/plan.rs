//! What of a graph becomes the kernels of a backward pass, whatever their tiles.

use std::sync::Arc;

use super::super::attention::boxes::{self, are_offsets, boxes, has_vectors, is_boxed};
use super::super::attention::plan::{
    are_counted, are_heads, band_of, drawing_registers, dropping_of, has_rows, mask_of,
};
use super::bias;
use crate::engine::lowering::outputs_are_taken;
use crate::fusion::{Fusion, Stage};
use crate::graph::{Attributes, Composite, DataType, FinalizedGraph, Operation, OperationId, Port, TensorId};
use crate::kernel::{
    AttentionExtents, AttentionRowsKernel, AttentionSinksKernel, BackwardOutput, BackwardTile, Band, DropoutMaskKernel,
    Dropping, MmaType, ScoreBias, TensorMap,
};

/// A backward pass as it is computed.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) graph: Arc<FinalizedGraph>,
    /// Q, K, V, O, dO.
    operands: [TensorId; 5],
    stats: TensorId,
    /// dQ; then dV and dK, as far as they are stored.
    pub(super) of_queries: Option<BackwardOutput>,
    pub(super) of_keys: Vec<BackwardOutput>,
    /// Sinks and their gradient.
    pub(super) sinks: Option<[TensorId; 2]>,
    pub(super) scale: Option<TensorId>,
    pub(super) operand: MmaType,
    pub(super) extents: AttentionExtents,
    pub(super) band: Band,
    /// Offsets of ragged tensors.
    pub(super) offsets: Vec<TensorId>,
    pub(super) dropout: Option<Dropping>,
    /// What is added to scores, and its gradient.
    pub(super) bias: Option<ScoreBias>,
    pub(super) bias_gradient: Option<TensorId>,
    /// Where what is kept is stored.
    pub(super) mask: Option<DropoutMaskKernel>,
}

/// Floats that a head has in the workspace beyond its queries are a multiple of this.
const PADDING: i64 = 32;

impl Plan {
    /// # Errors
    /// Why the engine does not compute the graph, as a sentence.
    pub(super) fn new(fusion: &Fusion, id: OperationId) -> Result<Self, String> {
        let graph = fusion.graph();
        only_backward(fusion)?;
        outputs_are_taken(fusion)?;
        let operation = graph.operation(id);
        let Attributes::Composite(Composite::AttentionBackward(backward)) = &operation.attributes else {
            return Err("a core of another kind".to_owned());
        };
        let input = |port| operation.input(port).ok_or(format!("port {port} is empty"));
        let operands = [input(Port::Q)?, input(Port::K)?, input(Port::V)?, input(Port::O)?, input(Port::DO)?];
        let extents = extents(graph, operands)?;
        for id in [operands[0], operands[1], operands[2], operands[4]] {
            is_boxed(graph, id, 3)?;
        }
        let [head, value_head] = extents.head;
        let stored = |port, head| stored(graph, operation, port, head);
        let of_queries = stored(Port::DQ, head);
        let of_keys: Vec<_> = [stored(Port::DV, value_head), stored(Port::DK, head)].into_iter().flatten().collect();
        let results = of_queries.iter().chain(&of_keys).map(|output| output.tensor);
        let operand = operand_type(graph, operands.into_iter().chain(results.clone()))?;
        [operands[3]]
            .into_iter()
            .chain(results)
            .try_for_each(|id| has_rows(graph, id).and_then(|()| are_offsets(graph, id)))?;
        let (stats, scale) = (input(Port::STATS)?, operation.input(Port::ATTN_SCALE));
        are_statistics(graph, stats)?;
        if let Some(id) = scale.filter(|&id| graph.tensor(id).dim.iter().any(|&extent| extent != 1)) {
            return Err(format!("tensor {}: a scale is one number", graph.describe_tensor(id)));
        }
        let sinks = sinks(graph, operation)?;
        let band = band_of(graph, id, backward.mask)?;
        let results = of_queries.iter().chain(&of_keys).map(|output| output.tensor);
        let ragged = operands.into_iter().chain([stats]).chain(results);
        let offsets = boxes::offsets(graph, ragged, band.lengths.is_some())?;
        let dropout = backward.dropout.map(|dropout| dropping_of(graph, id, dropout.kept)).transpose()?;
        let mask = mask_of(graph, id, dropout, extents)?;
        let (bias, bias_gradient) = (bias::bias(graph, operation, extents)?, bias::gradient(graph, operation)?);
        Ok(Self {
            graph: Arc::clone(graph),
            operands,
            stats,
            of_queries,
            of_keys,
            sinks,
            scale,
            operand,
            extents,
            band,
            offsets,
            dropout,
            bias,
            bias_gradient,
            mask,
        })
    }

    /// Floats of a head in the workspace.
    pub(super) fn padded(&self) -> i64 {
        (self.extents.queries + PADDING - 1) / PADDING * PADDING
    }

    /// Whether some function reads Δ as it is, beside what is scaled.
    pub(super) fn keeps_delta(&self) -> bool {
        self.sinks.is_some() || self.bias_gradient.is_some()
    }

    /// Registers of a thread for what it draws, and for the bias that it reads, of a step whose others are keys or queries.
    pub(super) fn further_registers(&self, others: u32, are_keys: bool) -> u32 {
        let of_bias = self.bias.map_or(0, |bias| bias.registers(others / 2, are_keys));
        of_bias + drawing_registers(self.dropout)
    }

    /// What the first launch computes.
    pub(super) fn rows(&self) -> AttentionRowsKernel {
        let [_, _, _, output, gradient] = self.operands;
        let offsets = |id: TensorId| self.graph.tensor(id).ragged_offset;
        let offsets: Vec<TensorId> = [output, gradient, self.stats].into_iter().filter_map(offsets).collect();
        AttentionRowsKernel {
            output,
            gradient,
            stats: self.stats,
            extents: [self.extents.batches, self.extents.heads, self.extents.queries],
            head: self.extents.head[1],
            padded: self.padded(),
            loads_vectors: [output, gradient].into_iter().all(|id| has_vectors(self.graph.tensor(id))),
            scale: self.scale,
            keeps_delta: self.keeps_delta(),
            may_be_empty: self.bias.is_some(),
            lengths: self.band.lengths.map(|[queries, _]| queries).filter(|_| !offsets.is_empty()),
            offsets,
        }
    }

    /// What the launch behind it makes of the sinks' gradient.
    pub(super) fn sinks(&self) -> Option<AttentionSinksKernel> {
        let [sink, result] = self.sinks?;
        let lengths = self.band.lengths.map(|[queries, _]| queries);
        Some(AttentionSinksKernel { sink, result, extents: self.rows().extents, lengths, padded: self.padded() })
    }

    /// Boxes of a pass: of own rows, and of the others.
    pub(super) fn maps(&self, of_keys: bool, tile: BackwardTile) -> [TensorMap; 4] {
        let [q, k, v, _, gradient] = self.operands;
        let map = |id: TensorId, rows: u32| boxes(&self.graph, id, [3, 2], rows);
        let (own, other) = if of_keys { ([k, v], [q, gradient]) } else { ([q, gradient], [k, v]) };
        let [[a, b], [c, d]] = [own.map(|id| map(id, tile.rows())), other.map(|id| map(id, tile.others))];
        [a, b, c, d]
    }
}

/// Extents of Q, K and V, of which K and V have as many heads.
fn extents(graph: &FinalizedGraph, [q, k, v, ..]: [TensorId; 5]) -> Result<AttentionExtents, String> {
    let [q, k, v] = [q, k, v].map(|id| &graph.tensor(id).dim);
    let extents = AttentionExtents {
        batches: q[0],
        heads: q[1],
        key_heads: [k[1], v[1]],
        queries: q[2],
        keys: k[2],
        head: [q[3], v[3]],
        packed: 1,
    };
    if k[1] != v[1] {
        return Err(format!("K has {} heads, and V {}; required the same", k[1], v[1]));
    }
    are_heads(extents)?;
    are_counted(extents)?;
    Ok(extents)
}

/// A gradient that is stored.
fn stored(graph: &FinalizedGraph, operation: &Operation, port: Port, head: i64) -> Option<BackwardOutput> {
    let tensor = operation.output(port).filter(|&id| !graph.tensor(id).is_virtual)?;
    let stores_vectors = has_vectors(graph.tensor(tensor));
    Some(BackwardOutput { tensor, head, is_of_values: port == Port::DV, stores_vectors })
}

fn are_statistics(graph: &FinalizedGraph, id: TensorId) -> Result<(), String> {
    let tensor = graph.tensor(id);
    if tensor.data_type != DataType::Float || tensor.is_virtual {
        return Err(format!("tensor {}: statistics are FLOAT, in memory", graph.describe_tensor(id)));
    }
    are_offsets(graph, id)
}

/// Sinks and their gradient, where this is stored: what sinks add to the sums is in the statistics.
fn sinks(graph: &FinalizedGraph, operation: &Operation) -> Result<Option<[TensorId; 2]>, String> {
    let result = operation.output(Port::DSINK_TOKEN).filter(|&id| !graph.tensor(id).is_virtual);
    let Some(pair) = operation.input(Port::SINK_TOKEN).zip(result) else { return Ok(None) };
    let pair = [pair.0, pair.1];
    match pair.into_iter().find(|&id| graph.tensor(id).data_type != DataType::Float) {
        Some(id) => Err(format!("tensor {}: sinks and their gradient are FLOAT", graph.describe_tensor(id))),
        None => Ok(Some(pair)),
    }
}

/// Nothing stands beside the core, and it is computed in `FLOAT`.
fn only_backward(fusion: &Fusion) -> Result<(), String> {
    let graph = fusion.graph();
    for id in graph.operation_ids() {
        let operation = graph.describe_operation(id);
        if fusion.stage(id) != Stage::Core {
            return Err(format!("operation {operation} stands beside the backward pass of an attention"));
        }
        if graph.compute_type(id) != DataType::Float {
            return Err(format!("operation {operation} is computed in {}; required FLOAT", graph.compute_type(id)));
        }
    }
    Ok(())
}

/// The 16-bit type of all heads.
fn operand_type(graph: &FinalizedGraph, mut heads: impl Iterator<Item = TensorId>) -> Result<MmaType, String> {
    let first = heads.next().map_or(DataType::Float, |id| graph.tensor(id).data_type);
    let operand = match first {
        DataType::Half => MmaType::F16,
        DataType::BFloat16 => MmaType::Bf16,
        other => return Err(format!("no instruction for heads of {other}")),
    };
    match heads.find(|&id| graph.tensor(id).data_type != first) {
        Some(id) => {
            let (tensor, found) = (graph.describe_tensor(id), graph.tensor(id).data_type);
            Err(format!("tensor {tensor} is {found}; required {first}, the type of queries"))
        }
        None => Ok(operand),
    }
}
