//! Resampling: output extents with fractional windows (operations.md section 7).

use super::layout::Layout;
use super::node::Node;
use crate::error::Malformed;
use crate::graph::{Fraction, Port, Resample};

/// Y: N and C of X, spatial extents by the formula; the index has Y's dims.
pub(super) fn infer_forward(node: &mut Node, resample: &Resample) -> Result<(), Malformed> {
    let dim = output_dim(node, resample, Port::X)?;
    node.complete(Port::Y, dim.clone(), &Layout::ChannelsLast);
    node.complete(Port::INDEX, dim, &Layout::ChannelsLast);
    Ok(())
}

/// DX is shaped like X where that is an input; else the author must give it.
pub(super) fn infer_backward(node: &mut Node) -> Result<(), Malformed> {
    let dim = match node.tensor(Port::X) {
        Some(_) => node.dim(Port::X)?.to_vec(),
        None => node.dim(Port::DX)?.to_vec(),
    };
    node.complete(Port::DX, dim, &Layout::ChannelsLast);
    Ok(())
}

/// Checks both directions: `input` is X or DX, `output` Y or DY.
pub(super) fn check(node: &Node, resample: &Resample, input: Port, output: Port) -> Result<(), Malformed> {
    let required = output_dim(node, resample, input)?;
    let reason = "N and C of the input, spatial extents 1 + floor((in + pre + post - window) / stride)";
    node.require_dim("RS-SHAPE", output, &required, reason)?;
    if node.tensor(Port::INDEX).is_some() {
        node.require_dim("RS-SHAPE", Port::INDEX, &required, "the index has the dims of the pooled tensor")?;
    }
    if input == Port::DX {
        for (port, dim) in [(Port::X, node.dim(input)?), (Port::Y, &required[..])] {
            if node.tensor(port).is_some() {
                node.require_dim("RS-SHAPE", port, dim, "X is shaped like DX, Y like DY")?;
            }
        }
    }
    Ok(())
}

fn output_dim(node: &Node, resample: &Resample, input: Port) -> Result<Vec<i64>, Malformed> {
    let dim = node.dim(input)?;
    check_parameters(node, resample, dim)?;
    let mut output = dim[..2].to_vec();
    for (axis, &extent) in dim[2..].iter().enumerate() {
        let out = output_extent(resample, axis, extent);
        let Some(out) = out.and_then(|out| i64::try_from(out).ok()).filter(|&out| out > 0) else {
            let found = out.map_or("out of range".to_owned(), |out| out.to_string());
            let formula = formula(resample, axis, extent);
            let message = format!("spatial axis {axis}: output extent {formula} = {found}; it must be positive");
            return Err(node.fault("RS-SHAPE", message));
        };
        output.push(out);
    }
    Ok(output)
}

/// Every array has one fraction a spatial axis; windows, strides and denominators are positive.
fn check_parameters(node: &Node, resample: &Resample, dim: &[i64]) -> Result<(), Malformed> {
    let Some(spatial) = dim.len().checked_sub(2).filter(|&spatial| spatial > 0) else {
        let message = format!("dims {dim:?} have no spatial axis; rank 3 is the least");
        return Err(node.fault("RS-SHAPE", message));
    };
    let rows = [
        ("window", &resample.window, true),
        ("stride", &resample.stride, true),
        ("pre_padding", &resample.pre_padding, false),
        ("post_padding", &resample.post_padding, false),
    ];
    for (name, values, is_positive) in rows {
        if values.len() != spatial {
            let message = format!("{name} has {} entries; required {spatial}, one a spatial axis", values.len());
            return Err(node.fault("RS-SHAPE", message));
        }
        let is_bad = |value: &&Fraction| value.denominator <= 0 || (is_positive && value.numerator <= 0);
        if let Some(value) = values.iter().find(is_bad) {
            let message = format!("{name} holds {}; it must be positive", text(*value));
            return Err(node.fault("RS-SHAPE", message));
        }
    }
    Ok(())
}

/// `1 + ⌊(in + pre + post − window) / stride⌋` in exact fractions; `None` where 128 bits do not hold them.
fn output_extent(resample: &Resample, axis: usize, input: i64) -> Option<i128> {
    let terms = [
        (Fraction::whole(input), 1),
        (resample.pre_padding[axis], 1),
        (resample.post_padding[axis], 1),
        (resample.window[axis], -1),
    ];
    let common = terms.iter().try_fold(1i128, |common, term| least_multiple(common, i128::from(term.0.denominator)))?;
    let mut sum = 0i128;
    for (fraction, sign) in terms {
        let scaled = i128::from(fraction.numerator).checked_mul(common / i128::from(fraction.denominator))?;
        sum = sum.checked_add(scaled * sign)?;
    }
    let stride = resample.stride[axis];
    let above = sum.checked_mul(i128::from(stride.denominator))?;
    let below = common.checked_mul(i128::from(stride.numerator))?;
    Some(1 + above.div_euclid(below))
}

/// Least common multiple of positive numbers.
fn least_multiple(a: i128, b: i128) -> Option<i128> {
    let (mut divisor, mut rest) = (a, b);
    while rest != 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    (a / divisor).checked_mul(b)
}

fn formula(resample: &Resample, axis: usize, input: i64) -> String {
    let [pre, post] = [resample.pre_padding[axis], resample.post_padding[axis]].map(text);
    let [window, stride] = [resample.window[axis], resample.stride[axis]].map(text);
    format!("1 + floor(({input} + {pre} + {post} - {window}) / {stride})")
}

fn text(value: Fraction) -> String {
    match value.denominator {
        1 => value.numerator.to_string(),
        denominator => format!("{}/{denominator}", value.numerator),
    }
}
