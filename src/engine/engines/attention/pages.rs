//! Keys and values in pages, whose places a table tells (`docs/spec/attention.md` AT-K25).

use crate::fusion::Attention;
use crate::graph::{DataType, FinalizedGraph, Port, TensorId};
use crate::kernel::{Band, Pages};

use super::boxes::are_offsets;

/// Pages of a container, and rows of one, at most: coordinates of boxes.
const MOST: i64 = i32::MAX as i64;

/// The pages of K, and of V, where they are in some.
///
/// # Errors
/// Tables that kernels do not read, and sequences whose length scores know nothing of.
pub(super) fn of(graph: &FinalizedGraph, attention: &Attention, band: &Band) -> Result<[Option<Pages>; 2], String> {
    let mut found = [None; 2];
    for (pages, load) in found.iter_mut().zip(attention.loads) {
        let Some(load) = load.map(|id| graph.operation(id)) else { continue };
        let input = |port| load.input(port).ok_or_else(|| format!("port {port} is empty"));
        let (container, table) = (input(Port::CONTAINER)?, input(Port::PAGE_TABLE)?);
        if band.lengths.map(|lengths| lengths[1]) != load.input(Port::SEQ_LEN) {
            return Err("keys are masked by another length than what is in pages has [AT-E11]".to_owned());
        }
        is_read(graph, table)?;
        let dim = &graph.tensor(container).dim;
        if dim[0] > MOST || dim[2] > MOST {
            return Err(format!("tensor {}: more pages or rows than are counted", graph.describe_tensor(container)));
        }
        *pages = Some(Pages { table, rows: dim[2] });
    }
    Ok(found)
}

/// The tables of what is in pages.
pub(super) fn tables(pages: [Option<Pages>; 2]) -> impl Iterator<Item = TensorId> {
    pages.into_iter().flatten().map(|pages| pages.table)
}

/// Whether kernels read a table.
fn is_read(graph: &FinalizedGraph, table: TensorId) -> Result<(), String> {
    let tensor = graph.tensor(table);
    let is_integer = matches!(tensor.data_type, DataType::Int32 | DataType::Int64);
    if !is_integer || tensor.is_virtual || tensor.is_pass_by_value {
        return Err(format!(
            "tensor {}: page tables are INT32 or INT64 in device memory; found {}",
            graph.describe_tensor(table),
            tensor.data_type
        ));
    }
    are_offsets(graph, table)
}
