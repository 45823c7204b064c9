//! Boxes of TMA: loads whose every byte in shared memory is known, and stores that leave alone what is outside, but for
//! the rest of 16 bytes at the end of a row; and loads that walk the pixels of images.

use fusewright::graph::DataType;
use fusewright::host_tensor::HostTensor;
use fusewright::kernel::{MapElement, Parameter, PixelWalk, Swizzle, TensorMap};
use libtest_mimic::Failed;

use super::{Carrier, Case, KernelTest, launch, padded};

/// A tensor in boxes, and where boxes are taken; dims innermost first.
#[derive(Clone, Copy)]
struct Boxes {
    name: &'static str,
    element: MapElement,
    swizzle: Swizzle,
    dims: &'static [u64],
    /// Elements from one index of dim `i + 1` to the next.
    pitches: &'static [u64],
    box_dims: &'static [u32],
    /// Coordinates of a block's box; boxes do not overlap in the tensor. Of a walk: how far taps move its pixels, behind them.
    at: &'static [&'static [i32]],
    /// How boxes walk pixels, if they do: they have channels and pixels.
    pixels: Option<PixelWalk>,
}

const BOXES: [Boxes; 9] = [
    Boxes {
        name: "rank_1_float",
        element: MapElement::Float,
        swizzle: Swizzle::None,
        dims: &[300],
        pitches: &[],
        box_dims: &[64],
        at: &[&[64], &[256], &[-32], &[320], &[-64], &[128]],
        pixels: None,
    },
    Boxes {
        name: "rank_1_half_swizzled",
        element: MapElement::Half,
        swizzle: Swizzle::Bytes128,
        dims: &[100],
        pitches: &[],
        box_dims: &[64],
        at: &[&[64], &[-8]],
        pixels: None,
    },
    Boxes {
        name: "rank_2_bfloat16_128",
        element: MapElement::BFloat16,
        swizzle: Swizzle::Bytes128,
        dims: &[104, 37],
        pitches: &[112],
        box_dims: &[64, 16],
        at: &[&[0, 16], &[64, 0], &[64, 32], &[0, 37], &[-16, -3], &[104, 5]],
        pixels: None,
    },
    Boxes {
        name: "rank_2_half_64",
        element: MapElement::Half,
        swizzle: Swizzle::Bytes64,
        dims: &[72, 30],
        pitches: &[72],
        box_dims: &[32, 24],
        at: &[&[0, 0], &[32, 0], &[64, 24], &[-8, 25], &[0, 3000]],
        pixels: None,
    },
    Boxes {
        name: "rank_2_byte_32",
        element: MapElement::Byte,
        swizzle: Swizzle::Bytes32,
        dims: &[90, 40],
        pitches: &[96],
        box_dims: &[32, 40],
        at: &[&[0, 0], &[32, 2], &[64, -7]],
        pixels: None,
    },
    Boxes {
        name: "rank_2_byte_256_by_256",
        element: MapElement::Byte,
        swizzle: Swizzle::None,
        dims: &[300, 260],
        pitches: &[304],
        box_dims: &[256, 256],
        at: &[&[0, 0], &[256, 16], &[-256, 1]],
        pixels: None,
    },
    Boxes {
        name: "rank_3_float_128",
        element: MapElement::Float,
        swizzle: Swizzle::Bytes128,
        dims: &[45, 5, 7],
        pitches: &[48, 256],
        box_dims: &[32, 4, 3],
        at: &[&[0, 0, 0], &[32, 4, 6], &[32, -2, 2], &[-4, 4, -2]],
        pixels: None,
    },
    Boxes {
        name: "rank_4_half_64",
        element: MapElement::Half,
        swizzle: Swizzle::Bytes64,
        dims: &[40, 6, 5, 3],
        pitches: &[40, 240, 1200],
        box_dims: &[32, 3, 2, 2],
        at: &[&[0, 0, 0, 0], &[32, 3, 4, 2], &[0, 5, 2, -1], &[0, 0, 3, 1]],
        pixels: None,
    },
    Boxes {
        name: "rank_5_bfloat16_32",
        element: MapElement::BFloat16,
        swizzle: Swizzle::Bytes32,
        dims: &[24, 3, 4, 2, 3],
        pitches: &[32, 96, 384, 768],
        box_dims: &[16, 2, 3, 2, 2],
        at: &[&[0, 0, 0, 0, 0], &[16, 2, 3, 1, 2], &[0, -1, 3, -1, 1], &[16, 0, 0, 0, -1]],
        pixels: None,
    },
];

