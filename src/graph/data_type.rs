//! Data types of tensors and computations, with cuDNN's spellings.

use std::fmt;

/// A cuDNN data type (`spec`: D-01 … D-13 and the later additions a graph file may name).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum DataType {
    /// IEEE single precision.
    Float,
    /// IEEE double precision; on no runtime surface.
    Double,
    /// IEEE half precision (1-5-10).
    Half,
    /// bfloat16 (1-8-7).
    BFloat16,
    /// Signed 8-bit integer.
    Int8,
    /// Unsigned 8-bit integer.
    UInt8,
    /// Signed 32-bit integer.
    Int32,
    /// Signed 64-bit integer.
    Int64,
    /// Packed bits: eight values a byte along the contiguous axis, lowest index in the lowest bit.
    Boolean,
    /// 8-bit float 1-4-3, largest finite value 448, no infinities.
    Fp8E4M3,
    /// 8-bit float 1-5-2, largest finite value 57344.
    Fp8E5M2,
    /// Compute type only: faster FP8 tensor-core accumulation.
    FastFloatForFp8,
    /// Vector of four `Int8` (legacy layout).
    Int8x4,
    /// Vector of four `UInt8` (legacy layout).
    UInt8x4,
    /// Vector of thirty-two `Int8` (legacy layout).
    Int8x32,
    /// 8-bit exponent-only scale type.
    Fp8E8M0,
    /// 4-bit float 1-2-1.
    Fp4E2M1,
    /// Signed 4-bit integer.
    Int4,
    /// Pair of `Float`.
    ComplexFp32,
    /// Pair of `Double`.
    ComplexFp64,
    /// One truth value a byte.
    ByteBoolean,
    /// 8-bit float 1-5-3 (unsigned).
    Fp8E5M3,
}

/// Every data type with its cuDNN spelling and its size in bits; the one table both directions read.
const TABLE: &[(DataType, &str, u64)] = &[
    (DataType::Float, "FLOAT", 32),
    (DataType::Double, "DOUBLE", 64),
    (DataType::Half, "HALF", 16),
    (DataType::BFloat16, "BFLOAT16", 16),
    (DataType::Int8, "INT8", 8),
    (DataType::UInt8, "UINT8", 8),
    (DataType::Int32, "INT32", 32),
    (DataType::Int64, "INT64", 64),
    (DataType::Boolean, "BOOLEAN", 1),
    (DataType::Fp8E4M3, "FP8_E4M3", 8),
    (DataType::Fp8E5M2, "FP8_E5M2", 8),
    (DataType::FastFloatForFp8, "FAST_FLOAT_FOR_FP8", 32),
    (DataType::Int8x4, "INT8x4", 32),
    (DataType::UInt8x4, "UINT8x4", 32),
    (DataType::Int8x32, "INT8x32", 256),
    (DataType::Fp8E8M0, "FP8_E8M0", 8),
    (DataType::Fp4E2M1, "FP4_E2M1", 4),
    (DataType::Int4, "INT4", 4),
    (DataType::ComplexFp32, "COMPLEX_FP32", 64),
    (DataType::ComplexFp64, "COMPLEX_FP64", 128),
    (DataType::ByteBoolean, "BYTE_BOOLEAN", 8),
    (DataType::Fp8E5M3, "FP8_E5M3", 8),
];

impl DataType {
    /// Every data type a graph file may name.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|row| row.0)
    }

    /// cuDNN's spelling, without the `CUDNN_DATA_` prefix.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// The type with this exact spelling.
    pub fn from_name(name: &str) -> Option<Self> {
        TABLE.iter().find(|row| row.1 == name).map(|row| row.0)
    }

    /// Size of one element in bits.
    pub fn bits(self) -> u64 {
        self.row().2
    }

    /// Size of one element in bytes, rounded up (`Boolean`: 1).
    pub fn bytes(self) -> u64 {
        self.bits().div_ceil(8)
    }

    /// `Float`, `Double`, `Half`, `BFloat16` and the two 8-bit floats of the surfaces.
    pub fn is_floating(self) -> bool {
        matches!(self, Self::Float | Self::Double | Self::Half | Self::BFloat16) || self.is_fp8()
    }

    /// `Fp8E4M3` or `Fp8E5M2`.
    pub fn is_fp8(self) -> bool {
        matches!(self, Self::Fp8E4M3 | Self::Fp8E5M2)
    }

    /// `Int8`, `UInt8`, `Int32` or `Int64`.
    pub fn is_integer(self) -> bool {
        matches!(self, Self::Int8 | Self::UInt8 | Self::Int32 | Self::Int64)
    }

    fn row(self) -> &'static (DataType, &'static str, u64) {
        TABLE.iter().find(|row| row.0 == self).expect("every data type has a row")
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_read_back() {
        for data_type in DataType::all() {
            assert_eq!(DataType::from_name(data_type.name()), Some(data_type));
        }
        assert_eq!(DataType::from_name("half"), None);
    }

    #[test]
    fn a_boolean_takes_one_bit_but_a_whole_byte_alone() {
        assert_eq!((DataType::Boolean.bits(), DataType::Boolean.bytes()), (1, 1));
        assert_eq!(DataType::BFloat16.bytes(), 2);
    }
}
