"""Random small models for the backend of `torch.compile`, and what holds them against eager PyTorch.

A program is Python source around one or two matmuls or convolutions. Each value is known to be exact or not: exact are
multiples of a power of two that all types on its way hold, whatever the order of sums. Operations that jump or have a
kink (comparisons, clips, maxima) take exact values alone, many of which lie at the jump. So eager, compiled and widened
programs take the same branches, and what is left between them is rounding.

    python3 tests/random_models.py --seeds 500              # through AOTAutograd and the pass; the rest runs eagerly
    python3 tests/random_models.py --seeds 50 --inductor    # through Inductor's code, seconds for each
    python3 tests/random_models.py --first 17 --seeds 1 --print
"""

from __future__ import annotations

import argparse
import collections
import random
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import Any

import torch
import torch.nn.functional as F
from torch._inductor.compile_fx import compile_fx, fake_tensor_prop, view_to_reshape
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from fusewright.torch import _options, _pass

SIGNIFICANT_BITS = {"float32": 24, "bfloat16": 8, "float16": 11}
LARGEST = 256.0
"""Bound of values that are not exact, so that no type overflows."""

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Value:
    """A variable of a program: multiples of 2**-`unit` of at most `bound`, or inexact where `unit` is `None`."""

    name: str
    shape: Shape
    dtype: str
    bound: float
    unit: int | None

    @property
    def is_exact(self) -> bool:
        return self.unit is not None


@dataclass
class Program:
    seed: int
    lines: list[str] = field(default_factory=list)
    inputs: list[Value] = field(default_factory=list)
    layouts: list[str] = field(default_factory=list)
    with_gradient: list[bool] = field(default_factory=list)
    results: list[Value] = field(default_factory=list)

    @property
    def source(self) -> str:
        names = ", ".join(value.name for value in self.inputs)
        return "\n    ".join((f"def program({names}):", *self.lines)) + "\n"

    def function(self, widened: bool = False) -> Callable[..., Any]:
        """The program; `widened`: with every type of floating point as float64."""
        types = {name: torch.float64 if widened else getattr(torch, name) for name in SIGNIFICANT_BITS}
        names: dict[str, Any] = {"torch": torch, "F": F, **types}
        exec(compile(self.source, f"<program {self.seed}>", "exec"), names)
        return names["program"]  # type: ignore[no-any-return]

    def operands(self) -> list[torch.Tensor]:
        generator = torch.Generator().manual_seed(self.seed)
        return [_operand(v, layout, generator) for v, layout in zip(self.inputs, self.layouts, strict=True)]


def _operand(value: Value, layout: str, generator: torch.Generator) -> torch.Tensor:
    shape, dtype = value.shape, getattr(torch, value.dtype)
    if value.is_exact:
        numbers = torch.randint(-2, 3, shape, generator=generator).to(dtype) / 2
    else:
        numbers = torch.randn(shape, generator=generator).clamp(-value.bound, value.bound).to(dtype)
    if layout == "transposed":
        return numbers.transpose(-1, -2).contiguous().transpose(-1, -2)
    if layout == "channels_last":
        return numbers.contiguous(memory_format=torch.channels_last if len(shape) == 4 else torch.channels_last_3d)
    if layout == "strided":
        return torch.stack((numbers, numbers), -1)[..., 0]
    if layout == "offset":
        return torch.cat((numbers[:1], numbers))[1:]
    return numbers


# Programs.


