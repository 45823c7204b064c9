//! Resampling: output extents with fractional windows (operations.md section 7).

use super::layout::Layout;
use super::node::Node;
use crate::graph::{Fraction, Malformed, Port, Resample, greatest_common_divisor};

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
            let message =
                format!("spatial axis {axis}: output extent {formula} = {found}; it must be positive and below 2^63");
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
            let message = format!("{name} holds {value}; it must be positive");
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
    above.div_euclid(below).checked_add(1)
}

/// Least common multiple of positive numbers.
fn least_multiple(a: i128, b: i128) -> Option<i128> {
    (a / greatest_common_divisor(a, b)).checked_mul(b)
}

fn formula(resample: &Resample, axis: usize, input: i64) -> String {
    let (pre, post) = (resample.pre_padding[axis], resample.post_padding[axis]);
    let (window, stride) = (resample.window[axis], resample.stride[axis]);
    format!("1 + floor(({input} + {pre} + {post} - {window}) / {stride})")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::samples::{half_graph, image, other, refusal, shape_of};
    use crate::graph::{Attributes, Graph, PaddingMode, ResampleMode, Tensor};

    fn pooling(window: i64, stride: i64, padding: i64) -> Resample {
        Resample {
            mode: ResampleMode::Maxpool,
            padding_mode: PaddingMode::NegInfPad,
            window: vec![Fraction::whole(window); 2],
            stride: vec![Fraction::whole(stride); 2],
            pre_padding: vec![Fraction::whole(padding); 2],
            post_padding: vec![Fraction::whole(padding); 2],
            generate_index: None,
            alpha: 1.0,
            beta: 0.0,
        }
    }

    fn pooled(attributes: Resample, dim: &[i64]) -> Graph {
        let mut graph = half_graph();
        let x = image(&mut graph, "x", dim);
        other(&mut graph, Attributes::ResampleForward(attributes), &[("X", x)], &["Y", "Index"]);
        graph
    }

    #[test]
    fn pooled_extents() {
        for (window, stride, padding, out) in [(2, 2, 0, 3), (3, 2, 1, 4), (7, 1, 0, 1)] {
            let finalized = pooled(pooling(window, stride, padding), &[2, 3, 7, 7]).finalize().unwrap();
            assert_eq!(shape_of(&finalized, "Y").0, [2, 3, out, out]);
            assert_eq!(shape_of(&finalized, "Index"), shape_of(&finalized, "Y"));
        }
    }

    #[test]
    fn fractions_are_exact() {
        let half = |numerator| Fraction { numerator, denominator: 2 };
        let attributes = Resample {
            stride: vec![half(1); 2],
            pre_padding: vec![half(1); 2],
            post_padding: vec![Fraction::whole(1); 2],
            ..pooling(2, 1, 0)
        };
        let finalized = pooled(attributes.clone(), &[2, 3, 7, 1]).finalize().unwrap();
        assert_eq!(shape_of(&finalized, "Y").0, [2, 3, 14, 2]);
        let third = Fraction { numerator: 1, denominator: 3 };
        let finalized =
            pooled(Resample { pre_padding: vec![third; 2], ..attributes }, &[2, 3, 7, 7]).finalize().unwrap();
        assert_eq!(shape_of(&finalized, "Y").0, [2, 3, 13, 13]);
    }

    #[test]
    fn parameters_and_results_are_checked() {
        let zero = Fraction { numerator: 1, denominator: 0 };
        for (attributes, expected) in [
            (pooling(8, 1, 0), "spatial axis 0: output extent 1 + floor((7 + 0 + 0 - 8) / 1) = 0"),
            (pooling(0, 1, 0), "window holds 0; it must be positive"),
            (pooling(2, -1, 0), "stride holds -1; it must be positive"),
            (Resample { pre_padding: vec![zero; 2], ..pooling(2, 1, 0) }, "pre_padding holds 1/0"),
            (Resample { window: vec![Fraction::whole(2)], ..pooling(2, 1, 0) }, "window has 1 entries; required 2"),
            (pooling(2, 1, i64::MAX), "positive and below 2^63"),
        ] {
            let message = refusal(&pooled(attributes, &[2, 3, 7, 7]));
            assert!(message.contains(expected), "{message}");
        }
        assert!(refusal(&pooled(pooling(2, 1, 0), &[2, 3])).contains("no spatial axis"));
        let mut graph = pooled(pooling(2, 2, 0), &[2, 3, 7, 7]);
        let y = graph.operations()[0].result().unwrap();
        graph.tensor_mut(y).dim = vec![2, 3, 4, 3];
        assert!(refusal(&graph).contains("port Y: dims are [2, 3, 4, 3], required [2, 3, 3, 3]"));
    }

    #[test]
    fn fractions_beyond_128_bits_are_refused() {
        let odd = |denominator| Fraction { numerator: i64::MAX, denominator };
        let attributes = Resample {
            window: vec![odd(i64::MAX - 1); 2],
            pre_padding: vec![odd(i64::MAX - 24); 2],
            post_padding: vec![odd(i64::MAX - 54); 2],
            ..pooling(2, 1, 0)
        };
        assert!(refusal(&pooled(attributes, &[2, 3, 7, 7])).contains("out of range"));
    }

    #[test]
    fn gradients() {
        let graph = |ports: &[&'static str], dx: Option<[i64; 4]>| {
            let mut graph = half_graph();
            let dy = image(&mut graph, "dy", &[2, 3, 3, 3]);
            let mut inputs = vec![("DY", dy)];
            for &port in ports {
                let dim = if port == "X" { [2, 3, 7, 7] } else { [2, 3, 3, 3] };
                inputs.push((port, image(&mut graph, port, &dim)));
            }
            other(&mut graph, Attributes::ResampleBackward(pooling(2, 2, 0)), &inputs, &["DX"]);
            let result = graph.operations()[0].result().unwrap();
            if let Some(dim) = dx {
                *graph.tensor_mut(result) = Tensor::new("DX").channels_last(dim);
            }
            graph
        };
        graph(&["Index"], Some([2, 3, 7, 6])).finalize().unwrap();
        let finalized = graph(&["Y", "X"], None).finalize().unwrap();
        assert_eq!(shape_of(&finalized, "DX").0, [2, 3, 7, 7]);
        assert!(refusal(&graph(&["Index"], None)).contains("port DX: dims must be given"));
        assert!(
            refusal(&graph(&[], Some([2, 3, 9, 7]))).contains("port DY: dims are [2, 3, 3, 3], required [2, 3, 4, 3]")
        );
        assert!(
            refusal(&graph(&["X"], Some([2, 3, 7, 6])))
                .contains("port X: dims are [2, 3, 7, 7], required [2, 3, 7, 6]")
        );
    }
}
