//! Ragged tensors (`docs/spec/attention.md` AT-O6): the sequences of a batch lie where a tensor of offsets says, one behind the other. References
//! compute on dense tensors, in which rows that a sequence does not have are NaN.

use std::collections::BTreeSet;

use super::pages;
use super::values::row_major;
use crate::error::{Error, Result};
use crate::graph::{Attributes, Composite, FinalTensor, FinalizedGraph, Operation, Port, Scalar, TensorId};
use crate::host_tensor::{HostTensor, HostTensors};

/// Where the sequences of a ragged tensor lie.
pub(super) struct Sequences<'a> {
    tensor: &'a FinalTensor,
    /// How messages name it.
    name: String,
    /// The axes of rows, and of their elements.
    axes: [usize; 2],
    /// The first element of each sequence, and its rows.
    places: Vec<(usize, i64)>,
}

/// The axis of heads of a tensor of an attention, and how many axes there are.
const HEADS: usize = 1;
const RANK: usize = 4;

/// The axes of rows and of their elements: K stands in a forward pass as it is multiplied.
fn axes(graph: &FinalizedGraph, id: TensorId) -> [usize; 2] {
    let is_multiplied = |operation: &Operation| {
        matches!(operation.attributes, Attributes::Matmul(_)) && operation.input(Port::B) == Some(id)
    };
    let mut products = graph.operations().filter(|operation| is_multiplied(operation));
    let is_of_scores = |operation: &Operation| !operation.input(Port::A).is_some_and(|a| are_probabilities(graph, a));
    if products.any(is_of_scores) { [3, 2] } else { [2, 3] }
}

/// Whether a product, of scores, is among the operations that a tensor is made by.
fn are_probabilities(graph: &FinalizedGraph, id: TensorId) -> bool {
    let mut open = vec![id];
    let mut seen = BTreeSet::new();
    while let Some(id) = open.pop() {
        let Some(producer) = graph.producer(id).filter(|&producer| seen.insert(producer)) else { continue };
        let operation = graph.operation(producer);
        if matches!(operation.attributes, Attributes::Matmul(_)) {
            return true;
        }
        open.extend(operation.input_tensors());
    }
    false
}

impl<'a> Sequences<'a> {
    /// The sequences of a tensor as long as offsets leave room for them; `None` where it is not ragged.
    ///
    /// # Errors
    /// [`Error::Input`] for offsets that descend, or are none.
    pub(super) fn of(graph: &'a FinalizedGraph, inputs: &HostTensors, id: TensorId) -> Result<Option<Self>> {
        let tensor = graph.tensor(id);
        let Some(offsets) = tensor.ragged_offset else { return Ok(None) };
        let name = graph.describe_tensor(id);
        let fault = |message: &str| Error::input(format!("tensor {name}"), message);
        let host =
            inputs.get(&offsets).ok_or_else(|| fault("the offsets of its sequences are not among the inputs"))?;
        let offsets: Vec<i64> = host.to_dense()?;
        let multiplied = |offset: &i64| offset.checked_mul(tensor.ragged_offset_multiplier);
        let offsets: Option<Vec<i64>> = offsets.iter().map(multiplied).collect();
        let offsets = offsets.ok_or_else(|| fault("an offset of its sequences overflows"))?;
        if tensor.dim.len() != RANK || offsets.len() as i64 != tensor.dim[0] + 1 {
            return Err(fault("is ragged; required: four axes, and one offset more than there are batches"));
        }
        let axes = axes(graph, id);
        let place = |pair: &[i64]| {
            let (start, room) = (usize::try_from(pair[0]).ok()?, u64::try_from(pair[1].checked_sub(pair[0])?).ok()?);
            let rows = room.div_ceil(tensor.stride[axes[0]].max(1) as u64).min(tensor.dim[axes[0]] as u64);
            Some((start, rows as i64))
        };
        let places: Option<_> = offsets.windows(2).map(place).collect();
        Ok(Some(Self {
            tensor,
            places: places.ok_or_else(|| fault("the offsets of its sequences descend, or are below 0"))?,
            name,
            axes,
        }))
    }

    /// No sequence longer than a tensor of lengths says.
    fn within(mut self, lengths: Option<&HostTensor>) -> Result<Self> {
        if let Some(lengths) = lengths {
            for ((_, rows), length) in self.places.iter_mut().zip(lengths.to_dense::<i64>()?) {
                *rows = length.clamp(0, *rows);
            }
        }
        Ok(self)
    }

