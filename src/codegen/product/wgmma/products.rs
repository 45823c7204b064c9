//! The instructions of a step: descriptors of tiles in shared memory, or fragments of A in registers.

use serde::Serialize;

use super::super::operand::fragments;
use super::{ROW_BYTES, Skeleton};
use crate::codegen::sections::Used;
use crate::codegen::template::{self, template};
use crate::error::Error;
use crate::graph::DataType;
use crate::kernel::{MmaType, Register, Schedule, StepTail, Sums, TensorMap, WGMMA_ROWS};

/// Bytes of k of an instruction.
const PART_BYTES: u32 = 32;

/// What `pipeline/products.cuh` reads.
#[derive(Serialize)]
struct ProductsText {
    /// The operands' descriptors, of a consumer's rows.
    a: String,
    b: String,
    /// Whether the products are added to the sums: a condition.
    accumulate: &'static str,
    products: Vec<String>,
    /// Those of the last step along k, or under a tap, where it has fewer.
    tail: Option<TailProductsText>,
}

#[derive(Serialize)]
struct TailProductsText {
    condition: String,
    products: Vec<String>,
}

/// What `pipeline/products_of_fragments.cuh` reads.
#[derive(Serialize)]
struct FragmentProductsText {
    origin: String,
    b: String,
    /// Whether all fragments of a step are computed side by side, then multiplied: in narrow tiles, whose products take
    /// less time than one fragment.
    at_once: bool,
    /// Groups of products under way while a fragment is computed: all but that which has used its registers.
    pending: usize,
    fragments: Vec<FragmentText>,
}

/// A fragment of 64 rows by 32 bytes of k and its products.
#[derive(Serialize)]
struct FragmentText {
    name: String,
    block: u32,
    part: u32,
    /// Whether the sums start with it.
    accumulate: &'static str,
    product: String,
    /// Whether the products of the stage before have been done once its registers are free.
    is_last: bool,
}

