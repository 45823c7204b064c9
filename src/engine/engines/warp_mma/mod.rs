//! The engine of tensor cores through `mma.sync`, from sm_75 on: matmuls and convolutions with any mainloop and epilogue
//! DAG, operands in FP16, BF16, TF32, INT8 or FP8.
//!
//! Tiles come by `cp.async` where an operand is copied as it is, through registers where a mainloop stage is evaluated
//! or accesses are not aligned. FP8 operands are multiplied as they are from sm_89 on where both are copied as they are;
//! else as FP16, which holds every FP8 value exactly. Sums are FP32, also where the graph computes in HALF, or INT32 of
//! INT8, also where the graph computes in FLOAT and such sums are exact. Operands of two types are multiplied as the type that holds both.

mod shape;

use crate::device::{ComputeCapability, Device};
use crate::engine::lowering::{
    Instruction, ProductPlan, RELAXED_WITH_CORE, lowered_product, multiplied_type, promotes, rounds_to_tf32,
    taken_apart, tf32_is_allowed,
};
use crate::engine::{Engine, EngineConfig, Offer, RankedConfig};
use crate::error::Reason;
use crate::fusion::{Fusion, Product};
use crate::graph::{DataType, FinalizedGraph};
use crate::kernel::{Kernel, MmaType};
use crate::support::{Rule, Supported};

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct WarpMma;

const NAME: &str = "warp_mma";

/// `mma.sync` on FP16 and INT8 with `ldmatrix`.
const TURING: ComputeCapability = ComputeCapability::new(7, 5);

/// BF16, TF32 and `cp.async`.
const AMPERE: ComputeCapability = ComputeCapability::new(8, 0);

/// FP8.
const ADA: ComputeCapability = ComputeCapability::new(8, 9);

impl Engine for WarpMma {
    fn id(&self) -> i64 {
        1
    }

    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "matmul and convolution fusions on tensor cores by mma.sync, from sm_75 on (BF16 and TF32 from sm_80 on), sums in FP32 \
         or INT32"
    }

    fn relaxes(&self) -> &'static [&'static Rule] {
        RELAXED_WITH_CORE
    }

    fn take(&self, supported: &Supported) -> Result<Box<dyn Offer>, Reason> {
        let fusion = &*taken_apart(supported).map_err(Reason::Graph)?;
        let product = lowered_product(fusion)?;
        let tiles = Tiles::new(fusion, product, supported.capability())?;
        tf32_is_allowed(fusion.graph(), product, tiles.operand).map_err(Reason::Environment)?;
        if rounds_to_tf32(fusion.graph(), product, tiles.operand) {
            tiles.gain_by_rounding().map_err(Reason::Graph)?;
        }
        Ok(Box::new(tiles))
    }
}

/// Most terms of a FLOAT product that multiply-adds sum in full as fast as matrix instructions do rounded to TF32, where elements come one by one: those of
/// one step. Of 17 such convolutions (H200, 2026-11-30; NCHW or one channel, 1 to 27 terms) `scalar` takes 0.81 to 1.16 times as long, 1.01 on the
/// geometric mean; of 36 to 200 terms 0.78 to 1.23, and where vectors of channels are copied 1.15 to 2.2.
const TERMS_IN_FULL: i64 = 32;

/// Microseconds that the model expects of a product's first config on a device; `None` where there is no instruction for its operands, or no
/// tile fits.
pub(super) fn expected(fusion: &Fusion, product: &Product, device: &Device) -> Option<f64> {
    let tiles = Tiles::new(fusion, product, device.capability).ok()?;
    shape::candidates(&tiles, device).first().map(|first| first.estimated_us)
}

/// A product in tiles.
#[derive(Debug)]
struct Tiles {
    plan: ProductPlan,
    /// The type in which operands are multiplied.
    operand: MmaType,
    /// Whether sums of FP8 products are added up outside the tensor core.
    promotes: bool,
    /// Types of operands that are converted to that in which they are multiplied.
    converted: Vec<DataType>,
}

