//! Spells what is read elsewhere than at the point itself: parts of concatenations, windows of resamplings, flags.

use serde::Serialize;

use super::names;
use super::sections::Used;
use super::sweep::SweepSpeller;
use crate::graph::{FinalizedGraph, SignalMode, TensorId};
use crate::kernel::{
    Access, Interpolation, MAX_WINDOW_AXES, Maxima, Part, Pool, PoolFunction, Register, SignalKernel, Step, Value,
    Window, step,
};

/// What `sweep/signal.cu` reads beside the function's name and parameters.
#[derive(Serialize)]
pub(super) struct SignalText {
    lines: Vec<String>,
}

pub(super) fn signal(graph: &FinalizedGraph, used: &mut Used, kernel: &SignalKernel) -> SignalText {
    let lines = kernel.actions.iter().map(|action| {
        let function = if action.mode == SignalMode::Wait { "fw_wait_flag" } else { "fw_set_flag" };
        used.add(function);
        used.add(names::storage_section(graph.tensor(action.flag).data_type));
        format!("{function}({}, {});", names::pointer(graph, action.flag), names::integer_literal(action.value))
    });
    SignalText { lines: lines.collect() }
}

impl SweepSpeller<'_> {
    /// Before the loop over the vector: geometries, and vectors that are read as a whole.
    pub(super) fn read_before(&mut self) -> Vec<String> {
        let sweep = self.sweep;
        let mut searches: Vec<TensorId> = Vec::new();
        let mut lines = Vec::new();
        for step in &sweep.program.steps {
            match &step.value {
                Value::Concat(parts) if sweep.concatenated.contains(&step.tensor) => {
                    lines.extend(self.part_vectors(step.tensor, parts))
                }
                Value::Window(window) => {
                    let search = search(step.tensor, window);
                    if searches.contains(&search) {
                        continue;
                    }
                    searches.push(search);
                    lines.push(self.geometry(step.tensor, window));
                    if self.reads_vectors(window) {
                        lines.extend(self.window(step.tensor, window, true));
                    }
                }
                _ => {}
            }
        }
        lines
    }

    /// The value of one step at point `e`.
    pub(super) fn read_elsewhere(&mut self, step: &Step) -> Vec<String> {
        match &step.value {
            Value::Concat(parts) => vec![self.part(step.tensor, parts)],
            Value::Window(window) => self.window_value(step.tensor, window),
            _ => Vec::new(),
        }
    }

    // Concatenations.

    /// Condition under which a point that lies in no earlier part lies in this one; none for the last.
    fn condition(&mut self, result: TensorId, part: &Part, at_point: bool) -> Option<String> {
        let dim = &self.speller.graph.tensor(result).dim;
        let ends: Vec<usize> = (0..dim.len()).filter(|&axis| part.end[axis] < dim[axis]).collect();
        let mut conditions = Vec::new();
        for axis in ends {
            conditions.push(format!("{} < {}", self.coordinate(result, axis, at_point), part.end[axis]));
        }
        (!conditions.is_empty()).then(|| conditions.join(" && "))
    }

    fn part_vectors(&mut self, result: TensorId, parts: &[Part]) -> Vec<String> {
        let graph = self.speller.graph;
        let name = graph.canonical_name(result);
        let register = names::register_type(Register::of(self.data_type(result)));
        self.speller.used.add("fw_vector");
        self.speller.used.add(names::storage_section(self.data_type(result)));
        let mut lines = vec![format!("{register} v_{name}[{}];", self.sweep.vector)];
        for (number, part) in parts.iter().enumerate() {
            let mut offset = shifted(&self.offset_name(part.tensor), part.shift(self.speller.graph));
            if offset.contains(' ') {
                offset = format!("({offset})");
            }
            let load = format!("fw_load_vector({} + {offset}, v_{name});", names::pointer(graph, part.tensor));
            let otherwise = if number > 0 { "else " } else { "" };
            lines.push(match self.condition(result, part, false) {
                Some(condition) => format!("{otherwise}if ({condition}) {load}"),
                None => format!("{otherwise}{load}"),
            });
        }
        lines
    }

    fn part(&mut self, result: TensorId, parts: &[Part]) -> String {
        let mut text = String::new();
        if self.sweep.concatenated.contains(&result) {
            text = format!("v_{}[{}]", self.speller.graph.canonical_name(result), self.point());
        } else {
            for part in parts {
                let offset = shifted(&self.point_offset(part.tensor), part.shift(self.speller.graph));
                let element = self.speller.element(part.tensor, &offset);
                text += &match self.condition(result, part, true) {
                    Some(condition) => format!("{condition} ? {element} : "),
                    None => element,
                };
            }
        }
        let register = Register::of(self.data_type(result));
        self.speller.define_stored(result, register, &text)
    }

    // Windows.

    /// Whether all that a window reads comes in vectors of channels.
    fn reads_vectors(&self, window: &Window) -> bool {
        window.tensors().iter().all(|id| self.sweep.gathers.get(id) == Some(&Access::Vector))
    }

    /// Type of a window's coordinates and offsets.
    fn window_index(&self, window: &Window) -> &'static str {
        let is_wide = self.sweep.wide_index || window.reach() > i64::from(i32::MAX);
        if is_wide { "long long" } else { "int" }
    }

    /// A constant with the extents of a window's axes.
    fn geometry(&mut self, result: TensorId, window: &Window) -> String {
        let index = self.window_index(window);
        let name = self.speller.graph.canonical_name(search(result, window));
        match window {
            Window::Pool(pool) => {
                let axes = pool.axes.iter().map(|a| [a.pixels, a.windows, a.window, a.stride, a.padding]);
                let axes = spatial(axes.map(braces).collect(), "{1, 1, 1, 1, 0}");
                self.speller.used.add("fw_pool");
                format!("const fw_pool<{index}> pool_{name} = {{{axes}}};  // pixels, windows, window, stride, padding")
            }
            Window::Interpolation(interpolation) => {
                let axes = interpolation.axes.iter().map(|a| [a.pixels, a.scale, a.shift, a.parts]);
                let axes = spatial(axes.map(braces).collect(), "{1, 0, 0, 1}");
                self.speller.used.add("fw_interpolate");
                format!("const fw_samples<{index}> samples_{name} = {{{axes}}};  // pixels, scale, shift, parts")
            }
        }
    }

    fn window_value(&mut self, result: TensorId, window: &Window) -> Vec<String> {
        let in_vectors = self.reads_vectors(window);
        let name = self.speller.graph.canonical_name(search(result, window));
        let mut lines = Vec::new();
        if !in_vectors && self.is_first_of_search(result, window) {
            lines.extend(self.window(result, window, false));
        }
        let element = if in_vectors { self.point() } else { "0" };
        let place = matches!(window, Window::Pool(Pool { function: PoolFunction::Place, .. }));
        let (register, array) = if place { (Register::Int, "at") } else { (Register::Float, "v") };
        lines.push(self.speller.define_result(result, register, format!("{array}_{name}[{element}]")));
        lines
    }

    fn is_first_of_search(&self, result: TensorId, window: &Window) -> bool {
        let searched = search(result, window);
        let mut steps = self.sweep.program.steps.iter();
        let first =
            steps.find(|step| matches!(&step.value, Value::Window(other) if search(step.tensor, other) == searched));
        first.is_none_or(|step| step.tensor == result)
    }

    /// Arrays, and the call that fills them.
    fn window(&mut self, result: TensorId, window: &Window, in_vectors: bool) -> Vec<String> {
        let name = self.speller.graph.canonical_name(search(result, window));
        let vector = if in_vectors { self.sweep.vector } else { 1 };
        let planes: Vec<String> =
            window.tensors().into_iter().map(|id| self.plane(result, window, id, in_vectors)).collect();
        let (function, geometry) = match window {
            Window::Pool(pool) => (pool_function(self.speller.used, pool), format!("pool_{name}")),
            Window::Interpolation(_) => ("fw_interpolate", format!("samples_{name}")),
        };
        let mut lines = vec![format!("float v_{name}[{vector}];")];
        let mut filled = format!("v_{name}");
        if function == "fw_pool_max" {
            lines.push(format!("int at_{name}[{vector}];"));
            filled += &format!(", at_{name}");
        }
        let point = self.window_point(result, window, in_vectors);
        lines.push(format!("{function}({}, {geometry}, {point}, {filled});", planes.join(", ")));
        lines
    }

    /// The plane of a tensor in which the point lies.
    fn plane(&mut self, result: TensorId, window: &Window, id: TensorId, in_vectors: bool) -> String {
        let graph = self.speller.graph;
        let tensor = graph.tensor(id);
        let index = self.window_index(window);
        self.speller.used.add("fw_plane");
        self.speller.used.add(names::storage_section(tensor.data_type));
        let mut terms = Vec::new();
        for axis in 0..2 {
            match (self.coordinate(result, axis, !in_vectors), step(tensor, axis)) {
                (_, 0) => {}
                (coordinate, _) if coordinate == "0" => {}
                (coordinate, 1) => terms.push(cast(index, &coordinate)),
                (coordinate, stride) => terms.push(format!("{} * {stride}", cast(index, &coordinate))),
            }
        }
        let base = if terms.is_empty() { "0".to_owned() } else { terms.join(" + ") };
        let steps = (2..tensor.dim.len()).map(|axis| step(tensor, axis).to_string()).collect();
        let (storage, pointer) = (names::storage_type(tensor.data_type), names::pointer(graph, id));
        format!("fw_plane<{storage}, {index}>{{{pointer} + ({base}), {}}}", spatial(steps, "0"))
    }

    /// The spatial coordinates of the point.
    fn window_point(&mut self, result: TensorId, window: &Window, in_vectors: bool) -> String {
        let index = self.window_index(window);
        let coordinates = (2..window.rank()).map(|axis| match self.coordinate(result, axis, !in_vectors) {
            coordinate if coordinate == "0" => coordinate,
            coordinate => cast(index, &coordinate),
        });
        format!("fw_point<{index}>{{{}}}", spatial(coordinates.collect(), "0"))
    }
}

