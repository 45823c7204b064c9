//! Host scalars as kernel arguments.

use float8::{F8E4M3, F8E5M2};
use half::{bf16, f16};

use crate::graph::{DataType, Scalar};

/// The argument's bytes in the low end of a slot: a `float` for floating types, an `int` for integers up to 32 bits and
/// booleans, a `long long` for `INT64`; rounded to the type first, as if it had been stored in it. Integers saturate.
/// `None` for a fraction where an integer is wanted, and for types that no kernel takes.
pub(super) fn slot(data_type: DataType, value: Scalar) -> Option<u64> {
    match (data_type, value) {
        (DataType::Int64, Scalar::Integer(value)) => Some(value as u64),
        (DataType::Boolean, Scalar::Integer(value)) => Some(u64::from(value != 0)),
        (_, Scalar::Integer(value)) if integer_range(data_type).is_some() => {
            let (lowest, highest) = integer_range(data_type)?;
            Some(u64::from(value.clamp(lowest, highest) as i32 as u32))
        }
        (_, value) => float(data_type, value.as_f64()).map(|float| u64::from(float.to_bits())),
    }
}

fn integer_range(data_type: DataType) -> Option<(i64, i64)> {
    match data_type {
        DataType::Int8 => Some((i8::MIN.into(), i8::MAX.into())),
        DataType::UInt8 => Some((u8::MIN.into(), u8::MAX.into())),
        DataType::Int32 => Some((i32::MIN.into(), i32::MAX.into())),
        _ => None,
    }
}

fn float(data_type: DataType, value: f64) -> Option<f32> {
    match data_type {
        DataType::Float | DataType::Double => Some(value as f32),
        DataType::Half => Some(f16::from_f64(value).to_f32()),
        DataType::BFloat16 => Some(bf16::from_f64(value).to_f32()),
        DataType::Fp8E4M3 => Some(F8E4M3::from_f64(value).to_f32()),
        DataType::Fp8E5M2 => Some(F8E5M2::from_f64(value).to_f32()),
        _ => None,
    }
}

/// The value in the bytes of a stored scalar, least significant byte first; `None` where they are too few.
pub(super) fn read(data_type: DataType, bytes: &[u8]) -> Option<Scalar> {
    let float = |value: f32| Some(Scalar::Float(f64::from(value)));
    let first = bytes.first().copied();
    match data_type {
        DataType::Float => float(f32::from_le_bytes(*bytes.first_chunk()?)),
        DataType::Double => Some(Scalar::Float(f64::from_le_bytes(*bytes.first_chunk()?))),
        DataType::Half => float(f16::from_le_bytes(*bytes.first_chunk()?).to_f32()),
        DataType::BFloat16 => float(bf16::from_le_bytes(*bytes.first_chunk()?).to_f32()),
        DataType::Fp8E4M3 => float(F8E4M3::from_bits(first?).to_f32()),
        DataType::Fp8E5M2 => float(F8E5M2::from_bits(first?).to_f32()),
        DataType::Int8 => Some(Scalar::Integer(i64::from(first? as i8))),
        DataType::UInt8 => Some(Scalar::Integer(i64::from(first?))),
        DataType::Boolean => Some(Scalar::Integer(i64::from(first? & 1))),
        DataType::Int32 => Some(Scalar::Integer(i64::from(i32::from_le_bytes(*bytes.first_chunk()?)))),
        DataType::Int64 => Some(Scalar::Integer(i64::from_le_bytes(*bytes.first_chunk()?))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn as_float(data_type: DataType, value: f64) -> f32 {
        f32::from_bits(slot(data_type, Scalar::Float(value)).unwrap() as u32)
    }

    #[test]
    fn floats_are_rounded_to_their_type() {
        assert_eq!(as_float(DataType::Float, 0.1), 0.1);
        assert_eq!(as_float(DataType::Half, 2049.0), 2048.0);
        assert_eq!(as_float(DataType::BFloat16, 257.0), 256.0);
        assert_eq!(as_float(DataType::Fp8E4M3, 17.0), 16.0);
        assert_eq!(as_float(DataType::Half, f64::NEG_INFINITY), f32::NEG_INFINITY);
        assert!(as_float(DataType::BFloat16, f64::NAN).is_nan());
        assert_eq!(slot(DataType::Float, Scalar::Integer(3)), Some(u64::from(3f32.to_bits())));
    }

    #[test]
    fn integers_keep_their_width_and_sign() {
        let integer = |data_type, value| slot(data_type, Scalar::Integer(value)).unwrap();
        assert_eq!(integer(DataType::Int32, -1), 0xffff_ffff);
        assert_eq!(integer(DataType::Int64, -1), u64::MAX);
        assert_eq!(integer(DataType::Int8, 200), 127);
        assert_eq!(integer(DataType::UInt8, -5), 0);
        assert_eq!(integer(DataType::Boolean, 2), 1);
        assert_eq!(slot(DataType::Int32, Scalar::Float(1.0)), None);
        assert_eq!(slot(DataType::Int4, Scalar::Integer(1)), None);
    }

    #[test]
    fn stored_scalars_are_read() {
        assert_eq!(read(DataType::Half, &f16::from_f32(1.5).to_le_bytes()), Some(Scalar::Float(1.5)));
        assert_eq!(read(DataType::Fp8E4M3, &[0x38]), Some(Scalar::Float(1.0)));
        assert_eq!(read(DataType::Int8, &[0xff]), Some(Scalar::Integer(-1)));
        assert_eq!(read(DataType::Int64, &(-2i64).to_le_bytes()), Some(Scalar::Integer(-2)));
        assert_eq!(read(DataType::Float, &[0, 0, 0]), None);
        assert_eq!(read(DataType::Boolean, &[]), None);
    }
}
