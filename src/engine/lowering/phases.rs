//! Passes over the same points as phases of one launch: which they are, and what is evaluated in each.

use std::collections::BTreeSet;

use super::passes::Pass;
use super::sweep::{
    SweepRequest, Width, needs_wide_index, over, program_parameters, single_point, with_bytes_of_booleans,
};
use crate::graph::{DataType, FinalizedGraph, TensorId};
use crate::kernel::{
    Access, Axis, Held, IterationRequest, IterationSpace, Parameter, Phase, Register, StageProgram, Sweep, Value,
};

/// Passes that one launch may take: those over the points of the deepest reduction, or over what it keeps.
pub(super) struct Gathered<'a> {
    pub(super) graph: &'a FinalizedGraph,
    pub(super) program: &'a StageProgram,
    passes: Vec<&'a Pass>,
    /// Extents of the points, and axes that are reduced.
    pub(super) full: &'a [i64],
    pub(super) reduced: &'a BTreeSet<usize>,
    /// Extents of what is kept.
    kept: Vec<i64>,
    /// Totals that stay with the threads.
    pub(super) totals: BTreeSet<TensorId>,
    /// Passes that have nothing to do with these.
    pub(super) rest: Vec<Pass>,
}

impl<'a> Gathered<'a> {
    /// `None` where passes do not read what those over the same points were reduced to.
    pub(super) fn new(graph: &'a FinalizedGraph, program: &'a StageProgram, passes: &'a [Pass]) -> Option<Self> {
        let deepest = passes.iter().filter(|pass| !pass.accumulations.is_empty()).max_by_key(|pass| pass.level)?;
        let (full, reduced) = (&deepest.extents, &deepest.reduced);
        let kept: Vec<i64> =
            full.iter().enumerate().map(|(axis, &extent)| if reduced.contains(&axis) { 1 } else { extent }).collect();
        let is_of_points = |pass: &&Pass| match pass.accumulations.is_empty() {
            false => &pass.extents == full && &pass.reduced == reduced,
            true => pass.gathered.is_empty() && (&pass.extents == full || pass.extents == kept),
        };
        let totals: BTreeSet<TensorId> = passes
            .iter()
            .filter(|pass| !pass.accumulations.is_empty() && is_of_points(pass))
            .flat_map(|pass| &pass.accumulations)
            .map(|accumulation| accumulation.target)
            .collect();
        let needed = |pass: &Pass| needed_by(program, &[pass]);
        let reads = |pass: &Pass, of: &BTreeSet<TensorId>| needed(pass).loads().any(|id| of.contains(&id));
        let others: BTreeSet<TensorId> = passes
            .iter()
            .filter(|pass| !is_of_points(pass))
            .flat_map(|pass| &pass.accumulations)
            .map(|accumulation| accumulation.target)
            .chain(passes.iter().flat_map(|pass| &pass.gathered).map(|gathered| gathered.target))
            .collect();
        // what only follows other reductions goes with them
        let (own, rest): (Vec<&Pass>, Vec<&Pass>) =
            passes.iter().partition(|pass| is_of_points(pass) && !reads(pass, &others));
        // bytes of packed booleans are of several rows
        let stores_bits = |pass: &Pass| {
            pass.extents == kept && pass.stores.iter().any(|&id| graph.tensor(id).data_type == DataType::Boolean)
        };
        let adds_to_totals = |pass: &&Pass| pass.totals().any(|id| totals.contains(&id));
        let is_whole = own.iter().all(|pass| pass.packed.is_none() && !stores_bits(pass))
            && !rest.iter().any(adds_to_totals)
            && rest.iter().all(|pass| !reads(pass, &totals))
            && totals.iter().all(|&id| graph.tensor(id).is_virtual)
            && own.iter().any(|pass| reads(pass, &totals));
        let rest = rest.into_iter().cloned().collect();
        is_whole.then_some(Self { graph, program, passes: own, full, reduced, kept, totals, rest })
    }
}

