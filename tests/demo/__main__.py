"""``python -m tests.demo``: until Ctrl-C, or for DEMO_SECONDS seconds after the node is up (contract: Commands).

With DEMO_SECONDS the exit code is 0 only if records were replicated, and the copies are those records.
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

SEED = 20_26  # the same shop every time


def main() -> int:
    """Run the demo and return its exit code."""
    screen = Screen(Console(highlight=False))
    try:
        seconds = _seconds(os.environ.get("DEMO_SECONDS", ""))
    except ValueError as problem:
        print(problem, file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, _as_interrupt)
    code = 1
    try:
        with Stage(screen, SEED) as stage:
            code = _play(screen, stage, seconds)
    except GaveUp as problem:
        screen.say(str(problem))
    except KeyboardInterrupt:
        code = 130
    if code == 1:
        scratch.keep_logs()
        screen.say(f"brokers and node are gone; their logs are in {scratch.run_directory()}")
    else:
        screen.say("brokers and node are gone, and their files")
    return code


def _play(screen: Screen, stage: Stage, seconds: float | None) -> int:
    stage.writer.start()
    end = None if seconds is None else time.monotonic() + seconds

    def go_on() -> bool:
        if not stage.node.process.running:
            raise GaveUp(f"the node ended\n{stage.node.process.report()}")
        return end is None or time.monotonic() < end

    interrupted = False
    try:
        screen.show(stage.links(), stage.picture, go_on)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        stage.writer.stop()
    return _finish(screen, stage, judged=not interrupted)


def _finish(screen: Screen, stage: Stage, *, judged: bool) -> int:
    right = True
    if judged:
        screen.say("writing has stopped; the rest is being copied")
        stage.wait_until_copied()
    code = stage.node.stop()
    screen.say(f"the node has drained, exit code {code}")
    if judged:
        copies = stage.judge()
        for one in copies:
            screen.say(f"{one.topic:<10}{one.written:>10,} written {one.copied:>10,} on B   {one.finding}")
        right = all(one.right for one in copies)
        screen.say("every record arrived as it was written" if right else "the copy is not right")
    return 0 if right and code == 0 else 1


def _seconds(text: str) -> float | None:
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1
    if not 0 < seconds < float("inf"):
        raise ValueError(f"DEMO_SECONDS={text}: give a number of seconds greater than 0, or leave it away")
    return seconds


def _as_interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
