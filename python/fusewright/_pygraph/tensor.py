"""Tensors and nodes of a graph that grows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from .._core import Graph
from .._errors import MalformedGraph
from . import enumerations
from .arguments import _ROUND_NUMBERS, _SCALAR_INDEX, Choice, _float_bits, _integers, _kind, _spelling
from .enumerations import data_type, tensor_reordering

if TYPE_CHECKING:
    from .builder import _Builder


class Tensor:
    """A tensor of a graph. Setters give the tensor back, so that they chain."""

    def __init__(self, graph: _Builder, name: str, uid: int, is_virtual: bool) -> None:
        self._graph = graph
        self._name = name
        self._uid = uid
        self._uid_is_given = False
        self._dim: list[int] = []
        self._stride: list[int] = []
        self._data_type: str | None = None
        self._is_virtual = is_virtual
        self._is_pass_by_value = False
        self._value: float | None = None
        self._is_constant = False
        self._reordering = "NONE"
        self._ragged_offset: Tensor | None = None
        self._ragged_offset_multiplier = 1

    def __repr__(self) -> str:
        kind = "virtual " if self._is_virtual else ""
        return f"<{kind}Tensor {self._name!r} uid {self._uid} dim {self.get_dim()} stride {self.get_stride()}>"

    def _where(self, what: str) -> str:
        return f"tensor {self._name!r}: {what}"

    def set_output(self, value: bool = True) -> Tensor:
        """Makes it an output in memory, or a virtual tensor again."""
        return self.set_is_virtual(not value)

    def set_is_virtual(self, value: bool) -> Tensor:
        """Makes it a tensor that is never in memory."""
        self._graph._changed()
        self._is_virtual = bool(value)
        return self

    def set_name(self, name: str) -> Tensor:
        """A label for messages; names need not be unique."""
        if not isinstance(name, str):
            raise TypeError(f"{self._where('name')}: found {_kind(name)}; required: str")
        self._graph._changed()
        self._name = name
        return self

    def set_uid(self, uid: int) -> Tensor:
        """The number by which executions find it. Raises ``MalformedGraph`` where another tensor was given it."""
        self._graph._set_uid(self, _integers([uid], self._where("uid"))[0])
        return self

    def set_data_type(self, data_type: Choice) -> Tensor:
        """The type of its elements; without one, the graph's intermediate or io type."""
        self._graph._changed()
        self._data_type = _spelling(enumerations.data_type, data_type, self._where("data_type"))
        return self

    def set_dim(self, dim: Sequence[int]) -> Tensor:
        """Extents, which must be positive."""
        extents = _integers(dim, self._where("dim"))
        if any(extent < 1 for extent in extents):
            raise MalformedGraph(f"{self._where('dim')}: found {extents}; required: positive extents")
        self._graph._changed()
        self._dim = extents
        return self

    def set_stride(self, stride: Sequence[int]) -> Tensor:
        """Strides in elements."""
        strides = _integers(stride, self._where("stride"))
        self._graph._changed()
        self._stride = strides
        return self

    def set_is_pass_by_value(self, value: bool) -> Tensor:
        """Makes it a number that executions give."""
        self._graph._changed()
        self._is_pass_by_value = bool(value)
        return self

    def set_reordering_type(self, reordering_type: Choice) -> Tensor:
        """A ``tensor_reordering``."""
        self._graph._changed()
        self._reordering = _spelling(tensor_reordering, reordering_type, self._where("reordering_type")) or "NONE"
        return self

    def set_ragged_offset(self, ragged_offset: Tensor) -> Tensor:
        """The tensor with the offset of each batch entry, in elements times the multiplier."""
        self._graph._own(ragged_offset, self._where("ragged_offset"))
        self._graph._changed()
        self._ragged_offset = ragged_offset
        return self

    def set_ragged_offset_multiplier(self, multiplier: int) -> Tensor:
        """The unit of the ragged offsets, in elements."""
        self._graph._changed()
        self._ragged_offset_multiplier = _integers([multiplier], self._where("ragged_offset_multiplier"))[0]
        return self

    def get_name(self) -> str:
        return self._name

    def get_uid(self) -> int:
        return self._uid

    def get_dim(self) -> list[int]:
        """Extents; where they were not set, known after ``validate``."""
        inferred = self._graph._inferred.get(self._uid)
        return list(self._dim or (inferred.dim if inferred else []))

    def get_stride(self) -> list[int]:
        """Strides in elements, known as extents are."""
        inferred = self._graph._inferred.get(self._uid)
        return list(self._stride or (inferred.stride if inferred else []))

    def get_data_type(self) -> data_type | None:
        """The type, known as extents are."""
        inferred = self._graph._inferred.get(self._uid)
        name = self._data_type or (inferred.data_type if inferred else None)
        return None if name is None else data_type[name]

    def get_is_virtual(self) -> bool:
        return self._is_virtual

    def get_is_pass_by_value(self) -> bool:
        return self._is_pass_by_value

    def get_reordering_type(self) -> tensor_reordering:
        return tensor_reordering[self._reordering]

    def _json_value(self) -> dict[str, Any] | None:
        if not self._is_constant or self._value is None:
            return None
        name = self._data_type or "FLOAT"
        exact = int(self._value) if name in _ROUND_NUMBERS else float(self._value)
        value = exact if name in (*_ROUND_NUMBERS, "DOUBLE") else _float_bits(exact, self._where("value"))
        return {"index": _SCALAR_INDEX[name], "value": value}

    def _json(self) -> dict[str, Any]:
        described: dict[str, Any] = {
            "uid": self._uid,
            "name": self._name,
            "data_type": self._data_type,
            "dim": self._dim,
            "stride": self._stride,
            "is_virtual": self._is_virtual,
            "is_pass_by_value": self._is_pass_by_value,
            "pass_by_value": self._json_value(),
            "reordering_type": self._reordering,
        }
        if self._ragged_offset is not None:
            described["ragged_offset_uid"] = self._ragged_offset._uid
            described["ragged_offset_name"] = self._ragged_offset._name
            if self._ragged_offset_multiplier != 1:
                described["ragged_offset_multiplier"] = self._ragged_offset_multiplier
        return described


