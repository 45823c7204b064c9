//! Memory layout and packing of tensors in device memory.

use crate::fusion::Stage;
use crate::graph::{Attributes, DataType, FinalTensor, TensorId};
use crate::support::context::{Context, Core};
use crate::support::findings::Findings;
use crate::support::forms::one_of;
use crate::support::layout::{self, Layout};
use crate::support::rule::Rule;
use crate::support::rules::{resample, unfused};
use crate::support::surface::{LayoutLimit, MainloopCommon, Packing};

/// Non-virtual tensors of each stage lie as the surface lists.
pub(super) fn check(cx: &Context, found: &mut Findings) {
    if let Some(dims) = unfused::dims(cx)
        && !resample::has_own_layout(cx)
    {
        each(cx, found, &dims.layout, cx.epilogue_tensors());
        common(cx, found, &dims.layout, cx.epilogue_tensors());
    }
    let (Some(core), Some(limits)) = (&cx.facts.core, cx.limits()) else { return };
    if !core.is_ranked {
        return;
    }
    let inputs = || core.operands.iter().flat_map(|operand| operand.inputs.iter().copied());
    each(cx, found, &limits.mainloop_layout, inputs());
    if let Some(limit) = &limits.mainloop_common {
        mainloop_in_common(cx, found, core, (limit, &limits.mainloop_layout));
    }
    each(cx, found, &limits.epilogue.layout, cx.epilogue_tensors());
    if limits.epilogue.layout.layouts.len() > 1 {
        common(cx, found, &limits.epilogue.layout, cx.epilogue_tensors());
    }
    if let Some(rule) = limits.epilogue.row_major_reduction {
        row_major(cx, found, rule, &limits.epilogue.layout);
    }
}

/// Each tensor lies in a listed layout, packed as the limit says.
fn each(cx: &Context, found: &mut Findings, limit: &LayoutLimit, tensors: impl Iterator<Item = TensorId>) {
    for id in tensors.filter(|&id| !cx.tensor(id).is_virtual) {
        let tensor = cx.tensor(id);
        if !found.asks_layout(id) {
            continue;
        }
        if !limit.layouts.iter().any(|&layout| limit.holds(layout, tensor)) {
            found.tensor(limit.rule, id, limit.list(), layout::describe(tensor));
            found.set_unlaid(id);
        } else if let Some(rule) = limit.packing_rule(cx.graph.producer(id).is_some())
            && found.asks_alignment(id)
            && !layout::is_disjoint(tensor)
        {
            found.tensor(
                rule,
                id,
                "strides without overlap, each over all elements of the axes inside it",
                layout::describe(tensor),
            );
        }
    }
}

/// One listed layout holds for all tensors that lie in any (reporting conventions, 7).
fn common(cx: &Context, found: &mut Findings, limit: &LayoutLimit, tensors: impl Iterator<Item = TensorId>) {
    let mut shared: Vec<Layout> = limit.layouts.to_vec();
    for id in tensors.filter(|&id| found.asks_layout(id)).collect::<Vec<_>>() {
        let tensor = cx.tensor(id);
        let holds = |layout: &Layout| limit.holds(*layout, tensor);
        if shared.iter().any(holds) {
            shared.retain(holds);
        } else if limit.layouts.iter().any(holds) {
            let required = format!("{}, the layout of the other tensors", one_of(&names(&shared)));
            found.tensor(limit.rule, id, required, layout::describe(tensor));
            found.set_unlaid(id);
        }
    }
}

/// Surface 70, matmul: one layout for all inputs of g1A; with INT8 operands row-major, and B column-major.
fn mainloop_in_common(cx: &Context, found: &mut Findings, core: &Core, limits: (&MainloopCommon, &LayoutLimit)) {
    let (limit, listed) = limits;
    let [a, b] = &core.operands;
    if a.is_fused {
        let same = LayoutLimit { rule: limit.same, layouts: listed.layouts, packing: Packing::Full };
        common(cx, found, &same, a.inputs.iter().copied());
    }
    if [a, b].iter().all(|operand| cx.tensor(operand.tensor).data_type == DataType::Int8) {
        for (operand, layout) in [(a, Layout::RowMajor), (b, Layout::ColumnMajor)] {
            operand.inputs.iter().for_each(|&id| require(cx, found, limit.int8, id, (layout, listed)));
        }
    }
}

/// Matmul epilogues beside a Reduction.
fn row_major(cx: &Context, found: &mut Findings, rule: &'static Rule, listed: &LayoutLimit) {
    if cx.staged(Stage::After).any(|slot| matches!(slot.1.attributes, Attributes::Reduction(_))) {
        cx.epilogue_tensors().for_each(|id| require(cx, found, rule, id, (Layout::RowMajor, listed)));
    }
}

/// A tensor that lies in a listed layout lies in this one.
fn require(
    cx: &Context,
    found: &mut Findings,
    rule: &'static Rule,
    id: TensorId,
    (layout, listed): (Layout, &LayoutLimit),
) {
    let tensor = cx.tensor(id);
    let is_listed = listed.layouts.iter().any(|&layout| listed.holds(layout, tensor));
    if found.asks_layout(id) && is_listed && !listed.holds(layout, tensor) {
        found.tensor(rule, id, layout.name(), layout::describe(tensor));
        found.set_unlaid(id);
    }
}

impl LayoutLimit {
    fn holds(&self, layout: Layout, tensor: &FinalTensor) -> bool {
        match self.packing {
            Packing::Full => layout.holds_packed(tensor),
            _ => layout.holds(tensor),
        }
    }

    fn packing_rule(&self, is_output: bool) -> Option<&'static Rule> {
        match self.packing {
            Packing::Disjoint(rule) => Some(rule),
            Packing::DisjointOutputs(rule) if is_output => Some(rule),
            _ => None,
        }
    }

    fn list(&self) -> String {
        let packed = if matches!(self.packing, Packing::Full) { "fully packed " } else { "" };
        format!("{packed}{}", one_of(&names(self.layouts)))
    }
}

fn names(layouts: &[Layout]) -> Vec<&'static str> {
    layouts.iter().map(|layout| layout.name()).collect()
}
