"""The plans of a graph, as heuristic modes list them: named, built and selected by their place."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .._core import Config, Graph, Plan, Session
from .._errors import ExecutionError, NotSupported


class Plans:
    """Configs of a graph in the order of heuristic modes, each once, and the plans built of them."""

    def __init__(self, session: Session, graph: Graph, modes: Sequence[str]) -> None:
        self._session = session
        self._graph = graph
        self._modes = modes
        self._configs: list[Config] | None = None
        self._built: dict[str, Plan] = {}
        self._kept: list[tuple[str, Callable[[Config], bool]]] = []

    @property
    def configs(self) -> list[Config]:
        """Raises ``NotSupported``."""
        if self._configs is None:
            listed = [config for mode in self._modes for config in self._session.configs(self._graph, mode)]
            self._configs = list({config.name: config for config in listed}.values())
        return self._configs

    def keep(self, why: str, is_kept: Callable[[Config], bool]) -> None:
        """Leaves out all others, for a reason that errors name."""
        self._configs = [config for config in self.configs if is_kept(config)]
        self._kept.append((why, is_kept))

    def of_shapes(self, graph: Graph, name: str) -> Plan:
        """The plan of the same graph in other shapes: that of a name where it is listed, or else the first."""
        plans = Plans(self._session, graph, self._modes)
        for why, is_kept in self._kept:
            plans.keep(why, is_kept)
        named = [index for index, config in enumerate(plans.configs) if config.name == name]
        return plans.built(named[0] if named else 0, "execute")

    def at(self, index: Any, where: str) -> Config:
        """Raises ``NotSupported`` where no plan is left, ``ExecutionError`` for a place beyond them."""
        configs = self.configs
        if not configs:
            raise NotSupported(
                f"{where}: graph {self._graph.name!r} has no plan left: {', '.join(why for why, _ in self._kept)}"
            )
        try:
            place = operator.index(index)  # whatever is an integer, of numpy too
        except TypeError:
            raise TypeError(f"{where}: index: found {index!r}; required: an integer") from None
        if not 0 <= place < len(configs):
            raise ExecutionError(f"{where}: index {place}; required: 0 to {len(configs) - 1}")
        return configs[place]

    def built(self, index: Any, where: str) -> Plan:
        """The plan in a place, made when it is first asked for."""
        config = self.at(index, where)
        plan = self._built.get(config.name)
        if plan is None:
            plan = self._built[config.name] = self._session.plan_with(config)
        return plan

    def build_all(self, where: str) -> Plan:
        """Makes all plans, by as many threads as there are processors, and gives the first that could be made.

        One that fails raises when it is asked for, and here if no other is made.
        """

        def outcome(index: int) -> Plan | Exception:
            try:
                return self.built(index, where)
            except Exception as error:
                return error

        with ThreadPoolExecutor(os.cpu_count()) as threads:
            outcomes = list(threads.map(outcome, range(max(1, len(self.configs)))))
        failures = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
        for made in outcomes:
            if not isinstance(made, Exception):
                return made
        raise failures[0]
