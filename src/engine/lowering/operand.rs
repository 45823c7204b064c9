//! The operands of a matrix product: how their elements, with the mainloop stage, come to shared memory.

use super::box_rows::{BoxRows, pieces_along_k, pieces_along_outer};
use super::boxed_operand::{BoxedOperand, StoredLine};
use super::problem::Problem;
use super::sweep::{Width, elements, is_vectorizable, over};
use super::tensor_map::{Arrival, boxed, raw, step_k};
use crate::fusion::{CoreOperand, Fusion, Product};
use crate::graph::{DataType, FinalizedGraph, TensorId};
use crate::kernel::{
    Access, Axis, Coordinate, Digit, Fetch, GemmTile, IterationSpace, MmaType, Number, Operand, Quantity, StageProgram,
    Step, StepTail, Sweep, TensorMap, Told, Value, step,
};

/// Bytes of one access.
const ACCESS_BYTES: i64 = 16;

/// Smallest access of `cp.async`, in bytes.
const ASYNC_BYTES: i64 = 4;

/// What operands are planned for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum Instruction {
    /// Multiply-adds.
    Fma,
    /// `mma.sync` of operands of this type.
    Mma(MmaType),
    /// `wgmma` of operands of this type.
    Wgmma(MmaType),
}

/// Rows of boxes that straddle lines of L2, by the index along which they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum Straddling {
    /// Along k.
    AlongK,
    /// Along m or n.
    AlongOuter,
}

/// How the elements of an operand come to shared memory, whatever the tile.
#[derive(Clone, Debug)]
enum Way {
    Tma(BoxedOperand),
    Transformed(BoxedOperand),
    Fragments(BoxedOperand),
    Turned(BoxedOperand),
    Async,
    Vector,
    Element,
}

/// An operand of a product with its mainloop stage, as far as tiles do not change it.
#[derive(Clone, Debug)]
pub(in crate::engine) struct OperandPlan {
    tensor: TensorId,
    sweep: Sweep,
    coordinates: Vec<Coordinate>,
    way: Way,
    along_k: bool,
    /// Why the tensor memory accelerator does not bring the operand as it is stored, turned or not; `None` if it does, and where
    /// nobody asked.
    why_not_boxed: Option<String>,
}

impl OperandPlan {
    /// Plans operand `slot` (0 is A, 1 is B).
    pub(super) fn new(
        fusion: &Fusion,
        product: &Product,
        problem: &Problem,
        slot: usize,
        instruction: Instruction,
    ) -> Self {
        let graph = fusion.graph();
        let operand = &product.operands[problem.core_slot(slot)];
        let program = stage_program(fusion, operand);
        let planner = Planner { graph, problem, slot, tensor: operand.tensor, program: &program };
        planner.plan(instruction)
    }

    /// The operand in tiles of a size, with offsets of 64 bits or not.
    pub(super) fn at(&self, tile: GemmTile, wide_index: bool) -> Operand {
        Operand {
            tensor: self.tensor,
            sweep: Sweep { wide_index, ..self.sweep.clone() },
            coordinates: self.coordinates.clone(),
            fetch: self.fetch(tile),
            along_k: self.along_k,
            start: self.boxes().map(|boxes| boxes.start().clone()).unwrap_or_default(),
            edge: None,
        }
    }

    /// The map of the last tile's boxes, of an index that the product has so many of, where they end with it and those of other tiles do not: of what is
    /// multiplied as it comes. Where shapes are `dynamic`, any tile may be such a one.
    pub(super) fn edge_at(&self, tile: GemmTile, extent: i64, dynamic: bool) -> Option<TensorMap> {
        match &self.way {
            Way::Tma(boxes) => boxes.edge_at(tile, extent, dynamic),
            _ => None,
        }
    }

    fn fetch(&self, tile: GemmTile) -> Fetch {
        match &self.way {
            Way::Tma(boxes) => Fetch::Tma(boxes.multiplied_at(tile)),
            Way::Transformed(boxes) => Fetch::Transformed(boxes.at(tile)),
            Way::Fragments(boxes) => Fetch::Fragments(boxes.at(tile)),
            Way::Turned(boxes) => Fetch::Turned(boxes.at(tile)),
            Way::Async => Fetch::Async,
            Way::Vector => Fetch::Vector,
            Way::Element => Fetch::Element,
        }
    }

