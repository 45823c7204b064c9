//! Numbers that launches tell: from places in a function's text to its last parameters.
//!
//! While a function is spelled, such a number is a place that carries its form and its value ([`Number`]'s `Display`). At the end each form that
//! the function has becomes a parameter, in the order in which forms come up, and its value an argument of the launch. So a text depends on
//! which numbers are alike, not on what they are. A function beside a kernel that has room for parameters has them from the kernel's calls of it; others
//! have values in their text.

use std::collections::BTreeMap;

use super::sections::Used;
use crate::error::Error;
use crate::kernel::{Number, Parameter};

/// What the place of a divisor's reciprocal begins with.
const RECIPROCAL: &str = "fw_told_reciprocal_";

/// What stands where parameters of told numbers come.
const LAST: &str = "fw_told_last";

/// What stands where a kernel gives a function beside it the numbers that this is told.
const GIVEN: &str = "fw_told_given";

/// Hexadecimal digits of a form.
const DIGITS: usize = 32;

/// Arguments of a kernel's call of a function beside it, with room for what that is told.
pub(super) fn given_room(arguments: &str) -> String {
    format!("{arguments}{GIVEN}")
}

/// A parameter list with room for what is told.
pub(super) fn with_room(parameters: &str) -> String {
    format!("{parameters}{LAST}")
}

/// `x / d`.
pub(super) fn quotient(x: &str, divisor: Number) -> String {
    format!("fw_quotient({x}, {divisor}, {})", reciprocal(divisor))
}

/// `x % d`.
pub(super) fn remainder(x: &str, divisor: Number) -> String {
    format!("fw_remainder({x}, {divisor}, {})", reciprocal(divisor))
}

fn reciprocal(divisor: Number) -> String {
    let place = divisor.to_string();
    format!("{RECIPROCAL}{}", &place[Number::PLACE.len()..])
}

/// A place in a text.
struct Place<'a> {
    is_reciprocal: bool,
    form: &'a str,
    value: i64,
    /// Suffix of a literal: the type that the number is to have.
    suffix: &'a str,
    /// What the text goes on with.
    rest: &'a str,
}

impl<'a> Place<'a> {
    /// What comes before the first place of a text, and the place.
    fn first_of(text: &'a str) -> Result<Option<(&'a str, Self)>, Error> {
        let Some(start) = text.find(Number::PLACE) else { return Ok(None) };
        let before = &text[..start];
        let is_reciprocal = text[start..].starts_with(RECIPROCAL);
        let name = if is_reciprocal { RECIPROCAL } else { Number::PLACE };
        let place = || {
            let (form, rest) = text[start + name.len()..].split_at_checked(DIGITS)?;
            let rest = rest.strip_prefix('_')?;
            let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            let (value, rest) = rest.split_at(digits);
            let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
            let (suffix, rest) = rest.split_at(letters);
            Some((before, Self { is_reciprocal, form, value: value.parse().ok()?, suffix, rest }))
        };
        place().map(Some).ok_or_else(|| defect("a place of a told number has no form"))
    }
}

fn defect(why: &str) -> Error {
    Error::Generated {
        message: format!("{why}; this is a defect of fusewright"),
        log: String::new(),
        source_path: None,
    }
}

/// Told numbers of one function.
#[derive(Default)]
struct Parameters<'a> {
    names: BTreeMap<(bool, &'a str), (String, i64)>,
    spelled: Vec<String>,
    /// The numbers as places, for whoever calls the function.
    places: Vec<String>,
    arguments: Vec<Parameter>,
}

impl<'a> Parameters<'a> {
    /// A text with names of parameters in its places, and these in the room for them.
    fn fill(&mut self, text: &'a str) -> Result<String, Error> {
        // nothing is told before the room for parameters
        let room = text.find(LAST).map_or(0, |start| start + LAST.len());
        let (head, mut rest) = text.split_at(room);
        let mut filled = head.to_owned();
        while let Some((before, place)) = Place::first_of(rest)? {
            filled += before;
            filled += &typed(&self.name(&place)?, place.suffix);
            rest = place.rest;
        }
        filled += rest;
        let list = self.spelled.join(", ");
        let is_first = filled.contains(&format!("({LAST}"));
        let separator = if list.is_empty() || is_first { "" } else { ", " };
        Ok(filled.replacen(LAST, &format!("{separator}{list}"), 1))
    }

