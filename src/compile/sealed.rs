//! Texts with a version and a checksum: plans, caches of kernels, bundles.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The form of the texts; a change of what they hold changes it.
pub(crate) const VERSION: u32 = 2;

/// Kinds of texts.
pub(crate) trait Sealed: Serialize + DeserializeOwned {
    /// What the text says it is.
    const KIND: &'static str;
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
pub(crate) fn hash(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

/// Writes a text.
pub(crate) fn seal<T: Sealed>(content: &T) -> String {
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

/// Why a text is not read.
#[derive(Debug)]
pub(crate) enum Unread {
    /// It is of no use, for this reason.
    Refused(String),
    /// It is whole, but another version wrote it; its content.
    OtherVersion { why: String, content: String },
}

impl Unread {
    /// Why, as a sentence.
    pub(crate) fn why(self) -> String {
        match self {
            Self::Refused(why) | Self::OtherVersion { why, .. } => why,
        }
    }
}

/// Reads a text that [`seal`] wrote.
///
/// # Errors
/// Why not.
pub(crate) fn open<T: Sealed>(text: &str) -> Result<T, Unread> {
    let content = open_content(text, T::KIND)?;
    serde_json::from_str(content).map_err(|error| Unread::Refused(format!("is no {}: {error}", T::KIND)))
}

/// The content of a whole text of this version.
fn open_content<'a>(text: &'a str, kind: &str) -> Result<&'a str, Unread> {
    let refused = |why: String| Err(Unread::Refused(why));
    let envelope: Envelope<'_> = match serde_json::from_str(text) {
        Ok(envelope) => envelope,
        Err(error) => return refused(format!("is no {kind}: {error}")),
    };
    let Envelope { kind: found, version, fusewright, checksum, content } = envelope;
    if found != kind {
        return refused(format!("required: a {kind}; found: '{}'", found.escape_debug()));
    }
    let is_whole = hash(content.get()) == checksum;
    let ours = env!("CARGO_PKG_VERSION");
    if version != VERSION || fusewright != ours {
        let found = format!("form {version} of fusewright {}", fusewright.escape_debug());
        let why = format!("required: form {VERSION} of fusewright {ours}; found: {found}");
        let content = content.get().to_owned();
        return Err(if is_whole { Unread::OtherVersion { why, content } } else { Unread::Refused(why) });
    }
    match is_whole {
        true => Ok(content.get()),
        false => refused(format!("is damaged: the checksum of the {kind} is another")),
    }
}
