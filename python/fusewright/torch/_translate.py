"""Translation of regions of an FX graph into graphs of the cuDNN frontend's JSON.

`ANCHORS` has the operations with a core (matmul, convolution) that a graph is built around, `POINTWISE` those that can
be part of it. Whatever is in neither table, and whatever raises `Untranslatable`, stays with Inductor.

Intermediate values are virtual FLOAT tensors, as in the kernels that Inductor makes; under strict rounding they have
the type of the FX value. Names and uids count from 1 in each graph, so that equal regions have one text.
"""

import json
import operator
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import torch
from torch.fx import Node

from ._layout import Extents, channels_last, fill_unit_axes, restride, row_major, same_strides
from ._op import DATA_TYPES
from ._sizes import concrete, has_numbers, is_static

aten = torch.ops.aten
prims = torch.ops.prims

FLOATS = (torch.float16, torch.bfloat16, torch.float32)
VIEWS = frozenset(
    {
        aten.view.default,
        aten.reshape.default,
        aten._unsafe_view.default,
        aten.unsqueeze.default,
        aten.squeeze.default,
        aten.squeeze.dim,
        aten.squeeze.dims,
        aten.alias.default,
        aten.detach.default,
    }
)
"""Views that keep the order of elements."""

CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}
"""The memory formats that a copy can have, by rank."""

CASTS = frozenset({prims.convert_element_type.default, aten._to_copy.default, aten.clone.default})
"""Copies in the order of elements, in which at most the type changes."""


class Untranslatable(Exception):
    """No graph says what the region computes; the text names the reason."""


def tensor_value(node: Node) -> torch.Tensor:
    """The fake tensor that stands for a node's value, with numbers for its extents and strides."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        raise Untranslatable(f"{node.name} is not a tensor")
    if not has_numbers(value):
        raise Untranslatable(f"{node.name} has symbolic extents that stand for no number yet")
    return concrete(value)


def is_symbolic(node: Node) -> bool:
    """Whether a tensor's extents or strides depend on symbols."""
    return not is_static(node.meta["val"])


def fill_value(node: Node) -> float | None:
    """The number that a constant of no axes holds, `None` for any other node."""
    if node.target is aten.full.default and not node.args[0] and isinstance(node.args[1], (int, float)):
        return float(node.args[1])
    if node.target is aten.scalar_tensor.default and isinstance(node.args[0], (int, float)):
        return float(node.args[0])
    return None


@dataclass(frozen=True)
class Anchor:
    """An operation with a core: `call` computes it, `value` is the node of its (one) result."""

    call: Node
    value: Node
    kind: str

    @property
    def is_convolution(self) -> bool:
        return self.kind in ("conv_fprop", "conv_dgrad", "conv_wgrad")


@dataclass
class Translation:
    """A region as a graph: its text, the nodes whose values it reads, and those whose values it writes, by uid."""

    text: str
    inputs: list[Node]
    outputs: list[Node]
    relayout_inputs: set[Node] = field(default_factory=set)
    """Inputs that must be copied to channels-last first."""
    relayout_outputs: set[Node] = field(default_factory=set)
    """Outputs that are channels-last, and are to be copied to their own layout."""
    sized_text: str = ""
    """Where sizes are symbolic, the text with terms for them; `text` has the sizes that were compiled with."""
    sizes: list[Node] = field(default_factory=list)
    """Values that the terms read beside the operands' sizes."""


