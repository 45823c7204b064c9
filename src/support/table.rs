//! The surfaces side by side, for the README.

use super::layout::Layout;
use super::surface::{LayoutLimit, Listed, Mainloop, OperationKind, Packing, PatternLimits, SURFACES, Surface};
use crate::fusion::Pattern;
use crate::graph::DataType;

/// Text of a cell of the table.
type Cell = fn(&Surface) -> String;

const ROWS: &[(&str, Cell)] = &[
    ("Compute capabilities", |surface| listed(&surface.capabilities)),
    ("Types of graph inputs", |surface| types(&surface.data_types.input)),
    ("Types of core operands", |surface| types(&surface.data_types.core)),
    ("Types of virtual tensors", |surface| types(&surface.data_types.virtual_)),
    ("Types of graph outputs", |surface| types(&surface.data_types.output)),
    ("Core operands and compute types", combinations),
    ("Operations before the core (g1)", |surface| operations(&surface.mainloop.operations)),
    ("Operations after the core (g2)", |surface| operations(&surface.epilogue.operations)),
    ("Alignment of inputs before the core", mainloop_alignment),
    ("Alignment of tensors after the core", epilogue_alignment),
    ("Matmul", |surface| pattern(surface, Pattern::Matmul)),
    ("Convolution forward", |surface| pattern(surface, Pattern::ConvolutionForward)),
    ("Convolution backward filter", |surface| pattern(surface, Pattern::ConvolutionBackwardFilter)),
    ("Convolution backward data", |surface| pattern(surface, Pattern::ConvolutionBackwardData)),
    ("Graphs without a core", unfused),
];

/// A Markdown table of the limits of the runtime surfaces: capabilities, types, operations, alignments, layouts and packing;
/// one line a row, each ending in a line break. `docs/surfaces.md` holds it.
pub fn surface_table() -> String {
    let heads: Vec<String> = SURFACES.iter().map(|surface| format!("Surface {}", surface.id)).collect();
    let mut table = format!("| | {} |\n| --- | --- | --- | --- |\n", heads.join(" | "));
    for (name, cell) in ROWS {
        let cells: Vec<String> = SURFACES.iter().map(|surface| cell(surface)).collect();
        table += &format!("| {name} | {} |\n", cells.join(" | "));
    }
    table
}

fn listed<T: ToString>(listed: &Listed<T>) -> String {
    join(listed.allowed.iter().map(T::to_string))
}

fn join(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(", ")
}

fn types(limit: &Listed<DataType>) -> String {
    listed(limit)
}

fn combinations(surface: &Surface) -> String {
    let rows = surface.combinations.iter().map(|row| {
        let since = row.since.map(|since| format!(" from {since}")).unwrap_or_default();
        let forward = if row.forward_only { " (not backward)" } else { "" };
        format!("{} → {}{since}{forward}", slashed(row.operands), slashed(row.compute))
    });
    rows.collect::<Vec<_>>().join("; ")
}

fn slashed(types: &[DataType]) -> String {
    types.iter().map(|data_type| data_type.name()).collect::<Vec<_>>().join("/")
}

fn operations(limit: &Listed<OperationKind>) -> String {
    join(limit.allowed.iter().map(|kind| kind.name().to_owned()))
}

fn mainloop_alignment(surface: &Surface) -> String {
    let bits = surface.mainloop.alignment.bits;
    match surface.forward.bare_alignment_bits {
        None => format!("{bits} bits"),
        Some(bare) => format!("{bits} bits; of forward convolutions with an empty g1 {bare} bits"),
    }
}

fn epilogue_alignment(surface: &Surface) -> String {
    match &surface.epilogue.alignment {
        None => "8 bits".to_owned(),
        Some([tensors, pointwise]) => format!("{} bits; of Pointwise results {} bits", tensors.bits, pointwise.bits),
    }
}

/// Layouts around the core, and whether operations may stand before it.
fn pattern(surface: &Surface, pattern: Pattern) -> String {
    let Some(limits) = surface.pattern(pattern) else { return "–".to_owned() };
    let (before, after) = (layouts(&limits.mainloop_layout), layouts(&limits.epilogue.layout));
    let layouts = if before == after { before } else { format!("before the core {before}, after it {after}") };
    format!("{layouts}; g1 {}", mainloop(limits))
}

fn mainloop(limits: &PatternLimits) -> &'static str {
    let allows =
        |side: &Option<Mainloop>| side.as_ref().is_some_and(|side| !matches!(side, Mainloop::Forbidden { .. }));
    match limits.mainloop.each_ref().map(allows) {
        [true, true] => "on both operands",
        [true, false] => "on the first operand",
        [false, true] => "on the second operand",
        [false, false] => "empty",
    }
}

fn layouts(limit: &LayoutLimit) -> String {
    let names: Vec<&str> = limit.layouts.iter().map(|layout: &Layout| layout.name()).collect();
    let packing = match limit.packing {
        Packing::Full => "fully packed",
        Packing::Disjoint(_) | Packing::DisjointOutputs(_) | Packing::Free => "padded",
    };
    format!("{} {packing}", names.join("/"))
}

fn unfused(surface: &Surface) -> String {
    match &surface.unfused {
        Err(_) => "–".to_owned(),
        Ok(limits) => {
            let (matrix, image) = (layouts(&limits.matrix.layout), layouts(&limits.image.layout));
            format!("3-D {matrix}; 4-D and 5-D {image}")
        }
    }
}
