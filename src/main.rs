//! The `fusewright` program. Everything it does is in [`fusewright::cli`].

fn main() -> std::process::ExitCode {
    fusewright::cli::main()
}
