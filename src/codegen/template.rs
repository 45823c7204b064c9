//! Templates: each has one record and includes no other. What a kernel consists of is put together in Rust, from rendered parts.

use std::sync::LazyLock;

use serde::Serialize;
use tera::{Context, Delimiters, Tera};

use crate::error::Error;

/// Every template, parsed once. The delimiters cannot clash with CUDA's braces and percent signs.
static TEMPLATES: LazyLock<Result<Tera, String>> = LazyLock::new(|| {
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
    tera.add_raw_templates(FILES.iter().map(|(name, text)| (*name, body(text)))).map_err(|error| error.to_string())?;
    Ok(tera)
});

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../templates/", $name)))),*]
    };
}

/// The templates by their names below `templates/`.
pub(super) const FILES: &[(&str, &str)] = files![
    "sweep/evaluate.cuh",
    "sweep/pointwise.cu",
    "sweep/packed.cu",
    "sweep/reduction.cu",
    "sweep/combine.cu",
    "sweep/tree.cuh",
    "sweep/signal.cu",
    "product/fma.cu",
    "product/mma.cu",
    "product/mma_one.cuh",
    "product/mma_two.cuh",
    "product/wgmma.cu",
    "product/place.cuh",
    "product/operand/value.cuh",
    "product/operand/copied.cuh",
    "product/operand/vector.cuh",
    "product/operand/element.cuh",
    "product/operand/computed.cuh",
    "product/operand/turned.cuh",
    "product/operand/fragments.cuh",
    "product/epilogue/tile.cuh",
    "product/epilogue/reduction.cuh",
    "product/epilogue/tile_to_workspace.cuh",
    "product/epilogue/staged.cuh",
    "product/epilogue/staged_to_workspace.cuh",
    "product/epilogue/boxed.cuh",
    "product/epilogue/boxed_ask.cuh",
    "product/epilogue/totals.cuh",
    "pipeline/ring.cuh",
    "pipeline/producer.cuh",
    "pipeline/filling_producer.cuh",
    "pipeline/consumer.cuh",
    "pipeline/products.cuh",
    "pipeline/products_of_fragments.cuh",
];

/// A template without the comment at its head, which says what it is and what its record holds.
pub(super) fn body(text: &str) -> &str {
    let text = text.strip_prefix("<#").and_then(|text| text.split_once("#>\n")).map_or(text, |(_, body)| body);
    text.trim_end()
}

/// The text of a template with a record.
///
/// # Errors
/// [`Error::Generated`] if the template fails: a defect of ours.
pub(super) fn render<T: Serialize>(name: &'static str, record: &T) -> Result<String, Error> {
    #[cfg(test)]
    tests::note(name, record);
    let tera = TEMPLATES.as_ref().map_err(|error| failed(name, error))?;
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
    pub(super) fn fill<T: Serialize>(self, template: &'static str, body: T) -> Result<String, Error> {
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
