//! What of a graph becomes the kernels of a backward pass, whatever their tiles.

use std::sync::Arc;

use super::super::attention::boxes::{self, are_offsets, boxes, has_vectors, is_boxed};
use super::super::attention::plan::{
    are_counted, are_heads, are_sinks, band_of, drawing_registers, dropping_of, has_rows, mask_of, multiplied_type,
    of_another_type, row_stores,
};
use super::{bias, scaling};
use crate::engine::builder::{KernelBuilder, Shape};
use crate::engine::lowering::{outputs_are_taken, program_parameters};
use crate::fusion::{Fusion, Stage};
use crate::graph::{Attributes, Composite, DataType, FinalizedGraph, Operation, OperationId, Port, TensorId};
use crate::kernel::{
    AttentionExtents, AttentionRowsKernel, AttentionSinksKernel, BackwardDropout, BackwardOutput, BackwardProblem,
    BackwardTile, Band, Body, DropoutMaskKernel, HeadSlopes, MmaType, Parameter, ScoreTensor, TensorMap,
};

/// A backward pass as it is computed.
#[derive(Debug)]
pub(in crate::engine::engines) struct Plan {
    pub(in crate::engine::engines) graph: Arc<FinalizedGraph>,
    /// Q, K, V, O, dO.
    pub(in crate::engine::engines) operands: [TensorId; 5],
    stats: TensorId,
    /// dQ; then dV and dK, as far as they are stored.
    pub(in crate::engine::engines) of_queries: Option<BackwardOutput>,
    pub(in crate::engine::engines) of_keys: Vec<BackwardOutput>,
    /// Sinks and their gradient.
    pub(in crate::engine::engines) sinks: Option<[TensorId; 2]>,
    pub(in crate::engine::engines) scale: Option<TensorId>,
    pub(in crate::engine::engines) operand: MmaType,
    pub(in crate::engine::engines) extents: AttentionExtents,
    pub(in crate::engine::engines) band: Band,
    /// Offsets of ragged tensors.
    pub(in crate::engine::engines) offsets: Vec<TensorId>,
    pub(in crate::engine::engines) dropout: Option<BackwardDropout>,
    /// What scores are capped by.
    pub(in crate::engine::engines) cap: Option<TensorId>,
    /// What is added to scores, and its gradient.
    pub(in crate::engine::engines) bias: Option<ScoreTensor>,
    pub(in crate::engine::engines) bias_gradient: Option<TensorId>,
    /// By what scores lean.
    pub(in crate::engine::engines) slopes: Option<HeadSlopes>,
    /// What scales heads in FP8.
    pub(in crate::engine::engines) scaling: Option<scaling::Scaling>,
    /// Where what is kept is stored.
    pub(in crate::engine::engines) mask: Option<DropoutMaskKernel>,
}

/// Registers of a thread for what scales values in FP8, and for a largest magnitude.
const OF_SCALING: u32 = 8;

/// Floats that a head has in the workspace beyond its queries are a multiple of this.
const PADDING: i64 = 32;

impl Plan {
    /// The plan of a graph whose heads boxes and `wgmma` take.
    ///
    /// # Errors
    /// Why they do not, as a sentence, or as of [`Self::new`].
    pub(in crate::engine::engines) fn boxed(fusion: &Fusion, id: OperationId) -> Result<Self, String> {
        let plan = Self::new(fusion, id)?;
        let graph = &plan.graph;
        let [q, k, v, output, gradient] = plan.operands;
        if plan.operand == MmaType::Tf32 {
            return Err(format!("no instruction for heads of {}", graph.tensor(q).data_type));
        }
        let (first, is_fp8) = (graph.tensor(q).data_type, plan.operand == MmaType::Fp8);
        if let Some(id) = plan.results().filter(|_| !is_fp8).find(|&id| graph.tensor(id).data_type != first) {
            return Err(of_another_type(graph, id, first));
        }
        if !plan.have_same_heads() {
            let [of_keys, of_values] = plan.extents.key_heads;
            return Err(format!(
                "K has {of_keys} heads, and V {of_values}; required the same, which warp_attention_backward does not ask for"
            ));
        }
        are_heads(plan.extents)?;
        if is_fp8 {
            plan.is_taken_in_fp8()?;
            return Ok(plan);
        }
        for id in [q, k, v, gradient] {
            is_boxed(graph, id, 3)?;
        }
        plan.results().chain([output]).try_for_each(|id| has_rows(graph, id))?;
        Ok(plan)
    }

