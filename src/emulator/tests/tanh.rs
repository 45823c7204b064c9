//! Tanh and its slope, as the backward pass of capped scores computes them.

use super::*;
use crate::codegen::device_code;

const BODY: &str =
    "extern \"C\" __global__ void k(const float* __restrict__ x, float* __restrict__ y, float* __restrict__ z) {
  const int t = blockIdx.x * 64 + threadIdx.x;
  const fw_tanh_t both = fw_tanh_and_slope(x[t]);
  y[t] = both.value;
  z[t] = both.slope;
}";

/// Tanh and slopes of numbers, a multiple of 64 of them.
fn computed(x: &[f32]) -> Option<[Vec<f32>; 2]> {
    let bytes = 4 * x.len();
    let values = vec![Value::Input(floats(x.iter().copied())), Value::Output(bytes), Value::Output(bytes)];
    let text = format!("{}\n\n{BODY}", device_code(&["fw_tanh_and_slope"]));
    let case = Case::new(&text, "k", values).grid([(x.len() / 64) as u32, 1]).block([64, 1, 1]);
    let outputs = case.run()?;
    Some([as_floats(&outputs[0]), as_floats(&outputs[1])])
}

/// By how many units in the last place of a number another one differs; nothing below the smallest normal numbers counts.
fn ulps(found: f32, expected: f64) -> f64 {
    let unit = f64::from(f32::EPSILON) * expected.abs().log2().floor().exp2();
    (f64::from(found) - expected).abs() / unit.max(f64::from(f32::MIN_POSITIVE))
}

#[test]
fn tanh_and_its_slope_are_accurate_wherever_they_are() {
    let sizes = (0..4096).map(|i| i as f32 / 512.0).chain((0..1024).map(|i| 0.6 + i as f32 / 16384.0));
    let sizes = sizes.chain((0..960).map(|i| (f32::from(i as u16) / 6.0 - 100.0).exp2()).map(|size| size.min(3e38)));
    let x: Vec<f32> = sizes.flat_map(|size| [size, -size]).collect();
    let Some([tanh, slopes]) = computed(&x) else { return };
    for ((&x, &tanh), &slope) in x.iter().zip(&tanh).zip(&slopes) {
        let exact = f64::from(x);
        assert!(ulps(tanh, exact.tanh()) <= 4.0, "tanh {x:e}: {tanh:e}");
        // the exponential's error grows with what it is of
        let allowed = 4.0 + 3.0 * exact.abs().min(64.0);
        assert!(ulps(slope, exact.cosh().powi(-2)) <= allowed, "the slope at {x:e}: {slope:e}");
    }
}

#[test]
fn tanh_of_what_is_no_number_is_none_and_of_infinities_1() {
    let mut x = vec![0.0; 64];
    x[..4].copy_from_slice(&[f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0]);
    let Some([tanh, slopes]) = computed(&x) else { return };
    assert!(tanh[0].is_nan() && slopes[0].is_nan());
    assert_eq!((tanh[1], tanh[2], &slopes[1..3]), (1.0, -1.0, &[0.0; 2][..]));
    assert!(tanh[3..].iter().all(|&tanh| tanh == 0.0) && slopes[3..].iter().all(|&slope| slope == 1.0));
}