impl Skeleton<'_> {
    pub(super) fn products(&self) -> Result<String, Error> {
        let record = ProductsText {
            a: self.descriptor(0),
            b: self.descriptor(1),
            accumulate: if self.wgmma.sums == Sums::Promoted { "0" } else { "step" },
            products: self.instructions(match self.kernel.only_tail() {
                Some(tail) => self.parts_of(tail),
                None => self.parts(),
            }),
            tail: self.kernel.differing_tail().map(|tail| TailProductsText {
                condition: self.steps().is_tail(tail, "step"),
                products: self.instructions(self.parts_of(tail)),
            }),
        };
        template::render(template!("pipeline/products.cuh"), &record)
    }

    /// An operand's descriptor, of a consumer's rows.
    pub(super) fn descriptor(&self, slot: usize) -> String {
        let operand = self.operand(slot);
        let offset = self.kernel.shared.stage.tiles[slot];
        let shift = match self.wgmma.schedule {
            Schedule::Cooperative if slot == 0 => {
                format!(" + consumer * {}", self.consumer_m() * self.bytes_of_a_row())
            }
            _ => String::new(),
        };
        let row_bytes = self.row_bytes(slot);
        let leading = if operand.along_k { 16 } else { self.side(slot).taps() * self.kernel.tile.k * row_bytes };
        let place = match offset {
            _ if slot == 1 && self.keeps_b() => {
                format!("stationary + step * {}", self.kernel.shared.stationary_bytes)
            }
            0 => "tile".to_owned(),
            _ => format!("tile + {offset}"),
        };
        format!("fw_matrix_descriptor<{row_bytes}>({place}{shift}, {leading}, {})", 8 * row_bytes)
    }

    /// The instructions of so many parts of a step, under each of its taps: 32 bytes of k at a time, for each block of 64 rows.
    fn instructions(&self, parts: u32) -> Vec<String> {
        let [a, b] = [0, 1].map(|slot| self.operand(slot));
        let shape = self.shape();
        let tail = match self.wgmma.operand {
            MmaType::S8 => String::new(),
            MmaType::Fp8 | MmaType::Tf32 => ", 1, 1".to_owned(),
            _ => format!(", 1, 1, {}, {}", u32::from(!a.along_k), u32::from(!b.along_k)),
        };
        let mut lines = Vec::new();
        let elements = parts * PART_BYTES / self.wgmma.operand.bytes();
        for (tap, [tap_a, tap_b]) in self.taps(elements).into_iter().enumerate() {
            for part in 0..parts {
                for block in 0..self.blocks() {
                    let scale = if tap == 0 && part == 0 { "p" } else { "1" };
                    let plus_a = tap_a + self.part_at(0, part) + block * WGMMA_ROWS * self.bytes_of_a_row() / 16;
                    let plus_b = tap_b + self.part_at(1, part);
                    lines.push(format!(
                        "FW_PRODUCT(\"{shape}\", FW_ROWS_{block}, {plus_a}, {plus_b}, \"{scale}\", \"{tail}\")"
                    ));
                }
            }
        }
        lines
    }

    /// Instructions along k of a step under a tap.
    fn parts(&self) -> u32 {
        self.kernel.tile.k * self.wgmma.operand.bytes() / PART_BYTES
    }

    /// Instructions along k of the last step.
    fn parts_of(&self, tail: StepTail) -> u32 {
        tail.elements * self.parts() / self.kernel.tile.k
    }

    /// Where 32 bytes of k of an operand begin, in units of descriptors: 16 bytes.
    fn part_at(&self, slot: usize, part: u32) -> u32 {
        let row_bytes = self.row_bytes(slot);
        if !self.operand(slot).along_k {
            return part * (PART_BYTES / self.wgmma.operand.bytes()) * row_bytes / 16;
        }
        let block_bytes = self.side(slot).block() * row_bytes;
        (part * PART_BYTES / row_bytes * block_bytes + part * PART_BYTES % row_bytes) / 16
    }

    /// Where the taps of a step of so many elements of k begin in the tiles of A and B, in units of descriptors.
    fn taps(&self, elements: u32) -> Vec<[u32; 2]> {
        let Some(row) = self.kernel.tap_row else { return vec![[0, 0]] };
        let row_bytes = self.row_bytes(1);
        let lines = if self.kernel.b.along_k { self.kernel.tile.n } else { elements };
        let at = |tap: u32| [row.first_row(tap) * self.bytes_of_a_row() / 16, tap * lines * row_bytes / 16];
        (0..row.taps).map(at).collect()
    }

    /// Bytes from a row of A to the next, a column of 64 of them at a time where lines run along m.
    fn bytes_of_a_row(&self) -> u32 {
        if self.operand(0).along_k { self.row_bytes(0) } else { ROW_BYTES }
    }

    /// `m64n256k16.f32.bf16.bf16`.
    fn shape(&self) -> String {
        format!("m{WGMMA_ROWS}n{}k{}.{}", self.kernel.tile.n, 32 / self.wgmma.operand.bytes(), self.types())
    }

    /// Types of accumulators, A and B.
    fn types(&self) -> String {
        let sum = match (self.wgmma.sums, self.kernel.multiply.accumulator()) {
            (Sums::Half, _) => "f16",
            (_, Register::Int) => "s32",
            _ => "f32",
        };
        let stored = |slot: usize| self.graph.tensor(self.operand(slot).tensor).data_type;
        let [a, b] = [0, 1].map(|slot| match (self.wgmma.operand, stored(slot)) {
            (MmaType::F16, _) => "f16",
            (MmaType::Bf16, _) => "bf16",
            (MmaType::Tf32, _) => "tf32",
            (MmaType::S8, _) => "s8",
            (MmaType::Fp8, DataType::Fp8E4M3) => "e4m3",
            (MmaType::Fp8, _) => "e5m2",
        });
        format!("{sum}.{a}.{b}")
    }

    pub(super) fn fragment_functions(&self, used: &mut Used, map: &TensorMap) -> Result<String, Error> {
        let functions = fragments(used, self.side(0), map, self.consumer_row())?;
        let names: Vec<String> = self.fragments().iter().map(|fragment| format!("{}[4]", fragment.name)).collect();
        Ok(format!("{functions}\nunsigned {};", names.join(", ")))
    }

    pub(super) fn products_of_fragments(&self) -> Result<String, Error> {
        let fragments = self.fragments();
        let record = FragmentProductsText {
            origin: self.steps().origin_line("step"),
            b: self.descriptor(1),
            at_once: self.kernel.tuning.fragments_at_once,
            pending: fragments.len() - 1,
            fragments,
        };
        template::render(template!("pipeline/products_of_fragments.cuh"), &record)
    }

    /// The fragments of a step, in the order in which they are multiplied.
    fn fragments(&self) -> Vec<FragmentText> {
        let count = self.parts() * self.blocks();
        (0..count)
            .map(|number| self.fragment(number / self.blocks(), number % self.blocks(), number + 1 == count))
            .collect()
    }

    fn fragment(&self, part: u32, block: u32, is_last: bool) -> FragmentText {
        let b = &self.kernel.b;
        let tail = format!(", 1, 1, {}", u32::from(!b.along_k));
        let scale = if part == 0 { "p" } else { "1" };
        let plus_b = self.part_at(1, part);
        let shape = self.shape();
        FragmentText {
            name: format!("fragment_{part}_{block}"),
            block,
            part,
            accumulate: if part == 0 { "step" } else { "1" },
            product: format!("FW_PRODUCT_A(\"{shape}\", FW_ROWS_{block}, {plus_b}, \"{scale}\", \"{tail}\")"),
            is_last,
        }
    }
}
