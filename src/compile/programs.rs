//! Sources of several functions, cut into programs that are compiled at once: a program takes NVRTC as long as its functions one after the other.

use std::iter;

use crate::codegen::PROGRAM;

/// The programs of a source, each on the lines that it has there: the source itself where it has one.
pub(super) fn of(text: &str) -> Vec<String> {
    let mut pieces = text.split_inclusive('\n').fold(vec![String::new()], |mut pieces, line| {
        if line.trim_end() == PROGRAM {
            pieces.push(String::new());
        }
        if let Some(piece) = pieces.last_mut() {
            piece.push_str(line);
        }
        pieces
    });
    if pieces.len() < 3 {
        return vec![text.to_owned()];
    }
    let shared = pieces.remove(0);
    let lines = |piece: &String| piece.matches('\n').count();
    let before = iter::once(0).chain(pieces.iter().scan(0, |before, piece| {
        *before += lines(piece);
        Some(*before)
    }));
    pieces.iter().zip(before).map(|(piece, before)| format!("{shared}{}{piece}", "\n".repeat(before))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_cut_where_it_says_so_and_its_lines_keep_their_numbers() {
        let text = format!("shared\nmore\n{PROGRAM}\none\n{PROGRAM}\ntwo\nagain\n{PROGRAM}\nthree");
        let programs = of(&text);
        assert_eq!(programs.len(), 3);
        for (program, own) in programs.iter().zip([&["one"][..], &["two", "again"], &["three"]]) {
            let line = |text: &str, line: &str| text.lines().position(|other| other == line);
            for own in own.iter().chain(&["shared", "more"]) {
                assert_eq!(line(program, own), line(&text, own));
            }
            let all = ["shared", "more", "one", "two", "again", "three"];
            let found: Vec<&str> = all.into_iter().filter(|own| line(program, own).is_some()).collect();
            assert_eq!(found, [&["shared", "more"], own].concat());
        }
    }

    #[test]
    fn one_program_is_the_source() {
        for text in ["", "k", "shared\n//@ program\nk\n"] {
            assert_eq!(of(text), [text]);
        }
    }
}
