//! Euclid's algorithm, for the integers of this crate.

use std::ops::Rem;

/// Greatest common divisor of two numbers that are not negative; of 0 and a number, the number.
pub(crate) fn greatest_common_divisor<T: Copy + Default + PartialEq + Rem<Output = T>>(a: T, b: T) -> T {
    if b == T::default() { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divisors() {
        assert_eq!(
            [(12, 18), (18, 12), (7, 1), (0, 5), (5, 0)].map(|(a, b)| greatest_common_divisor(a, b)),
            [6, 6, 1, 5, 5]
        );
        assert_eq!(greatest_common_divisor(1i128 << 100, 1 << 90), 1 << 90);
    }
}
