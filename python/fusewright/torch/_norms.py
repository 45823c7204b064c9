# mypy: allow-untyped-calls
"""Norms of groups: calls of `group_norm` become one graph with the activation behind them, before PyTorch takes them
apart.

Only what Inductor would fuse no further is taken: norms that a convolution, a matmul or the caller reads, of what is in
memory; and only where they were measured to be faster. Gradients of norms stay Inductor's.
"""

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

import fusewright

from . import _op
from ._calls import CallPass, FusedCall, fake, symbolic
from ._options import Options
from ._pass import architecture, session_obstacle
from ._regions import refusal_text
from ._sizes import is_static
from ._times import Times
from ._timing import time_modules
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

    @property
    def operands(self) -> list[Node]:
        """What the operator takes, in the order of the graph's tensors."""
        return [n for n in (self.input, self.weight, self.bias) if n is not None]

    @property
    def activation(self) -> str | None:
        return None if self.result is self.node else ACTIVATIONS[self.result.target]


@dataclass(frozen=True)
class Fused(FusedCall):
    """A norm, its graph, and the verdict on it."""

    norm: GroupNorm
    graph: fusewright.Graph
    verdict: fusewright.Verdict

    @property
    def node(self) -> Node:
        return self.norm.node

    @property
    def texts(self) -> list[str]:
        return [self.graph.to_json()]

    @property
    def region(self) -> list[str]:
        return [] if self.norm.activation is None else [self.norm.activation]

    @property
    def what_is_timed(self) -> str:
        return f"{self.graph.key} norm{' for a convolution' if _feeds_convolutions(self.norm) else ''}"

    def measure(self, device: torch.device, session: str) -> Times:
        (ours, theirs), values = what_is_timed(self, session)
        # What is called, and perhaps a copy, need not be compiled to be timed.
        seconds, inductors = time_modules([theirs], values, device, before=[ours])
        return Times(seconds, inductors)

    def replace(self, session: str) -> None:
        replace(self, session)


class NormPass(CallPass):
    """Replaces the norms of a graph of Dynamo's that an engine takes and that selection keeps."""

    operation = "group_norm"

    def calls(self, graph: Graph) -> list[Node]:
        return norms(graph)

    def fuse(self, node: Node) -> Fused:
        return fuse(node, self.options)


def norms(graph: Graph) -> list[Node]:
    return [n for n in graph.nodes if n.op == "call_function" and n.target in TARGETS]


def fuse(node: Node, options: Options) -> Fused:
    """The graph of a call, which an engine takes; `Untranslatable` says what speaks against it."""
    norm = norm_of(node)
    device = fake(node).device
    if obstacle := session_obstacle(device, options.device):
        raise Untranslatable(obstacle)
    if options.select != "always":
        _require_alone(norm)
    graph = _graph(norm, options.strict_rounding)
    verdict = graph.check(architecture(device))
    if not verdict.supported:
        raise Untranslatable(refusal_text(verdict))
    return Fused(norm, graph, verdict)


def norm_of(node: Node) -> GroupNorm:
    """What a call computes; `Untranslatable` where no graph says it."""
    if torch.is_grad_enabled():
        raise Untranslatable("a gradient of the norm")
    given = {**DEFAULTS, **dict(zip(PARAMETERS, node.args, strict=False)), **node.kwargs}
    weight, bias = given["weight"], given["bias"]
    norm = GroupNorm(node, _result(node), given["input"], given["num_groups"], weight, bias, given["eps"])
    tensors = [symbolic(n) for n in (*norm.operands, node)]
    if not all(map(is_static, tensors)) or not isinstance(norm.groups, int) or not isinstance(norm.epsilon, float):
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
    if any(user.op != "output" and user.target not in READERS for user in _readers(norm.result)):
        raise Untranslatable("Inductor fuses it with what follows")
    if norm.input.op in ("call_function", "call_method") and not _is_written_by_a_core(norm.input):
        raise Untranslatable("Inductor fuses it with what its operand is computed by")


def _readers(node: Node) -> Iterator[Node]:
    """What reads a value, also behind a dropout that drops nothing, as models have it where they are not trained."""
    for user in node.users:
        if user.target is functional.dropout and not _drops(user):
            yield from _readers(user)
        else:
            yield user


def _drops(node: Node) -> bool:
    defaults: dict[str, Any] = {"p": 0.5, "training": True}
    given = {**defaults, **dict(zip(("input", *defaults), node.args, strict=False)), **node.kwargs}
    return bool(given["training"]) and bool(given["p"] != 0)


