//! Modes of pointwise, reduction and resample operations, with cuDNN's spellings.

use std::fmt;

macro_rules! modes {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident = $text:literal;)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$vmeta])* $variant),* }

        impl $name {
            /// Every mode.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Spelling in graph files.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $text),* }
            }

            /// Every spelling.
            pub fn names() -> impl Iterator<Item = &'static str> {
                Self::ALL.iter().map(|mode| mode.name())
            }

            /// The mode with this exact spelling.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|mode| mode.name() == name)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
    // With what a mode takes, and which attributes it reads.
    ($(#[$meta:meta])* $name:ident {
        $($(#[$vmeta:meta])* $variant:ident = $text:literal, $takes:ident, $reads:ident;)*
    }) => {
        modes! { $(#[$meta])* $name { $($(#[$vmeta])* $variant = $text;)* } }

        impl $name {
            fn takes(self) -> Takes {
                match self { $(Self::$variant => Takes::$takes),* }
            }

            /// The attributes that the mode reads, beside the compute type and the scales α.
            pub fn reads(self) -> Reads {
                match self { $(Self::$variant => Reads::$reads),* }
            }
        }
    };
}

/// What a pointwise mode takes, and gives.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    /// One value; gives one.
    One,
    /// Two values; gives one.
    Two,
    /// Two values; gives a truth value.
    Compared,
    /// One truth value; gives one.
    Truth,
    /// Two truth values; gives one.
    Truths,
    /// The gradient of a result and the forward input; gives the gradient of that.
    Gradient,
    /// Two values and a predicate; gives one of the values.
    Choice,
}

/// The attributes of a [`Pointwise`](super::Pointwise) that a mode reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// None.
    Nothing,
    /// The NaN option.
    NanOption,
    /// Both clips of RELU, the slope below the lower one, and the NaN option.
    Clips,
    /// α of ELU.
    EluAlpha,
    /// β of SOFTPLUS.
    SoftplusBeta,
    /// β of SWISH.
    SwishBeta,
    /// The axis.
    Axis,
}

modes! {
    /// Function of a pointwise operation: of x, and of b where it takes two values; of dy and x, the forward input, where it is
    /// a gradient. x and b are multiplied by α1 and α2 before. Each element of the broadcast inputs gives one of the result.
    ///
    /// Values have no unit; angles are in radians. Formulas are those of `docs/spec/operations.md`, section 4.2, which names the
    /// source of each; how exact results are is in `docs/pointwise-accuracy.md`. Truth values are 1 and 0, and what is not
    /// zero is true. Integers wrap around (PW-R7).
    PointwiseMode {
        /// `x + b`.
        Add = "ADD", Two, Nothing;
        /// `x + b²`.
        AddSquare = "ADD_SQUARE", Two, Nothing;
        /// `x − b`.
        Sub = "SUB", Two, Nothing;
        /// `x · b`.
        Mul = "MUL", Two, Nothing;
        /// `x / b`; integers truncate toward zero, and give 0 for `b = 0`.
        Div = "DIV", Two, Nothing;
        /// Remainder of `x / b` with the sign of x (`fmod`); of integers 0 for `b = 0`.
        Mod = "MOD", Two, Nothing;
        /// `x^b`, special values as in C's `pow`.
        Pow = "POW", Two, Nothing;
        /// The larger one; NaN by the NaN option.
        Max = "MAX", Two, NanOption;
        /// The smaller one; NaN by the NaN option.
        Min = "MIN", Two, NanOption;
        /// The angle of the point (b, x), in radians from −π to π.
        Atan2 = "ATAN2", Two, Nothing;
        /// `|x|`.
        Abs = "ABS", One, Nothing;
        /// `−x`.
        Neg = "NEG", One, Nothing;
        /// `√x`; NaN below zero.
        Sqrt = "SQRT", One, Nothing;
        /// `1 / √x`.
        Rsqrt = "RSQRT", One, Nothing;
        /// `1 / x`.
        Reciprocal = "RECIPROCAL", One, Nothing;
        /// `eˣ`.
        Exp = "EXP", One, Nothing;
        /// Natural logarithm.
        Log = "LOG", One, Nothing;
        /// Error function `2/√π · ∫₀ˣ e^(−t²) dt`.
        Erf = "ERF", One, Nothing;
        /// Least integer that is not below x; of an integer x itself.
        Ceil = "CEIL", One, Nothing;
        /// Greatest integer that is not above x; of an integer x itself.
        Floor = "FLOOR", One, Nothing;
        /// Sine of x radians.
        Sin = "SIN", One, Nothing;
        /// Cosine of x radians.
        Cos = "COS", One, Nothing;
        /// Tangent of x radians.
        Tan = "TAN", One, Nothing;
        /// x; converts between the types of input and output.
        Identity = "IDENTITY", One, Nothing;
        /// x between the clips, the upper clip above it, `lower + slope · (x − lower)` below the lower one; with the defaults
        /// `max(0, x)`.
        ReluFwd = "RELU_FWD", One, Clips;
        /// `tanh x`.
        TanhFwd = "TANH_FWD", One, Nothing;
        /// `1 / (1 + e^(−x))`.
        SigmoidFwd = "SIGMOID_FWD", One, Nothing;
        /// x where `x ≥ 0`, `α · (eˣ − 1)` below.
        EluFwd = "ELU_FWD", One, EluAlpha;
        /// `x · Φ(x) = x / 2 · (1 + erf(x / √2))`.
        GeluFwd = "GELU_FWD", One, Nothing;
        /// `x / 2 · (1 + tanh u)` with `u = √(2/π) · (x + 0.044715 x³)`.
        GeluApproxTanhFwd = "GELU_APPROX_TANH_FWD", One, Nothing;
        /// `ln(1 + e^(βx)) / β`.
        SoftplusFwd = "SOFTPLUS_FWD", One, SoftplusBeta;
        /// `x / (1 + e^(−βx))`; SiLU with `β = 1`.
        SwishFwd = "SWISH_FWD", One, SwishBeta;
        /// dy between the clips, 0 from the upper one on, `dy · slope` up to the lower one.
        ReluBwd = "RELU_BWD", Gradient, Clips;
        /// `dy · (1 − tanh² x)`.
        TanhBwd = "TANH_BWD", Gradient, Nothing;
        /// `dy · s · (1 − s)` with s the sigmoid of x.
        SigmoidBwd = "SIGMOID_BWD", Gradient, Nothing;
        /// dy where `x ≥ 0`, `dy · α · eˣ` below.
        EluBwd = "ELU_BWD", Gradient, EluAlpha;
        /// `dy · (Φ(x) + x · φ(x))`, φ the normal density.
        GeluBwd = "GELU_BWD", Gradient, Nothing;
        /// `dy · (½ (1 + tanh u) + x / 2 · (1 − tanh² u) · √(2/π) · (1 + 0.134145 x²))`, u as in the forward mode.
        GeluApproxTanhBwd = "GELU_APPROX_TANH_BWD", Gradient, Nothing;
        /// `dy / (1 + e^(−βx))`.
        SoftplusBwd = "SOFTPLUS_BWD", Gradient, SoftplusBeta;
        /// `dy · (s + βx · s · (1 − s))` with s the sigmoid of βx.
        SwishBwd = "SWISH_BWD", Gradient, SwishBeta;
        /// `x = b`; false with a NaN.
        CmpEq = "CMP_EQ", Compared, Nothing;
        /// `x ≠ b`; true with a NaN.
        CmpNeq = "CMP_NEQ", Compared, Nothing;
        /// `x > b`; false with a NaN.
        CmpGt = "CMP_GT", Compared, Nothing;
        /// `x ≥ b`; false with a NaN.
        CmpGe = "CMP_GE", Compared, Nothing;
        /// `x < b`; false with a NaN.
        CmpLt = "CMP_LT", Compared, Nothing;
        /// `x ≤ b`; false with a NaN.
        CmpLe = "CMP_LE", Compared, Nothing;
        /// Whether x and b are both not zero.
        LogicalAnd = "LOGICAL_AND", Truths, Nothing;
        /// Whether x or b is not zero.
        LogicalOr = "LOGICAL_OR", Truths, Nothing;
        /// Whether x is zero.
        LogicalNot = "LOGICAL_NOT", Truth, Nothing;
        /// The element's index along the axis; x gives the shape alone.
        GenIndex = "GEN_INDEX", One, Axis;
        /// x where the third input is not zero, b elsewhere.
        BinarySelect = "BINARY_SELECT", Choice, Nothing;
    }
}

impl PointwiseMode {
    /// Number of tensor inputs: 1, 2, or 3 (`BINARY_SELECT`). Backward modes read `DY` first, then the forward input.
    pub fn inputs(self) -> usize {
        match self.takes() {
            Takes::One | Takes::Truth => 1,
            Takes::Two | Takes::Compared | Takes::Truths | Takes::Gradient => 2,
            Takes::Choice => 3,
        }
    }

    /// `LOGICAL_AND`, `LOGICAL_OR`, `LOGICAL_NOT`.
    pub fn is_logical(self) -> bool {
        matches!(self.takes(), Takes::Truth | Takes::Truths)
    }

    /// `CMP_*`.
    pub fn is_comparison(self) -> bool {
        self.takes() == Takes::Compared
    }

    /// `*_FWD`: those that have a gradient mode.
    pub fn is_activation(self) -> bool {
        use PointwiseMode as M;
        matches!(
            self,
            M::ReluFwd
                | M::TanhFwd
                | M::SigmoidFwd
                | M::EluFwd
                | M::GeluFwd
                | M::GeluApproxTanhFwd
                | M::SoftplusFwd
                | M::SwishFwd
        )
    }

    /// `*_BWD`: inputs are `DY` and the forward input.
    pub fn is_backward(self) -> bool {
        self.takes() == Takes::Gradient
    }

    /// Whether swapping the two inputs never changes the result.
    pub fn is_commutative(self) -> bool {
        use PointwiseMode as M;
        matches!(self, M::Add | M::Mul | M::Min | M::Max | M::CmpEq | M::CmpNeq | M::LogicalAnd | M::LogicalOr)
    }
}

modes! {
    /// Operator of a reduction over the elements that share a result (`docs/spec/operations.md`, section 6).
    ReductionMode {
        /// Sum.
        Add = "ADD";
        /// Product.
        Mul = "MUL";
        /// Least element; NaN where one is.
        Min = "MIN";
        /// Largest element; NaN where one is.
        Max = "MAX";
        /// Largest magnitude; NaN where an element is.
        Amax = "AMAX";
        /// Sum divided by the number of elements.
        Avg = "AVG";
        /// Sum of magnitudes.
        Norm1 = "NORM1";
        /// Root of the sum of squares.
        Norm2 = "NORM2";
        /// Product of the elements that are not zero.
        MulNoZeros = "MUL_NO_ZEROS";
    }
}

modes! {
    /// Mode of a resampling (`docs/spec/operations.md`, section 7).
    ResampleMode {
        /// Mean of the window's elements inside the image.
        AvgpoolExcludePadding = "AVGPOOL_EXCLUDE_PADDING";
        /// Sum of the window's elements inside the image, divided by the window's extent.
        AvgpoolIncludePadding = "AVGPOOL_INCLUDE_PADDING";
        /// Linear interpolation along each spatial axis.
        Bilinear = "BILINEAR";
        /// The nearest element.
        Nearest = "NEAREST";
        /// Largest element of the window.
        Maxpool = "MAXPOOL";
    }
}

modes! {
    /// What lies outside the image of a resampling.
    PaddingMode {
        /// The nearest element inside.
        EdgeValPad = "EDGE_VAL_PAD";
        /// −∞.
        NegInfPad = "NEG_INF_PAD";
        /// 0.
        ZeroPad = "ZERO_PAD";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pointwise_mode_reads_back() {
        for &mode in PointwiseMode::ALL {
            assert_eq!(PointwiseMode::from_name(mode.name()), Some(mode));
        }
    }

    #[test]
    fn names_tell_gradients_comparisons_and_truths() {
        for &mode in PointwiseMode::ALL {
            let name = mode.name();
            assert_eq!(mode.is_backward(), name.ends_with("_BWD"), "{mode}");
            assert_eq!(mode.is_comparison(), name.starts_with("CMP_"), "{mode}");
            assert_eq!(mode.is_logical(), name.starts_with("LOGICAL_"), "{mode}");
        }
    }

    #[test]
    fn a_gradient_reads_what_its_forward_mode_reads() {
        for &mode in PointwiseMode::ALL.iter().filter(|mode| mode.is_backward()) {
            let forward =
                PointwiseMode::from_name(&mode.name().replace("_BWD", "_FWD")).expect("every gradient is of a mode");
            assert_eq!((mode.reads(), forward.inputs()), (forward.reads(), 1), "{mode}");
        }
    }

    #[test]
    fn activations_are_named_for_it() {
        let is_named = |mode: &PointwiseMode| mode.is_activation() == mode.name().ends_with("_FWD");
        assert!(PointwiseMode::ALL.iter().all(is_named));
    }
}
