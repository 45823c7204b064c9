//! Identity of a graph: a hash of its canonical byte form.

use std::fmt;

use super::{
    Attributes, Convolution, Fraction, NanPropagation, Operation, Pointwise, PointwiseMode, Reads, Resample, Tensor,
};

/// Changes whenever the byte form does, so that keys of different forms never meet in a cache.
const FORM: &[u8] = b"fusewright graph 1";

/// Stable hash of everything in a finalized graph that affects generated code, and nothing else:
/// independent of names, uids' values, insertion order and the values of host scalars (they are kernel arguments).
///
/// Attributes count by what they mean: one that the mode does not read is left out, and a default that is written out
/// equals one that is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GraphKey(pub(super) [u8; 32]);

impl GraphKey {
    /// The whole hash.
    pub fn to_bytes(self) -> [u8; 32] {
        self.0
    }

    /// Key of complete tensors and operations in canonical order, which share a class where shapes are dynamic.
    pub(super) fn of(tensors: &[Tensor], operations: &[Operation], class: Option<Self>) -> Self {
        let mut bytes = Bytes(FORM.to_vec());
        bytes.graph(tensors, operations, tensor_bytes);
        class.iter().for_each(|class| bytes.0.extend(class.0));
        bytes.hashed()
    }

    /// The same without extents and strides.
    pub(super) fn of_class(tensors: &[Tensor], operations: &[Operation]) -> Self {
        let mut bytes = Bytes(FORM.to_vec());
        let shapeless = |tensor: &Tensor| {
            let unit = vec![1; tensor.dim.len()];
            tensor_bytes(&Tensor { dim: unit.clone(), stride: unit, ..tensor.clone() })
        };
        bytes.graph(tensors, operations, shapeless);
        bytes.hashed()
    }
}

impl fmt::Display for GraphKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().take(16).try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// What code depends on in a tensor, apart from its place in the graph. Complete tensors only.
pub(super) fn tensor_bytes(tensor: &Tensor) -> Vec<u8> {
    let mut bytes = Bytes::default();
    bytes.text(tensor.data_type.map_or("", |data_type| data_type.name()));
    bytes.integers(&tensor.dim);
    bytes.integers(&tensor.stride);
    bytes.flag(tensor.is_virtual);
    bytes.flag(tensor.is_pass_by_value);
    bytes.integer(tensor.alignment);
    bytes.text(tensor.reordering.name());
    bytes.integer(tensor.ragged_offset_multiplier);
    bytes.0
}

/// What code depends on in an operation, apart from the tensors at its ports.
pub(super) fn operation_bytes(operation: &Operation) -> Vec<u8> {
    let mut bytes = Bytes::default();
    bytes.text(operation.tag());
    bytes.text(operation.compute_data_type.map_or("", |data_type| data_type.name()));
    bytes.attributes(&operation.attributes);
    for slots in [&operation.inputs, &operation.outputs] {
        bytes.length(slots.len());
        slots.iter().for_each(|slot| bytes.text(slot.0.0));
    }
    bytes.0
}

/// A byte string that can be read in one way only: every list and text carries its length.
#[derive(Default)]
pub(super) struct Bytes(Vec<u8>);

impl Bytes {
    fn graph(&mut self, tensors: &[Tensor], operations: &[Operation], tensor_bytes: impl Fn(&Tensor) -> Vec<u8>) {
        self.length(tensors.len());
        for tensor in tensors {
            self.0.extend(tensor_bytes(tensor));
            self.integer(tensor.ragged_offset.map_or(-1, |id| id.index() as i64));
        }
        self.length(operations.len());
        for operation in operations {
            self.0.extend(operation_bytes(operation));
            let slots = operation.inputs.iter().chain(&operation.outputs);
            slots.for_each(|slot| self.length(slot.1.index()));
        }
    }

    fn hashed(self) -> GraphKey {
        GraphKey(*blake3::hash(&self.0).as_bytes())
    }

    pub(super) fn integer(&mut self, value: i64) {
        self.0.extend(value.to_le_bytes());
    }

    pub(super) fn length(&mut self, value: usize) {
        self.integer(value as i64);
    }

    pub(super) fn integers(&mut self, values: &[i64]) {
        self.length(values.len());
        values.iter().for_each(|&value| self.integer(value));
    }

    pub(super) fn fractions(&mut self, values: &[Fraction]) {
        self.length(values.len());
        values.iter().for_each(|value| self.integers(&[value.numerator, value.denominator]));
    }

    pub(super) fn single(&mut self, value: f32) {
        self.0.extend(value.to_bits().to_le_bytes());
    }

