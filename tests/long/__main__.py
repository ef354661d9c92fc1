"""``python -m tests.long``: the tests that take minutes, in parts, from where the last run of the same commit stopped.

Results are stored in build/long. Exits with 0 if every selected test has passed or was skipped at this commit, with 1
if one failed or has not run, with 2 after a wrong argument, with 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.faults import fault_page
from tests.faults.fault_table import LEGEND, lines
from tests.long.journal import Journal, Result, tree_version
from tests.long.parts import PARTS, Part, UnknownPartError, selected
from tests.long.run import CollectionFailedError, Plan, Run, collect, complete, summary

MINUTES = 60.0  # of a part of `make test-long`
FAULTS = tuple(part for part in PARTS if part.name.startswith(("table-", "processes-")) or part.name == "faults")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """What a verb of the Makefile runs. ``minutes``: by default, of each part; None: no limit."""

    parts: tuple[Part, ...]
    short_ones: bool = False
    minutes: float | None = None


VERBS = {
    "test-long": Verb(parts=PARTS, minutes=MINUTES),
    "faults": Verb(parts=FAULTS, short_ones=True),
    "matrix": Verb(parts=selected(["matrix"])),
    "soak": Verb(parts=selected(["soak"])),
}


def main(arguments: Sequence[str] | None = None, journal: Journal | None = None) -> int:
    """Run a verb and print its summary. Return the exit code."""
    options = _options().parse_args(arguments)
    verb, journal = VERBS[options.verb], journal or Journal()
    try:
        parts = selected(options.part.split(), verb.parts)
        commit = tree_version()
        plan = collect(parts, short_ones=verb.short_ones)
    except (UnknownPartError, CollectionFailedError, RuntimeError) as problem:
        print(problem, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    if not plan.tests:
        print("no test of these parts is selected", file=sys.stderr)
        return 2
    if options.fresh:
        journal.forget(plan.all_tests, commit)
    minutes = options.minutes if options.minutes is not None else verb.minutes
    run, stopped = Run(plan, journal, commit, minutes), False
    try:
        run.run(parts)
    except KeyboardInterrupt:
        stopped = True
    results = journal.latest(commit)
    _show(plan, results, commit, run.problems)
    if options.page:
        _write_page([results[test] for test in plan.all_tests if test in results])
    if stopped:
        return 130
    return 0 if complete(plan, results) and not run.problems else 1


def _show(plan: Plan, results: Mapping[str, Result], commit: str, problems: Sequence[str]) -> None:
    rounds = fault_page.rounds_of(results[test] for test in plan.all_tests if test in results)
    if rounds:
        print(f"\nfaults: {LEGEND}", *lines(rounds), sep="\n")
    print("", *summary(plan, results, commit), *problems, sep="\n")


def _write_page(results: Sequence[Result]) -> None:
    cells = fault_page.measured(results)
    fault_page.PAGE.write_text(fault_page.merge(fault_page.PAGE.read_text("utf-8"), cells), encoding="utf-8")
    print(f"{len(cells)} cells written into docs/explanation/guarantees.md")


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.long", description=(__doc__ or "").partition(": ")[2])
    parser.add_argument("verb", choices=VERBS, help="which tests")
    parser.add_argument("--part", default="", help="names of parts, separated by blanks (default: all)")
    parser.add_argument("--fresh", action="store_true", help="also run tests that have passed at this commit")
    parser.add_argument("--minutes", type=float, help="after which a part starts no further test")
    parser.add_argument("--page", action="store_true", help="write the results into docs/explanation/guarantees.md")
    return parser


if __name__ == "__main__":
    sys.exit(main())
