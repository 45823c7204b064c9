//! Matrix products: what the skeletons share, and which one a kernel is filled into.

mod epilogue;
mod fma;
mod loads;
mod mma;
mod operand;
mod unit;
mod wgmma;

use super::sections::Used;
use super::template::{Signature, template};
use crate::error::Error;
use crate::graph::FinalizedGraph;
use crate::kernel::{GemmKernel, Multiply};

/// Renders a product.
///
/// # Errors
/// [`Error::Generated`] if a template fails: a defect of ours.
pub(super) fn product(
    graph: &FinalizedGraph,
    used: &mut Used,
    kernel: &GemmKernel,
    signature: Signature<'_>,
) -> Result<String, Error> {
    used.add("FW_SHARED");
    let inside = epilogue::Mending::of(graph, kernel).map(|mending| mending.function(used)).transpose()?;
    let text = match &kernel.multiply {
        Multiply::Fma(fma) => signature.fill(template!("product/fma.cu"), fma::text(graph, used, kernel, fma)?),
        Multiply::Mma(mma) => signature.fill(template!("product/mma.cu"), mma::text(graph, used, kernel, mma)?),
        Multiply::Wgmma(wgmma) => {
            signature.fill(template!("product/wgmma.cu"), wgmma::text(graph, used, kernel, wgmma)?)
        }
    };
    Ok(inside.into_iter().chain([text?]).collect::<Vec<_>>().join("\n"))
}
