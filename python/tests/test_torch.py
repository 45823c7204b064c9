"""The backend of `torch.compile`, on CPU tensors: the CPU engine runs what a GPU would, so results and gradients can be
held against eager PyTorch wherever an engine takes a region.

Every model is compiled with `select="always"`; `torch_comparison` says what is compared with what.
"""

import copy
import json
import pickle
from functools import partial

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from torch_comparison import (  # noqa: E402
    ALWAYS,
    assert_as_close_as_eager,
    compare_with_eager,
    compiled,
    counted_calls,
    fresh_compiler,  # noqa: F401
    operations,
)

import fusewright.torch as backend_module  # noqa: E402
from fusewright.torch import (  # noqa: E402
    _layout,
    _op,
    _options,
    _pass,
    _regions,
    _select,
    _times,
    _timing,
    _translate,
)

CHANNELS_LAST = torch.channels_last

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script_method.*")


class Mlp(nn.Module):
    def __init__(self, approximate="none"):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 64), nn.Linear(64, 32)
        self.approximate = approximate

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x)), approximate=self.approximate))


class SwiGlu(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.up, self.down = (nn.Linear(a, b, bias=False) for a, b in ((32, 64), (32, 64), (64, 32)))

    def forward(self, x):
        return x + self.down(F.silu(self.gate(x)) * self.up(x))


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.Conv2d(8, 16, 1)
        self.norm = nn.BatchNorm2d(8)

    def forward(self, x):
        return self.last(F.relu(self.norm(self.first(x)) + x))


class Block(nn.Module):
    """A transformer block; attention itself is PyTorch's."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.out, self.mlp = nn.LayerNorm(32), nn.Linear(32, 96), nn.Linear(32, 32), Mlp("tanh")

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).reshape(*x.shape[:2], 3, 4, 8).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.mlp(x + self.out(attended.transpose(1, 2).reshape(x.shape)))


class Scores(nn.Module):
    def forward(self, q, k):
        return torch.bmm(q, k.transpose(1, 2)) * 0.125


# Models.


@pytest.mark.parametrize("approximate, dtype", [("none", torch.float32), ("tanh", torch.bfloat16)])
def test_mlp_with_gelu_and_residual(approximate, dtype):
    reports = compare_with_eager(Mlp(approximate).to(dtype), torch.randn(2, 16, 32, dtype=dtype))
    assert all(r.taken for r in reports) and len(reports) == 6
    if approximate == "none":
        forward, backward = operations(reports)[0], operations(reports)[2]
        assert forward == "addmm mul mul erf add mul"
        assert backward.count("exp") == 1 and backward.endswith("add mul"), "the derivative of gelu is in the region"
    assert "addmm add" in operations(reports), "the residual is in the region"


def test_strict_rounding_gives_the_bits_of_eager():
    model = Mlp("tanh").bfloat16().eval()
    x = torch.randn(2, 16, 32).bfloat16()
    with torch.no_grad():
        call = compiled(model, **{"fusewright.strict_rounding": True, "emulate_precision_casts": True})
        assert (call(x) == model(x)).float().mean() > 0.99


def test_swiglu():
    reports = compare_with_eager(SwiGlu().bfloat16(), torch.randn(2, 16, 32).bfloat16())
    assert "mm neg exp add div mul" in operations(reports), "silu(gate) * up is in the region of one matmul"


@pytest.mark.parametrize("train", [False, True])
def test_convolution_net(train):
    model = ConvNet().to(memory_format=CHANNELS_LAST).train(train)
    x = torch.randn(2, 8, 8, 8).contiguous(memory_format=CHANNELS_LAST)
    reports = compare_with_eager(model, x)
    assert sorted(r.operation for r in reports if r.taken) == sorted(["conv_fprop", "conv_dgrad", "conv_wgrad"] * 2)
    if not train:
        assert "conv_fprop sub mul mul add add relu" in operations(reports)


def test_grouped_depthwise_and_transposed_convolutions():
    model = nn.Sequential(
        nn.Conv2d(8, 8, 3, padding=1, groups=8),
        nn.GELU(),
        nn.Conv2d(8, 16, 2, 2, groups=2),
        nn.ConvTranspose2d(16, 8, 2),
    ).to(memory_format=CHANNELS_LAST)
    reports = compare_with_eager(model, torch.randn(2, 8, 8, 8).contiguous(memory_format=CHANNELS_LAST))
    assert [r.refusals for r in reports if not r.taken and r.operation == "conv_fprop"] == [["transposed convolution"]]


def test_convolutions_of_other_layouts_are_copied_only_on_demand():
    model, x = nn.Conv2d(8, 8, 3, padding=1), torch.randn(2, 8, 8, 8)
    with torch.no_grad():
        wanted = model(x)
        found = compiled(model)(x)
    torch.testing.assert_close(found, wanted)
    assert found.stride() == wanted.stride()
    module = _traced(lambda x, w, b: F.conv2d(x, w, b, padding=1), x, model.weight.detach(), model.bias.detach())
    (anchor,) = _regions.find_anchors(module.graph)
    found = _regions.search(anchor, arch="sm_90", strict_rounding=False, relayout="never")
    assert found.region is None and "not channels-last" in found.refusals[0]


def test_transformer_block_under_autocast():
    model, x = Block(), torch.randn(2, 16, 32)

    def call(module, value):
        with torch.autocast("cpu", torch.bfloat16):
            return module(value)

    with torch.no_grad():
        eager = call(model, x)
        with _pass.recorded_reports() as reports, counted_calls() as calls:
            found = call(compiled(model), x)
        assert_as_close_as_eager([found], [eager], [model(x)])
    assert len(calls) == 5 and {r.data_type for r in reports if r.taken} == {"bfloat16"}


def test_transformer_block_training():
    compare_with_eager(Block(), torch.randn(2, 16, 32))


def test_bmm_with_scale():
    reports = compare_with_eager(Scores(), torch.randn(4, 16, 32), torch.randn(4, 16, 32))
    assert operations(reports)[0] == "bmm mul"


# Pointwise operations.

POINTWISE = {
    "clamp": lambda y, r: torch.clamp(y, -0.5, 0.5),
    "hinge": lambda y, r: torch.where(y > r, y, r * 0.5),
    "maximum": lambda y, r: torch.maximum(y, r),
    "powers": lambda y, r: y**2 + (y.abs() + 1) ** 0.5 + (y.abs() + 1) ** 1.5,
    "alpha": lambda y, r: torch.sub(torch.add(y, r, alpha=0.25), r, alpha=2),
    "rational": lambda y, r: torch.rsqrt(y.abs() + 1) / (1 + torch.exp(-r)),
    "row vector": lambda y, r: y * r[0] + r[:, :1],
    "transposed": lambda y, r: y + r.t().contiguous().t(),
}


@pytest.mark.parametrize("name", POINTWISE)
def test_pointwise_operations(name):
    """The region's graph, in the CPU engine, is the FX graph in eager PyTorch; NaN and infinities included."""
    a, b, r = torch.randn(16, 32), torch.randn(32, 16), torch.randn(16, 16)
    a[0, 0], a[1, 1] = float("nan"), float("inf")
    region, inputs = _region_of(lambda a, b, r: POINTWISE[name](a @ b, r), a, b, r)
    assert region.operations
    (found,) = _op.RUN(inputs, region.translation.text)
    (wanted,) = _select.subgraph(region)(*inputs)
    torch.testing.assert_close(found[0], wanted, rtol=1e-5, atol=1e-5, equal_nan=True)


def test_operations_of_other_semantics_stay_outside():
    a, b = torch.randn(16, 32), torch.randn(32, 16)
    for rest in (lambda y: torch.floor(y), lambda y: y.int() + 1, lambda y: y.double() * 2, lambda y: y.t() * 2):
        region, _ = _region_of(partial(lambda rest, a, b: rest(a @ b), rest), a, b)
        assert not region.operations


def test_integer_matmul_with_scales():
    a, b = (torch.randint(-8, 8, shape, dtype=torch.int8) for shape in ((32, 32), (32, 32)))
    region, inputs = _region_of(lambda a, b, s: torch._int_mm(a, b).float() * s, a, b, torch.rand(32, 1))
    (found,) = _op.RUN(inputs, region.translation.text)
    torch.testing.assert_close(found[0], _select.subgraph(region)(*inputs)[0])


@pytest.mark.parametrize("is_fast", [False, True])
def test_fp8_matmul_with_scales_and_bias(is_fast):
    def scaled(a, b, s, t, bias):
        product = torch._scaled_mm(a, b.t(), s, t, bias=bias, out_dtype=torch.bfloat16, use_fast_accum=is_fast)
        return torch.relu(product)

    a, b = (torch.randn(32, 32).to(torch.float8_e4m3fn) for _ in range(2))
    s, t, bias = torch.tensor(0.5), torch.tensor(0.25), torch.randn(32).bfloat16()
    region, inputs = _region_of(scaled, a, b, s, t, bias)
    assert ("FAST_FLOAT_FOR_FP8" in region.translation.text) == is_fast
    (found,) = _op.RUN(inputs, region.translation.text)
    wanted = torch.relu(a.float() @ b.float().t() * 0.125 + bias.float()).bfloat16()
    torch.testing.assert_close(found[0], wanted, rtol=2**-7, atol=2**-7)  # two roundings of bfloat16


def _traced(function, *inputs):
    """The FX graph of ATen operations of a function."""
    from torch.fx.experimental.proxy_tensor import make_fx

    with torch.no_grad():
        return make_fx(function, tracing_mode="fake")(*inputs)


def _region_of(function, *inputs):
    """The region of the only anchor of a function, and samples of the inputs that it reads."""
    module = _traced(function, *inputs)
    (anchor,) = _regions.find_anchors(module.graph)
    found = _regions.search(anchor, arch="sm_90", strict_rounding=False, relayout="never")
    assert found.region is not None, found.refusals
    interpreter = torch.fx.Interpreter(module, garbage_collect_values=False)
    with torch.no_grad():
        interpreter.run(*inputs)
    return found.region, [interpreter.env[node] for node in found.region.translation.inputs]


# The operator.


def _operator_sample():
    region, inputs = _region_of(lambda a, b: torch.relu(a @ b), torch.randn(16, 32), torch.randn(32, 16))
    return region.translation.text, inputs


def test_operator_obeys_pytorchs_rules():
    text, inputs = _operator_sample()
    found = torch.library.opcheck(_op.RUN, (inputs, text))
    parts = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
    assert found == dict.fromkeys(parts, "SUCCESS")


def test_emulator_runs_what_the_pass_writes():
    text, inputs = _operator_sample()
    (found,), (wanted,) = _op.RUN(inputs, text, "emulator"), _op.RUN(inputs, text)
    torch.testing.assert_close(found, wanted, rtol=0, atol=2**-9 * 32**0.5 * 4)  # TF32 operands, 32 products


def test_operator_copies_what_has_other_strides():
    text, (a, b) = _operator_sample()
    (wanted,) = _op.RUN([a, b], text)
    (found,) = _op.RUN([a.t().contiguous().t(), torch.stack((b, b), -1)[..., 0]], text)
    assert torch.equal(found, wanted) and found.stride() == wanted.stride()


def test_fake_operator_needs_the_text_alone():
    text, inputs = _operator_sample()
    fakes = _op._run_fake([x.to("meta") for x in inputs], text)
    assert [(f.shape, f.stride(), f.dtype) for f in fakes] == [((1, 16, 16), (256, 16, 1), torch.float32)]


@pytest.mark.parametrize(
    "shape, stride, target, wanted",
    [
        ((2, 3, 4), (12, 4, 1), (1, 6, 4), (24, 4, 1)),
        ((2, 3, 4), (0, 0, 1), (1, 6, 4), (4, 0, 1)),
        ((2, 3, 4), (0, 4, 1), (1, 6, 4), None),
        ((6, 4), (1, 6), (1, 6, 4), (24, 1, 6)),
        ((2, 8, 3, 3), (72, 1, 24, 8), (2, 8, 9), (72, 1, 8)),
        ((4, 1), (1, 1), (1, 4, 1), (4, 1, 1)),
        ((2, 3), (3, 1), (7,), None),
    ],
)
def test_restride(shape, stride, target, wanted):
    assert _layout.restride(shape, stride, target) == wanted


# Selection, explanation, options.


def test_truth_values_in_the_memory_of_a_gpu_stay_with_inductor():
    with torch._subclasses.FakeTensorMode():
        values = {device: torch.empty(4, 4, dtype=torch.bool, device=device) for device in ("cpu", "cuda")}
    graph = torch.fx.Graph()
    for device, value in values.items():
        node = graph.placeholder(device)
        node.meta["val"] = value
        if device == "cpu":
            _translate._require_no_truths_in_memory(node)
        else:
            with pytest.raises(_translate.Untranslatable, match="cuda has truth values in memory"):
                _translate._require_no_truths_in_memory(node)


def test_silu_is_one_operation_where_nothing_else_reads_its_parts():
    class Gate(torch.nn.Module):
        def __init__(self, keeps: bool) -> None:
            super().__init__()
            self.linear, self.keeps = torch.nn.Linear(16, 24), keeps

        def forward(self, x):
            y = self.linear(x)
            exponential = torch.exp(-y)
            gate = y / (1 + exponential) if self.keeps else torch.nn.functional.silu(y)
            return (gate, exponential) if self.keeps else gate

    def modes(keeps):
        with torch.no_grad():
            explanation = backend_module.explain(Gate(keeps), torch.randn(8, 16), options=ALWAYS)
        nodes = json.loads(explanation.anchors[0].graph)["nodes"]
        return [node["mode"] for node in nodes if node["tag"] == "POINTWISE"]

    assert modes(keeps=False) == ["ADD", "SWISH_FWD"]
    assert modes(keeps=True)[:3] == ["ADD", "NEG", "EXP"]


def test_explain_lists_every_anchor_with_a_reason():
    model, x = Mlp(), torch.randn(2, 16, 32, requires_grad=True)
    explanation = backend_module.explain(model, x)
    assert [a.operation for a in explanation.anchors] == ["addmm", "addmm", "mm", "mm", "mm", "mm"]
    assert all(not a.taken and "CPU engine" in a.reason and a.engine for a in explanation.anchors)
    assert all(p.grad is None for p in model.parameters()) and x.grad is None
    assert str(explanation) == explanation.text and explanation.text.startswith("0 of 6 anchors taken (2 addmm, 4 mm)")
    assert len(json.loads(explanation.to_json())["anchors"]) == 6


def test_explain_makes_no_code(monkeypatch):
    """Nor changes it what the model gives, and to whom."""
    from torch._inductor.graph import GraphLowering

    monkeypatch.setattr(GraphLowering, "run", lambda *arguments: pytest.fail("code is made"))
    model, x = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5)), torch.randn(4, 8)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with counted_calls() as calls:
        explanation = backend_module.explain(model, x.requires_grad_(), options=ALWAYS)
    assert [a.taken for a in explanation.anchors] == [True] * 3 and len(calls) == 3
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_refused_anchors_stay_with_inductor():
    model, x = nn.Linear(32, 16).double(), torch.randn(4, 32).double()
    with torch.no_grad(), _pass.recorded_reports() as reports, counted_calls() as calls:
        torch.testing.assert_close(compiled(model)(x), model(x))
    assert not calls and [r.taken for r in reports] == [False] and "float64" in reports[0].refusals[0]


