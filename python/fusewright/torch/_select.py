# mypy: allow-untyped-calls
"""Selection: which of the regions that an engine takes are worth taking from Inductor."""

import json
import logging
import os
import re
import statistics
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from ctypes import CDLL, byref, c_int
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx

import fusewright

from . import _op
from ._layout import channels_last
from ._options import Options
from ._regions import Region, is_computed_in_kernels, is_fusible, readers
from ._sizes import number
from ._translate import CHANNELS_LAST, VIEWS, tensor_value

aten = torch.ops.aten

Result = TypeVar("Result")

LOGGER = logging.getLogger(__name__)

NEEDED_RATIO = 0.97
"""A region is taken where it needs at most this share of the time of Inductor's code."""

MODEL_ERROR = 1.25
"""How much slower than in truth the model may take a part to be: it knows little of operands that the core lacks."""

WARM_UPS = 3
REPETITIONS = 11
EXECUTIONS = 20
"""Executions in a CUDA graph, at least."""
CACHE_BYTES = 128 << 20
"""What operands together exceed: more than L2 caches hold."""
LARGEST_SETS = 64
"""Sets of operands beside the first, at most."""


@dataclass(frozen=True)
class Times:
    """Median seconds of one region: fused, and as Inductor compiles it."""

    fused: float
    inductor: float

    @property
    def is_faster(self) -> bool:
        return self.fused <= NEEDED_RATIO * self.inductor

    @property
    def saved(self) -> float:
        return self.inductor - self.fused


@dataclass(frozen=True)
class Decision:
    taken: bool
    reason: str
    times: Times | None = None


NOT_ON_CPU = Decision(False, "the CPU engine is for verification and never faster")


def decide(region: Region, options: Options) -> Decision:
    """Whether to take a region, and why."""
    device = tensor_value(region.anchor.value).device
    if options.select == "always":
        return Decision(True, 'select is "always"')
    if device.type != "cuda":
        return NOT_ON_CPU
    if options.select == "model":
        joined = len(region.operations)
        return Decision(joined > 0, f"{joined} pointwise operations join the core")
    return by_time(region.anchor.value.name, lambda: measured(region, device, options))


def choose(
    region: Region, options: Options, arch: str, smaller: Callable[[], Sequence[Region]]
) -> tuple[Region, Decision]:
    """The region, or where it was measured and is not faster, that of the smaller ones that saves the most time.

    Smaller ones are asked for, and measured, only then: most compilations time one region an anchor.
    """
    decision = decide(region, options)
    if decision.taken or decision.times is None:
        return region, decision
    whole, others = decision.times, [r for r in smaller() if can_win(r, region, decision.times, arch)]
    tried = [(other, decide(other, options)) for other in others]
    won = [(d.times.saved, index) for index, (_, d) in enumerate(tried) if d.taken and d.times is not None]
    if not won:
        return region, decision
    chosen, theirs = tried[max(won)[1]]
    more = len(region.operations) - len(chosen.operations)
    reason = f"{theirs.reason}; {whole.inductor / whole.fused:.2f} with {more} more operations"
    return chosen, replace(theirs, reason=reason)


def can_win(part: Region, whole: Region, times: Times, arch: str) -> bool:
    """Whether a part of a measured region can be faster than Inductor's code, by the engines' model.

    Inductor needs no more time for the part than for the whole.
    """
    share = part.graph.expected_seconds(arch) / whole.graph.expected_seconds(arch)
    return times.fused * share <= MODEL_ERROR * NEEDED_RATIO * times.inductor


def by_time(name: str, measure: Callable[[], Times]) -> Decision:
    """Whether what was measured is faster than Inductor's code."""
    try:
        times = measure()
    except Exception as error:  # what cannot be measured is Inductor's, whatever the cause
        LOGGER.warning("%s was not measured: %s", name, error)
        return Decision(False, f"not measured: {error}")
    ratio = times.inductor / times.fused
    reason = f"{ratio:.2f} times as fast as Inductor's code, {1 / NEEDED_RATIO:.2f} needed"
    return Decision(times.is_faster, reason, times)


