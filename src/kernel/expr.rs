//! A stage as straight-line code: which tensor values are evaluated at one point of the iteration space, in order.
//!
//! Every value belongs to a tensor and is rounded to that tensor's storage type, virtual or not (`S*-VIRTUAL-OBEYED`).
//! Values live in registers of one of three kinds, chosen by the storage type.

use std::collections::BTreeSet;

use super::Window;
use crate::graph::{
    Attributes, Concat, DataType, FinalizedGraph, Operation, OperationId, Pointwise, PointwiseMode, Port, TensorId,
};

/// Register class of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Register {
    /// `float`: `FLOAT`, `HALF`, `BFLOAT16`, FP8.
    Float,
    /// `int`: `INT8`, `UINT8`, `INT32`, and `BOOLEAN` as 0 or 1.
    Int,
    /// `long long`: `INT64`.
    Long,
    /// `double`: `DOUBLE`, of values that are kept nowhere.
    Double,
}

impl Register {
    /// The class that holds values of a storage type.
    pub fn of(data_type: DataType) -> Self {
        match data_type {
            DataType::Int8 | DataType::UInt8 | DataType::Int32 | DataType::Boolean => Self::Int,
            DataType::Int64 => Self::Long,
            DataType::Double => Self::Double,
            _ => Self::Float,
        }
    }
}

/// Whether a mode is also computed in `INT32`; every mode is computed in `FLOAT`. `GEN_INDEX` is an integer in either.
#[warn(clippy::wildcard_enum_match_arm)]
pub fn has_integer_form(mode: PointwiseMode) -> bool {
    use PointwiseMode as M;
    match mode {
        M::Add | M::AddSquare | M::Sub | M::Mul | M::Div | M::Mod | M::Max | M::Min => true,
        M::Abs | M::Neg | M::Ceil | M::Floor | M::Identity | M::BinarySelect | M::GenIndex => true,
        M::CmpEq | M::CmpNeq | M::CmpGt | M::CmpGe | M::CmpLt | M::CmpLe => true,
        M::LogicalAnd | M::LogicalOr | M::LogicalNot => true,
        M::Pow | M::Atan2 | M::Sqrt | M::Rsqrt | M::Reciprocal | M::Exp | M::Log | M::Erf => false,
        M::Sin | M::Cos | M::Tan => false,
        M::ReluFwd | M::TanhFwd | M::SigmoidFwd | M::EluFwd | M::GeluFwd | M::GeluApproxTanhFwd => false,
        M::SoftplusFwd | M::SwishFwd => false,
        M::ReluBwd | M::TanhBwd | M::SigmoidBwd | M::EluBwd | M::GeluBwd | M::GeluApproxTanhBwd => false,
        M::SoftplusBwd | M::SwishBwd => false,
    }
}

/// Whether a mode is also computed in `DOUBLE`: what statistics of sums are made with (N-34).
pub fn has_double_form(mode: PointwiseMode) -> bool {
    use PointwiseMode as M;
    matches!(mode, M::Add | M::Sub | M::Mul | M::Div | M::Max | M::Sqrt | M::Reciprocal)
}

/// How the value of a tensor comes about.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Read from device memory, or a host scalar from the parameters.
    Load,
    /// The accumulator of the core.
    Accumulator,
    /// A pointwise operation on values evaluated before.
    Pointwise {
        /// Mode and attributes.
        attributes: Pointwise,
        /// Operands in slot order.
        operands: Vec<TensorId>,
        /// Compute type: operands are converted to it.
        compute: DataType,
    },
    /// The element of the part in which the point lies: the first whose ends are all beyond it.
    Concat(Vec<Part>),
    /// What a resampling makes of the pixels around the point.
    Window(Window),
}

/// A tensor in device memory as a part of a concatenation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The tensor.
    pub tensor: TensorId,
    /// Where it starts in the result, by graph axis.
    pub start: Vec<i64>,
    /// Where it ends, by graph axis.
    pub end: Vec<i64>,
}

