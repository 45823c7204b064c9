"""Arguments as callers give them: names, numbers, layouts of arrays."""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from .._core import Array
from .._dtypes import DTYPES
from .._errors import MalformedGraph
from .enumerations import _Spelling, data_type

_ROUND_NUMBERS = ("INT32", "INT64")
_FRACTIONS = ("FLOAT", "DOUBLE", "HALF", "BFLOAT16")
# How JSON of frontend 1.32 numbers the types of scalars.
_SCALAR_INDEX = {"INT64": 0, "INT32": 1, "HALF": 2, "FLOAT": 3, "DOUBLE": 4, "BFLOAT16": 5}

# A member of an enumeration (also of cuDNN's own), its name, or for types a dtype of PyTorch or numpy.
Choice: TypeAlias = Any
_Slices: TypeAlias = Sequence[slice]  # operations have a method of this name


def _kind(value: object) -> str:
    return type(value).__name__


def _spelling(kind: type[_Spelling], value: Choice, where: str) -> str | None:
    """The member's name that a value stands for; None for one that is not set."""
    if value is None:
        return None
    if isinstance(value, _Spelling):
        value = value.value
    if not isinstance(value, str):
        value = getattr(value, "name", None) or getattr(value, "__name__", None) or str(value)
    name = str(value).rpartition(".")[2]
    if kind is data_type and name not in kind.__members__:
        name = DTYPES.get(name, name)
    if name not in kind.__members__:
        known = ", ".join(member for member in kind.__members__ if member != "NOT_SET")
        raise MalformedGraph(f"{where}: found {value!r}; required: a {kind.__name__}: {known}")
    return None if name == "NOT_SET" else name


def _choice(kind: type[_Spelling], value: Choice, where: str) -> str:
    name = _spelling(kind, value, where)
    if name is None:
        raise MalformedGraph(f"{where}: not set; required: a {kind.__name__}")
    return name


def _notes(kind: type[_Spelling], notes: Iterable[Choice], where: str) -> list[str]:
    if isinstance(notes, str) or not isinstance(notes, Iterable):
        raise TypeError(f"{where}: found {notes!r}; required: a list of {kind.__name__}s")
    return [_choice(kind, note, where) for note in notes]


def _integers(values: Iterable[Any], where: str) -> list[int]:
    try:
        return [operator.index(value) for value in values]
    except TypeError:
        raise TypeError(f"{where}: found {values!r}; required: integers") from None


def _number(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{where}: found {_kind(value)}; required: a number")
    return value


def _float_bits(value: float | None, where: str = "attribute") -> str | None:
    """A float as the JSON has it: eight hexadecimal digits."""
    if value is None:
        return None
    try:
        return struct.pack(">f", _number(value, where)).hex().upper()
    except OverflowError:
        raise MalformedGraph(f"{where}: {value} is out of the range of FLOAT") from None


def _row_major(dim: Sequence[int]) -> list[int]:
    stride = [1] * len(dim)
    for axis in range(len(dim) - 2, -1, -1):
        stride[axis] = stride[axis + 1] * max(dim[axis + 1], 1)
    return stride


def _layout(array: Any, where: str) -> tuple[list[int], list[int]]:
    """Extents and strides of an array, in elements."""
    if not hasattr(array, "shape"):
        raise TypeError(f"{where}: found {_kind(array)}; required: a Tensor, or an array with shape and strides")
    dim = _integers(array.shape, where)
    if callable(getattr(array, "stride", None)):
        return dim, _integers(array.stride(), where)
    stride = getattr(array, "strides", None)
    if stride is None:
        return dim, _row_major(dim)
    size = 1 if isinstance(array, Array) else int(array.dtype.itemsize)
    return dim, [step // size for step in _integers(stride, where)]


def _element_type(array: Any, where: str) -> str | None:
    return _spelling(data_type, getattr(array, "dtype", getattr(array, "data_type", None)), where)


def _is_host_scalar(array: Any, dim: Sequence[int]) -> bool:
    """Whether an array is one element in memory of the CPU."""
    if math.prod(dim) != 1:
        return False
    if hasattr(array, "device"):
        return str(getattr(array.device, "type", array.device)) == "cpu"
    return not hasattr(array, "__cuda_array_interface__")
