//! The templates of pages.

use std::sync::LazyLock;

use fusewright::error::Error;
use serde::Serialize;
use tera::{Context, Tera};

/// The templates, by their names below `templates/page`; what ends in `.html` is escaped.
static TEMPLATES: LazyLock<Result<Tera, String>> = LazyLock::new(|| {
    let mut tera = Tera::default();
    let templates = [
        ("explain.html", include_str!("../../../templates/page/explain.html")),
        ("graph.html", include_str!("../../../templates/page/graph.html")),
        ("drawing.html", include_str!("../../../templates/page/drawing.html")),
        ("roofline.html", include_str!("../../../templates/page/roofline.html")),
        ("bench.html", include_str!("../../../templates/page/bench.html")),
        ("style.css", include_str!("../../../templates/page/style.css")),
        ("search.js", include_str!("../../../templates/page/search.js")),
    ];
    tera.add_raw_templates(templates).map_err(|error| error.to_string())?;
    Ok(tera)
});

/// The page of a template with a record.
///
/// # Errors
/// [`Error::Generated`] if the template fails: a defect of ours.
pub(super) fn render<T: Serialize>(template: &str, record: &T) -> Result<String, Error> {
    let failed = |error: &dyn std::fmt::Display| Error::Generated {
        message: format!("template page/{template} failed; this is a defect of fusewright"),
        log: error.to_string(),
        source_path: None,
    };
    let tera = TEMPLATES.as_ref().map_err(|error| failed(error))?;
    let context = Context::from_serialize(record).map_err(|error| failed(&error))?;
    tera.render(template, &context).map_err(|error| failed(&error))
}
