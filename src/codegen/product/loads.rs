//! Spells the loads of the operands' boxes: where each begins in its tensor, and where it lies in a stage.

use std::collections::BTreeSet;

use serde::Serialize;

use super::operand::Side;
use super::unit::{RANKS, STEP_ORIGIN, Steps, TILE_ORIGIN};
use crate::codegen::index::{definition_lines, index_type, spell, spell_with};
use crate::codegen::names;
use crate::kernel::{ClusterShape, Coordinate, Fetch, Index, Number, Quantity, Role, TensorMap, Variable, needed};

/// Bytes that rows of boxes begin at, and are, multiples of.
const UNIT: u32 = 16;

/// The loads of a stage, with the digits that tell where boxes begin.
pub(super) struct BoxLoads {
    /// What is the same in all steps of a tile.
    pub(super) of_tile: Vec<String>,
    /// What a step changes, or each of its blocks, which are walked from here on.
    pub(super) of_step: Vec<String>,
    pub(super) sides: Vec<LoadsText>,
    /// The end of the walk over blocks, if there is one.
    pub(super) end: Option<&'static str>,
}

/// An operand's boxes.
#[derive(Serialize)]
pub(super) struct LoadsText {
    title: String,
    loads: Vec<String>,
}

/// The operands that come in boxes, to a stage whose number and barrier's name are spelled.
pub(super) struct Boxed<'a> {
    pub(super) sides: Vec<Side<'a>>,
    pub(super) barrier: &'static str,
    pub(super) stage: &'static str,
    /// Number of a step.
    pub(super) step: &'static str,
}

