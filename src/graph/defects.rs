//! All independent defects of a graph that is not well formed.
//!
//! Finalizing goes on behind a defect with what is certain. What a defect makes doubtful is *suspect*: its extents are not
//! held against others, so that no defect is told that another one causes.

use super::draft::Draft;
use super::{Attributes, Malformed, OperationId, TensorId, packed_strides, row_major_order};

/// Most defects that are told of one graph.
const MOST: usize = 20;

/// What was found so far; empty for a well-formed graph.
#[derive(Debug, Default)]
pub(super) struct Defects {
    found: Vec<Malformed>,
    /// Tensors whose dims are in doubt, by id; allocated with the first.
    suspect: Vec<bool>,
    /// What the graph lacks as a whole, told once.
    lacking: Vec<&'static str>,
}

impl Defects {
    pub(super) fn add(&mut self, defect: Malformed) {
        if self.found.len() < MOST && !self.found.contains(&defect) {
            self.found.push(defect);
        }
    }

    /// The value, unless there was none to be had.
    pub(super) fn note<T>(&mut self, result: Result<T, Malformed>) -> Option<T> {
        result.map_err(|defect| self.add(defect)).ok()
    }

    /// A defect that has its cause in a key of the context: told once, however many tensors it concerns.
    pub(super) fn add_lacking(&mut self, key: &'static str, defect: Malformed) {
        if !self.lacking.contains(&key) {
            self.lacking.push(key);
            self.add(defect);
        }
    }

    /// From now on nothing is concluded from the extents of this tensor.
    pub(super) fn suspect(&mut self, id: TensorId) {
        if self.suspect.len() <= id.index() {
            self.suspect.resize(id.index() + 1, false);
        }
        self.suspect[id.index()] = true;
    }

    pub(super) fn is_suspect(&self, id: TensorId) -> bool {
        self.suspect.get(id.index()).copied().unwrap_or(false)
    }

    /// Whether an operation reads or writes a tensor in doubt.
    pub(super) fn touch(&self, draft: &Draft, id: OperationId) -> bool {
        let operation = &draft.operations[id.index()];
        operation.input_tensors().chain(operation.output_tensors()).any(|tensor| self.is_suspect(tensor))
    }

    /// Doubts what a defect of an operation leaves in doubt: the tensor it blames, and the results. Where the rank of the
    /// results is certain, they keep or get it.
    pub(super) fn doubt(&mut self, draft: &mut Draft, id: OperationId, defect: Option<&Malformed>) {
        let operation = &draft.operations[id.index()];
        let keeps_rank = keeps_rank(&operation.attributes);
        let (inputs, outputs): (Vec<TensorId>, Vec<TensorId>) =
            (operation.input_tensors().collect(), operation.output_tensors().collect());
        let rank = common_rank(draft, inputs.iter().chain(&outputs)).filter(|_| keeps_rank);
        let blamed = defect.and_then(|defect| defect.tensor.as_ref());
        let is_blamed = |tensor: &TensorId| Some(&draft.describe_tensor(*tensor)) == blamed;
        let doubtful: Vec<TensorId> = inputs.into_iter().filter(is_blamed).chain(outputs).collect();
        for tensor in doubtful {
            self.suspect(tensor);
            let dim = &mut draft.tensors[tensor.index()].dim;
            match rank {
                Some(rank) if dim.is_empty() => *dim = vec![1; rank],
                Some(_) => {}
                None => dim.clear(),
            }
        }
    }

    /// The first defect, which holds the others; nothing where there is none.
    pub(super) fn into_result(self) -> Result<(), Malformed> {
        let mut found = self.found.into_iter();
        match found.next() {
            Some(first) => Err(Malformed { others: found.collect(), ..first }),
            None => Ok(()),
        }
    }
}

/// Operations whose tensors all have one rank.
fn keeps_rank(attributes: &Attributes) -> bool {
    matches!(
        attributes,
        Attributes::Matmul(_)
            | Attributes::Convolution(_)
            | Attributes::Pointwise(_)
            | Attributes::Reduction(_)
            | Attributes::GenStats
            | Attributes::ResampleForward(_)
            | Attributes::ResampleBackward(_)
    )
}

