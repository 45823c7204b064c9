//! One stored winner, as text: the BLAKE3 of the second line in hexadecimal, then a line of JSON.

use serde::{Deserialize, Serialize};

use crate::device::{ComputeCapability, Device};
use crate::graph::GraphKey;

/// What a winner holds for.
///
/// | part | because |
/// |---|---|
/// | graph | its key holds shapes, strides, alignments and types |
/// | engine | a config is one of its own; which engine is chosen may depend on the environment. Another library with its version, in entries of [`super::Rivals`] |
/// | device | the name says which clocks and memory; the rest tells parts of one device (MIG) apart |
/// | fusewright | another version may generate other code for the same config |
///
/// Not part of it: the driver, NVRTC, the state of the device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TuningKey {
    graph: String,
    engine: String,
    device: String,
    capability: String,
    sm_count: u32,
    shared_bytes_per_block: u32,
    l2_bytes: u64,
    fusewright: String,
}

/// A stored winner with its key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TuningEntry {
    /// What it holds for.
    pub key: TuningKey,
    /// The winner, as [`crate::engine::EngineConfig`] prints; or what another library took.
    pub config: String,
    /// Its median time when it was measured, in milliseconds.
    pub median_ms: f64,
}

impl TuningKey {
    /// The key of a graph that an engine computes on a device.
    pub fn new(graph: GraphKey, engine: &str, device: &Device) -> Self {
        Self {
            graph: graph.to_string(),
            engine: engine.to_owned(),
            device: device.name.clone(),
            capability: device.capability.to_string(),
            sm_count: device.sm_count,
            shared_bytes_per_block: device.shared_bytes_per_block,
            l2_bytes: device.l2_bytes,
            fusewright: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    /// Graph that was tuned, as [`GraphKey`] prints.
    pub fn graph(&self) -> &str {
        &self.graph
    }

    /// Name of the device, as the driver gives it.
    pub fn device(&self) -> &str {
        &self.device
    }

    /// Whether it is the key of this graph and engine on some device of a capability, by this version.
    pub fn is_of(&self, graph: GraphKey, engine: &str, capability: ComputeCapability) -> bool {
        let version = env!("CARGO_PKG_VERSION");
        self.graph == graph.to_string()
            && self.engine == engine
            && self.capability == capability.to_string()
            && self.fusewright == version
    }

    /// Name of the key's file, without extension: 64 hexadecimal digits.
    pub(super) fn file_stem(&self) -> String {
        // JSON is unambiguous (strings are quoted) and its field order is that of the struct.
        let text = serde_json::to_vec(self).expect("strings and numbers always serialize");
        blake3::hash(&text).to_hex().to_string()
    }
}

impl TuningEntry {
    /// The file's content.
    pub(super) fn encode(&self) -> String {
        let json = serde_json::to_string(self).expect("strings and finite numbers always serialize");
        format!("{}\n{json}\n", blake3::hash(json.as_bytes()).to_hex())
    }

    /// Reads a file's content.
    ///
    /// # Errors
    /// What is wrong with it; never a panic, whatever the bytes.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(bytes).map_err(|_| "is no text")?;
        let (hash, json) = text.split_once('\n').ok_or("is truncated")?;
        let json = json.strip_suffix('\n').ok_or("is truncated")?;
        if blake3::hash(json.as_bytes()).to_hex().as_str() != hash {
            return Err("has a wrong checksum".to_owned());
        }
        serde_json::from_str(json).map_err(|error| format!("is no entry of this version: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::store::tests::{hopper, selection};
    use super::*;

    fn key() -> TuningKey {
        let selection = selection(64);
        TuningKey::new(selection.supported().graph().key(), selection.engine().name(), &hopper())
    }

    fn entry() -> TuningEntry {
        TuningEntry { key: key(), config: "warpgroup_mma schedule=ping_pong".to_owned(), median_ms: 0.1 + 0.2 }
    }

    #[test]
    fn an_entry_reads_back() {
        assert_eq!(TuningEntry::decode(entry().encode().as_bytes()), Ok(entry()));
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let text = entry().encode();
        for position in 0..text.len() {
            let mut damaged = text.clone().into_bytes();
            damaged[position] ^= 1 << (position % 7);
            assert!(TuningEntry::decode(&damaged).is_err(), "byte {position}");
            assert!(TuningEntry::decode(&text.as_bytes()[..position]).is_err(), "cut at {position}");
        }
        assert!(TuningEntry::decode(format!("{text}\n").as_bytes()).is_err(), "appended");
        let foreign = format!("{}\n{{}}\n", blake3::hash(b"{}").to_hex());
        assert!(TuningEntry::decode(foreign.as_bytes()).unwrap_err().starts_with("is no entry of this version"));
    }

    #[test]
    fn every_part_changes_the_file_name() {
        let changed: [fn(&mut TuningKey); 8] = [
            |key| key.graph.push('x'),
            |key| key.engine.push('x'),
            |key| key.device.push('x'),
            |key| key.capability.push('x'),
            |key| key.sm_count += 1,
            |key| key.shared_bytes_per_block += 1,
            |key| key.l2_bytes += 1,
            |key| key.fusewright.push('x'),
        ];
        for change in changed {
            let mut other = key();
            change(&mut other);
            assert_ne!(other.file_stem(), key().file_stem(), "{other:?}");
        }
    }
}