    /// Whether K and V have as many heads.
    fn have_same_heads(&self) -> bool {
        let [of_keys, of_values] = self.extents.key_heads;
        of_keys == of_values
    }

    /// The passes of a kernel, by what makes one of its results and whether own rows are keys: dK and dV together, or one after the other where
    /// registers hold no more, or heads of K are not those of V, then dQ. `None` where one is not possible.
    pub(in crate::engine::engines) fn passes<P>(
        &self,
        pass: impl Fn(bool, &[BackwardOutput]) -> Option<P>,
    ) -> Option<Vec<P>> {
        let mut passes = self.key_passes(&pass)?;
        if let Some(output) = self.of_queries {
            passes.push(pass(false, &[output])?);
        }
        Some(passes)
    }

    /// Those of them whose own rows are keys.
    pub(in crate::engine::engines) fn key_passes<P>(
        &self,
        pass: &impl Fn(bool, &[BackwardOutput]) -> Option<P>,
    ) -> Option<Vec<P>> {
        match &self.of_keys[..] {
            [] => Some(Vec::new()),
            outputs => match Some(outputs).filter(|_| self.have_same_heads()).and_then(|outputs| pass(true, outputs)) {
                Some(both) => Some(vec![both]),
                None => outputs.chunks(1).map(|output| pass(true, output)).collect(),
            },
        }
    }