impl Tiles {
    /// Plans a product in the type in which its operands are multiplied. FP8 is multiplied as it is where `cp.async` takes both
    /// operands along k: `ldmatrix` does not transpose bytes, so others are faster as FP16.
    ///
    /// # Errors
    /// That there is no instruction for the operands, or that the chip lacks it.
    fn new(fusion: &Fusion, product: &Product, capability: ComputeCapability) -> Result<Self, Reason> {
        let graph = fusion.graph();
        let operand = multiplied_type(graph, product).map_err(Reason::Graph)?;
        let planned = |operand| {
            let plan = ProductPlan::new(fusion, product, Instruction::Mma(operand));
            let types = product.tensors().map(|id| graph.tensor(id).data_type);
            let mut converted: Vec<DataType> =
                types.into_iter().filter(|stored| !is_multiplied(*stored, operand)).collect();
            converted.dedup();
            Self { plan, operand, promotes: promotes(graph, product, operand), converted }
        };
        if operand == MmaType::F16 && capability >= ADA && is_fp8(graph, product) {
            let as_stored = planned(MmaType::Fp8);
            if as_stored.plan.operands.iter().all(|operand| operand.is_copied()) {
                return Ok(as_stored);
            }
        }
        let needed = if matches!(operand, MmaType::F16 | MmaType::S8) { TURING } else { AMPERE };
        if capability < needed {
            return Err(Reason::Chip(format!(
                "{capability} has no matrix instruction for {operand:?} operands; it begins with {needed}"
            )));
        }
        Ok(planned(operand))
    }

    /// Whether a product of FLOAT operands is faster for being rounded to TF32.
    ///
    /// # Errors
    /// Why it is not.
    fn gain_by_rounding(&self) -> Result<(), String> {
        let [.., terms] = self.plan.extents();
        let [a, _] = &self.plan.operands;
        if terms > TERMS_IN_FULL || a.vector() > 1 {
            return Ok(());
        }
        Err(format!(
            "sums of {terms} terms that are read one by one take as long in full FLOAT: nothing is rounded to TF32"
        ))
    }
}

/// Whether a type is multiplied as it is stored.
fn is_multiplied(stored: DataType, operand: MmaType) -> bool {
    match operand {
        MmaType::F16 => stored == DataType::Half,
        MmaType::Bf16 => stored == DataType::BFloat16,
        MmaType::Tf32 => stored == DataType::Float,
        MmaType::S8 => stored == DataType::Int8,
        MmaType::Fp8 => stored.is_fp8(),
    }
}

fn is_fp8(graph: &FinalizedGraph, product: &Product) -> bool {
    product.tensors().iter().all(|&id| graph.tensor(id).data_type.is_fp8())
}

impl Offer for Tiles {
    fn remarks(&self) -> Vec<String> {
        let multiplied = match self.operand {
            MmaType::F16 => "HALF",
            MmaType::Bf16 => "BFLOAT16",
            MmaType::Tf32 => "TF32",
            MmaType::S8 => "INT8",
            MmaType::Fp8 => "FP8",
        };
        let remark = |stored: &DataType| format!("operands of {stored} are multiplied as {multiplied}, at its rate");
        self.converted.iter().map(remark).collect()
    }

    fn candidates(&self, device: &Device) -> Vec<RankedConfig> {
        shape::candidates(self, device)
    }

