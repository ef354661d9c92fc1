"""``make outage-quiz``: five outages at random; each is to be explained from ``mm2 status`` alone, within a minute.

On a terminal it asks for the number of the outage and ends with the score. Otherwise it writes what was shown to
build/outages/1.txt and so on, and the solution to build/outages/solution.txt.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import time
from collections.abc import Sequence

from tests.faults.fault_times import pass_time
from tests.faults.outages.rows import ROWS, Row
from tests.faults.outages.stage import Stage, outage_stage
from tests.lab.commands import ROOT, run

OUTAGES = 5
SHOWN_AFTER = 35.0  # seconds: when everything is shown
FILES = ROOT / "build" / "outages"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the quiz. Return 0 if every outage was explained, or was written to a file."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.outages.quiz", description=__doc__)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10_000, help="draws the same outages again")
    options = parser.parse_args(arguments)
    drawn = random.Random(options.seed).sample(
        [row for row in ROWS if row.moments[-1] > SHOWN_AFTER and not row.on_spark_cluster], OUTAGES
    )
    asks = sys.stdin.isatty()
    shutil.rmtree(FILES, ignore_errors=True)
    FILES.mkdir(parents=True)
    right = 0
    with outage_stage() as stage:
        for number, row in enumerate(drawn, start=1):
            print(f"outage {number} of {OUTAGES}", file=sys.stderr, flush=True)
            text = _status(stage, row)
            (FILES / f"{number}.txt").write_text(text, encoding="utf-8")
            right += _answered(text, row) if asks else 1
    (FILES / "solution.txt").write_text("\n".join(row.name for row in drawn) + "\n", encoding="utf-8")
    print(f"seed {options.seed}: " + (f"{right} of {OUTAGES} explained" if asks else f"see {FILES}"))
    return 0 if right == OUTAGES else 1


def _status(stage: Stage, row: Row) -> str:
    """Return what ``mm2 status`` prints during an outage."""
    stage.wait_shared()
    with row.fault(stage):
        pass_time(SHOWN_AFTER)
        nodes = stage.running() or list(stage.nodes.by_name.values())
        shown = run("mm2", "status", str(nodes[0].file))
    return shown.stdout + shown.stderr


def _answered(text: str, row: Row) -> bool:
    names = [one.name for one in ROWS]
    print(text, *(f"{number:3} {name}" for number, name in enumerate(names, start=1)), sep="\n")
    began = time.monotonic()
    answer = input("which outage is it? ").strip()
    seconds = time.monotonic() - began
    correct = answer.isdecimal() and 1 <= int(answer) <= len(names) and names[int(answer) - 1] == row.name
    print(f"{'right' if correct else f'no: {row.name}'}, after {seconds:.0f} s\n")
    return correct and seconds <= 60.0


if __name__ == "__main__":
    sys.exit(main())
