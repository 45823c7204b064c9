"""Programs on cuDNN, with fusewright before it.

>>> import fusewright.cudnn
>>> fusewright.cudnn.activate()  # doctest: +SKIP
>>> import torch  # doctest: +SKIP

From then on the process has fusewright's ``libcudnn.so.9``. Graphs that an engine of fusewright takes may run there,
as the policy says; every other graph, and all that is not the graph API (RNNs, CTC, pooling and so on), is the real
cuDNN's, which is the program's own. ``python -m fusewright.cudnn program.py`` does the same for a program that never
heard of it.

Nothing takes it back in a process: what has been loaded by then calls the library.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import pathlib

from .._errors import EnvironmentFailure, InputError

__all__ = ["POLICIES", "activate"]

#: Whose engines come first: cuDNN's unless fusewright's was measured to be faster (which is done once for each graph),
#: always fusewright's, or always cuDNN's.
POLICIES = ("tuned", "ours-first", "theirs-first")

_NAME = "libcudnn.so.9"
_LIBRARY = pathlib.Path(__file__).resolve().parent.parent / "_lib" / _NAME
_MAPS = pathlib.Path("/proc/self/maps")

_VARIABLE = "FUSEWRIGHT_CUDNN_LIBRARY"
_POLICY = "FUSEWRIGHT_CUDNN"
_TRACE = "FUSEWRIGHT_CUDNN_TRACE"
_SEARCH = "LD_LIBRARY_PATH"

# What `activate` did, as it can be done once.
_active: tuple[str | None, pathlib.Path | None, pathlib.Path | None] | None = None


def activate(
    policy: str | None = None,
    trace: str | os.PathLike[str] | None = None,
    library: str | os.PathLike[str] | None = None,
) -> pathlib.Path | None:
    """Puts fusewright's cuDNN before the real one, before anything of the process loads that.

    ``policy`` is one of :data:`POLICIES`; what ``FUSEWRIGHT_CUDNN`` says unless it is given, ``tuned`` without both.
    ``trace`` names a folder that gets every graph as JSON, and who took it. ``library`` is the real cuDNN: unless it is
    given, what ``FUSEWRIGHT_CUDNN_LIBRARY`` says, that of NVIDIA's wheel in this environment, or that of PyTorch's;
    returned is what was found. Without any, graphs that no engine takes are refused.

    Child processes inherit it as environment variables. Calling it again with the same arguments changes nothing.
    """
    global _active
    if policy is not None and policy not in POLICIES:
        raise InputError(f"policy: required: one of {', '.join(POLICIES)}; found: {policy!r}")
    folder = None if trace is None else pathlib.Path(trace).resolve()
    wanted = (policy, folder, None if library is None else pathlib.Path(library).resolve())
    if _active is not None:
        return _again(wanted)
    _require_ours()
    _require_first()
    real = _real_library(wanted[2])
    _set_variables(policy, folder, real)
    ctypes.CDLL(str(_LIBRARY), mode=ctypes.RTLD_GLOBAL)
    if real is not None and not _is_loaded(real):
        raise EnvironmentFailure(f"{real} cannot be loaded as the real cuDNN; standard error says why")
    _active = (policy, folder, real)
    return real


def _again(wanted: tuple[str | None, pathlib.Path | None, pathlib.Path | None]) -> pathlib.Path | None:
    assert _active is not None
    if any(new is not None and new != old for new, old in zip(wanted, _active, strict=True)):
        raise InputError("fusewright.cudnn is active already, with other arguments; a process cannot change them")
    return _active[2]


def _require_ours() -> None:
    if not _LIBRARY.is_file():
        raise EnvironmentFailure(
            f"there is no {_LIBRARY}: this is a development build; a wheel of scripts/python.sh --wheel has the library"
        )


def _require_first() -> None:
    """Whoever has loaded cuDNN already goes on calling that."""
    for path in _loaded():
        raise EnvironmentFailure(
            f"the process has loaded {path} already: call fusewright.cudnn.activate() before 'import torch' and the "
            "like, or run the program with 'python -m fusewright.cudnn'"
        )


def _loaded() -> list[pathlib.Path]:
    """Libraries of cuDNN's name in the process."""
    lines = _MAPS.read_text().splitlines() if _MAPS.exists() else []
    paths = {line.split(maxsplit=5)[5] for line in lines if line.count(" /")}
    return sorted(pathlib.Path(path) for path in paths if pathlib.PurePath(path).name.startswith("libcudnn.so"))


def _is_loaded(path: pathlib.Path) -> bool:
    return not _MAPS.exists() or any(found.samefile(path) for found in _loaded() if found.exists())


def _real_library(named: pathlib.Path | None) -> pathlib.Path | None:
    said = os.environ.get(_VARIABLE)
    if named is None and said:
        named = pathlib.Path(said)
    if named is not None:
        if not named.is_file():
            raise InputError(f"library: there is no file {named}")
        if named.resolve() == _LIBRARY:
            raise InputError(f"library: {named} is fusewright's; required: a real cuDNN, or none")
        return named.resolve()
    found = [place / _NAME for place in _places()]
    return next((path.resolve() for path in found if path.is_file()), None)


def _places() -> list[pathlib.Path]:
    """Folders of this environment that may have a cuDNN, PyTorch's choice first; nothing is imported for it."""
    places = []
    for name, below in (("nvidia.cudnn", "lib"), ("torch", "lib")):
        try:
            spec = importlib.util.find_spec(name)
        except (ImportError, ValueError):
            continue
        places += [pathlib.Path(place) / below for place in (spec and spec.submodule_search_locations) or ()]
    return places


def _set_variables(policy: str | None, trace: pathlib.Path | None, real: pathlib.Path | None) -> None:
    if policy is not None:
        os.environ[_POLICY] = policy
    elif (said := os.environ.get(_POLICY)) and said not in POLICIES:
        raise InputError(f"{_POLICY}: required: one of {', '.join(POLICIES)}; found: {said!r}")
    if trace is not None:
        trace.mkdir(parents=True, exist_ok=True)
        os.environ[_TRACE] = str(trace)
    if real is not None:
        os.environ[_VARIABLE] = str(real)
    # cuDNN's Python frontend looks there before it loads the wheel's library by its path
    folders = [str(_LIBRARY.parent), *filter(None, os.environ.get(_SEARCH, "").split(os.pathsep))]
    os.environ[_SEARCH] = os.pathsep.join(dict.fromkeys(folders))
