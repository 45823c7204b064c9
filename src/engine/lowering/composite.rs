//! Composite operations by their definitions: in passes over the tensors, or behind a core.

use std::borrow::Cow;
use std::sync::Arc;

use crate::fusion::{Core, Fusion, Stage, fuse};
use crate::graph::{Attributes, Composite, DataType, FinalizedGraph, NormPhase, Operation, OperationId, Port};
use crate::support::Supported;
use crate::support::records::composite::OP_COMPOSITE;

/// The fusion that kernels are made for: composite operations taken apart, what stands between their operations held in
/// registers and in the workspace as `FLOAT`.
///
/// # Errors
/// Why the graph is not computed so, as a sentence: what stands beside a composite operation is neither pointwise nor a
/// reduction, nor a core where a surface has both, or tensors have several ranks. The rules of the surfaces say nothing of such graphs.
pub(in crate::engine) fn taken_apart(supported: &Supported) -> Result<Cow<'_, Fusion>, String> {
    let (graph, fusion) = (supported.graph(), supported.fusion());
    if fusion.attention().is_some() || fusion.attention_backward().is_some() || fusion.mha().is_some() {
        return Err("the products of an attention, whose scores would be kept in memory".to_owned());
    }
    let Cow::Owned(expanded) = graph.expand_in(DataType::Float) else { return Ok(Cow::Borrowed(fusion)) };
    let is_documented = !supported.relaxed().contains(&&OP_COMPOSITE);
    if !matches!(fusion.core(), Core::None) && !is_documented {
        return Err("no kernels for composite operations beside a matmul or convolution".to_owned());
    }
    let is_strange = |&id: &OperationId| {
        let attributes = &graph.operation(id).attributes;
        fusion.stage(id) != Stage::Core && !is_pass(attributes) && !matches!(attributes, Attributes::Composite(_))
    };
    if let Some(id) = graph.operation_ids().find(is_strange) {
        return Err(format!("no kernels for composite operations beside {}", graph.operation(id).tag()));
    }
    if let Some(operation) = graph.operations().find(|operation| is_in_place(operation)) {
        return Err(format!("no kernels for {} in place: launches read what a later one would write", operation.tag()));
    }
    graph.operations().try_for_each(has_statistics)?;
    peers_are_apart(graph)?;
    have_one_rank(graph)?;
    let expanded = expanded.without_views()?.into_owned();
    fuse(Arc::new(expanded)).map(Cow::Owned).map_err(|misfit| misfit.to_string())
}

/// A norm for inference has no statistics to store (N-161); those of a batch norm are inputs.
fn has_statistics(operation: &Operation) -> Result<(), String> {
    let Attributes::Composite(Composite::NormForward(norm)) = &operation.attributes else { return Ok(()) };
    let stored = [Port::MEAN, Port::INV_VARIANCE].into_iter().find(|&port| operation.output(port).is_some());
    match stored.filter(|_| norm.phase == Some(NormPhase::Inference)) {
        Some(port) => Err(format!("no kernels for {}: phase INFERENCE has no {port} (N-161)", operation.tag())),
        None => Ok(()),
    }
}

/// Every tensor of peers takes the messages to one GPU, of one operation: others would be taken for these.
fn peers_are_apart(graph: &FinalizedGraph) -> Result<(), String> {
    let slots = |id| graph.operations().flat_map(|operation| &operation.inputs).filter(move |slot| slot.1 == id);
    match graph.tensor_ids().find(|&id| graph.is_of_peers(id) && slots(id).count() > 1) {
        Some(id) => Err(format!(
            "tensor {} of peers is read at several ports; required one for each GPU of each operation",
            graph.describe_tensor(id)
        )),
        None => Ok(()),
    }
}

fn is_in_place(operation: &Operation) -> bool {
    operation.output_tensors().any(|output| operation.input_tensors().any(|input| input == output))
}

fn is_pass(attributes: &Attributes) -> bool {
    matches!(attributes, Attributes::Pointwise(_) | Attributes::Reduction(_) | Attributes::GenStats)
}

