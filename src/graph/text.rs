//! Canonical text of a finalized graph: for logs, errors and goldens. It holds no names of the author and no uids, so
//! graphs of one key have one text.

use super::key::{float_attributes, suppresses_nan};
use super::{
    Attributes, Convolution, ConvolutionMode, FinalTensor, FinalizedGraph, Fraction, Operation, OperationId, Pointwise,
    PointwiseMode, Reordering, Resample, Scalar, TensorId,
};

impl FinalizedGraph {
    /// One line for each graph input, then one for each operation, which also describes its results:
    ///
    /// ```text
    /// t0 = input HALF [1, 64, 32] stride [2048, 32, 1]
    /// t1 = input HALF [1, 32, 128] stride [4096, 128, 1]
    /// t2_matmul = MATMUL(A=t0, B=t1) compute FLOAT -> output FLOAT [1, 64, 128] stride [8192, 128, 1]
    /// ```
    ///
    /// Alignment is printed where it is not 16 bytes, attributes where they are not the default.
    pub fn text(&self) -> String {
        let inputs = self.tensor_ids().filter(|&id| self.producer(id).is_none()).map(|id| self.input_line(id));
        let operations = self.operation_ids().map(|id| self.operation_line(id));
        inputs.chain(operations).map(|line| line + "\n").collect()
    }

    /// Name of a tensor made of its place in the canonical order: `t0` for graph inputs, `t5_add` for results.
    /// Letters are `[a-z0-9_]`, so it is an identifier of generated code.
    pub fn canonical_name(&self, id: TensorId) -> String {
        match self.producer(id) {
            None => format!("t{}", id.index()),
            Some(producer) => format!("t{}_{}", id.index(), function_name(self.operation(producer))),
        }
    }

    /// What the canonical names stand for, one line a tensor: `t0 = 'A' (uid 1)`, with the value of a host scalar
    /// where it is known.
    pub fn legend(&self) -> String {
        self.tensor_ids().map(|id| self.legend_line(id) + "\n").collect()
    }

    fn legend_line(&self, id: TensorId) -> String {
        let value = match self.tensor(id).value {
            Some(Scalar::Float(value)) => format!(" value {value}"),
            Some(Scalar::Integer(value)) => format!(" value {value}"),
            None => String::new(),
        };
        format!("{} = {}{value}", self.canonical_name(id), self.describe_tensor(id))
    }

    fn input_line(&self, id: TensorId) -> String {
        let tensor = self.tensor(id);
        let kind = if tensor.is_pass_by_value { "scalar" } else { "input" };
        format!("{} = {kind} {}", self.canonical_name(id), self.tensor_text(tensor))
    }

    fn operation_line(&self, id: OperationId) -> String {
        let operation = self.operation(id);
        let results: Vec<String> = operation.output_tensors().map(|id| self.canonical_name(id)).collect();
        let inputs: Vec<String> =
            operation.inputs.iter().map(|&(port, id)| format!("{port}={}", self.canonical_name(id))).collect();
        let attributes: String =
            attribute_texts(&operation.attributes).into_iter().map(|text| " ".to_owned() + &text).collect();
        let compute = operation.compute_data_type.map_or(String::new(), |compute| format!(" compute {compute}"));
        let outputs: Vec<String> = operation.output_tensors().map(|id| self.result_text(id)).collect();
        format!(
            "{} = {}({}){attributes}{compute} -> {}",
            results.join(", "),
            operation.tag(),
            inputs.join(", "),
            outputs.join(", ")
        )
    }

    fn result_text(&self, id: TensorId) -> String {
        let tensor = self.tensor(id);
        let kind = if tensor.is_virtual { "virtual" } else { "output" };
        format!("{kind} {}", self.tensor_text(tensor))
    }

    fn tensor_text(&self, tensor: &FinalTensor) -> String {
        let mut text = format!("{} {:?} stride {:?}", tensor.data_type, tensor.dim, tensor.stride);
        if tensor.alignment != super::DEFAULT_ALIGNMENT {
            text += &format!(" align {}", tensor.alignment);
        }
        if tensor.reordering != Reordering::None {
            text += &format!(" reordered {}", tensor.reordering.name());
        }
        if let Some(offset) = tensor.ragged_offset {
            text += &format!(" ragged {} * {}", self.canonical_name(offset), tensor.ragged_offset_multiplier);
        }
        text
    }
}

