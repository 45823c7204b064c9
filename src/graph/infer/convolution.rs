//! Convolutions: shapes of both group forms (operations.md section 3).

use super::layout::Layout;
use super::node::Node;
use crate::graph::Malformed;
use crate::graph::{Convolution, ConvolutionDirection, MAX_RANK, Port};

/// Ports that take the parts of X, W and Y in one direction (CV-R3).
fn roles(convolution: &Convolution) -> [Port; 3] {
    match convolution.direction {
        ConvolutionDirection::Forward => [Port::X, Port::W, Port::Y],
        ConvolutionDirection::BackwardData => [Port::DX, Port::W, Port::DY],
        ConvolutionDirection::BackwardFilter => [Port::X, Port::DW, Port::DY],
    }
}

/// Y follows from X and W; the dims of DX and DW only the author knows.
pub(super) fn infer(node: &mut Node, convolution: &Convolution) -> Result<(), Malformed> {
    check_parameters(node, convolution)?;
    let [x, w, y] = roles(convolution);
    let result = convolution.ports().1;
    if convolution.direction != ConvolutionDirection::Forward && node.lacks_dim(result) {
        return Err(node.not_set(result, "dims"));
    }
    let rank = node.common_rank("CV-R3", &if node.lacks_dim(y) { vec![x, w] } else { vec![x, w, y] })?;
    let form = form(node, convolution, rank)?;
    let dim = match node.lacks_dim(y) {
        true => output_dim(node, convolution, form)?,
        false => node.dim(result)?.to_vec(),
    };
    let layout = if form == Form::ExplicitGroups { Layout::GroupedChannelsLast } else { Layout::ChannelsLast };
    node.complete(result, dim, &layout);
    Ok(())
}

/// Where the groups are (CV-R1): in the channel axis, or on an axis of their own.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// X `[N, G·C, …]`, W `[G·K, C, …]`, Y `[N, G·K, …]`.
    PackedGroups,
    /// X `[N, G, C, …]`, W `[G, K, C, …]`, Y `[N, G, K, …]`.
    ExplicitGroups,
}

fn form(node: &Node, convolution: &Convolution, rank: usize) -> Result<Form, Malformed> {
    let spatial = convolution.stride.len();
    match rank.checked_sub(spatial) {
        Some(2) => Ok(Form::PackedGroups),
        Some(3) => Ok(Form::ExplicitGroups),
        _ => {
            let message = format!(
                "tensors of rank {rank} with {spatial} spatial axes; required rank {} (packed groups) or {} (explicit groups)",
                spatial + 2,
                spatial + 3
            );
            Err(node.fault("CV-R3", message))
        }
    }
}

/// One entry a spatial axis in every array; paddings ≥ 0, strides and dilations ≥ 1 (operations.md 3.1).
fn check_parameters(node: &Node, convolution: &Convolution) -> Result<(), Malformed> {
    let spatial = convolution.stride.len();
    let rows = [
        ("stride", &convolution.stride, 1),
        ("dilation", &convolution.dilation, 1),
        ("pre_padding", &convolution.pre_padding, 0),
        ("post_padding", &convolution.post_padding, 0),
    ];
    for (name, values, least) in rows {
        if values.len() != spatial || values.is_empty() || values.len() > MAX_RANK - 2 {
            let message = format!(
                "{name} {values:?} has {} entries and stride {:?} has {spatial}; every array needs one a spatial axis, 1 to {}",
                values.len(),
                convolution.stride,
                MAX_RANK - 2
            );
            return Err(node.fault("CV-R3", message));
        }
        if let Some(value) = values.iter().find(|&&value| value < least) {
            return Err(node.fault("CV-R3", format!("{name} {values:?} holds {value}; at least {least} is required")));
        }
    }
    Ok(())
}

