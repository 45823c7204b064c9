//! Spells reductions of a warp's part of C: what a lane adds up, and how lanes share their totals.

use serde::Serialize;

use super::Partial;
use super::columns::{Columns, Fragments};
use crate::codegen::index::spell;
use crate::codegen::names;
use crate::codegen::sections::Used;
use crate::codegen::sweep::mapped;
use crate::codegen::template::{self, template};
use crate::error::Error;
use crate::kernel::{
    CONSUMER_WARPS, GemmKernel, GemmTile, Index, PartialReduction, Quantity, Role, Variable, WARPGROUP,
};

/// Around the loops over a warp's part: before the rows are walked, before their columns are, after those, and after the
/// rows; in fragments the first and the third of these around a step.
#[derive(Default, Serialize)]
pub(super) struct TotalsText {
    /// What a warp clears or declares before its first tile, and does after its last.
    #[serde(skip)]
    pub(super) cleared: Vec<String>,
    #[serde(skip)]
    pub(super) kept: Vec<String>,
    #[serde(skip)]
    pub(super) finish: Vec<String>,
    pub(super) before_rows: Vec<String>,
    pub(super) before_columns: Vec<String>,
    pub(super) after_columns: Vec<String>,
    pub(super) after_rows: Vec<String>,
}

impl TotalsText {
    /// What a warp declares before its first tile, after other declarations.
    pub(super) fn declared_after(&self, others: String) -> String {
        let seen = (!self.cleared.is_empty()).then(|| "__syncwarp();".to_owned());
        let all = [&[others], &self.kept[..], &self.cleared[..]].concat().into_iter().chain(seen);
        all.collect::<Vec<_>>().join("\n")
    }
}

/// What `product/epilogue/totals.cuh` reads: totals that lanes share and store.
#[derive(Serialize)]
struct SharedText {
    name: String,
    count: u32,
    /// The lanes that hold a total's parts differ in these bits of their numbers.
    from: u32,
    to: u32,
    combine: &'static str,
    /// Condition under which a lane stores, and the statement by which it stores `sum`.
    stores: String,
    store: String,
}

/// What `product/epilogue/carried.cuh` reads: totals of columns that a warp carries from tile to tile.
#[derive(Serialize)]
struct CarriedText {
    name: String,
    count: u32,
    from: u32,
    to: u32,
    combine: &'static str,
    /// Where the lane's first column is carried, and the lanes that do.
    carried: String,
    stores: String,
}

/// Which elements a lane holds.
#[derive(Clone, Copy)]
pub(super) enum Lanes {
    /// Vectors, lane by lane: `vectors` of a piece, in so many passes; `line_vectors` of a line of it.
    Vectors { vector: u32, vectors: u32, passes: u32, line_vectors: u32 },
    /// Pairs of columns of two rows, as fragments of the accumulators lie.
    Fragments(Fragments),
}

/// A reduction in a warp: which lanes hold what, and when it is complete.
pub(super) struct Total<'a> {
    pub(super) kernel: &'a GemmKernel,
    pub(super) reduction: &'a PartialReduction,
    /// Which of the kernel's reductions it is.
    pub(super) number: usize,
    pub(super) lanes: Lanes,
}

/// Lanes that share a total.
struct Sharing {
    from: u32,
    to: u32,
    /// Row or column of a lane's total `e`, and whether the lane is the first that holds it.
    at: Index,
    first: String,
}

/// Row and column of a point.
const POINT: [Variable; 2] = [Variable::Of(Quantity::Index(Role::Row)), Variable::Of(Quantity::Index(Role::Column))];

