//! A core with its stages as a tiled matrix product, and the functions that finish its epilogue.

use super::boxes::epilogue_boxes;
use super::epilogue::{EpilogueOutputs, EpilogueSplit, along_n, core_result, fused, kept_space, reduced_count};
use super::multiplied::fp8_registers;
use super::operand::operand;
use super::pass::{
    CoreAccumulators, function_name, lower_operations, partial_regions, program_parameters, push_combine, to_u32,
};
use super::problem::Problem;
use super::signal::around_signals;
use super::sweep::span;
use crate::device::Device;
use crate::engine::EngineConfig;
use crate::fusion::Fusion;
use crate::graph::FinalizedGraph;
use crate::kernel::{
    Accumulators, Body, Boxes, CONSUMERS, Epilogue, Fetch, Function, GemmKernel, GemmTile, Kernel, Launch, Multiply,
    Parameter, PartialReduction, Register, WARPGROUP, reduced_values,
};

/// Room for the totals of a block's warps.
const TOTALS_BYTES: u32 = 128;

/// Bytes of an mbarrier.
const BARRIER_BYTES: u32 = 8;

/// What an engine decides of a matrix product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct GemmChoice {
    pub(in crate::engine) tile: GemmTile,
    pub(in crate::engine) multiply: Multiply,
    /// Parts into which k is cut.
    pub(in crate::engine) splits: u32,
    /// Whether the transposed product is computed, with A and B exchanged.
    pub(in crate::engine) transposed: bool,
    /// Bytes of a stage beyond the tiles of A and B, for what is transformed on its way.
    pub(in crate::engine) raw_bytes: u32,
    /// Bytes of a warp's boxes, where the epilogue's tensors come and leave by TMA; 0 where accumulators go through shared
    /// memory.
    pub(in crate::engine) boxed_bytes: u32,
}

impl GemmChoice {
    /// As many splits as get steps of the mainloop: each but the last does the same number.
    fn without_empty_splits(&self, [.., k]: [i64; 4]) -> Self {
        let steps = (k + i64::from(self.tile.k) - 1) / i64::from(self.tile.k);
        let each = (steps + i64::from(self.splits) - 1) / i64::from(self.splits);
        Self { splits: to_u32((steps + each - 1) / each), ..*self }
    }

    /// Shared memory of a block, in bytes: that of the mainloop is used again by the epilogue, except where blocks stay
    /// and the next tile's mainloop runs beside it.
    pub(in crate::engine) fn shared_bytes(&self, along_n: bool, reduced_values: usize) -> u32 {
        let mainloop = self.mainloop_bytes();
        match self.multiply {
            Multiply::Wgmma { stages, .. } => {
                let warps = CONSUMERS * WARPGROUP / 32;
                let barriers = 3 * stages + CONSUMERS + warps * Boxes::SETS;
                let staged = if self.boxed_bytes > 0 { self.boxed_bytes } else { self.staged_bytes(along_n) };
                mainloop + warps * staged + BARRIER_BYTES * barriers
            }
            _ => mainloop.max(self.staged_bytes(along_n) * reduced_values.max(1) as u32 + TOTALS_BYTES),
        }
    }

    /// Shared memory of the mainloop, in bytes. The rows of an FMA tile are padded by one word.
    fn mainloop_bytes(&self) -> u32 {
        let GemmTile { m, n, k } = self.tile;
        match self.multiply {
            Multiply::Fma { .. } => 4 * k * (m + 1 + n + 1),
            Multiply::Mma { operand, stages, .. } | Multiply::Wgmma { operand, stages, .. } => {
                stages * ((m + n) * k * operand.bytes() + self.raw_bytes)
            }
        }
    }

    /// Bytes of the part of a tile that the epilogue holds in shared memory; there is one for each value reduced.
    fn staged_bytes(&self, along_n: bool) -> u32 {
        let [m, n] = self.multiply.staged(self.tile, along_n);
        4 * if along_n { m } else { n } * self.multiply.staged_pitch(self.tile, along_n)
    }

    /// Whether the lanes of a warp hold a whole line of what it takes at a time, as totals of rows and of columns need:
    /// where `wgmma`'s lanes take single elements, lines of 64 are too long.
    fn holds_lines(&self, epilogue: &Epilogue, along_n: bool) -> bool {
        const LANES: i64 = 32;
        let (Multiply::Wgmma { .. }, Epilogue::Fused { sweep, reductions, .. }) = (self.multiply, epilogue) else {
            return true;
        };
        let [rows, columns] = self.multiply.staged(self.tile, along_n);
        let line = i64::from(if along_n { columns } else { rows });
        let needs_lines = |reduction: &PartialReduction| reduction.reduced[1] != reduction.reduced[2];
        line <= LANES * sweep.vector || !reductions.iter().any(needs_lines)
    }

