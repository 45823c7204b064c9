//! Host scalars as kernel arguments.

use float8::{F8E4M3, F8E5M2};
use half::{bf16, f16};

use super::library::Argument;
use crate::graph::{DataType, Scalar};

/// The argument for a host scalar, rounded to its type: `float` for floating types, `int` for integers of at most 32
/// bits and booleans, `long long` for `INT64`. `None` for types that are no scalars.
pub(super) fn argument(data_type: DataType, value: Scalar) -> Option<Argument> {
    let float = value.as_f64();
    let integer = match value {
        Scalar::Float(value) => value.round_ties_even() as i64,
        Scalar::Integer(value) => value,
    };
    let clamped = |min: i32, max: i32| Argument::Int(integer.clamp(min.into(), max.into()) as i32);
    Some(match data_type {
        DataType::Float | DataType::Double => Argument::Float(float as f32),
        DataType::Half => Argument::Float(f16::from_f64(float).to_f32()),
        DataType::BFloat16 => Argument::Float(bf16::from_f64(float).to_f32()),
        DataType::Fp8E4M3 => Argument::Float(F8E4M3::from_f64(float).to_f32()),
        DataType::Fp8E5M2 => Argument::Float(F8E5M2::from_f64(float).to_f32()),
        DataType::Int8 => clamped(i8::MIN.into(), i8::MAX.into()),
        DataType::UInt8 => clamped(0, u8::MAX.into()),
        DataType::Int32 => clamped(i32::MIN, i32::MAX),
        DataType::Boolean | DataType::ByteBoolean => Argument::Int(i32::from(float != 0.0)),
        DataType::Int64 => Argument::LongLong(integer),
        _ => return None,
    })
}

/// The first element of a tensor's storage. `None` for types that are no scalars, and if there are too few bytes.
pub(super) fn first_element(data_type: DataType, bytes: &[u8]) -> Option<Scalar> {
    let float = |value: f32| Scalar::Float(value.into());
    Some(match data_type {
        DataType::Float => float(f32::from_le_bytes(*bytes.first_chunk()?)),
        DataType::Double => Scalar::Float(f64::from_le_bytes(*bytes.first_chunk()?)),
        DataType::Half => float(f16::from_le_bytes(*bytes.first_chunk()?).to_f32()),
        DataType::BFloat16 => float(bf16::from_le_bytes(*bytes.first_chunk()?).to_f32()),
        DataType::Fp8E4M3 => float(F8E4M3::from_bits(*bytes.first()?).to_f32()),
        DataType::Fp8E5M2 => float(F8E5M2::from_bits(*bytes.first()?).to_f32()),
        DataType::Int8 => Scalar::Integer(i8::from_le_bytes(*bytes.first_chunk()?).into()),
        DataType::UInt8 | DataType::ByteBoolean => Scalar::Integer((*bytes.first()?).into()),
        DataType::Boolean => Scalar::Integer((bytes.first()? & 1).into()),
        DataType::Int32 => Scalar::Integer(i32::from_le_bytes(*bytes.first_chunk()?).into()),
        DataType::Int64 => Scalar::Integer(i64::from_le_bytes(*bytes.first_chunk()?)),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_are_rounded_to_their_type() {
        let third = Scalar::Float(1.0 / 3.0);
        assert_eq!(argument(DataType::Float, third), Some(Argument::Float(1.0 / 3.0)));
        assert_eq!(argument(DataType::Half, third), Some(Argument::Float(0.333_251_95)));
        assert_eq!(argument(DataType::BFloat16, third), Some(Argument::Float(0.333_984_38)));
        assert_eq!(argument(DataType::Fp8E4M3, third), Some(Argument::Float(0.343_75)));
        assert_eq!(argument(DataType::UInt8, Scalar::Integer(-1)), Some(Argument::Int(0)));
        assert_eq!(argument(DataType::Int8, Scalar::Float(1e30)), Some(Argument::Int(127)));
        assert_eq!(argument(DataType::Int64, Scalar::Integer(i64::MIN)), Some(Argument::LongLong(i64::MIN)));
        assert_eq!(argument(DataType::Boolean, Scalar::Float(0.5)), Some(Argument::Int(1)));
        assert_eq!(argument(DataType::ComplexFp32, third), None);
    }

    #[test]
    fn scalars_are_read_from_storage() {
        assert_eq!(first_element(DataType::Half, &[0x00, 0x3c]), Some(Scalar::Float(1.0)));
        assert_eq!(first_element(DataType::Int8, &[0x80]), Some(Scalar::Integer(-128)));
        assert_eq!(first_element(DataType::Boolean, &[0xfe]), Some(Scalar::Integer(0)));
        assert_eq!(first_element(DataType::Fp8E5M2, &[0x3c]), Some(Scalar::Float(1.0)));
        assert_eq!(first_element(DataType::Int32, &[1, 2, 3]), None);
    }
}
