"""Attention: calls of `scaled_dot_product_attention` as one fused graph, beside eager PyTorch."""

import copy
import faulthandler
from functools import partial

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from torch._inductor import config as inductor_config  # noqa: E402
from torch_comparison import (  # noqa: E402
    assert_as_close_as_eager,
    compiled,
    counted_calls,
    fresh_compiler,  # noqa: F401
    results_of,
)

import fusewright.torch as backend_module  # noqa: E402
from fusewright.torch import _attention, _calls, _pass, _select, _times, _timing  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script_method.*")

B, H, S, D = 2, 4, 40, 32


def operands(heads=H, keys=S, dtype=torch.bfloat16):
    """Query, key and value as a model has them: heads beside tokens in memory."""
    shapes = ((B, S, H, D), (B, keys, heads, D), (B, keys, heads, D))
    return [torch.randn(*shape).to(dtype).transpose(1, 2) for shape in shapes]


def assert_is_taken(function, *inputs):
    """Holds a compiled function against eager, with one attention by us."""
    with torch.no_grad(), _pass.recorded_reports() as reports, counted_calls() as calls:
        found = compiled(function)(*inputs)
    attention = [r for r in reports if r.operation == "attention"]
    assert [r.taken for r in attention] == [True], [r.refusals for r in attention]
    assert len(calls) == sum(r.taken for r in reports)
    exact = function(*(x.float() if x.is_floating_point() else x for x in inputs))
    assert_as_close_as_eager([found], [function(*inputs)], [exact])
    assert not found.isnan().any()


def assert_is_left(function, *inputs, because):
    with _pass.recorded_reports() as reports, counted_calls():
        found = compiled(function)(*inputs)
    (report,) = [r for r in reports if r.operation == "attention"]
    assert not report.taken and because in " ".join(report.refusals), report.refusals
    torch.testing.assert_close(found, function(*inputs), rtol=2**-5, atol=2**-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("keywords", [{}, {"is_causal": True}, {"scale": 0.3}], ids=str)
def test_attention_is_one_graph(dtype, keywords):
    assert_is_taken(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, **keywords), *operands(dtype=dtype))


def test_other_lengths_of_keys_and_groups_of_heads():
    inputs = operands(heads=2, keys=56)
    for is_causal in (False, True):
        call = partial(F.scaled_dot_product_attention, is_causal=is_causal, enable_gqa=True)
        assert_is_taken(lambda q, k, v, call=call: call(q, k, v), *inputs)


def masked(q, k, v, mask):
    return F.scaled_dot_product_attention(q, k, v, mask)


@pytest.mark.parametrize("shape", [(S, S), (B, 1, S, S), (1, H, S, S), (B, H, S, S), (B, 1, 1, S)], ids=str)
@pytest.mark.parametrize("is_added", [False, True])
def test_masks(shape, is_added):
    allowed = torch.rand(shape) > 0.3
    allowed[..., 0, 0] = True
    mask = torch.randn(shape).bfloat16() if is_added else allowed
    assert_is_taken(masked, *operands(), mask)


def test_rows_that_nothing_may_see_are_zeros():
    mask = torch.rand(B, 1, S, S) > 0.3
    mask[:, :, 3] = False
    assert_is_taken(masked, *operands(), mask)
    with torch.no_grad():
        assert (compiled(masked)(*operands(), mask)[:, :, 3] == 0).all()


@pytest.mark.parametrize("session", ["cpu", "emulator"])
@pytest.mark.parametrize("least", [torch.finfo(torch.bfloat16).min, -1e30, -1e9, -1e4, -torch.inf])
def test_rows_that_are_masked_by_a_number(least, session):
    """Models mask padding by the least number of a type, whole rows too, whose keys have equal weights in PyTorch."""
    mask = torch.zeros(1, 1, S, S).bfloat16()
    mask[..., 30:], mask[:, :, 3] = least, least
    inputs = [x[:1] for x in operands()]
    with torch.no_grad():
        found = compiled(masked, **{"fusewright.device": session})(*inputs, mask)
        exact = masked(*(x.float() for x in (*inputs, mask)))
    assert_as_close_as_eager([found], [masked(*inputs, mask)], [exact])
    assert not found.isnan().any()


@pytest.mark.parametrize("source", [(1, 1, 1, 1), (B, 1, 1, 1), (1, 1, S, 1), (B, 1, 1, S)], ids=str)
def test_masks_whose_axes_are_expanded(source):
    mask = (torch.rand(source) > 0.3).expand(B, H, S, S)
    assert_is_taken(masked, *operands(), mask)


