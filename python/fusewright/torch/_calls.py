# mypy: allow-untyped-calls
"""Calls in graphs of Dynamo's that become one graph each, before PyTorch takes them apart.

Each is taken by the same rule as regions are: where it was measured to be faster than what Inductor makes of it.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import torch
from torch.fx import Graph, GraphModule, Node

import fusewright

from . import _op
from ._explain import AnchorReport
from ._options import Options
from ._pass import OptionsPass, record
from ._regions import refusal_text
from ._select import NOT_ON_CPU, Decision, by_time, is_executed
from ._sizes import Unsized, concrete, has_numbers
from ._times import Times, measured_once
from ._timing import time_modules
from ._translate import Untranslatable

REFUSALS = (Untranslatable, Unsized, fusewright.FusewrightError)
"""What says that no engine takes a call."""


def symbolic(node: Node) -> torch.Tensor:
    """The fake tensor that stands for a node's value in a graph of Dynamo's."""
    value = node.meta.get("example_value", node.meta.get("val"))
    if not isinstance(value, torch.Tensor):
        raise Untranslatable(f"{node.name} is not a tensor")
    return value


def fake(node: Node) -> torch.Tensor:
    """The same with numbers for extents and strides."""
    value = symbolic(node)
    if not has_numbers(value):
        raise Untranslatable(f"{node.name} has symbolic extents that stand for no number yet")
    return concrete(value)


@dataclass(frozen=True)
class FusedCall(ABC):
    """A call that an engine takes, its graph, and the verdict on it."""

    graph: fusewright.Graph
    verdict: fusewright.Verdict
    gradients: fusewright.Graph | None
    """The graph of the gradients, where they are needed."""

    @property
    def graphs(self) -> list[fusewright.Graph]:
        return [g for g in (self.graph, self.gradients) if g is not None]

    @property
    @abstractmethod
    def node(self) -> Node:
        """The call."""

    @property
    def texts(self) -> list[str]:
        return [graph.to_json() for graph in self.graphs]

    @property
    def region(self) -> list[str]:
        """Operations that are computed with the call."""
        return []

    @property
    @abstractmethod
    def place(self) -> str:
        """What the times depend on beside the graphs."""

    @property
    def what_is_timed(self) -> str:
        """By what its times are found again, beside the GPU and versions."""
        return " ".join((*(graph.key for graph in self.graphs), self.place))

    @property
    @abstractmethod
    def is_one_call(self) -> bool:
        """Whether the operator alone stands for the call, so that it need not be compiled to be timed."""

    @abstractmethod
    def modules(self, session: str) -> tuple[list[GraphModule], list[torch.Tensor]]:
        """What would stand in the place of the call, and the call, as modules, and their operands."""

    def measure(self, device: torch.device, session: str) -> Times:
        """The times of the graph and of what Inductor makes of the call."""
        (ours, theirs), values = self.modules(session)
        if self.is_one_call:
            seconds, inductors = time_modules([theirs], values, device, before=[ours])
        else:
            seconds, inductors = time_modules([ours, theirs], values, device)
        return Times(seconds, inductors)

    @abstractmethod
    def replace(self, session: str) -> None:
        """Puts the operator in the place of the call."""


def require_supported(graphs: Sequence[fusewright.Graph], arch: str) -> fusewright.Verdict:
    """The verdict on the first of graphs that engines take; `Untranslatable` with the rules where none does."""
    verdicts = [graph.check(arch) for graph in graphs]
    for verdict in verdicts:
        if not verdict.supported:
            raise Untranslatable(refusal_text(verdict))
    return verdicts[0]


class CallPass(OptionsPass, ABC):
    """Replaces the calls of one kind that an engine takes and that selection keeps."""

    operation: str

    @abstractmethod
    def calls(self, graph: Graph) -> list[Node]:
        """The calls of this kind."""

    @abstractmethod
    def fuse(self, node: Node) -> FusedCall:
        """A call's graph, which an engine takes; one of `REFUSALS` says what speaks against it."""

    def __call__(self, graph: Graph) -> None:
        self._build_ahead(graph)
        for node in self.calls(graph):
            try:
                fused = self.fuse(node)
            except REFUSALS as error:
                record(self._report(node, None, Decision(False, "no engine takes it"), [str(error)]))
                continue
            decision = decide(fused, self.operation, self.options)
            record(self._report(node, fused, decision, []))
            if decision.taken:
                fused.replace(self.options.device)
        graph.lint()

    def _build_ahead(self, graph: Graph) -> None:
        """Compiles side by side what is timed or taken, forward and backward."""
        wanted = set()
        for node in self.calls(graph):
            with suppress(*REFUSALS):
                fused, device = self.fuse(node), fake(node).device
                if is_executed(fused.what_is_timed, device, self.options):
                    wanted |= {(text, _op.session_name(device, self.options.device)) for text in fused.texts}
        _op.build_plans(wanted)

    def _report(self, node: Node, fused: FusedCall | None, decision: Decision, refusals: Sequence[str]) -> AnchorReport:
        value = node.meta.get("example_value", node.meta.get("val"))
        return AnchorReport(
            anchor=node.name,
            operation=self.operation,
            extents=[int(n) if isinstance(n, int) else -1 for n in getattr(value, "shape", ())],
            data_type=str(getattr(value, "dtype", "")).removeprefix("torch."),
            region=fused.region if fused else [],
            supported=fused is not None,
            surface=fused.verdict.surface if fused else None,
            engine=fused.verdict.engine if fused else None,
            refusals=list(refusals),
            taken=decision.taken,
            reason=decision.reason,
            fused_seconds=decision.times.fused if decision.times else None,
            inductor_seconds=decision.times.inductor if decision.times else None,
            inductor_is_estimated=False,
            graph=fused.texts[0] if fused else None,
        )


def decide(fused: FusedCall, operation: str, options: Options) -> Decision:
    """Whether to take a call, and why."""
    device = fake(fused.node).device
    session = _op.session_name(device, options.device)
    if options.select == "always":
        decision = Decision(True, 'select is "always"')
    elif device.type != "cuda":
        return NOT_ON_CPU
    elif options.select == "model":
        return Decision(False, f"{operation} is taken where it is measured")
    else:

        def measured() -> Times:
            return measured_once(fused.what_is_timed, device, lambda: fused.measure(device, options.device))

        decision = by_time(fused.node.name, measured)
    if decision.taken:
        try:
            for text in fused.texts:
                _op.plan_for(text, session)
        except fusewright.FusewrightError as error:
            return Decision(False, f"no plan: {error}", decision.times)
    return decision
