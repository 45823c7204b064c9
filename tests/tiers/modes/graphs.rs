//! The graphs: a few modes each, so that a case is one kernel.

use fusewright::graph::{
    DataType, FinalizedGraph, Graph, NanPropagation, Pointwise, PointwiseMode as M, Tensor, TensorHandle,
};
use fusewright::host_tensor::{HostTensor, HostTensors};

use super::inputs;

/// Gradients that meet every forward input.
const GRADIENTS: [f32; 4] = [1.0, -2.75, 1e-3, 60000.0];

/// Modes tried together.
#[derive(Clone)]
pub(crate) struct ModeCase {
    pub(crate) name: String,
    pub(crate) graph: Graph,
    /// One output each, named by its position.
    pub(crate) operations: Vec<Pointwise>,
    operands: Operands,
}

/// What the operands of a case are.
#[derive(Clone, Copy)]
enum Operands {
    /// `x`: every value of a type.
    Every(DataType),
    /// `dy` of [`GRADIENTS`] by every `x` of a type.
    Gradients(DataType),
    /// `x` and `b`: all pairs of special values; `t`: truth values in no order.
    Pairs(DataType),
}

pub(crate) fn cases() -> Vec<ModeCase> {
    let mut cases = Vec::new();
    for data_type in [DataType::Half, DataType::BFloat16, DataType::Float] {
        let suffix = data_type.name().to_ascii_lowercase();
        let every = Operands::Every(data_type);
        cases.push(case(format!("arithmetic_{suffix}"), every, arithmetic()));
        cases.push(case(format!("elementary_{suffix}"), every, elementary()));
        cases.push(case(format!("trigonometric_{suffix}"), every, trigonometric()));
        cases.push(case(format!("activations_{suffix}"), every, activations()));
        cases.push(case(format!("gradients_{suffix}"), Operands::Gradients(data_type), gradients()));
    }
    let pairs = Operands::Pairs(DataType::Float);
    cases.push(case("pairs_arithmetic".to_owned(), pairs, binary()));
    cases.push(case("pairs_comparisons".to_owned(), pairs, truths()));
    cases.push(case("pairs_gradients".to_owned(), pairs, gradients()));
    cases.push(case("pairs_int32".to_owned(), Operands::Pairs(DataType::Int32), integer()));
    cases
}

fn plain(modes: &[M]) -> Vec<Pointwise> {
    modes.iter().map(|&mode| Pointwise::new(mode)).collect()
}

fn arithmetic() -> Vec<Pointwise> {
    let mut all = plain(&[M::Abs, M::Neg, M::Ceil, M::Floor, M::Identity, M::Sqrt, M::Rsqrt, M::Reciprocal]);
    all.extend(clipped(M::ReluFwd));
    all
}

fn elementary() -> Vec<Pointwise> {
    plain(&[M::Exp, M::Log, M::Erf, M::TanhFwd])
}

fn trigonometric() -> Vec<Pointwise> {
    plain(&[M::Sin, M::Cos, M::Tan])
}

fn activations() -> Vec<Pointwise> {
    let mut all = plain(&[M::SigmoidFwd, M::EluFwd, M::GeluFwd, M::GeluApproxTanhFwd, M::SoftplusFwd, M::SwishFwd]);
    all.extend(parametrised([M::EluFwd, M::SoftplusFwd, M::SwishFwd]));
    all
}

fn gradients() -> Vec<Pointwise> {
    let mut all = plain(&[M::TanhBwd, M::SigmoidBwd, M::EluBwd, M::GeluBwd, M::GeluApproxTanhBwd]);
    all.extend(plain(&[M::SoftplusBwd, M::SwishBwd]));
    all.extend(parametrised([M::EluBwd, M::SoftplusBwd, M::SwishBwd]));
    all.extend(clipped(M::ReluBwd));
    all
}

fn binary() -> Vec<Pointwise> {
    let mut all = plain(&[M::Add, M::AddSquare, M::Sub, M::Mul, M::Div, M::Mod, M::Pow, M::Atan2, M::Max, M::Min]);
    all.extend([M::Max, M::Min].map(|mode| without_nan(Pointwise::new(mode))));
    all
}

fn truths() -> Vec<Pointwise> {
    let mut all = plain(&[M::CmpEq, M::CmpNeq, M::CmpGt, M::CmpGe, M::CmpLt, M::CmpLe, M::BinarySelect]);
    all.extend(plain(&[M::LogicalAnd, M::LogicalOr, M::LogicalNot]));
    all.push(Pointwise { axis: Some(2), ..Pointwise::new(M::GenIndex) });
    all
}

fn integer() -> Vec<Pointwise> {
    let mut all = plain(&[M::Add, M::AddSquare, M::Sub, M::Mul, M::Div, M::Mod, M::Max, M::Min, M::Abs, M::Neg]);
    all.extend(plain(&[M::Ceil, M::Floor, M::Identity, M::CmpEq, M::CmpNeq, M::CmpGt, M::CmpGe, M::CmpLt, M::CmpLe]));
    all.extend(plain(&[M::BinarySelect, M::LogicalAnd, M::LogicalOr, M::LogicalNot]));
    all
}

/// RELU plain, with both clips and a slope, with either NaN rule.
fn clipped(mode: M) -> Vec<Pointwise> {
    let leaky = Pointwise {
        relu_lower_clip: Some(-0.5),
        relu_upper_clip: Some(6.0),
        relu_lower_clip_slope: Some(0.125),
        ..Pointwise::new(mode)
    };
    vec![Pointwise::new(mode), without_nan(Pointwise::new(mode)), without_nan(leaky.clone()), leaky]
}

