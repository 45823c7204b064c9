//! Finds JSON values in a file, a log or a stream, line by line (FEJ-01, FEJ-03, FEJ-51).
//!
//! Every byte is looked at a bounded number of times, whatever the input: after a failed start the search goes on
//! behind it, and lines that a cut-off object swallowed are looked at once more, for objects on one line only.

use std::collections::VecDeque;
use std::io::{BufRead, Read as _};

use super::boundary::{Boundary, Progress};
use super::complaint::{cut_off, not_json};
use super::rank::Ranks;

/// Most bytes of one value, and of one line: half a kilobyte for each of the most operations that a graph may have.
pub(super) const MAX_BYTES: usize = 32 << 20;

/// What was found next.
#[derive(Debug, PartialEq)]
pub(super) enum Found {
    /// One balanced object or array, not yet parsed.
    Value { text: Vec<u8>, line: usize },
    /// Something that begins like a graph, but is cut off or is not JSON.
    Broken { line: usize, message: String },
    /// Something that begins like a value without signs of a graph, and is not JSON.
    NotJson { line: usize, message: String },
    /// A line without a value.
    Text(Vec<u8>),
    /// A line without a value that mentions `"nodes"` all the same.
    Skipped { line: usize },
    /// The input failed; nothing follows.
    Unreadable { line: usize, message: String },
}

#[derive(Clone, Debug)]
struct Line {
    text: Vec<u8>,
    /// From 1.
    number: usize,
    /// Of its first byte in the input.
    offset: u64,
    /// The line was inside an object that turned out to be cut off: only whole values count.
    is_replayed: bool,
    /// It went on beyond [`MAX_BYTES`]; the rest was not kept.
    is_cut: bool,
}

/// Where in a line the search goes on.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    at: usize,
    /// Whether a value may begin right here; else only after a mark (`json:`, `{"context"`).
    fresh: bool,
    /// Whether a start has failed in this line already.
    failed: bool,
}

const LINE_START: Cursor = Cursor { at: 0, fresh: true, failed: false };

/// Iterator over what an input holds.
pub(super) struct Finder<R> {
    input: R,
    line_number: usize,
    offset: u64,
    current: Option<(Line, Cursor)>,
    replay: VecDeque<Line>,
    failed: bool,
    opening: [u8; 2],
    is_blank: bool,
    ranks: Ranks,
}

