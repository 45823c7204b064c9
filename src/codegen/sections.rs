//! Fixed device code, cut into named sections; a kernel carries the sections it uses and what those need.

use std::collections::BTreeSet;
use std::sync::LazyLock;

/// One named piece of `templates/include`.
struct Section {
    name: &'static str,
    needs: Vec<&'static str>,
    text: &'static str,
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
    ]
    .into_iter()
    .flat_map(parse)
    .collect()
});

/// Sections start with `//@ name: needed sections`; what stands before the first is a comment for readers.
fn parse(file: &'static str) -> impl Iterator<Item = Section> {
    file.split("\n//@ ").skip(1).map(|piece| {
        let (head, text) = piece.split_once('\n').unwrap_or((piece, ""));
        let (name, needs) = head.split_once(':').unwrap_or((head, ""));
        Section { name: name.trim(), needs: needs.split_whitespace().collect(), text: text.trim() }
    })
}

fn find(name: &str) -> &'static Section {
    SECTIONS.iter().find(|section| section.name == name).unwrap_or_else(|| unreachable!("no section {name}"))
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