    /// Linear offsets of the elements that exist, with their row-major positions.
    fn elements(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let (dim, stride, [along_rows, along]) = (&self.tensor.dim, &self.tensor.stride, self.axes);
        self.places.iter().zip(0..).flat_map(move |(&(start, rows), batch)| {
            (0..dim[HEADS]).flat_map(move |head| {
                (0..rows).flat_map(move |row| {
                    (0..dim[along]).map(move |element| {
                        let offset = head * stride[HEADS] + row * stride[along_rows] + element * stride[along];
                        let [third, last] = if along_rows == 2 { [row, element] } else { [element, row] };
                        let position = ((batch * dim[HEADS] + head) * dim[2] + third) * dim[3] + last;
                        (start + offset as usize, position as usize)
                    })
                })
            })
        })
    }

    /// Linear offsets of elements that lie side by side, and how many do: whole rows where these lie whole.
    fn runs(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let (dim, stride, [along_rows, along]) = (&self.tensor.dim, &self.tensor.stride, self.axes);
        let count = if stride[along] == 1 { dim[along].max(1) } else { 1 };
        self.places.iter().flat_map(move |&(start, rows)| {
            (0..dim[HEADS]).flat_map(move |head| {
                (0..rows).flat_map(move |row| {
                    (0..dim[along] / count).map(move |element| {
                        let offset = head * stride[HEADS] + row * stride[along_rows] + element * stride[along];
                        (start + offset as usize, count as usize)
                    })
                })
            })
        })
    }

    /// The sequences of a tensor in memory, dense.
    fn gathered(&self, host: &HostTensor) -> Result<HostTensor> {
        let mut dense = HostTensor::poisoned(self.tensor.data_type, &self.tensor.dim, &row_major(&self.tensor.dim))?;
        for (offset, position) in self.elements() {
            let value = host.get(offset).ok_or_else(|| self.beyond())?;
            dense.set(position, value);
        }
        Ok(dense)
    }

    /// Row-major values where strides find them in memory that has these sequences, and `absent` elsewhere.
    fn placed<T: Copy>(&self, values: &[T], absent: T) -> Result<Vec<T>> {
        let (dim, stride) = (&self.tensor.dim, &self.tensor.stride);
        let bits = self.tensor.data_type.bits() as usize;
        let bytes = HostTensor::storage_bytes(self.tensor.data_type, dim, stride)?;
        let mut memory = vec![absent; bytes * 8 / bits.max(1)];
        for (offset, position) in self.elements() {
            *memory.get_mut(offset).ok_or_else(|| self.beyond())? = values[position];
        }
        let mut found = Vec::with_capacity(values.len());
        for position in 0..values.len() as i64 {
            let mut rest = position;
            let mut offset = 0;
            for axis in (0..dim.len()).rev() {
                offset += rest % dim[axis] * stride[axis];
                rest /= dim[axis];
            }
            found.push(memory[offset as usize]);
        }
        Ok(found)
    }

    fn beyond(&self) -> Error {
        let message = "a sequence lies beyond what dims and strides say of its memory";
        Error::input(format!("tensor {}", self.name), message)
    }
}

/// The ragged ones of the inputs, dense.
pub(super) fn gathered(graph: &FinalizedGraph, inputs: &HostTensors) -> Result<HostTensors> {
    let mut dense = HostTensors::new();
    for id in graph.inputs().filter(|&id| graph.tensor(id).ragged_offset.is_some()) {
        if let (Some(sequences), Some(host)) = (Sequences::of(graph, inputs, id)?, inputs.get(&id)) {
            dense.insert(id, sequences.gathered(host)?);
        }
    }
    Ok(dense)
}

/// What is known of a result's elements, row-major, as strides find it in memory; `absent` where a ragged result is not written.
pub(super) fn placed<T: Copy>(
    graph: &FinalizedGraph,
    inputs: &HostTensors,
    id: TensorId,
    values: Vec<T>,
    absent: T,
) -> Result<Vec<T>> {
    let Some(sequences) = Sequences::of(graph, inputs, id)? else { return Ok(values) };
    let lengths = sequence_lengths(graph, id).and_then(|id| inputs.get(&id));
    sequences.within(lengths)?.placed(&values, absent)
}

