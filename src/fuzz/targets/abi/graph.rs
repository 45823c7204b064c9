//! Graphs by descriptors.

use std::sync::LazyLock;

use cudarc::cudnn::sys::cudnnBackendAttributeName_t as Name;
use cudarc::cudnn::sys::cudnnBackendAttributeType_t as Type;
use cudarc::cudnn::sys::cudnnBackendDescriptorType_t as Kind;

use super::caller::{Answer, Caller};
use super::draws;
use super::elements::{Elements, Pointer};
use crate::capi::translate;
use crate::frontend::write_v2;
use crate::fuzz::choices::Choices;
use crate::fuzz::finding::Finding;
use crate::fuzz::targets::expect;
use crate::graph::{
    Attributes, Composite, Convolution, ConvolutionDirection, ConvolutionMode, DataType, FinalTensor, FinalizedGraph,
    Graph, NanPropagation, Operation, OperationId, PaddingMode, Pointwise, PointwiseMode, Port, Reduction,
    ReductionMode, Reordering, Resample, ResampleMode, SignalMode,
};

/// Part of the attributes that are given otherwise or left out where there are mistakes, in percent.
const MISTAKES: usize = 2;

/// The values of an enumeration with their numbers.
type Numbers<V> = LazyLock<Vec<(V, u32)>>;

/// All values that a number below a thousand stands for.
fn numbers<V>(read: impl Fn(u32) -> Option<V>) -> Vec<(V, u32)> {
    (0..1000).filter_map(|number| read(number).map(|value| (value, number))).collect()
}

static DATA_TYPES: Numbers<DataType> = LazyLock::new(|| numbers(|number| translate::data_type(number).ok()));
static POINTWISE: Numbers<PointwiseMode> = LazyLock::new(|| numbers(|number| translate::pointwise(number).ok()));
static REDUCTIONS: Numbers<ReductionMode> = LazyLock::new(|| numbers(|number| translate::reduction(number).ok()));
static RESAMPLES: Numbers<ResampleMode> = LazyLock::new(|| numbers(|number| translate::resample(number).ok()));
static PADDINGS: Numbers<PaddingMode> = LazyLock::new(|| numbers(|number| translate::padding(number).ok()));
static REORDERINGS: Numbers<Reordering> = LazyLock::new(|| numbers(|number| translate::reordering(number).ok()));

/// What the ABI can say of a graph; `None` where that is not well formed.
///
/// It has no values of scalars, no ragged tensors, and types of computations for some operations only.
pub(super) fn sayable(graph: &Graph) -> Option<FinalizedGraph> {
    let finalized = graph.finalize().ok()?;
    let mut plain = finalized.to_graph();
    for id in plain.tensor_ids() {
        let tensor = plain.tensor_mut(id);
        (tensor.value, tensor.ragged_offset) = (None, None);
    }
    for id in finalized.operation_ids() {
        let operation = plain.operation_mut(id);
        if let Attributes::ResampleForward(resample) | Attributes::ResampleBackward(resample) =
            &mut operation.attributes
        {
            resample.generate_index = None;
        }
        operation.compute_data_type = match operation.attributes {
            Attributes::Concat(_) | Attributes::Signal(_) | Attributes::View | Attributes::Transpose => None,
            Attributes::AllGather(_) | Attributes::Bernoulli(_) => None,
            Attributes::PageGather | Attributes::BlockBits => None,
            Attributes::Other(_) => None,
            Attributes::GenStats | Attributes::Composite(_) => Some(DataType::Float),
            _ => Some(finalized.compute_type(id)),
        };
    }
    plain.finalize().ok()
}

/// Describes a graph, perhaps with mistakes.
pub(super) struct Author<'a, 'b, 'c> {
    pub(super) caller: &'a mut Caller,
    pub(super) choices: &'b mut Choices<'c>,
    makes_mistakes: bool,
    /// Whether all was said that is to be said, and nothing else.
    is_said: bool,
    /// Whether every call succeeded.
    is_taken: bool,
}

/// The ports of an operation by the attributes that refer to their tensors.
type Ports<'a> = &'a [(Port, Name)];