/// The rank of all tensors that have dims, where they agree.
fn common_rank<'a>(draft: &Draft, tensors: impl Iterator<Item = &'a TensorId>) -> Option<usize> {
    let mut ranks =
        tensors.map(|id| draft.tensor(*id)).filter(|tensor| !tensor.is_pass_by_value).map(|tensor| tensor.dim.len());
    let mut ranks = ranks.by_ref().filter(|&rank| rank > 0);
    let first = ranks.next()?;
    ranks.all(|rank| rank == first).then_some(first)
}

/// Takes out of a draft what is wrong with one tensor alone, so that the rest can be examined: its dims, where they are
/// good, count on.
pub(super) fn repair(draft: &mut Draft, id: TensorId, defects: &mut Defects) {
    let tensor = &mut draft.tensors[id.index()];
    if !tensor.stride.is_empty() && tensor.stride.len() != tensor.dim.len() {
        // Which of both has the right rank is open.
        tensor.dim.clear();
    }
    let size = tensor.dim.iter().try_fold(1i64, |size, &extent| size.checked_mul(extent).filter(|_| extent > 0));
    let is_good = size.is_some() && !tensor.dim.is_empty() && tensor.dim.len() <= super::MAX_RANK;
    if !is_good || tensor.is_pass_by_value {
        defects.suspect(id);
        return;
    }
    tensor.stride = packed_strides(&tensor.dim, &row_major_order(tensor.dim.len()));
}

#[cfg(test)]
mod tests {
    use crate::graph::samples::{half_graph, image, input};
    use crate::graph::{
        Attributes, Convolution, ConvolutionDirection, Graph, PointwiseMode, Port, ReductionMode, TensorHandle,
    };

    const X: TensorHandle = TensorHandle(0);
    const W: TensorHandle = TensorHandle(1);
    const BIAS: TensorHandle = TensorHandle(2);

    /// Two convolutions of one image, each with a bias; the first is activated, the second summed up.
    fn two_branches() -> Graph {
        let mut graph = half_graph();
        let x = image(&mut graph, "X", &[2, 8, 6, 7]);
        let w = image(&mut graph, "W", &[32, 8, 3, 3]);
        let bias = image(&mut graph, "bias", &[1, 32, 1, 1]);
        let other = image(&mut graph, "V", &[16, 8, 1, 1]);
        let plain = || Convolution::new(ConvolutionDirection::Forward, 2);
        let y = graph.convolution("conv", plain(), [x, w]);
        let biased = graph.pointwise("add", PointwiseMode::Add, &[y, bias]);
        let relu = graph.pointwise("relu", PointwiseMode::ReluFwd, &[biased]);
        graph.set_output(relu);
        let z = graph.convolution("side", plain(), [x, other]);
        let sum = graph.reduction("sum", ReductionMode::Add, z, [1, 16, 1, 1]);
        graph.set_output(sum);
        graph
    }

