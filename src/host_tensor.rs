//! Tensors in host memory.
//!
//! # When
//!
//! You need this to give tensors to the CPU engine or the harness, and to read results.
//!
//! ```
//! use fusewright::graph::DataType;
//! use fusewright::host_tensor::HostTensor;
//!
//! // Two rows of three, 4 elements apart; values are rounded to HALF.
//! let tensor = HostTensor::from_fn(DataType::Half, &[2, 3], &[4, 1], |position| position as f64 / 3.0)?;
//! assert_eq!(tensor.bytes.len(), 2 * (4 + 3));
//! let values: Vec<f32> = tensor.to_dense()?;
//! assert_eq!((values[3], values.len()), (1.0, 6));
//! # Ok::<(), fusewright::error::Error>(())
//! ```

use std::collections::BTreeMap;
use std::ops::Range;

use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::graph::{DataType, FinalTensor, Scalar, TensorId, packed_strides, row_major_order};

mod lanes;
mod rounding;
mod store;
mod traversal;

pub use lanes::Lane;
#[cfg(feature = "reference")]
pub(crate) use lanes::LaneStorage;
pub(crate) use lanes::Lanes;
pub(crate) use rounding::round_f64;
#[cfg(feature = "reference")]
pub(crate) use rounding::{power_of_two, round_half};
pub(crate) use store::store_outputs;
pub(crate) use traversal::Traversal;

/// Data types that elements in host memory can have: D-01 … D-08, D-11, D-12.
pub const HOST_TYPES: [DataType; 11] = [
    DataType::Float,
    DataType::Double,
    DataType::Half,
    DataType::BFloat16,
    DataType::Int8,
    DataType::UInt8,
    DataType::Int32,
    DataType::Int64,
    DataType::Boolean,
    DataType::Fp8E4M3,
    DataType::Fp8E5M2,
];

/// Positions processed together: small enough that a dozen rows of values stay in the second-level cache.
const CHUNK: usize = 4096;

/// A tensor's storage image in host memory: exactly the bytes a device buffer would hold, gaps of padded strides and
/// packed booleans included.
#[derive(Clone, Debug, PartialEq)]
pub struct HostTensor {
    /// Storage type.
    pub data_type: DataType,
    /// Extents.
    pub dim: Vec<i64>,
    /// Strides in elements.
    pub stride: Vec<i64>,
    /// Storage, from the first element's address to the end of the last element.
    pub bytes: Vec<u8>,
}

/// Host tensors by id, inputs or outputs of one graph.
pub type HostTensors = BTreeMap<TensorId, HostTensor>;

impl HostTensor {
    /// Bytes from the first element's address to the end of the last element. `BOOLEAN` packs bits along linear
    /// offsets, so a line alone takes ⌈elements / 8⌉ bytes (D-08).
    ///
    /// # Errors
    /// [`Error::Input`] where `dim` and `stride` differ in length, an extent is below 1, a stride is negative, the size
    /// overflows, or the type has no elements in host memory (not one of [`HOST_TYPES`]).
    pub fn storage_bytes(data_type: DataType, dim: &[i64], stride: &[i64]) -> Result<usize> {
        let fault = |message: String| Err(Error::input("tensor", message));
        if !HOST_TYPES.contains(&data_type) {
            return fault(format!("data type {data_type} has no elements in host memory"));
        }
        if dim.len() != stride.len() || dim.iter().any(|&d| d < 1) || stride.iter().any(|&s| s < 0) {
            return fault(format!("dim {dim:?} and stride {stride:?} do not describe a layout"));
        }
        let last = dim.iter().zip(stride).try_fold(0i64, |sum, (d, s)| (d - 1).checked_mul(*s)?.checked_add(sum));
        let elements = dim.iter().try_fold(1i64, |product, d| product.checked_mul(*d));
        last.filter(|_| elements.is_some())
            .and_then(|last| u64::try_from(last).ok()?.checked_add(1)?.checked_mul(data_type.bits()))
            .and_then(|bits| usize::try_from(bits.div_ceil(8)).ok())
            .map_or_else(|| fault(format!("dim {dim:?} and stride {stride:?} overflow")), Ok)
    }

    /// All bytes `0xFF`: NaN in every floating type, −1 or the largest value in integers, true in booleans. What a
    /// computation fails to write stays visible.
    ///
    /// # Errors
    /// As [`Self::storage_bytes`], and [`Error::Environment`] where there is not enough memory.
    pub fn poisoned(data_type: DataType, dim: &[i64], stride: &[i64]) -> Result<Self> {
        let len = Self::storage_bytes(data_type, dim, stride)?;
        let mut bytes = reserve(len)?;
        bytes.resize(len, 0xff);
        Ok(Self { data_type, dim: dim.to_vec(), stride: stride.to_vec(), bytes })
    }

