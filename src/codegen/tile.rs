//! Vectors of tiles that go through shared memory.

use std::collections::BTreeSet;

use serde::Serialize;

use super::index::{Bound, all, definition_lines, index_type, spell};
use super::sweep::cut;
use crate::kernel::{Definition, Index, Number, Tile, Variable, needed};

/// Vectors of a tile, along one of its axes.
#[derive(Serialize)]
pub(super) struct PlaceText {
    /// How many a thread has.
    each: i64,
    /// Where one lies in the tile.
    along: String,
    across: String,
    /// Its coordinates, and the condition under which there is one.
    coordinates: Vec<String>,
    guard: Option<String>,
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
        let lanes = tile.points[place] / vector;
        let mut within = [Index::local(NUMBER) / lanes, Index::local(NUMBER) / lanes];
        within[place] = Index::local(NUMBER) % lanes * vector;
        let [along, across] = within.map(|place| spell(&place));
        let axes = tile.axes.into_iter().zip(extents);
        // of dynamic shapes one text does for all
        let ends_inside = axes.filter(|&(axis, extent)| extent.is_told() || extent % tile.points_along(axis) != 0);
        let bounds = ends_inside.map(|(axis, extent)| Bound { variable: Variable::Axis(axis), extent });
        let bounds: Vec<Bound> = bounds.collect();
        uses.extend(bounds.iter().map(|bound| bound.variable));
        let coordinates = tile.axes.into_iter().zip(FIRST).zip(WITHIN).map(|((axis, first), within)| {
            Definition::new(Variable::Axis(axis), Index::local(first) + Index::local(within))
        });
        let coordinates = needed(coordinates.collect(), &mut uses);
        Self {
            each: tile.vectors_of_a_thread(vector),
            along,
            across,
            coordinates: definition_lines(index_type(wide_index), &coordinates),
            guard: all(&bounds),
        }
    }
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
