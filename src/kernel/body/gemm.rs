//! A tiled matrix product with mainloop and epilogue fusion.

use super::Inside;
use crate::graph::TensorId;
use crate::kernel::{
    Accumulation, Boxes, ClusterShape, Coordinate, GemmSpace, GemmTile, Multiply, Number, Operand, Quantity,
    SharedLayout, StepTail, Sweep, TapRow, TensorMap, Told,
};

/// An epilogue reduction and where its partial results go: `partial[split][kept]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartialReduction {
    /// The reduction.
    pub accumulation: Accumulation,
    /// Which of the indices b, m, n are reduced.
    pub reduced: [bool; 3],
    /// Number of partial results for each kept element.
    pub splits: i64,
    /// Number of kept elements.
    pub kept: i64,
    /// Whether each multiplying warp carries one partial result of every column over the tiles that it walks: `splits` are warps.
    pub carried: bool,
}

/// g2, evaluated where a tile of C is.
#[derive(Clone, Debug)]
pub struct FusedEpilogue {
    /// g2 at vectors of points of C; axis `i` of its space is the digit of `digits[i]`.
    pub sweep: Sweep,
    /// What the sweep's axes count.
    pub digits: Vec<Quantity>,
    /// Reductions.
    pub reductions: Vec<PartialReduction>,
    /// The boxes by which tensors come and leave; without them accumulators go through shared memory, and tensors
    /// are read and stored in vectors. `wgmma` only.
    pub boxes: Option<Boxes>,
}

/// What happens to a tile of C.
#[derive(Clone, Debug)]
pub enum Epilogue {
    /// g2 is evaluated where the tile is.
    Fused(Box<FusedEpilogue>),
    /// Accumulators of each split go to the workspace; later functions of the file take them from there.
    Workspace {
        /// Elements from one value to the next of what tells the place: indices b, m, n, or their digits.
        place: Vec<(Quantity, Number)>,
    },
}

/// How loops of a product are unrolled and registers shared: what an engine chooses for speed alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// Pieces of A and of B that a thread has under way at once, where threads bring them.
    pub pieces_under_way: [u32; 2],
    /// Part of a step, of 32 bytes of k, in which the next load of A and of B starts. `mma` only.
    pub load_in_part: [u32; 2],
    /// Registers of a thread that brings tiles. `wgmma` only.
    pub producer_registers: u32,
    /// Whether boxes that the producer computes with arrive apart from the tiles that they become, in places that it alone frees. `wgmma` only.
    pub boxes_apart: bool,
    /// Steps that boxes are asked for ahead of what is computed from them: as many as there are stages where they arrive apart. `wgmma` only.
    pub boxes_ahead: u32,
    /// Steps whose pieces are copied at once, behind the one that is told to be there. `wgmma` only.
    pub copies_ahead: u32,
    /// Whether all fragments of a step that warps compute are computed side by side, then multiplied. `wgmma` only.
    pub fragments_at_once: bool,
    /// Columns of boxes that are taken from the accumulators at a time. `wgmma` with boxes only.
    pub step_columns: u32,
    /// Whether lanes keep the totals that a warp carries from tile to tile, each of its own rows, and share them after the last one.
    /// `wgmma` with boxes only.
    pub keeps_totals: bool,
    /// Vectors of a lane that are evaluated side by side in the epilogue. `wgmma` without boxes only.
    pub vectors_at_once: u32,
}

