# mypy: allow-untyped-calls
"""Attention: calls of `scaled_dot_product_attention` become one fused graph, before PyTorch takes them apart.

PyTorch chooses among its implementations as it traces, by the masks' strides among others; what none of its kernels
takes becomes two matmuls and a softmax in FLOAT. So the choice is made here, on the graph that Dynamo gives, and by the
same rule as for regions: what was measured to be faster, with its gradients where they are needed.
"""

import dataclasses
import logging
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.node import map_arg

import fusewright

from . import _op
from ._calls import CallPass, FusedCall, fake, require_supported, symbolic
from ._layout import row_major
from ._options import Options
from ._pass import architecture, session_obstacle
from ._sized import RUN_SIZED, SAMPLES, sized_text
from ._sizes import is_static, sampled
from ._timing import with_gradients
from ._translate import Untranslatable

LOGGER = logging.getLogger(__name__)

TARGETS = (torch._C._nn.scaled_dot_product_attention, torch.ops.aten.scaled_dot_product_attention.default)
COMPOSITE = torch.nn.functional.multi_head_attention_forward
"""What Dynamo keeps as one call, with attention inside."""
PARAMETERS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
DEFAULTS: dict[str, Any] = {"attn_mask": None, "dropout_p": 0.0, "is_causal": False, "scale": None, "enable_gqa": False}
TYPES = (torch.float16, torch.bfloat16)
LEAST_BIAS = -1e9
"""FLOAT has no digits for scores beside it, so that a row of such biases has equal weights, as a row of lesser ones
has in PyTorch; engines lose rows whose largest score is far below it, such as `torch.finfo(torch.bfloat16).min`."""


@dataclass(frozen=True)
class Attention:
    """A call that a graph can express."""

    node: Node
    query: Node
    key: Node
    value: Node
    mask: Node | None
    is_causal: bool
    scale: float
    has_gradients: bool
    dropout: float
    """The share of probabilities that become zero; a graph draws them by a seed of each call."""
    mask_has_gradient: bool

    @property
    def operands(self) -> list[Node]:
        return [n for n in (self.query, self.key, self.value, self.mask) if n is not None]

    @property
    def is_symbolic(self) -> bool:
        """Whether an extent or a stride depends on symbols."""
        return not all(is_static(symbolic(n)) for n in (self.node, *self.operands))

    @property
    def is_one_call(self) -> bool:
        """Whether the operator takes the operands as they are, and nothing is differentiated."""
        return self.mask is None and not self.dropout and not self.has_gradients

    @property
    def distinct(self) -> list[Node]:
        """The operands, each once."""
        return list(dict.fromkeys(self.operands))


@dataclass(frozen=True)
class Fused(FusedCall):
    """An attention that an engine takes."""

    attention: Attention
    sized_texts: tuple[str, ...] = ()
    """Where sizes are symbolic, the texts with terms for them; the graphs have the sizes that were compiled with."""

    @property
    def node(self) -> Node:
        return self.attention.node

    @property
    def place(self) -> str:
        mask = self.attention.mask
        return "attention" if mask is None else f"attention masked by {fake(mask).dtype} {tuple(fake(mask).stride())}"

    @property
    def is_one_call(self) -> bool:
        return self.attention.is_one_call

    def modules(self, session: str) -> tuple[list[GraphModule], list[torch.Tensor]]:
        return what_is_timed(self, session)

    def of(self, attention: Attention) -> "Fused":
        """The same of another call with operands like these, of the sizes that were compiled with."""
        return Fused(self.graph, self.verdict, self.gradients, attention)

    def replace(self, session: str) -> None:
        replace(self, session)


class AttentionPass(CallPass):
    """Replaces the attentions of a graph of Dynamo's that an engine takes and that selection keeps."""

    operation = "attention"

    def __call__(self, graph: Graph) -> None:
        for node in [n for n in graph.nodes if n.target is COMPOSITE]:
            expand(node)
        super().__call__(graph)

    def calls(self, graph: Graph) -> list[Node]:
        return attentions(graph)

    def fuse(self, node: Node) -> Fused:
        # As PyTorch decides whether to differentiate the graph; what a fake tensor says may be older than its value.
        return fuse(node, self.options, torch.is_grad_enabled())


