//! Values in arithmetic form: what tensors' elements become between loading and storing.

use std::borrow::Cow;
use std::sync::LazyLock;

use float8::{F8E4M3, F8E5M2};

use super::rounding::{f32_to_half, half_to_f32, round_bfloat16, round_f64, round_half};
use crate::graph::DataType;

/// A row of values in the smallest arithmetic type that holds every value of their data type exactly: `FLOAT`, `HALF`,
/// `BFLOAT16` and 8-bit floats as `f32`, `DOUBLE` as `f64`, `INT64` as `i64`, other integers and `BOOLEAN` as `i32`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Lanes {
    F32(Vec<f32>),
    F64(Vec<f64>),
    I32(Vec<i32>),
    I64(Vec<i64>),
}

/// A type that tensors can be read as or written from.
pub trait Lane: Copy + Send + Sync + Default + private::Sealed {
    /// The data type a value is converted to on reading.
    const DATA_TYPE: DataType;
}

mod private {
    use super::Lanes;

    pub trait Sealed: Sized {
        #[allow(private_interfaces, reason = "sealed")]
        fn slice(lanes: &Lanes) -> &[Self];
        #[allow(private_interfaces, reason = "sealed")]
        fn into_lanes(values: Vec<Self>) -> Lanes;
    }
}

#[cfg(feature = "reference")]
pub(crate) use private::Sealed as LaneStorage;

macro_rules! lane {
    ($type:ty, $variant:ident, $data_type:ident) => {
        impl Lane for $type {
            const DATA_TYPE: DataType = DataType::$data_type;
        }

        impl private::Sealed for $type {
            #[allow(private_interfaces, reason = "sealed")]
            fn slice(lanes: &Lanes) -> &[Self] {
                match lanes {
                    Lanes::$variant(values) => values,
                    // Converted to `DATA_TYPE`, lanes are always of this variant.
                    _ => &[],
                }
            }

            #[allow(private_interfaces, reason = "sealed")]
            fn into_lanes(values: Vec<Self>) -> Lanes {
                Lanes::$variant(values)
            }
        }
    };
}

lane!(f32, F32, Float);
lane!(f64, F64, Double);
lane!(i32, I32, Int32);
lane!(i64, I64, Int64);

static E4M3: LazyLock<[f32; 256]> = LazyLock::new(|| std::array::from_fn(|b| F8E4M3::from_bits(b as u8).to_f32()));
static E5M2: LazyLock<[f32; 256]> = LazyLock::new(|| std::array::from_fn(|b| F8E5M2::from_bits(b as u8).to_f32()));

impl Lanes {
    /// No values yet, in the form that holds this data type.
    pub(crate) fn empty(data_type: DataType, capacity: usize) -> Self {
        match data_type {
            DataType::Double => Self::F64(Vec::with_capacity(capacity)),
            DataType::Int64 => Self::I64(Vec::with_capacity(capacity)),
            DataType::Int8 | DataType::UInt8 | DataType::Int32 | DataType::Boolean => {
                Self::I32(Vec::with_capacity(capacity))
            }
            _ => Self::F32(Vec::with_capacity(capacity)),
        }
    }

    /// The values as doubles; 64-bit integers beyond 2^53 round.
    pub(crate) fn to_f64(&self) -> Vec<f64> {
        match self {
            Self::F32(values) => values.iter().map(|&x| f64::from(x)).collect(),
            Self::F64(values) => values.clone(),
            Self::I32(values) => values.iter().map(|&x| f64::from(x)).collect(),
            Self::I64(values) => values.iter().map(|&x| x as f64).collect(),
        }
    }

