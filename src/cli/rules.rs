//! `fusewright rules`: the catalogue of documented rules, and what an id of a message stands for.

use fusewright::engine::ENGINES;
use fusewright::error::Error;
use fusewright::frontend::{Values, values};
use fusewright::support::{
    Citation, DetailedStatus, Entry, Kind, Rule, SurfaceId, Term, catalogue, citations, entry, terms,
};
use serde::{Deserialize, Serialize};

use super::arguments::{Format, RulesOptions};
use super::console::{Console, Style};
use super::outcome::Result;

/// An example for each restriction, for most ids of well-formedness and of graph files, one JSON object a line. A test of
/// `support` makes the file of the graphs that hold the rules.
const EXAMPLES: &str = include_str!("rule_examples.jsonl");

/// One object of `--format json`: the rule, and the engines that do without it.
#[derive(Serialize)]
struct Record {
    #[serde(flatten)]
    rule: &'static Rule,
    relaxed_by: Vec<&'static str>,
}

/// One object of `ID… --format json`.
#[derive(Serialize)]
struct Told {
    #[serde(flatten)]
    entry: ToldEntry,
    sources: Vec<Citation>,
    example: Option<Example>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum ToldEntry {
    Rule(Record),
    Term(&'static Term),
}

/// A graph that breaks the rule, and one that does not.
#[derive(Serialize, Deserialize)]
struct Example {
    id: String,
    #[serde(flatten)]
    broken: Broken,
    /// Inputs and operations of a graph that breaks no rule, a line each.
    legal: Vec<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Broken {
    /// A graph that a surface refuses.
    Refused {
        surface: String,
        arch: String,
        refused: Vec<String>,
        place: String,
        required: String,
        found: String,
        legal_surface: String,
        legal_arch: String,
    },
    /// A graph file that cannot be read, on one line, and what is said of it.
    File { file: String, malformed: String },
    /// A graph that is not well formed: what is said of it.
    Malformed { malformed: String },
}

pub(super) fn run(options: &RulesOptions, console: &mut Console) -> Result<()> {
    if options.values {
        return list_values(options.format, console);
    }
    if !options.ids.is_empty() {
        return tell(&options.ids, options.format, console);
    }
    if options.format == Format::Json {
        let records = catalogue().map(record);
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
    console.line(console.paint(Style::Heading, "Other ids of messages"))?;
    for Term { id, kind, summary, .. } in terms() {
        console.line(format_args!("  {id:<26} {:<15} {summary}", kind.name()))?;
    }
    Ok(())
}

fn record(rule: &'static Rule) -> Record {
    Record { rule, relaxed_by: relaxed_by(rule) }
}

/// Everything known of these ids.
///
/// # Errors
/// [`Error::Input`] naming the first that is none.
fn tell(ids: &[String], format: Format, console: &mut Console) -> Result<()> {
    let unknown = |id: &String| {
        let message = "no rule and no other id of a message; `fusewright rules` lists all".to_owned();
        Error::input(format!("'{}'", id.escape_debug()), message)
    };
    let entries = ids.iter().map(|id| entry(id).ok_or_else(|| unknown(id)));
    let entries: Vec<Entry> = entries.collect::<std::result::Result<_, Error>>()?;
    if format == Format::Json {
        return Ok(console.json(&entries.into_iter().map(told).collect::<Vec<_>>())?);
    }
    for (number, entry) in entries.into_iter().enumerate() {
        if number > 0 {
            console.line("")?;
        }
        print(entry, console)?;
    }
    Ok(())
}

fn told(entry: Entry) -> Told {
    match entry {
        Entry::Rule(rule) => Told {
            entry: ToldEntry::Rule(record(rule)),
            sources: citations(rule.source).unwrap_or_default(),
            example: example_of_rule(rule),
        },
        Entry::Term(term) => Told {
            entry: ToldEntry::Term(term),
            sources: citations(term.source).unwrap_or_default(),
            example: example(term.id),
        },
    }
}

/// The example of a rule; of one that another states as well, that of the other.
fn example_of_rule(rule: &Rule) -> Option<Example> {
    match rule.kind {
        Kind::Restated(by) => reported_as(rule, by).iter().find_map(|id| example(id)),
        _ => example(rule.id),
    }
}

/// The ids that are reported in place of a restated rule, one for each of its surfaces.
fn reported_as(rule: &Rule, by: &str) -> Vec<String> {
    let mut ids: Vec<String> =
        rule.surfaces.iter().map(|surface: &SurfaceId| by.replace('*', &surface.to_string())).collect();
    ids.dedup();
    ids
}

fn example(id: &str) -> Option<Example> {
    let examples = EXAMPLES.lines().filter_map(|line| serde_json::from_str(line).ok());
    examples.into_iter().find(|example: &Example| example.id == id)
}

fn print(entry: Entry, console: &mut Console) -> Result<()> {
    let (id, summary, source) = match entry {
        Entry::Rule(rule) => (rule.id, rule.summary, rule.source),
        Entry::Term(term) => (term.id, term.summary, term.source),
    };
    console.line(format_args!("{}  {summary}", console.paint(Style::Heading, id)))?;
    let example = match entry {
        Entry::Rule(rule) => {
            print_rule(rule, console)?;
            example_of_rule(rule)
        }
        Entry::Term(term) => {
            console.line(format_args!("  kind      {}", term.kind.name()))?;
            example(term.id)
        }
    };
    for Citation { document, section } in citations(source).unwrap_or_default() {
        let section = if section.is_empty() { String::new() } else { format!(": {section}") };
        console.line(format_args!("  source    {}{section}", document.title))?;
        console.line(format_args!("            {}", document.address))?;
    }
    example.map_or(Ok(()), |example| print_example(&example, console))
}

fn print_rule(rule: &Rule, console: &mut Console) -> Result<()> {
    let kind = match rule.kind {
        Kind::Checked(status) => format!("checked; breaking it gives {}", DetailedStatus::name(status)),
        Kind::WellFormed => "well-formed; a graph that breaks it is malformed".to_owned(),
        Kind::Restated(by) => format!("restated; reported as {}", reported_as(rule, by).join(", ")),
        Kind::Definition => "definition; nothing can break it".to_owned(),
        Kind::Permission => "permission; it bounds a restriction".to_owned(),
        Kind::Note => "note; it never changes a verdict".to_owned(),
    };
    console.line(format_args!("  kind      {kind}"))?;
    console.line(format_args!("  surfaces  {}", rule.surface_label()))?;
    console.line(format_args!("  scope     {}", rule.scope))?;
    match relaxed_by(rule).as_slice() {
        [] => Ok(()),
        engines => Ok(console.line(format_args!("  not needed by {}", engines.join(", ")))?),
    }
}

fn print_example(example: &Example, console: &mut Console) -> Result<()> {
    match &example.broken {
        Broken::Refused { surface, arch, refused, place, required, found, legal_surface, legal_arch } => {
            console.line(console.paint(Style::Refused, format_args!("  refused by surface {surface} on {arch}")))?;
            refused.iter().try_for_each(|line| console.line(format_args!("    {line}")))?;
            console.line(format_args!("    {place}"))?;
            console.line(format_args!("      required {required}"))?;
            console.line(format_args!("      found    {found}"))?;
            let changed: Vec<&String> = example.legal.iter().filter(|line| !refused.contains(line)).collect();
            let there = match (legal_surface == surface, legal_arch == arch) {
                (true, true) => String::new(),
                (true, false) => format!(" on {legal_arch}"),
                (false, _) => format!(" by surface {legal_surface} on {legal_arch}"),
            };
            let with = if changed.is_empty() { "" } else { " with" };
            console.line(console.paint(Style::Good, format_args!("  legal{there}{with}")))?;
            Ok(changed.into_iter().try_for_each(|line| console.line(format_args!("    {line}")))?)
        }
        Broken::File { file, malformed } => {
            console.line(console.paint(Style::Bad, "  malformed"))?;
            console.line(format_args!("    {file}"))?;
            console.line(format_args!("    {malformed}"))?;
            console.line(console.paint(Style::Good, "  legal"))?;
            Ok(example.legal.iter().try_for_each(|line| console.line(format_args!("    {line}")))?)
        }
        Broken::Malformed { malformed } => {
            console.line(console.paint(Style::Bad, "  malformed"))?;
            console.line(format_args!("    {malformed}"))?;
            console.line(console.paint(Style::Good, "  legal"))?;
            Ok(example.legal.iter().try_for_each(|line| console.line(format_args!("    {line}")))?)
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_is_read_and_of_a_known_id() {
        for line in EXAMPLES.lines() {
            let example: Example = serde_json::from_str(line).expect("the file is what the tests of support write");
            assert!(entry(&example.id).is_some() && !example.legal.is_empty(), "{}", example.id);
        }
    }
}
