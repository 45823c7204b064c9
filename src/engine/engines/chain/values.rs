//! The graph of a chain in primitive operations, with operands of products that engines take.

use std::collections::BTreeSet;

use crate::graph::{
    Attributes, DEFAULT_ALIGNMENT, DataType, FinalTensor, FinalizedGraph, Matmul, Operation, OperationId, Pointwise,
    PointwiseMode, Port, Reordering, Scalar, TensorId, packed_strides,
};

/// The graph in primitive operations. What products read and write in memory lies as one line of matrices: what does not is copied, by operations
/// of their own, and rows of values beyond a length are zeros, as their terms are left out.
///
/// # Errors
/// Which operation no part would compute, as a sentence.
pub(super) fn of_primitives(graph: &FinalizedGraph) -> Result<FinalizedGraph, String> {
    let whole = graph.expand_in(DataType::Float);
    let mut builder = Builder { whole: &whole, tensors: whole.tensors().cloned().collect(), operations: Vec::new() };
    for id in whole.operation_ids() {
        let operation = whole.operation(id).clone();
        match operation.attributes {
            Attributes::Matmul(_) => builder.push_product(id, operation)?,
            _ => builder.operations.push(operation),
        }
    }
    // where elements lie is ours to say, of what is reordered too (AT-L14)
    builder.tensors.iter_mut().for_each(|tensor| tensor.reordering = Reordering::None);
    let Builder { tensors, operations, .. } = builder;
    Ok(whole.in_parts(tensors, operations))
}

/// The matrices of a tensor of four axes as one line of them: extents and strides of three axes; `None` where they lie otherwise.
pub(super) fn matrices(dim: &[i64], stride: &[i64]) -> Option<[[i64; 3]; 2]> {
    let (&[batches, heads, rows, columns], &[of_batch, of_head, of_row, of_column]) = (dim, stride) else {
        return None;
    };
    let of_matrix = match (batches, heads) {
        (_, 1) => of_batch,
        (1, _) => of_head,
        _ if of_batch == of_head * heads => of_head,
        _ => return None,
    };
    Some([[batches * heads, rows, columns], [of_matrix, of_row, of_column]])
}

struct Builder<'a> {
    whole: &'a FinalizedGraph,
    tensors: Vec<FinalTensor>,
    operations: Vec<Operation>,
}

