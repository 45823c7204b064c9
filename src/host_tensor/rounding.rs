//! Rounding of values to storage types: to nearest even; integers and 8-bit floats saturate.

use crate::graph::DataType;

/// Rounds to IEEE half precision; overflow gives infinity.
///
/// Bit arithmetic instead of a conversion call, so that loops over it vectorise.
pub(crate) fn round_half(x: f32) -> f32 {
    const LEAST_NORMAL: f32 = f32::from_bits((127 - 14) << 23);
    let magnitude = x.abs();
    if magnitude < LEAST_NORMAL {
        // Floats in [0.5, 1) lie 2^-24 apart, as subnormal halves do, so this addition rounds.
        return ((magnitude + 0.5) - 0.5).copysign(x);
    }
    let rounded = round_bits(x, 13);
    if rounded.abs() > 65504.0 { f32::INFINITY.copysign(x) } else { rounded }
}

/// Rounds to bfloat16; overflow gives infinity.
pub(crate) fn round_bfloat16(x: f32) -> f32 {
    round_bits(x, 16)
}

/// Drops the lowest `bits` bits of the significand, rounding to nearest even. A carry moves into the exponent, as it
/// must.
fn round_bits(x: f32, bits: u32) -> f32 {
    if x.is_nan() {
        return f32::NAN;
    }
    let image = x.to_bits();
    let half = (1 << (bits - 1)) - 1;
    let odd = (image >> bits) & 1;
    f32::from_bits((image + half + odd) & (u32::MAX << bits))
}

/// Half precision widened to single.
pub(crate) fn half_to_f32(half: u16) -> f32 {
    const REBIAS: f32 = f32::from_bits((127 + 112) << 23);
    let sign = u32::from(half & 0x8000) << 16;
    let rest = u32::from(half & 0x7fff) << 13;
    let magnitude = if rest >= 0x7c00 << 13 { rest | 0x7f80_0000 } else { (f32::from_bits(rest) * REBIAS).to_bits() };
    f32::from_bits(sign | magnitude)
}

/// The bits of a value that half precision holds exactly ([`round_half`] gave it).
pub(crate) fn f32_to_half(x: f32) -> u16 {
    const REBIAS: f32 = f32::from_bits((127 - 112) << 23);
    let sign = (x.to_bits() >> 16) as u16 & 0x8000;
    let magnitude = if x.is_nan() {
        0x7fff
    } else if x.is_infinite() {
        0x7c00
    } else {
        ((x.abs() * REBIAS).to_bits() >> 13) as u16
    };
    sign | magnitude
}

/// A binary floating format below double precision.
struct Format {
    /// Significand bits, the hidden one included.
    precision: i32,
    /// Exponent of the least normal number.
    least_exponent: i32,
    /// Largest finite value.
    largest: f64,
    /// Whether overflow and infinities give the largest finite value.
    saturates: bool,
}

impl Format {
    fn of(data_type: DataType) -> Option<Self> {
        let (precision, least_exponent, largest, saturates) = match data_type {
            DataType::Half => (11, -14, 65504.0, false),
            DataType::BFloat16 => (8, -126, f64::from(f32::from_bits(0x7f7f_0000)), false),
            DataType::Fp8E4M3 => (4, -6, 448.0, true),
            DataType::Fp8E5M2 => (3, -14, 57344.0, true),
            _ => return None,
        };
        Some(Self { precision, least_exponent, largest, saturates })
    }

    fn round(&self, x: f64) -> f64 {
        if x.is_nan() || x == 0.0 {
            return x;
        }
        let rounded = if x.is_finite() { self.round_finite(x) } else { x };
        if rounded.abs() <= self.largest {
            rounded
        } else if self.saturates {
            self.largest.copysign(x)
        } else {
            f64::INFINITY.copysign(x)
        }
    }

    fn round_finite(&self, x: f64) -> f64 {
        // Subnormal doubles read as exponent -1023, far below any `least_exponent`.
        let exponent = ((x.to_bits() >> 52) & 0x7ff) as i32 - 1023;
        let quantum = power_of_two(exponent.max(self.least_exponent) - (self.precision - 1));
        (x / quantum).round_ties_even() * quantum
    }
}

/// 2^exponent, for exponents of normal doubles (−1022 … 1023).
pub(crate) const fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