impl<'a, 'b, 'c> Author<'a, 'b, 'c> {
    pub(super) fn new(caller: &'a mut Caller, choices: &'b mut Choices<'c>) -> Self {
        let makes_mistakes = choices.chance(40);
        Self { caller, choices, makes_mistakes, is_said: true, is_taken: true }
    }

    /// The graph's descriptor, and whether it has to be as good as the graph.
    pub(super) fn graph(&mut self, graph: &FinalizedGraph) -> Result<(Pointer, bool), Finding> {
        let mut tensors = Vec::new();
        for tensor in graph.tensors() {
            tensors.push(self.tensor(tensor)?);
        }
        let mut operations = Vec::new();
        for id in graph.operation_ids() {
            operations.extend(self.operation(graph, id, &tensors)?);
        }
        let described = self.create(Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)?;
        self.refer(described, Name::CUDNN_ATTR_OPERATIONGRAPH_OPS, &operations)?;
        if graph.is_dynamic() {
            self.boolean(described, Name::CUDNN_ATTR_OPERATIONGRAPH_IS_DYNAMIC_SHAPE_ENABLED, true)?;
        }
        self.finalize(described)?;
        let is_refused = self.is_said && !self.is_taken && graph.tensors().all(is_legal);
        expect("a graph that is rightly described is taken", !is_refused, || write_v2(&graph.to_graph()))?;
        Ok((described, self.is_said && self.is_taken))
    }

    pub(super) fn create(&mut self, kind: Kind) -> Result<Pointer, Finding> {
        self.caller.create(kind as u32)
    }

    pub(super) fn finalize(&mut self, pointer: Pointer) -> Answer {
        let answer = self.caller.finalize(pointer);
        self.note(answer)
    }

    fn note(&mut self, answer: Answer) -> Answer {
        self.is_taken &= matches!(answer, Ok(true));
        answer
    }

    /// Sets an attribute, or by mistake something else, or nothing.
    pub(super) fn set(&mut self, pointer: Pointer, name: Name, elements: &Elements) -> Result<(), Finding> {
        let Elements { of_type, bytes } = elements;
        let of_type = *of_type as u32;
        let answer = match self.makes_mistakes && self.choices.chance(MISTAKES) {
            false => self.caller.set(pointer, name as u32, of_type, elements.count(), Some(bytes)),
            true => {
                self.is_said = false;
                if self.choices.chance(20) {
                    return Ok(());
                }
                let bytes = draws::elements(self.caller, self.choices, name as u32, of_type, elements.count() as usize);
                self.caller.set(pointer, name as u32, of_type, elements.count(), Some(&bytes))
            }
        };
        self.note(answer).map(drop)
    }

    pub(super) fn refer(&mut self, pointer: Pointer, name: Name, others: &[Pointer]) -> Result<(), Finding> {
        self.set(pointer, name, &Elements::descriptors(others))
    }

    fn int64(&mut self, pointer: Pointer, name: Name, value: i64) -> Result<(), Finding> {
        self.set(pointer, name, &Elements::int64(&[value]))
    }

    fn boolean(&mut self, pointer: Pointer, name: Name, value: bool) -> Result<(), Finding> {
        self.set(pointer, name, &Elements::boolean(value))
    }

    /// A number of single precision, in either type.
    fn float(&mut self, pointer: Pointer, name: Name, value: Option<f32>) -> Result<(), Finding> {
        let Some(value) = value else { return Ok(()) };
        let elements = if self.choices.chance(50) { Elements::float(value) } else { Elements::double(value.into()) };
        self.set(pointer, name, &elements)
    }

    fn double(&mut self, pointer: Pointer, name: Name, value: f64) -> Result<(), Finding> {
        self.set(pointer, name, &Elements::double(value))
    }

    /// An enumerator; of a value that has no number, nothing.
    fn enumerator<V: PartialEq>(
        &mut self,
        pointer: Pointer,
        name: Name,
        of_type: Type,
        numbers: &[(V, u32)],
        value: V,
    ) -> Result<(), Finding> {
        let Some(row) = numbers.iter().find(|row| row.0 == value) else {
            self.is_said = false;
            return Ok(());
        };
        self.set(pointer, name, &Elements::enumerator(of_type, row.1))
    }

