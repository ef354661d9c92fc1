"""``python -m tests.bench.quick``: plain flows of this tree beside another build, or beside Java, in a few minutes.

Three pairs of runs in alternating order, on the same brokers and the same backlog, each run with a stream at the end.
Exits with 0, with 1 if this tree is more than 30 % worse than the other build or a run failed, with 2 after a wrong
argument, and with 130 after Ctrl-C. Beside Java, no ratio makes it fail.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from confluent_kafka import KafkaException
from rich.console import Console
from rich.table import Table

from tests.bench.copying import copy_backlog, read_source
from tests.bench.digests import Digests
from tests.bench.facts import commit_of
from tests.bench.latency import measure_latency
from tests.bench.plan import two_brokers
from tests.bench.results import Copy, Latency
from tests.bench.rows import disturbed, known
from tests.bench.screen import Screen
from tests.bench.tables import NONE
from tests.bench.tools import JAVA, OURS, Tool
from tests.bench.workloads import WARM_UP, WORKLOADS, write_backlog
from tests.lab import scratch
from tests.lab.cluster import KafkaCluster
from tests.lab.commands import ROOT
from tests.lab.waiting import GaveUp

PAIRS = 3
STREAM_SCALE = 1 / 4  # of the stream of `latency`: 15 s measured after 4 s of warm-up and a quarter of its backlog
WORSE = 0.3  # how much worse than the other build fails: with three short runs, smaller differences can be noise
ANSWERS_WITHIN = 60.0  # seconds for the other build's Python to import its mm2
WORKLOAD = replace(next(one for one in WORKLOADS if one.name == "large"), name="quick")


class ParentError(Exception):
    """The other build cannot run; the message says why, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure of each run. ``more_is_better``: otherwise less is."""

    title: str
    digits: int
    more_is_better: bool = False

    @property
    def limit(self) -> float:
        """The ratio to the other build beyond which this tree is too much worse."""
        return 1 - WORSE if self.more_is_better else 1 + WORSE

    def too_bad(self, ratio: float) -> bool:
        """Return whether a ratio, of this tree to the other build, is beyond the limit."""
        return ratio < self.limit if self.more_is_better else ratio > self.limit


CPU = Figure(title="CPU-s per GB of values", digits=2)
RATE = Figure(title="records/s", digits=0, more_is_better=True)
P99 = Figure(title="p99, ms", digits=1)
FIGURES = (CPU, RATE, P99)

Run = dict[Figure, float | None]  # None: the run was too short for the figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One figure over all pairs: medians of both sides, and the ratio of each pair of which both figures are known."""

    figure: Figure
    here: float | None
    other: float | None
    ratios: tuple[float, ...]

    @property
    def ratio(self) -> float | None:
        return median(self.ratios) if self.ratios else None

    @property
    def too_bad(self) -> bool:
        """Whether the median of the ratios is beyond the limit, or not known."""
        return self.ratio is None or self.figure.too_bad(self.ratio)


def compared(pairs: Sequence[tuple[Run, Run]]) -> tuple[Comparison, ...]:
    """Compare runs of this tree with those of the other build beside them."""

    def middle(runs: Sequence[Run], figure: Figure) -> float | None:
        values = [value for run in runs if (value := run[figure]) is not None]
        return median(values) if values else None

    return tuple(
        Comparison(
            figure=figure,
            here=middle([here for here, _ in pairs], figure),
            other=middle([other for _, other in pairs], figure),
            ratios=tuple(mine / its for here, other in pairs if (mine := here[figure]) and (its := other[figure])),
        )
        for figure in FIGURES
    )


def verdict(found: Sequence[Comparison], *, beside_build: bool) -> tuple[str, int]:
    """Return the last line and the exit code. Ratios count beside another build only."""
    if not beside_build:
        return "beside Java, no ratio fails: docs/explanation/benchmarks.md has the aims", 0
    worse = [one for one in found if one.too_bad]
    if worse:
        names = "; ".join(f"{one.figure.title}: ratio {_number(one.ratio, 2)}" for one in worse)
        return f"worse than the other build by more than {WORSE:.0%}, or not measured: {names}", 1
    return f"not worse than the other build by more than {WORSE:.0%}", 0


