//! What the modes are tried on: every 16-bit float, and values of `FLOAT` at which something changes.

/// Operands of binary modes take every pair of this many values.
pub(crate) const VALUES: usize = 300;

/// Bit patterns of 65,536 floats: every upper half, which says sign, exponent and seven bits of the fraction, with a
/// lower half that differs each time.
pub(crate) fn floats() -> impl Iterator<Item = u32> {
    (0..1u32 << 16).map(|upper| upper << 16 | scrambled(upper) & 0xffff)
}

/// [`VALUES`] floats: ends of ranges, zeros, subnormal numbers, infinities, NaN, thresholds of the functions, and others.
pub(crate) fn special() -> Vec<f32> {
    let tiny = [1e-45, 3e-45, 1e-41, 1.1754942e-38, f32::MIN_POSITIVE, 1.1754945e-38, 1e-34, 1e-20, 1e-10];
    let around_one = [1e-4, 0.01, 0.1, 0.25, 0.5, 0.7, 0.75, 0.99999994, 1.0, 1.0000001, 1.25, 1.5, 2.0, 2.5, 3.0];
    let angles = [std::f32::consts::FRAC_PI_2, std::f32::consts::PI, std::f32::consts::E, 4.0, 5.5, 6.0, 7.99, 9.0];
    let exponents = [10.0, 13.0, 15.5, 17.3, 40.0, 63.5, 87.33, 88.72, 88.73, 89.0, 92.0, 103.9, 104.0, 127.0, 150.0];
    let large =
        [1e3, 65504.0, 65520.0, 16777216.0, 16777217.0, 2147483648.0, 1e10, 1.8446744e19, 1e30, 1.7e38, f32::MAX];
    let positive = [&tiny[..], &around_one, &angles, &exponents, &large, &[0.0, f32::INFINITY]].concat();
    let mut values: Vec<f32> = positive.iter().flat_map(|&x| [x, -x]).collect();
    values.push(f32::NAN);
    let count = VALUES - values.len();
    values.extend((0..count as u32).map(|i| other(scrambled(i))));
    values
}

/// Half of them of any size, half near 1.
fn other(bits: u32) -> f32 {
    let value = f32::from_bits(bits);
    if bits.is_multiple_of(2) && value.is_finite() { value } else { (bits as f32 / u32::MAX as f32 - 0.5) * 32.0 }
}

/// Integers at which something changes, and small ones.
pub(crate) fn integers() -> Vec<i32> {
    let ends = [i32::MIN, i32::MIN + 1, -46341, -46340, 46340, 46341, 65536, 16_777_217, i32::MAX - 1, i32::MAX];
    let mut values: Vec<i32> = (-9..=9).chain(ends).collect();
    values.extend((0..35).map(|i| scrambled(i).cast_signed()));
    values
}

/// A permutation of the 32-bit integers without pattern.
fn scrambled(x: u32) -> u32 {
    let x = (x ^ 0x9e37_79b9).wrapping_mul(0x85eb_ca6b);
    let x = (x ^ x >> 13).wrapping_mul(0xc2b2_ae35);
    x ^ x >> 16
}