impl Boxed<'_> {
    /// Their loads.
    pub(super) fn loads(&self) -> BoxLoads {
        let sides = self.sides.iter().map(|side| {
            let title = format!("{}: {}", side.name().to_uppercase(), side.graph.canonical_name(side.operand().tensor));
            let stays = side.is_stationary();
            let barrier = match stays {
                true => format!("arrived_b + 8 * {}", self.step),
                false => format!("{} + 8 * {}", self.barrier, self.stage),
            };
            let lines = OperandLoads { side: *side, number: side.map_number(), barrier }.lines();
            let once = |lines: Vec<String>| {
                ["if (is_first) {".to_owned()].into_iter().chain(lines).chain(["}".to_owned()]).collect()
            };
            LoadsText { title, loads: if stays { once(lines) } else { lines } }
        });
        let end = (self.blocks() > 1).then_some("}");
        BoxLoads { of_tile: self.tile_digits(), of_step: self.step_digits(), sides: sides.collect(), end }
    }

    /// Blocks of k that a step has: boxes for each.
    fn blocks(&self) -> u32 {
        self.sides.first().map_or(1, Side::blocks)
    }

    /// Digits of the batch, and of the first row and column of a tile.
    fn tile_digits(&self) -> Vec<String> {
        let Some(side) = self.sides.first() else { return Vec::new() };
        let mut used = self.digits(|side| !side.walks_columns());
        used.extend(side.kernel.space.counted.iter().map(|counted| Variable::Of(counted.count)));
        let origin = |role| match role {
            Role::Row => Index::local(TILE_ORIGIN[0]),
            Role::Column => Index::local(TILE_ORIGIN[1]),
            role => Index::variable(Quantity::Index(role)),
        };
        let roles = [Role::Batch, Role::Row, Role::Column];
        let digits = roles.into_iter().flat_map(|role| side.kernel.space.definitions_at(role, &origin(role)));
        definition_lines(index_type(side.kernel.wide_index), &needed(digits.collect(), &mut used))
    }

    /// The first k of a step, and its digits.
    fn step_digits(&self) -> Vec<String> {
        let Some(side) = self.sides.first() else { return Vec::new() };
        if (Steps { kernel: side.kernel }).are_counted() {
            return self.counted_digits(side);
        }
        if self.blocks() > 1 {
            return self.block_digits(side);
        }
        let mut used = self.digits(|_| true);
        let first = match side.kernel.wide_index {
            true => Index::local(STEP_ORIGIN),
            false => Steps { kernel: side.kernel }.index(self.step) * i64::from(side.kernel.tile.k),
        };
        let digits = needed(side.kernel.space.definitions_at(Role::Sum, &first), &mut used);
        definition_lines(index_type(side.kernel.wide_index), &digits)
    }

    /// The first k of a block, and its digits, in a loop over the blocks of a step.
    fn block_digits(&self, side: &Side<'_>) -> Vec<String> {
        let (blocks, index) = (self.blocks(), index_type(side.kernel.wide_index));
        let block_k = i64::from(side.kernel.tile.k / blocks);
        let number = Steps { kernel: side.kernel }.index(self.step) * i64::from(blocks) + Index::local("block_k");
        let first = spell(&number);
        let mut lines = vec![
            "#pragma unroll".to_owned(),
            format!("for (unsigned block_k = 0; block_k < {blocks}; ++block_k) {{"),
            format!("const {index} {STEP_ORIGIN} = ({index})({first}) * {block_k};"),
        ];
        let mut used = self.digits(|_| true);
        let definitions = side.kernel.space.definitions_at(Role::Sum, &Index::local(STEP_ORIGIN));
        let mut definitions = needed(definitions, &mut used);
        if let Some((digit, values)) = last_tap(side)
            && let Some(first) = definitions.iter().find(|definition| definition.variable == Variable::Of(digit))
        {
            // the last blocks may lie beyond the last tap
            let name = names::quantity(digit);
            lines.push(format!("const {index} all_taps = {};", spell(&first.value)));
            lines.push(format!("const {index} {name} = min(all_taps, ({index}){});", values - 1));
            definitions.retain(|definition| definition.variable != Variable::Of(digit));
        }
        lines.extend(definition_lines(index, &definitions));
        lines
    }

    /// The digits of a step where the number of taps depends on the matrix: channels are the innermost.
    fn counted_digits(&self, side: &Side<'_>) -> Vec<String> {
        let space = &side.kernel.space;
        let mut rest = self.step.to_owned();
        let mut lines = Vec::new();
        for (number, digit) in space.k.iter().enumerate().rev() {
            let name = names::quantity(digit.quantity);
            let is_channel = number + 1 == space.k.len();
            let each = if is_channel { i64::from(side.kernel.tile.k) } else { 1 };
            let count = space.counted.iter().find(|counted| counted.digit == digit.quantity);
            let count = count
                .map_or((digit.radix.value() / each).to_string(), |counted| names::quantity(counted.count).to_owned());
            let value = match (number, is_channel) {
                (0, true) => format!("{rest} * {each}"),
                (0, false) => rest.clone(),
                (_, true) => format!("{rest} % {count} * {each}"),
                (_, false) => format!("{rest} % {count}"),
            };
            lines.push(format!("const unsigned {name} = {value};"));
            if number > 0 {
                lines.push(format!("const unsigned above_{name} = {rest} / {count};"));
                rest = format!("above_{name}");
            }
        }
        lines
    }

    /// Whether a box begins at a place that is told by k as a whole.
    pub(super) fn takes_k(&self) -> bool {
        let is_wide = self.sides.iter().any(|side| side.kernel.wide_index);
        self.blocks() == 1 && (is_wide || self.used(|_| true).contains(&Variable::Of(Quantity::Index(Role::Sum))))
    }

    /// As [`Self::used`], but for the indices that a tile and a step begin at themselves.
    fn digits(&self, wanted: impl Fn(&Side<'_>) -> bool) -> BTreeSet<Variable> {
        let is_index = |variable: &Variable| matches!(variable, Variable::Of(Quantity::Index(_)));
        self.used(wanted).into_iter().filter(|variable| !is_index(variable)).collect()
    }

    /// Variables that tell where boxes of some sides begin.
    fn used(&self, wanted: impl Fn(&Side<'_>) -> bool) -> BTreeSet<Variable> {
        let starts = self.sides.iter().filter(|side| wanted(side)).map(|side| &side.operand().start);
        let coordinates = starts.flat_map(|start| start.coordinates.iter().chain(&start.taps));
        coordinates.flat_map(|coordinate| &coordinate.terms).map(|term| Variable::Of(term.0)).collect()
    }
}

/// The loads of one operand.
struct OperandLoads<'a> {
    side: Side<'a>,
    /// Of the map.
    number: usize,
    barrier: String,
}

