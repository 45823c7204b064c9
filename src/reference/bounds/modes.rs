//! The stated accuracy of every pointwise mode: one row each, read by the error bounds, the tests and
//! `docs/pointwise-accuracy.md`.

use std::f64::consts::PI;
use std::fmt::{self, Write};

use super::accuracy::ulp;
use crate::graph::{DataType, Pointwise, PointwiseMode as M};
use crate::host_tensor::power_of_two;

/// How far a result may lie from the exact value, operands taken as exact.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Accuracy {
    /// The result is a value of the compute type and has no error.
    Exact,
    /// Rounded to nearest: half a unit in the last place, nothing where the exact value needs no rounding.
    Rounded,
    /// So many units in the last place of the row's [`Unit`].
    Ulps(f64),
}

/// What units in the last place are counted of: the result, or more where terms cancel, or where the rounding error of
/// an exponent is multiplied by the size of that exponent.
///
/// y is the exact result, x the operand of a forward mode and the forward input of a backward one, u = √(2/π)·(x +
/// 0.044715x³), s the logistic function. Where a form lets an intermediate vanish below 2^-126, 2^-103 times the factor
/// that is named is added, so that one ulp of `FLOAT` is 2^-126 of that factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// y.
    Result,
    /// |y| + |lower clip| + |slope·x|.
    Clip,
    /// |y|·(1 + |βx|), and |x| vanishing.
    Swish,
    /// |y|·(1 + |βx|).
    Softplus,
    /// |y|·(1 + x²), and |x| vanishing.
    Gelu,
    /// |y|·(1 + |2u|), and |x| vanishing.
    GeluTanh,
    /// |dy|·(Φ(x) + |x|·φ(x))·(1 + x²), and |dy|·(1 + |x|) vanishing.
    GeluTerms,
    /// |dy|·(s(2u) + |2xu′|·s(2u)·s(−2u))·(1 + |2u|), and |dy|·(1 + |2xu′|) vanishing.
    GeluTanhTerms,
    /// |dy|·(s(βx) + |βx|·s(βx)·s(−βx))·(1 + |βx|), and |dy|·(1 + |βx|) vanishing.
    SwishTerms,
    /// |y|, and |dy| vanishing.
    Gradient,
    /// |y|·(1 + |βx|), and |dy| vanishing.
    BetaGradient,
}

/// How exact one mode is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModeAccuracy {
    /// The mode.
    pub mode: M,
    /// The stated error in floating compute types; integer compute types are exact.
    pub accuracy: Accuracy,
    /// What its ulps are counted of.
    pub unit: Unit,
    /// How the generated code computes it, and the source of the figure.
    pub source: &'static str,
    /// What becomes of NaN, infinities and zeros, where it is not what IEEE 754 says of the formula.
    pub special: &'static str,
}

