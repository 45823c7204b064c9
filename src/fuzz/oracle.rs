//! What must hold of every graph.

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::breaker::broken;
use super::change;
use super::choices::Choices;
use super::finding::{Finding, finding, judge};
use super::metamorphic::{self, Change};
use super::rewrite::rewritten;
use super::runner::{Execution, Runner};
use super::shapes;
use crate::build::Build;
use crate::device::{ComputeCapability, Device};
use crate::engine::{self, Floor, RankedConfig, Selection};
use crate::error::Error;
use crate::frontend;
use crate::graph::{FinalizedGraph, Graph, Port, TensorId};
use crate::host_tensor::{HostTensor, HostTensors};
use crate::reference::{
    BoundOptions, Bounds, Distribution, bounds_with, compare, compare_exact, evaluate_f64, execute, random_inputs,
};
use crate::support::{self, SurfaceId};

/// What was found out of a graph that meets every expectation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is not well formed.
    Malformed,
    /// No engine takes it.
    Refused,
    /// An engine takes it.
    Accepted {
        /// Whether the surface aimed at holds as documented.
        on_aim: bool,
        /// What was done with its kernels and results.
        computed: Computed,
        /// The rule that an edit of it broke, and that the refusal named; `None` where no edit was made.
        broken: Option<&'static str>,
    },
}

/// What was done with a graph's kernels and results; large graphs are not run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Computed {
    /// Kernels compiled.
    pub compiled: u64,
    /// Kernels run, each compared with the CPU engine.
    pub run: u64,
    /// Whether results were compared at all, be it those of the CPU engine.
    pub matched: bool,
}

/// How graphs are examined.
#[derive(Clone, Copy)]
pub struct Examination<'a> {
    /// Whether results are computed: by the CPU engine, op by op in double precision, and from graphs that mean the same.
    pub computes: bool,
    /// What else compiles and runs kernels.
    pub runner: Option<&'a dyn Runner>,
}

/// A check, lowering and rendering that take longer hang, in the eyes of whoever waits.
const PATIENCE: Duration = Duration::from_secs(20);

/// FLOP of a core, and bytes of tensors, up to which results are computed without a runner.
const LIMIT: u64 = 4_000_000;

/// Source files rendered for a graph: the first config, and one of the others.
const CONFIGS: usize = 2;

/// Where the bytes lie that draw a chip, how inputs are distributed, and other shapes: the first bytes decide what graph it is, and no kind
/// of graphs must go with one kind of inputs.
const DEVICE_BYTE: usize = 64;
const INPUTS_BYTE: usize = 72;
const SHAPES_BYTE: usize = 128;

/// Part of the draws of inputs that place values where the graph's functions jump or tie, in percent.
const PLACED: usize = 50;

/// What is drawn from the bytes from one on.
fn choices_from(bytes: &[u8], first: usize) -> Choices<'_> {
    Choices::new(bytes.get(first..).unwrap_or_default())
}

/// Holds a graph against every expectation. `bytes` decides what is drawn on the way: orders, configs, changes.
///
/// # Errors
/// The first expectation that it does not meet.
pub fn examine(
    graph: &Graph,
    aim: SurfaceId,
    bytes: &[u8],
    examination: &Examination<'_>,
) -> Result<Standing, Finding> {
    let examined = catch_unwind(AssertUnwindSafe(|| Examiner { aim, bytes, examination }.examine(graph)));
    examined.unwrap_or_else(|payload| Err(finding("nothing panics", panic_message(&*payload))))
}

/// The inputs that [`examine`] draws from these bytes for a graph: one half of all draws places values where the graph's
/// functions jump or tie.
///
/// # Errors
/// As [`random_inputs`].
pub fn drawn_inputs(graph: &FinalizedGraph, bytes: &[u8]) -> Result<HostTensors, Error> {
    let seed = Choices::new(bytes).below(1 << 16) as u64;
    let is_placed = choices_from(bytes, INPUTS_BYTE).chance(PLACED);
    let distribution = if is_placed { Distribution::Landmarks } else { Distribution::Normal };
    random_inputs(graph, seed, distribution)
}

fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without a message".to_owned())
}

/// What is written in either dialect reads back as the same graph.
pub(super) fn reads_back(graph: &Graph, finalized: &FinalizedGraph) -> Result<(), Finding> {
    const ORACLE: &str = "a graph that is written reads back";
    // dialect 1.0 tells a tensor without a uid by its name, which an operation in place makes ambiguous
    for (form, text) in [("2.0", frontend::write_v2(graph)), ("1.0", frontend::write_v1c(&finalized.to_graph()))] {
        let failed = |message: &dyn fmt::Display| finding(ORACLE, format!("{form}: {message}\n{text}"));
        let again = frontend::read_graph("written", text.as_bytes()).map_err(|error| failed(&error))?;
        let again = again.finalize().map_err(|error| failed(&error))?;
        if again.key() != finalized.key() {
            return Err(failed(&"the key is another"));
        }
    }
    Ok(())
}

/// A kernel of a graph in another shape, and what is to come out.
struct InOtherShape {
    build: Build,
    inputs: HostTensors,
    expected: HostTensors,
}

struct Examiner<'a> {
    aim: SurfaceId,
    bytes: &'a [u8],
    examination: &'a Examination<'a>,
}

impl Examiner<'_> {
    fn examine(&self, graph: &Graph) -> Result<Standing, Finding> {
        let start = Instant::now();
        let Ok(finalized) = graph.finalize() else { return Ok(Standing::Malformed) };
        let finalized = Arc::new(finalized);
        reads_back(graph, &finalized)?;
        let decision = engine::decide(&finalized, self.device().capability, &SurfaceId::ALL);
        if decision.report.supported.is_none() {
            change::helps(&finalized, &decision.report)?;
            if let Some(inputs) = self.inputs_of_a_refusal(&finalized) {
                change::keeps_results(&finalized, &decision.report, inputs)?;
            }
        }
        let selection = decision.into_selection().ok();
        let builds = selection.as_ref().map(|selection| self.builds(selection)).transpose()?.unwrap_or_default();
        self.is_the_same_rewritten(&finalized, selection.as_ref(), builds.first())?;
        let took = start.elapsed();
        if took > PATIENCE {
            return Err(finding("a verdict comes in time", format!("{:.1} s", took.as_secs_f64())));
        }
        if selection.is_none() {
            return Ok(Standing::Refused);
        }
        let computed = self.computes(&finalized, &builds)?;
        let holds = |surface| support::check(&finalized, self.device().capability, &[surface]).supported.is_some();
        let legal: Vec<SurfaceId> = SurfaceId::ALL.into_iter().filter(|&surface| holds(surface)).collect();
        let broken = broken(&finalized, &legal, self.device().capability, self.bytes)?;
        Ok(Standing::Accepted { on_aim: legal.contains(&self.aim), computed, broken })
    }

    fn device(&self) -> Device {
        let choices = &mut choices_from(self.bytes, DEVICE_BYTE);
        let drawn = self.examination.runner.map(|runner| choices.of(runner.devices()));
        drawn.unwrap_or_else(|| Device::typical(ComputeCapability::SM_90))
    }

    /// Inputs of a refused graph, where results are asked for; a refused graph may have none.
    fn inputs_of_a_refusal(&self, graph: &FinalizedGraph) -> Option<HostTensors> {
        let is_asked = self.examination.computes && work(graph) <= LIMIT && !shares_a_flag(graph);
        is_asked.then(|| drawn_inputs(graph, self.bytes).ok()).flatten()
    }

    /// What an engine takes lowers and renders, with the first of its configs and with another.
    fn builds(&self, selection: &Selection) -> Result<Vec<Build>, Finding> {
        let device = self.device();
        let mut configs = selection.candidates(&device);
        let other = Choices::new(self.bytes).below(configs.len());
        self.offers_are_candidates(selection, &configs, &device)?;
        if other > 0 {
            configs.swap(1, other);
        }
        let builds = configs.into_iter().take(CONFIGS).map(|ranked| {
            Build::new(selection, ranked.config, &device).map_err(|error| finding("what is accepted renders", error))
        });
        builds.collect()
    }

    /// What is offered is what is ranked: of a drawn config, and of the same with another knob.
    fn offers_are_candidates(
        &self,
        selection: &Selection,
        configs: &[RankedConfig],
        device: &Device,
    ) -> Result<(), Finding> {
        const ORACLE: &str = "offers are candidates";
        let mut choices = choices_from(self.bytes, SHAPES_BYTE);
        let Some(drawn) = choices.index_of(configs).map(|place| &configs[place].config) else { return Ok(()) };
        let mut changed = drawn.clone();
        if let Some(place) = choices.index_of(&changed.knobs) {
            changed.knobs[place].1 = if choices.chance(50) { changed.knobs[place].1 * 2 } else { 1 };
        }
        for config in [drawn, &changed] {
            let is_ranked = configs.iter().any(|ranked| ranked.config == *config);
            if selection.offers(config, device) != is_ranked {
                return Err(finding(ORACLE, format!("{config} is {}ranked", if is_ranked { "" } else { "not " })));
            }
        }
        Ok(())
    }

    /// Another order of operations and tensors, other names and uids change neither key, verdict nor source.
    fn is_the_same_rewritten(
        &self,
        graph: &FinalizedGraph,
        selection: Option<&Selection>,
        build: Option<&Build>,
    ) -> Result<(), Finding> {
        const ORACLE: &str = "names and order change nothing";
        let other = rewritten(&graph.to_graph(), self.bytes);
        let other = Arc::new(other.finalize().map_err(|error| finding(ORACLE, error))?);
        if other.key() != graph.key() {
            return Err(finding(ORACLE, "the key is another"));
        }
        let device = self.device();
        let again = engine::select(&other, device.capability).ok();
        let of = |selection: &Selection| (selection.supported().surface(), selection.engine().name());
        if again.as_ref().map(of) != selection.map(of) {
            return Err(finding(ORACLE, "the verdict is another"));
        }
        let (Some(again), Some(build)) = (again, build) else { return Ok(()) };
        let again = Build::new(&again, build.config.clone(), &device).map_err(|error| finding(ORACLE, error))?;
        if again.source.text == build.source.text { Ok(()) } else { Err(finding(ORACLE, "the source is another")) }
    }

    /// Results are right, however they are computed.
    fn computes(&self, graph: &Arc<FinalizedGraph>, builds: &[Build]) -> Result<Computed, Finding> {
        let runner = self.examination.runner;
        if let Some(compiler) = runner.filter(|runner| runner.only_compiles()) {
            return compiles(compiler, builds);
        }
        let is_asked = self.examination.computes || runner.is_some();
        if !is_asked || work(graph) > runner.map_or(LIMIT, Runner::limit) || shares_a_flag(graph) {
            return Ok(Computed::default());
        }
        let inputs = drawn_inputs(graph, self.bytes).map_err(|error| finding("inputs exist", error))?;
        let expected = execute(graph, &inputs).map_err(|error| finding("the CPU engine computes", error))?;
        if self.examination.computes {
            self.evaluation_agrees(graph, &inputs, &expected)?;
            self.same_meaning_same_results(graph, &inputs, &expected)?;
        }
        let mut computed = Computed { matched: true, ..Computed::default() };
        for (runner, build) in runner.into_iter().flat_map(|runner| builds.iter().map(move |one| (runner, one))) {
            let others = self.in_other_shapes(runner, build)?;
            kernels_agree(runner, (build, &inputs, &expected), &others)?;
            computed.compiled += 1;
            computed.run += 1 + others.len() as u64;
        }
        Ok(computed)
    }

    /// Kernels of the same text in other shapes, where a graph's shapes are dynamic.
    fn in_other_shapes(&self, runner: &dyn Runner, build: &Build) -> Result<Vec<InOtherShape>, Finding> {
        if !build.graph.is_dynamic() {
            return Ok(Vec::new());
        }
        let choices = &mut choices_from(self.bytes, SHAPES_BYTE);
        let builds = shapes::of_one_text(build, &self.device(), runner.shapes(), choices)?;
        let are_run = |build: &Build| work(&build.graph) <= runner.limit();
        let computed = |build: Build| {
            let inputs = drawn_inputs(&build.graph, self.bytes).map_err(|error| finding("inputs exist", error))?;
            let expected = execute(&build.graph, &inputs);
            let expected = expected.map_err(|error| finding("the CPU engine computes", error))?;
            Ok(InOtherShape { build, inputs, expected })
        };
        builds.into_iter().filter(are_run).map(computed).collect()
    }

    /// The CPU engine agrees with the evaluation op by op in double precision.
    fn evaluation_agrees(
        &self,
        graph: &FinalizedGraph,
        inputs: &HostTensors,
        expected: &HostTensors,
    ) -> Result<(), Finding> {
        const ORACLE: &str = "the CPU engine agrees with the evaluation in double precision";
        let evaluated = || -> Result<HostTensors, Error> {
            let values = evaluate_f64(graph, inputs)?;
            values.into_iter().map(|(id, dense)| Ok((id, dense.to_host(graph.tensor(id))?))).collect()
        };
        let evaluated = evaluated().map_err(|error| finding(ORACLE, error))?;
        let bounds = bounds_of(graph, inputs, BoundOptions::default())?;
        judge(ORACLE, compare(graph, &evaluated, expected, Some(&bounds)))
    }

    /// Graphs that mean the same have the same results, bit by bit.
    fn same_meaning_same_results(
        &self,
        graph: &FinalizedGraph,
        inputs: &HostTensors,
        expected: &HostTensors,
    ) -> Result<(), Finding> {
        const ORACLE: &str = "graphs that mean the same give the same results";
        let choices = &mut Choices::new(self.bytes);
        for change in Change::ALL {
            let Some(changed) = change.apply(graph, choices) else { continue };
            let named = |message: &dyn fmt::Display| finding(ORACLE, format!("{}: {message}", change.name()));
            let changed = changed.finalize().map_err(|error| named(&error))?;
            let moved_inputs = moved(graph, &changed, inputs);
            let results = execute(&changed, &moved_inputs).map_err(|error| named(&error))?;
            let expected = moved(graph, &changed, expected);
            judge(ORACLE, compare_exact(&changed, &expected, &results)).map_err(|found| named(&found.message))?;
        }
        self.cut_in_two(graph, inputs, expected, choices)
    }

    /// A graph and the two that it is cut into.
    fn cut_in_two(
        &self,
        graph: &FinalizedGraph,
        inputs: &HostTensors,
        expected: &HostTensors,
        choices: &mut Choices<'_>,
    ) -> Result<(), Finding> {
        const ORACLE: &str = "a graph that is cut in two gives the same results";
        let Some(cut) = metamorphic::cut(graph, choices) else { return Ok(()) };
        let finalize = |part: &Graph| part.finalize().map_err(|error| finding(ORACLE, error));
        let (first, second) = (finalize(&cut.first)?, finalize(&cut.second)?);
        let run =
            |part: &FinalizedGraph, inputs: &HostTensors| execute(part, inputs).map_err(|error| finding(ORACLE, error));
        let between = run(&first, &moved(graph, &first, inputs))?;
        let mut rest = moved(graph, &second, inputs);
        rest.extend(moved(&first, &second, &between));
        let results = run(&second, &rest)?;
        let expected = moved(graph, &second, expected);
        judge(ORACLE, compare_exact(&second, &expected, &results))
    }
}

