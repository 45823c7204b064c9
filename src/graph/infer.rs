//! Inference of missing types, dims and strides, and the shape rules of every operation.
//!
//! What a frontend does to a logged graph (`docs/spec/frontend-json.md` section 8), operation by operation in topological
//! order. A value that is present is never changed. After [`complete`] every tensor an operation names has a type,
//! dims and strides, and every operation's tensors fit each other.

mod advice;
pub(in crate::graph) mod attention;
mod convolution;
mod join;
mod layout;
mod matmul;
mod movement;
mod node;
mod pointwise;
mod reduction;
mod resample;
mod types;
mod values;

pub(super) use layout::Layout;
pub(super) use node::Node;
pub(super) use reduction::channel_vector;

use super::defects::Defects;
use super::draft::Draft;
use super::{Attributes, Operation, OperationId, Port};
use crate::graph::Malformed;

/// Completes and checks all operations; `order` is topological. Defects are `ATTRIBUTE_NOT_SET` and
/// `SHAPE_DEDUCTION_FAILED` for what cannot be completed, and the shape rules of `docs/spec/operations.md` for what does not
/// fit.
pub(super) fn complete(draft: &mut Draft, order: &[OperationId], defects: &mut Defects) {
    let mut is_checked = vec![false; draft.tensors.len()];
    for &id in order {
        if let Err(defect) = arrange_ports(draft, id) {
            defects.doubt(draft, id, Some(&defect));
            defects.add(defect);
            continue;
        }
        types::complete(draft, id, defects);
        values::widen_scalars(draft, id);
        values::check_given(draft, id, &mut is_checked, defects);
        if defects.touch(draft, id) {
            check_apart(draft, id, defects);
            defects.doubt(draft, id, None);
        } else if let Err(defect) = complete_shape(draft, id, &mut is_checked, defects) {
            defects.doubt(draft, id, Some(&defect));
            defects.add(defect);
        }
    }
}

/// Fills in and checks the dims and strides of an operation whose inputs are beyond doubt.
fn complete_shape(
    draft: &mut Draft,
    id: OperationId,
    is_checked: &mut [bool],
    defects: &mut Defects,
) -> Result<(), Malformed> {
    let operation = draft.operations[id.index()].clone();
    shape(&mut Node::new(draft, &operation, id))?;
    values::check_all(draft, id, is_checked, defects);
    if defects.touch(draft, id) { Ok(()) } else { check(&Node::new(draft, &operation, id)) }
}

/// Checks an operation that takes a node's place: what a node's own rules leave open its operations may not.
pub(super) fn check_replacement(draft: &mut Draft, id: OperationId, operation: &Operation) -> Result<(), Malformed> {
    check(&Node::new(draft, operation, id))
}

/// What can be said of an operation though tensors of it are in doubt: what concerns the others alone.
fn check_apart(draft: &mut Draft, id: OperationId, defects: &mut Defects) {
    let operation = draft.operations[id.index()].clone();
    // The outputs first: an input that does not fit them is the one to blame.
    let certain = operation.outputs.iter().chain(&operation.inputs).filter(|slot| !defects.is_suspect(slot.1));
    let certain: Vec<Port> = certain.map(|slot| slot.0).collect();
    let node = Node::new(draft, &operation, id);
    let checked = match &operation.attributes {
        Attributes::Pointwise(_) => pointwise::check_apart(&node, &certain),
        Attributes::Convolution(convolution) => convolution::check_parameters(&node, convolution),
        _ => Ok(()),
    };
    defects.note(checked);
}

/// Required inputs, optional inputs, required outputs, optional outputs; `None` for operations that are only carried.
pub(super) type Ports = ([&'static [Port]; 2], [&'static [Port]; 2]);

