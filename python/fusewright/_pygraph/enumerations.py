"""The enumerations of cuDNN's frontend, each a name that is text too."""

from __future__ import annotations

import enum


class _Spelling(str, enum.Enum):
    """Names of the library, which are their own values."""

    @staticmethod
    def _generate_next_value_(name: str, start: int, count: int, last_values: list[str]) -> str:
        return name

    def __str__(self) -> str:
        return f"{type(self).__name__}.{self.name}"


class data_type(_Spelling):
    """Types of elements, and of computations. ``BOOLEAN`` is one bit in memory of a GPU."""

    FLOAT = enum.auto()
    DOUBLE = enum.auto()
    HALF = enum.auto()
    BFLOAT16 = enum.auto()
    INT8 = enum.auto()
    UINT8 = enum.auto()
    INT32 = enum.auto()
    INT64 = enum.auto()
    BOOLEAN = enum.auto()
    INT8x4 = enum.auto()
    UINT8x4 = enum.auto()
    INT8x32 = enum.auto()
    FP8_E4M3 = enum.auto()
    FP8_E5M2 = enum.auto()
    FP8_E5M3 = enum.auto()
    FP8_E8M0 = enum.auto()
    FP4_E2M1 = enum.auto()
    INT4 = enum.auto()
    FAST_FLOAT_FOR_FP8 = enum.auto()
    NOT_SET = enum.auto()


class heur_mode(_Spelling):
    """Heuristics that rank plans: all of the chosen engine by its model (``A``, and ``OPENSOURCE``), what is worth
    measuring (``B``), or all of the next engine (``FALLBACK``)."""

    A = enum.auto()
    B = enum.auto()
    FALLBACK = enum.auto()
    OPENSOURCE = enum.auto()


class behavior_note(_Spelling):
    """How kernels behave. All of a GPU have ``RUNTIME_COMPILATION`` and ``SUPPORTS_CUDA_GRAPH_NATIVE_API``."""

    RUNTIME_COMPILATION = enum.auto()
    REQUIRES_FILTER_INT8x32_REORDER = enum.auto()
    REQUIRES_BIAS_INT8x32_REORDER = enum.auto()
    SUPPORTS_CUDA_GRAPH_NATIVE_API = enum.auto()
    CUBLASLT_DEPENDENCY = enum.auto()


class numerical_note(_Spelling):
    """How kernels compute. Those with matrix instructions have ``TENSOR_CORE``, and none has another."""

    TENSOR_CORE = enum.auto()
    DOWN_CONVERT_INPUTS = enum.auto()
    REDUCED_PRECISION_REDUCTION = enum.auto()
    FFT = enum.auto()
    NONDETERMINISTIC = enum.auto()
    WINOGRAD = enum.auto()
    WINOGRAD_TILE_4x4 = enum.auto()
    WINOGRAD_TILE_6x6 = enum.auto()
    WINOGRAD_TILE_13x13 = enum.auto()
    STRICT_NAN_PROP = enum.auto()


class build_plan_policy(_Spelling):
    """Which plans are built: the first, or all."""

    HEURISTICS_CHOICE = enum.auto()
    ALL = enum.auto()


class reduction_mode(_Spelling):
    """What a reduction computes."""

    ADD = enum.auto()
    MUL = enum.auto()
    MIN = enum.auto()
    MAX = enum.auto()
    AMAX = enum.auto()
    AVG = enum.auto()
    NORM1 = enum.auto()
    NORM2 = enum.auto()
    MUL_NO_ZEROS = enum.auto()
    NOT_SET = enum.auto()


class norm_forward_phase(_Spelling):
    """Whether a norm also writes its statistics (``TRAINING``)."""

    INFERENCE = enum.auto()
    TRAINING = enum.auto()
    NOT_SET = enum.auto()


class tensor_reordering(_Spelling):
    """Memory layouts beyond strides."""

    NONE = enum.auto()
    INT8x32 = enum.auto()
    F16x16 = enum.auto()
    F8_128x4 = enum.auto()


class diagonal_alignment(_Spelling):
    """The corner of the scores at which a mask's diagonal starts."""

    TOP_LEFT = enum.auto()
    BOTTOM_RIGHT = enum.auto()


class attention_implementation(_Spelling):
    """How the library composes an attention; ``AUTO`` is ``COMPOSITE`` here."""

    AUTO = enum.auto()
    COMPOSITE = enum.auto()
    UNIFIED = enum.auto()


class convolution_mode(_Spelling):
    """Whether a filter is applied as it lies (``CROSS_CORRELATION``) or rotated by 180 degrees."""

    CROSS_CORRELATION = enum.auto()
    CONVOLUTION = enum.auto()


class reshape_mode(_Spelling):
    """Whether a reshape keeps the memory (``VIEW_ONLY``) or the order of elements (``LOGICAL``)."""

    VIEW_ONLY = enum.auto()
    LOGICAL = enum.auto()


class scalar_type(_Spelling):
    """Whether a scalar is part of the graph, or a value that an execution may replace."""

    RUNTIME_PARAM = enum.auto()
    COMPILE_TIME_CONST = enum.auto()


class resample_mode(_Spelling):
    """What a pooling window gives."""

    MAXPOOL = enum.auto()
    AVGPOOL_INCLUDE_PADDING = enum.auto()
    AVGPOOL_EXCLUDE_PADDING = enum.auto()
    BILINEAR = enum.auto()
    NEAREST = enum.auto()


class padding_mode(_Spelling):
    """What lies outside the input of a pooling."""

    ZERO_PAD = enum.auto()
    NEG_INF_PAD = enum.auto()
    EDGE_VAL_PAD = enum.auto()
