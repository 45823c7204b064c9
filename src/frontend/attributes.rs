//! Attributes of the operations that have types of their own: reading and writing, class by class (section 6).
//!
//! The keys that no frontend version writes (`alpha`, `beta`, `alpha1`, `alpha2`, `nan_propagation`, the denominators)
//! are ours; they are written only where the value is not the default.

use serde_json::Value;

use super::error::Failure;
use super::fields::{Fields, Object};
use super::float;
use crate::graph::{
    Attributes, Concat, Convolution, ConvolutionDirection, ConvolutionMode, Fraction, Matmul, NanPropagation,
    PaddingMode, Pointwise, PointwiseMode, Reduction, ReductionMode, Resample, ResampleMode, Signal, SignalMode,
};

/// Reads the attributes of a node whose tag has typed attributes; `None` for the other tags.
pub(super) fn read(tag: &str, fields: Fields<'_>) -> Option<Result<Attributes, Failure>> {
    Some(match tag {
        "MATMUL" => read_matmul(fields).map(Attributes::Matmul),
        "CONV_FPROP" => read_convolution(ConvolutionDirection::Forward, fields),
        "CONV_DGRAD" => read_convolution(ConvolutionDirection::BackwardData, fields),
        "CONV_WGRAD" => read_convolution(ConvolutionDirection::BackwardFilter, fields),
        "POINTWISE" => read_pointwise(fields).map(Attributes::Pointwise),
        "REDUCTION" => read_reduction(fields).map(Attributes::Reduction),
        "GENSTATS" => Ok(Attributes::GenStats),
        "RESAMPLE" => read_resample(fields).map(Attributes::ResampleForward),
        "RESAMPLE_BWD" => read_resample(fields).map(Attributes::ResampleBackward),
        "CONCATENATE" => read_concat(fields).map(Attributes::Concat),
        "SIGNAL" => read_signal(fields).map(Attributes::Signal),
        _ => return None,
    })
}

/// Writes typed attributes into a node; those kept by key are written elsewhere.
pub(super) fn write(attributes: &Attributes, node: &mut Object) {
    match attributes {
        Attributes::Matmul(matmul) => put(node, "padding_value", float::double(matmul.padding_value)),
        Attributes::Convolution(convolution) => write_convolution(convolution, node),
        Attributes::Pointwise(pointwise) => write_pointwise(pointwise, node),
        Attributes::Reduction(reduction) => {
            put(node, "mode", reduction.mode.name());
            put(node, "is_deterministic", reduction.is_deterministic);
        }
        Attributes::ResampleForward(resample) | Attributes::ResampleBackward(resample) => {
            write_resample(resample, node);
        }
        Attributes::Concat(concat) => {
            put(node, "axis", concat.axis);
            put(node, "in_place_index", concat.in_place_index);
        }
        Attributes::Signal(signal) => {
            put(node, "mode", signal_mode_name(signal.mode));
            put(node, "value", signal.value);
        }
        Attributes::Composite(_) | Attributes::GenStats | Attributes::View | Attributes::Transpose => {}
        Attributes::AllGather(_) | Attributes::Bernoulli(_) | Attributes::Other(_) => {}
        Attributes::PageGather | Attributes::BlockBits => {}
    }
}

fn put(node: &mut Object, key: &str, value: impl Into<Value>) {
    node.insert(key.to_owned(), value.into());
}

fn put_unless_default(node: &mut Object, key: &str, value: f64, default: f64) {
    if value != default {
        put(node, key, float::double(value));
    }
}

/// The library writes `null` for a mode it has no spelling for (FEJ-41), and never leaves the key out.
fn required_mode<T>(mode: Option<T>, key: &str, fields: Fields<'_>) -> Result<T, Failure> {
    let message = || match fields.0.contains_key(key) {
        true => format!("`{key}` is null: the mode is newer than the frontend that wrote the file"),
        false => format!("`{key}` is required, and absent; `fusewright rules --values` lists the modes"),
    };
    mode.ok_or_else(|| Failure::new("FEJ-41", message()))
}

fn missing(key: &str) -> Failure {
    Failure::new("FEJ-13", format!("`{key}` is required, and null or absent"))
}

fn read_matmul(fields: Fields<'_>) -> Result<Matmul, Failure> {
    Ok(Matmul { padding_value: fields.double("padding_value")?.unwrap_or(0.0) })
}

