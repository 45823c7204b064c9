//! The only place that spells identifiers, types and literals of the generated code.

use crate::graph::{DataType, FinalizedGraph, PointwiseMode, TensorId};
use crate::kernel::{Combine, Map, MmaType, Multiply, Quantity, Register, Role, Variable};

/// C++ type of an element in memory.
pub(super) fn storage_type(data_type: DataType) -> &'static str {
    match data_type {
        DataType::Half => "fw_f16",
        DataType::BFloat16 => "fw_bf16",
        DataType::Fp8E4M3 => "fw_e4m3",
        DataType::Fp8E5M2 => "fw_e5m2",
        DataType::Int8 => "signed char",
        DataType::UInt8 | DataType::Boolean => "unsigned char",
        DataType::Int32 => "int",
        DataType::Int64 => "long long",
        DataType::Double => "double",
        _ => "float",
    }
}

/// Include section that defines a storage type and its conversions.
pub(super) fn storage_section(data_type: DataType) -> &'static str {
    match data_type {
        DataType::Half => "fw_f16",
        DataType::BFloat16 => "fw_bf16",
        DataType::Fp8E4M3 => "fw_e4m3",
        DataType::Fp8E5M2 => "fw_e5m2",
        DataType::Int8 => "fw_i8",
        DataType::UInt8 => "fw_u8",
        DataType::Int32 => "fw_i32",
        DataType::Int64 => "fw_i64",
        DataType::Boolean => "fw_bool",
        DataType::Double => "fw_f64",
        _ => "fw_f32",
    }
}

/// Conversion from a register to an element in memory.
pub(super) fn to_storage(data_type: DataType, value: &str) -> String {
    let section = storage_section(data_type);
    let kind = section.trim_start_matches("fw_");
    format!("fw_to_{kind}({value})")
}

/// C++ type of a register.
pub(super) fn register_type(register: Register) -> &'static str {
    match register {
        Register::Float => "float",
        Register::Int => "int",
        Register::Long => "long long",
        Register::Double => "double",
    }
}

/// Name of an integer variable.
pub(super) fn variable(variable: Variable) -> String {
    match variable {
        Variable::Of(quantity) => self::quantity(quantity).to_owned(),
        Variable::Axis(axis) => format!("i{axis}"),
        Variable::Local(name) => name.to_owned(),
    }
}

/// Variable that holds a digit of an index, or a coordinate: the letters of cuDNN's documentation for convolutions.
pub(super) fn quantity(quantity: Quantity) -> &'static str {
    let along = |axis: u8, names: [&'static str; 3]| names[usize::from(axis)];
    match quantity {
        Quantity::Index(role) => role_index(role),
        Quantity::Image => "img",
        Quantity::Group => "g",
        Quantity::Channel => "channel",
        Quantity::InputChannel => "ci",
        Quantity::OutputChannel => "ko",
        Quantity::ChannelBlock => "channel_block",
        Quantity::InputPixel(axis) => along(axis, ["d", "h", "w"]),
        Quantity::OutputPixel(axis) => along(axis, ["o", "p", "q"]),
        Quantity::Tap(axis) => along(axis, ["t", "r", "s"]),
        Quantity::RotatedTap(axis) => along(axis, ["rotated_t", "rotated_r", "rotated_s"]),
        Quantity::Phase(axis) => along(axis, ["phase_d", "phase_h", "phase_w"]),
        Quantity::PixelBlock(axis) => along(axis, ["block_d", "block_h", "block_w"]),
        Quantity::FirstTap(axis) => along(axis, ["first_t", "first_r", "first_s"]),
        Quantity::TapCount(axis) => along(axis, ["taps_t", "taps_r", "taps_s"]),
        Quantity::PhaseShift(axis) => along(axis, ["shift_d", "shift_h", "shift_w"]),
    }
}

/// Variable that holds an index of a matrix product.
pub(super) fn role_index(role: Role) -> &'static str {
    match role {
        Role::Batch => "b",
        Role::Row => "m",
        Role::Column => "n",
        Role::Sum => "k",
    }
}

/// Parameter that points to a tensor.
pub(super) fn pointer(graph: &FinalizedGraph, id: TensorId) -> String {
    format!("p_{}", graph.canonical_name(id))
}

/// A `float` literal with exactly this value.
pub(super) fn float_literal(value: f32) -> String {
    if value.is_finite() { format!("{value:?}f") } else { format!("__uint_as_float(0x{:08x}u)", value.to_bits()) }
}

/// A `long long` literal; the smallest one has none of its own.
pub(super) fn integer_literal(value: i64) -> String {
    if value == i64::MIN { format!("({}ll - 1)", value + 1) } else { format!("{value}ll") }
}

/// Device function of a pointwise mode in `DOUBLE` ([`crate::kernel::has_double_form`]).
pub(super) fn double_function(mode: PointwiseMode) -> Option<&'static str> {
    use PointwiseMode as M;
    match mode {
        M::Add => Some("fw_add_f64"),
        M::Sub => Some("fw_sub_f64"),
        M::Mul => Some("fw_mul_f64"),
        M::Div => Some("fw_div_f64"),
        M::Max => Some("fw_max_f64"),
        M::Sqrt => Some("fw_sqrt_f64"),
        M::Reciprocal => Some("fw_reciprocal_f64"),
        _ => None,
    }
}

