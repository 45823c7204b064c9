//! Canonical text of a finalized graph: for logs, errors and goldens. It holds no names of the author and no uids, so
//! graphs of one key have one text.

use std::collections::HashMap;

use super::key::{float_attributes, suppresses_nan};
use super::{
    Attributes, Convolution, ConvolutionMode, FinalizedGraph, Fraction, Operation, OperationId, Pointwise,
    PointwiseMode, Port, Reordering, Resample, Scalar, TensorId,
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

    /// The author's names of all tensors in canonical order: `'bias'`, the uid where a tensor has no name, and both where another has
    /// the same.
    pub fn author_names(&self) -> Vec<String> {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        self.tensors().for_each(|tensor| *counts.entry(&tensor.name).or_default() += 1);
        let name = |id| {
            let tensor = self.tensor(id);
            match counts[tensor.name.as_str()] {
                _ if tensor.name.is_empty() => format!("uid {}", tensor.uid),
                1 => format!("'{}'", tensor.name.escape_debug()),
                _ => self.describe_tensor(id),
            }
        };
        self.tensor_ids().map(name).collect()
    }

    /// An operation as in [`Self::text`], with its own name and these of its tensors:
    /// `'mm' MATMUL(A='a', B='b') compute FLOAT -> 'c' output HALF [1, 64, 128] stride [8192, 128, 1]`.
    pub fn named_operation(&self, id: OperationId, names: &[String]) -> String {
        let operation = self.operation(id);
        let name = |id: TensorId| names[id.index()].clone();
        let own =
            if operation.name.is_empty() { String::new() } else { format!("'{}' ", operation.name.escape_debug()) };
        let result = |id| format!("{} {}", name(id), self.tensor_text(id, &name));
        let results: Vec<String> = operation.output_tensors().map(result).collect();
        let arrow = if results.is_empty() { "" } else { " -> " };
        format!("{own}{}{arrow}{}", self.call_text(id, &name), results.join(", "))
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
        format!("{} = {}", self.canonical_name(id), self.tensor_text(id, &|id| self.canonical_name(id)))
    }

    fn operation_line(&self, id: OperationId) -> String {
        let name = |id: TensorId| self.canonical_name(id);
        let (call, results) = (self.call_text(id, &name), self.operation(id).output_tensors());
        let (names, texts): (Vec<String>, Vec<String>) =
            results.map(|id| (name(id), self.tensor_text(id, &name))).unzip();
        if names.is_empty() { call } else { format!("{} = {call} -> {}", names.join(", "), texts.join(", ")) }
    }

    /// Tag, operands, attributes and compute type.
    fn call_text(&self, id: OperationId, name: &dyn Fn(TensorId) -> String) -> String {
        let operation = self.operation(id);
        let slot = |&(port, id): &(Port, TensorId)| format!("{port}={}", name(id));
        let inputs: Vec<String> = operation.inputs.iter().map(slot).collect();
        let mut text = format!("{}({})", operation.tag(), inputs.join(", "));
        for attribute in attribute_texts(&operation.attributes) {
            text += &format!(" {attribute}");
        }
        if let Some(compute) = operation.compute_data_type {
            text += &format!(" compute {compute}");
        }
        text
    }

    /// What a tensor is to the graph: `input`, `scalar`, `virtual` or `output`; `copy` where an operand's copy stands for it.
    pub fn role(&self, id: TensorId) -> &'static str {
        let tensor = self.tensor(id);
        match (self.producer(id), tensor.is_virtual) {
            (None, _) if tensor.is_pass_by_value => "scalar",
            (None, true) => "copy",
            (None, false) => "input",
            (Some(_), true) => "virtual",
            (Some(_), false) => "output",
        }
    }

    /// Role, type, extents, strides and what is unusual about a tensor, with these names.
    pub fn named_tensor(&self, id: TensorId, names: &[String]) -> String {
        self.tensor_text(id, &|id| names[id.index()].clone())
    }

    fn tensor_text(&self, id: TensorId, name: &dyn Fn(TensorId) -> String) -> String {
        let tensor = self.tensor(id);
        let mut text = format!("{} {} {:?} stride {:?}", self.role(id), tensor.data_type, tensor.dim, tensor.stride);
        if tensor.alignment != super::DEFAULT_ALIGNMENT {
            text += &format!(" align {}", tensor.alignment);
        }
        if tensor.reordering != Reordering::None {
            text += &format!(" reordered {}", tensor.reordering.name());
        }
        if let Some(offset) = tensor.ragged_offset {
            text += &format!(" ragged {} * {}", name(offset), tensor.ragged_offset_multiplier);
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
        Attributes::GenStats | Attributes::View | Attributes::Transpose => Vec::new(),
        Attributes::PageGather | Attributes::BlockBits => Vec::new(),
        Attributes::AllGather(gather) => vec![format!("place={}", gather.place)],
        Attributes::Bernoulli(bernoulli) => vec![format!("keep={}", bernoulli.keep)],
        Attributes::ResampleForward(resample) | Attributes::ResampleBackward(resample) => resample_texts(resample),
        Attributes::Concat(concat) => {
            let index = concat.in_place_index.map(|index| format!("in_place_index={index}"));
            [Some(format!("axis={}", concat.axis)), index].into_iter().flatten().collect()
        }
        Attributes::Signal(signal) => {
            vec![format!("{:?}", signal.mode).to_uppercase(), format!("value={}", signal.value)]
        }
        Attributes::Composite(composite) => composite.definition().texts(),
        Attributes::Other(other) => {
            other.set_attributes().map(|(key, value)| format!("{}={value}", key.escape_debug())).collect()
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
    format!("[{}]", values.iter().map(Fraction::to_string).collect::<Vec<_>>().join(", "))
}

/// `name=value` where the value differs from the default, to the bit.
fn different(name: &str, value: f64, default: f64) -> Vec<String> {
    if value.to_bits() == default.to_bits() { Vec::new() } else { vec![format!("{name}={value}")] }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{convolution, half_graph, image, input, matmul_bias_relu, other, pointwise};
    use super::super::{
        Concat, ConvolutionDirection, DataType, Graph, Other, PaddingMode, ReductionMode, ResampleMode, Signal,
        SignalMode, Tensor,
    };
    use super::*;

    fn text(graph: &Graph) -> String {
        graph.finalize().unwrap().text()
    }

    #[test]
    fn a_fused_matmul() {
        let finalized = matmul_bias_relu().finalize().unwrap();
        assert_eq!(
            finalized.text(),
            "t0 = input HALF [1, 64, 32] stride [2048, 32, 1]\n\
             t1 = input HALF [1, 32, 128] stride [4096, 128, 1]\n\
             t3 = input HALF [1, 1, 128] stride [128, 128, 1]\n\
             t2_matmul = MATMUL(A=t0, B=t1) compute FLOAT -> virtual FLOAT [1, 64, 128] stride [8192, 128, 1]\n\
             t4_add = POINTWISE(IN_0=t2_matmul, IN_1=t3) ADD compute FLOAT -> virtual FLOAT [1, 64, 128] stride [8192, 128, 1]\n\
             t5_relu_fwd = POINTWISE(IN_0=t4_add) RELU_FWD compute FLOAT -> output HALF [1, 64, 128] stride [8192, 128, 1]\n"
        );
        assert_eq!(finalized.legend().lines().nth(3), Some("t3 = 'bias' (uid 4)"));
    }

    #[test]
    fn authors_read_their_own_names() {
        let mut graph = matmul_bias_relu();
        graph.tensors[0].name = String::new();
        graph.tensors[3].name = "C".to_owned();
        graph.tensors[4].name = "C".to_owned();
        let finalized = graph.finalize().unwrap();
        let names = finalized.author_names();
        let lines: Vec<String> = finalized.operation_ids().map(|id| finalized.named_operation(id, &names)).collect();
        assert!(lines[0].starts_with("'mm' MATMUL(A=uid 1, B='B') compute FLOAT -> "), "{lines:?}");
        assert!(
            lines[1].contains("(IN_0='C' (uid 3), IN_1='bias') ADD compute FLOAT -> 'C' (uid 5) virtual FLOAT [1, 64"),
            "{lines:?}"
        );
        let input = finalized.tensor_by_uid(1).unwrap();
        assert_eq!(finalized.named_tensor(input, &names), "input HALF [1, 64, 32] stride [2048, 32, 1]");
    }

    #[test]
    fn attributes_are_listed_where_they_are_not_the_default() {
        let relu = Pointwise { relu_upper_clip: Some(6.0), alpha1: 2.0, ..Pointwise::new(PointwiseMode::ReluFwd) };
        assert!(text(&pointwise(relu)).contains("RELU_FWD upper_clip=6 alpha1=2 compute FLOAT"));
        let max = Pointwise {
            nan_propagation: Some(super::super::NanPropagation::NotPropagate),
            ..Pointwise::new(PointwiseMode::Max)
        };
        assert!(text(&pointwise(max)).contains("MAX not_propagate_nan compute"));
        let index = Pointwise { axis: Some(2), ..Pointwise::new(PointwiseMode::GenIndex) };
        assert!(text(&pointwise(index)).contains("GEN_INDEX axis=2 compute"));
        let convolution = text(&convolution(ConvolutionDirection::BackwardData));
        let expected = "t2_conv_dgrad = CONV_DGRAD(DY=t0, W=t1) pre_padding=[1, 1] post_padding=[1, 1] stride=[1, 1] dilation=[1, 1] compute";
        assert!(convolution.contains(expected), "{convolution}");
    }

    #[test]
    fn tensors_tell_what_is_unusual() {
        let mut graph = matmul_bias_relu();
        graph.tensors[2] = Tensor::scalar("bias", DataType::Float, Scalar::Float(0.5));
        graph.tensors[0].alignment = 4;
        graph.tensors[1].reordering = Reordering::F16x16;
        let finalized = graph.finalize().unwrap();
        assert!(finalized.text().contains("t0 = input HALF [1, 64, 32] stride [2048, 32, 1] align 4\n"));
        assert!(finalized.text().contains("stride [4096, 128, 1] reordered F16x16\n"));
        assert!(finalized.text().contains("t3 = scalar FLOAT [1, 1, 1] stride [1, 1, 1]\n"));
        assert!(finalized.legend().contains("t3 = 'bias' (uid 4) value 0.5\n"));
    }

    #[test]
    fn kinds_of_several_or_no_results() {
        let mut graph = half_graph();
        let x = image(&mut graph, "x", &[2, 3, 8, 8]);
        let flag = graph.tensor(Tensor::new("flag").data_type(DataType::Int32).row_major([1, 1, 1, 1]));
        let (sum, sq_sum) = graph.genstats("stats", x);
        graph.set_output(sum);
        graph.set_output(sq_sum);
        let set = Attributes::Signal(Signal { mode: SignalMode::Set, value: 3 });
        other(&mut graph, set, &[("X", x), ("FLAG", flag)], &[]);
        let text = text(&graph);
        assert!(
            text.contains("t2_genstats, t3_genstats = GENSTATS(X=t0)") || text.contains("_genstats = GENSTATS"),
            "{text}"
        );
        assert!(text.lines().any(|line| line.starts_with("SIGNAL(") && line.ends_with(" SET value=3")), "{text}");
    }

    #[test]
    fn canonical_names_are_identifiers() {
        let mut graph = half_graph();
        let x = graph.tensor(Tensor::new("ünicode ;").row_major([2, 3, 8, 8]));
        let max = graph.reduction("r", ReductionMode::MulNoZeros, x, [2, 3, 8, 1]);
        let half = Fraction { numerator: 1, denominator: 2 };
        let resample = Resample {
            mode: ResampleMode::Bilinear,
            padding_mode: PaddingMode::EdgeValPad,
            window: vec![Fraction::whole(2); 2],
            stride: vec![half; 2],
            pre_padding: vec![half; 2],
            post_padding: vec![Fraction::whole(1); 2],
            generate_index: None,
            alpha: 1.0,
            beta: 0.0,
        };
        let large = graph.resample("up", resample, x);
        let joined = graph.concatenate("cat", 3, &[x, x]);
        for id in [max, large, joined] {
            graph.set_output(id);
        }
        let finalized = graph.finalize().unwrap();
        for id in finalized.tensor_ids() {
            let name = finalized.canonical_name(id);
            assert!(
                name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_'),
                "{name}"
            );
        }
        let text = finalized.text();
        assert!(text.contains("_reduction_mul_no_zeros = REDUCTION(X=t0) MUL_NO_ZEROS compute FLOAT"), "{text}");
        assert!(
            text.contains("BILINEAR EDGE_VAL_PAD window=[2, 2] stride=[1/2, 1/2] pre_padding=[1/2, 1/2]"),
            "{text}"
        );
        assert!(text.contains("_concatenate = CONCATENATE(INPUT=t0, INPUT=t0) axis=3 -> "), "{text}");
        assert_eq!(text, graph.finalize().unwrap().text());
    }

    #[test]
    fn carried_operations_show_what_is_set() {
        let mut graph = half_graph();
        let x = input(&mut graph, "x", &[2, 3]);
        let attributes = [("permutation", serde_json::json!([1, 0])), ("unset", serde_json::Value::Null)];
        let attributes = attributes.map(|(key, value)| (key.to_owned(), value)).into();
        other(&mut graph, Attributes::Other(Other { tag: "TRANSPOSE", attributes }), &[("X", x)], &["Y"]);
        assert!(
            text(&graph)
                .contains("t1_transpose = TRANSPOSE(X=t0) permutation=[1,0] compute FLOAT -> output HALF [3, 2]")
        );
    }

    #[test]
    fn concatenations_name_their_place() {
        let mut graph = half_graph();
        let x = input(&mut graph, "x", &[2, 3]);
        let y = graph.concatenate("cat", 0, &[x, x]);
        graph.set_output(y);
        graph.last_operation().attributes = Attributes::Concat(Concat { axis: 0, in_place_index: Some(1) });
        assert!(text(&graph).contains("axis=0 in_place_index=1 ->"));
    }
}
