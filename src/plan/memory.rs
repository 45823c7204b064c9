//! Device memory.

use cudarc::driver::sys::CUdeviceptr;

use super::cuda;
use super::driver::failed;
use super::{DeviceContext, Stream};
use crate::error::Error;

/// Alignment that the driver gives every allocation, in bytes.
const ALLOCATION_ALIGNMENT: u64 = 256;

/// An address in device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DevicePointer(CUdeviceptr);

impl DevicePointer {
    /// No memory; refused wherever memory is needed.
    pub const NULL: Self = Self(0);

    /// An address given by CUDA, in this library or another. It is a number: what lies there is the concern of whoever
    /// executes a plan with it ([`ExecutionPlan::execute`](super::ExecutionPlan::execute)).
    pub const fn from_raw(address: u64) -> Self {
        Self(address)
    }

    /// The address.
    pub const fn address(self) -> u64 {
        self.0
    }
}

/// Where the scratch memory of an execution lies. Executions that may overlap need memory each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workspace {
    /// Start, aligned to [`super::WORKSPACE_ALIGNMENT`].
    pub pointer: DevicePointer,
    /// Size in bytes.
    pub bytes: u64,
}

impl Workspace {
    /// For plans that need none.
    pub const NONE: Self = Self { pointer: DevicePointer::NULL, bytes: 0 };
}

/// Device memory of this library, freed with this value: freeing waits for the device to be done with it.
#[derive(Debug)]
pub struct DeviceBuffer {
    context: DeviceContext,
    allocation: CUdeviceptr,
    pointer: CUdeviceptr,
    bytes: usize,
}

impl DeviceBuffer {
    /// Memory of this size, aligned to a power of two of bytes; its content is undefined.
    ///
    /// # Errors
    /// [`Error::Environment`] where memory does not suffice.
    pub fn new(context: &DeviceContext, bytes: usize, alignment: u64) -> Result<Self, Error> {
        let _entered = context.enter()?;
        let slack = if alignment > ALLOCATION_ALIGNMENT { alignment } else { 0 };
        let wanted = bytes.max(1).saturating_add(usize::try_from(slack).unwrap_or(usize::MAX));
        let mut allocation: CUdeviceptr = 0;
        // SAFETY: a context is current, the size is not zero, and the pointer is valid for one address.
        let allocated = unsafe { cuda::cuMemAlloc_v2(&raw mut allocation, wanted) };
        allocated.map_err(|error| failed(&format!("{wanted} bytes of device memory"), error))?;
        let pointer = allocation.next_multiple_of(alignment.max(1));
        Ok(Self { context: context.clone(), allocation, pointer, bytes })
    }

    /// Its start; the address outlives the memory.
    pub fn pointer(&self) -> DevicePointer {
        DevicePointer(self.pointer)
    }

    /// Its size in bytes, as asked for.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Sets every byte, in stream order.
    ///
    /// # Errors
    /// [`Error::Environment`] where the driver fails.
    pub fn fill(&mut self, byte: u8, stream: &Stream) -> Result<(), Error> {
        self.fill_first(self.bytes, byte, stream)
    }

    /// Sets the first `bytes`, or all if there are fewer, in stream order.
    pub(crate) fn fill_first(&mut self, bytes: usize, byte: u8, stream: &Stream) -> Result<(), Error> {
        let _entered = self.context.enter()?;
        // SAFETY: the range is the allocation's, which lives until the device is done with it.
        let filled = unsafe { cuda::cuMemsetD8Async(self.pointer, byte, bytes.min(self.bytes), stream.raw()) };
        filled.map_err(|error| failed("filling device memory", error))
    }

    /// Copies from the host to the start of the buffer, in stream order, and waits for it.
    ///
    /// # Errors
    /// [`Error::Input`] if there are more bytes than fit; [`Error::Environment`] where the driver fails.
    pub fn upload(&mut self, bytes: &[u8], stream: &Stream) -> Result<(), Error> {
        if bytes.len() > self.bytes {
            let message = format!("{} bytes do not fit into {}", bytes.len(), self.bytes);
            return Err(Error::input("device buffer", message));
        }
        let _entered = self.context.enter()?;
        // SAFETY: source and destination are as long as the copy. The source need not outlive this call, even where waiting
        // fails: pageable memory is staged before the driver returns ("API synchronization behavior" of the driver API).
        // The destination lives until the device is done with it.
        let copied =
            unsafe { cuda::cuMemcpyHtoDAsync_v2(self.pointer, bytes.as_ptr().cast(), bytes.len(), stream.raw()) };
        copied.map_err(|error| failed("copying to the device", error))?;
        stream.synchronize()
    }

    /// Copies the whole buffer to the host, in stream order, and waits for it.
    ///
    /// # Errors
    /// [`Error::Environment`] where the driver fails, [`Error::Wrong`] if earlier work on the stream did.
    pub fn download(&self, stream: &Stream) -> Result<Vec<u8>, Error> {
        let _entered = self.context.enter()?;
        let mut bytes = vec![0u8; self.bytes];
        // SAFETY: source and destination are as long as the copy. The destination need not outlive this call, even where
        // waiting fails: to pageable memory the driver returns once the copy is complete ("API synchronization behavior" of
        // the driver API). The source lives until the device is done with it.
        let copied =
            unsafe { cuda::cuMemcpyDtoHAsync_v2(bytes.as_mut_ptr().cast(), self.pointer, bytes.len(), stream.raw()) };
        copied.map_err(|error| failed("copying from the device", error))?;
        stream.synchronize()?;
        Ok(bytes)
    }

    /// Copies all of another buffer to the start of this one, in stream order.
    pub(crate) fn copy_from(&mut self, other: &Self, stream: &Stream) -> Result<(), Error> {
        let _entered = self.context.enter()?;
        let bytes = other.bytes.min(self.bytes);
        // SAFETY: both ranges lie in their allocations, which live until the device is done with them.
        let copied = unsafe { cuda::cuMemcpyDtoDAsync_v2(self.pointer, other.pointer, bytes, stream.raw()) };
        copied.map_err(|error| failed("copying on the device", error))
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        if let Some(_entered) = self.context.enter_to_release() {
            // SAFETY: allocated by `new` in this context and freed once; the driver waits for work that uses it.
            let _ = unsafe { cuda::cuMemFree_v2(self.allocation) };
        }
    }
}
