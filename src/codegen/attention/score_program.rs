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
use crate::kernel::{Register, ScoreCap, StageProgram, Step, Value};

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
    pub(super) fn program_lines(&mut self, program: &StageProgram, result: TensorId) -> ProgramLines {
        let (graph, paired) = (self.graph, &self.problem.paired);
        let cap = ScoreCap::of(graph, program, result);
        let invariants = program.same_for_heads(graph, self.problem.extents.packed > 1);
        let distances = self.distances(program);
        let mut lines = ProgramLines::default();
        if let Some(cap) = &cap {
            self.used.add("fw_cap_scores");
            lines.of_step.push(cap_line(graph, self.used, cap));
        }
        if !distances.is_empty() {
            lines.of_step.push(self.distance_line());
        }
        let offsets: Vec<(TensorId, String)> = program.loads().map(|id| (id, self.score_offset(id))).collect();
        let coordinates = self.coordinates();
        let is_inside = |id: &TensorId| cap.as_ref().is_some_and(|cap| cap.inside.contains(id));
        let mut speller = Speller::new(graph, self.used, program, [result].into_iter());
        distances.iter().for_each(|(&id, text)| speller.spell_in_float(id, text));
        for step in program.steps.iter().filter(|step| !is_inside(&step.tensor)) {
            let of_tile = invariants.contains(&step.tensor);
            let line = if step.value == Value::Load {
                let tensor = graph.tensor(step.tensor);
                let offset = offsets.iter().find(|known| known.0 == step.tensor).map_or("0", |known| &known.1);
                let text = match tensor.is_pass_by_value {
                    true => graph.canonical_name(step.tensor),
                    false if paired.contains(&step.tensor) => {
                        format!("fw_value(pairs_{}[i / 2].at[i & 1])", graph.canonical_name(step.tensor))
                    }
                    false => speller.element(step.tensor, offset),
                };
                if speller.value(step.tensor) == text {
                    continue;
                }
                speller.define_load(step.tensor, &text)
            } else if cap.as_ref().is_some_and(|cap| cap.result == step.tensor) {
                speller.define_result(step.tensor, Register::Float, "x[i]".to_owned())
            } else {
                let coordinate = step.generated_axis().map(|axis| coordinates[axis].clone());
                speller.define(step, (Register::Float, "x[i]"), coordinate.as_deref())
            };
            if of_tile { lines.of_tile.push(line) } else { lines.each.push(line) }
        }
        match cap.is_some_and(|cap| cap.result == result) {
            true => lines.each.clear(),
            false => lines.each.push(format!("x[i] = {};", speller.unrounded(result))),
        }
        if program
            .steps
            .iter()
            .any(|step| step.value != Value::Load && graph.tensor(step.tensor).data_type == DataType::Half)
        {
            // ptxas waits for products amid others where it rounds an accumulator itself to FP16 (C7514): this is x[i], to the bit
            lines.each.insert(0, "x[i] = __fadd_rn(x[i], -0.0f);".to_owned());
        }
        if !lines.each.is_empty() {
            let place = [self.score_row("i >> 1 & 1"), self.score_column("8 * (i >> 2) + (i & 1)", 1)];
            lines.each.splice(0..0, place);
        }
        lines
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
