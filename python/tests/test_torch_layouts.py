"""Layouts of what regions read and write: views, copies, channels-last."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch.fx import Graph, Node  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

import fusewright.torch  # noqa: E402
from fusewright.torch import _pass, _regions, _select, _strided  # noqa: E402

aten = torch.ops.aten
OPTIONS = {"fusewright.select": "always", "fusewright.device": "cpu"}


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Graph]]:
    """The graphs as the pass leaves them."""
    found: list[Graph] = []
    replace = _pass.FusionPass.__call__

    def call(self: _pass.FusionPass, graph: Graph) -> None:
        replace(self, graph)
        found.append(graph)

    monkeypatch.setattr(_pass.FusionPass, "__call__", call)
    torch._dynamo.reset()
    # a graph from a cache does not come by the pass
    with torch._inductor.config.patch(force_disable_caches=True):
        yield found


class Block(torch.nn.Module):
    """A block of a vision transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = torch.nn.LayerNorm(64), torch.nn.LayerNorm(64)
        self.attention = torch.nn.MultiheadAttention(64, 4, batch_first=True)
        self.mlp = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.Linear(128, 64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.before(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.after(x))


def test_attention_reads_what_a_matmul_has_written(graphs: list[Graph]) -> None:
    torch.manual_seed(1)
    block, x = Block().eval().to(torch.bfloat16), torch.randn(2, 24, 64, dtype=torch.bfloat16)
    with torch.no_grad():
        found, wanted = torch.compile(block, backend=fusewright.torch.backend, options=OPTIONS)(x), block(x)
    torch.testing.assert_close(found, wanted, rtol=2e-2, atol=2e-2)
    (graph,) = graphs
    calls = graph.find_nodes(op="call_function", target=torch.ops.fusewright.run.default)
    attention = next(c for c in calls if "SOFTMAX" in c.args[1])
    views: Any = attention.args[0]
    assert [v.target for v in views] == [aten.as_strided.default] * 3
    assert len({v.args[0] for v in views}) == 1 and [v.args[3] for v in views] == [0, 64, 128]
    assert views[0].args[0].args[0].target is torch.ops.fusewright.run.default
    # the norm's own extents, not those of the matmul's rows
    read = [n for c in calls for n in c.args[0] if n.target in _regions.VIEWS]
    assert not read, read
    unread = [n for n in graph.nodes if n.op == "call_function" and not n.users]
    assert not unread, unread


def chain(generator: random.Random, x: torch.Tensor) -> torch.Tensor:
    """Views and copies of a tensor, one behind the other."""
    if generator.random() < 0.2:
        x = x.split(2, dim=2)[generator.randrange(2)] if generator.random() < 0.5 else x.unbind(0)[1]
    for _ in range(generator.randint(2, 7)):
        kind = generator.choice(["view", "permute", "select", "clone", "unsqueeze"])
        if kind == "view" and x.is_contiguous():
            extents: list[int] = []
            for extent in x.shape:
                part = generator.choice([d for d in range(1, extent + 1) if extent % d == 0])
                extents += [part, extent // part]
            if generator.random() < 0.5:
                extents = [extents[0], *(a * b for a, b in zip(extents[1::2], [*extents[2::2], 1], strict=True))]
            x = x.view(extents[:6] + [-1] * (len(extents) > 6))
        elif kind == "permute":
            x = x.permute(generator.sample(range(x.dim()), x.dim()))
        elif kind == "select" and x.dim() > 1:
            axis = generator.randrange(x.dim())
            x = x.select(axis, generator.randrange(-x.shape[axis], x.shape[axis]))
        elif kind == "clone":
            x = x.clone(memory_format=torch.contiguous_format)
        elif kind == "unsqueeze" and x.dim() < 6:
            x = x.unsqueeze(generator.randrange(x.dim() + 1))
    return x


@pytest.mark.parametrize("seed", range(300))
def test_places_of_random_chains_are_where_their_elements_lie(seed: int) -> None:
    x = torch.arange(2 * 3 * 4 * 8).reshape(2, 3, 4, 8)
    traced = make_fx(lambda x: chain(random.Random(seed), x + 0), tracing_mode="fake")(x)
    (output,) = traced.graph.find_nodes(op="output")
    result: Node = output.args[0]
    place = _strided.place_of(result)
    if place is None or (stride := place.stride) is None:
        return
    assert place.base.target is aten.add.Tensor
    wanted = traced(x)
    assert torch.equal(x.as_strided(wanted.shape, stride, place.offset), wanted)
    assert place.copies == sum(n.target is aten.clone.default for n in traced.graph.nodes)


def test_most_random_chains_have_a_place() -> None:
    def found(seed: int) -> bool:
        x = torch.zeros(2, 3, 4, 8)
        traced = make_fx(lambda x: chain(random.Random(seed), x + 0), tracing_mode="fake")(x)
        (output,) = traced.graph.find_nodes(op="output")
        place = _strided.place_of(output.args[0])
        return place is not None and place.copies > 0 and place.stride is not None

    assert sum(map(found, range(100))) > 20


def convolution(x: torch.Tensor, w: torch.Tensor, *, norm: bool, reader: str) -> torch.fx.GraphModule:
    def call(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        if norm:
            x = F.silu(x * 2)
        y = F.conv2d(x, w, padding=1)
        return y.flatten(1) @ y.flatten(1).t() if reader == "matmul" else y + 1

    return make_fx(call, tracing_mode="fake", decomposition_table={})(x, w)


def region_of(graph: Graph, relayout: str) -> _regions.Search:
    anchor = next(a for a in _regions.find_anchors(graph) if a.is_convolution)
    return _regions.search(anchor, arch="sm_90", strict_rounding=False, relayout=relayout)


@pytest.mark.parametrize("norm", [False, True])
def test_what_inductor_computes_is_channels_last_where_it_is_asked_for(norm: bool) -> None:
    x, w = torch.randn(2, 32, 8, 8).half(), torch.randn(32, 32, 3, 3).half()
    w = w.contiguous(memory_format=torch.channels_last)
    graph = convolution(x, w, norm=norm, reader="add").graph
    refused = region_of(graph, "never")
    assert refused.region is None and any("is not channels-last" in reason for reason in refused.refusals)
    region = region_of(graph, "fused").region
    assert region is not None
    (source,) = region.translation.relayout_inputs
    assert _regions.is_computed_in_kernels(source) == norm
    written = _select._as_written(source, region)
    assert written.is_contiguous(memory_format=torch.channels_last) == norm
    assert _select._copies(region) == ("0" if norm else "0 timed")
    relaid = _select.subgraph(region, relaid=True)
    assert relaid(x, w)[0].is_contiguous(memory_format=torch.channels_last)


def test_results_that_no_kernel_of_inductors_reads_keep_their_layout() -> None:
    x, w = torch.randn(2, 32, 8, 8).half(), torch.randn(32, 32, 3, 3).half()
    graph = convolution(x, w, norm=True, reader="matmul").graph
    found = region_of(graph, "fused")
    assert found.region is None and any(r.startswith("result") for r in found.refusals), found.refusals
    region = region_of(graph, "always").region
    assert region is not None and region.translation.relayout_outputs