/// What passes compute.
fn needed_by(program: &StageProgram, passes: &[&Pass]) -> StageProgram {
    let computed = passes.iter().flat_map(|pass| pass.stores.iter().copied().chain(pass.sources()));
    program.needed_for(computed)
}

/// What the combination of a pass over kept points touches: its totals, and what follows these.
fn of_columns(graph: &FinalizedGraph, program: &StageProgram, pass: &Pass) -> Vec<TensorId> {
    let following = program.needed_for(pass.following.iter().copied());
    let read = following.moved().filter(|&id| !graph.tensor(id).is_pass_by_value);
    read.chain(pass.totals()).chain(pass.following.iter().copied()).collect()
}

/// Passes over the same points, and the axes of these.
pub(super) struct Planned<'a> {
    pub(super) graph: &'a FinalizedGraph,
    pub(super) program: &'a StageProgram,
    passes: &'a [&'a Pass],
    kept: &'a [i64],
    totals: &'a BTreeSet<TensorId>,
    pub(super) space: IterationSpace,
    pub(super) width: Width,
    pub(super) wide_index: bool,
    /// The pass that adds up over kept points.
    pub(super) columns: Option<&'a Pass>,
}

impl<'a> Planned<'a> {
    /// `None` where points are not read point by point.
    pub(super) fn new(gathered: &'a Gathered<'a>, columns: Option<&'a Pass>) -> Option<Self> {
        let &Gathered { graph, program, ref passes, full, reduced, ref totals, ref kept, .. } = gathered;
        let over_points = |pass: &&&Pass| pass.extents == full;
        let of = |passes: &[&Pass]| {
            let stores: Vec<TensorId> = passes.iter().flat_map(|pass| pass.stores.iter().copied()).collect();
            (needed_by(program, passes), stores)
        };
        let (points, stores) = of(&passes.iter().filter(over_points).copied().collect::<Vec<_>>());
        let (all, every_store) = of(passes);
        if !all.reads_points_alone() {
            return None;
        }
        let request = SweepRequest {
            graph,
            extents: full,
            program: all.clone(),
            stores: every_store,
            targets: Vec::new(),
            reduced: reduced.clone(),
            core: None,
        };
        let memory = request.memory_tensors();
        let largest = SweepRequest { program: points.clone(), stores: stores.clone(), ..request };
        let reference = largest.reference(&largest.memory_tensors());
        let beside = columns.iter().flat_map(|pass| of_columns(graph, program, pass));
        let tensors: BTreeSet<TensorId> = memory.iter().copied().chain(totals.iter().copied()).chain(beside).collect();
        let tensors: Vec<TensorId> = tensors.into_iter().collect();
        let mut space = IterationSpace::new(&IterationRequest {
            graph,
            extents: full,
            tensors: &tensors,
            reference,
            reduced,
            pinned: &all.indexed_axes(),
            accumulators: &[],
        });
        for axis in &mut space.axes {
            // a total lies in a variable of the thread
            axis.strides.extend(totals.iter().map(|&id| (id, 0.into())));
        }
        let is_moved = |id: &TensorId| !graph.tensor(*id).is_pass_by_value && !totals.contains(id);
        let moved: Vec<TensorId> = points.moved().chain(stores.iter().copied()).filter(is_moved).collect();
        let width = Width::choose(graph, &space, &points, &moved, &stores);
        let wide_index = needs_wide_index(graph, &space, memory.into_iter().filter(is_moved));
        Some(Self { graph, program, passes, kept, totals, space, width, wide_index, columns })
    }

    /// Lets threads have what is reduced along the innermost axis side by side, where the one before is kept: the axis no longer counts as
    /// reduced. Points of it, 1 where it was kept.
    pub(super) fn keep_innermost(&mut self) -> Option<i64> {
        let [.., outer, inner] = self.space.axes.as_mut_slice() else { return None };
        if inner.reduced && outer.reduced {
            return None;
        }
        let was_reduced = std::mem::take(&mut inner.reduced);
        Some(if was_reduced { inner.extent.value() } else { 1 })
    }

