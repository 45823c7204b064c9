//! Spells how boxes that run along m or n are turned to tiles that run along k.

use serde::Serialize;

use super::{Side, Tile};
use crate::codegen::index::index_type;
use crate::codegen::sections::Used;
use crate::codegen::template::{self, template};
use crate::error::Error;
use crate::kernel::WARPGROUP;

/// Bytes of m or n that are read at once, and of k that are written at once.
const PIECE: u32 = 16;
const WORD: u32 = 4;

/// What `product/operand/turned.cuh` reads.
#[derive(Serialize)]
struct TurnedText {
    /// `a` or `b`.
    name: &'static str,
    index: &'static str,
    title: String,
    /// Elements of a piece, 16 bytes of m or n, and lines of k of which pieces are turned together: to four bytes of k.
    vector: u32,
    lines: u32,
    /// Pieces of all lines that are turned together, and their number along k.
    pieces: u32,
    groups: u32,
    /// Of these, how many a thread reads before it writes: their latencies are one.
    batch: u32,
    /// Where a piece of line `row` lies in shared memory, from the stage's start.
    raw: String,
    /// Where the tile lies.
    tile: String,
    /// Four bytes of k of element `e` of the pieces.
    word: &'static str,
}

pub(super) fn turned(used: &mut Used, side: Side<'_>) -> Result<String, Error> {
    let tile = Tile::of(side);
    let bytes = tile.element_bytes;
    used.add("fw_vector");
    used.add("fw_swizzled");
    if bytes == 1 {
        used.add("fw_byte_column");
    }
    let (vector, lines) = (PIECE / bytes, WORD / bytes);
    let groups = side.kernel.tile.k / lines;
    let stage = &side.kernel.shared.stage;
    let offset = stage.tiles[side.slot];
    let pieces = side.block() / vector * groups;
    let record = TurnedText {
        name: side.name(),
        index: index_type(side.kernel.wide_index),
        title: side.title(),
        vector,
        lines,
        pieces,
        groups,
        batch: batch(pieces, lines),
        raw: format!("{} + {}", stage.raw[side.slot], tile.before_turning().place_of(used, PIECE, "piece")),
        tile: if offset == 0 { "tile".to_owned() } else { format!("tile + {offset}") },
        word: if bytes == 1 { "fw_byte_column(read[b], e)" } else { "read[b][0].at[e]" },
    };
    template::render(template!("product/operand/turned.cuh"), &record)
}

/// The most pieces, of so many lines each, that a thread has registers for and that all threads of the warpgroup have alike.
fn batch(pieces: u32, lines: u32) -> u32 {
    /// 16 bytes each, of the 88 registers of a thread.
    const READ_AHEAD: u32 = 8;
    let fits = |batch: &u32| pieces.is_multiple_of(WARPGROUP * batch);
    (1..=READ_AHEAD / lines).rev().find(fits).unwrap_or(1)
}