    /// The tile of which each gives one partial result of a reduction.
    fn reduced_tile(&self) -> GemmTile {
        match self.multiply {
            Multiply::Wgmma { .. } => GemmTile { m: self.multiply.staged(self.tile, true)[0], ..self.tile },
            _ => self.tile,
        }
    }
}

/// Lowers the core with both mainloop stages and the epilogue. What the epilogue cannot do where the tiles are follows
/// in passes over the core's accumulators, and operations that do not depend on the core get passes of their own.
pub(in crate::engine) fn lower(
    fusion: &Fusion,
    choice: &GemmChoice,
    config: &EngineConfig,
    device: &Device,
    kernel: &mut Kernel,
) {
    around_signals(fusion, kernel, |kernel| lower_core(fusion, choice, config, device, kernel));
}

fn lower_core(fusion: &Fusion, choice: &GemmChoice, config: &EngineConfig, device: &Device, kernel: &mut Kernel) {
    let problem = if choice.transposed { Problem::transposed(fusion) } else { Problem::of(fusion) };
    let problem = problem.expect("the fusion has a core");
    let choice = &choice.without_empty_splits(problem.space.extents());
    let split = EpilogueSplit::new(fusion);
    let register = choice.multiply.accumulator();
    let outputs = EpilogueOutputs::new(fusion, &split.fused);
    let along_n = along_n(fusion.graph(), &problem, &outputs.stores, core_result(fusion));
    let lowering = Lowering { fusion, problem: &problem, choice, device, along_n };
    let reduced = reduced_values(outputs.accumulations.iter()).len();
    let fits = choice.shared_bytes(along_n, reduced) <= device.shared_bytes_per_block;
    let walks = along_n || reduced == 0 || !matches!(choice.multiply, Multiply::Wgmma { .. });
    let boxes = (choice.boxed_bytes > 0).then(|| epilogue_boxes(fusion, &problem, choice.tile)).flatten();
    let accumulators = match &boxes {
        Some(_) => Accumulators::Fragment(register),
        None if choice.multiply.stages_swizzled(choice.tile, along_n) => Accumulators::SwizzledTile(register),
        None => Accumulators::Tile(register),
    };
    let fused = fused(fusion, &problem, &split.fused, choice.reduced_tile(), accumulators, along_n, boxes);
    let fused = fused.filter(|epilogue| fits && walks && choice.holds_lines(epilogue, along_n));
    match fused.filter(|_| choice.splits == 1) {
        Some(epilogue) => {
            lowering.push_fused(epilogue, kernel);
            lower_operations(fusion.graph(), &split.apart, None, config, device, kernel);
        }
        None => {
            let core = lowering.push_to_workspace(kernel);
            let mut operations = [split.fused, split.apart].concat();
            operations.sort_unstable();
            operations.dedup();
            lower_operations(fusion.graph(), &operations, Some(&core), config, device, kernel);
        }
    }
}

struct Lowering<'a> {
    fusion: &'a Fusion,
    problem: &'a Problem,
    choice: &'a GemmChoice,
    device: &'a Device,
    along_n: bool,
}

