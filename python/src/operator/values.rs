//! Values of PyTorch that a kernel owns: tensors, lists of them, strings. Each is freed once, on every path.

use std::ffi::c_void;
use std::mem;

use super::Outcome;
use super::layout;
use super::shim::{Handle, Shim, checked};

/// Where a tensor lies, in PyTorch's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Device {
    pub(super) kind: i32,
    /// Zero for the CPU.
    pub(super) index: i32,
}

/// Extents, strides and type of a new tensor.
#[derive(Clone, Copy)]
pub(super) struct Form<'a> {
    pub(super) dim: &'a [i64],
    pub(super) stride: &'a [i64],
    pub(super) data_type: i32,
}

/// A tensor, as one of its owners.
pub(super) struct Tensor {
    handle: Handle,
    shim: &'static Shim,
}

impl Drop for Tensor {
    fn drop(&mut self) {
        // SAFETY: the handle is owned, and deleted once.
        unsafe { (self.shim.functions.delete)(self.handle) };
    }
}

impl Tensor {
    /// A new one, of any values.
    pub(super) fn empty(shim: &'static Shim, form: Form<'_>, device: Device) -> Outcome<Self> {
        let Form { dim, stride, data_type } = form;
        let mut handle = std::ptr::null_mut();
        // SAFETY: as many extents and strides as the rank says, and room for one handle.
        let status = unsafe {
            let (dim, stride) = (dim.as_ptr(), same_rank(dim, stride).as_ptr());
            let rank = form.dim.len() as i64;
            (shim.functions.empty)(rank, dim, stride, data_type, device.kind, device.index, &raw mut handle)
        };
        checked(status, "allocate a tensor")?;
        Ok(Self { handle, shim })
    }

    pub(super) fn device(&self) -> Outcome<Device> {
        let (mut kind, mut index) = (0, 0);
        // SAFETY: the handle is a tensor's, and there is room for one number each.
        let statuses = unsafe {
            let functions = &self.shim.functions;
            let kind = (functions.device_type)(self.handle, &raw mut kind);
            [kind, (functions.device_index)(self.handle, &raw mut index)]
        };
        checked(statuses[0] | statuses[1], "tell a tensor's device")?;
        Ok(Device { kind, index: if kind == self.shim.cpu { 0 } else { index } })
    }

    pub(super) fn data_type(&self) -> Outcome<i32> {
        let mut number = 0;
        // SAFETY: the handle is a tensor's, and there is room for one number.
        let status = unsafe { (self.shim.functions.data_type)(self.handle, &raw mut number) };
        checked(status, "tell a tensor's type").map(|()| number)
    }

    /// Extents and strides, which belong to the tensor.
    pub(super) fn layout(&self) -> Outcome<(&[i64], &[i64])> {
        let functions = &self.shim.functions;
        let (mut rank, mut sizes, mut strides) = (0, std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the handle is a tensor's, and there is room for a number and two pointers.
        let statuses = unsafe {
            [
                (functions.rank)(self.handle, &raw mut rank),
                (functions.sizes)(self.handle, &raw mut sizes),
                (functions.strides)(self.handle, &raw mut strides),
            ]
        };
        checked(statuses.iter().fold(0, |all, status| all | status), "tell a tensor's extents and strides")?;
        let rank = usize::try_from(rank).unwrap_or(0);
        if rank == 0 {
            return Ok((&[], &[]));
        }
        // SAFETY: as many of each as the rank says; nothing changes them while the kernel owns the tensor.
        Ok(unsafe { (std::slice::from_raw_parts(sizes, rank), std::slice::from_raw_parts(strides, rank)) })
    }

    pub(super) fn address(&self) -> Outcome<*mut c_void> {
        let mut address = std::ptr::null_mut();
        // SAFETY: the handle is a tensor's, and there is room for one pointer.
        let status = unsafe { (self.shim.functions.data)(self.handle, &raw mut address) };
        checked(status, "tell where a tensor lies").map(|()| address)
    }

    /// A new tensor of a form, with the elements of this one in their order.
    pub(super) fn copied(&self, form: Form<'_>) -> Outcome<Self> {
        let copy = Self::empty(self.shim, form, self.device()?)?;
        copy.fill(&self.viewed(form.dim, form.data_type)?)?;
        Ok(copy)
    }

    /// The elements under other extents: a view where one reads them in their order, else one of a packed copy.
    fn viewed(&self, dim: &[i64], data_type: i32) -> Outcome<Self> {
        let (shape, stride) = self.layout()?;
        if let Some(found) = layout::restride(shape, stride, dim) {
            return self.view(dim, &found);
        }
        let order = layout::row_major(shape);
        let packed = Self::empty(self.shim, Form { dim: shape, stride: &order, data_type }, self.device()?)?;
        packed.fill(self)?;
        packed.view(dim, &layout::row_major(dim))
    }

    /// Takes over the values of a tensor of the same extents.
    fn fill(&self, source: &Self) -> Outcome<()> {
        // SAFETY: both handles are tensors', which PyTorch checks against each other.
        checked(unsafe { (self.shim.functions.copy)(self.handle, source.handle, 0) }, "copy a tensor")
    }

    /// The memory under other extents and strides, from the same element on.
    pub(super) fn view(&self, dim: &[i64], stride: &[i64]) -> Outcome<Self> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: as many extents and strides as the rank says, within the storage as they read the same elements; room for one handle.
        let status = unsafe {
            let (rank, stride) = (dim.len() as i64, same_rank(dim, stride).as_ptr());
            (self.shim.functions.view)(self.handle, rank, dim.as_ptr(), stride, 0, &raw mut handle)
        };
        checked(status, "view a tensor")?;
        Ok(Self { handle, shim: self.shim })
    }
}

