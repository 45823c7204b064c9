//! Stages of a fused kernel.

/// Which operand of a product a mainloop stage belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    /// A of a matmul; the operand of a convolution before which its form allows operations.
    A,
    /// B of a matmul; the operand of a convolution that its form keeps bare.
    B,
}

impl Side {
    /// Both sides.
    pub const BOTH: [Self; 2] = [Self::A, Self::B];
}

/// Where in a fused kernel an operation is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stage {
    /// Before an operand of the core: mainloop fusion.
    Before(Side),
    /// The core itself.
    Core,
    /// After the core: epilogue fusion. Every operation of a graph without a core.
    After,
}

impl Stage {
    /// Name of the stage in messages: `g1A`, `g1B`, `core`, `g2`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Before(Side::A) => "g1A",
            Self::Before(Side::B) => "g1B",
            Self::Core => "core",
            Self::After => "g2",
        }
    }
}
