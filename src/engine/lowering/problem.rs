//! A core as a matrix product: which digits its indices have, and where each operand's elements lie.

use crate::fusion::{Product, ProductKind};
use crate::graph::{
    Attributes, Convolution, ConvolutionDirection, ConvolutionMode, FinalTensor, FinalizedGraph, TensorId,
};
use crate::kernel::{Coordinate, Counted, Derived, Digit, GemmSpace, Index, Number, Quantity, Role, TapRow, Told};

/// Most spatial axes of a convolution that kernels are written for.
pub(in crate::engine) const MAX_SPATIAL: usize = 3;

/// Most columns of phases beside each other: with more, the weights that phases do not have cost what Y, read once, saves (expected by
/// the model of `wgmma`, stride 2, 3×3 of 112×112 pixels: 8 channels 28.9 → 13.5 µs, 48 44.0 → 30.9, 64 35.9 → 33.1).
const MOST_COLUMNS_OF_PHASES: i64 = 192;

/// Fewest rows with which they lie so: 32 tiles of 128. Of fewer, matrices of their own busy more multiprocessors (expected: 1,568 rows
/// 2.81 → 3.31 µs).
const FEWEST_ROWS_OF_PHASES: i64 = 4096;

/// Steps of channels under a tap from which on what L2 holds of the pixels under one tap is gone under the next, so that the image comes from
/// memory for each: 132 tiles of 128 rows of 12 lines are 25 MB, half of an H100's L2, of which each half serves its own multiprocessors (there,
/// FLOAT, 3×3: 24×640×64×64 to 112 channels 601 µs, the closed library 382; data gradient of 24×36×48×48 from 384 channels 231 and 140; blocks
/// of channels outermost are not timed).
const MANY_BLOCKS: i64 = 12;

/// The index space of a core with the coordinates of A, B and C by graph axis.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::engine) struct Problem {
    pub(in crate::engine) space: GemmSpace,
    pub(in crate::engine) operands: [Vec<Coordinate>; 2],
    /// Affine. Inside by construction but for those with a bound: blocks of pixels reach beyond an image that they do not divide, where
    /// nothing is stored, reduced or read.
    pub(in crate::engine) result: Vec<Coordinate>,
    /// Whether it is the transposed product: its A is the core's second operand.
    pub(in crate::engine) transposed: bool,
    /// How steps of the mainloop take the channels under a tap.
    pub(in crate::engine) channels: ChannelSteps,
    /// Taps that a step multiplies together, which k does not count. Pixels of C's rows are then followed by positions beyond the image.
    pub(in crate::engine) tap_row: Option<TapRow>,
}

/// How steps of the mainloop of a convolution take the channels that k ends with, where these do not fill whole steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::engine) enum ChannelSteps {
    /// A step has those under one tap, and zeros where there are no more.
    #[default]
    Padded,
    /// A step has two blocks of so many, each under a tap of its own.
    Blocks(i64),
    /// A step has so many, fewer than others, under a tap; of those that a step multiplies together, under each.
    Short(i64),
    /// The last step under a tap multiplies no more than needed: a multiple of so many. Boxes must bring both operands as they are.
    Narrow(i64),
}

impl Problem {
    /// A core as it stands.
    pub(in crate::engine) fn of(graph: &FinalizedGraph, product: &Product) -> Self {
        let [a, b] = product.tensors().map(|id| graph.tensor(id));
        let c = graph.tensor(product.result);
        let problem = match &graph.operation(product.operation).attributes {
            Attributes::Convolution(convolution) => {
                ConvolutionProblem::new(graph, convolution, [a, b, c], product.groups).problem()
            }
            _ => matmul(a, c, graph.is_dynamic()),
        };
        problem.without_unit_digits()
    }

    /// The transposed product of a matmul, whose rows are C's columns; `None` for a convolution.
    pub(in crate::engine) fn transposed(graph: &FinalizedGraph, product: &Product) -> Option<Self> {
        let (a, c) = (graph.tensor(product.tensors()[0]), graph.tensor(product.result));
        let is_dynamic = graph.is_dynamic();
        (product.kind == ProductKind::Matmul).then(|| transposed_matmul(a, c, is_dynamic).without_unit_digits())
    }