impl<R: BufRead> Finder<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            input,
            line_number: 0,
            offset: 0,
            current: None,
            replay: VecDeque::new(),
            failed: false,
            opening: [0; 2],
            is_blank: true,
            ranks: Ranks::default(),
        }
    }

    /// The first two bytes of the input.
    pub(super) fn opening(&self) -> &[u8] {
        &self.opening
    }

    /// Whether the input has held nothing but blanks, so far.
    pub(super) fn is_blank(&self) -> bool {
        self.is_blank
    }

    /// The ranks that wrote lines.
    pub(super) fn ranks(&self) -> &Ranks {
        &self.ranks
    }

    fn next_line(&mut self) -> std::io::Result<Option<Line>> {
        if let Some(line) = self.replay.pop_front() {
            return Ok(Some(line));
        }
        let mut text = Vec::new();
        if self.failed || self.input.by_ref().take(MAX_BYTES as u64).read_until(b'\n', &mut text)? == 0 {
            return Ok(None);
        }
        let is_full = text.len() == MAX_BYTES && !text.ends_with(b"\n");
        let skipped = if is_full { self.input.skip_until(b'\n')? } else { 0 };
        self.line_number += 1;
        let offset = self.offset;
        self.offset += (text.len() + skipped) as u64;
        if self.line_number == 1 {
            text.iter().zip(&mut self.opening).for_each(|(byte, opening)| *opening = *byte);
            if text.starts_with(b"\xef\xbb\xbf") {
                text.drain(..3);
            }
        }
        self.is_blank &= text.trim_ascii().is_empty();
        self.ranks.strip(&mut text);
        Ok(Some(Line { text, number: self.line_number, offset, is_replayed: false, is_cut: skipped > 0 }))
    }

    fn unreadable(&mut self, error: &std::io::Error) -> Found {
        self.failed = true;
        Found::Unreadable { line: self.line_number + 1, message: format!("the input cannot be read: {error}") }
    }

    fn search(&mut self, line: Line, cursor: Cursor) -> Option<Found> {
        let Some(start) = find_start(&line.text, cursor) else { return leftover(line, cursor) };
        let mut boundary = Boundary::default();
        match boundary.feed(&line.text[start..]) {
            Progress::End(length) => {
                let (text, number) = (line.text[start..start + length].to_vec(), line.number);
                self.current = Some((line, Cursor { at: start + length, fresh: true, failed: cursor.failed }));
                Some(Found::Value { text, line: number })
            }
            Progress::Bad(length) => {
                let end = start + length + 1;
                let message = not_json(&line.text[start..], end - start, line.number);
                // The rest of a line is searched for signs of a graph once, not after every failure in it; and a nested
                // object is looked for inside the first failed one only.
                let (seen, at) = if cursor.failed { (end, end - 1) } else { (line.text.len(), start + 1) };
                let found = broken(&line.text[start..seen], line.number, message);
                self.current = Some((line, Cursor { at: at.max(start + 1), fresh: false, failed: true }));
                Some(found)
            }
            Progress::More if line.is_cut => Some(broken(&line.text[start..], line.number, too_large())),
            Progress::More if line.is_replayed => {
                Some(broken(&line.text[start..], line.number, "unterminated object at the end of the line".to_owned()))
            }
            Progress::More => Some(self.search_over_lines(line, start, boundary)),
        }
    }

    /// Goes on with a value that its first line does not end.
    fn search_over_lines(&mut self, first: Line, start: usize, mut boundary: Boundary) -> Found {
        let mut bytes = first.text.len();
        let mut lines = vec![first];
        loop {
            let line = match self.next_line() {
                Ok(Some(line)) => line,
                Ok(None) => return self.unterminated(lines, start),
                Err(error) => return self.unreadable(&error),
            };
            bytes += line.text.len();
            match boundary.feed(&line.text) {
                Progress::More if bytes > MAX_BYTES => {
                    let found = broken(&joined(&lines, start, b""), lines[0].number, too_large());
                    return self.pass_over(line, boundary).map_or(found, |error| self.unreadable(&error));
                }
                Progress::More => lines.push(line),
                Progress::End(length) => {
                    let text = joined(&lines, start, &line.text[..length]);
                    self.current = Some((line, Cursor { at: length, fresh: true, failed: false }));
                    return Found::Value { text, line: lines[0].number };
                }
                Progress::Bad(length) => {
                    let (text, number) = (joined(&lines, start, &line.text), lines[0].number);
                    let end = text.len() - line.text.len() + length + 1;
                    self.replay_after(lines, Some(line));
                    return broken(&text[..end], number, not_json(&text, end, number));
                }
            }
        }
    }

    /// Skips the rest of a value that is too large: up to its end, to the line that cannot be part of it, or to one of
    /// which the end is not known.
    fn pass_over(&mut self, last: Line, mut boundary: Boundary) -> Option<std::io::Error> {
        let mut is_cut = last.is_cut;
        while !is_cut {
            let line = match self.next_line() {
                Ok(line) => line?,
                Err(error) => return Some(error),
            };
            is_cut = line.is_cut;
            match boundary.feed(&line.text) {
                Progress::More => {}
                Progress::End(length) => {
                    self.current = Some((line, Cursor { at: length, fresh: true, failed: false }));
                    return None;
                }
                Progress::Bad(_) => {
                    self.current = Some((line, LINE_START));
                    return None;
                }
            }
        }
        None
    }

    fn unterminated(&mut self, lines: Vec<Line>, start: usize) -> Found {
        let (number, begin) = (lines[0].number, lines[0].offset + start as u64);
        let text = joined(&lines, start, b"");
        let message =
            format!("unterminated object at byte {}: it begins at byte {begin}, and the input ends", self.offset);
        self.replay_after(lines, None);
        broken(&text, number, cut_off(&text, number, &message))
    }

    /// Looks once more at the lines after the first; at the last, which made it fail, as at a new one.
    fn replay_after(&mut self, lines: Vec<Line>, last: Option<Line>) {
        self.replay.extend(lines.into_iter().skip(1).map(|line| Line { is_replayed: true, ..line }));
        self.replay.extend(last);
    }
}