/// Dims that X and W require of Y (CV-R5). Ranks and parameters are checked.
fn output_dim(node: &Node, convolution: &Convolution, form: Form) -> Result<Vec<i64>, Malformed> {
    let [x, w, _] = roles(convolution);
    let (input, filter) = (node.dim(x)?, node.dim(w)?);
    let mut dim = match form {
        Form::PackedGroups => vec![input[0], filter[0]],
        Form::ExplicitGroups => vec![input[0], filter[0], filter[1]],
    };
    let first = dim.len();
    for axis in 0..convolution.stride.len() {
        dim.push(output_extent(node, convolution, axis, input[first + axis], filter[first + axis])?);
    }
    Ok(dim)
}

/// `1 + ⌊(in + pre + post − ((filter − 1)·dilation + 1)) / stride⌋`, which must be positive (CV-R6).
fn output_extent(
    node: &Node,
    convolution: &Convolution,
    axis: usize,
    input: i64,
    filter: i64,
) -> Result<i64, Malformed> {
    let [pre, post] = [convolution.pre_padding[axis], convolution.post_padding[axis]].map(i128::from);
    let (stride, dilation) = (i128::from(convolution.stride[axis]), i128::from(convolution.dilation[axis]));
    let dilated = (i128::from(filter) - 1) * dilation + 1;
    let padded = i128::from(input) + pre + post;
    let out = if padded < dilated { 0 } else { 1 + (padded - dilated) / stride };
    i64::try_from(out).ok().filter(|&out| out > 0).ok_or_else(|| {
        let formula = formula(convolution, axis, input, filter);
        node.fault(
            "CV-R6",
            format!("spatial axis {axis}: output extent {formula} = {out}; it must be positive and below 2^63"),
        )
    })
}

fn formula(convolution: &Convolution, axis: usize, input: i64, filter: i64) -> String {
    format!(
        "1 + floor(({input} + {} + {} - (({filter} - 1) * {} + 1)) / {})",
        convolution.pre_padding[axis],
        convolution.post_padding[axis],
        convolution.dilation[axis],
        convolution.stride[axis]
    )
}

pub(super) fn check(node: &Node, convolution: &Convolution) -> Result<(), Malformed> {
    let [x, w, y] = roles(convolution);
    let form = form(node, convolution, node.common_rank("CV-R3", &[x, w, y])?)?;
    match form {
        Form::PackedGroups => check_packed_groups(node, convolution)?,
        Form::ExplicitGroups => check_explicit_groups(node, convolution)?,
    }
    let required = output_dim(node, convolution, form)?;
    let found = node.dim(y)?;
    let first = found.len() - convolution.stride.len();
    for (axis, (&found, &required)) in found[first..].iter().zip(&required[first..]).enumerate() {
        if found != required {
            let formula = formula(convolution, axis, node.dim(x)?[first + axis], node.dim(w)?[first + axis]);
            let message = format!("spatial axis {axis} has extent {found}, required {formula} = {required}");
            return Err(node.fault_at("CV-R5", y, message));
        }
    }
    Ok(())
}

/// CV-R2 and CV-R4 where the groups are in the channel axis.
fn check_packed_groups(node: &Node, convolution: &Convolution) -> Result<(), Malformed> {
    let [x, w, y] = roles(convolution);
    let (input, filter, output) = (node.dim(x)?, node.dim(w)?, node.dim(y)?);
    require_equal(node, "N", (x, input[0]), (y, output[0]))?;
    require_equal(node, "output channels", (w, filter[0]), (y, output[1]))?;
    if input[1] % filter[1] != 0 {
        let message = format!(
            "{} channels, which is no multiple of the {} channels a group that {w} has in dims {filter:?}",
            input[1], filter[1]
        );
        return Err(node.fault_at("CV-R2", x, message));
    }
    let groups = input[1] / filter[1];
    if filter[0] % groups != 0 {
        let message = format!("{} output channels are not divisible by the {groups} groups", filter[0]);
        return Err(node.fault_at("CV-R4", w, message));
    }
    Ok(())
}

/// CV-R2 where the groups have an axis.
fn check_explicit_groups(node: &Node, convolution: &Convolution) -> Result<(), Malformed> {
    let [x, w, y] = roles(convolution);
    let (input, filter, output) = (node.dim(x)?, node.dim(w)?, node.dim(y)?);
    require_equal(node, "N", (x, input[0]), (y, output[0]))?;
    require_equal(node, "groups", (x, input[1]), (w, filter[0]))?;
    require_equal(node, "groups", (w, filter[0]), (y, output[1]))?;
    require_equal(node, "channels a group", (x, input[2]), (w, filter[2]))?;
    require_equal(node, "output channels a group", (w, filter[1]), (y, output[2]))
}

