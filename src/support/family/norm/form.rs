//! Which operations a graph of each surface holds, and how they hang together.

use super::parts::{Kind, Norm, Parts, norms};
use super::records::*;
use super::tensors;
use crate::graph::{
    Attributes, ConvolutionDirection, DataType, FinalizedGraph, NormMode, NormPhase, Operation, OperationId,
    PointwiseMode, Port, TensorId,
};
use crate::support::findings::Findings;
use crate::support::forms::dims_text;

/// What BN_FINALIZE has for each channel.
pub(super) const VECTORS: &[Port] = &[
    Port::SUM,
    Port::SQ_SUM,
    Port::SCALE,
    Port::BIAS,
    Port::PREV_RUNNING_MEAN,
    Port::PREV_RUNNING_VAR,
    Port::EQ_SCALE,
    Port::EQ_BIAS,
    Port::MEAN,
    Port::INV_VARIANCE,
    Port::NEXT_RUNNING_MEAN,
    Port::NEXT_RUNNING_VAR,
];

/// A norm of rows with chains of pointwise operations, or of instances alone.
pub(super) fn single(parts: &Parts, found: &mut Findings) {
    let (from, to) = match parts.norm.kind {
        Kind::Forward(..) => (Port::X, Port::Y),
        _ => (Port::DY, Port::DX),
    };
    one_norm(parts, found);
    no_statistics(parts, found);
    let chained = [before(parts, from), after(parts, to), masks(parts), centred(parts)].concat();
    for (id, operation) in parts.others().filter(|slot| !is_norm(slot.1) && !chained.contains(&slot.0)) {
        let required = format!("one chain of Pointwise operations before {from}, one after {to}");
        found.operation(&N_70, id, required, operation.tag());
    }
    tensors::single(parts, found);
}

/// The norm, Z, a ReLU, a mask.
pub(super) fn add_relu(parts: &Parts, found: &mut Findings) {
    one_norm(parts, found);
    no_statistics(parts, found);
    if let Kind::Forward(mode, phase) = parts.norm.kind {
        if parts.norm.is_of_rows() {
            found.operation(&BAR_MODE, parts.norm.id, "a BATCH or INSTANCE norm", parts.norm.operation.tag());
        }
        if (mode, phase) == (NormMode::Batch, Some(NormPhase::Inference)) {
            found.operation(&BAR_PHASE, parts.norm.id, "phase TRAINING", "phase INFERENCE");
        }
    }
    let Some(y) = parts.norm.operation.output(Port::Y) else { return };
    Chain { parts, value: y, is_added: false, relu: None }.follow(found);
}

/// What follows a norm, operation by operation.
struct Chain<'a> {
    parts: &'a Parts<'a>,
    /// The latest value.
    value: TensorId,
    is_added: bool,
    /// What the ReLU reads and gives.
    relu: Option<[TensorId; 2]>,
}

impl Chain<'_> {
    fn follow(mut self, found: &mut Findings) {
        let graph = self.parts.graph;
        let mut masks = Vec::new();
        for (id, operation) in self.parts.others().filter(|slot| !is_norm(slot.1)) {
            let is_next = operation.input_tensors().any(|input| input == self.value);
            match operation.pointwise_mode() {
                Some(PointwiseMode::CmpGt) => masks.push((id, operation)),
                Some(PointwiseMode::Add) if is_next && self.relu.is_some() => {
                    let text = format!("it reads {}, which the ReLU gives", graph.describe_tensor(self.value));
                    found.operation(&BAR_ORDER, id, "the ADD before the ReLU", text);
                }
                Some(PointwiseMode::Add) if is_next && !self.is_added => self.step(found, operation),
                Some(PointwiseMode::ReluFwd) if is_next && self.relu.is_none() => {
                    let before = self.value;
                    self.step(found, operation);
                    self.relu = Some([before, self.value]);
                }
                Some(mode) if is_next && mode.is_activation() => {
                    found.operation(&BAR_ACT, id, "RELU_FWD", mode.name());
                }
                _ => found.operation(&N_65, id, N_65.summary, operation.tag()),
            }
        }
        masks.into_iter().for_each(|mask| self.mask(found, mask));
    }

    /// The next value, by an operation that adds or activates; the one before is held nowhere.
    fn step(&mut self, found: &mut Findings, operation: &Operation) {
        self.is_added |= operation.pointwise_mode() == Some(PointwiseMode::Add);
        if !self.parts.tensor(self.value).is_virtual {
            found.tensor(&N_65, self.value, "a virtual tensor between the norm and Y", "a stored one");
        }
        self.value = operation.result().unwrap_or(self.value);
    }

    fn mask(&self, found: &mut Findings, (id, operation): (OperationId, &Operation)) {
        let compared = self.relu.unwrap_or([self.value; 2]);
        if !operation.input_tensors().next().is_some_and(|first| compared.contains(&first)) {
            let required = format!("{} compared", self.parts.graph.describe_tensor(compared[0]));
            found.operation(&BAR_ORDER, id, required, "another value");
        }
    }
}

