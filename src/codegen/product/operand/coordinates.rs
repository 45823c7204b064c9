//! Spells where an operand's elements lie, and which of them exist.

use std::collections::BTreeSet;

use super::Side;
use crate::codegen::index::{definition_lines, index_type, signed_type, spell, spell_with};
use crate::codegen::names;
use crate::codegen::product::unit::{STEP_ORIGIN, digit_definitions};
use crate::kernel::{Coordinate, Definition, Digit, Fetch, Index, Number, Quantity, Role, Variable, needed};

/// Column of a pair in the step's tile.
const COLUMN: &str = "column";

/// Lines that place a piece of an operand, and what tells whether it exists.
pub(in crate::codegen::product) struct Placement {
    /// Definitions of digits and coordinates. Where a value is chosen, conditions by name among them, and moves of what lies outside to
    /// the nearest inside, whose side inputs can be read.
    pub(in crate::codegen::product) lines: Vec<String>,
    /// Condition under which the piece exists, where zero is returned early.
    pub(in crate::codegen::product) guard: Option<String>,
    /// The same where it chooses between the value and zero.
    pub(super) choice: Option<String>,
}

impl Side<'_> {
    /// The digits, then the coordinates, that are read or checked. Of what lies in shared memory the nearest is computed, too, and left
    /// where a piece does not exist: a branch would keep products from running beside, and loads from overlapping.
    pub(in crate::codegen::product) fn placement(&self, uses: &BTreeSet<Variable>) -> Placement {
        let [of_matrix, of_digits, of_coordinates] =
            [self.matrix_checks(), self.digit_checks(), self.coordinate_checks()];
        let [digits, coordinates] = self.digits_and_coordinates(uses);
        if !self.chooses() {
            let conditions = [of_matrix, of_digits, of_coordinates].concat().into_iter().map(|check| check.condition);
            let guard = joined(conditions.collect());
            return Placement { lines: [digits, coordinates].concat(), guard, choice: None };
        }
        let mut chosen = Chosen { uses, known: Vec::new(), lines: Vec::new() };
        chosen.check("in_matrix", of_matrix);
        chosen.lines.extend(digits);
        chosen.check("in_channels", of_digits);
        chosen.lines.extend(coordinates);
        chosen.check("in_image", of_coordinates);
        Placement { lines: chosen.lines, guard: None, choice: joined(chosen.known) }
    }

    /// Lines that define the digits, then the coordinates, that are read or checked.
    fn digits_and_coordinates(&self, uses: &BTreeSet<Variable>) -> [Vec<String>; 2] {
        let kernel = self.kernel;
        let is_needed =
            |coordinate: &&Coordinate| coordinate.bound.is_some() || uses.contains(&Variable::Of(coordinate.quantity));
        let coordinates: Vec<&Coordinate> = self.operand().coordinates.iter().filter(is_needed).collect();
        let terms = coordinates.iter().flat_map(|coordinate| &coordinate.terms).map(|&(digit, _)| digit);
        let padded = kernel.space.k.iter().filter(|digit| digit.is_padded()).map(|digit| digit.quantity);
        let mut digits: BTreeSet<Variable> = terms.chain(padded).map(Variable::Of).collect();
        let mut definitions = digit_definitions(kernel, &[Role::Batch, Role::outer(self.slot)]);
        definitions.extend(self.sum_definitions());
        let definitions = needed(definitions, &mut digits);
        let index = index_type(kernel.wide_index);
        let lines = definitions.iter().flat_map(|definition| match definition.variable {
            Variable::Of(quantity) if self.is_moved(quantity, uses) => {
                vec![format!("{index} {} = {};", names::variable(definition.variable), spell(&definition.value))]
            }
            _ => definition_lines(index, std::slice::from_ref(definition)),
        });
        let others = coordinates.into_iter().filter(|coordinate| !coordinate.is_digit());
        [lines.collect(), others.flat_map(|coordinate| self.line(coordinate, uses)).collect()]
    }

    /// Whether pieces are computed where none exist: those of boxes, which can be read everywhere.
    fn chooses(&self) -> bool {
        matches!(self.operand().fetch, Fetch::Fragments(_) | Fetch::Transformed(_))
    }

    /// Whether a digit or coordinate is moved to the nearest inside.
    fn is_moved(&self, quantity: Quantity, uses: &BTreeSet<Variable>) -> bool {
        let is_padded = || self.kernel.space.k.iter().any(|digit| digit.quantity == quantity && digit.is_padded());
        let has_bound = |of: &Coordinate| of.quantity == quantity && of.bound.is_some();
        self.chooses()
            && uses.contains(&Variable::Of(quantity))
            && (is_padded() || self.operand().coordinates.iter().any(has_bound))
    }

    /// The digits of k: where a step has one tap, of the step's first element, so that all but the last are the step's.
    fn sum_definitions(&self) -> Vec<Definition> {
        let kernel = self.kernel;
        if !self.takes_column() {
            return digit_definitions(kernel, &[Role::Sum]);
        }
        let mut definitions = kernel.space.definitions_at(Role::Sum, &Index::local(STEP_ORIGIN));
        if let Some(last) = definitions.last_mut() {
            last.value = last.value.clone() + Index::local(COLUMN);
        }
        definitions
    }

    /// Whether the function of a fragment's pair takes k as the step's first element and the column in it: the step has one tap.
    pub(super) fn takes_column(&self) -> bool {
        let k = &self.kernel.space.k;
        let is_whole = |last: &Digit| last.radix % i64::from(self.kernel.tile.k) == 0;
        matches!(self.operand().fetch, Fetch::Fragments(_)) && k.len() > 1 && k.last().is_some_and(is_whole)
    }

    /// `const int h = int(p) * 2 + int(r) - 1;`
    fn line(&self, coordinate: &Coordinate, uses: &BTreeSet<Variable>) -> Vec<String> {
        let Coordinate { quantity, terms, constant, divisor, bound } = coordinate;
        let wide = self.kernel.wide_index;
        let is_natural = terms.iter().all(|term| term.1 > 0) && *constant >= 0 && bound.is_none();
        let kind = if is_natural { index_type(wide) } else { signed_type(wide) };
        let cast = if wide { "(long long)" } else { "int" };
        let variable = |variable: Variable| match names::variable(variable) {
            name if is_natural => name,
            name => format!("{cast}({name})"),
        };
        let sum = terms.iter().map(|&(digit, scale)| Index::variable(digit) * scale).chain([Index::from(*constant)]);
        let sum = spell_with(&Index::sum(sum), &variable);
        let name = names::quantity(*quantity);
        if *divisor == 1 {
            let constant = if self.is_moved(*quantity, uses) { "" } else { "const " };
            return vec![format!("{constant}{kind} {name} = {sum};")];
        }
        vec![format!("const {kind} over_{name} = {sum};"), format!("const {kind} {name} = over_{name} / {divisor};")]
    }

    /// That an element is within the matrix.
    fn matrix_checks(&self) -> Vec<Check> {
        let outer = Role::outer(self.slot);
        let axes = [(outer, self.block()), (Role::Sum, self.kernel.tile.k)];
        let ragged = axes.into_iter().filter(|&(role, block)| self.extent(role) % i64::from(block) != 0);
        let operand = self.operand();
        let check = |(role, _)| {
            let step = if operand.along_k == (role == Role::Sum) { operand.sweep.vector } else { 1 };
            let (name, extent) = (names::role_index(role), self.extent(role));
            let nearest = format!("if ({name} >= {extent}) {name} = {};", extent - step);
            Check { condition: format!("{name} < {extent}"), variable: None, nearest }
        };
        ragged.map(check).collect()
    }

    /// That a channel is none of those that pad a step.
    fn digit_checks(&self) -> Vec<Check> {
        let check = |digit: &Digit| {
            let (name, last) = (names::quantity(digit.quantity), digit.extent.value() - self.operand().sweep.vector);
            let nearest = format!("if ({name} > {last}) {name} = {last};");
            Check { condition: format!("{name} < {}", digit.extent), variable: Some(digit.quantity), nearest }
        };
        self.kernel.space.k.iter().filter(|digit| digit.is_padded()).map(check).collect()
    }

    /// That coordinates are within the image, and on an element.
    fn coordinate_checks(&self) -> Vec<Check> {
        let check = |coordinate: &Coordinate| {
            let name = names::quantity(coordinate.quantity);
            let mut conditions = Vec::new();
            if coordinate.divisor > 1 {
                conditions.push(format!("over_{name} >= 0 && over_{name} % {} == 0", coordinate.divisor));
            }
            let bound = coordinate.bound?;
            let low = if coordinate.divisor > 1 { String::new() } else { format!("{name} >= 0 && ") };
            conditions.push(format!("{low}{name} < {bound}"));
            let nearest = format!("{name} = {name} < 0 ? 0 : {name} < {bound} ? {name} : {};", bound - 1);
            Some(Check { condition: conditions.join(" && "), variable: Some(coordinate.quantity), nearest })
        };
        self.operand().coordinates.iter().filter_map(check).collect()
    }

    fn extent(&self, role: Role) -> Number {
        self.kernel.space.digits(role).iter().map(|digit| digit.radix).product()
    }
}

