"""Graphs built and executed with the names of ``cudnn.pygraph``, so that a program changes one import.

Extents and strides are in elements; data types are members of ``data_type``, their names, or dtypes of PyTorch and
numpy. Operations take the keywords of cuDNN's frontend; what they have beside those is said in their docstrings.
"""

from __future__ import annotations

import enum
import inspect
import json
import math
import operator
import struct
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, SupportsIndex, TypeAlias, overload

from ._core import Array, Config, Graph, Plan, Session, TensorInfo, Verdict
from ._dtypes import DTYPES
from ._errors import ExecutionError, InputError, MalformedGraph
from ._handle import Handle, _living
from ._plans import Plans
from ._shapes import MOST_SHAPES, KernelCache, Overrides, overridden, overrides, stated

# ---- Enumerations ----------------------------------------------------------------------------------------------------


class _Spelling(str, enum.Enum):
    """Names of the library, which are their own values."""

    @staticmethod
    def _generate_next_value_(name: str, start: int, count: int, last_values: list[str]) -> str:
        return name

    def __str__(self) -> str:
        return f"{type(self).__name__}.{self.name}"


class data_type(_Spelling):
    """Types of elements, and of computations. ``BOOLEAN`` is one bit in memory of a GPU."""

    FLOAT = enum.auto()
    DOUBLE = enum.auto()
    HALF = enum.auto()
    BFLOAT16 = enum.auto()
    INT8 = enum.auto()
    UINT8 = enum.auto()
    INT32 = enum.auto()
    INT64 = enum.auto()
    BOOLEAN = enum.auto()
    INT8x4 = enum.auto()
    UINT8x4 = enum.auto()
    INT8x32 = enum.auto()
    FP8_E4M3 = enum.auto()
    FP8_E5M2 = enum.auto()
    FP8_E5M3 = enum.auto()
    FP8_E8M0 = enum.auto()
    FP4_E2M1 = enum.auto()
    INT4 = enum.auto()
    FAST_FLOAT_FOR_FP8 = enum.auto()
    NOT_SET = enum.auto()


class heur_mode(_Spelling):
    """Heuristics that rank plans: all of the chosen engine by its model (``A``, and ``OPENSOURCE``), what is worth
    measuring (``B``), or all of the next engine (``FALLBACK``)."""

    A = enum.auto()
    B = enum.auto()
    FALLBACK = enum.auto()
    OPENSOURCE = enum.auto()


class build_plan_policy(_Spelling):
    """Which plans are built: the first, or all."""

    HEURISTICS_CHOICE = enum.auto()
    ALL = enum.auto()


class reduction_mode(_Spelling):
    """What a reduction computes."""

    ADD = enum.auto()
    MUL = enum.auto()
    MIN = enum.auto()
    MAX = enum.auto()
    AMAX = enum.auto()
    AVG = enum.auto()
    NORM1 = enum.auto()
    NORM2 = enum.auto()
    MUL_NO_ZEROS = enum.auto()
    NOT_SET = enum.auto()


class norm_forward_phase(_Spelling):
    """Whether a norm also writes its statistics (``TRAINING``)."""

    INFERENCE = enum.auto()
    TRAINING = enum.auto()
    NOT_SET = enum.auto()


class tensor_reordering(_Spelling):
    """Memory layouts beyond strides."""

    NONE = enum.auto()
    INT8x32 = enum.auto()
    F16x16 = enum.auto()
    F8_128x4 = enum.auto()


class diagonal_alignment(_Spelling):
    """The corner of the scores at which a mask's diagonal starts."""

    TOP_LEFT = enum.auto()
    BOTTOM_RIGHT = enum.auto()


class attention_implementation(_Spelling):
    """How the library composes an attention; ``AUTO`` is ``COMPOSITE`` here."""

    AUTO = enum.auto()
    COMPOSITE = enum.auto()
    UNIFIED = enum.auto()


class convolution_mode(_Spelling):
    """Whether a filter is applied as it lies (``CROSS_CORRELATION``) or rotated by 180 degrees."""

    CROSS_CORRELATION = enum.auto()
    CONVOLUTION = enum.auto()


class reshape_mode(_Spelling):
    """Whether a reshape keeps the memory (``VIEW_ONLY``) or the order of elements (``LOGICAL``)."""

    VIEW_ONLY = enum.auto()
    LOGICAL = enum.auto()


class scalar_type(_Spelling):
    """Whether a scalar is part of the graph, or a value that an execution may replace."""

    RUNTIME_PARAM = enum.auto()
    COMPILE_TIME_CONST = enum.auto()


class resample_mode(_Spelling):
    """What a pooling window gives."""

    MAXPOOL = enum.auto()
    AVGPOOL_INCLUDE_PADDING = enum.auto()
    AVGPOOL_EXCLUDE_PADDING = enum.auto()
    BILINEAR = enum.auto()
    NEAREST = enum.auto()


class padding_mode(_Spelling):
    """What lies outside the input of a pooling."""

    ZERO_PAD = enum.auto()
    NEG_INF_PAD = enum.auto()
    EDGE_VAL_PAD = enum.auto()


# ---- Arguments -------------------------------------------------------------------------------------------------------

_ROUND_NUMBERS = ("INT32", "INT64")
_FRACTIONS = ("FLOAT", "DOUBLE", "HALF", "BFLOAT16")
# How JSON of frontend 1.32 numbers the types of scalars.
_SCALAR_INDEX = {"INT64": 0, "INT32": 1, "HALF": 2, "FLOAT": 3, "DOUBLE": 4, "BFLOAT16": 5}

# A member of an enumeration (also of cuDNN's own), its name, or for types a dtype of PyTorch or numpy.
Choice: TypeAlias = Any
_Slices: TypeAlias = Sequence[slice]  # the class below has a method of this name


def _kind(value: object) -> str:
    return type(value).__name__


def _spelling(kind: type[_Spelling], value: Choice, where: str) -> str | None:
    """The member's name that a value stands for; None for one that is not set."""
    if value is None:
        return None
    if isinstance(value, _Spelling):
        value = value.value
    if not isinstance(value, str):
        value = getattr(value, "name", None) or getattr(value, "__name__", None) or str(value)
    name = str(value).rpartition(".")[2]
    if kind is data_type and name not in kind.__members__:
        name = DTYPES.get(name, name)
    if name not in kind.__members__:
        known = ", ".join(member for member in kind.__members__ if member != "NOT_SET")
        raise MalformedGraph(f"{where}: found {value!r}; required: a {kind.__name__}: {known}")
    return None if name == "NOT_SET" else name


def _choice(kind: type[_Spelling], value: Choice, where: str) -> str:
    name = _spelling(kind, value, where)
    if name is None:
        raise MalformedGraph(f"{where}: not set; required: a {kind.__name__}")
    return name


def _integers(values: Iterable[Any], where: str) -> list[int]:
    try:
        return [operator.index(value) for value in values]
    except TypeError:
        raise TypeError(f"{where}: found {values!r}; required: integers") from None


