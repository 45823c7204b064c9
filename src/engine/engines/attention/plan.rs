//! What of a graph becomes an attention's kernel, whatever its tile.

use std::sync::Arc;

use super::boxes::{self, are_offsets, boxes, has_vectors, is_boxed};
use super::{pages, scaling};
use crate::device::Device;
use crate::engine::builder::{KernelBuilder, Shape};
use crate::engine::lowering::{outputs_are_taken, pointwise_is_taken, program_parameters};
use crate::fusion::{Attention, Fusion, Stage};
use crate::graph::{
    Attributes, Bernoulli, Composite, DataType, FinalTensor, FinalizedGraph, Operation, OperationId, PointwiseMode,
    Port, ScoreMask, TensorId,
};
use crate::kernel::{
    AttentionCombinationKernel, AttentionExtents, AttentionProblem, AttentionTile, Band, BandEdge, Body,
    DropoutMaskKernel, Dropping, ForwardDropout, MmaType, RowStatistics, RowStores, ScoreProgram, Scores, StageProgram,
    TensorMap,
};

/// An attention as it is computed.
#[derive(Debug)]
pub(in crate::engine::engines) struct Plan {
    pub(in crate::engine::engines) graph: Arc<FinalizedGraph>,
    /// Q, K, V where they are in memory: K and V, or containers of their pages. With each the axis of its elements.
    pub(in crate::engine::engines) sources: [(TensorId, usize); 3],
    /// What is computed of them, of heads that are not packed.
    pub(in crate::engine::engines) problem: AttentionProblem,
    /// Where what is kept is stored.
    pub(in crate::engine::engines) mask: Option<DropoutMaskKernel>,
}

/// Largest head, of an instruction's columns.
pub(in crate::engine::engines) const LARGEST_HEAD: i64 = 256;

impl Plan {
    /// The plan of a graph whose heads boxes and `wgmma` take.
    ///
    /// # Errors
    /// Why they do not, as a sentence, or as of [`Self::new`].
    pub(super) fn boxed(fusion: &Fusion, attention: &Attention) -> Result<Self, String> {
        let plan = Self::new(fusion, attention)?;
        let graph = &plan.graph;
        let (output, first) = (plan.problem.output, graph.tensor(plan.sources[0].0).data_type);
        if plan.problem.operand == MmaType::Tf32 {
            return Err(format!("no instruction for heads of {first}"));
        }
        if plan.problem.operand == MmaType::Fp8 {
            plan.is_taken_in_fp8()?;
            return Ok(plan);
        }
        if graph.tensor(output).data_type != first {
            return Err(of_another_type(graph, output, first));
        }
        are_heads(plan.extents())?;
        plan.sources.into_iter().try_for_each(|(id, size)| is_boxed(graph, id, size))?;
        has_rows(graph, output)?;
        Ok(plan)
    }