    fn data_type(&mut self, pointer: Pointer, name: Name, value: DataType) -> Result<(), Finding> {
        self.enumerator(pointer, name, Type::CUDNN_TYPE_DATA_TYPE, &DATA_TYPES, value)
    }

    fn tensor(&mut self, tensor: &FinalTensor) -> Result<Pointer, Finding> {
        let made = self.create(Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR)?;
        self.int64(made, Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, tensor.uid)?;
        self.data_type(made, Name::CUDNN_ATTR_TENSOR_DATA_TYPE, tensor.data_type)?;
        self.int64(made, Name::CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, tensor.alignment)?;
        self.set(made, Name::CUDNN_ATTR_TENSOR_DIMENSIONS, &Elements::int64(&tensor.dim))?;
        self.set(made, Name::CUDNN_ATTR_TENSOR_STRIDES, &Elements::int64(&tensor.stride))?;
        self.boolean(made, Name::CUDNN_ATTR_TENSOR_IS_VIRTUAL, tensor.is_virtual)?;
        self.boolean(made, Name::CUDNN_ATTR_TENSOR_IS_BY_VALUE, tensor.is_pass_by_value)?;
        let (name, of_type) = (Name::CUDNN_ATTR_TENSOR_REORDERING_MODE, Type::CUDNN_TYPE_TENSOR_REORDERING_MODE);
        self.enumerator(made, name, of_type, &REORDERINGS, tensor.reordering)?;
        self.finalize(made)?;
        Ok(made)
    }

    /// An operation's descriptor, with those that it refers to; `None` where there is none of its kind.
    fn operation(
        &mut self,
        graph: &FinalizedGraph,
        id: OperationId,
        tensors: &[Pointer],
    ) -> Result<Option<Pointer>, Finding> {
        let (operation, compute) = (graph.operation(id), graph.compute_type(id));
        let (kind, ports) = form(&operation.attributes);
        let Some(kind) = kind else {
            self.is_said = false;
            return Ok(None);
        };
        let bundle = self.bundle(&operation.attributes, compute)?;
        let made = self.create(kind)?;
        if let Some((name, bundle)) = bundle {
            self.refer(made, name, &[bundle])?;
        }
        self.tensors(made, operation, ports, tensors)?;
        self.own_attributes(made, &operation.attributes)?;
        self.finalize(made)?;
        Ok(Some(made))
    }

    fn tensors(
        &mut self,
        made: Pointer,
        operation: &Operation,
        ports: Ports<'_>,
        tensors: &[Pointer],
    ) -> Result<(), Finding> {
        let slots: Vec<_> = operation.inputs.iter().chain(&operation.outputs).copied().collect();
        self.is_said &= slots.iter().all(|slot| ports.iter().any(|port| port.0 == slot.0));
        for &(port, name) in ports {
            let of_port = slots.iter().filter(|slot| slot.0 == port).map(|slot| tensors[slot.1.index()]);
            let of_port: Vec<Pointer> = of_port.collect();
            if !of_port.is_empty() {
                self.refer(made, name, &of_port)?;
            }
        }
        Ok(())
    }

