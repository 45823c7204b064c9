//! The command line: arguments, what each command prints, exit codes.
//!
//! One file a command. A command writes its results to a `Console`'s standard output and nothing else there; what
//! concerns people only (warnings, progress, logs) goes to standard error. Trouble with one graph of several is reported
//! and the others go on; the exit code is that of the worst (`Outcome`).

mod arguments;
mod bench;
mod bundle;
mod cache;
mod check;
mod compile;
mod console;
mod cost;
mod doctor;
mod executor;
mod explain;
mod explanation;
mod extent;
mod files;
mod fuzz;
mod outcome;
mod page;
mod plain;
mod rules;
mod run;
mod tensor_file;
mod units;
mod verify;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser as _;
use clap::error::ErrorKind;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use fusewright::device::Device;
use fusewright::engine::HeuristicMode;
use fusewright::error::Error;
use fusewright::graph::FinalizedGraph;

use arguments::{Arguments, Command, ExplainOptions};
use console::{Console, Verbosity};
use outcome::{Outcome, Stop};

/// The program: what the arguments of the process ask for.
pub fn main() -> ExitCode {
    run(std::env::args_os().collect()).into()
}

/// Reads arguments, the program's name before them, runs the command, and gives its exit code: 0 done, 1 refused or verification
/// failed, 2 bad input or usage, 3 environment.
pub fn run(arguments: Vec<OsString>) -> u8 {
    let plain: Vec<String> = arguments.iter().map(|one| plain::part(&one.to_string_lossy()).into_owned()).collect();
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        // control characters as escapes: arguments are quoted in it
        Err(error) => return report_usage(&Arguments::try_parse_from(plain).err().unwrap_or(error)),
    };
    let mut console = Console::new(arguments.verbosity());
    log_to_stderr(&console);
    let done = run_command(arguments.command, &mut console).and_then(|()| Ok(console.flush()?));
    match done {
        Ok(()) => console.outcome() as u8,
        // Whoever reads has read enough, as in `fusewright check … | head`.
        Err(Stop::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Outcome::Done as u8,
        Err(Stop::Output(error)) => {
            console.complain(format_args!("cannot write the results: {error}"));
            Outcome::Environment as u8
        }
        Err(Stop::Failed(error)) => {
            console.fail(&error);
            // The results so far are good; that they cannot be written adds nothing to the failure.
            let _ = console.flush();
            console.outcome() as u8
        }
    }
}

/// What `fusewright explain` prints of a graph, as plain text.
///
/// # Errors
/// As [`build::Build::in_mode`](crate::build::Build::in_mode); none for a refused graph.
pub fn explanation(place: &str, graph: &Arc<FinalizedGraph>, device: &Device) -> Result<String, Error> {
    let mut console = Console::to_text();
    match explain::print(place, Arc::clone(graph), device, HeuristicMode::A, &mut console) {
        Ok(()) => Ok(console.into_text()),
        Err(Stop::Failed(error)) => Err(error),
        Err(Stop::Output(error)) => Err(Error::environment(format!("an explanation cannot be written: {error}"))),
    }
}

fn run_command(command: Command, console: &mut Console) -> outcome::Result<()> {
    match command {
        Command::Check(options) => check::run(&options, console),
        Command::Explain(options) if options.html.is_some() && options.capabilities.len() > 1 => {
            Err(Error::input("--html", "a page is about one chip, so --arch names one").into())
        }
        Command::Explain(options) => options.capabilities.iter().try_for_each(|&capability| {
            let done = explain::run(&ExplainOptions { capability, ..options.clone() }, console);
            console.survive(done)
        }),
        Command::Compile(options) => match &options.bundle {
            Some(file) => bundle::run(&options, file, console),
            None => compile::run(&options, console),
        },

        Command::Run(options) => run::run(&options, console),
        Command::Bench(options) => bench::run(&options, console),
        Command::Rules(options) => rules::run(&options, console),
        Command::Cache(options) => cache::run(&options, console),
        Command::Fuzz(options) => fuzz::run(&options, console),
        Command::Doctor => doctor::run(console),
    }
}

/// Help goes to standard output; usage errors to standard error, in the form of all others.
fn report_usage(error: &clap::Error) -> u8 {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let _ = error.print();
            Outcome::Done as u8
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            Outcome::BadInput as u8
        }
        _ => {
            let _ = write!(io::stderr(), "fusewright: {}", plain::lines(&error.render().to_string()));
            Outcome::BadInput as u8
        }
    }
}

/// Sends the library's events to standard error, as `FUSEWRIGHT_LOG` says (`debug`, `fusewright::compile=trace`, …);
/// without it, by verbosity; and to where cuDNN's variables say ([`fusewright::logging`]).
fn log_to_stderr(console: &Console) {
    let filter = EnvFilter::builder()
        .with_default_directive(console.verbosity().log_level().into())
        .with_env_var("FUSEWRIGHT_LOG")
        .from_env_lossy();
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(console.colours_errors())
        .without_time()
        .with_target(false);
    tracing_subscriber::registry().with(lines.with_filter(filter)).with(fusewright::logging::layer()).init();
}

impl Arguments {
    fn verbosity(&self) -> Verbosity {
        match (self.quiet, self.verbose) {
            (true, _) => Verbosity::Quiet,
            (false, 0) => Verbosity::Normal,
            (false, 1) => Verbosity::Verbose,
            (false, _) => Verbosity::Debug,
        }
    }
}
