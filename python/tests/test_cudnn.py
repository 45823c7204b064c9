"""Activation before a real cuDNN, in whose place is a stand-in: what is found and refused, what a program sees."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import textwrap

import pytest

import fusewright
import fusewright.cudnn as cudnn

STAND_IN = """
typedef unsigned long size_t;
size_t cudnnGetVersion(void) { return 91900; }
int cudnnAddTensor(int a, double b) { return a == 7 && b == 0.5 ? 0 : 2000; }
void cudnnGetLastErrorString(char* text, size_t room) { if (room) *text = 0; }
#define F(name) int cudnn##name(void) { return 3000; }
F(Create) F(Destroy) F(SetStream) F(GetStream) F(BackendCreateDescriptor) F(BackendDestroyDescriptor)
F(BackendInitialize) F(BackendSetAttribute) F(BackendGetAttribute) F(BackendFinalize) F(BackendExecute)
"""


@pytest.fixture(scope="session")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    folder = tmp_path_factory.mktemp("real")
    (folder / "real.c").write_text(STAND_IN)
    library = folder / "libcudnn.so.9"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, folder / "real.c"], check=True)
    return library


@pytest.fixture
def built() -> pathlib.Path:
    """The wheel's library, which a development build lacks: FUSEWRIGHT_TEST_CUDNN names one for it."""
    library = pathlib.Path(os.environ.get("FUSEWRIGHT_TEST_CUDNN", cudnn._LIBRARY))
    if not library.is_file():
        pytest.skip("a development build has no shared library")
    return library


def run(text: str, library: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A program in a process of its own, as a process is activated once."""
    preamble = f"""
        import ctypes, os, pathlib, sys
        import fusewright, fusewright.cudnn as cudnn
        cudnn._LIBRARY = pathlib.Path({str(library)!r})
    """
    program = textwrap.dedent(preamble) + textwrap.dedent(text)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FUSEWRIGHT_CUDNN")}
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def passes(result: subprocess.CompletedProcess[str]) -> None:
    assert result.returncode == 0, result.stdout + result.stderr


def test_a_real_library_is_called_behind_ours(
    built: pathlib.Path, stand_in: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    text = """
        real, trace = map(pathlib.Path, sys.argv[1:])
        assert cudnn.activate("ours-first", trace, real) == real
        assert cudnn.activate() == real
        assert os.environ["FUSEWRIGHT_CUDNN_LIBRARY"] == str(real)
        assert (os.environ["FUSEWRIGHT_CUDNN"], os.environ["FUSEWRIGHT_CUDNN_TRACE"]) == ("ours-first", str(trace))
        assert os.environ["LD_LIBRARY_PATH"].split(":")[0] == str(cudnn._LIBRARY.parent)
        ours = ctypes.CDLL(str(cudnn._LIBRARY))
        assert ours.cudnnGetVersion() == 91900
        assert ours.cudnnAddTensor(7, ctypes.c_double(0.5)) == 0
        assert ours.cudnnCTCLoss() == 3000
        try:
            cudnn.activate("theirs-first")
        except fusewright.InputError as error:
            assert "already" in str(error)
        else:
            raise AssertionError("a process has one policy")
    """
    passes(run(text, built, str(stand_in), str(tmp_path / "trace")))


def test_it_is_refused_where_cudnn_is_loaded(built: pathlib.Path, stand_in: pathlib.Path) -> None:
    text = """
        ctypes.CDLL(sys.argv[1])
        try:
            cudnn.activate(library=sys.argv[1])
        except fusewright.EnvironmentFailure as error:
            assert sys.argv[1] in str(error) and "before" in str(error), error
        else:
            raise AssertionError("cuDNN was loaded")
    """
    passes(run(text, built, str(stand_in)))


def test_a_file_that_is_no_library_is_told(built: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "libcudnn.so.9").write_text("none")
    text = """
        try:
            cudnn.activate(library=sys.argv[1])
        except fusewright.EnvironmentFailure as error:
            assert sys.argv[1] in str(error), error
        else:
            raise AssertionError("it is no library")
    """
    result = run(text, built, str(tmp_path / "libcudnn.so.9"))
    passes(result)
    assert "going on without a real cuDNN" in result.stderr


def test_a_program_runs_unchanged(built: pathlib.Path, stand_in: pathlib.Path, tmp_path: pathlib.Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import ctypes, os, sys\n"
        "version = ctypes.CDLL('libcudnn.so.9').cudnnGetVersion()\n"
        "print(sys.argv[1:], __name__, version, os.environ['FUSEWRIGHT_CUDNN'])\n"
    )
    text = """
        from fusewright.cudnn.__main__ import main
        sys.exit(main(["--policy", "theirs-first", "--library", *sys.argv[1:]]))
    """
    result = run(text, built, str(stand_in), str(program), "--policy", "x")
    passes(result)
    assert result.stdout == "['--policy', 'x'] __main__ 91900 theirs-first\n"


def test_arguments_are_checked(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    with pytest.raises(fusewright.InputError, match="tuned, ours-first, theirs-first; found: 'fastest'"):
        cudnn.activate("fastest")
    monkeypatch.setattr(cudnn, "_LIBRARY", tmp_path / "libcudnn.so.9")
    with pytest.raises(fusewright.EnvironmentFailure, match="development build"):
        cudnn.activate()
    (tmp_path / "libcudnn.so.9").write_text("")
    with pytest.raises(fusewright.InputError, match="there is no file"):
        cudnn._real_library(tmp_path / "absent")
    with pytest.raises(fusewright.InputError, match="is fusewright's"):
        cudnn._real_library(tmp_path / "libcudnn.so.9")


def test_a_program_that_is_not_there_is_told(tmp_path: pathlib.Path) -> None:
    command = [sys.executable, "-m", "fusewright.cudnn", str(tmp_path / "program.py")]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 2 and f"there is no {tmp_path / 'program.py'}" in result.stderr


def test_the_environments_own_library_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    monkeypatch.delenv("FUSEWRIGHT_CUDNN_LIBRARY", raising=False)
    places = [tmp_path / name for name in ("nvidia", "torch")]
    monkeypatch.setattr(cudnn, "_places", lambda: places)
    assert cudnn._real_library(None) is None
    for place in reversed(places):
        place.mkdir()
        (place / "libcudnn.so.9").write_text("")
        assert cudnn._real_library(None) == place / "libcudnn.so.9"
    monkeypatch.setenv("FUSEWRIGHT_CUDNN_LIBRARY", str(tmp_path / "torch" / "libcudnn.so.9"))
    assert cudnn._real_library(None) == tmp_path / "torch" / "libcudnn.so.9"
