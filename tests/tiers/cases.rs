//! The numeric suite: every graph once, used by all tiers.
//!
//! Small graphs that together reach every skeleton, access kind, storage type, layout and reduction shape of the
//! engines. A case is a name and a graph; what it must compute is what the CPU engine says.

use crate::attention_backward_cases::backward_passes;
use crate::attention_cases::attentions;
use crate::convolution_cases::{convolutions, wide_convolutions};
use fusewright::device::ComputeCapability;
use fusewright::graph::{
    Attributes, DataType, Graph, Operation, Pointwise, PointwiseMode, Port, ReductionMode, Scalar, Tensor, TensorHandle,
};

use crate::gradient_weight_cases;
use crate::mha_cases;
use crate::movement_cases::movements;
use crate::norm_cases::norms;
use crate::relaxed;
use crate::resample_cases;
use crate::softmax_cases::softmaxes;
use crate::stored_stage_cases;
use crate::transposed_cases;
use crate::type_cases;

/// One graph of the suite.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) graph: Graph,
    /// The chip whose kernel the emulator runs; a GPU runs its own.
    pub(crate) capability: ComputeCapability,
}

/// Every case, in a fixed order.
pub(crate) fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    pointwise_modes(&mut cases);
    scaled_operands(&mut cases);
    pointwise_types(&mut cases);
    pointwise_shapes(&mut cases);
    reductions(&mut cases);
    matmul_shapes(&mut cases);
    matmul_types(&mut cases);
    fp8_matmuls(&mut cases);
    packed_booleans(&mut cases);
    matmul_fusions(&mut cases);
    matmul_boxes(&mut cases);
    half_sums(&mut cases);
    convolutions(&mut cases);
    movements(&mut cases);
    softmaxes(&mut cases);
    attentions(&mut cases);
    mha_cases::attentions(&mut cases);
    backward_passes(&mut cases);
    norms(&mut cases);
    once_wrong(&mut cases);
    relaxed::cases(&mut cases);
    type_cases::cases(&mut cases);
    gradient_weight_cases::cases(&mut cases);
    stored_stage_cases::cases(&mut cases);
    transposed_cases::cases(&mut cases);
    cases
}

pub(crate) fn graph(io: DataType) -> Graph {
    Graph::new().io_data_type(io).intermediate_data_type(DataType::Float).compute_data_type(DataType::Float)
}

pub(crate) fn push(cases: &mut Vec<Case>, name: impl Into<String>, graph: Graph) {
    let name = name.into();
    cases.push(Case { graph: graph.name(name.clone()), name, capability: ComputeCapability::SM_90 });
}

pub(crate) fn output(graph: &mut Graph, id: TensorHandle, data_type: DataType) {
    graph.set_output(id).data_type = Some(data_type);
}

/// Every pointwise mode on float tensors; the integer and boolean forms where a mode has them.
fn pointwise_modes(cases: &mut Vec<Case>) {
    for &mode in PointwiseMode::ALL {
        if !mode.is_logical() {
            push(cases, format!("pw_{}_float", lower(mode.name())), mode_graph(mode, DataType::Float, DataType::Float));
        } else {
            push(cases, format!("pw_{}_boolean", lower(mode.name())), logical_graph(mode));
        }
    }
    let clipped = Pointwise {
        relu_lower_clip: Some(-0.5),
        relu_upper_clip: Some(1.25),
        relu_lower_clip_slope: Some(0.125),
        ..Pointwise::new(PointwiseMode::ReluFwd)
    };
    push(cases, "pw_relu_clipped_leaky", unary_with(clipped.clone()));
    push(cases, "pw_relu_bwd_clipped_leaky", binary_with(Pointwise { mode: PointwiseMode::ReluBwd, ..clipped }));
    let beta = Pointwise {
        swish_beta: Some(1.5),
        softplus_beta: Some(2.0),
        elu_alpha: Some(0.75),
        ..Pointwise::new(PointwiseMode::SwishFwd)
    };
    for mode in [PointwiseMode::SwishFwd, PointwiseMode::SoftplusFwd, PointwiseMode::EluFwd] {
        push(cases, format!("pw_{}_beta", lower(mode.name())), unary_with(Pointwise { mode, ..beta.clone() }));
    }
    for mode in [PointwiseMode::SwishBwd, PointwiseMode::SoftplusBwd, PointwiseMode::EluBwd] {
        push(cases, format!("pw_{}_beta", lower(mode.name())), binary_with(Pointwise { mode, ..beta.clone() }));
    }
}

