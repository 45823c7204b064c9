//! Record of the skeleton that unfolds operands of convolutions to matrices.

use std::collections::BTreeSet;

use serde::Serialize;

use super::copy::{neighbour, unit_type};
use super::index::{as_index, definition_lines, index_type, signed_type, spell, spell_with};
use super::names;
use super::sections::Used;
use crate::graph::FinalizedGraph;
use crate::kernel::{
    Coordinate, Definition, Digit, Index, Quantity, Role, UnfoldKernel, UnfoldedAxis, Variable, digits_at, needed,
};

/// What `sweep/unfold.cu` reads beside the function's name and parameters.
#[derive(Serialize)]
pub(super) struct UnfoldText {
    threads: u32,
    index: &'static str,
    /// The block's number.
    block: String,
    vectors: i64,
    /// Type of an element, and elements of a vector.
    element: &'static str,
    count: i64,
    source: String,
    copy: String,
    /// Definitions of what the vector, and element `e` of it, say.
    of_vector: Vec<String>,
    of_element: Vec<String>,
    /// Condition under which there is such an element.
    guard: Option<String>,
    /// Its place in the source.
    at: String,
    /// Where the vector begins in the copy.
    to: String,
}

pub(super) fn unfold(graph: &FinalizedGraph, used: &mut Used, kernel: &UnfoldKernel) -> UnfoldText {
    used.add("fw_vector");
    let speller = Speller { kernel };
    let (of_vector, of_element) = speller.definitions();
    UnfoldText {
        threads: kernel.threads,
        index: speller.index(),
        block: as_index(kernel.wide_index, "blockIdx.x"),
        vectors: kernel.vectors(),
        element: unit_type(kernel.element_bytes),
        count: kernel.vector(),
        source: names::pointer(graph, kernel.source),
        copy: names::pointer(graph, kernel.copy),
        of_vector,
        of_element: [of_element, speller.coordinates()].concat(),
        guard: speller.guard(),
        at: spell_with(&speller.at(), &|variable| speller.name(variable)),
        to: spell(&speller.to()),
    }
}

const K: Quantity = Quantity::Index(Role::Sum);

struct Speller<'a> {
    kernel: &'a UnfoldKernel,
}

impl Speller<'_> {
    fn index(&self) -> &'static str {
        index_type(self.kernel.wide_index)
    }

    /// The digits of rows and the first k of a vector, and those of k: of the vector, where the innermost counts all its elements, else of
    /// each element.
    fn definitions(&self) -> (Vec<String>, Vec<String>) {
        let first = Index::variable(K);
        let at = if self.is_whole() { first } else { first + Index::local("e") };
        let of_k = digits_at(&at, &self.kernel.k);
        let mut used: BTreeSet<Variable> = self.to().variables();
        let coordinates = self.kernel.axes.iter().map(|axis| &axis.coordinate);
        used.extend(coordinates.flat_map(|coordinate| &coordinate.terms).map(|term| Variable::Of(term.0)));
        let of_k = needed(of_k, &mut used);
        let mut of_vector = definition_lines(self.index(), &needed(self.vector_digits(), &mut used));
        let of_k = definition_lines(self.index(), &of_k);
        match self.is_whole() {
            true => {
                of_vector.extend(of_k);
                (of_vector, Vec::new())
            }
            false => (of_vector, of_k),
        }
    }

    /// Digits of the rows, and k, in the order in which neighbouring threads read neighbours of the source: all rows of a few elements of
    /// k after each other, unless these are contiguous.
    fn vector_digits(&self) -> Vec<Definition> {
        let UnfoldKernel { rows, neighbours, .. } = self.kernel;
        let (neighbours, vector) = (*neighbours, self.kernel.vector());
        let mut digits = rows.clone();
        digits.sort_by_key(|digit| std::cmp::Reverse(self.kernel.step(digit)));
        let is_contiguous = self.kernel.k.iter().any(|digit| self.kernel.step(digit) == 1);
        let place = if is_contiguous { digits.len() } else { 0 };
        digits.insert(place, Digit::new(K, self.kernel.row_groups()));
        let mut definitions = digits_at(&(Index::local("vector") / neighbours), &digits);
        for first in definitions.iter_mut().filter(|definition| definition.variable == Variable::Of(K)) {
            first.value = first.value.clone() * (vector * neighbours) + neighbour(neighbours, vector);
        }
        definitions
    }

    /// Whether all elements of a vector share all digits of k but the innermost.
    fn is_whole(&self) -> bool {
        self.kernel.k.last().is_some_and(|last| last.radix % self.kernel.vector() == 0)
    }

    /// A digit's name, of element `e`.
    fn name(&self, variable: Variable) -> String {
        let last = self.kernel.k.last().map(|digit| Variable::Of(digit.quantity));
        match names::variable(variable) {
            name if Some(variable) == last && self.is_whole() => format!("({name} + e)"),
            name => name,
        }
    }

    /// `const int h = int(p) * 2 + int(r) - 1;` for each axis that more than a digit tells.
    fn coordinates(&self) -> Vec<String> {
        let kind = signed_type(self.kernel.wide_index);
        let line = |axis: &UnfoldedAxis| {
            let Coordinate { quantity, terms, constant, .. } = &axis.coordinate;
            let terms = terms.iter().map(|&(digit, scale)| Index::variable(digit) * scale);
            let sum = Index::sum(terms.chain([Index::from(*constant)]));
            let value = spell_with(&sum, &|variable| format!("({kind}){}", self.name(variable)));
            format!("const {kind} {} = {value};", names::quantity(*quantity))
        };
        self.kernel.axes.iter().filter(|axis| !axis.coordinate.is_digit()).map(line).collect()
    }

    /// That the element lies in the row, and its coordinates in the source.
    fn guard(&self) -> Option<String> {
        let depth = self.kernel.depth();
        let is_ragged = depth % (self.kernel.vector() * self.kernel.neighbours) != 0;
        let of_row = is_ragged.then(|| format!("{} + e < {depth}", names::quantity(K)));
        let of_axis = |axis: &UnfoldedAxis| {
            let name = names::quantity(axis.coordinate.quantity);
            axis.coordinate.bound.map(|bound| format!("{name} >= 0 && {name} < {bound}"))
        };
        let padded = self.kernel.k.iter().filter(|digit| digit.is_padded());
        let of_digit = |digit: &Digit| format!("{} < {}", self.name(Variable::Of(digit.quantity)), digit.extent);
        let of_axes = self.kernel.axes.iter().filter_map(of_axis);
        let checks: Vec<String> = of_row.into_iter().chain(padded.map(of_digit)).chain(of_axes).collect();
        (!checks.is_empty()).then(|| checks.join(" && "))
    }

    fn at(&self) -> Index {
        let place = |axis: &UnfoldedAxis| Index::variable(axis.coordinate.quantity) * axis.stride;
        Index::sum(self.kernel.axes.iter().map(place))
    }

    fn to(&self) -> Index {
        let rows = self
            .kernel
            .rows
            .iter()
            .fold(Index::ZERO, |above, digit| above * digit.extent + Index::variable(digit.quantity));
        rows * self.kernel.pitch + Index::variable(K)
    }
}