/// All of some conditions; `None` for none.
fn joined(conditions: Vec<String>) -> Option<String> {
    (!conditions.is_empty()).then(|| conditions.join(" && "))
}

/// A condition under which an element exists.
#[derive(Clone)]
struct Check {
    condition: String,
    /// The digit or coordinate that it is about; `None` for an index of the matrix, an argument.
    variable: Option<Quantity>,
    /// Statement that moves it to the nearest element that exists.
    nearest: String,
}

/// Lines after which a value is computed whether it exists or not.
struct Chosen<'a> {
    uses: &'a BTreeSet<Variable>,
    /// Names of the conditions so far.
    known: Vec<String>,
    lines: Vec<String>,
}

impl Chosen<'_> {
    /// Keeps some conditions by a name, and moves what is read to where they hold.
    fn check(&mut self, name: &'static str, checks: Vec<Check>) {
        let conditions = checks.iter().map(|check| check.condition.clone()).collect();
        let Some(condition) = joined(conditions) else { return };
        self.lines.push(format!("const bool {name} = {condition};"));
        self.known.push(name.to_owned());
        let is_read = |check: &Check| check.variable.is_none_or(|quantity| self.uses.contains(&Variable::Of(quantity)));
        self.lines.extend(checks.into_iter().filter(is_read).map(|check| check.nearest));
    }
}
