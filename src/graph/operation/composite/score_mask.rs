//! The mask of an attention's scores: padding, a band around a diagonal, and blocks (`docs/spec/attention.md` AT-O3, AT-O5, AT-O11).
//!
//! A score in row `r` and column `c` of `[b, h, s_q, s_kv]` stays where
//! `r < SEQ_LEN_Q` and `c < SEQ_LEN_KV` (where there are lengths), `c ≤ r + δ + R` (where there is a right bound R) and
//! `c > r + δ − L` (where there is a left bound L), and is −∞ elsewhere, whatever it was. δ is 0, or `SEQ_LEN_KV − SEQ_LEN_Q` where the
//! diagonal ends in the bottom right corner. A bound may come with each execution, as a host scalar that is added to the attribute.
//! Where there is a mask of blocks, a score also has to lie in one of its tiles of 128 rows by 128 columns whose bit is set.

use serde_json::{Value, json};

use super::{Definition, Expansion, KeptAttributes, Pointwise, Port};
use crate::graph::infer::{Layout, Node, Ports};
use crate::graph::key::Bytes;
use crate::graph::{DataType, Malformed, PointwiseMode, TensorId};

/// Attributes of a mask. Where no lengths are given the band starts in the top left corner: a constant δ is part of the bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScoreMask {
    /// L: keys of a row's window, its own included. Nothing counts as 0 where the port is in use.
    pub left_bound: Option<i64>,
    /// R: keys behind the diagonal that a row sees; 0 for causal attention. Nothing counts as 0 where the port is in use.
    pub right_bound: Option<i64>,
    /// Whether the diagonal ends where the sequences end, which the lengths tell.
    pub is_bottom_right: bool,
}

/// Rows and columns of scores.
const ROWS: usize = 2;
const COLUMNS: usize = 3;

const ALIGNMENT: &str = "diagonal_alignment";
const BOTTOM_RIGHT: &str = "BOTTOM_RIGHT";
const LEFT: &str = "left_bound";
const RIGHT: &str = "right_bound";

impl ScoreMask {
    /// Tag in graph files: ours, as the library writes none.
    const TAG: &str = "SCORE_MASK";

    /// Lengths of the sequences, of each batch.
    pub const LENGTHS: &[Port] = &[Port::SEQ_LEN_Q, Port::SEQ_LEN_KV];

    /// Bounds that each execution gives, as host scalars: L and R are these and the attributes, added up.
    pub const BOUNDS: &[Port] = &[Port::LEFT_BOUND, Port::RIGHT_BOUND];

    const OPTIONAL: &[Port] =
        &[Port::SEQ_LEN_Q, Port::SEQ_LEN_KV, Port::LEFT_BOUND, Port::RIGHT_BOUND, Port::BLOCK_MASK];

    /// Rows, and columns, of a tile that a bit of a block mask keeps.
    pub const TILE: i64 = 128;

    /// Tiles side by side whose bits a byte of a block mask has.
    pub const TILES_OF_BYTE: i64 = 8;

    /// Extents of the block mask of scores: a bit for each tile, eight of a row to the byte.
    pub(crate) fn block_mask_dim(&[batches, heads, queries, keys]: &[i64; 4]) -> [i64; 4] {
        let tiles = |extent: i64| extent.div_euclid(Self::TILE) + i64::from(extent % Self::TILE != 0);
        [batches, heads, tiles(queries), (tiles(keys) + Self::TILES_OF_BYTE - 1) / Self::TILES_OF_BYTE]
    }

    /// What the block mask of an operation has to be, where it has one: bytes, of the extents that scores ask for (AT-E19).
    pub(in crate::graph) fn check_block_mask(node: &Node, scores: &[i64; 4]) -> Result<(), Malformed> {
        const RULE: &str = "AT-E19";
        let Some(mask) = node.tensor(Port::BLOCK_MASK) else { return Ok(()) };
        if mask.data_type != Some(DataType::UInt8) {
            let found = mask.data_type.map_or("none", DataType::name);
            return Err(node.fault_at(RULE, Port::BLOCK_MASK, format!("data type {found}; required UINT8")));
        }
        let reason = format!(
            "a bit for each tile of {0} by {0} of the scores {scores:?}, {1} of a row to the byte",
            Self::TILE,
            Self::TILES_OF_BYTE
        );
        node.require_dim(RULE, Port::BLOCK_MASK, &Self::block_mask_dim(scores), &reason)
    }