def _number(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{where}: found {_kind(value)}; required: a number")
    return value


def _float_bits(value: float | None, where: str = "attribute") -> str | None:
    """A float as the JSON has it: eight hexadecimal digits."""
    if value is None:
        return None
    try:
        return struct.pack(">f", _number(value, where)).hex().upper()
    except OverflowError:
        raise MalformedGraph(f"{where}: {value} is out of the range of FLOAT") from None


def _row_major(dim: Sequence[int]) -> list[int]:
    stride = [1] * len(dim)
    for axis in range(len(dim) - 2, -1, -1):
        stride[axis] = stride[axis + 1] * max(dim[axis + 1], 1)
    return stride


def _layout(array: Any, where: str) -> tuple[list[int], list[int]]:
    """Extents and strides of an array, in elements."""
    if not hasattr(array, "shape"):
        raise TypeError(f"{where}: found {_kind(array)}; required: a Tensor, or an array with shape and strides")
    dim = _integers(array.shape, where)
    if callable(getattr(array, "stride", None)):
        return dim, _integers(array.stride(), where)
    stride = getattr(array, "strides", None)
    if stride is None:
        return dim, _row_major(dim)
    size = 1 if isinstance(array, Array) else int(array.dtype.itemsize)
    return dim, [step // size for step in _integers(stride, where)]


def _element_type(array: Any, where: str) -> str | None:
    return _spelling(data_type, getattr(array, "dtype", getattr(array, "data_type", None)), where)


def _is_host_scalar(array: Any, dim: Sequence[int]) -> bool:
    """Whether an array is one element in memory of the CPU."""
    if math.prod(dim) != 1:
        return False
    if hasattr(array, "device"):
        return str(getattr(array.device, "type", array.device)) == "cpu"
    return not hasattr(array, "__cuda_array_interface__")


# ---- Tensors ---------------------------------------------------------------------------------------------------------


class Tensor:
    """A tensor of a graph. Setters give the tensor back, so that they chain."""

    def __init__(self, graph: pygraph, name: str, uid: int, is_virtual: bool) -> None:
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
        self._data_type = _spelling(_DataType, data_type, self._where("data_type"))
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
_DataType = data_type  # where an argument has the enumeration's name


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


# ---- Tensors and nodes of a graph ------------------------------------------------------------------------------------


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
        is_dynamic_shape_enabled: bool = False,
        is_override_shape_enabled: bool = False,
        *,
        kernel_cache: KernelCache | None = None,
        session: Session | None = None,
    ) -> None:
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
        self._overridden: OrderedDict[Overrides, _Binding] = OrderedDict()
        self._text: str | None = None
        self._plans: Plans | None = None
        self._bindings: dict[Plan, _Binding] = {}
        self._modes: list[str] = ["A"]
        self._is_read = False

    def __repr__(self) -> str:
        return f"<pygraph {self._name!r}: {len(self._nodes)} operations, {len(self._tensors)} tensors>"

    def _changed(self) -> None:
        """Forgets what was made of the graph as it was. Raises ``MalformedGraph`` for one that was read."""
        if self._is_read:
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
        if not isinstance(self, pygraph):
            raise TypeError(f"found {_kind(self)}; required: a pygraph")
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
        named = _spelling(_DataType, data_type, f"{where}: data_type")
        kind = named or ("INT32" if isinstance(number, int) else "FLOAT")
        if kind not in _SCALAR_INDEX:
            raise MalformedGraph(f"{where}: data_type: found {kind}; required: {', '.join(_SCALAR_INDEX)}")
        is_constant = _choice(_ScalarType, scalar_type, f"{where}: scalar_type") == "COMPILE_TIME_CONST"
        return self._constant(number, kind, [1], name, is_constant)


_ScalarType = scalar_type


# ---- Pointwise operations --------------------------------------------------------------------------------------------


class _Unary(Protocol):
    def __call__(self, input: Operand, compute_data_type: Choice = None, name: str = "") -> Tensor: ...


class _Binary(Protocol):
    def __call__(self, a: Operand, b: Operand, compute_data_type: Choice = None, name: str = "") -> Tensor: ...


class _Numbered(Protocol):
    def __call__(
        self, input0: Operand, input1: Operand, compute_data_type: Choice = None, name: str = ""
    ) -> Tensor: ...


class _Comparison(Protocol):
    def __call__(
        self, input: Operand, comparison: Operand, compute_data_type: Choice = None, name: str = ""
    ) -> Tensor: ...


class _Gradient(Protocol):
    def __call__(self, loss: Operand, input: Operand, compute_data_type: Choice = None, name: str = "") -> Tensor: ...


_POINTWISE_ATTRIBUTES = (
    "axis",
    "relu_lower_clip",
    "relu_upper_clip",
    "relu_lower_clip_slope",
    "swish_beta",
    "elu_alpha",
    "softplus_beta",
)
# Keywords that cuDNN's frontend lacks.
_OWN_ATTRIBUTES = ("elu_alpha", "softplus_beta")
_WITH_REQUIRED_ATTRIBUTE = ("gen_index", "leaky_relu", "leaky_relu_backward")


def _pointwise(op: str, mode: str, *arguments: str, **attributes: str) -> Any:
    """A method for a mode: operands in the order of the ports, then attributes by argument, then type and name."""
    plain = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(argument, plain) for argument in ("self", *arguments)]
    default = inspect.Parameter.empty if op in _WITH_REQUIRED_ATTRIBUTE else None
    theirs = [argument for argument in attributes if argument not in _OWN_ATTRIBUTES]
    parameters += [inspect.Parameter(argument, plain, default=default) for argument in theirs]
    parameters += [inspect.Parameter("compute_data_type", plain, default=None)]
    parameters += [inspect.Parameter("name", plain, default="")]
    ours = [argument for argument in attributes if argument in _OWN_ATTRIBUTES]
    parameters += [inspect.Parameter(argument, inspect.Parameter.KEYWORD_ONLY, default=None) for argument in ours]
    signature = inspect.Signature(parameters)

    def method(*positional: Any, **keywords: Any) -> Tensor:
        try:
            bound = signature.bind(*positional, **keywords)
        except TypeError as error:
            raise TypeError(f"{op}: {error}; arguments are {', '.join(list(signature.parameters)[1:])}") from None
        bound.apply_defaults()
        graph, name, compute = (bound.arguments[key] for key in ("self", "name", "compute_data_type"))
        label = f"{op} {name!r}" if name else op
        values: dict[str, Any] = dict.fromkeys(_POINTWISE_ATTRIBUTES)
        for argument, key in attributes.items():
            value = bound.arguments[argument]
            values[key] = value if value is None or key == "axis" else _float_bits(value, f"{label}: {argument}")
        if values["axis"] is not None:
            values["axis"] = _integers([values["axis"]], f"{label}: axis")[0]
        operands = {f"IN_{index}": (argument, bound.arguments[argument]) for index, argument in enumerate(arguments)}
        missing = [argument for argument, value in operands.values() if value is None]
        if missing:
            raise TypeError(f"{label}: {missing[0]}: found None; required: a Tensor or a number")
        if not any(isinstance(value, Tensor) for _, value in operands.values()):
            kinds = ", ".join(_kind(value) for _, value in operands.values())
            raise TypeError(f"{label}: found {kinds}; required: a Tensor among {', '.join(arguments)}")
        output: Tensor = graph._add(
            op, "POINTWISE", name, operands, ["OUT_0"], compute, attributes={"mode": mode, **values}
        )[0]
        return output

    method.__name__ = op
    method.__qualname__ = f"pygraph.{op}"
    method.__doc__ = f"Pointwise ``{mode}`` of {', '.join(f'``{argument}``' for argument in arguments)}."
    vars(method)["__signature__"] = signature
    return method


_CLIPS = {
    "negative_slope": "relu_lower_clip_slope",
    "lower_clip": "relu_lower_clip",
    "upper_clip": "relu_upper_clip",
}
_SLOPE = {"negative_slope": "relu_lower_clip_slope"}


class _Pointwise(_Builder):
    """Pointwise operations: operands broadcast, and numbers among them become constants."""

    abs: _Unary = _pointwise("abs", "ABS", "input")
    ceil: _Unary = _pointwise("ceil", "CEIL", "input")
    cos: _Unary = _pointwise("cos", "COS", "input")
    erf: _Unary = _pointwise("erf", "ERF", "input")
    exp: _Unary = _pointwise("exp", "EXP", "input")
    floor: _Unary = _pointwise("floor", "FLOOR", "input")
    gelu: _Unary = _pointwise("gelu", "GELU_FWD", "input")
    gelu_approx_tanh: _Unary = _pointwise("gelu_approx_tanh", "GELU_APPROX_TANH_FWD", "input")
    identity: _Unary = _pointwise("identity", "IDENTITY", "input")
    log: _Unary = _pointwise("log", "LOG", "input")
    logical_not: _Unary = _pointwise("logical_not", "LOGICAL_NOT", "input")
    neg: _Unary = _pointwise("neg", "NEG", "input")
    reciprocal: _Unary = _pointwise("reciprocal", "RECIPROCAL", "input")
    rsqrt: _Unary = _pointwise("rsqrt", "RSQRT", "input")
    sigmoid: _Unary = _pointwise("sigmoid", "SIGMOID_FWD", "input")
    sin: _Unary = _pointwise("sin", "SIN", "input")
    sqrt: _Unary = _pointwise("sqrt", "SQRT", "input")
    tan: _Unary = _pointwise("tan", "TAN", "input")
    tanh: _Unary = _pointwise("tanh", "TANH_FWD", "input")

    elu: Callable[..., Tensor] = _pointwise("elu", "ELU_FWD", "input", elu_alpha="elu_alpha")
    softplus: Callable[..., Tensor] = _pointwise("softplus", "SOFTPLUS_FWD", "input", softplus_beta="softplus_beta")
    swish: Callable[..., Tensor] = _pointwise("swish", "SWISH_FWD", "input", swish_beta="swish_beta")
    relu: Callable[..., Tensor] = _pointwise("relu", "RELU_FWD", "input", **_CLIPS)
    leaky_relu: Callable[..., Tensor] = _pointwise("leaky_relu", "RELU_FWD", "input", **_SLOPE)
    gen_index: Callable[..., Tensor] = _pointwise("gen_index", "GEN_INDEX", "input", axis="axis")

    add: _Binary = _pointwise("add", "ADD", "a", "b")
    add_square: _Binary = _pointwise("add_square", "ADD_SQUARE", "a", "b")
    div: _Binary = _pointwise("div", "DIV", "a", "b")
    logical_and: _Binary = _pointwise("logical_and", "LOGICAL_AND", "a", "b")
    logical_or: _Binary = _pointwise("logical_or", "LOGICAL_OR", "a", "b")
    mul: _Binary = _pointwise("mul", "MUL", "a", "b")
    sub: _Binary = _pointwise("sub", "SUB", "a", "b")
    bias: Callable[..., Tensor] = _pointwise("bias", "ADD", "input", "bias")
    scale: Callable[..., Tensor] = _pointwise("scale", "MUL", "input", "scale")

    max: _Numbered = _pointwise("max", "MAX", "input0", "input1")
    min: _Numbered = _pointwise("min", "MIN", "input0", "input1")
    mod: _Numbered = _pointwise("mod", "MOD", "input0", "input1")
    pow: _Numbered = _pointwise("pow", "POW", "input0", "input1")
    binary_select: Callable[..., Tensor] = _pointwise("binary_select", "BINARY_SELECT", "input0", "input1", "mask")

    cmp_eq: _Comparison = _pointwise("cmp_eq", "CMP_EQ", "input", "comparison")
    cmp_ge: _Comparison = _pointwise("cmp_ge", "CMP_GE", "input", "comparison")
    cmp_gt: _Comparison = _pointwise("cmp_gt", "CMP_GT", "input", "comparison")
    cmp_le: _Comparison = _pointwise("cmp_le", "CMP_LE", "input", "comparison")
    cmp_lt: _Comparison = _pointwise("cmp_lt", "CMP_LT", "input", "comparison")
    cmp_neq: _Comparison = _pointwise("cmp_neq", "CMP_NEQ", "input", "comparison")

    gelu_backward: _Gradient = _pointwise("gelu_backward", "GELU_BWD", "loss", "input")
    gelu_approx_tanh_backward: _Gradient = _pointwise(
        "gelu_approx_tanh_backward", "GELU_APPROX_TANH_BWD", "loss", "input"
    )
    sigmoid_backward: _Gradient = _pointwise("sigmoid_backward", "SIGMOID_BWD", "loss", "input")
    tanh_backward: _Gradient = _pointwise("tanh_backward", "TANH_BWD", "loss", "input")
    elu_backward: Callable[..., Tensor] = _pointwise("elu_backward", "ELU_BWD", "loss", "input", elu_alpha="elu_alpha")
    softplus_backward: Callable[..., Tensor] = _pointwise(
        "softplus_backward", "SOFTPLUS_BWD", "loss", "input", softplus_beta="softplus_beta"
    )
    swish_backward: Callable[..., Tensor] = _pointwise(
        "swish_backward", "SWISH_BWD", "loss", "input", swish_beta="swish_beta"
    )
    relu_backward: Callable[..., Tensor] = _pointwise("relu_backward", "RELU_BWD", "loss", "input", **_CLIPS)
    leaky_relu_backward: Callable[..., Tensor] = _pointwise(
        "leaky_relu_backward", "RELU_BWD", "loss", "input", **_SLOPE
    )


