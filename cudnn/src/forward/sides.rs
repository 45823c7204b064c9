//! The two libraries that a descriptor may be of, and descriptors of one.

use std::ffi::{CStr, c_char, c_uint, c_void};
use std::fmt;
use std::ptr;
use std::sync::OnceLock;

use fusewright::capi;

use super::library::Library;
use super::numbers::{status, type_of};

/// A handle or a descriptor, as the ABI passes it.
pub(crate) type Pointer = *mut c_void;

/// A function that a program has called about what it logs, for it to be passed on.
pub(crate) type Callback = Option<unsafe extern "C" fn(c_uint, Pointer, *const c_void, *const c_char)>;

/// One of the two libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The real cuDNN, whose word counts where both have one.
    Real,
    /// `fusewright::capi`.
    Ours,
}

impl Side {
    pub(crate) const BOTH: [Self; 2] = [Self::Real, Self::Ours];

    pub(crate) fn other(self) -> Self {
        match self {
            Self::Real => Self::Ours,
            Self::Ours => Self::Real,
        }
    }

    /// What traces and messages call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Real => "cudnn",
            Self::Ours => "fusewright",
        }
    }

    pub(crate) fn functions(self) -> &'static Functions {
        match self {
            Self::Real => REAL.get().unwrap_or(&OURS),
            Self::Ours => &OURS,
        }
    }

    /// The text of its latest failure on this thread, which is forgotten there.
    pub(crate) fn take_error(self) -> String {
        let mut text: [c_char; 4096] = [0; 4096];
        // SAFETY: there is room for so many bytes; the last stays zero.
        unsafe {
            (self.functions().last_error)(text.as_mut_ptr(), text.len() - 1);
            CStr::from_ptr(text.as_ptr()).to_string_lossy().into_owned()
        }
    }

    /// A status of it, with its reason where it is none of success.
    pub(crate) fn check(self, status: u32) -> Result<(), Refusal> {
        if status == status::SUCCESS {
            return Ok(());
        }
        Err(Refusal { side: self, status, text: self.take_error() })
    }
}

/// That a side does not do what was asked, and why.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) side: Side,
    pub(crate) status: u32,
    pub(crate) text: String,
}