    /// Whether vectors are of kept points.
    pub(super) fn is_innermost_kept(&self) -> bool {
        self.space.axes.last().is_some_and(|axis| !axis.reduced)
    }

    /// Whether a tensor differs along the axes that are reduced, or along those that are not.
    pub(super) fn changes(&self, id: TensorId, along_reduced: bool) -> bool {
        let steps = |axis: &Axis| axis.strides.get(&id).is_some_and(|stride| *stride != 0);
        self.space.axes.iter().any(|axis| axis.reduced == along_reduced && steps(axis))
    }

    /// What points read in vectors that differ along those axes, and bytes of these; where they are copied to shared memory by themselves.
    pub(super) fn read_ahead(&self, phases: &[Phase], along_reduced: bool) -> (Vec<TensorId>, u32) {
        let is_of_points = |sweep: &&Sweep| sweep.vector > 1;
        let vectors = |sweep: &Sweep| -> BTreeSet<TensorId> {
            let loads = sweep.program.loads().filter(|id| sweep.access[id] == Access::Vector);
            loads.filter(|id| self.changes(*id, along_reduced)).collect()
        };
        let bytes = |id: TensorId| self.width.vector as u64 * self.graph.tensor(id).data_type.bits() / 8;
        let points = phases.iter().filter_map(|phase| phase.points.as_ref()).filter(is_of_points);
        let all: BTreeSet<TensorId> = points.flat_map(vectors).collect();
        let widths: BTreeSet<u64> = all.iter().map(|&id| bytes(id)).collect();
        match widths.first() {
            Some(&bytes @ (4 | 8 | 16)) if widths.len() == 1 => (all.into_iter().collect(), bytes as u32),
            _ => (Vec::new(), 0),
        }
    }

    /// How many reductions stand before each phase.
    pub(super) fn levels(&self) -> BTreeSet<usize> {
        self.passes.iter().map(|pass| pass.level).collect()
    }

    /// All phases; a thread evaluates one kept point at a time.
    pub(super) fn phases(&self) -> Vec<Phase> {
        self.levels().into_iter().map(|level| self.phase(level)).collect()
    }

    fn phase(&self, level: usize) -> Phase {
        let of_level = |pass: &&&&Pass| pass.level == level;
        let (mut accumulations, mut stores, mut of_kept) = (Vec::new(), Vec::new(), Vec::new());
        for pass in self.passes.iter().filter(|pass| of_level(&pass)) {
            accumulations.extend(pass.accumulations.iter().cloned());
            let is_of_kept = pass.extents == self.kept && pass.accumulations.is_empty();
            if is_of_kept { &mut of_kept } else { &mut stores }.extend(pass.stores.iter().copied());
        }
        let of_columns = self.columns.filter(|pass| pass.level == level).into_iter().flat_map(Pass::sources);
        let sources = accumulations.iter().map(|accumulation| accumulation.source).chain(of_columns);
        let targets: Vec<TensorId> = stores.iter().copied().chain(sources).collect();
        let whole = self.program.needed_for(targets.iter().copied());
        let values = self.held(&whole, &targets);
        let program = whole.reading(&values).needed_for(targets.iter().copied());
        let held = (!values.is_empty()).then(|| {
            let evaluated = whole.needed_for(values.iter().copied());
            Held { sweep: self.over_kept(evaluated, Vec::new()), values: values.clone() }
        });
        let mut space = self.space.clone();
        space.axes.iter_mut().for_each(|axis| axis.strides.extend(values.iter().map(|&id| (id, 0.into()))));
        let points = (!program.steps.is_empty()).then(|| self.sweep(space, program, stores, self.width));
        let points = points.map(|sweep| read_within_threads(sweep, |id| values.contains(&id)));
        let once = (!of_kept.is_empty()).then(|| {
            let program = self.program.needed_for(of_kept.iter().copied());
            self.over_kept(program, of_kept)
        });
        Phase { points, accumulations, once, held }
    }