impl Total<'_> {
    /// The variables that a point is stored by, where each gives a partial result.
    pub(super) fn uses(&self) -> impl Iterator<Item = Variable> {
        let is_stored = matches!(self.reduction.reduced, [_, false, false]);
        POINT.into_iter().filter(move |_| is_stored)
    }

    /// Totals a lane holds: one; one for each of its rows; one for each column of its vector.
    fn count(&self) -> u32 {
        match self.reduction.reduced {
            [_, true, true] => 1,
            [_, false, true] => self.lanes.rows(),
            [_, true, false] => self.lanes.columns(),
            [_, false, false] => 0,
        }
    }

    pub(super) fn name(&self) -> String {
        format!("total{}", self.number)
    }

    pub(super) fn combine(&self) -> &'static str {
        names::combine_function(self.reduction.accumulation.combine)
    }

    /// How a point enters; `point` is its place in the vector.
    pub(super) fn combined(&self, used: &mut Used, value: String, point: &'static str) -> String {
        used.add(self.combine());
        let value = mapped(used, self.reduction.accumulation.map, value);
        if let Some(columns) = self.in_fragments() {
            return columns.combined(&value);
        }
        let at = match self.reduction.reduced {
            [_, true, true] => "0",
            [_, false, true] => self.lanes.row(),
            [_, true, false] => point,
            [_, false, false] => {
                let [m, n] = POINT.map(Index::Variable);
                let n = if point == "0" { n } else { n + Index::local(point) };
                return self.store([m, n], &value);
            }
        };
        let (name, combine) = (self.name(), self.combine());
        format!("{name}[{at}] = {combine}({name}[{at}], {value});")
    }

    /// The value that combining leaves unchanged.
    pub(super) fn identity(&self) -> String {
        names::combine_identity(self.reduction.accumulation.combine)
    }

    /// Its columns, where their parts lie in fragments.
    fn in_fragments(&self) -> Option<Columns<'_>> {
        match (self.lanes, self.reduction.reduced) {
            (Lanes::Fragments(fragments), [_, true, false]) => Some(Columns { total: self, fragments }),
            _ => None,
        }
    }

    /// `partial0[…] = …` for the element m, n.
    pub(super) fn store(&self, [m, n]: [Index; 2], value: &str) -> String {
        let [_, rows, columns, _] = self.kernel.space.numbers();
        let part_rows = self.kernel.multiply.staged(self.kernel.tile, true)[0];
        let tile = GemmTile { m: part_rows, ..self.kernel.tile };
        let warp_m0 = || Index::local("warp_m0");
        let inside = match self.reduction.reduced {
            [_, true, true] => Some(format!("warp_m0 < {rows}")),
            [_, false, true] => Some(format!("{} < {rows}", spell(&m))),
            [_, true, false] => Some(format!("warp_m0 < {rows} && {} < {columns}", spell(&n))),
            [_, false, false] => None,
        };
        let part = [warp_m0() / i64::from(part_rows), Index::local("block_n")];
        let index = Partial { point: [m, n], part }.spell(self.kernel, self.reduction, tile);
        let store = format!("partial{}[{index}] = {value};", self.number);
        inside.map_or(store.clone(), |inside| format!("if ({inside}) {store}"))
    }

    /// What is said around the loops.
    ///
    /// # Errors
    /// [`Error::Generated`] if the template fails: a defect of ours.
    pub(super) fn walk(&self, used: &mut Used, record: &mut TotalsText) -> Result<(), Error> {
        if let Some(columns) = self.in_fragments() {
            return columns.walk(used, record);
        }
        if self.count() == 0 {
            return Ok(());
        }
        used.add("fw_lanes_total");
        let declaration = self.identities(self.count());
        let [m, n] = POINT.map(Index::Variable);
        match self.reduction.reduced {
            [_, true, true] => {
                record.before_columns.push(declaration);
                record.after_rows.push(self.shared(16, 1, "lane == 0", self.store([m, n], "sum"))?);
            }
            [_, false, true] => {
                record.before_columns.push(declaration);
                let Sharing { from, to, at, first } = self.lanes.sharing_row();
                record.after_rows.push(self.shared(from, to, &first, self.store([at, n], "sum"))?);
            }
            _ if self.reduction.carried => {
                record.cleared.push(self.cleared());
                record.before_rows.push(declaration);
                record.after_columns.push(self.carried(used)?);
            }
            _ => {
                record.before_rows.push(declaration);
                let Sharing { from, to, at, first } = self.lanes.sharing_column(self.count());
                record.after_columns.push(self.shared(from, to, &first, self.store([m, at], "sum"))?);
            }
        }
        Ok(())
    }

    /// `float total0[2] = {0.0f, 0.0f};`
    pub(super) fn identities(&self, count: u32) -> String {
        let identities = vec![self.identity(); count as usize].join(", ");
        format!("float {}[{count}] = {{{identities}}};", self.name())
    }

    /// Elements from the first partial result to those of the warp.
    fn warp_offset(&self) -> String {
        format!("(blockIdx.x * {CONSUMER_WARPS} + warp - {}) * {}", WARPGROUP / 32, self.reduction.kept)
    }

    /// Where the warp carries a column.
    pub(super) fn carried_at(&self, column: &str) -> String {
        format!("partial{} + {} + {column}", self.number, self.warp_offset())
    }

    /// Whether some tiles have columns that are none of C.
    pub(super) fn is_ragged(&self) -> bool {
        self.reduction.kept % i64::from(self.kernel.tile.n) != 0
    }

    /// The line that clears what the warp carries.
    pub(super) fn cleared(&self) -> String {
        let (number, kept, identity, offset) = (self.number, self.reduction.kept, self.identity(), self.warp_offset());
        format!("for (unsigned i = lane; i < {kept}; i += 32) partial{number}[{offset} + i] = {identity};")
    }

    /// Shares the totals of columns among lanes, and adds them to those that the warp carries.
    fn carried(&self, used: &mut Used) -> Result<String, Error> {
        let Sharing { from, to, first, .. } = self.lanes.sharing_column(self.count());
        let (columns, count) = (self.reduction.kept, self.count());
        let column = format!("chunk_n0 + lane * {count}");
        let exists = if self.is_ragged() { format!(" && {column} < {columns}") } else { String::new() };
        used.add("fw_vector");
        let record = CarriedText {
            name: self.name(),
            count,
            from,
            to,
            combine: self.combine(),
            carried: self.carried_at(&column),
            stores: first + &exists,
        };
        template::render(template!("product/epilogue/carried.cuh"), &record)
    }

    fn shared(&self, from: u32, to: u32, stores: &str, store: String) -> Result<String, Error> {
        let record = SharedText {
            name: self.name(),
            count: self.count(),
            from,
            to,
            combine: self.combine(),
            stores: stores.to_owned(),
            store,
        };
        template::render(template!("product/epilogue/totals.cuh"), &record)
    }
}