impl Part {
    /// Elements between where the part would start if it started with the result, and where it does.
    pub fn shift(&self, graph: &FinalizedGraph) -> i64 {
        let tensor = graph.tensor(self.tensor);
        self.start.iter().enumerate().map(|(axis, start)| start * super::step(tensor, axis)).sum()
    }
}

/// One evaluated value.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The tensor whose value this is.
    pub tensor: TensorId,
    /// How it comes about.
    pub value: Value,
}

/// Straight-line code of one stage.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StageProgram {
    /// Values in dependency order, each tensor once.
    pub steps: Vec<Step>,
}

impl StageProgram {
    /// The program that evaluates `operations` (in topological order): operands that none of them produces are
    /// loaded, except `accumulator`, which the core provides.
    pub fn of(
        graph: &FinalizedGraph,
        operations: impl Iterator<Item = OperationId>,
        accumulator: Option<TensorId>,
    ) -> Self {
        let mut program = Self::default();
        let mut known = BTreeSet::new();
        if let Some(tensor) = accumulator {
            known.insert(tensor);
            program.steps.push(Step { tensor, value: Value::Accumulator });
        }
        for id in operations {
            program.add(graph, id, &mut known);
        }
        program
    }

    /// Adds the results of one operation, and what it reads at each point.
    fn add(&mut self, graph: &FinalizedGraph, id: OperationId, known: &mut BTreeSet<TensorId>) {
        let operation = graph.operation(id);
        for tensor in operands(operation) {
            self.load_once(tensor, known);
        }
        for &(port, tensor) in &operation.outputs {
            let Some(value) = value(graph, id, port) else { continue };
            known.insert(tensor);
            self.steps.push(Step { tensor, value });
        }
    }

    /// The program that only loads one tensor.
    pub fn load(tensor: TensorId) -> Self {
        Self { steps: vec![Step { tensor, value: Value::Load }] }
    }

    /// Adds a load unless the value is known.
    fn load_once(&mut self, tensor: TensorId, known: &mut BTreeSet<TensorId>) {
        if known.insert(tensor) {
            self.steps.push(Step { tensor, value: Value::Load });
        }
    }

    /// The steps that the values of `targets` depend on.
    pub fn needed_for(&self, targets: impl Iterator<Item = TensorId>) -> Self {
        let mut needed: BTreeSet<TensorId> = targets.collect();
        let mut steps: Vec<Step> = Vec::new();
        for step in self.steps.iter().rev() {
            if needed.contains(&step.tensor) {
                if let Value::Pointwise { operands, .. } = &step.value {
                    needed.extend(operands);
                }
                steps.push(step.clone());
            }
        }
        steps.reverse();
        Self { steps }
    }

    /// The same program, where some values are read instead of computed.
    pub fn reading(&self, values: &[TensorId]) -> Self {
        let read = |step: &Step| match values.contains(&step.tensor) {
            true => Step { tensor: step.tensor, value: Value::Load },
            false => step.clone(),
        };
        Self { steps: self.steps.iter().map(read).collect() }
    }

