//! Graphs in the sizes that tensors have: the texts of `fusewright::run_sized`, whose rules are those of `python/fusewright/torch/_sized.py`.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use serde_json::Value;

use super::Outcome;
use super::by_text::ByText;
use super::execution::Execution;
use super::shim::Shim;
use super::values::{Device, Tensor};

/// Shapes of a graph whose executions are kept, at most.
const SHAPES: usize = 1024;

/// Where a size is.
#[derive(Clone, Debug, PartialEq)]
enum Place {
    /// The extent of an axis of an operand.
    Axis(usize, usize),
    /// A number that the operator is given.
    Given(usize),
}

/// A factor times sizes, by their places among those of the graph.
#[derive(Clone, Debug)]
struct Term {
    factor: i64,
    sizes: Vec<usize>,
}

impl Term {
    fn value(&self, sizes: &[i64]) -> Outcome<i64> {
        let product = |all: i64, &size: &usize| all.checked_mul(sizes[size]);
        self.sizes.iter().try_fold(self.factor, product).ok_or_else(|| "a size is beyond 64 bits".to_owned())
    }
}

/// Extents and strides of a tensor.
#[derive(Debug)]
struct Shape {
    dim: Vec<Term>,
    stride: Vec<Term>,
}

impl Shape {
    fn values(&self, sizes: &[i64]) -> Outcome<[Vec<i64>; 2]> {
        let values = |terms: &[Term]| terms.iter().map(|term| term.value(sizes)).collect::<Outcome<Vec<i64>>>();
        Ok([values(&self.dim)?, values(&self.stride)?])
    }
}

/// A graph whose numbers are terms.
pub(super) struct SizedGraph {
    text: Box<[u8]>,
    /// With the numbers of the sizes that were compiled with.
    graph: Value,
    /// The shapes of the graph's tensors, in its order.
    tensors: Vec<Shape>,
    results: Vec<Shape>,
    places: Vec<Place>,
    executions: RwLock<HashMap<Shaped, Arc<Kept>>>,
}

/// An execution's sizes, device and session.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Shaped {
    sizes: Vec<i64>,
    device: Device,
    session: Box<[u8]>,
}

/// An execution in some sizes, and when it was asked for last.
struct Kept {
    execution: Execution,
    results: Vec<[Vec<i64>; 2]>,
    asked: AtomicU64,
}

static GRAPHS: ByText<SizedGraph> = ByText::new();

/// Counts what was asked for.
static CLOCK: AtomicU64 = AtomicU64::new(0);

impl SizedGraph {
    /// The graph of a text, read where this is the first time.
    pub(super) fn of(text: &[u8]) -> Outcome<Arc<Self>> {
        GRAPHS.of(text, |known| *known.text == *text, || Self::read(text))
    }

    fn read(text: &[u8]) -> Outcome<Self> {
        let mut whole: Value = serde_json::from_slice(text).map_err(|error| format!("graph: {error}"))?;
        let mut places = Vec::new();
        let mut shape = |value: &Value| {
            let mut terms = |what| terms(&value[what], &mut places);
            Some(Shape { dim: terms("dim")?, stride: terms("stride")? })
        };
        let graph = whole.get_mut("graph").map(Value::take).unwrap_or_default();
        let tensors = graph["tensors"].as_array().and_then(|tensors| {
            tensors
                .iter()
                .map(|tensor| shape(&whole["sizes"][tensor["uid"].to_string()]))
                .collect::<Option<Vec<Shape>>>()
        });
        let results = whole["outputs"].as_array().and_then(|results| results.iter().map(&mut shape).collect());
        let (Some(tensors), Some(results)) = (tensors, results) else {
            return Err("graph: this is no text of a graph with sizes".to_owned());
        };
        Ok(Self { text: text.into(), graph, tensors, results, places, executions: RwLock::default() })
    }

