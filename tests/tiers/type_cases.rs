//! Compute types that the surfaces do not document and that are defined all the same: cores, reductions, comparisons.

use fusewright::device::{ComputeCapability, Device};
use fusewright::emulator::EmulatedKernel;
use fusewright::graph::DataType::{self, BFloat16, Boolean, Float, Fp8E4M3, Fp8E5M2, Half, Int8, Int32, Int64, UInt8};
use fusewright::graph::{FinalizedGraph, Graph, PointwiseMode, ReductionMode, Tensor, TensorId};
use fusewright::host_tensor::{HostTensor, HostTensors};
use fusewright::reference::{bounds, compare, compare_exact, execute};
use libtest_mimic::{Failed, Trial};

use crate::cases::{Case, graph, output, plain_matmul, push, typed};
use crate::{emulator, pipeline, tier};

/// Chips that multiply by multiply-adds, by `mma.sync` and by `wgmma`.
const CHIPS: [(u32, u32); 3] = [(7, 0), (8, 0), (9, 0)];

/// Adds the cases of this file.
pub(crate) fn cases(cases: &mut Vec<Case>) {
    cores(cases);
    stages_on_bytes(cases);
    stages_that_round(cases);
    reduced_types(cases);
    integer_reductions(cases);
    comparisons(cases);
}

fn lower(data_type: DataType) -> String {
    data_type.name().to_ascii_lowercase()
}

/// B of 8 bits that is cast and scaled to a type of 16 bits on its way: in pairs, on every chip, of vectors along n and along k.
fn stages_on_bytes(cases: &mut Vec<Case>) {
    for (bytes, halves) in
        [Int8, UInt8, Fp8E4M3, Fp8E5M2].into_iter().flat_map(|bytes| [Half, BFloat16].map(|halves| (bytes, halves)))
    {
        for (label, stride) in [("rows", [64 * 96, 96, 1]), ("columns", [64 * 96, 1, 64])] {
            let mut g = graph(halves).intermediate_data_type(halves);
            let a = g.tensor(Tensor::new("A").row_major([1, 40, 64]));
            let b = g.tensor(Tensor::new("B").dim([1, 64, 96]).stride(stride).data_type(bytes));
            let cast = g.pointwise("cast", PointwiseMode::Identity, &[b]);
            let scale = g.tensor(Tensor::new("scale").row_major([1, 1, 96]));
            let scaled = g.pointwise("scaled", PointwiseMode::Mul, &[cast, scale]);
            let c = g.matmul("mm", a, scaled);
            output(&mut g, c, Float);
            push(cases, format!("types_mm_stage_on_{}_{}_{label}", lower(bytes), lower(halves)), g);
        }
    }
}

/// A of 8 or 16 bits that is rounded to integers on its way to a type of 16 bits: what is computed in INT32 is no cast.
fn stages_that_round(cases: &mut Vec<Case>) {
    for (data_type, halves) in [(Fp8E4M3, Half), (Fp8E5M2, BFloat16), (Half, Half), (BFloat16, BFloat16), (Int8, Half)]
    {
        for (label, stride) in [("rows", [40 * 64, 64, 1]), ("columns", [40 * 64, 1, 40])] {
            let mut g = graph(halves).intermediate_data_type(halves);
            let a = g.tensor(Tensor::new("A").dim([1, 40, 64]).stride(stride).data_type(data_type));
            let rounded = g.pointwise("rounded", PointwiseMode::Identity, &[a]);
            g.last_operation().compute_data_type = Some(Int32);
            let b = g.tensor(Tensor::new("B").row_major([1, 64, 96]));
            let c = g.matmul("mm", rounded, b);
            output(&mut g, c, Float);
            push(cases, format!("types_mm_stage_rounds_{}_{}_{label}", lower(data_type), lower(halves)), g);
        }
    }
}