# Measurement.


def measured(region: Region, device: torch.device, options: Options) -> Times:
    """The times of a region on a device, from the store where they are known."""
    place = " followed" if is_followed(region) else ""
    if copies := _copies(region):
        place += f" relaid {copies}"
    return measured_once(f"{region.graph.key}{place}", device, lambda: _measure(region, device, options))


def measured_once(what: str, device: torch.device, measure: Callable[[], Times]) -> Times:
    """The times from the store, or measured now and put there."""
    key = f"{what} {device_identity(device)} {fusewright.__version__} {torch.__version__}"
    times = STORE.get(key)
    if times is None:
        times = in_fresh_thread(measure)
        STORE.put(key, times)
    return times


def device_identity(device: torch.device | None = None) -> str:
    """A GPU and its driver, which times depend on; the current GPU unless one is given."""
    return f"{torch.cuda.get_device_name(device)} driver {driver_version()}"


@lru_cache(maxsize=1)
def driver_version() -> str:
    """The driver's version where Linux tells it, else of CUDA as the driver has it; empty where there is none."""
    with suppress(OSError):
        found = re.search(r"Module .*?(\d+\.[\d.]+)", Path("/proc/driver/nvidia/version").read_text())
        if found:
            return found[1]
    version = c_int()
    with suppress(OSError, AttributeError):
        CDLL("libcuda.so.1").cuDriverGetVersion(byref(version))
    return str(version.value or "")


def in_fresh_thread(call: Callable[[], Result]) -> Result:
    """The call's result, free of the compilation under way: its tracing state and handlers belong to this thread."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(call).result()


def _measure(region: Region, device: torch.device, options: Options) -> Times:
    whole = subgraph(region)
    count = len(region.translation.inputs)
    text, session = region.translation.text, options.device

    def fused(*inputs: torch.Tensor) -> Any:
        return _op.RUN(list(inputs[:count]), text, session)

    theirs = [whole.module]
    if region.translation.relayout_outputs:
        # Between its own kernels Inductor has either layout.
        theirs.append(subgraph(region, relaid=True).module)
    core = [subgraph(region, core_alone=True).module] if is_followed(region) else []
    values = [_as_written(node, region) for node in whole.inputs]
    seconds, *others = time_modules([*theirs, *core], values, device, before=[fused])
    # Operations that Inductor computes in the kernel that follows cost it no more than reading their operands.
    alone = [time + _seconds_to_read(region, device) for time in others[len(theirs) :]]
    return Times(seconds, min(others[: len(theirs)] + alone))


def _copies(region: Region) -> str:
    """What of a region is copied from or to channels-last, and whether the copy is timed."""
    translation = region.translation
    found = [
        f"{number}{'' if is_computed_in_kernels(node) else ' timed'}"
        for number, node in enumerate(translation.inputs)
        if node in translation.relayout_inputs
    ]
    return ", ".join(found + ["results"] * bool(translation.relayout_outputs))


def _as_written(node: Node, region: Region) -> torch.Tensor:
    """An operand as the kernel before the region writes it: what Inductor computes, in the layout that is asked for."""
    value = tensor_value(node)
    if node in region.translation.relayout_inputs and is_computed_in_kernels(node):
        return value.new_empty_strided(value.shape, channels_last(value.shape))
    return value


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


def is_followed(region: Region) -> bool:
    """Whether everything that reads the region's results is what Inductor fuses pointwise operations into."""
    if not region.operations:
        return False
    found = [u for node in region.translation.outputs for u in readers(node) if u not in region.nodes]
    return bool(found) and all(map(is_fusible, found))


def _seconds_to_read(region: Region, device: torch.device) -> float:
    """The time in which a GPU's memory gives the operands of a region that its core does not have."""
    core = set(region.anchor.call.all_input_nodes)
    values = [tensor_value(node) for node in region.translation.inputs if node not in core]
    properties = torch.cuda.get_device_properties(device)
    bytes_per_second = properties.memory_clock_rate * 1e3 * 2 * properties.memory_bus_width / 8
    return sum(v.numel() * v.element_size() for v in values) / bytes_per_second


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


