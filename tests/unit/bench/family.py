"""A process that starts children and burns CPU time as commanded on stdin, one command per line.

Run by test_process_tree.py.
"""

from __future__ import annotations

import subprocess
import sys
import time

BURNED = 0.3  # CPU-seconds of each burner by its own clock, independent of the load of the machine
SLEEP_S = 60.0  # longer than any test; the test kills the process


def burn() -> None:
    while time.process_time() < BURNED:
        pass


def start(role: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-IS", __file__, role], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)


def run_commands() -> None:
    parent: subprocess.Popen[bytes] | None = None
    for line in sys.stdin:
        match line.strip():
            case "burn":
                burn()
            case "child":
                start("burner").communicate()
            case "grandchild":
                parent = start("parent")
            case "orphan it":
                assert parent is not None
                parent.communicate()
        print("done", flush=True)


def main() -> None:
    match sys.argv[1:]:
        case ["burner"]:
            burn()
        case ["sleeper"]:
            burn()
            time.sleep(SLEEP_S)
        case ["parent"]:
            start("sleeper")
            sys.stdin.read()
        case _:
            run_commands()


if __name__ == "__main__":
    main()
