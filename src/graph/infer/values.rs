//! Rules every tensor obeys by itself, and scalars.

use crate::error::Malformed;
use crate::graph::draft::Draft;
use crate::graph::{Attributes, DataType, MAX_RANK, OperationId, Tensor, TensorId};

/// Gives host scalars of dims `[1]` the rank of the operation: that of its first input that is none, else that of its
/// result (FEJ-22).
pub(super) fn widen_scalars(draft: &mut Draft, id: OperationId) {
    let operation = &draft.operations[id.index()];
    let is_narrow = |id: &TensorId| {
        let tensor = draft.tensor(*id);
        tensor.is_pass_by_value && (tensor.dim.is_empty() || tensor.dim == [1])
    };
    let narrow: Vec<TensorId> = operation.input_tensors().filter(is_narrow).collect();
    if narrow.is_empty() {
        return;
    }
    let tensors = operation.input_tensors().filter(|id| !draft.tensor(*id).is_pass_by_value).chain(operation.result());
    let rank = tensors.map(|id| draft.tensor(id).dim.len()).find(|&rank| rank > 0).unwrap_or(1);
    for id in narrow {
        let name = draft.describe_tensor(id);
        let tensor = &mut draft.tensors[id.index()];
        if tensor.dim.len() != rank {
            draft.notes.push(format!("host scalar {name} was widened to rank {rank}"));
        }
        tensor.dim = vec![1; rank];
        tensor.stride = vec![1; rank];
    }
}

/// Checks the tensors of an operation whose dims are known; inference counts on them.
pub(super) fn check_given(draft: &Draft, id: OperationId, is_checked: &mut [bool]) -> Result<(), Malformed> {
    for tensor in tensors(draft, id) {
        if !draft.tensor(tensor).dim.is_empty() {
            check_once(draft, id, tensor, is_checked)?;
        }
    }
    Ok(())
}

/// Checks all tensors of an operation; none may lack dims or strides now.
pub(super) fn check_all(draft: &Draft, id: OperationId, is_checked: &mut [bool]) -> Result<(), Malformed> {
    for tensor in tensors(draft, id) {
        let found = draft.tensor(tensor);
        for (what, values) in [("dims", &found.dim), ("strides", &found.stride)] {
            if values.is_empty() {
                let message = format!("{what} must be given; they cannot be inferred");
                return Err(draft.fault("ATTRIBUTE_NOT_SET", id, Some(tensor), message));
            }
        }
        check_once(draft, id, tensor, is_checked)?;
    }
    Ok(())
}

fn tensors(draft: &Draft, id: OperationId) -> impl Iterator<Item = TensorId> + '_ {
    let operation = &draft.operations[id.index()];
    let tensors = operation.input_tensors().chain(operation.output_tensors());
    tensors.flat_map(|id| [Some(id), draft.tensor(id).ragged_offset]).flatten()
}

/// A tensor is checked for good once it has both dims and strides.
fn check_once(draft: &Draft, id: OperationId, tensor: TensorId, is_checked: &mut [bool]) -> Result<(), Malformed> {
    if is_checked[tensor.index()] {
        return Ok(());
    }
    let found = draft.tensor(tensor);
    let fault = |(rule, message): Defect| draft.fault(rule, id, Some(tensor), message);
    check_rank(found).map_err(fault)?;
    check_extents(found).map_err(fault)?;
    check_kind(found).map_err(fault)?;
    if found.ragged_offset.is_some_and(|offset| draft.tensor(offset).ragged_offset.is_some()) {
        return Err(fault(("GR-TENSOR-POS", "its ragged offset is ragged itself".to_owned())));
    }
    check_executed_scalar(draft, id, found).map_err(fault)?;
    is_checked[tensor.index()] = !found.stride.is_empty();
    Ok(())
}