    /// # Errors
    /// Why no engine computes the graph, as a sentence.
    pub(in crate::engine::engines) fn new(fusion: &Fusion, attention: &Attention) -> Result<Self, String> {
        let graph = fusion.graph();
        only_attention(fusion)?;
        outputs_are_taken(fusion)?;
        let (operands, sources) = (attention.operands(graph), attention.sources(graph));
        let output = attention.result(graph);
        is_stored(graph, output)?;
        let operand = operand_type(graph, attention, operands, output)?;
        let scaling = scaling::of(graph, attention, operand)?;
        let extents = extents(graph, operands);
        heads_fit(graph, operands, extents)?;
        are_counted(extents)?;
        let statistics = statistics(graph, attention.softmax)?;
        let (band, scores) = (band(graph, attention)?, scores(graph, attention)?);
        lengths_agree(graph, attention, &band)?;
        let pages = pages::of(graph, attention, &band)?;
        let stored = || [output].into_iter().chain(statistics.tensors());
        let heads = || sources.into_iter().map(|source| source.0).chain(pages::tables(pages)).chain(stored());
        heads().try_for_each(|id| are_offsets(graph, id))?;
        let offsets = boxes::offsets(graph, heads(), band.lengths.is_some())?;
        let dropout = attention.dropout.map(|id| dropping(graph, id)).transpose()?;
        let drawn = dropout.and_then(|dropout: ForwardDropout| dropout.drawn());
        let mask = attention.dropout.map(|id| mask_of(graph, id, drawn, extents)).transpose()?.flatten();
        let paired = paired(graph, &scores, extents);
        let sink = graph.operation(attention.softmax).input(Port::SINK);
        sink.map_or(Ok(()), |id| are_sinks(graph, id))?;
        let problem = AttentionProblem {
            output,
            stores: row_stores(graph, output, operand),
            statistics,
            sink,
            operand,
            probabilities: graph.tensor(attention.probabilities(graph)).data_type,
            scaling,
            extents,
            scores,
            paired,
            band,
            pages,
            offsets,
            dropout,
            section: 1,
            claims: false,
            parts: 1,
        };
        Ok(Self { graph: Arc::clone(graph), sources, problem, mask })
    }

    pub(in crate::engine::engines) fn extents(&self) -> AttentionExtents {
        self.problem.extents
    }

    /// What is computed by tiles that have rows of so many heads, of which those with the same K and V come together while L2 holds these.
    pub(in crate::engine::engines) fn packed_problem(&self, packed: i64, held_by_l2: i64) -> AttentionProblem {
        let extents = AttentionExtents { packed, ..self.problem.extents };
        AttentionProblem { extents, section: self.section(packed, held_by_l2), ..self.problem.clone() }
    }

    /// Whether blocks may share the keys of a row: a combination knows of sums and their references, not of largest scores.
    pub(super) fn may_split(&self) -> bool {
        self.problem.operand != MmaType::Fp8
            && self.problem.statistics.max.is_none()
            && self.problem.statistics.sum_exp.is_none()
    }

    /// What puts the parts of a problem's rows together.
    pub(super) fn combination(&self, problem: &AttentionProblem) -> AttentionCombinationKernel {
        let offsets: Vec<TensorId> = problem.stored().filter_map(|id| self.graph.tensor(id).ragged_offset).collect();
        let lengths = problem.band.lengths.filter(|_| !offsets.is_empty()).map(|[queries, _]| queries);
        let mut told_by: Vec<TensorId> = lengths.into_iter().chain(offsets).collect();
        told_by.sort_unstable();
        told_by.dedup();
        AttentionCombinationKernel { problem: problem.clone(), told_by }
    }

    /// Heads of Q, or groups of packed ones, that are walked together, so that their K and V stay in L2.
    fn section(&self, packed: i64, held_by_l2: i64) -> i64 {
        let extents = self.problem.extents;
        let group = extents.heads / extents.key_heads[0].min(extents.key_heads[1]) / packed;
        let bytes = extents.keys * (extents.head[0] + extents.head[1]) * i64::from(self.problem.operand.bytes());
        let held = (held_by_l2 / bytes.max(1)).max(1);
        let power = 1 << (i64::BITS - 1 - held.leading_zeros());
        let heads = extents.batches * extents.heads / packed;
        even_section(heads, power * group.max(1), group.max(1))
    }

    /// Registers of a thread for what is read two columns at a time, and for random numbers.
    pub(in crate::engine::engines) fn further_registers(&self, keys: u32) -> u32 {
        let words = |&id: &TensorId| self.graph.tensor(id).data_type.bits() as u32 / 16;
        self.problem.paired.iter().map(words).sum::<u32>() * keys / 4
            + drawing_registers(self.problem.dropout.and_then(|dropout| dropout.drawn()))
    }

    /// Heads of Q that may share a tile: those that share a head of K and of V, and all keys of it.
    pub(in crate::engine::engines) fn group(&self) -> i64 {
        match self.problem.extents.groups() {
            [group, of_values] if group == of_values && self.problem.band.blocks.is_none() => group,
            _ => 1,
        }
    }

