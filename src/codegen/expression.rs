//! Spells the values of a stage program, one line a value.

use std::collections::{BTreeMap, BTreeSet};

use super::names;
use super::sections::Used;
use crate::graph::{DataType, FinalizedGraph, Pointwise, PointwiseMode, Reads, TensorId};
use crate::kernel::{Register, StageProgram, Step, Value, has_integer_form};

/// Spells one program; collects the include sections it uses.
pub(super) struct Speller<'a> {
    pub(super) graph: &'a FinalizedGraph,
    pub(super) used: &'a mut Used,
    /// Operands read from memory or the parameters.
    loads: BTreeSet<TensorId>,
    /// Results of the program itself.
    results: BTreeSet<TensorId>,
    /// Values that another value or a reduction reads.
    consumed: BTreeSet<TensorId>,
    /// Register class of each result as it is defined.
    defined: BTreeMap<TensorId, Register>,
    /// Integers that have a spelling in `float`, too.
    floats: BTreeMap<TensorId, String>,
}

impl<'a> Speller<'a> {
    pub(super) fn new(
        graph: &'a FinalizedGraph,
        used: &'a mut Used,
        program: &StageProgram,
        also_consumed: impl Iterator<Item = TensorId>,
    ) -> Self {
        let operands = program.steps.iter().flat_map(|step| match &step.value {
            Value::Pointwise { operands, .. } => operands.as_slice(),
            _ => &[],
        });
        Self {
            graph,
            used,
            loads: program.loads().collect(),
            results: program.results().collect(),
            consumed: operands.copied().chain(also_consumed).collect(),
            defined: BTreeMap::new(),
            floats: BTreeMap::new(),
        }
    }

    /// Marks a value as read by something outside the program: it is rounded to its storage type.
    pub(super) fn consume(&mut self, id: TensorId) {
        self.consumed.insert(id);
    }

    /// Has an integer of the program spelled so wherever it is converted to `float`, or is one.
    pub(super) fn spell_in_float(&mut self, id: TensorId, text: &str) {
        self.floats.insert(id, text.to_owned());
    }

    /// Variable that holds the value of a tensor as others read it. An in-place operation reads one value of its
    /// tensor and makes another.
    pub(super) fn value(&self, id: TensorId) -> String {
        let name = self.graph.canonical_name(id);
        if self.loads.contains(&id) && self.results.contains(&id) { format!("{name}_before") } else { name }
    }

    /// Variable of a result.
    pub(super) fn result(&self, id: TensorId) -> String {
        self.graph.canonical_name(id)
    }

    fn data_type(&self, id: TensorId) -> DataType {
        self.graph.tensor(id).data_type
    }

    /// The element of a tensor at an offset, in a register.
    pub(super) fn element(&mut self, id: TensorId, offset: &str) -> String {
        let pointer = names::pointer(self.graph, id);
        let data_type = self.data_type(id);
        self.used.add(names::storage_section(data_type));
        match data_type {
            DataType::Boolean => format!("fw_bit({pointer}, {offset})"),
            _ => format!("fw_value({pointer}[{offset}])"),
        }
    }

    /// `const float t0 = …;` for an operand whose register value is `text`.
    pub(super) fn define_load(&self, id: TensorId, text: &str) -> String {
        let register = names::register_type(Register::of(self.data_type(id)));
        format!("const {register} {} = {text};", self.value(id))
    }

    /// A result in a `float` register: not rounded to its storage type, unless it is an integer, which rounded to
    /// `float` first would be rounded twice.
    pub(super) fn in_float(&mut self, id: TensorId) -> String {
        let name = self.result(id);
        if self.defined.get(&id) == Some(&Register::Float) {
            return name;
        }
        format!("fw_value({})", self.stored(id, &name))
    }

    /// A value in a `float` register, as it was loaded or computed.
    pub(super) fn unrounded(&mut self, id: TensorId) -> String {
        if self.defined.contains_key(&id) {
            return self.in_float(id);
        }
        let value = self.value(id);
        if Register::of(self.data_type(id)) == Register::Float {
            return value;
        }
        self.used.add("fw_f32");
        names::to_storage(DataType::Float, &value)
    }

