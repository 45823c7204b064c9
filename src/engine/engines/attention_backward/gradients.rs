//! The pass that computes all gradients: tiles of keys walk the queries, and dQ is added up in the workspace in a fixed order.

use super::{HELD, MOST_STAGES, Offered, Pass, drawing_registers, model};
use crate::device::Device;
use crate::engine::builder::{KernelBuilder, Shape};
use crate::engine::lowering::program_parameters;
use crate::kernel::{
    AttentionBackwardKernel, AttentionGradientsKernel, AttentionQueriesKernel, BackwardOutput, BackwardTile, Body,
    Parameter, QuerySums, Walk,
};

/// Multiplying warpgroups, each of 64 keys.
const CONSUMERS: u32 = AttentionGradientsKernel::CONSUMERS;

/// Registers of a thread that brings tiles or waits for turns, and of one that multiplies.
const REGISTERS: [u32; 2] = [40, 232];

/// Tiles of keys of a head at most: a warp looks at all of them in each step, to know whose turn it is.
const MOST_TILES: i64 = 512;

impl Offered {
    /// The pass that computes all gradients, where registers and shared memory hold it.
    pub(super) fn ordered_pass(&self, device: &Device) -> Option<Pass> {
        let plan = &self.plan;
        let (outputs, others) = (&plan.of_keys, QuerySums::STEP);
        self.sums()?;
        let sums: u32 = outputs.iter().map(BackwardOutput::registers).sum();
        // scores, gradients of probabilities, fragments of probabilities, and sums
        let held = others + others / 4 + sums + drawing_registers(plan.dropout);
        let fits = |tile: &BackwardTile| {
            let layout = AttentionGradientsKernel::layout_of(tile.layout(plan.extents.head), *tile);
            held <= HELD[CONSUMERS as usize] && layout.bytes <= device.shared_bytes_per_block
        };
        let tile = |stages| BackwardTile { consumers: CONSUMERS, others, stages };
        let tile = (2..=MOST_STAGES).rev().map(tile).find(fits)?;
        let tiles = (plan.extents.keys + i64::from(tile.rows()) - 1) / i64::from(tile.rows());
        let is_taken = outputs.len() == 2 && tiles <= MOST_TILES;
        is_taken.then(|| Pass { of_keys: true, tile, outputs: outputs.clone() })
    }

    /// The sums of dQ, where it is stored.
    fn sums(&self) -> Option<QuerySums> {
        QuerySums::of(self.plan.of_queries?.head, self.plan.extents.queries)
    }

    /// The sums of dQ, and where they and the turns of their steps lie.
    pub(super) fn query_sums(&self, builder: &mut KernelBuilder) -> Option<(QuerySums, [Parameter; 2])> {
        let sums = self.sums()?;
        let steps = self.plan.extents.batches * self.plan.extents.heads * sums.steps;
        let mut region = |words| Parameter::Workspace { offset: builder.region(words) };
        Some((sums, [region(steps * i64::from(sums.floats())), region(steps)]))
    }

    /// The pass, and dQ from its sums.
    pub(super) fn push_ordered(
        &self,
        builder: &mut KernelBuilder,
        pass: Pass,
        sums: QuerySums,
        [statistics, places]: [[Parameter; 2]; 2],
        device: &Device,
    ) {
        let pass = AttentionBackwardKernel {
            section: model::ordered_section(&self.plan),
            registers: REGISTERS,
            ..self.kernel(pass)
        };
        let kernel = AttentionGradientsKernel { walk: self.walk(&pass, sums, device), pass, sums };
        let shape = Shape {
            grid: [u32::try_from(kernel.units().min(i64::from(device.sm_count))).unwrap_or(u32::MAX), 1],
            block: [kernel.pass.tile.threads(), 1, 1],
            shared_bytes: kernel.layout().bytes,
        };
        let parameters = self.parameters(&kernel.pass).into_iter().chain(statistics).chain(places).collect();
        builder.push("attention_gradients", shape, parameters, Body::AttentionGradients(Box::new(kernel)));
        let Some(queries) = self.plan.queries(sums) else { return };
        let shape = Shape::line_of_blocks(queries.items(), AttentionQueriesKernel::THREADS);
        let stored = [queries.output.tensor];
        let tensors = program_parameters(queries.reads(), &stored, |id| self.is_scalar(id));
        let parameters = tensors.into_iter().chain(places).collect();
        builder.push("attention_queries", shape, parameters, Body::AttentionQueries(queries));
    }

    /// Diagonals begin at different steps for each tile; where there are none, tiles that are under way at once begin so far apart as there is
    /// room.
    fn walk(&self, pass: &AttentionBackwardKernel, sums: QuerySums, device: &Device) -> Walk {
        match (pass.band.left, pass.band.right) {
            (None, Some(_)) => Walk::Paired,
            (None, None) => {
                let heads = pass.section.min(pass.row_heads());
                let at_once = (i64::from(device.sm_count) / heads).clamp(1, pass.row_tiles());
                Walk::Rotated(u32::try_from((sums.steps / at_once).max(1)).unwrap_or(1))
            }
            _ => Walk::Ascending,
        }
    }
}
