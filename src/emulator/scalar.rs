//! Host scalars as kernel arguments.

use super::library::Argument;
use crate::error::Result;
use crate::graph::{DataType, Scalar};
use crate::host_tensor::HostTensor;

/// The argument for a host scalar, converted to its type as tensors are: `double` for `DOUBLE`, `float` for other floating
/// types, `int` for integers of at most 32 bits and booleans, `long long` for `INT64`.
///
/// # Errors
/// As [`HostTensor::scalar`]: types that have no elements in host memory.
pub(super) fn argument(data_type: DataType, value: Scalar) -> Result<Argument> {
    Ok(match HostTensor::scalar(data_type, 1, value)?.get(0) {
        Some(Scalar::Integer(value)) if data_type == DataType::Int64 => Argument::LongLong(value),
        Some(Scalar::Integer(value)) => Argument::Int(value as i32),
        Some(Scalar::Float(value)) if data_type == DataType::Double => Argument::Double(value),
        Some(Scalar::Float(value)) => Argument::Float(value as f32),
        None => unreachable!("a scalar tensor has an element"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_are_rounded_to_their_type() {
        let third = Scalar::Float(1.0 / 3.0);
        for (data_type, value, expected) in [
            (DataType::Double, third, Argument::Double(1.0 / 3.0)),
            (DataType::Float, third, Argument::Float(1.0 / 3.0)),
            (DataType::Half, third, Argument::Float(0.333_251_95)),
            (DataType::BFloat16, third, Argument::Float(0.333_984_38)),
            (DataType::Fp8E4M3, third, Argument::Float(0.343_75)),
            (DataType::Int8, Scalar::Float(1e30), Argument::Int(127)),
            (DataType::Int32, Scalar::Integer(-5), Argument::Int(-5)),
            (DataType::Int64, Scalar::Integer(i64::MIN), Argument::LongLong(i64::MIN)),
            (DataType::Boolean, Scalar::Integer(2), Argument::Int(1)),
        ] {
            assert_eq!(argument(data_type, value).unwrap(), expected, "{data_type}");
        }
        assert!(argument(DataType::ComplexFp32, third).is_err());
    }
}
