"""What an execution is given: addresses, scalars, streams, outputs."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .._core import Array, Plan
from .._errors import ExecutionError, MalformedGraph
from .arguments import _element_type, _kind

_WHOLE_NUMBERS = {"INT8": 8, "INT32": 32, "INT64": 64}  # bits of types of scalars


class _Place(NamedTuple):
    """A tensor that executions are given."""

    role: str
    uid: int
    name: str
    dim: list[int]
    data_type: str
    default: float | None
    turned_dim: list[int] | None  # as the caller states it, where a plan has its last two axes in the other order

    def __str__(self) -> str:
        return f"{self.role} {self.name!r} (uid {self.uid})"


class _Binding(NamedTuple):
    """A plan, and what an execution of it takes, in the plan's order."""

    plan: Plan
    inputs: list[_Place]
    outputs: list[_Place]
    memory: list[_Place]  # inputs that are no scalars, then outputs
    scalars: list[_Place]
    device: str
    is_on_gpu: bool
    workspace_bytes: int


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise MalformedGraph(f"deserialize: no text in UTF-8: {error}") from None


def _address(array: Any, what: object) -> int:
    """The address of an array in memory of a GPU."""
    try:
        address: int = array.data_ptr()
    except AttributeError:
        pass
    else:
        return address
    if isinstance(array, int):
        return array
    interface = getattr(array, "__cuda_array_interface__", None)
    if interface is None:
        required = "an address, or an array with data_ptr() or __cuda_array_interface__"
        raise ExecutionError(f"execute: {what}: found {_kind(array)}; required: {required}")
    return int(interface["data"][0])


def _given(tensors: Mapping[int, Any], place: _Place) -> Any:
    """What the caller gives for a tensor."""
    value = tensors.get(place.uid)
    if value is None:
        raise ExecutionError(f"execute: {place} is not given")
    return value


def _scalar(tensors: Mapping[int, Any], place: _Place) -> Any:
    """The number that the caller gives for a scalar, or the one it was made with."""
    value = tensors.get(place.uid, place.default)
    if value is None:
        raise ExecutionError(f"execute: {place} is not given")
    number = value.item() if hasattr(value, "item") else value
    bits = _WHOLE_NUMBERS.get(place.data_type)
    if bits is not None and not (number % 1 == 0 and -(2 ** (bits - 1)) <= number < 2 ** (bits - 1)):
        raise ExecutionError(f"execute: {place}: found {number}; required: a whole number of {place.data_type}")
    return number


def _stream_of(stream: Any, device: str) -> int:
    """The number of a stream of any library; without one PyTorch's current stream, where PyTorch uses the GPU."""
    if stream is None:
        torch = sys.modules.get("torch")
        if torch is None or not torch.cuda.is_initialized():
            return 0
        return int(torch.cuda.current_stream(device).cuda_stream)
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    for attribute in ("cuda_stream", "ptr"):
        if hasattr(stream, attribute):
            return int(getattr(stream, attribute))
    if isinstance(stream, int):
        return stream
    raise ExecutionError(f"stream: found {_kind(stream)}; required: a number, or a stream of PyTorch or CuPy")


def _turned(array: Any, place: _Place) -> Any:
    """An input as the plan takes it."""
    if place.turned_dim is None or list(getattr(array, "shape", place.turned_dim)) != place.turned_dim:
        return array
    if not hasattr(array, "swapaxes"):
        import numpy

        array = numpy.from_dlpack(array)
    return array.swapaxes(-1, -2)


def _swapped(sizes: Sequence[int]) -> list[int]:
    return [*sizes[:-2], sizes[-1], sizes[-2]] if len(sizes) > 1 else list(sizes)


def _require_target(target: Any, place: _Place) -> None:
    where = f"execute: {place}"
    shape = list(getattr(target, "shape", ()))
    if shape != place.dim:
        raise ExecutionError(f"{where}: found {_kind(target)} of shape {shape}; required: shape {place.dim}")
    found = _element_type(target, where)
    if found != place.data_type:
        raise ExecutionError(f"{where}: found {found}; required: {place.data_type}")


def _copy(source: Array, target: Any) -> None:
    """Writes an output into the caller's array."""
    if hasattr(target, "copy_"):
        target.copy_(sys.modules["torch"].from_dlpack(source))
        return
    import numpy

    target[...] = numpy.from_dlpack(source)


def _workspace(workspace: Any, size: int) -> int:
    """The address of a workspace of at least this many bytes."""
    if size == 0:
        return 0
    if workspace is None:
        raise ExecutionError(f"execute: no workspace; required: {size} bytes of memory of the GPU")
    found = getattr(workspace, "nbytes", None)
    if found is not None and found < size:
        raise ExecutionError(f"execute: workspace of {found} bytes; required: {size}")
    return _address(workspace, "workspace")
