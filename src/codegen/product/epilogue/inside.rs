//! Spells sums of a tile that are computed once more: of products inside the operands alone.

use std::collections::BTreeSet;

use serde::Serialize;

use super::{Origin, Outside, PointText, index};
use crate::codegen::index::index_type;
use crate::codegen::names;
use crate::codegen::product::operand::Side;
use crate::codegen::product::unit::Steps;
use crate::codegen::sections::Used;
use crate::codegen::sweep::SweepSpeller;
use crate::codegen::template::{self, template};
use crate::error::Error;
use crate::graph::{DataType, FinalizedGraph};
use crate::kernel::{Access, Fetch, GemmKernel, Multiply, Operand, Role, Telling, WGMMA_ROWS};

/// What `product/epilogue/inside_sum.cuh` reads.
#[derive(Serialize)]
struct SumText {
    index: &'static str,
    /// The part of k.
    first: String,
    last: String,
    factors: Vec<FactorText>,
}

/// An operand's element of a product.
#[derive(Serialize)]
struct FactorText {
    /// Definitions of its coordinates, and the condition under which it exists.
    lines: Vec<String>,
    guard: Option<String>,
    values: Vec<String>,
    value: String,
}

/// What `product/epilogue/inside.cuh` reads: sums in shared memory.
#[derive(Serialize)]
struct InsideText<'a> {
    #[serde(flatten)]
    sums: &'a SharedSums,
    /// Lines and points of a line.
    lines: u32,
    points: u32,
    /// Sums that tell, and line and point of number `i` of them.
    told: u32,
    told_line: String,
    told_point: String,
    point: PointText,
    sum: String,
}

/// Sums of a tile, or of a part of it, in shared memory.
#[derive(Serialize)]
pub(super) struct SharedSums {
    /// The array, and the place in it of what lies at `line` and `piece`.
    pub(super) array: &'static str,
    pub(super) at: String,
    /// The thread's number, of how many that share the sums.
    pub(super) thread: &'static str,
    pub(super) threads: u32,
    /// Function by which they agree, and that by which they wait for each other.
    pub(super) agree: &'static str,
    pub(super) wait: &'static str,
    /// Rows and columns.
    #[serde(skip)]
    pub(super) extents: [u32; 2],
    #[serde(skip)]
    pub(super) origin: SharedOrigin,
}

/// What shared memory holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SharedOrigin {
    /// A block's tile.
    Tile,
    /// A warp's piece of one.
    Piece,
}

/// What `product/epilogue/boxed_inside.cuh` reads: sums in fragments.
#[derive(Serialize)]
struct FragmentsText {
    index: &'static str,
    /// Blocks of 64 rows that a warp has rows of, fragments of one and of all, and the warp's first row in one.
    blocks: u32,
    fragments_of_a_block: u32,
    fragments: u32,
    warp_row: String,
    /// How sums that tell are looked at, how all are taken, and how they are given back.
    tell: Vec<String>,
    takes: Vec<String>,
    gives: Vec<String>,
    point: PointText,
    sum: String,
}

/// The sums of a product that are computed once more.
pub(super) struct Again<'a> {
    pub(super) graph: &'a FinalizedGraph,
    pub(super) kernel: &'a GemmKernel,
}

