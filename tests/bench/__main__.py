"""``python -m tests.bench``: this MirrorMaker 2 beside Java's, on the same brokers in one run (docs/benchmarks.md)."""

from __future__ import annotations

import argparse
import json
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

PAGE = ROOT / "docs" / "benchmarks.md"
OUT = ROOT / "build" / "bench.json"


def main() -> int:
    """Run what is asked for; 0 when no tool failed, 1 otherwise, 130 after Ctrl-C. Figures are shown, never judged."""
    options = _options().parse_args()
    plan = Plan(names=tuple(name for name in NAMES if name in options.only), scale=options.scale)
    screen = Screen(Console())
    try:
        results = Benchmark(plan, screen).run(gather(_command(plan)))
    except KeyboardInterrupt:
        screen.say("stopped; nothing is saved")
        return 130
    for item in on_screen(sections(results)):
        screen.say(item)
    _save(results, options.out)
    screen.say(f"saved: {options.out}")
    if options.write_docs and results.failures:
        screen.say("docs/benchmarks.md stays as it is: a run failed")
    elif options.write_docs:
        write_block(PAGE, as_markdown(results.facts, sections(results)))
        screen.say(f"written: {PAGE.relative_to(ROOT)}")
    return 1 if results.failures else 0


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=(__doc__ or "").partition(": ")[2])
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES, help="run these, not all")
    parser.add_argument("--scale", type=_scale, default=1.0, help="share of records and seconds: 0.01 for a quick look")
    parser.add_argument("--out", type=Path, default=OUT, help="where the figures go as JSON (build/bench.json)")
    parser.add_argument("--write-docs", action="store_true", help="also put them into docs/benchmarks.md")
    return parser


def _scale(text: str) -> float:
    number = float(text)
    if number <= 0:
        raise argparse.ArgumentTypeError("must be above 0")
    return number


def _command(plan: Plan) -> str:
    """What to type to repeat this."""
    words = [".venv/bin/python -m tests.bench"]
    if plan.names != NAMES:
        words += ["--only", *plan.names]
    if plan.scale != 1.0:
        words += ["--scale", f"{plan.scale:g}"]
    return " ".join(words)


def _save(results: Results, file: Path) -> None:
    """The raw figures, and the comparison made of them."""
    compared = [
        {"title": section.title, "rows": [asdict(row) | {"ratio": row.ratio} for row in section.rows]}
        for section in sections(results)
    ]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({**asdict(results), "comparison": compared}, indent=2, allow_nan=False) + "\n")


if __name__ == "__main__":
    sys.exit(main())
