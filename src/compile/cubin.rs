//! What a compilation gives.

use serde::{Deserialize, Serialize};

/// A compiled source: the machine code of one exact chip, and what the assembler said about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cubin {
    /// The ELF image the driver loads; in texts, base64.
    #[serde(with = "base64_text")]
    pub image: Vec<u8>,
    /// NVRTC's whole log.
    pub log: String,
    /// One entry per function the assembler reported, in the order of the log.
    pub resources: Vec<FunctionResources>,
    /// The assembler's `C75xx` lines: a wgmma or setmaxnreg that does not do what was written. Each is a defect of the
    /// generated source.
    pub warnings: Vec<String>,
    /// Time the compiler took, in milliseconds; that of the original compilation where the cubin comes from a cache.
    pub milliseconds: f64,
}

/// Bytes as a text.
mod base64_text {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize as _, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        STANDARD.decode(String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

/// What one function needs of the chip, by the assembler's own count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionResources {
    /// Name of the function.
    pub function: String,
    /// Registers per thread; 0 for a device function that was not inlined.
    pub registers: u32,
    /// Bytes stored to local memory for want of registers, per thread.
    pub spill_stores: u32,
    /// Bytes loaded again.
    pub spill_loads: u32,
    /// Stack frame, in bytes per thread.
    pub stack: u32,
    /// Static shared memory, in bytes per block.
    pub shared: u32,
}
