"""What the package is made of, in Rust.

Everything but ``DirectKernel``, ``register_torch_kernel`` and ``run_command_line`` is exported by ``fusewright``.
"""

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, Self, final

__all__ = [
    "Array",
    "Config",
    "DirectKernel",
    "Graph",
    "Plan",
    "Session",
    "TensorInfo",
    "Verdict",
    "Violation",
    "__version__",
    "load",
    "loads",
    "register_torch_kernel",
    "rules",
    "run_command_line",
]

__version__: str

@final
class TensorInfo:
    """A tensor that a caller gives or gets; extents and strides are in elements."""

    @property
    def uid(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def dim(self) -> list[int]: ...
    @property
    def stride(self) -> list[int]: ...
    @property
    def data_type(self) -> str:
        """cuDNN's name: ``FLOAT``, ``HALF``, ``BFLOAT16``, ``DOUBLE``, ``INT8``, ``UINT8``, ``INT32``, ``INT64``,
        ``BOOLEAN``, ``FP8_E4M3`` or ``FP8_E5M2``."""
    @property
    def is_pass_by_value(self) -> bool:
        """Whether it is a number that the caller gives at each execution."""

@final
class Graph:
    """A well-formed graph whose tensors all have type, extents and strides. It does not change."""

    @staticmethod
    def from_json(text: str, place: str = "graph") -> Graph:
        """The one graph of a text of cuDNN-frontend JSON; ``place`` names it in messages.

        Raises ``MalformedGraph``.
        """
    @property
    def name(self) -> str: ...
    @property
    def key(self) -> str:
        """A digest that equal graphs share, whatever their names and the order of their operations."""
    @property
    def inputs(self) -> list[TensorInfo]:
        """Tensors that a caller gives, in ascending order of uids.

        Scalars whose values the graph states are not among them.
        """
    @property
    def outputs(self) -> list[TensorInfo]:
        """Tensors that a caller gets, in ascending order of uids."""
    def to_json(self) -> str:
        """The graph as JSON of frontend 1.32."""
    def check(self, arch: str = "sm_90") -> Verdict:
        """Whether it runs on a chip. Raises ``InputError`` for a chip that is none."""
    def explain(self, arch: str = "sm_90") -> str:
        """What ``fusewright explain`` prints: stages, verdict, engine, configs, launches, floor."""
    def source(self, arch: str = "sm_90") -> str:
        """The CUDA text of its kernel. Raises ``NotSupported``."""
    def expected_seconds(self, arch: str = "sm_90") -> float:
        """Time of one execution by the engine's model, an orientation. Raises ``NotSupported``."""

def load(path: str | PathLike[str]) -> list[Graph]:
    """The graphs of a file: JSON, JSON lines or a log of the frontend.

    Raises ``MalformedGraph`` for the first that is not well formed.
    """

def loads(text: str, place: str = "text") -> list[Graph]:
    """The graphs of a text, as ``load``."""

def rules() -> list[tuple[str, str]]:
    """Ids of the documented rules, and what each says in a line; ``fusewright rules ID`` tells more."""

def run_command_line(arguments: Sequence[str]) -> int: ...

@final
class DirectKernel:
    """What code that Inductor writes calls in place of an operator, with a result that is there, or none.

    ``allocate`` gives new tensors for the results of a text, on the current GPU. What does not lie on a GPU as the
    graph says is left to ``otherwise`` with the same arguments.
    """

    def __new__(cls, otherwise: Callable[..., Any], allocate: Callable[[str], tuple[Any, ...]]) -> Self: ...
    def __call__(self, *arguments: Any, out: Any = None) -> Any: ...

def register_torch_kernel(key: str, namespace: str = "fusewright", operator: str = "run") -> bool:
    """Registers the kernel in Rust of a namespace's operator ``run`` for a dispatch key, ``CUDA`` or ``CPU``.

    False, with nothing registered, where the process has no PyTorch, or one that lacks what the kernel needs.
    """

@final
class Violation:
    """A broken rule of a surface."""

    @property
    def surface(self) -> str: ...
    @property
    def rule(self) -> str: ...
    @property
    def where(self) -> str:
        """Operation and tensor."""
    @property
    def required(self) -> str: ...
    @property
    def found(self) -> str: ...

@final
class Verdict:
    """Whether a graph runs on a chip; true where it does. ``str`` is for people."""

    @property
    def supported(self) -> bool: ...
    @property
    def surface(self) -> str | None:
        """The surface that holds as documented."""
    @property
    def engine(self) -> str | None: ...
    @property
    def relaxed(self) -> list[str]:
        """Rules that the graph breaks and the engine does without."""
    @property
    def violations(self) -> list[Violation]: ...
    @property
    def nearest(self) -> list[str]:
        """The smallest changes with which a refused graph runs, as sentences."""
    @property
    def json(self) -> str:
        """The record that ``fusewright check --format json`` writes."""
    def __bool__(self) -> bool: ...

@final
class Session:
    """A device and the plans that were made for it; shared by threads.

    ``device`` is ``cuda:N``, ``cpu`` (the CPU engine) or ``emulator`` (generated kernels on the CPU, by the host's C++
    compiler). With ``dynamic_shapes`` one binary serves many shapes of a graph. Raises ``EnvironmentFailure`` where a
    driver, a GPU or a compiler is missing.
    """

    def __new__(cls, device: str = "cuda:0", *, dynamic_shapes: bool = False) -> Session: ...
    @property
    def device(self) -> str: ...
    def plan(self, graph: Graph) -> Plan:
        """The plan of a graph, from memory, from disk or compiled now.

        Raises ``NotSupported``, ``EnvironmentFailure``, ``GeneratedCodeError``.
        """
    def configs(self, graph: Graph, mode: str = "A") -> list[Config]:
        """Ways to compute a graph in the order of a heuristic mode; the first of mode A is that of ``plan``.

        ``A`` lists all of the chosen engine, the best by its model first, ``B`` of these what is worth measuring, and
        ``FALLBACK`` all of the next engine. Raises ``NotSupported``, ``InputError`` for a mode that is none.
        """
    def plan_with(self, config: Config) -> Plan:
        """The plan of one of them. Raises as ``plan``, and ``InputError`` for a config of another device."""
    def stats(self) -> dict[str, int]:
        """What was asked and done so far; of a GPU alone."""

@final
class Config:
    """A way to compute a graph on a device, of ``Session.configs``: an engine with its knobs."""

    @property
    def graph(self) -> Graph: ...
    @property
    def engine(self) -> str: ...
    @property
    def name(self) -> str:
        """Engine and knobs, as the command line prints them."""
    @property
    def knobs(self) -> dict[str, int]:
        """Values of knobs by their names."""
    @property
    def behavior_notes(self) -> list[str]:
        """cuDNN's notes on how kernels behave; none on the CPU."""
    @property
    def numeric_notes(self) -> list[str]:
        """cuDNN's notes on how kernels compute: ``TENSOR_CORE`` where they have matrix instructions."""
    @property
    def expected_seconds(self) -> float | None:
        """Time of an execution by the engine's model; none on the CPU."""
    @property
    def workspace_bytes(self) -> int:
        """Memory of the GPU that an execution needs beside the graph's tensors."""

@final
class Plan:
    """A graph that is ready to be executed, from any thread."""

    @property
    def graph(self) -> Graph: ...
    @property
    def engine(self) -> str: ...
    @property
    def config(self) -> str: ...
    @property
    def workspace_bytes(self) -> int: ...
    @property
    def inputs(self) -> list[TensorInfo]: ...
    @property
    def outputs(self) -> list[TensorInfo]: ...
    def run(self, *tensors: Any, stream: int | None = None) -> list[Array]:
        """Executes with ``inputs`` in their order, and gives ``outputs`` in theirs.

        Tensors are whatever exports DLPack or has ``__cuda_array_interface__``, of the graph's types and extents, on a
        GPU also with its strides; scalars that are passed by value are numbers. On a GPU the work is put on ``stream``
        (a ``cudaStream_t`` as a number; the default one unless it is given), which has to live as long as the outputs.
        Nothing is waited for but the stream that a ``__cuda_array_interface__`` names, where that is another.
        Raises ``ExecutionError``; ``BufferError`` where a tensor requires gradients or is negated when it is read.
        """
    def launch(self, pointers: Sequence[int], workspace: int, stream: int, scalars: Sequence[float] = ...) -> None:
        """Puts one execution on a stream of the GPU and returns; nothing is allocated or waited for.

        ``pointers`` are device addresses of all ``inputs`` that are no scalars and then of all ``outputs``,
        ``workspace`` that of ``workspace_bytes``. The caller keeps the memory until the work is done.
        Raises ``ExecutionError``.
        """

@final
class Array:
    """An output; ``numpy.from_dlpack``, ``torch.from_dlpack`` and others take it without a copy."""

    @property
    def shape(self) -> list[int]: ...
    @property
    def strides(self) -> list[int]:
        """In elements."""
    @property
    def data_type(self) -> str: ...
    def __dlpack__(self, **keywords: Any) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
