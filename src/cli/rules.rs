//! `fusewright rules`: the catalogue of documented rules.

use fusewright::engine::ENGINES;
use fusewright::frontend::{Values, values};
use fusewright::support::{Rule, catalogue};
use serde::Serialize;

use super::arguments::{Format, RulesOptions};
use super::console::{Console, Style};
use super::outcome::Result;

/// One object of `--format json`: the rule, and the engines that do without it.
#[derive(Serialize)]
struct Record {
    #[serde(flatten)]
    rule: &'static Rule,
    relaxed_by: Vec<&'static str>,
}

pub(super) fn run(options: &RulesOptions, console: &mut Console) -> Result<()> {
    if options.values {
        return list_values(options.format, console);
    }
    if options.format == Format::Json {
        let records = catalogue().map(|rule| Record { rule, relaxed_by: relaxed_by(rule) });
        return Ok(console.json(&records.collect::<Vec<_>>())?);
    }
    let mut source = "";
    for rule in catalogue() {
        if rule.source != source {
            source = rule.source;
            console.line(console.paint(Style::Heading, source))?;
        }
        let Rule { id, scope, summary, .. } = rule;
        let relaxed = relaxation(rule);
        console.line(format_args!("  {id:<26} {:>6}  {scope:<8} {summary}{relaxed}", rule.surface_label()))?;
    }
    Ok(())
}

/// What graph files may hold as tag, type and mode.
fn list_values(format: Format, console: &mut Console) -> Result<()> {
    if format == Format::Json {
        return Ok(console.json(&values())?);
    }
    for Values { place, spellings } in values() {
        console.line(console.paint(Style::Heading, place))?;
        spellings.iter().try_for_each(|spelling| console.line(format_args!("  {spelling}")))?;
    }
    Ok(())
}

/// Names of the engines that do without a rule.
fn relaxed_by(rule: &Rule) -> Vec<&'static str> {
    let engines = ENGINES.iter().filter(|engine| engine.relaxes().contains(&rule));
    engines.map(|engine| engine.name()).collect()
}

/// ` [not needed by E]`, or nothing.
fn relaxation(rule: &Rule) -> String {
    match relaxed_by(rule).as_slice() {
        [] => String::new(),
        engines => format!(" [not needed by {}]", engines.join(", ")),
    }
}