def attentions(graph: Graph) -> list[Node]:
    return [n for n in graph.nodes if n.op == "call_function" and n.target in TARGETS]


def expand(node: Node) -> None:
    """Puts what a composite does in its place, where attention is in it."""
    try:
        traced = _traced(node)
    except Exception as error:  # what cannot be traced here stays one call, whatever the cause
        LOGGER.info("%s was not looked into: %s", node.name, error)
        return
    (output,) = traced.find_nodes(op="output")
    read = {item.args[1] for item in node.users if item.target is operator.getitem}
    is_tuple = len(read) == len(node.users) and all(isinstance(output.args[0][index], Node) for index in read)
    if not attentions(traced) or not is_tuple:
        return
    copies = dict(zip(traced.find_nodes(op="placeholder"), node.all_input_nodes, strict=True))
    with node.graph.inserting_before(node):
        results: Any = node.graph.graph_copy(traced, copies)
    for item in list(node.users):
        item.replace_all_uses_with(results[item.args[1]])
        node.graph.erase_node(item)
    node.graph.erase_node(node)


def _traced(node: Node) -> Graph:
    """What a call does, traced before dispatch, which leaves attention whole. Its inputs are the call's."""
    operands = node.all_input_nodes
    values = [symbolic(n) for n in operands]
    if not all(map(is_static, values)):
        raise Untranslatable("symbolic extents")

    def call(*tensors: torch.Tensor) -> Any:
        of = dict(zip(operands, tensors, strict=True)).__getitem__
        return node.target(*map_arg(node.args, of), **map_arg(node.kwargs, of))  # type: ignore[operator]

    with values[0].fake_mode:  # type: ignore[attr-defined]
        return make_fx(call, pre_dispatch=True, _allow_non_fake_inputs=True)(*values).graph


def attention_of(node: Node, has_gradients: bool) -> Attention:
    """What a call computes; `Untranslatable` where no graph says it."""
    given = {**DEFAULTS, **dict(zip(PARAMETERS, node.args, strict=False)), **node.kwargs}
    query, key, value, mask = (given[name] for name in PARAMETERS[:4])
    tensors = [fake(n) for n in (query, key, value)]
    dropout = _number(given["dropout_p"])
    if not isinstance(dropout, (int, float)) or not 0 <= dropout < 1:
        raise Untranslatable(f"dropout of {dropout}")
    if any(t.dim() != 4 or t.dtype not in TYPES or t.dtype != tensors[0].dtype for t in tensors):
        raise Untranslatable("operands that are not of four axes and one 16-bit type")
    for operand in (query, key, value):
        # What engines take depends on it: of another size PyTorch compiles anew.
        int(symbolic(operand).shape[-1])
    if not given["enable_gqa"] and len({t.shape[1] for t in tensors}) > 1:
        raise Untranslatable("numbers of heads that differ without enable_gqa")
    if mask is not None and fake(mask).dtype not in (torch.bool, tensors[0].dtype):
        raise Untranslatable(f"mask of type {fake(mask).dtype}")
    scale = _number(given["scale"])
    if scale is not None and not isinstance(scale, (int, float)):
        raise Untranslatable("scale that is no number")
    scale = tensors[0].shape[-1] ** -0.5 if scale is None else float(scale)
    needs = mask is not None and has_gradients and _may_need_gradient(mask)
    return Attention(node, query, key, value, mask, bool(given["is_causal"]), scale, has_gradients, dropout, needs)


def _number(argument: Any) -> Any:
    """An argument, which where it is a symbolic number becomes that: Dynamo compiles anew for others then."""
    value = argument.meta.get("example_value") if isinstance(argument, Node) else argument
    return float(value) if isinstance(value, torch.SymFloat) else argument


def _may_need_gradient(node: Node) -> bool:
    """Whether a tensor requires a gradient; what a composite computes does not tell."""
    value = symbolic(node)
    return value.is_floating_point() and (value.requires_grad or "example_value" not in node.meta)


