# mypy: allow-untyped-calls
"""Selection: which of the regions that an engine takes are worth taking from Inductor."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch._inductor import config as inductor
from torch.fx import Graph, GraphModule, Node

from . import _op
from ._layout import channels_last
from ._options import Options
from ._regions import Region, is_computed_in_kernels, is_fusible, readers
from ._sizes import number
from ._times import NEEDED_RATIO, Times, known_times, measured_once
from ._timing import time_modules
from ._translate import CHANNELS_LAST, VIEWS, tensor_value

aten = torch.ops.aten

LOGGER = logging.getLogger(__name__)

MODEL_ERROR = 1.25
"""How much slower than in truth the model may take a part to be: it knows little of operands that the core lacks."""

PASS_RATIO = 1.1
"""What Inductor's pass over a core's result takes at least of the time in which PyTorch negates it in place and memory
gives the other operands: of 25 passes it took 1.01 to 1.9, in the middle 1.3."""

LARGEST_PASS = 6
"""Operations of a pass at most that takes about as long as one that negates."""

WHOLE_UNITS = 8
"""Extents of matmuls that Inductor does not pad (`fx_passes/pad_mm.py`) are multiples of this, whatever the type."""


@dataclass(frozen=True)
class Decision:
    taken: bool
    reason: str
    times: Times | None = None


NOT_ON_CPU = Decision(False, "the CPU engine is for verification and never faster")


def decide(region: Region, options: Options) -> Decision:
    """Whether to take a region, and why."""
    device = tensor_value(region.anchor.value).device
    if options.select == "always":
        return Decision(True, 'select is "always"')
    if device.type != "cuda":
        return NOT_ON_CPU
    if options.select == "model":
        joined = len(region.operations)
        return Decision(joined > 0, f"{joined} pointwise operations join the core")
    return by_time(region.anchor.value.name, lambda: measured(region, device, options))


def choose(
    region: Region, options: Options, arch: str, smaller: Callable[[], Sequence[Region]]
) -> tuple[Region, Decision]:
    """The region, or where it was measured and is not faster, that of the smaller ones that saves the most time.

    Smaller ones are asked for, and measured, only then: most compilations time one region an anchor.
    """
    decision = decide(region, options)
    if decision.taken or decision.times is None:
        return region, decision
    whole, others = decision.times, [r for r in smaller() if can_win(r, region, decision.times, arch)]
    tried = [(other, decide(other, options)) for other in others]
    won = [(d.times.saved, index) for index, (_, d) in enumerate(tried) if d.taken and d.times is not None]
    if not won:
        return region, decision
    chosen, theirs = tried[max(won)[1]]
    more = len(region.operations) - len(chosen.operations)
    reason = f"{theirs.reason}; {whole.inductor / whole.fused:.2f} with {more} more operations"
    return chosen, replace(theirs, reason=reason)


def can_win(part: Region, whole: Region, times: Times, arch: str) -> bool:
    """Whether a part of a measured region can be faster than Inductor's code, by the engines' model.

    Inductor needs no more time for the part than for the whole.
    """
    share = part.graph.expected_seconds(arch) / whole.graph.expected_seconds(arch)
    return times.fused * share <= MODEL_ERROR * NEEDED_RATIO * times.inductor


def by_time(name: str, measure: Callable[[], Times]) -> Decision:
    """Whether what was measured is faster than Inductor's code."""
    try:
        times = measure()
    except Exception as error:  # what cannot be measured is Inductor's, whatever the cause
        LOGGER.warning("%s was not measured: %s", name, error)
        return Decision(False, f"not measured: {error}")
    ratio = f"{'about ' * times.is_estimated}{times.inductor / times.fused:.2f}"
    reason = f"{ratio} times as fast as Inductor's code, {1 / NEEDED_RATIO:.2f} needed"
    return Decision(times.is_faster, reason, times)


def is_to_build(region: Region, options: Options) -> bool:
    """Whether a region is to be executed on a GPU, by what is known of it now."""
    return is_executed(_what_is_timed(region), tensor_value(region.anchor.value).device, options)


def is_executed(what: str, device: torch.device, options: Options) -> bool:
    """Whether selection executes something on a GPU: to time it, or since it is known to be faster."""
    if options.select != "measure" or device.type != "cuda":
        return False
    times = known_times(what, device)
    return times is None or times.is_faster


# Measurement.


def measured(region: Region, device: torch.device, options: Options) -> Times:
    """The times of a region on a device, from the store where they are known."""
    return measured_once(_what_is_timed(region), device, lambda: _measure(region, device, options))


def _what_is_timed(region: Region) -> str:
    place = " followed" if is_followed(region) else ""
    if copies := _copies(region):
        place += f" relaid {copies}"
    return f"{region.graph.key}{place}"