class RegionWriter:
    """Writes one region's graph, node by node in topological order."""

    def __init__(
        self,
        anchor: Anchor,
        outputs: Iterable[Node],
        *,
        strict_rounding: bool,
        relayout: bool,
        is_dynamic: bool = False,
    ) -> None:
        self.anchor = anchor
        self.is_dynamic = is_dynamic
        self.dim = _graph_extents(anchor)
        self.outputs = set(outputs)
        self.strict_rounding = strict_rounding
        self.relayout = relayout
        self.values: dict[Node, int] = {}
        self.input_nodes: list[Node] = []
        self.relayout_inputs: set[Node] = set()
        self.relayout_outputs: set[Node] = set()
        self._written: dict[int, Node] = {}
        self._inputs: dict[tuple[Node, Extents, Extents], int] = {}
        self._constants: dict[float, int] = {}
        self._tensors: list[dict[str, Any]] = []
        self._nodes: list[dict[str, Any]] = []

    def write(self, members: Sequence[Node]) -> Translation:
        """The graph of the anchor and `members`, pointwise operations, casts and views in topological order."""
        dependent = {self.anchor.value}
        for node in members:
            if not dependent.isdisjoint(node.all_input_nodes):
                dependent.add(node)
            else:
                self._member(node)
        self.values[self.anchor.value] = ANCHORS[self.anchor.call.target].write(self, self.anchor)
        self._set_type(self.anchor.value)
        self._publish(self.anchor.value)
        for node in members:
            if node in dependent:
                self._member(node)
        written = [self._written[uid] for uid in sorted(self._written)]
        return Translation(self._text(), self.input_nodes, written, self.relayout_inputs, self.relayout_outputs)

    def _member(self, node: Node) -> None:
        if node.target in VIEWS:
            self.values[node] = self.values[node.all_input_nodes[0]]
            return
        if tensor_value(node).numel() != prod(self.dim):
            raise Untranslatable(f"{node.name} has other extents than the core")
        if node.target in CASTS:
            self._cast(node)
            return
        self.values[node] = POINTWISE[node.target](self, node)
        self._set_type(node)
        self._publish(node)

    # Operands.

    def operand(self, source: Any, shape: Sequence[int], *, truth: bool = False) -> int:
        """The tensor of an argument that is broadcast to `shape`, extents of as many elements as the graph's."""
        if isinstance(source, (bool, complex)) or not isinstance(source, (int, float, Node)):
            raise Untranslatable(f"argument {source!r}")
        if not isinstance(source, Node):
            return self.constant(float(source))
        if source in self.values:
            is_truth = tensor_value(source).dtype is torch.bool
            if is_truth != truth:
                raise Untranslatable(f"{source.name} is {'a truth value' if is_truth else 'a number'}")
            return self.values[source]
        value = fill_value(source)
        if value is not None and not truth:
            return self.constant(value)
        allowed = (torch.bool,) if truth else FLOATS
        if tensor_value(source).dtype not in allowed:
            raise Untranslatable(f"operand of type {tensor_value(source).dtype}")
        return self.external(source, shape, self.dim)

    def external(self, source: Node, shape: Sequence[int], target: Extents) -> int:
        """An operand in memory, broadcast to `shape` and read under the extents `target`."""
        while source.target is aten.expand.default:
            source = source.args[0]  # type: ignore[assignment]
        value = tensor_value(source)
        if value.device != tensor_value(self.anchor.value).device:
            raise Untranslatable(f"operand {source.name} is on another device")
        _require_no_truths_in_memory(source)
        dim, stride = _broadcast_layout(value, shape, target)
        return self._input(source, dim, stride)

    def activation(self, source: Node) -> int:
        """An operand of a convolution, channels-last."""
        value = tensor_value(source)
        dim, stride = tuple(value.shape), channels_last(value.shape)
        if not same_strides(dim, value.stride(), stride):
            if not self.relayout or value.dim() not in CHANNELS_LAST:
                raise Untranslatable(f"operand {source.name} is not channels-last")
            self.relayout_inputs.add(source)
        return self._input(source, dim, stride)

    def _input(self, source: Node, dim: Extents, stride: Extents) -> int:
        uid = self._inputs.get((source, dim, stride))
        if uid is None:
            uid = self._tensor(dim, stride, _type_name(tensor_value(source).dtype))
            self._inputs[source, dim, stride] = uid
            self.input_nodes.append(source)
        return uid

    def constant(self, value: float) -> int:
        """A host scalar of type FLOAT."""
        uid = self._constants.get(value)
        if uid is None:
            ones = (1,) * len(self.dim)
            uid = self._constants[value] = self._tensor(ones, ones, "FLOAT", value=value)
        return uid

    # Nodes.

    def pointwise(self, mode: str, *operands: int) -> int:
        """The virtual result of a pointwise operation."""
        result = self.virtual("BOOLEAN" if mode.startswith("CMP_") else "FLOAT")
        self._nodes.append(
            {
                "tag": "POINTWISE",
                "name": f"{mode.lower()}.{len(self._nodes)}",
                "mode": mode,
                "compute_data_type": "FLOAT",
                "axis": None,
                "relu_lower_clip": None,
                "relu_upper_clip": None,
                "relu_lower_clip_slope": None,
                "swish_beta": None,
                "elu_alpha": None,
                "softplus_beta": None,
                "inputs": {f"IN_{port}": uid for port, uid in enumerate(operands)},
                "outputs": {"OUT_0": result},
            }
        )
        return result

    def core(self, tag: str, inputs: dict[str, int], output: str, compute: str = "FLOAT", **attributes: Any) -> int:
        """The virtual result of a matmul or convolution that computes in this type."""
        result = self.virtual("INT32" if compute == "INT32" else "FLOAT")
        node = {"tag": tag, "name": tag.lower(), "compute_data_type": compute, **attributes}
        self._nodes.append({**node, "inputs": inputs, "outputs": {output: result}})
        return result

    def virtual(self, data_type: str) -> int:
        stride = channels_last(self.dim) if self.anchor.is_convolution else row_major(self.dim)
        return self._tensor(self.dim, stride, data_type, virtual=True)

    def _cast(self, node: Node) -> None:
        """A copy to another type is its source's tensor, and a node only where both are needed."""
        source = node.all_input_nodes[0]
        types = (tensor_value(source).dtype, tensor_value(node).dtype)
        if types[1] not in FLOATS or types[0] not in (*FLOATS, torch.int32) or node.kwargs.get("device"):
            raise Untranslatable(f"cast from {types[0]} to {types[1]}")
        if types[0] is torch.int32 and source not in self.values:
            raise Untranslatable("operand of type torch.int32")
        uid = self.operand(source, tensor_value(node).shape)
        is_output = node in self.outputs
        rounds = self.strict_rounding and types[1] is not torch.float32
        if is_output or rounds:
            if not self._is_sole_use(source) or not self._record(uid)["is_virtual"] or self._has_readers(uid):
                uid = self.pointwise("IDENTITY", uid)
            self._record(uid)["data_type"] = _type_name(types[1]) if is_output or rounds else "FLOAT"
        self.values[node] = uid
        self._publish(node)

    def _has_readers(self, uid: int) -> bool:
        return any(uid in node["inputs"].values() for node in self._nodes)

    def _is_sole_use(self, source: Node) -> bool:
        """Whether the tensor behind a node, and behind the views and casts it comes through, is used once."""
        while len(source.users) == 1:
            if source.target not in VIEWS and source.target not in CASTS:
                return True
            source = source.all_input_nodes[0]
            if source not in self.values:
                return True
        return False

    def _set_type(self, node: Node) -> None:
        dtype = tensor_value(node).dtype
        if self.strict_rounding and dtype in FLOATS:
            self._record(self.values[node])["data_type"] = _type_name(dtype)

    def _publish(self, node: Node) -> None:
        """Makes a value an output of the graph where something outside of the region reads it."""
        if node not in self.outputs:
            return
        _require_no_truths_in_memory(node)
        value = tensor_value(node)
        uid = self.values[node]
        stride = restride(value.shape, value.stride(), self.dim)
        if stride is None or any(s == 0 for d, s in zip(self.dim, stride, strict=True) if d > 1):
            raise Untranslatable(f"result {node.name} has strides of its own")
        if self.anchor.is_convolution:
            packed = channels_last(self.dim)
            if not same_strides(self.dim, stride, packed):
                if not self.relayout or not same_strides(self.dim, stride, row_major(self.dim)):
                    raise Untranslatable(f"result {node.name} is not channels-last")
                self.relayout_outputs.add(node)
            stride = packed
        self._record(uid).update(is_virtual=False, data_type=_type_name(value.dtype), stride=list(stride))
        self._written[uid] = node

    # Text.

    def _record(self, uid: int) -> dict[str, Any]:
        return self._tensors[uid - 1]

    def _tensor(
        self, dim: Extents, stride: Extents, data_type: str, *, virtual: bool = False, value: float | None = None
    ) -> int:
        uid = len(self._tensors) + 1
        scalar = None if value is None else {"index": 3, "value": struct.pack(">f", value).hex().upper()}
        self._tensors.append(
            {
                "uid": uid,
                "name": f"t{uid}",
                "data_type": data_type,
                "dim": list(dim),
                "stride": list(stride),
                "is_virtual": virtual,
                "is_pass_by_value": value is not None,
                "pass_by_value": scalar,
                "reordering_type": "NONE",
            }
        )
        return uid

    def _drop_unread(self) -> None:
        """Leaves out operations that nothing reads, whose place another one took, and what they alone read."""
        virtual = {tensor["uid"] for tensor in self._tensors if tensor["is_virtual"]}
        for number in reversed(range(len(self._nodes))):
            results = set(self._nodes[number]["outputs"].values())
            if results <= virtual and not any(self._has_readers(uid) for uid in results):
                del self._nodes[number]
        used = {uid for node in self._nodes for port in ("inputs", "outputs") for uid in node[port].values()}
        self._tensors = [tensor for tensor in self._tensors if tensor["uid"] in used]

    def _text(self) -> str:
        self._drop_unread()
        context = {
            "compute_data_type": "FLOAT",
            "intermediate_data_type": "FLOAT",
            "io_data_type": _type_name(tensor_value(self.anchor.value).dtype),
            "is_dynamic_shape_enabled": self.is_dynamic,
            "is_override_shape_enabled": False,
            "sm_count": -1,
        }
        graph = {
            "context": context,
            "cudnn_backend_version": "9.21.0",
            "cudnn_frontend_version": 13200,
            "gid": 0,
            "json_version": "2.0",
            "nodes": self._nodes,
            "tensors": self._tensors,
        }
        return json.dumps(graph, separators=(",", ":"), sort_keys=True)


