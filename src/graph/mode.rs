//! Modes of pointwise, reduction and resample operations, with cuDNN's spellings.

use std::fmt;

macro_rules! modes {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident = $text:literal;)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[allow(missing_docs, reason = "cuDNN's names; the mathematics is in the reference")]
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
}

modes! {
    /// Function of a pointwise operation.
    PointwiseMode {
        Add = "ADD";
        AddSquare = "ADD_SQUARE";
        Sub = "SUB";
        Mul = "MUL";
        Div = "DIV";
        Mod = "MOD";
        Pow = "POW";
        Max = "MAX";
        Min = "MIN";
        Atan2 = "ATAN2";
        Abs = "ABS";
        Neg = "NEG";
        Sqrt = "SQRT";
        Rsqrt = "RSQRT";
        Reciprocal = "RECIPROCAL";
        Exp = "EXP";
        Log = "LOG";
        Erf = "ERF";
        Ceil = "CEIL";
        Floor = "FLOOR";
        Sin = "SIN";
        Cos = "COS";
        Tan = "TAN";
        Identity = "IDENTITY";
        ReluFwd = "RELU_FWD";
        TanhFwd = "TANH_FWD";
        SigmoidFwd = "SIGMOID_FWD";
        EluFwd = "ELU_FWD";
        GeluFwd = "GELU_FWD";
        GeluApproxTanhFwd = "GELU_APPROX_TANH_FWD";
        SoftplusFwd = "SOFTPLUS_FWD";
        SwishFwd = "SWISH_FWD";
        ReluBwd = "RELU_BWD";
        TanhBwd = "TANH_BWD";
        SigmoidBwd = "SIGMOID_BWD";
        EluBwd = "ELU_BWD";
        GeluBwd = "GELU_BWD";
        GeluApproxTanhBwd = "GELU_APPROX_TANH_BWD";
        SoftplusBwd = "SOFTPLUS_BWD";
        SwishBwd = "SWISH_BWD";
        CmpEq = "CMP_EQ";
        CmpNeq = "CMP_NEQ";
        CmpGt = "CMP_GT";
        CmpGe = "CMP_GE";
        CmpLt = "CMP_LT";
        CmpLe = "CMP_LE";
        LogicalAnd = "LOGICAL_AND";
        LogicalOr = "LOGICAL_OR";
        LogicalNot = "LOGICAL_NOT";
        GenIndex = "GEN_INDEX";
        BinarySelect = "BINARY_SELECT";
    }
}

impl PointwiseMode {
    /// Number of tensor inputs: 1, 2, or 3 (`BINARY_SELECT`). Backward modes read `DY` first, then the forward input.
    pub fn inputs(self) -> usize {
        use PointwiseMode as M;
        match self {
            M::BinarySelect => 3,
            M::Abs | M::Neg | M::Sqrt | M::Rsqrt | M::Reciprocal | M::Exp | M::Log | M::Erf | M::Ceil | M::Floor => 1,
            M::Sin | M::Cos | M::Tan | M::Identity | M::LogicalNot | M::GenIndex => 1,
            M::ReluFwd | M::TanhFwd | M::SigmoidFwd | M::EluFwd => 1,
            M::GeluFwd | M::GeluApproxTanhFwd | M::SoftplusFwd | M::SwishFwd => 1,
            _ => 2,
        }
    }

    /// `LOGICAL_AND`, `LOGICAL_OR`, `LOGICAL_NOT`.
    pub fn is_logical(self) -> bool {
        matches!(self, Self::LogicalAnd | Self::LogicalOr | Self::LogicalNot)
    }

    /// `CMP_*`.
    pub fn is_comparison(self) -> bool {
        matches!(self, Self::CmpEq | Self::CmpNeq | Self::CmpGt | Self::CmpGe | Self::CmpLt | Self::CmpLe)
    }

    /// `*_BWD`: inputs are `DY` and the forward input.
    pub fn is_backward(self) -> bool {
        self.name().ends_with("_BWD")
    }

    /// Whether swapping the two inputs never changes the result.
    pub fn is_commutative(self) -> bool {
        use PointwiseMode as M;
        matches!(self, M::Add | M::Mul | M::Min | M::Max | M::CmpEq | M::CmpNeq | M::LogicalAnd | M::LogicalOr)
    }
}

modes! {
    /// Operator of a reduction.
    ReductionMode {
        Add = "ADD";
        Mul = "MUL";
        Min = "MIN";
        Max = "MAX";
        Amax = "AMAX";
        Avg = "AVG";
        Norm1 = "NORM1";
        Norm2 = "NORM2";
        MulNoZeros = "MUL_NO_ZEROS";
    }
}

modes! {
    /// Mode of a resampling.
    ResampleMode {
        AvgpoolExcludePadding = "AVGPOOL_EXCLUDE_PADDING";
        AvgpoolIncludePadding = "AVGPOOL_INCLUDE_PADDING";
        Bilinear = "BILINEAR";
        Nearest = "NEAREST";
        Maxpool = "MAXPOOL";
    }
}

modes! {
    /// What lies outside the image of a resampling.
    PaddingMode {
        EdgeValPad = "EDGE_VAL_PAD";
        NegInfPad = "NEG_INF_PAD";
        ZeroPad = "ZERO_PAD";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_51_pointwise_modes_and_each_reads_back() {
        assert_eq!(PointwiseMode::ALL.len(), 51);
        for &mode in PointwiseMode::ALL {
            assert_eq!(PointwiseMode::from_name(mode.name()), Some(mode));
        }
    }

    #[test]
    fn backward_modes_take_two_inputs() {
        for &mode in PointwiseMode::ALL {
            assert!(!mode.is_backward() || mode.inputs() == 2, "{mode}");
        }
    }
}