/// A tiled matrix product with mainloop and epilogue fusion.
#[derive(Clone, Debug)]
pub struct GemmKernel {
    /// The index space.
    pub space: GemmSpace,
    /// Coordinates of C beyond whose bounds some points of the space lie, of which nothing is stored, reduced or read.
    pub bounded: Vec<Coordinate>,
    /// Tile of a block.
    pub tile: GemmTile,
    /// How tiles are multiplied.
    pub multiply: Multiply,
    /// Left operand.
    pub a: Operand,
    /// Right operand.
    pub b: Operand,
    /// What happens to C.
    pub epilogue: Epilogue,
    /// Whether vectors, and neighbouring threads, of the epilogue step along n; else along m.
    pub along_n: bool,
    /// Rows of tiles that blocks walk before they step to the next column: their operands stay in L2 together.
    pub raster: u32,
    /// Number of parts into which k is cut; more than one go to the workspace, or are those of a cluster.
    pub splits: u32,
    /// Blocks that run at once and share operands or a tile. `wgmma` only.
    pub cluster: ClusterShape,
    /// Blocks that share a multiprocessor: the compiler's bound on registers.
    pub blocks: u32,
    /// Shared memory of a block.
    pub shared: SharedLayout,
    /// What changes the time, and nothing else.
    pub tuning: Tuning,
    /// Whether indices and offsets need 64 bits.
    pub wide_index: bool,
    /// Boxes and products of the last step along k, or under a tap, where these are fewer than others have.
    pub tail: Option<StepTail>,
    /// Taps that a step multiplies together, which k does not count. Both operands are multiplied as boxes bring them.
    pub tap_row: Option<TapRow>,
    /// What becomes of sums where zeros outside an operand may meet what is not finite.
    pub inside: Option<Inside>,
}

impl GemmKernel {
    /// Tiles of C, of all matrices.
    pub fn tiles(&self) -> Number {
        let [batch, ..] = self.space.numbers();
        let [tiles_m, tiles_n] = self.counts(self.tile);
        batch * tiles_m * tiles_n
    }

    /// Tiles of such a size along m and n. A row of tiles is told where rows are, though it be the only one: kernels of several have the same text.
    pub fn counts(&self, tile: GemmTile) -> [Number; 2] {
        let numbers = self.space.numbers();
        match tile.counts(numbers) {
            [rows, columns] if rows == Number::ONE && numbers[1].is_told() && columns.is_told() => {
                [Number::parameter(1, Told::Count("rows of tiles")), columns]
            }
            counts => counts,
        }
    }

    /// Columns of tiles, of all matrices.
    pub fn columns(&self) -> Number {
        let [batch, ..] = self.space.numbers();
        let [_, tiles_n] = self.tile.counts(self.space.numbers());
        batch * tiles_n
    }

    /// Whether each block stays in one of several columns of tiles, as their tiles of B stay in shared memory.
    pub fn stays_in_columns(&self) -> bool {
        self.multiply.is_stationary() && self.columns() > 1
    }

    /// Tiles of all parts of k: what blocks share. Where clusters have tiles side by side, as many as clusters that cover C have blocks.
    pub fn units(&self) -> Number {
        let [batch, ..] = self.space.numbers();
        let [clusters_m, clusters_n] = self.counts(self.cluster.tile(self.tile));
        batch * clusters_m * clusters_n * i64::from(self.splits * self.cluster.m * self.cluster.n)
    }

    /// What the only step along k, or each that is the only one under its tap, has.
    pub fn only_tail(&self) -> Option<StepTail> {
        self.tail.filter(|tail| !tail.differs())
    }

    /// What the last step along k, or under a tap, has, where it differs from the others.
    pub fn differing_tail(&self) -> Option<StepTail> {
        self.tail.filter(StepTail::differs)
    }

    /// Steps along k, of all parts.
    pub fn steps(&self) -> Number {
        let [.., k] = self.space.numbers();
        k.parts(i64::from(self.tile.k))
    }

    /// Taps that a step multiplies together: one, where it does so with each.
    pub fn taps(&self) -> u32 {
        self.tap_row.map_or(1, |row| row.taps)
    }

    /// The operands of which sums that are NaN are summed up once more.
    pub fn operands_inside(&self) -> Option<[&Operand; 2]> {
        self.inside.as_ref().map(|inside| match &inside.before {
            Some(before) => [&before.a, &before.b],
            None => [&self.a, &self.b],
        })
    }

