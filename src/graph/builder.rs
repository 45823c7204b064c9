//! Building a graph, with the calls and names a cuDNN frontend user knows.

use super::{
    Attributes, Composite, Concat, Convolution, DataType, FinalizedGraph, Matmul, Operation, OperationId, Pointwise,
    PointwiseMode, Port, Reduction, ReductionMode, Resample, Softmax, Tensor, TensorHandle,
};
use crate::graph::Malformed;

/// An operation graph under construction.
///
/// ```
/// use fusewright::graph::{DataType, Graph, PointwiseMode, Tensor};
///
/// let mut graph = Graph::new()
///     .io_data_type(DataType::Half)
///     .intermediate_data_type(DataType::Float)
///     .compute_data_type(DataType::Float);
/// let a = graph.tensor(Tensor::new("A").row_major([1, 64, 32]));
/// let b = graph.tensor(Tensor::new("B").row_major([1, 32, 128]));
/// let bias = graph.tensor(Tensor::new("bias").row_major([1, 1, 128]));
/// let c = graph.matmul("mm", a, b);
/// let biased = graph.pointwise("add", PointwiseMode::Add, &[c, bias]);
/// let y = graph.pointwise("relu", PointwiseMode::ReluFwd, &[biased]);
/// graph.set_output(y);
/// let finalized = graph.finalize()?;
/// assert_eq!(finalized.tensors().filter(|t| !t.is_virtual).count(), 4);
/// # Ok::<(), fusewright::error::Malformed>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    /// Name, for messages.
    pub name: String,
    /// Type of non-virtual tensors that state none.
    pub io_data_type: Option<DataType>,
    /// Type of virtual tensors that state none.
    pub intermediate_data_type: Option<DataType>,
    /// Compute type of operations that state none.
    pub compute_data_type: Option<DataType>,
    /// Whether extents and strides are told to kernels when they are launched, so that other shapes share their binaries
    /// (`is_dynamic_shape_enabled`).
    pub is_dynamic: bool,
    pub(crate) tensors: Vec<Tensor>,
    pub(crate) operations: Vec<Operation<TensorHandle>>,
}

impl Graph {
    /// An empty graph.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the name used in messages.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Lets other shapes share kernels: extents and strides are told to them when they are launched.
    pub fn with_dynamic_shapes(mut self) -> Self {
        self.is_dynamic = true;
        self
    }

    /// Sets the type of non-virtual tensors that state none.
    pub fn io_data_type(mut self, data_type: DataType) -> Self {
        self.io_data_type = Some(data_type);
        self
    }

    /// Sets the type of virtual tensors that state none.
    pub fn intermediate_data_type(mut self, data_type: DataType) -> Self {
        self.intermediate_data_type = Some(data_type);
        self
    }

    /// Sets the compute type of operations that state none.
    pub fn compute_data_type(mut self, data_type: DataType) -> Self {
        self.compute_data_type = Some(data_type);
        self
    }

    /// Adds a tensor.
    pub fn tensor(&mut self, tensor: Tensor) -> TensorHandle {
        self.tensors.push(tensor);
        TensorHandle(u32::try_from(self.tensors.len() - 1).expect("fewer than 2^32 tensors"))
    }

    /// A tensor to adjust: type, dims, strides, name of an operation's result.
    pub fn tensor_mut(&mut self, id: TensorHandle) -> &mut Tensor {
        &mut self.tensors[id.index()]
    }

    /// Marks a result as an output of the graph: it is stored in device memory.
    pub fn set_output(&mut self, id: TensorHandle) -> &mut Tensor {
        let tensor = self.tensor_mut(id);
        tensor.is_virtual = false;
        tensor
    }

    /// Tensors in the order they were added.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// Ids of all tensors in the order they were added.
    pub fn tensor_ids(&self) -> impl ExactSizeIterator<Item = TensorHandle> + use<> {
        (0..self.tensors.len() as u32).map(TensorHandle)
    }

    /// Operations in the order they were added.
    pub fn operations(&self) -> &[Operation<TensorHandle>] {
        &self.operations
    }

    /// An operation to adjust: its compute type or name.
    pub fn operation_mut(&mut self, id: OperationId) -> &mut Operation<TensorHandle> {
        &mut self.operations[id.index()]
    }

    /// The operation added last.
    ///
    /// # Panics
    /// If there is none.
    pub fn last_operation(&mut self) -> &mut Operation<TensorHandle> {
        self.operations.last_mut().expect("an operation was added")
    }

    /// Adds a ready-made operation, as the graph-file reader does.
    pub fn operation(&mut self, operation: Operation<TensorHandle>) -> OperationId {
        self.operations.push(operation);
        OperationId(u32::try_from(self.operations.len() - 1).expect("fewer than 2^32 operations"))
    }

    /// `C = A·B` over the last two axes; gives C.
    pub fn matmul(&mut self, name: &str, a: TensorHandle, b: TensorHandle) -> TensorHandle {
        self.single_output(name, Attributes::Matmul(Matmul::default()), vec![(Port::A, a), (Port::B, b)], Port::C)
    }

    /// A convolution of any direction; `inputs` are X, W (forward), DY, W (backward data) or DY, X (backward filter). Images are
    /// `[N, C, …]`, filters `[K, C / groups, …]`, whatever their strides.
    /// The dims of DX and DW must be set on the result.
    pub fn convolution(&mut self, name: &str, attributes: Convolution, inputs: [TensorHandle; 2]) -> TensorHandle {
        let (ports, output) = attributes.ports();
        let inputs = ports.into_iter().zip(inputs).collect();
        self.single_output(name, Attributes::Convolution(attributes), inputs, output)
    }

