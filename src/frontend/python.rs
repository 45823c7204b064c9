//! Python's print of a graph that is not lowered, rewritten as a graph object keyed by names (section 6.9).
//!
//! Best effort: what this form does not write (flags and values of scalars, reordering, ragged offsets) is lost.

use serde_json::{Value, json};

use super::error::{Failure, MOST};
use super::fields::{Fields, Object, shortened};
use super::spelling::tag_hint;
use crate::graph::PointwiseMode;

/// How one `type` maps to a tag; ports are pairs (Python's, ours), and ports that agree are not listed.
struct Type {
    name: &'static str,
    tag: &'static str,
    ports: &'static [(&'static str, &'static str)],
}

const fn of(name: &'static str, tag: &'static str, ports: &'static [(&'static str, &'static str)]) -> Type {
    Type { name, tag, ports }
}

const UNARY: &[(&str, &str)] = &[("input", "X"), ("OUT_0", "Y")];

const NORM: &[(&str, &str)] = &[
    ("input", "X"),
    ("scale", "SCALE"),
    ("bias", "BIAS"),
    ("epsilon", "EPSILON"),
    ("momentum", "MOMENTUM"),
    ("in_running_mean", "PREV_RUNNING_MEAN"),
    ("in_running_var", "PREV_RUNNING_VAR"),
    ("mean", "MEAN"),
    ("inv_var", "INV_VARIANCE"),
    ("next_running_mean", "NEXT_RUNNING_MEAN"),
    ("next_running_var", "NEXT_RUNNING_VAR"),
];

const NORM_BACKWARD: &[(&str, &str)] = &[
    ("grad", "DY"),
    ("input", "X"),
    ("scale", "SCALE"),
    ("mean", "MEAN"),
    ("inv_variance", "INV_VARIANCE"),
    ("DScale", "DSCALE"),
    ("DBias", "DBIAS"),
];

const ATTENTION: &[(&str, &str)] = &[
    ("q", "Q"),
    ("k", "K"),
    ("v", "V"),
    ("o", "O"),
    ("stats", "Stats"),
    ("bias", "Bias"),
    ("attn_scale", "Attn_scale"),
    ("seq_len_q", "SEQ_LEN_Q"),
    ("seq_len_kv", "SEQ_LEN_KV"),
    ("dropout_1", "Seed"),
    ("dropout_2", "Offset"),
];

const TYPES: &[Type] = &[
    of("MATMUL", "MATMUL", &[]),
    of("POINTWISE", "POINTWISE", &[]),
    of("CONV_FPROP", "CONV_FPROP", &[("image", "X"), ("weight", "W")]),
    of("CONV_DGRAD", "CONV_DGRAD", &[("loss", "DY"), ("filter", "W")]),
    of("CONV_WGRAD", "CONV_WGRAD", &[("loss", "DY"), ("image", "X")]),
    of("GENSTATS", "GENSTATS", &[("input", "X")]),
    of("REDUCTION", "REDUCTION", UNARY),
    of("BATCHNORM", "BATCHNORM", NORM),
    of("BATCHNORM_BWD", "DBN", NORM_BACKWARD),
    of("LAYERNORM", "LAYER_NORM", NORM),
    of("LAYERNORM_BWD", "LAYER_NORM_BPROP", NORM_BACKWARD),
    of("INSTANCENORM", "INSTANCE_NORM", NORM),
    of("RMSNORM", "RMS_NORM", NORM),
    of("SDPA", "SDPA", ATTENTION),
    of("SDPA_BWD", "SDPA_BWD", ATTENTION),
    of("RESHAPE", "RESHAPE", UNARY),
    of("SLICE", "SLICE", UNARY),
    of("TRANSPOSE", "TRANSPOSE", UNARY),
    of("CONCATENATE", "CONCATENATE", &[("OUT_0", "Y")]),
    of("BLOCK_SCALE_QUANTIZE", "BLOCK_SCALE_QUANTIZE", &[("input", "X")]),
    of("BLOCK_SCALE_DEQUANTIZE", "BLOCK_SCALE_DEQUANTIZE", &[("input", "X"), ("descale", "scale"), ("OUT_0", "Y")]),
];

/// Types that exist, and whose parameters are not known well enough to read them.
const NOT_READ: &[&str] = &[
    "RMSNORM_BWD",
    "ADALAYERNORM",
    "ADALAYERNORM_BWD",
    "INSTANCENORM_BWD",
    "BATCHNORM_INFERENCE",
    "SDPA_FP8",
    "SDPA_FP8_BWD",
    "SDPA_MXFP8",
    "SDPA_MXFP8_BWD",
    "MATMUL_FP8",
    "MOE_GROUPED_MATMUL",
    "MOE_GROUPED_MATMUL_BWD",
    "ROPE",
    "ROPE_BWD",
];

