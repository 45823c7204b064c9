//! Who writes and who reads the tensors of a draft.

use std::collections::{BTreeSet, HashMap};

use super::super::draft::Draft;
use super::super::{Attributes, Operation, OperationId, PointwiseMode, TensorId};

/// Writers and readers of tensors.
pub(super) struct Flow {
    writers: HashMap<TensorId, OperationId>,
    readers: HashMap<TensorId, Vec<OperationId>>,
}

impl Flow {
    pub(super) fn of(draft: &Draft) -> Self {
        let (mut writers, mut readers) = (HashMap::new(), HashMap::<_, Vec<_>>::new());
        for id in draft.operation_ids() {
            let operation = &draft.operations[id.index()];
            writers.extend(operation.output_tensors().map(|tensor| (tensor, id)));
            for tensor in operation.input_tensors() {
                let readers = readers.entry(tensor).or_default();
                if readers.last() != Some(&id) {
                    readers.push(id);
                }
            }
        }
        Self { writers, readers }
    }

    pub(super) fn writer(&self, id: TensorId) -> Option<OperationId> {
        self.writers.get(&id).copied()
    }

    /// The operation that writes a tensor.
    pub(super) fn made_by<'a>(&self, draft: &'a Draft, id: TensorId) -> Option<&'a Operation> {
        self.writer(id).map(|writer| &draft.operations[writer.index()])
    }

    /// The operations that read a tensor's values: an index has its extents alone.
    pub(super) fn readers(&self, draft: &Draft, id: TensorId) -> Vec<OperationId> {
        self.some_readers(draft, id).collect()
    }

    fn some_readers(&self, draft: &Draft, id: TensorId) -> impl Iterator<Item = OperationId> {
        let all = self.readers.get(&id).into_iter().flatten().copied();
        all.filter(|reader| draft.operations[reader.index()].pointwise_mode() != Some(PointwiseMode::GenIndex))
    }

    /// Whether a value is read by one operation and kept nowhere.
    pub(super) fn is_private(&self, draft: &Draft, id: TensorId) -> bool {
        draft.tensor(id).is_virtual && self.some_readers(draft, id).take(2).count() == 1
    }

    /// The product that a value is made of by pointwise operations alone, and these; `None` where there is none, or several.
    pub(super) fn path_to_product(&self, draft: &Draft, x: TensorId) -> Option<(OperationId, BTreeSet<OperationId>)> {
        let (mut open, mut found) = (vec![x], BTreeSet::new());
        let mut product = None;
        while let Some(id) = open.pop() {
            let Some(writer) = self.writer(id) else { continue };
            match &draft.operations[writer.index()].attributes {
                Attributes::Matmul(_) if product.is_none_or(|product| product == writer) => product = Some(writer),
                Attributes::Pointwise(_) => {
                    if found.insert(writer) {
                        open.extend(draft.operations[writer.index()].input_tensors());
                    }
                }
                _ => return None,
            }
        }
        product.map(|product| (product, found))
    }

    /// The results of a product and of those operations that read it, by others or themselves.
    pub(super) fn dependents(
        &self,
        draft: &Draft,
        product: OperationId,
        operations: &BTreeSet<OperationId>,
    ) -> BTreeSet<TensorId> {
        let mut found: BTreeSet<TensorId> = draft.operations[product.index()].output_tensors().collect();
        let mut open: Vec<TensorId> = found.iter().copied().collect();
        while let Some(id) = open.pop() {
            for reader in self.readers(draft, id).into_iter().filter(|reader| operations.contains(reader)) {
                let results = draft.operations[reader.index()].output_tensors();
                open.extend(results.filter(|&result| found.insert(result)));
            }
        }
        found
    }
}

/// Takes out operations whose results nobody reads or keeps, and those that led to them alone.
pub(super) fn remove_unread(draft: &mut Draft) {
    let mut readers: HashMap<TensorId, usize> = HashMap::new();
    for id in draft.operations.iter().flat_map(Operation::input_tensors) {
        *readers.entry(id).or_default() += 1;
    }
    let is_unread = |draft: &Draft, readers: &HashMap<TensorId, usize>, operation: &Operation| {
        let is_kept = |id| !draft.tensor(id).is_virtual || readers.get(&id).is_some_and(|&count| count > 0);
        !matches!(operation.attributes, Attributes::Signal(_)) && !operation.output_tensors().any(is_kept)
    };
    let mut is_gone = vec![false; draft.operations.len()];
    loop {
        let gone: Vec<usize> = (0..is_gone.len())
            .filter(|&at| !is_gone[at] && is_unread(draft, &readers, &draft.operations[at]))
            .collect();
        if gone.is_empty() {
            break;
        }
        for at in gone {
            is_gone[at] = true;
            for id in draft.operations[at].input_tensors() {
                readers.entry(id).and_modify(|count| *count -= 1);
            }
        }
    }
    let mut gone = is_gone.into_iter();
    draft.operations.retain(|_| !gone.next().unwrap_or_default());
}
