//! Pointwise passes whose operands have one value for many points.

use crate::kernel::{Axis, Sweep};

/// A thread keeps what is the same for a vector of points wherever it steps, and steps over `each` of them. A block of `columns × rows` threads
/// has neighbouring vectors along the kept axes behind the last stepped one, and `rows × each` steps.
#[derive(Clone, Debug)]
pub struct ColumnsKernel {
    /// What is evaluated; the axes that a thread steps along are marked as reduced.
    pub sweep: Sweep,
    /// Threads along kept vectors.
    pub columns: u32,
    /// Threads along steps.
    pub rows: u32,
    /// Steps of a thread.
    pub each: u32,
    /// Whether blocks begin at the end, since what was read last lies in the L2 cache.
    pub is_reversed: bool,
}

impl ColumnsKernel {
    /// Kept vectors that lie side by side: those along the axes behind the last stepped one.
    pub fn inner_vectors(&self) -> i64 {
        let (last, outer) = self.sweep.space.axes.split_last().expect("a sweep has at least one axis");
        let inner = outer.iter().rev().take_while(|axis| !axis.reduced);
        inner.map(|axis| axis.extent.value()).product::<i64>() * last.extent.parts(self.sweep.vector).value()
    }

    /// Kept points along the axes before.
    pub fn outer_points(&self) -> i64 {
        let before = self.sweep.space.axes.iter().rev().skip_while(|axis| !axis.reduced);
        before.filter(|axis: &&Axis| !axis.reduced).map(|axis| axis.extent.value()).product()
    }

    /// Points that are stepped over.
    pub fn steps(&self) -> i64 {
        self.sweep.space.points_where(true)
    }

    /// Blocks side by side.
    pub fn blocks_along_columns(&self) -> i64 {
        div_ceil(self.inner_vectors(), self.columns)
    }

    /// Blocks one behind the other.
    pub fn blocks_along_steps(&self) -> i64 {
        div_ceil(self.steps(), self.rows * self.each)
    }

    /// All blocks.
    pub fn blocks(&self) -> i64 {
        self.outer_points() * self.blocks_along_steps() * self.blocks_along_columns()
    }
}

fn div_ceil(value: i64, by: u32) -> i64 {
    (value + i64::from(by) - 1) / i64::from(by)
}