impl Lanes {
    /// Rows of which a lane holds elements.
    fn rows(self) -> u32 {
        match self {
            Self::Vectors { passes, .. } => passes,
            Self::Fragments(_) => 2,
        }
    }

    /// Columns of which a lane holds elements, at a time.
    fn columns(self) -> u32 {
        match self {
            Self::Vectors { vector, .. } => vector,
            Self::Fragments(fragments) => fragments.held(),
        }
    }

    /// Which of its rows a lane is at.
    fn row(self) -> &'static str {
        match self {
            Self::Vectors { passes: 1, .. } => "0",
            Self::Vectors { .. } => "pass",
            Self::Fragments(_) => "half",
        }
    }

    /// Neighbouring lanes that share a row.
    fn sharing_row(self) -> Sharing {
        let (warp_m0, e, lane) = (Index::local("warp_m0"), Index::local("e"), Index::local("lane"));
        match self {
            Self::Vectors { vectors, line_vectors, passes, .. } => {
                let all = if vectors < 32 { format!(" && lane < {vectors}") } else { String::new() };
                let number = if passes > 1 { e * 32 + lane } else { lane };
                let at = warp_m0 + number / i64::from(line_vectors);
                Sharing { from: line_vectors / 2, to: 1, at, first: format!("lane % {line_vectors} == 0{all}") }
            }
            Self::Fragments(_) => {
                Sharing { from: 2, to: 1, at: warp_m0 + lane / 4 + e * 8, first: "lane % 4 == 0".to_owned() }
            }
        }
    }

    /// Lanes at the same place of their lines, which share columns; each holds `columns` of them.
    fn sharing_column(self, columns: u32) -> Sharing {
        let line_vectors = match self {
            Self::Vectors { line_vectors, .. } => line_vectors,
            Self::Fragments(_) => 4,
        };
        let first = Index::local("lane") % i64::from(line_vectors) * i64::from(columns);
        let e = if columns > 1 { Index::local("e") } else { Index::ZERO };
        let at = Index::local("chunk_n0") + first + e;
        Sharing { from: 16, to: line_vectors, at, first: format!("lane < {line_vectors}") }
    }
}
