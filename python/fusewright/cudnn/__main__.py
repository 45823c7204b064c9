"""Runs a program with fusewright before its cuDNN: ``python -m fusewright.cudnn [options] program.py [arguments]``."""

from __future__ import annotations

import argparse
import pathlib
import runpy
import sys

from .._errors import FusewrightError
from . import POLICIES, activate


def main(arguments: list[str] | None = None) -> int:
    """Runs a program, or a module, as ``python`` does, with the arguments of the process unless others are given."""
    parser = argparse.ArgumentParser(
        prog="python -m fusewright.cudnn", description="Runs a program with fusewright before its cuDNN."
    )
    parser.add_argument("--policy", choices=POLICIES, help="whose engines come first (tuned)")
    parser.add_argument("--trace", metavar="DIR", help="write every graph, and who took it, to this folder")
    parser.add_argument("--library", metavar="FILE", help="the real cuDNN, if not that of this environment")
    parser.add_argument("-m", dest="module", action="store_true", help="the program is a module, not a file")
    parser.add_argument("program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args(arguments)
    if not options.module and not pathlib.Path(options.program).exists():
        parser.error(f"there is no {options.program}")
    try:
        activate(options.policy, options.trace, options.library)
    except FusewrightError as error:
        print(f"fusewright.cudnn: {error}", file=sys.stderr)
        return 3
    sys.argv = [options.program, *options.arguments]
    if options.module:
        sys.path[0] = ""
        runpy.run_module(options.program, run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(pathlib.Path(options.program).resolve().parent)
        runpy.run_path(options.program, run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main())