@dataclass(frozen=True)
class Subgraph:
    """A region as a module of its own.

    Its operands are those of the region, and behind them what the core reads in FX alone.
    """

    module: GraphModule
    inputs: list[Node]

    def __call__(self, *inputs: torch.Tensor) -> Any:
        return self.module(*inputs)


_COPIED = (*VIEWS, aten.expand.default, aten.full.default, aten.scalar_tensor.default)
"""What a region's operands may pass through before it reads them."""


def subgraph(region: Region, *, core_alone: bool = False, relaid: bool = False) -> Subgraph:
    """The region, or its core, as a module, whose results may be channels-last."""
    graph, anchor = Graph(), region.anchor
    inside = {anchor.call, *region.nodes}
    inputs = list(region.translation.inputs)
    copies = {node: _placeholder(graph, node) for node in inputs}
    more = [n for n in anchor.call.all_input_nodes if n not in copies and n.target not in _COPIED and n not in inside]
    for node in more:
        copies[node] = _placeholder(graph, node)

    def copy(node: Node) -> Any:
        if isinstance(node.meta.get("val"), torch.SymInt):
            return number(node.meta["val"])
        if node not in copies:
            copies[node] = graph.node_copy(node, copy)
        return copies[node]

    results = [copy(node) for node in ([anchor.value] if core_alone else region.translation.outputs)]
    if relaid:
        memory_format = CHANNELS_LAST[tensor_value(anchor.value).dim()]
        results = [graph.call_function(aten.clone.default, (r,), {"memory_format": memory_format}) for r in results]
    graph.output(tuple(results))
    if anchor.call is not anchor.value:
        # of a convolution's gradients the one that the region computes
        call = copies[anchor.call]
        call.args = (*call.args[:10], [index == anchor.value.args[1] for index in range(3)])
    return Subgraph(GraphModule({}, graph), [*inputs, *more])


def _placeholder(graph: Graph, node: Node) -> Node:
    result = graph.placeholder(node.name)
    result.meta["val"] = tensor_value(node)
    return result


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
    with torch.cuda.graph(graph):
        for _ in range(_rounds(sets)):
            for operands in sets:
                call(operands)
    return graph


# Store.


class TimeStore:
    """Measured times, in memory and, where there is a path, in a JSON file."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._times: dict[str, Times] | None = None

    def get(self, key: str) -> Times | None:
        return self._loaded().get(key)

    def put(self, key: str, times: Times) -> None:
        """Keeps a time; the file takes those of other processes along, and is replaced as a whole."""
        self._times = {**self._read(), **self._loaded(), key: times}
        if self.path is not None:
            try:
                self._write(self.path)
            except OSError as error:
                LOGGER.warning("measured times are not kept: %s", error)

    def _write(self, path: Path) -> None:
        # For its user alone: the library takes no folder that others may write.
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        text = json.dumps({k: asdict(t) for k, t in sorted(self._loaded().items())}, indent=1)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
            file.write(text)
        os.replace(file.name, path)

    def _loaded(self) -> dict[str, Times]:
        if self._times is None:
            self._times = self._read()
        return self._times

    def _read(self) -> dict[str, Times]:
        if self.path is None:
            return {}
        try:
            return {key: Times(**entry) for key, entry in json.loads(self.path.read_text()).items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}


def cache_folder() -> Path | None:
    """The folder of the library's disk cache, as the environment says; `None` where nothing is to be kept."""
    if os.environ.get("FUSEWRIGHT_CACHE") in ("off", "0"):
        return None
    if folder := os.environ.get("FUSEWRIGHT_CACHE_DIR"):
        return Path(folder).absolute()
    caches = Path(os.environ.get("XDG_CACHE_HOME") or "")
    if not caches.is_absolute():
        try:
            caches = Path.home() / ".cache"
        except RuntimeError:  # the user has no home
            return None
    return caches / "fusewright"


def _times_file() -> Path | None:
    folder = cache_folder()
    return None if folder is None else folder / "torch-times.json"


STORE = TimeStore(_times_file())
