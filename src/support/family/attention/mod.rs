//! Fused attention: two products with a softmax between them. What a graph is that these surfaces are about, its fusion tells.

mod backward;
mod fp8;
mod fp8_backward;
mod mha;
pub(crate) mod mha_records;
pub(crate) mod records;

use std::collections::BTreeSet;

use super::{Family, Limits, Subject};
use crate::device::ComputeCapability;
use crate::fusion::{Attention, Stage};
use crate::graph::{
    Attributes, DataType, FinalTensor, FinalizedGraph, OperationId, PagedCacheLoad, PointwiseMode, Port, Softmax,
    TensorId,
};
use crate::support::findings::Findings;
use crate::support::layout::{self, Layout};
use crate::support::rule::{Rule, SurfaceId};
use records::*;

pub(in crate::support) const FLASH_FPROP: SurfaceId = SurfaceId::Named("FlashFprop");

pub(in crate::support) const FP8_FLASH_FPROP: SurfaceId = SurfaceId::Named("Fp8FlashFprop");

pub(in crate::support) const FLASH_BPROP: SurfaceId = SurfaceId::Named("FlashBprop");

pub(in crate::support) const FP8_FLASH_BPROP: SurfaceId = SurfaceId::Named("Fp8FlashBprop");

/// About what no flash attention is: S is stored, or there is no softmax.
pub(in crate::support) const MHA_FPROP: SurfaceId = SurfaceId::Named("MhaFprop");

pub(in crate::support) const MHA_BPROP: SurfaceId = SurfaceId::Named("MhaBprop");

pub(super) static FAMILY: Family = Family {
    surfaces: &[
        (FLASH_FPROP, &FlashFprop),
        (FP8_FLASH_FPROP, &fp8::Fp8FlashFprop),
        (FLASH_BPROP, &backward::FlashBprop),
        (FP8_FLASH_BPROP, &fp8_backward::Fp8FlashBprop),
        (MHA_FPROP, &mha::MhaFprop),
        (MHA_BPROP, &mha::MhaBprop),
    ],
    rules: &[records::RULES, mha_records::RULES],
    is_by_name: false,
};

/// Chips of Ampere and later that some surface of the runtime fusion engine lists.
const CHIPS: &[ComputeCapability] = &[
    ComputeCapability::new(8, 0),
    ComputeCapability::new(8, 6),
    ComputeCapability::new(8, 7),
    ComputeCapability::new(8, 9),
    ComputeCapability::SM_90,
];

/// Flash attention, forward.
struct FlashFprop;

impl Limits for FlashFprop {
    fn concerns(&self, subject: &Subject) -> bool {
        View::of(subject).is_some_and(|view| !view.is_fp8())
    }

    fn check(&self, subject: &Subject, found: &mut Findings) {
        let Some(view) = View::of(subject).filter(|view| !view.is_fp8()) else { return };
        if !CHIPS.contains(&view.capability) {
            found.graph(&FAF_CC, FAF_CC.summary, view.capability.to_string());
        }
        for id in view.others.iter().copied().chain(view.attention.scaling.operations()) {
            found.operation(&FAF_FORM, id, FAF_FORM.summary, view.graph.operation(id).tag());
        }
        view.operands(found);
        view.pages(found);
        view.results(found);
        view.scales(found);
    }
}

/// An attention on a chip.
struct View<'a> {
    graph: &'a FinalizedGraph,
    capability: ComputeCapability,
    attention: &'a Attention,
    /// Operations before Q and behind O.
    others: Vec<OperationId>,
}

impl<'a> View<'a> {
    fn of(&Subject { graph, capability, facts }: &Subject<'a>) -> Option<Self> {
        let fusion = facts.fusion.as_ref().ok()?;
        let attention = fusion.attention()?;
        let before = leading_to(graph, attention);
        let is_other = |id: &OperationId| fusion.stage(*id) != Stage::Core && !before.contains(id);
        let others = graph.operation_ids().filter(is_other).collect();
        Some(Self { graph, capability, attention, others })
    }