/// A dense result as it lies in memory.
pub(super) fn stored(
    graph: &FinalizedGraph,
    inputs: &HostTensors,
    (id, dense): (TensorId, HostTensor),
) -> Result<(TensorId, HostTensor)> {
    let tensor = graph.tensor(id);
    if tensor.ragged_offset.is_none() {
        return Ok((id, dense));
    }
    let values = placed(graph, inputs, id, dense.to_dense::<f64>()?, f64::NAN)?;
    Ok((id, HostTensor::from_dense(tensor.data_type, &tensor.dim, &tensor.stride, &values)?))
}

/// Gives offsets of sequences values by which these lie one behind the other, as long as the given lengths say; behind some is room for a row.
/// Where rows are not the outermost axis of a batch, sequences lie where strides say. Those that memory has no room for become empty.
pub(super) fn complete(graph: &FinalizedGraph, inputs: &mut HostTensors) -> Result<()> {
    let all: Vec<TensorId> = graph.inputs().filter(|&id| graph.are_offsets(id)).collect();
    for id in all {
        let users: Vec<TensorId> =
            graph.tensor_ids().filter(|&user| graph.tensor(user).ragged_offset == Some(id)).collect();
        let tensor = graph.tensor(id);
        let mut offsets = vec![0];
        for batch in 0..tensor.dim.first().map_or(0, |count| count - 1) {
            let (mut step, first) = (0, offsets[batch as usize]);
            for &user in &users {
                step = step.max(room(graph, inputs, user, batch)?);
            }
            let is_inside = users.iter().all(|&user| ends_inside(graph, user, [first, first + step]));
            offsets.push(if is_inside { first + step } else { first });
            if !is_inside {
                users.iter().try_for_each(|&user| empty(graph, inputs, user, batch))?;
            }
        }
        let offset = |position: usize| offsets.get(position).map_or(0.0, |&offset| offset as f64);
        inputs.insert(id, HostTensor::from_fn(tensor.data_type, &tensor.dim, &tensor.stride, offset)?);
    }
    poison_gaps(graph, inputs)
}

/// Says that a batch's sequence of a ragged tensor has no rows, where lengths are given.
fn empty(graph: &FinalizedGraph, inputs: &mut HostTensors, id: TensorId, batch: i64) -> Result<()> {
    let Some((id, lengths)) = sequence_lengths(graph, id).and_then(|id| Some((id, inputs.get(&id)?))) else {
        return Ok(());
    };
    let mut values: Vec<i64> = lengths.to_dense()?;
    values.get_mut(batch as usize).into_iter().for_each(|length| *length = 0);
    let emptied = HostTensor::from_dense(lengths.data_type, &lengths.dim, &lengths.stride, &values)?;
    inputs.insert(id, emptied);
    Ok(())
}

/// Leaves nothing of ragged inputs but their sequences: what lies between or behind these is never read.
fn poison_gaps(graph: &FinalizedGraph, inputs: &mut HostTensors) -> Result<()> {
    for id in graph.inputs().filter(|&id| graph.tensor(id).ragged_offset.is_some()) {
        let (Some(sequences), Some(host)) = (Sequences::of(graph, inputs, id)?, inputs.get(&id)) else { continue };
        let lengths = sequence_lengths(graph, id).and_then(|id| inputs.get(&id));
        let sequences = sequences.within(lengths)?;
        let mut kept = HostTensor::poisoned(host.data_type, &host.dim, &host.stride)?;
        let bytes = host.data_type.bits() as usize / 8;
        for (offset, count) in sequences.runs() {
            let run = offset * bytes..(offset + count) * bytes;
            let pair = kept.bytes.get_mut(run.clone()).zip(host.bytes.get(run));
            pair.map(|(kept, given)| kept.copy_from_slice(given)).ok_or_else(|| sequences.beyond())?;
        }
        inputs.insert(id, kept);
    }
    Ok(())
}

/// A tensor that has these values for rows that exist, row-major, and else what lies there.
pub(super) fn with_rows(
    graph: &FinalizedGraph,
    inputs: &HostTensors,
    id: TensorId,
    values: &[i64],
) -> Result<HostTensor> {
    let tensor = graph.tensor(id);
    let Some(sequences) = Sequences::of(graph, inputs, id)? else {
        return HostTensor::from_dense(tensor.data_type, &tensor.dim, &tensor.stride, values);
    };
    let mut host = HostTensor::poisoned(tensor.data_type, &tensor.dim, &tensor.stride)?;
    for (offset, position) in sequences.elements() {
        host.set(offset, Scalar::Integer(values[position])).ok_or_else(|| sequences.beyond())?;
    }
    Ok(host)
}

