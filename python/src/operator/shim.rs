//! PyTorch's C functions (`aoti_torch/c/shim.h`, `stable/c/shim.h`), found in the process: nothing is linked, so the package runs
//! without PyTorch and with versions that lack them.

use std::ffi::{c_char, c_void};
use std::sync::OnceLock;

use fusewright::graph::DataType;
use libloading::os::unix::{Library, RTLD_LAZY, RTLD_LOCAL};

use super::Outcome;

/// A tensor, a list, a string or a library of PyTorch.
pub(super) type Handle = *mut c_void;

/// Zero for success.
pub(super) type Status = i32;

/// A kernel as the dispatcher calls it: the stack has the arguments, and room for the results.
pub(super) type Kernel = unsafe extern "C-unwind" fn(*mut u64, u64, u64);

/// What this code follows: the headers of PyTorch 2.11, `TORCH_ABI_VERSION`.
const WRITTEN_FOR: u64 = 0x020b_0000_0000_0000;

/// Finds libraries of the process, and loads none; of `dlfcn.h` of glibc and musl.
const RTLD_NOLOAD: i32 = 4;

/// Types that graphs and PyTorch share, with the functions that tell PyTorch's numbers of them.
const DATA_TYPES: [(DataType, &str); 11] = [
    (DataType::Float, "aoti_torch_dtype_float32"),
    (DataType::Double, "aoti_torch_dtype_float64"),
    (DataType::Half, "aoti_torch_dtype_float16"),
    (DataType::BFloat16, "aoti_torch_dtype_bfloat16"),
    (DataType::Int8, "aoti_torch_dtype_int8"),
    (DataType::UInt8, "aoti_torch_dtype_uint8"),
    (DataType::Int32, "aoti_torch_dtype_int32"),
    (DataType::Int64, "aoti_torch_dtype_int64"),
    (DataType::Boolean, "aoti_torch_dtype_bool"),
    (DataType::Fp8E4M3, "aoti_torch_dtype_float8_e4m3fn"),
    (DataType::Fp8E5M2, "aoti_torch_dtype_float8_e5m2"),
];

