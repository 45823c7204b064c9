"""What became of each anchor, for people and for programs."""

import json
from collections import Counter
from dataclasses import asdict, dataclass

from torch.fx import Node

from ._regions import Search
from ._select import Decision
from ._translate import CASTS, VIEWS


@dataclass(frozen=True)
class AnchorReport:
    """One anchor of a compiled graph."""

    anchor: str
    """The node's name."""
    operation: str
    extents: list[int]
    data_type: str
    region: list[str]
    """The pointwise operations of the region, in order."""
    supported: bool
    surface: str | None
    engine: str | None
    refusals: list[str]
    """Why larger regions, or all of them, were refused."""
    taken: bool
    reason: str
    fused_seconds: float | None
    inductor_seconds: float | None
    inductor_is_estimated: bool
    """Whether `inductor_seconds` is made of what that code calls and of what a pass takes."""
    graph: str | None
    """The text of the region's graph."""

    def line(self) -> str:
        """One line for people, and one more for each refusal."""
        verdict = f"surface {self.surface}, engine {self.engine}" if self.supported else "refused"
        times, about = "", "about " if self.inductor_is_estimated else ""
        if self.fused_seconds is not None and self.inductor_seconds is not None:
            times = f"; {self.fused_seconds * 1e6:.1f} us against {about}{self.inductor_seconds * 1e6:.1f} us"
        what = " + ".join((self.operation, *self.region))
        mark = "taken" if self.taken else "left"
        head = f"{mark:5} {self.anchor} {self.extents} {self.data_type}: {what}: {verdict}; {self.reason}{times}"
        return "\n".join((head, *(f"      not larger: {r}" if self.supported else f"      {r}" for r in self.refusals)))


def report_of(found: Search, decision: Decision) -> AnchorReport:
    region = found.region
    value = found.anchor.value.meta["val"]
    return AnchorReport(
        anchor=found.anchor.value.name,
        operation=found.anchor.kind,
        extents=[int(n) if isinstance(n, int) else -1 for n in value.shape],
        data_type=str(value.dtype).removeprefix("torch."),
        region=[_operation_name(m) for m in region.members if m.target not in VIEWS] if region else [],
        supported=region is not None,
        surface=region.verdict.surface if region else None,
        engine=region.verdict.engine if region else None,
        refusals=found.refusals,
        taken=decision.taken,
        reason=decision.reason,
        fused_seconds=decision.times.fused if decision.times else None,
        inductor_seconds=decision.times.inductor if decision.times else None,
        inductor_is_estimated=decision.times is not None and decision.times.is_estimated,
        graph=region.translation.text if region else None,
    )


def _operation_name(node: Node) -> str:
    name = getattr(node.target, "overloadpacket", node.target)
    return "cast" if node.target in CASTS else str(getattr(name, "__name__", name))


@dataclass(frozen=True)
class Explanation:
    """Every anchor of a model's graphs, in the order in which they were compiled."""

    anchors: list[AnchorReport]

    @property
    def text(self) -> str:
        taken = sum(a.taken for a in self.anchors)
        kinds = Counter(a.operation for a in self.anchors)
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        head = f"{taken} of {len(self.anchors)} anchors taken ({counts})"
        return "\n".join((head, *(a.line() for a in self.anchors)))

    def __str__(self) -> str:
        return self.text

    def to_json(self) -> str:
        return json.dumps({"anchors": [asdict(a) for a in self.anchors]}, indent=1)