/// Operands with factors: sums, products, a power, a comparison, a choice, gradients and activations, each of the same two tensors. By 0 an operand counts
/// as 0, whatever it holds.
fn scaled_operands(cases: &mut Vec<Case>) {
    use PointwiseMode as M;
    const MODES: [M; 13] = [
        M::Add,
        M::Sub,
        M::Mul,
        M::Max,
        M::Pow,
        M::CmpGt,
        M::BinarySelect,
        M::ReluFwd,
        M::TanhFwd,
        M::Identity,
        M::ReluBwd,
        M::SwishBwd,
        M::AddSquare,
    ];
    for (name, alpha1, alpha2) in [("scaled", 2.0, -0.75), ("scaled_by_0", 1.0, 0.0), ("both_scaled_by_0", 0.0, 0.0)] {
        let mut g = graph(DataType::Half);
        let x: [TensorHandle; 3] = ["x", "b", "t"].map(|name| g.tensor(Tensor::new(name).channels_last([2, 24, 5, 7])));
        for mode in MODES {
            let attributes = Pointwise { alpha1, alpha2, ..Pointwise::new(mode) };
            let y = g.pointwise_with(&lower(mode.name()), attributes, &x[..mode.inputs()]);
            output(&mut g, y, DataType::Float);
        }
        push(cases, format!("pw_{name}"), g);
    }
    let mut g = graph(DataType::Half).intermediate_data_type(DataType::Half);
    let a = g.tensor(Tensor::new("A").row_major([2, 64, 64]));
    let b = g.tensor(Tensor::new("B").row_major([2, 64, 64]));
    let side = g.tensor(Tensor::new("side").row_major([2, 64, 64]));
    let attributes = Pointwise { alpha1: 0.5, alpha2: 3.0, ..Pointwise::new(M::Add) };
    let a = g.pointwise_with("sum", attributes, &[a, side]);
    let c = g.matmul("mm", a, b);
    output(&mut g, c, DataType::Half);
    push(cases, "mm_g1_scaled", g);
}

fn lower(name: &str) -> String {
    name.to_ascii_lowercase()
}

fn mode_graph(mode: PointwiseMode, input: DataType, result: DataType) -> Graph {
    let mut g = graph(input);
    let operands: Vec<TensorHandle> =
        (0..mode.inputs()).map(|slot| g.tensor(Tensor::new(format!("x{slot}")).channels_last([2, 24, 5, 7]))).collect();
    let axis = (mode == PointwiseMode::GenIndex).then_some(2);
    let y = g.pointwise_with("op", Pointwise { axis, ..Pointwise::new(mode) }, &operands);
    output(&mut g, y, result);
    g
}

fn unary_with(attributes: Pointwise) -> Graph {
    let mut g = graph(DataType::Float);
    let x = g.tensor(Tensor::new("x").channels_last([2, 24, 5, 7]));
    let y = g.pointwise_with("op", attributes, &[x]);
    output(&mut g, y, DataType::Float);
    g
}

fn binary_with(attributes: Pointwise) -> Graph {
    let mut g = graph(DataType::Half);
    let dy = g.tensor(Tensor::new("dy").channels_last([2, 24, 5, 7]));
    let x = g.tensor(Tensor::new("x").channels_last([2, 24, 5, 7]));
    let y = g.pointwise_with("op", attributes, &[dy, x]);
    output(&mut g, y, DataType::Half);
    g
}

/// Truth values made by comparisons, combined, then used by a select and stored packed.
fn logical_graph(mode: PointwiseMode) -> Graph {
    let mut g = graph(DataType::Half);
    let x = g.tensor(Tensor::new("x").channels_last([2, 24, 5, 7]));
    let b = g.tensor(Tensor::new("b").channels_last([2, 24, 5, 7]));
    let more = g.pointwise("more", PointwiseMode::CmpGt, &[x, b]);
    let positive = g.pointwise("positive", PointwiseMode::CmpGe, &[x, b]);
    for id in [more, positive] {
        g.tensor_mut(id).data_type = Some(DataType::Boolean);
    }
    let operands = if mode.inputs() == 1 { vec![more] } else { vec![more, positive] };
    let truth = g.pointwise("truth", mode, &operands);
    g.last_operation().compute_data_type = Some(DataType::Boolean);
    output(&mut g, truth, DataType::Boolean);
    let chosen = g.pointwise("chosen", PointwiseMode::BinarySelect, &[x, b, truth]);
    output(&mut g, chosen, DataType::Half);
    g
}

/// Every storage type as input, virtual tensor and output.
fn pointwise_types(cases: &mut Vec<Case>) {
    use DataType::{BFloat16, Float, Fp8E4M3, Fp8E5M2, Half, Int8, Int32, Int64, UInt8};
    for input in [Float, Half, BFloat16, Int8, Int32, Fp8E4M3, Fp8E5M2] {
        for result in [Float, Half, BFloat16, Int8, UInt8, Int32, Int64, Fp8E4M3, Fp8E5M2] {
            let mut g = graph(input);
            let x = g.tensor(Tensor::new("x").row_major([2, 6, 16]));
            let s = g.tensor(Tensor::new("s").row_major([1, 1, 16]).data_type(Float));
            let scaled = g.pointwise("scale", PointwiseMode::Mul, &[x, s]);
            output(&mut g, scaled, result);
            push(cases, format!("pw_cast_{}_{}", lower(input.name()), lower(result.name())), g);
        }
    }
    for storage in [Half, BFloat16, Int8, Int32, Fp8E4M3, Fp8E5M2] {
        let mut g = graph(Float).intermediate_data_type(storage);
        let x = g.tensor(Tensor::new("x").row_major([2, 6, 16]));
        let b = g.tensor(Tensor::new("b").row_major([2, 6, 16]));
        let sum = g.pointwise("sum", PointwiseMode::Add, &[x, b]);
        let square = g.pointwise("square", PointwiseMode::Mul, &[sum, sum]);
        let y = g.pointwise("back", PointwiseMode::Sub, &[square, x]);
        output(&mut g, y, Float);
        push(cases, format!("pw_virtual_{}", lower(storage.name())), g);
    }
    for mode in [PointwiseMode::Add, PointwiseMode::Div, PointwiseMode::Mod, PointwiseMode::CmpLt, PointwiseMode::Max] {
        let mut g = graph(Int32).intermediate_data_type(Int32).compute_data_type(Int32);
        let x = g.tensor(Tensor::new("x").row_major([2, 6, 16]));
        let b = g.tensor(Tensor::new("b").row_major([2, 6, 16]));
        let y = g.pointwise("op", mode, &[x, b]);
        output(&mut g, y, Int32);
        push(cases, format!("pw_{}_int32", lower(mode.name())), g);
    }
}

