//! Operands that the tensor memory accelerator does not take as they lie: copied once to the workspace, in a layout that it takes.
//!
//! The core then reads the copies: the graph that is lowered has them as virtual tensors in place of the operands, and all that is
//! planned of it (boxes, tiles, epilogue) is planned as of any other. Padding is never read: boxes end where channels, or columns, do,
//! and what lies beyond are zeros.
//!
//! `wgmma` reads operands of 8 and 32 bits along k alone. Where others do not lie so, they are turned on their way to shared memory, once
//! for each tile, or turned by the copy. Those of a filter gradient, whose k are pixels, are unfolded: to matrices with a row for each
//! channel, and for each tap and channel, so that neither strides nor padding are left to the product. Or to images of whole rows, one for
//! each tap along rows: taps of neighbouring rows then overlap, and begin at boxes of their own.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::boxed_operand::UNIT;
use super::operand::{boxed_as_stored, stage_program};
use super::pass::{LAUNCH_SECONDS, line_of_blocks, push_evaluation};
use super::problem::Problem;
use super::sweep::{elements, span};
use super::tensor_map::{Arrival, line_along_outer, matmul_axes, step_k};
use crate::device::Device;
use crate::engine::builder::KernelBuilder;
use crate::fusion::{CoreOperand, Fusion, Product, ProductKind, fuse};
use crate::graph::{
    Attributes, ConvolutionDirection, DataType, FinalTensor, FinalizedGraph, OperationId, Pointwise, PointwiseMode,
    TensorId,
};
use crate::kernel::{
    Body, Coordinate, CopyAxis, CopyKernel, Derived, Digit, Index, MmaType, Parameter, Quantity, Role, StageProgram,
    Step, UnfoldKernel, UnfoldedAxis, Value, step,
};

/// Bytes that rows of a copy are padded to a multiple of where they are longer than what strides of a tensor map are multiples of:
/// sectors of L2, and its lines.
const SECTOR: i64 = 32;
const LINE: i64 = 128;

/// How many times as long rows may become for whole lines: rows that straddle them are read twice from L2
/// (`warpgroup_mma/model.rs`), so a quarter more of the copy is cheap.
const LINES_UP_TO: f64 = 1.25;

/// Bytes of a word of the workspace.
const WORD: i64 = 4;

/// Threads of a block that copies: as many as of a pointwise pass.
const THREADS: u32 = 256;

/// Largest unit of a copy, in bytes.
const LARGEST_UNIT: i64 = 8;

/// Channels under a tap that boxes along k have at least: those of a step of 16 columns of a tile.
const LEAST_ROWS_OF_A_BOX: i64 = 16;

/// How many times as long the writes of a copy take whose source is contiguous along another axis, so that a warp writes to many rows (an
/// estimate).
const TURNED_WRITES: f64 = 1.25;

/// Most neighbouring threads that write to a row of a copy whose source is contiguous along another axis, where elements have so many
/// bytes: those of a warp read whole sectors, or with 8 bits halves of them.
const fn most_neighbours(element: i64) -> i64 {
    if element < 2 { 2 } else { element }
}

/// One operand's copy.
#[derive(Clone, Debug)]
pub(super) struct OperandCopy {
    source: TensorId,
    copy: TensorId,
    /// The axis that is contiguous in the copy.
    inner: usize,
    way: Way,
    /// Why the operand is not taken as it lies.
    why: String,
}

/// How a copy comes about.
#[derive(Clone, Debug)]
enum Way {
    /// Element by element.
    Copied,
    /// As a matrix of these digits.
    Unfolded(Unfolded),
    /// As values of a mainloop stage.
    Evaluated(StageProgram),
}

/// An operand as a matrix: digits of its rows and of k, and the coordinates of its source.
#[derive(Clone, Debug)]
struct Unfolded {
    rows: Vec<Digit>,
    k: Vec<Digit>,
    coordinates: Vec<Coordinate>,
    /// Elements from one row to the next.
    pitch: i64,
}

/// The tensor of a copy: dims, strides, and the axis that is contiguous.
struct Layout {
    dim: Vec<i64>,
    stride: Vec<i64>,
    inner: usize,
}

impl Layout {
    /// Axes in their order, rows of elements of so many bytes padded.
    fn of_rows(dim: Vec<i64>, bytes: i64, inner: usize) -> Self {
        let stride = padded_strides(&dim, bytes, inner);
        Self { dim, stride, inner }
    }
}

/// What becomes of operands that do not run along k, where the instruction reads them along k alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AcrossK {
    /// They are turned on their way to shared memory.
    Turned,
    /// They are copied.
    Copied,
}

/// A fusion whose core reads copies of its operands.
#[derive(Clone, Debug)]
pub(in crate::engine) struct CopiedOperands {
    pub(super) fusion: Fusion,
    pub(super) product: Product,
    pub(super) copies: Vec<OperandCopy>,
    across_k: AcrossK,
    unfolded: Option<UnfoldedProduct>,
}

/// A product of unfolded operands, and what it was before.
#[derive(Clone, Debug)]
struct UnfoldedProduct {
    problem: Problem,
    before: ProductBefore,
}

/// A product before its operands were unfolded, with k's digits in the copies, or before taps were taken together, which k's digits then
/// end with.
#[derive(Clone, Debug)]
pub(super) struct ProductBefore {
    pub(super) fusion: Fusion,
    pub(super) product: Product,
    pub(super) problem: Problem,
}

impl ProductBefore {
    pub(super) fn new(fusion: &Fusion, product: &Product, problem: Problem) -> Self {
        Self { fusion: fusion.clone(), product: product.clone(), problem }
    }
}

impl CopiedOperands {
    /// The fusion with copies of operands, in each way in which there are any: of what does not come in boxes, as far as the copy does; of
    /// what would be turned, too; of both operands of a filter gradient, unfolded in one way or two.
    pub(in crate::engine) fn ways(fusion: &Fusion, product: &Product, operand: MmaType) -> Vec<Self> {
        Self::without_copies(fusion, product).further(operand)
    }

