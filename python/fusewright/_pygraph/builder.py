"""What operations are made with: tensors, uids, names, nodes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from .._core import Graph, Plan, Session
from .._errors import InputError, MalformedGraph
from .._handle import Handle
from . import enumerations
from .arguments import (
    _ROUND_NUMBERS,
    _SCALAR_INDEX,
    Choice,
    _choice,
    _element_type,
    _integers,
    _is_host_scalar,
    _kind,
    _layout,
    _number,
    _row_major,
    _spelling,
)
from .enumerations import data_type
from .execution import _Binding
from .plans import Filter, Plans, Replayed
from .shapes import KernelCache, Overrides
from .tensor import Tensor, _Inferred, _Node


def _arch(sm_version: int) -> str:
    """The chip of a compute capability as ``sm_version`` states it: 90 is 9.0."""
    version = _integers([sm_version], "pygraph: sm_version")[0]
    if version < 10:
        raise InputError(f"pygraph: sm_version: found {version}; required: ten times the capability, as 90")
    return f"sm_{version}"


class _Builder:
    """What operations are made with."""

    def __init__(
        self,
        name: str = "",
        io_data_type: Choice = None,
        intermediate_data_type: Choice = None,
        compute_data_type: Choice = None,
        handle: object = None,
        sm_count: int | None = None,
        sm_version: int | None = None,
        kernel_cache: KernelCache | None = None,
        device_property: None = None,
        is_dynamic_shape_enabled: bool = False,
        is_override_shape_enabled: bool = False,
        *,
        is_cuda_graph_replay_expected: bool = False,
        session: Session | None = None,
    ) -> None:
        if device_property is not None:
            required = "none; a session says for which device plans are"
            raise TypeError(f"pygraph: device_property: found {_kind(device_property)}; required: {required}")
        if kernel_cache is not None and not isinstance(kernel_cache, KernelCache):
            required = "a KernelCache of create_kernel_cache()"
            raise TypeError(f"pygraph: kernel_cache: found {_kind(kernel_cache)}; required: {required}")
        self._handle = handle if isinstance(handle, Handle) else None  # what others are for, a session is
        if session is not None and not isinstance(session, Session):
            raise TypeError(f"pygraph: session: found {_kind(session)}; required: a Session")
        self._name = name
        self._io_data_type = _spelling(data_type, io_data_type, "pygraph: io_data_type")
        self._intermediate_data_type = _spelling(data_type, intermediate_data_type, "pygraph: intermediate_data_type")
        self._compute_data_type = _spelling(data_type, compute_data_type, "pygraph: compute_data_type")
        self._sm_count = -1 if sm_count is None else _integers([sm_count], "pygraph: sm_count")[0]
        self._arch = "sm_90" if sm_version is None else _arch(sm_version)
        self._is_dynamic_shape_enabled = bool(is_dynamic_shape_enabled)
        self._is_override_shape_enabled = bool(is_override_shape_enabled)
        self._session = session
        self._nodes: list[_Node] = []
        self._tensors: dict[int, Tensor] = {}
        self._node_names: set[str] = set()
        self._counts: dict[str, int] = {}
        self._next_uid = 1
        self._inferred: dict[int, _Inferred] = {}
        self._graph: Graph | None = None
        self._plan: Plan | None = None
        self._binding: _Binding | None = None
        self._overridden: OrderedDict[tuple[Overrides, Plan | None], _Binding] = OrderedDict()
        self._text: str | None = None
        self._plans: Plans | None = None
        self._filters: list[Filter] = []
        self._bindings: dict[Plan, _Binding] = {}
        self._modes: list[str] = ["A"]
        self._appended: list[Replayed] = []

    def __repr__(self) -> str:
        return f"<pygraph {self._name!r}: {len(self._nodes)} operations, {len(self._tensors)} tensors>"

    def _changed(self) -> None:
        """Forgets what was made of the graph as it was. Raises ``MalformedGraph`` for one that was read."""
        if self._text is not None:
            raise MalformedGraph(f"graph {self._name!r}: it was deserialized; required: another graph to change")
        if self._graph is not None:
            self._graph, self._plan, self._binding, self._plans, self._inferred = None, None, None, None, {}
            self._overridden.clear()
            self._bindings.clear()

    def _free_uid(self) -> int:
        while self._next_uid in self._tensors:
            self._next_uid += 1
        return self._next_uid

    def _set_uid(self, tensor: Tensor, uid: int) -> None:
        holder = self._tensors.get(uid)
        if holder is not None and holder is not tensor:
            if holder._uid_is_given:
                raise MalformedGraph(f"tensor {tensor._name!r}: uid {uid} is that of tensor {holder._name!r}")
            holder._uid = self._free_uid()
            self._tensors[holder._uid] = holder
        self._changed()
        if self._tensors.get(tensor._uid) is tensor:
            del self._tensors[tensor._uid]
        self._tensors[uid] = tensor
        tensor._uid, tensor._uid_is_given = uid, True

    def _new_tensor(self, name: str, *, is_virtual: bool = False, uid: int | None = None) -> Tensor:
        if not isinstance(name, str):
            raise TypeError(f"tensor: name: found {_kind(name)}; required: str")
        self._changed()
        free = self._free_uid()
        tensor = Tensor(self, name or f"tensor_{len(self._tensors)}", free, is_virtual)
        self._tensors[free] = tensor
        if uid is not None and uid != -1:
            tensor.set_uid(uid)
        return tensor

    def _own(self, value: object, where: str) -> Tensor:
        """The value as a tensor of this graph."""
        if not isinstance(value, Tensor):
            hint = " (tensor_like makes one of an array)" if hasattr(value, "shape") else ""
            raise TypeError(f"{where}: found {_kind(value)}; required: a Tensor{hint}")
        if value._graph is not self:
            raise MalformedGraph(f"{where}: tensor {value._name!r} is of another graph")
        return value

    def _operand(self, value: object, where: str, compute: str | None = None) -> Tensor:
        """The value as a tensor of this graph, which a number becomes: of the compute type, or FLOAT."""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return self._own(value, where)
        compute = compute or self._compute_data_type
        if compute in _ROUND_NUMBERS and value != int(value):
            raise MalformedGraph(f"{where}: found {value}; required: an integer, as it computes in {compute}")
        kind = compute if compute in (*_ROUND_NUMBERS, "DOUBLE") else "FLOAT"
        return self._constant(value, kind, [1], "", True)

    def _constant(self, value: float, kind: str, dim: list[int], name: str, is_constant: bool) -> Tensor:
        scalar = self._new_tensor(name or f"scalar_{len(self._tensors)}")
        scalar._data_type, scalar._dim, scalar._stride = kind, dim, [1] * len(dim)
        scalar._is_pass_by_value, scalar._value, scalar._is_constant = True, value, is_constant
        scalar._json_value()  # that the type can hold it
        return scalar

    def _node_name(self, op: str, name: str) -> str:
        if not isinstance(name, str):
            raise TypeError(f"{op}: name: found {_kind(name)}; required: str")
        stem = name or op
        unique = name
        while not unique or unique in self._node_names:
            count = self._counts.get(stem, 0 if not name else 1)
            self._counts[stem] = count + 1
            unique = f"{stem}.{count}"
        self._node_names.add(unique)
        return unique

    def _add(
        self,
        op: str,
        tag: str,
        name: str,
        inputs: Mapping[str, tuple[str, object]],
        outputs: Sequence[str],
        compute: Choice = None,
        *,
        attributes: Mapping[str, Any] | None = None,
        given: Mapping[str, tuple[str, object]] | None = None,
        has_compute: bool = True,
    ) -> list[Tensor]:
        """Adds a node, and gives its outputs.

        ``inputs`` and ``given`` (outputs that the caller made) are argument and value by port.
        """
        label = f"{op} {name!r}" if name else op
        precision = _spelling(data_type, compute, f"{label}: compute_data_type")
        sources = {
            port: self._operand(value, f"{label}: {argument}", precision)
            for port, (argument, value) in inputs.items()
            if value is not None
        }
        results = {
            port: self._own(value, f"{label}: {argument}")
            for port, (argument, value) in (given or {}).items()
            if value is not None
        }
        unique = self._node_name(op, name)
        made = {port: self._new_tensor(f"{unique}::{port}", is_virtual=True) for port in outputs}
        typed = {"compute_data_type": precision} if has_compute else {}
        self._nodes.append(_Node(tag, unique, sources, {**made, **results}, {**typed, **(attributes or {})}))
        return list(made.values())

    def tensor(
        self,
        dim: Sequence[int],
        stride: Sequence[int] | None = None,
        data_type: Choice = None,
        is_virtual: bool = False,
        is_pass_by_value: bool = False,
        ragged_offset: Tensor | None = None,
        reordering_type: Choice = None,
        name: str = "",
        uid: int | None = None,
        ragged_offset_multiplier: int = 1,
    ) -> Tensor:
        """A tensor of the caller: row-major without ``stride``, of the graph's io type without ``data_type``."""
        tensor = self._new_tensor(name, is_virtual=is_virtual, uid=uid).set_dim(dim)
        tensor.set_stride(_row_major(tensor._dim) if stride is None else stride)
        if len(tensor._stride) != len(tensor._dim):
            counts = f"{len(tensor._stride)} strides for {len(tensor._dim)} extents"
            raise MalformedGraph(f"tensor {tensor._name!r}: {counts}")
        tensor.set_data_type(data_type).set_reordering_type(reordering_type).set_is_pass_by_value(is_pass_by_value)
        tensor.set_ragged_offset_multiplier(ragged_offset_multiplier)
        return tensor if ragged_offset is None else tensor.set_ragged_offset(ragged_offset)

    def tensor_like(self, template: Any, name: str = "", is_virtual: bool = False) -> Tensor:
        """A tensor with extents, strides and type of a ``Tensor`` or an array.

        An array of one element in memory of the CPU is passed by value.
        """
        if isinstance(template, Tensor):
            dim, stride = template.get_dim(), template.get_stride()
            kind, by_value = template._data_type, template._is_pass_by_value
        else:
            where = f"tensor_like {name!r}" if name else "tensor_like"
            dim, stride = _layout(template, where)
            kind, by_value = _element_type(template, where), _is_host_scalar(template, dim)
        return self.tensor(dim, stride, kind, is_virtual, by_value, name=name)

    def tensor_scalar(
        self,
        value: float,
        scalar_type: Choice = "COMPILE_TIME_CONST",
        name: str = "",
        *,
        data_type: Choice = None,
    ) -> Tensor:
        """A number: part of the graph, or as ``RUNTIME_PARAM`` what executions take unless they are given another.

        Its type is FLOAT, of an integer INT32, unless ``data_type`` says otherwise.
        """
        where = f"tensor_scalar {name!r}" if name else "tensor_scalar"
        number = _number(value, f"{where}: value")
        named = _spelling(enumerations.data_type, data_type, f"{where}: data_type")
        kind = named or ("INT32" if isinstance(number, int) else "FLOAT")
        if kind not in _SCALAR_INDEX:
            raise MalformedGraph(f"{where}: data_type: found {kind}; required: {', '.join(_SCALAR_INDEX)}")
        is_constant = _choice(enumerations.scalar_type, scalar_type, f"{where}: scalar_type") == "COMPILE_TIME_CONST"
        return self._constant(number, kind, [1], name, is_constant)