def test_masks_that_the_model_makes():
    def model(q, k, v):
        places = torch.arange(S)
        mask = ((places[None] - places[:, None]).abs() < 7).expand(B, 1, S, S)
        return F.scaled_dot_product_attention(q, k, v, mask).transpose(1, 2).reshape(B, S, -1)

    assert_is_taken(model, *operands())


class Block(nn.Module):
    """Self-attention between linear layers."""

    def __init__(self):
        super().__init__()
        self.inward, self.outward = nn.Linear(H * D, 3 * H * D), nn.Linear(H * D, H * D)

    def forward(self, x):
        q, k, v = self.inward(x).unflatten(-1, (3, H, D)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.outward(y.transpose(1, 2).flatten(2))


def test_attention_between_linear_layers():
    model, x = Block().bfloat16(), torch.randn(B, S, H * D).bfloat16()
    with torch.no_grad(), _pass.recorded_reports() as reports, counted_calls() as calls:
        found = compiled(model)(x)
        eager, exact = model(x), model.float()(x.float())
    assert sorted(r.operation for r in reports if r.taken) == ["addmm", "addmm", "attention"]
    assert len(calls) == 3
    assert_as_close_as_eager([found], [eager], [exact])


class MultiHead(nn.Module):
    """PyTorch's own module, which Dynamo keeps as one call."""

    def __init__(self, **keywords):
        super().__init__()
        self.inner, self.keywords = nn.MultiheadAttention(H * D, H, batch_first=True), keywords

    def forward(self, x):
        y, weights = self.inner(x, x, x, **self.keywords)
        return y if weights is None else y + weights.sum()


def multi_head(x, **keywords):
    model = MultiHead(**keywords).bfloat16().eval()
    with torch.no_grad(), _pass.recorded_reports() as reports, counted_calls() as calls:
        found = compiled(model)(x)
        eager = model(x)
        model.keywords = {k: v.float() if v is BIAS else v for k, v in keywords.items()}
        exact = model.float()(x.float())
    assert_as_close_as_eager([found], [eager], [exact])
    assert len(calls) == sum(r.taken for r in reports)
    return [r.operation for r in reports if r.taken]


BIAS = torch.randn(S, S).bfloat16()
PADDED = torch.arange(S)[None] > torch.tensor([[S - 1], [9]])


@pytest.mark.parametrize(
    "keywords", [{}, {"attn_mask": BIAS}, {"key_padding_mask": PADDED}], ids=["", "bias", "padding"]
)
def test_multi_head_attention_is_looked_into(keywords):
    taken = multi_head(torch.randn(B, S, H * D).bfloat16(), need_weights=False, **keywords)
    assert "attention" in taken and len(taken) == 3


def test_multi_head_attention_that_tells_its_weights_has_no_call_to_replace():
    assert "attention" not in multi_head(torch.randn(B, S, H * D).bfloat16(), need_weights=True)


def assert_is_trained(model):
    """Holds a model's result and gradients against eager, and tells the report on its attention."""
    model, x = model.bfloat16(), torch.randn(B, S, H * D).bfloat16()
    wide = copy.deepcopy(model).float()
    with _pass.recorded_reports() as reports:
        found = results_of(compiled(model), model, [x])
    assert_as_close_as_eager(found, results_of(model, model, [x]), results_of(wide, wide, [x.float()]))
    (report,) = [r for r in reports if r.operation == "attention"]
    return report


def test_multi_head_attention_is_trained():
    assert assert_is_trained(MultiHead(need_weights=False)).taken


def test_a_mask_is_trained():
    class Biased(MultiHead):
        def __init__(self):
            super().__init__(need_weights=False)
            self.bias = nn.Parameter(torch.randn(S, S))

        def forward(self, x):
            self.keywords["attn_mask"] = self.bias
            return super().forward(x)

    assert assert_is_trained(Biased()).taken


def test_dropout_of_multi_head_attention_is_in_the_graph():
    model, x = MultiHead(need_weights=False).bfloat16(), torch.randn(B, S, H * D).bfloat16()
    model.inner.dropout = 0.5
    with _pass.recorded_reports() as reports:
        assert compiled(model)(x).requires_grad
    (report,) = [r for r in reports if r.operation == "attention"]
    assert report.taken and "dropout" in report.graph


# Gradients.


def gradients_of(function, inputs, more=()):
    leaves = [x.detach().clone().requires_grad_() for x in inputs]
    output = function(*leaves, *more)
    weights = torch.linspace(-1, 1, output.numel()).reshape(output.shape).to(output.dtype)
    return [output.detach(), *torch.autograd.grad(output, leaves, weights)]


def assert_gradients(function, inputs, more=()):
    """Holds results and gradients against eager; the attention and its gradients are one graph each."""
    with _pass.recorded_reports() as reports, counted_calls() as calls:
        found = gradients_of(compiled(function), inputs, more)
    (report,) = [r for r in reports if r.operation == "attention"]
    assert report.taken and len(calls) == 2, report.refusals
    wider = [x.float() if x.is_floating_point() else x for x in more]
    exact = gradients_of(function, [x.float() for x in inputs], wider)
    assert_as_close_as_eager(found, gradients_of(function, inputs, more), exact)


@pytest.mark.parametrize("keywords", [{}, {"is_causal": True}, {"scale": 0.3}], ids=str)
def test_gradients(keywords):
    assert_gradients(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, **keywords), operands())


