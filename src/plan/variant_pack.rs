//! What an execution is given, by uid.

use std::borrow::Cow;

use super::DevicePointer;
use crate::graph::Scalar;

/// What a uid stands for in one execution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    Pointer(DevicePointer),
    Scalar(Scalar),
}

/// Device pointers of the graph's non-virtual tensors and values of its host scalars: one for each, and only those.
/// Scalars whose value the graph states are not part of it.
///
/// Built once and changed in place, it costs an execution nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VariantPack {
    /// In ascending order of uid.
    entries: Vec<(i64, Value)>,
}

impl VariantPack {
    /// An empty pack.
    pub fn new() -> Self {
        Self::default()
    }

    /// The pack of device pointers by uids, in any order.
    ///
    /// # Errors
    /// A uid that has two pointers; want of memory.
    pub(crate) fn from_pointers(pointers: impl ExactSizeIterator<Item = (i64, DevicePointer)>) -> Result<Self, Unfit> {
        let mut entries = Vec::new();
        entries
            .try_reserve_exact(pointers.len())
            .map_err(|_| Unfit::Large(pointers.len() * size_of::<(i64, Value)>()))?;
        entries.extend(pointers.map(|(uid, pointer)| (uid, Value::Pointer(pointer))));
        entries.sort_unstable_by_key(|entry| entry.0);
        match entries.array_windows().find(|[first, second]| first.0 == second.0) {
            Some([first, _]) => Err(Unfit::Twice(first.0)),
            None => Ok(Self { entries }),
        }
    }

    /// The device pointer of a tensor, where it has one.
    pub fn pointer(&self, uid: i64) -> Option<DevicePointer> {
        let position = self.entries.binary_search_by_key(&uid, |entry| entry.0).ok()?;
        match self.entries[position].1 {
            Value::Pointer(pointer) => Some(pointer),
            Value::Scalar(_) => None,
        }
    }

    /// Sets or replaces the device pointer of a tensor.
    pub fn set_pointer(&mut self, uid: i64, pointer: DevicePointer) -> &mut Self {
        self.set(uid, Value::Pointer(pointer))
    }

    /// Sets or replaces the value of a host scalar; it is rounded to the tensor's type.
    pub fn set_scalar(&mut self, uid: i64, value: Scalar) -> &mut Self {
        self.set(uid, Value::Scalar(value))
    }

    fn set(&mut self, uid: i64, value: Value) -> &mut Self {
        match self.entries.binary_search_by_key(&uid, |entry| entry.0) {
            Ok(position) => self.entries[position].1 = value,
            Err(position) => self.entries.insert(position, (uid, value)),
        }
        self
    }

    /// The entries of the uids that are kept; the pack itself where those are all.
    pub(super) fn only(&self, is_kept: impl Fn(i64) -> bool) -> Cow<'_, Self> {
        if self.entries.iter().all(|entry| is_kept(entry.0)) {
            return Cow::Borrowed(self);
        }
        Cow::Owned(Self { entries: self.entries.iter().copied().filter(|entry| is_kept(entry.0)).collect() })
    }

    pub(super) fn entries(&self) -> &[(i64, Value)] {
        &self.entries
    }
}

/// Why pointers make no pack.
#[derive(Debug, PartialEq)]
pub(crate) enum Unfit {
    /// This uid has two.
    Twice(i64),
    /// There is no memory for so many bytes.
    Large(usize),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_make_a_pack_in_any_order() {
        let pointer = |uid: i64| (uid, DevicePointer::from_raw(16 * uid as u64));
        let pack = VariantPack::from_pointers([5, 9, 2].map(pointer).into_iter()).unwrap();
        let mut same = VariantPack::new();
        for (uid, pointer) in [9, 2, 5].map(pointer) {
            same.set_pointer(uid, pointer);
        }
        assert_eq!(pack, same);
        let twice = VariantPack::from_pointers([5, 9, 2, 9].map(pointer).into_iter());
        assert_eq!(twice, Err(Unfit::Twice(9)));
    }

    #[test]
    fn entries_are_sorted_and_replaced() {
        let mut pack = VariantPack::new();
        for uid in [7, -3, 7, 0] {
            pack.set_scalar(uid, Scalar::Integer(uid));
        }
        pack.set_pointer(0, DevicePointer::NULL);
        let uids: Vec<i64> = pack.entries().iter().map(|entry| entry.0).collect();
        assert_eq!(uids, [-3, 0, 7]);
        assert_eq!(pack.entries()[1].1, Value::Pointer(DevicePointer::NULL));
        assert_eq!([0, 7, 8].map(|uid| pack.pointer(uid)), [Some(DevicePointer::NULL), None, None]);
    }
}
