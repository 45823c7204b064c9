//! Hopper's engine: matmuls and convolutions through the tensor memory accelerator (TMA) and `wgmma`, with any epilogue DAG.
//!
//! One warpgroup brings tiles, two multiply; blocks stay on their multiprocessor and walk the tiles of C. An operand with a
//! mainloop stage or of another type is computed by the first warpgroup on its way: from boxes of the tensor that the stage
//! starts from, or through registers where the accelerator does not take its layout. Operands of 8 bits and of TF32 that do
//! not run along k are turned there. Sums are kept in FP16 where the core computes in HALF, else in FP32 or INT32. What
//! cannot be read in vectors is left to the next engine.
//!
//! An operand that is multiplied as it is stored, but whose layout the accelerator does not take, or that would be turned, may be copied
//! first, to padded rows in the workspace: where the models expect the copy to cost less than it saves. Those of filter gradients in types
//! of 8 and 32 bits are unfolded to matrices. An operand with a mainloop stage may be evaluated first, to the workspace, and read from
//! there as any other: a knob of configs, which the model prices.
//!
//! A convolution is an implicit product: boxes walk the pixels of an image (im2col), one walk for each tap of the filter, so that
//! padding is read as zeros and nothing is copied. A data gradient of stride s is s products an axis, one for each phase of pixels,
//! with the taps that reach it. Both operands must come in boxes; the last step under a tap multiplies no more channels than there are.
//! Filters of few channels forward, and what boxes do not take, are left to the next engine.

mod copied;
mod model;
mod shape;

use crate::device::Device;
use crate::engine::lowering::{
    CopiedOperands, Instruction, OperandPlan, ProductPlan, RELAXED_WITH_CORE, are_boxed, lowered_product,
    multiplied_type, promotes, taken_apart, tf32_is_allowed,
};
use crate::engine::{Engine, EngineConfig, Knob, Offer, RankedConfig};
use crate::error::Reason;
use crate::fusion::{Fusion, Product};
use crate::graph::{DataType, FinalizedGraph};
use crate::kernel::{Kernel, MmaType, Sums};
use crate::support::{Rule, Supported};

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct WarpgroupMma;

const NAME: &str = "warpgroup_mma";

/// Bytes of the channels under a tap of a filter that lies along k, below which `mma.sync` is faster, which packs taps into k: in groups of
/// few results, whose tiles are narrower here; where taps of a row are multiplied together to many results; and else; but not where the taps
/// of a row are multiplied together by a B that stays in shared memory.
///
/// By `mma.sync` and here in µs, 3×3: 16 groups of 16 channels of HALF 94 and 79, 24 channels to 96 102 and 82, to 128 26 and 23; 16 channels
/// to 128 19 and 25 (H100). Taps one by one: 16 channels to 128 17 and 23, 24 channels 24 and 32, 32 channels 27 and 18 (H200). With a B that
/// stays (H100): 8 channels to 24 158 and 90, 16 to 224 63 and 36, 5×5 taps of 16 to 64 58 and 30, 24 to 8 33 and 20, 40 groups of 8 101 and 68.
const LEAST_BYTES_IN_GROUPS: i64 = 32;
const LEAST_BYTES_IN_TAP_ROWS: i64 = 48;
const LEAST_TAP_BYTES: i64 = 64;
const FEW_COLUMNS: i64 = 16;
const MANY_COLUMNS: i64 = 96;

impl Engine for WarpgroupMma {
    fn id(&self) -> i64 {
        0
    }

    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "matmul and convolution fusions on Hopper by TMA and wgmma: operands as they are stored, sums in the compute type, any epilogue"
    }

    fn relaxes(&self) -> &'static [&'static Rule] {
        RELAXED_WITH_CORE
    }

    fn take(&self, supported: &Supported) -> Result<Box<dyn Offer>, Reason> {
        let capability = supported.capability();
        if capability.major != 9 {
            return Err(Reason::Chip(format!("wgmma is Hopper's; the chip is {capability}")));
        }
        let fusion = &*taken_apart(supported).map_err(Reason::Graph)?;
        Ok(Box::new(copied::chosen(fusion, lowered_product(fusion)?, capability)?))
    }
}

/// How a core is arranged as a product.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Arrangement {
    /// As it stands.
    #[default]
    AsItStands,
    /// A matmul transposed.
    Transposed,
    /// A convolution whose steps multiply the taps of a filter's row together.
    TapRows,
}

