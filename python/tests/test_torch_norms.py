"""Norms of groups in compiled models: what becomes one graph, what is left to Inductor, and what is timed."""

import copy
import json

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from torch_comparison import (  # noqa: E402
    assert_as_close_as_eager,
    compiled,
    counted_calls,
    fresh_compiler,  # noqa: F401
    results_of,
)

import fusewright  # noqa: E402
import fusewright.torch as backend_module  # noqa: E402
from fusewright.torch import _calls, _norms, _pass, _select, _times, _timing  # noqa: E402


class Block(nn.Module):
    """A residual block of a diffusion U-Net."""

    def __init__(self, channels=32, groups=8, activation=F.silu):
        super().__init__()
        self.first, self.second = nn.GroupNorm(groups, channels), nn.GroupNorm(groups, channels)
        self.one, self.two = (nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2))
        self.time = nn.Linear(16, channels)
        self.activation = activation
        for norm in (self.first, self.second):
            nn.init.normal_(norm.weight)
            nn.init.normal_(norm.bias)

    def forward(self, x, t):
        h = self.one(self.activation(self.first(x))) + self.time(F.silu(t))[:, :, None, None]
        return x + self.two(self.activation(self.second(h)))


def norms_of(explanation):
    return [a for a in explanation.anchors if a.operation == "group_norm"]


@pytest.mark.parametrize("layout", [torch.channels_last, torch.contiguous_format])
@pytest.mark.parametrize("activation", [F.silu, F.relu, torch.relu, F.gelu])
def test_norms_are_those_of_the_model(layout, activation):
    model = Block(activation=activation).eval().to(memory_format=layout)
    x, t = torch.randn(2, 32, 8, 8).to(memory_format=layout), torch.randn(2, 16)
    with torch.no_grad(), _pass.recorded_reports() as reports, counted_calls() as calls:
        found = compiled(model)(x, t)
        torch.testing.assert_close(found, model(x, t), rtol=1e-4, atol=1e-4)
        assert found.stride() == model(x, t).stride()
    norms = [r for r in reports if r.operation == "group_norm"]
    assert len(norms) == 2 and all(n.taken and n.engine == "scalar" for n in norms)
    joined = [] if activation is F.gelu else ["swish" if activation is F.silu else "relu"]
    assert [n.region for n in norms] == [joined, joined]
    assert len(calls) == sum(r.taken for r in reports)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("shape", [(3, 12, 5), (2, 12, 4, 6), (2, 12, 3, 4, 5)])
