//! A core as a matrix product: which digits its indices have, and where each operand's elements lie.

use crate::fusion::{Product, ProductKind};
use crate::graph::{
    Attributes, Convolution, ConvolutionDirection, ConvolutionMode, FinalTensor, FinalizedGraph, TensorId,
};
use crate::kernel::{Coordinate, Counted, Derived, Digit, GemmSpace, Index, Quantity, Role};

/// Most spatial axes of a convolution that kernels are written for.
pub(in crate::engine) const MAX_SPATIAL: usize = 3;

/// The index space of a core with the coordinates of A, B and C by graph axis.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::engine) struct Problem {
    pub(in crate::engine) space: GemmSpace,
    pub(in crate::engine) operands: [Vec<Coordinate>; 2],
    /// Affine and inside by construction.
    pub(in crate::engine) result: Vec<Coordinate>,
    /// Whether it is the transposed product: its A is the core's second operand.
    pub(in crate::engine) transposed: bool,
    /// Elements of k that boxes bring at a time, where these are fewer than a step of the mainloop: so many channels under a tap.
    pub(in crate::engine) block_k: Option<i64>,
}

impl Problem {
    /// A core as it stands.
    pub(in crate::engine) fn of(graph: &FinalizedGraph, product: &Product) -> Self {
        let [a, b] = product.tensors().map(|id| graph.tensor(id));
        let c = graph.tensor(product.result);
        let problem = match &graph.operation(product.operation).attributes {
            Attributes::Convolution(convolution) => {
                ConvolutionProblem::new(convolution, [a, b, c], product.groups).problem()
            }
            _ => matmul(a, c),
        };
        problem.without_unit_digits()
    }

    /// The transposed product of a matmul, whose rows are C's columns; `None` for a convolution.
    pub(in crate::engine) fn transposed(graph: &FinalizedGraph, product: &Product) -> Option<Self> {
        let (a, c) = (graph.tensor(product.tensors()[0]), graph.tensor(product.result));
        (product.kind == ProductKind::Matmul).then(|| transposed_matmul(a, c).without_unit_digits())
    }

    /// Whether it is a data gradient cut into products for the pixels that lie a stride apart.
    pub(in crate::engine) fn is_in_phases(&self) -> bool {
        !self.space.derived.is_empty()
    }

    /// The same with the channels that k ends with in blocks of a step of the mainloop, so that all of a step share their tap.
    pub(in crate::engine) fn in_steps_of(mut self, step_k: i64) -> Self {
        if let [_, .., last] = &mut self.space.k[..]
            && matches!(last.quantity, Quantity::InputChannel | Quantity::OutputChannel)
        {
            *last = last.in_blocks_of(step_k);
        }
        self
    }

    /// The same with the channels that n counts under each tap innermost and in whole lines of so many, so that no line has channels of
    /// two taps.
    pub(in crate::engine) fn in_columns_of(mut self, line: i64) -> Self {
        let columns = &mut self.space.n;
        let channel = columns.iter().position(|digit| digit.quantity == Quantity::InputChannel);
        if let Some(channel) = channel.filter(|_| columns.len() > 1) {
            let channels = columns.remove(channel);
            columns.push(channels.in_blocks_of(line));
        }
        self
    }

    /// The same where a step has two blocks of channels, each under a tap of its own; `None` where whole steps leave as little of
    /// themselves unused, pixels of so many bytes do not lie in whole sectors of L2, or matrices have different numbers of steps
    /// (3×3 of 28×28 pixels on an H200: 1.2 to 1.45 times as fast with 32, 80 and 96 channels, 0.8 with 72; four blocks of 16 channels
    /// 0.7 to 1.2).
    pub(in crate::engine) fn in_blocks_within(self, step_k: i64, pixel_bytes: i64) -> Option<Self> {
        const SECTOR: i64 = 32;
        const LITTLE: f64 = 1.1;
        let is_channel = |digit: &&Digit| matches!(digit.quantity, Quantity::InputChannel | Quantity::OutputChannel);
        let is_alone = self.space.k.len() < 2 || !self.space.counted.is_empty();
        let last = self.space.k.last().filter(is_channel).filter(|_| !is_alone)?;
        let padded = |block: i64| last.in_blocks_of(block).radix as f64;
        let block = step_k / 2;
        let is_better = padded(step_k) > padded(block) * LITTLE && pixel_bytes % SECTOR == 0;
        is_better.then(|| Self { block_k: Some(block), ..self.in_steps_of(block) })
    }

