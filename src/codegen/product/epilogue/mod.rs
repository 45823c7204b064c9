//! Epilogues of matrix products: of a tile in shared memory, of a warp's staged pieces, or in the fragments beside boxes.

mod boxed;
mod columns;
mod inside;
mod lines;
mod staged;
mod tile;
mod total;

pub(super) use boxed::{Boxed, Places};
pub(super) use inside::Mending;
pub(super) use staged::staged;
pub(super) use tile::{accumulator_at, pitch, tile};

use std::collections::BTreeSet;

use serde::Serialize;

use super::unit::{TILE_ORIGIN, digit_definitions};
use crate::codegen::index::{Bound, all, definition_line, definition_lines, index_type, spell, within};
use crate::kernel::{
    Coordinate, Definition, GemmKernel, GemmTile, Index, Number, PartialReduction, Quantity, Role, Variable, needed,
};

/// The parts of an epilogue in the `wgmma` skeleton.
pub(super) struct EpilogueParts {
    /// What a multiplying warp declares before its first tile.
    pub(super) declarations: String,
    /// What it does with a tile before it multiplies, if anything.
    pub(super) ask: Option<String>,
    /// The epilogue of a tile.
    pub(super) body: String,
    /// What it does after its last tile, if anything.
    pub(super) finish: Option<String>,
}

/// Where a vector of points of C lies: row and column of its first point, whether it is in C, and its digits, each as far as they
/// are read.
#[derive(Serialize)]
struct PointText {
    indices: Vec<String>,
    guard: Option<String>,
    digits: Vec<String>,
}

/// Row and column of C from which points are counted.
#[derive(Clone, Copy)]
struct Origin {
    m: &'static str,
    n: &'static str,
}

impl Origin {
    /// Of the block's tile.
    const TILE: Self = Self { m: TILE_ORIGIN[0], n: TILE_ORIGIN[1] };

    /// Of what a warp takes at a time.
    const WARP: Self = Self { m: "warp_m0", n: "chunk_n0" };
}

fn index(role: Role) -> Variable {
    Variable::Of(Quantity::Index(role))
}

/// What becomes of points outside C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outside {
    /// They are passed over.
    PassedOver,
    /// What is read for them is read at the nearest point inside: loads of several points stay side by side, where a condition would keep
    /// them apart. Nothing of theirs is stored.
    Nearest,
    /// Nothing: no more is read or stored for them than boxes hold.
    Unseen,
}

impl PointText {
    /// The vector of so many points at `line` and `piece` of what is in shared memory or in a fragment.
    fn new(kernel: &GemmKernel, uses: &BTreeSet<Variable>, origin: Origin, vector: i64, outside: Outside) -> Self {
        let of_tile = if outside == Outside::Unseen { Vec::new() } else { bounds(kernel) };
        let passed_over = match outside {
            Outside::PassedOver => [of_tile.clone(), pixel_bounds(kernel)].concat(),
            Outside::Nearest | Outside::Unseen => Vec::new(),
        };
        let (m_in, n_in) = if kernel.along_n { ("line", "piece") } else { ("piece", "line") };
        let from = |origin, at| Index::local(origin) + Index::local(at);
        let mut read = uses.clone();
        read.extend(passed_over.iter().map(|bound| bound.variable));
        let digits = needed(point_definitions(kernel), &mut read);
        let indices = vec![
            Definition::new(index(Role::Row), from(origin.m, m_in)),
            Definition::new(index(Role::Column), from(origin.n, n_in)),
        ];
        let kind = index_type(kernel.wide_index);
        let along = |bound: &Bound| if (bound.variable == index(Role::Column)) == kernel.along_n { vector } else { 1 };
        let nearest = |definition: &Definition| {
            let is_its = |bound: &&Bound| outside == Outside::Nearest && bound.variable == definition.variable;
            of_tile.iter().find(is_its).map(|bound| bound.extent - along(bound))
        };
        let indices = needed(indices, &mut read);
        let indices = indices.iter().map(|definition| definition_line(kind, definition, nearest(definition))).collect();
        let digits = definition_lines(kind, &digits);
        // where more than row and column is checked, the digits tell it
        let is_index = |bound: &Bound| matches!(bound.variable, Variable::Of(Quantity::Index(_)));
        let [indices, digits] = match passed_over.iter().all(is_index) {
            true => [indices, digits],
            false => [[indices, digits].concat(), Vec::new()],
        };
        Self { indices, guard: all(&passed_over), digits }
    }
}

/// The digits of a point of C, then the coordinates that are checked.
fn point_definitions(kernel: &GemmKernel) -> Vec<Definition> {
    let mut definitions = digit_definitions(kernel, &[Role::Batch, Role::Row, Role::Column]);
    let coordinate = |of: &Coordinate| {
        let terms = of.terms.iter().map(|&(digit, scale)| Index::variable(digit) * scale);
        Definition::new(of.quantity, Index::sum(terms))
    };
    definitions.extend(kernel.bounded.iter().map(coordinate));
    definitions
}

