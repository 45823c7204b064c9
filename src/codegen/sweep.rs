//! Spells a [`Sweep`]: coordinates, offsets, operands, values and stores of one vector of points.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::expression::Speller;
use super::index::{index_type, spell};
use super::names;
use super::sections::Used;
use super::template::{self, template};
use crate::error::Error;
use crate::graph::{DataType, FinalizedGraph, TensorId};
use crate::kernel::{
    Access, Accumulation, Accumulators, Axis, Definition, Index, Map, Number, Register, Sweep, Value, Variable,
};

/// The point of a vector.
const POINT: Variable = Variable::Local("e");

/// What `sweep/evaluate.cuh` reads.
#[derive(Debug, Serialize)]
pub(super) struct SweepText {
    /// Before the loop over the vector: offsets, operands, room for results.
    pub(super) before: Vec<String>,
    /// Points of a vector.
    vector: i64,
    /// Condition under which a point exists, where the last vector of a row is short.
    pub(super) guard: Option<String>,
    /// For each point `e`.
    pub(super) body: Vec<String>,
    /// After the loop: wide stores.
    pub(super) after: Vec<String>,
    /// The coordinates that all of this reads.
    #[serde(skip)]
    pub(super) uses: BTreeSet<Variable>,
}

impl SweepText {
    /// The lines that evaluate a vector of points.
    ///
    /// # Errors
    /// [`Error::Generated`] if the template fails: a defect of ours.
    pub(super) fn evaluate(&self) -> Result<String, Error> {
        template::render(template!("sweep/evaluate.cuh"), self)
    }
}

/// Spells sweeps of one kernel.
pub(super) struct SweepSpeller<'a> {
    pub(super) sweep: &'a Sweep,
    pub(super) speller: Speller<'a>,
    /// Variables that hold the coordinates of the axes, and those that have been spelled so far.
    variables: Vec<Variable>,
    pub(super) uses: BTreeSet<Variable>,
    /// Tensors whose vectors, or elements, are not read where the tensor is, or not stored there, and how they are.
    read_from: BTreeMap<TensorId, String>,
    stored_to: BTreeMap<TensorId, String>,
}

impl<'a> SweepSpeller<'a> {
    pub(super) fn new(
        graph: &'a FinalizedGraph,
        used: &'a mut Used,
        sweep: &'a Sweep,
        accumulations: &[Accumulation],
    ) -> Self {
        let sources = accumulations.iter().map(|accumulation| accumulation.source);
        let speller = Speller::new(graph, used, &sweep.program, sources);
        let variables = (0..sweep.space.axes.len()).map(Variable::Axis).collect();
        let (read_from, stored_to) = (BTreeMap::new(), BTreeMap::new());
        Self { sweep, speller, variables, uses: BTreeSet::new(), read_from, stored_to }
    }

    /// Reads some tensors elsewhere: vectors through these pointers, and what is read point by point as these expressions of its storage type.
    pub(super) fn with_reads_from(self, places: impl IntoIterator<Item = (TensorId, String)>) -> Self {
        Self { read_from: places.into_iter().collect(), ..self }
    }

    /// Stores the vectors of some tensors through other pointers.
    pub(super) fn with_vectors_to(self, pointers: impl IntoIterator<Item = (TensorId, String)>) -> Self {
        Self { stored_to: pointers.into_iter().collect(), ..self }
    }

    /// Coordinates in variables of their own.
    pub(super) fn with_variables(self, variables: impl IntoIterator<Item = impl Into<Variable>>) -> Self {
        Self { variables: variables.into_iter().map(Into::into).collect(), ..self }
    }

