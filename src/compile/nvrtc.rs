//! NVRTC: found, and made to compile.

use std::ffi::{CStr, CString, c_char, c_int};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use cudarc::nvrtc::sys::{nvrtcProgram, nvrtcResult};

use super::library::{self, Functions, Opened};
use super::programs::Work;
use super::search::{self, Surroundings};
use super::{Cubin, Options, architectures, log};
use crate::device::ComputeCapability;
use crate::error::Error;

/// How NVRTC comes to a machine that has none.
const MEND: &str = "install it with 'python3 -m pip install nvidia-cuda-nvrtc==13.0.88' (sm_70 and sm_72: \
                    nvidia-cuda-nvrtc-cu12==12.9.86), or set FUSEWRIGHT_NVRTC to the folder that holds libnvrtc.so.13";

/// Stack of the compiling thread, in bytes: NVRTC recurses over the source, on a stack that a caller may have made
/// small. Pages that are not used cost nothing.
const STACK_BYTES: usize = 64 << 20;

/// Version of a toolkit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Generation; NVRTC's file is named after it.
    pub major: u32,
    /// Release.
    pub minor: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The CUDA runtime compiler, loaded. Cheap to clone; compiles on several threads at once without a lock.
#[derive(Clone, Debug)]
pub struct Nvrtc {
    library: Opened,
    bytes: u64,
}

impl Nvrtc {
    /// The first NVRTC found. Places, in order: `FUSEWRIGHT_NVRTC`; the loader's own search; `lib64` of `CUDA_HOME`,
    /// of `CUDA_PATH` and of `/usr/local/cuda`; Python's packages; `.nv/` of the repository whose `target/` holds the program.
    /// Every place is asked for 13.x first, then for 12.x. The working directory is no place: relative paths count in
    /// `FUSEWRIGHT_NVRTC` alone.
    ///
    /// # Errors
    /// [`Error::Environment`] lists every place and what was wrong with it; so does a `FUSEWRIGHT_NVRTC` that holds no
    /// NVRTC at all.
    pub fn load() -> Result<Self, Error> {
        Self::find("NVRTC", |_| Ok(()))
    }

