//! Identity of a graph.

use std::fmt;

/// Stable hash of everything in a finalized graph that affects generated code, and nothing else:
/// independent of names, uids' values and insertion order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GraphKey(pub(super) [u8; 32]);

impl fmt::Display for GraphKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().take(16).try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
