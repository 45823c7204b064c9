//! The engine that runs on every chip from sm_70 on: pointwise and reduction graphs at memory speed, matmul with any
//! mainloop and epilogue DAG on plain multiply-adds.
//!
//! It evaluates a stage value by value at each point of an iteration space, so it takes any DAG, any mix of types
//! and layouts, and any extents.

mod matmul;
mod pass;
mod sweep;

use super::{Engine, EngineConfig, Knob};
use crate::device::{ComputeCapability, Device};
use crate::fusion::{Fusion, Pattern};
use crate::graph::{Attributes, DataType, FinalTensor, FinalizedGraph, Operation, PointwiseMode, Port, TensorId};
use crate::kernel::{Kernel, has_integer_form};
use crate::support::{Supported, is_disjoint};

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Surface70;

const NAME: &str = "surface70";

/// What evaluation point by point does not need: vector alignment and packing, one layout for all tensors, full-size
/// first operands, listed dims and reductions, and the pairing of types with chips. Each is broken by a case of the
/// tiers' tests, which see to that.
const RELAXED: &[&str] = &[
    "S70-CC",
    "S70-NO-MIXED",
    "S70-DTYPE-INPUT",
    "S70-DTYPE-CORE-IN",
    "S70-DTYPE-FP8-PW-ONLY",
    "S70-DTYPE-BOOL-NOT-INPUT",
    "S70-CT-PW",
    "S70-COMB-BF16",
    "S70-G1-CC",
    "S70-G1-ALIGN-32",
    "S70-G1-BCAST-FIRST",
    "S70-MM-G1-A",
    "S70-MM-G1-A-HALF",
    "S70-MM-G1A-DIMS",
    "S70-MM-G1A-FULL-HALF",
    "S70-MM-G1-B",
    "S70-MM-G1B-NONE",
    "S70-MM-G1-LAYOUT",
    "S70-MM-G1A-SAME",
    "S70-MM-INT8-LAYOUT",
    "S70-G2-ALIGN-32",
    "S70-G2-BCAST-FIRST",
    "S70-MM-G2-C",
    "S70-MM-G2-DIMS",
    "S70-MM-G2-OUT",
    "S70-MM-G2-RED",
    "S70-MM-G2-LAYOUT",
    "S70-MM-G2-RED-ROW",
    "S70-PW-3D-DIMS",
    "S70-PW-45D-DIMS",
    "S70-PW-3D-NO-RED",
    "S70-PW-3D-LAYOUT",
    "S70-PW-45D-LAYOUT",
    "OP-PW7-DTYPE-LOGIC",
    "OP-PW7-PREC-LOGIC",
    "OP-PW7-PREC-OTHER",
    "OP-GS-XTYPE-PRE",
    "OP-GS-XTYPE",
    "OP-GS-LAYOUT",
    "OP-RED-LAYOUT",
    "OP-RED-OP",
];

impl Engine for Surface70 {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "pointwise, reduction and matmul fusions in scalar code on every chip from sm_70 on"
    }

    fn relaxes(&self) -> &'static [&'static str] {
        RELAXED
    }

    fn accepts(&self, supported: &Supported) -> Result<(), String> {
        let capability = supported.capability();
        if capability < ComputeCapability::new(7, 0) {
            return Err(format!("{capability} is older than sm_70"));
        }
        let fusion = supported.fusion();
        pattern_is_taken(fusion)?;
        operations_are_taken(fusion)?;
        types_are_taken(fusion)?;
        outputs_are_taken(fusion)?;
        booleans_are_taken(fusion)
    }

    fn candidates(&self, supported: &Supported, device: &Device) -> Vec<EngineConfig> {
        match supported.fusion().pattern() {
            Pattern::Matmul => matmul::candidates(supported.fusion(), device),
            _ => vec![EngineConfig { engine: NAME, knobs: vec![(Knob::Threads, 256)] }],
        }
    }

    fn lower(&self, supported: &Supported, config: &EngineConfig, device: &Device) -> Kernel {
        let fusion = supported.fusion();
        let mut kernel = Kernel {
            graph: fusion.graph().clone(),
            engine: NAME,
            config: config.to_string(),
            functions: Vec::new(),
            workspace_bytes: 0,
        };
        match fusion.pattern() {
            Pattern::Matmul => matmul::lower(fusion, config, device, &mut kernel),
            _ => pass::lower(fusion, config, device, &mut kernel),
        }
        kernel
    }
}

fn pattern_is_taken(fusion: &Fusion) -> Result<(), String> {
    match fusion.pattern() {
        Pattern::Matmul | Pattern::Pointwise => Ok(()),
        pattern => Err(format!("no {pattern:?} kernels yet")),
    }
}

fn operations_are_taken(fusion: &Fusion) -> Result<(), String> {
    let graph = fusion.graph();
    for id in graph.operation_ids() {
        if !operation_is_taken(graph, graph.operation(id)) {
            return Err(format!("no kernels for {} as it stands", graph.describe_operation(id)));
        }
    }
    Ok(())
}

