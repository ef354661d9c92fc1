"""Becomes another program that is killed when its starter dies: ``python tether.py STARTER_PID PROGRAM ARGUMENT…``.

A program of its own, because the system call must be made between fork and exec, where Python code of a process with
threads must not run. On systems without PR_SET_PDEATHSIG (macOS) the program is started without a tether.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Tie this process to its parent, check that the parent is still the starter, and become the program."""
    starter, program = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != starter:
        sys.exit("the process that started this one has exited")
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # shells ignore it for background jobs, and children inherit that
    os.execvp(program[0], program)


if __name__ == "__main__":
    main()
