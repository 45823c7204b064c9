//! Tensors of an operation graph.

use super::DataType;

/// A tensor of a [`Graph`](super::Graph), in the order in which tensors were added to it.
///
/// Finalizing puts tensors in another order, so that a handle names none of the finalized graph's:
/// [`FinalizedGraph::id_of`](super::FinalizedGraph::id_of) says which it became, and
/// [`uid_of`](super::FinalizedGraph::uid_of) its key in the variant pack.
///
/// ```compile_fail,E0308
/// use fusewright::graph::{DataType, Graph, PointwiseMode, Tensor};
///
/// let mut graph = Graph::new().io_data_type(DataType::Float).compute_data_type(DataType::Float);
/// let x = graph.tensor(Tensor::new("x").row_major([4, 4]));
/// let y = graph.pointwise("abs", PointwiseMode::Abs, &[x]);
/// graph.set_output(y);
/// graph.finalize()?.tensor(y);
/// # Ok::<(), fusewright::error::Malformed>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorHandle(pub(super) u32);

impl TensorHandle {
    /// The tensor at a position in the graph's list; `None` beyond 2^32.
    pub(crate) fn at(index: usize) -> Option<Self> {
        u32::try_from(index).ok().map(Self)
    }

    /// Position in the graph's list of tensors.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A tensor of a [`FinalizedGraph`](super::FinalizedGraph), by its place in canonical order: the same in all graphs of one
/// key, and never a caller's uid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorId(pub(super) u32);

impl TensorId {
    /// The tensor at a position in canonical order, whatever the graph.
    pub(crate) const fn at(index: u32) -> Self {
        Self(index)
    }

    /// Position in canonical order.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// The tensor in the description of its graph that [`FinalizedGraph::to_graph`](super::FinalizedGraph::to_graph) gives.
    pub fn handle(self) -> TensorHandle {
        TensorHandle(self.0)
    }
}

/// How the elements of a tensor are reordered for special kernels (`reordering_type` in graph files).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reordering {
    /// As dims and strides say.
    #[default]
    None,
    /// `INT8x32`.
    Int8x32,
    /// `F16x16`.
    F16x16,
    /// `F8_128x4`.
    F8_128x4,
}

impl Reordering {
    /// Spelling in graph files.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "NONE",
            Self::Int8x32 => "INT8x32",
            Self::F16x16 => "F16x16",
            Self::F8_128x4 => "F8_128x4",
        }
    }

    /// The reordering with this exact spelling.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::None, Self::Int8x32, Self::F16x16, Self::F8_128x4].into_iter().find(|r| r.name() == name)
    }
}

/// Value of a host scalar known when the graph is built.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// Of a floating type; `HALF` and `BFLOAT16` widened.
    Float(f64),
    /// Of an integer type.
    Integer(i64),
}

impl Scalar {
    /// The value as a double; integers beyond 2^53 round.
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Float(value) => value,
            Self::Integer(value) => value as f64,
        }
    }

    /// The value as a tensor of this type has it: of integer types to the nearest, ties to even, as far as they reach, of `BOOLEAN` whether it is not
    /// 0 (A-29, A-05), of floating types but `DOUBLE` as a `float`.
    #[must_use]
    pub fn of_type(self, data_type: DataType) -> Self {
        let within = |low: i64, high: i64| {
            Self::Integer(match self {
                Self::Float(value) => (value.round_ties_even() as i64).clamp(low, high),
                Self::Integer(value) => value.clamp(low, high),
            })
        };
        match data_type {
            DataType::Int8 => within(i8::MIN.into(), i8::MAX.into()),
            DataType::UInt8 => within(0, u8::MAX.into()),
            DataType::Int32 => within(i32::MIN.into(), i32::MAX.into()),
            DataType::Int64 => within(i64::MIN, i64::MAX),
            DataType::Boolean | DataType::ByteBoolean => Self::Integer((self.as_f64() != 0.0).into()),
            DataType::Double => Self::Float(self.as_f64()),
            _ if data_type.is_floating() => Self::Float(f64::from(self.as_f64() as f32)),
            _ => self,
        }
    }
}

/// Byte alignment of tensor pointers unless a graph says otherwise.
pub const DEFAULT_ALIGNMENT: i64 = 16;

/// A tensor as its author describes it: what is `None` or empty is completed by [`super::Graph::finalize`].
///
/// `dim` and `stride` have one entry per axis, strides counted in elements.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Free text for messages; may be empty and need not be unique.
    pub name: String,
    /// The caller's name for the tensor in the variant pack; assigned on finalize where absent.
    pub uid: Option<i64>,
    /// Storage type; taken from the graph's context where absent.
    pub data_type: Option<DataType>,
    /// Extents; empty means "infer".
    pub dim: Vec<i64>,
    /// Strides in elements; empty means "infer".
    pub stride: Vec<i64>,
    /// Transient: produced and consumed inside the graph, never in device memory.
    pub is_virtual: bool,
    /// Host scalar passed by value.
    pub is_pass_by_value: bool,
    /// Value of a host scalar, where known at build time.
    pub value: Option<Scalar>,
    /// Element reordering.
    pub reordering: Reordering,
    /// Guaranteed alignment of the pointer, in bytes.
    pub alignment: i64,
    /// Offsets of a ragged tensor.
    pub ragged_offset: Option<TensorHandle>,
    /// What the ragged offsets are multiplied with.
    pub ragged_offset_multiplier: i64,
}