    /// Conversion of a register to an element in memory.
    pub(super) fn stored(&mut self, id: TensorId, value: &str) -> String {
        self.used.add(names::storage_section(self.data_type(id)));
        names::to_storage(self.data_type(id), value)
    }

    /// The line that defines a computed value; `accumulator` is the core's, with its class, `coordinate` that along the axis
    /// whose indices the step generates.
    pub(super) fn define(&mut self, step: &Step, accumulator: (Register, &str), coordinate: Option<&str>) -> String {
        let (register, text) = match &step.value {
            Value::Accumulator => (accumulator.0, accumulator.1.to_owned()),
            Value::Pointwise { attributes, operands, compute } => {
                let (register, text) = self.pointwise(attributes, operands, *compute, coordinate);
                let is_float = register == Register::Float && Register::of(self.data_type(step.tensor)) == register;
                if is_float && self.picks(step.tensor, attributes, operands) {
                    return self.define_stored(step.tensor, register, &text);
                }
                (register, text)
            }
            Value::Load => unreachable!("loads are defined by define_load"),
            Value::Concat(_) | Value::Window(_) => unreachable!("what is read elsewhere is defined by define_result"),
        };
        self.define_result(step.tensor, register, text)
    }

    /// The line that defines a result in a register of this class.
    pub(super) fn define_result(&mut self, id: TensorId, register: Register, text: String) -> String {
        let (register, text) = self.round(id, register, text);
        self.define_stored(id, register, &text)
    }

    /// The line that defines a result which is already rounded to its storage type.
    pub(super) fn define_stored(&mut self, id: TensorId, register: Register, text: &str) -> String {
        self.defined.insert(id, register);
        format!("const {} {} = {text};", names::register_type(register), self.result(id))
    }

    /// Rounds to the tensor's storage type. A value that is only stored is rounded by the store alone.
    fn round(&mut self, id: TensorId, register: Register, text: String) -> (Register, String) {
        let data_type = self.data_type(id);
        let same = matches!(
            (register, data_type),
            (Register::Float, DataType::Float)
                | (Register::Int, DataType::Int32)
                | (Register::Long, DataType::Int64)
                | (Register::Double, DataType::Double)
        );
        if same || !self.consumed.contains(&id) {
            return (register, text);
        }
        let stored = self.stored(id, &text);
        let text = if data_type == DataType::Boolean { stored } else { format!("fw_value({stored})") };
        (Register::of(data_type), text)
    }

    /// Whether a result is one of its operands, but for the sign, or zero: rounded to their type already.
    fn picks(&self, id: TensorId, attributes: &Pointwise, operands: &[TensorId]) -> bool {
        use PointwiseMode as M;
        let picks = match attributes.mode {
            M::Identity | M::Neg | M::Abs | M::Max | M::Min => true,
            M::ReluFwd => {
                [attributes.lower_clip(), attributes.lower_slope()] == [0.0; 2]
                    && attributes.upper_clip() == f32::INFINITY
            }
            _ => false,
        };
        picks
            && !attributes.is_scaled()
            && operands.iter().all(|&operand| self.data_type(operand) == self.data_type(id))
    }

    fn pointwise(
        &mut self,
        attributes: &Pointwise,
        operands: &[TensorId],
        compute: DataType,
        coordinate: Option<&str>,
    ) -> (Register, String) {
        if let Some(coordinate) = coordinate {
            let text = if coordinate == "0" { coordinate.to_owned() } else { format!("int({coordinate})") };
            return (Register::Int, text);
        }
        let compute = computed_in(attributes.mode, compute);
        let mut arguments = self.arguments(attributes, operands, compute);
        arguments.extend(constants(attributes));
        let function = function(attributes, compute);
        self.used.add(function);
        let register = self.result_register(attributes.mode, operands, compute);
        (register, format!("{function}({})", arguments.join(", ")))
    }

