//! A graph on its way through finalize: linked, partly complete.

use std::collections::HashMap;

use super::defects::Defects;
use super::{
    DataType, Expectation, Graph, MAX_OPERATIONS, Operation, OperationId, Scalar, Tensor, TensorHandle, TensorId,
};
use crate::graph::Malformed;

/// Types of tensors and operations that state none (`context` of a graph file).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct DefaultTypes {
    pub(super) io: Option<DataType>,
    pub(super) intermediate: Option<DataType>,
    pub(super) compute: Option<DataType>,
}

/// A working copy of a graph whose references resolve and whose uids identify tensors. Until [`super::finalize`] renumbers them,
/// ids are positions in the author's order.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) name: String,
    pub(super) default_types: DefaultTypes,
    pub(super) is_dynamic: bool,
    /// All tensors of the author, used or not; unused ones are never looked at.
    pub(super) tensors: Vec<Tensor>,
    pub(super) operations: Vec<Operation>,
    pub(super) notes: Vec<String>,
    /// For each tensor of the author, the one that stands for it.
    pub(super) same_as: Vec<TensorId>,
    /// What host scalars have to be that operations no longer read.
    pub(super) expectations: Vec<Expectation>,
}

impl Draft {
    /// Copies a graph, resolves its references, and makes one tensor of several with the same uid, as far as they agree
    /// (GR-UID-UNIQUE).
    ///
    /// # Errors
    /// GR-NODES, too many operations, ids of another graph: nothing more can be said of such a graph.
    pub(super) fn link(graph: &Graph, defects: &mut Defects) -> Result<Self, Malformed> {
        check_size(graph)?;
        check_references(graph)?;
        let mut draft = Self {
            name: graph.name.clone(),
            default_types: DefaultTypes {
                io: graph.io_data_type,
                intermediate: graph.intermediate_data_type,
                compute: graph.compute_data_type,
            },
            is_dynamic: graph.is_dynamic,
            tensors: graph.tensors.iter().map(|tensor| with_value_of_type(tensor, graph.io_data_type)).collect(),
            operations: graph.operations.iter().map(numbered).collect(),
            notes: Vec::new(),
            same_as: Vec::new(),
            expectations: Vec::new(),
        };
        draft.merge_equal_uids(defects);
        Ok(draft)
    }

    pub(super) fn tensor(&self, id: TensorId) -> &Tensor {
        &self.tensors[id.index()]
    }

    /// The offsets of a ragged tensor.
    pub(super) fn ragged_offset(&self, id: TensorId) -> Option<TensorId> {
        self.tensor(id).ragged_offset.map(|offset| TensorId(offset.0))
    }

    /// Positions of all operations, as ids.
    pub(super) fn operation_ids(&self) -> impl Iterator<Item = OperationId> + use<> {
        (0..self.operations.len() as u32).map(OperationId)
    }

    /// How messages name a tensor: `'bias' (uid 4)`, or `'bias'` where it has no uid yet.
    pub(super) fn describe_tensor(&self, id: TensorId) -> String {
        let tensor = self.tensor(id);
        match tensor.uid {
            Some(uid) => format!("'{}' (uid {uid})", tensor.name.escape_debug()),
            None => format!("'{}'", tensor.name.escape_debug()),
        }
    }

    /// A defect of an operation, and of a tensor where one is to blame.
    pub(super) fn fault(
        &self,
        rule: &'static str,
        operation: OperationId,
        tensor: Option<TensorId>,
        message: impl Into<String>,
    ) -> Malformed {
        Malformed {
            rule,
            operation: Some(describe_operation(&self.operations[operation.index()], operation)),
            tensor: tensor.map(|id| self.describe_tensor(id)),
            message: message.into(),
            others: Vec::new(),
        }
    }

    /// GR-UID-UNIQUE: descriptors that share a uid are one tensor and must agree in every attribute (the name is none).
    fn merge_equal_uids(&mut self, defects: &mut Defects) {
        let mut first = HashMap::new();
        let mut same_as: Vec<TensorId> = (0..self.tensors.len() as u32).map(TensorId).collect();
        for id in self.used_tensors(self.operation_ids()) {
            let Some(uid) = self.tensor(id).uid else { continue };
            let kept = *first.entry(uid).or_insert(id);
            if kept != id {
                if let Err(defect) = self.unify(kept, id) {
                    defects.add(defect);
                    defects.suspect(kept);
                }
                same_as[id.index()] = kept;
            }
        }
        let slots = self.operations.iter_mut().flat_map(|op| op.inputs.iter_mut().chain(&mut op.outputs));
        slots.for_each(|slot| slot.1 = same_as[slot.1.index()]);
        let offsets = self.tensors.iter_mut().filter_map(|tensor| tensor.ragged_offset.as_mut());
        offsets.for_each(|offset| *offset = same_as[offset.index()].handle());
        self.same_as = same_as;
    }

