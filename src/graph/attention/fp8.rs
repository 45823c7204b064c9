//! Scaling of an attention in FP8 (AT-O19, AT-P33): scores are multiplied by what Q and K were divided by, probabilities and O by factors of
//! the caller's, and the largest magnitudes of these are kept.

use super::Lowering;
use crate::graph::{
    Attributes, DataType, Operation, Pointwise, PointwiseMode, Port, Reduction, ReductionMode, TensorId,
};

/// Ports of the numbers.
pub(super) const FACTORS: [Port; 6] =
    [Port::DESCALE_Q, Port::DESCALE_K, Port::DESCALE_V, Port::DESCALE_S, Port::SCALE_S, Port::SCALE_O];

/// Ports of the largest magnitudes.
pub(super) const LARGEST: [Port; 2] = [Port::AMAX_S, Port::AMAX_O];

/// Whether a node stores the largest magnitude of what it computes, or multiplies it by a number, behind a product.
pub(super) fn scales(node: &Operation, factors: &[Port], largest: Port) -> bool {
    node.output(largest).is_some() || factors.iter().any(|&port| node.input(port).is_some())
}

/// Adds the operations that multiply a value by the numbers of ports, as far as there are some; gives what they make of it.
pub(super) fn multiplied(lowering: &mut Lowering, mut x: TensorId, ports: &[Port]) -> TensorId {
    for &port in ports {
        let Some(number) = lowering.input(port) else { continue };
        let dim = lowering.draft.tensor(x).dim.clone();
        let y = lowering.value(port.0, &dim, DataType::Float);
        multiply(lowering, port.0, [x, number], y);
        x = y;
    }
    x
}

/// Adds the operations that multiply a value by the number of a port, if there is one, into a result.
pub(super) fn result(lowering: &mut Lowering, x: TensorId, port: Port, y: TensorId) {
    match lowering.input(port) {
        Some(number) => multiply(lowering, port.0, [x, number], y),
        None => {
            let attributes = Attributes::Pointwise(Pointwise::new(PointwiseMode::Identity));
            lowering.push(port.0, attributes, vec![(Port::IN_0, x)], vec![(Port::OUT_0, y)]);
        }
    }
}

/// Adds the operation that keeps the largest magnitude of a value, where the node's port wants it.
pub(super) fn keep_largest(lowering: &mut Lowering, x: TensorId, port: Port) {
    if let Some(largest) = lowering.node.output(port) {
        let attributes = Attributes::Reduction(Reduction::new(ReductionMode::Amax));
        lowering.push(port.0, attributes, vec![(Port::X, x)], vec![(Port::Y, largest)]);
    }
}

