# mypy: allow-untyped-calls
"""How Inductor's code executes `fusewright::run`: through PyTorch's dispatcher, or past it.

Past the dispatcher a result is a buffer that Inductor allocates, or has from what is no longer read, and an execution
costs the host little more than its launch.
"""

from functools import lru_cache
from typing import Any

import torch

from fusewright._core import DirectKernel

from . import _op

DIRECT = "fusewright_direct"
"""What nodes say, in their `meta`, that are to be executed past the dispatcher."""

KERNEL = "fusewright_run"
"""The kernel's name among those that Inductor's code calls."""


def run_by_dispatcher(*arguments: Any, out: torch.Tensor) -> None:
    """What the kernel leaves to the operator: tensors that lie otherwise, and those of the CPU."""
    *inputs, graph, device = arguments
    (result,) = _op.RUN(inputs, graph, device)
    out.copy_(result)


@lru_cache(maxsize=1)
def install() -> None:
    """Tells Inductor of the kernel, and when to write its call."""
    from torch._inductor.lowering import fallback_handler, register_lowering
    from torch._inductor.select_algorithm import extern_kernels

    setattr(extern_kernels, KERNEL, DirectKernel(run_by_dispatcher))
    by_dispatcher = fallback_handler(_op.RUN, add_to_fallback_set=False)

    def lowered(inputs: list[Any], graph: str, device: str = "") -> Any:
        result = _result_past_dispatcher()
        if result is None:
            return by_dispatcher(inputs, graph, device)
        return [_direct_call(inputs, graph, device, result)]

    register_lowering(_op.RUN, type_promotion_kind=None)(lowered)


def _result_past_dispatcher() -> torch.Tensor | None:
    """The only result of the node that is lowered, where it is executed past the dispatcher; not in C++."""
    from torch._inductor.virtualized import V

    node = V.graph.current_node
    results = node.meta["val"]
    if V.graph.cpp_wrapper or not node.meta.get(DIRECT) or len(results) != 1:
        return None
    result: torch.Tensor = results[0]
    return result


def _direct_call(inputs: list[Any], graph: str, device: str, result: torch.Tensor) -> Any:
    from torch._inductor import ir

    layout = ir.FixedLayout(result.device, result.dtype, list(result.shape), list(result.stride()))
    operands = [ir.ExternKernel.realize_input(x) for x in inputs]
    name = f"extern_kernels.{KERNEL}"
    call = ir.ExternKernelOut(layout, operands, (graph, device), python_kernel_name=name, op_overload=_op.RUN)
    return ir.TensorBox.create(call)
