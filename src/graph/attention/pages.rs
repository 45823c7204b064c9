//! Keys and values in pages (AT-O17): an operation for each that loads the rows of sequences, by which the products know nothing of pages.

use super::super::draft::Draft;
use super::super::{Attributes, Composite, DEFAULT_ALIGNMENT, Operation, PagedCacheLoad, Port, Tensor, TensorId};
use super::{BIAS, K, Lowering, V, add, is_turned};

/// Rows of a sequence at most, where keys and values are both in pages.
pub(super) const MOST_ROWS: &str = "max_seq_len_kv";

/// The table of keys, or of values, where they are in pages.
pub(in crate::graph) fn table(node: &Operation, port: Port) -> Option<TensorId> {
    node.input(if port == K { Port::PAGE_TABLE_K } else { Port::PAGE_TABLE_V })
}

/// Rows of keys and values (AT-O18): what the node says, else what the one has that is in no pages, else the columns of what goes with the
/// scores, else what both tables have entries for. `None` where extents are missing.
pub(in crate::graph) fn key_rows<'a>(node: &Operation, tensor: impl Fn(Port) -> Option<&'a Tensor>) -> Option<i64> {
    let extent = |port: Port, axis: usize| tensor(port).filter(|tensor| tensor.dim.len() == 4).map(|it| it.dim[axis]);
    let of_plain = |port: Port| {
        let is_turned = is_turned(&tensor(port)?.stride);
        extent(port, if is_turned { 3 } else { 2 })
    };
    let of_table = |table: Port, container: Port| Some(extent(table, 2)?.saturating_mul(extent(container, 2)?));
    let said = match &node.attributes {
        Attributes::Other(other) => other.attributes.get(MOST_ROWS).and_then(serde_json::Value::as_i64),
        _ => None,
    };
    if said.is_some() && (table(node, K).is_some() || table(node, V).is_some()) {
        return said;
    }
    if let Some(plain) = [K, V].into_iter().find(|&port| table(node, port).is_none()) {
        return of_plain(plain);
    }
    let columns = extent(BIAS, 3).filter(|&columns| columns > 1).or_else(|| extent(Port::RNG_DUMP, 3));
    columns.or_else(|| Some(of_table(Port::PAGE_TABLE_K, K)?.min(of_table(Port::PAGE_TABLE_V, V)?)))
}

/// Rows of keys of a complete node.
pub(super) fn rows_of(draft: &Draft, node: &Operation) -> i64 {
    let tensor = |port| node.input(port).or_else(|| node.output(port)).map(|id| draft.tensor(id));
    key_rows(node, tensor).expect("a complete node")
}

/// K or V as it is multiplied, where it is in pages: the result of an operation that loads it.
pub(super) fn loaded(lowering: &mut Lowering, port: Port) -> Option<TensorId> {
    let node = lowering.node;
    let (table, container) = (table(node, port)?, node.input(port)?);
    let lengths = node.input(Port::SEQ_LEN_KV)?;
    let of_container = lowering.draft.tensor(container).clone();
    let [batches, rows] = [lowering.scores[0], lowering.scores[3]];
    let (heads, size) = (of_container.dim[1], of_container.dim[3]);
    let is_turned = port == K;
    let dim = if is_turned { [batches, heads, size, rows] } else { [batches, heads, rows, size] };
    let y = Tensor {
        data_type: of_container.data_type,
        stride: PagedCacheLoad::strides(&dim, is_turned),
        is_virtual: true,
        alignment: DEFAULT_ALIGNMENT,
        ..Tensor::new(format!("{}::{port}", node.name)).dim(dim)
    };
    let y = add(lowering.draft, y);
    let inputs = vec![(Port::CONTAINER, container), (Port::SEQ_LEN, lengths), (Port::PAGE_TABLE, table)];
    let attributes = Attributes::Composite(Composite::PagedCacheLoad(PagedCacheLoad));
    lowering.push(&format!("load_{port}"), attributes, inputs, vec![(Port::Y_OUT, y)]);
    Some(y)
}