class Generator:
    """Writes the program of a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.program = Program(seed)
        self.low = self.random.choice(("float32", "float32", "bfloat16", "float16"))
        self.is_exact = self.random.random() < 0.7
        self.values: list[Value] = []

    def make(self) -> Program:
        value = self._anchor()
        value = self._steps(value, self.random.choice((0, 1, 1, 2, 3, 4, 6)))
        if len(value.shape) in (2, 3) and self.random.random() < 0.6:
            value = self._steps(self._second_anchor(value), self.random.randint(0, 3))
        results = [self._reduction(value) if self.random.random() < 0.3 else value]
        results += [v for v in self.values if v is not value and self.random.random() < 0.1][:2]
        self.program.lines.append(f"return ({', '.join(v.name for v in results)},)")
        self.program.results = results
        self._choose_gradients()
        return self.program

    def _choose_gradients(self) -> None:
        chosen = [self.random.random() < 0.7 for _ in self.program.inputs]
        if self.random.random() < 0.2:
            chosen = [False] * len(chosen)
        self.program.with_gradient = chosen

    # Values.

    def emit(self, text: str, shape: Shape, dtype: str, bound: float, unit: int | None) -> Value:
        """A new variable; where its type does not hold the exact value, it is not exact."""
        if unit is not None and bound * 2.0**unit > 2.0 ** SIGNIFICANT_BITS[dtype]:
            unit = None
        value = Value(f"v{len(self.values)}", shape, dtype, bound, unit)
        self.program.lines.append(f"{value.name} = {text}")
        self.values.append(value)
        return value

    def input(self, shape: Shape, dtype: str | None = None, layouts: Sequence[str] = ()) -> Value:
        choices = [*layouts] if layouts else ["packed", "packed"]
        if not layouts:
            choices += ["strided", "offset"][: len(shape) + 1] + ["transposed"] * (len(shape) >= 2)
        name = f"x{len(self.program.inputs)}"
        bound, unit = (1.0, 1) if self.is_exact else (3.0, None)
        value = Value(name, shape, dtype or self.low, bound, unit)
        self.program.inputs.append(value)
        self.program.layouts.append(self.random.choice(choices))
        return value

    # Anchors.

    def _anchor(self) -> Value:
        return self.random.choice((self._mm, self._linear, self._addmm, self._bmm, self._baddbmm, *(self._conv,) * 5))()

    def _before(self, operand: Value) -> Value:
        """An operand of a core with up to two operations in front."""
        for _ in range(self.random.choice((0, 0, 0, 1, 2))):
            operand = self._narrowed(self._pointwise(operand))
        return operand

    def _narrowed(self, value: Value) -> Value:
        if value.dtype == self.low:
            return value
        return self.emit(f"{value.name}.to({self.low})", value.shape, self.low, value.bound, value.unit)

    def _core(self, text: str, shape: Shape, a: Value, b: Value, depth: int, more: float = 0.0) -> Value:
        exact = a.is_exact and b.is_exact
        unit = (a.unit or 0) + (b.unit or 0) + (1 if more else 0) if exact else None
        return self.emit(text, shape, self.low, a.bound * b.bound * depth + more, unit)

    def _extent(self) -> int:
        return self.random.choice((1, 3, 4, 8, 8, 16, 16, 24))

    def _mm(self) -> Value:
        m, n, k = self._extent(), self._extent(), self._extent()
        a, b = self._before(self.input((m, k))), self._before(self.input((k, n)))
        return self._core(f"torch.mm({a.name}, {b.name})", (m, n), a, b, k)

    def _linear(self) -> Value:
        lead = self.random.choice(((4,), (2, 3), (8,), (2, 8), (16,)))
        n, k = self._extent(), self._extent()
        a, b = self._before(self.input((*lead, k))), self._before(self.input((n, k)))
        if self.random.random() < 0.5:
            return self._core(f"F.linear({a.name}, {b.name})", (*lead, n), a, b, k)
        bias = self.input((n,))
        return self._core(f"F.linear({a.name}, {b.name}, {bias.name})", (*lead, n), a, b, k, bias.bound)

    def _addmm(self) -> Value:
        m, n, k = self._extent(), self._extent(), self._extent()
        bias = self.input(self.random.choice(((n,), (m, n), (1, n), (m, 1))))
        a, b = self._before(self.input((m, k))), self._before(self.input((k, n)))
        factors = self.random.choice(("", ", alpha=0.5", ", beta=0.5", ", beta=2, alpha=-1", ", beta=0"))
        return self._core(
            f"torch.addmm({bias.name}, {a.name}, {b.name}{factors})",
            (m, n),
            a,
            b,
            k,
            a.bound * b.bound + 2 * bias.bound,
        )

    def _bmm(self) -> Value:
        batch, m, n, k = self.random.randint(1, 4), self._extent(), self._extent(), self._extent()
        a, b = self._before(self.input((batch, m, k))), self._before(self.input((batch, k, n)))
        return self._core(f"torch.bmm({a.name}, {b.name})", (batch, m, n), a, b, k)

    def _baddbmm(self) -> Value:
        batch, m, n, k = self.random.randint(1, 4), self._extent(), self._extent(), self._extent()
        bias = self.input(self.random.choice(((batch, m, n), (1, m, n), (batch, 1, n), (n,))))
        a, b = self._before(self.input((batch, m, k))), self._before(self.input((batch, k, n)))
        factor = self.random.choice(("", ", alpha=2", ", beta=0.5"))
        return self._core(
            f"torch.baddbmm({bias.name}, {a.name}, {b.name}{factor})", (batch, m, n), a, b, 2 * k, 2 * bias.bound
        )

    def _conv(self) -> Value:
        rank = self.random.choice((1, 2, 2, 2, 3))
        groups = self.random.choice((1, 1, 1, 2, 4))
        channels, filters = groups * self.random.choice((1, 2, 4, 8)), groups * self.random.choice((1, 2, 4, 8))
        transposed = self.random.random() < 0.15
        kernel = tuple(self.random.choice((1, 2, 3)) for _ in range(rank))
        options = {
            "stride": [self.random.choice((1, 1, 2)) for _ in range(rank)],
            "padding": [self.random.randint(0, k // 2) for k in kernel],
            "dilation": [self.random.choice((1, 1, 2)) for _ in range(rank)],
        }
        spans = [d * (k - 1) + 1 for k, d in zip(kernel, options["dilation"], strict=True)]
        image = tuple(span + self.random.randint(0, 3 if rank == 3 else 5) for span in spans)
        extents = [_image_extent(*e, transposed) for e in zip(image, spans, *options.values(), strict=False)]
        if min(extents) < 1:
            return self._conv()
        layouts = ("packed",) if rank == 1 else ("packed", "channels_last", "channels_last")
        batch = self.random.randint(1, 3)
        x = self.input((batch, channels, *image), layouts=layouts)
        per_group = (channels, filters // groups) if transposed else (filters, channels // groups)
        w = self.input((*per_group, *kernel), layouts=layouts)
        bias = self.input((filters,)) if self.random.random() < 0.5 else None
        name = f"F.conv{'_transpose' * transposed}{rank}d"
        text = f"{name}({x.name}, {w.name}, {bias.name if bias else None}, groups={groups}, "
        text += ", ".join(f"{option}={tuple(value)}" for option, value in options.items()) + ")"
        depth = channels // groups * prod(kernel)
        return self._core(text, (batch, filters, *extents), x, w, depth, bias.bound if bias else 0.0)

    def _second_anchor(self, value: Value) -> Value:
        value = self._narrowed(value)
        k, n = value.shape[-1], self._extent()
        weight = self.input((n, k))
        if value.bound * k * weight.bound > LARGEST and value.unit is None:
            value = self.emit(f"torch.tanh({value.name})", value.shape, value.dtype, 1.0, None)
        return self._core(f"F.linear({value.name}, {weight.name})", (*value.shape[:-1], n), value, weight, k)

    # Steps behind an anchor.

    def _steps(self, value: Value, count: int) -> Value:
        for _ in range(count):
            kind = self.random.choices(("pointwise", "binary", "view", "cast", "in place"), (7, 5, 1, 1, 1))[0]
            value = {
                "pointwise": self._pointwise,
                "binary": self._binary,
                "view": self._view,
                "cast": self._cast,
                "in place": self._in_place,
            }[kind](value)
        return value

    def _pointwise(self, v: Value) -> Value:
        kinds: list[tuple[str, float, int | None]] = [*_smooth(v)]
        if v.is_exact:
            kinds = [*_exact(v), *_exact(v), *kinds]
        text, bound, unit = self.random.choice(kinds)
        return self.emit(text.replace("$", v.name), v.shape, v.dtype, bound, unit)

    def _other(self, v: Value) -> Value:
        """Another operand: an earlier value or an input, of the same extents or broadcast."""
        earlier = [e for e in self.values if e.shape == v.shape]
        if self.random.random() < 0.4:
            return self.random.choice(earlier)
        shape = tuple(self.random.choice((n, n, n, 1)) for n in v.shape)
        shape = shape[self.random.choice((0, 0, 0, 1)) :] if shape[:1] else shape
        if self.random.random() < 0.1:
            shape = ()
        return self.input(shape, self.random.choice((v.dtype, v.dtype, v.dtype, "float32")))

    def _binary(self, v: Value) -> Value:
        o = self._other(v)
        dtype = v.dtype if o.dtype == v.dtype or not o.shape else "float32"  # a tensor of no axes does not promote
        unit = max(v.unit or 0, o.unit or 0) if v.is_exact and o.is_exact else None
        product = (v.unit or 0) + (o.unit or 0) if v.is_exact and o.is_exact else None
        largest, total = max(v.bound, o.bound), v.bound + o.bound
        kinds: list[tuple[str, float, int | None]] = [
            ("$ + @", total, unit),
            ("$ - @", total, unit),
            ("@ - $", total, unit),
            ("torch.add($, @, alpha=2)", v.bound + 2 * o.bound, unit),
            ("$ * @", v.bound * o.bound, product),
            ("$ / (@ * @ + 1)", v.bound, None),
            ("torch.lerp($, @.to($.dtype), 0.25)", total, None),
        ]
        if unit is not None:
            kinds += [
                ("torch.maximum($, @)", largest, unit),
                ("torch.minimum($, @)", largest, unit),
                ("torch.where($ > @, $, @)", largest, unit),
                ("torch.where($ >= @, $, 0.5)", largest, max(unit, 1)),
                ("torch.where($ == @, $ * 2, $)", 2 * v.bound, unit),
                ("torch.where(($ < @) | ($ != 0), 1.0, $)", max(1.0, v.bound), unit),
                ("$ * ($ <= @)", v.bound, unit),
                ("torch.clamp($, max=@)", largest, unit),
            ]
        kinds = [k for k in kinds if k[1] <= LARGEST or k[2] is not None]
        text, bound, unit = self.random.choice(kinds or [("$ * 0 + @ * 0", 0.0, None)])
        text = text.replace("$", v.name).replace("@", o.name)
        return self.emit(text if dtype == v.dtype else f"({text}).to({dtype})", v.shape, dtype, bound, unit)

    def _view(self, v: Value) -> Value:
        rank, views = len(v.shape), []
        views.append((f"{v.name}.reshape({prod(v.shape)})", (prod(v.shape),)))
        views.append((f"{v.name}.unsqueeze(0)", (1, *v.shape)))
        if rank >= 2:
            swapped = (*v.shape[:-2], v.shape[-1], v.shape[-2])
            views += [
                (f"{v.name}.transpose(-1, -2)", swapped),
                (f"{v.name}.transpose(-1, -2).contiguous()", swapped),
                (f"{v.name}.flatten(0, 1)", (v.shape[0] * v.shape[1], *v.shape[2:])),
                (f"{v.name}[..., ::2]", (*v.shape[:-1], -(-v.shape[-1] // 2))),
                (f"F.pad({v.name}, (1, 0))", (*v.shape[:-1], v.shape[-1] + 1)),
                (f"torch.cat(({v.name}, {v.name}), 1)", (v.shape[0], 2 * v.shape[1], *v.shape[2:])),
                (f"{v.name}.clone()", v.shape),
            ]
        if rank >= 1 and v.shape[-1] % 2 == 0:
            half = v.shape[-1] // 2
            views.append((f"{v.name}.unflatten(-1, (2, {half}))", (*v.shape[:-1], 2, half)))
            views.append((f"{v.name}.chunk(2, -1)[1]", (*v.shape[:-1], half)))
        if rank <= 4:
            views.append((f"{v.name}.expand(2, *{v.shape})", (2, *v.shape)))
        text, shape = self.random.choice([view for view in views if len(view[1]) <= 5])
        return self.emit(text, shape, v.dtype, v.bound, v.unit)

    def _cast(self, v: Value) -> Value:
        dtype = self.random.choice([d for d in SIGNIFICANT_BITS if d != v.dtype])
        return self.emit(f"{v.name}.to({dtype})", v.shape, dtype, v.bound, v.unit)

    def _in_place(self, v: Value) -> Value:
        """A change in place of a copy, so that nothing that autograd keeps changes."""
        copy = self.emit(f"{v.name} + 0", v.shape, v.dtype, v.bound, v.unit)
        change, bound, unit = self.random.choice(
            [("mul_(2)", 2 * v.bound, v.unit), ("add_(0.5)", v.bound + 0.5, None if v.unit is None else max(v.unit, 1))]
            + ([("relu_()", v.bound, v.unit), ("clamp_(-0.5, 0.5)", 0.5, max(v.unit, 1))] if v.unit is not None else [])
        )
        return self.emit(f"{copy.name}.{change}", v.shape, v.dtype, bound, unit)

    def _reduction(self, v: Value) -> Value:
        if not v.shape:
            return v
        axis, extent = self.random.choice([(axis, extent) for axis, extent in enumerate(v.shape)])
        shape = (*v.shape[:axis], *v.shape[axis + 1 :])
        kinds = [
            (f"{v.name}.sum({axis})", shape, v.bound * extent),
            (f"{v.name}.mean({axis})", shape, v.bound),
            (f"torch.softmax({v.name}, {axis})", v.shape, 1.0),
            (f"F.layer_norm({v.name}, ({v.shape[-1]},), eps=0.1)", v.shape, LARGEST),
            (f"({v.name} * {v.name} + 1).sum({axis})", shape, LARGEST),
        ]
        if v.is_exact:
            kinds += [(f"{v.name}.amax({axis})", shape, v.bound), (f"{v.name}.argmax({axis})", shape, v.bound)]
        text, shape, bound = self.random.choice(kinds)
        return self.emit(text, shape, v.dtype, bound, None)


def _image_extent(extent: int, span: int, stride: int, padding: int, dilation: int, transposed: bool) -> int:
    if transposed:
        return (extent - 1) * stride - 2 * padding + span
    return (extent + 2 * padding - span) // stride + 1


def _smooth(v: Value) -> list[tuple[str, float, int | None]]:
    """Operations without kinks of a value `$`, with the bounds of their results."""
    kinds: list[tuple[str, float, int | None]] = [
        ("torch.tanh($)", 1.0, None),
        ("torch.sigmoid($)", 1.0, None),
        ("torch.erf($)", 1.0, None),
        ("torch.sin($)", 1.0, None),
        ("F.gelu($)", v.bound, None),
        ("F.gelu($, approximate='tanh')", v.bound, None),
        ("F.silu($)", v.bound, None),
        ("F.mish($)", v.bound, None),
        ("F.softplus($)", v.bound + 1, None),
        ("F.elu($)", v.bound, None),
        ("torch.exp(-$ * $)", 1.0, None),
        ("torch.rsqrt($ * $ + 1)", 1.0, None),
        ("torch.reciprocal($ * $ + 2)", 1.0, None),
        ("1 / ($ * $ + 1)", 1.0, None),
        ("torch.log($ * $ + 1)", v.bound, None),
        ("($ * $ + 1) ** 0.5", v.bound + 1, None),
        ("torch.sqrt($ * $ + 1)", v.bound + 1, None),
        ("$ * 0.3", v.bound, None),
    ]
    if v.bound * v.bound * v.bound <= LARGEST:
        kinds += [("$ ** 2", v.bound**2, None), ("$ ** 3", v.bound**3, None), ("($ * $ + 1) ** 1.5", LARGEST, None)]
    return kinds


def _exact(v: Value) -> list[tuple[str, float, int | None]]:
    """Operations that keep an exact value `$` so, most of them with a kink or a jump."""
    unit, half = v.unit or 0, max(v.unit or 0, 1)
    return [
        ("torch.relu($)", v.bound, unit),
        ("torch.abs($)", v.bound, unit),
        ("-$", v.bound, unit),
        ("torch.clamp($, -0.5, 0.5)", 0.5, half),
        ("torch.clamp($, min=0)", v.bound, unit),
        ("torch.clamp($, max=1)", v.bound, unit),
        ("torch.clamp($, 0.5, -0.5)", 0.5, half),
        ("F.hardtanh($)", 1.0, unit),
        ("F.relu6($)", 6.0, unit),
        ("F.leaky_relu($, 0.5)", v.bound, unit + 1),
        ("F.hardswish($)", v.bound, None),
        ("F.hardsigmoid($)", 1.0, None),
        ("F.threshold($, 0.5, -1.0)", v.bound + 1, unit),
        ("F.softshrink($, 0.5)", v.bound, half),
        ("F.selu($)", 2 * v.bound, None),
        ("torch.floor($)", v.bound + 1, 0),
        ("torch.round($)", v.bound + 1, 0),
        ("torch.sign($)", 1.0, 0),
        ("$ + 0.5", v.bound + 0.5, half),
        ("1 - $", v.bound + 1, unit),
        ("$ * 0.5", v.bound, unit + 1),
        ("$ * 2", 2 * v.bound, unit),
        ("$ / 2", v.bound, unit + 1),
        ("$ * ($ > 0)", v.bound, unit),
        ("torch.where($ > 0, $, $ * 0.5)", v.bound, unit + 1),
        ("torch.where($ > 0, $, -1.0)", v.bound + 1, unit),
        ("torch.where($ <= 0.5, $, 2.0)", v.bound + 2, half),
        ("torch.where($ < -0.5, 1.0, $)", v.bound + 1, half),
        ("torch.where($ >= 0.5, $, -1.0)", v.bound + 1, half),
        ("torch.where($ == 0, 2.0, $)", v.bound + 2, unit),
        ("torch.where($ != 0.5, $, 0.0)", v.bound, unit),
        ("($ < 0.5).to($.dtype) - ($ <= 0).to($.dtype)", 1.0, 0),
        ("$.masked_fill($ < 0, -1.0)", v.bound + 1, unit),
    ]


# Comparison.


class Rounding(TorchDispatchMode):
    """Moves what every operation reads and gives by up to a unit in the last place of another type."""

    def __init__(self, unit: float, seed: int) -> None:
        super().__init__()
        self.unit = unit
        self.generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not _rounds(function):
            return function(*args, **kwargs)
        return tree_map(self._moved, function(*tree_map(self._moved, args), **kwargs))

    def _moved(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.dtype is not torch.float64:
            return value
        noise = torch.rand(value.shape, generator=self.generator, dtype=torch.float64) * 2 - 1
        return value * (1 + self.unit * noise)


_KINKED = frozenset(
    """relu clamp hardtanh leaky_relu threshold hardswish hardsigmoid softshrink elu floor round sign where gt ge lt le
    eq ne maximum minimum masked_fill amax argmax abs bitwise_or""".split()  # noqa: SIM905
)


def _rounds(function: Any) -> bool:
    """Whether an operation rounds: views do not, nor may what jumps be moved, as it takes exact values."""
    schema = function._schema
    name = schema.name.rpartition(":")[2].removesuffix("_")
    if any(a.alias_info is not None for a in (*schema.arguments, *schema.returns)) or not schema.returns:
        return False
    return name.removesuffix("_backward") not in _KINKED


def results_of(call: Callable[..., Any], program: Program, operands: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """What a program gives, and behind it the gradients of those operands that have one."""
    leaves = [x.detach().clone(memory_format=torch.preserve_format) for x in operands]
    for leaf, needed in zip(leaves, program.with_gradient, strict=True):
        leaf.requires_grad_(needed)
    outputs = call(*leaves)
    roots = [y for y in outputs if y.requires_grad]
    wanted = [x for x in leaves if x.requires_grad]
    found = [y.detach() for y in outputs]
    if roots and wanted:
        weights = [_weights(y) for y in roots]
        found += [g for g in torch.autograd.grad(roots, wanted, weights, allow_unused=True) if g is not None]
    return found


def _weights(y: torch.Tensor) -> torch.Tensor:
    """Gradients of a result, of few bits."""
    choices = torch.tensor([-1.0, -0.5, 0.5, 1.0], dtype=y.dtype)
    generator = torch.Generator().manual_seed(y.numel())
    return choices[torch.randint(0, 4, tuple(y.shape), generator=generator)]


def mismatches(program: Program, call: Callable[..., Any]) -> list[str]:
    """How a compiled program differs from eager by more than rounding.

    The allowed distance from the widened program is four times that of eager, or of the widened program whose every
    operation is moved by a unit in the last place of the lowest type, whichever is larger: eager's own distance may be
    small by luck, the four is for ours being large by bad luck. Exact results are eager's, bit for bit.
    """
    operands = program.operands()
    eager = results_of(program.function(), program, operands)
    wide = [x.double() for x in operands]
    exact = results_of(program.function(widened=True), program, wide)
    lowest = max(torch.finfo(x.dtype).eps for x in (*operands, *eager) if x.is_floating_point())
    moved = []
    for seed in range(2):
        with Rounding(lowest, seed):
            moved.append(results_of(program.function(widened=True), program, wide))
    found = results_of(call, program, operands)
    if len(found) != len(eager):
        return [f"found {len(found)} results, eager gives {len(eager)}"]
    problems = []
    for index, (ours, theirs, wanted) in enumerate(zip(found, eager, exact, strict=True)):
        noise = max(_distance(m[index], wanted) for m in moved)
        if index < len(program.results) and program.results[index].is_exact:
            noise = 0.0
            if _distance(theirs, wanted):
                problems.append(f"result {index} is not exact in eager PyTorch: the generator is wrong")
        problems += [f"result {index}: {text}" for text in _difference(ours, theirs, wanted, noise)]
    return problems


def _difference(ours: torch.Tensor, theirs: torch.Tensor, wanted: torch.Tensor, noise: float) -> list[str]:
    if (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape):
        return [f"{ours.dtype} {list(ours.shape)}, eager {theirs.dtype} {list(theirs.shape)}"]
    if not ours.is_floating_point():
        return [] if torch.equal(ours, theirs) else [f"{ours} is not {theirs}"]
    allowed = 4 * max(_distance(theirs, wanted), noise)
    error = _distance(ours, wanted)
    return (
        [] if error <= allowed else [f"error {error:.3g}, {allowed:.3g} allowed, {_distance(theirs, wanted):.3g} eager"]
    )


def _distance(left: torch.Tensor, right: torch.Tensor) -> float:
    if left.numel() == 0:
        return 0.0
    return float((left.double() - right.double()).abs().nan_to_num(nan=float("inf")).max())


# Compilation.


def compiled(program: Program, *, inductor: bool, dynamic: bool) -> Callable[..., Any]:
    """The program with the pass, the rest of it as Inductor's code or run operation by operation."""
    torch._dynamo.reset()
    backend = partial(_backend, fusion=_pass.FusionPass(_options.Options(select="always")), inductor=inductor)
    return torch.compile(program.function(), backend=backend, fullgraph=True, dynamic=dynamic)


