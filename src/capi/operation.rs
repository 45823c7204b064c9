//! Operations from their descriptors.

use std::sync::Arc;

use cudarc::cudnn::sys::cudnnBackendAttributeName_t as Name;
use cudarc::cudnn::sys::cudnnBackendDescriptorType_t as Kind;

use super::composite;
use super::descriptor::{Descriptor, Given, Object, Referred, Values};
use super::failure::{Failure, Result};
use super::tensor::{DescribedTensor, data_type};
use super::translate;
use crate::graph::{
    Attributes, Composite, Concat, Convolution, ConvolutionDirection, ConvolutionMode, DataType, Fraction, Matmul,
    NanPropagation, Pointwise, Port, Reduction, Resample, Signal, SignalMode,
};

/// An operation and its tensors, which know each other by uids alone.
pub(super) struct Node {
    pub(super) attributes: Attributes,
    pub(super) compute: Option<DataType>,
    pub(super) inputs: Vec<(Port, Arc<DescribedTensor>)>,
    pub(super) outputs: Vec<(Port, Arc<DescribedTensor>)>,
    /// The operations that a graph has in its place, where there are any.
    pub(super) parts: Vec<Node>,
}

impl Object for Node {}

impl Referred for Node {
    const WANTED: &'static str = "a descriptor of an operation";
}

/// Attributes that operations read, and no more.
pub(super) struct Bundle;

impl Object for Bundle {}

/// A bundle of attributes that operations refer to, where it goes together; a convolution's arrays have an element an axis.
pub(super) fn bundle(kind: Kind, given: &Given<'_>) -> Result<Bundle> {
    match kind {
        Kind::CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR => {
            convolution_of(given, ConvolutionDirection::Forward, 1.0, 0.0).map(drop)
        }
        Kind::CUDNN_BACKEND_POINTWISE_DESCRIPTOR => pointwise_of(given).map(drop),
        Kind::CUDNN_BACKEND_MATMUL_DESCRIPTOR => data_type(given, Name::CUDNN_ATTR_MATMUL_COMP_TYPE).map(drop),
        Kind::CUDNN_BACKEND_REDUCTION_DESCRIPTOR => reduction_of(given).map(drop),
        Kind::CUDNN_BACKEND_RESAMPLE_DESCRIPTOR => resample_of(given, 1.0, 0.0).map(drop),
        _ => Ok(()),
    }
    .map(|()| Bundle)
}

/// The operation that a descriptor of a kind describes; `None` for the bundles of attributes that operations refer to.
pub(super) fn node(kind: Kind, given: &Given<'_>) -> Result<Option<Node>> {
    Ok(Some(match kind {
        Kind::CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR => matmul(given)?,
        Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR => convolution(given, &FORWARD)?,
        Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR => convolution(given, &BACKWARD_DATA)?,
        Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR => convolution(given, &BACKWARD_FILTER)?,
        Kind::CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR => pointwise(given)?,
        Kind::CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR => reduction(given)?,
        Kind::CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR => statistics(given)?,
        Kind::CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR => resample_forward(given)?,
        Kind::CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR => resample_backward(given)?,
        Kind::CUDNN_BACKEND_OPERATION_CONCAT_DESCRIPTOR => concat(given)?,
        Kind::CUDNN_BACKEND_OPERATION_SIGNAL_DESCRIPTOR => signal(given)?,
        _ => match composite::ROWS.iter().find(|row| row.kind == kind) {
            Some(row) => composite(row, given)?,
            None => return Ok(None),
        },
    }))
}

/// The tensors of some slots; those that are not set are left out.
pub(super) fn slots(given: &Given<'_>, ports: &[(Port, Name)]) -> Result<Vec<(Port, Arc<DescribedTensor>)>> {
    let mut slots = Vec::new();
    for &(port, name) in ports {
        if let Some(descriptor) = given.descriptor(name) {
            slots.push((port, descriptor.object()?));
        }
    }
    Ok(slots)
}

fn matmul(given: &Given<'_>) -> Result<Node> {
    let inputs = slots(
        given,
        &[
            (Port::A, Name::CUDNN_ATTR_OPERATION_MATMUL_ADESC),
            (Port::B, Name::CUDNN_ATTR_OPERATION_MATMUL_BDESC),
            (Port::M_OVERRIDE, Name::CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC),
            (Port::N_OVERRIDE, Name::CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC),
            (Port::K_OVERRIDE, Name::CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC),
        ],
    )?;
    let outputs = slots(given, &[(Port::C, Name::CUDNN_ATTR_OPERATION_MATMUL_CDESC)])?;
    let bundle = given.required(Name::CUDNN_ATTR_OPERATION_MATMUL_DESC)?;
    bundle.given(Kind::CUDNN_BACKEND_MATMUL_DESCRIPTOR, |bundle| {
        let padding_value = bundle.number(Name::CUDNN_ATTR_MATMUL_PADDING_VALUE).unwrap_or(0.0);
        let compute = Some(data_type(bundle, Name::CUDNN_ATTR_MATMUL_COMP_TYPE)?);
        Ok(Node {
            attributes: Attributes::Matmul(Matmul { padding_value }),
            compute,
            inputs,
            outputs,
            parts: Vec::new(),
        })
    })
}

