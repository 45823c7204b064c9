//! The operands of a matrix product: how their elements, with the mainloop stage, come to shared memory.

use super::problem::Problem;
use super::sweep::{Width, elements, is_vectorizable, over};
use super::tensor_map::{boxed, raw_map};
use crate::fusion::{Fusion, Stage};
use crate::graph::{DataType, FinalizedGraph, TensorId};
use crate::kernel::{
    Access, Axis, Coordinate, Fetch, GemmTile, IterationSpace, MmaType, Multiply, Operand, StageProgram, Step, Value,
    step,
};

/// Bytes of one access.
const ACCESS_BYTES: i64 = 16;

/// Smallest access of `cp.async`, in bytes.
const ASYNC_BYTES: i64 = 4;

/// Plans operand `slot` (0 is A, 1 is B).
pub(super) fn operand(fusion: &Fusion, problem: &Problem, slot: usize, multiply: &Multiply, tile: GemmTile) -> Operand {
    let graph = fusion.graph();
    let of_core = problem.core_slot(slot);
    let tensor = fusion.core_operands().expect("a product has operands")[of_core];
    let program = program(fusion, tensor, fusion.operand_stages()[of_core]);
    let planner = Planner { graph, problem, slot, tensor, program: &program };
    planner.plan(multiply, tile)
}

/// How each operand of a product comes to shared memory.
pub(in crate::engine) fn fetches(fusion: &Fusion, problem: &Problem, multiply: &Multiply) -> [Fetch; 2] {
    let k = match multiply {
        Multiply::Wgmma { operand, .. } => 128 / operand.bytes(),
        _ => 64,
    };
    [0, 1].map(|slot| operand(fusion, problem, slot, multiply, GemmTile { m: 64, n: 64, k }).fetch)
}

/// Bytes of a stage for what is transformed on its way to the tiles of A and B.
pub(in crate::engine) fn raw_bytes(fusion: &Fusion, problem: &Problem, multiply: &Multiply, tile: GemmTile) -> u32 {
    let Multiply::Wgmma { operand: mma, .. } = *multiply else { return 0 };
    let rows = [tile.m, tile.n];
    [0, 1].map(|slot| operand(fusion, problem, slot, multiply, tile).raw_bytes(rows[slot], mma.bytes())).iter().sum()
}

/// Why the tensor memory accelerator does not bring operand `slot` of a product to shared memory as it is stored, turned or
/// not; `None` if it does.
pub(in crate::engine) fn why_not_boxed(
    fusion: &Fusion,
    problem: &Problem,
    slot: usize,
    operand: MmaType,
) -> Option<String> {
    let graph = fusion.graph();
    let tensor = fusion.core_operands()?[problem.core_slot(slot)];
    let named = graph.describe_tensor(tensor);
    if graph.producer(tensor).is_some() {
        return Some(format!("operand {named} is computed in a mainloop stage"));
    }
    let tile = GemmTile { m: 64, n: 64, k: 128 / operand.bytes() };
    boxed(graph, problem, slot, tensor, operand, tile).err().map(|why| format!("operand {named}: {why}"))
}

/// Which operands are evaluated a vector at a time in registers, held there while a tile is multiplied.
pub(in crate::engine) fn operands_in_registers(fusion: &Fusion, multiply: &Multiply) -> [bool; 2] {
    let problem = Problem::of(fusion).expect("the fusion has a core");
    fetches(fusion, &problem, multiply).map(|fetch| fetch == Fetch::Vector)
}