def _require_no_truths_in_memory(node: Node) -> None:
    """Truth values in memory are bits in graphs, and bytes in PyTorch; only the engines of a CPU take the latter."""
    value = tensor_value(node)
    if value.dtype is torch.bool and value.device.type != "cpu":
        raise Untranslatable(f"{node.name} has truth values in memory")


def _type_name(dtype: torch.dtype) -> str:
    try:
        return DATA_TYPES[dtype]
    except KeyError:
        raise Untranslatable(f"tensor of type {dtype}") from None


def _broadcast_layout(value: torch.Tensor, shape: Sequence[int], target: Extents) -> tuple[Extents, Extents]:
    """Extents and strides of an operand under `target`, with one element along every axis that it is broadcast over."""
    missing = len(shape) - value.dim()
    extents, strides = (1,) * missing + tuple(value.shape), (0,) * missing + value.stride()
    steps = []
    for extent, step, wanted in zip(extents, strides, shape, strict=True) if missing >= 0 else ():
        if extent not in (1, wanted) or (step == 0 and extent > 1):
            raise Untranslatable(f"operand of extents {list(value.shape)} for {list(shape)}")
        steps.append(0 if extent == 1 else step)
    found = restride(shape, steps, target) if missing >= 0 else None
    if found is None:
        raise Untranslatable(f"operand of extents {list(value.shape)} under {list(target)}")
    dim = tuple(1 if step == 0 else extent for extent, step in zip(target, found, strict=True))
    return dim, fill_unit_axes(dim, found)