/// Layouts, broadcasts, ragged extents, padded strides, several outputs, host scalars.
fn pointwise_shapes(cases: &mut Vec<Case>) {
    for (label, extents) in [("one", [1, 1, 1]), ("odd", [3, 5, 7]), ("ragged", [2, 3, 1001]), ("long", [1, 1, 4097])] {
        let mut g = graph(DataType::Half);
        let x = g.tensor(Tensor::new("x").row_major(extents));
        let row = g.tensor(Tensor::new("row").row_major([1, extents[1], 1]));
        let column = g.tensor(Tensor::new("column").row_major([1, 1, extents[2]]));
        let scaled = g.pointwise("scaled", PointwiseMode::Mul, &[x, row]);
        let y = g.pointwise("shifted", PointwiseMode::Add, &[scaled, column]);
        output(&mut g, y, DataType::Half);
        push(cases, format!("pw_broadcast_{label}"), g);
    }
    let mut g = graph(DataType::Float);
    let x = g.tensor(Tensor::new("x").row_major([2, 9, 20]));
    let t = g.tensor(Tensor::new("t").dim([2, 9, 20]).stride([180, 1, 9]));
    let y = g.pointwise("sum", PointwiseMode::Add, &[x, t]);
    output(&mut g, y, DataType::Float);
    push(cases, "pw_mixed_layouts", g);

    let mut g = graph(DataType::BFloat16);
    let x = g.tensor(Tensor::new("x").dim([2, 24, 5, 7]).stride([1400, 1, 280, 40]));
    let bias = g.tensor(Tensor::new("bias").channels_last([1, 24, 1, 1]).data_type(DataType::Float));
    let sum = g.pointwise("sum", PointwiseMode::Add, &[x, bias]);
    output(&mut g, sum, DataType::BFloat16);
    g.tensor_mut(sum).stride = vec![1400, 1, 280, 40];
    let relu = g.pointwise("relu", PointwiseMode::ReluFwd, &[sum]);
    output(&mut g, relu, DataType::Int8);
    g.tensor_mut(relu).stride = vec![24 * 35, 1, 24 * 7, 24];
    push(cases, "pw_padded_strides_two_outputs", g);

    let mut g = graph(DataType::Half);
    let x = g.tensor(Tensor::new("x").row_major([1, 33, 41]));
    let s = g.tensor(Tensor::scalar("s", DataType::Float, Scalar::Float(0.375)));
    let y = g.pointwise("scaled", PointwiseMode::Mul, &[x, s]);
    output(&mut g, y, DataType::Half);
    push(cases, "pw_host_scalar", g);

    let mut g = graph(DataType::Half);
    let x = g.tensor(Tensor::new("x").channels_last([2, 16, 3, 3, 5]));
    let index = g.pointwise_with("index", Pointwise { axis: Some(1), ..Pointwise::new(PointwiseMode::GenIndex) }, &[x]);
    output(&mut g, index, DataType::Int64);
    let y = g.pointwise("sum", PointwiseMode::Add, &[x, index]);
    output(&mut g, y, DataType::Half);
    push(cases, "pw_gen_index_5d", g);

    let mut g = graph(DataType::Half);
    let x = g.tensor(Tensor::new("x").channels_last([2, 20, 3, 3]).alignment(2));
    let y = g.pointwise("relu", PointwiseMode::ReluFwd, &[x]);
    output(&mut g, y, DataType::Half);
    push(cases, "pw_unaligned", g);
}

