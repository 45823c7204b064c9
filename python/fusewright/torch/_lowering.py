# mypy: allow-untyped-calls
"""How Inductor's code in Python executes `fusewright::run`: past PyTorch's dispatcher.

A result is a buffer that Inductor allocates, or has from what is no longer read, and an execution costs the host little
more than its launch. Code in C++, and that of PyTorch for which the kernel is not in Rust, calls the operator.
"""

from functools import lru_cache
from typing import Any

import torch

from fusewright._core import DirectKernel

from . import _op

KERNEL = "fusewright_run"
"""The kernel's name among those that Inductor's code calls."""


def run_by_dispatcher(*arguments: Any, out: torch.Tensor | None = None) -> Any:
    """What the kernel leaves to the operator: tensors that lie otherwise, and those of the CPU."""
    *inputs, graph, device = arguments
    results = _op.RUN(inputs, graph, device)
    if out is None:
        return results
    (result,) = results
    return (out.copy_(result),)


def new_results(graph: str) -> tuple[torch.Tensor, ...]:
    """New tensors for the results of a graph, on the current GPU."""
    # as Inductor's own code allocates
    allocate = torch._C._dynamo.guards._empty_strided_cuda  # type: ignore[attr-defined]
    return tuple(allocate(d.dim, d.stride, d.dtype) for d in _op.signature(graph).outputs)


@lru_cache(maxsize=1)
def install() -> None:
    """Tells Inductor of the kernel, and when to write its call."""
    from torch._inductor.lowering import fallback_handler, register_lowering
    from torch._inductor.select_algorithm import extern_kernels

    setattr(extern_kernels, KERNEL, DirectKernel(run_by_dispatcher, new_results))
    by_dispatcher = fallback_handler(_op.RUN, add_to_fallback_set=False)

    def lowered(inputs: list[Any], graph: str, device: str = "") -> Any:
        results = _results_past_dispatcher()
        if results is None:
            return by_dispatcher(inputs, graph, device)
        return _direct_call(inputs, graph, device, results)

    register_lowering(_op.RUN, type_promotion_kind=None)(lowered)


def _results_past_dispatcher() -> list[torch.Tensor] | None:
    """The results of the node that is lowered, where it is executed past the dispatcher."""
    from torch._inductor.virtualized import V

    if V.graph.cpp_wrapper or not _op.HAS_NATIVE_KERNEL:
        return None
    results: list[torch.Tensor] = V.graph.current_node.meta["val"]
    return results


def _direct_call(inputs: list[Any], graph: str, device: str, results: list[torch.Tensor]) -> list[Any]:
    """The call: of one result it fills a buffer of Inductor's, several it allocates."""
    from torch._inductor import ir

    layouts = [ir.FixedLayout(r.device, r.dtype, list(r.shape), list(r.stride())) for r in results]
    operands = [ir.ExternKernel.realize_input(x) for x in inputs]
    options: dict[str, Any] = {"python_kernel_name": f"extern_kernels.{KERNEL}", "op_overload": _op.RUN}
    if len(layouts) == 1:
        return [ir.TensorBox.create(ir.ExternKernelOut(layouts[0], operands, (graph, device), **options))]
    layout = ir.MultiOutputLayout(device=results[0].device)
    call = ir.ExternKernelAlloc(layout, operands, (graph, device), **options)
    call.outputs = [ir.MultiOutput(layout, call, [(tuple, index)]) for index, layout in enumerate(layouts)]
    return [ir.TensorBox.create(output) for output in call.outputs]
