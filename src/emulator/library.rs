//! A compiled kernel as a loaded shared library.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::thread;

use super::Schedule;
use super::tensor_map::EncodedMap;
use crate::compile::PrivateFolder;
use crate::error::{Error, Result};
use crate::kernel::{Launch, MOST_BLOCKS, MOST_BLOCKS_OF_A_LARGE_CLUSTER};

/// Dynamic shared memory of one block that no chip exceeds: 227 KiB.
const MAX_SHARED_BYTES: u32 = 227 * 1024;

/// Room for the message of a failed launch.
const ERROR_BYTES: usize = 1024;

/// One launch, as `templates/emulator/request.h` declares it.
#[repr(C)]
struct Request {
    arguments: *const *const c_void,
    signature: *const c_char,
    grid: [u32; 3],
    block: [u32; 3],
    cluster: u32,
    shared_bytes: u32,
    os_threads: u32,
    schedule: u32,
    error_bytes: u32,
    error: *mut c_char,
}

/// `extern "C" int fw_emulate_<function>(const Request*)`.
type Launcher = unsafe extern "C" fn(*const Request) -> c_int;

/// One argument of a kernel by value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Argument {
    /// `T*`.
    Pointer(*mut u8),
    /// `float`.
    Float(f32),
    /// `double`.
    Double(f64),
    /// `int`.
    Int(i32),
    /// `long long`.
    LongLong(i64),
    /// `fw_tensor_map`.
    TensorMap(EncodedMap),
}

impl Argument {
    /// Letter of the type in a signature.
    fn letter(self) -> u8 {
        match self {
            Self::Pointer(_) => b'p',
            Self::Float(_) => b'f',
            Self::Double(_) => b'd',
            Self::Int(_) => b'i',
            Self::LongLong(_) => b'l',
            Self::TensorMap(_) => b't',
        }
    }
}

/// A loaded library; its launchers may be called from any number of threads.
#[derive(Debug)]
pub(super) struct Library(libloading::Library);

impl Library {
    /// Loads a library that [`super::compiler::Compiler`] made.
    pub(super) fn open(folder: &PrivateFolder, name: &str) -> Result<Self> {
        // SAFETY: the library is our runtime and generated code, whose initialisers are the C++ library's alone. The
        // compiler put it there or saw that it is whole; since then, and ever, only this user and root could write in the
        // folder, and the path leads to the folder that was looked at, whatever others did to the folders above it.
        unsafe { libloading::Library::new(folder.path_to_load(name)) }.map(Self).map_err(|error| Error::Environment {
            message: format!("cannot load the compiled kernel {:?}", folder.path().join(name)),
            source: Some(Box::new(error)),
        })
    }

    fn launcher(&self, function: &str) -> std::result::Result<libloading::Symbol<'_, Launcher>, libloading::Error> {
        // SAFETY: `FW_EMULATOR_LAUNCHER` gives the symbol this type.
        unsafe { self.0.get(format!("fw_emulate_{function}")) }
    }

    /// Runs one launch to its end.
    ///
    /// # Safety
    /// Pointers among the arguments must be to memory that the kernel may read and write, which nobody else touches
    /// while the call lasts.
    pub(super) unsafe fn launch(&self, launch: &Launch, arguments: &[Argument], schedule: Schedule) -> Result<()> {
        require_launchable(launch)?;
        let wrong = |message: &str| Error::Wrong(format!("kernel '{}' on the emulator: {message}", launch.function));
        let launcher = self.launcher(&launch.function).map_err(|error| wrong(&error.to_string()))?;
        let signature: Vec<u8> = arguments.iter().map(|argument| argument.letter()).chain([0]).collect();
        let pointers: Vec<*const c_void> = arguments.iter().map(value_pointer).collect();
        let mut message = [0u8; ERROR_BYTES];
        let request = Request {
            arguments: pointers.as_ptr(),
            signature: signature.as_ptr().cast(),
            grid: [launch.grid[0], launch.grid[1], 1],
            block: launch.block,
            cluster: launch.cluster,
            shared_bytes: launch.shared_bytes,
            os_threads: thread::available_parallelism().map_or(1, |count| count.get() as u32),
            schedule: schedule as u32,
            error_bytes: ERROR_BYTES as u32,
            error: message.as_mut_ptr().cast(),
        };
        // SAFETY: the request's pointers are to locals that outlive the call, the signature ends in 0 and describes
        // the arguments (the launcher compares it with the kernel's), and the caller vouches for tensor memory.
        if unsafe { launcher(&request) } == 0 {
            return Ok(());
        }
        let text = CStr::from_bytes_until_nul(&message).map_or("no message".into(), CStr::to_string_lossy);
        Err(wrong(&text))
    }
}