    /// Whether each step of a tile, of so many rows and keys, lies in one of the blocks of scores that are kept or left out.
    pub(in crate::engine::engines) fn is_within_blocks(&self, [rows, keys]: [u32; 2]) -> bool {
        let divides = |extent: u32| ScoreMask::TILE % i64::from(extent) == 0;
        self.problem.band.blocks.is_none() || divides(rows) && divides(keys)
    }

    /// Steps of so many keys of each tile of so many rows, of packed heads.
    pub(in crate::engine::engines) fn steps(&self, [rows, keys]: [u32; 2], packed: i64) -> impl Iterator<Item = i64> {
        let (extents, band) = (self.problem.extents, self.problem.band);
        let (step, rows, keys) = (rows as usize, i64::from(rows), i64::from(keys));
        let [left, right] = band.expected(&self.graph);
        let shift = if band.is_bottom_right { extents.keys - extents.queries } else { 0 };
        let all = extents.queries * packed;
        (0..all).step_by(step).map(move |first| {
            let last = ((first + rows).min(all) - 1) / packed;
            let end = right.map_or(extents.keys, |right| (last + shift + right + 1).clamp(0, extents.keys));
            let begin = left.map_or(0, |left| (first / packed + shift - left + 1).clamp(0, end));
            (end + keys - 1) / keys - begin / keys
        })
    }

    /// Boxes of a tile, of so many packed heads.
    pub(super) fn maps(&self, tile: AttentionTile, packed: i64) -> [TensorMap; 3] {
        let [rows_of_keys, rows_of_values] = self.box_rows(tile.keys);
        let rows = [tile.queries(), rows_of_keys, rows_of_values];
        let map = |number: usize| {
            let (id, size) = self.sources[number];
            boxes(&self.graph, id, [size, 5 - size], rows[number])
        };
        let values = if self.problem.operand == MmaType::Fp8 { self.turned_map(tile) } else { map(2) };
        [self.packed(map(0), packed, tile), map(1), values]
    }

    /// Rows of a box of K, and of V, in steps of so many keys: none has rows of two pages.
    pub(super) fn box_rows(&self, keys: u32) -> [u32; 2] {
        self.problem.pages.map(|pages| pages.map_or(keys, |pages| pages.box_rows(keys)))
    }
}

impl Plan {
    /// The boxes of queries with an axis for the heads of a group: a tile has these of each query side by side.
    fn packed(&self, map: TensorMap, packed: i64, tile: AttentionTile) -> TensorMap {
        if packed == 1 {
            return map;
        }
        let ([size, queries, heads, batches, _], [row, head, batch, _]) = (map.dims, map.strides);
        let group = packed as u64;
        TensorMap {
            rank: 5,
            dims: [size, group, queries, heads / group, batches],
            strides: [head, row, head * group, batch],
            box_dims: [map.box_dims[0], group as u32, tile.queries() / group as u32, 1, 1],
            ..map
        }
    }
}

/// Bytes of K and V, or what else all tiles of a head read, that L2 holds beside what goes through it (AT-K9): 32 MiB of an H200's 60.
pub(in crate::engine::engines) fn held_by_l2(device: &Device) -> i64 {
    i64::try_from(device.l2_bytes / 15 * 8).unwrap_or(i64::MAX)
}

/// Heads of a section where none has more than so many, as even as groups of them allow.
fn even_section(heads: i64, most: i64, group: i64) -> i64 {
    let sections = (heads + most - 1) / most;
    let groups = (heads + group - 1) / group;
    ((groups + sections - 1) / sections * group).min(heads)
}

