//! Runs rendered CUDA on the CPU.
//!
//! The very text that NVRTC compiles is compiled by a C++ compiler behind a header of ours (`templates/emulator`):
//! each CUDA thread becomes a fiber, blocks, or clusters of them, are spread over OS threads. Caught and reported as [`Error::Wrong`] with
//! block and thread: threads that diverge at a collective, deadlocks (with the phase of an mbarrier that is waited for),
//! threads that exit before a barrier, stores to a block of a cluster that may not have begun or has ended, writes outside shared memory or a tensor, misaligned accesses, flags that nobody
//! sets, indices outside local arrays, wide shifts, division by zero, shared memory that a TMA copy or a product of
//! matrices still reads or writes, accumulators used before their product is waited for, asynchronous work that nobody
//! waits for, and results that depend on the order of threads. Memory that nobody wrote is NaN;
//! shared memory is so under one order of threads, and numbers under the other.
//!
//! Not seen: speed, registers, the hardware's memory model (of `fence.proxy.async` only what `stmatrix` writes), the
//! tensor core's rounding of sums (here FP32, or exact), reads far outside a tensor (which end the process), and threads
//! that loop for ever without a collective (which never end).
//!
//! # When
//!
//! You need this to run a generated kernel where there is no GPU: slowly, and with every access checked. It takes a C++ compiler.
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use fusewright::graph::{DataType, Graph, PointwiseMode, Tensor};
//! # let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
//! # let a = graph.tensor(Tensor::new("a").row_major([1, 64, 128]));
//! # let b = graph.tensor(Tensor::new("b").row_major([1, 128, 32]));
//! # let c = graph.matmul("matmul", a, b);
//! # graph.set_output(c);
//! # let graph = Arc::new(graph.finalize()?);
//! use fusewright::build::Build;
//! use fusewright::device::{ComputeCapability, Device};
//! use fusewright::emulator::EmulatedKernel;
//! use fusewright::engine::select;
//! use fusewright::reference::{Distribution, random_inputs};
//!
//! let device = Device::typical(ComputeCapability::SM_90);
//! let build = Build::first(&select(&graph, device.capability)?, &device)?;
//! // SAFETY: the source was rendered from the graph that it is run for.
//! let kernel = unsafe { EmulatedKernel::compile(&build.source, std::path::Path::new("/tmp/emulated")) }?;
//! let outputs = kernel.run(&graph, &random_inputs(&graph, 0, Distribution::Normal)?)?;
//! assert_eq!(outputs.len(), 1);
//! # Ok::<(), fusewright::error::Error>(())
//! ```

mod artifact;
mod bindings;
mod compiler;
mod guarded;
mod library;
mod scalar;
mod tensor_map;

#[cfg(test)]
mod tests;

use std::path::Path;

use crate::codegen::Source;
use crate::compile::PrivateFolder;
use crate::error::{Error, Result};
use crate::graph::FinalizedGraph;
use crate::host_tensor::{HostTensor, HostTensors};
use crate::kernel::Launch;

use bindings::Bindings;
use compiler::Compiler;
use library::Library;

/// Order in which threads run: the two extremes between which the orders of a GPU lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Schedule {
    /// Blocks, warps and lanes ascend; asynchronous work ends as late as it may.
    Lazy,
    /// Blocks, warps and lanes descend; asynchronous work ends at once.
    Eager,
}

/// Generated source, compiled for the CPU.
#[derive(Debug)]
pub struct EmulatedKernel {
    library: Library,
    launches: Vec<Launch>,
    workspace_bytes: u64,
}

impl EmulatedKernel {
    /// Compiles `source`, or takes the compiled library from `cache_dir`, which is created where absent, for its user
    /// alone; any number of threads and processes of that user may share it.
    ///
    /// The compiler is the command in `$CXX`, else g++, c++ or clang++ of the absolute folders of the search path.
    ///
    /// # Errors
    /// [`Error::Environment`] if there is no C++ compiler, or if the directory cannot be written, belongs to another user
    /// or can be written by others, who could put code there; [`Error::Generated`] with the compiler's log if the source
    /// does not compile.
    ///
    /// # Safety
    /// The source was rendered from the lowering of a graph, and it is run for that graph: its text is compiled and
    /// executed as code of this process.
    pub unsafe fn compile(source: &Source, cache_dir: &Path) -> Result<Self> {
        Self::compile_with(&Compiler::find()?, source, cache_dir)
    }