fn multiply(lowering: &mut Lowering, name: &str, [x, number]: [TensorId; 2], y: TensorId) {
    let attributes = Attributes::Pointwise(Pointwise::new(PointwiseMode::Mul));
    lowering.push(name, attributes, vec![(Port::IN_0, x), (Port::IN_1, number)], vec![(Port::OUT_0, y)]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Composite, FinalizedGraph, Graph, Other, Scalar, ScoreMask, Softmax, Tensor, TensorHandle};

    const HEADS: [i64; 4] = [1, 2, 32, 64];
    const TYPE: DataType = DataType::Fp8E4M3;

    fn graph() -> Graph {
        Graph::new().io_data_type(TYPE).intermediate_data_type(DataType::Float).compute_data_type(DataType::Float)
    }

    fn heads(name: &str) -> Tensor {
        Tensor::new(name).row_major(HEADS)
    }

    fn numbers(graph: &mut Graph) -> [TensorHandle; 6] {
        FACTORS.map(|port| graph.tensor(Tensor::new(port.0).row_major([1; 4]).data_type(DataType::Float)))
    }

    fn keep(graph: &mut Graph, id: TensorHandle, dim: [i64; 4], data_type: DataType) {
        let output = graph.set_output(id);
        *output = Tensor { is_virtual: false, ..Tensor::new("output").row_major(dim).data_type(data_type) };
    }

    fn of_node() -> FinalizedGraph {
        let mut graph = graph();
        let [q, k, v] = ["Q", "K", "V"].map(|name| graph.tensor(heads(name)));
        let numbers = FACTORS.into_iter().zip(numbers(&mut graph));
        let attributes = [("attn_scale_value", serde_json::json!(0.125)), ("right_bound", serde_json::json!(0))];
        let attributes = attributes.map(|(key, value)| (key.to_owned(), value)).into();
        let attributes = Attributes::Other(Other { tag: super::super::FP8_FORWARD, attributes });
        let inputs = [(Port::Q, q), (Port::K, k), (Port::V, v)].into_iter().chain(numbers).collect();
        let results = [Port::O, Port::STATS, Port::AMAX_S, Port::AMAX_O];
        let names = ["O", "Stats", "Amax_S", "Amax_O"];
        let outputs: Vec<(Port, TensorHandle)> =
            results.into_iter().zip(names.map(|name| graph.tensor(Tensor::new(name)))).collect();
        let shapes =
            [(HEADS, TYPE), ([1, 2, 32, 1], DataType::Float), ([1; 4], DataType::Float), ([1; 4], DataType::Float)];
        for (&(_, id), (dim, data_type)) in outputs.iter().zip(shapes) {
            keep(&mut graph, id, dim, data_type);
        }
        graph.operation(Operation { name: "node".to_owned(), attributes, compute_data_type: None, inputs, outputs });
        graph.finalize().expect("well formed")
    }

    /// The same by operations, whose operands may be swapped.
    fn of_operations(is_swapped: bool) -> FinalizedGraph {
        let mut graph = graph();
        let [q, k, v] = ["Q", "K", "V"].map(|name| graph.tensor(heads(name)));
        let [descale_q, descale_k, descale_v, descale_s, scale_s, scale_o] = numbers(&mut graph);
        let turned = graph.tensor_mut(k);
        (turned.dim, turned.stride) = (vec![1, 2, 64, 32], vec![4096, 2048, 1, 64]);
        let times = |graph: &mut Graph, x, number| {
            let operands = if is_swapped { [number, x] } else { [x, number] };
            graph.pointwise("times", PointwiseMode::Mul, &operands)
        };
        let largest = |graph: &mut Graph, x| {
            let y = graph.reduction("largest", ReductionMode::Amax, x, [1; 4]);
            keep(graph, y, [1; 4], DataType::Float);
        };
        let scale = Tensor::scalar("scale", DataType::Float, Scalar::Float(0.125));
        let scale = graph.tensor(Tensor { dim: vec![1; 4], stride: vec![1; 4], ..scale });
        let mut x = graph.matmul("scores", q, k);
        for number in [scale, descale_q, descale_k] {
            x = times(&mut graph, x, number);
        }
        let causal = ScoreMask { right_bound: Some(0), ..ScoreMask::default() };
        let masked = graph.composite("mask", causal, &[(Port::X, x)], &[Port::Y])[0];
        let rows =
            graph.composite("softmax", Composite::Softmax(Softmax), &[(Port::X, masked)], &[Port::Y, Port::STATS]);
        keep(&mut graph, rows[1], [1, 2, 32, 1], DataType::Float);
        largest(&mut graph, rows[0]);
        let p = times(&mut graph, rows[0], scale_s);
        graph.tensor_mut(p).data_type = Some(TYPE);
        let mut o = graph.matmul("values", p, v);
        for number in [descale_s, descale_v] {
            o = times(&mut graph, o, number);
        }
        largest(&mut graph, o);
        let o = times(&mut graph, o, scale_o);
        keep(&mut graph, o, HEADS, TYPE);
        graph.finalize().expect("well formed")
    }

    #[test]
    fn a_node_and_its_operations_are_one_graph() {
        let node = of_node();
        assert!(node.notes().is_empty(), "{:?}", node.notes());
        for is_swapped in [false, true] {
            let operations = of_operations(is_swapped);
            assert_eq!(operations.text(), node.text(), "swapped: {is_swapped}");
            assert_eq!(operations.key(), node.key(), "swapped: {is_swapped}");
        }
    }
}