impl Default for Tensor {
    fn default() -> Self {
        Self {
            name: String::new(),
            uid: None,
            data_type: None,
            dim: Vec::new(),
            stride: Vec::new(),
            is_virtual: false,
            is_pass_by_value: false,
            value: None,
            reordering: Reordering::None,
            alignment: DEFAULT_ALIGNMENT,
            ragged_offset: None,
            ragged_offset_multiplier: 1,
        }
    }
}

impl Tensor {
    /// A non-virtual tensor with this name and nothing else set.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// A host scalar of this type and value, with dims and strides `[1]`; finalize widens it to its node's rank.
    pub fn scalar(name: impl Into<String>, data_type: DataType, value: Scalar) -> Self {
        Self {
            data_type: Some(data_type),
            dim: vec![1],
            stride: vec![1],
            is_pass_by_value: true,
            value: Some(value),
            ..Self::new(name)
        }
    }

    /// Sets the extents.
    pub fn dim(mut self, dim: impl Into<Vec<i64>>) -> Self {
        self.dim = dim.into();
        self
    }

    /// Sets the strides, in elements.
    pub fn stride(mut self, stride: impl Into<Vec<i64>>) -> Self {
        self.stride = stride.into();
        self
    }

    /// Sets extents and row-major (last axis contiguous) packed strides.
    pub fn row_major(self, dim: impl Into<Vec<i64>>) -> Self {
        let dim = dim.into();
        let stride = packed_strides(&dim, &row_major_order(dim.len()));
        self.dim(dim).stride(stride)
    }

    /// Sets extents and channels-last packed strides: axis 1 contiguous, then the last axis inwards, axis 0 slowest.
    pub fn channels_last(self, dim: impl Into<Vec<i64>>) -> Self {
        let dim = dim.into();
        let stride = packed_strides(&dim, &channels_last_order(dim.len()));
        self.dim(dim).stride(stride)
    }

    /// Sets the storage type.
    pub fn data_type(mut self, data_type: DataType) -> Self {
        self.data_type = Some(data_type);
        self
    }

    /// Sets the uid.
    pub fn uid(mut self, uid: i64) -> Self {
        self.uid = Some(uid);
        self
    }

    /// Sets the guaranteed pointer alignment, in bytes.
    pub fn alignment(mut self, bytes: i64) -> Self {
        self.alignment = bytes;
        self
    }
}

/// Axes from fastest to slowest, last axis fastest.
pub(crate) fn row_major_order(rank: usize) -> Vec<usize> {
    (0..rank).rev().collect()
}

/// Axes from fastest to slowest: 1, then rank−1 down to 2, then 0 ("NHWC-packed" of any rank).
pub(crate) fn channels_last_order(rank: usize) -> Vec<usize> {
    let inner = (rank > 1).then_some(1);
    inner.into_iter().chain((2..rank).rev()).chain((rank > 0).then_some(0)).collect()
}

/// Packed strides of `dim` with axes laid out in `order` (fastest first). Saturates instead of overflowing;
/// finalize refuses such extents.
pub(crate) fn packed_strides(dim: &[i64], order: &[usize]) -> Vec<i64> {
    let mut stride = vec![1; dim.len()];
    let mut step = 1i64;
    for &axis in order {
        stride[axis] = step;
        step = step.saturating_mul(dim[axis].max(1));
    }
    stride
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_layouts() {
        assert_eq!(Tensor::new("x").row_major([2, 3, 4]).stride, [12, 4, 1]);
        assert_eq!(Tensor::new("x").channels_last([4, 32, 16, 16]).stride, [8192, 1, 512, 32]);
        assert_eq!(Tensor::new("x").channels_last([1, 32, 1, 1]).stride, [32, 1, 32, 32]);
    }

    #[test]
    fn a_value_is_what_its_type_has_of_it() {
        let of = |value, data_type| Scalar::Float(value).of_type(data_type);
        for (value, data_type, expected) in [
            (-2.5, DataType::Int32, -2),
            (f64::NEG_INFINITY, DataType::UInt8, 0),
            (300.0, DataType::Int8, 127),
            (f64::NAN, DataType::Int64, 0),
            (0.25, DataType::Boolean, 1),
        ] {
            assert_eq!(of(value, data_type), Scalar::Integer(expected), "{value} as {data_type}");
        }
        assert_eq!(Scalar::Integer(i64::MIN).of_type(DataType::UInt8), Scalar::Integer(0));
        assert_eq!(Scalar::Integer(3).of_type(DataType::Half), Scalar::Float(3.0));
        assert_eq!(of(1.0 + 1e-12, DataType::Float), Scalar::Float(1.0));
        assert_eq!(of(0.1, DataType::Double), Scalar::Float(0.1));
    }
}
