"""Shapes that executions are given."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import fusewright
from fusewright._pygraph import shapes as _shapes

UIDS = {"x": 1, "w": 2, "bias": 3, "y": 4}


def matmul(session: fusewright.Session | None = None, **keywords: Any) -> fusewright.pygraph:
    """ReLU of a product and a bias, of 4 rows."""
    keywords = {"is_override_shape_enabled": True, **keywords}
    graph = fusewright.pygraph(
        name="layer",
        io_data_type="FLOAT",
        intermediate_data_type="FLOAT",
        compute_data_type="FLOAT",
        session=session or fusewright.Session("cpu"),
        **keywords,
    )
    x = graph.tensor(name="x", dim=[1, 4, 8], stride=[32, 8, 1]).set_uid(UIDS["x"])
    w = graph.tensor(name="w", dim=[1, 8, 16], stride=[128, 16, 1]).set_uid(UIDS["w"])
    bias = graph.tensor(name="bias", dim=[1, 1, 16], stride=[16, 16, 1]).set_uid(UIDS["bias"])
    y = graph.relu(graph.add(graph.matmul(x, w), bias)).set_output(True).set_name("y").set_uid(UIDS["y"])
    y.set_dim([1, 4, 16]).set_stride([64, 16, 1])
    return graph


def arrays(rows: int, depth: int = 8, seed: int = 0) -> dict[str, numpy.ndarray[Any, Any]]:
    """Halves, whose sums are exact in TF32 too."""
    draw = numpy.random.default_rng(seed)
    shapes = {"x": (1, rows, depth), "w": (1, depth, 16), "bias": (1, 1, 16)}
    made = {name: (draw.integers(-4, 5, shape) / 2).astype(numpy.float32) for name, shape in shapes.items()}
    return {**made, "y": numpy.empty((1, rows, 16), numpy.float32)}


def given(**shapes: list[int]) -> dict[str, Any]:
    """Row-major shapes of tensors by name, as ``execute`` takes them."""

    def stride(shape: list[int]) -> list[int]:
        return [int(numpy.prod(shape[axis + 1 :])) for axis in range(len(shape))]

    return {
        "override_uids": [UIDS[name] for name in shapes],
        "override_shapes": list(shapes.values()),
        "override_strides": [stride(shape) for shape in shapes.values()],
    }


def check(tensors: dict[str, numpy.ndarray[Any, Any]]) -> None:
    numpy.testing.assert_array_equal(tensors["y"], numpy.maximum(tensors["x"] @ tensors["w"] + tensors["bias"], 0))


@pytest.mark.parametrize("is_read", [False, True])
def test_an_execution_has_the_shapes_that_it_is_given(is_read: bool) -> None:
    graph = matmul()
    if is_read:
        text = graph.serialize()
        graph = fusewright.pygraph(session=fusewright.Session("cpu"))
        graph.deserialize(text)
    for rows, depth in [(4, 8), (7, 8), (1, 8), (7, 8), (33, 24), (4, 8)]:
        tensors = arrays(rows, depth, seed=rows)
        shapes = given(x=[1, rows, depth], w=[1, depth, 16], y=[1, rows, 16])
        graph.execute({UIDS[name]: array for name, array in tensors.items()}, **shapes)
        check(tensors)
    tensors = arrays(4)
    graph.execute({UIDS[name]: array for name, array in tensors.items()})
    check(tensors)


def test_the_emulator_has_kernels_of_the_shapes_given() -> None:
    graph = matmul(fusewright.Session("emulator"))
    tensors = arrays(9)
    graph.execute({UIDS[n]: a for n, a in tensors.items()}, **given(x=[1, 9, 8], y=[1, 9, 16]))
    check(tensors)


def test_plans_of_shapes_are_kept_until_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fusewright._pygraph.MOST_SHAPES", 2)
    graph = matmul()
    for rows in (5, 6, 5, 7):
        graph.execute({UIDS[n]: a for n, a in arrays(rows).items()}, **given(x=[1, rows, 8], y=[1, rows, 16]))
    kept = [given[0].dim[1] for given, _ in graph._overridden]
    assert kept == [5, 7]
    graph.relu(graph.tensor(name="z", dim=[1, 4, 8], stride=[32, 8, 1])).set_output(True)
    assert not graph._overridden, "they were of another graph"


def test_order_of_overrides_makes_no_other_plan() -> None:
    graph = matmul()
    for names in ("xy", "yx"):
        tensors, shapes = arrays(6), {"x": [1, 6, 8], "y": [1, 6, 16]}
        graph.execute({UIDS[n]: a for n, a in tensors.items()}, **given(**{name: shapes[name] for name in names}))
        check(tensors)
    assert len(graph._overridden) == 1


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"override_shapes": None}, TypeError, "override_shapes: found NoneType"),
        ({"override_uids": [1]}, fusewright.ExecutionError, r"found \[1, 2, 2\] of them"),
        ({"override_uids": [1, 1]}, fusewright.ExecutionError, "each uid once"),
        ({"override_uids": [1, 77]}, fusewright.ExecutionError, "no tensor of uid 77"),
        ({"override_shapes": [[1, 0, 8], [1, 6, 16]]}, fusewright.ExecutionError, r"uid 1: found \[1, 0, 8\]"),
        ({"override_shapes": [[1, 6.0, 8], [1, 6, 16]]}, TypeError, "override_shapes of uid 1"),
        (
            {"override_strides": [[8, 1], [96, 16, 1]]},
            fusewright.ExecutionError,
            "uid 1: found 3 extents and 2 strides",
        ),
        ({"override_shapes": [[1, 6, 8], [1, 5, 16]]}, fusewright.MalformedGraph, "'y' .* required .1, 6, 16."),
    ],
)
def test_wrong_overrides_are_named(changed: dict[str, Any], error: type[Exception], message: str) -> None:
    graph = matmul()
    arguments = {**given(x=[1, 6, 8], y=[1, 6, 16]), **changed}
    with pytest.raises(error, match=message):
        graph.execute({UIDS[n]: a for n, a in arrays(6).items()}, **arguments)


def test_shapes_of_arrays_are_those_given() -> None:
    with pytest.raises(fusewright.ExecutionError, match=r"'y' .* shape \[1, 5, 16\]; required: shape \[1, 6, 16\]"):
        matmul().execute({UIDS[n]: a for n, a in arrays(5).items()}, **given(x=[1, 6, 8], y=[1, 6, 16]))


def test_a_graph_says_that_its_shapes_may_be_overridden() -> None:
    graph = matmul(is_override_shape_enabled=False)
    with pytest.raises(fusewright.ExecutionError, match=r"'layer' .*is_override_shape_enabled=True"):
        graph.execute({UIDS[n]: a for n, a in arrays(6).items()}, **given(x=[1, 6, 8], y=[1, 6, 16]))


def test_workspaces_are_those_of_the_shapes_given() -> None:
    graph = matmul()
    assert graph.get_workspace_size(**given(x=[1, 6, 8], y=[1, 6, 16])) == 0
    assert _shapes.overrides(None, None, None) == ()


def test_kernel_caches_are_taken_and_hold_nothing() -> None:
    cache = fusewright.create_kernel_cache()
    assert repr(cache) == "<fusewright.KernelCache>"
    graph = matmul(kernel_cache=cache, is_dynamic_shape_enabled=True)
    tensors = arrays(4)
    graph.execute({UIDS[n]: a for n, a in tensors.items()})
    check(tensors)
    with pytest.raises(TypeError, match="kernel_cache: found int"):
        matmul(kernel_cache=3)