    /// Tensors read from memory or from the parameters.
    pub fn loads(&self) -> impl Iterator<Item = TensorId> + '_ {
        self.steps.iter().filter(|step| step.value == Value::Load).map(|step| step.tensor)
    }

    /// Whether all that is read at a point is an element of its own: no windows around it, no concatenations.
    pub fn reads_points_alone(&self) -> bool {
        self.moved().count() == self.loads().count() && self.windows().next().is_none()
    }

    /// Whether some step takes the core's result, the tensor `c`, from its accumulators.
    pub fn reads_accumulator(&self, c: TensorId) -> bool {
        self.steps.iter().any(|step| step.tensor == c && step.value == Value::Accumulator)
    }

    /// Tensors of which an element belongs to each point: loads, and parts of concatenations.
    pub fn moved(&self) -> impl Iterator<Item = TensorId> + '_ {
        self.steps.iter().flat_map(|step| match &step.value {
            Value::Load => vec![step.tensor],
            Value::Concat(parts) => parts.iter().map(|part| part.tensor).collect(),
            _ => Vec::new(),
        })
    }

    /// Resamplings.
    pub fn windows(&self) -> impl Iterator<Item = &Window> + '_ {
        self.steps.iter().filter_map(|step| match &step.value {
            Value::Window(window) => Some(window),
            _ => None,
        })
    }

    /// Every tensor that is read.
    pub fn reads(&self) -> impl Iterator<Item = TensorId> + '_ {
        self.moved().chain(self.windows().flat_map(Window::tensors))
    }

    /// Tensors that are computed.
    pub fn results(&self) -> impl Iterator<Item = TensorId> + '_ {
        self.steps.iter().filter(|step| step.value != Value::Load).map(|step| step.tensor)
    }

    /// Graph axes whose coordinate some step reads.
    pub fn indexed_axes(&self) -> BTreeSet<usize> {
        self.steps.iter().flat_map(Step::indexed_axes).collect()
    }
}

/// Operands read at each point. A signal's flag is none, and concatenations and resamplings read elsewhere.
fn operands(operation: &Operation) -> Vec<TensorId> {
    match &operation.attributes {
        Attributes::Signal(_) => {
            operation.input(Port::X).filter(|_| operation.result().is_some()).into_iter().collect()
        }
        // the other counts as 0
        Attributes::Pointwise(pointwise) if pointwise.of_first_alone().is_some() => {
            operation.input_tensors().take(1).collect()
        }
        Attributes::Concat(_) | Attributes::ResampleForward(_) | Attributes::ResampleBackward(_) => Vec::new(),
        Attributes::Matmul(_) | Attributes::Convolution(_) | Attributes::Pointwise(_) | Attributes::Reduction(_) => {
            operation.input_tensors().collect()
        }
        Attributes::GenStats | Attributes::View | Attributes::Transpose => operation.input_tensors().collect(),
        Attributes::Bernoulli(_) | Attributes::PageGather | Attributes::BlockBits => Vec::new(),
        // peers write the other tensors
        Attributes::AllGather(_) => operation.input(Port::X).into_iter().collect(),
        Attributes::Composite(_) | Attributes::Other(_) => operation.input_tensors().collect(),
    }
}

/// How a result of an operation comes about at each point; `None` where it does not (reductions).
fn value(graph: &FinalizedGraph, id: OperationId, port: Port) -> Option<Value> {
    let operation = graph.operation(id);
    match &operation.attributes {
        Attributes::Pointwise(attributes) => Some(pointwise(graph, id, attributes)),
        Attributes::Signal(_) => {
            let x = operation.input(Port::X)?;
            let attributes = Pointwise::new(PointwiseMode::Identity);
            Some(Value::Pointwise { attributes, operands: vec![x], compute: graph.tensor(x).data_type })
        }
        Attributes::Concat(concat) => Some(Value::Concat(parts(graph, operation, concat))),
        _ => Window::of(graph, operation, port).map(Value::Window),
    }
}

fn pointwise(graph: &FinalizedGraph, id: OperationId, attributes: &Pointwise) -> Value {
    let attributes = attributes.of_first_alone().or(attributes.unscaled()).unwrap_or_else(|| attributes.clone());
    Value::Pointwise { attributes, operands: operands(graph.operation(id)), compute: graph.compute_type(id) }
}

