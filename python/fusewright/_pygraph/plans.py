"""The plans of a graph, as heuristic modes list them: named, built and selected by their place."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from .._core import Config, Graph, Plan, Session
from .._errors import ExecutionError, NotSupported


class Filter(NamedTuple):
    """Plans that a caller leaves out, and the call, which errors name."""

    call: str
    leaves_out: Callable[[Config], bool]


class Replayed(NamedTuple):
    """A plan that a caller names by what it was told of one: an engine, and values of its knobs."""

    engine: str
    knobs: dict[str, int]


class Plans:
    """Configs of a graph in the order of heuristic modes, each once, and the plans built of them.

    Places are those of the list, whatever is left out by ``filters``, which may grow.
    """

    def __init__(
        self,
        session: Session,
        graph: Graph,
        modes: Sequence[str],
        filters: Sequence[Filter],
        appended: Sequence[Replayed] = (),
    ) -> None:
        self._session = session
        self._graph = graph
        self._modes = modes
        self._filters = filters
        self._appended = appended
        self._configs: list[Config] | None = None
        self._built: dict[str, Plan] = {}

    @property
    def configs(self) -> list[Config]:
        """Raises ``NotSupported``."""
        if self._configs is None:
            listed = [config for mode in self._modes for config in self._session.configs(self._graph, mode)]
            replayed = [self._offered(given) for given in self._appended]
            self._configs = [*{config.name: config for config in listed}.values(), *replayed]
        return self._configs

    def at(self, index: Any, where: str) -> Config:
        """Left out or not. Raises ``ExecutionError`` for a place beyond the list."""
        return self.configs[self._place(index, where)]

    def built(self, index: Any, where: str) -> Plan:
        """The plan in a place, made when it is first asked for. Raises ``ExecutionError`` where it is left out."""
        return self._allowed(self.at(index, where), where)

    def of(self, plan: Plan) -> Config:
        """The config that a plan was made of, or else the first."""
        return self._named(plan.config) or self.configs[0]

    def first(self, where: str) -> Plan:
        """Of those that are not left out."""
        return self._plan_of(self._kept(where)[0])

    def named(self, name: str, where: str) -> Plan:
        """The plan of a name where that is in the list and not left out, or else the first."""
        kept = self._kept(where)
        return self._plan_of(next((config for config in kept if config.name == name), kept[0]))

    def only(self, name: str, where: str) -> Plan:
        """The plan of a name, of the graph in other shapes.

        Raises ``ExecutionError`` where it is not in the list, or left out of it.
        """
        config = self._named(name)
        if config is None:
            raise ExecutionError(f"{where}: {name!r} is no plan of graph {self._graph.name!r} in the shapes given")
        return self._allowed(config, where)

    def in_shapes_of(self, graph: Graph) -> Plans:
        """The same list of the graph in other shapes."""
        return Plans(self._session, graph, self._modes, self._filters, self._appended)

    def build_all(self, where: str) -> Plan:
        """Makes all that are not left out, by as many threads as there are processors; gives the first of them.

        One that fails is passed over. It raises when it is asked for, and here if no other is made.
        """

        def outcome(config: Config) -> Plan | Exception:
            try:
                return self._plan_of(config)
            except Exception as error:
                return error

        with ThreadPoolExecutor(os.cpu_count()) as threads:
            outcomes = list(threads.map(outcome, self._kept(where)))
        failures = [made for made in outcomes if isinstance(made, Exception)]
        if len(failures) == len(outcomes):
            raise failures[0]
        return next(made for made in outcomes if not isinstance(made, Exception))

    def _named(self, name: str) -> Config | None:
        return next((config for config in self.configs if config.name == name), None)

    def _offered(self, given: Replayed) -> Config:
        """The config of an engine and knobs, of the first engine that takes the graph or of those after it."""
        for mode in ("A", "FALLBACK"):
            for config in self._session.configs(self._graph, mode):
                if (config.engine, config.knobs) == given:
                    return config
        wanted = " ".join([given.engine, *(f"{name}={value}" for name, value in given.knobs.items())])
        raise NotSupported(f"create_execution_plan: graph {self._graph.name!r} has no plan {wanted!r}")

    def _place(self, index: Any, where: str) -> int:
        try:
            place = operator.index(index)  # whatever is an integer, of numpy too
        except TypeError:
            raise TypeError(f"{where}: index: found {index!r}; required: an integer") from None
        if not 0 <= place < len(self.configs):
            raise ExecutionError(f"{where}: index {place}; required: 0 to {len(self.configs) - 1}")
        return place

    def _left_out_by(self, config: Config) -> str | None:
        return next((given.call for given in self._filters if given.leaves_out(config)), None)

    def _allowed(self, config: Config, where: str) -> Plan:
        call = self._left_out_by(config)
        if call is not None:
            raise ExecutionError(f"{where}: plan {config.name!r} is left out by {call}")
        return self._plan_of(config)

    def _kept(self, where: str) -> list[Config]:
        kept = [config for config in self.configs if self._left_out_by(config) is None]
        if not kept:
            calls = ", ".join(given.call for given in self._filters)
            raise NotSupported(f"{where}: graph {self._graph.name!r} has no plan left: {calls}")
        return kept

    def _plan_of(self, config: Config) -> Plan:
        plan = self._built.get(config.name)
        if plan is None:
            plan = self._built[config.name] = self._session.plan_with(config)
        return plan
