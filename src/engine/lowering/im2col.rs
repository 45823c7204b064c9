//! The operands of a convolution in boxes: matrices where pixels lie one after the other, arrays of filters, and walks over the pixels
//! of images (im2col), of which each tap of the filter takes the same one, moved.

use super::boxed_operand::{BoxedOperand, TapBoxes, UNIT, byte_stride};
use super::problem::Problem;
use crate::graph::{FinalTensor, TensorId};
use crate::kernel::{BoxStart, Coordinate, Digit, MapElement, PixelWalk, Quantity, Role, Swizzle, TensorMap};

/// Largest step between the pixels of a walk (`cuTensorMapEncodeIm2col`).
pub(super) const LARGEST_STEP: i64 = 8;

/// Most dims of a map.
const MAX_RANK: usize = 5;

/// Where walks may start and end along an axis, and how far taps may move them, by their spatial axes (seen on an H200).
const CORNERS: [(i64, i64); 3] = [(-32768, 32767), (-128, 127), (-16, 15)];
const FURTHEST_TAP: [i64; 3] = [65535, 255, 31];

/// Whether lines of an operand's boxes run along k; `None` where no axis is contiguous.
pub(super) fn runs_along_k(problem: &Problem, slot: usize, tensor: &FinalTensor) -> Option<bool> {
    let axis = (0..tensor.dim.len()).find(|&axis| tensor.dim[axis] > 1 && tensor.stride[axis] == 1)?;
    let (digit, _) = problem.operands[slot][axis].terms.last()?;
    Some(problem.space.k.iter().any(|of_k| of_k.quantity == *digit))
}

/// An operand of a convolution in boxes along k, of which one has `block_k` elements, or along m or n.
///
/// # Errors
/// What of its layout, or of the convolution's parameters, the tensor memory accelerator does not take.
pub(super) fn boxes(
    problem: &Problem,
    slot: usize,
    tensor: &FinalTensor,
    id: TensorId,
    element: MapElement,
    along_k: bool,
    block_k: i64,
) -> Result<BoxedOperand, String> {
    let planner = Planner { problem, slot, tensor, along_k, block_k, bytes: element.bytes().into() };
    let Layout { rank, dims, strides, start, pixels, taps } = planner.layout()?;
    let box_dims = [0; MAX_RANK];
    let map = TensorMap {
        tensor: id,
        element,
        rank,
        dims,
        strides,
        box_dims,
        swizzle: Swizzle::None,
        pixels,
        lead: 0,
        next_line_later: true,
    };
    let whole = planner.channels_of_a_tap();
    Ok(BoxedOperand { map, start, is_a: slot == 0, along_k, block_k: block_k as u32, whole, taps })
}

/// A map without its boxes.
struct Layout {
    rank: usize,
    dims: [u64; MAX_RANK],
    strides: [u64; MAX_RANK - 1],
    start: BoxStart,
    pixels: Option<PixelWalk>,
    taps: TapBoxes,
}

/// One dim of a map: extent, byte stride (of the first: none), where a box begins.
struct Dim {
    extent: i64,
    byte_stride: u64,
    start: Coordinate,
}

impl Layout {
    fn of(dims: Vec<Dim>) -> Result<Self, String> {
        let rank = dims.len();
        if rank > MAX_RANK {
            return Err(format!("it has {rank} axes; required: {MAX_RANK} at most"));
        }
        let (start, taps) = (BoxStart::default(), TapBoxes::default());
        let mut layout = Self { rank, dims: [0; MAX_RANK], strides: [0; MAX_RANK - 1], start, pixels: None, taps };
        for (at, dim) in dims.into_iter().enumerate() {
            layout.dims[at] = dim.extent as u64;
            if at > 0 {
                layout.strides[at - 1] = dim.byte_stride;
            }
            layout.start.coordinates.push(dim.start);
        }
        Ok(layout)
    }
}

struct Planner<'a> {
    problem: &'a Problem,
    slot: usize,
    tensor: &'a FinalTensor,
    along_k: bool,
    block_k: i64,
    bytes: i64,
}