def fuse(node: Node, options: Options, has_gradients: bool) -> Fused:
    """The graph of a call, which an engine takes; `Untranslatable` or `Unsized` says what speaks against it."""
    attention = attention_of(node, has_gradients)
    device = fake(node).device
    if obstacle := session_obstacle(device, options.device):
        raise Untranslatable(obstacle)
    if attention.is_symbolic and (attention.dropout or attention.mask_has_gradient):
        raise Untranslatable("dropout, or a gradient of the mask, in symbolic extents")
    arch = architecture(device)
    graphs = _graphs(attention)
    verdict = require_supported(graphs, arch)
    sized = _sized_texts(attention, graphs, arch) if attention.is_symbolic else ()
    return Fused(graphs[0], verdict, graphs[1] if attention.has_gradients else None, attention, sized)


def _graphs(attention: Attention) -> list[fusewright.Graph]:
    """The graph of an attention, and that of its gradients where they are needed."""
    return [_graph(attention), *([_gradients(attention)] if attention.has_gradients else [])]


def _sized_texts(attention: Attention, graphs: Sequence[fusewright.Graph], arch: str) -> tuple[str, ...]:
    """The texts of graphs with terms for symbolic sizes, in which engines take odd ones, too."""
    samples = [graphs]
    for sample in range(1, SAMPLES):
        with sampled(sample):
            samples.append(_graphs(attention))
    with sampled(-1):
        require_supported(_graphs(attention), arch)
    query, key, value = operands = [symbolic(n) for n in (attention.query, attention.key, attention.value)]
    output = symbolic(attention.node)
    inputs, results = [[query, key.transpose(-2, -1), value]], [[output]]
    if attention.has_gradients:
        results[0].append(query.new_empty((*query.shape[:3], 1)))
        inputs.append(operands)
        results.append([x.new_empty_strided(x.shape, heads_beside_tokens(x.shape)) for x in operands])
    texts = [[graph.to_json() for graph in graphs] for graphs in zip(*samples, strict=True)]
    return tuple(sized_text(*given)[0] for given in zip(texts, inputs, results, strict=True))


def _pygraph(attention: Attention) -> fusewright.pygraph:
    io_data_type = _op.DATA_TYPES[fake(attention.query).dtype]
    return fusewright.pygraph(
        io_data_type=io_data_type,
        intermediate_data_type="FLOAT",
        compute_data_type="FLOAT",
        is_dynamic_shape_enabled=attention.is_symbolic,
    )


def _tensor(graph: fusewright.pygraph, name: str, value: torch.Tensor) -> fusewright.Tensor:
    return graph.tensor(name=name, dim=list(value.shape), stride=list(value.stride()))


def _graph(attention: Attention) -> fusewright.Graph:
    graph = _pygraph(attention)
    query, key, value = (_tensor(graph, n, fake(x)) for n, x in zip("qkv", attention.operands, strict=False))
    output, stats = graph.sdpa(
        query,
        key,
        value,
        is_inference=not attention.has_gradients,
        attn_scale=attention.scale,
        bias=_bias_tensor(graph, "bias", attention),
        use_causal_mask=attention.is_causal,
        dropout=_dropout(graph, attention),
    )
    assert output is not None
    output.set_output(True).set_stride(list(fake(attention.node).stride()))
    if stats is not None:
        stats.set_output(True).set_data_type("FLOAT")
    return graph.finalize()


def _gradients(attention: Attention) -> fusewright.Graph:
    """The gradients of query, key and value, whose heads lie beside tokens; before them the mask's, if it has one."""
    graph = _pygraph(attention)
    values = [fake(n) for n in (attention.query, attention.key, attention.value)]
    query, key, value = (_tensor(graph, n, x) for n, x in zip("qkv", values, strict=True))
    result = fake(attention.node)
    output = _tensor(graph, "o", result)
    gradient = graph.tensor(name="dO", dim=list(result.shape), stride=heads_beside_tokens(result.shape))
    batch, heads, rows, _ = result.shape
    stats = graph.tensor(
        name="stats", dim=[batch, heads, rows, 1], stride=[heads * rows, rows, 1, 1], data_type="FLOAT"
    )
    gradients = graph.sdpa_backward(
        query,
        key,
        value,
        output,
        gradient,
        stats,
        attn_scale=attention.scale,
        bias=_bias_tensor(graph, "bias", attention),
        dBias=_bias_tensor(graph, "dBias", attention) if attention.mask_has_gradient else None,
        use_causal_mask=attention.is_causal,
        dropout=_dropout(graph, attention),
    )
    for tensor, x in zip(gradients, values, strict=True):
        tensor.set_output(True).set_stride(heads_beside_tokens(x.shape))
    return graph.finalize()


