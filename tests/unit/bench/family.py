"""A process that starts children and burns CPU time as it is told, a word a line; run by test_process_tree.py."""

from __future__ import annotations

import subprocess
import sys
import time

BURNED = 0.3  # CPU-seconds of each burner in its whole life, by its own clock: however busy the machine is
STAYS = 60.0  # seconds: longer than any test, which kills it


def burn() -> None:
    while time.process_time() < BURNED:
        pass


def start(role: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-IS", __file__, role], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)


def obey() -> None:
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
        case ["stayer"]:
            burn()
            time.sleep(STAYS)
        case ["parent"]:
            start("stayer")
            sys.stdin.read()
        case _:
            obey()


if __name__ == "__main__":
    main()