# Cores.


@dataclass(frozen=True)
class Core:
    """How an ATen operation becomes a core: what it is called here, and what writes it."""

    kind: str
    write: Callable[[RegionWriter, Anchor], int]


def _graph_extents(anchor: Anchor) -> Extents:
    shape = tuple(tensor_value(anchor.value).shape)
    return shape if anchor.is_convolution or len(shape) == 3 else (1, *shape)


def _argument(node: Node, index: int, name: str, default: Any) -> Any:
    return node.args[index] if len(node.args) > index else node.kwargs.get(name, default)


def _matmul(writer: RegionWriter, a: Any, b: Any, compute: str = "FLOAT") -> int:
    batch, rows, columns = writer.dim
    if not isinstance(a, Node) or not isinstance(b, Node):
        raise Untranslatable("matmul of something that is no tensor")
    left, right = tensor_value(a).shape, tensor_value(b).shape
    depth = left[-1]
    inputs = {
        "A": writer.external(a, left, (batch, rows, depth)),
        "B": writer.external(b, right, (batch, depth, columns)),
    }
    return writer.core("MATMUL", inputs, "C", compute, padding_value=0.0)


def _plain_matmul(writer: RegionWriter, anchor: Anchor) -> int:
    _require_types(anchor, FLOATS)
    return _matmul(writer, anchor.call.args[0], anchor.call.args[1])