/// Every operator; every reduced set of axes; with and without pointwise work and siblings.
fn reductions(cases: &mut Vec<Case>) {
    for &mode in ReductionMode::ALL {
        let mut g = graph(DataType::Float);
        let x = g.tensor(Tensor::new("x").channels_last([4, 40, 3, 5]));
        let y = g.reduction("reduce", mode, x, [1, 40, 1, 1]);
        output(&mut g, y, DataType::Float);
        push(cases, format!("red_{}_channel", lower(mode.name())), g);
    }
    let shapes: [(&str, [i64; 4]); 6] = [
        ("all", [1, 1, 1, 1]),
        ("image", [4, 1, 1, 1]),
        ("pixel", [4, 1, 6, 5]),
        ("column", [1, 24, 6, 5]),
        ("spatial", [4, 24, 1, 1]),
        ("height", [4, 24, 1, 5]),
    ];
    for (label, dim) in shapes {
        let mut g = graph(DataType::Half);
        let x = g.tensor(Tensor::new("x").channels_last([4, 24, 6, 5]));
        let scale = g.tensor(Tensor::new("scale").channels_last([1, 24, 1, 1]).data_type(DataType::Float));
        let scaled = g.pointwise("scaled", PointwiseMode::Mul, &[x, scale]);
        output(&mut g, scaled, DataType::BFloat16);
        let y = g.reduction("reduce", ReductionMode::Add, scaled, dim);
        output(&mut g, y, DataType::Float);
        push(cases, format!("red_scaled_{label}"), g);
    }
    let mut g = graph(DataType::Half);
    let x = g.tensor(Tensor::new("x").channels_last([64, 16, 14, 14]));
    let y = g.reduction("reduce", ReductionMode::Max, x, [1, 16, 1, 1]);
    output(&mut g, y, DataType::Float);
    push(cases, "red_split_channel", g);

    let mut g = graph(DataType::Half);
    let x = g.tensor(Tensor::new("x").channels_last([16, 33, 15, 15]));
    let y = g.reduction("reduce", ReductionMode::Norm2, x, [1, 1, 1, 1]);
    output(&mut g, y, DataType::Float);
    push(cases, "red_split_all_ragged", g);

    // more rows of tiles than one function combines well: their totals are combined in two steps
    for mode in [ReductionMode::Add, ReductionMode::Min] {
        let mut g = graph(DataType::Half);
        let a = g.tensor(Tensor::new("a").row_major([1, 40_000, 16]));
        let b = g.tensor(Tensor::new("b").row_major([1, 16, 24]));
        let c = g.matmul("matmul", a, b);
        output(&mut g, c, DataType::Half);
        let total = g.reduction("reduce", mode, c, [1, 1, 24]);
        output(&mut g, total, DataType::Float);
        push(cases, format!("red_{}_rows_of_many_tiles", lower(mode.name())), g);
    }

    let mut g = graph(DataType::Half);
    let x = g.tensor(Tensor::new("x").channels_last([8, 48, 7, 7]));
    let relu = g.pointwise("relu", PointwiseMode::ReluFwd, &[x]);
    let (sum, squares) = g.genstats("stats", relu);
    output(&mut g, sum, DataType::Float);
    output(&mut g, squares, DataType::Float);
    push(cases, "red_genstats", g);
}

/// Extents around every tile edge; row- and column-major operands and results; batches and batch broadcast.
fn matmul_shapes(cases: &mut Vec<Case>) {
    for (m, n, k) in
        [(1, 1, 1), (7, 9, 5), (31, 33, 32), (64, 64, 16), (65, 63, 17), (128, 129, 40), (1, 300, 64), (200, 1, 33)]
    {
        push(cases, format!("mm_f32_{m}x{n}x{k}"), plain_matmul([1, m, n, k], [false, false, false]));
    }
    let half = [DataType::Half, DataType::Half, DataType::Float, DataType::Half];
    for layout in 0..8 {
        let columns = [layout & 1 != 0, layout & 2 != 0, layout & 4 != 0];
        push(cases, format!("mm_layout_{layout}"), plain_matmul([2, 40, 24, 36], columns));
        push(cases, format!("mm_half_layout_{layout}"), typed(plain_matmul([2, 40, 24, 72], columns), half));
    }
    push(cases, "mm_long_k", plain_matmul([1, 33, 40, 1504], [false, true, false]));
    let int8 = [DataType::Int8, DataType::Int8, DataType::Int32, DataType::Int32];
    let fp8 = [DataType::Fp8E4M3, DataType::Fp8E5M2, DataType::Float, DataType::Half];
    for (label, types) in [("int8", int8), ("fp8", fp8)] {
        for layout in 0..4 {
            let columns = [layout & 1 != 0, layout & 2 != 0, false];
            push(cases, format!("mm_{label}_layout_{layout}"), typed(plain_matmul([2, 48, 32, 144], columns), types));
        }
    }
    for (label, types) in [("half", half), ("int8", int8), ("tf32", [DataType::Float; 4])] {
        push(cases, format!("mm_{label}_wide"), typed(plain_matmul([1, 80, 208, 80], [true, false, false]), types));
    }
    let float = [DataType::Float; 4];
    for (label, types) in [("half", half), ("int8", int8), ("fp8", fp8), ("tf32", float)] {
        for layout in 0..4 {
            let columns = [layout & 1 != 0, layout & 2 != 0, false];
            let graph = typed(plain_matmul([3, 129, 67, 131], columns), types);
            push(cases, format!("mm_copied_{label}_layout_{layout}"), graph);
        }
    }
    let mut g = graph(DataType::Half);
    let a = g.tensor(Tensor::new("A").row_major([4, 129, 131]));
    let b = g.tensor(Tensor::new("B").row_major([1, 131, 67]));
    let c = g.matmul("mm", a, b);
    output(&mut g, c, DataType::Half);
    push(cases, "mm_copied_broadcast_b", g);
    for (label, a_batch, b_batch) in [("a", 1, 3), ("b", 3, 1)] {
        let mut g = graph(DataType::Half);
        let a = g.tensor(Tensor::new("A").row_major([a_batch, 20, 12]));
        let b = g.tensor(Tensor::new("B").row_major([b_batch, 12, 28]));
        let c = g.matmul("mm", a, b);
        output(&mut g, c, DataType::Float);
        push(cases, format!("mm_broadcast_{label}"), g);
    }
}

pub(crate) fn plain_matmul([batch, m, n, k]: [i64; 4], columns: [bool; 3]) -> Graph {
    let mut g = graph(DataType::Float);
    let place = |name: &str, rows: i64, width: i64, column_major: bool| {
        let tensor = Tensor::new(name).dim([batch, rows, width]);
        if column_major { tensor.stride([rows * width, 1, rows]) } else { tensor.stride([rows * width, width, 1]) }
    };
    let a = g.tensor(place("A", m, k, columns[0]));
    let b = g.tensor(place("B", k, n, columns[1]));
    let c = g.matmul("mm", a, b);
    output(&mut g, c, DataType::Float);
    if columns[2] {
        g.tensor_mut(c).stride = vec![m * n, 1, m];
    }
    g
}

