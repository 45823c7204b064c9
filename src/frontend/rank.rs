//! Launchers of several processes put the rank before each line: `rank0: `, `[rank0]: ` (torchrun), `0: ` (srun).

/// The ranks that wrote lines of an input.
#[derive(Debug, Default)]
pub(super) struct Ranks {
    first: Option<String>,
    /// The first that differs from it.
    other: Option<String>,
}

impl Ranks {
    /// Takes the rank off a line, and remembers it. No line of JSON begins so.
    pub(super) fn strip(&mut self, line: &mut Vec<u8>) {
        let Some(length) = prefix(line) else { return };
        let rank = String::from_utf8_lossy(line[..length].trim_ascii_end()).into_owned();
        match &self.first {
            None => self.first = Some(rank),
            Some(first) if *first != rank => self.other = self.other.take().or(Some(rank)),
            Some(_) => {}
        }
        line.drain(..length);
    }

    /// What to do where several ranks wrote, and their lines may be mixed.
    pub(super) fn mixed(&self) -> Option<String> {
        let (first, other) = (self.first.as_ref()?, self.other.as_ref()?);
        let mark = first.replace(['[', ']'], ".");
        Some(format!(
            "lines begin with '{first}' and with '{other}': several ranks wrote here, and their lines may be mixed; \
             `grep '^{mark}'` has those of one"
        ))
    }
}

/// Bytes of the rank before a line, with one blank behind it; `None` where there is no rank.
fn prefix(line: &[u8]) -> Option<usize> {
    let (is_bracketed, rest) = match line {
        [b'[', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let (is_named, rest) = rest.strip_prefix(b"rank").map_or((false, rest), |rest| (true, rest));
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let behind = rest[digits..].strip_prefix(if is_bracketed { b"]:".as_slice() } else { b":" })?;
    let blank = usize::from(behind.starts_with(b" "));
    let is_end = behind.trim_ascii_start().is_empty();
    let is_rank = (1..=6).contains(&digits) && (is_named || (!is_bracketed && (blank == 1 || is_end)));
    is_rank.then(|| line.len() - behind.len() + blank)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stripped(line: &str) -> String {
        let mut text = line.as_bytes().to_vec();
        Ranks::default().strip(&mut text);
        String::from_utf8(text).expect("UTF-8")
    }

    #[test]
    fn ranks_are_taken_off_and_nothing_else_is() {
        for line in ["rank0: {\"a\":", "[rank12]: {\"a\":", "3: {\"a\":"] {
            assert_eq!(stripped(line), "{\"a\":");
        }
        assert_eq!(stripped("rank0:   \"a\": 1"), "  \"a\": 1");
        assert_eq!(stripped("0:\n"), "\n");
        for line in ["12:00 INFO", "[1, 2]: x", "[0]: x", "rank: x", "ranks 0: x", "{\"rank0\": 1}", "1234567: x", ""] {
            assert_eq!(stripped(line), line);
        }
    }

    #[test]
    fn several_ranks_are_told() {
        let mut ranks = Ranks::default();
        for line in ["[rank0]: {", "[rank0]: }"] {
            ranks.strip(&mut line.as_bytes().to_vec());
        }
        assert_eq!(ranks.mixed(), None);
        ranks.strip(&mut b"[rank1]: {".to_vec());
        let told = ranks.mixed().expect("two ranks");
        assert!(told.starts_with("lines begin with '[rank0]:' and with '[rank1]:':"), "{told}");
        assert!(told.contains("`grep '^.rank0.:'`"), "{told}");
    }
}