    /// The first NVRTC of a major version, 12 or 13. Several may be loaded in one process.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn load_version(major: u32) -> Result<Self, Error> {
        let check = |version: Version| (version.major == major).then_some(()).ok_or_else(|| "is not asked for".into());
        Self::find(&format!("NVRTC {major}.x"), check)
    }

    /// The first NVRTC that compiles for a chip.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn load_for(capability: ComputeCapability) -> Result<Self, Error> {
        let wanted = format!("NVRTC for {capability} (version {})", architectures::needed(capability));
        let check = |version| {
            let supports = architectures::supports(version, capability);
            supports.then_some(()).ok_or_else(|| format!("does not know {capability}"))
        };
        Self::find(&wanted, check)
    }

    fn find(wanted: &str, check: impl Fn(Version) -> Result<(), String>) -> Result<Self, Error> {
        let around = Surroundings::of_process();
        let chosen = search::chosen(&around);
        if !chosen.is_empty() {
            // What is asked for by name and cannot be had is an error, even if another place has something.
            find_among("NVRTC of FUSEWRIGHT_NVRTC", &chosen, |_| Ok(()))?;
        }
        let candidates: Vec<_> = chosen.into_iter().chain(search::usual(&around)).collect();
        find_among(wanted, &candidates, check)
    }

    /// Version, as the library says it.
    pub fn version(&self) -> Version {
        self.library.version
    }

    /// The library's file.
    pub fn path(&self) -> &Path {
        &self.library.path
    }

    /// Tells builds of NVRTC apart: version, and size of the library, since patch releases share a version.
    pub(super) fn identity(&self) -> String {
        format!("{} ({} bytes)", self.version(), self.bytes)
    }

    /// Whether this version compiles for a chip: sm_70 and sm_72 with 12.x only.
    pub fn supports(&self, capability: ComputeCapability) -> bool {
        architectures::supports(self.version(), capability)
    }

    /// Compiles a source without headers for one exact chip, its programs at once where cores are free for them. `name` is what error messages call the file.
    ///
    /// # Errors
    /// [`Error::Generated`], with the log and the place the source was written to, where the source does not compile;
    /// [`Error::Environment`] where this NVRTC does not know the chip, lacks its builtins or runs out of memory.
    pub fn compile(
        &self,
        text: &str,
        capability: ComputeCapability,
        name: &str,
        options: &Options,
    ) -> Result<Cubin, Error> {
        if !self.supports(capability) {
            let needed = architectures::needed(capability);
            let version = self.version();
            let message = format!("NVRTC {version} does not compile for {capability}; required: version {needed}");
            return Err(Error::environment(message));
        }
        let arguments = options.arguments(self.version(), capability);
        let work = if options.in_one_program { Work::whole(text) } else { Work::of(text) };
        self.compile_programs(work.programs(), name, &arguments)
    }

    /// Compiles programs at once, each in a thread of its own.
    fn compile_programs(&self, programs: &[String], name: &str, arguments: &[String]) -> Result<Cubin, Error> {
        let (start, span) = (Instant::now(), tracing::Span::current());
        let compile = &|text: &str| span.in_scope(|| compile(&self.library.functions, text, name, arguments));
        let compiled = std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for program in programs {
                let thread = std::thread::Builder::new().name("nvrtc".to_owned()).stack_size(STACK_BYTES);
                let started = thread.spawn_scoped(scope, move || compile(program));
                threads.push(started.map_err(|error| Error::Environment {
                    message: "cannot start a thread for the compiler".to_owned(),
                    source: Some(Box::new(error)),
                })?);
            }
            let outcomes = threads.into_iter().map(|thread| thread.join());
            outcomes
                .map(|outcome| outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect::<Result<Vec<_>, Error>>()
        })?;
        Ok(Cubin::of_programs(compiled, start.elapsed().as_secs_f64() * 1e3))
    }
}

/// The first candidate that opens and passes the check.
fn find_among(
    wanted: &str,
    candidates: &[search::Candidate],
    check: impl Fn(Version) -> Result<(), String>,
) -> Result<Nvrtc, Error> {
    let mut looked_at = String::new();
    let mut absent_in = None;
    for candidate in candidates {
        let Some(file) = candidate.to_open() else {
            // Once a folder, not once a file name.
            if absent_in != Some(candidate.place()) {
                absent_in = Some(candidate.place());
                looked_at.push_str(&format!("\n  {}: not there", candidate.place()));
            }
            continue;
        };
        let opened = library::open(file).and_then(|library| check(library.version).map(|()| library));
        match opened {
            Ok(library) => {
                tracing::debug!(path = %library.path.display(), version = %library.version, "NVRTC found");
                let bytes = std::fs::metadata(&library.path).map_or(0, |metadata| metadata.len());
                return Ok(Nvrtc { library, bytes });
            }
            Err(reason) => looked_at.push_str(&format!("\n  {candidate}: {reason}")),
        }
    }
    Err(Error::environment(format!("{wanted} was not found; {MEND}; looked at:{looked_at}")))
}

/// A program of NVRTC, destroyed at the end.
struct Program<'a> {
    functions: &'a Functions,
    handle: nvrtcProgram,
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle was created by the same library and is destroyed once.
        unsafe { (self.functions.destroy)(&raw mut self.handle) };
    }
}

impl<'a> Program<'a> {
    fn create(functions: &'a Functions, text: &CStr, name: &CStr) -> Result<Self, c_int> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: the strings end with NUL and outlive the call; no headers are given.
        let result = unsafe {
            let no_headers = std::ptr::null();
            (functions.create)(&raw mut handle, text.as_ptr(), name.as_ptr(), 0, no_headers, no_headers)
        };
        if result == 0 { Ok(Self { functions, handle }) } else { Err(result) }
    }

