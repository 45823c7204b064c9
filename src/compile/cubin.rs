//! What a compilation gives.

use serde::{Deserialize, Serialize};

/// A compiled source: the machine code of one exact chip, and what the assembler said about it.
///
/// A source whose functions are several programs has an image of each, where cores were free to compile them at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cubin {
    /// The ELF images that the driver loads, in the order of the source; in texts, base64.
    #[serde(with = "base64_texts")]
    pub images: Vec<Vec<u8>>,
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

impl Cubin {
    /// Bytes of machine code, with what the driver needs beside it.
    pub fn bytes(&self) -> u64 {
        self.images.iter().map(|image| image.len() as u64).sum()
    }

    /// What the compilations of a source's programs gave, in this order, as one; it took so long.
    pub(super) fn of_programs(programs: Vec<Self>, milliseconds: f64) -> Self {
        let empty =
            Self { images: Vec::new(), log: String::new(), resources: Vec::new(), warnings: Vec::new(), milliseconds };
        programs.into_iter().fold(empty, |mut all, program| {
            all.images.extend(program.images);
            all.log.push_str(&program.log);
            all.resources.extend(program.resources);
            all.warnings.extend(program.warnings);
            all
        })
    }
}

/// Bytes as texts.
mod base64_texts {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize as _, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(images: &[Vec<u8>], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(images.iter().map(|image| STANDARD.encode(image)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Vec<u8>>, D::Error> {
        let texts = Vec::<String>::deserialize(deserializer)?;
        texts.iter().map(|text| STANDARD.decode(text).map_err(de::Error::custom)).collect()
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
