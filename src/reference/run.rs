//! Chains of pointwise operations, evaluated together chunk by chunk so that values between them need no memory.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use super::pointwise::apply;
use super::values::Values;
use crate::error::Result;
use crate::graph::{Attributes, DataType, FinalizedGraph, OperationId, Pointwise, PointwiseMode, TensorId};
use crate::host_tensor::{HostTensor, Lanes, Traversal, store_outputs, to_usize};

/// Consecutive pointwise operations with results of the same extents and layout.
pub(super) struct Run<'a> {
    graph: &'a FinalizedGraph,
    instructions: Vec<Instruction<'a>>,
    sources: Vec<Source>,
    /// Results that are read outside of the run or are outputs, with the instruction that gives each.
    stored: Vec<(usize, TensorId)>,
}

/// What a run reads from outside.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    Tensor(TensorId),
    /// The index along an axis (`GEN_INDEX`).
    Index(usize),
}

/// One operation, with operands resolved.
struct Instruction<'a> {
    pointwise: &'a Pointwise,
    compute: DataType,
    operands: Vec<(Operand, DataType)>,
    result: DataType,
}

#[derive(Clone, Copy)]
enum Operand {
    Source(usize),
    Instruction(usize),
}

/// Compute types as the arithmetic sees them.
pub(super) fn arithmetic(compute: DataType) -> DataType {
    if compute == DataType::FastFloatForFp8 { DataType::Float } else { compute }
}

impl<'a> Run<'a> {
    /// The run of these operations, all pointwise and in topological order. `is_stored` tells which results are needed
    /// outside of it.
    pub(super) fn new(
        graph: &'a FinalizedGraph,
        operations: &[OperationId],
        is_stored: impl Fn(TensorId) -> bool,
    ) -> Self {
        let mut run = Self { graph, instructions: Vec::new(), sources: Vec::new(), stored: Vec::new() };
        let (mut produced, mut known) = (BTreeMap::new(), BTreeMap::new());
        for &id in operations {
            let operation = graph.operation(id);
            let (Attributes::Pointwise(pointwise), Some(result)) = (&operation.attributes, operation.result()) else {
                continue;
            };
            let mut operands = Vec::new();
            for tensor in operation.input_tensors() {
                let source = source_of(pointwise, tensor);
                let operand = match (source, produced.get(&tensor)) {
                    (Source::Tensor(_), Some(&instruction)) => Operand::Instruction(instruction),
                    _ => run.source(source, &mut known),
                };
                operands.push((operand, run.operand_type(operand, tensor)));
            }
            produced.insert(result, run.instructions.len());
            if is_stored(result) {
                run.stored.push((run.instructions.len(), result));
            }
            let (compute, result) = (arithmetic(graph.compute_type(id)), graph.tensor(result).data_type);
            run.instructions.push(Instruction { pointwise, compute, operands, result });
        }
        run
    }

    fn source(&mut self, source: Source, known: &mut BTreeMap<Source, usize>) -> Operand {
        let next = self.sources.len();
        let place = *known.entry(source).or_insert(next);
        if place == next {
            self.sources.push(source);
        }
        Operand::Source(place)
    }

    fn operand_type(&self, operand: Operand, tensor: TensorId) -> DataType {
        match operand {
            Operand::Source(place) if matches!(self.sources[place], Source::Index(_)) => DataType::Int64,
            _ => self.graph.tensor(tensor).data_type,
        }
    }

    /// Computes and gives the stored results.
    pub(super) fn execute(&self, values: &Values) -> Result<Vec<(TensorId, HostTensor)>> {
        let ids = self.stored.iter().map(|stored| stored.1);
        let mut outputs = ids.map(|id| Ok((id, values.poisoned(id)?))).collect::<Result<Vec<_>>>()?;
        let Some(&(_, first)) = self.stored.first() else { return Ok(outputs) };
        let extents = to_usize(&self.graph.tensor(first).dim);
        let sources: Vec<Option<&HostTensor>> =
            self.sources.iter().map(|source| self.tensor_of(*source, values)).collect::<Result<_>>()?;
        let strides: Vec<Vec<usize>> = sources
            .iter()
            .zip(&self.sources)
            .map(|(tensor, source)| match (tensor, source) {
                (Some(tensor), _) => tensor.strides_within(&extents),
                (None, Source::Index(axis)) => (0..extents.len()).map(|a| usize::from(a == *axis)).collect(),
                (None, Source::Tensor(_)) => vec![0; extents.len()],
            })
            .collect();
        let mut tensors: Vec<&mut HostTensor> = outputs.iter_mut().map(|output| &mut output.1).collect();
        store_outputs(&mut tensors, &strides, |space, range| self.evaluate(&sources, space, range));
        Ok(outputs)
    }

    fn tensor_of<'v>(&self, source: Source, values: &'v Values) -> Result<Option<&'v HostTensor>> {
        match source {
            Source::Tensor(id) => values.get(id).map(Some),
            Source::Index(_) => Ok(None),
        }
    }

    /// Values of the stored results at a range of positions.
    fn evaluate(&self, sources: &[Option<&HostTensor>], space: &Traversal, range: Range<usize>) -> Vec<Lanes> {
        let load = |(i, source): (usize, &Option<&HostTensor>)| match source {
            Some(tensor) => tensor.load(space, i + 1, range.clone()),
            None => index_row(space, i + 1, range.clone()),
        };
        let loaded: Vec<Lanes> = sources.iter().enumerate().map(load).collect();
        let mut results: Vec<Lanes> = Vec::with_capacity(self.instructions.len());
        for instruction in &self.instructions {
            let row = |&(operand, data_type): &(Operand, DataType)| {
                let lanes = match operand {
                    Operand::Source(place) => &loaded[place],
                    Operand::Instruction(place) => &results[place],
                };
                lanes.converted(data_type, instruction.compute)
            };
            let rows: Vec<Cow<Lanes>> = instruction.operands.iter().map(row).collect();
            let result = apply(instruction.pointwise, instruction.compute, &rows);
            results.push(result.into_converted(instruction.compute, instruction.result));
        }
        self.stored.iter().map(|&(place, _)| std::mem::replace(&mut results[place], Lanes::I32(Vec::new()))).collect()
    }
}

fn source_of(pointwise: &Pointwise, tensor: TensorId) -> Source {
    match (pointwise.mode, pointwise.axis.map(usize::try_from)) {
        (PointwiseMode::GenIndex, Some(Ok(axis))) => Source::Index(axis),
        _ => Source::Tensor(tensor),
    }
}

/// Indices along the axis that the operand's strides single out.
fn index_row(space: &Traversal, operand: usize, range: Range<usize>) -> Lanes {
    let step = space.inner_stride(operand);
    let mut indices = Vec::with_capacity(range.len());
    space.for_each_run(operand, range, |start, len| indices.extend((0..len).map(|i| (start + i * step) as i64)));
    Lanes::I64(indices)
}
