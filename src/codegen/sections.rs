//! Fixed device code, cut into named sections; a kernel carries the sections it uses and what those need.

use std::collections::BTreeSet;
use std::sync::LazyLock;

/// One named piece of `templates/include`.
struct Section {
    name: &'static str,
    needs: Vec<&'static str>,
    text: &'static str,
    /// Whether an emulator has another: it is PTX, or what PTX needs.
    is_primitive: bool,
}

/// Every section, in the order of the files.
static SECTIONS: LazyLock<Vec<Section>> = LazyLock::new(|| {
    [
        include_str!("../../templates/include/primitives.cuh"),
        include_str!("../../templates/include/hopper.cuh"),
        include_str!("../../templates/include/storage.cuh"),
        include_str!("../../templates/include/pointwise.cuh"),
        include_str!("../../templates/include/reduction.cuh"),
        include_str!("../../templates/include/movement.cuh"),
        include_str!("../../templates/include/numbers.cuh"),
        include_str!("../../templates/include/attention.cuh"),
        include_str!("../../templates/include/fragments.cuh"),
    ]
    .into_iter()
    .flat_map(parse)
    .collect()
});

/// Sections start with `//@ name: needed sections` or `//@ primitive name: …`; what stands before the first is a comment for
/// readers.
fn parse(file: &'static str) -> impl Iterator<Item = Section> {
    file.split("\n//@ ").skip(1).map(|piece| {
        let (head, text) = piece.split_once('\n').unwrap_or((piece, ""));
        let (name, needs) = head.split_once(':').unwrap_or((head, ""));
        let (name, is_primitive) = name.strip_prefix("primitive ").map_or((name, false), |name| (name, true));
        Section { name: name.trim(), needs: needs.split_whitespace().collect(), text: text.trim(), is_primitive }
    })
}

fn find(name: &str) -> &'static Section {
    SECTIONS.iter().find(|section| section.name == name).unwrap_or_else(|| unreachable!("no section {name}"))
}

/// A kernel's text without its primitives, on the same lines: for an emulator that has others.
pub(super) fn without_primitives(text: &str) -> String {
    let lines = |section: &Section| "\n".repeat(section.text.matches('\n').count());
    replaced(text, |section| section.is_primitive.then(|| lines(section)))
}

/// A kernel's text with the name of each section in the section's place: for readers who know the sections.
pub(super) fn abridged(text: &str) -> String {
    replaced(text, |section| Some(format!("//@ {}", section.name)))
}

/// The text with some of its sections replaced.
fn replaced(text: &str, with: impl Fn(&Section) -> Option<String>) -> String {
    SECTIONS.iter().fold(text.to_owned(), |text, section| match with(section) {
        Some(other) if text.contains(section.text) => text.replacen(section.text, &other, 1),
        _ => text,
    })
}

/// Names of device code.
#[cfg(test)]
fn identifiers(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("fw_") || word.starts_with("FW_"))
}

/// The names of each section: its own, and those that occur in no section before it.
#[cfg(test)]
static NAMES: LazyLock<Vec<BTreeSet<&str>>> = LazyLock::new(|| {
    let mut earlier: BTreeSet<&str> = BTreeSet::new();
    let names = |section: &Section| {
        let mut own: BTreeSet<&str> = identifiers(section.text).filter(|name| !earlier.contains(name)).collect();
        earlier.extend(&own);
        own.insert(section.name);
        own
    };
    SECTIONS.iter().map(names).collect()
});

/// Sections of a text of which nothing else in it has a name. A type's overloads of `fw_value` have no name of their own, so that
/// sections of types are passed over.
#[cfg(test)]
pub(super) fn unused(text: &str) -> Vec<&'static str> {
    let mut counts = std::collections::BTreeMap::new();
    identifiers(text).for_each(|name| *counts.entry(name).or_insert(0_usize) += 1);
    let is_unused = |(section, names): &(&Section, &BTreeSet<&str>)| {
        if section.text.contains("fw_value(") || !text.contains(section.text) {
            return false;
        }
        let within = |name: &str| identifiers(section.text).filter(|other| *other == name).count();
        let is_named = |name: &&str| counts.get(name).is_some_and(|count| *count > within(name));
        let variant = format!("{}_promoted", section.name);
        !names.iter().any(is_named) && !counts.contains_key(&*variant)
    };
    SECTIONS.iter().zip(NAMES.iter()).filter(is_unused).map(|(section, _)| section.name).collect()
}

/// Names of sections some kernel uses.
#[derive(Debug, Default)]
pub(super) struct Used(BTreeSet<&'static str>);

impl Used {
    /// Marks a section and all it needs.
    pub(super) fn add(&mut self, name: &'static str) {
        let mut open = vec![name];
        while let Some(name) = open.pop() {
            if self.0.insert(name) {
                open.extend(&find(name).needs);
            }
        }
    }

    /// Text of the marked sections, in the order of the files.
    pub(super) fn text(&self) -> String {
        let used = SECTIONS.iter().filter(|section| self.0.contains(section.name));
        used.map(|section| section.text).collect::<Vec<_>>().join("\n\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codegen::names;
    use crate::graph::{DataType, PointwiseMode};

    #[test]
    fn every_mode_with_a_form_in_double_precision_has_a_section() {
        for &mode in PointwiseMode::ALL {
            let function = names::double_function(mode);
            assert_eq!(function.is_some(), crate::kernel::has_double_form(mode), "{mode}");
            assert!(function.is_none_or(|function| SECTIONS.iter().any(|section| section.name == function)), "{mode}");
        }
    }

    #[test]
    fn names_are_unique_and_every_need_exists() {
        let names: BTreeSet<_> = SECTIONS.iter().map(|section| section.name).collect();
        assert_eq!(names.len(), SECTIONS.len());
        for section in SECTIONS.iter() {
            for need in &section.needs {
                assert!(names.contains(need), "{} needs {need}", section.name);
            }
        }
    }

    #[test]
    fn every_mode_and_storage_type_has_its_section() {
        for &mode in PointwiseMode::ALL {
            assert!(find(names::mode_function(mode)).text.contains(names::mode_function(mode)));
        }
        for data_type in DataType::all().filter(|t| t.is_floating() || t.is_integer()) {
            find(names::storage_section(data_type));
        }
    }

    #[test]
    fn a_section_brings_what_it_needs_before_it() {
        let mut used = Used::default();
        used.add("fw_gelu_bwd");
        let text = used.text();
        let position = |needle: &str| text.find(needle).expect(needle);
        assert!(position("#define FW_INLINE") < position("float fw_normal_cdf"));
        assert!(position("float fw_normal_cdf") < position("float fw_gelu_bwd"));
        assert!(!text.contains("fw_softplus"));
    }
}