    /// Operands converted to the compute type; the predicate of a select comes first, made a truth value after that.
    fn arguments(&mut self, attributes: &Pointwise, operands: &[TensorId], compute: DataType) -> Vec<String> {
        let operands: Vec<(TensorId, f32)> = operands.iter().copied().zip(attributes.scales()).collect();
        match (attributes.mode, &*operands) {
            (PointwiseMode::BinarySelect, &[x, b, (t, _)]) => {
                self.used.add("fw_bool");
                let truth = names::to_storage(DataType::Boolean, &self.convert(t, compute));
                vec![truth, self.scaled(x, compute), self.scaled(b, compute)]
            }
            _ => operands.into_iter().map(|operand| self.scaled(operand, compute)).collect(),
        }
    }

    /// A value in a compute type, times its factor.
    fn scaled(&mut self, (id, factor): (TensorId, f32), compute: DataType) -> String {
        match factor {
            1.0 => self.convert(id, compute),
            0.0 => names::float_literal(0.0),
            _ => format!("{} * {}", self.convert(id, compute), names::float_literal(factor)),
        }
    }

    /// A value converted to a compute type; types without a register class of their own leave it alone.
    fn convert(&mut self, id: TensorId, compute: DataType) -> String {
        if let Some(text) = self.floats.get(&id).filter(|_| compute == DataType::Float) {
            return text.clone();
        }
        let value = self.value(id);
        let register = Register::of(self.data_type(id));
        let section = match (compute, register) {
            (DataType::Float, Register::Int | Register::Long) => "fw_f32",
            (DataType::Float, Register::Double) => "fw_f64",
            (DataType::Double, Register::Float | Register::Int | Register::Long) => "fw_f64",
            (DataType::Int32, Register::Float | Register::Long) => "fw_i32",
            (DataType::Boolean, _) => "fw_bool",
            _ => return value,
        };
        self.used.add(section);
        names::to_storage(compute, &value)
    }

    fn result_register(&self, mode: PointwiseMode, operands: &[TensorId], compute: DataType) -> Register {
        match compute {
            _ if mode.is_comparison() || mode.is_logical() => Register::Int,
            DataType::Float => Register::Float,
            DataType::Double => Register::Double,
            DataType::Int32 | DataType::Boolean => Register::Int,
            _ => operands.first().map_or(Register::Float, |&operand| Register::of(self.data_type(operand))),
        }
    }
}

/// Modes without a form in the type compute in float; engines refuse graphs that ask for anything else.
fn computed_in(mode: PointwiseMode, compute: DataType) -> DataType {
    match compute {
        _ if mode == PointwiseMode::Identity => compute,
        DataType::Int32 if has_integer_form(mode) => DataType::Int32,
        DataType::Double if names::double_function(mode).is_some() => DataType::Double,
        _ if mode.is_logical() => DataType::Boolean,
        _ => DataType::Float,
    }
}

/// The device function of a mode with its NaN rule, in a compute type.
fn function(attributes: &Pointwise, compute: DataType) -> &'static str {
    let double = names::double_function(attributes.mode).filter(|_| compute == DataType::Double);
    double.unwrap_or_else(|| single_function(attributes))
}

fn single_function(attributes: &Pointwise) -> &'static str {
    match (attributes.mode, attributes.propagates_nan()) {
        (PointwiseMode::Max, false) => "fw_max_skip_nan",
        (PointwiseMode::Min, false) => "fw_min_skip_nan",
        (PointwiseMode::ReluFwd, false) => "fw_relu_skip_nan",
        (PointwiseMode::ReluBwd, false) => "fw_relu_bwd_skip_nan",
        (mode, _) => names::mode_function(mode),
    }
}

/// Attributes that the device function takes after its operands.
fn constants(attributes: &Pointwise) -> Vec<String> {
    let values = match attributes.mode.reads() {
        Reads::Clips => vec![attributes.lower_clip(), attributes.upper_clip(), attributes.lower_slope()],
        Reads::EluAlpha => vec![attributes.alpha()],
        Reads::SoftplusBeta | Reads::SwishBeta => vec![attributes.beta()],
        Reads::Nothing | Reads::NanOption | Reads::Axis => Vec::new(),
    };
    values.into_iter().map(names::float_literal).collect()
}
