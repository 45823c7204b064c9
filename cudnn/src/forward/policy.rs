//! Whose engine configs come first.

use std::sync::LazyLock;

const VARIABLE: &str = "FUSEWRIGHT_CUDNN";

/// What `FUSEWRIGHT_CUDNN` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    /// Ours, then the real library's.
    OursFirst,
    /// The real library's, then ours.
    TheirsFirst,
    /// Ours where they were measured to be faster, else the real library's.
    Tuned,
}

impl Policy {
    /// That of the environment, read once.
    pub(crate) fn current() -> Self {
        static CURRENT: LazyLock<Policy> = LazyLock::new(Policy::of_environment);
        *CURRENT
    }

    #[expect(clippy::print_stderr, reason = "what was asked for is not done")]
    fn of_environment() -> Self {
        let text = std::env::var_os(VARIABLE).unwrap_or_default();
        match text.to_str() {
            Some("ours-first") => Self::OursFirst,
            Some("theirs-first") => Self::TheirsFirst,
            Some("tuned" | "") => Self::Tuned,
            _ => {
                let name = text.display();
                eprintln!("fusewright: {VARIABLE}={name}: required: ours-first, theirs-first or tuned; tuned is taken");
                Self::Tuned
            }
        }
    }
}
