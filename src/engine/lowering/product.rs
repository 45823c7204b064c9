//! A core with its stages as a tiled matrix product, and the functions that finish its epilogue.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use super::box_rows::BoxRows;
use super::combination::{Combination, following_sweep};
use super::copied::{CopiedOperands, OperandCopy, ProductBefore};
use super::epilogue::{EpiloguePlan, EpilogueTiles, kept_space, reduced_count};
use super::inside::Padding;
use super::multiplied::fp8_registers;
use super::operand::{Instruction, OperandPlan};
use super::pass::{LAUNCH_SECONDS, PassPlan, place_totals};
use super::passes::Pass;
use super::problem::{ChannelSteps, Problem};
use super::signal::around_signals;
use super::sweep::{CoreAccumulators, elements, program_parameters, span, to_u32};
use super::tensor_map::{line_along_outer, step_k};
use super::totals::with_following_of;
use super::tuning::Tuned;
use crate::device::Device;
use crate::engine::EngineConfig;
use crate::engine::builder::{KernelBuilder, Shape};
use crate::fusion::{Fusion, Pattern, Product};
use crate::graph::{FinalizedGraph, OperationId, TensorId};
use crate::kernel::{
    Accumulators, Body, Boxes, CONSUMER_WARPS, ClusterShape, Digit, Epilogue, GemmKernel, GemmTile, Kernel, Mma,
    MmaType, Multiply, Number, Operand, Parameter, PartialReduction, Quantity, REGISTERS, Register, Role, SharedLayout,
    SharedRequest, StageProgram, StepTail, Sweep, TapRow, TensorMap, Wgmma, extent, reduced_values,
};

/// Most steps along k of a matmul whose last one has boxes and products of its own: of more none was measured (8192×2048×2512 of BFLOAT16 takes 0.98 of the time, for a
/// text that takes a quarter longer to compile; H200, 2026-12-01).
const STEPS_WITH_A_TAIL: i64 = 40;

/// Part of the lines of channels under a tap that are channels, at least, for them to be worth it: 8 of 16 take longer than by `mma.sync`, which
/// packs taps into k (expected by the model of `wgmma`: 543 µs for `wgrad_7x7_s2_c8_224`, which takes 227 there on an H200).
const LEAST_OF_A_LINE: f64 = 0.7;

/// A product as an engine multiplies it: what is planned of it whatever the tile.
#[derive(Debug)]
pub(in crate::engine) struct ProductPlan {
    fusion: Fusion,
    product: Product,
    pub(in crate::engine) problem: Problem,
    /// A and B of the problem.
    pub(in crate::engine) operands: [OperandPlan; 2],
    /// Operands that are copied before the product reads them.
    copies: Vec<OperandCopy>,
    /// The product before its operands were unfolded to these copies, if they are, or the taps of a row were taken together.
    before: Option<ProductBefore>,
    /// Planned when somebody asks about tiles.
    epilogue: OnceLock<EpiloguePlan>,
}

/// What an engine decides of a matrix product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct GemmChoice {
    pub(in crate::engine) tile: GemmTile,
    pub(in crate::engine) multiply: Multiply,
    /// Parts into which k is cut.
    pub(in crate::engine) splits: u32,
    /// Where their sums meet.
    pub(in crate::engine) meeting: Meeting,
    /// Tiles below each other, and side by side, whose blocks are a cluster.
    pub(in crate::engine) tiles_of_cluster: [u32; 2],
    /// Bytes of a warp's boxes, where the epilogue's tensors come and leave by TMA; `None` where accumulators go through shared
    /// memory.
    pub(in crate::engine) boxes: Option<u32>,
}

/// Where the sums of several parts of k meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum Meeting {
    /// In the workspace, to be added up by launches of their own.
    Workspace,
    /// In the shared memory of the first block of a cluster, whose blocks multiply a part each. `wgmma` in cooperative tiles only.
    Cluster,
}

impl GemmChoice {
    /// Blocks by themselves, whose epilogue goes through shared memory.
    pub(in crate::engine) fn of_blocks(tile: GemmTile, multiply: Multiply, splits: u32) -> Self {
        Self { tile, multiply, splits, meeting: Meeting::Workspace, tiles_of_cluster: [1, 1], boxes: None }
    }

    fn cluster(&self) -> ClusterShape {
        let [m, n] = self.tiles_of_cluster;
        let k = match self.meeting {
            Meeting::Workspace => 1,
            Meeting::Cluster => self.splits,
        };
        ClusterShape { m, n, k }
    }

    /// As many splits as get steps of the mainloop: each but the last does the same number.
    fn without_empty_splits(&self, [.., k]: [i64; 4]) -> Self {
        let steps = (k + i64::from(self.tile.k) - 1) / i64::from(self.tile.k);
        let each = (steps + i64::from(self.splits) - 1) / i64::from(self.splits);
        Self { splits: to_u32((steps + each - 1) / each), ..*self }
    }

    /// Whether the lanes of a warp hold a whole line of what it takes at a time, as totals of rows and of columns need:
    /// where `wgmma`'s lanes take single elements, lines of 64 are too long.
    fn holds_lines(&self, vector: i64, reduced: &[[bool; 3]], along_n: bool) -> bool {
        const LANES: i64 = 32;
        let Multiply::Wgmma(_) = self.multiply else { return true };
        let [rows, columns] = self.multiply.staged(self.tile, along_n);
        let line = i64::from(if along_n { columns } else { rows });
        line <= LANES * vector || reduced.iter().all(|[_, rows, columns]| rows == columns)
    }

    /// The tile of which each gives one partial result of a reduction.
    fn reduced_tile(&self) -> GemmTile {
        match self.multiply {
            Multiply::Wgmma(_) => GemmTile { m: self.multiply.staged(self.tile, true)[0], ..self.tile },
            _ => self.tile,
        }
    }

