//! Operations that primitive ones define: softmax, and the norms and attention that families of their own will know.

use crate::graph::Attributes;
use crate::support::context::Context;
use crate::support::findings::Findings;
use crate::support::records::composite::OP_COMPOSITE;

/// No surface has a composite operation, in whatever stage.
pub(super) fn check(cx: &Context, found: &mut Findings) {
    for (id, operation) in cx.operations() {
        if matches!(operation.attributes, Attributes::Composite(_)) {
            found.operation(&OP_COMPOSITE, id, "primitive operations only", operation.tag());
        }
    }
}
