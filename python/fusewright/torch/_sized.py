# mypy: allow-untyped-calls
"""The operator `fusewright::run_sized`: one fused graph in the shapes that its tensors have.

A region of symbolic sizes is translated several times, each time with other numbers for the symbols. What is the same
in all texts is the graph. A number that is not is a *term*: a factor times sizes of the operands, and, where these do
not tell, of values that the FX graph computes. An execution has the terms' values, which make a text, and that a plan:
kept for each shape, with a binary that shapes share as far as their kernels allow it.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations_with_replacement
from math import prod
from typing import Any

import torch
from torch.fx import Node

from fusewright._core import register_torch_kernel

from . import _op, _sizes
from ._layout import Extents
from ._sizes import Unsized

SAMPLES = 4
"""Translations that terms are told from, with that of the shapes compiled with."""
ODD_SAMPLES = 2
"""Samples in which sizes are compared, beyond those: what rounds (`s // 2 * 2`) differs in these alone."""
LARGEST_DEGREE = 3
"""Sizes that a term multiplies, at most."""
SHAPES = 1024
"""Shapes whose plans the kernels in Python keep, of all graphs together; that in Rust keeps as many of each."""

Term = int | list[Any]
"""A number, or a factor and the names of sizes: `1.0` is the extent of axis 0 of operand 1, `$0` a value given."""
Column = tuple[int, ...]
"""The numbers of one place in the samples: of a text in `SAMPLES`, of a size in `ODD_SAMPLES` more."""


@dataclass(frozen=True)
class Variable:
    """A size that terms may have: that of an axis of an operand, or what a node computes."""

    source: str | Node
    column: Column

    @property
    def is_given(self) -> bool:
        return isinstance(self.source, Node)


def sized_text(
    texts: Sequence[str],
    inputs: Sequence[torch.Tensor],
    outputs: Sequence[torch.Tensor],
    values: Sequence[Node] = (),
) -> tuple[str, list[Node]]:
    """The text that `run_sized` takes, and the nodes of the values that it is given.

    `texts` are the translations of all samples, `inputs` and `outputs` fake tensors of the operands and results, and
    `values` nodes of symbolic sizes that are known where the operator will stand. Raises `Unsized`.
    """
    graphs = [json.loads(text) for text in texts]
    if len({json.dumps(_without_sizes(graph), sort_keys=True) for graph in graphs}) > 1:
        raise Unsized("another graph for other sizes")
    terms = _Terms(_variables(inputs, values))
    sizes = {
        str(tensors[0]["uid"]): {what: terms.of(zip(*(t[what] for t in tensors), strict=True)) for what in SIZES}
        for tensors in zip(*(graph["tensors"] for graph in graphs), strict=True)
    }
    results = [{"dim": terms.of(map(_column, t.shape)), "stride": terms.of(map(_column, t.stride()))} for t in outputs]
    text = json.dumps({"graph": graphs[0], "sizes": sizes, "outputs": results}, separators=(",", ":"), sort_keys=True)
    return text, terms.given


SIZES = ("dim", "stride")


def _without_sizes(graph: dict[str, Any]) -> dict[str, Any]:
    tensors = [{**t, **{what: len(t[what]) for what in SIZES}} for t in graph["tensors"]]
    return {**graph, "tensors": tensors}


def _column(size: Any) -> Column:
    column = []
    for sample in (*range(SAMPLES), *range(-1, -1 - ODD_SAMPLES, -1)):
        with _sizes.sampled(sample):
            column.append(_sizes.number(size))
    return tuple(column)


def _variables(inputs: Sequence[torch.Tensor], values: Sequence[Node]) -> list[Variable]:
    """The sizes that vary, each once: those of operands first."""
    found: dict[Column, Variable] = {}
    for place, tensor in enumerate(inputs):
        for axis, column in enumerate(map(_column, tensor.shape)):
            found.setdefault(column, Variable(f"{place}.{axis}", column))
    for node in values:
        column = _column(node.meta["val"])
        found.setdefault(column, Variable(node, column))
    return [v for v in found.values() if len(set(v.column)) > 1 and min(v.column) > 0]


class _Terms:
    """Finds terms, and keeps which values they need that no operand has."""

    def __init__(self, variables: Sequence[Variable]) -> None:
        self.given: list[Node] = []
        self._found: dict[Column, Term] = {}
        self._products = [
            (chosen, tuple(map(prod, zip(*(v.column for v in chosen), strict=True))))
            for degree in range(1, LARGEST_DEGREE + 1)
            for chosen in combinations_with_replacement(variables, degree)
        ]
        # values that are given cost a node's result each
        self._products.sort(key=lambda found: (sum(v.is_given for v in found[0]), len(found[0])))

    def of(self, columns: Any) -> list[Term]:
        return [self._term(tuple(column)) for column in columns]

    def _term(self, column: Column) -> Term:
        if len(set(column)) == 1:
            return column[0]
        if column not in self._found:
            self._found[column] = self._search(column)
        return self._found[column]

    def _search(self, column: Column) -> Term:
        found = [(chosen, product, column[0] // product[0]) for chosen, product in self._products]
        found = [it for it in found if all(n == it[2] * p for n, p in zip(column, it[1], strict=False))]
        if not found:
            raise Unsized(f"an extent or stride, {column[0]} in these shapes, is no multiple of a product of sizes")
        if len({tuple(factor * p for p in product) for _, product, factor in found}) > 1:
            raise Unsized(f"an extent or stride, {column[0]} in these shapes, is one of several sizes")
        chosen, _, factor = found[0]
        return [factor, *(self._name(variable) for variable in chosen)]

    def _name(self, variable: Variable) -> str:
        if isinstance(variable.source, str):
            return variable.source
        if variable.source not in self.given:
            self.given.append(variable.source)
        return f"${self.given.index(variable.source)}"


# Executions.


@dataclass(frozen=True)
class Form:
    """A graph's text with terms, read once."""

    graph: dict[str, Any]
    sizes: dict[int, dict[str, list[Term]]]
    outputs: list[dict[str, list[Term]]]
    names: tuple[str, ...]
    """The sizes that terms have."""
    places: tuple[tuple[int, int], ...]
    """Where they are: operand and axis, or -1 and the place among the values given."""
    dtypes: tuple[torch.dtype, ...]

    def values(self, inputs: Sequence[torch.Tensor], given: Sequence[Any]) -> tuple[Any, ...]:
        """What the sizes are in an execution."""
        return tuple(given[axis] if operand < 0 else inputs[operand].shape[axis] for operand, axis in self.places)

    def results(self, values: Sequence[Any]) -> list[tuple[tuple[Any, ...], tuple[Any, ...], torch.dtype]]:
        """Extents, strides and types of the results."""
        known = dict(zip(self.names, values, strict=True))
        forms = [tuple(tuple(_valued(t, known) for t in form[what]) for what in SIZES) for form in self.outputs]
        return [(dim, stride, dtype) for (dim, stride), dtype in zip(forms, self.dtypes, strict=True)]

    def text(self, values: Sequence[int]) -> str:
        """The graph in these sizes."""
        known = dict(zip(self.names, values, strict=True))
        tensors = [
            {**t, **{what: [_valued(n, known) for n in self.sizes[t["uid"]][what]] for what in SIZES}}
            for t in self.graph["tensors"]
        ]
        return json.dumps({**self.graph, "tensors": tensors}, separators=(",", ":"), sort_keys=True)