fn ports(attributes: &Attributes) -> Option<Ports> {
    use super::ConvolutionDirection as Direction;
    const OVERRIDES: &[Port] = &[Port::M_OVERRIDE, Port::N_OVERRIDE, Port::K_OVERRIDE, Port::BLOCK_MASK];
    const POINTWISE: &[Port] = &[Port::IN_0, Port::IN_1, Port::IN_2];
    Some(match attributes {
        Attributes::Matmul(_) => ([&[Port::A, Port::B], OVERRIDES], [&[Port::C], &[]]),
        Attributes::Convolution(convolution) => match convolution.direction {
            Direction::Forward => ([&[Port::X, Port::W], &[]], [&[Port::Y], &[]]),
            Direction::BackwardData => ([&[Port::DY, Port::W], &[]], [&[Port::DX], &[]]),
            Direction::BackwardFilter => ([&[Port::DY, Port::X], &[]], [&[Port::DW], &[]]),
        },
        Attributes::Pointwise(pointwise) => ([&POINTWISE[..pointwise.mode.inputs()], &[]], [&[Port::OUT_0], &[]]),
        Attributes::Reduction(_) => ([&[Port::X], &[]], [&[Port::Y], &[]]),
        Attributes::View | Attributes::Transpose => ([&[Port::X], &[]], [&[Port::Y], &[]]),
        Attributes::AllGather(_) => ([&[Port::X], &Port::PEER_STATS], [&[Port::Y], &[]]),
        Attributes::Bernoulli(_) => ([&[Port::SEED, Port::OFFSET], &[]], [&[Port::Y], &[]]),
        Attributes::PageGather => ([&[Port::CONTAINER, Port::SEQ_LEN, Port::PAGE_TABLE], &[]], [&[Port::Y], &[]]),
        Attributes::BlockBits => ([&[Port::BLOCK_MASK], &[]], [&[Port::Y], &[]]),
        Attributes::GenStats => ([&[Port::X], &[]], [&[Port::SUM, Port::SQ_SUM], &[]]),
        Attributes::ResampleForward(_) => ([&[Port::X], &[]], [&[Port::Y], &[Port::INDEX]]),
        Attributes::ResampleBackward(_) => ([&[Port::DY], &[Port::X, Port::Y, Port::INDEX]], [&[Port::DX], &[]]),
        Attributes::Signal(_) => ([&[Port::X, Port::FLAG], &[]], [&[], &[Port::Y]]),
        Attributes::Composite(composite) => composite.definition().ports(),
        Attributes::Concat(_) | Attributes::Other(_) => return None,
    })
}

/// Puts the ports in the order of the operation's definition, so that the order in which a file lists them is nothing.
fn arrange_ports(draft: &mut Draft, id: OperationId) -> Result<(), Malformed> {
    let operation = &draft.operations[id.index()];
    let Some((inputs, outputs)) = ports(&operation.attributes) else { return Ok(()) };
    let inputs = arranged(&operation.inputs, inputs).map_err(|message| draft.fault("GR-PORTS", id, None, message))?;
    let outputs =
        arranged(&operation.outputs, outputs).map_err(|message| draft.fault("GR-PORTS", id, None, message))?;
    let operation = &mut draft.operations[id.index()];
    (operation.inputs, operation.outputs) = (inputs, outputs);
    Ok(())
}

type Slot = (Port, super::TensorId);

fn arranged(slots: &[Slot], [required, optional]: [&[Port]; 2]) -> Result<Vec<Slot>, String> {
    let found = |port: &Port| slots.iter().find(|slot| slot.0 == *port).copied();
    if let Some(missing) = required.iter().find(|port| found(port).is_none()) {
        return Err(format!("port {missing} has no tensor; required are {}", list(required)));
    }
    let arranged: Vec<Slot> = required.iter().chain(optional).filter_map(found).collect();
    if arranged.len() < slots.len() {
        let given: Vec<Port> = slots.iter().map(|slot| slot.0).collect();
        return Err(format!("has ports {}; it takes {} once each", list(&given), list(&[required, optional].concat())));
    }
    Ok(arranged)
}

fn list(ports: &[Port]) -> String {
    ports.iter().map(|port| port.0).collect::<Vec<_>>().join(", ")
}

/// Fills in the dims and strides that follow from the rest.
fn shape(node: &mut Node) -> Result<(), Malformed> {
    match &node.operation.attributes {
        Attributes::Matmul(_) => matmul::infer(node),
        Attributes::Convolution(convolution) => convolution::infer(node, convolution),
        Attributes::Pointwise(_) => pointwise::infer(node),
        Attributes::Reduction(_) => reduction::infer(node),
        Attributes::GenStats => reduction::infer_genstats(node),
        Attributes::ResampleForward(resample) => resample::infer_forward(node, resample),
        Attributes::ResampleBackward(_) => resample::infer_backward(node),
        Attributes::Concat(concat) => join::infer_concat(node, concat),
        Attributes::Signal(_) => join::infer_signal(node),
        Attributes::View | Attributes::Transpose | Attributes::AllGather(_) => Ok(()),
        Attributes::Bernoulli(_) | Attributes::PageGather | Attributes::BlockBits => Ok(()),
        Attributes::Composite(composite) => composite.definition().infer(node),
        Attributes::Other(other) => match other.tag {
            "RESHAPE"
            | "TRANSPOSE"
            | "SLICE"
            | "RNG"
            | "BLOCK_SCALE_QUANTIZE"
            | "BLOCK_SCALE_DEQUANTIZE"
            | "ROPE"
            | "ROPE_BWD"
            | "MOE_GROUPED_MATMUL" => movement::infer(node, other),
            "MATMUL_FP8" => matmul::infer_fp8(node),
            tag if tag.starts_with("SDPA") => attention::infer(node),
            _ => Ok(()),
        },
    }
}