    /// The fusion with operands that a mainloop stage computes evaluated first, one or both, in each way in which these come in boxes
    /// then, or are copied further. None where a stage does more than compute the operand.
    pub(in crate::engine) fn evaluated(fusion: &Fusion, product: &Product, operand: MmaType) -> Vec<Self> {
        let as_they_are = Self::without_copies(fusion, product);
        let with = |slots: &[usize]| {
            let mut slots = slots.iter();
            slots.try_fold(as_they_are.clone(), |copied, &slot| copied.with_evaluated(slot, operand))
        };
        let evaluated = [&[0][..], &[1], &[0, 1]].into_iter().filter_map(with);
        evaluated.flat_map(|copied| [copied.clone()].into_iter().chain(copied.further(operand))).collect()
    }

    /// The same with further copies.
    fn further(&self, operand: MmaType) -> Vec<Self> {
        let mut ways: Vec<Self> = self.copied(operand, AcrossK::Turned).into_iter().collect();
        if operand.bytes() != 2 {
            let copied = self.copied(operand, AcrossK::Copied);
            let unfolded = [Self::unfolded, Self::unfolded_along_rows].map(|of| of(self, operand));
            ways.extend(
                copied.into_iter().chain(unfolded.into_iter().flatten()).filter(|copied| copied.are_boxed(operand)),
            );
        }
        ways
    }

    fn without_copies(fusion: &Fusion, product: &Product) -> Self {
        let (fusion, product) = (fusion.clone(), product.clone());
        Self { fusion, product, copies: Vec::new(), across_k: AcrossK::Turned, unfolded: None }
    }

    fn across(&self, across_k: AcrossK) -> Self {
        Self { across_k, ..self.clone() }
    }

    /// The same with a copy of each operand that is multiplied as it is stored and does not come in boxes for its layout, if the
    /// copy does; `None` where there is no such operand.
    fn copied(&self, operand: MmaType, across_k: AcrossK) -> Option<Self> {
        let mut copied = self.across(across_k);
        for slot in 0..2 {
            if let Err(why) = copied.boxed(slot, operand) {
                copied = copied.with_copy(slot, operand, why).unwrap_or(copied);
            }
        }
        (copied.copies.len() > self.copies.len()).then_some(copied)
    }

    /// The fusion of a filter gradient with both operands unfolded to matrices, one for each group, rows along k; `None` for other cores.
    fn unfolded(&self, operand: MmaType) -> Option<Self> {
        let problem = filter_gradient(&self.fusion, &self.product)?;
        let [groups, m, n, k] = problem.space.extents();
        let mut copied = self.across(AcrossK::Copied);
        for (slot, (dim, inner)) in [(vec![groups, m, k], 2), (vec![groups, k, n], 1)].into_iter().enumerate() {
            let bytes = copied.source(slot)?.data_type.bytes() as i64;
            let layout = Layout::of_rows(dim, bytes, inner);
            let unfolded = Unfolded {
                rows: [&problem.space.b[..], problem.space.digits(Role::outer(slot))].concat(),
                k: problem.space.k.clone(),
                coordinates: problem.operands[slot].clone(),
                pitch: padded(k * bytes) / bytes,
            };
            copied = copied.with_unfolded(slot, operand, layout, unfolded)?;
        }
        let before = ProductBefore::new(&self.fusion, &self.product, problem.clone());
        Some(Self { unfolded: Some(UnfoldedProduct { problem: problem.of_matrices(), before }), ..copied })
    }

    /// The same to images whose rows of pixels are padded: `[ko, img, pixels]` of DY and, for each tap along rows, `[s, r, img, ci, pixels]`
    /// of X, in which the taps of neighbouring rows overlap. `None` where rows step by more than one, and for other than images.
    fn unfolded_along_rows(&self, operand: MmaType) -> Option<Self> {
        let problem = filter_gradient(&self.fusion, &self.product)?;
        let images = ImagesOfRows::of(self.fusion.graph(), &self.product, &problem)?;
        let mut copied = self.across(AcrossK::Copied);
        for (slot, (layout, unfolded)) in [images.gradient(), images.input()].into_iter().enumerate() {
            copied.source(slot)?;
            copied = copied.with_unfolded(slot, operand, layout, unfolded)?;
        }
        let before = ProductBefore::new(&self.fusion, &self.product, images.before(operand));
        Some(Self { unfolded: Some(UnfoldedProduct { problem: images.problem(operand), before }), ..copied })
    }

    /// Whether both operands come in boxes.
    pub(in crate::engine) fn are_boxed(&self, operand: MmaType) -> bool {
        (0..2).all(|slot| self.boxed(slot, operand).is_ok())
    }

    /// Whether an operand comes in boxes, and none of a filter along k whose rows straddle sectors of L2 (3×3 of 64 images of 28×28 on an
    /// H200: 34 µs with 40 channels of HALF, 18 with 48).
    ///
    /// # Errors
    /// Why it does not.
    fn boxed(&self, slot: usize, operand: MmaType) -> Result<(), String> {
        let problem = self.problem(operand).in_steps_of(step_k(operand));
        let (graph, tensor) = (self.fusion.graph(), self.product.tensors()[slot]);
        let (boxes, arrival) = boxed_as_stored(graph, &problem, slot, tensor, operand)?;
        if arrival == Arrival::Turned && self.across_k == AcrossK::Copied {
            return Err(self.why_along_k(slot, operand));
        }
        match boxes.is_filter_along_k() && boxes.rows_straddle() {
            true => Err(format!("operand {}: rows of channels straddle sectors of L2", graph.describe_tensor(tensor))),
            false => Ok(()),
        }
    }

    /// Why an operand is copied to run along k.
    fn why_along_k(&self, slot: usize, operand: MmaType) -> String {
        let tensor = self.fusion.graph().describe_tensor(self.product.tensors()[slot]);
        let bits = operand.bytes() * 8;
        format!(
            "operand {tensor}: its contiguous axis is not k, along which alone operands of {bits} bits are multiplied"
        )
    }

    /// The product, the channels of each tap in whole lines of boxes.
    pub(super) fn problem(&self, operand: MmaType) -> Problem {
        let of_graph =
            || Problem::of(self.fusion.graph(), &self.product).in_columns_of(line_along_outer(operand).into());
        self.unfolded.as_ref().map_or_else(of_graph, |unfolded| unfolded.problem.clone())
    }

    /// The product before its operands were unfolded, if they are.
    pub(super) fn before(&self) -> Option<&ProductBefore> {
        self.unfolded.as_ref().map(|unfolded| &unfolded.before)
    }