/// Device function of a pointwise mode, also the name of its include section. `GEN_INDEX` has none.
pub(super) fn mode_function(mode: PointwiseMode) -> &'static str {
    use PointwiseMode as M;
    match mode {
        M::Add => "fw_add",
        M::AddSquare => "fw_add_square",
        M::Sub => "fw_sub",
        M::Mul => "fw_mul",
        M::Div => "fw_div",
        M::Mod => "fw_mod",
        M::Pow => "fw_pow",
        M::Max => "fw_max",
        M::Min => "fw_min",
        M::Atan2 => "fw_atan2",
        M::Abs => "fw_abs",
        M::Neg => "fw_neg",
        M::Sqrt => "fw_sqrt",
        M::Rsqrt => "fw_rsqrt",
        M::Reciprocal => "fw_reciprocal",
        M::Exp => "fw_exp",
        M::Log => "fw_log",
        M::Erf => "fw_erf",
        M::Ceil => "fw_ceil",
        M::Floor => "fw_floor",
        M::Sin => "fw_sin",
        M::Cos => "fw_cos",
        M::Tan => "fw_tan",
        M::Identity | M::GenIndex => "fw_identity",
        M::ReluFwd => "fw_relu",
        M::TanhFwd => "fw_tanh",
        M::SigmoidFwd => "fw_sigmoid",
        M::EluFwd => "fw_elu",
        M::GeluFwd => "fw_gelu",
        M::GeluApproxTanhFwd => "fw_gelu_approx_tanh",
        M::SoftplusFwd => "fw_softplus",
        M::SwishFwd => "fw_swish",
        M::ReluBwd => "fw_relu_bwd",
        M::TanhBwd => "fw_tanh_bwd",
        M::SigmoidBwd => "fw_sigmoid_bwd",
        M::EluBwd => "fw_elu_bwd",
        M::GeluBwd => "fw_gelu_bwd",
        M::GeluApproxTanhBwd => "fw_gelu_approx_tanh_bwd",
        M::SoftplusBwd => "fw_softplus_bwd",
        M::SwishBwd => "fw_swish_bwd",
        M::CmpEq => "fw_cmp_eq",
        M::CmpNeq => "fw_cmp_neq",
        M::CmpGt => "fw_cmp_gt",
        M::CmpGe => "fw_cmp_ge",
        M::CmpLt => "fw_cmp_lt",
        M::CmpLe => "fw_cmp_le",
        M::LogicalAnd => "fw_logical_and",
        M::LogicalOr => "fw_logical_or",
        M::LogicalNot => "fw_logical_not",
        M::BinarySelect => "fw_select",
    }
}

/// Include section of the primitive that multiplies fragments of A and B, also the primitive's name.
pub(super) fn mma_section(operand: MmaType, stored: [DataType; 2]) -> &'static str {
    match (operand, stored.map(|data_type| data_type == DataType::Fp8E4M3)) {
        (MmaType::F16, _) => "fw_mma_f16",
        (MmaType::Bf16, _) => "fw_mma_bf16",
        (MmaType::Tf32, _) => "fw_mma_tf32",
        (MmaType::S8, _) => "fw_mma_s8",
        (MmaType::Fp8, [true, true]) => "fw_mma_e4m3_e4m3",
        (MmaType::Fp8, [true, false]) => "fw_mma_e4m3_e5m2",
        (MmaType::Fp8, [false, true]) => "fw_mma_e5m2_e4m3",
        (MmaType::Fp8, [false, false]) => "fw_mma_e5m2_e5m2",
    }
}

/// Device function that takes a fragment of the accumulators.
pub(super) fn take_function(multiply: &Multiply) -> &'static str {
    if multiply.sums_in_half() { "fw_take_half" } else { "fw_take" }
}

/// Device function, also the name of its include section, that puts a fragment of the accumulators into shared memory, in
/// lines along n or along m.
pub(super) fn put_function(multiply: &Multiply, along_n: bool) -> &'static str {
    match (multiply.sums_in_half(), along_n) {
        (false, true) => "fw_put_rows",
        (false, false) => "fw_put_columns",
        (true, true) => "fw_put_half_rows",
        (true, false) => "fw_put_half_columns",
    }
}

/// Device function that combines two partial results.
pub(super) fn combine_function(combine: Combine) -> &'static str {
    match combine {
        Combine::Sum => "fw_sum",
        Combine::Product => "fw_product",
        Combine::Smallest => "fw_smallest",
        Combine::Largest => "fw_largest",
    }
}

/// The value that combining leaves unchanged.
pub(super) fn combine_identity(combine: Combine) -> String {
    float_literal(match combine {
        Combine::Sum => 0.0,
        Combine::Product => 1.0,
        Combine::Smallest => f32::INFINITY,
        Combine::Largest => f32::NEG_INFINITY,
    })
}

/// Device function applied before combining.
pub(super) fn map_function(map: Map) -> Option<&'static str> {
    match map {
        Map::Identity => None,
        Map::Magnitude => Some("fw_abs"),
        Map::Square => Some("fw_square"),
        Map::OneIfZero => Some("fw_one_if_zero"),
    }
}
