//! What a launch can hold: limits of grids, and of the 32-bit numbers in which kernels count.

use super::{Body, GemmKernel, Kernel, Launch, Mma, Multiply, Wgmma};

/// Most blocks of a grid, x and y, on every chip from sm_70 on.
pub const MOST_BLOCKS: [u32; 2] = [i32::MAX as u32, 65535];

/// Most blocks of a cluster, on every chip from sm_90 on.
pub const MOST_BLOCKS_OF_A_CLUSTER: u32 = 8;

/// Most blocks of a cluster where a function asks for more than that, as it may on data center chips (CUDA programming guide, "Thread Block Clusters").
pub const MOST_BLOCKS_OF_A_LARGE_CLUSTER: u32 = 16;

/// Largest number that kernels of matrix products count to where they count in 32 bits, and largest coordinate of a box: the
/// tensor memory accelerator takes signed numbers.
const LARGEST: i64 = i32::MAX as i64;

/// Alignment of the workspace and of the regions that launches have of it, in bytes.
pub const WORKSPACE_ALIGNMENT: u64 = 256;

impl Kernel {
    /// Whether every launch is within the limits. A number that was too large for its field when it was made is the largest
    /// of the field, which is beyond them.
    ///
    /// # Errors
    /// What is beyond which limit, as a sentence.
    pub fn fits(&self) -> Result<(), String> {
        self.functions.iter().try_for_each(|function| {
            if let Body::Gemm(gemm) = &function.body {
                gemm.counts_fit()?;
            }
            function.launch.grid_fits()
        })
    }
}

impl Launch {
    fn grid_fits(&self) -> Result<(), String> {
        match self.grid.iter().zip(MOST_BLOCKS).find(|(blocks, most)| *blocks > most) {
            Some((_, most)) => Err(format!("{} would need more than {most} blocks", self.function)),
            None => Ok(()),
        }
    }
}

impl GemmKernel {
    /// Whether tiles, steps along k, and coordinates of boxes are counted without a loss.
    fn counts_fit(&self) -> Result<(), String> {
        let (units, steps) = (self.units().value(), self.steps().value());
        if units > LARGEST {
            return Err(format!("C has {units} tiles; at most {LARGEST} are counted"));
        }
        let ahead = match self.multiply {
            // Counts in the type of its indices.
            Multiply::Fma(_) => return Ok(()),
            Multiply::Mma(Mma { stages, .. }) | Multiply::Wgmma(Wgmma { stages, .. }) => i64::from(stages),
        };
        if steps > LARGEST - ahead {
            return Err(format!("k takes {steps} steps; at most {} are counted", LARGEST - ahead));
        }
        if self.maps().next().is_none() {
            return Ok(());
        }
        let [_, m, n, k] = self.space.extents();
        let padded = |(name, extent, block): (&'static str, i64, u32)| (name, next_multiple(extent, block), block);
        let axes = [("m", m, self.tile.m), ("n", n, self.tile.n), ("k", k, self.tile.k)].map(padded);
        match axes.into_iter().find(|(_, padded, _)| *padded > LARGEST) {
            Some((name, padded, block)) => Err(format!(
                "{name} padded to tiles of {block} is {padded}; coordinates of the tensor memory accelerator are at most {LARGEST}"
            )),
            None => Ok(()),
        }
    }
}

fn next_multiple(extent: i64, block: u32) -> i64 {
    let block = i64::from(block);
    (extent + block - 1) / block * block
}
