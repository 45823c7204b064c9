"""Ways of `torch.compile` around the backend: modes, dynamic extents, autograd, odd operands, caches, export."""

import copy
import os
import subprocess
import sys
import warnings
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
)

import fusewright.torch as backend_module  # noqa: E402
from fusewright.torch import _pass  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script_method.*")


def hidden(width=16):
    return nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 4))


def assert_forward_is_close(found, model, *inputs):
    """Holds a result of FLOAT against eager, by the same model in DOUBLE."""
    with torch.no_grad():
        exact = copy.deepcopy(model).double()(*(x.double() for x in inputs))
        assert_as_close_as_eager([found.detach()], [model(*inputs)], [exact])


# Modes and options.


@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"])
def test_modes_keep_the_regions(mode):
    model, x = hidden(), torch.randn(4, 8)
    call = torch.compile(model, backend=partial(backend_module.backend, mode=mode, options=ALWAYS))
    with torch.no_grad(), counted_calls() as calls:
        assert_forward_is_close(call(x), model, x)
    assert len(calls) == 2


@pytest.mark.skipif(
    "fusewright" not in torch._dynamo.list_backends(), reason="the package is not installed, so no entry point names it"
)
def test_backend_is_found_by_its_name():
    model, x = hidden(), torch.randn(4, 8)
    call = torch.compile(model, backend="fusewright", options=ALWAYS, fullgraph=True)
    with torch.no_grad(), counted_calls() as calls:
        assert_forward_is_close(call(x), model, x)
    assert len(calls) == 2


def test_freezing_leaves_regions_of_folded_weights():
    model, x = nn.Sequential(nn.Conv2d(8, 8, 1), nn.BatchNorm2d(8), nn.ReLU()).eval(), torch.randn(2, 8, 4, 4)
    with torch.no_grad(), counted_calls() as calls:
        assert_forward_is_close(compiled(model, freezing=True)(x), model, x)
    assert len(calls) == 1


# Extents that change.


def test_dynamic_extents_are_right():
    model = hidden()
    call = torch.compile(model, dynamic=True, backend=partial(backend_module.backend, options=ALWAYS))
    for rows in (4, 7, 1):
        x = torch.randn(rows, 8)
        assert_forward_is_close(call(x), model, x)


def test_marked_and_automatic_dynamic_extents_are_right():
    model = hidden()
    for marks in (True, False):
        torch._dynamo.reset()
        call = compiled(model)
        with counted_calls() as calls:
            for rows in (4, 7, 9):
                x = torch.randn(rows, 8)
                if marks:
                    torch._dynamo.mark_dynamic(x, 0)
                assert_forward_is_close(call(x), model, x)
        assert len(calls) == 6, "both regions, whatever the extents"


def test_extents_of_zero():
    model = hidden()
    x = torch.randn(0, 8, requires_grad=True)
    y = compiled(model)(x)
    assert y.shape == (0, 4)
    y.sum().backward()
    assert x.grad.shape == x.shape and all(not p.grad.any() for p in model.parameters())


class ZeroDepth(nn.Module):
    def forward(self, a, b):
        return torch.relu(a @ b + 1)


def test_product_over_nothing():
    a, b = torch.randn(4, 0), torch.randn(0, 3)
    assert torch.equal(compiled(ZeroDepth())(a, b), torch.ones(4, 3))


# Autograd.


def test_training_under_autocast():
    model, x = hidden(), torch.randn(4, 8)

    def gradients(call, dtype, module):
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype is torch.float32):
            loss = call(x.to(dtype)).to(dtype).square().mean()
        return [loss.detach(), *torch.autograd.grad(loss, list(module.parameters()))]

    wide = copy.deepcopy(model).double()
    eager, exact = gradients(model, torch.float32, model), gradients(wide, torch.float64, wide)
    with counted_calls() as calls:
        found = gradients(compiled(model), torch.float32, model)
    assert calls
    for ours, theirs, wanted in zip(found, eager, exact, strict=True):
        scale = torch.finfo(torch.bfloat16).eps * wanted.abs().max()
        assert (ours - wanted).abs().max() <= 4 * (theirs - wanted).abs().max() + scale


def test_gradcheck():
    """In FLOAT, the widest type of a core, on multiples of 1/16, where differences of quotients are exact."""
    weight = torch.randint(-16, 17, (8, 6)) / 16.0

    def function(x, y):
        return (x @ weight) * y + y

    call = compiled(function)
    x = (torch.randint(-16, 17, (4, 8)) / 16.0).requires_grad_()
    y = (torch.randint(-16, 17, (4, 6)) / 16.0).requires_grad_()
    with counted_calls() as calls, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Input #")  # gradcheck would like float64
        assert torch.autograd.gradcheck(call, (x, y), eps=2**-4, atol=0, rtol=0, nondet_tol=0)
    assert calls