/// A plain matmul with other types: of A, B, the computation and C.
pub(crate) fn typed(mut matmul: Graph, [a, b, compute, c]: [DataType; 4]) -> Graph {
    let tensors: Vec<TensorHandle> = matmul.tensor_ids().collect();
    for (id, data_type) in tensors.into_iter().zip([a, b, c]) {
        matmul.tensor_mut(id).data_type = Some(data_type);
    }
    matmul.last_operation().compute_data_type = Some(compute);
    matmul
}

/// Every operand type with its compute type and several results.
fn matmul_types(cases: &mut Vec<Case>) {
    use DataType::{BFloat16, Float, Fp8E4M3, Fp8E5M2, Half, Int8, Int32};
    let rows = [
        (Half, Half, Float, Half),
        (Half, Half, Half, Half),
        (BFloat16, BFloat16, Float, BFloat16),
        (Fp8E4M3, Fp8E4M3, Float, BFloat16),
        (Fp8E4M3, Fp8E5M2, Float, Fp8E4M3),
        (Int8, Int8, Int32, Int32),
        (Int8, Int8, Int32, Int8),
    ];
    for (a_type, b_type, compute, result) in rows {
        let mut g = graph(a_type);
        let a = g.tensor(Tensor::new("A").row_major([2, 48, 64]));
        let b = g.tensor(Tensor::new("B").row_major([2, 64, 40]).data_type(b_type));
        let c = g.matmul("mm", a, b);
        g.last_operation().compute_data_type = Some(compute);
        output(&mut g, c, result);
        let names = [a_type, b_type, compute, result].map(|data_type| lower(data_type.name()));
        push(cases, format!("mm_{}", names.join("_")), g);
    }
}

/// FP8 operands that lie along k, which `mma.sync` takes as they are from sm_89 on: every pair of types, sums added up inside
/// and outside the tensor core, vectors of every width, ragged tiles, a sum that is split. The last is too ragged for it.
fn fp8_matmuls(cases: &mut Vec<Case>) {
    use DataType::{FastFloatForFp8, Float, Fp8E4M3, Fp8E5M2};
    let rows = [
        (Fp8E4M3, Fp8E4M3, Float, [2, 48, 40, 64]),
        (Fp8E4M3, Fp8E5M2, Float, [1, 129, 65, 40]),
        (Fp8E5M2, Fp8E4M3, FastFloatForFp8, [1, 70, 33, 100]),
        (Fp8E5M2, Fp8E5M2, FastFloatForFp8, [3, 16, 130, 160]),
        (Fp8E4M3, Fp8E4M3, Float, [1, 33, 40, 3008]),
        (Fp8E4M3, Fp8E4M3, Float, [1, 20, 24, 30]),
    ];
    for (a_type, b_type, compute, [batch, m, n, k]) in rows {
        let mut g = graph(Float);
        let a = g.tensor(Tensor::new("A").row_major([batch, m, k]).data_type(a_type));
        let b = g.tensor(Tensor::new("B").dim([batch, k, n]).stride([k * n, 1, k]).data_type(b_type));
        let c = g.matmul("mm", a, b);
        g.last_operation().compute_data_type = Some(compute);
        output(&mut g, c, Float);
        let names = [a_type, b_type, compute].map(|data_type| lower(data_type.name())).join("_");
        push(cases, format!("mm_along_k_{names}_{m}x{n}x{k}"), g);
        cases.last_mut().expect("one was pushed").capability = ComputeCapability::new(8, 9);
    }
}

