"""Regions of an FX graph: a core with the pointwise operations around it that one graph can hold."""

import operator
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from math import prod
from typing import Any, Literal

import torch
from torch.fx import Graph, Node

from fusewright import Graph as FusedGraph
from fusewright import MalformedGraph, Verdict

from ._layout import channels_last, is_in_layout
from ._op import RUN, signature
from ._sized import RUN_SIZED, SAMPLES, form_of, sized_text
from ._sizes import Unsized, concrete, has_numbers, number, sampled
from ._translate import (
    ANCHORS,
    CASTS,
    VIEWS,
    Anchor,
    RegionWriter,
    Translation,
    Untranslatable,
    anchors_of,
    can_be_member,
    is_symbolic,
    tensor_value,
)

LARGEST_REGION = 64
"""Pointwise operations in a region at most, so that a refused one is asked about in bounded time."""


@dataclass
class Region:
    """A region that an engine takes."""

    anchor: Anchor
    members: list[Node]
    """Pointwise operations, casts and views, in topological order."""
    translation: Translation
    graph: FusedGraph
    verdict: Verdict

    @property
    def operations(self) -> list[Node]:
        """The members that compute."""
        return computing(self.members)

    @property
    def nodes(self) -> set[Node]:
        return {self.anchor.value, *self.members}


@dataclass
class Search:
    """What came of growing a region: the best that an engine takes, and why better ones were refused."""

    anchor: Anchor
    region: Region | None = None
    refusals: list[str] = field(default_factory=list)
    """Reasons, the one for the best region first."""


def computing(members: Sequence[Node]) -> list[Node]:
    return [m for m in members if m.target not in VIEWS and m.target not in CASTS]


def find_anchors(graph: Graph) -> list[Anchor]:
    """All anchors, those of the most arithmetic first."""
    return sorted((a for node in graph.nodes for a in anchors_of(node)), key=arithmetic, reverse=True)


def arithmetic(anchor: Anchor) -> int:
    """Multiply-adds of a core; 0 where an extent has no number."""
    call = anchor.call
    if not all(has_numbers(v) for v in _tensors(anchor)):
        return 0
    value = tensor_value(anchor.value)
    if anchor.kind == "conv_fprop":
        return value.numel() * prod(tensor_value(call.args[1]).shape[1:])  # type: ignore[arg-type]
    if anchor.is_convolution:
        gradient, _, weight = (tensor_value(a) for a in call.args[:3])  # type: ignore[arg-type]
        return gradient.numel() * prod(weight.shape[1:])
    left = call.args[1] if anchor.kind in ("addmm", "baddbmm") else call.args[0]
    return value.numel() * int(tensor_value(left).shape[-1])  # type: ignore[arg-type]


def _tensors(anchor: Anchor) -> list[torch.Tensor]:
    """The values of an anchor's result and operands."""
    found = (node.meta.get("val") for node in (anchor.value, *anchor.call.all_input_nodes))
    return [value for value in found if isinstance(value, torch.Tensor)]


Relayout = Literal["never", "fused", "always"]
"""Whether operands and results of convolutions may be copied from and to channels-last: results only where Inductor
fuses the copy into what reads them, or all."""


def search(anchor: Anchor, *, arch: str, strict_rounding: bool, relayout: Relayout) -> Search:
    """The best region of an anchor that an engine takes."""
    result = Search(anchor)
    values = _tensors(anchor)
    if not all(map(has_numbers, values)):
        result.refusals.append("symbolic extents that stand for no number yet")
        return result
    if not all(concrete(v).numel() for v in values):
        result.refusals.append("no elements")
        return result
    order = _order(anchor)
    for members in _candidates(anchor, order):
        try:
            result.region = _accepted(anchor, members, order, arch, strict_rounding, relayout)
            return result
        except Untranslatable as reason:
            if str(reason) not in result.refusals:
                result.refusals.append(str(reason))
    return result


