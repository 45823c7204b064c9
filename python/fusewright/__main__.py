"""The command line: ``fusewright``, or ``python -m fusewright``."""

from __future__ import annotations

import signal
import sys

from ._core import run_command_line


def main() -> int:
    """Runs a command with the arguments of the process.

    Its exit code is 0, 1 (a graph was refused), 2 (bad input) or 3 (environment).
    """
    # As programs end that are no interpreters: at once, and silently where nobody reads on.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    return run_command_line(["fusewright", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