impl Planner<'_> {
    fn coordinates(&self) -> &[Coordinate] {
        &self.problem.operands[self.slot]
    }

    fn outer(&self) -> Role {
        Role::outer(self.slot)
    }

    fn layout(&self) -> Result<Layout, String> {
        // taps that a step multiplies together are no index of the product
        if self.problem.tap_row.is_none()
            && let Some(matrix) = self.matrix()
        {
            return matrix;
        }
        match self.coordinates()[0].quantity {
            Quantity::Image => self.walk(),
            _ => self.array(),
        }
    }

    /// Both indices as one dim each, where nothing but memory lies between their neighbours.
    fn matrix(&self) -> Option<Result<Layout, String>> {
        let covered: usize = [self.outer(), Role::Sum].map(|role| self.problem.space.digits(role).len()).iter().sum();
        let has_terms = self.coordinates().iter().filter(|coordinate| !coordinate.terms.is_empty()).count();
        if covered != has_terms {
            return None;
        }
        let [inner, lines] = if self.along_k { [Role::Sum, self.outer()] } else { [self.outer(), Role::Sum] };
        let ((inner_extent, inner_stride), (extent, stride)) = (self.collapsed(inner)?, self.collapsed(lines)?);
        let dim =
            |role, extent, byte_stride| Dim { extent, byte_stride, start: Coordinate::digit(Quantity::Index(role)) };
        let is_contiguous = inner_stride == 1 || inner_extent == 1;
        is_contiguous.then(|| {
            let byte_stride = byte_stride(extent, stride, self.bytes)?;
            Layout::of(vec![dim(inner, inner_extent, 0), dim(lines, extent, byte_stride)])
        })
    }

    /// Extent and stride of an index whose digits follow each other in memory.
    fn collapsed(&self, role: Role) -> Option<(i64, i64)> {
        let mut whole: Option<(i64, i64)> = None;
        for digit in self.problem.space.digits(role).iter().rev() {
            let axis = (0..self.tensor.dim.len()).find(|&axis| is_plain(&self.coordinates()[axis], digit))?;
            let (below, stride) = whole.unwrap_or((1, self.tensor.stride[axis]));
            if digit.is_padded() || self.tensor.stride[axis] != below * stride {
                return None;
            }
            whole = Some((below * digit.extent.value(), stride));
        }
        Some(whole.unwrap_or((1, 1)))
    }

    /// A filter: channels of the index that lines run along, channels of the other, taps, groups.
    fn array(&self) -> Result<Layout, String> {
        let is_channel = |axis: &usize| {
            let terms = &self.coordinates()[*axis].terms;
            terms.last().is_some_and(|term| matches!(term.0, Quantity::InputChannel | Quantity::OutputChannel))
        };
        let inner = self.inner()?;
        let is_phase = |digit: &Digit| matches!(digit.quantity, Quantity::Phase(_));
        if self.along_k && self.problem.space.digits(self.outer()).iter().any(is_phase) {
            return Err("columns of several phases step along k".to_owned());
        }
        let lines = (0..self.tensor.dim.len()).find(|axis| *axis != inner && is_channel(axis));
        let joined = self.joined(inner);
        let mut dims = vec![match joined {
            Some(axis) => self.joined_dim(inner, axis),
            None => self.channels_dim(self.innermost_dim(inner)),
        }];
        dims.push(match lines {
            Some(axis) => self.channels_dim(self.dim(axis)?),
            None => Dim { extent: 1, byte_stride: byte_stride(1, 1, self.bytes)?, start: constant(Quantity::Channel) },
        });
        let is_own = |axis: &usize| *axis != inner && ![lines, joined].contains(&Some(*axis));
        let mut of_filter = None;
        for axis in (0..self.tensor.dim.len()).filter(is_own) {
            let has_digits = !self.coordinates()[axis].terms.is_empty();
            if self.tensor.dim[axis] > 1 || has_digits {
                of_filter =
                    self.problem.tap_row.filter(|_| !has_digits).map(|row| (dims.len(), row.taps)).or(of_filter);
                dims.push(self.dim(axis)?);
            }
        }
        let with_groups = [Some(inner), lines].into_iter().flatten().find(|&axis| self.has_groups_apart(axis));
        dims.extend(with_groups.map(|axis| self.groups_dim(axis)).transpose()?);
        Ok(Layout { taps: TapBoxes { rows_beyond: 0, of_filter }, ..Layout::of(dims)? })
    }

    /// The axis of taps that follow each other as channels do and as the phases of columns do, so that lines may reach from a tap to the
    /// next.
    fn joined(&self, inner: usize) -> Option<usize> {
        let phase = self.phase_beside_channels()?;
        let follows = |axis: &usize| {
            let is_next = |term: &(Quantity, i64)| *term == (phase, 1);
            self.tensor.stride[*axis] == self.tensor.dim[inner] && self.coordinates()[*axis].terms.iter().any(is_next)
        };
        (0..self.tensor.dim.len()).find(follows)
    }

    /// Channels and the taps of an axis as one.
    fn joined_dim(&self, inner: usize, axis: usize) -> Dim {
        let (channels, of_taps) = (self.tensor.dim[inner], &self.coordinates()[axis]);
        let taps = of_taps.terms.iter().map(|&(digit, scale)| (digit, scale * channels));
        let terms: Vec<_> = taps.chain(self.coordinates()[inner].terms.iter().copied()).collect();
        let start =
            Coordinate { constant: of_taps.constant * channels, ..Coordinate::affine(Quantity::Channel, terms) };
        Dim { extent: channels * self.tensor.dim[axis], byte_stride: 0, start }
    }

    /// The digit before the channels of columns, where it is a phase.
    fn phase_beside_channels(&self) -> Option<Quantity> {
        let [.., phase, _] = self.problem.space.digits(self.outer()) else { return None };
        matches!(phase.quantity, Quantity::Phase(_)).then_some(phase.quantity).filter(|_| !self.along_k)
    }

    /// Images: channels, then pixels from the innermost axis on, then images.
    fn walk(&self) -> Result<Layout, String> {
        let spatial = self.tensor.dim.len() - 2;
        if !(1..=CORNERS.len()).contains(&spatial) || self.coordinates()[1].quantity == Quantity::Group {
            return Err("groups have an axis of their own".to_owned());
        }
        let channel = self.inner()?;
        if channel != 1 {
            return Err(format!("channels step by {} elements; required: 1", self.tensor.stride[1]));
        }
        let mut dims = vec![self.innermost_dim(channel)];
        let mut walk = PixelWalk { lower: [0; 3], upper: [0; 3], steps: [1; 3] };
        let mut taps = Vec::new();
        for (at, axis) in (2..2 + spatial).rev().enumerate() {
            let along = self.along(axis, CORNERS[spatial - 1], FURTHEST_TAP[spatial - 1])?;
            (walk.lower[at], walk.upper[at], walk.steps[at]) = (along.lower, along.upper, along.step);
            dims.push(Dim { start: along.start, ..self.dim(axis)? });
            taps.push(along.tap);
        }
        dims.push(self.dim(0)?);
        let layout = Layout::of(dims)?;
        let start = BoxStart { taps, ..layout.start };
        let rows_beyond = self.problem.tap_row.map_or(0, |row| row.rows_beyond());
        Ok(Layout { start, pixels: Some(walk), taps: TapBoxes { rows_beyond, of_filter: None }, ..layout })
    }

    /// A spatial axis: `pixel · step + tap · scale + constant`, of which taps that count down are counted from their last.
    fn along(&self, axis: usize, (lowest, highest): (i64, i64), furthest: i64) -> Result<Along, String> {
        let coordinate = &self.coordinates()[axis];
        let refuse = |why: String| Err(format!("axis {axis}: {why}"));
        if coordinate.divisor != 1 {
            return refuse(format!("pixels lie {} apart under a tap", coordinate.divisor));
        }
        let moves = |term: &(Quantity, i64)| matches!(term.0, Quantity::Tap(_) | Quantity::PhaseShift(_));
        let (taps, pixel): (Vec<_>, Vec<_>) = coordinate.terms.iter().copied().partition(moves);
        let last = |term: &(Quantity, i64)| (self.extent(term.0) - 1) * term.1;
        let (step, pixels) = pixel.first().map_or((1, 1), |term| (term.1, self.extent(term.0)));
        let least: i64 = taps.iter().map(|term| last(term).min(0)).sum();
        let furthest_move: i64 = taps.iter().map(|term| last(term).abs()).sum();
        let lower = coordinate.constant + least;
        let upper = lower + (pixels - 1) * step - (self.tensor.dim[axis] - 1);
        if !(1..=LARGEST_STEP).contains(&step) {
            return refuse(format!("pixels step by {step}; required: 1 to {LARGEST_STEP}"));
        }
        let corners = lowest..=highest;
        if !corners.contains(&lower) || !corners.contains(&upper) || furthest_move > furthest {
            return refuse(format!(
                "a window from {lower} to {upper} with taps up to {furthest_move}; required: {lowest} to {highest}, \
                 {furthest} at most"
            ));
        }
        let with = |constant, terms: Vec<_>| Coordinate { constant, ..Coordinate::affine(coordinate.quantity, terms) };
        Ok(Along {
            lower: lower as i32,
            upper: upper as i32,
            step: step as u32,
            start: with(lower, pixel),
            tap: with(-least, taps),
        })
    }

    /// The axis that is contiguous, with digits of the index that lines run along.
    fn inner(&self) -> Result<usize, String> {
        let is_inner = |axis: &usize| self.tensor.dim[*axis] > 1 && self.tensor.stride[*axis] == 1;
        let none = || format!("no axis of strides {:?} is contiguous", self.tensor.stride);
        let axis = (0..self.tensor.dim.len()).find(is_inner).ok_or_else(none)?;
        let digits = self.problem.space.digits(if self.along_k { Role::Sum } else { self.outer() });
        let innermost = digits.last().map(|digit| digit.quantity);
        let own = self.coordinates()[axis].terms.last().map(|term| term.0);
        let is_apart = |term: &&(Quantity, i64)| Some(term.0) != own && term.1 * self.bytes % UNIT != 0;
        match self.coordinates()[axis].terms.iter().find(is_apart) {
            Some((Quantity::Group, channels)) => {
                Err(format!("groups start {channels} channels apart; required: a multiple of {UNIT} bytes"))
            }
            None if own == innermost && self.coordinates()[axis].bound.is_none() => Ok(axis),
            _ => {
                Err(format!("axis {axis} is contiguous, along which neither channels nor steps of k follow each other"))
            }
        }
    }

    /// Whether the groups of a filter, which follow each other along an axis that k steps along, have a dim of their own: a step that reaches
    /// beyond a group multiplies zeros then, and the images need not end with their groups.
    fn has_groups_apart(&self, axis: usize) -> bool {
        self.problem.steps_beyond_groups(&self.coordinates()[axis], self.block_k)
    }

    /// The dim of an axis of a filter's channels: of one group, where groups have a dim of their own.
    fn channels_dim(&self, dim: Dim) -> Dim {
        match dim.start.terms[..] {
            [_, channel] if self.problem.steps_beyond_groups(&dim.start, self.block_k) => {
                let start = Coordinate::affine(dim.start.quantity, [channel]);
                Dim { extent: self.extent(channel.0), start, ..dim }
            }
            _ => dim,
        }
    }

    /// The groups along an axis of a filter's channels.
    fn groups_dim(&self, axis: usize) -> Result<Dim, String> {
        let (groups, channels) = (self.extent(Quantity::Group), self.coordinates()[axis].terms[0].1);
        let byte_stride = byte_stride(groups, channels * self.tensor.stride[axis], self.bytes)
            .map_err(|why| format!("the groups of axis {axis} {why}"))?;
        Ok(Dim { extent: groups, byte_stride, start: Coordinate::digit(Quantity::Group) })
    }

    /// Values of a digit, or of what follows from digits, that are inside.
    fn extent(&self, quantity: Quantity) -> i64 {
        self.problem.space.extent_of(quantity).value()
    }

    fn dim(&self, axis: usize) -> Result<Dim, String> {
        let (extent, stride) = (self.tensor.dim[axis], self.tensor.stride[axis]);
        let byte_stride = byte_stride(extent, stride, self.bytes).map_err(|why| format!("axis {axis} {why}"))?;
        Ok(Dim { byte_stride, ..self.innermost_dim(axis) })
    }

    /// The axis that is contiguous, whose stride no map says.
    fn innermost_dim(&self, axis: usize) -> Dim {
        Dim { extent: self.tensor.dim[axis], byte_stride: 0, start: self.coordinates()[axis].clone() }
    }

    /// Channels under one tap, or under those of neighbouring phases, of which lines along m or n must not leave the last; `None` where
    /// there is but one tap.
    fn channels_of_a_tap(&self) -> Option<i64> {
        let digits = self.problem.space.digits(self.outer());
        let is_image = self.coordinates()[0].quantity == Quantity::Image;
        let phase = self.phase_beside_channels();
        // columns along k under taps are those of an image that is unfolded along rows
        let has_own_boxes = if self.along_k { self.matrix().is_none() } else { is_image || phase.is_some() };
        let last = digits.last().filter(|_| has_own_boxes && digits.len() > 1)?;
        let joined = self.inner().ok().and_then(|inner| self.joined(inner)).and(phase);
        let neighbours = joined.map_or(1, |phase| self.extent(phase));
        matches!(last.quantity, Quantity::InputChannel).then_some(last.radix.value() * neighbours)
    }
}

/// A walk along one axis.
struct Along {
    lower: i32,
    upper: i32,
    step: u32,
    start: Coordinate,
    tap: Coordinate,
}

fn constant(quantity: Quantity) -> Coordinate {
    Coordinate::affine(quantity, [])
}

/// Whether a coordinate is a digit, all of whose values lie inside.
fn is_plain(coordinate: &Coordinate, digit: &Digit) -> bool {
    let is_inside = coordinate.bound.is_none_or(|bound| digit.extent <= bound.value());
    coordinate.terms == [(digit.quantity, 1)] && coordinate.constant == 0 && coordinate.divisor == 1 && is_inside
}
