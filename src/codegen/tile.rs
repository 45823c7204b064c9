//! Vectors of tiles that go through shared memory.

use std::collections::BTreeSet;

use serde::Serialize;

use super::index::{Bound, all, definition_lines, index_type};
use super::sweep::cut;
use crate::kernel::{Definition, Index, Number, Tile, Variable, needed};

/// Vectors of a tile, along one of its axes.
#[derive(Serialize)]
pub(super) struct PlaceText {
    /// How many a thread has.
    each: i64,
    /// Where vector `step` of a thread lies in the tile: `along` and `across`.
    within: Vec<String>,
    /// Its coordinates, and what passes over vectors that there are none of.
    coordinates: Vec<String>,
}

/// Variables of skeletons: a vector's number in the tile, the tile's first point, and a vector's place behind that.
const NUMBER: &str = "number";
const FIRST: [&str; 2] = ["first_along", "first_across"];
const WITHIN: [&str; 2] = ["along", "across"];

impl PlaceText {
    /// Vectors of so many elements along the tile's axis `place`, where its axes have such extents; these variables are used.
    pub(super) fn of(
        (tile, extents): (&Tile, [Number; 2]),
        (place, vector): (usize, i64),
        mut uses: BTreeSet<Variable>,
        wide_index: bool,
    ) -> Self {
        Self {
            each: tile.vectors_of_a_thread(vector),
            within: within(tile, place, vector),
            coordinates: coordinates(tile, extents, &mut uses, wide_index),
        }
    }
}

/// Where a thread's vector lies in a tile.
fn within(tile: &Tile, place: usize, vector: i64) -> Vec<String> {
    let lanes = tile.points[place] / vector;
    let number = Index::local(NUMBER);
    let mut places = [number.clone() / lanes, number.clone() / lanes];
    places[place] = number % lanes * vector;
    let places = WITHIN.into_iter().zip(places).map(|(name, value)| Definition::new(Variable::Local(name), value));
    let numbered = format!("const unsigned {NUMBER} = threadIdx.x + step * {};", tile.threads);
    std::iter::once(numbered).chain(definition_lines("unsigned", &places.collect::<Vec<_>>())).collect()
}

/// The coordinates of a thread's vector that are used, and what passes over it where it lies beyond an axis.
fn coordinates(tile: &Tile, extents: [Number; 2], uses: &mut BTreeSet<Variable>, wide_index: bool) -> Vec<String> {
    // of dynamic shapes one text does for all
    let ends_inside = |axis: usize, extent: Number| extent.is_told() || extent % tile.points_along(axis) != 0;
    let axes = tile.axes.into_iter().zip(extents).filter(|&(axis, extent)| ends_inside(axis, extent));
    let bounds: Vec<Bound> = axes.map(|(axis, extent)| Bound { variable: Variable::Axis(axis), extent }).collect();
    uses.extend(bounds.iter().map(|bound| bound.variable));
    let places = tile.axes.into_iter().zip(FIRST).zip(WITHIN).map(|((axis, first), within)| {
        Definition::new(Variable::Axis(axis), Index::local(first) + Index::local(within))
    });
    let mut lines = definition_lines(index_type(wide_index), &needed(places.collect(), uses));
    lines.extend(all(&bounds).map(|guard| format!("if (!({guard})) continue;")));
    lines
}

/// The coordinates of a block, by the extents of all axes: those of the tile's axes are its first point's. These variables are used behind them.
pub(super) fn block_coordinates(
    tile: &Tile,
    extents: &[Number],
    mut uses: BTreeSet<Variable>,
    wide_index: bool,
) -> Vec<String> {
    let counts = extents.iter().enumerate();
    let counts: Vec<_> =
        counts.map(|(axis, &extent)| (axis, tile.count(axis, extent), tile.points_along(axis))).collect();
    let mut definitions = cut(&Index::local("block"), &counts);
    for definition in &mut definitions {
        let place = tile.axes.iter().position(|axis| definition.variable == Variable::Axis(*axis));
        definition.variable = place.map_or(definition.variable, |place| Variable::Local(FIRST[place]));
    }
    uses.extend(FIRST.map(Variable::Local));
    definition_lines(index_type(wide_index), &needed(definitions, &mut uses))
}