# ---- Other operations ------------------------------------------------------------------------------------------------


def _or_none(outputs: Mapping[str, Tensor], ports: Sequence[str]) -> list[Tensor | None]:
    return [outputs.get(port) for port in ports]


_STATISTICS = ("MEAN", "INV_VARIANCE")
_RUNNING = ("NEXT_RUNNING_MEAN", "NEXT_RUNNING_VAR")


class _Matrix(_Pointwise):
    """Matrix products, convolutions, reductions, pooling."""

    def matmul(
        self, A: Tensor, B: Tensor, compute_data_type: Choice = None, padding: float = 0.0, name: str = ""
    ) -> Tensor:
        """A [..., M, K] times B [..., K, N]; batch extents broadcast."""
        attributes = {"padding_value": float(_number(padding, "matmul: padding"))}
        inputs = {"A": ("A", self._own(A, "matmul: A")), "B": ("B", self._own(B, "matmul: B"))}
        return self._add("matmul", "MATMUL", name, inputs, ["C"], compute_data_type, attributes=attributes)[0]

    def _window(self, op: str, values: Any, default: int, rank: int, where: str) -> list[int]:
        """An entry for each spatial axis; an empty list stands for the default on all."""
        entries = _integers([] if values is None else values, f"{op}: {where}")
        if entries and rank and len(entries) != rank:
            raise MalformedGraph(f"{op}: {where}: found {len(entries)} entries; required: {rank}, one a spatial axis")
        if not entries and not rank:
            raise MalformedGraph(f"{op}: {where}: not given; required, as no operand's extents are known yet")
        return entries or [default] * rank

    def _convolution(
        self,
        op: str,
        tag: str,
        output: str,
        operands: Mapping[str, tuple[str, Tensor]],
        padding: Sequence[int] | None,
        pre_padding: Sequence[int],
        post_padding: Sequence[int],
        stride: Sequence[int],
        dilation: Sequence[int],
        convolution_mode: Choice,
        compute_data_type: Choice,
        name: str,
    ) -> Tensor:
        label = f"{op} {name!r}" if name else op
        if padding is not None:
            if pre_padding or post_padding:
                raise TypeError(f"{label}: found padding beside pre_padding or post_padding; required: one of both")
            pre_padding = post_padding = padding
        for argument, operand in operands.values():
            self._own(operand, f"{label}: {argument}")
        rank = max(len(operand.get_dim()) for _, operand in operands.values()) - 2
        rank = max(rank, 0)
        attributes = {
            "pre_padding": self._window(label, pre_padding, 0, rank, "pre_padding"),
            "post_padding": self._window(label, post_padding, 0, rank, "post_padding"),
            "stride": self._window(label, stride, 1, rank, "stride"),
            "dilation": self._window(label, dilation, 1, rank, "dilation"),
            "math_mode": _choice(_ConvolutionMode, convolution_mode, f"{label}: convolution_mode"),
        }
        return self._add(op, tag, name, operands, [output], compute_data_type, attributes=attributes)[0]

    def conv_fprop(
        self,
        image: Tensor,
        weight: Tensor,
        pre_padding: Sequence[int] = (),
        post_padding: Sequence[int] = (),
        stride: Sequence[int] = (),
        dilation: Sequence[int] = (),
        convolution_mode: Choice = "CROSS_CORRELATION",
        compute_data_type: Choice = None,
        name: str = "",
        *,
        padding: Sequence[int] | None = None,
    ) -> Tensor:
        """Convolution of an image [N, G·C, ...] with a weight [K, C, ...]; ``padding`` is that of both sides."""
        operands = {"X": ("image", image), "W": ("weight", weight)}
        window = (padding, pre_padding, post_padding, stride, dilation, convolution_mode)
        return self._convolution("conv_fprop", "CONV_FPROP", "Y", operands, *window, compute_data_type, name)

    def conv_dgrad(
        self,
        loss: Tensor,
        filter: Tensor,
        pre_padding: Sequence[int] = (),
        post_padding: Sequence[int] = (),
        stride: Sequence[int] = (),
        dilation: Sequence[int] = (),
        convolution_mode: Choice = "CROSS_CORRELATION",
        compute_data_type: Choice = None,
        name: str = "",
        *,
        padding: Sequence[int] | None = None,
    ) -> Tensor:
        """The image's gradient; its extents must be set (``set_dim``)."""
        operands = {"DY": ("loss", loss), "W": ("filter", filter)}
        window = (padding, pre_padding, post_padding, stride, dilation, convolution_mode)
        return self._convolution("conv_dgrad", "CONV_DGRAD", "DX", operands, *window, compute_data_type, name)

    def conv_wgrad(
        self,
        image: Tensor,
        loss: Tensor,
        pre_padding: Sequence[int] = (),
        post_padding: Sequence[int] = (),
        stride: Sequence[int] = (),
        dilation: Sequence[int] = (),
        convolution_mode: Choice = "CROSS_CORRELATION",
        compute_data_type: Choice = None,
        name: str = "",
        *,
        padding: Sequence[int] | None = None,
    ) -> Tensor:
        """The weight's gradient; its extents must be set (``set_dim``)."""
        operands = {"X": ("image", image), "DY": ("loss", loss)}
        window = (padding, pre_padding, post_padding, stride, dilation, convolution_mode)
        return self._convolution("conv_wgrad", "CONV_WGRAD", "DW", operands, *window, compute_data_type, name)

    def reduction(self, input: Tensor, mode: Choice, compute_data_type: Choice = None, name: str = "") -> Tensor:
        """Reduces the axes on which the result's extents, which must be set (``set_dim``), are 1."""
        attributes = {"mode": _choice(reduction_mode, mode, "reduction: mode"), "is_deterministic": False}
        inputs = {"X": ("input", self._own(input, "reduction: input"))}
        return self._add("reduction", "REDUCTION", name, inputs, ["Y"], compute_data_type, attributes=attributes)[0]

    def genstats(self, input: Tensor, compute_data_type: Choice = None, name: str = "") -> list[Tensor]:
        """Sum and sum of squares over all axes but the channels': [1, C, 1, ...]."""
        inputs = {"X": ("input", self._own(input, "genstats: input"))}
        return self._add("genstats", "GENSTATS", name, inputs, ["SUM", "SQ_SUM"], compute_data_type)

    def resample_fwd(
        self,
        input: Tensor,
        mode: Choice,
        window: Sequence[int],
        stride: Sequence[int] = (),
        pre_padding: Sequence[int] = (),
        post_padding: Sequence[int] = (),
        padding_mode: Choice = None,
        generate_index: bool = False,
        name: str = "",
    ) -> list[Tensor | None]:
        """Pools windows: result, and the index of each maximum where asked for.

        Outside the input lies minus infinity for a maximum, else zero, unless ``padding_mode`` says otherwise.
        cuDNN's Python frontend has no pooling.
        """
        label = f"resample_fwd {name!r}" if name else "resample_fwd"
        sizes = _integers(window, f"{label}: window")
        kind = _choice(resample_mode, mode, f"{label}: mode")
        outside = "NEG_INF_PAD" if kind == "MAXPOOL" else "ZERO_PAD"
        attributes = {
            "resample_mode": kind,
            "padding_mode": _spelling(_PaddingMode, padding_mode, f"{label}: padding_mode") or outside,
            "window": sizes,
            "stride": self._window(label, stride, 1, len(sizes), "stride"),
            "pre_padding": self._window(label, pre_padding, 0, len(sizes), "pre_padding"),
            "post_padding": self._window(label, post_padding, 0, len(sizes), "post_padding"),
            "generate_index": bool(generate_index),
        }
        ports = ["Y", "Index"] if generate_index else ["Y"]
        inputs = {"X": ("input", self._own(input, f"{label}: input"))}
        made = self._add("resample_fwd", "RESAMPLE", name, inputs, ports, attributes=attributes, has_compute=False)
        return _or_none(dict(zip(ports, made, strict=True)), ["Y", "Index"])


