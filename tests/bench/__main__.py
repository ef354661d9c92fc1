"""``python -m tests.bench``: compare mm2 with Java's MirrorMaker 2, on the same brokers in one run.

docs/explanation/benchmarks.md has the results. Benchmarks without a counterpart in Java run afterwards, each in its
own process."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from tests.bench.comparison import sections
from tests.bench.facts import gather
from tests.bench.plan import NAMES, Benchmark, Plan
from tests.bench.results import Results
from tests.bench.screen import Screen
from tests.bench.tables import as_markdown, on_screen, write_block
from tests.lab.commands import ROOT

PAGE = ROOT / "docs/explanation/benchmarks.md"
OUT = ROOT / "build" / "bench.json"
ALONE = ("discovery", "assignment", "idle")  # modules of this package


def main() -> int:
    """Run the selected benchmarks. Return 0 if no tool failed, 1 if one did, 130 after Ctrl-C."""
    options = _options().parse_args()
    alone = [name for name in ALONE if name in options.only]
    code = 0 if set(options.only) <= set(ALONE) else _beside_java(options)
    if code == 0:
        commands = ([sys.executable, "-m", f"tests.bench.{name}"] for name in alone)
        code = max((subprocess.run(command, check=False).returncode for command in commands), default=0)
    return code


def _beside_java(options: argparse.Namespace) -> int:
    plan = Plan(names=tuple(name for name in NAMES if name in options.only), scale=options.scale)
    screen = Screen(Console())
    try:
        results = Benchmark(plan, screen).run(gather(_command(plan)))
    except KeyboardInterrupt:
        screen.say("stopped; no results saved")
        return 130
    for item in on_screen(sections(results)):
        screen.say(item)
    _save(results, options.out)
    screen.say(f"saved: {options.out}")
    if options.write_docs and results.failures:
        screen.say("docs/explanation/benchmarks.md not updated: a run failed")
    elif options.write_docs:
        write_block(PAGE, as_markdown(results.facts, sections(results)))
        screen.say(f"written: {PAGE.relative_to(ROOT)}")
    return 1 if results.failures else 0


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=(__doc__ or "").partition(": ")[2])
    parser.add_argument(
        "--only", nargs="+", choices=(*NAMES, *ALONE), default=(*NAMES, *ALONE), help="run only these benchmarks"
    )
    parser.add_argument(
        "--scale", type=_scale, default=1.0, help="fraction of records and seconds, such as 0.01 for a quick run"
    )
    parser.add_argument("--out", type=Path, default=OUT, help="JSON file for the results (default: build/bench.json)")
    parser.add_argument("--write-docs", action="store_true", help="also update docs/explanation/benchmarks.md")
    return parser


def _scale(text: str) -> float:
    number = float(text)
    if number <= 0:
        raise argparse.ArgumentTypeError("must be greater than 0")
    return number


def _command(plan: Plan) -> str:
    """Return the command line that repeats this run."""
    words = [".venv/bin/python -m tests.bench"]
    if plan.names != NAMES:
        words += ["--only", *plan.names]
    if plan.scale != 1.0:
        words += ["--scale", f"{plan.scale:g}"]
    return " ".join(words)


def _save(results: Results, file: Path) -> None:
    """Save the raw figures and the comparison."""
    compared = [
        {"title": section.title, "rows": [asdict(row) | {"ratio": row.ratio} for row in section.rows]}
        for section in sections(results)
    ]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({**asdict(results), "comparison": compared}, indent=2, allow_nan=False) + "\n")


if __name__ == "__main__":
    sys.exit(main())
