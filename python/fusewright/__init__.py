"""fusewright: operation graphs in the cuDNN Graph API model, checked, explained, compiled and executed.

>>> import fusewright
>>> graph = fusewright.pygraph(io_data_type="HALF", intermediate_data_type="FLOAT", compute_data_type="FLOAT")
>>> x = graph.tensor(name="x", dim=[1, 64, 128], stride=[8192, 128, 1])
>>> w = graph.tensor(name="w", dim=[1, 128, 32], stride=[4096, 32, 1])
>>> y = graph.relu(graph.matmul(x, w)).set_output(True)
>>> verdict = graph.check("sm_90")
>>> verdict.supported, verdict.surface
(True, '90')

Nothing here needs a GPU but ``Session("cuda:N")``: ``Session("cpu")`` computes graphs by the CPU engine, and
``Session("emulator")`` runs the text of the generated kernels on the CPU.
"""

from __future__ import annotations

try:
    from ._core import (
        Array,
        Config,
        Graph,
        Plan,
        Session,
        TensorInfo,
        Verdict,
        Violation,
        __version__,
        load,
        loads,
        rules,
    )
except ModuleNotFoundError as error:
    if error.name != f"{__name__}._core":
        raise
    raise ImportError(
        f"{__path__[0]} holds the sources of fusewright, not what they are built into: run scripts/python.sh --wheel, "
        "install the wheel, and start Python in another folder"
    ) from None
from ._errors import (
    EnvironmentFailure,
    ExecutionError,
    FusewrightError,
    GeneratedCodeError,
    InputError,
    MalformedGraph,
    NotSupported,
)
from ._handle import (
    Handle,
    backend_version,
    backend_version_string,
    create_handle,
    destroy_handle,
    get_stream,
    set_stream,
)
from ._pygraph import Tensor, pygraph
from ._pygraph.enumerations import (
    attention_implementation,
    behavior_note,
    build_plan_policy,
    convolution_mode,
    data_type,
    diagonal_alignment,
    heur_mode,
    norm_forward_phase,
    numerical_note,
    padding_mode,
    reduction_mode,
    resample_mode,
    reshape_mode,
    scalar_type,
    tensor_reordering,
)
from ._pygraph.shapes import KernelCache, create_kernel_cache

__all__ = [
    "Array",
    "Config",
    "EnvironmentFailure",
    "ExecutionError",
    "FusewrightError",
    "GeneratedCodeError",
    "Graph",
    "Handle",
    "InputError",
    "KernelCache",
    "MalformedGraph",
    "NotSupported",
    "Plan",
    "Session",
    "Tensor",
    "TensorInfo",
    "Verdict",
    "Violation",
    "__version__",
    "attention_implementation",
    "backend_version",
    "backend_version_string",
    "behavior_note",
    "build_plan_policy",
    "convolution_mode",
    "create_handle",
    "create_kernel_cache",
    "data_type",
    "destroy_handle",
    "diagonal_alignment",
    "get_stream",
    "heur_mode",
    "load",
    "loads",
    "norm_forward_phase",
    "numerical_note",
    "padding_mode",
    "pygraph",
    "reduction_mode",
    "resample_mode",
    "reshape_mode",
    "rules",
    "scalar_type",
    "set_stream",
    "tensor_reordering",
]
