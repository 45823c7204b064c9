//! The command line: arguments, what each command prints, exit codes.
//!
//! One file a command. A command writes its results to a [`Console`]'s standard output and nothing else there; what
//! concerns people only (warnings, progress, logs) goes to standard error. Trouble with one graph of several is reported
//! and the others go on; the exit code is that of the worst ([`Outcome`]).

mod arguments;
mod bench;
mod build;
mod cache;
mod check;
mod compile;
mod console;
mod cost;
mod doctor;
mod executor;
mod explain;
mod files;
mod fuzz;
mod kernel_runner;
mod outcome;
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
use tracing_subscriber::EnvFilter;

use arguments::{Arguments, Command};
use console::{Console, Verbosity};
use outcome::{Outcome, Stop};

/// Reads the arguments, runs the command, and gives its exit code: 0 done, 1 refused or verification failed, 2 bad
/// input or usage, 3 environment.
pub(crate) fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return report_usage(&error),
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
        Command::Explain(options) => explain::run(&options, console),
        Command::Compile(options) => compile::run(&options, console),

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
            let _ = write!(io::stderr(), "fusewright: {}", plain_usage(error.render().to_string()));
            Outcome::BadInput.into()
        }
    }
}

/// A message about arguments, with each of them as part of a line.
fn plain_usage(mut message: String) -> String {
    for argument in std::env::args_os().skip(1) {
        let argument = argument.to_string_lossy();
        for quoted in [argument.as_ref(), argument.split_once('=').map_or("", |(_, value)| value)] {
            if quoted.contains('\n') {
                message = message.replace(quoted, &plain::part(quoted));
            }
        }
    }
    plain::lines(&message).into_owned()
}

/// Sends the library's events to standard error, as `FUSEWRIGHT_LOG` says (`debug`, `fusewright::compile=trace`, …);
/// without it, by verbosity.
fn log_to_stderr(console: &Console) {
    let filter = EnvFilter::builder()
        .with_default_directive(console.verbosity().log_level().into())
        .with_env_var("FUSEWRIGHT_LOG")
        .from_env_lossy();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(console.colours_errors())
        .without_time()
        .with_target(false)
        .init();
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
