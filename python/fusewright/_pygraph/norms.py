"""Norms and their gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .arguments import Choice, _choice
from .enumerations import norm_forward_phase
from .matrix import _RUNNING, _STATISTICS, _Matrix, _or_none
from .tensor import Operand, Tensor


class _Norms(_Matrix):
    """Normalisations; ``epsilon`` and ``momentum`` may be numbers."""

    def _norm(
        self,
        op: str,
        tag: str,
        phase: Choice,
        inputs: Mapping[str, tuple[str, object]],
        statistics: Sequence[str],
        compute_data_type: Choice,
        name: str,
        *,
        attributes: Mapping[str, Any] | None = None,
    ) -> list[Tensor | None]:
        spelled = _choice(norm_forward_phase, phase, f"{op}: norm_forward_phase")
        ports = ["Y", *(statistics if spelled == "TRAINING" else ())]
        attributes = {"forward_phase": spelled, **(attributes or {})}
        made = self._add(op, tag, name, inputs, ports, compute_data_type, attributes=attributes)
        return _or_none(dict(zip(ports, made, strict=True)), ["Y", *statistics])

    def _norm_backward(
        self,
        op: str,
        tag: str,
        tensors: Sequence[object],
        compute_data_type: Choice,
        name: str,
        *,
        ports: Sequence[str] = ("DX", "DSCALE", "DBIAS"),
        attributes: Mapping[str, Any] | None = None,
    ) -> list[Tensor]:
        """``tensors``: gradient, input, scale, mean, reciprocal standard deviation."""
        arguments = ("grad", "input", "scale", "mean", "inv_variance")
        keys = ("DY", "X", "SCALE", *_STATISTICS)
        inputs = {key: (argument, value) for key, argument, value in zip(keys, arguments, tensors, strict=True)}
        return self._add(op, tag, name, inputs, ports, compute_data_type, attributes=attributes)

    def layernorm(
        self,
        norm_forward_phase: Choice,
        input: Tensor,
        scale: Tensor | None = None,
        bias: Tensor | None = None,
        epsilon: Operand = 1e-5,
        compute_data_type: Choice = None,
        name: str = "",
    ) -> list[Tensor | None]:
        """Result, mean and reciprocal standard deviation; the last two in training only."""
        inputs = _norm_inputs(input, scale, bias, epsilon)
        return self._norm("layernorm", "LAYER_NORM", norm_forward_phase, inputs, _STATISTICS, compute_data_type, name)

    def layernorm_backward(
        self,
        grad: Tensor,
        input: Tensor,
        scale: Tensor | None = None,
        mean: Tensor | None = None,
        inv_variance: Tensor | None = None,
        compute_data_type: Choice = None,
        name: str = "",
    ) -> list[Tensor]:
        """Gradients of input, scale and bias."""
        tensors = (grad, input, scale, mean, inv_variance)
        return self._norm_backward("layernorm_backward", "LAYER_NORM_BPROP", tensors, compute_data_type, name)

    def adalayernorm(
        self,
        norm_forward_phase: Choice,
        input: Tensor,
        scale: Tensor,
        bias: Tensor | None = None,
        epsilon: Operand = 1e-5,
        compute_data_type: Choice = None,
        name: str = "",
    ) -> list[Tensor | None]:
        """As ``layernorm``, with a scale and bias for each batch entry."""
        inputs = _norm_inputs(input, scale, bias, epsilon)
        return self._norm(
            "adalayernorm", "ADA_LAYER_NORM", norm_forward_phase, inputs, _STATISTICS, compute_data_type, name
        )

    def adalayernorm_backward(
        self,
        grad: Tensor,
        input: Tensor,
        scale: Tensor,
        mean: Tensor | None = None,
        inv_variance: Tensor | None = None,
        compute_data_type: Choice = None,
        name: str = "",
    ) -> list[Tensor]:
        """Gradients of input, scale and bias."""
        tensors = (grad, input, scale, mean, inv_variance)
        return self._norm_backward("adalayernorm_backward", "ADA_LAYER_NORM_BPROP", tensors, compute_data_type, name)

    def instancenorm(
        self,
        norm_forward_phase: Choice,
        input: Tensor,
        scale: Tensor,
        bias: Tensor,
        epsilon: Operand = 1e-5,
        compute_data_type: Choice = None,
        name: str = "",
    ) -> list[Tensor | None]:
        """Result, mean and reciprocal standard deviation [N, C, 1, ...]; the last two in training only."""
        inputs = _norm_inputs(input, scale, bias, epsilon)
        return self._norm(
            "instancenorm", "INSTANCE_NORM", norm_forward_phase, inputs, _STATISTICS, compute_data_type, name
        )

    def instancenorm_backward(
        self,
        grad: Tensor,
        input: Tensor,
        scale: Tensor,
        mean: Tensor | None = None,
        inv_variance: Tensor | None = None,
        compute_data_type: Choice = None,
        name: str = "",
    ) -> list[Tensor]:
        """Gradients of input, scale and bias."""
        tensors = (grad, input, scale, mean, inv_variance)
        return self._norm_backward("instancenorm_backward", "INSTANCE_NORM_BPROP", tensors, compute_data_type, name)

    def groupnorm(
        self,
        norm_forward_phase: Choice,
        input: Tensor,
        num_groups: int,
        scale: Tensor | None = None,
        bias: Tensor | None = None,
        epsilon: Operand = 1e-5,
        compute_data_type: Choice = None,
        name: str = "",
    ) -> list[Tensor | None]:
        """Result, mean and reciprocal standard deviation [N, num_groups, 1, ...]; the last two in training only.

        A group is consecutive channels of one batch entry. cuDNN's Python frontend has no such method.
        """
        inputs = _norm_inputs(input, scale, bias, epsilon)
        groups = {"num_groups": num_groups}
        return self._norm(
            "groupnorm",
            "GROUP_NORM",
            norm_forward_phase,
            inputs,
            _STATISTICS,
            compute_data_type,
            name,
            attributes=groups,
        )

    def groupnorm_backward(
        self,
        grad: Tensor,
        input: Tensor,
        num_groups: int,
        scale: Tensor | None = None,
        mean: Tensor | None = None,
        inv_variance: Tensor | None = None,
        compute_data_type: Choice = None,
        name: str = "",
    ) -> list[Tensor | None]:
        """Gradients of input, and where there is a scale of scale and bias.

        cuDNN's Python frontend has no such method.
        """
        tensors = (grad, input, scale, mean, inv_variance)
        ports, groups = ["DX", "DSCALE", "DBIAS"], {"num_groups": num_groups}
        given = ports if scale is not None else ports[:1]
        op, tag = "groupnorm_backward", "GROUP_NORM_BPROP"
        made = self._norm_backward(op, tag, tensors, compute_data_type, name, ports=given, attributes=groups)
        return _or_none(dict(zip(given, made, strict=True)), ports)

    def rmsnorm(
        self,
        norm_forward_phase: Choice,
        input: Tensor,
        scale: Tensor | None = None,
        bias: Tensor | None = None,
        epsilon: Operand = 1e-5,
        compute_data_type: Choice = None,
        name: str = "",
    ) -> list[Tensor | None]:
        """Result and reciprocal root mean square; the latter in training only."""
        inputs = _norm_inputs(input, scale, bias, epsilon)
        statistics = _STATISTICS[1:]
        return self._norm("rmsnorm", "RMS_NORM", norm_forward_phase, inputs, statistics, compute_data_type, name)

    def rmsnorm_backward(
        self,
        grad: Tensor,
        input: Tensor,
        scale: Tensor | None = None,
        inv_variance: Tensor | None = None,
        has_dbias: bool = False,
        compute_data_type: Choice = None,
        name: str = "",
    ) -> list[Tensor | None]:
        """Gradients of input and scale, and with ``has_dbias`` of the bias."""
        ports = ["DX", "DSCALE", "DBIAS"][: 3 if has_dbias else 2]
        tensors = (grad, input, scale, None, inv_variance)
        made = self._norm_backward("rmsnorm_backward", "RMS_NORM_BPROP", tensors, compute_data_type, name, ports=ports)
        return _or_none(dict(zip(ports, made, strict=True)), ["DX", "DSCALE", "DBIAS"])

    def batchnorm(
        self,
        input: Tensor,
        scale: Tensor,
        bias: Tensor,
        in_running_mean: Tensor | None = None,
        in_running_var: Tensor | None = None,
        epsilon: Operand = 1e-5,
        momentum: Operand | None = None,
        peer_stats: Sequence[Tensor] = (),
        compute_data_type: Choice = None,
        name: str = "",
    ) -> list[Tensor | None]:
        """Result, mean, reciprocal standard deviation; new running mean and variance where old ones are given."""
        is_running = in_running_mean is not None
        if is_running != (in_running_var is not None) or is_running != (momentum is not None):
            raise TypeError("batchnorm: in_running_mean, in_running_var, momentum: required: all of them or none")
        inputs = {
            **_norm_inputs(input, scale, bias, epsilon),
            "PREV_RUNNING_MEAN": ("in_running_mean", in_running_mean),
            "PREV_RUNNING_VAR": ("in_running_var", in_running_var),
            "MOMENTUM": ("momentum", momentum),
        }
        ports = ["Y", *_STATISTICS, *(_RUNNING if is_running else ())]
        peers = [self._own(peer, "batchnorm: peer_stats") for peer in peer_stats]
        made = self._add(
            "batchnorm", "BATCHNORM", name, inputs, ports, compute_data_type, attributes={"peer_stats": peers}
        )
        return _or_none(dict(zip(ports, made, strict=True)), ["Y", *_STATISTICS, *_RUNNING])

    def batchnorm_inference(
        self,
        input: Tensor,
        mean: Tensor,
        inv_variance: Tensor,
        scale: Tensor,
        bias: Tensor,
        compute_data_type: Choice = None,
        name: str = "",
    ) -> Tensor:
        """Normalises by known statistics [1, C, 1, ...]."""
        inputs = {
            "X": ("input", input),
            "MEAN": ("mean", mean),
            "INV_VARIANCE": ("inv_variance", inv_variance),
            "SCALE": ("scale", scale),
            "BIAS": ("bias", bias),
        }
        return self._add("batchnorm_inference", "BATCHNORM_INFERENCE", name, inputs, ["Y"], compute_data_type)[0]

    def batchnorm_backward(
        self,
        grad: Tensor,
        input: Tensor,
        scale: Tensor,
        mean: Tensor | None = None,
        inv_variance: Tensor | None = None,
        peer_stats: Sequence[Tensor] = (),
        compute_data_type: Choice = None,
        name: str = "",
    ) -> list[Tensor]:
        """Gradients of input, scale and bias."""
        peers = [self._own(peer, "batchnorm_backward: peer_stats") for peer in peer_stats]
        tensors = (grad, input, scale, mean, inv_variance)
        attributes = {"peer_stats": peers}
        return self._norm_backward("batchnorm_backward", "DBN", tensors, compute_data_type, name, attributes=attributes)

    def dbn_weight(
        self,
        grad: Tensor,
        input: Tensor,
        scale: Tensor,
        mean: Tensor,
        inv_variance: Tensor,
        compute_data_type: Choice = None,
        name: str = "",
    ) -> list[Tensor]:
        """Gradients of scale and bias; bias and factors of gradient and input that give the input's gradient.

        cuDNN's Python frontend has no such method.
        """
        ports = ("DSCALE", "DBIAS", "EQ_BIAS", "EQ_SCALE_DY", "EQ_SCALE_X")
        tensors = (grad, input, scale, mean, inv_variance)
        return self._norm_backward("dbn_weight", "DBN_WEIGHT", tensors, compute_data_type, name, ports=ports)

    def bn_finalize(
        self,
        sum: Tensor,
        sq_sum: Tensor,
        scale: Tensor,
        bias: Tensor,
        epsilon: Operand,
        accum_count: Operand,
        in_running_mean: Tensor | None = None,
        in_running_var: Tensor | None = None,
        momentum: Operand | None = None,
        compute_data_type: Choice = None,
        name: str = "",
    ) -> list[Tensor | None]:
        """Scale, bias, mean, reciprocal standard deviation, running mean and variance from sums of ``genstats``.

        cuDNN's Python frontend has no such method.
        """
        inputs = {
            "SUM": ("sum", sum),
            "SQ_SUM": ("sq_sum", sq_sum),
            "SCALE": ("scale", scale),
            "BIAS": ("bias", bias),
            "EPSILON": ("epsilon", epsilon),
            "ACCUM_COUNT": ("accum_count", accum_count),
            "PREV_RUNNING_MEAN": ("in_running_mean", in_running_mean),
            "PREV_RUNNING_VAR": ("in_running_var", in_running_var),
            "MOMENTUM": ("momentum", momentum),
        }
        always = ("EQ_SCALE", "EQ_BIAS", *_STATISTICS)
        ports = [*always, *(_RUNNING if in_running_mean is not None else ())]
        made = self._add("bn_finalize", "BN_FINALIZE", name, inputs, ports, compute_data_type)
        return _or_none(dict(zip(ports, made, strict=True)), [*always, *_RUNNING])


def _norm_inputs(input: object, scale: object, bias: object, epsilon: object) -> dict[str, tuple[str, object]]:
    return {
        "X": ("input", input),
        "SCALE": ("scale", scale),
        "BIAS": ("bias", bias),
        "EPSILON": ("epsilon", epsilon),
    }