def test_regions_compile_alone_during_a_compilation(monkeypatch):
    """Measurement compiles a region's subgraph while Inductor compiles the graph around it."""
    checked = []

    def decide(region, options):
        def run():
            with torch.no_grad():
                alone = _select.subgraph(region)
                inputs = [_timing.sample(_translate.tensor_value(node)) for node in alone.inputs]
                theirs = _timing.compile_module(alone.module, inputs)(*inputs)
                ours = _op.RUN(inputs[: len(region.translation.inputs)], region.translation.text)
                for mine, other in zip(ours, theirs, strict=True):
                    torch.testing.assert_close(mine.reshape(other.shape), other, rtol=1e-5, atol=1e-5)
            checked.append(region)

        _times.in_fresh_thread(run)
        return _select.Decision(False, "compared")

    monkeypatch.setattr(_select, "decide", decide)
    model, x = nn.Sequential(nn.Linear(32, 32), nn.ReLU()), torch.randn(16, 32)
    with torch.no_grad():
        torch.testing.assert_close(compiled(model)(x), model(x))
    assert len(checked) == 1
    convolution = nn.Conv2d(8, 8, 3, padding=1).to(memory_format=torch.channels_last)
    image = torch.randn(2, 8, 6, 6).to(memory_format=torch.channels_last).requires_grad_()
    backend_module.explain(convolution, image, options=ALWAYS)  # past all caches
    assert {region.anchor.kind for region in checked[1:]} == {"conv_fprop", "conv_dgrad", "conv_wgrad"}