/// Names of the attributes of a convolution in one direction.
struct ConvolutionNames {
    direction: ConvolutionDirection,
    bundle: Name,
    alpha: Name,
    beta: Name,
    inputs: [(Port, Name); 2],
    output: (Port, Name),
}

const FORWARD: ConvolutionNames = ConvolutionNames {
    direction: ConvolutionDirection::Forward,
    bundle: Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
    alpha: Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
    beta: Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
    inputs: [
        (Port::X, Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X),
        (Port::W, Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W),
    ],
    output: (Port::Y, Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y),
};

const BACKWARD_DATA: ConvolutionNames = ConvolutionNames {
    direction: ConvolutionDirection::BackwardData,
    bundle: Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
    alpha: Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
    beta: Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
    inputs: [
        (Port::DY, Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY),
        (Port::W, Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W),
    ],
    output: (Port::DX, Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX),
};

const BACKWARD_FILTER: ConvolutionNames = ConvolutionNames {
    direction: ConvolutionDirection::BackwardFilter,
    bundle: Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
    alpha: Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
    beta: Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
    inputs: [
        (Port::DY, Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY),
        (Port::X, Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X),
    ],
    output: (Port::DW, Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW),
};

fn convolution(given: &Given<'_>, names: &ConvolutionNames) -> Result<Node> {
    let inputs = slots(given, &names.inputs)?;
    let outputs = slots(given, &[names.output])?;
    let (alpha, beta) = (given.number(names.alpha).unwrap_or(1.0), given.number(names.beta).unwrap_or(0.0));
    let bundle = given.required(names.bundle)?;
    let (convolution, compute) = bundle.given(Kind::CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, |bundle| {
        convolution_of(bundle, names.direction, alpha, beta)
    })?;
    Ok(Node {
        attributes: Attributes::Convolution(convolution),
        compute: Some(compute),
        inputs,
        outputs,
        parts: Vec::new(),
    })
}

/// A convolution by its bundle (docs/spec/operations.md, 3.1).
fn convolution_of(
    bundle: &Given<'_>,
    direction: ConvolutionDirection,
    alpha: f64,
    beta: f64,
) -> Result<(Convolution, DataType)> {
    let axes = bundle.int64(Name::CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS).unwrap_or_default();
    let array = |name: Name, least: i64| -> Result<Vec<i64>> {
        let values = bundle.int64s(name);
        if values.len() as i64 != axes {
            return Err(Failure::bad(format!("{name:?} has {} elements for {axes} axes", values.len())));
        }
        match values.iter().find(|&&value| value < least) {
            Some(value) => Err(Failure::bad(format!("{name:?} is at least {least}; found: {value}"))),
            None => Ok(values),
        }
    };
    let pre_padding = array(Name::CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 0)?;
    let post_padding = match bundle.of(Name::CUDNN_ATTR_CONVOLUTION_POST_PADDINGS) {
        Some(_) => array(Name::CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, 0)?,
        None => pre_padding.clone(),
    };
    let mode = match bundle.enumerator(Name::CUDNN_ATTR_CONVOLUTION_CONV_MODE) {
        Some(0) => ConvolutionMode::Convolution,
        _ => ConvolutionMode::CrossCorrelation,
    };
    let convolution = Convolution {
        direction,
        mode,
        pre_padding,
        post_padding,
        stride: array(Name::CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 1)?,
        dilation: array(Name::CUDNN_ATTR_CONVOLUTION_DILATIONS, 1)?,
        alpha,
        beta,
    };
    Ok((convolution, data_type(bundle, Name::CUDNN_ATTR_CONVOLUTION_COMP_TYPE)?))
}

