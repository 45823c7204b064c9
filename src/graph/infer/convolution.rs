//! Convolutions: shapes of both group forms (operations.md section 3).

use super::advice::{self, Reordered};
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
        true => {
            let shape = Shape::new(node, convolution, form)?;
            shape.check_channels().and_then(|()| shape.output_dim()).map_err(|defect| advised(defect, &shape, node))?
        }
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
pub(super) fn check_parameters(node: &Node, convolution: &Convolution) -> Result<(), Malformed> {
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

/// Dims of a convolution's tensors beside its parameters; ranks and parameters are checked.
struct Shape<'a> {
    convolution: &'a Convolution,
    form: Form,
    x: Vec<i64>,
    w: Vec<i64>,
    /// Empty where Y is still to be inferred.
    y: Vec<i64>,
}

/// A rule that dims break, the port to blame, and the message.
struct Defect {
    rule: &'static str,
    port: Option<Port>,
    message: String,
}

impl<'a> Shape<'a> {
    fn new(node: &Node, convolution: &'a Convolution, form: Form) -> Result<Self, Malformed> {
        let [x, w, y] = roles(convolution);
        let dim_of_y = if node.lacks_dim(y) { Vec::new() } else { node.dim(y)?.to_vec() };
        Ok(Self { convolution, form, x: node.dim(x)?.to_vec(), w: node.dim(w)?.to_vec(), y: dim_of_y })
    }

    /// Every rule that dims of X, W and, where it is known, Y can break.
    fn check(&self) -> Result<(), Defect> {
        self.check_channels()?;
        let required = self.output_dim()?;
        let first = required.len() - self.convolution.stride.len();
        for (axis, (&found, &required)) in self.y.iter().zip(&required).skip(first).enumerate() {
            if found != required {
                let formula = formula(self.convolution, axis, self.x[first + axis], self.w[first + axis]);
                let message = format!("spatial axis {axis} has extent {found}, required {formula} = {required}");
                return Err(self.defect("CV-R5", roles(self.convolution)[2], message));
            }
        }
        Ok(())
    }

    /// Dims that X and W require of Y (CV-R5).
    fn output_dim(&self) -> Result<Vec<i64>, Defect> {
        let mut dim = match self.form {
            Form::PackedGroups => vec![self.x[0], self.w[0]],
            Form::ExplicitGroups => vec![self.x[0], self.w[0], self.w[1]],
        };
        let first = dim.len();
        for axis in 0..self.convolution.stride.len() {
            dim.push(self.output_extent(axis, self.x[first + axis], self.w[first + axis])?);
        }
        Ok(dim)
    }

    /// `1 + ⌊(in + pre + post − ((filter − 1)·dilation + 1)) / stride⌋`, which must be positive (CV-R6).
    fn output_extent(&self, axis: usize, input: i64, filter: i64) -> Result<i64, Defect> {
        let convolution = self.convolution;
        let [pre, post] = [convolution.pre_padding[axis], convolution.post_padding[axis]].map(i128::from);
        let (stride, dilation) = (i128::from(convolution.stride[axis]), i128::from(convolution.dilation[axis]));
        let dilated = (i128::from(filter) - 1) * dilation + 1;
        let padded = i128::from(input) + pre + post;
        let out = if padded < dilated { 0 } else { 1 + (padded - dilated) / stride };
        i64::try_from(out).ok().filter(|&out| out > 0).ok_or_else(|| {
            let formula = formula(convolution, axis, input, filter);
            let message =
                format!("spatial axis {axis}: output extent {formula} = {out}; it must be positive and below 2^63");
            Defect { rule: "CV-R6", port: None, message }
        })
    }

    fn check_channels(&self) -> Result<(), Defect> {
        match self.form {
            Form::PackedGroups => self.check_packed_groups(),
            Form::ExplicitGroups => self.check_explicit_groups(),
        }
    }

    /// CV-R2 and CV-R4 where the groups are in the channel axis.
    fn check_packed_groups(&self) -> Result<(), Defect> {
        let [x, w, y] = roles(self.convolution);
        self.require_equal("N", (x, self.x.first()), (y, self.y.first()))?;
        self.require_equal("output channels", (w, self.w.first()), (y, self.y.get(1)))?;
        let (channels, of_group, filters) = (self.x[1], self.w[1], self.w[0]);
        if channels % of_group != 0 {
            let message = format!(
                "{channels} channels, which is no multiple of the {of_group} channels a group that {w} has in dims {:?}; \
                 {w} is [K, C, R, S], where C counts the channels of one group: {channels} without groups",
                self.w
            );
            return Err(self.defect("CV-R2", x, message));
        }
        let groups = channels / of_group;
        if filters % groups != 0 {
            let message = format!("{filters} output channels are not divisible by the {groups} groups");
            return Err(self.defect("CV-R4", w, message));
        }
        Ok(())
    }