    fn tensor(&self, id: TensorId) -> &'a FinalTensor {
        self.graph.tensor(id)
    }

    fn operands(&self, found: &mut Findings) {
        let [q, k, v] = self.attention.operands(self.graph);
        let sources = self.attention.sources(self.graph);
        let first = self.tensor(q).data_type;
        for id in [q, k, v] {
            let data_type = self.tensor(id).data_type;
            if !is_half(data_type) || data_type != first {
                found.tensor(&FAF_QKV_TYPE, id, FAF_QKV_TYPE.summary, format!("{data_type}"));
            }
        }
        for (id, _) in sources.into_iter().skip(1).filter(|source| self.tensor(source.0).is_virtual) {
            found.tensor(&FAF_KV_SOURCE, id, FAF_KV_SOURCE.summary, "a virtual tensor");
        }
        let largest = largest_head(self.capability);
        for (rule, id, axis) in [(&FAF_Q_D, q, 3), (&FAF_V_D, v, 3)] {
            let size = extent(self.tensor(id), axis);
            if size % 8 != 0 || size > largest {
                found.tensor(rule, id, format!("a multiple of 8, at most {largest}"), size.to_string());
            }
        }
        for (rule, (id, axis)) in [&FAF_QK_STRIDE, &FAF_QK_STRIDE, &FAF_V_STRIDE].into_iter().zip(sources) {
            self.contiguous(rule, id, axis, found);
        }
    }

    /// Containers of pages, and the tables that say whose they are.
    fn pages(&self, found: &mut Findings) {
        let [_, k, v] = self.attention.operands(self.graph);
        let rows = [(k, 3), (v, 2)].map(|(id, axis)| extent(self.tensor(id), axis));
        for (load, rows) in self.attention.loads.into_iter().zip(rows) {
            let Some(load) = load.map(|id| self.graph.operation(id)) else { continue };
            let (Some(container), Some(table)) = (load.input(Port::CONTAINER), load.input(Port::PAGE_TABLE)) else {
                continue;
            };
            let page = extent(self.tensor(container), 2);
            if page.count_ones() != 1 {
                found.tensor(&FAF_PAGE_POW2, container, FAF_PAGE_POW2.summary, format!("pages of {page} rows"));
            }
            let (required, entries) = (PagedCacheLoad::entries(rows, page), extent(self.tensor(table), 2));
            if entries != required {
                let required = format!("{required} entries a sequence, for {rows} rows of {page} a page");
                found.tensor(&FAF_PAGE_TABLE, table, required, entries.to_string());
            }
            let data_type = self.tensor(table).data_type;
            if data_type != DataType::Int32 {
                found.tensor(&FAF_PAGE_TYPE, table, FAF_PAGE_TYPE.summary, format!("{data_type}"));
            }
        }
    }

    fn contiguous(&self, rule: &'static Rule, id: TensorId, axis: usize, found: &mut Findings) {
        contiguous(self.graph, rule, (id, axis), found);
    }

    fn results(&self, found: &mut Findings) {
        let rows = self.graph.operation(self.attention.softmax);
        for id in Softmax::STATISTICS.iter().filter_map(|&port| rows.output(port)) {
            let tensor = self.tensor(id);
            if tensor.data_type != DataType::Float {
                found.tensor(&FAF_STATS_TYPE, id, FAF_STATS_TYPE.summary, format!("{}", tensor.data_type));
            }
            if !tensor.is_virtual && !Layout::RowMajor.holds_packed(tensor) {
                found.tensor(&FAF_STATS_LAYOUT, id, FAF_STATS_LAYOUT.summary, layout::describe(tensor));
            }
        }
        let o = self.attention.result(self.graph);
        if self.tensor(o).is_virtual {
            return; // what becomes of it is told by `FAF_FORM`
        }
        if !is_half(self.tensor(o).data_type) {
            found.tensor(&FAF_O_TYPE, o, FAF_O_TYPE.summary, format!("{}", self.tensor(o).data_type));
        }
        self.contiguous(&FAF_O_STRIDE, o, 3, found);
    }

    /// Numbers that scores are multiplied by.
    fn scales(&self, found: &mut Findings) {
        for &id in &self.attention.modifiers {
            let operation = self.graph.operation(id);
            let is_scale = matches!(&operation.attributes, Attributes::Pointwise(p) if p.mode == PointwiseMode::Mul);
            let numbers = operation.input_tensors().filter(|&id| {
                self.graph.producer(id).is_none() && self.tensor(id).dim.iter().all(|&extent| extent == 1)
            });
            for number in numbers.filter(|_| is_scale) {
                let data_type = self.tensor(number).data_type;
                if !is_half(data_type) && data_type != DataType::Float {
                    found.tensor(&FAF_SCALE_TYPE, number, FAF_SCALE_TYPE.summary, format!("{data_type}"));
                }
            }
        }
    }
}

fn contiguous(graph: &FinalizedGraph, rule: &'static Rule, (id, axis): (TensorId, usize), found: &mut Findings) {
    let tensor = graph.tensor(id);
    if extent(tensor, axis) != 1 && tensor.stride.get(axis) != Some(&1) {
        found.tensor(rule, id, format!("stride 1 on axis {axis}"), layout::describe(tensor));
    }
}

/// Operations that K and V are computed by, of which [`FAF_KV_SOURCE`] tells.
fn leading_to(graph: &FinalizedGraph, attention: &Attention) -> BTreeSet<OperationId> {
    let [_, (k, _), (v, _)] = attention.sources(graph);
    let (mut found, mut open) = (BTreeSet::new(), vec![k, v]);
    while let Some(id) = open.pop() {
        if let Some(producer) = graph.producer(id).filter(|&id| found.insert(id)) {
            open.extend(graph.operation(producer).input_tensors());
        }
    }
    found
}

/// Elements of a head at most.
fn largest_head(capability: ComputeCapability) -> i64 {
    if capability >= ComputeCapability::SM_90 { 256 } else { 128 }
}

fn is_half(data_type: DataType) -> bool {
    matches!(data_type, DataType::Half | DataType::BFloat16)
}

fn extent(tensor: &FinalTensor, axis: usize) -> i64 {
    tensor.dim.get(axis).copied().unwrap_or(1)
}
