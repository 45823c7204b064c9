"""Lists of plans: by modes, by place, and without what is deselected."""

from __future__ import annotations

import re
from typing import Any

import numpy
import pytest

import fusewright

CPU = fusewright.Session("cpu")


def matmul(session: fusewright.Session = CPU, rows: int = 64, **keywords: Any) -> fusewright.pygraph:
    graph = fusewright.pygraph(
        name="mm",
        io_data_type="HALF",
        intermediate_data_type="FLOAT",
        compute_data_type="FLOAT",
        session=session,
        **keywords,
    )
    x = graph.tensor(name="x", dim=[1, rows, 512], stride=[rows * 512, 512, 1])
    w = graph.tensor(name="w", dim=[1, 512, 64], stride=[512 * 64, 64, 1])
    graph.matmul(x, w).set_output(True).set_name("y")
    return graph


def arrays(rows: int = 64) -> dict[str, numpy.ndarray[Any, Any]]:
    draw = numpy.random.default_rng(rows)
    x, w = (draw.integers(-2, 3, shape).astype(numpy.float16) for shape in ((1, rows, 512), (1, 512, 64)))
    return {"x": x, "w": w, "y": numpy.zeros((1, rows, 64), numpy.float16)}


def check(tensors: dict[str, numpy.ndarray[Any, Any]]) -> None:
    expected = tensors["x"].astype(numpy.float32) @ tensors["w"].astype(numpy.float32)
    numpy.testing.assert_array_equal(tensors["y"], expected.astype(numpy.float16))


@pytest.fixture(scope="module")
def emulator() -> fusewright.Session:
    try:
        return fusewright.Session("emulator")
    except fusewright.EnvironmentFailure as missing:
        pytest.skip(str(missing))


def test_the_cpu_engine_is_the_one_plan_of_a_session_on_the_cpu() -> None:
    graph = matmul()
    graph.create_execution_plans(["A", "FALLBACK"])
    assert graph.get_execution_plan_count() == 1
    assert graph.get_plan_name_at_index(0) == "cpu"
    graph.build_plan_at_index(0)
    tensors = arrays()
    graph.execute(tensors)
    check(tensors)
    (config,) = CPU.configs(graph.finalize())
    assert (config.engine, config.expected_seconds, config.workspace_bytes) == ("cpu", None, 0)


def test_modes_list_plans_once_in_their_order(emulator: fusewright.Session) -> None:
    def names(*modes: str) -> list[str]:
        graph = matmul(emulator)
        graph.create_execution_plans(modes)
        return [graph.get_plan_name_at_index(index) for index in range(graph.get_execution_plan_count())]

    best, worth, fallback = names("A"), names("B"), names("FALLBACK")
    assert best[0] == worth[0] == emulator.plan(matmul().finalize()).config
    assert set(worth) < set(best) and not set(best) & set(fallback)
    assert names("B", "A", "FALLBACK") == worth + [name for name in best if name not in worth] + fallback
    assert names("OPENSOURCE") == best
    times = [config.expected_seconds or 0.0 for config in emulator.configs(matmul().finalize())]
    assert times == sorted(times) and times[0] > 0


def test_plans_are_executed_by_their_place(emulator: fusewright.Session) -> None:
    graph = matmul(emulator)
    graph.create_execution_plans(["B", "FALLBACK"])
    last = graph.get_execution_plan_count() - 1
    for index in (0, last, 0):
        tensors = arrays()
        graph.execute_plan_at_index(tensors, index=index)
        check(tensors)
    graph.select_plan(last)
    tensors = arrays()
    graph.execute(tensors)
    check(tensors)
    assert graph._planned().config == graph.get_plan_name_at_index(last)
    assert graph._planned().engine != emulator.plan(graph.finalize()).engine


def test_all_plans_are_built_where_all_are_asked_for(emulator: fusewright.Session) -> None:
    graph = matmul(emulator)
    graph.create_execution_plans(["B"])
    graph.deselect_engines(["schedule=ping_pong", "tile_m=256"])
    graph.build_plans(fusewright.build_plan_policy.ALL)
    names = [graph.get_plan_name_at_index(index) for index in range(graph.get_execution_plan_count())]
    kept = [name for name in names if "ping_pong" not in name and "tile_m=256" not in name]
    assert sorted(graph._listed()._built) == sorted(kept) and 1 < len(kept) < len(names)
    assert graph._planned().config == kept[0]