def test_operations_that_inductor_fuses_with_what_follows_are_told():
    a, b, r = torch.randn(16, 32), torch.randn(32, 16), torch.randn(16, 16)
    followed, _ = _region_of(lambda a, b, r: torch.softmax(a @ b + r, -1), a, b, r)
    stored, _ = _region_of(lambda a, b, r: torch.relu(a @ b + r), a, b, r)
    bare, _ = _region_of(lambda a, b: a @ b, a, b)
    assert [_select.is_followed(region) for region in (followed, stored, bare)] == [True, False, False]


def _called(function, *inputs):
    """The calls of a region's core, and the region."""
    region, _ = _region_of(function, *inputs)
    values = [_translate.tensor_value(node) for node in _select.subgraph(region).inputs]
    return _select.called_cores(region, values), region


def test_cores_that_inductor_calls_as_they_are_need_no_compilation():
    a, b, bias = torch.randn(16, 32), torch.randn(32, 24), torch.randn(24)
    (without, core), region = _called(lambda a, b, bias: torch.relu(torch.addmm(bias, a, b)), a, b, bias)
    operands = {"a": a, "b": b, "bias": bias}
    given = [operands[node.name.split("_")[0]] for node in _select.subgraph(region).inputs]
    torch.testing.assert_close(without(*given)[0], a @ b)
    torch.testing.assert_close(core(*given)[0], a @ b + bias)
    assert not _called(lambda a, b: torch.relu(a @ b), a, torch.randn(32, 23))[0], "padded by Inductor"
    assert not _called(lambda a, b, bias: a @ b + bias, a, b, bias)[0], "one call by Inductor"
    with torch._inductor.config.patch(max_autotune=True):
        assert not _called(lambda a, b: torch.relu(a @ b), a, b)[0], "its own templates"
    image, weight, bias = torch.randn(2, 8, 6, 6), torch.randn(16, 8, 3, 3), torch.randn(16)
    conv2d, last = (
        torch.nn.functional.conv2d,
        [t.contiguous(memory_format=torch.channels_last) for t in (image, weight)],
    )
    (core,), region = _called(lambda x, w: torch.relu(conv2d(x, w)), *last)
    torch.testing.assert_close(core(*last)[0], conv2d(*last))
    (core,), region = _called(conv2d, *last, bias)
    torch.testing.assert_close(core(*last, bias)[0], conv2d(*last))
    assert not _select._is_bare(region), "Inductor adds the bias"


