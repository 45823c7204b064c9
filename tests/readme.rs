//! What the README says of the surfaces is what the code checks.

mod common;

use common::snapshot;
use fusewright::support::surface_table;

const BEGIN: &str = "<!-- surfaces:";
const END: &str = "<!-- /surfaces -->";

#[test]
fn the_readme_holds_the_table_of_surfaces() {
    let readme = include_str!("../README.md");
    let (before, rest) = readme.split_once(BEGIN).expect("the README has the marker");
    let (marker, rest) = rest.split_once('\n').expect("the marker ends its line");
    let (_, after) = rest.split_once(END).expect("the table ends");
    let table = surface_table();
    snapshot::assert_file("README.md", &format!("{before}{BEGIN}{marker}\n{table}{END}{after}"));
}

#[test]
fn every_row_has_a_cell_for_each_surface() {
    for row in surface_table().lines() {
        assert_eq!(row.matches('|').count(), 5, "{row}");
        assert!(row.split('|').skip(2).take(3).all(|cell| !cell.trim().is_empty()), "{row}");
    }
}