    /// The same beside another operand of `wgmma`: where that is computed from boxes, who computes it waits for them, and pieces go through
    /// registers.
    pub(super) fn beside(self, other: &Self) -> Self {
        let waits = matches!(other.way, Way::Transformed(_) | Way::Fragments(_) | Way::Turned(_));
        match self.way {
            Way::Async if waits => Self { way: Way::Vector, ..self },
            _ => self,
        }
    }

    /// The same of a copy with such lines.
    pub(super) fn with_zeros(self, lines: StoredLine) -> Self {
        let way = match self.way {
            Way::Tma(boxes) => Way::Tma(boxes.with_zeros(lines)),
            way => way,
        };
        Self { way, ..self }
    }

    /// The tensor that the operand is, or that its stage computes.
    pub(super) fn tensor(&self) -> TensorId {
        self.tensor
    }

    fn boxes(&self) -> Option<&BoxedOperand> {
        match &self.way {
            Way::Tma(boxes) | Way::Transformed(boxes) | Way::Fragments(boxes) | Way::Turned(boxes) => Some(boxes),
            Way::Async | Way::Vector | Way::Element => None,
        }
    }

    /// Bytes of a stage in which boxes wait for their transformation, beside the tile.
    pub(super) fn raw_bytes(&self, tile: GemmTile, rows: u32, element_bytes: u32) -> u32 {
        match self.way {
            // it is asked of every tile: boxes that are multiplied as they come wait for nothing
            Way::Tma(_) | Way::Async | Way::Vector | Way::Element => 0,
            _ => self.fetch(tile).raw_bytes(self.along_k, rows, element_bytes),
        }
    }

    /// Elements of an access.
    pub(in crate::engine) fn vector(&self) -> i64 {
        self.sweep.vector
    }

    /// Accesses of fewer than 16 bytes for an element that is multiplied in a type.
    pub(in crate::engine) fn short_accesses(&self, multiplied: MmaType) -> f64 {
        let vector = self.vector();
        if vector * i64::from(multiplied.bytes()) < ACCESS_BYTES { 1.0 / vector as f64 } else { 0.0 }
    }

    /// Whether elements are copied by `cp.async`.
    pub(in crate::engine) fn is_copied(&self) -> bool {
        matches!(self.way, Way::Async)
    }

    /// Whether elements under the taps of a padded window are copied in pieces of fewer than 16 bytes, each with a place of its own.
    pub(in crate::engine) fn copies_small_pieces(&self, element_bytes: u32) -> bool {
        let is_window = self.coordinates.iter().any(|coordinate| coordinate.bound.is_some());
        self.is_copied() && is_window && self.sweep.vector * i64::from(element_bytes) < ACCESS_BYTES
    }

    /// Whether vectors are evaluated in registers, and held there while a tile is multiplied.
    pub(in crate::engine) fn is_held_in_registers(&self) -> bool {
        matches!(self.way, Way::Vector)
    }

    /// Whether boxes are multiplied as they come.
    pub(in crate::engine) fn is_boxed(&self) -> bool {
        matches!(self.way, Way::Tma(_))
    }

    /// Whether the multiplying warps evaluate the stage to fragments in their registers.
    pub(in crate::engine) fn is_in_fragments(&self) -> bool {
        matches!(self.way, Way::Fragments(_))
    }

    /// Tensors beside the one in boxes that the stage reads anew for each element along k.
    pub(super) fn side_loads_along_k(&self, k: &[Digit]) -> usize {
        let is_of_k = |term: &(Quantity, i64)| k.iter().any(|digit| digit.quantity == term.0);
        let axes = || self.sweep.space.axes.iter().zip(&self.coordinates);
        let varies = |id: &TensorId| {
            axes().any(|(axis, coordinate)| {
                coordinate.terms.iter().any(is_of_k) && axis.strides.get(id).is_some_and(|&stride| stride > 0)
            })
        };
        let boxed = self.boxes().map(|boxes| boxes.map.tensor);
        self.sweep.program.moved().filter(|id| Some(*id) != boxed && varies(id)).count()
    }

    /// Whether shared memory has the operand in lines along k.
    pub(in crate::engine) fn lies_along_k(&self) -> bool {
        self.along_k
    }

    /// Whether lines of boxes run along k.
    pub(super) fn runs_along_k(&self) -> bool {
        self.boxes().is_some_and(BoxedOperand::runs_along_k)
    }

    /// How rows of boxes straddle what L2 reads; `None` where they do not, and where nothing comes in boxes.
    pub(in crate::engine) fn straddles(&self) -> Option<Straddling> {
        let boxes = self.boxes()?;
        let straddling = if boxes.runs_along_k() { Straddling::AlongK } else { Straddling::AlongOuter };
        boxes.rows_straddle().then_some(straddling)
    }

