# mypy: allow-untyped-calls
"""Norms of groups: calls of `group_norm` become one graph with the activation behind them, before PyTorch takes them
apart.

Only what Inductor would fuse no further is taken: norms that a convolution, a matmul or the caller reads, of what is in
memory; and only where they were measured to be faster, with their gradients where those are needed.
"""

import dataclasses
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._prims_common import suggest_memory_format
from torch.fx import Graph, GraphModule, Node

import fusewright

from . import _op
from ._calls import CallPass, FusedCall, fake, require_supported, symbolic
from ._layout import row_major
from ._options import Options
from ._pass import architecture, session_obstacle
from ._sizes import is_static
from ._timing import with_gradients
from ._translate import CHANNELS_LAST, Untranslatable

functional = torch.nn.functional

TARGETS = (functional.group_norm, torch.group_norm)
PARAMETERS = ("input", "num_groups", "weight", "bias", "eps")
DEFAULTS: dict[str, Any] = {"weight": None, "bias": None, "eps": 1e-5}
ACTIVATIONS: dict[Any, str] = {functional.silu: "swish", functional.relu: "relu", torch.relu: "relu"}
"""What is computed with a norm, by the graph's operation."""
READERS = (
    torch.conv1d,
    torch.conv2d,
    torch.conv3d,
    functional.linear,
    torch.matmul,
    torch.bmm,
    functional.scaled_dot_product_attention,
)
"""What Inductor calls, and computes nothing with."""
CONVOLUTIONS = (torch.conv2d, torch.conv3d)
"""Those that have a layout of their own."""
VIEWS = {
    *("permute", "transpose", "reshape", "view", "flatten"),
    *(torch.permute, torch.transpose, torch.reshape, torch.flatten),
}
"""What may stand between a norm and what reads it: methods, and functions."""
OWN_MEMORY = {"permute", "transpose", "view", torch.permute, torch.transpose}
"""Those that never copy."""
SUMS = (operator.add, operator.iadd, torch.add)
TYPES = (torch.float16, torch.bfloat16, torch.float32)


@dataclass(frozen=True)
class GroupNorm:
    """A call that a graph can express, with the activation of its result."""

    node: Node
    """The call of the norm."""
    result: Node
    """The activation, or the norm."""
    input: Node
    groups: int
    weight: Node | None
    bias: Node | None
    epsilon: float
    has_gradients: bool

    @property
    def operands(self) -> list[Node]:
        """What the operator takes, in the order of the graph's tensors."""
        return [n for n in (self.input, self.weight, self.bias) if n is not None]

    @property
    def activation(self) -> str | None:
        return None if self.result is self.node else ACTIVATIONS[self.result.target]

    @property
    def views(self) -> list[Node]:
        """Views of the result, one of the other, that alone are read."""
        found: list[Node] = []
        end = self.result
        while len(end.users) == 1 and _is_view(user := next(iter(end.users)), end):
            found.append(user)
            end = user
        return found

    @property
    def end(self) -> Node:
        """What is read: the result, or the last view."""
        return self.views[-1] if self.views else self.result


@dataclass(frozen=True)
class Fused(FusedCall):
    """A norm that an engine takes."""

    norm: GroupNorm

    @property
    def node(self) -> Node:
        return self.norm.node

    @property
    def region(self) -> list[str]:
        return [] if self.norm.activation is None else [self.norm.activation]

    @property
    def place(self) -> str:
        views = "".join(f" {v.target}{v.args[1:]}{v.kwargs}" for v in self.norm.views)
        return f"norm{views} for a convolution" if _feeds_convolutions(self.norm) else f"norm{views}"

    @property
    def is_one_call(self) -> bool:
        """Perhaps with a copy to channels-last."""
        return not self.norm.has_gradients

    def modules(self, session: str) -> tuple[list[GraphModule], list[torch.Tensor]]:
        return what_is_timed(self, session)

    def replace(self, session: str) -> None:
        replace(self, session)


class NormPass(CallPass):
    """Replaces the norms of a graph of Dynamo's that an engine takes and that selection keeps."""

    operation = "group_norm"

    def calls(self, graph: Graph) -> list[Node]:
        return norms(graph)

    def fuse(self, node: Node) -> Fused:
        # As PyTorch decides whether to differentiate the graph.
        return fuse(node, self.options, torch.is_grad_enabled())


def norms(graph: Graph) -> list[Node]:
    return [n for n in graph.nodes if n.op == "call_function" and n.target in TARGETS]


