//! Rows of an attention whose keys are split among blocks (`docs/spec/attention.md` AT-K23): what each part makes of a row goes to the workspace,
//! and is put together in order of the parts.

use super::attention::AttentionProblem;
use crate::graph::TensorId;

/// O, and what is stored of each row, from those of all parts. A warp has a row, a lane at most one part.
#[derive(Clone, Debug)]
pub struct AttentionCombinationKernel {
    /// What is computed; it has more than one part.
    pub problem: AttentionProblem,
    /// What says which rows of ragged tensors exist, and where: lengths of queries, and offsets.
    pub told_by: Vec<TensorId>,
}

impl AttentionCombinationKernel {
    /// Threads of a block.
    pub const THREADS: u32 = 256;

    /// Rows of a block.
    pub const ROWS: u32 = Self::THREADS / 32;

    /// Tensors that are read and written through pointers, beside the workspace.
    pub fn touched(&self) -> (Vec<TensorId>, Vec<TensorId>) {
        (self.told_by.clone(), self.problem.stored().collect())
    }
}

impl AttentionProblem {
    /// Parts at most: a lane each.
    pub const MOST_PARTS: i64 = 32;

    /// O and statistics.
    pub fn stored(&self) -> impl Iterator<Item = TensorId> + use<> {
        [self.output].into_iter().chain(self.statistics.tensors())
    }

    /// Rows of all heads, of packed ones side by side.
    pub fn all_rows(&self) -> i64 {
        self.extents.row_heads() * self.extents.rows()
    }

    /// Floats of the workspace for O of all parts, and for what these weigh: a reference and a logarithm of a sum.
    pub fn part_floats(&self) -> [i64; 2] {
        let rows = self.parts * self.all_rows();
        [rows * self.extents.head[1], 2 * rows]
    }
}
