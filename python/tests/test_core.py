"""Graphs, verdicts, sessions and plans from Python."""

from __future__ import annotations

import gc
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import matmul_relu_text

import fusewright

Make = Callable[..., fusewright.Graph]


def operands(rng: np.random.Generator, m: int = 16, n: int = 16, k: int = 32) -> tuple[np.ndarray, np.ndarray]:
    return rng.standard_normal((1, m, k), np.float32), rng.standard_normal((1, k, n), np.float32)


@pytest.fixture
def host(session: fusewright.Session) -> fusewright.Session:
    if session.device.startswith("cuda"):
        pytest.skip("tensors of NumPy are in host memory")
    return session


def test_a_graph_tells_its_outer_tensors(matmul_relu: Make) -> None:
    graph = matmul_relu((16, 8, 32), "HALF")
    assert [(t.uid, t.name, t.dim, t.data_type) for t in graph.inputs] == [
        (1, "a", [1, 16, 32], "HALF"),
        (2, "b", [1, 32, 8], "HALF"),
    ]
    assert [(t.uid, t.dim, t.stride) for t in graph.outputs] == [(4, [1, 16, 8], [128, 8, 1])]
    assert fusewright.Graph.from_json(graph.to_json()).key == graph.key
    assert graph.key != matmul_relu((16, 8, 64), "HALF").key


def test_a_verdict_names_engine_and_surface(matmul_relu: Make) -> None:
    verdict = matmul_relu().check("sm_90")
    assert verdict and verdict.supported and verdict.surface == "90" and verdict.engine
    assert json.loads(verdict.json)["status"] == "supported"
    assert "sm_90" in str(verdict)


def test_a_refusal_names_every_rule_and_what_helps(matmul_relu: Make) -> None:
    refused = matmul_relu((16, 16, 32), "DOUBLE")
    verdict = refused.check()
    assert not verdict and verdict.engine is None
    rules = {violation.rule for violation in verdict.violations}
    assert "S90-DTYPE-INPUT" in rules and rules <= {rule for rule, _ in fusewright.rules()}
    assert any("'a' (uid 1)" in violation.where for violation in verdict.violations)
    assert verdict.nearest and "instead of DOUBLE" in verdict.nearest[0]
    with pytest.raises(fusewright.NotSupported, match="DOUBLE") as caught:
        refused.source()
    assert {violation.rule for violation in caught.value.violations} == rules
    assert caught.value.nearest == verdict.nearest


def test_source_and_explanation_are_those_of_the_command(matmul_relu: Make) -> None:
    graph = matmul_relu((128, 128, 64), "HALF")
    assert "__global__" in graph.source("sm_90") and graph.source("sm_90") != graph.source("sm_80")
    explanation = graph.explain("sm_90")
    assert all(heading in explanation for heading in ("stages", "verdict", "engines"))
    assert 0 < graph.expected_seconds("sm_90") < 1e-3


def test_a_plan_computes_what_numpy_does(host: fusewright.Session, matmul_relu: Make) -> None:
    rng = np.random.default_rng(1)
    a, b = operands(rng)
    plan = host.plan(matmul_relu())
    (y,) = plan.run(a, b)
    assert (y.shape, y.strides, y.data_type) == ([1, 16, 16], [256, 16, 1], "FLOAT")
    # TF32 keeps 11 bits of each operand where the emulator multiplies as tensor cores do
    tolerance = 1e-5 if host.device == "cpu" else 2**-10 * 32
    np.testing.assert_allclose(np.from_dlpack(y), np.maximum(a @ b, 0), rtol=tolerance, atol=tolerance)


def test_the_emulator_runs_the_generated_kernel(matmul_relu: Make) -> None:
    try:
        emulator = fusewright.Session("emulator")
    except fusewright.EnvironmentFailure as error:
        pytest.skip(str(error))
    a, b = (x.astype(np.float16) for x in operands(np.random.default_rng(2)))
    graph = matmul_relu((16, 16, 32), "HALF")
    plan = emulator.plan(graph)
    assert plan.engine == graph.check().engine and plan.config
    want = np.maximum(a.astype(np.float32) @ b.astype(np.float32), 0)
    # half an ulp of HALF, and what sums of 32 products in FLOAT differ by in another order
    np.testing.assert_allclose(np.from_dlpack(plan.run(a, b)[0]), want, rtol=2**-11, atol=1e-5)


def test_host_tensors_may_have_any_strides(host: fusewright.Session, matmul_relu: Make) -> None:
    rng = np.random.default_rng(3)
    a, b = operands(rng)
    plan = host.plan(matmul_relu())
    want = np.from_dlpack(plan.run(a, b)[0])
    wide = np.zeros((1, 16, 64), np.float32)
    wide[..., ::2] = a
    turned = np.ascontiguousarray(b.transpose(0, 2, 1)).transpose(0, 2, 1)
    backwards = np.ascontiguousarray(a[:, ::-1])[:, ::-1]
    for other_a, other_b in ((wide[..., ::2], b), (a, turned), (backwards, b)):
        np.testing.assert_array_equal(np.from_dlpack(plan.run(other_a, other_b)[0]), want)