    /// Channels that k ends with; 1 where it ends with none.
    pub(in crate::engine) fn channels_of_k(&self) -> i64 {
        self.space.k.last().map_or(1, |digit| digit.extent)
    }

    /// Which of the core's operands is the product's A (slot 0) or B (slot 1).
    pub(in crate::engine) fn core_slot(&self, slot: usize) -> usize {
        if self.transposed { 1 - slot } else { slot }
    }

    /// Digits that are always 0 dropped, from the space and from every coordinate.
    fn without_unit_digits(mut self) -> Self {
        let space = &mut self.space;
        let mut dropped = Vec::new();
        for digits in [&mut space.b, &mut space.m, &mut space.n, &mut space.k] {
            dropped.extend(digits.iter().filter(|digit| digit.extent == 1).map(|digit| digit.quantity));
            digits.retain(|digit| digit.extent > 1);
        }
        for coordinate in self.operands.iter_mut().flatten().chain(&mut self.result) {
            coordinate.terms.retain(|term| !dropped.contains(&term.0));
        }
        self
    }

    /// Elements between neighbours of a digit in a tensor that lies over C's points.
    pub(in crate::engine) fn stride_of(&self, digit: Quantity, step: impl Fn(usize) -> i64) -> i64 {
        let scales = self.result.iter().enumerate();
        scales
            .flat_map(|(axis, coordinate)| coordinate.terms.iter().map(move |term| (axis, term)))
            .filter(|(_, term)| term.0 == digit)
            .map(|(axis, term)| term.1 * step(axis))
            .sum()
    }

    /// A bound on the magnitude of every coordinate of an operand on the way, also where a tile reaches beyond the last index.
    pub(in crate::engine) fn reach(&self) -> i64 {
        const BEYOND: i64 = 512;
        let space = &self.space;
        let digits = || [&space.b, &space.m, &space.n, &space.k].into_iter().flatten();
        let extent = |quantity| digits().find(|digit| digit.quantity == quantity).map_or(1, |digit| digit.radix);
        let reach = |coordinate: &Coordinate| {
            let terms =
                coordinate.terms.iter().map(|&(quantity, scale)| scale.abs().saturating_mul(extent(quantity) + BEYOND));
            terms.fold(coordinate.constant.abs(), i64::saturating_add)
        };
        self.operands.iter().flatten().map(reach).max().unwrap_or(0)
    }

    /// The graph axis of C that a digit belongs to.
    pub(in crate::engine) fn axis_of(&self, digit: Quantity) -> Option<usize> {
        self.result.iter().position(|coordinate| coordinate.terms.iter().any(|term| term.0 == digit))
    }
}

fn matmul(a: &FinalTensor, c: &FinalTensor) -> Problem {
    let rank = c.dim.len();
    let digit = |role, extent| vec![Digit::new(Quantity::Index(role), extent)];
    let one = |role| Coordinate::digit(Quantity::Index(role));
    Problem {
        space: GemmSpace {
            b: digit(Role::Batch, c.dim[..rank - 2].iter().product()),
            m: digit(Role::Row, c.dim[rank - 2]),
            n: digit(Role::Column, c.dim[rank - 1]),
            k: digit(Role::Sum, a.dim[a.dim.len() - 1]),
            derived: Vec::new(),
            counted: Vec::new(),
        },
        operands: [
            vec![one(Role::Batch), one(Role::Row), one(Role::Sum)],
            vec![one(Role::Batch), one(Role::Sum), one(Role::Column)],
        ],
        result: vec![one(Role::Batch), one(Role::Row), one(Role::Column)],
        transposed: false,
        block_k: None,
    }
}

