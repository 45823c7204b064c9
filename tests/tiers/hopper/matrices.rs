//! Matrices of 8 by 8 that a warp stores, as they are and transposed.

use fusewright::graph::DataType;
use fusewright::kernel::{MapElement, Parameter, Swizzle, TensorMap};
use libtest_mimic::Failed;

use super::{Carrier, Case, KernelTest, launch, padded};

pub(super) fn cases() -> Vec<Case> {
    let case =
        |(name, function, is_transposed)| Case::new(format!("stmatrix::{name}"), move || test(function, is_transposed));
    [("straight", "fw_stmatrix_x4", false), ("transposed", "fw_stmatrix_x4_trans", true)].map(case).into()
}

/// Four matrices, one below the other, from registers to shared memory, and from there by TMA.
fn test(function: &str, is_transposed: bool) -> Result<KernelTest, Failed> {
    let carrier = Carrier::flat(DataType::Half, 256, DataType::Half, 256)?;
    let text = format!(
        r#"extern "C" __global__ void __launch_bounds__(32)
store_matrices(const uint4* __restrict__ x, const __grid_constant__ fw_tensor_map map) {{
  FW_SHARED(shared_bytes);
  const unsigned shared = fw_shared_address(shared_bytes);
  const uint4 value = x[threadIdx.x];
  {function}(shared + threadIdx.x * 16, value.x, value.y, value.z, value.w);
  fw_fence_async();
  __syncwarp();
  if (fw_elect()) {{
    fw_tma_store(&map, shared, 0, 0);
    fw_tma_store_commit();
    fw_tma_store_wait_read<0>();
  }}
}}
"#
    );
    // lane l holds elements 2 l and 2 l + 1 of each matrix
    let held = |matrix: usize, element: usize| (element / 2 * 8 + matrix * 2 + element % 2) as f64;
    let stored = |i: usize| {
        let (matrix, row, column) = (i / 64, i / 8 % 8, i % 8);
        held(matrix, if is_transposed { column * 8 + row } else { row * 8 + column })
    };
    let inputs = [carrier.host(carrier.a, |position| position as f64)?, carrier.host(carrier.b, |_| 0.0)?];
    let expected = carrier.host(carrier.a, stored)?.bytes;
    let map = Parameter::TensorMap(TensorMap {
        tensor: carrier.c,
        element: MapElement::Half,
        rank: 2,
        dims: padded(&[8, 32]),
        strides: padded(&[16]),
        box_dims: padded(&[8, 32]),
        swizzle: Swizzle::None,
        pixels: None,
        lead: 0,
        next_line_later: true,
    });
    let launches = vec![launch("store_matrices", 1, 32, 512, vec![Parameter::Tensor(carrier.a), map])];
    let sections = ["FW_SHARED", "fw_shared_address", "fw_elect", "fw_tma_store", "fw_fence_async", "fw_stmatrix"];
    Ok(carrier.test(&sections, &text, launches, inputs, expected))
}
