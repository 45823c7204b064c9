//! Tensor maps: how the tensor memory accelerator (TMA) of Hopper finds the boxes of a tensor.
//!
//! The driver encodes a map for an address, which only an execution knows. All else is encoded when the plan is built, so
//! that a geometry which the driver refuses shows there; an execution copies these 128 bytes and replaces the address:
//! by writing it, where two maps for different addresses show that it is a word of its own, otherwise by the driver. The
//! latter costs 23 ns a map where encoding costs 80 (an H200's host); neither needs anything that executions would share.

use std::ffi::c_void;

use cudarc::driver::sys::{
    CUtensorMap, CUtensorMapDataType, CUtensorMapFloatOOBfill, CUtensorMapInterleave, CUtensorMapL2promotion,
    CUtensorMapSwizzle,
};

use super::cuda::{self, CudaError};
use super::driver::{failed, inconsistent, require_functions};
use crate::error::Error;
use crate::kernel::{MapElement, PixelWalk, Swizzle, TensorMap};

/// 64-bit words of a map.
pub(super) const WORDS: usize = size_of::<CUtensorMap>() / size_of::<u64>();

/// Alignment of a map, in words: what CUDA 13 asks for, 128 bytes; CUDA 12 asks for 64.
pub(super) const ALIGNMENT_WORDS: usize = align_of::<CUtensorMap>() / size_of::<u64>();

/// Alignment of the device pointer of a tensor that has a map, in bytes.
pub(super) const POINTER_ALIGNMENT: u64 = 16;

/// Most dims of a map.
const MAX_RANK: usize = 5;

/// Encoded until the address is known: not null, and aligned.
const STAND_IN: u64 = 1 << 20;

/// Show where the address lies, and that nothing else of a map depends on it: each bit that an address may have is set in one
/// of the first two alone, up to bit 48, and in one of the next two up to bit 56, the last that processors map; the others are
/// aligned to 16 bytes and no more, to 64, to 4 KiB, and to all there is.
const PROBES: [u64; 8] = [
    0x0001_5555_5555_5550,
    0x0000_aaaa_aaaa_aaa0,
    0x0155_5555_5555_5550,
    0x00aa_aaaa_aaaa_aaa0,
    0x0000_7fd0_1234_5610,
    0x0000_7fd0_1234_5640,
    0x0000_7fd0_1234_5000,
    1 << 47,
];

/// From here on a driver may know that it gives no such address, and refuse it.
const HIGH: u64 = 1 << 49;

/// A map for an address that is still to be replaced.
pub(super) struct EncodedMap {
    pub(super) words: [u64; WORDS],
    /// The word that is the address; `None` where only the driver can replace it.
    pub(super) address: Option<usize>,
}

/// Encodes the map of a tensor that messages name so, but for its address.
pub(super) fn encode(tensor: &str, map: &TensorMap) -> Result<EncodedMap, Error> {
    let encode = if map.pixels.is_some() { "cuTensorMapEncodeIm2col" } else { "cuTensorMapEncodeTiled" };
    require_functions("a kernel with tensor maps", &[encode, "cuTensorMapReplaceAddress"])?;
    let refused = |reason: &str| {
        let TensorMap { element, rank, dims, strides, box_dims, swizzle, pixels, .. } = map;
        let pixels = pixels.map(|walk| format!(", {walk:?}")).unwrap_or_default();
        inconsistent(format!(
            "the tensor map of {tensor} cannot be encoded: {reason}: {element:?}, rank {rank}, dims {dims:?}, byte \
             strides {strides:?}, box {box_dims:?}, swizzle {swizzle:?}{pixels}"
        ))
    };
    let least = if map.pixels.is_some() { 3 } else { 1 };
    if !(least..=MAX_RANK).contains(&map.rank) {
        return Err(refused(&format!("required: a rank from {least} to 5")));
    }
    let words = encode_at(map, STAND_IN).map_err(|error| refused(&error.name()))?;
    let address = word_of_address(&words, |address| encode_at(map, address).ok());
    if address.is_none() {
        tracing::debug!(tensor, "this driver's maps hide their address: it is asked to replace it at each execution");
    }
    Ok(EncodedMap { words, address })
}

/// The only word in which maps for other addresses differ from this one, if it is the address in all of them.
fn word_of_address(words: &[u64; WORDS], encode_at: impl Fn(u64) -> Option<[u64; WORDS]>) -> Option<usize> {
    let place = words.iter().position(|&word| word == STAND_IN)?;
    let moved = |address| {
        let mut moved = *words;
        moved[place] = address;
        moved
    };
    PROBES
        .iter()
        .all(|&address| encode_at(address).map_or(address >= HIGH, |encoded| encoded == moved(address)))
        .then_some(place)
}

fn encode_at(map: &TensorMap, address: u64) -> Result<[u64; WORDS], CudaError> {
    match &map.pixels {
        Some(walk) => encode_walk(map, walk, address),
        None => encode_boxes(map, address),
    }
}

