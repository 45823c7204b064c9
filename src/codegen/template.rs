//! Templates: each has one record and includes no other. What a kernel consists of is put together in Rust, from rendered parts.

use std::sync::LazyLock;

use serde::Serialize;
use tera::{Context, Delimiters, Tera};

use crate::error::Error;

/// A template, parsed when it is first rendered.
pub(super) struct Template {
    /// Its file below `templates/`.
    pub(super) name: &'static str,
    pub(super) parsed: LazyLock<Result<Tera, String>>,
}

/// The template of a file below `templates/`.
macro_rules! template {
    ($name:literal) => {{
        static TEMPLATE: $crate::codegen::template::Template = $crate::codegen::template::Template {
            name: $name,
            parsed: std::sync::LazyLock::new(|| {
                let text = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/templates/", $name));
                $crate::codegen::template::parsed($name, text)
            }),
        };
        &TEMPLATE
    }};
}
pub(super) use template;

/// The delimiters cannot clash with CUDA's braces and percent signs.
pub(super) fn parsed(name: &'static str, text: &str) -> Result<Tera, String> {
    let mut tera = Tera::default();
    let delimiters = Delimiters {
        block_start: "<%".into(),
        block_end: "%>".into(),
        variable_start: "${".into(),
        variable_end: "}$".into(),
        comment_start: "<#".into(),
        comment_end: "#>".into(),
    };
    tera.set_delimiters(delimiters).map_err(|error| error.to_string())?;
    tera.autoescape_on(Vec::<&str>::new());
    tera.add_raw_templates([(name, body(text))]).map_err(|error| error.to_string())?;
    Ok(tera)
}

/// A template without the comment at its head, which says what it is and what its record holds.
pub(super) fn body(text: &str) -> &str {
    let text = text.strip_prefix("<#").and_then(|text| text.split_once("#>\n")).map_or(text, |(_, body)| body);
    text.trim_end()
}

/// The text of a template with a record.
///
/// # Errors
/// [`Error::Generated`] if the template fails: a defect of ours.
pub(super) fn render<T: Serialize>(template: &Template, record: &T) -> Result<String, Error> {
    let name = template.name;
    #[cfg(test)]
    tests::note(name, record);
    let tera = template.parsed.as_ref().map_err(|error| failed(name, error))?;
    let context = Context::from_serialize(record).map_err(|error| failed(name, &error))?;
    let text = tera.render(name, &context).map_err(|error| failed(name, &error))?;
    // a loop or a condition at the head leaves the end of its line
    Ok(text.trim_start_matches('\n').to_owned())
}

/// What every skeleton reads, and its own record.
#[derive(Serialize)]
struct FunctionText<T> {
    function: String,
    parameters: String,
    #[serde(flatten)]
    body: T,
}

/// A function's name, and its parameters.
pub(super) struct Signature<'a> {
    pub(super) name: &'a str,
    pub(super) parameters: String,
}

impl Signature<'_> {
    /// The function's text: a skeleton filled with its record.
    ///
    /// # Errors
    /// [`Error::Generated`] if the template fails: a defect of ours.
    pub(super) fn fill<T: Serialize>(self, template: &Template, body: T) -> Result<String, Error> {
        render(template, &FunctionText { function: self.name.to_owned(), parameters: self.parameters, body })
    }
}

fn failed(template: &str, error: &dyn std::fmt::Display) -> Error {
    Error::Generated {
        message: format!("template {template} failed; this is a defect of fusewright"),
        log: error.to_string(),
        source_path: None,
    }
}

#[cfg(test)]
mod tests;