def _joined(a, b, r):
    return torch.relu((a @ b) * r)


@pytest.mark.parametrize(
    ("function", "seconds", "expected"),
    [
        (lambda a, b, r: torch.softmax((a @ b) * r, -1), (1.0, 1.0, 9.0), _times.Times(1.0, 1.25)),
        (lambda a, b, r: a @ b, (1.0, 1.0, 9.0), _times.Times(1.0, 1.0)),
        (_joined, (1.7, 1.0, 1.5), _times.Times(1.7, 1.825, is_estimated=True)),
        (_joined, (1.8, 1.0, 1.5), _times.Times(1.8, 1.825, is_estimated=True)),
        (lambda a, b, r: torch.tanh((a @ b) * r), (1.8, 1.0, 1.5, 1.1, 1.4), _times.Times(1.1, 1.4)),
        (lambda a, b, r: torch.relu((a @ b) * r).half(), (1.2, 1.0, 1.5), _times.Times(1.2, 1.275, is_estimated=True)),
        (lambda a, b, r: torch.relu((a @ b) * r).half(), (1.3, 1.0, 1.5, 1.1, 1.4), _times.Times(1.1, 1.4)),
        (lambda a, b, r: torch.relu(a @ b + r), (1.1, 1.4), _times.Times(1.1, 1.4)),
    ],
)
def test_inductors_code_is_compiled_only_where_its_parts_do_not_decide(monkeypatch, function, seconds, expected):
    a, b, r = torch.randn(16, 32), torch.randn(32, 16), torch.randn(16, 16)
    region, _ = _region_of(function, a, b, r)
    left, compiled = list(seconds), []

    def time_modules(modules, values, device, before):
        compiled.extend(modules)
        return [left.pop(0) for _ in (*before, *modules)]

    monkeypatch.setattr(_select, "time_modules", time_modules)
    monkeypatch.setattr(_select, "_seconds_to_read", lambda region, device: 0.25)
    found = _select._measure(region, torch.device("cpu"), _options.Options())
    assert (found.fused, found.is_estimated) == (expected.fused, expected.is_estimated)
    assert found.inductor == pytest.approx(expected.inductor)
    assert not left and len(compiled) == (0 if len(seconds) == 3 else 1)


