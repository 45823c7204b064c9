//! What a block does of a product: which tile of C, which steps of k.

use serde::Serialize;

use crate::codegen::index::{definition_lines, index_type, spell};
use crate::codegen::template::{self, template};
use crate::codegen::{names, told};
use crate::error::Error;
use crate::kernel::{
    Definition, Digit, Epilogue, GemmKernel, Index, Number, Quantity, Role, StepTail, Variable, needed,
};

/// What the records of `fma` and `mma` share.
#[derive(Serialize)]
pub(super) struct ProductText {
    threads: u32,
    accumulator: &'static str,
}

impl ProductText {
    pub(super) fn new(kernel: &GemmKernel) -> Self {
        Self {
            threads: kernel.multiply.threads(kernel.tile),
            accumulator: names::register_type(kernel.multiply.accumulator()),
        }
    }
}

/// Rows and columns of the first point of what a block, or a warp, has of C.
pub(super) const TILE_ORIGIN: [&str; 2] = ["m0", "n0"];

/// Which tile of its cluster's a block has, along m and along n.
pub(super) const RANKS: [&str; 2] = ["rank_m", "rank_n"];

/// First element of k of the mainloop's step.
pub(super) const STEP_ORIGIN: &str = "k0";

/// The steps of k that a block, or a unit of work, does.
pub(super) struct Steps<'a> {
    pub(super) kernel: &'a GemmKernel,
}

impl Steps<'_> {
    pub(super) fn each_split(&self) -> Number {
        self.kernel.steps().parts(i64::from(self.kernel.splits))
    }

    pub(super) fn are_split(&self) -> bool {
        self.kernel.splits > 1
    }

    /// Whether matrices have different numbers of steps.
    pub(super) fn are_counted(&self) -> bool {
        !self.kernel.space.counted.is_empty()
    }

    /// The function that gives the steps of matrix `b`: of its taps.
    pub(super) fn of_matrix(&self) -> String {
        let space = &self.kernel.space;
        let mut read = space.counted.iter().map(|counted| Variable::Of(counted.count)).collect();
        let b = Index::variable(Quantity::Index(Role::Batch));
        let definitions = needed(space.definitions_at(Role::Batch, &b), &mut read);
        let index = index_type(self.kernel.wide_index);
        let lines = definition_lines(index, &definitions).join("\n");
        let counts: Vec<String> =
            space.counted.iter().map(|counted| format!("int({})", names::quantity(counted.count))).collect();
        let is_counted = |digit: &&Digit| space.counted.iter().any(|counted| counted.digit == digit.quantity);
        let others: i64 = space.k.iter().filter(|digit| !is_counted(digit)).map(|digit| digit.radix.value()).product();
        let tile_k = i64::from(self.kernel.tile.k);
        let steps = format!("{} * {}", counts.join(" * "), (others + tile_k - 1) / tile_k);
        // where no tap reaches the pixels of a matrix, one step multiplies the zeros beyond the filter
        let may_be_none = space.counted.iter().any(|counted| counted.least == 0);
        let steps = if may_be_none { format!("max({steps}, 1)") } else { steps };
        format!("const auto steps_of_matrix = [&]({index} b) {{\n{lines}\nreturn {steps};\n}};")
    }

    /// Number of steps: a variable where k is cut.
    pub(super) fn count(&self) -> String {
        if self.are_split() || self.are_counted() { "steps".to_owned() } else { self.kernel.steps().to_string() }
    }

    /// Number of the last step.
    pub(super) fn last(&self) -> String {
        if self.are_split() || self.are_counted() {
            "steps - 1".to_owned()
        } else {
            (self.kernel.steps() - 1).to_string()
        }
    }

    /// The line that says which steps are those of a part of k; none where there is one part.
    pub(super) fn line(&self, split: &str) -> Option<String> {
        let (each, all) = (self.each_split(), self.kernel.steps());
        let line = || format!("const int first = {split} * {each}, steps = min({each}, {all} - first);");
        self.are_split().then(line)
    }

    /// Number of the step that `step` names, counted from k's first.
    pub(super) fn index(&self, step: &'static str) -> Index {
        let first = if self.are_split() { Index::local("first") } else { Index::ZERO };
        first + Index::local(step)
    }

    /// The condition that a step is the last along k, or under its tap.
    pub(super) fn is_tail(&self, tail: StepTail, step: &'static str) -> String {
        let index = self.index(step);
        let index = if self.kernel.steps() == tail.steps { index } else { index % tail.steps };
        format!("{} == {}", spell(&index), tail.steps - 1)
    }

    /// First element of k of the step that `step` spells, counted from the first of the part.
    fn origin(&self, step: &str) -> String {
        let index = index_type(self.kernel.wide_index);
        let step = if self.are_split() { format!("first + {step}") } else { step.to_owned() };
        let step = if step.contains(' ') { format!("({step})") } else { step };
        format!("({index}){step} * {}", self.kernel.tile.k)
    }

    /// `const unsigned k0 = (unsigned)step * 64;`
    pub(super) fn origin_line(&self, step: &str) -> String {
        format!("const {} {STEP_ORIGIN} = {};", index_type(self.kernel.wide_index), self.origin(step))
    }
}

