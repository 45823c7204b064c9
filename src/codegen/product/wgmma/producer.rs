//! The warpgroup that brings tiles: by boxes alone, or filling stages itself.

use std::ops::Range;

use serde::Serialize;

use super::super::loads::{BoxLoads, Boxed, LoadsText};
use super::super::operand::{Side, filled};
use super::Skeleton;
use crate::codegen::sections::Used;
use crate::codegen::template::{self, template};
use crate::error::Error;
use crate::kernel::{Number, Operand, StepTail};

/// The names of the bytes of a tile's steps, and of the last of them where it differs.
const BYTES_OF_STEP: &str = "bytes_of_step";
const BYTES_OF_TAIL: &str = "bytes_of_tail";

/// What `pipeline/producer.cuh` reads.
#[derive(Serialize)]
struct ProducerText {
    stages: u32,
    units: Number,
    unit: String,
    steps: String,
    /// Bytes of a stage, and of what comes in boxes.
    stage_bytes: u32,
    boxed_bytes: String,
    /// What tells how much of a tile its boxes bring, where they end at the edge of C.
    edge: Vec<String>,
    /// What tells the last step along k, or under a tap, where it differs.
    tail: Option<String>,
    /// What tells where boxes begin: of a tile, and of a step.
    tile_digits: Vec<String>,
    origin: Vec<String>,
    sides: Vec<LoadsText>,
    stationary: Option<StationaryLoadsText>,
    /// The end of a loop that the origin begins.
    end: Option<&'static str>,
}

/// Bytes of a step of these, and of its boxes.
#[derive(Serialize)]
struct StationaryLoadsText {
    bytes: u32,
    boxed_bytes: String,
}

/// What `pipeline/filling_producer.cuh` reads.
#[derive(Serialize)]
struct FillingText {
    stages: u32,
    units: Number,
    unit: String,
    steps: String,
    stage_bytes: u32,
    origin: String,
    /// How boxes are asked for, if any come, and those that are multiplied as they come, where others arrive apart from their tiles.
    ask: Option<AskText>,
    direct: Option<DirectText>,
    /// Functions that fill the operands' tiles, and their names.
    operands: Vec<String>,
    names: Vec<&'static str>,
    /// Steps under way, where pieces are copied, before the oldest is told to be there.
    copies_ahead: Option<u32>,
}

#[derive(Serialize)]
struct AskText {
    boxed_bytes: u32,
    /// Steps that boxes are asked for ahead of what is computed, and whether they arrive apart from the tiles, so that none is waited for.
    ahead: u32,
    apart: bool,
    /// What tells where boxes begin.
    origin: Vec<String>,
    sides: Vec<LoadsText>,
    /// The end of a loop that the origin begins.
    end: Option<&'static str>,
}

/// Boxes of a stage that nobody computes, and what tells where they begin.
#[derive(Serialize)]
struct DirectText {
    boxed_bytes: u32,
    origin: Vec<String>,
    sides: Vec<LoadsText>,
    end: Option<&'static str>,
}

impl<'a> Skeleton<'a> {
    pub(super) fn producer(&self, used: &mut Used) -> Result<String, Error> {
        used.add("fw_elect");
        let steps = self.steps();
        let boxed = self.boxed("full", "stage", "step", |_| true);
        let BoxLoads { of_tile, of_step, sides, end } = boxed.loads();
        let edge = self.edge_lines();
        let record = ProducerText {
            stages: self.wgmma.stages,
            units: self.kernel.units(),
            unit: self.unit()?,
            steps: steps.count(),
            stage_bytes: self.kernel.shared.stage.bytes,
            boxed_bytes: match (edge.is_empty(), self.kernel.differing_tail()) {
                (true, _) => self.bytes_of_step(self.staged_slots()),
                (false, Some(_)) => format!("is_tail ? {BYTES_OF_TAIL} : {BYTES_OF_STEP}"),
                (false, None) => BYTES_OF_STEP.to_owned(),
            },
            edge,
            tail: self.kernel.differing_tail().map(|tail| steps.is_tail(tail, "step")),
            tile_digits: of_tile,
            origin: boxed.takes_k().then(|| steps.origin_line("step")).into_iter().chain(of_step).collect(),
            sides,
            stationary: self.keeps_b().then(|| StationaryLoadsText {
                bytes: self.kernel.shared.stationary_bytes,
                boxed_bytes: self.bytes_of_step(1..2),
            }),
            end,
        };
        template::render(template!("pipeline/producer.cuh"), &record)
    }