impl ModeAccuracy {
    /// The stated accuracy of a mode in floating compute types. The generated kernels (`FLOAT` arithmetic without fast
    /// mathematics, IEEE division and roots), the CPU engine and the emulator meet every figure.
    ///
    /// A CUDA function's figure is its largest observed distance from the correctly rounded result (CUDA C++ Programming
    /// Guide, "Mathematical Functions", tables of maximum ulp errors; `ex2.approx` and `rcp.approx`: PTX ISA), and half an
    /// ulp for that rounding.
    #[warn(clippy::wildcard_enum_match_arm)]
    pub fn of(mode: M) -> Self {
        use Accuracy::{Exact, Rounded, Ulps};
        let row = |accuracy, unit, source, special| Self { mode, accuracy, unit, source, special };
        match mode {
            M::Add => row(Rounded, Unit::Result, "IEEE addition", ""),
            M::AddSquare => row(Ulps(1.0), Unit::Result, "one fused multiply-add", ""),
            M::Sub => row(Rounded, Unit::Result, "IEEE subtraction", ""),
            M::Mul => row(Rounded, Unit::Result, "IEEE multiplication", ""),
            M::Div => row(Rounded, Unit::Result, "IEEE division", "INT32: x / 0 is 0, −2³¹ / −1 is −2³¹"),
            M::Mod => row(
                Exact,
                Unit::Result,
                "`fmodf`: 0 ulp",
                "sign of x; x mod 0 and ±∞ mod b are NaN; INT32: x mod 0 is 0",
            ),
            M::Pow => row(Ulps(4.5), Unit::Result, "`powf`: 4 ulp", "as C's `pow`: x⁰ and 1ᵇ are 1, NaN included"),
            M::Max => row(Exact, Unit::Result, "selection", MINMAX),
            M::Min => row(Exact, Unit::Result, "selection", MINMAX),
            M::Atan2 => {
                row(Ulps(3.5), Unit::Result, "`atan2f`: 3 ulp", "as C's `atan2`: zeros and infinities have angles")
            }
            M::Abs => row(Exact, Unit::Result, "sign bit", ""),
            M::Neg => row(Exact, Unit::Result, "sign bit", ""),
            M::Sqrt => row(Rounded, Unit::Result, "IEEE root", "NaN below −0"),
            M::Rsqrt => row(Ulps(2.5), Unit::Result, "`rsqrtf`: 2 ulp", "±0 → ±∞; NaN below −0"),
            M::Reciprocal => row(Rounded, Unit::Result, "IEEE division", ""),
            M::Exp => row(Ulps(2.5), Unit::Result, "`expf`: 2 ulp", "subnormal results are kept"),
            M::Log => row(Ulps(1.5), Unit::Result, "`logf`: 1 ulp", "±0 → −∞; NaN below −0"),
            M::Erf => row(Ulps(2.5), Unit::Result, "`erff`: 2 ulp", ""),
            M::Ceil => row(Exact, Unit::Result, "one instruction", "sign of zero kept"),
            M::Floor => row(Exact, Unit::Result, "one instruction", "sign of zero kept"),
            M::Sin => row(Ulps(2.5), Unit::Result, "`sinf`: 2 ulp, any argument", "±∞ → NaN"),
            M::Cos => row(Ulps(2.5), Unit::Result, "`cosf`: 2 ulp, any argument", "±∞ → NaN"),
            M::Tan => row(Ulps(4.5), Unit::Result, "`tanf`: 4 ulp, any argument", "±∞ → NaN"),
            M::Identity => row(Exact, Unit::Result, "copy", ""),
            M::ReluFwd => row(
                Ulps(1.5),
                Unit::Clip,
                "selection: exact without slope; with it one subtraction, one multiply-add",
                RELU,
            ),
            M::TanhFwd => row(Ulps(2.5), Unit::Result, "`tanhf`: 2 ulp", ""),
            M::SigmoidFwd => row(
                Ulps(6.0),
                Unit::Result,
                "`expf` of −|x|, `rcp.approx` of [1, 2]",
                "−∞ → 0, ∞ → 1; subnormal results are kept",
            ),
            M::EluFwd => row(Ulps(4.0), Unit::Result, "`expm1f`: 1 ulp", "−∞ → −α"),
            M::GeluFwd => row(Ulps(6.0), Unit::Gelu, "½·`erfcf`(−x/√2): 4 ulp", "−∞ → −0"),
            M::GeluApproxTanhFwd => row(Ulps(6.0), Unit::GeluTanh, "x / (1 + `ex2.approx`), `rcp.approx`", "−∞ → −0"),
            M::SoftplusFwd => row(Ulps(6.0), Unit::Softplus, "`log1pf`, `expf` of −|βx|", "limits 0 and ∞"),
            M::SwishFwd => row(
                Ulps(6.0),
                Unit::Swish,
                "x / (1 + `ex2.approx`), `rcp.approx`",
                "the limit at the vanishing end is a zero with the sign of x",
            ),
            M::ReluBwd => row(
                Rounded,
                Unit::Result,
                "one multiplication",
                "dy·slope: ∞·0 is NaN; x at a clip counts as beyond it; NaN in x as in RELU_FWD",
            ),
            M::TanhBwd => row(Ulps(8.0), Unit::Gradient, "4·s(2x)·s(−2x): `expf`, `rcp.approx`", GRADIENT),
            M::SigmoidBwd => row(Ulps(8.0), Unit::Gradient, "s(x)·s(−x): `expf`, `rcp.approx`", GRADIENT),
            M::EluBwd => row(Ulps(6.0), Unit::Gradient, "`expf`: 2 ulp", GRADIENT),
            M::GeluBwd => row(Ulps(8.0), Unit::GeluTerms, "`erfcf`: 4 ulp, `expf`: 2 ulp", GRADIENT),
            M::GeluApproxTanhBwd => row(Ulps(8.0), Unit::GeluTanhTerms, "`ex2.approx`, `rcp.approx`", GRADIENT),
            M::SoftplusBwd => row(Ulps(6.0), Unit::BetaGradient, "`ex2.approx`, `rcp.approx`", GRADIENT),
            M::SwishBwd => row(Ulps(8.0), Unit::SwishTerms, "`ex2.approx`, `rcp.approx`", GRADIENT),
            M::CmpEq => row(Exact, Unit::Result, "comparison", COMPARISON),
            M::CmpNeq => row(Exact, Unit::Result, "comparison", "true with a NaN; −0 = +0"),
            M::CmpGt => row(Exact, Unit::Result, "comparison", COMPARISON),
            M::CmpGe => row(Exact, Unit::Result, "comparison", COMPARISON),
            M::CmpLt => row(Exact, Unit::Result, "comparison", COMPARISON),
            M::CmpLe => row(Exact, Unit::Result, "comparison", COMPARISON),
            M::LogicalAnd => row(Exact, Unit::Result, "truth values", TRUTH),
            M::LogicalOr => row(Exact, Unit::Result, "truth values", TRUTH),
            M::LogicalNot => row(Exact, Unit::Result, "truth values", TRUTH),
            M::GenIndex => row(Exact, Unit::Result, "coordinate; FLOAT holds it exactly to 2²⁴", ""),
            M::BinarySelect => row(Exact, Unit::Result, "selection", "a NaN predicate is true"),
        }
    }
}

