"""Symbolic sizes as numbers.

Whatever is decided about a graph of dynamic shapes (what joins a region, under which strides an operand is read) is
decided by numbers, as for any other graph: by those of the shapes that were compiled with. `sampled` has others in
their place, so that what follows from them can be told from what was so by chance (`_sized`).
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

STEP = 64
"""Samples differ by multiples of it from the sizes compiled with, so that powers of two up to it divide both."""

_sample: ContextVar[int] = ContextVar("fusewright_sample", default=0)


class Unsized(Exception):
    """Numbers of a graph do not follow from sizes; the text says which."""


@contextmanager
def sampled(number: int) -> Iterator[None]:
    """Has symbols stand for the numbers of a sample. Sample 0 is what was compiled with, negative ones are odd."""
    token = _sample.set(number)
    try:
        yield
    finally:
        _sample.reset(token)


def is_static(value: torch.Tensor) -> bool:
    """Whether no extent and no stride is symbolic."""
    return all(isinstance(n, int) for n in (*value.shape, *value.stride(), value.storage_offset()))


def has_numbers(value: torch.Tensor) -> bool:
    """Whether all extents and strides are numbers, or have one in the shapes that were compiled with."""
    return all(isinstance(n, int) or n.node.has_hint() for n in (*value.shape, *value.stride()))


def number(size: Any) -> int:
    """The number of a size in the sample at hand."""
    if isinstance(size, int):
        return size
    sample = _sample.get()
    if sample == 0:
        return int(size.node.hint)
    known = _hints(size.node.shape_env)
    return int(size.node.expr.xreplace({s: _drawn(str(s), int(known[s]), sample) for s in size.node.expr.free_symbols}))


def _hints(shape_env: Any) -> Any:
    """What the symbols of an environment stand for in the shapes that were compiled with."""
    return getattr(shape_env, "backed_var_to_val", None) or shape_env.var_to_val


def _drawn(symbol: str, hint: int, sample: int) -> int:
    draw = random.Random(f"{symbol} {abs(sample)}")
    return hint + STEP * draw.randrange(1, STEP) + (sample < 0)


def concrete(value: torch.Tensor) -> torch.Tensor:
    """The tensor with numbers for extents and strides, without memory; itself where it has no others.

    Raises `Unsized` where a sample has no such tensor, such as the pixels of an image that is smaller than its filter.
    """
    if is_static(value):
        return value
    shape, stride = (tuple(map(number, sizes)) for sizes in (value.shape, value.stride()))
    if min((*shape, *stride), default=0) < 0:
        raise Unsized(f"extents {list(value.shape)} are {list(shape)} for other sizes")
    return _without_memory(shape, stride, value.dtype, value.device)


@lru_cache(maxsize=1 << 12)
def _without_memory(
    shape: tuple[int, ...], stride: tuple[int, ...], dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    with FakeTensorMode():
        return torch.empty_strided(shape, stride, dtype=dtype, device=device)