fn read_convolution(direction: ConvolutionDirection, fields: Fields<'_>) -> Result<Attributes, Failure> {
    let modes = [ConvolutionMode::CrossCorrelation, ConvolutionMode::Convolution].map(ConvolutionMode::name);
    Ok(Attributes::Convolution(Convolution {
        direction,
        mode: fields.spelled("math_mode", ConvolutionMode::from_name, modes)?.unwrap_or_default(),
        pre_padding: fields.integers("pre_padding")?,
        post_padding: fields.integers("post_padding")?,
        stride: fields.integers("stride")?,
        dilation: fields.integers("dilation")?,
        alpha: fields.double("alpha")?.unwrap_or(1.0),
        beta: fields.double("beta")?.unwrap_or(0.0),
    }))
}

fn write_convolution(convolution: &Convolution, node: &mut Object) {
    put(node, "math_mode", convolution.mode.name());
    put(node, "pre_padding", convolution.pre_padding.as_slice());
    put(node, "post_padding", convolution.post_padding.as_slice());
    put(node, "stride", convolution.stride.as_slice());
    put(node, "dilation", convolution.dilation.as_slice());
    put_unless_default(node, "alpha", convolution.alpha, 1.0);
    put_unless_default(node, "beta", convolution.beta, 0.0);
}

const NAN_PROPAGATION: [(NanPropagation, &str); 2] =
    [(NanPropagation::NotPropagate, "NOT_PROPAGATE_NAN"), (NanPropagation::Propagate, "PROPAGATE_NAN")];

fn read_pointwise(fields: Fields<'_>) -> Result<Pointwise, Failure> {
    let modes = PointwiseMode::ALL.iter().map(|mode| mode.name());
    let mode = fields.spelled("mode", PointwiseMode::from_name, modes)?;
    let nan = |name: &str| NAN_PROPAGATION.iter().find(|row| row.1 == name).map(|row| row.0);
    Ok(Pointwise {
        axis: fields.integer("axis")?,
        relu_lower_clip: fields.float("relu_lower_clip")?,
        relu_upper_clip: fields.float("relu_upper_clip")?,
        relu_lower_clip_slope: fields.float("relu_lower_clip_slope")?,
        swish_beta: fields.float("swish_beta")?,
        elu_alpha: fields.float("elu_alpha")?,
        softplus_beta: fields.float("softplus_beta")?,
        nan_propagation: fields.spelled("nan_propagation", nan, NAN_PROPAGATION.map(|row| row.1))?,
        alpha1: fields.float("alpha1")?.unwrap_or(1.0),
        alpha2: fields.float("alpha2")?.unwrap_or(1.0),
        ..Pointwise::new(required_mode(mode, "mode", fields)?)
    })
}

fn write_pointwise(pointwise: &Pointwise, node: &mut Object) {
    put(node, "mode", pointwise.mode.name());
    put(node, "axis", pointwise.axis);
    let floats = [
        ("relu_lower_clip", pointwise.relu_lower_clip),
        ("relu_upper_clip", pointwise.relu_upper_clip),
        ("relu_lower_clip_slope", pointwise.relu_lower_clip_slope),
        ("swish_beta", pointwise.swish_beta),
        ("elu_alpha", pointwise.elu_alpha),
        ("softplus_beta", pointwise.softplus_beta),
    ];
    for (key, value) in floats {
        put(node, key, value.map_or(Value::Null, float::hex));
    }
    for (key, value) in [("alpha1", pointwise.alpha1), ("alpha2", pointwise.alpha2)] {
        if value != 1.0 {
            put(node, key, float::hex(value));
        }
    }
    if let Some((_, name)) = NAN_PROPAGATION.iter().find(|row| Some(row.0) == pointwise.nan_propagation) {
        put(node, "nan_propagation", *name);
    }
}

fn read_reduction(fields: Fields<'_>) -> Result<Reduction, Failure> {
    let modes = ReductionMode::ALL.iter().map(|mode| mode.name());
    let mode = fields.spelled("mode", ReductionMode::from_name, modes)?;
    let is_deterministic = fields.boolean("is_deterministic")?.unwrap_or(false);
    Ok(Reduction { is_deterministic, ..Reduction::new(required_mode(mode, "mode", fields)?) })
}