    /// What tells of a tile how many of its rows and columns are C's, and the bytes of its steps' boxes, where these end at the edge of C.
    fn edge_lines(&self) -> Vec<String> {
        let sides = self.staged_slots().map(|slot| self.side(slot));
        let inside: Vec<String> = sides.clone().filter_map(|side| side.inside_line()).collect();
        if inside.is_empty() {
            return inside;
        }
        let slots = |side: &Side<'_>| side.slot..side.slot + 1;
        let of_step = |side: Side<'_>| {
            side.edge_bytes().unwrap_or_else(|| self.bytes_of_steps(slots(&side), self.kernel.only_tail()))
        };
        let sum = |bytes: Vec<String>| bytes.join(" + ");
        let steps = format!("const unsigned {BYTES_OF_STEP} = {};", sum(sides.clone().map(of_step).collect()));
        let tail = self.kernel.differing_tail().map(|tail| {
            let of_tail = |side: Side<'_>| side.tail_bytes(&self.bytes_of_steps(slots(&side), Some(tail)));
            format!("const unsigned {BYTES_OF_TAIL} = {};", sum(sides.map(of_tail).collect()))
        });
        inside.into_iter().chain([steps]).chain(tail).collect()
    }

    /// Bytes of the boxes of some operands' steps: fewer where every step is the last along k, or under its tap, and a condition where some are.
    fn bytes_of_step(&self, slots: Range<usize>) -> String {
        let of = |tail: Option<StepTail>| self.bytes_of_steps(slots.clone(), tail);
        match self.kernel.differing_tail() {
            Some(tail) => format!("is_tail ? {} : {}", of(Some(tail)), of(None)),
            None => of(self.kernel.tail),
        }
    }

    /// The same of whole steps, or of those that are such a tail.
    fn bytes_of_steps(&self, slots: Range<usize>, tail: Option<StepTail>) -> String {
        let elements = |operand: &Operand| tail.map_or(self.kernel.tile.k, |tail| operand.boxed_of(tail));
        let of_side = |side: Side<'_>| side.boxed_bytes() / self.kernel.tile.k * elements(side.operand());
        let bytes: u32 = slots.clone().map(|slot| of_side(self.side(slot))).sum();
        let names = match tail {
            Some(_) => ["bytes of a tail", "bytes of a tail of B"],
            None => ["bytes of a step", "bytes of a step of B"],
        };
        // boxes end where operands do
        Number::count(self.graph.is_dynamic(), names[usize::from(slots.start > 0)], bytes.into()).to_string()
    }

    pub(super) fn filling_producer(&self, used: &mut Used) -> Result<String, Error> {
        used.add("fw_fence_async");
        if self.copies() {
            used.add("fw_cp_async");
        }
        let steps = self.steps();
        let ask = self.transforms().then(|| self.ask());
        if self.boxes_arrive_apart() {
            used.add("fw_named_barrier");
        }
        let computed = (0..2).filter(|&slot| !self.is_direct(slot) && self.in_fragments(slot).is_none());
        let computed: Vec<Side<'_>> = computed.map(|slot| self.side(slot)).collect();
        let mut operands = Vec::new();
        for &side in &computed {
            operands.push(filled(used, side)?);
        }
        let record = FillingText {
            stages: self.wgmma.stages,
            units: self.kernel.units(),
            unit: self.unit()?,
            steps: steps.count(),
            stage_bytes: self.kernel.shared.stage.bytes,
            origin: steps.origin_line("step"),
            ask,
            direct: self.direct(),
            operands,
            copies_ahead: self.copies().then_some(self.kernel.tuning.copies_ahead),
            names: computed.iter().map(Side::name).collect(),
        };
        template::render(template!("pipeline/filling_producer.cuh"), &record)
    }

    fn ask(&self) -> AskText {
        let apart = self.boxes_arrive_apart();
        let boxed = self.boxed("raw", "asked_stage", "asked_step", |slot| !apart || !self.is_direct(slot));
        let BoxLoads { of_tile, of_step, sides, end } = boxed.loads();
        let first = boxed.takes_k().then(|| self.steps().origin_line("asked_step"));
        AskText {
            boxed_bytes: boxed.sides.iter().map(Side::boxed_bytes).sum(),
            ahead: self.kernel.tuning.boxes_ahead,
            apart,
            origin: of_tile.into_iter().chain(first).chain(of_step).collect(),
            sides,
            end,
        }
    }

    /// The boxes that are multiplied as they come, beside others that arrive apart from their tiles or pieces that are copied.
    fn direct(&self) -> Option<DirectText> {
        if !self.has_direct_boxes() {
            return None;
        }
        let boxed = self.boxed("full", "stage", "step", |slot| self.is_direct(slot));
        let BoxLoads { of_tile, of_step, sides, end } = boxed.loads();
        let boxed_bytes = boxed.sides.iter().map(Side::boxed_bytes).sum();
        Some(DirectText { boxed_bytes, origin: of_tile.into_iter().chain(of_step).collect(), sides, end })
    }

    /// The loads of some operands' boxes, whose bytes are counted by a barrier of a stage.
    fn boxed(
        &self,
        barrier: &'static str,
        stage: &'static str,
        step: &'static str,
        are_wanted: impl Fn(usize) -> bool,
    ) -> Boxed<'a> {
        let sides = (0..2).filter(|&slot| self.is_boxed(slot) && are_wanted(slot)).map(|slot| self.side(slot));
        Boxed { sides: sides.collect(), barrier, stage, step }
    }
}