    pub(super) fn double(&mut self, value: f64) {
        self.0.extend(value.to_bits().to_le_bytes());
    }

    pub(super) fn flag(&mut self, value: bool) {
        self.0.push(u8::from(value));
    }

    pub(super) fn text(&mut self, value: &str) {
        self.length(value.len());
        self.0.extend(value.as_bytes());
    }

    fn attributes(&mut self, attributes: &Attributes) {
        match attributes {
            Attributes::Matmul(matmul) => self.double(matmul.padding_value),
            Attributes::Convolution(convolution) => self.convolution(convolution),
            Attributes::Pointwise(pointwise) => self.pointwise(pointwise),
            Attributes::Reduction(reduction) => {
                self.text(reduction.mode.name());
                self.flag(reduction.is_deterministic);
            }
            Attributes::GenStats | Attributes::View | Attributes::Transpose => {}
            Attributes::PageGather | Attributes::BlockBits => {}
            Attributes::AllGather(gather) => self.integers(&[gather.place]),
            Attributes::Bernoulli(bernoulli) => self.single(bernoulli.keep),
            Attributes::ResampleForward(resample) | Attributes::ResampleBackward(resample) => self.resample(resample),
            Attributes::Concat(concat) => self.integers(&[concat.axis, concat.in_place_index.unwrap_or(-1)]),
            Attributes::Signal(signal) => self.integers(&[signal.mode as i64, signal.value]),
            Attributes::Composite(composite) => composite.definition().key_bytes(self),
            Attributes::Other(other) => {
                for (key, value) in other.set_attributes() {
                    self.text(key);
                    self.text(&value.to_string());
                }
            }
        }
    }

    fn convolution(&mut self, convolution: &Convolution) {
        self.text(convolution.mode.name());
        self.integers(&convolution.pre_padding);
        self.integers(&convolution.post_padding);
        self.integers(&convolution.stride);
        self.integers(&convolution.dilation);
        self.double(convolution.alpha);
        self.double(convolution.beta);
    }

    fn pointwise(&mut self, pointwise: &Pointwise) {
        self.text(pointwise.mode.name());
        self.single(pointwise.alpha1);
        self.single(pointwise.alpha2);
        for (name, value) in float_attributes(pointwise) {
            self.text(name);
            self.single(value);
        }
        if pointwise.mode.reads() == Reads::Axis {
            self.integer(pointwise.axis.unwrap_or(-1));
        }
        if reads_nan_option(pointwise.mode) {
            self.flag(pointwise.propagates_nan());
        }
    }

    fn resample(&mut self, resample: &Resample) {
        self.text(resample.mode.name());
        self.text(resample.padding_mode.name());
        self.fractions(&resample.window);
        self.fractions(&resample.stride);
        self.fractions(&resample.pre_padding);
        self.fractions(&resample.post_padding);
        self.double(resample.alpha);
        self.double(resample.beta);
    }
}

/// The float attributes that a pointwise mode reads, with their values after defaults (operations.md 4.1).
pub(super) fn float_attributes(pointwise: &Pointwise) -> Vec<(&'static str, f32)> {
    match pointwise.mode.reads() {
        Reads::Clips => vec![
            ("lower_clip", pointwise.lower_clip()),
            ("upper_clip", pointwise.upper_clip()),
            ("lower_clip_slope", pointwise.lower_slope()),
        ],
        Reads::EluAlpha => vec![("alpha", pointwise.alpha())],
        Reads::SoftplusBeta | Reads::SwishBeta => vec![("beta", pointwise.beta())],
        Reads::Nothing | Reads::NanOption | Reads::Axis => Vec::new(),
    }
}

/// Modes built on comparison, which the NaN option governs (operations.md 4.1).
pub(super) fn reads_nan_option(mode: PointwiseMode) -> bool {
    matches!(mode.reads(), Reads::Clips | Reads::NanOption)
}

/// Whether a NaN option deserves mention: set to what is not the default, in a mode that reads it.
pub(super) fn suppresses_nan(pointwise: &Pointwise) -> bool {
    reads_nan_option(pointwise.mode) && pointwise.nan_propagation == Some(NanPropagation::NotPropagate)
}

#[cfg(test)]
mod tests {
    use super::super::samples::{convolution, half_graph, input, matmul_bias_relu, other, pointwise};
    use super::*;
    use crate::graph::{
        ConvolutionDirection, ConvolutionMode, DataType, Graph, Other, Reduction, ReductionMode, Reordering, Scalar,
        TensorHandle,
    };

    fn key(graph: &Graph) -> GraphKey {
        graph.finalize().unwrap().key()
    }