const COMPILES: &str = "what renders compiles and runs";

fn compiles(compiler: &dyn Runner, builds: &[Build]) -> Result<Computed, Finding> {
    for build in builds {
        let compiled = compiler.run(build, &[]);
        compiled.map_err(|error| finding(COMPILES, format!("{}: {error}", build.config)))?;
    }
    Ok(Computed { compiled: builds.len() as u64, ..Computed::default() })
}

/// A compiled kernel agrees with the CPU engine, and so do others of its text in their shapes.
fn kernels_agree(
    runner: &dyn Runner,
    (build, inputs, expected): (&Build, &HostTensors, &HostTensors),
    others: &[InOtherShape],
) -> Result<(), Finding> {
    let others = others.iter().map(|InOtherShape { build, inputs, expected }| (build, inputs, expected));
    let all: Vec<_> = [(build, inputs, expected)].into_iter().chain(others).collect();
    let executions: Vec<Execution<'_>> = all.iter().map(|&(build, inputs, _)| Execution { build, inputs }).collect();
    let failed = |error: Error| finding(COMPILES, format!("{}: {error}", build.config));
    let results = runner.run(build, &executions).map_err(failed)?;
    if results.len() != all.len() {
        return Err(finding(COMPILES, format!("{}: it was not run", build.config)));
    }
    let judged = |(place, (&(build, inputs, expected), actual)): (usize, (&(&Build, _, _), _))| {
        let in_shape =
            |found: Finding| Finding { message: format!("in {}: {}", shape(&build.graph), found.message), ..found };
        agrees(build, inputs, expected, actual).map_err(|found| if place == 0 { found } else { in_shape(found) })
    };
    all.iter().zip(&results).enumerate().try_for_each(judged)
}

