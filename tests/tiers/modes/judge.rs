//! Holds the results of a case against exact values.

use fusewright::graph::{DataType, FinalizedGraph, Pointwise, PointwiseMode as M, TensorId};
use fusewright::host_tensor::{HostTensor, HostTensors};
use fusewright::reference::allowed_error;
use libtest_mimic::Failed;

use super::ModeCase;
use super::exact::exact;

/// Half a unit above the largest `FLOAT`: from here on values round to infinity.
const OVERFLOW: f64 = 3.402_823_567_797_336_6e38;

/// What the double-precision values themselves may be off, relatively.
const DOUBT: f64 = 1e-11;

/// Below this, errors are shown as parts of what is allowed only.
const TINY: f64 = 1e-12;

/// Prints the largest error of each mode: `FUSEWRIGHT_SHOW_ACCURACY=1`.
const SHOW: &str = "FUSEWRIGHT_SHOW_ACCURACY";

/// The worst result of a mode.
#[derive(Clone, Copy, Default)]
struct Worst {
    /// In ulps of the result in `FLOAT`, of results that are not tiny.
    ulps: f64,
    /// In parts of what is allowed.
    share: f64,
    operands: [f64; 3],
}

/// Every element of every output within the stated accuracy, with the stated NaN and infinities; a stored 16-bit copy
/// is the rounded `FLOAT`.
pub(crate) fn judge(
    case: &ModeCase,
    graph: &FinalizedGraph,
    inputs: &HostTensors,
    outputs: &HostTensors,
) -> Result<(), Failed> {
    let mut faults = Vec::new();
    for (position, pointwise) in case.operations.iter().enumerate() {
        let y = find(graph, &format!("y{position}")).ok_or("an output is missing")?;
        match judge_operation(graph, y, pointwise, inputs, outputs) {
            Ok(worst) => show(case, pointwise, worst),
            Err(fault) => faults.push(format!("{pointwise:?}: {fault}")),
        }
        if let Some(stored) = find(graph, &format!("s{position}"))
            && !is_rounding(&outputs[&y], &outputs[&stored])?
        {
            faults.push(format!("{pointwise:?}: the stored copy is not the rounded result"));
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n").into()) }
}

fn find(graph: &FinalizedGraph, name: &str) -> Option<TensorId> {
    graph.tensor_ids().find(|&id| graph.tensor(id).name == name)
}

#[allow(clippy::print_stderr, reason = "asked for")]
fn show(case: &ModeCase, pointwise: &Pointwise, worst: Worst) {
    if std::env::var_os(SHOW).is_some_and(|value| value == "1") {
        let Worst { ulps, share, operands } = worst;
        let mode = pointwise.mode;
        eprintln!("{:24} {mode:22} {ulps:10.3} ulp, {share:5.3} of allowed, at {operands:?}", case.name);
    }
}

fn judge_operation(
    graph: &FinalizedGraph,
    y: TensorId,
    pointwise: &Pointwise,
    inputs: &HostTensors,
    outputs: &HostTensors,
) -> Result<Worst, String> {
    let dense = |tensor: &HostTensor| tensor.to_dense::<f64>().map_err(|error| error.to_string());
    let operation = graph.operation(graph.producer(y).ok_or("nothing computes it")?);
    let operands = operation.input_tensors().map(|id| dense(&inputs[&id]).map(|values| (id, values)));
    let operands = operands.collect::<Result<Vec<_>, _>>()?;
    let dim = &graph.tensor(y).dim;
    let mut worst = Worst::default();
    for (i, &found) in dense(&outputs[&y])?.iter().enumerate() {
        let mut x = [0.0; 3];
        for (x, (id, values)) in x.iter_mut().zip(&operands) {
            *x = values[broadcast(i, dim, &graph.tensor(*id).dim)];
        }
        if pointwise.mode == M::GenIndex {
            x[0] = (i as i64 % dim[2]) as f64;
        }
        let judged = match graph.tensor(y).data_type {
            DataType::Int32 => judge_integer(pointwise.mode, x, found),
            _ => judge_float(pointwise, x, found),
        };
        let (ulps, share) = judged.map_err(|fault| format!("{fault} at {x:?}"))?;
        worst.ulps = worst.ulps.max(ulps);
        if share > worst.share {
            worst = Worst { share, operands: x, ..worst };
        }
    }
    Ok(worst)
}

/// Row-major position in an operand that broadcasts to a result of rank 3.
fn broadcast(i: usize, dim: &[i64], operand: &[i64]) -> usize {
    let (row, column) = (i / dim[2] as usize, i % dim[2] as usize);
    let row = if operand[1] == 1 { 0 } else { row };
    let column = if operand[2] == 1 { 0 } else { column };
    row * operand[2] as usize + column
}

/// Error in ulps of the result and in parts of what is allowed.
fn judge_float(p: &Pointwise, x: [f64; 3], found: f64) -> Result<(f64, f64), String> {
    let wanted = exact(p, x);
    let fault = || Err(format!("required: {wanted:e}, found: {found:e}"));
    if is_open(p, x) || (wanted.is_nan() && found.is_nan()) {
        return Ok((0.0, 0.0));
    }
    if wanted.is_infinite() {
        return if found == wanted { Ok((0.0, 0.0)) } else { fault() };
    }
    if wanted == 0.0 && found == 0.0 && keeps_signs(p.mode) {
        return if wanted.is_sign_negative() == found.is_sign_negative() { Ok((0.0, 0.0)) } else { fault() };
    }
    let allowed = allowed_error(p, DataType::Float, x, wanted) + wanted.abs() * DOUBT;
    if found.is_infinite() && wanted.abs() + allowed >= OVERFLOW && found.signum() == wanted.signum() {
        return Ok((0.0, 0.0));
    }
    let error = (found - wanted).abs();
    let ulp = 2.0 * allowed_error(&Pointwise::new(M::Add), DataType::Float, x, wanted);
    let factor = if p.mode.is_backward() { x[0].abs().max(1.0) } else { 1.0 };
    let ulp = if wanted.abs() < TINY * factor { f64::INFINITY } else { ulp };
    if error <= allowed { Ok((error / ulp, error / allowed.max(f64::MIN_POSITIVE))) } else { fault() }
}

/// ∞·slope is ∞ or NaN where the slope may come out as zero.
fn is_open(p: &Pointwise, [dy, x, t]: [f64; 3]) -> bool {
    let unit = [1.0, x, t];
    p.mode.is_backward()
        && p.mode != M::ReluBwd
        && dy.is_infinite()
        && exact(p, unit).abs() <= allowed_error(p, DataType::Float, unit, exact(p, unit))
}

/// Modes whose zeros have the sign that IEEE 754 says.
fn keeps_signs(mode: M) -> bool {
    matches!(mode, M::Add | M::Sub | M::Mul | M::Div | M::Sqrt | M::Reciprocal)
        || matches!(mode, M::Abs | M::Neg | M::Ceil | M::Floor | M::Identity)
}

/// INT32 modes in 64-bit arithmetic, cut to 32 bits (PW-R7); a zero divisor is open.
fn judge_integer(mode: M, operands: [f64; 3], found: f64) -> Result<(f64, f64), String> {
    let [x, b, t] = operands.map(|x| x as i64);
    let wanted = match mode {
        M::Div | M::Mod if b == 0 => return Ok((0.0, 0.0)),
        M::Add => x + b,
        M::AddSquare => x.wrapping_add(b.wrapping_mul(b)),
        M::Sub => x - b,
        M::Mul => x * b,
        M::Div => x / b,
        M::Mod => x % b,
        M::Max => std::cmp::max(x, b),
        M::Min => std::cmp::min(x, b),
        M::Abs => x.abs(),
        M::Neg => -x,
        M::Ceil | M::Floor | M::Identity => x,
        M::CmpEq => i64::from(x == b),
        M::CmpNeq => i64::from(x != b),
        M::CmpGt => i64::from(x > b),
        M::CmpGe => i64::from(x >= b),
        M::CmpLt => i64::from(x < b),
        M::CmpLe => i64::from(x <= b),
        M::LogicalAnd => i64::from(x != 0 && b != 0),
        M::LogicalOr => i64::from(x != 0 || b != 0),
        M::LogicalNot => i64::from(x == 0),
        M::BinarySelect => [b, x][usize::from(t != 0)],
        _ => return Err(format!("{mode} has no integer form")),
    };
    let wanted = f64::from(wanted as i32);
    if found == wanted { Ok((0.0, 0.0)) } else { Err(format!("required: {wanted}, found: {found}")) }
}

/// Whether a 16-bit copy is the `FLOAT` result rounded to nearest even.
fn is_rounding(result: &HostTensor, stored: &HostTensor) -> Result<bool, Failed> {
    let values = result.to_dense::<f32>()?;
    let rounded = HostTensor::from_dense(stored.data_type, &stored.dim, &stored.stride, &values)?;
    let same = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
    Ok(rounded.to_dense::<f32>()?.iter().zip(&stored.to_dense::<f32>()?).all(same))
}
