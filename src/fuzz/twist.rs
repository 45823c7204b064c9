//! Edits that may break any rule, or the graph.

use super::choices::Choices;
use crate::graph::{Attributes, DataType, Graph, Operation, Other, PointwiseMode, Port, Tensor, TensorHandle};

/// Types that some surface does not take somewhere.
const TYPES: &[DataType] = &[
    DataType::Half,
    DataType::Float,
    DataType::BFloat16,
    DataType::Int8,
    DataType::Int32,
    DataType::Boolean,
    DataType::Fp8E5M2,
    DataType::Int64,
    DataType::Double,
    DataType::UInt8,
];

/// Makes one edit somewhere.
pub(super) fn twist(choices: &mut Choices<'_>, graph: &mut Graph) {
    match choices.below(12) {
        0 => tensor(graph, choices, |tensor, choices| tensor.data_type = Some(choices.of(TYPES))),
        1 => tensor(graph, choices, |tensor, choices| tensor.alignment = choices.of(&[1, 2, 4, 8, 64])),
        2 => axis(graph, choices, |dim, choices| *dim = choices.of(&[1, 2, *dim + 1, *dim * 2])),
        3 => stride(graph, choices),
        4 => tensor(graph, choices, |tensor, _| tensor.is_virtual = !tensor.is_virtual),
        5 => operation_type(graph, choices),
        6 => attributes(graph, choices),
        7 => rewire(graph, choices),
        8 => after_all(graph, choices),
        9 => in_place(graph, choices),
        10 => carried(graph, choices),
        _ => swap(graph, choices),
    }
}

fn tensor(graph: &mut Graph, choices: &mut Choices<'_>, edit: impl FnOnce(&mut Tensor, &mut Choices<'_>)) {
    if let Some(id) = any_tensor(graph, choices) {
        edit(graph.tensor_mut(id), choices);
    }
}

fn any_tensor(graph: &Graph, choices: &mut Choices<'_>) -> Option<TensorHandle> {
    let index = choices.index_of(graph.tensors())?;
    graph.tensor_ids().nth(index)
}

/// One extent of one tensor.
fn axis(graph: &mut Graph, choices: &mut Choices<'_>, edit: impl FnOnce(&mut i64, &mut Choices<'_>)) {
    tensor(graph, choices, |tensor, choices| {
        if let Some(axis) = choices.index_of(&tensor.dim) {
            edit(&mut tensor.dim[axis], choices);
        }
    });
}

/// One stride of one tensor: broadcast, overlapping, doubled, huge.
fn stride(graph: &mut Graph, choices: &mut Choices<'_>) {
    tensor(graph, choices, |tensor, choices| {
        if let Some(axis) = choices.index_of(&tensor.stride) {
            let stride = tensor.stride[axis];
            tensor.stride[axis] = choices.of(&[stride * 2, stride + 1, 1, 0, 1 << 40]);
        }
    });
}

/// What an operation is computed in.
fn operation_type(graph: &mut Graph, choices: &mut Choices<'_>) {
    let types = [DataType::Half, DataType::Int32, DataType::Float, DataType::Double, DataType::Boolean];
    operation(graph, choices, |operation, choices| operation.compute_data_type = Some(choices.of(&types)));
}

fn operation(
    graph: &mut Graph,
    choices: &mut Choices<'_>,
    edit: impl FnOnce(&mut Operation<TensorHandle>, &mut Choices<'_>),
) {
    if let Some(index) = choices.index_of(&graph.operations) {
        edit(&mut graph.operations[index], choices);
    }
}

fn attributes(graph: &mut Graph, choices: &mut Choices<'_>) {
    operation(graph, choices, |operation, choices| match &mut operation.attributes {
        Attributes::Pointwise(pointwise) if choices.chance(50) => pointwise.alpha1 = 0.5,
        Attributes::Pointwise(pointwise) => pointwise.mode = choices.of(PointwiseMode::ALL),
        Attributes::Convolution(convolution) => match choices.below(4) {
            0 => convolution.stride[0] = 3,
            1 => convolution.dilation[0] = 4,
            2 => convolution.pre_padding[0] += 1,
            _ => convolution.alpha = 2.0,
        },
        Attributes::Reduction(reduction) => reduction.is_deterministic = true,
        _ => {}
    });
}

/// An operand becomes another tensor of the graph; this may make a cycle.
fn rewire(graph: &mut Graph, choices: &mut Choices<'_>) {
    let other = any_tensor(graph, choices);
    operation(graph, choices, |operation, choices| {
        if let (Some(slot), Some(other)) = (choices.index_of(&operation.inputs), other) {
            operation.inputs[slot].1 = other;
        }
    });
}

/// One more operation on any tensor of the graph, which may be a reduction's result.
fn after_all(graph: &mut Graph, choices: &mut Choices<'_>) {
    if let Some(x) = any_tensor(graph, choices) {
        let y = graph.pointwise("late", PointwiseMode::Neg, &[x]);
        graph.set_output(y).data_type = Some(DataType::Float);
    }
}

/// An operation writes the tensor that it reads.
fn in_place(graph: &mut Graph, choices: &mut Choices<'_>) {
    operation(graph, choices, |operation, choices| {
        if let (Some(slot), Some(output)) = (choices.index_of(&operation.inputs), operation.outputs.first_mut()) {
            output.1 = operation.inputs[slot].1;
        }
    });
}

/// An operation that nothing computes, behind any tensor.
fn carried(graph: &mut Graph, choices: &mut Choices<'_>) {
    if let Some(x) = any_tensor(graph, choices) {
        view(graph, x);
    }
}

/// Adds an operation that files may hold and that nothing computes, on a tensor; its result is stored.
pub(super) fn view(graph: &mut Graph, x: TensorHandle) {
    let y = Tensor { name: "view".to_owned(), uid: None, is_virtual: false, ..graph.tensors()[x.index()].clone() };
    let y = graph.tensor(y);
    graph.operation(Operation {
        name: "view".to_owned(),
        attributes: Attributes::Other(Other { tag: "RESHAPE", attributes: Default::default() }),
        compute_data_type: None,
        inputs: vec![(Port::X, x)],
        outputs: vec![(Port::Y, y)],
    });
}

/// Exchanges the first two operands of an operation.
fn swap(graph: &mut Graph, choices: &mut Choices<'_>) {
    operation(graph, choices, |operation, _| {
        if let [first, second, ..] = &mut operation.inputs[..] {
            std::mem::swap(&mut first.1, &mut second.1);
        }
    });
}