/// Families of linear attention; each type has variants with a suffix.
const NOT_READ_FAMILIES: &[&str] = &["GDN", "GDN2", "GDP", "KDA", "MAMBA2"];
const SUFFIXES: &[&str] = &["", "_BWD", "_SUMMARY", "_SUMMARY_BWD"];

/// The graph object that the library would write for this print.
pub(super) fn translate(root: &Object) -> Result<Object, Failure> {
    let fields = Fields(root);
    let mut tensors = Object::new();
    for (name, tensor) in fields.object("tensors")?.into_iter().flatten() {
        let failure = || Failure::new("FEJ-04", format!("an object is required, found {}", shortened(tensor)));
        let tensor = tensor.as_object().ok_or_else(|| failure().at_tensor(|| format!("'{}'", name.escape_debug())))?;
        tensors.insert(name.clone(), translate_tensor(name, tensor));
    }
    let (mut nodes, mut failures) = (Vec::new(), Vec::new());
    for (index, node) in fields.array("nodes")?.iter().enumerate() {
        if failures.len() == MOST {
            break;
        }
        match translate_node(node, &tensors) {
            Ok(translated) => nodes.push(translated),
            Err(failure) => failures.push(failure.at_node(|| super::node::describe(node, index))),
        }
    }
    Failure::of_all(failures)?;
    let mut translated = root.clone();
    for context in translated.get_mut("context").and_then(Value::as_object_mut).into_iter() {
        context.values_mut().for_each(|value| *value = plain(value));
    }
    translated.insert("nodes".to_owned(), Value::Array(nodes));
    translated.insert("tensors".to_owned(), Value::Object(tensors));
    Ok(translated)
}

fn translate_tensor(name: &str, tensor: &Object) -> Value {
    let mut translated = tensor.clone();
    let data_type = translated.remove("dtype").map_or(Value::Null, |data_type| plain(&data_type));
    translated.insert("data_type".to_owned(), data_type);
    translated.insert("name".to_owned(), json!(name));
    Value::Object(translated)
}

/// An enum value without its class: `data_type.HALF` is `HALF`, `None` is null.
fn plain(value: &Value) -> Value {
    match value.as_str() {
        Some("None") => Value::Null,
        Some(text) => json!(text.rsplit('.').next()),
        None => value.clone(),
    }
}

fn translate_node(node: &Value, tensors: &Object) -> Result<Value, Failure> {
    let empty = Object::new();
    let node = Fields(node.as_object().unwrap_or(&empty));
    let name = node.text("type")?.ok_or_else(|| Failure::new("FEJ-11", "the node has no `type`"))?;
    let kind = TYPES.iter().find(|kind| kind.name == name).ok_or_else(|| unread(name))?;
    let mut translated = Object::new();
    let mut put = |key: &str, value| translated.insert(key.to_owned(), value);
    put("tag", json!(kind.tag));
    put("name", node.get("name").cloned().unwrap_or_default());
    let inputs = translate_ports(kind, node.object("inputs")?);
    let spatial_axes = spatial_axes(&inputs, tensors);
    put("inputs", inputs);
    put("outputs", translate_ports(kind, node.object("outputs")?));
    let params = Fields(node.object("params")?.unwrap_or(&empty));
    translate_params(kind.tag, params, spatial_axes, &mut translated)?;
    Ok(Value::Object(translated))
}

fn unread(name: &str) -> Failure {
    let is_family = |family: &&str| name.strip_prefix(*family).is_some_and(|suffix| SUFFIXES.contains(&suffix));
    if NOT_READ.contains(&name) || NOT_READ_FAMILIES.iter().any(is_family) {
        let advice = "print the graph after it was lowered";
        return Failure::new("FEJ-11", format!("type \"{name}\" is known, not read in Python's form; {advice}"));
    }
    let hint = tag_hint(name, &TYPES.iter().map(|kind| kind.name).collect::<Vec<_>>());
    Failure::new("FEJ-11", format!("unknown type \"{}\"{hint}", name.escape_debug()))
}

fn translate_ports(kind: &Type, ports: Option<&Object>) -> Value {
    let rename = |port: &str| match kind.ports.iter().find(|pair| pair.0 == port) {
        Some(pair) => pair.1.to_owned(),
        None => port.strip_prefix("inputs_").unwrap_or(port).to_owned(),
    };
    let renamed = ports.into_iter().flatten().map(|(port, tensor)| (rename(port), plain_name(tensor)));
    Value::Object(renamed.collect())
}

/// A tensor's name; `None` is an absent port.
fn plain_name(tensor: &Value) -> Value {
    if tensor == "None" { Value::Null } else { tensor.clone() }
}

