//! What a plan knows of the other GPUs of a node that its kernels exchange statistics with (N-112).

use std::ffi::{c_int, c_void};

use cudarc::driver::sys::CUpointer_attribute;

use super::driver::failed;
use super::variant_pack::{Value, VariantPack};
use super::{DeviceContext, cuda};
use crate::error::{Error, Misuse};
use crate::kernel::{Launch, Parameter};

/// Host memory that every context can address (`CU_MEMHOSTALLOC_PORTABLE`, `CU_MEMHOSTALLOC_DEVICEMAP`).
const PORTABLE_AND_MAPPED: u32 = 1 | 2;

/// A word of host memory into which kernels put one more than the rank of a GPU that did not send its statistics.
#[derive(Debug)]
pub(super) struct AbsentRank {
    context: DeviceContext,
    word: *mut u32,
}

// SAFETY: the word is read and written as a whole, by any thread, and freed once.
unsafe impl Send for AbsentRank {}
// SAFETY: as above.
unsafe impl Sync for AbsentRank {}

impl AbsentRank {
    /// The word, where one of the launches needs it.
    pub(super) fn of(context: &DeviceContext, launches: &[Launch]) -> Result<Option<Self>, Error> {
        let is_needed = launches.iter().any(|launch| launch.parameters.contains(&Parameter::AbsentRank));
        is_needed.then(|| Self::new(context)).transpose()
    }

    fn new(context: &DeviceContext) -> Result<Self, Error> {
        let mut word: *mut c_void = std::ptr::null_mut();
        // SAFETY: a context is current while a plan is built, and the pointer is valid for one address.
        let allocated = unsafe { cuda::cuMemHostAlloc(&raw mut word, size_of::<u32>(), PORTABLE_AND_MAPPED) };
        allocated.map_err(|error| failed("host memory for statistics of several GPUs", error))?;
        let absent = Self { context: context.clone(), word: word.cast() };
        absent.write(0);
        Ok(absent)
    }

    /// Where kernels find the word: host memory has one address for all.
    pub(super) fn address(&self) -> u64 {
        self.word as u64
    }

    fn write(&self, value: u32) {
        // SAFETY: the word was allocated by `new`, and lives as long as this.
        unsafe { self.word.write_volatile(value) };
    }

    /// Whether every GPU has sent its statistics since this was asked last.
    ///
    /// # Errors
    /// [`Error::Execution`] that names the rank of one that has not.
    pub(super) fn check(&self) -> Result<(), Error> {
        // SAFETY: as `write`.
        match unsafe { self.word.read_volatile() } {
            0 => Ok(()),
            absent => {
                self.write(0);
                let message = format!(
                    "in an earlier execution the GPU of rank {} did not send its statistics within 10 s; what that execution \
                     gave is NaN",
                    absent - 1
                );
                Err(Error::execution(Misuse::Peers, message))
            }
        }
    }
}

impl Drop for AbsentRank {
    fn drop(&mut self) {
        if let Some(_entered) = self.context.enter_to_release() {
            // SAFETY: allocated once and freed once; kernels that write it are done, for which the module's owner waits first.
            let _ = unsafe { cuda::cuMemFreeHost(self.word.cast()) };
        }
    }
}

/// The rank of a GPU among those whose tensors lie at these positions of a pack: the place of the first tensor in its memory that the process has
/// allocated itself. Memory of another process that was opened here counts as of this device, too, as `cudaIpcOpenMemHandle` maps it (seen on two
/// H200s with driver 580.159.04), but cannot be passed on; of memory that cannot either way (of pools) it is the first.
pub(super) fn own_rank(pack: &VariantPack, positions: &[usize], ordinal: u32) -> Option<u64> {
    let address = |position: usize| match pack.entries().get(position) {
        Some((_, Value::Pointer(pointer))) => Some(pointer.address()),
        _ => None,
    };
    let addresses =
        positions.iter().enumerate().filter_map(|(rank, &position)| Some((rank as u64, address(position)?)));
    let is_here = |(_, address): &(u64, u64)| {
        attribute(*address, CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) == Some(ordinal as c_int)
    };
    let is_allocated = |(_, address): &(u64, u64)| {
        attribute(*address, CUpointer_attribute::CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE) == Some(1)
    };
    let mut here = addresses.filter(is_here);
    let first = here.next()?;
    std::iter::once(first).chain(here).find(is_allocated).or(Some(first)).map(|(rank, _)| rank)
}

/// An attribute of the memory at an address; `None` for what the driver does not know.
fn attribute(address: u64, attribute: CUpointer_attribute) -> Option<c_int> {
    let mut value: c_int = 0;
    // SAFETY: the attributes asked for here have at most the size of an `int`, and the driver takes any address.
    let asked = unsafe { cuda::cuPointerGetAttribute((&raw mut value).cast(), attribute, address) };
    asked.ok().map(|()| value)
}
