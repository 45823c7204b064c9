//! Exit codes, and why a command stops early.

use std::io;

use fusewright::error::Error;

/// What a process has to say for itself; of several, the greatest counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Outcome {
    /// Everything was done.
    #[default]
    Done = 0,
    /// A graph was refused, or a verification failed.
    Refused = 1,
    /// A file, a graph or an argument cannot be used.
    BadInput = 2,
    /// Something is missing or broken around us: driver, NVRTC, disk, memory.
    Environment = 3,
}

impl From<&Error> for Outcome {
    fn from(error: &Error) -> Self {
        match error.exit_code() {
            1 => Self::Refused,
            2 => Self::BadInput,
            _ => Self::Environment,
        }
    }
}

/// Why a command cannot go on.
#[derive(Debug)]
pub(super) enum Stop {
    /// To be reported.
    Failed(Error),
    /// Standard output cannot be written; a reader that went away is no failure.
    Output(io::Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

/// Result of a command or of a part of one.
pub(super) type Result<T> = std::result::Result<T, Stop>;

#[cfg(test)]
mod tests {
    use fusewright::error::NotSupported;

    use super::*;

    #[test]
    fn the_worst_outcome_is_the_greatest() {
        let outcomes = [Outcome::Refused, Outcome::Environment, Outcome::Done, Outcome::BadInput];
        assert_eq!(outcomes.into_iter().max(), Some(Outcome::Environment));
    }

    #[test]
    fn errors_have_the_outcome_of_who_must_act() {
        assert_eq!(Outcome::from(&Error::from(NotSupported::Work(String::new()))), Outcome::Refused);
        assert_eq!(Outcome::from(&Error::input("x", "y")), Outcome::BadInput);
        assert_eq!(Outcome::from(&Error::environment("no driver")), Outcome::Environment);
    }
}