/// Mainloop and epilogue fusions: both operands, several outputs, every reduction shape, a stored core result.
fn matmul_fusions(cases: &mut Vec<Case>) {
    let mut g = graph(DataType::Half);
    let a = g.tensor(Tensor::new("A").row_major([2, 70, 50]));
    let row = g.tensor(Tensor::new("row").row_major([1, 70, 1]).data_type(DataType::Float));
    let scaled = g.pointwise("scaled", PointwiseMode::Mul, &[a, row]);
    let positive = g.pointwise("positive", PointwiseMode::ReluFwd, &[scaled]);
    g.tensor_mut(positive).data_type = Some(DataType::Half);
    let weights = g.tensor(Tensor::new("W").row_major([1, 50, 66]).data_type(DataType::Int8));
    let widened = g.pointwise("widened", PointwiseMode::Identity, &[weights]);
    g.tensor_mut(widened).data_type = Some(DataType::Half);
    let c = g.matmul("mm", positive, widened);
    let bias = g.tensor(Tensor::new("bias").row_major([1, 1, 66]));
    let biased = g.pointwise("biased", PointwiseMode::Add, &[c, bias]);
    let y = g.pointwise("gelu", PointwiseMode::GeluFwd, &[biased]);
    output(&mut g, y, DataType::Half);
    output(&mut g, biased, DataType::Float);
    push(cases, "mm_both_mainloops_two_outputs", g);

    for (label, dim) in [
        ("all", [1, 1, 1]),
        ("batch", [3, 1, 1]),
        ("row", [1, 70, 1]),
        ("batch_row", [3, 70, 1]),
        ("column", [1, 1, 66]),
        ("batch_column", [3, 1, 66]),
        ("matrix", [1, 70, 66]),
    ] {
        for mode in [ReductionMode::Add, ReductionMode::Amax] {
            let mut g = graph(DataType::Half);
            let a = g.tensor(Tensor::new("A").row_major([3, 70, 20]));
            let b = g.tensor(Tensor::new("B").row_major([3, 20, 66]));
            let c = g.matmul("mm", a, b);
            output(&mut g, c, DataType::Half);
            let r = g.reduction("reduce", mode, c, dim);
            output(&mut g, r, DataType::Float);
            push(cases, format!("mm_reduce_{}_{label}", lower(mode.name())), g);
        }
    }

    for (label, dim) in [("row", [1, 40, 1]), ("column", [1, 1, 65])] {
        let mut g = graph(DataType::Half);
        let a = g.tensor(Tensor::new("A").row_major([1, 40, 24]));
        let b = g.tensor(Tensor::new("B").dim([1, 24, 65]).stride([24 * 65, 1, 24]));
        let c = g.matmul("mm", a, b);
        let total = g.reduction("total", ReductionMode::Add, c, dim);
        output(&mut g, total, DataType::Float);
        push(cases, format!("mm_reduce_odd_{label}"), g);
    }

    let mut g = graph(DataType::Half);
    let a = g.tensor(Tensor::new("A").row_major([1, 20, 24]));
    let b = g.tensor(Tensor::new("B").row_major([1, 24, 40]));
    let c = g.matmul("mm", a, b);
    output(&mut g, c, DataType::Half);
    let scale = g.tensor(Tensor::new("scale").row_major([3, 1, 1]));
    let scaled = g.pointwise("scaled", PointwiseMode::Mul, &[c, scale]);
    output(&mut g, scaled, DataType::Half);
    g.tensor_mut(scaled).stride = vec![800, 40, 1];
    let r = g.reduction("reduce", ReductionMode::Avg, c, [1, 1, 40]);
    output(&mut g, r, DataType::Float);
    push(cases, "mm_larger_epilogue_batch", g);

    let mut g = graph(DataType::BFloat16);
    let a = g.tensor(Tensor::new("A").row_major([1, 33, 24]));
    let b = g.tensor(Tensor::new("B").row_major([1, 24, 64]));
    let c = g.matmul("mm", a, b);
    let threshold = g.tensor(Tensor::new("threshold").row_major([1, 33, 1]));
    let mask = g.pointwise("mask", PointwiseMode::CmpGt, &[c, threshold]);
    output(&mut g, mask, DataType::Boolean);
    push(cases, "mm_boolean_output", g);

    let mut g = graph(DataType::Float);
    let a = g.tensor(Tensor::new("A").row_major([1, 20, 24]));
    let b = g.tensor(Tensor::new("B").row_major([1, 24, 30]));
    let c = g.matmul("mm", a, b);
    let x = g.tensor(Tensor::new("x").row_major([1, 1, 30]));
    let z = g.tensor(Tensor::new("z").row_major([1, 1, 30]));
    let side = g.pointwise("side", PointwiseMode::Mul, &[x, z]);
    let y = g.pointwise("sum", PointwiseMode::Add, &[c, side]);
    output(&mut g, y, DataType::Float);
    let apart = g.pointwise("apart", PointwiseMode::Exp, &[x]);
    output(&mut g, apart, DataType::Float);
    push(cases, "mm_side_operations", g);
}

/// Matmuls of more than one tile that Hopper's engine evaluates in registers: the stage of A, with all its values in 16 bits or
/// with INT8 weights, and an epilogue beside boxes of the tensors it reads (of C's size, of one row) and stores (of several
/// types), with a column that is no box and a total.
fn matmul_boxes(cases: &mut Vec<Case>) {
    use DataType::{BFloat16, Float, Fp8E4M3, Half, Int8};
    let (m, n, k) = (150, 208, 72);
    for (label, io) in [("half", Half), ("bfloat16", BFloat16)] {
        let mut g = graph(io);
        let a = g.tensor(Tensor::new("A").row_major([2, m, k]));
        let [scale, shift] = ["scale", "shift"].map(|name| g.tensor(Tensor::new(name).row_major([1, m, 1])));
        let scaled = g.pointwise("scaled", PointwiseMode::Mul, &[a, scale]);
        let shifted = g.pointwise("shifted", PointwiseMode::Sub, &[scaled, shift]);
        let doubled = g.pointwise("doubled", PointwiseMode::Add, &[shifted, shifted]);
        let positive = g.pointwise("positive", PointwiseMode::ReluFwd, &[doubled]);
        for id in [scaled, shifted, doubled, positive] {
            g.tensor_mut(id).data_type = Some(io);
        }
        let b = g.tensor(Tensor::new("B").row_major([2, k, n]));
        let c = g.matmul("mm", positive, b);
        let bias = g.tensor(Tensor::new("bias").row_major([2, 1, n]));
        let biased = g.pointwise("biased", PointwiseMode::Add, &[c, bias]);
        output(&mut g, biased, Float);
        let column = g.tensor(Tensor::new("column").row_major([2, m, 1]).data_type(Float));
        let weighted = g.pointwise("weighted", PointwiseMode::Mul, &[biased, column]);
        let residual = g.tensor(Tensor::new("residual").row_major([2, m, n]));
        let sum = g.pointwise("sum", PointwiseMode::Add, &[weighted, residual]);
        output(&mut g, sum, io);
        let total = g.reduction("total", ReductionMode::Amax, sum, [1, 1, 1]);
        output(&mut g, total, Float);
        push(cases, format!("mm_boxes_{label}"), g);
    }

    let mut g = graph(BFloat16);
    let a = g.tensor(Tensor::new("A").row_major([1, m, k]));
    let weights = g.tensor(Tensor::new("W").dim([1, k, n]).stride([k * n, 1, k]).data_type(Int8).alignment(16));
    let widened = g.pointwise("widened", PointwiseMode::Identity, &[weights]);
    g.tensor_mut(widened).data_type = Some(BFloat16);
    let c = g.matmul("mm", a, widened);
    let scale = g.tensor(Tensor::new("scale").row_major([1, 1, n]));
    let scaled = g.pointwise("scaled", PointwiseMode::Mul, &[c, scale]);
    output(&mut g, scaled, Fp8E4M3);
    let rows = g.reduction("rows", ReductionMode::Add, scaled, [1, m, 1]);
    output(&mut g, rows, Float);
    push(cases, "mm_boxes_int8_weights", g);
}

