//! Directed acyclic graphs of pointwise operations, and what follows them.

use super::super::choices::Choices;
use super::layout::{Order, tensor};
use super::movement;
use super::resample::halving;
use crate::graph::{
    DataType, Graph, NanPropagation, Pointwise, PointwiseMode, Reads, ReductionMode, Scalar, SignalMode, Tensor,
    TensorHandle,
};

/// The tensors around which a stage is built.
pub(super) struct Frame<'a> {
    /// Begins the names of operations and side inputs.
    pub(super) name: &'a str,
    /// Extents of values.
    pub(super) full: Vec<i64>,
    /// Axes that a side input keeps, one list a shape; the others have extent 1.
    pub(super) sides: &'a [&'a [bool]],
    pub(super) order: Order,
    /// Types of side inputs, of values inside, and of computations.
    pub(super) side_types: &'a [DataType],
    pub(super) virtual_types: &'a [DataType],
    pub(super) compute_types: &'a [DataType],
}

/// A stage under construction.
pub(super) struct Stage<'a, 'b> {
    pub(super) graph: &'a mut Graph,
    pub(super) choices: &'a mut Choices<'b>,
    pub(super) frame: Frame<'a>,
    /// Values of full extent, the latest last.
    pub(super) values: Vec<TensorHandle>,
    /// Side inputs so far, which may be read again.
    sides: Vec<TensorHandle>,
    operations: usize,
}

/// Part of the tensors in memory that are aligned to other than 16 bytes, in percent.
const ALIGNED_OTHERWISE: usize = 5;

/// Part of the RELUs that have clips of their own, in percent.
const CLIPPED: usize = 60;

/// Modes with results that stay in range for most inputs come first.
const MODES: &[PointwiseMode] = &[
    PointwiseMode::Add,
    PointwiseMode::Mul,
    PointwiseMode::ReluFwd,
    PointwiseMode::Sub,
    PointwiseMode::GeluApproxTanhFwd,
    PointwiseMode::SigmoidFwd,
    PointwiseMode::Max,
    PointwiseMode::Identity,
    PointwiseMode::SwishFwd,
    PointwiseMode::GeluFwd,
    PointwiseMode::ReluBwd,
    PointwiseMode::TanhFwd,
];

impl<'a, 'b> Stage<'a, 'b> {
    /// A stage that starts from a value, or from an input of its own.
    pub(super) fn new(
        graph: &'a mut Graph,
        choices: &'a mut Choices<'b>,
        frame: Frame<'a>,
        entry: Option<TensorHandle>,
    ) -> Self {
        let mut stage = Self { graph, choices, frame, values: Vec::new(), sides: Vec::new(), operations: 0 };
        let entry = entry.unwrap_or_else(|| {
            let kept = vec![true; stage.frame.full.len()];
            stage.side(&kept)
        });
        stage.values.push(entry);
        stage
    }

    /// Adds so many operations.
    pub(super) fn grow(&mut self, operations: usize) {
        (0..operations).for_each(|_| self.operation());
    }

    /// The latest value.
    pub(super) fn last(&self) -> TensorHandle {
        self.values[self.values.len() - 1]
    }

    fn operation(&mut self) {
        let mode = if self.choices.chance(40) { self.choices.of(PointwiseMode::ALL) } else { self.choices.of(MODES) };
        let attributes = self.attributes(mode);
        let mut inputs = vec![if self.choices.chance(80) { self.last() } else { self.choices.of(&self.values) }];
        for _ in 1..mode.inputs() {
            inputs.push(self.operand());
        }
        self.operations += 1;
        let name = format!("{}_{}", self.frame.name, self.operations);
        let result = self.graph.pointwise_with(&name, attributes, &inputs);
        let logical = mode.is_logical() || mode.is_comparison();
        let data_type = if logical && self.frame.virtual_types.contains(&DataType::Boolean) && self.choices.chance(50) {
            DataType::Boolean
        } else {
            self.choices.of(self.frame.virtual_types)
        };
        self.graph.tensor_mut(result).data_type = Some(data_type);
        self.graph.last_operation().compute_data_type = Some(self.compute_type(mode));
        self.values.push(result);
    }

    /// A type in which the surfaces let a mode be computed.
    fn compute_type(&mut self, mode: PointwiseMode) -> DataType {
        let types = self.frame.compute_types;
        let other = types.iter().copied().find(|&data_type| data_type != DataType::Float);
        match other {
            Some(other) if mode.is_logical() => other,
            Some(DataType::Int32) if takes_integers(mode) && self.choices.chance(15) => DataType::Int32,
            _ => DataType::Float,
        }
    }

    fn attributes(&mut self, mode: PointwiseMode) -> Pointwise {
        let mut attributes = Pointwise::new(mode);
        match mode.reads() {
            Reads::Clips if self.choices.chance(CLIPPED) => {
                attributes.relu_lower_clip = Some(self.choices.of(&[0.0, -1.0, 0.5]));
                attributes.relu_upper_clip = self.choices.of(&[Some(6.0), None, Some(6.0)]);
                attributes.relu_lower_clip_slope = self.choices.of(&[None, Some(0.01)]);
            }
            Reads::SwishBeta => {
                attributes.swish_beta = self.choices.of(&[None, Some(1.5)]);
            }
            Reads::EluAlpha => attributes.elu_alpha = self.choices.of(&[None, Some(0.5)]),
            Reads::SoftplusBeta => {
                attributes.softplus_beta = self.choices.of(&[None, Some(2.0)]);
            }
            Reads::Axis => attributes.axis = Some(self.choices.below(self.frame.full.len()) as i64),
            Reads::NanOption => {
                attributes.nan_propagation = self.choices.of(&[None, Some(NanPropagation::NotPropagate)]);
            }
            Reads::Clips | Reads::Nothing => {}
        }
        attributes
    }