def _integer_matmul(writer: RegionWriter, anchor: Anchor) -> int:
    _require_types(anchor, (torch.int8,))
    return _matmul(writer, anchor.call.args[0], anchor.call.args[1], "INT32")


def _added_matmul(writer: RegionWriter, anchor: Anchor) -> int:
    """`beta * bias + alpha * (a @ b)`."""
    _require_types(anchor, FLOATS)
    call = anchor.call
    alpha, beta = call.kwargs.get("alpha", 1), call.kwargs.get("beta", 1)
    result = _scaled(writer, _matmul(writer, call.args[1], call.args[2]), alpha)
    if beta == 0:
        return result
    bias = writer.operand(call.args[0], tensor_value(anchor.value).shape)
    return writer.pointwise("ADD", result, _scaled(writer, bias, beta))


def _fp8_matmul(writer: RegionWriter, anchor: Anchor) -> int:
    """`(a @ b) * scale_a * scale_b + bias`, of FP8 operands; fast accumulation is a compute type."""
    _require_types(anchor, (torch.float8_e4m3fn, torch.float8_e5m2), operands=2)
    call = anchor.call
    if _argument(call, 5, "scale_result", None) is not None:
        raise Untranslatable("_scaled_mm with scale_result")
    shape = tensor_value(anchor.value).shape
    is_fast = _argument(call, 7, "use_fast_accum", False)
    result = _matmul(writer, call.args[0], call.args[1], "FAST_FLOAT_FOR_FP8" if is_fast else "FLOAT")
    for scale in (call.args[2], call.args[3]):
        result = writer.pointwise("MUL", result, writer.operand(scale, shape))
    bias = _argument(call, 4, "bias", None)
    return result if bias is None else writer.pointwise("ADD", result, writer.operand(bias, shape))


def _scaled(writer: RegionWriter, uid: int, factor: Any) -> int:
    if not isinstance(factor, (int, float)):
        raise Untranslatable(f"factor {factor!r}")
    return uid if factor == 1 else writer.pointwise("MUL", uid, writer.constant(float(factor)))


def _require_types(anchor: Anchor, allowed: Sequence[torch.dtype], operands: int = 3) -> None:
    for source in anchor.call.all_input_nodes[:operands]:
        dtype = tensor_value(source).dtype
        if dtype not in allowed:
            raise Untranslatable(f"operand of type {dtype}")


def _convolution_attributes(stride: Any, padding: Any, dilation: Any) -> dict[str, Any]:
    return {
        "math_mode": "CROSS_CORRELATION",
        "pre_padding": list(padding),
        "post_padding": list(padding),
        "stride": list(stride),
        "dilation": list(dilation),
    }


def _convolution(writer: RegionWriter, anchor: Anchor) -> int:
    _require_types(anchor, FLOATS)
    image, weight, bias, stride, padding, dilation, transposed = anchor.call.args[:7]
    if transposed:
        raise Untranslatable("transposed convolution")
    inputs = {"X": writer.activation(image), "W": writer.activation(weight)}  # type: ignore[arg-type]
    result = writer.core("CONV_FPROP", inputs, "Y", **_convolution_attributes(stride, padding, dilation))
    if bias is None:
        return result
    per_channel = (1, writer.dim[1], *(1,) * (len(writer.dim) - 2))
    value = tensor_value(bias)  # type: ignore[arg-type]
    if value.dim() != 1 or not value.is_contiguous():
        raise Untranslatable("bias that is no vector")
    strides = fill_unit_axes(per_channel, (0, 1, *(0,) * (len(writer.dim) - 2)))
    return writer.pointwise("ADD", result, writer._input(bias, per_channel, strides))  # type: ignore[arg-type]


