"""Extents and strides: how the memory of a tensor reads under other extents in the same element order."""

from collections.abc import Sequence
from functools import lru_cache
from math import prod

Extents = tuple[int, ...]


def restride(shape: Sequence[int], stride: Sequence[int], target: Sequence[int]) -> Extents | None:
    """Strides under which `target` reads the elements of (`shape`, `stride`) in the same order, without a copy.

    A stride of 0 marks a broadcast axis and stays 0. `None` where no such strides exist. Axes of one element get the
    stride that `fill_unit_axes` gives them.
    """
    if prod(shape) != prod(target):
        return None
    runs = _contiguous_runs(shape, stride)
    result = [0] * len(target)
    size, step = runs.pop() if runs else (1, 1)
    for axis in reversed(range(len(target))):
        extent = target[axis]
        if extent == 1:
            continue
        if size == 1:
            size, step = runs.pop()
        if size % extent:
            return None
        result[axis] = step
        size //= extent
        step *= extent
    return fill_unit_axes(target, result)


def _contiguous_runs(shape: Sequence[int], stride: Sequence[int]) -> list[tuple[int, int]]:
    """The axes of more than one element as (elements, stride), neighbours merged where they are one range of memory."""
    runs: list[tuple[int, int]] = []
    for extent, step in zip(shape, stride, strict=True):
        if extent == 1:
            continue
        if runs and runs[-1][1] == extent * step:
            runs[-1] = (runs[-1][0] * extent, step)
        else:
            runs.append((extent, step))
    return runs


def fill_unit_axes(dim: Sequence[int], stride: Sequence[int]) -> Extents:
    """`stride` with that of every axis of one element set to what a packed tensor has there."""
    result = list(stride)
    for axis, extent in enumerate(dim):
        if extent == 1:
            spans = [d * s for d, s in zip(dim[axis + 1 :], stride[axis + 1 :], strict=True) if d > 1]
            result[axis] = max(spans, default=1)
    return tuple(result)


def same_strides(dim: Sequence[int], left: Sequence[int], right: Sequence[int]) -> bool:
    """Whether two strides address the same elements: those of axes of one element do not count."""
    return all(d == 1 or a == b for d, a, b in zip(dim, left, right, strict=True))


def is_packed(dim: Sequence[int], stride: Sequence[int]) -> bool:
    """Whether elements lie one behind the other, the last axis innermost."""
    return same_strides(dim, stride, row_major(dim))


def channels_last(dim: Sequence[int]) -> Extents:
    """Packed strides with the channels (axis 1) innermost and the batch (axis 0) outermost."""
    stride = [1] * len(dim)
    step = dim[1]
    for axis in reversed(range(2, len(dim))):
        stride[axis] = step
        step *= dim[axis]
    stride[0] = step
    return tuple(stride)


def row_major(dim: Sequence[int]) -> Extents:
    """Packed strides with the last axis innermost."""
    return tuple(prod(dim[axis + 1 :]) for axis in range(len(dim)))


@lru_cache(maxsize=1 << 16)
def is_in_layout(shape: Extents, stride: Extents, dim: Extents, wanted: Extents) -> bool:
    """Whether memory of (`shape`, `stride`) is that of (`dim`, `wanted`), element for element."""
    found = restride(shape, stride, dim)
    return found is not None and same_strides(dim, found, wanted)