def test_read_only_inputs_are_taken(host: fusewright.Session, matmul_relu: Make) -> None:
    a, b = operands(np.random.default_rng(4))
    a.flags.writeable = False
    host.plan(matmul_relu()).run(a, b)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a, b: (a,), "found 1 tensors; required: 2"),
        (lambda a, b: (a, a), r"'b' \(uid 2\): found shape \[1, 16, 32\]; required: \[1, 32, 16\]"),
        (lambda a, b: (a, b.astype(np.float64)), r"'b' \(uid 2\): found DOUBLE; required: FLOAT"),
        (lambda a, b: (a.astype(np.complex64), b), r"'a' \(uid 1\): found .*; required: FLOAT"),
    ],
)
def test_tensors_that_do_not_fit_are_named(
    host: fusewright.Session, matmul_relu: Make, change: Callable[..., tuple[np.ndarray, ...]], message: str
) -> None:
    plan = host.plan(matmul_relu())
    with pytest.raises(fusewright.ExecutionError, match=message):
        plan.run(*change(*operands(np.random.default_rng(5))))


def test_what_is_no_tensor_is_a_type_error(host: fusewright.Session, matmul_relu: Make) -> None:
    with pytest.raises(
        TypeError, match="required: a tensor that exports DLPack or has __cuda_array_interface__; found: list"
    ):
        host.plan(matmul_relu()).run([1.0], [2.0])


def test_launch_is_for_a_gpu(host: fusewright.Session, matmul_relu: Make) -> None:
    with pytest.raises(fusewright.ExecutionError, match="not one of a GPU"):
        host.plan(matmul_relu()).launch([0, 0, 0], 0, 0)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: fusewright.Graph.from_json("{}"), fusewright.MalformedGraph, "no graph found"),
        (
            lambda: fusewright.Graph.from_json(matmul_relu_text().replace('"B": 2', '"B": 9')),
            fusewright.MalformedGraph,
            "9",
        ),
        (lambda: fusewright.loads("nothing"), fusewright.MalformedGraph, "no graph"),
        (lambda: fusewright.load("/no/such/file.json"), fusewright.MalformedGraph, "/no/such/file.json"),
        (lambda: fusewright.Session("gpu"), fusewright.InputError, "required: cpu, emulator or cuda:N"),
        (lambda: fusewright.Session("cuda:x"), fusewright.InputError, "cuda:x"),
        (lambda: fusewright.Graph.from_json(matmul_relu_text()).check("hopper"), fusewright.InputError, "hopper"),
    ],
)
def test_bad_input_is_named(call: Callable[[], object], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message) as caught:
        call()
    assert isinstance(caught.value, fusewright.FusewrightError) and isinstance(caught.value, ValueError)


def test_every_graph_of_a_text_is_read() -> None:
    text = f"[rank0] start\n[rank0] {matmul_relu_text()}\n{matmul_relu_text((8, 8, 8))}\n"
    assert [graph.outputs[0].dim for graph in fusewright.loads(text)] == [[1, 16, 16], [1, 8, 8]]


def test_outputs_outlive_plan_and_session(matmul_relu: Make) -> None:
    a, b = operands(np.random.default_rng(6))
    view = np.from_dlpack(fusewright.Session("cpu").plan(matmul_relu()).run(a, b)[0])
    want = view.copy()
    gc.collect()
    churn = [np.full(1000, np.nan) for _ in range(200)]
    np.testing.assert_array_equal(view, want)
    assert len(churn) == 200


def test_executions_do_not_leak(host: fusewright.Session, matmul_relu: Make) -> None:
    a, b = operands(np.random.default_rng(7))
    plan = host.plan(matmul_relu())

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    counts = sys.getrefcount(a), sys.getrefcount(b)
    for _ in range(50):
        np.from_dlpack(plan.run(a, b)[0])
        plan.run(a, b)[0].__dlpack__()
    before = resident()
    for _ in range(500):
        np.from_dlpack(plan.run(a, b)[0])
        plan.run(a, b)[0].__dlpack__()
    # each output has 1 KiB
    assert resident() - before < 500 << 10
    assert (sys.getrefcount(a), sys.getrefcount(b)) == counts


def test_threads_share_a_session(host: fusewright.Session, matmul_relu: Make) -> None:
    a, b = operands(np.random.default_rng(8))
    want = np.from_dlpack(host.plan(matmul_relu()).run(a, b)[0])
    are_equal: list[bool] = []

    def work() -> None:
        (y,) = host.plan(matmul_relu()).run(a, b)
        are_equal.append(np.array_equal(np.from_dlpack(y), want))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert are_equal == [True] * 8


def test_the_command_line_is_a_module(tmp_path: Path) -> None:
    file = tmp_path / "graph.json"
    file.write_text(matmul_relu_text((16, 16, 32), "DOUBLE"))

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "fusewright", *arguments], capture_output=True, text=True)

    refused = run("check", str(file))
    assert refused.returncode == 1 and "S90-DTYPE-INPUT" in refused.stdout
    assert run("--version").stdout.strip() == f"fusewright {fusewright.__version__}"
    unknown = run("chekc")
    assert unknown.returncode == 2 and "chekc" in unknown.stderr


@pytest.mark.skipif(shutil.which("nm") is None, reason="there is no nm")
def test_the_extension_exports_its_module_alone() -> None:
    library = Path(fusewright._core.__file__)
    listed = subprocess.run(["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True)
    if listed.returncode:
        pytest.skip(listed.stderr)
    assert [line.split()[-1] for line in listed.stdout.splitlines()] == ["PyInit__core"]
