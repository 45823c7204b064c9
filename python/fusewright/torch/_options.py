"""Options of the backend, as `torch.compile(options={"fusewright.…": …})` gives them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

PREFIX = "fusewright."
SELECTIONS = ("measure", "model", "always")


@dataclass(frozen=True)
class Options:
    """What a pass does; nothing else is kept in one, as Inductor copies and pickles its configuration."""

    select: str = "measure"
    """`measure`: regions that run at least 3 % faster than Inductor's code for them. `model`: regions in which a
    pointwise operation joins the core. `always`: every region that an engine takes, with copies to channels-last
    where convolutions need them; for tests."""
    strict_rounding: bool = False
    """Whether intermediate values are rounded to the types that they have in the program."""
    device: str = ""
    """The session that runs the graphs: `cpu` or `emulator` for tensors on the CPU, `cuda:N` for those there; empty for
    that of the tensors."""

    def __post_init__(self) -> None:
        if self.select not in SELECTIONS:
            raise ValueError(f"{PREFIX}select is {self.select!r}; it can be {', '.join(SELECTIONS)}")
        if not isinstance(self.strict_rounding, bool):
            raise ValueError(f"{PREFIX}strict_rounding is {self.strict_rounding!r}; it can be True or False")
        if not isinstance(self.device, str):
            raise ValueError(f"{PREFIX}device is {self.device!r}; it can be cpu, emulator or cuda:N")


def split_options(options: Mapping[str, Any] | None) -> tuple[Options, dict[str, Any]]:
    """Our options, and those of Inductor."""
    ours: dict[str, Any] = {}
    theirs: dict[str, Any] = {}
    for name, value in (options or {}).items():
        if name.startswith(PREFIX):
            ours[name.removeprefix(PREFIX).replace("-", "_")] = value
        else:
            theirs[name.replace("-", "_")] = value
    unknown = ours.keys() - Options.__dataclass_fields__.keys()
    if unknown:
        known = ", ".join(PREFIX + name for name in Options.__dataclass_fields__)
        raise ValueError(f"unknown option {PREFIX}{min(unknown)}; there are {known}")
    return Options(**ours), theirs