    /// Whether it is a data gradient cut into products for the pixels that lie a stride apart.
    pub(in crate::engine) fn is_in_phases(&self) -> bool {
        let is_phase = |term: &(Quantity, i64)| matches!(term.0, Quantity::Phase(_));
        !self.space.derived.is_empty() || self.result.iter().flat_map(|coordinate| &coordinate.terms).any(is_phase)
    }

    /// A data gradient in phases of few channels with the phases beside each other: columns are pairs of phase and channel, so that a
    /// pixel of Y is read once for all phases that it reaches, by the union of their taps. Weights of a tap that a phase does not have
    /// lie outside of the filter, and are zeros. `None` for other cores, and where a phase alone has columns enough.
    pub(in crate::engine) fn phases_in_columns(graph: &FinalizedGraph, product: &Product) -> Option<Self> {
        let Attributes::Convolution(convolution) = &graph.operation(product.operation).attributes else { return None };
        let [a, b] = product.tensors().map(|id| graph.tensor(id));
        let tensors = [a, b, graph.tensor(product.result)];
        let parts = ConvolutionProblem::new(graph, convolution, tensors, product.groups);
        let problem = parts.is_in_phases().then(|| parts.columns_of_phases()).flatten()?;
        let [_, rows, columns, _] = problem.space.extents();
        let pays = columns <= MOST_COLUMNS_OF_PHASES && rows >= FEWEST_ROWS_OF_PHASES;
        pays.then(|| problem.without_unit_digits())
    }

    /// Whether some of its points lie beyond C.
    pub(in crate::engine) fn reaches_beyond(&self) -> bool {
        self.result.iter().any(|coordinate| coordinate.bound.is_some())
    }

