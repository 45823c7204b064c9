//! Tensors from their descriptors.

use std::ops::Deref;
use std::sync::Arc;

use cudarc::cudnn::sys::cudnnBackendAttributeName_t as Name;
use cudarc::cudnn::sys::cudnnBackendTensorReordering_t as RawReordering;

use super::descriptor::{Given, Object, Referred, Values};
use super::failure::{Failure, Result};
use super::translate;
use crate::graph::{DataType, Tensor};

/// A tensor as its descriptor says; the offsets of its sequences, where it is ragged, are a descriptor of their own.
#[derive(Clone, Debug)]
pub(super) struct DescribedTensor {
    pub(super) tensor: Tensor,
    pub(super) offsets: Option<Arc<Self>>,
}

impl From<Tensor> for DescribedTensor {
    fn from(tensor: Tensor) -> Self {
        Self { tensor, offsets: None }
    }
}

impl Deref for DescribedTensor {
    type Target = Tensor;

    fn deref(&self) -> &Tensor {
        &self.tensor
    }
}

pub(super) fn data_type(given: &Given<'_>, name: Name) -> Result<DataType> {
    let number = given.enumerator(name).ok_or_else(|| Failure::bad(format!("{name:?} is not set")))?;
    translate::data_type(number)
}

/// A tensor by its descriptor ([002 9.2.16]).
pub(super) fn tensor(given: &Given<'_>) -> Result<DescribedTensor> {
    let data_type = data_type(given, Name::CUDNN_ATTR_TENSOR_DATA_TYPE)?;
    let dim = given.int64s(Name::CUDNN_ATTR_TENSOR_DIMENSIONS);
    let stride = given.int64s(Name::CUDNN_ATTR_TENSOR_STRIDES);
    let alignment = given.int64(Name::CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT).unwrap_or_default();
    if dim.len() != stride.len() {
        return Err(Failure::bad(format!("{} dimensions and {} strides", dim.len(), stride.len())));
    }
    if let Some(&value) = dim.iter().chain(&stride).find(|&&value| value <= 0) {
        return Err(Failure::bad(format!("dimensions and strides are positive; found: {value}")));
    }
    let bytes = data_type.bytes().max(1) as i64;
    if alignment <= 0 || alignment % bytes != 0 {
        return Err(Failure::bad(format!("the alignment is a multiple of {bytes} bytes; found: {alignment}")));
    }
    let vectors = given.int64(Name::CUDNN_ATTR_TENSOR_VECTOR_COUNT).unwrap_or(1);
    if vectors != 1 {
        return Err(Failure::unsupported(format!("a vector count of {vectors}; no engine takes vectorized tensors")));
    }
    let offsets = given.descriptor(Name::CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC);
    let offsets = offsets.map(|descriptor| descriptor.object::<DescribedTensor>()).transpose()?;
    if offsets.as_ref().is_some_and(|offsets| offsets.offsets.is_some()) {
        return Err(Failure::bad("the offsets of a ragged tensor are ragged themselves [GR-TENSOR-POS]"));
    }
    let reordering = given.enumerator(Name::CUDNN_ATTR_TENSOR_REORDERING_MODE).map(translate::reordering);
    let tensor = Tensor {
        uid: given.int64(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID),
        data_type: Some(data_type),
        dim,
        stride,
        alignment,
        is_virtual: given.is_set(Name::CUDNN_ATTR_TENSOR_IS_VIRTUAL),
        is_pass_by_value: given.is_set(Name::CUDNN_ATTR_TENSOR_IS_BY_VALUE),
        reordering: reordering.transpose()?.unwrap_or_default(),
        ..Tensor::default()
    };
    Ok(DescribedTensor { tensor, offsets })
}

impl Object for DescribedTensor {
    /// What an attribute is where it was not set.
    fn attribute(&self, name: Name) -> Result<Option<Values>> {
        Ok(Some(match name {
            Name::CUDNN_ATTR_TENSOR_VECTOR_COUNT => Values::Int64(vec![1]),
            Name::CUDNN_ATTR_TENSOR_VECTORIZED_DIMENSION => Values::Int64(vec![-1]),
            Name::CUDNN_ATTR_TENSOR_IS_VIRTUAL | Name::CUDNN_ATTR_TENSOR_IS_BY_VALUE => Values::Boolean(vec![false]),
            Name::CUDNN_ATTR_TENSOR_REORDERING_MODE => {
                Values::Enum(vec![RawReordering::CUDNN_TENSOR_REORDERING_NONE as u32])
            }
            _ => return Ok(None),
        }))
    }
}

impl Referred for DescribedTensor {
    const WANTED: &'static str = "a tensor descriptor";
}
