//! Spells the epilogue of a matrix product that is evaluated in the registers of its accumulators, beside boxes of the
//! tensors in shared memory.

use serde::Serialize;

use super::gemm_epilogue::coordinate_lines;
use super::names;
use super::sections::Used;
use super::sweep::{SweepSpeller, SweepText, accumulated_in_float};
use super::warp_total::{Lanes, Total, TotalsText};
use crate::graph::{FinalizedGraph, TensorId};
use crate::kernel::{Access, BoxPlace, Boxes, CONSUMERS, Epilogue, GemmKernel, Sweep, TensorMap, WARPGROUP};

/// What `epilogue/fragments.cuh` reads beside the sweep.
#[derive(Serialize)]
pub(super) struct FragmentEpilogueText {
    /// Columns of a box, how many boxes lie beside each other, and how many of them a warp has of a tile.
    columns: u32,
    chunks: u32,
    parts: u32,
    /// Columns taken from the accumulators at a time, and their fragments.
    step_columns: u32,
    steps: u32,
    fragments: u32,
    /// For each step of each part: how accumulators are taken.
    takes: Vec<String>,
    /// Where the boxes of the first warp begin, and bytes of a set.
    boxes_at: u32,
    set_bytes: u32,
    /// The same of single rows.
    rows_at: u32,
    row_set_bytes: u32,
    /// Number of sets.
    sets: u32,
    /// Bytes of the boxes read; their mbarriers, one for each set of each warp.
    read_bytes: u32,
    barriers_at: u32,
    barriers: u32,
    /// One load or store of a box each.
    loads: Vec<String>,
    stores: Vec<String>,
    coordinates: Vec<String>,
    totals: TotalsText,
}

/// Where the epilogue finds its part of shared memory.
pub(super) struct Places {
    pub(super) boxes_at: u32,
    pub(super) barriers_at: u32,
    /// Number of the first accumulator.
    pub(super) first_sum: u32,
    /// Number of the first map.
    pub(super) first_map: usize,
}

/// Multiplying warps of a block.
const WARPS: u32 = CONSUMERS * WARPGROUP / 32;

/// Device code that the template uses.
const SECTIONS: &[&str] = &["fw_boxed", "fw_tma_store", "fw_fence_async", "fw_accumulators"];

pub(super) fn epilogue(
    graph: &FinalizedGraph,
    used: &mut Used,
    kernel: &GemmKernel,
    boxes: &Boxes,
    places: &Places,
) -> (FragmentEpilogueText, SweepText) {
    for &section in SECTIONS {
        used.add(section);
    }
    let Epilogue::Fused { sweep, digits, reductions, .. } = &kernel.epilogue else {
        unreachable!("boxes are those of a fused epilogue")
    };
    let names = digits.iter().map(|&name| name.to_owned()).collect();
    let accumulations: Vec<_> = reductions.iter().map(|reduction| reduction.accumulation).collect();
    let box_places = boxes.places();
    let (read_places, stored_places) = box_places.split_at(boxes.read.len());
    let mut speller = SweepSpeller::new(graph, used, sweep, &accumulations)
        .with_names(names)
        .with_vectors_from(pointers(graph, "const ", &boxes.read, read_places))
        .with_vectors_to(pointers(graph, "", &boxes.stored, stored_places));
    let values: Vec<String> = reductions
        .iter()
        .map(|reduction| accumulated_in_float(&mut speller.speller, reduction.accumulation.source))
        .collect();
    let mut text = speller.text(&[], "");
    let mut totals = TotalsText::default();
    for (number, (reduction, value)) in reductions.iter().zip(values).enumerate() {
        let total = Total { kernel, reduction, number, lanes: Lanes::Fragments };
        text.body.push(total.combined(used, value));
        total.walk(used, &mut totals);
    }
    let shape = Shape::of(kernel, boxes);
    let (set_bytes, row_set_bytes) = (boxes.set_bytes(), boxes.row_set_bytes());
    let transfers = Transfers { boxes, first_map: places.first_map, chunks: shape.chunks };
    let record = FragmentEpilogueText {
        columns: boxes.columns,
        chunks: shape.chunks,
        parts: shape.parts,
        step_columns: shape.step_columns,
        steps: boxes.columns / shape.step_columns,
        fragments: shape.step_columns / 8,
        takes: shape.takes(kernel, places.first_sum),
        boxes_at: places.boxes_at,
        set_bytes,
        rows_at: places.boxes_at + WARPS * Boxes::SETS * set_bytes,
        row_set_bytes,
        sets: Boxes::SETS,
        read_bytes: boxes.read_bytes(),
        barriers_at: places.barriers_at,
        barriers: WARPS * Boxes::SETS,
        loads: transfers.loads(read_places),
        stores: transfers.stores(stored_places),
        coordinates: coordinates(kernel, boxes, sweep, &text),
        totals,
    };
    (record, text)
}