/// Corners inside and outside of images, steps up to the largest, taps, boxes that end an image and the last one, channels that end
/// within a box.
const WALKS: [Boxes; 6] = [
    Boxes {
        name: "3x3_padded",
        element: MapElement::Half,
        swizzle: Swizzle::Bytes128,
        dims: &[72, 6, 5, 3],
        pitches: &[72, 432, 2160],
        box_dims: &[64, 16],
        at: &[
            &[0, -1, -1, 0, 0, 0],
            &[64, 4, 3, 1, 2, 2],
            &[0, 2, 1, 2, 1, 2],
            &[0, 4, 3, 2, 2, 0],
            &[72, 0, 0, 0, 1, 1],
        ],
        pixels: Some(PixelWalk { lower: [-1, -1, 0], upper: [-1, -1, 0], steps: [1, 1, 1] }),
    },
    Boxes {
        name: "stride_2_asymmetric",
        element: MapElement::BFloat16,
        swizzle: Swizzle::Bytes64,
        dims: &[40, 9, 7, 2],
        pitches: &[40, 360, 2520],
        box_dims: &[32, 24],
        at: &[&[0, -2, 0, 0, 0, 0], &[32, 4, 2, 0, 3, 1], &[0, 6, 4, 1, 4, 2], &[32, 0, 4, 1, 1, 1]],
        pixels: Some(PixelWalk { lower: [-2, 0, 0], upper: [-2, -2, 0], steps: [2, 2, 1] }),
    },
    Boxes {
        name: "step_8_of_floats",
        element: MapElement::Float,
        swizzle: Swizzle::Bytes128,
        dims: &[32, 40, 3, 2],
        pitches: &[32, 1280, 3840],
        box_dims: &[32, 40],
        at: &[&[0, -3, 0, 0, 0, 0], &[0, 37, 2, 0, 255, 0], &[0, 21, 1, 1, 6, 255]],
        pixels: Some(PixelWalk { lower: [-3, 0, 0], upper: [-2, 0, 0], steps: [8, 1, 1] }),
    },
    Boxes {
        name: "1d_of_bytes",
        element: MapElement::Byte,
        swizzle: Swizzle::Bytes32,
        dims: &[48, 50, 4],
        pitches: &[48, 2400],
        box_dims: &[32, 256],
        at: &[&[0, -300, 0, 0], &[32, 30, 1, 290], &[16, 40, 3, 9]],
        pixels: Some(PixelWalk { lower: [-300, 0, 0], upper: [-9, 0, 0], steps: [1, 1, 1] }),
    },
    Boxes {
        name: "3d",
        element: MapElement::Half,
        swizzle: Swizzle::Bytes128,
        dims: &[64, 4, 3, 5, 2],
        pitches: &[64, 256, 768, 3840],
        box_dims: &[64, 48],
        at: &[&[0, -1, 0, -2, 0, 0, 0, 0], &[0, 2, 2, 4, 0, 2, 0, 4], &[0, 0, 1, 2, 1, 1, 2, 31]],
        pixels: Some(PixelWalk { lower: [-1, 0, -2], upper: [-1, 0, 0], steps: [1, 1, 2] }),
    },
    Boxes {
        name: "at_the_corners",
        element: MapElement::Half,
        swizzle: Swizzle::None,
        dims: &[16, 4, 3, 2],
        pitches: &[16, 64, 192],
        box_dims: &[8, 1024],
        at: &[&[0, -128, -128, 0, 128, 130], &[8, 130, 129, 0, 0, 0]],
        pixels: Some(PixelWalk { lower: [-128, -128, 0], upper: [127, 127, 0], steps: [1, 1, 1] }),
    },
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for boxes in BOXES {
        cases.push(Case::new(format!("boxes::load::{}", boxes.name), move || boxes.load()));
        cases.push(Case::new(format!("boxes::store::{}", boxes.name), move || boxes.store()));
    }
    for walk in WALKS {
        cases.push(Case::new(format!("boxes::walk::{}", walk.name), move || walk.load()));
    }
    let rounded = Boxes { element: MapElement::TFloat32, ..WALKS[2] };
    cases.push(Case::new("boxes::walk::step_8_of_tfloat32".to_owned(), move || rounded.load()));
    let rounded = Boxes { element: MapElement::TFloat32, ..BOXES[6] };
    cases.push(Case::new("boxes::load::rank_3_tfloat32_128".to_owned(), move || rounded.load()));
    cases
}