/// A core in tiles.
#[derive(Debug)]
struct Tiles {
    /// The product as it stands, and in its other arrangements.
    plan: ProductPlan,
    transposed: Option<ProductPlan>,
    tap_rows: Option<ProductPlan>,
    /// The type in which operands are multiplied.
    operand: MmaType,
    /// What sums are kept in.
    sums: Sums,
    /// Tiles of the operands that mainloop stages compute, evaluated first, beside those that compute them on their way.
    evaluated_first: Option<Box<Self>>,
}

impl Tiles {
    /// Plans a matmul or a convolution.
    ///
    /// # Errors
    /// That there is no instruction for the operands, or that they cannot be read in vectors.
    fn new(fusion: &Fusion, product: &Product) -> Result<Self, Reason> {
        let graph = fusion.graph();
        let operand = operand_type(fusion, product)?;
        tf32_is_allowed(graph, product, operand).map_err(Reason::Environment)?;
        let instruction = Instruction::Wgmma(operand);
        let plan = ProductPlan::new(fusion, product, instruction);
        let transposed = ProductPlan::transposed(fusion, product, instruction);
        let tap_rows = ProductPlan::in_tap_rows(fusion, product, operand);
        Ok(Self { tap_rows, ..Self::of(plan, transposed, operand, sums(graph, product, operand))? })
    }

    /// Plans products that read copies of operands, one for each way to copy them that gives tiles.
    fn of_copies(fusion: &Fusion, product: &Product) -> Vec<Self> {
        Self::of_ways(fusion, product, CopiedOperands::ways)
    }

    /// The same of operands that a mainloop stage computes, evaluated first.
    fn of_evaluated(fusion: &Fusion, product: &Product) -> Vec<Self> {
        Self::of_ways(fusion, product, CopiedOperands::evaluated)
    }

    fn of_ways(fusion: &Fusion, product: &Product, ways: Ways) -> Vec<Self> {
        let graph = fusion.graph();
        let tiles = |(copied, operand): (CopiedOperands, MmaType)| {
            tf32_is_allowed(graph, product, operand).ok()?;
            let plan = ProductPlan::of_copies(&copied, operand, false)?;
            let transposed = ProductPlan::of_copies(&copied, operand, true);
            Self::of(plan, transposed, operand, sums(graph, product, operand)).ok()
        };
        copied_operands(fusion, product, ways).into_iter().filter_map(tiles).collect()
    }

    /// The product as it stands and transposed, if there are tiles for it.
    fn of(plan: ProductPlan, transposed: Option<ProductPlan>, operand: MmaType, sums: Sums) -> Result<Self, Reason> {
        let why_not = |operand: &OperandPlan| match &transposed {
            Some(_) => operand.why_by_element(),
            None => operand.why_not_in_boxes(),
        };
        match transposed.as_ref().unwrap_or(&plan).operands.iter().find_map(why_not) {
            Some(why) => Err(Reason::Graph(why)),
            None => Ok(Self { plan, transposed, tap_rows: None, operand, sums, evaluated_first: None }),
        }
    }

    /// The same, if its steps multiply enough under a tap to be faster than `mma.sync` on a device.
    ///
    /// # Errors
    /// How few bytes the channels under a tap have.
    fn with_enough_under_a_tap(self, device: &Device) -> Result<Self, Reason> {
        let [groups, _, columns, _] = self.plan.extents();
        let least = match &self.tap_rows {
            _ if groups > 1 && columns <= FEW_COLUMNS => LEAST_BYTES_IN_GROUPS,
            Some(_) if columns >= MANY_COLUMNS => LEAST_BYTES_IN_TAP_ROWS,
            _ => LEAST_TAP_BYTES,
        };
        match self.plan.tap_bytes(self.operand).filter(|&bytes| bytes < least) {
            Some(bytes) if !self.keeps_b_in_tap_rows(device) => Err(Reason::Graph(format!(
                "channels under a tap of the filter have {bytes} bytes; `mma.sync` is faster below {least}"
            ))),
            _ => Ok(self),
        }
    }

    /// Whether the first config multiplies taps of a row together by a B that stays in shared memory.
    fn keeps_b_in_tap_rows(&self, device: &Device) -> bool {
        let keeps = |ranked: &RankedConfig| {
            [Knob::TapRows, Knob::StationaryB].into_iter().all(|knob| ranked.config.knob(knob, 0) == 1)
        };
        self.tap_rows.is_some() && shape::candidates(self, device).first().is_some_and(keeps)
    }

