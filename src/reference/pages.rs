//! Rows of sequences out of pages (`docs/spec/attention.md` AT-O17): a table says in which page of a container lies which part of a sequence.
//! Rows beyond a sequence are in none, and NaN; entries of the table for them, and what else lies in its last page, may be anything.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use super::oracle::{DenseF64, operand_at};
use super::ragged;
use super::values::Values;
use crate::error::{Error, Result};
use crate::graph::{
    Attributes, Composite, DataType, FinalizedGraph, Operation, OperationId, PagedCacheLoad, Port, TensorId,
};
use crate::host_tensor::{HostTensor, HostTensors, Lane, reserve};

/// Y of the CPU engine.
pub(super) fn gathered(
    graph: &FinalizedGraph,
    id: OperationId,
    values: &Values,
) -> Result<Vec<(TensorId, HostTensor)>> {
    let operation = graph.operation(id);
    let read = |port| operation.input(port).map(|id| values.get(id)).transpose();
    let (container, lengths, table) = (read(Port::CONTAINER)?, read(Port::SEQ_LEN)?, read(Port::PAGE_TABLE)?);
    let (Some(container), Some(lengths), Some(table), Some(y)) = (container, lengths, table, operation.output(Port::Y))
    else {
        return Ok(Vec::new());
    };
    let rows = Rows::of(graph, operation, &lengths.to_dense()?, &table.to_dense()?)?;
    let storage = values.poisoned(y)?;
    let y_values = match container.data_type {
        DataType::Double => storage.with_dense(&rows.gathered(&container.to_dense::<f64>()?, f64::NAN)?)?,
        _ => storage.with_dense(&rows.gathered(&container.to_dense::<f32>()?, f32::NAN)?)?,
    };
    Ok(vec![(y, y_values)])
}

/// Y by its definition, of the operation's operands; `absent` where there is no row.
pub(super) fn exact(
    graph: &FinalizedGraph,
    id: OperationId,
    operands: &[&DenseF64],
    absent: f64,
) -> Result<Vec<Vec<f64>>> {
    let operation = graph.operation(id);
    let [container, lengths, table] =
        [Port::CONTAINER, Port::SEQ_LEN, Port::PAGE_TABLE].map(|port| operand_at(operation, operands, port));
    let (Some(container), Some(lengths), Some(table)) = (container, lengths, table) else { return Ok(Vec::new()) };
    let whole = |dense: &DenseF64| dense.values.iter().map(|&value| value as i64).collect::<Vec<_>>();
    let rows = Rows::of(graph, operation, &whole(lengths), &whole(table))?;
    Ok(vec![rows.gathered(&container.values, absent)?])
}

/// Where the rows of sequences lie.
struct Rows {
    /// For each row of each sequence the page, and the row in it.
    places: Vec<Option<(usize, usize)>>,
    /// Rows of a sequence.
    count: usize,
    /// Heads, rows and elements of a page.
    page: [usize; 3],
}

impl Rows {
    /// The rows of a gather, or of an operation that it defines.
    ///
    /// # Errors
    /// [`Error::Input`] for an entry of the table, of a row within its sequence, that names no page of the container.
    fn of(graph: &FinalizedGraph, operation: &Operation, lengths: &[i64], table: &[i64]) -> Result<Self> {
        let dim = |id: Option<TensorId>| id.map_or(&[][..], |id| &graph.tensor(id).dim);
        let (container, y) = (dim(operation.input(Port::CONTAINER)), dim(operation.output(Port::Y)));
        let (&[pages, heads, page, size], &[batches, _, count, _]) = (container, y) else {
            return Err(Error::input(format!("operation '{}'", operation.name), "has tensors without four axes"));
        };
        let entries = table.len() / batches.max(1) as usize;
        let mut places = reserve((batches * count) as usize)?;
        for (batch, &length) in lengths.iter().enumerate().take(batches as usize) {
            for row in 0..count {
                if row >= length {
                    places.push(None);
                    continue;
                }
                let at = (row / page) as usize;
                let entry = table.get(batch * entries + at).copied().filter(|entry| (0..pages).contains(entry));
                let entry = entry.ok_or_else(|| {
                    let table =
                        operation.input(Port::PAGE_TABLE).map_or_else(String::new, |id| graph.describe_tensor(id));
                    let message =
                        format!("entry {at} of sequence {batch} is none of the {pages} pages of the container");
                    Error::input(format!("tensor {table}"), message)
                })?;
                places.push(Some((entry as usize, (row % page) as usize)));
            }
        }
        let page = [heads, page, size].map(|extent| extent as usize);
        Ok(Self { places, count: count as usize, page })
    }

    /// The elements of a row-major container that are the sequences', row-major.
    fn gathered<T: Lane>(&self, container: &[T], absent: T) -> Result<Vec<T>> {
        let [heads, rows, size] = self.page;
        let mut found = reserve(self.places.len() * heads * size)?;
        for sequence in self.places.chunks(self.count.max(1)) {
            for head in 0..heads {
                for place in sequence {
                    let start = place.map(|(page, row)| ((page * heads + head) * rows + row) * size);
                    match start.and_then(|start| container.get(start..start + size)) {
                        Some(row) => found.extend_from_slice(row),
                        None => found.extend(std::iter::repeat_n(absent, size)),
                    }
                }
            }
        }
        Ok(found)
    }
}

