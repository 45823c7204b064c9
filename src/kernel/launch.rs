//! What a plan needs to start a kernel.

use std::collections::BTreeMap;

use crate::graph::TensorId;

/// One kernel launch; a plan runs its launches in order on one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Name of the `extern "C" __global__` function in the source.
    pub function: String,
    /// Blocks of the grid, x and y: it has one layer, as `fw_wait_for_previous_launch` takes for granted.
    pub grid: [u32; 2],
    /// Blocks of a cluster, side by side along x, whose extent they divide; 1 where blocks do not share their memory.
    pub cluster: u32,
    /// Threads of a block, x, y, z.
    pub block: [u32; 3],
    /// Dynamic shared memory, in bytes.
    pub shared_bytes: u32,
    /// Whether it may be started before the launch before it, of whatever origin, has finished: the kernel waits for that
    /// itself before it touches memory (`fw_wait_for_previous_launch`). All that are generated do.
    pub starts_early: bool,
    /// Arguments in order.
    pub parameters: Vec<Parameter>,
}

/// One argument of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Parameter {
    /// Device pointer of a non-virtual tensor.
    Tensor(TensorId),
    /// Host scalar by value: `double` for `DOUBLE`, `float` for other floating types, `int` for 8- to 32-bit integers and booleans,
    /// `long long` for `INT64`; already rounded to the tensor's type.
    Scalar(TensorId),
    /// A number that the definition of an operation has, as `float`.
    Constant {
        /// The virtual tensor of the kernel's graph that stands for it.
        tensor: TensorId,
        /// The number's bits.
        bits: u32,
    },
    /// Pointer to the core's accumulators in the plan's workspace: `float`, or `int` for integer accumulators.
    Accumulators {
        /// Byte offset, a multiple of 256.
        offset: u64,
        /// Whether they are integers.
        is_integer: bool,
    },
    /// Pointer into the plan's workspace.
    Workspace {
        /// Byte offset, a multiple of 256.
        offset: u64,
    },
    /// Pointer to the counter in the plan's workspace that blocks claim tiles from.
    TileCounter {
        /// Byte offset, a multiple of 256.
        offset: u64,
    },
    /// Pointer to a virtual tensor of the kernel's graph that lies in the plan's workspace, between two launches.
    Intermediate {
        /// The tensor.
        tensor: TensorId,
        /// Byte offset, a multiple of 256.
        offset: u64,
    },
    /// Rank of the GPU that runs the launch among those of a node, as `int`: the place of the first tensor of its peers that was allocated in
    /// the GPU's own memory (N-112).
    OwnRank {
        /// The first tensor of the peers.
        first: TensorId,
    },
    /// Pointer to a word of the plan's, in memory of the host, for one more than the rank of a GPU that did not send its statistics.
    AbsentRank,
    /// The first of the heads that a launch computes, as `int`.
    FirstHead(i32),
    /// A number that the text does not know, as `int`.
    Int(i32),
    /// The same as `long long`.
    Long(i64),
    /// A tensor map by value, made from the tensor's device pointer.
    TensorMap(TensorMap),
    /// A tensor map by value of a virtual tensor that lies in the plan's workspace, as [`Self::Intermediate`] does.
    IntermediateMap {
        /// The map.
        map: TensorMap,
        /// Byte offset of the tensor, a multiple of 256.
        offset: u64,
    },
}

impl Parameter {
    /// The same in a workspace that has some tensors at these places, and all else from `behind` on.
    pub(super) fn placed(self, kept: &BTreeMap<TensorId, u64>, behind: u64) -> Self {
        match self {
            Self::Tensor(tensor) => match kept.get(&tensor) {
                Some(&offset) => Self::Intermediate { tensor, offset },
                None => self,
            },
            Self::TensorMap(map) => match kept.get(&map.tensor) {
                Some(&offset) => Self::IntermediateMap { map, offset },
                None => self,
            },
            Self::Accumulators { offset, is_integer } => Self::Accumulators { offset: offset + behind, is_integer },
            Self::Workspace { offset } => Self::Workspace { offset: offset + behind },
            Self::TileCounter { offset } => Self::TileCounter { offset: offset + behind },
            Self::Intermediate { tensor, offset } => Self::Intermediate { tensor, offset: offset + behind },
            Self::IntermediateMap { map, offset } => Self::IntermediateMap { map, offset: offset + behind },
            Self::Scalar(_) | Self::Constant { .. } | Self::OwnRank { .. } | Self::AbsentRank => self,
            Self::FirstHead(_) | Self::Int(_) | Self::Long(_) => self,
        }
    }
}

/// A tensor as an array of boxes, as the tensor memory accelerator (TMA) takes it; dims innermost first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TensorMap {
    /// The tensor; its pointer must be a multiple of 16 bytes.
    pub tensor: TensorId,
    /// Type of an element in memory, and what becomes of it on the way.
    pub element: MapElement,
    /// Number of dims, 1 to 5; what stands beyond in the arrays is zero.
    pub rank: usize,
    /// Extents in elements.
    pub dims: [u64; 5],
    /// Bytes from one index of dim `i + 1` to the next, multiples of 16; dim 0 is contiguous.
    pub strides: [u64; 4],
    /// Extents of a box in elements, at most 256 each; outside the tensor it reads zeros and is not written.
    pub box_dims: [u32; 5],
    /// How 16-byte chunks of a box's rows are exchanged in shared memory.
    pub swizzle: Swizzle,
    /// How boxes walk the pixels of images, if they do: dims are then channels, pixels along each axis, innermost first, and images;
    /// a box has so many channels of so many pixels.
    pub pixels: Option<PixelWalk>,
    /// Bytes before the tensor's pointer at which dim 0 begins: rows of a ragged tensor are counted back from a sequence's end, so that those
    /// beyond it are outside.
    pub lead: u64,
    /// Whether the line of L2 behind each row's is asked for later, by another box: not where boxes side by side are asked for together.
    pub next_line_later: bool,
}