def _measure(region: Region, device: torch.device, options: Options) -> Times:
    whole = subgraph(region)
    count = len(region.translation.inputs)
    text, session = region.translation.text, options.device

    def fused(*inputs: torch.Tensor) -> Any:
        return _op.RUN(list(inputs[:count]), text, session)

    values = [_as_written(node, region) for node in whole.inputs]
    if cores := called_cores(region, values):
        calls: list[Callable[..., Any]] = [fused, *cores, with_pass(cores[0])]
        seconds, *parts = time_modules([], values, device, before=calls)
        times = estimate(region, seconds, parts, _seconds_to_read(region, device))
        if times is not None:
            return times
    theirs = [whole.module]
    if region.translation.relayout_outputs:
        # Between its own kernels Inductor has either layout.
        theirs.append(subgraph(region, relaid=True).module)
    compiled_core = [subgraph(region, core_alone=True).module] if is_followed(region) else []
    seconds, *others = time_modules([*theirs, *compiled_core], values, device, before=[fused])
    # Operations that Inductor computes in the kernel that follows cost it no more than reading their operands.
    alone_and_read = [time + _seconds_to_read(region, device) for time in others[len(theirs) :]]
    return Times(seconds, min(others[: len(theirs)] + alone_and_read))


def estimate(region: Region, fused: float, parts: Sequence[float], reads: float) -> Times | None:
    """What decides about a region without Inductor's code; `None` where that has to be compiled.

    `parts`: seconds of the core as it may be called, the core itself last, then of the first and a pass over what it
    gives. `reads`: those in which memory gives the other operands.
    """
    *cores, passed = parts
    if _is_bare(region):
        return Times(fused, cores[-1])
    if is_followed(region):
        # Operations that Inductor computes in the kernel that follows cost it no more than reading their operands.
        return Times(fused, min(cores) + reads)
    more = max(0.0, passed - cores[0]) if _is_written_once(region) else 0.0
    times = Times(fused, min(cores) + PASS_RATIO * (more + reads), is_estimated=True)
    is_simple = len(region.operations) <= LARGEST_PASS and all(n.target in _CHEAP for n in region.operations)
    return times if times.is_faster or (more and is_simple) else None


_CHEAP = {
    aten.add.Tensor,
    aten.sub.Tensor,
    aten.mul.Tensor,
    aten.add.Scalar,
    aten.sub.Scalar,
    aten.mul.Scalar,
    aten.relu.default,
    aten.maximum.default,
    aten.minimum.default,
}
"""What a pass computes while memory is waited for."""


def _is_written_once(region: Region) -> bool:
    """Whether the region's results are one, of as many bytes as the core's: Inductor has them by one pass."""
    own = tensor_value(region.anchor.value)
    results = [tensor_value(node) for node in region.translation.outputs]
    return [r.numel() * r.element_size() for r in results] == [own.numel() * own.element_size()]


def with_pass(core: GraphModule) -> GraphModule:
    """A core, and one pass over its result in place."""
    graph = Graph()
    (result,) = graph.graph_copy(core.graph, {})  # type: ignore[misc]
    graph.output((graph.call_function(aten.neg_.default, (result,)),))
    return GraphModule({}, graph)


def _is_bare(region: Region) -> bool:
    """Whether a region is its core and views, and Inductor's code one call."""
    call = region.anchor.call
    adds_bias = call.target is aten.convolution.default and call.args[2] is not None
    return not adds_bias and all(member.target in VIEWS for member in region.members)


def called_cores(region: Region, values: Sequence[torch.Tensor]) -> list[GraphModule]:
    """The calls of PyTorch's own that Inductor may compute a core by, with operands as they are; or none.

    A core with a bias is called without it, then as it is.

    `values`: what the region's module takes (`subgraph`).
    """
    if inductor.max_autotune or inductor.max_autotune_gemm or inductor.conv_1x1_as_mm:
        return []
    core, anchor = subgraph(region, core_alone=True), region.anchor
    placed = dict(zip(core.inputs, values, strict=True))
    operands = [placed[node] for node in anchor.call.all_input_nodes if node in placed]
    if len(operands) < len(anchor.call.all_input_nodes):
        return []
    if anchor.is_convolution:
        if not all(map(_is_as_convolutions_take_it, operands)):
            return []
        return [_without_bias(core.module)]
    may_become_addmm = anchor.kind == "mm" and any(node.target is aten.add.Tensor for node in region.operations)
    if may_become_addmm or not all(map(_is_whole, operands)):
        return []
    has_bias = anchor.call.target in _WITHOUT_BIAS
    return [_without_bias(core.module), core.module] if has_bias else [core.module]