def test_of_a_core_with_a_bias_the_faster_call_counts():
    a, b, bias = torch.randn(16, 32), torch.randn(32, 16), torch.randn(16)
    bare, _ = _region_of(lambda a, b, bias: torch.addmm(bias, a, b), a, b, bias)
    assert _select.estimate(bare, 1.0, [1.0, 1.2, 9.0], 0.25) == _times.Times(1.0, 1.2)
    followed, _ = _region_of(lambda a, b, bias: torch.softmax(torch.addmm(bias, a, b).relu(), -1), a, b, bias)
    assert _select.estimate(followed, 1.0, [1.3, 1.2, 9.0], 0.25) == _times.Times(1.0, 1.45)


def test_a_pass_follows_the_core():
    a, b = torch.randn(16, 32), torch.randn(32, 24)
    (core,), _ = _called(lambda a, b: torch.relu(a @ b), a, b)
    torch.testing.assert_close(_select.with_pass(core)(a, b)[0], -(a @ b))
    torch.testing.assert_close(core(a, b)[0], a @ b, msg="the core stays what it is")


def test_measured_times_are_asked_for_once(monkeypatch):
    device, estimated = torch.device("cpu"), _times.Times(1.0, 1.1, is_estimated=True)
    monkeypatch.setattr(_times, "STORE", _times.TimeStore(None))
    monkeypatch.setattr(_times, "device_identity", lambda device: "a GPU")
    assert _times.known_times("region", device) is None
    assert _times.measured_once("region", device, lambda: estimated) == estimated
    assert _times.measured_once("region", device, lambda: pytest.fail("it is known")) == estimated
    decision = _select.by_time("region", lambda: estimated)
    assert decision.taken and "about 1.10 times" in decision.reason