const MINMAX: &str = "NaN if an operand is; NOT_PROPAGATE_NAN: the other operand; which of −0 and +0 is open";
const RELU: &str = "NaN stays; NOT_PROPAGATE_NAN: the lower clip; −∞ without slope: the lower clip";
const GRADIENT: &str = "dy·slope: with an infinite dy NaN where the slope is 0";
const COMPARISON: &str = "false with a NaN; −0 = +0";
const TRUTH: &str = "anything but ±0 is true, NaN too";

/// The row of a mode as it holds for an operation: RELU without slope only selects, scaled operands are rounded once
/// more.
pub(super) fn accuracy(pointwise: &Pointwise) -> Accuracy {
    let scales = pointwise.alpha1 != 1.0 || pointwise.alpha2 != 1.0;
    match ModeAccuracy::of(pointwise.mode).accuracy {
        _ if pointwise.mode == M::ReluFwd && pointwise.lower_slope() == 0.0 && !scales => Accuracy::Exact,
        Accuracy::Ulps(ulps) if scales => Accuracy::Ulps(ulps + 2.0),
        _ if scales => Accuracy::Ulps(2.0),
        accuracy => accuracy,
    }
}

/// How far the result of an operation may lie from its exact value `result` for `operands`, in port order (backward
/// modes: DY, X) and taken as exact, in a floating compute type; before the result is rounded to a storage type.
pub fn allowed_error(pointwise: &Pointwise, compute: DataType, operands: [f64; 3], result: f64) -> f64 {
    match accuracy(pointwise) {
        Accuracy::Exact => 0.0,
        Accuracy::Rounded => 0.5 * ulp(compute, result),
        Accuracy::Ulps(ulps) => {
            ulps * ulp(compute, ModeAccuracy::of(pointwise.mode).unit.size(pointwise, operands, result))
        }
    }
}

/// Times 2^-23 this is the least normal `FLOAT`: what a formula may lose where an intermediate overflows or vanishes.
const VANISHING: f64 = power_of_two(-103);

impl Unit {
    /// The magnitude whose ulps are counted.
    fn size(self, p: &Pointwise, [first, x, _]: [f64; 3], result: f64) -> f64 {
        let beta = f64::from(p.beta());
        let (y, lost) = (result.abs(), first.abs() * VANISHING);
        match self {
            Self::Result => y,
            Self::Clip => y + f64::from(p.lower_clip()).abs() + (f64::from(p.lower_slope()) * first).abs(),
            Self::Softplus => y * (1.0 + (beta * first).abs()),
            Self::Swish => y * (1.0 + (beta * first).abs()) + lost,
            Self::Gelu => y * (1.0 + first * first) + lost,
            Self::GeluTanh => y * (1.0 + gelu_exponent(first).abs()) + lost,
            Self::Gradient => y + lost,
            Self::BetaGradient => y * (1.0 + (beta * x).abs()) + lost,
            Self::GeluTerms | Self::GeluTanhTerms | Self::SwishTerms => first.abs() * self.terms(beta, x),
        }
    }

    /// The sum of the magnitudes of the two terms of a derivative, each times what the error of its exponent is
    /// multiplied by, and what is lost where the logistic function vanishes; 1 where they overflow.
    fn terms(self, beta: f64, x: f64) -> f64 {
        let (z, growth) = match self {
            Self::GeluTerms => (x * x, x.abs()),
            Self::GeluTanhTerms => (gelu_exponent(x).abs(), (8.0 / PI).sqrt() * (x * (1.0 + 0.134_145 * x * x)).abs()),
            _ => ((beta * x).abs(), (beta * x).abs()),
        };
        let (value, slope) = match self {
            Self::GeluTerms => normal_bounds(x),
            Self::GeluTanhTerms => (logistic(gelu_exponent(x)), logistic(z) * logistic(-z)),
            _ => (logistic(beta * x), logistic(z) * logistic(-z)),
        };
        let sum = (1.0 + z) * (value + growth * slope) + VANISHING * (1.0 + growth.min(FARTHEST));
        if sum.is_finite() { sum } else { 1.0 }
    }
}