def _without_bias(core: GraphModule) -> GraphModule:
    graph = Graph()
    graph.output(graph.graph_copy(core.graph, {}))
    for node in graph.nodes:
        if node.target in _WITHOUT_BIAS:
            node.target, node.args, node.kwargs = _WITHOUT_BIAS[node.target], node.args[1:3], {}
        elif node.target is aten.convolution.default:
            node.args = (*node.args[:2], None, *node.args[3:])
    return GraphModule({}, graph)


_WITHOUT_BIAS = {aten.addmm.default: aten.mm.default, aten.baddbmm.default: aten.bmm.default}


def _is_as_convolutions_take_it(value: torch.Tensor) -> bool:
    memory_format = CHANNELS_LAST.get(value.dim())
    return value.dim() == 1 or (memory_format is not None and value.is_contiguous(memory_format=memory_format))


def _is_whole(value: torch.Tensor) -> bool:
    return value.dim() < 2 or all(extent % WHOLE_UNITS == 0 for extent in value.shape[-2:])


def _copies(region: Region) -> str:
    """What of a region is copied from or to channels-last, and whether the copy is timed."""
    translation = region.translation
    found = [
        f"{number}{'' if is_computed_in_kernels(node) else ' timed'}"
        for number, node in enumerate(translation.inputs)
        if node in translation.relayout_inputs
    ]
    return ", ".join(found + ["results"] * bool(translation.relayout_outputs))


def _as_written(node: Node, region: Region) -> torch.Tensor:
    """An operand as the kernel before the region writes it: what Inductor computes, in the layout that is asked for."""
    value = tensor_value(node)
    if node in region.translation.relayout_inputs and is_computed_in_kernels(node):
        return value.new_empty_strided(value.shape, channels_last(value.shape))
    return value


def is_followed(region: Region) -> bool:
    """Whether everything that reads the region's results is what Inductor fuses pointwise operations into."""
    if not region.operations:
        return False
    found = [u for node in region.translation.outputs for u in readers(node) if u not in region.nodes]
    return bool(found) and all(map(is_fusible, found))


def _seconds_to_read(region: Region, device: torch.device) -> float:
    """The time in which a GPU's memory gives the operands of a region that its core does not have."""
    core = _with_sources(region.anchor.call.all_input_nodes)
    values = [tensor_value(node) for node in region.translation.inputs if node not in core]
    properties = torch.cuda.get_device_properties(device)
    bytes_per_second = properties.memory_clock_rate * 1e3 * 2 * properties.memory_bus_width / 8
    return sum(v.numel() * v.element_size() for v in values) / bytes_per_second


def _with_sources(nodes: Sequence[Node]) -> set[Node]:
    """Nodes, and what they are views of."""
    found = set()
    for node in nodes:
        found.add(node)
        while node.target in VIEWS:
            (node,) = node.all_input_nodes[:1]
            found.add(node)
    return found


@dataclass(frozen=True)
class Subgraph:
    """A region as a module of its own.

    Its operands are those of the region, and behind them what the core reads in FX alone.
    """

    module: GraphModule
    inputs: list[Node]

    def __call__(self, *inputs: torch.Tensor) -> Any:
        return self.module(*inputs)


_COPIED = (*VIEWS, aten.expand.default, aten.full.default, aten.scalar_tensor.default)
"""What a region's operands may pass through before it reads them."""


def subgraph(region: Region, *, core_alone: bool = False, relaid: bool = False) -> Subgraph:
    """The region, or its core, as a module, whose results may be channels-last."""
    graph, anchor = Graph(), region.anchor
    inside = {anchor.call, *region.nodes}
    inputs = list(region.translation.inputs)
    copies = {node: _placeholder(graph, node) for node in inputs}
    more = [n for n in anchor.call.all_input_nodes if n not in copies and n.target not in _COPIED and n not in inside]
    for node in more:
        copies[node] = _placeholder(graph, node)

    def copy(node: Node) -> Any:
        if isinstance(node.meta.get("val"), torch.SymInt):
            return number(node.meta["val"])
        if node not in copies:
            copies[node] = graph.node_copy(node, copy)
        return copies[node]

    results = [copy(node) for node in ([anchor.value] if core_alone else region.translation.outputs)]
    if relaid:
        memory_format = CHANNELS_LAST[tensor_value(anchor.value).dim()]
        results = [graph.call_function(aten.clone.default, (r,), {"memory_format": memory_format}) for r in results]
    graph.output(tuple(results))
    if anchor.call is not anchor.value:
        # of a convolution's gradients the one that the region computes
        call = copies[anchor.call]
        call.args = (*call.args[:10], [index == anchor.value.args[1] for index in range(3)])
    return Subgraph(GraphModule({}, graph), [*inputs, *more])


def _placeholder(graph: Graph, node: Node) -> Node:
    result = graph.placeholder(node.name)
    result.meta["val"] = tensor_value(node)
    return result