def test_plans_are_built_ahead_for_all_regions_at_once(monkeypatch):
    built = []
    monkeypatch.setattr(_pass, "is_to_build", lambda region, options: region.anchor.kind == "mm")
    monkeypatch.setattr(_op, "build_plans", lambda wanted: built.append(list(wanted)))
    model = nn.Sequential(nn.Linear(32, 16, bias=False), nn.ReLU(), nn.Linear(16, 16, bias=False))
    with torch.no_grad(), counted_calls() as calls:
        backend_module.explain(model, torch.randn(8, 32), options={"fusewright.select": "measure"})
    ((first, second),) = [plans for plans in built if plans]
    assert not calls and first[0] != second[0] and first[1] == second[1] == "cpu"


def test_plans_that_fail_leave_the_others():
    text = _region_of(lambda a, b: a @ b, torch.randn(16, 32), torch.randn(32, 16))[0].translation.text
    _op.build_plans([("{}", "cpu"), (text, "cpu"), (text, "no device")])
    assert (text, "cpu") in _op._PLANS and ("{}", "cpu") not in _op._PLANS


def _choice(monkeypatch, times):
    """What is chosen of a region whose operand is computed for it alone, by these times; and what was timed."""
    a, b, *more = torch.randn(2048, 64), torch.randn(64, 2048), *torch.randn(3, 2048, 2048)
    region, _ = _region_of(lambda a, b, r, s, t: (torch.relu(a @ b) * (s - t)) + r, a, b, *more)
    asked = []

    def measured(region, device, options):
        names = tuple(str(m.target).split(".")[1] for m in region.operations)
        asked.append(names)
        return _times.Times(*times[names])

    monkeypatch.setattr(_select, "measured", measured)
    monkeypatch.setattr(
        _select,
        "decide",
        lambda region, options: _select.by_time("region", lambda: _select.measured(region, None, options)),
    )
    smaller = partial(_regions.smaller_regions, region, arch="sm_90", strict_rounding=False, relayout="never")
    chosen, decision = _select.choose(region, _options.Options(), "sm_90", smaller)
    return tuple(str(m.target).split(".")[1] for m in chosen.operations), decision, asked