/// Declares the table, and how it is filled. The headers say that no function throws; "C-unwind" makes it harmless where one does.
macro_rules! table {
    ($($(#[$about:meta])* $field:ident: $symbol:literal ($($argument:ty),*) -> $result:ty;)*) => {
        /// The functions, with the signatures of their headers.
        pub(super) struct Functions {
            $($(#[$about])* pub(super) $field: unsafe extern "C-unwind" fn($($argument),*) -> $result,)*
        }

        impl Functions {
            fn find(library: &Library) -> Outcome<Self> {
                Ok(Self {
                    // SAFETY: the library is PyTorch's, whose symbol of this name has the signature of the field.
                    $($field: unsafe { symbol(library, $symbol) }?,)*
                })
            }
        }
    };
}

table! {
    abi_version: "aoti_torch_abi_version" () -> u64;
    device_type_cpu: "aoti_torch_device_type_cpu" () -> i32;
    device_type_cuda: "aoti_torch_device_type_cuda" () -> i32;
    /// Namespace, dispatch key, file and line of the caller.
    library_for: "aoti_torch_library_init_impl" (*const c_char, *const c_char, *const c_char, u32, *mut Handle) -> Status;
    library_impl: "torch_library_impl" (Handle, *const c_char, Kernel, u64) -> Status;
    list_new: "torch_new_list_reserve_size" (usize, *mut Handle) -> Status;
    list_size: "torch_list_size" (Handle, *mut usize) -> Status;
    list_get: "torch_list_get_item" (Handle, usize, *mut u64) -> Status;
    list_push: "torch_list_push_back" (Handle, u64) -> Status;
    list_delete: "torch_delete_list" (Handle) -> Status;
    string_length: "torch_string_length" (Handle, *mut usize) -> Status;
    string_data: "torch_string_c_str" (Handle, *mut *const c_char) -> Status;
    string_delete: "torch_delete_string" (Handle) -> Status;
    delete: "aoti_torch_delete_tensor_object" (Handle) -> Status;
    data: "aoti_torch_get_data_ptr" (Handle, *mut *mut c_void) -> Status;
    rank: "aoti_torch_get_dim" (Handle, *mut i64) -> Status;
    sizes: "aoti_torch_get_sizes" (Handle, *mut *mut i64) -> Status;
    strides: "aoti_torch_get_strides" (Handle, *mut *mut i64) -> Status;
    data_type: "aoti_torch_get_dtype" (Handle, *mut i32) -> Status;
    device_type: "aoti_torch_get_device_type" (Handle, *mut i32) -> Status;
    device_index: "aoti_torch_get_device_index" (Handle, *mut i32) -> Status;
    /// Rank, extents, strides, type, device type, device index.
    empty: "aoti_torch_empty_strided" (i64, *const i64, *const i64, i32, i32, i32, *mut Handle) -> Status;
    /// Rank, extents, strides, elements between the first of the tensor and that of the view.
    view: "aoti_torch__reinterpret_tensor" (Handle, i64, *const i64, *const i64, i64, *mut Handle) -> Status;
    /// The tensor that is written, the one that is read.
    copy: "aoti_torch_copy_" (Handle, Handle, i32) -> Status;
}

/// PyTorch as the process has it.
pub(super) struct Shim {
    pub(super) functions: Functions,
    /// `libtorch_cpu`, by which the C++ runtime that PyTorch throws with is found, too.
    pub(super) library: Library,
    pub(super) cpu: i32,
    pub(super) cuda: i32,
    data_types: [i32; DATA_TYPES.len()],
}

impl Shim {
    /// Looked up once; the same answer from then on.
    pub(super) fn get() -> Outcome<&'static Self> {
        static FOUND: OnceLock<Outcome<Shim>> = OnceLock::new();
        FOUND.get_or_init(Self::find).as_ref().map_err(String::clone)
    }

    fn find() -> Outcome<Self> {
        let library = in_process("libtorch_cpu.so")?;
        let functions = Functions::find(&library)?;
        let mut data_types = [0; DATA_TYPES.len()];
        for (number, (_, name)) in data_types.iter_mut().zip(DATA_TYPES) {
            // SAFETY: PyTorch's symbols of these names are functions without arguments that give an `int32_t`.
            *number = unsafe { symbol::<unsafe extern "C-unwind" fn() -> i32>(&library, name)?() };
        }
        // SAFETY: the functions take nothing.
        let (cpu, cuda) = unsafe { ((functions.device_type_cpu)(), (functions.device_type_cuda)()) };
        Ok(Self { functions, library, cpu, cuda, data_types })
    }

    /// The version whose conventions PyTorch and this code both know.
    pub(super) fn version(&self) -> u64 {
        // SAFETY: the function takes nothing.
        WRITTEN_FOR.min(unsafe { (self.functions.abi_version)() })
    }

    /// PyTorch's number of a type.
    pub(super) fn number_of(&self, data_type: DataType) -> Option<i32> {
        Some(self.data_types[DATA_TYPES.iter().position(|(known, _)| *known == data_type)?])
    }

    /// The name of a type of PyTorch in messages.
    pub(super) fn name_of(&self, number: i32) -> String {
        let known = self.data_types.iter().position(|known| *known == number);
        known.map_or_else(|| format!("PyTorch's type {number}"), |position| DATA_TYPES[position].0.to_string())
    }
}

/// What became of a call. PyTorch writes what it threw to the standard error, and tells no more.
pub(super) fn checked(status: Status, what: &str) -> Outcome<()> {
    if status == 0 { Ok(()) } else { Err(not_done(what)) }
}

#[cold]
fn not_done(what: &str) -> String {
    format!("PyTorch could not {what}; what it threw is on the standard error")
}

/// Gives the `cudaStream_t` that is current on this thread for a device.
pub(super) type CurrentStream = unsafe extern "C-unwind" fn(i32, *mut *mut c_void) -> Status;

/// Absent in builds of PyTorch for the CPU.
pub(super) fn current_stream() -> Outcome<CurrentStream> {
    static FOUND: OnceLock<Outcome<(CurrentStream, Library)>> = OnceLock::new();
    let find = || {
        let library = in_process("libtorch_cuda.so")?;
        // SAFETY: PyTorch's symbol of this name has this signature.
        let function = unsafe { symbol(&library, "aoti_torch_get_current_cuda_stream") }?;
        Ok((function, library))
    };
    FOUND.get_or_init(find).as_ref().map(|found| found.0).map_err(String::clone)
}

/// A library of the process, which stays.
fn in_process(name: &str) -> Outcome<Library> {
    // SAFETY: no library is loaded, so no initialiser runs.
    let found = unsafe { Library::open(Some(name), RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD) };
    found.map_err(|_| format!("{name} is not in the process"))
}

/// A function of a library.
///
/// # Safety
/// The symbol is absent, or a function of type `F`.
pub(super) unsafe fn symbol<F: Copy>(library: &Library, name: &str) -> Outcome<F> {
    // SAFETY: as promised by the caller.
    let found = unsafe { library.get::<F>(name) };
    found.map(|symbol| *symbol).map_err(|_| format!("PyTorch has no {name}"))
}