/// A byte of the input, by position. Its second bit is 0, so that no floating type sees NaN or infinity, which a
/// conversion might change.
fn input_byte(position: usize) -> u8 {
    (position * 151 + position / 7 * 83 + position / 256) as u8 & 0xbf
}

/// A finite FP32 number rounded to TF32, to nearest even.
fn round_to_tf32(bits: u32) -> u32 {
    let (low, kept) = (bits & 0x1fff, bits & !0x1fff);
    let up = low > 0x1000 || (low == 0x1000 && kept & 0x2000 != 0);
    if up { kept + 0x2000 } else { kept }
}

impl Boxes {
    fn data_type(&self) -> DataType {
        match self.element {
            MapElement::Byte => DataType::UInt8,
            MapElement::Half => DataType::Half,
            MapElement::BFloat16 => DataType::BFloat16,
            MapElement::Float | MapElement::TFloat32 => DataType::Float,
        }
    }

    fn element_bytes(&self) -> usize {
        self.element.bytes() as usize
    }

    /// Elements from the tensor's first to the last that a store touches.
    fn elements(&self) -> usize {
        let last = self.dims[1..].iter().zip(self.pitches).map(|(dim, pitch)| (dim - 1) * pitch);
        (self.stored_row() + last.sum::<u64>()) as usize
    }

    fn box_elements(&self) -> usize {
        self.box_dims.iter().product::<u32>() as usize
    }

    fn box_bytes(&self) -> usize {
        self.box_elements() * self.element_bytes()
    }

    /// Offset in the tensor of element `i` of a box; none outside, where rows have `row` elements.
    fn offset(&self, at: &[i32], row: u64, mut i: usize) -> Option<usize> {
        if let Some(walk) = &self.pixels {
            return self.walked(walk, at, i);
        }
        let mut offset = 0;
        for (axis, (&extent, &first)) in self.box_dims.iter().zip(at).enumerate() {
            let index = i64::from(first) + (i % extent as usize) as i64;
            i /= extent as usize;
            let index =
                u64::try_from(index).ok().filter(|&index| index < if axis == 0 { row } else { self.dims[axis] })?;
            offset += index * if axis == 0 { 1 } else { self.pitches[axis - 1] };
        }
        Some(offset as usize)
    }