/// What `product/place.cuh` reads.
#[derive(Serialize)]
struct PlaceText {
    index: &'static str,
    /// Which tile it is, of all matrices.
    number: String,
    matrices: Option<MatricesText>,
    raster: Option<RasterText>,
    /// Without a raster: row and column of the tile.
    block: Option<[String; 2]>,
    tile: [String; 2],
}

/// Several matrices.
#[derive(Serialize)]
struct MatricesText {
    /// Which of its tiles it is, where each has several.
    block: Option<String>,
    /// Which one it is.
    b: String,
}

/// Bands of rows of tiles that blocks walk before they step to the next column.
#[derive(Serialize)]
struct RasterText {
    rows: Number,
    /// Of which band of whole rows a tile is, and where in it.
    band: String,
    inside_band: String,
    count_m: Number,
}

impl PlaceText {
    /// Where every block stays in a column of tiles of one matrix: neighbouring blocks have different ones.
    fn of_columns(kernel: &GemmKernel, number: &str) -> Self {
        let [batch, ..] = kernel.space.numbers();
        let [_, count_n] = kernel.tile.counts(kernel.space.numbers());
        let b = remainder(&quotient(number, count_n), batch);
        let block = [quotient(number, kernel.columns()), remainder(number, count_n)];
        let cast = if kernel.wide_index { format!("({})", index_type(true)) } else { String::new() };
        let tile = [("block_m", kernel.tile.m), ("block_n", kernel.tile.n)];
        let tile = tile.map(|(name, size)| format!("{cast}{name} * {size}"));
        Self {
            index: index_type(kernel.wide_index),
            number: number.to_owned(),
            matrices: (batch > 1).then_some(MatricesText { block: None, b }),
            raster: None,
            block: Some(block),
            tile,
        }
    }
}

/// The lines that say which tile of C is a block's: matrix `b`, from row `m0` and column `n0` on; `number` is the tile's.
///
/// # Errors
/// [`Error::Generated`] if the template fails: a defect of ours.
pub(super) fn place(kernel: &GemmKernel, number: &str) -> Result<String, Error> {
    if kernel.stays_in_columns() {
        return template::render(template!("product/place.cuh"), &PlaceText::of_columns(kernel, number));
    }
    let [batch, ..] = kernel.space.numbers();
    let together = kernel.cluster.tile(kernel.tile);
    let [count_m, count_n] = kernel.counts(together);
    let tiles = count_m * count_n;
    let of_matrix = || (tiles > 1).then(|| remainder(number, tiles));
    let matrices = (batch > 1).then(|| MatricesText { block: of_matrix(), b: quotient(number, tiles) });
    let has_several = batch > 1 && tiles > 1;
    let block = if has_several { "block".to_owned() } else { number.to_owned() };
    let has_rows = count_m != Number::ONE;
    let is_raster = has_rows && count_n > 1 && kernel.raster > 1;
    // a last band may have fewer rows, and so may the only one
    let rows = Number::known(kernel.raster.into());
    let rows = if count_m.is_told() { rows } else { rows.min(count_m) };
    let raster = is_raster.then(|| RasterText {
        rows,
        band: quotient("block", rows * count_n),
        inside_band: remainder("block", rows * count_n),
        count_m,
    });
    let [block_m, block_n] = match (is_raster, has_rows, count_n.value()) {
        (true, ..) => ["block_m".to_owned(), "block_n".to_owned()],
        (false, false, 1) => ["0".to_owned(), "0".to_owned()],
        (false, false, _) => ["0".to_owned(), block.clone()],
        // One column of tiles, too, comes from a division: where the compiler knows that `n0` is 0 it hoists and unrolls what it
        // should not (`docs/performance-notes.md`).
        (false, ..) => [remainder(&block, count_m), quotient(&block, count_m)],
    };
    let index = index_type(kernel.wide_index);
    let cast = if kernel.wide_index { format!("({index})") } else { String::new() };
    let origin = |block: &str, size: u32| match block {
        "0" => "0".to_owned(),
        name if name.contains(' ') => format!("{cast}({name}) * {size}"),
        name => format!("{cast}{name} * {size}"),
    };
    let names_blocks = !is_raster && reads_blocks(kernel);
    let (at_m, at_n) = if names_blocks { ("block_m", "block_n") } else { (&*block_m, &*block_n) };
    let of_rank = |origin: String, rank: &str, blocks: u32, size: u32| match (blocks, &*origin) {
        (1, _) => origin,
        (_, "0") => format!("{rank} * {size}"),
        _ => format!("{origin} + {rank} * {size}"),
    };
    let tile = [
        of_rank(origin(at_m, together.m), RANKS[0], kernel.cluster.m, kernel.tile.m),
        of_rank(origin(at_n, together.n), RANKS[1], kernel.cluster.n, kernel.tile.n),
    ];
    let named_block = names_blocks.then(|| [block_m.clone(), block_n.clone()]);
    template::render(
        template!("product/place.cuh"),
        &PlaceText { index, number: number.to_owned(), matrices, raster, block: named_block, tile },
    )
}

