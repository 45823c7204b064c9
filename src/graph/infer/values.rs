//! Rules every tensor obeys by itself, and scalars.

use crate::graph::Malformed;
use crate::graph::defects::{Defects, repair};
use crate::graph::draft::Draft;
use crate::graph::{Attributes, DataType, MAX_RANK, OperationId, Port, Tensor, TensorId};

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

/// Checks what is known of an operation's tensors; inference counts on it. Inputs must be complete by now, save those
/// of carried operations, and parameters that follow from X.
pub(super) fn check_given(draft: &mut Draft, id: OperationId, is_checked: &mut [bool], defects: &mut Defects) {
    let operation = &draft.operations[id.index()];
    let follows = |port: Port| match &operation.attributes {
        Attributes::Composite(composite) => composite.definition().infers(port),
        _ => false,
    };
    if !matches!(operation.attributes, Attributes::Other(_)) {
        let given = operation.inputs.iter().filter(|slot| !follows(slot.0));
        let inputs: Vec<TensorId> = given.map(|slot| slot.1).collect();
        inputs.into_iter().for_each(|tensor| check_tensor(draft, id, tensor, defects, require_complete));
    }
    for tensor in tensors(draft, id) {
        if !draft.tensor(tensor).dim.is_empty() {
            check_tensor(draft, id, tensor, defects, |draft, id, tensor| check_once(draft, id, tensor, is_checked));
        }
    }
}

/// Holds a tensor that is beyond doubt to a rule. One that breaks it is repaired, or doubted.
fn check_tensor(
    draft: &mut Draft,
    id: OperationId,
    tensor: TensorId,
    defects: &mut Defects,
    rule: impl FnOnce(&Draft, OperationId, TensorId) -> Result<(), Malformed>,
) {
    if !defects.is_suspect(tensor) && defects.note(rule(draft, id, tensor)).is_none() {
        repair(draft, tensor, defects);
    }
}

/// Checks all tensors of an operation; none may lack dims or strides now.
pub(super) fn check_all(draft: &mut Draft, id: OperationId, is_checked: &mut [bool], defects: &mut Defects) {
    for tensor in tensors(draft, id) {
        check_tensor(draft, id, tensor, defects, require_complete);
        check_tensor(draft, id, tensor, defects, |draft, id, tensor| check_once(draft, id, tensor, is_checked));
    }
}

fn require_complete(draft: &Draft, id: OperationId, tensor: TensorId) -> Result<(), Malformed> {
    let found = draft.tensor(tensor);
    for (what, values) in [("dims", &found.dim), ("strides", &found.stride)] {
        if values.is_empty() {
            let message = format!("{what} must be given; they cannot be inferred");
            return Err(draft.fault("ATTRIBUTE_NOT_SET", id, Some(tensor), message));
        }
    }
    Ok(())
}

fn tensors(draft: &Draft, id: OperationId) -> Vec<TensorId> {
    let operation = &draft.operations[id.index()];
    let tensors = operation.input_tensors().chain(operation.output_tensors());
    tensors.flat_map(|id| [Some(id), draft.ragged_offset(id)]).flatten().collect()
}

/// What does not depend on the operation is checked no more once a tensor has both dims and strides.
fn check_once(draft: &Draft, id: OperationId, tensor: TensorId, is_checked: &mut [bool]) -> Result<(), Malformed> {
    let found = draft.tensor(tensor);
    let fault = |(rule, message): Defect| draft.fault(rule, id, Some(tensor), message);
    check_executed_scalar(draft, id, found).map_err(fault)?;
    if is_checked[tensor.index()] {
        return Ok(());
    }
    // Told once, whether it holds or not.
    is_checked[tensor.index()] = !found.stride.is_empty();
    check_rank(found).map_err(fault)?;
    check_extents(found).map_err(fault)?;
    check_alignment(found).map_err(fault)?;
    if draft.ragged_offset(tensor).is_some_and(|offset| draft.ragged_offset(offset).is_some()) {
        return Err(fault(("GR-TENSOR-POS", "its ragged offset is ragged itself".to_owned())));
    }
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
        return Err(("GR-TENSOR-POS", format!("has {rank} dims but {strides} strides; each axis needs one of each")));
    }
    Ok(())
}