    /// What is wrong, and how it comes about.
    type Edit = (&'static str, fn(&mut Graph));

    fn defects(edit: impl FnOnce(&mut Graph)) -> Vec<String> {
        let mut graph = two_branches();
        edit(&mut graph);
        let malformed = graph.finalize().expect_err("the edit makes it malformed");
        assert!(malformed.others.iter().all(|other| other.others.is_empty()));
        malformed.all().map(ToString::to_string).collect()
    }

    fn tensor<'a>(graph: &'a mut Graph, name: &str) -> &'a mut crate::graph::Tensor {
        graph.tensors.iter_mut().find(|tensor| tensor.name == name).expect("the graph has the tensor")
    }

    #[test]
    fn one_defect_is_told_once_and_nothing_that_follows_from_it() {
        two_branches().finalize().unwrap();
        let edits: [Edit; 12] = [
            ("filter", |graph| graph.tensor_mut(W).dim = vec![32, 5, 3, 3]),
            ("filter of another order", |graph| graph.tensor_mut(W).dim = vec![8, 32, 3, 3]),
            ("filter of another rank", |graph| graph.tensor_mut(W).dim = vec![32, 8, 3]),
            ("image without dims", |graph| graph.tensor_mut(X).dim.clear()),
            ("image of no extent", |graph| graph.tensor_mut(X).dim[2] = 0),
            ("image of stride 0", |graph| graph.tensor_mut(X).stride[0] = 0),
            ("image of another rank", |graph| {
                graph.tensor_mut(X).dim.truncate(3);
                graph.tensor_mut(X).stride.truncate(3);
            }),
            ("bias", |graph| graph.tensor_mut(BIAS).dim = vec![1, 31, 1, 1]),
            ("result", |graph| tensor(graph, "conv::Y").dim = vec![2, 32, 4, 9]),
            ("no type", |graph| graph.io_data_type = None),
            ("no compute type", |graph| graph.compute_data_type = None),
            ("a missing port", |graph| graph.operations[0].inputs.truncate(1)),
        ];
        for (what, edit) in edits {
            let found = defects(edit);
            // An image of rank 3 fits neither filter: two statements of two operations.
            let count = if what == "image of another rank" { 2 } else { 1 };
            assert_eq!(found.len(), count, "{what}: {found:#?}");
        }
    }

    #[test]
    fn independent_defects_are_told_together_in_the_order_of_the_graph() {
        let found = defects(|graph| {
            graph.tensor_mut(X).stride[0] = 0;
            graph.tensor_mut(BIAS).dim = vec![32];
            graph.tensor_mut(BIAS).stride = vec![1];
            graph.tensor_mut(W).dim = vec![8, 32, 3, 3];
            tensor(graph, "sum::Y").dim = vec![1, 15, 1, 1];
        });
        let expected = [
            "tensor 'X': strides [0, 1, 56, 8] hold 0",
            "'conv' (CONV_FPROP, node 0): tensor 'W': port W: a filter is [K, C, R, S]",
            "'add' (POINTWISE, node 1): tensor 'bias': port IN_1: rank 1 with dims [32]",
            "'sum' (REDUCTION, node 4): tensor 'sum::Y': port Y: extent 15 on axis 1",
        ];
        assert_eq!(found.len(), expected.len(), "{found:#?}");
        for expected in expected {
            assert!(found.iter().any(|found| found.contains(expected)), "{expected}: {found:#?}");
        }
        assert!(found[0].contains(expected[0]), "{found:#?}");
    }

    #[test]
    fn behind_a_defect_the_parts_that_are_certain_are_held_against_each_other() {
        let found = defects(|graph| {
            graph.tensor_mut(W).dim = vec![32, 5, 3, 3];
            tensor(graph, "add::OUT_0").dim = vec![2, 32, 4, 5];
            graph.tensor_mut(BIAS).dim = vec![1, 31, 1, 1];
            if let Attributes::Convolution(convolution) = &mut graph.operations[3].attributes {
                convolution.stride = vec![0, 1];
            }
        });
        assert_eq!(found.len(), 3, "{found:#?}");
        let text = "'bias': port IN_1: extent 31 on axis 1 does not broadcast with 32 of OUT_0, 'add::OUT_0'";
        assert!(found[1].contains(text), "{found:#?}");
        assert!(found[2].contains("stride [0, 1] holds 0"), "{found:#?}");
    }

    #[test]
    fn defects_of_the_dataflow_are_told_together() {
        let found = defects(|graph| {
            graph.tensor_mut(BIAS).is_virtual = true;
            let relu = graph.operations[2].outputs[0].1;
            graph.operations[4].outputs[0].1 = relu;
            graph.tensor_mut(W).dim = vec![32, 5, 3, 3];
        });
        let rules = ["[GR-ONE-WRITER]", "[GR-VIRTUAL-PRODUCER]", "[CV-R2]"];
        assert_eq!(found.len(), rules.len(), "{found:#?}");
        for (found, rule) in found.iter().zip(rules) {
            assert!(found.ends_with(rule), "{found}");
        }
        let found = defects(|graph| {
            let relu = graph.operations[2].outputs[0].1;
            graph.operations[1].inputs[1] = (Port::IN_1, relu);
            tensor(graph, "sum::Y").dim = vec![1, 15, 1, 1];
        });
        assert!(found.len() == 2 && found[0].ends_with("[GR-ACYCLIC]") && found[1].contains("extent 15"), "{found:#?}");
    }

    #[test]
    fn a_graph_of_many_defects_tells_twenty() {
        let mut graph = half_graph();
        for at in 0..100 {
            let x = input(&mut graph, &format!("x{at}"), &[2, 3]);
            let y = input(&mut graph, &format!("y{at}"), &[2, 4]);
            let sum = graph.pointwise(&format!("add{at}"), PointwiseMode::Add, &[x, y]);
            graph.set_output(sum);
        }
        let malformed = graph.finalize().unwrap_err();
        assert_eq!(malformed.all().count(), super::MOST);
        assert!(malformed.to_string().contains("'add0'"));
    }
}