    /// Microseconds of the first config; endless where none fits the device.
    fn microseconds(&self, device: &Device) -> f64 {
        shape::candidates(self, device).first().map_or(f64::INFINITY, |ranked| ranked.estimated_us)
    }

    /// The product in an arrangement, if there is one.
    fn plan(&self, arrangement: Arrangement) -> Option<&ProductPlan> {
        match arrangement {
            Arrangement::AsItStands => Some(&self.plan),
            Arrangement::Transposed => self.transposed.as_ref(),
            Arrangement::TapRows => self.tap_rows.as_ref(),
        }
    }
}

impl Offer for Tiles {
    fn remarks(&self) -> Vec<String> {
        let knob = Knob::EvaluateFirst.name();
        let first = self.evaluated_first.iter().flat_map(|tiles| tiles.plan.copy_remarks());
        let first = first.map(|remark| format!("with {knob}=1: {remark}"));
        self.plan.copy_remarks().into_iter().chain(first).collect()
    }

    fn candidates(&self, device: &Device) -> Vec<RankedConfig> {
        shape::candidates(self, device)
    }

    fn offers(&self, config: &EngineConfig, device: &Device) -> bool {
        shape::offers(self, config, device)
    }

    fn lower(&self, config: &EngineConfig, device: &Device) -> Kernel {
        shape::lower(self, config, device)
    }
}

/// The type in which a core's operands are multiplied: FP8 as it is where both are boxed, else the type that holds both.
fn operand_type(fusion: &Fusion, product: &Product) -> Result<MmaType, Reason> {
    let common = multiplied_type(fusion.graph(), product).map_err(Reason::Graph)?;
    let as_stored = common == MmaType::F16 && are_boxed(fusion, product, MmaType::Fp8);
    Ok(if as_stored { MmaType::Fp8 } else { common })
}

/// A kind of copies of operands: each way to have them for an instruction.
type Ways = fn(&Fusion, &Product, MmaType) -> Vec<CopiedOperands>;

/// Copies of operands in all ways of a kind, and the type in which these are multiplied: FP8 as it is where both come in boxes then.
fn copied_operands(fusion: &Fusion, product: &Product, ways: Ways) -> Vec<(CopiedOperands, MmaType)> {
    let Ok(common) = multiplied_type(fusion.graph(), product) else { return Vec::new() };
    let ways = |operand| ways(fusion, product, operand).into_iter().map(move |way| (way, operand));
    let as_stored = || ways(MmaType::Fp8).filter(|(copied, _)| copied.are_boxed(MmaType::Fp8)).collect();
    let as_stored: Vec<_> = if common == MmaType::F16 { as_stored() } else { Vec::new() };
    if as_stored.is_empty() { ways(common).collect() } else { as_stored }
}

