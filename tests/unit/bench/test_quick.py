"""make bench-quick: which checkouts it accepts, its ratios and its verdict."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.bench import quick
from tests.bench.quick import CPU, P99, RATE, ParentError, Run, compared, figures, other_build, verdict
from tests.bench.results import Latency
from tests.lab.commands import ROOT, run_within
from tests.unit.bench.test_results import COPY

BASE: Run = {CPU: 2.0, RATE: 100_000.0, P99: 10.0}
PATIENCE = 120.0  # seconds for Python and its imports on a busy machine


def pairs(*ratios: float, figure: quick.Figure = CPU) -> list[tuple[Run, Run]]:
    """Return pairs that are equal except for one figure."""
    base = BASE[figure]
    assert base is not None
    return [({**BASE, figure: base * ratio}, BASE) for ratio in ratios]


def test_the_ratio_is_the_median_of_the_pairs() -> None:
    cpu, rate, _ = compared(pairs(1.5, 0.9, 1.1))
    assert (cpu.here, cpu.other, cpu.ratio) == pytest.approx((2.2, 2.0, 1.1))
    assert (min(cpu.ratios), max(cpu.ratios)) == pytest.approx((0.9, 1.5))
    assert (rate.ratio, rate.too_bad) == (1.0, False)


@pytest.mark.parametrize(
    ("figure", "ratio", "code"),
    [(CPU, 1.29, 0), (CPU, 1.31, 1), (P99, 1.29, 0), (P99, 1.31, 1), (RATE, 0.71, 0), (RATE, 0.69, 1), (RATE, 2.0, 0)],
)
def test_more_than_30_percent_worse_fails(figure: quick.Figure, ratio: float, code: int) -> None:
    line, found = verdict(compared(pairs(0.01, ratio, 100.0, figure=figure)), beside_build=True)
    assert found == code
    assert (figure.title in line) == bool(code)


def test_beside_java_no_ratio_fails() -> None:
    assert verdict(compared(pairs(9.0)), beside_build=False)[1] == 0


def test_a_run_that_was_too_short_has_no_ratio() -> None:
    short: Run = {**BASE, RATE: None}
    (_, rate, _) = compared([(short, BASE), (BASE, BASE)])
    assert (rate.here, rate.ratios) == (100_000.0, (1.0,))
    found = compared([(short, BASE)])
    line, code = verdict(found, beside_build=True)
    assert code == 1
    assert "records/s: ratio -" in line


def test_figures_of_a_run() -> None:
    latency = Latency(tool="ours-1", records=10, p50_ms=1.0, p99_ms=8.0, max_ms=20.0)
    assert figures(COPY, latency) == {CPU: pytest.approx(5.0), RATE: 100_000.0, P99: 8.0}
    assert figures(replace(COPY, first=COPY.last), latency)[RATE] is None


def checkout(path: Path, python: str | None) -> Path:
    """Make a directory that looks like a checkout, with this script as its Python."""
    (path / "mm2").mkdir(parents=True)
    (path / "mm2/__init__.py").touch()
    if python is not None:
        (path / ".venv/bin").mkdir(parents=True)
        for name in ("python", "mm2"):
            (path / ".venv/bin" / name).write_text(f"#!/bin/sh\n{python}\n")
            (path / ".venv/bin" / name).chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("python", "problem"),
    [
        (None, "no environment in "),
        ("echo /elsewhere/mm2/__init__.py", "its environment runs /elsewhere"),
        ("echo 'ModuleNotFoundError: mm2' >&2; exit 1", "its environment has no mm2: ModuleNotFoundError: mm2"),
    ],
)
def test_a_checkout_without_its_own_environment_is_an_error_with_its_fix(
    tmp_path: Path, python: str | None, problem: str
) -> None:
    path = checkout(tmp_path / "other", python)
    with pytest.raises(ParentError) as raised:
        other_build(path)
    message = str(raised.value)
    assert message.startswith(f"PARENT={path}: {problem}")
    assert message.endswith(f"\nfix: make -C {path} setup")


def test_another_build_runs_its_own_command(tmp_path: Path) -> None:
    path = tmp_path / "other"
    tool = other_build(checkout(path, f"echo {path}/mm2/__init__.py"))
    assert tool.command(Path("a.properties")) == (str(path / ".venv/bin/mm2"), "run", "a.properties")
    assert tool.title == "parent unknown"


def test_a_parent_that_does_not_exist_exits_with_2(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.bench.quick", "--parent", str(tmp_path / "none")]
    ended = run_within(PATIENCE, command, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 2
    assert ended.stderr.splitlines() == [
        f"PARENT={tmp_path / 'none'}: no checkout of mm2",
        f"fix: git worktree add {tmp_path / 'none'} COMMIT; make -C {tmp_path / 'none'} setup",
    ]
