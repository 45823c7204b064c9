//! Graphs without views: where definitions see axis 1 of a tensor as two axes, all tensors have two.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::{Attributes, FinalTensor, FinalizedGraph, Operation, Port, TensorId};

/// The axis that views split.
const AXIS: usize = 1;

/// Extents of the two axes that an extent of the axis becomes.
type Parts = BTreeMap<i64, [i64; 2]>;

impl FinalizedGraph {
    /// The same pointwise operations and reductions without a view: the axis that views split is split in every tensor, by strides, and
    /// what is read of a view is read of its tensor. Tensors before the first view keep their ids, and all are of one rank if those of the
    /// graph were; the key stays.
    ///
    /// # Errors
    /// Why there is no such graph, as a sentence: views split one extent in two ways, or something counts along the axis.
    pub(crate) fn without_views(&self) -> Result<Cow<'_, Self>, String> {
        let views: Vec<[TensorId; 2]> = self.operations().filter_map(view).collect();
        let Some(rank) = views.iter().flatten().map(|&id| self.tensor(id).dim.len()).min() else {
            return Ok(Cow::Borrowed(self));
        };
        let parts = self.parts(&views, rank)?;
        let source: BTreeMap<TensorId, TensorId> = views.iter().map(|&[x, y]| (y, x)).collect();
        let (mut became, mut tensors) = (Vec::new(), Vec::new());
        for id in self.tensor_ids() {
            became.push(TensorId(tensors.len() as u32));
            let tensor = self.tensor(id);
            match tensor.dim.len() == rank {
                _ if source.contains_key(&id) => {}
                true => tensors.push(split(tensor, &parts)),
                false => tensors.push(tensor.clone()),
            }
        }
        let viewed = |id: TensorId| std::iter::successors(Some(id), |id| source.get(id).copied()).last().unwrap_or(id);
        let mut operations = Vec::new();
        for operation in self.operations().filter(|operation| view(operation).is_none()) {
            let mut split = operation.of_tensors(|id| became[viewed(id).index()]);
            self.shift_index(operation, &mut split, &parts)?;
            operations.push(split);
        }
        Ok(Cow::Owned(self.with(tensors, operations)))
    }

    fn parts(&self, views: &[[TensorId; 2]], rank: usize) -> Result<Parts, String> {
        let mut parts = Parts::new();
        for view in views {
            let [whole, split] = {
                let [x, y] = view.map(|id| &self.tensor(id).dim);
                if x.len() == rank { [x, y] } else { [y, x] }
            };
            let found = [split[AXIS], split[AXIS + 1]];
            let known = *parts.entry(whole[AXIS]).or_insert(found);
            if known != found {
                return Err(format!("{} channels in groups of {} and of {}", whole[AXIS], known[1], found[1]));
            }
        }
        Ok(parts)
    }

    /// An index along a later axis is one along the axis behind.
    fn shift_index(&self, operation: &Operation, split: &mut Operation, parts: &Parts) -> Result<(), String> {
        let extent = operation.result().and_then(|id| self.tensor(id).dim.get(AXIS)).copied().unwrap_or(1);
        let Attributes::Pointwise(pointwise) = &mut split.attributes else { return Ok(()) };
        match pointwise.axis.map(|axis| axis.cmp(&(AXIS as i64))) {
            Some(std::cmp::Ordering::Equal) if parts_of(extent, parts)[1] > 1 => {
                Err(format!("{} along channels in groups", pointwise.mode))
            }
            Some(std::cmp::Ordering::Greater) => {
                pointwise.axis = pointwise.axis.map(|axis| axis + 1);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// The tensor of a view, and the view.
fn view(operation: &Operation) -> Option<[TensorId; 2]> {
    match operation.attributes {
        Attributes::View => Some([operation.input(Port::X)?, operation.output(Port::Y)?]),
        _ => None,
    }
}

/// What no view splits lies along the first of the two axes.
fn parts_of(extent: i64, parts: &Parts) -> [i64; 2] {
    parts.get(&extent).copied().unwrap_or([extent, 1])
}

fn split(tensor: &FinalTensor, parts: &Parts) -> FinalTensor {
    let [outer, inner] = parts_of(tensor.dim[AXIS], parts);
    let mut split = tensor.clone();
    split.dim.splice(AXIS..=AXIS, [outer, inner]);
    let step = tensor.stride[AXIS];
    split.stride.splice(AXIS..=AXIS, [step * inner, step]);
    split
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{
        Composite, DataType, Graph, NormForward, NormMode, NormPhase, Pointwise, PointwiseMode, Scalar, Tensor,
        TensorHandle,
    };

    const X: [i64; 4] = [2, 12, 5, 7];

    fn half() -> Graph {
        Graph::new()
            .io_data_type(DataType::Half)
            .intermediate_data_type(DataType::Float)
            .compute_data_type(DataType::Float)
    }

    /// A norm of so many groups of a tensor, for inference.
    fn norm(graph: &mut Graph, x: TensorHandle, groups: i64) -> TensorHandle {
        let epsilon = Tensor::scalar("epsilon", DataType::Float, Scalar::Float(1e-5));
        let epsilon = graph.tensor(Tensor { dim: vec![1; 4], stride: vec![1; 4], ..epsilon });
        let composite = Composite::from(NormForward::new(NormMode::groups(groups), NormPhase::Inference));
        graph.composite("norm", composite, &[(Port::X, x), (Port::EPSILON, epsilon)], &[Port::Y])[0]
    }

    fn expanded(graph: &Graph) -> FinalizedGraph {
        graph.finalize().expect("well formed").expand_in(DataType::Float).into_owned()
    }

    #[test]
    fn tensors_have_groups_by_strides_and_nothing_reads_a_view() {
        for (x, strides) in [
            (Tensor::new("x").channels_last(X), [420, 4, 1, 84, 12]),
            (Tensor::new("x").row_major(X), [420, 140, 35, 7, 1]),
        ] {
            let mut graph = half();
            let x = graph.tensor(x);
            let y = norm(&mut graph, x, 3);
            graph.set_output(y);
            let views = expanded(&graph);
            let split = views.without_views().expect("one number of groups");
            assert!(views.operations().any(|operation| view(operation).is_some()));
            assert!(split.operations().all(|operation| view(operation).is_none()));
            let x = split.tensor(split.id_of(x).expect("an input"));
            assert_eq!((&x.dim[..], &x.stride[..]), (&[2, 3, 4, 5, 7][..], &strides[..]));
            let used =
                split.operations().flat_map(|operation| operation.input_tensors().chain(operation.output_tensors()));
            assert!(used.into_iter().all(|id| split.tensor(id).dim.len() == 5));
        }
    }

    #[test]
    fn a_graph_that_has_no_view_is_what_it_was() {
        let mut graph = half();
        let x = graph.tensor(Tensor::new("x").row_major(X));
        let y = graph.pointwise("abs", PointwiseMode::Abs, &[x]);
        graph.set_output(y);
        assert!(matches!(graph.finalize().expect("well formed").without_views(), Ok(Cow::Borrowed(_))));
    }

    #[test]
    fn two_numbers_of_groups_and_indices_of_grouped_channels_are_refused() {
        let mut graph = half();
        let x = graph.tensor(Tensor::new("x").row_major(X));
        let first = norm(&mut graph, x, 3);
        let second = norm(&mut graph, first, 2);
        graph.set_output(second);
        let refused = expanded(&graph).without_views().map(drop);
        assert_eq!(refused, Err("12 channels in groups of 4 and of 6".to_owned()));
        for (axis, expected) in [(1, Err("GEN_INDEX along channels in groups".to_owned())), (3, Ok(Some(4)))] {
            let mut graph = half();
            let x = graph.tensor(Tensor::new("x").row_major(X));
            let index = Pointwise { axis: Some(axis), ..Pointwise::new(PointwiseMode::GenIndex) };
            let index = graph.pointwise_with("index", index, &[x]);
            graph.tensor_mut(index).data_type = Some(DataType::Int32);
            let y = norm(&mut graph, x, 3);
            let sum = graph.pointwise("sum", PointwiseMode::Add, &[y, index]);
            graph.set_output(sum);
            let expanded = expanded(&graph);
            let index = |graph: &FinalizedGraph| {
                graph.operations().find_map(|operation| match &operation.attributes {
                    Attributes::Pointwise(pointwise) => pointwise.axis,
                    _ => None,
                })
            };
            assert_eq!(expanded.without_views().map(|split| index(&split)), expected);
        }
    }
}