def smaller_regions(region: Region, *, arch: str, strict_rounding: bool, relayout: Relayout) -> list[Region]:
    """What of a region can be taken alone: all but what its operands are computed by, and its core."""
    anchor, order = region.anchor, _order(region.anchor)
    forward = _grow(anchor, order)
    found: list[Region] = []
    for members in ([m for m in region.members if m in forward], _with_views(anchor, [], forward)):
        sizes = {len(_writing(r.members)) for r in (region, *found)}
        if len(_writing(members)) in sizes:  # each list is a part of the one before
            continue
        with suppress(Untranslatable):
            found.append(_accepted(anchor, members, order, arch, strict_rounding, relayout))
    return found


def _writing(members: Sequence[Node]) -> list[Node]:
    return [m for m in members if m.target not in VIEWS]


def _order(anchor: Anchor) -> dict[Node, int]:
    return {node: index for index, node in enumerate(anchor.call.graph.nodes)}


def _accepted(
    anchor: Anchor, members: list[Node], order: dict[Node, int], arch: str, strict_rounding: bool, relayout: Relayout
) -> Region:
    """The region of these members; `Untranslatable` with the rules where no engine takes it."""
    outputs, inside = _outputs(anchor, members), {anchor.value, *members}
    is_dynamic = any(map(is_symbolic, _border(inside)))

    def written() -> Translation:
        options = {"strict_rounding": strict_rounding, "relayout": relayout != "never", "is_dynamic": is_dynamic}
        return RegionWriter(anchor, outputs, **options).write(members)

    translation = written()
    _require_place(translation, inside, order)
    if relayout == "fused":
        _require_fused_copies(translation, inside)
    graph, verdict = _supported(translation.text, arch)
    if is_dynamic:
        try:
            _give_sizes(translation, written, _sizes_before(_first_user(inside, order), order))
            _require_other_sizes(translation, arch)
        except Unsized as error:
            raise Untranslatable(str(error)) from error
    return Region(anchor, members, translation, graph, verdict)


def _require_fused_copies(translation: Translation, inside: set[Node]) -> None:
    """That results which are copied to their own layout are read by kernels of Inductor's alone."""
    for node in translation.relayout_outputs:
        if not all(is_fusible(user) for user in readers(node) if user not in inside):
            raise Untranslatable(f"result {node.name} is not channels-last")


def _supported(text: str, arch: str) -> tuple[FusedGraph, Verdict]:
    """A graph that an engine takes, and the verdict; `Untranslatable` with the rules where none does."""
    try:
        graph, verdict = _checked(text, arch)
    except MalformedGraph as error:
        raise Untranslatable(str(error)) from error
    if not verdict.supported:
        raise Untranslatable(refusal_text(verdict))
    return graph, verdict


@lru_cache(maxsize=1024)
def _checked(text: str, arch: str) -> tuple[FusedGraph, Verdict]:
    """A graph and its verdict, the same for all layers that are alike, and for the pass over them that builds ahead."""
    graph = FusedGraph.from_json(text)
    return graph, graph.check(arch)


def _border(inside: set[Node]) -> list[Node]:
    """The tensors of a region, and those that it reads."""
    nodes = {*inside, *(source for node in inside for source in node.all_input_nodes)}
    return [node for node in nodes if isinstance(node.meta.get("val"), torch.Tensor)]


def _sizes_before(place: int, order: dict[Node, int]) -> list[Node]:
    """Symbolic sizes that a graph has, or computes before a place."""
    found = [n for n, index in order.items() if index < place and isinstance(n.meta.get("val"), torch.SymInt)]
    return [n for n in found if n.meta["val"].node.has_hint()]


def _give_sizes(translation: Translation, written: Callable[[], Translation], values: list[Node]) -> None:
    """Tells how a translation follows from symbolic sizes, from those of other numbers."""
    others = []
    for sample in range(1, SAMPLES):
        with sampled(sample):
            others.append(written())
    if any(other.inputs != translation.inputs or other.outputs != translation.outputs for other in others):
        raise Untranslatable("other operands for other sizes")
    texts = [translation.text, *(other.text for other in others)]
    inputs = [node.meta["val"] for node in translation.inputs]
    translation.sized_text, translation.sizes = sized_text(texts, inputs, _results(translation), values)