fn program(fusion: &Fusion, tensor: TensorId, stage: Stage) -> StageProgram {
    let graph = fusion.graph();
    match graph.producer(tensor) {
        Some(_) => StageProgram::of(graph, fusion.operations(stage), None).needed_for([tensor].into_iter()),
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
    fn plan(&self, multiply: &Multiply, tile: GemmTile) -> Operand {
        if let Multiply::Wgmma { operand, .. } = *multiply
            && let Some(boxed) = self.boxed(operand, tile)
        {
            return boxed;
        }
        if let Multiply::Mma { operand, .. } | Multiply::Wgmma { operand, .. } = *multiply {
            let fetch = if self.is_plain(operand) && matches!(multiply, Multiply::Mma { .. }) {
                Fetch::Async
            } else {
                Fetch::Vector
            };
            let vectors = self.vector_axis().and_then(|axis| self.vectors(axis, operand, fetch));
            if let Some(planned) = vectors {
                return match multiply {
                    Multiply::Wgmma { .. } => self.in_fragments(self.transformed(planned, operand, tile), operand),
                    _ => planned,
                };
            }
        }
        let last = self.contiguous_axis();
        let (space, coordinates) = self.space(last);
        let along_k = last.is_some_and(|axis| self.runs_along_k(axis));
        self.operand(space, coordinates, Fetch::Element, 1, along_k)
    }

    /// The operand as it is, if the tensor memory accelerator takes it.
    fn boxed(&self, operand: MmaType, tile: GemmTile) -> Option<Operand> {
        if self.graph.producer(self.tensor).is_some() {
            return None;
        }
        let (fetch, along_k) = boxed(self.graph, self.problem, self.slot, self.tensor, operand, tile).ok()?;
        let (space, coordinates) = self.space(None);
        Some(self.operand(space, coordinates, fetch, 1, along_k))
    }

    /// Lets the one large tensor of the stage come in boxes, if it can: where every point is computed from the tensors'
    /// elements at that point.
    fn transformed(&self, planned: Operand, operand: MmaType, tile: GemmTile) -> Operand {
        let stream = match self.streams()[..] {
            [stream] if planned.sweep.access.get(&stream) == Some(&Access::Vector) => stream,
            _ => return planned,
        };
        let is_pointwise = |step: &Step| matches!(step.value, Value::Load | Value::Pointwise { .. });
        if !self.program.steps.iter().all(is_pointwise) {
            return planned;
        }
        let has_operand_dims = self.graph.tensor(stream).dim == self.graph.tensor(self.tensor).dim;
        match raw_map(self.graph, self.problem, self.slot, stream, operand, tile, planned.along_k) {
            Some(map) if has_operand_dims => Operand { fetch: Fetch::Transformed(map), ..planned },
            _ => planned,
        }
    }

    /// Lets the warps that multiply evaluate the stage of A: `wgmma` takes fragments of A from registers, and a pair of 16-bit
    /// elements along k is a register of a fragment.
    fn in_fragments(&self, planned: Operand, operand: MmaType) -> Operand {
        match planned.fetch {
            Fetch::Transformed(map) if self.slot == 0 && planned.along_k && operand.bytes() == 2 => {
                self.operand(planned.sweep.space, planned.coordinates, Fetch::Fragments(map), 2, true)
            }
            _ => planned,
        }
    }

    fn operand(
        &self,
        space: IterationSpace,
        coordinates: Vec<Coordinate>,
        fetch: Fetch,
        vector: i64,
        along_k: bool,
    ) -> Operand {
        let width = Width { vector, ragged: false };
        let sweep = over(self.graph, space, self.program.clone(), Vec::new(), width);
        Operand { tensor: self.tensor, sweep, coordinates, fetch, along_k }
    }

    /// Vectors along a graph axis, if every large tensor allows them and each starts at a multiple of its length: the
    /// coordinate's other digits (of a window, of groups) must step by multiples, too. What `mma` reads with m or n
    /// contiguous has to have 16 bits (`ldmatrix.trans`).
    fn vectors(&self, axis: usize, mma: MmaType, fetch: Fetch) -> Option<Operand> {
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
        Some(self.operand(space, coordinates, fetch, vector, along_k))
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
            extent: dim[axis],
            reduced: false,
            graph_axes: vec![axis],
            strides: tensors.iter().map(|&id| (id, step(self.graph.tensor(id), axis))).collect(),
            accumulators: 0,
        };
        let space = IterationSpace { axes: axes.iter().map(axis).collect() };
        (space, axes.into_iter().map(|axis| self.coordinates()[axis].clone()).collect())
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
        let (name, scale) = coordinate.terms.last()?;
        let counts_up =
            *scale == 1 && coordinate.divisor == 1 && coordinate.bound.is_none() && coordinate.constant == 0;
        let space = &self.problem.space;
        let outer = if self.slot == 0 { &space.m } else { &space.n };
        let innermost = [&space.k, outer].into_iter().any(|digits| digits.last().is_some_and(|d| d.name == *name));
        (counts_up && innermost).then_some(axis)
    }

    /// Extent of the digit that an axis ends with: a vector must not cross into the next group.
    fn digit_extent(&self, axis: usize) -> Option<i64> {
        let (name, _) = self.coordinates()[axis].terms.last()?;
        let space = &self.problem.space;
        let digits = [&space.m, &space.n, &space.k].into_iter().flatten();
        digits.into_iter().find(|digit| digit.name == *name).map(|digit| digit.extent)
    }

    /// Whether some digit of k moves along an axis.
    fn runs_along_k(&self, axis: usize) -> bool {
        let terms = &self.coordinates()[axis].terms;
        let k = &self.problem.space.k;
        terms.last().is_some_and(|term| k.iter().any(|digit| digit.name == term.0))
    }
}