/// INT8 in FLOAT and BFLOAT16 in HALF, in every layout; INT8 beside BFLOAT16; a stage; a sum too long for INT32.
fn cores(cases: &mut Vec<Case>) {
    for types in [
        [Int8, Int8, Float, Float],
        [Int8, Int8, Float, Int8],
        [Int8, Int8, Float, Half],
        [Int8, BFloat16, Float, Float],
        [BFloat16, BFloat16, Half, Float],
        [BFloat16, BFloat16, Half, BFloat16],
    ] {
        let label = types.map(lower).join("_");
        for layout in 0..4 {
            let columns = [layout & 1 != 0, layout & 2 != 0, false];
            let graph = typed(plain_matmul([2, 48, 32, 144], columns), types);
            push(cases, format!("types_mm_{label}_layout_{layout}"), graph);
        }
        push(cases, format!("types_mm_{label}_ragged"), typed(plain_matmul([1, 33, 21, 37], [false; 3]), types));
    }
    for (operand, compute) in [(Int8, Float), (BFloat16, Half)] {
        let mut g = graph(operand).intermediate_data_type(operand);
        let a = g.tensor(Tensor::new("A").row_major([1, 40, 72]));
        let stage = g.pointwise("positive", PointwiseMode::ReluFwd, &[a]);
        let b = g.tensor(Tensor::new("B").row_major([1, 72, 48]));
        let c = g.matmul("mm", stage, b);
        g.last_operation().compute_data_type = Some(compute);
        output(&mut g, c, Float);
        push(cases, format!("types_mm_{}_{}_stage", lower(operand), lower(compute)), g);
    }
    let long = typed(plain_matmul([1, 5, 16, (1 << 17) + 8], [false, true, false]), [Int8, Int8, Float, Float]);
    push(cases, "types_mm_int8_float_long", long);
}

/// Results of reductions in every type but FLOAT and BOOLEAN: of a pass, of a split one, of the tiles of a matmul.
fn reduced_types(cases: &mut Vec<Case>) {
    for result in [Half, BFloat16, Int8, UInt8, Int32, Int64, Fp8E4M3, Fp8E5M2] {
        let mut g = graph(Half);
        let x = g.tensor(Tensor::new("x").channels_last([4, 24, 6, 5]));
        let y = g.reduction("sum", ReductionMode::Add, x, [1, 24, 1, 1]);
        output(&mut g, y, result);
        push(cases, format!("types_red_{}", lower(result)), g);
    }
    let mut g = graph(Int8);
    let x = g.tensor(Tensor::new("x").channels_last([16, 33, 15, 15]));
    let y = g.reduction("largest", ReductionMode::Max, x, [1, 1, 1, 1]);
    output(&mut g, y, Int8);
    push(cases, "types_red_split_int8", g);

    for (label, mode, dim, result) in [
        ("columns", ReductionMode::Amax, [2, 1, 48], Half),
        ("rows", ReductionMode::Add, [2, 72, 1], Int8),
        ("all", ReductionMode::Max, [1, 1, 1], BFloat16),
    ] {
        let mut g = graph(Half);
        let a = g.tensor(Tensor::new("A").row_major([2, 72, 40]));
        let b = g.tensor(Tensor::new("B").row_major([2, 40, 48]));
        let c = g.matmul("mm", a, b);
        let y = g.reduction("reduce", mode, c, dim);
        output(&mut g, y, result);
        push(cases, format!("types_red_beside_matmul_{label}"), g);
    }
}

/// Reductions of 8-bit integers computed in INT32.
fn integer_reductions(cases: &mut Vec<Case>) {
    use ReductionMode::{Add, Amax, Max, Min, Norm1};
    for (operand, mode) in [(Int8, Add), (UInt8, Add), (Int8, Norm1), (Int8, Min), (UInt8, Max), (Int8, Amax)] {
        let mut g = graph(operand);
        let x = g.tensor(Tensor::new("x").channels_last([4, 24, 6, 5]));
        let y = g.reduction("reduce", mode, x, [4, 1, 1, 1]);
        g.last_operation().compute_data_type = Some(Int32);
        output(&mut g, y, Int32);
        push(cases, format!("types_red_{}_{}_int32", mode.name().to_ascii_lowercase(), lower(operand)), g);
    }
}

/// Comparisons and logic in the type of their operands.
fn comparisons(cases: &mut Vec<Case>) {
    use PointwiseMode::{CmpEq, CmpGe, CmpGt, CmpLe, CmpLt, CmpNeq, LogicalAnd, LogicalNot, LogicalOr};
    for data_type in [Int8, UInt8, Int32, Half, BFloat16, Boolean] {
        let mut g = graph(data_type).compute_data_type(data_type);
        let [x, b] = ["x", "b"].map(|name| g.tensor(Tensor::new(name).channels_last([2, 24, 5, 7])));
        for mode in [CmpEq, CmpNeq, CmpGt, CmpGe, CmpLt, CmpLe, LogicalAnd, LogicalOr, LogicalNot] {
            let name = mode.name().to_ascii_lowercase();
            let y = g.pointwise(&name, mode, &[x, b][..mode.inputs()]);
            output(&mut g, y, Int8);
        }
        push(cases, format!("types_comparisons_{}", lower(data_type)), g);
    }
}