/// Parameters on either side of 1, and a negative β.
fn parametrised(modes: [M; 3]) -> Vec<Pointwise> {
    let with = |(alpha, beta): (f32, f32)| {
        modes.map(|mode| Pointwise {
            elu_alpha: Some(alpha),
            softplus_beta: Some(beta),
            swish_beta: Some(beta),
            ..Pointwise::new(mode)
        })
    };
    [(0.75, 1.7), (-2.0, -0.3)].into_iter().flat_map(with).collect()
}

fn without_nan(pointwise: Pointwise) -> Pointwise {
    Pointwise { nan_propagation: Some(NanPropagation::NotPropagate), ..pointwise }
}

fn case(name: String, operands: Operands, operations: Vec<Pointwise>) -> ModeCase {
    let result = if operands.data_type() == DataType::Int32 { DataType::Int32 } else { DataType::Float };
    let mut graph = Graph::new().io_data_type(operands.data_type()).compute_data_type(result).name(name.clone());
    let inputs: Vec<TensorHandle> =
        operands.dims().into_iter().map(|(name, dim)| graph.tensor(Tensor::new(name).row_major(dim))).collect();
    for (position, pointwise) in operations.iter().enumerate() {
        let ports = &inputs[..pointwise.mode.inputs()];
        let y = graph.pointwise_with(&format!("op{position}"), pointwise.clone(), ports);
        if pointwise.mode.is_logical() && result == DataType::Float {
            graph.last_operation().compute_data_type = Some(DataType::Boolean);
        }
        named(&mut graph, y, format!("y{position}"), result);
        if let Operands::Gradients(_) = operands {
            let tensor = graph.tensor_mut(y);
            *tensor = std::mem::take(tensor).row_major([1, GRADIENTS.len() as i64, 1 << 16]);
        }
        if let Operands::Every(storage) = operands {
            let stored = graph.pointwise(&format!("store{position}"), M::Identity, &[y]);
            named(&mut graph, stored, format!("s{position}"), storage);
        }
    }
    ModeCase { name, graph, operations, operands }
}

fn named(graph: &mut Graph, id: TensorHandle, name: String, data_type: DataType) {
    let tensor = graph.set_output(id);
    tensor.name = name;
    tensor.data_type = Some(data_type);
}

impl Operands {
    fn data_type(self) -> DataType {
        let (Self::Every(data_type) | Self::Gradients(data_type) | Self::Pairs(data_type)) = self;
        data_type
    }

    /// Names and extents, in port order.
    fn dims(self) -> Vec<(&'static str, [i64; 3])> {
        let pairs = match self {
            Self::Pairs(DataType::Int32) => inputs::integers().len() as i64,
            _ => inputs::VALUES as i64,
        };
        match self {
            Self::Every(_) => vec![("x", [1, 256, 256])],
            Self::Gradients(_) => vec![("dy", [1, GRADIENTS.len() as i64, 1]), ("x", [1, 1, 1 << 16])],
            Self::Pairs(_) => ["x", "b", "t"].map(|name| (name, [1, pairs, pairs])).to_vec(),
        }
    }

    /// The bytes of an operand, row-major.
    fn bytes(self, name: &str) -> Vec<u8> {
        let floats = |values: &[f32]| self.rounded(values);
        match (self, name) {
            (Self::Gradients(_), "dy") => floats(&GRADIENTS),
            (Self::Pairs(DataType::Int32), name) => pairs(&inputs::integers(), name, |x| x.to_le_bytes().to_vec()),
            (Self::Pairs(_), name) => pairs(&inputs::special(), name, |x| x.to_le_bytes().to_vec()),
            (Self::Every(DataType::Float) | Self::Gradients(DataType::Float), _) => {
                inputs::floats().flat_map(u32::to_le_bytes).collect()
            }
            _ => (0..=u16::MAX).flat_map(u16::to_le_bytes).collect(),
        }
    }

    /// Values in the type of the operands.
    fn rounded(self, values: &[f32]) -> Vec<u8> {
        let dim = [values.len() as i64];
        let tensor = HostTensor::from_dense(self.data_type(), &dim, &[1], values).expect("one axis");
        tensor.to_row_major_bytes().expect("a valid tensor")
    }
}

/// Rows are x, columns b; t mixes them.
fn pairs<T: Copy>(values: &[T], name: &str, bytes: impl Fn(T) -> Vec<u8>) -> Vec<u8> {
    let count = values.len();
    let pick = |i: usize| match name {
        "x" => i / count,
        "b" => i % count,
        _ => (i * 7 + i / count) % count,
    };
    (0..count * count).flat_map(|i| bytes(values[pick(i)])).collect()
}

impl ModeCase {
    /// The operands of the finalized graph.
    pub(crate) fn inputs(&self, graph: &FinalizedGraph) -> Result<HostTensors, String> {
        let find = |name: &str| graph.tensor_ids().find(|&id| graph.tensor(id).name == name);
        let mut tensors = HostTensors::new();
        for (name, dim) in self.operands.dims() {
            // a case whose modes have fewer operands does without the others
            let Some(id) = find(name) else { continue };
            let tensor = graph.tensor(id);
            let bytes = self.operands.bytes(name);
            let tensor = HostTensor::from_row_major_bytes(tensor.data_type, &dim, &tensor.stride, &bytes);
            tensors.insert(id, tensor.map_err(|error| error.to_string())?);
        }
        Ok(tensors)
    }
}