class _Norms(_Matrix):
    """Normalisations; ``epsilon`` and ``momentum`` may be numbers."""

    def _norm(
        self,
        op: str,
        tag: str,
        phase: Choice,
        inputs: Mapping[str, tuple[str, object]],
        statistics: Sequence[str],
        compute_data_type: Choice,
        name: str,
    ) -> list[Tensor | None]:
        spelled = _choice(norm_forward_phase, phase, f"{op}: norm_forward_phase")
        ports = ["Y", *(statistics if spelled == "TRAINING" else ())]
        attributes = {"forward_phase": spelled}
        made = self._add(op, tag, name, inputs, ports, compute_data_type, attributes=attributes)
        return _or_none(dict(zip(ports, made, strict=True)), ["Y", *statistics])

    def _norm_backward(
        self,
        op: str,
        tag: str,
        tensors: Sequence[object],
        compute_data_type: Choice,
        name: str,
        *,
        ports: Sequence[str] = ("DX", "DSCALE", "DBIAS"),
        attributes: Mapping[str, Any] | None = None,
    ) -> list[Tensor]:
        """``tensors``: gradient, input, scale, mean, reciprocal standard deviation."""
        arguments = ("grad", "input", "scale", "mean", "inv_variance")
        keys = ("DY", "X", "SCALE", *_STATISTICS)
        inputs = {key: (argument, value) for key, argument, value in zip(keys, arguments, tensors, strict=True)}
        return self._add(op, tag, name, inputs, ports, compute_data_type, attributes=attributes)

    def layernorm(
        self,
        norm_forward_phase: Choice,
        input: Tensor,
        scale: Tensor | None = None,
        bias: Tensor | None = None,
        epsilon: Operand = 1e-5,
        compute_data_type: Choice = None,
        name: str = "",
    ) -> list[Tensor | None]:
        """Result, mean and reciprocal standard deviation; the last two in training only."""
        inputs = _norm_inputs(input, scale, bias, epsilon)
        return self._norm("layernorm", "LAYER_NORM", norm_forward_phase, inputs, _STATISTICS, compute_data_type, name)

    def layernorm_backward(
        self,
        grad: Tensor,
        input: Tensor,
        scale: Tensor | None = None,
        mean: Tensor | None = None,
        inv_variance: Tensor | None = None,
        compute_data_type: Choice = None,
        name: str = "",
    ) -> list[Tensor]:
        """Gradients of input, scale and bias."""
        tensors = (grad, input, scale, mean, inv_variance)
        return self._norm_backward("layernorm_backward", "LAYER_NORM_BPROP", tensors, compute_data_type, name)

    def adalayernorm(
        self,
        norm_forward_phase: Choice,
        input: Tensor,
        scale: Tensor,
        bias: Tensor | None = None,
        epsilon: Operand = 1e-5,
        compute_data_type: Choice = None,
        name: str = "",
    ) -> list[Tensor | None]:
        """As ``layernorm``, with a scale and bias for each batch entry."""
        inputs = _norm_inputs(input, scale, bias, epsilon)
        return self._norm(
            "adalayernorm", "ADA_LAYER_NORM", norm_forward_phase, inputs, _STATISTICS, compute_data_type, name
        )

    def adalayernorm_backward(
        self,
        grad: Tensor,
        input: Tensor,
        scale: Tensor,
        mean: Tensor | None = None,
        inv_variance: Tensor | None = None,
        compute_data_type: Choice = None,
        name: str = "",
    ) -> list[Tensor]:
        """Gradients of input, scale and bias."""
        tensors = (grad, input, scale, mean, inv_variance)
        return self._norm_backward("adalayernorm_backward", "ADA_LAYER_NORM_BPROP", tensors, compute_data_type, name)

    def instancenorm(
        self,
        norm_forward_phase: Choice,
        input: Tensor,
        scale: Tensor,
        bias: Tensor,
        epsilon: Operand = 1e-5,
        compute_data_type: Choice = None,
        name: str = "",
    ) -> list[Tensor | None]:
        """Result, mean and reciprocal standard deviation [N, C, 1, ...]; the last two in training only."""
        inputs = _norm_inputs(input, scale, bias, epsilon)
        return self._norm(
            "instancenorm", "INSTANCE_NORM", norm_forward_phase, inputs, _STATISTICS, compute_data_type, name
        )

    def instancenorm_backward(
        self,
        grad: Tensor,
        input: Tensor,
        scale: Tensor,
        mean: Tensor | None = None,
        inv_variance: Tensor | None = None,
        compute_data_type: Choice = None,
        name: str = "",
    ) -> list[Tensor]:
        """Gradients of input, scale and bias."""
        tensors = (grad, input, scale, mean, inv_variance)
        return self._norm_backward("instancenorm_backward", "INSTANCE_NORM_BPROP", tensors, compute_data_type, name)

    def rmsnorm(
        self,
        norm_forward_phase: Choice,
        input: Tensor,
        scale: Tensor | None = None,
        bias: Tensor | None = None,
        epsilon: Operand = 1e-5,
        compute_data_type: Choice = None,
        name: str = "",
    ) -> list[Tensor | None]:
        """Result and reciprocal root mean square; the latter in training only."""
        inputs = _norm_inputs(input, scale, bias, epsilon)
        statistics = _STATISTICS[1:]
        return self._norm("rmsnorm", "RMS_NORM", norm_forward_phase, inputs, statistics, compute_data_type, name)

    def rmsnorm_backward(
        self,
        grad: Tensor,
        input: Tensor,
        scale: Tensor | None = None,
        inv_variance: Tensor | None = None,
        has_dbias: bool = False,
        compute_data_type: Choice = None,
        name: str = "",
    ) -> list[Tensor | None]:
        """Gradients of input and scale, and with ``has_dbias`` of the bias."""
        ports = ["DX", "DSCALE", "DBIAS"][: 3 if has_dbias else 2]
        tensors = (grad, input, scale, None, inv_variance)
        made = self._norm_backward("rmsnorm_backward", "RMS_NORM_BPROP", tensors, compute_data_type, name, ports=ports)
        return _or_none(dict(zip(ports, made, strict=True)), ["DX", "DSCALE", "DBIAS"])

    def batchnorm(
        self,
        input: Tensor,
        scale: Tensor,
        bias: Tensor,
        in_running_mean: Tensor | None = None,
        in_running_var: Tensor | None = None,
        epsilon: Operand = 1e-5,
        momentum: Operand | None = None,
        peer_stats: Sequence[Tensor] = (),
        compute_data_type: Choice = None,
        name: str = "",
    ) -> list[Tensor | None]:
        """Result, mean, reciprocal standard deviation; new running mean and variance where old ones are given."""
        is_running = in_running_mean is not None
        if is_running != (in_running_var is not None) or is_running != (momentum is not None):
            raise TypeError("batchnorm: in_running_mean, in_running_var, momentum: required: all of them or none")
        inputs = {
            **_norm_inputs(input, scale, bias, epsilon),
            "PREV_RUNNING_MEAN": ("in_running_mean", in_running_mean),
            "PREV_RUNNING_VAR": ("in_running_var", in_running_var),
            "MOMENTUM": ("momentum", momentum),
        }
        ports = ["Y", *_STATISTICS, *(_RUNNING if is_running else ())]
        peers = [self._own(peer, "batchnorm: peer_stats") for peer in peer_stats]
        made = self._add(
            "batchnorm", "BATCHNORM", name, inputs, ports, compute_data_type, attributes={"peer_stats": peers}
        )
        return _or_none(dict(zip(ports, made, strict=True)), ["Y", *_STATISTICS, *_RUNNING])

    def batchnorm_inference(
        self,
        input: Tensor,
        mean: Tensor,
        inv_variance: Tensor,
        scale: Tensor,
        bias: Tensor,
        compute_data_type: Choice = None,
        name: str = "",
    ) -> Tensor:
        """Normalises by known statistics [1, C, 1, ...]."""
        inputs = {
            "X": ("input", input),
            "MEAN": ("mean", mean),
            "INV_VARIANCE": ("inv_variance", inv_variance),
            "SCALE": ("scale", scale),
            "BIAS": ("bias", bias),
        }
        return self._add("batchnorm_inference", "BATCHNORM_INFERENCE", name, inputs, ["Y"], compute_data_type)[0]

    def batchnorm_backward(
        self,
        grad: Tensor,
        input: Tensor,
        scale: Tensor,
        mean: Tensor | None = None,
        inv_variance: Tensor | None = None,
        peer_stats: Sequence[Tensor] = (),
        compute_data_type: Choice = None,
        name: str = "",
    ) -> list[Tensor]:
        """Gradients of input, scale and bias."""
        peers = [self._own(peer, "batchnorm_backward: peer_stats") for peer in peer_stats]
        tensors = (grad, input, scale, mean, inv_variance)
        attributes = {"peer_stats": peers}
        return self._norm_backward("batchnorm_backward", "DBN", tensors, compute_data_type, name, attributes=attributes)

    def dbn_weight(
        self,
        grad: Tensor,
        input: Tensor,
        scale: Tensor,
        mean: Tensor,
        inv_variance: Tensor,
        compute_data_type: Choice = None,
        name: str = "",
    ) -> list[Tensor]:
        """Gradients of scale and bias; bias and factors of gradient and input that give the input's gradient.

        cuDNN's Python frontend has no such method.
        """
        ports = ("DSCALE", "DBIAS", "EQ_BIAS", "EQ_SCALE_DY", "EQ_SCALE_X")
        tensors = (grad, input, scale, mean, inv_variance)
        return self._norm_backward("dbn_weight", "DBN_WEIGHT", tensors, compute_data_type, name, ports=ports)

    def bn_finalize(
        self,
        sum: Tensor,
        sq_sum: Tensor,
        scale: Tensor,
        bias: Tensor,
        epsilon: Operand,
        accum_count: Operand,
        in_running_mean: Tensor | None = None,
        in_running_var: Tensor | None = None,
        momentum: Operand | None = None,
        compute_data_type: Choice = None,
        name: str = "",
    ) -> list[Tensor | None]:
        """Scale, bias, mean, reciprocal standard deviation, running mean and variance from sums of ``genstats``.

        cuDNN's Python frontend has no such method.
        """
        inputs = {
            "SUM": ("sum", sum),
            "SQ_SUM": ("sq_sum", sq_sum),
            "SCALE": ("scale", scale),
            "BIAS": ("bias", bias),
            "EPSILON": ("epsilon", epsilon),
            "ACCUM_COUNT": ("accum_count", accum_count),
            "PREV_RUNNING_MEAN": ("in_running_mean", in_running_mean),
            "PREV_RUNNING_VAR": ("in_running_var", in_running_var),
            "MOMENTUM": ("momentum", momentum),
        }
        always = ("EQ_SCALE", "EQ_BIAS", *_STATISTICS)
        ports = [*always, *(_RUNNING if in_running_mean is not None else ())]
        made = self._add("bn_finalize", "BN_FINALIZE", name, inputs, ports, compute_data_type)
        return _or_none(dict(zip(ports, made, strict=True)), [*always, *_RUNNING])