/// Matmuls that compute in HALF, whose sums Hopper's engine keeps in FP16: ragged tiles and results along columns (through
/// shared memory), few rows, a long k that is split; an epilogue of boxes; then a stage of A with one that adds up rows, by boxes,
/// and one that adds up columns, without.
fn half_sums(cases: &mut Vec<Case>) {
    use DataType::{Float, Half};
    for (label, extents, columns) in [
        ("ragged", [1, 150, 203, 72], [false, true, false]),
        ("columns", [2, 150, 208, 72], [true, false, true]),
        ("few", [1, 5, 200, 136], [false, true, false]),
        ("split", [1, 33, 40, 3008], [false, true, false]),
    ] {
        push(cases, format!("mm_half_sums_{label}"), typed(plain_matmul(extents, columns), [Half; 4]));
    }
    let (m, n, k) = (150, 208, 200);
    let mut g = graph(Half);
    let a = g.tensor(Tensor::new("A").row_major([2, m, k]));
    let b = g.tensor(Tensor::new("B").row_major([1, k, n]));
    let c = g.matmul("mm", a, b);
    g.last_operation().compute_data_type = Some(Half);
    let bias = g.tensor(Tensor::new("bias").row_major([1, 1, n]));
    let biased = g.pointwise("biased", PointwiseMode::Add, &[c, bias]);
    let gelu = g.pointwise("gelu", PointwiseMode::GeluFwd, &[biased]);
    let residual = g.tensor(Tensor::new("residual").row_major([2, m, n]));
    let y = g.pointwise("sum", PointwiseMode::Add, &[gelu, residual]);
    output(&mut g, y, Half);
    push(cases, "mm_half_sums_boxes", g);

    for (label, [m, n, k], dim) in [("stage", [150, 208, 72], [1, 150, 1]), ("column", [150, 208, 72], [1, 1, 208])] {
        let mut g = graph(Half);
        let a = g.tensor(Tensor::new("A").row_major([1, m, k]));
        let positive = g.pointwise("positive", PointwiseMode::ReluFwd, &[a]);
        g.tensor_mut(positive).data_type = Some(Half);
        let b = g.tensor(Tensor::new("B").row_major([1, k, n]));
        let c = g.matmul("mm", positive, b);
        g.last_operation().compute_data_type = Some(Half);
        let bias = g.tensor(Tensor::new("bias").row_major([1, 1, n]));
        let biased = g.pointwise("biased", PointwiseMode::Add, &[c, bias]);
        output(&mut g, biased, Half);
        let sums = g.reduction("sums", ReductionMode::Add, biased, dim);
        output(&mut g, sums, Float);
        push(cases, format!("mm_half_sums_{label}"), g);
    }
}

/// Packed booleans whose lines start inside a byte, beside other results: images with a bias, gaps of bits, and a matmul with
/// masks along rows and along columns of which only the first has lines of whole bytes.
fn packed_booleans(cases: &mut Vec<Case>) {
    use DataType::{Boolean, Float, Half};
    let mut g = graph(Half);
    let x = g.tensor(Tensor::new("x").channels_last([2, 21, 5, 7]));
    let bias = g.tensor(Tensor::new("bias").channels_last([1, 21, 1, 1]).data_type(Float));
    let sum = g.pointwise("sum", PointwiseMode::Add, &[x, bias]);
    output(&mut g, sum, Half);
    let zero = g.tensor(Tensor::scalar("zero", Float, Scalar::Float(0.0)));
    let mask = g.pointwise("mask", PointwiseMode::CmpGt, &[sum, zero]);
    output(&mut g, mask, Boolean);
    let total = g.reduction("total", ReductionMode::Add, sum, [1, 21, 1, 1]);
    output(&mut g, total, Float);
    push(cases, "pw_mask_of_odd_lines", g);

    for (label, stride) in [("lines", [900, 29, 1]), ("elements", [2000, 63, 3])] {
        let mut g = graph(Float);
        let x = g.tensor(Tensor::new("x").row_major([2, 30, 20]));
        let row = g.tensor(Tensor::new("row").row_major([2, 30, 1]));
        let mask = g.pointwise("mask", PointwiseMode::CmpLe, &[x, row]);
        output(&mut g, mask, Boolean);
        g.tensor_mut(mask).stride = stride.to_vec();
        push(cases, format!("pw_mask_gaps_between_{label}"), g);
    }

    let mut g = graph(Half);
    let a = g.tensor(Tensor::new("A").row_major([2, 35, 24]));
    let b = g.tensor(Tensor::new("B").row_major([2, 24, 40]));
    let c = g.matmul("mm", a, b);
    let row = g.tensor(Tensor::new("row").row_major([1, 35, 1]));
    let more = g.pointwise("more", PointwiseMode::CmpGt, &[c, row]);
    output(&mut g, more, Boolean);
    let less = g.pointwise("less", PointwiseMode::CmpLt, &[c, row]);
    output(&mut g, less, Boolean);
    g.tensor_mut(less).stride = vec![35 * 40, 1, 35];
    let y = g.pointwise("relu", PointwiseMode::ReluFwd, &[c]);
    output(&mut g, y, Half);
    push(cases, "mm_masks_along_rows_and_columns", g);
}