fn encode_walk(map: &TensorMap, walk: &PixelWalk, address: u64) -> Result<[u64; WORDS], CudaError> {
    let mut encoded = CUtensorMap { opaque: [0; WORDS] };
    let [channels, pixels, ..] = map.box_dims;
    let mut element_strides = [1; MAX_RANK];
    element_strides[1..map.rank - 1].copy_from_slice(&walk.steps[..map.rank - 2]);
    // SAFETY: as in `encode_boxes`; the corners have an entry for each axis of pixels, of which a map of rank 5 has three.
    let result = unsafe {
        cuda::cuTensorMapEncodeIm2col(
            &raw mut encoded,
            data_type(map.element),
            map.rank as u32,
            std::ptr::without_provenance_mut(address as usize),
            map.dims.as_ptr(),
            map.strides.as_ptr(),
            walk.lower.as_ptr(),
            walk.upper.as_ptr(),
            channels,
            pixels,
            element_strides.as_ptr(),
            CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
            swizzle(map.swizzle),
            promotion(map.promotion()),
            CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    };
    result.map(|()| encoded.opaque)
}

fn encode_boxes(map: &TensorMap, address: u64) -> Result<[u64; WORDS], CudaError> {
    let mut encoded = CUtensorMap { opaque: [0; WORDS] };
    // SAFETY: `encode` asked for the function and checked the rank; the arrays have at least `rank` entries (strides
    // `rank - 1`), and the map is aligned as its type says. The address is not accessed.
    let result = unsafe {
        cuda::cuTensorMapEncodeTiled(
            &raw mut encoded,
            data_type(map.element),
            map.rank as u32,
            std::ptr::without_provenance_mut(address as usize),
            map.dims.as_ptr(),
            map.strides.as_ptr(),
            map.box_dims.as_ptr(),
            [1; MAX_RANK].as_ptr(),
            CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
            swizzle(map.swizzle),
            promotion(map.promotion()),
            CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    };
    result.map(|()| encoded.opaque)
}

/// Sets the device address of an encoded map.
///
/// # Safety
/// The pointer must be to a map that [`encode`] made, aligned as [`ALIGNMENT_WORDS`] says, which nothing else uses.
pub(super) unsafe fn replace_address(map: *mut CUtensorMap, address: u64) -> Result<(), Error> {
    // SAFETY: as promised by the caller; the function was asked for by `encode`. The address is not accessed.
    let replaced = unsafe { cuda::cuTensorMapReplaceAddress(map, address as *mut c_void) };
    replaced.map_err(|error| failed("the address of a tensor map cannot be set", error))
}

fn data_type(element: MapElement) -> CUtensorMapDataType {
    match element {
        MapElement::Byte => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_UINT8,
        MapElement::Half => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        MapElement::BFloat16 => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        MapElement::Float => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        MapElement::TFloat32 => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_TFLOAT32,
    }
}

fn promotion(bytes: u32) -> CUtensorMapL2promotion {
    match bytes {
        256 => CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        _ => CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
    }
}

fn swizzle(swizzle: Swizzle) -> CUtensorMapSwizzle {
    match swizzle {
        Swizzle::None => CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_NONE,
        Swizzle::Bytes32 => CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_32B,
        Swizzle::Bytes64 => CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_64B,
        Swizzle::Bytes128 => CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A map whose word 3 is the address, changed by a driver of another mind.
    fn word(change: impl Fn(u64, &mut [u64; WORDS])) -> Option<usize> {
        let encode = |address| {
            let mut words = [7; WORDS];
            words[3] = address;
            change(address, &mut words);
            words
        };
        word_of_address(&encode(STAND_IN), |address| Some(encode(address)))
    }

    #[test]
    fn the_address_is_written_where_a_word_is_it_and_nothing_else_depends_on_it() {
        assert_eq!(word(|_, _| ()), Some(3));
    }

    #[test]
    fn a_driver_may_refuse_addresses_that_it_never_gives_and_no_others() {
        let refusing = |from: u64| {
            let map = |address: u64| std::array::from_fn(|place| if place == 3 { address } else { 7 });
            word_of_address(&map(STAND_IN), |address| (address < from).then(|| map(address)))
        };
        assert_eq!(refusing(HIGH), Some(3));
        assert_eq!(refusing(HIGH >> 1), None);
    }

    #[test]
    fn every_bit_of_an_address_is_looked_at() {
        for bit in 4..57 {
            assert_eq!(word(|address, words| words[3] = address & !(1 << bit)), None, "bit {bit} dropped");
            assert_eq!(word(|address, words| words[5] ^= address >> bit & 1), None, "bit {bit} elsewhere, too");
        }
    }

    #[test]
    fn a_map_that_knows_the_alignment_is_left_to_the_driver() {
        for bytes in [32, 64, 128, 256, 512, 1024, 2048, 4096, 1 << 16, 1 << 20] {
            let marked = |address: u64, words: &mut [u64; WORDS]| words[5] += u64::from(address.is_multiple_of(bytes));
            assert_eq!(word(marked), None, "{bytes} bytes");
        }
    }
}
