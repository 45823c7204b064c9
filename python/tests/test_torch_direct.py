"""Executions past PyTorch's dispatcher: what Inductor's code calls, and what is left to the operator."""

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch._inductor.utils import run_and_get_code  # noqa: E402
from torch_comparison import ALWAYS, counted_calls, fresh_compiler  # noqa: E402, F401

import fusewright.torch as backend_module  # noqa: E402
from fusewright._core import DirectKernel  # noqa: E402
from fusewright.torch import _lowering, _op  # noqa: E402

CALL = "extern_kernels.fusewright_run("


def code_of(function, *inputs, options=ALWAYS):
    """What compiled code gives, and its text."""
    fused = torch.compile(function, backend=backend_module.backend, options=options)
    result, codes = run_and_get_code(fused, *inputs)
    return result, "\n".join(codes)


def test_a_result_is_a_buffer_of_inductors():
    x, w, v = torch.randn(16, 32), torch.randn(32, 24), torch.randn(24, 8)

    def two(x, w, v):
        return torch.relu(x @ w) @ v + 1

    with torch.no_grad(), counted_calls() as calls:
        result, code = code_of(two, x, w, v)
    torch.testing.assert_close(result, two(x, w, v))
    assert code.count(CALL) == 2 and "torch.ops.fusewright" not in code and len(calls) == 2
    assert code.count("empty_strided_cpu(") >= 2


def test_operands_keep_the_strides_that_the_graph_has():
    x, w = torch.randn(2, 32, 8, 8), torch.randn(32, 32, 3, 3).contiguous(memory_format=torch.channels_last)

    def convolution(x, w):
        return torch.relu(torch.nn.functional.conv2d(x * 2, w, padding=1))

    with torch.no_grad():
        result, code = code_of(convolution, x, w)
        torch.testing.assert_close(result, convolution(x, w), rtol=1e-4, atol=1e-4)
        assert CALL in code
        transposed, code = code_of(lambda x, w: (x.t() @ w).relu(), torch.randn(32, 16), torch.randn(32, 8))
    assert CALL in code and transposed.shape == (16, 8)


def test_several_results_are_allocated_by_the_call():
    x, w = torch.randn(16, 32), torch.randn(32, 24)

    def both(x, w):
        y = x @ w
        return torch.relu(y), y

    def used(x, w):
        y, z = both(x, w)
        return (y + 1) @ z.t()

    for function in (both, used):
        with torch.no_grad(), counted_calls() as calls:
            result, code = code_of(function, x, w)
        torch.testing.assert_close(result, function(x, w), rtol=1e-4, atol=1e-4)
        assert CALL in code and "torch.ops.fusewright.run.default(" not in code and len(calls) >= 1


def test_the_dispatcher_is_asked_where_the_kernel_is_not_in_rust(monkeypatch):
    monkeypatch.setattr(_op, "HAS_NATIVE_KERNEL", False)
    with torch.no_grad():
        _, code = code_of(lambda x, w: torch.relu(x @ w), torch.randn(8, 8), torch.randn(8, 8))
    assert CALL not in code and "torch.ops.fusewright.run.default(" in code


def test_gradients_are_those_of_the_model():
    model = nn.Sequential(nn.Linear(32, 48), nn.GELU(), nn.Linear(48, 16))
    x = torch.randn(8, 32, requires_grad=True)
    wanted = torch.autograd.grad(model(x).square().sum(), [x, *model.parameters()])
    with counted_calls() as calls:
        found = torch.autograd.grad(
            torch.compile(model, backend=backend_module.backend, options=ALWAYS)(x).square().sum(),
            [x, *model.parameters()],
        )
    assert calls
    for mine, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-4)


def test_what_does_not_lie_on_a_gpu_is_left_to_the_other_callable():
    seen = []

    def otherwise(*arguments, out):
        seen.append((arguments, out))
        return "done"

    kernel = DirectKernel(otherwise, lambda text: pytest.fail("nothing is allocated"))
    x, out = torch.randn(4, requires_grad=True), torch.empty(4)
    for arguments in ((x, "text", ""), ("text",), (), (1, 2, 3), ("text", "")):
        assert kernel(*arguments, out=out) == "done" and seen[-1] == (arguments, out)
        assert kernel(*arguments) == "done" and seen[-1] == (arguments, None)

    def failing(*arguments, out):
        raise ValueError("as it is")

    with pytest.raises(ValueError, match="as it is"):
        DirectKernel(failing, tuple)(x, "text", "", out=out)


def test_the_operator_fills_what_the_kernel_leaves_to_it():
    a, b, out = torch.randn(8, 8), torch.randn(8, 8), torch.full((1, 8, 8), float("nan"))
    with torch.no_grad():
        told = backend_module.explain(lambda a, b: torch.relu(a @ b), a, b, options=ALWAYS)
    (filled,) = _lowering.run_by_dispatcher(a, b, told.anchors[0].graph, "", out=out)
    (result,) = _lowering.run_by_dispatcher(a, b, told.anchors[0].graph, "")
    assert filled is out and torch.equal(result, out)
    torch.testing.assert_close(out[0], torch.relu(a @ b))


def test_attention_is_called_directly_too():
    q, k, v = torch.randn(3, 2, 4, 16, 64).bfloat16().unbind()
    with torch.no_grad(), counted_calls() as calls:
        result, code = code_of(lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v), q, k, v)
    torch.testing.assert_close(result, torch.nn.functional.scaled_dot_product_attention(q, k, v), rtol=0.02, atol=0.02)
    assert CALL in code and len(calls) == 1