def _convolution_gradient(writer: RegionWriter, anchor: Anchor) -> int:
    _require_types(anchor, FLOATS)
    gradient, image, weight, _, stride, padding, dilation, transposed = anchor.call.args[:8]
    if transposed:
        raise Untranslatable("gradient of a transposed convolution")
    attributes = _convolution_attributes(stride, padding, dilation)
    inputs = {"DY": writer.activation(gradient)}  # type: ignore[arg-type]
    if anchor.kind == "conv_dgrad":
        inputs["W"] = writer.activation(weight)  # type: ignore[arg-type]
        return writer.core("CONV_DGRAD", inputs, "DX", **attributes)
    inputs["X"] = writer.activation(image)  # type: ignore[arg-type]
    return writer.core("CONV_WGRAD", inputs, "DW", **attributes)


ANCHORS: dict[Any, Core] = {
    aten.mm.default: Core("mm", _plain_matmul),
    aten.bmm.default: Core("bmm", _plain_matmul),
    aten.addmm.default: Core("addmm", _added_matmul),
    aten.baddbmm.default: Core("baddbmm", _added_matmul),
    aten._int_mm.default: Core("int_mm", _integer_matmul),
    aten._scaled_mm.default: Core("scaled_mm", _fp8_matmul),
    aten.convolution.default: Core("conv_fprop", _convolution),
    aten.convolution_backward.default: Core("conv_backward", _convolution_gradient),
}

GRADIENTS = {0: "conv_dgrad", 1: "conv_wgrad"}
"""The results of `convolution_backward` that are cores."""


def anchors_of(node: Node) -> list[Anchor]:
    """The anchors that a node computes: one, or up to two for the gradients of a convolution."""
    core = ANCHORS.get(node.target)
    if core is None:
        return []
    if core.kind != "conv_backward":
        return [Anchor(node, node, core.kind)]
    results = [u for u in node.users if u.target is operator.getitem and u.args[1] in GRADIENTS]
    return [Anchor(node, u, GRADIENTS[u.args[1]]) for u in results if u.users]  # type: ignore[index]


# Pointwise operations.

Lowering = Callable[[RegionWriter, Node], int]


def _operands(writer: RegionWriter, node: Node, count: int) -> list[int]:
    shape = tensor_value(node).shape
    return [writer.operand(argument, shape) for argument in node.args[:count]]


def _unary(mode: str) -> Lowering:
    return lambda writer, node: writer.pointwise(mode, *_operands(writer, node, 1))


def _binary(mode: str) -> Lowering:
    def lower(writer: RegionWriter, node: Node) -> int:
        if node.kwargs:
            raise Untranslatable(f"{node.target} with {', '.join(node.kwargs)}")
        return writer.pointwise(mode, *_operands(writer, node, 2))

    return lower


def _quotient(writer: RegionWriter, node: Node) -> int:
    """`a / b`, which is SWISH_FWD where it is what SiLU is decomposed to."""
    if _is_silu(node):
        return writer.pointwise("SWISH_FWD", *_operands(writer, node, 1))
    return _binary("DIV")(writer, node)


def _is_silu(node: Node) -> bool:
    """Whether a quotient is `x / (1 + exp(-x))`."""
    value, divisor = node.args[:2]
    chain = []
    for target in (aten.add.Tensor, aten.exp.default, aten.neg.default):
        if not isinstance(divisor, Node) or divisor.target is not target or divisor.kwargs:
            return False
        chain.append(divisor)
        divisor = divisor.args[0]
    return divisor is value and chain[0].args[1:] == (1,)