def _norm_inputs(input: object, scale: object, bias: object, epsilon: object) -> dict[str, tuple[str, object]]:
    return {
        "X": ("input", input),
        "SCALE": ("scale", scale),
        "BIAS": ("bias", bias),
        "EPSILON": ("epsilon", epsilon),
    }


class _Movement(_Norms):
    """Operations that move elements."""

    def reshape(self, input: Tensor, name: str = "", reshape_mode: Choice = "VIEW_ONLY") -> Tensor:
        """The same elements with other extents, which must be set (``set_dim``)."""
        mode = _choice(_ReshapeMode, reshape_mode, "reshape: reshape_mode")
        attributes = {"dim": [], "stride": [], "reshape_mode": mode}
        inputs = {"X": ("input", self._own(input, "reshape: input"))}
        return self._add("reshape", "RESHAPE", name, inputs, ["Y"], attributes=attributes)[0]

    def transpose(
        self, input: Tensor, permutation: Sequence[int], compute_data_type: Choice = None, name: str = ""
    ) -> Tensor:
        """Axis i of the result is axis ``permutation[i]`` of the input."""
        attributes = {"permutation": _integers(permutation, "transpose: permutation")}
        inputs = {"X": ("input", self._own(input, "transpose: input"))}
        return self._add("transpose", "TRANSPOSE", name, inputs, ["Y"], compute_data_type, attributes=attributes)[0]

    def slice(self, input: Tensor, slices: _Slices = (), compute_data_type: Choice = None, name: str = "") -> Tensor:
        """A slice for each axis, of positive steps; axes beyond them are taken whole."""
        label = f"slice {name!r}" if name else "slice"
        dim = self._own(input, f"{label}: input").get_dim()
        cuts = [*slices, *[_WHOLE] * (len(dim) - len(slices))]
        bounds, steps = [], []
        for axis, cut in enumerate(cuts):
            start, limit, step = _bounds(cut, dim[axis] if axis < len(dim) else None, f"{label}: slices[{axis}]")
            bounds.append([start, limit])
            steps.append(step)
        attributes = {"slices": bounds, "slice_strides": steps}
        inputs = {"X": ("input", input)}
        return self._add("slice", "SLICE", name, inputs, ["Y"], compute_data_type, attributes=attributes)[0]

    def concatenate(
        self, inputs: Sequence[Tensor], axis: int, in_place_index: int | None = None, name: str = ""
    ) -> Tensor:
        """Joins tensors along an axis."""
        if isinstance(inputs, Tensor) or not inputs:
            raise TypeError("concatenate: inputs: required: a sequence of Tensors")
        attributes = {
            "axis": _integers([axis], "concatenate: axis")[0],
            "in_place_index": None if in_place_index is None else _integers([in_place_index], "concatenate: index")[0],
        }
        ports = {
            str(index): (f"inputs[{index}]", self._own(tensor, f"concatenate: inputs[{index}]"))
            for index, tensor in enumerate(inputs)
        }
        return self._add("concatenate", "CONCATENATE", name, ports, ["Y"], attributes=attributes, has_compute=False)[0]

    def block_scale_quantize(
        self,
        input: Tensor,
        block_size: int,
        axis: int | None = None,
        compute_data_type: Choice = None,
        name: str = "",
    ) -> list[Tensor]:
        """Quantized elements and the scale of each block along ``axis`` (the last one)."""
        attributes = {
            "block_size": _integers([block_size], "block_scale_quantize: block_size")[0],
            "axis": None if axis is None else _integers([axis], "block_scale_quantize: axis")[0],
        }
        inputs = {"X": ("input", self._own(input, "block_scale_quantize: input"))}
        ports = ["Y", "scale"]
        op = "block_scale_quantize"
        return self._add(op, op.upper(), name, inputs, ports, compute_data_type, attributes=attributes)

    def block_scale_dequantize(
        self,
        input: Tensor,
        descale: Tensor,
        block_size: Sequence[int],
        is_negative_scale: bool = False,
        compute_data_type: Choice = None,
        name: str = "",
    ) -> Tensor:
        """Elements times their blocks' scales."""
        attributes = {
            "block_size": _integers(block_size, "block_scale_dequantize: block_size"),
            "is_negative_scale": bool(is_negative_scale),
        }
        op = "block_scale_dequantize"
        inputs = {"X": ("input", self._own(input, f"{op}: input")), "scale": ("descale", descale)}
        return self._add(op, op.upper(), name, inputs, ["Y"], compute_data_type, attributes=attributes)[0]


_WHOLE = slice(None)
_ConvolutionMode = convolution_mode
_PaddingMode = padding_mode
_ReshapeMode = reshape_mode
_DiagonalAlignment = diagonal_alignment


def _bounds(cut: object, extent: int | None, where: str) -> tuple[int, int, int]:
    """Start, limit and step of a slice of an axis."""
    if not isinstance(cut, slice):
        raise TypeError(f"{where}: found {_kind(cut)}; required: a slice")
    if extent is not None:
        start, limit, step = cut.indices(extent)
    elif cut.stop is None:
        raise MalformedGraph(f"{where}: no limit; required, as the input's extents are not known yet")
    else:
        start, limit, step = cut.start or 0, cut.stop, cut.step or 1
    if step < 1 or start < 0 or limit <= start:
        found = f"{start}:{limit}:{step}"
        raise MalformedGraph(f"{where}: found {found}; required: a positive step and at least one element")
    return start, limit, step


# ---- Attention -------------------------------------------------------------------------------------------------------


class _Mask(NamedTuple):
    """Which scores are kept: by ALiBi's bias, sequence lengths, and a band round the diagonal."""

    use_alibi_mask: bool
    use_padding_mask: bool
    seq_len_q: Tensor | None
    seq_len_kv: Tensor | None
    use_causal_mask: bool
    use_causal_mask_bottom_right: bool
    sliding_window_length: int | None
    alignment: Choice
    left_bound: int | None
    right_bound: int | None

    def attributes(self, op: str) -> dict[str, Any]:
        """Attributes of the node; older spellings of a mask in terms of the band."""
        is_causal = self.use_causal_mask or self.use_causal_mask_bottom_right
        if is_causal and self.right_bound not in (None, 0):
            raise MalformedGraph(f"{op}: found a causal mask and diagonal_band_right_bound {self.right_bound}")
        if self.sliding_window_length is not None and self.left_bound is not None:
            raise MalformedGraph(f"{op}: found sliding_window_length and diagonal_band_left_bound; required: one")
        if self.use_padding_mask and (self.seq_len_q is None or self.seq_len_kv is None):
            raise MalformedGraph(f"{op}: use_padding_mask needs seq_len_q and seq_len_kv")
        left = self.left_bound if self.sliding_window_length is None else self.sliding_window_length
        alignment = _choice(diagonal_alignment, self.alignment, f"{op}: diagonal_alignment")
        return {
            "alibi_mask": bool(self.use_alibi_mask),
            "padding_mask": bool(self.use_padding_mask),
            "left_bound": left,
            "right_bound": 0 if is_causal else self.right_bound,
            "diagonal_alignment": "BOTTOM_RIGHT" if self.use_causal_mask_bottom_right else alignment,
        }