    /// # Errors
    /// Why no engine computes the graph, as a sentence.
    pub(in crate::engine::engines) fn new(fusion: &Fusion, id: OperationId) -> Result<Self, String> {
        let graph = fusion.graph();
        only_backward(fusion)?;
        outputs_are_taken(fusion)?;
        let operation = graph.operation(id);
        is_not_in_place(graph, operation)?;
        let Attributes::Composite(Composite::AttentionBackward(backward)) = &operation.attributes else {
            return Err("a core of another kind".to_owned());
        };
        let input = |port| operation.input(port).ok_or(format!("port {port} is empty"));
        let operands = [input(Port::Q)?, input(Port::K)?, input(Port::V)?, input(Port::O)?, input(Port::DO)?];
        let extents = extents(graph, operands)?;
        let [head, value_head] = extents.head;
        let result = |port| operation.output(port).filter(|&id| !graph.tensor(id).is_virtual);
        let results = [Port::DQ, Port::DV, Port::DK].map(result).into_iter().flatten();
        let operand = operand_type(graph, operands)?;
        for id in results.clone().filter(|&id| operand != MmaType::Fp8 || !graph.tensor(id).data_type.is_fp8()) {
            multiplied_type(graph.tensor(id).data_type)
                .map_err(|_| of_another_type(graph, id, graph.tensor(operands[0]).data_type))?;
        }
        results.chain(operands).try_for_each(|id| are_offsets(graph, id))?;
        let stored = |port, head| {
            let factors = scaling::factors(graph, operation, port)?;
            Ok::<_, String>(result(port).map(|tensor| BackwardOutput {
                tensor,
                head,
                is_of_values: port == Port::DV,
                stores: row_stores(graph, tensor, operand),
                factors,
            }))
        };
        let of_queries = stored(Port::DQ, head)?;
        let of_keys: Vec<_> = [stored(Port::DV, value_head)?, stored(Port::DK, head)?].into_iter().flatten().collect();
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
        let dropout = match backward.dropout {
            Some(dropout) => Some(BackwardDropout::Drawn(dropping_of(graph, id, dropout.kept)?)),
            None => bias::masked(graph, operation, extents)?.map(BackwardDropout::Masked),
        };
        let mask = mask_of(graph, id, dropout.and_then(|dropout| dropout.drawn()), extents)?;
        let (cap, slopes) = (bias::cap(graph, operation)?, bias::slopes(graph, operation, backward.alibi)?);
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
            cap,
            bias,
            bias_gradient,
            slopes,
            scaling: scaling::of(graph, operation, operand)?,
            mask,
        })
    }

    /// The gradients that are stored.
    fn results(&self) -> impl Iterator<Item = TensorId> {
        self.of_queries.iter().chain(&self.of_keys).map(|output| output.tensor)
    }

    /// Floats of a head in the workspace.
    pub(in crate::engine::engines) fn padded(&self) -> i64 {
        (self.extents.queries + PADDING - 1) / PADDING * PADDING
    }

    /// Registers of a thread for what it draws, and for what it reads and makes of scores, of a step whose others are keys or queries.
    pub(in crate::engine::engines) fn further_registers(&self, others: u32, are_keys: bool) -> u32 {
        const LEANING: u32 = 12;
        const CAPPING: u32 = 8;
        let masked = self.dropout.and_then(|dropout| dropout.masked()).map(|masked| masked.mask);
        let read = self.bias.into_iter().chain(masked).map(|read| read.registers(others / 2, are_keys));
        let of_slopes = if self.slopes.is_some() { LEANING } else { 0 };
        let of_scaling = self.scaling.as_ref().map_or(0, |_| OF_SCALING);
        let of_cap = if self.cap.is_some() { CAPPING } else { 0 };
        read.sum::<u32>() + of_cap + of_slopes + of_scaling + self.drawing_registers()
    }

    /// Registers of a thread for what it draws.
    pub(in crate::engine::engines) fn drawing_registers(&self) -> u32 {
        drawing_registers(self.dropout.and_then(|dropout| dropout.drawn()))
    }

    /// What the first launch computes.
    fn rows(&self) -> AttentionRowsKernel {
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
            loads_vectors: self.operand.bytes() <= 2
                && [output, gradient].into_iter().all(|id| has_vectors(self.graph.tensor(id))),
            scale: self.scale,
            factors: self.scaling.iter().flat_map(|scaling| scaling.deltas.iter().copied()).collect(),
            factors_of_left: self.dropout.map_or(Vec::new(), |dropout| dropout.factors_of_delta()),
            keeps_delta: self.bias_gradient.is_some(),
            sink: self.sinks.map(|[sink, _]| sink),
            may_be_empty: self.bias.is_some(),
            lengths: self.band.lengths.map(|[queries, _]| queries).filter(|_| !offsets.is_empty()),
            offsets,
        }
    }

    /// What the launch behind it makes of the sinks' gradient.
    fn sinks(&self) -> Option<AttentionSinksKernel> {
        let [_, result] = self.sinks?;
        let lengths = self.band.lengths.map(|[queries, _]| queries);
        Some(AttentionSinksKernel { result, extents: self.rows().extents, lengths, padded: self.padded() })
    }

    /// What a pass computes.
    pub(in crate::engine::engines) fn problem(
        &self,
        of_keys: bool,
        outputs: Vec<BackwardOutput>,
        held_by_l2: i64,
    ) -> BackwardProblem {
        let scaling = self.pass_scaling(of_keys, &outputs);
        BackwardProblem {
            of_keys,
            outputs,
            scale: self.scale,
            operand: self.multiplied(),
            extents: self.extents,
            band: self.band,
            offsets: self.offsets.clone(),
            dropout: self.dropout,
            cap: self.cap,
            bias: self.bias,
            slopes: self.slopes,
            scaling,
            gradients: None,
            pairs: false,
            claims: false,
            of_launch: None,
            padded: self.padded(),
            section: self.section(of_keys, held_by_l2),
        }
    }

    /// Whether tiles of own rows have more steps from the first to the last, or fewer.
    pub(in crate::engine::engines) fn slopes_steps(&self) -> bool {
        self.band.left.is_some() != self.band.right.is_some()
    }

    /// Heads with own rows that are walked together, so that their others stay in L2.
    fn section(&self, of_keys: bool, held_by_l2: i64) -> i64 {
        let extents = self.extents;
        let group = extents.groups()[0];
        let [others, heads, shared] = match of_keys {
            true => [extents.queries * group, extents.batches * extents.key_heads[0], 1],
            false => [extents.keys, extents.batches * extents.heads, group],
        };
        let bytes = others * (extents.head[0] + extents.head[1]) * i64::from(self.multiplied().bytes());
        let held = (held_by_l2 / bytes.max(1)).max(1);
        let power = 1 << (i64::BITS - 1 - held.leading_zeros());
        (power * shared).min(heads)
    }

    /// Steps of each tile of own rows: so many rows, by steps of so many others.
    pub(in crate::engine::engines) fn steps(&self, of_keys: bool, [rows, others]: [u32; 2]) -> Vec<i64> {
        let (extents, band) = (self.extents, self.band);
        let (step, rows, others) = (rows as usize, i64::from(rows), i64::from(others));
        let shift = if band.is_bottom_right { extents.keys - extents.queries } else { 0 };
        let [own, other, members] = match of_keys {
            true => [extents.keys, extents.queries, extents.groups()[0]],
            false => [extents.queries, extents.keys, 1],
        };
        let [left, right] = band.expected(&self.graph);
        let of_tile = |first: i64| {
            let last = (first + rows).min(own) - 1;
            let (begin, end) = match of_keys {
                true => (right.map(|right| first - shift - right), left.map(|left| last - shift + left)),
                false => (left.map(|left| first + shift - left + 1), right.map(|right| last + shift + right + 1)),
            };
            let end = end.map_or(other, |end| end.clamp(0, other));
            let begin = begin.map_or(0, |begin| begin.clamp(0, end));
            ((end + others - 1) / others - begin / others) * members
        };
        (0..own).step_by(step).map(of_tile).collect()
    }

    pub(in crate::engine::engines) fn is_scalar(&self, id: TensorId) -> bool {
        self.graph.tensor(id).is_pass_by_value
    }

    /// Adds the functions before the passes: what is known of each query goes to regions of the workspace, of which a step of so many queries may
    /// read beyond the last head's, and gradients of sinks. Regions are those of statistics, of what passes subtract, and of Δ where it is kept.
    pub(in crate::engine::engines) fn push_rows(&self, builder: &mut KernelBuilder, step: u32) -> Vec<Parameter> {
        let floats = self.extents.batches * self.extents.heads * self.padded() + i64::from(step);
        let rows = self.rows();
        let [delta, of_sinks] = rows.further_regions();
        let regions = builder.regions(2 + delta.iter().chain(&of_sinks).count(), floats);
        self.push_row_facts(builder, rows, &regions);
        if let Some(of_sinks) = of_sinks {
            self.push_sinks(builder, regions[of_sinks]);
        }
        regions
    }

    fn push_row_facts(&self, builder: &mut KernelBuilder, rows: AttentionRowsKernel, regions: &[Parameter]) {
        let [batches, heads, queries] = rows.extents;
        let lanes = batches * heads * queries * i64::from(rows.lanes());
        let shape = Shape::line_of_blocks(lanes, AttentionRowsKernel::THREADS);
        let tensors = program_parameters(rows.reads(), &[], |id| self.is_scalar(id));
        let parameters = tensors.into_iter().chain(regions.iter().copied()).collect();
        builder.push("attention_rows", shape, parameters, Body::AttentionRows(rows));
    }

    /// The gradient of sinks, from their part of each row.
    fn push_sinks(&self, builder: &mut KernelBuilder, of_sinks: Parameter) {
        let Some(sinks) = self.sinks() else { return };
        let grid = [u32::try_from(sinks.extents[1]).unwrap_or(u32::MAX), 1];
        let block = [AttentionSinksKernel::THREADS, 1, 1];
        let shape = Shape { grid, block, shared_bytes: AttentionSinksKernel::SHARED_BYTES };
        let tensors = sinks.lengths.into_iter().chain([sinks.result]);
        let parameters = tensors.map(Parameter::Tensor).chain([of_sinks]).collect();
        builder.push("attention_sinks", shape, parameters, Body::AttentionSinks(sinks));
    }

    /// Boxes of a pass: of own rows, and of the others.
    pub(in crate::engine::engines) fn maps(&self, of_keys: bool, tile: BackwardTile) -> [TensorMap; 4] {
        let [q, k, v, _, gradient] = self.operands;
        let map = |place: usize, rows: u32| match self.operand {
            MmaType::Fp8 => self.half_map(place, rows),
            _ => boxes(&self.graph, [q, k, v, gradient][place], [3, 2], rows),
        };
        let [a, b, c, d] = Self::places(of_keys);
        [map(a, tile.rows()), map(b, tile.rows()), map(c, tile.others), map(d, tile.others)]
    }

    /// Which of Q, K, V and dO have own rows, and which the others.
    pub(super) fn places(of_keys: bool) -> [usize; 4] {
        if of_keys { [1, 2, 0, 3] } else { [0, 3, 1, 2] }
    }
}

