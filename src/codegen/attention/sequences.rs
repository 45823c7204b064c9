//! Where sequences lie in memory: each batch's at a stride, or, of a ragged tensor, at an offset that a tensor tells.

use super::stride;
use crate::codegen::names;
use crate::graph::{FinalizedGraph, TensorId};
use crate::kernel::TensorMap;

/// The offset of batch `b` in elements: of a ragged tensor what [`offset_lines`] names.
pub(super) fn batch_offset(graph: &FinalizedGraph, id: TensorId) -> String {
    match is_ragged(graph, id) {
        true => format!("at_{}", graph.canonical_name(id)),
        false => format!("b * {}ull", stride(graph, id, 0)),
    }
}

/// The lines that say where the sequences of batch `b` begin in the ragged ones of these tensors.
pub(super) fn offset_lines(graph: &FinalizedGraph, ids: impl Iterator<Item = TensorId>) -> Vec<String> {
    let line = |id| Some(format!("const unsigned long long {} = {};", batch_offset(graph, id), start(graph, id)?));
    ids.filter_map(line).collect()
}

/// The lines of a unit, and behind them those that say where it stores these tensors.
pub(super) fn with_offsets(unit: String, graph: &FinalizedGraph, stored: impl Iterator<Item = TensorId>) -> String {
    [unit].into_iter().chain(offset_lines(graph, stored)).collect::<Vec<_>>().join("\n")
}

/// Whether only rows within a sequence exist.
pub(super) fn is_ragged(graph: &FinalizedGraph, id: TensorId) -> bool {
    graph.tensor(id).ragged_offset.is_some()
}

/// Boxes of rows of batch `b`, by the number of their map.
#[derive(Clone, Copy)]
pub(super) struct Boxed<'a> {
    pub(super) number: usize,
    pub(super) map: &'a TensorMap,
    /// The variable with the length of a sequence.
    pub(super) length: &'static str,
}

impl Boxed<'_> {
    /// Coordinates of the box from a row on, of a head.
    pub(super) fn at(&self, row: &str, head: &str) -> String {
        match self.map.lead > 0 {
            true => format!("before{0} + {row}, {head}, end{0}", self.number),
            false => format!("{row}, {head}, b"),
        }
    }

    /// The lines that say which rows of a ragged tensor's map are a sequence's, and where it ends, in units of 16 bytes.
    pub(super) fn lines(&self, graph: &FinalizedGraph) -> Vec<String> {
        let Boxed { number, map, length } = *self;
        // of rows in the workspace a map is not of a ragged tensor, whatever they were made of
        let start = start(graph, map.tensor).filter(|_| map.lead > 0);
        let (Some(start), row_bytes) = (start, self.row_bytes()) else { return Vec::new() };
        let (rows, element) = (map.lead / row_bytes, map.element.bytes());
        vec![
            format!("const int before{number} = {rows} - {length};"),
            format!("const int end{number} = int(({start} * {element}ull + {length} * {row_bytes}ull) / 16);"),
        ]
    }

    /// Bytes from row to row: of packed heads behind those from head to head.
    fn row_bytes(&self) -> u64 {
        let axis = self.map.rank - 4;
        self.map.strides[axis].max(1)
    }
}

/// The first element of batch `b` of a ragged tensor.
fn start(graph: &FinalizedGraph, id: TensorId) -> Option<String> {
    let tensor = graph.tensor(id);
    let offsets = tensor.ragged_offset?;
    let (pointer, stride) = (names::pointer(graph, offsets), stride(graph, offsets, 0));
    let element = format!("(unsigned long long)({pointer}[b * {stride}ull])");
    match tensor.ragged_offset_multiplier {
        1 => Some(element),
        multiplier => Some(format!("{element} * {multiplier}ull")),
    }
}
