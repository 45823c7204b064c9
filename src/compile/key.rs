//! What a binary is found again by.

use serde::{Deserialize, Serialize};

use super::{Nvrtc, options};
use crate::device::ComputeCapability;
use crate::graph::GraphKey;

/// Everything that can change a binary; equal keys mean interchangeable binaries.
///
/// | part | changes the binary because |
/// |---|---|
/// | graph | engines generate from the graph; of dynamic shapes it is the class, all but extents and strides |
/// | engine, config | so does the choice of kernel |
/// | source | the text that is compiled, whole; covers every change of a template, and shapes whose texts are equal share a binary |
/// | nvrtc | another compiler, other code; version and size of the library, as patch releases share a version |
/// | options | with the exact chip in `-arch` |
/// | target | the exact chip, for people who read a listing |
/// | fusewright | another version may read the metadata of a binary differently |
///
/// Not part of it: names and uids, which the source does not have, the driver (a cubin does not depend on it), and options that change no
/// code (`-no-cache`).
///
/// The source alone would do for correctness; graph, engine and config make a listing legible, and keep two plans
/// apart should a hash ever be cut short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheKey {
    pub(super) graph: String,
    pub(super) engine: String,
    pub(super) config: String,
    pub(super) source: String,
    pub(super) nvrtc: String,
    pub(super) options: Vec<String>,
    pub(super) target: String,
    pub(super) fusewright: String,
}

impl CacheKey {
    /// The key of a source compiled by this NVRTC for this chip. `config` is the engine config as it prints.
    pub fn new(
        graph: GraphKey,
        engine: &str,
        config: &str,
        source: &str,
        nvrtc: &Nvrtc,
        capability: ComputeCapability,
    ) -> Self {
        Self {
            graph: graph.to_string(),
            engine: engine.to_owned(),
            config: config.to_owned(),
            source: blake3::hash(source.as_bytes()).to_hex().to_string(),
            nvrtc: nvrtc.identity(),
            options: options::binary_arguments(nvrtc.version(), capability),
            target: capability.target(),
            fusewright: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    /// Graph the binary was made for, as [`GraphKey`] prints.
    pub fn graph(&self) -> &str {
        &self.graph
    }

    /// Engine that generated the source.
    pub fn engine(&self) -> &str {
        &self.engine
    }

    /// Engine config, as it prints.
    pub fn config(&self) -> &str {
        &self.config
    }

    /// NVRTC's name of the exact chip.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// Version and size of the NVRTC library.
    pub fn nvrtc(&self) -> &str {
        &self.nvrtc
    }

    /// Hash of the whole key.
    pub(super) fn digest(&self) -> [u8; 32] {
        // JSON is unambiguous (strings are quoted) and its field order is that of the struct.
        let text = serde_json::to_vec(self).expect("strings and lists of strings always serialize");
        *blake3::hash(&text).as_bytes()
    }

    /// Name of the key's files, without extension: 64 hexadecimal digits.
    pub fn file_stem(&self) -> String {
        blake3::Hash::from_bytes(self.digest()).to_hex().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::key;
    use super::*;

    #[test]
    fn every_part_changes_the_file_name() {
        let base = key("a");
        let changed: [fn(&mut CacheKey); 8] = [
            |key| key.graph.push('x'),
            |key| key.engine.push('x'),
            |key| key.config.push('x'),
            |key| key.source.push('x'),
            |key| key.nvrtc.push('x'),
            |key| key.options.push(String::new()),
            |key| key.target.push('x'),
            |key| key.fusewright.push('x'),
        ];
        for change in changed {
            let mut other = base.clone();
            change(&mut other);
            assert_ne!(other.file_stem(), base.file_stem(), "{other:?}");
        }
    }

    #[test]
    fn text_does_not_move_between_parts() {
        let parts = |engine: &str, config: &str| {
            CacheKey { engine: engine.to_owned(), config: config.to_owned(), ..key("a") }.file_stem()
        };
        assert_ne!(parts("ab", "c"), parts("a", "bc"));
        assert_ne!(parts("a\",\"config\":\"b", ""), parts("a", "b"));
    }

    #[test]
    fn the_file_name_is_plain_hexadecimal() {
        let stem = CacheKey { engine: "../../etc/é\0".to_owned(), ..key("a") }.file_stem();
        assert!(stem.len() == 64 && stem.bytes().all(|byte| byte.is_ascii_hexdigit()), "{stem}");
    }
}