def _sum(mode: str) -> Lowering:
    """`a + alpha * b` or `a - alpha * b`."""

    def lower(writer: RegionWriter, node: Node) -> int:
        left, right = _operands(writer, node, 2)
        return writer.pointwise(mode, left, _scaled(writer, right, _argument(node, 2, "alpha", 1)))

    return lower


def _power(writer: RegionWriter, node: Node) -> int:
    exponent = node.args[1]
    (base,) = _operands(writer, node, 1)
    if exponent == 2:
        return writer.pointwise("MUL", base, base)
    if exponent == 0.5:
        return writer.pointwise("SQRT", base)
    return writer.pointwise("POW", base, writer.operand(exponent, tensor_value(node).shape))


def _clamp(writer: RegionWriter, node: Node) -> int:
    (result,) = _operands(writer, node, 1)
    bounds = (_argument(node, 1, "min", None), _argument(node, 2, "max", None))
    for mode, bound in zip(("MAX", "MIN"), bounds, strict=True):
        if bound is not None:
            result = writer.pointwise(mode, result, writer.operand(bound, tensor_value(node).shape))
    return result


def _bound(mode: str) -> Lowering:
    """`clamp_min` and `clamp_max`."""
    return lambda writer, node: writer.pointwise(mode, *_operands(writer, node, 2))


def _select(writer: RegionWriter, node: Node) -> int:
    condition, yes, no = node.args
    shape = tensor_value(node).shape
    predicate = writer.operand(condition, shape, truth=True)
    return writer.pointwise("BINARY_SELECT", writer.operand(yes, shape), writer.operand(no, shape), predicate)


POINTWISE: dict[Any, Lowering] = {
    aten.add.Tensor: _sum("ADD"),
    aten.add.Scalar: _sum("ADD"),
    aten.sub.Tensor: _sum("SUB"),
    aten.sub.Scalar: _sum("SUB"),
    aten.mul.Tensor: _binary("MUL"),
    aten.mul.Scalar: _binary("MUL"),
    aten.div.Tensor: _quotient,
    aten.div.Scalar: _binary("DIV"),
    aten.maximum.default: _binary("MAX"),
    aten.minimum.default: _binary("MIN"),
    aten.pow.Tensor_Scalar: _power,
    aten.pow.Tensor_Tensor: _binary("POW"),
    aten.clamp.default: _clamp,
    aten.clamp_min.default: _bound("MAX"),
    aten.clamp_max.default: _bound("MIN"),
    aten.where.self: _select,
    aten.neg.default: _unary("NEG"),
    aten.abs.default: _unary("ABS"),
    aten.exp.default: _unary("EXP"),
    aten.log.default: _unary("LOG"),
    aten.sqrt.default: _unary("SQRT"),
    aten.rsqrt.default: _unary("RSQRT"),
    aten.reciprocal.default: _unary("RECIPROCAL"),
    aten.erf.default: _unary("ERF"),
    aten.tanh.default: _unary("TANH_FWD"),
    aten.sigmoid.default: _unary("SIGMOID_FWD"),
    aten.relu.default: _unary("RELU_FWD"),
    aten.eq.Tensor: _binary("CMP_EQ"),
    aten.eq.Scalar: _binary("CMP_EQ"),
    aten.ne.Tensor: _binary("CMP_NEQ"),
    aten.ne.Scalar: _binary("CMP_NEQ"),
    aten.lt.Tensor: _binary("CMP_LT"),
    aten.lt.Scalar: _binary("CMP_LT"),
    aten.le.Tensor: _binary("CMP_LE"),
    aten.le.Scalar: _binary("CMP_LE"),
    aten.gt.Tensor: _binary("CMP_GT"),
    aten.gt.Scalar: _binary("CMP_GT"),
    aten.ge.Tensor: _binary("CMP_GE"),
    aten.ge.Scalar: _binary("CMP_GE"),
}


def can_be_member(node: Node) -> bool:
    """Whether a node is of a kind that a region can hold; its arguments may still speak against it."""
    if node.op != "call_function" or (node.target not in POINTWISE and node.target not in CASTS):
        return False
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and has_numbers(value) and value.dtype in (*FLOATS, torch.bool)