    /// Values of data type `from` converted to data type `to`.
    pub(crate) fn converted(&self, from: DataType, to: DataType) -> Cow<'_, Self> {
        let widens = match self {
            Self::F32(_) => matches!(to, DataType::Float | DataType::FastFloatForFp8),
            Self::F64(_) => to == DataType::Double,
            Self::I32(_) => to == DataType::Int32,
            Self::I64(_) => to == DataType::Int64,
        };
        if from == to || widens { Cow::Borrowed(self) } else { Cow::Owned(self.round(to)) }
    }

    /// Converts in place where nothing changes, else as [`Self::converted`].
    pub(crate) fn into_converted(self, from: DataType, to: DataType) -> Self {
        match self.converted(from, to) {
            Cow::Borrowed(_) => self,
            Cow::Owned(converted) => converted,
        }
    }

    fn round(&self, to: DataType) -> Self {
        match to {
            DataType::Double => Self::F64(self.to_f64()),
            DataType::Boolean => Self::I32(self.to_f64().iter().map(|&x| i32::from(x != 0.0)).collect()),
            DataType::Int8 => self.round_i32(-128, 127),
            DataType::UInt8 => self.round_i32(0, 255),
            DataType::Int32 => self.round_i32(i32::MIN, i32::MAX),
            DataType::Int64 => self.round_i64(),
            _ => self.round_float(to),
        }
    }

    fn round_i32(&self, low: i32, high: i32) -> Self {
        let (wide_low, wide_high) = (i64::from(low), i64::from(high));
        Self::I32(match self {
            Self::F32(v) => v.iter().map(|x| (x.round_ties_even() as i32).clamp(low, high)).collect(),
            Self::F64(v) => v.iter().map(|x| (x.round_ties_even() as i32).clamp(low, high)).collect(),
            Self::I32(v) => v.iter().map(|&x| x.clamp(low, high)).collect(),
            Self::I64(v) => v.iter().map(|&x| x.clamp(wide_low, wide_high) as i32).collect(),
        })
    }

    fn round_i64(&self) -> Self {
        Self::I64(match self {
            Self::F32(v) => v.iter().map(|x| x.round_ties_even() as i64).collect(),
            Self::F64(v) => v.iter().map(|x| x.round_ties_even() as i64).collect(),
            Self::I32(v) => v.iter().map(|&x| i64::from(x)).collect(),
            Self::I64(v) => v.clone(),
        })
    }

    fn round_float(&self, to: DataType) -> Self {
        Self::F32(match (self, to) {
            (Self::F32(v), DataType::Half) => v.iter().map(|&x| round_half(x)).collect(),
            (Self::F32(v), DataType::BFloat16) => v.iter().map(|&x| round_bfloat16(x)).collect(),
            (Self::F32(v), DataType::Fp8E4M3) => v.iter().map(|&x| F8E4M3::from_f32(x).to_f32()).collect(),
            (Self::F32(v), DataType::Fp8E5M2) => v.iter().map(|&x| F8E5M2::from_f32(x).to_f32()).collect(),
            _ => self.to_f64().iter().map(|&x| round_f64(to, x) as f32).collect(),
        })
    }

    /// Appends `len` elements of a storage image, the first at linear offset `start`, `stride` elements apart. The
    /// image must hold them all.
    pub(crate) fn load(&mut self, data_type: DataType, image: &[u8], start: usize, stride: usize, len: usize) {
        let run = Run { image, start, stride, len };
        match (self, data_type) {
            (Self::F64(out), _) => run.load(out, f64::from_le_bytes),
            (Self::I64(out), _) => run.load(out, i64::from_le_bytes),
            (Self::I32(out), DataType::Int8) => run.load(out, |[b]| i32::from(b as i8)),
            (Self::I32(out), DataType::UInt8) => run.load(out, |[b]| i32::from(b)),
            (Self::I32(out), DataType::Boolean) => out.extend(run.offsets().map(|offset| bit(image, offset))),
            (Self::I32(out), _) => run.load(out, i32::from_le_bytes),
            (Self::F32(out), DataType::Half) => run.load(out, |b| half_to_f32(u16::from_le_bytes(b))),
            (Self::F32(out), DataType::BFloat16) => {
                run.load(out, |b| f32::from_bits(u32::from(u16::from_le_bytes(b)) << 16));
            }
            (Self::F32(out), DataType::Fp8E4M3) => run.load(out, |[b]| E4M3[usize::from(b)]),
            (Self::F32(out), DataType::Fp8E5M2) => run.load(out, |[b]| E5M2[usize::from(b)]),
            (Self::F32(out), _) => run.load(out, f32::from_le_bytes),
        }
    }

    /// Writes `len` values from position `from` on into a storage image, as [`Self::load`] reads them. The values must
    /// have been converted to the data type.
    pub(crate) fn store(
        &self,
        from: usize,
        data_type: DataType,
        image: &mut [u8],
        start: usize,
        stride: usize,
        len: usize,
    ) {
        let place = Place { start, stride };
        match (self, data_type) {
            (Self::F64(v), _) => place.store(image, &v[from..from + len], f64::to_le_bytes),
            (Self::I64(v), _) => place.store(image, &v[from..from + len], i64::to_le_bytes),
            (Self::I32(v), DataType::Boolean) => place.store_bits(image, &v[from..from + len]),
            (Self::I32(v), DataType::Int8 | DataType::UInt8) => place.store(image, &v[from..from + len], |x| [x as u8]),
            (Self::I32(v), _) => place.store(image, &v[from..from + len], i32::to_le_bytes),
            (Self::F32(v), DataType::Half) => {
                place.store(image, &v[from..from + len], |x| f32_to_half(x).to_le_bytes())
            }
            (Self::F32(v), DataType::BFloat16) => {
                place.store(image, &v[from..from + len], |x| ((x.to_bits() >> 16) as u16).to_le_bytes());
            }
            (Self::F32(v), DataType::Fp8E4M3) => {
                place.store(image, &v[from..from + len], |x| [F8E4M3::from_f32(x).to_bits()]);
            }
            (Self::F32(v), DataType::Fp8E5M2) => {
                place.store(image, &v[from..from + len], |x| [F8E5M2::from_f32(x).to_bits()]);
            }
            (Self::F32(v), _) => place.store(image, &v[from..from + len], f32::to_le_bytes),
        }
    }
}

/// Elements at equal distances in a storage image.
struct Run<'a> {
    image: &'a [u8],
    start: usize,
    stride: usize,
    len: usize,
}