class _Attention(_Movement):
    """Scaled dot product attention: tensors are [B, H, S, D]."""

    def _scale(self, op: str, attn_scale: Operand | None) -> tuple[float | None, Tensor | None]:
        """The scale as a number or as a tensor."""
        if attn_scale is None or isinstance(attn_scale, Tensor):
            return None, attn_scale
        return _number(attn_scale, f"{op}: attn_scale"), None

    def _dropout(self, op: str, dropout: Sequence[Any] | None) -> tuple[float | None, dict[str, tuple[str, object]]]:
        """Probability, seed and offset; or mask and scales."""
        if dropout is None:
            return None, {}
        first, *rest = dropout
        if isinstance(first, Tensor) and 1 <= len(rest) <= 2:
            ports = ("Dropout_mask", "Dropout_scale", "Dropout_scale_inv")
            return None, {port: ("dropout", value) for port, value in zip(ports, dropout, strict=False)}
        if isinstance(first, Tensor) or len(rest) != 2:
            raise TypeError(f"{op}: dropout: required: (probability, seed, offset) or (mask, scale)")
        seed, offset = rest
        return _number(first, f"{op}: dropout"), {"Seed": ("dropout", seed), "Offset": ("dropout", offset)}

    def sdpa(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        is_inference: bool | None = None,
        attn_scale: Operand | None = None,
        bias: Tensor | None = None,
        block_mask: Tensor | None = None,
        use_alibi_mask: bool = False,
        use_padding_mask: bool = False,
        seq_len_q: Tensor | None = None,
        seq_len_kv: Tensor | None = None,
        use_causal_mask: bool = False,
        use_causal_mask_bottom_right: bool = False,
        sliding_window_length: int | None = None,
        diagonal_alignment: Choice = "TOP_LEFT",
        diagonal_band_left_bound: int | None = None,
        diagonal_band_right_bound: int | None = None,
        dropout: Sequence[Any] | None = None,
        rng_dump: Tensor | None = None,
        paged_attention_k_table: Tensor | None = None,
        paged_attention_v_table: Tensor | None = None,
        paged_attention_max_seq_len_kv: int | None = None,
        max_total_seq_len_q: int | None = None,
        max_total_seq_len_kv: int | None = None,
        compute_data_type: Choice = None,
        name: str = "",
        *,
        generate_stats: bool | None = None,
        implementation: Choice = "AUTO",
        score_max: Tensor | None = None,
        score_sum_exp: Tensor | None = None,
        sink_token: Tensor | None = None,
        unfuse_fma: bool = False,
        cu_seq_len_q: Tensor | None = None,
        cu_seq_len_kv: Tensor | None = None,
        stats_use_log2: bool = False,
    ) -> list[Tensor | None]:
        """The result, and with ``generate_stats`` (or ``is_inference=False``) the scores' log-sum-exp [B, H, S, 1].

        The result is row-major unless ``set_stride`` says otherwise. ``attn_scale`` multiplies the scores, ``dropout``
        is (probability, seed, offset) or (mask, scale); ``rng_dump``, ``score_max`` and ``score_sum_exp`` are tensors
        to write.
        """
        op = f"sdpa {name!r}" if name else "sdpa"
        mask = _Mask(
            use_alibi_mask,
            use_padding_mask,
            seq_len_q,
            seq_len_kv,
            use_causal_mask,
            use_causal_mask_bottom_right,
            sliding_window_length,
            diagonal_alignment,
            diagonal_band_left_bound,
            diagonal_band_right_bound,
        )
        for argument, tensor in (("q", q), ("k", k), ("v", v)):
            self._own(tensor, f"{op}: {argument}")
        probability, dropout_ports = self._dropout(op, dropout)
        scale, scale_tensor = self._scale(op, attn_scale)
        has_stats = bool(generate_stats) if generate_stats is not None else is_inference is False
        chosen = _choice(attention_implementation, implementation, f"{op}: implementation")
        inputs = {
            "Q": ("q", q),
            "K": ("k", k),
            "V": ("v", v),
            "Attn_scale": ("attn_scale", scale_tensor),
            "Bias": ("bias", bias),
            "Block_mask": ("block_mask", block_mask),
            "SEQ_LEN_Q": ("seq_len_q", seq_len_q),
            "SEQ_LEN_KV": ("seq_len_kv", seq_len_kv),
            "Page_table_K": ("paged_attention_k_table", paged_attention_k_table),
            "Page_table_V": ("paged_attention_v_table", paged_attention_v_table),
            "SINK_TOKEN": ("sink_token", sink_token),
            "CU_SEQ_LEN_Q": ("cu_seq_len_q", cu_seq_len_q),
            "CU_SEQ_LEN_KV": ("cu_seq_len_kv", cu_seq_len_kv),
            **dropout_ports,
        }
        attributes = {
            **mask.attributes(op),
            "dropout_probability": _float_bits(probability),
            "attn_scale_value": _float_bits(scale),
            "generate_stats": has_stats,
            "max_seq_len_kv": paged_attention_max_seq_len_kv,
            "mma_core_mode": "HALF",
            "implementation": "COMPOSITE" if chosen == "AUTO" else chosen,
            "unfuse_fma": bool(unfuse_fma),
            "is_mxfp8": False,
            "max_total_seq_len_q": max_total_seq_len_q,
            "max_total_seq_len_kv": max_total_seq_len_kv,
            "stats_use_log2": bool(stats_use_log2),
        }
        given = {
            "RNG_DUMP": ("rng_dump", rng_dump),
            "Max": ("score_max", score_max),
            "Sum_exp": ("score_sum_exp", score_sum_exp),
        }
        ports = ["O", "Stats"] if has_stats else ["O"]
        made = self._add("sdpa", "SDPA", name, inputs, ports, compute_data_type, attributes=attributes, given=given)
        if q.get_dim() and v.get_dim():
            made[0].set_dim([*q.get_dim()[:-1], v.get_dim()[-1]])
            made[0].set_stride(_row_major(made[0]._dim))
        if has_stats:
            made[1].set_data_type("FLOAT")
        return _or_none(dict(zip(ports, made, strict=True)), ["O", "Stats"])

    def sdpa_backward(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        o: Tensor,
        dO: Tensor,
        stats: Tensor,
        attn_scale: Operand | None = None,
        bias: Tensor | None = None,
        dBias: Tensor | None = None,
        use_alibi_mask: bool = False,
        use_padding_mask: bool = False,
        seq_len_q: Tensor | None = None,
        seq_len_kv: Tensor | None = None,
        max_total_seq_len_q: int | None = None,
        max_total_seq_len_kv: int | None = None,
        use_causal_mask: bool = False,
        use_causal_mask_bottom_right: bool = False,
        sliding_window_length: int | None = None,
        diagonal_alignment: Choice = "TOP_LEFT",
        diagonal_band_left_bound: int | None = None,
        diagonal_band_right_bound: int | None = None,
        dropout: Sequence[Any] | None = None,
        rng_dump: Tensor | None = None,
        use_deterministic_algorithm: bool = False,
        compute_data_type: Choice = None,
        name: str = "",
        *,
        sink_token: Tensor | None = None,
        dSink_token: Tensor | None = None,
    ) -> list[Tensor]:
        """Gradients of q, k and v, with extents and strides of those unless they are set otherwise.

        ``dBias``, ``rng_dump`` and ``dSink_token`` are tensors to write.
        """
        op = f"sdpa_backward {name!r}" if name else "sdpa_backward"
        mask = _Mask(
            use_alibi_mask,
            use_padding_mask,
            seq_len_q,
            seq_len_kv,
            use_causal_mask,
            use_causal_mask_bottom_right,
            sliding_window_length,
            diagonal_alignment,
            diagonal_band_left_bound,
            diagonal_band_right_bound,
        )
        probability, dropout_ports = self._dropout(op, dropout)
        scale, scale_tensor = self._scale(op, attn_scale)
        arguments = {"q": q, "k": k, "v": v, "o": o, "dO": dO, "stats": stats}
        ports = ("Q", "K", "V", "O", "dO", "Stats")
        required = {
            port: (argument, self._own(tensor, f"{op}: {argument}"))
            for port, (argument, tensor) in zip(ports, arguments.items(), strict=True)
        }
        inputs: dict[str, tuple[str, object]] = {
            **required,
            "Attn_scale": ("attn_scale", scale_tensor),
            "Bias": ("bias", bias),
            "SEQ_LEN_Q": ("seq_len_q", seq_len_q),
            "SEQ_LEN_KV": ("seq_len_kv", seq_len_kv),
            "SINK_TOKEN": ("sink_token", sink_token),
            **dropout_ports,
        }
        attributes = {
            **mask.attributes(op),
            "dropout_probability": _float_bits(probability),
            "attn_scale_value": _float_bits(scale),
            "max_total_seq_len_q": max_total_seq_len_q,
            "max_total_seq_len_kv": max_total_seq_len_kv,
            "is_deterministic_algorithm": bool(use_deterministic_algorithm),
        }
        given = {
            "dBias": ("dBias", dBias),
            "RNG_DUMP": ("rng_dump", rng_dump),
            "DSINK_TOKEN": ("dSink_token", dSink_token),
        }
        made = self._add(
            "sdpa_backward",
            "SDPA_BWD",
            name,
            inputs,
            ["dQ", "dK", "dV"],
            compute_data_type,
            attributes=attributes,
            given=given,
        )
        for gradient, tensor in zip(made, (q, k, v), strict=True):
            if tensor.get_dim():
                gradient.set_dim(tensor.get_dim()).set_stride(tensor.get_stride())
        return made


