# mypy: allow-untyped-calls
"""The pass over Inductor's post-grad graphs that replaces regions by `fusewright::run`."""

import dataclasses
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files
from torch.fx import Graph, Node

import fusewright

from . import _op
from ._explain import AnchorReport, report_of
from ._layout import is_packed, same_strides
from ._options import Options
from ._regions import Region, Relayout, Search, erase_unread, find_anchors, outside_users, search, smaller_regions
from ._select import Decision, choose, is_to_build
from ._sized import RUN_SIZED
from ._strided import read_in_place
from ._times import device_identity
from ._translate import CHANNELS_LAST, VIEWS, Anchor, Translation, tensor_value

aten = torch.ops.aten

CPU_ARCH = "sm_90"
"""The architecture whose rules decide where tensors are on the CPU."""

_SOURCES = tuple(sorted(str(path) for path in Path(__file__).parent.glob("*.py")))
_reports: list[AnchorReport] | None = None


@contextmanager
def recorded_reports() -> Iterator[list[AnchorReport]]:
    """Collects what the passes of this process say about each anchor."""
    global _reports
    outer, _reports = _reports, []
    try:
        yield _reports
    finally:
        _reports = outer


def record(report: AnchorReport) -> None:
    """Hands a report to whoever collects them."""
    if _reports is not None:
        _reports.append(report)


class OptionsPass(CustomGraphPass):
    """A pass of ours: its result depends on the graph, its options, the package's sources, and the GPU."""

    def __init__(self, options: Options) -> None:
        self.options = options

    def uuid(self) -> Any:
        """Names everything that the result depends on beside the graph."""
        device = device_identity() if torch.cuda.is_available() else "cpu"
        tf32 = (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32)
        return (fusewright.__version__, get_hash_for_files(_SOURCES), self.options, device, tf32)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OptionsPass) and (type(self), self.options) == (type(other), other.options)

    def __hash__(self) -> int:
        return hash(self.options)


class FusionPass(OptionsPass):
    """Replaces the regions of a graph that an engine takes and that selection keeps."""

    def __call__(self, graph: Graph) -> None:
        anchors = find_anchors(graph)
        self._build_ahead(anchors)
        for anchor in anchors:
            found, decision = self._decide(self._search(anchor))
            record(report_of(found, decision))
            if decision.taken and found.region is not None:
                replace(found.region, self.options.device)
        read_in_place(graph, self.options.device, architecture)
        graph.lint()

    def _build_ahead(self, anchors: Sequence[Anchor]) -> None:
        """Compiles side by side what is timed or taken below, where each region would wait for its own."""
        if self.options.select != "measure":
            return
        regions = (self._search(anchor).region for anchor in anchors)
        wanted = {
            (region.translation.text, self._session(region))
            for region in regions
            if region is not None and is_to_build(region, self.options)
        }
        _op.build_plans(wanted)

    def _session(self, region: Region) -> str:
        return _op.session_name(tensor_value(region.anchor.value).device, self.options.device)

    @property
    def _relayout(self) -> Relayout:
        relayouts: dict[str, Relayout] = {"always": "always", "measure": "fused", "model": "never"}
        return relayouts[self.options.select]

    def _search(self, anchor: Anchor) -> Search:
        obstacle = _obstacle(anchor, self.options.device)
        if obstacle is not None:
            return Search(anchor, refusals=[obstacle])
        return search(
            anchor,
            arch=architecture(tensor_value(anchor.value).device),
            strict_rounding=self.options.strict_rounding,
            relayout=self._relayout,
        )

    def _decide(self, found: Search) -> tuple[Search, Decision]:
        """The search with the region that was chosen, and whether it is taken."""
        if found.region is None:
            return found, Decision(False, "no engine takes it")
        arch = architecture(tensor_value(found.anchor.value).device)
        smaller = partial(
            smaller_regions,
            found.region,
            arch=arch,
            strict_rounding=self.options.strict_rounding,
            relayout=self._relayout,
        )
        region, decision = choose(found.region, self.options, arch, smaller)
        if decision.taken:
            decision = self._with_plan(region, decision)
        return dataclasses.replace(found, region=region), decision

    def _with_plan(self, region: Region, decision: Decision) -> Decision:
        """The decision, once the plan is made: neither the first run nor the capture of a CUDA graph is to compile."""
        try:
            _op.plan_for(region.translation.text, self._session(region))
        except fusewright.FusewrightError as error:
            return Decision(False, f"no plan: {error}", decision.times)
        return decision