impl OperandLoads<'_> {
    /// A box of up to 256 rows of k or, one after the other, columns of lines of m or n.
    fn lines(&self) -> Vec<String> {
        let operand = self.side.operand();
        let Some(map) = operand.map() else { return Vec::new() };
        let stage = &self.side.kernel.shared.stage;
        let slot = self.side.slot;
        let offset = match operand.fetch {
            _ if self.side.is_stationary() => 0,
            Fetch::Tma(_) => stage.tiles[slot],
            _ => stage.raw[slot],
        };
        let columns = self.side.columns(&map);
        let is_whole = operand.boxes_along_k() && columns == 1;
        let lines = if is_whole { self.side.block() } else { map.box_dims[1] };
        let box_bytes = self.side.taps() * lines * map.span() * map.element.bytes();
        let column_bytes = box_bytes * self.side.blocks();
        let block = if self.side.blocks() > 1 { format!(" + block_k * {box_bytes}") } else { String::new() };
        if self.side.walks_columns() {
            return self.walk(&map, columns, &format!("{offset}{block}"), column_bytes);
        }
        let load = |column: u32| {
            let at = match offset + column * column_bytes {
                0 => format!("{}{block}", self.tile()),
                at => format!("{} + {at}{block}", self.tile()),
            };
            let load = self.load(&map, &at, column * map.span());
            match self.side.edge_number() {
                Some(_) if column > 0 => format!("if ({} > {}) {load}", self.side.inside(), column * map.span()),
                _ => load,
            }
        };
        (0..columns).map(load).collect()
    }

    /// Where the tile begins.
    fn tile(&self) -> &'static str {
        if self.side.is_stationary() { "tile_b" } else { "tile" }
    }

    /// A loop over columns, of which each has digits of its own.
    fn walk(&self, map: &TensorMap, columns: u32, offset: &str, column_bytes: u32) -> Vec<String> {
        let (side, kernel) = (&self.side, self.side.kernel);
        let role = Role::outer(side.slot);
        let first =
            Index::local(TILE_ORIGIN[side.slot]) + Index::local("column") * i64::from(side.elements_of_column(map));
        let mut used = side.operand().start.coordinates.iter().chain(&side.operand().start.taps);
        let mut used = used.by_ref().flat_map(|start| &start.terms).map(|term| Variable::Of(term.0)).collect();
        let digits = needed(kernel.space.definitions_at(role, &first), &mut used);
        // the digits of all columns at once are more than a loading thread has registers: 16 of them spilled 296 bytes
        const MANY_COLUMNS: u32 = 8;
        let unroll = if columns > MANY_COLUMNS { "#pragma unroll 4" } else { "#pragma unroll" };
        let mut lines = vec![unroll.to_owned(), format!("for (unsigned column = 0; column < {columns}; ++column) {{")];
        lines.extend(definition_lines(index_type(kernel.wide_index), &digits));
        lines.push(self.load(map, &format!("{} + {offset} + column * {column_bytes}", self.tile()), 0));
        lines.push("}".to_owned());
        lines
    }

    /// The load of a box, of a column of lines that begins at element `first` of the tile.
    fn load(&self, map: &TensorMap, at: &str, first: u32) -> String {
        let start = &self.side.operand().start;
        let mut coordinates = Vec::new();
        for (position, coordinate) in start.coordinates.iter().enumerate() {
            let beyond = if position == 0 { i64::from(first) } else { 0 };
            let spelled = spelled(coordinate, beyond);
            coordinates.push(match last_tap(&self.side) {
                Some((_, taps)) if self.ends_with_taps(position) => {
                    format!("all_taps < {taps} ? {spelled} : {}", outside(map, position))
                }
                _ => spelled,
            });
        }
        coordinates.extend(start.taps.iter().map(|tap| match self.side.falls_below_zero(tap) {
            true => format!("max({}, 0)", spelled(tap, 0)),
            false => spelled(tap, 0),
        }));
        let cluster = self.side.kernel.cluster;
        let (sharers, rank) = (cluster.sharers(self.side.slot), RANKS[1 - self.side.slot]);
        if sharers > 1 {
            let lines = map.box_dims[1] / sharers;
            let bytes = lines * map.span() * map.element.bytes();
            coordinates[1] = format!("{} + {rank} * {lines}", coordinates[1]);
            let (map, mask) = (self.map(map, first), receivers(cluster, self.side.slot));
            let (barrier, coordinates) = (&self.barrier, coordinates.join(", "));
            return format!("fw_tma_load_multicast({at} + {rank} * {bytes}, {map}, {barrier}, {mask}, {coordinates});");
        }
        let function = if map.pixels.is_some() { "fw_tma_load_im2col" } else { "fw_tma_load" };
        format!("{function}({at}, {}, {}, {});", self.map(map, first), self.barrier, coordinates.join(", "))
    }

    /// The map of a box: another at the edge of C, and in the last step, where it differs; boxes at the edge are whole along k then.
    fn map(&self, map: &TensorMap, first: u32) -> String {
        let (side, inside) = (&self.side, self.side.inside());
        let end = if side.operand().boxes_along_k() { side.block() } else { first + map.span() };
        let edge = side.edge_number().map(|edge| format!("{inside} < {end} ? &map{edge} : "));
        let tail = side.tail_number().map(|tail| match edge.is_some() && end < side.block() {
            true => format!("is_tail && {inside} == {} ? &map{tail} : ", side.block()),
            false => format!("is_tail ? &map{tail} : "),
        });
        [edge, tail].into_iter().flatten().collect::<String>() + &format!("&map{}", self.number)
    }
}