/// Extents of Q, K and V.
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
    are_counted(extents)?;
    Ok(extents)
}

fn are_statistics(graph: &FinalizedGraph, id: TensorId) -> Result<(), String> {
    let tensor = graph.tensor(id);
    if tensor.data_type != DataType::Float || tensor.is_virtual || tensor.is_pass_by_value {
        return Err(format!("tensor {}: statistics are FLOAT, in memory", graph.describe_tensor(id)));
    }
    are_offsets(graph, id)
}

/// No launch writes what a later one reads.
fn is_not_in_place(graph: &FinalizedGraph, operation: &Operation) -> Result<(), String> {
    match operation.output_tensors().find(|&output| operation.input_tensors().any(|input| input == output)) {
        Some(id) => Err(format!(
            "tensor {}: no kernels for {} in place: launches read what another one would write",
            graph.describe_tensor(id),
            operation.tag()
        )),
        None => Ok(()),
    }
}

/// Sinks and their gradient, where this is stored: what sinks add to the sums is in the statistics.
fn sinks(graph: &FinalizedGraph, operation: &Operation) -> Result<Option<[TensorId; 2]>, String> {
    let result = operation.output(Port::DSINK_TOKEN).filter(|&id| !graph.tensor(id).is_virtual);
    let Some(pair) = operation.input(Port::SINK_TOKEN).zip(result) else { return Ok(None) };
    let pair = [pair.0, pair.1];
    pair.into_iter().try_for_each(|id| are_sinks(graph, id))?;
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

/// The type of all heads that are read; in FP8 each may be of its own.
fn operand_type(graph: &FinalizedGraph, heads: [TensorId; 5]) -> Result<MmaType, String> {
    let first = graph.tensor(heads[0]).data_type;
    if heads.into_iter().all(|id| graph.tensor(id).data_type.is_fp8()) {
        return Ok(MmaType::Fp8);
    }
    let operand = multiplied_type(first)?;
    match heads.into_iter().find(|&id| graph.tensor(id).data_type != first) {
        Some(id) => Err(of_another_type(graph, id, first)),
        None => Ok(operand),
    }
}