/// A batch norm, and others that are added or activated.
pub(super) fn is_add_relu(norm: &Norm, graph: &FinalizedGraph) -> bool {
    let follows = |id: &OperationId| {
        matches!(graph.operation(*id).pointwise_mode(), Some(PointwiseMode::Add | PointwiseMode::ReluFwd))
    };
    let is_followed = || norm.operation.output(Port::Y).is_some_and(|y| graph.consumers(y).iter().any(follows));
    match norm.mode() {
        NormMode::Batch => true,
        NormMode::Instance => graph.operations().len() > 1,
        NormMode::Layer | NormMode::Rms | NormMode::AdaLayer => is_followed(),
        NormMode::Group { .. } => false,
    }
}

/// The gradient, maybe behind a dReLU, whose input a norm for inference may give again.
pub(super) fn drelu(parts: &Parts, found: &mut Findings) {
    if parts.norm.mode() == NormMode::AdaLayer {
        let required = "a BATCH, INSTANCE, LAYER or RMS norm";
        found.operation(&DRF_MODE, parts.norm.id, required, parts.norm.operation.tag());
    }
    let again = recomputed(parts);
    if again.is_none() {
        one_norm(parts, found);
    }
    let gradient = parts.norm.operation.input(Port::DY).and_then(|dz| parts.producer(dz));
    for (id, operation) in parts.others().filter(|slot| !is_norm(slot.1)) {
        match operation.pointwise_mode() {
            Some(mode) if gradient.is_some_and(|slot| slot.0 == id) => match mode {
                PointwiseMode::Mul | PointwiseMode::ReluBwd => mask(parts, found, (id, operation), again),
                mode if mode.is_backward() => found.operation(&DRF_ACT, id, "MUL by a mask, or RELU_BWD", mode.name()),
                _ => found.operation(&N_67, id, N_67.summary, mode.name()),
            },
            _ => found.operation(&N_67, id, N_67.summary, operation.tag()),
        }
    }
    if let Some(again) = again {
        shares(parts, found, &again);
    }
}

/// A batch norm for inference whose result some dReLU reads, beside a batch norm's gradient.
fn recomputed<'a>(parts: &Parts<'a>) -> Option<Norm<'a>> {
    let is_own = |norm: &Norm| norm.kind == Kind::Forward(NormMode::Batch, Some(NormPhase::Inference));
    let others: Vec<Norm> = norms(parts.graph).filter(|norm| norm.id != parts.norm.id).collect();
    match others.as_slice() {
        [again] if is_own(again) && parts.norm.kind == Kind::Backward(NormMode::Batch) => Some(*again),
        _ => None,
    }
}