/// How rows of a tensor of heads are stored where sums are of so many bits.
pub(in crate::engine::engines) fn row_stores(graph: &FinalizedGraph, id: TensorId, operand: MmaType) -> RowStores {
    let tensor = graph.tensor(id);
    if tensor.data_type.is_fp8() && operand == MmaType::Fp8 && has_vectors(tensor) {
        return RowStores::Bytes;
    }
    let is_packed =
        tensor.data_type.bits() == 16 && operand.bytes() == 2 && multiplied_type(tensor.data_type) == Ok(operand);
    match is_packed && tensor.stride[3] == 1 && tensor.dim[3] % 8 == 0 {
        true if has_vectors(tensor) => RowStores::Vectors,
        true => RowStores::Halves,
        false => RowStores::Elements,
    }
}

/// Tensors that operations on scores read in pairs.
fn paired(graph: &FinalizedGraph, scores: &Scores, extents: AttentionExtents) -> Vec<TensorId> {
    let Scores::Program(scores) = scores else { return Vec::new() };
    scores.program.loads().filter(|&id| is_paired(graph, id, extents.keys)).collect()
}

/// Whether a tensor of 16 or 32 bits has a value for each of so many keys, side by side, in pairs that start at their own size.
pub(in crate::engine::engines) fn is_paired(graph: &FinalizedGraph, id: TensorId, keys: i64) -> bool {
    let tensor = graph.tensor(id);
    let bytes = tensor.data_type.bits() as i64 / 8;
    let is_wide = matches!(tensor.data_type, DataType::Half | DataType::BFloat16 | DataType::Float);
    let others = |axis: usize| tensor.dim[axis] == 1 || tensor.stride[axis] % 2 == 0;
    is_wide
        && !tensor.is_pass_by_value
        && tensor.dim.len() == 4
        && tensor.dim[3] == keys
        && keys % 2 == 0
        && tensor.stride[3] == 1
        && (0..3).all(others)
        && tensor.alignment % (2 * bytes) == 0
}

/// Nothing stands before or behind the core, and all is computed in `FLOAT`.
fn only_attention(fusion: &Fusion) -> Result<(), String> {
    let graph = fusion.graph();
    for id in graph.operation_ids() {
        let operation = graph.describe_operation(id);
        if fusion.stage(id) != Stage::Core {
            return Err(format!("operation {operation} stands beside the attention"));
        }
        if graph.compute_type(id) != DataType::Float && graph.operation(id).pointwise().is_none() {
            return Err(format!("operation {operation} is computed in {}; required FLOAT", graph.compute_type(id)));
        }
    }
    Ok(())
}

/// The type of all that is multiplied. O is of it, or of another that sums are converted to.
fn operand_type(
    graph: &FinalizedGraph,
    attention: &Attention,
    operands: [TensorId; 3],
    output: TensorId,
) -> Result<MmaType, String> {
    let first = graph.tensor(operands[0]).data_type;
    let operand = if first.is_fp8() { MmaType::Fp8 } else { multiplied_type(first)? };
    let probabilities = attention.probabilities(graph);
    let is_fp8 = operand == MmaType::Fp8 && graph.tensor(probabilities).data_type.is_fp8();
    let mut all = operands.into_iter().chain((!is_fp8).then_some(probabilities));
    if let Some(id) = all.find(|&id| graph.tensor(id).data_type != first) {
        return Err(of_another_type(graph, id, first));
    }
    let stored = graph.tensor(output).data_type;
    match multiplied_type(stored).is_ok() || operand == MmaType::Fp8 && stored.is_fp8() {
        true => Ok(operand),
        false => Err(of_another_type(graph, output, first)),
    }
}

/// The type in which heads of a type are multiplied.
pub(in crate::engine::engines) fn multiplied_type(heads: DataType) -> Result<MmaType, String> {
    match heads {
        DataType::Half => Ok(MmaType::F16),
        DataType::BFloat16 => Ok(MmaType::Bf16),
        DataType::Float => Ok(MmaType::Tf32),
        other => Err(format!("no instruction for heads of {other}")),
    }
}