def test_gradients_of_groups_of_heads():
    inputs = operands(heads=2, keys=56)
    assert_gradients(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True), inputs)


@pytest.mark.parametrize("source", [(1, 1, 1, 1), (1, 1, S, S), (B, 1, 1, S)], ids=str)
def test_gradients_under_masks(source):
    mask = torch.rand(source) > 0.3
    mask[..., 0] = True
    assert_gradients(masked, operands(), [mask.expand(B, H, S, S)])


@pytest.mark.parametrize("shape", [(S, S), (B, 1, S, S), (1, H, S, S), (B, H, S, S), (B, 1, 1, S), (H, 1, S)], ids=str)
def test_gradients_of_an_added_mask(shape):
    assert_gradients(masked, [*operands(), torch.randn(shape).bfloat16()])


def test_gradients_of_a_mask_that_is_expanded_or_computed():
    def expanded(q, k, v, mask):
        return masked(q, k, v, mask.expand(B, H, S, S))

    def computed(q, k, v, mask):
        return masked(q, k, v, torch.tanh(mask)[None] * 2)

    mask = torch.randn(1, H, 1, S).bfloat16()
    assert_gradients(expanded, [*operands(), mask])
    assert_gradients(computed, [*operands(), torch.randn(H, S, S).bfloat16()])


def test_gradients_of_a_mask_that_leaves_scores_out():
    mask = torch.randn(S, S).bfloat16().masked_fill(torch.ones(S, S).triu(1).bool(), -torch.inf)
    assert_gradients(masked, [*operands(), mask])


def test_gradients_through_operands_that_are_written_in_place():
    def model(q, k, v):
        filled = torch.zeros_like(q)
        filled[:, :, 1:] = q[:, :, :-1]
        return F.scaled_dot_product_attention(filled, k, v)

    assert_gradients(model, operands())


def test_a_model_is_trained():
    assert assert_is_trained(Block()).taken


def test_what_no_graph_says_stays_pytorchs():
    call = F.scaled_dot_product_attention
    assert_is_left(call, *operands(dtype=torch.float32), because="16-bit type")
    assert_is_left(call, *(x[:, 0] for x in operands()), because="four axes")


def test_attentions_of_attentions_and_plans_that_are_built_ahead(monkeypatch):
    built = []
    monkeypatch.setattr(_calls, "is_executed", lambda what, device, options: True)
    monkeypatch.setattr(_calls._op, "build_plans", lambda wanted: built.append(set(wanted)))
    call = F.scaled_dot_product_attention

    def chain(q, k, v):
        return call(call(q, k, v), k, call(q, k, v, is_causal=True))

    inputs = operands()
    with torch.no_grad(), counted_calls() as calls:
        found = compiled(chain)(*inputs)
    assert len(calls) == 3
    exact = chain(*(x.float() for x in inputs))
    assert_as_close_as_eager([found], [chain(*inputs)], [exact])
    first, *_ = [plans for plans in built if plans]
    assert {session for _, session in first} == {"cpu"} and len(first) >= 2


# Dropout.


P = 0.25


class Dropped:
    """A compiled attention with dropout, which draws the same weights whenever its seed is."""

    def __init__(self, keywords, mask=None, **options):
        def call(q, k, v):
            return F.scaled_dot_product_attention(q, k, v, mask, dropout_p=P, **keywords)

        self.compiled = compiled(call, **options)
        self.keywords, self.mask = keywords, mask

    def __call__(self, *inputs, seed=0):
        torch.manual_seed(seed)
        return self.compiled(*inputs)

    def kept(self, q, k, seed=0):
        """What of the probabilities is kept: the result for an identity of values."""
        values = torch.eye(k.shape[2]).to(k).expand(*k.shape[:3], k.shape[2]).contiguous()
        return self(q, k, values, seed=seed) != 0

    def exact(self, q, k, v, kept):
        q, k, v = (x.float() for x in (q, k, v))
        scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
        if self.mask is not None:
            scores = scores + self.mask.float()
        if self.keywords.get("is_causal"):
            scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf)
        return (scores.softmax(-1) * kept / (1 - P)) @ v


