//! Keys and values in pages.

use super::super::super::choices::Choices;
use crate::graph::{DataType, Graph, PagedCacheLoad, Port, Tensor, TensorHandle};

/// Part of the operands that are in pages, in percent.
const IN_PAGES: usize = 80;

/// Part of the tables whose entries of a sequence lie behind those of the one before, in percent.
const PACKED: usize = 25;

/// Puts K, turned, and V of a graph that has the product of K in pages; gives what is V then.
pub(super) fn load(
    graph: &mut Graph,
    choices: &mut Choices<'_>,
    [k, v]: [TensorHandle; 2],
    lengths: TensorHandle,
) -> TensorHandle {
    if choices.chance(IN_PAGES) {
        let loaded = operand(graph, choices, k, true, lengths);
        let mut inputs = graph.operations.iter_mut().flat_map(|operation| &mut operation.inputs);
        if let Some(slot) = inputs.find(|slot| slot.0 == Port::B && slot.1 == k) {
            slot.1 = loaded;
        }
    }
    if choices.chance(IN_PAGES) { operand(graph, choices, v, false, lengths) } else { v }
}

/// An operand loaded from the pages of a container, which becomes the tensor that it was.
fn operand(
    graph: &mut Graph,
    choices: &mut Choices<'_>,
    id: TensorHandle,
    is_turned: bool,
    lengths: TensorHandle,
) -> TensorHandle {
    let whole = graph.tensor_mut(id).clone();
    let [batches, heads, before, last] = [0, 1, 2, 3].map(|axis| whole.dim[axis]);
    let [rows, size] = if is_turned { [last, before] } else { [before, last] };
    // few other than powers of two, which no surface has
    let page = choices.of(&[16, 1, 64, 8, 128, 2, 32, 12, 5]);
    let entries = PagedCacheLoad::entries(rows, page);
    let count = choices.of(&[batches * entries, batches * entries + 3, 1, 2]);
    let container = Tensor { name: format!("{}_pages", whole.name), ..whole.clone() };
    let stride = match choices.chance(40) {
        true => [heads * page * size, size, heads * size, 1],
        false => [heads * page * size, page * size, size, 1],
    };
    *graph.tensor_mut(id) = container.dim([count, heads, page, size]).stride(stride);
    // entries of a sequence may lie apart
    let between = choices.of(&[1, 1, batches]);
    let stride = if between == 1 { [entries, entries, 1, 1] } else { [1, batches, batches, 1] };
    let table = Tensor::new(format!("{}_table", whole.name)).dim([batches, 1, entries, 1]).stride(stride);
    let table = graph.tensor(table.data_type(DataType::Int32));
    if between == 1 && choices.chance(PACKED) {
        let offsets = Tensor::new("offsets").row_major([batches + 1, 1, 1, 1]).data_type(DataType::Int64);
        let offsets = graph.tensor(offsets);
        graph.tensor_mut(table).ragged_offset = Some(offsets);
    }
    let inputs = [(Port::CONTAINER, id), (Port::SEQ_LEN, lengths), (Port::PAGE_TABLE, table)];
    let loaded = graph.composite("load", PagedCacheLoad, &inputs, &[Port::Y_OUT])[0];
    let data_type = whole.data_type.or(graph.io_data_type);
    let tensor = graph.tensor_mut(loaded);
    (tensor.dim, tensor.stride, tensor.data_type) = (whole.dim, whole.stride, data_type);
    loaded
}
