//! Host scalars as kernel arguments.

use crate::graph::{DataType, Scalar};
use crate::host_tensor::{HOST_TYPES, round_f64};

/// The argument's bytes in the low end of a slot: a `double` for `DOUBLE`, a `float` for other floating types, an `int` for integers up to 32 bits
/// and booleans, a `long long` for `INT64`; converted to the type first, as if it had been stored in it.
/// `None` for types that have no elements.
pub(super) fn slot(data_type: DataType, value: Scalar) -> Option<u64> {
    if !HOST_TYPES.contains(&data_type) {
        return None;
    }
    // 64-bit integers do not survive the way through a double.
    if let (DataType::Int64, Scalar::Integer(value)) = (data_type, value) {
        return Some(value as u64);
    }
    let rounded = round_f64(data_type, value.as_f64());
    Some(match data_type {
        DataType::Int64 => rounded as i64 as u64,
        DataType::Double => rounded.to_bits(),
        _ if data_type.is_floating() => u64::from((rounded as f32).to_bits()),
        _ => u64::from(rounded as i32 as u32),
    })
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
        assert_eq!(as_float(DataType::Fp8E4M3, 1e9), 448.0);
        assert_eq!(as_float(DataType::Half, f64::NEG_INFINITY), f32::NEG_INFINITY);
        assert!(as_float(DataType::BFloat16, f64::NAN).is_nan());
        assert_eq!(slot(DataType::Float, Scalar::Integer(3)), Some(u64::from(3f32.to_bits())));
        assert_eq!(slot(DataType::Double, Scalar::Float(0.1)), Some(0.1f64.to_bits()));
    }

    #[test]
    fn integers_keep_their_width_and_sign() {
        let integer = |data_type, value| slot(data_type, Scalar::Integer(value)).unwrap();
        assert_eq!(integer(DataType::Int32, -1), 0xffff_ffff);
        assert_eq!(integer(DataType::Int64, -1), u64::MAX);
        assert_eq!(integer(DataType::Int64, i64::MAX), i64::MAX as u64);
        assert_eq!(integer(DataType::Int8, 200), 127);
        assert_eq!(integer(DataType::UInt8, -5), 0);
        assert_eq!(integer(DataType::Boolean, 2), 1);
        assert_eq!(slot(DataType::Int32, Scalar::Float(-2.5)), Some(0xffff_fffe));
        assert_eq!(slot(DataType::Int4, Scalar::Integer(1)), None);
    }
}
