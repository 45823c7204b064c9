//! One entry of the disk cache, as bytes.
//!
//! ```text
//! offset  bytes
//! 0       16      magic, with the version of the format
//! 16      32      BLAKE3 of everything that follows
//! 48      8       length of the metadata, little endian
//! 56      8       length of the images, little endian
//! 64      ...     metadata: JSON of the key, of the length of each image, and of what the log said
//! ...     ...     images
//! ```

use std::io::{self, Read};

use serde::{Deserialize, Serialize};

use crate::compile::{CacheKey, Cubin, FunctionResources};

/// A change of the layout or of the metadata changes the digit.
const MAGIC: &[u8; 16] = b"fusewright cub 2";
const HASHED_FROM: usize = 48;
const METADATA_FROM: usize = 64;

#[derive(Serialize, Deserialize)]
struct Metadata {
    key: CacheKey,
    images: Vec<usize>,
    log: String,
    resources: Vec<FunctionResources>,
    warnings: Vec<String>,
    milliseconds: f64,
}

/// The file's content.
pub(super) fn encode(key: &CacheKey, cubin: &Cubin) -> Vec<u8> {
    let metadata = Metadata {
        key: key.clone(),
        images: cubin.images.iter().map(Vec::len).collect(),
        log: cubin.log.clone(),
        resources: cubin.resources.clone(),
        warnings: cubin.warnings.clone(),
        milliseconds: cubin.milliseconds,
    };
    let metadata = serde_json::to_vec(&metadata).expect("strings and numbers always serialize");
    let mut bytes = Vec::with_capacity(METADATA_FROM + metadata.len() + cubin.bytes() as usize);
    bytes.extend(MAGIC);
    bytes.extend([0; HASHED_FROM - MAGIC.len()]);
    bytes.extend((metadata.len() as u64).to_le_bytes());
    bytes.extend(cubin.bytes().to_le_bytes());
    bytes.extend(&metadata);
    cubin.images.iter().for_each(|image| bytes.extend(image));
    let hash = blake3::hash(&bytes[HASHED_FROM..]);
    bytes[MAGIC.len()..HASHED_FROM].copy_from_slice(hash.as_bytes());
    bytes
}

/// Reads the content of a file of `length` bytes; no more than its first 64 where they do not fit the length.
///
/// # Errors
/// What is wrong with it; never a panic, whatever the bytes.
pub(super) fn read(mut file: impl Read, length: u64) -> Result<(CacheKey, Cubin), String> {
    let unreadable = |error: io::Error| format!("cannot be read: {error}");
    let mut header = Vec::with_capacity(METADATA_FROM);
    file.by_ref().take(METADATA_FROM as u64).read_to_end(&mut header).map_err(unreadable)?;
    let rest = header.strip_prefix(MAGIC).ok_or("is no entry of this version")?;
    let (hash, lengths) = rest.split_first_chunk::<32>().ok_or("is truncated")?;
    let (metadata_bytes, image_bytes) = lengths.split_first_chunk::<8>().ok_or("is truncated")?;
    let metadata_bytes = u64::from_le_bytes(*metadata_bytes);
    let image_bytes = u64::from_le_bytes(image_bytes.try_into().map_err(|_| "is truncated")?);
    let stated = metadata_bytes.checked_add(image_bytes).and_then(|total| total.checked_add(METADATA_FROM as u64));
    if stated != Some(length) {
        return Err("has not the length it states".to_owned());
    }
    let mut hashed = lengths.to_vec();
    file.read_to_end(&mut hashed).map_err(unreadable)?;
    if blake3::hash(&hashed).as_bytes() != hash {
        return Err("has a wrong checksum".to_owned());
    }
    let rest = &hashed[METADATA_FROM - HASHED_FROM..];
    // The file may have changed since its length was asked for.
    let (metadata, rest) = rest.split_at_checked(metadata_bytes as usize).ok_or("is truncated")?;
    let metadata: Metadata = serde_json::from_slice(metadata).map_err(|error| format!("has bad metadata: {error}"))?;
    let Metadata { key, images, log, resources, warnings, milliseconds } = metadata;
    let images = cut(rest, &images).ok_or("has images of other lengths than it states")?;
    Ok((key, Cubin { images, log, resources, warnings, milliseconds }))
}

/// Pieces of these lengths, which are all there is.
fn cut(mut bytes: &[u8], lengths: &[usize]) -> Option<Vec<Vec<u8>>> {
    let mut pieces = Vec::new();
    for &length in lengths {
        let (piece, rest) = bytes.split_at_checked(length)?;
        pieces.push(piece.to_vec());
        bytes = rest;
    }
    bytes.is_empty().then_some(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::testing::{cubin, key};

    fn decode(bytes: &[u8]) -> Result<(CacheKey, Cubin), String> {
        read(bytes, bytes.len() as u64)
    }

    #[test]
    fn an_entry_reads_back() {
        for image in [&b""[..], b"\x7fELF image"] {
            let bytes = encode(&key("a"), &cubin(image));
            assert_eq!(decode(&bytes), Ok((key("a"), cubin(image))));
        }
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let bytes = encode(&key("a"), &cubin(b"image"));
        for position in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[position] ^= 1 << (position % 8);
            assert!(decode(&damaged).is_err(), "byte {position}");
            assert!(decode(&bytes[..position]).is_err(), "cut at {position}");
        }
        assert!(decode(&[&bytes[..], b"x"].concat()).is_err(), "appended");
    }

    #[test]
    fn what_is_no_entry_is_not_read_whole() {
        let mut endless = io::repeat(0);
        assert_eq!(read(&mut endless, 1 << 30).unwrap_err(), "is no entry of this version");
        let bytes = encode(&key("a"), &cubin(b"image"));
        let stretched = bytes.chain(io::repeat(0));
        assert_eq!(read(stretched, 1 << 30).unwrap_err(), "has not the length it states");
    }

    #[test]
    fn huge_lengths_do_not_overflow() {
        let mut bytes = encode(&key("a"), &cubin(b"image"));
        bytes[48..64].fill(0xff);
        assert_eq!(decode(&bytes).unwrap_err(), "has not the length it states");
    }
}