    /// The name of the parameter of a place.
    fn name(&mut self, place: &Place<'a>) -> Result<String, Error> {
        let key = (place.is_reciprocal, place.form);
        if let Some((name, value)) = self.names.get(&key) {
            return match *value == place.value {
                true => Ok(name.clone()),
                false => Err(defect("two told numbers of one form differ")),
            };
        }
        let (kind, number) = (if place.is_reciprocal { "reciprocal" } else { "told" }, self.arguments.len());
        let name = format!("{kind}{number}");
        let is_wide = place.is_reciprocal || i32::try_from(place.value).is_err();
        self.spelled.push(format!("const {} {name}", if is_wide { "long long" } else { "int" }));
        self.places.push(format!(
            "{}{}_{}",
            if place.is_reciprocal { RECIPROCAL } else { Number::PLACE },
            place.form,
            place.value
        ));
        self.arguments.push(match place.is_reciprocal {
            true => Parameter::Long(packed_reciprocal(place.value)),
            false if is_wide => Parameter::Long(place.value),
            false => Parameter::Int(place.value as i32),
        });
        self.names.insert(key, (name.clone(), place.value));
        Ok(name)
    }
}

/// Gives a function's text parameters for the numbers that its launches tell, and the arguments.
///
/// # Errors
/// [`Error::Generated`] where places contradict each other: a defect of ours.
pub(super) fn told(text: &str, used: &mut Used) -> Result<(String, Vec<Parameter>), Error> {
    let (beside, kernel) = text.split_at(text.find("__global__").unwrap_or(0));
    let (beside, given) = told_beside(beside)?;
    let kernel = kernel.replace(GIVEN, &given);
    let mut parameters = Parameters::default();
    let filled = beside + &parameters.fill(&kernel)?;
    if !parameters.arguments.is_empty() {
        used.add("fw_remainder");
    }
    Ok((filled, parameters.arguments))
}

/// Functions beside a kernel, and what the kernel gives the one that has room for parameters.
fn told_beside(text: &str) -> Result<(String, String), Error> {
    let Some(room) = text.find(LAST) else { return Ok((values_of(text)?, String::new())) };
    // from the function's head on
    let start = text[..room].rfind("__device__").unwrap_or(0);
    let mut parameters = Parameters::default();
    let filled = parameters.fill(&text[start..])?;
    let given: String = parameters.places.iter().map(|place| format!(", {place}")).collect();
    Ok((values_of(&text[..start])? + &filled, given))
}

/// A text with the values of told numbers.
fn values_of(text: &str) -> Result<String, Error> {
    let (mut filled, mut rest) = (String::new(), text);
    while let Some((before, place)) = Place::first_of(rest)? {
        let value = if place.is_reciprocal { packed_reciprocal(place.value) } else { place.value };
        filled += &format!("{before}{value}{}", place.suffix);
        rest = place.rest;
    }
    Ok(filled + rest)
}

/// A parameter as a number of the type that a literal's suffix means.
fn typed(name: &str, suffix: &str) -> String {
    match suffix {
        "u" => format!("unsigned({name})"),
        "ull" => format!("(unsigned long long)({name})"),
        _ => name.to_owned(),
    }
}