class ComposedPass(CustomGraphPass):
    """Passes in turn, so that ours leaves what the user has set."""

    def __init__(self, passes: Sequence[Callable[[Graph], None]]) -> None:
        self.passes = tuple(passes)

    def __call__(self, graph: Graph) -> None:
        for graph_pass in self.passes:
            graph_pass(graph)

    def uuid(self) -> Any:
        """`None`, which keeps the result out of caches, where a pass has no identity."""
        ids = [p.uuid() if isinstance(p, CustomGraphPass) else None for p in self.passes]
        return None if None in ids else tuple(ids)


def compose(existing: Any, ours: OptionsPass) -> Any:
    """The hook's value with our pass after the passes that are there."""
    if existing is None:
        return ours
    if isinstance(existing, (list, tuple)):
        return [*existing, ours]
    return ComposedPass((existing, ours))


def architecture(device: torch.device) -> str:
    """The architecture whose rules decide for tensors on a device."""
    if device.type != "cuda":
        return CPU_ARCH
    major, minor = torch.cuda.get_device_capability(device)
    return f"sm_{major}{minor}"


def session_obstacle(device: torch.device, session: str) -> str | None:
    """Why a session cannot take tensors of a device."""
    if session in {"cpu": ("", "cpu", "emulator"), "cuda": ("", str(device))}.get(device.type, ()):
        return None
    return f"tensors on {device}, session {session or 'of the same device'}"


def _obstacle(anchor: Anchor, session: str) -> str | None:
    """What speaks against an anchor beside the support surfaces."""
    value = tensor_value(anchor.value)
    if obstacle := session_obstacle(value.device, session):
        return obstacle
    if value.device.type == "cuda" and value.dtype is torch.float32 and _is_full_precision(anchor):
        return "FLOAT cores compute in TF32, which PyTorch's settings do not allow here"
    return None


def _is_full_precision(anchor: Anchor) -> bool:
    if anchor.kind == "scaled_mm":
        return False
    allowed = torch.backends.cudnn.allow_tf32 if anchor.is_convolution else torch.backends.cuda.matmul.allow_tf32
    return not allowed


# Replacement.


def replace(region: Region, session: str) -> None:
    """Puts one `fusewright::run` in the place of a region, before the first outside user of its results."""
    graph = region.anchor.call.graph
    inside = region.nodes
    views = _outliving_views(region.members, inside)
    order = {node: index for index, node in enumerate(graph.nodes)}
    place = min(outside_users(inside, inside), key=order.__getitem__)
    with graph.inserting_before(place):
        results = _call(graph, region, session)
        for old, new in zip(region.translation.outputs, results, strict=True):
            old.replace_all_uses_with(new, delete_user_cb=_is_to_redirect(inside, set(views)))
    for view in views:
        place.prepend(view)
    _erase(region, kept=set(views))
    for node in region.translation.inputs:
        erase_unread(node, VIEWS)


def _outliving_views(members: Sequence[Node], inside: set[Node]) -> list[Node]:
    """Views that something outside reads, directly or through further views."""
    views: set[Node] = set()
    for node in reversed(members):
        if node.target in VIEWS and any(u not in inside or u in views for u in node.users):
            views.add(node)
    return [node for node in members if node in views]


def _is_to_redirect(inside: set[Node], views: set[Node]) -> Callable[[Node], bool]:
    """Outside users read the new value, and so do views that outlive the region."""
    return lambda user: user not in inside or user in views


