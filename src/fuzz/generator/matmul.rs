//! g2(Matmul(g1A(inputs), g1B(inputs)), inputs).

use super::super::choices::Choices;
use super::layout::{Order, aligned_extent, extent, tensor};
use super::movement;
use super::stage::{Frame, Stage};
use super::{alignment, core_types, epilogue_types};
use crate::graph::{DataType, Graph, PointwiseMode, TensorHandle};
use crate::support::SurfaceId;

/// Shapes of side inputs: any axes are kept (`S90-MM-G2-DIMS`), or the batch with others (`S70-MM-G2-DIMS`).
const ANY_SIDES: &[&[bool]] = &[
    &[true, true, true],
    &[false, false, true],
    &[false, true, false],
    &[true, false, true],
    &[true, true, false],
    &[false, false, false],
    &[false, true, true],
    &[true, false, false],
];
const BATCHED_SIDES: &[&[bool]] = &[&[true, true, true], &[true, false, true], &[true, true, false], &[false; 3]];

/// Parts of the graphs that have a stage before A or B, one operand of another type, an epilogue, a reduction; percent.
const MAINLOOP: usize = 25;
const MIXED: usize = 15;
const EPILOGUE: usize = 85;
const REDUCTION: usize = 25;

/// Part of the graphs for surface 70 that end with a signal, in percent.
const SIGNALLED: usize = 6;

/// Part of the graphs whose k is longer than any ring of stages, in percent.
const LONG: usize = 8;

/// Bytes of k in the longest ring of any engine: 12 stages of 128.
const RING: i64 = 12 * 128;

/// Part of the tensors between operations that become outputs, in percent.
const SECOND_OUTPUT: usize = 20;

pub(super) fn graph(choices: &mut Choices<'_>, aim: SurfaceId) -> Graph {
    let (operand, compute, result) = choices.of(core_types(aim));
    let mut graph =
        Graph::new().io_data_type(operand).compute_data_type(DataType::Float).intermediate_data_type(result);
    let unit = (alignment(aim) / operand.bytes() as i64).max(1);
    let is_long = choices.chance(LONG);
    let batch = if is_long { 1 } else { choices.of(&[1, 1, 2, 3]) };
    let [m, n, k] = match is_long {
        true => long_extents(choices, operand, unit),
        false => [extent(choices), aligned_extent(choices, unit), aligned_extent(choices, unit)],
    };
    let m = if choices.chance(30) { (m + unit - 1) / unit * unit } else { m };
    let has_columns = if operand == DataType::Int8 && aim == SurfaceId::S70 { [8, 85] } else { [30, 50] };
    let a_order = if m % unit == 0 && choices.chance(has_columns[0]) { Order::ColumnMajor } else { Order::RowMajor };
    let b_order = if choices.chance(has_columns[1]) { Order::ColumnMajor } else { Order::RowMajor };
    let mut side = |choices: &mut Choices<'_>, name: &str, dim: [i64; 2], order| {
        let batch = if choices.chance(if aim == SurfaceId::S70 { 4 } else { 15 }) { 1 } else { batch };
        side(&mut graph, choices, aim, operand, name, [batch, dim[0], dim[1]], order)
    };
    let a = side(choices, "A", [m, k], a_order);
    let b = side(choices, "B", [k, n], b_order);
    let c = graph.matmul("matmul", a, b);
    graph.tensor_mut(c).data_type = Some(result);
    graph.last_operation().compute_data_type = Some(compute);
    epilogue(&mut graph, choices, aim, c, [batch, m, n]);
    graph
}

/// Few rows and columns, and a k that takes every stage of a ring more than once.
fn long_extents(choices: &mut Choices<'_>, operand: DataType, unit: i64) -> [i64; 3] {
    let ring = RING / operand.bytes() as i64;
    let k = ring + unit * choices.of(&[1, 4, 9, 11]);
    [choices.of(&[8, 16, 1, 7, 17]), choices.of(&[8, 16]).max(unit), k]
}