/// Multiplier and shift by which `fw_quotient` divides by a number from 2 to 2³¹ − 1; others it divides by otherwise.
fn packed_reciprocal(divisor: i64) -> i64 {
    let Ok(divisor) = u32::try_from(divisor) else { return 0 };
    let bits = u32::BITS - (divisor - 1).leading_zeros();
    let multiplier = ((1u64 << 32) * ((1u64 << bits) - u64::from(divisor)) / u64::from(divisor) + 1) as u32;
    i64::from(bits - 1) << 32 | i64::from(multiplier)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Told;

    fn extent(axis: usize, value: i64) -> Number {
        Number::told(value, Told::Extent(axis))
    }

    #[test]
    fn forms_become_parameters_in_the_order_in_which_they_come_up() {
        let text = |m: i64, n: i64| {
            let [m, n] = [extent(0, m), extent(1, n)];
            let body = format!("if (x < {m}u) y = {}; z = x * {n} + {};", quotient("x", n), n * m);
            format!("__global__ f({}) {{ {body} }}", with_room("float* p"))
        };
        let mut used = Used::default();
        let (filled, arguments) = told(&text(7, 5), &mut used).unwrap();
        let expected = "__global__ f(float* p, const int told0, const int told1, const long long reciprocal2, const int told3) \
                        { if (x < unsigned(told0)) y = fw_quotient(x, told1, reciprocal2); z = x * told1 + told3; }";
        assert_eq!(filled, expected);
        assert_eq!([arguments[0], arguments[1], arguments[3]], [7, 5, 35].map(Parameter::Int));
        let (again, others) = told(&text(9, 9), &mut used).unwrap();
        assert_eq!((again, others[0], others[3]), (filled, Parameter::Int(9), Parameter::Int(81)));
    }

    #[test]
    fn functions_beside_a_kernel_have_values_and_large_numbers_are_long() {
        let (m, large) = (extent(0, 7), extent(1, 1 << 40));
        let text = format!("int g() {{ return {m}u; }} __global__ f({}) {{ {large} }}", with_room(""));
        let (filled, arguments) = told(&text, &mut Used::default()).unwrap();
        assert_eq!(filled, "int g() { return 7u; } __global__ f(const long long told0) { told0 }");
        assert_eq!(arguments, [Parameter::Long(1 << 40)]);
        let nothing = told(&format!("__global__ f({})", with_room("int x")), &mut Used::default()).unwrap();
        assert_eq!(nothing, ("__global__ f(int x)".to_owned(), Vec::new()));
    }

    #[test]
    fn a_function_with_room_is_given_what_it_is_told() {
        let text = |m: i64| {
            let [m, n] = [extent(0, m), extent(1, 5)];
            let beside = format!("__device__ int g({}) {{ return {} + {m}u; }}", with_room("int x"), quotient("x", n));
            format!("{beside} __global__ f({}) {{ {m}; g({}); }}", with_room(""), given_room("y"))
        };
        let (filled, arguments) = told(&text(7), &mut Used::default()).unwrap();
        let expected = "__device__ int g(int x, const int told0, const long long reciprocal1, const int told2) \
                        { return fw_quotient(x, told0, reciprocal1) + unsigned(told2); } \
                        __global__ f(const int told0, const int told1, const long long reciprocal2) \
                        { told0; g(y, told1, reciprocal2, told0); }";
        assert_eq!(filled, expected);
        assert_eq!(arguments[..2], [7, 5].map(Parameter::Int));
        assert_eq!(told(&text(9), &mut Used::default()).unwrap().0, filled);
    }

    #[test]
    fn two_values_of_one_form_are_a_defect() {
        let text = format!("__global__ f({}) {{ {} {} }}", with_room(""), extent(0, 7), extent(0, 8));
        assert!(told(&text, &mut Used::default()).is_err());
    }

    /// What `fw_quotient` computes.
    fn divided(x: u32, reciprocal: i64) -> u32 {
        let part = ((u64::from(x) * u64::from(reciprocal as u32)) >> 32) as u32;
        part.wrapping_add(x.wrapping_sub(part) >> 1) >> (reciprocal >> 32)
    }

    #[test]
    fn reciprocals_divide_every_number_of_32_bits() {
        let near = |x: u64| (x.saturating_sub(2)..=x + 2).filter_map(|x| u32::try_from(x).ok());
        let edges: Vec<u32> = (0..=32).flat_map(|bit| near(1u64 << bit)).collect();
        for divisor in edges.iter().copied().chain([3, 7, 10, 641, 6_700_417]).filter(|d| (2..1 << 31).contains(d)) {
            let reciprocal = packed_reciprocal(divisor.into());
            let multiples = (0..20)
                .flat_map(|step| near((u64::from(u32::MAX) / 20 * step) / u64::from(divisor) * u64::from(divisor)));
            for x in edges.iter().copied().chain(multiples) {
                assert_eq!(divided(x, reciprocal), x / divisor, "{x} / {divisor}");
            }
        }
    }
}
