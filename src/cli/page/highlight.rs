//! CUDA text as HTML: keywords, comments, text in quotes (PTX is) and preprocessor lines are told apart by short elements, since a
//! page may hold many kernels.

/// Words of the language and of CUDA that begin declarations and statements, and the types of kernels.
const KEYWORDS: &[&str] = &[
    "__align__",
    "__constant__",
    "__device__",
    "__forceinline__",
    "__global__",
    "__launch_bounds__",
    "__restrict__",
    "__shared__",
    "alignas",
    "asm",
    "auto",
    "bool",
    "break",
    "case",
    "char",
    "const",
    "constexpr",
    "continue",
    "default",
    "do",
    "double",
    "else",
    "enum",
    "extern",
    "false",
    "float",
    "for",
    "if",
    "inline",
    "int",
    "long",
    "namespace",
    "operator",
    "return",
    "short",
    "signed",
    "sizeof",
    "static",
    "static_assert",
    "static_cast",
    "struct",
    "switch",
    "template",
    "true",
    "typedef",
    "typename",
    "union",
    "unsigned",
    "using",
    "void",
    "volatile",
    "while",
];

/// The text, escaped: keywords in `b`, comments in `i`, text in quotes in `s`, preprocessor lines in `u`.
pub(super) fn highlighted(text: &str) -> String {
    let mut html = String::with_capacity(text.len() * 5 / 4);
    let mut rest = text;
    let mut begins_line = true;
    while let Some(first) = rest.chars().next() {
        let (length, element) = token(rest, first, begins_line);
        let (token, after) = rest.split_at(length);
        match element {
            Some(element) => html.extend(["<", element, ">", &escaped(token), "</", element, ">"]),
            None => html += &escaped(token),
        }
        begins_line = first == '\n' || begins_line && first.is_ascii_whitespace();
        rest = after;
    }
    html
}

/// Length of the token that a text begins with, and its element.
fn token(text: &str, first: char, begins_line: bool) -> (usize, Option<&'static str>) {
    let line = || text.find('\n').unwrap_or(text.len());
    match first {
        '/' if text.starts_with("//") => (line(), Some("i")),
        '/' if text.starts_with("/*") => (text[2..].find("*/").map_or(text.len(), |end| end + 4), Some("i")),
        '#' if begins_line => (line(), Some("u")),
        '"' | '\'' => (quoted(text, first), Some("s")),
        _ if is_word(first) => {
            let length = text.find(|c| !is_word(c)).unwrap_or(text.len());
            (length, KEYWORDS.binary_search(&&text[..length]).is_ok().then_some("b"))
        }
        // a run of what begins nothing
        _ => (text[first.len_utf8()..].find(begins).map_or(text.len(), |end| end + first.len_utf8()), None),
    }
}

fn begins(c: char) -> bool {
    is_word(c) || matches!(c, '/' | '"' | '\'' | '\n' | '#')
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// Length of a text in quotes, with them.
fn quoted(text: &str, quote: char) -> usize {
    let mut is_escaped = true;
    for (at, c) in text.char_indices() {
        match c {
            // the first one begins it
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '\n' => return at,
            _ if c == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// What HTML would take for markup, as references.
pub(super) fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => html += "&amp;",
            '<' => html += "&lt;",
            '>' => html += "&gt;",
            '"' => html += "&quot;",
            '\'' => html += "&#39;",
            _ => html.push(c),
        }
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_are_in_order() {
        assert!(KEYWORDS.is_sorted());
    }

    #[test]
    fn elements_tell_what_a_token_is() {
        for (text, html) in [
            ("int x = 1 < 2;", "<b>int</b> x = 1 &lt; 2;"),
            ("a; // <b> 'x'\nreturn", "a; <i>// &lt;b&gt; &#39;x&#39;</i>\n<b>return</b>"),
            ("/* a\n// */int", "<i>/* a\n// */</i><b>int</b>"),
            ("/* open", "<i>/* open</i>"),
            (" #define A\na # b", " <u>#define A</u>\na # b"),
            ("asm(\"a \\\" b\");", "<b>asm</b>(<s>&quot;a \\&quot; b&quot;</s>);"),
            ("'\\'' interior", "<s>&#39;\\&#39;&#39;</s> interior"),
            ("a / b", "a / b"),
            ("\"open\nint", "<s>&quot;open</s>\n<b>int</b>"),
        ] {
            assert_eq!(highlighted(text), html, "{text}");
        }
    }

    #[test]
    fn nothing_is_lost() {
        let text = "é // ü\n#if 1\n\tx<<<1, \"a\">>>(&y, 'b');\n";
        let mut plain = highlighted(text);
        for (html, c) in [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")] {
            for element in ["b", "i", "s", "u"] {
                plain = plain.replace(&format!("<{element}>"), "").replace(&format!("</{element}>"), "");
            }
            plain = plain.replace(html, c);
        }
        assert_eq!(plain, text);
    }
}