    /// A value, a side input that is there already, a new one, or a host scalar.
    fn operand(&mut self) -> TensorHandle {
        match self.choices.below(10) {
            0..5 => {
                let kept = self.choices.of(self.frame.sides).to_vec();
                self.side(&kept)
            }
            5..8 => self.choices.of(&self.values),
            8 => match self.choices.index_of(&self.sides) {
                Some(index) => self.sides[index],
                None => self.last(),
            },
            _ => self.scalar(),
        }
    }

    /// A side input with some of the axes.
    pub(super) fn side(&mut self, kept: &[bool]) -> TensorHandle {
        let dim: Vec<i64> = self.frame.full.iter().zip(kept).map(|(&e, &kept)| if kept { e } else { 1 }).collect();
        let name = format!("{}_side_{}", self.frame.name, self.sides.len());
        let data_type = self.choices.of(self.frame.side_types);
        let mut laid = tensor(self.choices, &name, data_type, &dim, self.frame.order);
        laid.alignment = self.alignment(data_type);
        let side = self.graph.tensor(laid);
        self.sides.push(side);
        side
    }

    fn scalar(&mut self) -> TensorHandle {
        let value = self.choices.of(&[0.5, 1.0, -2.0, 0.0]);
        let name = format!("{}_scalar_{}", self.frame.name, self.graph.tensors().len());
        self.graph.tensor(Tensor::scalar(name, DataType::Float, Scalar::Float(value)))
    }

    /// A reduction of the latest value to one of some shapes, given by the axes that are kept.
    pub(super) fn reduce(&mut self, shapes: &[&[bool]]) {
        let kept = self.choices.of(shapes);
        let dim: Vec<i64> = self.frame.full.iter().zip(kept).map(|(&e, &kept)| if kept { e } else { 1 }).collect();
        let mode = self.choices.of(&[
            ReductionMode::Add,
            ReductionMode::Max,
            ReductionMode::Amax,
            ReductionMode::Avg,
            ReductionMode::Min,
            ReductionMode::Norm1,
            ReductionMode::Norm2,
            ReductionMode::Mul,
        ]);
        let last = self.last();
        let name = format!("{}_total", self.frame.name);
        let total = self.graph.reduction(&name, mode, last, dim.clone());
        self.graph.last_operation().compute_data_type = Some(DataType::Float);
        let laid = tensor(self.choices, &name, DataType::Float, &dim, self.frame.order);
        let total = self.graph.set_output(total);
        (total.data_type, total.stride) = (Some(DataType::Float), laid.stride);
    }

    /// Adds the maxima of an image of twice the extents, each of 2·2 samples.
    pub(super) fn add_pooled(&mut self) {
        let mut image = self.frame.full.clone();
        image[2..].iter_mut().for_each(|extent| *extent *= 2);
        let data_type = self.choices.of(&[DataType::Half, DataType::Float]);
        let image = self.graph.tensor(tensor(self.choices, "image", data_type, &image, self.frame.order));
        let pooled = self.graph.resample("pool", halving(self.frame.full.len() - 2), image);
        let tensor = self.graph.tensor_mut(pooled);
        (tensor.data_type, tensor.dim) = (Some(data_type), self.frame.full.clone());
        let last = self.last();
        let sum = self.graph.pointwise("pooled_sum", PointwiseMode::Add, &[last, pooled]);
        self.graph.tensor_mut(sum).data_type = Some(DataType::Float);
        self.values.push(sum);
    }

    /// A signal that sets a flag when the latest value, an output, is there; what passes through is an output, too.
    pub(super) fn signal(&mut self) {
        let last = self.last();
        let x = &self.graph.tensors()[last.index()];
        let (Some(data_type), false) = (x.data_type, x.is_virtual) else { return };
        let y = self.graph.tensor(tensor(self.choices, "passed", data_type, &self.frame.full, self.frame.order));
        movement::signal(self.graph, self.choices, SignalMode::Set, last, y);
    }

    /// Makes a value an output of one of some types, in the frame's order.
    pub(super) fn output(&mut self, value: TensorHandle, types: &[DataType]) {
        let data_type = match self.graph.tensors()[value.index()].data_type {
            Some(DataType::Boolean) => DataType::Boolean,
            _ => self.choices.of(types),
        };
        let laid = tensor(self.choices, "", data_type, &self.frame.full, self.frame.order);
        let alignment = self.alignment(data_type);
        let output = self.graph.set_output(value);
        (output.data_type, output.dim, output.stride) = (Some(data_type), laid.dim, laid.stride);
        output.alignment = alignment;
    }

    /// Bytes that a pointer is aligned to: what is usual, or a few, or the element's own.
    fn alignment(&mut self, data_type: DataType) -> i64 {
        let element = data_type.bytes().max(1) as i64;
        if self.choices.chance(ALIGNED_OTHERWISE) { self.choices.of(&[4, element, 64]).max(element) } else { 16 }
    }
}

/// Modes that are computed in INT32 where the surface says so.
fn takes_integers(mode: PointwiseMode) -> bool {
    use PointwiseMode as M;
    matches!(mode, M::Add | M::Sub | M::Mul | M::Max | M::Min | M::Abs | M::Neg | M::Identity) || mode.is_comparison()
}
