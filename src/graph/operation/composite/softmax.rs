//! Softmax over the last axis, with its statistics (descriptor 45 of the backend API; `docs/spec/attention.md` AT-P25).
//!
//! With `m` the largest element of a row, the sink included, and `l = Σ exp(x − m)`, the sink's `exp(sink − m)` included:
//! `Y = exp(x − m) / l`, `MAX = m`, `SUM_EXP = l`, `STATS = m + ln l` (AT-O15, AT-O16). A row of `−∞` has `Y = 0`, `MAX` and
//! `STATS` of `−∞` and `SUM_EXP` of 0 (AT-O30), with a sink the sink's (AT-O31); a `NaN` or `+∞` makes `Y` `NaN` in its row
//! (AT-O35). Where lengths of sequences are given, rows beyond them have no sink (AT-O32).

use super::{Definition, Expansion, KeptAttributes, Pointwise, Port, ScoreMask};
use crate::graph::infer::{Layout, Node, Ports};
use crate::graph::{DataType, Malformed, PointwiseMode, ReductionMode, TensorId};

/// Softmax has no attributes: the ports say what is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Softmax;

impl Softmax {
    /// Tag in graph files: ours, as the library writes none.
    const TAG: &str = "SOFTMAX";

    const OPTIONAL: &[Port] = &[Port::SINK, Port::SEQ_LEN_Q];

    /// What is given beside `Y`: one value a row, in the order of the definition.
    pub const STATISTICS: &[Port] = &[Port::STATS, Port::MAX, Port::SUM_EXP];

    /// It has no attributes.
    pub(super) fn read(tag: &str, _attributes: &KeptAttributes) -> Option<Self> {
        (tag == Self::TAG).then_some(Self)
    }
}

impl Definition for Softmax {
    fn tag(&self) -> &'static str {
        Self::TAG
    }

    fn ports(&self) -> Ports {
        ([&[Port::X], Self::OPTIONAL], [&[Port::Y], Self::STATISTICS])
    }

    /// Statistics are `FLOAT`, not of the type of what is stored (AT-J8).
    fn default_type(&self, port: Port) -> Option<DataType> {
        match port {
            Port::SEQ_LEN_Q => Some(DataType::Int32),
            port => Self::STATISTICS.contains(&port).then_some(DataType::Float),
        }
    }

    /// Y lies as X does; statistics are row-major (FAF-STATS-LAYOUT).
    fn infer(&self, node: &mut Node) -> Result<(), Malformed> {
        let (dim, order) = (node.dim(Port::X)?.to_vec(), Layout::OrderOf(node.stride(Port::X)?.to_vec()));
        let rows = row_dim(&dim);
        node.complete(Port::Y, dim, &order);
        Self::STATISTICS.iter().for_each(|&port| node.complete(port, rows.clone(), &Layout::RowMajor));
        Ok(())
    }

    fn check(&self, node: &Node) -> Result<(), Malformed> {
        const RULE: &str = "SM-SHAPE";
        let x = node.dim(Port::X)?;
        node.require_dim(RULE, Port::Y, x, "those of X")?;
        for &port in Self::STATISTICS.iter().filter(|&&port| node.tensor(port).is_some()) {
            node.require_dim(RULE, port, &row_dim(x), "those of X, 1 on the last axis")?;
        }
        if node.tensor(Port::SINK).is_none() {
            let message = "lengths of sequences say which rows have a sink, and there is none";
            return node.tensor(Port::SEQ_LEN_Q).map_or(Ok(()), |_| Err(node.fault_at(RULE, Port::SEQ_LEN_Q, message)));
        }
        if node.tensor(Port::SEQ_LEN_Q).is_some() {
            if x.len() != 4 {
                let message = format!("dims {x:?}; required batch, heads, queries and keys");
                return Err(node.fault_at(RULE, Port::X, message));
            }
            node.require_dim(RULE, Port::SEQ_LEN_Q, &[x[0], 1, 1, 1], "one length for each batch")?;
        }
        node.common_rank(RULE, &[Port::X, Port::SINK])?;
        let sink = node.dim(Port::SINK)?;
        match (0..x.len()).find(|&axis| sink[axis] != 1 && (axis + 1 == x.len() || sink[axis] != x[axis])) {
            Some(axis) => {
                let message = format!("extent {} on axis {axis}; required 1, or X's before the last axis", sink[axis]);
                Err(node.fault_at(RULE, Port::SINK, message))
            }
            None => Ok(()),
        }
    }

    fn define(&self, expansion: &mut Expansion) {
        use PointwiseMode as M;
        let [x] = expansion.required();
        let rows = row_dim(expansion.dim(x));
        let largest = expansion.reduction(ReductionMode::Max, x, rows.clone());
        let sink = expansion.input(Port::SINK).map(|sink| of_rows_inside(expansion, sink, largest));
        let largest = sink.map_or(largest, |sink| expansion.pointwise(M::Max, &[largest, sink]));
        // Against the lowest finite number, elements of a row of −∞ are −∞ and not NaN; no other row's maximum is less.
        let reference = expansion.pointwise_with(at_least(f32::MIN), &[largest]);
        let below = expansion.pointwise(M::Sub, &[x, reference]);
        let exponential = expansion.pointwise(M::Exp, &[below]);
        let sum = expansion.reduction(ReductionMode::Add, exponential, rows);
        let sum = match sink {
            Some(sink) => {
                let below = expansion.pointwise(M::Sub, &[sink, reference]);
                let exponential = expansion.pointwise(M::Exp, &[below]);
                expansion.pointwise(M::Add, &[sum, exponential])
            }
            None => sum,
        };
        // The largest element adds 1 to the sum: only the sum 0, of a row of −∞, is less than a half.
        let divisor = expansion.pointwise_with(at_least(0.5), &[sum]);
        expansion.result(Port::Y, M::Div, &[exponential, divisor]);
        expansion.result(Port::MAX, M::Identity, &[largest]);
        expansion.result(Port::SUM_EXP, M::Identity, &[sum]);
        if expansion.is_asked_for(Port::STATS) {
            let logarithm = expansion.pointwise(M::Log, &[sum]);
            expansion.result(Port::STATS, M::Add, &[largest, logarithm]);
        }
    }
}