fn read_resample(fields: Fields<'_>) -> Result<Resample, Failure> {
    let mode = fields.spelled("resample_mode", ResampleMode::from_name, ResampleMode::names())?;
    let padding_mode = fields.spelled("padding_mode", PaddingMode::from_name, PaddingMode::names())?;
    // Frontend 1.9 to 1.12 wrote the negation.
    let is_inference = fields.boolean("is_inference")?;
    Ok(Resample {
        mode: required_mode(mode, "resample_mode", fields)?,
        padding_mode: padding_mode.unwrap_or(PaddingMode::ZeroPad),
        window: read_fractions("window", "window_denominators", fields)?,
        stride: read_fractions("stride", "stride_denominators", fields)?,
        pre_padding: read_fractions("pre_padding", "pre_padding_denominators", fields)?,
        post_padding: read_fractions("post_padding", "post_padding_denominators", fields)?,
        generate_index: fields.boolean("generate_index")?.or(is_inference.map(|inference| !inference)),
        alpha: fields.double("alpha")?.unwrap_or(1.0),
        beta: fields.double("beta")?.unwrap_or(0.0),
    })
}

fn read_fractions(key: &str, denominator_key: &str, fields: Fields<'_>) -> Result<Vec<Fraction>, Failure> {
    let numerators = fields.integers(key)?;
    let denominators = match fields.get(denominator_key) {
        None => vec![1; numerators.len()],
        Some(_) => fields.integers(denominator_key)?,
    };
    if denominators.len() != numerators.len() || denominators.iter().any(|&denominator| denominator < 1) {
        let required = format!("{} positive integers are required", numerators.len());
        return Err(Failure::new("FEJ-13", format!("`{denominator_key}`: {required}, found {denominators:?}")));
    }
    let fraction = |(numerator, denominator)| Fraction { numerator, denominator };
    Ok(numerators.into_iter().zip(denominators).map(fraction).collect())
}

fn write_resample(resample: &Resample, node: &mut Object) {
    put(node, "resample_mode", resample.mode.name());
    put(node, "padding_mode", resample.padding_mode.name());
    write_fractions("window", "window_denominators", &resample.window, node);
    write_fractions("stride", "stride_denominators", &resample.stride, node);
    write_fractions("pre_padding", "pre_padding_denominators", &resample.pre_padding, node);
    write_fractions("post_padding", "post_padding_denominators", &resample.post_padding, node);
    put(node, "generate_index", resample.generate_index);
    put_unless_default(node, "alpha", resample.alpha, 1.0);
    put_unless_default(node, "beta", resample.beta, 0.0);
}

fn write_fractions(key: &str, denominator_key: &str, fractions: &[Fraction], node: &mut Object) {
    let numerators: Vec<i64> = fractions.iter().map(|fraction| fraction.numerator).collect();
    let denominators: Vec<i64> = fractions.iter().map(|fraction| fraction.denominator).collect();
    put(node, key, numerators);
    if denominators.iter().any(|&denominator| denominator != 1) {
        put(node, denominator_key, denominators);
    }
}

fn read_concat(fields: Fields<'_>) -> Result<Concat, Failure> {
    let axis = fields.integer("axis")?.ok_or_else(|| missing("axis"))?;
    Ok(Concat { axis, in_place_index: fields.integer("in_place_index")? })
}

fn signal_mode_name(mode: SignalMode) -> &'static str {
    match mode {
        SignalMode::Set => "SET",
        SignalMode::Wait => "WAIT",
    }
}