    /// Rows of boxes that a step of a tile takes, of the tile's own or of k for each column of lines; the last step along k, or under a tap, may
    /// have narrower ones.
    pub(super) fn box_rows(&self, tile: GemmTile, rows: u32, tail: Option<StepTail>) -> BoxRows {
        let fetch = self.fetch(tile);
        let Some(map) = fetch.map() else { return BoxRows::default() };
        let bytes = map.span() * map.element.bytes();
        if fetch.boxes_along_k(self.along_k) {
            let is_cut = self.boxes().is_some_and(|boxes| boxes.whole.is_some());
            let rows = if is_cut { rows } else { map.box_dims[1].min(rows) };
            let pieces = pieces_along_k(&map, tail.map(|tail| (tail, fetch.boxed_of(self.along_k, tail))));
            return BoxRows { rows, bytes, pieces };
        }
        BoxRows { rows: rows.div_ceil(map.span()) * map.box_dims[1], bytes, pieces: pieces_along_outer(&map) }
    }

    /// Whether boxes are turned on their way.
    pub(in crate::engine) fn is_turned(&self) -> bool {
        matches!(self.way, Way::Turned(_))
    }

    /// Why the operand does not come in boxes at all where these were asked for; `None` where it does.
    pub(in crate::engine) fn why_not_in_boxes(&self) -> Option<String> {
        self.boxes().is_none().then(|| self.why_not_boxed.clone().unwrap_or_default())
    }

    /// Why the operand is read element by element where boxes were asked for; `None` where it is not.
    pub(in crate::engine) fn why_by_element(&self) -> Option<String> {
        let why = self.why_not_boxed.as_deref().unwrap_or_default();
        matches!(self.way, Way::Element).then(|| format!("{why}, and it cannot be read in vectors"))
    }
}

/// Whether the tensor memory accelerator brings both operands of a core as they are stored, turned or not.
pub(in crate::engine) fn are_boxed(fusion: &Fusion, product: &Product, operand: MmaType) -> bool {
    let (graph, problem) = (fusion.graph(), Problem::of(fusion.graph(), product).in_steps_of(step_k(operand)));
    (0..2).all(|slot| boxed_as_stored(graph, &problem, slot, product.tensors()[slot], operand).is_ok())
}

/// An operand that no mainloop stage computes, in boxes.
pub(super) fn boxed_as_stored(
    graph: &FinalizedGraph,
    problem: &Problem,
    slot: usize,
    tensor: TensorId,
    operand: MmaType,
) -> Result<(BoxedOperand, Arrival), String> {
    let named = graph.describe_tensor(tensor);
    if graph.producer(tensor).is_some() {
        return Err(format!("operand {named} is computed in a mainloop stage"));
    }
    boxed(graph, problem, slot, tensor, operand).map_err(|why| format!("operand {named}: {why}"))
}

/// The values of an operand: of its mainloop stage, or as it is stored.
pub(super) fn stage_program(fusion: &Fusion, operand: &CoreOperand) -> StageProgram {
    let (graph, tensor) = (fusion.graph(), operand.tensor);
    match graph.producer(tensor) {
        Some(_) => StageProgram::of(graph, fusion.operations(operand.stage()), None).needed_for([tensor].into_iter()),
        None => StageProgram::load(tensor),
    }
}

struct Planner<'a> {
    graph: &'a FinalizedGraph,
    problem: &'a Problem,
    slot: usize,
    tensor: TensorId,
    program: &'a StageProgram,
}

