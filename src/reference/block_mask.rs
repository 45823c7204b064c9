//! Bits of tiles of scores (`docs/spec/attention.md` AT-O11): each byte has eight tiles that lie side by side, the first in its least bit.

use rayon::prelude::*;

use super::values::Values;
use crate::error::{Error, Result};
use crate::graph::{FinalizedGraph, OperationId, Port, ScoreMask, TensorId};
use crate::host_tensor::{HostTensor, reserve};

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
    const TILE: usize = ScoreMask::TILE as usize;
    let missing = || Error::input(format!("port {}", Port::BLOCK_MASK), "has no mask of tiles");
    let mask = values.get(graph.operation(id).input(Port::BLOCK_MASK).ok_or_else(missing)?)?;
    let bytes: Vec<i64> = mask.to_dense()?;
    let (dim, of_mask) = (&graph.tensor(y).dim, &mask.dim);
    let (&[.., queries, keys], &[.., rows, columns]) = (&dim[..], &of_mask[..]) else { return Err(missing()) };
    let [queries, keys, rows, columns] = [queries, keys, rows, columns].map(|extent| extent as usize);
    let mut bits = reserve(dim.iter().product::<i64>() as usize)?;
    bits.resize(dim.iter().product::<i64>() as usize, 0.0_f32);
    bits.par_chunks_mut(keys.max(1)).enumerate().for_each(|(row, elements)| {
        let first = (row / queries * rows + row % queries / TILE) * columns;
        for (column, element) in elements.iter_mut().enumerate() {
            let tile = column / TILE;
            let byte = bytes.get(first + tile / 8).copied().unwrap_or(0);
            *element = (byte >> (tile % 8) & 1) as f32;
        }
    });
    Ok(bits)
}