/// The dReLU reads packed booleans, or what the ReLU read.
fn mask(parts: &Parts, found: &mut Findings, (id, operation): (OperationId, &Operation), again: Option<Norm>) {
    let y = again.and_then(|norm| norm.operation.output(Port::Y));
    let is_mask = |&input: &TensorId| {
        let tensor = parts.tensor(input);
        let has_bits = tensor.data_type == DataType::Boolean && parts.graph.producer(input).is_none();
        has_bits && operation.result().is_some_and(|dz| parts.tensor(dz).dim == tensor.dim)
    };
    let is_gated = operation.input_tensors().any(|input| is_mask(&input) || Some(input) == y);
    if let (false, Some(second)) = (is_gated, operation.input_tensors().nth(1)) {
        let tensor = parts.tensor(second);
        let required = format!("{} with the dims of dY, an input of the graph", DataType::Boolean);
        found.slot(&DRF_MASK, (id, second), required, format!("{} {}", tensor.data_type, dims_text(&tensor.dim)));
    }
}

/// What is recomputed is virtual, and made of what the gradient reads.
fn shares(parts: &Parts, found: &mut Findings, again: &Norm) {
    for port in [Port::X, Port::MEAN, Port::INV_VARIANCE, Port::SCALE] {
        let [read, other] = [parts.norm.operation.input(port), again.operation.input(port)];
        if let (Some(required), Some(tensor)) = (read, other.filter(|_| other != read)) {
            let required = format!("{} at {port}, as the gradient", parts.graph.describe_tensor(required));
            found.slot(&N_66, (again.id, tensor), required, parts.graph.describe_tensor(tensor));
        }
    }
    if let Some(y) = again.operation.output(Port::Y).filter(|&y| !parts.tensor(y).is_virtual) {
        found.slot(&N_66, (again.id, y), "a virtual tensor", "a stored one");
    }
}

/// A gradient of channels, and those of rows behind a dReLU.
pub(super) fn is_drelu(norm: &Norm, graph: &FinalizedGraph) -> bool {
    let producer = || norm.operation.input(Port::DY).and_then(|dz| graph.producer(dz)).map(|id| graph.operation(id));
    match norm.mode() {
        NormMode::Batch => true,
        NormMode::Instance => graph.operations().len() > 1,
        NormMode::Layer | NormMode::Rms | NormMode::AdaLayer => producer().is_some_and(|operation| {
            let is_bits = |input| graph.tensor(input).data_type == DataType::Boolean;
            operation.pointwise_mode().is_some_and(PointwiseMode::is_backward) || operation.input_tensors().any(is_bits)
        }),
        NormMode::Group { .. } => false,
    }
}

/// BN_FINALIZE alone, of vectors of channels.
pub(super) fn finalize(parts: &Parts, found: &mut Findings) {
    for (id, operation) in parts.others() {
        found.operation(&EC_1, id, "BN_FINALIZE alone", operation.tag());
    }
    for id in parts.at(VECTORS) {
        let dim = &parts.tensor(id).dim;
        let is_vector = dim.len() > 2 && dim.iter().enumerate().all(|(axis, &extent)| axis == 1 || extent == 1);
        if !is_vector {
            found.slot(&N_10H, (parts.norm.id, id), "dims [1,C,1s]", dims_text(dim));
        }
    }
}

/// DBN_WEIGHT of the gradient behind a ReLU whose input is recomputed.
pub(super) fn weights(parts: &Parts, found: &mut Findings) {
    let missing = |found: &mut Findings, text: String| found.operation(&N_80, parts.norm.id, N_80.summary, text);
    let Some(dy) = parts.norm.operation.input(Port::DY) else { return };
    let relu = parts.producer(dy).filter(|slot| slot.1.pointwise_mode() == Some(PointwiseMode::ReluBwd));
    let Some((relu, drelu)) = relu else { return missing(found, "no RELU_BWD gives DY".to_owned()) };
    if parts.tensor(dy).is_virtual {
        found.slot(&DDB_DYBN_OUT, (parts.norm.id, dy), "a stored tensor", "a virtual one");
    }
    let [Some(gradient), Some(y)] = [Port::IN_0, Port::IN_1].map(|port| drelu.input(port)) else { return };
    let core = parts.producer(gradient).filter(|slot| is_data_gradient(slot.1));
    let Some((core, _)) = core else { return missing(found, "no CONV_DGRAD gives the ReLU's gradient".to_owned()) };
    let mut known = vec![relu, core];
    let mut between = vec![gradient];
    if !recomputes(parts, found, y, (&mut known, &mut between)) {
        return missing(found, "the ReLU's input is not the norm's result again".to_owned());
    }
    for (id, operation) in parts.others().filter(|slot| !known.contains(&slot.0)) {
        found.operation(&N_80, id, N_80.summary, operation.tag());
    }
    for id in between.into_iter().filter(|&id| !parts.tensor(id).is_virtual) {
        found.tensor(&N_80, id, "a virtual tensor before dy_bn", "a stored one");
    }
}

