//! The last step of the mainloop along k of a matmul, or under a tap of a convolution.

use super::MmaType;

/// What k ends with where it does not fill a step of the mainloop, or the channels under a tap of a convolution: elements outside a tensor cost
/// the tensor memory accelerator more than those inside, so boxes have none but to the next product, and to 16 bytes where stages hold zeros
/// behind these ([`super::Operand::boxed_of`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepTail {
    /// Elements of k of the last step.
    pub elements: u32,
    /// Steps along k, or under a tap.
    pub steps: i64,
}

impl StepTail {
    /// Elements of k of one product.
    pub fn unit(operand: MmaType) -> u32 {
        const PRODUCT_BYTES: u32 = 32;
        PRODUCT_BYTES / operand.bytes()
    }

    /// Part of the steps, of `step` elements each, that is multiplied.
    pub fn multiplied(&self, step: i64) -> f64 {
        ((self.steps - 1) * step + i64::from(self.elements)) as f64 / (self.steps * step) as f64
    }

    /// Whether steps differ, so that whole boxes are needed beside the narrow ones.
    pub fn differs(&self) -> bool {
        self.steps > 1
    }
}
