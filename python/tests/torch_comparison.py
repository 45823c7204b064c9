"""What tests of the backend share: compiled models, and how they are held against eager PyTorch.

Eager PyTorch rounds after each operation, a region once, and both sum in an order of their own. So neither is held
against the other: each result may be at most four times as far from that of the same model in a wider type as eager's
is, and beyond that one rounding of its type relative to the largest value.
"""

import copy
from contextlib import contextmanager
from functools import partial

import pytest
import torch

import fusewright.torch as backend_module
from fusewright.torch import _op, _pass

WIDER = {torch.float32: torch.float64, torch.bfloat16: torch.float32}
ALWAYS = {"fusewright.select": "always", "fx_graph_cache": False}


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch._dynamo.reset()
    torch.manual_seed(0)
    with torch._functorch.config.patch(enable_autograd_cache=False):  # a graph from a cache did not come by the pass
        yield
    torch._dynamo.reset()


def compiled(model, **options):
    return torch.compile(model, backend=partial(backend_module.backend, options={**ALWAYS, **options}))


def results_of(call, model, inputs):
    """The output, and the gradients of all inputs and parameters."""
    leaves = [x.detach().clone(memory_format=torch.preserve_format).requires_grad_() for x in inputs]
    output = call(*leaves)
    weights = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).reshape(output.shape)
    return [output.detach(), *torch.autograd.grad(output, [*leaves, *model.parameters()], weights)]


def assert_as_close_as_eager(found, eager, exact):
    for ours, theirs, wanted in zip(found, eager, exact, strict=True):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
        allowed = 4 * _distance(theirs, wanted) + torch.finfo(ours.dtype).eps * wanted.abs().max()
        assert _distance(ours, wanted) <= allowed


def _distance(left, right):
    return (left.to(right.dtype) - right).abs().max()


def compare_with_eager(model, *inputs, **options):
    """Holds the compiled model against eager, and tells what became of its anchors."""
    wider = WIDER[inputs[0].dtype]
    eager_model, exact_model = copy.deepcopy(model), copy.deepcopy(model).to(wider)
    eager = results_of(eager_model, eager_model, inputs)
    exact = results_of(exact_model, exact_model, [x.to(wider) for x in inputs])
    with _pass.recorded_reports() as reports, counted_calls() as calls:
        found = results_of(compiled(model, **options), model, inputs)
    assert_as_close_as_eager(found, eager, exact)
    assert len(calls) == sum(r.taken for r in reports) > 0
    return reports


@contextmanager
def counted_calls():
    """Lists the plans that are executed on the CPU."""
    calls, original = [], _op._execute

    def execute(plan, tensors):
        calls.append(plan)
        return original(plan, tensors)

    _op._execute = execute
    try:
        yield calls
    finally:
        _op._execute = original


def operations(reports):
    return [" ".join((r.operation, *(name for name in r.region if name != "cast"))) for r in reports]