    /// The point of a vector: the only one of a vector of one.
    pub(super) fn point(&self) -> &'static str {
        if self.sweep.vector > 1 { "e" } else { "0" }
    }

    /// Spells an index, and remembers what it reads.
    fn spell(&mut self, index: &Index) -> String {
        self.uses.extend(index.variables());
        spell(index)
    }

    /// The values at a vector of points, without stores: what comes before the loop over the vector, and for each
    /// point of it.
    pub(super) fn values_alone(&mut self) -> (Vec<String>, Vec<String>) {
        let mut before = self.offsets();
        before.extend(self.loads_before());
        let mut body = self.loads_within();
        body.extend(self.values());
        (before, body)
    }

    /// Spells everything; `accumulate` tells how a point enters the reductions.
    pub(super) fn text(mut self, accumulations: &[Accumulation], accumulator_index: &str) -> SweepText {
        let (before, body) = self.values_and_stores();
        let entered = self.accumulate(accumulations, accumulator_index);
        self.finished(before, body, entered)
    }

    /// The same, where other lines say how a point enters sums.
    pub(super) fn text_with(mut self, enter: impl FnOnce(&mut Speller<'a>) -> Vec<String>) -> SweepText {
        let (before, body) = self.values_and_stores();
        let entered = enter(&mut self.speller);
        self.finished(before, body, entered)
    }

    fn values_and_stores(&mut self) -> (Vec<String>, Vec<String>) {
        let (mut before, mut body) = self.values_alone();
        before.extend(self.result_room());
        body.extend(self.stores_within());
        (before, body)
    }

    fn finished(mut self, before: Vec<String>, mut body: Vec<String>, entered: Vec<String>) -> SweepText {
        body.extend(entered);
        let after = self.stores_after();
        SweepText { before, vector: self.sweep.vector, guard: self.guard(), body, after, uses: self.uses }
    }

    pub(super) fn access(&self, id: TensorId) -> Access {
        self.sweep.access[&id]
    }

    pub(super) fn data_type(&self, id: TensorId) -> DataType {
        self.speller.graph.tensor(id).data_type
    }

    pub(super) fn offset_name(&self, id: TensorId) -> String {
        format!("o_{}", self.speller.graph.canonical_name(id))
    }

    fn inner(&self) -> &'a Axis {
        self.sweep.space.axes.last().expect("a sweep has at least one axis")
    }

    /// Offset of the vector's first element, for every tensor that has one.
    pub(super) fn offsets(&mut self) -> Vec<String> {
        let index = index_type(self.sweep.wide_index);
        let loads: Vec<TensorId> = self.sweep.program.loads().collect();
        let is_read = |id: &TensorId| self.sweep.program.moved().any(|moved| moved == *id);
        let is_read_here = |id: &TensorId| is_read(id) && !self.read_from.contains_key(id);
        let is_stored_here = |id: &TensorId| self.sweep.stores.contains(id) && !self.stored_to.contains_key(id);
        let has_offset = |id: &TensorId, access: Access| match access {
            Access::Parameter => false,
            Access::Bit => loads.contains(id),
            _ => is_read_here(id) || is_stored_here(id),
        };
        let moved = self.sweep.access.iter().filter(|&(id, &access)| has_offset(id, access));
        let moved: Vec<TensorId> = moved.map(|(&id, _)| id).collect();
        let mut lines: Vec<String> = Vec::new();
        for id in moved {
            let offset = self.dot(|axis| axis.strides[&id]);
            lines.push(format!("const {index} {} = {};", self.offset_name(id), self.spell(&offset)));
        }
        if let Some(Accumulators::Workspace { .. }) = self.sweep.accumulators {
            let offset = self.dot(|axis| axis.accumulators);
            lines.push(format!("const {index} o_accumulators = {};", self.spell(&offset)));
        }
        lines
    }

    /// The sum over axes of coordinate times stride.
    fn dot(&self, stride: impl Fn(&Axis) -> Number) -> Index {
        let axes = self.variables.iter().zip(&self.sweep.space.axes);
        Index::sum(axes.map(|(&variable, axis)| Index::Variable(variable) * stride(axis)))
    }

    /// Operands moved as a whole: broadcasts and vectors.
    fn loads_before(&mut self) -> Vec<String> {
        let loads: Vec<TensorId> = self.sweep.program.loads().collect();
        let mut lines: Vec<String> = loads.into_iter().flat_map(|id| self.load_before(id)).collect();
        lines.extend(self.accumulators_before());
        lines.extend(self.read_before());
        lines
    }

    /// A vector of accumulators, in `acc`.
    fn accumulators_before(&mut self) -> Vec<String> {
        let vector = self.sweep.vector;
        let (register, load) = match self.sweep.accumulators {
            Some(Accumulators::Tile(register)) => {
                self.speller.used.add("fw_vector");
                self.speller.used.add(if register == Register::Int { "fw_i32" } else { "fw_f32" });
                (register, "fw_load_vector(tile_at, acc);".to_owned())
            }
            Some(Accumulators::SwizzledTile(register)) => {
                self.speller.used.add("fw_load_staged");
                (register, "fw_load_staged(piece_c, line, piece, acc);".to_owned())
            }
            Some(Accumulators::Fragment(register)) => {
                let pair = names::register_type(register);
                return vec![format!("const {pair} acc[2] = {{sums[j][2 * half], sums[j][2 * half + 1]}};")];
            }
            Some(Accumulators::Registers(register)) => {
                let register = names::register_type(register);
                return vec![format!("const {register} (&acc)[{vector}] = sums;")];
            }
            Some(Accumulators::Workspace { register, splits, elements, vector: true }) => {
                self.speller.used.add("fw_sum_splits");
                (register, format!("fw_sum_splits(accumulators + o_accumulators, {splits}, {elements}ull, acc);"))
            }
            _ => return Vec::new(),
        };
        vec![format!("{} acc[{vector}];", names::register_type(register)), load]
    }

    /// Class and text of the accumulator at point `e`.
    fn accumulator(&mut self) -> (Register, String) {
        match self.sweep.accumulators {
            Some(Accumulators::Workspace { register, splits, elements, vector: false }) => {
                self.speller.used.add("fw_sum_splits");
                let at = self.along("o_accumulators", self.inner().accumulators);
                (register, format!("fw_sum_of_splits(accumulators + ({at}), {splits}, {elements}ull)"))
            }
            Some(accumulators) => (accumulators.register(), format!("acc[{}]", self.point())),
            None => (Register::Float, String::new()),
        }
    }

    fn load_before(&mut self, id: TensorId) -> Vec<String> {
        let offset = self.access(id) != Access::Parameter;
        let offset = if offset { self.offset_name(id) } else { String::new() };
        match self.access(id) {
            Access::Broadcast => {
                let element = self.speller.element(id, &offset);
                vec![self.speller.define_load(id, &element)]
            }
            Access::Vector => {
                self.speller.used.add("fw_vector");
                self.speller.used.add(names::storage_section(self.data_type(id)));
                let name = self.speller.graph.canonical_name(id);
                let register = names::register_type(Register::of(self.data_type(id)));
                let from = self.vector_pointer(id);
                vec![
                    format!("{register} v_{name}[{}];", self.sweep.vector),
                    format!("fw_load_vector({from}, v_{name});"),
                ]
            }
            Access::BitsOfByte => {
                self.speller.used.add(names::storage_section(DataType::Boolean));
                let (name, pointer) = (self.speller.graph.canonical_name(id), names::pointer(self.speller.graph, id));
                vec![format!("const unsigned v_{name} = fw_bits({pointer}, {offset});")]
            }
            _ => Vec::new(),
        }
    }

    /// Where a tensor's vector is read.
    pub(super) fn vector_pointer(&self, id: TensorId) -> String {
        let here = || format!("{} + {}", names::pointer(self.speller.graph, id), self.offset_name(id));
        self.read_from.get(&id).cloned().unwrap_or_else(here)
    }

    /// Operands taken point by point.
    fn loads_within(&mut self) -> Vec<String> {
        let loads: Vec<TensorId> = self.sweep.program.loads().collect();
        let mut lines = Vec::new();
        for id in loads {
            let text = match self.access(id) {
                Access::Vector => format!("v_{}[{}]", self.speller.graph.canonical_name(id), self.point()),
                Access::BitsOfByte => {
                    format!("int(v_{} >> {} & 1u)", self.speller.graph.canonical_name(id), self.point())
                }
                Access::Strided if self.read_from.contains_key(&id) => {
                    self.speller.used.add(names::storage_section(self.data_type(id)));
                    format!("fw_value({})", self.read_from[&id])
                }
                Access::Strided | Access::Bits | Access::Bit => {
                    let offset = self.point_offset(id);
                    self.speller.element(id, &offset)
                }
                Access::Broadcast | Access::Parameter => continue,
            };
            lines.push(self.speller.define_load(id, &text));
        }
        lines
    }

    /// Offset of point `e`.
    pub(super) fn point_offset(&self, id: TensorId) -> String {
        self.along(&self.offset_name(id), self.inner().strides[&id])
    }

    /// Point `e` of a vector that starts at an offset.
    fn along(&self, offset: &str, stride: Number) -> String {
        match stride.value() {
            _ if self.sweep.vector == 1 => offset.to_owned(),
            0 => offset.to_owned(),
            1 => format!("{offset} + e"),
            _ => format!("{offset} + e * {stride}"),
        }
    }

    fn values(&mut self) -> Vec<String> {
        let sweep = self.sweep;
        let (register, accumulator) = self.accumulator();
        let mut lines = Vec::new();
        for step in sweep.program.steps.iter().filter(|step| step.value != Value::Load) {
            match &step.value {
                Value::Concat(_) | Value::Window(_) => lines.extend(self.read_elsewhere(step)),
                _ => {
                    let coordinate = step.generated_axis().map(|axis| self.coordinate(step.tensor, axis, true));
                    lines.push(self.speller.define(step, (register, &accumulator), coordinate.as_deref()));
                }
            }
        }
        lines
    }

    /// Coordinate of a tensor's graph axis, 0 where it broadcasts: at point `e`, or at the first point of the vector.
    pub(super) fn coordinate(&mut self, id: TensorId, graph_axis: usize, at_point: bool) -> String {
        let broadcast = self.speller.graph.tensor(id).dim.get(graph_axis).is_none_or(|&extent| extent == 1);
        if broadcast {
            return "0".to_owned();
        }
        let coordinate = self.coordinate_of(graph_axis, at_point && self.sweep.vector > 1);
        self.spell(&coordinate)
    }

    /// Coordinate of a graph axis at point `e`, or at the first of a vector: its axis of the space or, where it is cut in
    /// two (groups and the channels of one), the outer one scaled.
    fn coordinate_of(&self, graph_axis: usize, at_point: bool) -> Index {
        let axes = &self.sweep.space.axes;
        let mut scale = Number::ONE;
        let mut terms = Vec::new();
        for (number, axis) in axes.iter().enumerate().rev().filter(|(_, axis)| axis.graph_axes == [graph_axis]) {
            if at_point && number + 1 == axes.len() {
                terms.push(Index::Variable(POINT));
            }
            terms.push(Index::Variable(self.variables[number]) * scale);
            scale = scale * axis.extent;
        }
        Index::sum(terms.into_iter().rev())
    }

    /// Variables that collect what is stored after the loop.
    fn result_room(&mut self) -> Vec<String> {
        let stores = self.sweep.stores.clone();
        let mut lines = Vec::new();
        for id in stores {
            let name = self.speller.result(id);
            let (data_type, vector) = (self.data_type(id), self.sweep.vector);
            match self.access(id) {
                Access::Bits => lines.push(format!("unsigned w_{name} = 0;")),
                Access::Vector if packs_in_pairs(data_type, vector) => lines.push(format!("float w_{name}[{vector}];")),
                Access::Vector => {
                    self.speller.used.add("fw_vector");
                    lines.push(format!("fw_vector<{}, {vector}> w_{name};", names::storage_type(data_type)));
                }
                _ => {}
            }
        }
        lines
    }

    fn stores_within(&mut self) -> Vec<String> {
        let stores = self.sweep.stores.clone();
        stores.into_iter().map(|id| self.store_within(id)).collect()
    }

    fn store_within(&mut self, id: TensorId) -> String {
        let name = self.speller.result(id);
        match self.access(id) {
            Access::Vector if packs_in_pairs(self.data_type(id), self.sweep.vector) => {
                format!("w_{name}[{}] = {};", self.point(), self.speller.in_float(id))
            }
            Access::Vector => format!("w_{name}.at[{}] = {};", self.point(), self.speller.stored(id, &name)),
            Access::Bits => format!("w_{name} |= unsigned({}) << {};", self.speller.stored(id, &name), self.point()),
            Access::Bit => format!("w_{name} |= unsigned({}) << bit;", self.speller.stored(id, &name)),
            _ => {
                let offset = self.point_offset(id);
                let pointer = names::pointer(self.speller.graph, id);
                format!("{pointer}[{offset}] = {};", self.speller.stored(id, &name))
            }
        }
    }

    fn stores_after(&mut self) -> Vec<String> {
        let stores = self.sweep.stores.clone();
        let mut lines = Vec::new();
        for id in stores {
            let name = self.speller.result(id);
            let pointer = names::pointer(self.speller.graph, id);
            let offset = self.offset_name(id);
            let to = self.stored_to.get(&id).cloned().unwrap_or_else(|| format!("{pointer} + {offset}"));
            match (self.access(id), self.data_type(id)) {
                (Access::Bits, _) => lines.push(format!("{pointer}[{offset} >> 3] = (unsigned char)w_{name};")),
                (Access::Vector, data_type) if packs_in_pairs(data_type, self.sweep.vector) => {
                    lines.push(self.store_pairs(data_type, &to, &name));
                }
                (Access::Vector, _) => lines.push(format!("fw_store_vector({to}, w_{name});")),
                _ => {}
            }
        }
        lines
    }

    /// 16-bit floats are converted two at a time.
    fn store_pairs(&mut self, data_type: DataType, to: &str, name: &str) -> String {
        let pack = if data_type == DataType::Half { "fw_pack_f16" } else { "fw_pack_bf16" };
        self.speller.used.add(pack);
        self.speller.used.add(names::storage_section(data_type));
        format!("fw_store_vector(reinterpret_cast<unsigned*>({to}), {pack}(w_{name}));")
    }

    fn accumulate(&mut self, accumulations: &[Accumulation], index: &str) -> Vec<String> {
        let entered = accumulations.iter().enumerate();
        entered
            .map(|(number, accumulation)| enters(&mut self.speller, &format!("acc{number}[{index}]"), accumulation))
            .collect()
    }

    /// The point's place along the innermost axis, where the last vector of a row is short.
    fn guard(&mut self) -> Option<String> {
        let inner = Index::Variable(*self.variables.last()?) + Index::Variable(POINT);
        self.sweep.ragged.then(|| format!("{} < {}", self.spell(&inner), self.inner().extent))
    }
}

