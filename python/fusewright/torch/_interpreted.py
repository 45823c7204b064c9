# mypy: allow-untyped-calls
"""Graphs behind Inductor's passes, executed as they are: no code is made for who asks what passes decide."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._functorch._aot_autograd.utils import make_boxed_func
from torch._inductor import compile_fx
from torch._inductor.fx_passes.post_grad import view_to_reshape
from torch._inductor.virtualized import V
from torch.fx import GraphModule


def without_code(gm: GraphModule, example_inputs: Sequence[Any], **options: Any) -> Callable[[list[Any]], Any]:
    """What stands for Inductor's own compiler of a graph, and does as it does up to its last pass."""
    view_to_reshape(gm)
    with torch.no_grad():
        fake_mode = compile_fx.fake_tensor_prop(gm, example_inputs)
    with V.set_fake_mode(fake_mode):
        compile_fx._recursive_post_grad_passes(gm, is_inference=options.get("is_inference", False))
    gm.recompile()
    execute: Callable[[list[Any]], Any] = make_boxed_func(gm.forward)
    return execute
