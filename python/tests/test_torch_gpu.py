"""Compiled models on a GPU: streams, captures, addresses, memory that is not written, many calls, several GPUs.

Everything else about compiled models is tested without one; here is what only a GPU shows.
"""

import gc

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("needs a GPU", allow_module_level=True)

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from torch_comparison import compiled, fresh_compiler  # noqa: E402, F401

import fusewright.torch as backend_module  # noqa: E402
from fusewright.torch import _op, _pass  # noqa: E402

CALLS = 1_000_000


class Mlp(nn.Module):
    def __init__(self, width=256):
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(x), approximate="tanh"))


class Block(nn.Module):
    """The residual block of a diffusion U-Net."""

    def __init__(self, channels=64):
        super().__init__()
        self.first, self.second = nn.GroupNorm(8, channels), nn.GroupNorm(8, channels)
        self.one, self.two = (nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2))

    def forward(self, x):
        return x + self.two(F.silu(self.second(self.one(F.silu(self.first(x))))))


class Projection(nn.Module):
    """What an attention block of a diffusion U-Net begins with."""

    def __init__(self, channels=64):
        super().__init__()
        self.norm, self.linear = nn.GroupNorm(8, channels), nn.Linear(channels, channels)

    def forward(self, x):
        n, c, h, w = x.shape
        return self.linear(self.norm(x).permute(0, 2, 3, 1).reshape(n, h * w, c))


class Attention(nn.Module):
    def __init__(self, heads=4, size=64, dropout=0.0):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.qkv, self.out = nn.Linear(heads * size, 3 * heads * size), nn.Linear(heads * size, heads * size)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind()
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=self.dropout)
        return self.out(y.transpose(1, 2).flatten(-2))


MODELS = {
    "mlp": (Mlp, (192, 256)),
    "block": (Block, (4, 64, 16, 16)),
    "projection": (Projection, (4, 64, 16, 16)),
    "attention": (Attention, (2, 128, 256)),
}


def model_and_input(name):
    make, shape = MODELS[name]
    model, x = make().cuda().bfloat16().eval(), torch.randn(shape, device="cuda").bfloat16()
    if x.dim() == 4:
        model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    return model, x


def assert_near(found, wanted):
    assert (found.float() - wanted.float()).abs().max() <= 2**-5 * wanted.float().abs().max()


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("select", ["always", "measure"])
def test_models(name, select):
    model, x = model_and_input(name)
    with torch.no_grad(), _pass.recorded_reports() as reports:
        found = compiled(model, **{"fusewright.select": select})(x)
        assert_near(found, model.float()(x.float()))
    assert reports and (select == "measure" or all(r.taken for r in reports)), reports


@pytest.mark.parametrize("name", MODELS)
def test_results_do_not_depend_on_what_memory_held(name):
    """Every result and workspace lies in memory that was NaN before."""
    model, x = model_and_input(name)
    call = compiled(model)
    with torch.no_grad():
        wanted = call(x)
        for _ in range(3):
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            poison = [torch.full((1 << 24,), float("nan"), device="cuda") for _ in range(8)]
            poison += [torch.full((1 << size,), float("nan"), device="cuda") for size in range(4, 24) for _ in range(4)]
            del poison
            assert torch.equal(call(x), wanted)


def test_streams_do_not_wait_for_each_other_and_do_not_mix():
    model, _ = model_and_input("mlp")
    call = compiled(model)
    inputs = [torch.randn(192, 256, device="cuda").bfloat16() for _ in range(2)]
    with torch.no_grad():
        wanted = [call(x) for x in inputs]
        streams = [torch.cuda.Stream() for _ in inputs]
        torch.cuda.synchronize()
        for _ in range(200):
            found = []
            for x, stream in zip(inputs, streams, strict=True):
                with torch.cuda.stream(stream):
                    found.append(call(x))
            torch.cuda.synchronize()
            assert all(torch.equal(mine, other) for mine, other in zip(found, wanted, strict=True))


@pytest.mark.parametrize("name", MODELS)
def test_captures_replay(name):
    model, x = model_and_input(name)
    call = compiled(model)
    with torch.no_grad():
        call(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            found = call(x)
        for _ in range(2):
            x.normal_()
            graph.replay()
            assert_near(found, call(x))


def test_operands_of_odd_addresses_and_strides():
    x, w = torch.randn(64 * 65 + 1, device="cuda").bfloat16(), torch.randn(64, 64, device="cuda").bfloat16()

    def call(x, w):
        return torch.relu(x @ w)

    fused = compiled(call)
    with torch.no_grad():
        for tensor in (
            x[: 64 * 64].view(64, 64),
            x[1:4097].view(64, 64),
            x[1:].view(64, 65)[:, :64],
            x[:4096].view(64, 64).t(),
        ):
            assert_near(fused(tensor, w), call(tensor.float(), w.float()))


@pytest.mark.parametrize("name", MODELS)
def test_training_steps_are_those_of_eager_pytorch(name):
    torch.manual_seed(0)
    model, x = model_and_input(name)
    fused = compiled(model)
    gradients = []
    for call in (fused, model):
        leaves = [x.detach().requires_grad_(), *model.parameters()]
        gradients.append(torch.autograd.grad(call(leaves[0]).float().square().mean(), leaves))
    for mine, other in zip(*gradients, strict=True):
        assert_near(mine, other)


def test_dropout_keeps_its_share_and_gradients_are_of_the_same_probabilities():
    p, size = 0.3, 64
    call = compiled(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, dropout_p=p))
    q, k = (torch.randn(4, 8, size, size, device="cuda").bfloat16().requires_grad_() for _ in range(2))
    v = torch.eye(size, device="cuda").bfloat16().expand(4, 8, size, size).contiguous().requires_grad_()
    with _pass.recorded_reports() as reports:
        torch.manual_seed(1)
        kept = call(q, k, v) != 0
    assert [r.taken for r in reports if r.operation == "attention"] == [True]
    assert abs(kept.float().mean().item() - (1 - p)) < 5 * (p * (1 - p) / kept.numel()) ** 0.5
    torch.manual_seed(1)
    weights = torch.randn(4, 8, size, size, device="cuda")
    torch.manual_seed(1)
    gradients = torch.autograd.grad(call(q, k, v), [q, k, v], weights.bfloat16())
    wider = [x.detach().float().requires_grad_() for x in (q, k, v)]
    probabilities = (wider[0] @ wider[1].transpose(-2, -1) * size**-0.5).softmax(-1)
    exact = (probabilities * kept / (1 - p)) @ wider[2]
    for mine, other in zip(gradients, torch.autograd.grad(exact, wider, weights), strict=True):
        assert_near(mine, other)