    /// How the epilogue finds the accumulators.
    fn accumulators(&self, along_n: bool) -> Accumulators {
        let register = self.multiply.accumulator();
        match self.multiply.stages_swizzled(self.tile, along_n) {
            _ if self.boxes.is_some() => Accumulators::Fragment(register),
            true => Accumulators::SwizzledTile(register),
            false => Accumulators::Tile(register),
        }
    }
}

impl ProductPlan {
    /// Plans a product as it stands.
    pub(in crate::engine) fn new(fusion: &Fusion, product: &Product, instruction: Instruction) -> Self {
        let problem = Problem::of(fusion.graph(), product);
        match instruction {
            Instruction::Wgmma(operand) => {
                let in_columns = Problem::phases_in_columns(fusion.graph(), product)
                    .map(|problem| Self::in_steps(fusion, product, problem, operand))
                    .filter(|plan| plan.is_as_stored() && plan.epilogue().reduced_values() == 0);
                in_columns.unwrap_or_else(|| Self::as_it_stands(fusion, product, problem, operand))
            }
            _ => Self::of(fusion, product, problem, instruction),
        }
    }

    /// Plans a product for `wgmma` as it stands; where lines of a filter gradient's channels would reach from one tap to the next, with those of
    /// each tap in whole lines, if channels fill most of these.
    fn as_it_stands(fusion: &Fusion, product: &Product, problem: Problem, operand: MmaType) -> Self {
        let in_lines = problem.clone().in_columns_of(line_along_outer(operand).into());
        let plan = |problem| Self::in_steps(fusion, product, problem, operand);
        let is_filled = |digit: &Digit| digit.extent.value() as f64 >= LEAST_OF_A_LINE * digit.radix.value() as f64;
        let as_stored = |problem| Some(plan(problem)).filter(Self::is_as_stored);
        let with_lines = || as_stored(in_lines).filter(|plan| plan.problem.space.n.iter().all(is_filled));
        as_stored(problem.clone()).or_else(with_lines).unwrap_or_else(|| plan(problem))
    }

    /// Plans a product for `wgmma` that reads copies of its operands; the transposed one of a matmul, if that is asked for and
    /// there is one.
    pub(in crate::engine) fn of_copies(copied: &CopiedOperands, operand: MmaType, transposed: bool) -> Option<Self> {
        let CopiedOperands { fusion, product, copies, .. } = copied;
        let plan = if transposed {
            Self::transposed(fusion, product, Instruction::Wgmma(operand))?
        } else {
            Self::in_steps(fusion, product, copied.problem(operand), operand)
        };
        let operands = plan.operands.map(|operand| {
            let copy = copies.iter().find(|copy| copy.copy() == operand.tensor());
            match copy.and_then(|copy| copy.stored_line(fusion.graph())) {
                Some(lines) => operand.with_zeros(lines),
                None => operand,
            }
        });
        let before = copied.before(&plan.problem);
        Some(Self { operands, copies: copies.clone(), before, ..plan })
    }

    /// Plans a convolution for `wgmma` whose steps multiply the taps of a filter's row together; `None` where there are none, or boxes do
    /// not bring both operands as they are multiplied.
    pub(in crate::engine) fn in_tap_rows(fusion: &Fusion, product: &Product, operand: MmaType) -> Option<Self> {
        let as_it_stands = Problem::of(fusion.graph(), product);
        let problem = as_it_stands.clone().in_tap_rows()?;
        let (step, unit) = (step_k(operand), StepTail::unit(operand).into());
        let of = |problem: Problem| Self::of(fusion, product, problem, Instruction::Wgmma(operand));
        let short = || problem.clone().in_short_steps_of(step);
        let narrow = || problem.clone().in_narrow_steps_of(step, unit);
        let in_steps = short().or_else(narrow).unwrap_or_else(|| problem.clone().in_steps_of(step));
        let before = ProductBefore::new(fusion, product, in_steps.with_taps_of(&as_it_stands)?);
        Some(Self { before: Some(before), ..of(in_steps) }).filter(Self::is_as_stored)
    }

    /// Plans a product for `wgmma` whose steps are whole, narrow, or in blocks, of channels.
    fn in_steps(fusion: &Fusion, product: &Product, problem: Problem, operand: MmaType) -> Self {
        let step = step_k(operand);
        let of = |problem: Problem| Self::of(fusion, product, problem, Instruction::Wgmma(operand));
        // what is computed on its way takes a step at once
        let in_blocks = || problem.clone().in_blocks_within(step).map(of).filter(Self::is_as_stored);
        let unit = StepTail::unit(operand).into();
        let narrow = || problem.clone().in_narrow_steps_of(step, unit).map(of).filter(Self::is_as_stored);
        let by_block = || problem.clone().in_blocks_of_channels(step).map(of).filter(Self::is_as_stored);
        in_blocks().or_else(narrow).or_else(by_block).unwrap_or_else(|| of(problem.clone().in_steps_of(step)))
    }

    /// Plans the transposed product of a matmul; `None` for a convolution.
    pub(in crate::engine) fn transposed(fusion: &Fusion, product: &Product, instruction: Instruction) -> Option<Self> {
        let problem = Problem::transposed(fusion.graph(), product)?;
        Some(Self::of(fusion, product, problem, instruction))
    }

    fn of(fusion: &Fusion, product: &Product, problem: Problem, instruction: Instruction) -> Self {
        let [a, b] = [0, 1].map(|slot| OperandPlan::new(fusion, product, &problem, slot, instruction));
        let operands = [a.clone().beside(&b), b.beside(&a)];
        let (fusion, product) = (fusion.clone(), product.clone());
        Self { fusion, product, problem, operands, copies: Vec::new(), before: None, epilogue: OnceLock::new() }
    }

