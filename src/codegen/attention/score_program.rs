//! What a graph does with its scores before they are masked, as the lines of a kernel: most of it for each score, in registers, some of it once
//! for a tile, or for a step.
//!
//! ```text
//! once a tile   what depends on the head alone, as the slope of ALiBi does
//! once a step   distances of a row from the first column of a lane, which those of its other columns follow from by a constant
//! each score    a cap, b · tanh(a · x), by a device function of all scores of a step; then the rest, an operation a line
//! ```

use std::collections::BTreeMap;

use super::number;
use super::scores::ScoreRows;
use crate::codegen::expression::Speller;
use crate::codegen::sections::Used;
use crate::graph::{DataType, FinalizedGraph, PointwiseMode, TensorId};
use crate::kernel::{Register, ScoreCap, ScoreProgram, StageProgram, Step, Value};

/// Lines of a program.
#[derive(Default)]
pub(super) struct ProgramLines {
    /// Of a tile.
    pub(super) of_tile: Vec<String>,
    /// Of a step of keys.
    pub(super) of_step: Vec<String>,
    /// Of a score, `x[i]`; none where nothing is left to do.
    pub(super) each: Vec<String>,
}

/// Integers up to here are exact in `float`.
const EXACT: i64 = 1 << 24;

impl ScoreRows<'_, '_> {
    /// The lines that evaluate a program. What is read for rows and columns beyond the last is the last's.
    pub(super) fn program_lines(&mut self, scores: &ScoreProgram) -> ProgramLines {
        let (graph, ScoreProgram { program, result, .. }) = (self.graph, scores);
        let invariants = program.same_for_heads(graph, self.problem.extents.packed > 1);
        let distances = self.distances(program);
        let of_step = self.lines_of_step(scores.cap.as_ref(), !distances.is_empty());
        let (mut of_tile, mut each) = (Vec::new(), Vec::new());
        let places: BTreeMap<TensorId, String> = program.loads().map(|id| (id, self.score_offset(id))).collect();
        let (coordinates, paired) = (self.coordinates(), &self.problem.paired);
        let mut speller = Speller::new(graph, self.used, program, [*result].into_iter());
        distances.iter().for_each(|(&id, text)| speller.spell_in_float(id, text));
        for step in program.steps.iter().filter(|step| !scores.is_inside_cap(step.tensor)) {
            let line = match places.get(&step.tensor).filter(|_| step.value == Value::Load) {
                Some(place) => load_line(&mut speller, paired, (step.tensor, place)),
                None if scores.is_capped(step.tensor) => {
                    Some(speller.define_result(step.tensor, Register::Float, "x[i]".to_owned()))
                }
                None => {
                    let coordinate = step.generated_axis().map(|axis| coordinates[axis].clone());
                    Some(speller.define(step, (Register::Float, "x[i]"), coordinate.as_deref()))
                }
            };
            if invariants.contains(&step.tensor) { of_tile.extend(line) } else { each.extend(line) }
        }
        match scores.is_capped(*result) {
            true => each.clear(),
            false => each.push(format!("x[i] = {};", speller.unrounded(*result))),
        }
        ProgramLines { of_tile, of_step, each: self.with_place(program, each) }
    }

    /// The lines of a step: a cap of all its scores, distances that they lie at.
    fn lines_of_step(&mut self, cap: Option<&ScoreCap>, has_distances: bool) -> Vec<String> {
        let cap = cap.map(|cap| {
            self.used.add("fw_cap_scores");
            cap_line(self.graph, self.used, cap)
        });
        cap.into_iter().chain(has_distances.then(|| self.distance_line())).collect()
    }

    /// The lines of a score behind those that say where it lies.
    fn with_place(&self, program: &StageProgram, each: Vec<String>) -> Vec<String> {
        let is_half =
            |step: &Step| step.value != Value::Load && self.graph.tensor(step.tensor).data_type == DataType::Half;
        // ptxas waits for products amid others where it rounds an accumulator itself to FP16 (C7514): this is x[i], to the bit
        let apart = program.steps.iter().any(is_half).then(|| "x[i] = __fadd_rn(x[i], -0.0f);".to_owned());
        if each.is_empty() && apart.is_none() {
            return each;
        }
        let place = [self.score_row("i >> 1 & 1"), self.score_column("8 * (i >> 2) + (i & 1)", 1)];
        place.into_iter().chain(apart).chain(each).collect()
    }

    /// Differences of a score's column and its row, or the other way round, with what they are in `float`.
    fn distances(&self, program: &StageProgram) -> BTreeMap<TensorId, String> {
        let extents = self.problem.extents;
        if extents.keys.max(extents.queries) >= EXACT {
            return BTreeMap::new();
        }
        let axes: BTreeMap<TensorId, usize> =
            program.steps.iter().filter_map(|step| Some((step.tensor, step.generated_axis()?))).collect();
        let is_integer = |id: TensorId| matches!(self.graph.tensor(id).data_type, DataType::Int32 | DataType::Float);
        let distance = |step: &Step| {
            let (attributes, operands, compute) = step.pointwise()?;
            let &[x, b] = operands else { return None };
            let is_exact = matches!(compute, DataType::Int32 | DataType::Float)
                && [x, b, step.tensor].into_iter().all(is_integer)
                && attributes.unscaled().is_some_and(|plain| plain.mode == PointwiseMode::Sub);
            let sign = match (axes.get(&x)?, axes.get(&b)?) {
                (3, 2) => "",
                (2, 3) => "-",
                _ => return None,
            };
            let text = format!("{sign}(distance[i >> 1 & 1] + float(8 * (i >> 2) + (i & 1)))");
            is_exact.then_some((step.tensor, text))
        };
        program.steps.iter().filter_map(distance).collect()
    }

    /// How far a lane's first column is from its two rows.
    fn distance_line(&self) -> String {
        let [first, second] = ["row", "row + 8"].map(|row| self.head_and_query(row)[1].clone());
        let column = format!("block * {} + 2 * int(quad)", self.keys);
        format!("const float distance[2] = {{float({column} - ({first})), float({column} - ({second}))}};")
    }
}

/// The line that reads an operand of a score, at an offset or where its pair was put; none where it has that name already.
fn load_line(speller: &mut Speller<'_>, paired: &[TensorId], (id, offset): (TensorId, &str)) -> Option<String> {
    let name = speller.graph.canonical_name(id);
    let text = match speller.graph.tensor(id).is_pass_by_value {
        true => name,
        false if paired.contains(&id) => format!("fw_value(pairs_{name}[i / 2].at[i & 1])"),
        false => speller.element(id, offset),
    };
    (speller.value(id) != text).then(|| speller.define_load(id, &text))
}

/// The line that caps the scores of a step.
fn cap_line(graph: &FinalizedGraph, used: &mut Used, cap: &ScoreCap) -> String {
    let (mut inner, mut both) = (String::from("1.0f"), number(graph, used, cap.outer));
    // what divides comes first: a cap beside the number that it is multiplied by is 1
    let divisors = cap.inner.iter().filter(|factor| factor.1).chain(cap.inner.iter().filter(|factor| !factor.1));
    for &(id, divides) in divisors {
        let (sign, value) = (if divides { '/' } else { '*' }, number(graph, used, id));
        inner += &format!(" {sign} {value}");
        both += &format!(" {sign} {value}");
    }
    format!("fw_cap_scores(x, {inner}, {}, {both});", number(graph, used, cap.outer))
}
