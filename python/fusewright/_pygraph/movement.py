"""Operations that move elements, and quantization in blocks."""

from __future__ import annotations

from collections.abc import Sequence

from .._errors import MalformedGraph
from . import enumerations
from .arguments import Choice, _choice, _integers, _kind, _Slices
from .norms import _Norms
from .tensor import Tensor

_WHOLE = slice(None)  # the class has a method of this name


class _Movement(_Norms):
    """Operations that move elements."""

    def reshape(self, input: Tensor, name: str = "", reshape_mode: Choice = "VIEW_ONLY") -> Tensor:
        """The same elements with other extents, which must be set (``set_dim``)."""
        mode = _choice(enumerations.reshape_mode, reshape_mode, "reshape: reshape_mode")
        attributes = {"dim": [], "stride": [], "reshape_mode": mode}
        inputs = {"X": ("input", self._own(input, "reshape: input"))}
        return self._add("reshape", "RESHAPE", name, inputs, ["Y"], attributes=attributes)[0]

    def transpose(
        self, input: Tensor, permutation: Sequence[int], compute_data_type: Choice = None, name: str = ""
    ) -> Tensor:
        """Axis i of the result is axis ``permutation[i]`` of the input."""
        attributes = {"permutation": _integers(permutation, "transpose: permutation")}
        inputs = {"X": ("input", self._own(input, "transpose: input"))}
        return self._add("transpose", "TRANSPOSE", name, inputs, ["Y"], compute_data_type, attributes=attributes)[0]

    def slice(self, input: Tensor, slices: _Slices = (), compute_data_type: Choice = None, name: str = "") -> Tensor:
        """A slice for each axis, of positive steps; axes beyond them are taken whole."""
        label = f"slice {name!r}" if name else "slice"
        dim = self._own(input, f"{label}: input").get_dim()
        cuts = [*slices, *[_WHOLE] * (len(dim) - len(slices))]
        bounds, steps = [], []
        for axis, cut in enumerate(cuts):
            start, limit, step = _bounds(cut, dim[axis] if axis < len(dim) else None, f"{label}: slices[{axis}]")
            bounds.append([start, limit])
            steps.append(step)
        attributes = {"slices": bounds, "slice_strides": steps}
        inputs = {"X": ("input", input)}
        return self._add("slice", "SLICE", name, inputs, ["Y"], compute_data_type, attributes=attributes)[0]

    def concatenate(
        self, inputs: Sequence[Tensor], axis: int, in_place_index: int | None = None, name: str = ""
    ) -> Tensor:
        """Joins tensors along an axis."""
        if isinstance(inputs, Tensor) or not inputs:
            raise TypeError("concatenate: inputs: required: a sequence of Tensors")
        attributes = {
            "axis": _integers([axis], "concatenate: axis")[0],
            "in_place_index": None if in_place_index is None else _integers([in_place_index], "concatenate: index")[0],
        }
        ports = {
            str(index): (f"inputs[{index}]", self._own(tensor, f"concatenate: inputs[{index}]"))
            for index, tensor in enumerate(inputs)
        }
        return self._add("concatenate", "CONCATENATE", name, ports, ["Y"], attributes=attributes, has_compute=False)[0]

    def block_scale_quantize(
        self,
        input: Tensor,
        block_size: int,
        axis: int | None = None,
        compute_data_type: Choice = None,
        name: str = "",
    ) -> list[Tensor]:
        """Quantized elements and the scale of each block along ``axis`` (the last one)."""
        attributes = {
            "block_size": _integers([block_size], "block_scale_quantize: block_size")[0],
            "axis": None if axis is None else _integers([axis], "block_scale_quantize: axis")[0],
        }
        inputs = {"X": ("input", self._own(input, "block_scale_quantize: input"))}
        ports = ["Y", "scale"]
        op = "block_scale_quantize"
        return self._add(op, op.upper(), name, inputs, ports, compute_data_type, attributes=attributes)

    def block_scale_dequantize(
        self,
        input: Tensor,
        descale: Tensor,
        block_size: Sequence[int],
        is_negative_scale: bool = False,
        compute_data_type: Choice = None,
        name: str = "",
    ) -> Tensor:
        """Elements times their blocks' scales."""
        attributes = {
            "block_size": _integers(block_size, "block_scale_dequantize: block_size"),
            "is_negative_scale": bool(is_negative_scale),
        }
        op = "block_scale_dequantize"
        inputs = {"X": ("input", self._own(input, f"{op}: input")), "scale": ("descale", descale)}
        return self._add(op, op.upper(), name, inputs, ["Y"], compute_data_type, attributes=attributes)[0]


def _bounds(cut: object, extent: int | None, where: str) -> tuple[int, int, int]:
    """Start, limit and step of a slice of an axis."""
    if not isinstance(cut, slice):
        raise TypeError(f"{where}: found {_kind(cut)}; required: a slice")
    if extent is not None:
        start, limit, step = cut.indices(extent)
    elif cut.stop is None:
        raise MalformedGraph(f"{where}: no limit; required, as the input's extents are not known yet")
    else:
        start, limit, step = cut.start or 0, cut.stop, cut.step or 1
    if step < 1 or start < 0 or limit <= start:
        found = f"{start}:{limit}:{step}"
        raise MalformedGraph(f"{where}: found {found}; required: a positive step and at least one element")
    return start, limit, step