fn require_equal(node: &Node, what: &str, one: (Port, i64), other: (Port, i64)) -> Result<(), Malformed> {
    if one.1 == other.1 {
        return Ok(());
    }
    let message = format!("{what} is {} here but {} in {}; they must agree", other.1, one.1, one.0);
    Err(node.fault_at("CV-R2", other.0, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::samples::{convolution, half_graph, image, refusal, shape_of};
    use crate::graph::{Attributes, Graph};

    fn forward(x: &[i64], w: &[i64], attributes: Convolution) -> Graph {
        let mut graph = half_graph();
        let inputs = [image(&mut graph, "X", x), image(&mut graph, "W", w)];
        let y = graph.convolution("conv", attributes, inputs);
        graph.set_output(y);
        graph
    }

    fn plain(spatial: usize) -> Convolution {
        Convolution::new(ConvolutionDirection::Forward, spatial)
    }

    #[test]
    fn output_extents() {
        let strided =
            Convolution { post_padding: vec![0, 2], ..plain(2).padding([3, 3]).stride([2, 3]).dilation([1, 2]) };
        for (x, w, attributes, y) in [
            (&[2, 8, 7, 7][..], &[4, 8, 7, 7][..], plain(2), &[2, 4, 1, 1][..]),
            (&[2, 8, 10, 11], &[4, 8, 3, 5], strided, &[2, 4, 6, 3]),
            (&[2, 8, 9], &[4, 8, 3], plain(1), &[2, 4, 7]),
            (&[2, 8, 4, 5, 6], &[4, 8, 1, 2, 3], plain(3), &[2, 4, 4, 4, 4]),
        ] {
            assert_eq!(shape_of(&forward(x, w, attributes).finalize().unwrap(), "conv::Y").0, y);
        }
    }

    #[test]
    fn groups_of_both_forms() {
        let packed = forward(&[2, 12, 5, 5], &[6, 4, 3, 3], plain(2)).finalize().unwrap();
        assert_eq!(shape_of(&packed, "conv::Y"), (&[2, 6, 3, 3][..], &[54, 1, 18, 6][..]));
        let explicit = forward(&[2, 3, 4, 5, 5], &[3, 2, 4, 3, 3], plain(2)).finalize().unwrap();
        assert_eq!(shape_of(&explicit, "conv::Y"), (&[2, 3, 2, 3, 3][..], &[54, 2, 1, 18, 6][..]));
    }

    #[test]
    fn extents_must_agree() {
        for (x, w, expected) in [
            (
                &[2, 8, 5, 5][..],
                &[4, 8, 6, 1][..],
                "spatial axis 0: output extent 1 + floor((5 + 0 + 0 - ((6 - 1) * 1 + 1)) / 1) = 0",
            ),
            (&[2, 8, 5, 5], &[4, 3, 3, 3], "8 channels, which is no multiple of the 3 channels a group that W has"),
            (&[2, 8, 5, 5], &[6, 2, 3, 3], "6 output channels are not divisible by the 4 groups [CV-R4]"),
            (&[2, 8, 5, 5], &[4, 8, 3], "rank 3 with dims [4, 8, 3], but X has rank 4"),
            (
                &[2, 8, 5],
                &[4, 8, 3],
                "rank 3 with 2 spatial axes; required rank 4 (packed groups) or 5 (explicit groups)",
            ),
            (&[2, 3, 4, 5, 5], &[2, 2, 4, 3, 3], "groups is 2 here but 3 in X; they must agree [CV-R2]"),
            (&[2, 3, 4, 5, 5], &[3, 2, 5, 3, 3], "channels a group is 5 here but 4 in X"),
        ] {
            let message = refusal(&forward(x, w, plain(2)));
            assert!(message.contains(expected), "{message}");
        }
    }

    #[test]
    fn the_output_is_neither_smaller_nor_larger() {
        for (extent, fits) in [(15, false), (16, true), (17, false)] {
            let mut graph = convolution(ConvolutionDirection::Forward);
            let y = graph.operations()[0].result().unwrap();
            graph.tensor_mut(y).dim = vec![4, 32, 16, extent];
            if fits {
                graph.finalize().unwrap();
                continue;
            }
            let message = refusal(&graph);
            let formula = "required 1 + floor((16 + 1 + 1 - ((3 - 1) * 1 + 1)) / 1) = 16 [CV-R5]";
            assert!(message.contains(&format!("port Y: spatial axis 1 has extent {extent}, {formula}")), "{message}");
        }
        for (dim, expected) in
            [([5, 32, 16, 16], "N is 5 here but 4 in X"), ([4, 33, 16, 16], "output channels is 33 here but 32 in W")]
        {
            let mut graph = convolution(ConvolutionDirection::Forward);
            let y = graph.operations()[0].result().unwrap();
            graph.tensor_mut(y).dim = dim.to_vec();
            assert!(refusal(&graph).contains(expected));
        }
    }

    #[test]
    fn gradients_need_dims() {
        for (direction, name) in
            [(ConvolutionDirection::BackwardData, "DX"), (ConvolutionDirection::BackwardFilter, "DW")]
        {
            let mut graph = convolution(direction);
            graph.finalize().unwrap();
            let result = graph.operations()[0].result().unwrap();
            graph.tensor_mut(result).dim.clear();
            let message = refusal(&graph);
            assert!(
                message.contains(&format!("port {name}: dims must be given"))
                    && message.ends_with("[ATTRIBUTE_NOT_SET]"),
                "{message}"
            );
        }
    }

    #[test]
    fn gradients_obey_the_forward_formula() {
        for direction in [ConvolutionDirection::BackwardData, ConvolutionDirection::BackwardFilter] {
            let mut graph = convolution(direction);
            let result = graph.operations()[0].result().unwrap();
            graph.tensor_mut(result).dim[3] += 1;
            assert!(refusal(&graph).contains("port DY: spatial axis 1 has extent 16, required 1 + floor(("));
        }
    }

    #[test]
    fn strided_data_gradients_may_leave_a_rest() {
        for (extent, fits) in [(14, false), (15, true), (16, true), (17, false)] {
            let mut graph = half_graph();
            let inputs = [image(&mut graph, "dy", &[1, 4, 8, 8]), image(&mut graph, "w", &[4, 2, 1, 1])];
            let attributes = Convolution::new(ConvolutionDirection::BackwardData, 2).stride([2, 2]);
            let dx = graph.convolution("dgrad", attributes, inputs);
            graph.set_output(dx).dim = vec![1, 2, 16, extent];
            assert_eq!(graph.finalize().is_ok(), fits, "{extent}");
        }
    }

    #[test]
    fn parameters_are_in_range() {
        type Edit = fn(&mut Convolution);
        let edits: [(Edit, &str); 6] = [
            (|conv| conv.pre_padding = vec![-1, 0], "pre_padding [-1, 0] holds -1; at least 0 is required"),
            (|conv| conv.stride = vec![1, 0], "stride [1, 0] holds 0; at least 1 is required"),
            (|conv| conv.dilation = vec![0, 1], "dilation [0, 1] holds 0; at least 1 is required"),
            (|conv| conv.post_padding = vec![1], "post_padding [1] has 1 entries and stride [1, 1] has 2"),
            (|conv| conv.stride = vec![], "stride [] has 0 entries"),
            (|conv| conv.pre_padding = vec![i64::MAX, i64::MAX], "spatial axis 0: output extent"),
        ];
        for (edit, expected) in edits {
            let mut graph = forward(&[2, 8, 5, 5], &[4, 8, 3, 3], plain(2));
            if let Attributes::Convolution(convolution) = &mut graph.last_operation().attributes {
                edit(convolution);
            }
            let result = graph.finalize();
            let message = result.expect_err(expected).to_string();
            assert!(message.contains(expected) || message.contains("63 bits"), "{message}");
        }
    }
}