/// GR-TENSOR-POS, and sizes that a 64-bit count can hold.
fn check_extents(tensor: &Tensor) -> Result<(), Defect> {
    for (what, values) in [("dims", &tensor.dim), ("strides", &tensor.stride)] {
        if let Some(value) = values.iter().find(|&&value| value <= 0) {
            let advice = if what == "strides" && *value == 0 {
                "; an axis is broadcast by extent 1, not by stride 0"
            } else {
                ""
            };
            return Err(("GR-TENSOR-POS", format!("{what} {values:?} hold {value}; all must be positive{advice}")));
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

/// A positive multiple of the element size (GR-TENSOR-POS).
fn check_alignment(tensor: &Tensor) -> Result<(), Defect> {
    if tensor.is_pass_by_value {
        // A host scalar has no pointer.
        return Ok(());
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

#[cfg(test)]
mod tests {
    use crate::graph::samples::{half_graph, input, other, refusal, shape_of};
    use crate::graph::{Attributes, DataType, Graph, Other, PointwiseMode, Scalar, Tensor};

    /// `abs` of one tensor, whose result must be described like its input.
    fn abs_of(tensor: Tensor) -> Graph {
        let mut graph = half_graph();
        let x = graph.tensor(tensor);
        let y = graph.pointwise("abs", PointwiseMode::Abs, &[x]);
        graph.set_output(y);
        graph
    }

    fn message_of(tensor: Tensor) -> String {
        refusal(&abs_of(tensor))
    }

    #[test]
    fn ranks() {
        abs_of(Tensor::new("x").row_major([1; 8])).finalize().unwrap();
        assert!(message_of(Tensor::new("x").row_major([1; 9])).contains("'x': rank 9; at most 8 is possible [D-R6]"));
        let uneven = message_of(Tensor::new("x").dim([2, 3]).stride([1]));
        assert!(uneven.contains("'x': has 2 dims but 1 strides"), "{uneven}");
        assert!(message_of(Tensor::new("x")).contains("dims must be given"));
        assert!(message_of(Tensor::new("x").dim([2])).contains("strides must be given"));
    }

    #[test]
    fn dims_and_strides_are_positive() {
        const NO_STRIDE: &str = "; an axis is broadcast by extent 1, not by stride 0";
        for (dim, stride, advice) in
            [([0, 3], [3, 1], ""), ([2, -3], [3, 1], ""), ([2, 3], [0, 1], NO_STRIDE), ([2, 3], [3, i64::MIN], "")]
        {
            let message = message_of(Tensor::new("x").dim(dim).stride(stride));
            assert!(message.ends_with(&format!("all must be positive{advice} [GR-TENSOR-POS]")), "{message}");
        }
    }

    #[test]
    fn sizes_fit_sixty_three_bits() {
        let largest = i64::MAX / 16;
        abs_of(Tensor::new("x").row_major([largest])).finalize().unwrap();
        let message = message_of(Tensor::new("x").row_major([largest + 1]));
        assert!(message.contains(&format!("hold {} elements; their bits must fit 63 bits", largest + 1)), "{message}");
        let message = message_of(Tensor::new("x").row_major([1 << 40, 1 << 40]));
        assert!(message.contains("hold 1208925819614629174706176 elements"), "{message}");
        let message = message_of(Tensor::new("x").row_major([i64::MAX; 8]));
        assert!(message.contains("hold over 2^127 elements"), "{message}");
        let message = message_of(Tensor::new("x").dim([2, 2]).stride([i64::MAX, 1]));
        assert!(message.contains("span 9223372036854775809 elements"), "{message}");
        abs_of(Tensor::new("x").dim([1, 2]).stride([i64::MAX, 1])).finalize().unwrap();
    }

    #[test]
    fn inferred_sizes_are_checked_as_well() {
        let mut graph = half_graph();
        let column = graph.tensor(Tensor::new("column").dim([1 << 32, 1]).stride([1, 1]));
        let row = graph.tensor(Tensor::new("row").dim([1, 1 << 32]).stride([1, 1]));
        let y = graph.matmul("outer", column, row);
        graph.set_output(y);
        let message = refusal(&graph);
        assert!(
            message.contains("'outer::C': dims [4294967296, 4294967296] hold 18446744073709551616 elements"),
            "{message}"
        );
    }

    #[test]
    fn alignment_is_a_multiple_of_the_element() {
        let with = |data_type, alignment| Tensor::new("x").row_major([8]).data_type(data_type).alignment(alignment);
        for (data_type, alignment) in
            [(DataType::Half, 2), (DataType::Float, 12), (DataType::Boolean, 1), (DataType::Int8x32, 16)]
        {
            abs_of(with(data_type, alignment)).finalize().unwrap();
        }
        for (data_type, alignment) in
            [(DataType::Half, 1), (DataType::Float, 6), (DataType::Int8, 0), (DataType::Int64, -8)]
        {
            let message = message_of(with(data_type, alignment));
            assert!(
                message.contains(&format!("alignment is {alignment} bytes; required a positive multiple of")),
                "{message}"
            );
        }
    }

    #[test]
    fn host_scalars_take_the_rank_of_the_operation() {
        let mut graph = half_graph();
        let scale = graph.tensor(Tensor::scalar("scale", DataType::Float, Scalar::Float(2.0)).alignment(1));
        let x = input(&mut graph, "x", &[2, 3, 4]);
        let y = graph.pointwise("mul", PointwiseMode::Mul, &[scale, x]);
        graph.set_output(y);
        let finalized = graph.finalize().unwrap();
        assert_eq!(shape_of(&finalized, "scale"), (&[1, 1, 1][..], &[1, 1, 1][..]));
        assert_eq!(shape_of(&finalized, "mul::OUT_0"), (&[2, 3, 4][..], &[12, 4, 1][..]));
        assert_eq!(finalized.notes()[0], "host scalar 'scale' was widened to rank 3");
    }

    #[test]
    fn scalars_alone_take_the_rank_of_the_result() {
        let mut graph = half_graph();
        let scalars = ["a", "b"].map(|name| graph.tensor(Tensor::scalar(name, DataType::Float, Scalar::Float(2.0))));
        let y = graph.pointwise("mul", PointwiseMode::Mul, &scalars);
        *graph.set_output(y) = Tensor::new("y").row_major([1, 1]);
        assert_eq!(shape_of(&graph.finalize().unwrap(), "b").0, [1, 1]);
    }

    #[test]
    fn host_scalars_hold_one_value() {
        let list = Tensor { is_pass_by_value: true, ..Tensor::new("x").row_major([2]) };
        assert!(message_of(list.clone()).contains("is passed by value, but its dims are [2]; all must be 1 [A-59]"));
        let mut graph = abs_of(list);
        let scalar = graph.operations[0].inputs[0].1;
        other(
            &mut graph,
            Attributes::Other(Other { tag: "ROPE", attributes: [].into() }),
            &[("INPUT", scalar)],
            &["OUTPUT"],
        );
        graph.operations.reverse();
        assert!(refusal(&graph).ends_with("[A-59]"));
    }

    #[test]
    fn ragged_offsets_are_complete_and_plain() {
        let ragged = |offset: Tensor| {
            let mut graph = half_graph();
            let offset = graph.tensor(offset);
            let x = graph.tensor(Tensor { ragged_offset: Some(offset), ..Tensor::new("x").row_major([4, 2]) });
            let y = graph.pointwise("abs", PointwiseMode::Abs, &[x]);
            graph.set_output(y);
            graph
        };
        let offset = Tensor::new("offset").data_type(DataType::Int32).row_major([5, 1]);
        let finalized = ragged(offset.clone()).finalize().unwrap();
        let x = finalized.tensors().next().unwrap();
        assert_eq!(x.ragged_offset.map(|id| finalized.tensor(id).name.as_str()), Some("offset"));
        assert!(
            finalized.text().contains("t0 = input HALF [4, 2] stride [2, 1] ragged t1 * 1\nt1 = input INT32 [5, 1]")
        );
        assert!(refusal(&ragged(Tensor::new("offset"))).contains("'offset': dims must be given"));
        let mut circular = ragged(offset);
        circular.tensors[0].ragged_offset = circular.operations[0].inputs.first().map(|slot| slot.1);
        assert!(refusal(&circular).contains("its ragged offset is ragged itself"));
    }
}