pub(in crate::engine::engines) fn of_another_type(graph: &FinalizedGraph, id: TensorId, required: DataType) -> String {
    let (tensor, found) = (graph.describe_tensor(id), graph.tensor(id).data_type);
    format!("tensor {tensor} is {found}; required {required}, the type of queries")
}

fn extents(graph: &FinalizedGraph, operands: [TensorId; 3]) -> AttentionExtents {
    let [q, k, v] = operands.map(|id| &graph.tensor(id).dim);
    AttentionExtents {
        batches: q[0],
        heads: q[1],
        key_heads: [k[1], v[1]],
        queries: q[2],
        keys: k[3],
        head: [q[3], v[3]],
        packed: 1,
    }
}

/// O is the caller's: no kernel computes statistics, or largest magnitudes, alone.
fn is_stored(graph: &FinalizedGraph, output: TensorId) -> Result<(), String> {
    match graph.tensor(output).is_virtual {
        true => Err(format!("tensor {} is virtual; required an O in memory", graph.describe_tensor(output))),
        false => Ok(()),
    }
}

/// Sinks, or their gradient, lie in memory, and rows of one head have the same.
pub(in crate::engine::engines) fn are_sinks(graph: &FinalizedGraph, id: TensorId) -> Result<(), String> {
    let (tensor, name) = (graph.tensor(id), graph.describe_tensor(id));
    if tensor.is_virtual || tensor.is_pass_by_value {
        return Err(format!("tensor {name}: sinks and their gradient are in memory"));
    }
    match tensor.dim.get(2) {
        Some(&rows) if rows != 1 => {
            Err(format!("tensor {name}: {rows} sinks of a head; required one for all its rows"))
        }
        _ => Ok(()),
    }
}

/// What the softmax stores of each row.
fn statistics(graph: &FinalizedGraph, softmax: OperationId) -> Result<RowStatistics, String> {
    let stored = |port| graph.operation(softmax).output(port).filter(|&id| !graph.tensor(id).is_virtual);
    let statistics =
        RowStatistics { stats: stored(Port::STATS), max: stored(Port::MAX), sum_exp: stored(Port::SUM_EXP) };
    match statistics.tensors().find(|&id| graph.tensor(id).data_type != DataType::Float) {
        Some(id) => Err(format!("tensor {}: statistics are stored in FLOAT", graph.describe_tensor(id))),
        None => Ok(statistics),
    }
}

/// Whether rows of a tensor of heads lie whole.
pub(in crate::engine::engines) fn has_rows(graph: &FinalizedGraph, id: TensorId) -> Result<(), String> {
    match graph.tensor(id).stride[3] {
        1 => Ok(()),
        stride => Err(format!("tensor {}: heads of stride {stride}; required 1", graph.describe_tensor(id))),
    }
}

/// Whether scores, sinks and values know of the lengths that scores are masked by, and of no others.
fn lengths_agree(graph: &FinalizedGraph, attention: &Attention, band: &Band) -> Result<(), String> {
    let [queries, keys] = band.lengths.map_or([None; 2], |lengths| lengths.map(Some));
    if graph.operation(attention.scores).inputs.len() > 2 {
        return Err("the extents of scores are overridden by tensors that mask none".to_owned());
    }
    let rows = graph.operation(attention.softmax);
    if rows.input(Port::SINK).is_some() && rows.input(Port::SEQ_LEN_Q) != queries {
        return Err("rows that have a sink are told by another length than rows that are masked".to_owned());
    }
    let output = graph.operation(attention.output);
    if output.input(Port::K_OVERRIDE) != keys {
        return Err("values are left out by another length than keys are masked by".to_owned());
    }
    if output.input(Port::BLOCK_MASK) != band.blocks {
        return Err("values are left out by another mask of blocks than keys are".to_owned());
    }
    Ok(())
}