    fn compile(&self, arguments: &[CString]) -> Result<(), c_int> {
        let pointers: Vec<*const c_char> = arguments.iter().map(|argument| argument.as_ptr()).collect();
        // SAFETY: the handle is live; there are as many pointers as stated, each to a string that outlives the call.
        let result = unsafe { (self.functions.compile)(self.handle, pointers.len() as c_int, pointers.as_ptr()) };
        if result == 0 { Ok(()) } else { Err(result) }
    }

    fn log(&self) -> String {
        let log = self.read(self.functions.log_size, self.functions.log).unwrap_or_default();
        String::from_utf8_lossy(log.strip_suffix(b"\0").unwrap_or(&log)).into_owned()
    }

    fn cubin(&self) -> Result<Vec<u8>, c_int> {
        self.read(self.functions.cubin_size, self.functions.cubin)
    }

    fn read(
        &self,
        size: unsafe extern "C" fn(nvrtcProgram, *mut usize) -> c_int,
        read: unsafe extern "C" fn(nvrtcProgram, *mut c_char) -> c_int,
    ) -> Result<Vec<u8>, c_int> {
        let mut bytes = 0;
        // SAFETY: the handle is live and the size may be written.
        let result = unsafe { size(self.handle, &raw mut bytes) };
        if result != 0 {
            return Err(result);
        }
        let mut buffer = vec![0u8; bytes];
        // SAFETY: the buffer has the size that the library asked for.
        let result = unsafe { read(self.handle, buffer.as_mut_ptr().cast()) };
        if result == 0 { Ok(buffer) } else { Err(result) }
    }
}

fn compile(functions: &Functions, text: &str, name: &str, arguments: &[String]) -> Result<Cubin, Error> {
    let start = Instant::now();
    let failed = |result, log| failure(functions, result, text, name, arguments, log);
    let Ok(source) = CString::new(text) else {
        return Err(failed(nvrtcResult::NVRTC_ERROR_INVALID_INPUT as c_int, "the source contains NUL".to_owned()));
    };
    let c_name = c_string(name);
    let program = Program::create(functions, &source, &c_name).map_err(|result| failed(result, String::new()))?;
    let c_arguments: Vec<CString> = arguments.iter().map(|argument| c_string(argument)).collect();
    let outcome = program.compile(&c_arguments);
    let log = program.log();
    let image = match outcome.and_then(|()| program.cubin()) {
        Ok(image) if !image.is_empty() => image,
        Ok(_) => return Err(failed(nvrtcResult::NVRTC_ERROR_INTERNAL_ERROR as c_int, log)),
        Err(result) => return Err(failed(result, log)),
    };
    let milliseconds = start.elapsed().as_secs_f64() * 1e3;
    tracing::debug!(name, milliseconds, bytes = image.len(), "compiled");
    Ok(Cubin { images: vec![image], resources: log::resources(&log), warnings: log::warnings(&log), log, milliseconds })
}

/// Without NUL, which no file name or option of ours has.
fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', "")).expect("no NUL is left")
}

/// Whose fault it is: the machine's, or that of the generated source or its options.
fn failure(functions: &Functions, result: c_int, text: &str, name: &str, arguments: &[String], log: String) -> Error {
    let code = error_name(functions, result);
    const OUT_OF_MEMORY: c_int = nvrtcResult::NVRTC_ERROR_OUT_OF_MEMORY as c_int;
    const NO_BUILTINS: c_int = nvrtcResult::NVRTC_ERROR_BUILTIN_OPERATION_FAILURE as c_int;
    if result == OUT_OF_MEMORY {
        return Error::environment(format!("NVRTC ran out of memory ({code})"));
    }
    if result == NO_BUILTINS {
        let hint = "libnvrtc-builtins must lie beside libnvrtc; reinstall NVRTC";
        return Error::environment(format!("NVRTC lacks a part of itself ({code}): {}; {hint}", log.trim()));
    }
    let source_path = dump(text, name);
    let place = match &source_path {
        Some(path) => format!("; the source is in {}", path.display()),
        None => "; the source could not be written to the temporary folder".to_owned(),
    };
    let name = name.escape_debug();
    let message = format!("NVRTC refused '{name}' ({code}) with options {}{place}", arguments.join(" "));
    Error::Generated { message, log, source_path }
}

