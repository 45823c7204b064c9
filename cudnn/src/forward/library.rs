//! The real library, opened and never closed.

use std::ffi::{CStr, CString, c_void};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use crate::names;

/// An opened library.
pub(crate) struct Library(*mut c_void);

impl Library {
    /// Opens a cuDNN by its path, for itself alone: names of this process go on being this library's.
    ///
    /// # Errors
    /// Why it is not used: not loadable, this very library, or no cuDNN.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        if !path.is_absolute() {
            return Err("the path of the real cuDNN is to be absolute".to_owned());
        }
        let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| "a path has no zero byte".to_owned())?;
        // SAFETY: the initialisers of a cuDNN ask nothing of the process; whoever names another library answers for it.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err(reason());
        }
        let library = Self(handle);
        let create = library.symbol(c"cudnnCreate").ok_or("it is no cuDNN: it has no cudnnCreate")?;
        if create == names::cudnnCreate as *const c_void {
            return Err("it is this library, not a real cuDNN".to_owned());
        }
        Ok(library)
    }

    /// Where a name is.
    pub(crate) fn symbol(&self, name: &CStr) -> Option<*const c_void> {
        // SAFETY: the library is open, and the name ends with a zero byte.
        let found = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        (!found.is_null()).then_some(found.cast_const())
    }

    /// A function.
    ///
    /// # Safety
    /// `F` is a type of function pointer, and the signature of the name.
    pub(crate) unsafe fn function<F: Copy>(&self, name: &CStr) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<*const c_void>()) };
        let found = self.symbol(name)?;
        let mut function = MaybeUninit::<F>::uninit();
        // SAFETY: as promised by the caller: the address is that of such a function, and not null.
        unsafe {
            function.as_mut_ptr().cast::<*const c_void>().write(found);
            Some(function.assume_init())
        }
    }
}

/// What the loader says is wrong.
fn reason() -> String {
    // SAFETY: the loader's text for this thread, or null; it is copied before another call.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "it cannot be loaded".to_owned();
    }
    // SAFETY: as above, a string.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