def test_types_and_extents(dtype, shape):
    x, weight, bias = torch.randn(shape, dtype=dtype), torch.randn(12, dtype=dtype), torch.randn(12)
    tolerance = 1e-5 if dtype is torch.float32 else 2e-2

    def plain(x):
        return F.group_norm(x, 3)

    def scaled(x, weight):
        return F.silu(F.group_norm(x, 4, weight, eps=1))

    def mixed(x, weight, bias):
        return torch.group_norm(x, 12, weight.float(), bias).relu()

    for function, inputs in ((plain, (x,)), (scaled, (x, weight))):
        wanted = function(*(v.double() for v in inputs)).to(dtype)
        with torch.no_grad(), counted_calls() as calls:
            found = compiled(function)(*inputs)
        torch.testing.assert_close(found, wanted, rtol=tolerance, atol=tolerance)
        assert found.dtype == dtype and len(calls) == 1
    if dtype is torch.float32:
        with torch.no_grad():
            torch.testing.assert_close(compiled(mixed)(x, weight, bias), mixed(x, weight, bias), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("strict", [False, True])
def test_norms_are_rounded_before_activations_where_that_is_asked_for(strict):
    x, weight = torch.randn(4, 8, 6, 6).bfloat16(), torch.randn(8).bfloat16()

    def call(x, weight):
        return F.silu(F.group_norm(x, 2, weight))

    norm = F.group_norm(x.double(), 2, weight.double())
    wanted = F.silu(norm.bfloat16().double() if strict else norm).bfloat16()
    with torch.no_grad(), counted_calls() as calls:
        found = compiled(call, **{"fusewright.strict_rounding": strict})(x, weight)
    assert len(calls) == 1
    equal = (found == wanted).float().mean()
    assert equal > 0.99, "a rounding at a tie may differ"


def test_under_autocast_norms_are_float():
    model, x = Block().eval(), torch.randn(2, 32, 8, 8)
    t = torch.randn(2, 16)

    def call(x, t):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return model(x, t)

    with torch.no_grad(), _pass.recorded_reports() as reports:
        found = compiled(call)(x, t)
        torch.testing.assert_close(found.float(), model(x, t), rtol=0.05, atol=0.1)
    assert any(r.operation == "group_norm" and r.taken for r in reports)


def told(function, *inputs, select="measure", grad=False):
    with torch.set_grad_enabled(grad):
        return norms_of(backend_module.explain(function, *inputs, options={"fusewright.select": select}))


def test_what_inductor_fuses_further_is_left_to_it():
    x, w = torch.randn(2, 8, 4, 4), torch.randn(8, 8, 1, 1)
    for function, reason in (
        (lambda x, w: F.group_norm(x, 2) + x, "with what follows"),
        (lambda x, w: F.silu(F.group_norm(x, 2)) * 2, "with what follows"),
        (lambda x, w: F.conv2d(F.dropout(F.group_norm(x, 2)), w), "with what follows"),
        (lambda x, w: F.conv2d(F.group_norm(x * 2, 2), w), "computed by"),
        (lambda x, w: F.conv2d(F.group_norm(x.exp(), 2), w), "computed by"),
    ):
        (norm,) = told(function, x, w)
        assert not norm.taken and reason in norm.refusals[0], norm
    for function in (
        lambda x, w: F.group_norm(x, 2),
        lambda x, w: F.conv2d(F.silu(F.group_norm(x, 2)), w),
        lambda x, w: F.conv2d(F.dropout(F.silu(F.group_norm(x, 2)), training=False), w),
        lambda x, w: F.conv2d(F.dropout(F.group_norm(x, 2), 0.0), w),
        lambda x, w: F.conv2d(F.group_norm(F.conv2d(x, w), 2), w),
        lambda x, w: F.conv2d(F.group_norm(x + F.conv2d(x, w), 2), w),
    ):
        (norm,) = told(function, x, w)
        assert not norm.taken and "verification" in norm.reason, norm


@pytest.mark.parametrize("layout", [torch.channels_last, torch.contiguous_format])
@pytest.mark.parametrize("activation", [F.silu, F.relu, None])
def test_gradients(layout, activation):
    model = Block(activation=activation or (lambda x: x)).to(memory_format=layout)
    x, t = torch.randn(2, 32, 8, 8).to(memory_format=layout), torch.randn(2, 16)
    with _pass.recorded_reports() as reports, counted_calls() as calls:
        found = results_of(compiled(model), model, [x, t])
    norms = [r for r in reports if r.operation == "group_norm"]
    assert len(norms) == 2 and all(r.taken for r in norms)
    assert len(calls) == sum(r.taken for r in reports) + len(norms), "each with its gradients"
    exact_model = copy.deepcopy(model).double()
    exact = results_of(exact_model, exact_model, [x.double(), t.double()])
    assert_as_close_as_eager(found, results_of(model, model, [x, t]), exact)


@pytest.mark.parametrize("shape", [(3, 12, 5), (2, 12, 4, 6), (2, 12, 3, 4, 5)])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("parameters", [0, 1, 2])
@pytest.mark.parametrize("activation", [torch.relu, lambda x: x], ids=["relu", "none"])
def test_gradients_of_types_and_extents(shape, dtype, parameters, activation):
    inputs = [torch.randn(shape), *torch.randn(2, 12)][: 1 + parameters]
    weights = torch.randn(shape)

    def call(x, weight=None, bias=None):
        return activation(F.group_norm(x, 4, weight, bias))

    def gradients(function, kind):
        leaves = [v.to(dtype).to(kind).requires_grad_() for v in inputs]
        output = function(*leaves)
        return [output.detach(), *torch.autograd.grad(output, leaves, weights.to(dtype).to(kind))]

    with counted_calls() as calls:
        found = gradients(compiled(call), dtype)
    assert len(calls) == 2
    for mine, wanted in zip(found, gradients(call, torch.float64), strict=True):
        tolerance = 2**-6 if dtype is torch.bfloat16 else 1e-5
        assert mine.dtype == dtype and (mine.double() - wanted).abs().max() <= tolerance * wanted.abs().max()


def test_symbolic_extents_and_other_types_are_left_to_inductor():
    y = torch.randn(2, 8, 4, 4)
    torch._dynamo.mark_dynamic(y, 0)
    (norm,) = told(lambda x: F.group_norm(x, 2), y, select="always")
    assert not norm.taken and norm.refusals == ["symbolic extents"]
    (norm,) = told(lambda x: F.group_norm(x, 2), torch.randn(2, 8, 4, 4).double(), select="always")
    assert not norm.taken and "floating type" in norm.refusals[0]


def test_a_norm_that_several_read_is_one_without_an_activation():
    def both(x):
        y = F.group_norm(x, 2)
        return F.silu(y), y

    x = torch.randn(2, 8, 4, 4)
    with torch.no_grad(), _pass.recorded_reports() as reports, counted_calls() as calls:
        found = compiled(both)(x)
        for mine, other in zip(found, both(x), strict=True):
            torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-4)
    assert [r.region for r in reports] == [[]] and len(calls) == 1