    /// Attributes that an operation has itself, besides tensors and a descriptor that tells the rest.
    fn own_attributes(&mut self, made: Pointer, attributes: &Attributes) -> Result<(), Finding> {
        match attributes {
            Attributes::Convolution(convolution) => {
                let (alpha, beta) = scales(convolution.direction);
                self.double(made, alpha, convolution.alpha)?;
                self.double(made, beta, convolution.beta)
            }
            Attributes::Pointwise(pointwise) => {
                self.float(made, Name::CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, Some(pointwise.alpha1))?;
                self.float(made, Name::CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, Some(pointwise.alpha2))
            }
            Attributes::GenStats => {
                let mode = Elements::enumerator(Type::CUDNN_TYPE_GENSTATS_MODE, 0);
                self.set(made, Name::CUDNN_ATTR_OPERATION_GENSTATS_MODE, &mode)?;
                self.data_type(made, Name::CUDNN_ATTR_OPERATION_GENSTATS_MATH_PREC, DataType::Float)
            }
            Attributes::ResampleForward(resample) => {
                self.double(made, Name::CUDNN_ATTR_OPERATION_RESAMPLE_FWD_ALPHA, resample.alpha)?;
                self.double(made, Name::CUDNN_ATTR_OPERATION_RESAMPLE_FWD_BETA, resample.beta)
            }
            Attributes::ResampleBackward(resample) => {
                self.double(made, Name::CUDNN_ATTR_OPERATION_RESAMPLE_BWD_ALPHA, resample.alpha)?;
                self.double(made, Name::CUDNN_ATTR_OPERATION_RESAMPLE_BWD_BETA, resample.beta)
            }
            Attributes::Concat(concat) => {
                self.int64(made, Name::CUDNN_ATTR_OPERATION_CONCAT_AXIS, concat.axis)?;
                let in_place = concat.in_place_index;
                in_place
                    .map_or(Ok(()), |index| self.int64(made, Name::CUDNN_ATTR_OPERATION_CONCAT_INPLACE_INDEX, index))
            }
            Attributes::Signal(signal) => {
                let mode = u32::from(signal.mode == SignalMode::Wait);
                let mode = Elements::enumerator(Type::CUDNN_TYPE_SIGNAL_MODE, mode);
                self.set(made, Name::CUDNN_ATTR_OPERATION_SIGNAL_MODE, &mode)?;
                self.int64(made, Name::CUDNN_ATTR_OPERATION_SIGNAL_VALUE, signal.value)
            }
            _ => Ok(()),
        }
    }

    /// The descriptor that tells what an operation does, and the attribute that refers to it.
    fn bundle(&mut self, attributes: &Attributes, compute: DataType) -> Result<Option<(Name, Pointer)>, Finding> {
        let (name, made) = match attributes {
            Attributes::Matmul(matmul) => {
                let made = self.create(Kind::CUDNN_BACKEND_MATMUL_DESCRIPTOR)?;
                self.data_type(made, Name::CUDNN_ATTR_MATMUL_COMP_TYPE, compute)?;
                self.double(made, Name::CUDNN_ATTR_MATMUL_PADDING_VALUE, matmul.padding_value)?;
                (Name::CUDNN_ATTR_OPERATION_MATMUL_DESC, made)
            }
            Attributes::Convolution(convolution) => self.convolution(convolution, compute)?,
            Attributes::Pointwise(pointwise) => self.pointwise(pointwise, compute)?,
            Attributes::Reduction(reduction) => self.reduction(reduction, compute)?,
            Attributes::ResampleForward(resample) => {
                (Name::CUDNN_ATTR_OPERATION_RESAMPLE_FWD_DESC, self.resample(resample, compute)?)
            }
            Attributes::ResampleBackward(resample) => {
                (Name::CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DESC, self.resample(resample, compute)?)
            }
            _ => return Ok(None),
        };
        self.finalize(made)?;
        Ok(Some((name, made)))
    }

    fn convolution(&mut self, convolution: &Convolution, compute: DataType) -> Result<(Name, Pointer), Finding> {
        let made = self.create(Kind::CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)?;
        self.data_type(made, Name::CUDNN_ATTR_CONVOLUTION_COMP_TYPE, compute)?;
        let mode = u32::from(convolution.mode == ConvolutionMode::CrossCorrelation);
        let mode = Elements::enumerator(Type::CUDNN_TYPE_CONVOLUTION_MODE, mode);
        self.set(made, Name::CUDNN_ATTR_CONVOLUTION_CONV_MODE, &mode)?;
        self.int64(made, Name::CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, convolution.stride.len() as i64)?;
        for (name, values) in [
            (Name::CUDNN_ATTR_CONVOLUTION_DILATIONS, &convolution.dilation),
            (Name::CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, &convolution.stride),
            (Name::CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, &convolution.pre_padding),
            (Name::CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, &convolution.post_padding),
        ] {
            self.set(made, name, &Elements::int64(values))?;
        }
        let name = match convolution.direction {
            ConvolutionDirection::Forward => Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
            ConvolutionDirection::BackwardData => Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
            ConvolutionDirection::BackwardFilter => Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
        };
        Ok((name, made))
    }