fn transposed_matmul(a: &FinalTensor, c: &FinalTensor) -> Problem {
    let Problem { space, .. } = matmul(a, c);
    let counting = |digits: Vec<Digit>, role| -> Vec<Digit> {
        digits.into_iter().map(|digit| Digit { quantity: Quantity::Index(role), ..digit }).collect()
    };
    let one = |role| Coordinate::digit(Quantity::Index(role));
    Problem {
        space: GemmSpace { m: counting(space.n, Role::Row), n: counting(space.m, Role::Column), ..space },
        operands: [
            vec![one(Role::Batch), one(Role::Sum), one(Role::Row)],
            vec![one(Role::Batch), one(Role::Column), one(Role::Sum)],
        ],
        result: vec![one(Role::Batch), one(Role::Column), one(Role::Row)],
        transposed: true,
        block_k: None,
    }
}

/// A convolution by its parts.
struct ConvolutionProblem<'a> {
    convolution: &'a Convolution,
    /// The two operands, then the result.
    tensors: [&'a FinalTensor; 3],
    groups: i64,
    /// Whether groups have an axis of their own.
    explicit: bool,
}

impl<'a> ConvolutionProblem<'a> {
    fn new(convolution: &'a Convolution, tensors: [&'a FinalTensor; 3], groups: i64) -> Self {
        let explicit = tensors[0].dim.len() > convolution.stride.len() + 2;
        Self { convolution, tensors, groups, explicit }
    }

    /// X, W and Y, or their gradients.
    fn image_filter_output(&self) -> [&'a FinalTensor; 3] {
        let [first, second, result] = self.tensors;
        match self.convolution.direction {
            ConvolutionDirection::Forward => [first, second, result],
            ConvolutionDirection::BackwardData => [result, second, first],
            ConvolutionDirection::BackwardFilter => [second, result, first],
        }
    }

    fn spatial(&self) -> usize {
        self.convolution.stride.len()
    }

    /// A quantity along each spatial axis.
    fn along_axes(&self, quantity: fn(u8) -> Quantity) -> Vec<Quantity> {
        (0..self.spatial()).map(|axis| self.along(quantity, axis)).collect()
    }

    /// A quantity along a spatial axis of the convolution, the last of which is numbered as the last of three.
    fn along(&self, quantity: fn(u8) -> Quantity, axis: usize) -> Quantity {
        quantity((MAX_SPATIAL - self.spatial() + axis) as u8)
    }

    /// First spatial axis of every tensor.
    fn first(&self) -> usize {
        2 + usize::from(self.explicit)
    }

    fn digits(&self, quantity: fn(u8) -> Quantity, tensor: &FinalTensor) -> Vec<Digit> {
        let extents = &tensor.dim[self.first()..];
        self.along_axes(quantity)
            .into_iter()
            .zip(extents)
            .map(|(counted, &extent)| Digit::new(counted, extent))
            .collect()
    }

    /// Channels of one group.
    fn channels(&self) -> [Digit; 2] {
        let [_, filter, _] = self.image_filter_output();
        let (output, input) = if self.explicit { (1, 2) } else { (0, 1) };
        let per_group = if self.explicit { filter.dim[output] } else { filter.dim[output] / self.groups };
        [Digit::new(Quantity::OutputChannel, per_group), Digit::new(Quantity::InputChannel, filter.dim[input])]
    }

    fn problem(&self) -> Problem {
        let [image, filter, output] = self.image_filter_output();
        let [ko, ci] = self.channels();
        let images = Digit::new(Quantity::Image, image.dim[0]);
        let pixels = |quantity, tensor| -> Vec<Digit> { [vec![images], self.digits(quantity, tensor)].concat() };
        let taps = self.digits(Quantity::Tap, filter);
        let with_taps = |channel, lying: &FinalTensor| innermost_last(channel, &taps, self.is_channels_last(lying));
        let group = Digit::new(Quantity::Group, self.groups);
        let b = if self.groups > 1 { vec![group] } else { Vec::new() };
        if self.is_in_phases() {
            return self.phases(b, [ko, ci]);
        }
        let (m, n, k) = match self.convolution.direction {
            ConvolutionDirection::Forward => (pixels(Quantity::OutputPixel, output), vec![ko], with_taps(ci, image)),
            ConvolutionDirection::BackwardData => {
                (pixels(Quantity::InputPixel, image), vec![ci], with_taps(ko, output))
            }
            ConvolutionDirection::BackwardFilter => {
                (vec![ko], with_taps(ci, filter), pixels(Quantity::OutputPixel, output))
            }
        };
        let (operands, result) = self.coordinates(ko.extent, ci.extent);
        Problem {
            space: GemmSpace { b, m, n, k, derived: Vec::new(), counted: Vec::new() },
            operands,
            result,
            transposed: false,
            block_k: None,
        }
    }

    /// Whether it is a data gradient that is cut into products of its own for the pixels that lie a stride apart: each of them has
    /// only taps that reach it.
    fn is_in_phases(&self) -> bool {
        let [image, ..] = self.image_filter_output();
        let is_cut = |axis: usize| {
            let [stride, dilation, _] = self.parameters(axis);
            stride == 1 || (dilation == 1 && image.dim[self.first() + axis] % stride == 0)
        };
        let is_strided = self.convolution.stride.iter().any(|&stride| stride > 1);
        is_strided
            && self.convolution.direction == ConvolutionDirection::BackwardData
            && (0..self.spatial()).all(is_cut)
    }

    /// A data gradient in phases: `h = block · stride + phase` is reached by the taps `first + stride · tap` of the filter, from the
    /// pixels `p = block + shift − tap` of Y, where `phase + pre = shift · stride + first`.
    fn phases(&self, mut b: Vec<Digit>, [ko, ci]: [Digit; 2]) -> Problem {
        let [image, filter, output] = self.image_filter_output();
        let axes: Vec<PhasedAxis> = (0..self.spatial()).map(|axis| self.phased(axis)).collect();
        let images = Digit::new(Quantity::Image, image.dim[0]);
        let taps: Vec<Digit> = axes.iter().map(|axis| axis.tap).collect();
        b.extend(axes.iter().filter_map(|axis| axis.phase));
        let source =
            self.image(Quantity::OutputChannel, ko.extent, axes.iter().map(|axis| axis.source.clone()).collect());
        let pixels =
            self.image(Quantity::InputChannel, ci.extent, axes.iter().map(|axis| axis.pixel.clone()).collect());
        let mut weights = self.filter(ko.extent, false);
        for (coordinate, axis) in weights[filter.dim.len() - axes.len()..].iter_mut().zip(&axes) {
            *coordinate = axis.weight.clone();
        }
        let space = GemmSpace {
            b,
            m: [images].into_iter().chain(axes.iter().map(|axis| axis.block)).collect(),
            n: vec![ci],
            k: innermost_last(ko, &taps, self.is_channels_last(output)),
            counted: axes.iter().filter_map(|axis| axis.counted).collect(),
            derived: axes.into_iter().flat_map(|axis| axis.derived).collect(),
        };
        Problem { space, operands: [source, weights], result: pixels, transposed: false, block_k: None }
    }

    fn phased(&self, axis: usize) -> PhasedAxis {
        let [image, filter, output] = self.image_filter_output();
        let at = self.first() + axis;
        let [stride, dilation, pre] = self.parameters(axis);
        let along = |quantity| self.along(quantity, axis);
        let (whole, rest) = (pre.div_euclid(stride), pre.rem_euclid(stride));
        let phase = || Index::variable(along(Quantity::Phase)) + Index::from(rest);
        let (block, tap) = if stride == 1 {
            (Quantity::InputPixel as fn(u8) -> Quantity, dilation)
        } else {
            (Quantity::PixelBlock as fn(u8) -> Quantity, 1)
        };
        let taps = (filter.dim[at] + stride - 1) / stride;
        let mut derived = Vec::new();
        let mut source = vec![(along(block), 1), (along(Quantity::Tap), -tap)];
        let mut weight = vec![(along(Quantity::Tap), stride)];
        let mut pixel = vec![(along(block), stride)];
        if stride > 1 {
            let shifts = (stride - 1 + rest) / stride + 1;
            derived.push(Derived { quantity: along(Quantity::FirstTap), value: phase() % stride, extent: stride });
            derived.push(Derived { quantity: along(Quantity::PhaseShift), value: phase() / stride, extent: shifts });
            source.extend((shifts > 1).then_some((along(Quantity::PhaseShift), 1)));
            weight.insert(0, (along(Quantity::FirstTap), 1));
            pixel.push((along(Quantity::Phase), 1));
        }
        let extent = filter.dim[at];
        let counted = (stride > 1 && extent > stride && extent % stride != 0).then(|| {
            let first = Index::variable(along(Quantity::FirstTap)) * -1;
            let value = (Index::from(extent + stride - 1) + first) / stride;
            derived.push(Derived { quantity: along(Quantity::TapCount), value, extent: taps + 1 });
            let used = extent as f64 / (stride * taps) as f64;
            Counted { digit: along(Quantity::Tap), count: along(Quantity::TapCount), used }
        });
        let is_rotated = self.is_rotated();
        let sign = if is_rotated { -1 } else { 1 };
        let weight = Coordinate {
            constant: if is_rotated { filter.dim[at] - 1 } else { 0 },
            bound: (taps * stride > filter.dim[at]).then_some(filter.dim[at]),
            ..Coordinate::affine(
                along(Quantity::RotatedTap),
                weight.into_iter().map(|(digit, scale)| (digit, sign * scale)).collect::<Vec<_>>(),
            )
        };
        PhasedAxis {
            phase: (stride > 1).then(|| Digit::new(along(Quantity::Phase), stride)),
            block: Digit::new(along(block), image.dim[at] / stride),
            tap: Digit::new(along(Quantity::Tap), taps),
            source: Coordinate {
                constant: if stride == 1 { pre } else { whole },
                bound: Some(output.dim[at]),
                ..Coordinate::affine(along(Quantity::OutputPixel), source)
            },
            weight,
            pixel: Coordinate::affine(along(Quantity::InputPixel), pixel),
            derived,
            counted,
        }
    }

    /// Whether channels are contiguous.
    fn is_channels_last(&self, tensor: &FinalTensor) -> bool {
        tensor.stride[self.first() - 1] == 1
    }

    fn coordinates(&self, ko: i64, ci: i64) -> ([Vec<Coordinate>; 2], Vec<Coordinate>) {
        let spatial = 0..self.spatial();
        let image = |pixels: Vec<Coordinate>| self.image(Quantity::InputChannel, ci, pixels);
        let output = |pixels: Vec<Coordinate>| self.image(Quantity::OutputChannel, ko, pixels);
        let plain = |quantity| self.along_axes(quantity).into_iter().map(Coordinate::digit).collect();
        let windows = || spatial.clone().map(|axis| self.window(axis)).collect();
        match self.convolution.direction {
            ConvolutionDirection::Forward => {
                ([image(windows()), self.filter(ko, self.is_rotated())], output(plain(Quantity::OutputPixel)))
            }
            ConvolutionDirection::BackwardData => {
                let sources = spatial.clone().map(|axis| self.source(axis)).collect();
                ([output(sources), self.filter(ko, self.is_rotated())], image(plain(Quantity::InputPixel)))
            }
            ConvolutionDirection::BackwardFilter => {
                ([output(plain(Quantity::OutputPixel)), image(windows())], self.filter(ko, false))
            }
        }
    }

    fn is_rotated(&self) -> bool {
        self.convolution.mode == ConvolutionMode::Convolution
    }

    /// `[img, channel, pixels …]`, with the group before or in the channel.
    fn image(&self, channel: Quantity, per_group: i64, pixels: Vec<Coordinate>) -> Vec<Coordinate> {
        let mut coordinates = vec![Coordinate::digit(Quantity::Image)];
        coordinates.extend(self.grouped(channel, per_group));
        coordinates.extend(pixels);
        coordinates
    }

    /// `[ko, ci, taps …]`, with the group before or in `ko`.
    fn filter(&self, ko: i64, rotated: bool) -> Vec<Coordinate> {
        let [_, filter, _] = self.image_filter_output();
        let mut coordinates = self.grouped(Quantity::OutputChannel, ko);
        coordinates.push(Coordinate::digit(Quantity::InputChannel));
        let taps = self
            .along_axes(Quantity::Tap)
            .into_iter()
            .zip(self.along_axes(Quantity::RotatedTap))
            .zip(&filter.dim[self.first()..]);
        coordinates.extend(taps.map(|((tap, rotated_tap), extent)| match rotated {
            true => Coordinate { constant: extent - 1, ..Coordinate::affine(rotated_tap, [(tap, -1)]) },
            false => Coordinate::digit(tap),
        }));
        coordinates
    }

    fn grouped(&self, channel: Quantity, per_group: i64) -> Vec<Coordinate> {
        match (self.explicit, self.groups) {
            (true, _) => vec![Coordinate::digit(Quantity::Group), Coordinate::digit(channel)],
            (false, 1) => vec![Coordinate::digit(channel)],
            (false, _) => vec![Coordinate::affine(Quantity::Channel, [(Quantity::Group, per_group), (channel, 1)])],
        }
    }

    /// Input pixel under a tap: `output · stride + tap · dilation − pre` (operations.md 3.4). In a filter gradient of
    /// mode CONVOLUTION the tap counts from the other end.
    fn window(&self, axis: usize) -> Coordinate {
        let [image, filter, output] = self.image_filter_output();
        let at = self.first() + axis;
        let [stride, dilation, pre] = self.parameters(axis);
        let backward = self.convolution.direction == ConvolutionDirection::BackwardFilter;
        let last_tap = filter.dim[at] - 1;
        let (scale, constant) =
            if backward && self.is_rotated() { (-dilation, last_tap * dilation - pre) } else { (dilation, -pre) };
        let terms = [(self.along(Quantity::OutputPixel, axis), stride), (self.along(Quantity::Tap, axis), scale)];
        let furthest = (output.dim[at] - 1) * stride + last_tap * dilation - pre;
        let bound = (pre > 0 || furthest >= image.dim[at]).then_some(image.dim[at]);
        Coordinate { constant, bound, ..Coordinate::affine(self.along(Quantity::InputPixel, axis), terms) }
    }

    /// Output pixel that an input pixel reaches through a tap: `(input + pre − tap · dilation) / stride`.
    fn source(&self, axis: usize) -> Coordinate {
        let [_, _, output] = self.image_filter_output();
        let [stride, dilation, pre] = self.parameters(axis);
        let terms = [(self.along(Quantity::InputPixel, axis), 1), (self.along(Quantity::Tap, axis), -dilation)];
        let bound = Some(output.dim[self.first() + axis]);
        Coordinate {
            constant: pre,
            divisor: stride,
            bound,
            ..Coordinate::affine(self.along(Quantity::OutputPixel, axis), terms)
        }
    }

    fn parameters(&self, axis: usize) -> [i64; 3] {
        let convolution = self.convolution;
        [convolution.stride[axis], convolution.dilation[axis], convolution.pre_padding[axis]]
    }
}

