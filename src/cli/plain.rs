//! Text of others (names, paths, arguments) as a terminal shows it instead of obeying it.

use std::borrow::Cow;
use std::path::Path;

/// Whether a terminal or a reader could be misled: control characters, and those that are invisible or reverse what
/// follows. Line breaks are, too, but many texts have some.
fn is_wild(c: char) -> bool {
    let is_hidden =
        matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    (c.is_control() && c != '\n') || is_hidden
}

fn escaped(text: &str, is_meant: impl Fn(char) -> bool, escape: impl Fn(char) -> String) -> Cow<'_, str> {
    if !text.contains(&is_meant) {
        return Cow::Borrowed(text);
    }
    text.chars().map(|c| if is_meant(c) { escape(c) } else { c.to_string() }).collect()
}

/// A text of one or more lines.
pub(super) fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, is_wild, |c| c.escape_default().to_string())
}

/// A text that is part of a line.
pub(super) fn part(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_wild(c) || c == '\n', |c| c.escape_default().to_string())
}

/// A path, as part of a line.
pub(super) fn path(path: &Path) -> String {
    part(&path.display().to_string()).into_owned()
}

/// JSON text without line breaks; a parser reads the same from it.
pub(super) fn json(text: &str) -> Cow<'_, str> {
    // All of them are in strings, and have a number of four digits.
    escaped(text, is_wild, |c| format!("\\u{:04x}", u32::from(c)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_escaped() {
        assert_eq!(lines("a\u{1b}[31m\u{9b}\u{7f}\r\tb\nc"), "a\\u{1b}[31m\\u{9b}\\u{7f}\\r\\tb\nc");
        assert_eq!(part("a\nb\u{202e}\u{feff}"), "a\\nb\\u{202e}\\u{feff}");
        assert_eq!(path(Path::new("x/\u{7}.json")), "x/\\u{7}.json");
    }

    #[test]
    fn other_text_stays() {
        for text in ["", "graph 'é' × 2 – \"ok\" \\ µs", "𝛼 グラフ"] {
            assert!(matches!(lines(text), Cow::Borrowed(same) if same == text), "{text}");
            assert_eq!(part(text), text);
        }
    }

    #[test]
    fn json_means_the_same() {
        let name = "a\u{1b}\u{9b}\u{7f}\n\u{202e}\u{2028}é";
        let text = serde_json::to_string(name).unwrap();
        let plain = json(&text);
        assert!(plain.chars().all(|c| !is_wild(c) && c != '\n'), "{plain}");
        assert_eq!(serde_json::from_str::<String>(&plain).unwrap(), name);
    }
}