    /// Poisoned storage for a tensor of a graph.
    ///
    /// # Errors
    /// As [`Self::poisoned`].
    pub fn poisoned_like(tensor: &FinalTensor) -> Result<Self> {
        Self::poisoned(tensor.data_type, &tensor.dim, &tensor.stride)
    }

    /// One value converted to the type, with extents and strides all 1.
    ///
    /// # Errors
    /// As [`Self::poisoned`].
    pub fn scalar(data_type: DataType, rank: usize, value: Scalar) -> Result<Self> {
        let mut tensor = Self::poisoned(data_type, &vec![1; rank], &vec![1; rank])?;
        tensor.set(0, value);
        Ok(tensor)
    }

    /// The tensor whose element at row-major position `i` (over `dim`) is `value(i)`, converted to the type; gaps are
    /// poisoned.
    ///
    /// # Errors
    /// As [`Self::poisoned`].
    pub fn from_fn(
        data_type: DataType,
        dim: &[i64],
        stride: &[i64],
        value: impl Fn(usize) -> f64 + Sync,
    ) -> Result<Self> {
        let mut tensor = Self::poisoned(data_type, dim, stride)?;
        let positions = row_major_strides(&tensor.extents());
        store_outputs(&mut [&mut tensor], &[positions], |space, range| {
            let step = space.inner_stride(1);
            let mut values = Vec::with_capacity(range.len());
            space.for_each_run(1, range, |start, len| values.extend((0..len).map(|i| value(start + i * step))));
            vec![Lanes::F64(values).into_converted(DataType::Double, data_type)]
        });
        Ok(tensor)
    }

    /// The tensor with these values in row-major order over `dim`, converted to the type (A-29, A-05); gaps are
    /// poisoned.
    ///
    /// # Errors
    /// As [`Self::poisoned`], and [`Error::Input`] where the number of values is not the number of elements.
    pub fn from_dense<T: Lane>(data_type: DataType, dim: &[i64], stride: &[i64], values: &[T]) -> Result<Self> {
        Self::poisoned(data_type, dim, stride)?.with_dense(values)
    }

    /// This storage with its elements replaced, as [`Self::from_dense`].
    pub(crate) fn with_dense<T: Lane>(mut self, values: &[T]) -> Result<Self> {
        if values.len() != self.elements() {
            let message = format!("{} values for {} elements", values.len(), self.elements());
            return Err(Error::input("tensor", message));
        }
        let (data_type, positions) = (self.data_type, row_major_strides(&self.extents()));
        store_outputs(&mut [&mut self], &[positions], |space, range| {
            let step = space.inner_stride(1);
            let mut row = Vec::with_capacity(range.len());
            space.for_each_run(1, range, |start, len| row.extend((0..len).map(|i| values[start + i * step])));
            vec![T::into_lanes(row).into_converted(T::DATA_TYPE, data_type)]
        });
        Ok(self)
    }