class _Fp8Attention(_Attention):
    """The same of tensors in FP8, each with a factor that descales it, or by which it is scaled: FLOAT [1, 1, 1, 1]."""

    def _totals(self, made: Sequence[Tensor]) -> None:
        """Largest magnitudes of whole tensors."""
        for total in made:
            total.set_dim([1, 1, 1, 1]).set_stride([1, 1, 1, 1]).set_data_type("FLOAT")

    def sdpa_fp8(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        descale_q: Tensor,
        descale_k: Tensor,
        descale_v: Tensor,
        descale_s: Tensor,
        scale_s: Tensor,
        scale_o: Tensor,
        is_inference: bool | None = None,
        attn_scale: Operand | None = None,
        bias: Tensor | None = None,
        use_alibi_mask: bool = False,
        use_padding_mask: bool = False,
        seq_len_q: Tensor | None = None,
        seq_len_kv: Tensor | None = None,
        use_causal_mask: bool = False,
        use_causal_mask_bottom_right: bool = False,
        sliding_window: int | None = None,
        diagonal_alignment: Choice = "TOP_LEFT",
        left_bound: int | None = None,
        right_bound: int | None = None,
        dropout: Sequence[Any] | None = None,
        rng_dump: Tensor | None = None,
        paged_attention_k_table: Tensor | None = None,
        paged_attention_v_table: Tensor | None = None,
        paged_attention_max_seq_len_kv: int | None = None,
        max_total_seq_len_q: int | None = None,
        max_total_seq_len_kv: int | None = None,
        compute_data_type: Choice = None,
        name: str = "",
        *,
        generate_stats: bool | None = None,
        score_max: Tensor | None = None,
        score_sum_exp: Tensor | None = None,
        sink_token: Tensor | None = None,
        unfuse_fma: bool = False,
        implementation: Choice = "AUTO",
        cu_seq_len_q: Tensor | None = None,
        cu_seq_len_kv: Tensor | None = None,
        stats_use_log2: bool = False,
    ) -> list[Tensor | None]:
        """The result, log-sum-exp or ``None``, the largest magnitudes of the weights and of the result.

        The last two stay virtual unless they are set as outputs. Other arguments are those of ``sdpa``.
        """
        op = f"sdpa_fp8 {name!r}" if name else "sdpa_fp8"
        mask = _Mask(
            use_alibi_mask,
            use_padding_mask,
            seq_len_q,
            seq_len_kv,
            use_causal_mask,
            use_causal_mask_bottom_right,
            sliding_window,
            diagonal_alignment,
            left_bound,
            right_bound,
        )
        required = {
            "Q": ("q", q),
            "K": ("k", k),
            "V": ("v", v),
            "Descale_Q": ("descale_q", descale_q),
            "Descale_K": ("descale_k", descale_k),
            "Descale_V": ("descale_v", descale_v),
            "Descale_S": ("descale_s", descale_s),
            "Scale_S": ("scale_s", scale_s),
            "Scale_O": ("scale_o", scale_o),
        }
        for argument, tensor in required.values():
            self._own(tensor, f"{op}: {argument}")
        probability, dropout_ports = self._dropout(op, dropout)
        scale, scale_tensor = self._scale(op, attn_scale)
        has_stats = bool(generate_stats) if generate_stats is not None else is_inference is False
        chosen = _choice(attention_implementation, implementation, f"{op}: implementation")
        inputs: dict[str, tuple[str, object]] = {
            **required,
            "Attn_scale": ("attn_scale", scale_tensor),
            "Bias": ("bias", bias),
            "SEQ_LEN_Q": ("seq_len_q", seq_len_q),
            "SEQ_LEN_KV": ("seq_len_kv", seq_len_kv),
            "Page_table_K": ("paged_attention_k_table", paged_attention_k_table),
            "Page_table_V": ("paged_attention_v_table", paged_attention_v_table),
            "SINK_TOKEN": ("sink_token", sink_token),
            "CU_SEQ_LEN_Q": ("cu_seq_len_q", cu_seq_len_q),
            "CU_SEQ_LEN_KV": ("cu_seq_len_kv", cu_seq_len_kv),
            **dropout_ports,
        }
        attributes = {
            **mask.attributes(op),
            "dropout_probability": _float_bits(probability),
            "attn_scale_value": _float_bits(scale),
            "generate_stats": has_stats,
            "max_seq_len_kv": paged_attention_max_seq_len_kv,
            "mma_core_mode": "FP8_E4M3",
            "implementation": "COMPOSITE" if chosen == "AUTO" else chosen,
            "unfuse_fma": bool(unfuse_fma),
            "is_mxfp8": False,
            "max_total_seq_len_q": max_total_seq_len_q,
            "max_total_seq_len_kv": max_total_seq_len_kv,
            "stats_use_log2": bool(stats_use_log2),
        }
        given = {
            "RNG_DUMP": ("rng_dump", rng_dump),
            "Max": ("score_max", score_max),
            "Sum_exp": ("score_sum_exp", score_sum_exp),
        }
        ports = ["O", *(["Stats"] if has_stats else []), "Amax_S", "Amax_O"]
        made = self._add(
            "sdpa_fp8", "SDPA_FP8_FWD", name, inputs, ports, compute_data_type, attributes=attributes, given=given
        )
        if q.get_dim() and v.get_dim():
            made[0].set_dim([*q.get_dim()[:-1], v.get_dim()[-1]])
            made[0].set_stride(_row_major(made[0]._dim))
        if has_stats:
            made[1].set_data_type("FLOAT")
        self._totals(made[-2:])
        return _or_none(dict(zip(ports, made, strict=True)), ["O", "Stats", "Amax_S", "Amax_O"])

    def sdpa_fp8_backward(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        o: Tensor,
        dO: Tensor,
        stats: Tensor,
        descale_q: Tensor,
        descale_k: Tensor,
        descale_v: Tensor,
        descale_o: Tensor,
        descale_dO: Tensor,
        descale_s: Tensor,
        descale_dP: Tensor,
        scale_s: Tensor,
        scale_dQ: Tensor,
        scale_dK: Tensor,
        scale_dV: Tensor,
        scale_dP: Tensor,
        attn_scale: Operand | None = None,
        use_padding_mask: bool = False,
        seq_len_q: Tensor | None = None,
        seq_len_kv: Tensor | None = None,
        use_causal_mask: bool = False,
        use_causal_mask_bottom_right: bool = False,
        diagonal_alignment: Choice = "TOP_LEFT",
        left_bound: int | None = None,
        right_bound: int | None = None,
        use_deterministic_algorithm: bool = False,
        dropout: Sequence[Any] | None = None,
        compute_data_type: Choice = None,
        name: str = "",
        *,
        sink_token: Tensor | None = None,
        dSink_token: Tensor | None = None,
        max_total_seq_len_q: int | None = None,
        max_total_seq_len_kv: int | None = None,
    ) -> list[Tensor]:
        """Gradients of q, k and v, then the largest magnitudes of these and of the gradient of the scores.

        ``dSink_token`` is a tensor to write. Other arguments are those of ``sdpa_backward``.
        """
        op = f"sdpa_fp8_backward {name!r}" if name else "sdpa_fp8_backward"
        mask = _Mask(
            False,
            use_padding_mask,
            seq_len_q,
            seq_len_kv,
            use_causal_mask,
            use_causal_mask_bottom_right,
            None,
            diagonal_alignment,
            left_bound,
            right_bound,
        )
        required: dict[str, tuple[str, object]] = {
            "Q": ("q", q),
            "K": ("k", k),
            "V": ("v", v),
            "O": ("o", o),
            "dO": ("dO", dO),
            "Stats": ("stats", stats),
            "Descale_Q": ("descale_q", descale_q),
            "Descale_K": ("descale_k", descale_k),
            "Descale_V": ("descale_v", descale_v),
            "Descale_O": ("descale_o", descale_o),
            "Descale_dO": ("descale_dO", descale_dO),
            "Descale_S": ("descale_s", descale_s),
            "Descale_dP": ("descale_dP", descale_dP),
            "Scale_S": ("scale_s", scale_s),
            "Scale_dQ": ("scale_dQ", scale_dQ),
            "Scale_dK": ("scale_dK", scale_dK),
            "Scale_dV": ("scale_dV", scale_dV),
            "Scale_dP": ("scale_dP", scale_dP),
        }
        for argument, tensor in required.values():
            self._own(tensor, f"{op}: {argument}")
        probability, dropout_ports = self._dropout(op, dropout)
        scale, scale_tensor = self._scale(op, attn_scale)
        inputs: dict[str, tuple[str, object]] = {
            **required,
            "Attn_scale": ("attn_scale", scale_tensor),
            "SEQ_LEN_Q": ("seq_len_q", seq_len_q),
            "SEQ_LEN_KV": ("seq_len_kv", seq_len_kv),
            "SINK_TOKEN": ("sink_token", sink_token),
            **dropout_ports,
        }
        band = {key: value for key, value in mask.attributes(op).items() if key != "alibi_mask"}
        attributes = {
            **band,
            "dropout_probability": _float_bits(probability),
            "attn_scale_value": _float_bits(scale),
            "is_deterministic_algorithm": bool(use_deterministic_algorithm),
            "is_mxfp8": False,
            "max_total_seq_len_q": max_total_seq_len_q,
            "max_total_seq_len_kv": max_total_seq_len_kv,
        }
        made = self._add(
            "sdpa_fp8_backward",
            "SDPA_FP8_BWD",
            name,
            inputs,
            ["dQ", "dK", "dV", "Amax_dQ", "Amax_dK", "Amax_dV", "Amax_dP"],
            compute_data_type,
            attributes=attributes,
            given={"DSINK_TOKEN": ("dSink_token", dSink_token)},
        )
        for gradient, tensor in zip(made, (q, k, v), strict=False):
            if tensor.get_dim():
                gradient.set_dim(tensor.get_dim()).set_stride(tensor.get_stride())
        self._totals(made[3:])
        return made


# ---- Life cycle ------------------------------------------------------------------------------------------------------


class _Place(NamedTuple):
    """A tensor that executions are given."""

    role: str
    uid: int
    name: str
    dim: list[int]
    data_type: str
    default: float | None
    turned_dim: list[int] | None  # as the caller states it, where a plan has its last two axes in the other order

    def __str__(self) -> str:
        return f"{self.role} {self.name!r} (uid {self.uid})"


class _Binding(NamedTuple):
    """A plan, and what an execution of it takes, in the plan's order."""

    plan: Plan
    inputs: list[_Place]
    outputs: list[_Place]
    memory: list[_Place]  # inputs that are no scalars, then outputs
    scalars: list[_Place]
    device: str
    is_on_gpu: bool
    workspace_bytes: int


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise MalformedGraph(f"deserialize: no text in UTF-8: {error}") from None


def _address(array: Any, what: object) -> int:
    """The address of an array in memory of a GPU."""
    try:
        address: int = array.data_ptr()
    except AttributeError:
        pass
    else:
        return address
    if isinstance(array, int):
        return array
    interface = getattr(array, "__cuda_array_interface__", None)
    if interface is None:
        required = "an address, or an array with data_ptr() or __cuda_array_interface__"
        raise ExecutionError(f"execute: {what}: found {_kind(array)}; required: {required}")
    return int(interface["data"][0])


def _given(tensors: Mapping[int, Any], place: _Place) -> Any:
    """What the caller gives for a tensor."""
    value = tensors.get(place.uid)
    if value is None:
        raise ExecutionError(f"execute: {place} is not given")
    return value


def _scalar(tensors: Mapping[int, Any], place: _Place) -> Any:
    """The number that the caller gives for a scalar, or the one it was made with."""
    value = tensors.get(place.uid, place.default)
    if value is None:
        raise ExecutionError(f"execute: {place} is not given")
    return value.item() if hasattr(value, "item") else value


def _stream_of(stream: Any, device: str) -> int:
    """The number of a stream of any library; without one PyTorch's current stream, where PyTorch uses the GPU."""
    if stream is None:
        torch = sys.modules.get("torch")
        if torch is None or not torch.cuda.is_initialized():
            return 0
        return int(torch.cuda.current_stream(device).cuda_stream)
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    for attribute in ("cuda_stream", "ptr"):
        if hasattr(stream, attribute):
            return int(getattr(stream, attribute))
    if isinstance(stream, int):
        return stream
    raise ExecutionError(f"stream: found {_kind(stream)}; required: a number, or a stream of PyTorch or CuPy")


