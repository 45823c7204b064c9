//! Concatenations and signals.

use super::super::choices::Choices;
use super::layout::{Order, tensor};
use crate::graph::{Attributes, DataType, Graph, Operation, Port, Signal, SignalMode, Tensor, TensorHandle};

/// Part of the operands that are joined from parts, or waited for, in percent.
const JOINED: usize = 12;
const WAITED_FOR: usize = 6;

/// An operand in memory, sometimes joined from parts, or behind a signal that waits for it.
pub(super) fn operand(
    graph: &mut Graph,
    choices: &mut Choices<'_>,
    name: &str,
    data_type: DataType,
    dim: &[i64],
    order: Order,
) -> TensorHandle {
    let value = match choices.chance(JOINED) {
        true => joined(graph, choices, name, data_type, dim, order),
        false => graph.tensor(tensor(choices, name, data_type, dim, order)),
    };
    if !choices.chance(WAITED_FOR) {
        return value;
    }
    let y = Tensor::new(format!("{name}_ready")).data_type(data_type);
    let y = graph.tensor(Tensor { is_virtual: true, ..y });
    signal(graph, choices, SignalMode::Wait, value, y);
    y
}

/// A tensor in two or three parts along an axis that is long enough; whole where none is.
fn joined(
    graph: &mut Graph,
    choices: &mut Choices<'_>,
    name: &str,
    data_type: DataType,
    dim: &[i64],
    order: Order,
) -> TensorHandle {
    let axes: Vec<usize> = (0..dim.len()).filter(|&axis| dim[axis] >= 3).collect();
    let Some(axis) = choices.index_of(&axes).map(|index| axes[index]) else {
        return graph.tensor(tensor(choices, name, data_type, dim, order));
    };
    let extent = dim[axis];
    let lengths = choices.of(&[vec![extent / 2, extent - extent / 2], vec![1, extent - 1], vec![1, extent - 2, 1]]);
    let mut parts = Vec::new();
    for (number, length) in lengths.into_iter().enumerate() {
        let mut dim = dim.to_vec();
        dim[axis] = length;
        parts.push(graph.tensor(tensor(choices, &format!("{name}_{number}"), data_type, &dim, order)));
    }
    let joined = graph.concatenate(&format!("{name}_join"), axis as i64, &parts);
    graph.tensor_mut(joined).data_type = Some(data_type);
    joined
}

/// A signal on a flag of its own, from X to Y.
pub(super) fn signal(graph: &mut Graph, choices: &mut Choices<'_>, mode: SignalMode, x: TensorHandle, y: TensorHandle) {
    let number = graph.operations().len();
    let rank = graph.tensors()[y.index()].dim.len().max(graph.tensors()[x.index()].dim.len()).max(1);
    let data_type = choices.of(&[DataType::Int32, DataType::Int32, DataType::Int64, DataType::Int8]);
    let flag = Tensor::new(format!("flag_{number}")).row_major(vec![1; rank]).data_type(data_type);
    let flag = graph.tensor(flag);
    graph.operation(Operation {
        name: format!("signal_{number}"),
        attributes: Attributes::Signal(Signal { mode, value: choices.of(&[1, 0, 7, -3]) }),
        compute_data_type: None,
        inputs: vec![(Port::X, x), (Port::FLAG, flag)],
        outputs: vec![(Port::Y, y)],
    });
}