def _call(graph: Graph, region: Region, session: str) -> list[Node]:
    """The operator's call and one node for each of its results, of the extents and strides of the old values."""
    translation = region.translation
    inputs = [
        _clone(graph, n, CHANNELS_LAST[tensor_value(n).dim()]) if n in translation.relayout_inputs else n
        for n in translation.inputs
    ]
    if not translation.sized_text:
        inputs = [unviewed(n) for n in inputs]
    call = (_sized_call if translation.sized_text else _static_call)(graph, translation, inputs)
    if session:
        call.args = (*call.args, session)
    given = tuple(_values(argument) for argument in call.args)
    call.meta["eager_input_vals"] = (given, {})
    mode = region.anchor.value.meta["val"].fake_mode
    with mode:
        values = call.target(*given)  # type: ignore[operator]
    call.meta["val"] = values
    results = []
    for index, (old, value) in enumerate(zip(translation.outputs, values, strict=True)):
        item = graph.call_function(operator.getitem, (call, index))
        item.meta["val"] = value
        results.append(_like(graph, item, tensor_value(old)))
    return results


def _static_call(graph: Graph, translation: Translation, inputs: list[Node]) -> Node:
    return graph.call_function(_op.RUN, (inputs, translation.text))


def _sized_call(graph: Graph, translation: Translation, inputs: list[Node]) -> Node:
    return graph.call_function(RUN_SIZED, (inputs, translation.sizes, translation.sized_text))


def unviewed(node: Node) -> Node:
    """What a packed tensor is a view of, of other extents: the operator reads memory, whatever its extents.

    Of a view Inductor would write a copy in the view's extents, which it does not fuse into the sums of a norm.
    """
    while node.target in VIEWS:
        (source,) = node.all_input_nodes[:1]
        if not (_is_packed(node) and _is_packed(source)):
            break
        node = source
    return node


def _is_packed(node: Node) -> bool:
    value = tensor_value(node)
    return is_packed(value.shape, value.stride())


def _values(argument: Any) -> Any:
    """An argument with fake tensors and symbolic sizes in place of nodes."""
    return torch.fx.node.map_arg(argument, lambda node: node.meta["val"])


def _like(graph: Graph, node: Node, wanted: torch.Tensor) -> Node:
    """The node's value under the extents, and with the strides, of another."""
    if tuple(tensor_value(node).shape) != tuple(wanted.shape):
        node = _computed(graph, aten.reshape.default, (node, list(wanted.shape)))
    if same_strides(tuple(wanted.shape), tensor_value(node).stride(), wanted.stride()):
        return node
    return _clone(graph, node, torch.contiguous_format)


def _clone(graph: Graph, node: Node, memory_format: torch.memory_format) -> Node:
    return _computed(graph, aten.clone.default, (node,), {"memory_format": memory_format})


def _computed(graph: Graph, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> Node:
    """A call whose value the fake tensors of its arguments tell."""
    node = graph.call_function(target, args, kwargs or {})
    fake = _values(args)
    with node.args[0].meta["val"].fake_mode:  # type: ignore[union-attr]
        node.meta["val"] = target(*fake, **(kwargs or {}))
    return node


def _erase(region: Region, kept: set[Node]) -> None:
    """Removes what the call replaces; of a convolution's gradients, those that are still needed stay."""
    for node in reversed(region.members):
        if node not in kept and not node.users:
            node.graph.erase_node(node)
    anchor = region.anchor
    if anchor.value.users:
        return
    anchor.value.graph.erase_node(anchor.value)
    if anchor.call is not anchor.value:
        _narrow_gradients(anchor.call)


def _narrow_gradients(call: Node) -> None:
    """Leaves of `convolution_backward` the results that something reads; a bias gradient alone is a sum."""
    for item in list(call.users):
        if not item.users:
            call.graph.erase_node(item)
    needed = [any(item.args[1] == index for item in call.users) for index in range(3)]
    if not any(needed):
        call.graph.erase_node(call)
    elif needed == [False, False, True]:
        (item,) = call.users
        gradient: Node = call.args[0]  # type: ignore[assignment]
        axes = [axis for axis in range(tensor_value(gradient).dim()) if axis != 1]
        with call.graph.inserting_before(call):
            total = _computed(call.graph, aten.sum.dim_IntList, (gradient, axes))
        item.replace_all_uses_with(total)
        call.graph.erase_node(item)
        call.graph.erase_node(call)
    else:
        call.args = (*call.args[:10], needed)
        values = call.meta["val"]
        call.meta["val"] = type(values)(v if n else None for v, n in zip(values, needed, strict=True))
