//! Graphs in another size.

use crate::error::Error;
use crate::graph::{AxisClasses, FinalizedGraph, TensorId};

/// The same graph with another extent of an axis of a tensor, and of every axis whose extent has to be the same: the rows of a matmul's A are those
/// of C, and of what is added to C. Axes are those of the finalized graph. Packed tensors stay packed in the same order of axes; others keep their
/// strides.
///
/// # Errors
/// [`Error::Input`] that names the tensor, where it has no such axis, or one whose extent is 1 (tensors broadcast along it), or belongs to what the
/// graph is: taps of a filter, what a view makes other axes of, sequences of ragged tensors. [`Error::Malformed`] where no such graph exists.
pub fn with_extent(
    graph: &FinalizedGraph,
    (id, axis): (TensorId, usize),
    extent: i64,
) -> Result<FinalizedGraph, Error> {
    let tensor = graph.tensor(id);
    let fault = |message: String| Error::input(format!("tensor {}", graph.describe_tensor(id)), message);
    match tensor.dim.get(axis) {
        None => return Err(fault(format!("dims {:?} have no axis {axis}", tensor.dim))),
        Some(1) => return Err(fault(format!("axis {axis} has extent 1, along which it broadcasts"))),
        Some(_) => {}
    }
    let mut classes = AxisClasses::of(graph);
    let class = classes.free(id.handle(), axis);
    let class = class.ok_or_else(|| fault(format!("the extent of axis {axis} belongs to what the graph is")))?;
    let mut resized = graph.to_graph();
    let handles: Vec<_> = graph.tensor_ids().map(TensorId::handle).collect();
    classes.set_extent(&mut resized, &handles, class, extent);
    Ok(resized.finalize()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Convolution, ConvolutionDirection, DataType, Graph, PointwiseMode, Tensor};

    fn layer() -> FinalizedGraph {
        let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
        graph.intermediate_data_type = Some(DataType::Float);
        let a = graph.tensor(Tensor::new("a").row_major([1, 64, 32]));
        let b = graph.tensor(Tensor::new("b").dim([1, 32, 48]).stride([1536, 1, 32]));
        let residual = graph.tensor(Tensor::new("residual").row_major([1, 64, 48]));
        let c = graph.matmul("mm", a, b);
        let y = graph.pointwise("sum", PointwiseMode::Add, &[c, residual]);
        graph.set_output(y);
        graph.finalize().unwrap()
    }

    fn by_name(graph: &FinalizedGraph, name: &str) -> TensorId {
        graph.tensor_ids().find(|&id| graph.tensor(id).name == name).unwrap()
    }

    #[test]
    fn axes_of_one_extent_follow() {
        let graph = layer();
        for rows in [1, 5, 64, 4096] {
            let resized = with_extent(&graph, (by_name(&graph, "a"), 1), rows).unwrap();
            let shape = |name| {
                let tensor = resized.tensor(by_name(&resized, name));
                (tensor.dim.clone(), tensor.stride.clone())
            };
            assert_eq!(shape("a"), (vec![1, rows, 32], vec![rows * 32, 32, 1]));
            assert_eq!(shape("b"), (vec![1, 32, 48], vec![1536, 1, 32]));
            assert_eq!(shape("residual"), (vec![1, rows, 48], vec![rows * 48, 48, 1]));
            assert_eq!(shape("sum::OUT_0").0, [1, rows, 48]);
        }
    }

    #[test]
    fn what_cannot_have_another_extent_is_named() {
        let graph = layer();
        let why = |axis| with_extent(&graph, (by_name(&graph, "a"), axis), 7).unwrap_err().to_string();
        assert!(why(3).contains("tensor 'a'") && why(3).contains("have no axis 3"), "{}", why(3));
        assert!(why(0).contains("axis 0 has extent 1"), "{}", why(0));
        let negative = with_extent(&graph, (by_name(&graph, "a"), 1), -7).unwrap_err();
        assert!(negative.to_string().contains("malformed"), "{negative}");
        let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
        let image = |name: &str, dim: [i64; 4]| {
            Tensor::new(name).dim(dim).stride([dim[1] * dim[2] * dim[3], 1, dim[3] * dim[1], dim[1]])
        };
        let x = graph.tensor(image("x", [4, 16, 8, 8]));
        let w = graph.tensor(image("w", [16, 16, 3, 3]));
        let attributes = Convolution::new(ConvolutionDirection::Forward, 2).padding([1, 1]);
        let y = graph.convolution("conv", attributes, [x, w]);
        graph.set_output(y);
        let graph = graph.finalize().unwrap();
        let taps = with_extent(&graph, (by_name(&graph, "w"), 2), 5).unwrap_err().to_string();
        assert!(taps.contains("tensor 'w'") && taps.contains("belongs to what the graph is"), "{taps}");
        let batches = with_extent(&graph, (by_name(&graph, "x"), 0), 9).unwrap();
        assert_eq!(batches.tensor(by_name(&batches, "conv::Y")).dim, [9, 16, 8, 8]);
    }
}
