//! Standard output and error: buffering, colours, progress.

use std::error::Error as _;
use std::fmt::{self, Display};
use std::io::{self, BufWriter, IsTerminal as _, Stdout, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tracing::level_filters::LevelFilter;

use fusewright::error::Error;

use super::outcome::{Outcome, Stop};
use super::plain;

/// How much is said on standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verbosity {
    /// Errors only.
    Quiet,
    /// Warnings, too.
    Normal,
    /// Notes and what the library did.
    Verbose,
    /// Why it did it.
    Debug,
}

impl Verbosity {
    /// Least severe of the library's events that are shown, unless `FUSEWRIGHT_LOG` says otherwise.
    pub(super) fn log_level(self) -> LevelFilter {
        match self {
            Self::Quiet => LevelFilter::ERROR,
            Self::Normal => LevelFilter::WARN,
            Self::Verbose => LevelFilter::INFO,
            Self::Debug => LevelFilter::DEBUG,
        }
    }
}

/// Meaning of a text, which decides its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// Good news.
    Good,
    /// A refusal.
    Refused,
    /// An error.
    Bad,
    /// A heading.
    Heading,
}

impl Style {
    fn code(self) -> &'static str {
        match self {
            Self::Good => "32",
            Self::Refused => "33",
            Self::Bad => "31",
            Self::Heading => "1",
        }
    }
}

/// Where results go.
enum Output {
    Stdout(BufWriter<Stdout>),
    Text(Vec<u8>),
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stdout(output) => output.write(bytes),
            Self::Text(text) => text.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stdout(output) => output.flush(),
            Self::Text(_) => Ok(()),
        }
    }
}

/// Where a command writes, and the worst that happened.
pub(super) struct Console {
    output: Output,
    verbosity: Verbosity,
    colours: bool,
    outcome: Outcome,
}

impl Console {
    /// Writes results to standard output; colours only where a person looks on and `NO_COLOR` is not set.
    pub(super) fn new(verbosity: Verbosity) -> Self {
        let colours = io::stdout().is_terminal() && colours_are_wanted();
        let output = Output::Stdout(BufWriter::with_capacity(1 << 16, io::stdout()));
        Self { output, verbosity, colours, outcome: Outcome::Done }
    }

    /// Keeps results as text, without colours.
    pub(super) fn to_text() -> Self {
        Self { output: Output::Text(Vec::new()), verbosity: Verbosity::Normal, colours: false, outcome: Outcome::Done }
    }

    /// What was kept; empty for standard output.
    pub(super) fn into_text(self) -> String {
        match self.output {
            Output::Text(text) => String::from_utf8_lossy(&text).into_owned(),
            Output::Stdout(_) => String::new(),
        }
    }

    pub(super) fn verbosity(&self) -> Verbosity {
        self.verbosity
    }

    /// Whether standard error is coloured.
    pub(super) fn colours_errors(&self) -> bool {
        io::stderr().is_terminal() && colours_are_wanted()
    }

    /// The worst so far.
    pub(super) fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// Remembers an outcome if it is worse than those before.
    pub(super) fn note_outcome(&mut self, outcome: Outcome) {
        self.outcome = self.outcome.max(outcome);
    }

    /// Writes one line of results.
    pub(super) fn line(&mut self, text: impl Display) -> io::Result<()> {
        let text = text.to_string();
        writeln!(
            self.output,
            "{}",
            if self.colours { plain_between_colours(&text) } else { plain::lines(&text).into() }
        )
    }

    /// Writes lines of results.
    pub(super) fn text(&mut self, text: &str) -> io::Result<()> {
        self.output.write_all(plain::lines(text).as_bytes())
    }

    /// Writes one JSON value on a line of its own.
    pub(super) fn json(&mut self, value: &impl serde::Serialize) -> io::Result<()> {
        writeln!(self.output, "{}", plain::json(&serde_json::to_string(value)?))
    }

    /// Hands over what was written so far.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }

    /// A text in the colour of its meaning, where colours are on.
    pub(super) fn paint(&self, style: Style, text: impl Display) -> String {
        if self.colours { format!("\x1b[{}m{text}{PLAIN}", style.code()) } else { text.to_string() }
    }

    /// A verdict in colour.
    pub(super) fn verdict(&self, is_good: bool) -> String {
        if is_good { self.paint(Style::Good, "passed") } else { self.paint(Style::Bad, "FAILED") }
    }

