//! Spells integers: types, expressions, definitions, conditions.

use super::{names, told};
use crate::kernel::{Definition, Index, Number, Variable};

/// Type of indices and offsets.
pub(super) fn index_type(wide: bool) -> &'static str {
    if wide { "unsigned long long" } else { "unsigned" }
}

/// Type of coordinates that may be negative on the way.
pub(super) fn signed_type(wide: bool) -> &'static str {
    if wide { "long long" } else { "int" }
}

/// A block's or thread's number as an index.
pub(super) fn as_index(wide: bool, number: &str) -> String {
    if wide { format!("({}){number}", index_type(wide)) } else { number.to_owned() }
}

/// `b * 3500 + m * 50 + k`.
pub(super) fn spell(index: &Index) -> String {
    spell_with(index, &names::variable)
}

/// As [`spell`], with variables spelled otherwise.
pub(super) fn spell_with(index: &Index, variable: &dyn Fn(Variable) -> String) -> String {
    match index {
        Index::Constant(value) => value.to_string(),
        Index::Variable(name) => variable(*name),
        Index::Sum(terms) => sum(terms.iter().map(|term| spell_with(term, variable))),
        Index::Product(inner, factor) if *factor == -1 => format!("-{}", operand(inner, variable)),
        Index::Product(inner, factor) if *factor < 0 => {
            format!("-{} * {}", operand(inner, variable), *factor * -1)
        }
        Index::Product(inner, factor) => format!("{} * {factor}", operand(inner, variable)),
        Index::Quotient(inner, divisor) if divisor.is_told() => told::quotient(&spell_with(inner, variable), *divisor),
        Index::Remainder(inner, divisor) if divisor.is_told() => {
            told::remainder(&spell_with(inner, variable), *divisor)
        }
        Index::Quotient(inner, divisor) => format!("{} / {divisor}", operand(inner, variable)),
        Index::Remainder(inner, divisor) => format!("{} % {divisor}", operand(inner, variable)),
    }
}

/// Terms joined by `+` or `-`.
fn sum(terms: impl Iterator<Item = String>) -> String {
    let mut text = String::new();
    for term in terms {
        match term.strip_prefix('-') {
            _ if text.is_empty() => text = term,
            Some(magnitude) => text += &format!(" - {magnitude}"),
            None => text += &format!(" + {term}"),
        }
    }
    text
}

/// What stands before `*`, `/` or `%`.
fn operand(index: &Index, variable: &dyn Fn(Variable) -> String) -> String {
    factor(&spell_with(index, variable), matches!(index, Index::Sum(_)))
}

fn factor(text: &str, is_sum: bool) -> String {
    if is_sum { format!("({text})") } else { text.to_owned() }
}

/// An index as a part of a larger expression.
pub(super) fn within(index: &Index) -> String {
    factor(&spell(index), matches!(index, Index::Sum(_)))
}

/// `const unsigned m = m0 + line;`, a line each.
pub(super) fn definition_lines(kind: &str, definitions: &[Definition]) -> Vec<String> {
    definitions.iter().map(|definition| definition_line(kind, definition, None)).collect()
}

/// `const unsigned m = warp_m0 + line;`, or the least of that and a largest value.
pub(super) fn definition_line(kind: &str, definition: &Definition, largest: Option<Number>) -> String {
    let (name, value) = (names::variable(definition.variable), spell(&definition.value));
    match largest {
        Some(largest) => format!("const {kind} {name} = min({value}, ({kind}){largest});"),
        None => format!("const {kind} {name} = {value};"),
    }
}

/// A variable that has to stay below a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bound {
    pub(super) variable: Variable,
    pub(super) extent: Number,
}

impl Bound {
    /// `m < 70`.
    pub(super) fn spell(&self) -> String {
        format!("{} < {}", names::variable(self.variable), self.extent)
    }
}

/// `m < 70 && n < 66`; `None` for no bounds.
pub(super) fn all(bounds: &[Bound]) -> Option<String> {
    (!bounds.is_empty()).then(|| bounds.iter().map(Bound::spell).collect::<Vec<_>>().join(" && "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_spelled_with_the_parentheses_they_need() {
        let [x, y] = ["x", "y"].map(Index::local);
        assert_eq!(spell(&(x.clone() * 3500 + y.clone() * 50 + Index::from(1))), "x * 3500 + y * 50 + 1");
        assert_eq!(spell(&((x.clone() + y.clone()) * 4)), "(x + y) * 4");
        assert_eq!(spell(&(x.clone() / 6 % 5 * 2)), "x / 6 % 5 * 2");
        assert_eq!(spell(&(x.clone() + y * -2 + Index::from(-1))), "x - y * 2 - 1");
        assert_eq!(within(&(x.clone() + Index::from(1))), "(x + 1)");
        assert_eq!(spell(&Index::ZERO), "0");
        assert_eq!(spell(&x), "x");
    }
}