/// Conditions under which a point of the space is one of C, where blocks of pixels reach beyond the image.
fn pixel_bounds(kernel: &GemmKernel) -> Vec<Bound> {
    let bound = |of: &Coordinate| Some(Bound { variable: Variable::Of(of.quantity), extent: of.bound? });
    kernel.bounded.iter().filter_map(bound).collect()
}

/// Short statements, some to a line.
fn statements(statements: impl Iterator<Item = String>) -> String {
    const TO_A_LINE: usize = 2;
    let all: Vec<String> = statements.collect();
    all.chunks(TO_A_LINE).map(|line| line.join(" ")).collect::<Vec<_>>().join("\n")
}

/// Number of a warp's part of a tile, of `chunks` beside each other in each of `blocks` of rows; a loop of one turn has no variable.
fn part(blocks: u32, chunks: u32) -> String {
    let rows = if blocks > 1 { Index::local("rows") } else { Index::ZERO };
    let chunk = if chunks > 1 { Index::local("chunk") } else { Index::ZERO };
    spell(&(rows * i64::from(chunks) + chunk))
}

/// Conditions under which a point is in C; none where tiles divide it and no digit is padded.
fn bounds(kernel: &GemmKernel) -> Vec<Bound> {
    let [_, m, n, _] = kernel.space.numbers();
    let checks = [(Role::Row, m, kernel.tile.m), (Role::Column, n, kernel.tile.n)];
    let ends_within = |extent: Number, block: u32| extent.is_told() || extent % i64::from(block) != 0;
    let needed = checks.into_iter().filter(|&(_, extent, block)| ends_within(extent, block));
    let padded = kernel.space.n.iter().filter(|digit| digit.is_padded());
    let padded = padded.map(|digit| Bound { variable: digit.quantity.into(), extent: digit.extent });
    needed.map(|(role, extent, _)| Bound { variable: index(role), extent }).chain(padded).collect()
}

/// Place of an accumulator in the workspace.
struct Place {
    /// Definitions of the digits that tell it.
    digits: Vec<String>,
    /// Condition under which the point is one of C, where blocks of pixels reach beyond the image.
    guard: Option<String>,
    index: String,
}

/// Place of the accumulator b, m, n of a part of k in the workspace.
fn workspace_place(kernel: &GemmKernel, place: &[(Quantity, Number)], split: &str) -> Place {
    let place = Index::sum(place.iter().map(|&(quantity, stride)| Index::variable(quantity) * stride));
    let is_index = |variable: &Variable| matches!(variable, Variable::Of(Quantity::Index(_)));
    let mut read: BTreeSet<Variable> = place.variables().into_iter().filter(|variable| !is_index(variable)).collect();
    let bounds = pixel_bounds(kernel);
    read.extend(bounds.iter().map(|bound| bound.variable));
    let digits = needed(point_definitions(kernel), &mut read);
    let index = match kernel.splits {
        1 => spell(&place),
        _ => format!("{split} * {}ull + {}", kernel.space.elements(), spell(&place)),
    };
    Place { digits: definition_lines(index_type(kernel.wide_index), &digits), guard: all(&bounds), index }
}

/// A point of C, and the part of it that gives one partial result.
struct Partial {
    /// Row and column of the point.
    point: [Index; 2],
    /// Row and column of the part among the parts.
    part: [Index; 2],
}

impl Partial {
    /// `split * kept + k` for the point, where each part of `tile` gives one partial result.
    fn spell(&self, kernel: &GemmKernel, reduction: &PartialReduction, tile: GemmTile) -> String {
        let [batch, m, n, _] = kernel.space.numbers();
        let [tiles_m, tiles_n] = tile.counts(kernel.space.numbers());
        let b = || Index::Variable(index(Role::Batch));
        let ([m_at, n_at], [block_m, block_n]) = (self.point.clone(), self.part.clone());
        let splits = [(b(), batch), (block_m, tiles_m), (block_n, tiles_n)];
        let kept = [(b(), batch), (m_at, m), (n_at, n)];
        let split = flattened(reduction.reduced, true, splits);
        let kept = flattened(reduction.reduced, false, kept);
        let wide = reduction.splits.saturating_mul(reduction.kept) > i64::from(i32::MAX);
        match (split.constant(), wide) {
            (Some(0), _) => spell(&kept),
            (_, false) => spell(&(split * reduction.kept + kept)),
            (_, true) => {
                format!("(unsigned long long){} * {} + {}", parenthesised(&split), reduction.kept, within(&kept))
            }
        }
    }
}

/// Of the indices that are, or are not, reduced: their number in mixed radix.
fn flattened(reduced: [bool; 3], wanted: bool, axes: [(Index, Number); 3]) -> Index {
    let mut step = Number::ONE;
    let mut terms = Vec::new();
    for ((index, extent), reduced) in axes.into_iter().zip(reduced).rev() {
        if reduced == wanted && extent > 1 {
            terms.push(index * step);
            step = step * extent;
        }
    }
    Index::sum(terms.into_iter().rev())
}

fn parenthesised(index: &Index) -> String {
    match index {
        Index::Constant(_) | Index::Variable(_) => spell(index),
        _ => format!("({})", spell(index)),
    }
}
