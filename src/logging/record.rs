//! One record: a call, a warning or an error, with its tail.

use std::fmt::{self, Write as _};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use tracing::field::{Field, Visit};
use tracing::{Event, Level};

/// Version of the API that records begin with, 9.21.0: 10000 · major + 100 · minor + patch.
pub(crate) const VERSION: u32 = 92_100;

/// How serious a record is, by the numbers of `cudnnSeverity_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Something went wrong.
    Error = 1,
    /// Something is not supported, or not as it should be.
    Warning = 2,
    /// A call, or a fact.
    Info = 3,
}

impl Severity {
    /// All, the most serious first.
    pub const ALL: [Self; 3] = [Self::Error, Self::Warning, Self::Info];

    /// Its bit in masks.
    pub const fn bit(self) -> u8 {
        1 << self as u8
    }

    pub(super) fn of(level: Level) -> Option<Self> {
        Some(match level {
            Level::ERROR => Self::Error,
            Level::WARN => Self::Warning,
            Level::INFO => Self::Info,
            _ => return None,
        })
    }
}

/// When the process began to log.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// A record.
#[derive(Clone, Debug)]
pub struct Record {
    /// How serious it is.
    pub severity: Severity,
    /// The function of the ABI it is of, or the module.
    pub function: String,
    /// The status's number, where it is of a call that failed.
    pub status: u32,
    /// The address that stands for the handle; 0 where there is none.
    pub handle: u64,
    /// The stream of the handle; 0 where there is none.
    pub stream: u64,
    /// When.
    pub time: jiff::Zoned,
    /// How long after the first record.
    pub since_start: Duration,
    /// The thread, by a number of its own.
    pub thread: u64,
    /// Parameters or reasons, one a line.
    lines: Vec<String>,
}

impl Record {
    pub(super) fn of(event: &Event<'_>) -> Option<Self> {
        let severity = Severity::of(*event.metadata().level())?;
        let mut fields = Fields::default();
        event.record(&mut fields);
        let Fields { function, status, status_number, handle, stream, details, message } = fields;
        let word = match severity {
            Severity::Error => "Error",
            Severity::Warning => "Warning",
            Severity::Info => "Info",
        };
        let lines = match (&function, severity) {
            // the parameters of a call
            (Some(_), Severity::Info) => details,
            (Some(_), _) => details.iter().map(|reason| format!("{word}: {status}; Reason: {reason}")).collect(),
            (None, _) => vec![format!("{word}: {message}")],
        };
        let since_start = START.elapsed();
        Some(Self {
            severity,
            function: function.unwrap_or_else(|| event.metadata().target().to_owned()),
            status: status_number,
            handle,
            stream,
            time: jiff::Zoned::now(),
            since_start,
            thread: thread_number(),
            lines,
        })
    }

    /// The lines of the record, without their ends.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("cuDNN (v{VERSION}) function {}() called:", self.function)];
        if self.function.contains("::") {
            lines = vec![format!("cuDNN (v{VERSION}) {}:", self.function)];
        }
        if self.severity == Severity::Error && self.status != 0 {
            lines.push(format!("    Info: Traceback contains {} message(s)", self.lines.len()));
        }
        let indent = if self.severity == Severity::Info { "    " } else { "        " };
        lines.extend(self.lines.iter().map(|line| format!("{indent}{line}")));
        let seconds = self.since_start.as_secs();
        let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
        let time = self.time.strftime("%Y-%m-%dT%H:%M:%S%.6f");
        lines.push(format!("Time: {time} ({days}d+{hours}h+{minutes}m+{}s since start)", seconds % 60));
        let pointer = |address: u64| if address == 0 { "NULL".to_owned() } else { format!("{address:#x}") };
        let (handle, stream) = (pointer(self.handle), pointer(self.stream));
        let process = std::process::id();
        lines.push(format!("Process={process}; Thread={}; GPU=NULL; Handle={handle}; StreamId={stream}.", self.thread));
        lines
    }

    /// The record as it is written.
    pub fn text(&self) -> String {
        let mut text = self.lines().join("\n");
        text.push_str("\n\n");
        text
    }
}

/// The number that the standard library gives the thread.
fn thread_number() -> u64 {
    let text = format!("{:?}", std::thread::current().id());
    text.chars().filter(char::is_ascii_digit).collect::<String>().parse().unwrap_or(0)
}

/// Fields of an event that records have.
#[derive(Default)]
struct Fields {
    function: Option<String>,
    status: String,
    status_number: u32,
    handle: u64,
    stream: u64,
    details: Vec<String>,
    message: String,
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "function" => self.function = Some(value.to_owned()),
            "details" => self.details = value.lines().map(str::to_owned).collect(),
            _ => self.record_debug(field, &format_args!("{value}")),
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "status_number" => self.status_number = u32::try_from(value).unwrap_or(0),
            "handle" => self.handle = value,
            "stream" => self.stream = value,
            _ => self.record_debug(field, &value),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // writing to a string cannot fail
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            "status" => write!(self.status, "{value:?}"),
            name => write!(self.message, " {name}={value:?}"),
        };
    }
}