def _backend(gm: Any, example_inputs: Any, *, fusion: _pass.FusionPass, inductor: bool) -> Any:
    patches = {"post_grad_custom_pre_pass": fusion, "fx_graph_cache": False}
    inner = {} if inductor else {"inner_compile": partial(_run_operations, fusion=fusion)}
    return compile_fx(gm, example_inputs, config_patches=patches, **inner)


def _run_operations(gm: Any, example_inputs: Any, *, fusion: _pass.FusionPass, **_: Any) -> Any:
    """What Inductor does up to the pass; the operations then run one by one."""
    view_to_reshape(gm)
    with torch.no_grad():
        fake_tensor_prop(gm, example_inputs)
    gm.graph.eliminate_dead_code()
    fusion(gm.graph)
    gm.recompile()

    def run(inputs: list[Any]) -> Any:
        with torch.no_grad():
            return gm(*inputs)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def check(
    seed: int, *, inductor: bool = False, dynamic: bool = False
) -> tuple[Program, list[str], list[_pass.AnchorReport]]:
    """A seed's program, how it differs from eager, and what became of its anchors; `dynamic`: of symbolic sizes."""
    program = Generator(seed).make()
    with _pass.recorded_reports() as reports:
        problems = mismatches(program, compiled(program, inductor=inductor, dynamic=dynamic))
    return program, problems, reports


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--inductor", action="store_true")
    parser.add_argument("--dynamic", action="store_true", help="with symbolic sizes")
    parser.add_argument("--print", action="store_true", help="print every program")
    arguments = parser.parse_args()
    failed, anchors, refusals = [], collections.Counter[tuple[str, bool]](), collections.Counter[str]()
    torch._functorch.config.enable_autograd_cache = False
    for seed in range(arguments.first, arguments.first + arguments.seeds):
        program = Generator(seed).make()
        if arguments.print:
            print(program.source)
        try:
            _, problems, reports = check(seed, inductor=arguments.inductor, dynamic=arguments.dynamic)
        except Exception:
            problems, reports = [traceback.format_exc(limit=-4)], []
        anchors.update((r.operation, r.taken) for r in reports)
        refusals.update(refusal[:160] for r in reports for refusal in r.refusals)
        if problems:
            failed.append(seed)
            print(f"seed {seed}: {program.layouts} {program.with_gradient}", program.source, *problems, sep="\n")
    print(
        *(f"{count:5} {name} {'taken' if taken else 'left'}" for (name, taken), count in sorted(anchors.items())),
        sep="\n",
    )
    print(*(f"{count:5} {text}" for text, count in refusals.most_common(20)), sep="\n")
    print(f"{arguments.seeds} seeds, failed: {failed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
