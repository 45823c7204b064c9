//! Hand-written kernels over the primitives of sm_90a: single products, rings of stages, boxes of TMA, clusters. Integers all, so
//! that every byte of a result is known; every tier runs the same text.

mod boxes;
mod bytes;
mod clusters;
mod matrices;
mod products;
mod ring;

use std::sync::Arc;

use fusewright::codegen::{Source, device_code};
use fusewright::compile::Request;
use fusewright::device::ComputeCapability;
use fusewright::graph::{DataType, FinalizedGraph, Graph, Tensor, TensorId};
use fusewright::host_tensor::{HostTensor, HostTensors};
use fusewright::kernel::{Launch, Parameter};
use libtest_mimic::{Failed, Trial};

/// A kernel with its inputs, and what it must write.
pub(crate) struct KernelTest {
    /// A product C = A·B, which only carries the kernel's tensors.
    pub(crate) graph: Arc<FinalizedGraph>,
    pub(crate) source: Source,
    pub(crate) inputs: HostTensors,
    /// Every byte of C.
    expected: Vec<u8>,
}

impl KernelTest {
    /// What a compiler is asked for.
    pub(crate) fn request(&self, capability: ComputeCapability) -> Request<'_> {
        let (graph, source) = (self.graph.key(), &self.source.text);
        Request { graph, engine: "by hand", config: "", source, capability }
    }
}

/// A test by its name; made when it is run.
struct Case {
    name: String,
    make: Box<dyn Fn() -> Result<KernelTest, Failed> + Send>,
}

impl Case {
    fn new(name: String, make: impl Fn() -> Result<KernelTest, Failed> + Send + 'static) -> Self {
        Self { name, make: Box::new(make) }
    }
}

/// A trial for each kernel; `run` computes the graph's outputs, or nothing where the tier runs none.
pub(crate) fn trials(
    tier: &str,
    run: impl Fn(&KernelTest) -> Result<Option<HostTensors>, Failed> + Copy + Send + 'static,
) -> Vec<Trial> {
    let cases =
        [products::cases(), ring::cases(), boxes::cases(), matrices::cases(), bytes::cases(), clusters::cases()];
    let trial = |case: Case| {
        Trial::test(format!("{tier}::hopper::{}", case.name), move || {
            let test = (case.make)()?;
            run(&test)?.map_or(Ok(()), |outputs| test.judge(&outputs))
        })
    };
    cases.into_iter().flatten().map(trial).collect()
}

impl KernelTest {
    fn judge(&self, outputs: &HostTensors) -> Result<(), Failed> {
        let c = &outputs[&self.graph.outputs().next().ok_or("no output")?];
        let size = c.data_type.bytes() as usize;
        let pairs = c.bytes.chunks(size).zip(self.expected.chunks(size)).enumerate();
        let wrong: Vec<_> = pairs.filter(|(_, (found, expected))| found != expected).collect();
        match wrong.first() {
            None if c.bytes.len() == self.expected.len() => Ok(()),
            None => Err(format!("{} bytes instead of {}", c.bytes.len(), self.expected.len()).into()),
            Some((first, (found, expected))) => {
                let count = wrong.len();
                Err(format!("{count} elements differ; number {first} is {found:02x?} instead of {expected:02x?}")
                    .into())
            }
        }
    }
}

/// The tensors of a product, and the text and launches of a kernel over them.
struct Carrier {
    graph: Arc<FinalizedGraph>,
    a: TensorId,
    b: TensorId,
    c: TensorId,
}

impl Carrier {
    /// A, B and the type of C.
    fn new(a: Tensor, b: Tensor, c_type: DataType) -> Result<Self, Failed> {
        let mut graph = Graph::new().compute_data_type(DataType::Float);
        let (a, b) = (graph.tensor(a.uid(1)), graph.tensor(b.uid(2)));
        let c = graph.matmul("carrier", a, b);
        graph.set_output(c).uid = Some(3);
        graph.tensor_mut(c).data_type = Some(c_type);
        let graph = Arc::new(graph.finalize()?);
        let id = |uid| graph.tensor_by_uid(uid).ok_or("a tensor is gone");
        Ok(Self { a: id(1)?, b: id(2)?, c: id(3)?, graph: graph.clone() })
    }

    /// Flat tensors: an input of `elements`, and an output of at least `outputs`.
    fn flat(a_type: DataType, elements: usize, c_type: DataType, outputs: usize) -> Result<Self, Failed> {
        let a = Tensor::new("A").row_major([1, elements as i64, 1]).data_type(a_type);
        let b = Tensor::new("B").row_major([1, 1, outputs.div_ceil(elements) as i64]).data_type(a_type);
        Self::new(a, b, c_type)
    }

    /// Bytes of C.
    fn c_bytes(&self) -> Result<usize, Failed> {
        let c = self.graph.tensor(self.c);
        Ok(HostTensor::storage_bytes(c.data_type, &c.dim, &c.stride)?)
    }

    /// An input of this graph with values by row-major position.
    fn host(&self, id: TensorId, value: impl Fn(usize) -> f64 + Sync) -> Result<HostTensor, Failed> {
        let tensor = self.graph.tensor(id);
        Ok(HostTensor::from_fn(tensor.data_type, &tensor.dim, &tensor.stride, value)?)
    }

    /// A kernel of this text with inputs A and B.
    fn test(
        &self,
        sections: &[&'static str],
        text: &str,
        launches: Vec<Launch>,
        [a, b]: [HostTensor; 2],
        expected: Vec<u8>,
    ) -> KernelTest {
        let text = format!("{}\n\n{text}", device_code(sections));
        let source = Source { text, launches, workspace_bytes: 0, uses_tf32: false, uses_fp8: false };
        let inputs = HostTensors::from([(self.a, a), (self.b, b)]);
        KernelTest { graph: self.graph.clone(), source, inputs, expected }
    }
}

fn launch(function: &str, blocks: usize, threads: u32, shared_bytes: usize, parameters: Vec<Parameter>) -> Launch {
    Launch {
        function: function.to_owned(),
        grid: [blocks as u32, 1],
        cluster: 1,
        block: [threads, 1, 1],
        shared_bytes: shared_bytes as u32,
        starts_early: false,
        parameters,
    }
}

/// Five numbers, zeros behind those given.
fn padded<T: Copy + Default, const N: usize>(values: &[T]) -> [T; N] {
    std::array::from_fn(|i| values.get(i).copied().unwrap_or_default())
}
