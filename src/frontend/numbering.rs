//! Canonical numbers for tensors: the order of first use, whatever the order in the file (FEJ-33).

use super::tensors::Entry;
use crate::graph::TensorHandle;

/// Numbers tensor objects as they are used.
#[derive(Debug, Default)]
pub(super) struct Numbering {
    ids: Vec<Option<TensorHandle>>,
    entries: Vec<Entry>,
}

impl Numbering {
    /// The number of a tensor object; a new one at its first use.
    pub(super) fn id(&mut self, entry: Entry) -> TensorHandle {
        if self.ids.len() <= entry {
            self.ids.resize(entry + 1, None);
        }
        *self.ids[entry].get_or_insert_with(|| {
            self.entries.push(entry);
            TensorHandle::at(self.entries.len() - 1).expect("a file has fewer than 2^32 tensors")
        })
    }

    /// The tensor object with the number `index`.
    pub(super) fn entry(&self, index: usize) -> Option<Entry> {
        self.entries.get(index).copied()
    }
}