fn read_signal(fields: Fields<'_>) -> Result<Signal, Failure> {
    let modes = [SignalMode::Set, SignalMode::Wait];
    let from_name = |name: &str| modes.into_iter().find(|&mode| signal_mode_name(mode) == name);
    let mode = fields.spelled("mode", from_name, modes.map(signal_mode_name))?.ok_or_else(|| missing("mode"))?;
    Ok(Signal { mode, value: fields.integer("value")?.ok_or_else(|| missing("value"))? })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read_object(tag: &str, object: &Value) -> Result<Attributes, Failure> {
        read(tag, Fields(object.as_object().unwrap())).unwrap()
    }

    fn write_object(attributes: &Attributes) -> Value {
        let mut node = Object::new();
        write(attributes, &mut node);
        Value::Object(node)
    }

    #[track_caller]
    fn reads_back(attributes: Attributes) {
        assert_eq!(read_object(attributes.tag(), &write_object(&attributes)), Ok(attributes));
    }

    fn resample() -> Resample {
        let whole = |value| vec![Fraction::whole(value); 2];
        Resample {
            mode: ResampleMode::Bilinear,
            padding_mode: PaddingMode::EdgeValPad,
            window: vec![Fraction { numerator: 1, denominator: 2 }, Fraction::whole(2)],
            stride: whole(2),
            pre_padding: whole(1),
            post_padding: whole(0),
            generate_index: Some(true),
            alpha: 0.5,
            beta: 1.0,
        }
    }

    #[test]
    fn every_class_reads_back() {
        reads_back(Attributes::Matmul(Matmul { padding_value: 0.1 }));
        let convolution = Convolution::new(ConvolutionDirection::BackwardData, 3).padding([1, 2, 3]);
        reads_back(Attributes::Convolution(Convolution { alpha: 0.5, beta: 2.0, ..convolution }));
        for &mode in PointwiseMode::ALL {
            reads_back(Attributes::Pointwise(Pointwise::new(mode)));
        }
        reads_back(Attributes::Pointwise(Pointwise {
            relu_upper_clip: Some(f32::INFINITY),
            swish_beta: Some(0.1),
            axis: Some(2),
            nan_propagation: Some(NanPropagation::NotPropagate),
            alpha1: 0.5,
            ..Pointwise::new(PointwiseMode::ReluFwd)
        }));
        for &mode in ReductionMode::ALL {
            reads_back(Attributes::Reduction(Reduction { mode, is_deterministic: true }));
        }
        reads_back(Attributes::GenStats);
        reads_back(Attributes::ResampleForward(resample()));
        reads_back(Attributes::ResampleBackward(resample()));
        reads_back(Attributes::Concat(Concat { axis: 1, in_place_index: Some(0) }));
        reads_back(Attributes::Signal(Signal { mode: SignalMode::Wait, value: -3 }));
    }

    #[test]
    fn keys_of_ours_are_written_only_where_not_default() {
        let written = write_object(&Attributes::Convolution(Convolution::new(ConvolutionDirection::Forward, 2)));
        assert_eq!(written.as_object().unwrap().len(), 5);
        let written = write_object(&Attributes::Pointwise(Pointwise::new(PointwiseMode::Add)));
        assert_eq!(written.as_object().unwrap().len(), 8);
    }

    #[test]
    fn a_null_mode_and_a_misspelled_mode_say_so() {
        let error = read_object("POINTWISE", &json!({"mode": null})).unwrap_err();
        assert_eq!(error.rule, "FEJ-41");
        assert!(error.message.starts_with("`mode` is null: the mode is newer than"), "{}", error.message);
        let error = read_object("POINTWISE", &json!({})).unwrap_err();
        assert!(error.message.starts_with("`mode` is required, and absent"), "{}", error.message);
        let error = read_object("REDUCTION", &json!({"mode": "AMAXX"})).unwrap_err();
        let text = "`mode`: unknown value \"AMAXX\", did you mean \"AMAX\"? \
                    (one of ADD, MUL, MIN, MAX, AMAX, AVG, NORM1, NORM2, MUL_NO_ZEROS)";
        assert_eq!(error.message, text);
        assert_eq!(error.rule, "FEJ-12");
    }

    #[test]
    fn an_older_resample_says_is_inference() {
        let old = json!({"resample_mode": "MAXPOOL", "is_inference": false});
        let Ok(Attributes::ResampleForward(resample)) = read_object("RESAMPLE", &old) else { panic!() };
        assert_eq!((resample.generate_index, resample.padding_mode), (Some(true), PaddingMode::ZeroPad));
    }

    #[test]
    fn denominators_match_their_numerators() {
        let wrong = json!({"resample_mode": "NEAREST", "window": [1, 2], "window_denominators": [2, 0]});
        let message = read_object("RESAMPLE", &wrong).unwrap_err().message;
        assert_eq!(message, "`window_denominators`: 2 positive integers are required, found [2, 0]");
    }

    #[test]
    fn a_concatenation_needs_its_axis() {
        assert_eq!(
            read_object("CONCATENATE", &json!({})).unwrap_err().message,
            "`axis` is required, and null or absent"
        );
    }
}
