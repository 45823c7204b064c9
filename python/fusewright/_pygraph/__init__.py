"""Graphs built and executed with the names of ``cudnn.pygraph``, so that a program changes one import.

Extents and strides are in elements; data types are members of ``data_type``, their names, or dtypes of PyTorch and
numpy. Operations take the keywords of cuDNN's frontend; what they have beside those is said in their docstrings.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, SupportsIndex

from .._core import Graph, Plan, TensorInfo
from .._errors import ExecutionError
from .._handle import Handle, _living
from .arguments import _kind
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
    _turned,
    _workspace,
)
from .selected import _Selected
from .shapes import MOST_SHAPES, Overrides, overridden, overrides, stated
from .tensor import Tensor

__all__ = ["Tensor", "pygraph"]


class pygraph(_Selected):
    """A graph of operations that grows by its methods, each of which gives the tensors it makes.

    Results are virtual until ``set_output(True)``. Types that are not set are ``io_data_type`` in memory,
    ``intermediate_data_type`` of virtual tensors and ``compute_data_type`` of operations. Plans are made by
    ``session``, or by one on GPU 0 that is made when it is needed. Of ``handle`` executions have the stream.
    ``sm_version``, such as 90, is the chip of ``check``, ``explain`` and ``source`` unless they are given one.
    ``is_cuda_graph_replay_expected`` changes nothing here. Changing a graph after it was built makes it unbuilt.
    """

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