/// Points outside of C need no check where only boxes are moved: they end where the tensor does.
fn coordinates(kernel: &GemmKernel, boxes: &Boxes, sweep: &Sweep, text: &SweepText) -> Vec<String> {
    let is_boxed = |id: &TensorId| boxes.read.iter().chain(&boxes.stored).any(|map| map.tensor == *id);
    let Epilogue::Fused { reductions, .. } = &kernel.epilogue else { return Vec::new() };
    let checks =
        !reductions.is_empty() || sweep.access.iter().any(|(id, access)| *access != Access::Parameter && !is_boxed(id));
    let lines = coordinate_lines(kernel, text, ["warp_m0", "chunk_n0"]);
    lines.into_iter().filter(|line| checks || !line.starts_with("if (!(")).collect()
}

/// Spells how boxes come and leave.
struct Transfers<'a> {
    boxes: &'a Boxes,
    /// Number of the first map, and boxes beside each other.
    first_map: usize,
    chunks: u32,
}

impl Transfers<'_> {
    fn loads(&self, places: &[BoxPlace]) -> Vec<String> {
        let load = |(number, (map, place)): (usize, (&TensorMap, &BoxPlace))| {
            let (at, map_number) = (self.address(place), self.first_map + number);
            let m = if place.is_row { "0".to_owned() } else { format!("tile_m0 + part / {} * 64", self.chunks) };
            format!("fw_tma_load({at}, &map{map_number}, arrived + 8 * set, box_n0, {m}{});", batch(map))
        };
        self.boxes.read.iter().zip(places).enumerate().map(load).collect()
    }

    fn stores(&self, places: &[BoxPlace]) -> Vec<String> {
        let store = |(number, (map, place)): (usize, (&TensorMap, &BoxPlace))| {
            let (at, map_number) = (self.address(place), self.first_map + self.boxes.read.len() + number);
            format!("fw_tma_store(&map{map_number}, {at}, chunk_n0, warp_m0{});", batch(map))
        };
        self.boxes.stored.iter().zip(places).enumerate().map(store).collect()
    }

    /// Where a box lies in a set.
    fn address(&self, place: &BoxPlace) -> String {
        let (base, step) = match place.is_row {
            true => ("rows_at", self.boxes.row_set_bytes()),
            false => ("boxes_at", self.boxes.set_bytes()),
        };
        format!("{base} + set * {step} + {}", place.at)
    }
}

fn batch(map: &TensorMap) -> &'static str {
    if map.rank == 3 { ", b" } else { "" }
}

/// Where a lane finds its pair of each tensor in the boxes.
fn pointers(
    graph: &FinalizedGraph,
    constness: &str,
    maps: &[TensorMap],
    places: &[BoxPlace],
) -> Vec<(TensorId, String)> {
    let pointer = |(map, place): (&TensorMap, &BoxPlace)| {
        let storage = names::storage_type(graph.tensor(map.tensor).data_type);
        let bytes = map.element.bytes();
        let element = if bytes == 1 { "piece".to_owned() } else { format!("piece * {bytes}") };
        let at = place.at;
        let byte = if place.is_row {
            format!("row + {at} + {element}")
        } else {
            format!("box + {at} + fw_boxed<{}>(line, {element})", map.box_dims[0] * bytes)
        };
        (map.tensor, format!("reinterpret_cast<{constness}{storage}*>({byte})"))
    };
    maps.iter().zip(places).map(pointer).collect()
}

/// How a warp walks its part of a tile.
struct Shape {
    columns: u32,
    chunks: u32,
    parts: u32,
    step_columns: u32,
}

impl Shape {
    fn of(kernel: &GemmKernel, boxes: &Boxes) -> Self {
        let rows = kernel.multiply.consumer_rows(kernel.tile);
        let chunks = kernel.tile.n / boxes.columns;
        let parts = rows / crate::kernel::WGMMA_ROWS * chunks;
        Self { columns: boxes.columns, chunks, parts, step_columns: kernel.tuning.step_columns }
    }

    /// `fw_take<0>(sums[0]); fw_take<4>(sums[1]); …` for each step.
    fn takes(&self, kernel: &GemmKernel, first_sum: u32) -> Vec<String> {
        let take = names::take_function(&kernel.multiply);
        let registers = kernel.multiply.fragment_registers();
        let fragments = self.step_columns / 8;
        let steps = self.parts * self.columns / self.step_columns;
        let fragment = |step: u32, number: u32| {
            format!("{take}<{}>(sums[{number}]);", first_sum + registers * (step * fragments + number))
        };
        let step = |step: u32| (0..fragments).map(|number| fragment(step, number)).collect::<Vec<_>>().join(" ");
        (0..steps).map(step).collect()
    }
}