/// The function an operation applies, in lower case: a pointwise mode, `reduction_max`, or the tag.
fn function_name(operation: &Operation) -> String {
    match &operation.attributes {
        Attributes::Pointwise(pointwise) => pointwise.mode.name().to_lowercase(),
        Attributes::Reduction(reduction) => format!("reduction_{}", reduction.mode.name().to_lowercase()),
        other => other.tag().to_lowercase(),
    }
}

/// Attributes that are not the default.
fn attribute_texts(attributes: &Attributes) -> Vec<String> {
    match attributes {
        Attributes::Matmul(matmul) => different("padding_value", matmul.padding_value, 0.0),
        Attributes::Convolution(convolution) => convolution_texts(convolution),
        Attributes::Pointwise(pointwise) => pointwise_texts(pointwise),
        Attributes::Reduction(reduction) => {
            let deterministic = reduction.is_deterministic.then(|| "deterministic".to_owned());
            [Some(reduction.mode.name().to_owned()), deterministic].into_iter().flatten().collect()
        }
        Attributes::GenStats => Vec::new(),
        Attributes::ResampleForward(resample) | Attributes::ResampleBackward(resample) => resample_texts(resample),
        Attributes::Concat(concat) => {
            let index = concat.in_place_index.map(|index| format!("in_place_index={index}"));
            [Some(format!("axis={}", concat.axis)), index].into_iter().flatten().collect()
        }
        Attributes::Signal(signal) => {
            vec![format!("{:?}", signal.mode).to_uppercase(), format!("value={}", signal.value)]
        }
        Attributes::Other(other) => {
            let set = other.attributes.iter().filter(|row| !row.1.is_null());
            set.map(|(key, value)| format!("{}={value}", key.escape_debug())).collect()
        }
    }
}

fn convolution_texts(convolution: &Convolution) -> Vec<String> {
    let mut texts = vec![
        format!("pre_padding={:?}", convolution.pre_padding),
        format!("post_padding={:?}", convolution.post_padding),
        format!("stride={:?}", convolution.stride),
        format!("dilation={:?}", convolution.dilation),
    ];
    if convolution.mode != ConvolutionMode::default() {
        texts.push(convolution.mode.name().to_owned());
    }
    texts.extend(different("alpha", convolution.alpha, 1.0));
    texts.extend(different("beta", convolution.beta, 0.0));
    texts
}

fn pointwise_texts(pointwise: &Pointwise) -> Vec<String> {
    let mut texts = vec![pointwise.mode.name().to_owned()];
    let defaults = float_attributes(&Pointwise::new(pointwise.mode));
    for ((name, value), (_, default)) in float_attributes(pointwise).into_iter().zip(defaults) {
        texts.extend(different(name, f64::from(value), f64::from(default)));
    }
    if let (PointwiseMode::GenIndex, Some(axis)) = (pointwise.mode, pointwise.axis) {
        texts.push(format!("axis={axis}"));
    }
    if suppresses_nan(pointwise) {
        texts.push("not_propagate_nan".to_owned());
    }
    texts.extend(different("alpha1", f64::from(pointwise.alpha1), 1.0));
    texts.extend(different("alpha2", f64::from(pointwise.alpha2), 1.0));
    texts
}

fn resample_texts(resample: &Resample) -> Vec<String> {
    let mut texts = vec![
        resample.mode.name().to_owned(),
        resample.padding_mode.name().to_owned(),
        format!("window={}", fractions(&resample.window)),
        format!("stride={}", fractions(&resample.stride)),
        format!("pre_padding={}", fractions(&resample.pre_padding)),
        format!("post_padding={}", fractions(&resample.post_padding)),
    ];
    texts.extend(different("alpha", resample.alpha, 1.0));
    texts.extend(different("beta", resample.beta, 0.0));
    texts
}

fn fractions(values: &[Fraction]) -> String {
    let text = |value: &Fraction| match value.denominator {
        1 => value.numerator.to_string(),
        denominator => format!("{}/{denominator}", value.numerator),
    };
    format!("[{}]", values.iter().map(text).collect::<Vec<_>>().join(", "))
}

/// `name=value` where the value differs from the default, to the bit.
fn different(name: &str, value: f64, default: f64) -> Vec<String> {
    if value.to_bits() == default.to_bits() { Vec::new() } else { vec![format!("{name}={value}")] }
}