/// A spatial axis of a data gradient in phases.
struct PhasedAxis {
    /// None where the stride is 1.
    phase: Option<Digit>,
    block: Digit,
    tap: Digit,
    /// Pixel of Y, tap of the filter, pixel of X.
    source: Coordinate,
    weight: Coordinate,
    pixel: Coordinate,
    derived: Vec<Derived>,
    /// Where phases have different numbers of taps.
    counted: Option<Counted>,
}

/// Taps and channel, the channel innermost where it is contiguous.
fn innermost_last(channel: Digit, taps: &[Digit], channels_last: bool) -> Vec<Digit> {
    if channels_last { [taps, &[channel]].concat() } else { [&[channel], taps].concat() }
}

/// Elements of a tensor's step along an axis, as far as its extent lets it step.
pub(in crate::engine) fn step_of(graph: &FinalizedGraph, id: TensorId) -> impl Fn(usize) -> i64 + use<'_> {
    move |axis| crate::kernel::step(graph.tensor(id), axis)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::graph::{DataType, Graph, Tensor};

    fn problem(direction: ConvolutionDirection, mode: ConvolutionMode, groups: i64) -> Problem {
        let (x, w, y) = ([2, 8 * groups, 9, 7], [4 * groups, 8, 3, 2], [2, 4 * groups, 5, 7]);
        let (first, second, result) = match direction {
            ConvolutionDirection::Forward => (x, w, y),
            ConvolutionDirection::BackwardData => (y, w, x),
            ConvolutionDirection::BackwardFilter => (y, x, w),
        };
        let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
        let inputs = [first, second].map(|dim| graph.tensor(Tensor::new("t").channels_last(dim)));
        let convolution = Convolution {
            mode,
            pre_padding: vec![1, 1],
            post_padding: vec![1, 0],
            stride: vec![2, 1],
            dilation: vec![1, 1],
            ..Convolution::new(direction, 2)
        };
        let id = graph.convolution("conv", convolution, inputs);
        *graph.tensor_mut(id) = Tensor::new("result").channels_last(result);
        graph.set_output(id);
        let graph = Arc::new(graph.finalize().expect("well formed"));
        let fusion = crate::fusion::fuse(Arc::clone(&graph)).expect("a convolution");
        Problem::of(&graph, fusion.product().expect("a core"))
    }

    #[test]
    fn extents_follow_from_the_direction() {
        use ConvolutionDirection as D;
        let extents = |direction| problem(direction, ConvolutionMode::CrossCorrelation, 1).space.extents();
        assert_eq!(extents(D::Forward), [1, 2 * 5 * 7, 4, 3 * 2 * 8]);
        assert_eq!(extents(D::BackwardData), [1, 2 * 9 * 7, 8, 3 * 2 * 4]);
        assert_eq!(extents(D::BackwardFilter), [1, 4, 3 * 2 * 8, 2 * 5 * 7]);
        let grouped = problem(D::Forward, ConvolutionMode::CrossCorrelation, 3);
        assert_eq!(grouped.space.extents(), [3, 70, 4, 48]);
        assert_eq!(grouped.operands[0][1].terms, [(Quantity::Group, 8), (Quantity::InputChannel, 1)]);
        assert_eq!(grouped.operands[1][0].terms, [(Quantity::Group, 4), (Quantity::OutputChannel, 1)]);
    }

    #[test]
    fn windows_step_by_stride_and_dilation_and_start_in_the_padding() {
        let forward = problem(ConvolutionDirection::Forward, ConvolutionMode::CrossCorrelation, 1);
        let rows = &forward.operands[0][2];
        assert_eq!(
            (rows.terms.as_slice(), rows.constant, rows.bound),
            (&[(Quantity::OutputPixel(1), 2), (Quantity::Tap(1), 1)][..], -1, Some(9))
        );
    }

    #[test]
    fn a_rotated_filter_turns_taps_round() {
        let rotated = |direction| problem(direction, ConvolutionMode::Convolution, 1);
        let taps = &rotated(ConvolutionDirection::Forward).operands[1][2];
        assert_eq!((taps.terms.as_slice(), taps.constant), (&[(Quantity::Tap(1), -1)][..], 2));
        let rows = &rotated(ConvolutionDirection::BackwardFilter).operands[1][2];
        assert_eq!(
            (rows.terms.as_slice(), rows.constant),
            (&[(Quantity::OutputPixel(1), 2), (Quantity::Tap(1), -1)][..], 1)
        );
    }

    #[test]
    fn input_gradients_divide_by_the_stride() {
        let backward = problem(ConvolutionDirection::BackwardData, ConvolutionMode::CrossCorrelation, 1);
        let rows = &backward.operands[0][2];
        assert_eq!(
            (rows.terms.as_slice(), rows.constant),
            (&[(Quantity::InputPixel(1), 1), (Quantity::Tap(1), -1)][..], 1)
        );
        assert_eq!((rows.divisor, rows.bound), (2, Some(5)));
    }
}
