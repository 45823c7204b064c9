//! Tensor maps as the emulator's kernels take them.

use super::guarded::GuardedBuffer;
use crate::error::{Error, Result};
use crate::kernel::{MapElement, PixelWalk, TensorMap};

/// Largest extent of a box, and most pixels that one walks.
const MAX_BOX: u32 = 256;
const MAX_PIXELS: u32 = 1024;

/// `fw_tensor_map`, as `templates/emulator/tensor_map.h` declares it.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct EncodedMap {
    base: *mut u8,
    element_bytes: u32,
    rounds_to_tf32: u16,
    walks: u16,
    rank: u32,
    swizzle: u32,
    dims: [u64; 5],
    strides: [u64; 4],
    box_dims: [u32; 5],
    lower: [i16; 3],
    upper: [i16; 3],
}

impl EncodedMap {
    /// The map of a tensor that lies in `buffer`, so many bytes from its start.
    ///
    /// # Errors
    /// [`Error::Wrong`] for a map that the driver refuses (`cuTensorMapEncodeTiled`), or that reaches beyond the buffer.
    pub(super) fn of(map: &TensorMap, name: &str, buffer: &mut GuardedBuffer, offset: usize) -> Result<Self> {
        let base = buffer.pointer().wrapping_add(offset).wrapping_sub(map.lead as usize);
        let bytes = buffer.bytes().len().saturating_sub(offset);
        // where sequences of a ragged tensor lie only the kernel knows
        let refusal = refusal(map, base.addr()).or_else(|| reach(map, bytes).filter(|_| map.lead == 0));
        if let Some(reason) = refusal {
            return Err(Error::Wrong(format!("the tensor map of {name} is refused: {reason} ({map:?})")));
        }
        let corner =
            |of: fn(&PixelWalk) -> [i32; 3]| map.pixels.map_or([0; 3], |walk| of(&walk).map(|pixel| pixel as i16));
        let mut box_dims = map.box_dims;
        if let Some(walk) = map.pixels {
            box_dims[2..].copy_from_slice(&walk.steps);
        }
        Ok(Self {
            base,
            element_bytes: map.element.bytes(),
            rounds_to_tf32: u16::from(map.element == MapElement::TFloat32),
            walks: u16::from(map.pixels.is_some()),
            rank: map.rank as u32,
            swizzle: map.swizzle.row_bytes(),
            dims: map.dims,
            strides: map.strides,
            box_dims,
            lower: corner(|walk| walk.lower),
            upper: corner(|walk| walk.upper),
        })
    }
}

/// Why the driver would not encode this map of a tensor at this address.
fn refusal(map: &TensorMap, address: usize) -> Option<String> {
    if !(1..=5).contains(&map.rank) {
        return Some("the rank is not 1 to 5".to_owned());
    }
    let of_box = if map.pixels.is_some() { 2 } else { map.rank };
    let (dims, strides, box_dims) = (&map.dims[..map.rank], &map.strides[..map.rank - 1], &map.box_dims[..of_box]);
    let most = if map.pixels.is_some() { MAX_PIXELS } else { MAX_BOX };
    let inner_bytes = box_dims[0] * map.element.bytes();
    let span = map.swizzle.row_bytes();
    let rules = [
        (address.is_multiple_of(16), "the pointer is not a multiple of 16"),
        (dims.iter().all(|&dim| (1..=1 << 32).contains(&dim)), "an extent is not 1 to 2^32"),
        (strides.iter().all(|&stride| stride.is_multiple_of(16)), "a stride is not a multiple of 16"),
        (strides.iter().all(|&stride| stride < 1 << 40), "a stride is not below 2^40"),
        ((1..=MAX_BOX).contains(&box_dims[0]), "a row of the box does not have 1 to 256 elements"),
        (
            box_dims[1..].iter().all(|&dim| (1..=most).contains(&dim)),
            "an extent of the box is not 1 to 256, or 1024 pixels",
        ),
        (inner_bytes.is_multiple_of(16), "a row of the box is not a multiple of 16 bytes"),
        (span == 0 || inner_bytes <= span, "a row of the box is longer than the swizzle's"),
    ];
    let broken = rules.into_iter().find(|(holds, _)| !holds).map(|(_, reason)| reason.to_owned());
    broken.or_else(|| map.pixels.and_then(|walk| refused_walk(map, &walk)))
}

/// Why the driver would not encode a walk over pixels (`cuTensorMapEncodeIm2col`; corners as seen on an H200).
fn refused_walk(map: &TensorMap, walk: &PixelWalk) -> Option<String> {
    let axes = match map.rank {
        3..=5 => map.rank - 2,
        _ => return Some("a walk has rank 3 to 5".to_owned()),
    };
    let corners = [-32768..=32767, -128..=127, -16..=15][axes - 1].clone();
    let refusal = |axis: usize| {
        let (lower, upper, step) = (walk.lower[axis], walk.upper[axis], walk.steps[axis]);
        match () {
            () if !corners.contains(&lower) || !corners.contains(&upper) => Some("a corner is too far from the image"),
            () if !(1..=8).contains(&step) => Some("pixels do not step by 1 to 8"),
            () if i64::from(lower) > map.dims[1 + axis] as i64 - 1 + i64::from(upper) => {
                Some("there is no pixel to walk")
            }
            () => None,
        }
    };
    (0..axes).find_map(refusal).map(str::to_owned)
}

