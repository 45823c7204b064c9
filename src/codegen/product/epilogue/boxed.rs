//! Spells the epilogue of a matrix product that is evaluated in the registers of its accumulators, beside boxes of the
//! tensors in shared memory.

use serde::Serialize;

use super::columns::{Fragments, OutsideColumns};
use super::lines::Lines;
use super::total::{Lanes, Total, TotalsText};
use super::{EpilogueParts, Origin, Outside, PointText, bounds, index, part, statements};
use crate::codegen::index::{Bound, index_type, spell};
use crate::codegen::names;
use crate::codegen::product::unit::evaluates;
use crate::codegen::sections::Used;
use crate::codegen::sweep::{SweepSpeller, accumulated_in_float};
use crate::codegen::template::{self, template};
use crate::error::Error;
use crate::graph::{FinalizedGraph, TensorId};
use crate::kernel::{Access, Boxes, FusedEpilogue, GemmKernel, Index, PartialReduction, Role, TensorMap, WGMMA_ROWS};

/// What `product/epilogue/boxed.cuh` reads.
#[derive(Serialize)]
struct BoxedText {
    index: &'static str,
    accumulator: &'static str,
    /// Blocks of 64 rows that a warp has rows of.
    blocks: u32,
    warp_row: String,
    /// Columns of a box, how many boxes lie beside each other, and how many of them a warp has of a tile.
    columns: u32,
    chunks: u32,
    parts: u32,
    /// Which of these, and which step of all of them.
    part: String,
    step: String,
    /// Where a box's columns begin in a step.
    piece: String,
    /// Columns taken from the accumulators at a time, and their fragments.
    steps: u32,
    fragments: u32,
    /// For each step of each part: how accumulators are taken.
    takes: Vec<String>,
    /// Number of sets of boxes, and bytes of a set.
    sets: u32,
    set_bytes: u32,
    /// Whether boxes are read.
    reads: bool,
    /// What lane 0 stores of a set; where rows are pixels of lines, what all lanes do.
    stores: Vec<String>,
    copies: Vec<String>,
    /// The one tensor, if its pairs go to their box as matrices of 8×8.
    packed: Option<PackedText>,
    point: PointText,
    /// The condition that a row is one of C, where `in_c` is to tell it.
    told: Option<String>,
    evaluate: String,
    /// What is said of reductions.
    totals: TotalsText,
}

/// Pairs of 16-bit values of all fragments of a step.
#[derive(Serialize)]
struct PackedText {
    /// Where in shared memory the lane's row of matrices lies, of the fragments from `j` on.
    at: String,
}

/// What `product/epilogue/boxed_ask.cuh` reads.
#[derive(Serialize)]
struct AskText {
    index: &'static str,
    /// First row of the warp in the tile.
    warp_row: String,
    columns: u32,
    chunks: u32,
    parts: u32,
    sets: u32,
    /// Bytes of the boxes read, what tells where they begin in lines of pixels, and their loads.
    read_bytes: u32,
    walk: Option<String>,
    loads: Vec<String>,
    /// The condition that the block evaluates the epilogue, where some of a cluster do not.
    evaluates: Option<&'static str>,
}

/// Where the epilogue finds its part of shared memory, of the accumulators and of the maps.
pub(in crate::codegen::product) struct Places {
    /// Number of the first accumulator.
    pub(in crate::codegen::product) first_sum: u32,
    /// Number of the first map.
    pub(in crate::codegen::product) first_map: usize,
    /// First row of a warp in the tile, of its block of rows number `rows`; and of the first block.
    pub(in crate::codegen::product) warp_row: String,
    pub(in crate::codegen::product) first_warp_row: String,
}

/// Bytes of an mbarrier.
const BARRIER_BYTES: u32 = 8;

/// Device code by which boxes leave.
const STORE_SECTIONS: &[&str] = &["fw_tma_store", "fw_fence_async"];

/// The epilogue of a kernel that has boxes.
pub(in crate::codegen::product) struct Boxed<'a> {
    pub(in crate::codegen::product) graph: &'a FinalizedGraph,
    pub(in crate::codegen::product) kernel: &'a GemmKernel,
    pub(in crate::codegen::product) epilogue: &'a FusedEpilogue,
    pub(in crate::codegen::product) boxes: &'a Boxes,
    pub(in crate::codegen::product) places: Places,
}