/// A sink in rows within their sequences, of which `rows` has a value each, and −∞ beyond, where lengths are given.
fn of_rows_inside(expansion: &mut Expansion, sink: TensorId, rows: TensorId) -> TensorId {
    let Some(inside) = ScoreMask::rows_inside(expansion, rows) else { return sink };
    let nothing = expansion.constant(f64::NEG_INFINITY, 4);
    expansion.pointwise(PointwiseMode::BinarySelect, &[sink, nothing, inside])
}

/// Extents of one value a row.
fn row_dim(x: &[i64]) -> Vec<i64> {
    let mut dim = x.to_vec();
    dim.iter_mut().rev().take(1).for_each(|extent| *extent = 1);
    dim
}

/// The larger of a value and a limit, NaN for NaN.
fn at_least(limit: f32) -> Pointwise {
    Pointwise { relu_lower_clip: Some(limit), ..Pointwise::new(PointwiseMode::ReluFwd) }
}

#[cfg(test)]
mod tests {
    use super::Softmax;
    use crate::graph::samples::{half_graph, input, refusal, shape_of};
    use crate::graph::{Attributes, Composite, DataType, FinalizedGraph, Graph, Operation, Port, Tensor};

    /// A scaled softmax with every port in use; Y stored.
    fn scaled(x: &[i64], sink: &[i64]) -> Graph {
        let mut graph = half_graph();
        let x = input(&mut graph, "x", x);
        let sink = graph.tensor(Tensor::new("sink").row_major(sink).data_type(DataType::Float));
        let twice = graph.pointwise("twice", crate::graph::PointwiseMode::Add, &[x, x]);
        let (y, statistics) = graph.softmax_with("s", twice, Some(sink), Softmax::STATISTICS);
        for id in [y].into_iter().chain(statistics) {
            graph.set_output(id);
        }
        graph
    }

    fn finalized() -> FinalizedGraph {
        scaled(&[2, 3, 4, 8], &[1, 3, 1, 1]).finalize().unwrap()
    }

    #[test]
    fn results_lie_as_x_does_and_statistics_are_float_rows() {
        let graph = finalized();
        assert_eq!(shape_of(&graph, "s::Y"), (&[2, 3, 4, 8][..], &[96, 32, 8, 1][..]));
        for name in ["s::Stats", "s::Max", "s::Sum_exp"] {
            assert_eq!(shape_of(&graph, name), (&[2, 3, 4, 1][..], &[12, 4, 1, 1][..]));
            let found = graph.tensors().find(|tensor| tensor.name == name);
            assert_eq!(found.map(|tensor| tensor.data_type), Some(DataType::Float), "{name}");
        }
        assert!(graph.text().contains("SOFTMAX(X=t1_add, SINK=t2) compute FLOAT -> output HALF"), "{}", graph.text());
    }