/// The tensors in memory that a concatenation joins, in order, through signals and other concatenations.
fn parts(graph: &FinalizedGraph, operation: &Operation, concat: &Concat) -> Vec<Part> {
    let rank = operation.result().map_or(0, |result| graph.tensor(result).dim.len());
    let mut open = inputs_from(graph, operation, concat, &vec![0; rank]);
    let mut parts = Vec::new();
    while let Some((tensor, start)) = open.pop() {
        let producer = graph.producer(tensor).map(|id| graph.operation(id));
        match producer.map(|operation| (operation, &operation.attributes)) {
            Some((inner, Attributes::Concat(concat))) => open.extend(inputs_from(graph, inner, concat, &start)),
            Some((inner, Attributes::Signal(_))) => open.extend(inner.input(Port::X).map(|x| (x, start))),
            _ => {
                let end = start.iter().zip(&graph.tensor(tensor).dim).map(|(start, extent)| start + extent).collect();
                parts.push(Part { tensor, start, end });
            }
        }
    }
    parts
}

/// Inputs of a concatenation and where they start, the last first.
fn inputs_from(
    graph: &FinalizedGraph,
    operation: &Operation,
    concat: &Concat,
    start: &[i64],
) -> Vec<(TensorId, Vec<i64>)> {
    let axis = usize::try_from(concat.axis).unwrap_or(0);
    let mut next = start.to_vec();
    let mut inputs = Vec::new();
    for tensor in operation.input_tensors() {
        inputs.push((tensor, next.clone()));
        next[axis] += graph.tensor(tensor).dim[axis];
    }
    inputs.reverse();
    inputs
}

impl Step {
    /// The axis of a `GEN_INDEX`.
    pub fn generated_axis(&self) -> Option<usize> {
        match &self.value {
            Value::Pointwise { attributes, .. } if attributes.mode == PointwiseMode::GenIndex => {
                attributes.axis.and_then(|axis| usize::try_from(axis).ok())
            }
            _ => None,
        }
    }