impl Planner<'_> {
    fn plan(&self, instruction: Instruction) -> OperandPlan {
        match instruction {
            Instruction::Fma => self.by_element(),
            Instruction::Mma(operand) => {
                let way = if self.is_plain(operand) { Way::Async } else { Way::Vector };
                self.in_vectors(operand, way).unwrap_or_else(|| self.by_element())
            }
            Instruction::Wgmma(operand) => match self.boxed(operand) {
                Ok(plan) => plan,
                Err(why) => {
                    let plan = self.in_vectors(operand, Way::Vector).map(|plan| self.transformed(plan, operand));
                    let plan = plan.map(|plan| self.copied(plan, operand)).unwrap_or_else(|| self.by_element());
                    OperandPlan { why_not_boxed: Some(why), ..plan }
                }
            },
        }
    }

    /// The operand as it is, if the tensor memory accelerator takes it.
    fn boxed(&self, operand: MmaType) -> Result<OperandPlan, String> {
        let (boxes, arrival) = boxed_as_stored(self.graph, self.problem, self.slot, self.tensor, operand)?;
        let (space, coordinates) = self.space(None);
        let along_k = boxes.runs_along_k();
        Ok(match arrival {
            Arrival::Tma => self.operand(space, coordinates, Way::Tma(boxes), 1, along_k),
            Arrival::Turned => self.operand(space, coordinates, Way::Turned(boxes), 1, true),
        })
    }

    fn by_element(&self) -> OperandPlan {
        let last = self.contiguous_axis();
        let (space, coordinates) = self.space(last);
        let along_k = last.is_some_and(|axis| self.runs_along_k(axis));
        self.operand(space, coordinates, Way::Element, 1, along_k)
    }

    /// Vectors along the axis in which memory is contiguous.
    fn in_vectors(&self, operand: MmaType, way: Way) -> Option<OperandPlan> {
        self.vector_axis().and_then(|axis| self.vectors(axis, operand, way))
    }

    /// Lets the one large tensor of the stage come in boxes, if it can: where every point is computed from the tensors'
    /// elements at that point. The warps that multiply evaluate the stage of A themselves where a pair of 16-bit elements along k
    /// is a register of a fragment, as `wgmma` takes fragments of A from registers.
    fn transformed(&self, planned: OperandPlan, operand: MmaType) -> OperandPlan {
        let stream = match self.streams()[..] {
            [stream] if planned.sweep.access.get(&stream) == Some(&Access::Vector) => stream,
            _ => return planned,
        };
        let is_pointwise = |step: &Step| matches!(step.value, Value::Load | Value::Pointwise { .. });
        let has_operand_dims = self.graph.tensor(stream).dim == self.graph.tensor(self.tensor).dim;
        if !has_operand_dims || !self.program.steps.iter().all(is_pointwise) {
            return planned;
        }
        match raw(self.graph, self.problem, self.slot, stream, operand, planned.along_k) {
            Some(boxes) if self.slot == 0 && planned.along_k && operand.bytes() == 2 => {
                self.operand(planned.sweep.space, planned.coordinates, Way::Fragments(boxes), 2, true)
            }
            Some(boxes) => OperandPlan { way: Way::Transformed(boxes), ..planned },
            None => planned,
        }
    }

    /// Lets pieces that are multiplied as they are stored arrive while others are asked for. FLOAT is rounded to TF32 on its way.
    fn copied(&self, planned: OperandPlan, operand: MmaType) -> OperandPlan {
        let is_copied = matches!(planned.way, Way::Vector) && self.is_plain(operand) && operand != MmaType::Tf32;
        OperandPlan { way: if is_copied { Way::Async } else { planned.way }, ..planned }
    }

    fn operand(
        &self,
        space: IterationSpace,
        coordinates: Vec<Coordinate>,
        way: Way,
        vector: i64,
        along_k: bool,
    ) -> OperandPlan {
        let width = Width { vector, ragged: false };
        let sweep = over(self.graph, space, self.program.clone(), Vec::new(), width);
        OperandPlan { tensor: self.tensor, sweep, coordinates, way, along_k, why_not_boxed: None }
    }

    /// Vectors along a graph axis, if every large tensor allows them and each starts at a multiple of its length: the
    /// coordinate's other digits (of a window, of groups) must step by multiples, too. What `mma` reads with m or n
    /// contiguous has to have 16 bits (`ldmatrix.trans`).
    fn vectors(&self, axis: usize, mma: MmaType, way: Way) -> Option<OperandPlan> {
        let along_k = self.runs_along_k(axis);
        let size = i64::from(mma.bytes());
        if !along_k && size != 2 {
            return None;
        }
        let (space, coordinates) = self.space(Some(axis));
        let streams = self.streams();
        let extent = self.digit_extent(axis)?;
        let (_, outer_terms) = self.coordinates()[axis].terms.split_last()?;
        let fits = |&vector: &i64| {
            extent % vector == 0
                && vector * size >= ASYNC_BYTES
                && outer_terms.iter().all(|term| term.1 % vector == 0)
                && streams.iter().all(|&id| is_vectorizable(self.graph, &space, id, vector))
        };
        let vector = [16, 8, 4, 2].into_iter().filter(|vector| vector * size <= ACCESS_BYTES).find(fits)?;
        Some(self.operand(space, coordinates, way, vector, along_k))
    }

    /// Whether elements are copied as they are.
    fn is_plain(&self, mma: MmaType) -> bool {
        let data_type = self.graph.tensor(self.tensor).data_type;
        let is_stored = match mma {
            MmaType::F16 => data_type == DataType::Half,
            MmaType::Bf16 => data_type == DataType::BFloat16,
            MmaType::Tf32 => data_type == DataType::Float,
            MmaType::S8 => data_type == DataType::Int8,
            MmaType::Fp8 => data_type.is_fp8(),
        };
        is_stored && self.program.steps.iter().all(|step| step.value == Value::Load)
    }

    /// The tensors of full size: those that decide the accesses.
    fn streams(&self) -> Vec<TensorId> {
        let moved = || self.program.moved().filter(|&id| !self.graph.tensor(id).is_pass_by_value);
        let size = |id| elements(self.graph.tensor(id));
        let largest = moved().map(size).max().unwrap_or(1);
        moved().filter(|&id| size(id) == largest).collect()
    }

    fn coordinates(&self) -> &[Coordinate] {
        &self.problem.operands[self.slot]
    }

    /// Axes with more than one coordinate, or with padding, one axis of the sweep each; `last` comes last.
    fn space(&self, last: Option<usize>) -> (IterationSpace, Vec<Coordinate>) {
        let dim = &self.graph.tensor(self.tensor).dim;
        let counts = |&axis: &usize| dim[axis] > 1 || self.coordinates()[axis].bound.is_some();
        let mut axes: Vec<usize> = (0..dim.len()).filter(counts).filter(|&axis| Some(axis) != last).collect();
        axes.extend(last);
        if axes.is_empty() {
            axes.push(0);
        }
        let tensors: Vec<TensorId> =
            self.program.moved().filter(|&id| !self.graph.tensor(id).is_pass_by_value).collect();
        let axis = |&axis: &usize| Axis {
            extent: dim[axis].into(),
            reduced: false,
            graph_axes: vec![axis],
            strides: tensors.iter().map(|&id| (id, self.stride(id, axis))).collect(),
            accumulators: 0.into(),
        };
        let space = IterationSpace { axes: axes.iter().map(axis).collect() };
        (space, axes.into_iter().map(|axis| self.coordinates()[axis].clone()).collect())
    }

    /// Elements from one coordinate of an axis to the next, which launches tell where they tell extents of C.
    fn stride(&self, id: TensorId, axis: usize) -> Number {
        let value = step(self.graph.tensor(id), axis);
        let space = &self.problem.space;
        match space.m.iter().chain(&space.k).any(|digit| digit.extent.is_told()) {
            true => Number::told(value, Told::Stride(id.index(), axis)),
            false => value.into(),
        }
    }

    /// The axis along which the first of the largest tensors is contiguous.
    fn contiguous_axis(&self) -> Option<usize> {
        let tensor = self.graph.tensor(*self.streams().first()?);
        let axes = (0..tensor.dim.len()).filter(|&axis| tensor.dim[axis] > 1);
        axes.min_by_key(|&axis| tensor.stride[axis])
    }

    /// The contiguous axis, if its coordinate counts up with the innermost digit of an index of this operand.
    fn vector_axis(&self) -> Option<usize> {
        let axis = self.contiguous_axis()?;
        let coordinate = &self.coordinates()[axis];
        let (quantity, scale) = coordinate.terms.last()?;
        let counts_up =
            *scale == 1 && coordinate.divisor == 1 && coordinate.bound.is_none() && coordinate.constant == 0;
        let space = &self.problem.space;
        let outer = if self.slot == 0 { &space.m } else { &space.n };
        let innermost =
            [&space.k, outer].into_iter().any(|digits| digits.last().is_some_and(|d| d.quantity == *quantity));
        (counts_up && innermost).then_some(axis)
    }

    /// Extent of the digit that an axis ends with: a vector must not cross into the next group.
    fn digit_extent(&self, axis: usize) -> Option<i64> {
        let (quantity, _) = self.coordinates()[axis].terms.last()?;
        let space = &self.problem.space;
        let digits = [&space.m, &space.n, &space.k].into_iter().flatten();
        digits.into_iter().find(|digit| digit.quantity == *quantity).map(|digit| digit.extent.value())
    }

    /// Whether some digit of k moves along an axis.
    fn runs_along_k(&self, axis: usize) -> bool {
        let terms = &self.coordinates()[axis].terms;
        let k = &self.problem.space.k;
        terms.last().is_some_and(|term| k.iter().any(|digit| digit.quantity == term.0))
    }
}
