# mypy: allow-untyped-calls
"""The operator `fusewright::run`: one fused graph, given as text, on a list of tensors.

The text is all that the operator needs, so compiled code that PyTorch keeps in a cache runs in a new process as it is.
"""

import json
import os
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import Any

import torch

from fusewright import FusewrightError, Graph, Plan, Session
from fusewright._core import register_torch_kernel
from fusewright._dtypes import DTYPES

from ._layout import Extents, is_in_layout, same_strides

DATA_TYPES: dict[torch.dtype, str] = {
    getattr(torch, spelling): name for spelling, name in DTYPES.items() if hasattr(torch, spelling)
}
_TORCH_TYPES = {name: dtype for dtype, name in DATA_TYPES.items()}

MOST_BUILDERS = 32
"""Threads that build plans at most, as many as Inductor has processes that compile."""

POINTER_ALIGNMENT = 16
"""Bytes to which the engines take every operand to be aligned."""


@dataclass(frozen=True)
class Description:
    """A tensor as the graph describes it."""

    uid: int
    dim: Extents
    stride: Extents
    dtype: torch.dtype


@dataclass(frozen=True)
class Signature:
    """What a graph's text says about its operands, in the order in which plans take them.

    Numbers are no operands: the text states their values.
    """

    inputs: tuple[Description, ...]
    outputs: tuple[Description, ...]


def read_signature(text: str) -> Signature:
    """The signature of a graph in the JSON that `_translate` writes."""
    graph = json.loads(text)
    produced = {uid for node in graph["nodes"] for uid in node["outputs"].values()}
    memory = [t for t in graph["tensors"] if not t["is_virtual"] and not t["is_pass_by_value"]]
    memory.sort(key=lambda t: t["uid"])
    return Signature(
        tuple(_description(t) for t in memory if t["uid"] not in produced),
        tuple(_description(t) for t in memory if t["uid"] in produced),
    )


signature = lru_cache(maxsize=4096)(read_signature)


def _description(tensor: dict[str, Any]) -> Description:
    return Description(tensor["uid"], tuple(tensor["dim"]), tuple(tensor["stride"]), _TORCH_TYPES[tensor["data_type"]])


_PLANS: dict[tuple[str, str], Plan] = {}
_SESSIONS: dict[str, Session] = {}
_LOCK = Lock()


def session_name(device: torch.device, session: str) -> str:
    """The session for tensors on a device, unless one is named."""
    return session or ("cpu" if device.type == "cpu" else f"cuda:{device.index or 0}")


def _session(device: str) -> Session:
    with _LOCK:
        session = _SESSIONS.get(device)
        if session is None:
            session = _SESSIONS[device] = Session(device)
        return session


def new_plan(text: str, device: str) -> Plan:
    """The plan of a graph on a device, as the device's session gives it."""
    return _session(device).plan(Graph.from_json(text))


def build_plans(wanted: Collection[tuple[str, str]]) -> None:
    """Builds the plans of graphs on devices side by side. Whoever asks for one that fails is told why."""

    def build(text: str, device: str) -> None:
        with suppress(FusewrightError):
            plan_for(text, device)

    if wanted:
        with ThreadPoolExecutor(min(len(wanted), MOST_BUILDERS, len(os.sched_getaffinity(0)))) as pool:
            list(pool.map(build, *zip(*wanted, strict=True)))


def plan_for(text: str, device: str) -> Plan:
    """The plan of a graph on a device, made at the first request and kept."""
    plan = _PLANS.get((text, device))
    if plan is None:
        plan = _PLANS[text, device] = new_plan(text, device)
    return plan


def _in_layout(tensor: torch.Tensor, wanted: Description) -> bool:
    return is_in_layout(tuple(tensor.shape), tensor.stride(), wanted.dim, wanted.stride)


def _copy_into(tensor: torch.Tensor, wanted: Description) -> torch.Tensor:
    """A fresh copy with the extents and strides that the graph describes."""
    result = torch.empty_strided(wanted.dim, wanted.stride, dtype=wanted.dtype, device=tensor.device)
    return result.copy_(tensor.reshape(wanted.dim))


def _run_cpu(inputs: Sequence[torch.Tensor], graph: str, device: str = "") -> list[torch.Tensor]:
    return run_on_host(plan_for(graph, session_name(inputs[0].device, device)), signature(graph), inputs)