/// Passes count along the axes that all tensors have.
fn have_one_rank(graph: &FinalizedGraph) -> Result<(), String> {
    let moved = graph.tensor_ids().filter(|&id| !graph.is_of_peers(id));
    let mut ranks = moved.map(|id| graph.tensor(id).dim.len());
    let first = ranks.next();
    match ranks.find(|&rank| Some(rank) != first) {
        Some(rank) => Err(format!("tensors of ranks {} and {rank} beside a composite operation", first.unwrap_or(0))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{ComputeCapability, Device};
    use crate::engine::{Decision, decide};
    use crate::graph::{
        BnBackwardWeights, BnFinalize, Convolution, ConvolutionDirection, Graph, NormBackward, NormForward, NormMode,
        PointwiseMode, Port, Scalar, Signal, SignalMode, Tensor,
    };
    use crate::support::SurfaceId;

    fn decided(graph: &Graph) -> Decision {
        decide(&Arc::new(graph.finalize().expect("well formed")), ComputeCapability::SM_90, &SurfaceId::ALL)
    }

    fn half() -> Graph {
        Graph::new()
            .io_data_type(DataType::Half)
            .intermediate_data_type(DataType::Float)
            .compute_data_type(DataType::Float)
    }

    /// Softmax of a tensor.
    fn softmax(x: Tensor) -> Graph {
        let mut graph = half();
        let x = graph.tensor(x);
        let y = graph.softmax("softmax", x);
        graph.set_output(y);
        graph
    }

    #[test]
    fn a_softmax_runs_beyond_the_surfaces_in_one_launch_of_rows() {
        let decision = decided(&softmax(Tensor::new("x").row_major([2, 8, 16])));
        assert_eq!(decision.report.surface(), None);
        let relaxed: Vec<&str> = decision.report.relaxed().iter().map(|rule| rule.id).collect();
        assert_eq!((relaxed, decision.engine().map(|engine| engine.name())), (vec!["OP-COMPOSITE"], Some("scalar")));
        let selection = decision.into_selection().expect("an engine takes it");
        let device = Device::typical(ComputeCapability::SM_90);
        let kernel = selection.lower(&selection.config(&device).expect("a config"), &device);
        let functions: Vec<&str> = kernel.functions.iter().map(|function| &*function.launch.function).collect();
        assert_eq!((functions, kernel.workspace_bytes), (vec!["fw_rows"], 0));
    }

    /// The functions of a group norm backward, of images that lie in an order.
    fn functions_of_groups(order: impl Fn(&str) -> Tensor, gradients: &[Port]) -> Vec<String> {
        let mut graph = half();
        let [dy, x] = ["dy", "x"].map(|name| graph.tensor(order(name)));
        let [scale, mean, inverse] = [("scale", [1, 64, 1, 1]), ("mean", [16, 16, 1, 1]), ("inverse", [16, 16, 1, 1])]
            .map(|(name, dim)| graph.tensor(Tensor::new(name).channels_last(dim).data_type(DataType::Float)));
        let inputs =
            [(Port::DY, dy), (Port::X, x), (Port::SCALE, scale), (Port::MEAN, mean), (Port::INV_VARIANCE, inverse)];
        for id in graph.composite("norm", NormBackward { mode: NormMode::groups(16) }, &inputs, gradients) {
            graph.set_output(id);
        }
        let device = Device::typical(ComputeCapability::SM_90);
        let selection = decided(&graph).into_selection().expect("an engine takes it");
        let kernel = selection.lower(&selection.config(&device).expect("a config"), &device);
        kernel.functions.iter().map(|function| function.launch.function.to_string()).collect()
    }

    #[test]
    fn groups_that_lie_side_by_side_are_rows_and_others_are_read_twice() {
        let dim = [16, 64, 56, 56];
        let row_major = |name: &str| Tensor::new(name).row_major(dim);
        let channels_last = |name: &str| Tensor::new(name).channels_last(dim);
        assert_eq!(functions_of_groups(row_major, &[Port::DX]), ["fw_rows"]);
        let both = &[Port::DX, Port::DSCALE];
        assert_eq!(functions_of_groups(row_major, both)[0], "fw_rows");
        let functions = functions_of_groups(channels_last, both);
        assert!(
            functions[0].starts_with("fw_reduction")
                && functions.last().is_some_and(|last| last.starts_with("fw_columns"))
        );
    }

    #[test]
    fn what_reads_sums_over_the_tiles_of_a_core_goes_with_their_combination() {
        let mut graph = half();
        let [dy, w, x] = [("dy", [2, 32, 8, 8]), ("W", [32, 16, 1, 1]), ("x", [2, 16, 8, 8])]
            .map(|(name, dim)| graph.tensor(Tensor::new(name).channels_last(dim)));
        let convolution = Convolution::new(ConvolutionDirection::BackwardData, 2);
        let gradient = graph.convolution("dgrad", convolution, [dy, w]);
        graph.tensor_mut(gradient).dim = vec![2, 16, 8, 8];
        let vector = |port: Port| Tensor::new(port.0).channels_last([1, 16, 1, 1]).data_type(DataType::Float);
        let [mean, inverse, scale, bias] =
            [Port::MEAN, Port::INV_VARIANCE, Port::SCALE, Port::BIAS].map(|port| graph.tensor(vector(port)));
        let steps = [
            ("sub", PointwiseMode::Sub, mean),
            ("inv", PointwiseMode::Mul, inverse),
            ("scale", PointwiseMode::Mul, scale),
        ];
        let scaled = steps.into_iter().fold(x, |value, (name, mode, side)| graph.pointwise(name, mode, &[value, side]));
        let y = graph.pointwise("y", PointwiseMode::Add, &[scaled, bias]);
        let dy_bn = graph.pointwise("drelu", PointwiseMode::ReluBwd, &[gradient, y]);
        graph.set_output(dy_bn);
        let inputs =
            [(Port::DY, dy_bn), (Port::X, x), (Port::SCALE, scale), (Port::MEAN, mean), (Port::INV_VARIANCE, inverse)];
        let results = [Port::DSCALE, Port::DBIAS, Port::EQ_BIAS, Port::EQ_SCALE_DY, Port::EQ_SCALE_X];
        for id in graph.composite("weights", BnBackwardWeights, &inputs, &results) {
            graph.set_output(id).data_type = Some(DataType::Float);
        }
        let device = Device::typical(ComputeCapability::SM_90);
        let selection = decided(&graph).into_selection().expect("an engine takes it");
        let kernel = selection.lower(&selection.config(&device).expect("a config"), &device);
        let functions: Vec<&str> = kernel.functions.iter().map(|function| &*function.launch.function).collect();
        assert_eq!(functions, ["fw_convolution_backward_data", "fw_combine_1"]);
    }

    #[test]
    fn statistics_of_sums_are_made_in_double_precision_and_stored_in_float() {
        let mut graph = half();
        let [sum, squares] = [Port::SUM, Port::SQ_SUM].map(|port| {
            (port, graph.tensor(Tensor::new(port.0).channels_last([1, 24, 1, 1]).data_type(DataType::Float)))
        });
        let [epsilon, count] = [Port::EPSILON, Port::ACCUM_COUNT]
            .map(|port| (port, graph.tensor(Tensor::scalar(port.0, DataType::Float, Scalar::Float(1.0)))));
        let inputs = [sum, squares, epsilon, count];
        for id in graph.composite("finalize", BnFinalize::default(), &inputs, &[Port::MEAN, Port::INV_VARIANCE]) {
            graph.set_output(id);
        }
        let device = Device::typical(ComputeCapability::SM_90);
        let selection = decided(&graph).into_selection().expect("an engine takes it");
        let kernel = selection.lower(&selection.config(&device).expect("a config"), &device);
        let text = crate::codegen::render(&kernel).expect("templates render").text;
        for part in ["= fw_sub_f64(", "= fw_max_f64(", "= fw_sqrt_f64(", "fw_to_f32("] {
            assert!(text.contains(part), "no {part} in {text}");
        }
        assert!(!text.contains("fw_sub("), "{text}");
    }

    #[test]
    fn norms_that_share_tensors_of_peers_are_refused() {
        let chain = |is_shared: bool| {
            let mut graph = half();
            let mut y = graph.tensor(Tensor::new("x").channels_last([2, 8, 4, 4]));
            let peer = |graph: &mut Graph| {
                graph.tensor(Tensor::new("peer").row_major([1, 32, 1, 1]).data_type(DataType::Float))
            };
            let first = peer(&mut graph);
            let second = if is_shared { first } else { peer(&mut graph) };
            for peer in [first, second] {
                let vector = |name| Tensor::new(name).channels_last([1, 8, 1, 1]).data_type(DataType::Float);
                let [scale, bias] = ["scale", "bias"].map(|name| graph.tensor(vector(name)));
                let epsilon = graph.tensor(Tensor::scalar("epsilon", DataType::Float, Scalar::Float(1e-3)));
                let inputs = [(Port::X, y), (Port::SCALE, scale), (Port::BIAS, bias), (Port::EPSILON, epsilon)];
                let inputs = [&inputs[..], &[(Port::PEER_STATS[0], peer)]].concat();
                let norm = NormForward::new(NormMode::Batch, NormPhase::Training);
                y = graph.composite("norm", norm, &inputs, &[Port::Y])[0];
            }
            graph.set_output(y);
            decided(&graph)
        };
        chain(false).into_selection().expect("each norm has peers of its own");
        let refusal = chain(true).into_selection().expect_err("messages of two norms").to_string();
        assert!(refusal.contains("of peers is read at several ports"), "{refusal}");
    }

    #[test]
    fn what_passes_do_not_compute_is_refused_with_the_reason() {
        let reason = |graph: &Graph| {
            let decision = decided(graph);
            assert!(decision.engine().is_none());
            decision.passed_over.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
        };
        let mut beside_matmul = half();
        let [a, b] = ["A", "B"].map(|name| beside_matmul.tensor(Tensor::new(name).row_major([1, 16, 16])));
        let c = beside_matmul.matmul("mm", a, b);
        let y = beside_matmul.softmax("softmax", c);
        beside_matmul.set_output(y);
        assert!(reason(&beside_matmul).contains("no kernels for composite operations beside a matmul"));
        let mut in_place = softmax(Tensor::new("x").row_major([2, 8, 16]));
        let operation = in_place.last_operation();
        operation.outputs[0].1 = operation.inputs[0].1;
        assert!(reason(&in_place).contains("no kernels for SOFTMAX in place"), "{}", reason(&in_place));
        let mut of_ranks = softmax(Tensor::new("x").row_major([2, 8, 16]));
        let other = of_ranks.tensor(Tensor::new("other").row_major([4]));
        let other = of_ranks.softmax("other", other);
        of_ranks.set_output(other);
        assert!(reason(&of_ranks).contains("tensors of ranks 3 and 1"), "{}", reason(&of_ranks));
        let mut signalled = softmax(Tensor::new("x").row_major([2, 8, 16]));
        let y = signalled.operations()[0].result().expect("Y");
        let flag = signalled.tensor(Tensor::new("flag").row_major([1, 1, 1]).data_type(DataType::Int32));
        signalled.operation(Operation {
            name: "done".to_owned(),
            attributes: Attributes::Signal(Signal { mode: SignalMode::Set, value: 1 }),
            compute_data_type: None,
            inputs: vec![(Port::X, y), (Port::FLAG, flag)],
            outputs: Vec::new(),
        });
        assert!(reason(&signalled).contains("beside SIGNAL"), "{}", reason(&signalled));
        let mut in_half = softmax(Tensor::new("x").row_major([2, 8, 16]));
        in_half.last_operation().compute_data_type = Some(DataType::Half);
        assert!(reason(&in_half).contains("no kernels for"), "{}", reason(&in_half));
    }
}