def test_norms_of_norms_and_plans_that_are_built_ahead(monkeypatch):
    built = []
    monkeypatch.setattr(_calls, "is_executed", lambda what, device, options: True)
    monkeypatch.setattr(_calls._op, "build_plans", lambda wanted: built.append(set(wanted)))

    def chain(x):
        return F.group_norm(F.group_norm(F.silu(F.group_norm(x, 2)), 4), 2)

    x = torch.randn(2, 8, 4, 4)
    with torch.no_grad(), counted_calls() as calls:
        torch.testing.assert_close(compiled(chain)(x), chain(x), rtol=1e-4, atol=1e-4)
    assert len(calls) == 3
    first, *_ = [plans for plans in built if plans]
    assert {session for _, session in first} == {"cpu"} and len(first) == 3


def test_an_operand_that_changes_behind_the_norm_was_read_before():
    def changing(x):
        x = x * 2
        y = F.group_norm(x, 2)
        x.add_(100)
        x.mul_(torch.arange(16.0).reshape(1, 1, 4, 4))
        return F.silu(y), x

    x = torch.randn(2, 8, 4, 4)
    with torch.no_grad(), counted_calls() as calls:
        for mine, other in zip(compiled(changing)(x), changing(x), strict=True):
            torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-4)
    assert len(calls) == 1


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("layout", [torch.channels_last, torch.contiguous_format])
def test_what_is_timed_computes_what_the_model_does(monkeypatch, layout, grad):
    seen = []

    def compute(fused, operation, options):
        modules, values = _norms.what_is_timed(fused, options.device)
        given = [_timing.sample(v) for v in values]
        assert [v.stride() for v in given] == [v.stride() for v in values]

        def call():
            with torch.no_grad():
                ours, theirs = modules
                ours = _timing.compile_module(ours, given) if grad else ours
                return ours(*given), _timing.compile_module(theirs, given)(*given)

        seen.append(_times.in_fresh_thread(call))
        return _select.NOT_ON_CPU

    monkeypatch.setattr(_calls, "decide", compute)
    x, w = torch.randn(2, 8, 4, 4).to(memory_format=layout), torch.randn(8, 8, 1, 1)
    weight = torch.randn(8)
    with torch.set_grad_enabled(grad):
        compiled(lambda x, w, weight: F.conv2d(F.silu(F.group_norm(x, 2, weight)), w))(x, w, weight)
    ((ours, theirs),) = seen
    assert len(ours) == len(theirs) == (3 if grad else 1)
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-4)
    assert ours[0].is_contiguous(memory_format=torch.channels_last) and theirs[0].stride() == ours[0].stride()


@pytest.mark.parametrize("weights", [torch.channels_last, torch.contiguous_format])
@pytest.mark.parametrize("grad", [False, True])
def test_what_a_gpu_writes_row_major_is_written_as_its_reader_wants_it(monkeypatch, weights, grad):
    """PyTorch's kernel of a GPU writes row-major whatever it reads; convolutions have a layout of their own."""

    def as_on_a_gpu(node):
        value = symbolic(node)
        if node.target in (F.group_norm, F.silu):
            value = value.contiguous()
        return value

    symbolic = _calls.symbolic
    monkeypatch.setattr(_calls, "symbolic", as_on_a_gpu)
    strides, finished = [], fusewright.pygraph.finalize

    def finalize(graph):
        result = finished(graph)
        tensors = json.loads(result.to_json())["tensors"]
        strides.extend(t["stride"] for t in tensors if t["dim"] == [2, 8, 4, 4] and not t["is_virtual"])
        return result

    monkeypatch.setattr(fusewright.pygraph, "finalize", finalize)
    x = torch.randn(2, 8, 4, 4).to(memory_format=torch.channels_last).requires_grad_(grad)
    w, weight = torch.randn(8, 8, 1, 1).to(memory_format=weights), torch.randn(8)

    def call(x, w, weight):
        return F.conv2d(F.silu(F.group_norm(x, 2, weight)), w)

    with torch.set_grad_enabled(grad):
        found, wanted = compiled(call)(x, w, weight), call(x, w, weight)
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
        if grad:
            mine, other = (torch.autograd.grad(y.square().sum(), x)[0] for y in (found, wanted))
            torch.testing.assert_close(mine, other, rtol=1e-3, atol=1e-3)
    row_major = [n for n in strides if n == [128, 16, 4, 1]]
    assert strides and bool(row_major) == (weights is torch.contiguous_format)


