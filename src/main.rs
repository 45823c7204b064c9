//! The `fusewright` program. Everything it does is in [`cli`]; the compiler itself is the library.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
