//! Pairs of bytes as pairs of 16-bit floats: every pair of every 8-bit type.

use fusewright::graph::DataType;
use fusewright::kernel::Parameter;
use libtest_mimic::Failed;

use super::{Carrier, Case, KernelTest, launch};

/// Pairs, of all bytes with all bytes.
const PAIRS: usize = 1 << 16;

/// Threads of a block.
const THREADS: usize = 256;

/// A type of bytes with its name in device code, and the value of a byte.
type Bytes = (DataType, &'static str, fn(u8) -> f64);

const BYTES: [Bytes; 4] = [
    (DataType::Int8, "i8", |byte| f64::from(byte as i8)),
    (DataType::UInt8, "u8", f64::from),
    (DataType::Fp8E4M3, "e4m3", e4m3),
    (DataType::Fp8E5M2, "e5m2", e5m2),
];

/// Types of results with their names in device code, and the bits of infinity.
const RESULTS: [(DataType, &str, u16); 2] = [(DataType::Half, "f16", 0x7c00), (DataType::BFloat16, "bf16", 0x7f80)];

pub(super) fn cases() -> Vec<Case> {
    let pairs = BYTES.into_iter().flat_map(|bytes| RESULTS.map(|result| (bytes, result)));
    pairs
        .map(|(bytes, result)| {
            let function: &'static str = format!("fw_{}x2_of_{}", result.1, bytes.1).leak();
            Case::new(format!("bytes::{}_of_{}", result.1, bytes.1), move || test(function, bytes, result))
        })
        .collect()
}

/// Each thread turns one pair; NaNs of whatever bits become one.
fn test(
    function: &'static str,
    (byte_type, _, value): Bytes,
    (result_type, _, infinity): (DataType, &str, u16),
) -> Result<KernelTest, Failed> {
    let carrier = Carrier::flat(byte_type, 2 * PAIRS, result_type, 2 * PAIRS)?;
    let byte = |position: usize| if position.is_multiple_of(2) { position / 2 % 256 } else { position / 512 } as u8;
    let mut a = carrier.host(carrier.a, |_| 0.0)?;
    a.bytes = (0..2 * PAIRS).map(byte).collect();
    let text = format!(
        r#"extern "C" __global__ void __launch_bounds__({THREADS})
widen(const unsigned short* __restrict__ pairs, unsigned short* __restrict__ values) {{
  const unsigned i = blockIdx.x * {THREADS} + threadIdx.x;
  const unsigned wide = {function}(pairs[i]);
  for (unsigned half = 0; half < 2; ++half) {{
    const unsigned short bits = (unsigned short)(wide >> 16 * half);
    values[2 * i + half] = (bits & 0x7fff) > {infinity} ? 0x7fff : bits;
  }}
}}
"#
    );
    let c = carrier.host(carrier.c, |position| value(byte(position)))?;
    let expected = c.bytes.chunks(2).flat_map(|bits| canonical([bits[0], bits[1]], infinity)).collect();
    let inputs = [a, carrier.host(carrier.b, |_| 0.0)?];
    let parameters = vec![Parameter::Tensor(carrier.a), Parameter::Tensor(carrier.c)];
    let launches = vec![launch("widen", PAIRS / THREADS, THREADS as u32, 0, parameters)];
    Ok(carrier.test(&[function], &text, launches, inputs, expected))
}

fn canonical(bits: [u8; 2], infinity: u16) -> [u8; 2] {
    let bits = u16::from_le_bytes(bits);
    if bits & 0x7fff > infinity { 0x7fff_u16 } else { bits }.to_le_bytes()
}

/// Sign, four bits of exponent with bias 7, three of fraction; NaN where all of these are ones, and no infinity.
fn e4m3(byte: u8) -> f64 {
    if byte & 0x7f == 0x7f { f64::NAN } else { minifloat(byte, 3, 7) }
}

/// Sign, five bits of exponent with bias 15, two of fraction; infinity and NaN as IEEE 754 has them.
fn e5m2(byte: u8) -> f64 {
    match byte & 0x7f {
        0x7c => f64::INFINITY.copysign(f64::from(byte as i8)),
        0x7d.. => f64::NAN,
        _ => minifloat(byte, 2, 15),
    }
}

fn minifloat(byte: u8, fraction_bits: u32, bias: i32) -> f64 {
    let (exponent, fraction) = (i32::from(byte & 0x7f) >> fraction_bits, byte & ((1 << fraction_bits) - 1));
    let fraction = f64::from(fraction) / f64::from(1 << fraction_bits);
    let magnitude = match exponent {
        0 => fraction * 2_f64.powi(1 - bias),
        _ => (1.0 + fraction) * 2_f64.powi(exponent - bias),
    };
    magnitude.copysign(f64::from(byte as i8))
}
