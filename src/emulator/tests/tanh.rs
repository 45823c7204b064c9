//! Tanh and its slope, as passes over capped scores compute them.

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

/// A block of four warps, of which each caps so many scores of its lanes.
const SCORES: usize = 8;

const CAPPED: &str = "extern \"C\" __global__ void k(const float* __restrict__ numbers, const float* __restrict__ x, float* __restrict__ y) {
  const float a = numbers[0], b = numbers[1];
  float scores[8];
  for (int i = 0; i < 8; ++i) scores[i] = x[(blockIdx.x * 8 + i) * 128 + threadIdx.x];
  fw_cap_scores(scores, a, b, a * b);
  for (int i = 0; i < 8; ++i) y[(blockIdx.x * 8 + i) * 128 + threadIdx.x] = scores[i];
}";

/// `b · tanh(a · x)` of scores, a multiple of a block's.
fn capped(a: f32, b: f32, x: &[f32]) -> Option<Vec<f32>> {
    let values = vec![
        Value::Input(floats([a, b].into_iter())),
        Value::Input(floats(x.iter().copied())),
        Value::Output(4 * x.len()),
    ];
    let text = format!("{}\n\n{CAPPED}", device_code(&["fw_cap_scores"]));
    let case = Case::new(&text, "k", values).grid([(x.len() / (128 * SCORES)) as u32, 1]).block([128, 1, 1]);
    Some(as_floats(&case.run()?[0]))
}

#[test]
fn capped_scores_are_as_accurate_as_the_three_operations() {
    // a cap of 30 behind a scale, and one of −2: of a block's scores all are far below it, or below it, or some are not
    for (a, b) in [(0.088_388_35_f32 / 30.0, 30.0_f32), (-0.5, -2.0), (1e-20, 1e20)] {
        let smaller = (0..4096).map(|i| (i as f32 - 2048.0) / 2048.0 * 0.3125 / a.abs());
        let small = (0..4096).map(|i| (i as f32 - 2048.0) / 2048.0 / a.abs());
        let large = (0..4096).map(|i| (i as f32 - 2048.0) / 128.0 / a.abs());
        let x: Vec<f32> = smaller.chain(small).chain(large).collect();
        let Some(found) = capped(a, b, &x) else { return };
        for (&x, &found) in x.iter().zip(&found) {
            let expected = f64::from(b) * (f64::from(a) * f64::from(x)).tanh();
            assert!(ulps(found, expected) <= 4.0, "{b:e} · tanh({a:e} · {x:e}): {found:e}, expected {expected:e}");
        }
    }
}

/// A cap of 1 leaves what is beyond it as the exponentials make it.
#[test]
fn tanh_without_a_branch_is_within_its_bound() {
    let x: Vec<f32> = (0..8192).map(|i| (i as f32 - 4096.0) / 256.0 + if i % 2 == 0 { 1.5 } else { -1.5 }).collect();
    let Some(found) = capped(1.0, 1.0, &x) else { return };
    for (&x, &found) in x.iter().zip(&found) {
        assert!(ulps(found, f64::from(x).tanh()) <= 2.5, "tanh {x:e}: {found:e}");
    }
}

#[test]
fn caps_keep_what_is_no_number_and_bound_infinities() {
    let mut x = vec![0.25_f32; 1024];
    x[..4].copy_from_slice(&[f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0]);
    let Some(found) = capped(1.0, 3.0, &x) else { return };
    assert!(found[0].is_nan() && (found[1], found[2]) == (3.0, -3.0) && found[3] == 0.0);
    x[1..3].fill(0.0);
    let Some(found) = capped(1.0, 3.0, &x) else { return };
    assert!(found[0].is_nan() && found[1..4].iter().all(|&score| score == 0.0));
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
