//! Records of rows of heads that go from accumulators to memory.

use serde::Serialize;

use super::pack_function;
use crate::codegen::names;
use crate::codegen::sections::Used;
use crate::codegen::template::{self, template};
use crate::error::Error;
use crate::graph::{DataType, FinalizedGraph, TensorId};
use crate::kernel::{MmaType, RowStores, value_columns};

/// Rows of heads in the accumulators of a warp.
pub(super) struct RowStore {
    pub(super) tensor: TensorId,
    /// Their first accumulator.
    pub(super) first: u32,
    /// Elements of a row.
    pub(super) head: i64,
    /// Rows that exist.
    pub(super) rows: String,
    /// Where row `row_of` lies.
    pub(super) row_offset: String,
    pub(super) stores: RowStores,
    /// What was multiplied.
    pub(super) operand: MmaType,
    /// Whether accumulators hold nothing where there were no steps.
    pub(super) clears: bool,
}

/// What `attention/output.cuh` reads.
#[derive(Serialize)]
struct OutputText {
    zeros: Option<String>,
    groups: Vec<GroupText>,
    rows: String,
    columns: i64,
    pack: &'static str,
    storage: &'static str,
    pointer: String,
    offset: String,
    vectors: bool,
}

/// 32 columns of O.
#[derive(Serialize)]
struct GroupText {
    column: u32,
    takes: Vec<TakeText>,
    /// Whether some lanes have no columns.
    guard: bool,
}

#[derive(Serialize)]
struct TakeText {
    register: u32,
    fragment: u32,
}

/// What `attention/output_elements.cuh` reads.
#[derive(Serialize)]
struct ElementsText {
    first: u32,
    values: u32,
    rows: String,
    columns: i64,
    pointer: String,
    offset: String,
    value: String,
}

impl RowStore {
    /// The lines that store the rows, each times its factor `scaled`.
    pub(super) fn text(&self, graph: &FinalizedGraph, used: &mut Used) -> Result<String, Error> {
        match self.stores {
            RowStores::Vectors | RowStores::Halves => self.halves(graph, used),
            RowStores::Elements | RowStores::Bytes => self.elements(graph, used),
        }
    }

    fn registers(&self) -> u32 {
        value_columns(self.head) / 2
    }

    fn halves(&self, graph: &FinalizedGraph, used: &mut Used) -> Result<String, Error> {
        used.add("fw_quad_transpose");
        if self.stores == RowStores::Vectors {
            used.add("fw_vector");
        }
        let (first, fragments) = (self.first, value_columns(self.head) / 8);
        let group = |start: u32| {
            let end = (start + 4).min(fragments);
            let take = |fragment: u32| TakeText { register: first + 4 * fragment, fragment: fragment - start };
            GroupText { column: 8 * start, takes: (start..end).map(take).collect(), guard: end - start < 4 }
        };
        let zeros = || (first..first + self.registers()).map(|number| format!("FW_ZERO({number})"));
        let record = OutputText {
            zeros: self.clears.then(|| zeros().collect::<Vec<_>>().join(" ")),
            groups: (0..fragments).step_by(4).map(group).collect(),
            rows: self.rows.clone(),
            columns: self.head,
            pack: pack_function(self.operand),
            storage: names::storage_type(graph.tensor(self.tensor).data_type),
            pointer: names::pointer(graph, self.tensor),
            offset: format!("{} + column", self.row_offset),
            vectors: self.stores == RowStores::Vectors,
        };
        template::render(template!("attention/output.cuh"), &record)
    }

    fn elements(&self, graph: &FinalizedGraph, used: &mut Used) -> Result<String, Error> {
        let tensor = graph.tensor(self.tensor);
        used.add(names::storage_section(tensor.data_type));
        let record = ElementsText {
            first: self.first,
            values: self.registers(),
            rows: self.rows.clone(),
            columns: self.head,
            pointer: names::pointer(graph, self.tensor),
            offset: format!("{} + column * {}ull", self.row_offset, tensor.stride[3]),
            value: match tensor.data_type {
                DataType::Float => "y[i] * scaled[i >> 1 & 1]".to_owned(),
                other => names::to_storage(other, "y[i] * scaled[i >> 1 & 1]"),
            },
        };
        template::render(template!("attention/output_elements.cuh"), &record)
    }
}