    fn pointwise(&mut self, pointwise: &Pointwise, compute: DataType) -> Result<(Name, Pointer), Finding> {
        let made = self.create(Kind::CUDNN_BACKEND_POINTWISE_DESCRIPTOR)?;
        let (name, of_type) = (Name::CUDNN_ATTR_POINTWISE_MODE, Type::CUDNN_TYPE_POINTWISE_MODE);
        self.enumerator(made, name, of_type, &POINTWISE, pointwise.mode)?;
        self.data_type(made, Name::CUDNN_ATTR_POINTWISE_MATH_PREC, compute)?;
        self.float(made, Name::CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, pointwise.relu_lower_clip)?;
        self.float(made, Name::CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, pointwise.relu_upper_clip)?;
        self.float(made, Name::CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, pointwise.relu_lower_clip_slope)?;
        self.float(made, Name::CUDNN_ATTR_POINTWISE_ELU_ALPHA, pointwise.elu_alpha)?;
        self.float(made, Name::CUDNN_ATTR_POINTWISE_SOFTPLUS_BETA, pointwise.softplus_beta)?;
        self.float(made, Name::CUDNN_ATTR_POINTWISE_SWISH_BETA, pointwise.swish_beta)?;
        if let Some(axis) = pointwise.axis {
            self.int64(made, Name::CUDNN_ATTR_POINTWISE_AXIS, axis)?;
        }
        if let Some(propagation) = pointwise.nan_propagation {
            let number = u32::from(propagation == NanPropagation::Propagate);
            let propagation = Elements::enumerator(Type::CUDNN_TYPE_NAN_PROPOGATION, number);
            self.set(made, Name::CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, &propagation)?;
        }
        Ok((Name::CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, made))
    }

    fn reduction(&mut self, reduction: &Reduction, compute: DataType) -> Result<(Name, Pointer), Finding> {
        let made = self.create(Kind::CUDNN_BACKEND_REDUCTION_DESCRIPTOR)?;
        let (name, of_type) = (Name::CUDNN_ATTR_REDUCTION_OPERATOR, Type::CUDNN_TYPE_REDUCTION_OPERATOR_TYPE);
        self.enumerator(made, name, of_type, &REDUCTIONS, reduction.mode)?;
        self.data_type(made, Name::CUDNN_ATTR_REDUCTION_COMP_TYPE, compute)?;
        self.boolean(made, Name::CUDNN_ATTR_REDUCTION_IS_DETERMINISTIC, reduction.is_deterministic)?;
        Ok((Name::CUDNN_ATTR_OPERATION_REDUCTION_DESC, made))
    }

    fn resample(&mut self, resample: &Resample, compute: DataType) -> Result<Pointer, Finding> {
        let made = self.create(Kind::CUDNN_BACKEND_RESAMPLE_DESCRIPTOR)?;
        let (name, of_type) = (Name::CUDNN_ATTR_RESAMPLE_MODE, Type::CUDNN_TYPE_RESAMPLE_MODE);
        self.enumerator(made, name, of_type, &RESAMPLES, resample.mode)?;
        self.data_type(made, Name::CUDNN_ATTR_RESAMPLE_COMP_TYPE, compute)?;
        self.int64(made, Name::CUDNN_ATTR_RESAMPLE_SPATIAL_DIMS, resample.window.len() as i64)?;
        let (name, of_type) = (Name::CUDNN_ATTR_RESAMPLE_PADDING_MODE, Type::CUDNN_TYPE_PADDING_MODE);
        self.enumerator(made, name, of_type, &PADDINGS, resample.padding_mode)?;
        for (name, values) in [
            (Name::CUDNN_ATTR_RESAMPLE_WINDOW_DIMS, &resample.window),
            (Name::CUDNN_ATTR_RESAMPLE_STRIDES, &resample.stride),
            (Name::CUDNN_ATTR_RESAMPLE_PRE_PADDINGS, &resample.pre_padding),
            (Name::CUDNN_ATTR_RESAMPLE_POST_PADDINGS, &resample.post_padding),
        ] {
            self.set(made, name, &Elements::fractions(values))?;
        }
        Ok(made)
    }
}

