//! Sources of several functions, cut into programs that are compiled at once: a program takes NVRTC as long as its functions one after the other.

use std::iter;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::codegen::PROGRAM;

/// Cores that are free, at least, where a source is cut: its programs share what each of them is compiled with. Of 15 graphs on two busy cores
/// cut ones took 1.89 s, whole ones 1.65 (NVRTC 13.0, 2026-11-30).
const FREE_CORES: usize = 2;

/// Programs that this process compiles now.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// What a source is compiled as; it counts among those that run as long as it lives.
pub(super) struct Work(Vec<String>);

impl Work {
    /// The programs of a source where cores are free for them, else the source as one: whoever compiles many sources is done sooner so.
    pub(super) fn of(text: &str) -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let has_room = RUNNING.load(Ordering::Relaxed) + FREE_CORES <= cores;
        if has_room { Self::started(of(text)) } else { Self::whole(text) }
    }

    /// The source as one.
    pub(super) fn whole(text: &str) -> Self {
        Self::started(vec![text.to_owned()])
    }

    fn started(programs: Vec<String>) -> Self {
        RUNNING.fetch_add(programs.len(), Ordering::Relaxed);
        Self(programs)
    }

    pub(super) fn programs(&self) -> &[String] {
        &self.0
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        RUNNING.fetch_sub(self.0.len(), Ordering::Relaxed);
    }
}

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