/// The value of this storage type that `x` is converted to: once rounded to nearest even; integers and 8-bit floats
/// saturate; NaN stays NaN in floats and is 0 in integers, which have no −0; into `BOOLEAN` anything but zero is 1.
///
/// Types without elements of their own (`FAST_FLOAT_FOR_FP8`) round as `FLOAT`.
pub(crate) fn round_f64(data_type: DataType, x: f64) -> f64 {
    // adding 0 makes −0 a 0
    let integer = |low: f64, high: f64| if x.is_nan() { 0.0 } else { x.round_ties_even().clamp(low, high) + 0.0 };
    match data_type {
        DataType::Double => x,
        DataType::Boolean => f64::from(u8::from(x != 0.0)),
        DataType::Int8 => integer(-128.0, 127.0),
        DataType::UInt8 => integer(0.0, 255.0),
        DataType::Int32 => integer(f64::from(i32::MIN), f64::from(i32::MAX)),
        DataType::Int64 => integer(i64::MIN as f64, i64::MAX as f64),
        _ => Format::of(data_type).map_or_else(|| f64::from(x as f32), |format| format.round(x)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use float8::{F8E4M3, F8E5M2};
    use half::{bf16, f16};

    fn same(a: f32, b: f32) -> bool {
        a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
    }

    /// Every half, the middle between it and its neighbour, and one float to either side of that.
    fn around_halves() -> impl Iterator<Item = f32> {
        (0..=u16::MAX).flat_map(|bits| {
            let value = f16::from_bits(bits).to_f32();
            let next = f16::from_bits(bits.wrapping_add(1)).to_f32();
            let middle = value / 2.0 + next / 2.0;
            [value, middle, middle.next_up(), middle.next_down()]
        })
    }

    #[test]
    fn every_half_survives_a_round_trip() {
        for bits in 0..=u16::MAX {
            let value = f16::from_bits(bits).to_f32();
            assert!(same(half_to_f32(bits), value), "{bits:#x}");
            assert!(value.is_nan() || f32_to_half(value) == bits, "{bits:#x}");
            assert!(same(round_half(value), value), "{bits:#x}");
        }
    }

    #[test]
    fn half_rounds_to_nearest_even_at_every_boundary() {
        for x in around_halves() {
            let expected = f16::from_f32(x).to_f32();
            assert!(same(round_half(x), expected), "{x:e}");
            assert!(same(round_f64(DataType::Half, f64::from(x)) as f32, expected), "{x:e}");
        }
        assert_eq!(round_half(65519.996), 65504.0);
        assert_eq!(round_half(65520.0), f32::INFINITY);
    }

    #[test]
    fn bfloat16_rounds_to_nearest_even_at_every_boundary() {
        for bits in 0..=u16::MAX {
            let value = bf16::from_bits(bits).to_f32();
            let middle = f32::from_bits(value.to_bits() | 0x8000);
            for x in [value, middle, middle.next_up(), middle.next_down()] {
                let expected = bf16::from_f32(x).to_f32();
                assert!(same(round_bfloat16(x), expected), "{x:e}");
                assert!(same(round_f64(DataType::BFloat16, f64::from(x)) as f32, expected), "{x:e}");
            }
        }
    }

    /// Nearest finite value by search over all encodings, ties to the even encoding.
    fn nearest_fp8(values: &[(u8, f64)], x: f64) -> f64 {
        let x = x.clamp(-1e5, 1e5);
        let key = |&&(bits, value): &&(u8, f64)| ((value - x).abs(), bits & 1);
        let closer = |a: &&(u8, f64), b: &&(u8, f64)| key(a).partial_cmp(&key(b)).expect("no NaN");
        values.iter().min_by(closer).expect("not empty").1
    }

    #[test]
    fn fp8_rounds_to_nearest_even_and_saturates() {
        let e4m3 = |bits| f64::from(F8E4M3::from_bits(bits).to_f32());
        let e5m2 = |bits| f64::from(F8E5M2::from_bits(bits).to_f32());
        let cases: [(DataType, &dyn Fn(u8) -> f64); 2] = [(DataType::Fp8E4M3, &e4m3), (DataType::Fp8E5M2, &e5m2)];
        for (data_type, decode) in cases {
            let values: Vec<_> = (0..=u8::MAX).map(|b| (b, decode(b))).filter(|v| v.1.is_finite()).collect();
            for x in around_halves().filter(|x| x.is_finite()).map(f64::from) {
                assert_eq!(round_f64(data_type, x), nearest_fp8(&values, x), "{data_type} {x:e}");
            }
        }
        assert_eq!(round_f64(DataType::Fp8E4M3, f64::INFINITY), 448.0);
        assert_eq!(round_f64(DataType::Fp8E5M2, f64::NEG_INFINITY), -57344.0);
        assert!(round_f64(DataType::Fp8E4M3, f64::NAN).is_nan());
        let integers = [DataType::Int8, DataType::UInt8, DataType::Int32, DataType::Int64];
        assert!(integers.iter().all(|&data_type| round_f64(data_type, -0.25).is_sign_positive()));
    }

    #[test]
    fn doubles_are_rounded_once() {
        // Just above the middle of two halves: by way of single precision it would become a tie.
        let x = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
        assert_eq!(round_f64(DataType::Half, x), 1.0 + 2f64.powi(-10));
        assert_eq!(round_f64(DataType::Half, f64::from(x as f32)), 1.0);
    }

    #[test]
    fn integers_round_to_even_saturate_and_swallow_nan() {
        let cases = [(2.5, 2.0), (3.5, 4.0), (-0.5, 0.0), (300.0, 127.0), (-300.0, -128.0), (f64::NAN, 0.0)];
        for (x, expected) in cases {
            assert_eq!(round_f64(DataType::Int8, x), expected);
        }
        assert_eq!(round_f64(DataType::UInt8, -1.0), 0.0);
        assert_eq!(round_f64(DataType::Int32, 1e12), f64::from(i32::MAX));
    }

    #[test]
    fn anything_but_zero_is_true() {
        for (x, expected) in [(0.0, 0.0), (-0.0, 0.0), (1e-300, 1.0), (f64::NAN, 1.0), (-7.0, 1.0)] {
            assert_eq!(round_f64(DataType::Boolean, x), expected);
        }
    }
}