/// Beyond this growth of its second term every derivative is 0 or 1 in `FLOAT`.
const FARTHEST: f64 = 1e4;

/// Upper bounds of Φ and φ: Φ(x) is less than the logistic function of 2x on the right, and than φ(x) on the left (or
/// not much more).
fn normal_bounds(x: f64) -> (f64, f64) {
    let density = (-0.5 * x * x).exp() / (2.0 * PI).sqrt();
    (if x > 0.0 { logistic(2.0 * x) } else { density }, density)
}

/// 2u.
fn gelu_exponent(x: f64) -> f64 {
    (8.0 / PI).sqrt() * (x + 0.044_715 * x * x * x)
}

fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Result => "y",
            Self::Clip => "|y| + |lower clip| + |slope·x|",
            Self::Swish => "y·(1 + |βx|) + x·2^-103",
            Self::Softplus => "y·(1 + |βx|)",
            Self::Gelu => "y·(1 + x²) + x·2^-103",
            Self::GeluTanh => "y·(1 + |2u|) + x·2^-103",
            Self::GeluTerms => "dy·(Φ + |x|φ)·(1 + x²) + dy·(1 + |x|)·2^-103",
            Self::GeluTanhTerms => "dy·(s(2u) + |2xu′|·s(2u)·s(−2u))·(1 + |2u|) + dy·(1 + |2xu′|)·2^-103",
            Self::SwishTerms => "dy·(s(βx) + |βx|·s(βx)·s(−βx))·(1 + |βx|) + dy·(1 + |βx|)·2^-103",
            Self::Gradient => "y + dy·2^-103",
            Self::BetaGradient => "y·(1 + |βx|) + dy·2^-103",
        })
    }
}

impl fmt::Display for Accuracy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact => f.write_str("0"),
            Self::Rounded => f.write_str("0.5"),
            Self::Ulps(ulps) => write!(f, "{ulps}"),
        }
    }
}

/// The [accuracy](ModeAccuracy::of) of every mode as a Markdown table.
pub fn accuracy_table() -> String {
    let mut table = "| Mode | Error, ulp | of | Computed by; source of the figure | NaN, infinities, zeros |\n\
                     | --- | --- | --- | --- | --- |\n"
        .to_owned();
    for row in M::ALL.iter().copied().map(ModeAccuracy::of) {
        let special = if row.special.is_empty() { "as IEEE 754 has it" } else { row.special };
        let cells = [row.mode.to_string(), row.accuracy.to_string(), row.unit.to_string()];
        let cells = cells.iter().map(String::as_str).chain([row.source, special]);
        let cells: Vec<String> = cells.map(|cell| cell.replace('|', "\\|")).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(table, "| {} |", cells.join(" | "));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_counted_in_the_compute_type() {
        let exp = Pointwise::new(M::Exp);
        assert_eq!(allowed_error(&exp, DataType::Float, [0.0; 3], 1.0), 2.5 * 2f64.powi(-23));
        assert_eq!(allowed_error(&exp, DataType::Half, [0.0; 3], 1.0), 2.5 * 2f64.powi(-10));
        assert_eq!(allowed_error(&Pointwise::new(M::Neg), DataType::Float, [1.0; 3], -1.0), 0.0);
        assert_eq!(allowed_error(&Pointwise::new(M::Add), DataType::Float, [1.0; 3], 2.0), 2f64.powi(-23));
    }

    #[test]
    fn a_slope_makes_relu_inexact() {
        let leaky = Pointwise { relu_lower_clip_slope: Some(0.5), ..Pointwise::new(M::ReluFwd) };
        assert_eq!(accuracy(&Pointwise::new(M::ReluFwd)), Accuracy::Exact);
        assert_eq!(accuracy(&leaky), Accuracy::Ulps(1.5));
    }

    #[test]
    fn vanishing_intermediates_cost_the_least_normal_number_times_the_factor() {
        let swish = Pointwise::new(M::SwishFwd);
        assert_eq!(allowed_error(&swish, DataType::Float, [-128.0, 0.0, 0.0], 0.0), 6.0 * 2f64.powi(-126 + 7));
    }

    #[test]
    fn tails_are_as_narrow_as_the_density_there() {
        let gelu = Pointwise::new(M::GeluBwd);
        assert!(allowed_error(&gelu, DataType::Float, [1.0, -3.0, 0.0], -0.011_945_6) < 1e-6);
    }

    #[test]
    fn terms_that_overflow_count_as_one() {
        for unit in [Unit::GeluTerms, Unit::GeluTanhTerms, Unit::SwishTerms] {
            for x in [-1e300, 1e300, f64::INFINITY] {
                assert!(unit.terms(1.0, x).is_finite(), "{unit:?} {x}");
            }
        }
    }
}
