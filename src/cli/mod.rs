//! The command line: arguments, what each command prints, exit codes.
//!
//! One file a command. A command writes its results to a [`Console`]'s standard output and nothing else there; what
//! concerns people only (warnings, progress, logs) goes to standard error. Trouble with one graph of several is reported
//! and the others go on; the exit code is that of the worst ([`Outcome`]).

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

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::Parser as _;
use clap::error::ErrorKind;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use fusewright::error::Error;

use arguments::{Arguments, Command, ExplainOptions};
use console::{Console, Verbosity};
use outcome::{Outcome, Stop};

/// Reads the arguments, runs the command, and gives its exit code: 0 done, 1 refused or verification failed, 2 bad
/// input or usage, 3 environment.
pub(crate) fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return report_usage(&with_plain_arguments(error)),
    };
    let mut console = Console::new(arguments.verbosity());
    log_to_stderr(&console);
    let done = run_command(arguments.command, &mut console).and_then(|()| Ok(console.flush()?));
    match done {
        Ok(()) => console.outcome().into(),
        // Whoever reads has read enough, as in `fusewright check … | head`.
        Err(Stop::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(Stop::Output(error)) => {
            console.complain(format_args!("cannot write the results: {error}"));
            Outcome::Environment.into()
        }
        Err(Stop::Failed(error)) => {
            console.fail(&error);
            // The results so far are good; that they cannot be written adds nothing to the failure.
            let _ = console.flush();
            console.outcome().into()
        }
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
fn report_usage(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let _ = error.print();
            ExitCode::SUCCESS
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            Outcome::BadInput.into()
        }
        _ => {
            let _ = write!(io::stderr(), "fusewright: {}", plain::lines(&error.render().to_string()));
            Outcome::BadInput.into()
        }
    }
}

/// The error that the arguments give with their control characters as escapes; they are quoted in it.
fn with_plain_arguments(error: clap::Error) -> clap::Error {
    let plain = std::env::args_os().map(|argument| plain::part(&argument.to_string_lossy()).into_owned());
    Arguments::try_parse_from(plain).err().unwrap_or(error)
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