/// The blocks of a cluster, a bit each, that receive what one of them asks for of A (slot 0) or of B: those of the same row, or column, of tiles.
/// Ranks count along m first.
fn receivers(cluster: ClusterShape, slot: usize) -> String {
    let ClusterShape { m, n, .. } = cluster;
    let (apart, count, shift) = match slot {
        0 => (m, n, (m > 1).then(|| RANKS[0].to_owned())),
        _ => (1, m, (n > 1).then(|| format!("{} * {m}", RANKS[1]))),
    };
    let bits = (0..count).fold(0, |bits, number| bits | 1_u32 << (number * apart));
    shift.map_or(bits.to_string(), |shift| format!("{bits}u << {shift}"))
}

impl OperandLoads<'_> {
    /// Whether a coordinate says which elements of k a box has, under a tap that other coordinates say: it is then moved outside where
    /// there are no more taps. What is read there must be zeros in both operands, as the other may hold infinities.
    fn ends_with_taps(&self, position: usize) -> bool {
        let operand = self.side.operand();
        let is_index = |term: &(Quantity, i64)| matches!(term.0, Quantity::Index(Role::Sum));
        let is_whole = operand.start.coordinates[position].terms.iter().any(is_index);
        position == usize::from(!operand.boxes_along_k()) && !is_whole
    }
}

/// The first coordinate of a dim that lies outside; of the innermost, of which a box begins at 16 bytes, the first that may be one.
fn outside(map: &TensorMap, position: usize) -> u64 {
    let whole = if position == 0 { UNIT / map.element.bytes() } else { 1 };
    map.dims[position].next_multiple_of(whole.into())
}

/// The outermost digit of k and its values, where blocks reach beyond the last tap.
fn last_tap(side: &Side<'_>) -> Option<(Quantity, i64)> {
    let k = &side.kernel.space.k;
    let all: i64 = k.iter().map(|digit| digit.radix.value()).product();
    let reaches_beyond = side.blocks() > 1 && all % i64::from(side.kernel.tile.k) != 0;
    k.first().filter(|_| reaches_beyond).map(|digit| (digit.quantity, digit.extent.value()))
}