impl Run<'_> {
    fn offsets(&self) -> impl ExactSizeIterator<Item = usize> + use<> {
        let (start, stride) = (self.start, self.stride);
        (0..self.len).map(move |i| start + i * stride)
    }

    fn load<const N: usize, T: Copy>(&self, out: &mut Vec<T>, decode: impl Fn([u8; N]) -> T) {
        let elements = self.image.as_chunks::<N>().0;
        match self.stride {
            0 => out.extend(std::iter::repeat_n(decode(elements[self.start]), self.len)),
            1 => out.extend(elements[self.start..self.start + self.len].iter().map(|&bytes| decode(bytes))),
            _ => out.extend(self.offsets().map(|offset| decode(elements[offset]))),
        }
    }
}

/// Where a row of values goes in a storage image.
struct Place {
    start: usize,
    stride: usize,
}

impl Place {
    fn store<const N: usize, T: Copy>(&self, image: &mut [u8], values: &[T], encode: impl Fn(T) -> [u8; N]) {
        let elements = image.as_chunks_mut::<N>().0;
        if self.stride == 1 {
            for (element, &value) in elements[self.start..].iter_mut().zip(values) {
                *element = encode(value);
            }
        } else {
            for (i, &value) in values.iter().enumerate() {
                elements[self.start + i * self.stride] = encode(value);
            }
        }
    }

    fn store_bits(&self, image: &mut [u8], values: &[i32]) {
        for (i, &value) in values.iter().enumerate() {
            let offset = self.start + i * self.stride;
            let mask = 1u8 << (offset % 8);
            let byte = &mut image[offset / 8];
            *byte = if value != 0 { *byte | mask } else { *byte & !mask };
        }
    }
}

fn bit(image: &[u8], offset: usize) -> i32 {
    i32::from(image[offset / 8] >> (offset % 8) & 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_tensor::HOST_TYPES;

    fn load(data_type: DataType, image: &[u8], start: usize, stride: usize, len: usize) -> Lanes {
        let mut lanes = Lanes::empty(data_type, len);
        lanes.load(data_type, image, start, stride, len);
        lanes
    }

    #[test]
    fn every_type_loads_what_was_stored() {
        for data_type in HOST_TYPES {
            let values = Lanes::F64(vec![0.0, 1.0, 5.0, 2.0]).into_converted(DataType::Double, data_type);
            for stride in [1, 3] {
                let mut image = vec![0xff; 16 * 8];
                values.store(0, data_type, &mut image, 2, stride, 4);
                assert_eq!(load(data_type, &image, 2, stride, 4), values, "{data_type} stride {stride}");
            }
        }
    }

    #[test]
    fn every_encoding_of_a_small_float_survives() {
        for data_type in [DataType::Half, DataType::BFloat16, DataType::Fp8E4M3, DataType::Fp8E5M2] {
            let bytes = data_type.bytes() as usize;
            let image: Vec<u8> = (0..=u16::MAX).flat_map(|b| b.to_le_bytes()[..bytes].to_vec()).collect();
            let lanes = load(data_type, &image, 0, 1, 1 << 16);
            let rounded = lanes.round(data_type);
            let mut back = vec![0; image.len()];
            rounded.store(0, data_type, &mut back, 0, 1, 1 << 16);
            let Lanes::F32(values) = lanes else { panic!("floats") };
            for (i, value) in values.iter().enumerate().filter(|(_, v)| v.is_finite()) {
                assert_eq!(image[i * bytes..][..bytes], back[i * bytes..][..bytes], "{data_type} {value}");
            }
        }
    }

    #[test]
    fn single_and_double_precision_round_alike() {
        let probes: Vec<f32> = (0..=u16::MAX).map(|b| f32::from_bits(u32::from(b) << 16 | 0x9fff)).collect();
        for data_type in HOST_TYPES {
            let from_f32 = Lanes::F32(probes.clone()).round(data_type).to_f64();
            let from_f64: Vec<f64> = probes.iter().map(|&x| round_f64(data_type, f64::from(x))).collect();
            for (i, (a, b)) in from_f32.iter().zip(&from_f64).enumerate() {
                assert!(a == b || a.is_nan() && b.is_nan(), "{data_type} {:e}: {a} {b}", probes[i]);
            }
        }
    }

    #[test]
    fn a_broadcast_element_is_repeated() {
        assert_eq!(load(DataType::UInt8, &[7, 9], 1, 0, 3), Lanes::I32(vec![9; 3]));
    }

    #[test]
    fn bits_are_packed_lowest_first() {
        let mut image = [0u8; 2];
        Lanes::I32(vec![1, 0, 1, 1]).store(0, DataType::Boolean, &mut image, 6, 1, 4);
        assert_eq!(image, [0b0100_0000, 0b0000_0011]);
    }

    #[test]
    fn large_integers_keep_every_bit() {
        let big = Lanes::I64(vec![i64::MAX - 1]);
        assert_eq!(big.round(DataType::Int64), big);
        assert_eq!(big.round(DataType::Int32), Lanes::I32(vec![i32::MAX]));
    }
}