/// Values at which conversions round, saturate and overflow, on every kind of core.
pub(crate) fn trials() -> Vec<Trial> {
    let requirement = fusewright::emulator::compiler_version().map(drop).map_err(|error| error.to_string());
    tier("emulator::types", requirement, "FUSEWRIGHT_REQUIRE_EMULATOR", || {
        let on_chip = |(major, minor): (u32, u32)| {
            let capability = ComputeCapability::new(major, minor);
            let halves = move || bfloat16_operands_become_halves(capability);
            let integers = move || long_sums_of_the_largest_integers(capability);
            [
                Trial::test(format!("emulator::types::bfloat16_operands_become_halves_{capability}"), halves),
                Trial::test(format!("emulator::types::long_sums_of_the_largest_integers_{capability}"), integers),
            ]
        };
        CHIPS.into_iter().flat_map(on_chip).collect()
    })
}

/// `A·B` with given values, by the CPU engine and by a kernel for a chip.
struct Multiplied {
    graph: std::sync::Arc<FinalizedGraph>,
    inputs: HostTensors,
    expected: HostTensors,
    actual: HostTensors,
}

fn multiplied(
    graph: &Graph,
    capability: ComputeCapability,
    value: impl Fn(TensorId, usize) -> f64 + Sync,
) -> Result<Multiplied, Failed> {
    let lowered = pipeline::lower(graph, &Device::typical(capability))?;
    let graph = lowered.graph;
    let tensor = |id: TensorId| {
        let tensor = graph.tensor(id);
        HostTensor::from_fn(tensor.data_type, &tensor.dim, &tensor.stride, |position| value(id, position))
    };
    let inputs: HostTensors =
        graph.inputs().map(|id| Ok((id, tensor(id)?))).collect::<Result<_, fusewright::error::Error>>()?;
    // SAFETY: the source was rendered from the graph that it is run for.
    let kernel = unsafe { EmulatedKernel::compile(&lowered.source, &emulator::cache_dir()) }?;
    let (expected, actual) = (execute(&graph, &inputs)?, kernel.run(&graph, &inputs)?);
    Ok(Multiplied { graph, inputs, expected, actual })
}

/// Products of one term each, with 1: the operands as HALF holds them. Beyond 65504 is infinity; ties are below 2⁻²⁴.
fn bfloat16_operands_become_halves(capability: ComputeCapability) -> Result<(), Failed> {
    const UNIT: f64 = 1.0 / 16_777_216.0;
    const VALUES: [(f64, f64); 8] = [
        (65280.0, 65280.0),
        (65536.0, f64::INFINITY),
        (-1e30, f64::NEG_INFINITY),
        (0.5 * UNIT, 0.0),
        (1.5 * UNIT, 2.0 * UNIT),
        (-UNIT, -UNIT),
        (1e-30, 0.0),
        (1.0078125, 1.0078125),
    ];
    const COLUMNS: usize = 8;
    let operand = |id: TensorId, row: usize| if id.index() == 0 { VALUES[row % VALUES.len()].0 } else { 1.0 };
    let graph = typed(plain_matmul([1, 16, COLUMNS as i64, 1], [false; 3]), [BFloat16, BFloat16, Half, Float]);
    let Multiplied { graph, expected, actual, .. } = multiplied(&graph, capability, operand)?;
    let comparison = compare_exact(&graph, &expected, &actual)?;
    let c = graph.outputs().next().ok_or("no output")?;
    let found = actual[&c].to_dense::<f64>()?;
    let is_half = |(position, &found): (usize, &f64)| found == VALUES[position / COLUMNS % VALUES.len()].1;
    match comparison.is_match() && found.iter().enumerate().all(is_half) {
        true => Ok(()),
        false => Err(format!("{found:?}\n{comparison}").into()),
    }
}

/// Sums of INT8 products at and beyond 2²⁴, where FLOAT begins to round, and at 2³¹, which INT32 does not reach.
fn long_sums_of_the_largest_integers(capability: ComputeCapability) -> Result<(), Failed> {
    const LONGEST: i64 = 1 << 17;
    for k in [1024, 1056, 4000, LONGEST] {
        let operand = |id: TensorId, position: usize| match (id.index() + position) % 5 {
            0 if k < LONGEST => 127.0,
            _ => -128.0,
        };
        let graph = typed(plain_matmul([1, 8, 16, k], [false, true, false]), [Int8, Int8, Float, Float]);
        let Multiplied { graph, inputs, expected, actual } = multiplied(&graph, capability, operand)?;
        let comparison = compare(&graph, &expected, &actual, Some(&bounds(&graph, &inputs)?))?;
        if !comparison.is_match() {
            return Err(format!("k = {k}\n{comparison}").into());
        }
    }
    Ok(())
}
