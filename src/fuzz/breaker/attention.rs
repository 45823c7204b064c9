//! Edits of attention: keys and values in pages.

use super::limits::Place;
use super::{Row, Subject};
use crate::graph::{Attributes, Composite, DataType, Graph, Operation, PagedCacheLoad, Port, TensorId};

pub(super) const ROWS: &[Row] = &[
    ("FAF-PAGE-TYPE", |s, g, _| {
        let Some(id) = loads(s).next().and_then(|load| load.input(Port::PAGE_TABLE)) else { return false };
        g.tensors[id.index()].data_type = Some(DataType::Int64);
        true
    }),
    ("FAF-PAGE-POW2", |s, g, c| {
        let pages = [3, 12, 5, 48];
        let page = pages[c.below(pages.len())];
        loads(s).next().is_some_and(|load| repaged(s, g, load, page))
    }),
];

/// Operations that load keys or values from pages.
fn loads(s: &Subject) -> impl Iterator<Item = &Operation> {
    let is_load =
        |operation: &&Operation| matches!(operation.attributes, Attributes::Composite(Composite::PagedCacheLoad(_)));
    s.graph().operations().filter(is_load)
}

/// Rows of a sequence.
fn rows(s: &Subject, load: &Operation) -> Option<i64> {
    let (container, y) = (s.tensor(load.input(Port::CONTAINER)?), s.tensor(load.output(Port::Y_OUT)?));
    let is_turned = PagedCacheLoad::turns(&container.dim, (&y.dim, &y.stride));
    Some(y.dim[if is_turned { 3 } else { 2 }])
}

/// Pages of another number of rows, where nobody else reads container and table.
fn repaged(s: &Subject, edited: &mut Graph, load: &Operation, page: i64) -> bool {
    let (Some(container), Some(table)) = (load.input(Port::CONTAINER), load.input(Port::PAGE_TABLE)) else {
        return false;
    };
    let Some(rows) = rows(s, load).filter(|_| [container, table].iter().all(|&id| is_private(s, id))) else {
        return false;
    };
    let of_container = &mut edited.tensors[container.index()];
    of_container.dim[2] = page;
    let [_, heads, _, size] = of_container.dim[..] else { return false };
    of_container.stride = vec![heads * page * size, page * size, size, 1];
    lengthen(edited, table, PagedCacheLoad::entries(rows, page));
    true
}

fn is_private(s: &Subject, id: TensorId) -> bool {
    s.graph().consumers(id).len() == 1
}

/// A table with as many entries as rows need, or one more.
pub(super) fn entries(s: &Subject, edited: &mut Graph, number: usize, side: Place) -> bool {
    let all: Vec<&Operation> = loads(s).collect();
    let Some(&load) = all.get(number % all.len().max(1)) else { return false };
    let (Some(container), Some(table)) = (load.input(Port::CONTAINER), load.input(Port::PAGE_TABLE)) else {
        return false;
    };
    let Some(rows) = rows(s, load).filter(|_| is_private(s, table)) else { return false };
    let required = PagedCacheLoad::entries(rows, s.tensor(container).dim[2]);
    lengthen(edited, table, if side == Place::At { required } else { required + 1 });
    true
}

/// A table of so many entries a sequence, row-major.
fn lengthen(edited: &mut Graph, table: TensorId, entries: i64) {
    let table = &mut edited.tensors[table.index()];
    table.dim[2] = entries;
    table.stride = vec![entries, entries, 1, 1];
}