    /// An operand's tensor, if it is one of the graph's inputs, or was evaluated.
    fn source(&self, slot: usize) -> Option<&FinalTensor> {
        let (graph, id) = (self.fusion.graph(), self.product.tensors()[slot]);
        let tensor = graph.tensor(id);
        let is_input = graph.producer(id).is_none() && !tensor.is_virtual && !tensor.is_pass_by_value;
        let is_evaluated = |copy: &OperandCopy| copy.copy == id;
        (is_input || self.copies.iter().any(is_evaluated)).then_some(tensor)
    }

    /// The same with an operand that a mainloop stage computes evaluated first, in the order in which its largest tensor lies; `None` where
    /// none does, or the stage does more than that.
    fn with_evaluated(&self, slot: usize, operand: MmaType) -> Option<Self> {
        let (graph, core) = (self.fusion.graph(), &self.product.operands[slot]);
        let stage = private_stage(&self.fusion, core)?;
        let tensor = graph.tensor(core.tensor);
        let data_type = stored_type(operand, tensor.data_type)?;
        let program = stage_program(&self.fusion, core);
        let inner = contiguous_axis(graph, &program, tensor);
        let stride = padded_strides(&tensor.dim, data_type.bytes() as i64, inner);
        let why = format!("operand {} is computed in a mainloop stage", graph.describe_tensor(core.tensor));
        let (graph, copy) =
            graph.with_operand_evaluated(self.product.operation, core.tensor, &stage, (data_type, stride));
        let way = Way::Evaluated(stored(program, core.tensor, copy, [tensor.data_type, data_type]));
        self.reading(graph, OperandCopy { source: core.tensor, copy, inner, way, why })
    }

    /// The same with one more copy, if that comes in boxes.
    fn with_copy(&self, slot: usize, operand: MmaType, why: String) -> Option<Self> {
        let tensor = self.source(slot)?;
        let inner = inner_axis(&self.problem(operand), slot, tensor, operand)?;
        let layout = Layout::of_rows(tensor.dim.clone(), tensor.data_type.bytes() as i64, inner);
        let copied = self.with(slot, layout, Way::Copied, why)?;
        copied.boxed(slot, operand).is_ok().then_some(copied)
    }

    /// The same with an operand unfolded.
    fn with_unfolded(&self, slot: usize, operand: MmaType, layout: Layout, unfolded: Unfolded) -> Option<Self> {
        self.with(slot, layout, Way::Unfolded(unfolded), self.why_along_k(slot, operand))
    }

    /// The same with an operand read from a copy.
    fn with(&self, slot: usize, layout: Layout, way: Way, why: String) -> Option<Self> {
        let Layout { dim, stride, inner } = layout;
        let (graph, source) = (self.fusion.graph(), self.product.tensors()[slot]);
        let (graph, copy) = graph.with_operand_copied(self.product.operation, source, [dim, stride]);
        self.reading(graph, OperandCopy { source, copy, inner, way, why })
    }

    /// The same of a graph whose core reads one more copy.
    fn reading(&self, graph: FinalizedGraph, copy: OperandCopy) -> Option<Self> {
        let fusion = fuse(Arc::new(graph)).ok()?;
        // a matrix does not tell the groups
        let product = Product { groups: self.product.groups, ..fusion.product()?.clone() };
        let copies = [&self.copies[..], &[copy]].concat();
        Some(Self { fusion, product, copies, across_k: self.across_k, unfolded: self.unfolded.clone() })
    }
}

/// The operations that compute an operand; `None` where there are none, where one gives what memory keeps, or where one is a signal,
/// which has its place among the launches.
fn private_stage(fusion: &Fusion, operand: &CoreOperand) -> Option<BTreeSet<OperationId>> {
    let graph = fusion.graph();
    let stage: BTreeSet<OperationId> = fusion.operations(operand.stage()).collect();
    let is_private = |&id: &OperationId| {
        let operation = graph.operation(id);
        let is_signal = matches!(operation.attributes, Attributes::Signal(_));
        !is_signal && operation.output_tensors().all(|tensor| graph.tensor(tensor).is_virtual)
    };
    (!stage.is_empty() && stage.iter().all(is_private)).then_some(stage)
}

/// The type in which a value is stored to be multiplied by an instruction; `None` where that takes none of its type.
fn stored_type(operand: MmaType, value: DataType) -> Option<DataType> {
    match operand {
        MmaType::F16 => Some(DataType::Half),
        MmaType::Bf16 => Some(DataType::BFloat16),
        MmaType::Tf32 => Some(DataType::Float),
        MmaType::S8 => Some(DataType::Int8),
        MmaType::Fp8 => value.is_fp8().then_some(value),
    }
}

/// The axis along which the largest tensor that a stage reads is contiguous, if the stage's result has all of it; else that of the result.
fn contiguous_axis(graph: &FinalizedGraph, program: &StageProgram, result: &FinalTensor) -> usize {
    let largest = program.moved().map(|id| graph.tensor(id)).max_by_key(|tensor| elements(tensor));
    let decides = largest.filter(|tensor| tensor.dim == result.dim).unwrap_or(result);
    let axes = (0..decides.dim.len()).filter(|&axis| decides.dim[axis] > 1);
    axes.min_by_key(|&axis| decides.stride[axis]).unwrap_or_default()
}

/// The program that ends with a value in the type in which it is stored.
fn stored(program: StageProgram, value: TensorId, copy: TensorId, [from, to]: [DataType; 2]) -> StageProgram {
    let compute = if from == to { from } else { DataType::Float };
    let attributes = Pointwise::new(PointwiseMode::Identity);
    let converted = Step { tensor: copy, value: Value::Pointwise { attributes, operands: vec![value], compute } };
    StageProgram { steps: program.steps.into_iter().chain([converted]).collect() }
}

/// The product of a filter gradient of two tensors; `None` for other cores.
fn filter_gradient(fusion: &Fusion, product: &Product) -> Option<Problem> {
    let is_filter_gradient = product.kind == ProductKind::Convolution(ConvolutionDirection::BackwardFilter);
    let [dy, x] = product.tensors();
    (is_filter_gradient && dy != x).then(|| Problem::of(fusion.graph(), product))
}

