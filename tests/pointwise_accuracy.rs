//! What the documentation says of the accuracy of pointwise modes is what the error bounds allow.

mod common;

use common::snapshot;
use fusewright::reference::accuracy_table;

const PATH: &str = "docs/pointwise-accuracy.md";
const BEGIN: &str = "<!-- accuracy:";
const END: &str = "<!-- /accuracy -->";

#[test]
fn the_documentation_holds_the_stated_accuracy() {
    let text = include_str!("../docs/pointwise-accuracy.md");
    let (before, rest) = text.split_once(BEGIN).expect("the page has the marker");
    let (marker, rest) = rest.split_once('\n').expect("the marker ends its line");
    let (_, after) = rest.split_once(END).expect("the table ends");
    let table = accuracy_table();
    snapshot::assert_file(PATH, &format!("{before}{BEGIN}{marker}\n{table}{END}{after}"));
}

#[test]
fn every_mode_is_stated_completely() {
    for row in accuracy_table().lines().skip(2) {
        let row = row.replace("\\|", "");
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 7, "{row}");
        assert!(cells[1..6].iter().all(|cell| !cell.is_empty()), "{row}");
    }
}