    pub(super) fn read(tag: &str, attributes: &KeptAttributes) -> Option<Self> {
        (tag == Self::TAG).then(|| Self::of(attributes))
    }

    /// The mask that attributes of any operation say.
    pub(super) fn of(attributes: &KeptAttributes) -> Self {
        let integer = |key: &str| attributes.get(key).and_then(Value::as_i64);
        Self {
            left_bound: integer(LEFT),
            right_bound: integer(RIGHT),
            is_bottom_right: attributes.get(ALIGNMENT).and_then(Value::as_str) == Some(BOTTOM_RIGHT),
        }
    }

    /// The mask with numbers added to its bounds, which are whole: what lies between columns is none.
    #[cfg(feature = "reference")]
    pub(crate) fn moved(self, left: Option<f64>, right: Option<f64>) -> Self {
        let sum = |bound: Option<i64>, more: Option<f64>| match more {
            Some(more) => Some(bound.unwrap_or(0).saturating_add(more as i64)),
            None => bound,
        };
        Self {
            left_bound: sum(self.left_bound, left.map(f64::ceil)),
            right_bound: sum(self.right_bound, right.map(f64::floor)),
            ..self
        }
    }

    /// Lengths that a diagonal in the bottom right corner needs, and bounds that are numbers.
    pub(super) fn check_bounds(self, node: &Node) -> Result<(), Malformed> {
        if self.is_bottom_right && node.tensor(Port::SEQ_LEN_KV).is_none() {
            return Err(node.fault("AT-E9", "required are the lengths of both sequences, SEQ_LEN_Q and SEQ_LEN_KV"));
        }
        for &port in Self::BOUNDS {
            let Some(bound) = node.tensor(port) else { continue };
            let is_number = bound.is_pass_by_value && bound.dim.iter().all(|&extent| extent == 1);
            let is_whole = matches!(bound.data_type, Some(DataType::Int32 | DataType::Int64 | DataType::Float));
            if !is_number || !is_whole {
                let message = "required is one number by value, INT32 or FLOAT";
                return Err(node.fault_at("AT-E12", port, message));
            }
        }
        Ok(())
    }

    /// Whether a row of the extents of X lies within its sequence, where lengths are given.
    pub(super) fn rows_inside(expansion: &mut Expansion, x: TensorId) -> Option<TensorId> {
        let queries = expansion.input(Port::SEQ_LEN_Q)?;
        let row = index(expansion, x, ROWS);
        Some(expansion.pointwise(PointwiseMode::CmpLt, &[row, queries]))
    }

    /// Whether each of the scores X is kept; nothing where all are.
    pub(super) fn kept(self, expansion: &mut Expansion, x: TensorId) -> Option<TensorId> {
        use PointwiseMode as M;
        let (row, column) = (index(expansion, x, ROWS), index(expansion, x, COLUMNS));
        let lengths = expansion.input(Port::SEQ_LEN_Q).zip(expansion.input(Port::SEQ_LEN_KV));
        let mut kept: Vec<TensorId> = Vec::new();
        let mut diagonal = row;
        if let Some((queries, keys)) = lengths {
            kept.push(expansion.pointwise(M::CmpLt, &[row, queries]));
            kept.push(expansion.pointwise(M::CmpLt, &[column, keys]));
            if self.is_bottom_right {
                let shift = expansion.pointwise(M::Sub, &[keys, queries]);
                diagonal = expansion.pointwise(M::Add, &[row, shift]);
            }
        }
        let moved = |expansion: &mut Expansion, fixed: Option<i64>, port: Port, sign: i64| {
            let given = expansion.input(port);
            if fixed.is_none() && given.is_none() {
                return None;
            }
            let fixed = expansion.constant((sign * fixed.unwrap_or(0)) as f64, 4);
            let moved = expansion.pointwise(M::Add, &[diagonal, fixed]);
            let mode = if sign < 0 { M::Sub } else { M::Add };
            Some(given.map_or(moved, |given| expansion.pointwise(mode, &[moved, given])))
        };
        if let Some(last) = moved(expansion, self.right_bound, Port::RIGHT_BOUND, 1) {
            kept.push(expansion.pointwise(M::CmpLe, &[column, last]));
        }
        if let Some(before) = moved(expansion, self.left_bound, Port::LEFT_BOUND, -1) {
            kept.push(expansion.pointwise(M::CmpGt, &[column, before]));
        }
        if let Some(mask) = expansion.input(Port::BLOCK_MASK) {
            let dim = expansion.dim(x).to_vec();
            kept.push(expansion.block_bits(mask, dim));
        }
        kept.into_iter().reduce(|one, other| expansion.pointwise(M::LogicalAnd, &[one, other]))
    }
}