impl Lowering<'_> {
    fn graph(&self) -> &FinalizedGraph {
        self.fusion.graph()
    }

    fn gemm(&self, epilogue: Epilogue) -> GemmKernel {
        let GemmChoice { tile, multiply, splits, .. } = *self.choice;
        let mut gemm = GemmKernel {
            space: self.problem.space.clone(),
            tile,
            multiply,
            a: operand(self.fusion, self.problem, 0, &multiply, tile),
            b: operand(self.fusion, self.problem, 1, &multiply, tile),
            epilogue,
            along_n: self.along_n,
            raster: self.raster(),
            splits,
            blocks: 1,
            wide_index: self.is_wide(),
        };
        for sweep in gemm.sweeps_mut() {
            sweep.wide_index = self.is_wide();
        }
        gemm
    }

    /// Rows of tiles that are walked together. Where blocks stay, of 4, 8, 16 and 32 those with which the tiles under way at
    /// once read the fewest rows of A and of Bᵀ; else 8.
    fn raster(&self) -> u32 {
        const ROWS: u32 = 8;
        let GemmTile { m, n, .. } = self.choice.tile;
        let read = |rows: &u32| rows * m + self.device.sm_count.div_ceil(*rows) * n;
        match self.choice.multiply {
            Multiply::Wgmma { .. } => [4, 8, 16, 32].into_iter().min_by_key(read).unwrap_or(ROWS),
            _ => ROWS,
        }
    }

    /// Whether some offset or coordinate may exceed 31 bits. A tile reaches beyond the last row and column, so there is a margin.
    fn is_wide(&self) -> bool {
        let limit = i64::from(i32::MAX) / 2;
        if self.problem.reach() > limit {
            return true;
        }
        let mut tensors = self.graph().tensors().filter(|tensor| !tensor.is_virtual);
        let partial_sums = self.problem.space.elements().saturating_mul(self.choice.splits.into());
        let extents = self.problem.space.extents();
        tensors.any(|tensor| span(tensor) > 2 * limit) || partial_sums > limit || extents.iter().any(|&e| e > limit)
    }

    /// The product with its epilogue, and a combination for each reduction.
    fn push_fused(&self, epilogue: Epilogue, kernel: &mut Kernel) {
        let mut gemm = self.gemm(epilogue);
        let Epilogue::Fused { reductions, .. } = &gemm.epilogue else { return };
        let reductions = reductions.clone();
        let partials: Vec<Parameter> = reductions
            .iter()
            .flat_map(|reduction| partial_regions(kernel, 1, reduction.splits * reduction.kept))
            .collect();
        let launch = self.launch(&gemm, &partials, kernel);
        gemm.blocks = self.blocks(&gemm, launch.shared_bytes);
        kernel.functions.push(Function { launch, body: Body::Gemm(Box::new(gemm)) });
        for (reduction, partial) in reductions.iter().zip(partials) {
            self.push_combination(reduction, partial, kernel);
        }
    }

    fn push_combination(&self, reduction: &PartialReduction, partial: Parameter, kernel: &mut Kernel) {
        let space = kept_space(self.graph(), self.problem, reduction);
        let count = reduced_count(self.problem, reduction);
        push_combine(self.graph(), space, vec![reduction.accumulation], vec![partial], reduction.splits, count, kernel);
    }

    /// The product alone, its accumulators in the workspace.
    fn push_to_workspace(&self, kernel: &mut Kernel) -> CoreAccumulators {
        let register = self.choice.multiply.accumulator();
        let elements = self.problem.space.elements();
        let Parameter::Workspace { offset } =
            partial_regions(kernel, 1, elements * i64::from(self.choice.splits)).remove(0)
        else {
            unreachable!("regions lie in the workspace")
        };
        let parameter = Parameter::Accumulators { offset, is_integer: register == Register::Int };
        let strides = self.workspace_strides();
        let mut gemm = GemmKernel { along_n: true, ..self.gemm(Epilogue::Workspace { strides }) };
        let launch = self.launch(&gemm, &[parameter], kernel);
        gemm.blocks = self.blocks(&gemm, launch.shared_bytes);
        kernel.functions.push(Function { launch, body: Body::Gemm(Box::new(gemm)) });
        let tensor = core_result(self.fusion);
        let rank = self.graph().tensor(tensor).dim.len();
        let strides = (0..rank).map(|axis| self.axis_stride(axis, strides)).collect();
        CoreAccumulators { tensor, strides, register, splits: self.choice.splits, elements, parameter }
    }

    /// Where the accumulator of b, m, n lies: C's rows, with the groups of a convolution inside the row, so that
    /// channels follow each other. Where groups belong to the rows of C (filter gradients) they come first.
    fn workspace_strides(&self) -> [i64; 3] {
        let [b, m, n, _] = self.problem.space.extents();
        let groups_in_row = self.shares_axis(&self.problem.space.n);
        if groups_in_row { [n, b * n, 1] } else { [m * n, n, 1] }
    }

    /// Whether the batch digit and a digit of this index count along the same axis of C.
    fn shares_axis(&self, digits: &[crate::kernel::Digit]) -> bool {
        let axis = |digit: &crate::kernel::Digit| self.problem.axis_of(digit.name);
        let batch = self.problem.space.b.first().and_then(axis);
        batch.is_some() && digits.iter().any(|digit| axis(digit) == batch)
    }

    /// Elements of the workspace to the next coordinate of a graph axis of C.
    fn axis_stride(&self, axis: usize, strides: [i64; 3]) -> i64 {
        let Some(&(name, scale)) = self.problem.result[axis].terms.last() else { return 0 };
        let space = &self.problem.space;
        for (digits, stride) in [&space.b, &space.m, &space.n].into_iter().zip(strides) {
            if let Some(position) = digits.iter().position(|digit| digit.name == name) {
                let inner: i64 = digits[position + 1..].iter().map(|digit| digit.extent).product();
                return stride * inner / scale;
            }
        }
        0
    }

    fn launch(&self, gemm: &GemmKernel, workspace: &[Parameter], kernel: &Kernel) -> Launch {
        let graph = self.graph();
        let choice = self.choice;
        let stores = gemm.stores();
        let mut parameters = program_parameters(gemm.loads(), &stores, |id| graph.tensor(id).is_pass_by_value);
        parameters.extend(workspace);
        parameters.extend(gemm.maps().map(Parameter::TensorMap));
        let shared_bytes = match &gemm.epilogue {
            Epilogue::Fused { reductions, .. } => {
                let values = reduced_values(reductions.iter().map(|reduction| &reduction.accumulation));
                choice.shared_bytes(self.along_n, values.len())
            }
            Epilogue::Workspace { .. } => choice.shared_bytes(true, 1),
        };
        let grid = match choice.multiply {
            Multiply::Wgmma { .. } => [to_u32(gemm.units()).min(self.device.sm_count), 1],
            _ => [to_u32(gemm.tiles()), choice.splits],
        };
        Launch {
            function: function_name(self.skeleton(), kernel),
            grid,
            block: [choice.multiply.threads(choice.tile), 1, 1],
            shared_bytes,
            starts_early: true,
            parameters,
        }
    }

    /// Blocks that share a multiprocessor, as far as shared memory lets them and their registers suffice: those of
    /// accumulators and fragments, of operands on their way through registers (as they were read, and as they are
    /// stored), and about 40 for addresses (seen in compiled tiles).
    fn blocks(&self, gemm: &GemmKernel, shared_bytes: u32) -> u32 {
        const ADDRESSES: u32 = 40;
        const REGISTERS_OF_A_MULTIPROCESSOR: u32 = 65536;
        let (operand, warp_m, warp_n, fragments) = match gemm.multiply {
            Multiply::Mma { operand, warp_m, warp_n, fragments, .. } => (operand, warp_m, warp_n, fragments),
            Multiply::Fma { .. } => return 2,
            Multiply::Wgmma { .. } => return 1,
        };
        let threads = gemm.multiply.threads(gemm.tile);
        let row = gemm.tile.k * operand.bytes();
        let held = [(&gemm.a, gemm.tile.m), (&gemm.b, gemm.tile.n)];
        let held = held.into_iter().filter(|(operand, _)| operand.fetch == Fetch::Vector);
        let operands: u32 = held.map(|(_, rows)| rows * row / 4 / threads * 2).sum();
        let fragments = fragments * (warp_m + warp_n) / 4;
        let multiplied = warp_m * warp_n / 32 + fragments + fp8_registers(&gemm.multiply, self.device);
        let registers = multiplied + operands + ADDRESSES;
        let by_registers = REGISTERS_OF_A_MULTIPROCESSOR / (registers.next_multiple_of(8) * threads);
        by_registers.min(self.device.shared_bytes_per_block / (shared_bytes + 1024)).clamp(1, 4)
    }

    fn skeleton(&self) -> &'static str {
        use crate::fusion::Pattern as P;
        match self.fusion.pattern() {
            P::ConvolutionForward => "convolution_forward",
            P::ConvolutionBackwardData => "convolution_backward_data",
            P::ConvolutionBackwardFilter => "convolution_backward_filter",
            _ => "matmul",
        }
    }
}

/// Time of a combination of partial sums in steps of a mainloop: launch, then every partial sum written and read once.
/// A step of 128×128×64 bytes takes about 0.15 µs and a second launch 3 µs on an H200: an orientation for the ranking.
pub(in crate::engine) fn combination_cost([b, m, n, _]: [i64; 4], splits: u32, device: &Device) -> f64 {
    const STEP_SECONDS: f64 = 0.15e-6;
    const LAUNCH_SECONDS: f64 = 3e-6;
    let bytes = 8.0 * (b * m * n) as f64 * f64::from(splits);
    (LAUNCH_SECONDS + bytes / device.bytes_per_second) / STEP_SECONDS
}