/// Whether K and V have the batches of Q, and divisors of its heads: matmuls broadcast either operand.
fn heads_fit(graph: &FinalizedGraph, operands: [TensorId; 3], extents: AttentionExtents) -> Result<(), String> {
    for id in operands {
        let tensor = graph.tensor(id);
        let [batches, heads] = [tensor.dim[0], tensor.dim[1]];
        if batches != extents.batches || heads > extents.heads || extents.heads % heads != 0 {
            let tensor = graph.describe_tensor(id);
            return Err(format!(
                "tensor {tensor} has {batches} batches and {heads} heads; required {} and a divisor of {}",
                extents.batches, extents.heads
            ));
        }
    }
    Ok(())
}

/// Whether instructions take the heads.
pub(in crate::engine::engines) fn are_heads(extents: AttentionExtents) -> Result<(), String> {
    match extents.head.into_iter().find(|&size| size % 8 != 0 || size > LARGEST_HEAD) {
        Some(size) => Err(format!("heads of {size} elements; required a multiple of 8, at most {LARGEST_HEAD}")),
        None => Ok(()),
    }
}

/// Whether heads, queries and keys are numbers of 32 bits with room beyond them.
pub(in crate::engine::engines) fn are_counted(extents: AttentionExtents) -> Result<(), String> {
    let counted = [extents.batches.saturating_mul(extents.heads), extents.queries + 512, extents.keys + 512];
    match counted.into_iter().find(|&count| count > i64::from(i32::MAX / 4)) {
        Some(count) => Err(format!("{count} heads, queries or keys are more than are counted")),
        None => Ok(()),
    }
}

/// What becomes of a product of Q and K.
fn scores(graph: &FinalizedGraph, attention: &Attention) -> Result<Scores, String> {
    let [first, last] = attention.modified(graph);
    for id in [first, last] {
        let data_type = graph.tensor(id).data_type;
        if !data_type.is_floating() || data_type == DataType::Double {
            return Err(format!("tensor {}: no kernels for scores of {data_type}", graph.describe_tensor(id)));
        }
    }
    if let Some(factors) = factors(graph, attention, first) {
        return Ok(Scores::Scaled(factors));
    }
    for &id in &attention.modifiers {
        pointwise_is_taken(graph, graph.operation(id))
            .map_err(|reason| format!("no kernels for {}: {reason}", graph.describe_operation(id)))?;
    }
    let program = StageProgram::of(graph, attention.modifiers.iter().copied(), Some(first));
    if let Some(id) = program.loads().find(|&id| !is_spread(graph.tensor(id))) {
        return Err(format!("tensor {}: required 4 axes", graph.describe_tensor(id)));
    }
    Ok(Scores::Program(ScoreProgram::new(graph, program, last)))
}

fn is_spread(tensor: &FinalTensor) -> bool {
    tensor.dim.len() == 4 || tensor.dim.iter().all(|&extent| extent == 1)
}

/// The numbers that scores are multiplied by, where that is all that becomes of them.
fn factors(graph: &FinalizedGraph, attention: &Attention, first: TensorId) -> Option<Vec<TensorId>> {
    if graph.tensor(first).data_type != DataType::Float {
        return None; // the product is rounded first
    }
    let (mut x, mut factors) = (first, Vec::new());
    for _ in &attention.modifiers {
        let id = *graph.consumers(x).first()?;
        let operation = graph.operation(id);
        let pointwise = operation.pointwise().filter(|pointwise| pointwise.mode == PointwiseMode::Mul)?;
        let result = operation.result()?;
        let is_float = graph.compute_type(id) == DataType::Float && graph.tensor(result).data_type == DataType::Float;
        let mut others = operation.input_tensors().filter(|&id| id != x);
        let other = others.next().filter(|_| others.next().is_none())?;
        let is_number = graph.tensor(other).dim.iter().all(|&extent| extent == 1) && graph.producer(other).is_none();
        if pointwise.unscaled().is_none() || !is_float || !is_number || operation.inputs.len() != 2 {
            return None;
        }
        factors.push(other);
        x = result;
    }
    Some(factors)
}