    /// Tensors these operations name, each once, in order of first use: operation by operation, inputs, then outputs,
    /// the offsets of a ragged tensor right after it.
    pub(super) fn used_tensors(&self, order: impl IntoIterator<Item = OperationId>) -> Vec<TensorId> {
        let mut seen = vec![false; self.tensors.len()];
        let mut used = Vec::new();
        for id in order {
            let operation = &self.operations[id.index()];
            for id in operation.input_tensors().chain(operation.output_tensors()) {
                let offset = self.ragged_offset(id);
                for id in [Some(id), offset].into_iter().flatten() {
                    if !std::mem::replace(&mut seen[id.index()], true) {
                        used.push(id);
                    }
                }
            }
        }
        used
    }

    /// Lets `kept` stand for `other` as well: what one leaves open the other may fill.
    fn unify(&mut self, kept: TensorId, other: TensorId) -> Result<(), Malformed> {
        let (left, right) = (self.tensor(kept), self.tensor(other));
        if let Some(attribute) = first_difference(left, right) {
            return Err(Malformed {
                rule: "GR-UID-UNIQUE",
                operation: None,
                tensor: Some(self.describe_tensor(kept)),
                message: format!(
                    "shares its uid with '{}', but their {attribute} differ; a uid identifies one tensor",
                    right.name.escape_debug()
                ),
                others: Vec::new(),
            });
        }
        let other = right.clone();
        let kept = &mut self.tensors[kept.index()];
        kept.data_type = kept.data_type.or(other.data_type);
        kept.value = kept.value.or(other.value);
        if kept.dim.is_empty() {
            kept.dim = other.dim;
        }
        if kept.stride.is_empty() {
            kept.stride = other.stride;
        }
        Ok(())
    }
}

/// A tensor whose known value is what its type has of it: what a graph means follows from no other.
fn with_value_of_type(tensor: &Tensor, default: Option<DataType>) -> Tensor {
    let data_type = tensor.data_type.or(default);
    let of_type = |value: Scalar| data_type.map_or(value, |data_type| value.of_type(data_type));
    Tensor { value: tensor.value.map(of_type), ..tensor.clone() }
}

/// An operation whose handles are taken for positions.
fn numbered(operation: &Operation<TensorHandle>) -> Operation {
    operation.of_tensors(|handle| TensorId(handle.0))
}

/// How messages name an operation of a file: `'mm' (MATMUL, node 3)`, nodes counted from 0.
pub(super) fn describe_operation<T: Copy>(operation: &Operation<T>, id: OperationId) -> String {
    format!("'{}' ({}, node {})", operation.name.escape_debug(), operation.tag(), id.index())
}

fn check_size(graph: &Graph) -> Result<(), Malformed> {
    match graph.operations.len() {
        0 => Err(Malformed::graph("GR-NODES", "the graph has no operation; at least one is required")),
        count if count > MAX_OPERATIONS => Err(Malformed::graph(
            "GR-NODES",
            format!("the graph has {count} operations; at most {MAX_OPERATIONS} are read"),
        )),
        _ => Ok(()),
    }
}

fn check_references(graph: &Graph) -> Result<(), Malformed> {
    let count = graph.tensors.len();
    let mut defects = Defects::default();
    for (position, operation) in graph.operations.iter().enumerate() {
        for &(port, id) in operation.inputs.iter().chain(&operation.outputs) {
            if id.index() >= count {
                defects.add(Malformed {
                    rule: "GR-EDGE-UID",
                    operation: Some(describe_operation(operation, OperationId(position as u32))),
                    tensor: None,
                    message: format!("port {port} names tensor {}, but the graph has {count} tensors", id.index()),
                    others: Vec::new(),
                });
            }
        }
    }
    for tensor in graph.tensors.iter().filter(|tensor| tensor.ragged_offset.is_some_and(|id| id.index() >= count)) {
        let name = tensor.name.escape_debug();
        let message = format!("the ragged offset of tensor '{name}' is not in the graph");
        defects.add(Malformed::graph("GR-EDGE-UID", message));
    }
    defects.into_result()
}

