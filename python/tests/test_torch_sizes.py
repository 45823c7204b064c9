"""Symbolic sizes: one compiled model in many shapes, beside eager PyTorch."""

import copy
import json
from functools import partial

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from torch_comparison import (  # noqa: E402
    ALWAYS,
    WIDER,
    assert_as_close_as_eager,
    counted_calls,
    fresh_compiler,  # noqa: F401
    results_of,
)

import fusewright.torch as backend_module  # noqa: E402
from fusewright.torch import _op, _pass, _sized, _sizes, _translate  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script_method.*")


def compiled(model, dynamic=True):
    return torch.compile(model, backend=partial(backend_module.backend, options=ALWAYS), dynamic=dynamic)


def assert_taken_in(function, *cases, dynamic=True):
    """Holds a function of one anchor against eager in several shapes, each by us; gives the reports."""
    call = compiled(function, dynamic)
    with torch.no_grad(), _pass.recorded_reports() as reports, counted_calls() as calls:
        for inputs in cases:
            found, eager = call(*inputs), function(*inputs)
            assert found.stride() == eager.stride()
            exact = function(*(x.to(WIDER[x.dtype]) if x.is_floating_point() else x for x in inputs))
            assert_as_close_as_eager([found], [eager], [exact])
    assert len(calls) == len(cases) and all(r.taken for r in reports), [r.refusals for r in reports]
    return reports


def matrices(*shapes):
    return [torch.randn(*shape) for shape in shapes]


def test_rows_of_a_layer():
    layer = nn.Linear(32, 16)

    def model(x):
        weight, bias = (p.to(x.dtype) for p in layer.parameters())
        return F.gelu(F.linear(x, weight, bias))

    (report,) = assert_taken_in(model, *(matrices((n, 7, 32)) for n in (5, 3, 2, 33)))
    assert report.region.count("mul") and report.extents == [-1, 16]
    graph = json.loads(report.graph)
    assert graph["context"]["is_dynamic_shape_enabled"], "binaries are shared"


MATMULS = {
    "batches": (
        lambda a, b: torch.bmm(a, b).relu(),
        [((4, 8, 16), (4, 16, 24)), ((3, 5, 7), (3, 7, 9)), ((2, 33, 8), (2, 8, 8))],
    ),
    "pitches": (lambda a, b: (a[:, :32] @ b).relu(), [((8, 40), (32, 24)), ((5, 44), (32, 24)), ((9, 64), (32, 24))]),
    "columns": (lambda a, b: a.t() @ b, [((8, 40), (8, 24)), ((5, 44), (5, 24)), ((90, 2), (90, 3))]),
    "a vector": (
        lambda a, b, c: (a @ b) * c[:, None],
        [((8, 8), (8, 8), (8,)), ((5, 3), (3, 24), (5,)), ((9, 64), (64, 24), (9,))],
    ),
    "another layout": (
        lambda a, b, c: (a @ b) + c.t(),
        [((8, 8), (8, 6), (6, 8)), ((5, 3), (3, 24), (24, 5)), ((9, 6), (6, 4), (4, 9))],
    ),
    "equal by chance": (
        lambda a, b, c: (a @ b) + c,
        [((8, 8), (8, 8), (8,)), ((5, 3), (3, 24), (24,)), ((9, 4), (4, 9), (9,))],
    ),
}


@pytest.mark.parametrize("name", MATMULS)
def test_matmuls_in_other_sizes(name):
    function, shapes = MATMULS[name]
    assert_taken_in(function, *(matrices(*s) for s in shapes))


def strided_convolution(x, w):
    return F.conv2d(x.to(memory_format=torch.channels_last), w, padding=1, stride=2)


def assert_left(function, *cases, because):
    """Holds a function against eager in several shapes; its anchors stay with Inductor."""
    with torch.no_grad(), _pass.recorded_reports() as reports:
        call = compiled(function)
        for inputs in cases:
            torch.testing.assert_close(call(*inputs), function(*inputs))
    assert reports and not any(r.taken for r in reports)
    assert because in " ".join(reports[0].refusals), reports[0].refusals


def test_images_of_other_numbers():
    w = torch.randn(32, 16, 3, 3)
    cases = [[torch.randn(n, 16, 8, 8), w] for n in (4, 3, 5, 2)]
    reports = assert_taken_in(strided_convolution, *cases, dynamic=None)
    assert [r.extents[0] for r in reports] == [4, -1]


def test_pixels_of_a_strided_convolution_stay_with_inductor():
    w = torch.nn.Parameter(torch.randn(8, 16, 3, 3))
    cases = [[torch.randn(n, 16, *pixels)] for n, pixels in ((4, (8, 8)), (3, (9, 14)))]
    assert_left(lambda x: strided_convolution(x, w), *cases, because="no multiple of a product of sizes")