    /// Everything evaluated: both operands, then the epilogue.
    pub fn sweeps(&self) -> impl Iterator<Item = &Sweep> {
        [&self.a.sweep, &self.b.sweep].into_iter().chain(self.epilogue_sweep())
    }

    fn epilogue_sweep(&self) -> Option<&Sweep> {
        match &self.epilogue {
            Epilogue::Fused(fused) => Some(&fused.sweep),
            Epilogue::Workspace { .. } => None,
        }
    }

    /// As [`Self::sweeps`].
    pub fn sweeps_mut(&mut self) -> impl Iterator<Item = &mut Sweep> {
        let epilogue = match &mut self.epilogue {
            Epilogue::Fused(fused) => Some(&mut fused.sweep),
            Epilogue::Workspace { .. } => None,
        };
        [&mut self.a.sweep, &mut self.b.sweep].into_iter().chain(epilogue)
    }

    /// The boxes of the epilogue.
    pub fn boxes(&self) -> Option<&Boxes> {
        match &self.epilogue {
            Epilogue::Fused(fused) => fused.boxes.as_ref(),
            Epilogue::Workspace { .. } => None,
        }
    }

    /// Tensors read through pointers, in the order of [`Self::sweeps`].
    pub fn loads(&self) -> impl Iterator<Item = TensorId> {
        let inside = self.operands_inside().into_iter().flatten().flat_map(|operand| operand.sweep.program.reads());
        let operands = [&self.a, &self.b].into_iter().flat_map(Operand::loads).chain(inside);
        let boxed = |id: &TensorId| self.boxes().is_some_and(|boxes| is_among(&boxes.read, *id));
        let epilogue = self.epilogue_sweep().into_iter().flat_map(|sweep| sweep.program.reads());
        operands.chain(epilogue.filter(move |id| !boxed(id)))
    }

    /// Tensor maps: of the operands that have one, then of the epilogue's boxes, those read before those stored.
    pub fn maps(&self) -> impl Iterator<Item = TensorMap> {
        let boxes = self.boxes().into_iter().flat_map(|boxes| boxes.read.iter().chain(boxes.stored_by_tma()).copied());
        self.operand_maps().into_iter().chain(boxes)
    }

    /// Tensor maps of the operands: of whole steps, then of the last where it differs, then of tiles at the edge of C.
    pub fn operand_maps(&self) -> Vec<TensorMap> {
        let operands = || [&self.a, &self.b].into_iter();
        if self.cluster.multicasts() {
            let part = |(slot, operand): (usize, &Operand)| operand.part_of_map(self.cluster.sharers(slot));
            return operands().enumerate().filter_map(part).collect();
        }
        let whole = operands().filter_map(|operand| Some((operand, operand.map()?)));
        let edges = operands().filter_map(|operand| Some((operand, operand.edge?)));
        let plain = |(_, map)| map;
        let Some(tail) = self.tail else { return whole.chain(edges).map(plain).collect() };
        let narrow = |(operand, map): (&Operand, TensorMap)| map.narrowed(operand.axis_of_k(), operand.boxed_of(tail));
        match tail.differs() {
            true => whole.clone().map(plain).chain(whole.map(narrow)).chain(edges.map(plain)).collect(),
            false => whole.chain(edges).map(narrow).collect(),
        }
    }

    /// Tensors stored through pointers at each point of C.
    pub fn stores(&self) -> Vec<TensorId> {
        let boxed = |id: &TensorId| self.boxes().is_some_and(|boxes| is_among(boxes.stored_by_tma(), *id));
        self.sweeps().flat_map(|sweep| sweep.stores.iter().copied()).filter(|id| !boxed(id)).collect()
    }
}

/// Whether some map is that of a tensor.
fn is_among(maps: &[TensorMap], tensor: TensorId) -> bool {
    maps.iter().any(|map| map.tensor == tensor)
}
