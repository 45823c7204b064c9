//! Operations that primitive ones define: softmax, and the norms and attention that families of their own will know.

use crate::support::rule::{PATTERN, RUNTIME, rules};

rules! {
    RUNTIME, "project; 003 Support Surface 90, 80, 70: no stage lists them" {
        OP_COMPOSITE = "OP-COMPOSITE", "graph", PATTERN, "no operation that primitive operations define: the runtime surfaces list primitive ones only";
    }
}