def _results(translation: Translation) -> list[torch.Tensor]:
    """Fake tensors of what the operator gives: the old values, or where these are copied from channels-last, that."""
    results = []
    for node, described in zip(translation.outputs, signature(translation.text).outputs, strict=True):
        value, numbers = node.meta["val"], tensor_value(node)
        if not is_in_layout(tuple(numbers.shape), numbers.stride(), described.dim, described.stride):
            if tuple(numbers.shape) != described.dim:
                raise Unsized(f"result {node.name}, which is copied, has other extents than the core")
            value = value.new_empty_strided(value.shape, channels_last(value.shape))
        results.append(value)
    return results


def _require_other_sizes(translation: Translation, arch: str) -> None:
    """That an engine takes a graph in other sizes, too, odd ones among them."""
    form = form_of(translation.sized_text)
    for sample in (1, -1):
        with sampled(sample):
            values = form.values(
                [tensor_value(node) for node in translation.inputs], [number(n.meta["val"]) for n in translation.sizes]
            )
        _supported(form.text(values), arch)


def refusal_text(verdict: Verdict) -> str:
    """The rules that a graph breaks, those of the nearest surface."""
    rules = [f"{v.rule}: {v.where}: required {v.required}, found {v.found}" for v in verdict.violations[:3]]
    return "refused by " + "; ".join(rules) if rules else "refused by every engine"


def _candidates(anchor: Anchor, order: dict[Node, int]) -> list[list[Node]]:
    """Lists of members, those that leave the least memory traffic to Inductor first, of equal ones the largest.

    Each is the operations that follow from the anchor, cut after one of them, with or without what only they use.
    """
    forward = _grow(anchor, order)
    ends = [index + 1 for index, node in enumerate(forward) if node.target not in VIEWS]
    candidates: list[list[Node]] = []
    for end in (*reversed(ends), 0):
        chosen = _with_views(anchor, forward[:end], forward[end:])
        used = _absorb_producers(anchor, chosen, order)
        if used:
            candidates.append(sorted((*chosen, *used), key=order.__getitem__))
        candidates.append(chosen)
    return sorted(candidates, key=lambda members: _avoidable_traffic(anchor, members))


def _avoidable_traffic(anchor: Anchor, members: list[Node]) -> int:
    """Bytes that cross the region's border and would not, did the border lie elsewhere.

    A result costs a read where a kernel of Inductor's reads it, and a write unless it must be in memory anyway. An
    operand that Inductor computes for the region alone costs both.
    """
    inside = {anchor.value, *members}
    total = 0
    for node in _outputs(anchor, members):
        outside = [u for u in readers(node) if u not in inside]
        total += _bytes(node) * (any(map(is_fusible, outside)) + all(map(is_fusible, outside)))
    operands = {s for m in members for s in m.all_input_nodes if s not in inside}
    return total + sum(2 * _bytes(n) for n in operands if can_be_member(n) and all(map(is_fusible, readers(n))))


def readers(node: Node) -> Iterator[Node]:
    """What reads a value, directly or through views."""
    for user in node.users:
        if user.target in VIEWS:
            yield from readers(user)
        else:
            yield user


def is_fusible(node: Node) -> bool:
    """Whether Inductor computes an operation in a kernel with its neighbours."""
    if node.op != "call_function" or node.target in ANCHORS or node.target in (RUN, RUN_SIZED):
        return False
    return "scaled_dot_product" not in str(node.target)


def erase_unread(node: Node, targets: Container[Any]) -> None:
    """Removes what nothing reads any more, back through operations of these: Inductor counts what reads a value."""
    while node.target in targets and not node.users:
        (source,) = node.all_input_nodes[:1]
        node.graph.erase_node(node)
        node = source


