//! Operands whose values change on the way to the type that a core computes in.

use std::borrow::Cow;
use std::sync::Arc;

use crate::fusion::{Fusion, Product, fuse};
use crate::graph::DataType;

/// The fusion for multiply-adds of `float`: `BFLOAT16` operands of a core in `HALF` are converted in its mainloop stages, as
/// `float` holds what `HALF` does not. All other operands that are taken are what `float` or `int` holds.
///
/// # Errors
/// That the stages are another pattern with the conversions, as a sentence.
pub(in crate::engine) fn with_converted_operands(fusion: &Fusion) -> Result<Cow<'_, Fusion>, String> {
    let graph = fusion.graph();
    let changes = |product: &&Product| {
        let is_wide = |id| graph.tensor(id).data_type == DataType::BFloat16;
        graph.compute_type(product.operation) == DataType::Half && product.tensors().into_iter().any(is_wide)
    };
    let Some(product) = fusion.product().filter(changes) else { return Ok(Cow::Borrowed(fusion)) };
    let converted = graph.with_operands_in(product.operation, DataType::Half);
    fuse(Arc::new(converted)).map(Cow::Owned).map_err(|misfit| misfit.to_string())
}
