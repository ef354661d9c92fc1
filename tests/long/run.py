"""A run of parts: what is left of them, one pytest for each, and the summary of all that is known."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.lab.commands import ROOT
from tests.long.journal import FAILED, PASSED, SKIPPED, Journal, Result
from tests.long.parts import Part, part_of

PYTEST = (sys.executable, "-m", "pytest", "-p", "tests.long.plugin", "--long")
TWO_PROCESSES = ("-n", "2", "--maxschedchunk", "1")  # these tests use one core each; none wait when time is over
ENDS_WITHIN = 180.0  # seconds after Ctrl-C: pytest stops brokers and nodes first
NOT_RUN = "not run"
COLUMNS = (PASSED, FAILED, SKIPPED, NOT_RUN)
MOST_SHOWN = 20  # failures, or tests that have not run, of one summary
ORDINARY_EXITS = (0, 1, 2)  # of pytest: passed, failed, interrupted; others are its own failure


class CollectionFailedError(Exception):
    """pytest could not list the tests; the message is its output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The tests of the selected parts, by the part's name and in the order of the parts."""

    tests: Mapping[str, Sequence[str]]

    def left(self, part: str, results: Mapping[str, Result]) -> list[str]:
        """Return the tests of a part that have not passed."""
        return [test for test in self.tests[part] if test not in results or results[test].outcome != PASSED]

    @property
    def all_tests(self) -> list[str]:
        return [test for tests in self.tests.values() for test in tests]


def collect(parts: Sequence[Part], *, short_ones: bool) -> Plan:
    """List the tests of these parts. ``short_ones``: those that are not marked long, too.

    Raises CollectionFailedError.
    """
    paths = [path for path in dict.fromkeys(part.path for part in parts) if not _inside(path, parts)]
    print(f"collecting {' '.join(paths)}", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "collected.json"
        command = [*PYTEST, "--collect-only", "-qq", "--list-to", str(file), *paths]
        ended = subprocess.run(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        if ended.returncode or not file.exists():
            errors = [line for line in ended.stdout.splitlines() if "::" not in line or "rror" in line]
            raise CollectionFailedError("\n".join(errors))
        return plan(parts, json.loads(file.read_text("utf-8")), short_ones=short_ones)


def _inside(path: str, parts: Sequence[Part]) -> bool:
    return any(path.startswith(f"{part.path}/") for part in parts)


def plan(parts: Sequence[Part], collected: Sequence[tuple[str, bool]], *, short_ones: bool) -> Plan:
    """Assign collected tests, each with whether it is marked long, to these parts; parts without tests are left out."""
    tests: dict[str, list[str]] = {part.name: [] for part in parts}
    for test, is_long in collected:
        part = part_of(test)
        if part.name in tests and (is_long or short_ones or part.short_ones):
            tests[part.name].append(test)
    return Plan(tests={name: found for name, found in tests.items() if found})


class Run:
    """Runs what is left of a plan at one commit, part by part. After ``minutes`` a part starts no further test."""

    def __init__(self, plan: Plan, journal: Journal, commit: str, minutes: float | None) -> None:
        self._plan = plan
        self._journal = journal
        self._commit = commit
        self._minutes = minutes
        self.problems: list[str] = []

    def run(self, parts: Sequence[Part]) -> None:
        """Run the parts one after the other. Raises KeyboardInterrupt when pytest has ended after Ctrl-C."""
        for part in parts:
            if part.name not in self._plan.tests:
                continue
            left = self._plan.left(part.name, self._journal.latest(self._commit))
            total = len(self._plan.tests[part.name])
            print(f"{part.name}: {len(left)} of {total} tests to run", flush=True)
            if left:
                self._run_part(part, left)

    def _run_part(self, part: Part, tests: Sequence[str]) -> None:
        with tempfile.TemporaryDirectory() as directory:
            listed = Path(directory) / "listed.json"
            listed.write_text(json.dumps(tests), encoding="utf-8")
            files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
            command = [*PYTEST, "--listed", str(listed), "--commit", self._commit, *files]
            command += TWO_PROCESSES if part.spread else ()
            command += ("-s",) if part.shown else ()
            command += ("--until", str(time.time() + 60 * self._minutes)) if self._minutes is not None else ()
            code = _call(command, {"MM2_HYPOTHESIS": "explore"} if part.spread else {})
        if code not in ORDINARY_EXITS:
            self.problems.append(f"{part.name}: pytest exited with {code}")


def _call(command: Sequence[str], env: Mapping[str, str]) -> int:
    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, **env})
    try:
        return process.wait()
    except KeyboardInterrupt:  # pytest got it as well
        try:
            process.wait(ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            process.kill()
        raise


def outcome(test: str, results: Mapping[str, Result]) -> str:
    """Return the outcome of a test, or that it has not run."""
    return results[test].outcome if test in results else NOT_RUN


def complete(plan: Plan, results: Mapping[str, Result]) -> bool:
    """Return whether every test has run and none has failed."""
    return not {outcome(test, results) for test in plan.all_tests} & {FAILED, NOT_RUN}


def summary(plan: Plan, results: Mapping[str, Result], commit: str) -> Iterator[str]:
    """Yield the summary: a table with a row for each part, the failures, and the first tests that have not run."""
    rows = [(name, [outcome(test, results) for test in tests]) for name, tests in plan.tests.items()]
    rows.append(("total", [outcome(test, results) for test in plan.all_tests]))
    width = max(len(name) for name, _ in rows)
    yield f"{'part':{width}}  {'  '.join(f'{column:>7}' for column in COLUMNS)}  minutes"
    for name, outcomes in rows:
        tests = plan.all_tests if name == "total" else plan.tests[name]
        minutes = sum(results[test].seconds for test in tests if test in results) / 60
        yield f"{name:{width}}  {'  '.join(f'{outcomes.count(column):>7}' for column in COLUMNS)}  {minutes:7.1f}"
    failed = [test for test in plan.all_tests if outcome(test, results) == FAILED]
    yield from _first("failed", [f"{test}: {results[test].reason}" for test in failed])
    yield from _first(NOT_RUN, [test for test in plan.all_tests if outcome(test, results) == NOT_RUN])
    yield f"results of commit {commit}; the same command continues, with FRESH=1 it runs again what has passed"


def _first(title: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield f"{title}:"
        yield from (f"  {line}" for line in lines[:MOST_SHOWN])
    if len(lines) > MOST_SHOWN:
        yield f"  and {len(lines) - MOST_SHOWN} more"
