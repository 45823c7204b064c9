//! Which trials run by default: all of the host and of a GPU, and of kernels that are compiled for the emulator or by NVRTC, of which there are
//! thousands, a sample that is always the same. All of them run with `FUSEWRIGHT_EXHAUSTIVE=1`, and those that a filter names.

use libtest_mimic::{Arguments, Trial};

/// One trial in so many of those whose names begin so; the first line that fits counts.
const STRIDES: &[(&str, u64)] = &[
    ("emulator::skipped", 1),
    ("emulator::sm_", 10),
    ("emulator::infinities::", 10),
    ("emulator::pairs_of_knobs::", 4),
    ("emulator::stored_gradients::", 12),
    ("emulator::dynamic::", 8),
    ("emulator::layers::", 1),
    ("emulator::", 4),
    ("nvrtc::skipped", 1),
    ("nvrtc::every_config::", 4),
    ("nvrtc::stored_gradients::", 10),
    ("nvrtc::ln_", 1),
    ("nvrtc::", 5),
];

/// The trials that are to run.
pub(crate) fn chosen(trials: Vec<Trial>, arguments: &Arguments) -> Vec<Trial> {
    let is_exhaustive = std::env::var_os("FUSEWRIGHT_EXHAUSTIVE").is_some_and(|value| value == "1");
    if is_exhaustive || arguments.filter.is_some() || arguments.list {
        return trials;
    }
    trials.into_iter().filter(|trial| is_in_sample(trial.name())).collect()
}

fn is_in_sample(name: &str) -> bool {
    let stride = STRIDES.iter().find(|(prefix, _)| name.starts_with(prefix)).map_or(1, |&(_, stride)| stride);
    hash(name).is_multiple_of(stride)
}

/// FNV-1a, whose low bits are mixed once more.
pub(crate) fn hash(name: &str) -> u64 {
    let hash =
        name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    hash ^ (hash >> 32)
}
