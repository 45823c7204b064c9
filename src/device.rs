//! Devices as plain data: they can be described without a GPU.

use std::fmt;
use std::str::FromStr;

/// CUDA compute capability, `major.minor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ComputeCapability {
    /// Architecture generation.
    pub major: u32,
    /// Revision.
    pub minor: u32,
}

impl ComputeCapability {
    /// Hopper.
    pub const SM_90: Self = Self::new(9, 0);

    /// This capability.
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }

    /// NVRTC's name of the exact chip: `sm_80`, and `sm_90a` for Hopper.
    pub fn target(self) -> String {
        let suffix = if self.major == 9 { "a" } else { "" };
        format!("sm_{}{}{suffix}", self.major, self.minor)
    }
}

impl fmt::Display for ComputeCapability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}{}", self.major, self.minor)
    }
}

impl FromStr for ComputeCapability {
    type Err = String;

    /// Reads `sm_90`, `sm_90a`, `90` or `9.0`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is no compute capability; write it as sm_90");
        let digits = text.strip_prefix("sm_").unwrap_or(text);
        let digits = digits.strip_suffix(['a', 'f']).unwrap_or(digits);
        let (major, minor) = match digits.split_once('.') {
            Some(pair) => pair,
            None if digits.len() >= 2 && digits.is_ascii() => digits.split_at(digits.len() - 1),
            None => return Err(wrong()),
        };
        match (major.parse(), minor.parse()) {
            (Ok(major), Ok(minor)) if (1..100).contains(&major) && minor < 10 => Ok(Self::new(major, minor)),
            _ => Err(wrong()),
        }
    }
}

/// What code generation and heuristics need to know of a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Name for messages, as the driver gives it, or that of the typical chip.
    pub name: String,
    /// Compute capability.
    pub capability: ComputeCapability,
    /// Number of streaming multiprocessors.
    pub sm_count: u32,
    /// Largest dynamic shared memory of one block, in bytes (opt-in).
    pub shared_bytes_per_block: u32,
    /// L2 cache, in bytes.
    pub l2_bytes: u64,
}

impl Device {
    /// The typical data-centre chip of a capability, for work without a GPU.
    pub fn typical(capability: ComputeCapability) -> Self {
        let (name, sm_count, shared_kib, l2_mib) = match (capability.major, capability.minor) {
            (7, 0..=4) => ("V100", 80, 96, 6),
            (7, _) => ("T4", 40, 64, 4),
            (8, 0) => ("A100", 108, 163, 40),
            (8, 9) => ("L40", 142, 99, 96),
            (8, _) => ("A10", 72, 99, 6),
            (9, _) => ("H200", 132, 227, 60),
            _ => ("B200", 148, 227, 126),
        };
        Self {
            name: name.to_owned(),
            capability,
            sm_count,
            shared_bytes_per_block: shared_kib * 1024,
            l2_bytes: l2_mib << 20,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_read_in_every_spelling() {
        for text in ["sm_90", "sm_90a", "90", "9.0"] {
            assert_eq!(text.parse(), Ok(ComputeCapability::SM_90), "{text}");
        }
        assert_eq!("sm_120".parse(), Ok(ComputeCapability::new(12, 0)));
        for text in ["", "9", "sm_", "hopper", "sm_9x", "9.99"] {
            assert!(text.parse::<ComputeCapability>().is_err(), "{text}");
        }
    }

    #[test]
    fn only_hopper_has_a_suffix() {
        assert_eq!(ComputeCapability::SM_90.target(), "sm_90a");
        assert_eq!(ComputeCapability::new(8, 9).target(), "sm_89");
    }
}
