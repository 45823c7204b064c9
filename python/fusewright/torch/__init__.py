"""`torch.compile(backend="fusewright")`: Inductor, with attention, matmuls and convolutions of ours.

Everything that is not a region of ours stays Inductor's, forward and backward. `explain` tells for a model what was
fused, what was not, and why.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._functorch import config as functorch_config
from torch._inductor import config as inductor_config

from ._attention import AttentionPass
from ._explain import AnchorReport, Explanation
from ._interpreted import without_code
from ._lowering import install
from ._norms import NormPass
from ._options import Options, split_options
from ._pass import FusionPass, OptionsPass, compose, recorded_reports

__all__ = ["AnchorReport", "Explanation", "Options", "backend", "disable", "enable", "explain"]

_PASSES: dict[str, tuple[type[OptionsPass], ...]] = {
    "pre_grad_custom_pass": (AttentionPass, NormPass),
    "post_grad_custom_pre_pass": (FusionPass,),
}
"""Inductor's hooks, and what is put there."""


def backend(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Any:
    """Compiles a graph of Dynamo's as Inductor does, with our passes in its hooks.

    `mode` and `options` are those of `torch.compile`; options that begin with `fusewright.` are `Options`.
    """
    return _compiled(gm, example_inputs, mode, options)


def _compiled(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    mode: str | None,
    options: Mapping[str, Any] | None,
    **compilers: Any,
) -> Any:
    """What `backend` gives, by other `compilers` where Inductor's are not wanted."""
    from torch._inductor.compile_fx import compile_fx

    ours, theirs = split_options(options)
    install()
    patches = {**_mode_options(mode), **theirs}
    for hook, passes in _PASSES.items():
        patches[hook] = _composed(patches.get(hook, getattr(inductor_config, hook)), passes, ours)
    return compile_fx(gm, list(example_inputs), config_patches=patches, **compilers)


def _composed(existing: Any, passes: Sequence[type[OptionsPass]], options: Options) -> Any:
    """A hook's value with our passes behind what is there."""
    for graph_pass in passes:
        existing = compose(existing, graph_pass(options))
    return existing


def _mode_options(mode: str | None) -> dict[str, Any]:
    if mode is None or mode == "default":
        return {}
    return torch._inductor.list_mode_options(mode)


_before_enable: list[dict[str, Any]] = []


def enable(options: Mapping[str, Any] | None = None) -> None:
    """Puts our passes into every later `torch.compile` of this process that uses Inductor."""
    ours, theirs = split_options(options)
    if theirs:
        raise ValueError(f"{min(theirs)} is not an option of fusewright")
    disable()
    install()
    _before_enable.append({hook: getattr(inductor_config, hook) for hook in _PASSES})
    for hook, passes in _PASSES.items():
        setattr(inductor_config, hook, _composed(getattr(inductor_config, hook), passes, ours))


def disable() -> None:
    """Takes back `enable`."""
    if _before_enable:
        for hook, existing in _before_enable.pop().items():
            setattr(inductor_config, hook, existing)


def explain(
    model: torch.nn.Module | Any, *inputs: Any, options: Mapping[str, Any] | None = None, **keywords: Any
) -> Explanation:
    """Tells what would become of every matmul, convolution and attention of a model that is compiled for these inputs.

    The model runs once; where a result requires gradients, so does its backward. Gradients and buffers of the model
    are left as they were. Nothing is compiled but what has to be timed.
    """
    torch._dynamo.reset()

    def passes_alone(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
        return _compiled(gm, example_inputs, None, options, inner_compile=without_code)

    compiled = torch.compile(model, backend=passes_alone)
    buffers = {name: b.clone() for name, b in model.named_buffers()} if isinstance(model, torch.nn.Module) else {}
    try:
        with recorded_reports() as reports, functorch_config.patch(enable_autograd_cache=False):
            _run_backward(compiled(*inputs, **keywords), model, inputs)
    finally:
        for name, saved in buffers.items():
            model.get_buffer(name).data.copy_(saved)
        torch._dynamo.reset()
    return Explanation(list(reports))


def _run_backward(results: Any, model: Any, inputs: Sequence[Any]) -> None:
    """Asks for gradients of all results, without keeping them."""
    tensors = [t for t in torch.utils._pytree.tree_leaves(results) if isinstance(t, torch.Tensor) and t.requires_grad]
    leaves: list[torch.Tensor] = list(model.parameters()) if isinstance(model, torch.nn.Module) else []
    leaves += [t for t in torch.utils._pytree.tree_leaves(list(inputs)) if isinstance(t, torch.Tensor)]
    leaves = [t for t in leaves if t.requires_grad]
    if tensors and leaves:
        torch.autograd.grad(tensors, leaves, [torch.ones_like(t) for t in tensors], allow_unused=True)
