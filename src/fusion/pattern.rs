//! The generic patterns, as the documentation of the surfaces names them.

use super::Core;
use super::core::ProductKind;
use crate::graph::ConvolutionDirection;

/// The five generic patterns (`docs/spec/support-surfaces.md` section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Pattern {
    /// `g2( Matmul( g1A, g1B ) )`.
    Matmul,
    /// `g2( ConvolutionFwd( g1(X), W ) )`.
    ConvolutionForward,
    /// `g2( ConvolutionBwdFilter( dy, g1(X) ) )`.
    ConvolutionBackwardFilter,
    /// `g2( ConvolutionBwdData( g1(dy), W ) )`.
    ConvolutionBackwardData,
    /// `g2( inputs )`.
    Pointwise,
}

impl Pattern {
    /// The pattern around a core.
    pub(super) fn of(core: &Core) -> Self {
        match core {
            Core::Product(product) => product.kind.into(),
            // the documentation of the surfaces knows no other core: for it, all is g2
            _ => Self::Pointwise,
        }
    }

    /// The pattern's row in the catalogue of rules: `PAT-MM`, `PAT-CF`, `PAT-CBF`, `PAT-CBD` or `PAT-PW`.
    pub fn rule(self) -> &'static str {
        match self {
            Self::Matmul => "PAT-MM",
            Self::ConvolutionForward => "PAT-CF",
            Self::ConvolutionBackwardFilter => "PAT-CBF",
            Self::ConvolutionBackwardData => "PAT-CBD",
            Self::Pointwise => "PAT-PW",
        }
    }

    /// The pattern's form, as messages quote it.
    pub fn form(self) -> &'static str {
        match self {
            Self::Matmul => "g2(Matmul(g1A(inputs), g1B(inputs)), inputs)",
            Self::ConvolutionForward => "g2(ConvolutionFwd(g1(X), W), inputs)",
            Self::ConvolutionBackwardFilter => "g2(ConvolutionBwdFilter(dy, g1(X)), inputs)",
            Self::ConvolutionBackwardData => "g2(ConvolutionBwdData(g1(dy), W), inputs)",
            Self::Pointwise => "g2(inputs)",
        }
    }
}

impl From<ProductKind> for Pattern {
    fn from(kind: ProductKind) -> Self {
        match kind {
            ProductKind::Matmul => Self::Matmul,
            ProductKind::Convolution(ConvolutionDirection::Forward) => Self::ConvolutionForward,
            ProductKind::Convolution(ConvolutionDirection::BackwardFilter) => Self::ConvolutionBackwardFilter,
            ProductKind::Convolution(ConvolutionDirection::BackwardData) => Self::ConvolutionBackwardData,
        }
    }
}
