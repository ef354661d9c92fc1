"""``python -m tests.demo``: until Ctrl-C, or for DEMO_SECONDS seconds after the nodes are up.

NODES=n runs n nodes on the flow. The output contains the command to kill one, and then shows its tasks move to the
other nodes and back.

SQL=1 masks card numbers in payments and drops payments of test orders with a query (`tests.demo.queried`), and shows
records before and after it.

With DEMO_SECONDS the exit code is 0 only if all records were replicated correctly.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from types import FrameType

from rich.console import Console

from tests.demo.screen import Screen
from tests.demo.stage import Stage
from tests.lab import scratch
from tests.lab.waiting import GaveUp

MOST_NODES = 5  # each has a JVM and two Python processes or more
SEED = 20_26  # the same records every time


def main() -> int:
    """Run the demo and return its exit code."""
    screen = Screen(Console(highlight=False))
    try:
        seconds = _seconds(os.environ.get("DEMO_SECONDS", ""))
        nodes = _nodes(os.environ.get("NODES", ""))
        sql = _sql(os.environ.get("SQL", ""))
    except ValueError as problem:
        print(problem, file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, _as_interrupt)
    code = 1
    try:
        with Stage(screen, SEED, nodes, sql=sql) as stage:
            code = _play(screen, stage, seconds)
    except GaveUp as problem:
        screen.say(str(problem))
    except KeyboardInterrupt:
        code = 130
    if code == 1:
        scratch.keep_logs()
        screen.say(f"brokers and nodes were stopped; their logs are in {scratch.run_directory()}")
    else:
        screen.say("brokers and nodes were stopped, and their files deleted")
    return code


def _play(screen: Screen, stage: Stage, seconds: float | None) -> int:
    stage.writer.start()
    end = None if seconds is None else time.monotonic() + seconds

    def continues() -> bool:
        if not stage.nodes.keep():
            raise GaveUp("\n".join(f"{node.name} ended\n{node.process.report()}" for node in stage.nodes.nodes))
        return end is None or time.monotonic() < end

    interrupted = False
    try:
        screen.show(stage.links(), stage.picture, continues)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        stage.writer.stop()
    return _finish(screen, stage, judged=not interrupted)


def _finish(screen: Screen, stage: Stage, *, judged: bool) -> int:
    right = True
    if judged:
        screen.say("the writer has stopped; waiting until the last records are replicated")
        stage.wait_until_copied()
    code = 0
    for node, ended in stage.nodes.stop():
        screen.say(f"{node.name} drained, exit code {ended}")
        code = code or ended
    if judged:
        copies = stage.judge()
        for one in copies:
            screen.say(f"{one.topic:<10}{one.written:>10,} written {one.copied:>10,} on B   {one.finding}")
        right = all(one.right for one in copies)
        repeats = ", some of them twice because a node was killed" if stage.nodes.killed else ""
        screen.say(
            f"every record arrived as it was written{', or as the query changes it' if stage.sql else ''}{repeats}"
            if right
            else "the copies differ from the originals"
        )
    return 0 if right and code == 0 else 1


def _seconds(text: str) -> float | None:
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1
    if not 0 < seconds < float("inf"):
        raise ValueError(f"DEMO_SECONDS={text}: must be a number of seconds greater than 0, or empty")
    return seconds


def _nodes(text: str) -> int:
    if not text:
        return 1
    if not (text.isdecimal() and 1 <= int(text) <= MOST_NODES):
        raise ValueError(f"NODES={text}: must be a number of nodes from 1 to {MOST_NODES}, or empty")
    return int(text)


def _sql(text: str) -> bool:
    if text not in ("", "0", "1"):
        raise ValueError(f"SQL={text}: must be 1, for payments with a query, or empty")
    return text == "1"


def _as_interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