    /// A pointwise operation without further attributes. Backward modes take DY first, then the forward input. A number of
    /// inputs that is not [the mode's](PointwiseMode::inputs) is refused by [`Self::finalize`].
    pub fn pointwise(&mut self, name: &str, mode: PointwiseMode, inputs: &[TensorHandle]) -> TensorHandle {
        self.pointwise_with(name, Pointwise::new(mode), inputs)
    }

    /// A pointwise operation with attributes (clips, slopes, α, β, axis).
    pub fn pointwise_with(&mut self, name: &str, attributes: Pointwise, inputs: &[TensorHandle]) -> TensorHandle {
        // No mode has a fourth input: those that are given all the same are kept under this port for finalize to refuse.
        let ports = [Port::IN_0, Port::IN_1, Port::IN_2].into_iter().chain(std::iter::repeat(Port("IN_3")));
        let inputs = ports.zip(inputs.iter().copied()).collect();
        self.single_output(name, Attributes::Pointwise(attributes), inputs, Port::OUT_0)
    }

    /// A reduction; the result's dims say which axes are reduced, so set them.
    pub fn reduction(
        &mut self,
        name: &str,
        mode: ReductionMode,
        x: TensorHandle,
        dim: impl Into<Vec<i64>>,
    ) -> TensorHandle {
        let attributes = Attributes::Reduction(Reduction::new(mode));
        let y = self.single_output(name, attributes, vec![(Port::X, x)], Port::Y);
        self.tensor_mut(y).dim = dim.into();
        y
    }

    /// Per-channel sum and sum of squares; gives SUM and SQ_SUM.
    pub fn genstats(&mut self, name: &str, x: TensorHandle) -> (TensorHandle, TensorHandle) {
        let sum = self.result_tensor(name, Port::SUM);
        let sq_sum = self.result_tensor(name, Port::SQ_SUM);
        self.push(name, Attributes::GenStats, vec![(Port::X, x)], vec![(Port::SUM, sum), (Port::SQ_SUM, sq_sum)]);
        (sum, sq_sum)
    }

    /// Softmax over the last axis; gives Y.
    pub fn softmax(&mut self, name: &str, x: TensorHandle) -> TensorHandle {
        self.softmax_with(name, x, None, &[]).0
    }

    /// Softmax with a sink, and with statistics: some of [`Softmax::STATISTICS`]. Gives Y, and the statistics in the
    /// order in which they were asked for.
    pub fn softmax_with(
        &mut self,
        name: &str,
        x: TensorHandle,
        sink: Option<TensorHandle>,
        statistics: &[Port],
    ) -> (TensorHandle, Vec<TensorHandle>) {
        let y = self.result_tensor(name, Port::Y);
        let rows: Vec<TensorHandle> = statistics.iter().map(|&port| self.result_tensor(name, port)).collect();
        let inputs = [(Port::X, x)].into_iter().chain(sink.map(|sink| (Port::SINK, sink))).collect();
        let outputs = [(Port::Y, y)].into_iter().chain(statistics.iter().copied().zip(rows.iter().copied())).collect();
        self.push(name, Attributes::Composite(Composite::Softmax(Softmax)), inputs, outputs);
        (y, rows)
    }

    /// A composite operation of the tensors at these ports; gives its results at the ports that are asked for, in that order.
    pub fn composite(
        &mut self,
        name: &str,
        composite: impl Into<Composite>,
        inputs: &[(Port, TensorHandle)],
        outputs: &[Port],
    ) -> Vec<TensorHandle> {
        let results: Vec<TensorHandle> = outputs.iter().map(|&port| self.result_tensor(name, port)).collect();
        let written = outputs.iter().copied().zip(results.iter().copied()).collect();
        self.push(name, Attributes::Composite(composite.into()), inputs.to_vec(), written);
        results
    }

    /// Forward resampling; gives Y.
    pub fn resample(&mut self, name: &str, attributes: Resample, x: TensorHandle) -> TensorHandle {
        self.single_output(name, Attributes::ResampleForward(attributes), vec![(Port::X, x)], Port::Y)
    }

    /// Joins tensors along an axis.
    pub fn concatenate(&mut self, name: &str, axis: i64, inputs: &[TensorHandle]) -> TensorHandle {
        let inputs = inputs.iter().map(|&input| (Port::CONCAT_INPUT, input)).collect();
        let attributes = Attributes::Concat(Concat { axis, in_place_index: None });
        self.single_output(name, attributes, inputs, Port::Y)
    }

    /// Completes the graph and checks that it is well formed.
    ///
    /// # Errors
    /// [`Malformed`] names the rule, the operation and the tensor.
    pub fn finalize(&self) -> Result<FinalizedGraph, Malformed> {
        super::finalize::finalize(self)
    }

    fn single_output(
        &mut self,
        name: &str,
        attributes: Attributes,
        inputs: Vec<(Port, TensorHandle)>,
        port: Port,
    ) -> TensorHandle {
        let result = self.result_tensor(name, port);
        self.push(name, attributes, inputs, vec![(port, result)]);
        result
    }

    fn result_tensor(&mut self, name: &str, port: Port) -> TensorHandle {
        self.tensor(Tensor { is_virtual: true, ..Tensor::new(format!("{name}::{port}")) })
    }

    fn push(
        &mut self,
        name: &str,
        attributes: Attributes,
        inputs: Vec<(Port, TensorHandle)>,
        outputs: Vec<(Port, TensorHandle)>,
    ) {
        self.operation(Operation { name: name.to_owned(), attributes, compute_data_type: None, inputs, outputs });
    }
}