def _is_written_by_a_core(node: Node) -> bool:
    """Whether a value is what Inductor calls, or a sum with it, which a region computes with the core."""
    sources = node.all_input_nodes if node.target in SUMS else [node]
    return any(source.target in READERS for source in sources)


def _graph(norm: GroupNorm, strict_rounding: bool) -> fusewright.Graph:
    value = fake(norm.input)
    graph = fusewright.pygraph(
        io_data_type=_op.DATA_TYPES[value.dtype], intermediate_data_type="FLOAT", compute_data_type="FLOAT"
    )
    x = graph.tensor(name="x", dim=list(value.shape), stride=list(value.stride()))
    scale, bias = (_of_channels(graph, n, value) for n in (norm.weight, norm.bias))
    result, *_ = graph.groupnorm("INFERENCE", x, norm.groups, scale, bias, norm.epsilon)
    assert result is not None
    if norm.activation is not None:
        if strict_rounding:
            result.set_data_type(_op.DATA_TYPES[fake(norm.node).dtype])
        result = getattr(graph, norm.activation)(result)
    result.set_output(True).set_data_type(_op.DATA_TYPES[fake(norm.result).dtype]).set_stride(
        list(fake(norm.result).stride())
    )
    return graph.finalize()


def _of_channels(graph: fusewright.pygraph, node: Node | None, value: torch.Tensor) -> fusewright.Tensor | None:
    if node is None:
        return None
    own = fake(node)
    channels, axes = value.shape[1], value.dim() - 2
    if own.shape != (channels,) or not own.is_contiguous():
        raise Untranslatable(f"{node.name} is not a number of each channel")
    stride = [channels, 1, *[channels] * axes]
    data_type = _op.DATA_TYPES[own.dtype]
    return graph.tensor(name=node.name, dim=[1, channels, *[1] * axes], stride=stride, data_type=data_type)


# Selection.


def what_is_timed(fused: Fused, session: str) -> tuple[list[GraphModule], list[torch.Tensor]]:
    """The operator and the calls as modules, and their operands; what convolutions read is channels-last in both."""
    theirs, ours = alone(fused.norm), alone(fused.norm)
    (node,) = ours.graph.find_nodes(op="call_function", target=fused.norm.node.target)
    replace(Fused(_copied(fused.norm, node), fused.graph, fused.verdict), session)
    for module in (theirs, ours):
        module.recompile()
    return [ours, theirs], [fake(n) for n in dict.fromkeys(fused.norm.operands)]


def alone(norm: GroupNorm) -> GraphModule:
    """A module of the norm, its activation, and a change to channels-last where convolutions read it."""
    graph, copies = Graph(), {}
    for node in dict.fromkeys(norm.operands):
        copies[node] = graph.placeholder(node.name)
        copies[node].meta["example_value"] = fake(node)
    for node in dict.fromkeys((norm.node, norm.result)):
        copies[node] = graph.node_copy(node, copies.__getitem__)
    result = copies[norm.result]
    if _feeds_convolutions(norm):
        memory_format = CHANNELS_LAST[fake(norm.result).dim()]
        result = graph.call_method("contiguous", (result,), {"memory_format": memory_format})
    graph.output((result,))
    return GraphModule({}, graph)


def _copied(norm: GroupNorm, node: Node) -> GroupNorm:
    """The norm of a copy of its call."""
    given = {**DEFAULTS, **dict(zip(PARAMETERS, node.args, strict=False)), **node.kwargs}
    return GroupNorm(node, _result(node), given["input"], norm.groups, given["weight"], given["bias"], norm.epsilon)


def _feeds_convolutions(norm: GroupNorm) -> bool:
    """Whether convolutions alone read the result, which have a layout of their own."""
    targets = {user.target for user in _readers(norm.result)}
    return bool(targets) and targets <= {torch.conv2d, torch.conv3d}


# Replacement.


def replace(fused: Fused, session: str) -> None:
    """Puts the operator in the place of the calls."""
    norm, graph = fused.norm, fused.norm.node.graph
    # where the norm was: its operand may be changed in place between it and the activation
    with graph.inserting_before(norm.node):
        results = graph.call_function(_op.RUN, (norm.operands, fused.texts[0], session))
        result = graph.call_function(operator.getitem, (results, 0))
    result.meta = dict(norm.result.meta)
    norm.result.replace_all_uses_with(result)
    for node in dict.fromkeys((norm.result, norm.node)):
        graph.erase_node(node)
