//! Spells how threads place an operand's pieces in a stage of shared memory.

use serde::Serialize;

use super::{Side, Tile, value};
use crate::codegen::index::{index_type, spell};
use crate::codegen::names;
use crate::codegen::sections::Used;
use crate::codegen::sweep::SweepSpeller;
use crate::codegen::template::{self, template};
use crate::error::Error;
use crate::kernel::{Fetch, Index};

/// An operand as the `mma` skeleton brings it to the stage that is filled while another is multiplied.
#[derive(Serialize)]
pub(in crate::codegen::product) struct PlacedOperand {
    /// Its functions, declared.
    #[serde(skip)]
    pub(in crate::codegen::product) functions: String,
    /// Statement that starts its load.
    load: String,
    /// Part of a step in which the next load starts.
    load_in_part: u32,
    /// Statement that puts into the stage what was loaded to registers, if it goes through them.
    place: Option<String>,
}

/// What `product/operand/{copied, vector, computed}.cuh` read of the pieces of a tile.
#[derive(Serialize)]
struct PiecesText {
    /// `a` or `b`.
    name: &'static str,
    index: &'static str,
    /// Pieces of the tile, and of a thread, rounded up.
    pieces: u32,
    passes: u32,
    has_rest: bool,
    /// Row, and piece or column, of number `i`.
    row: String,
    piece: String,
    /// Byte of it in the tile.
    place: String,
}

impl PiecesText {
    fn new(used: &mut Used, side: Side<'_>, tile: &Tile) -> Self {
        let [row, piece] = tile.row_and_piece();
        Self {
            name: side.name(),
            index: index_type(side.kernel.wide_index),
            pieces: tile.pieces(),
            passes: tile.passes(),
            has_rest: tile.has_rest(),
            row,
            piece,
            place: tile.place(used, "piece"),
        }
    }
}

/// What `product/operand/copied.cuh` reads.
#[derive(Serialize)]
struct CopiedText {
    #[serde(flatten)]
    pieces: PiecesText,
    threads: u32,
    title: String,
    /// What the function does to a stage, the argument that names it, and where the tile begins.
    verb: &'static str,
    argument: &'static str,
    stage: String,
    /// Pieces of a thread that are asked for in a row; all where there is no number.
    unroll: Option<u32>,
    outer: &'static str,
    /// Index of m or n, and of k.
    at: [String; 2],
    coordinates: Vec<String>,
    before: Vec<String>,
    piece_bytes: u32,
    source: String,
    inside: String,
}

/// What `product/operand/vector.cuh` reads.
#[derive(Serialize)]
struct RegistersText {
    #[serde(flatten)]
    pieces: PiecesText,
    threads: u32,
    stage: String,
    /// Type of a piece.
    result: String,
    call: String,
}

/// What `product/operand/element.cuh` reads.
#[derive(Serialize)]
struct ElementText {
    name: &'static str,
    index: &'static str,
    threads: u32,
    pieces: u32,
    row: String,
    column: String,
    place: String,
    stage: String,
    result: String,
    call: String,
    unroll: u32,
}

/// What `product/operand/computed.cuh` reads.
#[derive(Serialize)]
struct ComputedText {
    #[serde(flatten)]
    pieces: PiecesText,
    tile: String,
    result: String,
    call: String,
    /// Pieces of a thread under way at once, and the number of piece `u` of them from `pass` on.
    unroll: u32,
    number: String,
}

/// An operand of the `mma` skeleton.
///
/// # Errors
/// [`Error::Generated`] if a template fails: a defect of ours.
pub(in crate::codegen::product) fn placed(used: &mut Used, side: Side<'_>) -> Result<PlacedOperand, Error> {
    let (name, slot) = (side.name(), side.slot);
    let load_in_part = side.kernel.tuning.load_in_part[slot];
    let tile = Tile::of(side);
    let (functions, load, place) = match side.operand().fetch {
        Fetch::Async => {
            let to_stage = Destination { verb: "copy", argument: "stage", stage: stage(side), unroll: None };
            (copied(used, side, &tile, to_stage)?, format!("copy_{name}(filled, k0);"), None)
        }
        Fetch::Element => (by_element(used, side, &tile)?, format!("place_{name}(filled, k0);"), None),
        _ => (in_vectors(used, side, &tile)?, format!("fetch_{name}(k0);"), Some(format!("place_{name}(filled);"))),
    };
    Ok(PlacedOperand { functions, load, load_in_part, place })
}

/// Where the tile of a stage begins, in the `mma` skeleton.
fn stage(side: Side<'_>) -> String {
    format!("{} + stage * {}", ["shared_a", "shared_b"][side.slot], side.kernel.shared.stage.bytes)
}