/// Checks complete tensors against the shape rules of the operation.
fn check(node: &Node) -> Result<(), Malformed> {
    match &node.operation.attributes {
        Attributes::Matmul(_) => matmul::check(node),
        Attributes::Convolution(convolution) => convolution::check(node, convolution),
        Attributes::Pointwise(pointwise) => pointwise::check(node, pointwise),
        Attributes::Reduction(_) => reduction::check(node),
        Attributes::GenStats => reduction::check_genstats(node),
        Attributes::ResampleForward(resample) => resample::check(node, resample, Port::X, Port::Y),
        Attributes::ResampleBackward(resample) => resample::check(node, resample, Port::DX, Port::DY),
        Attributes::Concat(concat) => join::check_concat(node, concat),
        Attributes::Signal(_) => join::check_signal(node),
        Attributes::View => movement::check_reshape(node),
        Attributes::Transpose | Attributes::AllGather(_) => Ok(()),
        Attributes::Bernoulli(_) | Attributes::PageGather | Attributes::BlockBits => Ok(()),
        Attributes::Composite(composite) => composite.definition().check(node),
        Attributes::Other(other) if ["SDPA", "SDPA_FP8_FWD"].contains(&other.tag) => attention::check(node),
        Attributes::Other(other) if ["SDPA_BWD", "SDPA_FP8_BWD"].contains(&other.tag) => {
            attention::check_backward(node)
        }
        Attributes::Other(other) => movement::check(node, other),
    }
}

/// The graphs of frontend-json.md section 11, built by hand, with the values stated below each.
#[cfg(test)]
mod tests {
    use super::super::samples::{half_graph, image, input, matmul_bias_relu, other, refusal, shape_of};
    use super::super::{Convolution, ConvolutionDirection, DataType, Graph, Other, PointwiseMode, Tensor};
    use super::*;

    #[test]
    fn example_1_matmul_bias_gelu() {
        let mut graph = half_graph().io_data_type(DataType::BFloat16);
        let a = graph.tensor(Tensor::new("A").uid(1).row_major([8, 48, 96]));
        let b = graph.tensor(Tensor::new("B").uid(2).dim([8, 96, 160]).stride([15360, 1, 96]));
        let bias = graph.tensor(Tensor::new("bias").uid(3).dim([1, 1, 160]).stride([160, 160, 1]));
        let c = graph.matmul("mm", a, b);
        let biased = graph.pointwise("add", PointwiseMode::Add, &[c, bias]);
        let y = graph.pointwise("act", PointwiseMode::GeluFwd, &[biased]);
        graph.set_output(y).uid = Some(4);
        let finalized = graph.finalize().unwrap();
        for name in ["mm::C", "add::OUT_0", "act::OUT_0"] {
            assert_eq!(shape_of(&finalized, name), (&[8, 48, 160][..], &[7680, 160, 1][..]), "{name}");
        }
        let types: Vec<DataType> =
            finalized.operations().flat_map(|op| op.result()).map(|id| finalized.tensor(id).data_type).collect();
        assert_eq!(types, [DataType::Float, DataType::Float, DataType::BFloat16]);
        assert!(finalized.operation_ids().all(|id| finalized.compute_type(id) == DataType::Float));
    }

    #[test]
    fn example_2_convolution_and_statistics() {
        let mut graph = half_graph().intermediate_data_type(DataType::Half);
        let x = image(&mut graph, "X", &[4, 64, 16, 16]);
        let [s, t] = ["S", "T"].map(|name| graph.tensor(Tensor::new(name).dim([1, 64, 1, 1]).stride([64, 1, 64, 64])));
        let w = image(&mut graph, "W", &[32, 64, 3, 3]);
        let scaled = graph.pointwise("scale", PointwiseMode::Mul, &[x, s]);
        let shifted = graph.pointwise("shift", PointwiseMode::Add, &[scaled, t]);
        let relu = graph.pointwise("relu", PointwiseMode::ReluFwd, &[shifted]);
        let attributes = Convolution::new(ConvolutionDirection::Forward, 2).padding([1, 1]);
        let y = graph.convolution("conv", attributes, [relu, w]);
        let (sum, sq_sum) = graph.genstats("stats", y);
        for id in [y, sum, sq_sum] {
            graph.set_output(id);
        }
        let finalized = graph.finalize().unwrap();
        for name in ["scale::OUT_0", "shift::OUT_0", "relu::OUT_0"] {
            assert_eq!(shape_of(&finalized, name), (&[4, 64, 16, 16][..], &[16384, 1, 1024, 64][..]), "{name}");
        }
        assert_eq!(shape_of(&finalized, "conv::Y"), (&[4, 32, 16, 16][..], &[8192, 1, 512, 32][..]));
        for name in ["stats::SUM", "stats::SQ_SUM"] {
            assert_eq!(shape_of(&finalized, name), (&[1, 32, 1, 1][..], &[32, 1, 32, 32][..]), "{name}");
        }
    }