impl Side<'_> {
    /// Taps whose tiles of the operand a step has: those of a filter that are multiplied together.
    pub(super) fn taps(&self) -> u32 {
        if self.slot == 1 { self.kernel.taps() } else { 1 }
    }

    /// Blocks of k that a step has, each under a tap of its own.
    pub(super) fn blocks(&self) -> u32 {
        let operand = self.operand();
        let of_box = |map: TensorMap| map.box_dims[usize::from(!operand.boxes_along_k())];
        operand.map().map_or(1, |map| self.kernel.tile.k / of_box(map))
    }

    /// Whether a tap that counts down does so below 0 in tiles that reach beyond the last: a walk is not moved back.
    fn falls_below_zero(&self, tap: &Coordinate) -> bool {
        let digits = self.kernel.space.digits(Role::outer(self.slot));
        let counts_down = |term: &(Quantity, i64)| term.1 < 0 && digits.iter().any(|digit| digit.quantity == term.0);
        let extent: i64 = digits.iter().map(|digit| digit.radix.value()).product();
        extent % i64::from(self.block()) != 0 && tap.terms.iter().any(counts_down)
    }

    /// Elements of m or n of a column.
    fn elements_of_column(&self, map: &TensorMap) -> u32 {
        if self.operand().boxes_along_k() { map.box_dims[1] } else { map.span() }
    }

    /// Columns of lines of m or n in which an operand comes; of boxes of rows along k, where some lie under taps of their own.
    fn columns(&self, map: &TensorMap) -> u32 {
        let inside = (map.dims[0] as u32).div_ceil(map.span());
        match self.operand().boxes_along_k() {
            true if self.starts_at_digits() && map.pixels.is_none() => self.block() / map.box_dims[1],
            true => 1,
            // an index of one digit has no columns beyond the tensor's
            false if self.kernel.space.digits(Role::outer(self.slot)).len() == 1 => {
                (self.block() / map.span()).min(inside)
            }
            false => self.block() / map.span(),
        }
    }

    /// The name of what C has of a tile's rows, or columns.
    fn inside(&self) -> &'static str {
        ["rows_inside", "columns_inside"][self.slot]
    }

    /// What tells how many rows, or columns, of a tile are C's, where boxes end with these.
    pub(super) fn inside_line(&self) -> Option<String> {
        self.operand().edge?;
        let (origin, block) = (TILE_ORIGIN[self.slot], self.block());
        let all = self.kernel.space.numbers()[1 + self.slot];
        let inside = match self.kernel.wide_index {
            true => format!("(unsigned)min({all}ull - {origin}, {block}ull)"),
            false => format!("min({all}u - {origin}, {block}u)"),
        };
        Some(format!("const unsigned {} = {inside};", self.inside()))
    }

    /// Bytes of a step's boxes where they end at the edge of C: of what is inside, to 16 bytes where lines run along m or n.
    pub(super) fn edge_bytes(&self) -> Option<String> {
        let (bytes, inside) = (self.operand().edge?.element.bytes(), self.inside());
        let beyond = self.kernel.tap_row.filter(|_| self.slot == 0).map_or(0, |row| row.rows_beyond());
        let rows = match (self.operand().boxes_along_k(), beyond) {
            (true, 0) => inside.to_owned(),
            (true, beyond) => format!("({inside} + {beyond})"),
            (false, _) => format!("({inside} + {}) / {unit} * {unit}", UNIT / bytes - 1, unit = UNIT / bytes),
        };
        let told = |tail| {
            let bytes = self.operand().boxed_of(tail) * bytes;
            Number::count(self.graph.is_dynamic(), ["bytes of a row", "bytes of a column"][self.slot], bytes.into())
        };
        let each = self.kernel.only_tail().map_or(i64::from(self.kernel.tile.k * bytes).into(), told);
        Some(format!("{rows} * {each}"))
    }

    /// Bytes of the last step's boxes, where it differs, and those of tiles that are not at the edge of C have so many: boxes at the edge are whole along k then.
    pub(super) fn tail_bytes(&self, bytes: &str) -> String {
        match self.edge_bytes() {
            Some(edge) => format!("({} == {} ? {bytes} : {edge})", self.inside(), self.block()),
            None => bytes.to_owned(),
        }
    }

    /// Bytes of a stage's boxes.
    pub(super) fn boxed_bytes(&self) -> u32 {
        let bytes = |map: TensorMap| map.box_elements() * map.element.bytes() * self.blocks() * self.columns(&map);
        self.operand().map().map_or(0, bytes)
    }

    /// Whether columns of an operand lie under taps of their own.
    fn walks_columns(&self) -> bool {
        self.starts_at_digits() && self.operand().map().is_some_and(|map| self.columns(&map) > 1)
    }

    /// Whether boxes begin at some of several digits of m or n.
    fn starts_at_digits(&self) -> bool {
        let digits = self.kernel.space.digits(Role::outer(self.slot));
        let is_digit = |term: &(Quantity, i64)| digits.iter().any(|digit| digit.quantity == term.0);
        digits.len() > 1 && self.operand().start.coordinates.iter().flat_map(|start| &start.terms).any(is_digit)
    }
}

/// A coordinate so many elements beyond.
fn spelled(coordinate: &Coordinate, beyond: i64) -> String {
    let constant = coordinate.constant + beyond;
    let is_natural = constant >= 0 && coordinate.terms.iter().all(|term| term.1 > 0);
    let variable = |variable: Variable| {
        let name = match variable {
            Variable::Of(Quantity::Index(Role::Row)) => TILE_ORIGIN[0].to_owned(),
            Variable::Of(Quantity::Index(Role::Column)) => TILE_ORIGIN[1].to_owned(),
            Variable::Of(Quantity::Index(Role::Sum)) => STEP_ORIGIN.to_owned(),
            variable => names::variable(variable),
        };
        if is_natural { name } else { format!("int({name})") }
    };
    let terms = coordinate.terms.iter().map(|&(digit, scale)| Index::variable(digit) * scale);
    spell_with(&Index::sum(terms.chain([Index::from(constant)])), &variable)
}