/// Why the map reaches beyond a tensor of `bytes` bytes.
fn reach(map: &TensorMap, bytes: usize) -> Option<String> {
    let row = u128::from(map.dims[0]) * u128::from(map.element.bytes());
    let last =
        map.dims[1..map.rank].iter().zip(&map.strides).map(|(&dim, &stride)| u128::from(dim - 1) * u128::from(stride));
    let end = row + last.sum::<u128>();
    (end > bytes as u128).then(|| format!("it ends {end} bytes after the pointer, the tensor has {bytes}"))
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;
    use crate::graph::TensorId;
    use crate::kernel::Swizzle;

    /// 100 by 32 BF16, boxes of 8 by 32, swizzled rows of 64 bytes.
    fn map() -> TensorMap {
        TensorMap {
            tensor: TensorId::at(0),
            element: MapElement::BFloat16,
            rank: 2,
            dims: [32, 100, 0, 0, 0],
            strides: [64, 0, 0, 0],
            box_dims: [32, 8, 0, 0, 0],
            swizzle: Swizzle::Bytes64,
            pixels: None,
            lead: 0,
            next_line_later: true,
        }
    }

    fn encoded(change: impl FnOnce(&mut TensorMap)) -> Result<EncodedMap> {
        let mut map = map();
        change(&mut map);
        EncodedMap::of(&map, "x", &mut GuardedBuffer::poisoned(6400, 16), 0)
    }

    /// The layout that `templates/emulator/tensor_map.h` declares; there the compiler holds the size.
    #[test]
    fn the_layout_is_that_of_the_header() {
        assert_eq!((size_of::<EncodedMap>(), align_of::<EncodedMap>()), (128, 64));
        let offsets = [
            offset_of!(EncodedMap, base),
            offset_of!(EncodedMap, element_bytes),
            offset_of!(EncodedMap, rounds_to_tf32),
            offset_of!(EncodedMap, rank),
            offset_of!(EncodedMap, swizzle),
            offset_of!(EncodedMap, dims),
            offset_of!(EncodedMap, strides),
            offset_of!(EncodedMap, box_dims),
            offset_of!(EncodedMap, walks),
            offset_of!(EncodedMap, lower),
            offset_of!(EncodedMap, upper),
        ];
        assert_eq!(offsets, [0, 8, 12, 16, 20, 24, 64, 96, 14, 116, 122]);
    }

    #[test]
    fn maps_at_the_limits_are_encoded() {
        assert!(encoded(|_| ()).is_ok());
        assert!(encoded(|map| map.strides[0] = 0).is_ok());
        assert!(encoded(|map| (map.rank, map.dims[0]) = (1, 3200)).is_ok());
        assert!(encoded(|map| map.box_dims[1] = 256).is_ok());
        assert!(encoded(|map| (map.swizzle, map.box_dims[0]) = (Swizzle::None, 256)).is_ok());
    }

    #[test]
    fn what_the_driver_refuses_is_refused_with_the_reason() {
        type Change = fn(&mut TensorMap);
        let refused: [(Change, &str); 11] = [
            (|map| map.rank = 0, "rank"),
            (|map| map.rank = 6, "rank"),
            (|map| map.dims[1] = 0, "an extent is not 1 to 2^32"),
            (|map| (map.dims[1], map.strides[0]) = ((1 << 32) + 1, 0), "an extent is not 1 to 2^32"),
            (|map| map.strides[0] = 72, "multiple of 16"),
            (|map| map.strides[0] = 1 << 40, "below 2^40"),
            (|map| map.box_dims[1] = 0, "extent of the box"),
            (|map| map.box_dims[1] = 257, "extent of the box"),
            (|map| (map.swizzle, map.box_dims[0]) = (Swizzle::None, 4), "a row of the box is not a multiple of 16"),
            (|map| map.box_dims[0] = 40, "longer than the swizzle's"),
            (|map| map.dims[1] = 101, "ends 6464 bytes after the pointer, the tensor has 6400"),
        ];
        for (change, reason) in refused {
            let message = encoded(change).unwrap_err().to_string();
            assert!(message.contains("the tensor map of x is refused") && message.contains(reason), "{message}");
        }
        let misaligned = EncodedMap::of(&map(), "x", &mut GuardedBuffer::poisoned(6400, 8), 0).unwrap_err().to_string();
        assert!(misaligned.contains("the pointer is not a multiple of 16"), "{misaligned}");
    }
}
