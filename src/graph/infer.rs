//! Inference of missing types, dims and strides, and the shape rules of every operation.
//!
//! What a frontend does to a logged graph (`spec/frontend-json.md` section 8), operation by operation in topological
//! order. A value that is present is never changed. After [`complete`] every tensor an operation names has a type,
//! dims and strides, and every operation's tensors fit each other.

mod attention;
mod convolution;
mod join;
mod layout;
mod matmul;
mod movement;
mod node;
mod norm;
mod pointwise;
mod reduction;
mod resample;
mod types;
mod values;

use node::Node;

use super::draft::Draft;
use super::{Attributes, OperationId, Port};
use crate::error::Malformed;

/// Completes and checks all operations; `order` is topological.
///
/// # Errors
/// `ATTRIBUTE_NOT_SET` and `SHAPE_DEDUCTION_FAILED` for what cannot be completed; the shape rules of
/// `spec/operations.md` for what does not fit.
pub(super) fn complete(draft: &mut Draft, order: &[OperationId]) -> Result<(), Malformed> {
    let mut is_checked = vec![false; draft.tensors.len()];
    for &id in order {
        arrange_ports(draft, id)?;
        types::complete(draft, id)?;
        values::widen_scalars(draft, id);
        values::check_given(draft, id, &mut is_checked)?;
        let operation = draft.operations[id.index()].clone();
        shape(&mut Node::new(draft, &operation, id))?;
        values::check_all(draft, id, &mut is_checked)?;
        check(&Node::new(draft, &operation, id))?;
    }
    Ok(())
}

/// Required inputs, optional inputs, required outputs, optional outputs; `None` for operations that are only carried.
type Ports = ([&'static [Port]; 2], [&'static [Port]; 2]);

fn ports(attributes: &Attributes) -> Option<Ports> {
    use super::ConvolutionDirection as Direction;
    const OVERRIDES: &[Port] = &[Port::M_OVERRIDE, Port::N_OVERRIDE, Port::K_OVERRIDE];
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
        Attributes::GenStats => ([&[Port::X], &[]], [&[Port::SUM, Port::SQ_SUM], &[]]),
        Attributes::ResampleForward(_) => ([&[Port::X], &[]], [&[Port::Y], &[Port::INDEX]]),
        Attributes::ResampleBackward(_) => ([&[Port::DY], &[Port::X, Port::Y, Port::INDEX]], [&[Port::DX], &[]]),
        Attributes::Signal(_) => ([&[Port::X, Port::FLAG], &[]], [&[], &[Port::Y]]),
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
            _ => norm::infer(node, other),
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
        Attributes::Other(other) => movement::check(node, other),
    }
}
