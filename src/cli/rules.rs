//! `fusewright rules`: the catalogue of documented rules.

use fusewright::support::{Rule, catalogue};

use super::arguments::{Format, RulesOptions};
use super::console::{Console, Style};
use super::outcome::Result;

pub(super) fn run(options: &RulesOptions, console: &mut Console) -> Result<()> {
    if options.format == Format::Json {
        return Ok(console.json(&catalogue().collect::<Vec<&Rule>>())?);
    }
    let mut source = "";
    for rule in catalogue() {
        if rule.source != source {
            source = rule.source;
            console.line(console.paint(Style::Heading, source))?;
        }
        console.line(format_args!(
            "  {:<26} {:>6}  {:<8} {}",
            rule.id,
            rule.surface_label(),
            rule.scope,
            rule.summary
        ))?;
    }
    Ok(())
}
