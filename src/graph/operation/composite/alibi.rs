//! ALiBi: a slope of each head times the distance of key and query is added to scores (`docs/spec/attention.md` AT-O7).
//!
//! Of `h` heads, `n` the largest power of two among them, head `i < n` has the slope `2^(−8 (i + 1) / n)`, and head `n + j` has
//! `2^(−4 (2 j + 1) / n)`: powers of two of `−8 i / n` and a number that is one of two.

use super::score_mask::index;
use super::{Expansion, Port};
use crate::graph::{PointwiseMode, TensorId};

/// Axes of scores.
const HEADS: usize = 1;
const QUERIES: usize = 2;
const KEYS: usize = 3;

/// Exponents of the slopes of so many heads: what the number of a head is multiplied by, and what is added for heads below a number, and for others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AlibiSlopes {
    /// What the number of a head is multiplied by.
    pub step: f64,
    /// What is added for the first heads.
    pub first: f64,
    /// How many these are.
    pub beyond: i64,
    /// What is added for the others.
    pub others: f64,
}

impl AlibiSlopes {
    /// The slopes of so many heads.
    pub fn of(heads: i64) -> Self {
        let beyond = 1 << (i64::BITS - 1 - heads.max(1).leading_zeros());
        let step = -8.0 / beyond as f64;
        Self { step, first: step, beyond, others: 8.0 + step / 2.0 }
    }

    /// The slope of the head of each of the scores.
    fn of_scores(self, expansion: &mut Expansion, scores: TensorId) -> TensorId {
        use PointwiseMode as M;
        let rank = expansion.dim(scores).len();
        let head = index(expansion, scores, HEADS);
        let [step, first, beyond, others] =
            [self.step, self.first, self.beyond as f64, self.others].map(|number| expansion.constant(number, rank));
        let multiple = expansion.pointwise(M::Mul, &[head, step]);
        let is_first = expansion.pointwise(M::CmpLt, &[head, beyond]);
        let shift = expansion.pointwise(M::BinarySelect, &[first, others, is_first]);
        let exponent = expansion.pointwise(M::Add, &[multiple, shift]);
        let two = expansion.constant(2.0, rank);
        expansion.pointwise(M::Pow, &[two, exponent])
    }
}

/// Scores with what is added to them, where slopes are given, or are those of the frontend.
pub(super) fn added(expansion: &mut Expansion, scores: TensorId, is_of_frontend: bool) -> TensorId {
    use PointwiseMode as M;
    let given = expansion.input(Port::ALIBI_SLOPES);
    if given.is_none() && !is_of_frontend {
        return scores;
    }
    let of_frontend =
        |expansion: &mut Expansion| AlibiSlopes::of(expansion.dim(scores)[HEADS]).of_scores(expansion, scores);
    let slopes = given.unwrap_or_else(|| of_frontend(expansion));
    let [row, column] = [QUERIES, KEYS].map(|axis| index(expansion, scores, axis));
    let distance = expansion.pointwise(M::Sub, &[column, row]);
    let leaning = expansion.pointwise(M::Mul, &[distance, slopes]);
    expansion.pointwise(M::Add, &[scores, leaning])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_are_those_of_the_frontend() {
        let slope = |heads: i64, head: i64| {
            let AlibiSlopes { step, first, beyond, others } = AlibiSlopes::of(heads);
            (step * head as f64 + if head < beyond { first } else { others }).exp2()
        };
        for heads in [1, 2, 3, 8, 12, 20] {
            let beyond = [1, 2, 4, 8, 16].into_iter().filter(|&power| power <= heads).max().unwrap();
            for head in 0..heads {
                let expected = match head < beyond {
                    true => -8.0 * (head + 1) as f64 / beyond as f64,
                    false => -4.0 * (2 * (head - beyond) + 1) as f64 / beyond as f64,
                };
                assert!((slope(heads, head) / expected.exp2() - 1.0).abs() < 1e-12, "{heads} heads, head {head}");
            }
        }
    }
}