def test_gradients_of_some_operands_only():
    model = hidden()
    model[0].weight.requires_grad_(False)
    x = torch.randn(4, 8)
    loss = compiled(model)(x).sum()
    loss.backward()
    assert model[0].weight.grad is None and x.grad is None
    found = [p.grad.clone() for p in model.parameters() if p.requires_grad]
    model.zero_grad()
    exact = copy.deepcopy(model).double()
    model(x).sum().backward()
    exact(x.double()).sum().backward()
    assert_as_close_as_eager(found, *([p.grad for p in m.parameters() if p.requires_grad] for m in (model, exact)))


def test_double_backward_is_refused_as_by_inductor():
    def message(call):
        x = torch.randn(4, 8, requires_grad=True)
        (gradient,) = torch.autograd.grad(call(x).square().sum(), x, create_graph=True)
        with pytest.raises(RuntimeError) as raised:
            gradient.sum().backward()
        return str(raised.value)

    model = hidden()
    assert message(compiled(model)) == message(torch.compile(model)) and "double backward" in message(compiled(model))


def test_inference_mode_and_no_grad():
    model, x = hidden(), torch.randn(4, 8)
    call = compiled(model)
    for guard in (torch.inference_mode, torch.no_grad):
        with guard():
            y = call(x)
            assert not y.requires_grad
            assert_forward_is_close(y, model, x)


# Shapes of programs.


class Broken(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 4)

    def forward(self, x):
        y = torch.relu(self.first(x))
        torch._dynamo.graph_break()
        return self.second(y)


def test_graph_breaks():
    compare_with_eager(Broken(), torch.randn(4, 8))


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.outer, self.inner = nn.Linear(8, 8), hidden()
        self.call = compiled(self.inner)

    def forward(self, x):
        return self.call(torch.relu(self.outer(x)))


def test_nested_compilation():
    model, x = Nested(), torch.randn(4, 8)
    with torch.no_grad(), counted_calls() as calls:
        found = compiled(model)(x)
        wanted = model.inner(torch.relu(model.outer(x)))
    torch.testing.assert_close(found, wanted)
    assert len(calls) == 3


class Tied(nn.Module):
    """One weight in two places, and one that is a view of it."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 8))

    def forward(self, x):
        y = torch.relu(x @ self.weight.t())
        return F.gelu(y @ self.weight) @ self.weight[::2].t()


def test_tied_weights_and_views_of_them():
    compare_with_eager(Tied(), torch.randn(4, 8))


class Views(nn.Module):
    def __init__(self):
        super().__init__()
        flat = torch.randn(8 * 8 + 1)
        self.weight = nn.Parameter(flat[1:].view(8, 8))  # 4 bytes behind an aligned address

    def forward(self, x):
        return torch.tanh(F.linear(x, self.weight))


def test_parameters_that_are_views():
    compare_with_eager(Views(), torch.randn(4, 8))


class Product(nn.Module):
    def forward(self, a, b):
        return torch.relu(a @ b)


OPERANDS = {
    "transposed": lambda: (torch.randn(8, 4).t(), torch.randn(6, 8).t()),
    "strided": lambda: (torch.randn(8, 16)[::2, ::2], torch.randn(8, 6, 2)[..., 1]),
    "offset": lambda: (torch.randn(33)[1:].view(4, 8), torch.randn(8, 6)),
    "overlapping": lambda: (torch.randn(11).as_strided((4, 8), (1, 1)), torch.randn(8, 6)),
}


@pytest.mark.parametrize("name", OPERANDS)
def test_operands_of_other_layouts(name):
    """Without gradients, as those of overlapping operands are none."""
    model, inputs = Product(), OPERANDS[name]()
    with torch.no_grad(), counted_calls() as calls:
        assert_forward_is_close(compiled(model)(*inputs), model, *inputs)
    assert len(calls) == 1


EXPANDED = {
    "row": lambda: (torch.randn(1, 8).expand(4, 8), torch.randn(8, 6)),
    "column": lambda: (torch.randn(4, 8), torch.randn(8, 1).expand(8, 6)),
}


@pytest.mark.parametrize("name", EXPANDED)
def test_expanded_operands_stay_with_inductor(name):
    model, inputs = Product(), EXPANDED[name]()
    with torch.no_grad(), counted_calls() as calls, _pass.recorded_reports() as reports:
        assert_forward_is_close(compiled(model)(*inputs), model, *inputs)
    assert not calls and "operand of extents" in reports[0].refusals[0]


class Changes(nn.Module):
    """Changes an operand in place, and gives a view of it."""

    def forward(self, a, b, total):
        total.add_(a @ b)
        total[0] = 0
        return total[1:]


def test_operands_that_change_in_place():
    a, b, total = torch.randn(4, 8), torch.randn(8, 6), torch.randn(4, 6)
    wanted, found = total.clone(), total.clone()
    with torch.no_grad(), counted_calls() as calls:
        Changes()(a, b, wanted)
        view = compiled(Changes())(a, b, found)
    torch.testing.assert_close(found, wanted)
    assert view.data_ptr() == found[1:].data_ptr() and len(calls) == 1


# Caches, and export.


def run_python(text, folder, **variables):
    """What a program prints last, in a process of its own whose caches lie in a folder."""
    places = {"TORCHINDUCTOR_CACHE_DIR": folder / "inductor", "FUSEWRIGHT_CACHE_DIR": folder / "fusewright"}
    environment = {**os.environ, **{k: str(v) for k, v in places.items()}, **variables}
    done = subprocess.run([sys.executable, "-c", text], env=environment, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()[-1]


CACHED = """
import torch
from functools import partial
import fusewright.torch as backend_module
from fusewright.torch import _op, _pass
from torch._dynamo.utils import counters