impl Builder<'_> {
    fn push_product(&mut self, id: OperationId, mut product: Operation) -> Result<(), String> {
        let [a, b, c] = operands(&product)?;
        let place = self.whole.describe_operation(id);
        self.has_whole_batches([a, b, c]).map_err(|reason| format!("no kernels for {place}: {reason}"))?;
        let length = product.input(Port::K_OVERRIDE);
        let others: BTreeSet<&str> = product.inputs.iter().map(|slot| slot.0.0).collect();
        if let Some(other) =
            [Port::M_OVERRIDE, Port::N_OVERRIDE, Port::BLOCK_MASK].into_iter().find(|port| others.contains(port.0))
        {
            return Err(format!("no kernels for {place}: its extents are overridden by {other}"));
        }
        let [a, b] = match length {
            Some(length) => [(a, 3), (b, 2)].map(|(operand, axis)| self.inside(operand, axis, length)),
            None => [a, b].map(|operand| self.in_line(operand)),
        };
        let result = self.tensors[c.index()].clone();
        let is_in_line = result.is_virtual || matrices(&result.dim, &result.stride).is_some();
        let stored = if is_in_line { c } else { self.value(&result, result.data_type, &result.stride.clone()) };
        product.inputs = vec![(Port::A, a), (Port::B, b)];
        product.outputs = vec![(Port::C, stored)];
        product.attributes = Attributes::Matmul(Matmul::default());
        self.operations.push(product);
        if stored != c {
            self.push(PointwiseMode::Identity, &[stored], c);
        }
        Ok(())
    }

    /// Each matrix of C is the product of two of its own, or of one that all share.
    fn has_whole_batches(&self, [a, b, c]: [TensorId; 3]) -> Result<(), String> {
        let dim = |id: TensorId| &self.tensors[id.index()].dim;
        let of_result = &dim(c)[..2];
        match [a, b].into_iter().find(|&id| &dim(id)[..2] != of_result && dim(id)[..2] != [1, 1]) {
            Some(id) => Err(format!("an operand has {:?} batches and heads; required {of_result:?}", &dim(id)[..2])),
            None => Ok(()),
        }
    }

    /// An operand as one line of matrices: itself, or a copy of what lies otherwise.
    fn in_line(&mut self, operand: TensorId) -> TensorId {
        let tensor = &self.tensors[operand.index()];
        if tensor.is_virtual || matrices(&tensor.dim, &tensor.stride).is_some() {
            return operand;
        }
        let (tensor, stride) = (tensor.clone(), tensor.stride.clone());
        let copy = self.value(&tensor, tensor.data_type, &stride);
        self.push(PointwiseMode::Identity, &[operand], copy);
        copy
    }

    /// An operand with zeros from a length of each batch on along an axis.
    fn inside(&mut self, operand: TensorId, axis: i64, length: TensorId) -> TensorId {
        let tensor = self.tensors[operand.index()].clone();
        let index = self.value(&tensor, DataType::Int32, &tensor.stride.clone());
        let is_inside = self.value(&tensor, DataType::Boolean, &tensor.stride.clone());
        let kept = self.value(&tensor, tensor.data_type, &tensor.stride.clone());
        let zero = self.zero();
        self.push_with(Pointwise { axis: Some(axis), ..Pointwise::new(PointwiseMode::GenIndex) }, &[operand], index);
        self.push(PointwiseMode::CmpLt, &[index, length], is_inside);
        self.push(PointwiseMode::BinarySelect, &[operand, zero, is_inside], kept);
        kept
    }

    /// A virtual tensor with the extents of another one, packed, of whose matrices the lines run along the same axis.
    fn value(&mut self, like: &FinalTensor, data_type: DataType, stride: &[i64]) -> TensorId {
        let is_turned = stride[2] < stride[3] && !like.is_virtual;
        let order: &[usize] = if is_turned { &[2, 3, 1, 0] } else { &[3, 2, 1, 0] };
        self.add(FinalTensor {
            name: format!("{}, in line", like.name),
            data_type,
            dim: like.dim.clone(),
            stride: packed_strides(&like.dim, order),
            is_virtual: true,
            is_pass_by_value: false,
            value: None,
            alignment: DEFAULT_ALIGNMENT,
            reordering: Reordering::None,
            ragged_offset: None,
            ragged_offset_multiplier: 1,
            uid: 0,
        })
    }

    /// The number 0, as definitions have it.
    fn zero(&mut self) -> TensorId {
        self.add(FinalTensor {
            name: "zero".to_owned(),
            data_type: DataType::Float,
            dim: vec![1; 4],
            stride: vec![1; 4],
            is_virtual: true,
            is_pass_by_value: true,
            value: Some(Scalar::Float(0.0)),
            alignment: DEFAULT_ALIGNMENT,
            reordering: Reordering::None,
            ragged_offset: None,
            ragged_offset_multiplier: 1,
            uid: 0,
        })
    }

    fn add(&mut self, tensor: FinalTensor) -> TensorId {
        let id = TensorId::at(self.tensors.len() as u32);
        self.tensors.push(tensor);
        id
    }

    fn push(&mut self, mode: PointwiseMode, operands: &[TensorId], y: TensorId) {
        self.push_with(Pointwise::new(mode), operands, y);
    }

    fn push_with(&mut self, attributes: Pointwise, operands: &[TensorId], y: TensorId) {
        let ports = [Port::IN_0, Port::IN_1, Port::IN_2];
        self.operations.push(Operation {
            name: self.tensors[y.index()].name.clone(),
            attributes: Attributes::Pointwise(attributes),
            compute_data_type: Some(DataType::Float),
            inputs: ports.into_iter().zip(operands.iter().copied()).collect(),
            outputs: vec![(Port::OUT_0, y)],
        });
    }
}

/// A, B and C of a product.
pub(super) fn operands(product: &Operation) -> Result<[TensorId; 3], String> {
    let slots = [product.input(Port::A), product.input(Port::B), product.output(Port::C)];
    match slots {
        [Some(a), Some(b), Some(c)] => Ok([a, b, c]),
        _ => Err("a port of a product is empty".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::matrices;

    #[test]
    fn batches_and_heads_that_follow_each_other_are_one_line() {
        let dim = [2, 3, 4, 8];
        assert_eq!(matrices(&dim, &[96, 32, 8, 1]), Some([[6, 4, 8], [32, 8, 1]]));
        assert_eq!(matrices(&dim, &[96, 32, 1, 4]), Some([[6, 4, 8], [32, 1, 4]]));
        assert_eq!(matrices(&dim, &[96, 8, 24, 1]), None, "heads lie within rows");
        assert_eq!(matrices(&[1, 3, 4, 8], &[7, 8, 24, 1]), Some([[3, 4, 8], [8, 24, 1]]));
        assert_eq!(matrices(&[2, 1, 4, 8], &[99, 5, 8, 1]), Some([[2, 4, 8], [99, 8, 1]]));
        assert_eq!(matrices(&[2, 4, 8], &[32, 8, 1]), None);
    }
}