    /// CV-R2 where the groups have an axis.
    fn check_explicit_groups(&self) -> Result<(), Defect> {
        let [x, w, y] = roles(self.convolution);
        self.require_equal("N", (x, self.x.first()), (y, self.y.first()))?;
        self.require_equal("groups", (x, self.x.get(1)), (w, self.w.first()))?;
        self.require_equal("groups", (w, self.w.first()), (y, self.y.get(1)))?;
        self.require_equal("channels a group", (x, self.x.get(2)), (w, self.w.get(2)))?;
        self.require_equal("output channels a group", (w, self.w.get(1)), (y, self.y.get(2)))
    }

    /// Two extents, where both are known.
    fn require_equal(&self, what: &str, one: (Port, Option<&i64>), other: (Port, Option<&i64>)) -> Result<(), Defect> {
        match (one.1, other.1) {
            (Some(expected), Some(found)) if expected != found => {
                let message = format!("{what} is {found} here but {expected} in {}; they must agree", one.0);
                Err(self.defect("CV-R2", other.0, message))
            }
            _ => Ok(()),
        }
    }

    fn defect(&self, rule: &'static str, port: Port, message: String) -> Defect {
        Defect { rule, port: Some(port), message }
    }

    /// The order of axes that was meant, where these dims fit in one that people write.
    fn reordered(&self) -> Option<Reordered> {
        if self.form == Form::ExplicitGroups {
            return None;
        }
        advice::reordered([&self.x, &self.w, &self.y], |[x, w, y]| {
            let meant = Shape { x: x.clone(), w: w.clone(), y: y.clone(), ..*self };
            meant.check().is_ok()
        })
    }
}

/// A defect at its node. Where an order of axes that people write explains it, the tensors in that order are to blame.
fn advised(defect: Defect, shape: &Shape, node: &Node) -> Malformed {
    let Defect { rule, port, message } = defect;
    let Some(Reordered { changed, dims, written }) = shape.reordered() else {
        return match port {
            Some(port) => node.fault_at(rule, port, message),
            None => node.fault(rule, message),
        };
    };
    let ports = roles(shape.convolution);
    let told: Vec<String> = changed.iter().map(|&at| format!("{} {:?}", ports[at], dims[at])).collect();
    let found = port.map_or(String::new(), |port| format!("port {port}: "));
    let advice = format!("{}: dims {}, and the strides in the same order", written.sentence(), told.join(", "));
    match changed.first() {
        Some(&at) if Some(ports[at]) != port => node.fault_at(rule, ports[at], format!("{advice} ({found}{message})")),
        Some(&at) => node.fault_at(rule, ports[at], format!("{message}; {advice}")),
        None => node.fault(rule, message),
    }
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
    let form = form(node, convolution, node.common_rank("CV-R3", &roles(convolution))?)?;
    let shape = Shape::new(node, convolution, form)?;
    shape.check().map_err(|defect| advised(defect, &shape, node))
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
    fn an_order_of_axes_that_people_write_is_named() {
        let given = |x: &[i64], w: &[i64], y: &[i64]| {
            let mut graph = forward(x, w, plain(2));
            let result = graph.operations()[0].result().unwrap();
            graph.tensor_mut(result).dim = y.to_vec();
            refusal(&graph)
        };
        const AS_NHWC: &str = "dims are always N, C, H, W, whatever the layout; NHWC is told by strides: dims";
        for (x, w, y, port, advice) in [
            // A filter as [C, K, R, S]; as [R, S, C, K].
            (
                &[2, 8, 6, 7],
                &[8, 32, 3, 3],
                &[2, 32, 4, 5][..],
                "port W: a filter is [K, C, R, S]",
                "dims W [32, 8, 3, 3]",
            ),
            (&[2, 8, 6, 7], &[8, 32, 3, 3], &[], "port W: a filter is [K, C, R, S]", "dims W [32, 8, 3, 3]"),
            (
                &[2, 8, 6, 7],
                &[3, 2, 8, 32],
                &[2, 32, 4, 6],
                "port W: a filter is",
                "fits as [R, S, C, K]: dims W [32, 8, 3, 2]",
            ),
            // Images as [N, H, W, C].
            (&[2, 6, 7, 8], &[32, 8, 3, 3], &[2, 4, 5, 32], AS_NHWC, "dims X [2, 8, 6, 7], Y [2, 32, 4, 5]"),
            (&[2, 6, 7, 8], &[32, 8, 3, 3], &[], AS_NHWC, "dims X [2, 8, 6, 7]"),
            (
                &[2, 6, 7, 8],
                &[32, 3, 3, 8],
                &[2, 4, 5, 32],
                AS_NHWC,
                "dims X [2, 8, 6, 7], W [32, 8, 3, 3], Y [2, 32, 4, 5]",
            ),
            (&[2, 8, 6, 7], &[32, 8, 3, 3], &[2, 4, 5, 32], AS_NHWC, "dims Y [2, 32, 4, 5]"),
        ] {
            let message = given(x, w, y);
            assert!(message.contains(port) && message.contains(advice), "{message}");
        }
        // Nothing explains these: no advice.
        let message = given(&[2, 8, 6, 7], &[32, 5, 3, 3], &[2, 32, 4, 5]);
        assert!(message.contains("where C counts the channels of one group: 8 without groups [CV-R2]"), "{message}");
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