fn operation_is_taken(graph: &FinalizedGraph, operation: &Operation) -> bool {
    match &operation.attributes {
        Attributes::Pointwise(pointwise) => {
            pointwise.alpha1 == 1.0 && pointwise.alpha2 == 1.0 && compute_is_taken(graph, operation, pointwise.mode)
        }
        Attributes::Reduction(_) | Attributes::GenStats => true,
        Attributes::Matmul(_) => matmul_is_taken(graph, operation),
        _ => false,
    }
}

/// `FLOAT`; `INT32` where the mode has an integer form; `BOOLEAN` for logical modes; for `IDENTITY` also the one type of
/// input and output (`OP-PW98-PREC-*`, `OP-PW7-PREC-*`).
fn compute_is_taken(graph: &FinalizedGraph, operation: &Operation, mode: PointwiseMode) -> bool {
    let compute = operation.compute_data_type.unwrap_or(DataType::Float);
    let mut tensors = operation.input_tensors().chain(operation.output_tensors());
    match compute {
        DataType::Float | DataType::FastFloatForFp8 => true,
        DataType::Int32 => has_integer_form(mode),
        DataType::Boolean if mode.is_logical() => true,
        _ => mode == PointwiseMode::Identity && tensors.all(|id| graph.tensor(id).data_type == compute),
    }
}

/// Every element of an output has an address of its own: threads store in no order.
fn outputs_are_taken(fusion: &Fusion) -> Result<(), String> {
    let graph = fusion.graph();
    match graph.outputs().find(|&id| !is_disjoint(graph.tensor(id))) {
        Some(id) => Err(format!("tensor {}: elements share addresses", graph.describe_tensor(id))),
        None => Ok(()),
    }
}

/// Rank 3, no overrides, not in place, and a compute type that fits the operands (`S*-COMB-*`).
fn matmul_is_taken(graph: &FinalizedGraph, operation: &Operation) -> bool {
    let overrides = [Port::M_OVERRIDE, Port::N_OVERRIDE, Port::K_OVERRIDE];
    let in_place = operation.input_tensors().any(|input| Some(input) == operation.result());
    let rank = operation.result().map_or(0, |c| graph.tensor(c).dim.len());
    let compute = operation.compute_data_type.unwrap_or(DataType::Float);
    let fits = operation.input_tensors().all(|input| match graph.tensor(input).data_type {
        DataType::Int8 => compute == DataType::Int32,
        DataType::Half => matches!(compute, DataType::Float | DataType::Half),
        DataType::Fp8E4M3 | DataType::Fp8E5M2 => matches!(compute, DataType::Float | DataType::FastFloatForFp8),
        DataType::Float | DataType::BFloat16 => compute == DataType::Float,
        _ => false,
    });
    rank == 3 && !in_place && fits && overrides.iter().all(|&port| operation.input(port).is_none())
}

/// Packed booleans are written a byte at a time: every line must start on a byte, and all lines run along one axis.
fn booleans_are_taken(fusion: &Fusion) -> Result<(), String> {
    let graph = fusion.graph();
    let packed = graph.outputs().filter(|&id| graph.tensor(id).data_type == DataType::Boolean);
    let mut line_axis = None;
    for id in packed {
        let axis = bit_axis(graph.tensor(id)).ok_or_else(|| not_on_bytes(graph, id))?;
        if axis == Some(0) && fusion.pattern() == Pattern::Matmul {
            return Err(format!("tensor {}: packed booleans along the batch", graph.describe_tensor(id)));
        }
        if axis.is_some() && *line_axis.get_or_insert(axis) != axis {
            return Err(format!("tensor {}: packed booleans of two layouts", graph.describe_tensor(id)));
        }
    }
    Ok(())
}

/// The axis along which bits lie, `None` for a single element; nothing where a line starts inside a byte.
fn bit_axis(tensor: &FinalTensor) -> Option<Option<usize>> {
    let long = || (0..tensor.dim.len()).filter(|&axis| tensor.dim[axis] > 1);
    let Some(axis) = long().min_by_key(|&axis| tensor.stride[axis]) else { return Some(None) };
    let on_bytes = long().filter(|&other| other != axis).all(|other| tensor.stride[other] % 8 == 0);
    (tensor.stride[axis] == 1 && on_bytes).then_some(Some(axis))
}

fn not_on_bytes(graph: &FinalizedGraph, id: TensorId) -> String {
    format!("tensor {}: packed booleans of which some line starts inside a byte", graph.describe_tensor(id))
}

fn types_are_taken(fusion: &Fusion) -> Result<(), String> {
    let graph = fusion.graph();
    for id in graph.tensor_ids() {
        let data_type = graph.tensor(id).data_type;
        let known = data_type.is_floating() || data_type.is_integer() || data_type == DataType::Boolean;
        if !known || data_type == DataType::Double {
            return Err(format!("tensor {}: no kernels for {data_type}", graph.describe_tensor(id)));
        }
    }
    Ok(())
}