    fn epilogue(&self) -> &EpiloguePlan {
        self.epilogue.get_or_init(|| EpiloguePlan::new(&self.fusion, &self.product, &self.problem))
    }

    fn graph(&self) -> &Arc<FinalizedGraph> {
        self.fusion.graph()
    }

    /// Extents of b, m, n and k.
    pub(in crate::engine) fn extents(&self) -> [i64; 4] {
        self.problem.space.extents()
    }

    /// Elements of both operands in memory: of a convolution's image, those that several taps read are one.
    pub(in crate::engine) fn operand_elements(&self) -> f64 {
        let of_tensor = |id| {
            let tensor = self.graph().tensor(id);
            // taps of a copy overlap
            elements(tensor).min(span(tensor)) as f64
        };
        self.product.tensors().map(of_tensor).iter().sum()
    }

    /// Bytes that move at least: operands once, in the type in which they are multiplied, and a result of 16 bits.
    pub(in crate::engine) fn least_bytes(&self, operand: MmaType) -> f64 {
        const RESULT: f64 = 2.0;
        let [batch, m, n, _] = self.extents().map(|extent| extent as f64);
        self.operand_elements() * f64::from(operand.bytes()) + batch * m * n * RESULT
    }

    /// Seconds of the copies of operands, one after the other.
    pub(in crate::engine) fn copy_seconds(&self, device: &Device) -> f64 {
        self.copies.iter().map(|copy| copy.seconds(self.graph(), device)).sum()
    }

    /// Whether what a mainloop stage computes is evaluated before the product.
    pub(in crate::engine) fn evaluates_first(&self) -> bool {
        self.copies.iter().any(OperandCopy::is_evaluated)
    }

    /// Which operands are copied and why, a sentence each.
    pub(in crate::engine) fn copy_remarks(&self) -> Vec<String> {
        self.copies.iter().map(|copy| copy.remark(self.graph())).collect()
    }

    /// Elements of k of a step by `wgmma`.
    pub(in crate::engine) fn step_k(&self, operand: MmaType) -> i64 {
        match self.problem.channels {
            ChannelSteps::Short(step) => step,
            ChannelSteps::Padded | ChannelSteps::Blocks(_) | ChannelSteps::Narrow(_) => step_k(operand),
        }
    }

    /// Taps that a step multiplies together, if it does.
    pub(in crate::engine) fn tap_row(&self) -> Option<TapRow> {
        self.problem.tap_row
    }

    /// Whether boxes bring both operands as they are multiplied.
    fn is_as_stored(&self) -> bool {
        self.operands.iter().all(OperandPlan::is_boxed)
    }

    /// Whether some step multiplies fewer elements of k than it might, as far as models know: they know nothing of the last of a matmul's steps.
    pub(in crate::engine) fn has_tail(&self, operand: MmaType) -> bool {
        self.step_tail(operand).is_some()
    }

    /// Whether matrices have different numbers of steps: where boxes bring both operands as they are stored.
    pub(in crate::engine) fn counts_steps(&self) -> bool {
        !self.problem.space.counted.is_empty() && self.is_as_stored()
    }

    /// The last step under a tap of a convolution, where it multiplies fewer channels than others, or than a step has, or as many of which some
    /// are none; the only step of a matmul whose k is shorter, which texts of dynamic shapes say, too.
    fn step_tail(&self, operand: MmaType) -> Option<StepTail> {
        let only = self.tail_of_k(operand).filter(|tail| !tail.differs());
        only.or_else(|| self.tail_of_channels(operand))
    }

    fn tail_of_channels(&self, operand: MmaType) -> Option<StepTail> {
        let (step, last) = (self.step_k(operand), self.problem.space.k.last()?);
        let ends_inside = || last.is_padded() && last.radix == step && self.is_as_stored();
        let elements = self.problem.narrow_channels(step).or_else(|| ends_inside().then_some(step))?;
        Some(StepTail { elements: elements as u32, steps: last.radix.value() / step })
    }

    /// What a matmul's k ends with, to the next product, where it does not fill its last step.
    fn tail_of_k(&self, operand: MmaType) -> Option<StepTail> {
        let ([.., k], step, unit) = (self.extents(), self.step_k(operand), i64::from(StepTail::unit(operand)));
        let (rest, steps) = (k % step, (k + step - 1) / step);
        let elements = ((rest + unit - 1) / unit * unit) as u32;
        (rest > 0 && self.is_matmul() && self.is_as_stored()).then_some(StepTail { elements, steps })
    }

    /// The last of a matmul's few steps, where its boxes and products end before others do; where shapes are dynamic, texts do not say where k ends.
    /// Models know nothing of it.
    fn last_step(&self, operand: MmaType) -> Option<StepTail> {
        let is_narrow = |tail: &StepTail| tail.differs() && i64::from(tail.elements) < self.step_k(operand);
        let tail = self.tail_of_k(operand).filter(is_narrow)?;
        (tail.steps <= STEPS_WITH_A_TAIL && !self.is_dynamic()).then_some(tail)
    }

    /// Rows of both operands' boxes that a step of a tile takes.
    pub(in crate::engine) fn box_rows(&self, tile: GemmTile, operand: MmaType) -> [BoxRows; 2] {
        let tail = self.step_tail(operand);
        [(0, tile.m), (1, tile.n)].map(|(slot, rows)| self.operands[slot].box_rows(tile, rows, tail))
    }

    /// Lines of a box of an operand's tile: rows, or elements of k where lines run along m or n.
    pub(in crate::engine) fn box_lines(&self, slot: usize, tile: GemmTile) -> u32 {
        if self.operands[slot].runs_along_k() { [tile.m, tile.n][slot] } else { tile.k }
    }

