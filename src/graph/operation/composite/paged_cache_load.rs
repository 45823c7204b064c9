//! Keys or values in pages (descriptor 35 of the backend API; `docs/spec/attention.md` AT-O17, AT-P30).
//!
//! ```text
//! yOut[b, h, s, x] = container[pageTable[b, 0, s div B, 0], h, s mod B, x]        for s < seqLen[b]
//! ```
//!
//! The container is `[pages, h, B, x]`, B rows of each head to a page. What lies beyond a sequence, in the table and in its last page,
//! is not read, and may be anything; rows of Y beyond it are none. Keys come out as they are multiplied, `[b, h, x, s]`, where Y says so.

use super::{Definition, Expansion, KeptAttributes, Port};
use crate::graph::attention::is_turned;
use crate::graph::infer::{Layout, Node, Ports};
use crate::graph::{DataType, Malformed, PointwiseMode};

/// Loading rows out of pages has no attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PagedCacheLoad;

/// Axes of a container: pages, heads, rows of a page, elements.
const HEADS: usize = 1;
const ROWS: usize = 2;
const ELEMENTS: usize = 3;

impl PagedCacheLoad {
    /// Tag in graph files: that of the library's class, which it writes into no file.
    const TAG: &str = "PAGED_CACHE_LOAD";

    /// It has no attributes.
    pub(super) fn read(tag: &str, _attributes: &KeptAttributes) -> Option<Self> {
        (tag == Self::TAG).then_some(Self)
    }

    /// Whether the last two axes of Y are elements and rows, instead of rows and elements. Where extents do not tell, strides do: those of keys
    /// have 1 on the last axis but one (AT-P39).
    pub(crate) fn turns(container: &[i64], y: (&[i64], &[i64])) -> bool {
        let (&[.., size], (&[.., before, last], stride)) = (container, y) else { return false };
        last != size || (before == size && is_turned(stride))
    }

    /// Entries of a table for so many rows of a sequence.
    pub(crate) fn entries(rows: i64, page: i64) -> i64 {
        let page = page.max(1);
        rows.saturating_add(page - 1) / page
    }

    /// Strides by which a value says that it is turned, or not.
    pub(crate) fn strides(dim: &[i64], is_turned: bool) -> Vec<i64> {
        let &[_, heads, before, last] = dim else { return Vec::new() };
        let [row, element] = if is_turned { [1, before] } else { [last, 1] };
        let of_head = before.saturating_mul(last);
        vec![heads.saturating_mul(of_head), of_head, row, element]
    }

    /// Checks the container and the table at these ports, of so many batches with so many rows each (AT-E11).
    pub(in crate::graph) fn check_pages(
        node: &Node,
        [container, table]: [Port; 2],
        [batches, rows]: [i64; 2],
    ) -> Result<(), Malformed> {
        const RULE: &str = "AT-E11";
        let (pages, entries) = (node.dim(container)?, node.dim(table)?);
        let &[_, _, page, _] = pages else {
            let message = format!("dims {pages:?}; required pages, heads, rows of a page and elements");
            return Err(node.fault_at(RULE, container, message));
        };
        let given = |port| node.tensor(port).expect("its dims are there");
        if !given(container).data_type.is_some_and(DataType::is_floating) {
            return Err(node.fault_at(RULE, container, "required is a type of floats: what lies in no page is NaN"));
        }
        if given(container).ragged_offset.is_some() {
            return Err(node.fault_at(RULE, container, "it is ragged, and a table says where its rows are"));
        }
        if !matches!(given(table).data_type, Some(DataType::Int32 | DataType::Int64)) {
            let found = given(table).data_type.map_or("none", DataType::name);
            return Err(node.fault_at(RULE, table, format!("data type {found}; required INT32")));
        }
        if rows < 1 {
            return Err(node.fault_at("AT-O18", container, format!("sequences of {rows} rows; required at least 1")));
        }
        let required = [batches, 1, Self::entries(rows, page), 1];
        match *entries {
            [b, 1, found, 1] if b == batches && found >= required[2] => Ok(()),
            _ => {
                let message = format!(
                    "dims are {entries:?}, required {required:?}: a page for each {page} of {rows} rows of every sequence"
                );
                Err(node.fault_at(RULE, table, message))
            }
        }
    }
}