fn is_data_gradient(operation: &Operation) -> bool {
    matches!(&operation.attributes, Attributes::Convolution(convolution)
        if convolution.direction == ConvolutionDirection::BackwardData)
}

/// Walks back from y through `(X − mean)·invstd·scale + bias`; whether it is that. What is read beside is compared with what
/// DBN_WEIGHT reads.
fn recomputes(
    parts: &Parts,
    found: &mut Findings,
    y: TensorId,
    (known, between): (&mut Vec<OperationId>, &mut Vec<TensorId>),
) -> bool {
    use PointwiseMode as M;
    let mut value = y;
    for (step, port) in
        [(M::Add, None), (M::Mul, Some(Port::SCALE)), (M::Mul, Some(Port::INV_VARIANCE)), (M::Sub, Some(Port::MEAN))]
    {
        let Some((id, operation)) = parts.producer(value) else { return false };
        let is_subtraction = step == M::Sub && operation.pointwise_mode() == Some(M::Add);
        if operation.pointwise_mode() != Some(step) && !is_subtraction {
            return false;
        }
        let mut inputs: Vec<TensorId> = operation.input_tensors().take(2).collect();
        if step != M::Sub && inputs.first().is_some_and(|&first| parts.producer(first).is_none()) {
            inputs.reverse();
        }
        let &[inner, side] = inputs.as_slice() else { return false };
        if is_subtraction {
            subtracts(parts, found, (id, operation));
        }
        match port {
            Some(port) => reads(parts, found, (id, side), port),
            None => bias(parts, found, (id, side)),
        }
        known.push(id);
        between.push(value);
        value = inner;
        if step == M::Sub {
            reads(parts, found, (id, inner), Port::X);
        }
    }
    true
}

/// An ADD that takes the mean away.
fn subtracts(parts: &Parts, found: &mut Findings, (id, operation): (OperationId, &Operation)) {
    let alpha = operation.pointwise().map_or(1.0, |pointwise| pointwise.alpha2);
    if alpha != -1.0 {
        let required = format!("alpha2 of -1, which subtracts {}", Port::MEAN);
        found.operation(
            &DDB_ALPHA2,
            id,
            required,
            format!("alpha2 of {alpha} ({})", parts.graph.describe_operation(id)),
        );
    }
}

fn reads(parts: &Parts, found: &mut Findings, slot: (OperationId, TensorId), port: Port) {
    let Some(required) = parts.norm.operation.input(port).filter(|&required| required != slot.1) else { return };
    let required = format!("{}, which DBN_WEIGHT reads as {port}", parts.graph.describe_tensor(required));
    found.slot(&DDB_INPUTS, slot, required, parts.graph.describe_tensor(slot.1));
}

fn bias(parts: &Parts, found: &mut Findings, slot: (OperationId, TensorId)) {
    let data_type = parts.tensor(slot.1).data_type;
    if data_type != DataType::Float {
        found.slot(&DDB_BNTYPE, slot, "FLOAT", data_type.name());
    }
}

fn is_norm(operation: &Operation) -> bool {
    matches!(operation.attributes, Attributes::Composite(_))
}

