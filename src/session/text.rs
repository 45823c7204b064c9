//! Texts with a version and a checksum.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::compile::Cubin;
use crate::device::Device;

/// The form of the texts; a change of what they hold changes it.
const VERSION: u32 = 1;

/// What a plan is made of.
#[derive(Serialize, Deserialize)]
pub(super) struct PlanText {
    pub(super) device: Device,
    /// The engine config, as it prints.
    pub(super) config: String,
    /// A frontend file.
    pub(super) graph: String,
    /// Hash of the CUDA text.
    pub(super) source: String,
    pub(super) cubin: Cubin,
}

/// Kinds of texts.
pub(super) trait Sealed: Serialize + DeserializeOwned {
    /// What the text says it is.
    const KIND: &'static str;
}

impl Sealed for PlanText {
    const KIND: &'static str = "fusewright plan";
}

/// What every text begins with.
#[derive(Serialize, Deserialize)]
struct Envelope<'a> {
    kind: String,
    version: u32,
    fusewright: String,
    checksum: String,
    #[serde(borrow)]
    content: &'a RawValue,
}

/// Hash of a text, in hexadecimal digits.
pub(super) fn hash(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

/// Writes a text.
pub(super) fn seal<T: Sealed>(content: &T) -> String {
    const SERIALIZES: &str = "texts, numbers and lists always serialize";
    let content = serde_json::value::to_raw_value(content).expect(SERIALIZES);
    let envelope = Envelope {
        kind: T::KIND.to_owned(),
        version: VERSION,
        fusewright: env!("CARGO_PKG_VERSION").to_owned(),
        checksum: hash(content.get()),
        content: &content,
    };
    serde_json::to_string(&envelope).expect(SERIALIZES)
}

/// Reads a text that [`seal`] wrote.
///
/// # Errors
/// Why not, as a sentence.
pub(super) fn open<T: Sealed>(text: &str) -> Result<T, String> {
    let kind = T::KIND;
    let envelope: Envelope<'_> = serde_json::from_str(text).map_err(|error| format!("is no {kind}: {error}"))?;
    let Envelope { kind: found, version, fusewright, checksum, content } = envelope;
    if found != kind {
        return Err(format!("required: a {kind}; found: '{}'", found.escape_debug()));
    }
    let ours = env!("CARGO_PKG_VERSION");
    if version != VERSION || fusewright != ours {
        let found = format!("form {version} of fusewright {}", fusewright.escape_debug());
        return Err(format!("required: form {VERSION} of fusewright {ours}; found: {found}"));
    }
    if hash(content.get()) != checksum {
        return Err(format!("is damaged: the checksum of the {kind} is another"));
    }
    serde_json::from_str(content.get()).map_err(|error| format!("is no {kind}: {error}"))
}