    /// The same of a box that walks pixels.
    fn walked(&self, walk: &PixelWalk, at: &[i32], i: usize) -> Option<usize> {
        let (channels, axes) = (self.box_dims[0] as usize, self.dims.len() - 2);
        let (at, taps) = at.split_at(self.dims.len());
        let channel = usize::try_from(at[0]).ok()? + i % channels;
        let mut offset = Some(channel as u64).filter(|&channel| channel < self.dims[0])?;
        let mut ahead = (i / channels) as i64;
        for axis in 0..axes {
            let (lower, step) = (i64::from(walk.lower[axis]), i64::from(walk.steps[axis]));
            let last = self.dims[1 + axis] as i64 - 1 + i64::from(walk.upper[axis]);
            let pixels = (last - lower) / step + 1;
            ahead += (i64::from(at[1 + axis]) - lower) / step;
            let pixel = lower + ahead % pixels * step + i64::from(taps[axis]);
            ahead /= pixels;
            offset += u64::try_from(pixel).ok().filter(|&pixel| pixel < self.dims[1 + axis])? * self.pitches[axis];
        }
        let image = u64::try_from(i64::from(at[1 + axes]) + ahead).ok().filter(|&image| image < self.dims[1 + axes])?;
        Some((offset + image * self.pitches[axes]) as usize)
    }

    /// Byte of a box in shared memory where its element `i` lies; boxes start at multiples of 1024.
    fn place(&self, i: usize) -> usize {
        let byte = i * self.element_bytes();
        let chunks = match self.swizzle {
            Swizzle::None => 1,
            Swizzle::Bytes32 => 2,
            Swizzle::Bytes64 => 4,
            Swizzle::Bytes128 => 8,
        };
        byte ^ (byte / 128 % chunks * 16)
    }

    fn map(&self, tensor: fusewright::graph::TensorId) -> Parameter {
        let strides: Vec<u64> = self.pitches.iter().map(|pitch| pitch * self.element_bytes() as u64).collect();
        Parameter::TensorMap(TensorMap {
            tensor,
            element: self.element,
            rank: self.dims.len(),
            dims: padded(self.dims),
            strides: padded(&strides),
            box_dims: padded(self.box_dims),
            swizzle: self.swizzle,
            pixels: self.pixels,
            lead: 0,
            next_line_later: true,
        })
    }

    /// `if (blockIdx.x == 0) call(…); …` for every place.
    fn at_each_place(places: &[&[i32]], call: &str) -> String {
        let line = |(block, at): (usize, &&[i32])| {
            let at: Vec<String> = at.iter().map(i32::to_string).collect();
            format!("    if (blockIdx.x == {block}) {call}, {});\n", at.join(", "))
        };
        places.iter().enumerate().map(line).collect()
    }

    /// An input of the flat tensor's type and these bytes.
    fn inputs(&self, carrier: &Carrier, bytes: Vec<u8>) -> Result<[HostTensor; 2], Failed> {
        let mut a = carrier.host(carrier.a, |_| 0.0)?;
        assert_eq!(a.bytes.len(), bytes.len());
        a.bytes = bytes;
        Ok([a, carrier.host(carrier.b, |_| 0.0)?])
    }

    /// Loads every box, and copies shared memory as it is.
    fn load(&self) -> Result<KernelTest, Failed> {
        let (bytes, words) = (self.box_bytes(), self.box_bytes() / 4);
        let carrier = Carrier::flat(self.data_type(), self.elements(), DataType::Int32, self.at.len() * words)?;
        let load = if self.pixels.is_some() { "fw_tma_load_im2col" } else { "fw_tma_load" };
        let text = format!(
            r#"extern "C" __global__ void __launch_bounds__(64)
load_boxes(const __grid_constant__ fw_tensor_map map, int* __restrict__ y) {{
  FW_SHARED(shared_bytes);
  const unsigned shared = fw_shared_address(shared_bytes), full = shared + {bytes};
  if (threadIdx.x == 0) {{
    fw_tma_prefetch(&map);
    fw_mbarrier_init(full, 1);
    fw_mbarrier_init_fence();
    fw_mbarrier_expect(full, {bytes});
{loads}  }}
  __syncthreads();
  fw_mbarrier_wait(full, 0);
  for (unsigned i = threadIdx.x; i < {words}; i += 64) y[blockIdx.x * {words} + i] = reinterpret_cast<int*>(shared_bytes)[i];
}}
"#,
            loads = Self::at_each_place(self.at, &format!("{load}(shared, &map, full")),
        );
        let x: Vec<u8> = (0..self.elements() * self.element_bytes()).map(input_byte).collect();
        let mut expected = vec![0xff; carrier.c_bytes()?];
        for (at, content) in self.at.iter().zip(expected.chunks_mut(bytes)) {
            for i in 0..self.box_elements() {
                let size = self.element_bytes();
                let element = self
                    .offset(at, self.dims[0], i)
                    .map_or(vec![0; size], |offset| x[offset * size..][..size].to_vec());
                content[self.place(i)..][..size].copy_from_slice(&self.loaded(&element));
            }
        }
        let inputs = self.inputs(&carrier, x)?;
        let parameters = vec![self.map(carrier.a), Parameter::Tensor(carrier.c)];
        let launches = vec![launch("load_boxes", self.at.len(), 64, bytes + 8, parameters)];
        Ok(carrier.test(&["FW_SHARED", "fw_shared_address", load], &text, launches, inputs, expected))
    }