class _Inferred(NamedTuple):
    """What a finalized graph knows of a tensor."""

    dim: list[int]
    stride: list[int]
    data_type: str


def _inferred(graph: Graph, tensors: Mapping[int, Tensor]) -> dict[int, _Inferred]:
    """What a finalized graph knows of these tensors, so far as it has them still."""
    found = {}
    for described in json.loads(graph.to_json())["tensors"]:
        tensor = tensors.get(described["uid"])
        if tensor is not None and tensor._name == described["name"]:
            found[tensor._uid] = _Inferred(described["dim"], described["stride"], described["data_type"])
    return found


# A tensor, or a number that becomes a constant of the graph.
Operand: TypeAlias = Tensor | float


def _attribute(value: Any) -> Any:
    """An attribute as the JSON has it; tensors among them are written in full."""
    if isinstance(value, list):
        return [entry._json() if isinstance(entry, Tensor) else entry for entry in value]
    return value


class _Node(NamedTuple):
    tag: str
    name: str
    inputs: dict[str, Tensor]
    outputs: dict[str, Tensor]
    attributes: dict[str, Any]

    def json(self) -> dict[str, Any]:
        def ports(tensors: Mapping[str, Tensor]) -> dict[str, int]:
            return {port: tensor._uid for port, tensor in tensors.items()}

        return {
            "tag": self.tag,
            "name": self.name,
            **{key: _attribute(value) for key, value in self.attributes.items()},
            "inputs": ports(self.inputs),
            "outputs": ports(self.outputs),
        }
