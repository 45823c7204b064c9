"""Graphs built and executed with the names of ``cudnn.pygraph``, so that a program changes one import.

Extents and strides are in elements; data types are members of ``data_type``, their names, or dtypes of PyTorch and
numpy. Operations take the keywords of cuDNN's frontend; what they have beside those is said in their docstrings.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, SupportsIndex, overload

from .._core import Config, Graph, Plan, Session, TensorInfo, Verdict
from .._errors import ExecutionError, InputError, MalformedGraph
from .._handle import Handle, _living
from .arguments import Choice, _choice, _integers, _kind
from .enumerations import build_plan_policy, heur_mode
from .execution import (
    _address,
    _Binding,
    _copy,
    _given,
    _Place,
    _require_target,
    _scalar,
    _stream_of,
    _swapped,
    _text,
    _turned,
    _workspace,
)
from .fp8_attention import _Fp8Attention
from .plans import Filter, Plans
from .shapes import MOST_SHAPES, Overrides, overridden, overrides, stated
from .tensor import Tensor, _inferred

__all__ = ["Tensor", "pygraph"]


class pygraph(_Fp8Attention):
    """A graph of operations that grows by its methods, each of which gives the tensors it makes.

    Results are virtual until ``set_output(True)``. Types that are not set are ``io_data_type`` in memory,
    ``intermediate_data_type`` of virtual tensors and ``compute_data_type`` of operations. Plans are made by
    ``session``, or by one on GPU 0 that is made when it is needed. Of ``handle`` executions have the stream.
    ``sm_version``, such as 90, is the chip of ``check``, ``explain`` and ``source`` unless they are given one.
    ``is_cuda_graph_replay_expected`` changes nothing here. Changing a graph after it was built makes it unbuilt.
    """

    def to_json(self) -> str:
        """The graph as JSON of frontend 1.32; of one that was deserialized, what it was read from."""
        if self._text is not None:
            return self._text
        used: dict[int, Tensor] = {}
        for node in self._nodes:
            for tensor in (*node.inputs.values(), *node.outputs.values()):
                used[tensor._uid] = tensor
                if tensor._ragged_offset is not None:
                    used[tensor._ragged_offset._uid] = tensor._ragged_offset
        context = {
            **({"name": self._name} if self._name else {}),
            "io_data_type": self._io_data_type,
            "intermediate_data_type": self._intermediate_data_type,
            "compute_data_type": self._compute_data_type,
            "sm_count": self._sm_count,
            "is_dynamic_shape_enabled": self._is_dynamic_shape_enabled,
            "is_override_shape_enabled": self._is_override_shape_enabled,
        }
        return json.dumps(
            {
                "context": context,
                "cudnn_backend_version": "9.23.0",
                "cudnn_frontend_version": 13200,
                "gid": 1,
                "json_version": "2.0",
                "nodes": [node.json() for node in self._nodes],
                "tensors": [used[uid]._json() for uid in sorted(used)],
            }
        )

    def serialize(self) -> str:
        """The graph as JSON, which ``deserialize`` and ``fusewright.loads`` read."""
        return self.to_json()

    @overload
    def deserialize(self, data: str | bytes, /) -> None: ...
    @overload
    def deserialize(self, handle: object, data: str | bytes, /) -> None: ...
    def deserialize(self, *arguments: Any) -> None:
        """Reads what ``serialize`` wrote into a graph without operations; a handle may come first, whose stream it has.

        Tensors are named by uid or name then. Raises ``MalformedGraph`` for what is no graph, and where operations are
        in the graph already.
        """
        if not 1 <= len(arguments) <= 2:
            raise TypeError(f"deserialize: found {len(arguments)} arguments; required: what serialize() wrote")
        *handles, data = arguments
        if not isinstance(data, str | bytes):
            raise TypeError(f"deserialize: data: found {_kind(data)}; required: str or bytes")
        if self._nodes or self._text is not None:
            raise MalformedGraph(f"graph {self._name!r}: deserialize: it has operations; required: a graph without any")
        text = data if isinstance(data, str) else _text(data)
        self._graph = Graph.from_json(text, self._name or "graph")
        self._text = text
        if handles and isinstance(handles[0], Handle):
            self._handle = handles[0]

    def finalize(self) -> Graph:
        """The graph with all types, extents and strides inferred. Raises ``MalformedGraph``."""
        if self._graph is None:
            if not self._nodes:
                raise MalformedGraph(f"graph {self._name!r}: no operation")
            self._graph = Graph.from_json(self.to_json(), self._name or "graph")
            self._inferred = _inferred(self._graph, self._tensors)
        return self._graph

    def check(self, arch: str | None = None) -> Verdict:
        """Whether the graph runs on a chip, and every rule that stands against it."""
        return self.finalize().check(arch or self._arch)

    def explain(self, arch: str | None = None) -> str:
        """What ``fusewright explain`` prints about the graph."""
        return self.finalize().explain(arch or self._arch)

    def source(self, arch: str | None = None) -> str:
        """The CUDA text of the graph's kernel. Raises ``NotSupported``."""
        return self.finalize().source(arch or self._arch)

    def validate(self) -> None:
        """Raises ``MalformedGraph`` for a graph that is not well formed."""
        self.finalize()

    def build_operation_graph(self) -> None:
        """As ``validate``."""
        self.finalize()

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
        self._select(None)
        self._plans = None
        self._bindings.clear()

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

    def get_execution_plan_count(self) -> int:
        """Number of plans in the list of ``create_execution_plans``, deselected ones too. Raises ``NotSupported``."""
        return len(self._listed().configs)

    def get_plan_name_at_index(self, index: SupportsIndex) -> str:
        """Engine and knobs of a plan, as the command line prints them."""
        return self._listed().at(index, "get_plan_name_at_index").name

    def get_workspace_size_plan_at_index(
        self,
        index: SupportsIndex,
        handle: object = None,
        override_uids: Any = None,
        override_shapes: Any = None,
        override_strides: Any = None,
    ) -> int:
        """Bytes of memory of a GPU that an execution of a plan's kernels needs, with shapes as at an execution."""
        where = "get_workspace_size_plan_at_index"
        given = overrides(override_uids, override_shapes, override_strides)
        if given:
            return self._binding_at(index, given, where).workspace_bytes
        return self._listed().at(index, where).workspace_bytes

    def build_plan_at_index(self, index: SupportsIndex) -> pygraph:
        """Makes a plan, which is then the one that ``execute`` has."""
        return self._select(self._listed().built(index, "build_plan_at_index"))

    def select_plan(self, index: SupportsIndex) -> pygraph:
        """As ``build_plan_at_index``."""
        return self._select(self._listed().built(index, "select_plan"))

    def deselect_engines(self, engine_names: Iterable[str]) -> pygraph:
        """Leaves out plans whose names contain one of these; places stay, and the first of the others is selected."""
        names = [] if isinstance(engine_names, str) else list(engine_names)
        if isinstance(engine_names, str) or not all(isinstance(name, str) for name in names):
            raise TypeError(f"deselect_engines: found {engine_names!r}; required: a list of names")
        return self._leave_out(f"deselect_engines({names})", lambda config: any(name in config.name for name in names))

    def deselect_workspace_greater_than(self, workspace_limit: int) -> pygraph:
        """Leaves out plans whose kernels need more bytes of memory of a GPU than these, as ``deselect_engines``."""
        limit = _integers([workspace_limit], "deselect_workspace_greater_than")[0]
        call = f"deselect_workspace_greater_than({limit})"
        return self._leave_out(call, lambda config: config.workspace_bytes > limit)

    def _leave_out(self, call: str, leaves_out: Callable[[Config], bool]) -> pygraph:
        self._filters.append(Filter(call, leaves_out))
        self._bindings.clear()
        return self._select(None)

    def _select(self, plan: Plan | None) -> pygraph:
        self._plan, self._binding = plan, None
        self._overridden.clear()
        return self

    def _listed(self) -> Plans:
        graph = self.finalize()
        if self._plans is None:
            self._plans = Plans(self._made_session(), graph, self._modes, self._filters)
        return self._plans

    def build(self, heuristics: Sequence[Choice] | None = None) -> None:
        """All steps from ``validate`` to ``build_plans``; plans that are listed already stay as they are."""
        if self._plans is None:
            self.create_execution_plans(heuristics)
        self.build_plans()

    def get_workspace_size(
        self,
        handle: object = None,
        override_uids: Any = None,
        override_shapes: Any = None,
        override_strides: Any = None,
    ) -> int:
        """Bytes of memory of the GPU that an execution needs, with the shapes that it is given if it is.

        Of ``handle``, which cuDNN's has, nothing is needed.
        """
        given = overrides(override_uids, override_shapes, override_strides)
        return self._binding_of(given).workspace_bytes if given else self._planned().workspace_bytes

    def _planned(self) -> Plan:
        graph = self.finalize()
        if self._plan is None:
            self._plan = self._listed().first("plan") if self._is_listed() else self._made_session().plan(graph)
        return self._plan

    def _is_listed(self) -> bool:
        """Whether the plan is one of a list, which may not begin with the session's own."""
        return self._plans is not None or bool(self._filters) or self._modes[0] == "FALLBACK"

    def _made_session(self) -> Session:
        if self._session is None:
            self._session = Session()
        return self._session

    def _uid_of(self, key: object) -> int:
        if isinstance(key, Tensor):
            return self._own(key, "execute: tensor_dict")._uid
        if hasattr(key, "__index__") and not isinstance(key, bool):
            return operator.index(key)
        if isinstance(key, str):
            tensors = [(tensor._name, tensor._uid) for tensor in self._tensors.values()]
            if self._text is not None:
                plan = self._planned()
                tensors += [(info.name, info.uid) for info in (*plan.inputs, *plan.outputs)]
            named = [uid for name, uid in tensors if name == key]
            if len(named) == 1:
                return named[0]
            raise ExecutionError(f"execute: {len(named)} tensors are named {key!r}; required: one")
        raise TypeError(f"execute: tensor_dict: found a key of {_kind(key)}; required: a Tensor, uid or name")

    def _binding_of(self, given: Overrides) -> _Binding:
        """What an execution with shapes of its own takes; of the last ones that are kept."""
        if not given:
            if self._binding is None:
                self._binding = self._bound(self._planned())
            return self._binding
        return self._kept_of(given, None, lambda: self._planned_in(self._in_shapes(given)))

    def _binding_at(self, index: SupportsIndex, given: Overrides, where: str) -> _Binding:
        """The same of a plan of the list."""
        listed = self._listed()
        plan = listed.built(index, where)
        if given:

            def of_name() -> Plan:
                return listed.in_shapes_of(self._in_shapes(given)).only(plan.config, where)

            return self._kept_of(given, plan, of_name)
        if plan not in self._bindings:
            self._bindings[plan] = self._bound(plan)
        return self._bindings[plan]

    def _kept_of(self, given: Overrides, at: Plan | None, make: Callable[[], Plan]) -> _Binding:
        """What is kept of shapes, and of a plan of the list, or else made."""
        binding = self._overridden.get((given, at))
        if binding is None:
            binding = self._overridden[given, at] = self._bound(make(), given)
            if len(self._overridden) > MOST_SHAPES:
                self._overridden.popitem(last=False)
        self._overridden.move_to_end((given, at))
        return binding

    def _in_shapes(self, given: Overrides) -> Graph:
        self.finalize()
        text = overridden(self.to_json(), given, is_enabled=self._is_override_shape_enabled)
        return Graph.from_json(text, self._name or "graph")

    def _planned_in(self, graph: Graph) -> Plan:
        if self._is_listed():
            return self._listed().in_shapes_of(graph).named(self._planned().config, "execute")
        return self._made_session().plan(graph)

    def _bound(self, plan: Plan, given: Overrides = ()) -> _Binding:
        stated = self._stated_shapes(given)

        def turned_dim(info: TensorInfo) -> list[int] | None:
            dim, stride = stated.get(info.uid, ([], []))
            is_same = (dim, stride) == (info.dim, info.stride)
            return dim if not is_same and (_swapped(dim), _swapped(stride)) == (info.dim, info.stride) else None

        def place(role: str, info: TensorInfo) -> _Place:
            tensor = None if self._text is not None else self._tensors.get(info.uid)
            value = None if tensor is None else tensor._value
            return _Place(role, info.uid, info.name, info.dim, info.data_type, value, turned_dim(info))

        inputs = [(place("input", info), info.is_pass_by_value) for info in plan.inputs]
        outputs = [place("output", info) for info in plan.outputs]
        device = self._made_session().device
        return _Binding(
            plan,
            inputs=[given for given, _ in inputs],
            outputs=outputs,
            memory=[given for given, is_scalar in inputs if not is_scalar] + outputs,
            scalars=[given for given, is_scalar in inputs if is_scalar],
            device=device,
            is_on_gpu=device.startswith("cuda"),
            workspace_bytes=plan.workspace_bytes,
        )

    def _stated_shapes(self, given: Overrides) -> dict[int, tuple[list[int], list[int]]]:
        """Extents and strides of tensors by uid, as the caller states them."""
        if self._text is None:
            shapes = {uid: (tensor.get_dim(), tensor.get_stride()) for uid, tensor in self._tensors.items()}
        else:
            read = stated(self._text)
            shapes = {uid: (tensor.get("dim") or [], tensor.get("stride") or []) for uid, tensor in read.items()}
        return shapes | {override.uid: (list(override.dim), list(override.stride)) for override in given}

    def execute(
        self,
        tensor_dict: Mapping[Any, Any],
        workspace: Any = None,
        handle: object = None,
        override_uids: Any = None,
        override_shapes: Any = None,
        override_strides: Any = None,
        *,
        stream: Any = None,
    ) -> None:
        """Computes the outputs into the arrays given for them.

        ``tensor_dict`` has an array for each input and output, by ``Tensor``, uid or name; numbers for scalars. On a
        GPU arrays are taken by address alone and must lie as the graph says, and the work is put on ``stream`` without
        waiting: else on that of ``handle``, of the graph's handle, on PyTorch's current one, or the default one. On the
        CPU they must have the graph's extents and types. Raises ``ExecutionError``.

        A graph with ``is_override_shape_enabled`` may be given other extents and strides, in elements, of tensors by
        uid: of all whose extents change and that say theirs. Each set of shapes has a plan, made when it comes first;
        the last 1,024 are kept, and shapes share binaries. Where plans are listed it is one of the same modes without
        what is deselected: the selected one, if it is there in these shapes, or else the first. ``get_workspace_size``
        takes the same. What these shapes make of the graph may raise ``MalformedGraph`` and ``NotSupported``.
        """
        shapes = overrides(override_uids, override_shapes, override_strides)
        self._execute(self._binding_of(shapes), tensor_dict, workspace, self._stream(stream, handle))

    def execute_plan_at_index(
        self,
        tensor_dict: Mapping[Any, Any],
        workspace: Any = None,
        index: SupportsIndex = 0,
        handle: object = None,
        *,
        override_uids: Any = None,
        override_shapes: Any = None,
        override_strides: Any = None,
        stream: Any = None,
    ) -> None:
        """As ``execute``, by a plan of the list, which is made when it is first asked for; another may be selected.

        With shapes it is the plan of the same name in these, and ``ExecutionError`` where there is none.
        """
        given = overrides(override_uids, override_shapes, override_strides)
        binding = self._binding_at(index, given, "execute_plan_at_index")
        self._execute(binding, tensor_dict, workspace, self._stream(stream, handle))

    def _stream(self, stream: Any, handle: object) -> Any:
        with_handle = handle if isinstance(handle, Handle) else self._handle
        return stream if with_handle is None or stream is not None else _living(with_handle, "execute")._stream

    def _execute(self, binding: _Binding, tensor_dict: Mapping[Any, Any], workspace: Any, stream: Any) -> None:
        if not isinstance(tensor_dict, Mapping):
            raise TypeError(f"execute: tensor_dict: found {_kind(tensor_dict)}; required: a dict")
        tensors = {
            key._uid if type(key) is Tensor and key._graph is self else self._uid_of(key): value
            for key, value in tensor_dict.items()
        }
        if len(tensors) > len(binding.inputs) + len(binding.outputs):
            known = self._tensors.keys() | {place.uid for place in (*binding.inputs, *binding.outputs)}
            unknown = sorted(tensors.keys() - known)
            if unknown:
                raise ExecutionError(f"execute: the graph has no tensor of uid {unknown[0]}")
        if binding.is_on_gpu:
            pointers = [_address(_given(tensors, place), place) for place in binding.memory]
            scalars = [_scalar(tensors, place) for place in binding.scalars]
            room = _workspace(workspace, binding.workspace_bytes)
            binding.plan.launch(pointers, room, _stream_of(stream, binding.device), scalars)
            return
        given = [
            _scalar(tensors, place) if place in binding.scalars else _turned(_given(tensors, place), place)
            for place in binding.inputs
        ]
        targets = [_given(tensors, place) for place in binding.outputs]
        for place, target in zip(binding.outputs, targets, strict=True):
            _require_target(target, place)
        for target, result in zip(targets, binding.plan.run(*given), strict=True):
            _copy(result, target)
