//! Devices as plain data: they can be described without a GPU.
//!
//! # When
//!
//! You need this to ask about a chip that is not here; a GPU that is here describes itself ([`Driver::device`](crate::plan::Driver::device)).
//!
//! ```
//! use fusewright::device::{ComputeCapability, Device};
//!
//! let chip: ComputeCapability = "sm_80".parse().expect("a chip");
//! assert_eq!(chip, ComputeCapability::SM_80);
//! let device = Device::typical(chip);
//! assert_eq!((device.name.as_str(), device.sm_count), ("A100", 108));
//! ```

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::graph::DataType;

/// CUDA compute capability, `major.minor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ComputeCapability {
    /// Architecture generation.
    pub major: u32,
    /// Revision.
    pub minor: u32,
}

impl ComputeCapability {
    /// Volta: V100.
    pub const SM_70: Self = Self::new(7, 0);
    /// Turing: T4.
    pub const SM_75: Self = Self::new(7, 5);
    /// Ampere: A100.
    pub const SM_80: Self = Self::new(8, 0);
    /// Ampere: A10, RTX 30.
    pub const SM_86: Self = Self::new(8, 6);
    /// Ada: L4, L40, RTX 40.
    pub const SM_89: Self = Self::new(8, 9);
    /// Hopper: H100, H200.
    pub const SM_90: Self = Self::new(9, 0);
    /// Blackwell: B200.
    pub const SM_100: Self = Self::new(10, 0);
    /// Blackwell: RTX 50.
    pub const SM_120: Self = Self::new(12, 0);

    /// Those above, with what people call their generations and chips.
    const NAMED: [(Self, &[&str]); 8] = [
        (Self::SM_70, &["volta", "v100"]),
        (Self::SM_75, &["turing", "t4"]),
        (Self::SM_80, &["ampere", "a100"]),
        (Self::SM_86, &["a10", "rtx30"]),
        (Self::SM_89, &["ada", "l4", "l40"]),
        (Self::SM_90, &["hopper", "h100", "h200"]),
        (Self::SM_100, &["blackwell", "b200"]),
        (Self::SM_120, &["rtx50"]),
    ];

    /// This capability.
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }

    /// The capability that a text most likely means: by the name of a chip, else the nearest to the number in it.
    fn meant(text: &str) -> Self {
        let word = text.to_ascii_lowercase();
        if let Some((named, _)) = Self::NAMED.iter().find(|(_, names)| names.contains(&word.as_str())) {
            return *named;
        }
        let digits: u32 = text.chars().filter_map(|digit| digit.to_digit(10)).take(4).fold(0, |sum, d| sum * 10 + d);
        let number = if digits < 10 { digits * 10 } else { digits };
        let distance = |capability: &Self| (capability.major * 10 + capability.minor).abs_diff(number);
        let nearest = Self::NAMED.map(|(capability, _)| capability).into_iter().min_by_key(distance);
        nearest.filter(|_| number > 0).unwrap_or(Self::SM_90)
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

impl From<ComputeCapability> for String {
    fn from(capability: ComputeCapability) -> Self {
        capability.to_string()
    }
}

impl TryFrom<String> for ComputeCapability {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for ComputeCapability {
    type Err = String;

    /// Reads `sm_90`, `sm_90a`, `90` or `9.0`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is no compute capability; write it as {}", Self::meant(text));
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
    /// Bandwidth of a large device-to-device copy, bytes read plus bytes written, in bytes per second.
    pub bytes_per_second: f64,
}

impl Device {
    /// What tiles and launches depend on: the chip, its multiprocessors, and the most shared memory of a block, in bytes. A binary that was made
    /// for a device runs on those of which these are the same.
    pub fn kind(&self) -> (ComputeCapability, u32, u32) {
        (self.capability, self.sm_count, self.shared_bytes_per_block)
    }

    /// The typical data-centre chip of a capability, for work without a GPU.
    pub fn typical(capability: ComputeCapability) -> Self {
        let (name, sm_count, shared_kib, l2_mib, terabytes) = match (capability.major, capability.minor) {
            (7, 0..=4) => ("V100", 80, 96, 6, 0.8),
            (7, _) => ("T4", 40, 64, 4, 0.25),
            (8, 0) => ("A100", 108, 163, 40, 1.8),
            (8, 9) => ("L40", 142, 99, 96, 0.75),
            (8, _) => ("A10", 72, 99, 6, 0.5),
            (9, _) => ("H200", 132, 227, 60, 4.25),
            (12, _) => ("RTX 5090", 170, 99, 96, 1.6),
            _ => ("B200", 148, 227, 126, 7.0),
        };
        Self {
            name: name.to_owned(),
            capability,
            sm_count,
            shared_bytes_per_block: shared_kib * 1024,
            l2_bytes: l2_mib << 20,
            bytes_per_second: terabytes * 1e12,
        }
    }

    /// Bytes of shared memory of a block where so many share a multiprocessor, each with 1 KiB that CUDA keeps for itself.
    pub fn shared_bytes_of_blocks(&self, blocks: u32) -> u32 {
        const KEPT: u32 = 1024;
        ((self.shared_bytes_per_block + KEPT) / blocks).saturating_sub(KEPT)
    }

    /// Dense matrix rate for operands of a type, operations per second: what a multiprocessor issues in a clock (by
    /// generation) at 1.7 GHz. An orientation for floors, not a measurement.
    pub fn flops_per_second(&self, operand: DataType) -> f64 {
        let half_per_clock = match (self.capability.major, self.capability.minor) {
            (7, _) => 1024.0,
            (8, 0) => 2048.0,
            (8 | 12, _) => 1024.0,
            _ => 4096.0,
        };
        let per_clock = match operand {
            DataType::Float => half_per_clock / 2.0,
            DataType::Int8 | DataType::Fp8E4M3 | DataType::Fp8E5M2 => half_per_clock * 2.0,
            _ => half_per_clock,
        };
        f64::from(self.sm_count) * per_clock * 1.7e9
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
        let named = [
            (ComputeCapability::SM_70, "sm_70"),
            (ComputeCapability::SM_75, "sm_75"),
            (ComputeCapability::SM_80, "sm_80"),
            (ComputeCapability::SM_86, "sm_86"),
            (ComputeCapability::SM_89, "sm_89"),
            (ComputeCapability::SM_90, "sm_90"),
            (ComputeCapability::SM_100, "sm_100"),
            (ComputeCapability::SM_120, "sm_120"),
        ];
        for (capability, text) in named {
            assert_eq!((text.parse(), capability.to_string().as_str()), (Ok(capability), text));
        }
        for text in ["", "9", "sm_", "hopper", "sm_9x", "9.99"] {
            assert!(text.parse::<ComputeCapability>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_misspelled_capability_is_told_by_the_nearest() {
        let meant = |text: &str| text.parse::<ComputeCapability>().unwrap_err();
        for (text, nearest) in [
            ("sm80", "sm_80"),
            ("compute_86", "sm_86"),
            ("8", "sm_80"),
            ("sm_9O", "sm_90"),
            ("Ampere", "sm_80"),
            ("L40", "sm_89"),
            ("sm-1000", "sm_120"),
            ("tpu", "sm_90"),
        ] {
            assert_eq!(meant(text), format!("'{text}' is no compute capability; write it as {nearest}"));
        }
    }

    #[test]
    fn only_hopper_has_a_suffix() {
        assert_eq!(ComputeCapability::SM_90.target(), "sm_90a");
        assert_eq!(ComputeCapability::new(8, 9).target(), "sm_89");
    }
}