/// The line by which a value enters a variable of a reduction.
pub(super) fn enters(speller: &mut Speller<'_>, variable: &str, accumulation: &Accumulation) -> String {
    let value = accumulated_value(speller, accumulation);
    let combine = names::combine_function(accumulation.combine);
    speller.used.add(combine);
    format!("{variable} = {combine}({variable}, {value});")
}

/// A value as it enters a reduction: in float, mapped.
fn accumulated_value(speller: &mut Speller<'_>, accumulation: &Accumulation) -> String {
    let value = accumulated_in_float(speller, accumulation.source);
    mapped(speller.used, accumulation.map, value)
}

/// A value that is reduced, in float.
pub(super) fn accumulated_in_float(speller: &mut Speller<'_>, source: TensorId) -> String {
    let value = speller.value(source);
    if Register::of(speller.graph.tensor(source).data_type) == Register::Float {
        return value;
    }
    speller.used.add("fw_f32");
    format!("fw_to_f32({value})")
}

pub(super) fn mapped(used: &mut Used, map: Map, value: String) -> String {
    match names::map_function(map) {
        Some(function) => {
            used.add(function);
            format!("{function}({value})")
        }
        None => value,
    }
}

/// Two 16-bit floats are converted by one instruction.
fn packs_in_pairs(data_type: DataType, vector: i64) -> bool {
    matches!(data_type, DataType::Half | DataType::BFloat16) && vector % 2 == 0
}

