# mypy: allow-untyped-calls
"""Operands of attention, read where they lie.

Modules copy queries, keys and values to tensors of their own before attention, out of one tensor that a matmul has
written (`MultiheadAttention`) for example. Engines take any strides: where such a copy has elements that lie in its
source with one stride an axis, the operator reads the source, and the copy is not made.
"""

import json
import logging
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import torch
from torch.fx import Graph, Node

import fusewright

from . import _op
from ._layout import Extents, fill_unit_axes, is_packed
from ._regions import erase_unread
from ._translate import VIEWS, tensor_value

LOGGER = logging.getLogger(__name__)

aten = torch.ops.aten

Axis = list[tuple[int, int]]
"""What an axis counts in memory, outermost first: extents of more than one, each with its stride."""


@dataclass(frozen=True)
class Place:
    """Where the elements of a value lie in the memory of a node."""

    base: Node
    axes: list[Axis]
    offset: int
    copies: int
    """Copies between the two."""

    @property
    def stride(self) -> Extents | None:
        """One stride for each axis; `None` where an axis has several."""
        merged = [_merged(axis) for axis in self.axes]
        if any(len(axis) > 1 for axis in merged):
            return None
        dim = [prod(extent for extent, _ in axis) for axis in merged]
        return fill_unit_axes(dim, [axis[0][1] if axis else 1 for axis in merged])


def _merged(axis: Axis) -> Axis:
    result: Axis = []
    for extent, stride in axis:
        if result and result[-1][1] == extent * stride:
            result[-1] = (result[-1][0] * extent, stride)
        else:
            result.append((extent, stride))
    return result


def place_of(node: Node) -> Place | None:
    """Where a node's elements lie, behind views and copies; `None` where nothing is known of that."""
    if node.op != "call_function" or not all(isinstance(n, int) for n in tensor_value(node).shape):
        return None
    if node.target not in PASSED:
        return _own_place(node)
    source: Any = node.args[0]
    place = place_of(source)
    return None if place is None else PASSED[node.target](place, node)


def _own_place(node: Node) -> Place | None:
    """Of a packed value that is no view, nor one of several of an operation."""
    value = tensor_value(node)
    maker: Any = node.args[0] if node.target is operator.getitem else node
    is_view = getattr(maker.target, "is_view", False) or value.storage_offset() != 0
    if is_view or not is_packed(value.shape, value.stride()):
        return None
    axes = [[(d, s)] if d > 1 else [] for d, s in zip(value.shape, value.stride(), strict=True)]
    return Place(node, axes, 0, 0)


def _under_other_extents(place: Place, node: Node) -> Place | None:
    axes = regrouped(place.axes, tensor_value(node).shape)
    return None if axes is None else replace(place, axes=axes)


def _copied(place: Place, node: Node) -> Place:
    return replace(place, copies=place.copies + 1)


def _permuted(place: Place, node: Node) -> Place:
    order: Any = node.args[1]
    return replace(place, axes=[place.axes[axis] for axis in order])


def _of_one_index(place: Place, node: Node) -> Place:
    axis, index = node.args[1:]
    return _selected(place, axis, index)  # type: ignore[arg-type]


PASSED: dict[Any, Callable[[Place, Node], Place | None]] = {
    **dict.fromkeys(VIEWS, _under_other_extents),
    aten.clone.default: _copied,
    aten.permute.default: _permuted,
    aten.select.int: _of_one_index,
}
"""What is looked through, by what becomes of a place there."""


def _selected(place: Place, axis: int, index: int) -> Place:
    """Of one index of an axis."""
    axes = list(place.axes)
    chosen = axes.pop(axis)
    index %= prod(extent for extent, _ in chosen)
    offset = place.offset
    for extent, stride in reversed(chosen):
        offset += index % extent * stride
        index //= extent
    return replace(place, axes=axes, offset=offset)


def regrouped(axes: Sequence[Axis], shape: Sequence[int]) -> list[Axis] | None:
    """The same elements in the same order, under other extents; `None` where one ends inside what cannot be split."""
    rest = [part for axis in axes for part in _merged(axis)]
    result: list[Axis] = []
    for needed in reversed(shape):
        axis: Axis = []
        while needed > 1 and rest:
            extent, stride = rest.pop()
            if needed % extent and extent % needed:
                return None
            taken = min(extent, needed)
            axis.insert(0, (taken, stride))
            if extent > taken:
                rest.append((extent // taken, stride * taken))
            needed //= taken
        result.insert(0, axis)
    return result


def read_in_place(graph: Graph, session: str, architecture: Callable[[torch.device], str]) -> None:
    """Gives attentions the tensors that their operands are copied from, where the engine takes them so."""
    for call in list(graph.nodes):
        if call.target is _op.RUN and '"tag":"SOFTMAX"' in call.args[1]:
            _read_in_place(call, session, architecture(tensor_value(call.args[0][0]).device))


def _read_in_place(call: Node, session: str, arch: str) -> None:
    inputs: list[Node] = list(call.args[0])  # type: ignore[arg-type]
    text: Any = call.args[1]
    operands = _op.signature(text).inputs
    found = {}
    for number, (node, operand) in enumerate(zip(inputs, operands, strict=True)):
        # what something else reads is copied in any case
        place = place_of(node) if set(node.users) == {call} else None
        if place is not None and place.copies and (stride := _stride(node, operand, place)):
            found[number] = (place, stride)
    if not found:
        return
    strides = {operands[number].uid: stride for number, (_, stride) in found.items()}
    given = _with_strides(text, strides)
    where = _op.session_name(tensor_value(inputs[0]).device, session)
    if not _is_taken(text, given, where, arch):
        return
    old = list(inputs)
    with call.graph.inserting_before(call):
        for number, (place, stride) in found.items():
            inputs[number] = _viewed(call.graph, place, operands[number].dim, stride)
    call.args = (inputs, given, *call.args[2:])
    call.meta["eager_input_vals"] = (
        torch.fx.node.map_arg(call.args, lambda node: node.meta["val"]),
        call.meta.get("eager_input_vals", ((), {}))[1],
    )
    for node in old:
        erase_unread(node, PASSED)


def _stride(node: Node, operand: Any, place: Place) -> Extents | None:
    """The strides of an operand in place, if memory of theirs can be told to an engine."""
    value, stride = tensor_value(node), place.stride
    is_aligned = place.offset * value.element_size() % _op.POINTER_ALIGNMENT == 0
    is_whole = tuple(value.shape) == tuple(operand.dim)
    return stride if is_aligned and is_whole else None


def _with_strides(text: str, strides: dict[int, Extents]) -> str:
    graph = json.loads(text)
    for tensor in graph["tensors"]:
        tensor["stride"] = list(strides.get(tensor["uid"], tensor["stride"]))
    return json.dumps(graph, separators=(",", ":"))


def _is_taken(text: str, other: str, where: str, arch: str) -> bool:
    """Whether the engine of a text takes it with other strides, and its plan is made."""
    try:
        before, verdict = (fusewright.Graph.from_json(t).check(arch) for t in (text, other))
        if not verdict.supported or verdict.engine != before.engine:
            return False
        _op.plan_for(other, where)
    except fusewright.FusewrightError as error:
        LOGGER.info("attention reads copies: %s", error)
        return False
    return True


def _viewed(graph: Graph, place: Place, dim: Extents, stride: Extents) -> Node:
    arguments = (place.base, list(dim), list(stride), place.offset)
    node = graph.call_function(aten.as_strided.default, arguments)
    value = place.base.meta["val"]
    with value.fake_mode:
        node.meta["val"] = aten.as_strided.default(value, *arguments[1:])
    return node