/// Rule and message of a tensor's defect.
type Defect = (&'static str, String);

fn check_rank(tensor: &Tensor) -> Result<(), Defect> {
    let (rank, strides) = (tensor.dim.len(), tensor.stride.len());
    if rank > MAX_RANK || strides > MAX_RANK {
        return Err(("D-R6", format!("rank {}; at most {MAX_RANK} is possible", rank.max(strides))));
    }
    if strides != 0 && rank != strides {
        return Err(("GR-TENSOR-POS", format!("has {rank} dims but {strides} strides; each axis needs one of both")));
    }
    Ok(())
}

/// GR-TENSOR-POS, and sizes that a 64-bit count can hold.
fn check_extents(tensor: &Tensor) -> Result<(), Defect> {
    for (what, values) in [("dims", &tensor.dim), ("strides", &tensor.stride)] {
        if let Some(value) = values.iter().find(|&&value| value <= 0) {
            return Err(("GR-TENSOR-POS", format!("{what} {values:?} hold {value}; all must be positive")));
        }
    }
    let bits = tensor.data_type.map_or(8, DataType::bits);
    let elements = tensor.dim.iter().try_fold(1i128, |product, &extent| product.checked_mul(i128::from(extent)));
    check_bits(elements, bits).map_err(|size| {
        ("GR-TENSOR-POS", format!("dims {:?} hold {size} elements; their bits must fit 63 bits", tensor.dim))
    })?;
    let reach = |(&extent, &stride): (&i64, &i64)| i128::from(extent - 1).checked_mul(i128::from(stride));
    let span = tensor.dim.iter().zip(&tensor.stride).try_fold(1i128, |sum, axis| sum.checked_add(reach(axis)?));
    check_bits(span, bits).map_err(|size| {
        let (dim, stride) = (&tensor.dim, &tensor.stride);
        (
            "GR-TENSOR-POS",
            format!("dims {dim:?} with strides {stride:?} span {size} elements; their bits must fit 63 bits"),
        )
    })
}

/// Whether so many elements of so many bits have a size in bits below 2^63; else the count as text.
fn check_bits(elements: Option<i128>, bits: u64) -> Result<(), String> {
    let size = elements.and_then(|count| count.checked_mul(i128::from(bits)));
    match (elements, size) {
        (_, Some(size)) if size <= i128::from(i64::MAX) => Ok(()),
        (Some(elements), _) => Err(elements.to_string()),
        (None, _) => Err("over 2^127".to_owned()),
    }
}

/// Alignment (GR-TENSOR-POS) and the flags that exclude each other.
fn check_kind(tensor: &Tensor) -> Result<(), Defect> {
    if tensor.is_pass_by_value {
        // A host scalar has no pointer: no alignment applies.
        let conflict = tensor.is_virtual.then(|| ("A-59", "is both virtual and passed by value".to_owned()));
        return conflict.map_or(Ok(()), Err);
    }
    let (element, name) = tensor.data_type.map_or((1, "?"), |data_type| (element_bytes(data_type), data_type.name()));
    let alignment = tensor.alignment;
    if alignment <= 0 || alignment % element != 0 {
        let message =
            format!("alignment is {alignment} bytes; required a positive multiple of {element}, the size of {name}");
        return Err(("GR-TENSOR-POS", message));
    }
    Ok(())
}

/// Bytes of one element as alignment counts them: vectors of integers align like their members.
fn element_bytes(data_type: DataType) -> i64 {
    match data_type {
        DataType::Int8x4 | DataType::UInt8x4 | DataType::Int8x32 => 1,
        _ => data_type.bytes() as i64,
    }
}

/// where an engine could run the operation, a host scalar is one value. Carried operations may pass lists.
fn check_executed_scalar(draft: &Draft, id: OperationId, tensor: &Tensor) -> Result<(), Defect> {
    let carried = matches!(draft.operations[id.index()].attributes, Attributes::Other(_));
    if carried || !tensor.is_pass_by_value || tensor.dim.iter().all(|&extent| extent == 1) {
        return Ok(());
    }
    Err(("A-59", format!("is passed by value, but its dims are {:?}; all must be 1", tensor.dim)))
}
