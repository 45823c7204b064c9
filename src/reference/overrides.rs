//! Override extents of matmuls: beyond them elements of the operands are the padding value (operations.md O-12). And which tiles of the first
//! operand are multiplied (AT-O11).

use super::block_mask::Blocks;
use super::oracle::DenseF64;
use crate::graph::{Attributes, FinalizedGraph, Operation, OperationId, Port};

/// How much of each batch an operation takes, along m, n and k.
pub(super) struct Overrides {
    limits: [Option<Vec<usize>>; 3],
    /// The bytes of a mask of tiles of A.
    blocks: Option<Vec<f64>>,
    /// What stands beyond.
    pub(super) padding: f64,
}

/// Indices of a matmul, as places of [`Overrides::limits`].
const M: usize = 0;
const N: usize = 1;
const K: usize = 2;

/// Rows and columns of A and B.
pub(super) const SIDES: [[usize; 2]; 2] = [[M, K], [K, N]];

impl Overrides {
    const PORTS: [Port; 3] = [Port::M_OVERRIDE, Port::N_OVERRIDE, Port::K_OVERRIDE];

    /// Those of an operation, whose tensors' values `values` gives by port; `None` where it has none.
    pub(super) fn of<E>(
        operation: &Operation,
        mut values: impl FnMut(Port) -> Result<Vec<f64>, E>,
    ) -> Result<Option<Self>, E> {
        let Attributes::Matmul(matmul) = &operation.attributes else { return Ok(None) };
        if operation.inputs.len() <= SIDES.len() {
            return Ok(None);
        }
        let mut limits = [None, None, None];
        for (limit, port) in limits.iter_mut().zip(Self::PORTS) {
            if operation.input(port).is_some() {
                *limit = Some(values(port)?.into_iter().map(|extent| extent.max(0.0) as usize).collect());
            }
        }
        let blocks = operation.input(Port::BLOCK_MASK).map(|_| values(Port::BLOCK_MASK)).transpose()?;
        Ok(Some(Self { limits, blocks, padding: matmul.padding_value }))
    }

    /// Which tiles of matrices of so many rows and columns are multiplied, where not all are.
    pub(super) fn blocks(&self, matrix: [usize; 2]) -> Option<Blocks> {
        self.blocks.as_ref().map(|bytes| Blocks::new(bytes, matrix))
    }

    /// Puts `padding` beyond the extents of an operand, row-major over `dim`; `side` is its rows and columns.
    pub(super) fn pad<T: Copy>(&self, values: &mut [T], dim: &[usize], side: [usize; 2], padding: T) {
        let &[batches, .., rows, columns] = dim else { return };
        let limit = |index: usize, batch: usize, extent: usize| match &self.limits[index] {
            Some(limits) => limits.get(batch).or(limits.first()).copied().unwrap_or(extent).min(extent),
            None => extent,
        };
        let each = values.len() / batches.max(1);
        for (batch, matrices) in values.chunks_mut(each.max(1)).enumerate() {
            let kept = [limit(side[0], batch, rows), limit(side[1], batch, columns)];
            for (row, values) in matrices.chunks_mut(columns).enumerate() {
                let kept = if row % rows < kept[0] { kept[1] } else { 0 };
                values[kept..].fill(padding);
            }
        }
    }

    /// Values of an operand with the padding value beyond the extents.
    pub(super) fn padded(&self, operand: &DenseF64, side: [usize; 2]) -> DenseF64 {
        let mut padded = operand.clone();
        let dim: Vec<usize> = operand.dim.iter().map(|&extent| extent as usize).collect();
        self.pad(&mut padded.values, &dim, side, self.padding);
        padded
    }
}

/// Whether each operand has a matrix of its own for each batch that an extent is overridden for.
pub(super) fn check(graph: &FinalizedGraph, id: OperationId) -> Result<(), String> {
    let operation = graph.operation(id);
    let batches = operation.result().and_then(|c| graph.tensor(c).dim.first().copied());
    let is_shared = |port| operation.input(port).is_some_and(|id| graph.tensor(id).dim.first().copied() != batches);
    match [Port::A, Port::B].into_iter().find(|&port| operation.inputs.len() > SIDES.len() && is_shared(port)) {
        Some(port) => Err(format!("takes no override extents where {port} has one matrix for all batches")),
        None => Ok(()),
    }
}
