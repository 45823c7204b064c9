"""What the wheel holds beside its modules, and what it does without."""

from __future__ import annotations

import importlib.metadata
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

import fusewright

DISTRIBUTION = importlib.metadata.distribution("fusewright")


def licence(name: str) -> str:
    files = [file for file in DISTRIBUTION.files or () if file.parts[-2:] == ("licenses", name)]
    assert len(files) == 1, f"{name}: {files}"
    return files[0].read_text(encoding="utf-8")


def test_the_licences_are_named_and_there() -> None:
    names = DISTRIBUTION.metadata.get_all("License-File") or []
    assert {"LICENSE-APACHE", "LICENSE-MIT", "LICENSE-CRATES.txt"} <= set(names)
    assert all(licence(name) for name in names)
    assert DISTRIBUTION.metadata["License-Expression"] == "MIT OR Apache-2.0"


def test_every_crate_in_the_library_has_its_licence() -> None:
    # paths of sources in messages of panics
    library = pathlib.Path(fusewright._core.__file__).read_bytes()
    linked = re.findall(rb"/registry/src/[^/\0]+/([A-Za-z0-9_-]+)-(\d+\.\d+\.\d+[^/\0]*)/", library)
    if not linked:
        pytest.skip("the library names no sources")
    text = licence("LICENSE-CRATES.txt")
    names = {f"{crate.decode()} {version.decode()}" for crate, version in linked}
    assert not {name for name in names if f"\n{name}\n" not in text}


def test_nothing_else_is_needed() -> None:
    text = """
import sys
sys.modules["numpy"] = sys.modules["torch"] = None
before = set(sys.modules)
import fusewright, fusewright.cudnn, fusewright.__main__
graph = fusewright.pygraph(io_data_type="FLOAT", intermediate_data_type="FLOAT", compute_data_type="FLOAT")
x = graph.tensor(name="x", dim=[1, 8, 8], stride=[64, 8, 1])
graph.relu(graph.matmul(x, x)).set_output(True)
assert graph.check("sm_90") and "stages" in graph.explain("sm_90")
fusewright.Session("cpu").plan(graph.finalize())
print(*{name.partition(".")[0] for name in set(sys.modules) - before} - sys.stdlib_module_names)
"""
    result = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (0, "fusewright\n"), result.stdout + result.stderr


def test_sources_that_were_not_built_say_so(tmp_path: pathlib.Path) -> None:
    package = pathlib.Path(fusewright.__file__).parent
    shutil.copytree(package, tmp_path / "fusewright", ignore=shutil.ignore_patterns("_core*.so", "__pycache__"))
    result = subprocess.run([sys.executable, "-c", "import fusewright"], cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 1
    assert f"ImportError: {tmp_path / 'fusewright'} holds the sources" in result.stderr
