//! Tiles of scores that a mask of bits keeps (`docs/spec/attention.md` AT-O11): each byte has eight tiles that lie side by side, the first in its
//! least bit. What the others are multiplied with does not count, and may be NaN (AT-O36).

use std::ops::Range;

use rayon::prelude::*;

use super::values::Values;
use crate::error::{Error, Result};
use crate::graph::{Attributes, Composite, FinalizedGraph, Operation, OperationId, Port, ScoreMask, TensorId};
use crate::host_tensor::{HostTensor, HostTensors, reserve, to_usize};

/// Rows and columns of a tile, and tiles of a byte.
const TILE: usize = ScoreMask::TILE as usize;
const TILES_OF_BYTE: usize = ScoreMask::TILES_OF_BYTE as usize;

/// A mask of matrices of scores.
pub(super) struct Blocks {
    bytes: Vec<u8>,
    /// Rows and columns of a matrix.
    scores: [usize; 2],
}

impl Blocks {
    /// The mask of these bytes, row-major, of matrices of so many rows and columns.
    pub(super) fn new(bytes: &[f64], scores: [usize; 2]) -> Self {
        Self { bytes: bytes.iter().map(|&byte| byte as u8).collect(), scores }
    }

    /// Whether an element of a matrix is kept.
    pub(super) fn is_kept(&self, matrix: usize, [row, column]: [usize; 2]) -> bool {
        let [rows, columns] = self.scores.map(|extent| extent.div_ceil(TILE));
        let columns = columns.div_ceil(TILES_OF_BYTE);
        let (row, column) = (row / TILE, column / TILE);
        let byte = self.bytes.get((matrix * rows + row) * columns + column / TILES_OF_BYTE);
        byte.is_some_and(|byte| byte >> (column % TILES_OF_BYTE) & 1 == 1)
    }

    /// Rows that have the same tiles.
    pub(super) fn rows(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        stretches(self.scores[0])
    }

    /// The columns that are left out in a row of a matrix.
    pub(super) fn left_out(&self, matrix: usize, row: usize) -> impl Iterator<Item = Range<usize>> + '_ {
        stretches(self.scores[1]).filter(move |columns| !self.is_kept(matrix, [row, columns.start]))
    }
}

/// The stretches of an axis that tiles have.
fn stretches(extent: usize) -> impl Iterator<Item = Range<usize>> {
    (0..extent).step_by(TILE).map(move |first| first..(first + TILE).min(extent))
}

/// Y of the CPU engine.
pub(super) fn bits(graph: &FinalizedGraph, id: OperationId, values: &Values) -> Result<Vec<(TensorId, HostTensor)>> {
    let Some(y) = graph.operation(id).output(Port::Y) else { return Ok(Vec::new()) };
    let bits = spread(graph, id, y, values)?;
    Ok(vec![(y, values.poisoned(y)?.with_dense(&bits)?)])
}

/// Y by its definition.
pub(super) fn exact(graph: &FinalizedGraph, id: OperationId, values: &Values) -> Result<Vec<Vec<f64>>> {
    let Some(y) = graph.operation(id).output(Port::Y) else { return Ok(Vec::new()) };
    Ok(vec![spread(graph, id, y, values)?.into_iter().map(f64::from).collect()])
}

/// 1 where the bit of an element's tile is set and 0 elsewhere, row-major.
fn spread(graph: &FinalizedGraph, id: OperationId, y: TensorId, values: &Values) -> Result<Vec<f32>> {
    let missing = || Error::input(format!("port {}", Port::BLOCK_MASK), "has no mask of tiles");
    let mask = values.get(graph.operation(id).input(Port::BLOCK_MASK).ok_or_else(missing)?)?;
    let dim = to_usize(&graph.tensor(y).dim);
    let &[.., queries, keys] = &dim[..] else { return Err(missing()) };
    let blocks = Blocks::new(&mask.to_dense::<f64>()?, [queries, keys]);
    let count = dim.iter().product();
    let mut bits = reserve(count)?;
    bits.resize(count, 0.0_f32);
    bits.par_chunks_mut(keys.max(1)).enumerate().for_each(|(row, elements)| {
        let (matrix, row) = (row / queries, row % queries);
        for (column, element) in elements.iter_mut().enumerate() {
            *element = f32::from(blocks.is_kept(matrix, [row, column]));
        }
    });
    Ok(bits)
}

