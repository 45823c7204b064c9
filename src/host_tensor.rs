//! Tensors in host memory.

use std::collections::BTreeMap;

use crate::graph::{DataType, TensorId};

/// A tensor's storage image in host memory: exactly the bytes a device buffer would hold, gaps of padded strides and
/// packed booleans included.
#[derive(Clone, Debug, PartialEq)]
pub struct HostTensor {
    /// Storage type.
    pub data_type: DataType,
    /// Extents.
    pub dim: Vec<i64>,
    /// Strides in elements.
    pub stride: Vec<i64>,
    /// Storage, from the first element's address to the end of the last element.
    pub bytes: Vec<u8>,
}

/// Host tensors by id, inputs or outputs of one graph.
pub type HostTensors = BTreeMap<TensorId, HostTensor>;