/// No other norm, and nothing else that primitive operations define.
fn one_norm(parts: &Parts, found: &mut Findings) {
    for (id, operation) in parts.others().filter(|slot| is_norm(slot.1)) {
        let first = parts.graph.describe_operation(parts.norm.id);
        found.operation(&NA_10, id, "one norm in a graph", format!("{} beside {first}", operation.tag()));
    }
}

/// Nobody stores statistics of a norm for INFERENCE, which has none.
fn no_statistics(parts: &Parts, found: &mut Findings) {
    let Kind::Forward(_, Some(NormPhase::Inference)) = parts.norm.kind else { return };
    let is_stored = |port: &&Port| parts.norm.operation.output(**port).is_some();
    let stored: Vec<&str> = [Port::MEAN, Port::INV_VARIANCE].iter().filter(is_stored).map(|port| port.0).collect();
    if !stored.is_empty() {
        let text = format!("outputs {} of phase INFERENCE", stored.join(" and "));
        found.operation(&N_161, parts.norm.id, "Y alone", text);
    }
}

/// The chain that gives a tensor, as far as it is one.
fn before(parts: &Parts, port: Port) -> Vec<OperationId> {
    let mut chain = Vec::new();
    let mut value = parts.norm.operation.input(port);
    while let Some((id, operation)) = value.and_then(|value| parts.producer(value)) {
        if parts.norm.mode() == NormMode::Instance || operation.pointwise().is_none() {
            break;
        }
        chain.push(id);
        let mut made = operation.input_tensors().filter(|&input| parts.producer(input).is_some());
        value = made.next();
        if made.next().is_some() {
            break;
        }
    }
    chain
}

/// The chain that goes on from a tensor, as far as it is one.
fn after(parts: &Parts, port: Port) -> Vec<OperationId> {
    let mut chain = Vec::new();
    let mut value = parts.norm.operation.output(port);
    while let Some((id, operation)) = value.and_then(|value| reader(parts, value)) {
        if parts.norm.mode() == NormMode::Instance || operation.pointwise().is_none() {
            break;
        }
        chain.push(id);
        value = operation.result();
    }
    chain
}

/// The one operation that reads a tensor, comparisons left out.
fn reader<'a>(parts: &Parts<'a>, value: TensorId) -> Option<(OperationId, &'a Operation)> {
    let readers = parts.graph.consumers(value).iter().map(|&id| (id, parts.graph.operation(id)));
    let mut readers = readers.filter(|slot| !slot.1.pointwise_mode().is_some_and(PointwiseMode::is_comparison));
    readers.next().filter(|_| readers.next().is_none())
}

/// Comparisons of a ReLU's result, and what joins them (N-69).
fn masks(parts: &Parts) -> Vec<OperationId> {
    let is_relu = |&input: &TensorId| {
        parts.producer(input).is_some_and(|slot| slot.1.pointwise_mode() == Some(PointwiseMode::ReluFwd))
    };
    let is_comparison = |operation: &Operation| {
        operation.pointwise_mode().is_some_and(PointwiseMode::is_comparison)
            && operation.input_tensors().any(|id| is_relu(&id))
    };
    let is_mask = |operation: &Operation| {
        let mut inputs = operation.input_tensors();
        operation.pointwise_mode() == Some(PointwiseMode::LogicalAnd)
            && inputs.all(|input| parts.producer(input).is_some_and(|slot| is_comparison(slot.1)))
    };
    let masks = parts.others().filter(|slot| is_comparison(slot.1) || is_mask(slot.1));
    masks.map(|slot| slot.0).collect()
}

/// The ADD of a scalar that gives SCALE (N-71).
fn centred(parts: &Parts) -> Vec<OperationId> {
    let scale = parts.norm.operation.input(Port::SCALE).and_then(|scale| parts.producer(scale));
    let is_one = |input| parts.tensor(input).dim.iter().all(|&extent| extent == 1);
    let centred =
        scale.filter(|slot| slot.1.pointwise_mode() == Some(PointwiseMode::Add) && slot.1.input_tensors().any(is_one));
    centred.map(|slot| slot.0).into_iter().collect()
}