/// Operands of a filter gradient over images, of which a tap of the filter moves rows by whole rows.
struct ImagesOfRows<'a> {
    problem: &'a Problem,
    /// Pixels of a row of the copies.
    row: i64,
    /// Rows of DY and of a copy of X, from the first that a tap reaches.
    rows: [i64; 2],
    /// Rows of X, and how many of these a tap lies below the one before.
    image_rows: i64,
    dilation: i64,
}

const ROW: Quantity = Quantity::OutputPixel(1);
const PIXEL: Quantity = Quantity::OutputPixel(2);
const TAPS: [Quantity; 2] = [Quantity::Tap(1), Quantity::Tap(2)];
const GROUP: Quantity = Quantity::Group;

impl<'a> ImagesOfRows<'a> {
    /// `None` unless there are several taps, rows and pixels, and channels on both sides, and where groups have an axis of their own.
    fn of(graph: &FinalizedGraph, product: &Product, problem: &'a Problem) -> Option<Self> {
        let x = graph.tensor(product.tensors()[1]);
        let [_, _, down, _] = &problem.operands[1][..] else { return None };
        let dilation = match down.terms[..] {
            [(ROW, 1), (tap, dilation)] if tap == TAPS[0] && dilation > 0 => dilation,
            _ => return None,
        };
        let has_all = [Quantity::Image, ROW, PIXEL, Quantity::InputChannel, Quantity::OutputChannel];
        if has_all.into_iter().any(|quantity| problem.space.extent_of(quantity) == 1) {
            return None;
        }
        let extent = |quantity| problem.space.extent_of(quantity);
        let bytes = x.data_type.bytes() as i64;
        let of_gradient = extent(ROW);
        Some(Self {
            problem,
            row: padded(extent(PIXEL) * bytes) / bytes,
            rows: [of_gradient, of_gradient + (extent(TAPS[0]) - 1) * dilation],
            image_rows: x.dim[2],
            dilation,
        })
    }

    fn extent(&self, quantity: Quantity) -> i64 {
        self.problem.space.extent_of(quantity)
    }

    /// Channels of all groups.
    fn channels(&self, quantity: Quantity) -> i64 {
        self.extent(GROUP) * self.extent(quantity)
    }

    /// Pixels of an image of DY, those that pad its rows included.
    fn pixels(&self) -> i64 {
        self.rows[0] * self.row
    }

    /// The digits of k of a copy whose images have so many rows.
    fn k(&self, rows: i64) -> Vec<Digit> {
        let pixels = Digit { radix: self.row, ..Digit::new(PIXEL, self.extent(PIXEL)) };
        vec![Digit::new(Quantity::Image, self.extent(Quantity::Image)), Digit::new(ROW, rows), pixels]
    }

    fn digits(&self, quantities: &[Quantity]) -> Vec<Digit> {
        let digits = quantities.iter().map(|&quantity| Digit::new(quantity, self.extent(quantity)));
        digits.filter(|digit| digit.extent > 1).collect()
    }

    /// DY, `[ko, img, pixels]`.
    fn gradient(&self) -> (Layout, Unfolded) {
        let (images, channels) = (self.extent(Quantity::Image), self.channels(Quantity::OutputChannel));
        let (pixels, pitch) = (self.pixels(), images * self.pixels());
        let layout = Layout { dim: vec![channels, images, pixels], stride: vec![pitch, pixels, 1], inner: 2 };
        let coordinates = self.problem.operands[0].clone();
        let rows = self.digits(&[GROUP, Quantity::OutputChannel]);
        (layout, Unfolded { rows, k: self.k(self.rows[0]), coordinates, pitch })
    }

    /// X, `[s, r, img, ci, pixels]`.
    fn input(&self) -> (Layout, Unfolded) {
        let (images, channels) = (self.extent(Quantity::Image), self.channels(Quantity::InputChannel));
        let of_image = self.rows[1] * self.row;
        let pitch = images * of_image;
        let [down, across] = TAPS.map(|tap| self.extent(tap));
        let layout = Layout {
            dim: vec![across, down, images, channels, self.pixels()],
            stride: vec![channels * pitch, self.dilation * self.row, of_image, pitch, 1],
            inner: 4,
        };
        let mut coordinates = self.problem.operands[1].clone();
        let first = coordinates[2].constant;
        coordinates[2] = Coordinate {
            constant: first,
            bound: Some(self.image_rows),
            ..Coordinate::affine(Quantity::InputPixel(1), [(ROW, 1)])
        };
        let rows = self.digits(&[TAPS[1], GROUP, Quantity::InputChannel]);
        (layout, Unfolded { rows, k: self.k(self.rows[1]), coordinates, pitch })
    }

    /// The product of the operands as they lie, k counted as in the copies: an image, and a pixel of it in rows that are padded.
    fn before(&self, operand: MmaType) -> Problem {
        const PIXEL_OF_IMAGE: Quantity = Quantity::OutputPixel(0);
        let mut problem = self.problem.clone();
        let pixel = Index::variable(PIXEL_OF_IMAGE);
        let derive = |quantity, value| Derived { role: Role::Sum, quantity, value, extent: self.extent(quantity) };
        problem.space.derived = vec![derive(ROW, pixel.clone() / self.row), derive(PIXEL, pixel % self.row)];
        let mut operands = problem.operands.clone();
        for (coordinate, (digit, seen)) in operands[0][2..].iter_mut().zip([(ROW, 1), (PIXEL, 2)]) {
            let within = Coordinate::affine(Quantity::InputPixel(seen), [(digit, 1)]);
            *coordinate = Coordinate { bound: Some(self.extent(digit)), ..within };
        }
        let [image, pixels] = self.digits_of_k(operand);
        problem.of_operands(operands, vec![image, Digit { quantity: PIXEL_OF_IMAGE, ..pixels }])
    }

    /// k of the copies: an image and, in steps, a pixel of it.
    fn digits_of_k(&self, operand: MmaType) -> [Digit; 2] {
        let images = Digit::new(Quantity::Image, self.extent(Quantity::Image));
        [images, Digit::new(PIXEL, self.pixels()).in_blocks_of(step_k(operand))]
    }