    /// Part of k, padded to whole steps, that is multiplied.
    pub(in crate::engine) fn multiplied_depth(&self, operand: MmaType) -> f64 {
        self.step_tail(operand).map_or(1.0, |tail| tail.multiplied(self.step_k(operand)))
    }

    /// Part of the steps that matrices do, of those of the one that does most.
    pub(in crate::engine) fn used_steps(&self) -> f64 {
        match self.counts_steps() {
            true => self.problem.space.counted.iter().map(|counted| counted.used).product(),
            false => 1.0,
        }
    }

    /// Tensors that the stage of an operand reads anew for each of its elements along k, beside the one that comes in boxes.
    pub(in crate::engine) fn side_loads_along_k(&self, operand: &OperandPlan) -> usize {
        operand.side_loads_along_k(&self.problem.space.k)
    }

    /// Bytes of the channels under a tap of a convolution whose filter lies along k; `None` for other products.
    pub(in crate::engine) fn tap_bytes(&self, operand: MmaType) -> Option<i64> {
        let [.., taps, last] = &self.problem.space.k[..] else { return None };
        let is_tap = matches!(taps.quantity, Quantity::Tap(_));
        (is_tap && self.operands[1].runs_along_k()).then(|| last.extent.value() * i64::from(operand.bytes()))
    }

    /// The epilogue's tensors in boxes for tiles of this size; `None` where they cannot come and leave so.
    pub(in crate::engine) fn boxes(&self, tile: GemmTile) -> Option<Boxes> {
        self.epilogue().boxes(tile)
    }

    /// Whether it is a matmul.
    pub(in crate::engine) fn is_matmul(&self) -> bool {
        matches!(self.fusion.pattern(), Pattern::Matmul)
    }

    /// Whether kernels are told the extents.
    pub(in crate::engine) fn is_dynamic(&self) -> bool {
        self.graph().is_dynamic()
    }

    /// Whether the epilogue has no reductions.
    pub(in crate::engine) fn reduces_nothing(&self) -> bool {
        self.epilogue().reduced_values() == 0
    }

    /// Whether the epilogue reads nothing at C's points and reduces nothing.
    pub(in crate::engine) fn reads_no_points(&self) -> bool {
        self.epilogue().reads_no_points(self.graph())
    }

    /// Reductions of the epilogue that keep the columns of C.
    pub(in crate::engine) fn totals_of_columns(&self) -> usize {
        self.epilogue().totals_of_columns()
    }

    /// Why the epilogue is evaluated in passes of its own; `None` where tiles do it.
    pub(in crate::engine) fn through_workspace(&self, choice: &GemmChoice, device: &Device) -> Option<String> {
        self.why_not_in_tiles(&choice.without_empty_splits(self.extents()), device)
    }

    /// The kernel of a choice. What the epilogue cannot do where the tiles are follows in passes over the core's accumulators, and
    /// operations that do not depend on the core get passes of their own.
    pub(in crate::engine) fn lower(&self, choice: &GemmChoice, config: &EngineConfig, device: &Device) -> Kernel {
        let mut builder = KernelBuilder::new(self.graph(), config);
        around_signals(&self.fusion, &mut builder, |builder| self.lower_core(choice, device, builder));
        builder.finish()
    }

    fn lower_core(&self, choice: &GemmChoice, device: &Device, builder: &mut KernelBuilder) {
        let choice = &choice.without_empty_splits(self.extents());
        self.copies.iter().for_each(|copy| copy.push(self.graph(), builder));
        let EpiloguePlan { fused, apart, .. } = self.epilogue();
        match self.in_tiles(choice, device) {
            Ok(epilogue) => {
                let lowering = Lowering { plan: self, choice, device };
                lowering.push_fused(epilogue, apart, builder);
            }
            Err(why) => {
                tracing::debug!(graph_key = %self.graph().key(), why, "epilogue goes through the workspace");
                let lowering = Lowering { plan: self, choice: &GemmChoice { boxes: None, ..*choice }, device };
                let core = lowering.push_to_workspace(builder);
                let mut operations = [&fused[..], apart].concat();
                operations.sort_unstable();
                operations.dedup();
                lowering.passes(Some(&core)).lower(&operations, builder);
            }
        }
    }

    /// The epilogue where the tiles are, of a choice without empty splits.
    ///
    /// # Errors
    /// Why it is not evaluated there.
    fn in_tiles(&self, choice: &GemmChoice, device: &Device) -> Result<Epilogue, String> {
        if let Some(why) = self.why_not_in_tiles(choice, device) {
            return Err(why);
        }
        let plan = self.epilogue();
        let tiles = EpilogueTiles {
            tile: choice.reduced_tile(),
            accumulators: choice.accumulators(plan.along_n),
            boxes: choice.boxes.and_then(|_| plan.boxes(choice.tile)),
            wide_index: self.is_wide(choice.splits),
            walking_warps: self.walking_warps(choice, device),
        };
        plan.in_tiles(self.graph(), &self.problem, tiles)
    }

    /// Why an epilogue is not evaluated where the tiles are, of a choice without empty splits; `None` where it is. Every config of a ranking is asked.
    fn why_not_in_tiles(&self, choice: &GemmChoice, device: &Device) -> Option<String> {
        if choice.splits > choice.cluster().k {
            return Some(format!("k is cut into {} parts", choice.splits));
        }
        let plan = self.epilogue();
        if let Some(why) = self.why_not_reduced(choice, device) {
            return Some(why);
        }
        match plan.width_in_tiles(self.graph(), &self.problem, choice.reduced_tile(), choice.boxes.is_some()) {
            Err(why) => Some(why),
            Ok((width, reduced)) => (!choice.holds_lines(width.vector, reduced, plan.along_n))
                .then(|| "a warp does not hold whole lines of what it reduces".to_owned()),
        }
    }