def fuse(node: Node, options: Options, has_gradients: bool) -> Fused:
    """The graph of a call, which an engine takes; `Untranslatable` says what speaks against it."""
    norm = norm_of(node, has_gradients)
    device = fake(node).device
    if obstacle := session_obstacle(device, options.device):
        raise Untranslatable(obstacle)
    if options.select != "always":
        _require_alone(norm)
    graph = _graph(norm, options.strict_rounding)
    gradients = _gradients(norm, options.strict_rounding) if has_gradients else None
    verdict = require_supported([graph] if gradients is None else [graph, gradients], architecture(device))
    return Fused(graph, verdict, gradients, norm)


def norm_of(node: Node, has_gradients: bool) -> GroupNorm:
    """What a call computes; `Untranslatable` where no graph says it."""
    given = {**DEFAULTS, **dict(zip(PARAMETERS, node.args, strict=False)), **node.kwargs}
    weight, bias = given["weight"], given["bias"]
    groups, epsilon = given["num_groups"], given["eps"]
    if not isinstance(groups, int) or not isinstance(epsilon, (int, float)):
        raise Untranslatable("groups or an epsilon that are no numbers")
    norm = GroupNorm(node, _result(node), given["input"], groups, weight, bias, epsilon, has_gradients)
    tensors = [symbolic(n) for n in (*norm.operands, node)]
    if not all(map(is_static, tensors)):
        raise Untranslatable("symbolic extents")
    if any(t.dtype not in TYPES or t.device != tensors[0].device for t in tensors):
        raise Untranslatable("operands that are not of a floating type, or on several devices")
    if not tensors[0].numel():
        raise Untranslatable("no elements")
    return norm


def _result(node: Node) -> Node:
    """The activation of a norm that nothing else reads, or the norm."""
    users = list(node.users)
    is_activation = len(users) == 1 and users[0].target in ACTIVATIONS and users[0].args[:1] == (node,)
    return users[0] if is_activation else node


def _require_alone(norm: GroupNorm) -> None:
    """That Inductor would fuse the norm neither with what computes its operand nor with what reads its result."""
    if any(user.op != "output" and user.target not in READERS for user in _readers(norm.end)):
        raise Untranslatable("Inductor fuses it with what follows")
    source = norm.input
    while _is_called(source) and source.target in OWN_MEMORY and isinstance(source.args[0], Node):
        source = source.args[0]
    if _is_called(source) and not _is_written_by_a_core(source):
        raise Untranslatable("Inductor fuses it with what its operand is computed by")


def _readers(node: Node) -> Iterator[Node]:
    """What reads a value, also behind a dropout that drops nothing, as models have it where they are not trained."""
    for user in node.users:
        if user.target is functional.dropout and not _drops(user):
            yield from _readers(user)
        else:
            yield user


def _is_called(node: Node) -> bool:
    return node.op in ("call_function", "call_method")


def _is_view(node: Node, of: Node) -> bool:
    """Whether a node is another shape of a value, by numbers alone."""
    return node.target in VIEWS and node.args[:1] == (of,) and node.all_input_nodes == [of]


def _drops(node: Node) -> bool:
    defaults: dict[str, Any] = {"p": 0.5, "training": True}
    given = {**defaults, **dict(zip(("input", *defaults), node.args, strict=False)), **node.kwargs}
    return bool(given["training"]) and bool(given["p"] != 0)


def _is_written_by_a_core(node: Node) -> bool:
    """Whether a value is what Inductor calls, or a sum with it, which a region computes with the core."""
    sources = node.all_input_nodes if node.target in SUMS else [node]
    return any(source.target in READERS for source in sources)


def _pygraph(norm: GroupNorm) -> fusewright.pygraph:
    io_data_type = _op.DATA_TYPES[fake(norm.input).dtype]
    return fusewright.pygraph(io_data_type=io_data_type, intermediate_data_type="FLOAT", compute_data_type="FLOAT")


def _tensor(graph: fusewright.pygraph, name: str, value: torch.Tensor) -> fusewright.Tensor:
    data_type = _op.DATA_TYPES[value.dtype]
    return graph.tensor(name=name, dim=list(value.shape), stride=list(value.stride()), data_type=data_type)


def _lies_as(tensor: fusewright.Tensor, value: torch.Tensor) -> None:
    """Makes a tensor a result with the type and the strides of a value."""
    tensor.set_output(True).set_data_type(_op.DATA_TYPES[value.dtype]).set_stride(list(value.stride()))


def _graph(norm: GroupNorm, strict_rounding: bool) -> fusewright.Graph:
    """The norm and its activation; where gradients are needed, with mean and reciprocal standard deviation."""
    graph = _pygraph(norm)
    x = _tensor(graph, "x", fake(norm.input))
    scale, bias = (_of_channels(graph, n, norm) for n in (norm.weight, norm.bias))
    phase = "TRAINING" if norm.has_gradients else "INFERENCE"
    result, *statistics = graph.groupnorm(phase, x, norm.groups, scale, bias, norm.epsilon)
    assert result is not None
    for statistic in statistics:
        if statistic is not None:
            statistic.set_output(True).set_data_type("FLOAT")
    if norm.activation is not None:
        _round(result, norm, strict_rounding)
        result = getattr(graph, norm.activation)(result)
    _lies_as(result, written(norm))
    return graph.finalize()