    /// All elements in row-major order over `dim`, converted to `T` (A-29).
    ///
    /// # Errors
    /// [`Error::Input`] where the storage is not valid, [`Error::Environment`] where there is not enough memory.
    pub fn to_dense<T: Lane>(&self) -> Result<Vec<T>> {
        self.validate()?;
        let extents = self.extents();
        let axes: Vec<usize> = (0..extents.len()).collect();
        let space = Traversal::ordered(&extents, &axes, &[self.strides()]);
        let mut dense = reserve(space.len())?;
        dense.resize(space.len(), T::default());
        dense.par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, out)| {
            let lanes = self.load(&space, 0, chunk * CHUNK..chunk * CHUNK + out.len());
            out.copy_from_slice(T::slice(&lanes.converted(self.data_type, T::DATA_TYPE)));
        });
        Ok(dense)
    }

    /// The elements' own bytes in row-major order over `dim` without gaps, `BOOLEAN` one byte an element: the form of
    /// tensor files.
    ///
    /// # Errors
    /// As [`Self::to_dense`].
    pub fn to_row_major_bytes(&self) -> Result<Vec<u8>> {
        self.validate()?;
        let (raw, file) = (self.raw_type(), self.file_type());
        let mut packed = Self::poisoned(file, &self.dim, &packed_strides(&self.dim, &row_major_order(self.dim.len())))?;
        store_outputs(&mut [&mut packed], &[self.strides()], |space, range| {
            vec![Self::load_image(&self.bytes, raw, space, 1, range).into_converted(raw, file)]
        });
        Ok(packed.bytes)
    }

    /// The tensor whose elements have these bytes, as [`Self::to_row_major_bytes`] gives them; gaps are poisoned.
    ///
    /// # Errors
    /// As [`Self::poisoned`], and [`Error::Input`] where the number of bytes does not fit.
    pub fn from_row_major_bytes(data_type: DataType, dim: &[i64], stride: &[i64], bytes: &[u8]) -> Result<Self> {
        let mut tensor = Self::poisoned(data_type, dim, stride)?;
        let (raw, file) = (tensor.raw_type(), tensor.file_type());
        let required = tensor.elements() * file.bytes() as usize;
        if bytes.len() != required {
            return Err(Error::input("tensor", format!("{} bytes of elements, required {required}", bytes.len())));
        }
        tensor.data_type = raw;
        let positions = row_major_strides(&tensor.extents());
        store_outputs(&mut [&mut tensor], &[positions], |space, range| {
            vec![Self::load_image(bytes, file, space, 1, range).into_converted(file, raw)]
        });
        tensor.data_type = data_type;
        Ok(tensor)
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.extents().iter().product()
    }

    /// Linear offset, in elements, of the element at this index; `None` outside the extents.
    pub fn offset(&self, index: &[i64]) -> Option<usize> {
        let inside = index.len() == self.dim.len() && index.iter().zip(&self.dim).all(|(i, d)| (0..*d).contains(i));
        let offset: i64 = index.iter().zip(&self.stride).map(|(i, s)| i * s).sum();
        inside.then(|| usize::try_from(offset).ok()).flatten()
    }

    /// The element at this linear offset; `None` beyond the storage.
    pub fn get(&self, offset: usize) -> Option<Scalar> {
        self.holds(offset).then(|| {
            let mut lanes = Lanes::empty(self.data_type, 1);
            lanes.load(self.data_type, &self.bytes, offset, 1, 1);
            match lanes {
                Lanes::F32(v) => Scalar::Float(f64::from(v[0])),
                Lanes::F64(v) => Scalar::Float(v[0]),
                Lanes::I32(v) => Scalar::Integer(i64::from(v[0])),
                Lanes::I64(v) => Scalar::Integer(v[0]),
            }
        })
    }

    /// Converts a value to the type (A-29, A-05) and writes it at this linear offset; `None` beyond the storage.
    pub fn set(&mut self, offset: usize, value: Scalar) -> Option<()> {
        let lanes = match value {
            Scalar::Float(x) => Lanes::F64(vec![x]).into_converted(DataType::Double, self.data_type),
            Scalar::Integer(x) => Lanes::I64(vec![x]).into_converted(DataType::Int64, self.data_type),
        };
        let holds = self.holds(offset);
        holds.then(|| lanes.store(0, self.data_type, &mut self.bytes, offset, 1, 1))
    }

    /// Whether this and `other`, of the same layout and type, agree in every byte that holds no element: whoever wrote
    /// `other` over a copy of this one's poison left the gaps alone. Bits of a byte beyond the end of a line of packed
    /// booleans belong to no one.
    pub fn gap_bytes_equal(&self, other: &Self) -> bool {
        let same_layout = (self.data_type, &self.dim, &self.stride) == (other.data_type, &other.dim, &other.stride);
        if !same_layout || self.bytes.len() != other.bytes.len() || self.validate().is_err() {
            return false;
        }
        let with_equal_elements = |tensor: &Self| {
            let mut copy = Self { data_type: self.raw_type(), ..tensor.clone() };
            let filled = |value| Lanes::I64(vec![value; CHUNK]).into_converted(DataType::Int64, copy.data_type);
            let (zero, one) = (filled(0), filled(1));
            if self.data_type == DataType::Boolean {
                let mut marked = Self { bytes: vec![0; copy.bytes.len()], ..copy.clone() };
                store_outputs(&mut [&mut marked], &[], |_, _| vec![one.clone()]);
                copy.bytes.iter_mut().zip(marked.bytes).filter(|(_, mark)| *mark != 0).for_each(|(byte, _)| *byte = 0);
            } else {
                store_outputs(&mut [&mut copy], &[], |_, _| vec![zero.clone()]);
            }
            copy.bytes
        };
        with_equal_elements(self) == with_equal_elements(other)
    }

    /// Checks that extents, strides, type and number of bytes fit together.
    ///
    /// # Errors
    /// As [`Self::storage_bytes`], and [`Error::Input`] where the number of bytes differs.
    pub fn validate(&self) -> Result<()> {
        let required = Self::storage_bytes(self.data_type, &self.dim, &self.stride)?;
        if self.bytes.len() == required {
            Ok(())
        } else {
            Err(Error::input("tensor", format!("{} bytes of storage, required {required}", self.bytes.len())))
        }
    }

    /// Extents as sizes; positive in every valid tensor.
    pub(crate) fn extents(&self) -> Vec<usize> {
        to_usize(&self.dim)
    }

    /// Strides as sizes.
    pub(crate) fn strides(&self) -> Vec<usize> {
        to_usize(&self.stride)
    }

    /// Strides for an iteration space of these extents, 0 along axes in which this tensor is broadcast. Axes are
    /// matched from the last one.
    #[cfg(feature = "reference")]
    pub(crate) fn strides_within(&self, extents: &[usize]) -> Vec<usize> {
        let skipped = extents.len().saturating_sub(self.dim.len());
        let own = |axis: usize| axis.checked_sub(skipped).filter(|&own| self.dim[own] != 1);
        (0..extents.len()).map(|axis| own(axis).map_or(0, |own| self.stride[own] as usize)).collect()
    }

    /// The elements of an operand at a range of positions. The storage must be valid, and the operand this tensor's.
    pub(crate) fn load(&self, space: &Traversal, operand: usize, range: Range<usize>) -> Lanes {
        Self::load_image(&self.bytes, self.data_type, space, operand, range)
    }

    fn load_image(image: &[u8], data_type: DataType, space: &Traversal, operand: usize, range: Range<usize>) -> Lanes {
        let mut lanes = Lanes::empty(data_type, range.len());
        let step = space.inner_stride(operand);
        space.for_each_run(operand, range, |start, len| lanes.load(data_type, image, start, step, len));
        lanes
    }

    /// A type of the same width that copies elements bit by bit.
    fn raw_type(&self) -> DataType {
        match self.data_type.bits() {
            1 => DataType::Boolean,
            8 => DataType::UInt8,
            16 => DataType::BFloat16,
            64 => DataType::Int64,
            _ => DataType::Int32,
        }
    }

    /// As [`Self::raw_type`], with a byte for a truth value.
    fn file_type(&self) -> DataType {
        if self.data_type == DataType::Boolean { DataType::UInt8 } else { self.raw_type() }
    }

    fn holds(&self, offset: usize) -> bool {
        let end = (offset as u64).checked_add(1).and_then(|elements| elements.checked_mul(self.data_type.bits()));
        HOST_TYPES.contains(&self.data_type) && end.is_some_and(|bits| bits <= self.bytes.len() as u64 * 8)
    }
}

