"""Matrix products, convolutions, reductions and resampling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .._errors import MalformedGraph
from . import enumerations
from .arguments import Choice, _choice, _integers, _number, _spelling
from .enumerations import reduction_mode, resample_mode
from .pointwise import _Pointwise
from .tensor import Tensor


def _or_none(outputs: Mapping[str, Tensor], ports: Sequence[str]) -> list[Tensor | None]:
    return [outputs.get(port) for port in ports]


_STATISTICS = ("MEAN", "INV_VARIANCE")
_RUNNING = ("NEXT_RUNNING_MEAN", "NEXT_RUNNING_VAR")


class _Matrix(_Pointwise):
    """Matrix products, convolutions, reductions, pooling."""

    def matmul(
        self, A: Tensor, B: Tensor, compute_data_type: Choice = None, padding: float = 0.0, name: str = ""
    ) -> Tensor:
        """A [..., M, K] times B [..., K, N]; batch extents broadcast."""
        attributes = {"padding_value": float(_number(padding, "matmul: padding"))}
        inputs = {"A": ("A", self._own(A, "matmul: A")), "B": ("B", self._own(B, "matmul: B"))}
        return self._add("matmul", "MATMUL", name, inputs, ["C"], compute_data_type, attributes=attributes)[0]

    def _window(self, op: str, values: Any, default: int, rank: int, where: str) -> list[int]:
        """An entry for each spatial axis; an empty list stands for the default on all."""
        entries = _integers([] if values is None else values, f"{op}: {where}")
        if entries and rank and len(entries) != rank:
            raise MalformedGraph(f"{op}: {where}: found {len(entries)} entries; required: {rank}, one a spatial axis")
        if not entries and not rank:
            raise MalformedGraph(f"{op}: {where}: not given; required, as no operand's extents are known yet")
        return entries or [default] * rank

    def _convolution(
        self,
        op: str,
        tag: str,
        output: str,
        operands: Mapping[str, tuple[str, Tensor]],
        padding: Sequence[int] | None,
        pre_padding: Sequence[int],
        post_padding: Sequence[int],
        stride: Sequence[int],
        dilation: Sequence[int],
        convolution_mode: Choice,
        compute_data_type: Choice,
        name: str,
    ) -> Tensor:
        label = f"{op} {name!r}" if name else op
        if padding is not None:
            if pre_padding or post_padding:
                raise TypeError(f"{label}: found padding beside pre_padding or post_padding; required: one of both")
            pre_padding = post_padding = padding
        for argument, operand in operands.values():
            self._own(operand, f"{label}: {argument}")
        rank = max(len(operand.get_dim()) for _, operand in operands.values()) - 2
        rank = max(rank, 0)
        attributes = {
            "pre_padding": self._window(label, pre_padding, 0, rank, "pre_padding"),
            "post_padding": self._window(label, post_padding, 0, rank, "post_padding"),
            "stride": self._window(label, stride, 1, rank, "stride"),
            "dilation": self._window(label, dilation, 1, rank, "dilation"),
            "math_mode": _choice(enumerations.convolution_mode, convolution_mode, f"{label}: convolution_mode"),
        }
        return self._add(op, tag, name, operands, [output], compute_data_type, attributes=attributes)[0]

    def conv_fprop(
        self,
        image: Tensor,
        weight: Tensor,
        pre_padding: Sequence[int] = (),
        post_padding: Sequence[int] = (),
        stride: Sequence[int] = (),
        dilation: Sequence[int] = (),
        convolution_mode: Choice = "CROSS_CORRELATION",
        compute_data_type: Choice = None,
        name: str = "",
        *,
        padding: Sequence[int] | None = None,
    ) -> Tensor:
        """Convolution of an image [N, G·C, ...] with a weight [K, C, ...]; ``padding`` is that of both sides."""
        operands = {"X": ("image", image), "W": ("weight", weight)}
        window = (padding, pre_padding, post_padding, stride, dilation, convolution_mode)
        return self._convolution("conv_fprop", "CONV_FPROP", "Y", operands, *window, compute_data_type, name)

    def conv_dgrad(
        self,
        loss: Tensor,
        filter: Tensor,
        pre_padding: Sequence[int] = (),
        post_padding: Sequence[int] = (),
        stride: Sequence[int] = (),
        dilation: Sequence[int] = (),
        convolution_mode: Choice = "CROSS_CORRELATION",
        compute_data_type: Choice = None,
        name: str = "",
        *,
        padding: Sequence[int] | None = None,
    ) -> Tensor:
        """The image's gradient; its extents must be set (``set_dim``)."""
        operands = {"DY": ("loss", loss), "W": ("filter", filter)}
        window = (padding, pre_padding, post_padding, stride, dilation, convolution_mode)
        return self._convolution("conv_dgrad", "CONV_DGRAD", "DX", operands, *window, compute_data_type, name)

    def conv_wgrad(
        self,
        image: Tensor,
        loss: Tensor,
        pre_padding: Sequence[int] = (),
        post_padding: Sequence[int] = (),
        stride: Sequence[int] = (),
        dilation: Sequence[int] = (),
        convolution_mode: Choice = "CROSS_CORRELATION",
        compute_data_type: Choice = None,
        name: str = "",
        *,
        padding: Sequence[int] | None = None,
    ) -> Tensor:
        """The weight's gradient; its extents must be set (``set_dim``)."""
        operands = {"X": ("image", image), "DY": ("loss", loss)}
        window = (padding, pre_padding, post_padding, stride, dilation, convolution_mode)
        return self._convolution("conv_wgrad", "CONV_WGRAD", "DW", operands, *window, compute_data_type, name)

    def reduction(self, input: Tensor, mode: Choice, compute_data_type: Choice = None, name: str = "") -> Tensor:
        """Reduces the axes on which the result's extents, which must be set (``set_dim``), are 1."""
        attributes = {"mode": _choice(reduction_mode, mode, "reduction: mode"), "is_deterministic": False}
        inputs = {"X": ("input", self._own(input, "reduction: input"))}
        return self._add("reduction", "REDUCTION", name, inputs, ["Y"], compute_data_type, attributes=attributes)[0]

    def genstats(self, input: Tensor, compute_data_type: Choice = None, name: str = "") -> list[Tensor]:
        """Sum and sum of squares over all axes but the channels': [1, C, 1, ...]."""
        inputs = {"X": ("input", self._own(input, "genstats: input"))}
        return self._add("genstats", "GENSTATS", name, inputs, ["SUM", "SQ_SUM"], compute_data_type)

    def resample_fwd(
        self,
        input: Tensor,
        mode: Choice,
        window: Sequence[int],
        stride: Sequence[int] = (),
        pre_padding: Sequence[int] = (),
        post_padding: Sequence[int] = (),
        padding_mode: Choice = None,
        generate_index: bool = False,
        name: str = "",
    ) -> list[Tensor | None]:
        """Pools windows: result, and the index of each maximum where asked for.

        Outside the input lies minus infinity for a maximum, else zero, unless ``padding_mode`` says otherwise.
        cuDNN's Python frontend has no pooling.
        """
        label = f"resample_fwd {name!r}" if name else "resample_fwd"
        sizes = _integers(window, f"{label}: window")
        kind = _choice(resample_mode, mode, f"{label}: mode")
        outside = "NEG_INF_PAD" if kind == "MAXPOOL" else "ZERO_PAD"
        attributes = {
            "resample_mode": kind,
            "padding_mode": _spelling(enumerations.padding_mode, padding_mode, f"{label}: padding_mode") or outside,
            "window": sizes,
            "stride": self._window(label, stride, 1, len(sizes), "stride"),
            "pre_padding": self._window(label, pre_padding, 0, len(sizes), "pre_padding"),
            "post_padding": self._window(label, post_padding, 0, len(sizes), "post_padding"),
            "generate_index": bool(generate_index),
        }
        ports = ["Y", "Index"] if generate_index else ["Y"]
        inputs = {"X": ("input", self._own(input, f"{label}: input"))}
        made = self._add("resample_fwd", "RESAMPLE", name, inputs, ports, attributes=attributes, has_compute=False)
        return _or_none(dict(zip(ports, made, strict=True)), ["Y", "Index"])