/// The result that names the arrays of a window: a maximum and its place share them.
fn search(result: TensorId, window: &Window) -> TensorId {
    match window {
        Window::Pool(pool) => pool.search,
        Window::Interpolation(Interpolation { .. }) => result,
    }
}

fn pool_function(used: &mut Used, pool: &Pool) -> &'static str {
    let (section, function) = match pool.function {
        PoolFunction::Mean { counts_padding: true } => ("fw_pool_mean", "fw_pool_mean<true>"),
        PoolFunction::Mean { counts_padding: false } => ("fw_pool_mean", "fw_pool_mean<false>"),
        PoolFunction::Maximum | PoolFunction::Place => ("fw_pool_max", "fw_pool_max"),
        PoolFunction::MeanGradient { counts_padding: true } => ("fw_pool_mean_bwd", "fw_pool_mean_bwd<true>"),
        PoolFunction::MeanGradient { counts_padding: false } => ("fw_pool_mean_bwd", "fw_pool_mean_bwd<false>"),
        PoolFunction::MaximumGradient { maxima: Maxima::Index(_) } => ("fw_pool_max_bwd", "fw_pool_max_bwd"),
        PoolFunction::MaximumGradient { maxima: Maxima::Image(_) } => ("fw_pool_max_bwd_of", "fw_pool_max_bwd_of"),
    };
    used.add(section);
    function
}

/// Three entries, those of absent axes first.
fn spatial(entries: Vec<String>, absent: &str) -> String {
    let mut all = vec![absent.to_owned(); MAX_WINDOW_AXES.saturating_sub(entries.len())];
    all.extend(entries);
    all.join(", ")
}

fn braces<const N: usize>(values: [i64; N]) -> String {
    format!("{{{}}}", values.map(|value| value.to_string()).join(", "))
}

fn cast(index: &str, coordinate: &str) -> String {
    if index == "int" { format!("int({coordinate})") } else { format!("(long long)({coordinate})") }
}

/// An offset less the elements before a part.
fn shifted(offset: &str, shift: i64) -> String {
    if shift == 0 { offset.to_owned() } else { format!("{offset} - {shift}") }
}