/// Gives masks bits, of which rows and columns of tiles have none here and there. What no score is computed of, of keys and values that lie whole in
/// memory, becomes NaN.
pub(super) fn complete(graph: &FinalizedGraph, inputs: &mut HostTensors, draw: impl Fn(usize) -> u64) -> Result<()> {
    for operation in graph.operations() {
        let Attributes::Composite(Composite::ScoreMask(_)) = &operation.attributes else { continue };
        let Some(mask) = operation.input(Port::BLOCK_MASK).filter(|id| inputs.contains_key(id)) else { continue };
        let Some(scores) = operation.input(Port::X).map(|id| graph.tensor(id).dim.clone()) else { continue };
        let tensor = graph.tensor(mask);
        let bytes = bytes(&tensor.dim, &draw);
        inputs.insert(mask, HostTensor::from_dense(tensor.data_type, &tensor.dim, &tensor.stride, &bytes)?);
        for (id, axis) in multiplied(graph, mask, &scores) {
            forget_unread(graph, inputs, (id, axis), (&bytes, &scores))?;
        }
    }
    Ok(())
}

/// The bytes of a mask.
fn bytes(dim: &[i64], draw: impl Fn(usize) -> u64) -> Vec<f64> {
    let &[batches, heads, rows, columns] = &to_usize(dim)[..] else { return Vec::new() };
    let byte = |position: usize| {
        let (row, column, batch) = (position / columns, position % columns, position / (heads * rows * columns));
        let [of_row, of_column] = [(1, row), (2, batch * columns + column)].map(|(what, at)| draw(3 * at + what));
        let is_left_out = of_row >> 32 & 3 == 0;
        let kept = of_column >> 16 | of_column >> 24;
        if is_left_out { 0.0 } else { (draw(3 * position) >> 40 & kept & 0xff) as f64 }
    };
    (0..batches * heads * rows * columns).map(byte).collect()
}

/// Keys and values of scores that a mask is of, with the axis of their positions.
fn multiplied(graph: &FinalizedGraph, mask: TensorId, scores: &[i64]) -> Vec<(TensorId, usize)> {
    let side = |operation: &Operation| {
        let (b, c) = (operation.input(Port::B)?, operation.result()?);
        match operation.input(Port::BLOCK_MASK) {
            Some(id) => (id == mask).then_some((b, 2)),
            None => (graph.tensor(c).dim == scores).then_some((b, 3)),
        }
    };
    let products = graph.operations().filter(|operation| matches!(operation.attributes, Attributes::Matmul(_)));
    let is_whole = |id: TensorId| graph.consumers(id).len() == 1 && graph.tensor(id).ragged_offset.is_none();
    products.filter_map(side).filter(|&(id, _)| is_whole(id)).collect()
}

/// Makes positions of keys, or of values, NaN that all rows of all heads leave out.
fn forget_unread(
    graph: &FinalizedGraph,
    inputs: &mut HostTensors,
    (id, axis): (TensorId, usize),
    (bytes, scores): (&[f64], &[i64]),
) -> Result<()> {
    let tensor = graph.tensor(id);
    let Some(host) = inputs.get(&id) else { return Ok(()) };
    let (dim, &[_, heads, queries, keys]) = (to_usize(&tensor.dim), &to_usize(scores)[..]) else { return Ok(()) };
    let blocks = Blocks::new(bytes, [queries, keys]);
    let group = heads / dim[1].max(1);
    let is_read = |matrix: usize, key: usize| {
        let (batch, first) = (matrix / dim[1], matrix % dim[1] * group);
        let mut of_group = (first..first + group).map(|head| batch * heads + head);
        of_group.any(|matrix| blocks.rows().any(|rows| blocks.is_kept(matrix, [rows.start, key])))
    };
    let mut values = host.to_dense::<f64>()?;
    let inner: usize = dim[axis + 1..].iter().product();
    for (at, value) in values.iter_mut().enumerate() {
        if !is_read(at / (dim[2] * dim[3]), at / inner % dim[axis]) {
            *value = f64::NAN;
        }
    }
    inputs.insert(id, HostTensor::from_dense(tensor.data_type, &tensor.dim, &tensor.stride, &values)?);
    Ok(())
}