fn band(graph: &FinalizedGraph, attention: &Attention) -> Result<Band, String> {
    let Some(id) = attention.mask else { return Ok(Band::default()) };
    let Attributes::Composite(Composite::ScoreMask(mask)) = &graph.operation(id).attributes else {
        return Err("a mask of another kind".to_owned());
    };
    is_in_float(graph, id)?;
    band_of(graph, id, *mask)
}

/// The band that an operation with the ports of a mask says.
///
/// # Errors
/// Lengths and bounds that kernels do not read.
pub(in crate::engine::engines) fn band_of(
    graph: &FinalizedGraph,
    id: OperationId,
    mask: ScoreMask,
) -> Result<Band, String> {
    let operation = graph.operation(id);
    let lengths = operation.input(Port::SEQ_LEN_Q).zip(operation.input(Port::SEQ_LEN_KV));
    if let Some(id) = lengths.into_iter().flat_map(|(a, b)| [a, b]).find(|&id| !is_length(graph, id)) {
        return Err(format!("tensor {}: lengths are INT32 in device memory", graph.describe_tensor(id)));
    }
    Ok(Band {
        left: edge(graph, mask.left_bound, operation.input(Port::LEFT_BOUND))?,
        right: edge(graph, mask.right_bound, operation.input(Port::RIGHT_BOUND))?,
        lengths: lengths.map(|(queries, keys)| [queries, keys]),
        is_bottom_right: mask.is_bottom_right,
        blocks: operation.input(Port::BLOCK_MASK).map(|id| block_mask(graph, id)).transpose()?,
    })
}

/// A mask of blocks that kernels read.
fn block_mask(graph: &FinalizedGraph, id: TensorId) -> Result<TensorId, String> {
    let tensor = graph.tensor(id);
    match tensor.is_virtual || tensor.is_pass_by_value || tensor.ragged_offset.is_some() {
        true => Err(format!("tensor {}: required is a mask of blocks in memory", graph.describe_tensor(id))),
        false => Ok(id),
    }
}

/// A bound of a mask: an attribute and a host scalar add up.
fn edge(graph: &FinalizedGraph, known: Option<i64>, more: Option<TensorId>) -> Result<Option<BandEdge>, String> {
    let is_number = |id: TensorId| {
        let tensor = graph.tensor(id);
        tensor.is_pass_by_value && matches!(tensor.data_type, DataType::Int32 | DataType::Int64 | DataType::Float)
    };
    if let Some(id) = more.filter(|&id| !is_number(id)) {
        return Err(format!("tensor {}: bounds are host scalars of INT32, INT64 or FLOAT", graph.describe_tensor(id)));
    }
    Ok((known.is_some() || more.is_some()).then_some(BandEdge { keys: known.unwrap_or(0), more }))
}

/// What an operation drops.
fn dropping(graph: &FinalizedGraph, id: OperationId) -> Result<ForwardDropout, String> {
    let operation = graph.operation(id);
    let p = operation.input(Port::X).filter(|&id| graph.tensor(id).data_type != DataType::Float);
    if let Some(id) = p {
        return Err(format!("tensor {}: probabilities are dropped in FLOAT", graph.describe_tensor(id)));
    }
    match &operation.attributes {
        Attributes::Composite(Composite::Dropout(dropout)) => {
            dropping_of(graph, id, dropout.kept).map(ForwardDropout::Drawn)
        }
        Attributes::Composite(Composite::MaskedDropout(_)) => masked(graph, operation),
        _ => Err("dropout of another kind".to_owned()),
    }
}