/// Graphs whose kernels were once wrong or did not compile.
fn once_wrong(cases: &mut Vec<Case>) {
    use DataType::{BFloat16, Boolean, Float, Int8, Int32, Int64};
    for (label, mode, compute) in [
        ("add", PointwiseMode::Add, Int32),
        ("and", PointwiseMode::LogicalAnd, Boolean),
        ("same", PointwiseMode::Identity, Int64),
    ] {
        let mut g = graph(Int64);
        let operands: Vec<TensorHandle> =
            (0..mode.inputs()).map(|slot| g.tensor(Tensor::new(format!("x{slot}")).row_major([2, 6, 16]))).collect();
        let y = g.pointwise("op", mode, &operands);
        g.last_operation().compute_data_type = Some(compute);
        output(&mut g, y, Int64);
        push(cases, format!("pw_int64_{label}"), g);
    }

    let mut g = graph(Int32);
    let x = g.tensor(Tensor::new("x").row_major([4, 6, 32]));
    let s = g.tensor(Tensor::scalar("s", Int32, Scalar::Integer((1 << 24) + (1 << 16) + 1)));
    let y = g.pointwise("scaled", PointwiseMode::Mul, &[x, s]);
    g.last_operation().compute_data_type = Some(Int32);
    output(&mut g, y, BFloat16);
    push(cases, "pw_bfloat16_rounds_integers_once", g);

    let mut g = graph(Float);
    let x = g.tensor(Tensor::new("x").row_major([2, 6, 16]));
    let row = g.tensor(Tensor::new("row").row_major([2, 1, 16]));
    g.operation(Operation {
        name: "scale".to_owned(),
        attributes: Attributes::Pointwise(Pointwise::new(PointwiseMode::Mul)),
        compute_data_type: None,
        inputs: vec![(Port::IN_0, x), (Port::IN_1, row)],
        outputs: vec![(Port::OUT_0, x)],
    });
    push(cases, "pw_in_place", g);

    let mut g = graph(Float);
    let a = g.tensor(Tensor::new("A").row_major([2, 16, 8]));
    let b = g.tensor(Tensor::new("B").row_major([2, 8, 21]));
    let c = g.matmul("mm", a, b);
    output(&mut g, c, Float);
    let threshold = g.tensor(Tensor::scalar("threshold", Float, Scalar::Float(0.25)));
    let mask = g.pointwise("mask", PointwiseMode::CmpGt, &[c, threshold]);
    output(&mut g, mask, Boolean);
    g.tensor_mut(mask).stride = vec![16 * 21, 1, 16];
    push(cases, "mm_boolean_of_another_layout", g);

    let mut g = graph(Int8);
    let a = g.tensor(Tensor::new("A").row_major([1, 20, 24]));
    let b = g.tensor(Tensor::new("B").row_major([1, 24, 32]));
    let c = g.matmul("mm", a, b);
    g.last_operation().compute_data_type = Some(Int32);
    output(&mut g, c, Int64);
    let square = g.pointwise("square", PointwiseMode::Mul, &[c, c]);
    g.last_operation().compute_data_type = Some(Int32);
    output(&mut g, square, Float);
    push(cases, "mm_int64_core_result_read", g);
}

/// Graphs whose offsets need 64 bits: only compiled, as they are too large to run.
pub(crate) fn wide() -> Vec<Case> {
    let mut cases = Vec::new();
    for (label, dim) in [("row", [3, 40_000, 1]), ("column", [1, 1, 40_008])] {
        let mut g = graph(DataType::Half);
        let x = g.tensor(Tensor::new("x").row_major([3, 40_000, 40_008]));
        let y = g.pointwise("exp", PointwiseMode::Exp, &[x]);
        output(&mut g, y, DataType::Half);
        let sum = g.reduction("sum", ReductionMode::Add, y, dim);
        output(&mut g, sum, DataType::Float);
        push(&mut cases, format!("wide_{label}"), g);
    }
    let mut g = graph(DataType::Half);
    let x = g.tensor(Tensor::new("x").row_major([3, 40_000, 40_008]));
    let y = g.pointwise("exp", PointwiseMode::Exp, &[x]);
    output(&mut g, y, DataType::Half);
    push(&mut cases, "wide_pointwise", g);
    let mut g = graph(DataType::Half);
    let a = g.tensor(Tensor::new("A").row_major([1, 327_680, 8192]));
    let b = g.tensor(Tensor::new("B").row_major([1, 8192, 40]));
    let c = g.matmul("mm", a, b);
    output(&mut g, c, DataType::Half);
    push(&mut cases, "wide_matmul", g);
    wide_convolutions(&mut cases);
    resample_cases::wide(&mut cases);
    cases
}