def test_a_plan_that_fails_raises_when_it_is_asked_for(emulator: fusewright.Session, monkeypatch: Any) -> None:
    graph = matmul(emulator)
    graph.create_execution_plans(["B"])
    graph.deselect_engines(["schedule=ping_pong", "tile_m=256"])
    plans = graph._listed()
    kept = [place for place, config in enumerate(plans.configs) if plans._left_out_by(config) is None]
    names = [graph.get_plan_name_at_index(index) for index in kept]

    class Failing:
        def __init__(self, failing: list[str]) -> None:
            self.failing = failing

        def plan_with(self, config: Any) -> Any:
            if config.name in self.failing:
                raise fusewright.ExecutionError(f"no memory for {config.name}")
            return emulator.plan_with(config)

    monkeypatch.setattr(plans, "_session", Failing(names[:1]))
    graph.build_plans(fusewright.build_plan_policy.ALL)
    assert sorted(plans._built) == sorted(names[1:])
    assert graph._planned().config == names[1], "the first that was made is selected"
    graph.execute_plan_at_index(arrays(), index=kept[1])
    with pytest.raises(fusewright.ExecutionError, match="no memory"):
        graph.execute_plan_at_index(arrays(), index=kept[0])
    plans._built.clear()
    graph._select(None)
    monkeypatch.setattr(plans, "_session", Failing(names))
    with pytest.raises(fusewright.ExecutionError, match=re.escape(names[0])):
        graph.build_plans(fusewright.build_plan_policy.ALL)


def test_deselected_plans_keep_their_places_and_are_not_executed(emulator: fusewright.Session) -> None:
    graph = matmul(emulator)
    graph.create_execution_plans(["A", "FALLBACK"])
    count = graph.get_execution_plan_count()
    places = range(count)
    names = [graph.get_plan_name_at_index(index) for index in places]
    with_workspace = [index for index in places if graph.get_workspace_size_plan_at_index(index) > 0]
    assert 0 < len(with_workspace) < count, "parts of k take a workspace"
    graph.deselect_workspace_greater_than(0)
    assert [graph.get_plan_name_at_index(index) for index in places] == names
    for call in (
        graph.build_plan_at_index,
        graph.select_plan,
        lambda index: graph.execute_plan_at_index({}, index=index),
    ):
        with pytest.raises(fusewright.ExecutionError, match=r"is left out by deselect_workspace_greater_than\(0\)"):
            call(with_workspace[0])
    engine = names[0].split()[0]
    graph.deselect_engines([engine])
    tensors = arrays()
    graph.execute(tensors)
    check(tensors)
    left = next(index for index in places if index not in with_workspace and not names[index].startswith(engine))
    assert graph._planned().config == names[left]
    graph.create_execution_plans(["A"])
    with pytest.raises(fusewright.NotSupported, match=r"'mm' has no plan left: deselect_workspace_greater_than\(0\), "):
        graph.execute(arrays())


def test_plans_are_deselected_before_they_are_listed(emulator: fusewright.Session) -> None:
    first = emulator.plan(matmul().finalize()).config
    graph = matmul(emulator)
    graph.deselect_engines([first])
    graph.build()
    assert graph.get_plan_name_at_index(0) == first != graph._planned().config == graph.get_plan_name_at_index(1)
    unlisted = matmul(emulator)
    unlisted.deselect_engines([first])
    assert unlisted._planned().config == graph._planned().config