    /// A key that left out what a kernel reads would give one graph the kernel of another.
    #[test]
    fn whatever_a_mode_reads_is_in_the_key() {
        for &mode in PointwiseMode::ALL {
            let plain = Pointwise { axis: (mode.reads() == Reads::Axis).then_some(0), ..Pointwise::new(mode) };
            let differs = |change: fn(&mut Pointwise)| {
                let mut changed = plain.clone();
                change(&mut changed);
                key(&pointwise(changed)) != key(&pointwise(plain.clone()))
            };
            let reads = mode.reads();
            let (is_clip, is_nan) = (reads == Reads::Clips, matches!(reads, Reads::Clips | Reads::NanOption));
            assert_eq!(differs(|p| p.nan_propagation = Some(NanPropagation::NotPropagate)), is_nan, "{mode}");
            assert_eq!(differs(|p| p.relu_lower_clip = Some(0.5)), is_clip, "{mode}");
            assert_eq!(differs(|p| p.relu_upper_clip = Some(6.0)), is_clip, "{mode}");
            assert_eq!(differs(|p| p.relu_lower_clip_slope = Some(0.5)), is_clip, "{mode}");
            assert_eq!(differs(|p| p.elu_alpha = Some(0.5)), reads == Reads::EluAlpha, "{mode}");
            assert_eq!(differs(|p| p.softplus_beta = Some(0.5)), reads == Reads::SoftplusBeta, "{mode}");
            assert_eq!(differs(|p| p.swish_beta = Some(0.5)), reads == Reads::SwishBeta, "{mode}");
            assert_eq!(differs(|p| p.axis = Some(1)), reads == Reads::Axis, "{mode}");
        }
    }

    #[test]
    fn names_and_uids_are_nothing() {
        let graph = matmul_bias_relu();
        let mut renamed = graph.clone().name("other");
        for (at, tensor) in renamed.tensors.iter_mut().enumerate() {
            (tensor.name, tensor.uid) = (format!("n{}", 9 - at), Some(100 - at as i64));
        }
        renamed.operations.iter_mut().for_each(|operation| operation.name = "same".to_owned());
        assert_eq!(key(&renamed), key(&graph));
        assert_eq!(renamed.finalize().unwrap().text(), graph.finalize().unwrap().text());
    }

    #[test]
    fn everything_about_a_tensor_counts() {
        let edits: [fn(&mut Tensor); 7] = [
            |bias| bias.data_type = Some(DataType::Float),
            |bias| bias.stride = vec![256, 128, 1],
            |bias| bias.dim = vec![1, 64, 128],
            |bias| bias.alignment = 8,
            |bias| bias.reordering = Reordering::F16x16,
            |bias| bias.ragged_offset_multiplier = 2,
            |bias| *bias = Tensor::scalar("bias", DataType::Half, Scalar::Float(1.0)),
        ];
        let mut keys = vec![key(&matmul_bias_relu())];
        for edit in edits {
            let mut graph = matmul_bias_relu();
            edit(graph.tensor_mut(TensorHandle(2)));
            keys.push(key(&graph));
        }
        let mut stored = matmul_bias_relu();
        stored.set_output(TensorHandle(3));
        keys.push(key(&stored));
        assert_all_differ(keys);
    }