    fn lower(&self, config: &EngineConfig, device: &Device) -> Kernel {
        self.plan.lower(&shape::choice(self, config), config, device)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::graph::{Convolution, ConvolutionDirection, Graph, Tensor};

    fn operand_type(graph: &Graph, (major, minor): (u32, u32)) -> Result<MmaType, Reason> {
        let fusion = crate::fusion::fuse(Arc::new(graph.finalize().expect("well formed"))).expect("a matmul");
        let product = fusion.product().expect("a matmul");
        Tiles::new(&fusion, product, ComputeCapability::new(major, minor)).map(|tiles| tiles.operand)
    }

    fn chosen(types: [DataType; 2], compute: DataType, capability: (u32, u32)) -> Result<MmaType, Reason> {
        of_terms(types, compute, capability, 8)
    }

    /// As [`chosen`], for sums of so many terms.
    fn of_terms(types: [DataType; 2], compute: DataType, capability: (u32, u32), k: i64) -> Result<MmaType, Reason> {
        let mut graph = Graph::new().io_data_type(DataType::Float).compute_data_type(compute);
        let a = graph.tensor(Tensor::new("A").row_major([1, 8, k]).data_type(types[0]));
        let b = graph.tensor(Tensor::new("B").row_major([1, k, 8]).data_type(types[1]));
        let c = graph.matmul("mm", a, b);
        graph.set_output(c);
        operand_type(&graph, capability)
    }

    #[test]
    fn operands_are_multiplied_in_a_type_that_holds_both() {
        use DataType as T;
        let on_ampere = |a, b| chosen([a, b], T::Float, (8, 0)).ok();
        assert_eq!(on_ampere(T::Half, T::Half), Some(MmaType::F16));
        assert_eq!(on_ampere(T::Fp8E4M3, T::Fp8E5M2), Some(MmaType::F16));
        assert_eq!(on_ampere(T::BFloat16, T::Fp8E5M2), Some(MmaType::Bf16));
        assert_eq!(on_ampere(T::BFloat16, T::Half), Some(MmaType::Tf32));
        assert_eq!(on_ampere(T::Half, T::Float), Some(MmaType::Tf32));
        assert_eq!(on_ampere(T::Half, T::Int8), None);
        assert_eq!(chosen([T::Int8, T::Int8], T::Int32, (7, 5)), Ok(MmaType::S8));
    }

    #[test]
    fn int8_in_float_is_summed_in_int32_while_that_is_exact() {
        use DataType as T;
        let of_terms = |k| of_terms([T::Int8; 2], T::Float, (7, 5), k);
        assert_eq!(of_terms((1 << 17) - 1), Ok(MmaType::S8));
        assert_eq!(of_terms(1 << 17), Ok(MmaType::F16));
    }

    #[test]
    fn bfloat16_in_half_is_multiplied_as_half() {
        use DataType as T;
        assert_eq!(chosen([T::BFloat16; 2], T::Half, (7, 5)), Ok(MmaType::F16));
        assert_eq!(chosen([T::BFloat16; 2], T::Float, (8, 0)), Ok(MmaType::Bf16));
    }

    /// What `A · B` of FP8 is multiplied as on a chip, B with these strides.
    fn of_fp8(stride: [i64; 3], capability: (u32, u32)) -> MmaType {
        let mut graph = Graph::new().io_data_type(DataType::Fp8E4M3).compute_data_type(DataType::Float);
        let a = graph.tensor(Tensor::new("A").row_major([1, 8, 8]));
        let b = graph.tensor(Tensor::new("B").dim([1, 8, 8]).stride(stride).data_type(DataType::Fp8E5M2));
        let c = graph.matmul("mm", a, b);
        graph.set_output(c);
        operand_type(&graph, capability).expect("FP16 holds it")
    }

    #[test]
    fn fp8_is_multiplied_as_it_is_where_chip_and_layout_allow_it() {
        let (along_k, along_n) = ([64, 1, 8], [64, 8, 1]);
        assert_eq!(of_fp8(along_k, (8, 9)), MmaType::Fp8);
        assert_eq!(of_fp8(along_k, (9, 0)), MmaType::Fp8);
        assert_eq!(of_fp8(along_k, (8, 6)), MmaType::F16);
        assert_eq!(of_fp8(along_n, (8, 9)), MmaType::F16);
    }

    /// Whether FLOAT convolutions of so many channels, NCHW or channels last, under a filter of `taps` squared are rounded to TF32 here.
    fn rounds(channels: i64, taps: i64, is_channels_last: bool) -> bool {
        let mut graph = Graph::new().io_data_type(DataType::Float).compute_data_type(DataType::Float);
        let of = |name: &str, dim: [i64; 4]| match is_channels_last {
            true => Tensor::new(name).channels_last(dim),
            false => Tensor::new(name).row_major(dim),
        };
        let x = graph.tensor(of("x", [2, channels, 9, 9]));
        let w = graph.tensor(of("w", [4, channels, taps, taps]));
        let y = graph.convolution("conv", Convolution::new(ConvolutionDirection::Forward, 2), [x, w]);
        graph.set_output(y);
        let fusion = crate::fusion::fuse(Arc::new(graph.finalize().expect("well formed"))).expect("a convolution");
        let product = fusion.product().expect("a convolution");
        let tiles = Tiles::new(&fusion, product, ComputeCapability::SM_90).expect("TF32");
        tiles.gain_by_rounding().is_ok()
    }

    #[test]
    fn a_step_of_terms_that_are_read_one_by_one_is_not_rounded_to_tf32() {
        assert!(!rounds(1, 5, false) && !rounds(1, 5, true) && !rounds(3, 3, false));
        assert!(rounds(1, 6, false) && rounds(4, 3, false), "more terms than a step has");
        assert!(rounds(4, 1, true), "vectors of channels");
    }

    #[test]
    fn chips_without_the_instruction_are_passed_over() {
        use DataType as T;
        assert!(chosen([T::Half, T::Half], T::Float, (7, 0)).is_err());
        assert!(chosen([T::Half, T::Half], T::Float, (7, 5)).is_ok());
        assert!(chosen([T::BFloat16, T::BFloat16], T::Float, (7, 5)).is_err());
        assert!(chosen([T::Float, T::Float], T::Float, (7, 5)).is_err());
    }
}