impl<R: BufRead> Iterator for Finder<R> {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        loop {
            let (line, cursor) = match self.current.take() {
                Some(current) => current,
                None => match self.next_line() {
                    Ok(line) => (line?, LINE_START),
                    Err(error) => return Some(self.unreadable(&error)),
                },
            };
            if let Some(found) = self.search(line, cursor) {
                return Some(found);
            }
        }
    }
}

/// Where the next value may begin: at the cursor after blanks, after `json:`, or at an object that opens like a graph.
fn find_start(text: &[u8], cursor: Cursor) -> Option<usize> {
    let rest = text.get(cursor.at..)?;
    let blanks = rest.len() - rest.trim_ascii_start().len();
    if cursor.fresh && opens_value(&rest[blanks..]) {
        return Some(cursor.at + blanks);
    }
    let braces = rest.iter().enumerate().filter(|(_, byte)| **byte == b'{').map(|(index, _)| cursor.at + index);
    braces
        .into_iter()
        .find(|&brace| opens_like_graph(&text[brace..]) || text[..brace].trim_ascii_end().ends_with(b"json:"))
}

/// An object, or an array of objects: many log lines begin with a bracket.
fn opens_value(text: &[u8]) -> bool {
    match text {
        [b'{', ..] => true,
        [b'[', rest @ ..] => matches!(rest.trim_ascii_start(), [] | [b'{', ..]),
        _ => false,
    }
}

fn opens_like_graph(text: &[u8]) -> bool {
    [&b"{\"context\""[..], b"{\"nodes\""].iter().any(|opening| text.starts_with(opening))
}

fn leftover(line: Line, cursor: Cursor) -> Option<Found> {
    let is_untouched = cursor.at == 0 && !line.is_replayed;
    match is_untouched {
        false => None,
        true if mentions_nodes(&line.text) => Some(Found::Skipped { line: line.number }),
        true => Some(Found::Text(line.text)),
    }
}

/// Whether the text has the key of a graph's operations in it.
pub(super) fn mentions_nodes(text: &[u8]) -> bool {
    text.windows(7).any(|window| window == b"\"nodes\"")
}

fn joined(lines: &[Line], start: usize, last: &[u8]) -> Vec<u8> {
    let mut text = lines[0].text[start..].to_vec();
    lines[1..].iter().for_each(|line| text.extend_from_slice(&line.text));
    text.extend_from_slice(last);
    text
}

fn too_large() -> String {
    let mebibytes = MAX_BYTES >> 20;
    format!("an object or array of more than {mebibytes} MiB; of several graphs, each may have a line of its own")
}