WHOLE, FORWARD, CORE = ("relu", "sub", "mul", "add"), ("relu", "mul", "add"), ()


def test_of_a_slow_region_the_part_that_saves_most_is_taken(monkeypatch):
    times = {WHOLE: (1.0, 1.0), FORWARD: (0.8, 0.9), CORE: (0.4, 0.6)}
    chosen, decision, asked = _choice(monkeypatch, times)
    assert chosen == CORE and decision.taken and asked == [WHOLE, FORWARD, CORE]
    assert "1.00 with 4 more operations" in decision.reason
    chosen, decision, _ = _choice(monkeypatch, {**times, CORE: (0.4, 0.45)})
    assert chosen == FORWARD and decision.taken


def test_where_no_part_is_faster_the_region_is_reported(monkeypatch):
    chosen, decision, asked = _choice(monkeypatch, {WHOLE: (1.0, 0.9), FORWARD: (0.9, 0.9), CORE: (0.8, 0.8)})
    assert chosen == WHOLE and not decision.taken and decision.times == _times.Times(1.0, 0.9) and len(asked) == 3


def test_parts_are_timed_only_where_the_model_lets_them_win(monkeypatch):
    chosen, decision, asked = _choice(monkeypatch, {WHOLE: (0.9, 1.0)})
    assert chosen == WHOLE and decision.taken and asked == [WHOLE], "the whole region is faster"
    chosen, decision, asked = _choice(monkeypatch, {WHOLE: (2.0, 1.0)})
    assert chosen == WHOLE and not decision.taken and asked == [WHOLE], "the model gives no part half the time"


