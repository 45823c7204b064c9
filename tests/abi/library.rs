//! The shared library with the ABI as the tests build it, from what is compiled for them already. `scripts/install-cudnn.sh`
//! builds the one to install.

pub use fusewright::capi::*;
