# mypy: allow-untyped-calls
"""Times of what is selected by them: measured once on a device, kept in memory and in a file."""

import json
import logging
import os
import re
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from ctypes import CDLL, byref, c_int
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

import torch

import fusewright

Result = TypeVar("Result")

LOGGER = logging.getLogger(__name__)

NEEDED_RATIO = 0.97
"""A region is taken where it needs at most this share of the time of Inductor's code."""


@dataclass(frozen=True)
class Times:
    """Median seconds of one region: fused, and as Inductor compiles it."""

    fused: float
    inductor: float
    is_estimated: bool = False
    """Whether Inductor's code was not compiled, as what it consists of decides already."""

    @property
    def is_faster(self) -> bool:
        return self.fused <= NEEDED_RATIO * self.inductor

    @property
    def saved(self) -> float:
        return self.inductor - self.fused


class TimeStore:
    """Measured times, in memory and, where there is a path, in a JSON file."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._times: dict[str, Times] | None = None

    def get(self, key: str) -> Times | None:
        return self._loaded().get(key)

    def put(self, key: str, times: Times) -> None:
        """Keeps a time; the file takes those of other processes along, and is replaced as a whole."""
        self._times = {**self._read(), **self._loaded(), key: times}
        if self.path is not None:
            try:
                self._write(self.path)
            except OSError as error:
                LOGGER.warning("measured times are not kept: %s", error)

    def _write(self, path: Path) -> None:
        # For its user alone: the library takes no folder that others may write.
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        text = json.dumps({k: asdict(t) for k, t in sorted(self._loaded().items())}, indent=1)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
            file.write(text)
        os.replace(file.name, path)

    def _loaded(self) -> dict[str, Times]:
        if self._times is None:
            self._times = self._read()
        return self._times

    def _read(self) -> dict[str, Times]:
        if self.path is None:
            return {}
        try:
            return {key: Times(**entry) for key, entry in json.loads(self.path.read_text()).items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}


def cache_folder() -> Path | None:
    """The folder of the library's disk cache, as the environment says; `None` where nothing is to be kept."""
    if os.environ.get("FUSEWRIGHT_CACHE") in ("off", "0"):
        return None
    if folder := os.environ.get("FUSEWRIGHT_CACHE_DIR"):
        return Path(folder).absolute()
    caches = Path(os.environ.get("XDG_CACHE_HOME") or "")
    if not caches.is_absolute():
        try:
            caches = Path.home() / ".cache"
        except RuntimeError:  # the user has no home
            return None
    return caches / "fusewright"


def _times_file() -> Path | None:
    folder = cache_folder()
    return None if folder is None else folder / "torch-times.json"


STORE = TimeStore(_times_file())


def known_times(what: str, device: torch.device) -> Times | None:
    """The times that the store has."""
    return STORE.get(_key(what, device))


def measured_once(what: str, device: torch.device, measure: Callable[[], Times]) -> Times:
    """The times from the store, or measured now and put there."""
    times = known_times(what, device)
    if times is None:
        times = in_fresh_thread(measure)
        STORE.put(_key(what, device), times)
    return times


def _key(what: str, device: torch.device) -> str:
    return f"{what} {device_identity(device)} {fusewright.__version__} {torch.__version__}"


def device_identity(device: torch.device | None = None) -> str:
    """A GPU and its driver, which times depend on; the current GPU unless one is given."""
    return f"{torch.cuda.get_device_name(device)} driver {driver_version()}"


@lru_cache(maxsize=1)
def driver_version() -> str:
    """The driver's version where Linux tells it, else of CUDA as the driver has it; empty where there is none."""
    with suppress(OSError):
        found = re.search(r"Module .*?(\d+\.[\d.]+)", Path("/proc/driver/nvidia/version").read_text())
        if found:
            return found[1]
    version = c_int()
    with suppress(OSError, AttributeError):
        CDLL("libcuda.so.1").cuDriverGetVersion(byref(version))
    return str(version.value or "")


def in_fresh_thread(call: Callable[[], Result]) -> Result:
    """The call's result, free of the compilation under way: its tracing state and handlers belong to this thread."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(call).result()