impl Definition for PagedCacheLoad {
    fn tag(&self) -> &'static str {
        Self::TAG
    }

    fn ports(&self) -> Ports {
        ([&[Port::CONTAINER, Port::SEQ_LEN, Port::PAGE_TABLE], &[]], [&[Port::Y_OUT], &[]])
    }

    fn default_type(&self, port: Port) -> Option<DataType> {
        [Port::SEQ_LEN, Port::PAGE_TABLE].contains(&port).then_some(DataType::Int32)
    }

    /// Y has as many rows as the table has entries for, and is not turned.
    fn infer(&self, node: &mut Node) -> Result<(), Malformed> {
        if let (&[_, heads, page, size], &[batches, _, entries, _]) =
            (node.dim(Port::CONTAINER)?, node.dim(Port::PAGE_TABLE)?)
        {
            let dim = vec![batches, heads, page.saturating_mul(entries), size];
            node.complete(Port::Y_OUT, dim, &Layout::RowMajor);
        }
        Ok(())
    }

    fn check(&self, node: &Node) -> Result<(), Malformed> {
        const RULE: &str = "AT-O17";
        let (container, y) = (node.dim(Port::CONTAINER)?, node.dim(Port::Y_OUT)?);
        let &[batches, _, before, last] = y else {
            let message = format!("dims {y:?}; required batch, heads, rows and elements");
            return Err(node.fault_at(RULE, Port::Y_OUT, message));
        };
        let is_turned = Self::turns(container, (y, node.stride(Port::Y_OUT)?));
        let rows = if is_turned { last } else { before };
        Self::check_pages(node, [Port::CONTAINER, Port::PAGE_TABLE], [batches, rows])?;
        let (heads, size) = (container[HEADS], container[ELEMENTS]);
        let required = if is_turned { [batches, heads, size, rows] } else { [batches, heads, rows, size] };
        node.require_dim(RULE, Port::Y_OUT, &required, "heads and elements of the container")?;
        node.require_dim("AT-E9", Port::SEQ_LEN, &[batches, 1, 1, 1], "one length a batch")?;
        let [of_container, of_y] =
            [Port::CONTAINER, Port::Y_OUT].map(|port| node.tensor(port).and_then(|tensor| tensor.data_type));
        if of_container != of_y {
            let found = of_y.map_or("none", DataType::name);
            let message = format!("data type {found}; what is loaded keeps its type");
            return Err(node.fault_at(RULE, Port::Y_OUT, message));
        }
        Ok(())
    }

    fn define(&self, expansion: &mut Expansion) {
        let inputs: [_; 3] = expansion.required();
        let Some(y) = expansion.output(Port::Y_OUT) else { return };
        let container = expansion.dim(inputs[0]).to_vec();
        let dim = expansion.dim(y).to_vec();
        let is_turned = Self::turns(&container, (&dim, expansion.stride(y)));
        let rows = if is_turned { dim[ELEMENTS] } else { dim[ROWS] };
        let natural = vec![dim[0], container[HEADS], rows, container[ELEMENTS]];
        let mut loaded = expansion.page_gather(inputs, natural);
        if is_turned {
            loaded = expansion.transpose(loaded);
        }
        expansion.result(Port::Y_OUT, PointwiseMode::Identity, &[loaded]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::samples::{half_graph, input, refusal, shape_of};
    use crate::graph::{Graph, Tensor};

    /// Keys of two heads of 8 elements out of 5 pages of 4 rows, of 2 sequences.
    fn load(table: &[i64], y: Tensor) -> Graph {
        let mut graph = half_graph();
        let container = input(&mut graph, "container", &[5, 2, 4, 8]);
        let lengths = graph.tensor(Tensor::new("lengths").row_major([2, 1, 1, 1]).data_type(DataType::Int32));
        let table = graph.tensor(Tensor::new("table").row_major(table).data_type(DataType::Int32));
        let inputs = [(Port::CONTAINER, container), (Port::SEQ_LEN, lengths), (Port::PAGE_TABLE, table)];
        let out = graph.composite("load", PagedCacheLoad, &inputs, &[Port::Y_OUT])[0];
        *graph.set_output(out) = y;
        graph
    }

    #[test]
    fn rows_are_as_many_as_a_table_has_pages_for() {
        let graph = load(&[2, 1, 3, 1], Tensor::new("y")).finalize().unwrap();
        assert_eq!(shape_of(&graph, "y"), (&[2, 2, 12, 8][..], &[192, 96, 8, 1][..]));
        let fewer = load(&[2, 1, 3, 1], Tensor::new("y").row_major([2, 2, 9, 8]));
        fewer.finalize().expect("the last page need not be whole");
    }

    #[test]
    fn extents_say_whether_keys_are_turned_and_strides_where_they_do_not() {
        let turns = |dim: &[i64], stride: &[i64]| PagedCacheLoad::turns(&[5, 2, 4, 8], (dim, stride));
        assert!(!turns(&[2, 2, 9, 8], &[144, 72, 8, 1]));
        assert!(turns(&[2, 2, 8, 9], &[144, 72, 1, 8]) && turns(&[2, 2, 8, 9], &[144, 72, 9, 1]));
        assert!(turns(&[2, 2, 8, 8], &[128, 64, 1, 8]) && !turns(&[2, 2, 8, 8], &[128, 64, 8, 1]));
        let stride = PagedCacheLoad::strides(&[2, 2, 8, 8], true);
        assert_eq!((stride.as_slice(), is_turned(&stride)), (&[128, 64, 1, 8][..], true));
        let turned = load(&[2, 1, 3, 1], Tensor::new("y").dim([2, 2, 8, 9]).stride([144, 72, 1, 8]));
        turned.finalize().expect("keys as they are multiplied");
    }

    #[test]
    fn tables_and_results_are_held_to_their_extents() {
        let y = || Tensor::new("y").row_major([2, 2, 9, 8]);
        let message = refusal(&load(&[2, 1, 2, 1], y()));
        assert!(message.contains("'table'") && message.contains("required [2, 1, 3, 1]"), "{message}");
        assert!(message.contains("[AT-E11]"), "{message}");
        assert!(refusal(&load(&[2, 3, 1, 1], y())).contains("[AT-E11]"));
        assert!(refusal(&load(&[3, 1], y())).contains("[AT-E11]"));
        let message = refusal(&load(&[2, 1, 3, 1], Tensor::new("y").row_major([2, 3, 9, 8])));
        assert!(message.contains("required [2, 2, 9, 8]") && message.contains("[AT-O17]"), "{message}");
        assert!(refusal(&load(&[2, 1, 3, 1], y().data_type(DataType::Float))).contains("keeps its type [AT-O17]"));
        let mut graph = load(&[2, 1, 3, 1], y());
        let table = graph.operations()[0].input(Port::PAGE_TABLE).unwrap();
        graph.tensor_mut(table).data_type = Some(DataType::Half);
        assert!(refusal(&graph).contains("data type HALF; required INT32 [AT-E11]"));
    }
}
