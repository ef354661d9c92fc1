"""Which of the shipped alerts fire if what was recorded lasts: evaluated by promtool."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import yaml

from tests.faults.outages.recording import Observation
from tests.lab import scratch
from tests.lab.commands import ROOT
from tests.lab.tools import command

RULES = ROOT / "deploy/monitoring/alerts.yml"
BEFORE = 30  # minutes of the healthy state, longer than the range of any rule that looks for a change
SOON = (1, 2, 3, 5, 6, 8, 11, 16, 21, 31, 45, 61, 90)  # minutes of the fault at which the alerts are read
MUCH_LATER = (25 * 60,)
COARSE = 10  # minutes between evaluations for `MUCH_LATER`: each minute of a day takes 5 s of CPU
LASTS = MUCH_LATER[-1] + 5  # minutes
GROW = 0.5  # per second: an age that grows by less than this does not grow with time
QUERY = 'count by (alertname) (ALERTS{alertstate="firing"})'
GOT = re.compile(r'alertname="(\w+)"')
TIMES_OF_DAY = ("start_time_seconds", "reload_seconds", "since_seconds", "expiry_seconds")
"""Ends of the names of metrics whose values are seconds since 1970; in promtool, time begins at 0."""

Labels = tuple[tuple[str, str], ...]


def firing(before: Sequence[Observation], during: Sequence[Observation], nodes: Iterable[str]) -> dict[str, int]:
    """Return the alerts that fire, with the minute of the fault in which they were first seen.

    ``before`` and ``during`` have the observations of all ``nodes`` in the order of time; the last two of ``during`` go
    on: what grows with time between them grows further. An alert that fires before the fault is an AssertionError.
    """
    series = [one for node in nodes for one in _series_of(node, before, during)]
    directory = scratch.directory("alerts")
    found = _alerts_at((-1, *SOON), 1, series, directory) | _alerts_at(MUCH_LATER, COARSE, series, directory)
    first: dict[str, int] = {}
    for minute, names in found.items():
        for name in names:
            assert minute >= 0, f"{name} fires before the fault"
            first.setdefault(name, minute)
    return first


def _alerts_at(
    moments: Sequence[int], every: int, series: Sequence[dict[str, str]], directory: Path
) -> dict[int, list[str]]:
    """Return the alerts that fire at each of ``moments``, minutes since the fault. ``every``: minutes between two
    evaluations of rules."""
    tests = {
        "rule_files": [str(RULES)],
        "evaluation_interval": f"{every}m",
        "tests": [
            {
                "interval": "1m",
                "input_series": series,
                # a sample that no alert has: promtool prints what it got instead
                "promql_expr_test": [
                    {"expr": QUERY, "eval_time": f"{BEFORE + minute}m", "exp_samples": [{"labels": "{}", "value": -1}]}
                    for minute in moments
                ],
            }
        ],
    }
    file = directory / f"recorded-{every}.yml"
    file.write_text(yaml.safe_dump(tests))
    ended = subprocess.run(
        [command("promtool"), "test", "rules", str(file)], capture_output=True, text=True, check=False
    )
    parts = (ended.stdout + ended.stderr).split("expr: ")[1:]
    assert len(parts) == len(moments), ended.stdout + ended.stderr
    return {moment: sorted(GOT.findall(part.partition("got:")[2])) for moment, part in zip(moments, parts, strict=True)}


def _series_of(node: str, before: Sequence[Observation], during: Sequence[Observation]) -> list[dict[str, str]]:
    """Return the series of one node in promtool's notation, a value for each minute."""
    was = [one for one in before if one.node == node][-2:]
    now = [one for one in during if one.node == node][-2:]
    up = [
        {"series": _name("up", (), node), "values": f"1x{BEFORE - 1} {int(bool(now and now[-1].metrics.code))}x{LASTS}"}
    ]
    earlier, later = _by_series(was), _by_series(now)
    keys = dict.fromkeys((*earlier, *later))
    return up + [
        {
            "series": _name(name, labels, node),
            "values": _values(name, earlier.get((name, labels)), later.get((name, labels))),
        }
        for name, labels in keys
    ]


def _by_series(observations: Sequence[Observation]) -> Mapping[tuple[str, Labels], list[tuple[float, float]]]:
    """Return time and value of each series that the last observation has."""
    found: dict[tuple[str, Labels], list[tuple[float, float]]] = {}
    for one in observations:
        for name, labels, value in one.samples:
            found.setdefault((name, labels), []).append((one.at, value))
    last = observations[-1].at if observations else 0.0
    return {key: points for key, points in found.items() if points[-1][0] == last}


def _values(name: str, was: Sequence[tuple[float, float]] | None, now: Sequence[tuple[float, float]] | None) -> str:
    if name.endswith(TIMES_OF_DAY):  # the fault begins at minute BEFORE
        value = (now or was or ())[-1]
        moment = value[1] - value[0] + 60 * BEFORE if value[1] else value[1]
        return " ".join(
            [f"{moment:.0f}x{BEFORE - 1}" if was else f"_x{BEFORE}", f"{moment:.0f}x{LASTS}" if now else "stale"]
        )
    healthy = f"_x{BEFORE}"
    if was:
        step = _step(name, was)
        first = was[-1][1] - step * (BEFORE - 1)
        healthy = f"{first:.10g}{step:+.10g}x{BEFORE - 1}"
    if not now:
        return f"{healthy} stale"
    step = _step(name, now)
    return f"{healthy} {now[-1][1]:.10g}{step:+.10g}x{LASTS}"


def _step(name: str, points: Sequence[tuple[float, float]]) -> float:
    """Return what the value grows by in a minute, if it goes on as between the last two observations."""
    if len(points) < 2:
        return 0.0
    (earlier, low), (later, high) = points[-2:]
    pace = (high - low) / max(later - earlier, 0.001)
    counts = name.endswith(("_total", "_count", "_sum", "_bucket"))
    return pace * 60 if counts or pace >= GROW else 0.0


def _name(name: str, labels: Labels, node: str) -> str:
    text = ",".join(f"{key}={_quoted(value)}" for key, value in (*labels, ("instance", node), ("job", "mm2")))
    return f"{name}{{{text}}}"


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