/// `unit / 5u`
pub(super) fn quotient(number: &str, divisor: Number) -> String {
    match divisor {
        divisor if divisor == Number::ONE => number.to_owned(),
        divisor if divisor.is_told() => told::quotient(number, divisor),
        divisor => format!("{number} / {divisor}u"),
    }
}

/// `unit % 5u`
pub(super) fn remainder(number: &str, divisor: Number) -> String {
    if divisor.is_told() { told::remainder(number, divisor) } else { format!("{number} % {divisor}u") }
}

/// Whether partial results of reductions lie by the rows and columns of tiles.
fn reads_blocks(kernel: &GemmKernel) -> bool {
    matches!(&kernel.epilogue, Epilogue::Fused(fused) if !fused.reductions.is_empty())
}

/// Whether the tile of a block lies in C.
const IS_IN_C: &str = "is_in_c";

/// The condition that a block evaluates the epilogue of its tile: where k is shared only the first of a cluster does, and of clusters that reach beyond
/// C not all have tiles there. `None` where every block does.
pub(super) fn evaluates(kernel: &GemmKernel) -> Option<&'static str> {
    match kernel.cluster.k {
        1 => (!beyond_c(kernel).is_empty()).then_some(IS_IN_C),
        _ => Some("rank == 0"),
    }
}

/// The line that defines whether the tile of a block lies in C, where clusters may reach beyond it.
pub(super) fn is_in_c(kernel: &GemmKernel) -> Option<String> {
    let [_, rows, columns, _] = kernel.space.numbers();
    let below = |role: &Role| match role {
        Role::Row => format!("{} < {rows}", TILE_ORIGIN[0]),
        _ => format!("{} < {columns}", TILE_ORIGIN[1]),
    };
    let conditions: Vec<String> = beyond_c(kernel).iter().map(below).collect();
    (!conditions.is_empty()).then(|| format!("const bool {IS_IN_C} = {};", conditions.join(" && ")))
}

/// Whether rows, and columns, of tiles of clusters may lie beyond C.
fn beyond_c(kernel: &GemmKernel) -> Vec<Role> {
    let counts = kernel.tile.counts(kernel.space.numbers());
    let along = [(Role::Row, kernel.cluster.m), (Role::Column, kernel.cluster.n)].into_iter().zip(counts);
    let reaches = |&((_, blocks), count): &((Role, u32), Number)| {
        blocks > 1 && (count.is_told() || count.value() % i64::from(blocks) != 0)
    };
    along.filter(reaches).map(|((role, _), _)| role).collect()
}

/// The digits of some indices at the indices' variables: definitions for `needed` to choose from.
pub(super) fn digit_definitions(kernel: &GemmKernel, roles: &[Role]) -> Vec<Definition> {
    let digits = |&role: &Role| kernel.space.definitions_at(role, &Index::variable(Quantity::Index(role)));
    roles.iter().flat_map(digits).collect()
}

/// `FW_ZERO(0) FW_ZERO(1) …`, eight a line.
pub(super) fn zeros(accumulators: std::ops::Range<u32>) -> String {
    let zero = |number: u32| match number % 8 {
        0 => format!("\nFW_ZERO({number})"),
        _ => format!(" FW_ZERO({number})"),
    };
    accumulators.map(zero).collect()
}
