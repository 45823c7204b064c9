//! Which NVRTC knows which chip.
//!
//! A table of ours, since `nvrtcGetSupportedArchs` gives numbers only: it is silent about `sm_90a`. Measured with
//! 12.9.86, 13.0.88 and 13.5.37.

use super::Version;
use crate::device::ComputeCapability;

const fn version(major: u32, minor: u32) -> Version {
    Version { major, minor }
}

/// Capability (major, minor), first version that knows it, first version that no longer does.
const TABLE: &[((u32, u32), Version, Option<Version>)] = &[
    ((7, 0), version(12, 0), Some(version(13, 0))),
    ((7, 2), version(12, 0), Some(version(13, 0))),
    ((7, 5), version(12, 0), None),
    ((8, 0), version(12, 0), None),
    ((8, 6), version(12, 0), None),
    ((8, 7), version(12, 0), None),
    ((8, 8), version(13, 0), None),
    ((8, 9), version(12, 0), None),
    ((9, 0), version(12, 0), None),
    ((10, 0), version(12, 8), None),
    ((10, 1), version(12, 8), Some(version(13, 0))),
    ((10, 3), version(12, 9), None),
    ((10, 7), version(13, 5), None),
    ((11, 0), version(13, 0), None),
    ((12, 0), version(12, 8), None),
    ((12, 1), version(12, 9), None),
];

/// Whether NVRTC of this version compiles for this chip.
pub(super) fn supports(nvrtc: Version, capability: ComputeCapability) -> bool {
    row(capability).is_some_and(|(since, until)| nvrtc >= since && until.is_none_or(|until| nvrtc < until))
}

/// The versions that compile for this chip, in words: `13.0 or newer`, `12.0 or newer, before 13.0`, `none`.
pub(super) fn needed(capability: ComputeCapability) -> String {
    match row(capability) {
        None => "none".to_owned(),
        Some((since, None)) => format!("{since} or newer"),
        Some((since, Some(until))) => format!("{since} or newer, before {until}"),
    }
}

fn row(capability: ComputeCapability) -> Option<(Version, Option<Version>)> {
    let name = (capability.major, capability.minor);
    TABLE.iter().find(|row| row.0 == name).map(|row| (row.1, row.2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volta_needs_version_12_and_hopper_takes_both() {
        let volta = ComputeCapability::new(7, 0);
        assert!(supports(version(12, 9), volta));
        assert!(!supports(version(13, 0), volta));
        assert_eq!(needed(volta), "12.0 or newer, before 13.0");
        for nvrtc in [version(12, 0), version(12, 9), version(13, 0), version(13, 5)] {
            assert!(supports(nvrtc, ComputeCapability::SM_90), "{nvrtc}");
        }
    }

    #[test]
    fn first_and_unknown_versions() {
        assert!(!supports(version(12, 7), ComputeCapability::new(10, 0)));
        assert!(supports(version(12, 8), ComputeCapability::new(10, 0)));
        assert!(!supports(version(13, 0), ComputeCapability::new(6, 0)));
        assert_eq!(needed(ComputeCapability::new(6, 0)), "none");
        assert_eq!(needed(ComputeCapability::new(8, 8)), "13.0 or newer");
    }
}