def test_images_that_are_smaller_than_their_filter_in_a_sample():
    cases = [[torch.randn(n, 16, 8, 8), torch.randn(8, 16, 3, 3)] for n in (4, 3)]
    assert_left(strided_convolution, *cases, because="for other sizes")


def test_what_rounds_stays_with_inductor():
    """In even shapes a slice is the whole: a description by the other's size would be wrong in odd ones."""
    cases = [matrices((rows, 32), (32, 24)) for rows in (6, 5, 9)]
    assert_left(lambda a, b: a[: a.shape[0] // 2 * 2] @ b, *cases, because="one of several sizes")


def test_training_in_other_sizes():
    model = nn.Sequential(nn.Linear(32, 48), nn.GELU(), nn.Linear(48, 32))
    wide, call = copy.deepcopy(model).double(), compiled(model)
    with _pass.recorded_reports() as reports:
        for rows in (6, 5, 17):
            x = torch.randn(2, rows, 32)
            exact = results_of(wide, wide, [x.double()])
            assert_as_close_as_eager(results_of(call, model, [x]), results_of(model, model, [x]), exact)
    assert {r.operation for r in reports} == {"addmm", "mm"} and all(r.taken for r in reports)


# Attention.


def heads(batch, rows, keys=None, count=4, depth=32):
    return [torch.randn(batch, n, count, depth).bfloat16().transpose(1, 2) for n in (rows, keys or rows, keys or rows)]


@pytest.mark.parametrize("is_causal", [False, True])
def test_attention_of_other_lengths(is_causal):
    cases = [heads(*s) for s in ((2, 40), (3, 24), (2, 65), (5, 17))]
    (report,) = assert_taken_in(partial(F.scaled_dot_product_attention, is_causal=is_causal), *cases)
    assert report.taken and report.extents[:3] == [-1] * 3


def test_attention_is_compiled_for_each_size_of_heads():
    cases = [heads(2, 24, depth=depth) for depth in (32, 64, 32)]
    reports = assert_taken_in(F.scaled_dot_product_attention, *cases)
    assert {r.taken for r in reports} == {True}
    call = compiled(F.scaled_dot_product_attention)
    with torch.no_grad(), _pass.recorded_reports() as reports:
        inputs = heads(2, 24, depth=1040)  # more than engines take
        torch.testing.assert_close(call(*inputs), F.scaled_dot_product_attention(*inputs), rtol=2**-6, atol=2**-6)
    assert not any(r.taken for r in reports)


def test_attention_of_other_keys_than_queries():
    cases = [heads(*s) for s in ((2, 40, 50), (3, 24, 70), (2, 65, 9))]
    (report,) = assert_taken_in(F.scaled_dot_product_attention, *cases)
    assert report.taken


def test_attention_is_compiled_for_each_scale():
    """Under `dynamic=True` a number that a function is given is symbolic, too."""

    def model(q, k, v, scale):
        return F.scaled_dot_product_attention(q, k, v, scale=scale)

    call = compiled(model)
    with torch.no_grad(), _pass.recorded_reports() as reports, counted_calls() as calls:
        for scale in (0.5, 0.25, 0.5):
            inputs = heads(2, 24)
            exact = model(*(x.float() for x in inputs), scale)
            assert_as_close_as_eager([call(*inputs, scale)], [model(*inputs, scale)], [exact])
    assert len(calls) == 3 and all(r.taken for r in reports), [r.refusals for r in reports]


@pytest.mark.parametrize("is_expanded", [False, True])
def test_attention_under_masks_of_other_lengths(is_expanded):
    def model(q, k, v, mask):
        mask = mask.expand(q.shape[0], q.shape[1], q.shape[2], k.shape[2]) if is_expanded else mask
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    cases = []
    for batch, rows in ((2, 40), (3, 24), (2, 65)):
        mask = torch.rand(batch, 1, 1, rows) > 0.3
        mask[..., 0] = True
        cases.append([*heads(batch, rows), mask])
    (report,) = assert_taken_in(model, *cases)
    assert report.taken


def test_gradients_of_attention_of_other_lengths():
    def gradients(function, inputs):
        leaves = [x.detach().clone(memory_format=torch.preserve_format).requires_grad_() for x in inputs]
        result = function(*leaves)
        weights = torch.linspace(-1, 1, result.numel(), dtype=result.dtype).reshape(result.shape)
        return [result.detach(), *torch.autograd.grad(result, leaves, weights)]

    function = partial(F.scaled_dot_product_attention, is_causal=True)
    call = compiled(function)
    with _pass.recorded_reports() as reports:
        for shape in ((2, 40), (3, 24), (2, 65)):
            inputs = heads(*shape)
            exact = gradients(function, [x.float() for x in inputs])
            assert_as_close_as_eager(gradients(call, inputs), gradients(function, inputs), exact)
    assert [r.taken for r in reports] == [True]


# The operator.


def sized_region(function, *inputs):
    """The region of a function's anchor, as the pass finds it."""
    found = []

    class Seen(_pass.FusionPass):
        def _decide(self, search):
            found.append(search.region)
            return super()._decide(search)

    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setitem(backend_module._PASSES, "post_grad_custom_pre_pass", (Seen,))
        compiled(function)(*inputs)
    return found[0]


def test_texts_are_those_of_a_translation_in_these_sizes():
    region = sized_region(lambda a, b: (a @ b).relu(), *matrices((6, 32), (32, 24)))
    form = _sized.form_of(region.translation.sized_text)
    assert region.translation.sizes == [], "operands tell all sizes"
    values = form.values([torch.empty(6, 32), torch.empty(32, 24)], [])
    assert form.text(values) == region.translation.text
    other = json.loads(form.text(form.values([torch.empty(70, 11), torch.empty(11, 13)], [])))
    assert {t["name"]: t["dim"] for t in other["tensors"]} == {
        "t1": [1, 70, 11],
        "t2": [1, 11, 13],
        "t3": [1, 70, 13],
        "t4": [1, 70, 13],
    }
    assert [t["stride"][1] for t in other["tensors"]] == [11, 13, 13, 13]


def test_sizes_that_no_operand_tells_are_given():
    """The rows of a layer are one axis of its operand, and two of its result."""
    weight, bias = torch.randn(32, 16), torch.randn(16)
    region = sized_region(lambda x: (x @ weight + bias).relu(), torch.randn(5, 7, 32))
    assert [_sizes.number(n.meta["val"]) for n in region.translation.sizes] == [5, 7]
    x = torch.randn(12, 32)
    operands = {(35, 32): x, (32, 16): weight, (16,): bias}
    with torch.no_grad():
        inputs = [operands[tuple(_translate.tensor_value(n).shape)] for n in region.translation.inputs]
        (found,) = _sized.RUN_SIZED(inputs, [3, 4], region.translation.sized_text)
    torch.testing.assert_close(found, (x.view(3, 4, 32) @ weight + bias).relu())


def test_operator_obeys_pytorchs_rules():
    region = sized_region(lambda a, b: (a @ b).relu(), *matrices((6, 32), (32, 24)))
    inputs = matrices((7, 16), (16, 40))
    found = torch.library.opcheck(_sized.RUN_SIZED, (inputs, [], region.translation.sized_text))
    parts = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
    assert found == dict.fromkeys(parts, "SUCCESS")


def test_shapes_that_do_not_fit_are_told():
    region = sized_region(lambda a, b: (a @ b).relu(), *matrices((6, 32), (32, 24)))
    with pytest.raises(RuntimeError):
        _sized.RUN_SIZED(matrices((7, 16), (17, 40)), [], region.translation.sized_text)


def test_plans_of_shapes_are_bounded():
    assert _sized._planned.cache_info().maxsize == _sized.SHAPES
    before = len(_op._PLANS)
    region = sized_region(lambda a, b: a @ b, *matrices((6, 32), (32, 24)))
    kept = len(_op._PLANS)
    for rows in range(2, 12):
        _sized.RUN_SIZED(matrices((rows, 32), (32, 24)), [], region.translation.sized_text)
    assert len(_op._PLANS) == kept <= before + 1


# Terms.


def test_terms_that_samples_do_not_tell_apart_are_refused():
    texts = [json.dumps({"nodes": [], "tensors": [{"uid": 1, "dim": [n], "stride": [1]}]}) for n in (5, 6, 7, 8)]
    with pytest.raises(_sizes.Unsized, match="5 in these shapes, is no multiple"):
        _sized.sized_text(texts, [], [])
    texts[1] = texts[1].replace('"uid": 1', '"uid": 2')
    with pytest.raises(_sizes.Unsized, match="another graph for other sizes"):
        _sized.sized_text(texts, [], [])


def test_samples_keep_what_sizes_are_divisible_by():
    region = sized_region(lambda a, b: a @ b, *matrices((48, 32), (32, 24)))
    size = region.anchor.value.meta["val"].shape[0]
    drawn = []
    for sample in range(_sized.SAMPLES):
        with _sizes.sampled(sample):
            drawn.append(_sizes.number(size))
    assert drawn[0] == 48 and len(set(drawn)) == _sized.SAMPLES and all(n % 16 == 0 for n in drawn)
    with _sizes.sampled(-1):
        assert _sizes.number(size) % 2 == 1
    assert _sizes.number(size) == 48