def heads_beside_tokens(dim: Sequence[int]) -> list[int]:
    """Strides of [B, H, S, D] that lies as [B, S, H, D]."""
    _, heads, rows, depth = dim
    return [rows * heads * depth, depth, heads * depth, 1]


def _dropout(graph: fusewright.pygraph, attention: Attention) -> tuple[Any, ...] | None:
    """Probability, seed and offset."""
    if not attention.dropout:
        return None
    ones = [1] * 4
    drawn = [graph.tensor(name=name, dim=ones, stride=ones, data_type="INT64") for name in ("seed", "offset")]
    return (attention.dropout, *drawn)


def _bias_tensor(graph: fusewright.pygraph, name: str, attention: Attention) -> fusewright.Tensor | None:
    if attention.mask is None:
        return None
    dim = _bias_extents(attention.mask, attention)
    return graph.tensor(name=name, dim=dim, stride=row_major(dim))


def _bias_extents(node: Node, attention: Attention) -> list[int]:
    """Those of a mask as a bias: of heads and batches that share one, one."""
    mask, scores = fake(node), (fake(attention.query).shape[2], fake(attention.key).shape[2])
    if mask.dim() > 4:
        raise Untranslatable(f"mask of {mask.dim()} axes")
    own = [1 if stride == 0 else extent for extent, stride in zip(mask.shape, mask.stride(), strict=True)]
    return [*([1] * (4 - len(own)) + own)[:2], *scores]


