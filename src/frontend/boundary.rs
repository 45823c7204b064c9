//! Where a JSON value ends: a byte automaton that can be fed line by line.
//!
//! It is stricter than counting braces, so that an object cut off in a log fails at the next line of text instead of
//! swallowing the rest of the file. What it lets through is still parsed by `serde_json`.

/// Deepest nesting accepted; no more than `serde_json` parses.
pub(super) const MAX_DEPTH: u32 = 127;

/// What feeding some bytes led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// The value goes on after these bytes.
    More,
    /// The value ends after this many of these bytes.
    End(usize),
    /// The byte at this index cannot be part of a JSON value, or nests too deep.
    Bad(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Value,
    ValueOrEnd,
    Key,
    KeyOrEnd,
    Colon,
    CommaOrEnd,
    Text { is_key: bool },
    Escape { is_key: bool },
    Word,
}

/// The automaton; feed it from the first byte of an object or array.
#[derive(Clone, Debug)]
pub(super) struct Boundary {
    state: State,
    /// One bit a level, set for objects, the innermost lowest.
    objects: u128,
    depth: u32,
}

impl Default for Boundary {
    fn default() -> Self {
        Self { state: State::Value, objects: 0, depth: 0 }
    }
}

impl Boundary {
    /// Reads on over `bytes`.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Progress {
        for (index, &byte) in bytes.iter().enumerate() {
            match self.step(byte) {
                None => return Progress::Bad(index),
                Some(_) if self.depth == 0 => return Progress::End(index + 1),
                Some(state) => self.state = state,
            }
        }
        Progress::More
    }

    fn step(&mut self, byte: u8) -> Option<State> {
        match self.state {
            State::Text { is_key } => Self::step_text(byte, is_key),
            State::Escape { is_key } => (byte >= b' ').then_some(State::Text { is_key }),
            State::Word if byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.') => Some(State::Word),
            State::Word => self.step_between(State::CommaOrEnd, byte),
            state => self.step_between(state, byte),
        }
    }

    fn step_text(byte: u8, is_key: bool) -> Option<State> {
        match byte {
            b'"' if is_key => Some(State::Colon),
            b'"' => Some(State::CommaOrEnd),
            b'\\' => Some(State::Escape { is_key }),
            0..b' ' => None,
            _ => Some(State::Text { is_key }),
        }
    }

    fn step_between(&mut self, state: State, byte: u8) -> Option<State> {
        match (state, byte) {
            (state, b' ' | b'\t' | b'\r' | b'\n') => Some(state),
            (State::Value | State::ValueOrEnd, b'{') => self.open(true),
            (State::Value | State::ValueOrEnd, b'[') => self.open(false),
            (State::Value | State::ValueOrEnd, b'"') => Some(State::Text { is_key: false }),
            // The first letters of numbers and of `true`, `false`, `null`.
            (State::Value | State::ValueOrEnd, b'-' | b'0'..=b'9' | b't' | b'f' | b'n') if self.depth > 0 => {
                Some(State::Word)
            }
            (State::Key | State::KeyOrEnd, b'"') => Some(State::Text { is_key: true }),
            (State::Colon, b':') => Some(State::Value),
            (State::CommaOrEnd, b',') => Some(if self.in_object() { State::Key } else { State::Value }),
            (State::CommaOrEnd, b'}') if self.in_object() => self.close(),
            (State::CommaOrEnd, b']') if !self.in_object() => self.close(),
            (State::KeyOrEnd, b'}') | (State::ValueOrEnd, b']') => self.close(),
            _ => None,
        }
    }

    fn in_object(&self) -> bool {
        self.objects & 1 == 1
    }

    fn open(&mut self, object: bool) -> Option<State> {
        self.objects = self.objects << 1 | u128::from(object);
        self.depth += 1;
        let state = if object { State::KeyOrEnd } else { State::ValueOrEnd };
        (self.depth <= MAX_DEPTH).then_some(state)
    }

    fn close(&mut self) -> Option<State> {
        self.objects >>= 1;
        self.depth -= 1;
        Some(State::CommaOrEnd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(text: &str) -> Progress {
        Boundary::default().feed(text.as_bytes())
    }

    #[test]
    fn a_value_ends_at_its_last_brace() {
        assert_eq!(feed(r#"{"a":[1,{"b":"}\""}],"c":null} rest"#), Progress::End(30));
        assert_eq!(feed("{}{}"), Progress::End(2));
        assert_eq!(feed("[[],{}]"), Progress::End(7));
    }

    #[test]
    fn a_value_may_go_on_over_lines_but_not_inside_a_string() {
        assert_eq!(feed("{\"a\":\n"), Progress::More);
        assert_eq!(feed("{\"a\n"), Progress::Bad(3));
    }

    #[test]
    fn log_text_after_a_cut_off_object_is_noticed_at_once() {
        assert_eq!(feed("{\"nodes\":[\n[cudnn_frontend] INFO"), Progress::Bad(12));
        assert_eq!(feed("{\"nodes\":1,\n===="), Progress::Bad(12));
        assert_eq!(feed("{\"nodes\":[1\n{"), Progress::Bad(12));
    }

    #[test]
    fn mismatched_brackets_and_missing_commas_are_bad() {
        for text in ["{]", "[}", "{\"a\" 1}", "{\"a\":1 \"b\"", "{,", "[1 2"] {
            assert!(matches!(feed(text), Progress::Bad(_)), "{text}");
        }
    }

    #[test]
    fn nesting_is_limited_to_what_the_parser_reads() {
        let deepest = format!("{}{}", "[".repeat(127), "]".repeat(127));
        assert_eq!(feed(&deepest), Progress::End(254));
        assert!(serde_json::from_str::<serde_json::Value>(&deepest).is_ok());
        assert_eq!(feed(&"[".repeat(128)), Progress::Bad(127));
    }
}