    /// Why values that an epilogue reduces, if it does, are not reduced where the tiles are.
    fn why_not_reduced(&self, choice: &GemmChoice, device: &Device) -> Option<String> {
        let plan = self.epilogue();
        let values = plan.reduced_values();
        if values > 0 && self.problem.space.n.iter().any(Digit::is_padded) {
            return Some("values are reduced, and channels under each tap are padded".to_owned());
        }
        let needed = self.shared(choice, plan.along_n, values).bytes;
        let most = device.shared_bytes_per_block;
        if needed > most {
            return Some(format!("values that are reduced take {needed} bytes of shared memory; a block has {most}"));
        }
        match choice.multiply {
            Multiply::Wgmma(_) if values > 0 && !plan.along_n => {
                Some("values that are reduced lie along columns".to_owned())
            }
            Multiply::Mma(_) | Multiply::Fma(_) if values > 0 && self.problem.reaches_beyond() => {
                Some("values that are reduced lie in tiles that reach beyond the image".to_owned())
            }
            _ => None,
        }
    }

    /// Warps that multiply, where blocks stay and walk the tiles.
    fn walking_warps(&self, choice: &GemmChoice, device: &Device) -> Option<i64> {
        let Multiply::Wgmma(wgmma) = choice.multiply else { return None };
        let [batch, ..] = self.extents();
        let counts = choice.tile.counts(self.extents()).map(Number::value);
        Some(i64::from(staying_blocks(batch, counts, &wgmma, device) * CONSUMER_WARPS))
    }

    /// Bytes of a stage beyond the tiles of A and B, for what is transformed to each on its way.
    fn raw_bytes(&self, choice: &GemmChoice) -> [u32; 2] {
        let tile = choice.tile;
        let Multiply::Wgmma(Wgmma { operand, .. }) = choice.multiply else { return [0; 2] };
        let [a, b] = &self.operands;
        [a.raw_bytes(tile, tile.m, operand.bytes()), b.raw_bytes(tile, tile.n, operand.bytes())]
    }

    /// Shared memory of a block, in bytes, whatever becomes of the epilogue.
    pub(in crate::engine) fn most_shared_bytes(&self, choice: &GemmChoice) -> u32 {
        let bytes = |along_n| self.shared(choice, along_n, 1).bytes;
        bytes(true).max(bytes(false))
    }

    /// Shared memory of a block with an epilogue that reduces so many values where the tiles are.
    fn shared(&self, choice: &GemmChoice, along_n: bool, reduced_values: usize) -> SharedLayout {
        let GemmChoice { tile, multiply, boxes: box_bytes, .. } = *choice;
        let (tap_row, raw_bytes) = (self.problem.tap_row, self.raw_bytes(choice));
        SharedLayout::new(&SharedRequest { multiply, tile, tap_row, raw_bytes, box_bytes, along_n, reduced_values })
    }

    /// Whether some offset or coordinate may exceed 31 bits. A tile reaches beyond the last row and column, so there is a margin.
    fn is_wide(&self, splits: u32) -> bool {
        let limit = i64::from(i32::MAX) / 2;
        if self.problem.reach() > limit {
            return true;
        }
        let mut tensors = self.graph().tensors().filter(|tensor| !tensor.is_virtual);
        let partial_sums = self.problem.space.elements().value().saturating_mul(splits.into());
        let extents = self.extents();
        tensors.any(|tensor| span(tensor) > 2 * limit) || partial_sums > limit || extents.iter().any(|&e| e > limit)
    }

    fn skeleton(&self) -> &'static str {
        match self.fusion.pattern() {
            Pattern::ConvolutionForward => "convolution_forward",
            Pattern::ConvolutionBackwardData => "convolution_backward_data",
            Pattern::ConvolutionBackwardFilter => "convolution_backward_filter",
            _ => "matmul",
        }
    }
}

/// One choice on one device.
struct Lowering<'a> {
    plan: &'a ProductPlan,
    choice: &'a GemmChoice,
    device: &'a Device,
}

