//! Whether operands are copied to a layout that the tensor memory accelerator takes, before they are multiplied: where the models expect
//! that to be faster than reading them as they lie.

use super::Tiles;
use super::model::CLOCK;
use crate::device::{ComputeCapability, Device};
use crate::engine::lowering::{Instruction, OperandPlan, ProductPlan, multiplied_type};
use crate::error::Reason;
use crate::fusion::{Fusion, Product};
use crate::kernel::MmaType;

/// Clocks of a multiprocessor for an access of fewer than 16 bytes on the way to `mma.sync`: the least of three ragged convolutions on
/// an H200 (filter gradient of 64×3×48×48 BF16 by 80×3×5×5: 147 µs; the others 3.9 and 17).
const SHORT_ACCESS: f64 = 1.6;

/// Bytes of an access that costs nothing beside the products.
const WHOLE_ACCESS: i64 = 16;

/// Bytes of operands that a multiprocessor multiplies in a second by `mma.sync`, with 128 rows of the other operand: 427 TFLOP/s in
/// FP16 on the 132 of an H200, as in the model of `warp_mma`.
const OPERATIONS: f64 = 427e12 / 132.0;

/// Rows and columns of a tile of `mma.sync`, and the least of k that is worth a part of its own.
const TILE: i64 = 128;
const LEAST_DEPTH: i64 = 512;

/// Tiles of the operands as they lie or of copies, whichever is expected to be faster on a typical device of the chip.
///
/// # Errors
/// Why the operands are not taken as they lie, and what copies would cost.
pub(super) fn chosen(fusion: &Fusion, product: &Product, capability: ComputeCapability) -> Result<Tiles, Reason> {
    let as_they_lie = Tiles::new(fusion, product);
    let Some(copied) = Tiles::of_copies(fusion, product) else { return as_they_lie };
    let device = Device::typical(capability);
    let expected = copied.microseconds(&device);
    match as_they_lie {
        Ok(tiles) if tiles.microseconds(&device) <= expected => Ok(tiles),
        Ok(_) => Ok(copied),
        Err(why) => match by_short_accesses(fusion, product, &device) {
            Some(others) if others < expected => Err(refused(&why, expected, others)),
            _ => Ok(copied),
        },
    }
}

/// Why neither is taken.
fn refused(why: &Reason, copied: f64, others: f64) -> Reason {
    Reason::Graph(format!(
        "{why}; copied first, it would take {copied:.1} µs by the model, and {others:.1} µs as it lies by mma.sync"
    ))
}

/// Microseconds that a product takes by `mma.sync`, with operands in accesses as wide as they lie for; `None` where there is no
/// instruction for them. What takes longest counts: the products, or the short accesses of each operand, once for each tile along
/// the other.
fn by_short_accesses(fusion: &Fusion, product: &Product, device: &Device) -> Option<f64> {
    let operand = multiplied_type(fusion.graph(), product).ok()?;
    let plan = ProductPlan::new(fusion, product, Instruction::Mma(operand));
    let [batch, m, n, k] = plan.extents();
    let tiles = |extent: i64| (extent + TILE - 1) / TILE;
    let parts = (batch * tiles(m) * tiles(n)).saturating_mul((k / LEAST_DEPTH).max(1));
    let busy = (parts as f64).min(f64::from(device.sm_count));
    let [a, b] = [(m, n), (n, m)].map(|(rows, others)| batch as f64 * rows as f64 * k as f64 * tiles(others) as f64);
    let accesses = short(&plan.operands[0], operand) * a + short(&plan.operands[1], operand) * b;
    let operations = 2.0 * batch as f64 * m as f64 * n as f64 * k as f64 * f64::from(operand.bytes()) / 2.0;
    Some(1e6 * (accesses * SHORT_ACCESS / CLOCK).max(operations / OPERATIONS) / busy)
}

/// Short accesses for an element of an operand.
fn short(operand: &OperandPlan, multiplied: MmaType) -> f64 {
    let vector = operand.vector();
    if vector * i64::from(multiplied.bytes()) < WHOLE_ACCESS { 1.0 / vector as f64 } else { 0.0 }
}
