//! An operand's tensor in boxes, before a tile says how large they are.

use crate::kernel::{BoxStart, GemmTile, Quantity, Swizzle, TensorMap, row_along_outer};

/// Bytes that addresses and strides are multiples of, and that strides are below (`cuTensorMapEncodeTiled`).
pub(super) const UNIT: i64 = 16;
const STRIDES_BELOW: i64 = 1 << 40;

/// Rows of a box at most.
const BOX_ROWS: u32 = 256;

/// An operand's tensor as an array of boxes, of a size that the tile decides.
#[derive(Clone, Debug)]
pub(super) struct BoxedOperand {
    /// The map without its boxes: of a matmul `[k, m or n, batch]`, or `[m or n, k, batch]` where lines do not run along k.
    pub(super) map: TensorMap,
    pub(super) start: BoxStart,
    /// Whether the operand is A.
    pub(super) is_a: bool,
    /// Whether lines of boxes run along k.
    pub(super) along_k: bool,
    /// Elements of k of a box.
    pub(super) block_k: u32,
    /// Elements of m or n that lines, or rows of boxes along k, divide, if any.
    pub(super) whole: Option<i64>,
    /// Of taps that a step multiplies together: what its boxes have of them.
    pub(super) taps: TapBoxes,
}

/// A line of a copy.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoredLine {
    /// Elements of the operand.
    pub(super) elements: i64,
    /// The same with the zeros that are stored behind them.
    pub(super) stored: i64,
}

/// What boxes have of the taps that a step multiplies together, if it does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TapBoxes {
    /// Rows beyond those of a tile: pixels that the last taps multiply.
    pub(super) rows_beyond: u32,
    /// The axis of the map along which a filter's taps lie, and their number.
    pub(super) of_filter: Option<(usize, u32)>,
}

impl BoxedOperand {
    /// Whether lines of boxes run along k.
    pub(super) fn runs_along_k(&self) -> bool {
        self.along_k
    }

    /// Whether it is a filter whose taps follow each other along k, and channels under them.
    pub(super) fn is_filter_along_k(&self) -> bool {
        self.along_k && self.map.pixels.is_none() && self.follows_taps()
    }

    fn follows_taps(&self) -> bool {
        let is_tap = |term: &(Quantity, i64)| matches!(term.0, Quantity::Tap(_) | Quantity::RotatedTap(_));
        let starts = self.start.coordinates.iter().chain(&self.start.taps);
        starts.flat_map(|start| &start.terms).any(is_tap)
    }

    /// Whether rows of boxes touch more of L2 than they have: more of its lines, or where taps say what they begin with, so that
    /// neighbours are asked for soon, of its sectors.
    pub(super) fn rows_straddle(&self) -> bool {
        const SECTOR: u64 = 32;
        match self.follows_taps() {
            true => self.map.strides[..self.map.rank - 1].iter().any(|stride| !stride.is_multiple_of(SECTOR)),
            false => !self.map.rows_are_lines(),
        }
    }

    /// The same of a tensor whose lines, where boxes reach all their elements, have zeros behind these: boxes of whole rows arrive sooner
    /// (128 rows with 20 of 32 elements of HALF inside on an H100: 660 clocks, with all 290).
    pub(super) fn with_zeros(mut self, lines: StoredLine) -> Self {
        if self.map.dims[0] == lines.elements as u64 {
            self.map.dims[0] = lines.stored as u64;
        }
        self
    }

    /// Where boxes begin.
    pub(super) fn start(&self) -> &BoxStart {
        &self.start
    }

    /// The map with the boxes of a tile: its rows by its k, or lines of m or n by its k.
    pub(super) fn at(&self, tile: GemmTile) -> TensorMap {
        let rows = if self.is_a { tile.m } else { tile.n };
        let bytes = self.map.element.bytes();
        let (row_elements, lines) =
            if self.along_k { (self.block_k, self.rows(rows)) } else { (self.line(rows, bytes), self.block_k) };
        let mut box_dims = [0; 5];
        match self.map.pixels {
            Some(_) => box_dims[..2].copy_from_slice(&[row_elements, lines + self.taps.rows_beyond]),
            None => {
                box_dims[..self.map.rank].fill(1);
                box_dims[..2].copy_from_slice(&[row_elements, lines]);
                if let Some((axis, taps)) = self.taps.of_filter {
                    box_dims[axis] = taps;
                }
            }
        }
        TensorMap { box_dims, swizzle: box_swizzle(row_elements * bytes), ..self.map }
    }