def other_build(path: Path) -> Tool:
    """Return the build in a checkout as a tool. Raises ParentError if it has no environment of its own."""
    if not (path / "mm2" / "__init__.py").is_file():
        raise ParentError(
            f"PARENT={path}: no checkout of mm2\nfix: git worktree add {path} COMMIT; make -C {path} setup"
        )
    python, command = (path / ".venv" / "bin" / name for name in ("python", "mm2"))
    fix = f"fix: make -C {path} setup"
    if not (python.exists() and command.exists()):
        raise ParentError(f"PARENT={path}: no environment in {path / '.venv'}\n{fix}")
    asked = [str(python), "-I", "-c", "import mm2; print(mm2.__file__)"]
    try:
        ended = subprocess.run(asked, capture_output=True, text=True, timeout=ANSWERS_WITHIN, check=False, cwd="/")
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise ParentError(f"PARENT={path}: {problem}\n{fix}") from None
    if ended.returncode:
        raise ParentError(f"PARENT={path}: its environment has no mm2: {ended.stderr.strip().splitlines()[-1]}\n{fix}")
    imported = Path(ended.stdout.strip()).resolve()
    if not imported.is_relative_to(path.resolve()):
        raise ParentError(f"PARENT={path}: its environment runs {imported.parents[1]}\n{fix}")
    program = str(command.absolute())
    return replace(
        OURS, name="parent", title=f"parent {commit_of(path)}", command=lambda file: (program, "run", str(file))
    )


def main() -> int:
    """Measure, print the comparison, and return the exit code."""
    screen = Screen(Console())
    try:
        other = other_build(parent) if (parent := _options().parse_args().parent) is not None else JAVA
    except ParentError as problem:
        print(problem, file=sys.stderr)
        return 2
    here = replace(OURS, title=f"this tree {commit_of(ROOT)}")
    try:
        pairs = _measure(here, other, screen)
    except (GaveUp, KafkaException) as problem:
        scratch.keep_logs()
        screen.say(f"a run failed: {problem}")
        return 1
    except KeyboardInterrupt:
        screen.say("stopped")
        return 130
    found = compared(pairs)
    screen.say(_table(here, other, found, beside_build=other is not JAVA))
    line, code = verdict(found, beside_build=other is not JAVA)
    screen.say(line)
    return code


def _measure(here: Tool, other: Tool, screen: Screen) -> list[tuple[Run, Run]]:
    """Return the figures of all pairs. Raises GaveUp or KafkaException if a run fails."""
    pairs: list[tuple[Run, Run]] = []
    with two_brokers() as (source, target):
        with screen.phase("writing the backlog", WORKLOAD.backlog.records) as report_progress:
            write_backlog(source, WORKLOAD.name, WORKLOAD.backlog, report_progress)
        with screen.phase("warming the target", WARM_UP.records) as report_progress:
            write_backlog(target, "warm-up", WARM_UP, report_progress)
        wanted = read_source(source, WORKLOAD.name, "reading the backlog", screen)
        for number in range(1, PAIRS + 1):
            pair = (here, other) if number % 2 else (other, here)
            found: dict[str, Run] = {}
            for tool in pair:
                screen.say(f"pair {number} of {PAIRS}: {tool.title}")
                found[tool.name] = _run(tool, number, source, target, wanted, screen)
            pairs.append((found[here.name], found[other.name]))
    return pairs


def _run(tool: Tool, number: int, source: KafkaCluster, target: KafkaCluster, wanted: Digests, screen: Screen) -> Run:
    run = replace(tool, name=f"{tool.name}-{number}")  # aliases, and so topics, of its own
    copy = copy_backlog(run, WORKLOAD, source, target, wanted, screen)
    for note in disturbed([run], {run.name: copy}):
        screen.say(note)
    return figures(copy, measure_latency(run, source, target, STREAM_SCALE, screen))


def figures(copy: Copy, latency: Latency) -> Run:
    """Return the figures of a run."""
    return {CPU: known(copy.cpu_per_value_gb), RATE: known(copy.records_per_second), P99: latency.p99_ms}


def _table(here: Tool, other: Tool, found: Sequence[Comparison], *, beside_build: bool) -> Table:
    table = Table(title=f"medians of {PAIRS} runs, ratios of the pairs", title_justify="left")
    for column, left in (("", True), (here.title, False), (other.title, False), ("ratio", False)):
        table.add_column(column, justify="left" if left else "right")
    table.add_column("min - max", justify="right")
    table.add_column("limit", justify="right")
    for one in found:
        table.add_row(*_cells(one, beside_build=beside_build))
    return table


def _cells(one: Comparison, *, beside_build: bool) -> Iterator[str]:
    sign = "≥" if one.figure.more_is_better else "≤"
    yield one.figure.title
    yield _number(one.here, one.figure.digits)
    yield _number(one.other, one.figure.digits)
    yield _number(one.ratio, 2)
    yield f"{min(one.ratios):.2f} - {max(one.ratios):.2f}" if one.ratios else NONE
    yield f"{sign} {one.figure.limit:.2f}" if beside_build else ""


def _number(value: float | None, digits: int) -> str:
    return NONE if value is None else f"{value:,.{digits}f}"


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.quick", description=(__doc__ or "").partition(": ")[2])
    parser.add_argument("--parent", type=Path, help="a checkout of another commit with its own .venv (default: Java)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
