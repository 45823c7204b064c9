//! Values that mainloop stages store, at which a fusion is cut in two.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Fusion, NoPattern, Stage, fuse};
use crate::graph::{OperationId, TensorId};

impl Fusion {
    /// What mainloop stages compute and memory keeps, in canonical order.
    pub(crate) fn stored_before_core(&self) -> Vec<TensorId> {
        let producers = |id| self.graph.producer(id).map(|producer| self.stage(producer));
        self.graph.outputs().filter(|&id| matches!(producers(id), Some(Stage::Before(_)))).collect()
    }

    /// The fusion in two: what computes tensors of mainloop stages, without a core, and the rest, to which they are inputs. Operations that
    /// both need are in both. Tensors keep their ids, and the key is the graph's.
    ///
    /// # Errors
    /// That a part fits no form.
    pub(crate) fn cut_at(&self, stored: &[TensorId]) -> Result<[Self; 2], NoPattern> {
        let first = self.leading_to(stored, &[]);
        let operands = self.product().map(|product| product.tensors()).into_iter().flatten().collect::<Vec<_>>();
        let mut rest = self.leading_to(&operands, stored);
        rest.extend(self.operations(Stage::Core).chain(self.operations(Stage::After)));
        let of = |operations| fuse(Arc::new(self.graph.of_operations(operations)));
        Ok([of(&first)?, of(&rest)?])
    }

    /// The operations that tensors depend on, if some tensors are in memory.
    fn leading_to(&self, tensors: &[TensorId], in_memory: &[TensorId]) -> BTreeSet<OperationId> {
        let (mut found, mut pending) = (BTreeSet::new(), tensors.to_vec());
        while let Some(tensor) = pending.pop() {
            let producer = self.graph.producer(tensor).filter(|_| !in_memory.contains(&tensor));
            if let Some(id) = producer.filter(|&id| found.insert(id)) {
                pending.extend(self.graph.operation(id).input_tensors());
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{DataType, Graph, PointwiseMode, Tensor, TensorHandle};

    /// `(relu(t) + t)·exp(B)` with `t = A·scale`; gives the tensors that the stages compute, A's first.
    fn graph() -> (Graph, [TensorHandle; 4]) {
        let mut graph = Graph::new()
            .io_data_type(DataType::Half)
            .intermediate_data_type(DataType::Half)
            .compute_data_type(DataType::Float);
        let a = graph.tensor(Tensor::new("A").row_major([1, 8, 16]));
        let scale = graph.tensor(Tensor::new("scale").row_major([1, 1, 16]));
        let b = graph.tensor(Tensor::new("B").row_major([1, 16, 32]));
        let scaled = graph.pointwise("scaled", PointwiseMode::Mul, &[a, scale]);
        let relu = graph.pointwise("relu", PointwiseMode::ReluFwd, &[scaled]);
        let sum = graph.pointwise("sum", PointwiseMode::Add, &[relu, scaled]);
        let right = graph.pointwise("exp", PointwiseMode::Exp, &[b]);
        let c = graph.matmul("mm", sum, right);
        graph.set_output(c);
        (graph, [scaled, relu, sum, right])
    }

    /// Names of the operations of both parts, where some tensors are stored.
    fn parts(stored: &[usize]) -> [Vec<String>; 2] {
        let (mut graph, values) = graph();
        stored.iter().for_each(|&value| {
            graph.set_output(values[value]);
        });
        let fusion = fuse(Arc::new(graph.finalize().expect("well formed"))).expect("a matmul");
        let parts = fusion.cut_at(&fusion.stored_before_core()).expect("two forms");
        assert_eq!(parts[0].product(), None);
        assert!(parts.iter().all(|part| part.graph().tensors().eq(fusion.graph().tensors())));
        parts.map(|part| {
            let mut names: Vec<String> = part.graph().operations().map(|operation| operation.name.clone()).collect();
            names.sort();
            names
        })
    }

    #[test]
    fn the_rest_reads_a_stored_operand() {
        assert_eq!(parts(&[2]), [vec!["relu", "scaled", "sum"], vec!["exp", "mm"]]);
        assert_eq!(parts(&[2, 3]), [vec!["exp", "relu", "scaled", "sum"], vec!["mm"]]);
    }

    #[test]
    fn what_follows_a_stored_value_stays_before_the_core() {
        assert_eq!(parts(&[0]), [vec!["scaled"], vec!["exp", "mm", "relu", "sum"]]);
    }

    #[test]
    fn what_both_parts_need_is_in_both() {
        assert_eq!(parts(&[1]), [vec!["relu", "scaled"], vec!["exp", "mm", "scaled", "sum"]]);
    }
}