    /// The map with the boxes of a tile that is multiplied as it comes: rows and columns beyond the tensor are left out, and with them
    /// what shared memory held before, of which nothing is stored.
    pub(super) fn multiplied_at(&self, tile: GemmTile) -> TensorMap {
        let map = self.at(tile);
        let inside =
            |axis: usize, unit: u64| map.dims[axis].next_multiple_of(unit).min(map.box_dims[axis].into()) as u32;
        match self.along_k {
            // tiles of several taps follow each other at whole periods of the swizzle
            true if self.taps.of_filter.is_some() => map,
            true if map.pixels.is_none() && self.whole.is_none() => map.narrowed(1, inside(1, 1)),
            true => map,
            // a phase without taps has sums of zeros, which come from outside the filter
            false if self.lines_join_phases() => map,
            false => map.narrowed(0, inside(0, (UNIT as u64) / u64::from(map.element.bytes()))),
        }
    }

    /// The map of the last tile's boxes along m or n, where an index of the product that has so many values ends inside it.
    ///
    /// What boxes have outside the tensor are zeros that arrive from L2 for each multiprocessor by itself, which gets rows of the tensor together with its
    /// neighbours (H200, 2026-11-30: a box of 128 rows of 128 bytes takes 207 clocks, all multiprocessors asking for the same, of which 23 are inside 1290;
    /// one multiprocessor alone 207 both).
    pub(super) fn edge_at(&self, tile: GemmTile, extent: i64, dynamic: bool) -> Option<TensorMap> {
        let map = self.multiplied_at(tile);
        let rows = i64::from(if self.is_a { tile.m } else { tile.n });
        let inside = (extent - 1) % rows + 1;
        let is_ragged = extent > rows && inside < rows;
        let is_cut = self.whole.is_some() || self.taps.of_filter.is_some();
        if is_cut || !(is_ragged || dynamic) {
            return None;
        }
        match self.along_k {
            true if map.pixels.is_some() => Some(map.narrowed(1, inside as u32 + self.taps.rows_beyond)),
            true => (map.dims[1] == extent as u64).then(|| map.narrowed(1, inside as u32)),
            false => {
                let (unit, span) = (UNIT / i64::from(map.element.bytes()), i64::from(map.span()));
                let of_line = ((inside - 1) % span + 1) as u64;
                let is_matrix = map.pixels.is_none() && map.dims[0] == extent as u64;
                is_matrix.then(|| map.narrowed(0, of_line.next_multiple_of(unit as u64) as u32))
            }
        }
    }

    /// Whether lines along m or n reach from the channels of one phase of pixels to those of the next.
    fn lines_join_phases(&self) -> bool {
        self.start.coordinates[0].terms.iter().any(|(digit, _)| matches!(digit, Quantity::Phase(_)))
    }

    /// Rows of a box along k.
    fn rows(&self, rows: u32) -> u32 {
        let fits = |of_box: &u32| rows.is_multiple_of(*of_box) && self.is_whole_in(*of_box);
        match self.whole {
            Some(_) => [BOX_ROWS, 128, 64, 32].into_iter().find(fits).unwrap_or(16),
            None => rows.min(BOX_ROWS),
        }
    }

    /// Elements of a line along m or n.
    fn line(&self, rows: u32, bytes: u32) -> u32 {
        let longest = row_along_outer(rows, bytes);
        let fits = |elements: &u32| *elements <= longest && self.is_whole_in(*elements);
        [64, 32].into_iter().find(fits).unwrap_or(16)
    }

    /// Whether lines of so many elements of m or n are whole.
    pub(super) fn is_whole_in(&self, elements: u32) -> bool {
        self.whole.is_none_or(|whole| whole % i64::from(elements) == 0)
    }
}

/// The swizzle of rows of so many bytes.
pub(super) fn box_swizzle(row_bytes: u32) -> Swizzle {
    match row_bytes {
        128 => Swizzle::Bytes128,
        64 => Swizzle::Bytes64,
        32 => Swizzle::Bytes32,
        _ => Swizzle::None,
    }
}

/// Bytes from one index of an axis to the next; where it has one index any stride will do.
///
/// # Errors
/// That the tensor memory accelerator does not take it, as the end of a sentence.
pub(super) fn byte_stride(extent: i64, stride: i64, bytes: i64) -> Result<u64, String> {
    if extent == 1 {
        return Ok(UNIT as u64);
    }
    match stride * bytes {
        stride if stride % UNIT != 0 => Err(format!("steps by {stride} bytes; required: a multiple of {UNIT}")),
        stride if stride >= STRIDES_BELOW => {
            Err(format!("steps by {stride} bytes; required: less than {STRIDES_BELOW}"))
        }
        stride => Ok(stride as u64),
    }
}