/// Where an argument's value lies.
fn value_pointer(argument: &Argument) -> *const c_void {
    match argument {
        Argument::Pointer(value) => (&raw const *value).cast(),
        Argument::Float(value) => (&raw const *value).cast(),
        Argument::Double(value) => (&raw const *value).cast(),
        Argument::Int(value) => (&raw const *value).cast(),
        Argument::LongLong(value) => (&raw const *value).cast(),
        Argument::TensorMap(value) => (&raw const *value).cast(),
    }
}

/// The limits of CUDA's launch geometry, which are the same for all chips from sm_70.
fn require_launchable(launch: &Launch) -> Result<()> {
    let within = |extents: &[u32], limits: &[u32]| extents.iter().zip(limits).all(|(n, max)| (1..=*max).contains(n));
    let threads: u64 = launch.block.iter().map(|&n| u64::from(n)).product();
    let is_launchable = within(&launch.grid, &MOST_BLOCKS)
        && within(&[launch.cluster], &[MOST_BLOCKS_OF_A_LARGE_CLUSTER])
        && launch.grid[0].is_multiple_of(launch.cluster)
        && within(&launch.block, &[1024, 1024, 64])
        && threads <= 1024
        && launch.shared_bytes <= MAX_SHARED_BYTES;
    if is_launchable {
        return Ok(());
    }
    Err(Error::Wrong(format!(
        "kernel '{}' cannot be launched with grid {:?} in clusters of {}, block {:?} and {} bytes of shared memory",
        launch.function, launch.grid, launch.cluster, launch.block, launch.shared_bytes
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(grid: [u32; 2], block: [u32; 3], shared_bytes: u32) -> Launch {
        Launch {
            function: "k".to_owned(),
            grid,
            cluster: 1,
            block,
            shared_bytes,
            starts_early: false,
            parameters: Vec::new(),
        }
    }

    #[test]
    fn the_limits_of_launches() {
        for (grid, block, shared) in
            [([1, 1], [1, 1, 1], 0), ([i32::MAX as u32, 65535], [1024, 1, 1], 232_448), ([1, 1], [4, 4, 64], 0)]
        {
            assert!(require_launchable(&launch(grid, block, shared)).is_ok(), "{grid:?} {block:?} {shared}");
        }
        for (grid, block, shared) in [
            ([0, 1], [1, 1, 1], 0),
            ([1 << 31, 1], [1, 1, 1], 0),
            ([1, 65536], [1, 1, 1], 0),
            ([1, 1], [1, 1, 0], 0),
            ([1, 1], [1, 1, 65], 0),
            ([1, 1], [33, 32, 1], 0),
            ([1, 1], [1, 1, 1], 232_449),
        ] {
            assert!(require_launchable(&launch(grid, block, shared)).is_err(), "{grid:?} {block:?} {shared}");
        }
        for (blocks, cluster, is_launchable) in
            [(8, 8, true), (12, 4, true), (12, 8, false), (16, 16, true), (32, 32, false), (1, 0, false)]
        {
            let launch = Launch { cluster, ..launch([blocks, 1], [32, 1, 1], 0) };
            assert_eq!(require_launchable(&launch).is_ok(), is_launchable, "{blocks} in clusters of {cluster}");
        }
    }
}