def is_computed_in_kernels(node: Node) -> bool:
    """Whether Inductor computes a value itself, and so writes it in the layout that is asked for."""
    while node.target in VIEWS or node.target is operator.getitem:
        (node,) = node.all_input_nodes[:1]
    return is_fusible(node)


def _bytes(node: Node) -> int:
    if not has_numbers(node.meta["val"]):
        return 0
    value = tensor_value(node)
    return value.numel() * value.element_size()


def _with_views(anchor: Anchor, chosen: list[Node], rest: list[Node]) -> list[Node]:
    """The chosen members and every view of them: a view can be moved behind the fused operation, other users cannot."""
    inside = {anchor.value, *chosen}
    result = list(chosen)
    for node in rest:
        if node.target in VIEWS and node.all_input_nodes[0] in inside:
            inside.add(node)
            result.append(node)
    return result


def _grow(anchor: Anchor, order: dict[Node, int]) -> list[Node]:
    """Operations that can follow the core: as many elements, and no other operand that depends on the anchor."""
    elements = tensor_value(anchor.value).numel()
    inside, dependent = {anchor.value}, {anchor.value, anchor.call}
    members: list[Node] = []
    for node in islice(anchor.call.graph.nodes, order[anchor.call] + 1, None):
        sources = node.all_input_nodes
        if dependent.isdisjoint(sources) or node is anchor.value:
            continue
        dependent.add(node)
        fits = not inside.isdisjoint(sources) and all(s in inside or s not in dependent for s in sources)
        if fits and _can_join(node, elements) and len(members) < LARGEST_REGION:
            inside.add(node)
            members.append(node)
    return members


def _can_join(node: Node, elements: int) -> bool:
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or not has_numbers(value) or concrete(value).numel() != elements:
        return False
    return node.target in VIEWS or can_be_member(node)


def _absorb_producers(anchor: Anchor, members: list[Node], order: dict[Node, int]) -> list[Node]:
    """Pointwise operations that only the members use, such as the derivative of an activation beside its gradient."""
    elements = tensor_value(anchor.value).numel()
    inside = {anchor.value, *members}
    core_inputs = set(anchor.call.all_input_nodes)
    stack = [s for m in members for s in m.all_input_nodes]
    found: set[Node] = set()
    while stack:
        node = stack.pop()
        if node in inside or node in core_inputs or not _can_join(node, elements):
            continue
        if all(user in inside for user in node.users):
            inside.add(node)
            found.add(node)
            stack.extend(node.all_input_nodes)
    return _without_leading_views(sorted(found, key=order.__getitem__))


def _without_leading_views(producers: list[Node]) -> list[Node]:
    """The producers without views of what no producer computes: those are operands as they are."""
    kept: list[Node] = []
    for node in producers:
        if node.target not in VIEWS or node.all_input_nodes[0] in kept:
            kept.append(node)
    return kept


def _outputs(anchor: Anchor, members: list[Node]) -> list[Node]:
    """The computed values that something outside of the region reads, directly or through a view."""
    inside = {anchor.value, *members}

    def escapes(node: Node) -> bool:
        return any(u not in inside or (u.target in VIEWS and escapes(u)) for u in node.users)

    return [n for n in (anchor.value, *members) if (n is anchor.value or n.target not in VIEWS) and escapes(n)]


def outside_users(nodes: Any, inside: set[Node]) -> list[Node]:
    """Users of the given nodes that are not in the region."""
    return [user for node in nodes for user in node.users if user not in inside]


def _require_place(translation: Translation, inside: set[Node], order: dict[Node, int]) -> None:
    """The fused operation must have a place after all that it reads and before all that reads it."""
    last_input = max((order[n] for n in translation.inputs), default=-1)
    if _first_user(inside, order) <= last_input:
        raise Untranslatable("a result is used before an operand is there")


def _first_user(inside: set[Node], order: dict[Node, int]) -> int:
    return min((order[u] for u in outside_users(inside, inside)), default=len(order))
