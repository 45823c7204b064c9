//! The CPU engine: slow, obvious, right.

mod convolution;
mod element;
mod engine;
mod linear;
mod math;
mod matmul;
mod pointwise;
mod reduction;
mod run;
mod values;

pub use engine::execute;
pub use values::required_inputs;
