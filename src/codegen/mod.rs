//! Kernel → template record → CUDA text.

use crate::kernel::Launch;

/// Rendered CUDA text with what is needed to launch it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// One complete CUDA file; compiles with NVRTC without headers, and with g++ against the emulator's header.
    pub text: String,
    /// Launches, in order.
    pub launches: Vec<Launch>,
    /// Workspace the launches share, in bytes.
    pub workspace_bytes: u64,
}