def _turned(array: Any, place: _Place) -> Any:
    """An input as the plan takes it."""
    if place.turned_dim is None or list(getattr(array, "shape", place.turned_dim)) != place.turned_dim:
        return array
    if not hasattr(array, "swapaxes"):
        import numpy

        array = numpy.from_dlpack(array)
    return array.swapaxes(-1, -2)


def _swapped(sizes: Sequence[int]) -> list[int]:
    return [*sizes[:-2], sizes[-1], sizes[-2]] if len(sizes) > 1 else list(sizes)


def _require_target(target: Any, place: _Place) -> None:
    where = f"execute: {place}"
    shape = list(getattr(target, "shape", ()))
    if shape != place.dim:
        raise ExecutionError(f"{where}: found {_kind(target)} of shape {shape}; required: shape {place.dim}")
    found = _element_type(target, where)
    if found != place.data_type:
        raise ExecutionError(f"{where}: found {found}; required: {place.data_type}")


def _copy(source: Array, target: Any) -> None:
    """Writes an output into the caller's array."""
    if hasattr(target, "copy_"):
        target.copy_(sys.modules["torch"].from_dlpack(source))
        return
    import numpy

    target[...] = numpy.from_dlpack(source)


def _workspace(workspace: Any, size: int) -> int:
    """The address of a workspace of at least this many bytes."""
    if size == 0:
        return 0
    if workspace is None:
        raise ExecutionError(f"execute: no workspace; required: {size} bytes of memory of the GPU")
    found = getattr(workspace, "nbytes", None)
    if found is not None and found < size:
        raise ExecutionError(f"execute: workspace of {found} bytes; required: {size}")
    return _address(workspace, "workspace")


class pygraph(_Fp8Attention):
    """A graph of operations that grows by its methods, each of which gives the tensors it makes.

    Results are virtual until ``set_output(True)``. Types that are not set are ``io_data_type`` in memory,
    ``intermediate_data_type`` of virtual tensors and ``compute_data_type`` of operations. Plans are made by
    ``session``, or by one on GPU 0 that is made when it is needed. Of ``handle`` executions have the stream. Changing a
    graph after it was built makes it unbuilt.
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
        if self._nodes or self._is_read:
            raise MalformedGraph(f"graph {self._name!r}: deserialize: it has operations; required: a graph without any")
        text = data if isinstance(data, str) else _text(data)
        self._graph = Graph.from_json(text, self._name or "graph")
        self._text, self._is_read = text, True
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

    def check(self, arch: str = "sm_90") -> Verdict:
        """Whether the graph runs on a chip, and every rule that stands against it."""
        return self.finalize().check(arch)

    def explain(self, arch: str = "sm_90") -> str:
        """What ``fusewright explain`` prints about the graph."""
        return self.finalize().explain(arch)

    def source(self, arch: str = "sm_90") -> str:
        """The CUDA text of the graph's kernel. Raises ``NotSupported``."""
        return self.finalize().source(arch)

    def validate(self) -> None:
        """Raises ``MalformedGraph`` for a graph that is not well formed."""
        self.finalize()

    def build_operation_graph(self) -> None:
        """As ``validate``."""
        self.finalize()

    def create_execution_plans(self, heuristics: Sequence[Choice] | None = None) -> None:
        """Lists plans by heuristics' names, each plan once; all are there again that were deselected."""
        where = "create_execution_plans: heuristics"
        if isinstance(heuristics, str):
            raise TypeError(f"{where}: found {heuristics!r}; required: a list of heur_modes")
        modes = [_choice(heur_mode, mode, where) for mode in (["A"] if heuristics is None else heuristics)]
        if not modes:
            raise InputError(f"{where}: found none; required: a heur_mode at least")
        self.finalize()
        self._modes = list(dict.fromkeys("A" if mode == "OPENSOURCE" else mode for mode in modes))
        self._selected(None)
        self._plans = None
        self._bindings.clear()

    def check_support(self) -> None:
        """Makes the session's plan. Raises ``NotSupported``."""
        self._planned()

    def build_plans(self, policy: Choice = "HEURISTICS_CHOICE") -> None:
        """Makes the selected plan, which is the first unless another was selected, or all. Raises ``NotSupported``."""
        is_all = _choice(build_plan_policy, policy, "build_plans: policy") == "ALL"
        if is_all:
            self._listed().build_all("build_plans")
        self._planned()

    def get_execution_plan_count(self) -> int:
        """Number of plans in the list of ``create_execution_plans``. Raises ``NotSupported``."""
        return len(self._listed().configs)

    def get_plan_name_at_index(self, index: SupportsIndex) -> str:
        """Engine and knobs of a plan, as the command line prints them."""
        return self._listed().at(index, "get_plan_name_at_index").name

    def get_workspace_size_plan_at_index(self, index: SupportsIndex) -> int:
        """Bytes of memory of a GPU that an execution of a plan's kernels needs."""
        return self._listed().at(index, "get_workspace_size_plan_at_index").workspace_bytes

    def build_plan_at_index(self, index: SupportsIndex) -> pygraph:
        """Makes a plan, which is then the one that ``execute`` has."""
        return self._selected(self._listed().built(index, "build_plan_at_index"))

    def select_plan(self, index: SupportsIndex) -> pygraph:
        """As ``build_plan_at_index``."""
        return self._selected(self._listed().built(index, "select_plan"))

    def deselect_engines(self, engine_names: Iterable[str]) -> pygraph:
        """Leaves out plans whose names contain one of these; those after them move up, and the first is selected."""
        names = [] if isinstance(engine_names, str) else list(engine_names)
        if isinstance(engine_names, str) or not all(isinstance(name, str) for name in names):
            raise TypeError(f"deselect_engines: found {engine_names!r}; required: a list of names")
        return self._keep(f"deselect_engines({names})", lambda config: not any(name in config.name for name in names))

    def deselect_workspace_greater_than(self, workspace_limit: int) -> pygraph:
        """Leaves out plans whose kernels need more bytes of memory of a GPU than these, as ``deselect_engines``."""
        limit = _integers([workspace_limit], "deselect_workspace_greater_than")[0]
        return self._keep(f"deselect_workspace_greater_than({limit})", lambda config: config.workspace_bytes <= limit)

    def _keep(self, why: str, is_kept: Callable[[Config], bool]) -> pygraph:
        self._listed().keep(why, is_kept)
        return self._selected(None)

    def _selected(self, plan: Plan | None) -> pygraph:
        self._plan, self._binding = plan, None
        self._overridden.clear()
        return self

    def _listed(self) -> Plans:
        graph = self.finalize()
        if self._plans is None:
            self._plans = Plans(self._made_session(), graph, self._modes)
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
        """Bytes of memory of the GPU that an execution needs, with the shapes that it is given if it is."""
        given = overrides(override_uids, override_shapes, override_strides)
        return self._binding_of(given).workspace_bytes if given else self._planned().workspace_bytes

    def _planned(self) -> Plan:
        graph = self.finalize()
        if self._plan is None:
            self._plan = self._listed().built(0, "plan") if self._is_listed() else self._made_session().plan(graph)
        return self._plan

    def _is_listed(self) -> bool:
        """Whether the plan is one of a list, which may not begin with the session's own."""
        return self._plans is not None or self._modes[0] == "FALLBACK"

    def _made_session(self) -> Session:
        if self._session is None:
            self._session = Session()
        return self._session

    def _uid_of(self, key: object) -> int:
        if isinstance(key, Tensor):
            return self._own(key, "execute: tensor_dict")._uid
        if isinstance(key, int) and not isinstance(key, bool):
            return key
        if hasattr(key, "__index__") and not isinstance(key, bool):
            return operator.index(key)
        if isinstance(key, str):
            tensors = [(tensor._name, tensor._uid) for tensor in self._tensors.values()]
            if self._is_read:
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
        binding = self._overridden.get(given)
        if binding is None:
            self.finalize()
            text = overridden(self.to_json(), given, is_enabled=self._is_override_shape_enabled)
            graph = Graph.from_json(text, self._name or "graph")
            if self._is_listed():
                plan = self._listed().of_shapes(graph, self._planned().config)
            else:
                plan = self._made_session().plan(graph)
            binding = self._overridden[given] = self._bound(plan, given)
            if len(self._overridden) > MOST_SHAPES:
                self._overridden.popitem(last=False)
        self._overridden.move_to_end(given)
        return binding

    def _bound(self, plan: Plan, given: Overrides = ()) -> _Binding:
        stated = self._stated_shapes(given)

        def turned_dim(info: TensorInfo) -> list[int] | None:
            dim, stride = stated.get(info.uid, ([], []))
            is_same = (dim, stride) == (info.dim, info.stride)
            return dim if not is_same and (_swapped(dim), _swapped(stride)) == (info.dim, info.stride) else None

        def place(role: str, info: TensorInfo) -> _Place:
            tensor = None if self._is_read else self._tensors.get(info.uid)
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
        has_shapes = not (override_uids is override_shapes is override_strides is None)
        shapes = overrides(override_uids, override_shapes, override_strides) if has_shapes else ()
        self._execute(self._binding_of(shapes), tensor_dict, workspace, self._stream(stream, handle))

    def execute_plan_at_index(
        self,
        tensor_dict: Mapping[Any, Any],
        workspace: Any = None,
        index: SupportsIndex = 0,
        handle: object = None,
        *,
        stream: Any = None,
    ) -> None:
        """As ``execute``, by a plan of the list, which is made when it is first asked for; another may be selected."""
        plan = self._listed().built(index, "execute_plan_at_index")
        if plan not in self._bindings:
            self._bindings[plan] = self._bound(plan)
        self._execute(self._bindings[plan], tensor_dict, workspace, self._stream(stream, handle))

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