/// The coordinates of the axes chosen at a linear index over their points, outermost first; the innermost axis of the space
/// counts in vectors.
pub(super) fn coordinates(sweep: &Sweep, linear: &Index, chosen: impl Fn(&Axis) -> bool) -> Vec<Definition> {
    let last = sweep.space.axes.len() - 1;
    let counts = sweep.space.axes.iter().enumerate().filter(|(_, axis)| chosen(axis)).map(|(number, axis)| {
        let per_row = axis.extent.parts(sweep.vector);
        if number == last { (number, per_row, sweep.vector) } else { (number, axis.extent, 1) }
    });
    cut(linear, &counts.collect::<Vec<_>>())
}

/// Cuts a linear index; each entry is (axis, number of coordinates, elements to a coordinate), outermost first.
pub(super) fn cut(linear: &Index, counts: &[(usize, Number, i64)]) -> Vec<Definition> {
    let mut definitions = Vec::new();
    let mut below = Number::ONE;
    for (position, &(axis, count, scale)) in counts.iter().enumerate().rev() {
        let quotient = linear.clone() / below;
        let coordinate = if position == 0 { quotient } else { quotient % count };
        definitions.push(Definition::new(Variable::Axis(axis), coordinate * scale));
        below = below * count;
    }
    definitions.reverse();
    definitions
}

/// Where the element of a tensor at the coordinates of a sweep's axes lies; these coordinates join `uses`.
pub(super) fn address(graph: &FinalizedGraph, sweep: &Sweep, id: TensorId, uses: &mut BTreeSet<Variable>) -> String {
    let axes = sweep.space.axes.iter().enumerate();
    let place = Index::sum(axes.map(|(number, axis)| Index::variable(Variable::Axis(number)) * axis.strides[&id]));
    uses.extend(place.variables());
    format!("{} + ({})", names::pointer(graph, id), spell(&place))
}