impl Lowering<'_> {
    fn passes<'a>(&'a self, core: Option<&'a CoreAccumulators>) -> PassPlan<'a> {
        PassPlan { graph: self.plan.graph(), core, threads: None, device: self.device }
    }

    fn gemm(&self, epilogue: Epilogue, along_n: bool) -> GemmKernel {
        let GemmChoice { tile, multiply, splits, .. } = *self.choice;
        let wide_index = self.plan.is_wide(splits);
        let cluster = self.choice.cluster();
        let [a, b] = [0, 1].map(|slot| {
            let operand = self.plan.operands[slot].at(tile, wide_index);
            let rows = [tile.m, tile.n][slot];
            let operand = if cluster.sharers(slot) > 1 { operand.in_whole_tiles(rows) } else { operand };
            Operand { edge: self.edge(slot), ..operand }
        });
        let shared = self.plan.shared(self.choice, along_n, reduced_values_of(&epilogue));
        let [_, rows, columns, _] = self.plan.extents();
        let extents = [rows, columns];
        let tells_rows = rows % i64::from(tile.m) != 0 || self.plan.problem.reaches_beyond();
        let tuned = Tuned { multiply, tile, extents, tells_rows, operands: [&a, &b], epilogue: &epilogue, along_n };
        let mut space = self.plan.problem.space.clone();
        if !self.plan.counts_steps() || !matches!(multiply, Multiply::Wgmma(_)) {
            space.counted.clear();
        }
        let padding = Padding {
            graph: self.plan.graph(),
            product: &self.plan.product,
            problem: &self.plan.problem,
            before: self.plan.before.as_ref(),
            counts_steps: !space.counted.is_empty(),
            boxed: [0, 1].map(|slot| self.plan.operands[slot].is_boxed()),
        };
        let inside = padding.inside(&multiply, tile, wide_index);
        let bounded = self.plan.problem.result.iter().filter(|coordinate| coordinate.bound.is_some());
        GemmKernel {
            space,
            bounded: bounded.cloned().collect(),
            tile,
            multiply,
            tuning: tuned.tuning(),
            blocks: self.blocks(shared.bytes),
            a,
            b,
            epilogue,
            along_n,
            raster: self.raster(),
            splits,
            cluster,
            shared,
            wide_index,
            tail: self.tail(),
            tap_row: self.plan.problem.tap_row,
            inside,
        }
    }

    /// What the last step along k, or under a tap, has; blocks that share boxes ask for whole ones of a matmul.
    fn tail(&self) -> Option<StepTail> {
        let Multiply::Wgmma(Wgmma { operand, .. }) = self.choice.multiply else { return None };
        let last_step = || self.plan.last_step(operand).filter(|_| !self.choice.cluster().multicasts());
        self.plan.step_tail(operand).or_else(last_step)
    }

    /// The map of an operand's boxes at the edge of C, of blocks that ask for whole boxes of their own.
    fn edge(&self, slot: usize) -> Option<TensorMap> {
        let GemmChoice { tile, multiply, .. } = *self.choice;
        let Multiply::Wgmma(Wgmma { operand, fills: false, .. }) = multiply else { return None };
        let stays = slot == 1 && multiply.is_stationary();
        let has_other_boxes = self.plan.step_tail(operand).is_some_and(|tail| tail.differs());
        if stays || has_other_boxes || self.choice.cluster().multicasts() || self.plan.problem.reaches_beyond() {
            return None;
        }
        let is_one_digit = self.plan.problem.space.digits(Role::outer(slot)).len() == 1;
        let edge = self.plan.operands[slot].edge_at(tile, self.plan.extents()[1 + slot], self.plan.is_dynamic());
        edge.filter(|map| is_one_digit || map.pixels.is_some())
    }

    /// Rows of tiles that are walked together. Where blocks stay, of 4, 8, 16 and 32 those with which the tiles under way at
    /// once read the fewest rows of A and of Bᵀ; else 8.
    fn raster(&self) -> u32 {
        const ROWS: u32 = 8;
        let cluster = self.choice.cluster();
        let GemmTile { m, n, .. } = cluster.tile(self.choice.tile);
        let at_once = blocks_in_clusters(cluster.m * cluster.n, self.device) / (cluster.m * cluster.n);
        let read = |rows: &u32| rows * m + at_once.div_ceil(*rows) * n;
        match self.choice.multiply {
            Multiply::Wgmma(_) => [4, 8, 16, 32].into_iter().min_by_key(read).unwrap_or(ROWS),
            _ => ROWS,
        }
    }

    /// The product with its epilogue, the combinations of its reductions with what follows them, and passes of the other operations.
    fn push_fused(&self, epilogue: Epilogue, apart: &[OperationId], builder: &mut KernelBuilder) {
        let graph = self.plan.graph();
        let reductions = match &epilogue {
            Epilogue::Fused(fused) => fused.reductions.clone(),
            Epilogue::Workspace { .. } => Vec::new(),
        };
        place_totals(graph, reductions.iter().map(|reduction| reduction.accumulation.target), builder);
        let region = |reduction: &PartialReduction| builder.regions(1, reduction.splits * reduction.kept);
        let partials: Vec<Parameter> = reductions.iter().flat_map(region).collect();
        self.push(self.gemm(epilogue, self.plan.epilogue().along_n), &partials, builder);
        let plan = self.passes(None);
        let (program, mut passes) = plan.cut(apart);
        let own = reductions.iter().map(|reduction| reduction.accumulation.target);
        let totals: BTreeSet<TensorId> = passes.iter().flat_map(Pass::totals).chain(own).collect();
        for alike in by_reduced_indices(reductions.into_iter().zip(partials).collect()) {
            let accumulations = alike.iter().map(|(reduction, _)| reduction.accumulation).collect();
            let Some(reducing) = Pass::reducing(graph, accumulations) else { continue };
            passes.insert(0, reducing);
            let (reducing, others) = with_following_of(graph, &program, (passes, &totals), 0);
            passes = others;
            self.push_combination(alike, &program, reducing.following, builder);
        }
        plan.lower_passes(&program, passes, builder);
    }

    /// The combination of reductions of the same indices, and what is stored of their totals.
    fn push_combination(
        &self,
        alike: Vec<(PartialReduction, Parameter)>,
        program: &StageProgram,
        stores: Vec<TensorId>,
        builder: &mut KernelBuilder,
    ) {
        let (graph, problem) = (self.plan.graph(), &self.plan.problem);
        let Some((first, _)) = alike.first() else { return };
        let totals: BTreeSet<TensorId> = alike.iter().map(|(reduction, _)| reduction.accumulation.target).collect();
        let program = program.needed_for(stores.iter().copied());
        let read = program.moved().filter(|&id| !graph.tensor(id).is_pass_by_value);
        let touched: Vec<TensorId> = read.chain(totals.iter().copied()).chain(stores.iter().copied()).collect();
        let space = kept_space(graph, problem, first.reduced, &touched);
        let wide_index = self.plan.is_wide(self.choice.splits);
        let following = (!stores.is_empty()).then(|| {
            let sweep = following_sweep(graph, space.clone(), (program, stores), &totals);
            Sweep { wide_index, ..sweep }
        });
        let combination = Combination {
            space,
            accumulations: alike.iter().map(|(reduction, _)| reduction.accumulation).collect(),
            splits: first.splits,
            count: reduced_count(graph, &first.accumulation),
            partials: alike.into_iter().map(|(_, partial)| partial).collect(),
            following,
        };
        combination.push(builder);
    }

    /// The product alone, its accumulators in the workspace.
    fn push_to_workspace(&self, builder: &mut KernelBuilder) -> CoreAccumulators {
        let register = self.choice.multiply.accumulator();
        let elements = self.plan.problem.space.elements();
        let offset = builder.region(elements.value() * i64::from(self.choice.splits));
        let parameter = Parameter::Accumulators { offset, is_integer: register == Register::Int };
        let tensor = self.plan.product.result;
        let (place, strides) = if self.plan.problem.is_in_phases() { self.dense_place() } else { self.matrix_place() };
        self.push(self.gemm(Epilogue::Workspace { place }, true), &[parameter], builder);
        CoreAccumulators { tensor, strides, register, splits: self.choice.splits, elements, parameter }
    }

    /// Accumulators by b, m and n: what tells the place of one, and elements from one to the next along each axis of C.
    fn matrix_place(&self) -> (Vec<(Quantity, Number)>, Vec<Number>) {
        let strides = self.workspace_strides();
        let [batch, ..] = self.plan.extents();
        let roles = [Role::Batch, Role::Row, Role::Column].into_iter().zip(strides);
        let place = roles.filter(|&(role, _)| role != Role::Batch || batch > 1);
        let axes = 0..self.plan.problem.result.len();
        let place = place.map(|(role, stride)| (Quantity::Index(role), stride)).collect();
        (place, axes.map(|axis| self.told_behind(axis, self.axis_stride(axis, strides))).collect())
    }

    /// The same where an axis of C has digits of several indices: C without gaps, its channels innermost.
    fn dense_place(&self) -> (Vec<(Quantity, Number)>, Vec<Number>) {
        let (space, result) = (&self.plan.problem.space, &self.plan.problem.result);
        let dim = &self.plan.graph().tensor(self.plan.product.result).dim;
        let is_spatial = |axis: &usize| matches!(result[*axis].quantity, Quantity::InputPixel(_));
        let (spatial, others): (Vec<usize>, Vec<usize>) = (1..dim.len()).partition(is_spatial);
        let mut strides = vec![0; dim.len()];
        let mut below = 1;
        for axis in others.into_iter().rev().chain(spatial.into_iter().rev()).chain([0]) {
            strides[axis] = below;
            below *= dim[axis];
        }
        let digits = [&space.b, &space.m, &space.n].into_iter().flatten();
        let stride = |digit: &Digit| self.plan.problem.stride_of(digit.quantity, |axis| strides[axis]);
        let place = digits.map(|digit| (digit.quantity, stride(digit).into())).collect();
        (place, strides.into_iter().map(Number::known).collect())
    }

    /// Where the accumulator of b, m, n lies: C's rows, with the groups of a convolution inside the row, so that
    /// channels follow each other. Where groups belong to the rows of C (filter gradients) they come first.
    fn workspace_strides(&self) -> [Number; 3] {
        let [b, m, n, _] = self.plan.problem.space.numbers();
        let groups_in_row = self.shares_axis(&self.plan.problem.space.n);
        if groups_in_row { [n, b * n, Number::ONE] } else { [m * n, n, Number::ONE] }
    }

    /// A stride of C without gaps as it follows from the extents of the axes behind, which launches may tell, so that axes merge.
    fn told_behind(&self, axis: usize, stride: Number) -> Number {
        let graph = self.plan.graph();
        let dim = &graph.tensor(self.plan.product.result).dim;
        let behind: Number = (axis + 1..dim.len()).map(|axis| extent(graph, axis, dim[axis])).product();
        if behind.value() == stride.value() { behind } else { stride }
    }

    /// Whether the batch digit and a digit of this index count along the same axis of C.
    fn shares_axis(&self, digits: &[Digit]) -> bool {
        let axis = |digit: &Digit| self.plan.problem.axis_of(digit.quantity);
        let batch = self.plan.problem.space.b.first().and_then(axis);
        batch.is_some() && digits.iter().any(|digit| axis(digit) == batch)
    }

    /// Elements of the workspace to the next coordinate of a graph axis of C.
    fn axis_stride(&self, axis: usize, strides: [Number; 3]) -> Number {
        let Some(&(quantity, scale)) = self.plan.problem.result[axis].terms.last() else { return Number::known(0) };
        let space = &self.plan.problem.space;
        for (digits, stride) in [&space.b, &space.m, &space.n].into_iter().zip(strides) {
            if let Some(position) = digits.iter().position(|digit| digit.quantity == quantity) {
                let inner: Number = digits[position + 1..].iter().map(|digit| digit.radix).product();
                return (stride * inner).quotient(scale);
            }
        }
        Number::known(0)
    }

    fn push(&self, gemm: GemmKernel, workspace: &[Parameter], builder: &mut KernelBuilder) {
        let graph = self.plan.graph();
        let mut parameters = program_parameters(gemm.loads(), &gemm.stores(), |id| graph.tensor(id).is_pass_by_value);
        parameters.extend(workspace);
        parameters.extend(gemm.maps().map(Parameter::TensorMap));
        let shape = Shape {
            grid: self.grid(&gemm),
            block: [self.choice.multiply.threads(self.choice.tile), 1, 1],
            shared_bytes: gemm.shared.bytes,
        };
        builder.push(self.plan.skeleton(), shape, parameters, Body::Gemm(Box::new(gemm)));
    }

    fn grid(&self, gemm: &GemmKernel) -> [u32; 2] {
        match self.choice.multiply {
            // a cluster for each tile
            Multiply::Wgmma(_) if gemm.cluster.k > 1 => [to_u32(gemm.units().value()), 1],
            Multiply::Wgmma(_) if gemm.cluster.multicasts() => {
                [to_u32(gemm.units().value()).min(blocks_in_clusters(gemm.cluster.blocks(), self.device)), 1]
            }
            Multiply::Wgmma(wgmma) => {
                let [batch, ..] = gemm.space.extents();
                let parts = batch * i64::from(self.choice.splits);
                [
                    staying_blocks(
                        parts,
                        gemm.tile.counts(gemm.space.extents()).map(Number::value),
                        &wgmma,
                        self.device,
                    ),
                    1,
                ]
            }
            _ => [to_u32(gemm.tiles().value()), self.choice.splits],
        }
    }

    /// Blocks that share a multiprocessor, as far as shared memory lets them and their registers suffice: those of
    /// accumulators and fragments, of operands on their way through registers (as they were read, and as they are
    /// stored), and about 40 for addresses (seen in compiled tiles).
    fn blocks(&self, shared_bytes: u32) -> u32 {
        const ADDRESSES: u32 = 40;
        let GemmChoice { tile, multiply, .. } = *self.choice;
        let (operand, warp_m, warp_n, fragments) = match multiply {
            Multiply::Mma(Mma { operand, warp_m, warp_n, fragments, .. }) => (operand, warp_m, warp_n, fragments),
            Multiply::Fma(_) => return 2,
            Multiply::Wgmma(Wgmma { blocks, .. }) => return blocks,
        };
        let threads = multiply.threads(tile);
        let row = tile.k * operand.bytes();
        let held =
            self.plan.operands.iter().zip([tile.m, tile.n]).filter(|(operand, _)| operand.is_held_in_registers());
        let operands: u32 = held.map(|(_, rows)| rows * row / 4 / threads * 2).sum();
        let fragments = fragments * (warp_m + warp_n) / 4;
        let multiplied = warp_m * warp_n / 32 + fragments + fp8_registers(&multiply, self.device);
        let registers = multiplied + operands + ADDRESSES;
        let by_registers = REGISTERS / (registers.next_multiple_of(8) * threads);
        by_registers.min(self.device.shared_bytes_per_block / (shared_bytes + 1024)).clamp(1, 4)
    }
}