    /// The product of the copies: k is an image and, in steps, a pixel of it.
    fn problem(&self, operand: MmaType) -> Problem {
        let coordinate = |quantity: Quantity| {
            let is_channel = matches!(quantity, Quantity::InputChannel | Quantity::OutputChannel);
            let group = (GROUP, self.extent(quantity));
            let terms = [group, (quantity, 1)].into_iter().filter(|term| is_channel || term.0 == quantity);
            Coordinate::affine(quantity, terms.filter(|term| self.extent(term.0) > 1).collect::<Vec<_>>())
        };
        let gradient = [Quantity::OutputChannel, Quantity::Image, PIXEL].map(coordinate).to_vec();
        let input = [TAPS[1], TAPS[0], Quantity::Image, Quantity::InputChannel, PIXEL].map(coordinate).to_vec();
        let problem = self.problem.clone().of_operands([gradient, input], self.digits_of_k(operand).to_vec());
        problem.in_columns_of(LEAST_ROWS_OF_A_BOX)
    }
}

/// The axis along which a copy is contiguous: where 16-bit operands are along k, m or n, that one, as both are taken; else k's. Of an
/// image its channels. `None` where groups have an axis of their own.
fn inner_axis(problem: &Problem, slot: usize, tensor: &FinalTensor, operand: MmaType) -> Option<usize> {
    let coordinates = &problem.operands[slot];
    if let Some([_, outer, k]) = matmul_axes(problem, slot) {
        let keeps = operand.bytes() == 2 && tensor.stride[outer] == 1;
        return Some(if keeps { outer } else { k });
    }
    if coordinates.get(1)?.quantity == Quantity::Group || coordinates[0].quantity == Quantity::Group {
        return None;
    }
    let is_image = coordinates[0].quantity == Quantity::Image;
    let is_of_k = |axis: &usize| {
        let last = coordinates[*axis].terms.last();
        last.is_some_and(|term| problem.space.k.iter().any(|digit| digit.quantity == term.0))
    };
    match is_image {
        true => Some(1),
        false => [0, 1].into_iter().find(is_of_k),
    }
}

/// Strides of a tensor of elements of so many bytes that is contiguous along one axis, its rows padded, the other axes in their order.
fn padded_strides(dim: &[i64], bytes: i64, inner: usize) -> Vec<i64> {
    let mut strides = vec![1; dim.len()];
    let mut step = padded(dim[inner] * bytes) / bytes;
    for axis in (0..dim.len()).rev().filter(|axis| *axis != inner) {
        strides[axis] = step;
        step *= dim[axis];
    }
    strides
}

/// Bytes of a row of so many: whole lines of L2 where that is little more, else whole sectors, or 16 bytes where it has no more.
fn padded(bytes: i64) -> i64 {
    let multiple = |of: i64| (bytes + of - 1) / of * of;
    match multiple(LINE) {
        lines if lines as f64 <= LINES_UP_TO * bytes as f64 => lines,
        _ if bytes <= UNIT => UNIT,
        _ => multiple(SECTOR),
    }
}

impl OperandCopy {
    /// Whether it holds what a mainloop stage computes.
    pub(super) fn is_evaluated(&self) -> bool {
        matches!(self.way, Way::Evaluated(_))
    }

    /// What is copied and why, as a sentence for people.
    pub(super) fn remark(&self, graph: &FinalizedGraph) -> String {
        let (_, bytes) = self.rows(graph);
        let becomes = match self.way {
            Way::Copied => "copied first, to rows",
            Way::Unfolded(_) => "unfolded first, to a matrix of rows",
            Way::Evaluated(_) => "evaluated first, to rows",
        };
        format!("{}; so it is {becomes} of {bytes} bytes in the workspace", self.why)
    }

    /// Seconds of the copy: a launch, then each element of the source read once, and each of the copy written once.
    pub(super) fn seconds(&self, graph: &FinalizedGraph, device: &Device) -> f64 {
        let source = graph.tensor(self.source);
        let bytes = |tensor: &FinalTensor| elements(tensor) * tensor.data_type.bytes() as i64;
        let read = match &self.way {
            Way::Evaluated(program) => program.moved().map(|id| bytes(graph.tensor(id))).sum(),
            Way::Copied | Way::Unfolded(_) => bytes(source),
        };
        let (rows, row_bytes) = self.rows(graph);
        let writes = if self.step_along_inner(source) == 1 { 1.0 } else { TURNED_WRITES };
        LAUNCH_SECONDS + (read as f64 + (rows * row_bytes) as f64 * writes) / device.bytes_per_second
    }

    /// Rows of the copy, and bytes from one to the next.
    fn rows(&self, graph: &FinalizedGraph) -> (i64, i64) {
        let copy = graph.tensor(self.copy);
        let bytes = copy.data_type.bytes() as i64;
        match &self.way {
            Way::Unfolded(unfolded) => {
                (unfolded.rows.iter().map(|digit| digit.extent).product(), unfolded.pitch * bytes)
            }
            Way::Copied | Way::Evaluated(_) => {
                (elements(copy) / copy.dim[self.inner], padded(copy.dim[self.inner] * bytes))
            }
        }
    }

    /// Elements of the source between neighbours of a row of the copy.
    fn step_along_inner(&self, source: &FinalTensor) -> i64 {
        let Unfolded { k, coordinates, .. } = match &self.way {
            Way::Unfolded(unfolded) => unfolded,
            Way::Copied => return step(source, self.inner),
            Way::Evaluated(_) => return 1,
        };
        let Some(last) = k.last() else { return 0 };
        let is_last = |term: &(Quantity, i64)| term.0 == last.quantity;
        let axes = coordinates.iter().enumerate();
        let terms = axes.flat_map(|(axis, coordinate)| coordinate.terms.iter().map(move |term| (axis, term)));
        terms.filter(|(_, term)| is_last(term)).map(|(axis, term)| term.1 * step(source, axis)).sum()
    }