impl Refusal {
    pub(crate) fn new(side: Side, status: u32, text: impl Into<String>) -> Self {
        Self { side, status, text: text.into() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.side.name();
        if self.text.is_empty() {
            write!(f, "{name}: status {}", self.status)
        } else {
            write!(f, "{name}: {}", self.text)
        }
    }
}

/// A function of executions: handle, plan and variant pack.
pub(crate) type Execute = unsafe extern "C" fn(Pointer, Pointer, Pointer) -> u32;
/// The same with a CUDA graph.
pub(crate) type OfCudaGraph = unsafe extern "C" fn(Pointer, Pointer, Pointer, Pointer) -> u32;

/// The functions of a side that take handles or descriptors.
pub(crate) struct Functions {
    pub(crate) create_handle: unsafe extern "C" fn(*mut Pointer) -> u32,
    pub(crate) destroy_handle: unsafe extern "C" fn(Pointer) -> u32,
    pub(crate) set_stream: unsafe extern "C" fn(Pointer, Pointer) -> u32,
    pub(crate) get_stream: unsafe extern "C" fn(Pointer, *mut Pointer) -> u32,
    create: unsafe extern "C" fn(u32, *mut Pointer) -> u32,
    destroy: unsafe extern "C" fn(Pointer) -> u32,
    initialize: unsafe extern "C" fn(Pointer) -> u32,
    set: unsafe extern "C" fn(Pointer, u32, u32, i64, *const c_void) -> u32,
    get: unsafe extern "C" fn(Pointer, u32, u32, i64, *mut i64, Pointer) -> u32,
    finalize: unsafe extern "C" fn(Pointer) -> u32,
    pub(crate) execute: Execute,
    /// Since cuDNN 9.5.
    pub(crate) populate: Option<OfCudaGraph>,
    pub(crate) update: Option<OfCudaGraph>,
    /// Since cuDNN 9.23.
    pub(crate) workspace_of: Option<unsafe extern "C" fn(Pointer, Pointer, Pointer, *mut usize) -> u32>,
    pub(crate) set_callback: Option<unsafe extern "C" fn(c_uint, Pointer, Callback) -> u32>,
    pub(crate) version: unsafe extern "C" fn() -> usize,
    last_error: unsafe extern "C" fn(*mut c_char, usize),
}

static REAL: OnceLock<Functions> = OnceLock::new();

/// Takes the functions of the real library.
///
/// # Errors
/// Which function it lacks that forwarding needs: versions of cuDNN before 9 do.
pub(crate) fn set_real(library: &Library) -> Result<(), String> {
    let missing = |name: &CStr| format!("it has no {}; a cuDNN 9 is wanted", name.to_string_lossy());
    macro_rules! required {
        ($name:literal) => {
            library.function($name).ok_or_else(|| missing($name))?
        };
    }
    // SAFETY: the functions of a cuDNN have the ABI's signatures.
    let functions = unsafe {
        Functions {
            create_handle: required!(c"cudnnCreate"),
            destroy_handle: required!(c"cudnnDestroy"),
            set_stream: required!(c"cudnnSetStream"),
            get_stream: required!(c"cudnnGetStream"),
            create: required!(c"cudnnBackendCreateDescriptor"),
            destroy: required!(c"cudnnBackendDestroyDescriptor"),
            initialize: required!(c"cudnnBackendInitialize"),
            set: required!(c"cudnnBackendSetAttribute"),
            get: required!(c"cudnnBackendGetAttribute"),
            finalize: required!(c"cudnnBackendFinalize"),
            execute: required!(c"cudnnBackendExecute"),
            populate: library.function(c"cudnnBackendPopulateCudaGraph"),
            update: library.function(c"cudnnBackendUpdateCudaGraph"),
            workspace_of: library.function(c"cudnnGetExecutionPlanWorkspaceSize"),
            set_callback: library.function(c"cudnnSetCallback"),
            version: required!(c"cudnnGetVersion"),
            last_error: required!(c"cudnnGetLastErrorString"),
        }
    };
    let _ = REAL.set(functions);
    Ok(())
}

/// Makes functions of our side whose status is a number, as the real library's has to be: a newer one has statuses that no
/// enumeration here knows.
macro_rules! ours {
    ($($short:ident = $function:ident($($argument:ident: $kind:ty),*);)*) => {
        $(
            unsafe extern "C" fn $short($($argument: $kind),*) -> u32 {
                // SAFETY: as promised by the caller.
                #[allow(unused_unsafe, reason = "some of the functions ask nothing of their callers")]
                let status = unsafe { capi::$function($($argument),*) };
                status as u32
            }
        )*
    };
}

ours! {
    create_handle = cudnnCreate(handle: *mut Pointer);
    destroy_handle = cudnnDestroy(handle: Pointer);
    set_stream = cudnnSetStream(handle: Pointer, stream: Pointer);
    get_stream = cudnnGetStream(handle: Pointer, stream: *mut Pointer);
    create = cudnnBackendCreateDescriptor(kind: u32, made: *mut Pointer);
    destroy = cudnnBackendDestroyDescriptor(descriptor: Pointer);
    initialize = cudnnBackendInitialize(descriptor: Pointer);
    set = cudnnBackendSetAttribute(descriptor: Pointer, name: u32, of_type: u32, count: i64, elements: *const c_void);
    get = cudnnBackendGetAttribute(
        descriptor: Pointer, name: u32, of_type: u32, room: i64, count: *mut i64, elements: Pointer
    );
    finalize = cudnnBackendFinalize(descriptor: Pointer);
    execute = cudnnBackendExecute(handle: Pointer, plan: Pointer, pack: Pointer);
    populate = cudnnBackendPopulateCudaGraph(handle: Pointer, plan: Pointer, pack: Pointer, graph: Pointer);
    update = cudnnBackendUpdateCudaGraph(handle: Pointer, plan: Pointer, pack: Pointer, graph: Pointer);
}

unsafe extern "C" fn version() -> usize {
    capi::cudnnGetVersion()
}

unsafe extern "C" fn last_error(message: *mut c_char, room: usize) {
    // SAFETY: as promised by the caller.
    unsafe { capi::cudnnGetLastErrorString(message, room) };
}

static OURS: Functions = Functions {
    create_handle,
    destroy_handle,
    set_stream,
    get_stream,
    create,
    destroy,
    initialize,
    set,
    get,
    finalize,
    execute,
    populate: Some(populate),
    update: Some(update),
    workspace_of: None,
    set_callback: None,
    version,
    last_error,
};

/// The version of the real library, as a number.
pub(crate) fn real_version() -> usize {
    // SAFETY: the function asks nothing.
    unsafe { (Side::Real.functions().version)() }
}

/// A descriptor of one side, destroyed with this value.
pub(crate) struct Half {
    side: Side,
    /// Not null, and not followed here.
    address: usize,
}

impl Half {
    /// A new descriptor of a kind.
    pub(crate) fn new(side: Side, kind: u32) -> Result<Self, Refusal> {
        let mut made: Pointer = ptr::null_mut();
        // SAFETY: there is room for a pointer.
        side.check(unsafe { (side.functions().create)(kind, &raw mut made) })?;
        Ok(Self { side, address: made.expose_provenance() })
    }

