"""Handles, as programs on cuDNN make them: the stream that executions are put on."""

from __future__ import annotations

from typing import Any

from ._errors import ExecutionError

# What the shared library answers as cudnnGetVersion (src/logging/record.rs).
_MAJOR, _MINOR, _PATCH = 9, 21, 0


class Handle:
    """A stream for executions, of ``create_handle``. Sessions hold the rest of what cuDNN's handle is for."""

    __slots__ = ("_is_destroyed", "_stream")

    def __init__(self) -> None:
        self._stream: Any = None
        self._is_destroyed = False

    def __repr__(self) -> str:
        state = "destroyed" if self._is_destroyed else f"stream {self._stream!r}"
        return f"<fusewright.Handle: {state}>"


def _living(handle: object, where: str) -> Handle:
    if not isinstance(handle, Handle):
        raise TypeError(f"{where}: handle: found {type(handle).__name__}; required: a Handle of create_handle()")
    if handle._is_destroyed:
        raise ExecutionError(f"{where}: the handle was destroyed")
    return handle


def create_handle() -> Handle:
    """A handle, for ``pygraph(handle=…)`` and ``execute(…, handle=…)``.

    Until ``set_stream`` it has PyTorch's current stream.
    """
    return Handle()


def destroy_handle(handle: Handle) -> None:
    """Ends a handle: no execution may name it any more. Raises ``ExecutionError`` where it was destroyed before."""
    _living(handle, "destroy_handle")._is_destroyed = True


def set_stream(handle: Handle, stream: Any) -> None:
    """Puts executions with a handle on a stream: a number, or a stream of PyTorch or CuPy.

    ``None`` is PyTorch's current stream.
    """
    _living(handle, "set_stream")._stream = stream


def get_stream(handle: Handle) -> Any:
    """What ``set_stream`` was given; ``None`` before."""
    return _living(handle, "get_stream")._stream


def backend_version() -> int:
    """The version of cuDNN whose names the shared library has, as ``cudnnGetVersion`` says it: 92100 for 9.21.0."""
    return 10000 * _MAJOR + 100 * _MINOR + _PATCH


def backend_version_string() -> str:
    """The same as text: ``9.21.0``."""
    return f"{_MAJOR}.{_MINOR}.{_PATCH}"
