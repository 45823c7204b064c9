//! What the documentation says of the surfaces is what the code checks, and what the README shows is what the program prints.

mod common;

use common::snapshot;
use fusewright::support::surface_table;

const BEGIN: &str = "<!-- surfaces:";
const END: &str = "<!-- /surfaces -->";

#[test]
fn the_table_of_surfaces_is_that_of_the_code() {
    let document = include_str!("../docs/surfaces.md");
    let (before, rest) = document.split_once(BEGIN).expect("the document has the marker");
    let (marker, rest) = rest.split_once('\n').expect("the marker ends its line");
    let (_, after) = rest.split_once(END).expect("the table ends");
    let table = surface_table();
    snapshot::assert_file("docs/surfaces.md", &format!("{before}{BEGIN}{marker}\n{table}{END}{after}"));
}

#[test]
fn every_row_has_a_cell_for_each_surface() {
    for row in surface_table().lines() {
        assert_eq!(row.matches('|').count(), 5, "{row}");
        assert!(row.split('|').skip(2).take(3).all(|cell| !cell.trim().is_empty()), "{row}");
    }
}

/// Texts of the README between a fence and the next.
fn fenced(language: &str) -> Vec<&'static str> {
    let readme = include_str!("../README.md");
    let start = format!("```{language}\n");
    readme.split(start.as_str()).skip(1).map(|rest| rest.split_once("```").expect("the fence is closed").0).collect()
}

#[test]
fn outputs_that_the_readme_shows_are_those_of_the_program() {
    let shown = fenced("console");
    assert!(!shown.is_empty(), "the README shows an output");
    for session in shown {
        let (command, expected) = session.split_once('\n').expect("a command and its output");
        let words: Vec<&str> = command.strip_prefix("$ fusewright ").expect("a command of ours").split(' ').collect();
        let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_fusewright"));
        let output = program.args(&words).current_dir(env!("CARGO_MANIFEST_DIR")).output().expect("the program starts");
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{command}");
    }
}

#[test]
fn the_readme_is_short() {
    let readme = include_str!("../README.md");
    let lines = readme.lines().count();
    assert!(lines < 200, "{lines} lines");
    let wide = readme.lines().find(|line| line.chars().count() > 140 && !line.starts_with('!'));
    assert_eq!(wide, None);
}
