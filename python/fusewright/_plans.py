"""The plans of a graph, as heuristic modes list them: named, built and selected by their place."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from ._core import Config, Graph, Plan, Session
from ._errors import ExecutionError, NotSupported


class Plans:
    """Configs of a graph in the order of heuristic modes, each once, and the plans built of them."""

    def __init__(self, session: Session, graph: Graph, modes: Sequence[str]) -> None:
        self._session = session
        self._graph = graph
        self._modes = modes
        self._configs: list[Config] | None = None
        self._built: dict[str, Plan] = {}
        self._left_out: list[str] = []

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
        self._left_out.append(why)

    def at(self, index: object, where: str) -> Config:
        """Raises ``NotSupported`` where no plan is left, ``ExecutionError`` for a place beyond them."""
        configs = self.configs
        if not configs:
            raise NotSupported(f"{where}: graph {self._graph.name!r} has no plan left: {', '.join(self._left_out)}")
        if not isinstance(index, int) or isinstance(index, bool):
            raise TypeError(f"{where}: index: found {index!r}; required: an integer")
        if not 0 <= index < len(configs):
            raise ExecutionError(f"{where}: index {index}; required: 0 to {len(configs) - 1}")
        return configs[index]

    def built(self, index: object, where: str) -> Plan:
        """The plan in a place, made when it is first asked for."""
        config = self.at(index, where)
        plan = self._built.get(config.name)
        if plan is None:
            plan = self._built[config.name] = self._session.plan_with(config)
        return plan

    def build_all(self, where: str) -> None:
        """Makes all plans, by as many threads as there are processors."""
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            for _ in threads.map(lambda index: self.built(index, where), range(len(self.configs))):
                pass
