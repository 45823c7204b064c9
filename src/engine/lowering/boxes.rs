//! The epilogue's tensors as boxes of a warp's rows, brought and taken by the tensor memory accelerator.

use super::epilogue::{EpilogueOutputs, EpilogueSplit, along_n, core_result, epilogue_program, partial};
use super::problem::Problem;
use super::tensor_map::{UNIT, box_swizzle, byte_stride};
use crate::fusion::Fusion;
use crate::graph::{DataType, FinalTensor, FinalizedGraph, TensorId};
use crate::kernel::{Boxes, GemmTile, MapElement, PartialReduction, StageProgram, Swizzle, TensorMap, Value};

/// Bytes of a box's rows: one swizzled row.
const ROW_BYTES: [u32; 3] = [128, 64, 32];

/// The boxes of an epilogue that is evaluated where accumulators are, in tiles of this size; `None` where some result
/// cannot be stored in boxes, or something else than values at C's points is asked for.
pub(in crate::engine) fn epilogue_boxes(fusion: &Fusion, problem: &Problem, tile: GemmTile) -> Option<Boxes> {
    let graph = fusion.graph();
    let operations = EpilogueSplit::new(fusion).fused;
    let outputs = EpilogueOutputs::new(fusion, &operations);
    let program = epilogue_program(fusion, &operations, &outputs);
    let is_pointwise = |value: &Value| matches!(value, Value::Load | Value::Accumulator | Value::Pointwise { .. });
    let reductions: Option<Vec<PartialReduction>> =
        outputs.accumulations.iter().map(|&accumulation| partial(graph, problem, accumulation, tile)).collect();
    let keeps_columns = |reduction: &PartialReduction| !reduction.reduced[2];
    let dim = &graph.tensor(core_result(fusion)).dim;
    let sources = outputs.accumulations.iter().map(|accumulation| accumulation.source);
    let mut computed = outputs.stores.iter().copied().chain(sources);
    if !along_n(graph, problem, &outputs.stores, core_result(fusion))
        || outputs.stores.is_empty()
        || !computed.all(|id| graph.tensor(id).dim == *dim)
        || !program.steps.iter().all(|step| is_pointwise(&step.value))
        || reductions.is_none_or(|reductions| reductions.iter().any(keeps_columns))
    {
        return None;
    }
    let planner = Planner { graph, problem, program: &program };
    planner.boxes(&outputs.stores, tile)
}

struct Planner<'a> {
    graph: &'a FinalizedGraph,
    problem: &'a Problem,
    program: &'a StageProgram,
}

impl Planner<'_> {
    /// Boxes of as many columns as the widest elements let fit into a swizzled row.
    fn boxes(&self, stores: &[TensorId], tile: GemmTile) -> Option<Boxes> {
        let read: Vec<TensorId> = self.program.loads().filter(|&id| self.is_streamed(id)).collect();
        let widest = stores.iter().chain(&read).map(|&id| self.bytes(id)).collect::<Option<Vec<u32>>>()?;
        let widest = widest.into_iter().max()?;
        let fits = |columns: &u32| tile.n.is_multiple_of(*columns);
        let columns = ROW_BYTES.map(|row| row / widest).into_iter().filter(|columns| *columns >= 16).find(fits)?;
        let maps = |ids: &[TensorId], rows: &dyn Fn(TensorId) -> u32| -> Option<Vec<TensorMap>> {
            ids.iter().map(|&id| self.map(id, columns, rows(id))).collect()
        };
        let ends_whole = |id: &TensorId| self.ends_whole(*id);
        let stored = maps(stores, &|_| Boxes::ROWS).filter(|_| stores.iter().all(ends_whole))?;
        Some(Boxes { columns, read: maps(&read, &|id| self.rows(id))?, stored })
    }

    fn bytes(&self, id: TensorId) -> Option<u32> {
        element(self.graph.tensor(id).data_type).map(MapElement::bytes)
    }

    /// Whether a tensor that is read has elements for the columns of C, and boxes of them.
    fn is_streamed(&self, id: TensorId) -> bool {
        let tensor = self.graph.tensor(id);
        let [.., n] = self.axes();
        let whole = !tensor.is_pass_by_value && tensor.dim.len() == self.problem.result.len();
        whole && tensor.dim[n] > 1 && self.map(id, 32, self.rows(id)).is_some()
    }

    /// Graph axes of b, m and n.
    fn axes(&self) -> [usize; 3] {
        let axis = |name| self.problem.result.iter().position(|coordinate| coordinate.name == name);
        ["b", "m", "n"].map(|name| axis(name).expect("a matmul's result has these coordinates"))
    }

    /// The TMA ends rows that it stores at a multiple of 16 bytes, not where the tensor ends.
    fn ends_whole(&self, id: TensorId) -> bool {
        let tensor = self.graph.tensor(id);
        let [.., n] = self.axes();
        tensor.dim[n] * tensor.data_type.bytes() as i64 % UNIT == 0
    }

    /// Rows of a box that is read: of a tensor with one row, that row.
    fn rows(&self, id: TensorId) -> u32 {
        let [_, m, _] = self.axes();
        if self.graph.tensor(id).dim[m] > 1 { Boxes::ROWS } else { 1 }
    }

    /// Boxes of so many rows of a tensor over C's points: `[n, m, batch]`.
    fn map(&self, id: TensorId, columns: u32, rows: u32) -> Option<TensorMap> {
        let tensor = self.graph.tensor(id);
        let element = element(tensor.data_type)?;
        let [batch, m, n] = self.axes();
        let row_bytes = columns * element.bytes();
        if tensor.alignment % UNIT != 0 || !is_contiguous(tensor, n) || row_bytes < UNIT as u32 {
            return None;
        }
        let swizzle = if rows > 1 { box_swizzle(row_bytes) } else { Swizzle::None };
        let rank = if tensor.dim[batch] > 1 { 3 } else { 2 };
        let mut map = TensorMap {
            tensor: id,
            element,
            rank,
            dims: [0; 5],
            strides: [0; 4],
            box_dims: [columns, rows, u32::from(rank == 3), 0, 0],
            swizzle,
        };
        for (at, axis) in [n, m, batch].into_iter().enumerate().take(rank) {
            map.dims[at] = tensor.dim[axis] as u64;
            if at > 0 {
                map.strides[at - 1] = byte_stride(tensor, axis, element.bytes().into()).ok()?;
            }
        }
        Some(map)
    }
}

fn is_contiguous(tensor: &FinalTensor, axis: usize) -> bool {
    tensor.stride[axis] == 1
}

/// Elements as they are moved: bit by bit.
fn element(data_type: DataType) -> Option<MapElement> {
    match data_type.bytes() {
        _ if data_type == DataType::Boolean => None,
        1 => Some(MapElement::Byte),
        2 if data_type == DataType::Half => Some(MapElement::Half),
        2 => Some(MapElement::BFloat16),
        4 => Some(MapElement::Float),
        _ => None,
    }
}