/// The strides, which are as many as the extents: pointers to both are given with one rank.
fn same_rank<'a>(dim: &[i64], stride: &'a [i64]) -> &'a [i64] {
    assert_eq!(dim.len(), stride.len(), "extents and strides");
    stride
}

/// A string that a kernel was given.
pub(super) struct Text {
    handle: Handle,
    shim: &'static Shim,
}

impl Drop for Text {
    fn drop(&mut self) {
        // SAFETY: the handle is owned, and deleted once.
        unsafe { (self.shim.functions.string_delete)(self.handle) };
    }
}

impl Text {
    pub(super) fn bytes(&self) -> Outcome<&[u8]> {
        let (mut length, mut data) = (0, std::ptr::null());
        // SAFETY: the handle is a string's, and there is room for a number and a pointer.
        let statuses = unsafe {
            let length = (self.shim.functions.string_length)(self.handle, &raw mut length);
            [length, (self.shim.functions.string_data)(self.handle, &raw mut data)]
        };
        checked(statuses[0] | statuses[1], "read a string")?;
        // SAFETY: so many bytes, which nothing changes while the kernel owns the string.
        Ok(unsafe { std::slice::from_raw_parts(data.cast(), length) })
    }
}

/// A list of tensors, or of numbers.
struct List {
    handle: Handle,
    shim: &'static Shim,
}

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: the handle is owned, and deleted once; what is in the list is not deleted with it.
        unsafe { (self.shim.functions.list_delete)(self.handle) };
    }
}

impl List {
    /// What is in a list of tensors, which is owned by whoever owns the list.
    fn into_tensors(self) -> Outcome<Vec<Tensor>> {
        let shim = self.shim;
        let values = self.values()?;
        Ok(values.into_iter().map(|value| Tensor { handle: handle_of(value), shim }).collect())
    }

    /// What is in a list of numbers, or the handles of one of tensors.
    fn values(&self) -> Outcome<Vec<u64>> {
        let (shim, mut size) = (self.shim, 0);
        // SAFETY: the handle is a list's, and there is room for one number.
        checked(unsafe { (shim.functions.list_size)(self.handle, &raw mut size) }, "tell the length of a list")?;
        let item = |index| {
            let mut value = 0;
            // SAFETY: as above.
            let status = unsafe { (shim.functions.list_get)(self.handle, index, &raw mut value) };
            checked(status, "read a list").map(|()| value)
        };
        (0..size).map(item).collect()
    }
}

/// The arguments of the operators.
pub(super) struct Arguments {
    pub(super) tensors: Vec<Tensor>,
    /// Of `run_sized` alone.
    pub(super) sizes: Vec<i64>,
    pub(super) graph: Text,
    pub(super) device: Text,
}

impl Arguments {
    /// Takes the arguments from the stack.
    ///
    /// # Safety
    /// They are a list of tensors and two strings, which nobody else frees or takes.
    pub(super) unsafe fn take(shim: &'static Shim, [list, graph, device]: [u64; 3]) -> Outcome<Self> {
        // SAFETY: as promised by the caller.
        unsafe { Self::owned(shim, list, None, [graph, device]) }
    }

    /// Takes those of `run_sized` from the stack.
    ///
    /// # Safety
    /// They are a list of tensors, one of numbers, and two strings, which nobody else frees or takes.
    pub(super) unsafe fn take_sized(shim: &'static Shim, [list, sizes, graph, device]: [u64; 4]) -> Outcome<Self> {
        // SAFETY: as promised by the caller.
        unsafe { Self::owned(shim, list, Some(sizes), [graph, device]) }
    }

    /// # Safety
    /// As [`Self::take`], and [`Self::take_sized`] where there are sizes.
    unsafe fn owned(shim: &'static Shim, list: u64, sizes: Option<u64>, texts: [u64; 2]) -> Outcome<Self> {
        // all are owned before anything can fail
        let list_of = |handle| List { handle: handle_of(handle), shim };
        let (list, sizes) = (list_of(list), sizes.map(list_of));
        let [graph, device] = texts.map(|handle| Text { handle: handle_of(handle), shim });
        let tensors = list.into_tensors()?;
        let sizes = sizes.map_or_else(|| Ok(Vec::new()), |sizes| sizes.values())?;
        Ok(Self { tensors, sizes: sizes.into_iter().map(u64::cast_signed).collect(), graph, device })
    }
}

/// Tensors as a list on the stack, which owns them.
pub(super) fn listed(shim: &'static Shim, tensors: Vec<Tensor>) -> Outcome<u64> {
    let mut handle = std::ptr::null_mut();
    // SAFETY: there is room for one handle.
    checked(unsafe { (shim.functions.list_new)(tensors.len(), &raw mut handle) }, "make a list")?;
    let list = List { handle, shim };
    for tensor in tensors {
        let value = tensor.handle.expose_provenance() as u64;
        // SAFETY: the handle is a list's, which takes the tensor where it succeeds.
        checked(unsafe { (shim.functions.list_push)(list.handle, value) }, "add to a list")?;
        mem::forget(tensor);
    }
    mem::forget(list);
    Ok(handle.expose_provenance() as u64)
}

/// A value of the stack that is a pointer.
fn handle_of(value: u64) -> Handle {
    std::ptr::with_exposed_provenance_mut(value as usize)
}