    /// The points of C's axis along which a digit alone steps, where it steps beyond them.
    pub(super) fn bound_of(&self, quantity: Quantity) -> Option<i64> {
        self.result.iter().find(|coordinate| coordinate.terms == [(quantity, 1)])?.bound.map(Number::value)
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

    /// The same with blocks of so many channels outermost along k, so that a block is read under all taps before the next; `None` where there are
    /// few blocks, one tap, channels that do not fill the last block, or matrices with different numbers of steps.
    pub(in crate::engine) fn in_blocks_of_channels(mut self, step_k: i64) -> Option<Self> {
        let is_tap = |digit: &Digit| matches!(digit.quantity, Quantity::Tap(_) | Quantity::RotatedTap(_));
        let is_plain = self.space.derived.is_empty() && self.space.counted.is_empty();
        let (last, taps) = self.space.k.split_last().filter(|_| is_plain)?;
        let (channel, blocks) = (last.quantity, last.extent.value() / step_k);
        let is_channel = matches!(channel, Quantity::InputChannel | Quantity::OutputChannel);
        if !is_channel
            || taps.is_empty()
            || !taps.iter().all(is_tap)
            || last.extent % step_k != 0
            || blocks < MANY_BLOCKS
        {
            return None;
        }
        let block = Digit::new(Quantity::ChannelBlock, blocks);
        self.space.k = [&[block], taps, &[Digit::new(channel, step_k)]].concat();
        for coordinate in self.operands.iter_mut().flatten() {
            if let Some(at) = coordinate.terms.iter().position(|term| term.0 == channel) {
                let scale = coordinate.terms[at].1;
                coordinate.terms.insert(at, (Quantity::ChannelBlock, scale * step_k));
                coordinate.quantity = Quantity::Channel;
            }
        }
        Some(self)
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

    /// The same of operands that are matrices, `[b, m, k]` and `[b, k, n]`: k is one digit.
    pub(in crate::engine) fn of_matrices(self) -> Self {
        let [.., k] = self.space.extents();
        let operand = |roles: [Role; 3]| roles.map(|role| Coordinate::digit(Quantity::Index(role))).to_vec();
        let operands = [[Role::Batch, Role::Row, Role::Sum], [Role::Batch, Role::Sum, Role::Column]].map(operand);
        self.of_operands(operands, vec![Digit::new(Quantity::Index(Role::Sum), k)])
    }

    /// The same with other coordinates of the operands and other digits of k.
    pub(in crate::engine) fn of_operands(self, operands: [Vec<Coordinate>; 2], k: Vec<Digit>) -> Self {
        Self { space: GemmSpace { k, ..self.space }, operands, ..self }
    }

    /// The same where a step has two blocks of channels, each under a tap of its own; `None` where whole steps do as well, channels do not
    /// fill such blocks, of one group, or matrices have different numbers of steps (3×3 of 28×28 pixels on an H200: 1.2 to 1.45 times as fast as
    /// padded steps with 32 and 96 channels; four blocks of 16 channels 0.7 to 1.2).
    pub(in crate::engine) fn in_blocks_within(self, step_k: i64) -> Option<Self> {
        const LITTLE: f64 = 1.1;
        let is_channel = |digit: &&Digit| matches!(digit.quantity, Quantity::InputChannel | Quantity::OutputChannel);
        let is_alone = self.space.k.len() < 2 || !self.space.counted.is_empty();
        let last = self.space.k.last().filter(is_channel).filter(|_| !is_alone)?;
        let padded = |block: i64| last.in_blocks_of(block).radix.value() as f64;
        let block = step_k / 2;
        let fills_blocks = last.extent % block == 0 || last.extent == block / 2;
        let is_better = padded(step_k) > padded(block) * LITTLE && fills_blocks;
        let in_blocks = is_better.then(|| Self { channels: ChannelSteps::Blocks(block), ..self.in_steps_of(block) })?;
        (0..2).all(|slot| !in_blocks.reaches_into_groups(slot, block)).then_some(in_blocks)
    }

    /// The same with steps that multiply no more channels than needed, a multiple of `unit`; `None` where channels fill whole steps.
    pub(in crate::engine) fn in_narrow_steps_of(self, step_k: i64, unit: i64) -> Option<Self> {
        let problem = Self { channels: ChannelSteps::Narrow(unit), ..self.in_steps_of(step_k) };
        problem.narrow_channels(step_k).is_some().then_some(problem)
    }

    /// Channels that the last step under a tap multiplies, where these are fewer than a step's.
    pub(in crate::engine) fn narrow_channels(&self, step_k: i64) -> Option<i64> {
        let ChannelSteps::Narrow(unit) = self.channels else { return None };
        let last = self.space.k.last().filter(|last| last.is_padded())?;
        let rest = last.extent % step_k;
        Some((rest + unit - 1) / unit * unit).filter(|&channels| channels < step_k)
    }

    /// Whether steps of so many elements take channels behind those of a group, where groups follow each other along a coordinate of channels.
    pub(super) fn steps_beyond_groups(&self, coordinate: &Coordinate, step_k: i64) -> bool {
        let unit = match self.channels {
            ChannelSteps::Narrow(unit) | ChannelSteps::Blocks(unit) | ChannelSteps::Short(unit) => unit,
            ChannelSteps::Padded => step_k,
        };
        let ends_early = |digit: &Digit| digit.extent % unit != 0;
        let [group, channel] = coordinate.terms[..] else { return false };
        group.0 == Quantity::Group && self.space.k.last().is_some_and(|k| k.quantity == channel.0 && ends_early(k))
    }

    /// Whether steps take channels of an image behind those of a group: of the next one, which the filter has zeros for.
    pub(super) fn reaches_into_groups(&self, slot: usize, step_k: i64) -> bool {
        let coordinates = &self.operands[slot];
        let is_image = coordinates.first().is_some_and(|coordinate| coordinate.quantity == Quantity::Image);
        is_image && coordinates.iter().any(|coordinate| self.steps_beyond_groups(coordinate, step_k))
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

    /// The same as a number, which launches tell where shapes are dynamic: where digits lie one behind the other, it follows from their extents.
    pub(in crate::engine) fn number_of_stride(&self, graph: &FinalizedGraph, id: TensorId, digit: Quantity) -> Number {
        let value = self.stride_of(digit, step_of(graph, id));
        let axis = self.result.iter().position(|coordinate| coordinate.terms == [(digit, 1)]);
        let Some(axis) = axis.filter(|_| self.space.extent_of(digit).is_told()) else { return value.into() };
        let dim = &graph.tensor(id).dim;
        let inside = self.result.iter().enumerate().find_map(|(inner, coordinate)| {
            let [(quantity, 1)] = coordinate.terms[..] else { return None };
            let (extent, stride) = (self.space.extent_of(quantity), self.stride_of(quantity, step_of(graph, id)));
            let is_inside = stride > 0 && extent > 1 && extent == dim[inner] && stride * extent.value() == value;
            is_inside.then_some((quantity, extent))
        });
        match inside {
            Some((quantity, extent)) => self.number_of_stride(graph, id, quantity) * extent,
            None => Number::told(value, Told::Stride(id.index(), axis)),
        }
    }

    /// A bound on the magnitude of every coordinate of an operand on the way, also where a tile reaches beyond the last index.
    pub(in crate::engine) fn reach(&self) -> i64 {
        const BEYOND: i64 = 512;
        let space = &self.space;
        let digits = || [&space.b, &space.m, &space.n, &space.k].into_iter().flatten();
        let extent =
            |quantity| digits().find(|digit| digit.quantity == quantity).map_or(1, |digit| digit.radix.value());
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

fn matmul(a: &FinalTensor, c: &FinalTensor, is_dynamic: bool) -> Problem {
    let rank = c.dim.len();
    let digit = |role, extent| {
        let extent = if is_dynamic { Number::told(extent, Told::Index(role as usize)) } else { extent.into() };
        vec![Digit::new(Quantity::Index(role), extent)]
    };
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
        channels: ChannelSteps::Padded,
        tap_row: None,
    }
}

fn transposed_matmul(a: &FinalTensor, c: &FinalTensor, is_dynamic: bool) -> Problem {
    let Problem { space, .. } = matmul(a, c, is_dynamic);
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
        channels: ChannelSteps::Padded,
        tap_row: None,
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
    /// Whether launches tell how many images and pixels there are.
    is_dynamic: bool,
}

impl<'a> ConvolutionProblem<'a> {
    fn new(graph: &FinalizedGraph, convolution: &'a Convolution, tensors: [&'a FinalTensor; 3], groups: i64) -> Self {
        let explicit = tensors[0].dim.len() > convolution.stride.len() + 2;
        Self { convolution, tensors, groups, explicit, is_dynamic: graph.is_dynamic() }
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

    fn images(&self, image: &FinalTensor) -> Digit {
        Digit::new(Quantity::Image, self.extent(image, 0))
    }

    /// Pixels of a tensor.
    fn pixels(&self, quantity: fn(u8) -> Quantity, tensor: &FinalTensor) -> Vec<Digit> {
        let axes = self.along_axes(quantity).into_iter().enumerate();
        axes.map(|(axis, counted)| Digit::new(counted, self.extent(tensor, self.first() + axis))).collect()
    }

    /// The extent of an axis of C, or of what is summed for it.
    fn extent(&self, tensor: &FinalTensor, axis: usize) -> Number {
        let told = match self.convolution.direction {
            ConvolutionDirection::BackwardFilter => Told::Summed(axis),
            ConvolutionDirection::Forward | ConvolutionDirection::BackwardData => Told::Extent(axis),
        };
        if self.is_dynamic { Number::told(tensor.dim[axis], told) } else { tensor.dim[axis].into() }
    }

    /// The extent of a spatial axis of an operand.
    fn bound(&self, operand: &FinalTensor, axis: usize) -> Number {
        let extent = operand.dim[self.first() + axis];
        if self.is_dynamic { Number::told(extent, Told::Bound(axis)) } else { extent.into() }
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
        let pixels = |quantity, tensor: &FinalTensor| -> Vec<Digit> {
            [vec![self.images(image)], self.pixels(quantity, tensor)].concat()
        };
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
        let (operands, result) = self.coordinates(ko.extent.value(), ci.extent.value());
        Problem {
            space: GemmSpace { b, m, n, k, derived: Vec::new(), counted: Vec::new() },
            operands,
            result,
            transposed: false,
            channels: ChannelSteps::Padded,
            tap_row: None,
        }
    }

    /// Whether it is a data gradient that is cut into products of its own for the pixels that lie a stride apart: each of them has
    /// only taps that reach it.
    fn is_in_phases(&self) -> bool {
        let [image, ..] = self.image_filter_output();
        let is_cut = |axis: usize| {
            let [stride, dilation, _] = self.parameters(axis);
            stride == 1 || dilation == 1 || (dilation % stride == 0 && image.dim[self.first() + axis] >= stride)
        };
        let is_strided = self.convolution.stride.iter().any(|&stride| stride > 1);
        is_strided
            && self.convolution.direction == ConvolutionDirection::BackwardData
            && (0..self.spatial()).all(is_cut)
    }

    /// A data gradient in phases: `h = block · stride + phase` is reached by the taps `first + stride · tap` of the filter, from the
    /// pixels `p = block + shift − tap` of Y, where `phase + pre = shift · stride + first`. Of the last block there may be fewer pixels
    /// than phases. Where taps lie a multiple of the stride apart, all of them reach one phase, from `block + shift − tap · dilation / stride`,
    /// and none the others: their first tap is the first beyond the filter.
    fn phases(&self, mut b: Vec<Digit>, [ko, ci]: [Digit; 2]) -> Problem {
        let [image, filter, output] = self.image_filter_output();
        let axes: Vec<PhasedAxis> = (0..self.spatial()).map(|axis| self.phased(axis)).collect();
        let images = self.images(image);
        let taps: Vec<Digit> = axes.iter().map(|axis| axis.tap).collect();
        b.extend(axes.iter().filter_map(|axis| axis.phase));
        let source = self.image(
            Quantity::OutputChannel,
            ko.extent.value(),
            axes.iter().map(|axis| axis.source.clone()).collect(),
        );
        let pixels =
            self.image(Quantity::InputChannel, ci.extent.value(), axes.iter().map(|axis| axis.pixel.clone()).collect());
        let mut weights = self.filter(ko.extent.value(), false);
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
        Problem {
            space,
            operands: [source, weights],
            result: pixels,
            transposed: false,
            channels: ChannelSteps::Padded,
            tap_row: None,
        }
    }

    /// The same with phases and channels as columns: `h = block · stride + phase` is reached from the pixels `p = block + last − tap` of
    /// Y by the taps `phase + pre − stride · last + stride · tap`, as far as the filter has them. `None` where no tap reaches.
    fn columns_of_phases(&self) -> Option<Problem> {
        let mut problem = self.problem();
        let filter = self.image_filter_output()[1];
        let is_phase = |digit: &Digit| matches!(digit.quantity, Quantity::Phase(_));
        let (phases, b): (Vec<Digit>, Vec<Digit>) = problem.space.b.into_iter().partition(is_phase);
        let n = [phases, problem.space.n].concat();
        problem.space = GemmSpace { b, n, derived: Vec::new(), counted: Vec::new(), ..problem.space };
        for axis in (0..self.spatial()).filter(|&axis| self.convolution.stride[axis] > 1) {
            let united = self.united(axis)?;
            let digits = problem.space.k.iter_mut().filter(|digit| digit.quantity == united.tap.quantity);
            digits.for_each(|digit| *digit = united.tap);
            let [source, weights] = &mut problem.operands;
            let (pixels, taps) = (source.len() - self.spatial(), filter.dim.len() - self.spatial());
            (source[pixels + axis], weights[taps + axis]) = (united.source, united.weight);
        }
        Some(problem)
    }

    /// The taps of all phases along an axis that is strided.
    fn united(&self, axis: usize) -> Option<UnitedTaps> {
        let [image, filter, output] = self.image_filter_output();
        let at = self.first() + axis;
        let [stride, dilation, pre] = self.parameters(axis);
        if dilation > 1 {
            return None;
        }
        let along = |quantity| self.along(quantity, axis);
        let last_phase = stride.min(image.dim[at]) - 1;
        let last = (pre + last_phase).div_euclid(stride);
        let taps = last + (filter.dim[at] - 1 - pre).div_euclid(stride) + 1;
        let lowest = pre - stride * last;
        let is_inside = lowest >= 0 && lowest + last_phase + stride * (taps - 1) < filter.dim[at];
        let source = vec![(along(Quantity::PixelBlock), 1), (along(Quantity::Tap), -1)];
        let weight = vec![(along(Quantity::Phase), 1), (along(Quantity::Tap), stride)];
        (taps > 0).then(|| UnitedTaps {
            tap: Digit::new(along(Quantity::Tap), taps),
            source: Coordinate {
                constant: last,
                bound: Some(self.bound(output, axis)),
                ..Coordinate::affine(along(Quantity::OutputPixel), source)
            },
            weight: self.weight(axis, weight, lowest, is_inside),
        })
    }

    /// Tap of the filter that a phase's are, in a filter that may be rotated.
    fn weight(&self, axis: usize, terms: Vec<(Quantity, i64)>, lowest: i64, is_inside: bool) -> Coordinate {
        let extent = self.image_filter_output()[1].dim[self.first() + axis];
        let (sign, constant) = if self.is_rotated() { (-1, extent - 1 - lowest) } else { (1, lowest) };
        let terms: Vec<_> = terms.into_iter().map(|(digit, scale)| (digit, sign * scale)).collect();
        let bound = (!is_inside).then_some(extent.into());
        Coordinate { constant, bound, ..Coordinate::affine(self.along(Quantity::RotatedTap, axis), terms) }
    }

    fn phased(&self, axis: usize) -> PhasedAxis {
        let [image, filter, output] = self.image_filter_output();
        let at = self.first() + axis;
        let [stride, dilation, pre] = self.parameters(axis);
        let along = |quantity| self.along(quantity, axis);
        let (whole, rest) = (pre.div_euclid(stride), pre.rem_euclid(stride));
        let extent = image.dim[at];
        let (phases, blocks) = (stride.min(extent), (extent + stride - 1) / stride);
        let phase = || match phases {
            1 => Index::from(rest),
            _ => Index::variable(along(Quantity::Phase)) + Index::from(rest),
        };
        let all = filter.dim[at];
        // of a multiple of the stride
        let are_apart = stride > 1 && dilation > 1;
        let (block, tap) = match stride {
            1 => (Quantity::InputPixel as fn(u8) -> Quantity, dilation),
            _ => (Quantity::PixelBlock as fn(u8) -> Quantity, if are_apart { dilation / stride } else { 1 }),
        };
        // the only phase of a single row has its taps, if any
        let unused = if phases == 1 { rest } else { 0 };
        let taps = if are_apart { all } else { ((all - unused + stride - 1) / stride).max(1) };
        let mut derived = Vec::new();
        let mut derive = |quantity, value, extent| {
            derived.push(Derived { role: Role::Batch, quantity: along(quantity), value, extent })
        };
        let mut source = vec![(along(block), 1), (along(Quantity::Tap), -tap)];
        let mut weight = vec![(along(Quantity::Tap), if are_apart { 1 } else { stride })];
        let mut pixel = vec![(along(block), stride)];
        if stride > 1 {
            let shifts = (stride - 1 + rest) / stride + 1;
            match are_apart {
                true => {
                    derive(Quantity::FirstTap, (phase() % stride + Index::from(stride - 1)) / stride * all, all + 1)
                }
                false => derive(Quantity::FirstTap, phase() % stride, stride),
            }
            derive(Quantity::PhaseShift, phase() / stride, shifts);
            source.extend((shifts > 1).then_some((along(Quantity::PhaseShift), 1)));
            weight.insert(0, (along(Quantity::FirstTap), 1));
            pixel.push((along(Quantity::Phase), 1));
        }
        let counted = (phases > 1 && (are_apart || all % stride != 0)).then(|| {
            let first = || Index::variable(along(Quantity::FirstTap));
            let (value, used, least) = match are_apart {
                // a phase without taps multiplies zeros, under the first beyond the filter
                true => {
                    let used = (all + stride - 1) as f64 / (stride * all) as f64;
                    (Index::from(all) + first() * -1 + first() / all, used, 0)
                }
                false => {
                    let used = all as f64 / (stride * taps) as f64;
                    ((Index::from(all + stride - 1) + first() * -1) / stride, used, all / stride)
                }
            };
            derive(Quantity::TapCount, value, taps + 1);
            Counted { digit: along(Quantity::Tap), count: along(Quantity::TapCount), used, least }
        });
        PhasedAxis {
            phase: (stride > 1).then(|| Digit::new(along(Quantity::Phase), phases)),
            block: Digit::new(along(block), blocks),
            tap: Digit::new(along(Quantity::Tap), taps),
            source: Coordinate {
                constant: if stride == 1 { pre } else { whole },
                bound: Some(self.bound(output, axis)),
                ..Coordinate::affine(along(Quantity::OutputPixel), source)
            },
            weight: self.weight(axis, weight, 0, !are_apart && taps * stride <= all),
            pixel: Coordinate {
                bound: ((blocks - 1) * stride + phases > extent).then_some(extent.into()),
                ..Coordinate::affine(along(Quantity::InputPixel), pixel)
            },
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
        let bound = (pre > 0 || furthest >= image.dim[at]).then(|| self.bound(image, axis));
        Coordinate { constant, bound, ..Coordinate::affine(self.along(Quantity::InputPixel, axis), terms) }
    }

    /// Output pixel that an input pixel reaches through a tap: `(input + pre − tap · dilation) / stride`.
    fn source(&self, axis: usize) -> Coordinate {
        let [_, _, output] = self.image_filter_output();
        let [stride, dilation, pre] = self.parameters(axis);
        let terms = [(self.along(Quantity::InputPixel, axis), 1), (self.along(Quantity::Tap, axis), -dilation)];
        let bound = Some(self.bound(output, axis));
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

/// Taps that reach any phase along an axis.
struct UnitedTaps {
    tap: Digit,
    /// Pixel of Y, tap of the filter.
    source: Coordinate,
    weight: Coordinate,
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
        dilated(direction, mode, groups, 1)
    }

    /// The same where taps lie so many rows apart.
    fn dilated(direction: ConvolutionDirection, mode: ConvolutionMode, groups: i64, rows: i64) -> Problem {
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
            pre_padding: vec![rows, 1],
            post_padding: vec![rows, 0],
            stride: vec![2, 1],
            dilation: vec![rows, 1],
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
        assert_eq!(extents(D::BackwardData), [2, 2 * 5 * 7, 8, 2 * 2 * 4]);
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
            (&[(Quantity::OutputPixel(1), 2), (Quantity::Tap(1), 1)][..], -1, Some(9.into()))
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

    /// A data gradient of a 3×3 filter of one axis or more, of stride 2, for images and padding of these extents.
    fn strided_gradient(images: i64, channels: i64, image: &[i64], output: &[i64]) -> (Arc<FinalizedGraph>, Product) {
        let axes = image.len();
        let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
        let dims = [[&[images, 16], output].concat(), [&[16, channels][..], &vec![3; axes]].concat()];
        let inputs = dims.map(|dim| graph.tensor(Tensor::new("t").channels_last(dim)));
        let convolution = Convolution {
            pre_padding: vec![1; axes],
            post_padding: vec![1; axes],
            stride: vec![2; axes],
            ..Convolution::new(ConvolutionDirection::BackwardData, axes)
        };
        let id = graph.convolution("conv", convolution, inputs);
        *graph.tensor_mut(id) = Tensor::new("result").channels_last([&[images, channels], image].concat());
        graph.set_output(id);
        let graph = Arc::new(graph.finalize().expect("well formed"));
        let fusion = crate::fusion::fuse(Arc::clone(&graph)).expect("a convolution");
        let product = fusion.product().expect("a core").clone();
        (graph, product)
    }

    #[test]
    fn blocks_of_pixels_reach_beyond_images_that_strides_do_not_divide() {
        let of = |image: &[i64], output: &[i64]| {
            let (graph, product) = strided_gradient(2, 8, image, output);
            Problem::of(&graph, &product)
        };
        let odd = of(&[7, 8], &[4, 4]);
        assert_eq!(odd.space.extents(), [4, 2 * 4 * 4, 8, 2 * 2 * 16]);
        assert_eq!((odd.result[2].bound, odd.result[3].bound), (Some(7.into()), None));
        assert_eq!(odd.result[2].terms, [(Quantity::PixelBlock(1), 2), (Quantity::Phase(1), 1)]);
        assert!(odd.reaches_beyond() && !of(&[8, 8], &[4, 4]).reaches_beyond());
        // a single row has one phase, in one block
        let row = of(&[1, 7], &[1, 4]);
        assert_eq!((row.space.extents(), row.result[2].bound), ([2, 2 * 4, 8, 2 * 16], None));
    }

    #[test]
    fn phases_of_few_channels_are_columns_under_the_union_of_their_taps() {
        let (graph, product) = strided_gradient(2, 8, &[127, 128], &[64, 64]);
        let problem = Problem::phases_in_columns(&graph, &product).expect("few channels, many pixels");
        assert_eq!(problem.space.extents(), [1, 2 * 64 * 64, 2 * 2 * 8, 2 * 2 * 16]);
        assert!(problem.is_in_phases() && problem.space.derived.is_empty() && problem.space.counted.is_empty());
        let (source, weight) = (&problem.operands[0][2], &problem.operands[1][2]);
        assert_eq!(source.terms, [(Quantity::PixelBlock(1), 1), (Quantity::Tap(1), -1)]);
        assert_eq!((source.constant, source.bound), (1, Some(64.into())));
        assert_eq!(weight.terms, [(Quantity::Phase(1), 1), (Quantity::Tap(1), 2)]);
        assert_eq!((weight.constant, weight.bound), (-1, Some(3.into())));
        assert_eq!((problem.result[2].bound, problem.result[3].bound), (Some(127.into()), None));
        for (images, channels) in [(1, 8), (2, 56)] {
            let (graph, product) = strided_gradient(images, channels, &[127, 90], &[64, 45]);
            assert!(Problem::phases_in_columns(&graph, &product).is_none(), "{images} images, {channels} channels");
        }
    }

    #[test]
    fn input_gradients_divide_by_the_stride() {
        let backward = dilated(ConvolutionDirection::BackwardData, ConvolutionMode::CrossCorrelation, 1, 3);
        let rows = &backward.operands[0][2];
        assert_eq!(
            (rows.terms.as_slice(), rows.constant),
            (&[(Quantity::InputPixel(1), 1), (Quantity::Tap(1), -3)][..], 3)
        );
        assert_eq!((rows.divisor, rows.bound), (2, Some(5.into())));
    }

    #[test]
    fn taps_a_multiple_of_the_stride_apart_all_reach_one_phase() {
        let backward = dilated(ConvolutionDirection::BackwardData, ConvolutionMode::CrossCorrelation, 1, 2);
        assert_eq!(backward.space.extents(), [2, 2 * 5 * 7, 8, 3 * 2 * 4]);
        let (source, weight) = (&backward.operands[0][2], &backward.operands[1][2]);
        assert_eq!(
            (source.terms.as_slice(), source.constant),
            (&[(Quantity::PixelBlock(1), 1), (Quantity::Tap(1), -1)][..], 1)
        );
        assert_eq!(weight.terms, [(Quantity::FirstTap(1), 1), (Quantity::Tap(1), 1)]);
        assert_eq!((weight.constant, weight.bound, source.bound), (0, Some(3.into()), Some(5.into())));
        let [counted] = &backward.space.counted[..] else { panic!("rows are counted") };
        assert_eq!((counted.digit, counted.least), (Quantity::Tap(1), 0));
        // three steps of the phase with taps, one of the other
        assert!((counted.used - 4.0 / 6.0).abs() < 1e-12, "{}", counted.used);
    }
}