/// A mask that kernels read.
fn masked(graph: &FinalizedGraph, operation: &Operation) -> Result<ForwardDropout, String> {
    let read = |port| {
        let id = operation.input(port).ok_or_else(|| format!("port {port} is empty"))?;
        let tensor = graph.tensor(id);
        let is_float = matches!(tensor.data_type, DataType::Float | DataType::Half | DataType::BFloat16);
        match is_float && !tensor.is_virtual && tensor.ragged_offset.is_none() {
            true => Ok(id),
            false => Err(format!("tensor {}: required FLOAT, HALF or BFLOAT16 in memory", graph.describe_tensor(id))),
        }
    };
    Ok(ForwardDropout::Masked { mask: read(Port::DROPOUT_MASK)?, scale: read(Port::DROPOUT_SCALE)? })
}

/// What an operation with the ports of dropout drops.
///
/// # Errors
/// A factor that kernels do not read.
pub(in crate::engine::engines) fn dropping_of(
    graph: &FinalizedGraph,
    id: OperationId,
    kept: Bernoulli,
) -> Result<Dropping, String> {
    let input = |port| graph.operation(id).input(port).ok_or_else(|| format!("port {port} is empty"));
    let scale = input(Port::DROPOUT_SCALE)?;
    if !matches!(graph.tensor(scale).data_type, DataType::Float | DataType::Half | DataType::BFloat16) {
        return Err(format!(
            "tensor {}: what makes up for dropout is FLOAT, HALF or BFLOAT16",
            graph.describe_tensor(scale)
        ));
    }
    let state = [input(Port::SEED)?, input(Port::OFFSET)?];
    Ok(Dropping { threshold: kept.threshold(), state, scale })
}

/// Registers of a thread for the numbers that it draws.
pub(in crate::engine::engines) fn drawing_registers(dropout: Option<Dropping>) -> u32 {
    const DRAWING: u32 = 24;
    if dropout.is_some() { DRAWING } else { 0 }
}

/// The mask of an operation with the ports of dropout, where it is stored.
///
/// # Errors
/// A type that kernels do not store it in.
pub(in crate::engine::engines) fn mask_of(
    graph: &FinalizedGraph,
    id: OperationId,
    dropout: Option<Dropping>,
    extents: AttentionExtents,
) -> Result<Option<DropoutMaskKernel>, String> {
    let dump = graph.operation(id).output(Port::RNG_DUMP).filter(|&id| !graph.tensor(id).is_virtual);
    let Some((output, dropout)) = dump.zip(dropout) else { return Ok(None) };
    let tensor = graph.tensor(output);
    let refuse = |what: &str| Err(format!("tensor {}: what is kept is {what}", graph.describe_tensor(output)));
    if tensor.data_type != DataType::Float {
        return refuse("stored in FLOAT");
    }
    if tensor.ragged_offset.is_some() {
        return refuse("not stored in ragged tensors");
    }
    let extents = [extents.batches, extents.heads, extents.queries, extents.keys];
    Ok(Some(DropoutMaskKernel { output, dropout, extents }))
}

/// Adds the function that stores a mask.
pub(in crate::engine::engines) fn push_mask(
    builder: &mut KernelBuilder,
    graph: &FinalizedGraph,
    mask: &DropoutMaskKernel,
) {
    let shape = Shape::line_of_blocks(mask.items(), DropoutMaskKernel::THREADS);
    let is_scalar = |id: TensorId| graph.tensor(id).is_pass_by_value;
    let parameters = program_parameters(mask.dropout.reads(), &[mask.output], is_scalar);
    builder.push("dropout_mask", shape, parameters, Body::DropoutMask(mask.clone()));
}

fn is_length(graph: &FinalizedGraph, id: TensorId) -> bool {
    let tensor = graph.tensor(id);
    tensor.data_type == DataType::Int32 && !tensor.is_pass_by_value && !tensor.is_virtual
}

fn is_in_float(graph: &FinalizedGraph, id: OperationId) -> Result<(), String> {
    let result = graph.operation(id).result().map(|id| graph.tensor(id).data_type);
    match result {
        Some(DataType::Float) => Ok(()),
        other => Err(format!("masked scores are {}; required FLOAT", other.map_or("missing", DataType::name))),
    }
}