def run_on_host(plan: Plan, operands: Signature, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The results of a plan for tensors in the host's memory."""
    tensors = [
        t.detach().as_strided(d.dim, d.stride) if _in_layout(t, d) else _copy_into(t, d)
        for t, d in zip(inputs, operands.inputs, strict=True)
    ]
    results = _execute(plan, tensors)
    return [
        r if same_strides(d.dim, r.stride(), d.stride) else _copy_into(r, d)
        for r, d in zip(results, operands.outputs, strict=True)
    ]


def _execute(plan: Plan, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [torch.utils.dlpack.from_dlpack(array) for array in plan.run(*tensors)]


class Execution:
    """What every execution of a graph on one GPU needs, prepared once: of a call only addresses are left to tell."""

    def __init__(self, plan: Plan, operands: Signature, outputs: Sequence[Any], where: torch.device) -> None:
        """`outputs`: extents, strides and types of the results, which lie in memory as the graph says."""
        self.where = where
        self.plan = plan
        self.inputs = operands.inputs
        self.outputs = outputs
        self.workspace_bytes = plan.workspace_bytes
        self._taken: list[set[tuple[Extents, Extents]]] = [set() for _ in operands.inputs]

    def operand(self, number: int, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor itself where its memory is what the plan takes, else a copy."""
        taken, layout = self._taken[number], (tuple(tensor.shape), tensor.stride())
        if layout not in taken:
            if not _in_layout(tensor, self.inputs[number]):
                return _copy_into(tensor, self.inputs[number])
            taken.add(layout)
        if tensor.data_ptr() % POINTER_ALIGNMENT:
            return _copy_into(tensor, self.inputs[number])
        return tensor

    def run(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        if len(inputs) != len(self.inputs):
            raise ValueError(f"found {len(inputs)} tensors; required: {len(self.inputs)}")
        where = self.where
        tensors = [self.operand(number, tensor) for number, tensor in enumerate(inputs)]
        outputs = [torch.empty_strided(d, s, dtype=t, device=where) for d, s, t in self.outputs]
        pointers = [t.data_ptr() for t in tensors]
        pointers += [t.data_ptr() for t in outputs]
        workspace = 0
        if self.workspace_bytes:
            # freed in the order of the stream, as all memory of the caching allocator
            room = torch.empty(self.workspace_bytes, dtype=torch.uint8, device=where)
            workspace = room.data_ptr()
        # as Inductor's own code asks: a stream's object costs 5 us
        self.plan.launch(pointers, workspace, torch._C._cuda_getCurrentRawStream(where.index))
        return outputs

    def run_on_its_device(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Runs, whatever device is the current one."""
        if torch.cuda.current_device() == self.where.index:
            return self.run(inputs)
        with torch.cuda.device(self.where):
            return self.run(inputs)


_EXECUTIONS: dict[tuple[str, str, int], Execution] = {}


def _run_cuda(inputs: Sequence[torch.Tensor], graph: str, device: str = "") -> list[torch.Tensor]:
    where = inputs[0].device
    key = (graph, device, where.index)
    execution = _EXECUTIONS.get(key)
    if execution is None:
        operands = signature(graph)
        outputs = [(d.dim, d.stride, d.dtype) for d in operands.outputs]
        plan = plan_for(graph, session_name(where, device))
        execution = _EXECUTIONS[key] = Execution(plan, operands, outputs, where)
    return execution.run_on_its_device(inputs)


def _run_fake(inputs: Sequence[torch.Tensor], graph: str, device: str = "") -> list[torch.Tensor]:
    where = inputs[0].device
    return [torch.empty_strided(d.dim, d.stride, dtype=d.dtype, device=where) for d in signature(graph).outputs]


# Inductor holds operands in a list to their strides only under `needs_exact_strides`, and where the node tells the
# strides (`meta["eager_input_vals"]`). The implementations above copy whatever arrives in another layout.
LAYOUT_TAG = getattr(torch.Tag, "needs_exact_strides", torch.Tag.needs_fixed_stride_order)
LIBRARY = torch.library.Library("fusewright", "DEF")
LIBRARY.define("run(Tensor[] inputs, str graph, str device='') -> Tensor[]", tags=(LAYOUT_TAG,))
LIBRARY.impl("run", _run_cpu, "CPU")
# The kernel in Rust does what `_run_cuda` does in a fraction of the host's time. PyTorch has what it needs since 2.10.
HAS_NATIVE_KERNEL = register_torch_kernel("CUDA")
if not HAS_NATIVE_KERNEL:
    LIBRARY.impl("run", _run_cuda, "CUDA")
torch.library.register_fake("fusewright::run", _run_fake, lib=LIBRARY)

RUN = torch.ops.fusewright.run.default