impl Boxed<'_> {
    /// The parts of the epilogue.
    ///
    /// # Errors
    /// [`Error::Generated`] if a template fails: a defect of ours.
    pub(in crate::codegen::product) fn parts(&self, used: &mut Used) -> Result<EpilogueParts, Error> {
        let by_tma = !self.boxes.stored_by_tma().is_empty();
        if by_tma {
            STORE_SECTIONS.iter().for_each(|section| used.add(section));
        }
        let box_places = self.boxes.places();
        let (read_places, stored_places) = box_places.split_at(self.boxes.read.len());
        used.add("fw_boxed");
        let body = self.body(used, read_places, stored_places)?;
        let totals = &body.totals;
        let ask = if self.boxes.read.is_empty() { None } else { Some(self.ask(read_places)?) };
        let left = by_tma.then(|| "if (lane == 0) fw_tma_store_wait_read<0>();".to_owned());
        let finish: Vec<String> = totals.finish.iter().cloned().chain(left).collect();
        Ok(EpilogueParts {
            declarations: totals.declared_after(self.declarations()),
            ask,
            finish: (!finish.is_empty()).then(|| finish.join("\n")),
            body: template::render(template!("product/epilogue/boxed.cuh"), &body)?,
        })
    }

    fn chunks(&self) -> u32 {
        self.kernel.tile.n / self.boxes.columns
    }

    fn blocks(&self) -> u32 {
        self.kernel.multiply.consumer_rows(self.kernel.tile) / WGMMA_ROWS
    }

    fn declarations(&self) -> String {
        let (sets, boxes_at) = (Boxes::SETS, self.kernel.shared.epilogue);
        let set_bytes = self.boxes.set_bytes();
        let barriers_at = self.kernel.shared.box_barriers;
        let mut lines = vec![format!(
            "const unsigned boxes_at = shared + {boxes_at} + (warp - 4) * {};  // of the warp, of C",
            sets * set_bytes
        )];
        if !self.boxes.read.is_empty() {
            let bytes = BARRIER_BYTES * sets;
            lines.push(format!(
                "const unsigned arrived = shared + {barriers_at} + (warp - 4) * {bytes};  // an mbarrier for each set of them"
            ));
        }
        lines.push("unsigned taken = 0;  // sets of boxes so far".to_owned());
        lines.join("\n")
    }

    fn ask(&self, read_places: &[u32]) -> Result<String, Error> {
        let record = AskText {
            index: index_type(self.kernel.wide_index),
            warp_row: self.places.first_warp_row.clone(),
            columns: self.boxes.columns,
            chunks: self.chunks(),
            parts: self.blocks() * self.chunks(),
            sets: Boxes::SETS,
            read_bytes: self.boxes.read_bytes(),
            walk: self.lines().map(|lines| lines.walk(&self.first_row_of_part())),
            loads: self.loads(read_places),
            evaluates: evaluates(self.kernel),
        };
        template::render(template!("product/epilogue/boxed_ask.cuh"), &record)
    }

    fn body(&self, used: &mut Used, read: &[u32], stored: &[u32]) -> Result<BoxedText, Error> {
        let Self { graph, kernel, boxes, .. } = *self;
        let FusedEpilogue { sweep, digits, reductions, .. } = self.epilogue;
        let accumulations: Vec<_> = reductions.iter().map(|reduction| reduction.accumulation).collect();
        let mut speller = SweepSpeller::new(graph, used, sweep, &accumulations)
            .with_variables(digits.iter().copied())
            .with_reads_from(pointers(graph, "const ", &boxes.read, read))
            .with_vectors_to(self.stored_pointers(stored));
        let point = speller.point();
        let values: Vec<String> = reductions
            .iter()
            .map(|reduction| accumulated_in_float(&mut speller.speller, reduction.accumulation.source))
            .collect();
        let mut text = speller.text(&[], "");
        let mut totals = TotalsText::default();
        for (number, (reduction, value)) in reductions.iter().zip(values).enumerate() {
            let total = Total { kernel, reduction, number, lanes: Lanes::Fragments(self.fragments()) };
            text.body.push(total.combined(used, value, point));
            text.uses.extend(total.uses());
            total.walk(used, &mut totals)?;
        }
        let step_columns = kernel.tuning.step_columns;
        let steps = boxes.columns / step_columns;
        let step = if steps > 1 { Index::local("step") } else { Index::ZERO };
        let fragment = if step_columns > 8 { Index::local("j") * 8 } else { Index::ZERO };
        let pair = Index::local("lane") % 4 * 2;
        let point_text = PointText::new(kernel, &text.uses, Origin::WARP, sweep.vector, self.outside());
        let columns = Index::sum([step.clone() * i64::from(step_columns), Index::local("j") * 8]);
        let packed = self.packed(stored, columns);
        if packed.is_some() {
            used.add("fw_stmatrix");
        }
        let part_number = if self.blocks() * self.chunks() > 1 { Index::local("part") } else { Index::ZERO };
        Ok(BoxedText {
            index: index_type(kernel.wide_index),
            accumulator: names::register_type(kernel.multiply.accumulator()),
            blocks: self.blocks(),
            warp_row: self.places.warp_row.clone(),
            columns: boxes.columns,
            chunks: self.chunks(),
            parts: self.blocks() * self.chunks(),
            part: part(self.blocks(), self.chunks()),
            step: spell(&(part_number * i64::from(steps) + step.clone())),
            piece: spell(&Index::sum([step * i64::from(step_columns), fragment, pair])),
            steps,
            fragments: step_columns / 8,
            takes: self.takes(),
            sets: Boxes::SETS,
            set_bytes: boxes.set_bytes(),
            reads: !boxes.read.is_empty(),
            stores: self.stores(stored),
            packed,
            point: point_text,
            told: self.told().filter(|_| self.fragments().outside == OutsideColumns::Told),
            copies: self.copies(used, stored)?,
            evaluate: text.evaluate()?,
            totals,
        })
    }

    fn fragments(&self) -> Fragments {
        let columns = self.kernel.tuning.step_columns;
        let outside = match (self.outside(), self.told()) {
            (Outside::PassedOver, _) => OutsideColumns::PassedOver,
            (_, Some(_)) if !self.epilogue.reductions.is_empty() => OutsideColumns::Told,
            _ => OutsideColumns::None,
        };
        Fragments { columns, steps: self.boxes.columns / columns, outside }
    }

    /// The condition that row `line` of a warp's is one of C; `None` where all are: neither tiles reach beyond C's rows, nor lines of
    /// pixels beyond their pixels.
    fn told(&self) -> Option<String> {
        let is_row = |bound: &&Bound| bound.variable == index(Role::Row);
        let row = || Index::local("warp_m0") + Index::local("line");
        let below = |bound: &Bound| format!("{} < {}", spell(&row()), bound.extent);
        let of_rows = bounds(self.kernel).iter().find(is_row).map(below);
        let of_pixels = self.lines().map(|lines| lines.is_pixel(row()));
        let all: Vec<String> = of_rows.into_iter().chain(of_pixels).collect();
        (!all.is_empty()).then(|| all.join(" && "))
    }

    /// Whether a tensor has elements of its own for rows of C.
    fn follows_rows(&self, id: TensorId) -> bool {
        let rows = &self.kernel.space.m;
        let axes = self.epilogue.sweep.space.axes.iter().zip(&self.epilogue.digits);
        let mut of_rows = axes.filter(|(_, digit)| rows.iter().any(|row| row.quantity == **digit));
        of_rows.any(|(axis, _)| axis.strides.get(&id).is_some_and(|stride| *stride != 0))
    }

    /// The box whose 16-bit values are put there as matrices, two fragments at a time. They wait in registers until all of a step are
    /// computed, which are too few where much else is on its way: it is the only one, beside totals of columns.
    fn packed_map(&self) -> Option<&TensorMap> {
        let [map] = &self.boxes.stored[..] else { return None };
        let is_alone = self.boxes.read.is_empty() && self.outside() != Outside::PassedOver;
        (is_alone && map.element.bytes() == 2 && self.kernel.tuning.step_columns.is_multiple_of(16)).then_some(map)
    }

    /// Where a lane puts its pair of each tensor: to the boxes, or to what goes there as matrices.
    fn stored_pointers(&self, places: &[u32]) -> Vec<(TensorId, String)> {
        match self.packed_map() {
            Some(map) => vec![(map.tensor, "packed[j] + half".to_owned())],
            None => pointers(self.graph, "", &self.boxes.stored, places),
        }
    }

    fn packed(&self, places: &[u32], columns: Index) -> Option<PackedText> {
        let (map, place) = (self.packed_map()?, places.first()?);
        let column = spell(&((columns + Index::local("lane") / 16 * 8) * 2));
        let at = format!("{} + fw_boxed<{}>(lane % 16, {column})", self.address(*place), map.box_dims[0] * 2);
        Some(PackedText { at })
    }

    /// Points outside of C enter no reduction: totals of columns leave out rows, all others points. Boxes end where the tensor does. What
    /// is read through pointers has no elements for positions beyond lines of pixels.
    fn outside(&self) -> Outside {
        let is_boxed = |id: &TensorId| self.boxes.read.iter().chain(&self.boxes.stored).any(|map| map.tensor == *id);
        let is_moved = |(id, access): &(&TensorId, &Access)| **access != Access::Parameter && !is_boxed(id);
        let moved = || self.epilogue.sweep.access.iter().filter(is_moved);
        let is_beyond_lines = self.boxes.line.is_some() && moved().any(|(id, _)| self.follows_rows(*id));
        match self.epilogue.reductions.iter().all(keeps_columns) && !is_beyond_lines {
            false => Outside::PassedOver,
            true if moved().next().is_some() => Outside::Nearest,
            true => Outside::Unseen,
        }
    }

    /// First row of a warp's part of a tile, in C.
    fn first_row_of_part(&self) -> String {
        match (self.blocks(), self.chunks()) {
            (1, _) => "tile_m0".to_owned(),
            (_, 1) => "tile_m0 + part * 64".to_owned(),
            (_, chunks) => format!("tile_m0 + part / {chunks} * 64"),
        }
    }

    fn loads(&self, places: &[u32]) -> Vec<String> {
        let row = self.first_row_of_part();
        let load = |(number, (map, place)): (usize, (&TensorMap, &u32))| {
            let (at, map_number) = (self.address(*place), self.places.first_map + number);
            let to = format!("{at}, &map{map_number}, arrived + 8 * set, box_n0");
            match (self.lines(), map.rank) {
                (Some(lines), _) => lines.load(&to, map),
                (None, 3) => format!("fw_tma_load({to}, {row}, b);"),
                (None, _) => format!("fw_tma_load({to}, {row});"),
            }
        };
        self.boxes.read.iter().zip(places).enumerate().map(load).collect()
    }

    fn stores(&self, places: &[u32]) -> Vec<String> {
        let store = |(number, (map, place)): (usize, (&TensorMap, &u32))| {
            let (at, map_number) = (self.address(*place), self.places.first_map + self.boxes.read.len() + number);
            let batch = if map.rank == 3 { ", b" } else { "" };
            format!("fw_tma_store(&map{map_number}, {at}, chunk_n0, warp_m0{batch});")
        };
        self.boxes.stored_by_tma().iter().zip(places).enumerate().map(store).collect()
    }

    fn copies(&self, used: &mut Used, places: &[u32]) -> Result<Vec<String>, Error> {
        let Some(lines) = self.lines() else { return Ok(Vec::new()) };
        let stored = self.boxes.stored.iter().zip(places);
        stored.map(|(map, place)| lines.store(used, self.graph, map, *place)).collect()
    }

    fn lines(&self) -> Option<Lines<'_>> {
        Lines::of(self.kernel, self.boxes)
    }

    /// Where a box lies in a set.
    fn address(&self, place: u32) -> String {
        format!("boxes_at + set * {}{}", self.boxes.set_bytes(), plus(place))
    }

    /// `fw_take<0>(sums[0]); fw_take<4>(sums[1]); …` for each step.
    fn takes(&self) -> Vec<String> {
        let multiply = &self.kernel.multiply;
        let take = names::take_function(multiply);
        let registers = multiply.fragment_registers();
        let step_columns = self.kernel.tuning.step_columns;
        let fragments = step_columns / 8;
        let steps = self.blocks() * self.chunks() * self.boxes.columns / step_columns;
        let fragment = |step: u32, number: u32| {
            let first = self.places.first_sum + registers * (step * fragments + number);
            format!("{take}<{first}>(sums[{number}]);")
        };
        let step = |step: u32| statements((0..fragments).map(|number| fragment(step, number)));
        (0..steps).map(step).collect()
    }
}

fn keeps_columns(reduction: &PartialReduction) -> bool {
    matches!(reduction.reduced, [_, true, false])
}

/// ` + 16`, or nothing.
fn plus(bytes: u32) -> String {
    if bytes == 0 { String::new() } else { format!(" + {bytes}") }
}

/// Where a lane finds its pair of each tensor in the boxes.
fn pointers(graph: &FinalizedGraph, constness: &str, maps: &[TensorMap], places: &[u32]) -> Vec<(TensorId, String)> {
    let pointer = |(map, place): (&TensorMap, &u32)| {
        let storage = names::storage_type(graph.tensor(map.tensor).data_type);
        let bytes = map.element.bytes();
        let element = if bytes == 1 { "piece".to_owned() } else { format!("piece * {bytes}") };
        let byte = format!("box{} + fw_boxed<{}>(line, {element})", plus(*place), map.box_dims[0] * bytes);
        (map.tensor, format!("reinterpret_cast<{constness}{storage}*>({byte})"))
    };
    maps.iter().zip(places).map(pointer).collect()
}