/// Dims and strides of a graph's tensors in memory, by uid.
fn shape(graph: &FinalizedGraph) -> String {
    let tensors = graph.tensors().filter(|tensor| !tensor.is_virtual);
    let dims = tensors.map(|tensor| format!("{}: {:?} {:?}", tensor.uid, tensor.dim, tensor.stride));
    dims.collect::<Vec<_>>().join(", ")
}

/// Results of a kernel are those of the CPU engine, within what roundings may make of them.
fn agrees(build: &Build, inputs: &HostTensors, expected: &HostTensors, actual: &HostTensors) -> Result<(), Finding> {
    let Build { graph, config, source, .. } = build;
    let options = BoundOptions { tf32: source.uses_tf32, fp8: source.uses_fp8 };
    let bounds = bounds_of(graph, inputs, options)?;
    let judged = judge("a kernel agrees with the CPU engine", compare(graph, expected, actual, Some(&bounds)));
    judged.map_err(|found| Finding { message: format!("{config}: {}", found.message), ..found })
}

/// Whether several signals use one flag: what one of them waits for may be what another sets, now or never.
fn shares_a_flag(graph: &FinalizedGraph) -> bool {
    let mut flags = BTreeSet::new();
    !graph.operations().filter_map(|operation| operation.input(Port::FLAG)).all(|flag| flags.insert(flag))
}

/// FLOP of the core or bytes of all tensors with their gaps, whichever is more.
fn work(graph: &FinalizedGraph) -> u64 {
    let bytes = graph.tensors().map(|tensor| {
        let bytes = HostTensor::storage_bytes(tensor.data_type, &tensor.dim, &tensor.stride);
        bytes.map_or(u64::MAX, |bytes| bytes as u64)
    });
    Floor::of(graph).flops.max(bytes.fold(0, u64::saturating_add))
}

fn bounds_of(graph: &FinalizedGraph, inputs: &HostTensors, options: BoundOptions) -> Result<Bounds, Finding> {
    bounds_with(graph, inputs, options).map_err(|error| finding("results have bounds", error))
}

/// Tensors under the ids that they have in a changed graph: by uid, which finalizing keeps.
fn moved(graph: &FinalizedGraph, changed: &FinalizedGraph, tensors: &HostTensors) -> HostTensors {
    let place = |id: TensorId| changed.tensor_by_uid(graph.tensor(id).uid);
    tensors.iter().filter_map(|(&id, tensor)| Some((place(id)?, tensor.clone()))).collect()
}