/// Axes beyond batch and channel, by the first input whose dims are known.
fn spatial_axes(inputs: &Value, tensors: &Object) -> usize {
    let names = inputs.as_object().into_iter().flat_map(Object::values).filter_map(Value::as_str);
    let ranks = names.filter_map(|name| Some(tensors.get(name)?.get("dim")?.as_array()?.len()));
    ranks.max().unwrap_or(0).saturating_sub(2)
}

fn translate_params(tag: &str, params: Fields<'_>, spatial_axes: usize, node: &mut Object) -> Result<(), Failure> {
    let mut put = |key: &str, value: Value| node.insert(key.to_owned(), value);
    match tag {
        "POINTWISE" => return translate_pointwise(params, node),
        "SDPA" | "SDPA_BWD" => return translate_attention(params, node),
        "SLICE" => return translate_slices(params, node),
        "MATMUL" => drop(put("padding_value", param(params, "padding"))),
        "CONV_FPROP" | "CONV_DGRAD" | "CONV_WGRAD" => {
            let or_all = |key: &str, default: i64| match params.get(key).or(params.get("padding")) {
                Some(value) if key.ends_with("padding") => value.clone(),
                _ => params.get(key).cloned().unwrap_or_else(|| json!(vec![default; spatial_axes])),
            };
            for (key, default) in [("pre_padding", 0), ("post_padding", 0), ("stride", 1), ("dilation", 1)] {
                put(key, or_all(key, default));
            }
        }
        "REDUCTION" => drop(put("mode", plain(&param(params, "mode")))),
        "BLOCK_SCALE_DEQUANTIZE" => {
            let block_size = param(params, "block_size");
            put("block_size", if block_size.is_i64() { json!([block_size]) } else { block_size });
        }
        "LAYER_NORM" | "INSTANCE_NORM" | "RMS_NORM" => {
            put("forward_phase", plain(&param(params, "norm_forward_phase")));
        }
        _ => params.0.iter().for_each(|(key, value)| drop(put(key, plain(value)))),
    }
    Ok(())
}

fn param(params: Fields<'_>, key: &str) -> Value {
    params.get(key).cloned().unwrap_or_default()
}

fn translate_pointwise(params: Fields<'_>, node: &mut Object) -> Result<(), Failure> {
    let method = params.text("mode")?.unwrap_or_default();
    let mode = pointwise_mode(method)
        .ok_or_else(|| Failure::new("FEJ-12", format!("`mode`: unknown method \"{}\"", method.escape_debug())))?;
    node.insert("mode".to_owned(), json!(mode.name()));
    for (theirs, ours) in [
        ("negative_slope", "relu_lower_clip_slope"),
        ("lower_clip", "relu_lower_clip"),
        ("upper_clip", "relu_upper_clip"),
        ("swish_beta", "swish_beta"),
        ("axis", "axis"),
    ] {
        node.insert(ours.to_owned(), param(params, theirs));
    }
    Ok(())
}

/// The mode that a method of the Python graph class makes.
fn pointwise_mode(method: &str) -> Option<PointwiseMode> {
    let name = match method {
        "bias" => "ADD".to_owned(),
        "scale" => "MUL".to_owned(),
        "leaky_relu" => "RELU_FWD".to_owned(),
        "leaky_relu_backward" => "RELU_BWD".to_owned(),
        _ => match method.strip_suffix("_backward") {
            Some(forward) => format!("{}_BWD", forward.to_ascii_uppercase()),
            None => method.to_ascii_uppercase(),
        },
    };
    PointwiseMode::from_name(&name).or_else(|| PointwiseMode::from_name(&format!("{name}_FWD")))
}

fn translate_attention(params: Fields<'_>, node: &mut Object) -> Result<(), Failure> {
    for (theirs, ours) in [
        ("use_alibi_mask", "alibi_mask"),
        ("use_padding_mask", "padding_mask"),
        ("use_causal_mask", "causal_mask"),
        ("use_causal_mask_bottom_right", "causal_mask_bottom_right"),
        ("sliding_window_length", "sliding_window_length"),
        ("left_bound", "left_bound"),
        ("right_bound", "right_bound"),
        ("diagonal_alignment", "diagonal_alignment"),
        ("generate_stats", "generate_stats"),
        ("attn_scale", "attn_scale_value"),
        ("dropout_0", "dropout_probability"),
    ] {
        if let Some(value) = params.get(theirs) {
            node.insert(ours.to_owned(), plain(value));
        }
    }
    Ok(())
}

