# mypy: allow-untyped-calls
"""Timing on a GPU: calls one behind the other as in a model, and modules as Inductor compiles them."""

import statistics
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

WARM_UPS = 3
REPETITIONS = 11
EXECUTIONS = 20
"""Executions in a CUDA graph, at least."""
CACHE_BYTES = 128 << 20
"""What operands together exceed: more than L2 caches hold."""
LARGEST_SETS = 64
"""Sets of operands beside the first, at most."""


def time_modules(
    modules: Sequence[GraphModule],
    values: Sequence[torch.Tensor],
    device: torch.device,
    before: Sequence[Callable[..., Any]] = (),
) -> list[float]:
    """Median seconds of calls, and of modules as Inductor compiles them; their operands are larger than L2."""
    with torch.no_grad(), torch.cuda.device(device), torch.cuda.stream(torch.cuda.Stream(device)):
        sets = [[sample(value) for value in values]]
        bytes_of_set = max(1, sum(t.numel() * t.element_size() for t in sets[0]))
        sets += [[sample(value) for value in values] for _ in range(min(LARGEST_SETS, CACHE_BYTES // bytes_of_set))]
        calls = [*before, *(compile_module(module, sets[0]) for module in modules)]
        return time_in_turns([_spread(call) for call in calls], sets, device)


def with_gradients(
    module: GraphModule, values: Sequence[torch.Tensor], differentiated: Sequence[bool], result: torch.Tensor
) -> GraphModule:
    """The gradients of a module's only result, of some of its operands, as a module that reads that of the result last.

    PyTorch compiles gradients when they are first asked for, under a lock that the compilation under way holds. Of this
    module nothing is left to be compiled later.
    """

    def call(*inputs: torch.Tensor) -> list[torch.Tensor]:
        leaves = [x.detach().requires_grad_(need) for x, need in zip(inputs, differentiated, strict=False)]
        (output,) = module(*leaves)
        wanted = [x for x in leaves if x.requires_grad]
        return [output, *torch.autograd.grad(output, wanted, inputs[-1])]

    # As AOTAutograd traces: threads of autograd's own would not see the mode.
    with torch.enable_grad(), FakeTensorMode(), torch.autograd.set_multithreading_enabled(False):
        fakes = [torch.empty_strided(v.shape, v.stride(), dtype=v.dtype, device=v.device) for v in (*values, result)]
        return make_fx(call)(*fakes)


def _spread(call: Callable[..., Any]) -> Callable[[list[torch.Tensor]], Any]:
    return lambda inputs: call(*inputs)


def sample(value: torch.Tensor) -> torch.Tensor:
    """Numbers of a tensor's type and strides, of moderate size."""
    own = [1 if stride == 0 else extent for extent, stride in zip(value.shape, value.stride(), strict=True)]
    result = torch.empty_strided(own, value.stride(), dtype=value.dtype, device=value.device)
    if value.dtype is torch.bool or not value.is_floating_point():
        result.random_(0, 2)
    elif value.dtype.itemsize == 1:
        result.copy_(torch.randn(own, device=value.device))
    else:
        result.normal_()
    return result.expand(value.shape)


def compile_module(module: GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
    """Inductor's code for a module, without our passes."""
    from torch._inductor.compile_fx import compile_fx

    patches = {"pre_grad_custom_pass": None, "post_grad_custom_pre_pass": None, "triton.cudagraphs": False}
    return compile_fx(module, inputs, config_patches=patches)  # type: ignore[return-value]


def time_in_turns(
    calls: Sequence[Callable[[list[torch.Tensor]], Any]], sets: Sequence[list[torch.Tensor]], device: torch.device
) -> list[float]:
    """Median seconds of one execution of each call on a GPU, one behind the other as in a model.

    CUDA graphs launch them, replayed in turn. The sets of operands are taken in turn, too: together they are larger
    than the L2 cache.
    """
    graphs = [_captured(call, sets) for call in calls]
    events: list[list[tuple[torch.cuda.Event, torch.cuda.Event]]] = [[] for _ in calls]
    for _ in range(WARM_UPS + REPETITIONS):
        for graph, pairs in zip(graphs, events, strict=True):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            graph.replay()
            end.record()
            pairs.append((start, end))
    torch.cuda.synchronize(device)
    executions = len(sets) * _rounds(sets)
    medians = [statistics.median(start.elapsed_time(end) for start, end in pairs[WARM_UPS:]) for pairs in events]
    return [median / 1e3 / executions for median in medians]


def _rounds(sets: Sequence[Any]) -> int:
    return -(-EXECUTIONS // len(sets))


def _captured(call: Callable[[list[torch.Tensor]], Any], sets: Sequence[list[torch.Tensor]]) -> torch.cuda.CUDAGraph:
    """Executions of a call with all sets of operands, as a CUDA graph."""
    for _ in range(WARM_UPS):
        call(sets[0])
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    # Not by `torch.cuda.graph`, which collects garbage and gives memory back first: 20 ms each time.
    graph.capture_begin()
    try:
        for _ in range(_rounds(sets)):
            for operands in sets:
                call(operands)
    finally:
        graph.capture_end()
    return graph