def test_a_graph_that_changes_has_other_plans() -> None:
    graph = matmul()
    graph.create_execution_plans(["A"])
    graph.execute_plan_at_index(arrays(), index=0)
    graph.tensor(name="z", dim=[1, 4, 8], stride=[32, 8, 1])
    assert graph._plans is None and not graph._bindings


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda g: g.get_plan_name_at_index(1),
            fusewright.ExecutionError,
            "get_plan_name_at_index: index 1; required: 0 to 0",
        ),
        (lambda g: g.execute_plan_at_index({}, index=-1), fusewright.ExecutionError, "index -1"),
        (lambda g: g.select_plan("first"), TypeError, "select_plan: index: found 'first'"),
        (lambda g: g.deselect_engines("cpu"), TypeError, "deselect_engines: found 'cpu'"),
        (lambda g: g.create_execution_plans([]), fusewright.InputError, "found none; required: a heur_mode"),
        (
            lambda g: CPU.configs(g.finalize(), "C"),
            fusewright.InputError,
            "mode: found 'C'; required: a heuristic mode",
        ),
    ],
)
def test_wrong_places_and_names_are_named(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(matmul())


def test_configs_of_another_device_are_refused(emulator: fusewright.Session) -> None:
    config = emulator.configs(matmul().finalize())[0]
    with pytest.raises(fusewright.InputError, match="another device's"):
        CPU.plan_with(config)
    assert repr(config) == f'Config("{config.name}")'
    assert config.graph.key == matmul().finalize().key


def test_plans_of_other_shapes_are_of_the_same_list(emulator: fusewright.Session) -> None:
    graph = matmul(emulator, is_override_shape_enabled=True)
    graph.create_execution_plans(["A", "FALLBACK"])
    first = graph.get_plan_name_at_index(0).split()[0]
    shapes = {
        "override_uids": [graph._uid_of(name) for name in ("x", "y")],
        "override_shapes": [[1, 40, 512], [1, 40, 64]],
        "override_strides": [[40 * 512, 512, 1], [40 * 64, 64, 1]],
    }

    def engine() -> str:
        tensors = arrays(40)
        graph.execute(tensors, **shapes)
        check(tensors)
        return next(reversed(graph._overridden.values())).plan.engine

    assert engine() == first
    last = graph.get_execution_plan_count() - 1
    assert graph.select_plan(last) is graph
    assert engine() == graph.get_plan_name_at_index(last).split()[0] != first
    assert graph.deselect_engines(name for name in [first]) is graph
    assert engine() != first
    graph.deselect_engines([""])
    with pytest.raises(fusewright.NotSupported, match="no plan left"):
        engine()


def test_a_plan_at_its_place_is_executed_in_other_shapes(emulator: fusewright.Session) -> None:
    graph = matmul(emulator, is_override_shape_enabled=True)
    graph.create_execution_plans(["A", "FALLBACK"])

    def shapes(rows: int) -> dict[str, Any]:
        return {
            "override_uids": [graph._uid_of(name) for name in ("x", "y")],
            "override_shapes": [[1, rows, 512], [1, rows, 64]],
            "override_strides": [[rows * 512, 512, 1], [rows * 64, 64, 1]],
        }

    last = graph.get_execution_plan_count() - 1
    for index, rows in ((0, 40), (last, 40), (0, 64), (last, 40)):
        tensors = arrays(rows)
        graph.execute_plan_at_index(tensors, index=index, **shapes(rows))
        check(tensors)
        assert next(reversed(graph._overridden.values())).plan.config == graph.get_plan_name_at_index(index)
        size = graph.get_workspace_size_plan_at_index(index, None, *shapes(rows).values())
        assert (size > 0) == ("split_k" in graph.get_plan_name_at_index(index))
    assert len(graph._overridden) == 3
    sizes = [graph.get_workspace_size_plan_at_index(index) for index in range(last + 1)]
    split = next(index for index, size in enumerate(sizes) if size > 0)
    graph.deselect_workspace_greater_than(sizes[split])
    graph.execute_plan_at_index(arrays(), index=split)
    with pytest.raises(fusewright.ExecutionError, match="is left out by deselect_workspace_greater_than"):
        graph.execute_plan_at_index(arrays(128), index=split, **shapes(128))
    names = [graph.get_plan_name_at_index(index) for index in range(last + 1)]
    other = matmul(emulator, rows=1)
    other.create_execution_plans(["A", "FALLBACK"])
    others = {other.get_plan_name_at_index(index) for index in range(other.get_execution_plan_count())}
    missing = next(index for index, name in enumerate(names) if name not in others)
    with pytest.raises(
        fusewright.ExecutionError, match=r"execute_plan_at_index: .* is no plan of graph 'mm' in the sh"
    ):
        graph.execute_plan_at_index(arrays(1), index=missing, **shapes(1))


def test_build_keeps_what_was_selected(emulator: fusewright.Session) -> None:
    graph = matmul(emulator)
    graph.create_execution_plans(["B", "FALLBACK"])
    last = graph.get_execution_plan_count() - 1
    graph.select_plan(numpy.int64(last))
    graph.build()
    assert graph._planned().config == graph.get_plan_name_at_index(last)


def attention(session: fusewright.Session, keys: int, depth: int) -> fusewright.pygraph:
    graph = fusewright.pygraph(
        io_data_type="HALF", intermediate_data_type="FLOAT", compute_data_type="FLOAT", session=session
    )
    shapes = {"q": (16, depth), "k": (keys, depth), "v": (keys, depth)}
    q, k, v = (
        graph.tensor(name=name, dim=[1, 2, rows, width], stride=[2 * rows * width, rows * width, width, 1])
        for name, (rows, width) in shapes.items()
    )
    o, _ = graph.sdpa(q, k, v, is_inference=True, attn_scale=0.125)
    assert o is not None
    o.set_output(True).set_name("o").set_dim([1, 2, 16, depth]).set_stride([32 * depth, 16 * depth, depth, 1])
    return graph


@pytest.mark.parametrize("is_read", [False, True])
@pytest.mark.parametrize("device", ["cpu", "emulator"])
@pytest.mark.parametrize(("keys", "depth"), [(48, 16), (32, 32)])
def test_keys_of_an_attention_are_given_as_they_are_stated(
    device: str, keys: int, depth: int, is_read: bool, emulator: fusewright.Session
) -> None:
    session = CPU if device == "cpu" else emulator
    graph = attention(session, keys, depth)
    if is_read:
        text = graph.serialize()
        graph = fusewright.pygraph(session=session)
        graph.deserialize(text)
        assert graph.serialize() == text
    draw = numpy.random.default_rng(keys)
    sizes = {"q": 16, "k": keys, "v": keys}
    tensors = {name: draw.standard_normal((1, 2, rows, depth)).astype(numpy.float16) for name, rows in sizes.items()}
    o = numpy.zeros((1, 2, 16, depth), numpy.float16)
    graph.execute({**tensors, "o": o})
    q, k, v = (tensors[name].astype(numpy.float32) for name in "qkv")
    scores = numpy.exp(q @ k.swapaxes(-1, -2) * 0.125)
    expected = scores / scores.sum(-1, keepdims=True) @ v
    numpy.testing.assert_allclose(o.astype(numpy.float32), expected, atol=4e-3)


def test_no_output_is_written_where_another_cannot_be() -> None:
    graph = fusewright.pygraph(io_data_type="FLOAT", compute_data_type="FLOAT", session=CPU)
    x = graph.tensor(name="x", dim=[4, 8], stride=[8, 1])
    a, b = graph.relu(x).set_output(True), graph.exp(x).set_output(True)
    ones, first = numpy.ones((4, 8), numpy.float32), numpy.full((4, 8), 7, numpy.float32)
    with pytest.raises(fusewright.ExecutionError, match="found DOUBLE"):
        graph.execute({x: ones, a: first, b: numpy.zeros((4, 8))})
    assert (first == 7).all()


def test_a_text_that_is_no_graph_leaves_the_graph_as_it_was() -> None:
    graph = matmul()
    with pytest.raises(fusewright.MalformedGraph):
        fresh = fusewright.pygraph(session=CPU)
        fresh.deserialize("garbage")
    assert fresh._text is None and fresh.to_json() != "garbage"
    logged = fusewright.pygraph(session=CPU)
    logged.deserialize("[cudnn_frontend] json:" + graph.serialize())
    with pytest.raises(fusewright.ExecutionError, match="another kind of text"):
        logged.execute(arrays(), override_uids=[1], override_shapes=[[1, 4, 512]], override_strides=[[2048, 512, 1]])


@pytest.mark.parametrize("number", [2.5, 2**40, -(2**31) - 1, float("nan"), float("inf")])
def test_scalars_of_whole_numbers_are_whole(number: float) -> None:
    graph = fusewright.pygraph(
        io_data_type="INT32", intermediate_data_type="INT32", compute_data_type="INT32", session=CPU
    )
    x = graph.tensor(name="x", dim=[4, 8], stride=[8, 1])
    d = graph.tensor(name="d", dim=[1, 1], stride=[1, 1], is_pass_by_value=True)
    y = graph.add(x, d).set_output(True)
    ones, out = numpy.ones((4, 8), numpy.int32), numpy.zeros((4, 8), numpy.int32)
    graph.execute({x: ones, d: 2.0, y: out})
    assert (out == 3).all()
    with pytest.raises(fusewright.ExecutionError, match=r"'d' .* required: a whole number of INT32"):
        graph.execute({x: ones, d: number, y: out})