    /// Adds the copy, with its place in the workspace: the last vectors of neighbouring threads are stored as a whole.
    pub(super) fn push(&self, graph: &FinalizedGraph, builder: &mut KernelBuilder) {
        let copy = graph.tensor(self.copy);
        let bytes = span(copy) * copy.data_type.bytes() as i64;
        builder.place(self.copy, (bytes + self.neighbours(graph) * UNIT) / WORD);
        let parameters = [self.source, self.copy].map(Parameter::Tensor).into();
        let (skeleton, vectors, body) = match &self.way {
            Way::Evaluated(program) => return push_evaluation(graph, program.clone(), self.copy, builder),
            Way::Unfolded(unfolded) => {
                let kernel = self.unfold_kernel(graph, unfolded);
                ("unfold", kernel.vectors(), Body::Unfold(Box::new(kernel)))
            }
            Way::Copied => {
                let kernel = self.kernel(graph);
                ("copy", kernel.vectors(), Body::Copy(kernel))
            }
        };
        builder.push(skeleton, line_of_blocks(vectors, THREADS), parameters, body);
    }

    fn unfold_kernel(&self, graph: &FinalizedGraph, unfolded: &Unfolded) -> UnfoldKernel {
        let [source, copy] = [self.source, self.copy].map(|id| graph.tensor(id));
        let bytes = source.data_type.bytes() as i64;
        let axis = |(axis, coordinate): (usize, &Coordinate)| UnfoldedAxis {
            coordinate: coordinate.clone(),
            stride: step(source, axis),
        };
        UnfoldKernel {
            source: self.source,
            copy: self.copy,
            element_bytes: bytes as u32,
            rows: unfolded.rows.clone(),
            k: unfolded.k.clone(),
            axes: unfolded.coordinates.iter().enumerate().map(axis).collect(),
            pitch: unfolded.pitch,
            neighbours: self.neighbours(graph),
            threads: THREADS,
            wide_index: [source, copy].into_iter().any(|tensor| span(tensor) > i64::from(i32::MAX)),
        }
    }

    fn kernel(&self, graph: &FinalizedGraph) -> CopyKernel {
        let [source, copy] = [self.source, self.copy].map(|id| graph.tensor(id));
        let element = source.data_type.bytes() as i64;
        let unit = self.unit_bytes(source);
        let (axes, gathered) = self.axes(source, copy, unit / element);
        let wide_index = [source, copy].into_iter().any(|tensor| span(tensor) > i64::from(i32::MAX));
        let neighbours = self.neighbours(graph);
        let (source, copy) = (self.source, self.copy);
        CopyKernel { source, copy, unit_bytes: unit as u32, axes, gathered, neighbours, threads: THREADS, wide_index }
    }

    /// Vectors of a row of the copy that neighbouring threads store.
    fn neighbours(&self, graph: &FinalizedGraph) -> i64 {
        let source = graph.tensor(self.source);
        let most = match self.step_along_inner(source) {
            1 => 1,
            _ => most_neighbours(source.data_type.bytes() as i64),
        };
        let (_, bytes) = self.rows(graph);
        [4, 2].into_iter().find(|&all| all <= most && bytes % (all * UNIT) == 0).unwrap_or(1)
    }

    /// Bytes of the largest unit of which rows of the source are whole numbers, and at whose multiples they begin; an element where
    /// the source is not contiguous along the rows.
    fn unit_bytes(&self, source: &FinalTensor) -> i64 {
        let element = source.data_type.bytes() as i64;
        let is_whole = |unit: &i64| {
            let steps = |axis: &usize| source.dim[*axis] > 1 && *axis != self.inner;
            let mut others = (0..source.dim.len()).filter(steps);
            source.stride[self.inner] == 1
                && source.dim[self.inner] * element % unit == 0
                && source.alignment % unit == 0
                && others.all(|axis| source.stride[axis] * element % unit == 0)
        };
        let halves = std::iter::successors(Some(LARGEST_UNIT), |unit| Some(unit / 2));
        halves.take_while(|unit| *unit > element).find(is_whole).unwrap_or(element)
    }

    /// The axes in units of so many elements, in the order in which they lie in the source, and which is gathered; axes that follow
    /// each other in both layouts are one.
    fn axes(&self, source: &FinalTensor, copy: &FinalTensor, unit: i64) -> (Vec<CopyAxis>, usize) {
        let mut order: Vec<usize> = (0..source.dim.len()).collect();
        order.retain(|&axis| source.dim[axis] > 1 && axis != self.inner);
        order.push(self.inner);
        order.sort_by_key(|&axis| std::cmp::Reverse(source.stride[axis]));
        let position = order.iter().position(|&axis| axis == self.inner).unwrap_or_default();
        let axis = |&axis: &usize| CopyAxis {
            extent: source.dim[axis],
            from: source.stride[axis] / unit,
            to: copy.stride[axis] / unit,
        };
        let inner = CopyAxis { extent: source.dim[self.inner] / unit, from: source.stride[self.inner], to: 1 };
        let outer = merged(order[..position].iter().map(axis));
        let gathered = outer.len();
        let below = merged(order[position + 1..].iter().map(axis));
        (outer.into_iter().chain([inner]).chain(below).collect(), gathered)
    }
}

