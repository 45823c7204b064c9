"""The plans of a graph: listed, left out, named by engine and knobs, and one of them selected."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, SupportsIndex

from .._core import Config, Plan, Session
from .._errors import InputError
from .arguments import Choice, _choice, _integers, _kind, _notes
from .described import _Described
from .enumerations import behavior_note, build_plan_policy, heur_mode, numerical_note
from .plans import Filter, Plans, Replayed

if TYPE_CHECKING:
    from typing_extensions import Self


class _Selected(_Described):
    def create_execution_plans(self, heuristics: Sequence[Choice] | None = None) -> None:
        """Lists plans by heuristics' names, each plan once; what is deselected stays so."""
        where = "create_execution_plans: heuristics"
        if isinstance(heuristics, str):
            raise TypeError(f"{where}: found {heuristics!r}; required: a list of heur_modes")
        modes = [_choice(heur_mode, mode, where) for mode in (["A"] if heuristics is None else heuristics)]
        if not modes:
            raise InputError(f"{where}: found none; required: a heur_mode at least")
        self.finalize()
        self._modes = list(dict.fromkeys("A" if mode == "OPENSOURCE" else mode for mode in modes))
        self._appended.clear()
        self._select(None)
        self._plans = None
        self._bindings.clear()

    def create_execution_plan(self, engine_id: str, knobs: Mapping[str, int] | None = None) -> Self:
        """Appends the plan of an engine and of its knobs, as ``get_engine_and_knobs_at_index`` gave them, to the list.

        Where ``create_execution_plans`` made no list, it is the only plan. Raises ``NotSupported``.
        """
        where = "create_execution_plan"
        if not isinstance(engine_id, str):
            raise TypeError(f"{where}: engine_id: found {_kind(engine_id)}; required: an engine's name")
        values = {} if knobs is None else dict(knobs)
        _integers(values.values(), f"{where}: knobs")
        replayed = Replayed(engine_id, values)
        modes = self._modes if self._plans is not None or self._appended else []
        plans = Plans(self._made_session(), self.finalize(), modes, self._filters, [*self._appended, replayed])
        plans.at(len(plans.configs) - 1, where)
        self._modes, self._plans = modes, plans
        self._appended.append(replayed)
        self._bindings.clear()
        return self._select(None)

    def check_support(self) -> None:
        """Makes the selected plan, the first unless another was selected. Raises ``NotSupported``."""
        self._planned()

    def build_plans(self, policy: Choice = "HEURISTICS_CHOICE") -> None:
        """Makes the selected plan, which is the first unless another was selected, or all. Raises ``NotSupported``.

        Of all, some may fail, which raise when they are asked for; the first that does not is selected, unless one is.
        """
        is_all = _choice(build_plan_policy, policy, "build_plans: policy") == "ALL"
        if is_all:
            first = self._listed().build_all("build_plans")
            if self._plan is None:
                self._select(first)
        self._planned()

    def build(self, heuristics: Sequence[Choice] | None = None) -> None:
        """All steps from ``validate`` to ``build_plans``; plans that are listed already stay as they are."""
        if self._plans is None:
            self.create_execution_plans(heuristics)
        self.build_plans()

    def get_execution_plan_count(self) -> int:
        """Number of plans in the list of ``create_execution_plans``, deselected ones too. Raises ``NotSupported``."""
        return len(self._listed().configs)

    def get_plan_name_at_index(self, index: SupportsIndex) -> str:
        """Engine and knobs of a plan, as the command line prints them."""
        return self._listed().at(index, "get_plan_name_at_index").name

    def get_engine_and_knobs_at_index(self, index: SupportsIndex) -> tuple[str, dict[str, int]]:
        """An engine and values of its knobs by their names, of which ``create_execution_plan`` makes the plan."""
        config = self._listed().at(index, "get_engine_and_knobs_at_index")
        return config.engine, config.knobs

    def get_behavior_notes(self) -> list[behavior_note]:
        """What cuDNN notes of how the kernels of the plan that ``execute`` has behave."""
        return [behavior_note(note) for note in self._listed().of(self._planned()).behavior_notes]

    def get_behavior_notes_for_plan_at_index(self, index: SupportsIndex) -> list[behavior_note]:
        """The same of a plan."""
        config = self._listed().at(index, "get_behavior_notes_for_plan_at_index")
        return [behavior_note(note) for note in config.behavior_notes]

    def build_plan_at_index(self, index: SupportsIndex) -> Self:
        """Makes a plan, which is then the one that ``execute`` has."""
        return self._select(self._listed().built(index, "build_plan_at_index"))

    def select_plan(self, index: SupportsIndex) -> Self:
        """As ``build_plan_at_index``."""
        return self._select(self._listed().built(index, "select_plan"))

    def deselect_engines(self, engine_names: Iterable[str]) -> Self:
        """Leaves out plans whose names contain one of these; places stay, and the first of the others is selected."""
        names = [] if isinstance(engine_names, str) else list(engine_names)
        if isinstance(engine_names, str) or not all(isinstance(name, str) for name in names):
            raise TypeError(f"deselect_engines: found {engine_names!r}; required: a list of names")
        return self._leave_out(f"deselect_engines({names})", lambda config: any(name in config.name for name in names))

    def deselect_workspace_greater_than(self, workspace_limit: int) -> Self:
        """Leaves out plans whose kernels need more bytes of memory of a GPU than these, as ``deselect_engines``."""
        limit = _integers([workspace_limit], "deselect_workspace_greater_than")[0]
        call = f"deselect_workspace_greater_than({limit})"
        return self._leave_out(call, lambda config: config.workspace_bytes > limit)

    def select_behavior_notes(self, notes: Iterable[Choice]) -> Self:
        """Leaves out plans that have not all of these notes, as ``deselect_engines``."""
        return self._by_notes("select_behavior_notes", behavior_note, notes, keeps=True)

    def deselect_behavior_notes(self, notes: Iterable[Choice]) -> Self:
        """Leaves out plans that have any of these notes, as ``deselect_engines``."""
        return self._by_notes("deselect_behavior_notes", behavior_note, notes, keeps=False)

    def select_numeric_notes(self, notes: Iterable[Choice]) -> Self:
        """Leaves out plans that have not all of these notes, as ``deselect_engines``."""
        return self._by_notes("select_numeric_notes", numerical_note, notes, keeps=True)

    def deselect_numeric_notes(self, notes: Iterable[Choice]) -> Self:
        """Leaves out plans that have any of these notes, as ``deselect_engines``."""
        return self._by_notes("deselect_numeric_notes", numerical_note, notes, keeps=False)

    def _by_notes(
        self,
        call: str,
        kind: type[behavior_note] | type[numerical_note],
        notes: Iterable[Choice],
        *,
        keeps: bool,
    ) -> Self:
        given = _notes(kind, notes, call)

        def leaves_out(config: Config) -> bool:
            of_config = config.behavior_notes if kind is behavior_note else config.numeric_notes
            found = [note in of_config for note in given]
            return not all(found) if keeps else any(found)

        return self._leave_out(f"{call}({given})", leaves_out)

    def _leave_out(self, call: str, leaves_out: Callable[[Config], bool]) -> Self:
        self._filters.append(Filter(call, leaves_out))
        self._bindings.clear()
        return self._select(None)

    def _select(self, plan: Plan | None) -> Self:
        self._plan, self._binding = plan, None
        self._overridden.clear()
        return self

    def _listed(self) -> Plans:
        graph = self.finalize()
        if self._plans is None:
            self._plans = Plans(self._made_session(), graph, self._modes, self._filters, self._appended)
        return self._plans

    def _planned(self) -> Plan:
        graph = self.finalize()
        if self._plan is None:
            self._plan = self._listed().first("plan") if self._is_listed() else self._made_session().plan(graph)
        return self._plan

    def _is_listed(self) -> bool:
        """Whether the plan is one of a list, which may not begin with the session's own."""
        return self._plans is not None or bool(self._filters) or self._modes[:1] != ["A"]

    def _made_session(self) -> Session:
        if self._session is None:
            self._session = Session()
        return self._session