/// The index of an element of X along an axis.
pub(super) fn index(expansion: &mut Expansion, x: TensorId, axis: usize) -> TensorId {
    let attributes = Pointwise { axis: Some(axis as i64), ..Pointwise::new(PointwiseMode::GenIndex) };
    expansion.pointwise_with(attributes, &[x])
}

impl Definition for ScoreMask {
    fn tag(&self) -> &'static str {
        Self::TAG
    }

    fn ports(&self) -> Ports {
        ([&[Port::X], Self::OPTIONAL], [&[Port::Y], &[]])
    }

    fn attributes(&self) -> KeptAttributes {
        let bounds = [(LEFT, self.left_bound), (RIGHT, self.right_bound)];
        let bounds = bounds.into_iter().filter_map(|(key, bound)| Some((key.to_owned(), json!(bound?))));
        let alignment = self.is_bottom_right.then(|| (ALIGNMENT.to_owned(), json!(BOTTOM_RIGHT)));
        bounds.chain(alignment).collect()
    }

    fn key_bytes(&self, bytes: &mut Bytes) {
        for bound in [self.left_bound, self.right_bound] {
            bytes.flag(bound.is_some());
            bytes.integer(bound.unwrap_or(0));
        }
        bytes.flag(self.is_bottom_right);
    }

    fn texts(&self) -> Vec<String> {
        self.attributes()
            .into_iter()
            .map(|(key, value)| format!("{key}={}", value.to_string().replace('"', "")))
            .collect()
    }

    fn default_type(&self, port: Port) -> Option<DataType> {
        match port {
            Port::BLOCK_MASK => Some(DataType::UInt8),
            port => Self::LENGTHS.contains(&port).then_some(DataType::Int32),
        }
    }

    fn infer(&self, node: &mut Node) -> Result<(), Malformed> {
        let (dim, order) = (node.dim(Port::X)?.to_vec(), Layout::OrderOf(node.stride(Port::X)?.to_vec()));
        node.complete(Port::Y, dim, &order);
        Ok(())
    }

    fn check(&self, node: &Node) -> Result<(), Malformed> {
        const RULE: &str = "AT-O3";
        let x = node.dim(Port::X)?;
        let &[batches, heads, queries, keys] = x else {
            let message = format!("dims {x:?}; required batch, heads, queries and keys");
            return Err(node.fault_at(RULE, Port::X, message));
        };
        node.require_dim(RULE, Port::Y, x, "those of X")?;
        let given = Self::LENGTHS.iter().filter(|&&port| node.tensor(port).is_some()).count();
        if given == 1 {
            return Err(node.fault("AT-E9", "required are the lengths of both sequences, SEQ_LEN_Q and SEQ_LEN_KV"));
        }
        for &port in Self::LENGTHS.iter().take(given) {
            node.require_dim("AT-E9", port, &[x[0], 1, 1, 1], "one length for each batch")?;
        }
        Self::check_block_mask(node, &[batches, heads, queries, keys])?;
        self.check_bounds(node)
    }

    fn define(&self, expansion: &mut Expansion) {
        use PointwiseMode as M;
        let [x] = expansion.required();
        match self.kept(expansion, x) {
            Some(kept) => {
                let nothing = expansion.constant(f64::NEG_INFINITY, 4);
                expansion.result(Port::Y, M::BinarySelect, &[x, nothing, kept]);
            }
            None => expansion.result(Port::Y, M::Identity, &[x]),
        }
    }
}