/// Blocks of a kernel whose blocks stay and walk the tiles of so many matrices or parts of k: as many for each column of tiles where blocks
/// keep to theirs.
fn staying_blocks(matrices: i64, [tiles_m, tiles_n]: [i64; 2], wgmma: &Wgmma, device: &Device) -> u32 {
    let blocks = to_u32(matrices.saturating_mul(tiles_m.saturating_mul(tiles_n))).min(device.sm_count * wgmma.blocks);
    match wgmma.stationary_steps {
        0 => blocks,
        _ => blocks - blocks % to_u32(matrices * tiles_n),
    }
}

/// Blocks that run at once, one on a multiprocessor, where so many are a cluster: its blocks share a part of the chip (an H200, 132 multiprocessors: 30
/// clusters of four do, 32 do not). Pairs are taken to fill it, which was not measured.
pub(in crate::engine) fn blocks_in_clusters(blocks: u32, device: &Device) -> u32 {
    let multiprocessors = match blocks {
        ..=2 => device.sm_count,
        _ => (f64::from(device.sm_count) * IN_LARGE_CLUSTERS) as u32,
    };
    multiprocessors - multiprocessors % blocks
}
const IN_LARGE_CLUSTERS: f64 = 0.91;

/// Reductions with their partial results, those of the same indices together.
fn by_reduced_indices(mut left: Vec<(PartialReduction, Parameter)>) -> Vec<Vec<(PartialReduction, Parameter)>> {
    let mut groups = Vec::new();
    while let Some((first, _)) = left.first() {
        let reduced = first.reduced;
        let (alike, others) = left.into_iter().partition(|(reduction, _)| reduction.reduced == reduced);
        groups.push(alike);
        left = others;
    }
    groups
}