/// What sums are kept in: in FP16 where that is the compute type of FP16 operands.
fn sums(graph: &FinalizedGraph, product: &Product, operand: MmaType) -> Sums {
    match operand {
        MmaType::F16 if graph.compute_type(product.operation) == DataType::Half => Sums::Half,
        _ if promotes(graph, product, operand) => Sums::Promoted,
        _ => Sums::Full,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::engine::Knob;
    use crate::graph::{Graph, Tensor};
    use crate::kernel::{Body, GemmKernel};

    /// A matmul of operands in rows or columns.
    fn tiles(types: [DataType; 2], compute: DataType, columns: [bool; 2]) -> Tiles {
        let mut graph = Graph::new().io_data_type(DataType::Float).compute_data_type(compute);
        let mut tensor = |name, [rows, width]: [i64; 2], slot: usize| {
            let stride = if columns[slot] { [rows * width, 1, rows] } else { [rows * width, width, 1] };
            graph.tensor(Tensor::new(name).dim([1, rows, width]).stride(stride).data_type(types[slot]))
        };
        let (a, b) = (tensor("A", [48, 64], 0), tensor("B", [64, 32], 1));
        let c = graph.matmul("mm", a, b);
        graph.set_output(c);
        let fusion = crate::fusion::fuse(Arc::new(graph.finalize().expect("well formed"))).expect("a matmul");
        Tiles::new(&fusion, fusion.product().expect("a matmul")).expect("the engine takes it")
    }

    #[test]
    fn operands_of_8_and_32_bits_are_turned_where_they_do_not_run_along_k() {
        use DataType::{Float, Fp8E4M3, Fp8E5M2, Int8, Int32};
        for (types, compute, expected) in [
            ([Int8; 2], Int32, MmaType::S8),
            ([Fp8E4M3, Fp8E5M2], Float, MmaType::Fp8),
            ([Float; 2], Float, MmaType::Tf32),
        ] {
            for columns in [[false, false], [false, true], [true, false], [true, true]] {
                let tiles = tiles(types, compute, columns);
                let turned = tiles.plan.operands.each_ref().map(|operand| operand.is_turned());
                assert_eq!((tiles.operand, turned), (expected, [columns[0], !columns[1]]), "{types:?} {columns:?}");
            }
        }
    }

    #[test]
    fn configs_whose_operands_come_in_no_boxes_have_a_time_too() {
        let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
        let a = graph.tensor(Tensor::new("A").row_major([1, 48, 60]));
        let b = graph.tensor(Tensor::new("B").row_major([1, 60, 32]));
        let c = graph.matmul("mm", a, b);
        graph.set_output(c);
        let fusion = crate::fusion::fuse(Arc::new(graph.finalize().expect("well formed"))).expect("a matmul");
        let tiles = Tiles::new(&fusion, fusion.product().expect("a matmul")).expect("the engine takes it");
        assert!(!tiles.plan.operands[0].is_boxed(), "rows of 120 bytes");
        let ranking = tiles.candidates(&Device::typical(crate::device::ComputeCapability::SM_90));
        assert!(!ranking.is_empty());
        for RankedConfig { config, estimated_us, .. } in ranking {
            assert!((1.0..20.0).contains(&estimated_us), "{config} in {estimated_us} µs");
        }
    }

    /// The product of a config's kernel.
    fn product_of(tiles: &Tiles, config: &EngineConfig, device: &Device) -> GemmKernel {
        let kernel = shape::lower(tiles, config, device);
        let product = kernel.functions.into_iter().find_map(|function| match function.body {
            Body::Gemm(gemm) => Some(*gemm),
            _ => None,
        });
        product.expect("a product")
    }

    /// Whether blocks of a config's clusters share operands.
    fn shares(config: &EngineConfig) -> bool {
        config.knob(Knob::ClusterM, 1) * config.knob(Knob::ClusterN, 1) > 1
    }

    #[test]
    fn the_last_step_ends_with_k_to_the_next_product() {
        let device = Device::typical(crate::device::ComputeCapability::SM_90);
        for (k, tail) in [
            (1, Some((16, 1))),
            (8, Some((16, 1))),
            (40, Some((48, 1))),
            (56, Some((64, 1))),
            (64, None),
            (104, Some((48, 2))),
            // the last product ends with the step
            (120, None),
            (1032, Some((16, 17))),
            // one of many
            (4104, None),
        ] {
            let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
            // rows of one element lie along m and n
            let [a_stride, b_stride] =
                if k == 1 { [[384, 1, 384], [256, 256, 1]] } else { [[384 * k, k, 1], [256 * k, 1, k]] };
            let a = graph.tensor(Tensor::new("A").dim([1, 384, k]).stride(a_stride));
            let b = graph.tensor(Tensor::new("B").dim([1, k, 256]).stride(b_stride));
            let c = graph.matmul("mm", a, b);
            graph.set_output(c);
            for is_dynamic in [false, true] {
                let graph = graph.finalize().expect("well formed");
                let graph = if is_dynamic { graph.with_dynamic_shapes().expect("well formed") } else { graph };
                let fusion = crate::fusion::fuse(Arc::new(graph)).expect("a matmul");
                let tiles = Tiles::new(&fusion, fusion.product().expect("a matmul")).expect("the engine takes it");
                for RankedConfig { config, .. } in tiles.candidates(&device) {
                    let gemm = product_of(&tiles, &config, &device);
                    // texts of dynamic shapes know a k that is one step
                    let expected = tail.filter(|&(_, steps)| (!is_dynamic && !shares(&config)) || steps == 1);
                    assert_eq!(gemm.tail.map(|tail| (tail.elements, tail.steps)), expected, "k = {k}, {config}");
                    // in the only step boxes have what there is, and what is multiplied behind it are zeros
                    let last = match expected {
                        Some((elements, 1)) if k == 1 => elements,
                        Some((_, 1)) => k as u32,
                        Some((elements, _)) => elements,
                        None => 64,
                    };
                    let of_operands = gemm.operand_maps();
                    let narrowest = of_operands.iter().map(|map| map.box_dims[usize::from(k == 1)]).min();
                    assert_eq!(narrowest, Some(last), "k = {k}, {config}");
                }
            }
        }
    }

    #[test]
    fn boxes_end_where_rows_and_columns_of_c_do() {
        let [rows, columns] = [277, 328];
        let device = Device::typical(crate::device::ComputeCapability::SM_90);
        for b_along_k in [true, false] {
            let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
            let a = graph.tensor(Tensor::new("A").row_major([1, rows, 512]));
            let stride = if b_along_k { [512 * columns, 1, 512] } else { [512 * columns, columns, 1] };
            let b = graph.tensor(Tensor::new("B").dim([1, 512, columns]).stride(stride));
            let c = graph.matmul("mm", a, b);
            graph.set_output(c);
            let fusion = crate::fusion::fuse(Arc::new(graph.finalize().expect("well formed"))).expect("a matmul");
            let tiles = Tiles::new(&fusion, fusion.product().expect("a matmul")).expect("the engine takes it");
            let configs = tiles.candidates(&device).into_iter().map(|ranked| ranked.config);
            let stays = |config: &EngineConfig| config.knob(Knob::StationaryB, 0) == 1;
            for config in configs.filter(|config| config.knob(Knob::SwapAb, 0) == 0 && !stays(config)) {
                let gemm = product_of(&tiles, &config, &device);
                let left = |extent: i64, tile: u32| (extent as u32 - 1) % tile + 1;
                let [of_a, of_b] = [left(rows, gemm.tile.m), left(columns, gemm.tile.n)];
                let lines = gemm.b.map().expect("boxes").span();
                let expected = [
                    (of_a < gemm.tile.m).then_some(of_a),
                    (of_b < gemm.tile.n).then_some(if b_along_k { of_b } else { left(of_b.into(), lines) }),
                ];
                let axis_of_b = usize::from(b_along_k);
                let found =
                    [gemm.a.edge.map(|edge| edge.box_dims[1]), gemm.b.edge.map(|edge| edge.box_dims[axis_of_b])];
                assert_eq!(found, if shares(&config) { [None, None] } else { expected }, "{config}");
            }
        }
    }

    #[test]
    fn operands_of_16_bits_are_multiplied_as_they_lie() {
        for columns in [[false, false], [true, true]] {
            let tiles = tiles([DataType::Half; 2], DataType::Float, columns);
            assert!(tiles.plan.operands.iter().all(|operand| operand.is_boxed()), "{columns:?}");
        }
    }

    /// The area of a tile of the first config of `A · Bᵀ` of FP16, blocks of its cluster, and the time that the model expects, in microseconds.
    fn best([m, n, k]: [i64; 3]) -> (u32, u32, f64) {
        let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
        let a = graph.tensor(Tensor::new("A").row_major([1, m, k]));
        let b = graph.tensor(Tensor::new("B").dim([1, k, n]).stride([k * n, 1, k]));
        let c = graph.matmul("mm", a, b);
        graph.set_output(c);
        let fusion = crate::fusion::fuse(Arc::new(graph.finalize().expect("well formed"))).expect("a matmul");
        let tiles = Tiles::new(&fusion, fusion.product().expect("a matmul")).expect("the engine takes it");
        let first = tiles.candidates(&Device::typical(crate::device::ComputeCapability::SM_90)).swap_remove(0);
        let product = |knobs: [Knob; 2]| knobs.map(|knob| first.config.knob(knob, 1)).iter().product();
        let [area, blocks] = [[Knob::TileM, Knob::TileN], [Knob::ClusterM, Knob::ClusterN]].map(product);
        (area, blocks, first.estimated_us)
    }

    #[test]
    fn rows_that_straddle_lines_of_l2_take_larger_tiles_in_clusters_and_longer() {
        let (area, alone, lines) = best([4096; 3]);
        let (straddling_area, blocks, straddling) = best([4096, 4096, 4088]);
        assert!(straddling_area > area && alone == 1 && blocks > 1, "{area} {straddling_area}, {alone} {blocks}");
        // 181 to 200 and, of 4000×4104×4088, 216 µs on an H200
        assert!((150.0..220.0).contains(&lines) && (190.0..240.0).contains(&straddling), "{lines} {straddling}");
    }
}