    fn compile_with(compiler: &Compiler, source: &Source, cache_dir: &Path) -> Result<Self> {
        let folder = PrivateFolder::create(cache_dir).map_err(|error| artifact::cannot("use", cache_dir, error))?;
        let library = Library::open(&folder, &compiler.library(source, &folder)?)?;
        Ok(Self { library, launches: source.launches.clone(), workspace_bytes: source.workspace_bytes })
    }

    /// Runs all launches, once under each [`Schedule`], and gives the graph's results
    /// ([`FinalizedGraph::results`]: its outputs, and the flags that it sets).
    ///
    /// `inputs` holds the tensors the graph reads, with the graph's types, dims and strides; host scalars whose value
    /// the graph knows may be absent. Bytes of an output that no thread writes are `0xff`.
    ///
    /// # Errors
    /// [`Error::Input`] if an input is absent or of another layout; [`Error::Wrong`] if the kernel misbehaves, or if
    /// the two schedules give different bytes, other than those of two NaN.
    pub fn run(&self, graph: &FinalizedGraph, inputs: &HostTensors) -> Result<HostTensors> {
        let outputs = self.run_with(graph, inputs, Schedule::Lazy)?;
        let again = self.run_with(graph, inputs, Schedule::Eager)?;
        for (&id, output) in &outputs {
            require_same(&graph.describe_tensor(id), output, &again[&id])?;
        }
        Ok(outputs)
    }

    /// As [`run`](Self::run), once and under one schedule: for kernels whose result may depend on the order of atomic
    /// additions.
    ///
    /// # Errors
    /// As [`run`](Self::run), but for the comparison.
    pub fn run_with(&self, graph: &FinalizedGraph, inputs: &HostTensors, schedule: Schedule) -> Result<HostTensors> {
        let mut bindings = Bindings::of_graph(graph, inputs, &self.launches, self.workspace_bytes)?;
        self.execute(&mut bindings, schedule)?;
        Ok(bindings.into_outputs(graph))
    }

    fn execute(&self, bindings: &mut Bindings<'_>, schedule: Schedule) -> Result<()> {
        for launch in &self.launches {
            let arguments = bindings.arguments(launch)?;
            // SAFETY: the pointers among the arguments are to buffers of `bindings`, which outlive the call and to
            // which there are no references while it lasts.
            unsafe { self.library.launch(launch, &arguments, schedule) }?;
            bindings.check_after(launch)?;
        }
        Ok(())
    }
}

/// The C++ compiler that [`EmulatedKernel::compile`] would use: the first line of its `--version`.
///
/// # Errors
/// [`Error::Environment`] if there is none, with what was looked for.
pub fn compiler_version() -> Result<String> {
    Compiler::find().map(Compiler::into_version)
}

/// Removes what [`EmulatedKernel::compile`] keeps in a folder, and the folder where nothing else is in it.
///
/// # Errors
/// [`Error::Environment`] if a file cannot be removed, or the folder is not used since others may write there.
pub fn clear(cache_dir: &Path) -> Result<()> {
    match PrivateFolder::open(cache_dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        opened => opened
            .and_then(|folder| artifact::clear(&folder))
            .map_err(|error| artifact::cannot("empty", cache_dir, error)),
    }
}

/// Which NaN an element is says nothing: a product's sign is that of what it came from.
fn require_same(tensor: &str, lazy: &HostTensor, eager: &HostTensor) -> Result<()> {
    let is_nan = |side: &HostTensor, byte: usize| {
        let element = side.get(byte * 8 / side.data_type.bits() as usize);
        element.is_some_and(|element| element.as_f64().is_nan())
    };
    let differs =
        |byte: &usize| lazy.bytes[*byte] != eager.bytes[*byte] && !(is_nan(lazy, *byte) && is_nan(eager, *byte));
    match (0..lazy.bytes.len()).find(differs) {
        None => Ok(()),
        Some(byte) => Err(Error::Wrong(format!(
            "output {tensor} depends on the order in which threads run (byte {byte} differs): \
             a barrier is missing, threads write the same element, or shared memory is read that nobody wrote"
        ))),
    }
}