/// An operand that the threads of one warpgroup copy to a stage of the ring: `fill_a(tile, k0)`.
///
/// # Errors
/// [`Error::Generated`] if a template fails: a defect of ours.
pub(super) fn copied_to_ring(used: &mut Used, side: Side<'_>) -> Result<String, Error> {
    let unroll = Some(side.kernel.tuning.pieces_under_way[side.slot]);
    let to_ring = Destination { verb: "fill", argument: "tile", stage: tile_of_ring(side), unroll };
    copied(used, side, &Tile::of(side), to_ring)
}

/// Where a tile of the ring's stage `tile` begins.
fn tile_of_ring(side: Side<'_>) -> String {
    match side.kernel.shared.stage.tiles[side.slot] {
        0 => "tile".to_owned(),
        offset => format!("tile + {offset}"),
    }
}

/// What copies go to: [`CopiedText`] has the fields.
struct Destination {
    verb: &'static str,
    argument: &'static str,
    stage: String,
    unroll: Option<u32>,
}

fn copied(used: &mut Used, side: Side<'_>, tile: &Tile, to: Destination) -> Result<String, Error> {
    let operand = side.operand();
    let variables = operand.coordinates.iter().map(|coordinate| coordinate.quantity);
    let mut speller = SweepSpeller::new(side.graph, used, &operand.sweep, &[]).with_variables(variables);
    let before = speller.offsets();
    let source = speller.vector_pointer(operand.tensor);
    let placement = side.placement(&speller.uses);
    let record = CopiedText {
        threads: side.kernel.multiply.loaders(side.kernel.tile),
        title: side.title(),
        verb: to.verb,
        argument: to.argument,
        stage: to.stage,
        unroll: to.unroll,
        outer: ["m", "n"][side.slot],
        at: tile.outer_and_k(),
        coordinates: placement.lines,
        before,
        piece_bytes: tile.piece_bytes(),
        source,
        inside: placement.guard.unwrap_or_else(|| "true".to_owned()),
        pieces: PiecesText::new(used, side, tile),
    };
    template::render(template!("product/operand/copied.cuh"), &record)
}

fn in_vectors(used: &mut Used, side: Side<'_>, tile: &Tile) -> Result<String, Error> {
    let call = value::value(used, side)?;
    let pieces = PiecesText::new(used, side, tile);
    let threads = side.kernel.multiply.loaders(side.kernel.tile);
    let record = RegistersText { pieces, threads, stage: stage(side), result: call.result, call: tile.call() };
    Ok(call.function + "\n" + &template::render(template!("product/operand/vector.cuh"), &record)?)
}

fn by_element(used: &mut Used, side: Side<'_>, tile: &Tile) -> Result<String, Error> {
    let call = value::value(used, side)?;
    let [row, column] = tile.row_and_column();
    let record = ElementText {
        name: side.name(),
        index: index_type(side.kernel.wide_index),
        threads: side.kernel.multiply.loaders(side.kernel.tile),
        pieces: tile.pieces(),
        row,
        column,
        place: tile.place(used, "column"),
        stage: stage(side),
        result: call.result,
        call: tile.call(),
        unroll: side.kernel.tuning.pieces_under_way[side.slot],
    };
    Ok(call.function + "\n" + &template::render(template!("product/operand/element.cuh"), &record)?)
}

/// An operand that the threads of the first warpgroup of the `wgmma` skeleton compute.
///
/// # Errors
/// [`Error::Generated`] if a template fails: a defect of ours.
pub(super) fn computed(used: &mut Used, side: Side<'_>) -> Result<String, Error> {
    let tile = Tile::of(side);
    let call = value::value(used, side)?;
    let raw = raw_argument(used, side, &tile);
    let unroll = side.kernel.tuning.pieces_under_way[side.slot];
    let pieces = PiecesText::new(used, side, &tile);
    let pass = if pieces.passes > unroll { Index::local("pass") } else { Index::ZERO };
    let of_pass = if unroll > 1 { Index::local("u") } else { Index::ZERO };
    let number = (pass + of_pass) * i64::from(side.kernel.multiply.loaders(side.kernel.tile)) + Index::local("thread");
    let record = ComputedText {
        number: spell(&number),
        pieces,
        tile: tile_of_ring(side),
        result: call.result,
        call: tile.call() + &raw,
        unroll,
    };
    Ok(call.function + "\n" + &template::render(template!("product/operand/computed.cuh"), &record)?)
}

/// Where in shared memory the piece lies that is transformed, if boxes bring it there.
fn raw_argument(used: &mut Used, side: Side<'_>, tile: &Tile) -> String {
    let Fetch::Transformed(map) = side.operand().fetch else { return String::new() };
    let stored = side.graph.tensor(map.tensor).data_type;
    used.add(names::storage_section(stored));
    let storage = names::storage_type(stored);
    let bytes = map.element.bytes();
    let place = tile.of_elements(bytes).place_of(used, tile.vector * bytes, "piece");
    let offset = match side.kernel.shared.stage.raw[side.slot] {
        0 => String::new(),
        offset => format!("{offset} + "),
    };
    format!(", reinterpret_cast<const {storage}*>(shared_bytes + (tile - shared) + {offset}{place})")
}