    #[test]
    fn example_3_attention() {
        let mut graph = half_graph();
        let [q, k, v] = ["q", "k", "v"].map(|name| input(&mut graph, name, &[3, 4, 1024, 128]));
        let attributes = Attributes::Other(Other { tag: "SDPA", attributes: [].into() });
        other(&mut graph, attributes, &[("Q", q), ("K", k), ("V", v)], &["O", "Stats"]);
        assert!(
            refusal(&graph).contains("tensor 'O': dims must be given; they cannot be inferred [ATTRIBUTE_NOT_SET]")
        );
        let o = graph.operations[0].result().unwrap();
        *graph.tensor_mut(o) = Tensor::new("O").row_major([3, 4, 1024, 128]);
        let finalized = graph.finalize().unwrap();
        assert_eq!(shape_of(&finalized, "Stats"), (&[3, 4, 1024, 1][..], &[4096, 1024, 1, 1][..]));
    }

    #[test]
    fn example_4_one_operation() {
        let mut graph = Graph::new().io_data_type(DataType::Half).compute_data_type(DataType::Float);
        let x = input(&mut graph, "x", &[2, 3, 4]);
        let y = graph.pointwise("r", PointwiseMode::ReluFwd, &[x]);
        graph.set_output(y);
        let finalized = graph.finalize().unwrap();
        assert_eq!(shape_of(&finalized, "r::OUT_0"), (&[2, 3, 4][..], &[12, 4, 1][..]));
    }

    #[test]
    fn what_was_completed_is_noted() {
        let mut graph = half_graph();
        let x = image(&mut graph, "x", &[1, 8, 4, 4]);
        let w = image(&mut graph, "w", &[8, 8, 1, 1]);
        let y = graph.convolution("conv", Convolution::new(ConvolutionDirection::Forward, 2), [x, w]);
        graph.set_output(y).dim = vec![1, 8, 4, 4];
        let finalized = graph.finalize().unwrap();
        let expected = "strides of 'conv::Y' were not given; inferred strides [128, 1, 32, 8] (NHWC-packed)";
        assert_eq!(finalized.notes(), [expected]);
    }

    #[test]
    fn given_values_are_kept() {
        let mut graph = matmul_bias_relu();
        let c = graph.operations[0].result().unwrap();
        graph.tensor_mut(c).stride = vec![8192, 1, 64];
        graph.tensor_mut(c).data_type = Some(DataType::BFloat16);
        let finalized = graph.finalize().unwrap();
        assert_eq!(shape_of(&finalized, "mm::C"), (&[1, 64, 128][..], &[8192, 1, 64][..]));
        assert_eq!(finalized.tensors().filter(|tensor| tensor.data_type == DataType::BFloat16).count(), 1);
    }

    #[test]
    fn the_order_of_ports_in_a_file_is_nothing() {
        let mut graph = matmul_bias_relu();
        graph.operations[0].inputs.reverse();
        graph.operations[1].inputs.reverse();
        assert_eq!(graph.finalize().unwrap().key(), matmul_bias_relu().finalize().unwrap().key());
    }

    #[test]
    fn ports_are_those_of_the_definition() {
        let edit = |edit: fn(&mut super::super::Operation<super::super::TensorHandle>)| {
            let mut graph = matmul_bias_relu();
            edit(&mut graph.operations[1]);
            refusal(&graph)
        };
        let missing = edit(|add| add.inputs.truncate(1));
        assert!(
            missing.contains("'add' (POINTWISE, node 1): port IN_1 has no tensor; required are IN_0, IN_1 [GR-PORTS]"),
            "{missing}"
        );
        let twice = edit(|add| add.inputs.push(add.inputs[0]));
        assert!(twice.contains("has ports IN_0, IN_1, IN_0; it takes IN_0, IN_1 once each"), "{twice}");
        let too_many = edit(|add| add.inputs.push((Port::IN_2, add.inputs[0].1)));
        assert!(too_many.contains("has ports IN_0, IN_1, IN_2"), "{too_many}");
        let no_result = edit(|add| add.outputs.clear());
        assert!(
            no_result.contains("port OUT_0 has no tensor") || no_result.contains("GR-VIRTUAL-PRODUCER"),
            "{no_result}"
        );
    }
}
