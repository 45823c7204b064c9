"""Plans by engine and knobs, and by cuDNN's notes; keys of graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from test_plans import CPU, arrays, check, emulator, matmul

import fusewright
from fusewright import behavior_note, numerical_note

__all__ = ["emulator"]


def names(graph: fusewright.pygraph) -> list[str]:
    return [graph.get_plan_name_at_index(place) for place in range(graph.get_execution_plan_count())]


def test_a_plan_is_made_again_of_its_engine_and_knobs(emulator: fusewright.Session) -> None:
    tuned = matmul(emulator)
    tuned.create_execution_plans(["A", "FALLBACK"])
    for place in (0, 3, tuned.get_execution_plan_count() - 1):
        engine, knobs = tuned.get_engine_and_knobs_at_index(place)
        assert tuned.get_plan_name_at_index(place).startswith(f"{engine} ")
        graph = matmul(emulator)
        graph.create_execution_plan(engine, knobs)
        assert names(graph) == [tuned.get_plan_name_at_index(place)]
        tensors = arrays()
        graph.build_plans()
        graph.execute(tensors)
        check(tensors)


def test_a_plan_is_appended_to_those_that_are_listed(emulator: fusewright.Session) -> None:
    graph = matmul(emulator)
    graph.create_execution_plans(["B"])
    listed = names(graph)
    graph.select_plan(0)
    engine, knobs = graph.get_engine_and_knobs_at_index(1)
    assert (
        graph.create_execution_plan(engine, knobs).create_execution_plan(engine, dict(reversed(knobs.items()))) is graph
    )
    assert names(graph) == [*listed, listed[1], listed[1]]
    graph.build_plan_at_index(len(listed))
    graph.create_execution_plans(["B"])
    assert names(graph) == listed


def test_a_plan_that_no_engine_offers_is_refused(emulator: fusewright.Session) -> None:
    graph = matmul(emulator)
    message = "graph 'mm' has no plan 'warp_mma tile_m=7'"
    with pytest.raises(fusewright.NotSupported, match=message):
        graph.create_execution_plan("warp_mma", {"tile_m": 7})
    # and nothing of it stays
    graph.create_execution_plans(["B"])
    listed = names(graph)
    with pytest.raises(fusewright.NotSupported, match=message):
        graph.create_execution_plan("warp_mma", {"tile_m": 7})
    assert names(graph) == listed
    with pytest.raises(TypeError, match="engine_id: found int; required: an engine's name"):
        graph.create_execution_plan(3, {})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"knobs: .*required: integers"):
        graph.create_execution_plan("warp_mma", {"tile_m": "7"})  # type: ignore[dict-item]


def test_a_plan_of_the_cpu_has_no_knobs() -> None:
    graph = matmul()
    assert graph.get_engine_and_knobs_at_index(0) == ("cpu", {})
    replayed = matmul().create_execution_plan("cpu")
    tensors = arrays()
    replayed.execute(tensors)
    check(tensors)


def test_plans_have_notes(emulator: fusewright.Session) -> None:
    graph = matmul(emulator)
    every = [behavior_note.RUNTIME_COMPILATION, behavior_note.SUPPORTS_CUDA_GRAPH_NATIVE_API]
    assert graph.get_behavior_notes() == graph.get_behavior_notes_for_plan_at_index(1) == every
    assert (matmul().get_behavior_notes(), matmul().get_behavior_notes_for_plan_at_index(0)) == ([], [])
    (first, *_) = emulator.configs(matmul().finalize())
    assert first.numeric_notes == ["TENSOR_CORE"]


def test_plans_are_left_out_by_notes(emulator: fusewright.Session) -> None:
    def kept(change: Callable[[fusewright.pygraph], Any]) -> bool:
        graph = matmul(emulator)
        change(graph)
        try:
            graph.check_support()
        except fusewright.NotSupported as refused:
            assert "_notes(['" in str(refused)
            return False
        return True

    tensor_core, compiled = [numerical_note.TENSOR_CORE], ["RUNTIME_COMPILATION"]
    assert kept(lambda graph: graph.select_numeric_notes(tensor_core))
    assert not kept(lambda graph: graph.deselect_numeric_notes(tensor_core))
    assert kept(lambda graph: graph.deselect_numeric_notes(["FFT", "WINOGRAD"]))
    assert not kept(lambda graph: graph.select_numeric_notes([*tensor_core, "FFT"]))
    assert kept(lambda graph: graph.select_behavior_notes(compiled))
    assert not kept(lambda graph: graph.deselect_behavior_notes(["CUBLASLT_DEPENDENCY", *compiled]))
    with pytest.raises(fusewright.NotSupported, match="select_numeric_notes"):
        matmul().select_numeric_notes(tensor_core).check_support()
    matmul().deselect_numeric_notes(tensor_core).check_support()


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda graph: graph.select_numeric_notes(["FAST"]), fusewright.MalformedGraph, "FAST"),
        (lambda graph: graph.deselect_behavior_notes("FFT"), TypeError, "required: a list of behavior_notes"),
        (lambda graph: graph.select_behavior_notes([numerical_note.FFT]), fusewright.MalformedGraph, "FFT"),
        (lambda graph: graph.get_engine_and_knobs_at_index(9), fusewright.ExecutionError, "index 9; required: 0 to 0"),
    ],
)
def test_wrong_notes_and_places_are_named(call: Callable[[Any], Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call(matmul(CPU))


def test_keys_are_of_what_graphs_compute() -> None:
    assert isinstance(matmul().key(), int)
    assert matmul().key() == matmul().key() != matmul(rows=65).key()