/// Gives tables entries: within a sequence pages of the container, all of them once before one comes again, in no order; beyond it numbers that
/// are no pages. Rows of containers that no sequence has become NaN.
pub(super) fn complete(graph: &FinalizedGraph, inputs: &mut HostTensors, draw: impl Fn(usize) -> u64) -> Result<()> {
    let loads: Vec<Load> = graph.operations().filter_map(|operation| Load::of(graph, operation)).collect();
    let mut tables = BTreeMap::new();
    for &Load { table, .. } in &loads {
        if let Entry::Vacant(place) = tables.entry(table) {
            let entries = place.insert(entries(graph, inputs, table, &draw)?);
            let host = ragged::with_rows(graph, inputs, table, entries)?;
            inputs.insert(table, host);
        }
    }
    let containers: BTreeSet<TensorId> = loads.iter().map(|load| load.container).collect();
    for container in containers {
        let users = loads.iter().filter(|load| load.container == container);
        forget_unread(graph, inputs, container, users.map(|load| (load, &tables[&load.table][..])))?;
    }
    Ok(())
}

/// Entries of a table that each sequence needs; `None` where a tensor is no table.
pub(super) fn needed(graph: &FinalizedGraph, inputs: &HostTensors, table: TensorId) -> Result<Option<Vec<i64>>> {
    let users =
        graph.operations().filter_map(|operation| Load::of(graph, operation)).filter(|load| load.table == table);
    let mut needed: Option<Vec<i64>> = None;
    for load in users {
        let lengths = load.lengths(inputs)?;
        let of_load = lengths.into_iter().map(|length| PagedCacheLoad::entries(length, load.page));
        needed = Some(match needed {
            Some(needed) => needed.into_iter().zip(of_load).map(|(one, other)| one.max(other)).collect(),
            None => of_load.collect(),
        });
    }
    Ok(needed)
}

/// The lengths of sequences that an operation loads, and how long these are at most; `None` where it loads nothing from pages.
pub(super) fn length(graph: &FinalizedGraph, operation: &Operation) -> Option<(TensorId, i64)> {
    Load::of(graph, operation).map(|load| (load.lengths, load.rows))
}

/// An operation that loads from pages, in a graph that is not taken apart.
struct Load {
    container: TensorId,
    lengths: TensorId,
    table: TensorId,
    /// Pages, and rows of one.
    pages: i64,
    page: i64,
    /// Rows of a sequence at most.
    rows: i64,
}

impl Load {
    fn of(graph: &FinalizedGraph, operation: &Operation) -> Option<Self> {
        let Attributes::Composite(Composite::PagedCacheLoad(_)) = &operation.attributes else { return None };
        let [container, lengths, table] =
            [Port::CONTAINER, Port::SEQ_LEN, Port::PAGE_TABLE].map(|port| operation.input(port));
        let (container, y) = (container?, graph.tensor(operation.output(Port::Y_OUT)?));
        let dim = &graph.tensor(container).dim;
        let rows = y.dim[if PagedCacheLoad::turns(dim, (&y.dim, &y.stride)) { 3 } else { 2 }];
        Some(Self { container, lengths: lengths?, table: table?, pages: dim[0], page: dim[2], rows })
    }

    /// Rows of each sequence.
    fn lengths(&self, inputs: &HostTensors) -> Result<Vec<i64>> {
        let lengths = inputs.get(&self.lengths).map(HostTensor::to_dense::<i64>).transpose()?.unwrap_or_default();
        Ok(lengths.into_iter().map(|length| length.clamp(0, self.rows)).collect())
    }
}

/// The entries of a table, row-major.
fn entries(
    graph: &FinalizedGraph,
    inputs: &HostTensors,
    table: TensorId,
    draw: impl Fn(usize) -> u64,
) -> Result<Vec<i64>> {
    // what is read for it would be a fault
    const NO_PAGE: i64 = i32::MAX as i64;
    let users =
        graph.operations().filter_map(|operation| Load::of(graph, operation)).filter(|load| load.table == table);
    let mut shuffled: Vec<i64> = (0..users.map(|load| load.pages).min().unwrap_or(0)).collect();
    shuffled.sort_by_key(|&page| draw(page as usize));
    let mut next = shuffled.iter().copied().cycle();
    let most = graph.tensor(table).dim[2];
    let mut found = Vec::new();
    for needed in needed(graph, inputs, table)?.unwrap_or_default() {
        found.extend((0..most).map(|at| if at < needed { next.next().unwrap_or(NO_PAGE) } else { NO_PAGE }));
    }
    Ok(found)
}

/// Makes rows of a container NaN that no sequence has.
fn forget_unread<'a>(
    graph: &FinalizedGraph,
    inputs: &mut HostTensors,
    container: TensorId,
    users: impl Iterator<Item = (&'a Load, &'a [i64])>,
) -> Result<()> {
    let tensor = graph.tensor(container);
    let Some(host) = inputs.get(&container) else { return Ok(()) };
    let [pages, heads, page, size] = [0, 1, 2, 3].map(|axis| tensor.dim[axis] as usize);
    let mut is_read = vec![false; pages * page];
    for (load, table) in users {
        let most = graph.tensor(load.table).dim[2] as usize;
        for (batch, length) in load.lengths(inputs)?.into_iter().enumerate() {
            for row in 0..length as usize {
                let entry = table[batch * most + row / page] as usize;
                is_read[entry * page + row % page] = true;
            }
        }
    }
    let mut values = host.to_dense::<f64>()?;
    for (at, row) in values.chunks_mut(size).enumerate() {
        if !is_read[at / page / heads * page + at % page] {
            row.fill(f64::NAN);
        }
    }
    inputs.insert(container, HostTensor::from_dense(tensor.data_type, &tensor.dim, &tensor.stride, &values)?);
    Ok(())
}