    #[test]
    fn shapes_that_do_not_fit_are_refused() {
        let sink = refusal(&scaled(&[2, 3, 4, 8], &[1, 3, 1, 8]));
        assert!(sink.contains("port SINK: extent 8 on axis 3; required 1"), "{sink}");
        assert!(refusal(&scaled(&[2, 3, 4, 8], &[1, 2, 1, 1])).contains("extent 2 on axis 1"));
        assert!(refusal(&scaled(&[2, 3, 4, 8], &[3, 1, 1])).contains("all must have the same rank"));
        let mut graph = scaled(&[2, 3, 4, 8], &[1, 3, 1, 1]);
        let y = graph.operations()[1].result().unwrap();
        graph.tensor_mut(y).dim = vec![2, 3, 4, 1];
        assert!(refusal(&graph).contains("required [2, 3, 4, 8]: those of X [SM-SHAPE]"));
        let mut graph = scaled(&[2, 3, 4, 8], &[1, 3, 1, 1]);
        let rows = graph.operations()[1].outputs[1].1;
        graph.tensor_mut(rows).dim = vec![2, 3, 4, 8];
        assert!(refusal(&graph).contains("port Stats: dims are [2, 3, 4, 8], required [2, 3, 4, 1]"));
    }

    #[test]
    fn which_statistics_are_asked_for_counts() {
        let key = |statistics: &[Port]| {
            let mut graph = half_graph();
            let x = input(&mut graph, "x", &[4, 8]);
            let (y, statistics) = graph.softmax_with("s", x, None, statistics);
            for id in [y].into_iter().chain(statistics) {
                graph.set_output(id);
            }
            graph.finalize().unwrap().key()
        };
        assert_eq!(key(&[Port::MAX, Port::STATS]), key(&[Port::STATS, Port::MAX]));
        assert_ne!(key(&[Port::MAX]), key(&[Port::STATS]));
        assert_ne!(key(&[Port::MAX]), key(&[]));
    }

    #[test]
    fn a_graph_without_composites_is_its_own_expansion() {
        let graph = crate::graph::samples::matmul_bias_relu().finalize().unwrap();
        assert!(matches!(graph.expand(), std::borrow::Cow::Borrowed(_)));
    }

    #[test]
    fn an_expansion_keeps_tensors_and_is_a_graph_of_primitives_in_double() {
        for graph in [finalized(), scaled(&[2, 3, 4, 1], &[1, 3, 1, 1]).finalize().unwrap()] {
            let expanded = graph.expand();
            let same = |id| graph.tensor(id) == expanded.tensor(id);
            assert!(graph.tensor_ids().all(same));
            let added = || expanded.tensor_ids().skip(graph.tensors().len()).map(|id| expanded.tensor(id));
            assert!(added().all(|tensor| tensor.is_virtual && tensor.data_type == DataType::Double));
            assert!(!expanded.operations().any(|operation| matches!(operation.attributes, Attributes::Composite(_))));
            assert_eq!(expanded.key(), graph.key());
            assert_eq!(expanded.outputs().collect::<Vec<_>>(), graph.outputs().collect::<Vec<_>>());
            assert_eq!(expanded.inputs().collect::<Vec<_>>(), graph.inputs().collect::<Vec<_>>());
            let again = expanded.to_graph().finalize().unwrap();
            assert!(again.notes().is_empty(), "{:?}", again.notes());
            assert_eq!(again.operations().len(), expanded.operations().len(), "nothing leads nowhere");
        }
    }

    #[test]
    fn statistics_that_nobody_reads_are_not_computed() {
        let expanded = |statistics: &[Port]| {
            let mut graph = half_graph();
            let x = input(&mut graph, "x", &[4, 8]);
            let (y, _) = graph.softmax_with("s", x, None, statistics);
            graph.set_output(y);
            graph.finalize().unwrap().expand().operations().len()
        };
        assert_eq!(expanded(Softmax::STATISTICS), expanded(&[]));
    }

    #[test]
    fn ports_are_those_of_the_definition() {
        let mut graph = half_graph();
        let x = input(&mut graph, "x", &[4, 8]);
        graph.operation(Operation {
            name: "s".to_owned(),
            attributes: Attributes::Composite(Composite::Softmax(Softmax)),
            compute_data_type: None,
            inputs: vec![(Port::X, x)],
            outputs: vec![(Port::MAX, x)],
        });
        assert!(refusal(&graph).contains("port Y has no tensor; required are Y"));
    }
}