/// Whether a sequence between two offsets ends within what dims and strides say of a tensor's memory.
fn ends_inside(graph: &FinalizedGraph, id: TensorId, offsets: [i64; 2]) -> bool {
    let tensor = graph.tensor(id);
    let (dim, stride) = (&tensor.dim, &tensor.stride);
    if dim.len() != RANK {
        return true;
    }
    let [begin, end] = offsets.map(|offset| offset.saturating_mul(tensor.ragged_offset_multiplier.max(1)));
    let [along_rows, along] = axes(graph, id);
    let rows = ((end - begin + stride[along_rows].max(1) - 1) / stride[along_rows].max(1)).min(dim[along_rows]);
    let reach = |axis: usize| (dim[axis] - 1).saturating_mul(stride[axis]);
    let last = reach(HEADS).saturating_add(reach(along)).saturating_add((rows - 1).saturating_mul(stride[along_rows]));
    let all = (0..RANK).map(reach).fold(0, i64::saturating_add);
    rows == 0 || begin.saturating_add(last) <= all
}

/// What a batch's sequence of a ragged tensor takes of its memory, in units of its offsets.
fn room(graph: &FinalizedGraph, inputs: &HostTensors, id: TensorId, batch: i64) -> Result<i64> {
    let tensor = graph.tensor(id);
    let (dim, stride, unit) = (&tensor.dim, &tensor.stride, tensor.ragged_offset_multiplier.max(1));
    if dim.len() != RANK {
        return Ok(0);
    }
    let [along_rows, along] = axes(graph, id);
    let (all, row) = (dim[along_rows], stride[along_rows]);
    let is_inside = |axis: usize| dim[axis] == 1 || stride[axis].saturating_mul(dim[axis]) <= row;
    if ![HEADS, along].into_iter().all(is_inside) {
        // what a batch has, whatever stride stands there: that of an axis of one says nothing, nor does that of ragged batches
        let reach = |axis: usize| (dim[axis] - 1).saturating_mul(stride[axis]);
        let of_one = (HEADS..RANK).map(reach).fold(1, i64::saturating_add);
        return Ok(stride[0].max(of_one).saturating_add(unit - 1) / unit);
    }
    let lengths = match pages::needed(graph, inputs, id)? {
        Some(entries) => Some(entries),
        None => {
            let lengths = sequence_lengths(graph, id).and_then(|id| inputs.get(&id));
            lengths.map(HostTensor::to_dense::<i64>).transpose()?
        }
    };
    let length = lengths.and_then(|lengths| lengths.get(batch as usize).copied()).unwrap_or(all).clamp(0, all);
    Ok(((length + batch % 2).min(all) * row + unit - 1) / unit)
}

/// The lengths of the sequences that a tensor of an attention has rows of: those of queries, or of keys. `None` where every sequence is as
/// long as the tensor.
fn sequence_lengths(graph: &FinalizedGraph, id: TensorId) -> Option<TensorId> {
    let masked = graph.operations().find(|operation| has_lengths(operation))?;
    let is_of_keys = graph.operations().any(|operation| is_of_keys(operation, id));
    masked.input(if is_of_keys { Port::SEQ_LEN_KV } else { Port::SEQ_LEN_Q })
}

fn has_lengths(operation: &Operation) -> bool {
    match &operation.attributes {
        Attributes::Composite(Composite::ScoreMask(_) | Composite::AttentionBackward(_)) => {
            operation.input(Port::SEQ_LEN_Q).is_some()
        }
        _ => false,
    }
}

/// Whether an operation has a tensor as keys or values, or as a gradient of theirs: of a forward pass the second operand of a product.
fn is_of_keys(operation: &Operation, id: TensorId) -> bool {
    const OF_KEYS: [Port; 4] = [Port::K, Port::V, Port::DK, Port::DV];
    match &operation.attributes {
        Attributes::Matmul(_) => operation.input(Port::B) == Some(id),
        Attributes::Composite(Composite::AttentionBackward(_)) => {
            OF_KEYS.iter().any(|&port| [operation.input(port), operation.output(port)].contains(&Some(id)))
        }
        _ => false,
    }
}