    /// Reports an error with its causes, and remembers its outcome.
    pub(super) fn fail(&mut self, error: &Error) {
        self.note_outcome(error.into());
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(inner) = cause {
            message.push_str(&format!(": {inner}"));
            cause = inner.source();
        }
        if let Error::NotSupported(cause) = error {
            cause.remedy().lines().iter().for_each(|line| message.push_str(&format!("\n{line}")));
        }
        if let Error::Generated { log, source_path, .. } = error {
            message.extend((!log.is_empty()).then(|| format!("\n{}", log.trim_end())));
            message.extend(source_path.iter().map(|path| format!("\nthe source is in {}", plain::path(path))));
        }
        self.complain(format_args!("{message}"));
    }

    /// Goes on after an error that concerns one graph only; anything else stops the command.
    pub(super) fn survive(&mut self, result: super::outcome::Result<()>) -> super::outcome::Result<()> {
        match result {
            Err(Stop::Failed(error)) => {
                self.fail(&error);
                Ok(())
            }
            other => other,
        }
    }

    /// Writes an error to standard error, and nowhere else.
    pub(super) fn complain(&self, message: fmt::Arguments<'_>) {
        self.say("error", "31", message);
    }

    /// Writes a warning to standard error, unless quiet.
    pub(super) fn warn(&self, message: impl Display) {
        if self.verbosity > Verbosity::Quiet {
            self.say("warning", "33", format_args!("{message}"));
        }
    }

    /// Says what was done, on standard error, unless quiet.
    pub(super) fn say_done(&self, message: impl Display) {
        if self.verbosity > Verbosity::Quiet {
            self.say("done", "32", format_args!("{message}"));
        }
    }

    /// Writes a note to standard error, if verbose.
    pub(super) fn note(&self, message: impl Display) {
        if self.verbosity >= Verbosity::Verbose {
            self.say("note", "36", format_args!("{message}"));
        }
    }

    fn say(&self, kind: &str, colour: &str, message: fmt::Arguments<'_>) {
        let message = message.to_string();
        let message = plain::lines(&message);
        let kind = if self.colours_errors() { format!("\x1b[{colour}m{kind}\x1b[0m") } else { kind.to_owned() };
        // Nobody is left to tell that standard error is gone.
        let _ = writeln!(io::stderr(), "fusewright: {kind}: {message}");
    }

    /// A spinner with a text and the time so far on a terminal's standard error while something takes long; nothing elsewhere.
    pub(super) fn spinner(&self, text: impl Into<String>) -> ProgressBar {
        if !self.shows_progress() {
            return ProgressBar::hidden();
        }
        let style = ProgressStyle::with_template("{spinner} {msg} {elapsed}");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_spinner());
        let spinner = ProgressBar::new_spinner().with_style(style).with_message(plain::part(&text.into()).into_owned());
        spinner.enable_steady_tick(Duration::from_millis(120));
        spinner
    }

    /// A bar over a known number of steps, as [`Self::spinner`].
    pub(super) fn bar(&self, steps: usize) -> ProgressBar {
        if !self.shows_progress() || steps < 2 {
            return ProgressBar::hidden();
        }
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}");
        ProgressBar::new(steps as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
    }

    fn shows_progress(&self) -> bool {
        self.verbosity > Verbosity::Quiet && io::stderr().is_terminal()
    }
}

/// Ends a colour.
const PLAIN: &str = "\x1b[0m";

/// The text with its other escapes shown: what [`Console::paint`] made stays.
fn plain_between_colours(text: &str) -> String {
    const STYLES: [Style; 4] = [Style::Good, Style::Refused, Style::Bad, Style::Heading];
    let colours = STYLES.map(|style| format!("\x1b[{}m", style.code()));
    let mut result = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('\x1b') {
        let (before, escape) = rest.split_at(at);
        let known = colours.iter().map(String::as_str).chain([PLAIN]).find(|colour| escape.starts_with(colour));
        let length = known.map_or(1, str::len);
        result += &plain::lines(before);
        result += &known.map_or_else(|| plain::lines(&escape[..length]), Into::into);
        rest = &escape[length..];
    }
    result + &plain::lines(rest)
}

/// `NO_COLOR`, whatever its value, asks for none (no-color.org); an empty one is as good as unset.
fn colours_are_wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_colours_stay_and_other_escapes_are_shown() {
        let text = "\x1b[31mbad\x1b[0m \x1b[2J\x1b]0;t\u{7}\u{9b}1m \x1b[1mx\x1b[0m\x1b";
        let shown = "\x1b[31mbad\x1b[0m \\u{1b}[2J\\u{1b}]0;t\\u{7}\\u{9b}1m \x1b[1mx\x1b[0m\\u{1b}";
        assert_eq!(plain_between_colours(text), shown);
    }
}
