//! What numbers a type holds, and what is lost from one type to another.

use crate::graph::DataType;

/// The numbers that one element holds.
struct Numbers {
    /// Significant bits, the implicit one included, the sign not.
    digits: u32,
    /// The largest finite value, and the least above zero.
    range: [f64; 2],
    is_whole: bool,
}

/// `None` for elements of several numbers.
fn numbers(data_type: DataType) -> Option<Numbers> {
    let floats = |digits, range| Some(Numbers { digits, range, is_whole: false });
    let whole = |digits, largest| Some(Numbers { digits, range: [largest, 1.0], is_whole: true });
    match data_type {
        DataType::Double => floats(53, [f64::MAX, f64::from_bits(1)]),
        // of BFLOAT16 the largest is as good as that of FLOAT
        DataType::Float | DataType::FastFloatForFp8 => floats(24, [f32::MAX.into(), 2f64.powi(-149)]),
        DataType::BFloat16 => floats(8, [f32::MAX.into(), 2f64.powi(-133)]),
        DataType::Half => floats(11, [65_504.0, 2f64.powi(-24)]),
        DataType::Fp8E4M3 => floats(4, [448.0, 2f64.powi(-9)]),
        DataType::Fp8E5M2 => floats(3, [57_344.0, 2f64.powi(-16)]),
        DataType::Fp8E5M3 => floats(4, [114_688.0, 2f64.powi(-17)]),
        DataType::Fp8E8M0 => floats(1, [2f64.powi(127), 2f64.powi(-127)]),
        DataType::Fp4E2M1 => floats(2, [6.0, 0.5]),
        DataType::Int64 => whole(63, i64::MAX as f64),
        DataType::Int32 => whole(31, i32::MAX.into()),
        DataType::UInt8 => whole(8, 255.0),
        DataType::Int8 => whole(7, 127.0),
        DataType::Int4 => whole(3, 7.0),
        DataType::Boolean | DataType::ByteBoolean => whole(1, 1.0),
        DataType::Int8x4 | DataType::UInt8x4 | DataType::Int8x32 | DataType::ComplexFp32 | DataType::ComplexFp64 => {
            None
        }
    }
}

/// Types that stored tensors may take where theirs is refused, the smallest first: whole numbers before fractions.
const TAKEN: [DataType; 5] = [DataType::Int8, DataType::Fp8E4M3, DataType::Half, DataType::BFloat16, DataType::Int32];

/// Types that hold every number of a type, the smallest first.
pub(super) fn exact(from: DataType) -> impl Iterator<Item = DataType> {
    TAKEN.into_iter().filter(move |&to| to != from && to.bits() >= from.bits() && holds_all(from, to))
}

fn holds_all(from: DataType, to: DataType) -> bool {
    let [Some(from), Some(to)] = [from, to].map(numbers) else { return false };
    let [[largest, least], [most, fewest]] = [from.range, to.range];
    to.digits >= from.digits && most >= largest && fewest <= least && (from.is_whole || !to.is_whole)
}

/// What is lost from one type to another, as a verb with its object; `None` where nothing is.
pub(super) fn loses(from: DataType, to: DataType) -> Option<String> {
    let Some(had) = numbers(from) else { return Some(format!("holds one number where {from} holds several")) };
    let has = numbers(to)?;
    let mut lost = Vec::new();
    if has.is_whole && !had.is_whole {
        lost.push("keeps whole numbers only".to_owned());
    } else if has.digits < had.digits {
        lost.push(format!("holds {} significant bits, not {}", has.digits, had.digits));
    }
    let [most, _] = has.range;
    if most < had.range[0] {
        let beyond = if has.is_whole || to.is_fp8() { "are clipped" } else { "become infinite" };
        let most = if most < 1e6 { most.to_string() } else { format!("{most:.2e}") };
        lost.push(format!("values beyond {most} {beyond}"));
    }
    (!lost.is_empty()).then(|| lost.join(", and "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_type_that_loses_nothing_comes_first() {
        let first = |from| exact(from).next();
        assert_eq!(first(DataType::Int4), Some(DataType::Int8));
        assert_eq!(first(DataType::ByteBoolean), Some(DataType::Int8));
        assert_eq!(first(DataType::Fp4E2M1), Some(DataType::Fp8E4M3));
        assert_eq!(first(DataType::UInt8), Some(DataType::Half));
        assert_eq!(first(DataType::Int8), Some(DataType::Half));
        assert_eq!(first(DataType::Fp8E8M0), Some(DataType::BFloat16));
        assert_eq!(first(DataType::Fp8E5M3), Some(DataType::BFloat16));
        for without in [DataType::Half, DataType::Int64, DataType::Double, DataType::Int8x4, DataType::ComplexFp32] {
            assert_eq!(first(without), None, "{without}");
        }
    }

    #[test]
    fn what_holds_every_number_loses_none() {
        for from in DataType::all() {
            for to in exact(from) {
                assert_eq!(loses(from, to), None, "{from} to {to}");
            }
        }
    }
}