    /// Executes in the sizes of the operands and those given.
    pub(super) fn run(
        &self,
        shim: &'static Shim,
        tensors: &[Tensor],
        given: &[i64],
        session: &[u8],
    ) -> Outcome<Vec<Tensor>> {
        let first = tensors.first().ok_or("found no tensors; required: at least one")?;
        let sizes = self.places.iter().map(|place| size(place, tensors, given)).collect::<Outcome<Vec<i64>>>()?;
        let shaped = Shaped { sizes, device: first.device()?, session: session.into() };
        let kept = self.kept(shim, shaped)?;
        let results = kept.execution.run(shim, tensors)?;
        let viewed = results.iter().zip(&kept.results).map(|(result, [dim, stride])| result.view(dim, stride));
        viewed.collect()
    }

    fn kept(&self, shim: &Shim, shaped: Shaped) -> Outcome<Arc<Kept>> {
        let now = CLOCK.fetch_add(1, Ordering::Relaxed);
        if let Some(found) = self.executions.read().unwrap_or_else(PoisonError::into_inner).get(&shaped) {
            found.asked.store(now, Ordering::Relaxed);
            return Ok(Arc::clone(found));
        }
        // without the lock: it may compile
        let execution =
            Execution::prepare(shim, self.in_sizes(&shaped.sizes)?.as_bytes(), &shaped.session, shaped.device)?;
        let results = self.results.iter().map(|shape| shape.values(&shaped.sizes)).collect::<Outcome<Vec<_>>>()?;
        execution.require_results(&results)?;
        let made = Arc::new(Kept { execution, results, asked: now.into() });
        let mut executions = self.executions.write().unwrap_or_else(PoisonError::into_inner);
        if executions.len() >= SHAPES {
            let asked = |kept: &Arc<Kept>| kept.asked.load(Ordering::Relaxed);
            let oldest = executions.iter().min_by_key(|(_, kept)| asked(kept)).map(|(shaped, _)| shaped.clone());
            oldest.and_then(|shaped| executions.remove(&shaped));
        }
        Ok(Arc::clone(executions.entry(shaped).or_insert(made)))
    }

    /// The graph's text in some sizes.
    fn in_sizes(&self, sizes: &[i64]) -> Outcome<String> {
        let mut graph = self.graph.clone();
        let tensors = graph["tensors"].as_array_mut().into_iter().flatten();
        for (tensor, shape) in tensors.zip(&self.tensors) {
            let [dim, stride] = shape.values(sizes)?;
            tensor["dim"] = dim.into();
            tensor["stride"] = stride.into();
        }
        Ok(graph.to_string())
    }
}

/// The terms of a list; those of the sizes that are new come behind `places`. None where it is no list of terms.
fn terms(value: &Value, places: &mut Vec<Place>) -> Option<Vec<Term>> {
    let mut term = |value: &Value| match value {
        Value::Array(parts) => {
            let (factor, names) = parts.split_first()?;
            let mut sizes = Vec::new();
            for name in names {
                let place = place(name.as_str()?)?;
                let known = places.iter().position(|known| *known == place);
                sizes.push(known.unwrap_or_else(|| {
                    places.push(place);
                    places.len() - 1
                }));
            }
            Some(Term { factor: factor.as_i64()?, sizes })
        }
        number => Some(Term { factor: number.as_i64()?, sizes: Vec::new() }),
    };
    value.as_array()?.iter().map(&mut term).collect()
}

fn place(name: &str) -> Option<Place> {
    if let Some(number) = name.strip_prefix('$') {
        return number.parse().ok().map(Place::Given);
    }
    let (operand, axis) = name.split_once('.')?;
    Some(Place::Axis(operand.parse().ok()?, axis.parse().ok()?))
}

fn size(place: &Place, tensors: &[Tensor], given: &[i64]) -> Outcome<i64> {
    match *place {
        Place::Given(number) => {
            given.get(number).copied().ok_or_else(|| format!("found {} sizes; required: more", given.len()))
        }
        Place::Axis(operand, axis) => {
            let tensor =
                tensors.get(operand).ok_or_else(|| format!("found {} tensors; required: more", tensors.len()))?;
            let (shape, _) = tensor.layout()?;
            shape
                .get(axis)
                .copied()
                .ok_or_else(|| format!("tensor {operand}: found shape {shape:?}; required: more axes"))
        }
    }
}