class Before(nn.Module):
    """The norm of an attention block of a diffusion model, and what its projection reads."""

    def __init__(self, way, channels=16):
        super().__init__()
        self.way = way
        self.norm, self.linear = nn.GroupNorm(4, channels), nn.Linear(channels, channels)
        nn.init.normal_(self.norm.weight)
        nn.init.normal_(self.norm.bias)

    def forward(self, x):
        if self.way == "pixels":
            n, c, h, w = x.shape
            return self.linear(self.norm(x).permute(0, 2, 3, 1).reshape(n, h * w, c))
        if self.way == "rows":
            return self.linear(self.norm(x.flatten(2)).transpose(1, 2))
        return self.linear(self.norm(x.flatten(2).transpose(1, 2).transpose(1, 2)).transpose(1, 2))


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("layout", [torch.channels_last, torch.contiguous_format])
@pytest.mark.parametrize("way", ["pixels", "rows", "twice"])
def test_norms_before_linear_layers_of_another_shape(monkeypatch, way, layout, grad):
    """With the strides of a GPU, where they are channels-last or row-major, and the same result in each."""
    model = Before(way)
    x = torch.randn(2, 16, 3, 5).to(memory_format=layout).requires_grad_(grad)
    leaves = [x, *model.parameters()] if grad else []
    wanted = model(x)
    seen = []
    fused = _norms.fuse

    def fuse(*arguments):
        result = fused(*arguments)
        seen.append((result.norm.views, _norms.written(result.norm)))
        return result

    monkeypatch.setattr(_norms, "fuse", fuse)
    symbolic = _calls.symbolic
    monkeypatch.setattr(
        _calls, "symbolic", lambda n: symbolic(n).contiguous() if n.target is F.group_norm else symbolic(n)
    )
    with torch.set_grad_enabled(grad), counted_calls() as calls:
        found = compiled(model)(x)
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
        if grad:
            weights = torch.randn_like(found)
            pairs = [torch.autograd.grad(y, leaves, weights) for y in (found, wanted)]
            for mine, other in zip(*pairs, strict=True):
                torch.testing.assert_close(mine, other, rtol=1e-3, atol=1e-3)
    assert calls and seen
    for views, value in seen:
        assert views and value.is_contiguous() == (layout is torch.contiguous_format)


@pytest.mark.parametrize("grad", [False, True])
def test_views_are_timed_with_norms(monkeypatch, grad):
    seen = []

    def compute(fused, operation, options):
        modules, values = _norms.what_is_timed(fused, options.device)
        given = [_timing.sample(v) for v in values]

        def call():
            with torch.no_grad():
                ours, theirs = modules
                ours = _timing.compile_module(ours, given) if grad else ours
                return ours(*given), _timing.compile_module(theirs, given)(*given)

        seen.append((fused.place, _times.in_fresh_thread(call)))
        return _select.NOT_ON_CPU

    monkeypatch.setattr(_calls, "decide", compute)
    x = torch.randn(2, 16, 3, 5).to(memory_format=torch.channels_last)
    with torch.set_grad_enabled(grad):
        compiled(Before("pixels"))(x)
    ((place, (ours, theirs)),) = seen
    assert place.startswith("norm permute") and len(ours) == len(theirs) == (4 if grad else 1)
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-4)
    assert ours[0].shape == theirs[0].shape == (2, 15, 16) and ours[0].is_contiguous()


@pytest.mark.parametrize(
    "operand, refusal",
    [
        (lambda x, w: x.transpose(1, 2), None),
        (lambda x, w: F.linear(x, w).permute(0, 2, 1), None),
        (lambda x, w: (x * 2).transpose(1, 2), "Inductor fuses it with what its operand is computed by"),
        (lambda x, w: x.reshape(2, 8, 15), "Inductor fuses it with what its operand is computed by"),
    ],
)
def test_operands_may_be_views_of_what_is_in_memory(operand, refusal):
    def call(x, w, weight):
        return F.linear(F.group_norm(operand(x, w), 2, weight).transpose(1, 2), w)

    with torch.no_grad():
        inputs = (torch.randn(2, 15, 8), torch.randn(8, 8), torch.randn(8))
        told = backend_module.explain(call, *inputs, options={"fusewright.select": "model"})
    assert [a.refusals for a in norms_of(told)] == [[refusal] if refusal else []]


def test_views_that_others_read_leave_a_norm_alone():
    def call(x, weight):
        y = F.group_norm(x, 2, weight).flatten(2)
        return y.transpose(1, 2) @ torch.ones(8, 8), y

    with torch.no_grad():
        told = backend_module.explain(
            call, torch.randn(2, 8, 4, 4), torch.randn(8), options={"fusewright.select": "model"}
        )
    assert [a.refusals for a in norms_of(told)] == [["Inductor fuses it with what follows"]]