/// Packed row-major strides of these extents.
pub(crate) fn row_major_strides(extents: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; extents.len()];
    for axis in (1..extents.len()).rev() {
        strides[axis - 1] = strides[axis] * extents[axis];
    }
    strides
}

/// Positive sizes of a valid layout.
pub(crate) fn to_usize(values: &[i64]) -> Vec<usize> {
    values.iter().map(|&value| usize::try_from(value).unwrap_or(0)).collect()
}

/// An empty vector with room for `len` values, or an error instead of an abort.
pub(crate) fn reserve<T>(len: usize) -> Result<Vec<T>> {
    let mut values = Vec::new();
    match values.try_reserve_exact(len) {
        Ok(()) => Ok(values),
        Err(source) => Err(Error::Environment {
            message: format!("not enough memory for {len} values of {} bytes", size_of::<T>()),
            source: Some(Box::new(source)),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counting(data_type: DataType, dim: &[i64], stride: &[i64]) -> HostTensor {
        HostTensor::from_fn(data_type, dim, stride, |i| i as f64 % 100.0).expect("valid layout")
    }

    #[test]
    fn storage_covers_gaps_but_not_the_last_one() {
        let bytes = |data_type, dim: &[i64], stride: &[i64]| HostTensor::storage_bytes(data_type, dim, stride).unwrap();
        assert_eq!(bytes(DataType::Half, &[2, 3], &[8, 1]), 22);
        assert_eq!(bytes(DataType::Boolean, &[9], &[1]), 2);
        assert_eq!(bytes(DataType::Boolean, &[2, 16], &[24, 1]), 5);
        assert_eq!(bytes(DataType::Int64, &[], &[]), 8);
    }

    #[test]
    fn impossible_layouts_are_refused() {
        let refused = |data_type, dim: &[i64], stride: &[i64]| HostTensor::poisoned(data_type, dim, stride).is_err();
        assert!(refused(DataType::Float, &[2], &[1, 1]));
        assert!(refused(DataType::Float, &[0], &[1]));
        assert!(refused(DataType::Float, &[i64::MAX, i64::MAX], &[i64::MAX, 1]));
        assert!(refused(DataType::Float, &[1 << 60], &[1]));
        assert!(refused(DataType::Int8x32, &[1], &[1]));
    }

    #[test]
    fn dense_values_survive_any_layout_and_type() {
        let layouts: [(&[i64], &[i64]); 4] =
            [(&[2, 3, 8], &[24, 8, 1]), (&[2, 3, 8], &[1, 2, 8]), (&[2, 3, 8], &[32, 8, 1]), (&[2, 3, 8], &[8, 16, 1])];
        let values: Vec<f64> = (0..48).map(f64::from).collect();
        for data_type in HOST_TYPES {
            for (dim, stride) in layouts {
                let tensor = HostTensor::from_dense(data_type, dim, stride, &values).unwrap();
                let expected: Vec<f64> = values.iter().map(|&x| round_f64(data_type, x)).collect();
                assert_eq!(tensor.to_dense::<f64>().unwrap(), expected, "{data_type} {stride:?}");
                let file = tensor.to_row_major_bytes().unwrap();
                let back = HostTensor::from_row_major_bytes(data_type, dim, stride, &file).unwrap();
                assert_eq!(back.bytes, tensor.bytes, "{data_type} {stride:?}");
            }
        }
    }

    #[test]
    fn many_blocks_agree_with_single_elements() {
        let (dim, stride) = ([3, 70, 40, 40], [70 * 1601 + 5, 1, 40 * 71, 71]);
        let tensor = counting(DataType::Half, &dim, &stride);
        let dense = tensor.to_dense::<f32>().unwrap();
        for (position, index) in [(0, [0, 0, 0, 0]), (112_000 + 1600 * 3 + 7, [1, 3, 0, 7]), (335_999, [2, 69, 39, 39])]
        {
            let offset = tensor.offset(&index).unwrap();
            assert_eq!(tensor.get(offset), Some(Scalar::Float((position % 100) as f64)));
            assert_eq!(dense[position], (position % 100) as f32);
        }
    }

    #[test]
    fn nan_payloads_survive_files() {
        let bytes = vec![0x7c, 0xff, 0x01, 0x7e];
        let tensor = HostTensor::from_row_major_bytes(DataType::Fp8E5M2, &[4], &[1], &bytes).unwrap();
        assert_eq!(tensor.to_row_major_bytes().unwrap(), bytes);
    }

    #[test]
    fn booleans_take_a_byte_in_files() {
        let tensor = HostTensor::from_dense(DataType::Boolean, &[3], &[1], &[0.0, 2.0, f64::NAN]).unwrap();
        assert_eq!(tensor.bytes, [0b1111_1110]);
        assert_eq!(tensor.to_row_major_bytes().unwrap(), [0, 1, 1]);
    }

    #[test]
    fn a_write_into_a_gap_is_seen() {
        for data_type in [DataType::Float, DataType::Boolean] {
            let poisoned = HostTensor::poisoned(data_type, &[2, 8], &[16, 1]).unwrap();
            let mut written = HostTensor::from_fn(data_type, &[2, 8], &[16, 1], |i| (i % 2) as f64).unwrap();
            assert!(poisoned.gap_bytes_equal(&written));
            written.set(9, Scalar::Integer(0)).unwrap();
            assert!(!poisoned.gap_bytes_equal(&written), "{data_type}");
        }
    }

    #[test]
    fn bits_beyond_a_line_of_booleans_are_free() {
        let poisoned = HostTensor::poisoned(DataType::Boolean, &[2, 3], &[8, 1]).unwrap();
        let zeros = HostTensor { bytes: vec![0; 2], ..poisoned.clone() };
        assert!(poisoned.gap_bytes_equal(&zeros));
    }

    #[test]
    fn elements_beyond_the_storage_are_none() {
        let mut tensor = counting(DataType::Boolean, &[9], &[1]);
        assert_eq!(tensor.get(15), Some(Scalar::Integer(1)));
        assert_eq!(tensor.get(16), None);
        assert_eq!(tensor.set(usize::MAX, Scalar::Integer(1)), None);
        assert_eq!(tensor.offset(&[9]), None);
    }

    #[test]
    fn poison_is_nan_or_minus_one() {
        for data_type in HOST_TYPES {
            let tensor = HostTensor::poisoned(data_type, &[1], &[1]).unwrap();
            let value = tensor.get(0).unwrap().as_f64();
            assert!(value.is_nan() || [-1.0, 1.0, 255.0].contains(&value), "{data_type} {value}");
        }
    }
}