/// Number of values that the reductions of an epilogue start from.
fn reduced_values_of(epilogue: &Epilogue) -> usize {
    match epilogue {
        Epilogue::Fused(fused) => {
            reduced_values(fused.reductions.iter().map(|reduction| &reduction.accumulation)).len()
        }
        Epilogue::Workspace { .. } => 0,
    }
}

/// Waves that parts of tiles fill at most, and how many numbers of parts are tried: a tile more than there are multiprocessors is a second
/// wave of whole tiles, and little more than one of four parts each.
const MOST_WAVES_OF_SPLITS: i64 = 5;
const MOST_NUMBERS_OF_SPLITS: usize = 4;

/// Numbers of parts, `most` or fewer, into which k is cut: one; where the tiles of C leave multiprocessors idle, as many as fill them some
/// times.
pub(in crate::engine) fn splits_that_fill(device: &Device, tiles: i64, most: i64) -> Vec<u32> {
    let mut all = vec![1];
    for waves in 1..=MOST_WAVES_OF_SPLITS {
        let splits = (i64::from(device.sm_count) * waves / tiles.max(1)).min(most) as u32;
        if splits > 1 && !all.contains(&splits) && all.len() < MOST_NUMBERS_OF_SPLITS {
            all.push(splits);
        }
    }
    all
}

/// How many times [`combination_seconds`] the combination takes behind tensor cores (fitted with the constants of `warpgroup_mma`).
pub(in crate::engine) const COMBINATION: f64 = 1.3;

/// Seconds for sums that go through the workspace: a launch, then every partial sum written and read once.
pub(in crate::engine) fn combination_seconds([b, m, n, _]: [i64; 4], splits: u32, device: &Device) -> f64 {
    let bytes = 8.0 * (b as f64 * m as f64 * n as f64) * f64::from(splits);
    LAUNCH_SECONDS + bytes / device.bytes_per_second
}
