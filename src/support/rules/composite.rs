//! Operations that primitive ones define: softmax, and the norms and attention that families of their own will know.

use crate::graph::Attributes;
use crate::support::context::Context;
use crate::support::findings::Findings;
use crate::support::rule::{PATTERN, rules};

rules! {
    ALL, "project; 003 Support Surface 90, 80, 70: no stage lists them" {
        OP_COMPOSITE = "OP-COMPOSITE", "graph", PATTERN, "no operation that primitive operations define: the runtime surfaces list primitive ones only";
    }
}

/// No surface has a composite operation, in whatever stage.
pub(super) fn check(cx: &Context, found: &mut Findings) {
    for (id, operation) in cx.operations() {
        if matches!(operation.attributes, Attributes::Composite(_)) {
            found.operation(&OP_COMPOSITE, id, "primitive operations only", operation.tag());
        }
    }
}