/// The finding for a value that is cut off or no JSON.
fn broken(text: &[u8], line: usize, message: String) -> Found {
    match opens_like_graph(text) || mentions_nodes(text) {
        true => Found::Broken { line, message },
        false => Found::NotJson { line, message },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(text: &str) -> Vec<Found> {
        Finder::new(text.as_bytes()).collect()
    }

    fn values(text: &str) -> Vec<(String, usize)> {
        let value = |found| match found {
            Found::Value { text, line } => Some((String::from_utf8(text).unwrap(), line)),
            _ => None,
        };
        find(text).into_iter().filter_map(value).collect()
    }

    fn value(text: &str, line: usize) -> (String, usize) {
        (text.to_owned(), line)
    }

    #[test]
    fn values_on_one_line_over_lines_and_side_by_side() {
        assert_eq!(values("text\n {\"a\":1} tail\n"), [value("{\"a\":1}", 2)]);
        assert_eq!(values("{\n\"a\":\n1}\n{}"), [value("{\n\"a\":\n1}", 1), value("{}", 4)]);
        assert_eq!(values("{} {}[{}]"), [value("{}", 1), value("{}", 1), value("[{}]", 1)]);
        assert_eq!(values("[\n{}\n]"), [value("[\n{}\n]", 1)]);
        assert_eq!(values("\u{feff}{}"), [value("{}", 1)]);
    }

    #[test]
    fn embedded_objects_begin_after_a_mark() {
        assert_eq!(values("failed with the cudnn frontend json: {\"x\":1}."), [value("{\"x\":1}", 1)]);
        assert_eq!(values("12:00 INFO {\"nodes\":[]}"), [value("{\"nodes\":[]}", 1)]);
        assert_eq!(values("json:\n{\"x\":\n1}"), [value("{\"x\":\n1}", 2)]);
        assert_eq!(values("a set {1, 2} of {\"x\":1}"), []);
    }

    #[test]
    fn the_cut_off_last_line_is_reported_with_its_bytes() {
        let message = "unterminated object at byte 14: it begins at byte 3, and the input ends; it is cut off, or a \
                       bracket is not closed\n    2 | {\"nodes\":[1\n      |            ^"
            .to_owned();
        assert_eq!(find("{}\n{\"nodes\":[1").last(), Some(&Found::Broken { line: 2, message }));
    }

    #[test]
    fn an_object_cut_off_inside_a_log_spoils_nothing_after_it() {
        let log = "{\"context\":{},\n\"nodes\":[\n{\"a\":1}\n{\"b\":2}\n{\n\"c\":3}\n";
        assert!(matches!(&find(log)[0], Found::Broken { line: 1, message } if message.contains("line 4 column 1")));
        assert_eq!(values(log), [value("{\"a\":1}", 3), value("{\"b\":2}", 4), value("{\n\"c\":3}", 5)]);
    }

    #[test]
    fn a_graph_inside_a_broken_record_is_still_found() {
        assert_eq!(values("{\"id\":1,\"graph\":{\"context\":1} broken"), [value("{\"context\":1}", 1)]);
    }

    #[test]
    fn text_lines_and_skipped_mentions_are_told_apart() {
        assert_eq!(find("hello\n"), [Found::Text(b"hello\n".to_vec())]);
        assert_eq!(find("x\n... \"nodes\": [\n")[1], Found::Skipped { line: 2 });
    }

    #[test]
    fn what_is_too_large_is_passed_over_and_the_rest_is_found() {
        let node = format!("{{\"a\":\"{}\"}}", "x".repeat(1000));
        let count = MAX_BYTES / node.len() + 1;
        for separator in [",", ",\n"] {
            let large = format!("{{\"nodes\":[{}{node}]}}", format!("{node}{separator}").repeat(count));
            for behind in ["\n{\"b\":1}", "\nfailed with json: {\"b\":1}"] {
                let found = find(&format!("{{\"c\":2}}\n{large}{behind}\n"));
                assert_eq!(found[0], Found::Value { text: b"{\"c\":2}".to_vec(), line: 1 });
                assert_eq!(found[1], Found::Broken { line: 2, message: too_large() });
                assert!(matches!(&found[2], Found::Value { text, .. } if text == b"{\"b\":1}"));
                assert_eq!(found.len(), 3);
            }
        }
        let cut_off = format!("{{\"nodes\":[{}\n[cudnn] text\n{{\"b\":1}}", format!("{node},\n").repeat(count));
        assert!(matches!(find(&cut_off).last(), Some(Found::Value { text, .. }) if text == b"{\"b\":1}"));
        let array = format!("{{\"a\":\"{}\"}}", "x".repeat(MAX_BYTES - 8));
        assert_eq!(values(&array).len(), 1, "the largest");
    }

    #[test]
    fn hostile_inputs_take_linear_time() {
        for text in ["{\"a\":[\n", "{\"context\":{", "json:{", "{\n", "[", "json:{\"nodes\":["] {
            let text = text.repeat(200_000);
            assert!(find(&text).iter().all(|found| !matches!(found, Found::Value { .. })));
        }
    }
}