def squares(grad):
    """Query, key and value of as many keys as elements of a head."""
    return [torch.randn(B, H, D, D).bfloat16().requires_grad_(grad) for _ in range(3)]


@pytest.mark.parametrize("session", ["cpu", "emulator"])
@pytest.mark.parametrize("keywords", [{}, {"is_causal": True}], ids=str)
@pytest.mark.parametrize("is_masked", [False, True])
def test_dropout_keeps_a_share_of_the_probabilities(session, keywords, is_masked):
    mask = torch.randn(B, 1, D, D).bfloat16() if is_masked and not keywords else None
    attention, (q, k, v) = Dropped(keywords, mask, **{"fusewright.device": session}), squares(grad=False)
    with torch.no_grad(), _pass.recorded_reports() as reports:
        found, kept = attention(q, k, v), attention.kept(q, k)
    assert all(r.taken for r in reports if r.operation == "attention") and reports
    torch.testing.assert_close(found.float(), attention.exact(q, k, v, kept), rtol=2**-5, atol=2**-5)
    seen = torch.ones(D, D).tril().bool() if keywords else torch.ones(D, D).bool()
    share, count = kept[..., seen].float().mean().item(), kept[..., seen].numel()
    assert abs(share - (1 - P)) < 5 * (P * (1 - P) / count) ** 0.5
    assert not kept[..., ~seen].any()


def test_every_call_draws_anew_and_heads_and_batches_differ():
    attention, (q, k, _) = Dropped({}), squares(grad=False)
    with torch.no_grad():
        first, again, other = (attention.kept(q, k, seed) for seed in (1, 1, 2))
        torch.manual_seed(1)
        _, next_one = (attention.compiled(q, k, k) for _ in range(2))
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert not torch.equal(first[0], first[1]) and not torch.equal(first[:, 0], first[:, 1])
    torch.manual_seed(1)
    assert not torch.equal(attention.compiled(q, k, k), next_one)


@pytest.mark.parametrize("session", ["cpu", "emulator"])
@pytest.mark.parametrize("keywords", [{}, {"is_causal": True}], ids=str)
def test_gradients_are_those_of_the_probabilities_that_were_kept(session, keywords):
    attention, inputs = Dropped(keywords, **{"fusewright.device": session}), squares(grad=True)
    weights = torch.randn(B, H, D, D)
    with _pass.recorded_reports() as reports:
        found = attention(*inputs)
    assert [r.taken for r in reports if r.operation == "attention"] == [True]
    gradients = torch.autograd.grad(found, inputs, weights.bfloat16())
    kept = attention.kept(*inputs[:2]).detach()
    wider = [x.detach().float().requires_grad_() for x in inputs]
    exact = attention.exact(*wider, kept)
    torch.testing.assert_close(found.float(), exact, rtol=2**-5, atol=2**-5)
    for mine, wanted in zip(gradients, torch.autograd.grad(exact, wider, weights.bfloat16().float()), strict=True):
        assert (mine.float() - wanted).abs().max() <= 2**-5 * wanted.abs().max()


@pytest.mark.parametrize(("share", "reason"), [(1.0, "dropout of 1.0"), (0.5, "in symbolic extents")])
def test_dropout_of_everything_and_in_symbolic_extents_stays_pytorchs(share, reason):
    inputs = operands()
    if share == 0.5:
        for x in inputs:
            torch._dynamo.mark_dynamic(x, 0)
    with torch.no_grad(), _pass.recorded_reports() as reports:
        compiled(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, dropout_p=share))(*inputs)
    (report,) = [r for r in reports if r.operation == "attention"]
    assert not report.taken and reason in report.refusals[0], report.refusals


@pytest.mark.parametrize(("keywords", "grad", "count"), [({}, False, 1), ({"dropout_p": P}, False, 2), ({}, True, 2)])
def test_what_is_one_call_is_timed_without_being_compiled(monkeypatch, keywords, grad, count):
    seen = []

    def time_modules(modules, values, device, before=()):
        seen.append((len(modules), len(before)))
        with torch.no_grad():
            assert all(call(*map(_timing.sample, values)) for call in before)
        return [1.0, 2.0]

    monkeypatch.setattr(_calls, "time_modules", time_modules)

    def decide(fused, operation, options):
        assert _times.in_fresh_thread(lambda: fused.measure(None, "")) == _times.Times(1.0, 2.0)
        return _select.NOT_ON_CPU

    monkeypatch.setattr(_calls, "decide", decide)
    inputs = [x.requires_grad_(grad) for x in operands()]
    with torch.set_grad_enabled(grad):
        compiled(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, **keywords))(*inputs)
    assert seen == [(count, 2 - count)]