/// Axes of which those that follow each other in both layouts are one.
fn merged(axes: impl Iterator<Item = CopyAxis>) -> Vec<CopyAxis> {
    let mut merged: Vec<CopyAxis> = Vec::new();
    for axis in axes {
        let steps_over =
            |outer: &&mut CopyAxis| [outer.from, outer.to] == [axis.from, axis.to].map(|s| s * axis.extent);
        match merged.last_mut().filter(steps_over) {
            Some(outer) => *outer = CopyAxis { extent: outer.extent * axis.extent, ..axis },
            None => merged.push(axis),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Convolution, ConvolutionDirection, DataType, Graph, Tensor};

    const FORWARD: ConvolutionDirection = ConvolutionDirection::Forward;

    /// A 3×3 layer of 2 images of 8×8 pixels, of C and K channels.
    fn copied(direction: ConvolutionDirection, [c, k]: [i64; 2], of: fn(Tensor, [i64; 4]) -> Tensor) -> CopiedOperands {
        let (x, w, y) = ([2, c, 8, 8], [k, c, 3, 3], [2, k, 8, 8]);
        let (first, second, result) = match direction {
            ConvolutionDirection::Forward => (x, w, y),
            ConvolutionDirection::BackwardData => (y, w, x),
            ConvolutionDirection::BackwardFilter => (y, x, w),
        };
        let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
        let inputs = [first, second].map(|dim| graph.tensor(of(Tensor::new("t"), dim)));
        let attributes = Convolution::new(direction, 2).padding([1, 1]);
        let id = graph.convolution("conv", attributes, inputs);
        *graph.tensor_mut(id) = of(Tensor::new("result"), result);
        graph.set_output(id);
        let fusion = fuse(Arc::new(graph.finalize().expect("well formed"))).expect("a convolution");
        let product = fusion.product().expect("a convolution");
        CopiedOperands::ways(&fusion, product, MmaType::F16).pop().expect("operands are copied")
    }

    fn channels_last(tensor: Tensor, dim: [i64; 4]) -> Tensor {
        tensor.channels_last(dim)
    }

    fn channels_first(tensor: Tensor, dim: [i64; 4]) -> Tensor {
        tensor.row_major(dim)
    }

    fn kernels(copied: &CopiedOperands) -> Vec<CopyKernel> {
        copied.copies.iter().map(|copy| copy.kernel(copied.fusion.graph())).collect()
    }

    fn strides(copied: &CopiedOperands) -> Vec<Vec<i64>> {
        let graph = copied.fusion.graph();
        copied.copies.iter().map(|copy| graph.tensor(copy.copy).stride.clone()).collect()
    }

    const fn axis(extent: i64, from: i64, to: i64) -> CopyAxis {
        CopyAxis { extent, from, to }
    }

    #[test]
    fn rows_are_padded_to_lines_sectors_or_16_bytes() {
        let bytes = [2, 16, 18, 66, 72, 102, 103, 128, 400, 414, 8190];
        assert_eq!(bytes.map(padded), [16, 16, 32, 96, 96, 128, 128, 128, 416, 512, 8192]);
    }

    #[test]
    fn images_and_filters_become_channels_last_with_padded_pixels() {
        let odd = copied(FORWARD, [33, 40], channels_last);
        assert_eq!(strides(&odd), [[48 * 64, 1, 48 * 8, 48], [48 * 9, 1, 48 * 3, 48]]);
        assert!(odd.are_boxed(MmaType::F16));
        let [image, filter] = &kernels(&odd)[..] else { panic!("two copies") };
        assert_eq!((image.unit_bytes, image.gathered), (2, 1));
        assert_eq!(image.axes, [axis(2 * 64, 33, 48), axis(33, 1, 1)]);
        assert_eq!((filter.vectors(), filter.axes[0]), (40 * 9 * 5, axis(40 * 9, 33, 48)));
        let first = copied(FORWARD, [64, 40], channels_first);
        let [image, _] = &kernels(&first)[..] else { panic!("two copies") };
        assert_eq!(image.axes, [axis(2, 64 * 64, 64 * 64), axis(64, 64, 1), axis(64, 1, 64)]);
        assert_eq!((image.gathered, image.vectors()), (1, 2 * 8 * 64));
    }

    #[test]
    fn units_are_as_large_as_rows_let_them_be() {
        let units = |channels| kernels(&copied(FORWARD, [channels, 40], channels_last))[0].clone();
        assert_eq!([33, 34, 36].map(|channels| units(channels).unit_bytes), [2, 4, 8]);
        assert_eq!(units(36).axes, [axis(2 * 64, 9, 12), axis(9, 1, 1)]);
    }

    #[test]
    fn only_what_boxes_do_not_take_is_copied() {
        use ConvolutionDirection::{BackwardData, BackwardFilter};
        // W alone, to rows of K; X alone, as DY has whole pixels
        assert_eq!(strides(&copied(BackwardData, [33, 64], channels_last)), [[1, 64 * 9, 64 * 3, 64]]);
        assert_eq!(strides(&copied(BackwardFilter, [33, 64], channels_last)), [[48 * 64, 1, 48 * 8, 48]]);
    }

    #[test]
    fn channels_of_a_filter_gradient_end_with_whole_lines_under_each_tap() {
        let copied = copied(ConvolutionDirection::BackwardFilter, [33, 64], channels_last);
        let columns = copied.problem(MmaType::F16).space.n;
        let last = columns.last().expect("channels");
        assert_eq!((last.quantity, last.extent, last.radix), (Quantity::InputChannel, 33, 48));
    }

    /// Dims and strides of the copies of `A · B`.
    fn of_matmul(a: [i64; 3], b: [i64; 3], data_type: DataType, operand: MmaType) -> Vec<(Vec<i64>, Vec<i64>)> {
        let mut graph = Graph::new().io_data_type(data_type).compute_data_type(DataType::Float);
        let operands = [("A", a), ("B", b)].map(|(name, dim)| graph.tensor(Tensor::new(name).row_major(dim)));
        let c = graph.matmul("mm", operands[0], operands[1]);
        graph.set_output(c).data_type = Some(DataType::Float);
        let fusion = fuse(Arc::new(graph.finalize().expect("well formed"))).expect("a matmul");
        let copied = CopiedOperands::ways(&fusion, fusion.product().expect("a matmul"), operand).pop();
        let Some(copied) = copied else { return Vec::new() };
        let tensor = |copy: &OperandCopy| copied.fusion.graph().tensor(copy.copy);
        copied.copies.iter().map(|copy| (tensor(copy).dim.clone(), tensor(copy).stride.clone())).collect()
    }

    #[test]
    fn a_matrix_of_all_batches_is_copied_once() {
        let copies = of_matmul([8, 64, 96], [1, 96, 67], DataType::Half, MmaType::F16);
        assert_eq!(copies, [(vec![1, 96, 67], vec![96 * 80, 80, 1])]);
        assert!(of_matmul([8, 64, 96], [1, 96, 64], DataType::Half, MmaType::F16).is_empty());
    }

    /// The matrices that both operands of a filter gradient of FLOAT, of stride 2 along rows, are unfolded to.
    fn unfolded() -> CopiedOperands {
        let mut graph = Graph::new().io_data_type(DataType::Float).compute_data_type(DataType::Float);
        let dy = graph.tensor(Tensor::new("dy").channels_last([2, 5, 4, 7]));
        let x = graph.tensor(Tensor::new("x").channels_last([2, 3, 8, 7]));
        let attributes = Convolution {
            stride: vec![2, 1],
            ..Convolution::new(ConvolutionDirection::BackwardFilter, 2).padding([1, 1])
        };
        let dw = graph.convolution("conv", attributes, [dy, x]);
        *graph.tensor_mut(dw) = Tensor::new("dw").channels_last([5, 3, 3, 3]);
        graph.set_output(dw);
        let fusion = fuse(Arc::new(graph.finalize().expect("well formed"))).expect("a convolution");
        let mut ways = CopiedOperands::ways(&fusion, fusion.product().expect("a convolution"), MmaType::Tf32);
        ways.pop().expect("operands are unfolded")
    }

    fn unfold_kernel(graph: &FinalizedGraph, copy: &OperandCopy) -> UnfoldKernel {
        let Way::Unfolded(unfolded) = &copy.way else { panic!("unfolded") };
        copy.unfold_kernel(graph, unfolded)
    }

    #[test]
    fn operands_of_a_filter_gradient_in_float_are_unfolded_along_pixels() {
        let copied = unfolded();
        let graph = copied.fusion.graph();
        let tensors: Vec<_> = copied.copies.iter().map(|copy| graph.tensor(copy.copy)).collect();
        let layouts: Vec<_> = tensors.iter().map(|tensor| (tensor.dim.clone(), tensor.stride.clone())).collect();
        let pixels = 2 * 4 * 7;
        assert_eq!(layouts[0], (vec![1, 5, pixels], vec![5 * 64, 64, 1]));
        assert_eq!(layouts[1], (vec![1, pixels, 27], vec![27 * 64, 1, 64]));
        assert_eq!(copied.problem(MmaType::Tf32).space.extents(), [1, 5, 27, pixels]);
        let x = &copied.copies[1];
        let kernel = unfold_kernel(graph, x);
        assert_eq!((kernel.vector(), kernel.neighbours, kernel.vectors()), (4, 4, 27 * 4 * 4));
        assert_eq!(kernel.rows.iter().map(|digit| digit.extent).collect::<Vec<_>>(), [3, 3, 3]);
        assert_eq!(kernel.axes[2].coordinate.terms, [(Quantity::OutputPixel(1), 2), (Quantity::Tap(1), 1)]);
        assert!(x.remark(graph).contains("so it is unfolded first, to a matrix of rows of 256 bytes"));
    }

    #[test]
    fn taps_of_neighbouring_rows_overlap_in_images_of_rows() {
        let mut graph = Graph::new().io_data_type(DataType::Float).compute_data_type(DataType::Float);
        let dy = graph.tensor(Tensor::new("dy").channels_last([2, 40, 9, 28]));
        let x = graph.tensor(Tensor::new("x").channels_last([2, 24, 10, 28]));
        let attributes = Convolution {
            pre_padding: vec![1, 1],
            post_padding: vec![2, 1],
            dilation: vec![2, 1],
            ..Convolution::new(ConvolutionDirection::BackwardFilter, 2)
        };
        let dw = graph.convolution("conv", attributes, [dy, x]);
        *graph.tensor_mut(dw) = Tensor::new("dw").channels_last([40, 24, 3, 3]);
        graph.set_output(dw);
        let fusion = fuse(Arc::new(graph.finalize().expect("well formed"))).expect("a convolution");
        let product = fusion.product().expect("a convolution");
        let copied = CopiedOperands::without_copies(&fusion, product);
        let copied = copied.unfolded_along_rows(MmaType::Tf32).expect("it is unfolded");
        assert!(copied.are_boxed(MmaType::Tf32));
        let graph = copied.fusion.graph();
        let tensors: Vec<_> = copied.copies.iter().map(|copy| graph.tensor(copy.copy)).collect();
        // rows of 28 pixels become 128 bytes; 9 rows of DY meet 13 rows of X, of which 4 lie in the padding
        let (of_dy, of_x) = (9 * 32, 13 * 32);
        assert_eq!((&tensors[0].dim[..], &tensors[0].stride[..]), (&[40, 2, of_dy][..], &[2 * of_dy, of_dy, 1][..]));
        assert_eq!(tensors[1].dim, [3, 3, 2, 24, of_dy]);
        assert_eq!(tensors[1].stride, [24 * 2 * of_x, 2 * 32, of_x, 2 * of_x, 1]);
        assert_eq!(span(tensors[1]), 3 * 24 * 2 * of_x);
        let x = &copied.copies[1];
        let kernel = unfold_kernel(graph, x);
        let rows = &kernel.axes[2].coordinate;
        assert_eq!((kernel.depth(), kernel.pitch, rows.constant, rows.bound), (2 * of_x, 2 * of_x, -1, Some(10)));
        assert_eq!(copied.problem(MmaType::Tf32).space.extents(), [1, 40, 9 * 32, 2 * of_dy]);
    }

    #[test]
    fn filter_gradients_of_16_bits_are_not_unfolded() {
        let ways = |[c, k]: [i64; 2], data_type, operand| {
            let mut graph = Graph::new().io_data_type(data_type).compute_data_type(DataType::Float);
            let dy = graph.tensor(Tensor::new("dy").channels_last([2, k, 8, 8]));
            let x = graph.tensor(Tensor::new("x").channels_last([2, c, 8, 8]));
            let attributes = Convolution::new(ConvolutionDirection::BackwardFilter, 2);
            let dw = graph.convolution("conv", attributes, [dy, x]);
            *graph.tensor_mut(dw) = Tensor::new("dw").channels_last([k, 64, 1, 1]);
            graph.set_output(dw);
            let fusion = fuse(Arc::new(graph.finalize().expect("well formed"))).expect("a convolution");
            CopiedOperands::ways(&fusion, fusion.product().expect("a convolution"), operand).len()
        };
        assert_eq!(ways([64, 64], DataType::Float, MmaType::Tf32), 1);
        assert_eq!(ways([64, 64], DataType::Half, MmaType::F16), 0);
        assert_eq!(ways([128, 64], DataType::Float, MmaType::Tf32), 1);
    }

    #[test]
    fn what_would_have_to_be_turned_is_copied_along_k() {
        let copies = of_matmul([1, 64, 96], [1, 96, 67], DataType::Fp8E4M3, MmaType::Fp8);
        assert_eq!(copies, [(vec![1, 96, 67], vec![96 * 67, 1, 96])]);
        let copies = of_matmul([1, 64, 96], [1, 96, 64], DataType::Float, MmaType::Tf32);
        assert_eq!(copies, [(vec![1, 96, 64], vec![96 * 64, 1, 96])]);
    }
}
