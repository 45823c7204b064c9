//! Lays out the text of a function: lines are indented by what is open around them, so that templates need not know where their
//! text ends up.

/// Indentation of a level.
const STEP: &str = "  ";

/// The braces and parentheses that are open at the start of a line, innermost last.
#[derive(Clone, Default)]
struct Open {
    all: Vec<u8>,
    braces: usize,
}

impl Open {
    /// Takes note of what a line opens and closes, strings and comments aside.
    fn pass(&mut self, line: &str) {
        let bytes = line.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            match bytes[at] {
                b'{' => {
                    self.all.push(b'{');
                    self.braces += 1;
                }
                b'(' => self.all.push(b'('),
                b'}' | b')' => self.braces -= usize::from(self.all.pop() == Some(b'{')),
                b'/' if bytes.get(at + 1) == Some(&b'/') => return,
                b'"' => at = end_of_string(bytes, at),
                _ => {}
            }
            at += 1;
        }
    }

    /// Levels of a line: one for each brace that it does not begin by closing, and one if it goes on within parentheses.
    fn levels(&self, line: &str) -> usize {
        let closing = line.bytes().take_while(|byte| matches!(byte, b'}' | b')')).count();
        let (open, closed) = self.all.split_at(self.all.len().saturating_sub(closing));
        let closed_braces = closed.iter().filter(|&&byte| byte == b'{').count();
        self.braces - closed_braces + usize::from(open.last() == Some(&b'('))
    }
}

/// Where the string literal that begins at a byte ends.
fn end_of_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at
}

/// The text with each line indented; directives of the preprocessor stand at the margin. Empty lines stay single, and none follows
/// what opens or precedes what closes a block.
pub(super) fn laid_out(text: &str) -> String {
    let mut open = Open::default();
    let mut out = String::with_capacity(text.len() + text.len() / 2);
    let mut is_directive = false;
    let mut empty = false;
    for line in text.lines() {
        if is_directive {
            is_directive = line.ends_with('\\');
            out += line;
            out.push('\n');
            continue;
        }
        let line = line.trim();
        if line.is_empty() {
            empty = true;
            continue;
        }
        if empty && !out.is_empty() && !out.ends_with("{\n") && !line.starts_with('}') {
            out.push('\n');
        }
        empty = false;
        is_directive = line.starts_with('#') && line.ends_with('\\');
        if !line.starts_with('#') {
            (0..open.levels(line)).for_each(|_| out += STEP);
            open.pass(line);
        }
        out += line;
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_indented_by_what_is_open_around_them() {
        let text = "void f(int a,\nint b) {\n\n#pragma unroll\nfor (;;) {\ng(\"{(\");  // {\n}\n\n\nh([&] {\nreturn a;\n});\n\n}\n";
        let expected = "void f(int a,\n  int b) {\n#pragma unroll\n  for (;;) {\n    g(\"{(\");  // {\n  }\n\n  h([&] {\n    return a;\n  });\n}\n";
        assert_eq!(laid_out(text), expected);
    }

    #[test]
    fn directives_keep_the_lines_that_continue_them() {
        let text = "#define LIST \"a, \" \\\n  \"b\"\nint x;\n";
        assert_eq!(laid_out(text), text);
    }
}
