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

mod copy;
mod evaluated;
mod layout;
mod unfolded;
mod windows;

use std::sync::Arc;

pub(super) use self::copy::OperandCopy;
use self::copy::Way;
use self::evaluated::{contiguous_axis, private_stage, stored, stored_type};
use self::layout::{Layout, inner_axis, padded_strides};
use self::unfolded::{ImagesOfRows, Unfolded, filter_gradient, matrix_of};
use self::windows::Windows;
use super::operand::{boxed_as_stored, stage_program};
use super::problem::Problem;
use super::tensor_map::{Arrival, line_along_outer, step_k};
use crate::fusion::{Fusion, Product, fuse};
use crate::graph::{FinalTensor, FinalizedGraph};
use crate::kernel::MmaType;

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
    arranged: Arranged,
}

/// What copies make of a product beside another layout of its operands.
#[derive(Clone, Debug)]
enum Arranged {
    /// Nothing.
    AsItStands,
    /// A product of unfolded operands, and what it was before.
    Unfolded(Box<UnfoldedProduct>),
    /// A convolution over windows; what it was before, with k as it was.
    Windows(Box<ProductBefore>),
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
        ways.extend(self.windows(operand));
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
        Self { fusion, product, copies: Vec::new(), across_k: AcrossK::Turned, arranged: Arranged::AsItStands }
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
        let mut copied = self.across(AcrossK::Copied);
        for slot in 0..2 {
            let bytes = copied.source(slot)?.data_type.bytes() as i64;
            let (layout, unfolded) = matrix_of(&problem, slot, bytes);
            copied = copied.with_unfolded(slot, operand, layout, unfolded)?;
        }
        let before = ProductBefore::new(&self.fusion, &self.product, problem.clone());
        let unfolded = UnfoldedProduct { problem: problem.of_matrices(), before };
        Some(Self { arranged: Arranged::Unfolded(unfolded.into()), ..copied })
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
        let unfolded = UnfoldedProduct { problem: images.problem(operand), before };
        Some(Self { arranged: Arranged::Unfolded(unfolded.into()), ..copied })
    }

    /// A layer of few channels as one of windows: both operands are copied. `None` for other cores, and where windows come in no boxes.
    fn windows(&self, operand: MmaType) -> Option<Self> {
        let (graph, product) = (self.fusion.graph(), &self.product);
        let [image, filter] = product.tensors();
        self.source(0).and(self.source(1)).filter(|_| image != filter)?;
        let problem = Problem::of(graph, product);
        let windows = Windows::of(graph, product, &problem)?;
        let of_windows = graph.with_convolution(product.operation, windows.convolution());
        let mut copied = Self { fusion: fuse(Arc::new(of_windows)).ok()?, ..self.clone() };
        for (slot, (layout, unfolded)) in [windows.image(), windows.filter()].into_iter().enumerate() {
            let why = format!("pixels of '{}' have few channels", graph.tensor(image).name);
            copied = copied.with(slot, layout, Way::Unfolded(unfolded), why)?;
        }
        let before = ProductBefore::new(&self.fusion, product, problem);
        Some(Self { arranged: Arranged::Windows(before.into()), ..copied }).filter(|copied| copied.are_boxed(operand))
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
        match &self.arranged {
            Arranged::Unfolded(unfolded) => unfolded.problem.clone(),
            Arranged::AsItStands | Arranged::Windows(_) => {
                Problem::of(self.fusion.graph(), &self.product).in_columns_of(line_along_outer(operand).into())
            }
        }
    }

    /// The product before its operands were unfolded, or were windows, if they are: with k in the order in which it is planned.
    pub(super) fn before(&self, planned: &Problem) -> Option<ProductBefore> {
        match &self.arranged {
            Arranged::AsItStands => None,
            Arranged::Unfolded(unfolded) => Some(unfolded.before.clone()),
            Arranged::Windows(before) => {
                let ProductBefore { fusion, product, problem } = &**before;
                let windows = Windows::of(fusion.graph(), product, problem)?;
                let radix = planned.space.k.last()?.radix.value();
                Some(ProductBefore::new(fusion, product, windows.before(radix)))
            }
        }
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
        Some(Self { fusion, product, copies, across_k: self.across_k, arranged: self.arranged.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::super::sweep::span;
    use super::layout::padded;
    use super::*;
    use crate::graph::{Convolution, ConvolutionDirection, DataType, Graph, Tensor};
    use crate::kernel::{CopyAxis, CopyKernel, Quantity, UnfoldKernel};

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
        assert_eq!((filter.vectors(), filter.axes[0]), (40 * 9 * 6, axis(40 * 9, 33, 48)));
        let first = copied(FORWARD, [64, 40], channels_first);
        let [image, _] = &kernels(&first)[..] else { panic!("two copies") };
        assert_eq!(image.axes, [axis(2, 64 * 64, 64 * 64), axis(64, 64, 1), axis(64, 1, 64)]);
        assert_eq!((image.gathered, image.vectors()), (1, 2 * 8 * 64));
    }

    #[test]
    fn channels_before_pixels_are_copied_in_tiles() {
        let transposed = |channels| {
            let copied = copied(FORWARD, [channels, 40], channels_first);
            let [image, filter] = &copied.copies[..] else { panic!("two copies") };
            let graph = copied.fusion.graph();
            assert!(filter.transposed_kernel(graph).is_none(), "nine taps");
            image.transposed_kernel(graph)
        };
        let kernel = transposed(64).expect("tiles");
        assert_eq!((kernel.tile.axes, kernel.tile.points, kernel.tile.threads), ([1, 2], [64, 64], 256));
        assert_eq!((kernel.read, kernel.vector(), kernel.stored, kernel.blocks()), (8, 8, 64, 2));
        let kernel = transposed(33).expect("tiles");
        assert_eq!((kernel.stored, kernel.stored_along(2), kernel.blocks()), (48, 64, 2), "zeros end rows");
        assert!(transposed(15).is_none(), "few channels");
        let last = copied(FORWARD, [33, 40], channels_last);
        assert!(last.copies.iter().all(|copy| copy.transposed_kernel(last.fusion.graph()).is_none()), "one layout");
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
        assert_eq!((last.quantity, last.extent.value(), last.radix.value()), (Quantity::InputChannel, 33, 48));
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
        assert_eq!(
            (kernel.depth(), kernel.pitch, rows.constant, rows.bound),
            (2 * of_x, 2 * of_x, -1, Some(10.into()))
        );
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