    /// Graph axes whose coordinate the step reads.
    fn indexed_axes(&self) -> Vec<usize> {
        match &self.value {
            Value::Concat(parts) => {
                let starts_later = |&axis: &usize| parts.iter().any(|part| part.start[axis] > 0);
                let rank = parts.first().map_or(0, |part| part.start.len());
                (0..rank).filter(starts_later).collect()
            }
            Value::Window(window) => (0..window.rank()).collect(),
            _ => self.generated_axis().into_iter().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Graph, PointwiseMode, Signal, SignalMode, Tensor};

    /// `relu = relu(x)`, `sum = relu + b`, `side = exp(b)`; the names of a program's steps.
    fn names(choose: impl Fn(&FinalizedGraph) -> StageProgram) -> Vec<String> {
        let mut graph = Graph::new()
            .io_data_type(DataType::Half)
            .intermediate_data_type(DataType::Float)
            .compute_data_type(DataType::Float);
        let [x, b] = ["x", "b"].map(|name| graph.tensor(Tensor::new(name).row_major([2, 3, 4])));
        let relu = graph.pointwise("relu", PointwiseMode::ReluFwd, &[x]);
        let sum = graph.pointwise("sum", PointwiseMode::Add, &[relu, b]);
        let side = graph.pointwise("side", PointwiseMode::Exp, &[b]);
        graph.set_output(sum);
        graph.set_output(side);
        let graph = graph.finalize().expect("well formed");
        let name = |step: &Step| graph.tensor(step.tensor).name.trim_end_matches("::OUT_0").to_owned();
        let mut names: Vec<String> = choose(&graph).steps.iter().map(name).collect();
        names.sort();
        names
    }

    fn id(graph: &FinalizedGraph, name: &str) -> TensorId {
        graph.tensor_ids().find(|&id| graph.tensor(id).name == name).expect("the graph has the tensor")
    }

    #[test]
    fn each_tensor_is_loaded_or_computed_once() {
        let all = names(|graph| StageProgram::of(graph, graph.operation_ids(), None));
        assert_eq!(all, ["b", "relu", "side", "sum", "x"]);
    }

    #[test]
    fn an_operand_that_counts_as_0_is_not_read() {
        let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
        let [x, z] = ["x", "z"].map(|name| graph.tensor(Tensor::new(name).row_major([2, 3, 4])));
        let attributes = Pointwise { alpha1: 0.5, alpha2: 0.0, ..Pointwise::new(PointwiseMode::Add) };
        let y = graph.pointwise_with("y", attributes, &[x, z]);
        graph.set_output(y);
        let graph = graph.finalize().expect("well formed");
        let program = StageProgram::of(&graph, graph.operation_ids(), None);
        assert_eq!(program.loads().collect::<Vec<_>>(), [id(&graph, "x")]);
        let (attributes, operands, _) = program.steps.last().and_then(Step::pointwise).expect("one operation");
        assert_eq!(
            (attributes.mode, attributes.alpha1, operands),
            (PointwiseMode::Identity, 0.5, &[id(&graph, "x")][..])
        );
    }

    #[test]
    fn the_accumulator_comes_first_and_is_not_loaded() {
        names(|graph| {
            let program = StageProgram::of(graph, graph.operation_ids(), Some(id(graph, "x")));
            assert_eq!(program.steps[0], Step { tensor: id(graph, "x"), value: Value::Accumulator });
            assert_eq!(program.loads().collect::<Vec<_>>(), [id(graph, "b")]);
            program
        });
    }

    #[test]
    fn only_what_the_targets_depend_on_is_needed() {
        let needed_for = |name| {
            names(|graph| {
                let all = StageProgram::of(graph, graph.operation_ids(), None);
                all.needed_for([id(graph, name)].into_iter())
            })
        };
        assert_eq!(needed_for("sum::OUT_0"), ["b", "relu", "sum", "x"]);
        assert_eq!(needed_for("side::OUT_0"), ["b", "side"]);
        assert_eq!(needed_for("x"), ["x"]);
    }
    #[test]
    fn nested_concatenations_are_one_choice_among_tensors_in_memory() {
        let mut graph = Graph::new()
            .io_data_type(DataType::Half)
            .intermediate_data_type(DataType::Half)
            .compute_data_type(DataType::Float);
        let [a, b] = ["a", "b"].map(|name| graph.tensor(Tensor::new(name).row_major([2, 3, 4])));
        let wide = graph.tensor(Tensor::new("wide").row_major([2, 5, 8]));
        let flag = graph.tensor(Tensor::new("flag").row_major([1, 1, 1]).data_type(DataType::Int32));
        let waited = graph.tensor(Tensor { is_virtual: true, ..Tensor::new("waited") });
        graph.operation(Operation {
            name: "wait".to_owned(),
            attributes: Attributes::Signal(Signal { mode: SignalMode::Wait, value: 1 }),
            compute_data_type: None,
            inputs: vec![(Port::X, b), (Port::FLAG, flag)],
            outputs: vec![(Port::Y, waited)],
        });
        let row = graph.concatenate("row", 2, &[a, waited]);
        let all = graph.concatenate("all", 1, &[wide, row]);
        graph.set_output(all);
        let graph = graph.finalize().expect("well formed");
        let all = id(&graph, "all::Y");
        let program = StageProgram::of(&graph, graph.operation_ids(), None).needed_for([all].into_iter());
        let [Step { value: Value::Concat(parts), .. }] = &program.steps[..] else { panic!("{:?}", program.steps) };
        let names = |part: &Part| (graph.tensor(part.tensor).name.clone(), part.start.clone(), part.end.clone());
        let expected = [
            ("wide", vec![0, 0, 0], vec![2, 5, 8]),
            ("a", vec![0, 5, 0], vec![2, 8, 4]),
            ("b", vec![0, 5, 4], vec![2, 8, 8]),
        ];
        let expected = expected.map(|(name, start, end)| (name.to_owned(), start, end));
        assert_eq!(parts.iter().map(names).collect::<Vec<_>>(), expected);
        assert_eq!(program.indexed_axes(), [1, 2].into());
        assert!(program.loads().next().is_none() && program.moved().count() == 3);
    }
}