def _valued(term: Term, known: dict[str, Any]) -> Any:
    return prod((known[name] for name in term[1:]), start=term[0]) if isinstance(term, list) else term


@lru_cache(maxsize=4096)
def form_of(text: str) -> Form:
    """The form that `sized_text` wrote."""
    read = json.loads(text)
    forms = [*read["sizes"].values(), *read["outputs"]]
    terms = [t for form in forms for what in SIZES for t in form[what] if isinstance(t, list)]
    names = tuple(sorted({name for term in terms for name in term[1:]}))
    dtypes = tuple(d.dtype for d in _op.signature(json.dumps(read["graph"])).outputs)
    sizes = {int(uid): form for uid, form in read["sizes"].items()}
    return Form(read["graph"], sizes, read["outputs"], names, tuple(map(_place, names)), dtypes)


def _place(name: str) -> tuple[int, int]:
    if name.startswith("$"):
        return -1, int(name[1:])
    operand, axis = map(int, name.split("."))
    return operand, axis


@lru_cache(maxsize=SHAPES)
def _planned(text: str, values: Extents, session: str) -> tuple[_op.Signature, Any]:
    """The operands of a graph in some sizes, and its plan."""
    concrete = form_of(text).text(values)
    return _op.read_signature(concrete), _op.new_plan(concrete, session)


@lru_cache(maxsize=SHAPES)
def _execution(text: str, values: Extents, session: str, where: torch.device) -> _op.Execution:
    operands, plan = _planned(text, values, session)
    return _op.Execution(plan, operands, form_of(text).results(values), where)


def _run_cpu(inputs: Sequence[torch.Tensor], sizes: Sequence[int], graph: str, device: str = "") -> list[torch.Tensor]:
    form = form_of(graph)
    values = form.values(inputs, sizes)
    operands, plan = _planned(graph, values, _op.session_name(inputs[0].device, device))
    results = _op.run_on_host(plan, operands, inputs)
    return [r.as_strided(dim, stride) for r, (dim, stride, _) in zip(results, form.results(values), strict=True)]


def _run_cuda(inputs: Sequence[torch.Tensor], sizes: Sequence[int], graph: str, device: str = "") -> list[torch.Tensor]:
    where = inputs[0].device
    values = form_of(graph).values(inputs, sizes)
    return _execution(graph, values, _op.session_name(where, device), where).run_on_its_device(inputs)


def _run_fake(inputs: Sequence[torch.Tensor], sizes: Sequence[Any], graph: str, device: str = "") -> list[torch.Tensor]:
    form = form_of(graph)
    return [
        torch.empty_strided(dim, stride, dtype=dtype, device=inputs[0].device)
        for dim, stride, dtype in form.results(form.values(inputs, sizes))
    ]


_SCHEMA = "run_sized(Tensor[] inputs, SymInt[] sizes, str graph, str device='') -> Tensor[]"
_op.LIBRARY.define(_SCHEMA, tags=(_op.LAYOUT_TAG,))
_op.LIBRARY.impl("run_sized", _run_cpu, "CPU")
# As of `run`, the kernel in Rust does what `_run_cuda` does.
if not register_torch_kernel("CUDA", operator="run_sized"):
    _op.LIBRARY.impl("run_sized", _run_cuda, "CUDA")
torch.library.register_fake("fusewright::run_sized", _run_fake, lib=_op.LIBRARY)

RUN_SIZED = torch.ops.fusewright.run_sized.default