def _round(result: fusewright.Tensor, norm: GroupNorm, strict_rounding: bool) -> None:
    """Gives what an activation is computed from the type that it has in the program, where that is asked for."""
    if strict_rounding:
        result.set_data_type(_op.DATA_TYPES[fake(norm.node).dtype])


def _gradients(norm: GroupNorm, strict_rounding: bool) -> fusewright.Graph:
    """The gradients of the operands; what the activation was computed from is computed again."""
    graph, value = _pygraph(norm), fake(norm.input)
    x, gradient = _tensor(graph, "x", value), _tensor(graph, "dy", written(norm))
    scale = _of_channels(graph, norm.weight, norm)
    bias = _of_channels(graph, norm.bias, norm) if norm.activation is not None else None
    dim = [value.shape[0], norm.groups, *[1] * (value.dim() - 2)]
    mean, inverse = (
        graph.tensor(name=name, dim=dim, stride=row_major(dim), data_type="FLOAT") for name in ("mean", "inv_variance")
    )
    if norm.activation is not None:
        result, *_ = graph.groupnorm("INFERENCE", x, norm.groups, scale, bias, norm.epsilon)
        assert result is not None
        _round(result, norm, strict_rounding)
        gradient = getattr(graph, f"{norm.activation}_backward")(gradient, result)
    of_input, *of_channels = graph.groupnorm_backward(gradient, x, norm.groups, scale, mean, inverse)
    assert of_input is not None
    _lies_as(of_input, value)
    for tensor, node in zip(of_channels, (norm.weight, norm.bias), strict=True):
        if node is not None:
            if tensor is None:
                raise Untranslatable("a gradient of the bias of a norm without weights")
            tensor.set_output(True).set_data_type("FLOAT")
    return graph.finalize()


def written(norm: GroupNorm) -> torch.Tensor:
    """The result as the operator writes it: as its operand lies, where what reads it wants it so in any case.

    PyTorch's own kernel of a GPU writes it row-major whatever it reads.
    """
    value, operand = fake(norm.result), fake(norm.input)
    if torch.empty_like(operand).stride() != operand.stride():  # it has gaps, or is expanded
        return value
    as_operand = torch.empty_strided(value.shape, operand.stride(), dtype=value.dtype, device="meta")
    if norm.views:
        is_wanted = _is_row_major_memory(as_operand, norm.views)
    else:
        is_channels_last = suggest_memory_format(operand) is not torch.contiguous_format
        is_wanted = is_channels_last and all(_is_channels_last(user) for user in _readers(norm.result))
    return value.new_empty_strided(value.shape, operand.stride()) if is_wanted else value


def _is_row_major_memory(value: torch.Tensor, views: Sequence[Node]) -> bool:
    """Whether views of a tensor are row-major, and of its own memory."""
    storage = value.untyped_storage()._cdata
    try:
        for view in views:
            function = getattr(torch.Tensor, view.target) if isinstance(view.target, str) else view.target
            value = function(value, *view.args[1:], **view.kwargs)
    except RuntimeError:  # no view of this memory has the shape
        return False
    return value.is_contiguous() and value.untyped_storage()._cdata == storage


def _is_channels_last(node: Node) -> bool:
    """Whether a node is a convolution whose weights lie channels-last, as its result then does."""
    weight = node.args[1] if len(node.args) > 1 else node.kwargs.get("weight")
    if node.target not in CONVOLUTIONS or not isinstance(weight, Node):
        return False
    return suggest_memory_format(fake(weight)) is not torch.contiguous_format


def _of_channels(graph: fusewright.pygraph, node: Node | None, norm: GroupNorm) -> fusewright.Tensor | None:
    if node is None:
        return None
    own, value = fake(node), fake(norm.input)
    channels, axes = value.shape[1], value.dim() - 2
    if own.shape != (channels,) or not own.is_contiguous():
        raise Untranslatable(f"{node.name} is not a number of each channel")
    dim, data_type = [1, channels, *[1] * axes], _op.DATA_TYPES[own.dtype]
    return graph.tensor(name=node.name, dim=dim, stride=row_major(dim), data_type=data_type)


# Selection.


