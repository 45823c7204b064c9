//! ConvBiasAct: `act(α₁·conv(X, W) + α₂·Z + bias)`.

use super::records::*;
use super::{View, channel};
use crate::graph::{ConvolutionDirection, DataType, Operation, OperationId, PointwiseMode, TensorId};
use crate::support::findings::Findings;
use crate::support::forms::one_of;
use crate::support::surface::SURFACES;

/// Types of X, W, the convolution, Y and bias that go together.
type Row = (DataType, DataType, DataType, &'static [DataType], DataType);

const ROWS: &[Row] = {
    use DataType::{BFloat16, Double, Float, Half, Int8, Int32, UInt8};
    &[
        (Double, Double, Double, &[Double], Double),
        (Float, Float, Float, &[Float], Float),
        (Half, Half, Float, &[Half], Half),
        (BFloat16, BFloat16, Float, &[BFloat16], BFloat16),
        (Int8, Int8, Int32, &[Int8, Float], Float),
        (UInt8, Int8, Int32, &[Int8, Float], Float),
    ]
};

/// What follows the convolution.
struct Tail {
    operations: Vec<OperationId>,
    /// Values between operations.
    between: Vec<TensorId>,
    alphas: Vec<TensorId>,
    z: TensorId,
    bias: TensorId,
    activation: Option<(OperationId, PointwiseMode)>,
    y: TensorId,
}

/// The operation of a mode that alone reads a value, and what it reads beside.
fn reader<'a>(
    view: &View<'a>,
    value: TensorId,
    wanted: PointwiseMode,
) -> Option<(OperationId, &'a Operation, TensorId)> {
    let &[id] = view.graph.consumers(value) else { return None };
    let operation = view.graph.operation(id);
    let other = operation.input_tensors().find(|&input| input != value)?;
    (operation.pointwise_mode() == Some(wanted)).then_some((id, operation, other))
}

impl Tail {
    /// `None` where the convolution's result is not scaled, added to Z and to a bias.
    fn of(view: &View) -> Option<Self> {
        let mut value = view.result()?;
        let (mut operations, mut between, mut alphas) = (Vec::new(), vec![value], Vec::new());
        if let Some((id, operation, alpha)) = reader(view, value, PointwiseMode::Mul) {
            value = operation.result()?;
            operations.push(id);
            between.push(value);
            alphas.push(alpha);
        }
        let (id, operation, mut z) = reader(view, value, PointwiseMode::Add)?;
        operations.push(id);
        if let Some((id, scaled, _)) = view.pointwise(z).filter(|slot| slot.2 == PointwiseMode::Mul) {
            let is_full = |&input: &TensorId| view.tensor(input).dim == view.tensor(z).dim;
            let (full, sides): (Vec<TensorId>, Vec<TensorId>) = scaled.input_tensors().partition(is_full);
            operations.push(id);
            between.push(z);
            alphas.extend(sides.first());
            z = *full.first()?;
        }
        if view.tensor(z).dim != view.tensor(value).dim || view.graph.producer(z).is_some() {
            return None;
        }
        value = operation.result()?;
        between.push(value);
        let (id, operation, bias) = reader(view, value, PointwiseMode::Add)?;
        operations.push(id);
        let mut y = operation.result()?;
        let activation = match view.graph.consumers(y) {
            &[id] => view.graph.operation(id).pointwise_mode().map(|mode| (id, mode)),
            _ => None,
        };
        let activation = activation.filter(|slot| slot.1.is_activation() || slot.1 == PointwiseMode::Identity);
        if let Some((id, _)) = activation {
            operations.push(id);
            between.push(y);
            y = view.graph.operation(id).result()?;
        }
        Some(Self { operations, between, alphas, z, bias, activation, y })
    }
}

/// On the chips that surface 70 lists, which the pattern itself does not name.
pub(super) fn is_whole(view: &View) -> bool {
    view.convolution.direction == ConvolutionDirection::Forward
        && SURFACES[2].capabilities.admits(&view.capability)
        && Tail::of(view).is_some()
}

pub(super) fn check(view: &View, found: &mut Findings) {
    let Some(tail) = Tail::of(view) else { return };
    view.others(&N_78, &tail.operations, found);
    tail.between.iter().for_each(|&value| view.is_virtual(&N_78, value, true, found));
    for &alpha in &tail.alphas {
        let ones = vec![1; view.tensor(alpha).dim.len()];
        view.has_dims(&CBA_ALPHA, alpha, &ones, found);
    }
    let required = channel(&view.tensor(tail.y).dim);
    view.has_dims(&CBA_BIAS, tail.bias, &required, found);
    let bias = view.tensor(tail.bias);
    if bias.dim.get(1).is_some_and(|&extent| extent > 1) && bias.stride[1] != 1 {
        found.tensor(&CBA_BIAS_STRIDE, tail.bias, "a channel stride of 1", bias.stride[1].to_string());
    }
    if let Some((id, mode)) = tail.activation
        && !matches!(mode, PointwiseMode::ReluFwd | PointwiseMode::Identity)
    {
        found.operation(&CBA_ACT_MODE, id, "RELU_FWD or IDENTITY", mode.name());
    }
    alike(view, &tail, found);
    unconverted(view, &tail, found);
    types(view, &tail, found);
}

fn alike(view: &View, tail: &Tail, found: &mut Findings) {
    let [z, y] = [tail.z, tail.y].map(|id| view.tensor(id));
    if z.data_type != y.data_type || z.stride != y.stride {
        let text = |tensor: &crate::graph::FinalTensor| format!("{} of strides {:?}", tensor.data_type, tensor.stride);
        found.tensor(&CBA_Z, tail.z, format!("{}, as Y", text(y)), text(z));
    }
}

/// Values between operations have the type that they are computed in.
fn unconverted(view: &View, tail: &Tail, found: &mut Findings) {
    for &id in tail.between.iter().filter(|&&id| view.tensor(id).is_virtual) {
        let compute = view.graph.producer(id).map(|producer| view.graph.compute_type(producer));
        let data_type = view.tensor(id).data_type;
        if let Some(compute) = compute.filter(|&compute| compute != data_type) {
            found.tensor(&CBA_NOCONV, id, compute.name(), data_type.name());
        }
    }
}

fn types(view: &View, tail: &Tail, found: &mut Findings) {
    let Some(operands) = view.operands() else { return };
    let [x, w, y, bias] = [operands[0], operands[1], tail.y, tail.bias].map(|id| view.tensor(id).data_type);
    let compute = view.graph.compute_type(view.core);
    let fits = |row: &&Row| (x, w, compute, bias) == (row.0, row.1, row.2, row.4) && row.3.contains(&y);
    if !ROWS.iter().any(|row| fits(&row)) {
        let rows = ROWS
            .iter()
            .map(|(x, w, compute, y, bias)| format!("{x} and {w} in {compute} to {}, bias {bias}", one_of(y)));
        let text = format!("{x} and {w} in {compute} to {y}, bias {bias}");
        found.operation(&CBA_TYPES, view.core, one_of(&rows.collect::<Vec<_>>()), text);
    }
}
