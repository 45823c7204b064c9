"""What the tests share: the device they execute on, and graphs."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import fusewright


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--device", default="cpu", help="where graphs are executed: cpu, emulator or cuda:N")
    parser.addoption("--slow", action="store_true", help="also what takes a minute or more")
    parser.addoption("--seeds", type=int, default=60, help="random models for torch.compile")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: takes a minute or more; left out unless --slow is given")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--slow"):
        for item in items:
            if item.get_closest_marker("slow"):
                item.add_marker(pytest.mark.skip(reason="slow: --slow runs it"))


@pytest.fixture(scope="session")
def session(request: pytest.FixtureRequest) -> fusewright.Session:
    return fusewright.Session(request.config.getoption("--device"))


def matmul_relu_text(dim: tuple[int, int, int] = (16, 16, 32), data_type: str = "FLOAT") -> str:
    """relu(a b) of m by k and k by n, row-major, as JSON."""
    m, n, k = dim
    outer = {"data_type": data_type, "is_virtual": False}
    graph: dict[str, Any] = {
        "context": {
            "compute_data_type": "FLOAT",
            "intermediate_data_type": "FLOAT",
            "io_data_type": data_type,
            "name": "mm",
        },
        "json_version": "2.0",
        "nodes": [
            {"tag": "MATMUL", "name": "product", "inputs": {"A": 1, "B": 2}, "outputs": {"C": 3}, "padding_value": 0.0},
            {"tag": "POINTWISE", "mode": "RELU_FWD", "name": "relu", "inputs": {"IN_0": 3}, "outputs": {"OUT_0": 4}},
        ],
        "tensors": [
            {"uid": 1, "name": "a", "dim": [1, m, k], "stride": [m * k, k, 1], **outer},
            {"uid": 2, "name": "b", "dim": [1, k, n], "stride": [k * n, n, 1], **outer},
            {"uid": 3, "name": "c", "is_virtual": True, "data_type": "FLOAT"},
            {"uid": 4, "name": "y", **outer},
        ],
    }
    return json.dumps(graph)


@pytest.fixture
def matmul_relu() -> Callable[..., fusewright.Graph]:
    return lambda *arguments: fusewright.Graph.from_json(matmul_relu_text(*arguments))