    pub(crate) fn side(&self) -> Side {
        self.side
    }

    /// The side's descriptor, as long as this value lives.
    pub(crate) fn pointer(&self) -> Pointer {
        ptr::with_exposed_provenance_mut(self.address)
    }

    /// Sets an attribute.
    ///
    /// # Safety
    /// `elements` points to so many elements of the type, descriptors and handles being this side's, or is null; texts come from
    /// that side.
    pub(crate) unsafe fn set(
        &self,
        name: u32,
        of_type: u32,
        count: i64,
        elements: *const c_void,
    ) -> Result<(), Refusal> {
        // SAFETY: as promised by the caller; the descriptor is alive.
        self.side.check(unsafe { (self.side.functions().set)(self.pointer(), name, of_type, count, elements) })
    }

    /// Gets an attribute.
    ///
    /// # Safety
    /// `elements` has room for `room` elements of the type, descriptors being this side's, or is null; `count` is null or has room.
    pub(crate) unsafe fn get(
        &self,
        name: u32,
        of_type: u32,
        room: i64,
        count: *mut i64,
        elements: Pointer,
    ) -> Result<(), Refusal> {
        // SAFETY: as promised by the caller; the descriptor is alive.
        self.side.check(unsafe { (self.side.functions().get)(self.pointer(), name, of_type, room, count, elements) })
    }

    /// Gets one number.
    pub(crate) fn number(&self, name: u32) -> Result<i64, Refusal> {
        let (mut number, mut count) = (0_i64, 0_i64);
        // SAFETY: there is room for one INT64, and for the count.
        unsafe { self.get(name, type_of::INT64, 1, &raw mut count, (&raw mut number).cast()) }?;
        Ok(number)
    }

    /// Gets one descriptor of a kind, as a descriptor of its own.
    pub(crate) fn referred(&self, name: u32, kind: u32) -> Result<Self, Refusal> {
        let made = Self::new(self.side, kind)?;
        let found = self.fill(name, &[made.pointer()])?;
        if found == 0 {
            return Err(Refusal::new(self.side, status::BAD_PARAM, "there is none"));
        }
        Ok(made)
    }

    /// Has descriptors of this side become those that an attribute has; gives how many did.
    pub(crate) fn fill(&self, name: u32, targets: &[Pointer]) -> Result<usize, Refusal> {
        let mut targets = targets.to_vec();
        let (room, mut count) = (targets.len(), 0_i64);
        let elements = targets.as_mut_ptr().cast();
        // SAFETY: there are so many descriptors of this side, which their owners keep alive, and there is room for the count.
        unsafe { self.get(name, type_of::DESCRIPTOR, room as i64, &raw mut count, elements) }?;
        Ok(usize::try_from(count).unwrap_or(0).min(room))
    }

    /// How many elements an attribute of descriptors has.
    pub(crate) fn count(&self, name: u32) -> Result<usize, Refusal> {
        let mut count = 0_i64;
        // SAFETY: there is room for the count, and for nothing else.
        unsafe { self.get(name, type_of::DESCRIPTOR, 0, &raw mut count, ptr::null_mut()) }?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    pub(crate) fn finalize(&self) -> Result<(), Refusal> {
        // SAFETY: the descriptor is alive.
        self.side.check(unsafe { (self.side.functions().finalize)(self.pointer()) })
    }

    /// Makes it as it was when it was created.
    pub(crate) fn initialize(&self) -> Result<(), Refusal> {
        // SAFETY: the descriptor is alive.
        self.side.check(unsafe { (self.side.functions().initialize)(self.pointer()) })
    }
}

impl Drop for Half {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once.
        unsafe { (self.side.functions().destroy)(self.pointer()) };
    }
}