fn error_name(functions: &Functions, result: c_int) -> String {
    // SAFETY: any code may be asked for; the answer is a static string, or null.
    unsafe {
        let text = (functions.error_string)(result);
        if text.is_null() { format!("code {result}") } else { CStr::from_ptr(text).to_string_lossy().into_owned() }
    }
}

/// Keeps a source for inspection in a fresh file of the temporary folder.
fn dump(text: &str, name: &str) -> Option<PathBuf> {
    let legible: String = name.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').take(40).collect();
    let prefix = format!("fusewright-{legible}-");
    let mut file = tempfile::Builder::new().prefix(&prefix).suffix(".cu").tempfile().ok()?;
    std::io::Write::write_all(&mut file, text.as_bytes()).ok()?;
    file.keep().ok().map(|(_, path)| path)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::programs;
    use super::super::testing::nvrtc_or_skip;
    use super::search::Candidate;
    use super::*;

    const SCALE: &str = "extern \"C\" __global__ void scale(float* x, float a)\n\
                         {\n    __shared__ float s[64];\n    s[threadIdx.x] = x[threadIdx.x];\n\
                         __syncthreads();\n    x[threadIdx.x] = a * s[threadIdx.x ^ 1];\n}\n";

    fn compile_scale(nvrtc: &Nvrtc, capability: ComputeCapability) -> Cubin {
        let cubin =
            nvrtc.compile(SCALE, capability, "scale.cu", &Options { no_cache: true, ..Options::default() }).unwrap();
        assert!(matches!(&*cubin.images, [image] if image.starts_with(b"\x7fELF")), "{capability}");
        assert_eq!(cubin.resources.len(), 1, "{}", cubin.log);
        let resources = &cubin.resources[0];
        assert_eq!((resources.function.as_str(), resources.shared), ("scale", 256), "{}", cubin.log);
        assert!(resources.registers > 0 && resources.spill_stores == 0, "{}", cubin.log);
        cubin
    }

    #[test]
    fn programs_of_a_source_are_images_of_their_own_and_errors_say_their_lines() {
        let Some(nvrtc) = nvrtc_or_skip(|| Nvrtc::load_for(ComputeCapability::SM_90)) else { return };
        let source = |second: &str| {
            let function = |name: &str, body: &str| {
                format!("//@ program\nextern \"C\" __global__ void {name}(float* y) {{\n{body};\n}}\n")
            };
            format!(
                "__device__ float one() {{ return 1.0f; }}\n{}{}",
                function("a", "*y = one()"),
                function("b", second)
            )
        };
        let arguments =
            Options { no_cache: true, ..Options::default() }.arguments(nvrtc.version(), ComputeCapability::SM_90);
        let compile = |text: &str| nvrtc.compile_programs(&programs::of(text), "k.cu", &arguments);
        let cubin = compile(&source("*y = 2.0f * one()")).unwrap();
        assert_eq!(cubin.images.len(), 2);
        assert!(cubin.images.iter().all(|image| image.starts_with(b"\x7fELF")));
        let functions: Vec<&str> = cubin.resources.iter().map(|function| function.function.as_str()).collect();
        assert_eq!(functions, ["a", "b"]);
        let error = compile(&source("wrong")).unwrap_err();
        let Error::Generated { log, source_path: Some(path), .. } = error else { panic!("{error}") };
        std::fs::remove_file(path).unwrap();
        assert!(log.contains("k.cu(8): error"), "{log}");
    }

    #[test]
    fn version_13_compiles_for_turing_to_hopper_and_repeats_itself() {
        let Some(nvrtc) = nvrtc_or_skip(|| Nvrtc::load_version(13)) else { return };
        assert_eq!(nvrtc.version().major, 13);
        assert!(nvrtc.path().is_file(), "{}", nvrtc.path().display());
        for (major, minor) in [(7, 5), (8, 0), (8, 6), (8, 9), (9, 0)] {
            compile_scale(&nvrtc, ComputeCapability::new(major, minor));
        }
        let hopper = compile_scale(&nvrtc, ComputeCapability::SM_90);
        assert_eq!(hopper.images, compile_scale(&nvrtc, ComputeCapability::SM_90).images);
        assert!(hopper.log.contains("sm_90a"), "{}", hopper.log);
    }

    #[test]
    fn version_12_compiles_for_volta_beside_version_13() {
        let Some(nvrtc) = nvrtc_or_skip(|| Nvrtc::load_for(ComputeCapability::new(7, 0))) else { return };
        let Some(newer) = nvrtc_or_skip(|| Nvrtc::load_version(13)) else { return };
        assert_eq!(nvrtc.version().major, 12);
        compile_scale(&nvrtc, ComputeCapability::new(7, 0));
        compile_scale(&newer, ComputeCapability::SM_90);
        compile_scale(&nvrtc, ComputeCapability::SM_90);
        let refused = newer.compile(SCALE, ComputeCapability::new(7, 0), "scale.cu", &Options::default());
        let message = refused.unwrap_err().to_string();
        assert!(message.contains("required: version 12.0 or newer, before 13.0"), "{message}");
    }

    #[test]
    fn threads_compile_at_once() {
        let Some(nvrtc) = nvrtc_or_skip(Nvrtc::load) else { return };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| compile_scale(&nvrtc, ComputeCapability::new(8, 0)));
            }
        });
    }

    #[test]
    fn a_refused_source_is_kept_for_inspection() {
        let Some(nvrtc) = nvrtc_or_skip(Nvrtc::load) else { return };
        let text = "__global__ void f() {\n#line 7 \"gemm.cu.tera\"\n    nope;\n}\n";
        let error = nvrtc.compile(text, ComputeCapability::SM_90, "../x\u{1b}.cu", &Options::default()).unwrap_err();
        let Error::Generated { message, log, source_path: Some(path) } = error else { panic!("{error}") };
        assert!(log.contains("gemm.cu.tera(7): error"), "{log}");
        assert!(message.contains("NVRTC_ERROR_COMPILATION") && message.contains("-arch=sm_90a"), "{message}");
        assert!(message.contains(path.to_str().unwrap()) && !message.contains('\u{1b}'), "{message}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_source_with_nul_is_refused() {
        let Some(nvrtc) = nvrtc_or_skip(Nvrtc::load) else { return };
        let error = nvrtc.compile("a\0b", ComputeCapability::SM_90, "k.cu", &Options::default()).unwrap_err();
        let Error::Generated { log, source_path: Some(path), .. } = error else { panic!("{error}") };
        assert_eq!(log, "the source contains NUL");
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn absence_names_every_place_and_the_remedy() {
        let places = [
            Candidate::Name("libnvrtc-of-nobody.so.13".to_owned()),
            Candidate::File(Path::new("/nowhere/libnvrtc.so.13").to_owned()),
            Candidate::File(Path::new("/nowhere/libnvrtc.so.12").to_owned()),
            Candidate::Name("libc.so.6".to_owned()),
        ];
        let error = find_among("NVRTC", &places, |_| Ok(())).unwrap_err();
        assert_eq!(error.exit_code(), 3);
        let message = error.to_string();
        assert_eq!(message.matches("/nowhere: not there").count(), 1, "{message}");
        assert!(message.contains("libnvrtc-of-nobody.so.13 on the library path: "), "{message}");
        assert!(message.contains("libc.so.6 on the library path: has no function"), "{message}");
        assert!(message.contains("pip install nvidia-cuda-nvrtc==13.0.88"), "{message}");
    }
}