    /// An element on its way to shared memory.
    fn loaded(&self, element: &[u8]) -> Vec<u8> {
        match (self.element, element) {
            (MapElement::TFloat32, &[a, b, c, d]) => {
                round_to_tf32(u32::from_le_bytes([a, b, c, d])).to_le_bytes().into()
            }
            _ => element.to_vec(),
        }
    }

    /// Places without a coordinate below zero: an H200 takes such a store for an illegal instruction.
    fn stored_places(&self) -> Vec<&[i32]> {
        self.at.iter().copied().filter(|at| at.iter().all(|&coordinate| coordinate >= 0)).collect()
    }

    /// Elements up to which an H200 stores a row: whole units of 16 bytes, the last beyond the tensor's extent.
    fn stored_row(&self) -> u64 {
        const UNIT: u64 = 16;
        let size = self.element_bytes() as u64;
        (self.dims[0] * size).next_multiple_of(UNIT) / size
    }

    /// Fills shared memory, and stores every box.
    fn store(&self) -> Result<KernelTest, Failed> {
        let places = self.stored_places();
        let (bytes, size, count) = (self.box_bytes(), self.element_bytes(), places.len() * self.box_elements());
        let carrier = Carrier::flat(self.data_type(), count, self.data_type(), self.elements())?;
        let text = format!(
            r#"extern "C" __global__ void __launch_bounds__(64)
store_boxes(const int* __restrict__ x, const __grid_constant__ fw_tensor_map map) {{
  FW_SHARED(shared_bytes);
  const unsigned shared = fw_shared_address(shared_bytes);
  for (unsigned i = threadIdx.x; i < {words}; i += 64) reinterpret_cast<int*>(shared_bytes)[i] = x[blockIdx.x * {words} + i];
  fw_fence_async();
  __syncthreads();
  if (threadIdx.x == 0) {{
{stores}    fw_tma_store_commit();
    fw_tma_store_wait<0>();
  }}
}}
"#,
            words = bytes / 4,
            stores = Self::at_each_place(&places, "fw_tma_store(&map, shared"),
        );
        let x: Vec<u8> = (0..count * size).map(input_byte).collect();
        let mut expected = vec![0xff; carrier.c_bytes()?];
        for (at, content) in places.iter().zip(x.chunks(bytes)) {
            for i in 0..self.box_elements() {
                if let Some(offset) = self.offset(at, self.stored_row(), i) {
                    expected[offset * size..][..size].copy_from_slice(&content[self.place(i)..][..size]);
                }
            }
        }
        let inputs = self.inputs(&carrier, x)?;
        let parameters = vec![Parameter::Tensor(carrier.a), self.map(carrier.c)];
        let launches = vec![launch("store_boxes", places.len(), 64, bytes, parameters)];
        let sections = ["FW_SHARED", "fw_shared_address", "fw_tma_store", "fw_fence_async"];
        Ok(carrier.test(&sections, &text, launches, inputs, expected))
    }
}