/// The first attribute in which two descriptors of one tensor contradict each other.
fn first_difference(left: &Tensor, right: &Tensor) -> Option<&'static str> {
    let contradicts = |a: &[i64], b: &[i64]| !a.is_empty() && !b.is_empty() && a != b;
    let rows = [
        ("data types", left.data_type.zip(right.data_type).is_some_and(|(a, b)| a != b)),
        ("dims", contradicts(&left.dim, &right.dim)),
        ("strides", contradicts(&left.stride, &right.stride)),
        ("virtual flags", left.is_virtual != right.is_virtual),
        ("pass-by-value flags", left.is_pass_by_value != right.is_pass_by_value),
        ("values", left.value.zip(right.value).is_some_and(|(a, b)| a != b)),
        ("reorderings", left.reordering != right.reordering),
        ("alignments", left.alignment != right.alignment),
        ("ragged offsets", left.ragged_offset != right.ragged_offset),
        ("ragged multipliers", left.ragged_offset_multiplier != right.ragged_offset_multiplier),
    ];
    rows.into_iter().find(|row| row.1).map(|row| row.0)
}

#[cfg(test)]
mod tests {
    use super::super::samples::{half_graph, input, matmul_bias_relu, refusal};
    use super::*;
    use crate::graph::PointwiseMode;

    #[test]
    fn a_graph_has_at_least_one_operation_and_not_too_many() {
        assert!(refusal(&Graph::new()).contains("no operation; at least one is required [GR-NODES]"));
        let mut graph = matmul_bias_relu();
        let operation = graph.operations[2].clone();
        graph.operations.resize(MAX_OPERATIONS + 1, operation);
        assert!(refusal(&graph).contains("65537 operations; at most 65536"));
    }

    #[test]
    fn a_reference_outside_the_graph_is_named() {
        let mut graph = matmul_bias_relu();
        graph.operations[1].inputs[1].1 = TensorHandle(99);
        let message = refusal(&graph);
        assert!(
            message.contains("'add' (POINTWISE, node 1): port IN_1 names tensor 99, but the graph has 6"),
            "{message}"
        );
        let mut graph = matmul_bias_relu();
        graph.tensors[0].ragged_offset = Some(TensorHandle(6));
        assert!(refusal(&graph).contains("ragged offset of tensor 'A' is not in the graph [GR-EDGE-UID]"));
    }

    /// x + x, each operand with a descriptor of its own under uid 7.
    fn twice_the_same(second: Tensor) -> Graph {
        let mut graph = half_graph();
        let x = graph.tensor(Tensor::new("x").uid(7).row_major([2, 3]));
        let again = graph.tensor(second);
        let y = graph.pointwise("double", PointwiseMode::Add, &[x, again]);
        graph.set_output(y);
        graph
    }

    #[test]
    fn descriptors_with_one_uid_are_one_tensor() {
        let finalized = twice_the_same(Tensor::new("again").uid(7).row_major([2, 3])).finalize().unwrap();
        assert_eq!(finalized.tensors().len(), 2);
        let incomplete = twice_the_same(Tensor::new("again").uid(7)).finalize().unwrap();
        assert_eq!(incomplete.key(), finalized.key());
    }

    #[test]
    fn descriptors_with_one_uid_must_agree() {
        let message = refusal(&twice_the_same(Tensor::new("again").uid(7).row_major([3, 2])));
        assert!(message.contains("'x' (uid 7): shares its uid with 'again', but their dims differ"), "{message}");
        assert!(message.contains("[GR-UID-UNIQUE]"), "{message}");
        let message = refusal(&twice_the_same(Tensor::new("again").uid(7).row_major([2, 3]).alignment(4)));
        assert!(message.contains("alignments differ"), "{message}");
    }

    #[test]
    fn unused_tensors_are_no_concern() {
        let mut graph = matmul_bias_relu();
        graph.tensor_mut(TensorHandle(0)).uid = Some(1);
        graph.tensor(Tensor::new("unused").uid(1).dim([-1]));
        let x = input(&mut graph, "unused too", &[1]);
        graph.tensor_mut(x).is_virtual = true;
        assert_eq!(graph.finalize().unwrap().tensors().len(), 6);
    }

    #[test]
    fn untrusted_names_are_escaped() {
        let mut graph = matmul_bias_relu();
        graph.operations[0].name = "a\u{1b}[31m\nb".to_owned();
        graph.operations[0].inputs.truncate(1);
        let message = refusal(&graph);
        assert!(message.contains(r"'a\u{1b}[31m\nb' (MATMUL, node 0)"), "{message}");
    }
}