/// An operand: a tensor in memory, sometimes of another type, sometimes behind a stage.
fn side(
    graph: &mut Graph,
    choices: &mut Choices<'_>,
    aim: SurfaceId,
    operand: DataType,
    name: &str,
    dim: [i64; 3],
    order: Order,
) -> TensorHandle {
    let has_stages = aim != SurfaceId::S70;
    let mixed = has_stages && operand.is_floating() && choices.chance(MIXED);
    let stored = if mixed { choices.of(&[DataType::Int8, DataType::Half, DataType::Fp8E4M3]) } else { operand };
    let input = match has_stages {
        true => graph.tensor(tensor(choices, name, stored, &dim, order)),
        false => movement::operand(graph, choices, name, stored, &dim, order),
    };
    let mut value = input;
    if stored != operand {
        value = graph.pointwise(&format!("{name}_cast"), PointwiseMode::Identity, &[input]);
        graph.tensor_mut(value).data_type = Some(operand);
    }
    // surface 70: on A alone, in HALF (`S70-MM-G1B-NONE`, `S70-MM-G1-A-HALF`)
    let takes_stage = has_stages || (name == "A" && operand == DataType::Half);
    if takes_stage && choices.chance(MAINLOOP) {
        let frame = Frame {
            name: if name == "A" { "g1a" } else { "g1b" },
            full: dim.to_vec(),
            sides: if has_stages { ANY_SIDES } else { BATCHED_SIDES },
            order,
            side_types: &[operand],
            virtual_types: &[operand],
            compute_types: &[DataType::Float],
        };
        let operations = 1 + choices.below(3);
        let mut stage = Stage::new(graph, choices, frame, Some(value));
        stage.grow(operations);
        value = stage.last();
    }
    value
}

/// g2 on C, and at least one output.
fn epilogue(graph: &mut Graph, choices: &mut Choices<'_>, aim: SurfaceId, c: TensorHandle, full: [i64; 3]) {
    let [side_types, virtual_types, compute_types, output_types] = epilogue_types(aim);
    let sides = if aim == SurfaceId::S70 { BATCHED_SIDES } else { ANY_SIDES };
    let operations = if choices.chance(EPILOGUE) { 1 + choices.below(5) } else { 0 };
    let reduces = choices.chance(REDUCTION);
    let order = if !reduces && choices.chance(20) { Order::ColumnMajor } else { Order::RowMajor };
    let frame = Frame { name: "g2", full: full.to_vec(), sides, order, side_types, virtual_types, compute_types };
    let mut stage = Stage::new(graph, choices, frame, Some(c));
    stage.grow(operations);
    if reduces {
        stage.reduce(sides);
    }
    finish(&mut stage, reduces, output_types);
    if aim == SurfaceId::S70 && !reduces && stage.choices.chance(SIGNALLED) {
        stage.signal();
    }
}

/// Makes outputs of the last value, unless a reduction reads it, and of some before.
pub(super) fn finish(stage: &mut Stage<'_, '_>, reduces: bool, output_types: &[DataType]) {
    let last = stage.last();
    if !reduces || stage.choices.chance(60) {
        stage.output(last, output_types);
    }
    for value in stage.values.clone() {
        if value != last && stage.choices.chance(SECOND_OUTPUT) && stage.graph.tensors()[value.index()].is_virtual {
            stage.output(value, output_types);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::device::{ComputeCapability, Device};
    use crate::engine::{Knob, select};

    #[test]
    fn no_engine_has_a_longer_ring() {
        let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
        let a = graph.tensor(crate::graph::Tensor::new("a").row_major([1, 512, 4096]));
        let b = graph.tensor(crate::graph::Tensor::new("b").row_major([1, 4096, 512]));
        let c = graph.matmul("matmul", a, b);
        graph.set_output(c);
        let graph = Arc::new(graph.finalize().unwrap());
        let mut longest = 0;
        for capability in [ComputeCapability::SM_90, ComputeCapability::new(8, 0), ComputeCapability::new(7, 0)] {
            let configs = select(&graph, capability).unwrap().candidates(&Device::typical(capability));
            longest = configs.iter().map(|ranked| ranked.config.knob(Knob::Stages, 1)).fold(longest, u32::max);
        }
        assert_eq!(i64::from(longest) * 128, RING);
    }
}