    /// Values in registers of `float` that points read, and that are the same along all axes that are reduced: where a thread has vectors of kept points, and
    /// totals of each. Totals are there already, and numbers of the host's cost nothing.
    fn held(&self, program: &StageProgram, targets: &[TensorId]) -> Vec<TensorId> {
        if !self.is_innermost_kept() {
            return Vec::new();
        }
        let same = self.same_along_reduced(program);
        let read =
            program.steps.iter().filter(|step| !same.contains(&step.tensor)).flat_map(|step| match &step.value {
                Value::Pointwise { operands, .. } => operands.as_slice(),
                _ => &[],
            });
        let read: BTreeSet<TensorId> = read.chain(targets).copied().filter(|id| same.contains(id)).collect();
        let steps = |id: TensorId| program.steps.iter().filter(move |step| step.tensor == id);
        let is_load = |id: TensorId| steps(id).all(|step| step.value == Value::Load);
        let is_held = |&id: &TensorId| {
            let tensor = self.graph.tensor(id);
            let is_float = match is_load(id) {
                true => Register::of(tensor.data_type) == Register::Float,
                false => tensor.data_type == DataType::Float,
            };
            is_float && !tensor.is_pass_by_value && !self.totals.contains(&id) && steps(id).count() == 1
        };
        read.into_iter().filter(is_held).collect()
    }

    /// Values of a program that are the same along all axes that are reduced.
    fn same_along_reduced(&self, program: &StageProgram) -> BTreeSet<TensorId> {
        let mut same: BTreeSet<TensorId> = BTreeSet::new();
        for step in &program.steps {
            let is_scalar = self.graph.tensor(step.tensor).is_pass_by_value;
            let is_same = match &step.value {
                Value::Load => is_scalar || !self.changes(step.tensor, true),
                Value::Pointwise { operands, .. } => {
                    step.generated_axis().is_none() && operands.iter().all(|id| same.contains(id))
                }
                Value::Accumulator | Value::Concat(_) | Value::Window(_) => false,
            };
            if is_same {
                same.insert(step.tensor);
            }
        }
        same
    }

    /// A sweep over the kept axes.
    fn over_kept(&self, program: StageProgram, stores: Vec<TensorId>) -> Sweep {
        let mut space = self.space.clone();
        space.axes.retain(|axis| !axis.reduced);
        if space.axes.is_empty() {
            space.axes.push(single_point(&self.space.axes[0].strides.keys().copied().collect::<Vec<_>>()));
        }
        self.sweep(space, program, stores, Width { vector: 1, ragged: false })
    }

    fn sweep(&self, space: IterationSpace, program: StageProgram, stores: Vec<TensorId>, width: Width) -> Sweep {
        let sweep = with_bytes_of_booleans(self.graph, over(self.graph, space, program, stores, width));
        let sweep = Sweep { wide_index: self.wide_index, ..sweep };
        if self.is_innermost_kept() { read_within_threads(sweep, |id| self.totals.contains(&id)) } else { sweep }
    }
}

/// The same sweep, where threads have one value of some tensors for each point of a vector.
fn read_within_threads(mut sweep: Sweep, is_within: impl Fn(TensorId) -> bool) -> Sweep {
    let own = sweep.access.iter_mut().filter(|(id, _)| is_within(**id));
    own.for_each(|(_, access)| *access = Access::Strided);
    sweep
}

/// Parameters of a launch of phases.
pub(super) fn phase_parameters(phases: &[Phase]) -> Vec<Parameter> {
    let (reads, stores) = Phase::touched(phases);
    let sweeps = || phases.iter().flat_map(Phase::sweeps);
    let is_scalar = |id: TensorId| sweeps().any(|sweep| sweep.access.get(&id) == Some(&Access::Parameter));
    program_parameters(reads.into_iter(), &stores, is_scalar)
}