def test_a_bare_core_has_no_parts():
    region, _ = _region_of(lambda a, b: a @ b, torch.randn(16, 32), torch.randn(32, 16))
    assert _regions.smaller_regions(region, arch="sm_90", strict_rounding=False, relayout="never") == []


def test_times_lie_in_the_librarys_cache(monkeypatch, tmp_path):
    for name in ("FUSEWRIGHT_CACHE", "FUSEWRIGHT_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert _times.cache_folder() == tmp_path / ".cache" / "fusewright"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert _times.cache_folder() == tmp_path / ".cache" / "fusewright"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    assert _times.cache_folder() == tmp_path / "caches" / "fusewright"
    monkeypatch.setenv("FUSEWRIGHT_CACHE_DIR", str(tmp_path / "own"))
    assert _times.cache_folder() == tmp_path / "own"
    monkeypatch.setenv("FUSEWRIGHT_CACHE", "off")
    assert _times.cache_folder() is None
    store = _times.TimeStore(None)
    store.put("key", _times.Times(1, 2))
    assert store.get("key") == _times.Times(1, 2), "kept in memory"


def test_drivers_are_told_apart(monkeypatch):
    text = "NVRM version: NVIDIA UNIX {} Kernel Module{} 580.159.04  Thu Aug  6\nGCC version: gcc 12"
    for names in (("x86_64", ""), ("Open", " for x86_64")):
        monkeypatch.setattr(_times.Path, "read_text", lambda path, names=names: text.format(*names))
        assert _times.driver_version.__wrapped__() == "580.159.04"
    monkeypatch.undo()
    assert isinstance(_times.driver_version(), str)


def test_measured_times_are_kept(tmp_path):
    path, times = tmp_path / "folder" / "times.json", _times.Times(fused=0.9, inductor=1.0)
    _times.TimeStore(path).put("key", times)
    assert path.parent.stat().st_mode & 0o077 == 0, "the library takes no folder that others may write"
    _times.TimeStore(path).put("another", times)
    assert _times.TimeStore(path).get("key") == times and times.is_faster
    assert not _times.Times(fused=0.98, inductor=1.0).is_faster
    path.write_text("{")
    assert _times.TimeStore(path).get("key") is None


def test_enable_and_disable():
    model, x = nn.Linear(32, 16), torch.randn(16, 32)
    from torch._inductor import config

    backend_module.enable({"fusewright.select": "always"})
    try:
        with torch.no_grad(), config.patch(fx_graph_cache=False), counted_calls() as calls:
            torch.testing.assert_close(torch.compile(model)(x), model(x))
    finally:
        backend_module.disable()
    assert len(calls) == 1 and config.post_grad_custom_pre_pass is None


def test_pass_is_its_options():
    ours = _pass.FusionPass(_options.Options(select="always"))
    assert pickle.loads(pickle.dumps(ours)) == copy.deepcopy(ours) == ours
    assert ours.uuid() == pickle.loads(pickle.dumps(ours)).uuid()
    assert ours.uuid() != _pass.FusionPass(_options.Options()).uuid()


def test_hook_of_the_user_runs_first():
    seen = []
    both = _pass.compose(lambda graph: seen.append("theirs"), _pass.FusionPass(_options.Options()))
    both(torch.fx.Graph())
    assert seen == ["theirs"] and both.uuid() is None
    assert _pass.compose(None, ours := _pass.FusionPass(_options.Options())) is ours


@pytest.mark.parametrize("options", [{"fusewright.select": "fast"}, {"fusewright.speed": 1}])
def test_unknown_options_are_refused(options):
    with pytest.raises(ValueError, match=r"fusewright\."):
        _options.split_options(options)


def test_mode_and_options_reach_inductor():
    ours, theirs = _options.split_options({"fusewright.strict_rounding": True, "max-autotune": True})
    assert ours.strict_rounding and theirs == {"max_autotune": True}
    assert backend_module._mode_options("max-autotune-no-cudagraphs") == {
        "max_autotune": True,
        "coordinate_descent_tuning": True,
    }
