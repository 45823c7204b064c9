//! Comparison of two results of a graph.

use std::fmt;

use super::bounds::Bounds;
use crate::error::{Error, Result};
use crate::graph::{DataType, FinalizedGraph, TensorId};
use crate::host_tensor::{HostTensor, HostTensors};

/// How far two computations of a graph's outputs are apart.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// One entry a result (outputs, and flags that are set), in canonical order.
    pub outputs: Vec<OutputComparison>,
}

/// How far two computations of one tensor are apart.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputComparison {
    /// The tensor.
    pub id: TensorId,
    /// Name and uid, as messages have them.
    pub tensor: String,
    /// Storage type.
    pub data_type: DataType,
    /// Number of elements.
    pub elements: usize,
    /// Elements further apart than their tolerance; NaN equals only NaN, an infinity only itself.
    pub mismatches: usize,
    /// Elements whose bound is infinite: nothing can be said of them.
    pub incomparable: usize,
    /// Whether the bytes between elements (padded strides) are the same; nobody may write there.
    pub same_gaps: bool,
    /// The worst mismatch, else the element that is furthest apart; `None` where all comparable elements are equal.
    pub worst: Option<Difference>,
}

/// Two values of one element.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Index along every axis.
    pub index: Vec<i64>,
    /// The first computation's value.
    pub expected: f64,
    /// The second computation's value.
    pub actual: f64,
    /// |expected − actual|; infinite if not both are finite.
    pub error: f64,
    /// What was allowed.
    pub tolerance: f64,
}

impl Comparison {
    /// No mismatch in any output, and nothing written between elements.
    pub fn is_match(&self) -> bool {
        self.outputs.iter().all(|output| output.mismatches == 0 && output.same_gaps)
    }
}

/// Compares two results of a graph element by element. The tolerance is twice the bound, since each of two computations
/// may lie that far from the exact value; without bounds, and where a bound is 0, values must be equal.
///
/// # Errors
/// [`Error::Input`] where a result ([`FinalizedGraph::results`]) is missing from either side, or has other extents or another
/// type.
pub fn compare(
    graph: &FinalizedGraph,
    expected: &HostTensors,
    actual: &HostTensors,
    bounds: Option<&Bounds>,
) -> Result<Comparison> {
    let outputs = graph.results().into_iter().map(|id| {
        let expected = find(graph, expected, id)?;
        let actual = find(graph, actual, id)?;
        compare_output(graph, id, [expected, actual], bounds)
    });
    Ok(Comparison { outputs: outputs.collect::<Result<_>>()? })
}

/// Compares without any tolerance; NaN equals NaN.
///
/// # Errors
/// As [`compare`].
pub fn compare_exact(graph: &FinalizedGraph, expected: &HostTensors, actual: &HostTensors) -> Result<Comparison> {
    compare(graph, expected, actual, None)
}

fn find<'a>(graph: &FinalizedGraph, tensors: &'a HostTensors, id: TensorId) -> Result<&'a HostTensor> {
    let fault = |message: &str| Error::input(format!("tensor {}", graph.describe_tensor(id)), message);
    let tensor = tensors.get(&id).ok_or_else(|| fault("is not among the results"))?;
    let required = graph.tensor(id);
    if tensor.dim == required.dim && tensor.data_type == required.data_type {
        Ok(tensor)
    } else {
        Err(fault("has other dims or another type than the graph says"))
    }
}

fn compare_output(
    graph: &FinalizedGraph,
    id: TensorId,
    sides: [&HostTensor; 2],
    bounds: Option<&Bounds>,
) -> Result<OutputComparison> {
    let tensor = graph.tensor(id);
    let [expected, actual] = [sides[0].to_dense::<f64>()?, sides[1].to_dense::<f64>()?];
    let unequal = unequal_integers(sides)?;
    let mut comparison = OutputComparison {
        id,
        tensor: graph.describe_tensor(id),
        data_type: tensor.data_type,
        elements: expected.len(),
        mismatches: 0,
        incomparable: 0,
        same_gaps: sides[0].gap_bytes_equal(sides[1]),
        worst: None,
    };
    let mut worst = None;
    for (position, (&expected, &actual)) in expected.iter().zip(&actual).enumerate() {
        let tolerance = bounds.map_or(0.0, |bounds| 2.0 * bounds.at(id, position));
        let error = distance(expected, actual, unequal.as_ref().is_some_and(|unequal| unequal[position]));
        comparison.incomparable += usize::from(tolerance.is_infinite());
        if error == 0.0 || tolerance.is_infinite() {
            continue;
        }
        comparison.mismatches += usize::from(error > tolerance);
        let badness = (error > tolerance, error);
        if worst.is_none_or(|(badness_so_far, _)| badness > badness_so_far) {
            worst = Some((badness, position));
            let index = index_of(position, &tensor.dim);
            comparison.worst = Some(Difference { index, expected, actual, error, tolerance });
        }
    }
    Ok(comparison)
}

/// Where 64-bit integers differ, which doubles may not show.
fn unequal_integers([expected, actual]: [&HostTensor; 2]) -> Result<Option<Vec<bool>>> {
    if expected.data_type != DataType::Int64 {
        return Ok(None);
    }
    let pairs = expected.to_dense::<i64>()?.into_iter().zip(actual.to_dense::<i64>()?);
    Ok(Some(pairs.map(|(a, b)| a != b).collect()))
}

fn distance(expected: f64, actual: f64, are_unequal: bool) -> f64 {
    if (expected == actual && !are_unequal) || (expected.is_nan() && actual.is_nan()) {
        return 0.0;
    }
    let distance = (expected - actual).abs();
    if distance.is_nan() { f64::INFINITY } else { distance.max(f64::from(u8::from(are_unequal))) }
}

/// Index of a row-major position.
fn index_of(position: usize, dim: &[i64]) -> Vec<i64> {
    let mut rest = position as i64;
    let mut index: Vec<i64> = dim
        .iter()
        .rev()
        .map(|extent| {
            let i = rest % extent;
            rest /= extent;
            i
        })
        .collect();
    index.reverse();
    index
}

/// A value with the digits that tell it from its neighbours in any type up to FLOAT.
fn shown(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 || !value.is_finite() || (value.fract() == 0.0 && size < 1e9) {
        return format!("{value}");
    }
    if (1e-3..1e6).contains(&size) { format!("{value:.9}") } else { format!("{value:.8e}") }
}

/// One line an output.
impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<28} {:>12} {:>10} {:>12}  largest difference", "output", "elements", "wrong", "incomparable")?;
        self.outputs.iter().try_for_each(|output| writeln!(f, "{output}"))
    }
}

impl fmt::Display for OutputComparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = format!("{} {}", self.tensor, self.data_type);
        write!(f, "{name:<28} {:>12} {:>10} {:>12}  ", self.elements, self.mismatches, self.incomparable)?;
        if !self.same_gaps {
            f.write_str("bytes between elements were written; ")?;
        }
        match &self.worst {
            None => f.write_str("none"),
            Some(worst) => write!(
                f,
                "{:.3e} (allowed {:.3e}) at {:?}: expected {}, found {}",
                worst.error,
                worst.tolerance,
                worst.index,
                shown(worst.expected),
                shown(worst.actual)
            ),
        }
    }
}