impl Again<'_> {
    /// The lines for sums in shared memory, none where no zero lies outside.
    ///
    /// # Errors
    /// [`Error::Generated`] if a template fails: a defect of ours.
    pub(super) fn shared(&self, used: &mut Used, sums: &SharedSums) -> Result<Option<String>, Error> {
        let kernel = self.kernel;
        let Some(telling) = kernel.telling else { return Ok(None) };
        let [rows, columns] = sums.extents;
        let (lines, points) = if kernel.along_n { (rows, columns) } else { (columns, rows) };
        let is_line = (telling == Telling::Row) == kernel.along_n;
        let (told, told_line, told_point) = match telling {
            Telling::All => (lines * points, format!("i / {points}"), format!("i % {points}")),
            _ if is_line => (points, "0".to_owned(), "i".to_owned()),
            _ => (lines, "i".to_owned(), "0".to_owned()),
        };
        let origin = if sums.origin == SharedOrigin::Tile { Origin::TILE } else { Origin::WARP };
        let record = InsideText {
            sums,
            lines,
            points,
            told,
            told_line,
            told_point,
            point: self.point(origin),
            sum: self.sum(used)?,
        };
        template::render(template!("product/epilogue/inside.cuh"), &record).map(Some)
    }

    /// The lines for all fragments of a warp, from a first accumulator on.
    ///
    /// # Errors
    /// [`Error::Generated`] if a template fails: a defect of ours.
    pub(super) fn fragments(&self, used: &mut Used, first_sum: u32, warp_row: &str) -> Result<Option<String>, Error> {
        let Some(telling) = self.kernel.telling else { return Ok(None) };
        let (multiply, tile) = (&self.kernel.multiply, self.kernel.tile);
        let (take, give) = (names::take_function(multiply), names::give_function(multiply));
        used.add(give);
        let blocks = multiply.consumer_rows(tile) / WGMMA_ROWS;
        let of_a_block = tile.n / 8;
        let accumulator = |fragment: u32| first_sum + multiply.fragment_registers() * fragment;
        let all = 0..blocks * of_a_block;
        let tells = |fragment: &u32| match telling {
            Telling::Row => *fragment < of_a_block,
            Telling::Column => fragment.is_multiple_of(of_a_block),
            Telling::All => true,
        };
        let told: &[&str] = match telling {
            Telling::Row => &["told = fmaf(take[0], take[1], told);"],
            Telling::Column => &["told = fmaf(take[0], take[2], told);"],
            Telling::All => &["told = fmaf(take[0], take[1], told);", "told = fmaf(take[2], take[3], told);"],
        };
        let tell = |fragment| format!("{take}<{}>(take); {}", accumulator(fragment), told.join(" "));
        let lines = |function: &str| -> Vec<String> {
            let line = |fragment| format!("{function}<{}>(again[{fragment}]);", accumulator(fragment));
            all.clone().map(line).collect()
        };
        let record = FragmentsText {
            index: index_type(self.kernel.wide_index),
            blocks,
            fragments_of_a_block: of_a_block,
            fragments: blocks * of_a_block,
            warp_row: warp_row.to_owned(),
            tell: all.clone().filter(tells).map(tell).collect(),
            takes: lines(take),
            gives: lines(give),
            point: self.point(Origin::WARP),
            sum: self.sum(used)?,
        };
        template::render(template!("product/epilogue/boxed_inside.cuh"), &record).map(Some)
    }

    /// Row and column of C at `line` and `piece`.
    fn point(&self, origin: Origin) -> PointText {
        let uses = BTreeSet::from([index(Role::Row), index(Role::Column)]);
        PointText::new(self.kernel, &uses, origin, 1, Outside::PassedOver)
    }

    /// The sum of row `m` and column `n`, as `inside`.
    fn sum(&self, used: &mut Used) -> Result<String, Error> {
        let kernel = self.by_elements();
        let index = index_type(kernel.wide_index);
        let [.., k] = kernel.space.extents();
        let tile_k = kernel.tile.k;
        let (first, last) = match kernel.multiply {
            Multiply::Fma(_) => ("first".to_owned(), "last".to_owned()),
            _ if (Steps { kernel: &kernel }).are_split() => {
                (format!("({index})first * {tile_k}"), format!("({index})(first + steps) * {tile_k}"))
            }
            _ => ("0".to_owned(), k.to_string()),
        };
        let factor = |slot| self.factor(used, Side { graph: self.graph, kernel: &kernel, slot });
        let record = SumText { index, first, last, factors: [0, 1].map(factor).into() };
        template::render(template!("product/epilogue/inside_sum.cuh"), &record)
    }

    /// The same product with operands that are read, and computed, element by element.
    fn by_elements(&self) -> GemmKernel {
        let mut kernel = self.kernel.clone();
        if let Some(unfolded) = kernel.unfolded.take() {
            (kernel.a, kernel.b, kernel.space.k) = (unfolded.a, unfolded.b, unfolded.k);
        }
        for operand in [&mut kernel.a, &mut kernel.b] {
            operand.fetch = Fetch::Element;
            operand.sweep.vector = 1;
            let vectors = operand.sweep.access.values_mut().filter(|access| **access == Access::Vector);
            vectors.for_each(|access| *access = Access::Strided);
        }
        kernel
    }

    fn factor(&self, used: &mut Used, side: Side<'_>) -> FactorText {
        let Operand { tensor, coordinates, sweep, .. } = side.operand();
        used.add(names::storage_section(DataType::Float));
        let variables = coordinates.iter().map(|coordinate| coordinate.quantity);
        let mut speller = SweepSpeller::new(self.graph, used, sweep, &[]).with_variables(variables);
        speller.speller.consume(*tensor);
        let (before, body) = speller.values_alone();
        let value = format!("fw_to_f32({})", speller.speller.value(*tensor));
        let placement = side.placement(&speller.uses);
        FactorText { lines: placement.lines, guard: placement.guard, values: [before, body].concat(), value }
    }
}
