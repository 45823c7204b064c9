//! Spells where an operand's elements lie, and which of them exist.

use std::collections::BTreeSet;

use super::Side;
use crate::codegen::index::{definition_lines, index_type, signed_type, spell_with};
use crate::codegen::names;
use crate::codegen::product::unit::digit_definitions;
use crate::kernel::{Coordinate, Digit, Fetch, Index, Quantity, Role, Variable, needed};

impl Side<'_> {
    /// Lines that define the digits, then the coordinates, that are read or checked.
    pub(super) fn coordinate_lines(&self, uses: &BTreeSet<Variable>) -> Vec<String> {
        let kernel = self.kernel;
        let is_needed =
            |coordinate: &&Coordinate| coordinate.bound.is_some() || uses.contains(&Variable::Of(coordinate.quantity));
        let coordinates: Vec<&Coordinate> = self.operand().coordinates.iter().filter(is_needed).collect();
        let terms = coordinates.iter().flat_map(|coordinate| &coordinate.terms).map(|&(digit, _)| digit);
        let padded = kernel.space.k.iter().filter(|digit| digit.is_padded()).map(|digit| digit.quantity);
        let mut digits: BTreeSet<Variable> = terms.chain(padded).map(Variable::Of).collect();
        let definitions = digit_definitions(kernel, &[Role::Batch, Role::outer(self.slot), Role::Sum]);
        let definitions = needed(definitions, &mut digits);
        let mut lines = definition_lines(index_type(kernel.wide_index), &definitions);
        lines.extend(coordinates.into_iter().filter(|coordinate| !coordinate.is_digit()).flat_map(|c| self.line(c)));
        lines
    }

    /// `const int h = int(p) * 2 + int(r) - 1;`
    fn line(&self, coordinate: &Coordinate) -> Vec<String> {
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
            return vec![format!("const {kind} {name} = {sum};")];
        }
        vec![format!("const {kind} over_{name} = {sum};"), format!("const {kind} {name} = over_{name} / {divisor};")]
    }

    /// Condition under which an element exists: within the matrix, within the image, on an element; `None` if all do.
    pub(super) fn inside(&self) -> Option<String> {
        let outer = Role::outer(self.slot);
        let mut conditions = Vec::new();
        for (role, block) in [(outer, self.block()), (Role::Sum, self.kernel.tile.k)] {
            let extent = self.extent(role);
            if extent % i64::from(block) != 0 {
                conditions.push(format!("{} < {extent}", names::role_index(role)));
            }
        }
        for digit in self.kernel.space.k.iter().filter(|digit| digit.is_padded()) {
            conditions.push(format!("{} < {}", names::quantity(digit.quantity), digit.extent));
        }
        for coordinate in &self.operand().coordinates {
            let name = names::quantity(coordinate.quantity);
            if coordinate.divisor > 1 {
                conditions.push(format!("over_{name} >= 0 && over_{name} % {} == 0", coordinate.divisor));
            }
            if let Some(bound) = coordinate.bound {
                let low = if coordinate.divisor > 1 { String::new() } else { format!("{name} >= 0 && ") };
                conditions.push(format!("{low}{name} < {bound}"));
            }
        }
        (!conditions.is_empty()).then(|| conditions.join(" && "))
    }

    fn extent(&self, role: Role) -> i64 {
        self.kernel.space.digits(role).iter().map(|digit| digit.radix).product()
    }

    /// What moves a point of a fragment that lies outside of the matrix to the nearest inside, whose side inputs can be read; none
    /// where points may lie in padding, too.
    pub(super) fn nearest(&self) -> Vec<String> {
        let has_padding = self.operand().coordinates.iter().any(|coordinate| coordinate.bound.is_some())
            || self.kernel.space.k.iter().any(Digit::is_padded);
        if has_padding || !matches!(self.operand().fetch, Fetch::Fragments(_)) {
            return Vec::new();
        }
        let outer = Role::outer(self.slot);
        let axes = [(outer, self.block(), 1), (Role::Sum, self.kernel.tile.k, self.operand().sweep.vector)];
        let ragged = axes.into_iter().filter(|&(role, block, _)| self.extent(role) % i64::from(block) != 0);
        let line = |(role, _, step)| {
            let (name, extent) = (names::quantity(Quantity::Index(role)), self.extent(role));
            format!("if ({name} >= {extent}) {name} = {};", extent - step)
        };
        ragged.map(line).collect()
    }
}