def what_is_timed(fused: Fused, session: str) -> tuple[list[GraphModule], list[torch.Tensor]]:
    """The operator and the calls as modules, and their operands; what convolutions read is channels-last in both."""
    theirs, ours = alone(fused.norm), alone(fused.norm)
    (node,) = ours.graph.find_nodes(op="call_function", target=fused.norm.node.target)
    replace(dataclasses.replace(fused, norm=_copied(fused.norm, node)), session)
    modules, values = [ours, theirs], [fake(n) for n in dict.fromkeys(fused.norm.operands)]
    for module in modules:
        module.recompile()
    if fused.norm.has_gradients:
        result = fake(fused.norm.end).contiguous() if fused.norm.views else written(fused.norm)
        if _feeds_convolutions(fused.norm):
            result = result.contiguous(memory_format=CHANNELS_LAST[result.dim()])
        modules = [with_gradients(module, values, [True] * len(values), result) for module in modules]
        values.append(result)
    return modules, values


def alone(norm: GroupNorm) -> GraphModule:
    """A module of the norm, its activation, views of it, and a change to channels-last where convolutions read it."""
    graph, copies = Graph(), {}
    for node in dict.fromkeys(norm.operands):
        copies[node] = graph.placeholder(node.name)
        copies[node].meta["example_value"] = fake(node)
    for node in dict.fromkeys((norm.node, norm.result, *norm.views)):
        copies[node] = graph.node_copy(node, copies.__getitem__)
    result = copies[norm.end]
    if _feeds_convolutions(norm):
        memory_format = CHANNELS_LAST[fake(norm.end).dim()]
        result = graph.call_method("contiguous", (result,), {"memory_format": memory_format})
    elif norm.views:
        result = graph.call_method("contiguous", (result,))
    graph.output((result,))
    return GraphModule({}, graph)


def _copied(norm: GroupNorm, node: Node) -> GroupNorm:
    """The norm of a copy of its call."""
    given = {**DEFAULTS, **dict(zip(PARAMETERS, node.args, strict=False)), **node.kwargs}
    operands = {name: given[name] for name in ("input", "weight", "bias")}
    return dataclasses.replace(norm, node=node, result=_result(node), **operands)


def _feeds_convolutions(norm: GroupNorm) -> bool:
    """Whether convolutions alone read the result."""
    targets = {user.target for user in _readers(norm.end)}
    return bool(targets) and targets <= set(CONVOLUTIONS)


# Replacement.


class Normalize(torch.autograd.Function):
    """A norm and its activation, whose gradients are one graph, too."""

    @staticmethod
    def forward(
        ctx: Any, value: Any, weight: Any, bias: Any, texts: list[str], is_activated: bool, session: str
    ) -> torch.Tensor:
        results = _op.RUN([value, *_given(weight, bias)], texts[0], session)
        # In the order in which the graph has them: an activation comes last.
        first, second, third = results
        result, mean, inverse = (third, first, second) if is_activated else (first, second, third)
        ctx.save_for_backward(value, weight, bias, mean, inverse)
        ctx.arguments = (texts[1], is_activated, session)
        return result  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        value, weight, bias, mean, inverse = ctx.saved_tensors
        text, is_activated, session = ctx.arguments
        inputs = [value, gradient, *_given(weight, bias if is_activated else None), mean, inverse]
        of_value, *of_channels = _op.RUN(inputs, text, session)
        given = iter(of_channels)
        of_weight, of_bias = (
            None if operand is None else next(given).reshape(operand.shape).to(operand.dtype)
            for operand in (weight, bias)
        )
        return of_value, of_weight, of_bias, None, None, None


def _given(*operands: Any) -> list[Any]:
    return [operand for operand in operands if operand is not None]


def normalize(value: Any, weight: Any, bias: Any, texts: list[str], is_activated: bool, session: str) -> torch.Tensor:
    """The norm of two texts, as a function that a graph can call."""
    return Normalize.apply(value, weight, bias, texts, is_activated, session)  # type: ignore[no-any-return]


def replace(fused: Fused, session: str) -> None:
    """Puts the operator in the place of the calls."""
    norm, graph = fused.norm, fused.norm.node.graph
    # where the norm was: its operand may be changed in place between it and the activation
    with graph.inserting_before(norm.node):
        if norm.has_gradients:
            operands = (norm.input, norm.weight, norm.bias)
            is_activated = norm.activation is not None
            result = graph.call_function(normalize, (*operands, fused.texts, is_activated, session))
        else:
            results = graph.call_function(_op.RUN, (norm.operands, fused.texts[0], session))
            result = graph.call_function(operator.getitem, (results, 0))
    result.meta = {**norm.result.meta, "example_value": written(norm)}
    norm.result.replace_all_uses_with(result)
    for node in dict.fromkeys((norm.result, norm.node)):
        graph.erase_node(node)
