//! Spells totals of columns whose parts lie in the fragments of the accumulators: eight lanes hold parts of a column.

use serde::Serialize;

use super::total::{Total, TotalsText};
use crate::codegen::index::spell;
use crate::codegen::sections::Used;
use crate::codegen::template::{self, template};
use crate::error::Error;
use crate::kernel::{Index, Quantity, Role, Variable};

/// What `product/epilogue/columns.cuh` reads.
#[derive(Serialize)]
struct ColumnsText {
    name: String,
    /// Columns that a lane has once they are shared.
    count: u32,
    combine: &'static str,
    /// Condition under which a lane stores, if not all do, and the statement by which it stores number `e`.
    stores: Option<String>,
    store: Option<String>,
    carried: Option<CarriedText>,
}

/// Where the lane's first column is carried, and what is stored there of number `e`.
#[derive(Serialize)]
struct CarriedText {
    at: String,
    sum: String,
}

/// Fragments beside each other, of so many columns in each of `steps`.
#[derive(Clone, Copy)]
pub(super) struct Fragments {
    pub(super) columns: u32,
    pub(super) steps: u32,
    pub(super) outside: OutsideColumns,
}

/// What keeps points outside C from entering totals of columns.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum OutsideColumns {
    /// No rows are outside.
    None,
    /// All points outside are passed over.
    PassedOver,
    /// `in_c` tells of a row whether it is one of C.
    Told,
}

/// Lanes that hold parts of a column.
const LANES_OF_A_COLUMN: u32 = 8;

impl Fragments {
    /// Columns of a step of which a lane holds parts: pairs of four lanes side by side.
    pub(super) fn held(&self) -> u32 {
        const LANES_OF_A_ROW: u32 = 4;
        self.columns / LANES_OF_A_ROW
    }

    /// Columns of a step that a lane has once they are shared.
    fn shared(&self) -> u32 {
        (self.held() / LANES_OF_A_COLUMN).max(1)
    }

    /// The first of these in a step: each bit of the lane's number above those of a row halves what is left, fragments before columns
    /// of a pair.
    fn first_column(&self) -> Index {
        let lane = || Index::local("lane");
        let pair = lane() % 4 * 2;
        match self.held() {
            4 => lane() / 16 * 8 + pair + lane() / 8 % 2,
            8 => lane() / 8 * 8 + pair + lane() / 4 % 2,
            _ => lane() * 2,
        }
    }

    /// The condition under which a lane is the first that has its columns; `None` where no other has them.
    fn is_first(&self) -> Option<&'static str> {
        (self.held() < LANES_OF_A_COLUMN).then_some("lane / 4 % 2 == 0")
    }
}

/// A reduction that keeps the columns.
pub(super) struct Columns<'a> {
    pub(super) total: &'a Total<'a>,
    pub(super) fragments: Fragments,
}

impl Columns<'_> {
    /// Whether the lane keeps the parts of its rows from tile to tile.
    fn is_kept(&self) -> bool {
        self.total.reduction.carried && self.total.kernel.tuning.keeps_totals
    }

    /// Whether a step starts with the first of a fragment's two rows, whatever it is.
    fn starts_with_a_row(&self) -> bool {
        !self.is_kept() && self.fragments.outside != OutsideColumns::PassedOver
    }

    /// How point `e` of fragment `j` enters.
    pub(super) fn combined(&self, value: &str) -> String {
        let (name, combine) = (self.total.name(), self.total.combine());
        let told = self.fragments.outside == OutsideColumns::Told;
        let value = if told { format!("in_c ? {value} : {}", self.total.identity()) } else { value.to_owned() };
        let total = format!("{name}[2 * j + e]");
        match self.starts_with_a_row() {
            true if told => format!("{total} = half == 0 ? ({value}) : {combine}({total}, {value});"),
            true => format!("{total} = half == 0 ? {value} : {combine}({total}, {value});"),
            false => format!("{total} = {combine}({total}, {value});"),
        }
    }

    /// The lane's first column, of a step, or of C where totals are kept.
    fn column(&self) -> Index {
        let Fragments { columns, steps, .. } = self.fragments;
        let of_step = if steps > 1 { Index::local("step") * i64::from(columns) } else { Index::ZERO };
        match self.is_kept() {
            true => self.fragments.first_column(),
            false => Index::sum([Index::local("chunk_n0"), of_step, self.fragments.first_column()]),
        }
    }

    /// The condition under which a lane stores its columns; `None` where all do.
    fn stores(&self) -> Option<String> {
        let is_first = self.fragments.is_first().map(str::to_owned);
        let kept = self.total.reduction.kept;
        let exists = self.total.is_ragged().then(|| format!("{} < {kept}", spell(&self.column())));
        let all: Vec<String> = is_first.into_iter().chain(exists).collect();
        (!all.is_empty()).then(|| all.join(" && "))
    }

    /// What is said around a step, or around all tiles.
    ///
    /// # Errors
    /// [`Error::Generated`] if the template fails: a defect of ours.
    pub(super) fn walk(&self, used: &mut Used, record: &mut TotalsText) -> Result<(), Error> {
        used.add("fw_share_columns");
        used.add("fw_vector");
        let held = self.fragments.held();
        let declaration = match self.starts_with_a_row() {
            true => format!("float {}[{held}];", self.total.name()),
            false => self.total.identities(held),
        };
        if self.is_kept() {
            record.kept.push(declaration);
            record.finish.push(self.kept()?);
            return Ok(());
        }
        record.before_rows.push(declaration);
        if self.total.reduction.carried {
            record.cleared.push(self.total.cleared());
            record.before_rows.push(self.before());
            record.after_columns.push(self.carried()?);
        } else {
            record.after_columns.push(self.stored()?);
        }
        Ok(())
    }

    fn carried_at(&self) -> String {
        self.total.carried_at(&spell(&self.column()))
    }

    /// What the warp carries is read before it is needed.
    fn before(&self) -> String {
        let (number, count) = (self.total.number, self.fragments.shared());
        let vector = format!("fw_vector<float, {count}>");
        let read = format!("before{number} = *reinterpret_cast<const {vector}*>({});", self.carried_at());
        match self.stores() {
            Some(stores) => format!("{vector} before{number};\nif ({stores}) {read}"),
            None => format!("const {vector} {read}"),
        }
    }

    fn carried(&self) -> Result<String, Error> {
        let (number, name, combine) = (self.total.number, self.total.name(), self.total.combine());
        self.text(None, Some(format!("{combine}(before{number}.at[e], {name}[e])")))
    }

    fn kept(&self) -> Result<String, Error> {
        self.text(None, Some(format!("{}[e]", self.total.name())))
    }

    fn stored(&self) -> Result<String, Error> {
        let column = if self.fragments.shared() > 1 { self.column() + Index::local("e") } else { self.column() };
        let row = Index::Variable(Variable::Of(Quantity::Index(Role::Row)));
        let store = self.total.store([row, column], &format!("{}[e]", self.total.name()));
        self.text(Some(store), None)
    }

    fn text(&self, store: Option<String>, sum: Option<String>) -> Result<String, Error> {
        let stores = match &store {
            Some(_) => self.fragments.is_first().map(str::to_owned),
            None => self.stores(),
        };
        let record = ColumnsText {
            name: self.total.name(),
            count: self.fragments.shared(),
            combine: self.total.combine(),
            stores,
            store,
            carried: sum.map(|sum| CarriedText { at: self.carried_at(), sum }),
        };
        template::render(template!("product/epilogue/columns.cuh"), &record)
    }
}