fn translate_slices(params: Fields<'_>, node: &mut Object) -> Result<(), Failure> {
    let (mut slices, mut steps) = (Vec::new(), Vec::new());
    for slice in params.array("slices")? {
        let wrong =
            || Failure::new("FEJ-12", format!("`slices`: slice(start, limit, step) is required, found {slice}"));
        let (start, limit, step) = slice.as_str().and_then(parse_slice).ok_or_else(wrong)?;
        slices.push(json!([start, limit]));
        steps.push(step);
    }
    node.insert("slices".to_owned(), Value::Array(slices));
    node.insert("slice_strides".to_owned(), json!(steps));
    Ok(())
}

/// `slice(2, 6, None)`; a limit must be given, a start defaults to 0 and a step to 1.
fn parse_slice(text: &str) -> Option<(i64, i64, i64)> {
    let parts = text.strip_prefix("slice(")?.strip_suffix(')')?;
    let mut parts = parts.split(',').map(str::trim);
    let mut next = |default: Option<i64>| match parts.next() {
        None | Some("None") => default,
        Some(number) => number.parse().ok(),
    };
    let slice = (next(Some(0))?, next(None)?, next(Some(1))?);
    parts.next().is_none().then_some(slice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frontend::reader;
    use crate::graph::{Attributes, DataType, Graph, Port};

    fn read(root: &Value) -> Result<Graph, Failure> {
        reader::read(root.as_object().unwrap()).map(|reading| reading.graph)
    }

    fn tensor(dim: &[i64], data_type: &str, is_virtual: bool) -> Value {
        json!({"dim": dim, "stride": [], "dtype": data_type, "is_virtual": is_virtual, "uid": 0})
    }

    fn print() -> Value {
        json!({
            "context": {"io_data_type": "data_type.HALF", "compute_data_type": "None"},
            "nodes": [
                {"name": "conv.0", "type": "CONV_FPROP", "inputs": {"image": "x", "weight": "w"},
                 "outputs": {"Y": "conv.0::Y"}, "params": {"padding": [1, 1]}},
                {"name": "leaky.0", "type": "POINTWISE", "inputs": {"IN_0": "conv.0::Y"}, "outputs": {"OUT_0": "y"},
                 "params": {"mode": "leaky_relu", "negative_slope": 0.5}}
            ],
            "tensors": {"x": tensor(&[2, 8, 4, 4], "data_type.HALF", false), "w": tensor(&[16, 8, 3, 3], "None", false),
                        "conv.0::Y": tensor(&[], "None", true), "y": tensor(&[], "data_type.FLOAT", false)}
        })
    }

    #[test]
    fn a_print_is_read() {
        let graph = read(&print()).unwrap();
        assert_eq!((graph.io_data_type, graph.compute_data_type), (Some(DataType::Half), None));
        let Attributes::Convolution(convolution) = &graph.operations()[0].attributes else { panic!() };
        assert_eq!((&*convolution.pre_padding, &*convolution.stride), (&[1, 1][..], &[1, 1][..]));
        let Attributes::Pointwise(pointwise) = &graph.operations()[1].attributes else { panic!() };
        assert_eq!((pointwise.mode, pointwise.relu_lower_clip_slope), (PointwiseMode::ReluFwd, Some(0.5)));
        let y = graph.operations()[1].output(Port::OUT_0).unwrap();
        assert_eq!(graph.tensors()[y.index()].data_type, Some(DataType::Float));
    }

    #[test]
    fn methods_give_modes() {
        assert_eq!(pointwise_mode("gelu_approx_tanh_backward"), Some(PointwiseMode::GeluApproxTanhBwd));
        assert_eq!(pointwise_mode("cmp_gt"), Some(PointwiseMode::CmpGt));
        assert_eq!(pointwise_mode("swish"), Some(PointwiseMode::SwishFwd));
        assert_eq!(pointwise_mode("bias"), Some(PointwiseMode::Add));
        assert_eq!(pointwise_mode("nothing"), None);
    }

    #[test]
    fn slices_are_parsed() {
        assert_eq!(parse_slice("slice(2, 6, None)"), Some((2, 6, 1)));
        assert_eq!(parse_slice("slice(None, 6, 2)"), Some((0, 6, 2)));
        assert_eq!(parse_slice("slice(2, None, None)"), None);
        assert_eq!(parse_slice("2:6"), None);
    }

    #[test]
    fn other_types_are_named() {
        let refused = |name: &str| {
            let mut print = print();
            print["nodes"][1]["type"] = json!(name);
            read(&print).unwrap_err()
        };
        assert!(refused("GDN2_SUMMARY_BWD").message.contains("is known, not read"));
        let text = "unknown type \"MATMULS\", did you mean \"MATMUL\"? (one of MATMUL, POINTWISE, CONV_FPROP, ";
        assert!(refused("MATMULS").message.starts_with(text));
        assert_eq!(refused("ROPE").node.as_deref(), Some("'leaky.0' (ROPE, node 1)"));
    }
}