class Attend(torch.autograd.Function):
    """An attention whose gradients are one graph, too."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Any,
        key: Any,
        value: Any,
        bias: Any,
        drawn: Any,
        texts: list[str],
        gives_bias: bool,
        is_sized: bool,
        session: str,
    ) -> torch.Tensor:
        if ctx.needs_input_grad[3] and not gives_bias:
            raise RuntimeError(
                "the mask of an attention needs a gradient, which Dynamo's graph did not say; detach it, or have the "
                "call in a function under torch.compiler.disable"
            )
        output, stats = _run(_operands(query, key, value, bias, drawn), texts[0], is_sized, session)
        ctx.save_for_backward(query, key, value, output, stats, bias, *drawn)
        ctx.gives_bias, ctx.arguments = gives_bias, (texts[1], is_sized, session)
        return output  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        query, key, value, output, stats, bias, *drawn = ctx.saved_tensors
        inputs = [query, key, value, output, gradient, stats, *([] if bias is None else [bias]), *drawn]
        *of_bias, of_query, of_key, of_value = _run(inputs, *ctx.arguments)
        return of_query, of_key, of_value, of_bias[0] if ctx.gives_bias else None, *[None] * 5


def _run(inputs: list[Any], text: str, is_sized: bool, session: str) -> Any:
    return RUN_SIZED(inputs, [], text, session) if is_sized else _op.RUN(inputs, text, session)


def _operands(query: Any, key: Any, value: Any, bias: Any, drawn: Sequence[Any]) -> list[Any]:
    """Those of the forward graph, whose second is that of the first matmul: keys in columns."""
    return [query, torch.transpose(key, -2, -1), value, *([] if bias is None else [bias]), *drawn]


def attend(
    query: Any,
    key: Any,
    value: Any,
    bias: Any,
    drawn: tuple[Any, ...],
    texts: list[str],
    gives_bias: bool,
    is_sized: bool,
    session: str,
) -> torch.Tensor:
    """The attention of two texts, as a function that a graph can call."""
    arguments = (query, key, value, bias, drawn, texts, gives_bias, is_sized, session)
    return Attend.apply(*arguments)  # type: ignore[no-any-return]


def replace(fused: Fused, session: str) -> None:
    """Puts the operator in the place of the call."""
    attention, graph = fused.attention, fused.attention.node.graph
    is_sized = bool(fused.sized_texts)
    texts = list(fused.sized_texts) or fused.texts
    with graph.inserting_before(attention.node):
        bias = None if attention.mask is None else _bias(graph, attention.mask, attention)
        operands = (attention.query, attention.key, attention.value, bias, _drawn(graph, attention))
        if attention.has_gradients:
            gives_bias = attention.mask_has_gradient
            result = graph.call_function(attend, (*operands, texts, gives_bias, is_sized, session))
        else:
            turned = graph.call_function(torch.transpose, (attention.key, -2, -1))
            inputs = [attention.query, turned, attention.value, *([] if bias is None else [bias]), *operands[-1]]
            results = (
                graph.call_function(RUN_SIZED, (inputs, [], *texts, session))
                if is_sized
                else graph.call_function(_op.RUN, (inputs, *texts, session))
            )
            result = graph.call_function(operator.getitem, (results, 0))
    result.meta = dict(attention.node.meta)
    attention.node.replace_all_uses_with(result)
    graph.erase_node(attention.node)


def _drawn(graph: Graph, attention: Attention) -> tuple[Node, ...]:
    """The seed of a call, which PyTorch draws, and an offset, as a graph with dropout takes them."""
    if not attention.dropout:
        return ()
    options: dict[str, Any] = {"dtype": torch.int64, "device": fake(attention.query).device}
    seed = graph.call_function(torch.randint, (0, 1 << 62, (1,)), options)
    return seed, graph.call_function(torch.zeros, ((1,),), options)


def _bias(graph: Graph, mask: Node, attention: Attention) -> Node:
    """The mask as what is added to scores: minus infinity where it is false, and else no less than `LEAST_BIAS`."""
    value, dtype = fake(mask), fake(attention.query).dtype
    node = mask
    for axis, (extent, stride) in enumerate(zip(value.shape, value.stride(), strict=True)):
        if stride == 0 and extent > 1:
            node = graph.call_function(torch.narrow, (node, axis, 0, 1))
    for _ in range(4 - value.dim()):
        node = graph.call_function(torch.unsqueeze, (node, 0))
    if value.dtype is torch.bool:
        node = graph.call_function(torch.where, (node, 0.0, -inf))
        node = graph.call_method("to", (node, dtype))
    elif dtype is torch.bfloat16:
        least = graph.call_function(torch.clamp, (node, LEAST_BIAS))
        node = graph.call_function(torch.where, (graph.call_function(torch.eq, (node, -inf)), node, least))
    scores = (_size(graph, attention.query, 2), _size(graph, attention.key, 2))
    return graph.call_method("contiguous", (graph.call_method("expand", (node, -1, -1, *scores)),))


def _size(graph: Graph, node: Node, axis: int) -> Any:
    """The extent of an axis: a number, or where it is symbolic a node that asks for it."""
    extent = symbolic(node).shape[axis]
    return extent if isinstance(extent, int) else graph.call_method("size", (node, axis))


# Selection.


def what_is_timed(fused: Fused, session: str) -> tuple[list[GraphModule], list[torch.Tensor]]:
    """The operator and the call as modules, with their gradients where those are needed, and their operands."""
    attention = fused.attention
    theirs, ours = alone(attention), alone(attention)
    (node,) = attentions(ours.graph)
    copied = attention_of(node, attention.has_gradients)
    replace(fused.of(dataclasses.replace(copied, mask_has_gradient=attention.mask_has_gradient)), session)
    ours.recompile()
    modules, values = [ours, theirs], [fake(n) for n in attention.distinct]
    if attention.has_gradients:
        needs = [n is not attention.mask or attention.mask_has_gradient for n in attention.distinct]
        result = fake(attention.node)
        modules = [with_gradients(module, values, needs, result) for module in modules]
        values.append(result)
    return modules, values


def alone(attention: Attention) -> GraphModule:
    """A module of the call, whose inputs are its distinct tensors."""
    graph = Graph()
    copies = {}
    for node in attention.distinct:
        copies[node] = graph.placeholder(node.name)
        copies[node].meta["example_value"] = fake(node)
    graph.output((graph.node_copy(attention.node, copies.__getitem__),))
    return GraphModule({}, graph)
