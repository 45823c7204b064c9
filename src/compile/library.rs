//! The NVRTC library: opened by path or name, its functions looked up once.
//!
//! The symbols are loaded by hand although the crate uses cudarc, whose types and names serve here, for three reasons:
//! cudarc holds one NVRTC per process, while sm_70 needs 12.x beside 13.x; it takes no path; and its calls return an
//! enum, for which a result code of a newer library is undefined behaviour. Here result codes stay integers.
//!
//! A library, once opened, stays: NVRTC keeps threads and caches of its own, and nobody promises that it can be
//! unloaded. `RTLD_LOCAL` keeps the symbols of several versions apart.

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::mem::ManuallyDrop;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use cudarc::nvrtc::sys::nvrtcProgram;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use super::Version;

/// NVRTC's C functions, with the signatures of `nvrtc.h` 12.0 to 13.5; each returns an `nvrtcResult`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Functions {
    pub(super) error_string: unsafe extern "C" fn(c_int) -> *const c_char,
    pub(super) version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int,
    pub(super) create: unsafe extern "C" fn(
        *mut nvrtcProgram,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> c_int,
    pub(super) destroy: unsafe extern "C" fn(*mut nvrtcProgram) -> c_int,
    pub(super) compile: unsafe extern "C" fn(nvrtcProgram, c_int, *const *const c_char) -> c_int,
    pub(super) log_size: unsafe extern "C" fn(nvrtcProgram, *mut usize) -> c_int,
    pub(super) log: unsafe extern "C" fn(nvrtcProgram, *mut c_char) -> c_int,
    pub(super) cubin_size: unsafe extern "C" fn(nvrtcProgram, *mut usize) -> c_int,
    pub(super) cubin: unsafe extern "C" fn(nvrtcProgram, *mut c_char) -> c_int,
}

/// An opened library.
#[derive(Clone, Debug)]
pub(super) struct Opened {
    pub(super) functions: Functions,
    pub(super) version: Version,
    /// The file the loader chose.
    pub(super) path: PathBuf,
}

/// Opens the library by path, or by name where the loader shall search.
///
/// # Errors
/// Why it cannot be used, for a list of places.
pub(super) fn open(file: &OsStr) -> Result<Opened, String> {
    // SAFETY: the initialisers of NVRTC ask nothing of the process. Whoever names a file vouches for it, as with any
    // library path: the user, in the environment or by what is installed; never the working directory (`search`).
    let library = unsafe { Library::open(Some(file), RTLD_NOW | RTLD_LOCAL) };
    let library = ManuallyDrop::new(library.map_err(|error| loader_reason(&error))?);
    // SAFETY: the symbols are NVRTC's, whose C signatures are those of the table.
    let functions = unsafe { functions(&library) }?;
    let (mut major, mut minor) = (0, 0);
    // SAFETY: both pointers are valid for one int.
    let result = unsafe { (functions.version)(&raw mut major, &raw mut minor) };
    let version = Version { major: major.try_into().unwrap_or(0), minor: minor.try_into().unwrap_or(0) };
    if result != 0 || version.major < 12 {
        return Err(format!("is version {version}; 12.0 or newer is needed"));
    }
    let path = containing_file(functions.version as *const c_void).unwrap_or_else(|| PathBuf::from(file));
    preload_builtins(&path, version);
    Ok(Opened { functions, version, path })
}

/// Looks every function up.
///
/// # Safety
/// The library must be an NVRTC.
unsafe fn functions(library: &Library) -> Result<Functions, String> {
    // SAFETY: as promised by the caller, the symbol has the C signature of the field.
    unsafe {
        Ok(Functions {
            error_string: symbol(library, "nvrtcGetErrorString")?,
            version: symbol(library, "nvrtcVersion")?,
            create: symbol(library, "nvrtcCreateProgram")?,
            destroy: symbol(library, "nvrtcDestroyProgram")?,
            compile: symbol(library, "nvrtcCompileProgram")?,
            log_size: symbol(library, "nvrtcGetProgramLogSize")?,
            log: symbol(library, "nvrtcGetProgramLog")?,
            cubin_size: symbol(library, "nvrtcGetCUBINSize")?,
            cubin: symbol(library, "nvrtcGetCUBIN")?,
        })
    }
}

/// A function of a library.
///
/// # Safety
/// The symbol is absent, or a function of type `F`.
pub(crate) unsafe fn symbol<F: Copy>(library: &Library, name: &str) -> Result<F, String> {
    // SAFETY: as promised by the caller.
    let found = unsafe { library.get::<F>(name) };
    found.map(|symbol| *symbol).map_err(|_| format!("has no function {name}"))
}

/// Opens the part of NVRTC that it opens itself at the first compilation, by bare name: libraries without a run path
/// (the 13.0 wheel) find it only on the library path, or in the process. Absence shows in the first compilation.
fn preload_builtins(nvrtc: &Path, version: Version) {
    let file = nvrtc.with_file_name(format!("libnvrtc-builtins.so.{version}"));
    if file.is_file() {
        // SAFETY: as for NVRTC itself, of which it is a part.
        let _stays = ManuallyDrop::new(unsafe { Library::open(Some(file), RTLD_NOW | RTLD_LOCAL) });
    }
}

/// Path of the library a function lies in.
pub(crate) fn containing_file(function: *const c_void) -> Option<PathBuf> {
    #[repr(C)]
    struct DlInfo {
        file_name: *const c_char,
        file_base: *mut c_void,
        symbol_name: *const c_char,
        symbol_address: *mut c_void,
    }
    unsafe extern "C" {
        fn dladdr(address: *const c_void, info: *mut DlInfo) -> c_int;
    }
    let mut info = DlInfo {
        file_name: std::ptr::null(),
        file_base: std::ptr::null_mut(),
        symbol_name: std::ptr::null(),
        symbol_address: std::ptr::null_mut(),
    };
    // SAFETY: `info` is a valid `Dl_info` to write to; any address may be asked for.
    let found = unsafe { dladdr(function, &raw mut info) };
    if found == 0 || info.file_name.is_null() {
        return None;
    }
    // SAFETY: a string of the loader that lives as long as the library, which is never unloaded.
    let name = unsafe { CStr::from_ptr(info.file_name) };
    Some(PathBuf::from(OsStr::from_bytes(name.to_bytes())))
}

/// The loader's own words.
pub(crate) fn loader_reason(error: &libloading::Error) -> String {
    let cause = std::error::Error::source(error).map(ToString::to_string);
    cause.unwrap_or_else(|| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_nvrtc_is_refused_with_a_reason() {
        let missing = open(OsStr::new("libfusewright-no-such-library.so.1")).unwrap_err();
        assert!(missing.contains("libfusewright-no-such-library.so.1"), "{missing}");
        let text = tempfile::NamedTempFile::new().unwrap();
        assert!(open(text.path().as_os_str()).is_err());
        assert_eq!(open(OsStr::new("libc.so.6")).unwrap_err(), "has no function nvrtcGetErrorString");
    }
}