@pytest.mark.slow
def test_a_million_calls_leave_nothing_behind():
    a, b = (torch.randn(64, 64, device="cuda").bfloat16() for _ in range(2))
    call = compiled(lambda a, b: torch.relu(a @ b))
    with torch.no_grad():
        for _ in range(1000):
            call(a, b)
        torch.cuda.synchronize()
        gc.collect()
        before = (torch.cuda.memory_allocated(), torch.cuda.memory_reserved(), resident_bytes())
        for _ in range(CALLS):
            call(a, b)
        torch.cuda.synchronize()
        gc.collect()
    after = (torch.cuda.memory_allocated(), torch.cuda.memory_reserved(), resident_bytes())
    assert after[:2] == before[:2] and after[2] - before[2] < 16 << 20, (before, after)


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def test_tensors_of_another_gpu_run_there():
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    call = compiled(lambda a, b: torch.relu(a @ b))
    with torch.no_grad():
        for device in ("cuda:0", "cuda:1", "cuda:0"):
            a, b = (torch.randn(64, 64, device=device).bfloat16() for _ in range(2))
            found = call(a, b)
            assert str(found.device) == device
            assert_near(found, torch.relu(a.float() @ b.float()))


def _train(rank, count, port, directory):
    torch.distributed.init_process_group("nccl", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=count)
    torch.cuda.set_device(rank)
    torch.manual_seed(0)
    model = Mlp().cuda()
    parallel = nn.parallel.DistributedDataParallel(model, device_ids=[rank])
    fused = torch.compile(parallel, backend="fusewright", options={"fusewright.select": "always"})
    x = torch.randn(count, 64, 256)[rank].cuda()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        fused(x).float().square().mean().backward()
    torch.save([p.grad.cpu() for p in model.parameters()], f"{directory}/{rank}.pt")
    torch.distributed.destroy_process_group()


def test_data_parallel_training(tmp_path):
    count = torch.cuda.device_count()
    if count < 2:
        pytest.skip("needs two GPUs")
    torch.multiprocessing.spawn(_train, (count, 29517, str(tmp_path)), nprocs=count)
    torch.manual_seed(0)
    model = Mlp().cuda()
    x = torch.randn(count, 64, 256).cuda()
    torch.stack([model(part).square().mean() for part in x]).mean().backward()
    found = [torch.load(tmp_path / f"{rank}.pt") for rank in range(count)]
    for mine, other, parameter in zip(*found[:2], model.parameters(), strict=True):
        assert torch.equal(mine, other), "gradients are averaged"
        assert_near(mine, parameter.grad.cpu())


def test_a_call_of_the_operator_costs_the_host_little(record_property):
    """Microseconds of calls alone, with what PyTorch takes for a matmul on this host; no limit, since hosts differ."""
    import time

    a, b = (torch.randn(64, 64, device="cuda").bfloat16() for _ in range(2))

    def microseconds(call, count=2000):
        for _ in range(100):
            call()
        torch.cuda.synchronize()
        start = time.perf_counter()
        for number in range(count):
            call()
            if number % 200 == 199:
                torch.cuda.synchronize()
        return (time.perf_counter() - start) / count * 1e6

    with torch.no_grad():
        told = backend_module.explain(lambda a, b: torch.relu(a @ b), a, b, options={"fusewright.select": "always"})
        text, out = told.anchors[0].graph, torch.empty(1, 64, 64, device="cuda", dtype=torch.bfloat16)
        from torch._inductor.select_algorithm import extern_kernels

        found = {
            "torch.mm": microseconds(lambda: torch.mm(a, b)),
            "torch.mm with out": microseconds(lambda: torch.mm(a, b, out=out[0])),
            "dispatcher": microseconds(lambda: _op.RUN([a, b], text, "")),
            "direct": microseconds(lambda: extern_kernels.fusewright_run(a, b, text, "", out=out)),
        }
    torch.testing.assert_close(out[0], torch.relu(a @ b), rtol=0.02, atol=0.1)
    for what, time_of_call in found.items():
        record_property(what, round(time_of_call, 2))
    print(found)
