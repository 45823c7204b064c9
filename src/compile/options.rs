//! NVRTC's options.

use super::Version;
use crate::device::ComputeCapability;

/// What a caller may choose about a compilation. Nothing here changes machine code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Bypass the cache that NVRTC itself keeps where a driver is installed (12.9 and newer): for measuring cold
    /// compilations. Versions before 12.9 have no such cache.
    pub no_cache: bool,
    /// Compile the functions of a source one after the other, to one image, also where cores are free.
    pub in_one_program: bool,
}

impl Options {
    /// The complete command line for a chip.
    pub(super) fn arguments(self, nvrtc: Version, capability: ComputeCapability) -> Vec<String> {
        let mut arguments = binary_arguments(nvrtc, capability);
        if self.no_cache && nvrtc >= (Version { major: 12, minor: 9 }) {
            arguments.push("-no-cache".to_owned());
        }
        arguments
    }
}

/// The options that take part in making the binary, and so in the cache key.
pub(super) fn binary_arguments(nvrtc: Version, capability: ComputeCapability) -> Vec<String> {
    let mut arguments = vec![format!("-arch={}", capability.target()), "-std=c++17".to_owned()];
    // Leaves out textures and the runtime API, which we never use: 3 to 6 ms.
    if nvrtc >= (Version { major: 12, minor: 4 }) {
        arguments.push("-minimal".to_owned());
    }
    // Otherwise NVRTC raises the stack limit of the whole process while it compiles.
    arguments.push("-modify-stack-limit=false".to_owned());
    // Registers, spills and shared memory in the log; one option a flag.
    arguments.push("--ptxas-options=-v".to_owned());
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hopper_is_compiled_for_its_exact_chip() {
        let arguments = Options::default().arguments(Version { major: 13, minor: 0 }, ComputeCapability::SM_90);
        let expected = ["-arch=sm_90a", "-std=c++17", "-minimal", "-modify-stack-limit=false", "--ptxas-options=-v"];
        assert_eq!(arguments, expected);
    }

    #[test]
    fn options_that_a_version_lacks_are_left_out() {
        let no_cache = Options { no_cache: true, ..Options::default() };
        let at = |major, minor| no_cache.arguments(Version { major, minor }, ComputeCapability::new(8, 0)).join(" ");
        assert!(at(12, 9).ends_with("-no-cache") && !at(12, 8).contains("-no-cache"));
        assert!(at(12, 4).contains("-minimal") && !at(12, 3).contains("-minimal"));
    }
}
