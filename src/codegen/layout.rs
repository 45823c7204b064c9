//! Lays out the text of a function: lines are indented by what is open around them, so that templates need not know where their
//! text ends up.

/// Indentation of a level.
const STEP: &str = "  ";

/// The braces and parentheses that are open at the start of a line, innermost last.
#[derive(Clone, Default)]
struct Open(Vec<char>);

impl Open {
    /// Takes note of what a line opens and closes, strings and comments aside.
    fn pass(&mut self, line: &str) {
        let mut rest = line.chars().peekable();
        while let Some(c) = rest.next() {
            match c {
                '{' | '(' => self.0.push(c),
                '}' | ')' => drop(self.0.pop()),
                '/' if rest.peek() == Some(&'/') => return,
                '"' => skip_string(&mut rest),
                _ => {}
            }
        }
    }

    /// Levels of a line: one for each brace that it does not begin by closing, and one if it goes on within parentheses.
    fn levels(&self, line: &str) -> usize {
        let closing = line.chars().take_while(|c| matches!(c, '}' | ')')).count();
        let open = &self.0[..self.0.len().saturating_sub(closing)];
        let braces = open.iter().filter(|&&c| c == '{').count();
        braces + usize::from(open.last() == Some(&'('))
    }
}

/// Goes to the end of a string literal.
fn skip_string(rest: &mut impl Iterator<Item = char>) {
    while let Some(quoted) = rest.next() {
        match quoted {
            '"' => return,
            '\\' => drop(rest.next()),
            _ => {}
        }
    }
}

/// The text with each line indented; directives of the preprocessor stand at the margin. Empty lines stay single, and none follows
/// what opens or precedes what closes a block.
pub(super) fn laid_out(text: &str) -> String {
    let mut open = Open::default();
    let mut out = String::new();
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
            out += &STEP.repeat(open.levels(line));
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