def test_what_is_timed_of_an_attention_with_dropout_runs(monkeypatch):
    inputs = [x.requires_grad_() for x in operands()]
    ours, theirs = results_of_what_is_timed(
        monkeypatch, lambda q, k, v: F.scaled_dot_product_attention(q, k, v, dropout_p=P), *inputs
    )
    assert [x.shape for x in ours] == [x.shape for x in theirs] and not any(x.isnan().any() for x in ours)


def test_selection_takes_none_on_the_cpu():
    with torch.no_grad():
        told = backend_module.explain(lambda q, k, v: F.scaled_dot_product_attention(q, k, v), *operands())
    (report,) = told.anchors
    assert report.operation == "attention" and report.supported and not report.taken
    assert "verification" in report.reason and report.graph


def results_of_what_is_timed(monkeypatch, function, *inputs):
    """What the modules that would be timed compute while the function is compiled, as selection compiles them."""
    seen = []

    def compute(fused, operation, options):
        def call():
            modules, values = _attention.what_is_timed(fused, options.device)
            assert [v.stride() for v in values[: len(inputs)]] == [x.stride() for x in inputs]
            given = [x.detach() for x in inputs]
            given += [torch.ones(v.shape, dtype=v.dtype).as_strided(v.shape, v.stride()) for v in values[len(inputs) :]]
            with torch.no_grad():
                return [_timing.compile_module(module, given)(*given) for module in modules]

        # A lock that the compilation holds would be waited for without an end.
        faulthandler.dump_traceback_later(120, exit=True)
        try:
            seen.append(_times.in_fresh_thread(call))
        finally:
            faulthandler.cancel_dump_traceback_later()
        return _select.NOT_ON_CPU

    monkeypatch.setattr(_calls, "decide", compute)
    compiled(function)(*inputs)
    ((ours, theirs),) = seen
    return ours, theirs


def test_what_is_timed_is_the_call_and_what_would_stand_in_its_place(monkeypatch):
    mask = (torch.rand(B, 1, 1, S) > 0.3).expand(B, H, S, S)
    inputs = [*operands(), mask]
    with torch.no_grad():
        ours, theirs = results_of_what_is_timed(monkeypatch, masked, *inputs)
        exact = masked(*(x.float() for x in inputs[:3]), mask)
    assert_as_close_as_eager(ours, theirs, [exact])


def test_what_is_timed_of_a_training_step_has_the_gradients(monkeypatch):
    inputs = [x.requires_grad_() for x in operands()]
    ours, theirs = results_of_what_is_timed(monkeypatch, F.scaled_dot_product_attention, *inputs)
    wider = [x.detach().float().requires_grad_() for x in inputs]
    exact = F.scaled_dot_product_attention(*wider)
    assert_as_close_as_eager(ours, theirs, [exact, *torch.autograd.grad(exact.sum(), wider)])


def test_what_is_timed_has_the_gradient_of_a_mask_that_is_trained(monkeypatch):
    inputs = [x.requires_grad_() for x in (*operands(), torch.randn(1, H, S, S).bfloat16())]
    ours, theirs = results_of_what_is_timed(monkeypatch, masked, *inputs)
    wider = [x.detach().float().requires_grad_() for x in inputs]
    exact = masked(*wider)
    assert len(ours) == len(theirs) == 5
    assert_as_close_as_eager(ours, theirs, [exact, *torch.autograd.grad(exact.sum(), wider)])


def test_what_is_timed_reads_an_operand_of_several_roles_once(monkeypatch):
    x = operands()[0].requires_grad_()
    ours, theirs = results_of_what_is_timed(monkeypatch, lambda x: F.scaled_dot_product_attention(x, x, x), x)
    wider = x.detach().float().requires_grad_()
    exact = F.scaled_dot_product_attention(wider, wider, wider)
    assert_as_close_as_eager(ours, theirs, [exact, *torch.autograd.grad(exact.sum(), [wider])])


def test_hooks_are_given_back():
    before = inductor_config.pre_grad_custom_pass
    backend_module.enable({"fusewright.select": "always"})
    try:
        with torch.no_grad(), counted_calls() as calls:
            torch.compile(partial(F.scaled_dot_product_attention))(*operands())
        assert len(calls) == 1
    finally:
        backend_module.disable()
    assert inductor_config.pre_grad_custom_pass is before
