//! Logging as the cuDNN documentation describes it, on `tracing`: one implementation for Rust programs and for the shared
//! library.
//!
//! | variable | meaning |
//! |---|---|
//! | `CUDNN_LOGLEVEL_DBG` | 0 nothing, 1 errors, 2 warnings too, 3 every call of the ABI and what else is worth a line |
//! | `CUDNN_LOGDEST_DBG` | `NULL`, `stdout`, `stderr` (also where a level is set and this is not), or a file; its name may hold `strftime` specifiers, and `%i` for the process id |
//!
//! They are read once. [`layer`] is for programs with a `tracing` subscriber of their own, [`install`] for those without.
//! A sink ([`set_sink`]) takes the place of what the environment asks for.
//!
//! Errors of the ABI are tracebacks, the root cause first: broken rules with what they require and what was found.
//!
//! # When
//!
//! You need this to see why a graph was refused without asking for it in code, or to have the messages in a log of your own.
//!
//! ```
//! use fusewright::logging::{Destination, Settings, Severity, layer, set_sink};
//! use tracing_subscriber::layer::SubscriberExt;
//!
//! // What the environment would ask for.
//! let settings = Settings::of(|name| (name == "CUDNN_LOGLEVEL_DBG").then(|| "2".into()));
//! assert_eq!(settings, Settings { level: 2, destination: Destination::Stderr });
//!
//! // A program with a subscriber of its own adds the layer, and may take the records itself.
//! let subscriber = tracing_subscriber::registry().with(layer());
//! let wanted = Severity::Error.bit() | Severity::Warning.bit();
//! set_sink(Some((wanted, std::sync::Arc::new(|record| eprintln!("{}", record.text())))));
//! # drop(subscriber);
//! ```

mod destination;
mod record;
mod settings;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, RwLock};

use tracing::level_filters::LevelFilter;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, Filter, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

pub(crate) use record::VERSION;
pub use record::{Record, Severity};
pub use settings::{Destination, Settings};

use self::destination::Output;

/// Takes records in place of what the environment asks for.
pub type Sink = Arc<dyn Fn(&Record) + Send + Sync>;

/// What is written where.
struct State {
    settings: Settings,
    output: Mutex<Output>,
    sink: RwLock<Option<(u8, Sink)>>,
    /// Severities that anyone takes, one bit each.
    wanted: AtomicU8,
}

thread_local! {
    /// Whether this thread is writing a record.
    static WRITING: Cell<bool> = const { Cell::new(false) };
}

static STATE: LazyLock<State> = LazyLock::new(|| State::new(Settings::from_environment()));

impl State {
    fn new(settings: Settings) -> Self {
        let wanted = AtomicU8::new(settings.mask());
        Self { output: Mutex::new(Output::open(&settings)), settings, sink: RwLock::new(None), wanted }
    }

    fn write(&self, record: &Record) {
        // what a sink does is not logged again
        let is_nested = WRITING.try_with(|writing| writing.replace(true)).unwrap_or(true);
        if !is_nested {
            self.write_one(record);
            let _ = WRITING.try_with(|writing| writing.set(false));
        }
    }

    fn write_one(&self, record: &Record) {
        let sink = self.sink.read().unwrap_or_else(PoisonError::into_inner).clone();
        match sink {
            Some((mask, sink)) if mask & record.severity.bit() != 0 => sink(record),
            Some(_) => {}
            None if self.settings.mask() & record.severity.bit() != 0 => {
                self.output.lock().unwrap_or_else(PoisonError::into_inner).write(&record.text());
            }
            None => {}
        }
    }

    fn set_sink(&self, sink: Option<(u8, Sink)>) {
        let wanted = sink.as_ref().map_or(self.settings.mask(), |sink| sink.0);
        let mut current = self.sink.write().unwrap_or_else(PoisonError::into_inner);
        let previous = std::mem::replace(&mut *current, sink);
        self.wanted.store(wanted, Ordering::Relaxed);
        drop(current);
        drop(previous);
    }
}

/// Sends records of these severities (their [`Severity::bit`]s) to a sink; without one, to where the environment says.
pub fn set_sink(sink: Option<(u8, Sink)>) {
    STATE.set_sink(sink);
    tracing::callsite::rebuild_interest_cache();
}

/// A layer that writes what the environment asks for, of this library's events alone.
pub fn layer<S: Subscriber + for<'a> LookupSpan<'a>>() -> impl Layer<S> {
    Writer.with_filter(Wanted)
}

/// Makes [`layer`] the subscriber of the process, unless it has one; does nothing where nothing is asked for, so that nothing is
/// paid for it.
pub fn install() {
    if STATE.wanted.load(Ordering::Relaxed) != 0 {
        install_always();
    }
}

/// The same, whatever is asked for now: a sink may come and go.
pub fn install_always() {
    // a program with a subscriber of its own adds the layer itself
    let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer()));
}

/// Lets events of this library through that anyone wants.
struct Wanted;

impl Wanted {
    fn takes(metadata: &Metadata<'_>) -> bool {
        let wanted = STATE.wanted.load(Ordering::Relaxed);
        let severity = Severity::of(*metadata.level());
        !metadata.is_span()
            && metadata.target().starts_with(env!("CARGO_CRATE_NAME"))
            && severity.is_some_and(|severity| wanted & severity.bit() != 0)
    }
}

impl<S> Filter<S> for Wanted {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        Self::takes(metadata)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> tracing::subscriber::Interest {
        match Self::takes(metadata) {
            true => tracing::subscriber::Interest::always(),
            false => tracing::subscriber::Interest::never(),
        }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        let wanted = STATE.wanted.load(Ordering::Relaxed);
        Some(match wanted {
            0 => LevelFilter::OFF,
            _ if wanted & Severity::Info.bit() != 0 => LevelFilter::INFO,
            _ if wanted & Severity::Warning.bit() != 0 => LevelFilter::WARN,
            _ => LevelFilter::ERROR,
        })
    }
}

/// Writes events as records.
struct Writer;

impl<S: Subscriber> Layer<S> for Writer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if let Some(record) = Record::of(event) {
            STATE.write(&record);
        }
    }
}
