//! What is said of text that is no JSON: the parser's complaint, a likely cause, and the line with a mark below the place.

use super::boundary::MAX_DEPTH;

/// Most characters of a line that are shown before the place and behind it.
const SHOWN: usize = 60;

/// Of text that is no JSON. `end` bytes of it are the value up to the byte that was refused, those behind it are shown.
pub(super) fn not_json(text: &[u8], end: usize, first_line: usize) -> String {
    match serde_json::from_slice::<serde::de::IgnoredAny>(&text[..end]) {
        Ok(_) => "not valid JSON".to_owned(),
        // The value ends with the byte that was refused; a parser without a limit would read on.
        Err(error) if error.is_eof() => format!("more than {MAX_DEPTH} levels of nesting"),
        Err(error) => describe(&error, text, first_line),
    }
}

/// A parser's complaint about `text`, with the line counted in the whole input.
pub(super) fn describe(error: &serde_json::Error, text: &[u8], first_line: usize) -> String {
    let told = error.to_string();
    let complaint = told.split(" at line ").next().unwrap_or_default();
    let (line, column) = (first_line + error.line().saturating_sub(1), error.column());
    let at = offset(text, error.line(), column);
    let cause = cause(text, at).map(|cause| format!("; {cause}")).unwrap_or_default();
    let shown = excerpt(text, at, line);
    format!("not valid JSON at line {line} column {column} of the object: {complaint}{cause}{shown}")
}

/// Of text that ends before its value does.
pub(super) fn cut_off(text: &[u8], first_line: usize, message: &str) -> String {
    let text = text.trim_ascii_end();
    let line = first_line + text.iter().filter(|byte| **byte == b'\n').count();
    format!("{message}; it is cut off, or a bracket is not closed{}", excerpt(text, text.len(), line))
}

/// Where in `text` a line and a column are, both from 1.
fn offset(text: &[u8], line: usize, column: usize) -> usize {
    let before: usize = text.split_inclusive(|byte| *byte == b'\n').take(line.saturating_sub(1)).map(<[u8]>::len).sum();
    (before + column.saturating_sub(1)).min(text.len())
}

/// What people write that JSON does not have.
fn cause(text: &[u8], at: usize) -> Option<&'static str> {
    let (before, rest) = text.split_at(at);
    let begins = |words: &[&str]| words.iter().any(|word| rest.starts_with(word.as_bytes()));
    let is_after = |byte: u8| before.trim_ascii_end().ends_with(&[byte]);
    match rest {
        [b'/' | b'#', ..] => Some("JSON has no comments"),
        _ if begins(&["NaN", "nan", "Inf", "inf"]) => Some("JSON has no NaN and no Infinity"),
        _ if begins(&["True", "False", "None"]) => {
            Some("JSON has true, false and null; Python's json.dumps writes them")
        }
        [b'\'', ..] => Some("JSON quotes with \", not with '; Python's json.dumps writes it so"),
        [b'}' | b']', ..] if is_after(b',') => Some("JSON has no comma before a closing bracket"),
        [b'"', ..] if is_after(b'"') || is_after(b'}') || is_after(b']') => Some("is a comma missing?"),
        [b'x' | b'X', ..] if is_after(b'0') => Some("JSON has decimal numbers only"),
        [b'a'..=b'z' | b'A'..=b'Z' | b'_', ..] if is_after(b'{') || is_after(b',') => {
            Some("keys and names are in quotes")
        }
        _ => None,
    }
}

/// The line of a place and a mark below it, each on a line of its own; both sides are cut where they are long.
fn excerpt(text: &[u8], at: usize, number: usize) -> String {
    let (before, rest) = text.split_at(at);
    let begin = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let end = rest.iter().take(4 * SHOWN).position(|byte| *byte == b'\n').unwrap_or(rest.len().min(4 * SHOWN));
    let [before, rest] = [&before[begin.max(at.saturating_sub(4 * SHOWN))..], &rest[..end]].map(harmless);
    let skipped = before.len().saturating_sub(SHOWN);
    let dots = if skipped > 0 { "…" } else { "" };
    let before: String = before[skipped..].iter().collect();
    let behind: String = rest.iter().take(SHOWN).collect();
    let behind = if rest.len() > SHOWN { behind + "…" } else { behind };
    let mark = dots.chars().count() + before.chars().count();
    let gutter = " ".repeat(number.to_string().len());
    format!("\n    {number} | {dots}{before}{}\n    {gutter} | {}^", behind.trim_end(), " ".repeat(mark))
}

/// Characters that are fit for a terminal.
fn harmless(bytes: &[u8]) -> Vec<char> {
    let harmless = |c: char| match c {
        '\t' => ' ',
        c if c.is_control() => '\u{fffd}',
        c => c,
    };
    String::from_utf8_lossy(bytes).trim_end_matches('\r').chars().map(harmless).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> String {
        let error = serde_json::from_str::<serde::de::IgnoredAny>(text).expect_err("no JSON");
        describe(&error, text.as_bytes(), 7)
    }

    #[test]
    fn what_json_does_not_have_is_named() {
        for (text, cause) in [
            ("{\"a\": 1, // one\n}", "JSON has no comments"),
            ("{\"a\": # one\n1}", "JSON has no comments"),
            ("{\"a\": NaN}", "JSON has no NaN and no Infinity"),
            ("{\"a\": -Infinity}", "JSON has no NaN and no Infinity"),
            ("{\"a\": None}", "JSON has true, false and null; Python's json.dumps writes them"),
            ("{'a': 1}", "JSON quotes with \", not with '; Python's json.dumps writes it so"),
            ("{\"a\": 1,}", "JSON has no comma before a closing bracket"),
            ("{\"a\": [1, ]}", "JSON has no comma before a closing bracket"),
            ("{\"a\": \"b\" \"c\": 1}", "is a comma missing?"),
            ("{\"a\": 0x1}", "JSON has decimal numbers only"),
            ("{a: 1}", "keys and names are in quotes"),
        ] {
            let told = told(text);
            let first = told.lines().next().expect("a line");
            assert!(first.ends_with(&format!("; {cause}")), "{text}: {told}");
        }
        assert!(told("{\"a\": ?}").lines().next().is_some_and(|line| line.ends_with(": expected value")));
    }

    #[test]
    fn the_place_is_marked_in_its_line() {
        assert!(told("{\n \"a\": NaN,\n}").ends_with("\n    8 |  \"a\": NaN,\n      |       ^"));
        let long = told(&format!("{{\"a\": \"{}\", \"b\": oops, \"c\": \"{}\"}}", "ä".repeat(500), "x".repeat(500)));
        let lines: Vec<&str> = long.lines().skip(1).collect();
        let place = lines[1].chars().position(|c| c == '^').expect("a mark");
        assert_eq!(lines[0].chars().nth(place), Some('o'));
        assert!(lines[0].contains("| …ä") && lines[0].ends_with('…') && lines[0].chars().count() < 140, "{long}");
        assert!(told("{\"a\": \u{1b}}").ends_with("7 | {\"a\": \u{fffd}}\n      |       ^"));
    }
}