    fn assert_all_differ(mut keys: Vec<GraphKey>) {
        let count = keys.len();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), count);
    }

    #[test]
    fn the_value_of_a_host_scalar_is_an_argument() {
        let scaled = |value| {
            let mut graph = half_graph();
            let x = input(&mut graph, "x", &[2, 3]);
            let scale = graph.tensor(Tensor::scalar("scale", DataType::Float, Scalar::Float(value)));
            let y = graph.pointwise("scale", PointwiseMode::Mul, &[x, scale]);
            graph.set_output(y);
            key(&graph)
        };
        assert_eq!(scaled(0.5), scaled(2.0));
    }

    #[test]
    fn attributes_count_where_the_mode_reads_them() {
        let edits: [fn(&mut Pointwise); 8] = [
            |relu| relu.relu_lower_clip = Some(0.5),
            |relu| relu.relu_lower_clip = Some(-0.0),
            |relu| relu.relu_upper_clip = Some(6.0),
            |relu| relu.relu_lower_clip_slope = Some(0.01),
            |relu| relu.nan_propagation = Some(NanPropagation::NotPropagate),
            |relu| relu.alpha1 = 2.0,
            |relu| relu.alpha2 = 2.0,
            |relu| relu.mode = PointwiseMode::EluFwd,
        ];
        let plain = Pointwise::new(PointwiseMode::ReluFwd);
        let edited = edits.iter().map(|edit| {
            let mut attributes = plain.clone();
            edit(&mut attributes);
            key(&pointwise(attributes))
        });
        assert_all_differ(edited.chain([key(&pointwise(plain.clone()))]).collect());
        let spelled_out = Pointwise {
            relu_lower_clip: Some(0.0),
            swish_beta: Some(3.0),
            axis: Some(1),
            nan_propagation: Some(NanPropagation::Propagate),
            ..plain.clone()
        };
        assert_eq!(key(&pointwise(spelled_out)), key(&pointwise(plain)));
    }

    #[test]
    fn betas_alphas_and_axes_count() {
        let with = |mode, value: f32, axis: i64| Pointwise {
            swish_beta: Some(value),
            softplus_beta: Some(value + 1.0),
            elu_alpha: Some(value),
            axis: Some(axis),
            ..Pointwise::new(mode)
        };
        for mode in [PointwiseMode::SwishFwd, PointwiseMode::SoftplusBwd, PointwiseMode::EluFwd] {
            assert_ne!(key(&pointwise(with(mode, 1.0, 0))), key(&pointwise(with(mode, 2.0, 0))), "{mode}");
            assert_eq!(key(&pointwise(with(mode, 1.0, 0))), key(&pointwise(with(mode, 1.0, 1))), "{mode}");
        }
        let index = |axis| key(&pointwise(with(PointwiseMode::GenIndex, 1.0, axis)));
        assert_ne!(index(0), index(2));
    }

    #[test]
    fn every_attribute_of_a_convolution_counts() {
        let edits: [fn(&mut Convolution); 6] = [
            |_| {},
            |conv| conv.mode = ConvolutionMode::Convolution,
            |conv| (conv.pre_padding, conv.post_padding) = (vec![0, 1], vec![2, 1]),
            |conv| (conv.dilation, conv.pre_padding, conv.post_padding) = (vec![2, 1], vec![2, 1], vec![2, 1]),
            |conv| conv.alpha = 2.0,
            |conv| conv.beta = 1.0,
        ];
        let keys = edits.iter().map(|edit| {
            let mut graph = convolution(ConvolutionDirection::Forward);
            if let Attributes::Convolution(convolution) = &mut graph.operations[0].attributes {
                edit(convolution);
            }
            key(&graph)
        });
        assert_all_differ(keys.collect());
    }

    #[test]
    fn kinds_and_compute_types_count() {
        let reduced = |mode, is_deterministic, compute| {
            let mut graph = half_graph();
            let x = input(&mut graph, "x", &[2, 3]);
            let y = graph.reduction("sum", mode, x, [2, 1]);
            graph.set_output(y);
            graph.last_operation().attributes = Attributes::Reduction(Reduction { mode, is_deterministic });
            graph.last_operation().compute_data_type = Some(compute);
            key(&graph)
        };
        assert_all_differ(vec![
            reduced(ReductionMode::Add, false, DataType::Float),
            reduced(ReductionMode::Max, false, DataType::Float),
            reduced(ReductionMode::Add, true, DataType::Float),
            reduced(ReductionMode::Add, false, DataType::Half),
        ]);
    }

    #[test]
    fn attributes_of_carried_operations_count_where_they_are_set() {
        let transposed = |permutation: [i64; 2], extra: serde_json::Value| {
            let mut graph = half_graph();
            let x = input(&mut graph, "x", &[4, 4]);
            let rows = [("permutation".to_owned(), permutation.to_vec().into()), ("extra".to_owned(), extra)];
            other(
                &mut graph,
                Attributes::Other(Other { tag: "TRANSPOSE", attributes: rows.into() }),
                &[("X", x)],
                &["Y"],
            );
            graph.tensors[1] = Tensor::new("Y").row_major([4, 4]);
            key(&graph)
        };
        let plain = transposed([1, 0], serde_json::Value::Null);
        assert_eq!(transposed([1, 0], false.into()), plain);
        assert_eq!(transposed([1, 0], Vec::<i64>::new().into()), plain);
        assert_ne!(transposed([1, 0], true.into()), plain);
        assert_ne!(transposed([0, 1], serde_json::Value::Null), plain);
    }

    #[test]
    fn the_form_is_versioned_and_the_key_stable() {
        // A change of this value invalidates every cache: raise the number in FORM with it.
        assert_eq!(key(&matmul_bias_relu()).to_string(), "2f68282eb289a1c06a40322181ba4585");
        assert_eq!(key(&matmul_bias_relu()).to_string().len(), 32);
    }
}