fn pointwise(given: &Given<'_>) -> Result<Node> {
    let bundle = given.required(Name::CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR)?;
    let (mut attributes, compute) = bundle.given(Kind::CUDNN_BACKEND_POINTWISE_DESCRIPTOR, pointwise_of)?;
    attributes.alpha1 = given.number(Name::CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1).unwrap_or(1.0) as f32;
    attributes.alpha2 = given.number(Name::CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2).unwrap_or(1.0) as f32;
    let x = (Port::IN_0, Name::CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
    let (inputs, output): (&[(Port, Name)], Name) = match attributes.mode.is_backward() {
        true => (
            &[
                (Port::IN_0, Name::CUDNN_ATTR_OPERATION_POINTWISE_DYDESC),
                (Port::IN_1, Name::CUDNN_ATTR_OPERATION_POINTWISE_XDESC),
                (Port::IN_1, Name::CUDNN_ATTR_OPERATION_POINTWISE_YDESC),
            ],
            Name::CUDNN_ATTR_OPERATION_POINTWISE_DXDESC,
        ),
        false => (
            &[
                x,
                (Port::IN_1, Name::CUDNN_ATTR_OPERATION_POINTWISE_BDESC),
                (Port::IN_2, Name::CUDNN_ATTR_OPERATION_POINTWISE_TDESC),
            ],
            Name::CUDNN_ATTR_OPERATION_POINTWISE_YDESC,
        ),
    };
    let inputs = slots(given, inputs)?;
    let outputs = slots(given, &[(Port::OUT_0, output)])?;
    let (wanted, found) = (attributes.mode.inputs(), inputs.len());
    if found != wanted || outputs.is_empty() {
        let message = format!("{} takes {wanted} inputs and gives one output; found: {found}", attributes.mode);
        return Err(Failure::bad(format!("{message} and {}", outputs.len())));
    }
    Ok(Node {
        attributes: Attributes::Pointwise(attributes),
        compute: Some(compute),
        inputs,
        outputs,
        parts: Vec::new(),
    })
}

/// A pointwise operation by its bundle.
fn pointwise_of(bundle: &Given<'_>) -> Result<(Pointwise, DataType)> {
    let mode = bundle.enumerator(Name::CUDNN_ATTR_POINTWISE_MODE).unwrap_or(u32::MAX);
    let number = |name: Name| bundle.number(name).map(|value| value as f32);
    let pointwise = Pointwise {
        axis: bundle.int64(Name::CUDNN_ATTR_POINTWISE_AXIS),
        relu_lower_clip: number(Name::CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP),
        // the frontend writes the largest FLOAT where there is no clip
        relu_upper_clip: number(Name::CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP).filter(|&clip| clip < f32::MAX),
        relu_lower_clip_slope: number(Name::CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE),
        swish_beta: number(Name::CUDNN_ATTR_POINTWISE_SWISH_BETA),
        elu_alpha: number(Name::CUDNN_ATTR_POINTWISE_ELU_ALPHA),
        softplus_beta: number(Name::CUDNN_ATTR_POINTWISE_SOFTPLUS_BETA),
        nan_propagation: bundle.enumerator(Name::CUDNN_ATTR_POINTWISE_NAN_PROPAGATION).map(|number| match number {
            0 => NanPropagation::NotPropagate,
            _ => NanPropagation::Propagate,
        }),
        ..Pointwise::new(translate::pointwise(mode)?)
    };
    Ok((pointwise, data_type(bundle, Name::CUDNN_ATTR_POINTWISE_MATH_PREC)?))
}

fn reduction(given: &Given<'_>) -> Result<Node> {
    let inputs = slots(given, &[(Port::X, Name::CUDNN_ATTR_OPERATION_REDUCTION_XDESC)])?;
    let outputs = slots(given, &[(Port::Y, Name::CUDNN_ATTR_OPERATION_REDUCTION_YDESC)])?;
    let bundle = given.required(Name::CUDNN_ATTR_OPERATION_REDUCTION_DESC)?;
    let (reduction, compute) = bundle.given(Kind::CUDNN_BACKEND_REDUCTION_DESCRIPTOR, reduction_of)?;
    Ok(Node {
        attributes: Attributes::Reduction(reduction),
        compute: Some(compute),
        inputs,
        outputs,
        parts: Vec::new(),
    })
}

/// A reduction by its bundle.
fn reduction_of(bundle: &Given<'_>) -> Result<(Reduction, DataType)> {
    let mode = translate::reduction(bundle.enumerator(Name::CUDNN_ATTR_REDUCTION_OPERATOR).unwrap_or(u32::MAX))?;
    let is_deterministic = bundle.is_set(Name::CUDNN_ATTR_REDUCTION_IS_DETERMINISTIC);
    Ok((Reduction { mode, is_deterministic }, data_type(bundle, Name::CUDNN_ATTR_REDUCTION_COMP_TYPE)?))
}

fn statistics(given: &Given<'_>) -> Result<Node> {
    Ok(Node {
        attributes: Attributes::GenStats,
        // the frontend writes a number of its own enumeration there; there is but one type to compute in (OP-GS-PREC)
        compute: Some(DataType::Float),
        inputs: slots(given, &[(Port::X, Name::CUDNN_ATTR_OPERATION_GENSTATS_XDESC)])?,
        outputs: slots(
            given,
            &[
                (Port::SUM, Name::CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC),
                (Port::SQ_SUM, Name::CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC),
            ],
        )?,
        parts: Vec::new(),
    })
}

fn resample_forward(given: &Given<'_>) -> Result<Node> {
    let (resample, compute) = resample(
        given.required(Name::CUDNN_ATTR_OPERATION_RESAMPLE_FWD_DESC)?,
        given.number(Name::CUDNN_ATTR_OPERATION_RESAMPLE_FWD_ALPHA),
        given.number(Name::CUDNN_ATTR_OPERATION_RESAMPLE_FWD_BETA),
    )?;
    Ok(Node {
        attributes: Attributes::ResampleForward(resample),
        compute,
        inputs: slots(given, &[(Port::X, Name::CUDNN_ATTR_OPERATION_RESAMPLE_FWD_XDESC)])?,
        outputs: slots(
            given,
            &[
                (Port::Y, Name::CUDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC),
                (Port::INDEX, Name::CUDNN_ATTR_OPERATION_RESAMPLE_FWD_IDXDESC),
            ],
        )?,
        parts: Vec::new(),
    })
}

fn resample_backward(given: &Given<'_>) -> Result<Node> {
    let (resample, compute) = resample(
        given.required(Name::CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DESC)?,
        given.number(Name::CUDNN_ATTR_OPERATION_RESAMPLE_BWD_ALPHA),
        given.number(Name::CUDNN_ATTR_OPERATION_RESAMPLE_BWD_BETA),
    )?;
    Ok(Node {
        attributes: Attributes::ResampleBackward(resample),
        compute,
        inputs: slots(
            given,
            &[
                (Port::DY, Name::CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DYDESC),
                (Port::X, Name::CUDNN_ATTR_OPERATION_RESAMPLE_BWD_XDESC),
                (Port::Y, Name::CUDNN_ATTR_OPERATION_RESAMPLE_BWD_YDESC),
                (Port::INDEX, Name::CUDNN_ATTR_OPERATION_RESAMPLE_BWD_IDXDESC),
            ],
        )?,
        outputs: slots(given, &[(Port::DX, Name::CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC)])?,
        parts: Vec::new(),
    })
}

fn resample(bundle: &Descriptor, alpha: Option<f64>, beta: Option<f64>) -> Result<(Resample, Option<DataType>)> {
    let (alpha, beta) = (alpha.unwrap_or(1.0), beta.unwrap_or(0.0));
    let (resample, compute) =
        bundle.given(Kind::CUDNN_BACKEND_RESAMPLE_DESCRIPTOR, |bundle| resample_of(bundle, alpha, beta))?;
    Ok((resample, Some(compute)))
}

/// A resampling by its bundle (docs/spec/operations.md, 7: its arrays have an element an axis).
fn resample_of(bundle: &Given<'_>, alpha: f64, beta: f64) -> Result<(Resample, DataType)> {
    let axes = bundle.int64(Name::CUDNN_ATTR_RESAMPLE_SPATIAL_DIMS).unwrap_or_default();
    let fractions = |name: Name| -> Result<Vec<Fraction>> {
        let values: Vec<Fraction> = match bundle.of(name) {
            Some(Values::Fraction(values)) => values.clone(),
            Some(Values::Int64(values)) => values.iter().map(|&value| Fraction::whole(value)).collect(),
            _ => Vec::new(),
        };
        if values.len() as i64 == axes {
            return Ok(values);
        }
        Err(Failure::unsupported(format!("{name:?} has {} elements for {axes} axes", values.len())))
    };
    let mode = bundle.enumerator(Name::CUDNN_ATTR_RESAMPLE_MODE).unwrap_or(u32::MAX);
    let padding = bundle.enumerator(Name::CUDNN_ATTR_RESAMPLE_PADDING_MODE).unwrap_or(0);
    let resample = Resample {
        mode: translate::resample(mode)?,
        padding_mode: translate::padding(padding)?,
        window: fractions(Name::CUDNN_ATTR_RESAMPLE_WINDOW_DIMS)?,
        stride: fractions(Name::CUDNN_ATTR_RESAMPLE_STRIDES)?,
        pre_padding: fractions(Name::CUDNN_ATTR_RESAMPLE_PRE_PADDINGS)?,
        post_padding: fractions(Name::CUDNN_ATTR_RESAMPLE_POST_PADDINGS)?,
        generate_index: None,
        alpha,
        beta,
    };
    Ok((resample, data_type(bundle, Name::CUDNN_ATTR_RESAMPLE_COMP_TYPE)?))
}

fn concat(given: &Given<'_>) -> Result<Node> {
    let inputs = given.descriptors(Name::CUDNN_ATTR_OPERATION_CONCAT_INPUT_DESCS).iter();
    let inputs = inputs.map(|input| Ok((Port::CONCAT_INPUT, input.object()?))).collect::<Result<_>>()?;
    let concat = Concat {
        axis: given.int64(Name::CUDNN_ATTR_OPERATION_CONCAT_AXIS).unwrap_or_default(),
        in_place_index: given.int64(Name::CUDNN_ATTR_OPERATION_CONCAT_INPLACE_INDEX),
    };
    let outputs = slots(given, &[(Port::Y, Name::CUDNN_ATTR_OPERATION_CONCAT_OUTPUT_DESC)])?;
    Ok(Node { attributes: Attributes::Concat(concat), compute: None, inputs, outputs, parts: Vec::new() })
}

fn signal(given: &Given<'_>) -> Result<Node> {
    let mode = match given.enumerator(Name::CUDNN_ATTR_OPERATION_SIGNAL_MODE) {
        Some(0) => SignalMode::Set,
        _ => SignalMode::Wait,
    };
    let value = given.int64(Name::CUDNN_ATTR_OPERATION_SIGNAL_VALUE).unwrap_or_default();
    Ok(Node {
        attributes: Attributes::Signal(Signal { mode, value }),
        compute: None,
        inputs: slots(
            given,
            &[
                (Port::X, Name::CUDNN_ATTR_OPERATION_SIGNAL_XDESC),
                (Port::FLAG, Name::CUDNN_ATTR_OPERATION_SIGNAL_FLAGDESC),
            ],
        )?,
        outputs: slots(given, &[(Port::Y, Name::CUDNN_ATTR_OPERATION_SIGNAL_YDESC)])?,
        parts: Vec::new(),
    })
}

/// A composite operation by its row.
/// The tensors that an attribute lists, at the first of its ports.
fn listed(
    given: &Given<'_>,
    composite: &Composite,
    ports: &[Port],
    name: Name,
) -> Result<Vec<(Port, Arc<DescribedTensor>)>> {
    let tensors = given.descriptors(name);
    let most = if ports.iter().all(|&port| composite.has_port(port).0) { ports.len() } else { 0 };
    if tensors.len() > most {
        let message = format!("{name:?} has {} tensors; {} takes at most {most}", tensors.len(), composite.tag());
        return Err(Failure::bad(message));
    }
    ports.iter().zip(tensors).map(|(&port, tensor)| Ok((port, tensor.object()?))).collect()
}

fn composite(row: &composite::Row, given: &Given<'_>) -> Result<Node> {
    let composite = (row.read)(&|name| given.enumerator(name)).map_err(|wrong| match wrong {
        composite::Wrong::Bad(message) => Failure::bad(message),
        composite::Wrong::Unsupported(message) => Failure::unsupported(message),
    })?;
    let compute = match row.compute {
        composite::Compute::Float => DataType::Float,
        composite::Compute::Given(name) => data_type(given, name)?,
    };
    let (reads, writes): (Vec<_>, Vec<_>) = {
        let known = row.slots.iter().map(|&slot| (slot, composite.has_port(slot.0)));
        let used = known.filter(|&(_, (reads, writes))| reads || writes);
        used.partition(|&(_, (reads, _))| reads)
    };
    let of = |part: Vec<((Port, Name), (bool, bool))>| part.into_iter().map(|(slot, _)| slot).collect::<Vec<_>>();
    let (mut inputs, outputs) = (slots(given, &of(reads))?, slots(given, &of(writes))?);
    for &(ports, name) in row.lists {
        inputs.extend(listed(given, &composite, ports, name)?);
    }
    let is_set = |port: &Port| inputs.iter().chain(&outputs).any(|slot| slot.0 == *port);
    if let Some(missing) = composite.required_ports().into_iter().find(|port| !is_set(port)) {
        let name = row.slots.iter().find(|slot| slot.0 == missing).map(|slot| format!("{:?}", slot.1));
        return Err(Failure::bad(format!("{} is not set; {} needs it", name.unwrap_or_default(), composite.tag())));
    }
    Ok(Node {
        attributes: Attributes::Composite(composite),
        compute: Some(compute),
        inputs,
        outputs,
        parts: Vec::new(),
    })
}