calls, execute = [], _op._execute
_op._execute = lambda plan, tensors: (calls.append(plan), execute(plan, tensors))[1]
torch.manual_seed(0)
x, w = (torch.randn(8, 8, requires_grad=True) for _ in range(2))
options = {"fusewright.select": "always", "fusewright.strict_rounding": STRICT}
with torch._functorch.config.patch(enable_autograd_cache=True), _pass.recorded_reports() as reports:
    y = torch.compile(torch.mm, backend=partial(backend_module.backend, options=options))(x, w)
    y.backward(torch.randn(8, 8))
hits = {name: count for name, count in counters["inductor"].items() if name.startswith("fxgraph_cache")}
hits |= {name: count for name, count in counters["aot_autograd"].items() if name.startswith("autograd_cache")}
print([len(reports), len(calls), hits, [value.tolist() for value in (y, x.grad, w.grad)]])
"""


def test_caches_on_disk_serve_another_process(tmp_path):
    """Inductor's cache of graphs, and AOTAutograd's above it: the pass does not run in the second process.

    The products alone are compiled: whatever Inductor adds is C++, whose headers take minutes in an empty cache.
    """

    def run(strict):
        return eval(run_python(CACHED.replace("STRICT", str(strict)), tmp_path))

    first, second, strict = run(False), run(False), run(True)
    assert [first[0], second[0], strict[0]] == [3, 0, 3], "other options are another key"
    assert first[1] == second[1] == 3 and first[3] == second[3]
    assert first[2] == strict[2] == {"fxgraph_cache_miss": 2, "autograd_cache_miss": 1, "autograd_cache_saved": 1}
    assert second[2] == {"fxgraph_cache_hit": 2, "autograd_cache_hit": 1}


@pytest.mark.slow
def test_packages_of_aotinductor_hold_the_operator(tmp_path):
    """The package calls the operator through PyTorch's dispatcher, so its process has to import the backend."""
    model, x = nn.Sequential(nn.Linear(8, 16), nn.ReLU()).eval(), torch.randn(4, 8)
    path = str(tmp_path / "model.pt2")
    backend_module.enable({"fusewright.select": "always"})
    try:
        with torch.no_grad():
            torch._inductor.aoti_compile_and_package(torch.export.export(model, (x,)), package_path=path)
    finally:
        backend_module.disable()
    torch.save((x, model(x)), tmp_path / "sample.pt")
    loaded = f"""
import torch, sys
IMPORT
try:
    call = torch._inductor.aoti_load_package({path!r})
except RuntimeError as error:
    print(str(error).splitlines()[0])
    sys.exit()
from fusewright.torch import _op
calls, execute = [], _op._execute
_op._execute = lambda plan, tensors: (calls.append(plan), execute(plan, tensors))[1]
x, wanted = torch.load({str(tmp_path / "sample.pt")!r})
print([len(calls) for x in (x, x) if torch.testing.assert_close(call(x), wanted) is None])
"""
    assert run_python(loaded.replace("IMPORT", "import fusewright.torch"), tmp_path) == "[1, 2]"
    assert "fusewright::run" in run_python(loaded.replace("IMPORT", ""), tmp_path)