/// How a box walks pixels (`cuTensorMapEncodeIm2col`): from where it starts along the innermost axis, then along the next, then
/// from image to image; pixels after the last image's read zeros. Each array has the spatial axes, innermost first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PixelWalk {
    /// The first pixel along each axis: `-padding` of a window's first tap.
    pub lower: [i32; 3],
    /// The last pixel along each axis, counted from the image's last.
    pub upper: [i32; 3],
    /// Pixels from one to the next.
    pub steps: [u32; 3],
}

impl TensorMap {
    /// Elements of a box.
    pub fn box_elements(&self) -> u32 {
        let dims = if self.pixels.is_some() { 2 } else { self.rank };
        self.box_dims[..dims].iter().product()
    }

    /// Elements from one row of a box to the next in shared memory: as many as the swizzle exchanges, of which a narrower box leaves the
    /// last as they were (seen on an H200).
    pub fn span(&self) -> u32 {
        match self.swizzle.row_bytes() {
            0 => self.box_dims[0],
            bytes => bytes / self.element.bytes(),
        }
    }

    /// The map whose boxes have so many indices of an axis.
    pub fn narrowed(mut self, axis: usize, extent: u32) -> Self {
        self.box_dims[axis] = extent;
        self
    }

    /// Elements of the innermost axis, to a multiple of 16 bytes.
    pub fn whole_units(&self) -> u32 {
        const UNIT: u64 = 16;
        let elements = self.dims[0].next_multiple_of(UNIT / u64::from(self.element.bytes()));
        u32::try_from(elements).unwrap_or(u32::MAX)
    }

    /// Bytes of a line of L2.
    const LINE: u64 = 128;

    /// Whether rows of boxes lie in whole lines of L2: else each row of 128 bytes touches two.
    pub fn rows_are_lines(&self) -> bool {
        self.rank < 2 || self.strides[0].is_multiple_of(Self::LINE)
    }

    /// Bytes that L2 reads at least where a box asks for some of them: the line after each row's, where that is asked for later, but not
    /// where rows straddle lines (4096×4096×4088 in FP16 on an H200: 317 µs with 128, 376 with 256; 4096³: the same). Where both lines are asked
    /// for together, 256 bytes are slower (docs/performance-notes.md: decoding 518 µs with 256, 500 with 128).
    pub fn promotion(&self) -> u32 {
        if self.next_line_later && self.rows_are_lines() { 256 } else { 128 }
    }
}

/// Element types of tensor maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MapElement {
    /// One byte: FP8, INT8, UINT8.
    Byte,
    /// FP16.
    Half,
    /// BF16.
    BFloat16,
    /// FP32.
    Float,
    /// FP32, rounded to TF32 (to nearest even) where it is loaded.
    TFloat32,
}

impl MapElement {
    /// Bytes of an element.
    pub fn bytes(self) -> u32 {
        match self {
            Self::Byte => 1,
            Self::Half | Self::BFloat16 => 2,
            Self::Float | Self::TFloat32 => 4,
        }
    }
}

/// Exchange of the 16-byte chunks of rows in shared memory: chunk `c` of the row at address `a` lies at `c ^ (a / 128 % n)`
/// for rows of `16 n` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Swizzle {
    /// None.
    None,
    /// Rows of 32 bytes.
    Bytes32,
    /// Rows of 64 bytes.
    Bytes64,
    /// Rows of 128 bytes.
    Bytes128,
}

impl Swizzle {
    /// Bytes of a row; 0 for none.
    pub fn row_bytes(self) -> u32 {
        match self {
            Self::None => 0,
            Self::Bytes32 => 32,
            Self::Bytes64 => 64,
            Self::Bytes128 => 128,
        }
    }

    /// Bits of an address in shared memory that change the place of a chunk of 16 bytes, moved to those that tell the chunk.
    pub fn chunk_bits(self) -> u32 {
        match self {
            Self::None => 0,
            _ => self.row_bytes() - 16,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::TensorId;

    #[test]
    fn rows_that_straddle_lines_of_l2_ask_for_no_more_than_a_line() {
        let map = |rank, stride| TensorMap {
            tensor: TensorId::at(0),
            element: MapElement::Half,
            rank,
            dims: [64, 64, 1, 0, 0],
            strides: [stride, 0, 0, 0],
            box_dims: [64, 64, 1, 0, 0],
            swizzle: Swizzle::Bytes128,
            pixels: None,
            lead: 0,
            next_line_later: true,
        };
        assert_eq!([8192, 8320, 8176, 16].map(|stride| map(2, stride).promotion()), [256, 256, 128, 128]);
        assert_eq!(map(1, 0).promotion(), 256, "a single row has no stride");
    }
}
