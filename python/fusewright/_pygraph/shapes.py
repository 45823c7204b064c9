"""Graphs of dynamic shapes: shapes that an execution is given, and caches of kernels that programs on cuDNN name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from .._errors import ExecutionError
from .arguments import _integers

# Shapes of a graph whose plans are kept, the ones used last.
MOST_SHAPES = 1024


class KernelCache:
    """What ``pygraph(kernel_cache=…)`` takes. All graphs of a process share their kernels, so it holds nothing."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<fusewright.KernelCache>"


def create_kernel_cache() -> KernelCache:
    """A cache of kernels for ``pygraph(kernel_cache=…)``, by which no two graphs share more than without one."""
    return KernelCache()


class Override(NamedTuple):
    """The extents and strides, in elements, that an execution gives a tensor."""

    uid: int
    dim: tuple[int, ...]
    stride: tuple[int, ...]


Overrides = tuple[Override, ...]


def _sizes(values: Any, where: str) -> tuple[int, ...]:
    sizes = tuple(_integers(values, where))
    if any(size < 1 for size in sizes):
        raise ExecutionError(f"{where}: found {list(sizes)}; required: 1 at least")
    return sizes


def overrides(uids: Any, shapes: Any, strides: Any) -> Overrides:
    """What an execution is given for shapes, by ascending uids; nothing where it is given none.

    Raises ``TypeError`` and ``ExecutionError``, which name the argument.
    """
    if uids is shapes is strides is None:  # of most executions
        return ()
    given = {"override_uids": uids, "override_shapes": shapes, "override_strides": strides}
    for name, value in given.items():
        if not isinstance(value, Sequence) or isinstance(value, str | bytes):
            raise TypeError(f"execute: {name}: found {type(value).__name__}; required: a list, as of the other two")
    lengths = [len(value) for value in given.values()]
    if len(set(lengths)) > 1:
        raise ExecutionError(f"execute: {', '.join(given)}: found {lengths} of them; required: as many of each")
    known = _integers(uids, "execute: override_uids")
    if len(set(known)) < len(known):
        raise ExecutionError(f"execute: override_uids: found {list(known)}; required: each uid once")
    made = []
    for uid, shape, stride in zip(known, shapes, strides, strict=True):
        dim = _sizes(shape, f"execute: override_shapes of uid {uid}")
        steps = _sizes(stride, f"execute: override_strides of uid {uid}")
        if len(dim) != len(steps):
            raise ExecutionError(
                f"execute: uid {uid}: found {len(dim)} extents and {len(steps)} strides; required: as many of each"
            )
        made.append(Override(uid, dim, steps))
    return tuple(sorted(made))


def _document(text: str) -> tuple[dict[str, Any], dict[int, dict[str, Any]]]:
    """A graph's JSON with its tensors by uid, none where a text has them otherwise, as logs and old frontends do."""
    try:
        document = json.loads(text)
        return document, {tensor["uid"]: tensor for tensor in document["tensors"]}
    except (ValueError, TypeError, KeyError):
        return {}, {}


def stated(text: str) -> dict[int, dict[str, Any]]:
    """The tensors of a graph's JSON by uid; none where a text has them otherwise."""
    return _document(text)[1]


def overridden(text: str, given: Overrides, *, is_enabled: bool) -> str:
    """A graph's JSON with the shapes that an execution gives; the graph allows it, or ``is_enabled`` does.

    Raises ``ExecutionError`` for a tensor that it has not, and for a graph whose shapes are not to be overridden.
    """
    document, tensors = _document(text)
    if not tensors:
        required = "a graph as serialize() writes it"
        raise ExecutionError(
            f"execute: override_uids: the graph was read from another kind of text; required: {required}"
        )
    context = document.setdefault("context", {})
    if not (is_enabled or context.get("is_override_shape_enabled")):
        name = context.get("name", "")
        required = "a graph with is_override_shape_enabled=True"
        raise ExecutionError(f"execute: override_uids: graph {name!r} has shapes of its own; required: {required}")
    context["is_override_shape_enabled"] = True
    for uid, dim, stride in given:
        tensor = tensors.get(uid)
        if tensor is None:
            raise ExecutionError(f"execute: override_uids: the graph has no tensor of uid {uid}")
        tensor["dim"], tensor["stride"] = dim, stride
    return json.dumps(document)