/// Whether the ABI has such tensors (docs/spec/backend-api.md, section 2).
fn is_legal(tensor: &FinalTensor) -> bool {
    let bytes = tensor.data_type.bytes().max(1) as i64;
    let is_positive = tensor.dim.iter().chain(&tensor.stride).all(|&value| value > 0);
    is_positive && tensor.alignment > 0 && tensor.alignment % bytes == 0
}

/// The attributes of a convolution's scales.
fn scales(direction: ConvolutionDirection) -> (Name, Name) {
    match direction {
        ConvolutionDirection::Forward => {
            (Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA)
        }
        ConvolutionDirection::BackwardData => (
            Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
            Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
        ),
        ConvolutionDirection::BackwardFilter => (
            Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
            Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
        ),
    }
}

/// The kind of an operation's descriptor, and the attributes of its tensors.
fn form(attributes: &Attributes) -> (Option<Kind>, Ports<'static>) {
    match attributes {
        Attributes::Matmul(_) => (
            Some(Kind::CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR),
            &[
                (Port::A, Name::CUDNN_ATTR_OPERATION_MATMUL_ADESC),
                (Port::B, Name::CUDNN_ATTR_OPERATION_MATMUL_BDESC),
                (Port::C, Name::CUDNN_ATTR_OPERATION_MATMUL_CDESC),
                (Port::M_OVERRIDE, Name::CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC),
                (Port::N_OVERRIDE, Name::CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC),
                (Port::K_OVERRIDE, Name::CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC),
            ],
        ),
        Attributes::Convolution(convolution) => convolution_form(convolution.direction),
        Attributes::Pointwise(pointwise) if pointwise.mode.is_backward() => (
            Some(Kind::CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR),
            &[
                (Port::IN_0, Name::CUDNN_ATTR_OPERATION_POINTWISE_DYDESC),
                (Port::IN_1, Name::CUDNN_ATTR_OPERATION_POINTWISE_XDESC),
                (Port::OUT_0, Name::CUDNN_ATTR_OPERATION_POINTWISE_DXDESC),
            ],
        ),
        Attributes::Pointwise(_) => (
            Some(Kind::CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR),
            &[
                (Port::IN_0, Name::CUDNN_ATTR_OPERATION_POINTWISE_XDESC),
                (Port::IN_1, Name::CUDNN_ATTR_OPERATION_POINTWISE_BDESC),
                (Port::IN_2, Name::CUDNN_ATTR_OPERATION_POINTWISE_TDESC),
                (Port::OUT_0, Name::CUDNN_ATTR_OPERATION_POINTWISE_YDESC),
            ],
        ),
        Attributes::Reduction(_) => (
            Some(Kind::CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR),
            &[
                (Port::X, Name::CUDNN_ATTR_OPERATION_REDUCTION_XDESC),
                (Port::Y, Name::CUDNN_ATTR_OPERATION_REDUCTION_YDESC),
            ],
        ),
        Attributes::GenStats => (
            Some(Kind::CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR),
            &[
                (Port::X, Name::CUDNN_ATTR_OPERATION_GENSTATS_XDESC),
                (Port::SUM, Name::CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC),
                (Port::SQ_SUM, Name::CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC),
            ],
        ),
        Attributes::ResampleForward(_) => (
            Some(Kind::CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR),
            &[
                (Port::X, Name::CUDNN_ATTR_OPERATION_RESAMPLE_FWD_XDESC),
                (Port::Y, Name::CUDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC),
                (Port::INDEX, Name::CUDNN_ATTR_OPERATION_RESAMPLE_FWD_IDXDESC),
            ],
        ),
        Attributes::ResampleBackward(_) => (
            Some(Kind::CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR),
            &[
                (Port::DY, Name::CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DYDESC),
                (Port::X, Name::CUDNN_ATTR_OPERATION_RESAMPLE_BWD_XDESC),
                (Port::Y, Name::CUDNN_ATTR_OPERATION_RESAMPLE_BWD_YDESC),
                (Port::INDEX, Name::CUDNN_ATTR_OPERATION_RESAMPLE_BWD_IDXDESC),
                (Port::DX, Name::CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC),
            ],
        ),
        Attributes::Concat(_) => (
            Some(Kind::CUDNN_BACKEND_OPERATION_CONCAT_DESCRIPTOR),
            &[
                (Port::CONCAT_INPUT, Name::CUDNN_ATTR_OPERATION_CONCAT_INPUT_DESCS),
                (Port::Y, Name::CUDNN_ATTR_OPERATION_CONCAT_OUTPUT_DESC),
            ],
        ),
        Attributes::Signal(_) => (
            Some(Kind::CUDNN_BACKEND_OPERATION_SIGNAL_DESCRIPTOR),
            &[
                (Port::X, Name::CUDNN_ATTR_OPERATION_SIGNAL_XDESC),
                (Port::FLAG, Name::CUDNN_ATTR_OPERATION_SIGNAL_FLAGDESC),
                (Port::Y, Name::CUDNN_ATTR_OPERATION_SIGNAL_YDESC),
            ],
        ),
        Attributes::Composite(Composite::Softmax(_)) => (
            Some(Kind::CUDNN_BACKEND_OPERATION_SOFTMAX_DESCRIPTOR),
            &[
                (Port::X, Name::CUDNN_ATTR_OPERATION_SOFTMAX_XDESC),
                (Port::SINK, Name::CUDNN_ATTR_OPERATION_SOFTMAX_SINK_DESC),
                (Port::Y, Name::CUDNN_ATTR_OPERATION_SOFTMAX_YDESC),
                (Port::STATS, Name::CUDNN_ATTR_OPERATION_SOFTMAX_STATS_DESC),
                (Port::MAX, Name::CUDNN_ATTR_OPERATION_SOFTMAX_MAX_DESC),
                (Port::SUM_EXP, Name::CUDNN_ATTR_OPERATION_SOFTMAX_SUM_EXP_DESC),
            ],
        ),
        Attributes::Composite(Composite::PagedCacheLoad(_)) => (
            Some(Kind::CUDNN_BACKEND_OPERATION_PAGED_CACHE_LOAD_DESCRIPTOR),
            &[
                (Port::CONTAINER, Name::CUDNN_ATTR_OPERATION_PAGED_CACHE_LOAD_CONTAINER_DESC),
                (Port::SEQ_LEN, Name::CUDNN_ATTR_OPERATION_PAGED_CACHE_LOAD_SEQUENCE_DESC),
                (Port::PAGE_TABLE, Name::CUDNN_ATTR_OPERATION_PAGED_CACHE_LOAD_PAGE_TABLE_DESC),
                (Port::Y_OUT, Name::CUDNN_ATTR_OPERATION_PAGED_CACHE_LOAD_YDESC),
            ],
        ),
        // Norms have other slots for each mode; what a descriptor of one needs is tried by the tests of the ABI.
        Attributes::Composite(_) | Attributes::View | Attributes::Transpose => (None, &[]),
        Attributes::AllGather(_) | Attributes::Bernoulli(_) => (None, &[]),
        Attributes::PageGather | Attributes::BlockBits => (None, &[]),
        Attributes::Other(_) => (None, &[]),
    }
}

fn convolution_form(direction: ConvolutionDirection) -> (Option<Kind>, Ports<'static>) {
    match direction {
        ConvolutionDirection::Forward => (
            Some(Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR),
            &[
                (Port::X, Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X),
                (Port::W, Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W),
                (Port::Y, Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y),
            ],
        ),
        ConvolutionDirection::BackwardData => (
            Some(Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR),
            &[
                (Port::DY, Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY),
                (Port::W, Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W),
                (Port::DX, Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX),
            ],
        ),
        ConvolutionDirection::BackwardFilter => (
            Some(Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR),
            &[
                (Port::DY, Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY),
                (Port::X, Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X),
                (Port::DW, Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW),
            ],
        ),
    }
}
