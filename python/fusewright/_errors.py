"""Exceptions of the package: what went wrong, by whom it can be mended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._core import Violation


class FusewrightError(Exception):
    """Every error that the package raises itself."""


class InputError(FusewrightError, ValueError):
    """An argument, a file or a value in it cannot be used."""


class MalformedGraph(InputError):
    """A graph, or the text it is read from, is not well formed; the message names file, operation and tensor."""


class NotSupported(FusewrightError, RuntimeError):
    """A graph is well formed, and no engine takes it.

    ``violations`` holds every broken rule of the surfaces asked, ``nearest`` the smallest changes that would help, as
    sentences.
    """

    def __init__(self, message: str, *, violations: Sequence[Violation] = (), nearest: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.violations = list(violations)
        self.nearest = list(nearest)


class ExecutionError(FusewrightError, ValueError):
    """What an execution is given is not what its plan needs: count, shape, strides, type, device or alignment."""


class GeneratedCodeError(FusewrightError, RuntimeError):
    """Generated source does not compile, or a kernel misbehaves: a fault of the library.

    ``log`` is the compiler's, ``source_path`` where the source was kept, if it was.
    """

    def __init__(self, message: str, *, log: str = "", source_path: str | None = None) -> None:
        super().__init__(message)
        self.log = log
        self.source_path = source_path


class EnvironmentFailure(FusewrightError, OSError):
    """Driver, GPU, NVRTC, disk or memory is missing or fails; ``fusewright doctor`` says what was found."""
