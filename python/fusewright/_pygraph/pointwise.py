"""Pointwise operations, a method for each mode."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Protocol

from .arguments import Choice, _float_bits, _integers, _kind
from .builder import _Builder
from .tensor import Operand, Tensor


class _Unary(Protocol):
    def __call__(self, input: Operand, compute_data_type: Choice = None, name: str = "") -> Tensor: ...


class _Binary(Protocol):
    def __call__(self, a: Operand, b: Operand, compute_data_type: Choice = None, name: str = "") -> Tensor: ...


class _Numbered(Protocol):
    def __call__(
        self, input0: Operand, input1: Operand, compute_data_type: Choice = None, name: str = ""
    ) -> Tensor: ...


class _Comparison(Protocol):
    def __call__(
        self, input: Operand, comparison: Operand, compute_data_type: Choice = None, name: str = ""
    ) -> Tensor: ...


class _Gradient(Protocol):
    def __call__(self, loss: Operand, input: Operand, compute_data_type: Choice = None, name: str = "") -> Tensor: ...


_POINTWISE_ATTRIBUTES = (
    "axis",
    "relu_lower_clip",
    "relu_upper_clip",
    "relu_lower_clip_slope",
    "swish_beta",
    "elu_alpha",
    "softplus_beta",
)
# Keywords that cuDNN's frontend lacks.
_OWN_ATTRIBUTES = ("elu_alpha", "softplus_beta")
_WITH_REQUIRED_ATTRIBUTE = ("gen_index", "leaky_relu", "leaky_relu_backward")


def _pointwise(op: str, mode: str, *arguments: str, **attributes: str) -> Any:
    """A method for a mode: operands in the order of the ports, then attributes by argument, then type and name."""
    plain = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(argument, plain) for argument in ("self", *arguments)]
    default = inspect.Parameter.empty if op in _WITH_REQUIRED_ATTRIBUTE else None
    theirs = [argument for argument in attributes if argument not in _OWN_ATTRIBUTES]
    parameters += [inspect.Parameter(argument, plain, default=default) for argument in theirs]
    parameters += [inspect.Parameter("compute_data_type", plain, default=None)]
    parameters += [inspect.Parameter("name", plain, default="")]
    ours = [argument for argument in attributes if argument in _OWN_ATTRIBUTES]
    parameters += [inspect.Parameter(argument, inspect.Parameter.KEYWORD_ONLY, default=None) for argument in ours]
    signature = inspect.Signature(parameters)

    def method(*positional: Any, **keywords: Any) -> Tensor:
        try:
            bound = signature.bind(*positional, **keywords)
        except TypeError as error:
            raise TypeError(f"{op}: {error}; arguments are {', '.join(list(signature.parameters)[1:])}") from None
        bound.apply_defaults()
        graph, name, compute = (bound.arguments[key] for key in ("self", "name", "compute_data_type"))
        label = f"{op} {name!r}" if name else op
        values: dict[str, Any] = dict.fromkeys(_POINTWISE_ATTRIBUTES)
        for argument, key in attributes.items():
            value = bound.arguments[argument]
            values[key] = value if value is None or key == "axis" else _float_bits(value, f"{label}: {argument}")
        if values["axis"] is not None:
            values["axis"] = _integers([values["axis"]], f"{label}: axis")[0]
        operands = {f"IN_{index}": (argument, bound.arguments[argument]) for index, argument in enumerate(arguments)}
        missing = [argument for argument, value in operands.values() if value is None]
        if missing:
            raise TypeError(f"{label}: {missing[0]}: found None; required: a Tensor or a number")
        if not any(isinstance(value, Tensor) for _, value in operands.values()):
            kinds = ", ".join(_kind(value) for _, value in operands.values())
            raise TypeError(f"{label}: found {kinds}; required: a Tensor among {', '.join(arguments)}")
        output: Tensor = graph._add(
            op, "POINTWISE", name, operands, ["OUT_0"], compute, attributes={"mode": mode, **values}
        )[0]
        return output

    method.__name__ = op
    method.__qualname__ = f"pygraph.{op}"
    method.__doc__ = f"Pointwise ``{mode}`` of {', '.join(f'``{argument}``' for argument in arguments)}."
    vars(method)["__signature__"] = signature
    return method


_CLIPS = {
    "negative_slope": "relu_lower_clip_slope",
    "lower_clip": "relu_lower_clip",
    "upper_clip": "relu_upper_clip",
}
_SLOPE = {"negative_slope": "relu_lower_clip_slope"}


class _Pointwise(_Builder):
    """Pointwise operations: operands broadcast, and numbers among them become constants."""

    abs: _Unary = _pointwise("abs", "ABS", "input")
    ceil: _Unary = _pointwise("ceil", "CEIL", "input")
    cos: _Unary = _pointwise("cos", "COS", "input")
    erf: _Unary = _pointwise("erf", "ERF", "input")
    exp: _Unary = _pointwise("exp", "EXP", "input")
    floor: _Unary = _pointwise("floor", "FLOOR", "input")
    gelu: _Unary = _pointwise("gelu", "GELU_FWD", "input")
    gelu_approx_tanh: _Unary = _pointwise("gelu_approx_tanh", "GELU_APPROX_TANH_FWD", "input")
    identity: _Unary = _pointwise("identity", "IDENTITY", "input")
    log: _Unary = _pointwise("log", "LOG", "input")
    logical_not: _Unary = _pointwise("logical_not", "LOGICAL_NOT", "input")
    neg: _Unary = _pointwise("neg", "NEG", "input")
    reciprocal: _Unary = _pointwise("reciprocal", "RECIPROCAL", "input")
    rsqrt: _Unary = _pointwise("rsqrt", "RSQRT", "input")
    sigmoid: _Unary = _pointwise("sigmoid", "SIGMOID_FWD", "input")
    sin: _Unary = _pointwise("sin", "SIN", "input")
    sqrt: _Unary = _pointwise("sqrt", "SQRT", "input")
    tan: _Unary = _pointwise("tan", "TAN", "input")
    tanh: _Unary = _pointwise("tanh", "TANH_FWD", "input")

    elu: Callable[..., Tensor] = _pointwise("elu", "ELU_FWD", "input", elu_alpha="elu_alpha")
    softplus: Callable[..., Tensor] = _pointwise("softplus", "SOFTPLUS_FWD", "input", softplus_beta="softplus_beta")
    swish: Callable[..., Tensor] = _pointwise("swish", "SWISH_FWD", "input", swish_beta="swish_beta")
    relu: Callable[..., Tensor] = _pointwise("relu", "RELU_FWD", "input", **_CLIPS)
    leaky_relu: Callable[..., Tensor] = _pointwise("leaky_relu", "RELU_FWD", "input", **_SLOPE)
    gen_index: Callable[..., Tensor] = _pointwise("gen_index", "GEN_INDEX", "input", axis="axis")

    add: _Binary = _pointwise("add", "ADD", "a", "b")
    add_square: _Binary = _pointwise("add_square", "ADD_SQUARE", "a", "b")
    div: _Binary = _pointwise("div", "DIV", "a", "b")
    logical_and: _Binary = _pointwise("logical_and", "LOGICAL_AND", "a", "b")
    logical_or: _Binary = _pointwise("logical_or", "LOGICAL_OR", "a", "b")
    mul: _Binary = _pointwise("mul", "MUL", "a", "b")
    sub: _Binary = _pointwise("sub", "SUB", "a", "b")
    bias: Callable[..., Tensor] = _pointwise("bias", "ADD", "input", "bias")
    scale: Callable[..., Tensor] = _pointwise("scale", "MUL", "input", "scale")

    max: _Numbered = _pointwise("max", "MAX", "input0", "input1")
    min: _Numbered = _pointwise("min", "MIN", "input0", "input1")
    mod: _Numbered = _pointwise("mod", "MOD", "input0", "input1")
    pow: _Numbered = _pointwise("pow", "POW", "input0", "input1")
    binary_select: Callable[..., Tensor] = _pointwise("binary_select", "BINARY_SELECT", "input0", "input1", "mask")

    cmp_eq: _Comparison = _pointwise("cmp_eq", "CMP_EQ", "input", "comparison")
    cmp_ge: _Comparison = _pointwise("cmp_ge", "CMP_GE", "input", "comparison")
    cmp_gt: _Comparison = _pointwise("cmp_gt", "CMP_GT", "input", "comparison")
    cmp_le: _Comparison = _pointwise("cmp_le", "CMP_LE", "input", "comparison")
    cmp_lt: _Comparison = _pointwise("cmp_lt", "CMP_LT", "input", "comparison")
    cmp_neq: _Comparison = _pointwise("cmp_neq", "CMP_NEQ", "input", "comparison")

    gelu_backward: _Gradient = _pointwise("gelu_backward", "GELU_BWD", "loss", "input")
    gelu_approx_tanh_backward: _Gradient = _pointwise(
        "gelu_approx_tanh_backward", "GELU_APPROX_TANH_BWD", "loss", "input"
    )
    sigmoid_backward: _Gradient = _pointwise("sigmoid_backward", "SIGMOID_BWD", "loss", "input")
    tanh_backward: _Gradient = _pointwise("tanh_backward", "TANH_BWD", "loss", "input")
    elu_backward: Callable[..., Tensor] = _pointwise("elu_backward", "ELU_BWD", "loss", "input", elu_alpha="elu_alpha")
    softplus_backward: Callable[..., Tensor] = _pointwise(
        "softplus_backward", "SOFTPLUS_BWD", "loss", "input", softplus_beta="softplus_beta"
    )
    swish_backward: Callable[..., Tensor] = _pointwise(
        "swish_backward", "SWISH_BWD", "loss", "input", swish_beta="swish_beta"
    )
    relu_backward: Callable[..., Tensor] = _pointwise("relu_backward", "RELU_BWD", "loss", "input", **_CLIPS)
    leaky_relu_backward: Callable[..., Tensor] = _pointwise(
        "leaky_relu_backward", "RELU_BWD", "loss", "input", **_SLOPE
    )
